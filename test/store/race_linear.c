/* Short histories of commands on a few keys, each checked for an order that explains every result (linear_keys.h).
 *
 * All keys lie in one segment of a small index. Between its commands each member inserts, removes and lets expire other
 * keys of that segment, so that it grows, shrinks, and is cleared of TOMBs under the commands; flushes hit it, and
 * pages are emptied by moving its records. The state that a history starts from is what the reads at the end of the one
 * before found.
 *
 * usage: race_linear [seconds [threads [seed [refused]]]]
 *        at least HISTORIES_LEAST histories, however long they take; a seed of 0 is the time; one allocation in
 * `refused` is refused, 0: none */
#include "linear_keys.h"
#include "refuse_memory.h"
#include "store_fixture.h"
#include <pthread.h>
#include <sched.h>
#include <time.h>

#define THREADS_MAX     4
#define MEMBER_COMMANDS 12
#define HISTORIES_LEAST 1000
#define FILLERS         120 /* keys: 32 buckets when they are all there, 1 when none is */
#define MOVE_HISTORIES  8
#define PHASE_HISTORIES 12 /* mostly inserting, then mostly removing */
#define CONFIGURATIONS  (1 << 17)
#define VIEW_TRIES      8
#define READY_SPINS     2000 /* some microseconds: with fewer cores than members, not all begin together */
#define LIMIT_BYTES     (64 * MIB)

struct worker {
    pthread_t thread;
    uint32_t index;
    uint64_t random, fillers, later;
    uint32_t count;
    struct keys_operation operations[MEMBER_COMMANDS];
};

/* Written by the main thread between histories. */
static struct store *store;
static struct worker workers[THREADS_MAX];
static char key_texts[KEYS_MAX][24], filler_texts[FILLERS][24];
static struct slice keys[KEYS_MAX], fillers[FILLERS];
static uint32_t threads, segment;
static bool growing, with_flush, with_expiry;

static _Atomic uint64_t order; /* beginnings and ends of commands */
static _Atomic uint64_t round_begun, round_ready, round_done;
static _Atomic int64_t clock_ms;

/* Each place in the order is after all that was done before it. ThreadSanitizer is not told: it would take members that
 * only share this counter for synchronised. */
#ifdef SYNC_TSAN
#define order_next() (add_relaxed(&order, 1) + 1)
#else
#define order_next() (add_acq_rel(&order, 1) + 1)
#endif

/* ---- one command ---- */

static struct keys_value
value_of(const struct record *record)
{
    struct keys_value value = { 0 };
    if (record != NULL) {
        int64_t until_ms = record_expires_at_ms(record);
        memcpy(&value.number, record_value(record).data, sizeof(value.number));
        value.present = 1;
        value.until_ms = until_ms == RECORD_NO_EXPIRY ? KEYS_NEVER : until_ms;
    }
    return value;
}

static enum store_change
command_change(void *context, struct store_member *member, const struct record *old, struct record **fresh)
{
    struct keys_operation *operation = context;
    struct keys_value *found = &operation->found[operation->key], value;
    *found = value_of(old);
    if (!keys_change(operation, found, &value)) {
        return STORE_KEEP;
    }
    if (!value.present) {
        return STORE_REMOVE;
    }
    int64_t until_ms = value.until_ms == KEYS_NEVER ? RECORD_NO_EXPIRY : value.until_ms;
    /* The record of a run that lost is used again when it fits. */
    if (*fresh == NULL || record_expires_at_ms(*fresh) != until_ms) {
        *fresh = store_record(member, RECORD_STRING, keys[operation->key], sizeof(value.number), until_ms);
        if (*fresh == NULL) {
            return STORE_NO_MEMORY;
        }
    }
    memcpy(record_value_room(*fresh), &value.number, sizeof(value.number));
    return STORE_PUBLISH;
}

/* As MGET does: two equal collects are one moment. */
static bool
command_mget(struct store_member *member, struct keys_operation *operation)
{
    uint64_t versions[KEYS_MAX] = { 0 };
    for (uint32_t try = 0; try < VIEW_TRIES; try++) {
        bool same = try > 0;
        for (uint32_t i = 0; i < KEYS_MAX; i++) {
            struct store_view view = store_view(member, keys[i], store_hash(store, keys[i]));
            same = same && view.version == versions[i];
            versions[i] = view.version;
            operation->found[i] = value_of(view.record);
        }
        if (same) {
            return true;
        }
    }
    return false;
}

