/* ctl_stats.c - stats, metrics, latency, lcores, ports. */
#include "config/cycles.h"
#include "dataplane/helper.h"
#include "dataplane/port_fabric.h"
#include "mgmt/ctl.h"
#include "mgmt/ethernet.h"
#include "mgmt/openmetrics.h"
#include "mgmt/placement.h"
#include "mgmt/store_stats_table.h"

/* ---- stats ---- */

static json_t *
counter_row(const struct mgmt *mgmt, const char *name, const char *unit, const char *help, size_t offset)
{
    json_t *lcores = json_array();
    uint64_t total = 0;

    for (uint32_t i = 0; i < mgmt->dataplane->lcore_count; i++) {
        const _Atomic uint64_t *counter =
            (const _Atomic uint64_t *)((const char *)mgmt->dataplane->lcores[i]->counters + offset);
        uint64_t value = load_relaxed(counter);
        total += value;
        json_array_append_new(lcores, json_integer((json_int_t)value));
    }
    return json_pack("{s:s,s:I,s:s,s:s,s:o}", "name", name, "total", (json_int_t)total, "unit", unit, "help", help,
                     "lcores", lcores);
}

static json_t *
command_rows(const struct mgmt *mgmt)
{
    json_t *rows = json_array();
    struct counters_sum sum;

    metrics_counters(mgmt->dataplane, &sum);
    for (uint32_t i = 0; i < COMMAND_COUNT; i++) {
        if (sum.commands[i] > 0) {
            json_array_append_new(rows,
                                  json_pack("{s:s,s:I,s:I}", "command", command_table[i].name, "calls",
                                            (json_int_t)sum.commands[i], "errors", (json_int_t)sum.command_errors[i]));
        }
    }
    return rows;
}

enum ctl_result
ctl_stats(struct ctl_request *request)
{
    const struct mgmt *mgmt = request->mgmt;
    json_t *counters = json_array(), *store_rows = json_array();
    struct store_stats store;

#define COUNTER_ROW(id, name, unit, help)                                                                              \
    json_array_append_new(counters, counter_row(mgmt, name, unit, help, offsetof(struct lcore_counters, id)));
    COUNTER_TABLE(COUNTER_ROW)
    GAUGE_TABLE(COUNTER_ROW)
#undef COUNTER_ROW
    store_stats(mgmt->dataplane->store, &store);
#define STORE_ROW(field, kind, name, unit, help)                                                                       \
    json_array_append_new(store_rows, json_pack("{s:s,s:I,s:s,s:s}", "name", name, "total", (json_int_t)store.field,   \
                                                "unit", unit, "help", help));
    STORE_STATS_TABLE(STORE_ROW)
#undef STORE_ROW
    request->result =
        json_pack("{s:f,s:o,s:o,s:o,s:{s:I,s:I,s:I,s:I,s:I,s:I,s:I}}", "uptime_s",
                  (double)(loop_now_ms() - mgmt->ready_ms) / 1000, "counters", counters, "store", store_rows,
                  "commands", command_rows(mgmt), "management", "connections_accepted",
                  (json_int_t)mgmt->streams.accepted, "connections_refused", (json_int_t)mgmt->streams.refused,
                  "answers", (json_int_t)mgmt->answers.served, "clients_accepted", (json_int_t)mgmt->ctl.accepted,
                  "clients_refused", (json_int_t)mgmt->ctl.refused, "clients_closed_for_cause",
                  (json_int_t)mgmt->ctl.closed_for_cause, "clients_evicted", (json_int_t)mgmt->ctl.evicted);
    return CTL_DONE;
}

enum ctl_result
ctl_metrics(struct ctl_request *request)
{
    struct text page = { 0 };

    openmetrics_print(request->mgmt, OPENMETRICS_FORM_1, &page);
    request->result = json_pack("{s:s#}", "page", page.bytes, (int)page.used);
    text_fini(&page);
    return CTL_DONE;
}

/* ---- latency ---- */

static const struct {
    const char *name, *unit;
} kinds[] = {
#define KIND_ROW(id, name, unit, help) { name, unit },
    CTL_LATENCY_KINDS(KIND_ROW)
#undef KIND_ROW
};

static const struct {
    const char *name;
    double percentile;
} percentiles[] = { { "p50", 50 }, { "p75", 75 },     { "p90", 90 },      { "p95", 95 },
                    { "p99", 99 }, { "p99_9", 99.9 }, { "p99_99", 99.99 } };

