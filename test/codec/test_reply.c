/* test_reply.c - replies byte for byte on both RESP versions, across chunk borders, restarted and refused. */
#include "codec/reply.h"
#include "test/codec/chunk_sink.h"
#include <CUnit/Basic.h>
#include <math.h>

static struct chunk_sink chunks;

/* What `value` writes in chunks of `chunk_bytes` is exactly `want`. */
static bool
writes(enum wire wire, uint32_t chunk_bytes, void (*value)(struct reply *reply), struct slice want)
{
    struct reply reply;
    size_t bytes;

    chunk_sink_init(&chunks, chunk_bytes, SIZE_MAX);
    reply_init(&reply, wire, &chunks.sink);
    reply_begin(&reply, 7);
    value(&reply);
    reply_end(&reply);
    uint8_t *text = chunk_sink_text(&chunks, &bytes);
    bool equal = !chunks.sink.failed && slice_equal(slice_of(text, bytes), want);
    if (!equal) {
        fprintf(stderr, "wrote '%s', want '%.*s'\n", text, (int)want.bytes, want.data);
    }
    free(text);
    chunk_sink_fini(&chunks);
    return equal;
}

static void
value_nil(struct reply *r)
{
    reply_nil(r);
}

static void
value_nil_array(struct reply *r)
{
    reply_nil_array(r);
}

static void
value_status(struct reply *r)
{
    reply_status(r, "PONG");
}

static void
value_status_empty(struct reply *r)
{
    reply_status(r, "");
}

static void
value_status_broken(struct reply *r)
{
    reply_status(r, "a\r\n+b\nc");
}

static void
value_error(struct reply *r)
{
    reply_error(r, ERROR_WRONGTYPE);
}

static void
value_error_broken(struct reply *r)
{
    reply_error(r, "ERR \r\n:1\r\n");
}

static void
value_integers(struct reply *r)
{
    reply_integer(r, 0);
    reply_integer(r, -1);
    reply_integer(r, 12345);
    reply_integer(r, INT64_MAX);
    reply_integer(r, INT64_MIN);
}

static void
value_doubles(struct reply *r)
{
    reply_double(r, 3);
    reply_double(r, 0.123123123);
    reply_double(r, -1.5e300);
    reply_double(r, INFINITY);
    reply_double(r, -INFINITY);
}

static void
value_bools(struct reply *r)
{
    reply_bool(r, true);
    reply_bool(r, false);
}

static void
value_bulks(struct reply *r)
{
    reply_bulk(r, slice_of(NULL, 0));
    reply_bulk(r, SLICE_LITERAL("a\r\n\0b"));
    reply_bulk_text(r, "0123456789");
    reply_bulk(r, SLICE_LITERAL("0123456789012345678901234567890123456789012345678901234567890123456789"
                                "012345678901234567890123456789"));
}

static void
value_verbatim(struct reply *r)
{
    reply_verbatim(r, SLICE_LITERAL("# Server\r\n"));
    reply_verbatim(r, slice_of(NULL, 0));
}

static void
value_aggregates(struct reply *r)
{
    reply_array(r, 0);
    reply_array(r, 3);
    reply_array(r, UINT32_MAX);
    reply_map(r, 0);
    reply_map(r, 12);
    reply_map(r, UINT32_MAX);
    reply_set(r, 123);
}

static void
value_push(struct reply *r)
{
    reply_begin_push(r, 3);
    reply_bulk_text(r, "message");
    reply_bulk_text(r, "news");
    reply_bulk_text(r, "hi");
    reply_end(r);
}

