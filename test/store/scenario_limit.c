/* Full memory, what must work when it is full, and memory that passes from one size to another. */
#include "store/store_layout.h"
#include "test/store/scenario.h"

#define VALUE_BYTES 100
#define SMALL_BYTES 64
#define LARGE_BYTES 8192
#define SHRINK_KEYS 20000u
#define LATER_MS    1000       /* that one command may wait: for the management core and for others to quiesce */
#define OTHER_BYTES (16 * MIB) /* of the process: members, limbo, the rig */
#define LEAVE_EACH  16         /* of so many small values one stays when the large ones come */
#define FULL_MS     300        /* without any room: memory is full for good */
#define SETTLE_S    20

struct fill {
    uint64_t first, count; /* this lcore's keys */
    size_t value_bytes;
    uint64_t done;            /* steps of the phase */
    int64_t refused_since_ms; /* 0: not */
    uint64_t wrong;
    uint32_t leave_each; /* emptying leaves one key of so many; 0: none */
};

static uint64_t
key_number(const struct scenario_lcore *lcore, const struct fill *fill, uint64_t nth)
{
    return (fill->first + nth) * lcore->scenario->lcore_count + lcore->index;
}

static uint64_t
fill_count(const struct scenario *scenario)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < scenario->lcore_count; i++) {
        count += ((const struct fill *)scenario->lcores[i].own)->count;
    }
    return count;
}

static void
expect_nothing_wrong(struct scenario *scenario)
{
    for (uint32_t i = 0; i < scenario->lcore_count; i++) {
        const struct fill *fill = scenario->lcores[i].own;
        scenario_expect(scenario, fill->wrong == 0, "lcore %u: %lu answers were wrong", i, fill->wrong);
    }
}

/* Until memory is refused for good: nothing became free for a while. */
static bool
fill_burst(struct scenario_lcore *lcore)
{
    struct fill *fill = lcore->own;
    for (uint32_t i = 0; i < SCENARIO_BURST; i++) {
        uint64_t n = key_number(lcore, fill, fill->count);
        enum store_status status = scenario_set(lcore, n, fill->value_bytes, RECORD_NO_EXPIRY);
        if (status == STORE_OK) {
            fill->count++;
            fill->refused_since_ms = 0;
        } else {
            fill->refused_since_ms = fill->refused_since_ms != 0 ? fill->refused_since_ms : lcore->now_ms;
            break;
        }
    }
    return fill->refused_since_ms == 0 || lcore->now_ms - fill->refused_since_ms < FULL_MS;
}

/* At the limit: a smaller value, an expiry on the same value, a look-up, a delete; each must be done, at worst later.
 */
static bool
shrink_burst(struct scenario_lcore *lcore)
{
    struct fill *fill = lcore->own;
    uint64_t keys = MIN(fill->count, (uint64_t)SHRINK_KEYS);
    for (uint32_t i = 0; i < 4 && fill->done < keys * 4; i++) {
        uint64_t n = key_number(lcore, fill, fill->done / 4);
        enum store_status status = STORE_OK;
        bool was_there = true;
        switch (fill->done % 4) {
        case 0:
            status = scenario_set(lcore, n, fill->value_bytes / 2, RECORD_NO_EXPIRY);
            break;
        case 1:
            status = scenario_set(lcore, n, fill->value_bytes / 2, lcore->now_ms + 1000000);
            break;
        case 2:
            was_there = scenario_get(lcore, n);
            break;
        case 3:
            status = scenario_delete(lcore, n, &was_there);
            break;
        }
        if (status == STORE_TRY_LATER) {
            break;
        }
        fill->wrong += status != STORE_OK || !was_there;
        fill->done++;
    }
    return fill->done < keys * 4;
}

/* Delete all, or all but one in SIZES_EACH. */
static bool
empty_burst(struct scenario_lcore *lcore)
{
    struct fill *fill = lcore->own;
    for (uint32_t i = 0; i < SCENARIO_BURST && fill->done < fill->count; i++) {
        bool was_there, stays = fill->leave_each != 0 && fill->done % fill->leave_each == 0;
        if (!stays && scenario_delete(lcore, key_number(lcore, fill, fill->done), &was_there) != STORE_OK) {
            break;
        }
        fill->done++;
    }
    return fill->done < fill->count;
}

static bool
below_limit(struct scenario *scenario)
{
    return !store_over_limit(scenario->lcores[0].member) && scenario_stats(scenario).limbo_bytes < MIB;
}

