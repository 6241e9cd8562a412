/* test_sbe.c - requests on the SBE wire, as the server reads them. */
#include "test/codec/test_sbe_frames.h"
#include <CUnit/Basic.h>
#include <math.h>

#define CORRELATION UINT64_C(0x0807060504030201)

static struct arg args[LIMIT_BURST_ARGS];

static enum codec_status
decode_within(struct slice wire, struct decode_limits limits, struct request *request)
{
    struct arg_room room = { args, 0, ARRAY_COUNT(args) };
    memset(request, 0xa5, sizeof(*request));
    enum codec_status status = sbe_decode(wire, &limits, &room, request);
    CU_ASSERT_EQUAL(room.used, status == CODEC_OK ? request->args_count : 0);
    if (status == CODEC_REJECTED || status == CODEC_MALFORMED) {
        CU_ASSERT_PTR_NULL(request->command);
        CU_ASSERT_EQUAL(request->args_count, 0);
    }
    return status;
}

static enum codec_status
decode(struct slice wire, struct request *request)
{
    return decode_within(wire, limits_full(), request);
}

/* A message under construction: patched bytes of a kept frame, or parts by hand. */
struct draft {
    uint8_t bytes[512];
    size_t count;
};

static struct draft
draft_of(const char *name)
{
    const struct frame *frame = frame_named(name);
    struct draft draft = { .count = frame->bytes_count };
    memcpy(draft.bytes, frame->bytes, frame->bytes_count);
    return draft;
}

static void
draft_put16(struct draft *draft, size_t at, uint16_t value)
{
    memcpy(draft->bytes + at, &value, sizeof(value));
}

static void
draft_put32(struct draft *draft, size_t at, uint32_t value)
{
    memcpy(draft->bytes + at, &value, sizeof(value));
}

/* The frame's length word says what there is. */
static struct slice
draft_framed(struct draft *draft)
{
    draft_put32(draft, 0, (uint32_t)(draft->count - 4));
    return slice_of(draft->bytes, draft->count);
}

#define BLOCK_LENGTH_AT 4
#define TEMPLATE_AT     6
#define SCHEMA_AT       8
#define VERSION_AT      10
#define ROOT_AT         12
#define AFTER_ROOT_AT   20 /* with no field but the correlation */

/* One wrong thing in a frame that is right otherwise. */
struct damage {
    const char *name, *frame;
    size_t at, bytes; /* `value` is written there */
    uint64_t value;
    const char *error;
    bool correlation_lost;
};

