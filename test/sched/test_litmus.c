/* Litmus tests: which outcomes does the simulator's memory allow?
 *
 * An outcome is the registers as decimal digits, r[0] first. The search must see exactly the wanted ones. */
#include "test/sched/sched.h"
#include <CUnit/Basic.h>

#define REGISTERS     4
#define OUTCOMES_MOST 16

static struct words {
    _Alignas(CACHE_LINE) _Atomic uint64_t x;
    _Alignas(CACHE_LINE) _Atomic uint64_t y;
} * m; /* in simulated memory */

static uint64_t r[REGISTERS];
static uint32_t seen[OUTCOMES_MOST], seen_count;

static void
litmus_setup(void)
{
    m = sched_map(sizeof(*m));
}

static void
litmus_begin(void)
{
    memset(r, 0, sizeof(r));
}

static void
litmus_check(void)
{
    uint32_t outcome = 0;
    for (uint32_t i = 0; i < REGISTERS; i++) {
        outcome = outcome * 10 + (uint32_t)r[i];
    }
    for (uint32_t i = 0; i < seen_count; i++) {
        if (seen[i] == outcome) {
            return;
        }
    }
    CHECK(seen_count < OUTCOMES_MOST);
    seen[seen_count++] = outcome;
}

/* ---- store buffering: may both loads miss the other's store? ---- */

static void
buffering(uint32_t index, void (*between)(void))
{
    if (index == 0) {
        store_relaxed(&m->x, 1);
        between();
        r[0] = load_relaxed(&m->y);
    } else {
        store_relaxed(&m->y, 1);
        between();
        r[1] = load_relaxed(&m->x);
    }
}

static void
nothing(void)
{
}

static void
full_fence(void)
{
    fence_seq_cst();
}

static void
release_and_acquire_fence(void)
{
    fence_release();
    fence_acquire();
}

static void
sb_relaxed(uint32_t index)
{
    buffering(index, nothing);
}

static void
sb_weak_fences(uint32_t index)
{
    buffering(index, release_and_acquire_fence);
}

static void
sb_full_fences(uint32_t index)
{
    buffering(index, full_fence);
}

/* Arm's STLR and LDAR keep their order, STLR and LDAPR do not: nobody may lean on it. */
static void
sb_release_acquire(uint32_t index)
{
    if (index == 0) {
        store_release(&m->x, 1);
        r[0] = load_acquire(&m->y);
    } else {
        store_release(&m->y, 1);
        r[1] = load_acquire(&m->x);
    }
}

/* A locked instruction is a full fence on x86, Arm's CASAL is one when it succeeds, C11's acq_rel is none. */
static void
sb_exchange(uint32_t index)
{
    if (index == 0) {
        (void)exchange_acq_rel(&m->x, 1);
        r[0] = load_acquire(&m->y);
    } else {
        (void)exchange_acq_rel(&m->y, 1);
        r[1] = load_acquire(&m->x);
    }
}

static void
sb_one_full_fence(uint32_t index)
{
    buffering(index, index == 0 ? full_fence : nothing);
}

/* ---- message passing: may the flag be seen and the message not? ---- */

static void
mp_relaxed(uint32_t index)
{
    if (index == 0) {
        store_relaxed(&m->x, 1);
        store_relaxed(&m->y, 1);
    } else {
        r[0] = load_relaxed(&m->y);
        r[1] = load_relaxed(&m->x);
    }
}

static void
mp_release_acquire(uint32_t index)
{
    if (index == 0) {
        store_relaxed(&m->x, 1);
        store_release(&m->y, 1);
    } else {
        r[0] = load_acquire(&m->y);
        r[1] = load_relaxed(&m->x);
    }
}

static void
mp_release_only(uint32_t index)
{
    if (index == 0) {
        store_relaxed(&m->x, 1);
        store_release(&m->y, 1);
    } else {
        r[0] = load_relaxed(&m->y);
        r[1] = load_relaxed(&m->x);
    }
}

static void
mp_acquire_only(uint32_t index)
{
    if (index == 0) {
        store_relaxed(&m->x, 1);
        store_relaxed(&m->y, 1);
    } else {
        r[0] = load_acquire(&m->y);
        r[1] = load_relaxed(&m->x);
    }
}

static void
mp_fences(uint32_t index)
{
    if (index == 0) {
        store_relaxed(&m->x, 1);
        fence_release();
        store_relaxed(&m->y, 1);
    } else {
        r[0] = load_relaxed(&m->y);
        fence_acquire();
        r[1] = load_relaxed(&m->x);
    }
}

static void
mp_fences_misplaced(uint32_t index)
{
    if (index == 0) {
        fence_release();
        store_relaxed(&m->x, 1);
        store_relaxed(&m->y, 1);
    } else {
        fence_acquire();
        r[0] = load_relaxed(&m->y);
        r[1] = load_relaxed(&m->x);
    }
}

