/* resp_reply.h - replies of RESP2 and RESP3 as a client reads them, and requests as it writes them. */
#pragma once
#include "tools/client/value.h"

enum resp_reply_status {
    RESP_REPLY_OK,
    RESP_REPLY_SHORT,     /* come back with more bytes */
    RESP_REPLY_MALFORMED, /* the stream cannot go on; state->why says what was found */
    RESP_REPLY_TOO_LARGE, /* more values or deeper than value.h allows, or no memory; state->why */
};

/* Where the decoder stopped, so that no byte is looked at twice. Zeroed: at the start of a reply. */
struct resp_reply_state {
    size_t position; /* bytes of the reply taken */
    size_t scanned;  /* bytes looked at for a line end, >= position */
    size_t wanted;   /* so many bytes from the reply's start are needed before a call can succeed */
    uint32_t depth;
    struct {
        uint32_t index; /* of the aggregate in the list */
        uint32_t left;  /* of its values */
    } open[VALUE_DEPTH_MAX];
    const char *why;
};

/* Decode the first reply in `wire` into `list`, going on from `state`.
 *
 * wire     begins at the reply's first byte, also when an earlier call answered RESP_REPLY_SHORT; it may have moved.
 * list     the caller empties it (count = 0) at the start of a reply and leaves it alone between calls.
 * Returns  RESP_REPLY_OK: the reply was *bytes long and `state` is zeroed.
 * Lifetime values borrow from `wire`.
 * Cost     framing is looked at once, contents never.
 * Source   RESP specification; attributes and streamed types, which no server here sends, are malformed. */
enum resp_reply_status resp_reply_decode(struct resp_reply_state *state, struct slice wire, struct value_list *list,
                                         size_t *bytes);

/* Bytes of a request's wire form: an array of bulk strings. */
size_t resp_request_bytes(const struct slice *words, uint32_t count);
/* Write it; `out` has the room. Returns the byte after. */
uint8_t *resp_request_write(uint8_t *out, const struct slice *words, uint32_t count);
