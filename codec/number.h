/* number.h - integers and doubles as Redis reads and prints them. Pure; no allocation; no locale. */
#pragma once
#include "config/base.h"

#define NUMBER_INT_BYTES    21 /* "-9223372036854775808" */
#define NUMBER_DOUBLE_BYTES 32 /* shortest text that reads back to the same double, "%.17g" at worst */

/* Redis' string2ll: optional '-', no leading zeros, no spaces, in range. */
bool number_parse_int64(struct slice text, int64_t *out);

#define NUMBER_TEXT_BYTES 1100 /* longest text of a double: the longest exact one has 1,077; 6 ns a byte at worst */

/* Redis' getDoubleFromObject: strtod's grammar in the C locale (hex, inf, infinity), nothing before or after it, never
 * NaN. Correctly rounded. What overflows ("1e400") or vanishes ("1e-400") fails; denormals do not. */
bool number_parse_double(struct slice text, double *out);

/* Return the bytes written, no NUL. */
size_t number_print_int64(char out[NUMBER_INT_BYTES], int64_t value);
size_t number_print_uint64(char out[NUMBER_INT_BYTES], uint64_t value);

/* As ZSCORE answers, in the layout of "%.17g": "inf", "-inf", "-0"; integers below 1e17 without a point; else the
 * shortest digits that read back exactly, with an exponent below 1e-4 and from 1e17. */
size_t number_print_double(char out[NUMBER_DOUBLE_BYTES], double value);
