/* test_hlog.c - logs for HdrHistogram's tools: buckets, numbers and bytes as its reference writes them. */
#include "tools/bench/hlog.h"
#include <CUnit/Basic.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static char folder[] = "/tmp/sluice-test-hlog-XXXXXX";

static void
buckets_are_those_of_three_digits(void)
{
    static const struct {
        uint64_t ns;
        uint32_t bucket;
    } rows[] = {
        { 0, 0 },
        { 1, 1 },
        { 1023, 1023 },
        { 2047, 2047 },
        { 2048, 2048 },
        { 2049, 2048 }, /* two values a bucket from here */
        { 2050, 2049 },
        { 4095, 3071 },
        { 4096, 3072 },
        { 4099, 3072 }, /* four */
        { 4100, 3073 },
        { 1000000, 9 * 1024 + 1953 }, /* 1000000 / 512 */
        { HLOG_NS_MAX, 31 * 1024 + 1676 },
        { HLOG_NS_MAX + 1, 31 * 1024 + 1676 },
        { UINT64_MAX, 31 * 1024 + 1676 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        CU_ASSERT_EQUAL(hlog_bucket(rows[i].ns), rows[i].bucket);
        CU_ASSERT(hlog_bucket(rows[i].ns) < HLOG_BUCKET_COUNT);
    }
}

static void
a_bucket_is_within_a_thousandth(void)
{
    uint32_t last = 0;
    for (uint64_t ns = 1; ns < HLOG_NS_MAX; ns += 1 + ns / 700) {
        uint32_t bucket = hlog_bucket(ns), power = bucket < 2048 ? 0 : bucket / 1024 - 1;
        uint64_t lowest = bucket < 2048 ? bucket : (uint64_t)(bucket - power * 1024) << power;
        CU_ASSERT(lowest <= ns && ns - lowest <= ns / 1000);
        CU_ASSERT(bucket >= last);
        last = bucket;
    }
}

static void
numbers_take_one_to_nine_bytes(void)
{
    static const struct {
        int64_t number;
        uint32_t bytes;
        uint8_t out[9];
    } rows[] = {
        { 0, 1, { 0x00 } },
        { 1, 1, { 0x02 } },
        { -1, 1, { 0x01 } },
        { 63, 1, { 0x7e } },
        { 64, 2, { 0x80, 0x01 } },
        { -64, 1, { 0x7f } },
        { -65, 2, { 0x81, 0x01 } },
        { 8191, 2, { 0xfe, 0x7f } },
        { 8192, 3, { 0x80, 0x80, 0x01 } },
        { INT64_MAX, 9, { 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } },
        { INT64_MIN, 9, { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        uint8_t out[9] = { 0 };
        CU_ASSERT_EQUAL(hlog_number_encode(rows[i].number, out), rows[i].bytes);
        CU_ASSERT_EQUAL(memcmp(out, rows[i].out, rows[i].bytes), 0);
    }
}

static void
counts_are_encoded_as_the_reference_does(void)
{
    static const uint64_t counts[] = { 0, 0, 0, 5, 0, 1 };
    static const uint8_t expected[] = {
        0x1c, 0x84, 0x93, 0x13,                         /* V2, LEB128 */
        0,    0,    0,    4,                            /* bytes of counts */
        0,    0,    0,    0,                            /* normalizing index offset */
        0,    0,    0,    3,                            /* digits */
        0,    0,    0,    0,    0,    0,    0,    1,    /* lowest discernible value */
        0,    0,    0x03, 0x46, 0x30, 0xb8, 0xa0, 0x00, /* highest trackable value: 3.6e12 */
        0x3f, 0xf0, 0,    0,    0,    0,    0,    0,    /* ratio 1.0 */
        0x05, 0x0a, 0x00, 0x02,                         /* three zeros, 5, one zero, 1 */
    };
    uint8_t *encoded, plain[128];
    size_t bytes = hlog_encode(counts, ARRAY_COUNT(counts), &encoded);
    uLongf plain_bytes = sizeof(plain);
    CU_ASSERT_FATAL(bytes > 8);
    CU_ASSERT_EQUAL(memcmp(encoded, "\x1c\x84\x93\x14\0\0\0", 7), 0);
    CU_ASSERT_EQUAL(encoded[7], bytes - 8);
    CU_ASSERT_EQUAL_FATAL(uncompress(plain, &plain_bytes, encoded + 8, bytes - 8), Z_OK);
    CU_ASSERT_EQUAL_FATAL(plain_bytes, sizeof(expected));
    CU_ASSERT_EQUAL(memcmp(plain, expected, sizeof(expected)), 0);
    free(encoded);
}

static void
a_log_that_cannot_be_written_leaves_nothing(void)
{
    char path[64], why[256] = "";
    uint64_t ticks[] = { 1, 2, 3 };
    snprintf(path, sizeof(path), "%s/absent/log", folder);
    CU_ASSERT_FALSE(hlog_write(path, ticks, 3, 1, 0, 1, why, sizeof(why)));
    CU_ASSERT_PTR_NOT_NULL(strstr(why, "No such file"));
    snprintf(path, sizeof(path), "%s/full", folder);
    CU_ASSERT_EQUAL_FATAL(symlink("/dev/full", path), 0);
    CU_ASSERT_FALSE(hlog_write(path, ticks, 3, 1, 0, 1, why, sizeof(why)));
    CU_ASSERT_PTR_NOT_NULL(strstr(why, "No space left"));
    CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0);
}

static void
a_log_has_its_header_and_one_interval(void)
{
    char path[64], why[256] = "", line[512];
    uint64_t ticks[] = { 3000000, 1000, 2000 }; /* at 2 ns a tick */
    snprintf(path, sizeof(path), "%s/log", folder);
    CU_ASSERT_FATAL(hlog_write(path, ticks, 3, 2, 1500000000.25, 1.5, why, sizeof(why)));
    FILE *file = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    static const char *const begins[] = {
        "#[Histograms",
        "#[Histogram log format version 1.3]\n",
        "#[StartTime: 1500000000.250 (seconds since epoch), ",
        "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",",
        "0.000,1.500,6.000,HISTFA",
    };
    for (size_t i = 0; i < ARRAY_COUNT(begins); i++) {
        CU_ASSERT_PTR_NOT_NULL_FATAL(fgets(line, sizeof(line), file));
        CU_ASSERT_EQUAL(strncmp(line, begins[i], strlen(begins[i])), 0);
    }
    size_t letters = strcspn(strrchr(line, ',') + 1, "\n");
    CU_ASSERT_EQUAL(letters % 4, 0);
    CU_ASSERT_PTR_NULL(fgets(line, sizeof(line), file));
    fclose(file);
    unlink(path);
}

int
main(void)
{
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("hlog", NULL, NULL);
    CU_ADD_TEST(suite, buckets_are_those_of_three_digits);
    CU_ADD_TEST(suite, a_bucket_is_within_a_thousandth);
    CU_ADD_TEST(suite, numbers_take_one_to_nine_bytes);
    CU_ADD_TEST(suite, counts_are_encoded_as_the_reference_does);
    CU_ADD_TEST(suite, a_log_that_cannot_be_written_leaves_nothing);
    CU_ADD_TEST(suite, a_log_has_its_header_and_one_interval);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    rmdir(folder);
    return failures != 0;
}
