/* stream.h - the two byte streams of a session: what came and is not yet taken, what is to go and not yet acknowledged.
 */
#pragma once
#include "codec/sink.h"
#include "config/base.h"
#include "dataplane/stream_reserve.h"

/* ---- in ----
 * A view of contiguous bytes: borrowed from a receive slot, or the session's own buffer when a request is incomplete.
 */
struct stream_in {
    uint8_t *view; /* bytes [taken, bytes) are not yet decoded */
    size_t bytes, taken;
    void *slot;   /* port's receive slot that `view` borrows from, NULL: own buffer or nothing */
    uint8_t *own; /* ordinary memory, one of the lcore's blocks, or the hoard's page: own_room bytes */
    size_t own_room;
    bool hoards;     /* the hoard's page is its own */
    uint64_t offset; /* stream offset of view[0] */
};

/* ---- out ----
 * A chain of chunks. Offsets are stream offsets: acknowledged <= sent <= end. Stream sockets acknowledge what they
 * sent. */
#define STREAM_FIRST_CHUNK_BYTES 4096 /* of an idle session: kept while it is active */
#define STREAM_CHUNK_BYTES       16384

struct stream_chunk {
    struct stream_chunk *next;
    uint64_t offset; /* stream offset of bytes[0] */
    uint32_t used;   /* bytes written; of the last chunk: see the sink */
    uint32_t room;   /* length of bytes[] */
    uint8_t bytes[];
};

struct stream_out {
    struct sink sink; /* first: replies are written here */
    struct memory_cache *memory;
    struct stream_reserve *reserve; /* NULL: ordinary memory only */
    struct stream_chunk *first, *last;
    uint64_t acknowledged; /* bytes before are gone */
    uint64_t sent;         /* bytes before were handed to the transport */
    uint64_t hard_bytes;   /* more pending than this fails the sink */
    bool starved;          /* the sink failed for lack of memory at this moment, not for hard_bytes */
    bool hoards;           /* the hoard's blocks are its own until none of its chunks is a kept block, */
    uint32_t hoard_left;   /* and so many of them at most */
    uint32_t kept_chunks;  /* of STREAM_BLOCK_BYTES */
};

void stream_out_init(struct stream_out *out, struct memory_cache *memory, struct stream_reserve *reserve,
                     uint64_t hard_bytes);
void stream_out_fini(struct stream_out *out); /* gives every chunk back */

static inline uint64_t
stream_out_end(const struct stream_out *out)
{
    return sink_offset(&out->sink);
}
/* Written, not yet acknowledged. */
static inline uint64_t
stream_out_pending(const struct stream_out *out)
{
    return stream_out_end(out) - out->acknowledged;
}
/* Written, not yet sent. */
static inline uint64_t
stream_out_unsent(const struct stream_out *out)
{
    return stream_out_end(out) - out->sent;
}
/* Up to `max` pieces of the bytes from stream offset `from` (>= acknowledged); returns pieces, their sum in *bytes. */
struct iovec;
uint32_t stream_out_pieces(const struct stream_out *out, uint64_t from, struct iovec *pieces, uint32_t max,
                           size_t *bytes);
/* Copy up to `room` bytes from stream offset `from`; returns bytes copied. */
size_t stream_out_copy(const struct stream_out *out, uint64_t from, uint8_t *to, size_t room);
/* Bytes before `offset` are no longer needed: chunks are given back, but the last; that too when it is a kept block. */
void stream_out_acknowledge(struct stream_out *out, uint64_t offset);
/* All that `from` holds goes to the end of `to`: chunks change their owner, no byte is copied. Nothing of it was sent
 * or acknowledged. False: more than hard_bytes would be pending; nothing happened. */
bool stream_out_move(struct stream_out *to, struct stream_out *from);
/* Give back the last chunk too, when nothing is pending: the session has been idle for a while. */
void stream_out_trim(struct stream_out *out);
