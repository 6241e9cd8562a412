/* test_stats.c - the statistics that sluice-bench prints, against answers computed with exact fractions; and when it
 * says that the machine was busy. */
#include "tools/bench/machine.h"
#include "tools/bench/stats.h"
#include <CUnit/Basic.h>
#include <math.h>
#include <unistd.h>

static bool
is_near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fabs(b);
}

static void
no_samples_give_zeros(void)
{
    struct summary none = { 0 }, summary = summary_of(NULL, 0, 1);
    CU_ASSERT_EQUAL(memcmp(&summary, &none, sizeof(none)), 0);
    CU_ASSERT_EQUAL(median_of(NULL, 0), 0);
}

/* Of 1, 2, 3 ... count: the value is the rank. */
static void
ranks_are_the_smallest_that_enough_samples_reach(void)
{
    static const double percents[] = { 50, 75, 90, 95, 99, 99.9, 99.99 };
    static const struct {
        uint64_t count, ranks[ARRAY_COUNT(percents)];
    } rows[] = {
        { 1, { 1, 1, 1, 1, 1, 1, 1 } },
        { 2, { 1, 2, 2, 2, 2, 2, 2 } },
        { 3, { 2, 3, 3, 3, 3, 3, 3 } },
        { 10, { 5, 8, 9, 10, 10, 10, 10 } },
        { 99, { 50, 75, 90, 95, 99, 99, 99 } },
        { 100, { 50, 75, 90, 95, 99, 100, 100 } },
        { 101, { 51, 76, 91, 96, 100, 101, 101 } },
        { 999, { 500, 750, 900, 950, 990, 999, 999 } },
        { 1000, { 500, 750, 900, 950, 990, 999, 1000 } },
        { 1001, { 501, 751, 901, 951, 991, 1000, 1001 } },
        { 9999, { 5000, 7500, 9000, 9500, 9900, 9990, 9999 } },
        { 10000, { 5000, 7500, 9000, 9500, 9900, 9990, 9999 } },
        { 10001, { 5001, 7501, 9001, 9501, 9901, 9991, 10000 } },
        { 200000, { 100000, 150000, 180000, 190000, 198000, 199800, 199980 } },
        { 2097152, { 1048576, 1572864, 1887437, 1992295, 2076181, 2095055, 2096943 } },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        uint64_t *values = malloc(rows[i].count * sizeof(*values));
        CU_ASSERT_PTR_NOT_NULL_FATAL(values);
        for (uint64_t j = 0; j < rows[i].count; j++) {
            values[j] = j + 1;
        }
        for (size_t j = 0; j < ARRAY_COUNT(percents); j++) {
            CU_ASSERT_EQUAL(rank_of(values, rows[i].count, percents[j]), rows[i].ranks[j]);
        }
        CU_ASSERT_EQUAL(rank_of(values, rows[i].count, 100), rows[i].count);
        CU_ASSERT_EQUAL(rank_of(values, rows[i].count, 1e-9), 1);
        free(values);
    }
}

static void
summary_expect(const struct summary *got, const struct summary *wanted)
{
    CU_ASSERT_EQUAL(got->samples, wanted->samples);
    CU_ASSERT(is_near(got->min_us, wanted->min_us));
    CU_ASSERT(is_near(got->p50_us, wanted->p50_us));
    CU_ASSERT(is_near(got->p75_us, wanted->p75_us));
    CU_ASSERT(is_near(got->p90_us, wanted->p90_us));
    CU_ASSERT(is_near(got->p95_us, wanted->p95_us));
    CU_ASSERT(is_near(got->p99_us, wanted->p99_us));
    CU_ASSERT(is_near(got->p99_9_us, wanted->p99_9_us));
    CU_ASSERT(is_near(got->p99_99_us, wanted->p99_99_us));
    CU_ASSERT(is_near(got->max_us, wanted->max_us));
    CU_ASSERT(is_near(got->mean_us, wanted->mean_us));
    CU_ASSERT(is_near(got->qps, wanted->qps));
}

static void
one_sample_is_all_of_them(void)
{
    uint64_t ticks[] = { 2000 };
    struct summary got = summary_of(ticks, 1, 0.5), wanted = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, .mean_us = 1, .qps = 1e6 };
    summary_expect(&got, &wanted);
}

static void
two_samples_have_a_mean_between_them(void)
{
    uint64_t ticks[] = { 4000, 1000 };
    struct summary got = summary_of(ticks, 2, 1), wanted = { 2, 1, 1, 4, 4, 4, 4, 4, 4, 4, .mean_us = 2.5, .qps = 4e5 };
    summary_expect(&got, &wanted);
}

