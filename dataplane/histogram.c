#include "dataplane/histogram.h"

void
histogram_bucket_bounds(uint32_t bucket, uint64_t *low, uint64_t *high)
{
    uint32_t group = bucket >> HISTOGRAM_SUB_BITS;

    if (group == 0) {
        *low = *high = bucket;
        return;
    }
    uint32_t shift = group - 1;
    uint64_t sub = (1u << HISTOGRAM_SUB_BITS) + (bucket & ((1u << HISTOGRAM_SUB_BITS) - 1));
    *low = sub << shift;
    /* The last one also holds everything too large for the others. */
    *high = bucket == HISTOGRAM_BUCKETS - 1 ? UINT64_MAX : *low + (1ull << shift) - 1;
}

void
histogram_since(struct histogram_snapshot *into, struct histogram_seen *seen, const struct histogram *histogram)
{
    for (uint32_t word = 0; word < HISTOGRAM_BITMAP_WORDS; word++) {
        uint64_t touched = load_relaxed(&histogram->touched[word]);
        while (touched != 0) {
            uint32_t first = (word * 64 + (uint32_t)__builtin_ctzll(touched)) * 32;
            touched &= touched - 1;
            for (uint32_t bucket = first; bucket < first + 32; bucket++) {
                uint32_t now = load_relaxed(&histogram->counts[bucket]);
                uint32_t grown = now - seen->counts[bucket];
                seen->counts[bucket] = now;
                into->counts[bucket] += grown;
                into->total += grown;
            }
        }
    }
    uint64_t sum = load_relaxed(&histogram->sum);
    into->sum += sum - seen->sum;
    seen->sum = sum;
    into->max = MAX(into->max, load_relaxed(&histogram->max));
}

void
histogram_merge(struct histogram_snapshot *into, const struct histogram_snapshot *from)
{
    if (from->total == 0) {
        return;
    }
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        into->counts[bucket] += from->counts[bucket];
    }
    into->total += from->total;
    into->sum += from->sum;
    into->max = MAX(into->max, from->max);
}

uint64_t
histogram_percentile(const struct histogram_snapshot *snapshot, double percentile)
{
    if (snapshot->total == 0) {
        return 0;
    }
    /* Nearest rank: the smallest value with at least so many at or below it. 99.9% of 1000 is 999.0000000000001 in
     * doubles and means 999. Not a number: 0. */
    double wanted = percentile > 0 ? percentile * (double)snapshot->total / 100 : 0;
    uint64_t rank = wanted >= (double)snapshot->total ? snapshot->total : (uint64_t)wanted;
    if (rank < snapshot->total && wanted - (double)rank > wanted * 1e-12) {
        rank++;
    }
    rank = MAX(rank, 1);

    uint64_t below = 0, low, high;
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        below += snapshot->counts[bucket];
        if (below >= rank) {
            histogram_bucket_bounds(bucket, &low, &high);
            return MIN(high, snapshot->max);
        }
    }
    return snapshot->max;
}
