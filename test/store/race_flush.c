/* FLUSHALL against INCR from several members. An INCR that finds no value begins a new life of its key; every life has
 * a number of its own. What must hold, by the times at which operations begin and end: no life that an operation
 * acknowledged before a flush began is seen by one that begins after it ended; a life ends only by a flush: between its
 * last INCR and the first of the key's next life lies one.
 *
 * usage: race_flush [seconds [threads [seed]]] */
#include "config/cycles.h"
#include "store_fixture.h"
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 8
#define KEYS        4
#define LIVES       (1u << 20)
#define FLUSHES     (1u << 16)

struct life {
    _Atomic uint64_t first_end;  /* the earliest acknowledgement */
    _Atomic uint64_t last_begin; /* the latest beginning of an INCR that found this life */
    uint64_t created_begin, created_end, created_stamp;
    uint32_t key;
    _Atomic uint64_t count; /* the highest value acknowledged */
    _Atomic uint64_t acknowledged;
};

struct flush {
    uint64_t begin, end;
    uint32_t ended_life_of; /* key + 1 of the last check that used it */
};

static struct life lives[LIVES];
static struct flush flushes[FLUSHES];
static _Atomic uint32_t life_count, flush_count;
static _Atomic bool stop;
static struct store *store;

struct worker {
    pthread_t thread;
    uint32_t index;
    uint64_t random, ops;
};

/* value: life, count */
struct counted {
    uint64_t life, count;
};

struct incr {
    struct slice key;
    uint32_t next_life;
    struct counted result;
    bool fresh_life;
};

static enum store_change
incr_change(void *context, struct store_member *member, const struct record *old, struct record **fresh)
{
    struct incr *incr = context;
    incr->fresh_life = old == NULL;
    if (old != NULL) {
        memcpy(&incr->result, record_value(old).data, sizeof(incr->result));
        incr->result.count++;
    } else {
        incr->result = (struct counted){ incr->next_life, 1 };
    }
    if (*fresh == NULL) {
        *fresh = store_record(member, RECORD_STRING, incr->key, sizeof(incr->result), RECORD_NO_EXPIRY);
        if (*fresh == NULL) {
            return STORE_NO_MEMORY;
        }
    }
    memcpy(record_value_room(*fresh), &incr->result, sizeof(incr->result));
    return STORE_PUBLISH;
}

static void
keep_least(_Atomic uint64_t *at, uint64_t value)
{
    uint64_t now = load_relaxed(at);
    while ((now == 0 || value < now) && !cas_relaxed(at, &now, value)) {
    }
}

static void
keep_most(_Atomic uint64_t *at, uint64_t value)
{
    uint64_t now = load_relaxed(at);
    while (value > now && !cas_relaxed(at, &now, value)) {
    }
}

static uint64_t
now_ticks(void)
{
    uint64_t now = cycles_now_ordered();
    fence_seq_cst();
    return now;
}

/* Returns the next unused life. */
static uint32_t
do_incr(struct store_member *member, uint32_t key, uint32_t next_life)
{
    char text[16];
    snprintf(text, sizeof(text), "n:%u", key);
    struct incr incr = { .key = slice_text(text), .next_life = next_life };
    uint64_t begin = now_ticks();
    if (store_update(member, incr.key, store_hash(store, incr.key), incr_change, &incr) != STORE_OK) {
        return next_life;
    }
    uint64_t end = now_ticks();
    struct life *life = &lives[incr.result.life];
    if (incr.fresh_life) {
        life->created_begin = begin;
        life->created_end = end;
        life->key = key;
        next_life = add_relaxed(&life_count, 1);
    } else {
        keep_most(&life->last_begin, begin);
    }
    keep_least(&life->first_end, end);
    keep_most(&life->count, incr.result.count);
    add_relaxed(&life->acknowledged, 1);
    return next_life;
}

static void
do_flush(struct store_member *member)
{
    struct flush flush = { .begin = now_ticks() };
    if (store_flush(member) == STORE_OK) {
        flush.end = now_ticks();
        uint32_t at = add_relaxed(&flush_count, 1);
        CHECK(at < FLUSHES);
        flushes[at] = flush;
    }
}

static void *
worker_run(void *context)
{
    struct worker *worker = context;
    struct store_member *member = fixture_join(store, worker->index);
    uint32_t life = add_relaxed(&life_count, 1);
    while (!load_relaxed(&stop) && load_relaxed(&life_count) < LIVES - THREADS_MAX &&
           load_relaxed(&flush_count) < FLUSHES - THREADS_MAX) {
        for (uint32_t i = 0; i < 16; i++) {
            uint64_t dice = fixture_random(&worker->random);
            if (dice >> 58 == 0) {
                do_flush(member);
            } else {
                life = do_incr(member, (uint32_t)(dice % KEYS), life);
            }
        }
        worker->ops += 16;
        fixture_turn(member);
    }
    store_leave(member);
    return NULL;
}

