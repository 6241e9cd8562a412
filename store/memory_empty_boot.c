/* Which pages are emptied, and how the management core gets hold of them.
 *
 * A span that it holds is listed but on no stack: members that give a block to it see that it is listed and leave it
 * alone, members that take never meet it. It gets hold of a span with free blocks by taking it off its class's stack,
 * of one without by setting the flag itself: both cannot be anybody else's at that moment. */
#include "store/memory_layout.h"

#define EMPTY_SLACK_SHARE 4                             /* of the pages in classes that must be slack, or an */
#define EMPTY_FULL_SHARE  16                            /* at the limit */
#define EMPTY_SLACK_PAGES 8                             /* slack worth the work, whatever the share, or */
#define EMPTY_FULL_PAGES  2                             /* at the limit */
#define EMPTY_DENSE       (MEMORY_PAGE_BYTES / 4 * 3)   /* bytes in use of a page: it is left alone; */
#define EMPTY_FULL_DENSE  (MEMORY_PAGE_BYTES / 16 * 15) /* the same when pages are needed */
#define EMPTY_LEVELS      16u                           /* of density below that, sparsest first */
#define EMPTY_PAGES       512                           /* marked at a time, at most */
#define EMPTY_MISSES      256                           /* pages tried whose blocks fit nowhere */

static inline uint64_t
page_bit(uint32_t page)
{
    return 1ull << page % 64;
}

static inline struct memory_span *
slab_of(const struct memory *memory, uint32_t page, uint32_t slab)
{
    return &memory->slabs[page * MEMORY_PAGE_SLABS + slab];
}

/* Lent as a slab: its block in the page is out. */
static bool
slab_is_out(const struct memory *memory, uint32_t page, uint32_t slab)
{
    return (load_relaxed(&memory->pages[page].free[0]) >> slab & 1) == 0;
}

static bool
page_is_in_class(const struct memory *memory, uint32_t page)
{
    return load_relaxed(&memory->pages[page].span.word) >> SPAN_CLASS_SHIFT != 0;
}

/* ---- choosing ---- */

/* Blocks by class, over all pages: free ones that takers can reach, and those that must move into them. */
struct choice {
    int64_t free[MEMORY_CLASSES], moving[MEMORY_CLASSES];
    int64_t pages; /* that may still be taken */
};

static void
span_account(const struct memory *memory, const struct memory_span *span, struct choice *choice, bool moves)
{
    uint64_t word = load_relaxed(&span->word);
    uint32_t class_index = span_class(word), total = memory->classes[class_index].total;
    uint32_t free_blocks = MIN(span_free(word), total);
    choice->free[class_index] += moves ? -(int64_t)free_blocks : (int64_t)free_blocks;
    choice->moving[class_index] += moves ? (int64_t)(total - free_blocks) : 0;
}

/* `moves`: the page's free blocks are for nobody, the others must find a place; blocks that members keep are among
 * those. Returns the bytes in use. */
static uint32_t
page_account(const struct memory *memory, uint32_t page, struct choice *choice, bool moves)
{
    const struct memory_span *span = &memory->pages[page].span;
    uint64_t word = load_relaxed(&span->word);
    const struct memory_class *class = &memory->classes[span_class(word)];
    uint32_t in_use = (class->total - MIN(span_free(word), class->total)) * class->bytes;
    uint32_t larger_bytes = load_relaxed(&memory->pages[page].larger_bytes);
    span_account(memory, span, choice, moves);
    if (moves && span_class(word) != MEMORY_SLAB_CLASS) { /* who has more than he needs finds a place in his class */
        choice->moving[span_class(word)] -= load_relaxed(&memory->pages[page].larger_blocks);
    }
    for (uint32_t i = 0; span_class(word) == MEMORY_SLAB_CLASS && i < MEMORY_PAGE_SLABS; i++) {
        const struct memory_span *slab = slab_of(memory, page, i);
        uint64_t slab_word = load_relaxed(&slab->word);
        if (slab_is_out(memory, page, i) && span_class(slab_word) < MEMORY_SMALL_CLASSES) {
            class = &memory->classes[span_class(slab_word)];
            in_use -= MIN(span_free(slab_word), class->total) * class->bytes;
            span_account(memory, slab, choice, moves);
            choice->moving[MEMORY_SLAB_CLASS] -= moves; /* its blocks move, not the slab */
        }
    }
    return in_use - MIN(larger_bytes, in_use);
}

/* `full`: blocks above 4 KiB may go to free ones of larger classes. */
static bool
choice_fits(const struct memory *memory, const struct choice *choice, bool full)
{
    int64_t slabs = choice->free[MEMORY_SLAB_CLASS] - choice->moving[MEMORY_SLAB_CLASS], pages = choice->pages;
    int64_t larger = 0; /* free blocks of the large classes above */
    for (uint32_t i = MEMORY_CLASSES; i-- > 0;) {
        int64_t lacking = choice->moving[i] - choice->free[i], total = memory->classes[i].total;
        if (i >= MEMORY_SMALL_CLASSES && i != MEMORY_SLAB_CLASS) {
            int64_t lent = full ? MIN(lacking, larger) : 0; /* negative: some are left over */
            larger -= lent;
            lacking -= lent;
        }
        if (lacking > 0 && i != MEMORY_SLAB_CLASS) {
            *(i < MEMORY_SMALL_CLASSES ? &slabs : &pages) -= (lacking + total - 1) / total;
        }
    }
    pages -= slabs < 0 ? (-slabs + MEMORY_PAGE_SLABS - 1) / (int64_t)MEMORY_PAGE_SLABS : 0;
    return pages >= 0;
}

