#include "tools/bench/hlog_read.h"
#include <errno.h>
#include <math.h>
#include <zlib.h>

#define COOKIE_V2            0x1c849303u
#define COOKIE_V2_COMPRESSED 0x1c849304u
#define COOKIE_SIZE_BITS     0xf0u
#define COMPACT_BYTES        8
#define HEADER_BYTES         40
#define PLAIN_BYTES_MAX      (8u << 20)
#define DIGITS_MAX           5
#define BUCKETS_MAX          (1u << 22)
#define BUCKETS_STEP         4096

static bool
fail(char why[HLOG_READ_WHY_BYTES], const char *what)
{
    snprintf(why, HLOG_READ_WHY_BYTES, "%s", what);
    return false;
}

static uint64_t
big_endian(const uint8_t *bytes, uint32_t count)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < count; i++) {
        value = value << 8 | bytes[i];
    }
    return value;
}

/* In place. Returns bytes; SIZE_MAX: no base64. */
static size_t
base64_decode(char *text)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t *to = (uint8_t *)text;
    uint32_t word = 0, bits = 0;
    char *at = text;
    for (; *at != '\0' && *at != '='; at++) {
        const char *letter = strchr(letters, *at);
        if (letter == NULL) {
            return SIZE_MAX;
        }
        word = word << 6 | (uint32_t)(letter - letters);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            *to++ = (uint8_t)(word >> bits);
        }
    }
    return at[strspn(at, "=")] == '\0' ? (size_t)(to - (uint8_t *)text) : SIZE_MAX;
}

