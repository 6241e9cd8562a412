#include "store/evict.h"
#include "store/rebuild.h"
#include "store/sweep.h"

#define EVICT_BATCH   64  /* records looked at together, */
#define EVICT_SHARE   8   /* of which one in so many goes: more means closer to the policy, and dearer */
#define EVICT_BUCKETS 256 /* looked at for a batch, when few records qualify */
#define EVICT_BATCHES 6   /* of a call: 48 records, more than a burst can add; some 15 us */
#define EVICT_CLAIM   (64 * KIB)
#define LFU_NEW       5 /* a new key's counter: it gets its chance */
#define LFU_DECAY     8 /* one in so many passes of the hand lowers a counter */
#define SCORE_DEAD    UINT64_MAX

struct candidate {
    _Atomic uint64_t *slot;
    uint64_t word, score; /* the highest score goes first */
};

struct batch {
    struct candidate candidates[EVICT_BATCH];
    uint32_t count;
};

/* xorshift: who goes by chance, and which use counts, needs no better one. */
static uint32_t
evict_random(struct store_member *member)
{
    uint32_t random = member->evict.random;
    random ^= random << 13;
    random ^= random >> 17;
    random ^= random << 5;
    member->evict.random = random;
    return random;
}

/* ---- the byte ---- */

static void
record_mark(const struct record *record, uint8_t mark)
{
    /* relaxed and lossy */
    store_relaxed(&((struct record *)(uintptr_t)record)->recency, mark);
}

static uint8_t
lfu_raised(struct store_member *member, uint8_t counter)
{
    uint32_t above = counter > LFU_NEW ? counter - LFU_NEW : 0;
    return counter < EVICT_MARK_LFU - 1 && evict_random(member) % (above + 1) == 0 ? (uint8_t)(counter + 1) : counter;
}

void
evict_touch(struct store_member *member, const struct record *record, uint8_t seen)
{
    if (member->recency != EVICT_MARK_LFU) {
        record_mark(record, member->recency);
        counter_add(&member->counters.touches, 1);
        return;
    }
    uint8_t raised = lfu_raised(member, seen);
    if (raised != seen) {
        record_mark(record, raised);
    }
}

uint8_t
evict_mark_fresh(struct store_member *member, const struct record *old)
{
    return old == NULL ? LFU_NEW : lfu_raised(member, load_relaxed(&old->recency));
}

/* The hand passed a record that stays. */
static void
lfu_decay(struct store_member *member, const struct record *record)
{
    uint8_t counter = load_relaxed(&record->recency);
    if (counter != 0 && evict_random(member) % LFU_DECAY == 0) {
        record_mark(record, counter - 1);
    }
}

/* ---- choosing ---- */

static uint64_t
record_score(struct store_member *member, const struct record *record, enum store_policy policy)
{
    uint8_t byte = load_relaxed(&record->recency);
    if (record_expired(record, member->now_ms)) {
        return SCORE_DEAD;
    }
    switch (policy) {
    case STORE_ALLKEYS_LRU:
    case STORE_VOLATILE_LRU:
        return (uint32_t)(load_relaxed(&member->store->evict.clock) + EVICT_CLOCK - byte) % EVICT_CLOCK;
    case STORE_ALLKEYS_LFU:
    case STORE_VOLATILE_LFU:
        return EVICT_MARK_LFU - byte;
    case STORE_VOLATILE_TTL:
        return (uint64_t)INT64_MAX - (uint64_t)MAX(record_expires_at_ms(record), 0);
    case STORE_ALLKEYS_RANDOM:
    case STORE_VOLATILE_RANDOM:
    case STORE_NOEVICTION:
        break;
    }
    return evict_random(member);
}

static bool
slot_qualifies(uint64_t word, enum store_policy policy)
{
    bool any = policy == STORE_ALLKEYS_LRU || policy == STORE_ALLKEYS_LFU || policy == STORE_ALLKEYS_RANDOM;
    return (word & SLOT_FROZEN) == 0 && (any ? slot_is_record(word) : slot_kind(word) == SLOT_TTL);
}

