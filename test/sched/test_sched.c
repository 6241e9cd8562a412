/* What the simulator finds in small scenes, by search and by seed, and again by the number that it gave. */
#include "test/sched/sched.h"
#include <CUnit/Basic.h>

static struct words {
    _Alignas(CACHE_LINE) _Atomic uint64_t x;
    _Alignas(CACHE_LINE) uint64_t plain;
    _Alignas(CACHE_LINE) uint64_t *_Atomic block;
} * m; /* in simulated memory */

static void
finding_setup(void)
{
    m = sched_map(sizeof(*m));
}

static void
race(uint32_t index)
{
    if (index == 0) {
        m->plain = 1;
        store_relaxed(&m->x, 1);
    } else if (load_acquire(&m->x) == 1) {
        SCHED_EXPECT(m->plain == 1, "the message is missing");
    }
}

static void
no_race(uint32_t index)
{
    if (index == 0) {
        m->plain = 1;
        store_release(&m->x, 1);
    } else if (load_acquire(&m->x) == 1) {
        SCHED_EXPECT(m->plain == 1, "the message is missing");
    }
}

/* Full fences order stores and loads; they do not synchronise. */
static void
race_beside_fences(uint32_t index)
{
    if (index == 0) {
        m->plain = 1;
        fence_seq_cst();
    } else {
        fence_seq_cst();
        (void)load_relaxed(&m->x);
        SCHED_EXPECT(m->plain <= 1, "never");
    }
}

static void
use_after_give(uint32_t index)
{
    if (index == 0) {
        uint64_t *block = sched_take(sizeof(*block));
        *block = 7;
        store_release(&m->block, block);
        sched_give(block, sizeof(*block));
    } else {
        uint64_t *block = load_acquire(&m->block);
        SCHED_EXPECT(block == NULL || *block == 7, "another number");
    }
}

static void
published_relaxed(uint32_t index)
{
    if (index == 0) {
        struct words *block = sched_take(sizeof(*block));
        store_relaxed(&block->x, 7);
        store_relaxed(&m->block, &block->plain);
    } else {
        uint64_t *plain = load_relaxed(&m->block);
        if (plain != NULL) {
            (void)load_relaxed(&CONTAINER_OF(plain, struct words, plain)->x);
        }
    }
}

static void
given_twice(uint32_t index)
{
    if (index == 0) {
        void *block = sched_take(40);
        sched_give(block, 40);
        sched_give(block, 40);
    }
}

static void
given_while_used(uint32_t index)
{
    if (index == 0) {
        uint64_t *block = sched_take(sizeof(*block));
        *block = 7;
        store_release(&m->block, block);
    } else {
        uint64_t *block = load_acquire(&m->block);
        if (block == NULL) {
            return;
        }
        if (index == 1) {
            SCHED_EXPECT(*block == 7, "another number");
            store_relaxed(&m->x, 1);
        } else if (load_acquire(&m->x) == 1) { /* the reader is done, but its read is not ordered */
            sched_give(block, sizeof(*block));
        }
    }
}

static void
beyond_the_end(uint32_t index)
{
    uint8_t *block = sched_take(20);
    block[index == 0 ? 20 : 19] = 1;
}

static void
lost_update(uint32_t index)
{
    store_relaxed(&m->x, load_relaxed(&m->x) + 1);
}

static void
lost_update_check(void)
{
    SCHED_EXPECT(load_relaxed(&m->x) == 2, "an update is lost");
}

static void
failed_assertion(uint32_t index)
{
    assert(index == 0 || load_relaxed(&m->x) == 0);
    store_relaxed(&m->x, 1);
}

static void
waits_for_ever(uint32_t index)
{
    if (index == 0) {
        sched_wait(&m->x, "a word");
    }
}

static void
no_end(uint32_t index)
{
    while (index == 0 && load_relaxed(&m->x) == 0) {
        cpu_relax();
    }
}

