/* matrix_options.c - the command line of sluice-bench matrix. */
#include "tools/bench/machine.h"
#include "tools/bench/matrix_plan.h"
#include <getopt.h>

#define WHY_BYTES 1024

static const char usage[] =
    "Usage: sluice-bench matrix --out DIR [OPTIONS]\n"
    "The eight operations of `latency` over every transport, send mode and wire, a row for each, ranked at the end.\n"
    "Each row has a sluiced of its own, here or, by ssh, on another host. What cannot be had is marked unavailable,\n"
    "with its error, and never replaced. The same command again goes on where the last one ended.\n"
    "\n"
    "  --out DIR                     latency.csv, config.csv, unavailable.csv, metadata.json, hlog/, logs/\n"
    "  --providers P[,P...]          of the fabric (shm,net,tcp-rxm,udp-rxd; with another host efa,tcp); '' for none;\n"
    "                                tcp-rxm is libfabric's tcp;ofi_rxm\n"
    "  --streams S[,S...]            kernel-tcp, unix, ethernet (all; with another host kernel-tcp); '' for none;\n"
    "                                ethernet: DPDK's af_packet on a veth, in a network namespace of its own\n"
    "  --wires W[,W...]              sbe, resp, resp3 (sbe,resp)\n"
    "  --sends S[,S...]              of both ends of the fabric: auto, send, inject (auto,send)\n"
    "  --samples N, --warmup N       of each operation (200000, 20000)\n"
    "  -d BYTES                      value of SET, GET and PUBSUB (64)\n"
    "  --floor                       the bare transport in turns with each operation, between the same hosts; beside\n"
    "                                an ethernet port it is the kernel's TCP on loopback\n"
    "  --cpu N, --server-cpu N       CPU of the client (the first allowed) and of the only lcore (the last)\n"
    "\n"
    "  --server [USER@]HOST          start the servers there, by ssh without a password; they end when this does\n"
    "  --address ADDRESS             of that host on the network to measure (HOST)\n"
    "  --sluiced PATH                the server's program, here or there (beside this one)\n"
    "  --set NAME=VALUE              a setting for the servers; up to 16 times\n"
    "\n"
    "  --host HOST:PORT              measure a server that runs already instead: its fabric ports, its socket\n"
    "  --unix PATH                   its Unix socket\n"
    "  --ethernet HOST:PORT          the ethernet port of one that runs already\n"
    "  -a PASSWORD, --user NAME      of the one that runs; REDISCLI_AUTH is read as well\n"
    "\n"
    "  --list                        print the labels of the rows, measure nothing\n"
    "  --restart                     move what is in DIR into DIR/before-N and begin again\n"
    "Exit codes: 0 every row measured or unavailable, 1 a row failed, or none could be measured, 2 usage,\n"
    "3 the other host cannot be reached, 130 interrupted: what was measured is kept.\n";

static int
complain(const char *what, const char *why)
{
    fprintf(stderr, "sluice-bench: %s: %s\n", what, why);
    return 1;
}

enum {
    OPTION_OUT = BENCH_OWN,
    OPTION_PROVIDERS,
    OPTION_STREAMS,
    OPTION_WIRES,
    OPTION_SENDS,
    OPTION_SAMPLES,
    OPTION_WARMUP,
    OPTION_FLOOR,
    OPTION_SERVER,
    OPTION_ADDRESS,
    OPTION_SLUICED,
    OPTION_SET,
    OPTION_HOST,
    OPTION_UNIX,
    OPTION_LIST,
    OPTION_RESTART,
};

static const struct option long_options[] = {
    { "out", required_argument, NULL, OPTION_OUT },
    { "providers", required_argument, NULL, OPTION_PROVIDERS },
    { "streams", required_argument, NULL, OPTION_STREAMS },
    { "wires", required_argument, NULL, OPTION_WIRES },
    { "sends", required_argument, NULL, OPTION_SENDS },
    { "samples", required_argument, NULL, OPTION_SAMPLES },
    { "warmup", required_argument, NULL, OPTION_WARMUP },
    { "floor", no_argument, NULL, OPTION_FLOOR },
    { "cpu", required_argument, NULL, BENCH_CPU },
    { "server-cpu", required_argument, NULL, BENCH_SERVER_CPU },
    { "server", required_argument, NULL, OPTION_SERVER },
    { "address", required_argument, NULL, OPTION_ADDRESS },
    { "sluiced", required_argument, NULL, OPTION_SLUICED },
    { "set", required_argument, NULL, OPTION_SET },
    { "host", required_argument, NULL, OPTION_HOST },
    { "unix", required_argument, NULL, OPTION_UNIX },
    { "ethernet", required_argument, NULL, BENCH_ETHERNET },
    { "user", required_argument, NULL, BENCH_USER },
    { "list", no_argument, NULL, OPTION_LIST },
    { "restart", no_argument, NULL, OPTION_RESTART },
    { "help", no_argument, NULL, BENCH_HELP },
    { 0 },
};

