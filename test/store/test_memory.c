#include "store/memory.h"
#include "store/memory_layout.h"
#include <CUnit/Basic.h>

static struct memory *memory;
static struct memory_cache *cache, *other;

static void
open_with(uint64_t reserve_bytes, uint64_t limit_bytes, uint64_t ahead_bytes)
{
    struct memory_config config = { .reserve_bytes = reserve_bytes,
                                    .limit_bytes = limit_bytes,
                                    .ahead_bytes = ahead_bytes };
    CHECK(memory_open(&config, &memory) == 0);
    cache = memory_join(memory, 0);
    other = memory_join(memory, 1);
    CHECK(cache != NULL && other != NULL);
}

static void
shut(void)
{
    memory_leave(cache);
    memory_leave(other);
    memory_close(memory);
}

static struct memory_stats
stats_now(void)
{
    struct memory_stats stats;
    memory_stats(memory, &stats);
    return stats;
}

static void
a_seat_is_taken_once_and_refused_beyond_the_last(void)
{
    open_with(16 * MIB, 16 * MIB, 4 * MIB);
    CU_ASSERT_PTR_NULL(memory_join(memory, 0));
    CU_ASSERT_PTR_NULL(memory_join(memory, LIMIT_MEMBERS));
    struct memory_cache *third = memory_join(memory, LIMIT_MEMBERS - 1);
    CU_ASSERT_PTR_NOT_NULL(third);
    memory_leave(third);
    shut();
}

static void
a_block_beyond_the_largest_class_is_refused(void)
{
    open_with(16 * MIB, 16 * MIB, 4 * MIB);
    CU_ASSERT_PTR_NULL(memory_take(cache, MEMORY_BLOCK_MAX + 1));
    void *block = memory_take(cache, MEMORY_BLOCK_MAX);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    memory_give(cache, block, MEMORY_BLOCK_MAX);
    shut();
}

static void
classes_rise_are_multiples_of_16_and_waste_at_most_an_eighth_up_to_256_kib(void)
{
    size_t before = 0;
    for (size_t bytes = 1; bytes <= MEMORY_BLOCK_MAX; bytes += bytes < 10000 ? 1 : 97) {
        size_t class_bytes = memory_class_bytes(bytes);
        uint32_t class_index = memory_class(bytes);
        CU_ASSERT_FATAL(class_bytes >= bytes && class_bytes >= before && class_bytes % 16 == 0);
        CU_ASSERT_FATAL(class_index < MEMORY_CLASSES && memory_class(class_bytes) == class_index);
        CU_ASSERT_FATAL((class_index < MEMORY_SMALL_CLASSES) == (bytes <= MEMORY_SMALL_MAX));
        CU_ASSERT_FATAL(bytes > 256 * KIB || class_bytes - bytes < MAX(bytes / 8 + 1, 16u));
        before = class_bytes;
    }
    CU_ASSERT_EQUAL(memory_class_bytes(0), 16);
    CU_ASSERT_EQUAL(memory_class_bytes(64 * KIB), 64 * KIB);
    CU_ASSERT_EQUAL(memory_class_bytes(MEMORY_BLOCK_MAX), 2 * MIB);
}

static void
blocks_of_every_class_are_aligned_and_do_not_overlap(void)
{
    open_with(64 * MIB, 64 * MIB, 64 * MIB);
    for (size_t bytes = 16; bytes <= MEMORY_BLOCK_MAX; bytes = memory_class_bytes(bytes) + 1) {
        uint8_t *blocks[40];
        uint32_t count = bytes < MIB ? ARRAY_COUNT(blocks) : 4;
        count = bytes > 64 * KIB ? 4 : count;
        for (uint32_t i = 0; i < count; i++) {
            blocks[i] = memory_take(cache, bytes);
            if (blocks[i] == NULL) { /* each class keeps an empty page until memory is short */
                memory_manage(memory);
                blocks[i] = memory_take(cache, bytes);
            }
            CU_ASSERT_PTR_NOT_NULL_FATAL(blocks[i]);
            CU_ASSERT_EQUAL((uintptr_t)blocks[i] % 16, 0);
            CU_ASSERT((bytes & (bytes - 1)) != 0 || bytes > 64 * KIB || (uintptr_t)blocks[i] % bytes == 0);
            memset(blocks[i], (int)i + 1, bytes);
        }
        for (uint32_t i = 0; i < count; i++) {
            CU_ASSERT(blocks[i][0] == i + 1 && blocks[i][bytes - 1] == i + 1);
            memory_give(cache, blocks[i], bytes);
        }
    }
    CU_ASSERT_EQUAL(stats_now().used_bytes, 0);
    shut();
}

