/* matrix_plan.h - what a matrix measures: transports x send modes x wires, in rows of one label each. */
#pragma once
#include "tools/bench/bench.h"

#define MATRIX_ROWS_MAX     128u
#define MATRIX_PROVIDER_MAX 32 /* bytes of its name, the NUL included */
#define MATRIX_SETTINGS_MAX 16

enum matrix_transport { MATRIX_FABRIC, MATRIX_KERNEL_TCP, MATRIX_UNIX, MATRIX_ETHERNET };

struct matrix_row {
    enum matrix_transport transport;
    char provider[MATRIX_PROVIDER_MAX]; /* of the fabric */
    enum client_send send;              /* of the fabric */
    enum client_wire wire;
    char label[BENCH_LABEL_BYTES];
};

/* Options; texts are borrowed from the command line. */
struct matrix_plan {
    const char *out;
    const char *providers, *streams, *wires, *sends; /* lists as given; NULL: the defaults */
    uint64_t samples, warmup, value_bytes;
    bool with_floor, restart, list;

    const char *server;            /* [USER@]HOST to start servers on, by ssh; NULL: here */
    const char *address;           /* of that host; NULL: its name */
    const char *sluiced;           /* path of the program; NULL: beside this one */
    struct client_options running; /* a server that runs already: host NULL: none */
    const char *running_unix;
    struct client_options ethernet; /* the ethernet port of one that runs already; host NULL: none */
    const char *password, *user;
    const char *settings[MATRIX_SETTINGS_MAX]; /* NAME=VALUE for the servers that are started */
    uint32_t setting_count;
    int cpu, server_cpu; /* server_cpu -1: not said */

    struct matrix_row rows[MATRIX_ROWS_MAX];
    uint32_t row_count;
};

/* Expand the lists into rows. False with a sentence in `why`: an unknown word, one twice, nothing at all, or what this
 * arrangement of hosts cannot have. */
bool matrix_plan_expand(struct matrix_plan *plan, char *why, size_t why_bytes);

/* Read the command line and expand the plan. -1: go on; else the exit code. In matrix_options.c. */
int matrix_options_read(struct matrix_plan *plan, int argc, char **argv);
