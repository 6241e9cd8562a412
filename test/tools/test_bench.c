/* test_bench.c - sluice-bench: digits, schedules, and replies counted wherever they are cut. */
#include "codec/sbe_client.h"
#include "tools/bench/load.h"
#include <CUnit/Basic.h>

static void
digits_are_twelve(void)
{
    static const struct {
        uint64_t number;
        const char *digits;
    } rows[] = { { 0, "000000000000" },
                 { 7, "000000000007" },
                 { 99999999, "000099999999" },
                 { 100000000, "000100000000" },
                 { 123456789012, "123456789012" },
                 { 999999999999, "999999999999" } };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char out[13] = "xxxxxxxxxxxx";
        load_digits((uint8_t *)out, rows[i].number);
        CU_ASSERT_STRING_EQUAL(out, rows[i].digits);
    }
}

static void
random_numbers_stay_below_and_cover(void)
{
    struct load_random random = { 1 };
    uint32_t seen[7] = { 0 };
    for (int i = 0; i < 7000; i++) {
        uint64_t number = load_random_below(&random, 7);
        CU_ASSERT_FATAL(number < 7);
        seen[number]++;
    }
    for (int i = 0; i < 7; i++) {
        CU_ASSERT(seen[i] > 800 && seen[i] < 1200);
    }
}

static void
a_mix_is_spread_by_weight(void)
{
    struct load_op ops[3] = { { .weight = 90 }, { .weight = 9 }, { .weight = 1 } };
    uint8_t schedule[SCANNER_SCHEDULE_MAX];
    uint32_t seen[3] = { 0 }, count = load_schedule(ops, 3, schedule);
    CU_ASSERT_EQUAL_FATAL(count, 100);
    for (uint32_t i = 0; i < count; i++) {
        seen[schedule[i]]++;
    }
    CU_ASSERT_EQUAL(seen[0], 90);
    CU_ASSERT_EQUAL(seen[1], 9);
    CU_ASSERT_EQUAL(seen[2], 1);
    ops[0].weight = 1;
    CU_ASSERT_EQUAL(load_schedule(ops, 1, schedule), 1);
}

/* ---- the scanner ---- */

static const char REPLIES[] =
    "+OK\r\n$4\r\nabcd\r\n:12\r\n$-1\r\n-ERR no\r\n$3\r\nabc\r\n$3\r\n1.5\r\n*2\r\n:1\r\n*1\r\n$0\r\n\r\n";

static void
scanner_of_replies(struct scanner *scanner)
{
    static const enum expected_kind kinds[] = { EXPECT_OK,    EXPECT_VALUE, EXPECT_INTEGER, EXPECT_VALUE,
                                                EXPECT_VALUE, EXPECT_VALUE, EXPECT_DOUBLE,  EXPECT_ANY };
    scanner_init(scanner, CLIENT_RESP2, 4);
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        scanner_expect(scanner, kinds[i]);
    }
}

static void
replies_are_counted_wherever_they_are_cut(void)
{
    size_t all = sizeof(REPLIES) - 1;
    for (size_t step = 1; step <= all; step++) {
        struct scanner scanner;
        size_t taken = 0;
        scanner_of_replies(&scanner);
        for (size_t have = step; taken < all; have = MIN(have + step, all)) {
            char *copy = malloc(have - taken + 1);
            memcpy(copy, REPLIES + taken, have - taken);
            taken += scanner_scan(&scanner, slice_of(copy, have - taken));
            free(copy);
            CU_ASSERT_FATAL(taken <= have);
            CU_ASSERT_PTR_NULL_FATAL(scanner.malformed);
        }
        CU_ASSERT_EQUAL(scanner.replies, 8);
        CU_ASSERT_EQUAL(scanner.misses, 1);
        CU_ASSERT_EQUAL(scanner.errors, 1);
        CU_ASSERT_EQUAL(scanner.surprises, 1); /* the value of 3 bytes */
        CU_ASSERT_STRING_EQUAL(scanner.first_error, "ERR no");
    }
}

