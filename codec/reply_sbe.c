/* reply_sbe.c - replies on the SBE wire.
 *
 * Every value at top level is a frame of its own: a scalar one of the small templates, written at once; an aggregate a
 * tree in ValuesReply, or in Push when its root is a push that nobody asked for. While a tree is open, `patch` is its
 * frame and `values` counts what is still to come. The frame's group counts in place, and its length word holds the
 * low half of its own stream offset until the last value turns it into the length. */
#include "codec/reply.h"
#include "codec/sbe.h"
#include "codec/sbe_wire.h"
#include "codec/sluice_sbe.h"

/* Values are copied behind their heads in one piece up to this size. */
#define SMALL_BYTES 128

/* Where a tree's frame keeps numInGroup. */
#define COUNT_AT (SBE_FRAME_HEADER_BYTES + SBE_VALUES_REPLY_HEAD_BYTES + sizeof(uint16_t))

#define TREE_HEAD_BYTES (SBE_FRAME_HEADER_BYTES + SBE_VALUES_REPLY_HEAD_BYTES + SBE_VALUES_REPLY_VALUES_SIZE_BYTES)

/* Push and ValuesReply differ in their template number only. */
static_assert((int)SBE_PUSH_HEAD_BYTES == (int)SBE_VALUES_REPLY_HEAD_BYTES, "one writer serves both");
static_assert((int)SBE_PUSH_VALUES_BLOCK_BYTES == (int)SBE_VALUES_REPLY_VALUES_BLOCK_BYTES, "one writer serves both");
static_assert((int)SBE_PUSH_VALUES_SIZE_BYTES == (int)SBE_VALUES_REPLY_VALUES_SIZE_BYTES, "one writer serves both");
static_assert(SBE_FRAME_HEADER_BYTES + SBE_ERROR_REPLY_HEAD_BYTES + SBE_LENGTH_BYTES + SMALL_BYTES <=
                  SINK_CONTIGUOUS_BYTES,
              "a small value and any head are one reservation");
static_assert(SBE_VALUES_REPLY_VALUES_BLOCK_BYTES + SBE_LENGTH_BYTES + SMALL_BYTES <= SINK_CONTIGUOUS_BYTES,
              "likewise in a tree");

struct code_word {
    const char *word;
    uint8_t bytes, code;
};
#define CODE_WORD(name)                                                                                                \
    {                                                                                                                  \
#name, sizeof(#name) - 1, SBE_ERROR_CODE_##name                                                                \
    }

static const struct code_word error_words[] = {
    CODE_WORD(ERR),    CODE_WORD(WRONGTYPE), CODE_WORD(NOAUTH),       CODE_WORD(WRONGPASS),
    CODE_WORD(NOPERM), CODE_WORD(OOM),       CODE_WORD(NOPROTO),      CODE_WORD(EXECABORT),
    CODE_WORD(BUSY),   CODE_WORD(NOSCRIPT),  CODE_WORD(SESSION_LOST),
};

static uint8_t
error_code(struct slice text)
{
    const uint8_t *space = text.bytes > 0 ? memchr(text.data, ' ', text.bytes) : NULL;
    size_t word_bytes = space != NULL ? (size_t)(space - text.data) : text.bytes;

    for (size_t i = 0; i < ARRAY_COUNT(error_words); i++) {
        if (word_bytes == error_words[i].bytes && memcmp(text.data, error_words[i].word, word_bytes) == 0) {
            return error_words[i].code;
        }
    }
    return SBE_ERROR_CODE_OTHER;
}

static uint8_t
status_code(struct slice text)
{
    return slice_equal(text, SLICE_LITERAL("OK"))       ? SBE_STATUS_CODE_OK
           : slice_equal(text, SLICE_LITERAL("PONG"))   ? SBE_STATUS_CODE_PONG
           : slice_equal(text, SLICE_LITERAL("QUEUED")) ? SBE_STATUS_CODE_QUEUED
                                                        : SBE_STATUS_CODE_OTHER;
}

/* Room for a head of `head_bytes` followed by `data`; *copied says whether data is to be copied with it. */
static inline uint8_t *
reserve(struct sink *sink, size_t head_bytes, struct slice data)
{
    return sink_reserve(sink, data.bytes <= SMALL_BYTES ? head_bytes + data.bytes : head_bytes);
}

/* Write `data` after the head that ends at `at`, in as many chunks as it takes. */
static inline void
finish_data(struct sink *sink, uint8_t *at, const uint8_t *reserved, struct slice data)
{
    if (LIKELY(data.bytes <= SMALL_BYTES)) {
        at = sbe_put_data(at, data);
        sink_advance(sink, (size_t)(at - reserved));
        return;
    }
    sbe_store_uint32(at, (uint32_t)data.bytes);
    sink_advance(sink, (size_t)(at - reserved) + SBE_LENGTH_BYTES);
    sink_write(sink, data);
}

