/* latency.c - sluice-bench latency: one request after the other, every sample kept, every reply checked. */
#include "config/cycles.h"
#include "tools/bench/bench.h"
#include "tools/bench/floor.h"
#include "tools/bench/machine.h"
#include "tools/bench/operations.h"
#include "tools/bench/stats.h"
#include <getopt.h>
#include <signal.h>

#define SAMPLES_DEFAULT 200000
#define WARMUP_DEFAULT  20000
#define VALUE_DEFAULT   64
#define LABEL_BYTES     96
/* Operation and floor take turns in blocks of so many round trips. */
#define BLOCK_SAMPLES   1000

static const char usage[] =
    "Usage: sluice-bench latency [OPTIONS]\n"
    "PING SET GET HSET HGET ZADD ZSCORE PUBSUB, one request after the other on one connection (PUBSUB: a second one\n"
    "receives), spinning, every reply checked, exact ranks from all samples.\n"
    "\n" BENCH_CONNECTION_USAGE "  --samples N, --warmup N       of each operation (200000, 20000)\n"
    "  -d BYTES                      value of SET, GET and PUBSUB (64)\n"
    "  --only OP[,OP...]             some of the eight\n"
    "  --floor                       the bare transport with the same frame sizes, in turns with each operation; on a\n"
    "                                fabric only where request and reply fit one frame each\n"
    "  --pause PID                   stop this process while the floor is measured: a server that spins on its CPU\n"
    "  --label TEXT                  in the first column\n"
    "  --csv                         label,operation,min_us,p50_us,... only\n";

struct latency {
    struct bench_connection connection;
    uint64_t samples, warmup, value_bytes, pause_pid;
    bool chosen[OPERATION_COUNT];
    bool with_floor, csv;
    char label[LABEL_BYTES];

    struct client *client, *subscriber;
    struct floor *floor;
    uint64_t *ticks, *floor_ticks;
    struct summary totals; /* sums over the operations that were measured */
    uint32_t measured, floor_measured;
    double floor_ratio_sum, floor_p50_sum, p50_beside_floor_sum;
};

static int
complain(const char *what, const char *why)
{
    fprintf(stderr, "sluice-bench: %s: %s\n", what, why);
    return 1;
}

static bool
only_read(struct latency *latency, const char *list)
{
    memset(latency->chosen, 0, sizeof(latency->chosen));
    while (*list != '\0') {
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
        list += bytes + (list[bytes] == ',');
    }
    return true;
}

enum {
    OPTION_SAMPLES = BENCH_OWN,
    OPTION_WARMUP,
    OPTION_ONLY,
    OPTION_FLOOR,
    OPTION_PAUSE,
    OPTION_LABEL,
    OPTION_CSV,
};

static const struct option long_options[] = {
    BENCH_CONNECTION_OPTIONS,
    { "samples", required_argument, NULL, OPTION_SAMPLES },
    { "warmup", required_argument, NULL, OPTION_WARMUP },
    { "only", required_argument, NULL, OPTION_ONLY },
    { "floor", no_argument, NULL, OPTION_FLOOR },
    { "pause", required_argument, NULL, OPTION_PAUSE },
    { "label", required_argument, NULL, OPTION_LABEL },
    { "csv", no_argument, NULL, OPTION_CSV },
    { 0 },
};

/* One option of our own. False: a bad value, or unknown. */
static bool
option_take(struct latency *latency, int option, const char *value)
{
    switch (option) {
    case OPTION_SAMPLES:
        return bench_number("--samples", value, 1, 100000000, &latency->samples);
    case OPTION_WARMUP:
        return bench_number("--warmup", value, 0, 100000000, &latency->warmup);
    case 'd':
        return bench_number("-d", value, 0, 1024 * 1024, &latency->value_bytes);
    case OPTION_ONLY:
        return only_read(latency, value);
    case OPTION_FLOOR:
        latency->with_floor = true;
        return true;
    case OPTION_PAUSE:
        return bench_number("--pause", value, 2, 1 << 30, &latency->pause_pid);
    case OPTION_LABEL:
        snprintf(latency->label, sizeof(latency->label), "%s", value);
        return true;
    case OPTION_CSV:
        latency->csv = true;
        return true;
    default:
        return false; /* getopt complained */
    }
}

/* -1: go on; else the exit code. */
static int
options_read(struct latency *latency, int argc, char **argv)
{
    int option;
    bench_connection_init(&latency->connection);
    latency->samples = SAMPLES_DEFAULT;
    latency->warmup = WARMUP_DEFAULT;
    latency->value_bytes = VALUE_DEFAULT;
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
        bench_label(&latency->connection, latency->label, sizeof(latency->label));
    }
    return -1;
}

/* ---- measuring ---- */

