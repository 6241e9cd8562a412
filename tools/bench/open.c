/* open.c - sluice-bench open: a fixed rate, latency from the intended time, a sweep to the knee, beside a peer. */
#include "tools/bench/fill.h"
#include "tools/bench/machine.h"
#include "tools/bench/open_rows.h"
#include "tools/bench/open_schedule.h"
#include "tools/bench/target.h"
#include <getopt.h>
#include <math.h>
#include <time.h>

#define RATE_MOST         1e8
#define KNEE_FIRST        1000
#define KNEE_US           1000
#define KNEE_TRIES        3
#define KNEE_SAMPLES      100 /* a p99 of fewer is none */
#define IN_FLIGHT_DEFAULT 65536
#define STEPS_MAX         1000
#define WARNING_BYTES     256

static const char usage[] =
    "Usage: sluice-bench open [OPTIONS] [COMMAND ARGUMENT...]\n"
    "Sends at a fixed rate whether or not the server answers. Latency counts from the time at which a request was\n"
    "intended to be sent, so that a pause shows in every request of that time; nothing is dropped. Exact ranks of all\n"
    "samples, at most 33 million. A run in which the client itself was the bottleneck is marked 'client': it says\n"
    "nothing of the server.\n"
    "\n" BENCH_CONNECTION_USAGE "  --rate N                      requests a second, of all connections\n"
    "  --sweep FROM:TO:STEPS         so many rates, each by the same factor above the last\n"
    "  --knee                        double the rate, then halve the steps, up to the highest rate that is kept: 99%%\n"
    "                                of it answered, no answer wrong, p99 at most --knee-us; from --rate\n"
    "                                (1000), down to 100 requests a run\n"
    "  --knee-us US                  (1000)\n"
    "  --seconds S, --warmup S       measured (5), and before that (0.5)\n"
    "  --poisson                     exponential gaps instead of even ones\n"
    "  -c CONNECTIONS                (1)\n"
    "  --in-flight N                 at most, of all connections; what is due beyond that is sent late (65536)\n"
    "  -d BYTES[,BYTES...]           values: random letters (32)\n"
    "  -t TEST[,TEST...]             one after the other (get): %s\n" WORKLOAD_USAGE TARGET_USAGE
    "  --server-pid PID              whose memory --load measures, and whose work is no stranger's\n"
    "  --hlog DIR                    write LABEL-open-TEST-RATE.hlog there: logs for HdrHistogram's tools, in ns\n"
    "  --csv                         values only\n" WORKLOAD_COMMAND_USAGE
    "Exit codes: 0 measured, 1 something failed or the client was the bottleneck at --rate, 2 usage, 3 cannot "
    "connect,\n"
    "130 interrupted: what was measured is kept.\n";

enum mode { MODE_RATE, MODE_SWEEP, MODE_KNEE };

struct open {
    struct targets targets;
    struct workload workload;
    struct open_plan plan;
    enum mode mode;
    double rate, from, to, knee_us;
    uint32_t steps;
    const char *hlog_folder;
    bool csv, failed;
    int code; /* once it is not 0 nothing more is measured */

    /* the present test */
    struct workload_run run;
    struct open_knee knees[TARGETS_MAX];
    uint32_t spoiled[TARGETS_MAX]; /* runs in a row that the client held up; KNEE_TRIES: it can do no more */
};

static bool
complain(const char *what, const char *why)
{
    fprintf(stderr, "sluice-bench: %s: %s\n", what, why);
    return false;
}

/* ---- options ---- */

enum {
    OPTION_RATE = TARGET_OWN,
    OPTION_SWEEP,
    OPTION_KNEE,
    OPTION_KNEE_US,
    OPTION_SECONDS,
    OPTION_WARMUP,
    OPTION_POISSON,
    OPTION_IN_FLIGHT,
    OPTION_HLOG,
    OPTION_CSV,
};

