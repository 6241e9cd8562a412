/* goals_store.c - the store alone and two lcores: store-bench, a program of the tests, measures and this judges. */
#include "tools/bench/goals.h"
#include "tools/bench/machine.h"
#include "tools/bench/stats.h"
#include <sched.h>

#define STORE_BENCH  "test/store/store-bench"
#define BENCH_S      300
#define OUTPUT_BYTES 65536

/* One row of store-bench. False: `why`. */
struct store_row {
    double ns, million_per_second, waits, instructions, resident_bytes;
};

static bool
store_bench(const struct goals *goals, const char *keys, const char *operation, const char *lcores, const char *more,
            struct store_row *row, char *why, size_t why_bytes)
{
    static char output[4096];
    char path[320];
    if (!goals_path_beside(goals, STORE_BENCH, path, sizeof(path))) {
        snprintf(why, why_bytes, "the tests are not built: meson configure -Dtests=true");
        return false;
    }
    const char *const argv[] = { path,
                                 "--csv",
                                 "--distribution",
                                 "uniform",
                                 "--burst",
                                 "16",
                                 "--keys",
                                 keys,
                                 "--operations",
                                 operation,
                                 "--lcores",
                                 lcores,
                                 "--seconds",
                                 goals->quick ? "0.05" : "1",
                                 more,
                                 NULL };
    int cpu = strcmp(lcores, "1") == 0 ? goals->server_cpu : -1;
    if (!program_run(argv, cpu, BENCH_S, output, sizeof(output), why, why_bytes)) {
        return false;
    }
    const char *line = strchr(output, '\n'); /* behind the names of the columns */
    if (line == NULL || sscanf(line + 1, "%*[^,],%*[^,],%*[^,],%*[^,],%*[^,],%*[^,],%lf,%lf,%lf,%lf,%lf", &row->ns,
                               &row->million_per_second, &row->waits, &row->instructions, &row->resident_bytes) != 5) {
        snprintf(why, why_bytes, "store-bench did not print a row");
        return false;
    }
    return true;
}

/* Time and memory come from the same runs. */
static void
get_rows(struct goals *goals, const char *keys, double must_ns, double stretch_ns)
{
    char what[128], why[SERVER_WHY_BYTES];
    double ns[GOALS_RUNS_MAX], resident[GOALS_RUNS_MAX];
    struct store_row row;
    snprintf(what, sizeof(what), "in process, the store's part of a GET, bursts of 16, %s keys", keys);
    for (uint32_t i = 0; i < goals->runs; i++) {
        goal_progress(goals, what, i, goals->runs);
        if (machine_interrupted() || !store_bench(goals, keys, "get", "1", NULL, &row, why, sizeof(why))) {
            goal_not_here(goals, what, machine_interrupted() ? "interrupted" : why);
            return;
        }
        ns[i] = row.ns;
        resident[i] = row.resident_bytes;
    }
    goal_measured(goals, what, GOAL_AT_MOST, must_ns, stretch_ns, median_of(ns, goals->runs), " ns", "");
    if (goals->quick) {
        return; /* so few keys hide behind the pages that were populated ahead */
    }
    snprintf(what, sizeof(what), "resident bytes an entry, 48-byte payload, %s entries in process: string", keys);
    double each = median_of(resident, goals->runs);
    goal_measured(goals, what, GOAL_AT_MOST, 100, 80, each, " B", "");
    goals_keep_memory(goals, "store in process", "string", strtoull(keys, NULL, 10), each);
}

static void
instructions_row(struct goals *goals)
{
    static const char what[] = "user instructions of the store's part of a GET, bursts of 16, callgrind";
    char why[SERVER_WHY_BYTES] = "";
    struct store_row row;
    if (!store_bench(goals, "10000", "get", "1", "--instructions", &row, why, sizeof(why)) || row.instructions == 0) {
        goal_not_here(goals, what, why[0] != '\0' ? why : "valgrind did not run");
        return;
    }
    goal_measured(goals, what, GOAL_AT_MOST, 700, 400, row.instructions, "", "");
}

void
goals_store(struct goals *goals)
{
    get_rows(goals, goals->quick ? "10000" : "1000000", 100, 50);
    if (!goals->quick) {
        get_rows(goals, "10000000", 150, 90);
    }
    if (!machine_interrupted()) {
        instructions_row(goals);
    }
}

/* ---- two lcores ---- */

