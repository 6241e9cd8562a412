/* A script of every kind of change, played again and again, each time with another of its allocations refused. A
 * refused command must leave its key as it was, whatever else was under way; once memory is back, everything works and
 * the audit finds nothing.
 *
 * All keys lie in one segment: it gets its first table, grows, has chains of several buckets, holds ghosts and TOMBs,
 * shrinks, and is flushed. Two members take turns, so that each helps the other's rebuilds.
 *
 * usage: test_alloc_fail [STEP]     every STEPth allocation only: sanitizers are slow */
#include "refuse_memory.h"
#include "store_fixture.h"
#include <CUnit/Basic.h>

#define KEYS      150
#define ROUNDS    3 /* of the script: insert, change, remove most, flush; each time with other members and sizes */
#define VALUE_MAX 700
#define LIMIT     (32 * MIB)
#define FOR_EVER  UINT64_MAX / 2

struct mirror {
    bool present;
    uint32_t bytes;
    uint64_t number;
    int64_t expires_at_ms;
};

static struct store *store;
static struct store_member *members[2];
static char texts[KEYS][24];
static struct slice keys[KEYS];
static struct mirror mirrors[KEYS];
static int64_t now_ms;
static uint64_t commands, refused, wrong, step = 1;

/* ---- the store and what it must hold ---- */

static void
open_store(void)
{
    struct store_config config = {
        .memory = { .reserve_bytes = LIMIT, .limit_bytes = LIMIT, .ahead_bytes = 4 * MIB, .huge_pages = true },
        .members = 2,
        .trust_cycle_counter = true,
    };
    CHECK(store_open(&config, &store) == 0);
    now_ms = 1000000;
    memset(mirrors, 0, sizeof(mirrors));
    for (uint32_t i = 0; i < 2; i++) {
        members[i] = fixture_join(store, i);
    }
    for (uint32_t n = 0, found = 0; found < KEYS; n++) {
        snprintf(texts[found], sizeof(texts[0]), "key:%u", n);
        if (index_segment_of(&store->index, store_hash(store, slice_text(texts[found]))) == 0) {
            keys[found] = slice_text(texts[found]);
            found++;
        }
    }
}

static void
close_store(void)
{
    store_leave(members[1]);
    store_leave(members[0]);
    store_close(store);
}

static bool
mirror_is_live(const struct mirror *mirror)
{
    return mirror->present && (mirror->expires_at_ms == RECORD_NO_EXPIRY || now_ms <= mirror->expires_at_ms);
}

static void
key_check(uint32_t n, const char *when)
{
    const struct mirror *mirror = &mirrors[n];
    const struct record *record = fixture_get(members[n % 2], keys[n]);
    bool same = (record != NULL) == mirror_is_live(mirror);
    if (same && record != NULL) {
        uint64_t number = 0;
        memcpy(&number, record_value(record).data, sizeof(number));
        same = number == mirror->number && record->value_bytes == mirror->bytes &&
               record_expires_at_ms(record) == mirror->expires_at_ms;
    }
    if (!same && wrong++ < 5) {
        printf("\n  %s: %s is not as it was, allocation %" PRIu64 " refused\n", when, texts[n], refusals.first);
    }
}

/* ---- changes ---- */

enum kind { PUT, PUT_UNTIL, ADD, RESIZE, EXPIRE, REMOVE };

struct change_of_key {
    enum kind kind;
    uint32_t key;
    struct mirror after; /* of the last run */
};

