/* frame_stream.c - one end of a session over fabric frames. */
#include "codec/frame_stream.h"

/* Serial distance: how far `a` is beyond `b`; right while they are within 2^63 of each other. */
static int64_t
beyond(uint64_t a, uint64_t b)
{
    return (int64_t)(a - b);
}

static void
set_config(struct frame_stream *stream, const struct frame_config *config)
{
    assert(config->credit >= 1 && config->credit <= FRAME_WINDOW);
    assert(config->frame_bytes >= FRAME_BYTES_MIN && config->frame_bytes <= UINT16_MAX);
    assert(config->peer_frame_bytes >= FRAME_BYTES_MIN && config->peer_frame_bytes <= UINT16_MAX);
    stream->config = *config;
    stream->config.peer_credit = MIN(config->peer_credit, FRAME_WINDOW);
    stream->credit_most = config->credit;
}

void
frame_stream_set_credit(struct frame_stream *stream, uint16_t credit)
{
    assert(credit >= 1 && credit <= FRAME_WINDOW);
    stream->config.credit = credit;
    stream->credit_most = MAX(stream->credit_most, credit);
}

void
frame_stream_init(struct frame_stream *stream, const struct frame_config *config, uint64_t now)
{
    memset(stream, 0, sizeof(*stream));
    set_config(stream, config);
    stream->heard_at = now;
    stream->asked_at = now;
}

bool
frame_stream_can_resume(const struct frame_stream *stream, uint64_t peer_taken)
{
    return beyond(peer_taken, stream->acknowledged) >= 0 && beyond(stream->sent, peer_taken) >= 0;
}

bool
frame_stream_resume(struct frame_stream *stream, const struct frame_config *config, uint64_t peer_taken, uint64_t now)
{
    if (!frame_stream_can_resume(stream, peer_taken)) {
        return false;
    }
    assert(stream->held_count == 0);
    set_config(stream, config);
    /* The peer sends again from `received`; what was handed over will be read without it. */
    stream->taken = stream->received;
    stream->told = stream->received;
    stream->taken_frames = 0;
    stream->known_end = stream->received;
    stream->gap_at = 0;
    stream->sent = peer_taken;
    stream->acknowledged = peer_taken;
    stream->flight_head = 0;
    stream->flight_count = 0;
    stream->heard_at = now;
    stream->asked_at = now;
    stream->pong_due = false;
    return true;
}

static void
forget_acknowledged_frames(struct frame_stream *stream)
{
    while (stream->flight_count > 0 && beyond(stream->flight[stream->flight_head], stream->acknowledged) <= 0) {
        stream->flight_head = (stream->flight_head + 1) % FRAME_WINDOW;
        stream->flight_count--;
    }
}

/* False: the peer acknowledges what was never sent. */
static bool
hear_acknowledgement(struct frame_stream *stream, const struct envelope *envelope)
{
    if (beyond(envelope->acknowledged, stream->sent) > 0) {
        return false;
    }
    int64_t grown = beyond(envelope->acknowledged, stream->acknowledged);
    uint16_t credit = MIN(envelope->credit, FRAME_WINDOW);
    if (grown > 0) {
        stream->acknowledged = envelope->acknowledged;
        stream->config.peer_credit = credit;
        forget_acknowledged_frames(stream);
    } else if (grown == 0 && credit > stream->config.peer_credit) {
        stream->config.peer_credit = credit; /* of two frames with one offset nobody knows the later: take the larger */
    }
    return true;
}

static enum frame_verdict
hold(struct frame_stream *stream, const struct envelope *envelope, uint32_t slot)
{
    uint64_t offset = envelope->offset, end = offset + envelope->payload_bytes;
    uint32_t at = stream->held_count;

    if (beyond(end, stream->received) <= 0) {
        return FRAME_BEHIND;
    }
    while (at > 0 && beyond(stream->held[at - 1].offset, offset) > 0) {
        at--;
    }
    if (at > 0 && beyond(stream->held[at - 1].offset + stream->held[at - 1].bytes, end) >= 0) {
        return FRAME_BEHIND;
    }
    if (stream->held_count >= stream->credit_most) {
        return FRAME_BAD;
    }
    memmove(&stream->held[at + 1], &stream->held[at], (stream->held_count - at) * sizeof(stream->held[0]));
    stream->held[at] = (struct frame_held){ .offset = offset, .bytes = envelope->payload_bytes, .slot = slot };
    stream->held_count++;
    return beyond(stream->held[0].offset, stream->received) <= 0 ? FRAME_NEXT : FRAME_AHEAD;
}

enum frame_verdict
frame_stream_receive(struct frame_stream *stream, const struct envelope *envelope, uint32_t slot, uint64_t now)
{
    const struct frame_config *config = &stream->config;

    if (envelope->wire_id != config->wire_id || envelope->incarnation != config->incarnation) {
        return FRAME_STALE;
    }
    if (envelope->payload_bytes > config->peer_frame_bytes - ENVELOPE_BYTES) {
        return FRAME_BAD;
    }
    /* DATA starts at its offset; the others say with it how far their stream goes. */
    uint64_t end = envelope->offset + (envelope->kind == ENVELOPE_DATA ? envelope->payload_bytes : 0);
    int64_t allowed = (int64_t)stream->credit_most * (config->peer_frame_bytes - ENVELOPE_BYTES);
    if (beyond(end, stream->taken) > allowed || !hear_acknowledgement(stream, envelope)) {
        return FRAME_BAD;
    }
    if (beyond(end, stream->known_end) > 0) {
        stream->known_end = end;
    }
    stream->heard_at = now;
    switch (envelope->kind) {
    case ENVELOPE_DATA:
        return hold(stream, envelope, slot);
    case ENVELOPE_PING:
        stream->pong_due = true;
        return FRAME_TAKEN;
    case ENVELOPE_ACK:
    case ENVELOPE_PONG:
        return FRAME_TAKEN;
    case ENVELOPE_DETACH:
    case ENVELOPE_ERROR:
        return FRAME_ENDED;
    default:
        return FRAME_BAD;
    }
}

