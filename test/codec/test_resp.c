/* test_resp.c - RESP requests, good and bad, in one piece and cut everywhere. */
#include "test/codec/resp_driver.h"
#include <CUnit/Basic.h>

#define EMPTY    NULL
#define ROW(...) SLICE_LITERAL(__VA_ARGS__)

/* `words` is the name and the arguments with '|' between them, EMPTY for a request that asks for nothing. */
struct row {
    const char *name;
    struct slice wire;
    const char *words;
    size_t rest; /* bytes behind the request, to be left alone */
};

struct bad_row {
    const char *name;
    struct slice wire;
    const char *error; /* behind "ERR Protocol error: " */
};

static const struct bad_row bad_rows[] = {
    { "no digits in a bulk length", ROW("*3\r\n$3\r\nSET\r\n$5\r\nmykey\r\n$\r\n1\r\nPING\r\n"),
      "invalid bulk length" },
    { "null bulk", ROW("*2\r\n$3\r\nGET\r\n$-1\r\n"), "invalid bulk length" },
    { "negative bulk", ROW("*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$-10\r\n"), "invalid bulk length" },
    { "bulk length is a word", ROW("*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$blabla\r\n"), "invalid bulk length" },
    { "bulk of 512 MiB and a byte", ROW("*2\r\n$3\r\nGET\r\n$536870913\r\n"), "invalid bulk length" },
    { "bulk beyond 32 bits", ROW("*2\r\n$3\r\nGET\r\n$4294967297\r\n"), "invalid bulk length" },
    { "bulk of 2 GiB", ROW("*2\r\n$3\r\nGET\r\n$2147483648\r\n"), "invalid bulk length" },
    { "bulk beyond 64 bits", ROW("*2\r\n$3\r\nGET\r\n$99999999999999999999\r\n"), "invalid bulk length" },
    { "bulk of INT64_MAX", ROW("*2\r\n$3\r\nGET\r\n$9223372036854775807\r\n"), "invalid bulk length" },
    { "bulk of INT64_MIN", ROW("*2\r\n$3\r\nGET\r\n$-9223372036854775808\r\n"), "invalid bulk length" },
    { "leading zero in a bulk length", ROW("*1\r\n$04\r\nPING\r\n"), "invalid bulk length" },
    { "long zero", ROW("*1\r\n$000000000\r\n\r\n"), "invalid bulk length" },
    { "plus in a bulk length", ROW("*1\r\n$+4\r\nPING\r\n"), "invalid bulk length" },
    { "space before a bulk length", ROW("*1\r\n$ 4\r\nPING\r\n"), "invalid bulk length" },
    { "space behind a bulk length", ROW("*1\r\n$4 \r\nPING\r\n"), "invalid bulk length" },
    { "NUL in a bulk length", ROW("*1\r\n$4\0\r\nPING\r\n"), "invalid bulk length" },
    { "digits behind a NUL", ROW("*1\r\n$\0004\r\nPING\r\n"), "invalid bulk length" },
    { "a colon is not a digit", ROW("*1\r\n$:\r\nPINGPINGPI\r\n"), "invalid bulk length" },
    { "a slash is not a digit", ROW("*1\r\n$1/\r\nPINGPINGPI\r\n"), "invalid bulk length" },
    { "letter among digits", ROW("*1\r\n$1234a67\r\nPING\r\n"), "invalid bulk length" },
    { "CR without LF behind a bulk length", ROW("*1\r\n$4\rXPING\r\n"), "invalid bulk length" },
    { "two CR behind a bulk length", ROW("*1\r\n$4\r\r\nPING\r\n"), "invalid bulk length" },
    { "bulk shorter than its length", ROW("*1\r\n$5\r\nPING\r\nX"), "invalid bulk length" },
    { "bulk longer than its length", ROW("*2\r\n$3\r\nPING\r\n$1\r\nx\r\n"), "invalid bulk length" },
    { "long bulk longer than its length",
      ROW("*1\r\n$100\r\n0123456789012345678901234567890123456789012345678901234567890123456789"
          "0123456789012345678901234567890\r\n"),
      "invalid bulk length" },
    { "bulk not followed by CR LF", ROW("*1\r\n$4\r\nPING\n\r"), "invalid bulk length" },
    { "no bulks", ROW("*1\r\nfoo\r\n"), "expected '$', got 'f'" },
    { "third bulk without header", ROW("*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n"), "expected '$', got 'f'" },
    { "request within a request", ROW("*2\r\n*1\r\n$4\r\nPING\r\n"), "expected '$', got '*'" },
    { "integer as an argument", ROW("*2\r\n$3\r\nGET\r\n:1\r\n"), "expected '$', got ':'" },
    { "space for a bulk", ROW("*1\r\n $4\r\nPING\r\n"), "expected '$', got ' '" },
    { "quote for a bulk", ROW("*1\r\n'4\r\nPING\r\n"), "expected '$', got '''" },
    { "tilde for a bulk", ROW("*1\r\n~4\r\nPING\r\n"), "expected '$', got '~'" },
    { "NUL for a bulk", ROW("*1\r\n\0004\r\nPING\r\n"), "expected '$', got '?'" },
    { "line end for a bulk", ROW("*1\r\n\r\nPING\r\n"), "expected '$', got '?'" },
    { "DEL for a bulk", ROW("*1\r\n\x7f"), "expected '$', got '?'" },
    { "a byte above ASCII for a bulk", ROW("*1\r\n\xff"), "expected '$', got '?'" },
    { "count of 3 billion", ROW("*3000000000\r\n$4\r\nPING\r\n"), "invalid multibulk length" },
    { "count of 2^31", ROW("*2147483648\r\n"), "invalid multibulk length" },
    { "count of 2^32 and 1", ROW("*4294967297\r\n$4\r\nPING\r\n"), "invalid multibulk length" },
    { "count beyond 64 bits", ROW("*99999999999999999999\r\n"), "invalid multibulk length" },
    { "count of 20 million", ROW("*20000000\r\n"), "invalid multibulk length" },
    { "no digits in a count", ROW("*\r\n$4\r\nPING\r\n"), "invalid multibulk length" },
    { "count is a word", ROW("*blabla\r\n"), "invalid multibulk length" },
    { "minus alone", ROW("*-\r\n"), "invalid multibulk length" },
    { "minus nothing", ROW("*-0\r\n"), "invalid multibulk length" },
    { "leading zero in a count", ROW("*01\r\n$4\r\nPING\r\n"), "invalid multibulk length" },
    { "CR without LF behind a count", ROW("*1\rX$4\r\nPING\r\n"), "invalid multibulk length" },
    { "count ends in LF", ROW("*1\n$4\r\nPING\r\n"), "invalid multibulk length" },
    { "a colon is not a count", ROW("*:\r\n$4\r\nPING\r\n"), "invalid multibulk length" },
    { "double quote not closed", ROW("set \"\"\"k\"\"\" v\r\n"), "unbalanced quotes in request" },
    { "quote open at the line's end", ROW("PING \"abc\r\n"), "unbalanced quotes in request" },
    { "single quote open", ROW("PING 'abc\r\n"), "unbalanced quotes in request" },
    { "quote alone", ROW("\"\n"), "unbalanced quotes in request" },
    { "escaped closing quote", ROW("PING \"abc\\\"\n"), "unbalanced quotes in request" },
    { "escaped closing single quote", ROW("PING 'abc\\'\n"), "unbalanced quotes in request" },
    { "backslash at the line's end", ROW("PING \"abc\\\r\n"), "unbalanced quotes in request" },
    { "letter behind a closing quote", ROW("PING \"abc\"d\r\n"), "unbalanced quotes in request" },
    { "letter behind a closing single quote", ROW("PING 'abc'd\r\n"), "unbalanced quotes in request" },
    { "quote in the name left open", ROW("PI\"NG\r\n"), "unbalanced quotes in request" },
    { "NUL first", ROW("\0AAAA\r\n"), "NUL in inline request" },
    { "NUL in the middle", ROW("GET a\0b\r\n"), "NUL in inline request" },
    { "a PNG's third line", ROW("\0\0\0\rIHDR\0\0\1\0\0\0\0\1\n"), "NUL in inline request" },
    { "a TLS hello", ROW("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n"), "NUL in inline request" },
};

