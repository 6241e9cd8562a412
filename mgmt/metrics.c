#include "mgmt/metrics.h"
#include "config/cycles.h"
#include <sys/mman.h>
#include <unistd.h>

static uint32_t
histogram_index(enum metrics_kind kind, uint32_t which)
{
    switch (kind) {
    case METRICS_SERVICE:
        return which;
    case METRICS_RESIDENCE:
        return COMMAND_COUNT + which;
    case METRICS_LOOP:
        return 2 * COMMAND_COUNT;
    case METRICS_BURST:
        return 2 * COMMAND_COUNT + 1;
    case METRICS_BUSY:
        return 2 * COMMAND_COUNT + 2;
    case METRICS_PORT_BURST:
    case METRICS_PORT_DEPTH:
    case METRICS_PORT_STALLED:
        break;
    }
    return 2 * COMMAND_COUNT + 3 + (uint32_t)(kind - METRICS_PORT_BURST) * METRICS_PORTS + which;
}

static size_t
lcores_bytes(const struct metrics *metrics)
{
    return metrics->dataplane->lcore_count * sizeof(struct metrics_lcore);
}

void
metrics_open(struct metrics *metrics, struct dataplane *dataplane)
{
    memset(metrics, 0, sizeof(*metrics));
    metrics->dataplane = dataplane;
    metrics->lcores =
        mmap(NULL, lcores_bytes(metrics), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(metrics->lcores != MAP_FAILED);
    metrics->sampled_cycles = cycles_now();
}

void
metrics_close(struct metrics *metrics)
{
    munmap(metrics->lcores, lcores_bytes(metrics));
}

/* ---- histograms ---- */

static void
collect(struct metrics_lcore *lcore, uint32_t index, const struct histogram *histogram)
{
    bool touched = false;

    for (uint32_t word = 0; word < HISTOGRAM_BITMAP_WORDS; word++) {
        touched = touched || load_relaxed(&histogram->touched[word]) != 0;
    }
    if (touched) { /* else this would take pages for nothing */
        histogram_since(&lcore->total[index], &lcore->seen[index], histogram);
    }
}

void
metrics_collect(struct metrics *metrics)
{
    for (uint32_t i = 0; i < metrics->dataplane->lcore_count; i++) {
        const struct lcore_histograms *from = metrics->dataplane->lcores[i]->histograms;
        struct metrics_lcore *lcore = &metrics->lcores[i];
        for (uint32_t command = 0; command < COMMAND_COUNT; command++) {
            collect(lcore, histogram_index(METRICS_SERVICE, command), &from->service[command]);
            collect(lcore, histogram_index(METRICS_RESIDENCE, command), &from->residence[command]);
        }
        collect(lcore, histogram_index(METRICS_LOOP, 0), &from->loop);
        collect(lcore, histogram_index(METRICS_BURST, 0), &from->burst);
        for (uint32_t port = 0; port < METRICS_PORTS; port++) {
            collect(lcore, histogram_index(METRICS_PORT_BURST, port), &from->ports[port].burst);
            collect(lcore, histogram_index(METRICS_PORT_DEPTH, port), &from->ports[port].depth);
            collect(lcore, histogram_index(METRICS_PORT_STALLED, port), &from->ports[port].stalled);
        }
    }
}

void
metrics_histogram(const struct metrics *metrics, enum metrics_kind kind, uint32_t which, uint32_t lcore,
                  struct histogram_snapshot *into)
{
    for (uint32_t i = 0; i < metrics->dataplane->lcore_count; i++) {
        if (lcore == LIMIT_LCORES || lcore == i) {
            histogram_merge(into, &metrics->lcores[i].total[histogram_index(kind, which)]);
        }
    }
}

/* ---- counters ---- */

void
metrics_add_counters(const struct lcore *lcore, struct counters_sum *sum)
{
    const struct lcore_counters *counters = lcore->counters;

#define COUNTER_ADD(id, ...) sum->id += load_relaxed(&counters->id);
    COUNTER_TABLE(COUNTER_ADD)
    GAUGE_TABLE(COUNTER_ADD)
#undef COUNTER_ADD
    for (uint32_t command = 0; command < COMMAND_COUNT; command++) {
        sum->commands[command] += load_relaxed(&counters->commands[command]);
        sum->command_errors[command] += load_relaxed(&counters->command_errors[command]);
    }
    sum->sessions_open += load_relaxed(&counters->sessions_open);
    sum->sessions_fabric += load_relaxed(&counters->sessions_fabric);
    sum->channels += load_relaxed(&counters->channels);
    sum->output_bytes += load_relaxed(&counters->output_bytes);
}

void
metrics_counters(const struct dataplane *dataplane, struct counters_sum *sum)
{
    memset(sum, 0, sizeof(*sum));
    for (uint32_t i = 0; i < dataplane->lcore_count; i++) {
        metrics_add_counters(dataplane->lcores[i], sum);
    }
}

/* ---- the process ---- */

uint64_t
metrics_resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file != NULL) {
        if (fscanf(file, "%*u %llu", &pages) != 1) {
            pages = 0;
        }
        fclose(file);
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- once a second ---- */

/* What is measured here, not by an lcore. */
static void
snapshot_add(struct histogram_snapshot *snapshot, uint64_t value)
{
    snapshot->counts[histogram_bucket(value)]++;
    snapshot->total++;
    snapshot->sum += value;
    snapshot->max = MAX(snapshot->max, value);
}

void
metrics_tick(struct metrics *metrics)
{
    struct dataplane *dataplane = metrics->dataplane;
    uint64_t now = cycles_now(), elapsed = now - metrics->sampled_cycles;
    double seconds = (double)elapsed * dataplane->ns_per_cycle / 1e9;
    struct counters_sum sum;

    metrics_collect(metrics);
    if (seconds <= 0) {
        return;
    }
    for (uint32_t i = 0; i < dataplane->lcore_count; i++) {
        struct metrics_lcore *lcore = &metrics->lcores[i];
        uint64_t busy = load_relaxed(&dataplane->lcores[i]->counters->busy_cycles);
        lcore->busy_share = MIN((double)(busy - lcore->busy_cycles) / (double)elapsed, 1.0);
        lcore->busy_cycles = busy;
        snapshot_add(&lcore->total[histogram_index(METRICS_BUSY, 0)], (uint64_t)(lcore->busy_share * 100 + 0.5));
    }
    metrics_counters(dataplane, &sum);
    metrics->requests_per_s = (double)(sum.requests - metrics->requests) / seconds;
    metrics->rx_bytes_per_s = (double)(sum.rx_bytes - metrics->rx_bytes) / seconds;
    metrics->tx_bytes_per_s = (double)(sum.tx_bytes - metrics->tx_bytes) / seconds;
    metrics->requests = sum.requests;
    metrics->rx_bytes = sum.rx_bytes;
    metrics->tx_bytes = sum.tx_bytes;
    metrics->sampled_cycles = now;
}
