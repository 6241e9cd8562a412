/* SCAN RANDOMKEY HSCAN ZSCAN, byte for byte; whole walks; what one call may do. */
#include "exec_fixture.h"
#include <CUnit/Basic.h>

#define BAD_CURSOR "-ERR invalid cursor|"
#define NOT_INT    "-ERR value is not an integer or out of range|"
#define EMPTY      "*2|$1|0|*0|"
#define KEYS       20000

static uint32_t seen[KEYS];

/* ---- replies ---- */

static uint64_t
number_after(struct slice reply, size_t *at, char kind)
{
    uint64_t value = 0;
    CU_ASSERT_FATAL(*at < reply.bytes && reply.data[*at] == (uint8_t)kind);
    for ((*at)++; reply.data[*at] != '\r'; (*at)++) {
        CU_ASSERT_FATAL(reply.data[*at] >= '0' && reply.data[*at] <= '9');
        value = value * 10 + (reply.data[*at] - '0');
    }
    *at += 2;
    return value;
}

static struct slice
bulk_after(struct slice reply, size_t *at)
{
    size_t bytes = number_after(reply, at, '$');
    struct slice bulk = slice_of(reply.data + *at, bytes);
    *at += bytes + 2;
    CU_ASSERT_FATAL(*at <= reply.bytes);
    return bulk;
}

static void
key_seen(struct slice key)
{
    uint32_t n = 0;
    CU_ASSERT_FATAL(key.bytes > 2 && memcmp(key.data, "k:", 2) == 0);
    for (size_t i = 2; i < key.bytes; i++) {
        n = n * 10 + (key.data[i] - '0');
    }
    CU_ASSERT_FATAL(n < KEYS);
    seen[n]++;
}

/* One SCAN with `options`. Returns the next cursor; *count keys were there, and are counted in seen[]. */
static uint64_t
scan_once(uint64_t cursor, const char *options, uint64_t *count)
{
    char line[512];
    snprintf(line, sizeof(line), "SCAN %llu %s", (unsigned long long)cursor, options);
    struct slice reply = exec_ask(WIRE_RESP2, line);
    size_t at = 0, digits = 0;
    CU_ASSERT_EQUAL_FATAL(number_after(reply, &at, '*'), 2);
    struct slice text = bulk_after(reply, &at);
    for (cursor = 0; digits < text.bytes; digits++) {
        cursor = cursor * 10 + (text.data[digits] - '0');
    }
    *count = number_after(reply, &at, '*');
    for (uint64_t i = 0; i < *count; i++) {
        key_seen(bulk_after(reply, &at));
    }
    CU_ASSERT_EQUAL(at, reply.bytes);
    return cursor;
}

/* Returns the keys met; calls goes to *calls. */
static uint64_t
scan_all(const char *options, uint32_t *calls)
{
    uint64_t cursor = 0, count, met = 0;
    memset(seen, 0, sizeof(seen));
    *calls = 0;
    do {
        cursor = scan_once(cursor, options, &count);
        met += count;
        (*calls)++;
        CU_ASSERT_FATAL(*calls <= KEYS);
    } while (cursor != 0);
    return met;
}

static void
put_keys(uint32_t count)
{
    char line[64];
    for (uint32_t n = 0; n < count; n++) {
        snprintf(line, sizeof(line), n % 3 == 0 ? "HSET k:%u f v" : n % 3 == 1 ? "SET k:%u v" : "ZADD k:%u 1 m", n);
        exec_ask(WIRE_RESP2, line);
    }
}

/* ---- rows ---- */

static void
scan_refuses_what_redis_refuses(void)
{
    static const struct exec_row rows[] = {
        { "SCAN", "-ERR wrong number of arguments for 'scan' command|", NULL },
        { "SCAN abc", BAD_CURSOR, NULL },
        { "SCAN 1a", BAD_CURSOR, NULL },
        { "SCAN \" 1\"", BAD_CURSOR, NULL },
        { "SCAN \"1 \"", BAD_CURSOR, NULL },
        { "SCAN -", BAD_CURSOR, NULL },
        { "SCAN 0x10", BAD_CURSOR, NULL },
        { "SCAN 18446744073709551616", BAD_CURSOR, NULL },
        { "SCAN 99999999999999999999999", BAD_CURSOR, NULL },
        { "SCAN abc COUNT 0", BAD_CURSOR, NULL },
        { "SCAN 0 COUNT", EXEC_SYNTAX, NULL },
        { "SCAN 0 COUNT 0", EXEC_SYNTAX, NULL },
        { "SCAN 0 COUNT -1", EXEC_SYNTAX, NULL },
        { "SCAN 0 COUNT abc", NOT_INT, NULL },
        { "SCAN 0 COUNT 9223372036854775808", NOT_INT, NULL },
        { "SCAN 0 MATCH", EXEC_SYNTAX, NULL },
        { "SCAN 0 TYPE", EXEC_SYNTAX, NULL },
        { "SCAN 0 NOPE", EXEC_SYNTAX, NULL },
        { "SCAN 0 NOPE 1", EXEC_SYNTAX, NULL },
        { "SCAN 0 MATCH * COUNT", EXEC_SYNTAX, NULL },
        { "HSCAN h", "-ERR wrong number of arguments for 'hscan' command|", NULL },
        { "HSCAN h x", BAD_CURSOR, NULL },
        { "ZSCAN z x", BAD_CURSOR, NULL },
        { "RANDOMKEY x", "-ERR wrong number of arguments for 'randomkey' command|", NULL },
    };
    exec_check_rows(rows, ARRAY_COUNT(rows));
}