static const struct option long_options[] = {
    BENCH_CONNECTION_OPTIONS,
    WORKLOAD_OPTIONS,
    TARGET_OPTIONS,
    { "rate", required_argument, NULL, OPTION_RATE },
    { "sweep", required_argument, NULL, OPTION_SWEEP },
    { "knee", no_argument, NULL, OPTION_KNEE },
    { "knee-us", required_argument, NULL, OPTION_KNEE_US },
    { "seconds", required_argument, NULL, OPTION_SECONDS },
    { "warmup", required_argument, NULL, OPTION_WARMUP },
    { "poisson", no_argument, NULL, OPTION_POISSON },
    { "in-flight", required_argument, NULL, OPTION_IN_FLIGHT },
    { "hlog", required_argument, NULL, OPTION_HLOG },
    { "csv", no_argument, NULL, OPTION_CSV },
    { 0 },
};

static bool
rate_read(const char *option, const char *text, double *rate)
{
    uint64_t number = 0;
    bool good = bench_number(option, text, 1, (uint64_t)RATE_MOST, &number);
    *rate = (double)number;
    return good;
}

/* FROM:TO:STEPS */
static bool
sweep_read(struct open *open, const char *text)
{
    char from[32], to[32], steps[32];
    uint64_t number = 0;
    if (sscanf(text, "%31[^:]:%31[^:]:%31[^:]", from, to, steps) != 3) {
        return complain("--sweep", "expected FROM:TO:STEPS, such as 1k:100k:8");
    }
    if (!rate_read("--sweep", from, &open->from) || !rate_read("--sweep", to, &open->to) ||
        !bench_number("--sweep", steps, 2, STEPS_MAX, &number)) {
        return false;
    }
    open->steps = (uint32_t)number;
    open->mode = MODE_SWEEP;
    return open->from < open->to || complain("--sweep", "FROM is below TO");
}

/* One option of our own. False: a bad value, or unknown. */
static bool
option_take(struct open *open, int option, const char *value)
{
    struct open_plan *plan = &open->plan;
    uint64_t number = 0;
    bool good;
    switch (option) {
    case 'c':
        good = bench_number("-c", value, 1, 10000, &number);
        plan->connections = (uint32_t)number;
        return good;
    case OPTION_RATE:
        return rate_read("--rate", value, &open->rate);
    case OPTION_SWEEP:
        return sweep_read(open, value);
    case OPTION_KNEE:
        open->mode = MODE_KNEE;
        return true;
    case OPTION_KNEE_US:
        return bench_decimal("--knee-us", value, 1, 1e8, &open->knee_us);
    case OPTION_SECONDS:
        return bench_decimal("--seconds", value, 0.01, 1e6, &plan->seconds);
    case OPTION_WARMUP:
        return bench_decimal("--warmup", value, 0, 1e6, &plan->warmup_seconds);
    case OPTION_POISSON:
        plan->poisson = true;
        return true;
    case OPTION_IN_FLIGHT:
        good = bench_number("--in-flight", value, 1, OPEN_IN_FLIGHT_MAX, &number);
        plan->in_flight_max = (uint32_t)number;
        return good;
    case OPTION_HLOG:
        open->hlog_folder = value;
        return true;
    case OPTION_CSV:
        open->csv = true;
        return true;
    default:
        return false; /* getopt complained */
    }
}

static bool
options_finish(struct open *open, int argc, char **argv)
{
    char why[512];
    if (open->mode == MODE_RATE && open->rate == 0) {
        return complain("open", "--rate, --sweep or --knee says how much to send");
    }
    if (open->plan.in_flight_max < open->plan.connections) {
        return complain("--in-flight", "less than connections");
    }
    if (open->hlog_folder != NULL && !folder_make(open->hlog_folder, why, sizeof(why))) {
        return complain("--hlog", why);
    }
    open->plan.cpu = open->targets.connection.cpu;
    return workload_finish(&open->workload) && targets_finish(&open->targets, argc, argv);
}

