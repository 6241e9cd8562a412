/* test_sbe_client.c - the client's side of the SBE wire: requests from words, replies of any server. */
#include "test/codec/test_sbe_frames.h"
#include <CUnit/Basic.h>

#define CORRELATION UINT64_C(0x0807060504030201)

/* Encode with exactly the words and the room there are. The caller frees. */
static uint8_t *
encoded(const struct slice *given, uint32_t count, size_t *bytes)
{
    struct slice *words = malloc(count * sizeof(*words));
    CHECK(words != NULL);
    memcpy(words, given, count * sizeof(*words));
    size_t room = sbe_request_room(words, count);
    uint8_t *wire = malloc(room);
    CHECK(room > 0 && wire != NULL);
    *bytes = (size_t)(sbe_request_write(wire, CORRELATION, words, count) - wire);
    CU_ASSERT(*bytes <= room);
    free(words);
    return wire;
}

static void
what_cannot_be_sent_needs_no_room(void)
{
    static struct slice words[SBE_REQUEST_ARGS_MAX + 2];
    static const uint8_t byte;
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        words[i] = slice_of(&byte, 1);
    }
    CU_ASSERT_EQUAL(sbe_request_room(words, 0), 0);
    CU_ASSERT_NOT_EQUAL(sbe_request_room(words, SBE_REQUEST_ARGS_MAX), 0);
    CU_ASSERT_NOT_EQUAL(sbe_request_room(words, SBE_REQUEST_ARGS_MAX + 1), 0);
    CU_ASSERT_EQUAL(sbe_request_room(words, SBE_REQUEST_ARGS_MAX + 2), 0);
    words[1].bytes = (size_t)UINT32_MAX + 1;
    CU_ASSERT_EQUAL(sbe_request_room(words, 2), 0);
    words[1].bytes = SIZE_MAX - 80; /* the sum begins again at 0 */
    CU_ASSERT_EQUAL(sbe_request_room(words, 2), 0);
    words[1].bytes = UINT32_MAX - 100;
    CU_ASSERT_NOT_EQUAL(sbe_request_room(words, 2), 0);
    words[2].bytes = 100;
    CU_ASSERT_EQUAL(sbe_request_room(words, 3), 0);
    words[0].bytes = 0;
    CU_ASSERT_EQUAL(sbe_request_room(words, 1), 0);
}

static void
words_are_written_as_the_kept_frames(void)
{
    for (uint32_t i = 0; i < frames_count; i++) {
        struct slice words[FRAME_ARGS_MAX];
        uint8_t room[FRAME_TEXT_MAX];
        size_t bytes;
        if (frames[i].words[0] == '\0' || frames[i].version != SBE_SCHEMA_VERSION) {
            continue;
        }
        uint8_t *wire = encoded(words, words_split(frames[i].words, words, room), &bytes);
        if (!slice_equal(slice_of(wire, bytes), slice_of(frames[i].bytes, frames[i].bytes_count))) {
            fprintf(stderr, "%s: %s\n", frames[i].name, frames[i].words);
            CU_FAIL("another frame");
        }
        free(wire);
    }
}

