/* latency.c - sluice-bench latency: one request after the other, every sample kept, every reply checked. */
#include "tools/bench/bench.h"
#include "tools/bench/lane_result.h"
#include "tools/bench/machine.h"
#include "tools/bench/metadata.h"
#include "tools/bench/progress.h"
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES_DEFAULT 200000
#define WARMUP_DEFAULT  20000
#define VALUE_DEFAULT   64
#define PEERS_MAX       (LANES_MAX - 2)
#define WARNING_BYTES   1024

static const char usage[] =
    "Usage: sluice-bench latency [OPTIONS]\n"
    "PING SET GET HSET HGET ZADD ZSCORE PUBSUB, one request after the other on one connection (PUBSUB: a second one\n"
    "receives), spinning, every reply checked, exact ranks from all samples. SET, HSET, ZADD update what is there.\n"
    "\n" BENCH_CONNECTION_USAGE "  --samples N, --warmup N       of each operation (200000, 20000)\n"
    "  -d BYTES                      value of SET, GET and PUBSUB (64)\n"
    "  --only OP[,OP...]             some of the eight\n"
    "  --floor                       the bare transport with the same frame sizes, in turns with each operation; on a\n"
    "                                fabric only where request and reply fit one frame each\n"
    "  --floor-peer HOST:PORT        the same with `sluice-bench floor-peer` of another host as its far end\n"
    "  --peer [NAME=]HOST:PORT[@PID] another server, in turns, on RESP over TCP or a Unix socket; process PID is\n"
    "                                stopped while others are measured; up to 6 times\n"
    "  --pause PID                   stop this process, the server's, while the floor or a peer is measured\n"
    "  --label TEXT                  in the first column\n"
    "  --csv                         label,operation,min_us,p50_us,... only\n"
    "  --out DIR                     add to a result folder: latency.csv, config.csv, unavailable.csv, metadata.json,\n"
    "                                hlog/\n"
    "  --hlog DIR                    LABEL-OPERATION.hlog there: logs for HdrHistogram's tools, in ns\n"
    "Exit codes: 0 measured, 1 something failed, 2 usage, 3 cannot connect, 130 interrupted: what there was is kept.\n";

enum { EXIT_FAILED = 1, EXIT_NO_CONNECTION = 3, EXIT_INTERRUPTED = 130 };

struct latency {
    struct bench_connection connection;
    uint64_t warmup, pause_pid;
    bool chosen[OPERATION_COUNT];
    bool with_floor, csv;
    char label[BENCH_LABEL_BYTES];
    const char *peers[PEERS_MAX];
    uint32_t peer_count;

    struct lanes lanes;
    struct lane_result result;
    struct metadata *metadata;
    struct progress progress;
    uint64_t steps; /* round trips of one lane, so far */
    bool failed;
};

static int
complain(const char *what, const char *why)
{
    fprintf(stderr, "sluice-bench: %s: %s\n", what, why);
    return EXIT_FAILED;
}

/* ---- options ---- */

static bool
only_read(struct latency *latency, const char *list)
{
    memset(latency->chosen, 0, sizeof(latency->chosen));
    for (;;) {
        size_t bytes = strcspn(list, ",");
        bool known = false;
        for (uint32_t i = 0; i < OPERATION_COUNT; i++) {
            if (strlen(operation_names[i]) == bytes && strncasecmp(list, operation_names[i], bytes) == 0) {
                latency->chosen[i] = known = true;
            }
        }
        if (!known) {
            fprintf(stderr, "sluice-bench: --only %.*s: not one of the eight operations\n", (int)bytes, list);
            return false;
        }
        if (list[bytes] == '\0') {
            return true;
        }
        list += bytes + 1;
    }
}

static bool
label_read(struct latency *latency, const char *text)
{
    if (!bench_label_is_good(text)) {
        complain("--label", "expected 1 to 80 letters, digits and . _ + : ; @ = -, first a letter or a digit");
        return false;
    }
    snprintf(latency->label, sizeof(latency->label), "%s", text);
    return true;
}

