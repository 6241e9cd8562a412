/* test_frame_stream.c - order, credit, acknowledgement, leases and resumption of a session over frames. */
#include "codec/frame_stream.h"
#include <CUnit/Basic.h>

#define PAYLOAD_MAX (FRAME_BYTES_MIN - ENVELOPE_BYTES)

static struct frame_config
config_of(uint16_t credit, uint16_t peer_credit)
{
    return (struct frame_config){
        .wire_id = 11,
        .incarnation = 22,
        .frame_bytes = FRAME_BYTES_MIN,
        .peer_frame_bytes = FRAME_BYTES_MIN,
        .credit = credit,
        .peer_credit = peer_credit,
        .lease = 300,
        .ack_delay = 5,
    };
}

static struct envelope
data_frame(uint64_t offset, uint32_t bytes)
{
    return (struct envelope){ .kind = ENVELOPE_DATA,
                              .payload_bytes = (uint16_t)bytes,
                              .credit = 4,
                              .incarnation = 22,
                              .wire_id = 11,
                              .offset = offset };
}

static enum frame_verdict
offer(struct frame_stream *stream, uint64_t offset, uint32_t bytes, uint32_t slot)
{
    struct envelope envelope = data_frame(offset, bytes);
    envelope.acknowledged = stream->acknowledged;
    return frame_stream_receive(stream, &envelope, slot, 1);
}

/* Start both streams at `offset`, as a long session would. */
static struct frame_stream
stream_at(uint64_t offset, uint16_t credit)
{
    struct frame_stream stream;
    struct frame_config config = config_of(credit, 4);
    frame_stream_init(&stream, &config, 0);
    stream.received = stream.taken = stream.told = stream.known_end = offset;
    stream.sent = stream.acknowledged = offset;
    return stream;
}

static void
a_frame_of_another_session_or_incarnation_changes_nothing(void)
{
    struct frame_stream stream = stream_at(0, 4), before = stream;
    struct envelope envelope = data_frame(0, 10);

    envelope.wire_id = 12;
    CU_ASSERT_EQUAL(frame_stream_receive(&stream, &envelope, 0, 9), FRAME_STALE);
    envelope.wire_id = 11;
    envelope.incarnation = 21;
    CU_ASSERT_EQUAL(frame_stream_receive(&stream, &envelope, 0, 9), FRAME_STALE);
    CU_ASSERT_EQUAL(memcmp(&stream, &before, sizeof(stream)), 0);
}

static void
a_frame_that_breaks_the_rules_is_bad_and_changes_nothing(void)
{
    static const struct {
        const char *name;
        uint64_t offset, acknowledged;
        uint32_t bytes;
        uint8_t kind;
    } rows[] = {
        { "longer than a frame may be", 0, 0, PAYLOAD_MAX + 1, ENVELOPE_DATA },
        { "ends one byte beyond the credit", 4 * PAYLOAD_MAX - 9, 0, 10, ENVELOPE_DATA },
        { "starts far ahead", 1ull << 40, 0, 10, ENVELOPE_DATA },
        { "acknowledges what was not sent", 0, 1, 10, ENVELOPE_DATA },
        { "acknowledges half the number space ahead", 0, (1ull << 63) - 1, 10, ENVELOPE_DATA },
        { "an ACK of what was not sent", 0, 1, 0, ENVELOPE_ACK },
        { "an unknown kind", 0, 0, 0, 77 },
        { "an error text that is too long", 0, 0, PAYLOAD_MAX + 1, ENVELOPE_ERROR },
    };

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct frame_stream stream = stream_at(0, 4);
        struct envelope envelope = data_frame(rows[i].offset, rows[i].bytes);
        envelope.kind = rows[i].kind;
        envelope.acknowledged = rows[i].acknowledged;
        enum frame_verdict verdict = frame_stream_receive(&stream, &envelope, 0, 0);
        if (verdict != FRAME_BAD) {
            fprintf(stderr, "row: %s\n", rows[i].name);
        }
        CU_ASSERT_EQUAL(verdict, FRAME_BAD);
        CU_ASSERT_EQUAL(stream.held_count, 0);
        CU_ASSERT_EQUAL(stream.acknowledged, 0);
    }
}

static void
a_frame_that_ends_exactly_at_the_credit_is_kept(void)
{
    struct frame_stream stream = stream_at(0, 4);
    CU_ASSERT_EQUAL(offer(&stream, 4 * PAYLOAD_MAX - 10, 10, 0), FRAME_AHEAD);
}

