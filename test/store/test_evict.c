#include "audit.h"
#include "store/evict.h"
#include "store_fixture.h"
#include <CUnit/Basic.h>
#include <pthread.h>
#include <time.h>

#define LIMIT    (32 * MIB)
#define FUTURE   1000000000
#define RETRIES  20000
#define REACH_MS 10000 /* until a lowered limit is reached: rounds of emptying, which go by the clock, some 150 ms */

static struct store *store;
static struct store_member *a, *b;

static void
open_two(enum store_policy policy)
{
    store = fixture_open(2, LIMIT, 20000);
    store_set_policy(store, policy);
    a = fixture_join(store, 0);
    b = fixture_join(store, 1);
}

static void
shut(void)
{
    fixture_settle(b, a);
    store_leave(b);
    CU_ASSERT(audit_passes(a, 0));
    store_leave(a);
    store_close(store);
}

static void
turn(void)
{
    fixture_turn(a);
    fixture_turn(b);
    store_manage(store);
    store_set_time(a, a->now_ms);
    store_set_time(b, b->now_ms);
}

static struct slice
numbered(char text[32], const char *what, uint32_t number)
{
    return slice_of(text, (size_t)snprintf(text, 32, "%s:%u", what, number));
}

static enum store_status
put(const char *what, uint32_t number, size_t bytes, int64_t expires_at_ms)
{
    static const uint8_t value[64 * KIB];
    char text[32];
    struct slice key = numbered(text, what, number);
    enum store_status status = STORE_TRY_LATER;
    for (uint32_t i = 0; i < RETRIES && status == STORE_TRY_LATER; i++) {
        status = fixture_set_until(a, key, slice_of(value, bytes), expires_at_ms);
        if (status != STORE_OK) {
            turn();
        }
    }
    if (number % 32 == 0) {
        turn();
    }
    return status;
}

/* Put so many keys; how many were refused. */
static uint32_t
put_all(const char *what, uint32_t count, size_t bytes, int64_t expires_at_ms)
{
    uint32_t refused = 0;
    for (uint32_t i = 0; i < count; i++) {
        refused += put(what, i, bytes, expires_at_ms) != STORE_OK;
    }
    return refused;
}

static uint32_t
count_present(const char *what, uint32_t first, uint32_t count)
{
    char text[32];
    uint32_t present = 0;
    for (uint32_t i = first; i < first + count; i++) {
        struct slice key = numbered(text, what, i);
        /* not a use: the byte stays as it is */
        struct index_place place;
        index_look(&store->index, key, store_hash(store, key), &place);
        present += place.slot != NULL && slot_is_record(place.word);
    }
    return present;
}

/* ---- who may go ---- */

static void
without_a_policy_nothing_goes_and_writes_are_refused(void)
{
    open_two(STORE_NOEVICTION);
    uint32_t stored = 0;
    while (put("k", stored, 1000, RECORD_NO_EXPIRY) == STORE_OK) {
        stored++;
    }
    CU_ASSERT(stored > 15000);
    CU_ASSERT_EQUAL(count_present("k", 0, stored), stored);
    CU_ASSERT_EQUAL(fixture_stats(store).evicted_keys, 0);
    shut();
}

static void
volatile_policies_refuse_when_no_key_expires(void)
{
    for (enum store_policy policy = STORE_VOLATILE_LRU; policy <= STORE_VOLATILE_TTL; policy++) {
        open_two(policy);
        uint32_t stored = 0;
        while (put("k", stored, 8000, RECORD_NO_EXPIRY) == STORE_OK) {
            stored++;
        }
        CU_ASSERT_EQUAL(count_present("k", 0, stored), stored);
        CU_ASSERT_EQUAL(fixture_stats(store).evicted_keys, 0);
        shut();
    }
}

static void
every_policy_takes_four_times_the_memory_without_refusing_and_stays_below_the_limit(void)
{
    static const size_t sizes[] = { 20, 300, 3000, 50000 };
    for (enum store_policy policy = STORE_ALLKEYS_LRU; policy <= STORE_VOLATILE_TTL; policy++) {
        size_t step = policy == STORE_ALLKEYS_LRU ? 1 : 2; /* all sizes for one policy are enough */
        for (size_t i = step - 1; i < ARRAY_COUNT(sizes); i += step) {
            open_two(policy);
            uint32_t count = (uint32_t)(4 * LIMIT / (sizes[i] + 100)), refused = 0;
            uint64_t most = 0;
            for (uint32_t n = 0; n < count; n++) {
                refused += put("k", n, sizes[i], a->now_ms + FUTURE + n) != STORE_OK;
                if (n % 1024 == 0) {
                    struct store_stats stats = fixture_stats(store);
                    most = MAX(most, stats.memory.populated_bytes + stats.memory.meta_bytes + stats.fixed_bytes);
                }
            }
            struct store_stats stats = fixture_stats(store);
            CU_ASSERT_EQUAL(refused, 0);
            CU_ASSERT(most <= LIMIT);
            CU_ASSERT(stats.evicted_keys > count / 20);
            CU_ASSERT_EQUAL(stats.evicted_keys + stats.keys, count);
            CU_ASSERT(count_present("k", count - 100, 100) > 50); /* not the newest */
            shut();
        }
    }
}

