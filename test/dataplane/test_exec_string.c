/* SET GET MGET STRLEN APPEND INCR INCRBY DECR DECRBY, byte for byte. */
#include "dataplane/exec_common.h"
#include "exec_fixture.h"
#include <CUnit/Basic.h>

#define BAD_EXPIRY "-ERR invalid expire time in 'set' command|"
#define TOO_LONG   "-ERR string exceeds maximum allowed size (proto-max-bulk-len)|"

static void
set_refuses_bad_options_in_redis_order(void)
{
    static const struct exec_row rows[] = {
        { "SET", "-ERR wrong number of arguments for 'set' command|", NULL },
        { "SET k", "-ERR wrong number of arguments for 'set' command|", NULL },
        { "SET k v BLA", EXEC_SYNTAX, NULL },
        { "SET k v NX XX", EXEC_SYNTAX, NULL },
        { "SET k v XX NX", EXEC_SYNTAX, NULL },
        { "SET k v EX", EXEC_SYNTAX, NULL },
        { "SET k v PXAT", EXEC_SYNTAX, NULL },
        { "SET k v EX 10 PX 10", EXEC_SYNTAX, NULL },
        { "SET k v EX 10 EXAT 10", EXEC_SYNTAX, NULL },
        { "SET k v PX 10 PXAT 10", EXEC_SYNTAX, NULL },
        { "SET k v EX 10 KEEPTTL", EXEC_SYNTAX, NULL },
        { "SET k v KEEPTTL EX 10", EXEC_SYNTAX, NULL },
        { "SET k v PERSIST", EXEC_SYNTAX, NULL },
        { "SET k v EX abc BLA", EXEC_SYNTAX, NULL },
        { "SET k v EX abc", EXEC_NOT_INTEGER, NULL },
        { "SET k v EX \"\"", EXEC_NOT_INTEGER, NULL },
        { "SET k v EX 1.5", EXEC_NOT_INTEGER, NULL },
        { "SET k v EX +5", EXEC_NOT_INTEGER, NULL },
        { "SET k v EX 9223372036854775808", EXEC_NOT_INTEGER, NULL },
        { "SET k v EX 0", BAD_EXPIRY, NULL },
        { "SET k v EX -1", BAD_EXPIRY, NULL },
        { "SET k v PX 0", BAD_EXPIRY, NULL },
        { "SET k v EXAT 0", BAD_EXPIRY, NULL },
        { "SET k v PXAT 0", BAD_EXPIRY, NULL },
        { "SET k v PXAT -9223372036854775808", BAD_EXPIRY, NULL },
        { "SET k v EX 9223372036854775807", BAD_EXPIRY, NULL },
        { "SET k v EX 9223372036854776", BAD_EXPIRY, NULL },
        { "SET k v EX 9223372036854775", BAD_EXPIRY, NULL },
        { "SET k v PX 9223372036854775807", BAD_EXPIRY, NULL },
        { "SET k v PX 9223372036854775000", BAD_EXPIRY, NULL },
        { "SET k v EXAT 9223372036854776", BAD_EXPIRY, NULL },
        { "EXISTS k", ":0|", NULL },
        { "HSET h f v", ":1|", NULL },
        { "SET h v NX XX GET", EXEC_SYNTAX, NULL },
        { "SET h v GET EX 0", BAD_EXPIRY, NULL },
        { "SET h v GET", EXEC_WRONGTYPE, NULL },
        { "SET h v NX GET", EXEC_WRONGTYPE, NULL },
        { "TYPE h", "+hash|", NULL },
    };
    exec_check_rows(rows, ARRAY_COUNT(rows));
}