/* What the server makes of words: the template they came on and the arguments. */
static const struct {
    const char *words;
    uint16_t template_id;
    const char *text;
} journeys[] = {
    /* what a template cannot say goes on template 1, as it is */
    { "set k v EX 10 PX 10", SBE_COMMAND_TEMPLATE, "SET b:k b:v b:EX b:10 b:PX b:10" },
    { "set k v KEEPTTL PX 10", SBE_COMMAND_TEMPLATE, "SET b:k b:v b:KEEPTTL b:PX b:10" },
    { "set k v PX", SBE_COMMAND_TEMPLATE, "SET b:k b:v b:PX" },
    { "set k v PX ten", SBE_COMMAND_TEMPLATE, "SET b:k b:v b:PX b:ten" },
    { "set k v PX 010", SBE_COMMAND_TEMPLATE, "SET b:k b:v b:PX b:010" },
    { "set k v EX 9223372036854776", SBE_COMMAND_TEMPLATE, "SET b:k b:v b:EX b:9223372036854776" },
    { "set k v BOGUS", SBE_COMMAND_TEMPLATE, "SET b:k b:v b:BOGUS" },
    { "set k", SBE_COMMAND_TEMPLATE, "SET b:k" },
    { "get", SBE_COMMAND_TEMPLATE, "GET" },
    { "get a b", SBE_COMMAND_TEMPLATE, "GET b:a b:b" },
    { "ping \"\"", SBE_COMMAND_TEMPLATE, "PING b:" },
    { "ping a b", SBE_COMMAND_TEMPLATE, "PING b:a b:b" },
    { "del", SBE_COMMAND_TEMPLATE, "DEL" },
    { "subscribe", SBE_COMMAND_TEMPLATE, "SUBSCRIBE" },
    { "hget h", SBE_COMMAND_TEMPLATE, "HGET b:h" },
    { "hset h", SBE_COMMAND_TEMPLATE, "HSET b:h" },
    { "hset h f", SBE_COMMAND_TEMPLATE, "HSET b:h b:f" },
    { "hset h f v g", SBE_COMMAND_TEMPLATE, "HSET b:h b:f b:v b:g" },
    { "zscore z", SBE_COMMAND_TEMPLATE, "ZSCORE b:z" },
    { "publish c", SBE_COMMAND_TEMPLATE, "PUBLISH b:c" },
    { "zadd z", SBE_COMMAND_TEMPLATE, "ZADD b:z" },
    { "zadd z nx CH", SBE_COMMAND_TEMPLATE, "ZADD b:z b:nx b:CH" },
    { "zadd z nan m", SBE_COMMAND_TEMPLATE, "ZADD b:z b:nan b:m" },
    { "zadd z 1 m 1e400 n", SBE_COMMAND_TEMPLATE, "ZADD b:z b:1 b:m b:1e400 b:n" },
    { "zadd z 1 m 2", SBE_COMMAND_TEMPLATE, "ZADD b:z b:1 b:m b:2" },
    { "incrby n 1.5", SBE_COMMAND_TEMPLATE, "INCRBY b:n b:1.5" },
    { "incrby n 9223372036854775808", SBE_COMMAND_TEMPLATE, "INCRBY b:n b:9223372036854775808" },
    { "incrby n", SBE_COMMAND_TEMPLATE, "INCRBY b:n" },
    { "expire k soon", SBE_COMMAND_TEMPLATE, "EXPIRE b:k b:soon" },
    { "expire k 1 BOGUS", SBE_COMMAND_TEMPLATE, "EXPIRE b:k b:1 b:BOGUS" },
    { "expire k", SBE_COMMAND_TEMPLATE, "EXPIRE b:k" },
    /* no template of their own */
    { "mset a b", SBE_COMMAND_TEMPLATE, "?mset b:a b:b" },
    { "pexpire k 1", SBE_COMMAND_TEMPLATE, "PEXPIRE b:k b:1" },
    /* the template says the same in native numbers */
    { "SeT k v eX 9223372036854775", SBE_SET_TEMPLATE, "SET b:k b:v b:PX i:9223372036854775000" },
    { "set k v EXAT -1", SBE_SET_TEMPLATE, "SET b:k b:v b:PXAT i:-1000" },
    { "set k v PX 0", SBE_SET_TEMPLATE, "SET b:k b:v b:PX i:0" },
    { "set \"\" \"\" nx NX", SBE_SET_TEMPLATE, "SET b: b: b:NX" },
    { "zadd z 1 nx", SBE_ZADD_TEMPLATE, "ZADD b:z d:1 b:nx" },
    { "zadd z xx +inf nx", SBE_ZADD_TEMPLATE, "ZADD b:z b:XX d:inf b:nx" },
    { "zadd z -0 m", SBE_ZADD_TEMPLATE, "ZADD b:z d:-0 b:m" },
    { "expire k -1 gt", SBE_EXPIRE_TEMPLATE, "EXPIRE b:k i:-1 b:GT" },
    { "incrby n -0", SBE_COMMAND_TEMPLATE, "INCRBY b:n b:-0" },
};