static void
scan_answers_as_redis_does(void)
{
    static const struct exec_row rows[] = {
        { "SCAN 0", EMPTY, NULL },
        { "SCAN 18446744073709551615", EMPTY, NULL },
        { "SCAN -1", EMPTY, NULL },
        { "SCAN \"\"", EMPTY, NULL },
        { "RANDOMKEY", "$-1|", NULL },
        { "SET user:1 x", "+OK|", NULL },
        { "SCAN 0", "*2|$1|0|*1|$6|user:1|", NULL },
        { "SCAN +0", "*2|$1|0|*1|$6|user:1|", NULL },
        { "SCAN 000", "*2|$1|0|*1|$6|user:1|", NULL },
        { "SCAN 18446744073709551615", EMPTY, NULL },
        { "RANDOMKEY", "$6|user:1|", NULL },
        { "scan 0 match user:* count 5", "*2|$1|0|*1|$6|user:1|", NULL },
        { "SCAN 0 MATCH USER:*", EMPTY, NULL },
        { "SCAN 0 MATCH user:? MATCH nope", EMPTY, NULL },
        { "SCAN 0 MATCH nope MATCH user:?", "*2|$1|0|*1|$6|user:1|", NULL },
        { "SCAN 0 COUNT 9223372036854775807", "*2|$1|0|*1|$6|user:1|", NULL },
        { "SCAN 0 TYPE string", "*2|$1|0|*1|$6|user:1|", NULL },
        { "SCAN 0 TYPE STRING", "*2|$1|0|*1|$6|user:1|", NULL },
        { "SCAN 0 TYPE hash", EMPTY, NULL },
        { "SCAN 0 TYPE nosuchtype", EMPTY, NULL },
        { "SET user:1 x PX 1", "+OK|", NULL },
        { "SCAN 0", "*2|$1|0|*1|$6|user:1|", NULL },
    };
    static const struct exec_row gone[] = {
        { "RANDOMKEY", "$-1|", NULL },
        { "SCAN 0", EMPTY, NULL },
    };
    exec_check_rows(rows, ARRAY_COUNT(rows));
    exec_fixture_reset();
    exec_ask(WIRE_RESP2, "SET user:1 x PX 1");
    fixture_now_ms += 2;
    for (size_t i = 0; i < ARRAY_COUNT(gone); i++) {
        CU_ASSERT_TRUE(exec_reply_is(gone[i].line, exec_ask(WIRE_RESP2, gone[i].line), gone[i].resp2));
    }
}

static void
packed_objects_are_given_at_once(void)
{
    static const struct exec_row rows[] = {
        { "HSCAN h 0", EMPTY, NULL },
        { "HSCAN h 7 NOPE", EMPTY, NULL },
        { "ZSCAN z 0", EMPTY, NULL },
        { "HSET h f1 v1 g2 v2", ":2|", NULL },
        { "ZADD z 1 a 2.5 b inf c", ":3|", NULL },
        { "SET s x", "+OK|", NULL },
        { "HSCAN s 0", EXEC_WRONGTYPE, NULL },
        { "ZSCAN h 0", EXEC_WRONGTYPE, NULL },
        { "HSCAN s x", BAD_CURSOR, NULL },
        { "HSCAN h 0 NOPE", EXEC_SYNTAX, NULL },
        { "HSCAN h 0 TYPE hash", EXEC_SYNTAX, NULL },
        { "HSCAN h 0 COUNT 0", EXEC_SYNTAX, NULL },
        { "HSCAN h 0", "*2|$1|0|*4|$2|f1|$2|v1|$2|g2|$2|v2|", NULL },
        { "HSCAN h 17 COUNT 1", "*2|$1|0|*4|$2|f1|$2|v1|$2|g2|$2|v2|", NULL },
        { "HSCAN h 0 MATCH g*", "*2|$1|0|*2|$2|g2|$2|v2|", NULL },
        { "ZSCAN z 0", "*2|$1|0|*6|$1|a|$1|1|$1|b|$3|2.5|$1|c|$3|inf|", NULL },
        { "ZSCAN z 0 MATCH [bc]", "*2|$1|0|*4|$1|b|$3|2.5|$1|c|$3|inf|", NULL },
        { "ZSCAN z 0 MATCH nope COUNT 3", EMPTY, NULL },
    };
    exec_check_rows(rows, ARRAY_COUNT(rows));
}

