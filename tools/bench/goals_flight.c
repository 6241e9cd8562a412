/* goals_flight.c - many requests in flight on one connection, against Redis and the peers that were named. */
#include "tools/bench/goals.h"
#include "tools/bench/goals_pair.h"
#include "tools/bench/load.h"
#include "tools/bench/machine.h"
#include "tools/bench/stats.h"
#include <strings.h>

#define OUTPUT_BYTES   65536
#define SERVERS_MAX    (2 + GOALS_PEERS_MAX)
#define SLUICE         0
#define REDIS          1
#define ARGUMENTS_MAX  32
#define FILL_TIMEOUT_S 300

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

/* Ours, Redis, peers. */
struct flight_server {
    const char *name;
    struct client_options address;
};

struct flight {
    struct goals *goals;
    struct goals_pair pair;
    struct flight_server servers[SERVERS_MAX];
    uint32_t server_count;
};

/* The command line of `sluice-bench throughput`. */
struct arguments {
    const char *words[ARGUMENTS_MAX];
    uint32_t count;
    char port[8], depth[8], keys[24], cpu[8], peer_cpu[8];
};

static void
arguments_add(struct arguments *arguments, const char *word)
{
    CHECK(arguments->count < ARGUMENTS_MAX - 1);
    arguments->words[arguments->count++] = word;
    arguments->words[arguments->count] = NULL;
}

static void
arguments_init(struct arguments *arguments, const struct goals *goals, const struct flight_server *server)
{
    arguments->count = 0;
    snprintf(arguments->keys, sizeof(arguments->keys), "%llu", (unsigned long long)goals->keys);
    snprintf(arguments->cpu, sizeof(arguments->cpu), "%d", goals->client_cpu);
    snprintf(arguments->peer_cpu, sizeof(arguments->peer_cpu), "%d", goals->server_cpu);
    const char *common[] = {
        "throughput",       "--csv", "-c", "1", "-r", arguments->keys, "--cpu", arguments->cpu, "--server-cpu",
        arguments->peer_cpu
    };
    for (size_t i = 0; i < ARRAY_COUNT(common); i++) {
        arguments_add(arguments, common[i]);
    }
    if (server == NULL) {
        arguments_add(arguments, "--ceiling");
    } else if (server->address.path != NULL) {
        arguments_add(arguments, "-s");
        arguments_add(arguments, server->address.path);
    } else {
        snprintf(arguments->port, sizeof(arguments->port), "%u", server->address.port);
        arguments_add(arguments, "-h");
        arguments_add(arguments, server->address.host);
        arguments_add(arguments, "-p");
        arguments_add(arguments, arguments->port);
    }
}

/* Requests a second of the only row of `sluice-bench throughput --csv`. 0: none. */
static double
rate_read(char *csv)
{
    char *rest = NULL, *name_rest = NULL, *value_rest = NULL;
    char *names = strtok_r(csv, "\n", &rest), *values = strtok_r(NULL, "\n", &rest);
    if (names == NULL || values == NULL) {
        return 0;
    }
    char *name = strtok_r(names, ",", &name_rest), *value = strtok_r(values, ",", &value_rest);
    while (name != NULL && value != NULL && strcmp(name, "requests_per_second") != 0) {
        name = strtok_r(NULL, ",", &name_rest);
        value = strtok_r(NULL, ",", &value_rest);
    }
    return name != NULL && value != NULL ? atof(value) : 0;
}

/* server NULL: the null responder. 0: `why`. */
static double
rate_measure(const struct goals *goals, const struct flight_server *server, const struct flight_row *row, char *why,
             size_t why_bytes)
{
    static char output[OUTPUT_BYTES];
    struct arguments arguments;
    arguments_init(&arguments, goals, server);
    snprintf(arguments.depth, sizeof(arguments.depth), "%u", row->depth);
    const char *more[] = {
        "-P", arguments.depth, "-t", row->test, goals->quick ? "-n" : "--seconds", goals->quick ? arguments.keys : "1"
    };
    for (size_t i = 0; i < ARRAY_COUNT(more); i++) {
        arguments_add(&arguments, more[i]);
    }
    why[0] = '\0';
    bool good = goals_self(goals, arguments.words, 120, output, sizeof(output), why, why_bytes);
    double rate = good ? rate_read(output) : 0;
    if (rate == 0 && why[0] == '\0') {
        snprintf(why, why_bytes, "throughput printed no rate");
    }
    return rate;
}

/* A sorted set of 128 members: zadd128 changes the scores of 100 of them. */
static bool
zset_fill(const struct flight_server *server, char *why, size_t why_bytes)
{
    struct client_reply reply;
    char member[32];
    struct client *client = client_open(&server->address, why, why_bytes);
    bool good = client != NULL;
    for (int i = 0; good && i < 128; i++) {
        snprintf(member, sizeof(member), i < 100 ? "member:%02d" : "another:%02d", i);
        const char *words[] = { "ZADD", "z128", "500000", member };
        good = client_call_words(client, words, 4, &reply) == CLIENT_OK && !client_reply_is_error(&reply);
        if (!good) {
            snprintf(why, why_bytes, "%s: ZADD failed", server->name);
        }
    }
    client_close(client);
    return good;
}

