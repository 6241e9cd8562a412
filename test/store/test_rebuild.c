#include "store/sweep.h"
#include "store_fixture.h"
#include <CUnit/Basic.h>

#define LARGE (512 * 1500) /* keys_expected for tables of 256 buckets in the fixture's 512 segments */

static struct store *store;
static struct store_member *a, *b;
static uint32_t key_numbers[8192], key_count, key_next; /* of key_of_segment() */

static void
open_two(uint64_t keys_expected)
{
    store = fixture_open(2, 64 * MIB, keys_expected);
    key_count = key_next = 0; /* another store, another secret */
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

/* The n-th key of segment 0, found by trying. */
static struct slice
key_of_segment(char text[32], uint32_t n)
{
    for (; key_count <= n; key_next++) {
        snprintf(text, 32, "key:%u", key_next);
        if (index_segment_of(&store->index, store_hash(store, slice_text(text))) == 0) {
            key_numbers[key_count++] = key_next;
        }
    }
    snprintf(text, 32, "key:%u", key_numbers[n]);
    return slice_text(text);
}

static uint64_t
table_now(void)
{
    return load_acquire(&store->index.directory[0]);
}

static uint32_t
buckets_now(void)
{
    return 1u << (table_now() & INDEX_LOG2_MASK);
}

static void
put_keys(uint32_t from, uint32_t to)
{
    char text[32];
    for (uint32_t n = from; n < to; n++) {
        struct slice key = key_of_segment(text, n);
        CHECK(fixture_put(n % 2 ? a : b, key, key) == STORE_OK);
        if (n % 64 == 0) {
            store_manage(store);
        }
    }
}

static uint32_t
keys_found(uint32_t from, uint32_t to)
{
    char text[32];
    uint32_t found = 0;
    for (uint32_t n = from; n < to; n++) {
        struct slice key = key_of_segment(text, n);
        const struct record *record = fixture_get(a, key);
        found += record != NULL && slice_equal(record_value(record), key);
    }
    return found;
}

/* ---- sizes ---- */

static void
the_directory_follows_the_reserve_up_to_its_last_power(void)
{
    static const struct {
        uint64_t reserve_bytes;
        uint32_t log2;
    } rows[] = {
        { 0, 6 },         { 1, 6 },          { 12 * MIB, 6 },    { 13 * MIB, 7 },         { 64 * MIB, 9 },
        { 12 * GIB, 16 }, { 100 * GIB, 20 }, { 1024 * GIB, 22 }, { 64 * 1024 * GIB, 22 }, { UINT64_MAX, 22 },
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        CU_ASSERT_EQUAL(index_segments_log2(rows[i].reserve_bytes), rows[i].log2);
    }
    CU_ASSERT_EQUAL(index_first_log2(0, 6), 0);
    CU_ASSERT_EQUAL(index_first_log2(64 * 7, 6), 0);
    CU_ASSERT_EQUAL(index_first_log2(64 * 8, 6), 1);
    CU_ASSERT_EQUAL(index_first_log2(64 * 7 * 256, 6), 8);
    CU_ASSERT_EQUAL(index_first_log2(64 * 7 * 256 + 64, 6), 9);
    CU_ASSERT_EQUAL(index_first_log2(UINT64_MAX, 6), 9);
    CU_ASSERT_EQUAL(index_first_log2(UINT64_MAX, 22), 9);
}

static void
every_hash_has_a_segment_and_a_bucket_at_the_smallest_and_the_largest_directory(void)
{
    static const uint64_t hashes[] = { 0, 1, UINT64_MAX, 1ull << 63, 1ull << 42, 0x0123456789abcdef };
    for (uint32_t log2 = 6; log2 <= INDEX_SEGMENTS_LOG2; log2 += INDEX_SEGMENTS_LOG2 - 6) {
        struct index index = { .segment_shift = 64 - log2, .segment_count = 1u << log2 };
        for (uint32_t i = 0; i < ARRAY_COUNT(hashes); i++) {
            CU_ASSERT(index_segment_of(&index, hashes[i]) < index.segment_count);
        }
        CU_ASSERT_EQUAL(index_segment_of(&index, UINT64_MAX), index.segment_count - 1);
    }
    uint64_t table = 0x7fff12345600ull | INDEX_LOG2_MAX;
    CU_ASSERT_PTR_EQUAL(table_bucket(table, UINT64_MAX), link_bucket(table) + 511);
    CU_ASSERT_PTR_EQUAL(table_bucket(table & ~INDEX_LOG2_MASK, UINT64_MAX), link_bucket(table));
}

static void
words_keep_their_parts_apart(void)
{
    struct record *record = (struct record *)0xfffffffffff0ull;
    _Alignas(16) uint8_t bytes[32] = { RECORD_STRING };
    uint64_t hash = UINT64_MAX, word = slot_tag(hash) | (uint64_t)(uintptr_t)record | SLOT_GHOST | SLOT_FROZEN;
    CU_ASSERT_PTR_EQUAL(slot_record(word), record);
    CU_ASSERT_EQUAL(slot_kind(word), SLOT_GHOST);
    CU_ASSERT_EQUAL(slot_kind(slot_of_record((struct record *)bytes, 0)), SLOT_RECORD);
    bytes[0] |= RECORD_HAS_EXPIRY;
    CU_ASSERT_EQUAL(slot_kind(slot_of_record((struct record *)bytes, hash)), SLOT_TTL);
    static const enum slot_kind keyless[] = { SLOT_EMPTY, SLOT_TOMB, SLOT_INIT, SLOT_DESCRIPTOR };
    for (uint32_t i = 0; i < ARRAY_COUNT(keyless); i++) {
        CU_ASSERT_FALSE(slot_has_key(keyless[i]));
        CU_ASSERT_FALSE(slot_is_record(keyless[i] | SLOT_FROZEN));
    }
    CU_ASSERT(slot_has_key(SLOT_RECORD) && slot_has_key(SLOT_TTL) && slot_has_key(SLOT_GHOST | SLOT_FROZEN));
    for (uint64_t stamp = 1 << 20; stamp < (1 << 20) + 200; stamp++) {
        uint64_t tomb = slot_of_tomb(stamp);
        CU_ASSERT_EQUAL(slot_kind(tomb), SLOT_TOMB);
        CU_ASSERT((tomb & ~15ull) >= stamp && (tomb & ~15ull) < stamp + 16); /* rounded up */
    }
}

/* Of the tables, when `keys` keys are in a store that was told to expect `keys_expected`. */
static uint64_t
index_bytes_of(uint64_t keys, uint64_t keys_expected)
{
    char text[32];
    open_two(keys_expected);
    for (uint64_t n = 0; n < keys; n++) {
        struct slice key = slice_of(text, (size_t)snprintf(text, sizeof(text), "%" PRIu64, n));
        CHECK(fixture_put(a, key, key) == STORE_OK);
        if (n % 16 == 0) {
            turns(1);
        }
        if (n % 256 == 0) {
            store_manage(store);
        }
    }
    turns(5000);
    struct store_stats stats;
    store_stats(store, &stats);
    uint64_t bytes = stats.index_bytes - store->index.fixed_bytes;
    CU_ASSERT_EQUAL(stats.keys, keys);
    shut();
    return bytes;
}

static void
keys_that_were_expected_take_no_more_index_than_others(void)
{
    for (uint64_t keys = 20000; keys < 45000; keys = keys * 5 / 4) { /* more than a doubling */
        uint64_t grown = index_bytes_of(keys, 0), told = index_bytes_of(keys, keys);
        CU_ASSERT(told <= grown + grown / 16); /* another secret, another spread */
    }
}

/* ---- growing, clearing, shrinking ---- */

static void
a_segment_grows_with_its_keys_and_loses_none(void)
{
    open_two(0);
    uint32_t before = 0;
    for (uint32_t keys = 8; keys <= 4096; keys *= 2) {
        put_keys(before, keys);
        turns(300);
        CU_ASSERT_EQUAL(keys_found(0, keys), keys);
        CU_ASSERT(buckets_now() >= keys / 8 && buckets_now() <= MAX(keys, 1u));
        before = keys;
    }
    CU_ASSERT_EQUAL(buckets_now(), 512);
    CU_ASSERT_EQUAL(store_keys(store), 4096);
    struct audit audit = audit_store(store);
    CU_ASSERT(audit.duplicates == 0 && audit.misplaced == 0 && audit.unfinished == 0);
    shut();
}

static void
a_segment_shrinks_when_its_keys_have_gone_and_their_memory_comes_back(void)
{
    open_two(0);
    char text[32];
    put_keys(0, 2000);
    turns(300);
    struct store_stats stats;
    store_stats(store, &stats);
    uint64_t used = stats.memory.used_bytes;
    CU_ASSERT(buckets_now() >= 256);
    for (uint32_t n = 10; n < 2000; n++) {
        bool was_there;
        fixture_del(a, key_of_segment(text, n), &was_there);
        turns(1);
    }
    store_relaxed(&store->sweep_ghosts, true); /* as store_manage() would, with more ghosts than these */
    for (uint32_t i = 0; i < 20000 && buckets_now() > 8; i++) {
        store_set_time(a, a->now_ms + 1);
        store_set_time(b, b->now_ms + 1);
        turns(1);
    }
    CU_ASSERT(buckets_now() <= 8);
    CU_ASSERT_EQUAL(keys_found(0, 10), 10);
    CU_ASSERT_EQUAL(keys_found(10, 2000), 0);
    turns(200);
    struct audit audit = audit_store(store);
    store_stats(store, &stats);
    CU_ASSERT_EQUAL(stats.memory.used_bytes, audit.bytes);
    CU_ASSERT(stats.memory.used_bytes < 16 * KIB && used > 100 * KIB);
    shut();
}

static void
fresh_keys_that_come_and_go_for_ever_do_not_grow_chains(void)
{
    open_two(0);
    char text[32];
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t n = 0; n < 2000; n++) {
            bool was_there;
            struct slice key = key_of_segment(text, n + (round % 2) * 2000);
            CHECK(fixture_put(a, key, key) == STORE_OK);
            CHECK(fixture_del(b, key, &was_there) == STORE_OK && was_there);
            turns(1);
        }
    }
    struct audit audit = audit_store(store);
    CU_ASSERT(audit.longest_chain <= 4);
    CU_ASSERT(audit.buckets <= 64);
    CU_ASSERT_EQUAL(store_keys(store), 0);
    shut();
}

