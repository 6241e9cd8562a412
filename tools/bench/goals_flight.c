/* goals_flight.c - many requests in flight on one connection against Redis, and redis-benchmark's own tests. */
#include "tools/bench/goals.h"
#include "tools/bench/load.h"
#include "tools/bench/machine.h"
#include "tools/bench/stats.h"
#include <strings.h>

#define OUTPUT_BYTES 65536

struct flight {
    struct goals *goals;
    struct server sluice, redis;
};

/* Rows of one test and depth. */
struct flight_row {
    const char *test, *command; /* the server must know `command` */
    uint32_t depth;
    double must, stretch;
};

static const struct flight_row rows[] = {
    { "get", "GET", 64, 4, 7 },   { "get", "GET", 16, 3, 4.5 },   { "set", "SET", 64, 3, 5 },
    { "incr", "INCR", 64, 3, 5 }, { "hget", "HGET", 64, 3, 5 },   { "zscore", "ZSCORE", 64, 3, 5 },
    { "sadd", "SADD", 64, 3, 5 }, { "lpush", "LPUSH", 64, 3, 5 }, { "zadd128", "ZADD", 64, 2.5, 4 },
};

/* The rate of the only row of `sluice-bench throughput --csv`: test,rate,... 0: none. */
static double
rate_read(char *csv, const char *test)
{
    char *rest = NULL;
    for (char *line = strtok_r(csv, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char name[32];
        double rate;
        if (sscanf(line, "%31[^,],%lf", name, &rate) == 2 && strcasecmp(name, test) == 0) {
            return rate;
        }
    }
    return 0;
}

/* port 0: against the null responder. */
static double
rate_measure(const struct goals *goals, uint16_t port, const char *test, uint32_t depth, char *why, size_t why_bytes)
{
    static char output[OUTPUT_BYTES];
    char port_text[8], depth_text[8], keys[24], cpu[8], peer_cpu[8], requests[24];
    snprintf(port_text, sizeof(port_text), "%u", port);
    snprintf(depth_text, sizeof(depth_text), "%u", depth);
    snprintf(keys, sizeof(keys), "%llu", (unsigned long long)goals->keys);
    snprintf(cpu, sizeof(cpu), "%d", goals->client_cpu);
    snprintf(peer_cpu, sizeof(peer_cpu), "%d", goals->server_cpu);
    snprintf(requests, sizeof(requests), "%llu", (unsigned long long)goals->keys);
    const char *arguments[24] = { "throughput", "--csv", "-c", "1",     "-P", depth_text,     "-r",
                                  keys,         "-t",    test, "--cpu", cpu,  "--server-cpu", peer_cpu };
    uint32_t count = 14;
    if (goals->quick) {
        arguments[count++] = "-n";
        arguments[count++] = requests;
    } else {
        arguments[count++] = "--seconds";
        arguments[count++] = "1";
    }
    if (port == 0) {
        arguments[count++] = "--ceiling";
    } else {
        arguments[count++] = "-p";
        arguments[count++] = port_text;
    }
    return goals_self(goals, arguments, 120, output, sizeof(output), why, why_bytes) ? rate_read(output, test) : 0;
}

/* Create what the tests read, on one server. */
static bool
server_fill(const struct goals *goals, const struct server *server, char *why, size_t why_bytes)
{
    static char output[OUTPUT_BYTES];
    char port[8], keys[24], cpu[8];
    snprintf(port, sizeof(port), "%u", server->port);
    snprintf(keys, sizeof(keys), "%llu", (unsigned long long)goals->keys);
    snprintf(cpu, sizeof(cpu), "%d", goals->client_cpu);
    const char *const arguments[] = { "throughput", "--csv", "-p", port,     "-r",
                                      keys,         "--cpu", cpu,  "--load", "-n",
                                      "10",         "-c",    "1",  "-t",     "get,incr,hget,zscore",
                                      NULL };
    return goals_self(goals, arguments, 300, output, sizeof(output), why, why_bytes);
}

/* A sorted set of 128 members: zadd128 changes the scores of 100 of them. */
static bool
zset_fill(const struct server *server)
{
    struct client_options options;
    struct client_reply reply;
    char why[CLIENT_WHY_BYTES], member[32];
    client_options_init(&options);
    options.port = server->port;
    struct client *client = client_open(&options, why, sizeof(why));
    bool good = client != NULL;
    for (int i = 0; good && i < 128; i++) {
        snprintf(member, sizeof(member), i < 100 ? "member:%02d" : "another:%02d", i);
        const char *words[] = { "ZADD", "z128", "500000", member };
        good = client_call_words(client, words, 4, &reply) == CLIENT_OK && !client_reply_is_error(&reply);
    }
    client_close(client);
    return good;
}

/* Only one of the two runs, the other is stopped. */
static double
rate_alone(const struct flight *flight, bool redis, const struct flight_row *row, char *why, size_t why_bytes)
{
    const struct server *runs = redis ? &flight->redis : &flight->sluice;
    const struct server *rests = redis ? &flight->sluice : &flight->redis;
    server_pause(rests);
    server_resume(runs);
    return rate_measure(flight->goals, runs->port, row->test, row->depth, why, why_bytes);
}

static void
row_measure(struct flight *flight, const struct flight_row *row)
{
    struct goals *goals = flight->goals;
    double ratios[GOALS_RUNS_MAX], ours[GOALS_RUNS_MAX], theirs[GOALS_RUNS_MAX], ceiling;
    char what[128], detail[192], why[SERVER_WHY_BYTES] = "";
    snprintf(what, sizeof(what), "%u in flight, one lcore, %llu keys: %s against Redis", row->depth,
             (unsigned long long)goals->keys, row->test);
    server_resume(&flight->sluice);
    if (!goals_command_exists(flight->sluice.port, row->command)) {
        goal_later(goals, what, "the command does not exist yet");
        return;
    }
    for (uint32_t i = 0; i < goals->runs; i++) {
        ours[i] = rate_alone(flight, false, row, why, sizeof(why));
        theirs[i] = ours[i] > 0 ? rate_alone(flight, true, row, why, sizeof(why)) : 0;
        if (ours[i] == 0 || theirs[i] == 0 || machine_interrupted()) {
            goal_not_here(goals, what, why[0] != '\0' ? why : "interrupted");
            return;
        }
        ratios[i] = ours[i] / theirs[i];
    }
    server_pause(&flight->sluice);
    server_pause(&flight->redis);
    ceiling = rate_measure(goals, 0, row->test, row->depth, why, sizeof(why));
    double rate = median_of(ours, goals->runs);
    snprintf(detail, sizeof(detail), "%.0f k/s over %.0f k/s; the generator's ceiling is %.0f k/s%s", rate / 1000,
             median_of(theirs, goals->runs) / 1000, ceiling / 1000,
             ceiling < 1.5 * rate ? ", too low: the value is a lower bound" : "");
    goal_measured(goals, what, GOAL_AT_LEAST, row->must, row->stretch, median_of(ratios, goals->runs), "x", detail);
}

/* ---- redis-benchmark ---- */

#define BENCHMARK_TESTS_MAX 24

/* `"PING_INLINE","48123.20",...` in the order of its output. Returns how many. */
static uint32_t
benchmark_read(char *csv, char names[][32], double *rates)
{
    uint32_t count = 0;
    char *rest = NULL;
    for (char *line = strtok_r(csv, "\n", &rest); line != NULL && count < BENCHMARK_TESTS_MAX;
         line = strtok_r(NULL, "\n", &rest)) {
        if (sscanf(line, "\"%31[^\"]\",\"%lf\"", names[count], &rates[count]) == 2) {
            count++;
        }
    }
    return count;
}

static uint32_t
benchmark_run(const struct flight *flight, bool redis, const char *depth, char names[][32], double *rates, char *why,
              size_t why_bytes)
{
    static char output[OUTPUT_BYTES];
    const struct server *runs = redis ? &flight->redis : &flight->sluice;
    char port[8], requests[24];
    snprintf(port, sizeof(port), "%u", runs->port);
    snprintf(requests, sizeof(requests), "%llu", (unsigned long long)flight->goals->benchmark_requests);
    server_pause(redis ? &flight->sluice : &flight->redis);
    server_resume(runs);
    const char *const argv[] = {
        flight->goals->redis_benchmark, "-p",    port, "-c", "50", "-P", depth, "-n", requests, "-t",
        "ping,set,get,incr,hset,zadd",  "--csv", NULL
    };
    if (!program_run(argv, flight->goals->client_cpu, 120, output, sizeof(output), why, why_bytes)) {
        return 0;
    }
    return benchmark_read(output, names, rates);
}

/* The value is the lowest ratio of all tests. */
static void
benchmark_row(struct flight *flight, const char *depth, double must, double stretch)
{
    static char names[BENCHMARK_TESTS_MAX][32];
    double ours[BENCHMARK_TESTS_MAX], theirs[BENCHMARK_TESTS_MAX], ratios[BENCHMARK_TESTS_MAX][GOALS_RUNS_MAX];
    char what[128], detail[128], why[SERVER_WHY_BYTES] = "";
    struct goals *goals = flight->goals;
    uint32_t count = 0;
    snprintf(what, sizeof(what), "redis-benchmark -c 50 -P %s, ping set get incr hset zadd: lowest over Redis", depth);
    if (!goals->have_redis_benchmark) {
        goal_not_here(goals, what, "no redis-benchmark");
        return;
    }
    for (uint32_t i = 0; i < goals->runs; i++) {
        count = benchmark_run(flight, false, depth, names, ours, why, sizeof(why));
        if (count == 0 || benchmark_run(flight, true, depth, names, theirs, why, sizeof(why)) != count ||
            machine_interrupted()) {
            goal_not_here(goals, what, why[0] != '\0' ? why : "redis-benchmark printed no table");
            return;
        }
        for (uint32_t test = 0; test < count; test++) {
            ratios[test][i] = ours[test] / theirs[test];
        }
    }
    uint32_t lowest = 0;
    double lowest_ratio = 0, sum = 0;
    for (uint32_t test = 0; test < count; test++) {
        double ratio = median_of(ratios[test], goals->runs);
        sum += ratio;
        if (test == 0 || ratio < lowest_ratio) {
            lowest = test;
            lowest_ratio = ratio;
        }
    }
    snprintf(detail, sizeof(detail), "%.31s; mean of the %u tests %.2fx; its other default tests come later",
             names[lowest], count, sum / count);
    goal_measured(goals, what, GOAL_AT_LEAST, must, stretch, lowest_ratio, "x", detail);
}

static bool
servers_start(struct flight *flight, char *why, size_t why_bytes)
{
    struct goals *goals = flight->goals;
    struct server_plan plan = goals_plan(goals, NULL);
    if (!goals->have_redis) {
        snprintf(why, why_bytes, "%s", goals->redis_why);
        return false;
    }
    if (!server_start_sluice(&flight->sluice, &plan, why, why_bytes) ||
        !server_fill(goals, &flight->sluice, why, why_bytes) || !zset_fill(&flight->sluice)) {
        return false;
    }
    server_pause(&flight->sluice);
    plan.program = goals->redis;
    bool good = server_start_redis(&flight->redis, &plan, why, why_bytes) &&
                server_fill(goals, &flight->redis, why, why_bytes) && zset_fill(&flight->redis);
    server_pause(&flight->redis);
    return good;
}

void
goals_flight(struct goals *goals)
{
    struct flight flight = { .goals = goals };
    char why[SERVER_WHY_BYTES] = "the objects could not be created";
    if (!servers_start(&flight, why, sizeof(why))) {
        goal_not_here(goals, "16 and 64 in flight, redis-benchmark: against Redis", why);
    } else {
        for (size_t i = 0; i < ARRAY_COUNT(rows) && !machine_interrupted(); i++) {
            row_measure(&flight, &rows[i]);
        }
        goal_later(goals, "64 in flight: HSET on a hash of 1 M fields", "large objects");
        goal_later(goals, "64 in flight: ZADD with random rescoring on 1 M members", "large objects");
        if (!machine_interrupted()) {
            benchmark_row(&flight, "1", 1, 1.3);
            benchmark_row(&flight, "16", 2, 3);
        }
    }
    server_stop(&flight.redis);
    server_stop(&flight.sluice);
}
