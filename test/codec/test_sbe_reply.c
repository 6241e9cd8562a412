/* test_sbe_reply.c - replies on the SBE wire, as handlers write them. */
#include "test/codec/chunk_sink.h"
#include "test/codec/test_sbe_frames.h"
#include <CUnit/Basic.h>
#include <math.h>

#define CORRELATION UINT64_C(0x0807060504030201)

static struct chunk_sink chunks;

typedef void (*say_fn)(struct reply *reply);

/* Everything `say` writes as one answer through chunks of `chunk_bytes`. The caller frees. */
static uint8_t *
written(say_fn say, uint64_t correlation, uint32_t chunk_bytes, size_t *bytes)
{
    struct reply reply;
    chunk_sink_init(&chunks, chunk_bytes, SIZE_MAX);
    reply_init(&reply, WIRE_SBE, &chunks.sink);
    reply_begin(&reply, correlation);
    say(&reply);
    reply_end(&reply);
    CU_ASSERT(!chunks.sink.failed);
    uint8_t *text = chunk_sink_text(&chunks, bytes);
    chunk_sink_fini(&chunks);
    return text;
}

static void
say_nil(struct reply *reply)
{
    reply_nil(reply);
}

static void
say_nil_array(struct reply *reply)
{
    reply_nil_array(reply);
}

static void
say_ok(struct reply *reply)
{
    reply_ok(reply);
}

static void
say_pong(struct reply *reply)
{
    reply_status(reply, "PONG");
}

static void
say_queued(struct reply *reply)
{
    reply_status(reply, "QUEUED");
}

static void
say_status(struct reply *reply)
{
    reply_status(reply, "string");
}

static void
say_integer(struct reply *reply)
{
    reply_integer(reply, INT64_MIN);
}

static void
say_double(struct reply *reply)
{
    reply_double(reply, 0.1);
}

static void
say_infinity(struct reply *reply)
{
    reply_double(reply, -INFINITY);
}

static void
say_bulk(struct reply *reply)
{
    reply_bulk_text(reply, "value");
}

static void
say_verbatim(struct reply *reply)
{
    reply_verbatim(reply, SLICE_LITERAL("value"));
}

static void
say_empty(struct reply *reply)
{
    reply_bulk(reply, (struct slice){ NULL, 0 });
}

static void
say_true(struct reply *reply)
{
    reply_bool(reply, true);
}

static void
say_false(struct reply *reply)
{
    reply_bool(reply, false);
}

static void
say_empty_array(struct reply *reply)
{
    reply_array(reply, 0);
}

static void
say_array(struct reply *reply)
{
    reply_array(reply, 7);
    reply_nil(reply);
    reply_ok(reply);
    reply->ops->error(reply, SLICE_LITERAL("WRONGTYPE no"));
    reply_integer(reply, -7);
    reply_double(reply, 2.5);
    reply_bulk(reply, SLICE_LITERAL("x\0y"));
    reply_bool(reply, true);
}

static void
say_nested(struct reply *reply)
{
    reply_map(reply, 2);
    reply_bulk_text(reply, "k1");
    reply_array(reply, 2);
    reply_integer(reply, 1);
    reply_array(reply, 0);
    reply_bulk_text(reply, "k2");
    reply_set(reply, 1);
    reply_map(reply, 1);
    reply_nil(reply);
    reply_bulk_text(reply, "deep");
}

static void
say_subscribed(struct reply *reply)
{
    reply->ops->push(reply, 3);
    reply_bulk_text(reply, "subscribe");
    reply_bulk_text(reply, "news");
    reply_integer(reply, 1);
}

static void
say_message(struct reply *reply)
{
    reply_begin_push(reply, 3);
    reply_bulk_text(reply, "message");
    reply_bulk_text(reply, "news");
    reply_bulk_text(reply, "hello");
}

