#include "store/sweep.h"
#include "store/rebuild.h"

#define SWEEP_BUCKETS       4           /* a call, in a busy turn or while a flush is swept */
#define SWEEP_BUCKETS_FIRST 32          /* the first call of a millisecond: about 220 slots */
#define SWEEP_BUCKETS_DEAD  8           /* a call while a quarter of what may expire is dead: some 30 keys, 5 us */
#define SWEEP_BUCKETS_MOVE  16          /* a call while pages are emptied: few of their records lie in those pages */
#define SWEEP_MOVE_BYTES    (128 * KIB) /* copied in a call, and the record that goes beyond it */
#define SWEEP_MOVE_TRIES    4           /* takes until a block lies elsewhere */
#define SWEEP_CATCH_UP_MS   8ull        /* a member that slept makes up for so much */
#define SWEEP_BUCKETS_MS    64          /* a member and millisecond, otherwise: 450 slots */
#define SWEEP_BUCKETS_SHORT 256         /* the same when memory is short: dead keys hold it */
#define SWEEP_ROWS          16          /* of the index looked at in a call that finds nothing */
#define SWEEP_WAIT_CALLS    100000
#define SWEEP_FLUSH_TRIES   16
#define SWEEP_GHOST_MS      1000 /* a ghost so old, to twice as old, is of no use to a key that comes and goes */
#define SWEEP_WINDOW        128  /* slots that may expire, for a judgement how many are dead */

static bool
sweep_is_flush(const struct store *store)
{
    /* acquire: pairs with the CAS in sweep_start_flush(); every late write is seen */
    return load_relaxed(&store->sweep_next) < load_acquire(&store->flush_until);
}

/* ---- one slot ---- */

enum sweep_burial
sweep_bury(struct store_member *member, _Atomic uint64_t *slot, uint64_t word)
{
    struct store *store = member->store;
    const struct record *record = slot_record(word);
    uint64_t stamp = stamp_take(&store->clock, member->seat, record->stamp);
    uint64_t cut = cut_read_after(&store->cut, stamp);
    if (cut_is_pending(cut) || stamp <= cut) {
        return SWEEP_STAYS; /* seldom; the next sweep finds it */
    }
    /* release: the stamp in the TOMB is a publication like any other */
    if (!cas_acq_rel(slot, &word, slot_of_tomb(stamp))) {
        return SWEEP_STAYS;
    }
    bool counted = record->stamp > cut;
    if (counted) {
        member_count_key(member, cut, -1, (record->type_flags & RECORD_HAS_EXPIRY) != 0 ? -1 : 0);
        member_published(member, record_key(record), stamp, NULL);
    }
    member_retire_record(member, record);
    return counted ? SWEEP_REMOVED : SWEEP_FLUSHED;
}

/* True: the slot holds a TOMB now. */
static bool
sweep_record(struct store_member *member, _Atomic uint64_t *slot, uint64_t word)
{
    struct member_sweep *sweep = &member->sweep;
    const struct record *record = slot_record(word);
    uint64_t cut = load_acquire(&member->store->cut.word); /* pairs with cut_decide() */
    bool mortal = slot_kind(word) == SLOT_TTL;
    bool dead = record->stamp <= cut_value(cut) || record_expired(record, member->now_ms);
    sweep->mortal += mortal;
    sweep->dead += mortal && dead;
    enum sweep_burial burial = dead ? sweep_bury(member, slot, word) : SWEEP_STAYS;
    sweep->missed = sweep->missed || (dead && burial == SWEEP_STAYS);
    if (burial == SWEEP_REMOVED) {
        counter_add(&member->counters.expired_keys, 1);
        sweep->dead_ms = member->now_ms;
    }
    return burial != SWEEP_STAYS;
}

/* A block outside the pages that are being emptied, or NULL. */
static void *
sweep_take_elsewhere(struct store_member *member, size_t bytes)
{
    for (uint32_t try = 0; try < SWEEP_MOVE_TRIES; try++) {
        void *block = memory_take_move(member->cache, bytes);
        if (block == NULL || !memory_is_emptying(member->store->memory, block)) {
            return block;
        }
        memory_give_home(member->cache, block, bytes);
    }
    return NULL;
}

/* Another copy of the same version takes its place: the stamp stays, so nobody can tell. A use that is marked in the
 * old copy meanwhile is forgotten. */
