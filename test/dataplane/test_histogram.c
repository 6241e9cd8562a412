#include "dataplane/histogram.h"
#include <CUnit/Basic.h>

/* 9 KiB each: too large for a stack under sanitizers, and zeroed between tests. */
static struct histogram histogram;
static struct histogram_snapshot snapshot;
static struct histogram_seen seen;

static void
start_over(void)
{
    memset(&histogram, 0, sizeof(histogram));
    memset(&snapshot, 0, sizeof(snapshot));
    memset(&seen, 0, sizeof(seen));
}

static void
look(void)
{
    histogram_since(&snapshot, &seen, &histogram);
}

static void
buckets_cover_every_value_once_and_in_order(void)
{
    uint64_t expected_low = 0;
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        uint64_t low, high;
        histogram_bucket_bounds(bucket, &low, &high);
        CU_ASSERT_EQUAL(low, expected_low);
        CU_ASSERT(high >= low);
        CU_ASSERT_EQUAL(histogram_bucket(low), bucket);
        CU_ASSERT_EQUAL(histogram_bucket(high), bucket);
        expected_low = high + 1;
    }
    CU_ASSERT_EQUAL(expected_low, 0); /* the last bucket ends at 2^64 - 1 */
}

static void
a_bucket_is_wrong_by_less_than_one_in_32(void)
{
    for (uint32_t bucket = 0; bucket + 1 < HISTOGRAM_BUCKETS; bucket++) {
        uint64_t low, high;
        histogram_bucket_bounds(bucket, &low, &high);
        CU_ASSERT((high - low) * 32 <= low);
    }
}

static void
extreme_values_stay_inside_the_array(void)
{
    static const uint64_t values[] = { 0, 1, 31, 32, (1ull << 41) - 1, 1ull << 41, INT64_MAX, 1ull << 63, UINT64_MAX };
    start_over();
    for (size_t i = 0; i < ARRAY_COUNT(values); i++) {
        CU_ASSERT(histogram_bucket(values[i]) < HISTOGRAM_BUCKETS);
        histogram_record(&histogram, values[i], 1);
    }
    look();
    CU_ASSERT_EQUAL(snapshot.total, ARRAY_COUNT(values));
    CU_ASSERT_EQUAL(snapshot.max, UINT64_MAX);
    CU_ASSERT_EQUAL(histogram_percentile(&snapshot, 100), UINT64_MAX);
    CU_ASSERT_EQUAL(histogram_percentile(&snapshot, 0), 0);
}

static void
an_empty_one_answers_zero(void)
{
    start_over();
    look();
    CU_ASSERT_EQUAL(snapshot.total, 0);
    CU_ASSERT_EQUAL(histogram_percentile(&snapshot, 50), 0);
    CU_ASSERT_EQUAL(histogram_percentile(&snapshot, 100), 0);
}

static void
known_values_have_known_percentiles(void)
{
    static const struct {
        double percentile;
        uint64_t value;
    } rows[] = { { 0, 1 }, { 1, 1 }, { 10, 3 }, { 50, 15 }, { 99, 30 }, { 99.9, 30 }, { 100, 30 } };

    start_over();
    for (uint64_t value = 1; value <= 30; value++) { /* below 32 buckets are exact */
        histogram_record(&histogram, value, 1);
    }
    look();
    CU_ASSERT_EQUAL(snapshot.sum, 30 * 31 / 2);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        CU_ASSERT_EQUAL(histogram_percentile(&snapshot, rows[i].percentile), rows[i].value);
    }
}

static void
percentiles_outside_0_to_100_are_the_ends(void)
{
    start_over();
    histogram_record(&histogram, 5, 1);
    histogram_record(&histogram, 7, 1);
    look();
    CU_ASSERT_EQUAL(histogram_percentile(&snapshot, -1), 5);
    CU_ASSERT_EQUAL(histogram_percentile(&snapshot, 1e300), 7);
    CU_ASSERT_EQUAL(histogram_percentile(&snapshot, __builtin_nan("")), 5);
    CU_ASSERT_EQUAL(histogram_percentile(&snapshot, __builtin_inf()), 7);
}