static bool
floor_peer_read(struct latency *latency, const char *text)
{
    struct client_options at = { 0 };
    if (!bench_address("--floor-peer", text, &at) || at.path != NULL || at.host[0] == '\0' || at.port == 0) {
        complain("--floor-peer", "expected HOST:PORT");
        return false;
    }
    latency->lanes.floor_host = at.host;
    latency->lanes.floor_port = at.port;
    latency->with_floor = true;
    return true;
}

enum {
    OPTION_SAMPLES = BENCH_OWN,
    OPTION_WARMUP,
    OPTION_ONLY,
    OPTION_FLOOR,
    OPTION_FLOOR_PEER,
    OPTION_PEER,
    OPTION_PAUSE,
    OPTION_LABEL,
    OPTION_CSV,
    OPTION_OUT,
    OPTION_HLOG,
};

static const struct option long_options[] = {
    BENCH_CONNECTION_OPTIONS,
    { "samples", required_argument, NULL, OPTION_SAMPLES },
    { "warmup", required_argument, NULL, OPTION_WARMUP },
    { "only", required_argument, NULL, OPTION_ONLY },
    { "floor", no_argument, NULL, OPTION_FLOOR },
    { "floor-peer", required_argument, NULL, OPTION_FLOOR_PEER },
    { "peer", required_argument, NULL, OPTION_PEER },
    { "pause", required_argument, NULL, OPTION_PAUSE },
    { "label", required_argument, NULL, OPTION_LABEL },
    { "csv", no_argument, NULL, OPTION_CSV },
    { "out", required_argument, NULL, OPTION_OUT },
    { "hlog", required_argument, NULL, OPTION_HLOG },
    { 0 },
};

/* One option of our own. False: a bad value, or unknown. */
static bool
option_take(struct latency *latency, int option, const char *value)
{
    switch (option) {
    case OPTION_SAMPLES:
        return bench_number("--samples", value, 1, 100000000, &latency->lanes.samples);
    case OPTION_WARMUP:
        return bench_number("--warmup", value, 0, 100000000, &latency->warmup);
    case 'd':
        return bench_number("-d", value, 0, 1024 * 1024, &latency->lanes.value_bytes);
    case OPTION_ONLY:
        return only_read(latency, value);
    case OPTION_FLOOR:
        latency->with_floor = true;
        return true;
    case OPTION_FLOOR_PEER:
        return floor_peer_read(latency, value);
    case OPTION_PEER:
        if (latency->peer_count == PEERS_MAX) {
            complain("--peer", "more than 6");
            return false;
        }
        latency->peers[latency->peer_count++] = value;
        return true;
    case OPTION_PAUSE:
        return bench_number("--pause", value, 2, 1 << 30, &latency->pause_pid);
    case OPTION_LABEL:
        return label_read(latency, value);
    case OPTION_CSV:
        latency->csv = true;
        return true;
    case OPTION_OUT:
        latency->result.folder = value;
        return true;
    case OPTION_HLOG:
        latency->result.hlog_folder = value;
        return true;
    default:
        return false; /* getopt complained */
    }
}