static void
page_mark(struct memory *memory, uint32_t page)
{
    assert(memory->held[page] == 0 && !memory->page_held[page]);
    memory->marked[memory->marked_count++] = page;
    or_relaxed(&memory->emptying[page / 64], page_bit(page));
}

static void
pages_grade(struct memory *memory, struct choice *choice, uint32_t dense)
{
    memset(choice, 0, sizeof(*choice));
    for (uint32_t page = 0; page < memory->never_populated; page++) {
        uint32_t density = EMPTY_LEVELS;
        if (page_is_in_class(memory, page)) {
            density = (uint32_t)((uint64_t)page_account(memory, page, choice, false) * EMPTY_LEVELS / dense);
        }
        memory->density[page] = (uint8_t)MIN(density, EMPTY_LEVELS);
    }
    uint32_t limit = load_relaxed(&memory->pages_limit) - load_relaxed(&memory->pages_reserve);
    uint32_t used = load_relaxed(&memory->pages_used);
    choice->pages = used < limit ? limit - used : 0;
}

/* Sparsest first, as long as all that is in them finds a place in the others, or in pages not yet taken. */
static void
pages_choose(struct memory *memory, bool full)
{
    struct choice choice;
    uint32_t misses = 0;
    pages_grade(memory, &choice, full ? EMPTY_FULL_DENSE : EMPTY_DENSE);
    for (uint32_t level = 0; level < EMPTY_LEVELS; level++) {
        for (uint32_t page = 0; page < memory->never_populated; page++) {
            if (memory->density[page] != level) {
                continue;
            }
            struct choice with = choice;
            (void)page_account(memory, page, &with, true);
            if (choice_fits(memory, &with, full)) {
                choice = with;
                page_mark(memory, page);
            } else {
                misses++;
            }
            if (memory->marked_count == EMPTY_PAGES || misses == EMPTY_MISSES) {
                return;
            }
        }
    }
}

/* ---- getting hold ---- */

static bool
span_hold_full(struct memory_span *span)
{
    uint64_t word = load_relaxed(&span->word);
    /* acquire and release: as every change of the word */
    return span_free(word) == 0 && (word & SPAN_LISTED) == 0 && word >> SPAN_CLASS_SHIFT != 0 &&
           cas_acq_rel(&span->word, &word, word | SPAN_LISTED);
}

/* What is on the class's stack and marked comes off it. */
static void
class_hold(struct memory *memory, uint32_t class_index)
{
    struct memory_class *class = &memory->classes[class_index];
    bool small = class_index < MEMORY_SMALL_CLASSES;
    uint32_t index = memory_stack_pop_all(&class->stack), next;
    for (; index != MEMORY_NONE; index = next) {
        next = load_relaxed(&memory_stack_span(&class->stack, index)->next);
        uint32_t page = small ? index / MEMORY_PAGE_SLABS : index;
        if (!memory_page_is_emptying(memory, page)) {
            memory_stack_push(&class->stack, index);
        } else if (small) {
            memory->held[page] |= 1u << index % MEMORY_PAGE_SLABS;
        } else {
            memory->page_held[page] = true;
        }
    }
}

static void
pages_hold(struct memory *memory)
{
    bool wanted[MEMORY_CLASSES] = { false };
    for (uint32_t i = 0; i < memory->marked_count; i++) {
        uint32_t page = memory->marked[i];
        struct memory_span *span = &memory->pages[page].span;
        memory->page_held[page] = memory->page_held[page] || span_hold_full(span);
        uint64_t word = load_relaxed(&span->word);
        if (word >> SPAN_CLASS_SHIFT == 0) {
            continue;
        }
        wanted[span_class(word)] = wanted[span_class(word)] || !memory->page_held[page];
        for (uint32_t k = 0; span_class(word) == MEMORY_SLAB_CLASS && k < MEMORY_PAGE_SLABS; k++) {
            struct memory_span *slab = slab_of(memory, page, k);
            uint32_t class_index = span_class(load_relaxed(&slab->word));
            if (!slab_is_out(memory, page, k) || class_index >= MEMORY_SMALL_CLASSES ||
                (memory->held[page] >> k & 1) != 0) {
                continue;
            }
            if (span_hold_full(slab)) {
                memory->held[page] |= 1u << k;
            } else {
                wanted[class_index] = true;
            }
        }
    }
    for (uint32_t i = 0; i < MEMORY_CLASSES; i++) {
        if (wanted[i]) {
            class_hold(memory, i);
        }
    }
}

/* ---- giving up hold ---- */