/* The tree's last value is written. */
static void
close_tree(struct reply *reply)
{
    uint32_t began_at = sbe_load_uint32(reply->patch);
    sbe_store_uint32(reply->patch, (uint32_t)sink_offset(reply->sink) - began_at - SBE_FRAME_HEADER_BYTES);
    reply->patch = NULL;
    reply->values = 0;
}

/* One entry of the open tree. `children`: values that it announces. */
static void
put_value(struct reply *reply, enum sbe_value_kind kind, struct slice bytes, uint32_t children)
{
    uint8_t *reserved = reserve(reply->sink, SBE_VALUES_REPLY_VALUES_BLOCK_BYTES + SBE_LENGTH_BYTES, bytes);
    if (UNLIKELY(reserved == NULL)) {
        return;
    }
    finish_data(reply->sink, sbe_values_reply_values_entry_put(reserved, (uint8_t)kind), reserved, bytes);
    sbe_store_uint32(reply->patch + COUNT_AT, sbe_load_uint32(reply->patch + COUNT_AT) + 1);
    reply->values += children - 1;
    if (reply->values == 0) {
        close_tree(reply);
    }
}

static void
open_tree(struct reply *reply, enum sbe_value_kind kind)
{
    uint8_t *frame = sink_reserve(reply->sink, TREE_HEAD_BYTES);
    if (UNLIKELY(frame == NULL)) {
        return;
    }
    uint32_t began_at = (uint32_t)sink_offset(reply->sink);
    uint8_t *at = frame + SBE_FRAME_HEADER_BYTES;
    if (kind == SBE_VALUE_KIND_PUSH && reply->correlation == 0) {
        at = sbe_push_values_put(sbe_push_put(at, 0), 0);
    } else {
        at = sbe_values_reply_values_put(sbe_values_reply_put(at, reply->correlation), 0);
    }
    sbe_store_uint32(frame, began_at);
    sink_advance(reply->sink, (size_t)(at - frame));
    reply->patch = frame;
    reply->values = 1;
}

static void
put_aggregate(struct reply *reply, enum sbe_value_kind kind, uint32_t announced, uint32_t children)
{
    if (reply->patch == NULL) {
        open_tree(reply, kind);
    }
    if (LIKELY(reply->patch != NULL)) {
        put_value(reply, kind, slice_of(&announced, sizeof(announced)), children);
    }
}

/* A frame of fixed size: `bytes` of message. NULL: failed. */
static inline uint8_t *
take_frame(struct sink *sink, uint32_t bytes)
{
    uint8_t *frame = sink_reserve(sink, SBE_FRAME_HEADER_BYTES + (size_t)bytes);
    if (UNLIKELY(frame == NULL)) {
        return NULL;
    }
    sbe_store_uint32(frame, bytes);
    sink_advance(sink, SBE_FRAME_HEADER_BYTES + (size_t)bytes);
    return frame + SBE_FRAME_HEADER_BYTES;
}

/* A frame of a head and data. Returns where the head goes; finish_data() writes the rest. */
static inline uint8_t *
take_data_frame(struct sink *sink, uint32_t head_bytes, struct slice data)
{
    uint8_t *frame = reserve(sink, SBE_FRAME_HEADER_BYTES + head_bytes + SBE_LENGTH_BYTES, data);
    if (UNLIKELY(frame == NULL)) {
        return NULL;
    }
    sbe_store_uint32(frame, (uint32_t)(head_bytes + SBE_LENGTH_BYTES + data.bytes));
    return frame + SBE_FRAME_HEADER_BYTES;
}

static void
sbe_end(struct reply *reply)
{
    assert(reply->sink->failed); /* else a tree announced more than it got */
    close_tree(reply);
}

static void
sbe_nil(struct reply *reply)
{
    if (UNLIKELY(reply->patch != NULL)) {
        put_value(reply, SBE_VALUE_KIND_NIL, (struct slice){ NULL, 0 }, 0);
        return;
    }
    uint8_t *at = take_frame(reply->sink, SBE_NIL_REPLY_HEAD_BYTES);
    if (LIKELY(at != NULL)) {
        sbe_nil_reply_put(at, reply->correlation);
    }
}

static void
sbe_status(struct reply *reply, struct slice text)
{
    if (UNLIKELY(reply->patch != NULL)) {
        put_value(reply, SBE_VALUE_KIND_STATUS, text, 0);
        return;
    }
    uint8_t code = status_code(text);
    if (code != SBE_STATUS_CODE_OTHER) {
        text.bytes = 0;
    }
    uint8_t *at = take_data_frame(reply->sink, SBE_STATUS_REPLY_HEAD_BYTES, text);
    if (LIKELY(at != NULL)) {
        finish_data(reply->sink, sbe_status_reply_put(at, reply->correlation, code), at - SBE_FRAME_HEADER_BYTES, text);
    }
}

static void
sbe_ok(struct reply *reply)
{
    sbe_status(reply, SLICE_LITERAL("OK"));
}

