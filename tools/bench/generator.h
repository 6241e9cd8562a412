/* generator.h - a closed loop: every connection keeps `depth` requests in flight.
 *
 * One send for all that is due on a connection (pipeline.h). One thread per worker, no allocation in the loop. A closed
 * loop asks nothing while the server pauses, so that a pause is one sample of many: open_loop.h shows pauses. */
#pragma once
#include "tools/bench/pipeline.h"

struct generator_plan {
    struct client_options client;
    struct load_plan load;
    uint32_t connections, depth;
    uint32_t refill;   /* send when at least so many may be sent: depth for whole batches */
    uint64_t requests; /* of all connections; 0: for `seconds` */
    double seconds;
    uint32_t threads;     /* at most connections */
    int cpus[64];         /* of each thread, -1: not pinned */
    bool spin;            /* do not sleep while nothing comes; always so with one connection or on a fabric */
    const char *progress; /* NULL: no bar */
    bool samples;         /* time a request in flight, one at a time for each connection */
};

#define GENERATOR_SAMPLES_MAX (1u << 18) /* of each thread */

struct generator_result {
    uint64_t replies, misses, errors, surprises;
    double seconds;
    uint64_t *ticks; /* samples, cycles; free() it */
    uint64_t tick_count;
    char error[256]; /* of the first error or surprise; or why the run ended early */
    bool broken;     /* it ended early */
};

/* False: nothing ran, `why` says why. Ctrl-C ends a run early, with what was counted. */
bool generator_run(const struct generator_plan *plan, struct generator_result *result, char *why, size_t why_bytes);
