/* bench_request.c - decode + execute + encode of one request in process, over a port that lives in memory.
 *
 * Prints "operation keys burst ns_per_request". Usage: bench_request [operation] [keys] [burst] [requests] [mode]
 * Mode "watched": another thread reads every histogram and counter a hundred times a second meanwhile. "recording": the
 * figure is what recording its times adds to a request.
 * Under callgrind the instructions of bench_turns() divided by the requests are the regression gate's figure. */
#include "dataplane/dataplane.h"
#include "test/dataplane/port_of_memory.h"
#include <pthread.h>
#include <time.h>

#define ROUNDS          4096 /* prepared bursts, used in turn */
#define RECORDING_PAIRS 401

struct bench_port {
    struct port port;
    struct session session;
    uint8_t *requests; /* ROUNDS bursts, one after the other */
    size_t *offsets;   /* [ROUNDS + 1] */
    uint32_t round;
    bool waiting; /* a burst was handed over and is not settled */
    uint64_t reply_bytes;
};

static struct bench_port bench;

static uint32_t
bench_poll(struct port *port)
{
    if (bench.waiting) {
        return 0;
    }
    uint32_t round = bench.round++ % ROUNDS;
    size_t at = bench.offsets[round];
    bench.waiting = true;
    CHECK(session_receive(&bench.session, bench.requests + at, bench.offsets[round + 1] - at, &bench));
    return 1;
}

static uint32_t
bench_flush(struct port *port)
{
    if (bench.session.flags & SESSION_DIRTY) {
        bench.reply_bytes += stream_out_pending(&bench.session.out);
        stream_out_acknowledge(&bench.session.out, stream_out_end(&bench.session.out));
        session_untouch_output(&bench.session);
        session_output_shrank(&bench.session);
    }
    return 0;
}

static void
bench_settle(struct port *port, struct session *session, void *slot)
{
    bench.waiting = false;
}

static void
bench_session_close(struct port *port, struct session *session)
{
}

static const struct port_ops bench_ops = {
    .poll = bench_poll,
    .flush = bench_flush,
    .settle = bench_settle,
    .session_close = bench_session_close,
    .tick = port_nothing_to_do,
    .wait_fd = port_no_wait_fd,
    .close = port_nothing_to_do,
};

/* An operation, what creates the keys that it finds, and its request but for the 12 digits of the key. */
static const struct bench_operation {
    const char *name, *fill;
    const char *before, *behind;
} operations[] = {
    { "ping", "set", "*1\r\n$4\r\nPING\r\n", NULL },
    { "get", "set", "*2\r\n$3\r\nGET\r\n$16\r\nkey:", "\r\n" },
    { "set", "set", "*3\r\n$3\r\nSET\r\n$16\r\nkey:", "\r\n$32\r\n0123456789abcdef0123456789abcdef\r\n" },
    { "incr", "incr", "*2\r\n$4\r\nINCR\r\n$16\r\nkey:", "\r\n" },
    { "hget", "hset", "*3\r\n$4\r\nHGET\r\n$16\r\nkey:", "\r\n$5\r\nfield\r\n" },
    { "hset", "hset",
      "*4\r\n$4\r\nHSET\r\n$16\r\nkey:", "\r\n$5\r\nfield\r\n$32\r\n0123456789abcdef0123456789abcdef\r\n" },
    { "zscore", "zadd", "*3\r\n$6\r\nZSCORE\r\n$16\r\nkey:", "\r\n$6\r\nmember\r\n" },
    { "zadd", "zadd", "*4\r\n$4\r\nZADD\r\n$16\r\nkey:", "\r\n$4\r\n1234\r\n$6\r\nmember\r\n" },
};

static const struct bench_operation *
operation_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(operations); i++) {
        if (strcmp(operations[i].name, name) == 0) {
            return &operations[i];
        }
    }
    return NULL;
}

static size_t
put_request(uint8_t *out, const struct bench_operation *operation, uint64_t key)
{
    if (operation->behind == NULL) {
        return (size_t)sprintf((char *)out, "%s", operation->before);
    }
    return (size_t)sprintf((char *)out, "%s%012llu%s", operation->before, (unsigned long long)key, operation->behind);
}

/* Prepared bursts of `operation` on uniform keys. */
static void
prepare(const struct bench_operation *operation, uint64_t keys, uint32_t burst)
{
    uint64_t seed = 0x9e3779b97f4a7c15ull;
    size_t bytes = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        bench.offsets[round] = bytes;
        for (uint32_t i = 0; i < burst; i++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            bytes += put_request(bench.requests + bytes, operation, seed % keys);
        }
    }
    bench.offsets[ROUNDS] = bytes;
    bench.round = 0;
}

static void
turn(struct lcore *lcore, uint64_t turns)
{
    for (uint64_t i = 0; i < turns; i++) {
        lcore_turn(lcore);
    }
}

/* What callgrind collects: --toggle-collect=bench_turns. */
static __attribute__((noinline)) void
bench_turns(struct lcore *lcore, uint64_t turns)
{
    turn(lcore, turns);
}

/* Of this thread: other work on a shared machine does not count. */
static double
cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* Every key once, through the same path. */
static void
fill(struct dataplane *dataplane, const struct bench_operation *operation, uint64_t keys)
{
    struct lcore *lcore = dataplane->lcores[0];
    for (uint64_t done = 0; done < keys; done += (uint64_t)ROUNDS * LIMIT_BURST) {
        uint64_t seed = done;
        size_t bytes = 0;
        for (uint32_t round = 0; round < ROUNDS; round++) {
            bench.offsets[round] = bytes;
            for (uint32_t i = 0; i < LIMIT_BURST; i++) {
                bytes += put_request(bench.requests + bytes, operation, seed++ % keys);
            }
        }
        bench.offsets[ROUNDS] = bytes;
        bench.round = 0;
        for (uint32_t i = 0; i < ROUNDS / 64; i++) {
            turn(lcore, 64);
            store_manage(dataplane->store); /* what the management core does meanwhile */
        }
    }
}