/* 1, 4, 9 ... 1000^2 ticks of a third of a nanosecond, the largest first. */
static void
a_skewed_set_is_what_fractions_give(void)
{
    uint64_t ticks[1000];
    struct summary wanted = { .samples = 1000,
                              .min_us = 0.001 / 3,
                              .p50_us = 250.0 / 3,
                              .p75_us = 187.5,
                              .p90_us = 270,
                              .p95_us = 902.5 / 3,
                              .p99_us = 326.7,
                              .p99_9_us = 332.667,
                              .p99_99_us = 1000.0 / 3,
                              .max_us = 1000.0 / 3,
                              .mean_us = 333.8335 / 3,
                              .qps = 3e6 / 333.8335 };
    for (uint64_t i = 0; i < 1000; i++) {
        ticks[i] = (1000 - i) * (1000 - i);
    }
    struct summary got = summary_of(ticks, 1000, 1.0 / 3);
    summary_expect(&got, &wanted);
    CU_ASSERT(ticks[0] == 1 && ticks[999] == 1000000); /* sorted, for whoever writes them on */
}

/* One outlier in a thousand is beyond p99.9 and is p99.99. */
static void
ties_and_an_outlier_keep_their_ranks(void)
{
    uint64_t ticks[1000];
    struct summary wanted = {
        1000, .007, .007, .007, .007, .007, .007, .009, 1000, 1000, .mean_us = 1.007011, .qps = 1e6 / 1.007011
    };
    for (uint32_t i = 0; i < 1000; i++) {
        ticks[i] = i == 123 ? 1000000 : i % 100 == 50 && i > 99 ? 9 : 7;
    }
    struct summary got = summary_of(ticks, 1000, 1);
    summary_expect(&got, &wanted);
}

/* 2^50 + i * 2^20 for i below 100000: their sum is far above 2^64. */
static void
means_of_large_samples_lose_nothing(void)
{
    static uint64_t ticks[100000];
    for (uint64_t i = 0; i < ARRAY_COUNT(ticks); i++) {
        ticks[i] = (1ull << 50) + (i << 20);
    }
    struct summary got = summary_of(ticks, ARRAY_COUNT(ticks), 1);
    CU_ASSERT(is_near(got.mean_us, 1125952335118.3359));
    CU_ASSERT(is_near(got.qps, 8.8813706300888961e-07));
}

static void
samples_of_nothing_have_no_rate(void)
{
    uint64_t ticks[] = { 0, 0, 0 };
    struct summary got = summary_of(ticks, 3, 1);
    CU_ASSERT_EQUAL(got.mean_us, 0);
    CU_ASSERT_EQUAL(got.qps, 0);
}