/* The message goes with the first store to y; another thread's addition to it passes it on, a store does not. */
static void
mp_through_addition(uint32_t index)
{
    if (index == 0) {
        store_relaxed(&m->x, 1);
        store_release(&m->y, 1);
    } else if (index == 1) {
        (void)add_relaxed(&m->y, 1);
    } else {
        r[0] = load_acquire(&m->y) == 2;
        r[1] = load_relaxed(&m->x);
    }
}

static void
mp_through_store(uint32_t index)
{
    if (index == 0) {
        store_relaxed(&m->x, 1);
        store_release(&m->y, 1);
        store_relaxed(&m->y, 2);
    } else {
        r[0] = load_acquire(&m->y);
        r[1] = load_relaxed(&m->x);
    }
}

/* ---- three and four threads ---- */

/* Who saw the message passes it on. */
static void
causality(uint32_t index, bool ordered)
{
    if (index == 0) {
        store_relaxed(&m->x, 1);
    } else if (index == 1) {
        r[0] = load_relaxed(&m->x);
        if (ordered) {
            fence_acquire();
            store_release(&m->y, 1);
        } else {
            store_relaxed(&m->y, 1);
        }
    } else {
        r[1] = load_acquire(&m->y);
        r[2] = load_relaxed(&m->x);
    }
}

static void
wrc_relaxed(uint32_t index)
{
    causality(index, false);
}

static void
wrc_ordered(uint32_t index)
{
    causality(index, true);
}

/* May two readers see two stores in opposite orders? */
static void
independent(uint32_t index, void (*between)(void))
{
    switch (index) {
    case 0:
        store_release(&m->x, 1);
        break;
    case 1:
        store_release(&m->y, 1);
        break;
    case 2:
        r[0] = load_acquire(&m->x);
        between();
        r[1] = load_acquire(&m->y);
        break;
    default:
        r[2] = load_acquire(&m->y);
        between();
        r[3] = load_acquire(&m->x);
        break;
    }
}

static void
iriw_acquire(uint32_t index)
{
    independent(index, nothing);
}

static void
iriw_full_fences(uint32_t index)
{
    independent(index, full_fence);
}

/* ---- one location ---- */

static void
coherence(uint32_t index)
{
    if (index == 0) {
        store_relaxed(&m->x, 1);
        store_relaxed(&m->x, 2);
    } else {
        r[0] = load_relaxed(&m->x);
        r[1] = load_relaxed(&m->x);
    }
}

/* A read that happens before another one: through a second thread. */
static void
coherence_passed_on(uint32_t index)
{
    if (index == 0) {
        store_relaxed(&m->x, 1);
    } else if (index == 1) {
        r[0] = load_relaxed(&m->x);
        store_release(&m->y, 1);
    } else {
        r[1] = load_acquire(&m->y);
        r[2] = load_relaxed(&m->x);
    }
}

static void
additions(uint32_t index)
{
    r[index] = add_relaxed(&m->x, 1);
}

static void
exchanges(uint32_t index)
{
    uint64_t none = 0;
    r[index] = cas_acq_rel(&m->x, &none, index + 1);
}

/* ---- the cycle counter ---- */

static void
clock_orders(uint32_t index, void (*after_store)(void))
{
    static uint64_t read_at;
    if (index == 0) {
        read_at = UINT64_MAX;
        store_relaxed(&m->x, 1);
        after_store();
        read_at = cycles_now_ordered();
    } else {
        r[0] = cycles_now_ordered() > read_at;
        r[1] = load_relaxed(&m->x);
    }
}

static void
clock_after_fence(uint32_t index)
{
    clock_orders(index, full_fence);
}

static void
clock_after_nothing(uint32_t index)
{
    clock_orders(index, nothing);
}

/* ---- limits, as sched.h states them ---- */

static void
load_buffering(uint32_t index)
{
    if (index == 0) {
        r[0] = load_relaxed(&m->x);
        store_relaxed(&m->y, 1);
    } else {
        r[1] = load_relaxed(&m->y);
        store_relaxed(&m->x, 1);
    }
}

struct litmus {
    const char *name;
    uint32_t threads;
    void (*thread)(uint32_t index);
    uint32_t wanted[OUTCOMES_MOST], wanted_count;
};

#define WANTED(...) { __VA_ARGS__ }, sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t)

