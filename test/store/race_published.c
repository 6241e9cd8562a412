/* What store_published() tells of every change, by each member for itself, merged by stamp and replayed: the result is
 * what the store holds at the end. Members overwrite, remove, let expire, evict and flush the same keys, segments
 * are rebuilt under them, and a helper walks over all of it meanwhile.
 *
 * Every version carries the stamp of the one that it replaced. So a replay proves more than its last state: each entry
 * follows the one before it, and an entry that is missing, or has another's stamp, is found where it happened. After
 * the run both are done to a copy of the log, and must be found.
 *
 * usage: race_published [seconds [writers [seed]]] */
#include "store/scan.h"
#include "store_fixture.h"
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#define WRITERS_MAX 4
#define KEYS        4096
#define HOT         16
#define LOG_ENTRIES (1u << 19)
#define FLUSHES     4096
#define SCAN_ROOM   256
#define LIMIT_BYTES (10 * MIB) /* less than the keys would take: some are evicted */
#define PLANTS      200        /* of each kind */

enum effect { PUBLISHED, REMOVED };

struct entry {
    uint32_t key;
    enum effect effect;
    uint64_t stamp, previous; /* previous: 0 when the change found nothing */
    int64_t now_ms;           /* of the member at its change */
    int64_t expires_at_ms;
};

/* The first bytes of every value. */
struct version {
    uint64_t previous;
    int64_t now_ms;
};

struct log {
    struct entry *entries;
    uint32_t count;
    uint64_t cuts[FLUSHES];
    uint32_t cut_count;
};

struct worker {
    pthread_t thread;
    uint32_t index;
    uint64_t random, ops, met, walks;
    struct log log;
};

static struct store *store;
static struct worker workers[WRITERS_MAX + 1]; /* the last in use is the helper */
static uint32_t writers;
static _Thread_local struct worker *self;
static _Thread_local struct store_member *member;
static _Atomic bool stop, flushing;
static _Atomic int64_t clock_ms = 1000000;

/* ---- the hook ---- */

static uint32_t
key_number(struct slice key)
{
    uint32_t number;
    CHECK(key.bytes >= sizeof(number));
    memcpy(&number, key.data, sizeof(number));
    return number;
}

static void
published(void *context, struct slice key, uint64_t stamp, const struct record *record)
{
    struct log *log = &self->log;
    if (key.data == NULL) {
        CHECK(log->cut_count < FLUSHES);
        log->cuts[log->cut_count++] = stamp;
        return;
    }
    CHECK(log->count < LOG_ENTRIES);
    struct entry *entry = &log->entries[log->count++];
    *entry = (struct entry){ .key = key_number(key), .effect = REMOVED, .stamp = stamp, .now_ms = member->now_ms };
    if (record != NULL) {
        struct version version;
        memcpy(&version, record_value(record).data, sizeof(version));
        CHECK(record->stamp == stamp);
        entry->effect = PUBLISHED;
        entry->previous = version.previous;
        entry->now_ms = version.now_ms;
        entry->expires_at_ms = record_expires_at_ms(record);
    }
}

/* ---- changes ---- */

struct put {
    struct slice key;
    uint32_t bytes;
    int64_t expires_at_ms;
};

static enum store_change
put_change(void *context, struct store_member *at, const struct record *old, struct record **fresh)
{
    struct put *put = context;
    struct version version = { .previous = old != NULL ? old->stamp : 0, .now_ms = at->now_ms };
    if (*fresh == NULL) {
        *fresh = store_record(at, RECORD_STRING, put->key, put->bytes, put->expires_at_ms);
        if (*fresh == NULL) {
            return STORE_NO_MEMORY;
        }
    }
    memcpy(record_value_room(*fresh), &version, sizeof(version));
    return STORE_PUBLISH;
}

static struct slice
key_make(uint8_t room[300], uint32_t number)
{
    memset(room, 'k', 300);
    memcpy(room, &number, sizeof(number));
    return slice_of(room, number % 32 == 0 ? 300 : 12); /* a long key leaves a TOMB, not a ghost */
}

