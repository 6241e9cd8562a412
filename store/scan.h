/* scan.h - a walk over every key, step by step, with a cursor that is all there is to remember.
 *
 *   order of the keys: | segment (top bits of the hash) | low 16 bits of the hash, reversed |
 *
 * A key's place in this order is a function of its hash alone. A table of 2^n buckets cuts its segment's part of the
 * order into 2^n equal pieces, whatever n is, so growing, shrinking and clearing move no key across a cursor: it is the
 * first place not yet looked at. Hence the guarantee: a key that is there during the whole walk is met at least once.
 * It is met twice only if it went and came back under the eyes of one step. */
#pragma once
#include "store/store.h"

#define SCAN_PLACE_BITS 16 /* a bucket, 9 bits at most, and finer: a chain too long for the room is given in parts */
#define SCAN_ROOM_LEAST 64

struct scan_step {
    uint64_t next;  /* the cursor of the next step; 0: that was the last */
    uint32_t count; /* records met */
};

/* One step from `cursor`, 0 at first: the live records of one bucket, or, where no segment has a table, nothing. Any
 * number is safe; one that is beyond every place ends the walk.
 * `room` is at least SCAN_ROOM_LEAST records: fewer have 38 bits of a secret hash in common.
 * Lifetime of the records: as of store_find()'s. Threads: any member. Cost: one chain, or a look at 256 rows. */
struct scan_step scan_next(struct store_member *member, uint64_t cursor, const struct record **records, uint32_t room);

/* The cursor at the place of a key with this hash: to begin at random. */
uint64_t scan_cursor(const struct store *store, uint64_t hash);