/* ZigZag LEB128 of at most nine bytes, all eight bits of the ninth. Returns bytes; 0: cut off. */
static size_t
number_decode(const uint8_t *bytes, size_t left, int64_t *number)
{
    uint64_t value = 0;
    for (size_t i = 0; i < MIN(left, 9); i++) {
        value |= (uint64_t)(i < 8 ? bytes[i] & 0x7f : bytes[i]) << (7 * i);
        if (i == 8 || bytes[i] < 0x80) {
            *number = (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
            return i + 1;
        }
    }
    return 0;
}

/* Buckets of a histogram: 2^half_bits of them for each doubling, twice as many for the first. */
struct scale {
    uint32_t unit_bits, half_bits;
};

static uint64_t
highest_of(struct scale scale, uint32_t index)
{
    uint32_t half = 1u << scale.half_bits, power = index < 2 * half ? 0 : index / half - 1;
    uint64_t sub = index - (uint64_t)power * half;
    uint32_t shift = power + scale.unit_bits;
    return shift > 50 ? UINT64_MAX : ((sub + 1) << shift) - 1;
}

static void
buckets_grow(struct hlog_reading *reading, struct scale scale, uint32_t buckets)
{
    if (buckets <= reading->buckets) {
        return;
    }
    buckets = (uint32_t)ALIGN_UP(buckets, BUCKETS_STEP);
    reading->counts = realloc(reading->counts, buckets * sizeof(*reading->counts));
    reading->highest = realloc(reading->highest, buckets * sizeof(*reading->highest));
    CHECK(reading->counts != NULL && reading->highest != NULL);
    for (; reading->buckets < buckets; reading->buckets++) {
        reading->counts[reading->buckets] = 0;
        reading->highest[reading->buckets] = highest_of(scale, reading->buckets);
    }
}

static bool
counts_decode(struct hlog_reading *reading, struct scale scale, const uint8_t *bytes, size_t left,
              char why[HLOG_READ_WHY_BYTES])
{
    uint32_t index = 0;
    while (left > 0) {
        int64_t number;
        size_t used = number_decode(bytes, left, &number);
        uint64_t step = number < 0 ? 0 - (uint64_t)number : 1;
        if (used == 0 || step > BUCKETS_MAX - index || number > INT64_MAX / 2 - (int64_t)reading->samples) {
            return fail(why, "its counts are damaged");
        }
        if (number > 0) {
            buckets_grow(reading, scale, index + 1);
            reading->counts[index] += (uint64_t)number;
            reading->samples += (uint64_t)number;
        }
        index += (uint32_t)step;
        bytes += used;
        left -= used;
    }
    return true;
}

/* `scale` is that of the first interval; buckets 0: none was read. */
static bool
plain_decode(struct hlog_reading *reading, struct scale *scale, const uint8_t *bytes, size_t count,
             char why[HLOG_READ_WHY_BYTES])
{
    if (count < HEADER_BYTES || (big_endian(bytes, 4) & ~COOKIE_SIZE_BITS) != (COOKIE_V2 & ~COOKIE_SIZE_BITS)) {
        return fail(why, "no V2 histogram");
    }
    uint64_t payload = big_endian(bytes + 4, 4), digits = big_endian(bytes + 12, 4), lowest = big_endian(bytes + 16, 8);
    if (payload > count - HEADER_BYTES || digits > DIGITS_MAX || lowest == 0 || lowest > UINT32_MAX ||
        big_endian(bytes + 8, 4) != 0) {
        return fail(why, "its header is damaged, or of a kind that is not read here");
    }
    struct scale own = { (uint32_t)(63 - __builtin_clzll(lowest)),
                         (uint32_t)ceil(log2(2 * pow(10, (double)digits))) - 1 };
    if (reading->buckets > 0 && (own.unit_bits != scale->unit_bits || own.half_bits != scale->half_bits)) {
        return fail(why, "its intervals have different buckets");
    }
    *scale = own;
    return counts_decode(reading, own, bytes + HEADER_BYTES, payload, why);
}

static bool
interval_decode(struct hlog_reading *reading, struct scale *scale, char *text, char why[HLOG_READ_WHY_BYTES])
{
    size_t bytes = base64_decode(text);
    const uint8_t *compact = (const uint8_t *)text;
    if (bytes == SIZE_MAX || bytes < COMPACT_BYTES ||
        (big_endian(compact, 4) & ~COOKIE_SIZE_BITS) != (COOKIE_V2_COMPRESSED & ~COOKIE_SIZE_BITS) ||
        big_endian(compact + 4, 4) > bytes - COMPACT_BYTES) {
        return fail(why, "an interval is no compressed V2 histogram");
    }
    uint8_t *plain = malloc(PLAIN_BYTES_MAX);
    uLongf plain_bytes = PLAIN_BYTES_MAX;
    CHECK(plain != NULL);
    bool good = uncompress(plain, &plain_bytes, compact + COMPACT_BYTES, big_endian(compact + 4, 4)) == Z_OK;
    good = good ? plain_decode(reading, scale, plain, plain_bytes, why) : fail(why, "an interval cannot be unpacked");
    free(plain);
    return good;
}

/* Lines of comments and the header apart: [Tag=...,]start,length,maximum,histogram */
static bool
lines_decode(struct hlog_reading *reading, char *text, char why[HLOG_READ_WHY_BYTES])
{
    struct scale scale = { 0 };
    char *rest;
    for (char *line = strtok_r(text, "\r\n", &rest); line != NULL; line = strtok_r(NULL, "\r\n", &rest)) {
        char *comma = strrchr(line, ',');
        if (*line == '#' || *line == '"') {
            continue;
        }
        if (comma == NULL) {
            return fail(why, "a line is no interval");
        }
        if (!interval_decode(reading, &scale, comma + 1, why)) {
            return false;
        }
    }
    return reading->samples > 0 ? true : fail(why, "no sample in it");
}

bool
hlog_read(struct hlog_reading *reading, const char *path, char why[HLOG_READ_WHY_BYTES])
{
    char what[HLOG_READ_WHY_BYTES];
    FILE *file = fopen(path, "re");
    *reading = (struct hlog_reading){ 0 };
    if (file == NULL) {
        snprintf(why, HLOG_READ_WHY_BYTES, "%.250s: %s", path, strerror(errno));
        return false;
    }
    char *text = malloc(HLOG_READ_FILE_MAX + 2);
    CHECK(text != NULL);
    size_t bytes = fread(text, 1, HLOG_READ_FILE_MAX + 1, file);
    bool good = !ferror(file) && bytes <= HLOG_READ_FILE_MAX;
    if (!good) {
        snprintf(what, sizeof(what), "%s", ferror(file) ? strerror(errno) : "too long");
    }
    fclose(file);
    text[bytes] = '\0';
    good = good && lines_decode(reading, text, what);
    free(text);
    if (!good) {
        snprintf(why, HLOG_READ_WHY_BYTES, "%.250s: %.200s", path, what);
        hlog_read_fini(reading);
    }
    return good;
}

void
hlog_read_fini(struct hlog_reading *reading)
{
    free(reading->counts);
    free(reading->highest);
    *reading = (struct hlog_reading){ 0 };
}

uint64_t
hlog_read_rank(const struct hlog_reading *reading, uint64_t rank)
{
    uint64_t below = 0;
    for (uint32_t i = 0; i < reading->buckets; i++) {
        below += reading->counts[i];
        if (below >= rank) {
            return reading->highest[i];
        }
    }
    return reading->buckets == 0 ? 0 : reading->highest[reading->buckets - 1];
}
