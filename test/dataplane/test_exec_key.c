/* DEL UNLINK EXISTS TYPE EXPIRE PEXPIRE TTL PTTL PERSIST, byte for byte. */
#include "exec_fixture.h"
#include <CUnit/Basic.h>

#define BAD_EXPIRE  "-ERR invalid expire time in 'expire' command|"
#define BAD_PEXPIRE "-ERR invalid expire time in 'pexpire' command|"
#define BAD_NX      "-ERR NX and XX, GT or LT options at the same time are not compatible|"

static void
expire_refuses_bad_arguments_in_redis_order(void)
{
    static const struct exec_row rows[] = {
        { "EXPIRE k", "-ERR wrong number of arguments for 'expire' command|", NULL },
        { "EXPIRE k abc FOO", "-ERR Unsupported option FOO|", NULL },
        { "EXPIRE k 10 NX BaR", "-ERR Unsupported option BaR|", NULL },
        { "EXPIRE k 10 \"a\\r\\nb\"", "-ERR Unsupported option a  b|", NULL },
        { "EXPIRE k abc NX XX", BAD_NX, NULL },
        { "EXPIRE k 10 GT NX", BAD_NX, NULL },
        { "EXPIRE k 10 NX LT", BAD_NX, NULL },
        { "EXPIRE k 10 NX XX GT LT", BAD_NX, NULL },
        { "EXPIRE k 10 GT LT", "-ERR GT and LT options at the same time are not compatible|", NULL },
        { "EXPIRE k 10 XX LT GT", "-ERR GT and LT options at the same time are not compatible|", NULL },
        { "EXPIRE k abc", EXEC_NOT_INTEGER, NULL },
        { "EXPIRE k 1.5", EXEC_NOT_INTEGER, NULL },
        { "EXPIRE k 9223372036854775808", EXEC_NOT_INTEGER, NULL },
        { "EXPIRE nokey 9223372036854775807", BAD_EXPIRE, NULL },
        { "PEXPIRE nokey 9223372036854775807", BAD_PEXPIRE, NULL },
        { "SET k v", "+OK|", NULL },
        { "EXPIRE k 18446744073709561", BAD_EXPIRE, NULL }, /* x1000 would wrap to a small positive number */
        { "EXPIRE k 9223372036854776", BAD_EXPIRE, NULL },
        { "EXPIRE k 9223372036854775", BAD_EXPIRE, NULL }, /* fits until now is added */
        { "EXPIRE k -9223372036854776", BAD_EXPIRE, NULL },
        { "EXPIRE k -9223372036854775808", BAD_EXPIRE, NULL },
        { "PEXPIRE k 9223372036854775807", BAD_PEXPIRE, NULL },
        { "PEXPIRE k 9223370336854775808", BAD_PEXPIRE, NULL },
        { "TTL k", ":-1|", NULL },
        { "GET k", "$1|v|", NULL },
        { "PEXPIRE k 9223370336854775807", ":1|", NULL },
        { "PTTL k", ":9223370336854775807|", NULL },
    };
    exec_check_rows(rows, ARRAY_COUNT(rows));
}

static void
a_time_that_has_passed_removes_the_key(void)
{
    static const struct exec_row rows[] = {
        { "EXPIRE nokey -1", ":0|", NULL },
        { "SET k v", "+OK|", NULL },
        { "EXPIRE k -1", ":1|", NULL },
        { "EXISTS k", ":0|", NULL },
        { "SET k v", "+OK|", NULL },
        { "EXPIRE k 0", ":1|", NULL },
        { "TTL k", ":-2|", NULL },
        { "SET k v", "+OK|", NULL },
        { "PEXPIRE k -9223372036854775808", ":1|", NULL },
        { "EXISTS k", ":0|", NULL },
        { "SET k v", "+OK|", NULL },
        { "EXPIRE k -9223372036854775", ":1|", NULL },
        { "EXISTS k", ":0|", NULL },
        { "DBSIZE", ":0|", NULL },
    };
    exec_check_rows(rows, ARRAY_COUNT(rows));
}

