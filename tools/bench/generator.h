/* generator.h - a closed loop: every connection keeps `depth` requests in flight.
 *
 * Each connection owns a ring of encoded requests; before one is sent again its digits are patched. Sending is one call
 * for all that is due, replies are counted by scanner.h. One thread per worker, no allocation in the loop. */
#pragma once
#include "tools/bench/load.h"

struct generator_plan {
    struct client_options client;
    const struct load_op *ops;
    uint32_t op_count;
    uint32_t value_bytes;
    uint64_t keys; /* key numbers are below this */
    bool in_order; /* key numbers 0, 1, 2 ... instead of random ones: to create objects */
    uint32_t connections, depth;
    uint32_t refill;   /* send when at least so many may be sent: depth for whole batches */
    uint64_t requests; /* of all connections; 0: for `seconds` */
    double seconds;
    uint32_t threads; /* at most connections */
    int cpus[64];     /* of each thread, -1: not pinned */
    bool spin;        /* do not sleep while nothing comes; always so with one connection or on a fabric */
    uint64_t seed;
    bool samples; /* time a request in flight, one at a time for each connection */
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

/* The order in which a mix sends its operations: spread by weight, at most SCANNER_SCHEDULE_MAX entries. */
uint32_t generator_schedule(const struct load_op *ops, uint32_t op_count, uint8_t schedule[SCANNER_SCHEDULE_MAX]);
