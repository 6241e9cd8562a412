#include "store/qsbr.h"

#define ENTRY_SIZE_BITS 20
#define ENTRY_SIZE_MASK ((1ull << ENTRY_SIZE_BITS) - 1)
#define SCAN_TURNS      4 /* reclaims between two looks at all seats */

void
qsbr_init(struct qsbr *qsbr, uint32_t seat_count)
{
    qsbr->seat_count = seat_count;
    store_relaxed(&qsbr->epoch, 1);
    store_relaxed(&qsbr->safe, 1);
}

uint64_t
qsbr_advance(struct qsbr *qsbr)
{
    /* full: what was unlinked is unlinked for whoever comes online and is not seen by qsbr_scan(); partner: the fence
     * in qsbr_online() */
    fence_seq_cst();
    return add_acq_rel(&qsbr->epoch, 1) + 1;
}

/* ---- reports ---- */

static void
limbo_seal(struct limbo *limbo)
{
    if (limbo->tail == limbo->sealed || limbo->batch_tail - limbo->batch_head == LIMBO_BATCHES) {
        return; /* nothing to seal, or the batch just grows */
    }
    limbo->batches[limbo->batch_tail++ % LIMBO_BATCHES] =
        (struct limbo_batch){ .epoch = qsbr_advance(limbo->qsbr), .end = limbo->tail };
    limbo->sealed = limbo->tail;
    limbo->turns = 0;
}

void
qsbr_quiesce(struct limbo *limbo)
{
    uint32_t open = limbo->tail - limbo->sealed;
    if (open != 0 && (open >= LIMBO_SEAL_BLOCKS || ++limbo->turns >= LIMBO_SEAL_TURNS)) {
        limbo_seal(limbo);
    }
    /* acquire: pairs with qsbr_advance(); reads of the next turn see what was unlinked before that epoch */
    uint64_t epoch = load_acquire(&limbo->qsbr->epoch);
    if (epoch != limbo->reported) {
        limbo->reported = epoch;
        /* release: pairs with the acquire in qsbr_scan(); reads of this turn are over */
        store_release(&limbo->qsbr->seats[limbo->seat].seen, epoch);
    }
}

void
qsbr_offline(struct limbo *limbo)
{
    limbo_seal(limbo);
    limbo->reported = QSBR_OFFLINE;
    store_release(&limbo->qsbr->seats[limbo->seat].seen, QSBR_OFFLINE); /* pairs with qsbr_scan() */
    fence_seq_cst(); /* whoever waits for us learns it before we sleep */
}

void
qsbr_online(struct limbo *limbo)
{
    limbo->reported = load_acquire(&limbo->qsbr->epoch); /* pairs with qsbr_advance() */
    store_relaxed(&limbo->qsbr->seats[limbo->seat].seen, limbo->reported);
    /* full: either qsbr_scan() sees us, or our loads from here on see everything unlinked before its fence */
    fence_seq_cst();
}

/* The oldest epoch that an online member reported; all of them, at least. */
static uint64_t
qsbr_scan(struct qsbr *qsbr)
{
    uint64_t oldest = load_acquire(&qsbr->epoch); /* before the fence: pairs with every qsbr_advance() up to it */
    fence_seq_cst();                              /* partner: the fence in qsbr_online() */
    for (uint32_t i = 0; i < qsbr->seat_count; i++) {
        /* acquire: pairs with the release in qsbr_quiesce() and qsbr_offline() */
        uint64_t seen = load_acquire(&qsbr->seats[i].seen);
        if (seen != QSBR_OFFLINE && seen < oldest) {
            oldest = seen;
        }
    }
    uint64_t safe = load_acquire(&qsbr->safe);
    while (safe < oldest && !cas_acq_rel(&qsbr->safe, &safe, oldest)) {
    }
    return MAX(safe, oldest);
}

bool
qsbr_passed(struct qsbr *qsbr, uint64_t epoch)
{
    /* acquire: pairs with the CAS in qsbr_scan(), made after that thread saw every report */
    return load_acquire(&qsbr->safe) >= epoch || qsbr_scan(qsbr) >= epoch;
}

/* ---- limbo ---- */

size_t
limbo_retire(struct limbo *limbo, void *block, size_t bytes)
{
    assert(limbo->tail - limbo->head < LIMBO_BLOCKS);
    limbo->entries[limbo->tail++ % LIMBO_BLOCKS] =
        ((uint64_t)(uintptr_t)block >> 4 << ENTRY_SIZE_BITS) | (uint64_t)(bytes + 15) / 16;
    size_t class_bytes = memory_class_bytes(bytes);
    counter_add(&limbo->bytes, class_bytes);
    return class_bytes;
}

static void
limbo_give(struct limbo *limbo, uint64_t entry, bool home)
{
    size_t bytes = (size_t)(entry & ENTRY_SIZE_MASK) * 16;
    store_relaxed(&limbo->bytes, load_relaxed(&limbo->bytes) - memory_class_bytes(bytes));
    void *block = (void *)(uintptr_t)(entry >> ENTRY_SIZE_BITS << 4);
    if (UNLIKELY(home)) {
        memory_give_home(limbo->cache, block, bytes);
    } else {
        memory_give(limbo->cache, block, bytes);
    }
}

uint32_t
limbo_reclaim(struct limbo *limbo, uint32_t budget)
{
    uint32_t given = 0;
    while (given < budget && limbo->batch_head != limbo->batch_tail) {
        struct limbo_batch *batch = &limbo->batches[limbo->batch_head % LIMBO_BATCHES];
        if (load_acquire(&limbo->qsbr->safe) < batch->epoch) { /* pairs with the CAS in qsbr_scan() */
            if (++limbo->scan_turns < SCAN_TURNS) {
                break;
            }
            limbo->scan_turns = 0;
            if (qsbr_scan(limbo->qsbr) < batch->epoch) {
                break;
            }
        }
        bool home = memory_gives_home(limbo->cache);
        while (given < budget && limbo->head != batch->end) {
            limbo_give(limbo, limbo->entries[limbo->head++ % LIMBO_BLOCKS], home);
            given++;
        }
        if (limbo->head == batch->end) {
            limbo->batch_head++;
        }
    }
    return given;
}

int32_t
qsbr_watch(struct qsbr *qsbr, uint64_t now_ms, uint64_t min_ms, uint64_t *for_ms)
{
    int32_t stalled = -1;
    uint64_t epoch = load_relaxed(&qsbr->epoch);
    *for_ms = 0;
    for (uint32_t i = 0; i < qsbr->seat_count; i++) {
        struct qsbr_seat *seat = &qsbr->seats[i];
        uint64_t seen = load_relaxed(&seat->seen);
        if (seen == QSBR_OFFLINE || seen == epoch || seen != seat->watched_seen) {
            seat->watched_seen = seen;
            seat->watched_since_ms = now_ms;
        } else if (now_ms - seat->watched_since_ms >= MAX(min_ms, *for_ms + 1)) {
            stalled = (int32_t)i;
            *for_ms = now_ms - seat->watched_since_ms;
        }
    }
    return stalled;
}