static void
more_small_frames_than_the_credit_are_refused(void)
{
    struct frame_stream stream = stream_at(0, 4);
    for (uint32_t i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(offer(&stream, i, 1, i), FRAME_NEXT);
    }
    CU_ASSERT_EQUAL(offer(&stream, 4, 1, 4), FRAME_BAD);
    CU_ASSERT_EQUAL(stream.held_count, 4);
}

static void
frames_come_out_in_stream_order_whatever_order_they_came_in(void)
{
    static const uint8_t orders[][4] = { { 0, 1, 2, 3 }, { 3, 2, 1, 0 }, { 1, 0, 3, 2 }, { 2, 0, 3, 1 } };

    for (size_t o = 0; o < ARRAY_COUNT(orders); o++) {
        struct frame_stream stream = stream_at(UINT32_MAX - 15, 4); /* crosses 2^32 */
        struct frame_piece piece;
        for (uint32_t i = 0; i < 4; i++) {
            offer(&stream, UINT32_MAX - 15 + 10ull * orders[o][i], 10, orders[o][i]);
        }
        for (uint32_t i = 0; i < 4; i++) {
            CU_ASSERT_TRUE(frame_stream_next(&stream, &piece));
            CU_ASSERT_EQUAL(piece.slot, i);
            CU_ASSERT_EQUAL(piece.skip, 0);
            CU_ASSERT_EQUAL(piece.bytes, 10);
            frame_stream_advance(&stream, &piece);
        }
        CU_ASSERT_FALSE(frame_stream_next(&stream, &piece));
        CU_ASSERT_EQUAL(stream.received, UINT32_MAX - 15 + 40ull);
    }
}

static void
offsets_wrap_at_two_to_the_64(void)
{
    struct frame_stream stream = stream_at(UINT64_MAX - 4, 4);
    struct frame_piece piece;

    CU_ASSERT_EQUAL(offer(&stream, 5, 10, 1), FRAME_AHEAD);
    CU_ASSERT_EQUAL(offer(&stream, UINT64_MAX - 14, 10, 3), FRAME_BEHIND);
    CU_ASSERT_EQUAL(offer(&stream, UINT64_MAX - 4, 10, 0), FRAME_NEXT);
    CU_ASSERT_TRUE(frame_stream_next(&stream, &piece));
    CU_ASSERT_EQUAL(piece.end, 5);
    frame_stream_advance(&stream, &piece);
    CU_ASSERT_TRUE(frame_stream_next(&stream, &piece));
    CU_ASSERT_EQUAL(piece.slot, 1);
    frame_stream_advance(&stream, &piece);
    frame_stream_take(&stream, 15, 1);
    CU_ASSERT_EQUAL(stream.taken, 15);
}

static void
a_frame_that_overlaps_is_trimmed_and_one_wholly_behind_is_dropped(void)
{
    struct frame_stream stream = stream_at(100, 4);
    struct frame_piece piece;

    CU_ASSERT_EQUAL(offer(&stream, 90, 10, 0), FRAME_BEHIND);
    CU_ASSERT_EQUAL(offer(&stream, 99, 1, 0), FRAME_BEHIND);
    CU_ASSERT_EQUAL(offer(&stream, 90, 15, 1), FRAME_NEXT);
    CU_ASSERT_TRUE(frame_stream_next(&stream, &piece));
    CU_ASSERT_EQUAL(piece.skip, 10);
    CU_ASSERT_EQUAL(piece.bytes, 5);
    CU_ASSERT_EQUAL(piece.end, 105);
}

static void
a_kept_frame_that_another_one_made_useless_comes_back_empty(void)
{
    struct frame_stream stream = stream_at(0, 4);
    struct frame_piece piece;

    CU_ASSERT_EQUAL(offer(&stream, 10, 5, 1), FRAME_AHEAD);
    CU_ASSERT_EQUAL(offer(&stream, 10, 5, 2), FRAME_BEHIND); /* a copy */
    CU_ASSERT_EQUAL(offer(&stream, 11, 2, 2), FRAME_BEHIND); /* inside */
    CU_ASSERT_EQUAL(offer(&stream, 0, 20, 3), FRAME_NEXT);   /* around */
    CU_ASSERT_TRUE(frame_stream_next(&stream, &piece));
    CU_ASSERT_EQUAL(piece.slot, 3);
    CU_ASSERT_EQUAL(piece.bytes, 20);
    frame_stream_advance(&stream, &piece);
    CU_ASSERT_TRUE(frame_stream_next(&stream, &piece));
    CU_ASSERT_EQUAL(piece.slot, 1);
    CU_ASSERT_EQUAL(piece.bytes, 0);
    frame_stream_advance(&stream, &piece);
    CU_ASSERT_EQUAL(stream.received, 20);
    CU_ASSERT_FALSE(frame_stream_next(&stream, &piece));
}

