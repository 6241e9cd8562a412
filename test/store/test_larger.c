/* Memory is full to the last block of the right size: what shrinks gets a larger one, and pages are emptied upwards. */
#include "audit.h"
#include "store/memory_layout.h"
#include "store_fixture.h"
#include <CUnit/Basic.h>
#include <unistd.h>

#define LIMIT      (32 * MIB)
#define LENT_MOST  300000
#define PATIENCE   4000 /* turns of the management core */
#define DONORS     30
#define DONOR      40000         /* bytes */
#define LARGE      (MIB / 4 * 5) /* the same: a copy needs a page to itself */
#define STAIR      8             /* classes, each with a page of its own, ... */
#define STAIR_LEFT 3             /* of which so many blocks stay in use */

static struct memory *memory;
static struct memory_cache *cache, *other;
static struct store *store;
static struct store_member *a, *b;

/* Blocks that the test keeps to itself. */
static struct lent {
    void *block;
    size_t bytes;
} lent[LENT_MOST];
static uint32_t lent_count;

/* What is left of a size, pages kept back too. */
static void
take_all(struct memory_cache *from, size_t bytes)
{
    for (void *block; (block = memory_take_reserve(from, bytes)) != NULL; lent_count++) {
        CHECK(lent_count < LENT_MOST);
        lent[lent_count] = (struct lent){ block, bytes };
    }
}

static void
give_all(struct memory_cache *to)
{
    while (lent_count != 0) {
        lent_count--;
        memory_give(to, lent[lent_count].block, lent[lent_count].bytes);
    }
}

/* ---- memory ---- */

static void
memory_begin(void)
{
    struct memory_config config = { .reserve_bytes = 8 * MIB, .limit_bytes = 16 * MIB, .ahead_bytes = 16 * MIB };
    CHECK(memory_open(&config, &memory) == 0);
    cache = memory_join(memory, 0);
    other = memory_join(memory, 1);
    for (uint32_t i = 0; i < 8; i++) {
        memory_manage(memory);
    }
}

static void
memory_end(void)
{
    give_all(cache);
    memory_leave(cache);
    memory_leave(other);
    memory_close(memory);
}

static struct memory_stats
stats_of_memory(void)
{
    struct memory_stats stats;
    memory_stats(memory, &stats);
    return stats;
}

static const struct row {
    const char *name;
    size_t asked, lender, align; /* all memory is blocks for `lender` bytes, one of them free */
    bool found;
} rows[] = {
    { "more than there is", MEMORY_BLOCK_MAX + 1, MEMORY_BLOCK_MAX, MEMORY_ALIGN, false },
    { "the largest class", MEMORY_BLOCK_MAX, MEMORY_BLOCK_MAX, MEMORY_ALIGN, false },
    { "the class below it", MIB, MEMORY_BLOCK_MAX, MEMORY_ALIGN, true },
    { "only a smaller one", 26000, 24000, MEMORY_ALIGN, false },
    { "its own class", 25000, 26000, MEMORY_ALIGN, false },
    { "the next class", 24576, 26000, MEMORY_ALIGN, true },
    { "first byte of the next class", 24577, 26624, MEMORY_ALIGN, false },
    { "large for large", 4097, MEMORY_BLOCK_MAX, MEMORY_ALIGN, true },
    { "large for the largest small", 4096, 4097, MEMORY_ALIGN, true },
    { "a whole slab", 60000, 64 * KIB, MEMORY_ALIGN, true },
    { "a slab for a small one", 16, 64 * KIB, MEMORY_ALIGN, true },
    { "large for small", 100, 20480, MEMORY_ALIGN, true },
    { "small for small", 100, 4096, MEMORY_ALIGN, true },
    { "the next small class", 112, 113, MEMORY_ALIGN, true },
    { "a bucket in a line of its own", 64, 128, CACHE_LINE, true },
    { "a bucket across two lines", 64, 80, CACHE_LINE, false },
    { "a bucket in a large block", 64, 20480, CACHE_LINE, true },
    { "a bucket in a third of a page", 64, 2 * MIB / 3 / 16 * 16, CACHE_LINE, false },
    { "the smallest", 1, 17, MEMORY_ALIGN, true },
};

