/* latency.c - sluice-bench latency: one request after the other, every sample kept, every reply checked. */
#include "tools/bench/latency.h"
#include "tools/bench/machine.h"
#include "tools/bench/metadata.h"
#include <netdb.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WARNING_BYTES 1024

enum { EXIT_FAILED = 1, EXIT_NO_CONNECTION = 3, EXIT_INTERRUPTED = 130 };

static int
complain(const char *what, const char *why)
{
    fprintf(stderr, "sluice-bench: %s: %s\n", what, why);
    return EXIT_FAILED;
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
    int code = latency_options_read(&latency, argc, argv);
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
    return code;
}
