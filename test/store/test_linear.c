#include "test/store/linear_keys.h"
#include <CUnit/Basic.h>

static struct linear *linear;

static enum linear_verdict
verdict_of(const struct keys_operation *operations, uint32_t count)
{
    static const struct keys_state empty;
    FILE *nowhere = fopen("/dev/null", "w");
    CHECK(nowhere != NULL);
    enum linear_verdict verdict = keys_check(linear, &empty, operations, count, nowhere);
    fclose(nowhere);
    return verdict;
}

#define FOUND(k, n)           .found = { [k] = { 1, n, KEYS_NEVER } }
#define FOUND_UNTIL(k, n, t)  .found = { [k] = { 1, n, t } }
#define SET(from, to, k, n)   .kind = KEYS_SET, .begin = from, .end = to, .key = k, .argument = n, .until_ms = KEYS_NEVER
#define OP(what, from, to, k) .kind = KEYS_##what, .begin = from, .end = to, .key = k
#define ROW_OPERATIONS        6

/* Operations end at the first whose end is 0. */
static const struct row {
    const char *name;
    enum linear_verdict verdict;
    struct keys_operation operations[ROW_OPERATIONS];
} rows[] = {
    { "nothing happened", LINEAR_YES, { { 0 } } },
    { "a value from nowhere", LINEAR_NO, { { OP(GET, 1, 2, 0), FOUND(0, 7) } } },
    { "a read after a write finds it", LINEAR_YES, { { SET(1, 2, 0, 7) }, { OP(GET, 3, 4, 0), FOUND(0, 7) } } },
    { "a read after a write does not find it", LINEAR_NO, { { SET(1, 2, 0, 7) }, { OP(GET, 3, 4, 0) } } },
    { "a read before a write finds it", LINEAR_NO, { { OP(GET, 1, 2, 0), FOUND(0, 7) }, { SET(3, 4, 0, 7) } } },
    { "a read during a write finds it", LINEAR_YES, { { SET(1, 4, 0, 7) }, { OP(GET, 2, 3, 0), FOUND(0, 7) } } },
    { "a read during a write does not find it", LINEAR_YES, { { SET(1, 4, 0, 7) }, { OP(GET, 2, 3, 0) } } },
    { "two reads during a write, new then old",
      LINEAR_NO,
      { { SET(1, 6, 0, 7) }, { OP(GET, 2, 3, 0), FOUND(0, 7) }, { OP(GET, 4, 5, 0) } } },
    { "two reads during a write, old then new",
      LINEAR_YES,
      { { SET(1, 6, 0, 7) }, { OP(GET, 2, 3, 0) }, { OP(GET, 4, 5, 0), FOUND(0, 7) } } },
    { "two INCR at once found the same value",
      LINEAR_NO,
      { { SET(1, 2, 0, 5) }, { OP(INCR, 3, 6, 0), FOUND(0, 5) }, { OP(INCR, 4, 5, 0), FOUND(0, 5) } } },
    { "two INCR at once, the later one first",
      LINEAR_YES,
      { { SET(1, 2, 0, 5) }, { OP(INCR, 3, 6, 0), FOUND(0, 6) }, { OP(INCR, 4, 5, 0), FOUND(0, 5) } } },
    { "a lost update shows later",
      LINEAR_NO,
      { { OP(INCR, 1, 2, 0) }, { OP(INCR, 3, 4, 0), FOUND(0, 1) }, { OP(GET, 5, 6, 0), FOUND(0, 1) } } },
    { "two SETNX both found nothing", LINEAR_NO, { { OP(SETNX, 1, 4, 0) }, { OP(SETNX, 2, 3, 0) } } },
    { "DEL lets the second SETNX in",
      LINEAR_YES,
      { { OP(SETNX, 1, 2, 0), .argument = 3, .until_ms = KEYS_NEVER },
        { OP(DEL, 3, 6, 0), FOUND(0, 3) },
        { OP(SETNX, 4, 5, 0) } } },
    { "two DEL removed one value",
      LINEAR_NO,
      { { SET(1, 2, 0, 3) }, { OP(DEL, 3, 6, 0), FOUND(0, 3) }, { OP(DEL, 4, 5, 0), FOUND(0, 3) } } },
    { "an order that differs between keys",
      LINEAR_YES,
      { { SET(1, 8, 0, 1) }, { SET(2, 7, 1, 1) }, { OP(GET, 3, 4, 0), FOUND(0, 1) }, { OP(GET, 5, 6, 1) } } },
    { "MGET sees the second write and not the first",
      LINEAR_NO,
      { { SET(1, 2, 0, 1) }, { SET(3, 4, 1, 2) }, { OP(MGET, 5, 6, 0), FOUND(1, 2) } } },
    { "two MGET see two writes in two orders",
      LINEAR_NO,
      { { SET(1, 8, 0, 1) },
        { SET(2, 7, 1, 2) },
        { OP(MGET, 3, 6, 0), FOUND(0, 1) },
        { OP(MGET, 4, 5, 0), FOUND(1, 2) } } },
    { "a value survives FLUSHALL",
      LINEAR_NO,
      { { SET(1, 2, 0, 1) }, { OP(FLUSH, 3, 4, 0) }, { OP(GET, 5, 6, 0), FOUND(0, 1) } } },
    { "FLUSHALL removes one key and not the other",
      LINEAR_NO,
      { { SET(1, 2, 0, 1) },
        { SET(3, 4, 1, 2) },
        { OP(FLUSH, 5, 10, 0) },
        { OP(GET, 6, 7, 0) },
        { OP(GET, 8, 9, 1), FOUND(1, 2) } } },
    { "a write during FLUSHALL stays",
      LINEAR_YES,
      { { OP(FLUSH, 1, 4, 0) }, { SET(2, 3, 0, 1) }, { OP(GET, 5, 6, 0), FOUND(0, 1) } } },
    { "a key at its last millisecond is there",
      LINEAR_YES,
      { { OP(SET, 1, 2, 0), .argument = 1, .until_ms = 9 }, { OP(GET, 3, 4, 0), FOUND_UNTIL(0, 1, 9), .now_ms = 9 } } },
    { "an expired key is there",
      LINEAR_NO,
      { { OP(SET, 1, 2, 0), .argument = 1, .until_ms = 9 },
        { OP(GET, 3, 4, 0), FOUND_UNTIL(0, 1, 9), .now_ms = 10 } } },
    { "a key is gone before its time",
      LINEAR_NO,
      { { OP(SET, 1, 2, 0), .argument = 1, .until_ms = 9 }, { OP(GET, 3, 4, 0), .now_ms = 9, .latest_ms = 9 } } },
    { "a key was swept by a member that is ahead",
      LINEAR_YES,
      { { OP(SET, 1, 2, 0), .argument = 1, .until_ms = 9 }, { OP(GET, 3, 4, 0), .now_ms = 9, .latest_ms = 10 } } },
    { "a swept key is back",
      LINEAR_NO,
      { { OP(SET, 1, 2, 0), .argument = 1, .until_ms = 9 },
        { OP(GET, 3, 4, 0), .now_ms = 9, .latest_ms = 10 },
        { OP(GET, 5, 6, 0), FOUND_UNTIL(0, 1, 9), .now_ms = 9, .latest_ms = 10 } } },
    { "PERSIST lost to a later EXPIRE",
      LINEAR_YES,
      { { OP(SET, 1, 2, 0), .argument = 1, .until_ms = 9 },
        { OP(PERSIST, 3, 4, 0), FOUND_UNTIL(0, 1, 9) },
        { OP(EXPIRE, 5, 6, 0), FOUND(0, 1), .until_ms = 5 },
        { OP(GET, 7, 8, 0), .now_ms = 6 } } },
};