static const struct damage damages[] = {
    { "another schema", "get", SCHEMA_AT, 2, 1, "ERR SBE: schemaId is not 19539", true },
    { "no such template", "get", TEMPLATE_AT, 2, 21, "ERR SBE: unknown templateId for this schema version", false },
    { "template 0", "get", TEMPLATE_AT, 2, 0, "ERR SBE: unknown templateId for this schema version", false },
    { "template 255", "get", TEMPLATE_AT, 2, 255, "ERR SBE: unknown templateId for this schema version", false },
    { "template 256", "get", TEMPLATE_AT, 2, 256, "ERR SBE: unknown templateId for this schema version", false },
    { "GET's template and 256", "get", TEMPLATE_AT, 2, 256 + 22, "ERR SBE: unknown templateId for this schema version",
      false },
    { "template 65535", "get", TEMPLATE_AT, 2, 65535, "ERR SBE: unknown templateId for this schema version", false },
    { "a reply", "get", TEMPLATE_AT, 2, 105, "ERR SBE: this template is not a request", false },
    { "block length 0", "get", BLOCK_LENGTH_AT, 2, 0,
      "ERR SBE: blockLength does not fit the template's version or the message", true },
    { "block a byte short", "get", BLOCK_LENGTH_AT, 2, 7,
      "ERR SBE: blockLength does not fit the template's version or the message", true },
    { "block a byte long", "get", BLOCK_LENGTH_AT, 2, 9,
      "ERR SBE: blockLength does not fit the template's version or the message", false },
    { "block beyond the message", "get", BLOCK_LENGTH_AT, 2, 65535,
      "ERR SBE: blockLength does not fit the template's version or the message", false },
    { "data a byte long", "get", AFTER_ROOT_AT, 4, 4, "ERR SBE: a length runs past the message", false },
    { "data of 4 GiB", "get", AFTER_ROOT_AT, 4, UINT32_MAX, "ERR SBE: a length runs past the message", false },
    { "data of 2 GiB", "get", AFTER_ROOT_AT, 4, 0x80000000, "ERR SBE: a length runs past the message", false },
    { "data a byte short", "get", AFTER_ROOT_AT, 4, 2, "ERR SBE: bytes after the last field", false },
    { "second data long", "hget", AFTER_ROOT_AT + 5, 4, 2, "ERR SBE: a length runs past the message", false },
    { "group's block long", "hset", AFTER_ROOT_AT, 2, 1,
      "ERR SBE: a group's blockLength or numInGroup does not fit its version or the message", false },
    { "group's block short", "zadd", AFTER_ROOT_AT + 1, 2, 7,
      "ERR SBE: a group's blockLength or numInGroup does not fit its version or the message", false },
    { "more entries than fit", "hset", AFTER_ROOT_AT + 2, 2, 500,
      "ERR SBE: a group's blockLength or numInGroup does not fit its version or the message", false },
    { "more entries than allowed", "hset", AFTER_ROOT_AT + 2, 2, 1025, "ERR SBE: more arguments than the limit",
      false },
    { "65535 entries", "del", AFTER_ROOT_AT + 2, 2, 65535, "ERR SBE: more arguments than the limit", false },
    { "one entry too few", "hset", AFTER_ROOT_AT + 2, 2, 1, "ERR SBE: bytes after the last field", false },
    { "an unknown expiry kind", "set_px_nx_get", ROOT_AT + 16, 1, 4,
      "ERR SBE: a value that its enum or set does not have", false },
    { "expiry kind 64", "set_px_nx_get", ROOT_AT + 16, 1, 64, "ERR SBE: a value that its enum or set does not have",
      false },
    { "the null expiry kind", "set_px_nx_get", ROOT_AT + 16, 1, 255,
      "ERR SBE: a value that its enum or set does not have", false },
    { "an unknown SET option", "set_px_nx_get", ROOT_AT + 17, 1, 8,
      "ERR SBE: a value that its enum or set does not have", false },
    { "an unknown ZADD option", "zadd", ROOT_AT + 8, 1, 0x40, "ERR SBE: a value that its enum or set does not have",
      false },
    { "an unknown EXPIRE condition", "expire", ROOT_AT + 16, 1, 0x10,
      "ERR SBE: a value that its enum or set does not have", false },
    { "an expiry without its kind", "set", ROOT_AT + 8, 8, 1, "ERR SBE: expiry is set, expiryKind does not use it",
      false },
    { "an expiry that KEEPTTL contradicts", "set_keepttl", ROOT_AT + 8, 8, UINT64_MAX,
      "ERR SBE: expiry is set, expiryKind does not use it", false },
    { "a score that is NaN", "zadd", AFTER_ROOT_AT + 5, 8, 0x7ff8000000000001, ERROR_NOT_FLOAT, false },
    { "a score that is negative NaN", "zadd", AFTER_ROOT_AT + 5, 8, 0xfff0000000000001, ERROR_NOT_FLOAT, false },
};

static void
each_wrong_field_is_rejected_by_name_and_answered_with_its_correlation(void)
{
    for (size_t i = 0; i < ARRAY_COUNT(damages); i++) {
        const struct damage *damage = &damages[i];
        struct draft draft = draft_of(damage->frame);
        struct request request;
        memcpy(draft.bytes + damage->at, &damage->value, damage->bytes);
        enum codec_status status = decode(draft_framed(&draft), &request);
        CU_ASSERT_EQUAL(status, CODEC_REJECTED);
        if (status != CODEC_REJECTED || strcmp(request.error, damage->error) != 0) {
            fprintf(stderr, "%s: status %d, %s\n", damage->name, status, status == CODEC_OK ? "" : request.error);
            CU_FAIL("another error");
            continue;
        }
        CU_ASSERT_EQUAL(request.wire_bytes, draft.count);
        CU_ASSERT_EQUAL(request.correlation, damage->correlation_lost ? 0 : CORRELATION);
    }
}

static void
an_empty_command_name_is_rejected(void)
{
    struct draft draft = draft_of("command_no_arguments");
    struct request request;
    draft_put32(&draft, AFTER_ROOT_AT + 4, 0);
    draft.count = AFTER_ROOT_AT + 8;
    CU_ASSERT_EQUAL(decode(draft_framed(&draft), &request), CODEC_REJECTED);
    CU_ASSERT_STRING_EQUAL(request.error, "ERR SBE: the command's name is empty");
}

