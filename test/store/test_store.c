#include "store_fixture.h"
#include <CUnit/Basic.h>
#include <errno.h>
#include <unistd.h>

#define NOW 1000000 /* ms: what fixture_join() sets */

static struct store *store;
static struct store_member *a, *b;

static void
open_two(void)
{
    store = fixture_open(2, 64 * MIB, 1024);
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

static void
turns(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        fixture_turn(a);
        fixture_turn(b);
    }
}

static bool
holds(struct slice key, struct slice value)
{
    const struct record *record = fixture_get(a, key);
    return record != NULL && slice_equal(record_value(record), value) && slice_equal(record_key(record), key);
}

/* ---- opening and joining ---- */

static void
a_store_without_members_or_with_too_many_is_refused(void)
{
    struct store_config config = { .memory = { 8 * MIB, 8 * MIB, 4 * MIB, false }, .members = 0 };
    struct store *none = NULL;
    CU_ASSERT_EQUAL(store_open(&config, &none), -EINVAL);
    config.members = LIMIT_MEMBERS + 1;
    CU_ASSERT_EQUAL(store_open(&config, &none), -EINVAL);
    CU_ASSERT_PTR_NULL(none);
}

static void
a_seat_is_joined_once(void)
{
    open_two();
    CU_ASSERT_PTR_NULL(store_join(store, 0, "again"));
    CU_ASSERT_PTR_NULL(store_join(store, 2, "beyond"));
    CU_ASSERT_PTR_EQUAL(store_of(a), store);
    shut();
}

/* ---- one key ---- */

static void
keys_of_any_bytes_and_lengths_hold_their_values(void)
{
    open_two();
    static uint8_t key[LIMIT_KEY_BYTES], value[LIMIT_VALUE_BYTES];
    static const size_t key_bytes[] = { 0, 1, 7, 8, 9, 16, 255, 4096, LIMIT_KEY_BYTES };
    static const size_t value_bytes[] = { 0, 1, 31, 4096, 70000, LIMIT_VALUE_BYTES };
    for (uint32_t k = 0; k < ARRAY_COUNT(key_bytes); k++) {
        memset(key, (int)k, sizeof(key));
        for (uint32_t v = 0; v < ARRAY_COUNT(value_bytes); v++) {
            memset(value, (int)v + 1, sizeof(value));
            struct slice key_slice = slice_of(key, key_bytes[k]), value_slice = slice_of(value, value_bytes[v]);
            store_manage(store);
            CU_ASSERT_EQUAL(fixture_put(a, key_slice, value_slice), STORE_OK);
            CU_ASSERT(holds(key_slice, value_slice));
            turns(20);
        }
    }
    CU_ASSERT_EQUAL(store_keys(store), ARRAY_COUNT(key_bytes));
    shut();
}

static void
a_missing_key_is_null_and_counted(void)
{
    open_two();
    CU_ASSERT_PTR_NULL(fixture_get(a, SLICE_LITERAL("none")));
    bool was_there = true;
    CU_ASSERT_EQUAL(fixture_del(a, SLICE_LITERAL("none"), &was_there), STORE_OK);
    CU_ASSERT_FALSE(was_there);
    CU_ASSERT_EQUAL(fixture_put(a, SLICE_LITERAL("k"), SLICE_LITERAL("v")), STORE_OK);
    CU_ASSERT(holds(SLICE_LITERAL("k"), SLICE_LITERAL("v")));
    CU_ASSERT_EQUAL(fixture_stats(store).hits, 1);
    CU_ASSERT_EQUAL(fixture_stats(store).misses, 1);
    shut();
}

static void
a_change_that_keeps_publishes_nothing(void)
{
    open_two();
    struct slice key = SLICE_LITERAL("k");
    struct fixture_set set = { .key = key, .value = key, .expires_at_ms = RECORD_NO_EXPIRY, .only_if_absent = true };
    CU_ASSERT_EQUAL(store_update(a, key, store_hash(store, key), fixture_set_change, &set), STORE_OK);
    CU_ASSERT_FALSE(set.was_there);
    uint64_t stamp = fixture_get(a, key)->stamp;
    CU_ASSERT_EQUAL(store_update(b, key, store_hash(store, key), fixture_set_change, &set), STORE_OK);
    CU_ASSERT_TRUE(set.was_there);
    CU_ASSERT_EQUAL(fixture_get(a, key)->stamp, stamp);
    shut();
}