static void
expire_options_compare_with_what_is_there(void)
{
    static const struct exec_row rows[] = {
        { "EXPIRE nokey 10", ":0|", NULL },
        { "EXPIRE nokey 10 NX", ":0|", NULL },
        { "SET k v", "+OK|", NULL },
        { "EXPIRE k 100 XX", ":0|", NULL },
        { "EXPIRE k 100 GT", ":0|", NULL },
        { "EXPIRE k 100 XX GT", ":0|", NULL },
        { "TTL k", ":-1|", NULL },
        { "EXPIRE k 100 LT", ":1|", NULL },
        { "TTL k", ":100|", NULL },
        { "EXPIRE k 100 LT", ":0|", NULL },
        { "EXPIRE k 101 LT", ":0|", NULL },
        { "EXPIRE k 99 LT", ":1|", NULL },
        { "EXPIRE k 99 GT", ":0|", NULL },
        { "EXPIRE k 98 GT", ":0|", NULL },
        { "PEXPIRE k 99001 gt", ":1|", NULL },
        { "PTTL k", ":99001|", NULL },
        { "EXPIRE k 200 NX", ":0|", NULL },
        { "EXPIRE k 200 NX nx", ":0|", NULL },
        { "EXPIRE k 200 xx", ":1|", NULL },
        { "EXPIRE k 300 XX GT", ":1|", NULL },
        { "EXPIRE k 250 LT XX", ":1|", NULL },
        { "TTL k", ":250|", NULL },
        { "PERSIST k", ":1|", NULL },
        { "EXPIRE k 10 LT XX", ":0|", NULL },
        { "TTL k", ":-1|", NULL },
        { "EXPIRE k 10 NX", ":1|", NULL },
        { "TTL k", ":10|", NULL },
        { "EXPIRE k -1 GT", ":0|", NULL },
        { "EXISTS k", ":1|", NULL },
        { "EXPIRE k -1 LT", ":1|", NULL },
        { "EXISTS k", ":0|", NULL },
    };
    exec_check_rows(rows, ARRAY_COUNT(rows));
}

static void
a_time_to_live_keeps_the_value_and_is_rounded(void)
{
    static const struct exec_row rows[] = {
        { "TTL nokey", ":-2|", NULL },     { "PTTL nokey", ":-2|", NULL },    { "PERSIST nokey", ":0|", NULL },
        { "SET k \"\"", "+OK|", NULL },    { "TTL k", ":-1|", NULL },         { "PTTL k", ":-1|", NULL },
        { "PERSIST k", ":0|", NULL },      { "PEXPIRE k 1499", ":1|", NULL }, { "TTL k", ":1|", NULL },
        { "PEXPIRE k 1500", ":1|", NULL }, { "TTL k", ":2|", NULL },          { "PEXPIRE k 1", ":1|", NULL },
        { "TTL k", ":0|", NULL },          { "PTTL k", ":1|", NULL },         { "GET k", "$0||", NULL },
        { "HSET h f v g w", ":2|", NULL }, { "EXPIRE h 50", ":1|", NULL },    { "HSET h f x", ":0|", NULL },
        { "HDEL h g", ":1|", NULL },       { "TTL h", ":50|", NULL },         { "HGET h f", "$1|x|", NULL },
        { "ZADD z 1 m 2 n", ":2|", NULL }, { "EXPIRE z 60", ":1|", NULL },    { "ZADD z 3 m", ":0|", NULL },
        { "ZREM z n", ":1|", NULL },       { "TTL z", ":60|", NULL },         { "PERSIST z", ":1|", NULL },
        { "TTL z", ":-1|", NULL },         { "ZSCORE z m", "$1|3|", ",3|" },  { "HDEL h f", ":1|", NULL },
        { "HSET h f v", ":1|", NULL },     { "TTL h", ":-1|", NULL }, /* a new key, though of the same name */
    };
    exec_check_rows(rows, ARRAY_COUNT(rows));
}