/* ---- in the middle ---- */

/* Let `a` claim the segment and move some groups, then stand still. */
static void
stop_half_way(uint32_t keys)
{
    put_keys(0, keys);
    rebuild_wish(a, 0);
    for (uint32_t i = 0; i < 100 && a->rebuild.state != REBUILD_MOVE; i++) {
        rebuild_step(a);
    }
    CU_ASSERT_EQUAL_FATAL(a->rebuild.state, REBUILD_MOVE);
    rebuild_step(a);
    CU_ASSERT_EQUAL_FATAL(a->rebuild.state, REBUILD_MOVE);
    CU_ASSERT(load_relaxed(&store->index.segments[0].next) != 0);
}

static void
readers_and_writers_go_on_while_a_rebuild_stands_still(void)
{
    open_two(LARGE); /* so that a move takes several steps */
    char text[32];
    stop_half_way(2600);
    CU_ASSERT_EQUAL(keys_found(0, 2600), 2600);
    put_keys(2600, 2700);
    for (uint32_t n = 0; n < 2700; n += 3) {
        bool was_there = false;
        CU_ASSERT_EQUAL(fixture_del(b, key_of_segment(text, n), &was_there), STORE_OK);
        CU_ASSERT_TRUE(was_there);
        if (n % 96 == 0) {
            store_quiesce(b); /* no housekeeping: b only helps where it must */
            limbo_reclaim(&b->limbo, 1000);
        }
    }
    CU_ASSERT_EQUAL(keys_found(0, 2700), 1800);
    turns(500);
    CU_ASSERT_EQUAL(keys_found(0, 2700), 1800);
    CU_ASSERT_EQUAL(store_keys(store), 1800);
    struct audit audit = audit_store(store);
    CU_ASSERT(audit.duplicates == 0 && audit.misplaced == 0 && audit.unfinished == 0);
    shut();
}

