#include "mgmt/openmetrics.h"
#include "mgmt/store_stats_table.h"
#include <sys/resource.h>
#include <unistd.h>

/* Bounds of the histograms' buckets: 2^k - 1 ns, because a power of two is where one of ours ends. */
#define BOUND_FIRST 6  /* 63 ns */
#define BOUND_LAST  34 /* 17 s */

struct page {
    struct mgmt *mgmt;
    enum openmetrics_form form;
    struct counters_sum sum;
    struct store_stats store;
    struct text *out;
};

typedef unsigned long long ull;

/* ---- families ---- */

/* Only OpenMetrics names a family of counters without the _total of its samples. */
static void
print_counter(struct page *page, const char *name, const char *help)
{
    const char *suffix = page->form == OPENMETRICS_FORM_1 ? "" : "_total";

    text_print(page->out, "# HELP %s%s %s\n# TYPE %s%s counter\n", name, suffix, help, name, suffix);
}

static void
print_gauge(struct page *page, const char *name, const char *help)
{
    text_print(page->out, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
}

static void
counter(struct page *page, const char *name, const char *help, uint64_t value)
{
    print_counter(page, name, help);
    text_print(page->out, "%s_total %llu\n", name, (ull)value);
}

static void
counter_seconds(struct page *page, const char *name, const char *help, double value)
{
    print_counter(page, name, help);
    text_print(page->out, "%s_total %.6f\n", name, value);
}

static void
gauge(struct page *page, const char *name, const char *help, uint64_t value)
{
    print_gauge(page, name, help);
    text_print(page->out, "%s %llu\n", name, (ull)value);
}

/* ---- names of redis_exporter ---- */

static double
seconds_of(const struct timeval *time)
{
    return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

static void
print_process(struct page *page)
{
    const struct mgmt *mgmt = page->mgmt;
    int64_t up_ms = loop_now_ms() - mgmt->ready_ms;
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    gauge(page, "redis_up", "Whether the appliance answers.", 1);
    print_gauge(page, "redis_instance_info", "What runs here.");
    text_print(
        page->out,
        "redis_instance_info{role=\"master\",redis_mode=\"standalone\",redis_version=\"%s\",sluice_version=\"%s\"} "
        "1\n",
        MGMT_REDIS_VERSION, SLUICE_VERSION);
    gauge(page, "redis_uptime_in_seconds", "Seconds since the appliance was ready.", (uint64_t)up_ms / 1000);
    gauge(page, "redis_start_time_seconds", "Unix time of the start.", (uint64_t)mgmt->dataplane->started_ms / 1000);
    counter_seconds(page, "redis_cpu_user_seconds", "CPU time spent in the program; a polling lcore uses a whole CPU.",
                    seconds_of(&usage.ru_utime));
    counter_seconds(page, "redis_cpu_sys_seconds", "CPU time spent in the kernel.", seconds_of(&usage.ru_stime));
    gauge(page, "sluice_ready", "Whether requests are served: every lcore turns and none drains.", mgmt_is_ready(mgmt));
}

static void
print_clients(struct page *page)
{
    const struct counters_sum *sum = &page->sum;

    gauge(page, "redis_connected_clients", "Sessions, on every port.", sum->sessions_open);
    gauge(page, "redis_config_maxclients", "Limit of sessions: limits.clients.", page->mgmt->settings->limits_clients);
    gauge(page, "sluice_fabric_sessions", "Sessions on fabric ports.", sum->sessions_fabric);
    counter(page, "redis_connections_received", "Sessions opened.", sum->sessions_opened);
    counter(page, "redis_rejected_connections", "Connections refused at limits.clients or without memory.",
            sum->sessions_refused + page->mgmt->streams.refused);
    counter(page, "redis_net_input_bytes", "Request bytes received.", sum->rx_bytes);
    counter(page, "redis_net_output_bytes", "Reply bytes sent.", sum->tx_bytes);
    gauge(page, "redis_pubsub_channels", "Channels with subscribers.", sum->channels);
    gauge(page, "sluice_output_bytes", "Replies not read yet.", sum->output_bytes);
#define LCORE_GAUGE(id, name, unit, help) gauge(page, "sluice_" name, help, sum->id);
    GAUGE_TABLE(LCORE_GAUGE)
#undef LCORE_GAUGE
}

static void
print_memory(struct page *page)
{
    const struct memory_stats *memory = &page->store.memory;

    gauge(page, "redis_memory_used_bytes", "Bytes in blocks handed out.", memory->used_bytes);
    gauge(page, "redis_memory_used_rss_bytes", "Resident bytes of the process.", metrics_resident_bytes());
    gauge(page, "redis_memory_max_bytes", "Cap: memory.limit.", memory->limit_bytes);
    gauge(page, "sluice_memory_populated_bytes", "Pages that the kernel has given.", memory->populated_bytes);
    gauge(page, "sluice_memory_free_page_bytes", "Populated pages that are not in use.", memory->free_page_bytes);
    gauge(page, "sluice_memory_slack_bytes", "Free blocks inside pages in use.", memory->slack_bytes);
    gauge(page, "sluice_memory_huge_page_bytes", "Bytes in huge pages.", memory->huge_page_bytes);
    counter(page, "sluice_memory_page_misses", "Times no populated page was at hand.", memory->page_misses);
}

static void
print_keys(struct page *page)
{
    print_gauge(page, "redis_db_keys", "Keys that exist.");
    text_print(page->out, "redis_db_keys{db=\"db0\"} %llu\n", (ull)page->store.keys);
    print_gauge(page, "redis_db_keys_expiring", "Keys with a time to live.");
    text_print(page->out, "redis_db_keys_expiring{db=\"db0\"} %llu\n", (ull)page->store.keys_with_expiry);
    counter(page, "redis_keyspace_hits", "Look-ups that found their key.", page->store.hits);
    counter(page, "redis_keyspace_misses", "Look-ups that did not.", page->store.misses);
    counter(page, "redis_expired_keys", "Keys removed because their time had come.", page->store.expired_keys);
    counter(page, "redis_evicted_keys", "Keys removed to make room.", page->store.evicted_keys);
}

static void
print_command_counts(struct page *page, const char *name, const char *help, const uint64_t counts[COMMAND_COUNT])
{
    print_counter(page, name, help);
    for (uint32_t i = 0; i < COMMAND_COUNT; i++) {
        if (page->sum.commands[i] > 0) {
            text_print(page->out, "%s_total{cmd=\"%s\"} %llu\n", name, command_table[i].name, (ull)counts[i]);
        }
    }
}

/* ---- histograms ---- */

static void
print_buckets(struct page *page, const char *name, const char *cmd, const struct histogram_snapshot *snapshot)
{
    uint64_t below = 0;
    uint32_t bucket = 0;

    for (uint32_t power = BOUND_FIRST; power <= BOUND_LAST; power++) {
        uint64_t bound = (1ull << power) - 1, low, high;
        for (histogram_bucket_bounds(bucket, &low, &high); bucket < HISTOGRAM_BUCKETS - 1 && high <= bound;
             histogram_bucket_bounds(bucket, &low, &high)) {
            below += snapshot->counts[bucket++];
        }
        text_print(page->out, "%s_bucket{cmd=\"%s\",le=\"%.12g\"} %llu\n", name, cmd, (double)bound / 1e9, (ull)below);
    }
    text_print(page->out,
               "%s_bucket{cmd=\"%s\",le=\"+Inf\"} %llu\n%s_sum{cmd=\"%s\"} %.9f\n%s_count{cmd=\"%s\"} %llu\n", name,
               cmd, (ull)snapshot->total, name, cmd, (double)snapshot->sum / 1e9, name, cmd, (ull)snapshot->total);
}

static void
print_histograms(struct page *page, const char *name, const char *help, enum metrics_kind kind)
{
    static struct histogram_snapshot snapshot; /* 9 KiB, of one thread */

    text_print(page->out, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);
    for (uint32_t i = 0; i < COMMAND_COUNT; i++) {
        memset(&snapshot, 0, sizeof(snapshot));
        metrics_histogram(&page->mgmt->metrics, kind, i, LIMIT_LCORES, &snapshot);
        if (snapshot.total > 0) {
            print_buckets(page, name, command_table[i].name, &snapshot);
        }
    }
}

static void
print_commands(struct page *page)
{
    counter(page, "redis_commands_processed", "Requests executed.", page->sum.requests);
    print_command_counts(page, "redis_commands", "Calls of each command.", page->sum.commands);
    print_command_counts(page, "redis_commands_failed_calls", "Calls of each command that answered an error.",
                         page->sum.command_errors);
    print_histograms(page, "sluice_command_service_seconds", "Execution of a request until its reply is encoded.",
                     METRICS_SERVICE);
    print_histograms(page, "sluice_command_residence_seconds", "From polling a request to flushing its reply.",
                     METRICS_RESIDENCE);
}

/* ---- the tables of lcores and store ---- */

static void
print_lcore_counter(struct page *page, const char *name, const char *help, size_t offset)
{
    const struct dataplane *dataplane = page->mgmt->dataplane;
    char family[96];

    snprintf(family, sizeof(family), "sluice_lcore_%s", name);
    print_counter(page, family, help);
    for (uint32_t i = 0; i < dataplane->lcore_count; i++) {
        const char *counters = (const char *)dataplane->lcores[i]->counters;
        text_print(page->out, "%s_total{lcore=\"%u\"} %llu\n", family, i,
                   (ull)load_relaxed((const _Atomic uint64_t *)(counters + offset)));
    }
}

static void
print_lcores(struct page *page)
{
#define LCORE_COUNTER(id, name, unit, help)                                                                            \
    print_lcore_counter(page, name, help " (" unit ").", offsetof(struct lcore_counters, id));
    COUNTER_TABLE(LCORE_COUNTER)
#undef LCORE_COUNTER
    print_gauge(page, "sluice_lcore_busy_ratio", "Share of the last second in turns that found work.");
    for (uint32_t i = 0; i < page->mgmt->dataplane->lcore_count; i++) {
        text_print(page->out, "sluice_lcore_busy_ratio{lcore=\"%u\"} %.4f\n", i,
                   page->mgmt->metrics.lcores[i].busy_share);
    }
}

static void
print_store(struct page *page)
{
#define STORE_COUNTER(name, help, value)            counter(page, "sluice_store_" name, help, value);
#define STORE_GAUGE(name, help, value)              gauge(page, "sluice_store_" name, help, value);
#define STORE_METRIC(field, kind, name, unit, help) STORE_##kind(name, help " (" unit ").", page->store.field)
    STORE_STATS_TABLE(STORE_METRIC)
#undef STORE_METRIC
#undef STORE_GAUGE
#undef STORE_COUNTER
}

void
openmetrics_print(struct mgmt *mgmt, enum openmetrics_form form, struct text *out)
{
    struct page page = { .mgmt = mgmt, .form = form, .out = out };

    metrics_collect(&mgmt->metrics);
    metrics_counters(mgmt->dataplane, &page.sum);
    store_stats(mgmt->dataplane->store, &page.store);
    print_process(&page);
    print_clients(&page);
    print_memory(&page);
    print_keys(&page);
    print_commands(&page);
    print_store(&page);
    print_lcores(&page);
    if (form == OPENMETRICS_FORM_1) {
        text_print(out, "# EOF\n");
    }
}
