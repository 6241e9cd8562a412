/* stats.h - exact ranks from every sample, and medians of runs. */
#pragma once
#include "config/base.h"

/* Ranks are nearest ranks: the p-th percentile of n samples is the ceil(p * n / 100)-th smallest. */
struct summary {
    uint64_t samples;
    double min_us, p50_us, p75_us, p90_us, p95_us, p99_us, p99_9_us, p99_99_us, max_us, mean_us;
    double qps; /* of one after the other: 1 / mean */
};

/* Sorts `ticks` in place. All zero for no samples. */
struct summary summary_of(uint64_t *ticks, uint64_t count, double ns_per_tick);

/* Nearest rank; `sorted` is ascending, count > 0, 0 < percent <= 100. */
uint64_t rank_of(const uint64_t *sorted, uint64_t count, double percent);

/* Of an even number: the mean of the two in the middle. Sorts in place; 0 for none. */
double median_of(double *values, uint32_t count);

/* "label,operation,min_us,...": the header, and a row. */
void summary_csv_header(FILE *to);
void summary_csv_row(FILE *to, const char *label, const char *operation, const struct summary *summary);