static const struct row {
    const char *name;
    void (*value)(struct reply *reply);
    struct slice resp2, resp3;
} rows[] = {
    { "nil", value_nil, SLICE_LITERAL("$-1\r\n"), SLICE_LITERAL("_\r\n") },
    { "nil array", value_nil_array, SLICE_LITERAL("*-1\r\n"), SLICE_LITERAL("_\r\n") },
    { "status", value_status, SLICE_LITERAL("+PONG\r\n"), SLICE_LITERAL("+PONG\r\n") },
    { "empty status", value_status_empty, SLICE_LITERAL("+\r\n"), SLICE_LITERAL("+\r\n") },
    { "status with line ends", value_status_broken, SLICE_LITERAL("+a  +b c\r\n"), SLICE_LITERAL("+a  +b c\r\n") },
    { "error", value_error, SLICE_LITERAL("-" ERROR_WRONGTYPE "\r\n"), SLICE_LITERAL("-" ERROR_WRONGTYPE "\r\n") },
    { "error with line ends", value_error_broken, SLICE_LITERAL("-ERR   :1  \r\n"), SLICE_LITERAL("-ERR   :1  \r\n") },
    { "integers", value_integers,
      SLICE_LITERAL(":0\r\n:-1\r\n:12345\r\n:9223372036854775807\r\n:-9223372036854775808\r\n"),
      SLICE_LITERAL(":0\r\n:-1\r\n:12345\r\n:9223372036854775807\r\n:-9223372036854775808\r\n") },
    { "doubles", value_doubles,
      SLICE_LITERAL("$1\r\n3\r\n$11\r\n0.123123123\r\n$9\r\n-1.5e+300\r\n$3\r\ninf\r\n$4\r\n-inf\r\n"),
      SLICE_LITERAL(",3\r\n,0.123123123\r\n,-1.5e+300\r\n,inf\r\n,-inf\r\n") },
    { "booleans", value_bools, SLICE_LITERAL(":1\r\n:0\r\n"), SLICE_LITERAL("#t\r\n#f\r\n") },
    { "bulks", value_bulks,
      SLICE_LITERAL("$0\r\n\r\n$5\r\na\r\n\0b\r\n$10\r\n0123456789\r\n$100\r\n"
                    "0123456789012345678901234567890123456789012345678901234567890123456789"
                    "012345678901234567890123456789\r\n"),
      SLICE_LITERAL("$0\r\n\r\n$5\r\na\r\n\0b\r\n$10\r\n0123456789\r\n$100\r\n"
                    "0123456789012345678901234567890123456789012345678901234567890123456789"
                    "012345678901234567890123456789\r\n") },
    { "verbatim", value_verbatim, SLICE_LITERAL("$10\r\n# Server\r\n\r\n$0\r\n\r\n"),
      SLICE_LITERAL("=14\r\ntxt:# Server\r\n\r\n=4\r\ntxt:\r\n") },
    { "aggregates", value_aggregates, SLICE_LITERAL("*0\r\n*3\r\n*4294967295\r\n*0\r\n*24\r\n*8589934590\r\n*123\r\n"),
      SLICE_LITERAL("*0\r\n*3\r\n*4294967295\r\n%0\r\n%12\r\n%4294967295\r\n~123\r\n") },
    { "push", value_push, SLICE_LITERAL("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n"),
      SLICE_LITERAL(">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n") },
};

static void
every_value_is_written_as_its_wire_says_at_every_chunk_size(void)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        for (uint32_t chunk_bytes = 1; chunk_bytes <= 300; chunk_bytes++) {
            if (!writes(WIRE_RESP2, chunk_bytes, rows[i].value, rows[i].resp2) ||
                !writes(WIRE_RESP3, chunk_bytes, rows[i].value, rows[i].resp3)) {
                CU_FAIL(rows[i].name);
                break;
            }
        }
    }
}

static void
an_unknown_wire_is_answered_as_resp2(void)
{
    CU_ASSERT_TRUE(writes(WIRE_UNKNOWN, 64, value_nil, SLICE_LITERAL("$-1\r\n")));
}

static uint8_t content[70000];
static size_t content_bytes;

static void
value_content(struct reply *r)
{
    reply_bulk(r, slice_of(content, content_bytes));
}

static void
value_long_error(struct reply *r)
{
    r->ops->error(r, slice_of(content, content_bytes));
}

static void
bulks_of_every_length_near_a_border_are_whole(void)
{
    static uint8_t want[sizeof(content) + 32];
    static const size_t centres[] = { 9, 99, 230, SINK_CONTIGUOUS_BYTES, 999, 9999, 65536 };

    for (size_t i = 0; i < sizeof(content); i++) {
        content[i] = (uint8_t)('a' + i % 23);
    }
    for (uint32_t i = 0; i < ARRAY_COUNT(centres); i++) {
        for (size_t bytes = centres[i] - MIN(centres[i], 30); bytes < centres[i] + 30; bytes++) {
            int at = sprintf((char *)want, "$%zu\r\n", bytes);
            content_bytes = bytes;
            memcpy(want + at, content, bytes);
            memcpy(want + at + bytes, "\r\n", 2);
            uint32_t chunk_bytes = (uint32_t)(13 + bytes % 500);
            CU_ASSERT_TRUE(writes(WIRE_RESP3, chunk_bytes, value_content, slice_of(want, (size_t)at + bytes + 2)));
        }
    }
}

static void
an_error_longer_than_a_contiguous_piece_is_whole_and_one_line(void)
{
    static uint8_t want[1024];
    for (content_bytes = 200; content_bytes < 800; content_bytes++) {
        memset(content, 'x', content_bytes);
        content[content_bytes - 1] = '\n';
        want[0] = '-';
        memset(want + 1, 'x', content_bytes);
        memcpy(want + content_bytes, " \r\n", 3);
        CU_ASSERT_TRUE(writes(WIRE_RESP2, 40, value_long_error, slice_of(want, content_bytes + 3)));
    }
}

static void
value_joined(struct reply *r)
{
    const struct slice pieces[] = { SLICE_LITERAL("ERR unknown command '"), SLICE_LITERAL("fo\r\no"),
                                    SLICE_LITERAL("', "), slice_of(NULL, 0), SLICE_LITERAL("end") };
    reply_error_join(r, pieces, ARRAY_COUNT(pieces));
    CU_ASSERT_TRUE(r->is_error);
}