static void
row_run(const struct row *row, bool by_other)
{
    memory_begin();
    void *planted = memory_take(cache, row->lender);
    CU_ASSERT_PTR_NOT_NULL_FATAL(planted);
    take_all(cache, row->lender);
    CU_ASSERT_PTR_NULL(memory_take_larger(cache, row->asked, row->align));
    memory_give(cache, planted, row->lender);
    uint64_t before = stats_of_memory().used_bytes;

    void *block = memory_take_larger(cache, row->asked, row->align);
    if ((block != NULL) != row->found || (block != NULL && block != planted)) {
        fprintf(stderr, "\n  %s\n", row->name);
        CU_FAIL("a block is found where there is none, or none where there is one");
    }
    if (block != NULL) {
        struct memory_stats stats = stats_of_memory();
        CU_ASSERT_EQUAL((uintptr_t)block % row->align, 0);
        CU_ASSERT_EQUAL(stats.used_bytes, before + memory_class_bytes(row->asked));
        CU_ASSERT_EQUAL(stats.used_bytes + stats.slack_bytes + stats.free_page_bytes, stats.populated_bytes);
        CU_ASSERT(stats.larger_blocks == 1 && stats.larger_takes == 1 && memory_gives_home(other));
        CU_ASSERT_PTR_NULL(memory_take_larger(cache, row->asked, row->align));
        memset(block, 1, row->asked);
        memory_give_home(by_other ? other : cache, block, row->asked);
        CU_ASSERT(stats_of_memory().larger_blocks == 0 && !memory_gives_home(other));
    }
    CU_ASSERT_EQUAL(stats_of_memory().used_bytes, before);
    take_all(cache, row->lender); /* it is what it was */
    CU_ASSERT_PTR_EQUAL(lent[lent_count - 1].block, planted);
    memset(planted, 2, row->lender);
    give_all(cache);
    CU_ASSERT_EQUAL(stats_of_memory().used_bytes, 0);
    memory_end();
}

static void
a_free_block_of_any_larger_class_serves_and_comes_back_as_what_it_is(void)
{
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        row_run(&rows[i], false);
        row_run(&rows[i], true);
    }
}

static void
the_nearest_class_serves_first(void)
{
    static const size_t lenders[] = { 2000, 300, 100000, 5000 };
    memory_begin();
    void *blocks[ARRAY_COUNT(lenders)];
    for (size_t i = 0; i < ARRAY_COUNT(lenders); i++) {
        blocks[i] = memory_take_reserve(cache, lenders[i]);
        CU_ASSERT_PTR_NOT_NULL_FATAL(blocks[i]);
    }
    take_all(cache, 1000); /* what no other class opened a page for, ... */
    take_all(cache, MEMORY_BLOCK_MAX);
    for (size_t i = 0; i < ARRAY_COUNT(lenders); i++) {
        take_all(cache, lenders[i]);
    }
    for (size_t i = 0; i < ARRAY_COUNT(lenders); i++) {
        memory_give(cache, blocks[i], lenders[i]);
    }
    static const uint32_t order[] = { 1, 0, 3, 2 };
    void *larger[ARRAY_COUNT(lenders)];
    for (size_t i = 0; i < ARRAY_COUNT(lenders); i++) {
        larger[i] = memory_take_larger(cache, 200, MEMORY_ALIGN);
        CU_ASSERT_PTR_EQUAL(larger[i], blocks[order[i]]);
    }
    CU_ASSERT_EQUAL(stats_of_memory().larger_blocks, ARRAY_COUNT(lenders));
    for (size_t i = 0; i < ARRAY_COUNT(lenders); i++) {
        memory_give_home(other, larger[i], 200);
    }
    memory_end();
}

static void
who_grows_takes_nothing_of_a_page_kept_back_while_it_is_out(void)
{
    memory_begin();
    void *ordinary = memory_take(cache, 20000), *kept[2]; /* all that growth may open, of four */
    CU_ASSERT_PTR_NOT_NULL_FATAL(ordinary);
    CU_ASSERT_PTR_NULL(memory_take(cache, 30000));
    for (uint32_t i = 0; i < ARRAY_COUNT(kept); i++) {
        kept[i] = memory_take_reserve(cache, 30000);
        CU_ASSERT_PTR_NOT_NULL_FATAL(kept[i]);
        CU_ASSERT_PTR_NULL(memory_take(cache, 30000));
        void *more = memory_take(cache, 20000); /* of its own page it does */
        CU_ASSERT_PTR_NOT_NULL_FATAL(more);
        memory_give(cache, more, 20000);
    }
    /* as when the limit is raised: none of them is out any more */
    store_relaxed(&memory->pages_reserve, 0);
    void *now = memory_take(cache, 30000);
    CU_ASSERT_PTR_NOT_NULL_FATAL(now);
    memory_give(cache, now, 30000);
    memory_give(cache, kept[0], 30000);
    memory_give(cache, kept[1], 30000);
    memory_give(cache, ordinary, 20000);
    memory_end();
}

/* ---- the store ---- */

