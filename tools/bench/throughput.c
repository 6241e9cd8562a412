/* throughput.c - sluice-bench throughput: closed loop, redis-benchmark's letters. */
#include "codec/sbe.h"
#include "tools/bench/bench.h"
#include "tools/bench/generator.h"
#include "tools/bench/machine.h"
#include "tools/bench/responder.h"
#include "tools/bench/stats.h"
#include <getopt.h>

#define TESTS_MAX 32

static const char usage[] =
    "Usage: sluice-bench throughput [OPTIONS] [COMMAND ARGUMENT...]\n"
    "Every connection keeps -P requests in flight. Replies are counted and their types checked.\n"
    "\n" BENCH_CONNECTION_USAGE "  -c CONNECTIONS                (50)\n"
    "  -P DEPTH                      requests in flight on each connection (1)\n"
    "  -n REQUESTS                   of all connections (100000)\n"
    "  --seconds S                   for so long instead\n"
    "  -d BYTES                      values: random letters (32)\n"
    "  -r KEYS                       keys are uniform among so many (1)\n"
    "  -t TEST[,TEST...]             one after the other: %s\n"
    "  --mix TEST:WEIGHT,...         in turns on the same connections\n"
    "  --load                        first create what the tests read: all -r keys\n"
    "  --refill N                    send when at least N may be sent; -P: whole batches (half of -P)\n"
    "  --threads N                   (1), each with its share of the connections\n"
    "  --spin                        poll, do not sleep (always with -c 1 and on a fabric)\n"
    "  --ceiling                     this generator against a null responder instead of a server\n"
    "  --seed N                      of keys and values (1)\n"
    "  -q, --csv                     one short line, or values only\n"
    "A COMMAND may hold __key__ or __rand_int__ (12 digits below -r), __score__ (6 digits), __small__ (a digit) and\n"
    "__data__ (-d bytes).\n";

struct throughput {
    struct bench_connection connection;
    struct generator_plan plan;
    struct load_op tests[TESTS_MAX];
    uint32_t test_count;
    bool mix, with_load, ceiling, quiet, csv;
};

static bool
complain(const char *what, const char *why)
{
    fprintf(stderr, "sluice-bench: %s: %s\n", what, why);
    return false;
}

/* "get,set" or "get:90,set:10". */
static bool
tests_read(struct throughput *throughput, const char *list, bool weights)
{
    throughput->test_count = 0;
    throughput->mix = weights;
    while (*list != '\0') {
        char name[32];
        size_t bytes = strcspn(list, ",");
        uint64_t weight = 1;
        snprintf(name, sizeof(name), "%.*s", (int)MIN(bytes, sizeof(name) - 1), list);
        char *colon = strchr(name, ':');
        if (colon != NULL) {
            *colon = '\0';
            if (!weights || !bench_number("--mix", colon + 1, 1, SCANNER_SCHEDULE_MAX, &weight)) {
                return weights ? false : complain(name, "weights belong to --mix");
            }
        }
        const struct load_op *op = load_op_find(name, false);
        if (op == NULL) {
            return complain(name, "no such test; --help shows them");
        }
        if (throughput->test_count == (weights ? LOAD_OPS_MAX : TESTS_MAX)) {
            return complain(list, "too many tests");
        }
        throughput->tests[throughput->test_count] = *op;
        throughput->tests[throughput->test_count++].weight = (uint32_t)weight;
        list += bytes + (list[bytes] == ',');
    }
    return throughput->test_count > 0 || complain("-t", "no tests");
}

/* redis-benchmark's __rand_int__ is our __key__. The text lives as long as the program. */
static const char *
word_translate(const char *word)
{
    const char *at = strstr(word, "__rand_int__");
    if (at == NULL) {
        return word;
    }
    char *translated = malloc(strlen(word) + 1);
    CHECK(translated != NULL);
    sprintf(translated, "%.*s__key__%s", (int)(at - word), word, at + strlen("__rand_int__"));
    return word_translate(translated);
}

