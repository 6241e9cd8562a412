/* number.h - integers and doubles as Redis reads and prints them. Pure; no allocation; no locale. */
#pragma once
#include "config/base.h"

#define NUMBER_INT_BYTES    21 /* "-9223372036854775808" */
#define NUMBER_DOUBLE_BYTES 32 /* shortest text that reads back to the same double, "%.17g" at worst */

/* Redis' string2ll: optional '-', no leading zeros, no spaces, in range. */
bool number_parse_int64(struct slice text, int64_t *out);

/* Redis' getDoubleFromObject: strtod's grammar without leading or trailing spaces, never NaN; "1e400" fails. */
bool number_parse_double(struct slice text, double *out);

/* Return the bytes written, no NUL. */
size_t number_print_int64(char out[NUMBER_INT_BYTES], int64_t value);
size_t number_print_uint64(char out[NUMBER_INT_BYTES], uint64_t value);

/* As ZSCORE answers: integers without a point, "inf", "-inf", else the shortest text that reads back exactly. */
size_t number_print_double(char out[NUMBER_DOUBLE_BYTES], double value);
