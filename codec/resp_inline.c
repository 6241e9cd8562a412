/* resp_inline.c - inline RESP requests: a line of words, quoted as sdssplitargs() has them. */
#include "codec/resp_inline.h"

#define TOO_BIG_INLINE "ERR Protocol error: too big inline request"

static inline bool
is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static inline int32_t
hex_value(uint8_t c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that a backslash at `at` stands for within double quotes; moves `at` behind it. */
static uint8_t
escape_take(const uint8_t **at, const uint8_t *end)
{
    const uint8_t *c = *at;

    if (end - c >= 4 && c[1] == 'x' && hex_value(c[2]) >= 0 && hex_value(c[3]) >= 0) {
        *at = c + 4;
        return (uint8_t)(hex_value(c[2]) << 4 | hex_value(c[3]));
    }
    if (end - c < 2) {
        *at = c + 1;
        return *c;
    }
    *at = c + 2;
    switch (c[1]) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'b':
        return '\b';
    case 'a':
        return '\a';
    default:
        return c[1];
    }
}

/* The rest of a word after its first quote, unescaped to `to`, which never overtakes `at`. False: the quote is not
 * closed, or something other than a space follows it. */
static bool
quoted_take(const uint8_t **at, const uint8_t *end, uint8_t **to)
{
    const uint8_t *from = *at;
    uint8_t *out = *to, quote = *from++;

    while (from < end && *from != quote) {
        if (*from != '\\') {
            *out++ = *from++;
        } else if (quote == '"') {
            *out++ = escape_take(&from, end);
        } else { /* between single quotes only \' is an escape */
            from += end - from >= 2 && from[1] == '\'';
            *out++ = *from++;
        }
    }
    *at = from + 1;
    *to = out;
    return from < end && (from + 1 == end || is_space(from[1]));
}

/* One word as sdssplitargs() takes it: up to a blank, or through its first quoted part. Without quotes nothing is
 * written. */
static bool
word_take(uint8_t **at, const uint8_t *end, struct slice *out)
{
    uint8_t *start = *at, *from = start;

    while (from < end && *from != ' ' && *from != '\t' && *from != '\r' && *from != '"' && *from != '\'') {
        from++;
    }
    uint8_t *to = from;
    bool good = true;
    if (from < end && (*from == '"' || *from == '\'')) {
        const uint8_t *after = from;
        good = quoted_take(&after, end, &to);
        from += after - from;
    }
    *out = slice_of(start, (size_t)(to - start));
    *at = from;
    return good;
}

/* The words of a whole line without its LF. */
static enum codec_status
line_split(uint8_t *at, const uint8_t *end, const struct decode_limits *limits, struct arg *args,
           struct request *request)
{
    uint32_t words = 0;

    request->name = slice_of(NULL, 0);
    for (;;) {
        struct slice word;
        while (at < end && is_space(*at)) {
            at++;
        }
        if (at == end) {
            break;
        }
        if (words > limits->args_max || words > LIMIT_REQUEST_ARGS) {
            return resp_malformed(request, words > LIMIT_REQUEST_ARGS ? TOO_BIG_INLINE : RESP_UNAUTH_COUNT);
        }
        if (!word_take(&at, end, &word)) {
            return resp_malformed(request, "ERR Protocol error: unbalanced quotes in request");
        }
        if (word.bytes > limits->arg_bytes_max) {
            return resp_malformed(request, RESP_UNAUTH_BULK);
        }
        if (words == 0) {
            request->name = word;
        } else {
            args[words - 1] = (struct arg){ .bytes = word, .kind = ARG_BYTES };
        }
        words++;
    }
    request->args_count = words > 0 ? words - 1 : 0;
    return CODEC_OK;
}

enum codec_status
resp_inline_decode(struct resp_state *state, uint8_t *wire, size_t wire_bytes, const struct decode_limits *limits,
                   struct arg *args, struct request *request)
{
    size_t stop = MIN((size_t)LIMIT_INLINE_BYTES, limits->request_bytes_max);
    size_t end = MIN(wire_bytes, stop + 1), start = state->scanned;
    const uint8_t *lf = start < end ? memchr(wire + start, '\n', end - start) : NULL;
    size_t line = lf != NULL ? (size_t)(lf - wire) : end;

    /* Not a text protocol at all. Redis waits for a line end that it then never sees, up to its limit. */
    if (line > start && memchr(wire + start, '\0', line - start) != NULL) {
        return resp_malformed(request, "ERR Protocol error: NUL in inline request");
    }
    if (lf == NULL) {
        if (end > stop) {
            return resp_malformed(request, TOO_BIG_INLINE);
        }
        state->scanned = (uint32_t)end;
        state->wanted = end + 1;
        return CODEC_SHORT;
    }
    request->wire_bytes = line + 1;
    return line_split(wire, lf, limits, args, request); /* a CR before the LF is a blank like others */
}