static void
known_histories_are_judged_right(void)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        uint32_t count = 0;
        while (count < ROW_OPERATIONS && rows[i].operations[count].end != 0) {
            count++;
        }
        enum linear_verdict verdict = verdict_of(rows[i].operations, count);
        if (verdict != rows[i].verdict) {
            printf("\n  %s: %d\n", rows[i].name, verdict);
        }
        CU_ASSERT_EQUAL(verdict, rows[i].verdict);
    }
}

/* All at once, and only one order is right: the search must not try all 12! of them. */
static void
many_operations_at_once_are_decided(void)
{
    struct keys_operation operations[12];
    for (uint32_t i = 0; i < ARRAY_COUNT(operations); i++) {
        uint32_t found = (i * 5 + 3) % ARRAY_COUNT(operations);
        operations[i] = (struct keys_operation){ OP(INCR, i + 1, 100 + i, 0) };
        operations[i].found[0] = (struct keys_value){ found != 0, found, found != 0 ? KEYS_NEVER : 0 };
    }
    CU_ASSERT_EQUAL(verdict_of(operations, ARRAY_COUNT(operations)), LINEAR_YES);
    operations[7].found[0].number ^= 1;
    CU_ASSERT_EQUAL(verdict_of(operations, ARRAY_COUNT(operations)), LINEAR_NO);
}

