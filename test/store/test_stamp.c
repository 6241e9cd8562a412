#include "store/cut.h"
#include "store/stamp.h"
#include "store_fixture.h"
#include <CUnit/Basic.h>
#include <pthread.h>

static struct stamp_clock clock_trusted, clock_shared;
static struct stamp_clock *const clocks[] = { &clock_trusted, &clock_shared };

static int
clocks_init(void)
{
    stamp_clock_init(&clock_trusted, true);
    clock_trusted.trusted = true; /* an emulator's is too coarse for the store */
    stamp_clock_init(&clock_shared, false);
    return 0;
}

static void
a_stamp_carries_its_member_and_rises_with_either_clock(void)
{
    for (uint32_t c = 0; c < ARRAY_COUNT(clocks); c++) {
        uint64_t before = 0;
        for (uint32_t member = 0; member < 64; member++) {
            uint64_t stamp = stamp_take(clocks[c], member, before);
            CU_ASSERT_EQUAL(stamp & STAMP_MEMBER_MASK, member);
            CU_ASSERT(stamp >> 6 > before >> 6);
            CU_ASSERT(stamp < CUT_PENDING);
            before = stamp;
        }
    }
}

static void
a_stamp_is_a_tick_above_a_version_from_a_core_whose_clock_is_ahead(void)
{
    uint64_t ahead = stamp_clock_read(&clock_trusted) + (1ull << 50);
    for (uint32_t low = 0; low < 64; low += 63) {
        uint64_t stamp = stamp_take(&clock_trusted, 5, ahead | low);
        CU_ASSERT_EQUAL(stamp, ((ahead | 63) + 1) | 5);
    }
}

static void
stamps_are_never_ahead_of_the_clock_however_fast_one_key_changes(void)
{
    uint64_t stamp = 0;
    for (uint32_t i = 0; i < 100000; i++) {
        stamp = stamp_take(&clock_trusted, 63, stamp);
    }
    CU_ASSERT(stamp <= (stamp_clock_read(&clock_trusted) | STAMP_MEMBER_MASK));
}

static void
a_cut_is_above_every_stamp_before_it_and_below_every_stamp_after(void)
{
    for (uint32_t c = 0; c < ARRAY_COUNT(clocks); c++) {
        struct cut cut = { 0 };
        uint64_t last = 0;
        for (uint32_t i = 0; i < 1000; i++) {
            uint64_t before = stamp_take(clocks[c], 63, 0);
            uint64_t word = cut_announce(&cut, clocks[c]);
            uint64_t after = stamp_take(clocks[c], 0, word);
            CU_ASSERT_FATAL(word != 0 && !cut_is_pending(word) && word > last);
            CU_ASSERT(before <= word && after > word);
            CU_ASSERT_EQUAL(cut_read_after(&cut, after), word);
            last = word;
        }
    }
}

static void
a_cut_that_is_not_decided_yet_shows_readers_the_one_before(void)
{
    struct cut cut = { 0 };
    uint64_t first = cut_announce(&cut, &clock_trusted);
    store_relaxed(&cut.word, first | CUT_PENDING);
    CU_ASSERT(cut_is_pending(load_relaxed(&cut.word)));
    CU_ASSERT_EQUAL(cut_value(load_relaxed(&cut.word)), first);
    uint64_t second = cut_decide(&cut, &clock_trusted);
    CU_ASSERT(!cut_is_pending(second) && second > first);
    CU_ASSERT_EQUAL(cut_decide(&cut, &clock_trusted), second);
}

static void
a_cut_rises_also_when_the_clock_stands_behind_the_one_before(void)
{
    struct cut cut = { 0 };
    uint64_t ahead = (stamp_clock_read(&clock_trusted) + (1ull << 50)) | STAMP_MEMBER_MASK;
    store_relaxed(&cut.word, ahead);
    CU_ASSERT_EQUAL(cut_announce(&cut, &clock_trusted), ahead + 64);
}

/* Cutters race: every announcement is answered by a cut that was decided after it began. */
static struct cut shared_cut;

static void *
cutter(void *context)
{
    struct stamp_clock *clock = context;
    for (uint32_t i = 0; i < 20000; i++) {
        uint64_t before = stamp_take(clock, 1, 0);
        uint64_t word = cut_announce(&shared_cut, clock);
        CHECK(word == 0 || word >= before);
        CHECK(word == 0 || cut_value(load_acquire(&shared_cut.word)) >= word);
    }
    return NULL;
}

static void
cuts_at_the_same_time_never_go_back(void)
{
    for (uint32_t c = 0; c < ARRAY_COUNT(clocks); c++) {
        pthread_t threads[3];
        store_relaxed(&shared_cut.word, 0);
        for (uint32_t i = 0; i < ARRAY_COUNT(threads); i++) {
            CHECK(pthread_create(&threads[i], NULL, cutter, clocks[c]) == 0);
        }
        for (uint32_t i = 0; i < ARRAY_COUNT(threads); i++) {
            pthread_join(threads[i], NULL);
        }
        CU_ASSERT_FALSE(cut_is_pending(load_relaxed(&shared_cut.word)));
    }
}

/* ---- in the store ---- */

/* As if who wrote it ran on a core whose clock is ahead by minutes. Returns its stamp now. */
static uint64_t
put_ahead(const struct store *store, struct slice key)
{
    struct index_place place;
    index_look(&store->index, key, store_hash(store, key), &place);
    return slot_record(place.word)->stamp += 1ull << 40;
}

static void
a_change_is_stamped_above_what_it_replaces_although_that_is_ahead_of_the_clock(void)
{
    struct store *store = fixture_open(2, 16 * MIB, 0);
    struct store_member *a = fixture_join(store, 0), *b = fixture_join(store, 1);
    struct slice key = SLICE_LITERAL("k");
    bool was_there;
    CU_ASSERT_EQUAL(fixture_put(a, key, key), STORE_OK);
    uint64_t ahead = put_ahead(store, key);
    CU_ASSERT_EQUAL(fixture_put(b, key, key), STORE_OK);
    CU_ASSERT(fixture_get(a, key)->stamp > ahead);
    ahead = put_ahead(store, key);
    CU_ASSERT_EQUAL(fixture_del(a, key, &was_there), STORE_OK);
    CU_ASSERT(store_view(a, key, store_hash(store, key)).version > ahead);
    ahead = put_ahead(store, key); /* the ghost */
    CU_ASSERT_EQUAL(fixture_put(b, key, key), STORE_OK);
    CU_ASSERT(fixture_get(a, key)->stamp > ahead);
    store_leave(b);
    store_leave(a);
    store_close(store);
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("stamp and cut", clocks_init, NULL);
    CU_ADD_TEST(suite, a_stamp_is_a_tick_above_a_version_from_a_core_whose_clock_is_ahead);
    CU_ADD_TEST(suite, a_stamp_carries_its_member_and_rises_with_either_clock);
    CU_ADD_TEST(suite, stamps_are_never_ahead_of_the_clock_however_fast_one_key_changes);
    CU_ADD_TEST(suite, a_cut_is_above_every_stamp_before_it_and_below_every_stamp_after);
    CU_ADD_TEST(suite, a_cut_that_is_not_decided_yet_shows_readers_the_one_before);
    CU_ADD_TEST(suite, a_cut_rises_also_when_the_clock_stands_behind_the_one_before);
    CU_ADD_TEST(suite, cuts_at_the_same_time_never_go_back);
    CU_ADD_TEST(suite, a_change_is_stamped_above_what_it_replaces_although_that_is_ahead_of_the_clock);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