static void
words_reach_the_server_with_one_meaning(void)
{
    static struct arg args[LIMIT_REQUEST_ARGS];
    for (size_t i = 0; i < ARRAY_COUNT(journeys); i++) {
        struct slice words[FRAME_ARGS_MAX];
        uint8_t room[FRAME_TEXT_MAX];
        char text[FRAME_TEXT_MAX], want[FRAME_TEXT_MAX];
        struct arg_room arg_room = { args, 0, ARRAY_COUNT(args) };
        struct decode_limits limits = limits_full();
        struct request request;
        size_t bytes;
        uint8_t *wire = encoded(words, words_split(journeys[i].words, words, room), &bytes);
        CU_ASSERT_EQUAL_FATAL(sbe_decode(slice_of(wire, bytes), &limits, &arg_room, &request), CODEC_OK);
        request_text(&request, text, sizeof(text));
        snprintf(want, sizeof(want), "%#llx %s", (unsigned long long)CORRELATION, journeys[i].text);
        if (strcmp(text, want) != 0 || sbe_load_uint16(wire + 6) != journeys[i].template_id) {
            fprintf(stderr, "%s: template %u, %s\n", journeys[i].words, sbe_load_uint16(wire + 6), text);
            CU_FAIL("another meaning");
        }
        free(wire);
    }
}

static void
kept_replies_are_read_as_they_were(void)
{
    for (uint32_t i = 0; i < frames_count; i++) {
        char text[FRAME_TEXT_MAX];
        if (!frames[i].is_reply) {
            continue;
        }
        reply_text(slice_of(guard_end(frames[i].bytes, frames[i].bytes_count), frames[i].bytes_count), text,
                   sizeof(text));
        if (strcmp(text, frames[i].text) != 0) {
            fprintf(stderr, "%s\n  want %s\n  got  %s\n", frames[i].name, frames[i].text, text);
            CU_FAIL("another meaning");
        }
    }
}

static void
read_hostile(const uint8_t *wire, size_t bytes)
{
    struct sbe_reply reply;
    struct sbe_value value;
    uint32_t count = 0;
    uint64_t sum = 0;
    if (sbe_reply_open(slice_of(wire, bytes), SIZE_MAX, &reply) != CODEC_OK) {
        return;
    }
    CU_ASSERT(reply.wire_bytes <= bytes);
    for (; sbe_reply_next(&reply, &value); count++) {
        CU_ASSERT(value.count < reply.values_count);
        for (size_t i = 0; i < value.bytes.bytes; i++) {
            sum += value.bytes.data[i];
        }
    }
    CU_ASSERT(sum < UINT64_MAX);
    CU_ASSERT_EQUAL(count, reply.values_count);
}

static void
a_hostile_server_is_survived(void)
{
    for (uint32_t i = 0; i < frames_count; i++) {
        const struct frame *frame = &frames[i];
        for (size_t at = 0; at < frame->bytes_count; at++) {
            for (int value = 0; value < 256; value++) {
                uint8_t *end = guard_end(frame->bytes, frame->bytes_count);
                end[at] = (uint8_t)value;
                read_hostile(end, frame->bytes_count);
            }
            uint8_t *begin = guard_begin(frame->bytes, frame->bytes_count);
            begin[at] ^= 0x80;
            read_hostile(begin, frame->bytes_count);
        }
        for (size_t cut = 0; frame->is_reply && cut < frame->bytes_count; cut++) {
            struct sbe_reply reply;
            uint8_t *wire = guard_end(frame->bytes, cut);
            CU_ASSERT_EQUAL(sbe_reply_open(slice_of(wire, cut), SIZE_MAX, &reply), CODEC_SHORT);
            CU_ASSERT_EQUAL(reply.wire_bytes, cut < 4 ? 0 : frame->bytes_count);
            if (cut >= 12) {
                uint32_t message_bytes = (uint32_t)cut - 4;
                memcpy(wire, &message_bytes, 4);
                CU_ASSERT_EQUAL(sbe_reply_open(slice_of(wire, cut), SIZE_MAX, &reply), CODEC_MALFORMED);
            }
        }
    }
}

