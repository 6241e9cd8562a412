/* store_layout.h - the store and its members, as the files of this folder see them. */
#pragma once
#include "store/cut.h"
#include "store/index.h"
#include "store/memory.h"
#include "store/qsbr.h"
#include "store/store.h"

#define STORE_UPDATE_TRIES 64  /* of one command in one turn; then the session parks */
#define STORE_GHOST_KEY    256 /* bytes: a longer key leaves a TOMB, so that ghosts stay small */
#define STORE_SECRET_BYTES 192 /* of XXH3 */
#define STORE_NAME_BYTES   32
#define REBUILD_WISHES     32 /* segments a member has noticed and not yet looked at */

/* One writer, the member; anybody reads. Differences may be negative in one member: only the sum counts. */
struct member_counters {
    /* Records stamped above `cut` that this member added, less those it removed; they start again with every cut. */
    _Alignas(CACHE_LINE) _Atomic uint64_t cut;
    _Atomic uint64_t keys, keys_with_expiry;
    _Atomic uint64_t hits, misses;
    _Atomic uint64_t record_bytes, ghost_bytes, index_bytes, ghosts;
    _Alignas(CACHE_LINE) _Atomic uint64_t expired_keys, flushes, update_retries, try_laters, oom_refusals;
    _Atomic uint64_t rebuilds, chain_buckets_max, evicted_keys;
    _Alignas(CACHE_LINE) _Atomic uint64_t touches; /* uses that changed a recency byte */
    _Atomic uint64_t moved_records;                /* out of pages that are being emptied */
};

/* The rebuild this member leads, in steps. See rebuild.h. */
struct member_rebuild {
    enum { REBUILD_IDLE, REBUILD_EXAMINE, REBUILD_MOVE } state;
    uint32_t segment;
    uint32_t bucket;       /* next to look at, or to move */
    uint32_t live, others; /* slots met: records; ghosts and TOMBs */
    uint64_t table;        /* the old one */
    bool again;            /* the new one is a step only */
    bool relocate;         /* buckets lie in pages that are being emptied */
    uint32_t wishes[REBUILD_WISHES];
    uint32_t wish_head, wish_tail;
};

/* Where a member stands in a walk over all segments, which members share row by row. */
struct index_hand {
    bool active; /* `segment` is being walked */
    bool flush;  /* the row was taken in a round that a flush needs */
    uint32_t row;
    uint64_t segments; /* of it still to do, as in index_row() */
    uint32_t segment, bucket;
};

/* The part of the index this member sweeps, in steps. See sweep.h. */
struct member_sweep {
    struct index_hand hand;
    bool flush, move;
    uint64_t table;               /* of the segment, since its first bucket was looked at */
    bool relocate;                /* buckets of this segment lie in pages that are being emptied */
    bool missed;                  /* flushed records of this segment were under other hands */
    uint32_t live, ghosts, tombs; /* met in this segment */
    uint32_t waited;              /* calls spent waiting for a rebuild of this segment, and rounds begun again */
    uint32_t mortal, dead;        /* slots with an expiry looked at lately, and those of them that had expired */
    bool hungry;                  /* so many were dead that it is worth more of the turn */
    size_t moved_bytes;           /* in this call */
    int64_t dead_ms;              /* when it last found an expired key */
    int64_t budget_ms;            /* the millisecond that `budget` belongs to */
    uint32_t budget;              /* buckets left in it */
};

/* See evict.h. */
struct member_evict {
    struct index_hand hand;
    uint32_t random;
};

struct store_evict {
    _Alignas(CACHE_LINE) _Atomic uint8_t mark; /* what a record used now is marked with */
    _Atomic uint8_t clock, policy;
    _Alignas(CACHE_LINE) _Atomic int64_t wanted; /* bytes to unlink; members take shares */
    _Atomic uint64_t next;                       /* rows of the index handed out, free running */
    /* the management core's */
    uint64_t touches_seen, taken_seen, clock_ms;
};

struct store_member {
    _Alignas(CACHE_LINE) struct store *store;
    struct memory_cache *cache;
    uint32_t seat;
    uint8_t recency; /* what a record read now is marked with; EVICT_MARK_LFU: count it */
    uint8_t fresh;   /* what a new record is marked with */
    bool joined;
    int64_t now_ms;
    size_t shrink_bytes; /* inside a change: a record up to this size may use the reserve */
    int64_t larger_ms;   /* when it last looked for a block of a larger class */
    struct limbo limbo;
    struct member_rebuild rebuild;
    struct member_sweep sweep;
    struct member_evict evict;
    char name[STORE_NAME_BYTES];
    struct member_counters counters;
};