static void
set_does_what_its_options_say(void)
{
    static const struct exec_row rows[] = {
        { "SET k v", "+OK|", NULL },
        { "GET k", "$1|v|", NULL },
        { "SET k w NX", "$-1|", NULL },
        { "SET k w nx NX", "$-1|", NULL },
        { "GET k", "$1|v|", NULL },
        { "SET k w Xx", "+OK|", NULL },
        { "SET n w XX", "$-1|", NULL },
        { "EXISTS n", ":0|", NULL },
        { "SET k x GET", "$1|w|", NULL },
        { "SET k y NX GET", "$1|x|", NULL },
        { "GET k", "$1|x|", NULL },
        { "SET n z NX GET", "$-1|", NULL },
        { "GET n", "$1|z|", NULL },
        { "SET m z XX GET", "$-1|", NULL },
        { "EXISTS m", ":0|", NULL },
        { "SET k v EX 100", "+OK|", NULL },
        { "TTL k", ":100|", NULL },
        { "SET k w KEEPTTL", "+OK|", NULL },
        { "PTTL k", ":100000|", NULL },
        { "SET k w KEEPTTL keepttl", "+OK|", NULL },
        { "SET k w", "+OK|", NULL },
        { "TTL k", ":-1|", NULL },
        { "SET k w KEEPTTL", "+OK|", NULL },
        { "TTL k", ":-1|", NULL },
        { "SET k v px 1500 GET xx", "$1|w|", NULL },
        { "PTTL k", ":1500|", NULL },
        { "SET k v EX 10 EX 20", "+OK|", NULL },
        { "TTL k", ":20|", NULL },
        { "SET k v EXAT 1700000060", "+OK|", NULL },
        { "TTL k", ":60|", NULL },
        { "SET k v PXAT 1700000000001", "+OK|", NULL },
        { "PTTL k", ":1|", NULL },
        { "SET k v NX EX 5", "$-1|", NULL },
        { "PTTL k", ":1|", NULL },
        { "SET k v PXAT 9223372036854775807", "+OK|", NULL },
        { "TTL k", ":9223370336854776|", NULL },
        { "PTTL k", ":9223370336854775807|", NULL },
        { "SET k v EXAT 9223372036854775", "+OK|", NULL },
        { "PTTL k", ":9223370336854775000|", NULL },
        { "SET k v EXAT 1", "+OK|", NULL }, /* past: set, and gone at once */
        { "GET k", "$-1|", NULL },
        { "EXISTS k", ":0|", NULL },
        { "SET k v EXAT 1", "+OK|", NULL },
        { "DBSIZE", ":1|", NULL }, /* n */
        { "HSET h f v", ":1|", NULL },
        { "SET h v NX", "$-1|", NULL },
        { "SET h v", "+OK|", NULL },
        { "TYPE h", "+string|", NULL },
        { "SET \"\" \"\"", "+OK|", NULL },
        { "GET \"\"", "$0||", NULL },
        { "SET b \"a\\x00b\\n\"", "+OK|", NULL },
        { "STRLEN b", ":4|", NULL },
    };
    exec_check_rows(rows, ARRAY_COUNT(rows));
}

static void
reading_strings(void)
{
    static const struct exec_row rows[] = {
        { "GET", "-ERR wrong number of arguments for 'get' command|", NULL },
        { "GET a b", "-ERR wrong number of arguments for 'get' command|", NULL },
        { "GET k", "$-1|", NULL },
        { "STRLEN k", ":0|", NULL },
        { "MGET k", "*1|$-1|", "*1|_|" },
        { "SET k value", "+OK|", NULL },
        { "HSET h f v", ":1|", NULL },
        { "ZADD z 1 m", ":1|", NULL },
        { "GET h", EXEC_WRONGTYPE, NULL },
        { "STRLEN z", EXEC_WRONGTYPE, NULL },
        { "STRLEN k", ":5|", NULL },
        { "MGET k h z k nokey", "*5|$5|value|$-1|$-1|$5|value|$-1|", "*5|$5|value|_|_|$5|value|_|" },
    };
    exec_check_rows(rows, ARRAY_COUNT(rows));
}

