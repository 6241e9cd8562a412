/* memory_layout.h - what the files memory*.c share: pages, slabs, classes, caches.
 *
 *   address range = pages of 2 MiB; each page belongs to one class of blocks above 4 KiB
 *   a page of class 64 KiB lends its blocks to the small classes as slabs
 *
 *   page   free blocks are bits outside the page; taking = lower the count, then claim any bit
 *   slab   free blocks are a chain through the blocks; it is always taken whole, so that there is no ABA
 *   cache  per member and small class: an array of free blocks, a slab's chain, a slab's untouched rest
 *   depot  per small class: a few chains of `batch` blocks, so that memory passes from members that give to those that
 *          take without touching slabs
 *
 * Page and slab records are never unmapped while lcores run: a stale index may be read, never trusted. */
#pragma once
#include "config/base.h"
#include "config/limits.h"
#include "config/sync.h"
#include "store/memory.h"

#define MEMORY_PAGE_SHIFT     21
#define MEMORY_PAGE_BYTES     ((size_t)1 << MEMORY_PAGE_SHIFT)
#define MEMORY_SLAB_SHIFT     16
#define MEMORY_SLAB_BYTES     ((size_t)1 << MEMORY_SLAB_SHIFT)
#define MEMORY_PAGE_SLABS     (MEMORY_PAGE_BYTES / MEMORY_SLAB_BYTES)
#define MEMORY_ALIGN          16
#define MEMORY_SMALL_MAX      4096 /* bytes: at least 16 blocks in a slab, at most 6% of it wasted at its end */
#define MEMORY_SMALL_CLASSES  48   /* 16 .. 256 by 16, then 8 per doubling */
#define MEMORY_CLASSES        103  /* 8 per doubling to 256 KiB, then 2 MiB / 7, 6 .. 1 */
#define MEMORY_SLAB_CLASS     79   /* blocks of 64 KiB */
#define MEMORY_PAGE_BLOCKS    512  /* bits; a page of the smallest large class has 455 blocks */
#define MEMORY_MAGAZINE       128  /* blocks, at most */
#define MEMORY_MAGAZINE_BYTES (32 * KIB)
#define MEMORY_DEPOT_CHAINS   16
#define MEMORY_TRIES          64 /* of a lock-free loop that may answer "not now" */
#define MEMORY_NONE           UINT32_MAX

/* A page or a slab as its class sees it. */
struct memory_span {
    /* bits 0-15 free blocks, 16-31 first free block + 1 (slabs), 32-39 class + 1 (0: none), 40 listed: it is on, or on
     * its way to, the class's stack */
    _Atomic uint64_t word;
    _Atomic uint32_t next; /* on a stack: index below, MEMORY_NONE at the end */
    uint32_t total;        /* blocks; written before the span is published in a class */
};
static_assert(sizeof(struct memory_span) == 16, "32 slab records take 512 bytes a page");

#define SPAN_FREE_MASK   0xffffull
#define SPAN_HEAD_SHIFT  16
#define SPAN_CLASS_SHIFT 32
#define SPAN_LISTED      (1ull << 40)

struct memory_page {
    _Alignas(CACHE_LINE) struct memory_span span;
    _Atomic uint32_t larger_blocks, larger_bytes; /* lent for less than they hold, and how much less */
    _Atomic bool kept;                            /* opened as one of those kept back */
    _Alignas(CACHE_LINE) _Atomic uint64_t free[MEMORY_PAGE_BLOCKS / 64]; /* 1: free; set before the count rises */
};

/* A Treiber stack of span indexes; the tag in the upper half changes with every removal. */
struct memory_stack {
    _Alignas(CACHE_LINE) _Atomic uint64_t head; /* low half: index or MEMORY_NONE */
    char *spans;
    size_t stride;
};

struct memory_class {
    struct memory_stack stack;                                         /* spans with free blocks */
    _Alignas(CACHE_LINE) _Atomic uintptr_t depot[MEMORY_DEPOT_CHAINS]; /* 0 or a chain of `batch` blocks */
    _Alignas(CACHE_LINE) _Atomic uint32_t empty_spans;                 /* wholly free: what memory_manage() looks for */
    uint32_t bytes, total, batch, magazine;
};

