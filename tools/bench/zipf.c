/* zipf.c - rejection-inversion, and a table of what it gives for the popular ranks. */
#include "tools/bench/zipf.h"
#include <math.h>

/* Products with a key number stay below 2^64: 10^12 < 2^40. */
#define STRIDE_BITS    24
#define GOLDEN         0.6180339887498949
/* Nearer to 1 than this theta counts as 1: the integral's own formula would lose more digits than that changes. */
#define THETA_NEAR_ONE 1e-7

/* The integral of x^-theta, and its inverse. */
static double
integral(const struct zipf *zipf, double x)
{
    return zipf->reach == 0 ? log(x) : (exp(zipf->reach * log(x)) - 1) / zipf->reach;
}

static double
integral_inverse(const struct zipf *zipf, double y)
{
    return zipf->reach == 0 ? exp(y) : exp(log(MAX(1 + y * zipf->reach, 0x1p-1000)) / zipf->reach);
}

static double
height(const struct zipf *zipf, double x)
{
    return exp(-zipf->theta * log(x));
}

static uint64_t
divisor_greatest(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The rank that a point between low and high falls to, 0: it is to be drawn again. */
static uint64_t
rank_at(const struct zipf *zipf, double y)
{
    double x = integral_inverse(zipf, y);
    double rank = MIN(MAX(floor(x + 0.5), 1.0), (double)zipf->keys);
    bool good = rank - x <= zipf->near || y >= integral(zipf, rank + 0.5) - height(zipf, rank);
    return good ? (uint64_t)rank : 0;
}

static double
point_of(const struct zipf *zipf, double unit)
{
    return zipf->low + unit * (zipf->high - zipf->low);
}

void
zipf_init(struct zipf *zipf, uint64_t keys, double theta)
{
    CHECK(keys > 0 && keys <= ZIPF_KEYS_MAX && theta > 0 && theta <= ZIPF_THETA_MAX);
    zipf->keys = keys;
    zipf->theta = theta;
    zipf->reach = fabs(1 - theta) < THETA_NEAR_ONE ? 0 : 1 - theta;
    /* Rank k owns the points from k - 1/2 to k + 1/2; the first one only so many of its own as it weighs. */
    zipf->low = integral(zipf, 1.5) - 1;
    zipf->high = integral(zipf, (double)keys + 0.5);
    zipf->near = 2 - integral_inverse(zipf, integral(zipf, 2.5) - height(zipf, 2));
    zipf->stride = (uint64_t)(GOLDEN * (double)MIN(keys, (uint64_t)1 << STRIDE_BITS)) | 1;
    while (divisor_greatest(zipf->stride, keys) != 1) {
        zipf->stride += 2;
    }
    /* What a rank keeps is one piece, at the upper end of its points: a cell with both ends in it lies within. */
    for (uint32_t i = 0; i < ZIPF_CELLS; i++) {
        uint64_t first = rank_at(zipf, point_of(zipf, (double)i / ZIPF_CELLS));
        uint64_t last = rank_at(zipf, point_of(zipf, (double)(i + 1) / ZIPF_CELLS));
        zipf->cells[i] = first == last && first <= UINT32_MAX ? (uint32_t)first : 0;
    }
}

uint64_t
zipf_rank(const struct zipf *zipf, struct load_random *random)
{
    for (;;) {
        uint64_t number = load_random_next(random), rank = zipf->cells[number >> 48];
        if (rank == 0) {
            rank = rank_at(zipf, point_of(zipf, ((double)(number >> 12) + 0.5) * 0x1p-52));
        }
        if (rank != 0) {
            return rank;
        }
    }
}