/* ---- walks ---- */

static uint32_t
not_seen_once(uint32_t first, uint32_t step)
{
    uint32_t wrong = 0;
    for (uint32_t n = 0; n < KEYS; n++) {
        wrong += seen[n] != (n % step == first);
    }
    return wrong;
}

static void
a_walk_meets_every_key_once_whatever_its_count(void)
{
    static const char *const options[] = { "", "COUNT 1", "COUNT 7", "COUNT 1000", "COUNT 1000000000", "MATCH k:*" };
    uint32_t calls;
    exec_fixture_reset();
    put_keys(KEYS);
    for (size_t i = 0; i < ARRAY_COUNT(options); i++) {
        CU_ASSERT_EQUAL(scan_all(options[i], &calls), KEYS);
        CU_ASSERT_EQUAL(not_seen_once(0, 1), 0);
    }
    CU_ASSERT_EQUAL(scan_all("TYPE hash COUNT 100", &calls), (KEYS + 2) / 3);
    CU_ASSERT_EQUAL(not_seen_once(0, 3), 0);
    CU_ASSERT_EQUAL(scan_all("COUNT 500 TYPE ZSET", &calls), KEYS / 3);
    CU_ASSERT_EQUAL(not_seen_once(2, 3), 0);
    CU_ASSERT_EQUAL(scan_all("MATCH k:*7 COUNT 333", &calls), KEYS / 10);
    CU_ASSERT_EQUAL(not_seen_once(7, 10), 0);
    CU_ASSERT_EQUAL(scan_all("MATCH nope COUNT 1000", &calls), 0);
    CU_ASSERT_TRUE(calls >= KEYS / (LIMIT_SCAN_KEYS + 20) && calls <= KEYS / LIMIT_SCAN_KEYS + 1);
}

/* COUNT says how many keys are looked at, as near as whole buckets allow. */
static void
one_call_looks_at_limited_keys(void)
{
    char options[32];
    uint64_t count, next[4], counts[4];
    const uint32_t asked[] = { LIMIT_SCAN_KEYS - 1, LIMIT_SCAN_KEYS, LIMIT_SCAN_KEYS + 1, 1000000000 };
    exec_fixture_reset();
    put_keys(KEYS);
    for (size_t i = 0; i < ARRAY_COUNT(asked); i++) {
        snprintf(options, sizeof(options), "COUNT %u", asked[i]);
        next[i] = scan_once(0, options, &counts[i]);
    }
    CU_ASSERT_TRUE(counts[0] >= LIMIT_SCAN_KEYS - 1 && counts[0] <= counts[1]);
    CU_ASSERT_TRUE(counts[1] >= LIMIT_SCAN_KEYS && counts[1] < LIMIT_SCAN_KEYS + 40);
    CU_ASSERT_TRUE(next[1] == next[2] && next[1] == next[3] && counts[1] == counts[2] && counts[1] == counts[3]);
    for (uint32_t n = 1; n < 100; n += 13) {
        snprintf(options, sizeof(options), "COUNT %u", n);
        scan_once(next[1], options, &count);
        CU_ASSERT_TRUE(count >= n && count < n + 40);
    }
}

static void
long_keys_end_a_call_early(void)
{
    static uint8_t key[LIMIT_KEY_BYTES], pattern[LIMIT_PATTERN_BYTES];
    exec_fixture_reset();
    memset(key, 'a', sizeof(key));
    struct slice set[] = { SLICE_LITERAL("SET"), slice_of(key, sizeof(key)), SLICE_LITERAL("v") };
    for (uint32_t n = 0; n < 20; n++) {
        key[sizeof(key) - 1] = (uint8_t)n;
        exec_ask_words(WIRE_RESP2, set, ARRAY_COUNT(set));
    }
    struct slice reply = exec_ask(WIRE_RESP2, "SCAN 0 COUNT 1000");
    CU_ASSERT_TRUE(reply.bytes < 3 * sizeof(key));

    /* the most that a pattern may cost: 256 bytes of it against 64 KiB; a matcher that goes back takes seconds */
    memset(pattern, 'a', sizeof(pattern));
    pattern[0] = '*';
    struct slice scan[] = { SLICE_LITERAL("SCAN"), SLICE_LITERAL("0"), SLICE_LITERAL("MATCH"),
                            slice_of(pattern, sizeof(pattern)) };
    for (uint32_t n = 0; n < 200; n++) {
        reply = exec_ask_words(WIRE_RESP2, scan, ARRAY_COUNT(scan));
        CU_ASSERT_EQUAL(reply.data[0], '*');
    }
}