static void
of_two_members_that_begin_at_once_one_rebuilds(void)
{
    open_two(LARGE);
    stop_half_way(2600);
    uint64_t next = load_relaxed(&store->index.segments[0].next);
    rebuild_wish(b, 0);
    for (uint32_t i = 0; i < 100; i++) {
        rebuild_step(b);
        CU_ASSERT_EQUAL(b->rebuild.state, REBUILD_IDLE);
    }
    CU_ASSERT_EQUAL(load_relaxed(&store->index.segments[0].next), next);
    turns(500);
    CU_ASSERT_EQUAL(keys_found(0, 2600), 2600);
    struct store_stats stats;
    store_stats(store, &stats);
    CU_ASSERT_EQUAL(load_relaxed(&b->counters.rebuilds) + load_relaxed(&a->counters.rebuilds), stats.rebuilds);
    shut();
}

static void
a_rebuild_without_memory_waits_and_nothing_is_lost(void)
{
    open_two(LARGE);
    static void *blocks[200000];
    uint32_t count = 0;
    put_keys(0, 2600);
    turns(4);
    /* all memory is gone, and the reserve with it */
    for (size_t bytes = MIB; bytes >= 16; bytes /= 2) {
        void *block;
        for (uint32_t i = 0; i < 8; i++) {
            store_manage(store);
            while (count < ARRAY_COUNT(blocks) - 1 && (block = memory_take_reserve(a->cache, bytes)) != NULL) {
                blocks[count++] = block;
                memcpy(block, &bytes, sizeof(bytes));
            }
        }
    }
    rebuild_wish(a, 0);
    for (uint32_t i = 0; i < 200; i++) {
        fixture_turn(a);
    }
    CU_ASSERT_EQUAL(keys_found(0, 2600), 2600);
    for (uint32_t i = 0; i < count; i++) {
        size_t bytes;
        memcpy(&bytes, blocks[i], sizeof(bytes));
        memory_give(a->cache, blocks[i], bytes);
    }
    rebuild_wish(a, 0);
    turns(500);
    CU_ASSERT_EQUAL(keys_found(0, 2600), 2600);
    CU_ASSERT_EQUAL(audit_store(store).unfinished, 0);
    shut();
}

