/* Members fill memory with keys of changing sizes and thin them out again, so that sparse pages are emptied under them;
 * in the second half they also go far above the limit, under a policy that evicts. What must hold:
 *   a key is found with the value that its owner last gave it, whatever was moved; once keys are evicted it may be
 *   absent, but an older value never comes back;
 *   a record held within a turn does not change, and an INCR is never lost to a move;
 *   resident memory stays below the limit, no write is refused for good, and at the end all books agree.
 *
 * usage: race_evict [seconds [threads [seed]]] */
#include "audit.h"
#include "store_fixture.h"
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 8
#define KEYS        30000 /* of each thread */
#define COUNTERS    64
#define VALUE_MAX   3000
#define LIMIT_BYTES (96 * MIB)
#define TURN_OPS    32
#define HELD        16     /* records borrowed in a turn and looked at again at its end */
#define SEEN_LEAST  100    /* records moved, keys evicted: then there was something to see, */
#define TURNS_MOST  400000 /* of all members together, and */
#define MANAGE_MOST 20000  /* of the management core: until then there must be */

struct owned {
    uint64_t version; /* 0: absent */
    uint32_t bytes;
};

struct worker {
    struct store *store;
    pthread_t thread;
    const struct record *held[HELD];
    uint64_t held_sums[HELD];
    uint32_t held_count;
    uint32_t index;
    _Atomic uint64_t turns;
    uint64_t random, later, increments[COUNTERS];
    struct owned owned[KEYS];
};

static _Atomic bool stop, evicting;

static void
fail(const char *what, const char *key)
{
    fprintf(stderr, "race_evict: %s: %s\n", what, key);
    abort();
}

static struct slice
value_make(uint8_t *out, uint64_t version, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        out[i] = (uint8_t)(version >> (i % 8 * 8));
    }
    return slice_of(out, bytes);
}

static uint64_t
sum_of(const struct record *record)
{
    struct slice value = record_value(record);
    uint64_t sum = record->stamp;
    for (size_t i = 0; i < value.bytes; i++) {
        sum = (sum ^ value.data[i]) * 1099511628211ull;
    }
    return sum;
}

static void
held_add(struct worker *worker, const struct record *record)
{
    if (worker->held_count < HELD) {
        worker->held[worker->held_count] = record;
        worker->held_sums[worker->held_count++] = sum_of(record);
    }
}

static void
turn(struct worker *worker, struct store_member *member)
{
    for (uint32_t i = 0; i < worker->held_count; i++) {
        if (sum_of(worker->held[i]) != worker->held_sums[i]) {
            fail("a record changed within a turn", "held");
        }
    }
    worker->held_count = 0;
    counter_add(&worker->turns, 1);
    store_quiesce(member);
    store_set_time(member, member->now_ms + 1);
    store_housekeep(member);
}

static bool
done(struct worker *worker, struct store_member *member, enum store_status status, const char *key)
{
    if (status == STORE_OOM) {
        fail("refused for good", key);
    }
    if (status == STORE_TRY_LATER) {
        worker->later++;
        turn(worker, member);
    }
    return status == STORE_OK;
}

static void
owned_check(struct worker *worker, struct store_member *member, uint32_t n, const char *text, bool may_be_gone)
{
    uint8_t value[VALUE_MAX];
    struct owned *owned = &worker->owned[n];
    const struct record *record = fixture_get(member, slice_text(text));
    if (record == NULL) {
        if (owned->version != 0 && !may_be_gone) {
            fail("an acknowledged SET is gone", text);
        }
        owned->version = 0;
        return;
    }
    if (owned->version == 0) {
        fail("a key is back", text);
    }
    if (!slice_equal(record_value(record), value_make(value, owned->version, owned->bytes))) {
        fail("a value is not the last one", text);
    }
    held_add(worker, record);
}

static void
owned_put(struct worker *worker, struct store_member *member, uint32_t n, uint32_t bytes)
{
    char text[32];
    uint8_t value[VALUE_MAX];
    uint64_t version = fixture_random(&worker->random) | 1;
    snprintf(text, sizeof(text), "owned:%u:%u", worker->index, n);
    owned_check(worker, member, n, text, load_relaxed(&evicting));
    if (done(worker, member, fixture_put(member, slice_text(text), value_make(value, version, bytes)), text)) {
        worker->owned[n] = (struct owned){ version, bytes };
    }
}

static void
owned_remove(struct worker *worker, struct store_member *member, uint32_t n)
{
    char text[32];
    bool was_there;
    snprintf(text, sizeof(text), "owned:%u:%u", worker->index, n);
    owned_check(worker, member, n, text, load_relaxed(&evicting));
    if (done(worker, member, fixture_del(member, slice_text(text), &was_there), text)) {
        worker->owned[n].version = 0;
    }
}

/* Everybody's: a move between look and CAS must not lose one. */
static void
count_up(struct worker *worker, struct store_member *member)
{
    char text[32];
    uint64_t value;
    uint32_t n = (uint32_t)(fixture_random(&worker->random) % COUNTERS);
    snprintf(text, sizeof(text), "counter:%u", n);
    if (!load_relaxed(&evicting) && done(worker, member, fixture_incr(member, slice_text(text), &value), text)) {
        worker->increments[n]++;
    }
}