static const struct {
    const char *frame;
    say_fn say;
} golden[] = {
    { "reply_nil", say_nil },         { "reply_nil", say_nil_array }, { "reply_ok", say_ok },
    { "reply_pong", say_pong },       { "reply_queued", say_queued }, { "reply_status_text", say_status },
    { "reply_integer", say_integer }, { "reply_double", say_double }, { "reply_double_inf", say_infinity },
    { "reply_bulk", say_bulk },       { "reply_bulk", say_verbatim }, { "reply_bulk_empty", say_empty },
    { "reply_true", say_true },       { "reply_false", say_false },   { "reply_array_empty", say_empty_array },
    { "reply_array", say_array },     { "reply_nested", say_nested }, { "reply_subscribed", say_subscribed },
    { "push_message", say_message },
};

static void
every_kind_of_reply_is_written_as_kept_whatever_the_chunks(void)
{
    for (size_t i = 0; i < ARRAY_COUNT(golden); i++) {
        const struct frame *frame = frame_named(golden[i].frame);
        for (uint32_t chunk_bytes = 1; chunk_bytes < 300; chunk_bytes += 1 + chunk_bytes / 8) {
            size_t bytes;
            uint8_t *text = written(golden[i].say, CORRELATION, chunk_bytes, &bytes);
            if (!slice_equal(slice_of(text, bytes), slice_of(frame->bytes, frame->bytes_count))) {
                fprintf(stderr, "%s, chunks of %u\n", golden[i].frame, chunk_bytes);
                CU_FAIL("another frame");
            }
            free(text);
        }
    }
}

static const char *said_error;

static void
say_error(struct reply *reply)
{
    reply_error(reply, said_error);
    CU_ASSERT(reply->is_error);
}

static void
errors_carry_the_number_of_their_first_word(void)
{
    static const struct {
        const char *text;
        enum sbe_error_code code;
    } rows[] = {
        { "ERR syntax error", SBE_ERROR_CODE_ERR },
        { "ERR", SBE_ERROR_CODE_ERR },
        { "ERROR not this one", SBE_ERROR_CODE_OTHER },
        { "ER", SBE_ERROR_CODE_OTHER },
        { "", SBE_ERROR_CODE_OTHER },
        { " ERR", SBE_ERROR_CODE_OTHER },
        { ERROR_WRONGTYPE, SBE_ERROR_CODE_WRONGTYPE },
        { ERROR_NOAUTH, SBE_ERROR_CODE_NOAUTH },
        { ERROR_OOM, SBE_ERROR_CODE_OOM },
        { "WRONGPASS x", SBE_ERROR_CODE_WRONGPASS },
        { "NOPERM x", SBE_ERROR_CODE_NOPERM },
        { "BUSY x", SBE_ERROR_CODE_BUSY },
        { "BUSYKEY x", SBE_ERROR_CODE_OTHER },
        { "NOPROTO x", SBE_ERROR_CODE_NOPROTO },
        { "EXECABORT x", SBE_ERROR_CODE_EXECABORT },
        { "NOSCRIPT x", SBE_ERROR_CODE_NOSCRIPT },
        { "SESSION_LOST x", SBE_ERROR_CODE_SESSION_LOST },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct sbe_reply reply;
        struct sbe_value value;
        size_t bytes;
        said_error = rows[i].text;
        uint8_t *text = written(say_error, 7, 64, &bytes);
        CU_ASSERT_EQUAL_FATAL(sbe_reply_open(slice_of(text, bytes), SIZE_MAX, &reply), CODEC_OK);
        CU_ASSERT_EQUAL(sbe_error_reply_code(&reply.view), rows[i].code);
        CU_ASSERT(sbe_reply_next(&reply, &value));
        CU_ASSERT_EQUAL(value.kind, SBE_VALUE_KIND_ERROR);
        CU_ASSERT(slice_equal(value.bytes, slice_text(rows[i].text)));
        CU_ASSERT(!sbe_reply_next(&reply, &value));
        free(text);
    }
}

static uint8_t large[300000];
static size_t large_bytes;

static void
say_large(struct reply *reply)
{
    reply_bulk(reply, slice_of(large, large_bytes));
}

static void
say_large_nested(struct reply *reply)
{
    reply_array(reply, 3);
    reply_bulk(reply, slice_of(large, large_bytes));
    reply_integer(reply, 5);
    reply_bulk(reply, slice_of(large, large_bytes));
}