static void
a_key_is_gone_when_its_time_has_come(void)
{
    exec_fixture_reset();
    exec_ask(WIRE_RESP2, "SET k v PX 100");
    exec_ask(WIRE_RESP2, "HSET h f v");
    exec_ask(WIRE_RESP2, "PEXPIRE h 100");
    fixture_now_ms += 99;
    CU_ASSERT_TRUE(exec_reply_is("before", exec_ask(WIRE_RESP2, "EXISTS k h"), ":2|"));
    fixture_now_ms += 2;
    CU_ASSERT_TRUE(exec_reply_is("after", exec_ask(WIRE_RESP2, "EXISTS k h"), ":0|"));
    CU_ASSERT_TRUE(exec_reply_is("TTL", exec_ask(WIRE_RESP2, "TTL k"), ":-2|"));
    CU_ASSERT_TRUE(exec_reply_is("NX", exec_ask(WIRE_RESP2, "SET k w NX"), "+OK|"));
    CU_ASSERT_TRUE(exec_reply_is("HSET", exec_ask(WIRE_RESP2, "HSET h g v"), ":1|"));
    CU_ASSERT_TRUE(exec_reply_is("HLEN", exec_ask(WIRE_RESP2, "HLEN h"), ":1|"));
    CU_ASSERT_TRUE(exec_reply_is("no TTL", exec_ask(WIRE_RESP2, "TTL h"), ":-1|"));
}

static void
del_and_exists_count_as_redis_does(void)
{
    static const struct exec_row rows[] = {
        { "DEL", "-ERR wrong number of arguments for 'del' command|", NULL },
        { "DEL a", ":0|", NULL },
        { "SET a 1", "+OK|", NULL },
        { "HSET b f v", ":1|", NULL },
        { "ZADD c 1 m", ":1|", NULL },
        { "EXISTS a b c d", ":3|", NULL },
        { "EXISTS a a a d", ":3|", NULL },
        { "TYPE a", "+string|", NULL },
        { "TYPE b", "+hash|", NULL },
        { "TYPE c", "+zset|", NULL },
        { "TYPE d", "+none|", NULL },
        { "DEL a a b d", ":2|", NULL }, /* the second time it is not there */
        { "EXISTS a b c d", ":1|", NULL },
        { "UNLINK c c", ":1|", NULL },
        { "DBSIZE", ":0|", NULL },
    };
    exec_check_rows(rows, ARRAY_COUNT(rows));
}

/* DEL of five keys, of which four are there; the store asks for patience once before each of them, or at each twice. */
static void
an_interrupted_del_goes_on_where_it_stopped(void)
{
    static const char *const line = "DEL a b nokey a c d";
    for (uint32_t stop = 0; stop < 6; stop++) {
        enum store_status answers[6];
        exec_fixture_reset();
        exec_ask(WIRE_RESP2, "SET a 1");
        exec_ask(WIRE_RESP2, "SET b 1");
        exec_ask(WIRE_RESP2, "SET c 1");
        exec_ask(WIRE_RESP2, "SET d 1");
        for (uint32_t i = 0; i < 6; i++) {
            answers[i] = i == stop ? (stop % 2 == 0 ? STORE_TRY_LATER : STORE_OOM) : STORE_OK;
        }
        fixture_answers = answers;
        fixture_answers_left = stop + 1;

        /* the request is decoded again for each attempt, as burst.c does; what was done is in `progress` */
        struct exec *exec = exec_begin(WIRE_RESP2, line);
        CU_ASSERT_EQUAL(exec_attempt(exec), EXEC_RETRY);
        struct exec_progress progress = exec->progress;
        CU_ASSERT_EQUAL(progress.done, stop);
        if (stop > 0) { /* a is gone; another client's new key of that name is not this command's to remove or count */
            exec_ask(WIRE_RESP2, "SET a again");
        }
        exec = exec_begin(WIRE_RESP2, line);
        exec->attempt = 1;
        exec->progress = progress;
        CU_ASSERT_EQUAL(exec_attempt(exec), EXEC_DONE);
        /* the later `a` of the line is removed when it is its turn, and then it was there */
        bool a_twice = stop > 0 && stop <= 3;
        CU_ASSERT_TRUE(exec_reply_is(line, exec_reply(), a_twice ? ":5|" : ":4|"));
        CU_ASSERT_TRUE(exec_reply_is("EXISTS a", exec_ask(WIRE_RESP2, "EXISTS a"), stop > 3 ? ":1|" : ":0|"));
        CU_ASSERT_TRUE(exec_reply_is("EXISTS b c d", exec_ask(WIRE_RESP2, "EXISTS b c d"), ":0|"));
    }
}

