/* test_resp_limits.c - every limit of the RESP decoder at limit - 1, limit and limit + 1, in one piece and in pieces.
 */
#include "test/codec/resp_driver.h"
#include <CUnit/Basic.h>

#define WIRE_BYTES (LIMIT_REQUEST_BYTES + 64 * KIB)

static uint8_t *wire;
static size_t wire_bytes;

static void
wire_add(const char *format, size_t number)
{
    char text[64];
    int bytes = snprintf(text, sizeof(text), format, number);
    memcpy(wire + wire_bytes, text, (size_t)bytes);
    wire_bytes += (size_t)bytes;
}

static void
wire_fill(uint8_t c, size_t bytes)
{
    memset(wire + wire_bytes, c, bytes);
    wire_bytes += bytes;
}

/* `error` is what follows "ERR Protocol error: ", NULL for a good request. */
static bool
outcome_is(const struct resp_outcome *outcome, const char *error, uint32_t args)
{
    if (error == NULL) {
        return outcome->status == CODEC_OK && outcome->wire_bytes == wire_bytes && outcome->args_count == args;
    }
    return outcome->status == CODEC_MALFORMED && strcmp(outcome->error + 20, error) == 0;
}

static void
wire_answers(const struct decode_limits *limits, const char *error, uint32_t args)
{
    static const size_t steps[] = { 4001, 16384, 65537 };
    struct slice all = slice_of(wire, wire_bytes);

    CU_ASSERT_TRUE(outcome_is(resp_drive(all, wire_bytes, 0, limits), error, args));
    if (wire_bytes <= 40000) {
        CU_ASSERT_TRUE(outcome_is(resp_drive_wanted(all, limits), error, args));
    }
    for (uint32_t i = 0; i < ARRAY_COUNT(steps); i++) {
        CU_ASSERT_TRUE(outcome_is(resp_drive(all, steps[i], steps[i], limits), error, args));
    }
    for (size_t left = 1; left <= 3; left++) { /* the last bytes come late */
        CU_ASSERT_TRUE(outcome_is(resp_drive(all, wire_bytes - left, 1, limits), error, args));
    }
    wire_bytes = 0;
}

static void
multibulk_of(size_t bulks, size_t bulk_bytes)
{
    wire_add("*%zu\r\n", bulks);
    for (size_t i = 0; i < bulks; i++) {
        wire_add("$%zu\r\n", bulk_bytes);
        wire_fill((uint8_t)('a' + i % 26), bulk_bytes);
        wire_fill('\r', 1);
        wire_fill('\n', 1);
    }
}

static void
arguments_are_limited(void)
{
    for (uint32_t args = LIMIT_REQUEST_ARGS - 1; args <= LIMIT_REQUEST_ARGS + 1; args++) {
        multibulk_of(args + 1, 3);
        wire_answers(&resp_limits_full, args > LIMIT_REQUEST_ARGS ? "invalid multibulk length" : NULL, args);
    }
    for (uint32_t args = LIMIT_UNAUTH_ARGS - 1; args <= LIMIT_UNAUTH_ARGS + 1; args++) {
        multibulk_of(args + 1, 3);
        wire_answers(&resp_limits_unauth, args > LIMIT_UNAUTH_ARGS ? "unauthenticated multibulk length" : NULL, args);
    }
    for (uint32_t args = 0; args <= 3; args++) { /* counts of one digit have a path of their own */
        struct decode_limits few = { 2, LIMIT_VALUE_BYTES, LIMIT_REQUEST_BYTES };
        multibulk_of(args + 1, 3);
        wire_answers(&few, args > 2 ? "unauthenticated multibulk length" : NULL, args);
    }
}

static void
one_argument_is_limited(void)
{
    for (size_t bytes = LIMIT_VALUE_BYTES - 1; bytes <= LIMIT_VALUE_BYTES + 1; bytes++) {
        multibulk_of(1, bytes);
        wire_answers(&resp_limits_full, bytes > LIMIT_VALUE_BYTES ? "invalid bulk length" : NULL, 0);
    }
    for (size_t bytes = LIMIT_UNAUTH_ARG_BYTES - 1; bytes <= LIMIT_UNAUTH_ARG_BYTES + 1; bytes++) {
        multibulk_of(2, bytes);
        wire_answers(&resp_limits_unauth, bytes > LIMIT_UNAUTH_ARG_BYTES ? "unauthenticated bulk length" : NULL, 1);
    }
    for (size_t bytes = 9; bytes <= 101; bytes++) { /* lengths of one and two digits have a path of their own */
        struct decode_limits small = { LIMIT_REQUEST_ARGS, 50, LIMIT_REQUEST_BYTES };
        multibulk_of(2, bytes);
        wire_answers(&small, bytes > 50 ? "unauthenticated bulk length" : NULL, 1);
    }
}

