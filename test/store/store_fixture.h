/* store_fixture.h - a small store, and the few commands that store tests need. */
#pragma once
#include "store/rebuild.h"
#include "store/store.h"
#include "store/store_layout.h"
#include <inttypes.h>

static inline struct store *
fixture_open(uint32_t members, uint64_t limit_bytes, uint64_t keys_expected)
{
    struct store_config config = {
        .memory = { .reserve_bytes = MAX(limit_bytes, 8 * MIB), .limit_bytes = limit_bytes, .ahead_bytes = 8 * MIB },
        .keys_expected = keys_expected,
        .members = members,
        .trust_cycle_counter = true,
    };
    struct store *store = NULL;
    CHECK(store_open(&config, &store) == 0);
    return store;
}

static inline struct store_member *
fixture_join(struct store *store, uint32_t index)
{
    struct store_member *member = store_join(store, index, "test");
    CHECK(member != NULL);
    store_set_time(member, 1000000);
    return member;
}

/* One turn of a member. */
static inline void
fixture_turn(struct store_member *member)
{
    store_quiesce(member);
    store_housekeep(member);
}

struct fixture_set {
    struct slice key, value;
    int64_t expires_at_ms;
    bool only_if_absent, was_there;
};

static inline enum store_change
fixture_set_change(void *context, struct store_member *member, const struct record *old, struct record **fresh)
{
    struct fixture_set *set = context;
    set->was_there = old != NULL;
    if (old != NULL && set->only_if_absent) {
        return STORE_KEEP;
    }
    if (*fresh == NULL) {
        *fresh = store_record(member, RECORD_STRING, set->key, set->value.bytes, set->expires_at_ms);
        if (*fresh == NULL) {
            return STORE_NO_MEMORY;
        }
        memcpy(record_value_room(*fresh), set->value.data, set->value.bytes);
    }
    return STORE_PUBLISH;
}

static inline enum store_status
fixture_set_until(struct store_member *member, struct slice key, struct slice value, int64_t expires_at_ms)
{
    struct fixture_set set = { .key = key, .value = value, .expires_at_ms = expires_at_ms };
    return store_update(member, key, store_hash(store_of(member), key), fixture_set_change, &set);
}

static inline enum store_status
fixture_put(struct store_member *member, struct slice key, struct slice value)
{
    return fixture_set_until(member, key, value, RECORD_NO_EXPIRY);
}

static inline enum store_change
fixture_del_change(void *context, struct store_member *member, const struct record *old, struct record **fresh)
{
    *(bool *)context = old != NULL;
    return old != NULL ? STORE_REMOVE : STORE_KEEP;
}

/* *was_there is whether this call removed it. */
static inline enum store_status
fixture_del(struct store_member *member, struct slice key, bool *was_there)
{
    return store_update(member, key, store_hash(store_of(member), key), fixture_del_change, was_there);
}

static inline const struct record *
fixture_get(struct store_member *member, struct slice key)
{
    return store_find(member, key, store_hash(store_of(member), key));
}

struct fixture_incr {
    struct slice key;
    uint64_t value; /* after the last run */
};

static inline enum store_change
fixture_incr_change(void *context, struct store_member *member, const struct record *old, struct record **fresh)
{
    struct fixture_incr *incr = context;
    incr->value = 0;
    if (old != NULL) {
        memcpy(&incr->value, record_value(old).data, sizeof(incr->value));
    }
    incr->value++;
    if (*fresh == NULL) {
        *fresh = store_record(member, RECORD_STRING, incr->key, sizeof(incr->value), RECORD_NO_EXPIRY);
        if (*fresh == NULL) {
            return STORE_NO_MEMORY;
        }
    }
    memcpy(record_value_room(*fresh), &incr->value, sizeof(incr->value));
    return STORE_PUBLISH;
}

static inline enum store_status
fixture_incr(struct store_member *member, struct slice key, uint64_t *value)
{
    struct fixture_incr incr = { .key = key };
    enum store_status status = store_update(member, key, store_hash(store_of(member), key), fixture_incr_change, &incr);
    *value = incr.value;
    return status;
}

/* The whole index, with no member at work: every key at most once, every slot of a kind that may be there. */
struct fixture_audit {
    uint64_t records, ghosts, tombs, duplicates, misplaced, buckets, longest_chain, unfinished;
    uint64_t bytes; /* of all that can be reached: what memory says it lent must be the same */
};

static inline void
fixture_audit_chain(const struct store *store, uint32_t segment, struct index_bucket *head, uint64_t table,
                    struct fixture_audit *audit)
{
    uint64_t chain = 0;
    bool ended = false;
    for (struct index_bucket *bucket = head; bucket != NULL; bucket = link_bucket(load_relaxed(&bucket->link))) {
        chain++;
        audit->buckets++;
        audit->bytes += bucket != head ? memory_class_bytes(sizeof(*bucket)) : 0;
        audit->unfinished += (load_relaxed(&bucket->link) & (LINK_FORWARDED | LINK_INIT | LINK_FROZEN)) != 0;
        for (uint32_t i = 0; i < INDEX_BUCKET_SLOTS; i++) {
            uint64_t word = load_relaxed(&bucket->slots[i]);
            enum slot_kind kind = slot_kind(word);
            audit->unfinished += (word & SLOT_FROZEN) != 0 || kind == SLOT_INIT;
            audit->misplaced += ended && kind != SLOT_EMPTY; /* a chain fills in order */
            ended = ended || kind == SLOT_EMPTY;
            audit->tombs += kind == SLOT_TOMB;
            if (!slot_has_key(word)) {
                continue;
            }
            struct slice key = record_key(slot_record(word));
            uint64_t hash = store_hash(store, key);
            audit->bytes += memory_class_bytes(record_bytes(slot_record(word)));
            audit->records += slot_is_record(word);
            audit->ghosts += kind == SLOT_GHOST;
            audit->misplaced += index_segment_of(&store->index, hash) != segment || table_bucket(table, hash) != head;
            struct index_place place;
            index_look(&store->index, key, hash, &place);
            audit->duplicates += place.slot != &bucket->slots[i]; /* the look-up finds the first of two */
        }
    }
    audit->longest_chain = MAX(audit->longest_chain, chain);
}

static inline struct fixture_audit
fixture_audit(const struct store *store)
{
    struct fixture_audit audit = { 0 };
    for (uint32_t segment = 0; segment < store->index.segment_count; segment++) {
        uint64_t table = load_acquire(&store->index.directory[segment]);
        audit.unfinished += load_relaxed(&store->index.segments[segment].next) != 0;
        audit.bytes += table != 0 ? memory_class_bytes(sizeof(struct index_bucket) << (table & INDEX_LOG2_MASK)) : 0;
        for (uint32_t b = 0; table != 0 && b < 1u << (table & INDEX_LOG2_MASK); b++) {
            fixture_audit_chain(store, segment, link_bucket(table) + b, table, &audit);
        }
    }
    return audit;
}

/* xorshift64*: reproducible from its seed. */
static inline uint64_t
fixture_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717ull;
}