static void
giving_memory_back_waits_instead_of_failing(void)
{
    static const char *const lines[] = { "DEL k", "UNLINK k", "EXPIRE k 10", "PEXPIRE k 10", "PERSIST t" };
    static const enum store_status oom = STORE_OOM, later = STORE_TRY_LATER;
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        for (int is_oom = 0; is_oom < 2; is_oom++) {
            exec_fixture_reset();
            exec_ask(WIRE_RESP2, "SET k v");
            exec_ask(WIRE_RESP2, "SET t v EX 10");
            struct exec *exec = exec_begin(WIRE_RESP2, lines[i]);
            fixture_answers = is_oom ? &oom : &later;
            fixture_answers_left = 1;
            CU_ASSERT_EQUAL(exec_attempt(exec), EXEC_RETRY);
            CU_ASSERT_EQUAL(exec_attempt(exec), EXEC_DONE);
            CU_ASSERT_TRUE(exec_reply_is(lines[i], exec_reply(), ":1|"));
        }
    }
}

static void
a_thousand_keys_go_in_one_command(void)
{
    struct slice words[1 + LIMIT_REQUEST_ARGS];
    static char names[LIMIT_REQUEST_ARGS][8];
    exec_fixture_reset();
    for (uint32_t i = 0; i < LIMIT_REQUEST_ARGS; i++) {
        int bytes = snprintf(names[i], sizeof(names[0]), "k%u", i);
        words[1 + i] = slice_of(names[i], (size_t)bytes);
        if (i % 2 == 0) {
            struct slice set[] = { SLICE_LITERAL("SET"), words[1 + i], SLICE_LITERAL("v") };
            exec_ask_words(WIRE_RESP2, set, 3);
        }
    }
    words[0] = SLICE_LITERAL("EXISTS");
    CU_ASSERT_TRUE(exec_reply_is("EXISTS", exec_ask_words(WIRE_RESP2, words, ARRAY_COUNT(words)), ":512|"));
    words[0] = SLICE_LITERAL("MGET");
    struct slice got = exec_ask_words(WIRE_RESP2, words, ARRAY_COUNT(words));
    CU_ASSERT_EQUAL(got.bytes, sizeof("*1024\r\n") - 1 + 512 * sizeof("$1\r\nv\r\n$-1\r\n") - 512);
    words[0] = SLICE_LITERAL("DEL");
    CU_ASSERT_TRUE(exec_reply_is("DEL", exec_ask_words(WIRE_RESP2, words, ARRAY_COUNT(words)), ":512|"));
    CU_ASSERT_TRUE(exec_reply_is("DBSIZE", exec_ask(WIRE_RESP2, "DBSIZE"), ":0|"));
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("exec_key", exec_fixture_open, exec_fixture_close);
    CU_ADD_TEST(suite, expire_refuses_bad_arguments_in_redis_order);
    CU_ADD_TEST(suite, an_interrupted_del_goes_on_where_it_stopped);
    CU_ADD_TEST(suite, giving_memory_back_waits_instead_of_failing);
    CU_ADD_TEST(suite, a_time_that_has_passed_removes_the_key);
    CU_ADD_TEST(suite, expire_options_compare_with_what_is_there);
    CU_ADD_TEST(suite, a_time_to_live_keeps_the_value_and_is_rounded);
    CU_ADD_TEST(suite, a_key_is_gone_when_its_time_has_come);
    CU_ADD_TEST(suite, del_and_exists_count_as_redis_does);
    CU_ADD_TEST(suite, a_thousand_keys_go_in_one_command);
    CU_basic_run_tests();
    return CU_get_number_of_failures() != 0;
}
