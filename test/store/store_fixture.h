/* store_fixture.h - a small store, and the few commands that store tests need. */
#pragma once
#include "store/memory_layout.h"
#include "store/rebuild.h"
#include "store/store.h"
#include "store/store_layout.h"
#include "test/store/audit.h"
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

/* Before a member leaves while another stands still: nothing of it waits for that one. */
static inline void
fixture_settle(struct store_member *leaving, struct store_member *other)
{
    for (uint32_t i = 0; i < 100000; i++) {
        bool busy = load_relaxed(&leaving->limbo.bytes) != 0 || leaving->rebuild.state != REBUILD_IDLE ||
                    leaving->rebuild.wish_head != leaving->rebuild.wish_tail;
        if (!busy && i >= 100) {
            return;
        }
        fixture_turn(leaving);
        fixture_turn(other);
    }
}

static inline struct store_stats
fixture_stats(const struct store *store)
{
    struct store_stats stats;
    store_stats(store, &stats);
    return stats;
}

/* It is emptied, as if it had been chosen. */
static inline void
fixture_mark_page_of(struct store *store, const void *block)
{
    struct memory *memory = store->memory;
    uint32_t page = (uint32_t)(memory_page_of(memory, block) - memory->pages);
    memory->marked[memory->marked_count++] = page;
    or_relaxed(&memory->emptying[page / 64], 1ull << page % 64);
    store_relaxed(&memory->emptying_pages, memory->marked_count);
    add_relaxed(&memory->emptying_round, 1);
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

/* To the first `bytes` of its value: HDEL, ZREM; of all of it, with an expiry: EXPIRE. */
struct fixture_shrink {
    struct slice key;
    size_t bytes;
    int64_t expires_at_ms;
};

static inline enum store_change
fixture_shrink_change(void *context, struct store_member *member, const struct record *old, struct record **fresh)
{
    struct fixture_shrink *shrink = context;
    if (old == NULL) {
        return STORE_KEEP;
    }
    if (*fresh == NULL) {
        *fresh = store_record(member, RECORD_STRING, shrink->key, shrink->bytes, shrink->expires_at_ms);
        if (*fresh == NULL) {
            return STORE_NO_MEMORY;
        }
        memcpy(record_value_room(*fresh), record_value(old).data, shrink->bytes);
    }
    return STORE_PUBLISH;
}

static inline enum store_status
fixture_shrink(struct store_member *member, struct slice key, size_t bytes, int64_t expires_at_ms)
{
    struct fixture_shrink shrink = { key, bytes, expires_at_ms };
    return store_update(member, key, store_hash(store_of(member), key), fixture_shrink_change, &shrink);
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

/* xorshift64*: reproducible from its seed. */
static inline uint64_t
fixture_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717ull;
}