static void
value_joined_long(struct reply *r)
{
    const struct slice pieces[] = { SLICE_LITERAL("ERR "), slice_of(content, 10000), SLICE_LITERAL("never seen") };
    reply_error_join(r, pieces, ARRAY_COUNT(pieces));
}

static void
joined_errors_stay_on_one_line_of_at_most_256_bytes(void)
{
    uint8_t want[1 + 256 + 2];

    CU_ASSERT_TRUE(writes(WIRE_RESP2, 16, value_joined, SLICE_LITERAL("-ERR unknown command 'fo  o', end\r\n")));
    memset(content, 'y', 10000);
    memset(want, 'y', sizeof(want));
    memcpy(want, "-ERR ", 5);
    memcpy(want + 257, "\r\n", 2);
    CU_ASSERT_TRUE(writes(WIRE_RESP2, 16, value_joined_long, slice_of(want, sizeof(want))));
}

static void
a_restarted_answer_leaves_nothing_and_the_answers_before_it_stay(void)
{
    memset(content, 'z', sizeof(content));
    for (uint32_t chunk_bytes = 1; chunk_bytes < 100; chunk_bytes += 3) {
        struct reply reply;
        size_t bytes;

        chunk_sink_init(&chunks, chunk_bytes, SIZE_MAX);
        reply_init(&reply, WIRE_RESP3, &chunks.sink);
        reply_begin(&reply, 1);
        reply_integer(&reply, 41);
        reply_end(&reply);
        reply_begin(&reply, 2);
        for (uint32_t attempt = 0; attempt < 3; attempt++) {
            reply_array(&reply, 2);
            reply_bulk(&reply, slice_of(content, attempt * 333));
            reply_error(&reply, "ERR half way");
            CU_ASSERT_TRUE(reply.is_error);
            reply_restart(&reply);
            CU_ASSERT_FALSE(reply.is_error);
            CU_ASSERT_EQUAL(reply.correlation, 2);
        }
        reply_bool(&reply, true);
        reply_end(&reply);
        uint8_t *text = chunk_sink_text(&chunks, &bytes);
        CU_ASSERT_TRUE(slice_equal(slice_of(text, bytes), SLICE_LITERAL(":41\r\n#t\r\n")));
        free(text);
        chunk_sink_fini(&chunks);
    }
}

/* Whatever the limit, nothing crashes, the sink says that it failed, and a rewind makes it whole again. */
static void
a_sink_without_memory_drops_the_reply_until_it_is_rewound(void)
{
    memset(content, 'q', sizeof(content));
    content_bytes = 1500;
    for (uint32_t i = 0; i < ARRAY_COUNT(rows) + 2; i++) {
        void (*value)(struct reply *) = i < ARRAY_COUNT(rows) ? rows[i].value
                                        : i & 1               ? value_content
                                                              : value_long_error;
        for (size_t limit = 0; limit < 40; limit++) {
            struct reply reply;
            size_t bytes;

            chunk_sink_init(&chunks, 5, SIZE_MAX);
            reply_init(&reply, i & 2 ? WIRE_RESP2 : WIRE_RESP3, &chunks.sink);
            reply_begin(&reply, 0);
            reply_integer(&reply, 1);
            uint64_t mark = sink_offset(&chunks.sink), room = mark + (uint64_t)(chunks.sink.end - chunks.sink.at);
            chunks.limit_bytes = mark + limit;
            reply_begin(&reply, 0);
            value(&reply);
            value(&reply);
            value(&reply);
            bool failed = chunks.sink.failed;
            CU_ASSERT_TRUE(sink_offset(&chunks.sink) <= MAX(mark + limit + 5, room));
            CU_ASSERT_TRUE(failed || sink_offset(&chunks.sink) > mark);
            sink_rewind(&chunks.sink, mark);
            CU_ASSERT_FALSE(chunks.sink.failed);
            chunks.limit_bytes = SIZE_MAX;
            reply_begin(&reply, 0);
            reply_error(&reply, ERROR_OOM);
            uint8_t *text = chunk_sink_text(&chunks, &bytes);
            CU_ASSERT_TRUE(slice_equal(slice_of(text, bytes), SLICE_LITERAL(":1\r\n-" ERROR_OOM "\r\n")));
            free(text);
            chunk_sink_fini(&chunks);
        }
    }
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("reply", NULL, NULL);
    CU_ADD_TEST(suite, every_value_is_written_as_its_wire_says_at_every_chunk_size);
    CU_ADD_TEST(suite, an_unknown_wire_is_answered_as_resp2);
    CU_ADD_TEST(suite, bulks_of_every_length_near_a_border_are_whole);
    CU_ADD_TEST(suite, an_error_longer_than_a_contiguous_piece_is_whole_and_one_line);
    CU_ADD_TEST(suite, joined_errors_stay_on_one_line_of_at_most_256_bytes);
    CU_ADD_TEST(suite, a_restarted_answer_leaves_nothing_and_the_answers_before_it_stay);
    CU_ADD_TEST(suite, a_sink_without_memory_drops_the_reply_until_it_is_rewound);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
