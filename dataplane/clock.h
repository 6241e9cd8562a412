/* clock.h - Unix time from the cycle counter, so that lcores make no system call for it.
 *
 * The management core measures the counter against the kernel's clock at boot and about once a second after. */
#pragma once
#include "config/base.h"
#include "config/cycles.h"
#include "config/sync.h"

struct clock {
    /* One writer (management core), a sequence lock: odd while it writes. */
    _Alignas(CACHE_LINE) _Atomic uint32_t sequence;
    _Atomic uint64_t base_cycles;
    _Atomic int64_t base_ns;           /* Unix time at base_cycles */
    _Atomic uint64_t ns_per_cycle_q32; /* fixed point, 32 bits of fraction */
};

/* Measure for about 5 ms, then set. Boot. Returns ns per cycle. */
double clock_open(struct clock *clock);
/* Set again; the rate follows the kernel's clock. Management core. */
void clock_refresh(struct clock *clock);
/* What the kernel itself uses: true when its clock source is this counter. */
bool clock_kernel_trusts_cycles(void);

/* Unix ns at `cycles`; 0 when the writer is in the middle: keep the value before. Any thread. Cost: about 2 ns. */
static inline int64_t
clock_unix_ns(const struct clock *clock, uint64_t cycles)
{
    uint32_t before = load_acquire(&clock->sequence); /* pairs with the release that ends clock_set() */
    uint64_t base_cycles = load_relaxed(&clock->base_cycles);
    int64_t base_ns = load_relaxed(&clock->base_ns);
    uint64_t rate = load_relaxed(&clock->ns_per_cycle_q32);
    fence_acquire(); /* pairs with the fence in clock_set(): a new value seen above makes `sequence` differ below */
    if (UNLIKELY((before & 1) || load_relaxed(&clock->sequence) != before)) {
        return 0;
    }
    __extension__ typedef __int128 wide;
    return base_ns + (int64_t)(((wide)(int64_t)(cycles - base_cycles) * (wide)rate) >> 32);
}
