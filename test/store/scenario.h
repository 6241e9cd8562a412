/* scenario.h - a store at work: lcores on threads of their own, the management core beside them, and what a turn cost.
 *
 * A scenario is phases. In each, every lcore turns: a burst of the phase's operations, quiesce, housekeep. The rig
 * counts units of work (counted.h) of every housekeeping step and every operation, and the time between turns. */
#pragma once
#include "dataplane/histogram.h"
#include "store/store.h"
#include "test/store/workload.h"
#include <pthread.h>

#define SCENARIO_LCORES_MAX 8
#define SCENARIO_BURST      16

/* Most that one step of housekeeping and one operation may do. A unit is 1 to 5 ns when it hits a cache. Of a step, the
 * new table of a segment is up to 4,600: 512 buckets of 8 words. */
#define SCENARIO_HOUSEKEEP_UNITS 8000
#define SCENARIO_OPERATION_UNITS 1000

struct scenario;

struct scenario_lcore {
    struct scenario *scenario;
    struct store_member *member;
    uint32_t index;
    uint64_t random;
    int64_t now_ms; /* of this turn */
    void *own;      /* the scenario's, of this lcore; kept from phase to phase */
    pthread_t thread;
    bool done;
    struct histogram turn_ns, housekeep_units;
    uint64_t turns, operations, later, refused; /* of this phase: all, STORE_TRY_LATER, STORE_OOM */
    uint64_t operation_units_max;
    int64_t later_since_ms, later_ms_max; /* how long one operation waited */
    double cpu_s;                         /* until it had no more to do */
};

/* What an lcore does in a turn; false: it has no more to do, and only turns until all are done. */
typedef bool (*scenario_burst_fn)(struct scenario_lcore *lcore);

struct scenario {
    const char *name;
    uint64_t size; /* keys, operations or bytes: the scenario's own word */
    struct store *store;
    struct scenario_lcore *lcores;
    uint32_t lcore_count;
    uint32_t failures;
    int64_t time_ahead_ms; /* the store's time is that far ahead of the clock; set between phases */
    scenario_burst_fn burst;
    pthread_t manager;
    _Atomic bool stop;
    _Atomic uint32_t running;
    struct histogram_snapshot empty; /* turns of the empty loop */
};

/* A store of that limit, members joined, management core running; the empty loop has been measured. */
void scenario_open(struct scenario *scenario, uint64_t limit_bytes, uint64_t keys_expected, size_t own_bytes);
/* Lets limbo run empty, stops all, audits the whole store, closes it. */
void scenario_close(struct scenario *scenario);

/* Every lcore runs `burst` until it answers false. Prints the phase's turns beside those of the empty loop, and fails
 * when a step or an operation did more than it may. Returns seconds by the wall's clock. */
double scenario_phase(struct scenario *scenario, const char *name, scenario_burst_fn burst);
/* All lcores turn without operations until `good` says so, at most `seconds`. Whether it did. */
bool scenario_settle(struct scenario *scenario, const char *name, bool (*good)(struct scenario *scenario),
                     double seconds);

/* Print and count a failure when `holds` is false. */
void scenario_expect(struct scenario *scenario, bool holds, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

struct store_stats scenario_stats(const struct scenario *scenario);
/* Operations of this phase that took effect. */
static inline uint64_t
scenario_done(const struct scenario_lcore *lcore)
{
    return lcore->operations - lcore->later - lcore->refused;
}
/* CPU nanoseconds of one, waiting included. */
double scenario_ns_each(const struct scenario *scenario);

/* ---- operations: counted; a key is the n-th, its value `value_bytes` of bytes that depend on n ---- */

enum store_status scenario_set(struct scenario_lcore *lcore, uint64_t n, size_t value_bytes, int64_t expires_at_ms);
enum store_status scenario_delete(struct scenario_lcore *lcore, uint64_t n, bool *was_there);
/* False: absent, or not the n-th key's value. */
bool scenario_get(struct scenario_lcore *lcore, uint64_t n);

/* ---- scenarios, each in a file of its family ---- */

void scenario_growth(struct scenario *scenario);
void scenario_expiry(struct scenario *scenario);
void scenario_churn(struct scenario *scenario);
void scenario_one_key(struct scenario *scenario);
void scenario_limit(struct scenario *scenario);
void scenario_sizes(struct scenario *scenario);
