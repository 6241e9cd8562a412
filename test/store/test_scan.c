/* The walk over all keys: what it must meet, what it must not, and how much a step may do. */
#include "store/scan.h"
#include "store_fixture.h"
#include <CUnit/Basic.h>

#define ROOM      256
#define STABLE    20000
#define CHURN     60000
#define STEPS_MAX 10000000

static struct store *store;
static struct store_member *a, *b;
static uint32_t seen_stable[STABLE], seen_churn[CHURN];

static void
open_reserve(uint64_t reserve_bytes, uint64_t limit_bytes, uint64_t keys_expected)
{
    struct store_config config = {
        .memory = { .reserve_bytes = reserve_bytes, .limit_bytes = limit_bytes, .ahead_bytes = 8 * MIB },
        .keys_expected = keys_expected,
        .members = 2,
        .trust_cycle_counter = true,
    };
    CHECK(store_open(&config, &store) == 0);
    a = fixture_join(store, 0);
    b = fixture_join(store, 1);
}

static void
open_two(uint64_t limit_bytes, uint64_t keys_expected)
{
    open_reserve(limit_bytes, limit_bytes, keys_expected);
}

static void
shut(void)
{
    store_leave(b);
    store_leave(a);
    store_close(store);
}

static void
turn(void)
{
    fixture_turn(a);
    fixture_turn(b);
    store_manage(store);
}

static struct slice
key_named(char text[32], char kind, uint32_t n)
{
    snprintf(text, 32, "%c:%u", kind, n);
    return slice_text(text);
}

static void
put_until(char kind, uint32_t n, int64_t expires_at_ms)
{
    char text[32];
    struct slice key = key_named(text, kind, n);
    while (fixture_set_until(n % 2 ? a : b, key, key, expires_at_ms) != STORE_OK) {
        turn();
    }
}

static void
put_many(char kind, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) {
        put_until(kind, n, RECORD_NO_EXPIRY);
        if (n % 64 == 0) {
            turn();
        }
    }
}

static void
del(char kind, uint32_t n)
{
    char text[32];
    bool was_there;
    while (fixture_del(a, key_named(text, kind, n), &was_there) != STORE_OK) {
        turn();
    }
}

static void
forget_seen(void)
{
    memset(seen_stable, 0, sizeof(seen_stable));
    memset(seen_churn, 0, sizeof(seen_churn));
}

static void
saw(const struct record *record)
{
    char text[32];
    struct slice key = record_key(record);
    CU_ASSERT_FATAL(key.bytes > 2 && key.bytes < sizeof(text));
    memcpy(text, key.data, key.bytes);
    text[key.bytes] = '\0';
    uint32_t n = (uint32_t)atoi(text + 2);
    CU_ASSERT_FATAL((text[0] == 's' && n < STABLE) || (text[0] == 'c' && n < CHURN));
    (text[0] == 's' ? seen_stable : seen_churn)[n]++;
}

/* One step; what it met is marked. */
static struct scan_step
step(uint64_t cursor, uint32_t room)
{
    const struct record *records[ROOM];
    struct scan_step step = scan_next(a, cursor, records, room);
    CU_ASSERT_FATAL(step.count <= room);
    CU_ASSERT_FATAL(step.next == 0 || step.next > cursor); /* so that a walk ends */
    for (uint32_t i = 0; i < step.count; i++) {
        saw(records[i]);
    }
    return step;
}

/* A whole walk, with `between` after each step. Returns the keys met. */
static uint64_t
walk(uint32_t room, void (*between)(uint32_t at))
{
    uint64_t cursor = 0, met = 0;
    forget_seen();
    for (uint32_t steps = 0; steps < STEPS_MAX; steps++) {
        struct scan_step now = step(cursor, room);
        met += now.count;
        cursor = now.next;
        if (between != NULL) {
            between(steps);
        }
        if (cursor == 0) {
            return met;
        }
    }
    CU_FAIL_FATAL("the walk does not end");
    return 0;
}

static uint32_t
stable_not_met_once(void)
{
    uint32_t wrong = 0;
    for (uint32_t n = 0; n < STABLE; n++) {
        wrong += seen_stable[n] != 1;
    }
    return wrong;
}

/* ---- bad cursors, nothing to find ---- */

static void
any_number_is_a_safe_cursor(void)
{
    const struct record *records[ROOM];
    open_two(64 * MIB, 0);
    put_many('s', 1000);
    uint64_t end = (uint64_t)store->index.segment_count << SCAN_PLACE_BITS;
    const uint64_t beyond[] = { end, end + 1, 1ull << 53, 1ull << 63, UINT64_MAX, UINT64_MAX - 65535 };
    for (size_t i = 0; i < ARRAY_COUNT(beyond); i++) {
        struct scan_step step = scan_next(a, beyond[i], records, ROOM);
        CU_ASSERT_TRUE(step.next == 0 && step.count == 0);
    }
    uint64_t random = 12345;
    for (uint32_t i = 0; i < 100000; i++) {
        uint64_t cursor = fixture_random(&random) >> (i % 64);
        struct scan_step step = scan_next(a, cursor, records, ROOM);
        CU_ASSERT_FATAL(step.next == 0 || (step.next > cursor && step.next < end));
    }
    shut();
}