static bool
command_read(struct throughput *throughput, int count, char **words)
{
    struct load_op *op = &throughput->tests[0];
    if (count > LOAD_WORDS_MAX) {
        return complain(words[0], "too many words");
    }
    *op = (struct load_op){ .word_count = (uint32_t)count, .expected = EXPECT_ANY, .weight = 1 };
    snprintf(op->name, sizeof(op->name), "%s", words[0]);
    for (int i = 0; i < count; i++) {
        op->words[i] = word_translate(words[i]);
    }
    throughput->test_count = 1;
    throughput->mix = false;
    return true;
}

enum {
    OPTION_SECONDS = BENCH_OWN,
    OPTION_MIX,
    OPTION_LOAD,
    OPTION_REFILL,
    OPTION_THREADS,
    OPTION_SPIN,
    OPTION_CEILING,
    OPTION_SEED,
    OPTION_CSV,
};

static const struct option long_options[] = {
    BENCH_CONNECTION_OPTIONS,
    { "seconds", required_argument, NULL, OPTION_SECONDS },
    { "mix", required_argument, NULL, OPTION_MIX },
    { "load", no_argument, NULL, OPTION_LOAD },
    { "refill", required_argument, NULL, OPTION_REFILL },
    { "threads", required_argument, NULL, OPTION_THREADS },
    { "spin", no_argument, NULL, OPTION_SPIN },
    { "ceiling", no_argument, NULL, OPTION_CEILING },
    { "seed", required_argument, NULL, OPTION_SEED },
    { "csv", no_argument, NULL, OPTION_CSV },
    { 0 },
};

/* One option of our own. False: a bad value, or unknown. */
static bool
option_take(struct throughput *throughput, int option, const char *value)
{
    struct generator_plan *plan = &throughput->plan;
    uint64_t number = 0;
    bool good = true;
    switch (option) {
    case 'c':
        good = bench_number("-c", value, 1, 10000, &number);
        plan->connections = (uint32_t)number;
        return good;
    case 'P':
        good = bench_number("-P", value, 1, 65536, &number);
        plan->depth = (uint32_t)number;
        return good;
    case 'n':
        return bench_number("-n", value, 1, UINT64_MAX / 2, &plan->requests);
    case 'd':
        good = bench_number("-d", value, 1, 1024 * 1024, &number);
        plan->value_bytes = (uint32_t)number;
        return good;
    case 'r':
        return bench_number("-r", value, 1, 1000000000000, &plan->keys);
    case 't':
        return tests_read(throughput, value, false);
    case 'q':
        throughput->quiet = true;
        return true;
    case OPTION_MIX:
        return tests_read(throughput, value, true);
    case OPTION_SECONDS:
        good = bench_number("--seconds", value, 1, 1000000, &number);
        plan->seconds = (double)number;
        return good;
    case OPTION_REFILL:
        good = bench_number("--refill", value, 1, 65536, &number);
        plan->refill = (uint32_t)number;
        return good;
    case OPTION_THREADS:
        good = bench_number("--threads", value, 1, ARRAY_COUNT(plan->cpus), &number);
        plan->threads = (uint32_t)number;
        return good;
    case OPTION_SEED:
        return bench_number("--seed", value, 0, UINT64_MAX / 2, &plan->seed);
    case OPTION_LOAD:
        throughput->with_load = true;
        return true;
    case OPTION_SPIN:
        plan->spin = true;
        return true;
    case OPTION_CEILING:
        throughput->ceiling = true;
        return true;
    case OPTION_CSV:
        throughput->csv = true;
        return true;
    default:
        return false; /* getopt complained */
    }
}

