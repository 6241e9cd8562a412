/* Keys that come and go: a cache of ever fresh ones, and one that comes and goes for ever. */
#include "store/store_layout.h"
#include "test/store/audit.h"
#include "test/store/scenario.h"

#define VALUE_BYTES   32
#define LIVE_KEYS     100000u
#define CHAIN_LONGEST 4
#define LIMIT_BYTES   (256 * MIB)

struct churn {
    uint64_t fresh, old, target; /* next key to come, next to go; fresh ends at target */
    uint64_t wrong;              /* a live key not found, a gone one found */
};

static uint64_t
key_number(const struct scenario_lcore *lcore, uint64_t nth)
{
    return nth * lcore->scenario->lcore_count + lcore->index;
}

static void
churn_targets(struct scenario *scenario, uint64_t fresh)
{
    for (uint32_t i = 0; i < scenario->lcore_count; i++) {
        struct churn *churn = scenario->lcores[i].own;
        churn->target = fresh;
    }
}

static uint64_t
churn_wrong(const struct scenario *scenario)
{
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < scenario->lcore_count; i++) {
        wrong += ((const struct churn *)scenario->lcores[i].own)->wrong;
    }
    return wrong;
}

/* Fill up to LIVE_KEYS, then each fresh key drives out the oldest. */
static bool
churn_burst(struct scenario_lcore *lcore)
{
    struct churn *churn = lcore->own;
    uint64_t live = LIVE_KEYS / lcore->scenario->lcore_count;
    for (uint32_t i = 0; i < SCENARIO_BURST / 2 && churn->fresh < churn->target; i++) {
        bool was_there;
        if (churn->fresh - churn->old >= live) {
            if (scenario_delete(lcore, key_number(lcore, churn->old), &was_there) != STORE_OK) {
                break;
            }
            churn->wrong += !was_there;
            churn->old++;
        }
        if (scenario_set(lcore, key_number(lcore, churn->fresh), VALUE_BYTES, RECORD_NO_EXPIRY) != STORE_OK) {
            break;
        }
        churn->fresh++;
    }
    if (churn->fresh > churn->old) {
        uint64_t nth = churn->old + workload_below(&lcore->random, churn->fresh - churn->old);
        churn->wrong += !scenario_get(lcore, key_number(lcore, nth));
    }
    churn->wrong += churn->old > 0 && scenario_get(lcore, key_number(lcore, churn->old - 1));
    return churn->fresh < churn->target;
}

/* What a write costs that changes nothing but the value: the measure for the others. */
static bool
overwrite_burst(struct scenario_lcore *lcore)
{
    struct churn *churn = lcore->own;
    for (uint32_t i = 0; i < SCENARIO_BURST; i++) {
        uint64_t nth = churn->old + workload_below(&lcore->random, churn->fresh - churn->old);
        (void)scenario_set(lcore, key_number(lcore, nth), VALUE_BYTES, RECORD_NO_EXPIRY);
    }
    return scenario_done(lcore) < churn->target;
}

static void
churn_expect_flat(struct scenario *scenario, const struct store_stats *before)
{
    struct store_stats after = scenario_stats(scenario);
    struct audit audit = audit_store(scenario->store);
    printf(
        "  longest chain %lu buckets, %lu ghosts, %lu rebuilds; in use %.2f MiB, of it index %.2f; before %.2f, %.2f\n",
        audit.longest_chain, audit.ghosts, after.rebuilds, (double)after.memory.used_bytes / MIB,
        (double)after.index_bytes / MIB, (double)before->memory.used_bytes / MIB, (double)before->index_bytes / MIB);
    scenario_expect(scenario, audit.longest_chain <= CHAIN_LONGEST, "a chain of %lu buckets", audit.longest_chain);
    scenario_expect(scenario, after.index_bytes <= before->index_bytes * 5 / 4 + 64 * KIB,
                    "the index grew to %lu bytes", after.index_bytes);
    scenario_expect(scenario, after.memory.used_bytes <= before->memory.used_bytes * 5 / 4 + MIB,
                    "memory grew to %lu bytes", after.memory.used_bytes);
}

