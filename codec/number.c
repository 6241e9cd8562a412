/* number.c - integers as text, and the grammar of doubles; their arithmetic is in number_double.c. */
#include "codec/number.h"
#include "codec/number_double.h"

/* "00" "01" ... "99" */
static const char pairs[200] = "0001020304050607080910111213141516171819"
                               "2021222324252627282930313233343536373839"
                               "4041424344454647484950515253545556575859"
                               "6061626364656667686970717273747576777879"
                               "8081828384858687888990919293949596979899";

#define INT64_DIGITS 19 /* so many never wrap 64 bits */

bool
number_parse_int64(struct slice text, int64_t *out)
{
    const uint8_t *at = text.data, *end = text.data + text.bytes;
    bool negative = false;
    uint64_t value;

    if (text.bytes == 0 || text.bytes >= NUMBER_INT_BYTES) {
        return false;
    }
    if (text.bytes == 1 && *at == '0') {
        *out = 0;
        return true;
    }
    if (*at == '-') {
        negative = true;
        if (++at == end) {
            return false;
        }
    }
    if (*at < '1' || *at > '9' || end - at > INT64_DIGITS) {
        return false;
    }
    value = *at++ - '0';
    for (; at < end; at++) {
        uint32_t digit = (uint32_t)*at - '0';
        if (digit > 9) {
            return false;
        }
        value = value * 10 + digit;
    }
    if (negative) {
        if (value > (uint64_t)INT64_MAX + 1) {
            return false;
        }
        *out = (int64_t)(0 - value);
        return true;
    }
    if (value > INT64_MAX) {
        return false;
    }
    *out = (int64_t)value;
    return true;
}

static inline uint32_t
digits_count(uint64_t value)
{
    static const uint64_t tens[20] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,
                                       1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19 };
    value |= 1; /* 0 has one digit too, and no power of ten above 1 is odd */
    uint32_t least = (64 - (uint32_t)__builtin_clzll(value)) * 1233 >> 12; /* bits by log10(2): right or one short */
    return least + (value >= tens[least]);
}

/* At most 20 digits. */
static size_t
digits_print_long(char *out, uint64_t value)
{
    uint32_t count = digits_count(value), at = count;

    while (at >= 2) {
        uint64_t rest = value / 100;
        at -= 2;
        memcpy(out + at, pairs + 2 * (value - rest * 100), 2);
        value = rest;
    }
    if (at > 0) {
        *out = (char)('0' + value);
    }
    return count;
}

/* At most 20 digits; one pair, what most counters are, without a loop. */
static inline size_t
digits_print(char *out, uint64_t value)
{
    if (value < 100) {
        const char *pair = pairs + 2 * value;
        size_t count = 1 + (value >= 10);
        out[0] = pair[value < 10];
        out[count - 1] = pair[1];
        return count;
    }
    return digits_print_long(out, value);
}

size_t
number_print_uint64(char out[NUMBER_INT_BYTES], uint64_t value)
{
    return digits_print(out, value);
}

size_t
number_print_int64(char out[NUMBER_INT_BYTES], int64_t value)
{
    if (value >= 0) {
        return digits_print(out, (uint64_t)value);
    }
    out[0] = '-';
    return 1 + digits_print(out + 1, 0 - (uint64_t)value);
}

/* Read "[+-]digits" up to `end`. A value that no text of NUMBER_TEXT_BYTES can bring back into range saturates. */
static bool
exponent_read(const uint8_t *at, const uint8_t *end, int64_t *out)
{
    const int64_t beyond = 1000000;
    bool negative = false;
    int64_t value = 0;

    if (at < end && (*at == '+' || *at == '-')) {
        negative = *at++ == '-';
    }
    if (at == end) {
        return false;
    }
    for (; at < end; at++) {
        uint32_t digit = (uint32_t)*at - '0';
        if (digit > 9) {
            return false;
        }
        if (value < beyond) {
            value = value * 10 + digit;
        }
    }
    *out = negative ? -value : value;
    return true;
}

static int32_t
hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* What follows "0x": hex digits with at most one point, then perhaps p and a binary exponent. */
static bool
hex_read(const uint8_t *at, const uint8_t *end, double *out)
{
    uint64_t bits = 0;
    int64_t exponent = 0, extra = 0;
    bool sticky = false, point = false, any = false;

    for (; at < end; at++) {
        int32_t digit = hex_digit(*at);
        if (*at == '.' && !point) {
            point = true;
            continue;
        }
        if (digit < 0) {
            break;
        }
        any = true;
        if (bits >> 60 == 0) {
            bits = bits << 4 | (uint32_t)digit;
            exponent -= point ? 4 : 0;
        } else { /* no room: the digit only says whether anything follows */
            sticky |= digit != 0;
            exponent += point ? 0 : 4;
        }
    }
    if (!any) {
        return false;
    }
    if (at < end && ((*at | 0x20) != 'p' || !exponent_read(at + 1, end, &extra))) {
        return false;
    }
    if (bits == 0) {
        *out = 0;
        return true;
    }
    return double_from_binary(bits, sticky, exponent + extra, out);
}