static enum store_change
script_change(void *context, struct store_member *member, const struct record *old, struct record **fresh)
{
    struct change_of_key *change = context;
    struct mirror *after = &change->after;
    uint64_t number = 0;
    if (old != NULL) {
        memcpy(&number, record_value(old).data, sizeof(number));
    }
    if (change->kind == REMOVE || (change->kind == EXPIRE && old == NULL)) {
        after->present = false;
        return old != NULL ? STORE_REMOVE : STORE_KEEP;
    }
    if (change->kind == ADD) {
        after->number = number + 1;
    } else if (change->kind == EXPIRE || change->kind == RESIZE) {
        after->number = number;
    }
    if (change->kind == EXPIRE) {
        after->bytes = old->value_bytes;
    }
    *fresh = store_record(member, RECORD_STRING, keys[change->key], after->bytes, after->expires_at_ms);
    if (*fresh == NULL) {
        return STORE_NO_MEMORY;
    }
    memset(record_value_room(*fresh), 0, after->bytes);
    memcpy(record_value_room(*fresh), &after->number, sizeof(after->number));
    after->present = true;
    return STORE_PUBLISH;
}

/* Its bucket is frozen, by a rebuild that got no memory: who writes waits until that got some, whatever refused it. */
static bool
waits_for_a_rebuild(uint32_t key)
{
    struct index_place place;
    index_look(&store->index, keys[key], store_hash(store, keys[key]), &place);
    return table_exists(place.table) && (place.word & SLOT_FROZEN) != 0;
}

static void
command(struct store_member *member, enum kind kind, uint32_t key, uint32_t bytes, int64_t expires_at_ms)
{
    struct change_of_key change = { kind, key, { true, bytes, commands * 7, expires_at_ms } };
    commands++;
    enum store_status status = store_update(member, keys[key], store_hash(store, keys[key]), script_change, &change);
    if (status == STORE_OK) {
        mirrors[key] = change.after;
    } else {
        refused++;
        CU_ASSERT(load_relaxed(&refusals.refused) != 0);
        /* What shrinks is never told that memory is full. */
        bool told = kind != REMOVE && refusals.why == MEMORY_AT_LIMIT && !waits_for_a_rebuild(key);
        CU_ASSERT_EQUAL(status, told ? STORE_OOM : STORE_TRY_LATER);
    }
    key_check(key, status == STORE_OK ? "done" : "refused");
}

static void
turn(void)
{
    now_ms++;
    for (uint32_t i = 0; i < 2; i++) {
        store_set_time(members[i], now_ms);
        fixture_turn(members[i]);
    }
}

static void
flush(struct store_member *member)
{
    CU_ASSERT_EQUAL(store_flush(member), STORE_OK);
    memset(mirrors, 0, sizeof(mirrors));
}

static void
script(void)
{
    uint64_t random = 42;
    commands = refused = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t n = 0; n < KEYS; n++) {
            uint64_t dice = fixture_random(&random);
            uint32_t bytes = 8 + (uint32_t)(dice >> 40) % (round % 2 ? VALUE_MAX : 60);
            bool expires = (dice >> 20 & 7) == 0;
            command(members[n / 3 % 2], expires ? PUT_UNTIL : PUT, n, bytes,
                    expires ? now_ms + (int64_t)(dice >> 30 & 31) : RECORD_NO_EXPIRY);
            if (n % 4 == 3) {
                turn();
            }
        }
        for (uint32_t i = 0; i < KEYS; i++) {
            uint64_t dice = fixture_random(&random);
            static const enum kind kinds[] = { ADD, ADD, RESIZE, EXPIRE, REMOVE, PUT };
            enum kind kind = kinds[(dice >> 10) % ARRAY_COUNT(kinds)];
            command(members[dice >> 20 & 1], kind, (uint32_t)(dice >> 32) % KEYS, 8 + (uint32_t)(dice >> 50) % 90,
                    kind == EXPIRE ? now_ms + (int64_t)(dice >> 24 & 31) : RECORD_NO_EXPIRY);
            if (i % 8 == 7) {
                turn();
            }
        }
        for (uint32_t n = 0; n < KEYS; n++) {
            if (n % 16 != round) {
                command(members[n % 2], REMOVE, n, 0, RECORD_NO_EXPIRY);
            }
            if (n % 16 == 15) {
                turn();
            }
        }
        for (uint32_t i = 0; i < 40; i++) {
            turn();
        }
        if (round % 2 == 0) {
            flush(members[round / 2 % 2]);
        }
        store_manage(store);
    }
}