static void
credit_is_the_same_in_whatever_order_acknowledgements_come(void)
{
    struct frame_stream stream = stream_at(0, 4);
    struct envelope ack = { .kind = ENVELOPE_ACK, .incarnation = 22, .wire_id = 11, .credit = 4 };

    for (uint32_t i = 0; i < 4; i++) {
        CU_ASSERT_TRUE(frame_stream_may_send(&stream));
        frame_stream_sent(&stream, ENVELOPE_DATA, 10, 1);
    }
    CU_ASSERT_FALSE(frame_stream_may_send(&stream));
    ack.acknowledged = 30;
    CU_ASSERT_EQUAL(frame_stream_receive(&stream, &ack, 0, 1), FRAME_TAKEN);
    CU_ASSERT_EQUAL(stream.flight_count, 1);
    ack.acknowledged = 10; /* overtaken */
    ack.credit = 1;
    CU_ASSERT_EQUAL(frame_stream_receive(&stream, &ack, 0, 1), FRAME_TAKEN);
    CU_ASSERT_EQUAL(stream.flight_count, 1);
    CU_ASSERT_EQUAL(stream.acknowledged, 30);
    CU_ASSERT_EQUAL(stream.config.peer_credit, 4);
    ack.acknowledged = 30; /* repeated, with more and with less credit */
    ack.credit = 6;
    frame_stream_receive(&stream, &ack, 0, 1);
    ack.credit = 2;
    frame_stream_receive(&stream, &ack, 0, 1);
    CU_ASSERT_EQUAL(stream.config.peer_credit, 6);
    ack.acknowledged = 40;
    frame_stream_receive(&stream, &ack, 0, 1);
    CU_ASSERT_EQUAL(stream.config.peer_credit, 2);
    CU_ASSERT_EQUAL(stream.flight_count, 0);
    ack.acknowledged = 40;
    ack.credit = UINT16_MAX;
    frame_stream_receive(&stream, &ack, 0, 1);
    CU_ASSERT_EQUAL(stream.config.peer_credit, FRAME_WINDOW);
}

static void
a_smaller_credit_is_told_and_what_an_earlier_one_allowed_is_kept(void)
{
    struct frame_stream stream = stream_at(0, 4);
    struct envelope envelope;
    struct slice payload;
    uint8_t wire[ENVELOPE_BYTES];

    frame_stream_set_credit(&stream, 1);
    frame_stream_write(&stream, ENVELOPE_ACK, 0, wire);
    CU_ASSERT_EQUAL(envelope_read(slice_of(wire, sizeof(wire)), &envelope, &payload), ENVELOPE_GOOD);
    CU_ASSERT_EQUAL(envelope.credit, 1);
    for (uint32_t i = 0; i < 5; i++) {
        struct envelope data = {
            .kind = ENVELOPE_DATA, .incarnation = 22, .wire_id = 11, .credit = 4, .payload_bytes = 10, .offset = 10 * i
        };
        CU_ASSERT_EQUAL(frame_stream_receive(&stream, &data, i, 1), i < 4 ? FRAME_NEXT : FRAME_BAD);
    }
    CU_ASSERT_EQUAL(stream.held_count, 4);
    frame_stream_set_credit(&stream, 6);
    frame_stream_write(&stream, ENVELOPE_ACK, 0, wire);
    CU_ASSERT_EQUAL(envelope_read(slice_of(wire, sizeof(wire)), &envelope, &payload), ENVELOPE_GOOD);
    CU_ASSERT_EQUAL(envelope.credit, 6);
    struct envelope more = {
        .kind = ENVELOPE_DATA, .incarnation = 22, .wire_id = 11, .credit = 4, .payload_bytes = 10, .offset = 40
    };
    CU_ASSERT_EQUAL(frame_stream_receive(&stream, &more, 5, 1), FRAME_NEXT);
}

