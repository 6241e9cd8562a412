/* number_double.h - decimal to binary and back for doubles; number.c knows the text, this knows the arithmetic. */
#pragma once
#include "config/base.h"

#define DECIMAL_TAKEN_MAX 19 /* every number of 19 digits fits 64 bits */

/* value * 10^exponent, and something below one unit of the last digit when `more`. */
struct decimal {
    uint64_t value; /* the first significant digits, not 0 */
    int64_t exponent;
    uint32_t taken;              /* digits in `value` */
    bool more;                   /* a digit other than 0 follows those taken */
    const uint8_t *digits, *end; /* the text that `value` begins with, to the last digit; a point perhaps in it */
};

/* The nearest double, ties to even. False: it overflows or vanishes to 0.
 * Cost  a few multiplications; about 2 us for hundreds of digits next to a tie. */
bool double_from_decimal(const struct decimal *decimal, double *out);

/* The same for (bits + something below 1 when `sticky`) * 2^exponent, bits not 0. */
bool double_from_binary(uint64_t bits, bool sticky, int64_t exponent, double *out);

/* The shortest digits, without zeros at their end, that read back to `value`; of several the nearest to it.
 * `value` is finite and above 0; it is the result times 10^*exponent. */
uint64_t double_shortest(double value, int32_t *exponent);
