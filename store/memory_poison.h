/* memory_poison.h - a free block must not be read: sanitizer builds make that visible, others pay nothing. */
#pragma once
#include "config/base.h"
#include "config/sync.h"

#if defined(__SANITIZE_ADDRESS__)
#define MEMORY_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MEMORY_ASAN 1
#endif
#endif

#if defined(MEMORY_ASAN)
#include <sanitizer/asan_interface.h>
#define memory_hide(block, bytes)     __asan_poison_memory_region((block), (bytes))
#define memory_unpoison(block, bytes) __asan_unpoison_memory_region((block), (bytes))
#define memory_poison(block, bytes)                                                                                    \
    (memory_unpoison((block), (bytes)), memset((block), 0xd5, (bytes)), memory_hide((block), (bytes)))
#define memory_is_free(block) (__asan_address_is_poisoned(block) != 0)
#elif defined(SYNC_TSAN)
/* The write itself is what a stale reader races with. */
#define memory_hide(block, bytes)     ((void)0)
#define memory_poison(block, bytes)   ((void)memset((block), 0xd5, (bytes)))
#define memory_unpoison(block, bytes) ((void)0)
#define memory_is_free(block)         false
#else
#define memory_hide(block, bytes)     ((void)0)
#define memory_poison(block, bytes)   ((void)0)
#define memory_unpoison(block, bytes) ((void)0)
#define memory_is_free(block)         false
#endif

/* While a free block is in a chain, its first word links it to the next. */
static inline void
memory_link(void *block, void *next)
{
    memory_unpoison(block, sizeof(next));
    memcpy(block, &next, sizeof(next));
    memory_hide(block, sizeof(next));
}

static inline void *
memory_linked(void *block)
{
    void *next;
    memory_unpoison(block, sizeof(next));
    memcpy(&next, block, sizeof(next));
    memory_hide(block, sizeof(next));
    return next;
}