/* False: it did not happen. */
static bool
command_run(struct store_member *member, struct keys_operation *operation)
{
    struct slice key = keys[operation->key];
    switch (operation->kind) {
    case KEYS_GET:
        operation->found[operation->key] = value_of(store_find(member, key, store_hash(store, key)));
        return true;
    case KEYS_MGET:
        return command_mget(member, operation);
    case KEYS_FLUSH:
        return store_flush(member) == STORE_OK;
    default:
        return store_update(member, key, store_hash(store, key), command_change, operation) == STORE_OK;
    }
}

/* Out of 32; the rest are GETs. */
static enum keys_kind
command_kind(uint32_t dice)
{
    static const enum keys_kind kinds[32] = {
        KEYS_SET,    KEYS_SET,    KEYS_SET,    KEYS_SETNX,  KEYS_SETNX, KEYS_DEL,  KEYS_DEL,
        KEYS_DEL,    KEYS_INCR,   KEYS_INCR,   KEYS_INCR,   KEYS_INCR,  KEYS_INCR, KEYS_APPEND,
        KEYS_APPEND, KEYS_APPEND, KEYS_EXPIRE, KEYS_EXPIRE, KEYS_MGET,  KEYS_MGET, KEYS_PERSIST,
    };
    enum keys_kind kind = kinds[dice % 32];
    if (dice % 32 == 31 && with_flush) {
        return KEYS_FLUSH;
    }
    return kind == KEYS_EXPIRE && !with_expiry ? KEYS_INCR : kind;
}

static void
command(struct worker *worker, struct store_member *member)
{
    uint64_t dice = fixture_random(&worker->random);
    struct keys_operation *operation = &worker->operations[worker->count];
    *operation = (struct keys_operation){
        .kind = command_kind((uint32_t)dice & 0xffff),
        .member = worker->index,
        .key = (uint32_t)(dice >> 16) % KEYS_MAX,
        .argument = (dice >> 32 & 0xffffff) << 16,
        .until_ms = KEYS_NEVER,
    };
    if (operation->kind == KEYS_MGET || operation->kind == KEYS_FLUSH) {
        operation->key = 0;
    }
    operation->begin = order_next();
    operation->now_ms = load_relaxed(&clock_ms);
    if (operation->kind == KEYS_EXPIRE || (operation->kind == KEYS_SET && with_expiry && (dice >> 60) < 8)) {
        operation->until_ms = operation->now_ms + (int64_t)(dice >> 56 & 3);
    }
    store_set_time(member, operation->now_ms);
    bool happened = command_run(member, operation);
    operation->latest_ms = load_relaxed(&clock_ms);
    operation->end = order_next();
    worker->count += happened;
    worker->later += !happened;
}

/* ---- what goes on beside the commands ---- */

static void
filler(struct worker *worker, struct store_member *member)
{
    uint64_t dice = fixture_random(&worker->random);
    struct slice key = fillers[dice % FILLERS];
    bool was_there, more = ((dice >> 32 & 7) != 0) == growing;
    enum store_status status;
    if (!more) {
        status = fixture_del(member, key, &was_there);
    } else if ((dice >> 40 & 3) == 0) {
        status = fixture_set_until(member, key, key, member->now_ms + (int64_t)(dice >> 44 & 3));
    } else {
        status = fixture_put(member, key, key);
    }
    worker->fillers += status == STORE_OK;
}

static void
turn(struct worker *worker, struct store_member *member)
{
    store_quiesce(member);
    if ((fixture_random(&worker->random) >> 60) == 0) {
        rebuild_wish(member, segment);
    }
    store_housekeep(member);
}

static void
history_part(struct worker *worker, struct store_member *member)
{
    uint32_t commands = MEMBER_COMMANDS - (uint32_t)(fixture_random(&worker->random) >> 61) % 5;
    worker->count = 0;
    for (uint32_t i = 0; i < commands; i++) {
        command(worker, member);
        uint64_t dice = fixture_random(&worker->random);
        for (uint32_t n = (uint32_t)(dice >> 62); n > 0; n--) {
            filler(worker, member);
        }
        if ((dice >> 48 & 7) == 0) {
            add_relaxed(&clock_ms, 1);
        }
        if ((dice >> 44 & 7) == 0) {
            sched_yield();
        }
        if ((dice >> 40 & 3) == 0) {
            turn(worker, member);
        }
    }
    turn(worker, member);
}

