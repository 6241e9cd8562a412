#include "dataplane/clock.h"
#include <time.h>

#define MEASURE_NS 5000000

static int64_t
now_ns(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* One reading of both clocks, close together: the best of some tries. */
static void
read_both(clockid_t id, uint64_t *cycles, int64_t *ns)
{
    uint64_t best = UINT64_MAX;
    *cycles = cycles_now();
    *ns = now_ns(id);
    for (int i = 0; i < 8; i++) {
        uint64_t before = cycles_now();
        int64_t at = now_ns(id);
        uint64_t after = cycles_now();
        if (after - before < best) {
            best = after - before;
            *cycles = before + best / 2;
            *ns = at;
        }
    }
}

static void
clock_set(struct clock *clock, uint64_t cycles, int64_t ns, uint64_t rate)
{
    uint32_t sequence = load_relaxed(&clock->sequence);
    store_relaxed(&clock->sequence, sequence + 1);
    fence_release(); /* pairs with the fence in clock_unix_ns() */
    store_relaxed(&clock->base_cycles, cycles);
    store_relaxed(&clock->base_ns, ns);
    store_relaxed(&clock->ns_per_cycle_q32, rate);
    store_release(&clock->sequence, sequence + 2); /* pairs with the acquire in clock_unix_ns() */
}

double
clock_open(struct clock *clock)
{
    uint64_t cycles, later_cycles;
    int64_t ns, later_ns;
    read_both(CLOCK_MONOTONIC, &cycles, &ns);
    do {
        read_both(CLOCK_MONOTONIC, &later_cycles, &later_ns);
    } while (later_ns - ns < MEASURE_NS);
    double rate = (double)(later_ns - ns) / (double)(later_cycles - cycles);

    int64_t unix_ns;
    read_both(CLOCK_REALTIME, &cycles, &unix_ns);
    clock_set(clock, cycles, unix_ns, (uint64_t)(rate * 4294967296.0));
    return rate;
}

void
clock_refresh(struct clock *clock)
{
    uint64_t cycles;
    int64_t unix_ns;
    read_both(CLOCK_REALTIME, &cycles, &unix_ns);

    uint64_t elapsed_cycles = cycles - load_relaxed(&clock->base_cycles);
    int64_t elapsed_ns = unix_ns - load_relaxed(&clock->base_ns);
    uint64_t old_rate = load_relaxed(&clock->ns_per_cycle_q32);
    uint64_t rate = old_rate;
    if (elapsed_cycles > 0 && elapsed_ns > MEASURE_NS) {
        uint64_t measured = (uint64_t)((double)elapsed_ns / (double)elapsed_cycles * 4294967296.0);
        /* A step of the wall clock is no change of rate. */
        if (measured > old_rate - old_rate / 1000 && measured < old_rate + old_rate / 1000) {
            rate = measured;
        }
    }
    clock_set(clock, cycles, unix_ns, rate);
}

bool
clock_kernel_trusts_cycles(void)
{
#if defined(__x86_64__)
    static const char wanted[] = "tsc";
#else
    static const char wanted[] = "arch_sys_counter";
#endif
    char source[64] = "";
    FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
    if (file == NULL) {
        return false;
    }
    char *line = fgets(source, sizeof(source), file);
    fclose(file);
    return line != NULL && strncmp(source, wanted, sizeof(wanted) - 1) == 0;
}
