/* test_resp_reply.c - RESP replies as a client reads them. */
#include "tools/client/resp_reply.h"
#include <CUnit/Basic.h>
#include <math.h>

/* A reply of every type, nested. */
static const char EVERYTHING[] =
    "*15\r\n+OK\r\n-ERR no\r\n:-42\r\n$5\r\nhe\r\no\r\n$0\r\n\r\n$-1\r\n*-1\r\n_\r\n,1.5\r\n#t\r\n"
    "(12345678901234567890\r\n=7\r\ntxt:abc\r\n%1\r\n$1\r\nk\r\n*2\r\n:1\r\n*0\r\n"
    "~1\r\n:7\r\n!5\r\nERR x\r\n";

static enum resp_reply_status
decode(const void *data, size_t bytes, struct value_list *list, size_t *taken, const char **why)
{
    struct resp_reply_state state = { 0 };
    list->count = 0;
    enum resp_reply_status status = resp_reply_decode(&state, slice_of(data, bytes), list, taken);
    if (why != NULL) {
        *why = state.why;
    }
    return status;
}

static void
malformed_replies_are_named(void)
{
    static const struct {
        const char *name, *wire;
        enum resp_reply_status want;
    } rows[] = {
        { "unknown type", "?1\r\n", RESP_REPLY_MALFORMED },
        { "a request", "PING\r\n", RESP_REPLY_MALFORMED },
        { "line feed alone", "+OK\n", RESP_REPLY_MALFORMED },
        { "empty line", "\r\n", RESP_REPLY_MALFORMED },
        { "only a line feed", "\n", RESP_REPLY_MALFORMED },
        { "integer with a letter", ":12a\r\n", RESP_REPLY_MALFORMED },
        { "integer too large", ":9223372036854775808\r\n", RESP_REPLY_MALFORMED },
        { "empty integer", ":\r\n", RESP_REPLY_MALFORMED },
        { "bulk length +1", "$+1\r\na\r\n", RESP_REPLY_MALFORMED },
        { "bulk length -2", "$-2\r\n", RESP_REPLY_MALFORMED },
        { "bulk length with a blank", "$ 1\r\na\r\n", RESP_REPLY_MALFORMED },
        { "bulk length above 2 GiB", "$2147483648\r\n", RESP_REPLY_MALFORMED },
        { "bulk longer than it says", "$2\r\nabc\r\n", RESP_REPLY_MALFORMED },
        { "verbatim of length -1", "=-1\r\n", RESP_REPLY_MALFORMED },
        { "array length -4", "*-4\r\n", RESP_REPLY_MALFORMED },
        { "map length -1", "%-1\r\n", RESP_REPLY_MALFORMED },
        { "array length above 1 G", "*1073741825\r\n", RESP_REPLY_MALFORMED },
        { "boolean x", "#x\r\n", RESP_REPLY_MALFORMED },
        { "nil with text", "_x\r\n", RESP_REPLY_MALFORMED },
        { "no double", ",1.5x\r\n", RESP_REPLY_MALFORMED },
        { "error inside an array", "*2\r\n:1\r\n?\r\n", RESP_REPLY_MALFORMED },
    };
    struct value_list list = { 0 };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        size_t taken;
        const char *why;
        enum resp_reply_status status = decode(rows[i].wire, strlen(rows[i].wire), &list, &taken, &why);
        if (status != rows[i].want || why == NULL) {
            printf("\n  %s: status %d", rows[i].name, status);
        }
        CU_ASSERT_EQUAL(status, rows[i].want);
        CU_ASSERT_PTR_NOT_NULL(why);
    }
    value_list_fini(&list);
}

static void
a_line_without_end_is_given_up(void)
{
    size_t bytes = 70000, taken;
    char *line = malloc(bytes);
    struct value_list list = { 0 };
    memset(line, 'x', bytes);
    line[0] = '+';
    CU_ASSERT_EQUAL(decode(line, bytes, &list, &taken, NULL), RESP_REPLY_MALFORMED);
    free(line);
    value_list_fini(&list);
}

