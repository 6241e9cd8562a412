/* memory.h - the appliance's memory: one address range reserved at boot, pages populated ahead by the management core,
 * size-class slabs, a magazine per member and class, a depot between members.
 *
 * An lcore never takes a page fault here and never waits: memory_take() answers NULL when no populated page is at hand
 * or the limit is reached, and the caller parks or refuses. */
#pragma once
#include "config/base.h"

struct memory;
struct memory_cache; /* of one member: only its thread takes and gives through it */

struct memory_config {
    uint64_t reserve_bytes; /* address range; not touched */
    uint64_t limit_bytes;   /* live: memory_set_limit() */
    uint64_t ahead_bytes;   /* populated pages kept ready: the low-water mark */
    bool huge_pages;        /* hugetlb when enough are free for the whole range, else transparent */
};

/* 0, or -errno logged by the caller. A few pages of ahead_bytes are populated before it returns, enough to serve at
 * once; memory_manage() brings the rest, so that a cold start does not wait for it. */
int memory_open(const struct memory_config *config, struct memory **out);
void memory_close(struct memory *memory);

/* The cache of member `index`, its counters touched; NULL: taken. Boot of a member; the member's own thread. */
struct memory_cache *memory_join(struct memory *memory, uint32_t index);
/* Every free block it kept goes back to its slab. */
void memory_leave(struct memory_cache *cache);

/* 16-byte aligned, a power of two up to 64 KiB to its own size; `bytes` up to MEMORY_BLOCK_MAX. Not zeroed. NULL: no
 * populated page (try next turn) or at the limit. Lcore-safe: no system call, no lock, bounded. A block may be given by
 * another member than took it. */
#define MEMORY_BLOCK_MAX (2 * 1024 * 1024 - 4096)
void *memory_take(struct memory_cache *cache, size_t bytes);
void memory_give(struct memory_cache *cache, void *block, size_t bytes);
/* As memory_give(), for a block that may be larger than its size says, or lie in a page that is being emptied: it goes
 * past the member's magazine, to where it belongs. memory_gives_home(): whether there is such a block. */
void memory_give_home(struct memory_cache *cache, void *block, size_t bytes);
bool memory_gives_home(const struct memory_cache *cache);

/* ---- when memory is full ----
 *
 * What must work then: commands that shrink, and rebuilding the index. They find, in this order, a free block of their
 * class, a page of those kept back, a free block of a larger class. Why there is one:
 *
 * 1 Who grows opens no page kept back, takes nothing of one while it is out, and is refused while as much is in use as
 *   the limit allows without the reserve (memory_over_limit()). Who shrinks gives back, once limbo has passed, no less
 *   than he took. So what is not in use is always as much as the reserve, but for ghosts, expiries and index blocks,
 *   bounded per key: free pages, or free blocks of open ones.
 * 2 He gives back a block of the class that he took, or of a larger one, up to his old record's. So for records up to
 *   that size no shrinking makes free blocks fewer, and a page kept back that was opened for a class once serves it,
 *   and all below it, from then on. A larger record's block may be lent to a smaller one meanwhile: only when nothing
 *   between them is free, seldom (member_take_larger()), and not for longer than until 3 or the next write.
 * 3 A record for which all free blocks are too small needs a page. Two pages' worth of free blocks are emptied into
 *   pages, of which the reserve has three at least: what lies in sparse pages moves, also up into larger classes. What
 *   cannot move, blocks of sessions, is bounded by what they may have.
 *
 * How long 3 takes is not bounded: while records of more large classes than pages are kept want one at a time, they
 * wait for each other, and whoever waits gives up (RETRY_MS of the dataplane). */

/* As memory_take(), also from the pages kept back. */
void *memory_take_reserve(struct memory_cache *cache, size_t bytes);
/* When that was refused: a free block of the next larger class that has one, its address a multiple of `align` (a power
 * of two). It counts as what was asked for, and the rest of it as slack. Goes back by memory_give_home(). Cost: a look
 * at each class. */
