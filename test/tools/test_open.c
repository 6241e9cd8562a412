/* test_open.c - open loops: schedules, the search for the knee, and latencies of a server whose delays are known. */
#include "config/sync.h"
#include "tools/bench/generator.h"
#include "tools/bench/machine.h"
#include "tools/bench/open_loop.h"
#include "tools/bench/open_schedule.h"
#include "tools/bench/responder.h"
#include <CUnit/Basic.h>
#include <math.h>
#include <pthread.h>

/* Other work on this machine may delay a run by more than what is looked for: it must come out right once in so many.
 */
#define ATTEMPTS 5

static bool
comes_out(bool (*attempt)(void))
{
    for (int i = 0; i < ATTEMPTS; i++) {
        if (attempt()) {
            return true;
        }
    }
    return false;
}

/* ---- schedules ---- */

static void
even_spacing_does_not_drift(void)
{
    static const struct {
        double rate, ticks_per_second;
        uint64_t index;
        double due;
    } rows[] = {
        { 1000, 1e9, 0, 0 },        { 1000, 1e9, 1, 1e6 },           { 1000, 1e9, 3600000, 3.6e12 },
        { 3, 1e9, 30000000, 1e16 }, { 7, 2445e6, 700000, 2.445e14 }, { 1e8, 1e9, 100000000, 1e9 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct open_schedule schedule;
        open_schedule_init(&schedule, rows[i].rate, rows[i].ticks_per_second, false, 1);
        schedule.index = rows[i].index;
        if (rows[i].index > 0) {
            schedule.index--;
            open_schedule_advance(&schedule);
        }
        CU_ASSERT_DOUBLE_EQUAL(schedule.due, rows[i].due, 1e-12 * rows[i].due);
    }
}

static void
even_spacing_is_even(void)
{
    struct open_schedule schedule;
    open_schedule_init(&schedule, 4, 1000, false, 1);
    for (int i = 0; i < 100; i++) {
        CU_ASSERT_DOUBLE_EQUAL(schedule.due, 250.0 * i, 0);
        open_schedule_advance(&schedule);
    }
}

/* Gaps of a Poisson process: mean and standard deviation are alike; the share of gaps above x means is e^-x; counts of
 * equal stretches of time have a variance equal to their mean. */
static void
poisson_gaps_are_exponential(void)
{
    enum { GAPS = 1000000, STRETCH = 20 };
    struct open_schedule schedule;
    double last = 0, sum = 0, squares = 0;
    uint32_t above[4] = { 0 }, stretches = 0, in_stretch = 0;
    double count_sum = 0, count_squares = 0, stretch_end = STRETCH;
    open_schedule_init(&schedule, 1, 1, true, 42);
    for (int i = 0; i < GAPS; i++) {
        double gap = schedule.due - last;
        CU_ASSERT_FATAL(gap > 0);
        last = schedule.due;
        sum += gap;
        squares += gap * gap;
        for (int x = 0; x < 4; x++) {
            above[x] += gap > x + 1;
        }
        for (; schedule.due >= stretch_end; stretch_end += STRETCH) {
            count_sum += in_stretch;
            count_squares += (double)in_stretch * in_stretch;
            stretches++;
            in_stretch = 0;
        }
        in_stretch++;
        open_schedule_advance(&schedule);
    }
    CU_ASSERT_DOUBLE_EQUAL(sum / GAPS, 1, 0.004);
    CU_ASSERT_DOUBLE_EQUAL(squares / GAPS - sum / GAPS * sum / GAPS, 1, 0.012);
    for (int x = 0; x < 4; x++) {
        CU_ASSERT_DOUBLE_EQUAL((double)above[x] / GAPS, exp(-(x + 1)), 0.002);
    }
    double mean = count_sum / stretches;
    CU_ASSERT_DOUBLE_EQUAL(mean, STRETCH, 0.1);
    CU_ASSERT_DOUBLE_EQUAL(count_squares / stretches - mean * mean, STRETCH, 0.6);
}

static void
a_seed_repeats_a_schedule(void)
{
    struct open_schedule one, same, other;
    open_schedule_init(&one, 10, 1000, true, 5);
    open_schedule_init(&same, 10, 1000, true, 5);
    open_schedule_init(&other, 10, 1000, true, 6);
    for (int i = 0; i < 100; i++) {
        CU_ASSERT_EQUAL(one.due, same.due);
        CU_ASSERT_NOT_EQUAL(one.due, other.due);
        open_schedule_advance(&one);
        open_schedule_advance(&same);
        open_schedule_advance(&other);
    }
}

/* ---- the knee ---- */

/* Search a server that keeps rates up to `capacity`. Returns the highest kept. */
static double
knee_of(double capacity, double first, double most, uint32_t *tries)
{
    struct open_knee knee;
    open_knee_init(&knee, first, 1, most);
    *tries = 0;
    for (double rate; (rate = open_knee_next(&knee)) > 0; (*tries)++) {
        CU_ASSERT_FATAL(*tries < 100 && rate <= most);
        open_knee_tell(&knee, rate, rate <= capacity);
    }
    return knee.kept;
}

static void
the_knee_of_a_known_server_is_found(void)
{
    static const double capacities[] = { 1000, 1001, 1999, 2000, 123456, 700000, 5e6, 900, 37 };
    for (size_t i = 0; i < ARRAY_COUNT(capacities); i++) {
        uint32_t tries;
        double kept = knee_of(capacities[i], 1000, 1e8, &tries);
        CU_ASSERT(kept <= capacities[i]);
        CU_ASSERT(kept * (1 + OPEN_KNEE_PRECISION) >= capacities[i]);
        CU_ASSERT(tries <= 30);
    }
}

static void
a_server_that_keeps_nothing_or_everything_ends_the_search(void)
{
    uint32_t tries;
    CU_ASSERT_EQUAL(knee_of(0, 1000, 1e8, &tries), 0);
    CU_ASSERT(tries <= 11);
    CU_ASSERT_EQUAL(knee_of(1e9, 1000, 1e6, &tries), 1e6);
    CU_ASSERT(tries <= 12);
}

static void
noise_does_not_undo_what_is_known(void)
{
    struct open_knee knee;
    open_knee_init(&knee, 1000, 1, 1e8);
    open_knee_tell(&knee, 1000, true);
    open_knee_tell(&knee, 2000, false);
    open_knee_tell(&knee, 3000, true); /* above one that was not kept */
    open_knee_tell(&knee, 900, false); /* below one that was */
    CU_ASSERT_EQUAL(knee.kept, 1000);
    CU_ASSERT_EQUAL(knee.failed, 2000);
}

/* ---- a server whose delays are known ---- */

static const struct load_op *
get(void)
{
    return load_op_find("get", false);
}

static struct responder *
responder_of(const struct responder_plan *plan, struct client_options *options)
{
    char why[CLIENT_WHY_BYTES];
    struct responder *responder = responder_start(plan, why, sizeof(why));
    CU_ASSERT_PTR_NOT_NULL_FATAL(responder);
    client_options_init(options);
    options->port = responder_port(responder);
    return responder;
}

static struct open_result
loop_run(const struct responder_plan *responder_plan, struct open_plan plan)
{
    struct open_result result;
    char why[CLIENT_WHY_BYTES] = "";
    struct responder *responder = responder_of(responder_plan, &plan.client);
    plan.load = (struct load_plan){ .ops = get(), .op_count = 1, .keys = 100, .seed = 1 };
    plan.cpu = machine_cpu(0);
    bool good = open_loop_run(&plan, &result, why, sizeof(why));
    CU_ASSERT_TRUE_FATAL(good);
    responder_stop(responder);
    return result;
}

/* 90% 20 ms, 9% 80 ms, 0.9% 200 ms, 0.1% 450 ms, in a random order. 500 connections, each asked once a second: no
 * request waits for another. */
enum { DELAYS = 1000, DELAYED_RATE = 500 };

static bool
planted_percentiles_come_out(void)
{
    static uint32_t delays[DELAYS];
    struct load_random random = { 9 };
    for (uint32_t i = 0; i < DELAYS; i++) {
        delays[i] = i < 900 ? 20000 : i < 990 ? 80000 : i < 999 ? 200000 : 450000;
    }
    for (uint32_t i = DELAYS - 1; i > 0; i--) {
        uint32_t other = (uint32_t)load_random_below(&random, i + 1), kept = delays[i];
        delays[i] = delays[other];
        delays[other] = kept;
    }
    const struct responder_plan responder_plan = {
        .ops = get(), .op_count = 1, .cpu = machine_cpu(1), .delays_us = delays, .delay_count = DELAYS
    };
    struct open_result result =
        loop_run(&responder_plan,
                 (struct open_plan){ .connections = 500, .rate = DELAYED_RATE, .seconds = 2, .in_flight_max = 1000 });
    const struct summary *times = &result.latency;
    /* 1000 samples: the ranks are 500, 900, 990, 999 and 1000. */
    const struct {
        double us, planted_us, below_us;
    } rows[] = { { times->min_us, 20e3, 70e3 },      { times->p50_us, 20e3, 70e3 },  { times->p90_us, 20e3, 75e3 },
                 { times->p95_us, 80e3, 190e3 },     { times->p99_us, 80e3, 195e3 }, { times->p99_9_us, 200e3, 445e3 },
                 { times->p99_99_us, 450e3, 900e3 }, { times->max_us, 450e3, 900e3 } };
    bool right = !result.broken && result.unanswered == 0;
    CU_ASSERT(times->samples == DELAYS && result.intended == DELAYS);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        /* Never less than what was planted; more by what the machine adds, which does not reach the next level. */
        CU_ASSERT(rows[i].us >= rows[i].planted_us);
        right &= rows[i].us < rows[i].below_us;
    }
    open_result_fini(&result);
    return right;
}

