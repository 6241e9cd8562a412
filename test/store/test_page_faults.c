/* An lcore takes no page fault in the store: a fault costs up to 4 ms. getrusage() counts those of the thread. */
#include "store_fixture.h"
#include <CUnit/Basic.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define MEMBERS   2
#define WARM_OPS  20000
#define OPS       200000
#define KEYS      60000
#define VALUE_MAX 20000

static struct store *store;

static long
faults_now(void)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_THREAD, &usage) == 0);
    return usage.ru_minflt + usage.ru_majflt;
}

/* What an lcore does: sizes that open ever new slabs and pages, keys that expire, turns, at times a flush. */
struct worker {
    struct store_member *member;
    uint64_t random;
    int64_t now_ms;
    uint64_t done, refused;
    long faults;
    void (*plant)(void); /* once, in the measured part */
};

static void
worker_operate(struct worker *worker)
{
    static const uint8_t bytes[VALUE_MAX];
    char text[32];
    bool was_there;
    uint64_t random = fixture_random(&worker->random), kind = random >> 56;
    snprintf(text, sizeof(text), "key:%u", (uint32_t)(random % KEYS));
    struct slice key = slice_text(text);
    size_t value_bytes = kind % 16 == 0 ? random >> 32 & 0x3fff : random >> 32 & 0xff;
    enum store_status status = STORE_OK;
    if (kind < 80) {
        int64_t expires = kind % 3 == 0 ? worker->now_ms + 50 : RECORD_NO_EXPIRY;
        status = fixture_set_until(worker->member, key, slice_of(bytes, value_bytes), expires);
    } else if (kind < 110) {
        status = fixture_del(worker->member, key, &was_there);
    } else {
        (void)fixture_get(worker->member, key);
    }
    worker->refused += status != STORE_OK;
    worker->done++;
}

static void
worker_run(struct worker *worker, uint64_t ops)
{
    for (uint64_t i = 0; i < ops; i++) {
        worker_operate(worker);
        if (i % 16 == 0) {
            store_set_time(worker->member, ++worker->now_ms);
            fixture_turn(worker->member);
        }
        if (i % 50000 == 49999) {
            (void)store_flush(worker->member);
        }
    }
}

static void *
worker_main(void *argument)
{
    struct worker *worker = argument;
    worker_run(worker, WARM_OPS); /* the first call of each function maps its code */
    (void)faults_now();
    long before = faults_now();
    worker_run(worker, OPS / 2);
    if (worker->plant != NULL) {
        worker->plant();
    }
    worker_run(worker, OPS / 2);
    worker->faults = faults_now() - before;
    store_offline(worker->member); /* the other goes on alone */
    return NULL;
}

/* Members at work, the management core beside them. */
static void
workers_run(struct worker workers[MEMBERS])
{
    pthread_t threads[MEMBERS];
    store = fixture_open(MEMBERS, 512 * MIB, 1024);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        workers[i].member = fixture_join(store, i);
        workers[i].random = 0x9e3779b97f4a7c15ull + i;
        workers[i].now_ms = 1000000;
    }
    for (uint32_t i = 0; i < 100; i++) {
        store_manage(store); /* pages are ready before lcores start */
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        CHECK(pthread_create(&threads[i], NULL, worker_main, &workers[i]) == 0);
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        while (pthread_tryjoin_np(threads[i], NULL) != 0) {
            store_manage(store);
            usleep(500);
        }
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        store_online(workers[i].member);
        store_leave(workers[i].member);
    }
}

static void
members_take_no_page_fault_while_the_store_fills_expires_and_is_flushed(void)
{
    struct worker workers[MEMBERS] = { 0 };
    struct store_stats stats;
    workers_run(workers);
    store_stats(store, &stats);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        CU_ASSERT_EQUAL(workers[i].faults, 0);
        CU_ASSERT(workers[i].refused < workers[i].done / 2); /* it was work, not refusals */
    }
    CU_ASSERT(stats.memory.populated_bytes > 32 * MIB); /* pages were brought meanwhile */
    CU_ASSERT(stats.expired_keys > 0 && stats.rebuilds > 0 && stats.flushes > 0);
    store_close(store);
}

static void
touch_a_fresh_page(void)
{
    long bytes = sysconf(_SC_PAGESIZE);
    uint8_t *page = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    page[0] = 1;
    munmap(page, (size_t)bytes);
}

static void
one_touch_of_a_fresh_page_is_seen(void)
{
    struct worker workers[MEMBERS] = { { .plant = touch_a_fresh_page } };
    workers_run(workers);
    CU_ASSERT(workers[0].faults >= 1); /* the planted one, and whatever the kernel takes back meanwhile */
    CU_ASSERT_EQUAL(workers[1].faults, 0);
    store_close(store);
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("page faults", NULL, NULL);
    CU_ADD_TEST(suite, one_touch_of_a_fresh_page_is_seen);
    CU_ADD_TEST(suite, members_take_no_page_fault_while_the_store_fills_expires_and_is_flushed);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    return CU_get_number_of_failures() != 0;
}
