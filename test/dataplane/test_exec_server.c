/* PING ECHO SELECT TIME DBSIZE FLUSHALL FLUSHDB COMMAND, byte for byte; and the patterns of COMMAND LIST. */
#include "dataplane/glob.h"
#include "exec_fixture.h"
#include <CUnit/Basic.h>

static void
small_server_commands(void)
{
    static const struct exec_row rows[] = {
        { "PING a b", "-ERR wrong number of arguments for 'ping' command|", NULL },
        { "PING", "+PONG|", NULL },
        { "PING hello", "$5|hello|", NULL },
        { "PING \"\"", "$0||", NULL },
        { "ECHO", "-ERR wrong number of arguments for 'echo' command|", NULL },
        { "ECHO \"a b\"", "$3|a b|", NULL },
        { "SELECT", "-ERR wrong number of arguments for 'select' command|", NULL },
        { "SELECT 1a", "-ERR value is not an integer or out of range|", NULL },
        { "SELECT 99999999999999999999", "-ERR value is not an integer or out of range|", NULL },
        { "SELECT 99", "-ERR DB index is out of range|", NULL },
        { "SELECT -1", "-ERR DB index is out of range|", NULL },
        { "SELECT 0", "+OK|", NULL },
        { "TIME now", "-ERR wrong number of arguments for 'time' command|", NULL },
        { "DBSIZE now", "-ERR wrong number of arguments for 'dbsize' command|", NULL },
        { "DBSIZE", ":0|", NULL },
        { "SET a 1", "+OK|", NULL },
        { "HSET b f v", ":1|", NULL },
        { "DBSIZE", ":2|", NULL },
        { "FLUSHALL FOO", EXEC_SYNTAX, NULL },
        { "FLUSHALL ASYNC SYNC", EXEC_SYNTAX, NULL },
        { "FLUSHDB \"\"", EXEC_SYNTAX, NULL },
        { "DBSIZE", ":2|", NULL },
        { "FLUSHALL aSync", "+OK|", NULL },
        { "DBSIZE", ":0|", NULL },
        { "GET a", "$-1|", NULL },
        { "HSET b g v", ":1|", NULL },
        { "HLEN b", ":1|", NULL },
        { "FLUSHDB SYNC", "+OK|", NULL },
        { "EXISTS b", ":0|", NULL },
        { "SET a 2 NX", "+OK|", NULL },
        { "FLUSHDB", "+OK|", NULL },
        { "FLUSHALL", "+OK|", NULL },
    };
    exec_check_rows(rows, ARRAY_COUNT(rows));
}

static void
time_is_the_time_of_the_burst(void)
{
    exec_fixture_reset();
    CU_ASSERT_TRUE(exec_reply_is("TIME", exec_ask(WIRE_RESP2, "TIME"), "*2|$10|1700000000|$1|0|"));
    fixture_now_ms += 1002;
    CU_ASSERT_TRUE(exec_reply_is("TIME", exec_ask(WIRE_RESP2, "TIME"), "*2|$10|1700000001|$4|2000|"));
}

static void
ping_looks_like_a_message_to_a_subscriber_of_resp2(void)
{
    exec_fixture_reset();
    exec_fixture_subscribe(true);
    CU_ASSERT_TRUE(exec_reply_is("PING", exec_ask(WIRE_RESP2, "PING"), "*2|$4|pong|$0||"));
    CU_ASSERT_TRUE(exec_reply_is("PING x", exec_ask(WIRE_RESP2, "PING x"), "*2|$4|pong|$1|x|"));
    CU_ASSERT_TRUE(exec_reply_is("PING", exec_ask(WIRE_RESP3, "PING"), "+PONG|"));
    exec_fixture_subscribe(false);
}

#define GET_INFO2                                                                                                      \
    "*10|$3|get|:2|*2|+readonly|+fast|:1|:1|:1|*3|+@read|+@string|+@fast|*0|*1|*6|$5|flags|*2|+RO|+access|"            \
    "$12|begin_search|*4|$4|type|$5|index|$4|spec|*2|$5|index|:1|"                                                     \
    "$9|find_keys|*4|$4|type|$5|range|$4|spec|*6|$7|lastkey|:0|$7|keystep|:1|$5|limit|:0|*0|"