/* The peer's lane from [NAME=]ADDRESS[@PID]. */
static bool
peer_read(const struct latency *latency, const char *text, struct lane *lane)
{
    struct bench_connection connection = { 0 };
    char name[BENCH_LABEL_BYTES], address[256], label[BENCH_LABEL_BYTES];
    const char *equals = strchr(text, '='), *at = strrchr(text, '@');
    uint64_t pid = 0;
    if (at != NULL && !bench_number("--peer PID", at + 1, 2, 1 << 30, &pid)) {
        return false;
    }
    const char *from = equals != NULL ? equals + 1 : text, *to = at != NULL ? at : text + strlen(text);
    snprintf(address, sizeof(address), "%.*s", to > from ? (int)(to - from) : 0, from);
    if (equals != NULL) {
        snprintf(name, sizeof(name), "%.*s", (int)MIN(equals - text, 60), text);
    } else {
        snprintf(name, sizeof(name), "%.60s", strchr(address, '/') != NULL ? "peer" : address);
    }
    client_options_init(&connection.client);
    if (address[0] == '\0' || !bench_address("--peer", address, &connection.client)) {
        complain("--peer", "expected [NAME=]HOST:PORT[@PID]");
        return false;
    }
    const struct client_options *ours = &latency->connection.client;
    connection.client.wire = ours->wire == CLIENT_RESP3 ? CLIENT_RESP3 : CLIENT_RESP2;
    connection.client.spin = true;
    connection.client.timeout_ms = ours->timeout_ms;
    bench_label(&connection, label);
    *lane = (struct lane){ .kind = LANE_PEER, .options = connection.client, .pid = (pid_t)pid };
    snprintf(lane->label, sizeof(lane->label), "%.60s-%.40s", name, label);
    if (!bench_label_is_good(lane->label)) {
        complain("--peer NAME", "expected letters, digits and . _ + : ; @ = -");
        return false;
    }
    return true;
}

/* Results are told apart by label, and a process that is stopped for one lane must not serve another. */
static bool
lanes_are_distinct(const struct lanes *lanes)
{
    for (uint32_t i = 0; i < lanes->count; i++) {
        const struct lane *lane = &lanes->lanes[i];
        if (lane->pid != 0 && (lane->pid == getpid() || kill(lane->pid, 0) != 0)) {
            fprintf(stderr, "sluice-bench: %s: process %d: %s\n", lane->label, (int)lane->pid,
                    lane->pid == getpid() ? "that is this one" : strerror(errno));
            return false;
        }
        for (uint32_t j = 0; j < i; j++) {
            const struct lane *other = &lanes->lanes[j];
            if (strcmp(lane->label, other->label) == 0) {
                complain(lane->label, "two of this name: --peer takes NAME=");
                return false;
            }
            if (lane->pid != 0 && lane->pid == other->pid) {
                complain(lane->label, "the process of two servers");
                return false;
            }
        }
    }
    return true;
}

static bool
lanes_plan(struct latency *latency)
{
    struct lanes *lanes = &latency->lanes;
    lanes->lanes[lanes->count++] = (struct lane){
        .kind = LANE_SERVER,
        .options = latency->connection.client,
        .pid = (pid_t)latency->pause_pid,
    };
    snprintf(lanes->lanes[0].label, sizeof(lanes->lanes[0].label), "%s", latency->label);
    if (latency->with_floor) {
        struct lane *lane = &lanes->lanes[lanes->count++];
        lane->kind = LANE_FLOOR;
        snprintf(lane->label, sizeof(lane->label), "%s-floor", latency->label);
    }
    for (uint32_t i = 0; i < latency->peer_count; i++) {
        if (!peer_read(latency, latency->peers[i], &lanes->lanes[lanes->count++])) {
            return false;
        }
    }
    if (lanes->floor_host != NULL && latency->connection.client.fabric.provider == NULL &&
        latency->connection.client.path != NULL) {
        complain("--floor-peer", "a Unix socket does not reach another host");
        return false;
    }
    return lanes_are_distinct(lanes);
}

/* -1: go on; else the exit code. */
static int
options_read(struct latency *latency, int argc, char **argv)
{
    int option;
    bench_connection_init(&latency->connection);
    latency->lanes.samples = SAMPLES_DEFAULT;
    latency->warmup = WARMUP_DEFAULT;
    latency->lanes.value_bytes = VALUE_DEFAULT;
    memset(latency->chosen, 1, sizeof(latency->chosen));
    while ((option = getopt_long(argc, argv, BENCH_CONNECTION_LETTERS "d:", long_options, NULL)) != -1) {
        if (option == BENCH_HELP) {
            printf("%s", usage);
            return 0;
        }
        int taken = bench_connection_option(&latency->connection, option, optarg);
        if (taken < 0 || (taken == 0 && !option_take(latency, option, optarg))) {
            return BENCH_USAGE_ERROR;
        }
    }
    if (optind < argc) {
        complain(argv[optind], "unexpected argument; --help shows the options");
        return BENCH_USAGE_ERROR;
    }
    if (latency->label[0] == '\0') {
        bench_label(&latency->connection, latency->label);
    }
    return lanes_plan(latency) ? -1 : BENCH_USAGE_ERROR;
}