static void
nesting_has_a_limit(void)
{
    char wire[4 * (VALUE_DEPTH_MAX + 1) + 5];
    size_t taken;
    struct value_list list = { 0 };
    for (uint32_t depth = VALUE_DEPTH_MAX - 1; depth <= VALUE_DEPTH_MAX + 1; depth++) {
        for (uint32_t i = 0; i < depth; i++) {
            memcpy(wire + 4 * i, "*1\r\n", 4);
        }
        memcpy(wire + 4 * depth, ":1\r\n", 4);
        enum resp_reply_status want = depth <= VALUE_DEPTH_MAX ? RESP_REPLY_OK : RESP_REPLY_TOO_LARGE;
        CU_ASSERT_EQUAL(decode(wire, 4 * depth + 4, &list, &taken, NULL), want);
    }
    value_list_fini(&list);
}

static void
an_announced_count_takes_no_memory(void)
{
    static const char wire[] = "*1000000000\r\n:1\r\n";
    size_t taken;
    struct value_list list = { 0 };
    CU_ASSERT_EQUAL(decode(wire, sizeof(wire) - 1, &list, &taken, NULL), RESP_REPLY_SHORT);
    CU_ASSERT(list.room <= 64);
    value_list_fini(&list);
}

static void
everything_is_checked(const struct value_list *list)
{
    const struct value *v = list->values;
    CU_ASSERT_EQUAL_FATAL(list->count, 21);
    CU_ASSERT_EQUAL(v[0].kind, VALUE_ARRAY);
    CU_ASSERT_EQUAL(v[0].count, 15);
    CU_ASSERT_EQUAL(v[0].after, 21);
    CU_ASSERT(v[1].kind == VALUE_STATUS && slice_equal(v[1].bytes, slice_text("OK")));
    CU_ASSERT(v[2].kind == VALUE_ERROR && slice_equal(v[2].bytes, slice_text("ERR no")));
    CU_ASSERT(v[3].kind == VALUE_INTEGER && v[3].integer == -42);
    CU_ASSERT(v[4].kind == VALUE_BULK && slice_equal(v[4].bytes, slice_text("he\r\no")));
    CU_ASSERT(v[5].kind == VALUE_BULK && v[5].bytes.bytes == 0);
    CU_ASSERT(v[6].kind == VALUE_NIL && v[7].kind == VALUE_NIL && v[8].kind == VALUE_NIL);
    CU_ASSERT(v[9].kind == VALUE_DOUBLE && v[9].real == 1.5 && slice_equal(v[9].bytes, slice_text("1.5")));
    CU_ASSERT(v[10].kind == VALUE_BOOL && v[10].integer == 1);
    CU_ASSERT(v[11].kind == VALUE_BIGNUM && slice_equal(v[11].bytes, slice_text("12345678901234567890")));
    CU_ASSERT(v[12].kind == VALUE_VERBATIM && slice_equal(v[12].bytes, slice_text("abc")));
    CU_ASSERT(v[13].kind == VALUE_MAP && v[13].count == 2 && v[13].after == 18);
    CU_ASSERT(v[14].kind == VALUE_BULK && slice_equal(v[14].bytes, slice_text("k")));
    CU_ASSERT(v[15].kind == VALUE_ARRAY && v[15].count == 2 && v[15].after == 18);
    CU_ASSERT(v[17].kind == VALUE_ARRAY && v[17].count == 0 && v[17].after == 18);
    CU_ASSERT(v[18].kind == VALUE_SET && v[18].after == 20 && v[19].integer == 7);
    CU_ASSERT(v[20].kind == VALUE_ERROR && slice_equal(v[20].bytes, slice_text("ERR x")));
}

