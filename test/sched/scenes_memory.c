/* store/memory.h as it is: pages, slabs, magazines and the depot, with blocks that pass from thread to thread.
 *
 * Each thread writes what it has and reads it again before it gives it: a block that two have is a data race. At the
 * end all is given back, and as many pages can be had as at first.
 *
 *   take CLASS     a block more, if there is one
 *   flood CLASS    as many as a magazine holds and one more, then all given
 *   give CLASS     its youngest
 *   return CLASS   its oldest
 *   post CLASS     its youngest into the mailbox; what was there is its own now
 *   drain CLASS    its free blocks go home
 *   manage         the management core's turn */
#include "store/memory_layout.h"
#include "test/sched/scene_calls.h"
#include "test/sched/sched_run.h"

#define LIMIT_BYTES  (8 * MIB) /* four pages */
#define OWN          24        /* blocks of one class and thread */
#define PAGES        2         /* of `class_sizes`: whole pages */
#define SETTLE_TURNS 4         /* of the management core: find every empty slab, then every empty page */

enum { CALL_TAKE, CALL_FLOOD, CALL_GIVE, CALL_RETURN, CALL_POST, CALL_DRAIN, CALL_MANAGE, CALL_KINDS };
static const char *const call_words[CALL_KINDS] = { "take", "flood", "give", "return", "post", "drain", "manage" };

/* a: 16 in a slab, 8 in a magazine; b: two in a page; c: a page; d: three in one */
static const size_t class_sizes[] = { 4096, 1000 * KIB, 2000 * KIB, 600 * KIB };

struct memory_plan {
    const char *name;
    uint32_t preemptions, stale_loads;
    const char *before; /* by thread 0, before the others */
    const char *threads[SCHED_THREADS_MAX];
};

static struct {
    const struct memory_plan *plan;
    struct sched_scene scene;
    struct scene_calls threads[SCHED_THREADS_MAX];
    struct memory *memory;
    struct memory_cache *caches[SCHED_THREADS_MAX];
    _Atomic uintptr_t *boxes; /* one a class */
    struct owned {
        uint64_t *blocks[OWN];
        uint32_t count;
    } own[SCHED_THREADS_MAX][ARRAY_COUNT(class_sizes)], own_at_begin[ARRAY_COUNT(class_sizes)];
    uint32_t pages;
} scene;

/* ---- calls ---- */

/* While a block is lent, its page, or its slab, belongs to its class. */
static void
block_check_class(const uint64_t *block, uint32_t class)
{
    const struct memory *memory = scene.memory;
    size_t at = (size_t)((const uint8_t *)block - memory->base);
    uint32_t class_index = memory_class(class_sizes[class]);
    const struct memory_span *span = class_index < MEMORY_SMALL_CLASSES ? &memory->slabs[at >> MEMORY_SLAB_SHIFT]
                                                                        : &memory->pages[at >> MEMORY_PAGE_SHIFT].span;
    SCHED_EXPECT(span_in_class(load_relaxed(&span->word), class_index), "a block lies in a page of another class");
}

static void
block_give(uint32_t thread, uint64_t *block, uint32_t class)
{
    SCHED_EXPECT(*block == class + 1, "a block is not what its owner wrote");
    memory_give(scene.caches[thread], block, class_sizes[class]);
}

static void
take(uint32_t thread, uint32_t class)
{
    struct owned *own = &scene.own[thread][class];
    uint64_t *block = memory_take(scene.caches[thread], class_sizes[class]);
    if (block != NULL) {
        CHECK(own->count < OWN);
        block_check_class(block, class);
        *block = class + 1;
        own->blocks[own->count++] = block;
    }
}

static void
give(uint32_t thread, uint32_t class)
{
    struct owned *own = &scene.own[thread][class];
    if (own->count != 0) {
        block_give(thread, own->blocks[--own->count], class);
    }
}

static void
give_oldest(uint32_t thread, uint32_t class)
{
    struct owned *own = &scene.own[thread][class];
    if (own->count != 0) {
        block_give(thread, own->blocks[0], class);
        own->count--;
        memmove(own->blocks, own->blocks + 1, own->count * sizeof(own->blocks[0]));
    }
}

