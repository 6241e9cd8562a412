#include "store_fixture.h"
#include <CUnit/Basic.h>
#include <time.h>
#include <unistd.h>

static struct store *store;
static struct store_member *a, *b;

static void
open_two(void)
{
    store = fixture_open(2, 32 * MIB, 1024);
    a = fixture_join(store, 0);
    b = fixture_join(store, 1);
}

static void
shut(void)
{
    store_leave(b);
    store_leave(a);
    store_close(store);
}

static uint32_t
in_limbo(const struct store_member *member)
{
    return member->limbo.tail - member->limbo.head;
}

static void
retire(struct store_member *member, uint32_t blocks, size_t bytes)
{
    for (uint32_t i = 0; i < blocks; i++) {
        void *block = memory_take(store_memory(member), bytes);
        if (block == NULL) {
            store_manage(store);
            block = memory_take(store_memory(member), bytes);
        }
        CU_ASSERT_PTR_NOT_NULL_FATAL(block);
        limbo_retire(&member->limbo, block, bytes);
    }
}

static void
turns(struct store_member *member, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        fixture_turn(member);
    }
}

static void
nothing_is_freed_while_another_member_has_not_reported(void)
{
    open_two();
    retire(a, 100, 64);
    turns(a, 1000);
    CU_ASSERT_EQUAL(in_limbo(a), 100);
    store_quiesce(b);
    turns(a, 10);
    CU_ASSERT_EQUAL(in_limbo(a), 0);
    CU_ASSERT_EQUAL(load_relaxed(&a->limbo.bytes), 0);
    shut();
}

static void
a_report_from_before_the_unlinking_does_not_count(void)
{
    open_two();
    store_quiesce(b);
    retire(a, 100, 64);
    store_quiesce(a); /* seals; b's report was before */
    turns(a, 20);
    CU_ASSERT_EQUAL(in_limbo(a), 100);
    shut();
}

static void
a_member_is_not_waited_for_while_it_is_offline_and_is_again_when_it_is_back(void)
{
    open_two();
    store_offline(b);
    retire(a, 100, 64);
    turns(a, 10);
    CU_ASSERT_EQUAL(in_limbo(a), 0);
    store_online(b);
    retire(a, 100, 64);
    turns(a, 100);
    CU_ASSERT_EQUAL(in_limbo(a), 100);
    store_offline(b);
    turns(a, 10);
    CU_ASSERT_EQUAL(in_limbo(a), 0);
    store_online(b);
    shut();
}

static void
a_small_batch_is_sealed_after_some_turns(void)
{
    open_two();
    retire(a, 1, 64);
    for (uint32_t i = 0; i < LIMBO_SEAL_TURNS + 8; i++) {
        turns(a, 1);
        turns(b, 1);
    }
    CU_ASSERT_EQUAL(in_limbo(a), 0);
    shut();
}

static void
more_open_batches_than_the_ring_holds_are_joined(void)
{
    open_two();
    for (uint32_t i = 0; i < LIMBO_BATCHES + 50; i++) {
        retire(a, 1, 64);
        qsbr_offline(&a->limbo); /* seals each time */
        qsbr_online(&a->limbo);
    }
    CU_ASSERT_EQUAL(in_limbo(a), LIMBO_BATCHES + 50);
    for (uint32_t i = 0; i < 200; i++) {
        turns(a, 1);
        turns(b, 1);
    }
    CU_ASSERT_EQUAL(in_limbo(a), 0);
    shut();
}

static void
limbo_says_when_it_is_too_full_by_blocks_and_by_bytes(void)
{
    open_two();
    retire(a, LIMBO_BLOCKS / 2 - 1, 16);
    CU_ASSERT_EQUAL(limbo_room(&a->limbo), LIMBO_ROOM);
    retire(a, 1, 16);
    CU_ASSERT_EQUAL(limbo_room(&a->limbo), LIMBO_SOFT);
    retire(a, LIMBO_BLOCKS / 2 - LIMBO_MARGIN_BLOCKS, 16);
    CU_ASSERT_EQUAL(limbo_room(&a->limbo), LIMBO_HARD);
    retire(b, 4, MIB);
    CU_ASSERT_EQUAL(limbo_room(&b->limbo), LIMBO_SOFT);
    retire(b, 4, MIB);
    CU_ASSERT_EQUAL(limbo_room(&b->limbo), LIMBO_HARD);
    shut();
}

static void
writers_park_at_the_soft_limit_are_refused_at_the_hard_one_and_the_stalled_member_is_named(void)
{
    open_two();
    struct slice key = SLICE_LITERAL("k");
    retire(a, LIMBO_BLOCKS / 2, 16);
    CU_ASSERT_EQUAL(fixture_put(a, key, key), STORE_TRY_LATER);
    struct store_stats stats;
    for (uint32_t ms = 0; ms < STORE_STALL_MS + 300; ms += 10) { /* b stands still */
        store_quiesce(a);
        store_manage(store);
        usleep(10000);
    }
    store_stats(store, &stats);
    CU_ASSERT_EQUAL(stats.stalled_member, 1);
    CU_ASSERT(stats.stalled_ms >= STORE_STALL_MS);
    CU_ASSERT_STRING_EQUAL(store_member_name(store, 1), "test");
    CU_ASSERT_EQUAL(fixture_put(a, key, key), STORE_TRY_LATER); /* it may be back before the session gives up */
    retire(a, LIMBO_BLOCKS / 2 - LIMBO_MARGIN_BLOCKS, 16);
    CU_ASSERT_EQUAL(fixture_put(a, key, key), STORE_OOM);
    for (uint32_t i = 0; i < 1000; i++) {
        turns(b, 1);
        turns(a, 1);
    }
    store_manage(store);
    store_stats(store, &stats);
    CU_ASSERT_EQUAL(stats.stalled_member, -1);
    CU_ASSERT_EQUAL(fixture_put(a, key, key), STORE_OK);
    CU_ASSERT_EQUAL(stats.try_laters, 2);
    CU_ASSERT_EQUAL(stats.oom_refusals, 1);
    shut();
}

static void
who_takes_a_seat_finds_what_was_left_in_its_limbo(void)
{
    open_two();
    retire(a, 10, 64);
    qsbr_offline(&a->limbo);
    a->joined = false; /* left in a hurry, while b held on */
    memory_leave(a->cache);
    CU_ASSERT_EQUAL(in_limbo(a), 10);
    a = fixture_join(store, 0);
    for (uint32_t i = 0; i < 20; i++) {
        turns(b, 1);
        turns(a, 1);
    }
    CU_ASSERT_EQUAL(in_limbo(a), 0);
    shut();
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("qsbr", NULL, NULL);
    CU_ADD_TEST(suite, nothing_is_freed_while_another_member_has_not_reported);
    CU_ADD_TEST(suite, a_report_from_before_the_unlinking_does_not_count);
    CU_ADD_TEST(suite, a_member_is_not_waited_for_while_it_is_offline_and_is_again_when_it_is_back);
    CU_ADD_TEST(suite, a_small_batch_is_sealed_after_some_turns);
    CU_ADD_TEST(suite, more_open_batches_than_the_ring_holds_are_joined);
    CU_ADD_TEST(suite, limbo_says_when_it_is_too_full_by_blocks_and_by_bytes);
    CU_ADD_TEST(suite, writers_park_at_the_soft_limit_are_refused_at_the_hard_one_and_the_stalled_member_is_named);
    CU_ADD_TEST(suite, who_takes_a_seat_finds_what_was_left_in_its_limbo);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