/* Up to nearly all keys, of one size, then most of them go. */
static void
wave(struct worker *worker, struct store_member *member)
{
    static const uint32_t sizes[] = { 40, 200, 700, 2900 };
    uint64_t dice = fixture_random(&worker->random);
    uint32_t bytes = sizes[dice % ARRAY_COUNT(sizes)], keep = 3 + (uint32_t)(dice >> 20) % 20;
    uint32_t keys = MIN((uint32_t)KEYS, 12000000 / (bytes + 200));
    if (load_relaxed(&evicting)) { /* far above the limit, soon */
        bytes = VALUE_MAX - 100;
        keys = KEYS;
    }
    for (uint32_t n = 0; n < keys && !load_relaxed(&stop); n++) {
        owned_put(worker, member, n, bytes);
        if (n % TURN_OPS == 0) {
            count_up(worker, member);
            turn(worker, member);
        }
    }
    for (uint32_t n = 0; n < KEYS && !load_relaxed(&stop); n++) {
        if (n % keep != 0) {
            owned_remove(worker, member, n);
        }
        if (n % TURN_OPS == 0) {
            count_up(worker, member);
            turn(worker, member);
        }
    }
    for (uint32_t i = 0; i < 20000 && !load_relaxed(&stop); i++) { /* time for moving, under reads and overwrites */
        uint32_t n = (uint32_t)(fixture_random(&worker->random) % KEYS);
        if (worker->owned[n].version != 0 && i % 8 == 0) {
            owned_put(worker, member, n, worker->owned[n].bytes);
        }
        if (i % TURN_OPS == 0) {
            count_up(worker, member);
            turn(worker, member);
        }
    }
}

static void *
worker_run(void *context)
{
    struct worker *worker = context;
    struct store_member *member = fixture_join(worker->store, worker->index);
    while (!load_relaxed(&stop)) {
        wave(worker, member);
    }
    for (uint32_t n = 0; n < KEYS; n++) {
        char text[32];
        snprintf(text, sizeof(text), "owned:%u:%u", worker->index, n);
        owned_check(worker, member, n, text, true);
    }
    store_leave(member);
    return NULL;
}

static void
check_counters(struct store *store, const struct worker *workers, uint32_t threads, struct store_member *member)
{
    for (uint32_t n = 0; n < COUNTERS; n++) {
        char text[32];
        uint64_t value = 0, expected = 0;
        snprintf(text, sizeof(text), "counter:%u", n);
        for (uint32_t i = 0; i < threads; i++) {
            expected += workers[i].increments[n];
        }
        const struct record *record = fixture_get(member, slice_text(text));
        if (record != NULL) {
            memcpy(&value, record_value(record).data, sizeof(value));
        }
        if (record != NULL ? value != expected : expected != 0 && store_keys(store) != 0 && !load_relaxed(&evicting)) {
            fail("an INCR was lost", text);
        }
    }
}

static uint64_t
turns_of(const struct worker *workers, uint32_t threads)
{
    uint64_t turns = 0;
    for (uint32_t i = 0; i < threads; i++) {
        turns += load_relaxed(&workers[i].turns);
    }
    return turns;
}

/* The management core's milliseconds: so many seconds, and on until there was something to see. How long that takes is
 * the machine's affair; in how many turns it must come is not. */
static void
manage_for(struct store *store, const struct worker *workers, uint32_t threads, double seconds)
{
    struct timespec start, now;
    struct store_stats stats;
    uint64_t turns_before = turns_of(workers, threads);
    double passed;
    bool seen;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (uint32_t turn = 0;; turn++) {
        store_manage(store);
        store_stats(store, &stats);
        seen = (load_relaxed(&evicting) ? stats.evicted_keys : stats.moved_records) > SEEN_LEAST;
        if (stats.memory.populated_bytes + stats.memory.meta_bytes + stats.fixed_bytes > LIMIT_BYTES) {
            fail("resident memory is above the limit", "watch");
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        passed = (double)(now.tv_sec - start.tv_sec) + 1e-9 * (double)(now.tv_nsec - start.tv_nsec);
        if (passed >= seconds && seen) {
            return;
        }
        if (turn >= MANAGE_MOST && turns_of(workers, threads) - turns_before >= TURNS_MOST) {
            fail(load_relaxed(&evicting) ? "nothing is evicted" : "nothing is moved", "watch");
        }
        usleep(1000);
    }
}

int
main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 4;
    uint32_t threads = argc > 2 ? (uint32_t)atoi(argv[2]) : 3;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : (uint64_t)time(NULL);
    CHECK(threads >= 1 && threads <= THREADS_MAX);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("seed %" PRIu64 "\n", seed);

    static struct worker workers[THREADS_MAX];
    struct store *store = fixture_open(threads, LIMIT_BYTES, 20000);
    for (uint32_t i = 0; i < threads; i++) {
        workers[i].store = store;
        workers[i].index = i;
        workers[i].random = seed * 1000003 + i + 1;
        CHECK(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) == 0);
    }
    manage_for(store, workers, threads, seconds / 2);
    struct store_stats moved, end;
    store_stats(store, &moved);
    store_relaxed(&evicting, true);
    store_set_policy(store, seed % 2 == 0 ? STORE_ALLKEYS_LRU : STORE_ALLKEYS_LFU);
    store_set_limit(store, LIMIT_BYTES / 2);
    manage_for(store, workers, threads, seconds / 2);
    store_relaxed(&stop, true);
    uint64_t later = 0;
    for (uint32_t i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        later += workers[i].later;
    }
    store_stats(store, &end);
    printf("ops %" PRIu64 " later %" PRIu64 " moved %" PRIu64 " + %" PRIu64 " pages emptied %" PRIu64
           " evicted %" PRIu64 "\n",
           turns_of(workers, threads) * TURN_OPS, later, moved.moved_records, end.moved_records - moved.moved_records,
           end.memory.emptied_pages, end.evicted_keys);
    if (moved.evicted_keys != 0) {
        fail("keys were evicted before there was a policy", "end");
    }
    struct store_member *member = fixture_join(store, 0);
    check_counters(store, workers, threads, member);
    if (!audit_passes(member, 0)) {
        fail("the books do not agree", "end");
    }
    store_leave(member);
    store_close(store);
    return 0;
}