bool
frame_stream_next(const struct frame_stream *stream, struct frame_piece *piece)
{
    const struct frame_held *first = &stream->held[0];

    if (stream->held_count == 0 || beyond(first->offset, stream->received) > 0) {
        return false;
    }
    uint64_t skip = stream->received - first->offset;
    piece->slot = first->slot;
    piece->skip = (uint32_t)MIN(skip, first->bytes);
    piece->bytes = first->bytes - piece->skip;
    piece->end = stream->received + piece->bytes;
    return true;
}

static void
held_remove_first(struct frame_stream *stream)
{
    stream->held_count--;
    if (UNLIKELY(stream->held_count > 0)) {
        memmove(&stream->held[0], &stream->held[1], stream->held_count * sizeof(stream->held[0]));
    }
}

void
frame_stream_advance(struct frame_stream *stream, const struct frame_piece *piece)
{
    assert(stream->held_count > 0 && stream->held[0].slot == piece->slot);
    stream->received = piece->end;
    held_remove_first(stream);
}

void
frame_stream_take(struct frame_stream *stream, uint64_t end, uint64_t now)
{
    if (beyond(end, stream->taken) <= 0) {
        return;
    }
    assert(beyond(end, stream->received) <= 0);
    stream->taken = end;
    if (stream->taken_frames == 0) {
        stream->taken_at = now;
    }
    stream->taken_frames++;
}

bool
frame_stream_drop_held(struct frame_stream *stream, uint32_t *slot)
{
    if (stream->held_count == 0) {
        return false;
    }
    stream->held_count--;
    *slot = stream->held[stream->held_count].slot;
    return true;
}

void
frame_stream_write(const struct frame_stream *stream, enum envelope_kind kind, uint32_t payload_bytes,
                   uint8_t out[ENVELOPE_BYTES])
{
    assert(payload_bytes <= frame_stream_room(stream));
    struct envelope envelope = {
        .kind = (uint8_t)kind,
        .payload_bytes = (uint16_t)payload_bytes,
        .credit = stream->config.credit,
        .incarnation = stream->config.incarnation,
        .wire_id = stream->config.wire_id,
        .offset = stream->sent,
        .acknowledged = stream->taken,
    };
    envelope_write(out, &envelope);
}

void
frame_stream_sent(struct frame_stream *stream, enum envelope_kind kind, uint32_t payload_bytes, uint64_t now)
{
    if (kind == ENVELOPE_DATA) {
        assert(frame_stream_may_send(stream) && payload_bytes > 0);
        stream->sent += payload_bytes;
        stream->flight[(stream->flight_head + stream->flight_count) % FRAME_WINDOW] = stream->sent;
        stream->flight_count++;
    } else if (kind == ENVELOPE_PONG) {
        stream->pong_due = false;
    } else if (kind == ENVELOPE_PING) {
        stream->asked_at = now;
    }
    stream->told = stream->taken; /* every frame carries it */
    stream->taken_frames = 0;
}

uint8_t
frame_stream_due(const struct frame_stream *stream, uint64_t now)
{
    uint64_t third = stream->config.lease / 3;

    if (stream->pong_due) {
        return ENVELOPE_PONG;
    }
    if (third > 0 && now - stream->heard_at >= third && now - stream->asked_at >= third) {
        return ENVELOPE_PING;
    }
    if (stream->taken_frames > 0) {
        bool half = stream->taken_frames * 2 >= stream->config.credit;
        return half || now - stream->taken_at >= stream->config.ack_delay ? ENVELOPE_ACK : 0;
    }
    return 0;
}

/* How far the stream is whole: what was handed over, and the kept frames that continue it. */
static uint64_t
whole_until(const struct frame_stream *stream)
{
    uint64_t end = stream->received;

    for (uint32_t i = 0; i < stream->held_count && beyond(stream->held[i].offset, end) <= 0; i++) {
        uint64_t held_end = stream->held[i].offset + stream->held[i].bytes;
        end = beyond(held_end, end) > 0 ? held_end : end;
    }
    return end;
}

bool
frame_stream_is_whole(const struct frame_stream *stream)
{
    return beyond(stream->known_end, whole_until(stream)) <= 0;
}

bool
frame_stream_expired(struct frame_stream *stream, uint64_t now)
{
    uint64_t lease = stream->config.lease, reach = whole_until(stream);

    if (lease == 0) {
        return false;
    }
    if (beyond(stream->known_end, reach) <= 0) {
        stream->gap_at = 0;
    } else if (stream->gap_at == 0 || stream->gap_reach != reach) {
        stream->gap_at = now + 1; /* 0 means none */
        stream->gap_reach = reach;
    }
    return now - stream->heard_at > lease || (stream->gap_at != 0 && now + 1 - stream->gap_at > lease);
}