static void
span_release(struct memory_stack *stack, uint32_t index)
{
    struct memory_span *span = memory_stack_span(stack, index);
    uint64_t word = load_acquire(&span->word);
    while (span_free(word) == 0) {
        if (cas_acq_rel(&span->word, &word, word & ~SPAN_LISTED)) {
            return; /* the next to give a block lists it */
        }
    }
    memory_stack_push(stack, index);
}

static void
page_release(struct memory *memory, uint32_t page)
{
    for (uint32_t k = 0; k < MEMORY_PAGE_SLABS; k++) {
        if ((memory->held[page] >> k & 1) != 0) {
            uint32_t class_index = span_class(load_relaxed(&slab_of(memory, page, k)->word));
            span_release(&memory->classes[class_index].stack, page * MEMORY_PAGE_SLABS + k);
        }
    }
    if (memory->page_held[page]) {
        uint32_t class_index = span_class(load_relaxed(&memory->pages[page].span.word));
        span_release(&memory->classes[class_index].stack, page);
    }
    memory->held[page] = 0;
    memory->page_held[page] = false;
}

/* ---- emptied ---- */

/* Held slabs that are wholly free go back to the page; then, perhaps, the page. */
static bool
page_is_emptied(struct memory *memory, uint32_t page)
{
    struct memory_span *span = &memory->pages[page].span;
    uint32_t class_index = span_class(load_relaxed(&span->word));
    for (uint32_t k = 0; k < MEMORY_PAGE_SLABS && memory->held[page] != 0; k++) {
        struct memory_span *slab = slab_of(memory, page, k);
        uint32_t small = span_class(load_relaxed(&slab->word));
        if ((memory->held[page] >> k & 1) != 0 && memory_span_retire(slab)) {
            memory->held[page] &= ~(1u << k);
            sub_relaxed(&memory->classes[small].empty_spans, 1);
            memory_slab_free(memory, page * MEMORY_PAGE_SLABS + k);
        }
    }
    if (!memory->page_held[page] || !memory_span_retire(span)) {
        return false;
    }
    memory->page_held[page] = false;
    sub_relaxed(&memory->classes[class_index].empty_spans, 1);
    return true;
}

static void
page_unmark(struct memory *memory, uint32_t page)
{
    and_relaxed(&memory->emptying[page / 64], ~page_bit(page));
}

uint32_t
memory_empty_step(struct memory *memory)
{
    if (memory->marked_count == 0) {
        return 0;
    }
    pages_hold(memory);
    uint32_t left = 0;
    for (uint32_t i = 0; i < memory->marked_count; i++) {
        uint32_t page = memory->marked[i];
        /* In no class: it was free when it was marked, or another sweep found it so. */
        if (!page_is_in_class(memory, page)) {
            page_unmark(memory, page);
        } else if (page_is_emptied(memory, page)) {
            page_unmark(memory, page);
            memory_page_free(memory, page);
            memory->emptied_pages++;
        } else {
            memory->marked[left++] = page;
        }
    }
    memory->marked_count = left;
    store_relaxed(&memory->emptying_pages, left);
    return left;
}

void
memory_empty_end(struct memory *memory, bool futile)
{
    for (uint32_t i = 0; i < memory->marked_count; i++) {
        page_unmark(memory, memory->marked[i]);
        page_release(memory, memory->marked[i]);
    }
    memory->marked_count = 0;
    memory->empty_futile = futile;
    store_relaxed(&memory->emptying_pages, 0);
}

static bool
slack_is_worth_it(const struct memory_stats *stats, bool full)
{
    uint64_t share = (stats->used_bytes + stats->slack_bytes) / (full ? EMPTY_FULL_SHARE : EMPTY_SLACK_SHARE);
    uint64_t least = (uint64_t)(full ? EMPTY_FULL_PAGES : EMPTY_SLACK_PAGES) << MEMORY_PAGE_SHIFT;
    return stats->slack_bytes >= MAX(share, least);
}

bool
memory_empty_helps(const struct memory *memory)
{
    struct memory_stats stats;
    memory_stats(memory, &stats);
    return memory->marked_count != 0 || (!memory->empty_futile && slack_is_worth_it(&stats, true));
}

uint32_t
memory_empty_begin(struct memory *memory)
{
    struct memory_stats stats;
    memory_stats(memory, &stats);
    uint64_t misses = memory_misses(memory);
    bool lowered = load_relaxed(&memory->pages_limit) > memory->pages_target;
    bool needed = lowered || (load_relaxed(&memory->pressure) && misses != memory->empty_misses);
    memory->empty_misses = misses;
    if (memory->marked_count != 0 || !slack_is_worth_it(&stats, needed)) {
        return 0;
    }
    pages_choose(memory, needed);
    if (memory->marked_count != 0) {
        store_relaxed(&memory->emptying_pages, memory->marked_count);
        pages_hold(memory);
        for (uint32_t i = 0; i < MEMORY_SMALL_CLASSES; i++) {
            (void)memory_empty_depot(memory, i);
        }
        add_relaxed(&memory->emptying_round, 1); /* members drain what they keep */
    }
    memory->empty_futile = memory->marked_count == 0;
    return memory->marked_count;
}