static void
planted_delays_give_their_percentiles(void)
{
    CU_ASSERT_TRUE(comes_out(planted_percentiles_come_out));
}

/* 1 s of 2.5 stopped, at 2000 a second: 40% of all requests wait, evenly from 0 to 1 s, so that p90 is 0.75 s, p99
 * 0.975 s and p99.9 0.9975 s. */
static bool
a_pause_comes_out(void)
{
    const struct responder_plan plan = {
        .ops = get(), .op_count = 1, .cpu = machine_cpu(1), .pause_after = 1000, .pause_ms = 1000
    };
    struct open_result result =
        loop_run(&plan, (struct open_plan){ .connections = 1, .rate = 2000, .seconds = 2.5, .in_flight_max = 65536 });
    const struct summary *times = &result.latency;
    bool right = !result.broken && result.kept && !result.client_bound;
    CU_ASSERT_EQUAL(times->samples, 5000);
    CU_ASSERT(times->p90_us >= 745e3 && times->p99_us >= 970e3 && times->p99_9_us >= 990e3);
    right &= times->p50_us < 100e3 && times->p90_us < 900e3 && times->p99_us < 1200e3 && times->max_us < 1500e3;
    open_result_fini(&result);
    return right;
}

static void
a_pause_of_a_second_shows_in_every_percentile_above(void)
{
    CU_ASSERT_TRUE(comes_out(a_pause_comes_out));
}

