/* goals.c - sluice-bench goals: where we stand against the numbers to reach. */
#include "tools/bench/goals.h"
#include "config/limits.h"
#include "tools/bench/bench.h"
#include "tools/bench/machine.h"
#include "tools/bench/metadata.h"
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

/* A share of one CPU: somebody else was at work. */
#define BUSY_SHARE_MAX 0.1

enum { EXIT_FAILED = 1, EXIT_INTERRUPTED = 130 };

static const struct group {
    const char *name, *what;
    void (*run)(struct goals *goals);
} groups[] = {
    { "depth1", "one request after the other, over the bare transports and Redis", goals_depth1 },
    { "flight", "16 and 64 in flight on one connection, against Redis", goals_flight },
    { "benchmark", "redis-benchmark's tests, against Redis", goals_benchmark },
    { "syscalls", "system calls of an lcore", goals_syscalls },
    { "request", "decode, execute and encode in process", goals_request },
    { "store", "the store alone", goals_store },
    { "lcores", "two lcores against one", goals_lcores },
    { "memory", "resident bytes an entry", goals_memory },
    { "start", "from exec to ready", goals_start },
};

static const char usage[] =
    "Usage: sluice-bench goals [OPTIONS]\n"
    "Starts sluiced and redis-server on loopback, each on the server's CPU while it is measured and stopped while the\n"
    "other is, takes turns, and prints every number to reach: row, targets, what was measured, met or not. About 20\n"
    "minutes.\n"
    "\n"
    "  --only GROUP[,...]     of the groups below\n"
    "  --quick                few samples: shows that everything runs, not where we stand\n"
    "  --runs N               of each measurement; medians are printed (5, at most 15)\n"
    "  --peer NAME=HOST:PORT  another server beside Redis in flight's rows (4 of them at most); millions of keys are\n"
    "                         written to it\n"
    "  --out DIR              add rows to goals.csv and memory.csv there, and an entry to metadata.json\n"
    "  --sluiced PATH         (beside this program)\n"
    "  --redis PATH           redis-server (build/peers, then PATH)\n"
    "  --server-cpu N, --client-cpu N  (the first two allowed)\n"
    "  --strict               exit code 1 when a row that must be met is not\n"
    "\n"
    "Exit codes: 0 measured, 1 something failed, 2 usage, 130 interrupted: what was measured is kept.\n"
    "\n"
    "Groups:\n";

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
    OPTION_PEER,
    OPTION_OUT,
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
    { "peer", required_argument, NULL, OPTION_PEER },
    { "out", required_argument, NULL, OPTION_OUT },
    { "sluiced", required_argument, NULL, OPTION_SLUICED },
    { "redis", required_argument, NULL, OPTION_REDIS },
    { "server-cpu", required_argument, NULL, OPTION_SERVER_CPU },
    { "client-cpu", required_argument, NULL, OPTION_CLIENT_CPU },
    { "strict", no_argument, NULL, OPTION_STRICT },
    { "help", no_argument, NULL, OPTION_HELP },
    { 0 },
};

static void
usage_print(void)
{
    printf("%s", usage);
    for (size_t i = 0; i < ARRAY_COUNT(groups); i++) {
        printf("  %-10s %s\n", groups[i].name, groups[i].what);
    }
}

static bool
complain(const char *what, const char *why)
{
    fprintf(stderr, "sluice-bench: %s: %s\n", what, why);
    return false;
}

static void
options_default(struct goals *goals)
{
    *goals = (struct goals){
        .server_cpu = machine_cpu(0),
        .client_cpu = machine_cpu(1),
        .samples = 10000,
        .warmup = 2000,
        .keys = 1000000,
        .benchmark_requests = 100000,
    };
}

/* Is `name` in a comma-separated list? */
static bool
list_has(const char *list, const char *name)
{
    size_t bytes = strlen(name);
    for (const char *at = list; *at != '\0'; at += strcspn(at, ","), at += *at == ',') {
        if (strncmp(at, name, bytes) == 0 && (at[bytes] == ',' || at[bytes] == '\0')) {
            return true;
        }
    }
    return false;
}

/* Every name of --only must be a group's. */
static bool
only_take(struct goals *goals, const char *list)
{
    goals->only = list;
    for (const char *at = list; *at != '\0'; at += strcspn(at, ","), at += *at == ',') {
        char name[32];
        bool known = false;
        snprintf(name, sizeof(name), "%.*s", (int)MIN(strcspn(at, ","), sizeof(name) - 1), at);
        for (size_t i = 0; i < ARRAY_COUNT(groups); i++) {
            known |= strcmp(groups[i].name, name) == 0;
        }
        if (!known) {
            fprintf(stderr, "sluice-bench: --only: there is no group '%s'; --help lists them\n", name);
            return false;
        }
    }
    return *list != '\0' || complain("--only", "names no group");
}

