/* target.h - the servers that one load is put on in turns, ours and peers, and the folder where results go. */
#pragma once
#include "tools/bench/bench.h"
#include "tools/bench/metadata.h"
#include "tools/bench/workload.h"
#include <sys/types.h>

#define TARGETS_MAX 4

enum { TARGET_EXIT_FAILED = 1, TARGET_EXIT_NO_CONNECTION = 3, TARGET_EXIT_INTERRUPTED = 130 };

enum target_option {
    TARGET_PEER = WORKLOAD_OWN,
    TARGET_SERVER_PID,
    TARGET_PAUSE,
    TARGET_LABEL,
    TARGET_OUT,
    TARGET_OWN, /* first value for a command's own options */
};

#define TARGET_OPTIONS                                                                                                 \
    { "peer", required_argument, NULL, TARGET_PEER }, { "server-pid", required_argument, NULL, TARGET_SERVER_PID },    \
        { "pause", required_argument, NULL, TARGET_PAUSE }, { "label", required_argument, NULL, TARGET_LABEL },        \
    {                                                                                                                  \
        "out", required_argument, NULL, TARGET_OUT                                                                     \
    }

#define TARGET_USAGE                                                                                                   \
    "  --peer [NAME=]HOST:PORT[@PID] the same load on another server, in turns, on RESP over TCP or a Unix socket;\n"  \
    "                                process PID is stopped while others are measured; up to 3 times;\n"               \
    "                                memcached, with a wire of its own, is compared by sluice-bench sweep\n"           \
    "  --pause PID                   stop this process, the server's, while a peer is measured\n"                      \
    "  --label TEXT                  in the first column\n"                                                            \
    "  --out DIR                     add to a result folder\n"

struct target {
    struct client_options client;
    char label[BENCH_LABEL_BYTES];
    pid_t pid;     /* whose work is counted; 0: unknown */
    bool may_stop; /* while others are measured */
    bool is_stopped;
    const char *control; /* management socket; NULL: unknown */
    char lcores[16];     /* as the server says; "" */
};

struct targets {
    struct bench_connection connection;
    struct target targets[TARGETS_MAX]; /* the first one is ours */
    uint32_t count;
    const char *peers[TARGETS_MAX]; /* as given, at their places in `targets` */
    const char *label, *folder;     /* NULL: none */
    struct metadata *metadata;      /* NULL: no folder */
    bool failed;                    /* something could not be written */
};

void targets_init(struct targets *targets);
/* 1: taken; 0: not one of ours; -1: a bad value, complained. Connection options are among ours. */
int targets_option(struct targets *targets, int option, const char *value);
/* After the last option; makes the folder. False: complained. */
bool targets_finish(struct targets *targets, int argc, char *const *argv);

/* Let this one run and stop the others, as far as they may be stopped. */
void targets_turn(struct targets *targets, uint32_t index);
/* All go on. */
void targets_resume(struct targets *targets);

/* Ask for its number of lcores. False with a sentence in `why`: it cannot be reached. */
bool target_ask(struct target *target, char *why, size_t why_bytes);

/* A number of INFO, or of DBSIZE (`field` NULL). False: the server does not say. */
bool target_number(const struct target *target, const char *field, uint64_t *number);

/* Warn on stderr, and in the folder. */
void targets_warn(struct targets *targets, const char *text);
/* Open a table of the folder to add rows. NULL: no folder, or complained. */
FILE *targets_table(struct targets *targets, const char *name, const char *header);
/* Complain when its rows could not be written. */
void targets_table_close(struct targets *targets, FILE *file, const char *name);
/* A row of unavailable.csv: this could not be measured. */
void targets_unavailable(struct targets *targets, const char *label, const char *error);
/* Write the metadata. False: something of the folder failed. */
bool targets_end(struct targets *targets);

/* Whether all pids are known whose work is no stranger's; those in `quiet`. Returns how many, 0: not all are known. */
uint32_t targets_pids(const struct targets *targets, pid_t quiet[TARGETS_MAX]);
