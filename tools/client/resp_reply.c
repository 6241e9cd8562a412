#include "tools/client/resp_reply.h"
#include "codec/number.h"
#include <math.h>

/* Longest line without a payload: errors and statuses quote what a client sent. */
#define LINE_BYTES_MAX (64 * 1024)

/* While a reply is incomplete its bytes may move: values hold offsets, turned into pointers when it is whole. */
static struct slice
slice_at(size_t offset, size_t bytes)
{
    return (struct slice){ (const uint8_t *)(uintptr_t)offset, bytes };
}

static enum resp_reply_status
fail(struct resp_reply_state *state, enum resp_reply_status status, const char *why)
{
    state->why = why;
    return status;
}

static enum resp_reply_status
short_by(struct resp_reply_state *state, size_t wanted)
{
    state->wanted = wanted;
    return RESP_REPLY_SHORT;
}

/* The line at state->position without its type byte and CRLF; *next is the byte after it. */
static enum resp_reply_status
line_read(struct resp_reply_state *state, struct slice wire, struct slice *line, size_t *next)
{
    const uint8_t *end = NULL;
    if (wire.bytes > state->scanned) {
        end = memchr(wire.data + state->scanned, '\n', wire.bytes - state->scanned);
    }
    size_t line_end = end == NULL ? wire.bytes : (size_t)(end - wire.data);
    if (line_end - state->position > LINE_BYTES_MAX) {
        return fail(state, RESP_REPLY_MALFORMED, "a line without end");
    }
    if (end == NULL) {
        state->scanned = wire.bytes;
        return short_by(state, wire.bytes + 1);
    }
    if (line_end < state->position + 2 || wire.data[line_end - 1] != '\r') {
        return fail(state, RESP_REPLY_MALFORMED, "a line that does not end in CR LF");
    }
    *line = slice_of(wire.data + state->position + 1, line_end - state->position - 2);
    *next = line_end + 1;
    return RESP_REPLY_OK;
}

/* Integers may have a plus sign, lengths may not. */
static bool
integer_read(struct slice line, int64_t *out)
{
    if (line.bytes > 1 && line.data[0] == '+') {
        line = slice_of(line.data + 1, line.bytes - 1);
    }
    return number_parse_int64(line, out);
}

static bool
real_read(struct slice line, double *out)
{
    if (slice_equal_nocase(line, "nan") || slice_equal_nocase(line, "-nan")) {
        *out = NAN;
        return true;
    }
    return number_parse_double(line, out);
}

/* $ = ! : a length, then so many bytes and CRLF. Advances state->position past the value when it is all there. */
static enum resp_reply_status
bulk_read(struct resp_reply_state *state, struct slice wire, uint8_t type, struct slice line, size_t next,
          struct value_list *list)
{
    int64_t length;
    if (!number_parse_int64(line, &length) || length < -1 || length > INT32_MAX || (length < 0 && type != '$')) {
        return fail(state, RESP_REPLY_MALFORMED, "a bad bulk length");
    }
    size_t end = length < 0 ? next : next + (size_t)length + 2;
    if (wire.bytes < end) {
        return short_by(state, end);
    }
    if (length >= 0 && (wire.data[end - 2] != '\r' || wire.data[end - 1] != '\n')) {
        return fail(state, RESP_REPLY_MALFORMED, "a bulk string that does not end in CR LF");
    }
    struct value *value = value_list_append(list);
    if (value == NULL) {
        return fail(state, RESP_REPLY_TOO_LARGE, "too many values in one reply");
    }
    value->kind = length < 0 ? VALUE_NIL : type == '$' ? VALUE_BULK : type == '=' ? VALUE_VERBATIM : VALUE_ERROR;
    if (length >= 0) {
        size_t prefix = type == '=' && length >= 4 && wire.data[next + 3] == ':' ? 4 : 0;
        value->bytes = slice_at(next + prefix, (size_t)length - prefix);
    }
    state->position = state->scanned = end;
    return RESP_REPLY_OK;
}

/* * ~ % > : how many values follow. An empty or nil one is complete at once. */
static enum resp_reply_status
aggregate_read(struct resp_reply_state *state, uint8_t type, struct slice line, size_t next, struct value_list *list)
{
    int64_t length;
    if (!number_parse_int64(line, &length) || length < -1 || length > INT32_MAX / 2 || (length < 0 && type != '*')) {
        return fail(state, RESP_REPLY_MALFORMED, "a bad count of elements");
    }
    if (length > 0 && state->depth == VALUE_DEPTH_MAX) {
        return fail(state, RESP_REPLY_TOO_LARGE, "a reply nested too deeply");
    }
    uint32_t index = list->count;
    struct value *value = value_list_append(list);
    if (value == NULL) {
        return fail(state, RESP_REPLY_TOO_LARGE, "too many values in one reply");
    }
    value->kind = length < 0 ? VALUE_NIL : type == '*' ? VALUE_ARRAY : type == '~' ? VALUE_SET : VALUE_PUSH;
    value->count = length < 0 ? 0 : (uint32_t)length;
    if (type == '%') {
        value->kind = VALUE_MAP;
        value->count *= 2;
    }
    state->position = state->scanned = next;
    if (value->count > 0) {
        state->open[state->depth].index = index;
        state->open[state->depth].left = value->count;
        state->depth++;
    }
    return RESP_REPLY_OK;
}

