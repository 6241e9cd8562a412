/* What housekeeping unlinks, or moves, stays as it was for who has borrowed it. */
#include "store_fixture.h"
#include <CUnit/Basic.h>

#define TURNS   20000 /* more than enough to come to a record */
#define FILLERS 200   /* records of its size: one would take its block */
#define VALUE   100

static struct store *store;
static struct store_member *keeper, *reader;

static const struct record *
held_for(struct slice key)
{
    struct index_place place;
    index_look(&store->index, key, store_hash(store, key), &place);
    return place.slot != NULL && slot_is_record(place.word) ? slot_record(place.word) : NULL;
}

static void
expires(const struct record *record)
{
    store_set_time(keeper, record_expires_at_ms(record) + 1);
    store_relaxed(&store->sweep_expired, true);
}

static void
is_evicted(const struct record *record)
{
    store_relaxed(&store->evict.policy, STORE_ALLKEYS_RANDOM);
    store_relaxed(&store->evict.wanted, 1);
}

static void
is_moved(const struct record *record)
{
    fixture_mark_page_of(store, record);
    store_relaxed(&store->sweep_move, true);
}

static const struct way {
    const char *name;
    void (*begin)(const struct record *record);
    bool key_stays;
} ways[] = {
    { "expires", expires, false },
    { "is evicted", is_evicted, false },
    { "is moved", is_moved, true },
};

static void
fill(void)
{
    static const uint8_t other[VALUE] = { 0 };
    char text[32];
    for (uint32_t i = 0; i < FILLERS; i++) {
        struct slice key = slice_of(text, (size_t)snprintf(text, sizeof(text), "filler:%u", i));
        CHECK(fixture_set_until(keeper, key, slice_of(other, VALUE), INT64_MAX) == STORE_OK);
        fixture_turn(keeper);
    }
}

static void
a_borrowed_record_stays_as_it_was_whatever_housekeeping_does_to_its_key(void)
{
    static const struct slice key = SLICE_LITERAL("borrowed");
    uint8_t value[VALUE], before[2 * VALUE];
    memset(value, 7, sizeof(value));
    for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
        store = fixture_open(2, 64 * MIB, 1000);
        keeper = fixture_join(store, 0);
        reader = fixture_join(store, 1);
        CU_ASSERT_EQUAL(fixture_set_until(keeper, key, slice_of(value, VALUE), keeper->now_ms + 10), STORE_OK);
        const struct record *borrowed = fixture_get(reader, key);
        CU_ASSERT_FATAL(borrowed != NULL && borrowed == held_for(key) && record_bytes(borrowed) <= sizeof(before));
        memcpy(before, borrowed, record_bytes(borrowed));

        ways[i].begin(borrowed);
        for (uint32_t turn = 0; turn < TURNS && held_for(key) == borrowed; turn++) {
            fixture_turn(keeper);
            (void)memory_empty_step(store->memory);
        }
        CU_ASSERT_PTR_NOT_EQUAL(held_for(key), borrowed);
        CU_ASSERT_EQUAL(held_for(key) != NULL, ways[i].key_stays);
        store_relaxed(&store->evict.wanted, 0);
        fill();
        size_t bytes = RECORD_HEADER_BYTES + sizeof(int64_t) + key.bytes + VALUE;
        if (memcmp(before, borrowed, bytes) != 0) {
            CU_FAIL("a borrowed record changed");
            fprintf(stderr, "test_sweep: a record that %s changed under its reader\n", ways[i].name);
        }

        store_relaxed(&store->sweep_move, false);
        memory_empty_end(store->memory, false);
        fixture_settle(reader, keeper);
        store_leave(reader);
        CU_ASSERT(audit_passes(keeper, 0));
        store_leave(keeper);
        store_close(store);
    }
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("sweep", NULL, NULL);
    CU_ADD_TEST(suite, a_borrowed_record_stays_as_it_was_whatever_housekeeping_does_to_its_key);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
