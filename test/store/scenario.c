#include "test/store/scenario.h"
#include "test/store/audit.h"
#include <inttypes.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#define EMPTY_TURNS_S 0.3
#define LIMBO_S       10.0 /* at most, before the audit */

_Thread_local uint64_t counted_units;

/* ---- turns ---- */

static uint64_t
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void
lcore_turn(struct scenario_lcore *lcore, uint64_t *turn_at_ns)
{
    struct scenario *scenario = lcore->scenario;
    if (!lcore->done && !scenario->burst(lcore)) {
        lcore->done = true;
        lcore->cpu_s = workload_cpu_s() - lcore->cpu_s;
        sub_acq_rel(&scenario->running, 1); /* pairs with the load in lcore_main() */
    }
    store_quiesce(lcore->member);
    uint64_t before = counted_units;
    store_housekeep(lcore->member);
    histogram_record(&lcore->housekeep_units, counted_units - before, 1);
    uint64_t now = now_ns();
    histogram_record(&lcore->turn_ns, now - *turn_at_ns, 1);
    *turn_at_ns = now;
    lcore->now_ms = (int64_t)(now / 1000000) + scenario->time_ahead_ms;
    store_set_time(lcore->member, lcore->now_ms);
    lcore->turns++;
}

static void *
lcore_main(void *argument)
{
    struct scenario_lcore *lcore = argument;
    workload_pin(lcore->index);
    store_online(lcore->member);
    uint64_t turn_at_ns = now_ns();
    lcore->now_ms = (int64_t)(turn_at_ns / 1000000) + lcore->scenario->time_ahead_ms;
    store_set_time(lcore->member, lcore->now_ms);
    lcore->cpu_s = workload_cpu_s();
    while (load_acquire(&lcore->scenario->running) != 0) { /* pairs with the last lcore's subtraction */
        lcore_turn(lcore, &turn_at_ns);
    }
    store_offline(lcore->member);
    return NULL;
}

static double
lcores_run(struct scenario *scenario, scenario_burst_fn burst)
{
    double begun = workload_wall_s();
    scenario->burst = burst;
    store_relaxed(&scenario->running, scenario->lcore_count);
    for (uint32_t i = 0; i < scenario->lcore_count; i++) {
        struct scenario_lcore *lcore = &scenario->lcores[i];
        memset(&lcore->turn_ns, 0, sizeof(lcore->turn_ns));
        memset(&lcore->housekeep_units, 0, sizeof(lcore->housekeep_units));
        lcore->turns = lcore->operations = lcore->later = lcore->refused = 0;
        lcore->operation_units_max = 0;
        lcore->later_since_ms = lcore->later_ms_max = 0;
        lcore->done = false;
    }
    for (uint32_t i = 0; i < scenario->lcore_count; i++) {
        CHECK(pthread_create(&scenario->lcores[i].thread, NULL, lcore_main, &scenario->lcores[i]) == 0);
    }
    for (uint32_t i = 0; i < scenario->lcore_count; i++) {
        CHECK(pthread_join(scenario->lcores[i].thread, NULL) == 0);
    }
    return workload_wall_s() - begun;
}

static void *
manager_main(void *argument)
{
    struct scenario *scenario = argument;
    while (!load_relaxed(&scenario->stop)) {
        store_manage(scenario->store);
        usleep(1000);
    }
    return NULL;
}

/* ---- what was seen ---- */

static void
snapshot_add(struct histogram_snapshot *into, const struct histogram *histogram)
{
    static struct histogram_seen seen;
    memset(&seen, 0, sizeof(seen));
    histogram_since(into, &seen, histogram);
}

static void
histogram_print(const char *name, const struct histogram_snapshot *snapshot)
{
    static const double percentiles[] = { 50, 99, 99.9, 99.99 };
    printf("  %-34s %10" PRIu64, name, snapshot->total);
    for (uint32_t i = 0; i < ARRAY_COUNT(percentiles); i++) {
        printf(" %9" PRIu64, histogram_percentile(snapshot, percentiles[i]));
    }
    printf(" %10" PRIu64 "\n", snapshot->max);
}

double
scenario_ns_each(const struct scenario *scenario)
{
    uint64_t operations = 0;
    double cpu_s = 0;
    for (uint32_t i = 0; i < scenario->lcore_count; i++) {
        operations += scenario_done(&scenario->lcores[i]);
        cpu_s += scenario->lcores[i].cpu_s;
    }
    return operations == 0 ? 0 : cpu_s * 1e9 / (double)operations;
}

