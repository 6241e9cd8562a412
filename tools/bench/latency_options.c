/* latency_options.c - the command line of sluice-bench latency, and the lanes that it plans. */
#include "tools/bench/latency.h"
#include "tools/bench/machine.h"
#include <getopt.h>

#define SAMPLES_DEFAULT 200000
#define WARMUP_DEFAULT  20000
#define VALUE_DEFAULT   64

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
        if (latency->peer_count == LATENCY_PEERS_MAX) {
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
    struct bench_peer peer;
    if (!bench_peer_read(text, &latency->connection.client, &peer)) {
        return false;
    }
    *lane = (struct lane){ .kind = LANE_PEER, .options = peer.client, .pid = peer.pid };
    snprintf(lane->label, sizeof(lane->label), "%s", peer.label);
    return true;
}

/* Results are told apart by label, and a process that is stopped for one lane must not serve another. */
static bool
lanes_are_distinct(const struct lanes *lanes)
{
    for (uint32_t i = 0; i < lanes->count; i++) {
        const struct lane *lane = &lanes->lanes[i];
        if (!bench_process_is_there(lane->label, lane->pid)) {
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

int
latency_options_read(struct latency *latency, int argc, char **argv)
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
