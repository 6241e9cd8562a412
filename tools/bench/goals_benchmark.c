/* goals_benchmark.c - redis-benchmark's own default tests, against Redis. */
#include "tools/bench/goals.h"
#include "tools/bench/goals_pair.h"
#include "tools/bench/machine.h"
#include "tools/bench/stats.h"
#include <sys/resource.h>

#define OUTPUT_BYTES 65536
#define RESULTS_MAX  24 /* a test may print several rows */
#define NAMES_BYTES  160
#define BOUND_SHARE  0.9 /* of its CPU: from here on the client is what is measured */

static const struct benchmark_test {
    const char *name;    /* of -t */
    const char *command; /* the server must know it */
} tests[] = {
    { "ping", "PING" },   { "set", "SET" },   { "get", "GET" },         { "incr", "INCR" },     { "lpush", "LPUSH" },
    { "rpush", "RPUSH" }, { "lpop", "LPOP" }, { "rpop", "RPOP" },       { "sadd", "SADD" },     { "hset", "HSET" },
    { "spop", "SPOP" },   { "zadd", "ZADD" }, { "zpopmin", "ZPOPMIN" }, { "lrange", "LRANGE" }, { "mset", "MSET" },
};

struct benchmark {
    struct goals *goals;
    struct goals_pair pair;
    char names[NAMES_BYTES], missing[NAMES_BYTES]; /* tests whose commands exist, and the others: comma-separated */
};

struct benchmark_result {
    double client_share; /* of one CPU, what redis-benchmark used itself */
    uint32_t count;
    char names[RESULTS_MAX][32];
    double rates[RESULTS_MAX];
};

static void
list_add(char list[NAMES_BYTES], const char *name)
{
    size_t used = strlen(list);
    snprintf(list + used, NAMES_BYTES - used, "%s%s", used > 0 ? "," : "", name);
}

/* `"PING_INLINE","48123.20",...` in the order of its output. */
static void
result_read(char *csv, struct benchmark_result *result)
{
    char *rest = NULL;
    result->count = 0;
    for (char *line = strtok_r(csv, "\n", &rest); line != NULL && result->count < RESULTS_MAX;
         line = strtok_r(NULL, "\n", &rest)) {
        if (sscanf(line, "\"%31[^\"]\",\"%lf\"", result->names[result->count], &result->rates[result->count]) == 2 &&
            result->rates[result->count] > 0) {
            result->count++;
        }
    }
}