static void
a_member_that_leaves_finishes_its_rebuild(void)
{
    open_two(LARGE);
    stop_half_way(2600);
    store_offline(b);
    store_leave(a);
    CU_ASSERT_EQUAL(load_relaxed(&store->index.segments[0].next), 0);
    a = fixture_join(store, 0);
    store_online(b);
    CU_ASSERT_EQUAL(keys_found(0, 2600), 2600);
    shut();
}

/* ---- closing ---- */

static void
time_passes(uint32_t ms)
{
    for (uint32_t i = 0; i < ms; i++) {
        store_set_time(a, a->now_ms + 1);
        store_set_time(b, b->now_ms + 1);
        turns(4);
        if (i % 8 == 0) {
            store->stats_at_ms = store->ghost_line_ms = 0; /* the management core's clock runs on, too */
            store_manage(store);
        }
    }
}

static uint32_t
tables_now(void)
{
    uint32_t tables = 0;
    for (uint32_t row = 0; row < index_rows(&store->index); row++) {
        tables += (uint32_t)__builtin_popcountll(index_row(&store->index, row));
    }
    return tables;
}

static void
segments_without_keys_lose_their_tables(void)
{
    enum { FLUSHED, DELETED, DELETED_LONG, EXPIRED, WAYS };
    for (uint32_t way = 0; way < WAYS; way++) {
        open_two(way == FLUSHED ? LARGE / 8 : LARGE / 64); /* 32 buckets, or 4 */
        char text[STORE_GHOST_KEY + 16];
        for (uint32_t n = 0; n < 5000; n++) {
            int width = way == DELETED_LONG ? STORE_GHOST_KEY + 1 : 1;
            struct slice key = slice_of(text, (size_t)snprintf(text, sizeof(text), "%0*u", width, n));
            int64_t until_ms = way == EXPIRED && n >= 3 ? a->now_ms + 10 : RECORD_NO_EXPIRY;
            CHECK(fixture_set_until(a, key, key, until_ms) == STORE_OK);
            bool was_there;
            if (n >= 3 && (way == DELETED || way == DELETED_LONG)) {
                CHECK(fixture_del(b, key, &was_there) == STORE_OK && was_there);
            }
            turns(n % 16 == 0);
            if (n % 64 == 0) {
                store_manage(store);
            }
        }
        CU_ASSERT(tables_now() > index_rows(&store->index) * INDEX_ROW_SEGMENTS / 2);
        if (way == FLUSHED) {
            CHECK(store_flush(a) == STORE_OK);
            for (uint32_t n = 0; n < 3; n++) {
                struct slice key = slice_of(text, (size_t)snprintf(text, sizeof(text), "%u", n));
                CHECK(fixture_put(b, key, key) == STORE_OK);
            }
        }
        for (uint32_t i = 0; i < 100 && (tables_now() > 6 ||
                                         load_relaxed(&a->counters.ghosts) + load_relaxed(&b->counters.ghosts) != 0);
             i++) {
            time_passes(30);
        }
        time_passes(30);
        CU_ASSERT_EQUAL(store_keys(store), 3);
        CU_ASSERT(tables_now() <= 6);
        struct store_stats stats;
        store_stats(store, &stats);
        CU_ASSERT_EQUAL(stats.ghosts, 0);
        CU_ASSERT(stats.index_bytes - store->index.fixed_bytes <=
                  (sizeof(struct index_bucket) << store->index.first_log2) * 6);
        struct audit audit = audit_store(store);
        CU_ASSERT(audit.records == 3 && audit.unfinished == 0 && audit.bytes == stats.memory.used_bytes);
        shut();
    }
}