static const struct row rows[] = {
    { "PING", ROW("*1\r\n$4\r\nPING\r\n"), "PING", 0 },
    { "lower case", ROW("*2\r\n$3\r\nget\r\n$1\r\nk\r\n"), "get|k", 0 },
    { "pipeline", ROW("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nPING\r\n"), "GET|k", 14 },
    { "empty argument", ROW("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n"), "SET|k|", 0 },
    { "argument full of framing", ROW("*2\r\n$4\r\nECHO\r\n$12\r\n\r\n$1\r\n*2\r\n\r\n\r\n"),
      "ECHO|\r\n$1\r\n*2\r\n\r\n", 0 },
    { "sixteen bytes", ROW("*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000042\r\n"), "GET|key:000000000042", 0 },
    { "99 bytes",
      ROW("*2\r\n$4\r\nECHO\r\n$99\r\n01234567890123456789012345678901234567890123456789"
          "0123456789012345678901234567890123456789012345678\r\n"),
      "ECHO|01234567890123456789012345678901234567890123456789"
      "0123456789012345678901234567890123456789012345678",
      0 },
    { "100 bytes",
      ROW("*2\r\n$4\r\nECHO\r\n$100\r\n01234567890123456789012345678901234567890123456789"
          "01234567890123456789012345678901234567890123456789\r\n"),
      "ECHO|01234567890123456789012345678901234567890123456789"
      "01234567890123456789012345678901234567890123456789",
      0 },
    { "nine arguments",
      ROW("*9\r\n$3\r\nDEL\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n$1\r\ne\r\n$1\r\nf\r\n$1\r\ng\r\n"
          "$1\r\nh\r\n"),
      "DEL|a|b|c|d|e|f|g|h", 0 },
    { "ten arguments",
      ROW("*10\r\n$3\r\nDEL\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n$1\r\ne\r\n$1\r\nf\r\n$1\r\ng\r\n"
          "$1\r\nh\r\n$1\r\ni\r\n"),
      "DEL|a|b|c|d|e|f|g|h|i", 0 },
    { "unknown command", ROW("*2\r\n$5\r\nNOSUC\r\n$1\r\nx\r\n"), "NOSUC|x", 0 },
    { "empty name", ROW("*1\r\n$0\r\n\r\n"), "", 0 },
    { "empty name with an argument", ROW("*2\r\n$0\r\n\r\n$1\r\nx\r\n"), "|x", 0 },
    { "count 0", ROW("*0\r\nPING\r\n"), EMPTY, 6 },
    { "count -1", ROW("*-1\r\nPING\r\n"), EMPTY, 6 },
    { "count -10", ROW("*-10\r\nPING\r\n"), EMPTY, 6 },
    { "count INT64_MIN", ROW("*-9223372036854775808\r\n"), EMPTY, 0 },
    { "blank line", ROW("\r\nPING\r\n"), EMPTY, 6 },
    { "blank line, LF alone", ROW("\nPING\r\n"), EMPTY, 6 },
    { "line of blanks", ROW(" \t \v\f\r\n"), EMPTY, 0 },
    { "CR CR LF", ROW("\r\r\n"), EMPTY, 0 },
    { "inline", ROW("PING\r\n"), "PING", 0 },
    { "inline, LF alone", ROW("PING\n"), "PING", 0 },
    { "inline with blanks around", ROW("  GET \t k \t\r\n"), "GET|k", 0 },
    { "inline CR as a blank", ROW("GET\rk\r\n"), "GET|k", 0 },
    { "vertical tab within a word", ROW("GET a\vb\n"), "GET|a\vb", 0 },
    { "vertical tab before a word", ROW("GET \va\n"), "GET|a", 0 },
    { "bare null bulk is an inline command", ROW("$-1\r\n"), "$-1", 0 },
    { "inline bytes above ASCII", ROW("GET \xff\xfe\r\n"), "GET|\xff\xfe", 0 },
    { "HTTP", ROW("GET / HTTP/1.1\r\nHost: localhost\r\n"), "GET|/|HTTP/1.1", 17 },
    { "a PNG's first line", ROW("\x89PNG\r\n\x1a\n"), "\x89PNG", 2 },
    { "double quotes", ROW("SET k \"a b\"\r\n"), "SET|k|a b", 0 },
    { "single quotes", ROW("SET k 'a \"b'\r\n"), "SET|k|a \"b", 0 },
    { "empty quotes", ROW("SET k \"\" ''\r\n"), "SET|k||", 0 },
    { "quoted empty name", ROW("\"\"\r\n"), "", 0 },
    { "quoted name", ROW("\"PING\" \"x\"\n"), "PING|x", 0 },
    { "quotes within a word", ROW("SET k a\"b c\" d'e f'\r\n"), "SET|k|ab c|de f", 0 },
    { "every escape", ROW("ECHO \"\\n\\r\\t\\b\\a\\\\\\\"\\q\\x41\\x4a\\xfF\\xg1\\x4\"\n"),
      "ECHO|\n\r\t\b\a\\\"qAJ\xffxg1x4", 0 },
    { "single quotes escape only their own", ROW("ECHO 'a\\'b\\n\\x41\\\\x'\n"), "ECHO|a'b\\n\\x41\\\\x", 0 },
    { "backslash outside quotes", ROW("ECHO a\\nb\n"), "ECHO|a\\nb", 0 },
    { "vertical tab behind a closing quote", ROW("ECHO \"a\"\vb\n"), "ECHO|a|b", 0 },
    { "escape shorter than what it stands behind", ROW("ECHO \"\\x41\" \"\\x42\" c\n"), "ECHO|A|B|c", 0 },
};