static void
store_begin(void)
{
    store = fixture_open(2, LIMIT, 1000);
    a = fixture_join(store, 0);
    b = fixture_join(store, 1);
}

static void
turn(uint32_t turns)
{
    for (uint32_t i = 0; i < turns; i++) {
        fixture_turn(a);
        fixture_turn(b);
    }
}

static void
next_ms(void)
{
    store_set_time(a, a->now_ms + 1);
    store_set_time(b, b->now_ms + 1);
}

static void
work(uint32_t turns)
{
    for (uint32_t i = 0; i < turns; i++) {
        next_ms();
        turn(20);
        store_manage(store);
        usleep(100);
    }
}

static void
store_end(void)
{
    give_all(a->cache);
    work(100);
    fixture_settle(b, a);
    store_leave(b);
    CU_ASSERT(audit_passes(a, 0));
    CU_ASSERT_EQUAL(load_relaxed(&store->memory->larger_blocks), 0);
    store_leave(a);
    store_close(store);
}

static struct slice
numbered(char text[32], const char *what, uint32_t number)
{
    return slice_of(text, (size_t)snprintf(text, 32, "%s:%u", what, number));
}

/* Bytes that tell a value from any other. */
static struct slice
value_of(size_t bytes)
{
    static uint8_t value[LARGE];
    for (size_t i = 0; i < bytes; i++) {
        value[i] = (uint8_t)(i * 31 + (i >> 8));
    }
    return slice_of(value, bytes);
}

static void
put(struct slice key, size_t bytes)
{
    enum store_status status = STORE_TRY_LATER;
    for (uint32_t i = 0; i < PATIENCE && status == STORE_TRY_LATER; i++) {
        status = fixture_put(a, key, value_of(bytes));
        if (status != STORE_OK) {
            work(1);
        }
    }
    CU_ASSERT_EQUAL_FATAL(status, STORE_OK);
}

static bool
holds(struct slice key, size_t bytes)
{
    const struct record *record = fixture_get(a, key);
    return record != NULL && slice_equal(record_value(record), value_of(bytes));
}

static struct store_stats
stats_now(void)
{
    struct store_stats stats;
    store_stats(store, &stats);
    return stats;
}

static void
take_everything(void)
{
    work(100); /* limbo and the management core are at rest; the latter stays away from now on */
    take_all(a->cache, MEMORY_BLOCK_MAX);
    for (uint32_t i = MEMORY_CLASSES; i-- > 0;) {
        take_all(a->cache, store->memory->classes[i].bytes);
    }
}

/* Another member's magazines are out of reach, so only `a` takes part. */
static void
what_shrinks_works_while_only_larger_blocks_are_free(void)
{
    static const struct slice hash = SLICE_LITERAL("hash"), zset = SLICE_LITERAL("zset"), mortal = SLICE_LITERAL("m"),
                              doomed = SLICE_LITERAL("doomed"), fresh = SLICE_LITERAL("new");
    char text[32];
    bool was_there = false;
    store_begin();
    put(hash, 24000);
    put(zset, 100);
    put(mortal, 5000);
    put(doomed, 10);
    for (uint32_t i = 0; i < DONORS; i++) {
        put(numbered(text, "donor", i), DONOR);
    }
    take_everything();
    CU_ASSERT_EQUAL(fixture_shrink(a, hash, 20000, RECORD_NO_EXPIRY), STORE_TRY_LATER);
    CU_ASSERT_EQUAL(fixture_put(a, fresh, value_of(10)), STORE_TRY_LATER);
    CU_ASSERT_PTR_NULL(index_bucket_take(a, SLOT_INIT, LINK_INIT, true));

    for (uint32_t i = 0; i < DONORS; i++) { /* without a ghost: there is no memory for it */
        CU_ASSERT_EQUAL(fixture_del(a, numbered(text, "donor", i), &was_there), STORE_OK);
        CU_ASSERT(was_there);
    }
    turn(500);
    CU_ASSERT(stats_now().ghosts == 0 && stats_now().limbo_bytes == 0);
    CU_ASSERT_EQUAL(fixture_shrink(a, hash, 20000, RECORD_NO_EXPIRY), STORE_TRY_LATER); /* it looked in this ms */
    next_ms();
    CU_ASSERT_EQUAL(fixture_shrink(a, hash, 20000, RECORD_NO_EXPIRY), STORE_OK);
    CU_ASSERT_EQUAL(fixture_shrink(a, zset, 60, RECORD_NO_EXPIRY), STORE_TRY_LATER); /* one a millisecond */
    next_ms();
    CU_ASSERT_EQUAL(fixture_shrink(a, zset, 60, RECORD_NO_EXPIRY), STORE_OK);
    next_ms();
    CU_ASSERT_EQUAL(fixture_shrink(a, mortal, 5000, 2000000), STORE_OK);
    CU_ASSERT_EQUAL(stats_now().memory.larger_blocks, 3);
    CU_ASSERT_EQUAL(fixture_put(a, fresh, value_of(10)), STORE_TRY_LATER); /* who grows gets none */
    CU_ASSERT_EQUAL(fixture_put(a, hash, value_of(24000)), STORE_TRY_LATER);
    next_ms();
    CU_ASSERT_PTR_NULL(index_bucket_take(a, SLOT_EMPTY, 0, false));
    struct index_bucket *bucket = index_bucket_take(a, SLOT_INIT, LINK_INIT, true);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bucket);
    CU_ASSERT_EQUAL((uintptr_t)bucket % sizeof(*bucket), 0);
    index_blocks_give(a, bucket, 1);
    CU_ASSERT_EQUAL(fixture_del(a, doomed, &was_there), STORE_OK);
    CU_ASSERT(was_there);
    CU_ASSERT(holds(hash, 20000) && holds(zset, 60) && holds(mortal, 5000));
    CU_ASSERT_EQUAL(fixture_get(a, mortal)->type_flags & RECORD_HAS_EXPIRY, RECORD_HAS_EXPIRY);

    give_all(a->cache);
    put(hash, 20000);
    put(zset, 70);
    CU_ASSERT_EQUAL(fixture_del(a, mortal, &was_there), STORE_OK);
    store_end();
}