static_assert(CTL_HISTOGRAM_POWERS == HISTOGRAM_POWERS + 1 && CTL_HISTOGRAM_SUB_BUCKETS == 1 << HISTOGRAM_SUB_BITS,
              "what tools are told is what is counted");

static json_t *
bucket_rows(const struct histogram_snapshot *snapshot)
{
    json_t *rows = json_array();

    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        if (snapshot->counts[bucket] > 0) {
            uint64_t low, high;
            histogram_bucket_bounds(bucket, &low, &high);
            json_array_append_new(rows, json_pack("[I,I,I]", (json_int_t)low, (json_int_t)MIN(high, snapshot->max),
                                                  (json_int_t)snapshot->counts[bucket]));
        }
    }
    return rows;
}

/* NULL when nothing was counted. */
static json_t *
histogram_row(const struct mgmt *mgmt, enum metrics_kind kind, uint32_t command, uint64_t lcore, const char *name,
              bool buckets)
{
    static struct histogram_snapshot snapshot; /* 9 KiB, of one thread */

    memset(&snapshot, 0, sizeof(snapshot));
    metrics_histogram(&mgmt->metrics, kind, command, (uint32_t)lcore, &snapshot);
    if (snapshot.total == 0) {
        return NULL;
    }
    json_t *row = json_pack("{s:s,s:I,s:f}", "command", name, "count", (json_int_t)snapshot.total, "mean",
                            (double)snapshot.sum / (double)snapshot.total);
    for (size_t i = 0; i < ARRAY_COUNT(percentiles); i++) {
        json_object_set_new(row, percentiles[i].name,
                            json_integer((json_int_t)histogram_percentile(&snapshot, percentiles[i].percentile)));
    }
    json_object_set_new(row, "max", json_integer((json_int_t)MIN(snapshot.max, INT64_MAX)));
    if (buckets) {
        json_object_set_new(row, "buckets", bucket_rows(&snapshot));
    }
    return row;
}

static void
append_row(json_t *rows, json_t *row)
{
    if (row != NULL) {
        json_array_append_new(rows, row);
    }
}

/* A row for each port, by its number and type; lcore 0 has the names, but for a port of another lcore alone. */
static void
port_rows(const struct mgmt *mgmt, enum metrics_kind kind, uint64_t lcore, bool buckets, json_t *rows)
{
    for (uint32_t port = 0; port < METRICS_PORTS; port++) {
        char name[64] = "";
        for (uint32_t i = 0; i < mgmt->dataplane->lcore_count && name[0] == '\0'; i++) {
            const struct lcore *owner = mgmt->dataplane->lcores[i];
            if (port < owner->port_count && (lcore == LIMIT_LCORES || lcore == i)) {
                const struct port_info *info = &owner->ports[port]->info;
                snprintf(name, sizeof(name), "%u %s", port, info->provider[0] == '\0' ? info->type : info->provider);
            }
        }
        append_row(rows, histogram_row(mgmt, kind, port, lcore, name, buckets));
    }
}

enum ctl_result
ctl_latency(struct ctl_request *request)
{
    struct mgmt *mgmt = request->mgmt;
    const char *kind = "service", *name = NULL;
    uint64_t lcore = LIMIT_LCORES;
    bool buckets = false;
    enum metrics_kind which = 0;
    const struct command *command = NULL;

    if (!ctl_arg_text(request, "kind", &kind) || !ctl_arg_text(request, "command", &name) ||
        !ctl_arg_uint(request, "lcore", mgmt->dataplane->lcore_count - 1, &lcore) ||
        !ctl_arg_bool(request, "buckets", &buckets)) {
        return CTL_DONE;
    }
    while (which < ARRAY_COUNT(kinds) && strcmp(kinds[which].name, kind) != 0) {
        which++;
    }
    if (which == ARRAY_COUNT(kinds)) {
        return ctl_fail(request, "kind: expected one of" CTL_LATENCY_WORDS);
    }
    if (name != NULL && (command = command_find(slice_text(name))) == NULL) {
        return ctl_fail(request, "command: expected the name of a command, such as get");
    }
    json_t *rows = json_array();
    metrics_collect(&mgmt->metrics);
    if (which >= METRICS_PORT_BURST) {
        port_rows(mgmt, which, lcore, buckets, rows);
    } else if (which > METRICS_RESIDENCE) {
        append_row(rows, histogram_row(mgmt, which, 0, lcore, kind, buckets));
    } else {
        for (uint32_t i = 0; i < COMMAND_COUNT; i++) {
            if (command == NULL || command->id == (enum command_id)i) {
                append_row(rows, histogram_row(mgmt, which, i, lcore, command_table[i].name, buckets));
            }
        }
    }
    request->result = json_pack("{s:s,s:s,s:o}", "kind", kind, "unit", kinds[which].unit, "rows", rows);
    return CTL_DONE;
}

