#include "store/stamp.h"
#include "config/cycles.h"

#define STAMP_TICK_NS 20 /* at most: a write costs more, so nobody waits for the clock */
#define STAMP_STEP_NS 50 /* at most: sooner no other core sees a write, whose place in time it must be above */
#define STAMP_TRIES   64
#define STEP_READINGS 1000

#if defined(__aarch64__)
static uint64_t
counter_hz(void)
{
    uint64_t hz;
    __asm__("mrs %0, cntfrq_el0" : "=r"(hz));
    return hz;
}
#else
static uint64_t
counter_hz(void)
{
    return 1000ull * 1000 * 1000 * STAMP_MEMBER_MASK; /* the TSC's 64 cycles need no scaling */
}
#endif

/* Between two values of the counter, which may move less often than its frequency says: an emulator's does so once in a
 * microsecond. */
static uint64_t
counter_step_ns(void)
{
    uint64_t step = UINT64_MAX / 1000, before = cycles_now_ordered();

    for (uint32_t i = 0; i < STEP_READINGS; i++) {
        uint64_t now = cycles_now_ordered();
        step = now != before ? MIN(step, now - before) : step;
        before = now;
    }
    return step * 1000 / MAX(counter_hz() / 1000000, 1ull);
}

void
stamp_clock_init(struct stamp_clock *clock, bool trusted)
{
    clock->trusted = trusted && counter_step_ns() <= STAMP_STEP_NS;
    clock->shift = 0;
    while (clock->shift < 10 && (counter_hz() << clock->shift) / 1000 * STAMP_TICK_NS < 64ull * 1000 * 1000) {
        clock->shift++;
    }
    store_relaxed(&clock->shared, STAMP_MEMBER_MASK + 1);
}

uint64_t
stamp_clock_read(struct stamp_clock *clock)
{
    if (LIKELY(clock->trusted)) {
        /* A counter need not begin at 0 (an emulated one does not); it passes the limit once in 36 years. */
        return (cycles_now_ordered() << clock->shift) & (STAMP_LIMIT - 1) & ~STAMP_MEMBER_MASK;
    }
    /* acquire and release: earlier loads are before it, the cut's load after it */
    return add_acq_rel(&clock->shared, STAMP_MEMBER_MASK + 1) + STAMP_MEMBER_MASK + 1;
}

uint64_t
stamp_take(struct stamp_clock *clock, uint32_t member, uint64_t above)
{
    uint64_t tick = 0;
    for (int try = 0; try < STAMP_TRIES; try++) {
        tick = stamp_clock_read(clock);
        if (LIKELY(tick > (above | STAMP_MEMBER_MASK))) {
            return tick | member;
        }
    }
    /* Only when two cores' counters differ by more than a tick: the order of one key's versions comes first. */
    return ((above | STAMP_MEMBER_MASK) + 1) | member;
}
