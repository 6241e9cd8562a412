/* store_bench.h - one store and the measurements on it: the parts of store-bench. */
#pragma once
#include "store/store.h"
#include "test/store/workload.h"
#include <pthread.h>

#define BENCH_LCORES_MAX  16
#define BENCH_BURST_MAX   32
#define BENCH_VALUE_BYTES 32
#define BENCH_THETA       0.99 /* of the zipf distribution */

enum bench_operation { BENCH_GET, BENCH_SET, BENCH_MIX /* 90% GET, 10% SET */ };

struct bench {
    struct store *store;
    struct store_member *members[BENCH_LCORES_MAX];
    uint64_t keys;
    struct workload_zipf zipf;
    pthread_t manager; /* the management core: pages, stalls */
    bool managed;
    _Atomic bool stop;
    /* of the load */
    double load_ns;                         /* of CPU, a key */
    double resident, records, index, slack; /* bytes an entry: RSS delta, and as the store counts */
    uint64_t longest_chain;
};

/* One line of the result. */
struct bench_row {
    enum bench_operation operation;
    bool zipf;     /* else uniform */
    bool distinct; /* every lcore has keys of its own; else all share all */
    uint32_t lcores, burst;
    double seconds; /* how long; 0: */
    uint64_t ops;   /* how many */
    /* results */
    double ns;             /* of an lcore's CPU, an operation */
    double million_second; /* operations of all lcores by the wall's clock */
    double waits;          /* turns spent waiting, an operation: for memory, or for another lcore to quiesce. Many of
                              them, and `ns` with them, mean that an lcore was not running */
};

/* Open a store for `lcores` members and put `keys` keys of 16 bytes with values of 32 bytes into it. Without `managed`
 * there is no thread but the caller's: what callgrind counts then repeats. */
void bench_open(struct bench *bench, uint64_t keys, uint32_t lcores, bool managed);
void bench_close(struct bench *bench);
/* Fill in the results of a row. */
void bench_measure(struct bench *bench, struct bench_row *row);
