/* ZADD ZSCORE ZREM ZCARD ZRANGE, byte for byte. */
#include "exec_fixture.h"
#include <CUnit/Basic.h>

#define NOT_FLOAT  "-ERR value is not a valid float|"
#define BAD_GT     "-ERR GT, LT, and/or NX options at the same time are not compatible|"
#define BAD_NX     "-ERR XX and NX options at the same time are not compatible|"
#define BAD_LIMIT  "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX|"
#define BAD_SCORES "-ERR min or max is not a float|"
#define BAD_LEX    "-ERR min or max not valid string range item|"
#define NAN_RESULT "-ERR resulting score is not a number (NaN)|"
#define TOO_LARGE  "-ERR sorted set exceeds 1024 members or 65536 bytes (larger objects come in a later release)|"

static void
zadd_refuses_bad_arguments_in_redis_order(void)
{
    static const struct exec_row rows[] = {
        { "ZADD z", "-ERR wrong number of arguments for 'zadd' command|", NULL },
        { "ZADD z 1", "-ERR wrong number of arguments for 'zadd' command|", NULL },
        { "ZADD z nx ch", EXEC_SYNTAX, NULL },
        { "ZADD z CH INCR", EXEC_SYNTAX, NULL },
        { "ZADD z incr 1", EXEC_SYNTAX, NULL },
        { "ZADD z 1 a 2", EXEC_SYNTAX, NULL },
        { "ZADD z NX XX 1", EXEC_SYNTAX, NULL },
        { "ZADD z NX XX 1 a", BAD_NX, NULL },
        { "ZADD z NX XX GT LT x a", BAD_NX, NULL },
        { "ZADD z GT LT 1 a", BAD_GT, NULL },
        { "ZADD z NX GT 1 a", BAD_GT, NULL },
        { "ZADD z lt nx 1 a", BAD_GT, NULL },
        { "ZADD z INCR 1 a 2 b", "-ERR INCR option supports a single increment-element pair|", NULL },
        { "ZADD z nan a", NOT_FLOAT, NULL },
        { "ZADD z 1e400 a", NOT_FLOAT, NULL },
        { "ZADD z \"\" a", NOT_FLOAT, NULL },
        { "ZADD z \" 1\" a", NOT_FLOAT, NULL },
        { "ZADD z \"1 \" a", NOT_FLOAT, NULL },
        { "ZADD z 1 a x b", NOT_FLOAT, NULL },
        { "ZADD z 1 a CH b", NOT_FLOAT, NULL },
        { "EXISTS z", ":0|", NULL },
        { "SET s v", "+OK|", NULL },
        { "ZADD s x a", NOT_FLOAT, NULL },
        { "ZADD s NX XX 1 a", BAD_NX, NULL },
        { "ZADD s 1 a", EXEC_WRONGTYPE, NULL },
        { "ZADD s XX 1 a", EXEC_WRONGTYPE, NULL },
        { "ZSCORE s a", EXEC_WRONGTYPE, NULL },
        { "ZREM s a", EXEC_WRONGTYPE, NULL },
        { "ZCARD s", EXEC_WRONGTYPE, NULL },
        { "ZRANGE s 0 -1", EXEC_WRONGTYPE, NULL },
        { "HSET h a 1", ":1|", NULL },
        { "ZSCORE h a", EXEC_WRONGTYPE, NULL },
    };
    exec_check_rows(rows, ARRAY_COUNT(rows));
}

