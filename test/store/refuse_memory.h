/* refuse_memory.h - the store's only allocator refuses what a test wants refused.
 *
 * Link with REFUSE_MEMORY_LINK of meson.build (--wrap of the ways to take memory): the product's code is
 * not touched. */
#pragma once
#include "store/memory_layout.h"

struct refusals {
    _Atomic uint64_t takes, refused; /* since refuse_memory(); relaxed counters */
    uint64_t first, last;            /* of them are refused: first <= n < last, counted from 1 */
    enum memory_refusal why;
    uint32_t one_in; /* not 0: instead, one take in so many, drawn by each thread; nothing is counted */
};
extern struct refusals refusals; /* written while one thread takes */

/* Refuse `count` takes from the n-th from now on; 0: none. */
void refuse_memory(uint64_t n, uint64_t count, enum memory_refusal why);

void *__real_memory_take(struct memory_cache *cache, size_t bytes);
void *__wrap_memory_take(struct memory_cache *cache, size_t bytes);
void *__real_memory_take_move(struct memory_cache *cache, size_t bytes);
void *__wrap_memory_take_move(struct memory_cache *cache, size_t bytes);
void *__real_memory_take_larger(struct memory_cache *cache, size_t bytes, size_t align);
void *__wrap_memory_take_larger(struct memory_cache *cache, size_t bytes, size_t align);
void *__real_memory_take_reserve(struct memory_cache *cache, size_t bytes);
void *__wrap_memory_take_reserve(struct memory_cache *cache, size_t bytes);