struct memory_magazine {
    void *chain;           /* a slab's free blocks, linked */
    uint8_t *rest, *limit; /* a new slab's blocks that nobody had yet */
    uint32_t count;
    void *blocks[MEMORY_MAGAZINE];
};

struct memory_cache {
    /* written by the owner, read by anybody */
    _Alignas(CACHE_LINE) _Atomic uint64_t taken_bytes;
    _Atomic uint64_t given_bytes, page_misses, larger_takes;
    _Alignas(CACHE_LINE) struct memory *memory;
    enum memory_refusal refusal;
    size_t refused_bytes;
    uint32_t trim_class;
    uint32_t emptying_seen, drain_left; /* round of emptying, and classes still to drain for it */
    bool joined;
    struct memory_magazine magazines[MEMORY_SMALL_CLASSES];
};

struct memory {
    /* read by all, written at boot */
    uint8_t *base;
    uint32_t page_count;
    struct memory_page *pages;
    struct memory_span *slabs;
    bool huge_tlb;

    _Alignas(CACHE_LINE) struct memory_stack free_pages; /* populated, in no class */
    _Alignas(CACHE_LINE) _Atomic uint32_t pages_used;    /* in a class; may overshoot while a taker finds out */
    _Atomic uint32_t pages_free;
    _Atomic uint32_t larger_blocks; /* lent for less than they hold: see memory_give_home() */
    /* written by the management core */
    _Alignas(CACHE_LINE) _Atomic uint32_t pages_limit; /* of pages_used, for anybody */
    _Atomic uint32_t pages_reserve;                    /* the last of them are kept for commands that shrink */
    _Atomic uint32_t pages_populated;
    _Atomic uint32_t ahead_pages;
    _Atomic uint64_t limit_bytes;
    _Atomic bool over_limit, exhausted, pressure;
    _Atomic uint32_t emptying_round, emptying_pages; /* sets of marked pages so far; pages marked now */
    _Atomic uint64_t *emptying;                      /* one bit a page: marked */
    uint32_t never_populated;                        /* pages from here on were never touched */
    uint32_t returned_count;
    uint32_t *returned; /* pages given back to the system, to be populated again first */
    uint32_t manage_turn;
    bool evicting;
    uint32_t pages_target; /* what pages_limit comes down to after the limit was lowered */
    uint64_t misses_seen;
    uint64_t moved_misses; /* memory_moves() */
    uint32_t moved_pages;
    uint32_t *held;  /* per page, of marked ones: slabs that are on no stack although listed; see memory_empty_boot.c */
    bool *page_held; /* the same of the page itself */
    uint8_t *density; /* of each page, when pages were last chosen */
    uint32_t *marked; /* indexes of marked pages */
    uint32_t marked_count;
    bool empty_futile;
    uint64_t empty_misses; /* misses when pages were last chosen */
    uint64_t emptied_pages;
    size_t range_bytes, pages_bytes, slabs_bytes, emptying_bytes;
    void *range;

    struct memory_class classes[MEMORY_CLASSES];
    struct memory_cache caches[LIMIT_MEMBERS];
};

static inline uint32_t
memory_class(size_t bytes)
{
    if (bytes <= 256) {
        return bytes == 0 ? 0 : (uint32_t)(bytes - 1) >> 4;
    }
    if (bytes <= 256 * KIB) {
        uint32_t doubling = 63 - (uint32_t)__builtin_clzll(bytes - 1); /* 8: (256, 512] */
        return 16 + (doubling - 8) * 8 + (uint32_t)((bytes - 1) >> (doubling - 3)) - 8;
    }
    uint32_t class_index = 96;
    for (size_t parts = 7; parts > 1 && bytes > MEMORY_PAGE_BYTES / parts / 16 * 16; parts--) {
        class_index++;
    }
    return class_index;
}

static inline struct memory_span *
memory_stack_span(const struct memory_stack *stack, uint32_t index)
{
    return (struct memory_span *)(stack->spans + (size_t)index * stack->stride);
}

static inline void
memory_stack_push(struct memory_stack *stack, uint32_t index)
{
    struct memory_span *span = memory_stack_span(stack, index);
    uint64_t head = load_relaxed(&stack->head), with;
    do {
        store_relaxed(&span->next, (uint32_t)head);
        with = (head & ~(uint64_t)UINT32_MAX) | index;
    } while (!cas_acq_rel(&stack->head, &head, with)); /* release: pairs with memory_stack_pop() */
}