static void
volatile_policies_leave_keys_without_an_expiry(void)
{
    for (enum store_policy policy = STORE_VOLATILE_LRU; policy <= STORE_VOLATILE_TTL; policy++) {
        open_two(policy);
        CU_ASSERT_EQUAL(put_all("stays", 5000, 1000, RECORD_NO_EXPIRY), 0);
        CU_ASSERT_EQUAL(put_all("goes", 60000, 1000, a->now_ms + FUTURE), 0);
        CU_ASSERT_EQUAL(count_present("stays", 0, 5000), 5000);
        CU_ASSERT(fixture_stats(store).evicted_keys > 30000);
        shut();
    }
}

static void
what_expires_soonest_goes_first(void)
{
    open_two(STORE_VOLATILE_TTL);
    for (uint32_t i = 0; i < 60000; i++) { /* odd ones expire sooner than all even ones */
        CU_ASSERT_EQUAL(put("k", i, 1000, a->now_ms + FUTURE + (i % 2 == 0 ? 1000000 : 0)), STORE_OK);
    }
    uint32_t even = 0, odd = 0;
    for (uint32_t i = 30000; i < 60000; i++) {
        *(i % 2 == 0 ? &even : &odd) += count_present("k", i, 1);
    }
    CU_ASSERT(even > 10000 && odd < even / 10);
    shut();
}

static void
used_keys_stay_under_lru_and_often_used_ones_under_lfu(void)
{
    static const enum store_policy policies[] = { STORE_ALLKEYS_LRU, STORE_ALLKEYS_LFU };
    char text[32];
    for (size_t p = 0; p < ARRAY_COUNT(policies); p++) {
        open_two(policies[p]);
        CU_ASSERT_EQUAL(put_all("used", 2000, 1000, RECORD_NO_EXPIRY), 0);
        for (uint32_t i = 0; i < 120000; i++) {
            CU_ASSERT_EQUAL(put("once", i, 1000, RECORD_NO_EXPIRY), STORE_OK);
            struct slice key = numbered(text, "used", i % 2000);
            (void)fixture_get(a, key);
        }
        CU_ASSERT(count_present("used", 0, 2000) >= 1980);
        shut();
    }
}

static void
dead_keys_go_before_any_other_and_count_as_expired(void)
{
    open_two(STORE_ALLKEYS_LRU);
    put_all("dead", 5000, 1000, a->now_ms + 10);
    put_all("live", 5000, 1000, RECORD_NO_EXPIRY);
    a->now_ms = b->now_ms += 1000; /* no sweep in between: only evict_step() runs below */
    store_relaxed(&store->evict.wanted, (int64_t)(2 * MIB));
    for (uint32_t i = 0; i < 400 && load_relaxed(&store->evict.wanted) > 0; i++) {
        evict_step(a);
        store_quiesce(a);
        store_quiesce(b);
    }
    struct store_stats stats = fixture_stats(store);
    CU_ASSERT(stats.expired_keys > stats.evicted_keys);
    CU_ASSERT(stats.expired_keys + stats.evicted_keys > 1500);
    CU_ASSERT_EQUAL(stats.keys, 10000 - stats.expired_keys - stats.evicted_keys);
    shut();
}

/* ---- how much goes ---- */

static void
two_members_take_shares_of_one_need(void)
{
    open_two(STORE_ALLKEYS_RANDOM);
    put_all("k", 20000, 1000, RECORD_NO_EXPIRY);
    uint64_t keys = store_keys(store), record = fixture_stats(store).record_bytes / keys;
    store_relaxed(&store->evict.wanted, (int64_t)MIB);
    for (uint32_t i = 0; i < 100; i++) {
        evict_step(a);
        evict_step(b);
    }
    uint64_t gone = (keys - store_keys(store)) * record;
    CU_ASSERT(gone >= MIB && gone <= MIB + 2 * record);
    CU_ASSERT(load_relaxed(&store->evict.wanted) <= 0);
    shut();
}

static void
what_is_in_limbo_counts_as_free(void)
{
    open_two(STORE_ALLKEYS_LRU);
    put_all("k", 60000, 1000, RECORD_NO_EXPIRY);
    turn();
    store_set_limit(store, LIMIT - 2 * MIB);
    uint64_t before = fixture_stats(store).evicted_keys;
    for (uint32_t i = 0; i < 200; i++) { /* b reports nothing: nothing is freed */
        fixture_turn(a);
        store_manage(store);
    }
    struct store_stats stats = fixture_stats(store);
    uint64_t gone = (stats.evicted_keys - before) * 1040;
    CU_ASSERT(stats.limbo_bytes >= gone);
    CU_ASSERT(gone >= MIB && gone <= 3 * MIB);
    shut();
}