static void
sweep_move(struct store_member *member, _Atomic uint64_t *slot, uint64_t word)
{
    const struct record *record = slot_record(word);
    size_t bytes = record_bytes(record);
    struct record *copy = sweep_take_elsewhere(member, bytes);
    if (copy == NULL) {
        return; /* the next round finds it */
    }
    copy->type_flags = record->type_flags;
    store_relaxed(&copy->recency, load_relaxed(&record->recency));
    copy->key_bytes = record->key_bytes;
    copy->value_bytes = record->value_bytes;
    copy->stamp = record->stamp;
    bytes_copy(copy->payload, record->payload, bytes - RECORD_HEADER_BYTES);
    uint64_t there = (word & ~INDEX_ADDRESS_MASK) | (uint64_t)(uintptr_t)copy;
    /* release: pairs with the acquire in index_look() */
    if (!cas_acq_rel(slot, &word, there)) {
        memory_give_home(member->cache, copy, bytes);
        return;
    }
    counter_add(&member->counters.moved_records, 1);
    member->sweep.moved_bytes += bytes;
    limbo_retire(&member->limbo, (void *)(uintptr_t)record, bytes); /* as much as the copy is counted already */
}

static void
sweep_ghost(struct store_member *member, _Atomic uint64_t *slot, uint64_t word)
{
    const struct record *ghost = slot_record(word);
    if (cas_acq_rel(slot, &word, slot_of_tomb(ghost->stamp))) {
        member_retire_ghost(member, ghost);
        member->sweep.tombs++;
    }
}

static void
sweep_slot(struct store_member *member, _Atomic uint64_t *slot, uint64_t table, bool flush)
{
    struct member_sweep *sweep = &member->sweep;
    uint64_t word = load_acquire(slot); /* pairs with the CAS that published the record */
    enum slot_kind kind = slot_kind(word);
    bool frozen = (word & SLOT_FROZEN) != 0, gone = false;
    if (slot_is_record(word)) {
        bool look = !frozen && (flush || kind == SLOT_TTL);
        gone = look && sweep_record(member, slot, word);
        sweep->missed = sweep->missed || (flush && frozen);
        sweep->tombs += gone;
        sweep->live += !gone;
    } else if (kind == SLOT_GHOST) {
        /* of the young, half a ghost for each bucket may stay */
        bool many = sweep->ghosts * 2 >= 1u << (table & INDEX_LOG2_MASK);
        gone = !frozen && (many || slot_record(word)->stamp < load_relaxed(&member->store->ghost_line));
        if (gone) {
            sweep_ghost(member, slot, word);
        } else {
            sweep->ghosts++;
        }
    } else {
        sweep->tombs += kind == SLOT_TOMB;
        return;
    }
    bool move = sweep->move && !gone && !frozen && sweep->moved_bytes < SWEEP_MOVE_BYTES;
    if (move && memory_is_emptying(member->store->memory, slot_record(word))) {
        sweep_move(member, slot, word);
    }
}

/* ---- one bucket, one segment ---- */

/* False: the bucket has moved, limbo is full, or enough was copied: here again at the next call. */
static bool
sweep_bucket(struct store_member *member, uint64_t table, bool flush)
{
    struct member_sweep *sweep = &member->sweep;
    struct index_bucket *bucket = link_bucket(table) + sweep->hand.bucket;
    uint64_t chain = 1, link = load_acquire(&bucket->link); /* before the slots: see index_look() */
    if ((link & LINK_FORWARDED) != 0 || limbo_room(&member->limbo) != LIMBO_ROOM) {
        return false;
    }
    for (;;) {
        for (uint32_t i = 0; i < INDEX_BUCKET_SLOTS; i++) {
            uint64_t word = load_relaxed(&bucket->slots[i]);
            if (slot_kind(word) == SLOT_TTL || slot_kind(word) == SLOT_GHOST || (flush && slot_is_record(word))) {
                PREFETCH(slot_record(word));
            }
        }
        for (uint32_t i = 0; i < INDEX_BUCKET_SLOTS; i++) {
            sweep_slot(member, &bucket->slots[i], table, flush);
        }
        sweep->relocate = sweep->relocate || (sweep->move && memory_is_emptying(member->store->memory, bucket));
        if (link_bucket(link) == NULL) {
            break;
        }
        bucket = link_bucket(link);
        link = load_acquire(&bucket->link);
        chain++;
    }
    if (chain > load_relaxed(&member->counters.chain_buckets_max)) {
        store_relaxed(&member->counters.chain_buckets_max, chain);
    }
    return sweep->moved_bytes < SWEEP_MOVE_BYTES;
}

/* A table that is mostly dead slots, or far too large, or empty, or in a page that is being emptied, is rebuilt. False:
 * not yet. */