static void
what_a_caller_allows_never_exceeds_the_fixed_limits(void)
{
    static const struct decode_limits wide = { UINT32_MAX, SIZE_MAX, UINT32_MAX - 1 };
    for (uint32_t over = 0; over <= 1; over++) {
        multibulk_of(LIMIT_REQUEST_ARGS + 1 + over, 3);
        wire_answers(&wide, over ? "invalid multibulk length" : NULL, LIMIT_REQUEST_ARGS);
        multibulk_of(1, LIMIT_VALUE_BYTES + over);
        wire_answers(&wide, over ? "invalid bulk length" : NULL, 0);
        for (uint32_t i = 0; i <= LIMIT_REQUEST_ARGS + over; i++) {
            wire_add("x ", 0);
        }
        wire_fill('\n', 1);
        wire_answers(&wide, over ? "too big inline request" : NULL, LIMIT_REQUEST_ARGS);
    }
}

static void
a_whole_request_is_limited(void)
{
    for (size_t over = 0; over <= 2; over++) {
        size_t total = LIMIT_REQUEST_BYTES - 1 + over, half = 600000;
        wire_add("*3\r\n$4\r\nMSET\r\n$%zu\r\n", half);
        wire_fill('x', half);
        size_t last = total - wire_bytes - 2 - strlen("$000000\r\n\r\n");
        wire_add("\r\n$%zu\r\n", last);
        wire_fill('y', last);
        wire_fill('\r', 1);
        wire_fill('\n', 1);
        CU_ASSERT_EQUAL(wire_bytes, total);
        wire_answers(&resp_limits_full, over == 2 ? "too big request" : NULL, 2);
    }
}

static void
an_inline_request_is_limited(void)
{
    for (size_t bytes = LIMIT_INLINE_BYTES - 1; bytes <= LIMIT_INLINE_BYTES + 1; bytes++) {
        for (size_t cr = 0; cr <= 1; cr++) { /* a CR counts: it may as well be a byte of the request */
            wire_add("GET ", 0);
            wire_fill('k', bytes - 4 - cr);
            wire_fill('\r', cr);
            wire_fill('\n', 1);
            wire_answers(&resp_limits_full, bytes > LIMIT_INLINE_BYTES ? "too big inline request" : NULL, 1);
        }
    }
    for (uint32_t args = LIMIT_REQUEST_ARGS - 1; args <= LIMIT_REQUEST_ARGS + 1; args++) {
        wire_add("DEL", 0);
        for (uint32_t i = 0; i < args; i++) {
            wire_add(i % 3 ? " '%zu'" : " %zu", i);
        }
        wire_fill('\n', 1);
        wire_answers(&resp_limits_full, args > LIMIT_REQUEST_ARGS ? "too big inline request" : NULL, args);
    }
}

static void
an_inline_request_before_auth_has_the_limits_of_any_other(void)
{
    for (uint32_t args = LIMIT_UNAUTH_ARGS - 1; args <= LIMIT_UNAUTH_ARGS + 1; args++) {
        wire_add("AUTH", 0);
        for (uint32_t i = 0; i < args; i++) {
            wire_add(" %zu", i);
        }
        wire_fill('\n', 1);
        wire_answers(&resp_limits_unauth, args > LIMIT_UNAUTH_ARGS ? "unauthenticated multibulk length" : NULL, args);
    }
    for (size_t bytes = LIMIT_UNAUTH_ARG_BYTES - 1; bytes <= LIMIT_UNAUTH_ARG_BYTES + 1; bytes++) {
        wire_add("AUTH \"", 0);
        wire_fill('p', bytes);
        wire_add("\"\r\n", 0);
        wire_answers(&resp_limits_unauth, bytes > LIMIT_UNAUTH_ARG_BYTES ? "unauthenticated bulk length" : NULL, 1);
    }
}

static void
a_length_line_is_limited(void)
{
    for (size_t bytes = LIMIT_INLINE_BYTES - 1; bytes <= LIMIT_INLINE_BYTES + 1; bytes++) {
        bool over = bytes > LIMIT_INLINE_BYTES;
        wire_fill('*', 1);
        wire_fill('1', bytes - 1);
        wire_add("\r\n", 0);
        wire_answers(&resp_limits_full, over ? "too big mbulk count string" : "invalid multibulk length", 0);
        wire_add("*2\r\n$3\r\nGET\r\n$", 0);
        wire_fill('1', bytes - 1);
        wire_add("\r\n", 0);
        wire_answers(&resp_limits_full, over ? "too big bulk count string" : "invalid bulk length", 0);
    }
}

