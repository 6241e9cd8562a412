/* throughput.c - sluice-bench throughput: closed loop, redis-benchmark's letters, every combination of its lists. */
#include "codec/sbe.h"
#include "tools/bench/fill.h"
#include "tools/bench/machine.h"
#include "tools/bench/own_server.h"
#include "tools/bench/responder.h"
#include "tools/bench/throughput_rows.h"
#include <getopt.h>

#define LIST_MAX      16
#define PEER_RUNS     5
#define WARNING_BYTES 256

static const char usage[] =
    "Usage: sluice-bench throughput [OPTIONS] [COMMAND ARGUMENT...]\n"
    "Every connection keeps -P requests in flight: a closed loop, which asks nothing while the server pauses, so that\n"
    "its percentiles do not show pauses (sluice-bench open does). The types of all replies are checked, and rates "
    "count\n"
    "those that are right; one request in flight on each connection is timed, the last 262,144 of each thread are\n"
    "ranked.\n"
    "-c, -P, -d and --lcores take lists (1,16,50): every combination is run.\n"
    "\n" BENCH_CONNECTION_USAGE "  -c CONNECTIONS                (50)\n"
    "  -P DEPTH                      requests in flight on each connection (1)\n"
    "  --lcores N                    start a sluiced with so many lcores, instead of -h, -p, -s\n"
    "  --sluiced PATH                which one (beside this program)\n"
    "  -n REQUESTS                   of all connections (100000)\n"
    "  --seconds S                   for so long instead\n"
    "  -d BYTES                      values: random letters (32)\n"
    "  -t TEST[,TEST...]             one after the other: %s\n" WORKLOAD_USAGE TARGET_USAGE
    "  --server-pid PID              count what the server spends: CPU ns of its threads and instructions for each\n"
    "                                operation, with --load resident bytes for each entry (of many\n"
    "                                keys: memory that the server takes ahead counts too)\n"
    "  --ctl PATH                    its management socket: ask what of that it calls busy\n"
    "  --runs N                      medians of so many (1; with --peer 5)\n"
    "  --refill N                    send when at least N may be sent; -P: whole batches (half of -P)\n"
    "  --threads N                   (1), each with its share of the connections\n"
    "  --spin                        poll, do not sleep (always with -c 1 and on a fabric)\n"
    "  --ceiling                     this generator against a null responder instead of a server\n"
    "  -q, --csv                     one short line, or values only\n" WORKLOAD_COMMAND_USAGE
    "Exit codes: 0 measured, 1 something failed, 2 usage, 3 cannot connect, 130 interrupted: what was measured is "
    "kept.\n";

struct throughput {
    struct targets targets;
    struct workload workload;
    struct generator_plan plan;
    uint64_t connections[LIST_MAX], depths[LIST_MAX], lcores[LIST_MAX];
    uint32_t connection_count, depth_count, lcore_count; /* lcore_count 0: the server is there already */
    uint32_t refill, runs;                               /* 0: the default */
    const char *sluiced;
    bool ceiling;
    enum row_form form;
    bool failed;
    int code; /* once it is not 0 nothing more is measured */

    struct own_server own; /* with --lcores */
    /* the present case */
    struct workload_run run;
    struct measured measured[TARGETS_MAX];
};

static bool
complain(const char *what, const char *why)
{
    fprintf(stderr, "sluice-bench: %s: %s\n", what, why);
    return false;
}

/* ---- options ---- */

enum {
    OPTION_SECONDS = TARGET_OWN,
    OPTION_CONTROL,
    OPTION_LCORES,
    OPTION_SLUICED,
    OPTION_RUNS,
    OPTION_REFILL,
    OPTION_THREADS,
    OPTION_SPIN,
    OPTION_CEILING,
    OPTION_CSV,
};