/* ---- scenarios ---- */

/* How many keys were put in. */
static uint64_t
fill_run(struct scenario *scenario, const char *name, uint64_t first, size_t value_bytes)
{
    for (uint32_t i = 0; i < scenario->lcore_count; i++) {
        struct fill *fill = scenario->lcores[i].own;
        *fill = (struct fill){ .first = first, .value_bytes = value_bytes, .wrong = fill->wrong };
    }
    scenario_phase(scenario, name, fill_burst);
    return fill_count(scenario);
}

static void
empty_run(struct scenario *scenario, const char *name, uint64_t first, uint64_t count, uint32_t leave_each)
{
    for (uint32_t i = 0; i < scenario->lcore_count; i++) {
        struct fill *fill = scenario->lcores[i].own;
        *fill = (struct fill){ .first = first, .count = count, .leave_each = leave_each, .wrong = fill->wrong };
    }
    scenario_phase(scenario, name, empty_burst);
}

void
scenario_limit(struct scenario *scenario)
{
    uint64_t before = workload_resident_bytes();
    scenario_open(scenario, scenario->size, 1000, sizeof(struct fill));
    uint64_t keys = fill_run(scenario, "filling to the limit", 0, VALUE_BYTES);
    uint64_t resident = workload_resident_bytes() - before;
    struct store_stats stats = scenario_stats(scenario);
    printf("  %lu keys; resident %.1f MiB more than at the start, limit %.1f MiB, records %.1f MiB\n", keys,
           (double)resident / MIB, (double)scenario->size / MIB, (double)stats.record_bytes / MIB);
    scenario_expect(scenario, stats.memory.populated_bytes + stats.memory.meta_bytes <= scenario->size,
                    "%lu bytes of pages and %lu of their records", stats.memory.populated_bytes,
                    stats.memory.meta_bytes);
    scenario_expect(scenario, resident <= scenario->size + OTHER_BYTES, "%lu resident bytes", resident);
    scenario_expect(scenario, stats.record_bytes + stats.index_bytes >= scenario->size / 4 * 3,
                    "full with %lu bytes of records and %lu of index", stats.record_bytes, stats.index_bytes);

    scenario_phase(scenario, "shrinking commands at the limit", shrink_burst);
    for (uint32_t i = 0; i < scenario->lcore_count; i++) {
        scenario_expect(scenario, scenario->lcores[i].later_ms_max <= LATER_MS, "a command waited %ld ms",
                        scenario->lcores[i].later_ms_max);
    }
    expect_nothing_wrong(scenario);
    scenario_expect(scenario, scenario_settle(scenario, "at rest", below_limit, SETTLE_S), "still over the limit");
    uint64_t again = fill_run(scenario, "filling again", keys, VALUE_BYTES);
    scenario_expect(scenario, again >= MIN(keys, (uint64_t)SHRINK_KEYS) / 2, "only %lu keys found room again", again);
    scenario_close(scenario);
}

void
scenario_sizes(struct scenario *scenario)
{
    uint64_t lcores = scenario->lcore_count;
    scenario_open(scenario, scenario->size, 1000, sizeof(struct fill));
    uint64_t small = fill_run(scenario, "values of 64 B", 0, SMALL_BYTES);
    empty_run(scenario, "all but one in 16 go", 0, small, LEAVE_EACH);
    scenario_expect(scenario, scenario_settle(scenario, "at rest", below_limit, SETTLE_S), "still over the limit");
    uint64_t large = fill_run(scenario, "values of 8 KiB", small, LARGE_BYTES);
    printf("  %lu small values, then %lu large ones: %.1f MiB of %.1f\n", small, large,
           (double)(large * LARGE_BYTES) / MIB, (double)scenario->size / MIB);
    scenario_expect(scenario, large * LARGE_BYTES >= scenario->size / 10 * 6, "only %lu bytes of large values",
                    large * LARGE_BYTES);
    empty_run(scenario, "the large ones go", small, large, 0);
    empty_run(scenario, "the small ones go", 0, small, 0);
    scenario_expect(scenario, scenario_settle(scenario, "at rest", below_limit, SETTLE_S), "still over the limit");
    uint64_t again = fill_run(scenario, "values of 64 B again", small * 2 / lcores, SMALL_BYTES);
    scenario_expect(scenario, again >= small / 10 * 9, "only %lu small values of %lu found room again", again, small);
    scenario_close(scenario);
}