static bool
words_are(const struct resp_outcome *outcome, const char *words)
{
    if (words == EMPTY) {
        return outcome->empty && outcome->args_count == 0 && outcome->command == NULL;
    }
    const char *at = words;
    for (uint32_t i = 0; i <= outcome->args_count; i++) {
        size_t bytes = strcspn(at, "|");
        if (!slice_equal(resp_word(outcome, i), slice_of(at, bytes))) {
            return false;
        }
        if (at[bytes] == '\0') {
            return i == outcome->args_count && !outcome->empty &&
                   outcome->command == command_find(resp_word(outcome, 0));
        }
        at += bytes + 1;
    }
    return false;
}

static void
bad_requests_are_answered_with_redis_error_however_they_are_cut(void)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(bad_rows); i++) {
        const struct bad_row *row = &bad_rows[i];
        for (size_t cut = 0; cut <= row->wire.bytes; cut++) {
            const struct resp_outcome *outcome = resp_drive(row->wire, cut, row->wire.bytes, &resp_limits_full);
            if (outcome->status != CODEC_MALFORMED || strcmp(outcome->error + 20, row->error) != 0) {
                fprintf(stderr, "%s, cut at %zu: %s\n", row->name, cut, outcome->error);
                CU_FAIL("wrong answer");
                break;
            }
        }
        const struct resp_outcome *outcome = resp_drive(row->wire, 0, 1, &resp_limits_full);
        CU_ASSERT_TRUE(outcome->status == CODEC_MALFORMED && strcmp(outcome->error + 20, row->error) == 0);
    }
}