/* ---- what is said ---- */

static void
warn(struct latency *latency, const char *text)
{
    fprintf(stderr, "sluice-bench: warning: %s\n", text);
    if (latency->metadata != NULL) {
        metadata_warn(latency->metadata, text);
    }
}

static void
head_print(struct latency *latency)
{
    char machine[256], transport[256];
    if (latency->csv) {
        summary_csv_header(stdout);
        return;
    }
    machine_describe(machine, sizeof(machine));
    client_describe(latency->lanes.lanes[0].client, transport, sizeof(transport));
    printf("%s; client on CPU %d\n%s; values of %llu bytes; %llu samples after %llu\n\n", machine,
           latency->connection.cpu, transport, (unsigned long long)latency->lanes.value_bytes,
           (unsigned long long)latency->lanes.samples, (unsigned long long)latency->warmup);
    printf("%-24s %-7s %8s %8s %8s %8s %9s %9s %9s %8s %9s %8s\n", "label", "op", "min us", "p50", "p90", "p99",
           "p99.9", "p99.99", "max", "mean", "1/s", "samples");
}

static void
row_print(struct latency *latency, const struct lane *lane, enum operation_id id)
{
    const char *name = operation_names[id];
    const struct summary *s = &lane->results[id];
    progress_end(&latency->progress);
    if (latency->csv) {
        summary_csv_row(stdout, lane->label, name, s);
    } else {
        printf("%-24s %-7s %8.2f %8.2f %8.2f %8.2f %9.2f %9.2f %9.2f %8.2f %9.0f %8llu\n", lane->label, name, s->min_us,
               s->p50_us, s->p90_us, s->p99_us, s->p99_9_us, s->p99_99_us, s->max_us, s->mean_us, s->qps,
               (unsigned long long)s->samples);
    }
    fflush(stdout);
}

static void
unavailable_say(struct latency *latency, const struct lane *lane, enum operation_id id, const char *error)
{
    char text[OPERATION_WHY_BYTES + 32], why[512];
    const char *name = operation_names[id];
    size_t bytes = strlen(name);
    bool named = strncmp(error, name, bytes) == 0 && error[bytes] == ':';
    snprintf(text, sizeof(text), "%s%s%s", named ? "" : name, named ? "" : ": ", error);
    progress_end(&latency->progress);
    if (latency->csv) {
        fprintf(stderr, "sluice-bench: %s: %s\n", lane->label, text);
    } else {
        printf("%-24s %-7s unavailable: %s\n", lane->label, name, error);
    }
    if (latency->result.folder != NULL &&
        !lane_result_unavailable(latency->result.folder, lane->label, text, why, sizeof(why))) {
        complain("--out", why);
        latency->failed = true;
    }
    latency->failed |= lane->kind != LANE_PEER; /* what another server lacks is its business */
}

/* Means over the operations that were measured. */
static void
lane_totals_print(const struct lane *lane)
{
    struct summary sum = { 0 };
    double count = 0;
    for (uint32_t id = 0; id < OPERATION_COUNT; id++) {
        const struct summary *s = &lane->results[id];
        if (s->samples > 0) {
            count++;
            sum.p50_us += s->p50_us;
            sum.mean_us += s->mean_us;
            sum.p99_99_us += s->p99_99_us;
            sum.qps += s->qps;
            sum.max_us = MAX(sum.max_us, s->max_us);
        }
    }
    if (count > 0) {
        printf("%s, mean of %.0f operations: p50 %.2f us, mean %.2f us, p99.99 %.2f us, %.0f a second; worst %.2f us\n",
               lane->label, count, sum.p50_us / count, sum.mean_us / count, sum.p99_99_us / count, sum.qps / count,
               sum.max_us);
    }
}