static bool
options_finish(struct throughput *throughput)
{
    struct generator_plan *plan = &throughput->plan;
    plan->client = throughput->connection.client;
    if (plan->seconds > 0) {
        plan->requests = 0;
    }
    if (plan->refill == 0) {
        plan->refill = (plan->depth + 1) / 2;
    }
    if (plan->refill > plan->depth) {
        return complain("--refill", "more than -P can never be sent at once");
    }
    if (plan->threads > plan->connections) {
        return complain("--threads", "more than connections");
    }
    for (uint32_t i = 0; i < ARRAY_COUNT(plan->cpus); i++) {
        /* One thread has a CPU of its own; where several are, the kernel knows better. */
        plan->cpus[i] = plan->threads == 1 ? throughput->connection.cpu : -1;
    }
    if (throughput->ceiling && plan->client.wire == CLIENT_RESP3) {
        plan->client.wire = CLIENT_RESP2; /* the null responder knows no HELLO; requests are the same */
    }
    if (throughput->ceiling && throughput->connection.client.fabric.provider != NULL) {
        return complain("--ceiling", "the null responder speaks TCP; not with --provider");
    }
    return true;
}

/* -1: go on; else the exit code. */
static int
options_read(struct throughput *throughput, int argc, char **argv)
{
    int option;
    bench_connection_init(&throughput->connection);
    throughput->plan = (struct generator_plan){ .value_bytes = 32,
                                                .keys = 1,
                                                .connections = 50,
                                                .depth = 1,
                                                .requests = 100000,
                                                .threads = 1,
                                                .seed = 1,
                                                .samples = true };
    (void)tests_read(throughput, "ping,set,get,incr,hset,hget,zadd,zscore", false);
    while ((option = getopt_long(argc, argv, "+" BENCH_CONNECTION_LETTERS "c:P:n:d:r:t:q", long_options, NULL)) != -1) {
        if (option == BENCH_HELP) {
            char names[256];
            load_op_names(names, sizeof(names));
            printf(usage, names);
            return 0;
        }
        int taken = bench_connection_option(&throughput->connection, option, optarg);
        if (taken < 0 || (taken == 0 && !option_take(throughput, option, optarg))) {
            return BENCH_USAGE_ERROR;
        }
    }
    if (optind < argc && !command_read(throughput, argc - optind, argv + optind)) {
        return BENCH_USAGE_ERROR;
    }
    return options_finish(throughput) ? -1 : BENCH_USAGE_ERROR;
}

static void
row_print(const struct throughput *throughput, const char *name, const struct generator_result *result)
{
    struct summary times = summary_of(result->ticks, result->tick_count, machine_ns_per_cycle());
    double rate = result->seconds > 0 ? (double)result->replies / result->seconds : 0;
    if (throughput->csv) {
        printf("%s,%.0f,%llu,%.3f,%llu,%llu,%.2f,%.2f,%.2f\n", name, rate, (unsigned long long)result->replies,
               result->seconds, (unsigned long long)result->misses, (unsigned long long)result->errors, times.p50_us,
               times.p99_us, times.max_us);
    } else if (throughput->quiet) {
        printf("%s: %.0f requests per second, p50=%.3f msec\n", name, rate, times.p50_us / 1000);
    } else {
        printf("%-10s %11.0f requests/s  %9llu in %6.2f s  p50 %8.1f us  p99 %8.1f us  max %8.1f us", name, rate,
               (unsigned long long)result->replies, result->seconds, times.p50_us, times.p99_us, times.max_us);
        if (result->misses > 0) {
            printf("  %llu misses", (unsigned long long)result->misses);
        }
        printf("\n");
    }
    fflush(stdout);
    if (result->errors + result->surprises > 0 || result->broken) {
        fprintf(stderr, "sluice-bench: %s: %llu errors, %llu replies of another type%s: %s\n", name,
                (unsigned long long)result->errors, (unsigned long long)result->surprises,
                result->broken ? ", ended early" : "", result->error);
    }
}