static void
a_closed_loop_hides_the_same_pause(void)
{
    const struct responder_plan plan = {
        .ops = get(), .op_count = 1, .cpu = machine_cpu(1), .pause_after = 2000, .pause_ms = 1000
    };
    struct generator_plan generator = {
        .load = { .ops = get(), .op_count = 1, .keys = 100, .seed = 1 },
        .connections = 1,
        .depth = 1,
        .refill = 1,
        .requests = 20000,
        .threads = 1,
        .cpus = { machine_cpu(0) },
        .samples = true,
    };
    struct generator_result result;
    char why[CLIENT_WHY_BYTES];
    struct responder *responder = responder_of(&plan, &generator.client);
    CU_ASSERT_TRUE_FATAL(generator_run(&generator, &result, why, sizeof(why)));
    responder_stop(responder);
    struct summary times = summary_of(result.ticks, result.tick_count, machine_ns_per_cycle());
    CU_ASSERT_EQUAL(result.replies, 20000);
    CU_ASSERT(times.max_us >= 990e3); /* one request of 20,000 waited */
    CU_ASSERT(times.p99_9_us < 100e3);
    free(result.ticks);
}

static void
what_is_over_the_limit_is_late_and_not_dropped(void)
{
    const struct responder_plan plan = {
        .ops = get(), .op_count = 1, .cpu = machine_cpu(1), .pause_after = 500, .pause_ms = 300
    };
    struct open_result result =
        loop_run(&plan, (struct open_plan){ .connections = 3, .rate = 2000, .seconds = 1, .in_flight_max = 9 });
    /* 9 of the 600 requests of the pause were sent in time. */
    CU_ASSERT_EQUAL(result.intended, 2000);
    CU_ASSERT_EQUAL(result.latency.samples, 2000);
    CU_ASSERT_EQUAL(result.unanswered, 0);
    CU_ASSERT(result.late >= 580);
    CU_ASSERT(result.latency.max_us >= 295e3);
    CU_ASSERT(result.latency.p75_us >= 20e3); /* 600 of 2000 waited, evenly up to 300 ms */
    /* The server held them up, not the client. */
    CU_ASSERT_FALSE(result.client_bound);
    open_result_fini(&result);
}

