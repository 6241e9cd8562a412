/* resp_inline.h - inline RESP requests, and what both halves of the RESP decoder answer. For codec/resp.c. */
#pragma once
#include "codec/resp.h"

#define RESP_UNAUTH_COUNT "ERR Protocol error: unauthenticated multibulk length"
#define RESP_UNAUTH_BULK  "ERR Protocol error: unauthenticated bulk length"

/* As resp_decode(), but for what follows from the name: it sets name, args_count and wire_bytes only, and its caller
 * does the rest. `wire` is not empty. */
enum codec_status resp_inline_decode(struct resp_state *state, uint8_t *wire, size_t wire_bytes,
                                     const struct decode_limits *limits, struct arg *args, struct request *request);

/* `error` is static text. */
static inline enum codec_status
resp_malformed(struct request *request, const char *error)
{
    request->command = NULL;
    request->name = slice_of(NULL, 0);
    request->args_count = 0;
    request->error = error;
    return CODEC_MALFORMED;
}