static void
an_empty_store_is_walked_by_rows(void)
{
    const struct record *records[ROOM];
    open_two(64 * MIB, 0);
    uint32_t steps = 0;
    for (uint64_t cursor = 0; steps == 0 || cursor != 0; steps++) {
        struct scan_step step = scan_next(a, cursor, records, ROOM);
        CU_ASSERT_EQUAL_FATAL(step.count, 0);
        cursor = step.next;
    }
    CU_ASSERT_TRUE(steps <= 2); /* 512 segments are 8 rows */
    shut();

    open_reserve(12 * GIB, 64 * MIB, 0);
    CU_ASSERT_EQUAL(store->index.segment_count, 65536);
    steps = 0;
    for (uint64_t cursor = 0; steps == 0 || cursor != 0; steps++) {
        cursor = scan_next(a, cursor, records, ROOM).next;
    }
    CU_ASSERT_TRUE(steps >= 4 && steps <= 5); /* 256 rows a step */
    put_until('s', 7, RECORD_NO_EXPIRY);
    CU_ASSERT_EQUAL(walk(ROOM, NULL), 1);
    CU_ASSERT_EQUAL(seen_stable[7], 1);
    shut();
}

/* ---- what is met ---- */

static void
every_key_is_met_once_at_rest(void)
{
    static const uint32_t expected[] = { 0, 1000, 20000, 1000000 };
    for (size_t i = 0; i < ARRAY_COUNT(expected); i++) {
        open_two(64 * MIB, expected[i]);
        put_many('s', STABLE);
        CU_ASSERT_EQUAL(walk(ROOM, NULL), STABLE);
        CU_ASSERT_EQUAL(stable_not_met_once(), 0);
        shut();
    }
}

static void
what_is_gone_is_not_met(void)
{
    open_two(64 * MIB, 1000);
    for (uint32_t n = 0; n < 3000; n++) {
        put_until('s', n, n % 3 == 0 ? 1000000 : RECORD_NO_EXPIRY);
    }
    for (uint32_t n = 1; n < 3000; n += 3) {
        del('s', n);
    }
    CU_ASSERT_EQUAL(walk(ROOM, NULL), 2000); /* in the very millisecond it still lives */
    store_set_time(a, 1000001);
    CU_ASSERT_EQUAL(walk(ROOM, NULL), 1000);
    for (uint32_t n = 0; n < 3000; n++) {
        CU_ASSERT_EQUAL(seen_stable[n], n % 3 == 2);
    }
    for (int i = 0; i < 1000; i++) { /* swept: TOMBs, then none */
        turn();
    }
    CU_ASSERT_EQUAL(walk(ROOM, NULL), 1000);
    CU_ASSERT_EQUAL(store_flush(b), STORE_OK);
    CU_ASSERT_EQUAL(walk(ROOM, NULL), 0);
    put_until('s', 9, RECORD_NO_EXPIRY);
    CU_ASSERT_EQUAL(walk(ROOM, NULL), 1);
    shut();
}

/* No turn, so no rebuild: chains grow as long as they like. */
static void
a_chain_larger_than_the_room_comes_in_parts(void)
{
    open_two(64 * MIB, 0);
    uint64_t longest = 0;
    for (uint32_t n = 0; n < CHURN; n++) {
        char text[32];
        struct slice key = key_named(text, 'c', n);
        uint64_t hash = store_hash(store, key);
        if (index_segment_of(&store->index, hash) % 128 != 0) {
            continue; /* 4 segments of 1 bucket */
        }
        CHECK(fixture_put(a, key, key) == STORE_OK);
        longest++;
    }
    CU_ASSERT_FATAL(longest / 4 > SCAN_ROOM_LEAST);
    CU_ASSERT_EQUAL(walk(SCAN_ROOM_LEAST, NULL), longest);
    uint32_t twice = 0;
    for (uint32_t n = 0; n < CHURN; n++) {
        twice += seen_churn[n] > 1;
    }
    CU_ASSERT_EQUAL(twice, 0);
    shut();
}

/* ---- while tables change ---- */

static uint64_t tables_seen;

/* 40 keys come in each of the first 1500 steps and go in the others. */
static void
grow_then_shrink(uint32_t at)
{
    uint32_t n = at % 1500 * 40;
    for (uint32_t i = 0; i < 40; i++) {
        if (at / 1500 % 2 == 0) {
            put_until('c', n + i, RECORD_NO_EXPIRY);
        } else {
            del('c', n + i);
        }
    }
    turn();
    for (uint32_t segment = 0; segment < store->index.segment_count; segment++) {
        tables_seen += load_relaxed(&store->index.segments[segment].next) != 0; /* now, under the cursor */
    }
}