static void
a_server_that_is_too_slow_is_not_kept_and_is_no_fault_of_the_client(void)
{
    /* One at a time, 2 ms each: 500 a second. */
    static const uint32_t delay_us = 2000;
    const struct responder_plan plan = {
        .ops = get(), .op_count = 1, .cpu = machine_cpu(1), .delays_us = &delay_us, .delay_count = 1
    };
    struct open_result result =
        loop_run(&plan, (struct open_plan){ .connections = 1, .rate = 1000, .seconds = 0.5, .in_flight_max = 1 });
    CU_ASSERT_FALSE(result.kept);
    CU_ASSERT_FALSE(result.client_bound);
    CU_ASSERT(result.achieved > 0 && result.achieved <= 500);
    CU_ASSERT_EQUAL(result.latency.samples, 500);
    CU_ASSERT(result.latency.max_us >= 450e3);
    open_result_fini(&result);
}

static void
a_server_that_never_answers_again_is_reported_with_how_long_it_was_waited_for(void)
{
    const struct responder_plan plan = {
        .ops = get(), .op_count = 1, .cpu = machine_cpu(1), .pause_after = 100, .pause_ms = 2000
    };
    struct open_result result =
        loop_run(&plan, (struct open_plan){ .connections = 2, .rate = 1000, .seconds = 0.25, .in_flight_max = 64 });
    /* Ended after twice the planned time and a second more. Those that came with the 100th are not answered either. */
    CU_ASSERT_EQUAL(result.latency.samples, 250);
    CU_ASSERT(result.unanswered >= 150 && result.unanswered < 250);
    CU_ASSERT(result.latency.p50_us >= 1200e3);
    CU_ASSERT_FALSE(result.kept);
    open_result_fini(&result);
}

static _Atomic bool hogs_stop; /* relaxed: nothing hangs on it */

static void *
hog_main(void *argument)
{
    machine_pin(machine_cpu(0));
    while (!load_relaxed(&hogs_stop)) {
        cpu_relax();
    }
    return argument;
}