static void
a_reply_is_limited_exactly(void)
{
    const struct frame *frame = frame_named("reply_bulk");
    struct slice wire = { frame->bytes, frame->bytes_count };
    struct sbe_reply reply;
    CU_ASSERT_EQUAL(sbe_reply_open(slice_of("\7\0\0\0", 4), SIZE_MAX, &reply), CODEC_MALFORMED);
    CU_ASSERT_EQUAL(sbe_reply_open(slice_of("\x08\0\0\0", 4), SIZE_MAX, &reply), CODEC_SHORT);
    CU_ASSERT_EQUAL(sbe_reply_open(wire, frame->bytes_count - 1, &reply), CODEC_MALFORMED);
    CU_ASSERT_EQUAL(sbe_reply_open(wire, frame->bytes_count, &reply), CODEC_OK);
    CU_ASSERT_EQUAL(sbe_reply_open(wire, frame->bytes_count + 1, &reply), CODEC_OK);
}

/* A ValuesReply by hand: kinds and, where they need it, one number. */
struct entry {
    uint8_t kind;
    uint8_t bytes;
    uint64_t number;
};

static enum codec_status
open_tree(const struct entry *entries, uint32_t count, int version)
{
    uint8_t wire[512], *at = wire + 4;
    struct sbe_reply reply;
    at = sbe_values_reply_values_put(sbe_values_reply_put(at, 1), count);
    for (uint32_t i = 0; i < count; i++) {
        at = sbe_values_reply_values_entry_put(at, entries[i].kind);
        at = sbe_put_data(at, slice_of(&entries[i].number, entries[i].bytes));
    }
    sbe_store_uint32(wire, (uint32_t)(at - wire - 4));
    sbe_store_uint16(wire + 4 + 6, (uint16_t)version);
    size_t bytes = (size_t)(at - wire);
    return sbe_reply_open(slice_of(guard_end(wire, bytes), bytes), SIZE_MAX, &reply);
}

