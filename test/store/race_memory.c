/* Members take and give blocks of all classes, also each other's, while the management core populates, sweeps and
 * returns pages. What must hold: no block is lent twice at a time, none changes while it is lent, resident memory stays
 * under the limit, and at the end everything can be had again.
 *
 * usage: race_memory [seconds [threads [seed]]] */
#include "store/memory_layout.h"
#include "store_fixture.h"
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 8
#define MAILBOXES   256 /* blocks on their way to whoever finds them first */
#define OWN         64
#define FLOOD       3000 /* small blocks at once: more than magazines and depot hold, so slabs come and go */
#define LIMIT_BYTES (48 * MIB)
#define EMPTY_TURNS 17 /* of the management core: a round of emptying */
#define ROUND_TURNS (7 * EMPTY_TURNS)

struct lent {
    uint8_t *block;
    size_t bytes;
    uint64_t mark;
};

struct worker {
    pthread_t thread;
    uint32_t index;
    uint64_t random, takes, refused;
    struct lent own[OWN], flood[FLOOD];
};

static struct memory *memory;
static uint64_t marked;
static _Atomic uintptr_t mailboxes[MAILBOXES]; /* struct lent, itself in a lent block */
static _Atomic bool stop;

static void
fail(const char *what)
{
    fprintf(stderr, "race_memory: %s\n", what);
    abort();
}

/* Both ends carry the mark: two owners of one block disagree about it. */
static void
lent_mark(struct lent *lent, uint64_t mark)
{
    lent->mark = mark;
    memcpy(lent->block, &mark, 8);
    memcpy(lent->block + lent->bytes - 8, &mark, 8);
}

static void
lent_check(const struct lent *lent)
{
    if (memcmp(lent->block, &lent->mark, 8) != 0 || memcmp(lent->block + lent->bytes - 8, &lent->mark, 8) != 0) {
        fail("a block changed while it was lent");
    }
}

static size_t
random_bytes(uint64_t dice)
{
    static const size_t most[] = { 48, 48, 100, 300, 1000, 5000, 60000, 70000, 300000, 1300000 };
    return 16 + dice % most[(dice >> 40) % (dice >> 60 < 2 ? ARRAY_COUNT(most) : 6)];
}

static void
take_one(struct worker *worker, struct memory_cache *cache, struct lent *lent)
{
    uint64_t dice = fixture_random(&worker->random);
    lent->bytes = random_bytes(dice);
    switch (dice >> 59) {
    case 0:
        lent->block = memory_take_reserve(cache, lent->bytes);
        break;
    case 1:
        lent->block = memory_take_larger(cache, lent->bytes, MEMORY_ALIGN);
        break;
    default:
        lent->block = memory_take(cache, lent->bytes);
    }
    if (lent->block == NULL) {
        worker->refused++;
        return;
    }
    worker->takes++;
    lent_mark(lent, dice);
}

static void
give_one(struct memory_cache *cache, struct lent *lent)
{
    lent_check(lent);
    memory_give_home(cache, lent->block, lent->bytes);
    lent->block = NULL;
}

/* Into a mailbox goes a block whose content describes the lent one; who takes it out gives both. */
static void
post_one(struct worker *worker, struct memory_cache *cache, struct lent *lent)
{
    struct lent *letter = memory_take(cache, sizeof(*letter));
    if (letter == NULL) {
        return;
    }
    *letter = *lent;
    _Atomic uintptr_t *box = &mailboxes[fixture_random(&worker->random) % MAILBOXES];
    letter = (struct lent *)exchange_acq_rel(box, (uintptr_t)letter);
    lent->block = NULL;
    if (letter != NULL) {
        struct lent other = *letter;
        memory_give(cache, letter, sizeof(*letter));
        give_one(cache, &other);
    }
}

static void
flood(struct worker *worker, struct memory_cache *cache)
{
    uint64_t dice = fixture_random(&worker->random);
    size_t bytes = 16 + dice % 112;
    uint32_t count = 0;
    for (; count < FLOOD; count++) {
        struct lent *lent = &worker->flood[count];
        *lent = (struct lent){ .block = memory_take(cache, bytes), .bytes = bytes };
        if (lent->block == NULL) {
            break;
        }
        lent_mark(lent, dice + count);
    }
    worker->takes += count;
    for (uint32_t i = 0; i < count; i++) {
        give_one(cache, &worker->flood[i]);
    }
}