static void
good_requests_are_the_same_however_they_are_cut(void)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const struct row *row = &rows[i];
        for (size_t cut = 0; cut <= row->wire.bytes; cut++) {
            const struct resp_outcome *outcome = resp_drive(row->wire, cut, row->wire.bytes, &resp_limits_full);
            if (outcome->status != CODEC_OK || !words_are(outcome, row->words) ||
                outcome->wire_bytes != row->wire.bytes - row->rest) {
                fprintf(stderr, "%s, cut at %zu: status %d, %s\n", row->name, cut, outcome->status, outcome->error);
                CU_FAIL("wrong request");
                break;
            }
        }
    }
}

static void
every_prefix_of_a_good_request_is_short(void)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        size_t whole = rows[i].wire.bytes - rows[i].rest;
        for (size_t cut = 0; cut < whole; cut++) {
            CU_ASSERT_EQUAL(resp_drive(rows[i].wire, cut, 0, &resp_limits_full)->status, CODEC_SHORT);
        }
        CU_ASSERT_EQUAL(resp_drive(rows[i].wire, whole, 0, &resp_limits_full)->status, CODEC_OK);
    }
}

static void
a_request_fed_byte_by_byte_is_the_same_and_no_byte_is_looked_at_twice(void)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) { /* the driver checks what is kept between calls */
        const struct resp_outcome *outcome = resp_drive(rows[i].wire, 0, 1, &resp_limits_full);
        CU_ASSERT_TRUE(outcome->status == CODEC_OK && words_are(outcome, rows[i].words));
        CU_ASSERT_EQUAL(outcome->wire_bytes, rows[i].wire.bytes - rows[i].rest);
        CU_ASSERT_EQUAL(resp_driver_calls(), outcome->wire_bytes + 1);
    }
}

