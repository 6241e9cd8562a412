/* goals.c - sluice-bench goals: where we stand against the numbers to reach. */
#include "tools/bench/goals.h"
#include "config/limits.h"
#include "tools/bench/bench.h"
#include "tools/bench/machine.h"
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <unistd.h>

/* Load average above which somebody else is at work. */
#define BUSY_LOAD 0.5

static const char usage[] =
    "Usage: sluice-bench goals [OPTIONS]\n"
    "Starts sluiced and redis-server on loopback, each on the server's CPU while it is measured and stopped while the\n"
    "other is, takes turns, and prints every number to reach: row, targets, what was measured, met or not.\n"
    "\n"
    "  --quick             few samples: shows that everything runs, not where we stand\n"
    "  --runs N            of each measurement; medians are printed (5, at most 15)\n"
    "  --only GROUP[,...]  depth1, flight, process, store\n"
    "  --sluiced PATH      (beside this program)\n"
    "  --redis PATH        redis-server (build/peers, then PATH)\n"
    "  --server-cpu N, --client-cpu N  (the first two allowed)\n"
    "  --strict            exit code 1 when a row that must be met is not\n";

static void
row_print(const char *what, const char *targets, const char *measured, const char *verdict, const char *detail)
{
    printf("%-86s %-16s %-9s %s%s%s%s\n", what, targets, measured, verdict, *detail != '\0' ? " (" : "", detail,
           *detail != '\0' ? ")" : "");
    fflush(stdout);
}

void
goal_measured(struct goals *goals, const char *what, enum goal_sense sense, double must, double stretch, double value,
              const char *unit, const char *detail)
{
    char targets[48], measured[32];
    bool at_most = sense == GOAL_AT_MOST;
    bool meets = at_most ? value <= must : value >= must;
    bool stretches = stretch != 0 && (at_most ? value <= stretch : value >= stretch);
    int used = snprintf(targets, sizeof(targets), "%s %g%s", at_most ? "<=" : ">=", must, unit);
    if (stretch != 0) {
        snprintf(targets + used, sizeof(targets) - (size_t)used, " (%g)", stretch);
    }
    snprintf(measured, sizeof(measured), "%.3g%s", value, unit);
    if (value >= 1000) {
        snprintf(measured, sizeof(measured), "%.0f%s", value, unit);
    }
    goals->stretched += stretches;
    goals->met += meets && !stretches;
    goals->missed += !meets;
    row_print(what, targets, measured, stretches ? "met, stretch too" : meets ? "met" : "NOT MET", detail);
}

void
goal_not_here(struct goals *goals, const char *what, const char *why)
{
    goals->absent++;
    row_print(what, "", "", "not here", why);
}

void
goal_later(struct goals *goals, const char *what, const char *why)
{
    goals->later++;
    row_print(what, "", "", "later", why);
}

struct server_plan
goals_plan(const struct goals *goals, const char *provider)
{
    return (struct server_plan){
        .program = goals->sluiced,
        .folder = goals->folder,
        .provider = provider,
        .memory_bytes = MAX(512 * MIB, goals->keys * 2048),
        .keys = MAX(100000ull, goals->keys * 5),
        .lcores = 1,
        .cpus = { goals->server_cpu },
        .cpu_count = 1,
    };
}

bool
goals_self(const struct goals *goals, const char *const *arguments, int timeout_s, char *output, size_t room, char *why,
           size_t why_bytes)
{
    const char *argv[40] = { goals->self };
    uint32_t count = 1;
    for (; *arguments != NULL; arguments++) {
        CHECK(count < ARRAY_COUNT(argv) - 1);
        argv[count++] = *arguments;
    }
    argv[count] = NULL;
    return program_run(argv, goals->client_cpu, timeout_s, output, room, why, why_bytes);
}

bool
goals_command_exists(uint16_t port, const char *command)
{
    struct client_options options;
    struct client_reply reply;
    char why[CLIENT_WHY_BYTES];
    const char *words[] = { "COMMAND", "INFO", command };
    client_options_init(&options);
    options.port = port;
    struct client *client = client_open(&options, why, sizeof(why));
    bool exists = client != NULL && client_call_words(client, words, 3, &reply) == CLIENT_OK && reply.count > 1 &&
                  reply.values[0].kind == VALUE_ARRAY && reply.values[1].kind == VALUE_ARRAY;
    client_close(client);
    return exists;
}