static void
medians_take_the_middle(void)
{
    static const struct {
        uint32_t count;
        double values[6], median;
    } rows[] = {
        { 1, { 7 }, 7 },
        { 2, { 3, 1 }, 2 },
        { 3, { 5, 1, 3 }, 3 },
        { 4, { 4, 1, 3, 2 }, 2.5 },
        { 5, { 2, 2, 2, 9, 1 }, 2 },
        { 6, { -1, 1e300, 0.25, 0.5, -7, 8 }, 0.375 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        double values[6];
        memcpy(values, rows[i].values, sizeof(values));
        CU_ASSERT_EQUAL(median_of(values, rows[i].count), rows[i].median);
    }
}

static void
a_row_has_four_decimals_and_a_whole_rate(void)
{
    static const struct summary summary = { 200000,       1.00004,        2.00006,        3.5, 4, 5, 6, 7, 8.99999,
                                            123456.78901, .mean_us = 2.5, .qps = 399999.6 };
    char *text;
    size_t bytes;
    FILE *memory = open_memstream(&text, &bytes);
    summary_csv_header(memory);
    summary_csv_row(memory, "tcp-resp", "GET", &summary);
    fclose(memory);
    CU_ASSERT_STRING_EQUAL(
        text,
        "label,operation,min_us,p50_us,p75_us,p90_us,p95_us,p99_us,p99_9_us,p99_99_us,max_us,mean_us,qps,samples\n"
        "tcp-resp,GET,1.0000,2.0001,3.5000,4.0000,5.0000,6.0000,7.0000,9.0000,123456.7890,2.5000,400000,200000\n");
    free(text);
}

/* ---- the machine ---- */

/* 10 s of two CPUs at 100 ticks a second, after a past of other numbers. */
static void
a_busy_machine_is_said_with_its_causes(void)
{
    static const struct machine_counts past = { 1000, 50000, 70, 300, 40, 9000, 2 };
    static const struct {
        struct machine_counts more;
        bool servers_known;
        const char *causes; /* NULL: quiet */
    } rows[] = {
        { { 1000, 2000, 0, 1000, 0, 0, 0 }, true, NULL },
        { { 1100, 2000, 0, 1000, 0, 0, 0 }, true, NULL }, /* a tenth of a CPU is not more than a tenth */
        { { 1101, 2000, 0, 1000, 0, 0, 0 }, true, "others used 10% of a CPU" },
        { { 2000, 2000, 0, 500, 0, 0, 0 }, true, "others used 150% of a CPU" },
        { { 2000, 2000, 0, 500, 0, 0, 0 }, false, NULL }, /* nobody knows whose work it was */
        { { 900, 2000, 0, 1000, 0, 0, 0 }, true, NULL },  /* rounding: ours is more than all */
        { { 0, 2000, 10, 0, 0, 0, 0 }, true, NULL },
        { { 0, 2000, 11, 0, 0, 0, 0 }, false, "the host took 1.1% of a CPU away" },
        { { 0, 2000, 0, 0, 500, 0, 0 }, true, NULL },
        { { 0, 2000, 0, 0, 501, 0, 0 }, false, "this thread was preempted 50 times a second" },
        { { 0, 2000, 0, 0, 0, 1500, 0 }, true, "our control group's CPU limit held us up for 1.5 ms" },
        { { 0, 2000, 0, 0, 0, 0, 3 }, true, "cores were slowed down by heat 3 times" },
        { { 1400, 2000, 250, 1000, 8000, 2000000, 1 },
          true,
          "others used 40% of a CPU, the host took 25.0% of a CPU away, this thread was preempted 800 times a second, "
          "our control group's CPU limit held us up for 2000.0 ms, cores were slowed down by heat 1 times" },
        { { 30, 39, 39, 0, 5000, 1, 1 }, true, NULL }, /* less than 0.2 s: shares say nothing */
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const struct machine_counts *more = &rows[i].more;
        struct machine_watch watch = { past, 1.25 };
        struct machine_counts after = {
            past.busy + more->busy, past.total + more->total,         past.stolen + more->stolen,
            past.own + more->own,   past.preempted + more->preempted, past.throttled_us + more->throttled_us,
            past.hot + more->hot
        };
        char text[1024] = "left over", wanted[1024] = "";
        if (rows[i].causes != NULL) {
            snprintf(wanted, sizeof(wanted),
                     "the machine was busy: %s (load at the start 1.25): take the figures with care", rows[i].causes);
        }
        bool busy = machine_watch_judge(&watch, &after, rows[i].servers_known, 2, 100, text, sizeof(text));
        CU_ASSERT_EQUAL(busy, rows[i].causes != NULL);
        CU_ASSERT_STRING_EQUAL(text, wanted);
    }
}

/* The kernel's counters of idle and stolen time may; a server that ended takes its own along. */
static void
counters_that_go_back_are_no_cause(void)
{
    struct machine_watch watch = { { 1000, 50000, 70, 3000, 40, 9000, 2 }, 0 };
    struct machine_counts after = { 3000, 52000, 60, 500, 30, 8000, 1 };
    char text[256];
    CU_ASSERT(!machine_watch_judge(&watch, &after, true, 2, 100, text, sizeof(text)));
    CU_ASSERT_STRING_EQUAL(text, "");
    after.total = 100;
    CU_ASSERT(!machine_watch_judge(&watch, &after, true, 2, 100, text, sizeof(text)));
}

static void
a_short_room_cuts_the_sentence(void)
{
    struct machine_watch watch = { { 0 }, 0 };
    struct machine_counts after = { 2000, 2000, 0, 0, 0, 0, 0 };
    char text[24];
    CU_ASSERT(machine_watch_judge(&watch, &after, true, 2, 100, text, sizeof(text)));
    CU_ASSERT_STRING_EQUAL(text, "the machine was busy: o");
}

static void
a_watch_that_ends_at_once_says_nothing(void)
{
    char text[1024];
    pid_t self[] = { getpid() };
    struct machine_watch watch;
    machine_watch_begin(&watch, self, 1);
    CU_ASSERT(watch.before.total > 0 && watch.before.busy <= watch.before.total);
    CU_ASSERT(!machine_watch_end(&watch, self, 1, text, sizeof(text)));
    CU_ASSERT_STRING_EQUAL(text, "");
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("stats", NULL, NULL);
    CU_ADD_TEST(suite, no_samples_give_zeros);
    CU_ADD_TEST(suite, samples_of_nothing_have_no_rate);
    CU_ADD_TEST(suite, ranks_are_the_smallest_that_enough_samples_reach);
    CU_ADD_TEST(suite, one_sample_is_all_of_them);
    CU_ADD_TEST(suite, two_samples_have_a_mean_between_them);
    CU_ADD_TEST(suite, a_skewed_set_is_what_fractions_give);
    CU_ADD_TEST(suite, ties_and_an_outlier_keep_their_ranks);
    CU_ADD_TEST(suite, means_of_large_samples_lose_nothing);
    CU_ADD_TEST(suite, medians_take_the_middle);
    CU_ADD_TEST(suite, a_row_has_four_decimals_and_a_whole_rate);
    CU_ADD_TEST(suite, a_busy_machine_is_said_with_its_causes);
    CU_ADD_TEST(suite, counters_that_go_back_are_no_cause);
    CU_ADD_TEST(suite, a_short_room_cuts_the_sentence);
    CU_ADD_TEST(suite, a_watch_that_ends_at_once_says_nothing);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
