/* resp.c - decoding RESP requests: multibulk and inline. */
#include "codec/resp.h"
#include "codec/number.h"
#include "codec/resp_inline.h"

/* A bulk takes at least "$0\r\n\r\n": what is still to come is at least so much, and a request that cannot fit its
 * limit is refused before it is awaited. */
#define BULK_BYTES_MIN 6

#define TOO_BIG_REQUEST "ERR Protocol error: too big request"
#define BAD_COUNT       "ERR Protocol error: invalid multibulk length"
#define BAD_BULK        "ERR Protocol error: invalid bulk length"

/* "expected '$', got 'x'" for every byte, because an error is static text; what would not print is a '?'. */
#define GOT_HEAD "ERR Protocol error: expected '$', got '"
struct got {
    char head[sizeof(GOT_HEAD) - 1];
    char tail[3];
};
#define GOT(c)                                                                                                         \
    {                                                                                                                  \
        GOT_HEAD,                                                                                                      \
        {                                                                                                              \
            (c) >= ' ' && (c) < 0x7f ? (c) : '?', '\'', '\0'                                                           \
        }                                                                                                              \
    }
#define GOT4(c)  GOT(c), GOT((c) + 1), GOT((c) + 2), GOT((c) + 3)
#define GOT16(c) GOT4(c), GOT4((c) + 4), GOT4((c) + 8), GOT4((c) + 12)
#define GOT64(c) GOT16(c), GOT16((c) + 16), GOT16((c) + 32), GOT16((c) + 48)
static const struct got expected_bulk[256] = { GOT64(0), GOT64(64), GOT64(128), GOT64(192) };
static_assert(sizeof(struct got) == sizeof(GOT_HEAD "x'"), "head and tail are one text");

/* CR LF as a word. */
#define LINE_END 0x0a0d
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "LINE_END is little-endian");

/* What one call works on. */
struct decoder {
    struct resp_state *state;
    struct resp_span *spans;
    uint8_t *wire;
    size_t wire_bytes;
    const struct decode_limits *limits;
    struct request *request;
    struct arg *args;
    uint32_t done; /* bulks complete when the call began: their places are in `spans` */
};

static inline bool
line_ends(const uint8_t *at)
{
    uint16_t word;
    memcpy(&word, at, sizeof(word));
    return word == LINE_END;
}

/* The common form of a length line after its first byte: up to 8 digits, no sign, no leading zero, whole. Returns the
 * byte after its LF, NULL for anything else. */
static inline const uint8_t *
length_read(const uint8_t *at, const uint8_t *end, uint32_t *out)
{
    if (UNLIKELY(end - at < 4)) {
        return NULL;
    }
    uint32_t value = (uint32_t)at[0] - '0';
    if (LIKELY(line_ends(at + 1))) {
        *out = value;
        return value <= 9 ? at + 3 : NULL;
    }
    uint32_t digit = (uint32_t)at[1] - '0';
    if (value - 1 > 8 || digit > 9) {
        return NULL;
    }
    value = value * 10 + digit;
    if (LIKELY(line_ends(at + 2))) {
        *out = value;
        return at + 4;
    }
    const uint8_t *stop = end - at > 10 ? at + 8 : end - 2;
    for (at += 2; at < stop; at++) {
        digit = (uint32_t)*at - '0';
        if (digit > 9) {
            break;
        }
        value = value * 10 + digit;
    }
    *out = value;
    return end - at >= 2 && line_ends(at) ? at + 2 : NULL;
}

/* Whether a length line that ends before `after` is beyond the limit where length_search() stops, so that it makes no
 * difference which of the two read it. */
static inline bool
line_is_beyond(const struct decoder *d, const uint8_t *after)
{
    return (size_t)(after - d->wire) > d->limits->request_bytes_max + 2;
}