static void
used_bytes_are_exact_and_follow_blocks_across_members(void)
{
    open_with(32 * MIB, 32 * MIB, 8 * MIB);
    void *blocks[1000];
    for (uint32_t i = 0; i < ARRAY_COUNT(blocks); i++) {
        blocks[i] = memory_take(cache, 100);
    }
    CU_ASSERT_EQUAL(stats_now().used_bytes, 1000 * 112);
    for (uint32_t i = 0; i < ARRAY_COUNT(blocks); i++) {
        memory_give(other, blocks[i], 100);
    }
    CU_ASSERT_EQUAL(stats_now().used_bytes, 0);
    CU_ASSERT_EQUAL(stats_now().used_bytes + stats_now().slack_bytes + stats_now().free_page_bytes,
                    stats_now().populated_bytes);
    shut();
}

static void
memory_does_not_drift_from_a_member_that_takes_to_one_that_gives(void)
{
    open_with(32 * MIB, 32 * MIB, 32 * MIB);
    uint64_t most = 0;
    for (uint32_t i = 0; i < 200000; i++) {
        void *block = memory_take(cache, 200);
        CU_ASSERT_PTR_NOT_NULL_FATAL(block);
        memory_give(other, block, 200);
        struct memory_stats stats = stats_now();
        most = MAX(most, stats.populated_bytes - stats.free_page_bytes);
    }
    CU_ASSERT_EQUAL(most, 2 * MIB); /* one page is enough for what is out at any time */
    shut();
}

static void
without_a_populated_page_a_take_is_refused_and_the_management_core_helps(void)
{
    open_with(32 * MIB, 32 * MIB, 4 * MIB);
    void *pages[16];
    uint32_t count = 0;
    while ((pages[count] = memory_take(cache, 2 * MIB - 8192)) != NULL) {
        count++;
    }
    CU_ASSERT_EQUAL(count, 2); /* as many as were ahead */
    CU_ASSERT_EQUAL(memory_refusal(cache), MEMORY_NO_PAGE);
    CU_ASSERT_EQUAL(stats_now().page_misses, 1);
    CU_ASSERT_EQUAL(memory_manage(memory), 4 * MIB);
    pages[count] = memory_take(cache, 2 * MIB - 8192);
    CU_ASSERT_PTR_NOT_NULL_FATAL(pages[count]);
    for (uint32_t i = 0; i <= count; i++) {
        memory_give(cache, pages[i], 2 * MIB - 8192);
    }
    shut();
}

/* Take blocks until the management core says that waiting is no use. */
static uint32_t
fill(size_t bytes, void **blocks, uint32_t most, bool reserve)
{
    for (uint32_t count = 0; count < most; count++) {
        blocks[count] = reserve ? memory_take_reserve(cache, bytes) : memory_take(cache, bytes);
        for (uint32_t i = 0; i < 4 && blocks[count] == NULL; i++) {
            memory_manage(memory);
            blocks[count] = reserve ? memory_take_reserve(cache, bytes) : memory_take(cache, bytes);
        }
        if (blocks[count] == NULL) {
            return count;
        }
    }
    return most;
}

static void
the_limit_is_a_cap_on_resident_bytes_and_the_reserve_goes_to_commands_that_shrink(void)
{
    open_with(256 * MIB, 64 * MIB, 8 * MIB);
    static void *blocks[4096];
    uint32_t normal = fill(32 * KIB, blocks, ARRAY_COUNT(blocks), false);
    CU_ASSERT_EQUAL(memory_refusal(cache), MEMORY_AT_LIMIT);
    CU_ASSERT(memory_over_limit(memory));
    uint32_t more = fill(32 * KIB, blocks + normal, ARRAY_COUNT(blocks) - normal, true);
    CU_ASSERT(more >= 64);
    CU_ASSERT(stats_now().populated_bytes <= 64 * MIB);
    CU_ASSERT(stats_now().used_bytes > 58 * MIB);
    for (uint32_t i = 0; i < normal + more; i++) {
        memory_give(cache, blocks[i], 32 * KIB);
    }
    memory_manage(memory);
    CU_ASSERT_FALSE(memory_over_limit(memory));
    shut();
}

