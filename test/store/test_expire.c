#include "audit.h"
#include "store_fixture.h"
#include <CUnit/Basic.h>

#define NOW  1000000 /* ms: what fixture_join() sets */
#define MANY 100000

static struct store *store;
static struct store_member *a, *b;

static void
open_two(void)
{
    store = fixture_open(2, 64 * MIB, MANY);
    a = fixture_join(store, 0);
    b = fixture_join(store, 1);
}

static void
shut(void)
{
    fixture_settle(b, a);
    store_leave(b);
    CU_ASSERT(audit_passes(a, 0));
    store_leave(a);
    store_close(store);
}

static void
set_time(int64_t now_ms)
{
    store_set_time(a, now_ms);
    store_set_time(b, now_ms);
}

static void
put_many(uint32_t count, int64_t expires_at_ms)
{
    char text[32];
    for (uint32_t i = 0; i < count; i++) {
        struct slice key = slice_of(text, (size_t)snprintf(text, sizeof(text), "k:%u", i));
        while (fixture_set_until(a, key, key, expires_at_ms) != STORE_OK) {
            fixture_turn(a);
            fixture_turn(b);
            store_manage(store);
        }
        if (i % 256 == 0) {
            store_manage(store);
            fixture_turn(a);
            fixture_turn(b);
        }
    }
    store_relaxed(&store->sweep_expired, true); /* as the management core will have decided */
}

/* ---- what a dead key is ---- */

struct seen {
    bool was_there;
};

static enum store_change
expire_change(void *context, struct store_member *member, const struct record *old, struct record **fresh)
{
    struct seen *seen = context;
    seen->was_there = old != NULL;
    if (old == NULL) {
        return STORE_KEEP;
    }
    if (*fresh == NULL) {
        *fresh = store_record(member, RECORD_STRING, record_key(old), old->value_bytes, member->now_ms + 1000000);
        if (*fresh == NULL) {
            return STORE_NO_MEMORY;
        }
        memcpy(record_value_room(*fresh), record_value(old).data, old->value_bytes);
    }
    return STORE_PUBLISH;
}

static void
a_dead_key_is_absent_to_every_command_and_never_comes_back(void)
{
    open_two();
    struct slice key = SLICE_LITERAL("k");
    uint64_t nine = 9, value;
    bool was_there = true;
    struct seen seen = { true };
    CU_ASSERT_EQUAL(fixture_set_until(a, key, slice_of(&nine, 8), NOW + 5), STORE_OK);
    set_time(NOW + 5); /* its last millisecond */
    CU_ASSERT_PTR_NOT_NULL(fixture_get(b, key));
    set_time(NOW + 6);
    CU_ASSERT_PTR_NULL(fixture_get(b, key));
    CU_ASSERT((store_view(b, key, store_hash(store, key)).version & INDEX_GONE) != 0);
    CU_ASSERT_EQUAL(store_update(b, key, store_hash(store, key), expire_change, &seen), STORE_OK);
    CU_ASSERT(!seen.was_there); /* EXPIRE, PERSIST, RENAME find nothing */
    CU_ASSERT_EQUAL(fixture_del(b, key, &was_there), STORE_OK);
    CU_ASSERT(!was_there);
    CU_ASSERT_EQUAL(fixture_incr(b, key, &value), STORE_OK);
    CU_ASSERT_EQUAL(value, 1); /* not 10 */
    CU_ASSERT_EQUAL(record_expires_at_ms(fixture_get(b, key)), RECORD_NO_EXPIRY);
    CU_ASSERT_EQUAL(fixture_stats(store).expired_keys, 1);
    CU_ASSERT_EQUAL(fixture_stats(store).keys, 1);
    CU_ASSERT_EQUAL(fixture_stats(store).keys_with_expiry, 0);
    shut();
}