/* Memory is back: nothing is refused, nothing is left half done. */
static void
all_works_again(void)
{
    refusals.last = 0;
    for (uint32_t n = 0; n < KEYS; n++) {
        key_check(n, "at the end");
    }
    uint64_t refused_before = refused;
    for (uint32_t n = 0; n < KEYS; n++) {
        command(members[n % 2], n % 3 == 0 ? ADD : n % 3 == 1 ? REMOVE : PUT, n, 30, RECORD_NO_EXPIRY);
        turn();
    }
    CU_ASSERT_EQUAL(refused, refused_before);
    for (uint32_t i = 0; i < 100; i++) {
        turn();
    }
    store_offline(members[1]);
    CU_ASSERT_TRUE(audit_passes(members[0], 0));
    store_online(members[1]);
}

/* Returns the takes of the script. */
static uint64_t
play(uint64_t n, uint64_t count, enum memory_refusal why)
{
    open_store();
    refuse_memory(n, count, why);
    wrong = 0;
    script();
    uint64_t takes = load_relaxed(&refusals.takes);
    all_works_again();
    CU_ASSERT_EQUAL(wrong, 0);
    close_store();
    return takes;
}

/* ---- tests ---- */

static void
the_script_does_all_that_takes_memory(void)
{
    open_store();
    refuse_memory(0, 0, MEMORY_NO_PAGE);
    script();
    struct store_stats stats;
    store_stats(store, &stats);
    CU_ASSERT_EQUAL(refused, 0);
    CU_ASSERT(load_relaxed(&refusals.takes) > 1000);
    CU_ASSERT(stats.rebuilds > 4);
    CU_ASSERT(stats.chain_buckets_max > 1);
    CU_ASSERT(stats.expired_keys > 20);
    all_works_again();
    close_store();
}

static void
one_refused_allocation_leaves_nothing_half_done(void)
{
    uint64_t takes = play(0, 0, MEMORY_NO_PAGE), refusing = 0;
    for (uint64_t n = 1; n <= takes; n += step) {
        (void)play(n, 1, n % 2 ? MEMORY_NO_PAGE : MEMORY_AT_LIMIT);
        refusing += refused != 0;
    }
    CU_ASSERT(refusing > takes / step / 2); /* of the others: ghosts, and rebuilds, which come again by themselves */
}

static void
allocations_refused_for_a_while_leave_nothing_half_done(void)
{
    uint64_t takes = play(0, 0, MEMORY_NO_PAGE);
    for (uint64_t n = 1; n <= takes; n += 13 * step) {
        (void)play(n, 2 + n % 50, n % 2 ? MEMORY_NO_PAGE : MEMORY_AT_LIMIT);
    }
}

static void
allocations_refused_for_ever_leave_nothing_half_done(void)
{
    uint64_t takes = play(0, 0, MEMORY_NO_PAGE);
    for (uint64_t n = 1; n <= takes; n += 29 * step) {
        (void)play(n, FOR_EVER, n % 2 ? MEMORY_NO_PAGE : MEMORY_AT_LIMIT);
        CU_ASSERT(refused != 0 || n > takes / 2); /* towards the end keys only go */
    }
}

int
main(int argc, char **argv)
{
    step = argc > 1 ? MAX(strtoull(argv[1], NULL, 10), 1ull) : 1;
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("alloc_fail", NULL, NULL);
    CU_ADD_TEST(suite, the_script_does_all_that_takes_memory);
    CU_ADD_TEST(suite, one_refused_allocation_leaves_nothing_half_done);
    CU_ADD_TEST(suite, allocations_refused_for_a_while_leave_nothing_half_done);
    CU_ADD_TEST(suite, allocations_refused_for_ever_leave_nothing_half_done);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    return CU_get_number_of_failures() != 0;
}