/* A length line at `from`, in any form, perhaps not all there; state->scanned keeps the search from starting over. */
static enum codec_status
length_search(struct decoder *d, size_t from, int64_t *out, size_t *next, const char *too_big, const char *bad)
{
    size_t stop = MIN(from + LIMIT_INLINE_BYTES, d->limits->request_bytes_max);
    size_t end = MIN(d->wire_bytes, stop + 1);
    size_t start = MAX((size_t)d->state->scanned, from + 1);
    const uint8_t *cr = start < end ? memchr(d->wire + start, '\r', end - start) : NULL;

    if (cr == NULL) {
        if (end > stop) {
            return resp_malformed(d->request, stop == from + LIMIT_INLINE_BYTES ? too_big : TOO_BIG_REQUEST);
        }
        d->state->scanned = (uint32_t)end;
        return CODEC_SHORT;
    }
    size_t at = (size_t)(cr - d->wire);
    if (at + 1 == d->wire_bytes) {
        d->state->scanned = (uint32_t)at;
        return CODEC_SHORT;
    }
    if (cr[1] != '\n' || !number_parse_int64(slice_of(d->wire + from + 1, at - from - 1), out)) {
        return resp_malformed(d->request, bad);
    }
    *next = at + 2;
    return CODEC_OK;
}

/* The line "*count". *expected is 0 for an empty request. */
static inline enum codec_status
count_take(struct decoder *d, uint32_t *expected, const uint8_t **next)
{
    const uint8_t *end = d->wire + d->wire_bytes;
    uint32_t count = 0;
    const uint8_t *after = d->state->scanned == 0 ? length_read(d->wire + 1, end, &count) : NULL;

    if (UNLIKELY(after == NULL)) {
        int64_t value;
        size_t offset;
        enum codec_status status =
            length_search(d, 0, &value, &offset, "ERR Protocol error: too big mbulk count string", BAD_COUNT);
        if (status != CODEC_OK) {
            return status;
        }
        after = d->wire + offset;
        count = value <= 0 ? 0 : (uint32_t)MIN(value, UINT32_MAX);
    }
    if (UNLIKELY(line_is_beyond(d, after))) {
        return resp_malformed(d->request, TOO_BIG_REQUEST);
    }
    if (UNLIKELY(count > (uint64_t)d->limits->args_max + 1 || count > LIMIT_REQUEST_ARGS + 1)) {
        return resp_malformed(d->request, count > LIMIT_REQUEST_ARGS + 1 ? BAD_COUNT : RESP_UNAUTH_COUNT);
    }
    if (UNLIKELY((size_t)(after - d->wire) + count * BULK_BYTES_MIN > d->limits->request_bytes_max)) {
        return resp_malformed(d->request, TOO_BIG_REQUEST);
    }
    *expected = count;
    *next = after;
    return CODEC_OK;
}

/* The line "$length"; `left` bulks are to come, this one included. */
static inline enum codec_status
bulk_length_take(struct decoder *d, const uint8_t **at, uint32_t left, uint32_t *out)
{
    const uint8_t *line = *at, *end = d->wire + d->wire_bytes;
    size_t from = (size_t)(line - d->wire);
    uint32_t length = 0;

    if (UNLIKELY(line == end)) {
        return CODEC_SHORT;
    }
    if (UNLIKELY(*line != '$')) {
        return resp_malformed(d->request, (const char *)&expected_bulk[*line]);
    }
    const uint8_t *after = d->state->scanned <= from ? length_read(line + 1, end, &length) : NULL;
    if (UNLIKELY(after == NULL)) {
        int64_t value;
        size_t offset;
        enum codec_status status =
            length_search(d, from, &value, &offset, "ERR Protocol error: too big bulk count string", BAD_BULK);
        if (status != CODEC_OK) {
            return status;
        }
        if (value < 0) {
            return resp_malformed(d->request, BAD_BULK);
        }
        after = d->wire + offset;
        length = (uint32_t)MIN(value, UINT32_MAX);
    }
    if (UNLIKELY(line_is_beyond(d, after))) {
        return resp_malformed(d->request, TOO_BIG_REQUEST);
    }
    if (UNLIKELY(length > d->limits->arg_bytes_max || length > LIMIT_VALUE_BYTES)) {
        return resp_malformed(d->request, length > LIMIT_VALUE_BYTES ? BAD_BULK : RESP_UNAUTH_BULK);
    }
    size_t least = (size_t)(after - d->wire) + length + 2 + (size_t)(left - 1) * BULK_BYTES_MIN;
    if (UNLIKELY(least > d->limits->request_bytes_max)) {
        return resp_malformed(d->request, TOO_BIG_REQUEST);
    }
    *at = after;
    *out = length;
    return CODEC_OK;
}

/* Keep what is known about an incomplete multibulk. `at` is the start of the line or of the bulk that is not all there.
 */
