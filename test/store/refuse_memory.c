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

static _Thread_local bool was_refused; /* the thread's last take, here */

/* As memory itself does. */
static void
refused_for(struct memory_cache *cache, size_t reserve_bytes)
{
    cache->refusal = refusals.why;
    cache->refused_bytes = reserve_bytes;
}

static bool
is_drawn(void)
{
    static _Thread_local uint64_t dice;
    dice = (dice == 0 ? (uint64_t)(uintptr_t)&dice : dice) * 6364136223846793005ull + 1442695040888963407ull;
    return (dice >> 33) % refusals.one_in == 0;
}

static bool
is_refused(void)
{
    if (refusals.one_in != 0) {
        was_refused = is_drawn();
        return was_refused;
    }
    uint64_t n = add_relaxed(&refusals.takes, 1) + 1;
    was_refused = n >= refusals.first && n < refusals.last;
    add_relaxed(&refusals.refused, was_refused);
    return was_refused;
}

void *
__wrap_memory_take(struct memory_cache *cache, size_t bytes)
{
    if (!is_refused()) {
        return __real_memory_take(cache, bytes);
    }
    refused_for(cache, 0);
    return NULL;
}

void *
__wrap_memory_take_move(struct memory_cache *cache, size_t bytes)
{
    if (!is_refused()) {
        return __real_memory_take_move(cache, bytes);
    }
    refused_for(cache, 0);
    return NULL;
}

/* Who was refused on purpose, not by chance, finds no larger block either. */
void *
__wrap_memory_take_larger(struct memory_cache *cache, size_t bytes, size_t align)
{
    bool on_purpose = was_refused && refusals.one_in == 0;
    return on_purpose ? NULL : __real_memory_take_larger(cache, bytes, align);
}

void *
__wrap_memory_take_reserve(struct memory_cache *cache, size_t bytes)
{
    if (!is_refused()) {
        return __real_memory_take_reserve(cache, bytes);
    }
    refused_for(cache, bytes);
    return NULL;
}
