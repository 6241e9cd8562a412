/* reply_resp.c - replies as RESP2 and RESP3. A failed sink drops what is written; the caller rewinds it. */
#include "codec/number.h"
#include "codec/reply.h"

#define HEADER_BYTES       (1 + NUMBER_INT_BYTES + 2) /* kind, number, CR LF */
#define WHOLE_BYTES        (SINK_CONTIGUOUS_BYTES - HEADER_BYTES - 2)
#define SHORT_BYTES        99 /* two digits */
#define SHORT_HEADER_BYTES (sizeof("$99\r\n") - 1)

static inline uint8_t *
line_end_put(uint8_t *at)
{
    memcpy(at, "\r\n", 2);
    return at + 2;
}

/* Kind, number up to SHORT_BYTES, CR LF. `at` has room for SHORT_HEADER_BYTES. */
static inline uint8_t *
short_header_put(uint8_t *at, char kind, uint32_t count)
{
    *at++ = (uint8_t)kind;
    if (count >= 10) {
        *at++ = (uint8_t)('0' + count / 10);
        count %= 10;
    }
    *at++ = (uint8_t)('0' + count);
    return line_end_put(at);
}

/* Kind, number, CR LF. `at` has room for HEADER_BYTES. */
static inline uint8_t *
header_put(uint8_t *at, char kind, uint64_t count)
{
    if (LIKELY(count <= SHORT_BYTES)) {
        return short_header_put(at, kind, (uint32_t)count);
    }
    *at++ = (uint8_t)kind;
    at += number_print_uint64((char *)at, count);
    return line_end_put(at);
}

static void
header_write(struct reply *reply, char kind, uint64_t count)
{
    uint8_t *at = sink_reserve(reply->sink, HEADER_BYTES);
    if (LIKELY(at != NULL)) {
        sink_advance(reply->sink, (size_t)(header_put(at, kind, count) - at));
    }
}

static inline void
literal_write(struct reply *reply, struct slice text)
{
    uint8_t *at = sink_reserve(reply->sink, text.bytes);
    if (LIKELY(at != NULL)) {
        memcpy(at, text.data, text.bytes);
        sink_advance(reply->sink, text.bytes);
    }
}

/* Text may not break the line, whoever wrote it: CR and LF become spaces. */
static inline uint8_t *
line_put(uint8_t *at, const uint8_t *from, size_t bytes)
{
    for (const uint8_t *stop = from + bytes; from < stop; from++) {
        *at++ = *from == '\r' || *from == '\n' ? ' ' : *from;
    }
    return at;
}

/* Kind, text, CR LF, in pieces. */
static void
line_write_long(struct reply *reply, char kind, struct slice text)
{
    literal_write(reply, slice_of(&kind, 1));
    while (text.bytes > 0) {
        size_t piece = MIN(text.bytes, WHOLE_BYTES);
        uint8_t *at = sink_reserve(reply->sink, piece);
        if (UNLIKELY(at == NULL)) {
            return;
        }
        line_put(at, text.data, piece);
        sink_advance(reply->sink, piece);
        text = slice_of(text.data + piece, text.bytes - piece);
    }
    literal_write(reply, SLICE_LITERAL("\r\n"));
}

/* Kind, text, CR LF. */
static inline void
line_write(struct reply *reply, char kind, struct slice text)
{
    if (UNLIKELY(text.bytes > WHOLE_BYTES)) {
        line_write_long(reply, kind, text);
        return;
    }
    uint8_t *start = sink_reserve(reply->sink, 1 + text.bytes + 2);
    if (LIKELY(start != NULL)) {
        *start = (uint8_t)kind;
        sink_advance(reply->sink, (size_t)(line_end_put(line_put(start + 1, text.data, text.bytes)) - start));
    }
}

static void
resp_ok(struct reply *reply)
{
    literal_write(reply, SLICE_LITERAL("+OK\r\n"));
}

static void
resp_status(struct reply *reply, struct slice text)
{
    line_write(reply, '+', text);
}

static void
resp_error(struct reply *reply, struct slice text)
{
    line_write(reply, '-', text);
}

static void
resp_integer(struct reply *reply, int64_t value)
{
    uint8_t *start = sink_reserve(reply->sink, HEADER_BYTES), *at = start;
    if (LIKELY(start != NULL)) {
        *at++ = ':';
        at += number_print_int64((char *)at, value);
        sink_advance(reply->sink, (size_t)(line_end_put(at) - start));
    }
}