static void
a_key_that_comes_and_goes_keeps_one_slot_and_its_stamps_rise(void)
{
    open_two();
    struct slice key = SLICE_LITERAL("lock");
    uint64_t stamp = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        bool was_there;
        CU_ASSERT_EQUAL(fixture_put(i % 2 ? a : b, key, key), STORE_OK);
        const struct record *record = fixture_get(a, key);
        CU_ASSERT(record->stamp > stamp);
        stamp = record->stamp;
        CU_ASSERT_EQUAL(fixture_del(i % 3 ? a : b, key, &was_there), STORE_OK);
        CU_ASSERT_TRUE(was_there);
        CU_ASSERT_PTR_NULL(fixture_get(b, key));
        turns(1);
    }
    struct audit audit = audit_store(store);
    CU_ASSERT_EQUAL(audit.buckets, 1);
    CU_ASSERT_EQUAL(audit.ghosts, 1);
    CU_ASSERT_EQUAL(audit.tombs, 0);
    CU_ASSERT_EQUAL(store_keys(store), 0);
    shut();
}

static void
a_long_key_leaves_a_tomb_instead_of_a_ghost(void)
{
    open_two();
    static uint8_t key[STORE_GHOST_KEY + 1];
    bool was_there;
    fixture_put(a, slice_of(key, sizeof(key)), SLICE_LITERAL("v"));
    fixture_del(a, slice_of(key, sizeof(key)), &was_there);
    struct audit audit = audit_store(store);
    CU_ASSERT_EQUAL(audit.ghosts, 0);
    CU_ASSERT_EQUAL(audit.tombs, 1);
    shut();
}

/* The record of the run before is given again, or replaced; a run may also change its mind. */
struct moody {
    uint32_t runs;
    struct store_member *rival;
};

static enum store_change
moody_change(void *context, struct store_member *member, const struct record *old, struct record **fresh)
{
    struct moody *moody = context;
    struct slice key = SLICE_LITERAL("k");
    if (moody->runs++ < 3) {
        CU_ASSERT_EQUAL((*fresh != NULL), (moody->runs == 3));
        if (moody->runs >= 2) {
            *fresh = store_record(member, RECORD_STRING, key, moody->runs, RECORD_NO_EXPIRY);
            memset(record_value_room(*fresh), 'x', moody->runs);
        }
        CHECK(fixture_put(moody->rival, key, SLICE_LITERAL("rival")) == STORE_OK); /* so this one loses */
        return moody->runs == 1 ? STORE_REMOVE : STORE_PUBLISH;
    }
    CU_ASSERT_PTR_NOT_NULL(*fresh);
    CU_ASSERT_PTR_NOT_NULL(old);
    return STORE_PUBLISH;
}

static void
a_change_that_loses_runs_again_on_what_is_there_and_loses_no_memory(void)
{
    open_two();
    struct slice key = SLICE_LITERAL("k");
    struct moody moody = { .rival = b };
    fixture_put(a, key, SLICE_LITERAL("first"));
    uint64_t retries = fixture_stats(store).update_retries;
    CU_ASSERT_EQUAL(store_update(a, key, store_hash(store, key), moody_change, &moody), STORE_OK);
    CU_ASSERT_EQUAL(moody.runs, 4);
    CU_ASSERT(holds(key, SLICE_LITERAL("xxx")));
    CU_ASSERT_EQUAL(fixture_stats(store).update_retries - retries, 3);
    turns(100);
    struct store_stats stats = fixture_stats(store);
    CU_ASSERT_EQUAL(stats.memory.used_bytes, stats.record_bytes + stats.index_bytes - store->index.fixed_bytes);
    CU_ASSERT_EQUAL(stats.memory.used_bytes, audit_store(store).bytes);
    CU_ASSERT_EQUAL(stats.keys, 1);
    shut();
}