static void
a_caller_that_waits_for_what_is_wanted_gets_the_request_in_few_calls(void)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const struct resp_outcome *outcome = resp_drive_wanted(rows[i].wire, &resp_limits_full);
        CU_ASSERT_TRUE(outcome->status == CODEC_OK && words_are(outcome, rows[i].words));
        CU_ASSERT_EQUAL(outcome->wire_bytes, rows[i].wire.bytes - rows[i].rest);
    }
    struct slice set = ROW("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$40\r\n0123456789012345678901234567890123456789\r\n");
    CU_ASSERT_EQUAL(resp_drive_wanted(set, &resp_limits_full)->status, CODEC_OK);
    CU_ASSERT_TRUE(resp_driver_calls() < set.bytes / 3);
}

/* Any one byte of any row replaced by any other: the same outcome in one piece and byte by byte, whatever it is, and
 * nothing outside the buffer is touched. */
static void
any_flipped_byte_gives_one_outcome_however_it_is_cut(void)
{
    uint8_t wire[256];

    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct slice row = rows[i].wire;
        for (size_t at = 0; at < row.bytes; at++) {
            for (uint32_t value = 0; value<256; value += row.bytes> 60 ? 7 : 1) {
                memcpy(wire, row.data, row.bytes);
                wire[at] = (uint8_t)value;
                struct slice mutant = slice_of(wire, row.bytes);
                const struct resp_outcome *whole = resp_drive(mutant, row.bytes, 0, &resp_limits_full);
                const struct resp_outcome *halves = resp_drive(mutant, at, row.bytes, &resp_limits_full);
                if (!resp_outcome_equal(whole, halves)) {
                    fprintf(stderr, "%s, byte %zu set to %u\n", rows[i].name, at, value);
                    CU_FAIL("the cut decides");
                    return;
                }
                if (value % 16 == at % 16) {
                    const struct resp_outcome *bytes = resp_drive(mutant, 0, 1, &resp_limits_full);
                    CU_ASSERT_TRUE(resp_outcome_equal(whole, bytes));
                }
            }
        }
    }
}

static void
a_pipeline_with_a_trailing_echo_decodes_to_the_same_six_requests_at_every_cut(void)
{
    static const char pipeline[] =
        "*3\r\n$3\r\nSET\r\n$2\r\nk1\r\n$2\r\nv1\r\n*3\r\n$3\r\nSET\r\n$2\r\nk2\r\n$0\r\n\r\n"
        "*3\r\n$3\r\nSET\r\n$2\r\nk3\r\n$3\r\na\r\n\r\n*3\r\n$3\r\nSET\r\n$2\r\nk4\r\n$1\r\n4\r\n"
        "SET k5 v5\r\n*2\r\n$4\r\nECHO\r\n$20\r\n01234567890123456789\r\n";
    static const char *const words[] = { "SET|k1|v1", "SET|k2|",   "SET|k3|a\r\n",
                                         "SET|k4|4",  "SET|k5|v5", "ECHO|01234567890123456789" };
    const size_t bytes = sizeof(pipeline) - 1;

    for (size_t step = 1; step <= bytes; step++) {
        size_t taken = 0;
        for (uint32_t i = 0; i < ARRAY_COUNT(words); i++) {
            struct slice rest = slice_of(pipeline + taken, bytes - taken);
            const struct resp_outcome *outcome = resp_drive(rest, step, step, &resp_limits_full);
            CU_ASSERT_EQUAL_FATAL(outcome->status, CODEC_OK);
            CU_ASSERT_TRUE(words_are(outcome, words[i]));
            taken += outcome->wire_bytes;
        }
        CU_ASSERT_EQUAL(taken, bytes);
    }
}

