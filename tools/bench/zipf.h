/* zipf.h - keys of which few are asked for most of the time. */
#pragma once
#include "tools/bench/random.h"

#define ZIPF_KEYS_MAX  1000000000000 /* 10^12: a key number has 12 digits */
#define ZIPF_THETA_MAX 5.0

#define ZIPF_CELLS 65536

/* Rank r of `keys`, counted from 1, is drawn with probability r^-theta / (1^-theta + ... + keys^-theta). */
struct zipf {
    uint64_t keys;
    uint64_t stride; /* between the keys of two neighbouring ranks; no common divisor with `keys` */
    double theta, reach, low, high;
    double near; /* a point no further than this to the left of its rank needs no second look */
    /* Equal parts of the random numbers: the rank that all of a part gives, or 0. */
    uint32_t cells[ZIPF_CELLS];
};

/* keys in [1, ZIPF_KEYS_MAX], theta in (0, ZIPF_THETA_MAX]. Cost: a few ms, whatever `keys` is. */
void zipf_init(struct zipf *zipf, uint64_t keys, double theta);

/* A rank in [1, keys], from exactly this distribution (but for rounding of doubles).
 *
 * Cost    for the popular ranks one load of the table; for the others two or three logarithms and exponentials, 40 ns.
 * Source  rejection-inversion: W. Hoermann and G. Derflinger, "Rejection-inversion to generate variates from monotone
 *         discrete distributions", ACM TOMACS 6 (1996). */
uint64_t zipf_rank(const struct zipf *zipf, struct load_random *random);

/* The key number in [0, keys) of a rank: each has its own, and the popular ones do not lie side by side. */
static inline uint64_t
zipf_key(const struct zipf *zipf, uint64_t rank)
{
    return rank * zipf->stride % zipf->keys;
}
