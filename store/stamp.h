/* stamp.h - when a version was written: ticks of the cycle counter, the member in the low 6 bits.
 *
 * A tick is 64 steps of the (scaled) counter, 15 to 30 ns. Stamps of one key rise strictly; a stamp is never ahead of
 * the clock, so that a cut (cut.h) is above every version published before it. */
#pragma once
#include "config/base.h"
#include "config/sync.h"

#define STAMP_MEMBER_MASK 63ull
#define STAMP_LIMIT       (1ull << 62) /* stamps are below it: versions and cuts use the bits above */

struct stamp_clock {
    bool trusted;   /* read-only after boot: the cycle counter, or the shared counter below */
    uint32_t shift; /* a slow counter is scaled up: a tick must be shorter than a write */
    _Alignas(CACHE_LINE) _Atomic uint64_t shared;
};

/* Boot. `trusted`: the kernel uses the cycle counter as its own clock. It stays so when the counter moves in steps that
 * are short enough. */
void stamp_clock_init(struct stamp_clock *clock, bool trusted);

/* The clock's tick, low 6 bits 0, read after every earlier load has its value. Cost 15 to 30 ns; a shared cache line
 * when the clock is not trusted. */
uint64_t stamp_clock_read(struct stamp_clock *clock);

/* A stamp for member `member`, at least one tick above `above`. Waits for the clock to pass `above` at most a tick. */
uint64_t stamp_take(struct stamp_clock *clock, uint32_t member, uint64_t above);