/* What resp_take() takes of a wire, and where it leaves off. Whatever it takes, the driver has compared. */
static const struct take_row {
    const char *name;
    struct slice wire;
    uint32_t args_max, max, room;
    uint32_t taken;
} take_rows[] = {
    { "nothing", ROW(""), 8, 4, 32, 0 },
    { "a head that is not all there", ROW("*1\r\n$4\r"), 8, 4, 32, 0 },
    { "a name that is not all there", ROW("*1\r\n$4\r\nPING\r"), 8, 4, 32, 0 },
    { "an argument that is not all there", ROW("*2\r\n$3\r\nGET\r\n$1\r\nk\r"), 8, 4, 32, 0 },
    { "an argument's line that is not all there", ROW("*2\r\n$3\r\nGET\r\n$1"), 8, 4, 32, 0 },
    { "a whole request before half of one", ROW("*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPIN"), 8, 4, 32, 1 },
    { "inline", ROW("PING\r\nPING\r\nPING\r\n"), 8, 4, 32, 0 },
    { "an inline request behind another", ROW("*1\r\n$4\r\nPING\r\nPING\r\n"), 8, 4, 32, 1 },
    { "nothing asked for", ROW("*0\r\n*1\r\n$4\r\nPING\r\n"), 8, 4, 32, 0 },
    { "an empty name", ROW("*1\r\n$0\r\n\r\n"), 8, 4, 32, 0 },
    { "zeros, a line's end", ROW("\0\0\0\0\0\0\0\0\r\n*1\r\n$4\r\nPING\r\n"), 8, 4, 32, 0 },
    { "a head of zeros for digits", ROW("*\0\r\n$\0\r\n\r\n"), 8, 4, 32, 0 },
    { "a name of 8 bytes", ROW("*2\r\n$8\r\nZREVRANK\r\n$1\r\nc\r\n"), 8, 4, 32, 1 },
    { "a name of 9 bytes", ROW("*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n"), 8, 4, 32, 0 },
    { "a name of 10 bytes", ROW("*2\r\n$10\r\nPSUBSCRIBE\r\n$1\r\nc\r\n"), 8, 4, 32, 0 },
    { "an unknown name", ROW("*1\r\n$5\r\nNOSUC\r\n*1\r\n$4\r\nPING\r\n"), 8, 4, 32, 2 },
    { "at most what is asked for", ROW("*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n"), 8, 1, 32, 1 },
    { "none asked for", ROW("*1\r\n$4\r\nPING\r\n"), 8, 0, 32, 0 },
    { "nothing behind a barrier", ROW("*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n*1\r\n$4\r\nPING\r\n"), 8, 4, 32, 1 },
    { "eight arguments",
      ROW("*9\r\n$3\r\nDEL\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n$1\r\ne\r\n$1\r\nf\r\n$1\r\ng\r\n$"
          "1\r\nh\r\n"),
      8, 4, 32, 1 },
    { "one argument more than the limit", ROW("*3\r\n$3\r\nDEL\r\n$1\r\na\r\n$1\r\nb\r\n"), 1, 4, 32, 0 },
    { "as many arguments as the limit", ROW("*3\r\n$3\r\nDEL\r\n$1\r\na\r\n$1\r\nb\r\n"), 2, 4, 32, 1 },
    { "room for the arguments of one", ROW("*2\r\n$3\r\nGET\r\n$1\r\na\r\n*2\r\n$3\r\nGET\r\n$1\r\nb\r\n"), 8, 4, 8,
      1 },
    { "no room", ROW("*2\r\n$3\r\nGET\r\n$1\r\na\r\n"), 8, 4, 7, 0 },
};

