/* HSET HGET HDEL HLEN HGETALL HEXISTS, byte for byte. */
#include "exec_fixture.h"
#include <CUnit/Basic.h>

#define TOO_LARGE "-ERR hash exceeds 1024 fields or 65536 bytes (larger objects come in a later release)|"

static void
bad_hash_commands_are_refused_in_redis_order(void)
{
    static const struct exec_row rows[] = {
        { "HSET h", "-ERR wrong number of arguments for 'hset' command|", NULL },
        { "HSET h f", "-ERR wrong number of arguments for 'hset' command|", NULL },
        { "HSET h f v g", "-ERR wrong number of arguments for 'hset' command|", NULL },
        { "HGET h", "-ERR wrong number of arguments for 'hget' command|", NULL },
        { "HGET h f g", "-ERR wrong number of arguments for 'hget' command|", NULL },
        { "HDEL h", "-ERR wrong number of arguments for 'hdel' command|", NULL },
        { "HLEN", "-ERR wrong number of arguments for 'hlen' command|", NULL },
        { "SET s v", "+OK|", NULL },
        { "HSET s f", "-ERR wrong number of arguments for 'hset' command|", NULL },
        { "HSET s f v g", "-ERR wrong number of arguments for 'hset' command|", NULL },
        { "HSET s f v", EXEC_WRONGTYPE, NULL },
        { "HGET s f", EXEC_WRONGTYPE, NULL },
        { "HDEL s f", EXEC_WRONGTYPE, NULL },
        { "HLEN s", EXEC_WRONGTYPE, NULL },
        { "HGETALL s", EXEC_WRONGTYPE, NULL },
        { "HEXISTS s f", EXEC_WRONGTYPE, NULL },
        { "ZADD z 1 m", ":1|", NULL },
        { "HGET z m", EXEC_WRONGTYPE, NULL },
        { "HSET z m v", EXEC_WRONGTYPE, NULL },
        { "GET s", "$1|v|", NULL },
        { "EXISTS h", ":0|", NULL },
    };
    exec_check_rows(rows, ARRAY_COUNT(rows));
}

static void
fields_come_change_and_go(void)
{
    static const struct exec_row rows[] = {
        { "HGET h f", "$-1|", NULL },
        { "HLEN h", ":0|", NULL },
        { "HEXISTS h f", ":0|", NULL },
        { "HGETALL h", "*0|", "%0|" },
        { "HDEL h f", ":0|", NULL },
        { "HSET h f v", ":1|", NULL },
        { "HSET h f w", ":0|", NULL },
        { "HSET h f x g y", ":1|", NULL },
        { "HSET h i 1 i 2 f z i 3", ":1|", NULL }, /* the last of equal fields wins, and it counts once */
        { "HLEN h", ":3|", NULL },
        { "HGETALL h", "*6|$1|f|$1|z|$1|g|$1|y|$1|i|$1|3|", "%3|$1|f|$1|z|$1|g|$1|y|$1|i|$1|3|" },
        { "HGET h g", "$1|y|", NULL },
        { "HGET h G", "$-1|", NULL },
        { "HEXISTS h g", ":1|", NULL },
        { "HEXISTS h gg", ":0|", NULL },
        { "HSET h \"\" \"\"", ":1|", NULL },
        { "HGET h \"\"", "$0||", NULL },
        { "HEXISTS h \"\"", ":1|", NULL },
        { "HSET h \"a\\x00b\" \"\\x00\\x00\"", ":1|", NULL },
        { "HDEL h nofield \"\" \"\"", ":1|", NULL },
        { "HDEL h g nofield f", ":2|", NULL },
        { "HGETALL nokey", "*0|", "%0|" },
        { "HDEL h \"a\\x00b\" i i", ":2|", NULL },
        { "EXISTS h", ":0|", NULL }, /* the last field takes the key along */
        { "TYPE h", "+none|", NULL },
        { "DBSIZE", ":0|", NULL },
    };
    exec_check_rows(rows, ARRAY_COUNT(rows));
}

static void
a_value_keeps_its_length(void)
{
    uint8_t ones[300];
    exec_fixture_reset();
    memset(ones, '1', sizeof(ones));
    for (size_t bytes = 0; bytes <= sizeof(ones); bytes += 5) { /* 65 among them */
        struct slice words[] = { SLICE_LITERAL("HSET"), SLICE_LITERAL("h"), slice_of(ones, bytes + 1),
                                 slice_of(ones, bytes) };
        if (bytes + 1 > sizeof(ones)) {
            break;
        }
        exec_ask_words(WIRE_RESP2, words, 4);
        words[0] = SLICE_LITERAL("HGET");
        struct slice got = exec_ask_words(WIRE_RESP2, words, 3);
        char head[16];
        int head_bytes = snprintf(head, sizeof(head), "$%zu\r\n", bytes);
        CU_ASSERT_EQUAL(got.bytes, (size_t)head_bytes + bytes + 2);
        CU_ASSERT_EQUAL(memcmp(got.data, head, (size_t)head_bytes), 0);
    }
}