static void
zadd_does_what_its_options_say(void)
{
    static const struct exec_row rows[] = {
        { "ZADD z XX 1 a", ":0|", NULL },
        { "ZADD z XX INCR 1 a", "$-1|", NULL },
        { "EXISTS z", ":0|", NULL },
        { "ZADD z 1 a 2 b", ":2|", NULL },
        { "ZADD z 3 a 4 c", ":1|", NULL },
        { "ZADD z CH 3 a 5 c 6 d", ":2|", NULL },
        { "ZADD z CH 2 a 1 a 1 a", ":2|", NULL }, /* every change counts */
        { "ZADD z NX CH 9 a 7 e", ":1|", NULL },
        { "ZADD z XX CH 9 a 7 f", ":1|", NULL },
        { "ZADD z GT CH 8 a 10 b", ":1|", NULL },
        { "ZADD z LT CH 8 a 11 b", ":1|", NULL },
        { "ZADD z GT 1 new", ":1|", NULL },
        { "ZADD z GT XX 1 newer", ":0|", NULL },
        { "ZADD z ch Xx Lt 0.5 new", ":1|", NULL },
        { "ZRANGE z 0 -1 WITHSCORES", "*12|$3|new|$3|0.5|$1|c|$1|5|$1|d|$1|6|$1|e|$1|7|$1|a|$1|8|$1|b|$2|10|",
          "*6|*2|$3|new|,0.5|*2|$1|c|,5|*2|$1|d|,6|*2|$1|e|,7|*2|$1|a|,8|*2|$1|b|,10|" },
        { "ZADD z INCR 2.5 a", "$4|10.5|", ",10.5|" },
        { "ZADD z NX INCR 2.5 a", "$-1|", NULL },
        { "ZADD z NX INCR 2.5 g", "$3|2.5|", ",2.5|" },
        { "ZADD z XX INCR 1 h", "$-1|", NULL },
        { "ZADD z GT INCR -1 a", "$-1|", NULL },
        { "ZADD z LT INCR -1 a", "$3|9.5|", ",9.5|" },
        { "ZADD z GT INCR 0 a", "$-1|", NULL },
        { "ZADD z INCR 0 a", "$3|9.5|", ",9.5|" },
        { "ZADD z CH INCR 1 a", "$4|10.5|", ",10.5|" },
        { "ZADD dup 1 a 2 a 3 b", ":2|", NULL },
        { "ZSCORE dup a", "$1|2|", ",2|" },
        { "ZADD dup NX 5 c 6 c", ":1|", NULL },
        { "ZSCORE dup c", "$1|5|", ",5|" },
        { "ZADD dup GT 9 c 7 c", ":0|", NULL },
        { "ZSCORE dup c", "$1|9|", ",9|" },
        { "ZADD u 1 9fe9f1eb-6368", ":1|", NULL }, /* a member that looks like a number */
        { "ZADD u 2 nx", ":1|", NULL },            /* options end at the first score */
        { "ZADD u 3 \"\"", ":1|", NULL },
        { "ZRANGE u 0 -1", "*3|$13|9fe9f1eb-6368|$2|nx|$0||", NULL },
    };
    exec_check_rows(rows, ARRAY_COUNT(rows));
}

static void
scores_are_doubles_to_the_last_bit(void)
{
    static const struct exec_row rows[] = {
        { "ZSCORE z a", "$-1|", NULL },
        { "ZADD z 0.123123123 x", ":1|", NULL },
        { "ZSCORE z x", "$11|0.123123123|", ",0.123123123|" },
        { "ZSCORE z y", "$-1|", NULL },
        { "ZADD z 0.1 x", ":0|", NULL },
        { "ZSCORE z x", "$3|0.1|", ",0.1|" },
        { "ZADD z +inf p -inf n Infinity q", ":3|", NULL },
        { "ZSCORE z p", "$3|inf|", ",inf|" },
        { "ZSCORE z n", "$4|-inf|", ",-inf|" },
        { "ZADD z INCR -inf p", NAN_RESULT, NULL },
        { "ZSCORE z p", "$3|inf|", ",inf|" },
        { "ZADD z INCR inf p", "$3|inf|", ",inf|" },
        { "ZADD z INCR +inf n", NAN_RESULT, NULL },
        { "ZADD z INCR -inf nobody", "$4|-inf|", ",-inf|" },
        { "ZADD z 9007199254740993 big", ":1|", NULL },
        { "ZSCORE z big", "$16|9007199254740992|", ",9007199254740992|" },
        { "ZADD z -0 zero", ":1|", NULL },
        { "ZSCORE z zero", "$1|0|", ",0|" }, /* one zero */
        { "ZADD z CH 0 zero", ":0|", NULL },
        { "ZADD z 0x10 hex", ":1|", NULL },
        { "ZSCORE z hex", "$2|16|", ",16|" },
    };
    exec_check_rows(rows, ARRAY_COUNT(rows));
}

