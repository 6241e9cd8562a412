/* A member stands still for some seconds, as one stopped by SIGSTOP would, while others write as fast as they can. What
 * must hold: resident memory stays below the limit, writers wait and are not refused for good, reads go on, the member
 * that stands still is named, and writes go on once it reports.
 *
 * usage: stalled [seconds] */
#include "audit.h"
#include "store_fixture.h"
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#define LIMIT_BYTES (64 * MIB)
#define WRITERS     2
#define KEYS        4000
#define VALUE_BYTES 4000

static struct store *store;
static _Atomic bool stop, stand_still, stands_still;
static _Atomic uint64_t written[WRITERS], waited[WRITERS], reads[WRITERS], refused;

static void
fail(const char *what)
{
    fprintf(stderr, "stalled: %s\n", what);
    abort();
}

static void *
writer_run(void *context)
{
    uint32_t index = (uint32_t)(uintptr_t)context;
    struct store_member *member = fixture_join(store, index);
    static const uint8_t value[VALUE_BYTES];
    uint64_t random = index + 1;
    char text[32];
    for (uint32_t i = 0; !load_relaxed(&stop); i++) {
        struct slice key =
            slice_of(text, (size_t)snprintf(text, sizeof(text), "k:%u", (unsigned)(fixture_random(&random) % KEYS)));
        enum store_status status = fixture_put(member, key, slice_of(value, sizeof(value)));
        add_relaxed(status == STORE_OK ? &written[index] : &waited[index], 1);
        if (status == STORE_OOM) {
            add_relaxed(&refused, 1);
        }
        add_relaxed(&reads[index], fixture_get(member, key) != NULL);
        if (i % 16 == 0 || status != STORE_OK) {
            fixture_turn(member);
        }
        if (status != STORE_OK) {
            usleep(50);
        }
    }
    store_leave(member);
    return NULL;
}

static void *
sleeper_run(void *context)
{
    struct store_member *member = store_join(store, WRITERS, "the sleeper");
    CHECK(member != NULL);
    while (!load_relaxed(&stop)) {
        fixture_turn(member);
        while (load_relaxed(&stand_still) && !load_relaxed(&stop)) {
            store_relaxed(&stands_still, true);
            usleep(1000);
        }
        store_relaxed(&stands_still, false);
        usleep(20);
    }
    store_leave(member);
    return NULL;
}

/* The management core, for so long; the largest resident memory goes to *most. */
static struct store_stats
manage_for(double seconds, uint64_t *most)
{
    struct timespec start, now;
    struct store_stats stats;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        store_manage(store);
        store_stats(store, &stats);
        *most = MAX(*most, stats.total_bytes);
        usleep(1000);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)(now.tv_sec - start.tv_sec) + 1e-9 * (double)(now.tv_nsec - start.tv_nsec) < seconds);
    return stats;
}

static uint64_t
sum(_Atomic uint64_t counters[WRITERS])
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < WRITERS; i++) {
        all += load_relaxed(&counters[i]);
    }
    return all;
}

int
main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 3;
    pthread_t threads[WRITERS + 1];
    uint64_t most = 0;
    store = fixture_open(WRITERS + 1, LIMIT_BYTES, KEYS);
    for (uintptr_t i = 0; i < WRITERS; i++) {
        CHECK(pthread_create(&threads[i], NULL, writer_run, (void *)i) == 0);
    }
    CHECK(pthread_create(&threads[WRITERS], NULL, sleeper_run, NULL) == 0);
    manage_for(0.5, &most);
    uint64_t before = sum(written);

    store_relaxed(&stand_still, true);
    manage_for(seconds / 2, &most);
    uint64_t read_before = sum(reads), written_then = sum(written);
    struct store_stats stalled = manage_for(seconds / 2, &most);
    uint64_t read_meanwhile = sum(reads) - read_before, written_meanwhile = sum(written) - written_then;

    store_relaxed(&stand_still, false);
    manage_for(0.5, &most);
    uint64_t written_before = sum(written);
    struct store_stats after = manage_for(0.5, &most);
    uint64_t written_after = sum(written) - written_before;
    store_relaxed(&stop, true);
    for (uint32_t i = 0; i < WRITERS + 1; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("written %" PRIu64 " before, %" PRIu64 " in the second half of %.1f s of standing still, %" PRIu64
           " in half a second after; limbo %" PRIu64 " KiB, most resident %" PRIu64 " of %" PRIu64 " KiB\n",
           before, written_meanwhile, seconds, written_after, (uint64_t)(stalled.limbo_bytes / KIB),
           (uint64_t)(most / KIB), (uint64_t)(LIMIT_BYTES / KIB));
    if (most > LIMIT_BYTES) {
        fail("resident memory was above the limit");
    }
    if (stalled.stalled_member != WRITERS || strcmp(store_member_name(store, WRITERS), "the sleeper") != 0 ||
        stalled.stalled_ms < 1000 || after.stalled_member != -1) {
        fail("the member that stood still was not named, or still is");
    }
    if (read_meanwhile == 0 || sum(waited) == 0 || written_meanwhile != 0 || written_after == 0) {
        fail("reads stopped, writers did not wait, or do not go on");
    }
    if (load_relaxed(&refused) != 0) {
        fail("a writer was refused for good");
    }
    struct store_member *member = fixture_join(store, 0);
    if (!audit_passes(member, 0)) {
        fail("the books do not agree");
    }
    store_leave(member);
    store_close(store);
    return 0;
}