static void *
worker_run(void *context)
{
    struct worker *worker = context;
    struct store_member *member = fixture_join(store, worker->index);
    for (uint64_t round = 1;; round++) {
        uint64_t begun;
        while ((begun = load_acquire(&round_begun)) < round) { /* pairs with the store in history_make() */
            sched_yield();
        }
        if (begun == UINT64_MAX) {
            break;
        }
        /* Begin together: a history of members one after the other shows nothing. */
        add_acq_rel(&round_ready, 1);
        for (uint32_t i = 0; i < READY_SPINS && load_relaxed(&round_ready) < threads; i++) {
            cpu_relax();
        }
        history_part(worker, member);
        add_acq_rel(&round_done, 1); /* pairs with the load in history_make() */
    }
    store_leave(member);
    return NULL;
}

/* ---- the main thread: one history after the other ---- */

static void
choose_keys(void)
{
    char text[24];
    uint32_t found = 0;
    for (uint32_t n = 0; found < KEYS_MAX + FILLERS; n++) {
        snprintf(text, sizeof(text), "key:%u", n);
        uint32_t of = index_segment_of(&store->index, store_hash(store, slice_text(text)));
        if (found == 0) {
            segment = of;
        } else if (of != segment) {
            continue;
        }
        char *to = found < KEYS_MAX ? key_texts[found] : filler_texts[found - KEYS_MAX];
        memcpy(to, text, sizeof(text));
        *(found < KEYS_MAX ? &keys[found] : &fillers[found - KEYS_MAX]) = slice_text(to);
        found++;
    }
}

/* What is there at the end: part of the history, and the beginning of the next. */
static void
read_last(struct store_member *member, uint32_t key, struct keys_operation *operation)
{
    *operation = (struct keys_operation){ .kind = KEYS_GET, .member = member->seat, .key = key };
    operation->begin = order_next();
    operation->now_ms = operation->latest_ms = load_relaxed(&clock_ms);
    store_set_time(member, operation->now_ms);
    (void)command_run(member, operation);
    operation->end = order_next();
}

/* Returns the number of operations. `state` is what the last reads found. */
static uint32_t
history_make(struct store_member *member, uint64_t round, struct keys_operation *history, struct keys_state *state)
{
    growing = round / PHASE_HISTORIES % 2 == 0;
    with_flush = round % 4 == 3;
    with_expiry = round % 3 != 0;
    store_offline(member);
    store_relaxed(&order, 0);
    store_relaxed(&round_ready, 0);
    store_relaxed(&round_done, 0);
    store_release(&round_begun, round);            /* pairs with the load in worker_run() */
    while (load_acquire(&round_done) != threads) { /* pairs with worker_run() */
        sched_yield();
    }
    store_online(member);

    uint32_t count = 0;
    for (uint32_t i = 0; i < threads; i++) {
        memcpy(&history[count], workers[i].operations, workers[i].count * sizeof(history[0]));
        count += workers[i].count;
    }
    for (uint32_t key = 0; key < KEYS_MAX; key++) {
        read_last(member, key, &history[count]);
        state->keys[key] = history[count++].found[key];
    }
    return count;
}

static uint64_t
monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* As the management core would, had the page in which the keys lie become sparse (store_boot.c). */
static void
empty_page_of_keys(struct store_member *member)
{
    struct memory *memory = store->memory;
    const struct record *record = NULL;
    for (uint32_t key = 0; key < KEYS_MAX && record == NULL; key++) {
        record = store_find(member, keys[key], store_hash(store, keys[key]));
    }
    if (record == NULL || load_relaxed(&store->sweep_move)) {
        return;
    }
    uint32_t page = (uint32_t)((size_t)((const uint8_t *)record - memory->base) >> MEMORY_PAGE_SHIFT);
    memory->marked[memory->marked_count++] = page;
    or_relaxed(&memory->emptying[page / 64], 1ull << page % 64);
    store_relaxed(&memory->emptying_pages, 1);
    add_relaxed(&memory->emptying_round, 1);
    store->move_marked = 1;
    store->move_since_ms = store->move_walked_ms = monotonic_ms();
    store->move_until = load_relaxed(&store->sweep_next) + 2 * (store->index.segment_count / 64);
    store_relaxed(&store->sweep_move, true);
}