static void
denormals_survive(void)
{
    char again[80];
    exec_fixture_reset();
    CU_ASSERT_TRUE(exec_reply_is("ZADD", exec_ask(WIRE_RESP2, "ZADD d 9.8813129168249309e-323 m"), ":1|"));
    struct slice got = exec_ask(WIRE_RESP3, "ZSCORE d m");
    CU_ASSERT_EQUAL_FATAL(got.data[0], ',');
    snprintf(again, sizeof(again), "%.*s", (int)got.bytes - 3, got.data + 1);
    CU_ASSERT_EQUAL(strtod(again, NULL), 9.8813129168249309e-323);
}

static void
zrange_by_rank(void)
{
    static const struct exec_row rows[] = {
        { "ZRANGE z 0", "-ERR wrong number of arguments for 'zrange' command|", NULL },
        { "ZRANGE nokey 0 1 BAD", EXEC_SYNTAX, NULL },
        { "ZRANGE nokey a 1", EXEC_NOT_INTEGER, NULL },
        { "ZRANGE nokey 0 9223372036854775808", EXEC_NOT_INTEGER, NULL },
        { "ZRANGE nokey 0 1 LIMIT 0", EXEC_SYNTAX, NULL },
        { "ZRANGE nokey 0 1 LIMIT a b", EXEC_NOT_INTEGER, NULL },
        { "ZRANGE nokey a b LIMIT 0 1", BAD_LIMIT, NULL },
        { "ZRANGE nokey 0 1 REV REV", EXEC_SYNTAX, NULL },
        { "ZRANGE nokey 0 -1", "*0|", NULL },
        { "ZRANGE nokey 0 -1 WITHSCORES", "*0|", NULL },
        { "ZADD z 1 a 2 c 2 b 3 d", ":4|", NULL },
        { "ZCARD z", ":4|", NULL },
        { "ZCARD nokey", ":0|", NULL },
        { "ZRANGE z 0 -1", "*4|$1|a|$1|b|$1|c|$1|d|", NULL },
        { "ZRANGE z 0 0", "*1|$1|a|", NULL },
        { "ZRANGE z 1 2", "*2|$1|b|$1|c|", NULL },
        { "ZRANGE z 3 100", "*1|$1|d|", NULL },
        { "ZRANGE z 4 100", "*0|", NULL },
        { "ZRANGE z 2 1", "*0|", NULL },
        { "ZRANGE z -2 -1", "*2|$1|c|$1|d|", NULL },
        { "ZRANGE z -100 0", "*1|$1|a|", NULL },
        { "ZRANGE z -100 -5", "*0|", NULL },
        { "ZRANGE z -9223372036854775808 9223372036854775807", "*4|$1|a|$1|b|$1|c|$1|d|", NULL },
        { "ZRANGE z 9223372036854775807 -9223372036854775808", "*0|", NULL },
        { "ZRANGE z 0 -1 REV", "*4|$1|d|$1|c|$1|b|$1|a|", NULL },
        { "ZRANGE z 0 0 rev", "*1|$1|d|", NULL },
        { "ZRANGE z -1 -1 REV", "*1|$1|a|", NULL },
        { "ZRANGE z 1 2 REV WITHSCORES", "*4|$1|c|$1|2|$1|b|$1|2|", "*2|*2|$1|c|,2|*2|$1|b|,2|" },
        { "ZRANGE z 0 0 withscores WITHSCORES", "*2|$1|a|$1|1|", "*1|*2|$1|a|,1|" },
        { "ZRANGE z 0 -1 LIMIT 0 -1", "*4|$1|a|$1|b|$1|c|$1|d|", NULL },
        { "ZREM z nobody", ":0|", NULL },
        { "ZREM z b nobody b d", ":2|", NULL },
        { "ZRANGE z 0 -1", "*2|$1|a|$1|c|", NULL },
        { "ZREM z a c", ":2|", NULL },
        { "EXISTS z", ":0|", NULL },
        { "ZREM z a", ":0|", NULL },
    };
    exec_check_rows(rows, ARRAY_COUNT(rows));
}

