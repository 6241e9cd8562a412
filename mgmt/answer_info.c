/* answer_info.c - INFO: Redis' sections and field names, because stock clients and dashboards read them. */
#include "mgmt/mgmt.h"
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

/* What a section may read; taken once for the whole answer. */
struct info {
    const struct mgmt *mgmt;
    struct counters_sum sum;
    struct store_stats store;
    struct text *out;
};

typedef unsigned long long ull;

#define PRINT(info, ...) text_print((info)->out, __VA_ARGS__)

static void
print_server(struct info *info)
{
    const struct mgmt *mgmt = info->mgmt;
    int64_t up_s = (loop_now_ms() - mgmt->ready_ms) / 1000;
    struct utsname name;

    uname(&name);
    PRINT(info, "redis_version:%s\r\nsluice_version:%s\r\nredis_mode:standalone\r\n", MGMT_REDIS_VERSION,
          SLUICE_VERSION);
    PRINT(info, "os:%s %s %s\r\narch_bits:64\r\nmultiplexing_api:epoll\r\n", name.sysname, name.release, name.machine);
    /* 40 hex digits, as Redis draws them; ours come from 64 random bits. */
    PRINT(info, "process_id:%d\r\nrun_id:%016llx%024d\r\ntcp_port:%u\r\n", getpid(), (ull)mgmt->dataplane->incarnation,
          0, mgmt->streams.port);
    PRINT(info, "server_time_usec:%lld\r\n", (long long)clock_unix_ns(&mgmt->dataplane->clock, cycles_now()) / 1000);
    PRINT(info, "uptime_in_seconds:%lld\r\nuptime_in_days:%lld\r\nlcores:%u\r\nclock:%s\r\nconfig_file:%s\r\n",
          (long long)up_s, (long long)up_s / 86400, mgmt->dataplane->lcore_count, mgmt_clock_text(mgmt),
          mgmt->settings_path);
}

static void
print_clients(struct info *info)
{
    PRINT(info, "connected_clients:%llu\r\ncluster_connections:0\r\nmaxclients:%llu\r\n", (ull)info->sum.sessions_open,
          (ull)info->mgmt->settings->limits_clients);
    PRINT(info, "blocked_clients:0\r\ntracking_clients:0\r\nfabric_clients:%llu\r\nclient_output_bytes:%llu\r\n",
          (ull)info->sum.sessions_fabric, (ull)info->sum.output_bytes);
}

/* As Redis prints sizes for people: "12.59K". */
static const char *
human(uint64_t bytes, char out[UNIT_TEXT_BYTES])
{
    static const char units[] = "BKMGT";
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1024 && units[unit + 1] != '\0') {
        value /= 1024;
        unit++;
    }
    snprintf(out, UNIT_TEXT_BYTES, unit == 0 ? "%.0f%c" : "%.2f%c", value, units[unit]);
    return out;
}

static void
print_memory(struct info *info)
{
    const struct store_stats *store = &info->store;
    const struct memory_stats *memory = &store->memory;
    uint64_t resident = metrics_resident_bytes();
    char used[UNIT_TEXT_BYTES], limit[UNIT_TEXT_BYTES], rss[UNIT_TEXT_BYTES];
    double ratio = memory->used_bytes == 0 ? 1.0 : (double)resident / (double)memory->used_bytes;

    PRINT(info, "used_memory:%llu\r\nused_memory_human:%s\r\nused_memory_rss:%llu\r\nused_memory_rss_human:%s\r\n",
          (ull)memory->used_bytes, human(memory->used_bytes, used), (ull)resident, human(resident, rss));
    PRINT(info, "used_memory_dataset:%llu\r\nmaxmemory:%llu\r\nmaxmemory_human:%s\r\nmaxmemory_policy:%s\r\n",
          (ull)store->record_bytes, (ull)memory->limit_bytes, human(memory->limit_bytes, limit),
          info->mgmt->settings->memory_policy);
    PRINT(info, "mem_fragmentation_ratio:%.2f\r\nmem_allocator:sluice\r\nactive_defrag_running:%d\r\n", ratio,
          memory->emptying_pages != 0);
    /* The first eight are memory_total, which memory.limit bounds. */
    PRINT(info,
          "memory_records:%llu\r\nmemory_ghosts:%llu\r\nmemory_index:%llu\r\nmemory_limbo:%llu\r\nmemory_sessions:%"
          "llu\r\n"
          "memory_slack:%llu\r\nmemory_free:%llu\r\nmemory_overhead:%llu\r\nmemory_total:%llu\r\n",
          (ull)store->record_bytes, (ull)store->ghost_bytes, (ull)store->index_bytes, (ull)store->limbo_bytes,
          (ull)store->other_bytes, (ull)memory->slack_bytes, (ull)memory->free_page_bytes, (ull)store->overhead_bytes,
          (ull)store->total_bytes);
    PRINT(
        info,
        "memory_reserve:%llu\r\nmemory_populated:%llu\r\nmemory_kept:%llu\r\nstalled_member:%s\r\nstalled_ms:%llu\r\n",
        (ull)memory->reserve_bytes, (ull)memory->populated_bytes, (ull)memory->kept_bytes,
        store_member_name(info->mgmt->dataplane->store, (uint32_t)store->stalled_member), (ull)store->stalled_ms);
}

