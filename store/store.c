#include "store/store.h"
#include "store/evict.h"
#include "store/rebuild.h"
#include "store/store_layout.h"
#include "store/sweep.h"

#define HOUSEKEEP_RECLAIM 128 /* blocks given back a turn: more than a burst retires */

/* ---- the turn ---- */

void
store_quiesce(struct store_member *member)
{
    qsbr_quiesce(&member->limbo);
}

void
store_offline(struct store_member *member)
{
    qsbr_offline(&member->limbo);
}

void
store_online(struct store_member *member)
{
    qsbr_online(&member->limbo);
}

void
store_set_time(struct store_member *member, int64_t now_ms)
{
    member->now_ms = now_ms;
    member->recency = member->fresh = load_relaxed(&member->store->evict.mark);
}

void
store_housekeep(struct store_member *member)
{
    limbo_reclaim(&member->limbo, HOUSEKEEP_RECLAIM);
    rebuild_step(member);
    sweep_step(member);
    evict_step(member);
    memory_trim(member->cache);
}

bool
store_wants_turns(const struct store_member *member)
{
    return member->sweep.flush || member->sweep.move || member->now_ms - member->sweep.dead_ms < SWEEP_AWAKE_MS ||
           load_relaxed(&member->store->evict.wanted) > 0;
}

/* ---- look-ups ---- */

struct store *
store_of(const struct store_member *member)
{
    return member->store;
}

struct memory_cache *
store_memory(struct store_member *member)
{
    return member->cache;
}

bool
store_over_limit(const struct store_member *member)
{
    return memory_over_limit(member->store->memory);
}

/* Has the record in a slot expired, or been flushed? */
static inline bool
record_is_gone(const struct store_member *member, const struct record *record)
{
    /* acquire: pairs with cut_decide(); loads of the next look-up stay behind it */
    uint64_t cut = load_acquire(&member->store->cut.word);
    if (UNLIKELY(record->stamp <= cut) && record->stamp <= cut_value(cut)) {
        return true;
    }
    return record_expired(record, member->now_ms);
}

static inline void
record_touch(struct store_member *member, const struct record *record)
{
    uint8_t seen = load_relaxed(&record->recency);
    if (UNLIKELY(seen != member->recency)) {
        evict_touch(member, record, seen);
    }
}

const struct record *
store_find(struct store_member *member, struct slice key, uint64_t hash)
{
    struct index_place place;
    index_look(&member->store->index, key, hash, &place);
    if (slot_is_record(place.word)) {
        const struct record *record = slot_record(place.word);
        if (LIKELY(!record_is_gone(member, record))) {
            record_touch(member, record);
            counter_add(&member->counters.hits, 1);
            return record;
        }
    } else {
        index_absent_fence();
    }
    counter_add(&member->counters.misses, 1);
    return NULL;
}

struct store_view
store_view(struct store_member *member, struct slice key, uint64_t hash)
{
    struct index_place place;
    index_look(&member->store->index, key, hash, &place);
    if (place.slot == NULL || slot_kind(place.word) == SLOT_EMPTY) {
        /* The place where the key would go: whoever inserts it takes that place, and no place is ever free again. */
        index_absent_fence();
        counter_add(&member->counters.misses, 1);
        return (struct store_view){ NULL, INDEX_ABSENT | INDEX_GENERATION(place.table) << 32 | place.position };
    }
    const struct record *record = slot_record(place.word);
    if (slot_kind(place.word) == SLOT_GHOST) {
        counter_add(&member->counters.misses, 1);
        return (struct store_view){ NULL, record->stamp };
    }
    if (record_is_gone(member, record)) {
        counter_add(&member->counters.misses, 1);
        return (struct store_view){ NULL, record->stamp | INDEX_GONE };
    }
    record_touch(member, record);
    counter_add(&member->counters.hits, 1);
    return (struct store_view){ record, record->stamp };
}

/* ---- changes ---- */

void *
member_take_larger(struct store_member *member, size_t align)
{
    size_t bytes = memory_refused_bytes(member->cache);
    if (bytes == 0 || member->larger_ms == member->now_ms) {
        return NULL;
    }
    member->larger_ms = member->now_ms;
    return memory_take_larger(member->cache, bytes, align);
}