static __attribute__((noinline)) void
resp_bulk_any(struct reply *reply, struct slice bytes)
{
    if (bytes.bytes <= WHOLE_BYTES) {
        uint8_t *start = sink_reserve(reply->sink, HEADER_BYTES + bytes.bytes + 2);
        if (LIKELY(start != NULL)) {
            uint8_t *at = header_put(start, '$', bytes.bytes);
            bytes_copy(at, bytes.data, bytes.bytes);
            sink_advance(reply->sink, (size_t)(line_end_put(at + bytes.bytes) - start));
        }
        return;
    }
    header_write(reply, '$', bytes.bytes);
    sink_write(reply->sink, bytes);
    literal_write(reply, SLICE_LITERAL("\r\n"));
}

/* Short ones without a call, so that no register is saved: 44 instructions for 32 bytes, 72 otherwise. */
static void
resp_bulk(struct reply *reply, struct slice bytes)
{
    struct sink *sink = reply->sink;
    uint8_t *start = sink->at;

    if (UNLIKELY(bytes.bytes > SHORT_BYTES || (size_t)(sink->end - start) < SHORT_HEADER_BYTES + bytes.bytes + 2)) {
        resp_bulk_any(reply, bytes);
        return;
    }
    uint8_t *at = short_header_put(start, '$', (uint32_t)bytes.bytes);
    bytes_copy_short(at, bytes.data, bytes.bytes);
    sink->at = line_end_put(at + bytes.bytes);
}

static void
resp_array(struct reply *reply, uint32_t count)
{
    header_write(reply, '*', count);
}

static void
resp2_nil(struct reply *reply)
{
    literal_write(reply, SLICE_LITERAL("$-1\r\n"));
}

static void
resp2_nil_array(struct reply *reply)
{
    literal_write(reply, SLICE_LITERAL("*-1\r\n"));
}

static void
resp2_real(struct reply *reply, double value)
{
    char text[NUMBER_DOUBLE_BYTES];
    resp_bulk(reply, slice_of(text, number_print_double(text, value)));
}

static void
resp2_boolean(struct reply *reply, bool value)
{
    resp_integer(reply, value);
}

static void
resp2_map(struct reply *reply, uint32_t pairs)
{
    header_write(reply, '*', 2 * (uint64_t)pairs);
}

static void
resp3_nil(struct reply *reply)
{
    literal_write(reply, SLICE_LITERAL("_\r\n"));
}

static void
resp3_real(struct reply *reply, double value)
{
    uint8_t *start = sink_reserve(reply->sink, 1 + NUMBER_DOUBLE_BYTES + 2), *at = start;
    if (LIKELY(start != NULL)) {
        *at++ = ',';
        at += number_print_double((char *)at, value);
        sink_advance(reply->sink, (size_t)(line_end_put(at) - start));
    }
}

static void
resp3_boolean(struct reply *reply, bool value)
{
    literal_write(reply, value ? SLICE_LITERAL("#t\r\n") : SLICE_LITERAL("#f\r\n"));
}

static void
resp3_verbatim(struct reply *reply, struct slice text)
{
    header_write(reply, '=', 4 + (uint64_t)text.bytes);
    literal_write(reply, SLICE_LITERAL("txt:"));
    sink_write(reply->sink, text);
    literal_write(reply, SLICE_LITERAL("\r\n"));
}

static void
resp3_map(struct reply *reply, uint32_t pairs)
{
    header_write(reply, '%', pairs);
}

static void
resp3_set(struct reply *reply, uint32_t count)
{
    header_write(reply, '~', count);
}

static void
resp3_push(struct reply *reply, uint32_t count)
{
    header_write(reply, '>', count);
}

const struct reply_ops reply_resp2 = {
    .nil = resp2_nil,
    .nil_array = resp2_nil_array,
    .ok = resp_ok,
    .status = resp_status,
    .error = resp_error,
    .integer = resp_integer,
    .real = resp2_real,
    .boolean = resp2_boolean,
    .bulk = resp_bulk,
    .verbatim = resp_bulk,
    .array = resp_array,
    .map = resp2_map,
    .set = resp_array,
    .push = resp_array,
};

const struct reply_ops reply_resp3 = {
    .nil = resp3_nil,
    .nil_array = resp3_nil,
    .ok = resp_ok,
    .status = resp_status,
    .error = resp_error,
    .integer = resp_integer,
    .real = resp3_real,
    .boolean = resp3_boolean,
    .bulk = resp_bulk,
    .verbatim = resp3_verbatim,
    .array = resp_array,
    .map = resp3_map,
    .set = resp3_set,
    .push = resp3_push,
};
