/* workload.h - what throughput and open ask a server for, as their command lines say it. */
#pragma once
#include "tools/bench/bench.h"
#include "tools/bench/load.h"

#define WORKLOAD_TESTS_MAX 32
#define WORKLOAD_SIZES_MAX 16

#define WORKLOAD_LETTERS "d:r:t:"

enum workload_option {
    WORKLOAD_MIX = BENCH_OWN,
    WORKLOAD_SIZES,
    WORKLOAD_ZIPF,
    WORKLOAD_SEED,
    WORKLOAD_LOAD,
    WORKLOAD_OWN, /* first value for a command's own options */
};

#define WORKLOAD_OPTIONS                                                                                               \
    { "mix", required_argument, NULL, WORKLOAD_MIX }, { "sizes", required_argument, NULL, WORKLOAD_SIZES },            \
        { "zipf", required_argument, NULL, WORKLOAD_ZIPF }, { "seed", required_argument, NULL, WORKLOAD_SEED },        \
    {                                                                                                                  \
        "load", no_argument, NULL, WORKLOAD_LOAD                                                                       \
    }

#define WORKLOAD_USAGE                                                                                                 \
    "  --mix TEST:WEIGHT,...         in turns on the same connections, instead of -t\n"                                \
    "  --sizes BYTES:WEIGHT,...      values of several sizes in one run, instead of -d\n"                              \
    "  -r KEYS                       key numbers are below this (1)\n"                                                 \
    "  --zipf THETA                  few keys are popular: the n-th with 1/n^THETA, 0.99 is usual (all alike)\n"       \
    "  --load                        first create what the tests read: all -r keys\n"                                  \
    "  --seed N                      of keys and values (1)\n"

#define WORKLOAD_COMMAND_USAGE                                                                                         \
    "A COMMAND may hold __key__ or __rand_int__ (12 digits below -r), __score__ (6 digits), __small__ (a digit) and\n" \
    "__data__ (-d bytes).\n"

struct workload {
    struct load_op tests[WORKLOAD_TESTS_MAX];
    uint32_t test_count;
    bool mix; /* the tests are one run */
    uint64_t sizes[WORKLOAD_SIZES_MAX];
    uint32_t size_count;
    /* a blend: all sizes in one run, each this often */
    bool blend;
    uint32_t size_weights[WORKLOAD_SIZES_MAX];
    uint64_t keys, seed;
    bool with_load;
    double theta; /* 0: uniform */
    struct zipf zipf;
};

/* `tests`: of -t, when none is given. */
void workload_init(struct workload *workload, const char *tests);
/* 1: taken; 0: not one of ours; -1: a bad value, complained. */
int workload_option(struct workload *workload, int option, const char *value);
/* The words behind the options: one test of the user's own. They are borrowed, and __rand_int__ becomes __key__ there.
 */
bool workload_command(struct workload *workload, int count, char **words);
/* After the last option. False: complained. */
bool workload_finish(struct workload *workload);

/* Runs that the tests make, one after the other; and those that the sizes make of each. */
uint32_t workload_runs(const struct workload *workload);
uint32_t workload_size_runs(const struct workload *workload);

#define WORKLOAD_NAME_BYTES 32

/* One of these runs. */
struct workload_run {
    char name[WORKLOAD_NAME_BYTES];
    struct load_op ops[LOAD_OPS_MAX];
    struct load_plan plan; /* points to `ops` */
    uint32_t value_bytes;  /* of a blend: the mean */
};
void workload_run_make(const struct workload *workload, uint32_t test, uint32_t size, struct workload_run *run);

/* What creates every key that the tests read, run by run. False: there is no `index`-th. */
bool workload_fill_make(const struct workload *workload, uint32_t index, uint32_t size, struct workload_run *run);

/* "uniform", "zipf-0.99" */
void workload_distribution(const struct workload *workload, char *text, size_t text_bytes);
