#include "tools/bench/hlog.h"
#include <errno.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#define DIGITS           3
#define SINGLE_BITS      11 /* values below 2^11 have a bucket each */
#define HALF_BUCKETS     (1u << (SINGLE_BITS - 1))
#define COOKIE           0x1c849303u
#define COOKIE_COMPACT   0x1c849304u
#define COOKIE_LEB128    0x10u /* in both: counts are ZigZag LEB128 */
#define HEADER_BYTES     40
#define NUMBER_BYTES_MAX 9
#define NS_PER_MS        1e6

uint32_t
hlog_bucket(uint64_t ns)
{
    ns = MIN(ns, HLOG_NS_MAX);
    /* 0 for what is below 2^11, then one more for each power of two */
    uint32_t power = 63 - (uint32_t)__builtin_clzll(ns | ((1u << SINGLE_BITS) - 1)) - (SINGLE_BITS - 1);
    return power * HALF_BUCKETS + (uint32_t)(ns >> power);
}

uint32_t
hlog_number_encode(int64_t number, uint8_t out[9])
{
    uint64_t left = (uint64_t)number << 1 ^ (number < 0 ? UINT64_MAX : 0);
    uint32_t bytes = 0;
    while (left >= 0x80 && bytes < NUMBER_BYTES_MAX - 1) {
        out[bytes++] = (uint8_t)(left | 0x80);
        left >>= 7;
    }
    out[bytes++] = (uint8_t)left; /* the ninth byte has no flag: all its eight bits count */
    return bytes;
}

static void
put_big_endian(uint8_t *out, uint64_t value, uint32_t bytes)
{
    while (bytes-- > 0) {
        out[bytes] = (uint8_t)value;
        value >>= 8;
    }
}

/* Header and counts. Returns bytes. */
static size_t
plain_encode(const uint64_t *counts, uint32_t count, uint8_t *out)
{
    static const double ratio = 1; /* of integers to what they stand for */
    uint64_t ratio_bits;
    size_t at = HEADER_BYTES;
    for (uint32_t i = 0; i < count;) {
        uint32_t zeros = 0;
        while (i + zeros < count && counts[i + zeros] == 0) {
            zeros++;
        }
        /* The reference writes a lone zero as a count. */
        at += hlog_number_encode(zeros > 1 ? -(int64_t)zeros : (int64_t)counts[i], out + at);
        i += MAX(zeros, 1u);
    }
    memcpy(&ratio_bits, &ratio, sizeof(ratio_bits));
    put_big_endian(out, COOKIE | COOKIE_LEB128, 4);
    put_big_endian(out + 4, at - HEADER_BYTES, 4);
    put_big_endian(out + 8, 0, 4); /* normalizing index offset */
    put_big_endian(out + 12, DIGITS, 4);
    put_big_endian(out + 16, 1, 8); /* lowest discernible value */
    put_big_endian(out + 24, HLOG_NS_MAX, 8);
    put_big_endian(out + 32, ratio_bits, 8);
    return at;
}

size_t
hlog_encode(const uint64_t *counts, uint32_t count, uint8_t **out)
{
    uint8_t *plain = malloc(HEADER_BYTES + (size_t)count * NUMBER_BYTES_MAX);
    CHECK(plain != NULL);
    size_t plain_bytes = plain_encode(counts, count, plain);
    uLongf room = compressBound(plain_bytes);
    *out = malloc(8 + room);
    CHECK(*out != NULL && compress(*out + 8, &room, plain, plain_bytes) == Z_OK);
    put_big_endian(*out, COOKIE_COMPACT | COOKIE_LEB128, 4);
    put_big_endian(*out + 4, room, 4);
    free(plain);
    return 8 + room;
}

static void
base64_write(FILE *to, const uint8_t *data, size_t bytes)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes; i += 3) {
        size_t have = MIN(bytes - i, 3);
        uint32_t word =
            (uint32_t)data[i] << 16 | (have > 1 ? (uint32_t)data[i + 1] << 8 : 0) | (have > 2 ? data[i + 2] : 0);
        const char text[4] = { letters[word >> 18], letters[word >> 12 & 63], have > 1 ? letters[word >> 6 & 63] : '=',
                               have > 2 ? letters[word & 63] : '=' };
        fwrite(text, 1, sizeof(text), to);
    }
}

static void
log_print(FILE *to, const uint64_t *counts, uint32_t used, uint64_t max_ns, double began_s, double seconds)
{
    char date[64];
    struct tm local;
    time_t whole = (time_t)began_s;
    uint8_t *encoded;
    size_t bytes = hlog_encode(counts, used, &encoded);
    localtime_r(&whole, &local);
    strftime(date, sizeof(date), "%a %b %d %H:%M:%S %Z %Y", &local);
    fprintf(to,
            "#[Histograms in ns, written by sluice-bench]\n"
            "#[Histogram log format version 1.3]\n"
            "#[StartTime: %.3f (seconds since epoch), %s]\n"
            "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
            "0.000,%.3f,%.3f,",
            began_s, date, seconds, (double)max_ns / NS_PER_MS);
    base64_write(to, encoded, bytes);
    fputc('\n', to);
    free(encoded);
}

bool
hlog_write(const char *path, const uint64_t *ticks, uint64_t count, double ns_per_tick, double began_s, double seconds,
           char *why, size_t why_bytes)
{
    uint64_t max_ns = 0, *counts = calloc(HLOG_BUCKET_COUNT, sizeof(*counts));
    uint32_t used = 1;
    CHECK(counts != NULL);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t ns = (uint64_t)((double)ticks[i] * ns_per_tick + 0.5);
        uint32_t bucket = hlog_bucket(ns);
        counts[bucket]++;
        used = MAX(used, bucket + 1);
        max_ns = MAX(max_ns, ns);
    }
    FILE *file = fopen(path, "we");
    bool good = file != NULL;
    if (good) {
        log_print(file, counts, used, max_ns, began_s, seconds);
        good = !ferror(file);
        good &= fclose(file) == 0;
    }
    if (!good) {
        snprintf(why, why_bytes, "%s: %s", path, strerror(errno));
        if (file != NULL) {
            unlink(path);
        }
    }
    free(counts);
    return good;
}
