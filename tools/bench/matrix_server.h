/* matrix_server.h - a sluiced for one row, on this host or by ssh on another one.
 *
 * A shell runs there and reads its commands from us: it starts the server and then waits for the end of its input. So
 * the server ends when we do, however we end, and when the network does. Configuration and password travel in that
 * input; nothing of them is in a command line. */
#pragma once
#include "tools/bench/matrix_plan.h"
#include <sys/types.h>

#define MATRIX_PASSWORD_BYTES 33
#define MATRIX_PATH_BYTES     2048

struct matrix_server {
    pid_t shell;  /* here, of the shell or of ssh; 0: none */
    int lifeline; /* its input */
    char log[MATRIX_PATH_BYTES];

    pid_t pid; /* of sluiced, here; 0: elsewhere */
    char host[64];
    uint16_t port;
    char unix_path[256]; /* empty: none */
    uint16_t floor_port; /* of the bare transport's peer on the other host; 0: none */
};

/* What a server is started with, beyond the row. */
struct matrix_host {
    const char *ssh_target; /* NULL: this host */
    char sluiced[MATRIX_PATH_BYTES];
    char address[64];     /* numeric: where it listens */
    char our_address[64]; /* numeric: what it sees us at */
    char password[MATRIX_PASSWORD_BYTES];
};

/* Settle all fields: resolve plan->address, draw a password. False with a sentence in `why`. */
bool matrix_host_init(struct matrix_host *host, const struct matrix_plan *plan, char *why, size_t why_bytes);
/* Ask the other host for its `sluice-bench machine`; *json is to be freed, NULL where it has none. False: it cannot be
 * reached, or has no sluiced. */
bool matrix_host_probe(const struct matrix_host *host, const char *log, char **json, char *why, size_t why_bytes);

/* Start and wait until it is ready. `device`: interface of an ethernet row, at `device_address`.
 * False with the server's own words in `why`. */
bool matrix_server_start(struct matrix_server *server, const struct matrix_plan *plan, const struct matrix_host *host,
                         const struct matrix_row *row, const char *device, const char *log, char *why,
                         size_t why_bytes);
/* Nothing of it is left afterwards; harmless on one that never started. */
void matrix_server_stop(struct matrix_server *server);
/* It ended by itself: its last words in `why`. */
bool matrix_server_is_dead(const struct matrix_server *server, char *why, size_t why_bytes);
