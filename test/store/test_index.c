/* First tables: where they lie, and that their row counts them. */
#include "store/index.h"
#include "store_fixture.h"
#include <CUnit/Basic.h>

#define LIMIT (64 * MIB)

static const struct slice key = SLICE_LITERAL("first of its segment");
static struct store *store;
static struct store_member *member;

static void
open_one(void)
{
    store = fixture_open(1, LIMIT, 100000);
    member = fixture_join(store, 0);
}

static void
shut(void)
{
    CU_ASSERT(audit_passes(member, 0));
    store_leave(member);
    store_close(store);
}

static uint32_t
segment_of_key(void)
{
    return index_segment_of(&store->index, store_hash(store, key));
}

static void
a_row_counts_a_table_once_and_a_second_first_table_is_given_back(void)
{
    open_one();
    uint32_t row = segment_of_key() / INDEX_ROW_SEGMENTS;
    struct store_stats before, after;
    CU_ASSERT_EQUAL(index_row(&store->index, row), 0);
    CU_ASSERT(index_first_table(member, store_hash(store, key)));
    CU_ASSERT_EQUAL(index_row(&store->index, row), 1ull << segment_of_key() % INDEX_ROW_SEGMENTS);
    store_stats(store, &before);
    CU_ASSERT(index_first_table(member, store_hash(store, key)));
    store_stats(store, &after);
    CU_ASSERT_EQUAL(load_relaxed(&store->index.row_tables[row]), 1);
    CU_ASSERT_EQUAL(after.index_bytes, before.index_bytes);
    CU_ASSERT_EQUAL(after.memory.used_bytes, before.memory.used_bytes);
    shut();
}

static void
a_table_is_not_put_into_a_page_that_is_being_emptied(void)
{
    open_one();
    size_t bytes = sizeof(struct index_bucket) << store->index.first_log2;
    void *block = memory_take(member->cache, bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    fixture_mark_page_of(store, block);
    for (uint32_t i = 0; i < 2 * MEMORY_SMALL_CLASSES; i++) { /* all that the member kept of it goes home, */
        fixture_turn(member);
    }
    CU_ASSERT_EQUAL(memory_empty_step(store->memory), 1);
    memory_give(member->cache, block, bytes); /* but this is the next that it would take */
    CU_ASSERT_EQUAL(fixture_put(member, key, key), STORE_OK);
    uint64_t table = load_acquire(&store->index.directory[segment_of_key()]);
    CU_ASSERT_FATAL(table_exists(table));
    CU_ASSERT(memory_is_emptying(store->memory, block));
    CU_ASSERT(!memory_is_emptying(store->memory, link_bucket(table)));
    memory_empty_end(store->memory, false);
    shut();
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("index", NULL, NULL);
    CU_ADD_TEST(suite, a_row_counts_a_table_once_and_a_second_first_table_is_given_back);
    CU_ADD_TEST(suite, a_table_is_not_put_into_a_page_that_is_being_emptied);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