double
scenario_phase(struct scenario *scenario, const char *name, scenario_burst_fn burst)
{
    static struct histogram_snapshot turns, units;
    memset(&turns, 0, sizeof(turns));
    memset(&units, 0, sizeof(units));
    double seconds = lcores_run(scenario, burst);
    uint64_t operations = 0, later = 0, refused = 0, operation_units = 0;
    int64_t later_ms = 0;
    for (uint32_t i = 0; i < scenario->lcore_count; i++) {
        struct scenario_lcore *lcore = &scenario->lcores[i];
        snapshot_add(&turns, &lcore->turn_ns);
        snapshot_add(&units, &lcore->housekeep_units);
        operations += scenario_done(lcore);
        later += lcore->later;
        refused += lcore->refused;
        later_ms = MAX(later_ms, lcore->later_ms_max);
        operation_units = MAX(operation_units, lcore->operation_units_max);
    }
    struct store_stats stats = scenario_stats(scenario);
    printf("%s, %s: %" PRIu64 " operations in %.1f s, %.0f ns of CPU each; %" PRIu64 " waited (%" PRIi64
           " ms at most), %" PRIu64 " refused; %" PRIu64 " keys, index %.1f MiB, memory in use %.1f MiB of %.1f "
           "populated\n",
           scenario->name, name, operations, seconds, scenario_ns_each(scenario), later, later_ms, refused, stats.keys,
           (double)stats.index_bytes / MIB, (double)stats.memory.used_bytes / MIB,
           (double)stats.memory.populated_bytes / MIB);
    printf("  %-34s %10s %9s %9s %9s %9s %10s\n", "", "turns", "p50", "p99", "p99.9", "p99.99", "max");
    histogram_print("ns between turns", &turns);
    histogram_print("ns between turns, empty loop", &scenario->empty);
    histogram_print("units of a step of housekeeping", &units);
    printf("  most units of one operation         %9" PRIu64 "\n", operation_units);
    scenario_expect(scenario, units.max <= SCENARIO_HOUSEKEEP_UNITS, "a step of housekeeping took %" PRIu64 " units",
                    units.max);
    scenario_expect(scenario, operation_units <= SCENARIO_OPERATION_UNITS, "an operation took %" PRIu64 " units",
                    operation_units);
    fflush(stdout);
    return seconds;
}

void
scenario_expect(struct scenario *scenario, bool holds, const char *format, ...)
{
    if (holds) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    printf("FAILED: %s: ", scenario->name);
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    scenario->failures++;
}

struct store_stats
scenario_stats(const struct scenario *scenario)
{
    struct store_stats stats;
    store_stats(scenario->store, &stats);
    return stats;
}

/* ---- without operations ---- */

static double idle_until_s;
static bool (*idle_good)(struct scenario *scenario);
static _Atomic bool idle_over;

static bool
idle_burst(struct scenario_lcore *lcore)
{
    if (lcore->index == 0 && lcore->turns % 1024 == 0) {
        bool good = idle_good != NULL && idle_good(lcore->scenario);
        store_relaxed(&idle_over, good || workload_wall_s() > idle_until_s);
    }
    return !load_relaxed(&idle_over);
}

static void
idle_begin(bool (*good)(struct scenario *scenario), double seconds)
{
    idle_until_s = workload_wall_s() + seconds;
    idle_good = good;
    store_relaxed(&idle_over, false);
}

bool
scenario_settle(struct scenario *scenario, const char *name, bool (*good)(struct scenario *scenario), double seconds)
{
    idle_begin(good, seconds);
    (void)scenario_phase(scenario, name, idle_burst);
    return good(scenario);
}

/* ---- opening and closing ---- */

void
scenario_open(struct scenario *scenario, uint64_t limit_bytes, uint64_t keys_expected, size_t own_bytes)
{
    struct store_config config = {
        .memory = { .reserve_bytes = limit_bytes,
                    .limit_bytes = limit_bytes,
                    .ahead_bytes = 16 * MIB,
                    .huge_pages = true },
        .keys_expected = keys_expected,
        .members = scenario->lcore_count,
        .trust_cycle_counter = true,
    };
    CHECK(store_open(&config, &scenario->store) == 0);
    scenario->lcores = aligned_alloc(CACHE_LINE, scenario->lcore_count * sizeof(*scenario->lcores));
    CHECK(scenario->lcores != NULL);
    memset(scenario->lcores, 0, scenario->lcore_count * sizeof(*scenario->lcores));
    for (uint32_t i = 0; i < scenario->lcore_count; i++) {
        struct scenario_lcore *lcore = &scenario->lcores[i];
        lcore->scenario = scenario;
        lcore->index = i;
        lcore->random = 0x2545f4914f6cdd1dull * (i + 1);
        lcore->member = store_join(scenario->store, i, "scenario");
        lcore->own = calloc(1, own_bytes);
        CHECK(lcore->member != NULL && lcore->own != NULL);
        store_offline(lcore->member);
    }
    CHECK(pthread_create(&scenario->manager, NULL, manager_main, scenario) == 0);
    idle_begin(NULL, EMPTY_TURNS_S);
    (void)lcores_run(scenario, idle_burst);
    memset(&scenario->empty, 0, sizeof(scenario->empty));
    for (uint32_t i = 0; i < scenario->lcore_count; i++) {
        snapshot_add(&scenario->empty, &scenario->lcores[i].turn_ns);
    }
}

