/* sweep.h - removing what is gone already: expired and flushed records, old ghosts, tables in which nothing is.
 *
 * Reads never delete. Members share one cursor over the index and take 64 segments at a time; each call does a few
 * buckets. A flush is swept when every member has quiesced since its cut, so that no late write is missed. */
#pragma once
#include "store/store_layout.h"

/* The next segment with a table: of the hand's own 64, or of the next that the shared cursor hands out. False: none
 * within a bounded look. */
bool sweep_hand_next(struct store *store, struct index_hand *hand, _Atomic uint64_t *cursor);

/* A record that no command removes leaves its slot: `word` in `slot` becomes a TOMB with a new stamp, and the record is
 * unlinked. The member has room in its limbo. */
enum sweep_burial {
    SWEEP_STAYS,   /* somebody else changed the slot, or the moment is a cut's */
    SWEEP_REMOVED, /* and is no longer counted */
    SWEEP_FLUSHED, /* it was below the cut: removed already */
};
enum sweep_burial sweep_bury(struct store_member *member, _Atomic uint64_t *slot, uint64_t word);

/* One bounded step. */
void sweep_step(struct store_member *member);
#define SWEEP_AWAKE_MS 2 /* an idle member stays awake for so long after the last dead key */

/* A cut was made: look for records below it. */
void sweep_flushed(struct store *store);

/* The member leaves: the part of a flush that it has taken is swept by others. */
void sweep_leave(struct store_member *member);

/* Management core: decides whether there is anything to sweep for. */
void sweep_manage(struct store *store, const struct store_stats *stats, uint64_t now_ms);