/* ---- finding programs ---- */

bool
goals_path_beside(const struct goals *goals, const char *name, char *path, size_t path_bytes)
{
    int folder = (int)(strrchr(goals->self, '/') - goals->self);
    snprintf(path, path_bytes, "%.*s/%s", folder, goals->self, name);
    return access(path, X_OK) == 0;
}

static bool
path_search(const char *name, char *path, size_t path_bytes)
{
    const char *folders = getenv("PATH");
    while (folders != NULL && *folders != '\0') {
        size_t bytes = strcspn(folders, ":");
        snprintf(path, path_bytes, "%.*s/%s", (int)bytes, folders, name);
        if (bytes > 0 && access(path, X_OK) == 0) {
            return true;
        }
        folders += bytes + (folders[bytes] == ':');
    }
    path[0] = '\0';
    return false;
}

static bool
peer_find(const struct goals *goals, const char *name, char *path, size_t path_bytes)
{
    static const char *const folders[] = { "peers/redis/usr/bin", "peers/usr/bin", "../build/peers/redis/usr/bin",
                                           "../build/peers/usr/bin" };
    char relative[128];
    for (size_t i = 0; i < ARRAY_COUNT(folders); i++) {
        snprintf(relative, sizeof(relative), "%s/%s", folders[i], name);
        if (goals_path_beside(goals, relative, path, path_bytes)) {
            return true;
        }
    }
    return path_search(name, path, path_bytes);
}

static bool
programs_find(struct goals *goals)
{
    ssize_t bytes = readlink("/proc/self/exe", goals->self, sizeof(goals->self) - 1);
    CHECK(bytes > 0);
    goals->self[bytes] = '\0';
    if (goals->sluiced[0] == '\0') {
        goals_path_beside(goals, "sluiced", goals->sluiced, sizeof(goals->sluiced));
    }
    if (access(goals->sluiced, X_OK) != 0) {
        fprintf(stderr, "sluice-bench: %s: %s; --sluiced names it\n", goals->sluiced, strerror(errno));
        return false;
    }
    if (goals->redis[0] != '\0') {
        goals->have_redis = access(goals->redis, X_OK) == 0;
        char *slash = strrchr(goals->redis, '/');
        snprintf(goals->redis_benchmark, sizeof(goals->redis_benchmark), "%.*s/redis-benchmark",
                 (int)(slash != NULL ? slash - goals->redis : 0), goals->redis);
        goals->have_redis_benchmark = access(goals->redis_benchmark, X_OK) == 0;
    } else {
        goals->have_redis = peer_find(goals, "redis-server", goals->redis, sizeof(goals->redis));
    }
    if (!goals->have_redis_benchmark) {
        goals->have_redis_benchmark =
            peer_find(goals, "redis-benchmark", goals->redis_benchmark, sizeof(goals->redis_benchmark));
    }
    snprintf(goals->redis_why, sizeof(goals->redis_why),
             "no redis-server: tools/peers redis brings it, --redis names it");
    return true;
}

/* ---- the command ---- */

enum {
    OPTION_QUICK = 256,
    OPTION_RUNS,
    OPTION_ONLY,
    OPTION_SLUICED,
    OPTION_REDIS,
    OPTION_SERVER_CPU,
    OPTION_CLIENT_CPU,
    OPTION_STRICT,
    OPTION_HELP
};

static const struct option long_options[] = {
    { "quick", no_argument, NULL, OPTION_QUICK },
    { "runs", required_argument, NULL, OPTION_RUNS },
    { "only", required_argument, NULL, OPTION_ONLY },
    { "sluiced", required_argument, NULL, OPTION_SLUICED },
    { "redis", required_argument, NULL, OPTION_REDIS },
    { "server-cpu", required_argument, NULL, OPTION_SERVER_CPU },
    { "client-cpu", required_argument, NULL, OPTION_CLIENT_CPU },
    { "strict", no_argument, NULL, OPTION_STRICT },
    { "help", no_argument, NULL, OPTION_HELP },
    { 0 },
};

static void
options_default(struct goals *goals)
{
    *goals = (struct goals){
        .server_cpu = machine_cpu(0),
        .client_cpu = machine_cpu(1),
        .samples = 10000,
        .warmup = 2000,
        .keys = 1000000,
        .flight_seconds = 1,
        .benchmark_requests = 200000,
    };
}