/* Keys that expire leave TOMBs, and those rebuilds. */
static void
expire_and_come_again(uint32_t at)
{
    store_set_time(a, 1000000 + at);
    store_set_time(b, 1000000 + at);
    for (uint32_t i = 0; i < 40; i++) {
        put_until('c', (at * 40 + i) % CHURN, 1000000 + at + 20);
    }
    turn();
}

/* What stays is met exactly once: only what goes and comes under one step may be met twice. */
static void
keys_that_stay_are_met_however_tables_change(void)
{
    static void (*const between[])(uint32_t at) = { grow_then_shrink, expire_and_come_again };
    for (size_t i = 0; i < ARRAY_COUNT(between); i++) {
        open_two(128 * MIB, 0);
        put_many('s', STABLE);
        tables_seen = 0;
        struct store_stats before, after;
        store_stats(store, &before);
        walk(ROOM, between[i]);
        CU_ASSERT_EQUAL(stable_not_met_once(), 0);
        store_stats(store, &after);
        CU_ASSERT_TRUE(after.rebuilds > before.rebuilds + 100);
        shut();
    }
}

static void
half_moved_tables_are_followed(void)
{
    open_two(128 * MIB, 0);
    put_many('s', STABLE);
    uint32_t halves = 0, wrong = 0;
    for (uint32_t n = 0; n < CHURN; n++) {
        put_until('c', n, RECORD_NO_EXPIRY);
        rebuild_step(a); /* and nobody else: what it leads stands still where it is */
        if (a->rebuild.state == REBUILD_MOVE && a->rebuild.bucket != 0 && ++halves % 16 == 0) {
            walk(ROOM, NULL);
            wrong += stable_not_met_once();
        }
        if (n % 64 == 0) {
            store_quiesce(a);
            store_quiesce(b);
            limbo_reclaim(&a->limbo, 1000);
            limbo_reclaim(&b->limbo, 1000);
            store_manage(store);
        }
    }
    CU_ASSERT_TRUE(halves > 100);
    CU_ASSERT_EQUAL(wrong, 0);
    shut();
}

static void
first_tables_may_appear_behind_and_ahead(void)
{
    open_two(64 * MIB, 0);
    put_many('s', 200); /* of 512 segments some have a table */
    uint64_t cursor = 0;
    uint32_t added = 0, met = 0;
    forget_seen();
    do {
        struct scan_step now = step(cursor, ROOM);
        cursor = now.next;
        put_until('c', added++, RECORD_NO_EXPIRY);
    } while (cursor != 0);
    for (uint32_t n = 0; n < 200; n++) {
        CU_ASSERT_EQUAL(seen_stable[n], 1);
    }
    for (uint32_t n = 0; n < added; n++) {
        met += seen_churn[n];
        CU_ASSERT_TRUE(seen_churn[n] <= 1);
    }
    CU_ASSERT_TRUE(met > 0 && met < added);
    shut();
}

/* ---- at random ---- */

static void
a_key_is_met_from_its_own_place_on(void)
{
    open_two(64 * MIB, 0);
    put_many('s', STABLE);
    for (uint32_t n = 0; n < STABLE; n++) {
        char text[32];
        const struct record *records[ROOM];
        struct slice key = key_named(text, 's', n);
        uint64_t at = scan_cursor(store, store_hash(store, key));
        struct scan_step here = scan_next(a, at, records, ROOM);
        uint32_t found = 0;
        for (uint32_t i = 0; i < here.count; i++) {
            found += slice_equal(record_key(records[i]), key);
        }
        CU_ASSERT_EQUAL_FATAL(found, 1);
        struct scan_step behind = scan_next(a, at + 1, records, ROOM);
        for (uint32_t i = 0; i < behind.count; i++) {
            CU_ASSERT_FALSE_FATAL(slice_equal(record_key(records[i]), key));
        }
    }
    shut();
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("scan", NULL, NULL);
    CU_ADD_TEST(suite, any_number_is_a_safe_cursor);
    CU_ADD_TEST(suite, an_empty_store_is_walked_by_rows);
    CU_ADD_TEST(suite, every_key_is_met_once_at_rest);
    CU_ADD_TEST(suite, what_is_gone_is_not_met);
    CU_ADD_TEST(suite, a_chain_larger_than_the_room_comes_in_parts);
    CU_ADD_TEST(suite, keys_that_stay_are_met_however_tables_change);
    CU_ADD_TEST(suite, half_moved_tables_are_followed);
    CU_ADD_TEST(suite, first_tables_may_appear_behind_and_ahead);
    CU_ADD_TEST(suite, a_key_is_met_from_its_own_place_on);
    CU_basic_run_tests();
    return CU_get_number_of_failures() != 0;
}