/* Run these operations; print unless `silently`. False: nothing to show, or errors. */
static bool
ops_run(struct throughput *throughput, const char *name, const struct generator_plan *plan, bool silently)
{
    struct generator_result result;
    char why[CLIENT_WHY_BYTES];
    if (!generator_run(plan, &result, why, sizeof(why))) {
        return complain(name, why);
    }
    bool good = !result.broken && result.errors == 0 && result.surprises == 0;
    if (!silently || !good) {
        row_print(throughput, name, &result);
    }
    free(result.ticks);
    return good;
}

/* Create every key that the tests read. */
static bool
load_run(struct throughput *throughput)
{
    const struct load_op *filled[TESTS_MAX];
    uint32_t filled_count = 0;
    for (uint32_t i = 0; i < throughput->test_count && !machine_interrupted(); i++) {
        const struct load_op *fill = load_op_find(throughput->tests[i].name, true);
        bool done = fill == NULL;
        for (uint32_t j = 0; j < filled_count; j++) {
            done |= strcmp(filled[j]->words[1], fill->words[1]) == 0;
        }
        if (done) {
            continue;
        }
        struct generator_plan plan = throughput->plan;
        plan.ops = fill;
        plan.op_count = 1;
        plan.in_order = true;
        plan.requests = plan.keys;
        plan.connections = plan.threads = 1;
        plan.depth = 128;
        plan.refill = 64;
        plan.samples = false;
        if (!ops_run(throughput, fill->name, &plan, true)) {
            return false;
        }
        filled[filled_count++] = fill;
    }
    return true;
}

static bool
test_run(struct throughput *throughput, const char *name, const struct load_op *ops, uint32_t op_count)
{
    struct generator_plan plan = throughput->plan;
    struct responder *responder = NULL;
    char why[CLIENT_WHY_BYTES];
    plan.ops = ops;
    plan.op_count = op_count;
    if (throughput->ceiling) {
        responder = responder_start(ops, op_count, plan.client.wire, plan.value_bytes,
                                    plan.client.wire == CLIENT_SBE ? SBE_STREAM_MAGIC_BYTES : 0,
                                    throughput->connection.server_cpu, why, sizeof(why));
        if (responder == NULL) {
            return complain("--ceiling", why);
        }
        plan.client.host = "127.0.0.1";
        plan.client.path = NULL;
        plan.client.port = responder_port(responder);
        plan.client.password = NULL;
    }
    bool good = ops_run(throughput, name, &plan, false);
    if (responder != NULL) {
        responder_stop(responder);
    }
    return good;
}

int
bench_throughput(int argc, char **argv)
{
    static struct throughput throughput;
    int code = options_read(&throughput, argc, argv);
    if (code >= 0) {
        return code;
    }
    struct machine_watch watch;
    char busy[256];
    bool good = true;
    machine_interrupts_catch();
    if (throughput.csv) {
        printf("test,requests_per_second,requests,seconds,misses,errors,p50_us,p99_us,max_us\n");
    } else if (!throughput.quiet) {
        machine_describe(busy, sizeof(busy));
        printf("%s; %u connections, depth %u, values of %u bytes, %llu keys%s\n", busy, throughput.plan.connections,
               throughput.plan.depth, throughput.plan.value_bytes, (unsigned long long)throughput.plan.keys,
               throughput.ceiling ? "; against a null responder" : "");
    }
    if (throughput.with_load && !throughput.ceiling && !load_run(&throughput)) {
        return 1;
    }
    machine_watch_begin(&watch, NULL, 0);
    if (throughput.mix) {
        good = test_run(&throughput, "mix", throughput.tests, throughput.test_count);
    }
    for (uint32_t i = 0; !throughput.mix && i < throughput.test_count && !machine_interrupted(); i++) {
        good &= test_run(&throughput, throughput.tests[i].name, &throughput.tests[i], 1);
    }
    if (machine_watch_end(&watch, NULL, 0, busy, sizeof(busy))) {
        fprintf(stderr, "sluice-bench: %s\n", busy);
    }
    return good ? 0 : 1;
}