static const struct option long_options[] = {
    BENCH_CONNECTION_OPTIONS,
    WORKLOAD_OPTIONS,
    TARGET_OPTIONS,
    { "seconds", required_argument, NULL, OPTION_SECONDS },
    { "ctl", required_argument, NULL, OPTION_CONTROL },
    { "lcores", required_argument, NULL, OPTION_LCORES },
    { "sluiced", required_argument, NULL, OPTION_SLUICED },
    { "runs", required_argument, NULL, OPTION_RUNS },
    { "refill", required_argument, NULL, OPTION_REFILL },
    { "threads", required_argument, NULL, OPTION_THREADS },
    { "spin", no_argument, NULL, OPTION_SPIN },
    { "ceiling", no_argument, NULL, OPTION_CEILING },
    { "csv", no_argument, NULL, OPTION_CSV },
    { 0 },
};

/* A number that fits 32 bits. */
static bool
small_read(const char *option, const char *value, uint64_t max, uint32_t *out)
{
    uint64_t number = 0;
    bool good = bench_number(option, value, 1, max, &number);
    *out = (uint32_t)number;
    return good;
}

/* One option of our own. False: a bad value, or unknown. */
static bool
option_take(struct throughput *throughput, int option, const char *value)
{
    struct generator_plan *plan = &throughput->plan;
    switch (option) {
    case 'c':
        throughput->connection_count = bench_numbers("-c", value, 1, 10000, throughput->connections, LIST_MAX);
        return throughput->connection_count > 0;
    case 'P':
        throughput->depth_count = bench_numbers("-P", value, 1, 65536, throughput->depths, LIST_MAX);
        return throughput->depth_count > 0;
    case 'n':
        return bench_number("-n", value, 1, UINT64_MAX / 2, &plan->requests);
    case 'q':
        throughput->form = ROWS_QUIET;
        return true;
    case OPTION_SECONDS:
        return bench_decimal("--seconds", value, 0.001, 1e6, &plan->seconds);
    case OPTION_CONTROL:
        throughput->targets.targets[0].control = value;
        return true;
    case OPTION_LCORES:
        throughput->lcore_count =
            bench_numbers("--lcores", value, 1, machine_cpu_count(), throughput->lcores, LIST_MAX);
        return throughput->lcore_count > 0;
    case OPTION_SLUICED:
        throughput->sluiced = value;
        return true;
    case OPTION_RUNS:
        return small_read("--runs", value, THROUGHPUT_RUNS_MAX, &throughput->runs);
    case OPTION_REFILL:
        return small_read("--refill", value, 65536, &throughput->refill);
    case OPTION_THREADS:
        return small_read("--threads", value, ARRAY_COUNT(plan->cpus), &plan->threads);
    case OPTION_SPIN:
        plan->spin = true;
        return true;
    case OPTION_CEILING:
        throughput->ceiling = true;
        return true;
    case OPTION_CSV:
        throughput->form = ROWS_CSV;
        return true;
    default:
        return false; /* getopt complained */
    }
}

static bool
ceiling_check(struct throughput *throughput)
{
    struct targets *targets = &throughput->targets;
    struct client_options *client = &targets->targets[0].client;
    if (!throughput->ceiling) {
        return true;
    }
    if (client->fabric.provider != NULL) {
        return complain("--ceiling", "the null responder speaks TCP; not with --provider");
    }
    if (targets->count > 1 || throughput->lcore_count > 0) {
        return complain("--ceiling", "no server takes part; not with --peer or --lcores");
    }
    if (client->wire == CLIENT_RESP3) {
        client->wire = CLIENT_RESP2; /* the null responder knows no HELLO; requests are the same */
    }
    client->host = "127.0.0.1";
    client->path = client->password = NULL;
    throughput->workload.with_load = false;
    snprintf(targets->targets[0].label, sizeof(targets->targets[0].label), "ceiling-%s",
             client->wire == CLIENT_SBE ? "sbe" : "resp");
    return true;
}