static void
a_frame_length_out_of_bounds_ends_the_stream(void)
{
    struct decode_limits limits = { 10, 100, 1000 };
    static const struct {
        uint32_t message_bytes;
        enum codec_status want;
    } rows[] = {
        { 0, CODEC_MALFORMED },
        { 7, CODEC_MALFORMED },
        { 8, CODEC_SHORT },
        { 995, CODEC_SHORT },
        { 996, CODEC_SHORT },
        { 997, CODEC_MALFORMED },
        { INT32_MAX, CODEC_MALFORMED },
        { UINT32_MAX - 3, CODEC_MALFORMED },
        { UINT32_MAX, CODEC_MALFORMED },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct request request;
        uint8_t *wire = guard_end(&rows[i].message_bytes, 4);
        CU_ASSERT_EQUAL(decode_within(slice_of(wire, 4), limits, &request), rows[i].want);
        if (rows[i].want == CODEC_SHORT) {
            CU_ASSERT_EQUAL(request.wire_bytes, 4 + (size_t)rows[i].message_bytes);
        } else {
            CU_ASSERT_EQUAL(strncmp(request.error, "ERR SBE: frame length ", 22), 0);
            CU_ASSERT_EQUAL(request.correlation, 0);
        }
    }
}

static void
a_message_too_short_for_its_header_or_correlation_is_rejected(void)
{
    for (uint32_t bytes = 8; bytes < 16; bytes++) {
        struct draft draft = draft_of("get");
        struct request request;
        draft.count = 4 + bytes;
        draft_framed(&draft);
        uint8_t *wire = guard_end(draft.bytes, draft.count);
        CU_ASSERT_EQUAL(decode(slice_of(wire, draft.count), &request), CODEC_REJECTED);
        CU_ASSERT_EQUAL(request.correlation, 0);
        CU_ASSERT_EQUAL(request.wire_bytes, draft.count);
    }
}

static void
every_cut_asks_for_the_whole_frame(void)
{
    for (uint32_t i = 0; i < frames_count; i++) {
        const struct frame *frame = &frames[i];
        for (size_t cut = 0; cut < frame->bytes_count; cut++) {
            struct request request;
            uint8_t *wire = guard_end(frame->bytes, cut);
            CU_ASSERT_EQUAL(decode(slice_of(wire, cut), &request), CODEC_SHORT);
            CU_ASSERT_EQUAL(request.wire_bytes, cut < 4 ? 0 : frame->bytes_count);
        }
    }
}

static void
a_message_that_ends_anywhere_early_is_rejected(void)
{
    for (uint32_t i = 0; i < frames_count; i++) {
        for (size_t count = 12; count < frames[i].bytes_count; count++) {
            struct draft draft = draft_of(frames[i].name);
            struct request request;
            draft.count = count;
            draft_framed(&draft);
            uint8_t *wire = guard_end(draft.bytes, count);
            CU_ASSERT_EQUAL(decode(slice_of(wire, count), &request), CODEC_REJECTED);
            CU_ASSERT_EQUAL(request.wire_bytes, count);
        }
    }
}

static bool
slice_within(struct slice part, const uint8_t *whole, size_t bytes)
{
    uintptr_t begin = (uintptr_t)part.data, low = (uintptr_t)whole;
    return begin >= low && part.bytes <= bytes && begin - low <= bytes - part.bytes;
}

/* Option words are ours, all other bytes the frame's. */
static bool
is_option_word(struct slice word)
{
    static const char *const words[] = { "nx", "xx", "gt", "lt", "ch", "incr", "get", "px", "pxat", "keepttl" };
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        if (slice_equal_nocase(word, words[i])) {
            return true;
        }
    }
    return false;
}

static void
check_hostile(const uint8_t *wire, size_t bytes)
{
    struct request request;
    enum codec_status status = decode(slice_of(wire, bytes), &request);
    if (status != CODEC_OK) {
        CU_ASSERT(status == CODEC_SHORT || (request.error != NULL && strncmp(request.error, "ERR ", 4) == 0));
        return;
    }
    CU_ASSERT_EQUAL(request.wire_bytes, bytes);
    for (uint32_t i = 0; i < request.args_count; i++) {
        if (request.args[i].kind == ARG_BYTES) {
            struct slice arg = request.args[i].bytes;
            CU_ASSERT(slice_within(arg, wire, bytes) || is_option_word(arg));
        }
    }
}

static void
every_changed_byte_is_survived_at_both_edges_of_a_page(void)
{
    for (uint32_t i = 0; i < frames_count; i++) {
        const struct frame *frame = &frames[i];
        for (size_t at = 0; at < frame->bytes_count; at++) {
            for (int value = 0; value < 256; value++) {
                uint8_t *end = guard_end(frame->bytes, frame->bytes_count);
                end[at] = (uint8_t)value;
                check_hostile(end, frame->bytes_count);
            }
            uint8_t *begin = guard_begin(frame->bytes, frame->bytes_count);
            begin[at] ^= 0xff;
            check_hostile(begin, frame->bytes_count);
        }
    }
}