static void
increments_stop_at_the_ends_of_64_bits(void)
{
    static const struct exec_row rows[] = {
        { "INCR n", ":1|", NULL },
        { "INCRBY n 41", ":42|", NULL },
        { "DECR n", ":41|", NULL },
        { "DECRBY n 42", ":-1|", NULL },
        { "DECRBY n -3", ":2|", NULL },
        { "INCRBY n abc", EXEC_NOT_INTEGER, NULL },
        { "INCRBY n 1.0", EXEC_NOT_INTEGER, NULL },
        { "INCRBY n 9223372036854775808", EXEC_NOT_INTEGER, NULL },
        { "DECRBY n abc", EXEC_NOT_INTEGER, NULL },
        { "DECRBY nokey -9223372036854775808", "-ERR decrement would overflow|", NULL },
        { "EXISTS nokey", ":0|", NULL },
        { "SET n 9223372036854775806", "+OK|", NULL },
        { "INCR n", ":9223372036854775807|", NULL },
        { "INCR n", "-ERR increment or decrement would overflow|", NULL },
        { "INCRBY n 9223372036854775807", "-ERR increment or decrement would overflow|", NULL },
        { "GET n", "$19|9223372036854775807|", NULL },
        { "SET n -9223372036854775807", "+OK|", NULL },
        { "DECR n", ":-9223372036854775808|", NULL },
        { "DECR n", "-ERR increment or decrement would overflow|", NULL },
        { "DECRBY n 9223372036854775807", "-ERR increment or decrement would overflow|", NULL },
        { "INCRBY n -9223372036854775808", "-ERR increment or decrement would overflow|", NULL },
        { "GET n", "$20|-9223372036854775808|", NULL },
        { "SET s abc", "+OK|", NULL },
        { "INCR s", EXEC_NOT_INTEGER, NULL },
        { "SET s \" 1\"", "+OK|", NULL },
        { "INCR s", EXEC_NOT_INTEGER, NULL },
        { "SET s \"1 \"", "+OK|", NULL },
        { "INCR s", EXEC_NOT_INTEGER, NULL },
        { "SET s 01", "+OK|", NULL },
        { "INCR s", EXEC_NOT_INTEGER, NULL },
        { "SET s \"\"", "+OK|", NULL },
        { "INCR s", EXEC_NOT_INTEGER, NULL },
        { "SET s 9223372036854775808", "+OK|", NULL },
        { "INCR s", EXEC_NOT_INTEGER, NULL },
        { "HSET h f 1", ":1|", NULL },
        { "INCR h", EXEC_WRONGTYPE, NULL },
        { "INCRBY h abc", EXEC_NOT_INTEGER, NULL },
        { "DECRBY h -9223372036854775808", "-ERR decrement would overflow|", NULL },
        { "SET t 5 EX 100", "+OK|", NULL },
        { "INCR t", ":6|", NULL },
        { "TTL t", ":100|", NULL },
    };
    exec_check_rows(rows, ARRAY_COUNT(rows));
}

static void
append_makes_and_lengthens(void)
{
    static const struct exec_row rows[] = {
        { "APPEND k", "-ERR wrong number of arguments for 'append' command|", NULL },
        { "APPEND k \"\"", ":0|", NULL },
        { "EXISTS k", ":1|", NULL },
        { "APPEND k foo", ":3|", NULL },
        { "APPEND k \"\"", ":3|", NULL },
        { "APPEND k 100", ":6|", NULL },
        { "GET k", "$6|foo100|", NULL },
        { "SET n 12", "+OK|", NULL },
        { "APPEND n 3", ":3|", NULL },
        { "INCR n", ":124|", NULL },
        { "ZADD z 1 m", ":1|", NULL },
        { "APPEND z x", EXEC_WRONGTYPE, NULL },
        { "SET t v PX 5000", "+OK|", NULL },
        { "APPEND t w", ":2|", NULL },
        { "PTTL t", ":5000|", NULL },
    };
    exec_check_rows(rows, ARRAY_COUNT(rows));
}