static void
write_once(struct worker *worker)
{
    uint8_t room[300];
    uint64_t dice = fixture_random(&worker->random);
    bool grows = load_relaxed(&clock_ms) / 256 % 2 == 0; /* in turn, so that tables shrink too */
    uint32_t number = dice & 1 ? (uint32_t)(dice >> 8) % HOT : (uint32_t)(dice >> 8) % KEYS;
    struct slice key = key_make(room, number);
    uint64_t hash = store_hash(store, key);
    if ((dice >> 32) % 16 < (grows || number < HOT ? 12 : 4)) {
        bool expires = (dice >> 40) % 4 == 0;
        struct put put = { .key = key,
                           .bytes = sizeof(struct version) + (dice >> 48) % (number % 4 == 1 ? 12000 : 200) };
        put.expires_at_ms = expires ? member->now_ms + 1 + (int64_t)(dice >> 44) % 16 : RECORD_NO_EXPIRY;
        store_update(member, key, hash, put_change, &put);
    } else {
        bool was_there;
        store_update(member, key, hash, fixture_del_change, &was_there);
    }
    bool alone = false;
    /* One at a time: flushes that overlap may be told as the last of them only, see store.h. */
    if (dice >> 50 == 0 && cas_acq_rel(&flushing, &alone, true)) {
        store_flush(member);
        store_release(&flushing, false);
    }
}

static void *
writer_run(void *context)
{
    self = context;
    member = fixture_join(store, self->index);
    uint32_t most = LOG_ENTRIES - 4 * LIMBO_BLOCKS; /* sweeps remove some more */
    while (!load_relaxed(&stop) && self->log.count < most && self->log.cut_count < FLUSHES - 1) {
        store_set_time(member, load_relaxed(&clock_ms));
        for (uint32_t i = 0; i < 16; i++) {
            write_once(self);
        }
        self->ops += 16;
        fixture_turn(member);
    }
    store_leave(member);
    return NULL;
}

static void *
helper_run(void *context)
{
    self = context;
    member = store_join(store, self->index, "helper-0");
    CHECK(member != NULL);
    while (!load_relaxed(&stop)) {
        const struct record *records[SCAN_ROOM];
        uint64_t cursor = 0;
        do {
            store_set_time(member, load_relaxed(&clock_ms));
            struct scan_step step = scan_next(member, cursor, records, SCAN_ROOM);
            for (uint32_t i = 0; i < step.count; i++) {
                self->met += key_number(record_key(records[i])) < KEYS;
            }
            cursor = step.next;
            store_quiesce(member);
        } while (cursor != 0);
        self->walks++;
        store_offline(member);
        usleep(200);
        store_online(member);
    }
    store_leave(member);
    return NULL;
}

/* ---- replay ---- */

struct merged {
    struct entry *entries; /* by key, then by stamp */
    uint32_t count;
    uint64_t cuts[WRITERS_MAX * FLUSHES]; /* rising */
    uint32_t cut_count;
};

static int
by_key_and_stamp(const void *x, const void *y)
{
    const struct entry *a = x, *b = y;
    if (a->key != b->key) {
        return a->key < b->key ? -1 : 1;
    }
    return a->stamp < b->stamp ? -1 : a->stamp > b->stamp;
}

static int
by_value(const void *x, const void *y)
{
    const uint64_t *a = x, *b = y;
    return *a < *b ? -1 : *a > *b;
}

static void
merge(struct merged *merged)
{
    for (uint32_t i = 0; i < writers; i++) {
        const struct log *log = &workers[i].log;
        memcpy(merged->entries + merged->count, log->entries, log->count * sizeof(log->entries[0]));
        memcpy(merged->cuts + merged->cut_count, log->cuts, log->cut_count * sizeof(log->cuts[0]));
        merged->count += log->count;
        merged->cut_count += log->cut_count;
    }
    qsort(merged->entries, merged->count, sizeof(merged->entries[0]), by_key_and_stamp);
    qsort(merged->cuts, merged->cut_count, sizeof(merged->cuts[0]), by_value);
}

