#include "test/store/refuse_memory.h"

struct refusals refusals;

void
refuse_memory(uint64_t n, uint64_t count, enum memory_refusal why)
{
    store_relaxed(&refusals.takes, 0);
    store_relaxed(&refusals.refused, 0);
    refusals.first = n;
    refusals.last = n + count;
    refusals.why = why;
}

static bool
is_drawn(struct memory_cache *cache)
{
    static _Thread_local uint64_t dice;
    dice = (dice == 0 ? (uint64_t)(uintptr_t)&dice : dice) * 6364136223846793005ull + 1442695040888963407ull;
    bool drawn = (dice >> 33) % refusals.one_in == 0;
    if (drawn) {
        cache->refusal = refusals.why;
    }
    return drawn;
}

static bool
is_refused(struct memory_cache *cache)
{
    if (refusals.one_in != 0) {
        return is_drawn(cache);
    }
    uint64_t n = add_relaxed(&refusals.takes, 1) + 1;
    if (n < refusals.first || n >= refusals.last) {
        return false;
    }
    add_relaxed(&refusals.refused, 1);
    cache->refusal = refusals.why;
    return true;
}

void *
__wrap_memory_take(struct memory_cache *cache, size_t bytes)
{
    return is_refused(cache) ? NULL : __real_memory_take(cache, bytes);
}

void *
__wrap_memory_take_move(struct memory_cache *cache, size_t bytes)
{
    return is_refused(cache) ? NULL : __real_memory_take_move(cache, bytes);
}

void *
__wrap_memory_take_reserve(struct memory_cache *cache, size_t bytes)
{
    return is_refused(cache) ? NULL : __real_memory_take_reserve(cache, bytes);
}
