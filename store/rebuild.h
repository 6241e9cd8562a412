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
 * can win: a late helper finds no INIT (test/model/rebuild.pml). Ghosts and TOMBs are left behind. */
#pragma once
#include "store/store_layout.h"

#define REBUILD_CLAIMED    1ull /* in index_segment.next: the new table is being made */
#define REBUILD_GROUP_LOG2 3    /* a table grows or shrinks 8-fold at most, so a group is bounded */

static inline uint32_t
table_log2(uint64_t table)
{
    return (uint32_t)(table & INDEX_LOG2_MASK);
}

enum rebuild_status { REBUILD_DONE, REBUILD_LATER };

/* Move the group of `hash`, in whose bucket of `table` the caller met a frozen slot or link. REBUILD_DONE: look again.
 * REBUILD_LATER: no memory or no room in limbo; nothing was lost. */
enum rebuild_status rebuild_help(struct store_member *member, uint64_t table, uint64_t hash);

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
