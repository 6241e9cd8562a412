/* random.h - numbers that a seed repeats. */
#pragma once
#include "config/base.h"

struct load_random {
    uint64_t state;
};

/* Wyrand: 64 bits a call, about 1 ns. */
static inline uint64_t
load_random_next(struct load_random *random)
{
    random->state += 0xa0761d6478bd642full;
    __uint128_t product = (__uint128_t)random->state * (random->state ^ 0xe7037ed1a0b428dbull);
    return (uint64_t)(product >> 64) ^ (uint64_t)product;
}

/* Uniform in [0, n); the bias is below n / 2^64. */
static inline uint64_t
load_random_below(struct load_random *random, uint64_t n)
{
    return (uint64_t)(((__uint128_t)load_random_next(random) * n) >> 64);
}

/* Uniform in (0, 1): never one of the ends. */
static inline double
load_random_unit(struct load_random *random)
{
    return ((double)(load_random_next(random) >> 12) + 0.5) * 0x1p-52;
}
