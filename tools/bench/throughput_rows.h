/* throughput_rows.h - what throughput measured: gathered over runs, printed, and added to a result folder. */
#pragma once
#include "tools/bench/counters.h"
#include "tools/bench/generator.h"
#include "tools/bench/stats.h"
#include "tools/bench/target.h"

#define THROUGHPUT_RUNS_MAX 99

/* One load on one server: `runs` times. */
struct measured {
    double rates[THROUGHPUT_RUNS_MAX];
    uint32_t runs;
    uint64_t replies, misses, errors, surprises;
    double seconds;
    uint64_t *ticks; /* of all runs */
    uint64_t tick_count;
    char error[256];
    bool broken;
    /* of all runs; each is only known when every run knew it */
    bool has_cpu, has_instructions, has_busy;
    double cpu_ns, instructions, busy_ns;
    double counted_seconds;
    struct counters counters; /* of the last run */
    /* after measured_finish() */
    double rate; /* median */
    struct summary times;
};

void measured_add(struct measured *measured, const struct generator_result *result, const struct counters *counters);
void measured_finish(struct measured *measured);
void measured_fini(struct measured *measured);

/* What was asked for. */
struct load_case {
    const char *test, *distribution;
    uint32_t connections, depth, value_bytes; /* of a blend: the mean */
    uint64_t keys;
};

enum row_form { ROWS_TABLE, ROWS_QUIET, ROWS_CSV };

void rows_header(enum row_form form);
void row_print(enum row_form form, const struct target *target, const struct load_case *load,
               const struct measured *measured);
/* "1.53x redis-kernel-tcp-resp (median of 5 runs, 1.49 to 1.60)" */
void ratio_print(const struct target *peer, const double *ratios, uint32_t runs);
/* A row of throughput.csv. */
void row_keep(struct targets *targets, const struct target *target, const struct load_case *load,
              const struct measured *measured);
