/* The management core's part of eviction: the clock, and how many bytes are wanted. */
#include "store/evict.h"

#define CLOCK_SHARE   64    /* the clock moves on when 1 / so many of the keys were used */
#define CLOCK_CALM_MS 2000  /* and not sooner than so, while memory is far from full: ages last longer */
#define CLOCK_OFF_MS  16000 /* a step without eviction: readers write the byte seldom */

static bool
is_volatile(enum store_policy policy)
{
    return policy >= STORE_VOLATILE_LRU;
}

/* Uses since the clock last moved: reads that found another byte, and records written, of which only bytes are known.
 */
static uint64_t
uses_since(struct store *store, const struct store_stats *stats, bool move)
{
    struct store_evict *evict = &store->evict;
    uint64_t touches = 0, taken = memory_taken(store->memory);
    for (uint32_t i = 0; i < store->member_count; i++) {
        touches += load_relaxed(&store->members[i].counters.touches);
    }
    uint64_t record_bytes = MAX(stats->record_bytes / MAX(stats->keys, 1ull), 1ull);
    uint64_t uses = touches - evict->touches_seen + (taken - evict->taken_seen) / record_bytes;
    if (move) {
        evict->touches_seen = touches;
        evict->taken_seen = taken;
    }
    return uses;
}

static void
clock_manage(struct store *store, const struct store_stats *stats, uint64_t now_ms)
{
    struct store_evict *evict = &store->evict;
    enum store_policy policy = evict_policy(store);
    bool lfu = policy == STORE_ALLKEYS_LFU || policy == STORE_VOLATILE_LFU;
    const struct memory_stats *memory = &stats->memory;
    bool calm = memory->used_bytes < (memory->limit_bytes - memory->kept_bytes) / 4 * 3;
    uint64_t calm_ms = calm ? CLOCK_CALM_MS : 0;
    bool long_enough = now_ms - evict->clock_ms >= (policy == STORE_NOEVICTION ? CLOCK_OFF_MS : calm_ms);
    if (long_enough && uses_since(store, stats, false) >= stats->keys / CLOCK_SHARE) {
        (void)uses_since(store, stats, true);
        evict->clock_ms = now_ms;
        store_relaxed(&evict->clock, (uint8_t)((load_relaxed(&evict->clock) + 1) % EVICT_CLOCK));
    }
    store_relaxed(&evict->mark, lfu ? EVICT_MARK_LFU : load_relaxed(&evict->clock));
}

void
evict_manage(struct store *store, const struct store_stats *stats, uint64_t now_ms)
{
    struct store_evict *evict = &store->evict;
    enum store_policy policy = evict_policy(store);
    uint64_t eligible = is_volatile(policy) ? stats->keys_with_expiry : stats->keys;
    bool able = policy != STORE_NOEVICTION && eligible != 0;
    memory_set_evicting(store->memory, able);
    store_relaxed(&evict->wanted, able ? (int64_t)memory_excess(store->memory, stats->limbo_bytes) : 0);
    clock_manage(store, stats, now_ms);
}
