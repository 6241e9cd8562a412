/* frame_stream.h - one end of a session over fabric frames: what came, what may be sent, what must be said.
 *
 * The same machine serves the server's port and the client. It owns no memory and calls nothing: the caller receives
 * messages into slots, asks what they mean, and sends what is due. Offsets are 64-bit stream offsets compared as serial
 * numbers. Time is any unit that only grows, the same as the lease's.
 *
 * Credit: a receiver lets its peer have `credit` DATA frames beyond the offset it acknowledged. Both travel together in
 * every frame, and only the highest offset counts, so frames may come in any order and repeatedly. Acknowledged means
 * taken by the reader and the slot posted again, so credit bounds the peer's share of receive slots. Threads: one. */
#pragma once
#include "codec/envelope.h"

#define FRAME_WINDOW    64  /* frames in flight each way, a power of two: the largest credit */
#define FRAME_BYTES_MIN 256 /* smallest frame size either end may ask for */

struct frame_config {
    uint32_t wire_id, incarnation; /* in every frame, both ways */
    uint32_t frame_bytes;          /* largest message this end sends, envelope included */
    uint32_t peer_frame_bytes;     /* largest message the peer may send */
    uint16_t credit;               /* given to the peer: 1..FRAME_WINDOW */
    uint16_t peer_credit;          /* given by the peer at attach */
    uint64_t lease;                /* silence longer than this is a dead peer; 0: never */
    uint64_t ack_delay;            /* idle time after which taken bytes are acknowledged on their own */
};

/* A DATA frame that came and is not yet handed to the reader. */
struct frame_held {
    uint64_t offset;
    uint32_t bytes; /* of payload */
    uint32_t slot;
};

struct frame_stream {
    struct frame_config config;
    uint16_t credit_most; /* ever given to this incarnation of the peer: it may have sent so many frames */

    /* receive side: told <= taken <= received */
    uint64_t received;     /* bytes before were handed to the reader */
    uint64_t taken;        /* bytes before were read and their slots posted again */
    uint64_t told;         /* `taken` as the peer last heard it */
    uint32_t taken_frames; /* since then */
    uint32_t held_count;
    uint64_t taken_at;          /* time of the oldest of taken_frames */
    uint64_t known_end;         /* of the peer's stream: the furthest that any of its frames spoke of */
    uint64_t gap_at, gap_reach; /* since when the piece after gap_reach is missing; 0: looked and found none */
    struct frame_held held[FRAME_WINDOW]; /* by offset */

    /* send side: acknowledged <= sent */
    uint64_t sent;
    uint64_t acknowledged;
    uint32_t flight_head, flight_count;
    uint64_t flight[FRAME_WINDOW]; /* ends of the frames sent and not acknowledged, oldest first */

    uint64_t heard_at, asked_at; /* last frame of the peer; last PING */
    bool pong_due;
};

enum frame_verdict {
    FRAME_NEXT,   /* kept: frame_stream_next() has something */
    FRAME_AHEAD,  /* kept: it has nothing, a frame before is missing */
    FRAME_BEHIND, /* wholly received before, or kept already: dropped */
    FRAME_TAKEN,  /* no data: done with */
    FRAME_STALE,  /* of another session or incarnation: dropped, nothing changed */
    FRAME_BAD,    /* breaks the rules (beyond its credit, too long, acknowledges what was not sent): dropped */
    FRAME_ENDED,  /* DETACH or ERROR: the session is over */
};

/* A stream at offset 0 both ways. The attach reply said the credits, so nothing is owed. */
void frame_stream_init(struct frame_stream *stream, const struct frame_config *config, uint64_t now);

/* Go on as another incarnation after a loss. `config` carries the new ids; `peer_taken` is what the peer says it
 * received of this end's stream: sending goes on from there. What was received but not handed over comes again, so the
 * caller first releases every kept slot with frame_stream_drop_held().
 *
 * Returns  false, and changes nothing, when `peer_taken` is not between what was acknowledged and what was sent. */
bool frame_stream_resume(struct frame_stream *stream, const struct frame_config *config, uint64_t peer_taken,
                         uint64_t now);
/* Whether it would go on at `peer_taken`. */
bool frame_stream_can_resume(const struct frame_stream *stream, uint64_t peer_taken);

/* Give the peer another credit, 1..FRAME_WINDOW, from the next frame on. What it sent by an earlier, larger one is kept
 * too: a smaller credit frees no receive slot before the incarnation ends. */
void frame_stream_set_credit(struct frame_stream *stream, uint16_t credit);

/* ---- receive ---- */

/* A message that envelope_read() found good came in `slot`.
 *
 * Returns  what it is. After FRAME_NEXT and FRAME_AHEAD the slot is the stream's until frame_stream_next() gives it
 *          back; after every other verdict it is the caller's. stream->acknowledged may have grown.
 * Cost     a few comparisons; a frame out of order moves at most `credit` entries. */
enum frame_verdict frame_stream_receive(struct frame_stream *stream, const struct envelope *envelope, uint32_t slot,
                                        uint64_t now);

/* The piece of a kept frame that continues the stream. */
struct frame_piece {
    uint32_t slot;
    uint32_t skip;  /* payload bytes that the reader has already */
    uint32_t bytes; /* 0: all of it came before; the slot is only to be posted again */
    uint64_t end;   /* stream offset after it: for frame_stream_take() */
};

/* Look at the next piece. False: none, or the one in front is missing. Repeat until frame_stream_advance(). */
bool frame_stream_next(const struct frame_stream *stream, struct frame_piece *piece);
/* The piece was handed to the reader: its slot is the caller's. */
void frame_stream_advance(struct frame_stream *stream, const struct frame_piece *piece);
/* The reader has read everything before `end` and the slot is posted again: credit comes back. */
void frame_stream_take(struct frame_stream *stream, uint64_t end, uint64_t now);
/* Whether everything that the peer's frames spoke of has come. */
bool frame_stream_is_whole(const struct frame_stream *stream);
/* Give up one kept frame. Returns false when none is left; *slot is the caller's. */
bool frame_stream_drop_held(struct frame_stream *stream, uint32_t *slot);

/* ---- send ---- */

/* Whether the peer's credit allows one more DATA frame. */
static inline bool
frame_stream_may_send(const struct frame_stream *stream)
{
    return stream->flight_count < stream->config.peer_credit;
}

/* Largest payload of a frame. */
static inline uint32_t
frame_stream_room(const struct frame_stream *stream)
{
    return stream->config.frame_bytes - ENVELOPE_BYTES;
}

/* Write the envelope of a frame of `kind` that carries `payload_bytes` from stream->sent on. Changes nothing: call
 * frame_stream_sent() once the transport took it, or drop it. */
void frame_stream_write(const struct frame_stream *stream, enum envelope_kind kind, uint32_t payload_bytes,
                        uint8_t out[ENVELOPE_BYTES]);
void frame_stream_sent(struct frame_stream *stream, enum envelope_kind kind, uint32_t payload_bytes, uint64_t now);

/* The control frame to send now: ENVELOPE_PONG, ENVELOPE_PING, ENVELOPE_ACK, or 0 for none. Ask after the DATA frames
 * of this turn are out: they carry acknowledgements too. */
uint8_t frame_stream_due(const struct frame_stream *stream, uint64_t now);

/* Silent for longer than the lease; or a piece has been missing for so long while the peer's other frames came: every
 * frame says how far its stream goes, so a lost last piece is noticed too. Ask regularly: a gap counts from the first
 * time it is looked at. */
bool frame_stream_expired(struct frame_stream *stream, uint64_t now);