static uint64_t
random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static int
compare_values(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void
percentiles_are_near_the_exact_ranks_monotone_and_never_above_the_maximum(void)
{
    enum { COUNT = 20000 };
    static uint64_t values[COUNT];
    uint64_t state = 88172645463325252ull;

    for (int shape = 0; shape < 8; shape++) {
        start_over();
        for (int i = 0; i < COUNT; i++) {
            values[i] = random_next(&state) >> (24 + shape * 4 + random_next(&state) % 8);
            histogram_record(&histogram, values[i], 1);
        }
        look();
        qsort(values, COUNT, sizeof(values[0]), compare_values);
        CU_ASSERT_EQUAL(snapshot.max, values[COUNT - 1]);
        uint64_t before = 0;
        for (int tenth = 0; tenth <= 1000; tenth++) {
            uint64_t value = histogram_percentile(&snapshot, tenth / 10.0);
            int rank = tenth * COUNT / 1000;
            uint64_t exact = values[rank == 0 ? 0 : rank - 1];
            CU_ASSERT(value >= before);
            CU_ASSERT(value <= snapshot.max);
            CU_ASSERT(value >= exact && value - exact <= exact / 31);
            before = value;
        }
    }
}

static void
a_reader_sees_each_value_once_though_counts_wrap(void)
{
    start_over();
    histogram_record(&histogram, 100, UINT32_MAX);
    look();
    CU_ASSERT_EQUAL(snapshot.total, UINT32_MAX);
    histogram_record(&histogram, 100, 10); /* wraps to 9 */
    look();
    CU_ASSERT_EQUAL(snapshot.total, UINT32_MAX + 10ull);
    CU_ASSERT_EQUAL(snapshot.sum, (UINT32_MAX + 10ull) * 100);
    look();
    CU_ASSERT_EQUAL(snapshot.total, UINT32_MAX + 10ull);
}

static void
merging_adds_counts_and_keeps_the_larger_maximum(void)
{
    static struct histogram_snapshot all;

    memset(&all, 0, sizeof(all));
    for (uint64_t part = 1; part <= 3; part++) {
        start_over();
        histogram_record(&histogram, part * 1000, (uint32_t)part);
        look();
        histogram_merge(&all, &snapshot);
    }
    CU_ASSERT_EQUAL(all.total, 6);
    CU_ASSERT_EQUAL(all.sum, 1000 + 2 * 2000 + 3 * 3000);
    CU_ASSERT_EQUAL(all.max, 3000);
    CU_ASSERT_EQUAL(histogram_percentile(&all, 100), 3000);
    start_over();
    histogram_merge(&all, &snapshot); /* empty: changes nothing */
    CU_ASSERT_EQUAL(all.total, 6);
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("histogram", NULL, NULL);
    CU_ADD_TEST(suite, buckets_cover_every_value_once_and_in_order);
    CU_ADD_TEST(suite, a_bucket_is_wrong_by_less_than_one_in_32);
    CU_ADD_TEST(suite, extreme_values_stay_inside_the_array);
    CU_ADD_TEST(suite, an_empty_one_answers_zero);
    CU_ADD_TEST(suite, known_values_have_known_percentiles);
    CU_ADD_TEST(suite, percentiles_outside_0_to_100_are_the_ends);
    CU_ADD_TEST(suite, percentiles_are_near_the_exact_ranks_monotone_and_never_above_the_maximum);
    CU_ADD_TEST(suite, a_reader_sees_each_value_once_though_counts_wrap);
    CU_ADD_TEST(suite, merging_adds_counts_and_keeps_the_larger_maximum);
    CU_basic_set_mode(CU_BRM_NORMAL);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