/* Of children that were waited for: between two looks, of redis-benchmark. */
static double
children_cpu_seconds(void)
{
    struct rusage used;
    CHECK(getrusage(RUSAGE_CHILDREN, &used) == 0);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

/* One server's turn. False: `why`. */
static bool
benchmark_run(const struct benchmark *benchmark, uint32_t server, uint32_t depth, struct benchmark_result *result,
              char *why, size_t why_bytes)
{
    static char output[OUTPUT_BYTES];
    const struct goals *goals = benchmark->goals;
    char port[8], requests[24], depth_text[8];
    snprintf(port, sizeof(port), "%u", benchmark->pair.servers[server].port);
    snprintf(depth_text, sizeof(depth_text), "%u", depth);
    snprintf(requests, sizeof(requests), "%llu",
             (unsigned long long)(depth > 1 ? 4 * goals->benchmark_requests : goals->benchmark_requests));
    goals_pair_turn(&benchmark->pair, server);
    const char *const argv[] = {
        goals->redis_benchmark, "-p",    port, "-c", "50", "-P", depth_text, "-n", requests, "-t",
        benchmark->names,       "--csv", NULL
    };
    int64_t begin_ns = machine_now_ns();
    double begin_s = children_cpu_seconds();
    if (!program_run(argv, goals->client_cpu, 120, output, sizeof(output), why, why_bytes)) {
        return false;
    }
    result->client_share = (children_cpu_seconds() - begin_s) / ((double)(machine_now_ns() - begin_ns) * 1e-9);
    result_read(output, result);
    if (result->count == 0) {
        snprintf(why, why_bytes, "redis-benchmark printed no table");
    }
    return result->count > 0;
}

/* The value is the lowest ratio of all tests. */
static void
row_measure(struct benchmark *benchmark, uint32_t depth, double must, double stretch)
{
    static struct benchmark_result ours, theirs;
    double ratios[RESULTS_MAX][GOALS_RUNS_MAX], shares[2][GOALS_RUNS_MAX], lowest_ratio = 0, sum = 0;
    char what[256], detail[192], why[SERVER_WHY_BYTES] = "";
    struct goals *goals = benchmark->goals;
    uint32_t lowest = 0;
    snprintf(what, sizeof(what), "redis-benchmark -c 50 -P %u, %s: lowest over Redis", depth, benchmark->names);
    for (uint32_t i = 0; i < goals->runs; i++) {
        goal_progress(goals, "redis-benchmark", i, goals->runs);
        if (!benchmark_run(benchmark, 0, depth, &ours, why, sizeof(why)) ||
            !benchmark_run(benchmark, 1, depth, &theirs, why, sizeof(why)) || machine_interrupted()) {
            goal_not_here(goals, what, machine_interrupted() ? "interrupted" : why);
            return;
        }
        if (ours.count != theirs.count) {
            goal_not_here(goals, what, "redis-benchmark printed other tests for Redis than for us");
            return;
        }
        shares[0][i] = ours.client_share;
        shares[1][i] = theirs.client_share;
        for (uint32_t test = 0; test < ours.count; test++) {
            ratios[test][i] = ours.rates[test] / theirs.rates[test];
        }
    }
    for (uint32_t test = 0; test < ours.count; test++) {
        double ratio = median_of(ratios[test], goals->runs);
        sum += ratio;
        if (test == 0 || ratio < lowest_ratio) {
            lowest = test;
            lowest_ratio = ratio;
        }
    }
    double share = median_of(shares[0], goals->runs);
    snprintf(detail, sizeof(detail),
             "%.31s; mean of the %u rows %.2fx; redis-benchmark used %.0f%% of its CPU, %.0f%% with "
             "Redis%s",
             ours.names[lowest], ours.count, sum / ours.count, share * 100, median_of(shares[1], goals->runs) * 100,
             share >= BOUND_SHARE ? ": it is the bound, the value is a lower one" : "");
    goal_measured(goals, what, GOAL_AT_LEAST, must, stretch, lowest_ratio, "x", detail);
}

void
goals_benchmark(struct goals *goals)
{
    static const char what[] = "redis-benchmark -c 50, -P 1 and -P 16: against Redis";
    struct benchmark benchmark = { .goals = goals };
    char why[SERVER_WHY_BYTES] = "", later[256];
    if (!goals->have_redis_benchmark) {
        goal_not_here(goals, what, "no redis-benchmark: tools/peers redis brings it");
        return;
    }
    if (!goals_pair_start(&benchmark.pair, goals, why, sizeof(why))) {
        goal_not_here(goals, what, why);
    } else {
        goals_pair_turn(&benchmark.pair, 0);
        for (size_t i = 0; i < ARRAY_COUNT(tests); i++) {
            bool exists = goals_command_exists(benchmark.pair.servers[0].port, tests[i].command);
            list_add(exists ? benchmark.names : benchmark.missing, tests[i].name);
        }
        row_measure(&benchmark, 1, 1, 1.3);
        if (!machine_interrupted()) {
            row_measure(&benchmark, 16, 2, 3);
        }
    }
    goals_pair_stop(&benchmark.pair);
    if (benchmark.missing[0] != '\0') {
        snprintf(later, sizeof(later), "redis-benchmark -c 50 -P 1 and -P 16: %s", benchmark.missing);
        goal_later(goals, later, "the commands do not exist yet");
    }
}