static void
the_next_millisecond_is_wanted_while_pages_come_and_go_or_the_limit_is_near(void)
{
    static void *blocks[4096];
    open_with(64 * MIB, 64 * MIB, 8 * MIB);
    for (uint32_t i = 0; i < 64; i++) {
        memory_manage(memory);
        (void)memory_moves(memory);
    }
    CU_ASSERT_FALSE(memory_moves(memory)); /* all that is to be ahead is there */
    void *small = memory_take(cache, 100);
    CU_ASSERT_TRUE(memory_moves(memory)); /* it opened a page */
    CU_ASSERT_FALSE(memory_moves(memory));
    void *beside = memory_take(cache, 100);
    CU_ASSERT_FALSE(memory_moves(memory)); /* of the same page */
    memory_give(cache, small, 100);
    memory_give(cache, beside, 100);
    CU_ASSERT_FALSE(memory_moves(memory));

    uint32_t count = fill(32 * KIB, blocks, ARRAY_COUNT(blocks), false);
    for (uint32_t i = 0; i < 2; i++) {
        CU_ASSERT_TRUE(memory_moves(memory)); /* near the limit, whether anything moves or not */
    }
    /* One block of each page stays: little is used, and yet there is no page for anybody. */
    for (uint32_t i = 0; i < count; i++) {
        if (i % 64 != 0) {
            memory_give(cache, blocks[i], 32 * KIB);
        }
    }
    CU_ASSERT(stats_now().used_bytes < 8 * MIB);
    (void)memory_moves(memory);
    CU_ASSERT_TRUE(memory_moves(memory));
    for (uint32_t i = 0; i < count; i += 64) {
        memory_give(cache, blocks[i], 32 * KIB);
    }
    for (uint32_t i = 0; i < 256; i++) {
        memory_manage(memory);
        (void)memory_moves(memory);
    }
    CU_ASSERT_FALSE(memory_moves(memory));
    shut();
}

/* The management core is away from some moment on, as on a machine with too little CPU. */
static void
what_is_left_of_a_page_of_the_reserve_is_not_for_growth(void)
{
    open_with(64 * MIB, 64 * MIB, 64 * MIB);
    static void *blocks[100000];
    uint32_t count = 0, shrunk = 0;
    for (uint32_t i = 0; i < 64; i++) {
        memory_manage(memory);
    }
    while ((blocks[count] = memory_take(cache, 1000)) != NULL) {
        count++;
    }
    CU_ASSERT(count > 50000);
    uint32_t full = count;
    for (size_t bytes = 16; bytes <= MEMORY_SMALL_MAX; bytes = memory_class_bytes(bytes) + 1) {
        void *block = memory_take_reserve(cache, bytes);
        CU_ASSERT_PTR_NOT_NULL_FATAL(block);
        memcpy(block, &bytes, sizeof(bytes));
        blocks[count++] = block;
        shrunk++;
        while ((blocks[count] = memory_take(cache, bytes)) != NULL) { /* of the same slab, ... */
            memcpy(blocks[count++], &bytes, sizeof(bytes));
        }
        CU_ASSERT_PTR_NULL(memory_take(cache, 1000)); /* ... but none of another */
        CU_ASSERT_PTR_NULL(memory_take(cache, 60 * KIB));
    }
    CU_ASSERT_EQUAL(shrunk, MEMORY_SMALL_CLASSES); /* two pages of slabs, of three */
    void *moved = memory_take_move(cache, 1000);
    CU_ASSERT_PTR_NOT_NULL_FATAL(moved);
    memory_give(cache, moved, 1000);
    for (uint32_t i = 0; i < count; i++) {
        size_t bytes = 1000;
        if (i >= full) {
            memcpy(&bytes, blocks[i], sizeof(bytes));
        }
        memory_give(cache, blocks[i], bytes);
    }
    for (uint32_t i = 0; i < 20000; i++) {
        memory_trim(cache);
        memory_manage(memory);
    }
    CU_ASSERT_EQUAL(stats_now().used_bytes, 0);
    uint32_t again = fill(1000, blocks, ARRAY_COUNT(blocks), false);
    CU_ASSERT(again > full - full / 16); /* but for what magazines of other classes keep */
    for (uint32_t i = 0; i < again; i++) {
        memory_give(cache, blocks[i], 1000);
    }
    shut();
}

static void
what_one_class_gave_back_serves_another(void)
{
    open_with(64 * MIB, 64 * MIB, 8 * MIB);
    static void *blocks[1 << 20];
    static const size_t sizes[] = { 64, 5000, 200, 70000, 16, 1000000 };
    for (uint32_t s = 0; s < ARRAY_COUNT(sizes); s++) {
        uint32_t count = fill(sizes[s], blocks, ARRAY_COUNT(blocks), false);
        CU_ASSERT(count * memory_class_bytes(sizes[s]) > MIN(48 * MIB, ARRAY_COUNT(blocks) * sizes[s] / 2));
        for (uint32_t i = 0; i < count; i++) {
            memory_give(i % 2 == 0 ? cache : other, blocks[i], sizes[s]);
        }
        for (uint32_t i = 0; i < 20000; i++) { /* under pressure members give back what they keep */
            memory_trim(cache);
            memory_trim(other);
        }
        CU_ASSERT_EQUAL(stats_now().used_bytes, 0);
    }
    shut();
}