/* Over the operations that both measured. */
static void
ratio_print(const struct lane *ours, const struct lane *other)
{
    double our_sum = 0, other_sum = 0, count = 0;
    for (uint32_t id = 0; id < OPERATION_COUNT; id++) {
        if (ours->results[id].samples > 0 && other->results[id].samples > 0) {
            our_sum += ours->results[id].p50_us;
            other_sum += other->results[id].p50_us;
            count++;
        }
    }
    if (count > 0) {
        printf("mean p50 over that of %s, %.0f operations: %.3f (%.2f / %.2f us)\n", other->label, count,
               our_sum / other_sum, our_sum / count, other_sum / count);
    }
}

static void
totals_print(const struct latency *latency)
{
    const struct lanes *lanes = &latency->lanes;
    if (latency->csv) {
        return;
    }
    printf("\n");
    for (uint32_t i = 0; i < lanes->count; i++) {
        lane_totals_print(&lanes->lanes[i]);
    }
    for (uint32_t i = 1; i < lanes->count; i++) {
        ratio_print(&lanes->lanes[0], &lanes->lanes[i]);
    }
}

/* ---- measuring ---- */

/* `total` round trips of every lane that takes part, in turns. */
static void
lanes_run(struct latency *latency, enum operation_id id, uint64_t total, bool keep)
{
    struct lanes *lanes = &latency->lanes;
    for (uint64_t done = 0; done < total && lanes->lanes[0].takes_part && !machine_interrupted();) {
        uint32_t block = (uint32_t)MIN(LANE_BLOCK, total - done);
        for (uint32_t i = 0; i < lanes->count && !machine_interrupted(); i++) {
            char why[OPERATION_WHY_BYTES] = "";
            if (lanes->lanes[i].takes_part && lane_block(lanes, i, block, keep, why, sizeof(why)) != OPERATION_OK) {
                unavailable_say(latency, &lanes->lanes[i], id, why);
            }
        }
        done += block;
        latency->steps += block;
        progress_show(&latency->progress, latency->steps);
    }
}

static void
operation_begin(struct latency *latency, enum operation_id id)
{
    struct lanes *lanes = &latency->lanes;
    for (uint32_t i = 0; i < lanes->count; i++) {
        char why[OPERATION_WHY_BYTES] = "";
        if (lane_begin(lanes, i, id, why, sizeof(why)) != OPERATION_OK) {
            unavailable_say(latency, &lanes->lanes[i], id, why);
        }
    }
}

/* What there is, also after Ctrl-C. */
static void
operation_finish(struct latency *latency, enum operation_id id, double began_s, double seconds)
{
    struct lanes *lanes = &latency->lanes;
    for (uint32_t i = 0; i < lanes->count; i++) {
        char why[512];
        struct lane *lane = &lanes->lanes[i];
        if (lane->done == 0) {
            continue;
        }
        lane_finish(lanes, i, id);
        row_print(latency, lane, id);
        if (!lane_result_row(&latency->result, lane, id, began_s, seconds, why, sizeof(why))) {
            complain(latency->result.folder != NULL ? "--out" : "--hlog", why);
            latency->failed = true;
        }
    }
}

