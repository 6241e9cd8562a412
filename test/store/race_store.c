/* Several members overwrite, delete, read and INCR the same keys, churn fresh ones, and own some that nobody else
 * writes. What must hold:
 *   a counter's final value is the number of acknowledged INCRs;
 *   a thread finds its own keys exactly as it left them, whatever rebuilds and sweeps do beside them;
 *   a record held within a turn does not change;
 *   at the end every key is in the index once, the counts agree, and memory is back where it was.
 *
 * usage: race_store [seconds [threads [seed]]] */
#include "store_fixture.h"
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX   8
#define COUNTERS      16
#define SHARED        64
#define OWNED         1500
#define HELD          8
#define VALUE_MAX     400
#define LIMIT_BYTES   (96 * MIB)
#define USED_BYTES    (64 * MIB) /* far above what the keys need: only a leak reaches it */
#define CHAIN_BUCKETS 40

struct worker {
    struct store *store;
    pthread_t thread;
    uint32_t index;
    uint64_t random, ops, later, increments[COUNTERS];
    uint64_t owned_version[OWNED]; /* 0: absent */
    uint32_t owned_bytes[OWNED];
    uint64_t fresh_keys;
    struct {
        const struct record *record;
        uint64_t stamp, sum;
    } held[HELD];
    uint32_t held_count;
};

static _Atomic bool stop;

static void
fail(const char *what, const char *key)
{
    fprintf(stderr, "race_store: %s: %s\n", what, key);
    abort();
}

static uint64_t
sum_of(struct slice bytes)
{
    uint64_t sum = 1469598103934665603ull;
    for (size_t i = 0; i < bytes.bytes; i++) {
        sum = (sum ^ bytes.data[i]) * 1099511628211ull;
    }
    return sum;
}

/* A value proves itself: its first 8 bytes are the sum of the key and the rest. */
static struct slice
value_make(uint8_t *out, struct slice key, uint64_t version, uint32_t bytes)
{
    uint64_t state = version * 2 + 1;
    for (uint32_t i = 8; i < bytes; i++) {
        out[i] = (uint8_t)(fixture_random(&state) >> 56);
    }
    uint64_t sum = sum_of(key) ^ sum_of(slice_of(out + 8, bytes - 8));
    memcpy(out, &sum, 8);
    return slice_of(out, bytes);
}

static void
value_check(const struct record *record, const char *key)
{
    struct slice value = record_value(record);
    uint64_t sum = 0;
    if (value.bytes < 8) {
        fail("a value is too short", key);
    }
    memcpy(&sum, value.data, 8);
    if (sum != (sum_of(record_key(record)) ^ sum_of(slice_of(value.data + 8, value.bytes - 8)))) {
        fail("a value is torn", key);
    }
}

static void
held_check(struct worker *worker)
{
    for (uint32_t i = 0; i < worker->held_count; i++) {
        const struct record *record = worker->held[i].record;
        if (record->stamp != worker->held[i].stamp || sum_of(record_value(record)) != worker->held[i].sum) {
            fail("a record changed within a turn", "held");
        }
    }
    worker->held_count = 0;
}

static void
held_add(struct worker *worker, const struct record *record)
{
    if (worker->held_count < HELD) {
        worker->held[worker->held_count].record = record;
        worker->held[worker->held_count].stamp = record->stamp;
        worker->held[worker->held_count++].sum = sum_of(record_value(record));
    }
}

static void
turn(struct worker *worker, struct store_member *member)
{
    held_check(worker);
    store_quiesce(member);
    store_set_time(member, member->now_ms + 1);
    store_housekeep(member);
}

static bool
done(struct worker *worker, struct store_member *member, enum store_status status, const char *key)
{
    if (status == STORE_OOM) {
        fail("out of memory", key);
    }
    if (status == STORE_TRY_LATER) {
        worker->later++;
        turn(worker, member);
    }
    return status == STORE_OK;
}

static void
op_counter(struct worker *worker, struct store_member *member)
{
    char text[32];
    uint32_t n = (uint32_t)(fixture_random(&worker->random) % COUNTERS);
    snprintf(text, sizeof(text), "counter:%u", n);
    uint64_t value;
    if (done(worker, member, fixture_incr(member, slice_text(text), &value), text)) {
        worker->increments[n]++;
    }
}

