/* Growth under load and shrinking back; keys that all expire within one second. */
#include "store/store_layout.h"
#include "test/store/audit.h"
#include "test/store/scenario.h"

#define VALUE_BYTES   32
#define LEFT_KEYS     10000u /* after shrinking */
#define STEADY_KEYS   10000u /* beside those that expire */
#define EXPIRE_IN_MS  1000
#define CHAIN_LONGEST 4
#define BYTES_A_KEY   160 /* of the limit: records, index, two tables of a segment at once */
#define AHEAD_MS      100000000

/* An lcore's keys are those that leave its index when divided by the number of lcores. */
struct growth {
    uint64_t count, target; /* keys of this lcore, now and at the end of the phase */
    uint64_t lost;          /* a look-up that did not find what must be there */
};

static uint64_t
key_number(const struct scenario_lcore *lcore, uint64_t nth)
{
    return nth * lcore->scenario->lcore_count + lcore->index;
}

static void
growth_read_and_overwrite(struct scenario_lcore *lcore, uint32_t reads, uint32_t writes)
{
    struct growth *growth = lcore->own;
    for (uint32_t i = 0; i < reads && growth->count != 0; i++) {
        growth->lost += !scenario_get(lcore, key_number(lcore, workload_below(&lcore->random, growth->count)));
    }
    for (uint32_t i = 0; i < writes && growth->count != 0; i++) {
        uint64_t n = key_number(lcore, workload_below(&lcore->random, growth->count));
        (void)scenario_set(lcore, n, VALUE_BYTES, RECORD_NO_EXPIRY);
    }
}

static bool
growth_insert(struct scenario_lcore *lcore, uint32_t inserts)
{
    struct growth *growth = lcore->own;
    for (uint32_t i = 0; i < inserts && growth->count < growth->target; i++) {
        if (scenario_set(lcore, key_number(lcore, growth->count), VALUE_BYTES, RECORD_NO_EXPIRY) != STORE_OK) {
            break; /* this key again next turn */
        }
        growth->count++;
    }
    return growth->count < growth->target;
}

static bool
load_burst(struct scenario_lcore *lcore)
{
    return growth_insert(lcore, SCENARIO_BURST);
}

static bool
growth_burst(struct scenario_lcore *lcore)
{
    growth_read_and_overwrite(lcore, 8, 4);
    return growth_insert(lcore, 4);
}

static bool
shrink_burst(struct scenario_lcore *lcore)
{
    struct growth *growth = lcore->own;
    growth_read_and_overwrite(lcore, 4, 2);
    for (uint32_t i = 0; i < 10 && growth->count > growth->target; i++) {
        bool was_there;
        if (scenario_delete(lcore, key_number(lcore, growth->count - 1), &was_there) != STORE_OK) {
            break;
        }
        growth->lost += !was_there;
        growth->count--;
    }
    return growth->count > growth->target;
}

static void
growth_targets(struct scenario *scenario, uint64_t keys)
{
    for (uint32_t i = 0; i < scenario->lcore_count; i++) {
        struct growth *growth = scenario->lcores[i].own;
        growth->target = keys / scenario->lcore_count;
    }
}

static uint64_t
growth_lost(const struct scenario *scenario)
{
    uint64_t lost = 0;
    for (uint32_t i = 0; i < scenario->lcore_count; i++) {
        lost += ((const struct growth *)scenario->lcores[i].own)->lost;
    }
    return lost;
}

/* Bytes of index for so many keys and ghosts: a bucket of 7 for 4 to 5, and at least a bucket a segment. */
static uint64_t
index_bytes_most(const struct scenario *scenario, uint64_t keys)
{
    return keys * 32 + scenario->store->index.segment_count * 2ull * sizeof(struct index_bucket);
}

static bool
index_is_small(struct scenario *scenario)
{
    struct store_stats stats = scenario_stats(scenario);
    return stats.index_bytes <= index_bytes_most(scenario, stats.keys + stats.ghosts) && stats.limbo_bytes < 16 * MIB;
}