static bool
sweep_segment_end(struct store_member *member, uint64_t table)
{
    struct member_sweep *sweep = &member->sweep;
    uint32_t buckets = 1u << (table & INDEX_LOG2_MASK);
    bool large = buckets > 1u << member->store->index.first_log2 && sweep->live < buckets;
    bool wish = sweep->tombs > sweep->live + buckets || large || sweep->live + sweep->ghosts == 0 || sweep->relocate;
    return !wish || rebuild_wish(member, sweep->hand.segment) || !sweep->relocate;
}

static void
sweep_segment_start(struct member_sweep *sweep)
{
    sweep->hand.bucket = sweep->live = sweep->ghosts = sweep->tombs = 0;
    sweep->relocate = sweep->missed = false;
}

bool
sweep_hand_next(struct store *store, struct index_hand *hand, _Atomic uint64_t *cursor)
{
    for (uint32_t i = 0; hand->segments == 0 && i < SWEEP_ROWS; i++) {
        uint64_t number = add_relaxed(cursor, 1);
        /* Whoever starts a flush sees that this row was taken, or is seen here (partner: sweep_start_flush()). The row
         * itself is looked at after that: what was flushed is in it. */
        fence_seq_cst();
        hand->flush = number < load_acquire(&store->flush_until); /* of the sweep's rows; nobody asks of others */
        hand->row = (uint32_t)(number % index_rows(&store->index));
        hand->segments = index_row(&store->index, hand->row);
    }
    if (hand->segments == 0) {
        return false;
    }
    hand->segment = hand->row * INDEX_ROW_SEGMENTS + (uint32_t)__builtin_ctzll(hand->segments);
    hand->segments &= hand->segments - 1;
    hand->bucket = 0;
    hand->active = true;
    return true;
}

static bool
sweep_next_segment(struct store_member *member)
{
    struct member_sweep *sweep = &member->sweep;
    if (!sweep_hand_next(member->store, &sweep->hand, &member->store->sweep_next)) {
        return false;
    }
    sweep->flush = sweep->flush || sweep->hand.flush;
    sweep->waited = 0;
    sweep_segment_start(sweep);
    return true;
}

/* Up to `budget` buckets of the current segment; what is left of the budget. */
static uint32_t
sweep_segment(struct store_member *member, uint32_t budget, bool flush)
{
    struct index *index = &member->store->index;
    struct member_sweep *sweep = &member->sweep;
    /* acquire: pairs with the store in rebuild_finish(). Loaded in each call: the table lives as long as this turn. */
    uint64_t table = load_acquire(&index->directory[sweep->hand.segment]);
    if (!table_exists(table)) { /* closed since the row was looked at */
        sweep->hand.active = false;
        return budget - 1;
    }
    if (load_relaxed(&index->segments[sweep->hand.segment].next) != 0 && ++sweep->waited < SWEEP_WAIT_CALLS) {
        sweep_segment_start(sweep); /* being rebuilt: its buckets move under our feet, and soon it is done */
        return 0;
    }
    if (table != sweep->table) { /* rebuilt between two calls: what lay ahead may lie behind */
        sweep->table = table;
        sweep_segment_start(sweep);
    }
    uint32_t buckets = 1u << (table & INDEX_LOG2_MASK);
    for (; budget != 0 && sweep->hand.bucket < buckets; budget--) {
        if (!sweep_bucket(member, table, flush)) {
            return 0;
        }
        sweep->hand.bucket++;
    }
    if (sweep->hand.bucket >= buckets) {
        if (flush && sweep->missed && ++sweep->waited < SWEEP_WAIT_CALLS) {
            sweep_segment_start(sweep); /* nobody looks for them after this round */
            return 0;
        }
        if (!sweep_segment_end(member, table)) {
            return 0;
        }
        sweep->hand.active = false;
    }
    return budget;
}

/* ---- when ---- */

/* Every member has quiesced since the cut: from here, one round over all segments finds all that it removed. */
static void
sweep_start_flush(struct store *store)
{
    uint64_t epoch = load_relaxed(&store->flush_epoch);
    if (epoch == 0 || !qsbr_passed(&store->qsbr, epoch) || !cas_acq_rel(&store->flush_epoch, &epoch, 0)) {
        return;
    }
    for (uint32_t try = 0; try < SWEEP_FLUSH_TRIES; try++) {
        uint64_t from = load_relaxed(&store->sweep_next), until = from + index_rows(&store->index);
        uint64_t now = load_relaxed(&store->flush_until);
        while (now < until && !cas_acq_rel(&store->flush_until, &now, until)) {
        }
        fence_seq_cst(); /* partner: sweep_hand_next() */
        if (load_relaxed(&store->sweep_next) == from) {
            return; /* whoever takes a row of the round knows that it is for a flush */
        }
    }
    sweep_flushed(store); /* others take rows all the time: again in another turn */
}