static void
bulks_of_every_size_cross_chunks(void)
{
    for (size_t i = 0; i < sizeof(large); i++) {
        large[i] = (uint8_t)(i * 31 + i / 251);
    }
    static const size_t sizes[] = { 0,   1,   100, 127, 128, 129, 130,  200,   211,   212,   213,
                                    230, 231, 232, 255, 256, 257, 1000, 65535, 65536, 300000 };
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        struct sbe_reply reply;
        struct sbe_value value;
        size_t bytes;
        large_bytes = sizes[i];
        for (uint32_t chunk_bytes = 80; chunk_bytes < 9000; chunk_bytes = chunk_bytes * 5 / 2) {
            uint8_t *text = written(say_large, 9, chunk_bytes, &bytes);
            CU_ASSERT_EQUAL_FATAL(sbe_reply_open(slice_of(text, bytes), SIZE_MAX, &reply), CODEC_OK);
            CU_ASSERT_EQUAL(reply.wire_bytes, bytes);
            CU_ASSERT(sbe_reply_next(&reply, &value));
            CU_ASSERT(slice_equal(value.bytes, slice_of(large, large_bytes)));
            free(text);

            text = written(say_large_nested, 9, chunk_bytes, &bytes);
            CU_ASSERT_EQUAL_FATAL(sbe_reply_open(slice_of(text, bytes), SIZE_MAX, &reply), CODEC_OK);
            CU_ASSERT_EQUAL(reply.wire_bytes, bytes);
            CU_ASSERT_EQUAL(reply.values_count, 4);
            CU_ASSERT(sbe_reply_next(&reply, &value) && value.count == 3);
            CU_ASSERT(sbe_reply_next(&reply, &value) && slice_equal(value.bytes, slice_of(large, large_bytes)));
            CU_ASSERT(sbe_reply_next(&reply, &value) && value.integer == 5);
            CU_ASSERT(sbe_reply_next(&reply, &value) && slice_equal(value.bytes, slice_of(large, large_bytes)));
            CU_ASSERT(!sbe_reply_next(&reply, &value));
            free(text);
        }
    }
}

static void
say_two_channels(struct reply *reply)
{
    say_subscribed(reply);
    reply_integer(reply, 1);
    say_subscribed(reply);
}

static void
an_answer_of_several_values_is_as_many_frames_of_one_correlation(void)
{
    size_t bytes, taken = 0;
    uint8_t *wire = written(say_two_channels, 5, 40, &bytes);
    static const char *const wants[] = { "0x5 push:3 bulk:subscribe bulk:news integer:1", "0x5 integer:1",
                                         "0x5 push:3 bulk:subscribe bulk:news integer:1" };
    for (size_t i = 0; i < ARRAY_COUNT(wants); i++) {
        char text[FRAME_TEXT_MAX];
        struct sbe_reply reply;
        CU_ASSERT_EQUAL_FATAL(sbe_reply_open(slice_of(wire + taken, bytes - taken), SIZE_MAX, &reply), CODEC_OK);
        CU_ASSERT(!reply.push);
        reply_text(slice_of(wire + taken, bytes - taken), text, sizeof(text));
        CU_ASSERT_STRING_EQUAL(text, wants[i]);
        taken += reply.wire_bytes;
    }
    CU_ASSERT_EQUAL(taken, bytes);
    free(wire);
}

static void
an_answer_with_correlation_0_is_still_an_answer(void)
{
    size_t bytes;
    char text[FRAME_TEXT_MAX];
    struct sbe_reply reply;
    uint8_t *wire = written(say_empty_array, 0, 64, &bytes);
    CU_ASSERT_EQUAL_FATAL(sbe_reply_open(slice_of(wire, bytes), SIZE_MAX, &reply), CODEC_OK);
    CU_ASSERT(!reply.push);
    reply_text(slice_of(wire, bytes), text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, "0 array:0");
    free(wire);
}

static void
an_answer_of_nothing_is_no_frame(void)
{
    struct reply reply;
    chunk_sink_init(&chunks, 64, SIZE_MAX);
    reply_init(&reply, WIRE_SBE, &chunks.sink);
    reply_begin(&reply, 5);
    reply_end(&reply);
    CU_ASSERT_EQUAL(sink_offset(&chunks.sink), 0);
    chunk_sink_fini(&chunks);
}