static void
what_memory_holds_is_told_apart(void)
{
    open_two();
    enum { KEYS = 200, REMOVED = 20 };
    char text[32];
    for (uint32_t n = 0; n < KEYS; n++) {
        struct slice key = slice_of(text, (size_t)snprintf(text, sizeof(text), "key:%03u", n));
        CHECK(fixture_put(a, key, SLICE_LITERAL("thirty-two bytes make up a value")) == STORE_OK);
        turns(1);
    }
    for (uint32_t n = 0; n < REMOVED; n++) {
        bool was_there;
        CHECK(fixture_del(b, slice_of(text, (size_t)snprintf(text, sizeof(text), "key:%03u", n)), &was_there) ==
              STORE_OK);
    }
    turns(100);
    struct store_stats stats = fixture_stats(store);
    CU_ASSERT_EQUAL(stats.keys, KEYS - REMOVED);
    CU_ASSERT_EQUAL(stats.record_bytes, (KEYS - REMOVED) * memory_class_bytes(RECORD_HEADER_BYTES + 7 + 32));
    CU_ASSERT(stats.ghosts > 0 && stats.ghosts <= REMOVED); /* a rebuild leaves them behind */
    CU_ASSERT_EQUAL(stats.ghost_bytes, stats.ghosts * memory_class_bytes(RECORD_HEADER_BYTES + 7));
    CU_ASSERT_EQUAL(stats.memory.used_bytes,
                    stats.record_bytes + stats.ghost_bytes + stats.index_bytes - store->index.fixed_bytes);
    CU_ASSERT_EQUAL(stats.other_bytes, 0);
    CU_ASSERT_EQUAL(stats.total_bytes, stats.record_bytes + stats.ghost_bytes + stats.index_bytes + stats.limbo_bytes +
                                           stats.other_bytes + stats.memory.slack_bytes + stats.memory.free_page_bytes +
                                           stats.overhead_bytes);
    for (uint32_t n = 0; n < REMOVED; n++) { /* a ghost becomes a record again */
        struct slice key = slice_of(text, (size_t)snprintf(text, sizeof(text), "key:%03u", n));
        CHECK(fixture_put(a, key, SLICE_LITERAL("thirty-two bytes make up a value")) == STORE_OK);
    }
    turns(100);
    CU_ASSERT(fixture_stats(store).ghosts == 0 && fixture_stats(store).ghost_bytes == 0);
    CU_ASSERT_EQUAL(fixture_stats(store).record_bytes, KEYS * memory_class_bytes(RECORD_HEADER_BYTES + 7 + 32));
    shut();
}

static void
a_borrowed_record_stays_as_it_was_until_its_reader_quiesces(void)
{
    open_two();
    struct slice key = SLICE_LITERAL("k");
    fixture_put(a, key, SLICE_LITERAL("old"));
    const struct record *record = fixture_get(a, key);
    for (uint32_t i = 0; i < 100; i++) { /* b overwrites and cleans up as it can */
        fixture_put(b, key, SLICE_LITERAL("new"));
        fixture_turn(b);
    }
    CU_ASSERT(slice_equal(record_value(record), SLICE_LITERAL("old")));
    CU_ASSERT(load_relaxed(&b->limbo.bytes) != 0);
    turns(100);
    CU_ASSERT_EQUAL(load_relaxed(&b->limbo.bytes), 0);
    shut();
}

/* ---- time ---- */

static void
an_expired_key_is_gone_at_once_and_swept_later(void)
{
    open_two();
    struct slice key = SLICE_LITERAL("k");
    fixture_set_until(a, key, key, NOW + 10);
    fixture_put(a, SLICE_LITERAL("stays"), key);
    store_set_time(a, NOW + 10);
    CU_ASSERT_PTR_NOT_NULL(fixture_get(a, key)); /* Redis: at that very millisecond it still lives */
    CU_ASSERT_EQUAL(fixture_stats(store).keys_with_expiry, 1);
    store_set_time(a, NOW + 11);
    store_set_time(b, NOW + 11);
    CU_ASSERT_PTR_NULL(fixture_get(a, key));
    CU_ASSERT_EQUAL(store_keys(store), 2); /* a read deletes nothing */
    usleep(20000);
    store_manage(store);
    turns(100);
    CU_ASSERT_EQUAL(store_keys(store), 1);
    CU_ASSERT_EQUAL(fixture_stats(store).expired_keys, 1);
    CU_ASSERT_EQUAL(fixture_stats(store).keys_with_expiry, 0);
    CU_ASSERT(holds(SLICE_LITERAL("stays"), key));
    shut();
}