/* MEMORY_NONE: empty, or too many others at it. */
static inline uint32_t
memory_stack_pop(struct memory_stack *stack)
{
    uint64_t head = load_acquire(&stack->head); /* pairs with memory_stack_push(): the span's next is written */
    for (int try = 0; try < MEMORY_TRIES && (uint32_t)head != MEMORY_NONE; try++) {
        uint32_t next = load_relaxed(&memory_stack_span(stack, (uint32_t)head)->next);
        uint64_t without =
            (((head >> 32) + 1) << 32) | next; /* a new tag: `next` may be stale when others were at it */
        uint32_t index = (uint32_t)head;
        if (cas_acq_rel(&stack->head, &head, without)) {
            return index;
        }
    }
    return MEMORY_NONE;
}

/* Everything at once, linked by span->next: the caller's own. */
static inline uint32_t
memory_stack_pop_all(struct memory_stack *stack)
{
    uint64_t head = load_acquire(&stack->head);
    while (!cas_acq_rel(&stack->head, &head, (((head >> 32) + 1) << 32) | MEMORY_NONE)) {
    }
    return (uint32_t)head;
}

static inline uint64_t
span_word(uint32_t free_blocks, uint32_t first, uint32_t class_index, uint64_t listed)
{
    return free_blocks | (uint64_t)first << SPAN_HEAD_SHIFT | (uint64_t)(class_index + 1) << SPAN_CLASS_SHIFT | listed;
}

static inline uint32_t
span_free(uint64_t word)
{
    return (uint32_t)(word & SPAN_FREE_MASK);
}

/* UINT32_MAX: in none. */
static inline uint32_t
span_class(uint64_t word)
{
    return (uint32_t)(word >> SPAN_CLASS_SHIFT & 0xff) - 1;
}

static inline bool
span_in_class(uint64_t word, uint32_t class_index)
{
    return ((word >> SPAN_CLASS_SHIFT) & 0xff) == class_index + 1;
}

static inline struct memory_page *
memory_page_of(const struct memory *memory, const void *block)
{
    return &memory->pages[((const uint8_t *)block - memory->base) >> MEMORY_PAGE_SHIFT];
}

static inline uint32_t
memory_slab_index(const struct memory *memory, const void *block)
{
    return (uint32_t)((size_t)((const uint8_t *)block - memory->base) >> MEMORY_SLAB_SHIFT);
}

static inline bool
memory_page_is_emptying(const struct memory *memory, uint32_t page)
{
    return (load_relaxed(&memory->emptying[page / 64]) >> page % 64 & 1) != 0;
}

/* ---- between the files ---- */

/* Every block is free, and now none can be taken: false when it is not so. The span is in no class any more. */
bool memory_span_retire(struct memory_span *span);
/* A slab, or a page, that belongs to no class any more. */
void memory_slab_free(struct memory *memory, uint32_t index);
void memory_page_free(struct memory *memory, uint32_t index);
uint64_t memory_used(const struct memory *memory);
uint64_t memory_misses(const struct memory *memory);
/* Sparse pages are being emptied, or should be: a refused taker may wait for that. */
bool memory_empty_helps(const struct memory *memory);
bool memory_empty_depot(struct memory *memory, uint32_t class_index);

/* What a block is for. */
enum memory_need {
    MEMORY_GROWTH,
    MEMORY_MOVE,   /* a copy whose original goes */
    MEMORY_SHRINK, /* and what else must work when memory is full */
    MEMORY_LARGER, /* the same, for less than it holds: no page and no slab is opened for it */
};

/* Of memory.c. `first` .. `last` are `count` linked blocks of one slab. */
void *memory_page_take(struct memory *memory, uint32_t class_index, enum memory_need need);
void memory_page_give(struct memory *memory, uint32_t class_index, void *block);
void memory_slab_give(struct memory *memory, uint32_t class_index, void *first, void *last, uint32_t count);
/* A free block of this class, as it is: neither claimed nor counted. */
void *memory_class_take(struct memory_cache *cache, uint32_t class_index, enum memory_need need);
/* Up to `budget` of a member's free blocks of one class go home; false: none is left. */
bool memory_cache_drain(struct memory_cache *cache, uint32_t class_index, uint32_t budget);