static bool
limbo_is_empty(struct scenario *scenario)
{
    return scenario_stats(scenario).limbo_bytes == 0;
}

void
scenario_close(struct scenario *scenario)
{
    double until_s = workload_wall_s() + LIMBO_S;
    do { /* while one lcore already stands still, another may retire something */
        idle_begin(limbo_is_empty, LIMBO_S);
        (void)lcores_run(scenario, idle_burst);
    } while (!limbo_is_empty(scenario) && workload_wall_s() < until_s);
    store_relaxed(&scenario->stop, true);
    CHECK(pthread_join(scenario->manager, NULL) == 0);
    struct scenario_lcore *first = &scenario->lcores[0];
    store_online(first->member);
    scenario_expect(scenario, audit_passes(first->member, 0), "the audit");
    store_offline(first->member);
    for (uint32_t i = 0; i < scenario->lcore_count; i++) {
        store_online(scenario->lcores[i].member);
        store_leave(scenario->lcores[i].member);
        free(scenario->lcores[i].own);
    }
    store_close(scenario->store);
    free(scenario->lcores);
    store_relaxed(&scenario->stop, false);
}

/* ---- operations ---- */

static enum store_status
operation_counted(struct scenario_lcore *lcore, uint64_t units_before, enum store_status status)
{
    lcore->operation_units_max = MAX(lcore->operation_units_max, counted_units - units_before);
    lcore->operations++;
    lcore->later += status == STORE_TRY_LATER;
    lcore->refused += status == STORE_OOM;
    if (status != STORE_TRY_LATER) {
        lcore->later_since_ms = 0;
    } else if (lcore->later_since_ms == 0) {
        lcore->later_since_ms = lcore->now_ms;
    } else {
        lcore->later_ms_max = MAX(lcore->later_ms_max, lcore->now_ms - lcore->later_since_ms);
    }
    return status;
}

struct set {
    struct slice key;
    uint64_t n;
    size_t value_bytes;
    int64_t expires_at_ms;
};

static enum store_change
set_change(void *context, struct store_member *member, const struct record *old, struct record **fresh)
{
    const struct set *set = context;
    if (*fresh == NULL) {
        *fresh = store_record(member, RECORD_STRING, set->key, set->value_bytes, set->expires_at_ms);
        if (*fresh == NULL) {
            return STORE_NO_MEMORY;
        }
        uint8_t *value = record_value_room(*fresh);
        memset(value, (int)(set->n & 0xff), set->value_bytes);
        memcpy(value, &set->n, MIN(set->value_bytes, sizeof(set->n)));
    }
    return STORE_PUBLISH;
}

enum store_status
scenario_set(struct scenario_lcore *lcore, uint64_t n, size_t value_bytes, int64_t expires_at_ms)
{
    uint8_t text[WORKLOAD_KEY_BYTES];
    struct set set = { workload_key(text, n), n, value_bytes, expires_at_ms };
    uint64_t hash = store_hash(lcore->scenario->store, set.key), before = counted_units;
    return operation_counted(lcore, before, store_update(lcore->member, set.key, hash, set_change, &set));
}

static enum store_change
delete_change(void *context, struct store_member *member, const struct record *old, struct record **fresh)
{
    *(bool *)context = old != NULL;
    return old != NULL ? STORE_REMOVE : STORE_KEEP;
}

enum store_status
scenario_delete(struct scenario_lcore *lcore, uint64_t n, bool *was_there)
{
    uint8_t text[WORKLOAD_KEY_BYTES];
    struct slice key = workload_key(text, n);
    uint64_t hash = store_hash(lcore->scenario->store, key), before = counted_units;
    return operation_counted(lcore, before, store_update(lcore->member, key, hash, delete_change, was_there));
}

bool
scenario_get(struct scenario_lcore *lcore, uint64_t n)
{
    uint8_t text[WORKLOAD_KEY_BYTES];
    struct slice key = workload_key(text, n);
    uint64_t hash = store_hash(lcore->scenario->store, key), before = counted_units;
    const struct record *record = store_find(lcore->member, key, hash);
    (void)operation_counted(lcore, before, STORE_OK);
    struct slice value = record != NULL ? record_value(record) : slice_of(NULL, 0);
    return record != NULL && memcmp(value.data, &n, MIN(value.bytes, sizeof(n))) == 0;
}