/* Samples taken: fewer than `count` after Ctrl-C. False: `why`. */
static bool
operation_block(struct operation *operation, uint64_t *ticks, uint64_t count, uint64_t *taken, char *why,
                size_t why_bytes)
{
    for (*taken = 0; *taken < count && !machine_interrupted(); (*taken)++) {
        uint64_t begin = cycles_now();
        bool good = operation_run(operation, *taken % OPERATION_VARIANTS, why, why_bytes);
        uint64_t end = cycles_now();
        if (UNLIKELY(!good)) {
            return false;
        }
        ticks[*taken] = end - begin;
    }
    return true;
}

static struct floor_sizes
floor_sizes_of(const struct operation *operation)
{
    struct floor_sizes sizes = { .request_bytes = (uint32_t)operation->request[0].bytes, .reply_count = 1 };
    sizes.reply_bytes[0] = (uint32_t)operation->answer[0].bytes;
    if (operation->subscriber != NULL) {
        sizes.reply_bytes[sizes.reply_count++] = (uint32_t)operation->message[0].bytes;
    }
    return sizes;
}

static bool
floor_fits(const struct latency *latency, const struct floor_sizes *sizes)
{
    uint32_t largest = sizes->request_bytes;
    for (uint32_t i = 0; i < sizes->reply_count; i++) {
        largest = MAX(largest, sizes->reply_bytes[i]);
    }
    return floor_frame_bytes(latency->floor) == UINT32_MAX || largest + 32 <= floor_frame_bytes(latency->floor);
}

static bool
floor_block(struct latency *latency, const struct floor_sizes *sizes, uint64_t *ticks, uint32_t count, char *why,
            size_t why_bytes)
{
    pid_t paused = (pid_t)latency->pause_pid;
    if (paused != 0) {
        kill(paused, SIGSTOP);
    }
    bool good = floor_run(latency->floor, sizes, ticks, count, why, why_bytes);
    if (paused != 0) {
        kill(paused, SIGCONT);
    }
    return good;
}

static void
row_print(const struct latency *latency, const char *label, const char *operation, const struct summary *s)
{
    if (latency->csv) {
        summary_csv_row(stdout, label, operation, s);
    } else {
        printf("%-24s %-7s %8.2f %8.2f %8.2f %8.2f %9.2f %9.2f %9.2f %8.2f %9.0f %8llu\n", label, operation, s->min_us,
               s->p50_us, s->p90_us, s->p99_us, s->p99_9_us, s->p99_99_us, s->max_us, s->mean_us, s->qps,
               (unsigned long long)s->samples);
    }
    fflush(stdout);
}

static void
totals_add(struct latency *latency, const struct summary *s)
{
    latency->totals.p50_us += s->p50_us;
    latency->totals.mean_us += s->mean_us;
    latency->totals.qps += s->qps;
    latency->totals.p99_99_us += s->p99_99_us;
    latency->totals.max_us = MAX(latency->totals.max_us, s->max_us);
    latency->measured++;
}

/* Blocks in turn; prints what there is, also after Ctrl-C. */
static bool
operation_measure(struct latency *latency, struct operation *operation, char *why, size_t why_bytes)
{
    const char *name = operation_names[operation->id];
    struct floor_sizes sizes = floor_sizes_of(operation);
    bool with_floor = latency->floor != NULL && floor_fits(latency, &sizes);
    uint64_t done = 0, floor_done = 0, taken = 0;
    bool good = true;
    while (good && done < latency->samples && !machine_interrupted()) {
        uint32_t block = (uint32_t)MIN(BLOCK_SAMPLES, latency->samples - done);
        good = operation_block(operation, latency->ticks + done, block, &taken, why, why_bytes);
        done += taken;
        if (good && with_floor) {
            good = floor_block(latency, &sizes, latency->floor_ticks + floor_done, block, why, why_bytes);
            floor_done += good ? block : 0;
        }
    }
    if (done > 0) {
        struct summary summary = summary_of(latency->ticks, done, machine_ns_per_cycle());
        row_print(latency, latency->label, name, &summary);
        totals_add(latency, &summary);
        if (floor_done > 0) {
            char label[LABEL_BYTES + 8];
            struct summary floor = summary_of(latency->floor_ticks, floor_done, machine_ns_per_cycle());
            snprintf(label, sizeof(label), "%s-floor", latency->label);
            row_print(latency, label, name, &floor);
            latency->floor_measured++;
            latency->floor_p50_sum += floor.p50_us;
            latency->p50_beside_floor_sum += summary.p50_us;
        }
    }
    return good;
}

static bool
operation_warm_up(struct latency *latency, struct operation *operation, char *why, size_t why_bytes)
{
    uint64_t taken;
    for (uint64_t left = latency->warmup; left > 0 && !machine_interrupted(); left -= MIN(left, latency->samples)) {
        if (!operation_block(operation, latency->ticks, MIN(left, latency->samples), &taken, why, why_bytes)) {
            return false;
        }
    }
    struct floor_sizes sizes = floor_sizes_of(operation);
    if (latency->floor == NULL || !floor_fits(latency, &sizes) || machine_interrupted()) {
        return true;
    }
    uint32_t count = (uint32_t)MIN(MIN(latency->warmup, BLOCK_SAMPLES), latency->samples);
    return floor_block(latency, &sizes, latency->floor_ticks, count, why, why_bytes);
}