/* As the management core reads them, more often than anybody watches. */
static _Atomic bool watching;

static void *
watch(void *argument)
{
    static struct histogram_seen seen[2 * COMMAND_COUNT];
    static struct histogram_snapshot into[2 * COMMAND_COUNT];
    const struct lcore *lcore = argument;
    const struct timespec pause = { .tv_nsec = 10000000 };
    uint64_t sum = 0;

    for (uint64_t reads = 0; load_relaxed(&watching); reads++) { /* told by the thread that joins this one */
        for (uint32_t i = 0; i < COMMAND_COUNT; i++) {
            histogram_since(&into[2 * i], &seen[2 * i], &lcore->histograms->service[i]);
            histogram_since(&into[2 * i + 1], &seen[2 * i + 1], &lcore->histograms->residence[i]);
            sum += load_relaxed(&lcore->counters->commands[i]);
        }
        nanosleep(&pause, NULL);
        CHECK(sum > 0 || reads == 0);
    }
    return NULL;
}

static int
compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Slices with and without recording in turn, who is first too; the median of their differences, ns a request. */
static double
recording_ns(struct lcore *lcore, uint32_t burst, uint64_t requests)
{
    static double differences[RECORDING_PAIRS];
    uint64_t turns = MAX(requests / burst / RECORDING_PAIRS / 2, 1);

    for (uint32_t pair = 0; pair < RECORDING_PAIRS; pair++) {
        double ns[2];
        for (uint32_t half = 0; half < 2; half++) {
            bool records = ((half ^ pair) & 1) != 0;
            store_relaxed(&lcore->dataplane->live.histograms, records);
            double start = cpu_ns();
            turn(lcore, turns);
            ns[records] = cpu_ns() - start;
        }
        differences[pair] = (ns[1] - ns[0]) / (double)(turns * burst);
    }
    qsort(differences, RECORDING_PAIRS, sizeof(differences[0]), compare);
    return differences[RECORDING_PAIRS / 2];
}

int
main(int argc, char **argv)
{
    const struct bench_operation *operation = operation_find(argc > 1 ? argv[1] : "get");
    uint64_t keys = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;
    uint32_t burst = argc > 3 ? (uint32_t)atoi(argv[3]) : 16;
    uint64_t requests = argc > 4 ? strtoull(argv[4], NULL, 10) : 4000000;
    static struct settings settings;
    char keys_text[64], why[SETTINGS_WHY_BYTES];
    snprintf(keys_text, sizeof(keys_text), "store.keys_expected=%llu", (unsigned long long)MAX(keys, 1024ull));
    const char *overrides[] = { "memory.reserve=8GiB", "memory.ahead=128MiB", keys_text };
    CHECK(operation != NULL && burst >= 1 && burst <= LIMIT_BURST && keys > 0);
    if (settings_load(NULL, overrides, ARRAY_COUNT(overrides), &settings, why, sizeof(why)) != 0) {
        fprintf(stderr, "bench_request: %s\n", why);
        return 1;
    }
    settings.cpu_count = 1;
    struct dataplane *dataplane;
    if (dataplane_open(&settings, &dataplane, why, sizeof(why)) != 0 || lcore_begin(dataplane->lcores[0]) != 0) {
        fprintf(stderr, "bench_request: %s\n", why);
        return 1;
    }
    struct lcore *lcore = dataplane->lcores[0];
    bench.port = (struct port){ .ops = &bench_ops, .lcore = lcore, .index = lcore->port_count };
    lcore->ports[lcore->port_count++] = &bench.port;
    bench.requests = malloc((size_t)ROUNDS * LIMIT_BURST * 128);
    bench.offsets = calloc(ROUNDS + 1, sizeof(*bench.offsets));
    CHECK(bench.requests != NULL && bench.offsets != NULL);
    CHECK(session_open(&bench.session, lcore, &bench.port));

    fill(dataplane, operation_find(operation->fill), keys);
    prepare(operation, keys, burst);
    turn(lcore, ROUNDS / 4);
    if (argc > 5 && strcmp(argv[5], "recording") == 0) {
        printf("%s %llu %u %.1f\n", operation->name, (unsigned long long)keys, burst,
               recording_ns(lcore, burst, requests));
        fflush(stdout);
        _Exit(0);
    }
    uint64_t errors = load_relaxed(&lcore->counters->replies_error);
    uint64_t before = load_relaxed(&lcore->counters->requests);
    bool watched = argc > 5 && strcmp(argv[5], "watched") == 0;
    pthread_t watcher;
    store_relaxed(&watching, watched);
    CHECK(!watched || pthread_create(&watcher, NULL, watch, lcore) == 0);
    double start = cpu_ns();
    bench_turns(lcore, requests / burst);
    double ns = cpu_ns() - start;
    store_relaxed(&watching, false);
    CHECK(!watched || pthread_join(watcher, NULL) == 0);
    uint64_t done = load_relaxed(&lcore->counters->requests) - before;
    CHECK(done == requests / burst * burst && load_relaxed(&lcore->counters->replies_error) == errors);
    printf("%s %llu %u %.1f\n", operation->name, (unsigned long long)keys, burst, ns / (double)done);
    fflush(stdout);
    _Exit(0); /* nothing to tidy: a process of its own */
}