/* Create what the tests read. */
static bool
server_fill(struct flight *flight, uint32_t index, char *why, size_t why_bytes)
{
    static char output[OUTPUT_BYTES];
    const struct flight_server *server = &flight->servers[index];
    struct arguments arguments;
    arguments_init(&arguments, flight->goals, server);
    const char *more[] = { "--load", "-n", "10", "-t", "get,incr,hget,zscore" };
    for (size_t i = 0; i < ARRAY_COUNT(more); i++) {
        arguments_add(&arguments, more[i]);
    }
    goals_pair_turn(&flight->pair, index);
    return goals_self(flight->goals, arguments.words, FILL_TIMEOUT_S, output, sizeof(output), why, why_bytes) &&
           zset_fill(server, why, why_bytes);
}

/* All servers in turns. False: `why`. */
static bool
rates_measure(struct flight *flight, const struct flight_row *row, double rates[SERVERS_MAX][GOALS_RUNS_MAX], char *why,
              size_t why_bytes)
{
    struct goals *goals = flight->goals;
    for (uint32_t i = 0; i < goals->runs; i++) {
        goal_progress(goals, row->test, i, goals->runs);
        for (uint32_t server = 0; server < flight->server_count; server++) {
            goals_pair_turn(&flight->pair, server);
            rates[server][i] = rate_measure(goals, &flight->servers[server], row, why, why_bytes);
            if (machine_interrupted()) {
                snprintf(why, why_bytes, "interrupted");
                return false;
            }
            if (rates[server][i] == 0) {
                return false;
            }
        }
    }
    return true;
}

static double
ratio_of(const double *ours, const double *theirs, uint32_t runs)
{
    double ratios[GOALS_RUNS_MAX];
    for (uint32_t i = 0; i < runs; i++) {
        ratios[i] = ours[i] / theirs[i];
    }
    return median_of(ratios, runs);
}

static void
row_measure(struct flight *flight, const struct flight_row *row)
{
    struct goals *goals = flight->goals;
    double rates[SERVERS_MAX][GOALS_RUNS_MAX], ratios[SERVERS_MAX];
    char what[128], detail[384], why[SERVER_WHY_BYTES] = "";
    snprintf(what, sizeof(what), "%u in flight, one lcore, %llu keys: %s against Redis", row->depth,
             (unsigned long long)goals->keys, row->test);
    goals_pair_turn(&flight->pair, SLUICE);
    if (!goals_command_exists(flight->servers[SLUICE].address.port, row->command)) {
        goal_later(goals, what, "the command does not exist yet");
        return;
    }
    if (!rates_measure(flight, row, rates, why, sizeof(why))) {
        goal_not_here(goals, what, why);
        return;
    }
    goals_pair_turn(&flight->pair, GOALS_PAIR_NONE);
    double ceiling = rate_measure(goals, NULL, row, why, sizeof(why));
    for (uint32_t i = 0; i < flight->server_count; i++) {
        ratios[i] = ratio_of(rates[SLUICE], rates[i], goals->runs); /* before the rates are sorted */
    }
    double rate = median_of(rates[SLUICE], goals->runs);
    int used = snprintf(detail, sizeof(detail), "%.0f k/s over %.0f k/s", rate / 1000,
                        median_of(rates[REDIS], goals->runs) / 1000);
    for (uint32_t i = REDIS + 1; i < flight->server_count; i++) {
        used += snprintf(detail + used, sizeof(detail) - (size_t)used, "; %s %.0f k/s, %.2fx", flight->servers[i].name,
                         median_of(rates[i], goals->runs) / 1000, ratios[i]);
    }
    snprintf(detail + used, sizeof(detail) - (size_t)used, "; the generator's ceiling is %.0f k/s%s", ceiling / 1000,
             ceiling < 1.5 * rate ? ", too low: the value is a lower bound" : "");
    goal_measured(goals, what, GOAL_AT_LEAST, row->must, row->stretch, ratios[REDIS], "x", detail);
}

static bool
servers_prepare(struct flight *flight, char *why, size_t why_bytes)
{
    struct goals *goals = flight->goals;
    if (!goals_pair_start(&flight->pair, goals, why, why_bytes)) {
        return false;
    }
    for (uint32_t i = 0; i <= REDIS; i++) {
        flight->servers[i].name = i == SLUICE ? "Sluice" : "Redis";
        client_options_init(&flight->servers[i].address);
        flight->servers[i].address.port = flight->pair.servers[i].port;
    }
    flight->server_count = REDIS + 1;
    for (uint32_t i = 0; i < goals->peer_count; i++) {
        flight->servers[flight->server_count++] =
            (struct flight_server){ goals->peers[i].name, goals->peers[i].address };
    }
    for (uint32_t i = 0; i < flight->server_count && !machine_interrupted(); i++) {
        goal_progress(goals, "filling", i, flight->server_count);
        if (!server_fill(flight, i, why, why_bytes)) {
            return false;
        }
    }
    return true;
}

void
goals_flight(struct goals *goals)
{
    struct flight flight = { .goals = goals };
    char why[SERVER_WHY_BYTES] = "";
    if (!servers_prepare(&flight, why, sizeof(why))) {
        goal_not_here(goals, "16 and 64 in flight, against Redis", why);
    } else {
        for (size_t i = 0; i < ARRAY_COUNT(rows) && !machine_interrupted(); i++) {
            row_measure(&flight, &rows[i]);
        }
    }
    goals_pair_stop(&flight.pair);
    goal_later(goals, "64 in flight: HSET on a hash of 1 M fields, against Redis", "large objects");
    goal_later(goals, "64 in flight: ZADD with random rescoring on 1 M members, against Redis", "large objects");
}