static void
strings_end_at_their_limit(void)
{
    static uint8_t bytes[LIMIT_VALUE_BYTES];
    exec_fixture_reset();
    memset(bytes, 'x', sizeof(bytes));
    for (int past = -1; past <= 0; past++) {
        size_t wanted = (size_t)((int64_t)LIMIT_VALUE_BYTES + past);
        struct slice set[] = { SLICE_LITERAL("SET"), SLICE_LITERAL("k"), slice_of(bytes, wanted) };
        CU_ASSERT_TRUE(exec_reply_is("SET of the limit", exec_ask_words(WIRE_RESP2, set, 3), "+OK|"));
        struct slice got = exec_ask(WIRE_RESP2, "GET k");
        CU_ASSERT_EQUAL(got.bytes, wanted + sizeof("$1048576\r\n\r\n") - 1);
    }
    CU_ASSERT_TRUE(exec_reply_is("append nothing", exec_ask(WIRE_RESP2, "APPEND k \"\""), ":1048576|"));
    CU_ASSERT_TRUE(exec_reply_is("one above", exec_ask(WIRE_RESP2, "APPEND k y"), TOO_LONG));
    CU_ASSERT_TRUE(exec_reply_is("unchanged", exec_ask(WIRE_RESP2, "STRLEN k"), ":1048576|"));

    struct slice words[] = { SLICE_LITERAL("APPEND"), SLICE_LITERAL("half"), slice_of(bytes, LIMIT_VALUE_BYTES / 2) };
    CU_ASSERT_TRUE(exec_reply_is("half", exec_ask_words(WIRE_RESP2, words, 3), ":524288|"));
    CU_ASSERT_TRUE(exec_reply_is("both halves", exec_ask_words(WIRE_RESP2, words, 3), ":1048576|"));
    CU_ASSERT_TRUE(exec_reply_is("a third", exec_ask_words(WIRE_RESP2, words, 3), TOO_LONG));
}

/* Sizes around those at which copies change their way. */
static void
values_come_back_as_they_were(void)
{
    static uint8_t bytes[LIMIT_VALUE_BYTES];
    static const size_t sizes[] = {
        0, 1, 15, 63, 64, 65, 2047, 2048, 2049, 2111, 2112, 2113, 524287, 524288, 524289, 700001, LIMIT_VALUE_BYTES
    };
    exec_fixture_reset();
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i * 31 + i / 251);
    }
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        char head[16];
        size_t first = sizes[i] / 3;
        struct slice set[] = { SLICE_LITERAL("SET"), SLICE_LITERAL("key"), slice_of(bytes, first) };
        struct slice append[] = { SLICE_LITERAL("APPEND"), SLICE_LITERAL("key"),
                                  slice_of(bytes + first, sizes[i] - first) };
        exec_ask_words(WIRE_RESP2, set, 3);
        exec_ask_words(WIRE_RESP2, append, 3);
        exec_ask(WIRE_RESP2, "EXPIRE key 100");
        struct slice got = exec_ask(WIRE_RESP2, "GET key");
        size_t head_bytes = (size_t)snprintf(head, sizeof(head), "$%zu\r\n", sizes[i]);
        CU_ASSERT_EQUAL_FATAL(got.bytes, head_bytes + sizes[i] + 2);
        CU_ASSERT_EQUAL(memcmp(got.data + head_bytes, bytes, sizes[i]), 0);
    }
}

/* A wire other than RESP may carry more than its limits say: the handler is the last to look. */
static void
a_value_above_the_limit_is_refused_by_the_handler(void)
{
    static uint8_t bytes[LIMIT_VALUE_BYTES + 1];
    exec_fixture_reset();
    struct exec *exec = exec_begin(WIRE_RESP2, "SET k v");
    exec->request->args[1].bytes = slice_of(bytes, sizeof(bytes));
    CU_ASSERT_EQUAL(exec_attempt(exec), EXEC_DONE);
    CU_ASSERT_TRUE(exec_reply_is("SET one above", exec_reply(), TOO_LONG));
    CU_ASSERT_TRUE(exec_reply_is("not made", exec_ask(WIRE_RESP2, "EXISTS k"), ":0|"));
}

