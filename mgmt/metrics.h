/* metrics.h - what the management core reads of the lcores: sums of counters, histograms kept from wrapping, rates. */
#pragma once
#include "dataplane/dataplane.h"
#include "mgmt/ctl_wire.h"

enum metrics_kind {
#define METRICS_KIND(id, ...) METRICS_##id,
    CTL_LATENCY_KINDS(METRICS_KIND)
#undef METRICS_KIND
};

/* Histograms of one lcore: COMMAND_COUNT of service, as many of residence, loop, burst, busy, then three of each port.
 */
#define METRICS_PORTS      (LIMIT_PORTS + 1)
#define METRICS_HISTOGRAMS (2 * COMMAND_COUNT + 3 + 3 * METRICS_PORTS)

struct metrics_lcore {
    struct histogram_seen seen[METRICS_HISTOGRAMS];
    struct histogram_snapshot total[METRICS_HISTOGRAMS];
    /* of the last whole second */
    uint64_t busy_cycles;
    double busy_share;
};

struct metrics {
    struct dataplane *dataplane;
    struct metrics_lcore *lcores; /* lcore_count of them; untouched pages stay untouched */
    uint64_t sampled_cycles, requests, rx_bytes, tx_bytes;
    double requests_per_s, rx_bytes_per_s, tx_bytes_per_s; /* of the last whole second */
};

/* All counters of one lcore, or of all of them. */
struct counters_sum {
#define COUNTER_SUM(id, ...) uint64_t id;
    COUNTER_TABLE(COUNTER_SUM)
    GAUGE_TABLE(COUNTER_SUM)
#undef COUNTER_SUM
    uint64_t commands[COMMAND_COUNT], command_errors[COMMAND_COUNT];
    uint64_t sessions_open, sessions_fabric, channels, output_bytes;
};

void metrics_open(struct metrics *metrics, struct dataplane *dataplane);
void metrics_close(struct metrics *metrics);

/* Once a second: histograms and rates. 32-bit buckets wrap after minutes at the earliest. */
void metrics_tick(struct metrics *metrics);

/* Bring the histograms up to date. Cost: only what was ever touched is read. */
void metrics_collect(struct metrics *metrics);

/* Add to `into`, which the caller zeroed, one kind of histogram of a command or a port, `which` (ignored for loop,
 * burst and busy), of one lcore, or of all with lcore = LIMIT_LCORES. */
void metrics_histogram(const struct metrics *metrics, enum metrics_kind kind, uint32_t which, uint32_t lcore,
                       struct histogram_snapshot *into);

/* Add one lcore's counters to `sum`. */
void metrics_add_counters(const struct lcore *lcore, struct counters_sum *sum);
/* Of all lcores. */
void metrics_counters(const struct dataplane *dataplane, struct counters_sum *sum);
/* Of the whole process; 0: unknown. */
uint64_t metrics_resident_bytes(void);
