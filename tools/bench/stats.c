#include "tools/bench/stats.h"
#include <math.h>

static int
ticks_compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static int
doubles_compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

uint64_t
rank_of(const uint64_t *sorted, uint64_t count, double percent)
{
    /* 99.9 has no exact double: without the hair less, the 999th of 1000 would become the 1000th. */
    uint64_t rank = (uint64_t)ceil(percent / 100 * (double)count - 1e-6);
    return sorted[MIN(MAX(rank, (uint64_t)1), count) - 1];
}

struct summary
summary_of(uint64_t *ticks, uint64_t count, double ns_per_tick)
{
    if (count == 0) {
        return (struct summary){ 0 };
    }
    qsort(ticks, count, sizeof(*ticks), ticks_compare);
    double sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        sum += (double)ticks[i];
    }
    double us = ns_per_tick / 1000, mean_us = sum / (double)count * us;
    return (struct summary){
        .samples = count,
        .min_us = (double)ticks[0] * us,
        .p50_us = (double)rank_of(ticks, count, 50) * us,
        .p75_us = (double)rank_of(ticks, count, 75) * us,
        .p90_us = (double)rank_of(ticks, count, 90) * us,
        .p95_us = (double)rank_of(ticks, count, 95) * us,
        .p99_us = (double)rank_of(ticks, count, 99) * us,
        .p99_9_us = (double)rank_of(ticks, count, 99.9) * us,
        .p99_99_us = (double)rank_of(ticks, count, 99.99) * us,
        .max_us = (double)ticks[count - 1] * us,
        .mean_us = mean_us,
        .qps = mean_us > 0 ? 1e6 / mean_us : 0,
    };
}

double
median_of(double *values, uint32_t count)
{
    if (count == 0) {
        return 0;
    }
    qsort(values, count, sizeof(*values), doubles_compare);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

void
summary_csv_header(FILE *to)
{
    fprintf(
        to,
        "label,operation,min_us,p50_us,p75_us,p90_us,p95_us,p99_us,p99_9_us,p99_99_us,max_us,mean_us,qps,samples\n");
}

void
summary_csv_row(FILE *to, const char *label, const char *operation, const struct summary *s)
{
    fprintf(to, "%s,%s,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%.0f,%llu\n", label, operation, s->min_us,
            s->p50_us, s->p75_us, s->p90_us, s->p95_us, s->p99_us, s->p99_9_us, s->p99_99_us, s->max_us, s->mean_us,
            s->qps, (unsigned long long)s->samples);
}