static void
an_acknowledgement_inside_a_frame_keeps_that_frame_in_flight(void)
{
    struct frame_stream stream = stream_at(0, 4);
    struct envelope ack = { .kind = ENVELOPE_ACK, .incarnation = 22, .wire_id = 11, .credit = 4, .acknowledged = 15 };

    frame_stream_sent(&stream, ENVELOPE_DATA, 10, 1);
    frame_stream_sent(&stream, ENVELOPE_DATA, 10, 1);
    frame_stream_receive(&stream, &ack, 0, 1);
    CU_ASSERT_EQUAL(stream.flight_count, 1);
    CU_ASSERT_EQUAL(stream.acknowledged, 15);
}

static void
take_frames(struct frame_stream *stream, uint32_t count, uint64_t now)
{
    struct frame_piece piece;
    for (uint32_t i = 0; i < count; i++) {
        CU_ASSERT_EQUAL(offer(stream, stream->received, 10, 0), FRAME_NEXT);
        CU_ASSERT_TRUE(frame_stream_next(stream, &piece));
        frame_stream_advance(stream, &piece);
        CU_ASSERT_EQUAL(frame_stream_due(stream, now), 0); /* read, but not taken yet */
        frame_stream_take(stream, piece.end, now);
    }
}

static void
an_acknowledgement_is_due_when_idle_or_at_half_the_credit(void)
{
    struct frame_stream stream = stream_at(0, 6);

    take_frames(&stream, 1, 1);
    CU_ASSERT_EQUAL(frame_stream_due(&stream, 1), 0);
    CU_ASSERT_EQUAL(frame_stream_due(&stream, 5), 0);
    CU_ASSERT_EQUAL(frame_stream_due(&stream, 6), ENVELOPE_ACK);
    take_frames(&stream, 1, 1);
    CU_ASSERT_EQUAL(frame_stream_due(&stream, 1), 0);
    struct frame_piece piece;
    offer(&stream, stream.received, 10, 0);
    CU_ASSERT_TRUE(frame_stream_next(&stream, &piece));
    frame_stream_advance(&stream, &piece);
    frame_stream_take(&stream, piece.end, 1);
    CU_ASSERT_EQUAL(frame_stream_due(&stream, 1), ENVELOPE_ACK);
}

static void
a_data_frame_carries_the_acknowledgement_along(void)
{
    struct frame_stream stream = stream_at(0, 2);
    uint8_t out[FRAME_BYTES_MIN] = { 0 };
    struct envelope envelope;
    struct slice payload;

    take_frames(&stream, 1, 1);
    CU_ASSERT_EQUAL(frame_stream_due(&stream, 1), ENVELOPE_ACK);
    frame_stream_write(&stream, ENVELOPE_DATA, 7, out);
    CU_ASSERT_EQUAL(envelope_read(slice_of(out, ENVELOPE_BYTES + 7), &envelope, &payload), ENVELOPE_GOOD);
    CU_ASSERT_EQUAL(envelope.acknowledged, 10);
    CU_ASSERT_EQUAL(envelope.credit, 2);
    CU_ASSERT_EQUAL(envelope.offset, 0);
    CU_ASSERT_EQUAL(envelope.wire_id, 11);
    CU_ASSERT_EQUAL(envelope.incarnation, 22);
    CU_ASSERT_EQUAL(frame_stream_due(&stream, 1), ENVELOPE_ACK); /* writing is not sending */
    CU_ASSERT_EQUAL(stream.sent, 0);
    frame_stream_sent(&stream, ENVELOPE_DATA, 7, 1);
    CU_ASSERT_EQUAL(frame_stream_due(&stream, 1), 0);
    CU_ASSERT_EQUAL(stream.sent, 7);
}

