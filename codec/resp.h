/* resp.h - RESP2, RESP3 and inline requests on the wire. */
#pragma once
#include "codec/command.h"

/* Where the decoder of one session stopped, so that no byte is looked at twice. Zeroed: at the start of a request.
 * `spans` is memory of the session's, lent while a request is incomplete (LIMIT_REQUEST_ARGS + 1 of them). */
struct resp_span {
    uint32_t offset, bytes; /* from the request's first byte */
};

struct resp_state {
    uint32_t expected;  /* bulks of the multibulk; 0: its header has not been read */
    uint32_t done;      /* bulks complete */
    uint32_t position;  /* bytes of the request looked at and taken */
    uint32_t scanned;   /* bytes looked at for a line end, >= position */
    int64_t bulk_bytes; /* length of the bulk being read, -1: its header is next */
    size_t wanted;      /* at least so many bytes from the request's start before a call can succeed */
};

/* Decode the first request in `wire`, going on from `state`.
 *
 * wire     begins at the request's first byte, also when an earlier call answered CODEC_SHORT.
 * spans    room for LIMIT_REQUEST_ARGS + 1, kept by the caller together with `state` between calls.
 * limits   request_bytes_max fits 32 bits. An args_max or arg_bytes_max below LIMIT_REQUEST_ARGS or LIMIT_VALUE_BYTES
 *          is that of a session before AUTH, and what exceeds it is answered as Redis answers before AUTH.
 * Returns  CODEC_OK: request->wire_bytes are to be taken, `state` is zeroed. See request_is_empty().
 *          CODEC_SHORT: nothing taken; state->wanted is a lower bound.
 *          CODEC_MALFORMED: request->error is to be answered ("ERR Protocol error: ..."), then close; `state` is
 *          unspecified. Which error does not depend on how the bytes were cut.
 * Room     CODEC_SHORT is never answered for lack of room: when room has less than LIMIT_REQUEST_ARGS left the caller
 *          executes its burst first.
 * Lifetime request->name and ->args borrow from `wire`. Quoted inline words are unescaped in place, which is why `wire`
 *          is writable, and why a request answered with CODEC_OK must not be decoded again from the same bytes.
 * Threads  pure; no shared state.
 * Cost     framing is looked at once (a length that arrives in pieces twice), argument bytes never, but for the bytes
 *          of inline requests; no copy, no allocation.
 * Source   RESP specification; limits in config/limits.h; the error texts are Redis 7.0's. Stricter than Redis: a
 * length line ends in CR LF, an argument is followed by CR LF, an inline request has no NUL. */
enum codec_status resp_decode(struct resp_state *state, struct resp_span *spans, uint8_t *wire, size_t wire_bytes,
                              const struct decode_limits *limits, struct arg_room *room, struct request *request);

/* Decode the requests at the start of `wire` that have the common form: a name of up to 8 bytes and up to 8 arguments
 * of up to 999 bytes, all there. Only where a request begins: while resp_decode() answers CODEC_SHORT it goes on.
 *
 * limits   as above; below what the common form may need, nothing is taken.
 * Returns  how many were decoded, at most `max`; the rest, or a request of another form, is resp_decode()'s. Stops
 *          behind a CMD_BARRIER. Each one is what resp_decode() would have answered CODEC_OK with.
 * Lifetime as above.
 * Threads  pure; no shared state.
 * Cost     a word compared for a line, no loop over bytes: 105 instructions a GET behind a GET, 135 otherwise. */
uint32_t resp_take(const uint8_t *wire, size_t wire_bytes, const struct decode_limits *limits, struct arg_room *room,
                   struct request *requests, uint32_t max);