static void
print_persistence(struct info *info)
{
    PRINT(info, "loading:0\r\nasync_loading:0\r\nrdb_changes_since_last_save:0\r\nrdb_bgsave_in_progress:0\r\n"
                "rdb_last_save_time:0\r\nrdb_last_bgsave_status:ok\r\naof_enabled:0\r\naof_rewrite_in_progress:0\r\n");
}

static void
print_stats(struct info *info)
{
    const struct counters_sum *sum = &info->sum;
    const struct metrics *metrics = &info->mgmt->metrics;

    PRINT(info,
          "total_connections_received:%llu\r\ntotal_commands_processed:%llu\r\ninstantaneous_ops_per_sec:%.0f\r\n",
          (ull)sum->sessions_opened, (ull)sum->requests, metrics->requests_per_s);
    PRINT(info,
          "total_net_input_bytes:%llu\r\ntotal_net_output_bytes:%llu\r\ninstantaneous_input_kbps:%.2f\r\n"
          "instantaneous_output_kbps:%.2f\r\n",
          (ull)sum->rx_bytes, (ull)sum->tx_bytes, metrics->rx_bytes_per_s / 1024, metrics->tx_bytes_per_s / 1024);
    PRINT(info,
          "rejected_connections:%llu\r\nexpired_keys:%llu\r\nevicted_keys:%llu\r\nkeyspace_hits:%llu\r\n"
          "keyspace_misses:%llu\r\n",
          (ull)(sum->sessions_refused + info->mgmt->streams.refused), (ull)info->store.expired_keys,
          (ull)info->store.evicted_keys, (ull)info->store.hits, (ull)info->store.misses);
    PRINT(info,
          "pubsub_channels:%llu\r\npubsub_patterns:0\r\nlatest_fork_usec:0\r\ntotal_forks:0\r\n"
          "total_error_replies:%llu\r\nunexpected_error_replies:0\r\nacl_access_denied_auth:%llu\r\n",
          (ull)sum->channels, (ull)sum->replies_error, (ull)sum->auth_failures);
}

static void
print_replication(struct info *info)
{
    PRINT(info,
          "role:master\r\nconnected_slaves:0\r\nmaster_failover_state:no-failover\r\nmaster_replid:%016llx%024d\r\n"
          "master_repl_offset:0\r\nrepl_backlog_active:0\r\n",
          (ull)info->mgmt->dataplane->incarnation, 0);
}

static void
print_cpu(struct info *info)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    PRINT(info, "used_cpu_sys:%ld.%06ld\r\nused_cpu_user:%ld.%06ld\r\n", (long)usage.ru_stime.tv_sec,
          (long)usage.ru_stime.tv_usec, (long)usage.ru_utime.tv_sec, (long)usage.ru_utime.tv_usec);
    for (uint32_t i = 0; i < info->mgmt->dataplane->lcore_count; i++) {
        PRINT(info, "lcore%u_busy_share:%.4f\r\n", i, info->mgmt->metrics.lcores[i].busy_share);
    }
}