/* ---- lcores, ports ---- */

/* Threads beside the lcores. */
static json_t *
helper_rows(const struct helper *helper)
{
    static const char *const states[] = { "booting", "idle", "working", "stopped" };
    uint32_t state = load_acquire(&helper->state); /* pairs with the owner's release: tid is there */

    return json_pack("[{s:s,s:i,s:s,s:I,s:I,s:I,s:I}]", "helper", HELPER_NAME, "tid", (int)helper->tid, "state",
                     states[state], "steps", (json_int_t)load_relaxed(&helper->steps), "sleeps",
                     (json_int_t)load_relaxed(&helper->sleeps), "jobs", (json_int_t)load_relaxed(&helper->jobs),
                     "cancelled", (json_int_t)load_relaxed(&helper->cancelled));
}

enum ctl_result
ctl_lcores(struct ctl_request *request)
{
    static const char *const states[] = { "booting", "running", "draining", "stopped" };
    const struct mgmt *mgmt = request->mgmt;
    json_t *rows = json_array();

    for (uint32_t i = 0; i < mgmt->dataplane->lcore_count; i++) {
        struct lcore *lcore = mgmt->dataplane->lcores[i];
        struct lcore_counters *counters = lcore->counters;
        uint32_t state = load_acquire(&lcore->state); /* pairs with the owner's release: tid is there */
        json_array_append_new(
            rows, json_pack("{s:i,s:i,s:i,s:i,s:i,s:s,s:b,s:I,s:I,s:f,s:I,s:I,s:I}", "lcore", (int)i, "cpu", lcore->cpu,
                            "cpu_node", lcore->cpu_node, "tid", (int)lcore->tid, "node", lcore->node, "state",
                            state < ARRAY_COUNT(states) ? states[state] : "?", "stalled",
                            mgmt->stalled_lcore == (int32_t)i, "turns", (json_int_t)load_relaxed(&counters->turns),
                            "busy_turns", (json_int_t)load_relaxed(&counters->busy_turns), "busy_share",
                            mgmt->metrics.lcores[i].busy_share, "sleeps", (json_int_t)load_relaxed(&counters->sleeps),
                            "requests", (json_int_t)load_relaxed(&counters->requests), "sessions",
                            (json_int_t)load_relaxed(&counters->sessions_open)));
    }
    request->result = json_pack("{s:o,s:o,s:o}", "lcores", rows, "helpers", helper_rows(mgmt->dataplane->helper),
                                "warnings", placement_warnings(mgmt));
    return CTL_DONE;
}

enum ctl_result
ctl_ports(struct ctl_request *request)
{
    const struct dataplane *dataplane = request->mgmt->dataplane;
    json_t *rows = json_array();

    for (uint32_t i = 0; i < dataplane->lcore_count; i++) {
        const struct lcore *lcore = dataplane->lcores[i];
        for (uint32_t p = 0; p < lcore->port_count; p++) {
            const struct port_info *info = &lcore->ports[p]->info;
            json_t *row =
                json_pack("{s:i,s:i,s:s,s:s,s:s,s:i,s:i,s:i,s:i,s:s}", "lcore", (int)i, "port", (int)p, "type",
                          info->type, "provider", info->provider, "send", info->send, "rx_slots", (int)info->rx_slots,
                          "tx_slots", (int)info->tx_slots, "frame_bytes", (int)info->frame_bytes, "inject_bytes",
                          (int)info->inject_bytes, "address", info->address);
            if (port_fabric_settings(lcore->ports[p]) != NULL) {
                json_object_set_new(row, "credit", json_integer(port_fabric_credit(lcore->ports[p])));
            }
            ethernet_describe(lcore->ports[p], row);
            json_array_append_new(rows, row);
        }
    }
    request->result = json_pack("{s:o}", "ports", rows);
    return CTL_DONE;
}