/* `a` has announced that it closes segment 0, and frozen it; there it stands. */
static void
stop_closing(void)
{
    put_keys(0, 8);
    turns(20);
    char text[32];
    for (uint32_t n = 0; n < 8; n++) {
        bool was_there;
        CHECK(fixture_del(b, key_of_segment(text, n), &was_there) == STORE_OK);
    }
    uint64_t soft_bytes = load_relaxed(&store->qsbr.soft_bytes);
    rebuild_wish(a, 0);
    store_relaxed(&store->qsbr.soft_bytes, 0); /* no room to retire the table */
    for (uint32_t i = 0; i < 10; i++) {
        rebuild_step(a);
    }
    store_relaxed(&store->qsbr.soft_bytes, soft_bytes);
    CU_ASSERT_EQUAL_FATAL(load_relaxed(&store->index.segments[0].next),
                          (table_now() & INDEX_ADDRESS_MASK) | REBUILD_CLOSING);
}

static void
who_wants_a_segment_that_is_being_closed_gets_it(void)
{
    open_two(0);
    stop_closing();
    uint64_t before = table_now();
    CU_ASSERT_EQUAL(keys_found(0, 8), 0);
    CU_ASSERT_EQUAL(table_now(), before); /* readers do not help */
    char text[32];
    struct slice key = key_of_segment(text, 3);
    CU_ASSERT_EQUAL(fixture_put(b, key, key), STORE_OK);
    uint64_t next = load_relaxed(&store->index.segments[0].next), to = next != 0 ? next : table_now();
    CU_ASSERT(table_exists(to) && table_log2(to) == table_log2(before));
    CU_ASSERT_EQUAL(INDEX_GENERATION(to), INDEX_GENERATION(before) + 1);
    CU_ASSERT_EQUAL(keys_found(0, 8), 1);
    turns(200);
    CU_ASSERT_EQUAL(keys_found(0, 8), 1);
    CU_ASSERT_EQUAL(store_keys(store), 1);
    CU_ASSERT_EQUAL(audit_store(store).unfinished, 0);
    shut();
}