void *memory_take_larger(struct memory_cache *cache, size_t bytes, size_t align);
/* As memory_take(), for a copy whose original goes: slabs of pages kept back too; above 4 KiB a larger block, which
 * goes back by memory_give_home(). */
void *memory_take_move(struct memory_cache *cache, size_t bytes);

/* Why the cache's last take answered NULL. MEMORY_AT_LIMIT only after the management core found nothing to free, and
 * never of a take from the reserve. */
enum memory_refusal { MEMORY_NO_PAGE, MEMORY_AT_LIMIT };
enum memory_refusal memory_refusal(const struct memory_cache *cache);
/* What it was asked for, if that was from the reserve; else 0. */
size_t memory_refused_bytes(const struct memory_cache *cache);

/* What a block of `bytes` really occupies. */
size_t memory_class_bytes(size_t bytes);

/* At or above the limit: commands flagged DENYOOM are refused. One relaxed load; as fresh as the last memory_manage().
 * The cap itself does not depend on it: no page beyond the limit is ever taken. */
bool memory_over_limit(const struct memory *memory);
void memory_set_limit(struct memory *memory, uint64_t limit_bytes);
/* Whether somebody removes records to make room: then nobody is refused for good, and memory is never over its limit.
 * Management core. */
void memory_set_evicting(struct memory *memory, bool evicting);
/* Bytes in use, less `leaving` which are in limbo, above the mark where eviction begins, a 32nd below the cap; below
 * it, a small share while pages are wanted: takes find none, or the limit was lowered and emptying does not bring them.
 * Management core, once a memory_manage(). */
uint64_t memory_excess(struct memory *memory, uint64_t leaving_bytes);
/* All bytes ever taken, class size. */
uint64_t memory_taken(const struct memory *memory);

/* ---- emptying sparse pages: memory_empty_boot.c ----
 *
 * The management core marks some pages: nothing is taken from them any more, members give back what they keep of them,
 * and whoever owns a block in one moves it. Pages that are wholly free then serve any class, or go to the system. */

/* The block's page is marked. Any thread; one relaxed load when none is. */
bool memory_is_emptying(const struct memory *memory, const void *block);

/* Management core. Mark pages whose blocks fit elsewhere, when so much of memory is slack that it is worth the work.
 * Returns how many. */
uint32_t memory_empty_begin(struct memory *memory);
/* Take what is free by now. Returns how many pages are still marked. */
uint32_t memory_empty_step(struct memory *memory);
/* Unmark what is left. `futile`: little came of it; until a round begins that is not so, nobody waits for another. */
void memory_empty_end(struct memory *memory, bool futile);

/* One bounded step of giving a member's free blocks back to their slabs; does nothing unless memory is short. */
void memory_trim(struct memory_cache *cache);

/* Management core: populate up to the low-water mark; give back what is over it. Returns the bytes populated now. May
 * take milliseconds. */
uint64_t memory_manage(struct memory *memory);
/* Management core, after it: whether it is wanted again within a millisecond, because free pages come or go or memory
 * nears its limit. Else a few hundredths of a second do: the low-water mark is there for that. */
bool memory_moves(struct memory *memory);

struct memory_stats {
    uint64_t reserve_bytes, limit_bytes;
    uint64_t populated_bytes; /* resident */
    uint64_t free_page_bytes; /* populated, in no slab */
    uint64_t used_bytes;      /* in blocks handed out, class size */
    uint64_t slack_bytes;     /* free blocks inside slab pages and magazines, and what blocks and pages have too much */
    uint64_t page_misses;     /* memory_take() that found no populated page */
    uint64_t huge_page_bytes; /* hugetlb */
    uint64_t kept_bytes;      /* of limit_bytes: for commands that shrink */
    uint64_t meta_bytes;      /* page and slab records of the pages ever populated */
    uint64_t emptying_pages;  /* sparse pages whose blocks are being moved elsewhere, */
    uint64_t emptied_pages;   /* and those that were emptied so */
    uint64_t larger_takes;    /* blocks lent for less than they hold, as memory_take_larger() does; */
    uint64_t larger_blocks;   /* those that are out now */
};
void memory_stats(const struct memory *memory, struct memory_stats *out);