/* One command's histogram over all lcores; the snapshot is 9 KiB. */
static const struct histogram_snapshot *
service_of(const struct info *info, enum command_id command)
{
    static struct histogram_snapshot snapshot;

    memset(&snapshot, 0, sizeof(snapshot));
    metrics_histogram(&info->mgmt->metrics, METRICS_SERVICE, command, LIMIT_LCORES, &snapshot);
    return &snapshot;
}

static void
print_commandstats(struct info *info)
{
    for (uint32_t command = 0; command < COMMAND_COUNT; command++) {
        uint64_t calls = info->sum.commands[command];
        if (calls == 0) {
            continue;
        }
        const struct histogram_snapshot *service = service_of(info, command);
        double us = (double)service->sum / 1000;
        PRINT(info, "cmdstat_%s:calls=%llu,usec=%.0f,usec_per_call=%.2f,rejected_calls=0,failed_calls=%llu\r\n",
              command_table[command].name, (ull)calls, us, us / (double)calls, (ull)info->sum.command_errors[command]);
    }
}

static void
print_latencystats(struct info *info)
{
    for (uint32_t command = 0; command < COMMAND_COUNT; command++) {
        const struct histogram_snapshot *service = service_of(info, command);
        if (service->total > 0) {
            PRINT(info, "latency_percentiles_usec_%s:p50=%.3f,p99=%.3f,p99.9=%.3f\r\n", command_table[command].name,
                  (double)histogram_percentile(service, 50) / 1000, (double)histogram_percentile(service, 99) / 1000,
                  (double)histogram_percentile(service, 99.9) / 1000);
        }
    }
}

static void
print_cluster(struct info *info)
{
    PRINT(info, "cluster_enabled:0\r\n");
}

static void
print_keyspace(struct info *info)
{
    if (info->store.keys > 0) {
        PRINT(info, "db0:keys=%llu,expires=%llu,avg_ttl=0\r\n", (ull)info->store.keys,
              (ull)info->store.keys_with_expiry);
    }
}

/* In Redis' order; `standard` sections come without being named. */
static const struct {
    const char *name, *title;
    bool standard;
    void (*print)(struct info *info);
} sections[] = {
    { "server", "Server", true, print_server },
    { "clients", "Clients", true, print_clients },
    { "memory", "Memory", true, print_memory },
    { "persistence", "Persistence", true, print_persistence },
    { "stats", "Stats", true, print_stats },
    { "replication", "Replication", true, print_replication },
    { "cpu", "CPU", true, print_cpu },
    { "commandstats", "Commandstats", false, print_commandstats },
    { "latencystats", "Latencystats", false, print_latencystats },
    { "cluster", "Cluster", true, print_cluster },
    { "keyspace", "Keyspace", true, print_keyspace },
};

static bool
is_wanted(const struct later *later, size_t section)
{
    bool wanted = later->args_count == 0 && sections[section].standard;

    for (uint32_t i = 0; i < later->args_count; i++) {
        wanted = wanted || answer_argument_is(later, i, sections[section].name) ||
                 answer_argument_is(later, i, "all") || answer_argument_is(later, i, "everything") ||
                 (answer_argument_is(later, i, "default") && sections[section].standard);
    }
    return wanted;
}

void
answer_info(struct mgmt *mgmt, struct later *later)
{
    static struct info info; /* some KiB of sums */
    struct text out = { 0 };

    info.mgmt = mgmt;
    info.out = &out;
    metrics_counters(mgmt->dataplane, &info.sum);
    metrics_collect(&mgmt->metrics);
    store_stats(mgmt->dataplane->store, &info.store);
    for (size_t i = 0; i < ARRAY_COUNT(sections); i++) {
        if (is_wanted(later, i)) {
            text_print(&out, "%s# %s\r\n", out.used > 0 ? "\r\n" : "", sections[i].title);
            sections[i].print(&info);
        }
    }
    struct reply *reply = answer_begin(mgmt, later);
    reply_verbatim(reply, slice_of(out.bytes, out.used));
    answer_end(mgmt, later);
    text_fini(&out);
}
