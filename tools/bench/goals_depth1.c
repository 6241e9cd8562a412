/* goals_depth1.c - one request after the other: the fabric and kernel TCP against their floors and Redis. */
#include "tools/bench/goals.h"
#include "tools/bench/machine.h"
#include "tools/bench/operations.h"
#include "tools/bench/stats.h"

#define OUTPUT_BYTES 32768

/* What one run of `sluice-bench latency` printed. */
struct depth1_run {
    double p50[OPERATION_COUNT], p99[OPERATION_COUNT], floor_p50[OPERATION_COUNT];
    uint32_t operations; /* with p50 */
    uint32_t floors;
};

enum depth1_wire { DEPTH1_RESP, DEPTH1_SBE, DEPTH1_WIRES };
static const char *const wire_names[DEPTH1_WIRES] = { "RESP", "SBE" };
static const char *const wire_options[DEPTH1_WIRES] = { "resp2", "sbe" };

/* Medians over the runs. */
struct depth1_result {
    bool have;
    char why[SERVER_WHY_BYTES];
    double p50[OPERATION_COUNT], p99[OPERATION_COUNT];
    double mean_p50, over_floor, over_redis;
    bool have_redis;
};

static int
operation_index(const char *name)
{
    for (int i = 0; i < OPERATION_COUNT; i++) {
        if (strcmp(name, operation_names[i]) == 0) {
            return i;
        }
    }
    return -1;
}

