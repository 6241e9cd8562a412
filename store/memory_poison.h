/* memory_poison.h - a free block must be neither read nor written: sanitizer builds make that visible. A build with
 * MEMORY_FILLED finds what was written to a free block when it is taken again, and what is read from one is not what
 * was there. All others pay nothing. */
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

#define MEMORY_FILL 0xd5
#if defined(MEMORY_ASAN) || defined(SYNC_TSAN) || defined(MEMORY_FILLED)
#define MEMORY_POISONS 1 /* this build does */
#else
#define MEMORY_POISONS 0
#endif

#if defined(MEMORY_ASAN)
#include <sanitizer/asan_interface.h>
#define memory_hide(block, bytes)     __asan_poison_memory_region((block), (bytes))
#define memory_unpoison(block, bytes) __asan_unpoison_memory_region((block), (bytes))
#define memory_poison(block, bytes)                                                                                    \
    (memory_unpoison((block), (bytes)), memset((block), MEMORY_FILL, (bytes)), memory_hide((block), (bytes)))
#define memory_is_free(block)             (__asan_address_is_poisoned(block) != 0)
#define memory_check_filled(block, bytes) ((void)0)
#elif defined(SYNC_TSAN) || defined(MEMORY_FILLED)
/* To ThreadSanitizer the write itself is what a stale reader races with. */
#define memory_hide(block, bytes)         ((void)0)
#define memory_poison(block, bytes)       ((void)memset((block), MEMORY_FILL, (bytes)))
#define memory_unpoison(block, bytes)     ((void)0)
#define memory_is_free(block)             false
#define memory_check_filled(block, bytes) CHECK(memory_is_filled((block), (bytes)))
#else
#define memory_hide(block, bytes)         ((void)0)
#define memory_poison(block, bytes)       ((void)0)
#define memory_unpoison(block, bytes)     ((void)0)
#define memory_is_free(block)             false
#define memory_check_filled(block, bytes) ((void)0)
#endif

/* All but the first word, which may have been a link. */
static inline bool
memory_is_filled(const void *block, size_t bytes)
{
    for (size_t i = sizeof(void *); i < bytes; i++) {
        if (((const uint8_t *)block)[i] != MEMORY_FILL) {
            return false;
        }
    }
    return true;
}

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

/* A free block is taken: nobody wrote to it meanwhile. */
static inline void
memory_claim(void *block, size_t bytes)
{
    memory_unpoison(block, bytes);
    memory_check_filled(block, bytes);
}
