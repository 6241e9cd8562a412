/* rebuild.h - one segment moves to another table: to grow, to shrink, to leave out TOMBs and ghosts.
 *
 * 1 One member claims the segment and makes the new table, every slot and link INIT.
 * 2 A group (the buckets that share keys in both tables: 1 to 8 on either side) is frozen: each slot up to and with the
 *   first EMPTY one, and null links. Nobody can change a frozen slot; readers still use it.
 * 3 Its records are copied to places that depend on the frozen chains only: INIT -> value; what is left INIT -> EMPTY.
 * 4 Its old heads become FORWARDED. Then, not before, anybody uses the new buckets.
 * 5 When all are, the new table takes its place in the directory.
 *
 * Whoever needs a frozen slot does 2 to 4 itself; all do the same steps, and each step is one CAS that only the first
 * can win: a late helper finds no INIT (test/model/rebuild.pml). Ghosts and TOMBs are left behind.
 *
 * A segment of at most 8 buckets without a record is closed: it loses its table.
 * 1 The member that claimed it announces CLOSING and freezes all chains.
 * 2 A record that came before the freezing, or a writer that meets a frozen slot, makes CLOSING the new table after
 *   all, of the same size: from there it is a rebuild like any other.
 * 3 Otherwise the member makes it CLOSED, and takes the table out of the directory; writers do that for it.
 * Nothing is FORWARDED: who still has the old table finds nothing in it, as it was when it left the directory
 * (test/model/close.pml). */
#pragma once
#include "store/store_layout.h"

#define REBUILD_GROUP_LOG2 3 /* a table grows or shrinks 8-fold at most, so a group is bounded */

/* In index_segment.next, instead of a new table: */
#define REBUILD_CLAIMED 1ull  /* it is being made */
#define REBUILD_CLOSING 15ull /* + address of the table in use, so that no other closing looks like this one */
#define REBUILD_CLOSED  14ull /* + the same */
static_assert(REBUILD_CLOSED > INDEX_LOG2_MAX, "no table is so large");

static inline uint32_t
table_log2(uint64_t table)
{
    return (uint32_t)(table & INDEX_LOG2_MASK);
}

/* The directory word of the table that follows `from`; without `first`, of none. */
static inline uint64_t
rebuild_table(uint64_t from, const struct index_bucket *first, uint32_t log2)
{
    uint64_t generation = (INDEX_GENERATION(from) + 1) & 0xffff;
    return (uint64_t)(uintptr_t)first | log2 | generation << 48;
}

enum rebuild_status { REBUILD_DONE, REBUILD_LATER };

/* Move the group of `hash`, in whose bucket of `table` the caller met a frozen slot or link. REBUILD_DONE: look again.
 * REBUILD_LATER: no memory or no room in limbo; nothing was lost. */
enum rebuild_status rebuild_help(struct store_member *member, uint64_t table, uint64_t hash);

/* Close the segment whose table `from` was claimed with CLOSING. REBUILD_DONE: it is closed, or `next` is its new
 * table.
 */
enum rebuild_status rebuild_close(struct store_member *member, uint32_t segment, uint64_t from);

/* Move the group of bucket `bucket`, if it has not moved: `from` was in the directory in this turn, `to` is its
 * successor. */
enum rebuild_status rebuild_move_group(struct store_member *member, uint32_t segment, uint64_t from, uint64_t to,
                                       uint32_t bucket);

/* ---- rebuild_lead.c ---- */

/* A chain of this segment got a bucket appended: look at it when that happens too often. */
void rebuild_notice(struct store_member *member, uint64_t table, uint32_t segment);
/* Look at the segment soon. False: forgotten, because the member has noticed too many. */
bool rebuild_wish(struct store_member *member, uint32_t segment);

/* One bounded step of examining or moving. */
void rebuild_step(struct store_member *member);