/* Is there a cut from `from` on and before `to`? What is stamped at a cut is gone. */
static bool
cut_within(const struct merged *merged, uint64_t from, uint64_t to)
{
    uint32_t low = 0, high = merged->cut_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (merged->cuts[middle] >= from) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low < merged->cut_count && merged->cuts[low] < to;
}

static bool
expired(const struct entry *entry, int64_t now_ms)
{
    return entry->expires_at_ms != RECORD_NO_EXPIRY && now_ms > entry->expires_at_ms;
}

/* What an entry says must be true after the one before it. Returns what is wrong, or NULL. */
static const char *
entry_wrong(const struct entry *live, const struct entry *entry, uint64_t last_stamp)
{
    if (entry->stamp <= last_stamp) {
        return "stamps do not rise";
    }
    if (entry->effect == REMOVED) {
        return live == NULL ? "removed what was not there" : NULL;
    }
    if (entry->previous != 0) {
        return live == NULL || live->stamp != entry->previous ? "replaced a version that is not in the log" : NULL;
    }
    return live != NULL && !expired(live, entry->now_ms) ? "did not see the version before it" : NULL;
}

/* What must be in the store for the key of entries [from, to): its stamp, 0 for nothing. `at` is now. */
static const char *
replay_key(const struct merged *merged, uint32_t from, uint32_t to, int64_t now_ms, uint64_t *stamp)
{
    const struct entry *live = NULL;
    uint64_t last = 0;
    for (uint32_t i = from; i < to; i++) {
        const struct entry *entry = &merged->entries[i];
        if (live != NULL && cut_within(merged, live->stamp, entry->stamp)) {
            live = NULL;
        }
        const char *wrong = entry_wrong(live, entry, last);
        if (wrong != NULL) {
            return wrong;
        }
        live = entry->effect == PUBLISHED ? entry : NULL;
        last = entry->stamp;
    }
    bool gone = live == NULL || cut_within(merged, live->stamp, UINT64_MAX) || expired(live, now_ms);
    *stamp = gone ? 0 : live->stamp;
    return NULL;
}

/* Replay everything and compare with the store. Returns what is wrong, and says so if `loud`. */
static uint32_t
check(const struct merged *merged, bool loud)
{
    uint32_t wrong = 0;
    for (uint32_t from = 0, number = 0; number < KEYS; number++) {
        uint32_t to = from;
        while (to < merged->count && merged->entries[to].key == number) {
            to++;
        }
        uint8_t room[300];
        uint64_t stamp = 0;
        const char *why = replay_key(merged, from, to, member->now_ms, &stamp);
        const struct record *record = fixture_get(member, key_make(room, number));
        if (why == NULL && (record != NULL ? record->stamp : 0) != stamp) {
            why = record != NULL ? "the store holds another version" : "the store does not hold it";
        }
        if (why != NULL && loud) {
            fprintf(stderr, "race_published: key %u: %s\n", number, why);
        }
        wrong += why != NULL;
        from = to;
    }
    return wrong;
}

/* ---- plants: what a log that is wrong looks like ---- */

/* Does the next entry tell of this one? Only then can it be missed: what expired may go unsaid. */
static bool
is_followed(const struct merged *merged, uint32_t i)
{
    const struct entry *entry = &merged->entries[i];
    return i + 1 < merged->count && entry->effect == PUBLISHED && entry[1].key == entry->key &&
           entry[1].previous == entry->stamp;
}

static bool
plant_loss(struct merged *merged, uint32_t at)
{
    struct entry lost = merged->entries[at];
    merged->entries[at].key = KEYS; /* of no key */
    qsort(merged->entries, merged->count, sizeof(lost), by_key_and_stamp);
    bool found = check(merged, false) > 0;
    merged->entries[merged->count - 1].key = lost.key;
    qsort(merged->entries, merged->count, sizeof(lost), by_key_and_stamp);
    return found;
}