static void
silence_asks_and_then_expires(void)
{
    struct frame_stream stream = stream_at(0, 4);
    struct envelope pong = { .kind = ENVELOPE_PONG, .incarnation = 22, .wire_id = 11, .credit = 4 };

    CU_ASSERT_EQUAL(frame_stream_due(&stream, 99), 0);
    CU_ASSERT_EQUAL(frame_stream_due(&stream, 100), ENVELOPE_PING);
    frame_stream_sent(&stream, ENVELOPE_PING, 0, 100);
    CU_ASSERT_EQUAL(frame_stream_due(&stream, 199), 0);
    CU_ASSERT_EQUAL(frame_stream_due(&stream, 200), ENVELOPE_PING);
    CU_ASSERT_FALSE(frame_stream_expired(&stream, 300));
    CU_ASSERT_TRUE(frame_stream_expired(&stream, 301));
    CU_ASSERT_EQUAL(frame_stream_receive(&stream, &pong, 0, 250), FRAME_TAKEN);
    CU_ASSERT_FALSE(frame_stream_expired(&stream, 550));
    pong.incarnation = 21; /* a stranger does not keep the session alive */
    CU_ASSERT_EQUAL(frame_stream_receive(&stream, &pong, 0, 540), FRAME_STALE);
    CU_ASSERT_TRUE(frame_stream_expired(&stream, 551));
    stream.config.lease = 0;
    CU_ASSERT_FALSE(frame_stream_expired(&stream, UINT64_MAX));
    CU_ASSERT_EQUAL(frame_stream_due(&stream, UINT64_MAX), 0);
}

static void
a_piece_missing_for_a_lease_expires_the_session_though_the_peer_talks(void)
{
    struct frame_stream stream = stream_at(0, 4);
    struct envelope late = data_frame(10, 10), ping = data_frame(0, 0);

    ping.kind = ENVELOPE_PING;
    CU_ASSERT_EQUAL(frame_stream_receive(&stream, &late, 0, 10), FRAME_AHEAD);
    CU_ASSERT_FALSE(frame_stream_expired(&stream, 10));
    CU_ASSERT_EQUAL(frame_stream_receive(&stream, &ping, 0, 310), FRAME_TAKEN);
    CU_ASSERT_FALSE(frame_stream_expired(&stream, 310));
    CU_ASSERT_TRUE(frame_stream_expired(&stream, 311));
    CU_ASSERT_EQUAL(offer(&stream, 0, 5, 1), FRAME_NEXT); /* half of it comes: the clock starts anew */
    stream.heard_at = 311;
    CU_ASSERT_FALSE(frame_stream_expired(&stream, 311));
    CU_ASSERT_FALSE(frame_stream_expired(&stream, 611));
    stream.heard_at = 612;
    CU_ASSERT_TRUE(frame_stream_expired(&stream, 612));
    CU_ASSERT_EQUAL(offer(&stream, 5, 5, 2), FRAME_NEXT);
    stream.heard_at = 612;
    CU_ASSERT_FALSE(frame_stream_expired(&stream, 900)); /* whole, though nobody has read it */
}

static void
a_lost_last_piece_is_noticed_by_the_next_ping(void)
{
    struct frame_stream stream = stream_at(0, 4);
    struct envelope ping = { .kind = ENVELOPE_PING, .incarnation = 22, .wire_id = 11, .credit = 4, .offset = 10 };

    CU_ASSERT_TRUE(frame_stream_is_whole(&stream));
    CU_ASSERT_EQUAL(frame_stream_receive(&stream, &ping, 0, 1), FRAME_TAKEN);
    CU_ASSERT_FALSE(frame_stream_is_whole(&stream));
    CU_ASSERT_FALSE(frame_stream_expired(&stream, 1));
    CU_ASSERT_EQUAL(frame_stream_receive(&stream, &ping, 0, 301), FRAME_TAKEN);
    CU_ASSERT_FALSE(frame_stream_expired(&stream, 301));
    CU_ASSERT_TRUE(frame_stream_expired(&stream, 302));
    CU_ASSERT_EQUAL(offer(&stream, 0, 10, 1), FRAME_NEXT); /* it was only late */
    stream.heard_at = 302;
    CU_ASSERT_FALSE(frame_stream_expired(&stream, 302));
    CU_ASSERT_TRUE(frame_stream_is_whole(&stream));
    ping.offset = 4 * PAYLOAD_MAX + 1; /* more than the credit allowed it to send */
    CU_ASSERT_EQUAL(frame_stream_receive(&stream, &ping, 0, 303), FRAME_BAD);
}

static void
a_ping_is_answered_once(void)
{
    struct frame_stream stream = stream_at(0, 4);
    struct envelope ping = { .kind = ENVELOPE_PING, .incarnation = 22, .wire_id = 11, .credit = 4 };

    frame_stream_receive(&stream, &ping, 0, 1);
    CU_ASSERT_EQUAL(frame_stream_due(&stream, 1), ENVELOPE_PONG);
    frame_stream_sent(&stream, ENVELOPE_PONG, 0, 1);
    CU_ASSERT_EQUAL(frame_stream_due(&stream, 1), 0);
}