static void
pages_beyond_the_need_go_back_to_the_system_and_come_again(void)
{
    open_with(64 * MIB, 64 * MIB, 4 * MIB);
    static void *blocks[1024];
    for (uint32_t round = 0; round < 3; round++) {
        uint32_t count = fill(500000, blocks, ARRAY_COUNT(blocks), false);
        CU_ASSERT(count > 80);
        for (uint32_t i = 0; i < count; i++) {
            memory_give(cache, blocks[i], 500000);
        }
        for (uint32_t i = 0; i < 2000; i++) {
            memory_manage(memory);
        }
        CU_ASSERT(stats_now().populated_bytes <= 12 * MIB);
    }
    shut();
}

static void
a_lowered_limit_refuses_at_once_and_returns_free_pages(void)
{
    open_with(64 * MIB, 64 * MIB, 32 * MIB);
    memory_set_limit(memory, 16 * MIB);
    for (uint32_t i = 0; i < 100; i++) {
        memory_manage(memory);
    }
    CU_ASSERT(stats_now().populated_bytes <= 16 * MIB);
    static void *blocks[64];
    uint32_t count = fill(2 * MIB - 4096, blocks, ARRAY_COUNT(blocks), false);
    CU_ASSERT(count >= 4 && count <= 7);
    for (uint32_t i = 0; i < count; i++) {
        memory_give(cache, blocks[i], 2 * MIB - 4096);
    }
    shut();
}

/* With hugetlb pages where the machine has enough free (echo 32 > /proc/sys/vm/nr_hugepages), else transparent ones. */
static void
huge_pages_behave_like_others(void)
{
    struct memory_config config = {
        .reserve_bytes = 32 * MIB, .limit_bytes = 32 * MIB, .ahead_bytes = 4 * MIB, .huge_pages = true
    };
    CHECK(memory_open(&config, &memory) == 0);
    cache = memory_join(memory, 0);
    other = memory_join(memory, 1);
    static void *blocks[64];
    for (uint32_t round = 0; round < 3; round++) {
        uint32_t count = fill(1000000, blocks, ARRAY_COUNT(blocks), false);
        CU_ASSERT(count > 20);
        uint64_t huge = stats_now().huge_page_bytes;
        CU_ASSERT(huge == 0 || huge == stats_now().populated_bytes);
        for (uint32_t i = 0; i < count; i++) {
            memset(blocks[i], (int)round, 1000000);
            memory_give(cache, blocks[i], 1000000);
        }
        for (uint32_t i = 0; i < 1000; i++) {
            memory_manage(memory);
        }
        CU_ASSERT(stats_now().populated_bytes <= 12 * MIB);
    }
    shut();
}

static void
a_member_that_leaves_keeps_nothing(void)
{
    open_with(32 * MIB, 32 * MIB, 8 * MIB);
    void *blocks[3000];
    for (uint32_t i = 0; i < ARRAY_COUNT(blocks); i++) {
        blocks[i] = memory_take(cache, 48);
    }
    for (uint32_t i = 0; i < ARRAY_COUNT(blocks); i++) {
        memory_give(cache, blocks[i], 48);
    }
    memory_leave(cache);
    for (uint32_t i = 0; i < 2 * 128; i++) {
        store_relaxed(&memory->pressure, true);
        memory_manage(memory);
    }
    cache = memory_join(memory, 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(cache);
    CU_ASSERT(load_relaxed(&memory->classes[memory_class(48)].empty_spans) <= 1);
    shut();
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("memory", NULL, NULL);
    CU_ADD_TEST(suite, a_seat_is_taken_once_and_refused_beyond_the_last);
    CU_ADD_TEST(suite, a_block_beyond_the_largest_class_is_refused);
    CU_ADD_TEST(suite, classes_rise_are_multiples_of_16_and_waste_at_most_an_eighth_up_to_256_kib);
    CU_ADD_TEST(suite, blocks_of_every_class_are_aligned_and_do_not_overlap);
    CU_ADD_TEST(suite, used_bytes_are_exact_and_follow_blocks_across_members);
    CU_ADD_TEST(suite, memory_does_not_drift_from_a_member_that_takes_to_one_that_gives);
    CU_ADD_TEST(suite, without_a_populated_page_a_take_is_refused_and_the_management_core_helps);
    CU_ADD_TEST(suite, the_limit_is_a_cap_on_resident_bytes_and_the_reserve_goes_to_commands_that_shrink);
    CU_ADD_TEST(suite, the_next_millisecond_is_wanted_while_pages_come_and_go_or_the_limit_is_near);
    CU_ADD_TEST(suite, what_is_left_of_a_page_of_the_reserve_is_not_for_growth);
    CU_ADD_TEST(suite, what_one_class_gave_back_serves_another);
    CU_ADD_TEST(suite, pages_beyond_the_need_go_back_to_the_system_and_come_again);
    CU_ADD_TEST(suite, a_lowered_limit_refuses_at_once_and_returns_free_pages);
    CU_ADD_TEST(suite, huge_pages_behave_like_others);
    CU_ADD_TEST(suite, a_member_that_leaves_keeps_nothing);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
