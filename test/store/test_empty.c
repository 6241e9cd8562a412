/* Memory comes back: sparse pages are emptied, a lowered limit is kept, and the sums are exact. */
#include "audit.h"
#include "store/memory_layout.h"
#include "store/memory_poison.h"
#include "store_fixture.h"
#include <CUnit/Basic.h>
#include <time.h>
#include <unistd.h>

#define LIMIT (128 * MIB)
#define PAGE  (2 * MIB)
#ifdef MEMORY_ASAN
#define SHADOW_BYTES (2 * LIMIT / 8) /* of all that was ever resident */
#else
#define SHADOW_BYTES 0
#endif
#define PATIENCE 4000 /* calls of the management core, ten apart in its own time */

static struct store *store;
static struct store_member *a, *b;

static void
open_two(uint64_t limit_bytes)
{
    store = fixture_open(2, limit_bytes, 100000);
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

/* What a millisecond of two busy lcores and the management core does. */
static void
work(uint32_t turns)
{
    for (uint32_t i = 0; i < turns; i++) {
        store_set_time(a, a->now_ms + 1);
        store_set_time(b, b->now_ms + 1);
        for (uint32_t k = 0; k < 20; k++) {
            fixture_turn(a);
            fixture_turn(b);
        }
        store_manage(store);
        usleep(100);
    }
}

static struct slice
numbered(char text[32], const char *what, uint32_t number)
{
    return slice_of(text, (size_t)snprintf(text, 32, "%s:%u", what, number));
}

static enum store_status
put_patiently(struct slice key, struct slice value)
{
    enum store_status status = fixture_put(a, key, value);
    for (uint32_t i = 0; i < PATIENCE && status == STORE_TRY_LATER; i++) {
        work(1);
        status = fixture_put(a, key, value);
    }
    return status;
}

/* From number `count` on, until it is refused, or `most` are there. Returns how many those are. */
static uint32_t
fill_from(const char *what, size_t bytes, uint32_t count, uint32_t most)
{
    static uint8_t value[64 * KIB];
    char text[32];
    memset(value, 7, sizeof(value));
    while (count < most && put_patiently(numbered(text, what, count), slice_of(value, bytes)) == STORE_OK) {
        count++;
        if (count % 64 == 0) {
            fixture_turn(a);
            fixture_turn(b);
        }
    }
    return count;
}

static uint32_t
fill(const char *what, size_t bytes, uint32_t most)
{
    return fill_from(what, bytes, 0, most);
}

/* All but one in `keep_one_in`. */
static void
thin_out(const char *what, uint32_t count, uint32_t keep_one_in)
{
    char text[32];
    for (uint32_t i = 0; i < count; i++) {
        bool was_there;
        struct slice key = numbered(text, what, i);
        while (i % keep_one_in != 0 && fixture_del(a, key, &was_there) != STORE_OK) {
            work(1);
        }
        if (i % 64 == 0) {
            fixture_turn(a);
            fixture_turn(b);
        }
    }
}

static uint32_t
found(const char *what, uint32_t count, uint32_t one_in, size_t bytes)
{
    char text[32];
    uint32_t there = 0;
    for (uint32_t i = 0; i < count; i += one_in) {
        const struct record *record = fixture_get(a, numbered(text, what, i));
        there += record != NULL && record->value_bytes == bytes && record_value(record).data[bytes - 1] == 7;
    }
    return there;
}

static uint64_t
resident_bytes(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    CHECK(file != NULL && fscanf(file, "%*u %lu", &pages) == 1);
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Until memory has come down to `bytes`, or patience is over. */
static void
wait_for_populated(uint64_t bytes)
{
    for (uint32_t i = 0; i < PATIENCE && fixture_stats(store).memory.populated_bytes > bytes; i++) {
        work(1);
    }
}

/* ---- pages ---- */

static void
pages_that_hold_a_tenth_of_their_keys_come_back_and_no_key_is_lost(void)
{
    open_two(LIMIT);
    uint32_t count = fill("k", 100, 500000);
    CU_ASSERT_EQUAL(count, 500000);
    uint64_t before = resident_bytes();
    thin_out("k", count, 10);
    wait_for_populated(40 * MIB);
    struct store_stats stats = fixture_stats(store);
    CU_ASSERT(stats.memory.populated_bytes <= 40 * MIB);
    CU_ASSERT(before - resident_bytes() >= 30 * MIB);
    CU_ASSERT(stats.moved_records > 0 && stats.memory.emptied_pages > 10);
    CU_ASSERT_EQUAL(found("k", count, 10, 100), 50000);
    CU_ASSERT_EQUAL(store_keys(store), 50000);
    shut();
}

static void
memory_of_small_values_serves_large_ones(void)
{
    static const uint32_t keep_one_in[] = { 2, 10 };
    for (size_t i = 0; i < ARRAY_COUNT(keep_one_in); i++) {
        open_two(LIMIT);
        uint32_t small = fill("small", 64, UINT32_MAX), kept = (small + keep_one_in[i] - 1) / keep_one_in[i];
        uint64_t full_bytes = fixture_stats(store).record_bytes;
        thin_out("small", small, keep_one_in[i]);
        work(1);
        uint64_t gone_bytes = full_bytes - fixture_stats(store).record_bytes;
        uint32_t large = fill("large", 8 * KIB, UINT32_MAX);
        /* The rest is in pages that are filled to 15 in 16, and too few to be worth emptying. Rounds of emptying are
         * given up by the clock: on a slow machine it is refused for a while. */
        uint64_t large_bytes = memory_class_bytes(8 * KIB + 1), least_bytes = gone_bytes / 10 * 9;
        for (uint32_t try = 0; try < PATIENCE && large * large_bytes < least_bytes; try++) {
            work(1);
            large = fill_from("large", 8 * KIB, large, UINT32_MAX);
        }
        CU_ASSERT(large * large_bytes >= least_bytes);
        CU_ASSERT_EQUAL(found("small", small, keep_one_in[i], 64), kept);
        CU_ASSERT_EQUAL(found("large", large, 1, 8 * KIB), large);
        shut();
    }
}

/* What the index holds of a key: a record or a ghost. */
static const struct record *
held_for(struct slice key)
{
    struct index_place place;
    index_look(&store->index, key, store_hash(store, key), &place);
    return place.slot != NULL && slot_has_key(place.word) ? slot_record(place.word) : NULL;
}

static void
a_moved_key_keeps_its_stamp_and_so_does_a_ghost(void)
{
    static const struct slice live = SLICE_LITERAL("live"), gone = SLICE_LITERAL("gone");
    store = fixture_open(2, LIMIT, 1000000); /* tables so large that they lie in pages of their own */
    a = fixture_join(store, 0);
    b = fixture_join(store, 1);
    bool was_there;
    CU_ASSERT_EQUAL(fixture_put(a, live, live), STORE_OK);
    CU_ASSERT_EQUAL(fixture_put(a, gone, gone), STORE_OK);
    CU_ASSERT_EQUAL(fixture_del(a, gone, &was_there), STORE_OK);
    store_manage(store);
    const struct record *live_at = held_for(live), *gone_at = held_for(gone);
    CU_ASSERT_FATAL(live_at != NULL && gone_at != NULL);
    uint64_t stamp = live_at->stamp, version = store_view(a, gone, store_hash(store, gone)).version;

    struct memory *memory = store->memory;
    fixture_mark_page_of(store, live_at); /* and of the ghost */
    store_relaxed(&store->sweep_move, true);
    for (uint32_t i = 0; i < 20000 && memory_empty_step(memory) != 0; i++) {
        fixture_turn(a);
        fixture_turn(b);
    }
    CU_ASSERT_EQUAL(memory_empty_step(memory), 0);
    CU_ASSERT_EQUAL(fixture_stats(store).memory.emptied_pages, 1);
    CU_ASSERT_PTR_NOT_EQUAL(held_for(live), live_at);
    CU_ASSERT_PTR_NOT_EQUAL(held_for(gone), gone_at);
    CU_ASSERT_EQUAL(fixture_get(a, live)->stamp, stamp);
    CU_ASSERT(slice_equal(record_value(fixture_get(a, live)), live));
    CU_ASSERT_PTR_NULL(fixture_get(a, gone));
    CU_ASSERT_EQUAL(store_view(a, gone, store_hash(store, gone)).version, version);

    store_relaxed(&store->sweep_move, false);
    memory_empty_end(memory, false);
    shut();
}

/* Spans on a stack that are on it, or on another, already. */
static uint32_t
spans_listed_twice(const struct memory *memory)
{
    static bool met[2][LIMIT / MEMORY_SLAB_BYTES]; /* pages, slabs */
    uint32_t twice = 0;
    memset(met, 0, sizeof(met));
    for (uint32_t i = 0; i < MEMORY_CLASSES; i++) {
        const struct memory_stack *stack = &memory->classes[i].stack;
        uint32_t index = (uint32_t)load_relaxed(&stack->head);
        for (; index != MEMORY_NONE; index = load_relaxed(&memory_stack_span(stack, index)->next)) {
            bool *span = &met[i < MEMORY_SMALL_CLASSES][index];
            if (*span) {
                twice++;
                break; /* or it would go round for ever */
            }
            *span = true;
        }
    }
    return twice;
}

static void
pages_that_were_let_go_can_be_chosen_again(void)
{
    open_two(LIMIT);
    struct memory *memory = store->memory;
    uint32_t count = fill("k", 100, 300000);
    thin_out("k", count, 10);
    memory_empty_end(memory, false);
    for (uint32_t round = 0; round < 3; round++) {
        uint32_t marked = memory_empty_begin(memory);
        CU_ASSERT(marked > 0);
        CU_ASSERT_EQUAL(memory_empty_step(memory), marked); /* nobody moved anything */
        CU_ASSERT_EQUAL(spans_listed_twice(memory), 0);
        memory_empty_end(memory, false);
        CU_ASSERT_EQUAL(spans_listed_twice(memory), 0);
    }
    CU_ASSERT_EQUAL(found("k", count, 10, 100), count / 10);
    shut();
}

static void
dense_pages_are_left_alone(void)
{
    open_two(LIMIT);
    fill("k", 1000, 80000);
    work(500);
    CU_ASSERT_EQUAL(fixture_stats(store).moved_records, 0);
    CU_ASSERT_EQUAL(fixture_stats(store).memory.emptied_pages, 0);
    shut();
}

/* ---- the limit ---- */

static void
a_lowered_limit_refuses_until_enough_was_removed_and_then_memory_is_below_it(void)
{
    open_two(2 * LIMIT);
    uint64_t empty = resident_bytes();
    static uint8_t megabyte[MIB];
    CU_ASSERT_EQUAL(put_patiently(SLICE_LITERAL("large"), slice_of(megabyte, MIB)), STORE_OK);
    uint32_t count = fill("k", 1000, UINT32_MAX);
    CU_ASSERT(resident_bytes() - empty > LIMIT);
    store_set_limit(store, LIMIT / 2);
    work(100);
    /* the reserve is there all the time */
    CU_ASSERT_EQUAL(fixture_shrink(a, SLICE_LITERAL("large"), MIB, 2000000000), STORE_OK);
    static const uint8_t value[1000];
    char text[32];
    CU_ASSERT(store_over_limit(a));
    CU_ASSERT_EQUAL(found("k", count, 1, 1000), count); /* no policy: nothing goes by itself */
    thin_out("k", count, 8);
    wait_for_populated(LIMIT / 2 - 4 * MIB); /* the directory and limbo count, too */
    struct store_stats stats = fixture_stats(store);
    CU_ASSERT(stats.memory.populated_bytes + stats.memory.meta_bytes + stats.fixed_bytes <= LIMIT / 2);
    CU_ASSERT(resident_bytes() - empty <= LIMIT / 2 + SHADOW_BYTES);
    CU_ASSERT_EQUAL(found("k", count, 8, 1000), (count + 7) / 8);
    CU_ASSERT_EQUAL(put_patiently(numbered(text, "new", 0), slice_of(value, 1000)), STORE_OK);
    store_set_limit(store, 2 * LIMIT); /* and up again */
    CU_ASSERT_EQUAL(fill("again", 1000, 50000), 50000);
    shut();
}

/* ---- sums ---- */

static void
the_sums_are_exact_and_agree_with_what_is_resident(void)
{
    open_two(LIMIT);
    uint64_t empty = resident_bytes(), random = 7;
    struct store_stats start = fixture_stats(store);
    static uint8_t value[20000];
    char text[32];
    for (uint32_t i = 0; i < 100000; i++) {
        uint64_t dice = fixture_random(&random);
        struct slice key = numbered(text, "k", (uint32_t)(dice % 20000));
        bool was_there;
        if ((dice >> 32) % 3 == 0) {
            while (fixture_del(a, key, &was_there) != STORE_OK) {
                work(1);
            }
        } else {
            size_t bytes = (dice >> 40) % 50 == 0 ? (dice >> 48) % 20000 : (dice >> 48) % 600;
            CU_ASSERT_EQUAL(put_patiently(key, slice_of(value, bytes)), STORE_OK);
        }
        if (i % 32 == 0) {
            fixture_turn(i % 64 == 0 ? a : b);
        }
        if (i % 5000 == 0) { /* also in between, with everything under way */
            struct store_stats stats = fixture_stats(store);
            CU_ASSERT_EQUAL(stats.memory.used_bytes, stats.record_bytes + stats.ghost_bytes + stats.index_bytes -
                                                         store->index.fixed_bytes + stats.limbo_bytes);
            CU_ASSERT_EQUAL(stats.memory.used_bytes + stats.memory.slack_bytes + stats.memory.free_page_bytes,
                            stats.memory.populated_bytes);
        }
    }
    struct store_stats stats = fixture_stats(store);
    uint64_t grown =
        stats.memory.populated_bytes - start.memory.populated_bytes + stats.memory.meta_bytes - start.memory.meta_bytes;
    uint64_t seen = resident_bytes() - empty;
    CU_ASSERT(seen + PAGE >= grown && seen <= grown + PAGE);
    shut();
}

/* ---- what shrinks, at the limit ---- */

/* All members at once, each on a key of its own; those that must wait come again. How many were never served. */
static uint32_t
shrink_all(struct store_member **members, uint32_t count, const char *what, size_t bytes, int64_t expires_at_ms)
{
    bool served[LIMIT_MEMBERS] = { false };
    uint32_t left = count, refused = 0;
    for (uint32_t round = 0; round < PATIENCE && left != 0; round++) {
        for (uint32_t i = 0; i < count; i++) {
            char text[32];
            if (served[i]) {
                continue;
            }
            enum store_status status = fixture_shrink(members[i], numbered(text, what, i), bytes, expires_at_ms);
            served[i] = status == STORE_OK;
            left -= served[i];
            refused += status == STORE_OOM;
        }
        for (uint32_t i = 0; i < count; i++) {
            fixture_turn(members[i]);
        }
        store_manage(store);
    }
    CU_ASSERT_EQUAL(refused, 0);
    return left;
}

static void
what_shrinks_works_at_the_limit_for_many_members_at_once(void)
{
    enum { MEMBERS = 48 };
    struct store_member *members[MEMBERS];
    store = fixture_open(MEMBERS, LIMIT, 10000);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        members[i] = fixture_join(store, i);
    }
    a = members[0];
    b = members[1];
    static uint8_t value[MIB];
    char text[32];
    memset(value, 7, sizeof(value));
    for (uint32_t i = 0; i < MEMBERS; i++) {
        CU_ASSERT_EQUAL(put_patiently(numbered(text, "large", i), slice_of(value, MIB)), STORE_OK);
        CU_ASSERT_EQUAL(put_patiently(numbered(text, "packed", i), slice_of(value, 60 * KIB)), STORE_OK);
        for (uint32_t k = 0; k < MEMBERS; k++) {
            fixture_turn(members[k]);
        }
    }
    static const size_t sizes[] = { 64 * KIB, 4000, 100, 16 };
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        char what[32];
        snprintf(what, sizeof(what), "fill%zu", sizes[i]);
        uint32_t count = 0;
        while (put_patiently(numbered(text, what, count), slice_of(value, sizes[i])) == STORE_OK) {
            count++;
            for (uint32_t k = 0; k < MEMBERS && count % 16 == 0; k++) {
                fixture_turn(members[k]);
            }
        }
    }
    CU_ASSERT_EQUAL(shrink_all(members, MEMBERS, "large", MIB, 2000000), 0);       /* EXPIRE */
    CU_ASSERT_EQUAL(shrink_all(members, MEMBERS, "large", MIB - 100, 2000000), 0); /* HDEL, LPOP */
    CU_ASSERT_EQUAL(shrink_all(members, MEMBERS, "packed", 60 * KIB, 2000000), 0);
    CU_ASSERT_EQUAL(shrink_all(members, MEMBERS, "packed", 40 * KIB, RECORD_NO_EXPIRY), 0);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        bool was_there = false;
        CU_ASSERT_EQUAL(fixture_del(members[i], numbered(text, "large", i), &was_there), STORE_OK);
        CU_ASSERT(was_there);
    }
    for (uint32_t i = 0; i < 100 * MEMBERS; i++) {
        fixture_turn(members[i % MEMBERS]);
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        store_leave(members[i]);
    }
    store_close(store);
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("empty", NULL, NULL);
    CU_ADD_TEST(suite, pages_that_hold_a_tenth_of_their_keys_come_back_and_no_key_is_lost);
    CU_ADD_TEST(suite, memory_of_small_values_serves_large_ones);
    CU_ADD_TEST(suite, a_moved_key_keeps_its_stamp_and_so_does_a_ghost);
    CU_ADD_TEST(suite, pages_that_were_let_go_can_be_chosen_again);
    CU_ADD_TEST(suite, dense_pages_are_left_alone);
    CU_ADD_TEST(suite, a_lowered_limit_refuses_until_enough_was_removed_and_then_memory_is_below_it);
    CU_ADD_TEST(suite, the_sums_are_exact_and_agree_with_what_is_resident);
    CU_ADD_TEST(suite, what_shrinks_works_at_the_limit_for_many_members_at_once);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