struct record *
store_record(struct store_member *member, enum record_type type, struct slice key, size_t value_bytes,
             int64_t expires_at_ms)
{
    assert(key.bytes <= LIMIT_KEY_BYTES);
    bool expires = expires_at_ms != RECORD_NO_EXPIRY;
    size_t bytes = RECORD_HEADER_BYTES + (expires ? sizeof(int64_t) : 0) + key.bytes + value_bytes;
    bool reserve = bytes <= member->shrink_bytes;
    struct record *record = reserve ? memory_take_reserve(member->cache, bytes) : memory_take(member->cache, bytes);
    if (UNLIKELY(record == NULL)) {
        record = member_take_larger(member, RECORD_ALIGN);
        if (record == NULL) {
            return NULL;
        }
    }
    record->type_flags = (uint8_t)(type | (expires ? RECORD_HAS_EXPIRY : 0));
    store_relaxed(&record->recency, member->fresh);
    record->key_bytes = (uint16_t)key.bytes;
    record->value_bytes = (uint32_t)value_bytes;
    record->stamp = 0;
    if (expires) {
        memcpy(record->payload, &expires_at_ms, sizeof(expires_at_ms));
    }
    bytes_copy(record->payload + record_key_at(record), key.data, key.bytes);
    return record;
}

static void
record_discard(struct store_member *member, struct record *record)
{
    if (record != NULL) {
        memory_give_home(member->cache, record, record_bytes(record));
    }
}

/* One store_update(). */
struct change {
    struct store_member *member;
    struct slice key;
    uint64_t hash;
    store_change_fn run;
    void *context;
    struct record *fresh; /* unpublished, or NULL */
    /* of this attempt */
    struct index_place place;
    uint64_t stamp, cut;
};

enum attempt {
    ATTEMPT_DONE,
    ATTEMPT_AGAIN, /* somebody else was faster */
    ATTEMPT_NO_MEMORY,
    ATTEMPT_WAIT, /* for limbo or for a rebuild's memory */
};

/* The key's place in the table that is in use, nothing frozen; a stamp above what is there; a decided cut below it. */
static enum attempt
change_look(struct change *change)
{
    struct store_member *member = change->member;
    struct store *store = member->store;
    struct index_place *place = &change->place;

    index_look(&store->index, change->key, change->hash, place);
    if (UNLIKELY(!table_exists(place->table))) {
        return ATTEMPT_DONE; /* absent: only a change that publishes needs a table */
    }
    if (UNLIKELY((place->word & SLOT_FROZEN) != 0)) { /* LINK_FROZEN is the same bit */
        return rebuild_help(member, place->table, change->hash) == REBUILD_DONE ? ATTEMPT_AGAIN : ATTEMPT_WAIT;
    }
    uint64_t above = slot_has_key(place->word) && place->slot != NULL ? slot_record(place->word)->stamp : 0;
    change->stamp = stamp_take(&store->clock, member->seat, MAX(above, change->cut));
    change->cut = cut_read_after(&store->cut, change->stamp);
    if (UNLIKELY(change->stamp <= change->cut)) { /* PENDING is above every stamp */
        change->cut = cut_value(cut_decide(&store->cut, &store->clock));
        return ATTEMPT_AGAIN;
    }
    return ATTEMPT_DONE;
}

/* What the slot held has been replaced by this member. `counted`: it was above the cut, so it was in the sum of keys.
 */
static void
change_retire_old(struct change *change, bool counted)
{
    struct store_member *member = change->member;
    uint64_t word = change->place.word;
    const struct record *old = slot_record(word);
    if (slot_kind(word) == SLOT_GHOST) {
        member_retire_ghost(member, old);
        return;
    }
    if (counted && record_expired(old, member->now_ms)) {
        counter_add(&member->counters.expired_keys, 1);
    }
    member_retire_record(member, old);
}

static void
change_count(struct change *change, const struct record *fresh, bool counted)
{
    bool old_expires = counted && slot_kind(change->place.word) == SLOT_TTL;
    bool fresh_expires = fresh != NULL && (fresh->type_flags & RECORD_HAS_EXPIRY) != 0;
    member_count_key(change->member, change->cut, (fresh != NULL) - counted, fresh_expires - old_expires);
}