static bool
plant_swap(struct merged *merged, uint32_t at)
{
    struct entry *entry = &merged->entries[at], before[2] = { entry[0], entry[1] };
    entry[0] = before[1];
    entry[1] = before[0];
    entry[0].stamp = before[0].stamp; /* each has the other's, and its place by it */
    entry[1].stamp = before[1].stamp;
    bool found = check(merged, false) > 0;
    memcpy(entry, before, sizeof(before));
    return found;
}

static bool
plant_cut_loss(struct merged *merged)
{
    uint32_t count = merged->cut_count;
    merged->cut_count = 0;
    bool found = check(merged, false) > 0;
    merged->cut_count = count;
    return found;
}

static uint32_t
plants_missed(struct merged *merged, uint64_t random)
{
    uint32_t missed = 0, planted = 0;
    for (uint32_t tries = 0; planted < PLANTS && tries < 100 * PLANTS; tries++) {
        uint32_t at = (uint32_t)(fixture_random(&random) % merged->count);
        if (is_followed(merged, at)) {
            missed += planted < 4 && !plant_loss(merged, at); /* these sort everything: some are enough */
            missed += !plant_swap(merged, at);
            planted++;
        }
    }
    CHECK(planted == PLANTS);
    return missed + !plant_cut_loss(merged);
}

/* ---- the run ---- */

static void
run(double seconds)
{
    for (uint32_t i = 0; i <= writers; i++) {
        CHECK(pthread_create(&workers[i].thread, NULL, i < writers ? writer_run : helper_run, &workers[i]) == 0);
    }
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do {
        store_manage(store);
        add_relaxed(&clock_ms, 1);
        usleep(1000);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)(now.tv_sec - begun.tv_sec) + (double)(now.tv_nsec - begun.tv_nsec) / 1e9 < seconds);
    store_relaxed(&stop, true);
    for (uint32_t i = 0; i <= writers; i++) {
        pthread_join(workers[i].thread, NULL);
    }
}

int
main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 3;
    writers = argc > 2 ? (uint32_t)atoi(argv[2]) : 2;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : (uint64_t)time(NULL);
    CHECK(writers >= 1 && writers <= WRITERS_MAX);
    static struct merged merged;
    printf("seed %" PRIu64 "\n", seed);
    store = fixture_open(writers + 2, LIMIT_BYTES, 0);
    store_set_published(store, published, NULL);
    store_set_policy(store, STORE_ALLKEYS_RANDOM);
    for (uint32_t i = 0; i <= writers; i++) {
        workers[i] = (struct worker){ .index = i, .random = seed * 1000003 + i + 1 };
        workers[i].log.entries = calloc(LOG_ENTRIES, sizeof(struct entry));
        CHECK(workers[i].log.entries != NULL);
    }
    run(seconds);

    member = fixture_join(store, writers + 1);
    store_set_time(member, load_relaxed(&clock_ms));
    merged.entries = calloc(writers * LOG_ENTRIES, sizeof(struct entry));
    CHECK(merged.entries != NULL);
    merge(&merged);
    uint32_t wrong = check(&merged, true), missed = wrong == 0 ? plants_missed(&merged, seed + 1) : 0;

    struct store_stats stats;
    store_stats(store, &stats);
    printf("changes %u, expired %" PRIu64 ", evicted %" PRIu64 ", cuts %u, rebuilds %" PRIu64 ", walks %" PRIu64
           " met %" PRIu64 ", wrong %u, plants missed %u\n",
           merged.count, stats.expired_keys, stats.evicted_keys, merged.cut_count, stats.rebuilds,
           workers[writers].walks, workers[writers].met, wrong, missed);
    CHECK(stats.rebuilds > 0 && stats.expired_keys > 0 && merged.cut_count > 0 && workers[writers].met > 0);
    store_leave(member);
    store_close(store);
    return wrong != 0 || missed != 0;
}