static void
a_client_that_shares_its_cpu_says_so(void)
{
    const struct responder_plan plan = { .ops = get(), .op_count = 1, .cpu = machine_cpu(1) };
    pthread_t hogs[3];
    for (size_t i = 0; i < ARRAY_COUNT(hogs); i++) {
        CU_ASSERT_EQUAL_FATAL(pthread_create(&hogs[i], NULL, hog_main, NULL), 0);
    }
    struct open_result result = loop_run(
        &plan,
        (struct open_plan){ .connections = 1, .rate = 5000, .seconds = 0.5, .in_flight_max = OPEN_IN_FLIGHT_MAX });
    store_relaxed(&hogs_stop, true);
    for (size_t i = 0; i < ARRAY_COUNT(hogs); i++) {
        pthread_join(hogs[i], NULL);
    }
    CU_ASSERT_TRUE(result.client_bound);
    CU_ASSERT(result.lateness.p99_us > 500);
    CU_ASSERT(result.late > 50);
    CU_ASSERT_EQUAL(result.latency.samples, 2500);
    open_result_fini(&result);
}

/* The pause lies in the warm-up: the first 60 of 200 requests wait for it. */
static bool
a_warm_up_is_left_out(void)
{
    const struct responder_plan plan = {
        .ops = get(), .op_count = 1, .cpu = machine_cpu(1), .pause_after = 1, .pause_ms = 300
    };
    struct open_result result = loop_run(
        &plan, (struct open_plan){
                   .connections = 1, .rate = 200, .warmup_seconds = 0.5, .seconds = 0.5, .in_flight_max = 1000 });
    bool right = result.latency.max_us < 100e3 && result.achieved > 190;
    CU_ASSERT(result.achieved < 200.01);
    CU_ASSERT_EQUAL(result.intended, 100);
    CU_ASSERT_EQUAL(result.latency.samples, 100);
    open_result_fini(&result);
    return right;
}

static void
what_is_warmed_up_does_not_count(void)
{
    CU_ASSERT_TRUE(comes_out(a_warm_up_is_left_out));
}

static void
more_samples_than_are_kept_are_refused(void)
{
    struct open_plan plan = { .connections = 1, .rate = 1e6, .seconds = 1000, .in_flight_max = 1 };
    struct open_result result;
    char why[CLIENT_WHY_BYTES] = "";
    plan.load = (struct load_plan){ .ops = get(), .op_count = 1, .keys = 1 };
    client_options_init(&plan.client);
    CU_ASSERT_FALSE(open_loop_run(&plan, &result, why, sizeof(why)));
    CU_ASSERT_PTR_NOT_NULL(strstr(why, "samples"));
    open_result_fini(&result);
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("open", NULL, NULL);
    CU_ADD_TEST(suite, even_spacing_does_not_drift);
    CU_ADD_TEST(suite, even_spacing_is_even);
    CU_ADD_TEST(suite, poisson_gaps_are_exponential);
    CU_ADD_TEST(suite, a_seed_repeats_a_schedule);
    CU_ADD_TEST(suite, the_knee_of_a_known_server_is_found);
    CU_ADD_TEST(suite, a_server_that_keeps_nothing_or_everything_ends_the_search);
    CU_ADD_TEST(suite, noise_does_not_undo_what_is_known);
    CU_ADD_TEST(suite, planted_delays_give_their_percentiles);
    CU_ADD_TEST(suite, a_pause_of_a_second_shows_in_every_percentile_above);
    CU_ADD_TEST(suite, a_closed_loop_hides_the_same_pause);
    CU_ADD_TEST(suite, what_is_over_the_limit_is_late_and_not_dropped);
    CU_ADD_TEST(suite, a_server_that_is_too_slow_is_not_kept_and_is_no_fault_of_the_client);
    CU_ADD_TEST(suite, a_server_that_never_answers_again_is_reported_with_how_long_it_was_waited_for);
    CU_ADD_TEST(suite, a_client_that_shares_its_cpu_says_so);
    CU_ADD_TEST(suite, what_is_warmed_up_does_not_count);
    CU_ADD_TEST(suite, more_samples_than_are_kept_are_refused);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