static bool
options_finish(struct throughput *throughput, int argc, char **argv)
{
    struct generator_plan *plan = &throughput->plan;
    if (plan->seconds > 0) {
        plan->requests = 0;
    }
    if (throughput->runs == 0) {
        throughput->runs = throughput->targets.count > 1 ? PEER_RUNS : 1;
    }
    for (uint32_t i = 0; i < throughput->depth_count; i++) {
        if (throughput->refill > throughput->depths[i]) {
            return complain("--refill", "more than -P can never be sent at once");
        }
    }
    for (uint32_t i = 0; i < throughput->connection_count; i++) {
        if (plan->threads > throughput->connections[i]) {
            return complain("--threads", "more than connections");
        }
    }
    for (uint32_t i = 0; i < ARRAY_COUNT(plan->cpus); i++) {
        /* One thread has a CPU of its own; where several are, the kernel knows better. */
        plan->cpus[i] = plan->threads == 1 ? throughput->targets.connection.cpu : -1;
    }
    if (throughput->lcore_count > 0 &&
        (throughput->targets.targets[0].pid != 0 || throughput->targets.targets[0].control != NULL)) {
        return complain("--lcores", "it starts its own server: not with --server-pid, --pause or --ctl");
    }
    return workload_finish(&throughput->workload) && targets_finish(&throughput->targets, argc, argv) &&
           ceiling_check(throughput);
}

/* -1: go on; else the exit code. */
static int
options_read(struct throughput *throughput, int argc, char **argv)
{
    int option;
    targets_init(&throughput->targets);
    workload_init(&throughput->workload, "ping,set,get,incr,hset,hget,zadd,zscore");
    throughput->plan = (struct generator_plan){ .requests = 100000, .threads = 1, .samples = true };
    throughput->connections[0] = 50;
    throughput->depths[0] = 1;
    throughput->connection_count = throughput->depth_count = 1;
    while ((option = getopt_long(argc, argv, "+" BENCH_CONNECTION_LETTERS WORKLOAD_LETTERS "c:P:n:q", long_options,
                                 NULL)) != -1) {
        if (option == BENCH_HELP) {
            char names[256];
            load_op_names(names, sizeof(names));
            printf(usage, names);
            return 0;
        }
        int taken = workload_option(&throughput->workload, option, optarg);
        if (taken == 0) {
            taken = targets_option(&throughput->targets, option, optarg);
        }
        if (taken < 0 || (taken == 0 && !option_take(throughput, option, optarg))) {
            return BENCH_USAGE_ERROR;
        }
    }
    if (optind < argc && !workload_command(&throughput->workload, argc - optind, argv + optind)) {
        return BENCH_USAGE_ERROR;
    }
    return options_finish(throughput, argc, argv) ? -1 : BENCH_USAGE_ERROR;
}

/* ---- one load ---- */

static void
fail(struct throughput *throughput, const char *label, const char *what, const char *why)
{
    char error[CLIENT_WHY_BYTES + 64];
    complain(what, why);
    snprintf(error, sizeof(error), "%s: %s", what, why);
    targets_unavailable(&throughput->targets, label, error);
    throughput->failed = true;
}

/* One run on one server. False: complained. */
static bool
target_run(struct throughput *throughput, uint32_t index, const struct generator_plan *plan, struct measured *measured)
{
    static struct counters counters; /* 6 KiB */
    struct target *target = &throughput->targets.targets[index];
    struct generator_result result;
    char why[CLIENT_WHY_BYTES];
    targets_turn(&throughput->targets, index);
    counters_begin(&counters, target->pid, target->control);
    bool good = generator_run(plan, &result, why, sizeof(why));
    counters_end(&counters);
    if (!good) {
        fail(throughput, target->label, throughput->run.name, why);
        return false;
    }
    measured_add(measured, &result, &counters);
    throughput->failed |= result.broken || result.errors + result.surprises > 0;
    free(result.ticks);
    return !result.broken;
}