struct finding {
    void (*thread)(uint32_t index);
    void (*check)(void);
    uint32_t threads;
    const char *message; /* part of it; NULL: nothing is found */
};

static const struct finding findings[] = {
    { no_race, NULL, 2, NULL },
    { race, NULL, 2, "a data race" },
    { race_beside_fences, NULL, 2, "a data race" },
    { use_after_give, NULL, 2, "gave back" },
    { published_relaxed, NULL, 2, "before the first store to it" },
    { given_twice, NULL, 2, "gave back" },
    { given_while_used, NULL, 3, "a data race" },
    { beyond_the_end, NULL, 2, "beyond a block" },
    { lost_update, lost_update_check, 2, "an update is lost" },
    { failed_assertion, NULL, 2, "assertion failed" },
    { waits_for_ever, NULL, 2, "thread 1 waits for a word for ever" },
    { no_end, NULL, 2, "no end" },
};

static struct sched_scene
scene_of_finding(const struct finding *finding)
{
    return (
        struct sched_scene){ "finding", finding->threads, finding_setup, NULL, finding->thread, finding->check, 3, 2 };
}

static bool
finding_is(const struct finding *finding, const struct sched_result *result)
{
    bool right = result->failed == (finding->message != NULL) &&
                 (finding->message == NULL || strstr(result->message, finding->message) != NULL);
    if (!right) {
        fprintf(stderr, "expected %s, got %s\n", finding->message, result->failed ? result->message : "nothing");
    }
    return right;
}

static void
finds_by_search_and_again_by_its_number(void)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(findings); i++) {
        struct sched_scene scene = scene_of_finding(&findings[i]);
        struct sched_result result = sched_explore(&scene, &(struct sched_options){ .exhaustive = 100000 });
        CU_ASSERT_TRUE(finding_is(&findings[i], &result));
        if (result.failed) {
            struct sched_result again = sched_replay_exhaustive(&scene, result.number, false);
            CU_ASSERT_TRUE(result.failed_exhaustive && again.number == result.number);
            CU_ASSERT_STRING_EQUAL(again.message, result.message);
        }
    }
}

static void
finds_by_seed_and_again_by_its_number(void)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(findings); i++) {
        struct sched_scene scene = scene_of_finding(&findings[i]);
        struct sched_result result = sched_explore(&scene, &(struct sched_options){ .first_seed = 5, .random = 5000 });
        CU_ASSERT_TRUE(finding_is(&findings[i], &result));
        if (result.failed) {
            struct sched_options once = { .first_seed = result.number, .random = 1 };
            struct sched_result again = sched_explore(&scene, &once);
            CU_ASSERT_FALSE(result.failed_exhaustive);
            CU_ASSERT_STRING_EQUAL(again.message, result.message);
        }
    }
}

/* What one execution leaves in simulated memory, the next does not see. */
static void
check_fresh(void)
{
    SCHED_EXPECT(load_relaxed(&m->x) == 2 && m->plain == 1 && sched_lent_bytes() == 64, "something stayed");
}

static void
leaves_traces(uint32_t index)
{
    SCHED_EXPECT(load_relaxed(&m->x) <= 1, "something stayed");
    (void)add_relaxed(&m->x, 1);
    if (index == 0) {
        m->plain++;
    }
    (void)sched_take(20);
}

static void
every_execution_begins_alike(void)
{
    struct sched_scene scene = { "traces", 2, finding_setup, NULL, leaves_traces, check_fresh, 2, 1 };
    struct sched_result result =
        sched_explore(&scene, &(struct sched_options){ .first_seed = 1, .random = 100, .exhaustive = 100 });
    CU_ASSERT_FALSE(result.failed);
    CU_ASSERT_EQUAL(result.random, 100);
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("sched", NULL, NULL);
    CU_ADD_TEST(suite, finds_by_search_and_again_by_its_number);
    CU_ADD_TEST(suite, finds_by_seed_and_again_by_its_number);
    CU_ADD_TEST(suite, every_execution_begins_alike);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    return CU_get_number_of_failures() != 0;
}