static void
a_closed_segment_opens_again_and_no_two_absences_of_a_key_look_alike(void)
{
    open_two(0);
    char text[32];
    struct slice key = key_of_segment(text, 0);
    uint64_t hash = store_hash(store, key), versions[3];
    for (uint32_t i = 0; i < ARRAY_COUNT(versions); i++) {
        bool was_there;
        CU_ASSERT_FALSE(table_exists(table_now()));
        struct store_view view = store_view(a, key, hash);
        CU_ASSERT_PTR_NULL(view.record);
        versions[i] = view.version;
        CHECK(fixture_put(b, key, key) == STORE_OK);
        CHECK(fixture_del(b, key, &was_there) == STORE_OK && was_there);
        turns(20);
        rebuild_wish(a, 0);
        turns(20);
    }
    CU_ASSERT(versions[0] != versions[1] && versions[1] != versions[2]);
    CU_ASSERT_EQUAL(audit_store(store).unfinished, 0);
    shut();
}

static void
a_member_that_leaves_finishes_its_closing(void)
{
    open_two(0);
    stop_closing();
    store_offline(b);
    store_leave(a);
    CU_ASSERT_FALSE(table_exists(table_now()));
    CU_ASSERT_EQUAL(load_relaxed(&store->index.segments[0].next), 0);
    a = fixture_join(store, 0);
    store_online(b);
    shut();
}

/* ---- flushes ---- */

/* 256 keys are flushed, and `a` has swept seven eighths of their segment. */
static void
sweep_most_of_a_flush(void)
{
    open_two(0);
    put_keys(0, 256);
    char text[32];
    for (uint32_t n = 0; n < 4000; n++) { /* other segments too: whoever seeks one finds those first */
        snprintf(text, sizeof(text), "other:%u", n);
        CU_ASSERT_EQUAL(fixture_put(b, slice_text(text), slice_text(text)), STORE_OK);
    }
    turns(300);
    uint32_t buckets = buckets_now();
    CU_ASSERT_FATAL(buckets >= 32);
    CU_ASSERT_EQUAL(store_flush(a), STORE_OK);
    const struct index_hand *hand = &a->sweep.hand;
    for (uint32_t i = 0; i < 1000 && !(hand->active && hand->segment == 0 && hand->bucket * 8 >= buckets * 7); i++) {
        store_quiesce(b);
        fixture_turn(a);
    }
    CU_ASSERT_FATAL(a->sweep.flush && hand->active && hand->bucket < buckets);
    CU_ASSERT(audit_store(store).flushed > 0);
}

static void
a_flush_is_swept_to_its_end_although_the_segment_shrinks_meanwhile(void)
{
    sweep_most_of_a_flush();
    uint64_t before = table_now();
    for (uint32_t i = 0; i < 1000 && table_now() == before; i++) {
        store_quiesce(a);
        store_quiesce(b);
        (void)rebuild_wish(b, 0);
        rebuild_step(b);
    }
    CU_ASSERT(1u << (before & INDEX_LOG2_MASK) > buckets_now());
    CU_ASSERT(audit_store(store).flushed > 0);
    turns(1000);
    CU_ASSERT_EQUAL(audit_store(store).flushed, 0);
    shut();
}