#define GET_INFO3                                                                                                      \
    "*10|$3|get|:2|~2|+readonly|+fast|:1|:1|:1|~3|+@read|+@string|+@fast|~0|~1|%3|$5|flags|~2|+RO|+access|"            \
    "$12|begin_search|%2|$4|type|$5|index|$4|spec|%1|$5|index|:1|"                                                     \
    "$9|find_keys|%2|$4|type|$5|range|$4|spec|%3|$7|lastkey|:0|$7|keystep|:1|$5|limit|:0|~0|"
#define GET_DOCS "$7|summary|$14|Reads a string|$5|since|$5|0.1.0|$5|group|$6|string|"

static void
command_describes_the_table(void)
{
    static const struct exec_row rows[] = {
        { "COMMAND FOO", "-ERR unknown subcommand 'FOO'. Try COMMAND HELP.|", NULL },
        { "COMMAND COUNT x", "-ERR wrong number of arguments for 'command|count' command|", NULL },
        { "COMMAND HELP x", "-ERR wrong number of arguments for 'command|help' command|", NULL },
        { "COMMAND INFO get nope", "*2|" GET_INFO2 "$-1|", "*2|" GET_INFO3 "_|" },
        { "COMMAND INFO nope", "*1|$-1|", "*1|_|" },
        { "COMMAND DOCS nope", "*0|", "%0|" },
        { "COMMAND DOCS nope GET", "*2|$3|get|*6|" GET_DOCS, "%1|$3|get|%3|" GET_DOCS },
        { "COMMAND LIST FOO", EXEC_SYNTAX, NULL },
        { "COMMAND LIST FILTERBY MODULE", EXEC_SYNTAX, NULL },
        { "COMMAND LIST FILTERBY FOO x", EXEC_SYNTAX, NULL },
        { "COMMAND LIST FILTERBY MODULE x y", EXEC_SYNTAX, NULL },
        { "COMMAND LIST FILTERBY MODULE x", "*0|", NULL },
        { "COMMAND LIST FILTERBY ACLCAT nope", "*0|", NULL },
        { "COMMAND LIST FILTERBY ACLCAT hAsh", "*7|$4|hset|$4|hget|$4|hdel|$4|hlen|$7|hgetall|$7|hexists|$5|hscan|",
          NULL },
        { "COMMAND LIST FILTERBY PATTERN HG*", "*2|$4|hget|$7|hgetall|", NULL },
        { "COMMAND LIST FILTERBY PATTERN [pz]?[t-u]t?", "*0|", NULL },
        { "COMMAND LIST FILTERBY PATTERN ?ttl", "*1|$4|pttl|", NULL },
        { "COMMAND GETKEYS", "-ERR wrong number of arguments for 'command|getkeys' command|", NULL },
        { "COMMAND GETKEYS get", "-ERR wrong number of arguments for 'command|getkeys' command|", NULL },
        { "COMMAND GETKEYS nope a", "-ERR Invalid command specified|", NULL },
        { "COMMAND GETKEYS ping a", "-ERR The command has no key arguments|", NULL },
        { "COMMAND GETKEYS get a b", "-ERR Invalid number of arguments specified for command|", NULL },
        { "COMMAND GETKEYS GET a", "*1|$1|a|", NULL },
        { "COMMAND GETKEYS set a b EX 10", "*1|$1|a|", NULL },
        { "COMMAND GETKEYS mget a b c", "*3|$1|a|$1|b|$1|c|", NULL },
    };
    /* '|' of "command|count" is a CR LF to the fixture: these are compared by hand */
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (strstr(rows[i].resp2, "command|") != NULL) {
            struct slice got = exec_ask(WIRE_RESP2, rows[i].line);
            CU_ASSERT_EQUAL_FATAL(got.bytes, strlen(rows[i].resp2) + 1);
            CU_ASSERT_EQUAL(memcmp(got.data, rows[i].resp2, got.bytes - 2), 0);
        } else {
            exec_check_rows(&rows[i], 1);
        }
    }
}

static uint32_t
header_count(struct slice reply)
{
    return reply.bytes > 1 && reply.data[0] == '*' ? (uint32_t)strtoul((const char *)reply.data + 1, NULL, 10) : 0;
}

