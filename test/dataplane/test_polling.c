/* test_polling.c - which ports a turn polls: fake ports that count, on a clock moved by hand. One cycle is one ns. */
#include "dataplane/lcore.h"
#include "dataplane/polling.h"
#include <CUnit/Basic.h>

#define TURN_NS 500 /* of a turn that finds nothing */

struct fake_port {
    struct port port; /* first */
    uint64_t polls;
    uint32_t events;  /* answered by the next poll */
    uint32_t flushes; /* answered by the next flush */
};

static struct lcore_histograms histograms;
static struct lcore lcore;
static struct fake_port ports[3]; /* a bypass port, then two that make calls */
enum { BYPASS, CALLS, MORE_CALLS };

static uint32_t
fake_poll(struct port *port)
{
    struct fake_port *fake = (struct fake_port *)port;
    uint32_t events = fake->events;
    fake->polls++;
    fake->events = 0;
    return events;
}

static uint32_t
fake_flush(struct port *port)
{
    struct fake_port *fake = (struct fake_port *)port;
    uint32_t sent = fake->flushes;
    fake->flushes = 0;
    return sent;
}

static const struct port_ops fake_ops = { .poll = fake_poll, .flush = fake_flush };

/* Ports that have been silent for a second. */
static void
begin(void)
{
    memset(&lcore, 0, sizeof(lcore));
    memset(&histograms, 0, sizeof(histograms));
    lcore.histograms = &histograms;
    memset(ports, 0, sizeof(ports));
    lcore.now_cycles = 1000000000;
    lcore.poll_busy_cycles = POLL_BUSY_NS;
    lcore.poll_pause_cycles = POLL_PAUSE_NS;
    for (uint32_t i = 0; i < ARRAY_COUNT(ports); i++) {
        ports[i].port.ops = &fake_ops;
        ports[i].port.makes_calls = i != BYPASS;
        lcore.ports[lcore.port_count++] = &ports[i].port;
    }
}

static void
turn(void)
{
    lcore.now_cycles += TURN_NS;
    poll_ports(&lcore);
    poll_flush_ports(&lcore);
}

/* Turns of a closed-loop client on `port`, an event every `gap_turns`. */
static void
serve(uint32_t port, uint32_t turns, uint32_t gap_turns)
{
    for (uint32_t i = 0; i < turns; i++) {
        ports[port].events = i % gap_turns == 0;
        turn();
    }
}

/* Turns until the event that waits on `port` is seen. */
static uint32_t
turns_until_seen(uint32_t port, uint32_t busy)
{
    uint32_t turns = 0;
    ports[port].events = 1;
    while (ports[port].events != 0 && turns < 1000) {
        ports[busy].events = 1;
        turn();
        turns++;
    }
    return turns;
}

static void
every_port_is_polled_in_every_turn_while_all_are_idle(void)
{
    begin();
    for (uint32_t i = 0; i < 1000; i++) {
        turn();
    }
    for (uint32_t i = 0; i < ARRAY_COUNT(ports); i++) {
        CU_ASSERT_EQUAL(ports[i].polls, 1000);
    }
}

static void
a_port_that_makes_calls_is_polled_seldom_beside_a_busy_one(void)
{
    begin();
    serve(BYPASS, 4000, 4); /* 2 ms, a request every 2 us */
    CU_ASSERT_EQUAL(ports[BYPASS].polls, 4000);
    for (uint32_t i = CALLS; i <= MORE_CALLS; i++) {
        CU_ASSERT(ports[i].polls <= 4000 * TURN_NS / POLL_PAUSE_NS + 2);
    }
}

static void
no_port_waits_longer_than_the_pause(void)
{
    begin();
    serve(BYPASS, 4000, 1);
    for (uint32_t i = 0; i < 50; i++) {
        serve(BYPASS, 4000 + i, 1);
        CU_ASSERT(turns_until_seen(CALLS, BYPASS) <= POLL_PAUSE_NS / TURN_NS + 1);
    }
}

static void
the_only_busy_port_is_polled_in_every_turn(void)
{
    begin();
    serve(CALLS, 4000, 100); /* a request every 50 us */
    CU_ASSERT_EQUAL(ports[CALLS].polls, 4000);
    CU_ASSERT(ports[MORE_CALLS].polls <= 4000 * TURN_NS / POLL_PAUSE_NS + 2);
}

