#include "test/store/workload.h"
#include <CUnit/Basic.h>
#include <math.h>

#define DRAWS 1000000

static uint32_t counts[1000];

static void
draw(uint64_t keys, double theta)
{
    struct workload_zipf zipf;
    uint64_t random = 1;
    workload_zipf_init(&zipf, keys, theta);
    memset(counts, 0, sizeof(counts));
    for (uint32_t i = 0; i < DRAWS; i++) {
        uint64_t rank = workload_zipf_next(&zipf, &random);
        CU_ASSERT_FATAL(rank < keys);
        counts[rank]++;
    }
}

static void
ranks_stay_below_the_number_of_keys(void)
{
    for (uint64_t keys = 1; keys <= 4; keys++) {
        draw(keys, 0.99);
    }
    CU_ASSERT(counts[3] > 0);
}

/* The method is exact for the first two ranks and close for the others. */
static void
popularity_falls_with_the_rank_as_zipf_says(void)
{
    static const double thetas[] = { 0.5, 0.99 };
    for (uint32_t t = 0; t < ARRAY_COUNT(thetas); t++) {
        double zeta = 0;
        for (uint32_t rank = 0; rank < ARRAY_COUNT(counts); rank++) {
            zeta += pow(rank + 1, -thetas[t]);
        }
        draw(ARRAY_COUNT(counts), thetas[t]);
        for (uint32_t rank = 0; rank < 100; rank++) {
            double expected = DRAWS * pow(rank + 1, -thetas[t]) / zeta;
            CU_ASSERT(fabs(counts[rank] - expected) < (rank < 2 ? 0.02 : 0.25) * expected + 100);
        }
    }
}

static void
uniform_numbers_reach_every_key_alike(void)
{
    uint64_t random = 1;
    memset(counts, 0, sizeof(counts));
    for (uint32_t i = 0; i < DRAWS; i++) {
        uint64_t n = workload_below(&random, ARRAY_COUNT(counts));
        CU_ASSERT_FATAL(n < ARRAY_COUNT(counts));
        counts[n]++;
    }
    for (uint32_t i = 0; i < ARRAY_COUNT(counts); i++) {
        CU_ASSERT(counts[i] > 800 && counts[i] < 1200);
    }
}

static void
keys_differ(void)
{
    uint8_t a[WORKLOAD_KEY_BYTES], b[WORKLOAD_KEY_BYTES];
    for (uint64_t n = 0; n < 1000; n++) {
        (void)workload_key(b, n + 1);
        CU_ASSERT_EQUAL(workload_key(a, n).bytes, WORKLOAD_KEY_BYTES);
        CU_ASSERT(memcmp(a, b, sizeof(a)) != 0);
    }
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("workload", NULL, NULL);
    CU_ADD_TEST(suite, ranks_stay_below_the_number_of_keys);
    CU_ADD_TEST(suite, popularity_falls_with_the_rank_as_zipf_says);
    CU_ADD_TEST(suite, uniform_numbers_reach_every_key_alike);
    CU_ADD_TEST(suite, keys_differ);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    return CU_get_number_of_failures() != 0;
}