static void *
worker_run(void *context)
{
    struct worker *worker = context;
    struct memory_cache *cache = memory_join(memory, worker->index);
    CHECK(cache != NULL);
    while (!load_relaxed(&stop)) {
        struct lent *lent = &worker->own[fixture_random(&worker->random) % OWN];
        if (lent->block == NULL) {
            take_one(worker, cache, lent);
        } else if (worker->random & 1) {
            give_one(cache, lent);
        } else {
            post_one(worker, cache, lent);
        }
        if ((worker->random & 0xff) == 0) {
            memory_trim(cache);
        }
        if ((worker->random >> 8 & 0x3ff) == 0) {
            flood(worker, cache);
        }
    }
    for (uint32_t i = 0; i < OWN; i++) {
        if (worker->own[i].block != NULL) {
            give_one(cache, &worker->own[i]);
        }
    }
    memory_leave(cache);
    return NULL;
}

static void
check_end(void)
{
    struct memory_cache *cache = memory_join(memory, 0);
    for (uint32_t i = 0; i < MAILBOXES; i++) {
        struct lent *letter = (struct lent *)exchange_acq_rel(&mailboxes[i], (uintptr_t)0);
        if (letter != NULL) {
            struct lent other = *letter;
            memory_give(cache, letter, sizeof(*letter));
            give_one(cache, &other);
        }
    }
    memory_leave(cache);
    memory_empty_end(memory, false);
    struct memory_stats stats;
    memory_stats(memory, &stats);
    if (stats.used_bytes != 0) {
        fail("bytes are lost");
    }
    if (stats.larger_blocks != 0) {
        fail("a block that was lent for less than it holds never came back");
    }
    for (uint32_t i = 0; i < memory->page_count; i++) {
        if (load_relaxed(&memory->pages[i].larger_blocks) != 0 || load_relaxed(&memory->pages[i].larger_bytes) != 0) {
            fail("a page does not know how much of its blocks is lent");
        }
    }
    /* Everything went home: as much as fits can be had in one other class. */
    store_relaxed(&memory->pages_reserve, UINT32_MAX / 2); /* pressure: keep nothing */
    memory_manage(memory);
    memory_set_limit(memory, LIMIT_BYTES);
    if (load_relaxed(&memory->pages_used) != 0) {
        fail("a page never came home");
    }
}

/* Nobody moves blocks here: pages are marked, members drain, some pages come free, the others are let go. */
static void
empty_some(uint32_t turn)
{
    switch (turn % EMPTY_TURNS) {
    case 0:
        marked += memory_empty_begin(memory);
        break;
    case EMPTY_TURNS - 1:
        memory_empty_end(memory, false);
        break;
    default:
        (void)memory_empty_step(memory);
    }
}

/* All members work for a while; then nothing may be missing. In turns, so that pages are marked however slow they are:
 * a perturbed one, which yields to members that never sleep, takes ten times its nap. */
static void
run_round(struct worker *workers, uint32_t threads)
{
    store_relaxed(&stop, false);
    for (uint32_t i = 0; i < threads; i++) {
        CHECK(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) == 0);
    }
    struct memory_stats stats;
    for (uint32_t turn = 0; turn < ROUND_TURNS; turn++) {
        memory_manage(memory);
        empty_some(turn);
        memory_stats(memory, &stats);
        if (stats.populated_bytes > LIMIT_BYTES) {
            fail("more is resident than the limit");
        }
        usleep(1000);
    }
    store_relaxed(&stop, true);
    for (uint32_t i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    check_end();
}

static uint64_t
monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int
main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 3;
    uint32_t threads = argc > 2 ? (uint32_t)atoi(argv[2]) : 3;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : (uint64_t)time(NULL);
    CHECK(threads >= 1 && threads <= THREADS_MAX);
    printf("seed %" PRIu64 "\n", seed);

    struct memory_config config = { .reserve_bytes = 128 * MIB, .limit_bytes = LIMIT_BYTES, .ahead_bytes = 8 * MIB };
    CHECK(memory_open(&config, &memory) == 0);
    static struct worker workers[THREADS_MAX];
    for (uint32_t i = 0; i < threads; i++) {
        workers[i].index = i;
        workers[i].random = seed * 1000003 + i + 1;
    }
    uint64_t until_ms = monotonic_ms() + (uint64_t)(seconds * 1000);
    do {
        run_round(workers, threads);
    } while (monotonic_ms() < until_ms);
    uint64_t takes = 0, refused = 0;
    for (uint32_t i = 0; i < threads; i++) {
        takes += workers[i].takes;
        refused += workers[i].refused;
    }
    struct memory_stats stats;
    memory_stats(memory, &stats);
    printf("takes %" PRIu64 ", %" PRIu64 " of larger blocks, refused %" PRIu64 ", marked %" PRIu64 ", emptied %" PRIu64
           "\n",
           takes, stats.larger_takes, refused, marked, stats.emptied_pages);
    if (marked == 0) {
        fail("no page was ever marked");
    }
    if (stats.larger_takes == 0) {
        fail("no block was ever lent for less than it holds");
    }
    memory_close(memory);
    return 0;
}