static void
zrange_by_score(void)
{
    static const struct exec_row rows[] = {
        { "ZRANGE nokey x 1 BYSCORE", BAD_SCORES, NULL },
        { "ZRANGE nokey 1 y BYSCORE", BAD_SCORES, NULL },
        { "ZRANGE nokey nan 1 BYSCORE", BAD_SCORES, NULL },
        { "ZRANGE nokey (nan 1 BYSCORE", BAD_SCORES, NULL },
        { "ZRANGE nokey ((1 1 BYSCORE", BAD_SCORES, NULL },
        { "ZRANGE nokey 0 1 BYSCORE BYLEX", EXEC_SYNTAX, NULL },
        { "ZRANGE nokey 0 1 BYSCORE", "*0|", NULL },
        { "ZADD z 1 a 2 b 3 c 3 d 4 e", ":5|", NULL },
        { "ZRANGE z -inf +inf BYSCORE", "*5|$1|a|$1|b|$1|c|$1|d|$1|e|", NULL },
        { "ZRANGE z 2 3 BYSCORE", "*3|$1|b|$1|c|$1|d|", NULL },
        { "ZRANGE z (1 (4 BYSCORE", "*3|$1|b|$1|c|$1|d|", NULL },
        { "ZRANGE z (3 4 BYSCORE", "*1|$1|e|", NULL },
        { "ZRANGE z 1 (3 byscore", "*2|$1|a|$1|b|", NULL },
        { "ZRANGE z 3 3 BYSCORE", "*2|$1|c|$1|d|", NULL },
        { "ZRANGE z (3 3 BYSCORE", "*0|", NULL },
        { "ZRANGE z (3 (3 BYSCORE", "*0|", NULL },
        { "ZRANGE z 4 1 BYSCORE", "*0|", NULL },
        { "ZRANGE z 4 1 BYSCORE REV", "*5|$1|e|$1|d|$1|c|$1|b|$1|a|", NULL },
        { "ZRANGE z 1 4 BYSCORE REV", "*0|", NULL },
        { "ZRANGE z (4 (1 REV BYSCORE", "*3|$1|d|$1|c|$1|b|", NULL },
        { "ZRANGE z -inf +inf BYSCORE LIMIT 1 2", "*2|$1|b|$1|c|", NULL },
        { "ZRANGE z -inf +inf BYSCORE LIMIT 1 -1", "*4|$1|b|$1|c|$1|d|$1|e|", NULL },
        { "ZRANGE z -inf +inf BYSCORE LIMIT -1 2", "*0|", NULL },
        { "ZRANGE z -inf +inf BYSCORE LIMIT 1 0", "*0|", NULL },
        { "ZRANGE z -inf +inf BYSCORE LIMIT 5 2", "*0|", NULL },
        { "ZRANGE z -inf +inf BYSCORE LIMIT 4 9223372036854775807", "*1|$1|e|", NULL },
        { "ZRANGE z +inf -inf BYSCORE REV LIMIT 1 2", "*2|$1|d|$1|c|", NULL },
        { "ZRANGE z +inf -inf BYSCORE REV LIMIT 3 -7", "*2|$1|b|$1|a|", NULL },
        { "ZRANGE z 4 inf BYSCORE WITHSCORES", "*2|$1|e|$1|4|", "*1|*2|$1|e|,4|" },
        { "ZRANGE z 2 1 BYSCORE REV WITHSCORES", "*4|$1|b|$1|2|$1|a|$1|1|", "*2|*2|$1|b|,2|*2|$1|a|,1|" },
    };
    exec_check_rows(rows, ARRAY_COUNT(rows));
}