static void
eviction_begins_below_the_limit_and_ends_soon_after(void)
{
    open_two(STORE_ALLKEYS_LRU);
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t i = 0; i < 100000; i++) {
        CU_ASSERT_EQUAL(put("k", i, 1000, RECORD_NO_EXPIRY), STORE_OK);
        if (i > 50000) {
            struct store_stats stats = fixture_stats(store);
            least = MIN(least, stats.memory.used_bytes - stats.limbo_bytes);
            most = MAX(most, stats.memory.used_bytes);
        }
    }
    uint64_t cap = fixture_stats(store).memory.limit_bytes - fixture_stats(store).memory.kept_bytes;
    CU_ASSERT(most <= cap);
    CU_ASSERT(least >= cap / 100 * 85);
    shut();
}

/* ---- published ---- */

struct seen {
    uint64_t removed, last_stamp;
    bool order;
};

static void
see(void *context, struct slice key, uint64_t stamp, const struct record *record)
{
    struct seen *seen = context;
    seen->removed += record == NULL && key.data != NULL;
    seen->order = seen->order && stamp != 0;
}

static void
every_evicted_key_is_published_as_removed(void)
{
    struct seen seen = { .order = true };
    store = fixture_open(2, LIMIT, 20000);
    store_set_policy(store, STORE_ALLKEYS_LRU);
    store_set_published(store, see, &seen);
    a = fixture_join(store, 0);
    b = fixture_join(store, 1);
    put_all("k", 60000, 1000, RECORD_NO_EXPIRY);
    CU_ASSERT(fixture_stats(store).evicted_keys > 20000);
    CU_ASSERT_EQUAL(seen.removed, fixture_stats(store).evicted_keys);
    CU_ASSERT(seen.order);
    shut();
}

/* ---- live ---- */

static uint64_t
monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static bool
is_below(uint64_t limit)
{
    struct store_stats stats = fixture_stats(store);
    return stats.memory.populated_bytes + stats.memory.meta_bytes + stats.fixed_bytes <= limit;
}

static void
a_lowered_limit_is_reached_and_pages_go_back_to_the_system(void)
{
    open_two(STORE_ALLKEYS_LRU);
    put_all("k", 60000, 1000, RECORD_NO_EXPIRY);
    CU_ASSERT(!is_below(LIMIT / 2));
    store_set_limit(store, LIMIT / 2);
    uint64_t until_ms = monotonic_ms() + REACH_MS;
    for (uint32_t i = 0; !is_below(LIMIT / 2) && monotonic_ms() < until_ms; i++) {
        store_set_time(a, a->now_ms + 1);
        store_set_time(b, b->now_ms + 1);
        turn();
        if (i % 30 == 0) {
            nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        }
    }
    CU_ASSERT(is_below(LIMIT / 2));
    CU_ASSERT(fixture_stats(store).keys > 1000);
    CU_ASSERT_EQUAL(put_all("after", 1000, 1000, RECORD_NO_EXPIRY), 0);
    store_set_policy(store, STORE_NOEVICTION);
    turn();
    uint64_t before = fixture_stats(store).evicted_keys;
    uint32_t refused = put_all("refused", 20000, 1000, RECORD_NO_EXPIRY);
    CU_ASSERT(refused > 5000);
    CU_ASSERT_EQUAL(fixture_stats(store).evicted_keys, before);
    shut();
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("evict", NULL, NULL);
    CU_ADD_TEST(suite, without_a_policy_nothing_goes_and_writes_are_refused);
    CU_ADD_TEST(suite, volatile_policies_refuse_when_no_key_expires);
    CU_ADD_TEST(suite, every_policy_takes_four_times_the_memory_without_refusing_and_stays_below_the_limit);
    CU_ADD_TEST(suite, volatile_policies_leave_keys_without_an_expiry);
    CU_ADD_TEST(suite, what_expires_soonest_goes_first);
    CU_ADD_TEST(suite, used_keys_stay_under_lru_and_often_used_ones_under_lfu);
    CU_ADD_TEST(suite, dead_keys_go_before_any_other_and_count_as_expired);
    CU_ADD_TEST(suite, two_members_take_shares_of_one_need);
    CU_ADD_TEST(suite, what_is_in_limbo_counts_as_free);
    CU_ADD_TEST(suite, eviction_begins_below_the_limit_and_ends_soon_after);
    CU_ADD_TEST(suite, every_evicted_key_is_published_as_removed);
    CU_ADD_TEST(suite, a_lowered_limit_is_reached_and_pages_go_back_to_the_system);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