static void
detach_and_error_end_the_session(void)
{
    struct frame_stream stream = stream_at(0, 4);
    struct envelope bye = { .kind = ENVELOPE_DETACH, .incarnation = 22, .wire_id = 11 };

    CU_ASSERT_EQUAL(frame_stream_receive(&stream, &bye, 0, 1), FRAME_ENDED);
    bye.kind = ENVELOPE_ERROR;
    bye.payload_bytes = PAYLOAD_MAX;
    CU_ASSERT_EQUAL(frame_stream_receive(&stream, &bye, 0, 1), FRAME_ENDED);
}

static void
resume_refuses_an_offset_that_was_acknowledged_or_never_sent(void)
{
    struct frame_stream stream = stream_at(100, 4);
    struct frame_config config = config_of(4, 4);

    frame_stream_sent(&stream, ENVELOPE_DATA, 50, 1);
    struct frame_stream before = stream;
    CU_ASSERT_FALSE(frame_stream_resume(&stream, &config, 99, 2));
    CU_ASSERT_FALSE(frame_stream_resume(&stream, &config, 151, 2));
    CU_ASSERT_EQUAL(memcmp(&stream, &before, sizeof(stream)), 0);
    CU_ASSERT_TRUE(frame_stream_resume(&stream, &config, 100, 2));
}

static void
resume_goes_on_where_the_peer_says_and_fences_the_old_incarnation(void)
{
    struct frame_stream stream = stream_at(0, 4);
    struct frame_config config = config_of(4, 3);
    struct frame_piece piece;
    uint32_t slot;

    for (uint32_t i = 0; i < 4; i++) {
        frame_stream_sent(&stream, ENVELOPE_DATA, 10, 1);
    }
    CU_ASSERT_EQUAL(offer(&stream, 0, 10, 5), FRAME_NEXT);
    CU_ASSERT_TRUE(frame_stream_next(&stream, &piece));
    frame_stream_advance(&stream, &piece); /* handed over, not taken when the peer is lost */
    CU_ASSERT_EQUAL(offer(&stream, 20, 10, 6), FRAME_AHEAD);
    CU_ASSERT_TRUE(frame_stream_drop_held(&stream, &slot));
    CU_ASSERT_EQUAL(slot, 6);
    CU_ASSERT_FALSE(frame_stream_drop_held(&stream, &slot));
    config.incarnation = 23;
    CU_ASSERT_TRUE(frame_stream_resume(&stream, &config, 25, 2));
    CU_ASSERT_EQUAL(stream.sent, 25);
    CU_ASSERT_EQUAL(stream.acknowledged, 25);
    CU_ASSERT_EQUAL(stream.flight_count, 0);
    CU_ASSERT_EQUAL(stream.received, 10);
    CU_ASSERT_EQUAL(offer(&stream, 10, 10, 1), FRAME_STALE);
    struct envelope again = data_frame(10, 10);
    again.incarnation = 23;
    again.acknowledged = 25;
    CU_ASSERT_EQUAL(frame_stream_receive(&stream, &again, 1, 2), FRAME_NEXT);
    stream.heard_at = 1000;
    CU_ASSERT_FALSE(frame_stream_expired(&stream, 1000)); /* what the old incarnation had sent is not missed */
    CU_ASSERT_FALSE(frame_stream_expired(&stream, 1300));
    stream.heard_at = 1301;
    CU_ASSERT_FALSE(frame_stream_expired(&stream, 1301));
    frame_stream_take(&stream, 10, 2); /* the reader lets go of the old frame now */
    CU_ASSERT_EQUAL(stream.taken, 10);
    CU_ASSERT_EQUAL(stream.taken_frames, 0);
}

/* ---- both ends over a network that reorders, repeats and refragments, with losses that break the session ---- */

#define WIRE_ROOM  256
#define WORLD_SEED 0x9e3779b97f4a7c15ull

struct wire_message {
    uint8_t bytes[FRAME_BYTES_MIN];
    uint32_t length;
    uint32_t to;
};

