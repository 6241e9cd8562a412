/* histogram.h - log-linear histograms: 32 sub-buckets per power of two, error below 3.2%.
 *
 * One writer, the lcore; any reader at any time. A touched bitmap keeps reading cheap: one bit per 32 buckets.
 * Values from 2^41 on (36 minutes in ns) count in the last bucket; the exact maximum is kept beside. */
#pragma once
#include "config/base.h"
#include "config/sync.h"

#define HISTOGRAM_SUB_BITS     5
#define HISTOGRAM_POWERS       36 /* up to 2^(36 + 5) ns, about 36 minutes */
#define HISTOGRAM_BUCKETS      ((HISTOGRAM_POWERS + 1) << HISTOGRAM_SUB_BITS)
#define HISTOGRAM_BITMAP_WORDS ((HISTOGRAM_BUCKETS / 32 + 63) / 64)

struct histogram {
    /* one writer: relaxed load + relaxed store; readers relaxed */
    _Alignas(CACHE_LINE) _Atomic uint64_t max;
    _Atomic uint64_t sum;
    _Atomic uint64_t touched[HISTOGRAM_BITMAP_WORDS];
    _Alignas(CACHE_LINE) _Atomic uint32_t counts[HISTOGRAM_BUCKETS];
};

/* Index of a value's bucket; values from 2^41 on share the last one. Pure. */
static inline uint32_t
histogram_bucket(uint64_t value)
{
    if (value < (1u << HISTOGRAM_SUB_BITS)) {
        return (uint32_t)value;
    }
    uint32_t power = 63 - (uint32_t)__builtin_clzll(value); /* >= SUB_BITS */
    uint32_t shift = power - HISTOGRAM_SUB_BITS;
    if (shift >= HISTOGRAM_POWERS) {
        return HISTOGRAM_BUCKETS - 1;
    }
    return ((shift + 1) << HISTOGRAM_SUB_BITS) + (uint32_t)((value >> shift) & ((1u << HISTOGRAM_SUB_BITS) - 1));
}

/* Count `value` (ns, requests or bytes, whatever the histogram is of) `times` times. Owner only. Cost: about 2 ns. */
static inline void
histogram_record(struct histogram *histogram, uint64_t value, uint32_t times)
{
    uint32_t bucket = histogram_bucket(value);
    uint32_t group = bucket / 32;
    counter_add(&histogram->counts[bucket], times);
    counter_add(&histogram->sum, value * times);
    if (UNLIKELY(value > load_relaxed(&histogram->max))) {
        store_relaxed(&histogram->max, value);
    }
    uint64_t word = load_relaxed(&histogram->touched[group / 64]);
    uint64_t bit = 1ull << (group % 64);
    if (UNLIKELY(!(word & bit))) {
        store_relaxed(&histogram->touched[group / 64], word | bit);
    }
}

/* A reader's copy, in ordinary memory: merged from any number of histograms. counts are 64-bit here. */
struct histogram_snapshot {
    uint64_t total, max, sum;
    uint64_t counts[HISTOGRAM_BUCKETS];
};

/* Where one reader stopped in one histogram. A word of counts[] wraps at 2^32, so a reader keeps what it saw and adds
 * differences in 32-bit arithmetic; it must come back before 2^32 values fall into one bucket. */
struct histogram_seen {
    uint64_t sum;
    uint32_t counts[HISTOGRAM_BUCKETS];
};

/* Bounds of a bucket: [low, high]. Pure. */
void histogram_bucket_bounds(uint32_t bucket, uint64_t *low, uint64_t *high);
/* Add to `into` what `histogram` counted since `seen` (zeroed: since it was zeroed itself), and move `seen` up. Reads
 * only touched groups. While the owner records, counts, sum and max may be one value apart. */
void histogram_since(struct histogram_snapshot *into, struct histogram_seen *seen, const struct histogram *histogram);
/* Add a snapshot to another. */
void histogram_merge(struct histogram_snapshot *into, const struct histogram_snapshot *from);
/* Value at `percentile` (0..100), nearest rank: monotone in percentile, never above max. 0 when empty. */
uint64_t histogram_percentile(const struct histogram_snapshot *snapshot, double percentile);