static void
a_flushed_record_that_is_frozen_when_its_turn_comes_is_swept_later(void)
{
    sweep_most_of_a_flush();
    struct index_bucket *last = link_bucket(table_now()) + buckets_now() - 1;
    while (!slot_is_record(load_relaxed(&last->slots[0]))) {
        last--;
    }
    _Atomic uint64_t *slot = &last->slots[0];
    CU_ASSERT_FATAL(last >= link_bucket(table_now()) + a->sweep.hand.bucket);
    store_relaxed(slot, load_relaxed(slot) | SLOT_FROZEN); /* as by a rebuild that began just now */
    turns(200);
    store_relaxed(slot, load_relaxed(slot) & ~SLOT_FROZEN);
    turns(1000);
    CU_ASSERT_EQUAL(audit_store(store).flushed, 0);
    shut();
}

static void
a_member_that_leaves_hands_on_what_it_sweeps_of_a_flush(void)
{
    sweep_most_of_a_flush();
    store_offline(b);
    store_leave(a);
    store_online(b);
    for (uint32_t i = 0; i < 1000; i++) {
        fixture_turn(b);
    }
    CU_ASSERT_EQUAL(audit_store(store).flushed, 0);
    a = fixture_join(store, 0);
    shut();
}

static void
the_generation_of_a_table_counts_its_rebuilds_and_wraps(void)
{
    uint64_t table = 0x7fff00001000ull | 3 | 0xffffull << 48;
    uint64_t link = 0x7fff00002000ull | LINK_FORWARDED | LINK_FROZEN | 5ull << LINK_LOG2_SHIFT;
    CU_ASSERT_EQUAL(link_table(table, link), 0x7fff00002000ull | 5);
    CU_ASSERT_EQUAL(INDEX_GENERATION(link_table(link_table(table, link), link)), 1);
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("index and rebuild", NULL, NULL);
    CU_ADD_TEST(suite, the_directory_follows_the_reserve_up_to_its_last_power);
    CU_ADD_TEST(suite, every_hash_has_a_segment_and_a_bucket_at_the_smallest_and_the_largest_directory);
    CU_ADD_TEST(suite, words_keep_their_parts_apart);
    CU_ADD_TEST(suite, the_generation_of_a_table_counts_its_rebuilds_and_wraps);
    CU_ADD_TEST(suite, keys_that_were_expected_take_no_more_index_than_others);
    CU_ADD_TEST(suite, a_segment_grows_with_its_keys_and_loses_none);
    CU_ADD_TEST(suite, a_segment_shrinks_when_its_keys_have_gone_and_their_memory_comes_back);
    CU_ADD_TEST(suite, fresh_keys_that_come_and_go_for_ever_do_not_grow_chains);
    CU_ADD_TEST(suite, readers_and_writers_go_on_while_a_rebuild_stands_still);
    CU_ADD_TEST(suite, of_two_members_that_begin_at_once_one_rebuilds);
    CU_ADD_TEST(suite, a_rebuild_without_memory_waits_and_nothing_is_lost);
    CU_ADD_TEST(suite, a_member_that_leaves_finishes_its_rebuild);
    CU_ADD_TEST(suite, segments_without_keys_lose_their_tables);
    CU_ADD_TEST(suite, who_wants_a_segment_that_is_being_closed_gets_it);
    CU_ADD_TEST(suite, a_closed_segment_opens_again_and_no_two_absences_of_a_key_look_alike);
    CU_ADD_TEST(suite, a_member_that_leaves_finishes_its_closing);
    CU_ADD_TEST(suite, a_flush_is_swept_to_its_end_although_the_segment_shrinks_meanwhile);
    CU_ADD_TEST(suite, a_flushed_record_that_is_frozen_when_its_turn_comes_is_swept_later);
    CU_ADD_TEST(suite, a_member_that_leaves_hands_on_what_it_sweeps_of_a_flush);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