/* The number of histories made, 0 when one has no order. */
static uint64_t
histories(struct store_member *member, struct linear *linear, double seconds)
{
    static struct keys_operation history[LINEAR_OPERATIONS];
    struct keys_state state = { 0 };
    uint64_t until_ms = monotonic_ms() + (uint64_t)(seconds * 1000);
    uint64_t round = 0;
    while (round < HISTORIES_LEAST || monotonic_ms() < until_ms) {
        struct keys_state initial = state;
        uint32_t count = history_make(member, ++round, history, &state);
        if (round % MOVE_HISTORIES == 0) {
            empty_page_of_keys(member);
        }
        store_manage(store);
        if (keys_check(linear, &initial, history, count, stderr) != LINEAR_YES) {
            fprintf(stderr, "race_linear: history %" PRIu64 " cannot be explained; all of it, as each member saw it:\n",
                    round);
            keys_print(&initial, history, count, stderr);
            return 0;
        }
        fixture_turn(member);
    }
    return round;
}

static bool
enough(const char *what, uint64_t got, uint64_t more_than)
{
    if (got <= more_than) {
        fprintf(stderr, "race_linear: %s: %" PRIu64 ", must be more than %" PRIu64 "\n", what, got, more_than);
    }
    return got > more_than;
}

/* Everything that makes the histories worth checking has happened. */
static bool
all_was_forced(uint64_t made)
{
    struct store_stats stats;
    uint64_t done = 0, later = 0;
    for (uint32_t i = 0; i < THREADS_MAX; i++) {
        done += workers[i].fillers;
        later += workers[i].later;
    }
    store_stats(store, &stats);
    printf("%" PRIu64 " histories, all have an order; %" PRIu64 " rebuilds, %" PRIu64 " expired, %" PRIu64
           " flushes, %" PRIu64 " moves, %" PRIu64 " retries, %" PRIu64 " fillers, %" PRIu64 " not done\n",
           made, stats.rebuilds, stats.expired_keys, stats.flushes, stats.moved_records, stats.update_retries, done,
           later);
    return enough("rebuilds", stats.rebuilds, made / 20) && enough("expired keys", stats.expired_keys, made / 10) &&
           enough("flushes", stats.flushes, made / 100) && enough("moves", stats.moved_records, made / 100) &&
           (refusals.one_in != 0 || enough("histories for each command not done", made, later));
}

int
main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 3;
    threads = argc > 2 ? (uint32_t)atoi(argv[2]) : 3;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 0;
    CHECK(threads >= 1 && threads <= THREADS_MAX);
    setvbuf(stdout, NULL, _IOLBF, 0);
    seed = seed != 0 ? seed : (uint64_t)time(NULL);
    printf("seed %" PRIu64 "\n", seed);

    store = fixture_open(threads + 1, LIMIT_BYTES, 0);
    choose_keys();
    store_relaxed(&clock_ms, 1000000);
    uint32_t one_in = argc > 4 ? (uint32_t)atoi(argv[4]) : 0;
    refusals.one_in = one_in;
    for (uint32_t i = 0; i < threads; i++) {
        workers[i].index = i;
        workers[i].random = seed * 1000003 + i + 1;
        CHECK(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) == 0);
    }
    struct store_member *member = fixture_join(store, threads);
    struct linear *linear = linear_open(CONFIGURATIONS);
    uint64_t made = histories(member, linear, seconds);
    store_offline(member);
    store_release(&round_begun, UINT64_MAX);
    for (uint32_t i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    linear_close(linear);
    store_online(member);
    store_set_time(member, load_relaxed(&clock_ms));
    bool good = made != 0 && all_was_forced(made);
    refusals.one_in = 0; /* what could not be done ends now */
    good = good && audit_passes(member, 0);
    store_leave(member);
    store_close(store);
    if (!good) {
        fprintf(stderr,
                "race_linear: failed. Again, as far as threads can be told what to do: %s %g %" PRIu32 " %" PRIu64
                " %" PRIu32 "\n",
                argv[0], seconds, threads, seed, one_in);
    }
    return !good;
}