static bool
option_take(struct goals *goals, int option, const char *value, bool *strict)
{
    uint64_t number = 0;
    switch (option) {
    case OPTION_QUICK:
        goals->quick = true;
        goals->samples = 200;
        goals->warmup = 20;
        goals->keys = 10000;
        goals->benchmark_requests = 2000;
        return true;
    case OPTION_RUNS:
        if (!bench_number("--runs", value, 1, GOALS_RUNS_MAX, &number)) {
            return false;
        }
        goals->runs = (uint32_t)number;
        return true;
    case OPTION_ONLY:
        goals->only = value;
        return true;
    case OPTION_SLUICED:
        snprintf(goals->sluiced, sizeof(goals->sluiced), "%s", value);
        return true;
    case OPTION_REDIS:
        snprintf(goals->redis, sizeof(goals->redis), "%s", value);
        return true;
    case OPTION_SERVER_CPU:
    case OPTION_CLIENT_CPU:
        if (!bench_number("--server-cpu, --client-cpu", value, 0, 1023, &number)) {
            return false;
        }
        *(option == OPTION_SERVER_CPU ? &goals->server_cpu : &goals->client_cpu) = (int)number;
        return true;
    case OPTION_STRICT:
        *strict = true;
        return true;
    default:
        return false; /* getopt complained */
    }
}

static bool
group_chosen(const struct goals *goals, const char *name)
{
    const char *at = goals->only == NULL ? NULL : strstr(goals->only, name);
    return goals->only == NULL || (at != NULL && (at == goals->only || at[-1] == ',') &&
                                   (at[strlen(name)] == ',' || at[strlen(name)] == '\0'));
}

static void
folder_remove(const char *folder)
{
    DIR *files = opendir(folder);
    if (files == NULL) {
        return;
    }
    for (struct dirent *file; (file = readdir(files)) != NULL;) {
        unlinkat(dirfd(files), file->d_name, 0);
    }
    closedir(files);
    rmdir(folder);
}

static void
groups_run(struct goals *goals)
{
    static const struct {
        const char *name;
        void (*run)(struct goals *goals);
    } groups[] = {
        { "depth1", goals_depth1 }, { "flight", goals_flight }, { "process", goals_process }, { "store", goals_store }
    };
    for (size_t i = 0; i < ARRAY_COUNT(groups) && !machine_interrupted(); i++) {
        if (group_chosen(goals, groups[i].name)) {
            groups[i].run(goals);
        }
    }
}

int
bench_goals(int argc, char **argv)
{
    static struct goals goals;
    bool strict = false;
    int option;
    char machine[256];
    double load = 0;
    options_default(&goals);
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (option == OPTION_HELP) {
            printf("%s", usage);
            return 0;
        }
        if (!option_take(&goals, option, optarg, &strict)) {
            return BENCH_USAGE_ERROR;
        }
    }
    if (goals.runs == 0) {
        goals.runs = goals.quick ? 1 : 5;
    }
    if (!programs_find(&goals)) {
        return 1;
    }
    strcpy(goals.folder, "/tmp/sluice-goals.XXXXXX");
    CHECK(mkdtemp(goals.folder) != NULL);
    machine_interrupts_catch();
    signal(SIGPIPE, SIG_IGN);
    machine_describe(machine, sizeof(machine));
    if (getloadavg(&load, 1) != 1) {
        load = 0;
    }
    printf("%s; server on CPU %d, client on CPU %d; medians of %u%s\n%s\n", machine, goals.server_cpu, goals.client_cpu,
           goals.runs, goals.quick ? "; quick: these figures mean nothing" : "",
           load > BUSY_LOAD ? "The machine is busy: take the figures with care.\n" : "");
    row_print("what", "must (stretch)", "measured", "verdict", "");
    groups_run(&goals);
    folder_remove(goals.folder);
    machine_describe(machine, sizeof(machine));
    printf("\n%u met with stretch, %u met, %u not met, %u not here, %u later%s; at the end: %s\n", goals.stretched,
           goals.met, goals.missed, goals.absent, goals.later, machine_interrupted() ? "; interrupted" : "", machine);
    return (strict && goals.missed > 0) || machine_interrupted() ? 1 : 0;
}