static void
sbe_error(struct reply *reply, struct slice text)
{
    if (UNLIKELY(reply->patch != NULL)) {
        put_value(reply, SBE_VALUE_KIND_ERROR, text, 0);
        return;
    }
    uint8_t code = error_code(text);
    uint8_t *at = take_data_frame(reply->sink, SBE_ERROR_REPLY_HEAD_BYTES, text);
    if (LIKELY(at != NULL)) {
        finish_data(reply->sink, sbe_error_reply_put(at, reply->correlation, code), at - SBE_FRAME_HEADER_BYTES, text);
    }
}

static void
sbe_integer(struct reply *reply, int64_t value)
{
    if (UNLIKELY(reply->patch != NULL)) {
        put_value(reply, SBE_VALUE_KIND_INTEGER, slice_of(&value, sizeof(value)), 0);
        return;
    }
    uint8_t *at = take_frame(reply->sink, SBE_INTEGER_REPLY_HEAD_BYTES);
    if (LIKELY(at != NULL)) {
        sbe_integer_reply_put(at, reply->correlation, value);
    }
}

static void
sbe_real(struct reply *reply, double value)
{
    if (UNLIKELY(reply->patch != NULL)) {
        put_value(reply, SBE_VALUE_KIND_DOUBLE, slice_of(&value, sizeof(value)), 0);
        return;
    }
    uint8_t *at = take_frame(reply->sink, SBE_DOUBLE_REPLY_HEAD_BYTES);
    if (LIKELY(at != NULL)) {
        sbe_double_reply_put(at, reply->correlation, value);
    }
}

static void
sbe_boolean(struct reply *reply, bool value)
{
    if (UNLIKELY(reply->patch != NULL)) {
        uint8_t byte = value;
        put_value(reply, SBE_VALUE_KIND_BOOLEAN, slice_of(&byte, sizeof(byte)), 0);
        return;
    }
    uint8_t *at = take_frame(reply->sink, SBE_BOOLEAN_REPLY_HEAD_BYTES);
    if (LIKELY(at != NULL)) {
        sbe_boolean_reply_put(at, reply->correlation, value);
    }
}

static __attribute__((noinline)) void
bulk_any(struct reply *reply, struct slice bytes)
{
    if (reply->patch != NULL) {
        put_value(reply, SBE_VALUE_KIND_BULK, bytes, 0);
        return;
    }
    uint8_t *at = take_data_frame(reply->sink, SBE_BULK_REPLY_HEAD_BYTES, bytes);
    if (LIKELY(at != NULL)) {
        finish_data(reply->sink, sbe_bulk_reply_put(at, reply->correlation), at - SBE_FRAME_HEADER_BYTES, bytes);
    }
}

#define BULK_HEAD_BYTES (SBE_FRAME_HEADER_BYTES + SBE_BULK_REPLY_HEAD_BYTES + SBE_LENGTH_BYTES)

/* The reply of every GET: the small value for which there is room is written without a call that needs saved registers,
 * 29 instructions and the copy instead of 48 (bench_sbe). */
static void
sbe_bulk(struct reply *reply, struct slice bytes)
{
    struct sink *sink = reply->sink;
    uint8_t *frame = sink->at;

    if (UNLIKELY(reply->patch != NULL || bytes.bytes > SMALL_BYTES ||
                 (size_t)(sink->end - frame) < BULK_HEAD_BYTES + bytes.bytes)) {
        bulk_any(reply, bytes);
        return;
    }
    sbe_store_uint32(frame, (uint32_t)(BULK_HEAD_BYTES - SBE_FRAME_HEADER_BYTES + bytes.bytes));
    sbe_bulk_reply_put(frame + SBE_FRAME_HEADER_BYTES, reply->correlation);
    sink_advance(sink, BULK_HEAD_BYTES + bytes.bytes);
    sbe_put_data(frame + BULK_HEAD_BYTES - SBE_LENGTH_BYTES, bytes);
}

static void
sbe_array(struct reply *reply, uint32_t count)
{
    put_aggregate(reply, SBE_VALUE_KIND_ARRAY, count, count);
}

static void
sbe_map(struct reply *reply, uint32_t pairs)
{
    put_aggregate(reply, SBE_VALUE_KIND_MAP, pairs, pairs * 2);
}

static void
sbe_set(struct reply *reply, uint32_t count)
{
    put_aggregate(reply, SBE_VALUE_KIND_SET, count, count);
}

static void
sbe_push(struct reply *reply, uint32_t count)
{
    put_aggregate(reply, SBE_VALUE_KIND_PUSH, count, count);
}

const struct reply_ops reply_sbe = {
    .end = sbe_end,
    .nil = sbe_nil,
    .nil_array = sbe_nil,
    .ok = sbe_ok,
    .status = sbe_status,
    .error = sbe_error,
    .integer = sbe_integer,
    .real = sbe_real,
    .boolean = sbe_boolean,
    .bulk = sbe_bulk,
    .verbatim = sbe_bulk, /* the format of a verbatim string is always text */
    .array = sbe_array,
    .map = sbe_map,
    .set = sbe_set,
    .push = sbe_push,
};