static void
a_search_beyond_its_memory_is_undecided(void)
{
    struct linear *large = linear;
    linear = linear_open(4);
    struct keys_operation operations[10];
    for (uint32_t i = 0; i < ARRAY_COUNT(operations); i++) {
        operations[i] = (struct keys_operation){ SET(i + 1, 100 + i, 0, i) };
        operations[i].found[0] = (struct keys_value){ 1, 99, KEYS_NEVER };
    }
    operations[0].found[0] = (struct keys_value){ 0 };
    operations[1].found[0].number = 0;
    operations[2].found[0].number = 1;
    operations[3].found[0].number = 2;
    operations[4].found[0].number = 3;
    operations[5].found[0].number = 4;
    CU_ASSERT_EQUAL(verdict_of(operations, ARRAY_COUNT(operations)), LINEAR_UNDECIDED);
    linear_close(linear);
    linear = large;
    CU_ASSERT_EQUAL(verdict_of(operations, ARRAY_COUNT(operations)), LINEAR_NO);
}

/* Against every order of five operations, tried out one after the other. */
static bool
explained_by_trying(const struct keys_operation *operations, uint32_t count, uint32_t taken, struct keys_value value)
{
    if (taken == (1u << count) - 1) {
        return true;
    }
    for (uint32_t i = 0; i < count; i++) {
        bool next = (taken >> i & 1) == 0;
        for (uint32_t j = 0; j < count; j++) {
            next = next && ((taken >> j & 1) != 0 || j == i || operations[j].end > operations[i].begin);
        }
        const struct keys_value *found = &operations[i].found[0];
        struct keys_value fresh = value;
        if (next && memcmp(found, &value, sizeof(value)) == 0) {
            if (!keys_change(&operations[i], found, &fresh)) {
                fresh = value;
            }
            if (explained_by_trying(operations, count, taken | 1u << i, fresh)) {
                return true;
            }
        }
    }
    return false;
}

static void
short_histories_are_judged_as_by_trying_every_order(void)
{
    uint64_t random = 88172645463325252ull;
    uint32_t linearizable = 0;
    for (uint32_t round = 0; round < 20000; round++) {
        struct keys_operation operations[5];
        uint32_t places[10], count = ARRAY_COUNT(operations);
        for (uint32_t i = 0; i < 10; i++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            uint32_t at = (uint32_t)(random % (i + 1));
            places[i] = places[at];
            places[at] = i + 1;
        }
        for (uint32_t i = 0; i < count; i++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            static const enum keys_kind kinds[] = { KEYS_GET, KEYS_SET, KEYS_INCR, KEYS_DEL };
            uint32_t found = (uint32_t)(random >> 20) % 4;
            operations[i] = (struct keys_operation){
                .kind = kinds[random % 4],
                .begin = MIN(places[2 * i], places[2 * i + 1]),
                .end = MAX(places[2 * i], places[2 * i + 1]),
                .argument = 1 + (random >> 10) % 2,
                .until_ms = KEYS_NEVER,
                .found[0] = { found != 0, found, found != 0 ? KEYS_NEVER : 0 },
            };
        }
        bool expected = explained_by_trying(operations, count, 0, (struct keys_value){ 0 });
        CU_ASSERT_EQUAL(verdict_of(operations, count) == LINEAR_YES, expected);
        linearizable += expected;
    }
    CU_ASSERT(linearizable > 100 && linearizable < 19900);
}

static void
a_failure_names_the_operations_that_cannot_be_next(void)
{
    static const struct keys_state empty;
    static const struct keys_operation operations[] = { { SET(1, 2, 0, 10), .member = 1 },
                                                        { OP(INCR, 3, 4, 0), FOUND(0, 9), .member = 2 } };
    char text[1000] = { 0 };
    FILE *out = fmemopen(text, sizeof(text), "w");
    CHECK(out != NULL);
    CU_ASSERT_EQUAL(keys_check(linear, &empty, operations, 2, out), LINEAR_NO);
    fclose(out);
    const char *none = strstr(text, "none of these");
    CU_ASSERT_PTR_NOT_NULL_FATAL(none);
    CU_ASSERT(strstr(text, "member 1  SET a") != NULL && strstr(text, "member 1  SET a") < none);
    CU_ASSERT_PTR_NOT_NULL(strstr(none, "member 2  INCR a"));
}

int
main(void)
{
    linear = linear_open(1 << 16);
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("linear", NULL, NULL);
    CU_ADD_TEST(suite, known_histories_are_judged_right);
    CU_ADD_TEST(suite, many_operations_at_once_are_decided);
    CU_ADD_TEST(suite, a_search_beyond_its_memory_is_undecided);
    CU_ADD_TEST(suite, short_histories_are_judged_as_by_trying_every_order);
    CU_ADD_TEST(suite, a_failure_names_the_operations_that_cannot_be_next);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    linear_close(linear);
    return CU_get_number_of_failures() != 0;
}