static void
kept_frames_say_what_they_said(void)
{
    for (uint32_t i = 0; i < frames_count; i++) {
        struct request request;
        char text[FRAME_TEXT_MAX];
        if (frames[i].is_reply) {
            continue;
        }
        uint8_t *wire = guard_end(frames[i].bytes, frames[i].bytes_count);
        CU_ASSERT_EQUAL_FATAL(decode(slice_of(wire, frames[i].bytes_count), &request), CODEC_OK);
        request_text(&request, text, sizeof(text));
        if (strcmp(text, frames[i].text) != 0) {
            fprintf(stderr, "%s\n  want %s\n  got  %s\n", frames[i].name, frames[i].text, text);
            CU_FAIL("another meaning");
        }
        CU_ASSERT_EQUAL(request.wire_bytes, frames[i].bytes_count);
        CU_ASSERT_PTR_NULL(request.error);
    }
}

static void
replies_are_not_requests(void)
{
    for (uint32_t i = 0; i < frames_count; i++) {
        struct request request;
        if (frames[i].is_reply) {
            CU_ASSERT_EQUAL(decode(slice_of(frames[i].bytes, frames[i].bytes_count), &request), CODEC_REJECTED);
            CU_ASSERT_STRING_EQUAL(request.error, "ERR SBE: this template is not a request");
        }
    }
}

static void
frames_follow_one_another(void)
{
    static uint8_t wire[FRAMES_MAX * sizeof(frames[0].bytes)];
    size_t bytes = 0, taken = 0;
    for (uint32_t i = 0; i < frames_count; i++) {
        memcpy(wire + bytes, frames[i].bytes, frames[i].bytes_count);
        bytes += frames[i].bytes_count;
    }
    for (uint32_t i = 0; i < frames_count; i++) {
        struct request request;
        enum codec_status want = frames[i].is_reply ? CODEC_REJECTED : CODEC_OK;
        CU_ASSERT_EQUAL(decode(slice_of(wire + taken, bytes - taken), &request), want);
        CU_ASSERT_EQUAL(request.wire_bytes, frames[i].bytes_count);
        taken += request.wire_bytes;
    }
    CU_ASSERT_EQUAL(taken, bytes);
}

static void
requests_of_a_burst_share_the_room(void)
{
    struct arg_room room = { args, 5, ARRAY_COUNT(args) };
    struct decode_limits limits = limits_full();
    struct request request;
    const struct frame *frame = frame_named("zscore");
    CU_ASSERT_EQUAL(sbe_decode(slice_of(frame->bytes, frame->bytes_count), &limits, &room, &request), CODEC_OK);
    CU_ASSERT_PTR_EQUAL(request.args, args + 5);
    CU_ASSERT_EQUAL(room.used, 7);
    room = (struct arg_room){ args, 2, 3 };
    CU_ASSERT_EQUAL(sbe_decode(slice_of(frame->bytes, frame->bytes_count), &limits, &room, &request), CODEC_REJECTED);
    CU_ASSERT_EQUAL(room.used, 2);
}

static void
native_numbers_arrive_unchanged(void)
{
    static const double scores[] = { 0.0, -0.0, 0.1, -1e308, 5e-324, INFINITY, -INFINITY };
    for (size_t i = 0; i < ARRAY_COUNT(scores); i++) {
        struct draft draft = draft_of("zadd");
        struct request request;
        memcpy(draft.bytes + AFTER_ROOT_AT + 5, &scores[i], 8);
        CU_ASSERT_EQUAL_FATAL(decode(draft_framed(&draft), &request), CODEC_OK);
        CU_ASSERT_EQUAL(request.args[1].kind, ARG_DOUBLE);
        CU_ASSERT_EQUAL(memcmp(&request.args[1].real, &scores[i], 8), 0);
    }
    static const int64_t integers[] = { 0, 1, -1, INT64_MAX, INT64_MIN };
    for (size_t i = 0; i < ARRAY_COUNT(integers); i++) {
        struct draft draft = draft_of("incrby");
        struct request request;
        memcpy(draft.bytes + ROOT_AT + 8, &integers[i], 8);
        CU_ASSERT_EQUAL_FATAL(decode(draft_framed(&draft), &request), CODEC_OK);
        CU_ASSERT_EQUAL(request.args[1].kind, ARG_INT);
        CU_ASSERT_EQUAL(request.args[1].integer, integers[i]);
    }
}

