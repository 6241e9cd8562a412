/* The management core's side of memory: everything that makes a system call. */
#include "store/memory_layout.h"
#include "store/memory_poison.h"
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define OPEN_PAGES          8   /* populated at once: the program must be ready in a tenth of a second */
#define MANAGE_PAGES_A_CALL 4   /* populated at most: 4 x 4 ms when never touched before */
#define BOOT_PAGES          4u  /* a page never used before takes 4 ms */
#define MANAGE_GIVE_TURNS   16  /* one page back to the system every so many calls */
#define MANAGE_SWEEP_TURNS  128 /* calls between looks for wholly free spans when memory is plenty */
/* Pages kept for commands that shrink: one for the largest copy, one for small ones and ghosts, one for tables of a
 * rebuild. Members that find them taken wait for each other: see memory.h. */
#define RESERVE_LEAST       3u
#define RESERVE_SHARE       16 /* of the limit, */
#define RESERVE_MOST        32u
#define EXCESS_MARGIN       32  /* eviction begins this share of the cap below it */
#define EXCESS_SHARE        256 /* share of the cap that goes in a call when pages are short, */
#define EXCESS_PATIENCE     16  /* and so much less while emptying may bring some */
#define NEAR_LIMIT          8   /* this share of the cap below it things can change within a millisecond */
#define META_BYTES_A_PAGE   (sizeof(struct memory_page) + MEMORY_PAGE_SLABS * sizeof(struct memory_span))

static uint64_t memory_populate(struct memory *memory, uint32_t most);

static void *
range_map(size_t bytes, int flags)
{
    void *range = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return range == MAP_FAILED ? NULL : range;
}