static void
op_shared(struct worker *worker, struct store_member *member)
{
    char text[32];
    uint8_t value[VALUE_MAX];
    uint64_t dice = fixture_random(&worker->random);
    snprintf(text, sizeof(text), "shared:%u", (unsigned)(dice % SHARED));
    struct slice key = slice_text(text);
    bool was_there;
    switch (dice >> 32 & 7) {
    case 0:
    case 1:
        (void)done(worker, member, fixture_del(member, key, &was_there), text);
        break;
    case 2:
    case 3:
    case 4:
        (void)done(worker, member,
                   fixture_put(member, key, value_make(value, key, dice, 8 + (uint32_t)(dice >> 40) % 300)), text);
        break;
    case 5: /* expires soon: lazily, by the sweep, or by being overwritten */
        (void)done(worker, member,
                   fixture_set_until(member, key, value_make(value, key, dice, 8 + (uint32_t)(dice >> 40) % 300),
                                     member->now_ms + (int64_t)(dice >> 50) % 20),
                   text);
        break;
    default: {
        const struct record *record = fixture_get(member, key);
        if (record != NULL) {
            value_check(record, text);
            held_add(worker, record);
        }
    }
    }
}

static void
op_owned_check(struct worker *worker, struct store_member *member, uint32_t n, const char *text, struct slice key)
{
    uint8_t value[VALUE_MAX];
    const struct record *record = fixture_get(member, key);
    if ((record == NULL) != (worker->owned_version[n] == 0)) {
        fail(record == NULL ? "an acknowledged SET is gone" : "a deleted key is back", text);
    }
    if (record != NULL &&
        !slice_equal(record_value(record), value_make(value, key, worker->owned_version[n], worker->owned_bytes[n]))) {
        fail("an old value is back", text);
    }
}

static void
op_owned(struct worker *worker, struct store_member *member)
{
    char text[32];
    uint8_t value[VALUE_MAX];
    uint64_t dice = fixture_random(&worker->random);
    uint32_t n = (uint32_t)(dice % OWNED), bytes = 8 + (uint32_t)(dice >> 40) % 100;
    snprintf(text, sizeof(text), "owned:%u:%u", worker->index, n);
    struct slice key = slice_text(text);
    op_owned_check(worker, member, n, text, key);
    if ((dice >> 32 & 3) == 0) {
        bool was_there;
        if (done(worker, member, fixture_del(member, key, &was_there), text)) {
            if (was_there != (worker->owned_version[n] != 0)) {
                fail("DEL's answer is wrong", text);
            }
            worker->owned_version[n] = 0;
        }
    } else if ((dice >> 32 & 3) == 1) {
        if (done(worker, member, fixture_put(member, key, value_make(value, key, dice | 1, bytes)), text)) {
            worker->owned_version[n] = dice | 1;
            worker->owned_bytes[n] = bytes;
        }
    }
    op_owned_check(worker, member, n, text, key);
}

/* Keys that nobody uses again: without rebuilds chains would grow for ever. */
static void
op_fresh(struct worker *worker, struct store_member *member)
{
    char text[48];
    uint8_t value[VALUE_MAX];
    snprintf(text, sizeof(text), "fresh:%u:%" PRIu64, worker->index, worker->fresh_keys);
    struct slice key = slice_text(text);
    bool expires = worker->fresh_keys % 3 == 0, was_there;
    if (!done(worker, member,
              fixture_set_until(member, key, value_make(value, key, worker->fresh_keys, 40),
                                expires ? member->now_ms + 5 : RECORD_NO_EXPIRY),
              text)) {
        return;
    }
    worker->fresh_keys++;
    while (!expires && !done(worker, member, fixture_del(member, key, &was_there), text)) {
    }
}

static void
op_view(struct worker *worker, struct store_member *member)
{
    char text[32];
    snprintf(text, sizeof(text), "shared:%u", (unsigned)(fixture_random(&worker->random) % SHARED));
    struct slice key = slice_text(text);
    uint64_t hash = store_hash(worker->store, key);
    struct store_view a = store_view(member, key, hash), b = store_view(member, key, hash);
    if (a.version == b.version && a.record != b.record) {
        fail("two equal views differ", text);
    }
}

