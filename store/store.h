/* store.h - the key/value store that all lcores share. Knows no wire format and no loop.
 *
 * Every write builds a new version and publishes it by one CAS; readers write nothing shared. Members (lcores, helpers)
 * report quiescence once a turn; a record pointer is valid from the call that returned it until the caller's next
 * store_quiesce() or store_offline(). */
#pragma once
#include "config/base.h"
#include "store/memory.h"
#include "store/record.h"

struct store;
struct store_member;

struct store_config {
    struct memory_config memory;
    uint64_t keys_expected;   /* sizes the index at boot; more keys make chains longer, never wrong */
    uint32_t members;         /* threads that will join, at most LIMIT_MEMBERS */
    bool trust_cycle_counter; /* false: a shared counter gives the stamps */
};

/* 0 or -errno. Management thread, before any member. */
int store_open(const struct store_config *config, struct store **out);
void store_close(struct store *store); /* after every member left */

/* Become member `index` (0 .. members-1). NUMA placement is the caller's thread's. NULL: index taken or no memory. */
struct store_member *store_join(struct store *store, uint32_t index, const char *name);
void store_leave(struct store_member *member);

struct memory_cache *store_memory(struct store_member *member);
bool store_over_limit(const struct store_member *member);

/* ---- the turn ---- */

/* Every pointer borrowed before dies here. Once a turn; cost one release store and, seldom, one batch check. */
void store_quiesce(struct store_member *member);
/* Around a sleep: holds no borrowed pointer and is not waited for. Full fences inside. */
void store_offline(struct store_member *member);
void store_online(struct store_member *member);
/* The time commands of this burst see: Unix ms. */
void store_set_time(struct store_member *member, int64_t now_ms);
/* One bounded step (some microseconds): frees ripe limbo, sweeps expired keys, old ghosts, flushed records. */
void store_housekeep(struct store_member *member);
/* The sweep is finding dead keys: an idle member that goes on turning, rather than sleep, frees their memory sooner. */
bool store_wants_turns(const struct store_member *member);

/* ---- look-ups ---- */

struct store *store_of(const struct store_member *member);
uint64_t store_hash(const struct store *store, struct slice key);
/* Hash `count` keys, and bring their buckets, then their records, into cache; a NULL is
 * passed over. Hints: who looks a key up later looks in the index again.
 * Cost: 77 ns a look-up at 8 M keys in bursts of 32, 336 ns without. */
void store_prefetch(const struct store_member *member, const struct slice *const *keys, uint64_t *hashes,
                    uint32_t count);

/* The live version, or NULL: absent, expired or flushed. Touches the recency byte when it changes. */
const struct record *store_find(struct store_member *member, struct slice key, uint64_t hash);

/* As store_find, with a version that is equal in two views only if the key did not change in between, also when it was
 * absent both times. For reads of several keys: two equal collects are one point in time. */
struct store_view {
    const struct record *record;
    uint64_t version;
};
struct store_view store_view(struct store_member *member, struct slice key, uint64_t hash);

/* ---- changes ---- */

enum store_change {
    STORE_KEEP,      /* leave the key as it is */
    STORE_PUBLISH,   /* *fresh takes its place */
    STORE_REMOVE,    /* the key goes */
    STORE_NO_MEMORY, /* store_record() answered NULL */
};

/* A pure function from the old version to the new: may run several times, each time against what is there now; it
 * leaves its result in *context and has no other effect. `old` is NULL when absent, expired or flushed. *fresh is NULL
 * on the first run; on a later run it is the record of the run before, to be returned again, or replaced (the store
 * gives it back). */
typedef enum store_change (*store_change_fn)(void *context, struct store_member *member, const struct record *old,
                                             struct record **fresh);

enum store_status {
    STORE_OK,        /* the last run's answer took effect, or it was STORE_KEEP */
    STORE_TRY_LATER, /* no populated page, limbo too full, or a rebuild waits for either: nothing happened; park the
                      * session for a turn */
    STORE_OOM,       /* memory.limit: nothing happened */
};

/* Who goes when memory is short; the order of Redis' names in memory.policy. */
enum store_policy {
    STORE_NOEVICTION,
    STORE_ALLKEYS_LRU,
    STORE_ALLKEYS_LFU,
    STORE_ALLKEYS_RANDOM,
    STORE_VOLATILE_LRU, /* from here on, only keys with an expiry */
    STORE_VOLATILE_LFU,
    STORE_VOLATILE_RANDOM,
    STORE_VOLATILE_TTL,
};