static void
the_common_form_is_taken_and_nothing_else(void)
{
    static struct arg args[LIMIT_REQUEST_ARGS];
    struct request requests[4];
    for (uint32_t i = 0; i < ARRAY_COUNT(take_rows); i++) {
        const struct take_row *row = &take_rows[i];
        struct decode_limits limits = { row->args_max, LIMIT_VALUE_BYTES, LIMIT_REQUEST_BYTES };
        struct arg_room room = { args, 0, row->room };
        uint32_t taken = resp_take(row->wire.data, row->wire.bytes, &limits, &room, requests, row->max);
        if (taken != row->taken) {
            fprintf(stderr, "%s: %u\n", row->name, taken);
            CU_FAIL("wrong count");
        }
    }
}

/* A request is compared with the one before it: heads, names and cases alike and not, in every order of three. */
static void
neighbours_are_taken_as_they_are_decoded_alone(void)
{
    static const struct slice pool[] = {
        ROW("*2\r\n$3\r\nGET\r\n$1\r\na\r\n"),           ROW("*2\r\n$3\r\nGET\r\n$12\r\nabcdefghijkl\r\n"),
        ROW("*2\r\n$3\r\nget\r\n$1\r\nb\r\n"),           ROW("*2\r\n$3\r\nDEL\r\n$1\r\nc\r\n"),
        ROW("*3\r\n$3\r\nDEL\r\n$1\r\nc\r\n$0\r\n\r\n"), ROW("*2\r\n$4\r\nINCR\r\n$1\r\nd\r\n"),
        ROW("*2\r\n$3\r\nXYZ\r\n$1\r\ne\r\n"),           ROW("*1\r\n$4\r\nPING\r\n"),
        ROW("*1\r\n$8\r\n\0\0\0\0\0\0\0\0\r\n"),         ROW("*1\r\n$1\r\n\0\r\n"),
        ROW("*2\r\n$8\r\nZREVRANK\r\n$1\r\nf\r\n"),      ROW("*2\r\n$8\r\nzrevrank\r\n$1\r\nf\r\n"),
    };
    static struct arg args[LIMIT_REQUEST_ARGS];
    static struct resp_span spans[LIMIT_REQUEST_ARGS + 1];
    const uint32_t count = ARRAY_COUNT(pool);
    for (uint32_t n = 0; n < count * count * count; n++) {
        const struct slice *three[] = { &pool[n % count], &pool[n / count % count], &pool[n / count / count] };
        uint8_t wire[256];
        size_t bytes = 0, at = 0;
        struct request requests[3];
        struct arg_room room = { args, 0, ARRAY_COUNT(args) };
        for (uint32_t i = 0; i < 3; i++) {
            memcpy(wire + bytes, three[i]->data, three[i]->bytes);
            bytes += three[i]->bytes;
        }
        CU_ASSERT_EQUAL_FATAL(resp_take(wire, bytes, &resp_limits_full, &room, requests, 3), 3);
        for (uint32_t i = 0; i < 3; i++) {
            static struct arg alone_args[LIMIT_REQUEST_ARGS];
            struct arg_room alone_room = { alone_args, 0, ARRAY_COUNT(alone_args) };
            struct resp_state state = { 0 };
            struct request alone;
            CU_ASSERT_EQUAL(resp_decode(&state, spans, wire + at, bytes - at, &resp_limits_full, &alone_room, &alone),
                            CODEC_OK);
            CU_ASSERT_PTR_EQUAL(requests[i].command, alone.command);
            CU_ASSERT(slice_equal(requests[i].name, alone.name) && requests[i].name.data == alone.name.data);
            CU_ASSERT(requests[i].args_count == alone.args_count && requests[i].wire_bytes == alone.wire_bytes);
            for (uint32_t k = 0; k < MIN(alone.args_count, requests[i].args_count); k++) {
                CU_ASSERT(requests[i].args[k].bytes.data == alone.args[k].bytes.data &&
                          requests[i].args[k].bytes.bytes == alone.args[k].bytes.bytes);
            }
            at += alone.wire_bytes;
        }
        CU_ASSERT_EQUAL(at, bytes);
    }
}