/* -1: go on; else the exit code. */
static int
options_read(struct open *open, int argc, char **argv)
{
    int option;
    targets_init(&open->targets);
    workload_init(&open->workload, "get");
    open->knee_us = KNEE_US;
    open->plan =
        (struct open_plan){ .connections = 1, .seconds = 5, .warmup_seconds = 0.5, .in_flight_max = IN_FLIGHT_DEFAULT };
    while ((option = getopt_long(argc, argv, "+" BENCH_CONNECTION_LETTERS WORKLOAD_LETTERS "c:", long_options, NULL)) !=
           -1) {
        if (option == BENCH_HELP) {
            char names[256];
            load_op_names(names, sizeof(names));
            printf(usage, names);
            return 0;
        }
        int taken = workload_option(&open->workload, option, optarg);
        if (taken == 0) {
            taken = targets_option(&open->targets, option, optarg);
        }
        if (taken < 0 || (taken == 0 && !option_take(open, option, optarg))) {
            return BENCH_USAGE_ERROR;
        }
    }
    if (optind < argc && !workload_command(&open->workload, argc - optind, argv + optind)) {
        return BENCH_USAGE_ERROR;
    }
    return options_finish(open, argc, argv) ? -1 : BENCH_USAGE_ERROR;
}

/* ---- runs ---- */

/* Where the log of this run goes. False: nowhere. */
static bool
log_folder(const struct open *open, const struct open_result *result, char *folder, size_t folder_bytes)
{
    if (open->hlog_folder != NULL) {
        snprintf(folder, folder_bytes, "%s", open->hlog_folder);
    } else if (open->targets.folder != NULL) {
        snprintf(folder, folder_bytes, "%s/hlog", open->targets.folder);
    }
    return (open->hlog_folder != NULL || open->targets.folder != NULL) && !result->client_bound && !result->broken &&
           result->errors + result->surprises == 0 && result->latency.samples > 0;
}

/* One rate on one server. False: nothing ran, or the connection broke. */
static bool
target_run(struct open *open, uint32_t index, double rate, struct open_result *result)
{
    struct target *target = &open->targets.targets[index];
    char why[CLIENT_WHY_BYTES], progress[160], folder[2048];
    struct timespec began;
    struct open_plan plan = open->plan;
    plan.client = target->client;
    plan.load = open->run.plan;
    plan.rate = rate;
    snprintf(progress, sizeof(progress), "%s %s at %.0f/s", target->label, open->run.name, rate);
    plan.progress = progress;
    targets_turn(&open->targets, index);
    clock_gettime(CLOCK_REALTIME, &began);
    if (!open_loop_run(&plan, result, why, sizeof(why))) {
        complain(target->label, why);
        targets_unavailable(&open->targets, target->label, why);
        open->failed = true;
        return false;
    }
    const struct open_row row = { .target = target,
                                  .test = open->run.name,
                                  .rate = rate,
                                  .p99_us_most = open->mode == MODE_KNEE ? open->knee_us : 0,
                                  .result = result };
    open_row_print(&row, open->csv);
    open_row_keep(&row, &open->targets);
    if (log_folder(open, result, folder, sizeof(folder)) &&
        !open_log_write(&row, folder, (double)began.tv_sec + (double)began.tv_nsec * 1e-9)) {
        open->failed = true;
    }
    open->failed |= result->broken || result->errors + result->surprises > 0;
    open->failed |= open->mode == MODE_RATE && result->client_bound;
    return !result->broken;
}

/* Every server at this rate. False: one of them is gone. */
static bool
rate_run(struct open *open, double rate)
{
    bool good = true;
    for (uint32_t i = 0; i < open->targets.count && good && !machine_interrupted(); i++) {
        struct open_result result;
        good = target_run(open, i, rate, &result);
        if (good && !machine_interrupted()) {
            bool kept = result.kept && result.latency.p99_us <= open->knee_us;
            /* Where the client fails, nobody knows what the server would have kept: it is tried again. */
            open->spoiled[i] = result.client_bound ? open->spoiled[i] + 1 : 0;
            if (!result.client_bound) {
                open_knee_tell(&open->knees[i], rate, kept);
            }
        }
        open_result_fini(&result);
    }
    return good;
}

static void
knees_print(const struct open *open)
{
    for (uint32_t i = 0; i < open->targets.count && !open->csv; i++) {
        const struct open_knee *knee = &open->knees[i];
        const char *why = open->spoiled[i] >= KNEE_TRIES ? "above that the client is the bottleneck"
                          : machine_interrupted()        ? "interrupted"
                                                         : "nothing higher was tried";
        printf("%s: ", open->targets.targets[i].label);
        if (knee->kept > 0) {
            printf("keeps %.0f/s", knee->kept);
        } else {
            printf("no rate was seen to be kept");
        }
        if (!isinf(knee->failed)) {
            printf(", not %.0f/s (99%% of it answered, p99 at most %.0f us)\n", knee->failed, open->knee_us);
        } else {
            printf("; %s\n", why);
        }
    }
}