void
scenario_churn(struct scenario *scenario)
{
    uint64_t fresh = MAX(scenario->size, 4 * LIVE_KEYS) / scenario->lcore_count;
    scenario_open(scenario, LIMIT_BYTES, 1000, sizeof(struct churn));
    churn_targets(scenario, fresh / 2);
    scenario_phase(scenario, "the first half", churn_burst);
    struct store_stats half = scenario_stats(scenario);
    churn_targets(scenario, fresh);
    scenario_phase(scenario, "the second half", churn_burst);
    double churn_ns = scenario_ns_each(scenario);
    churn_expect_flat(scenario, &half);
    uint64_t live = LIVE_KEYS / scenario->lcore_count * scenario->lcore_count;
    scenario_expect(scenario, store_keys(scenario->store) == live, "%lu keys", store_keys(scenario->store));
    scenario_expect(scenario, churn_wrong(scenario) == 0, "%lu look-ups and deletes were wrong", churn_wrong(scenario));
    scenario_phase(scenario, "overwriting the live ones", overwrite_burst);
    printf("  a fresh key, or one that goes, costs %.0f ns; overwriting one %.0f ns\n", churn_ns,
           scenario_ns_each(scenario));
    scenario_close(scenario);
}

/* ---- one key ---- */

/* The first lcore makes it come and go, the others look. Its chain also holds a neighbour that must stay. */
static bool
one_key_burst(struct scenario_lcore *lcore)
{
    struct churn *churn = lcore->own;
    const struct churn *first = lcore->scenario->lcores[0].own;
    bool was_there;
    if (lcore->index != 0) {
        for (uint32_t i = 0; i < SCENARIO_BURST; i++) {
            (void)scenario_get(lcore, 0);
        }
        churn->wrong += !scenario_get(lcore, 1);
        return !lcore->scenario->lcores[0].done;
    }
    for (uint32_t i = 0; i < SCENARIO_BURST / 2 && churn->fresh < first->target; i++) {
        if (churn->fresh == churn->old) {
            if (scenario_set(lcore, 0, VALUE_BYTES, RECORD_NO_EXPIRY) != STORE_OK) {
                break;
            }
            churn->fresh++;
        }
        if (scenario_delete(lcore, 0, &was_there) != STORE_OK) {
            break;
        }
        churn->wrong += !was_there;
        churn->old++;
    }
    return churn->old < churn->target;
}

static bool
neighbour_burst(struct scenario_lcore *lcore)
{
    return lcore->index == 0 && scenario_set(lcore, 1, VALUE_BYTES, RECORD_NO_EXPIRY) != STORE_OK;
}

void
scenario_one_key(struct scenario *scenario)
{
    scenario_open(scenario, LIMIT_BYTES, 1000, sizeof(struct churn));
    scenario_phase(scenario, "a neighbour", neighbour_burst);
    churn_targets(scenario, scenario->size / 10);
    scenario_phase(scenario, "the first tenth", one_key_burst);
    struct store_stats tenth = scenario_stats(scenario);
    churn_targets(scenario, scenario->size);
    scenario_phase(scenario, "the rest", one_key_burst);
    printf("  each time that the key came or went: %.0f ns\n",
           scenario->lcores[0].cpu_s * 1e9 / (double)scenario_done(&scenario->lcores[0]));
    churn_expect_flat(scenario, &tenth);
    scenario_expect(scenario, store_keys(scenario->store) == 1, "%lu keys", store_keys(scenario->store));
    scenario_expect(scenario, churn_wrong(scenario) == 0, "%lu look-ups and deletes were wrong", churn_wrong(scenario));
    scenario_close(scenario);
}