static void
every_command_is_listed_counted_and_handled(void)
{
    char expected[16];
    exec_fixture_reset();
    snprintf(expected, sizeof(expected), ":%d|", COMMAND_COUNT);
    CU_ASSERT_TRUE(exec_reply_is("COMMAND COUNT", exec_ask(WIRE_RESP2, "COMMAND COUNT"), expected));
    CU_ASSERT_EQUAL(header_count(exec_ask(WIRE_RESP2, "COMMAND")), COMMAND_COUNT);
    CU_ASSERT_EQUAL(header_count(exec_ask(WIRE_RESP2, "COMMAND INFO")), COMMAND_COUNT);
    CU_ASSERT_EQUAL(header_count(exec_ask(WIRE_RESP2, "COMMAND LIST")), COMMAND_COUNT);
    CU_ASSERT_EQUAL(header_count(exec_ask(WIRE_RESP2, "COMMAND LIST FILTERBY PATTERN *")), COMMAND_COUNT);
    CU_ASSERT_EQUAL(header_count(exec_ask(WIRE_RESP2, "COMMAND DOCS")), 2 * COMMAND_COUNT);
    for (uint32_t i = 0; i < COMMAND_COUNT; i++) {
        CU_ASSERT_PTR_NOT_NULL(exec_table[i]);
        CU_ASSERT_EQUAL(command_table[i].id, i);
    }
}

static void
long_patterns_are_refused(void)
{
    static uint8_t pattern[257];
    exec_fixture_reset();
    memset(pattern, '*', sizeof(pattern));
    struct slice words[] = { SLICE_LITERAL("COMMAND"), SLICE_LITERAL("LIST"), SLICE_LITERAL("FILTERBY"),
                             SLICE_LITERAL("PATTERN"), slice_of(pattern, 255) };
    for (size_t bytes = 255; bytes <= 257; bytes++) {
        words[4].bytes = bytes;
        struct slice got = exec_ask_words(WIRE_RESP2, words, ARRAY_COUNT(words));
        CU_ASSERT_EQUAL(header_count(got), bytes <= 256 ? COMMAND_COUNT : 0);
        CU_ASSERT_EQUAL(got.data[0], bytes <= 256 ? '*' : '-');
    }
}

static void
patterns_match_as_redis_patterns_do(void)
{
    static const struct {
        const char *pattern, *text;
        bool matches;
    } rows[] = {
        { "", "", true },         { "", "a", false },       { "*", "", true },        { "***", "abc", true },
        { "a", "A", true },       { "A*C", "abbbc", true }, { "a*c", "abcb", false }, { "a*b*c", "axbxbxc", true },
        { "*a", "bbba", true },   { "*ab", "aab", true },   { "?", "", false },       { "?", "a", true },
        { "a?c", "abc", true },   { "[abc]", "b", true },   { "[abc]", "d", false },  { "[a-c]x", "bx", true },
        { "[c-a]x", "bx", true }, { "[^a-c]", "b", false }, { "[^a-c]", "d", true },  { "[A-C]", "b", true },
        { "[\\]]", "]", true },   { "[]", "a", false },     { "[^]", "a", true },     { "[abc", "c", true },
        { "[abc", "d", false },   { "[", "a", false },      { "[a-", "-", true },     { "\\*", "*", true },
        { "\\*", "a", false },    { "\\", "\\", true },     { "a\\", "a\\", true },   { "*[ab]c", "xxbc", true },
        { "abc", "abcd", false }, { "abcd", "abc", false },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        bool matches = glob_match_nocase(slice_text(rows[i].pattern), slice_text(rows[i].text));
        CU_ASSERT_EQUAL(matches, rows[i].matches);
        if (matches != rows[i].matches) {
            printf("\n  pattern %s text %s\n", rows[i].pattern, rows[i].text);
        }
    }
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("exec_server", exec_fixture_open, exec_fixture_close);
    CU_ADD_TEST(suite, long_patterns_are_refused);
    CU_ADD_TEST(suite, patterns_match_as_redis_patterns_do);
    CU_ADD_TEST(suite, small_server_commands);
    CU_ADD_TEST(suite, time_is_the_time_of_the_burst);
    CU_ADD_TEST(suite, ping_looks_like_a_message_to_a_subscriber_of_resp2);
    CU_ADD_TEST(suite, command_describes_the_table);
    CU_ADD_TEST(suite, every_command_is_listed_counted_and_handled);
    CU_basic_run_tests();
    return CU_get_number_of_failures() != 0;
}