static bool
peer_take(struct goals *goals, const char *text)
{
    static_assert(GOALS_PEERS_MAX == 4, "--help says so");
    struct goals_peer *peer = &goals->peers[goals->peer_count];
    size_t name_bytes = strcspn(text, "=");
    if (goals->peer_count == GOALS_PEERS_MAX) {
        return complain("--peer", "at most 4");
    }
    if (name_bytes == 0 || name_bytes >= sizeof(peer->name) || text[name_bytes] != '=') {
        return complain(text, "NAME=HOST:PORT is expected");
    }
    snprintf(peer->name, sizeof(peer->name), "%.*s", (int)name_bytes, text);
    client_options_init(&peer->address);
    goals->peer_count++;
    return bench_address("--peer", text + name_bytes + 1, &peer->address);
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
        return only_take(goals, value);
    case OPTION_PEER:
        return peer_take(goals, value);
    case OPTION_OUT:
        goals->out = value;
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

/* ---- who else was at work ---- */

struct busy {
    int64_t begin_ns;
    double all_s, own_s, load;
};

/* CPU seconds of the machine: user, nice, system, irq, softirq. */
static double
machine_cpu_seconds(void)
{
    unsigned long long t[7] = { 0 };
    FILE *file = fopen("/proc/stat", "r");
    bool good = file != NULL && fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3],
                                       &t[4], &t[5], &t[6]) == 7;
    if (file != NULL) {
        fclose(file);
    }
    return good ? (double)(t[0] + t[1] + t[2] + t[5] + t[6]) / (double)sysconf(_SC_CLK_TCK) : 0;
}

/* CPU seconds of this process and of its children that were waited for: behind a group there are no others. */
static double
own_cpu_seconds(void)
{
    static const int whose[] = { RUSAGE_SELF, RUSAGE_CHILDREN };
    double seconds = 0;
    for (size_t i = 0; i < ARRAY_COUNT(whose); i++) {
        struct rusage used;
        CHECK(getrusage(whose[i], &used) == 0);
        seconds += (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                   (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
    }
    return seconds;
}

static double
load_now(void)
{
    double load = 0;
    return getloadavg(&load, 1) == 1 ? load : 0;
}

static void
busy_begin(struct busy *busy)
{
    *busy = (struct busy){ machine_now_ns(), machine_cpu_seconds(), own_cpu_seconds(), load_now() };
}

/* The share of one CPU that others used. */
static double
busy_end(const struct busy *busy)
{
    double passed = (double)(machine_now_ns() - busy->begin_ns) * 1e-9;
    double others = machine_cpu_seconds() - busy->all_s - (own_cpu_seconds() - busy->own_s);
    return passed > 0 ? MAX(others, 0.0) / passed : 0;
}

static void
group_run(struct goals *goals, const struct group *group, struct metadata *metadata)
{
    struct busy busy;
    char text[160];
    printf("\n%s: %s\n", group->name, group->what);
    busy_begin(&busy);
    group->run(goals);
    progress_end(&goals->progress);
    double others = busy_end(&busy);
    snprintf(text, sizeof(text), "%s: %.0f s, load %.2f to %.2f, others used %.0f%% of a CPU%s", group->name,
             (double)(machine_now_ns() - busy.begin_ns) * 1e-9, busy.load, load_now(), others * 100,
             others > BUSY_SHARE_MAX ? ": take the figures with care" : "");
    printf("  (%s)\n", text);
    if (metadata != NULL && others > BUSY_SHARE_MAX) {
        metadata_warn(metadata, text);
    }
}

static void
groups_run(struct goals *goals, struct metadata *metadata)
{
    goals_head_print();
    for (size_t i = 0; i < ARRAY_COUNT(groups) && !machine_interrupted(); i++) {
        if (goals->only == NULL || list_has(goals->only, groups[i].name)) {
            group_run(goals, &groups[i], metadata);
        }
    }
}

static bool
options_read(struct goals *goals, int argc, char **argv, bool *strict)
{
    int option;
    options_default(goals);
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (option == OPTION_HELP) {
            usage_print();
            exit(0);
        }
        if (!option_take(goals, option, optarg, strict)) {
            return false;
        }
    }
    if (optind < argc) {
        return complain(argv[optind], "no argument is expected");
    }
    if (goals->runs == 0) {
        goals->runs = goals->quick ? 1 : 5;
    }
    return true;
}

int
bench_goals(int argc, char **argv)
{
    static struct goals goals;
    bool strict = false;
    char machine[256], why[512];
    struct metadata *metadata = NULL;
    if (!options_read(&goals, argc, argv, &strict)) {
        return BENCH_USAGE_ERROR;
    }
    if (!programs_find(&goals)) {
        return 1;
    }
    if (goals.out != NULL) {
        metadata = metadata_begin(argc, argv);
        if (!result_folder_make(goals.out, why, sizeof(why))) {
            fprintf(stderr, "sluice-bench: %s\n", why);
            metadata_end(metadata);
            return 1;
        }
    }
    strcpy(goals.folder, "/tmp/sluice-goals.XXXXXX");
    CHECK(mkdtemp(goals.folder) != NULL);
    machine_interrupts_catch();
    signal(SIGPIPE, SIG_IGN);
    machine_describe(machine, sizeof(machine));
    printf("%s; server on CPU %d, client on CPU %d; medians of %u%s\n\n", machine, goals.server_cpu, goals.client_cpu,
           goals.runs, goals.quick ? "; quick: these figures mean nothing" : "");
    groups_run(&goals, metadata);
    folder_remove(goals.folder);
    printf("\n%u met with stretch, %u met, %u not met, %u not here, %u later%s\n", goals.stretched, goals.met,
           goals.missed, goals.absent, goals.later, machine_interrupted() ? "; interrupted" : "");
    if (metadata != NULL && machine_interrupted()) {
        metadata_warn(metadata, "interrupted");
    }
    if (metadata != NULL && !metadata_write(metadata, goals.out, why, sizeof(why))) {
        fprintf(stderr, "sluice-bench: %s\n", why);
        goals.out_failed = true;
    }
    metadata_end(metadata);
    if (machine_interrupted()) {
        return EXIT_INTERRUPTED;
    }
    return (strict && goals.missed > 0) || goals.out_failed ? EXIT_FAILED : 0;
}
