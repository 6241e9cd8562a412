/* cycles.h - the cycle counter: TSC on x86-64, CNTVCT on arm64. */
#pragma once
#include <stdint.h>

#if defined(__x86_64__)

/* Plain read: may be reordered with its neighbours. For timing. Cost about 11 ns on a VM. */
static inline uint64_t
cycles_now(void)
{
    return __builtin_ia32_rdtsc();
}

/* Ordered read: not taken before any earlier load has its value. For stamps (store/stamp.h). */
static inline uint64_t
cycles_now_ordered(void)
{
    uint32_t low, high;
    __asm__ __volatile__("lfence\n\trdtsc" : "=a"(low), "=d"(high)::"memory");
    return ((uint64_t)high << 32) | low;
}

#elif defined(__aarch64__)

/* As above. The counter is no memory: DMB does not order it, and it may be read long before its turn. */
static inline uint64_t
cycles_now(void)
{
    uint64_t ticks;
    __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}

/* As above: earlier loads complete (DSB), then what follows is fetched anew (ISB). */
static inline uint64_t
cycles_now_ordered(void)
{
    uint64_t ticks;
    __asm__ __volatile__("dsb ishld\n\tisb\n\tmrs %0, cntvct_el0" : "=r"(ticks)::"memory");
    return ticks;
}

#endif