/* The chain is full: a new bucket with `word` in its first slot goes behind it. */
static enum attempt
change_append(struct change *change, uint64_t word)
{
    struct store_member *member = change->member;
    struct index_place *place = &change->place;
    struct index_bucket *bucket = index_bucket_take(member, SLOT_EMPTY, 0, false);
    if (bucket == NULL) {
        return ATTEMPT_NO_MEMORY;
    }
    store_relaxed(&bucket->slots[0], word);
    uint64_t none = 0;
    /* release: pairs with the acquire in index_look() */
    if (!cas_acq_rel(&place->bucket->link, &none, (uint64_t)(uintptr_t)bucket)) {
        index_blocks_give(member, bucket, 1);
        return ATTEMPT_AGAIN;
    }
    rebuild_notice(member, place->table, index_segment_of(&member->store->index, change->hash));
    return ATTEMPT_DONE;
}

static enum attempt
change_publish(struct change *change)
{
    struct store_member *member = change->member;
    struct index_place *place = &change->place;
    struct record *fresh = change->fresh;
    bool counted = place->slot != NULL && slot_is_record(place->word) && slot_record(place->word)->stamp > change->cut;

    fresh->stamp = change->stamp;
    uint64_t word = slot_of_record(fresh, change->hash), expected = place->word;
    if (UNLIKELY(place->slot == NULL)) {
        enum attempt appended = change_append(change, word);
        if (appended != ATTEMPT_DONE) {
            return appended;
        }
    } else if (!cas_acq_rel(place->slot, &expected, word)) { /* release: pairs with the acquire in index_look() */
        return ATTEMPT_AGAIN;
    }
    change->fresh = NULL;
    counter_move(&member->counters.record_bytes, (int64_t)memory_class_bytes(record_bytes(fresh)));
    if (place->slot != NULL && slot_has_key(place->word)) {
        change_retire_old(change, counted);
    }
    change_count(change, fresh, counted);
    member_published(member, change->key, change->stamp, fresh);
    return ATTEMPT_DONE;
}

/* DEL leaves a ghost, which only the same key may turn into a record again; without memory for one, a TOMB. */
static enum attempt
change_remove(struct change *change)
{
    struct store_member *member = change->member;
    struct record *ghost = NULL;
    size_t bytes = RECORD_HEADER_BYTES + change->key.bytes;
    if (change->key.bytes <= STORE_GHOST_KEY) {
        ghost = memory_take_reserve(member->cache, bytes);
    }
    uint64_t word = slot_of_tomb(change->stamp), expected = change->place.word;
    if (ghost != NULL) {
        *ghost = (struct record){ .type_flags = RECORD_GHOST, .stamp = change->stamp };
        ghost->key_bytes = (uint16_t)change->key.bytes;
        memcpy(ghost->payload, change->key.data, change->key.bytes);
        word = slot_tag(change->hash) | (uint64_t)(uintptr_t)ghost | SLOT_GHOST;
    }
    /* release: pairs with the acquire in index_look() */
    if (!cas_acq_rel(change->place.slot, &expected, word)) {
        record_discard(member, ghost);
        return ATTEMPT_AGAIN;
    }
    if (ghost != NULL) {
        counter_move(&member->counters.ghosts, 1);
        counter_move(&member->counters.ghost_bytes, (int64_t)memory_class_bytes(bytes));
    }
    change_retire_old(change, true);
    change_count(change, NULL, true);
    member_published(member, change->key, change->stamp, NULL);
    return ATTEMPT_DONE;
}