struct end {
    struct frame_stream stream;
    uint8_t slots[FRAME_WINDOW][FRAME_BYTES_MIN];
    bool used[FRAME_WINDOW];
    uint64_t read_sum, sent_limit;
};

struct world {
    struct end ends[2];
    struct wire_message wire[WIRE_ROOM];
    uint32_t wire_count;
    uint64_t random, now;
    uint32_t resumes;
};

static uint32_t
world_random(struct world *world, uint32_t below)
{
    world->random ^= world->random << 13;
    world->random ^= world->random >> 7;
    world->random ^= world->random << 17;
    return (uint32_t)((world->random >> 16) % below);
}

/* The byte of a stream at an offset: whoever reads knows what must be there. */
static uint8_t
byte_at(uint32_t from, uint64_t offset)
{
    return (uint8_t)((offset * 131 + offset / 251 + from * 17) & 0xff);
}

static void
world_put(struct world *world, uint32_t from, enum envelope_kind kind, uint32_t payload)
{
    struct end *end = &world->ends[from];
    struct wire_message *message = &world->wire[world->wire_count];

    frame_stream_write(&end->stream, kind, payload, message->bytes);
    for (uint32_t i = 0; i < payload; i++) {
        message->bytes[ENVELOPE_BYTES + i] = byte_at(from, end->stream.sent + i);
    }
    message->length = ENVELOPE_BYTES + payload;
    message->to = 1 - from;
    world->wire_count++;
    frame_stream_sent(&end->stream, kind, payload, world->now);
}

static void
world_send(struct world *world, uint32_t from)
{
    struct end *end = &world->ends[from];

    while (world->wire_count + 4 < WIRE_ROOM && frame_stream_may_send(&end->stream) &&
           end->stream.sent < end->sent_limit && world_random(world, 4) != 0) {
        uint64_t left = end->sent_limit - end->stream.sent;
        uint32_t most = (uint32_t)MIN(left, frame_stream_room(&end->stream));
        world_put(world, from, ENVELOPE_DATA, 1 + world_random(world, most));
    }
    uint8_t due = frame_stream_due(&end->stream, world->now);
    if (due != 0 && world->wire_count + 4 < WIRE_ROOM) {
        world_put(world, from, due, 0);
    }
}

static void
world_read(struct world *world, uint32_t at)
{
    struct end *end = &world->ends[at];
    struct frame_piece piece;

    while (frame_stream_next(&end->stream, &piece) && world_random(world, 3) != 0) {
        for (uint32_t i = 0; i < piece.bytes; i++) {
            uint8_t got = end->slots[piece.slot][ENVELOPE_BYTES + piece.skip + i];
            if (got != byte_at(1 - at, end->stream.received + i)) {
                CU_FAIL_FATAL("a byte is not the one that was sent");
            }
        }
        frame_stream_advance(&end->stream, &piece);
        end->used[piece.slot] = false;
        frame_stream_take(&end->stream, piece.end, world->now);
    }
}

static void
world_deliver(struct world *world)
{
    uint32_t pick = world_random(world, world->wire_count);
    struct wire_message message = world->wire[pick];
    struct end *end = &world->ends[message.to];
    struct envelope envelope;
    struct slice payload;
    uint32_t slot = 0;

    if (world_random(world, 8) != 0) { /* else: it comes again later */
        world->wire[pick] = world->wire[--world->wire_count];
    }
    while (slot < FRAME_WINDOW && end->used[slot]) {
        slot++;
    }
    CU_ASSERT_FATAL(slot < end->stream.config.credit + 1u); /* credit bounds the slots in use */
    memcpy(end->slots[slot], message.bytes, message.length);
    CU_ASSERT_EQUAL(envelope_read(slice_of(end->slots[slot], message.length), &envelope, &payload), ENVELOPE_GOOD);
    enum frame_verdict verdict = frame_stream_receive(&end->stream, &envelope, slot, world->now);
    CU_ASSERT_FATAL(verdict != FRAME_BAD && verdict != FRAME_ENDED);
    end->used[slot] = verdict == FRAME_NEXT || verdict == FRAME_AHEAD;
}

