/* sweep.h - removing what is gone already: expired records, flushed records, ghosts above their bound.
 *
 * Reads never delete. Members share one cursor over the index and take 64 segments at a time; each call does a few
 * buckets. A flush is swept when every member has quiesced since its cut, so that no late write is missed. */
#pragma once
#include "store/store_layout.h"

/* One bounded step. */
void sweep_step(struct store_member *member);
#define SWEEP_AWAKE_MS 2 /* an idle member stays awake for so long after the last dead key */

/* A cut was made: look for records below it. */
void sweep_flushed(struct store *store);

/* Management core: decides whether there is anything to sweep for. */
void sweep_manage(struct store *store, const struct store_stats *stats);
