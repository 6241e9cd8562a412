/* test_cli.c - sluice-cli: lines taken apart, replies printed as redis-cli prints them. */
#include "tools/client/resp_reply.h"
#include "tools/sluice_cli.h"
#include <CUnit/Basic.h>

static void
unbalanced_quotes_are_refused(void)
{
    static const char *const lines[] = {
        "\"", "'", "set k \"v", "set k 'v", "\"a\"b", "'a'b", "\"a\\", "x \"a\"\"b\""
    };
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        struct cli_words words;
        CU_ASSERT_FALSE(cli_words_split(lines[i], &words));
        CU_ASSERT_EQUAL(words.count, 0);
    }
}

static void
words_are_split_and_unescaped(void)
{
    static const struct {
        const char *line;
        uint32_t count;
        const char *last;
        size_t last_bytes;
    } rows[] = {
        { "", 0, "", 0 },
        { "  \t ", 0, "", 0 },
        { "ping", 1, "ping", 4 },
        { " set  k\tv ", 3, "v", 1 },
        { "set k \"a b\"", 3, "a b", 3 },
        { "set k \"\"", 3, "", 0 },
        { "set k ''", 3, "", 0 },
        { "set k \"\\n\\r\\t\\b\\a\\\\\\\"\"", 3, "\n\r\t\b\a\\\"", 7 },
        { "set k \"\\x00\\xfFz\"", 3, "\0\xffz", 3 },
        { "set k \"\\xZ1\"", 3, "xZ1", 3 },
        { "set k 'a\\n\\'b'", 3, "a\\n'b", 5 },
        { "set k a\"b c\"", 3, "ab c", 4 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct cli_words words;
        CU_ASSERT_FATAL(cli_words_split(rows[i].line, &words));
        CU_ASSERT_EQUAL(words.count, rows[i].count);
        if (words.count > 0) {
            struct slice last = words.words[words.count - 1];
            if (!slice_equal(last, slice_of(rows[i].last, rows[i].last_bytes))) {
                printf("\n  %s", rows[i].line);
            }
            CU_ASSERT(slice_equal(last, slice_of(rows[i].last, rows[i].last_bytes)));
        }
        cli_words_fini(&words);
    }
}

static void
replies_look_as_in_redis_cli(void)
{
    static const struct {
        const char *wire, *tty, *raw, *json;
    } rows[] = {
        { "+OK\r\n", "OK\n", "OK\n", "\"OK\"\n" },
        { "-ERR no\r\n", "(error) ERR no\n", "ERR no\n\n", "error:\"ERR no\"\n" },
        { ":7\r\n", "(integer) 7\n", "7\n", "7\n" },
        { "$-1\r\n", "(nil)\n", "\n", "null\n" },
        { "$4\r\na\"\n\x01\r\n", "\"a\\\"\\n\\x01\"\n", "a\"\n\x01\n", "\"a\\\"\\n\\u0001\"\n" },
        { ",1.5\r\n", "(double) 1.5\n", "1.5\n", "1.5\n" },
        { "#t\r\n", "(true)\n", "(true)\n", "true\n" },
        { "=7\r\ntxt:a b\r\n", "a b\n", "a b\n", "\"a b\"\n" },
        { "*0\r\n", "(empty array)\n", "\n", "[]\n" },
        { "%0\r\n", "(empty hash)\n", "\n", "{}\n" },
        { "~0\r\n", "(empty set)\n", "\n", "[]\n" },
        { "*2\r\n$1\r\na\r\n*2\r\n:1\r\n:2\r\n", "1) \"a\"\n2) 1) (integer) 1\n   2) (integer) 2\n", "a\n1\n2\n",
          "[\"a\",[1,2]]\n" },
        { "~2\r\n:1\r\n:2\r\n", "1~ (integer) 1\n2~ (integer) 2\n", "1\n2\n", "[1,2]\n" },
        { "%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n*2\r\n:2\r\n:3\r\n",
          "1# \"a\" => (integer) 1\n2# \"b\" => \n   1) (integer) 2\n   2) (integer) 3\n", "a 1\nb 2\n3\n",
          "{\"a\":1,\"b\":[2,3]}\n" },
        { "%1\r\n$1\r\na\r\n%1\r\n$1\r\nb\r\n:1\r\n", "1# \"a\" => 1# \"b\" => (integer) 1\n", "a b 1\n",
          "{\"a\":{\"b\":1}}\n" },
        { "*11\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n",
          " 1) (integer) 1\n 2) (integer) 1\n 3) (integer) 1\n 4) (integer) 1\n 5) (integer) 1\n 6) (integer) 1\n"
          " 7) (integer) 1\n 8) (integer) 1\n 9) (integer) 1\n10) (integer) 1\n11) (integer) 1\n",
          "1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n", "[1,1,1,1,1,1,1,1,1,1,1]\n" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct value_list list = { 0 };
        struct resp_reply_state state = { 0 };
        size_t taken;
        CU_ASSERT_EQUAL_FATAL(resp_reply_decode(&state, slice_text(rows[i].wire), &list, &taken), RESP_REPLY_OK);
        struct client_reply reply = { list.values, list.count, false };
        const char *want[] = { rows[i].tty, rows[i].raw, rows[i].json };
        for (int format = CLI_FORMAT_TTY; format <= CLI_FORMAT_JSON; format++) {
            struct cli_text text = { 0 };
            cli_reply_print(&text, &reply, (enum cli_format)format, "\n");
            if (strcmp(text.data, want[format]) != 0) {
                printf("\n  %s-> %s", rows[i].wire, text.data);
            }
            CU_ASSERT_STRING_EQUAL(text.data, want[format]);
            cli_text_fini(&text);
        }
        value_list_fini(&list);
    }
}

static void
a_double_without_text_is_the_shortest_that_reads_back(void)
{
    static const struct {
        double real;
        const char *text;
    } rows[] = { { 0.1, "(double) 0.1\n" },
                 { 3, "(double) 3\n" },
                 { 1.0 / 3, "(double) 0.3333333333333333\n" },
                 { 5e-324, "(double) 4.94065645841247e-324\n" } };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct value value = { .kind = VALUE_DOUBLE, .after = 1, .real = rows[i].real };
        struct client_reply reply = { &value, 1, false };
        struct cli_text text = { 0 };
        cli_reply_print(&text, &reply, CLI_FORMAT_TTY, "\n");
        CU_ASSERT_STRING_EQUAL(text.data, rows[i].text);
        cli_text_fini(&text);
    }
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("cli", NULL, NULL);
    CU_ADD_TEST(suite, unbalanced_quotes_are_refused);
    CU_ADD_TEST(suite, words_are_split_and_unescaped);
    CU_ADD_TEST(suite, replies_look_as_in_redis_cli);
    CU_ADD_TEST(suite, a_double_without_text_is_the_shortest_that_reads_back);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