static void
keys_end_at_their_limit(void)
{
    static uint8_t bytes[LIMIT_KEY_BYTES + 1];
    static const char *const commands[] = { "GET",  "SET",    "DEL",  "MGET", "EXISTS", "INCR",  "APPEND",
                                            "HSET", "EXPIRE", "TYPE", "TTL",  "ZADD",   "ZRANGE" };
    exec_fixture_reset();
    memset(bytes, 'k', sizeof(bytes));
    for (int past = -1; past <= 1; past++) {
        struct slice key = slice_of(bytes, (size_t)(LIMIT_KEY_BYTES + past));
        struct slice set[] = { SLICE_LITERAL("SET"), key, SLICE_LITERAL("1") };
        const char *expected = past == 1 ? "-ERR key exceeds 65535 bytes|" : "+OK|";
        CU_ASSERT_TRUE(exec_reply_is("SET", exec_ask_words(WIRE_RESP2, set, 3), expected));
        if (past < 1) {
            struct slice get[] = { SLICE_LITERAL("GET"), key };
            CU_ASSERT_TRUE(exec_reply_is("GET", exec_ask_words(WIRE_RESP2, get, 2), "$1|1|"));
        }
    }
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
        struct slice words[] = { slice_text(commands[i]), slice_of(bytes, sizeof(bytes)), SLICE_LITERAL("1"),
                                 SLICE_LITERAL("2") };
        const struct command *command = command_find(words[0]);
        uint32_t args = MAX(1u, command->args_min);
        CU_ASSERT_TRUE(
            exec_reply_is(commands[i], exec_ask_words(WIRE_RESP2, words, 1 + args), "-ERR key exceeds 65535 bytes|"));
    }
}

/* Typed SBE templates carry numbers; a handler reads them as if they were text. */
static void
native_numbers_are_read_like_text(void)
{
    exec_fixture_reset();
    struct exec *exec = exec_begin(WIRE_RESP2, "INCRBY n 0");
    exec->request->args[1] = (struct arg){ .integer = INT64_MIN, .kind = ARG_INT };
    CU_ASSERT_EQUAL(exec_attempt(exec), EXEC_DONE);
    CU_ASSERT_TRUE(exec_reply_is("INCRBY", exec_reply(), ":-9223372036854775808|"));

    exec = exec_begin(WIRE_RESP2, "SET k v");
    exec->request->args[0] = (struct arg){ .integer = 77, .kind = ARG_INT };
    exec->request->args[1] = (struct arg){ .real = 0.5, .kind = ARG_DOUBLE };
    exec->hash = 0; /* burst.c hashes keys that came as bytes */
    CU_ASSERT_EQUAL(exec_attempt(exec), EXEC_DONE);
    CU_ASSERT_TRUE(exec_reply_is("GET 77", exec_ask(WIRE_RESP2, "GET 77"), "$3|0.5|"));
}

/* Four values of 1 MiB are as much as a reply may hold; one byte more is refused before anything is written. */
static void
mget_refuses_what_no_reply_can_hold(void)
{
    static uint8_t bytes[LIMIT_VALUE_BYTES];
    exec_fixture_reset();
    struct slice set[] = { SLICE_LITERAL("SET"), SLICE_LITERAL("big"), slice_of(bytes, LIMIT_VALUE_BYTES) };
    exec_ask_words(WIRE_RESP2, set, 3);
    exec_ask(WIRE_RESP2, "HSET h f v");
    CU_ASSERT_EQUAL(exec_ask(WIRE_RESP2, "MGET big h big big big").bytes,
                    4 * (LIMIT_VALUE_BYTES + sizeof("$1048576\r\n\r\n") - 1) + sizeof("*5\r\n$-1\r\n") - 1);
    exec_ask(WIRE_RESP2, "SET one 1");
    CU_ASSERT_TRUE(exec_reply_is("above", exec_ask(WIRE_RESP2, "MGET big big big big one"),
                                 "-ERR the reply is larger than 4194304 bytes|"));
}