/* Offline nobody waits for this member; from online on, everybody does: what it holds then must stay. */
static void
sleep_and_hold(struct worker *worker, struct store_member *member)
{
    store_offline(member);
    if ((fixture_random(&worker->random) & 7) == 0) {
        usleep(200);
    }
    store_online(member);
    for (uint32_t i = 0; i < HELD; i++) {
        op_shared(worker, member);
    }
    usleep(100);
    turn(worker, member);
}

static void *
worker_run(void *context)
{
    struct worker *worker = context;
    struct store_member *member = fixture_join(worker->store, worker->index);
    while (!load_relaxed(&stop)) {
        for (uint32_t i = 0; i < 32; i++) {
            switch (fixture_random(&worker->random) >> 61) {
            case 0:
                op_counter(worker, member);
                break;
            case 1:
            case 2:
                op_shared(worker, member);
                break;
            case 3:
                op_view(worker, member);
                break;
            case 4:
                op_fresh(worker, member);
                break;
            default:
                op_owned(worker, member);
            }
        }
        worker->ops += 32;
        turn(worker, member);
        if ((fixture_random(&worker->random) & 0x3f) == 0) {
            sleep_and_hold(worker, member);
        }
    }
    for (uint32_t n = 0; n < OWNED; n++) {
        char text[32];
        snprintf(text, sizeof(text), "owned:%u:%u", worker->index, n);
        op_owned_check(worker, member, n, text, slice_text(text));
    }
    held_check(worker);
    store_leave(member);
    return NULL;
}

static void
watch(struct store *store, const char *when)
{
    struct store_stats stats;
    store_stats(store, &stats);
    if (stats.memory.used_bytes > USED_BYTES || stats.chain_buckets_max > CHAIN_BUCKETS) {
        fprintf(stderr, "race_store: %s: used %" PRIu64 " bytes, longest chain %" PRIu64 "\n", when,
                stats.memory.used_bytes, stats.chain_buckets_max);
        abort();
    }
}

static void
check_end(struct store *store, struct worker *workers, uint32_t threads)
{
    struct store_member *member = fixture_join(store, 0);
    for (uint32_t n = 0; n < COUNTERS; n++) {
        char text[32];
        uint64_t value = 0, expected = 0;
        snprintf(text, sizeof(text), "counter:%u", n);
        const struct record *record = fixture_get(member, slice_text(text));
        if (record != NULL) {
            memcpy(&value, record_value(record).data, sizeof(value));
        }
        for (uint32_t i = 0; i < threads; i++) {
            expected += workers[i].increments[n];
        }
        if (value != expected) {
            fail("an INCR was lost", text);
        }
    }
    if (!audit_passes(member, 0)) {
        fail("the index or its books are damaged", "audit");
    }
    struct audit audit = audit_store(store);
    struct store_stats stats;
    store_stats(store, &stats);
    printf("records %" PRIu64 " ghosts %" PRIu64 " tombs %" PRIu64 " buckets %" PRIu64 " longest chain %" PRIu64
           " rebuilds %" PRIu64 " retries %" PRIu64 " expired %" PRIu64 " used %" PRIu64 " KiB\n",
           audit.records, audit.ghosts, audit.tombs, audit.buckets, audit.longest_chain, stats.rebuilds,
           stats.update_retries, stats.expired_keys, stats.memory.used_bytes / 1024);
    store_leave(member);
}

int
main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 3;
    uint32_t threads = argc > 2 ? (uint32_t)atoi(argv[2]) : 3;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : (uint64_t)time(NULL);
    CHECK(threads >= 1 && threads <= THREADS_MAX);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("seed %" PRIu64 "\n", seed);

    static struct worker workers[THREADS_MAX];
    struct store *store = fixture_open(threads, LIMIT_BYTES, 1024);
    for (uint32_t i = 0; i < threads; i++) {
        workers[i].store = store;
        workers[i].index = i;
        workers[i].random = seed * 1000003 + i + 1;
        CHECK(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) == 0);
    }
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        store_manage(store);
        watch(store, "running");
        usleep(1000);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)(now.tv_sec - start.tv_sec) + 1e-9 * (double)(now.tv_nsec - start.tv_nsec) < seconds);
    store_relaxed(&stop, true);
    uint64_t ops = 0, later = 0;
    for (uint32_t i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        ops += workers[i].ops;
        later += workers[i].later;
    }
    printf("ops %" PRIu64 " try later %" PRIu64 "\n", ops, later);
    check_end(store, workers, threads);
    store_close(store);
    return 0;
}