/* Values that are one line. */
static enum resp_reply_status
scalar_read(struct resp_reply_state *state, uint8_t type, struct slice line, size_t next, struct value_list *list)
{
    struct value parsed = { .bytes = slice_at(state->position + 1, line.bytes) };
    bool good = true;
    switch (type) {
    case '+':
        parsed.kind = VALUE_STATUS;
        break;
    case '-':
        parsed.kind = VALUE_ERROR;
        break;
    case ':':
        parsed.kind = VALUE_INTEGER;
        good = integer_read(line, &parsed.integer);
        break;
    case ',':
        parsed.kind = VALUE_DOUBLE;
        good = real_read(line, &parsed.real);
        break;
    case '#':
        parsed.kind = VALUE_BOOL;
        good = line.bytes == 1 && (line.data[0] == 't' || line.data[0] == 'f');
        parsed.integer = good && line.data[0] == 't';
        break;
    case '_':
        parsed.kind = VALUE_NIL;
        good = line.bytes == 0;
        break;
    case '(':
        parsed.kind = VALUE_BIGNUM;
        good = line.bytes > 0;
        break;
    default:
        return fail(state, RESP_REPLY_MALFORMED, "a byte that begins no reply");
    }
    if (!good) {
        return fail(state, RESP_REPLY_MALFORMED, "a value that does not match its type");
    }
    struct value *value = value_list_append(list);
    if (value == NULL) {
        return fail(state, RESP_REPLY_TOO_LARGE, "too many values in one reply");
    }
    parsed.after = value->after;
    *value = parsed;
    state->position = state->scanned = next;
    return RESP_REPLY_OK;
}

/* The value just read is complete: so may be those around it. */
static void
value_completed(struct resp_reply_state *state, struct value_list *list)
{
    while (state->depth > 0 && --state->open[state->depth - 1].left == 0) {
        state->depth--;
        list->values[state->open[state->depth].index].after = list->count;
    }
}

static enum resp_reply_status
value_read(struct resp_reply_state *state, struct slice wire, struct value_list *list)
{
    struct slice line;
    size_t next;
    enum resp_reply_status status = line_read(state, wire, &line, &next);
    if (status != RESP_REPLY_OK) {
        return status;
    }
    uint8_t type = wire.data[state->position];
    uint32_t before = state->depth;
    switch (type) {
    case '$':
    case '=':
    case '!':
        status = bulk_read(state, wire, type, line, next, list);
        break;
    case '*':
    case '~':
    case '%':
    case '>':
        status = aggregate_read(state, type, line, next, list);
        break;
    default:
        status = scalar_read(state, type, line, next, list);
    }
    if (status == RESP_REPLY_OK && state->depth == before) {
        value_completed(state, list);
    }
    return status;
}

enum resp_reply_status
resp_reply_decode(struct resp_reply_state *state, struct slice wire, struct value_list *list, size_t *bytes)
{
    if (wire.bytes == 0 || wire.bytes < state->wanted) {
        return RESP_REPLY_SHORT;
    }
    do {
        if (state->position == wire.bytes) {
            return short_by(state, wire.bytes + 1);
        }
        enum resp_reply_status status = value_read(state, wire, list);
        if (status != RESP_REPLY_OK) {
            return status;
        }
    } while (state->depth > 0);

    for (uint32_t i = 0; i < list->count; i++) {
        struct value *value = &list->values[i];
        if (!value_is_aggregate(value) && value->kind != VALUE_NIL) {
            value->bytes.data = wire.data + (uintptr_t)value->bytes.data;
        }
    }
    *bytes = state->position;
    *state = (struct resp_reply_state){ 0 };
    return RESP_REPLY_OK;
}

static size_t
digits_of(size_t number)
{
    size_t digits = 1;
    for (; number >= 10; number /= 10) {
        digits++;
    }
    return digits;
}

size_t
resp_request_bytes(const struct slice *words, uint32_t count)
{
    size_t bytes = 1 + digits_of(count) + 2;
    for (uint32_t i = 0; i < count; i++) {
        bytes += 1 + digits_of(words[i].bytes) + 2 + words[i].bytes + 2;
    }
    return bytes;
}

static uint8_t *
header_write(uint8_t *out, char type, size_t number)
{
    *out++ = (uint8_t)type;
    out += number_print_uint64((char *)out, number);
    *out++ = '\r';
    *out++ = '\n';
    return out;
}

uint8_t *
resp_request_write(uint8_t *out, const struct slice *words, uint32_t count)
{
    out = header_write(out, '*', count);
    for (uint32_t i = 0; i < count; i++) {
        out = header_write(out, '$', words[i].bytes);
        if (words[i].bytes > 0) {
            memcpy(out, words[i].data, words[i].bytes);
        }
        out += words[i].bytes;
        *out++ = '\r';
        *out++ = '\n';
    }
    return out;
}