static void
post(uint32_t thread, uint32_t class)
{
    struct owned *own = &scene.own[thread][class];
    uint64_t *block = own->count != 0 ? own->blocks[--own->count] : NULL;
    block = (uint64_t *)exchange_acq_rel(&scene.boxes[class], (uintptr_t)block);
    if (block != NULL) {
        own->blocks[own->count++] = block;
    }
}

static void
call_run(uint32_t thread, const struct scene_call *call)
{
    struct owned *own = &scene.own[thread][call->letter];
    uint32_t flood = MEMORY_MAGAZINE_BYTES / (uint32_t)class_sizes[0] + 1;
    sched_trace("%s %c", call_words[call->word], 'a' + (int)call->letter);
    switch (call->word) {
    case CALL_TAKE:
        take(thread, call->letter);
        break;
    case CALL_FLOOD:
        for (uint32_t i = 0; i < flood; i++) {
            take(thread, call->letter);
        }
        for (uint32_t i = 0; i < flood; i++) {
            give(thread, call->letter);
        }
        break;
    case CALL_GIVE:
        give(thread, call->letter);
        break;
    case CALL_RETURN:
        give_oldest(thread, call->letter);
        break;
    case CALL_POST:
        post(thread, call->letter);
        break;
    case CALL_DRAIN:
        (void)memory_cache_drain(scene.caches[thread], memory_class(class_sizes[call->letter]), OWN);
        break;
    default:
        (void)memory_manage(scene.memory);
        break;
    }
    CHECK(own->count <= OWN);
}

static void
calls_run(uint32_t thread, const struct scene_calls *calls)
{
    for (uint32_t i = 0; i < calls->count; i++) {
        call_run(thread, &calls->calls[i]);
    }
}

static struct scene_calls
calls_parse(const char *text)
{
    return scene_calls_parse(text, call_words, CALL_KINDS);
}

/* ---- the scene ---- */

/* How many pages can be had when nobody has anything, some of them after the management core looked for empty ones. */
static uint32_t
pages_count(void)
{
    uint32_t count = 0;
    void *blocks[OWN];
    for (uint32_t i = 0; i < scene.scene.thread_count; i++) {
        for (uint32_t class = 0; class < MEMORY_SMALL_CLASSES; class ++) {
            (void)memory_cache_drain(scene.caches[i], class, UINT32_MAX);
        }
    }
    for (uint32_t turn = 0; turn < SETTLE_TURNS; turn++) {
        while (count < OWN && (blocks[count] = memory_take_reserve(scene.caches[0], class_sizes[PAGES])) != NULL) {
            count++;
        }
        (void)memory_manage(scene.memory);
    }
    for (uint32_t i = 0; i < count; i++) {
        memory_give(scene.caches[0], blocks[i], class_sizes[PAGES]);
    }
    (void)memory_manage(scene.memory);
    return count;
}

static void
scene_setup(void)
{
    struct memory_config config = { .reserve_bytes = LIMIT_BYTES,
                                    .limit_bytes = LIMIT_BYTES,
                                    .ahead_bytes = LIMIT_BYTES };
    CHECK(memory_open(&config, &scene.memory) == 0);
    scene.boxes = sched_map(sizeof(*scene.boxes) * ARRAY_COUNT(class_sizes));
    memset(scene.own, 0, sizeof(scene.own));
    for (uint32_t i = 0; i < scene.scene.thread_count; i++) {
        scene.caches[i] = memory_join(scene.memory, i);
        CHECK(scene.caches[i] != NULL);
        sched_quiet(&scene.caches[i]->taken_bytes, sizeof(uint64_t));
        sched_quiet(&scene.caches[i]->given_bytes, sizeof(uint64_t));
        sched_quiet(&scene.caches[i]->page_misses, sizeof(uint64_t));
    }
    scene.pages = pages_count();
    CHECK(scene.pages == LIMIT_BYTES / MEMORY_PAGE_BYTES && load_relaxed(&scene.memory->pages_used) == 0);
    struct scene_calls before = calls_parse(scene.plan->before);
    calls_run(0, &before);
    memcpy(scene.own_at_begin, scene.own[0], sizeof(scene.own_at_begin));
}

static void
scene_begin(void)
{
    memset(scene.own, 0, sizeof(scene.own));
    memcpy(scene.own[0], scene.own_at_begin, sizeof(scene.own_at_begin));
}

static void
scene_thread(uint32_t index)
{
    calls_run(index, &scene.threads[index]);
}