/* Each server's own knee, all servers at every rate that one of them asks for. */
static void
knee_run(struct open *open)
{
    for (uint32_t i = 0; i < open->targets.count; i++) {
        open_knee_init(&open->knees[i], open->rate > 0 ? open->rate : KNEE_FIRST, KNEE_SAMPLES / open->plan.seconds,
                       RATE_MOST);
        open->spoiled[i] = 0;
    }
    for (bool more = true; more && !machine_interrupted();) {
        more = false;
        for (uint32_t i = 0; i < open->targets.count && !more; i++) {
            double rate = open->spoiled[i] >= KNEE_TRIES ? 0 : open_knee_next(&open->knees[i]);
            if (rate > 0) {
                more = rate_run(open, rate);
                break;
            }
        }
    }
    knees_print(open);
}

static void
test_run(struct open *open)
{
    if (open->mode == MODE_KNEE) {
        knee_run(open);
        return;
    }
    if (open->mode == MODE_RATE) {
        (void)rate_run(open, open->rate);
        return;
    }
    double factor = pow(open->to / open->from, 1.0 / (open->steps - 1));
    for (uint32_t i = 0; i < open->steps && !machine_interrupted(); i++) {
        if (!rate_run(open, round(open->from * pow(factor, i)))) {
            return;
        }
    }
}

static void
tests_run(struct open *open)
{
    for (uint32_t i = 0; i < open->targets.count; i++) {
        char why[CLIENT_WHY_BYTES];
        targets_turn(&open->targets, i);
        if (!target_ask(&open->targets.targets[i], why, sizeof(why))) {
            complain(open->targets.targets[i].label, why);
            targets_unavailable(&open->targets, open->targets.targets[i].label, why);
            open->code = TARGET_EXIT_NO_CONNECTION;
            return;
        }
    }
    for (uint32_t size = 0; size < workload_size_runs(&open->workload); size++) {
        if (open->workload.with_load && !fill_run(&open->targets, &open->workload, size, !open->csv)) {
            open->code = TARGET_EXIT_FAILED;
            return;
        }
        for (uint32_t test = 0; test < workload_runs(&open->workload) && !machine_interrupted(); test++) {
            memset(&open->run, 0, sizeof(open->run));
            workload_run_make(&open->workload, test, size, &open->run);
            test_run(open);
        }
    }
}

static void
header_print(const struct open *open)
{
    char machine[WARNING_BYTES], distribution[32];
    if (!open->csv) {
        machine_describe(machine, sizeof(machine));
        workload_distribution(&open->workload, distribution, sizeof(distribution));
        printf("%s; %u connection%s, %s spacing, %llu keys, %s; late: sent more than %d us after the intended time\n",
               machine, open->plan.connections, open->plan.connections == 1 ? "" : "s",
               open->plan.poisson ? "Poisson" : "even", (unsigned long long)open->workload.keys, distribution,
               OPEN_LATE_US);
    }
    open_header_print(open->csv);
}

int
bench_open(int argc, char **argv)
{
    static struct open open;
    struct machine_watch watch;
    char busy[WARNING_BYTES];
    pid_t quiet[TARGETS_MAX];
    int code = options_read(&open, argc, argv);
    if (code >= 0) {
        return code;
    }
    machine_interrupts_catch();
    uint32_t count = targets_pids(&open.targets, quiet);
    header_print(&open);
    machine_watch_begin(&watch, quiet, count);
    tests_run(&open);
    targets_resume(&open.targets);
    if (machine_watch_end(&watch, quiet, count, busy, sizeof(busy))) {
        targets_warn(&open.targets, busy);
    }
    bool good = targets_end(&open.targets) && !open.failed;
    if (open.code != 0) {
        return open.code;
    }
    return machine_interrupted() ? TARGET_EXIT_INTERRUPTED : good ? 0 : TARGET_EXIT_FAILED;
}