static void
a_write_sees_an_expired_key_as_absent_and_counts_it(void)
{
    open_two();
    struct slice key = SLICE_LITERAL("k");
    bool was_there;
    fixture_set_until(a, key, key, NOW - 1);
    fixture_del(a, key, &was_there);
    CU_ASSERT_FALSE(was_there);
    struct fixture_set set = { .key = key, .value = key, .expires_at_ms = RECORD_NO_EXPIRY };
    store_update(a, key, store_hash(store, key), fixture_set_change, &set);
    CU_ASSERT_FALSE(set.was_there);
    CU_ASSERT_EQUAL(fixture_stats(store).keys, 1);
    CU_ASSERT_EQUAL(fixture_stats(store).keys_with_expiry, 0);
    CU_ASSERT_EQUAL(fixture_stats(store).expired_keys, 1);
    shut();
}

static void
a_read_marks_the_record_with_the_clock_of_recency(void)
{
    open_two();
    struct slice key = SLICE_LITERAL("k");
    fixture_put(a, key, key);
    uint8_t before = load_relaxed(&fixture_get(a, key)->recency);
    store_relaxed(&store->evict.mark, (uint8_t)(before + 1));
    CU_ASSERT_EQUAL(load_relaxed(&fixture_get(a, key)->recency), before); /* this burst's clock stands */
    store_set_time(a, NOW);
    CU_ASSERT_EQUAL(load_relaxed(&fixture_get(a, key)->recency), before + 1);
    shut();
}

/* ---- views ---- */

static uint64_t
version(struct slice key)
{
    return store_view(a, key, store_hash(store, key)).version;
}

static void
two_views_of_a_key_are_equal_only_when_nothing_happened_to_it(void)
{
    open_two();
    struct slice key = SLICE_LITERAL("k");
    bool was_there;
    uint64_t seen[32];
    uint32_t count = 0;
    seen[count++] = version(key); /* no table */
    fixture_put(b, SLICE_LITERAL("other"), key);
    seen[count++] = version(key); /* never there */
    fixture_put(b, key, key);
    seen[count++] = version(key);
    fixture_put(b, key, key);
    seen[count++] = version(key);
    fixture_del(b, key, &was_there);
    seen[count++] = version(key); /* ghost */
    fixture_set_until(b, key, key, NOW + 5);
    seen[count++] = version(key);
    store_set_time(a, NOW + 6);
    seen[count++] = version(key); /* expired, not swept */
    fixture_put(b, key, key);
    store_flush(b);
    seen[count++] = version(key); /* flushed */
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = i + 1; j < count; j++) {
            /* 0 and 1: nothing happened to the key, and they may agree or not */
            CU_ASSERT(seen[i] != seen[j] || j == 1);
        }
    }
    CU_ASSERT_EQUAL(version(key), seen[count - 1]);
    shut();
}

static void
an_absent_key_that_came_and_went_without_a_trace_shows_in_its_view(void)
{
    open_two();
    static uint8_t long_key[STORE_GHOST_KEY + 1];
    struct slice key = slice_of(long_key, sizeof(long_key));
    bool was_there;
    for (uint32_t i = 0; i < 100; i++) { /* over several buckets, and rebuilds in between */
        uint64_t before = version(key);
        CU_ASSERT_EQUAL(version(key), before);
        fixture_put(b, key, key);
        fixture_del(b, key, &was_there); /* leaves a TOMB */
        CU_ASSERT_NOT_EQUAL(version(key), before);
        turns(5);
    }
    CU_ASSERT(fixture_stats(store).rebuilds > 0);
    shut();
}

/* ---- flush ---- */