static void
batch_add_chain(struct batch *batch, struct index_bucket *bucket, enum store_policy policy)
{
    uint64_t link = load_acquire(&bucket->link); /* before the slots: see index_look() */
    if ((link & LINK_FORWARDED) != 0) {
        return;
    }
    for (;;) {
        for (uint32_t i = 0; i < INDEX_BUCKET_SLOTS && batch->count < EVICT_BATCH; i++) {
            uint64_t word = load_acquire(&bucket->slots[i]); /* pairs with the CAS that published the record */
            if (slot_qualifies(word, policy)) {
                PREFETCH(slot_record(word));
                batch->candidates[batch->count++] = (struct candidate){ .slot = &bucket->slots[i], .word = word };
            }
        }
        if (link_bucket(link) == NULL || batch->count == EVICT_BATCH) {
            return;
        }
        bucket = link_bucket(link);
        link = load_acquire(&bucket->link); /* pairs with change_append() */
    }
}

/* From where the hand stands, through at most EVICT_BUCKETS buckets. */
static void
batch_fill(struct store_member *member, struct batch *batch, enum store_policy policy)
{
    struct store *store = member->store;
    struct index_hand *hand = &member->evict.hand;
    batch->count = 0;
    for (uint32_t i = 0; i < EVICT_BUCKETS && batch->count < EVICT_BATCH; i++) {
        if (!hand->active && !sweep_hand_next(store, hand, &store->evict.next)) {
            return;
        }
        /* acquire: pairs with the store in rebuild_finish(). Loaded each time: the table lives as long as this turn. */
        uint64_t table = load_acquire(&store->index.directory[hand->segment]);
        if (table_exists(table) && hand->bucket < 1u << table_log2(table)) {
            batch_add_chain(batch, link_bucket(table) + hand->bucket++, policy);
        } else {
            hand->active = false;
        }
    }
}

static void
batch_score(struct store_member *member, struct batch *batch, enum store_policy policy)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        struct candidate *candidate = &batch->candidates[i];
        candidate->score = record_score(member, slot_record(candidate->word), policy);
    }
}

/* Takes the candidate with the highest score out. */
static struct candidate
batch_worst(struct batch *batch)
{
    uint32_t worst = 0;
    for (uint32_t i = 1; i < batch->count; i++) {
        worst = batch->candidates[i].score > batch->candidates[worst].score ? i : worst;
    }
    struct candidate candidate = batch->candidates[worst];
    batch->candidates[worst] = batch->candidates[--batch->count];
    return candidate;
}

/* ---- removing ---- */

/* Bytes that go to limbo; 0: none, somebody changed the key meanwhile. */
static uint64_t
evict_candidate(struct store_member *member, const struct candidate *candidate)
{
    const struct record *record = slot_record(candidate->word);
    uint64_t bytes = memory_class_bytes(record_bytes(record));
    bool dead = candidate->score == SCORE_DEAD;
    enum sweep_burial burial = sweep_bury(member, candidate->slot, candidate->word);
    if (burial == SWEEP_REMOVED) {
        counter_add(dead ? &member->counters.expired_keys : &member->counters.evicted_keys, 1);
    }
    return burial == SWEEP_STAYS ? 0 : bytes;
}

static uint64_t
evict_batch(struct store_member *member, enum store_policy policy, uint64_t wanted)
{
    struct batch batch;
    batch_fill(member, &batch, policy);
    batch_score(member, &batch, policy);
    bool lfu = policy == STORE_ALLKEYS_LFU || policy == STORE_VOLATILE_LFU;
    uint32_t victims = (batch.count + EVICT_SHARE - 1) / EVICT_SHARE;
    uint64_t freed = 0;
    for (uint32_t i = 0; i < victims && freed < wanted && limbo_room(&member->limbo) == LIMBO_ROOM; i++) {
        struct candidate candidate = batch_worst(&batch);
        freed += evict_candidate(member, &candidate);
    }
    for (uint32_t i = 0; i < batch.count && lfu; i++) {
        lfu_decay(member, slot_record(batch.candidates[i].word));
    }
    return freed;
}

void
evict_step(struct store_member *member)
{
    struct store_evict *evict = &member->store->evict;
    for (uint32_t i = 0; i < EVICT_BATCHES; i++) {
        int64_t wanted = load_relaxed(&evict->wanted);
        enum store_policy policy = evict_policy(member->store);
        if (LIKELY(wanted <= 0) || policy == STORE_NOEVICTION || limbo_room(&member->limbo) != LIMBO_ROOM) {
            return;
        }
        /* The share is out of the others' sight before it is looked for: two members do not evict for the same need. */
        int64_t share = MIN(wanted, (int64_t)EVICT_CLAIM);
        if (cas_relaxed(&evict->wanted, &wanted, wanted - share)) {
            int64_t freed = (int64_t)evict_batch(member, policy, (uint64_t)share);
            sub_relaxed(&evict->wanted, freed - share); /* what was not found is for the next; too much counts too */
        }
    }
}