/* What a page counts as free is what a taker finds. */
static void
pages_check_counts(void)
{
    const struct memory *memory = scene.memory;
    for (uint32_t i = 0; i < memory->page_count; i++) {
        uint64_t word = load_acquire(&memory->pages[i].span.word);
        uint32_t bits = 0, words = word >> SPAN_CLASS_SHIFT != 0 ? (memory->pages[i].span.total + 63) / 64 : 0;
        for (uint32_t k = 0; k < words; k++) {
            bits += (uint32_t)__builtin_popcountll(load_relaxed(&memory->pages[i].free[k]));
        }
        SCHED_EXPECT(words == 0 || bits == span_free(word), "page %u counts %u free blocks, %u can be found", i,
                     span_free(word), bits);
    }
}

static void
scene_check(void)
{
    for (uint32_t class = 0; class < ARRAY_COUNT(class_sizes); class ++) {
        post(0, class);
        for (uint32_t i = 0; i < scene.scene.thread_count; i++) {
            while (scene.own[i][class].count != 0) {
                give(i, class);
            }
        }
        uint64_t *left = (uint64_t *)load_acquire(&scene.boxes[class]);
        if (left != NULL) {
            block_give(0, left, class);
        }
    }
    struct memory_stats stats;
    memory_stats(scene.memory, &stats);
    pages_check_counts();
    SCHED_EXPECT(stats.used_bytes == 0, "%zu bytes are in use when all was given back", (size_t)stats.used_bytes);
    uint32_t pages = pages_count();
    SCHED_EXPECT(pages == scene.pages, "%u pages can be had, at first it were %u", pages, scene.pages);
}

/* clang-format off */
static const struct memory_plan plans[] = {
    { "pages-take", 3, 2, NULL, { "take b, give b, take b", "take b, give b, take b" } },
    { "pages-last", 2, 1, "take b, take b, take b, take b, take b", { "give b, take b", "take b, give b", "take b" } },
    { "pages-pass", 3, 2, "take b, post b", { "take b, post b, give b", "post b, give b, take b" } },
    { "pages-unlist", 2, 2, "take b, post b", { "take b, give b", "post b, give b" } },
    { "pages-claim", 2, 1, "take b, take b, post b", { "give b", "post b, give b", "take b" } },
    { "pages-given", 2, 2, "take b", { "give b", "take b, take b" } },
    { "pages-classes", 2, 1, "take c, take c", { "give c, take b", "take b, give b", "take c" } },
    { "slabs-drain", 2, 1, "take a, take a",
      { "give a, drain a", "take a, give a, drain a", "take a, give a, drain a" } },
    { "slabs-pass", 2, 2, "take a, take a, post a",
      { "give a, drain a, take a", "post a, give a, drain a, take a" } },
    { "slabs-again", 2, 0,
      "take a, take a, take a, take a, take a, take a, take a, take a, take a, take a, take a, take a, take a, take a, "
      "take a, take a, take a, give a, drain a, give a, drain a",
      { "take a, take a, return a, drain a", "take a" } },
    { "depot", 2, 1, NULL, { "flood a, take a", "flood a, take a" } },
    { "depot-pass", 2, 1, "flood a", { "flood a, take a, post a", "take a, post a, flood a" } },
    { "sweep-lent-on", 1, 0, "take b, take c, take c", { "give b, manage, take d", "take b" } },
    { "sweep-slabs", 0, 0, "flood a, take b, take b", { "drain a, take a", "take a, drain a", "manage, manage" } },
    { "sweep-pages", 0, 0, "take b, take b, take b",
      { "give b, give b, take c", "take a, give a, drain a", "manage, manage" } },
};
/* clang-format on */

const struct sched_scene *
scene_at(uint32_t index)
{
    if (index >= ARRAY_COUNT(plans)) {
        return NULL;
    }
    uint32_t threads = 0;
    scene.plan = &plans[index];
    while (threads < SCHED_THREADS_MAX && scene.plan->threads[threads] != NULL) {
        scene.threads[threads] = calls_parse(scene.plan->threads[threads]);
        threads++;
    }
    scene.scene = (struct sched_scene){
        .name = scene.plan->name,
        .thread_count = threads,
        .setup = scene_setup,
        .begin = scene_begin,
        .thread = scene_thread,
        .check = scene_check,
        .preemptions = scene.plan->preemptions,
        .stale_loads = scene.plan->stale_loads,
    };
    return &scene.scene;
}