static void
a_flush_empties_the_store_at_once_and_frees_memory_in_steps(void)
{
    open_two();
    for (uint32_t i = 0; i < 20000; i++) {
        char text[32];
        snprintf(text, sizeof(text), "key:%u", i);
        CHECK(fixture_set_until(i % 2 ? a : b, slice_text(text), SLICE_LITERAL("value"),
                                i % 5 ? RECORD_NO_EXPIRY : NOW + 100000) == STORE_OK);
        if (i % 32 == 0) {
            turns(1);
        }
    }
    CU_ASSERT_EQUAL(store_keys(store), 20000);
    CU_ASSERT_EQUAL(fixture_stats(store).keys_with_expiry, 4000);
    uint64_t used = fixture_stats(store).memory.used_bytes;
    CU_ASSERT_EQUAL(store_flush(a), STORE_OK);
    CU_ASSERT_EQUAL(store_keys(store), 0);
    CU_ASSERT_EQUAL(fixture_stats(store).keys_with_expiry, 0);
    CU_ASSERT_PTR_NULL(fixture_get(b, SLICE_LITERAL("key:7")));
    CU_ASSERT_EQUAL(fixture_put(b, SLICE_LITERAL("key:7"), SLICE_LITERAL("new")), STORE_OK);
    CU_ASSERT_EQUAL(store_keys(store), 1);
    turns(20000);
    CU_ASSERT(fixture_stats(store).memory.used_bytes < used / 4);
    CU_ASSERT(holds(SLICE_LITERAL("key:7"), SLICE_LITERAL("new")));
    CU_ASSERT_EQUAL(audit_store(store).records, 1);
    CU_ASSERT_EQUAL(fixture_stats(store).expired_keys, 0); /* flushed is not expired */
    CU_ASSERT_EQUAL(fixture_stats(store).flushes, 1);
    shut();
}

static void
a_write_sees_a_flushed_key_as_absent(void)
{
    open_two();
    struct slice key = SLICE_LITERAL("n");
    uint64_t value;
    fixture_incr(a, key, &value);
    fixture_incr(a, key, &value);
    CU_ASSERT_EQUAL(value, 2);
    store_flush(b);
    fixture_incr(a, key, &value);
    CU_ASSERT_EQUAL(value, 1);
    CU_ASSERT_EQUAL(store_keys(store), 1);
    for (uint32_t i = 0; i < 100; i++) {
        store_flush(i % 2 ? a : b);
        CU_ASSERT_EQUAL(store_keys(store), 0);
        fixture_incr(b, key, &value);
        CU_ASSERT_EQUAL(value, 1);
    }
    shut();
}

/* ---- full ---- */

static void
at_the_limit_writes_are_told_reads_work_and_what_shrinks_still_works(void)
{
    store = fixture_open(2, 32 * MIB, 1024);
    a = fixture_join(store, 0);
    b = fixture_join(store, 1);
    static uint8_t bytes[3000];
    enum store_status status = STORE_OK;
    uint32_t stored = 0, later = 0;
    while (status != STORE_OOM) {
        char text[32];
        snprintf(text, sizeof(text), "key:%u", stored);
        status = fixture_put(a, slice_text(text), slice_of(bytes, 100 + stored % 2900)); /* mixed sizes */
        stored += status == STORE_OK;
        later += status == STORE_TRY_LATER;
        CHECK(later < 100000);
        store_manage(store);
        turns(1);
    }
    CU_ASSERT(stored > 5000);
    CU_ASSERT(fixture_stats(store).memory.populated_bytes <= 32 * MIB);
    CU_ASSERT_EQUAL(fixture_stats(store).oom_refusals, 1);
    CU_ASSERT_PTR_NOT_NULL(fixture_get(b, SLICE_LITERAL("key:0")));
    for (uint32_t i = 0; i < stored; i++) {
        char text[32];
        bool was_there = false;
        snprintf(text, sizeof(text), "key:%u", i);
        if (i % 2 == 0) { /* EXPIRE: the same value with an expiry */
            struct slice value = slice_of(bytes, 100 + i % 2900);
            status = fixture_set_until(b, slice_text(text), value, NOW + 1000);
            CU_ASSERT(status == STORE_OK || status == STORE_TRY_LATER);
        }
        status = fixture_del(b, slice_text(text), &was_there);
        CU_ASSERT(status == STORE_OK && was_there);
        if (i % 16 == 0) {
            store_manage(store);
            turns(8);
        }
    }
    CU_ASSERT_EQUAL(store_keys(store), 0);
    for (uint32_t i = 0; i < 10000; i++) {
        store_manage(store);
        turns(1);
    }
    CU_ASSERT_FALSE(store_over_limit(a));
    CU_ASSERT_EQUAL(fixture_put(a, SLICE_LITERAL("again"), slice_of(bytes, sizeof(bytes))), STORE_OK);
    shut();
}

/* ---- the hook ---- */

struct replayed {
    uint64_t stamp;
    int64_t value; /* -1: absent */
};
static struct replayed replay[8];
static uint64_t replayed_flush, hooks;