static enum attempt
change_attempt(struct change *change)
{
    struct store_member *member = change->member;
    enum attempt looked = change_look(change);
    if (UNLIKELY(looked != ATTEMPT_DONE)) {
        return looked;
    }
    const struct record *old = NULL;
    if (change->place.slot != NULL && slot_is_record(change->place.word)) {
        old = slot_record(change->place.word);
        if (old->stamp <= change->cut || record_expired(old, member->now_ms)) {
            old = NULL;
        }
    }
    /* What replaces a record by one that is no larger, or only gets an expiry, may use the reserve. */
    member->shrink_bytes = old != NULL ? record_bytes(old) + sizeof(int64_t) : 0;
    if (UNLIKELY(member->recency == EVICT_MARK_LFU)) {
        member->fresh = evict_mark_fresh(member, old);
    }
    struct record *before = change->fresh;
    enum store_change answer = change->run(change->context, member, old, &change->fresh);
    member->shrink_bytes = 0;
    if (before != NULL && change->fresh != before) {
        record_discard(member, before);
    }
    switch (answer) {
    case STORE_PUBLISH:
        assert(change->fresh != NULL);
        if (UNLIKELY(!table_exists(change->place.table))) {
            return index_first_table(member, change->hash) ? ATTEMPT_AGAIN : ATTEMPT_NO_MEMORY;
        }
        return change_publish(change);
    case STORE_REMOVE:
        return old != NULL ? change_remove(change) : ATTEMPT_DONE;
    case STORE_NO_MEMORY:
        return ATTEMPT_NO_MEMORY;
    case STORE_KEEP:
        break;
    }
    return ATTEMPT_DONE;
}

/* Nothing happened: should the client wait, or be told? */
static enum store_status
change_refused(struct store_member *member, enum attempt attempt)
{
    enum limbo_room room = limbo_room(&member->limbo);
    bool limbo_stuck = attempt == ATTEMPT_WAIT && room == LIMBO_HARD; /* at the soft limit writers park */
    bool at_limit = attempt == ATTEMPT_NO_MEMORY && memory_refusal(member->cache) == MEMORY_AT_LIMIT;
    if (at_limit || limbo_stuck) {
        counter_add(&member->counters.oom_refusals, 1);
        return STORE_OOM;
    }
    counter_add(&member->counters.try_laters, 1);
    return STORE_TRY_LATER;
}

enum store_status
store_update(struct store_member *member, struct slice key, uint64_t hash, store_change_fn run, void *context)
{
    struct change change = { .member = member, .key = key, .hash = hash, .run = run, .context = context };
    enum attempt attempt = ATTEMPT_WAIT;
    if (LIKELY(limbo_room(&member->limbo) == LIMBO_ROOM)) {
        for (uint32_t tries = 0; tries < STORE_UPDATE_TRIES; tries++) {
            attempt = change_attempt(&change);
            if (LIKELY(attempt != ATTEMPT_AGAIN)) {
                break;
            }
            counter_add(&member->counters.update_retries, 1);
            for (uint32_t i = 0; i < MIN(tries, 16u); i++) {
                cpu_relax();
            }
        }
    }
    record_discard(member, change.fresh);
    return LIKELY(attempt == ATTEMPT_DONE) ? STORE_OK : change_refused(member, attempt);
}

enum store_status
store_flush(struct store_member *member)
{
    struct store *store = member->store;
    uint64_t cut = cut_announce(&store->cut, &store->clock);
    if (cut == 0) {
        counter_add(&member->counters.try_laters, 1);
        return STORE_TRY_LATER;
    }
    sweep_flushed(store);
    member_count_key(member, cut, 0, 0);
    counter_add(&member->counters.flushes, 1);
    member_published(member, (struct slice){ NULL, 0 }, cut, NULL);
    return STORE_OK;
}

uint64_t
store_keys(const struct store *store)
{
    uint64_t keys = 0;
    for (int try = 0; try < 4; try++) {
        uint64_t cut = load_acquire(&store->cut.word);
        keys = 0;
        for (uint32_t i = 0; i < store->member_count; i++) {
            const struct member_counters *counters = &store->members[i].counters;
            if (load_acquire(&counters->cut) == cut_value(cut)) { /* pairs with member_count_key() */
                keys += load_relaxed(&counters->keys);
            }
        }
        fence_acquire();
        if (load_relaxed(&store->cut.word) == cut) {
            break;
        }
    }
    return (int64_t)keys < 0 ? 0 : keys; /* members count one after the other: a moment's sum may be off */
}

void
store_retire(struct store_member *member, void *block, size_t bytes)
{
    limbo_retire(&member->limbo, block, bytes);
}

bool
store_may_retire(const struct store_member *member, uint32_t blocks)
{
    static_assert(STORE_RETIRE_BLOCKS < LIMBO_MARGIN_BLOCKS, "what may be retired has room");
    return blocks <= STORE_RETIRE_BLOCKS && limbo_room(&member->limbo) != LIMBO_HARD;
}
