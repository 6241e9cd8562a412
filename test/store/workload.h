/* workload.h - keys and their popularity, for benchmarks and scenarios of the store. */
#pragma once
#include "config/base.h"

#define WORKLOAD_KEY_BYTES 16

/* The n-th key, written to `out`. Cost about 1 ns: it may stand in a measured loop. */
static inline struct slice
workload_key(uint8_t out[WORKLOAD_KEY_BYTES], uint64_t n)
{
    uint64_t words[2] = { n, n * 0x9e3779b97f4a7c15ull };
    memcpy(out, words, sizeof(words));
    return slice_of(out, WORKLOAD_KEY_BYTES);
}

/* xorshift64*; *state is not 0. */
static inline uint64_t
workload_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717ull;
}

/* Below `bound`, which is below 2^32. */
static inline uint64_t
workload_below(uint64_t *state, uint64_t bound)
{
    return (workload_random(state) >> 32) * bound >> 32;
}

/* Ranks 0 .. keys-1, the n-th with a probability of about 1 / (n + 1) ^ theta. */
struct workload_zipf {
    uint64_t keys;
    double theta, alpha, zeta, eta;
};

/* theta in (0, 1). Cost about 50 ns a key, once. */
void workload_zipf_init(struct workload_zipf *zipf, uint64_t keys, double theta);
/* Source: Gray et al., "Quickly Generating Billion-Record Synthetic Databases", SIGMOD 1994. */
uint64_t workload_zipf_next(const struct workload_zipf *zipf, uint64_t *random);

/* Seconds since some moment, and CPU seconds of this thread: other work on a shared machine does not count in it. */
double workload_wall_s(void);
double workload_cpu_s(void);
/* CPUs that this process may use. */
uint32_t workload_cpus(void);
/* Keep the calling thread on the n-th of them. */
void workload_pin(uint32_t n);
/* Resident bytes of this process, huge pages of hugetlbfs excluded. */
uint64_t workload_resident_bytes(void);