/* The order of a key's lives is that of their first records. */
static void
published(void *context, struct slice key, uint64_t stamp, const struct record *record)
{
    struct counted counted;
    if (record != NULL) {
        memcpy(&counted, record_value(record).data, sizeof(counted));
        if (counted.count == 1) {
            lives[counted.life].created_stamp = stamp;
        }
    }
}

static int
by_end(const void *x, const void *y)
{
    const struct flush *a = x, *b = y;
    return a->end < b->end ? -1 : a->end > b->end;
}

static int
by_key_and_stamp(const void *x, const void *y)
{
    const struct life *a = x, *b = y;
    if (a->key != b->key) {
        return a->key < b->key ? -1 : 1;
    }
    return a->created_stamp < b->created_stamp ? -1 : a->created_stamp > b->created_stamp;
}

/* The first flush that ended at `from` or later. */
static uint32_t
flush_from(uint32_t count, uint64_t from)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (flushes[middle].end >= from) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Was there a whole flush between an acknowledgement at `end` and a beginning at `begin`? */
static bool
flush_within(uint32_t count, uint64_t end, uint64_t begin)
{
    for (uint32_t i = flush_from(count, end); i < count && flushes[i].end < begin; i++) {
        if (flushes[i].begin > end) {
            return true;
        }
    }
    return false;
}

/* A flush for the end of one life of `key`: it must not have ended before `from`, nor begun after `by`. Of several, the
 * one that ended first: later lives have the least use for it. */
static bool
flush_assign(uint32_t count, uint32_t key, uint64_t from, uint64_t by)
{
    for (uint32_t i = flush_from(count, from); i < count; i++) {
        if (flushes[i].begin <= by && flushes[i].ended_life_of != key + 1) {
            flushes[i].ended_life_of = key + 1;
            return true;
        }
    }
    return false;
}

static uint32_t
check_life(const struct life *life, const struct life *next, uint32_t flushes_made)
{
    uint32_t wrong = 0;
    uint64_t end = load_relaxed(&life->first_end), last = MAX(load_relaxed(&life->last_begin), life->created_begin);
    if (flush_within(flushes_made, end, load_relaxed(&life->last_begin))) {
        fprintf(stderr, "race_flush: a value of key %u survived a flush\n", life->key);
        wrong++;
    }
    if (load_relaxed(&life->count) != load_relaxed(&life->acknowledged)) {
        fprintf(stderr, "race_flush: key %u lost an INCR\n", life->key);
        wrong++;
    }
    if (next != NULL && next->key == life->key && !flush_assign(flushes_made, life->key, last, next->created_end)) {
        fprintf(stderr, "race_flush: key %u began again without a flush\n", life->key);
        wrong++;
    }
    return wrong;
}

static uint32_t
check(void)
{
    uint32_t count = load_relaxed(&flush_count), lived = 0, wrong = 0;
    for (uint32_t i = 0; i < load_relaxed(&life_count); i++) {
        if (lives[i].created_end != 0) { /* else it was nobody's */
            lives[lived++] = lives[i];
        }
    }
    qsort(flushes, count, sizeof(flushes[0]), by_end);
    qsort(lives, lived, sizeof(lives[0]), by_key_and_stamp);
    for (uint32_t i = 0; i < lived; i++) {
        wrong += check_life(&lives[i], i + 1 < lived ? &lives[i + 1] : NULL, count);
    }
    return wrong;
}

int
main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 3;
    uint32_t threads = argc > 2 ? (uint32_t)atoi(argv[2]) : 3;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : (uint64_t)time(NULL);
    CHECK(threads >= 1 && threads <= THREADS_MAX);
    printf("seed %" PRIu64 "\n", seed);

    static struct worker workers[THREADS_MAX];
    store = fixture_open(threads, 64 * MIB, 1024);
    store_set_published(store, published, NULL);
    for (uint32_t i = 0; i < threads; i++) {
        workers[i].index = i;
        workers[i].random = seed * 1000003 + i + 1;
        CHECK(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) == 0);
    }
    for (uint32_t ms = 0; ms < seconds * 1000; ms++) {
        store_manage(store);
        usleep(1000);
    }
    store_relaxed(&stop, true);
    uint64_t ops = 0;
    for (uint32_t i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        ops += workers[i].ops;
    }
    struct store_member *member = fixture_join(store, 0);
    uint32_t wrong = check() + !audit_passes(member, 0);
    store_leave(member);
    printf("ops %" PRIu64 ", flushes %u, lives %u, wrong %u\n", ops, load_relaxed(&flush_count),
           load_relaxed(&life_count), wrong);
    store_close(store);
    return wrong != 0;
}
