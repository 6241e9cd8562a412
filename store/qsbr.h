/* qsbr.h - when may a block that readers could still hold be reused? When every member has reported since.
 *
 *   unlink a block -> limbo_retire() -> sealed into a batch with a new epoch -> every member that is not offline
 *   reports that epoch or a later one -> limbo_reclaim() gives the block back
 *
 * A member reports once a turn, when it holds nothing borrowed. */
#pragma once
#include "config/base.h"
#include "config/limits.h"
#include "config/sync.h"
#include "store/memory.h"

#define LIMBO_BLOCKS        32768 /* of a member; a power of two */
#define LIMBO_BATCHES       512
#define LIMBO_SEAL_BLOCKS   64 /* a batch is sealed when so large, or so old: */
#define LIMBO_SEAL_TURNS    16
#define LIMBO_MARGIN_BLOCKS 1024 /* kept for what must go on above the soft limit */

#define QSBR_OFFLINE 0ull

struct qsbr_seat {
    _Alignas(CACHE_LINE) _Atomic uint64_t seen; /* written by the member: last epoch reported, or QSBR_OFFLINE */
    uint64_t watched_seen, watched_since_ms;    /* of qsbr_watch() only */
};

struct qsbr {
    _Alignas(CACHE_LINE) _Atomic uint64_t epoch; /* changes once a batch */
    _Alignas(CACHE_LINE) _Atomic uint64_t safe;  /* every member reported it, or was offline; only rises */
    _Alignas(CACHE_LINE) uint32_t seat_count;
    _Atomic uint64_t soft_bytes; /* of each limbo; written by the management core */
    struct qsbr_seat seats[LIMIT_MEMBERS];
};

/* What one member unlinked. Touched by its thread only, but for the counters. */
struct limbo {
    struct qsbr *qsbr;
    struct memory_cache *cache;
    uint32_t seat, turns, scan_turns;
    uint64_t reported;
    uint32_t head, sealed, tail; /* free running; entries head..sealed are in batches, sealed..tail in none yet */
    uint32_t batch_head, batch_tail;
    _Atomic uint64_t bytes; /* class size of head..tail; one writer */
    uint64_t *entries;      /* address / 16 above 20 bits of size / 16 */
    struct limbo_batch {
        uint64_t epoch;
        uint32_t end;
    } batches[LIMBO_BATCHES];
};

void qsbr_init(struct qsbr *qsbr, uint32_t seat_count);

/* Holds nothing borrowed from before. One release store when the epoch moved. Seals a batch when it is due. */
void qsbr_quiesce(struct limbo *limbo);
void qsbr_offline(struct limbo *limbo);
void qsbr_online(struct limbo *limbo);

/* A new epoch: the value that everybody must report before what was unlinked until now is unreachable. Any thread. */
uint64_t qsbr_advance(struct qsbr *qsbr);
/* Has everybody? Looks at every seat when the answer is not known. */
bool qsbr_passed(struct qsbr *qsbr, uint64_t epoch);

/* `block` was unlinked by this member; it must have room. Returns what it occupies: memory_class_bytes(). */
size_t limbo_retire(struct limbo *limbo, void *block, size_t bytes);

enum limbo_room {
    LIMBO_ROOM,
    LIMBO_SOFT, /* writers park */
    LIMBO_HARD, /* nothing more may be retired */
};
static inline enum limbo_room
limbo_room(const struct limbo *limbo)
{
    uint32_t blocks = limbo->tail - limbo->head;
    uint64_t bytes = load_relaxed(&limbo->bytes), soft_bytes = load_relaxed(&limbo->qsbr->soft_bytes);
    if (blocks >= LIMBO_BLOCKS - LIMBO_MARGIN_BLOCKS || bytes >= 2 * soft_bytes) {
        return LIMBO_HARD;
    }
    return blocks >= LIMBO_BLOCKS / 2 || bytes >= soft_bytes ? LIMBO_SOFT : LIMBO_ROOM;
}

/* Give back at most `budget` ripe blocks. */
uint32_t limbo_reclaim(struct limbo *limbo, uint32_t budget);

/* Management core: the seat that has not reported for the longest time, at least min_ms, or -1. *for_ms says how long.
 */
int32_t qsbr_watch(struct qsbr *qsbr, uint64_t now_ms, uint64_t min_ms, uint64_t *for_ms);
