/* Walks over all keys beside members that write: keys come and go in waves, so that segments get their first table,
 * grow, clear their TOMBs and shrink under the cursor, and some keys stay. Each walk must meet every key that stays,
 * once: its place in the order never changes, and it keeps its slot until its chain has moved. Nothing dead may be met.
 *
 * usage: race_scan [seconds [writers [seed]]] */
#include "store/scan.h"
#include "store_fixture.h"
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#define WRITERS_MAX 6
#define STAY        2000
#define CHURN       30000 /* of each writer */
#define SCAN_ROOM   256

struct worker {
    pthread_t thread;
    uint32_t index;
    uint64_t random, ops;
};

struct number {
    char kind; /* 's' stays, 'c' comes and goes */
    uint8_t writer;
    uint32_t n;
} __attribute__((packed));

static struct store *store;
static _Atomic bool stop;
static _Atomic int64_t clock_ms = 1000000;
static uint64_t walks, met, wrong;

static struct slice
number_key(const struct number *number)
{
    return slice_of(number, sizeof(*number));
}

static void
put(struct store_member *member, const struct number *number, int64_t expires_at_ms)
{
    while (fixture_set_until(member, number_key(number), number_key(number), expires_at_ms) != STORE_OK) {
        fixture_turn(member);
    }
}

static void
write_once(struct worker *worker, struct store_member *member)
{
    uint64_t dice = fixture_random(&worker->random);
    struct number stay = { 's', 0, (uint32_t)(dice % STAY) };
    struct number churn = { 'c', (uint8_t)worker->index, (uint32_t)(dice >> 20) % CHURN };
    bool grows = worker->ops / (2 * CHURN) % 2 == 0;
    if (dice >> 60 == 0) {
        put(member, &stay, RECORD_NO_EXPIRY);
    } else if (grows) {
        put(member, &churn, dice >> 61 & 1 ? member->now_ms + 5 : RECORD_NO_EXPIRY);
    } else {
        bool was_there;
        fixture_del(member, number_key(&churn), &was_there);
    }
    worker->ops++;
}

static void *
writer_run(void *context)
{
    struct worker *worker = context;
    struct store_member *member = fixture_join(store, worker->index);
    while (!load_relaxed(&stop)) {
        store_set_time(member, load_relaxed(&clock_ms));
        for (uint32_t i = 0; i < 16; i++) {
            write_once(worker, member);
        }
        fixture_turn(member);
    }
    store_leave(member);
    return NULL;
}

static void
fail(const char *what, uint32_t n)
{
    if (wrong++ < 10) {
        fprintf(stderr, "race_scan: walk %" PRIu64 ": key %u %s\n", walks, n, what);
    }
}

static void
meet(const struct store_member *member, const struct record *record, uint32_t seen[STAY])
{
    struct number number;
    CHECK(slice_equal(record_key(record), record_value(record))); /* whole, and not reused */
    memcpy(&number, record_key(record).data, sizeof(number));
    if (number.kind == 's') {
        seen[number.n]++;
    }
    if (record_expired(record, member->now_ms)) {
        fail("had expired", number.n);
    }
    met++;
}

static void
walk(struct store_member *member)
{
    static uint32_t seen[STAY];
    const struct record *records[SCAN_ROOM];
    uint64_t cursor = 0;
    memset(seen, 0, sizeof(seen));
    do {
        store_set_time(member, load_relaxed(&clock_ms));
        struct scan_step step = scan_next(member, cursor, records, SCAN_ROOM);
        for (uint32_t i = 0; i < step.count; i++) {
            meet(member, records[i], seen);
        }
        CHECK(step.next == 0 || step.next > cursor);
        cursor = step.next;
        store_quiesce(member);
    } while (cursor != 0);
    for (uint32_t n = 0; n < STAY; n++) {
        if (seen[n] != 1) {
            fail(seen[n] == 0 ? "was missed" : "was met twice", n);
        }
    }
    walks++;
}

static double
now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *
manage_run(void *context)
{
    double until = now_s() + *(double *)context;
    while (now_s() < until) {
        store_manage(store);
        add_relaxed(&clock_ms, 1);
        usleep(1000);
    }
    store_relaxed(&stop, true);
    return NULL;
}

int
main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 3;
    uint32_t writers = argc > 2 ? (uint32_t)atoi(argv[2]) : 2;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : (uint64_t)time(NULL);
    static struct worker workers[WRITERS_MAX];
    pthread_t manager;
    CHECK(writers >= 1 && writers <= WRITERS_MAX);
    printf("seed %" PRIu64 "\n", seed);
    store = fixture_open(writers + 1, 128 * MIB, 0);
    struct store_member *member = fixture_join(store, writers);
    for (uint32_t n = 0; n < STAY; n++) {
        put(member, &(struct number){ 's', 0, n }, RECORD_NO_EXPIRY);
    }
    CHECK(pthread_create(&manager, NULL, manage_run, &seconds) == 0);
    for (uint32_t i = 0; i < writers; i++) {
        workers[i] = (struct worker){ .index = i, .random = seed * 1000003 + i + 1 };
        CHECK(pthread_create(&workers[i].thread, NULL, writer_run, &workers[i]) == 0);
    }
    while (!load_relaxed(&stop)) {
        walk(member);
    }
    uint64_t ops = 0;
    store_offline(member); /* those who leave need not wait for it */
    for (uint32_t i = 0; i < writers; i++) {
        pthread_join(workers[i].thread, NULL);
        ops += workers[i].ops;
    }
    pthread_join(manager, NULL);
    struct store_stats stats;
    store_stats(store, &stats);
    printf("ops %" PRIu64 ", rebuilds %" PRIu64 ", walks %" PRIu64 " met %" PRIu64 ", wrong %" PRIu64 "\n", ops,
           stats.rebuilds, walks, met, wrong);
    CHECK(walks > 0 && stats.rebuilds > 0);
    store_online(member);
    store_leave(member);
    store_close(store);
    return wrong != 0;
}