/* clang-format off */
static const struct litmus litmus_tests[] = {
    { "SB relaxed", 2, sb_relaxed, WANTED(0, 100, 1000, 1100) },
    { "SB release and acquire fences", 2, sb_weak_fences, WANTED(0, 100, 1000, 1100) },
    { "SB release and acquire", 2, sb_release_acquire, WANTED(0, 100, 1000, 1100) },
    { "SB exchanges", 2, sb_exchange, WANTED(0, 100, 1000, 1100) },
    { "SB one full fence", 2, sb_one_full_fence, WANTED(0, 100, 1000, 1100) },
    { "SB full fences", 2, sb_full_fences, WANTED(100, 1000, 1100) },
    { "MP relaxed", 2, mp_relaxed, WANTED(0, 100, 1000, 1100) },
    { "MP release only", 2, mp_release_only, WANTED(0, 100, 1000, 1100) },
    { "MP acquire only", 2, mp_acquire_only, WANTED(0, 100, 1000, 1100) },
    { "MP release and acquire", 2, mp_release_acquire, WANTED(0, 100, 1100) },
    { "MP fences", 2, mp_fences, WANTED(0, 100, 1100) },
    { "MP fences on the wrong side", 2, mp_fences_misplaced, WANTED(0, 100, 1000, 1100) },
    { "MP through an addition", 3, mp_through_addition, WANTED(0, 100, 1100) },
    { "MP through a later relaxed store", 2, mp_through_store, WANTED(0, 100, 1100, 2000, 2100) },
    { "WRC relaxed", 3, wrc_relaxed, WANTED(0, 10, 100, 110, 1000, 1010, 1100, 1110) },
    { "WRC fence and release", 3, wrc_ordered, WANTED(0, 10, 100, 110, 1000, 1010, 1110) },
    { "IRIW acquire", 4, iriw_acquire,
      WANTED(0, 1, 10, 11, 100, 101, 110, 111, 1000, 1001, 1010, 1011, 1100, 1101, 1110, 1111) },
    { "IRIW full fences", 4, iriw_full_fences,
      WANTED(0, 1, 10, 11, 100, 101, 110, 111, 1000, 1001, 1011, 1100, 1101, 1110, 1111) },
    { "CoRR", 2, coherence, WANTED(0, 100, 200, 1100, 1200, 2200) },
    { "CoRR passed on", 3, coherence_passed_on, WANTED(0, 10, 100, 110, 1000, 1010, 1110) },
    { "two additions", 2, additions, WANTED(100, 1000) },
    { "two exchanges", 2, exchanges, WANTED(100, 1000) },
    { "the clock after a full fence", 2, clock_after_fence, WANTED(0, 100, 1100) },
    { "the clock without a fence", 2, clock_after_nothing, WANTED(0, 100, 1000, 1100) },
    { "LB is not seen", 2, load_buffering, WANTED(0, 100, 1000) },
};
/* clang-format on */

static bool
outcome_in(uint32_t outcome, const uint32_t *outcomes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (outcomes[i] == outcome) {
            return true;
        }
    }
    return false;
}

static void
sees_exactly_the_outcomes_that_memory_allows(void)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(litmus_tests); i++) {
        const struct litmus *litmus = &litmus_tests[i];
        struct sched_scene scene = {
            litmus->name, litmus->threads, litmus_setup, litmus_begin, litmus->thread, litmus_check, 4, 4
        };
        seen_count = 0;
        struct sched_result result = sched_explore(&scene, &(struct sched_options){ .exhaustive = 1000000 });
        CU_ASSERT_FALSE(result.failed);
        CU_ASSERT_TRUE(result.complete);
        for (uint32_t j = 0; j < seen_count; j++) {
            if (!outcome_in(seen[j], litmus->wanted, litmus->wanted_count)) {
                fprintf(stderr, "%s: saw %04u\n", litmus->name, seen[j]);
                CU_FAIL("an outcome that must not be");
            }
        }
        for (uint32_t j = 0; j < litmus->wanted_count; j++) {
            if (!outcome_in(litmus->wanted[j], seen, seen_count)) {
                fprintf(stderr, "%s: did not see %04u\n", litmus->name, litmus->wanted[j]);
                CU_FAIL("an outcome that must be");
            }
        }
    }
}

/* Seeds find no other outcome, and all of them. */
static void
seeds_see_the_same_outcomes(void)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(litmus_tests); i++) {
        const struct litmus *litmus = &litmus_tests[i];
        struct sched_scene scene = {
            litmus->name, litmus->threads, litmus_setup, litmus_begin, litmus->thread, litmus_check, 0, 0
        };
        seen_count = 0;
        (void)sched_explore(&scene, &(struct sched_options){ .first_seed = 1, .random = 20000 });
        CU_ASSERT_EQUAL(seen_count, litmus->wanted_count);
        for (uint32_t j = 0; j < seen_count; j++) {
            CU_ASSERT_TRUE(outcome_in(seen[j], litmus->wanted, litmus->wanted_count));
        }
    }
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("litmus", NULL, NULL);
    CU_ADD_TEST(suite, sees_exactly_the_outcomes_that_memory_allows);
    CU_ADD_TEST(suite, seeds_see_the_same_outcomes);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    return CU_get_number_of_failures() != 0;
}