/* Some messages are lost, the rest stays on its way: both ends go on as the next incarnation. */
static void
world_break(struct world *world)
{
    struct frame_config config = world->ends[0].stream.config;
    uint32_t slot;

    world->wire_count -= world_random(world, world->wire_count + 1);
    config.incarnation++;
    config.peer_credit = config.credit;
    for (uint32_t i = 0; i < 2; i++) {
        while (frame_stream_drop_held(&world->ends[i].stream, &slot)) {
            world->ends[i].used[slot] = false;
        }
    }
    uint64_t received[2] = { world->ends[0].stream.received, world->ends[1].stream.received };
    CU_ASSERT_TRUE_FATAL(frame_stream_resume(&world->ends[0].stream, &config, received[1], world->now));
    CU_ASSERT_TRUE_FATAL(frame_stream_resume(&world->ends[1].stream, &config, received[0], world->now));
    world->resumes++;
}

static bool
world_done(const struct world *world)
{
    return world->ends[0].stream.received == world->ends[1].sent_limit &&
           world->ends[1].stream.received == world->ends[0].sent_limit;
}

static void
every_byte_comes_once_and_in_order_over_a_bad_network(void)
{
    uint32_t resumes = 0;

    for (uint64_t seed = 1; seed <= 300; seed++) {
        static struct world world;
        memset(&world, 0, sizeof(world));
        world.random = seed * WORLD_SEED;
        struct frame_config config = config_of((uint16_t)(1 + world_random(&world, 12)), 0);
        config.peer_credit = config.credit;
        for (uint32_t i = 0; i < 2; i++) {
            frame_stream_init(&world.ends[i].stream, &config, 0);
            world.ends[i].sent_limit = 1 + world_random(&world, 20000);
        }
        uint32_t turns = 0;
        for (; turns < 200000 && !world_done(&world); turns++) {
            uint32_t who = world_random(&world, 2);
            world.now++;
            world_send(&world, who);
            if (world.wire_count > 0) {
                world_deliver(&world);
            }
            world_read(&world, who);
            if (world_random(&world, 500) == 0) {
                world_break(&world);
            }
        }
        if (!world_done(&world)) {
            fprintf(stderr, "seed %lu does not end\n", (unsigned long)seed);
        }
        CU_ASSERT_TRUE(world_done(&world));
        resumes += world.resumes;
    }
    CU_ASSERT(resumes > 100); /* the network was as bad as meant */
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("frame_stream", NULL, NULL);
    CU_ADD_TEST(suite, a_frame_of_another_session_or_incarnation_changes_nothing);
    CU_ADD_TEST(suite, a_frame_that_breaks_the_rules_is_bad_and_changes_nothing);
    CU_ADD_TEST(suite, a_frame_that_ends_exactly_at_the_credit_is_kept);
    CU_ADD_TEST(suite, more_small_frames_than_the_credit_are_refused);
    CU_ADD_TEST(suite, frames_come_out_in_stream_order_whatever_order_they_came_in);
    CU_ADD_TEST(suite, offsets_wrap_at_two_to_the_64);
    CU_ADD_TEST(suite, a_frame_that_overlaps_is_trimmed_and_one_wholly_behind_is_dropped);
    CU_ADD_TEST(suite, a_kept_frame_that_another_one_made_useless_comes_back_empty);
    CU_ADD_TEST(suite, credit_is_the_same_in_whatever_order_acknowledgements_come);
    CU_ADD_TEST(suite, an_acknowledgement_inside_a_frame_keeps_that_frame_in_flight);
    CU_ADD_TEST(suite, a_smaller_credit_is_told_and_what_an_earlier_one_allowed_is_kept);
    CU_ADD_TEST(suite, an_acknowledgement_is_due_when_idle_or_at_half_the_credit);
    CU_ADD_TEST(suite, a_data_frame_carries_the_acknowledgement_along);
    CU_ADD_TEST(suite, silence_asks_and_then_expires);
    CU_ADD_TEST(suite, a_piece_missing_for_a_lease_expires_the_session_though_the_peer_talks);
    CU_ADD_TEST(suite, a_lost_last_piece_is_noticed_by_the_next_ping);
    CU_ADD_TEST(suite, a_ping_is_answered_once);
    CU_ADD_TEST(suite, detach_and_error_end_the_session);
    CU_ADD_TEST(suite, resume_refuses_an_offset_that_was_acknowledged_or_never_sent);
    CU_ADD_TEST(suite, resume_goes_on_where_the_peer_says_and_fences_the_old_incarnation);
    CU_ADD_TEST(suite, every_byte_comes_once_and_in_order_over_a_bad_network);
    CU_basic_set_mode(CU_BRM_NORMAL);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