/* How many buckets this call may look at. */
static uint32_t
sweep_budget(struct store_member *member)
{
    struct member_sweep *sweep = &member->sweep;
    uint32_t most = SWEEP_BUCKETS;
    if (sweep->budget_ms != member->now_ms) {
        uint32_t elapsed_ms = (uint32_t)MIN((uint64_t)(member->now_ms - sweep->budget_ms), SWEEP_CATCH_UP_MS);
        sweep->budget_ms = member->now_ms;
        sweep->budget =
            elapsed_ms * (memory_over_limit(member->store->memory) ? SWEEP_BUCKETS_SHORT : SWEEP_BUCKETS_MS);
        most = SWEEP_BUCKETS_FIRST; /* what it slept through is made up for in many calls */
    }
    uint32_t budget = MIN(sweep->budget, most);
    sweep->budget -= budget;
    if (sweep->mortal >= SWEEP_WINDOW) {
        sweep->hungry = sweep->dead * 4 >= sweep->mortal;
        sweep->mortal = sweep->dead = 0;
    }
    budget = sweep->flush ? SWEEP_BUCKETS : budget;
    budget = sweep->hungry ? MAX(budget, (uint32_t)SWEEP_BUCKETS_DEAD) : budget;
    return sweep->move ? MAX(budget, (uint32_t)SWEEP_BUCKETS_MOVE) : budget;
}

void
sweep_step(struct store_member *member)
{
    struct store *store = member->store;
    struct member_sweep *sweep = &member->sweep;
    if (UNLIKELY(load_relaxed(&store->flush_epoch) != 0)) {
        sweep_start_flush(store);
    }
    /* A part taken during a flush is swept for it to its end, also when others have taken the last part. */
    bool flush = sweep_is_flush(store);
    sweep->flush = flush || (sweep->flush && (sweep->hand.active || sweep->hand.segments != 0));
    sweep->move = load_relaxed(&store->sweep_move);
    bool wanted = sweep->flush || sweep->move || load_relaxed(&store->sweep_expired) ||
                  load_relaxed(&store->sweep_ghosts) || load_relaxed(&store->sweep_tables);
    if (LIKELY(!wanted)) {
        sweep->hungry = false;
        return;
    }
    sweep->moved_bytes = 0;
    uint32_t budget = sweep_budget(member);
    while (budget != 0 && (sweep->hand.active || sweep_next_segment(member))) {
        budget = sweep_segment(member, budget, sweep->flush);
        bool part_ends = !sweep->hand.active && sweep->hand.segments == 0;
        if (part_ends && sweep->flush && !sweep_is_flush(store)) {
            return; /* or a part taken with what is left of the budget would keep a flush going that is over */
        }
    }
}

void
sweep_leave(struct store_member *member)
{
    struct member_sweep *sweep = &member->sweep;
    if (sweep->flush && (sweep->hand.active || sweep->hand.segments != 0)) {
        sweep_flushed(member->store); /* the others go round again */
    }
    sweep->hand = (struct index_hand){ 0 };
}

void
sweep_flushed(struct store *store)
{
    /* The epoch is asked for after the cut: a write that was checked against the old cut is published before its member
     * reports it. */
    uint64_t epoch = qsbr_advance(&store->qsbr), now = load_relaxed(&store->flush_epoch);
    while (now < epoch && !cas_acq_rel(&store->flush_epoch, &now, epoch)) {
    }
}

/* A round leaves a segment without keys no table, and one with keys at most its first or a bucket a key. Twice that: a
 * rebuild may be under way, and chains have buckets too. */
static bool
sweep_tables_are_large(const struct store *store, const struct store_stats *stats)
{
    const struct index *index = &store->index;
    uint64_t buckets = (stats->index_bytes - MIN(stats->index_bytes, index->fixed_bytes)) / sizeof(struct index_bucket);
    uint64_t segments = MIN(stats->keys, index->segment_count); /* that have keys, at most */
    return buckets > 2 * ((segments << index->first_log2) + stats->keys);
}

void
sweep_manage(struct store *store, const struct store_stats *stats, uint64_t now_ms)
{
    if (now_ms - store->ghost_line_ms >= SWEEP_GHOST_MS) {
        store->ghost_line_ms = now_ms;
        store_relaxed(&store->ghost_line, store->ghost_line_next);
        store->ghost_line_next = stamp_clock_read(&store->clock);
    }
    store_relaxed(&store->sweep_expired, stats->keys_with_expiry != 0);
    store_relaxed(&store->sweep_ghosts, stats->ghosts > stats->keys / 8);
    store_relaxed(&store->sweep_tables, sweep_tables_are_large(store, stats));
}