/* What a command sees is decided by the time of its burst, whatever others' clocks say meanwhile. */
static void
one_time_holds_for_a_whole_command(void)
{
    open_two();
    struct slice key = SLICE_LITERAL("k");
    uint64_t nine = 9, value;
    CU_ASSERT_EQUAL(fixture_set_until(a, key, slice_of(&nine, 8), NOW + 5), STORE_OK);
    store_set_time(a, NOW + 5);
    store_set_time(b, NOW + 6); /* b is ahead by a millisecond */
    CU_ASSERT_EQUAL(fixture_incr(b, key, &value), STORE_OK);
    CU_ASSERT_EQUAL(value, 1);
    CU_ASSERT_EQUAL(fixture_incr(a, key, &value), STORE_OK);
    CU_ASSERT_EQUAL(value, 2); /* a finds what b made of it, not the version that lives by its own clock */
    shut();
}

static void
reads_remove_nothing_and_the_sweep_does(void)
{
    open_two();
    put_many(1000, NOW + 5);
    set_time(NOW + 6);
    char text[32];
    for (uint32_t i = 0; i < 1000; i++) {
        CU_ASSERT_PTR_NULL(fixture_get(a, slice_of(text, (size_t)snprintf(text, sizeof(text), "k:%u", i))));
    }
    CU_ASSERT_EQUAL(store_keys(store), 1000);
    for (uint32_t i = 0; i < 10000 && store_keys(store) != 0; i++) {
        set_time(a->now_ms + 1);
        fixture_turn(a);
        fixture_turn(b);
    }
    CU_ASSERT_EQUAL(store_keys(store), 0);
    CU_ASSERT_EQUAL(fixture_stats(store).expired_keys, 1000);
    shut();
}

/* ---- how much work ---- */

#define TURN_MOST 600 /* records that a turn may remove: some 60 us */

static void
very_many_that_expire_at_once_go_in_bounded_turns_and_soon(void)
{
    open_two();
    put_many(MANY, NOW + 1000);
    set_time(NOW + 1001);
    uint64_t most = 0, turns = 0;
    for (; store_keys(store) != 0 && turns < 20000; turns++) {
        uint64_t before = store_keys(store);
        store_quiesce(a);
        store_housekeep(a);
        most = MAX(most, before - store_keys(store));
        store_quiesce(b);
        before = store_keys(store);
        store_housekeep(b);
        most = MAX(most, before - store_keys(store));
    } /* no time passed: what drives the sweep is how many it finds dead */
    CU_ASSERT_EQUAL(store_keys(store), 0);
    CU_ASSERT(most <= TURN_MOST);
    CU_ASSERT(turns <= MANY / 10);
    shut();
}

static void
few_dead_keys_among_many_cost_a_share_of_each_millisecond_only(void)
{
    open_two();
    put_many(MANY, NOW + 100000000);
    char text[32];
    for (uint32_t i = 0; i < MANY; i += 100) { /* one in a hundred */
        struct slice key = slice_of(text, (size_t)snprintf(text, sizeof(text), "k:%u", i));
        CU_ASSERT_EQUAL(fixture_set_until(a, key, key, NOW + 5), STORE_OK);
        fixture_turn(a);
        fixture_turn(b);
    }
    set_time(NOW + 1000);
    for (uint32_t i = 0; i < 2000; i++) { /* turns of one millisecond */
        fixture_turn(a);
    }
    uint64_t gone = fixture_stats(store).expired_keys;
    CU_ASSERT(gone < 100 && !a->sweep.hungry);
    for (uint32_t ms = 0; ms < 3000 && fixture_stats(store).expired_keys < MANY / 100; ms++) {
        set_time(a->now_ms + 1);
        for (uint32_t i = 0; i < 20; i++) {
            fixture_turn(a);
            fixture_turn(b);
        }
    }
    CU_ASSERT_EQUAL(fixture_stats(store).expired_keys, MANY / 100);
    CU_ASSERT_EQUAL(store_keys(store), MANY - MANY / 100);
    shut();
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("expire", NULL, NULL);
    CU_ADD_TEST(suite, a_dead_key_is_absent_to_every_command_and_never_comes_back);
    CU_ADD_TEST(suite, one_time_holds_for_a_whole_command);
    CU_ADD_TEST(suite, reads_remove_nothing_and_the_sweep_does);
    CU_ADD_TEST(suite, very_many_that_expire_at_once_go_in_bounded_turns_and_soon);
    CU_ADD_TEST(suite, few_dead_keys_among_many_cost_a_share_of_each_millisecond_only);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