static void
only_whole_trees_are_read(void)
{
    static const struct {
        const char *name;
        struct entry entries[4];
        uint32_t count;
        enum codec_status want;
    } rows[] = {
        { "no value", { { 0, 0, 0 } }, 0, CODEC_MALFORMED },
        { "a nil", { { 0, 0, 0 } }, 1, CODEC_OK },
        { "two roots", { { 0, 0, 0 }, { 0, 0, 0 } }, 2, CODEC_MALFORMED },
        { "an array of 1", { { 7, 4, 1 }, { 0, 0, 0 } }, 2, CODEC_OK },
        { "an array too long", { { 7, 4, 2 }, { 0, 0, 0 } }, 2, CODEC_MALFORMED },
        { "an array too short", { { 7, 4, 1 }, { 0, 0, 0 }, { 0, 0, 0 } }, 3, CODEC_MALFORMED },
        { "an array of 4 Gi", { { 7, 4, UINT32_MAX }, { 0, 0, 0 } }, 2, CODEC_MALFORMED },
        { "a map of 2 Gi pairs", { { 8, 4, 0x80000000 } }, 1, CODEC_MALFORMED },
        { "a map of 1", { { 8, 4, 1 }, { 0, 0, 0 }, { 0, 0, 0 } }, 3, CODEC_OK },
        { "a map without a value", { { 8, 4, 1 }, { 0, 0, 0 } }, 2, CODEC_MALFORMED },
        { "an inner array too long", { { 7, 4, 1 }, { 7, 4, 2 }, { 0, 0, 0 } }, 3, CODEC_MALFORMED },
        { "an inner array", { { 7, 4, 1 }, { 7, 4, 1 }, { 0, 0, 0 } }, 3, CODEC_OK },
        { "a set", { { 9, 4, 1 }, { 0, 0, 0 } }, 2, CODEC_OK },
        { "a value before its array", { { 0, 0, 0 }, { 7, 4, 1 } }, 2, CODEC_MALFORMED },
        { "an unknown kind", { { 11, 0, 0 } }, 1, CODEC_MALFORMED },
        { "kind 255", { { 255, 0, 0 } }, 1, CODEC_MALFORMED },
        { "a nil with bytes", { { 0, 1, 0 } }, 1, CODEC_MALFORMED },
        { "an integer of 7 bytes", { { 3, 7, 0 } }, 1, CODEC_MALFORMED },
        { "an integer of 8 bytes", { { 3, 8, 0 } }, 1, CODEC_OK },
        { "a double of 4 bytes", { { 4, 4, 0 } }, 1, CODEC_MALFORMED },
        { "a double of 8 bytes", { { 4, 8, 0 } }, 1, CODEC_OK },
        { "a boolean of 0 bytes", { { 6, 0, 0 } }, 1, CODEC_MALFORMED },
        { "a boolean of 1 byte", { { 6, 1, 0 } }, 1, CODEC_OK },
        { "a count of 3 bytes", { { 7, 3, 0 } }, 1, CODEC_MALFORMED },
        { "a count of 0 bytes", { { 10, 0, 0 } }, 1, CODEC_MALFORMED },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        for (uint16_t version = 0; version < 2; version++) { /* a newer server's trees, too */
            enum codec_status status = open_tree(rows[i].entries, rows[i].count, SBE_SCHEMA_VERSION + version);
            if (status != rows[i].want) {
                fprintf(stderr, "%s: %d\n", rows[i].name, status);
                CU_FAIL("another verdict");
            }
        }
    }
}

static void
a_newer_server_is_understood_as_far_as_we_know(void)
{
    struct frame frame = *frame_named("reply_error_err");
    struct sbe_reply reply;
    struct sbe_value value;
    uint16_t version = SBE_SCHEMA_VERSION;

    frame.bytes[20] = 200; /* a code that we do not have */
    CU_ASSERT_EQUAL(sbe_reply_open(slice_of(frame.bytes, frame.bytes_count), SIZE_MAX, &reply), CODEC_MALFORMED);
    version++;
    memcpy(frame.bytes + 10, &version, 2);
    CU_ASSERT_EQUAL_FATAL(sbe_reply_open(slice_of(frame.bytes, frame.bytes_count), SIZE_MAX, &reply), CODEC_OK);
    CU_ASSERT_EQUAL(reply.version, version);
    CU_ASSERT(sbe_reply_next(&reply, &value));
    CU_ASSERT(slice_equal(value.bytes, SLICE_LITERAL("ERR what happened")));
}

int
main(void)
{
    frames_load();
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("sbe_client", NULL, NULL);
    CU_ADD_TEST(suite, what_cannot_be_sent_needs_no_room);
    CU_ADD_TEST(suite, a_hostile_server_is_survived);
    CU_ADD_TEST(suite, only_whole_trees_are_read);
    CU_ADD_TEST(suite, a_reply_is_limited_exactly);
    CU_ADD_TEST(suite, kept_replies_are_read_as_they_were);
    CU_ADD_TEST(suite, a_newer_server_is_understood_as_far_as_we_know);
    CU_ADD_TEST(suite, words_are_written_as_the_kept_frames);
    CU_ADD_TEST(suite, words_reach_the_server_with_one_meaning);
    CU_basic_set_mode(CU_BRM_NORMAL);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