static void
a_restarted_answer_leaves_nothing_of_the_first_try(void)
{
    for (uint32_t chunk_bytes = 1; chunk_bytes < 300; chunk_bytes += 37) {
        for (uint32_t tries = 0; tries < 4; tries++) {
            struct reply reply;
            size_t bytes;
            chunk_sink_init(&chunks, chunk_bytes, SIZE_MAX);
            reply_init(&reply, WIRE_SBE, &chunks.sink);
            reply_begin(&reply, 4);
            reply_ok(&reply);
            reply_end(&reply);
            size_t before = sink_offset(&chunks.sink);
            reply_begin(&reply, 5);
            for (uint32_t i = 0; i < tries; i++) {
                reply_array(&reply, 10); /* ten announced, two come */
                reply_map(&reply, 1);
                reply_error(&reply, "ERR half");
                reply_restart(&reply);
                CU_ASSERT(!reply.is_error);
                CU_ASSERT_EQUAL(sink_offset(&chunks.sink), before);
            }
            say_array(&reply);
            reply_end(&reply);
            uint8_t *wire = chunk_sink_text(&chunks, &bytes);
            char text[FRAME_TEXT_MAX];
            reply_text(slice_of(wire + before, bytes - before), text, sizeof(text));
            CU_ASSERT_EQUAL(strncmp(text, "0x5 array:7 nil status:OK ", 26), 0);
            free(wire);
            chunk_sink_fini(&chunks);
        }
    }
}

static void
a_sink_that_fails_anywhere_is_survived_and_can_be_used_again(void)
{
    for (size_t i = 0; i < ARRAY_COUNT(golden); i++) {
        size_t whole = frame_named(golden[i].frame)->bytes_count;
        for (size_t limit = 0; limit < whole; limit++) {
            struct reply reply;
            chunk_sink_init(&chunks, 1, limit);
            reply_init(&reply, WIRE_SBE, &chunks.sink);
            reply_begin(&reply, CORRELATION);
            golden[i].say(&reply);
            reply_end(&reply);
            CU_ASSERT(chunks.sink.failed);
            sink_rewind(&chunks.sink, 0);
            CU_ASSERT(!chunks.sink.failed);

            chunks.limit_bytes = SIZE_MAX;
            reply_begin(&reply, 6);
            reply_integer(&reply, 77);
            reply_end(&reply);
            size_t bytes;
            char text[FRAME_TEXT_MAX];
            uint8_t *wire = chunk_sink_text(&chunks, &bytes);
            reply_text(slice_of(wire, bytes), text, sizeof(text));
            CU_ASSERT_STRING_EQUAL(text, "0x6 integer:77");
            free(wire);
            chunk_sink_fini(&chunks);
        }
    }
}

static void
hot_replies_fit_a_small_inject_with_the_envelope(void)
{
    static const say_fn hot[] = { say_nil, say_ok, say_pong, say_integer, say_double };
    for (size_t i = 0; i < ARRAY_COUNT(hot); i++) {
        size_t bytes;
        free(written(hot[i], CORRELATION, 256, &bytes));
        CU_ASSERT(bytes + 32 <= 64); /* envelope; tcp;ofi_rxm injects 64 bytes */
    }
}

int
main(void)
{
    frames_load();
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("sbe_reply", NULL, NULL);
    CU_ADD_TEST(suite, a_sink_that_fails_anywhere_is_survived_and_can_be_used_again);
    CU_ADD_TEST(suite, every_kind_of_reply_is_written_as_kept_whatever_the_chunks);
    CU_ADD_TEST(suite, errors_carry_the_number_of_their_first_word);
    CU_ADD_TEST(suite, bulks_of_every_size_cross_chunks);
    CU_ADD_TEST(suite, an_answer_of_several_values_is_as_many_frames_of_one_correlation);
    CU_ADD_TEST(suite, an_answer_with_correlation_0_is_still_an_answer);
    CU_ADD_TEST(suite, an_answer_of_nothing_is_no_frame);
    CU_ADD_TEST(suite, a_restarted_answer_leaves_nothing_of_the_first_try);
    CU_ADD_TEST(suite, hot_replies_fit_a_small_inject_with_the_envelope);
    CU_basic_set_mode(CU_BRM_NORMAL);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