static enum codec_status
multibulk_save(struct decoder *d, const uint8_t *at, uint32_t expected, uint32_t done, int64_t bulk_bytes)
{
    struct resp_state *state = d->state;

    for (uint32_t i = d->done; i < done; i++) {
        struct slice bulk = i == 0 ? d->request->name : d->args[i - 1].bytes;
        d->spans[i] = (struct resp_span){ (uint32_t)(bulk.data - d->wire), (uint32_t)bulk.bytes };
    }
    state->expected = expected;
    state->done = done;
    state->position = (uint32_t)(at - d->wire);
    state->scanned = MAX(state->scanned, state->position);
    state->bulk_bytes = bulk_bytes;
    if (bulk_bytes >= 0) {
        state->wanted = state->position + (size_t)bulk_bytes + 2 + (size_t)(expected - done - 1) * BULK_BYTES_MIN;
    } else {
        size_t least = state->position + (size_t)(expected - done) * BULK_BYTES_MIN;
        state->wanted = MAX(least, d->wire_bytes + 1);
    }
    return CODEC_SHORT;
}

static void
multibulk_restore(struct decoder *d)
{
    for (uint32_t i = 0; i < d->done; i++) {
        struct slice bulk = slice_of(d->wire + d->spans[i].offset, d->spans[i].bytes);
        if (i == 0) {
            d->request->name = bulk;
        } else {
            d->args[i - 1] = (struct arg){ .bytes = bulk, .kind = ARG_BYTES };
        }
    }
}

/* Any multibulk, going on at `at` with `done` of `expected` bulks taken; expected is 0 when its header is next. */
static enum codec_status
multibulk_decode(struct decoder *d, const uint8_t *at, uint32_t expected, uint32_t done)
{
    const uint8_t *end = d->wire + d->wire_bytes;
    int64_t pending = d->state->expected > 0 ? d->state->bulk_bytes : -1;

    if (expected == 0) {
        enum codec_status status = count_take(d, &expected, &at);
        if (status != CODEC_OK) {
            d->state->wanted = MAX(d->wire_bytes + 1, sizeof("*0\r\n") - 1);
            return status;
        }
        d->request->name = slice_of(NULL, 0); /* stays for an empty request */
    }
    for (; done < expected; done++) {
        uint32_t length = (uint32_t)pending;
        if (pending < 0) {
            enum codec_status status = bulk_length_take(d, &at, expected - done, &length);
            if (UNLIKELY(status != CODEC_OK)) {
                return status == CODEC_SHORT ? multibulk_save(d, at, expected, done, -1) : status;
            }
        }
        if ((size_t)(end - at) < (size_t)length + 2) {
            return multibulk_save(d, at, expected, done, length);
        }
        if (UNLIKELY(!line_ends(at + length))) {
            return resp_malformed(d->request, BAD_BULK);
        }
        if (done == 0) {
            d->request->name = slice_of(at, length);
        } else {
            d->args[done - 1].bytes = slice_of(at, length);
            d->args[done - 1].kind = ARG_BYTES;
        }
        at += length + 2;
        pending = -1;
    }
    multibulk_restore(d);
    d->request->args_count = expected > 0 ? expected - 1 : 0;
    d->request->wire_bytes = (size_t)(at - d->wire);
    return CODEC_OK;
}

enum codec_status
resp_decode(struct resp_state *state, struct resp_span *spans, uint8_t *wire, size_t wire_bytes,
            const struct decode_limits *limits, struct arg_room *room, struct request *request)
{
    struct arg *args = room->args + room->used;
    struct decoder d = { state, spans, wire, wire_bytes, limits, request, args, state->done };
    enum codec_status status;

    assert(limits->request_bytes_max < UINT32_MAX && room->count - room->used >= LIMIT_REQUEST_ARGS);
    if (wire_bytes == 0) {
        state->wanted = 1;
        return CODEC_SHORT;
    }
    if (*wire == '*') {
        status = multibulk_decode(&d, wire + state->position, state->expected, state->done);
    } else {
        status = resp_inline_decode(state, wire, wire_bytes, limits, args, request);
    }
    if (status != CODEC_OK) {
        return status;
    }
    *state = (struct resp_state){ 0 };
    request->command = command_find(request->name);
    request->args = args;
    request->correlation = 0;
    request->error = NULL;
    room->used += request->args_count;
    return CODEC_OK;
}
