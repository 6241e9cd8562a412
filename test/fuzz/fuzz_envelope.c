/* fuzz_envelope.c - any messages against one end of a session over frames: slots are never lost or given twice, offsets
 * keep their order, credit is kept.
 *
 * The input is a list of steps. A step's first byte says what happens: a message as it stands, a message with the ids
 * and length put right, something the reader does, something the sender does, time. */
#include "codec/frame_stream.h"

#define SLOTS       (FRAME_WINDOW + 1)
#define FRAME_BYTES 512

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum slot_state { SLOT_FREE, SLOT_KEPT, SLOT_READ };

struct world {
    struct frame_stream stream;
    struct frame_config config;
    enum slot_state slots[SLOTS];
    uint64_t now;
    uint64_t read_end; /* of the piece being read, when one is */
    uint32_t read_slot;
    bool reading;
};

static uint32_t
slot_take(struct world *world)
{
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        if (world->slots[slot] == SLOT_FREE) {
            return slot;
        }
    }
    check_failed("credit bounds the slots in use", __FILE__, __LINE__);
}

static void
check_order(const struct world *world)
{
    const struct frame_stream *stream = &world->stream;
    uint32_t kept = 0;

    CHECK((int64_t)(stream->taken - stream->told) >= 0);
    CHECK((int64_t)(stream->received - stream->taken) >= 0);
    CHECK((int64_t)(stream->sent - stream->acknowledged) >= 0);
    CHECK(stream->held_count <= stream->config.credit);
    CHECK(stream->flight_count <= FRAME_WINDOW && stream->config.peer_credit <= FRAME_WINDOW);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        kept += world->slots[slot] == SLOT_KEPT;
    }
    CHECK(kept == stream->held_count);
    for (uint32_t i = 0; i + 1 < stream->held_count; i++) {
        CHECK((int64_t)(stream->held[i + 1].offset - stream->held[i].offset) >= 0);
    }
}

static void
receive(struct world *world, uint8_t *message, size_t bytes, bool put_right)
{
    struct envelope envelope;
    struct slice payload;

    if (put_right && bytes >= ENVELOPE_BYTES) {
        memcpy(&envelope, message, sizeof(envelope));
        envelope.wire_id = world->config.wire_id;
        envelope.incarnation = world->config.incarnation;
        envelope.kind = (uint8_t)(1 + envelope.kind % 4);
        envelope.payload_bytes = (uint16_t)(bytes - ENVELOPE_BYTES);
        envelope.offset = world->stream.received + envelope.offset % 4096 - 512;
        envelope.acknowledged = world->stream.acknowledged + envelope.acknowledged % 1024 - 64;
        envelope_write(message, &envelope);
    }
    if (envelope_read(slice_of(message, bytes), &envelope, &payload) != ENVELOPE_GOOD) {
        return;
    }
    CHECK(payload.bytes == bytes - ENVELOPE_BYTES);
    uint32_t slot = slot_take(world);
    enum frame_verdict verdict = frame_stream_receive(&world->stream, &envelope, slot, world->now);
    if (verdict == FRAME_NEXT || verdict == FRAME_AHEAD) {
        world->slots[slot] = SLOT_KEPT;
    }
}

static void
read_step(struct world *world)
{
    struct frame_piece piece;

    if (world->reading) {
        frame_stream_take(&world->stream, world->read_end, world->now);
        world->slots[world->read_slot] = SLOT_FREE;
        world->reading = false;
        return;
    }
    if (!frame_stream_next(&world->stream, &piece)) {
        return;
    }
    CHECK(piece.slot < SLOTS && world->slots[piece.slot] == SLOT_KEPT);
    CHECK(piece.end == world->stream.received + piece.bytes);
    CHECK(ENVELOPE_BYTES + piece.skip + piece.bytes <= FRAME_BYTES);
    frame_stream_advance(&world->stream, &piece);
    world->slots[piece.slot] = piece.bytes > 0 ? SLOT_READ : SLOT_FREE;
    if (piece.bytes > 0) {
        world->reading = true;
        world->read_slot = piece.slot;
        world->read_end = piece.end;
    }
}

static void
send_step(struct world *world, uint32_t size)
{
    uint8_t out[ENVELOPE_BYTES];
    uint8_t due = frame_stream_due(&world->stream, world->now);

    if (size % 4 == 0 && due != 0) {
        frame_stream_write(&world->stream, (enum envelope_kind)due, 0, out);
        frame_stream_sent(&world->stream, (enum envelope_kind)due, 0, world->now);
    } else if (frame_stream_may_send(&world->stream)) {
        uint32_t payload = 1 + size % frame_stream_room(&world->stream);
        frame_stream_write(&world->stream, ENVELOPE_DATA, payload, out);
        frame_stream_sent(&world->stream, ENVELOPE_DATA, payload, world->now);
    }
}

static void
resume_step(struct world *world, uint8_t back)
{
    struct frame_stream *stream = &world->stream;
    uint64_t peer_taken = stream->sent - back;
    uint32_t slot;

    if (!frame_stream_can_resume(stream, peer_taken)) {
        return;
    }
    while (frame_stream_drop_held(stream, &slot)) {
        CHECK(world->slots[slot] == SLOT_KEPT);
        world->slots[slot] = SLOT_FREE;
    }
    world->config.incarnation++;
    CHECK(frame_stream_resume(stream, &world->config, peer_taken, world->now));
    CHECK(stream->sent == peer_taken && stream->flight_count == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct world world;
    uint8_t message[FRAME_BYTES];

    if (bytes < 2) {
        return 0;
    }
    memset(&world, 0, sizeof(world));
    world.config = (struct frame_config){
        .wire_id = 1,
        .incarnation = 2,
        .frame_bytes = FRAME_BYTES,
        .peer_frame_bytes = FRAME_BYTES,
        .credit = (uint16_t)(1 + data[0] % FRAME_WINDOW),
        .peer_credit = data[1],
        .lease = 300,
        .ack_delay = 3,
    };
    frame_stream_init(&world.stream, &world.config, 0);
    for (size_t at = 2; at + 2 <= bytes;) {
        uint8_t what = data[at], size = data[at + 1];
        size_t length = MIN(MIN((size_t)size * 2, sizeof(message)), bytes - at - 2);
        at += 2;
        switch (what % 8) {
        case 0:
        case 1:
        case 2:
            memcpy(message, data + at, length);
            receive(&world, message, length, what % 8 != 0);
            at += length;
            break;
        case 3:
        case 4:
            read_step(&world);
            break;
        case 5:
            send_step(&world, size);
            break;
        case 6:
            world.now += size;
            (void)frame_stream_expired(&world.stream, world.now);
            break;
        case 7:
            resume_step(&world, size);
            break;
        }
        check_order(&world);
    }
    return 0;
}