static void
zrange_by_member(void)
{
    static const struct exec_row rows[] = {
        { "ZRANGE nokey 0 1 BYLEX", BAD_LEX, NULL },
        { "ZRANGE nokey \"\" + BYLEX", BAD_LEX, NULL },
        { "ZRANGE nokey -a + BYLEX", BAD_LEX, NULL },
        { "ZRANGE nokey - +a BYLEX", BAD_LEX, NULL },
        { "ZRANGE nokey a b WITHSCORES BYLEX", "-ERR syntax error, WITHSCORES not supported in combination with BYLEX|",
          NULL },
        { "ZRANGE nokey - + BYLEX", "*0|", NULL },
        { "ZADD z 0 a 0 b 0 c 0 d 0 bb 0 \"\"", ":6|", NULL },
        { "ZRANGE z - + BYLEX", "*6|$0||$1|a|$1|b|$2|bb|$1|c|$1|d|", NULL },
        { "ZRANGE z [ + BYLEX", "*6|$0||$1|a|$1|b|$2|bb|$1|c|$1|d|", NULL },
        { "ZRANGE z ( + BYLEX", "*5|$1|a|$1|b|$2|bb|$1|c|$1|d|", NULL },
        { "ZRANGE z [b (d BYLEX", "*3|$1|b|$2|bb|$1|c|", NULL },
        { "ZRANGE z (b [d BYLEX", "*3|$2|bb|$1|c|$1|d|", NULL },
        { "ZRANGE z [b [b BYLEX", "*1|$1|b|", NULL },
        { "ZRANGE z (b (b BYLEX", "*0|", NULL },
        { "ZRANGE z (b [b BYLEX", "*0|", NULL },
        { "ZRANGE z [bz (bz BYLEX", "*0|", NULL },
        { "ZRANGE z + - BYLEX", "*0|", NULL },
        { "ZRANGE z - - BYLEX", "*0|", NULL },
        { "ZRANGE z + + BYLEX", "*0|", NULL },
        { "ZRANGE z + - BYLEX REV", "*6|$1|d|$1|c|$2|bb|$1|b|$1|a|$0||", NULL },
        { "ZRANGE z [c (a BYLEX REV", "*3|$1|c|$2|bb|$1|b|", NULL },
        { "ZRANGE z - + BYLEX LIMIT 1 2", "*2|$1|a|$1|b|", NULL },
        { "ZRANGE z - + BYLEX LIMIT 1 2 LIMIT 0 1", "*1|$0||", NULL },
        { "ZRANGE z + - bylex rev limit 1 2", "*2|$1|c|$2|bb|", NULL },
    };
    exec_check_rows(rows, ARRAY_COUNT(rows));
}

static struct slice
fill(const char *key, uint32_t first, uint32_t count, size_t member_bytes)
{
    static char members[LIMIT_PACKED_ENTRIES][8], scores[LIMIT_PACKED_ENTRIES][8];
    static char padded[LIMIT_PACKED_BYTES + 1];
    struct slice words[1 + LIMIT_REQUEST_ARGS];
    uint32_t words_count = 0;
    words[words_count++] = SLICE_LITERAL("ZADD");
    words[words_count++] = slice_text(key);
    for (uint32_t i = 0; i < count; i++) {
        snprintf(members[i], sizeof(members[0]), "%04u", first + i);
        snprintf(scores[i], sizeof(scores[0]), "%u", (first + i) * 7 % 1000);
        words[words_count++] = slice_text(scores[i]);
        words[words_count++] = slice_text(members[i]);
    }
    if (member_bytes != 0) {
        memset(padded, 'm', sizeof(padded));
        words[words_count - 1] = slice_of(padded, member_bytes);
    }
    return exec_ask_words(WIRE_RESP2, words, words_count);
}

static void
sorted_sets_end_at_their_limits(void)
{
    exec_fixture_reset();
    CU_ASSERT_TRUE(exec_reply_is("511", fill("z", 0, 511, 0), ":511|"));
    CU_ASSERT_TRUE(exec_reply_is("1022", fill("z", 511, 511, 0), ":511|"));
    CU_ASSERT_TRUE(exec_reply_is("1023", fill("z", 1022, 1, 0), ":1|"));
    CU_ASSERT_TRUE(exec_reply_is("1025 at once", fill("z", 1023, 2, 0), TOO_LARGE));
    CU_ASSERT_TRUE(exec_reply_is("1024", fill("z", 1023, 1, 0), ":1|"));
    CU_ASSERT_TRUE(exec_reply_is("1025", fill("z", 1024, 1, 0), TOO_LARGE));
    CU_ASSERT_TRUE(exec_reply_is("rescored", fill("z", 100, 511, 0), ":0|"));
    CU_ASSERT_TRUE(exec_reply_is("ZCARD", exec_ask(WIRE_RESP2, "ZCARD z"), ":1024|"));
    CU_ASSERT_TRUE(exec_reply_is("first", exec_ask(WIRE_RESP2, "ZRANGE z 0 1"), "*2|$4|0000|$4|1000|"));
    CU_ASSERT_TRUE(exec_reply_is("XX", exec_ask(WIRE_RESP2, "ZADD z XX CH 5 nobody 6 0000"), ":1|"));

    /* bytes: 2 a set, 12 a member */
    size_t room = LIMIT_PACKED_BYTES - 2 - 12;
    CU_ASSERT_TRUE(exec_reply_is("limit - 1", fill("b1", 0, 1, room - 1), ":1|"));
    CU_ASSERT_TRUE(exec_reply_is("limit", fill("b2", 0, 1, room), ":1|"));
    CU_ASSERT_TRUE(exec_reply_is("limit + 1", fill("b3", 0, 1, room + 1), TOO_LARGE));
    CU_ASSERT_TRUE(exec_reply_is("not made", exec_ask(WIRE_RESP2, "EXISTS b3"), ":0|"));
    CU_ASSERT_TRUE(exec_reply_is("full", exec_ask(WIRE_RESP2, "ZADD b2 1 \"\""), TOO_LARGE));
    CU_ASSERT_TRUE(exec_reply_is("INCR", exec_ask(WIRE_RESP2, "ZADD b2 INCR 1 \"\""), TOO_LARGE));
}