static void
a_newer_client_is_understood_as_far_as_we_know(void)
{
    struct draft draft = draft_of("incrby");
    struct request request;
    char text[FRAME_TEXT_MAX];

    /* version 9: the block has 3 more bytes, two more variable-length data follow */
    memmove(draft.bytes + 31, draft.bytes + 28, draft.count - 28);
    memcpy(draft.bytes + 28, "\xee\xee\xee", 3);
    memcpy(draft.bytes + draft.count + 3, "\x02\0\0\0no\0\0\0\0", 10);
    draft.count += 13;
    draft_put16(&draft, BLOCK_LENGTH_AT, 19);
    draft_put16(&draft, VERSION_AT, 9);
    CU_ASSERT_EQUAL_FATAL(decode(draft_framed(&draft), &request), CODEC_OK);
    request_text(&request, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, frame_named("incrby")->text);

    /* its unknown data must still be whole */
    for (size_t cut = 1; cut < 10; cut++) {
        struct draft part = draft;
        part.count -= cut;
        CU_ASSERT_EQUAL(decode(draft_framed(&part), &request), cut == 4 ? CODEC_OK : CODEC_REJECTED);
    }
    /* and of them there is a limit: so many new ones would not fit our own tables either */
    for (int count = 2; count <= 9; count++) {
        struct draft many = draft;
        memset(many.bytes + many.count, 0, 7 * 4);
        many.count += 4 * (size_t)(count - 2);
        CU_ASSERT_EQUAL(decode(draft_framed(&many), &request), count <= SBE_PARTS_MAX ? CODEC_OK : CODEC_REJECTED);
    }
    /* and the block may not be shorter than ours */
    draft_put16(&draft, BLOCK_LENGTH_AT, 15);
    CU_ASSERT_EQUAL(decode(draft_framed(&draft), &request), CODEC_REJECTED);
}

static void
a_newer_client_is_refused_what_we_do_not_know(void)
{
    struct draft draft = draft_of("set");
    struct request request;
    draft_put16(&draft, VERSION_AT, 1);
    CU_ASSERT_EQUAL(decode(draft_framed(&draft), &request), CODEC_OK);
    draft.bytes[ROOT_AT + 17] = 0x80;
    CU_ASSERT_EQUAL(decode(draft_framed(&draft), &request), CODEC_REJECTED);
}

static void
every_template_of_the_command_table_is_in_the_schema(void)
{
    for (uint32_t i = 0; i < COMMAND_COUNT; i++) {
        uint16_t template_id = command_table[i].sbe_template;
        if (template_id != 0) {
            CU_ASSERT_FATAL(template_id < SBE_TEMPLATE_COUNT && sbe_schema.template_index[template_id] != 0);
            const struct sbe_layout *layout = &sbe_schema.layouts[sbe_schema.template_index[template_id] - 1];
            CU_ASSERT(slice_equal_nocase(slice_text(layout->name), command_table[i].name));
        }
    }
}

int
main(void)
{
    frames_load();
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("sbe", NULL, NULL);
    CU_ADD_TEST(suite, each_wrong_field_is_rejected_by_name_and_answered_with_its_correlation);
    CU_ADD_TEST(suite, an_empty_command_name_is_rejected);
    CU_ADD_TEST(suite, a_frame_length_out_of_bounds_ends_the_stream);
    CU_ADD_TEST(suite, a_message_too_short_for_its_header_or_correlation_is_rejected);
    CU_ADD_TEST(suite, every_cut_asks_for_the_whole_frame);
    CU_ADD_TEST(suite, a_message_that_ends_anywhere_early_is_rejected);
    CU_ADD_TEST(suite, every_changed_byte_is_survived_at_both_edges_of_a_page);
    CU_ADD_TEST(suite, kept_frames_say_what_they_said);
    CU_ADD_TEST(suite, replies_are_not_requests);
    CU_ADD_TEST(suite, frames_follow_one_another);
    CU_ADD_TEST(suite, requests_of_a_burst_share_the_room);
    CU_ADD_TEST(suite, native_numbers_arrive_unchanged);
    CU_ADD_TEST(suite, a_newer_client_is_understood_as_far_as_we_know);
    CU_ADD_TEST(suite, a_newer_client_is_refused_what_we_do_not_know);
    CU_ADD_TEST(suite, every_template_of_the_command_table_is_in_the_schema);
    CU_basic_set_mode(CU_BRM_NORMAL);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