static void
mget_reads_again_until_two_collects_agree(void)
{
    exec_fixture_reset();
    exec_ask(WIRE_RESP2, "SET a 1");
    exec_ask(WIRE_RESP2, "SET b 2");

    fixture_views = 0;
    CU_ASSERT_TRUE(exec_reply_is("quiet", exec_ask(WIRE_RESP2, "MGET a b"), "*2|$1|1|$1|2|"));
    CU_ASSERT_EQUAL(fixture_views, 4);

    fixture_views = 0;
    CU_ASSERT_TRUE(exec_reply_is("one key", exec_ask(WIRE_RESP2, "MGET a"), "*1|$1|1|"));
    CU_ASSERT_EQUAL(fixture_views, 1);

    /* the last version that is seen once is in collect k+1: k+2 and k+3 agree */
    for (uint32_t k = 0; k + 3 <= 1 + EXEC_COLLECTS_MAX; k++) {
        fixture_views = 0;
        fixture_moving_views = 2 * k + 1;
        struct exec *exec = exec_begin(WIRE_RESP2, "MGET a b");
        CU_ASSERT_EQUAL(exec_attempt(exec), EXEC_DONE);
        CU_ASSERT_TRUE(exec_reply_is("moving", exec_reply(), "*2|$1|1|$1|2|"));
        CU_ASSERT_EQUAL(fixture_views, 2 * (k + 3));
    }

    fixture_moving_views = UINT32_MAX;
    fixture_views = 0;
    struct exec *exec = exec_begin(WIRE_RESP2, "MGET a b");
    CU_ASSERT_EQUAL(exec_attempt(exec), EXEC_RETRY);
    CU_ASSERT_EQUAL(fixture_views, 2 * (1 + EXEC_COLLECTS_MAX));
    fixture_moving_views = 0;
    CU_ASSERT_EQUAL(exec_attempt(exec), EXEC_DONE);
    CU_ASSERT_TRUE(exec_reply_is("after a turn", exec_reply(), "*2|$1|1|$1|2|"));
}

static void
a_store_that_refuses_leaves_everything_as_it_was(void)
{
    static const struct exec_refusal rows[] = {
        { "SET k w", STORE_TRY_LATER, EXEC_RETRY },    { "SET k w", STORE_OOM, EXEC_DONE },
        { "INCR k", STORE_TRY_LATER, EXEC_RETRY },     { "INCR k", STORE_OOM, EXEC_DONE },
        { "APPEND k w", STORE_TRY_LATER, EXEC_RETRY }, { "APPEND k w", STORE_OOM, EXEC_DONE },
    };
    exec_check_refusals(rows, ARRAY_COUNT(rows), "SET k 5", "GET k", "$1|5|");
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("exec_string", exec_fixture_open, exec_fixture_close);
    CU_ADD_TEST(suite, set_refuses_bad_options_in_redis_order);
    CU_ADD_TEST(suite, values_come_back_as_they_were);
    CU_ADD_TEST(suite, mget_refuses_what_no_reply_can_hold);
    CU_ADD_TEST(suite, keys_end_at_their_limit);
    CU_ADD_TEST(suite, a_value_above_the_limit_is_refused_by_the_handler);
    CU_ADD_TEST(suite, strings_end_at_their_limit);
    CU_ADD_TEST(suite, a_store_that_refuses_leaves_everything_as_it_was);
    CU_ADD_TEST(suite, increments_stop_at_the_ends_of_64_bits);
    CU_ADD_TEST(suite, set_does_what_its_options_say);
    CU_ADD_TEST(suite, reading_strings);
    CU_ADD_TEST(suite, append_makes_and_lengthens);
    CU_ADD_TEST(suite, native_numbers_are_read_like_text);
    CU_ADD_TEST(suite, mget_reads_again_until_two_collects_agree);
    CU_basic_run_tests();
    return CU_get_number_of_failures() != 0;
}