static bool
operation_all(struct latency *latency, enum operation_id id)
{
    char why[OPERATION_WHY_BYTES] = "";
    struct operation operation;
    bool good =
        operation_open(&operation, id, latency->client, latency->subscriber, latency->value_bytes, why, sizeof(why)) &&
        operation_warm_up(latency, &operation, why, sizeof(why)) &&
        operation_measure(latency, &operation, why, sizeof(why));
    operation_close(&operation);
    if (!good) {
        complain(operation_names[id], why);
    }
    return good;
}

static void
totals_print(const struct latency *latency)
{
    const struct summary *t = &latency->totals;
    double n = latency->measured;
    if (latency->csv || latency->measured == 0) {
        return;
    }
    printf("\n%s, mean of %u operations: p50 %.2f us, mean %.2f us, p99.99 %.2f us, %.0f a second; worst %.2f us\n",
           latency->label, latency->measured, t->p50_us / n, t->mean_us / n, t->p99_99_us / n, t->qps / n, t->max_us);
    if (latency->floor_measured > 0) {
        printf("mean p50 over the floor's mean p50: %.3f (%.2f / %.2f us)\n",
               latency->p50_beside_floor_sum / latency->floor_p50_sum,
               latency->p50_beside_floor_sum / latency->floor_measured,
               latency->floor_p50_sum / latency->floor_measured);
    }
}

static bool
connections_open(struct latency *latency)
{
    const struct client_options *client = &latency->connection.client;
    char why[CLIENT_WHY_BYTES];
    if (latency->with_floor) {
        enum floor_kind kind = client->fabric.provider != NULL ? FLOOR_FABRIC
                               : client->path != NULL          ? FLOOR_UNIX
                                                               : FLOOR_TCP;
        latency->floor = floor_open(kind, &client->fabric, latency->connection.server_cpu, why, sizeof(why));
        if (latency->floor == NULL || !floor_connect(latency->floor, why, sizeof(why))) {
            complain("--floor", why);
            return false;
        }
    }
    latency->client = client_open(client, why, sizeof(why));
    latency->subscriber = latency->client != NULL ? client_open(client, why, sizeof(why)) : NULL;
    if (latency->subscriber == NULL) {
        complain("connecting", why);
        return false;
    }
    return true;
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
    client_describe(latency->client, transport, sizeof(transport));
    printf("%s; client on CPU %d\n%s; values of %llu bytes; %llu samples after %llu\n\n", machine,
           latency->connection.cpu, transport, (unsigned long long)latency->value_bytes,
           (unsigned long long)latency->samples, (unsigned long long)latency->warmup);
    printf("%-24s %-7s %8s %8s %8s %8s %9s %9s %9s %8s %9s %8s\n", "label", "op", "min us", "p50", "p90", "p99",
           "p99.9", "p99.99", "max", "mean", "1/s", "samples");
}

int
bench_latency(int argc, char **argv)
{
    static struct latency latency;
    int code = options_read(&latency, argc, argv);
    if (code >= 0) {
        return code;
    }
    machine_interrupts_catch();
    if (!machine_pin(latency.connection.cpu)) {
        return complain("--cpu", "that CPU is not allowed");
    }
    latency.ticks = calloc(latency.samples, sizeof(*latency.ticks));
    CHECK(latency.ticks != NULL);
    memset(latency.ticks, 1, latency.samples * sizeof(*latency.ticks)); /* no page fault while measuring */
    if (latency.with_floor) {
        latency.floor_ticks = calloc(latency.samples, sizeof(*latency.floor_ticks));
        CHECK(latency.floor_ticks != NULL);
        memset(latency.floor_ticks, 1, latency.samples * sizeof(*latency.floor_ticks));
    }
    machine_ns_per_cycle();

    bool good = connections_open(&latency);
    if (good) {
        struct machine_watch watch;
        char busy[256];
        head_print(&latency);
        const pid_t quiet[] = { (pid_t)latency.pause_pid, latency.floor != NULL ? floor_peer(latency.floor) : 0 };
        uint32_t quiet_count = latency.pause_pid == 0 ? 0 : latency.floor == NULL ? 1 : 2;
        machine_watch_begin(&watch, quiet, quiet_count);
        for (uint32_t i = 0; good && i < OPERATION_COUNT && !machine_interrupted(); i++) {
            good = !latency.chosen[i] || operation_all(&latency, (enum operation_id)i);
        }
        totals_print(&latency);
        if (machine_watch_end(&watch, quiet, quiet_count, busy, sizeof(busy))) {
            fprintf(stderr, "sluice-bench: %s\n", busy);
        }
        operation_cleanup(latency.client);
    }
    client_close(latency.client);
    client_close(latency.subscriber);
    floor_close(latency.floor);
    free(latency.ticks);
    free(latency.floor_ticks);
    return good ? 0 : 1;
}
