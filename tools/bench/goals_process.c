/* goals_process.c - sluiced seen from outside: system calls, memory, start; and a request in process. */
#include "config/limits.h"
#include "tools/bench/goals.h"
#include "tools/bench/load.h"
#include "tools/bench/machine.h"
#include "tools/bench/stats.h"
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_BYTES 65536

/* ---- system calls ---- */

/* The thread that is called lcore-0. 0: none. */
static pid_t
lcore_tid(pid_t pid)
{
    char path[320], name[32] = "";
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    pid_t found = 0;
    for (struct dirent *thread; threads != NULL && found == 0 && (thread = readdir(threads)) != NULL;) {
        snprintf(path, sizeof(path), "/proc/%d/task/%s/comm", (int)pid, thread->d_name);
        FILE *file = fopen(path, "r");
        if (file != NULL && fscanf(file, "%31s", name) == 1 && strcmp(name, "lcore-0") == 0) {
            found = (pid_t)atoi(thread->d_name);
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    if (threads != NULL) {
        closedir(threads);
    }
    return found;
}

/* Start a load in the background; SIGINT ends it. */
static pid_t
load_start(const struct goals *goals, const struct server *server, const char *provider, const char *value_bytes)
{
    char port[8], cpu[8];
    snprintf(port, sizeof(port), "%u", server->port);
    snprintf(cpu, sizeof(cpu), "%d", goals->client_cpu);
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        setpgid(0, 0);
        if (freopen("/dev/null", "w", stdout) == NULL || freopen("/dev/null", "w", stderr) == NULL) {
            _exit(127);
        }
        execl(goals->self, goals->self, "throughput", "--csv", "-p", port, "--provider", provider, "-c", "1", "-P", "8",
              "--mix", "set:1,get:1", "-r", "100", "-d", value_bytes, "--seconds", "60", "--cpu", cpu, "--load",
              (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void
load_stop(pid_t pid)
{
    kill(pid, SIGINT);
    int64_t begin = machine_now_ns();
    while (waitpid(pid, NULL, WNOHANG) == 0) {
        if (machine_now_ns() - begin > 5000000000) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
            return;
        }
        usleep(5000);
    }
}

#define STRACE_SECONDS 4

/* Lines of a second of strace that are system calls. -1: `why`. */
static int
strace_count(pid_t tid, char *first, size_t first_bytes, char *why, size_t why_bytes)
{
    static char output[OUTPUT_BYTES];
    char pid[16];
    int calls = 0;
    snprintf(pid, sizeof(pid), "%d", (int)tid);
    /* strace writes to stderr: the shell turns that into our output. $0 is the thread. */
    const char *const argv[] = { "sh", "-c", "timeout -s INT 1 strace -qq -p \"$0\" 2>&1; true", pid, NULL };
    if (!program_run(argv, -1, 20, output, sizeof(output), why, why_bytes)) {
        return -1;
    }
    char *rest = NULL;
    for (char *line = strtok_r(output, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        bool is_call = strchr(line, '(') != NULL && line[0] >= 'a' && line[0] <= 'z';
        if (strstr(line, "not found") != NULL || strstr(line, "ptrace") != NULL) {
            snprintf(why, why_bytes, "%s", line);
            return -1;
        }
        if (is_call && calls++ == 0) {
            snprintf(first, first_bytes, "%.*s", (int)first_bytes - 1, line);
        }
    }
    return calls;
}

void
goals_syscalls(struct goals *goals)
{
    static const char what[] = "system calls of an lcore a second, fabric shm under load, values of 64 B and 4 KiB";
    static const char *const sizes[] = { "64", "4096" };
    struct server server;
    struct server_plan plan = goals_plan(goals, "shm");
    char why[SERVER_WHY_BYTES] = "", first[64] = "", detail[128];
    int calls = 0;
    if (!server_start_sluice(&server, &plan, why, sizeof(why))) {
        goal_not_here(goals, what, why);
        return;
    }
    pid_t tid = lcore_tid(server.pid);
    for (size_t i = 0; i < ARRAY_COUNT(sizes) && calls >= 0; i++) {
        pid_t load = load_start(goals, &server, "shm", sizes[i]);
        usleep(1000000);
        /* Attaching and filling make calls, and it is not known when they are over: the quietest second counts. */
        int now = -1;
        for (int second = 0; second < STRACE_SECONDS && now != 0 && waitpid(load, NULL, WNOHANG) == 0; second++) {
            int count = strace_count(tid, first, sizeof(first), why, sizeof(why));
            now = now < 0 ? count : MIN(now, count);
        }
        if (now < 0 && why[0] == '\0') {
            snprintf(why, sizeof(why), "the load did not run");
        } else {
            load_stop(load);
        }
        calls = now < 0 ? -1 : calls + now;
    }
    server_stop(&server);
    if (calls < 0 || tid == 0) {
        goal_not_here(goals, what, tid == 0 ? "no thread is called lcore-0" : why);
        return;
    }
    snprintf(detail, sizeof(detail), "%s%s", calls > 0 ? "the first: " : "", calls > 0 ? first : "");
    goal_measured(goals, what, GOAL_AT_MOST, 0, 0, calls, "", detail);
}

/* ---- in process ---- */

#define BENCH_REQUEST "test/dataplane/bench_request"

/* The micro-benchmark prints: operation keys burst nanoseconds. */
static void
in_process_row(struct goals *goals, const char *keys, double must, double stretch)
{
    char what[128], path[320], output[256], why[SERVER_WHY_BYTES];
    double values[GOALS_RUNS_MAX];
    snprintf(what, sizeof(what), "in process, decode + execute + encode of a RESP GET, bursts of 16, %s keys", keys);
    if (!goals_path_beside(goals, BENCH_REQUEST, path, sizeof(path))) {
        goal_not_here(goals, what, "the tests are not built: meson configure -Dtests=true");
        return;
    }
    for (uint32_t i = 0; i < goals->runs; i++) {
        goal_progress(goals, what, i, goals->runs);
        const char *const argv[] = { path, "get", keys, "16", goals->quick ? "100000" : "4000000", NULL };
        if (!program_run(argv, goals->server_cpu, 120, output, sizeof(output), why, sizeof(why)) ||
            sscanf(output, "%*s %*s %*s %lf", &values[i]) != 1 || machine_interrupted()) {
            goal_not_here(goals, what, machine_interrupted() ? "interrupted" : why);
            return;
        }
    }
    goal_measured(goals, what, GOAL_AT_MOST, must, stretch, median_of(values, goals->runs), " ns", "");
}

/* Counted by callgrind, the same on every run. */
static void
instructions_row(struct goals *goals)
{
    static const char what[] = "user instructions of a RESP GET, in process, bursts of 16, callgrind";
    static const uint32_t requests = 32000;
    static char why[OUTPUT_BYTES];
    char path[320], out_file[128], requests_text[16];
    unsigned long long collected;
    if (!goals_path_beside(goals, BENCH_REQUEST, path, sizeof(path))) {
        goal_not_here(goals, what, "the tests are not built: meson configure -Dtests=true");
        return;
    }
    snprintf(out_file, sizeof(out_file), "--callgrind-out-file=%s/callgrind", goals->folder);
    snprintf(requests_text, sizeof(requests_text), "%u", requests);
    /* callgrind reports on stderr; the shell joins the two. */
    const char *const argv[] = { "sh",
                                 "-c",
                                 "exec \"$@\" 2>&1",
                                 "sh",
                                 "valgrind",
                                 "--tool=callgrind",
                                 "--toggle-collect=bench_turns",
                                 out_file,
                                 path,
                                 "get",
                                 "10000",
                                 "16",
                                 requests_text,
                                 NULL };
    static char report[OUTPUT_BYTES];
    bool good = program_run(argv, goals->server_cpu, 120, report, sizeof(report), why, sizeof(why));
    const char *found = good ? strstr(report, "Collected : ") : NULL;
    if (found == NULL || sscanf(found, "Collected : %llu", &collected) != 1) {
        goal_not_here(goals, what, "valgrind did not run");
        return;
    }
    goal_measured(goals, what, GOAL_AT_MOST, 700, 400, (double)collected / requests, "", "");
}

void
goals_request(struct goals *goals)
{
    in_process_row(goals, goals->quick ? "10000" : "1000000", 100, 50);
    if (!goals->quick && !machine_interrupted()) {
        in_process_row(goals, "10000000", 150, 90);
    }
    if (!machine_interrupted()) {
        instructions_row(goals);
    }
}

/* ---- memory ---- */

void
goals_memory(struct goals *goals)
{
    static char output[OUTPUT_BYTES];
    char what[128], why[SERVER_WHY_BYTES], port[8], keys[24], detail[128];
    struct server server;
    struct server_plan plan = goals_plan(goals, NULL);
    uint64_t entries = goals->keys;
    snprintf(what, sizeof(what), "resident bytes an entry, 48-byte payload, %llu entries: string",
             (unsigned long long)entries);
    plan.keys = entries;
    if (!server_start_sluice(&server, &plan, why, sizeof(why))) {
        goal_not_here(goals, what, why);
        return;
    }
    snprintf(port, sizeof(port), "%u", server.port);
    snprintf(keys, sizeof(keys), "%llu", (unsigned long long)entries);
    uint64_t before = process_resident_bytes(server.pid);
    const char *const arguments[] = { "throughput", "--csv", "-p", port, "-r", keys,  "--load",
                                      "-n",         "10",    "-c", "1",  "-t", "get", NULL };
    bool good = goals_self(goals, arguments, 120, output, sizeof(output), why, sizeof(why));
    usleep(300000);
    uint64_t after = process_resident_bytes(server.pid);
    server_stop(&server);
    if (!good || before == 0 || after < before) {
        goal_not_here(goals, what, good ? "resident memory cannot be read" : why);
    } else {
        double each = (double)(after - before) / (double)entries;
        snprintf(detail, sizeof(detail), "%.0f MiB before, %.0f MiB after, pages populated ahead included",
                 (double)before / MIB, (double)after / MIB);
        goal_measured(goals, what, GOAL_AT_MOST, 100, 80, each, " B", detail);
        goals_keep_memory(goals, "sluiced", "string", entries, each);
    }
    goal_later(goals, "resident bytes an entry: field of a big hash, sorted-set member", "large objects");
}

/* ---- start ---- */

static void
ready_row(struct goals *goals, const char *what, const char *provider, double must)
{
    double seconds[GOALS_RUNS_MAX];
    char why[SERVER_WHY_BYTES];
    for (uint32_t i = 0; i < goals->runs; i++) {
        struct server server;
        struct server_plan plan = goals_plan(goals, provider);
        goal_progress(goals, what, i, goals->runs);
        if (!server_start_sluice(&server, &plan, why, sizeof(why))) {
            goal_not_here(goals, what, why);
            return;
        }
        seconds[i] = server.ready_s;
        server_stop(&server);
    }
    goal_measured(goals, what, GOAL_AT_MOST, must, 0, median_of(seconds, goals->runs), " s", "until PING is answered");
}

void
goals_start(struct goals *goals)
{
    static const struct {
        const char *what, *provider;
        double must;
    } starts[] = { { "exec to ready: socket ports", NULL, 0.1 },
                   { "exec to ready: with a fabric port (net)", "net", 0.5 },
                   { "exec to ready: with a DPDK port (net_ring)", "net_ring0", 1 } };
    for (size_t i = 0; i < ARRAY_COUNT(starts) && !machine_interrupted(); i++) {
        ready_row(goals, starts[i].what, starts[i].provider, starts[i].must);
    }
}