/* Read, change and publish one key: linearizable. Never waits; bounded retries, then STORE_TRY_LATER. */
enum store_status store_update(struct store_member *member, struct slice key, uint64_t hash, store_change_fn change,
                               void *context);

/* A new, unpublished record with its key copied in and value_bytes of room. Only inside a store_change_fn.
 * expires_at_ms: Unix ms or RECORD_NO_EXPIRY. NULL: no memory. */
struct record *store_record(struct store_member *member, enum record_type type, struct slice key, size_t value_bytes,
                            int64_t expires_at_ms);

/* What logs and replication will hang on; nobody does today. Once for every change of a key, with the new version, or
 * NULL when the key went: removed, evicted, or swept because it had expired. NULL key.data: everything stamped up to
 * `stamp` is gone, a flush. Called by the member that made the change, after it was published, within the same turn;
 * calls of several members come in any order, and the stamps of one key give it: they rise strictly.
 * Not told, because nothing changes: a version that is copied to other memory, or to another table, keeps its stamp.
 * Not told at its moment: that a version expires; it carries its time, and until it is swept a change that finds it
 * expired is told as the first of its key. Flushes that overlap may be told as the last of them only: it covers them.
 * test/store/race_published.c replays this to the live state. */
typedef void (*store_published_fn)(void *context, struct slice key, uint64_t stamp, const struct record *record);
void store_set_published(struct store *store, store_published_fn published, void *context); /* before members join */

/* Give a memory_take()n block back once no member can hold a pointer to it any more: for lock-free structures outside
 * the store (the channel directory). Bounded limbo: counted like the store's own. */
void store_retire(struct store_member *member, void *block, size_t bytes);
/* Before unlinking: whether so many blocks (at most STORE_RETIRE_BLOCKS) may be retired now. False: try next turn. */
bool store_may_retire(const struct store_member *member, uint32_t blocks);
#define STORE_RETIRE_BLOCKS 256

/* Every key stamped before now is gone, at one moment for everybody; memory is freed later in bounded steps. */
enum store_status store_flush(struct store_member *member);

/* ---- for the management core ---- */

/* Stamps come from the cycle counter: it is to be trusted, and moves in short steps. */
bool store_uses_cycles(const struct store *store);

struct store_stats {
    struct memory_stats memory;
    uint64_t keys, keys_with_expiry;
    uint64_t record_bytes, ghost_bytes, index_bytes, limbo_bytes, ghosts;
    uint64_t expired_keys, evicted_keys, hits, misses;
    uint64_t flushes, update_retries, try_laters, oom_refusals;
    uint64_t chain_buckets_max; /* longest chain met by housekeeping */
    uint64_t rebuilds;          /* segments that got a new table */
    uint64_t moved_records;     /* out of pages that are being emptied */
    uint64_t fixed_bytes;       /* directory, members and limbo's lists: mapped at boot, within memory.limit */
    uint64_t other_bytes;       /* of memory.used_bytes: none of the four above, but sessions and channels */
    uint64_t overhead_bytes;    /* fixed_bytes without the directory, and the records of pages */
    /* What counts against memory.limit: record + ghost + index + limbo + other + overhead bytes, memory.slack_bytes and
     * memory.free_page_bytes; exact while nobody changes them. */
    uint64_t total_bytes;
    int32_t stalled_member; /* index, or -1: has not quiesced for STORE_STALL_MS */
    uint64_t stalled_ms;
};
#define STORE_STALL_MS 1000
/* Any thread; reads counters only; not one moment in time. */
void store_stats(const struct store *store, struct store_stats *out);
uint64_t store_keys(const struct store *store); /* DBSIZE: cheap sum of members' counters */
/* Management core: memory_manage() and the stalled member. Returns whether it is wanted again within a millisecond. */
bool store_manage(struct store *store);
/* memory.limit and memory.policy, live. Management core. What is above a lowered limit goes, by the policy; with
 * STORE_NOEVICTION nothing does, and writes are refused until commands have removed enough. */
void store_set_limit(struct store *store, uint64_t limit_bytes);
void store_set_policy(struct store *store, enum store_policy policy);
/* Of the last store_stats(): the name that the stalled member joined with. */
const char *store_member_name(const struct store *store, uint32_t index);