static void
long_patterns_are_refused(void)
{
    static uint8_t pattern[LIMIT_PATTERN_BYTES + 1];
    exec_fixture_reset();
    exec_ask(WIRE_RESP2, "SET k:1 v");
    memset(pattern, '*', sizeof(pattern));
    struct slice words[] = { SLICE_LITERAL("SCAN"), SLICE_LITERAL("0"), SLICE_LITERAL("MATCH"), slice_of(pattern, 0) };
    for (uint32_t bytes = LIMIT_PATTERN_BYTES - 1; bytes <= LIMIT_PATTERN_BYTES + 1; bytes++) {
        words[3].bytes = bytes;
        const char *expected = bytes <= LIMIT_PATTERN_BYTES ? "*2|$1|0|*1|$3|k:1|" : "-ERR pattern exceeds 256 bytes|";
        CU_ASSERT_TRUE(exec_reply_is("SCAN", exec_ask_words(WIRE_RESP2, words, ARRAY_COUNT(words)), expected));
    }
}

/* ---- RANDOMKEY ---- */

static void
draw(uint32_t times)
{
    memset(seen, 0, sizeof(seen));
    for (uint32_t i = 0; i < times; i++) {
        struct slice reply = exec_ask(WIRE_RESP2, "RANDOMKEY");
        size_t at = 0;
        key_seen(bulk_after(reply, &at));
    }
}

static void
few_keys_are_drawn_alike(void)
{
    exec_fixture_reset();
    put_keys(20);
    draw(20000);
    for (uint32_t n = 0; n < 20; n++) {
        CU_ASSERT_TRUE(seen[n] > 1000 - 200 && seen[n] < 1000 + 200); /* six standard deviations */
    }
}

static void
many_keys_are_drawn_about_alike(void)
{
    exec_fixture_reset();
    put_keys(2000);
    draw(200000);
    double squares = 0;
    for (uint32_t n = 0; n < 2000; n++) {
        CU_ASSERT_TRUE(seen[n] > 20);
        squares += (seen[n] - 100.0) * (seen[n] - 100.0);
    }
    /* chance alone makes 10 of 100; where keys lie together in the order of hashes, some 18 more */
    CU_ASSERT_TRUE(squares / 2000 < 30 * 30);
}

static void
the_last_key_is_found(void)
{
    exec_fixture_reset();
    put_keys(KEYS);
    exec_fixture_reset(); /* every segment has a table now */
    exec_ask(WIRE_RESP2, "SET k:77 v");
    draw(50);
    CU_ASSERT_EQUAL(seen[77], 50);
    exec_ask(WIRE_RESP2, "DEL k:77");
    CU_ASSERT_TRUE(exec_reply_is("RANDOMKEY", exec_ask(WIRE_RESP2, "RANDOMKEY"), "$-1|"));
    struct exec *exec = exec_begin(WIRE_RESP2, "RANDOMKEY");
    CU_ASSERT_EQUAL(exec_attempt(exec), EXEC_RETRY); /* a walk so long is not one turn's */
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite fresh = CU_add_suite("exec_scan: no segment has a table yet", exec_fixture_open, exec_fixture_close);
    CU_ADD_TEST(fresh, few_keys_are_drawn_alike);
    CU_pSuite suite = CU_add_suite("exec_scan", exec_fixture_open, exec_fixture_close);
    CU_ADD_TEST(suite, scan_refuses_what_redis_refuses);
    CU_ADD_TEST(suite, long_patterns_are_refused);
    CU_ADD_TEST(suite, scan_answers_as_redis_does);
    CU_ADD_TEST(suite, packed_objects_are_given_at_once);
    CU_ADD_TEST(suite, a_walk_meets_every_key_once_whatever_its_count);
    CU_ADD_TEST(suite, one_call_looks_at_limited_keys);
    CU_ADD_TEST(suite, long_keys_end_a_call_early);
    CU_ADD_TEST(suite, many_keys_are_drawn_about_alike);
    CU_ADD_TEST(suite, the_last_key_is_found);
    CU_basic_run_tests();
    return CU_get_number_of_failures() != 0;
}