static void
operations_measure(struct latency *latency)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < OPERATION_COUNT; i++) {
        total += latency->chosen[i] ? latency->warmup + latency->lanes.samples : 0;
    }
    const struct lane *ours = &latency->lanes.lanes[0]; /* without it there is nothing to measure */
    for (uint32_t i = 0; i < OPERATION_COUNT && ours->client != NULL && !machine_interrupted(); i++) {
        enum operation_id id = (enum operation_id)i;
        if (!latency->chosen[i]) {
            continue;
        }
        progress_begin(&latency->progress, operation_names[i], total);
        operation_begin(latency, id);
        lanes_run(latency, id, latency->warmup, false);
        struct timespec began;
        clock_gettime(CLOCK_REALTIME, &began);
        int64_t begun = machine_now_ns();
        lanes_run(latency, id, latency->lanes.samples, true);
        operation_finish(latency, id, (double)began.tv_sec + (double)began.tv_nsec * 1e-9,
                         (double)(machine_now_ns() - begun) * 1e-9);
    }
    progress_end(&latency->progress);
}

/* Whether the server's work is part of this machine's: then it is told from that of others only when its pid is known.
 */
static bool
server_is_here(const struct client_options *options)
{
    struct addrinfo *list = NULL;
    bool here = options->path != NULL;
    if (here || getaddrinfo(options->host, NULL, NULL, &list) != 0) {
        return true;
    }
    for (const struct addrinfo *one = list; one != NULL && !here; one = one->ai_next) {
        int fd = socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        here = fd >= 0 && bind(fd, one->ai_addr, one->ai_addrlen) == 0; /* only own addresses can be bound */
        if (fd >= 0) {
            close(fd);
        }
    }
    freeaddrinfo(list);
    return here;
}

static void
watched_measure(struct latency *latency)
{
    struct machine_watch watch;
    char busy[WARNING_BYTES];
    pid_t quiet[LANES_MAX];
    uint32_t count = 0;
    bool known = latency->pause_pid != 0 || !server_is_here(&latency->connection.client);
    for (uint32_t i = 0; i < latency->lanes.count && known; i++) {
        const struct lane *lane = &latency->lanes.lanes[i];
        quiet[count++] = lane->kind == LANE_FLOOR ? floor_peer(lane->floor) : lane->pid;
    }
    machine_watch_begin(&watch, quiet, count);
    operations_measure(latency);
    if (machine_watch_end(&watch, quiet, count, busy, sizeof(busy))) {
        warn(latency, busy);
    }
    if (machine_interrupted()) {
        warn(latency, "interrupted: what was measured until then is kept");
    }
}

static bool
result_finish(struct latency *latency)
{
    char why[512];
    const char *folder = latency->result.folder;
    if (folder == NULL) {
        return true;
    }
    if (!lane_result_config(&latency->result, &latency->lanes, latency->connection.ethernet, latency->warmup, why,
                            sizeof(why)) ||
        !metadata_write(latency->metadata, folder, why, sizeof(why))) {
        complain("--out", why);
        return false;
    }
    return true;
}

int
bench_latency(int argc, char **argv)
{
    static struct latency latency;
    char why[1024] = "";
    latency.metadata = metadata_begin(argc, argv); /* getopt reorders the words */
    int code = options_read(&latency, argc, argv);
    if (code >= 0) {
        metadata_end(latency.metadata);
        return code;
    }
    machine_interrupts_catch();
    if (!machine_pin(latency.connection.cpu)) {
        return complain("--cpu", "that CPU is not allowed");
    }
    if (!lane_result_open(&latency.result, &latency.lanes, why, sizeof(why))) {
        return complain(latency.result.folder != NULL ? "--out" : "--hlog", why);
    }
    machine_ns_per_cycle();
    metadata_note(latency.metadata, "label", latency.label);
    if (lanes_open(&latency.lanes, latency.connection.server_cpu, why, sizeof(why))) {
        head_print(&latency);
        watched_measure(&latency);
        totals_print(&latency);
        code = !result_finish(&latency) || latency.failed ? EXIT_FAILED : machine_interrupted() ? EXIT_INTERRUPTED : 0;
    } else {
        complain("connecting", why);
        code = EXIT_NO_CONNECTION;
    }
    lanes_close(&latency.lanes);
    metadata_end(latency.metadata);
    if (fflush(stdout) != 0) {
        code = complain("writing", "the output cannot be written");
    }
    return code;
}
