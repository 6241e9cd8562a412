/* What -fsanitize=thread makes of plain accesses, and the copies of the C library. There is no more of its run-time
 * library here. Names and meaning: gcc's and clang's instrumentation, tsan_interface.h of LLVM. */
#include "test/sched/sched_private.h"

void *__wrap_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memmove(void *to, const void *from, size_t bytes);
void *__wrap_memset(void *to, int value, size_t bytes);
int __wrap_memcmp(const void *a, const void *b, size_t bytes);

void *
__wrap_memcpy(void *to, const void *from, size_t bytes)
{
    heap_plain(from, bytes, HEAP_READ);
    heap_plain(to, bytes, HEAP_WRITE);
    return __real_memcpy(to, from, bytes);
}

/* clang's names */
void *__tsan_memcpy(void *to, const void *from, size_t bytes) __attribute__((alias("__wrap_memcpy")));
void *__tsan_memmove(void *to, const void *from, size_t bytes) __attribute__((alias("__wrap_memmove")));
void *__tsan_memset(void *to, int value, size_t bytes) __attribute__((alias("__wrap_memset")));

void *
__wrap_memmove(void *to, const void *from, size_t bytes)
{
    heap_plain(from, bytes, HEAP_READ);
    heap_plain(to, bytes, HEAP_WRITE);
    return __real_memmove(to, from, bytes);
}

void *
__wrap_memset(void *to, int value, size_t bytes)
{
    heap_plain(to, bytes, HEAP_WRITE);
    return __real_memset(to, value, bytes);
}

int
__wrap_memcmp(const void *a, const void *b, size_t bytes)
{
    heap_plain(a, bytes, HEAP_READ);
    heap_plain(b, bytes, HEAP_READ);
    return __real_memcmp(a, b, bytes);
}

#define PLAIN(bytes)                                                                                                   \
    void __tsan_read##bytes(void *p);                                                                                  \
    void __tsan_read##bytes(void *p)                                                                                   \
    {                                                                                                                  \
        heap_plain(p, bytes, HEAP_READ);                                                                               \
    }                                                                                                                  \
    void __tsan_unaligned_read##bytes(void *p);                                                                        \
    void __tsan_unaligned_read##bytes(void *p)                                                                         \
    {                                                                                                                  \
        heap_plain(p, bytes, HEAP_READ);                                                                               \
    }                                                                                                                  \
    void __tsan_write##bytes(void *p);                                                                                 \
    void __tsan_write##bytes(void *p)                                                                                  \
    {                                                                                                                  \
        heap_plain(p, bytes, HEAP_WRITE);                                                                              \
    }                                                                                                                  \
    void __tsan_unaligned_write##bytes(void *p);                                                                       \
    void __tsan_unaligned_write##bytes(void *p)                                                                        \
    {                                                                                                                  \
        heap_plain(p, bytes, HEAP_WRITE);                                                                              \
    }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

void __tsan_read_range(void *p, size_t bytes);
void
__tsan_read_range(void *p, size_t bytes)
{
    heap_plain(p, bytes, HEAP_READ);
}

void __tsan_write_range(void *p, size_t bytes);
void
__tsan_write_range(void *p, size_t bytes)
{
    heap_plain(p, bytes, HEAP_WRITE);
}

void __tsan_init(void);
void
__tsan_init(void)
{
}

void __tsan_func_entry(void *caller);
void
__tsan_func_entry(void *caller)
{
}

void __tsan_func_exit(void);
void
__tsan_func_exit(void)
{
}