/* Digits with at most one point, of any number; returns where they end, NULL without a digit. */
static const uint8_t *
digits_read_long(const uint8_t *at, const uint8_t *end, struct decimal *decimal)
{
    bool point = false, any = false;

    for (; at < end; at++) {
        uint32_t digit = (uint32_t)*at - '0';
        if (digit > 9) {
            if (*at != '.' || point) {
                break;
            }
            point = true;
            continue;
        }
        any = true;
        if (decimal->taken < DECIMAL_TAKEN_MAX) {
            if (decimal->value == 0) {
                decimal->digits = at; /* a zero is corrected by the next digit */
            }
            decimal->value = decimal->value * 10 + digit;
            decimal->taken += decimal->value != 0;
            decimal->exponent -= point;
        } else {
            decimal->more |= digit != 0;
            decimal->exponent += !point;
        }
    }
    decimal->end = at;
    return any ? at : NULL;
}

/* The same; quick for as many digits as fit `value`, zeros in front included. */
static const uint8_t *
digits_read(const uint8_t *at, const uint8_t *end, struct decimal *decimal)
{
    const uint8_t *start = at;
    uint64_t value = 0;
    size_t digits, fraction = 0;

    for (; at < end && (uint32_t)*at - '0' <= 9; at++) {
        value = value * 10 + (*at - '0');
    }
    digits = (size_t)(at - start);
    if (at < end && *at == '.') {
        const uint8_t *point = at++;
        for (; at < end && (uint32_t)*at - '0' <= 9; at++) {
            value = value * 10 + (*at - '0');
        }
        fraction = (size_t)(at - point) - 1;
        digits += fraction;
    }
    if (digits == 0) {
        return NULL;
    }
    if (UNLIKELY(digits > DECIMAL_TAKEN_MAX)) { /* `value` has wrapped */
        return digits_read_long(start, end, decimal);
    }
    decimal->value = value;
    decimal->exponent = -(int64_t)fraction;
    decimal->taken = (uint32_t)digits;
    decimal->digits = start;
    decimal->end = at;
    return at;
}

/* Digits, then perhaps e and a decimal exponent. */
static bool
decimal_read(const uint8_t *at, const uint8_t *end, double *out)
{
    struct decimal decimal = { 0 };
    int64_t extra = 0;

    at = digits_read(at, end, &decimal);
    if (at == NULL || (at < end && ((*at | 0x20) != 'e' || !exponent_read(at + 1, end, &extra)))) {
        return false;
    }
    if (decimal.value == 0) {
        *out = 0;
        return true;
    }
    decimal.exponent += extra;
    return double_from_decimal(&decimal, out);
}

bool
number_parse_double(struct slice text, double *out)
{
    const uint8_t *at = text.data, *end = text.data + text.bytes;
    bool negative = false, good;

    if (text.bytes == 0 || text.bytes > NUMBER_TEXT_BYTES) {
        return false;
    }
    if (*at == '-' || *at == '+') {
        negative = *at++ == '-';
    }
    struct slice rest = slice_of(at, (size_t)(end - at));
    if (rest.bytes > 2 && at[0] == '0' && (at[1] | 0x20) == 'x') {
        good = hex_read(at + 2, end, out);
    } else if (slice_equal_nocase(rest, "inf") || slice_equal_nocase(rest, "infinity")) {
        *out = __builtin_inf();
        good = true;
    } else {
        good = decimal_read(at, end, out);
    }
    if (good && negative) {
        *out = -*out;
    }
    return good;
}

/* Lay `count` digits out around the point: "0.000ddd", "dd.ddd". Integers without a point never come here. */
static size_t
fixed_print(char *out, const char *digits, int32_t count, int32_t magnitude)
{
    char *at = out;

    if (magnitude < 0) {
        memcpy(at, "0.0000", 6);
        at += 1 - magnitude; /* -1: "0."; -4: "0.000" */
        memcpy(at, digits, (size_t)count);
        return (size_t)(at + count - out);
    }
    memcpy(at, digits, (size_t)magnitude + 1);
    at += magnitude + 1;
    *at++ = '.';
    memcpy(at, digits + magnitude + 1, (size_t)(count - magnitude - 1));
    return (size_t)(at + (count - magnitude - 1) - out);
}

/* "d.ddde+XX": at least two digits of exponent, as printf. */
static size_t
scientific_print(char *out, const char *digits, int32_t count, int32_t magnitude)
{
    char *at = out;

    *at++ = digits[0];
    if (count > 1) {
        *at++ = '.';
        memcpy(at, digits + 1, (size_t)count - 1);
        at += count - 1;
    }
    *at++ = 'e';
    *at++ = magnitude < 0 ? '-' : '+';
    uint32_t distance = magnitude < 0 ? (uint32_t)-magnitude : (uint32_t)magnitude;
    if (distance >= 100) {
        *at++ = (char)('0' + distance / 100);
        distance %= 100;
    }
    memcpy(at, pairs + 2 * distance, 2);
    return (size_t)(at + 2 - out);
}

size_t
number_print_double(char out[NUMBER_DOUBLE_BYTES], double value)
{
    char digits[20];
    size_t sign = 0;
    int32_t exponent;

    if (__builtin_isnan(value)) {
        memcpy(out, "nan", 3);
        return 3;
    }
    if (__builtin_signbit(value)) {
        *out++ = '-';
        value = -value;
        sign = 1;
    }
    if (value < 1e17 && value == (double)(uint64_t)value) {
        return sign + digits_print(out, (uint64_t)value);
    }
    if (__builtin_isinf(value)) {
        memcpy(out, "inf", 3);
        return sign + 3;
    }

    int32_t count = (int32_t)digits_print(digits, double_shortest(value, &exponent));
    int32_t magnitude = exponent + count - 1;
    if (magnitude >= -4 && magnitude < 17) {
        return sign + fixed_print(out, digits, count, magnitude);
    }
    return sign + scientific_print(out, digits, count, magnitude);
}