/* Pages of neighbouring classes, each nearly empty: none of them fits into its own class, all fit into the largest. */
static void
pages_are_emptied_upwards_when_a_copy_needs_a_whole_one(void)
{
    static const struct slice large = SLICE_LITERAL("large");
    char text[32];
    store_begin();
    uint32_t first = memory_class(20 * KIB), total[STAIR];
    put(large, LARGE);
    for (uint32_t i = 0; i < STAIR; i++) {
        const struct memory_class *class = &store->memory->classes[first + i];
        total[i] = class->total - 5; /* with what replaced records leave */
        for (uint32_t k = 0; k < total[i]; k++) {
            snprintf(text, sizeof(text), "%u:%u", i, k);
            put(slice_text(text), class->bytes - 100);
        }
    }
    for (uint32_t i = 0; i < 10; i++) { /* the pages kept back too */
        work(10);
        take_all(a->cache, MEMORY_BLOCK_MAX);
    }
    for (uint32_t i = 0; i < STAIR; i++) {
        for (uint32_t k = STAIR_LEFT; k < total[i]; k++) {
            bool was_there;
            snprintf(text, sizeof(text), "%u:%u", i, k);
            CU_ASSERT_EQUAL(fixture_del(a, slice_text(text), &was_there), STORE_OK);
            turn(20);
        }
    }
    uint64_t emptied = stats_now().memory.emptied_pages;
    enum store_status status = fixture_shrink(a, large, LARGE, 2000000000);
    for (uint32_t i = 0; i < PATIENCE && status == STORE_TRY_LATER; i++) {
        work(1);
        status = fixture_shrink(a, large, LARGE, 2000000000);
    }
    CU_ASSERT_EQUAL(status, STORE_OK);
    CU_ASSERT(stats_now().memory.emptied_pages > emptied);
    for (uint32_t i = 0; i < STAIR; i++) {
        for (uint32_t k = 0; k < STAIR_LEFT; k++) {
            snprintf(text, sizeof(text), "%u:%u", i, k);
            CU_ASSERT(holds(slice_text(text), store->memory->classes[first + i].bytes - 100));
        }
    }
    CU_ASSERT(holds(large, LARGE));
    give_all(a->cache);
    for (uint32_t i = 0; i < STAIR * STAIR_LEFT; i++) {
        bool was_there;
        snprintf(text, sizeof(text), "%u:%u", i / STAIR_LEFT, i % STAIR_LEFT);
        CU_ASSERT_EQUAL(fixture_del(a, slice_text(text), &was_there), STORE_OK);
    }
    store_end();
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("larger", NULL, NULL);
    CU_ADD_TEST(suite, a_free_block_of_any_larger_class_serves_and_comes_back_as_what_it_is);
    CU_ADD_TEST(suite, the_nearest_class_serves_first);
    CU_ADD_TEST(suite, who_grows_takes_nothing_of_a_page_kept_back_while_it_is_out);
    CU_ADD_TEST(suite, what_shrinks_works_while_only_larger_blocks_are_free);
    CU_ADD_TEST(suite, pages_are_emptied_upwards_when_a_copy_needs_a_whole_one);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