/* HSET of `count` fields "NNNN" with values of `value_bytes`, in commands of as many pairs as one may carry. */
static struct slice
fill(const char *key, uint32_t first, uint32_t count, const uint8_t *value, size_t value_bytes)
{
    static char names[2 * LIMIT_PACKED_ENTRIES][8];
    struct slice words[1 + LIMIT_REQUEST_ARGS], got = { NULL, 0 };
    for (uint32_t done = 0; done < count;) {
        uint32_t words_count = 0;
        words[words_count++] = SLICE_LITERAL("HSET");
        words[words_count++] = slice_text(key);
        for (; done < count && words_count + 2 <= ARRAY_COUNT(words); done++) {
            int bytes = snprintf(names[done], sizeof(names[0]), "%04u", first + done);
            words[words_count++] = slice_of(names[done], (size_t)bytes);
            words[words_count++] = slice_of(value, value_bytes);
        }
        got = exec_ask_words(WIRE_RESP2, words, words_count);
    }
    return got;
}

static void
hashes_end_at_their_limits(void)
{
    static uint8_t value[LIMIT_PACKED_BYTES + 1];
    exec_fixture_reset();
    memset(value, 'v', sizeof(value));

    /* fields: 511 of them go in one command */
    CU_ASSERT_TRUE(exec_reply_is("511", fill("h", 0, 511, value, 1), ":511|"));
    CU_ASSERT_TRUE(exec_reply_is("1022", fill("h", 511, 511, value, 1), ":511|"));
    CU_ASSERT_TRUE(exec_reply_is("1023", fill("h", 1022, 1, value, 1), ":1|"));
    CU_ASSERT_TRUE(exec_reply_is("1025 at once", fill("h", 1023, 2, value, 1), TOO_LARGE));
    CU_ASSERT_TRUE(exec_reply_is("1024", fill("h", 1023, 1, value, 1), ":1|"));
    CU_ASSERT_TRUE(exec_reply_is("1025", fill("h", 1024, 1, value, 1), TOO_LARGE));
    CU_ASSERT_TRUE(exec_reply_is("overwritten", fill("h", 100, 511, value, 2), ":0|"));
    CU_ASSERT_TRUE(exec_reply_is("HLEN", exec_ask(WIRE_RESP2, "HLEN h"), ":1024|"));
    CU_ASSERT_TRUE(exec_reply_is("HGET", exec_ask(WIRE_RESP2, "HGET h 0610"), "$2|vv|"));
    CU_ASSERT_TRUE(exec_reply_is("HGET", exec_ask(WIRE_RESP2, "HGET h 0611"), "$1|v|"));
    CU_ASSERT_TRUE(exec_reply_is("HGET", exec_ask(WIRE_RESP2, "HGET h 1023"), "$1|v|"));
    CU_ASSERT_TRUE(exec_reply_is("HGET", exec_ask(WIRE_RESP2, "HGET h 1024"), "$-1|"));

    /* bytes: 2 a hash, 5 a field, and the field's 4 */
    size_t room = LIMIT_PACKED_BYTES - 2 - 5 - 4;
    CU_ASSERT_TRUE(exec_reply_is("limit - 1", fill("b1", 0, 1, value, room - 1), ":1|"));
    CU_ASSERT_TRUE(exec_reply_is("limit", fill("b2", 0, 1, value, room), ":1|"));
    CU_ASSERT_TRUE(exec_reply_is("limit + 1", fill("b3", 0, 1, value, room + 1), TOO_LARGE));
    CU_ASSERT_TRUE(exec_reply_is("not made", exec_ask(WIRE_RESP2, "EXISTS b3"), ":0|"));
    CU_ASSERT_TRUE(exec_reply_is("full", exec_ask(WIRE_RESP2, "HSET b2 g \"\""), TOO_LARGE));
    CU_ASSERT_TRUE(exec_reply_is("shorter", fill("b2", 0, 1, value, 10), ":0|"));
    CU_ASSERT_TRUE(exec_reply_is("room again", exec_ask(WIRE_RESP2, "HSET b2 g \"\""), ":1|"));
}

static void
a_command_that_fails_changes_nothing(void)
{
    static const struct exec_refusal rows[] = {
        { "HSET h f w g x", STORE_OOM, EXEC_DONE },
        { "HSET h f w g x", STORE_TRY_LATER, EXEC_RETRY },
        { "HDEL h f", STORE_OOM, EXEC_RETRY },
        { "HDEL h f", STORE_TRY_LATER, EXEC_RETRY },
    };
    exec_check_refusals(rows, ARRAY_COUNT(rows), "HSET h f v", "HGETALL h", "*2|$1|f|$1|v|");
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("exec_hash", exec_fixture_open, exec_fixture_close);
    CU_ADD_TEST(suite, bad_hash_commands_are_refused_in_redis_order);
    CU_ADD_TEST(suite, hashes_end_at_their_limits);
    CU_ADD_TEST(suite, a_command_that_fails_changes_nothing);
    CU_ADD_TEST(suite, fields_come_change_and_go);
    CU_ADD_TEST(suite, a_value_keeps_its_length);
    CU_basic_run_tests();
    return CU_get_number_of_failures() != 0;
}