static struct responder *
responder_begin(struct throughput *throughput, struct generator_plan *plan, char *why, size_t why_bytes)
{
    const struct responder_plan responder_plan = {
        .ops = throughput->run.ops,
        .op_count = throughput->run.plan.op_count,
        .wire = plan->client.wire,
        .skip_bytes = plan->client.wire == CLIENT_SBE ? SBE_STREAM_MAGIC_BYTES : 0,
        .cpu = throughput->targets.connection.server_cpu,
    };
    struct responder *responder = responder_start(&responder_plan, why, why_bytes);
    if (responder != NULL) {
        plan->client.port = responder_port(responder);
    }
    return responder;
}

/* All servers in turns, `runs` times, as far as nothing breaks. */
static void
targets_measure(struct throughput *throughput, struct generator_plan *plan)
{
    struct targets *targets = &throughput->targets;
    bool good = true;
    for (uint32_t run = 0; run < throughput->runs && good && !machine_interrupted(); run++) {
        for (uint32_t i = 0; i < targets->count && good; i++) {
            plan->client = targets->targets[i].client;
            struct responder *responder = NULL;
            char why[CLIENT_WHY_BYTES];
            if (throughput->ceiling && (responder = responder_begin(throughput, plan, why, sizeof(why))) == NULL) {
                fail(throughput, targets->targets[i].label, "--ceiling", why);
                return;
            }
            good = target_run(throughput, i, plan, &throughput->measured[i]);
            if (responder != NULL) {
                responder_stop(responder);
            }
        }
    }
}

/* What was measured is printed, also after Ctrl-C. */
static void
case_finish(struct throughput *throughput, const struct load_case *load)
{
    struct targets *targets = &throughput->targets;
    for (uint32_t i = 0; i < targets->count; i++) {
        struct measured *measured = &throughput->measured[i];
        if (measured->runs > 0) {
            measured_finish(measured);
            row_print(throughput->form, &targets->targets[i], load, measured);
            row_keep(targets, &targets->targets[i], load, measured);
        }
    }
    const struct measured *ours = &throughput->measured[0];
    for (uint32_t i = 1; i < targets->count && throughput->form == ROWS_TABLE; i++) {
        const struct measured *peer = &throughput->measured[i];
        double ratios[THROUGHPUT_RUNS_MAX];
        uint32_t runs = MIN(ours->runs, peer->runs), counted = 0;
        for (uint32_t run = 0; run < runs; run++) {
            if (peer->rates[run] > 0 && !ours->broken && !peer->broken) {
                ratios[counted++] = ours->rates[run] / peer->rates[run];
            }
        }
        if (counted > 0) {
            ratio_print(&targets->targets[i], ratios, counted);
        }
    }
    for (uint32_t i = 0; i < targets->count; i++) {
        measured_fini(&throughput->measured[i]);
    }
}

static void
case_run(struct throughput *throughput, uint32_t test, uint32_t size, uint32_t connections, uint32_t depth)
{
    static char distribution[32], progress[192];
    struct generator_plan plan = throughput->plan;
    struct workload_run *run = &throughput->run;
    memset(run, 0, sizeof(*run));
    memset(throughput->measured, 0, sizeof(throughput->measured));
    workload_run_make(&throughput->workload, test, size, run);
    workload_distribution(&throughput->workload, distribution, sizeof(distribution));
    plan.load = run->plan;
    plan.connections = connections;
    plan.depth = depth;
    plan.refill = throughput->refill != 0 ? throughput->refill : (depth + 1) / 2;
    snprintf(progress, sizeof(progress), "%s, %u connections, depth %u", run->name, connections, depth);
    plan.progress = progress;
    targets_measure(throughput, &plan);
    const struct load_case load = {
        .test = run->name,
        .distribution = distribution,
        .connections = connections,
        .depth = depth,
        .value_bytes = run->value_bytes,
        .keys = throughput->workload.keys,
    };
    case_finish(throughput, &load);
}

/* ---- everything ---- */