static void
replies_of_the_wrong_type_are_noticed(void)
{
    static const struct {
        enum expected_kind kind;
        const char *wire;
        uint32_t misses, errors, surprises;
    } rows[] = {
        { EXPECT_OK, "+QUEUED\r\n", 0, 0, 1 },
        { EXPECT_OK, ":1\r\n", 0, 0, 1 },
        { EXPECT_OK, "$-1\r\n", 0, 0, 1 },
        { EXPECT_PONG, "+OK\r\n", 0, 0, 1 },
        { EXPECT_INTEGER, "+OK\r\n", 0, 0, 1 },
        { EXPECT_INTEGER, "$1\r\n1\r\n", 0, 0, 1 },
        { EXPECT_VALUE, "$5\r\nabcde\r\n", 0, 0, 1 },
        { EXPECT_VALUE, "_\r\n", 1, 0, 0 },
        { EXPECT_DOUBLE, ",1.5\r\n", 0, 0, 0 },
        { EXPECT_DOUBLE, ":1\r\n", 0, 0, 1 },
        { EXPECT_BULK, "$-1\r\n", 1, 0, 0 },
        { EXPECT_ANY, "-OOM x\r\n", 0, 1, 0 },
        { EXPECT_ANY, "*-1\r\n", 0, 0, 0 },
        { EXPECT_PONG, "+PONG\r\n", 0, 0, 0 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct scanner scanner;
        scanner_init(&scanner, CLIENT_RESP2, 4);
        scanner_expect(&scanner, rows[i].kind);
        CU_ASSERT_EQUAL(scanner_scan(&scanner, slice_text(rows[i].wire)), strlen(rows[i].wire));
        CU_ASSERT_EQUAL(scanner.replies, 1);
        CU_ASSERT_EQUAL(scanner.misses, rows[i].misses);
        CU_ASSERT_EQUAL(scanner.errors, rows[i].errors);
        CU_ASSERT_EQUAL(scanner.surprises, rows[i].surprises);
    }
}

static void
a_value_of_another_length_is_noticed_on_sbe(void)
{
    for (uint32_t bytes = 3; bytes <= 5; bytes++) {
        uint8_t frame[64];
        struct scanner scanner;
        size_t head = SBE_FRAME_HEADER_BYTES + SBE_BULK_REPLY_HEAD_BYTES;
        sbe_store_uint32(frame, (uint32_t)(SBE_BULK_REPLY_HEAD_BYTES + SBE_LENGTH_BYTES + bytes));
        sbe_bulk_reply_put(frame + SBE_FRAME_HEADER_BYTES, 7);
        sbe_put_data(frame + head, slice_of((const uint8_t *)"abcde", bytes));
        scanner_init(&scanner, CLIENT_SBE, 4);
        scanner_expect(&scanner, EXPECT_VALUE);
        size_t all = head + SBE_LENGTH_BYTES + bytes;
        CU_ASSERT_EQUAL(scanner_scan(&scanner, slice_of(frame, all)), all);
        CU_ASSERT_EQUAL(scanner.replies, 1);
        CU_ASSERT_EQUAL(scanner.surprises, bytes != 4);
    }
}

static void
what_is_no_reply_stops_the_count(void)
{
    static const char *const wires[] = { "?\r\n", "$4\r\nabcdXX", "PING\r\n" };
    for (size_t i = 0; i < ARRAY_COUNT(wires); i++) {
        struct scanner scanner;
        scanner_init(&scanner, CLIENT_RESP2, 4);
        scanner_expect(&scanner, EXPECT_VALUE);
        CU_ASSERT_EQUAL(scanner_scan(&scanner, slice_text(wires[i])), 0);
        CU_ASSERT_PTR_NOT_NULL(scanner.malformed);
    }
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("bench", NULL, NULL);
    CU_ADD_TEST(suite, digits_are_twelve);
    CU_ADD_TEST(suite, random_numbers_stay_below_and_cover);
    CU_ADD_TEST(suite, a_mix_is_spread_by_weight);
    CU_ADD_TEST(suite, replies_are_counted_wherever_they_are_cut);
    CU_ADD_TEST(suite, replies_of_the_wrong_type_are_noticed);
    CU_ADD_TEST(suite, a_value_of_another_length_is_noticed_on_sbe);
    CU_ADD_TEST(suite, what_is_no_reply_stops_the_count);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
