/* store/memory.h over simulated blocks: each block is its own, none is used again within an execution. The real one
 * runs in the scenes of scenes_memory.c. */
#include "config/limits.h"
#include "store/memory.h"
#include "test/sched/sched.h"

struct memory_cache {
    bool joined;
};

struct memory {
    struct memory_cache caches[LIMIT_MEMBERS];
    uint64_t limit_bytes;
    const void *emptying_below; /* blocks are taken at rising addresses */
};

int
memory_open(const struct memory_config *config, struct memory **out)
{
    *out = sched_map(sizeof(**out));
    (*out)->limit_bytes = config->limit_bytes;
    return 0;
}

void
memory_close(struct memory *memory)
{
}

struct memory_cache *
memory_join(struct memory *memory, uint32_t index)
{
    return &memory->caches[index];
}

void *
memory_take(struct memory_cache *cache, size_t bytes)
{
    return sched_take(bytes);
}

void *
memory_take_reserve(struct memory_cache *cache, size_t bytes)
{
    return sched_take(bytes);
}

void *
memory_take_move(struct memory_cache *cache, size_t bytes)
{
    return sched_take(bytes);
}

void *
memory_take_larger(struct memory_cache *cache, size_t bytes, size_t align)
{
    return sched_take(bytes);
}

void
memory_give(struct memory_cache *cache, void *block, size_t bytes)
{
    sched_give(block, bytes);
}

void
memory_give_home(struct memory_cache *cache, void *block, size_t bytes)
{
    sched_give(block, bytes);
}

enum memory_refusal
memory_refusal(const struct memory_cache *cache)
{
    return MEMORY_NO_PAGE;
}

size_t
memory_refused_bytes(const struct memory_cache *cache)
{
    return 0;
}

size_t
memory_class_bytes(size_t bytes)
{
    return ALIGN_UP(bytes, 16);
}

bool
memory_over_limit(const struct memory *memory)
{
    return false;
}

void
memory_trim(struct memory_cache *cache)
{
}

void
memory_stats(const struct memory *memory, struct memory_stats *out)
{
    *out = (struct memory_stats){ .limit_bytes = memory->limit_bytes, .used_bytes = sched_lent_bytes() };
}

/* ---- no page is short here, and none sparse until a scene says so ---- */

/* All that is taken by now. */
uint32_t
memory_empty_begin(struct memory *memory)
{
    void *block = sched_take(1);
    memory->emptying_below = block;
    sched_give(block, 1);
    return 1;
}

bool
memory_gives_home(const struct memory_cache *cache)
{
    return false;
}

bool
memory_is_emptying(const struct memory *memory, const void *block)
{
    return (uintptr_t)block < (uintptr_t)memory->emptying_below;
}