/* label,operation,min,p50,p75,p90,p95,p99,... */
static void
csv_read(char *csv, struct depth1_run *run)
{
    *run = (struct depth1_run){ 0 };
    char *rest = NULL;
    for (char *line = strtok_r(csv, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char label[96], name[16];
        double p50, p99;
        if (sscanf(line, "%95[^,],%15[^,],%*f,%lf,%*f,%*f,%*f,%lf", label, name, &p50, &p99) != 4) {
            continue;
        }
        int operation = operation_index(name);
        size_t label_bytes = strlen(label);
        bool floor = label_bytes > 6 && strcmp(label + label_bytes - 6, "-floor") == 0;
        if (operation < 0) {
            continue;
        }
        if (floor) {
            run->floor_p50[operation] = p50;
            run->floors++;
        } else {
            run->p50[operation] = p50;
            run->p99[operation] = p99;
            run->operations++;
        }
    }
}

static double
mean_of(const double *values)
{
    double sum = 0;
    for (int i = 0; i < OPERATION_COUNT; i++) {
        sum += values[i];
    }
    return sum / OPERATION_COUNT;
}

/* One run against the server at `port`; its process stops while the floor is measured. */
static bool
run_once(const struct goals *goals, const struct server *server, const char *provider, enum depth1_wire wire,
         bool floor, struct depth1_run *run, char *why, size_t why_bytes)
{
    static char output[OUTPUT_BYTES];
    char port[8], pid[16], samples[24], warmup[24], cpu[8], peer_cpu[8];
    snprintf(port, sizeof(port), "%u", server->port);
    snprintf(pid, sizeof(pid), "%d", (int)server->pid);
    snprintf(samples, sizeof(samples), "%llu", (unsigned long long)goals->samples);
    snprintf(warmup, sizeof(warmup), "%llu", (unsigned long long)goals->warmup);
    snprintf(cpu, sizeof(cpu), "%d", goals->client_cpu);
    snprintf(peer_cpu, sizeof(peer_cpu), "%d", goals->server_cpu);
    const char *arguments[24] = { "latency", "--csv",    "-p",   port,    "--wire", wire_options[wire], "--samples",
                                  samples,   "--warmup", warmup, "--cpu", cpu,      "--server-cpu",     peer_cpu };
    uint32_t count = 14;
    if (provider != NULL) {
        arguments[count++] = "--provider";
        arguments[count++] = provider;
    }
    if (floor) {
        arguments[count++] = "--floor";
        arguments[count++] = "--pause";
        arguments[count++] = pid;
    }
    if (!goals_self(goals, arguments, 120, output, sizeof(output), why, why_bytes)) {
        return false;
    }
    csv_read(output, run);
    if (run->operations != OPERATION_COUNT || (floor && run->floors != OPERATION_COUNT)) {
        snprintf(why, why_bytes, "only %u operations and %u floors came back", run->operations, run->floors);
        return false;
    }
    return true;
}

static void
result_make(const struct goals *goals, const struct depth1_run *runs, const struct depth1_run *redis,
            struct depth1_result *result)
{
    double ratios[GOALS_RUNS_MAX], values[GOALS_RUNS_MAX];
    for (int operation = 0; operation < OPERATION_COUNT; operation++) {
        for (uint32_t i = 0; i < goals->runs; i++) {
            values[i] = runs[i].p50[operation];
        }
        result->p50[operation] = median_of(values, goals->runs);
        for (uint32_t i = 0; i < goals->runs; i++) {
            values[i] = runs[i].p99[operation];
        }
        result->p99[operation] = median_of(values, goals->runs);
    }
    for (uint32_t i = 0; i < goals->runs; i++) {
        ratios[i] = mean_of(runs[i].p50) / mean_of(runs[i].floor_p50);
        values[i] = mean_of(runs[i].p50);
    }
    result->over_floor = median_of(ratios, goals->runs);
    result->mean_p50 = median_of(values, goals->runs);
    if (redis != NULL) {
        for (uint32_t i = 0; i < goals->runs; i++) {
            ratios[i] = mean_of(runs[i].p50) / mean_of(redis[i].p50);
        }
        result->over_redis = median_of(ratios, goals->runs);
    }
    result->have = true;
    result->have_redis = redis != NULL;
}

/* All runs of one transport and wire, Redis in turns when it is running. */
static void
transport_measure(struct goals *goals, const struct server *sluice, const struct server *redis, const char *provider,
                  enum depth1_wire wire, struct depth1_result *result)
{
    static struct depth1_run runs[GOALS_RUNS_MAX], redis_runs[GOALS_RUNS_MAX];
    bool with_redis = redis != NULL && wire == DEPTH1_RESP;
    for (uint32_t i = 0; i < goals->runs; i++) {
        if (!run_once(goals, sluice, provider, wire, true, &runs[i], result->why, sizeof(result->why))) {
            return;
        }
        if (with_redis) {
            server_pause(sluice);
            server_resume(redis);
            bool good = run_once(goals, redis, NULL, wire, false, &redis_runs[i], result->why, sizeof(result->why));
            server_pause(redis);
            server_resume(sluice);
            if (!good) {
                return;
            }
        }
        if (machine_interrupted()) {
            snprintf(result->why, sizeof(result->why), "interrupted");
            return;
        }
        goal_progress(goals, provider != NULL ? provider : "kernel TCP", i, goals->runs);
    }
    result_make(goals, runs, with_redis ? redis_runs : NULL, result);
}

static void
floor_row(struct goals *goals, const char *name, enum depth1_wire wire, const struct depth1_result *result, double must,
          double stretch)
{
    char what[128], detail[96];
    snprintf(what, sizeof(what), "depth 1, 8 operations, %s, %s: mean p50 over the bare transport's", name,
             wire_names[wire]);
    if (!result->have) {
        goal_not_here(goals, what, result->why);
        return;
    }
    snprintf(detail, sizeof(detail), "%.2f us over %.2f us", result->mean_p50, result->mean_p50 / result->over_floor);
    goal_measured(goals, what, GOAL_AT_MOST, must, stretch, result->over_floor, "x", detail);
}

static void
goblin_row(struct goals *goals, const char *name, enum depth1_wire wire)
{
    char what[128];
    snprintf(what, sizeof(what), "each of the 8, %s, %s: p50 and p99 below Goblin Core's", name, wire_names[wire]);
    goal_not_here(goals, what, "it is not packaged; latency --peer compares RESP over kernel TCP where it runs");
}

static void
fabric_rows(struct goals *goals, const char *provider, double must, double stretch)
{
    struct depth1_result results[DEPTH1_WIRES] = { 0 };
    struct server server;
    struct server_plan plan = goals_plan(goals, provider);
    char name[64];
    snprintf(name, sizeof(name), "fabric %s", provider);
    bool started = server_start_sluice(&server, &plan, results[0].why, sizeof(results[0].why));
    for (int wire = 0; wire < DEPTH1_WIRES; wire++) {
        if (started) {
            transport_measure(goals, &server, NULL, provider, (enum depth1_wire)wire, &results[wire]);
        } else {
            memcpy(results[wire].why, results[0].why, sizeof(results[wire].why));
        }
        floor_row(goals, name, (enum depth1_wire)wire, &results[wire], must, stretch);
    }
    for (int wire = 0; strcmp(provider, "tcp;ofi_rxm") == 0 && wire < DEPTH1_WIRES; wire++) {
        goblin_row(goals, name, (enum depth1_wire)wire);
    }
    server_stop(&server);
}

static void
redis_row(struct goals *goals, const struct depth1_result *result, const char *why)
{
    static const char what[] = "depth 1, 8 operations, kernel TCP, RESP: mean p50 over Redis'";
    char detail[96];
    if (!result->have || !result->have_redis) {
        goal_not_here(goals, what, result->have ? why : result->why);
        return;
    }
    snprintf(detail, sizeof(detail), "%.2f us over %.2f us", result->mean_p50, result->mean_p50 / result->over_redis);
    goal_measured(goals, what, GOAL_AT_MOST, 0.65, 0.55, result->over_redis, "x", detail);
}

static void
tcp_rows(struct goals *goals)
{
    struct depth1_result results[DEPTH1_WIRES] = { 0 };
    struct server sluice, redis = { 0 };
    struct server_plan plan = goals_plan(goals, NULL);
    char redis_why[SERVER_WHY_BYTES];
    snprintf(redis_why, sizeof(redis_why), "%s", goals->redis_why);
    bool started = server_start_sluice(&sluice, &plan, results[0].why, sizeof(results[0].why));
    bool with_redis = false;
    if (started && goals->have_redis) {
        plan.program = goals->redis;
        server_pause(&sluice);
        with_redis = server_start_redis(&redis, &plan, redis_why, sizeof(redis_why));
        server_pause(&redis);
        server_resume(&sluice);
    }
    for (int wire = 0; wire < DEPTH1_WIRES; wire++) {
        if (started) {
            transport_measure(goals, &sluice, with_redis ? &redis : NULL, NULL, (enum depth1_wire)wire, &results[wire]);
        } else {
            memcpy(results[wire].why, results[0].why, sizeof(results[wire].why));
        }
        floor_row(goals, "kernel TCP", (enum depth1_wire)wire, &results[wire], 1.15, 1.05);
    }
    redis_row(goals, &results[DEPTH1_RESP], redis_why);
    for (int wire = 0; wire < DEPTH1_WIRES; wire++) {
        goblin_row(goals, "kernel TCP", (enum depth1_wire)wire);
    }
    server_stop(&redis);
    server_stop(&sluice);
}

void
goals_depth1(struct goals *goals)
{
    static const struct {
        const char *provider;
        double must, stretch;
    } fabrics[] = { { "shm", 1.3, 1.1 }, { "net", 1.15, 1.05 }, { "tcp;ofi_rxm", 1.15, 1.05 } };
    for (size_t i = 0; i < ARRAY_COUNT(fabrics) && !machine_interrupted(); i++) {
        fabric_rows(goals, fabrics[i].provider, fabrics[i].must, fabrics[i].stretch);
    }
    if (!machine_interrupted()) {
        tcp_rows(goals);
    }
}