static void
published(void *context, struct slice key, uint64_t stamp, const struct record *record)
{
    CHECK(context == &hooks);
    hooks++;
    if (key.data == NULL) {
        replayed_flush = MAX(replayed_flush, stamp);
        return;
    }
    struct replayed *at = &replay[key.data[0] - 'a'];
    if (stamp > at->stamp) {
        at->stamp = stamp;
        at->value = record != NULL ? record_value(record).data[0] : -1;
    }
}

static void
the_merged_hooks_replay_to_the_live_state(void)
{
    store = fixture_open(2, 32 * MIB, 1024);
    store_set_published(store, published, &hooks);
    a = fixture_join(store, 0);
    b = fixture_join(store, 1);
    uint64_t random = 7;
    for (uint32_t i = 0; i < 20000; i++) {
        uint64_t dice = fixture_random(&random);
        uint8_t key = (uint8_t)('a' + dice % 8), value = (uint8_t)(dice >> 8);
        struct store_member *member = dice >> 20 & 1 ? a : b;
        bool was_there;
        switch (dice >> 32 & 15) {
        case 0:
            store_flush(member);
            break;
        case 1:
        case 2:
            fixture_del(member, slice_of(&key, 1), &was_there);
            break;
        case 3:
            fixture_set_until(member, slice_of(&key, 1), slice_of(&value, 1), a->now_ms + 3);
            break;
        default:
            fixture_put(member, slice_of(&key, 1), slice_of(&value, 1));
        }
        store_set_time(a, a->now_ms + 1);
        store_set_time(b, a->now_ms);
        if (i % 100 == 0) {
            store_manage(store);
        }
        turns(1);
    }
    store_set_time(a, a->now_ms + 100);
    store_set_time(b, a->now_ms);
    usleep(20000);
    store_manage(store);
    for (uint32_t i = 0; i < 5000; i++) { /* what has expired is swept, and reported */
        store_set_time(a, a->now_ms + 1);
        store_set_time(b, a->now_ms);
        turns(1);
    }
    for (uint8_t key = 'a'; key < 'a' + 8; key++) {
        const struct record *record = fixture_get(a, slice_of(&key, 1));
        const struct replayed *at = &replay[key - 'a'];
        int64_t expected = at->stamp > replayed_flush ? at->value : -1;
        CU_ASSERT_EQUAL(record != NULL ? record_value(record).data[0] : -1, expected);
    }
    CU_ASSERT(hooks > 15000);
    shut();
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("store", NULL, NULL);
    CU_ADD_TEST(suite, a_store_without_members_or_with_too_many_is_refused);
    CU_ADD_TEST(suite, a_seat_is_joined_once);
    CU_ADD_TEST(suite, a_missing_key_is_null_and_counted);
    CU_ADD_TEST(suite, keys_of_any_bytes_and_lengths_hold_their_values);
    CU_ADD_TEST(suite, a_change_that_keeps_publishes_nothing);
    CU_ADD_TEST(suite, a_key_that_comes_and_goes_keeps_one_slot_and_its_stamps_rise);
    CU_ADD_TEST(suite, a_long_key_leaves_a_tomb_instead_of_a_ghost);
    CU_ADD_TEST(suite, a_change_that_loses_runs_again_on_what_is_there_and_loses_no_memory);
    CU_ADD_TEST(suite, what_memory_holds_is_told_apart);
    CU_ADD_TEST(suite, a_borrowed_record_stays_as_it_was_until_its_reader_quiesces);
    CU_ADD_TEST(suite, an_expired_key_is_gone_at_once_and_swept_later);
    CU_ADD_TEST(suite, a_write_sees_an_expired_key_as_absent_and_counts_it);
    CU_ADD_TEST(suite, a_read_marks_the_record_with_the_clock_of_recency);
    CU_ADD_TEST(suite, two_views_of_a_key_are_equal_only_when_nothing_happened_to_it);
    CU_ADD_TEST(suite, an_absent_key_that_came_and_went_without_a_trace_shows_in_its_view);
    CU_ADD_TEST(suite, a_flush_empties_the_store_at_once_and_frees_memory_in_steps);
    CU_ADD_TEST(suite, a_write_sees_a_flushed_key_as_absent);
    CU_ADD_TEST(suite, at_the_limit_writes_are_told_reads_work_and_what_shrinks_still_works);
    CU_ADD_TEST(suite, the_merged_hooks_replay_to_the_live_state);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