static void
lcores_store_row(struct goals *goals, const char *operation)
{
    char what[128], why[SERVER_WHY_BYTES], detail[96];
    const char *keys = goals->quick ? "10000" : "1000000";
    double ratios[GOALS_RUNS_MAX];
    struct store_row one, two;
    snprintf(what, sizeof(what), "two lcores on distinct keys, %s in the store, against one lcore",
             strcmp(operation, "get") == 0 ? "GET" : "SET");
    if (machine_cpu_count() < 2) {
        goal_not_here(goals, what, "needs 2 CPUs");
        return;
    }
    for (uint32_t i = 0; i < goals->runs; i++) {
        goal_progress(goals, what, i, goals->runs);
        if (machine_interrupted() || !store_bench(goals, keys, operation, "1", "--distinct", &one, why, sizeof(why)) ||
            !store_bench(goals, keys, operation, "2", "--distinct", &two, why, sizeof(why))) {
            goal_not_here(goals, what, machine_interrupted() ? "interrupted" : why);
            return;
        }
        ratios[i] = two.million_per_second / one.million_per_second;
    }
    snprintf(detail, sizeof(detail), "the last: %.1f to %.1f M/s, %.2f turns waited an operation",
             one.million_per_second, two.million_per_second, two.waits);
    goal_measured(goals, what, GOAL_AT_LEAST, 1.8, 1.95, median_of(ratios, goals->runs), "x", detail);
}

/* Clients of two threads on the CPUs behind the server's. 0: `why`. */
static double
lcores_rate(const struct goals *goals, uint32_t lcores, char *why, size_t why_bytes)
{
    static char output[OUTPUT_BYTES];
    struct server server;
    struct server_plan plan = goals_plan(goals, NULL);
    char port[8], keys[24], name[32];
    double rate = 0;
    plan.lcores = lcores;
    plan.cpu_count = lcores;
    for (uint32_t i = 0; i < lcores; i++) {
        plan.cpus[i] = machine_cpu(i);
    }
    if (!server_start_sluice(&server, &plan, why, why_bytes)) {
        return 0;
    }
    snprintf(port, sizeof(port), "%u", server.port);
    snprintf(keys, sizeof(keys), "%llu", (unsigned long long)goals->keys);
    const char *const argv[] = { goals->self, "throughput", "--csv",     "-p",  port, "-r", keys,
                                 "-c",        "2",          "--threads", "2",   "-P", "64", "--spin",
                                 "--seconds", "1",          "-t",        "set", NULL };
    cpu_set_t before, clients;
    CHECK(sched_getaffinity(0, sizeof(before), &before) == 0);
    CPU_ZERO(&clients);
    for (uint32_t i = 2; i < machine_cpu_count(); i++) {
        CPU_SET((size_t)machine_cpu(i), &clients);
    }
    sched_setaffinity(0, sizeof(clients), &clients);
    if (program_run(argv, -1, 60, output, sizeof(output), why, why_bytes)) {
        char *row = strchr(output, '\n');
        if (row == NULL || sscanf(row + 1, "%31[^,],%lf", name, &rate) != 2) {
            rate = 0;
        }
    }
    sched_setaffinity(0, sizeof(before), &before);
    server_stop(&server);
    return rate;
}

static void
lcores_socket_row(struct goals *goals)
{
    static const char what[] = "two lcores on distinct keys, SET, 64 in flight each, against one lcore";
    double ratios[GOALS_RUNS_MAX];
    char why[SERVER_WHY_BYTES] = "";
    if (machine_cpu_count() < 4) {
        goal_not_here(goals, what, "needs 4 CPUs, for two lcores and two client threads; in process: see above");
        return;
    }
    for (uint32_t i = 0; i < goals->runs; i++) {
        goal_progress(goals, what, i, goals->runs);
        double one = lcores_rate(goals, 1, why, sizeof(why)), two = lcores_rate(goals, 2, why, sizeof(why));
        if (one == 0 || two == 0) {
            goal_not_here(goals, what, why);
            return;
        }
        ratios[i] = two / one;
    }
    goal_measured(goals, what, GOAL_AT_LEAST, 1.8, 1.95, median_of(ratios, goals->runs), "x", "");
}

void
goals_lcores(struct goals *goals)
{
    lcores_store_row(goals, "get");
    if (!machine_interrupted()) {
        lcores_store_row(goals, "set");
    }
    if (!machine_interrupted()) {
        lcores_socket_row(goals);
    }
    goal_later(goals, "two lcores writing one large object, against one lcore", "large objects");
}