static void
every_type_is_read(void)
{
    static const char nan_wire[] = ",nan\r\n", inf_wire[] = ",-inf\r\n", push_wire[] = ">1\r\n+x\r\n";
    size_t taken;
    struct value_list list = { 0 };
    /* fifteen elements are announced and fifteen are there */
    CU_ASSERT_EQUAL(decode(EVERYTHING, sizeof(EVERYTHING) - 1, &list, &taken, NULL), RESP_REPLY_OK);
    CU_ASSERT_EQUAL(taken, sizeof(EVERYTHING) - 1);
    everything_is_checked(&list);
    CU_ASSERT_EQUAL(decode(nan_wire, sizeof(nan_wire) - 1, &list, &taken, NULL), RESP_REPLY_OK);
    CU_ASSERT(isnan(list.values[0].real));
    CU_ASSERT_EQUAL(decode(inf_wire, sizeof(inf_wire) - 1, &list, &taken, NULL), RESP_REPLY_OK);
    CU_ASSERT(isinf(list.values[0].real) && list.values[0].real < 0);
    CU_ASSERT_EQUAL(decode(push_wire, sizeof(push_wire) - 1, &list, &taken, NULL), RESP_REPLY_OK);
    CU_ASSERT_EQUAL(list.values[0].kind, VALUE_PUSH);
    value_list_fini(&list);
}

/* Every cut, and every byte alone; the bytes move between the calls as a client's buffer does. */
static void
a_reply_may_come_in_any_pieces(void)
{
    size_t all = sizeof(EVERYTHING) - 1, taken;
    struct value_list list = { 0 };
    for (size_t step = 1; step < all; step++) {
        struct resp_reply_state state = { 0 };
        enum resp_reply_status status = RESP_REPLY_SHORT;
        list.count = 0;
        for (size_t have = step;; have = MIN(have + step, all)) {
            char *copy = malloc(have);
            memcpy(copy, EVERYTHING, have);
            status = resp_reply_decode(&state, slice_of(copy, have), &list, &taken);
            if (have == all) {
                CU_ASSERT_EQUAL(status, RESP_REPLY_OK);
                everything_is_checked(&list);
                free(copy);
                break;
            }
            CU_ASSERT_EQUAL(status, RESP_REPLY_SHORT);
            CU_ASSERT(state.wanted > have);
            free(copy);
        }
    }
    value_list_fini(&list);
}

static void
what_follows_a_reply_is_left(void)
{
    static const char wire[] = ":1\r\n:2\r\n";
    size_t taken;
    struct value_list list = { 0 };
    CU_ASSERT_EQUAL(decode(wire, sizeof(wire) - 1, &list, &taken, NULL), RESP_REPLY_OK);
    CU_ASSERT_EQUAL(taken, 4);
    CU_ASSERT_EQUAL(list.values[0].integer, 1);
    value_list_fini(&list);
}

static void
requests_are_arrays_of_bulk_strings(void)
{
    uint8_t out[128];
    struct slice words[] = { slice_text("SET"), slice_text("key:10bytes"), { NULL, 0 } };
    size_t bytes = resp_request_bytes(words, 3);
    CU_ASSERT_EQUAL((size_t)(resp_request_write(out, words, 3) - out), bytes);
    CU_ASSERT(slice_equal(slice_of(out, bytes), slice_text("*3\r\n$3\r\nSET\r\n$11\r\nkey:10bytes\r\n$0\r\n\r\n")));
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("resp_reply", NULL, NULL);
    CU_ADD_TEST(suite, malformed_replies_are_named);
    CU_ADD_TEST(suite, a_line_without_end_is_given_up);
    CU_ADD_TEST(suite, nesting_has_a_limit);
    CU_ADD_TEST(suite, an_announced_count_takes_no_memory);
    CU_ADD_TEST(suite, every_type_is_read);
    CU_ADD_TEST(suite, a_reply_may_come_in_any_pieces);
    CU_ADD_TEST(suite, what_follows_a_reply_is_left);
    CU_ADD_TEST(suite, requests_are_arrays_of_bulk_strings);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