/* The address range, aligned to pages: hugetlb when the kernel can promise all of it. */
static int
memory_map(struct memory *memory, bool huge_pages)
{
    size_t bytes = (size_t)memory->page_count << MEMORY_PAGE_SHIFT;
    if (huge_pages) {
        memory->range_bytes = bytes;
        /* of this size: with kernel pages of 64 KiB, or if told so at boot, the default one is another */
        memory->range = range_map(bytes, MAP_HUGETLB | MEMORY_PAGE_SHIFT << MAP_HUGE_SHIFT);
        memory->huge_tlb = memory->range != NULL;
    }
    if (memory->range == NULL) {
        memory->range_bytes = bytes + MEMORY_PAGE_BYTES;
        memory->range = range_map(memory->range_bytes, MAP_NORESERVE);
    }
    if (memory->range == NULL) {
        return -errno;
    }
    memory->base = (uint8_t *)ALIGN_UP((uintptr_t)memory->range, MEMORY_PAGE_BYTES);
    if (!memory->huge_tlb) {
        /* A wish: small pages work. Where those have 64 KiB, a transparent huge one has 512 MiB. */
        bool transparent = huge_pages && sysconf(_SC_PAGESIZE) == 4096;
        (void)madvise(memory->base, bytes, transparent ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    }
    CHECK((uintptr_t)memory->base + bytes < 1ull << 48); /* slots of the index hold 48-bit addresses */
    return 0;
}

static int
memory_map_records(struct memory *memory)
{
    memory->pages_bytes = memory->page_count * sizeof(struct memory_page);
    memory->slabs_bytes = memory->page_count * MEMORY_PAGE_SLABS * sizeof(struct memory_span);
    memory->pages = range_map(memory->pages_bytes, MAP_NORESERVE);
    memory->slabs = range_map(memory->slabs_bytes, MAP_NORESERVE);
    memory->emptying_bytes = ALIGN_UP(memory->page_count, 64) / 8;
    memory->emptying = range_map(memory->emptying_bytes, MAP_POPULATE); /* lcores read it */
    memory->returned = calloc(memory->page_count, sizeof(uint32_t));
    memory->held = calloc(memory->page_count, sizeof(uint32_t));
    memory->page_held = calloc(memory->page_count, sizeof(bool));
    memory->density = calloc(memory->page_count, sizeof(uint8_t));
    memory->marked = calloc(memory->page_count, sizeof(uint32_t));
    bool all = memory->pages != NULL && memory->slabs != NULL && memory->emptying != NULL && memory->returned != NULL &&
               memory->held != NULL && memory->page_held != NULL && memory->density != NULL && memory->marked != NULL;
    return all ? 0 : -ENOMEM;
}

static void
memory_init_classes(struct memory *memory)
{
    uint32_t index = 0;
    for (size_t bytes = 1; index < MEMORY_CLASSES; index++) {
        struct memory_class *class = &memory->classes[index];
        bool small = index < MEMORY_SMALL_CLASSES;
        class->bytes = (uint32_t)memory_class_bytes(bytes);
        CHECK(memory_class(bytes) == index && memory_class(class->bytes) == index);
        class->total = (uint32_t)((small ? MEMORY_SLAB_BYTES : MEMORY_PAGE_BYTES) / class->bytes);
        class->magazine = (uint32_t)MIN(MEMORY_MAGAZINE_BYTES / class->bytes, (uint64_t)MEMORY_MAGAZINE);
        class->batch = class->magazine / 2;
        store_relaxed(&class->stack.head, (uint64_t)MEMORY_NONE);
        class->stack.spans = small ? (char *)memory->slabs : (char *)memory->pages;
        class->stack.stride = small ? sizeof(struct memory_span) : sizeof(struct memory_page);
        bytes = class->bytes + 1;
    }
    CHECK(memory->classes[MEMORY_SLAB_CLASS].bytes == MEMORY_SLAB_BYTES);
    store_relaxed(&memory->free_pages.head, (uint64_t)MEMORY_NONE);
    memory->free_pages.spans = (char *)memory->pages;
    memory->free_pages.stride = sizeof(struct memory_page);
}

int
memory_open(const struct memory_config *config, struct memory **out)
{
    struct memory *memory = range_map(sizeof(*memory), 0);
    if (memory == NULL) {
        return -ENOMEM;
    }
    memory->page_count = (uint32_t)MIN(MAX(config->reserve_bytes >> MEMORY_PAGE_SHIFT, 4ull), (uint64_t)INT32_MAX);
    int rc = memory_map(memory, config->huge_pages);
    if (rc == 0) {
        rc = memory_map_records(memory);
    }
    if (rc != 0) {
        memory_close(memory);
        return rc;
    }
    memory_init_classes(memory);
    store_relaxed(&memory->ahead_pages, (uint32_t)MIN(config->ahead_bytes >> MEMORY_PAGE_SHIFT, memory->page_count));
    memory_set_limit(memory, config->limit_bytes);
    uint32_t want = MIN(MIN(load_relaxed(&memory->ahead_pages), load_relaxed(&memory->pages_limit)), OPEN_PAGES);
    if (memory_populate(memory, want) < (uint64_t)want << MEMORY_PAGE_SHIFT) {
        memory_close(memory);
        return -ENOMEM;
    }
    *out = memory;
    return 0;
}

void
memory_close(struct memory *memory)
{
    if (memory->base != NULL) {
        memory_unpoison(memory->base, (size_t)memory->page_count << MEMORY_PAGE_SHIFT);
    }
    if (memory->range != NULL) {
        munmap(memory->range, memory->range_bytes);
    }
    if (memory->pages != NULL) {
        munmap(memory->pages, memory->pages_bytes);
    }
    if (memory->slabs != NULL) {
        munmap(memory->slabs, memory->slabs_bytes);
    }
    if (memory->emptying != NULL) {
        munmap((void *)memory->emptying, memory->emptying_bytes);
    }
    free(memory->returned);
    free(memory->held);
    free(memory->page_held);
    free(memory->density);
    free(memory->marked);
    munmap(memory, sizeof(*memory));
}

struct memory_cache *
memory_join(struct memory *memory, uint32_t index)
{
    if (index >= LIMIT_MEMBERS || memory->caches[index].joined) {
        return NULL;
    }
    struct memory_cache *cache = &memory->caches[index];
    memset(cache->magazines, 0, sizeof(cache->magazines)); /* touched here, not while serving */
    cache->memory = memory;
    cache->joined = true;
    return cache;
}

void
memory_leave(struct memory_cache *cache)
{
    for (uint32_t class_index = 0; class_index < MEMORY_SMALL_CLASSES; class_index++) {
        while (memory_cache_drain(cache, class_index, MEMORY_TRIES)) {
        }
    }
    cache->joined = false;
}

/* After the limit was lowered it follows the pages in use down, the reserve above them: nothing else may grow, and
 * commands that shrink still work. */
static void
limit_follow(struct memory *memory)
{
    uint32_t limit = load_relaxed(&memory->pages_limit);
    uint32_t least = load_relaxed(&memory->pages_used) + load_relaxed(&memory->pages_reserve);
    store_relaxed(&memory->pages_limit, MAX(memory->pages_target, MIN(limit, least)));
}

void
memory_set_limit(struct memory *memory, uint64_t limit_bytes)
{
    uint64_t pages = limit_bytes / (MEMORY_PAGE_BYTES + META_BYTES_A_PAGE);
    uint32_t limit = (uint32_t)MIN(MAX(pages, 4ull), memory->page_count);
    store_relaxed(&memory->limit_bytes, limit_bytes);
    store_relaxed(&memory->pages_reserve, MIN(MAX(limit / RESERVE_SHARE, RESERVE_LEAST), RESERVE_MOST));
    memory->pages_target = limit;
    store_relaxed(&memory->pages_limit, MAX(limit, load_relaxed(&memory->pages_limit)));
    limit_follow(memory);
}

/* ---- spans that became wholly free ---- */

bool
memory_span_retire(struct memory_span *span)
{
    uint64_t word = load_acquire(&span->word);
    /* all blocks at once, by the same word that takers and givers change: none can be out, none can be taken */
    return span_free(word) == span->total && cas_acq_rel(&span->word, &word, 0);
}

void
memory_page_free(struct memory *memory, uint32_t index)
{
    memory_stack_push(&memory->free_pages, index);
    add_relaxed(&memory->pages_free, 1);
    sub_relaxed(&memory->pages_used, 1);
}

void
memory_slab_free(struct memory *memory, uint32_t index)
{
    uint8_t *slab = memory->base + ((size_t)index << MEMORY_SLAB_SHIFT);
    memory_poison(slab, MEMORY_SLAB_BYTES); /* its blocks were linked */
    memory_page_give(memory, MEMORY_SLAB_CLASS, slab);
}

/* Takers meanwhile find the class's stack empty and open a new span: seldom, and only a few. */
static void
class_sweep(struct memory *memory, uint32_t class_index, uint32_t keep)
{
    struct memory_class *class = &memory->classes[class_index];
    uint32_t index = memory_stack_pop_all(&class->stack), next;
    for (; index != MEMORY_NONE; index = next) {
        struct memory_span *span = memory_stack_span(&class->stack, index);
        next = load_relaxed(&span->next);
        if ((int32_t)load_relaxed(&class->empty_spans) <= (int32_t)keep || !memory_span_retire(span)) {
            memory_stack_push(&class->stack, index);
            continue;
        }
        sub_relaxed(&class->empty_spans, 1);
        if (class_index < MEMORY_SMALL_CLASSES) {
            memory_slab_free(memory, index);
        } else {
            memory_page_free(memory, index);
        }
    }
}

/* The depot's chains go home, so that their slabs can become wholly free. */
bool
memory_empty_depot(struct memory *memory, uint32_t class_index)
{
    bool found = false;
    for (uint32_t i = 0; i < MEMORY_DEPOT_CHAINS; i++) {
        void *block = (void *)exchange_acq_rel(&memory->classes[class_index].depot[i], (uintptr_t)0);
        found = found || block != NULL;
        while (block != NULL) {
            void *next = memory_linked(block);
            memory_slab_give(memory, class_index, block, block, 1);
            block = next;
        }
    }
    return found;
}

/* True: something was found, and a taker that was refused meanwhile may find it too. */
static bool
memory_sweep(struct memory *memory, bool pressure)
{
    uint32_t keep = pressure ? 0 : 1;
    bool found = false;
    for (uint32_t i = 0; i < MEMORY_CLASSES; i++) {
        if (pressure && i < MEMORY_SMALL_CLASSES) {
            found = memory_empty_depot(memory, i) || found;
        }
        if ((int32_t)load_relaxed(&memory->classes[i].empty_spans) > (int32_t)keep) {
            /* A class's stack looks empty while it is swept: whoever is refused then is told to wait. */
            store_relaxed(&memory->exhausted, false);
            class_sweep(memory, i, keep);
            found = true;
        }
    }
    return found;
}

/* ---- pages between the system and the lcores ---- */

static bool
page_populate(struct memory *memory, uint32_t index)
{
    uint8_t *page = memory->base + ((size_t)index << MEMORY_PAGE_SHIFT);
    if (madvise(page, MEMORY_PAGE_BYTES, MADV_POPULATE_WRITE) != 0) {
        if (errno != EINVAL || memory->huge_tlb) {
            return false; /* no memory: tried again at the next call */
        }
        for (size_t at = 0; at < MEMORY_PAGE_BYTES;
             at += 4096) { /* a kernel before 5.14; nobody else has the page yet */
            memset(page + at, 0, 1);
        }
    }
    memory_poison(page, MEMORY_PAGE_BYTES);
    /* its records too, so that no lcore is the first to touch them */
    struct memory_page *record = &memory->pages[index];
    store_relaxed(&record->span.word, 0);
    for (uint32_t i = 0; i < MEMORY_PAGE_SLABS; i++) {
        store_relaxed(&memory->slabs[index * MEMORY_PAGE_SLABS + i].word, 0);
    }
    memory_stack_push(&memory->free_pages, index);
    add_relaxed(&memory->pages_free, 1);
    counter_add(&memory->pages_populated, 1);
    return true;
}

static bool
page_return(struct memory *memory)
{
    uint32_t index = memory_stack_pop(&memory->free_pages);
    if (index == MEMORY_NONE) {
        return false;
    }
    sub_relaxed(&memory->pages_free, 1);
    uint8_t *page = memory->base + ((size_t)index << MEMORY_PAGE_SHIFT);
    memory_unpoison(page, MEMORY_PAGE_BYTES);
    if (madvise(page, MEMORY_PAGE_BYTES, MADV_DONTNEED) != 0) { /* hugetlb before 5.18: keep it */
        memory_stack_push(&memory->free_pages, index);
        add_relaxed(&memory->pages_free, 1);
        return false;
    }
    memory->returned[memory->returned_count++] = index;
    store_relaxed(&memory->pages_populated, load_relaxed(&memory->pages_populated) - 1);
    return true;
}

static uint64_t
memory_populate(struct memory *memory, uint32_t most)
{
    uint32_t ahead = load_relaxed(&memory->ahead_pages), limit = load_relaxed(&memory->pages_limit), done = 0;
    while (done < most && load_relaxed(&memory->pages_free) < ahead && load_relaxed(&memory->pages_populated) < limit) {
        bool again = memory->returned_count != 0;
        if (!again && memory->never_populated == memory->page_count) {
            break;
        }
        uint32_t index = again ? memory->returned[memory->returned_count - 1] : memory->never_populated;
        if (!page_populate(memory, index)) {
            break;
        }
        if (again) {
            memory->returned_count--;
        } else {
            memory->never_populated++;
        }
        done++;
    }
    return (uint64_t)done << MEMORY_PAGE_SHIFT;
}

uint64_t
memory_used(const struct memory *memory)
{
    uint64_t used = 0;
    for (uint32_t i = 0; i < LIMIT_MEMBERS; i++) {
        used += load_relaxed(&memory->caches[i].taken_bytes) - load_relaxed(&memory->caches[i].given_bytes);
    }
    return (int64_t)used < 0 ? 0 : used; /* counters of several threads, read one after the other */
}

uint64_t
memory_taken(const struct memory *memory)
{
    uint64_t taken = 0;
    for (uint32_t i = 0; i < LIMIT_MEMBERS; i++) {
        taken += load_relaxed(&memory->caches[i].taken_bytes);
    }
    return taken;
}

uint64_t
memory_misses(const struct memory *memory)
{
    uint64_t misses = 0;
    for (uint32_t i = 0; i < LIMIT_MEMBERS; i++) {
        misses += load_relaxed(&memory->caches[i].page_misses);
    }
    return misses;
}

static uint64_t
memory_larger_takes(const struct memory *memory)
{
    uint64_t takes = 0;
    for (uint32_t i = 0; i < LIMIT_MEMBERS; i++) {
        takes += load_relaxed(&memory->caches[i].larger_takes);
    }
    return takes;
}

/* What may be used of the limit by commands that grow. */
static uint64_t
memory_cap(const struct memory *memory)
{
    return (uint64_t)(memory->pages_target - load_relaxed(&memory->pages_reserve)) << MEMORY_PAGE_SHIFT;
}

static bool
memory_is_full(const struct memory *memory)
{
    return load_relaxed(&memory->pages_used) + load_relaxed(&memory->pages_reserve) >=
           load_relaxed(&memory->pages_limit);
}

void
memory_set_evicting(struct memory *memory, bool evicting)
{
    memory->evicting = evicting;
}

uint64_t
memory_excess(struct memory *memory, uint64_t leaving_bytes)
{
    uint64_t cap = memory_cap(memory), used = memory_used(memory), misses = memory_misses(memory);
    uint64_t mark = cap - cap / EXCESS_MARGIN, share = cap / EXCESS_SHARE;
    uint64_t staying = used > leaving_bytes ? used - leaving_bytes : 0;
    bool lowered = load_relaxed(&memory->pages_limit) > memory->pages_target;
    bool missed = misses != memory->misses_seen && memory_is_full(memory);
    memory->misses_seen = misses;
    if (staying > mark) {
        return staying - mark;
    }
    if (leaving_bytes >= share || !(missed || lowered)) {
        return 0;
    }
    /* Emptying takes a while, and free blocks of the pages it has marked are out of reach: who waits gets some of his
     * own class meanwhile. */
    return !memory_empty_helps(memory) ? share : missed ? share / EXCESS_PATIENCE : 0;
}

uint64_t
memory_manage(struct memory *memory)
{
    limit_follow(memory);
    bool full = memory_is_full(memory);
    bool low = load_relaxed(&memory->pages_free) * 2 < load_relaxed(&memory->ahead_pages);
    uint32_t turn = memory->manage_turn++;

    store_relaxed(&memory->pressure, full);
    bool found = false;
    if (full || low || turn % MANAGE_SWEEP_TURNS == 0) {
        found = memory_sweep(memory, full);
    }
    /* At the limit, and nothing became free in a whole turn of the management core: tell writers not to wait. */
    store_relaxed(&memory->exhausted, full && !found && !memory->evicting && !memory_empty_helps(memory));
    store_relaxed(&memory->over_limit, !memory->evicting && memory_used(memory) >= memory_cap(memory));

    uint64_t populated = memory_populate(memory, MANAGE_PAGES_A_CALL);
    uint32_t free_pages = load_relaxed(&memory->pages_free), ahead = load_relaxed(&memory->ahead_pages);
    uint32_t limit = load_relaxed(&memory->pages_limit), many = MANAGE_PAGES_A_CALL;
    bool far = load_relaxed(&memory->pages_populated) > limit || free_pages > 4 * ahead;
    if (far || (free_pages > 2 * ahead && turn % MANAGE_GIVE_TURNS == 0)) {
        for (uint32_t i = 0; i < (far ? many : 1) && (far || i == 0) && page_return(memory); i++) {
            far = load_relaxed(&memory->pages_populated) > limit || load_relaxed(&memory->pages_free) > 4 * ahead;
        }
    }
    return populated;
}

bool
memory_moves(struct memory *memory)
{
    uint32_t free_pages = load_relaxed(&memory->pages_free);
    uint64_t misses = memory_misses(memory), cap = memory_cap(memory);
    bool moves = free_pages != memory->moved_pages || misses != memory->moved_misses;

    memory->moved_pages = free_pages;
    memory->moved_misses = misses;
    return moves || memory_is_full(memory) || memory_used(memory) >= cap - cap / NEAR_LIMIT;
}

void
memory_stats(const struct memory *memory, struct memory_stats *out)
{
    uint64_t used_pages = load_relaxed(&memory->pages_used);
    *out = (struct memory_stats){
        .reserve_bytes = (uint64_t)memory->page_count << MEMORY_PAGE_SHIFT,
        .limit_bytes = load_relaxed(&memory->limit_bytes),
        .populated_bytes = (uint64_t)load_relaxed(&memory->pages_populated) << MEMORY_PAGE_SHIFT,
        .free_page_bytes = (uint64_t)load_relaxed(&memory->pages_free) << MEMORY_PAGE_SHIFT,
        .used_bytes = memory_used(memory),
        .page_misses = memory_misses(memory),
        .huge_page_bytes = memory->huge_tlb ? (uint64_t)load_relaxed(&memory->pages_populated) << MEMORY_PAGE_SHIFT : 0,
        .kept_bytes = (uint64_t)load_relaxed(&memory->pages_reserve) << MEMORY_PAGE_SHIFT,
        .meta_bytes = (uint64_t)memory->never_populated * META_BYTES_A_PAGE,
        .emptying_pages = load_relaxed(&memory->emptying_pages),
        .emptied_pages = memory->emptied_pages,
        .larger_takes = memory_larger_takes(memory),
        .larger_blocks = load_relaxed(&memory->larger_blocks),
    };
    uint64_t in_classes = used_pages << MEMORY_PAGE_SHIFT;
    out->slack_bytes = in_classes > out->used_bytes ? in_classes - out->used_bytes : 0;
}