/* Whether all servers answer. */
static bool
targets_meet(struct throughput *throughput)
{
    struct targets *targets = &throughput->targets;
    char why[CLIENT_WHY_BYTES];
    for (uint32_t i = 0; i < targets->count && !throughput->ceiling; i++) {
        targets_turn(targets, i);
        if (!target_ask(&targets->targets[i], why, sizeof(why))) {
            fail(throughput, targets->targets[i].label, targets->targets[i].label, why);
            throughput->code = TARGET_EXIT_NO_CONNECTION;
            return false;
        }
    }
    return true;
}

static void
combinations_run(struct throughput *throughput)
{
    if (!targets_meet(throughput)) {
        return;
    }
    for (uint32_t size = 0; size < workload_size_runs(&throughput->workload); size++) {
        if (throughput->workload.with_load &&
            !fill_run(&throughput->targets, &throughput->workload, size, throughput->form == ROWS_TABLE)) {
            throughput->code = TARGET_EXIT_FAILED;
            return;
        }
        for (uint32_t i = 0; i < throughput->connection_count; i++) {
            for (uint32_t j = 0; j < throughput->depth_count; j++) {
                for (uint32_t test = 0; test < workload_runs(&throughput->workload) && !machine_interrupted(); test++) {
                    case_run(throughput, test, size, (uint32_t)throughput->connections[i],
                             (uint32_t)throughput->depths[j]);
                }
            }
        }
    }
}

static void
everything_run(struct throughput *throughput)
{
    struct targets *targets = &throughput->targets;
    struct target *ours = &targets->targets[0];
    if (throughput->lcore_count == 0) {
        combinations_run(throughput);
        return;
    }
    for (uint32_t i = 0; i < throughput->lcore_count && !machine_interrupted() && throughput->code == 0; i++) {
        char why[SERVER_WHY_BYTES], log[2048];
        uint32_t lcores = (uint32_t)throughput->lcores[i];
        if (own_server_begin(&throughput->own, ours, &throughput->workload, throughput->sluiced, lcores, why,
                             sizeof(why))) {
            combinations_run(throughput);
        } else {
            fail(throughput, ours->label, "--lcores", why);
        }
        snprintf(log, sizeof(log), "%s/logs/sluiced-%u-lcores.log", targets->folder != NULL ? targets->folder : "",
                 lcores);
        own_server_end(&throughput->own, ours, targets->folder != NULL ? log : NULL);
    }
}

static void
watched_run(struct throughput *throughput)
{
    struct machine_watch watch;
    char text[WARNING_BYTES];
    pid_t quiet[TARGETS_MAX];
    uint32_t count = targets_pids(&throughput->targets, quiet);
    machine_describe(text, sizeof(text));
    if (throughput->form == ROWS_TABLE) {
        printf("%s; %llu keys%s\n", text, (unsigned long long)throughput->workload.keys,
               throughput->ceiling ? "; against a null responder" : "");
    }
    if (throughput->form != ROWS_QUIET) {
        rows_header(throughput->form);
    }
    machine_watch_begin(&watch, quiet, count);
    everything_run(throughput);
    if (machine_watch_end(&watch, quiet, count, text, sizeof(text))) {
        targets_warn(&throughput->targets, text);
    }
    if (throughput->form == ROWS_TABLE) {
        printf("closed loop: percentiles do not show pauses of the server; sluice-bench open does\n");
    }
}

int
bench_throughput(int argc, char **argv)
{
    static struct throughput throughput;
    int code = options_read(&throughput, argc, argv);
    if (code >= 0) {
        return code;
    }
    machine_interrupts_catch();
    watched_run(&throughput);
    bool good = targets_end(&throughput.targets) && !throughput.failed;
    if (throughput.code != 0) {
        return throughput.code;
    }
    return machine_interrupted() ? TARGET_EXIT_INTERRUPTED : good ? 0 : TARGET_EXIT_FAILED;
}