static bool
setting_add(struct matrix_plan *plan, const char *text)
{
    static const char *const ours[] = { "ports=", "auth.", "streams.", "management.", "log.ready=", "lcores.cpus=" };
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text) {
        complain("--set", "expected NAME=VALUE");
        return false;
    }
    for (size_t i = 0; i < ARRAY_COUNT(ours); i++) {
        if (strncmp(text, ours[i], strlen(ours[i])) == 0) {
            complain("--set", "ports, auth, streams, management, log.ready and lcores.cpus are what a row makes them");
            return false;
        }
    }
    if (plan->setting_count == MATRIX_SETTINGS_MAX) {
        complain("--set", "more than 16");
        return false;
    }
    plan->settings[plan->setting_count++] = text;
    return true;
}

static bool
text_take(const char **to, const char *option, const char *value)
{
    if (value[0] == '\0' || value[0] == '-') {
        fprintf(stderr, "sluice-bench: %s '%s': expected a name\n", option, value);
        return false;
    }
    *to = value;
    return true;
}

static bool
address_take(struct client_options *to, const char *option, const char *value)
{
    if (value[0] == '\0' || strchr(value, '/') != NULL) {
        fprintf(stderr, "sluice-bench: %s '%s': expected HOST:PORT\n", option, value);
        return false;
    }
    client_options_init(to);
    return bench_address(option, value, to);
}

/* What is counted. -1: none of these; else whether it was good. */
static int
number_option(struct matrix_plan *plan, int option, const char *value)
{
    uint64_t number = 0;
    bool good;
    switch (option) {
    case OPTION_SAMPLES:
        return bench_number("--samples", value, 1, 100000000, &plan->samples);
    case OPTION_WARMUP:
        return bench_number("--warmup", value, 0, 100000000, &plan->warmup);
    case 'd':
        return bench_number("-d", value, 0, 1024 * 1024, &plan->value_bytes);
    case BENCH_CPU:
        good = bench_number("--cpu", value, 0, 1023, &number);
        plan->cpu = (int)number;
        return good;
    case BENCH_SERVER_CPU:
        good = bench_number("--server-cpu", value, 0, 1023, &number);
        plan->server_cpu = (int)number;
        return good;
    default:
        return -1;
    }
}

static bool
option_take(struct matrix_plan *plan, int option, const char *value)
{
    int good = number_option(plan, option, value);
    if (good >= 0) {
        return good;
    }
    switch (option) {
    case OPTION_OUT:
        return text_take(&plan->out, "--out", value);
    case OPTION_PROVIDERS:
        plan->providers = value;
        return true;
    case OPTION_STREAMS:
        plan->streams = value;
        return true;
    case OPTION_WIRES:
        plan->wires = value;
        return true;
    case OPTION_SENDS:
        plan->sends = value;
        return true;
    case OPTION_FLOOR:
        plan->with_floor = true;
        return true;
    case OPTION_SERVER:
        return text_take(&plan->server, "--server", value); /* ssh would take a dash for an option */
    case OPTION_ADDRESS:
        return text_take(&plan->address, "--address", value);
    case OPTION_SLUICED:
        return text_take(&plan->sluiced, "--sluiced", value);
    case OPTION_SET:
        return setting_add(plan, value);
    case OPTION_HOST:
        return address_take(&plan->running, "--host", value);
    case OPTION_UNIX:
        return text_take(&plan->running_unix, "--unix", value);
    case BENCH_ETHERNET:
        return address_take(&plan->ethernet, "--ethernet", value);
    case 'a':
        plan->password = value;
        return true;
    case BENCH_USER:
        plan->user = value;
        return true;
    case OPTION_LIST:
        plan->list = true;
        return true;
    case OPTION_RESTART:
        plan->restart = true;
        return true;
    default:
        return false; /* getopt complained */
    }
}

/* Options that do not go together. NULL: they do. */
static const char *
options_conflict(const struct matrix_plan *plan)
{
    bool running = plan->running.host != NULL;
    return plan->out == NULL && !plan->list                ? "--out DIR is missing: where results go"
           : running && plan->server != NULL               ? "--host and --server exclude each other"
           : plan->address != NULL && plan->server == NULL ? "--address is of --server's host"
           : running && (plan->sluiced != NULL || plan->setting_count > 0)
               ? "--sluiced and --set are for servers that are started: not with --host"
           : plan->running_unix != NULL && !running ? "--unix is of the server of --host"
           : (plan->password != NULL || plan->user != NULL) && !running && plan->ethernet.host == NULL
               ? "-a and --user are of a server that runs already: --host or --ethernet"
               : NULL;
}

int
matrix_options_read(struct matrix_plan *plan, int argc, char **argv)
{
    char why[WHY_BYTES];
    *plan = (struct matrix_plan){
        .samples = 200000, .warmup = 20000, .value_bytes = 64, .cpu = machine_cpu(0), .server_cpu = -1
    };
    for (int option; (option = getopt_long(argc, argv, "a:d:", long_options, NULL)) != -1;) {
        if (option == BENCH_HELP) {
            printf("%s", usage);
            return 0;
        }
        if (!option_take(plan, option, optarg)) {
            return BENCH_USAGE_ERROR;
        }
    }
    const char *conflict = optind < argc ? "unexpected argument; --help shows the options" : options_conflict(plan);
    if (conflict != NULL) {
        complain(optind < argc ? argv[optind] : "matrix", conflict);
        return BENCH_USAGE_ERROR;
    }
    if (!matrix_plan_expand(plan, why, sizeof(why))) {
        complain("matrix", why);
        return BENCH_USAGE_ERROR;
    }
    return -1;
}