static void
bytes_without_a_line_end_are_refused_after_a_bounded_amount(void)
{
    static const struct {
        const char *start;
        size_t start_bytes;
        const char *error;
    } rows[] = {
        { "\0", 1, "NUL in inline request" },           { "*\0", 2, "too big mbulk count string" },
        { "$\0", 2, "NUL in inline request" },          { "A", 1, "too big inline request" },
        { "*1", 2, "too big mbulk count string" },      { "*1\r\n$", 5, "too big bulk count string" },
        { "*1\r\n$1", 6, "too big bulk count string" }, { "*1\r\n\0", 5, "expected '$', got '?'" },
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        memcpy(wire, rows[i].start, rows[i].start_bytes);
        wire_bytes = rows[i].start_bytes;
        wire_fill('A', LIMIT_INLINE_BYTES + 8 - wire_bytes);
        wire_answers(&resp_limits_full, rows[i].error, 0);
    }
}

static uint32_t seed = 1;

static uint32_t
random_below(uint32_t bound)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % bound;
}

/* A request that is mostly right, under limits about as large as it: every order in which limits and faults can be met.
 */
static void
whatever_the_limits_the_cut_does_not_decide(void)
{
    for (uint32_t i = 0; i < 60000; i++) {
        struct decode_limits limits = { random_below(13), random_below(130), random_below(260) };
        uint32_t bulks = random_below(i % 4 ? 6 : 13);

        wire_bytes = 0;
        if (i % 8 == 0) {
            for (uint32_t word = 0; word < bulks; word++) {
                wire_fill(word % 3 ? 'a' : '"', 1);
                wire_fill((uint8_t)('a' + word), random_below(20));
                wire_fill(word % 3 ? ' ' : '"', 1);
                wire_fill(' ', random_below(2));
            }
            wire_add("\r\n", 0);
        } else {
            wire_add("*%zu\r\n", bulks);
            for (uint32_t bulk = 0; bulk < bulks; bulk++) {
                size_t bytes = random_below(i % 3 ? 12 : 130);
                wire_add("$%zu\r\n", bytes);
                wire_fill('x', bytes);
                wire_add("\r\n", 0);
            }
        }
        if (i & 1) {
            wire[random_below((uint32_t)wire_bytes)] = (uint8_t) "\r\n$*0195-aA\"' \0"[random_below(16)];
        }
        struct slice all = slice_of(wire, wire_bytes);
        const struct resp_outcome *whole = resp_drive(all, wire_bytes, 0, &limits);
        const struct resp_outcome *pieces = i % 16 < 2
                                                ? resp_drive(all, 0, 1, &limits)
                                                : resp_drive(all, random_below(40), 1 + random_below(90), &limits);
        if (!resp_outcome_equal(whole, pieces)) {
            fprintf(stderr, "%.*s: %s / %s\n", (int)wire_bytes, wire, whole->error, pieces->error);
            CU_FAIL("the cut decides");
            return;
        }
        if (whole->status == CODEC_OK) {
            CU_ASSERT_TRUE(whole->args_count <= limits.args_max &&
                           whole->wire_bytes <= MAX(limits.request_bytes_max + 1, 5));
        }
    }
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("resp_limits", NULL, NULL);
    CU_ADD_TEST(suite, arguments_are_limited);
    CU_ADD_TEST(suite, one_argument_is_limited);
    CU_ADD_TEST(suite, what_a_caller_allows_never_exceeds_the_fixed_limits);
    CU_ADD_TEST(suite, a_whole_request_is_limited);
    CU_ADD_TEST(suite, an_inline_request_is_limited);
    CU_ADD_TEST(suite, an_inline_request_before_auth_has_the_limits_of_any_other);
    CU_ADD_TEST(suite, a_length_line_is_limited);
    CU_ADD_TEST(suite, bytes_without_a_line_end_are_refused_after_a_bounded_amount);
    CU_ADD_TEST(suite, whatever_the_limits_the_cut_does_not_decide);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    wire = malloc(WIRE_BYTES);
    resp_driver_open(WIRE_BYTES);
    CU_basic_run_tests();
    resp_driver_close();
    free(wire);
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
