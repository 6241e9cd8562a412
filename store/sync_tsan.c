/* The word behind config/sync.h's fences in ThreadSanitizer builds; unused in all others. */
#include "config/sync.h"

extern _Atomic uint64_t sync_tsan_word;
_Atomic uint64_t sync_tsan_word;