static void
native_scores_are_taken_as_they_are(void)
{
    exec_fixture_reset();
    struct exec *exec = exec_begin(WIRE_RESP2, "ZADD z 1 m");
    exec->request->args[1] = (struct arg){ .real = 4.9e-324, .kind = ARG_DOUBLE };
    CU_ASSERT_EQUAL(exec_attempt(exec), EXEC_DONE);
    CU_ASSERT_TRUE(exec_reply_is("ZADD", exec_reply(), ":1|"));

    exec = exec_begin(WIRE_RESP2, "ZADD z 1 m");
    exec->request->args[1] = (struct arg){ .real = __builtin_nan(""), .kind = ARG_DOUBLE };
    CU_ASSERT_EQUAL(exec_attempt(exec), EXEC_DONE);
    CU_ASSERT_TRUE(exec_reply_is("NaN", exec_reply(), NOT_FLOAT));
    CU_ASSERT_TRUE(exec_reply_is("ZSCORE", exec_ask(WIRE_RESP2, "ZRANGE z (0 1 BYSCORE"), "*1|$1|m|"));

    exec = exec_begin(WIRE_RESP2, "ZRANGE z 0 1 BYSCORE");
    exec->request->args[1] = (struct arg){ .real = __builtin_nan(""), .kind = ARG_DOUBLE };
    CU_ASSERT_EQUAL(exec_attempt(exec), EXEC_DONE);
    CU_ASSERT_TRUE(exec_reply_is("NaN", exec_reply(), BAD_SCORES));
}

static void
a_command_that_fails_changes_nothing(void)
{
    static const struct exec_refusal rows[] = {
        { "ZADD z 2 m 3 n", STORE_OOM, EXEC_DONE },
        { "ZADD z 2 m 3 n", STORE_TRY_LATER, EXEC_RETRY },
        { "ZREM z m", STORE_OOM, EXEC_RETRY },
        { "ZREM z m", STORE_TRY_LATER, EXEC_RETRY },
    };
    exec_check_refusals(rows, ARRAY_COUNT(rows), "ZADD z 1 m", "ZRANGE z 0 -1 WITHSCORES", "*2|$1|m|$1|1|");
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("exec_zset", exec_fixture_open, exec_fixture_close);
    CU_ADD_TEST(suite, zadd_refuses_bad_arguments_in_redis_order);
    CU_ADD_TEST(suite, sorted_sets_end_at_their_limits);
    CU_ADD_TEST(suite, a_command_that_fails_changes_nothing);
    CU_ADD_TEST(suite, zadd_does_what_its_options_say);
    CU_ADD_TEST(suite, scores_are_doubles_to_the_last_bit);
    CU_ADD_TEST(suite, denormals_survive);
    CU_ADD_TEST(suite, native_scores_are_taken_as_they_are);
    CU_ADD_TEST(suite, zrange_by_rank);
    CU_ADD_TEST(suite, zrange_by_score);
    CU_ADD_TEST(suite, zrange_by_member);
    CU_basic_run_tests();
    return CU_get_number_of_failures() != 0;
}