static void
a_port_is_polled_in_every_turn_again_when_the_others_fall_silent(void)
{
    begin();
    serve(BYPASS, 4000, 1);
    for (uint32_t i = 0; i < (POLL_BUSY_NS + POLL_PAUSE_NS) / TURN_NS; i++) {
        turn();
    }
    uint64_t before = ports[CALLS].polls;
    for (uint32_t i = 0; i < 100; i++) {
        turn();
    }
    CU_ASSERT_EQUAL(ports[CALLS].polls - before, 100);
}

static void
an_event_ends_the_pause(void)
{
    begin();
    serve(BYPASS, 4000, 1);
    (void)turns_until_seen(CALLS, BYPASS);
    uint64_t before = ports[CALLS].polls;
    serve(BYPASS, POLL_PAUSE_SHARE, 1); /* its silence is shorter than the turns that a pause of an eighth would skip */
    CU_ASSERT_EQUAL(ports[CALLS].polls - before, POLL_PAUSE_SHARE);
}

static void
output_ends_the_pause(void)
{
    begin();
    serve(BYPASS, 4000, 1);
    ports[CALLS].flushes = 1;
    ports[BYPASS].events = 1;
    turn();
    uint64_t before = ports[CALLS].polls;
    serve(BYPASS, POLL_PAUSE_SHARE, 1);
    CU_ASSERT_EQUAL(ports[CALLS].polls - before, POLL_PAUSE_SHARE);
}

/* A closed-loop client on each of two ports that make calls: its next request, `gap` after its last, is found late by
 * an eighth of the gap and a turn at most. */
static void
two_busy_ports_wait_little_for_each_other(void)
{
    for (uint32_t gap = 4; gap <= 100; gap++) {
        begin();
        serve(CALLS, 1, 1);
        uint32_t next = gap - 1, late_max = 0;
        for (uint32_t i = 0; i < 20000; i++) {
            ports[BYPASS].events = i % 3 == 0;
            ports[CALLS].events = i >= next;
            turn();
            if (i >= next && ports[CALLS].events == 0) {
                late_max = MAX(late_max, i - next);
                next = i + gap;
            }
        }
        CU_ASSERT(late_max <= gap / POLL_PAUSE_SHARE + 2);
    }
}

/* Sessions stay dirty for some flushes, then none is. */
static void
what_a_flush_leaves_and_for_how_long_is_recorded(void)
{
    static struct session left[PORT_DEPTH_MOST + 1];
    struct histogram_snapshot depth = { .total = 0 }, stalled = { .total = 0 };
    struct histogram_seen seen = { .sum = 0 };

    begin();
    memset(left, 0, sizeof(left));
    for (uint32_t i = 0; i < PORT_DEPTH_MOST; i++) {
        left[i].dirty_next = &left[i + 1];
    }
    ports[0].port.dirty = &left[PORT_DEPTH_MOST - 1]; /* two */
    poll_flush_ports(&lcore);
    poll_flush_ports(&lcore);
    ports[0].port.dirty = &left[0]; /* more than are counted */
    poll_flush_ports(&lcore);
    ports[0].port.dirty = NULL;
    poll_flush_ports(&lcore);
    poll_flush_ports(&lcore);
    histogram_since(&depth, &seen, &histograms.ports[0].depth);
    CU_ASSERT(depth.total == 3 && depth.max == PORT_DEPTH_MOST && depth.sum == 2 + 2 + PORT_DEPTH_MOST);
    memset(&seen, 0, sizeof(seen));
    histogram_since(&stalled, &seen, &histograms.ports[0].stalled);
    CU_ASSERT(stalled.total == 1 && stalled.max == 3);
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("polling", NULL, NULL);
    CU_ADD_TEST(suite, no_port_waits_longer_than_the_pause);
    CU_ADD_TEST(suite, a_port_that_makes_calls_is_polled_seldom_beside_a_busy_one);
    CU_ADD_TEST(suite, every_port_is_polled_in_every_turn_while_all_are_idle);
    CU_ADD_TEST(suite, the_only_busy_port_is_polled_in_every_turn);
    CU_ADD_TEST(suite, a_port_is_polled_in_every_turn_again_when_the_others_fall_silent);
    CU_ADD_TEST(suite, an_event_ends_the_pause);
    CU_ADD_TEST(suite, output_ends_the_pause);
    CU_ADD_TEST(suite, two_busy_ports_wait_little_for_each_other);
    CU_ADD_TEST(suite, what_a_flush_leaves_and_for_how_long_is_recorded);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