static void
a_value_of_up_to_999_bytes_is_taken(void)
{
    static struct arg args[LIMIT_REQUEST_ARGS];
    static char wire[2048];
    static const uint32_t sizes[] = { 0, 1, 9, 10, 11, 99, 100, 101, 998, 999, 1000, 1001 };
    for (uint32_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        int bytes = sprintf(wire, "*2\r\n$4\r\nECHO\r\n$%u\r\n%0*d\r\n", sizes[i], (int)sizes[i], 0);
        if (sizes[i] == 0) {
            bytes = sprintf(wire, "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n");
        }
        struct arg_room room = { args, 0, ARRAY_COUNT(args) };
        struct request request;
        uint32_t taken = resp_take((uint8_t *)wire, (size_t)bytes, &resp_limits_full, &room, &request, 1);
        CU_ASSERT_EQUAL(taken, sizes[i] <= 999);
        CU_ASSERT(taken == 0 || args[0].bytes.bytes == sizes[i]);
        const struct resp_outcome *outcome =
            resp_drive(slice_of(wire, (size_t)bytes), (size_t)bytes, 0, &resp_limits_full);
        CU_ASSERT(outcome->status == CODEC_OK && outcome->words[1].bytes == sizes[i]);
    }
}

static void
tight_limits_are_left_to_the_whole_decoder(void)
{
    static struct arg args[LIMIT_REQUEST_ARGS];
    static const struct decode_limits tight[] = { { 8, 998, LIMIT_REQUEST_BYTES }, { 8, LIMIT_VALUE_BYTES, 1000 } };
    for (uint32_t i = 0; i < ARRAY_COUNT(tight); i++) {
        struct arg_room room = { args, 0, ARRAY_COUNT(args) };
        struct request request;
        CU_ASSERT_EQUAL(resp_take((const uint8_t *)"*1\r\n$4\r\nPING\r\n", 14, &tight[i], &room, &request, 1), 0);
    }
}

static void
only_quoted_words_are_written_to(void)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        bool quotes =
            memchr(rows[i].wire.data, '"', rows[i].wire.bytes) || memchr(rows[i].wire.data, '\'', rows[i].wire.bytes);
        const struct resp_outcome *outcome = resp_drive(rows[i].wire, rows[i].wire.bytes, 0, &resp_limits_full);
        CU_ASSERT_EQUAL_FATAL(outcome->status, CODEC_OK);
        size_t kept = quotes ? outcome->wire_bytes : 0; /* what follows the request stays in any case */
        CU_ASSERT_EQUAL(memcmp(outcome->text + kept, rows[i].wire.data + kept, rows[i].wire.bytes - kept), 0);
    }
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("resp", NULL, NULL);
    CU_ADD_TEST(suite, bad_requests_are_answered_with_redis_error_however_they_are_cut);
    CU_ADD_TEST(suite, good_requests_are_the_same_however_they_are_cut);
    CU_ADD_TEST(suite, every_prefix_of_a_good_request_is_short);
    CU_ADD_TEST(suite, a_request_fed_byte_by_byte_is_the_same_and_no_byte_is_looked_at_twice);
    CU_ADD_TEST(suite, a_caller_that_waits_for_what_is_wanted_gets_the_request_in_few_calls);
    CU_ADD_TEST(suite, any_flipped_byte_gives_one_outcome_however_it_is_cut);
    CU_ADD_TEST(suite, a_pipeline_with_a_trailing_echo_decodes_to_the_same_six_requests_at_every_cut);
    CU_ADD_TEST(suite, only_quoted_words_are_written_to);
    CU_ADD_TEST(suite, the_common_form_is_taken_and_nothing_else);
    CU_ADD_TEST(suite, neighbours_are_taken_as_they_are_decoded_alone);
    CU_ADD_TEST(suite, a_value_of_up_to_999_bytes_is_taken);
    CU_ADD_TEST(suite, tight_limits_are_left_to_the_whole_decoder);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    resp_driver_open(64 * KIB);
    CU_basic_run_tests();
    bool compared = resp_driver_takes() > 1000; /* or resp_take() was compared with nothing */
    resp_driver_close();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0 || !compared;
}