void
scenario_growth(struct scenario *scenario)
{
    uint64_t lcores = scenario->lcore_count, keys = scenario->size / lcores * lcores;
    scenario_open(scenario, MAX(keys * BYTES_A_KEY, 128 * MIB), 1000, sizeof(struct growth));
    growth_targets(scenario, keys / 10);
    scenario_phase(scenario, "the first tenth", load_burst);
    growth_targets(scenario, keys);
    scenario_phase(scenario, "growing under load", growth_burst);
    bool small = scenario_settle(scenario, "at rest, grown", index_is_small, 60);
    struct store_stats stats = scenario_stats(scenario);
    scenario_expect(scenario, small, "the index of %lu keys and %lu ghosts takes %lu bytes", stats.keys, stats.ghosts,
                    stats.index_bytes);
    scenario_expect(scenario, stats.keys == keys, "%lu keys, expected %lu", stats.keys, keys);
    scenario_expect(scenario, stats.rebuilds > 0, "no segment was rebuilt");
    struct audit audit = audit_store(scenario->store);
    printf("  longest chain %lu buckets, %.1f bytes of index a key\n", audit.longest_chain,
           (double)stats.index_bytes / (double)keys);
    scenario_expect(scenario, audit.longest_chain <= CHAIN_LONGEST, "a chain of %lu buckets", audit.longest_chain);

    growth_targets(scenario, LEFT_KEYS);
    scenario_phase(scenario, "shrinking under load", shrink_burst);
    small = scenario_settle(scenario, "at rest, shrunk", index_is_small, 60);
    stats = scenario_stats(scenario);
    scenario_expect(scenario, small, "the index of %lu keys and %lu ghosts takes %lu bytes", stats.keys, stats.ghosts,
                    stats.index_bytes);
    scenario_expect(scenario, stats.keys == LEFT_KEYS / lcores * lcores, "%lu keys", stats.keys);
    scenario_expect(scenario, growth_lost(scenario) == 0, "%lu look-ups missed", growth_lost(scenario));
    scenario_close(scenario);
}

/* ---- expiry ---- */

/* The keys that expire follow the steady ones. */
static uint64_t
expiring_number(const struct scenario_lcore *lcore, uint64_t nth)
{
    return STEADY_KEYS + key_number(lcore, nth);
}

static bool
expiry_load_burst(struct scenario_lcore *lcore)
{
    struct growth *growth = lcore->own;
    for (uint32_t i = 0; i < SCENARIO_BURST && growth->count < growth->target; i++) {
        int64_t expires_at_ms = AHEAD_MS + (int64_t)(growth->count % EXPIRE_IN_MS);
        uint64_t n = expiring_number(lcore, growth->count);
        if (scenario_set(lcore, n, VALUE_BYTES, expires_at_ms) != STORE_OK) {
            break;
        }
        growth->count++;
    }
    return growth->count < growth->target;
}

/* The sweep goes on while readers and writers do; nobody may see a dead key. */
static bool
expiry_burst(struct scenario_lcore *lcore)
{
    struct growth *growth = lcore->own;
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t nth = workload_below(&lcore->random, growth->count);
        bool dead = lcore->now_ms > AHEAD_MS + (int64_t)(nth % EXPIRE_IN_MS);
        growth->lost += scenario_get(lcore, expiring_number(lcore, nth)) && dead;
    }
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t n = workload_below(&lcore->random, STEADY_KEYS);
        (void)scenario_set(lcore, n, VALUE_BYTES, RECORD_NO_EXPIRY);
        growth->lost += !scenario_get(lcore, n);
    }
    return lcore->turns % 256 != 0 || store_keys(lcore->scenario->store) > STEADY_KEYS;
}

static bool
steady_burst(struct scenario_lcore *lcore)
{
    for (uint32_t n = lcore->index; n < STEADY_KEYS; n += lcore->scenario->lcore_count) {
        if (scenario_set(lcore, n, VALUE_BYTES, RECORD_NO_EXPIRY) != STORE_OK) {
            return true;
        }
    }
    return false;
}

void
scenario_expiry(struct scenario *scenario)
{
    uint64_t lcores = scenario->lcore_count, keys = scenario->size / lcores * lcores;
    scenario_open(scenario, MAX((keys + STEADY_KEYS) * BYTES_A_KEY, 128 * MIB), 1000, sizeof(struct growth));
    growth_targets(scenario, keys);
    scenario_phase(scenario, "loading keys that will expire", expiry_load_burst);
    scenario_phase(scenario, "loading keys that will not", steady_burst);
    scenario_expect(scenario, store_keys(scenario->store) == keys + STEADY_KEYS, "%lu keys",
                    store_keys(scenario->store));

    int64_t now_ms = (int64_t)(workload_wall_s() * 1000);
    scenario->time_ahead_ms = AHEAD_MS - now_ms; /* all expire within the next second */
    double seconds = scenario_phase(scenario, "all expiring within a second", expiry_burst);
    struct store_stats stats = scenario_stats(scenario);
    printf("  %lu keys were swept %.1f s after the first had expired\n", stats.expired_keys, seconds);
    scenario_expect(scenario, stats.expired_keys == keys, "%lu expired keys, expected %lu", stats.expired_keys, keys);
    scenario_expect(scenario, stats.keys == STEADY_KEYS, "%lu keys are left", stats.keys);
    scenario_expect(scenario, growth_lost(scenario) == 0, "%lu look-ups saw what was wrong", growth_lost(scenario));
    scenario_expect(scenario, scenario_settle(scenario, "at rest, expired", index_is_small, 60),
                    "the index of %lu keys takes %lu bytes", scenario_stats(scenario).keys,
                    scenario_stats(scenario).index_bytes);
    scenario_close(scenario);
}