struct store {
    /* written at boot, read by all */
    _Alignas(CACHE_LINE) struct index index;
    struct memory *memory;
    uint32_t member_count;
    store_published_fn published;
    void *published_context;
    _Alignas(CACHE_LINE) uint8_t secret[STORE_SECRET_BYTES];

    struct cut cut;
    struct stamp_clock clock;
    struct qsbr qsbr;
    struct store_evict evict;

    _Alignas(CACHE_LINE) _Atomic uint64_t sweep_next;  /* rows of the index handed out, free running */
    _Alignas(CACHE_LINE) _Atomic uint64_t flush_epoch; /* sweeping for the last cut starts after this epoch; 0: none */
    _Atomic uint64_t flush_until;                      /* sweep_next up to which flushed records are looked for */
    /* written by the management core */
    _Atomic bool sweep_expired, sweep_ghosts, sweep_tables, sweep_move;
    _Atomic uint64_t ghost_line; /* a ghost with a stamp below it is old */
    _Atomic int32_t stalled_member;
    _Atomic uint64_t stalled_ms;
    uint64_t epoch_at_ms, stats_at_ms;
    uint64_t ghost_line_next, ghost_line_ms;
    uint64_t move_until, move_since_ms, move_walked_ms, move_not_before_ms; /* see store_empty_pages() */
    uint32_t move_marked, move_futile;                                      /* rounds in a row that freed little */

    struct store_member members[LIMIT_MEMBERS];
};

/* Command time is the same for a burst. Redis' rule: at its very millisecond a key still lives. */
static inline bool
record_expired(const struct record *record, int64_t now_ms)
{
    return (record->type_flags & RECORD_HAS_EXPIRY) != 0 && now_ms > record_expires_at_ms(record);
}

/* Bytes of a record or an index block that this member added or removed: may fall below 0 in one member. */
static inline void
counter_move(_Atomic uint64_t *counter, int64_t by)
{
    store_relaxed(counter, load_relaxed(counter) + (uint64_t)by);
}

/* Count a record that came (+1) or went (-1) under the cut that its write was checked against. */
static inline void
member_count_key(struct store_member *member, uint64_t cut, int64_t keys, int64_t with_expiry)
{
    struct member_counters *counters = &member->counters;
    if (UNLIKELY(load_relaxed(&counters->cut) != cut)) {
        store_relaxed(&counters->keys, 0);
        store_relaxed(&counters->keys_with_expiry, 0);
        store_release(&counters->cut, cut); /* pairs with the acquire in store_keys(): the zeros are seen with it */
    }
    counter_move(&counters->keys, keys);
    counter_move(&counters->keys_with_expiry, with_expiry);
}

/* Unlinked by this member, which has room in its limbo. */
static inline void
member_retire_record(struct store_member *member, const struct record *record)
{
    size_t class_bytes = limbo_retire(&member->limbo, (void *)(uintptr_t)record, record_bytes(record));
    counter_move(&member->counters.record_bytes, -(int64_t)class_bytes);
}

/* As member_retire_record(). */
static inline void
member_retire_ghost(struct store_member *member, const struct record *ghost)
{
    size_t class_bytes = limbo_retire(&member->limbo, (void *)(uintptr_t)ghost, record_bytes(ghost));
    counter_move(&member->counters.ghosts, -1);
    counter_move(&member->counters.ghost_bytes, -(int64_t)class_bytes);
}

static inline void
member_published(struct store_member *member, struct slice key, uint64_t stamp, const struct record *record)
{
    struct store *store = member->store;
    if (UNLIKELY(store->published != NULL)) {
        store->published(store->published_context, key, stamp, record);
    }
}

/* ---- store.c ---- */

/* After a take was refused, for what had to be from the reserve: once a millisecond, so that a flood of writes waits
 * for what it has in limbo, and larger blocks are there for larger records. */
void *member_take_larger(struct store_member *member, size_t align);

/* ---- index.c ---- */

/* Give the segment of `hash` its first table. False: no memory. */
bool index_first_table(struct store_member *member, uint64_t hash);
/* A bucket whose slots and link are `fill`, or NULL. `awaited`: a write of a key that is there cannot go on without. */
struct index_bucket *index_bucket_take(struct store_member *member, uint64_t slot_fill, uint64_t link_fill,
                                       bool awaited);
/* A table of 1 << log2 such buckets, or NULL. */
struct index_bucket *index_table_take(struct store_member *member, uint32_t log2, uint64_t slot_fill,
                                      uint64_t link_fill, bool awaited);
/* Never published: nobody else knows it. */
void index_blocks_give(struct store_member *member, struct index_bucket *first, uint32_t buckets);
void index_blocks_retire(struct store_member *member, struct index_bucket *first, uint32_t buckets);
