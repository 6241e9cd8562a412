#include "tools/client/fabric_end.h"
#include <errno.h>

#define EVENTS_BURST 16
#define TRIES        64 /* polls for one frame that the provider told to try again, before it waits */
#define ACK_DELAY_US 1000
#define NO_SLOT      UINT32_MAX

/* ---- open, close ---- */

/* Endpoint and what depends on it. On error nothing is open. */
static int
endpoint_open(struct fabric_end *end, const struct endpoint_config *config, struct endpoint **out, char *why,
              size_t why_bytes)
{
    struct endpoint_config own = *config;

    own.rx_slots = FABRIC_END_SLOTS;
    own.tx_slots = FABRIC_END_SLOTS;
    return end->ops->open(&own, out, why, why_bytes);
}

static void
endpoint_use(struct fabric_end *end, struct endpoint *endpoint)
{
    end->endpoint = endpoint;
    end->ops->info(endpoint, &end->info);
    end->has_peer = false;
    end->rx_unposted_count = 0;
    end->tx_free_count = 0;
    for (uint32_t slot = 0; slot < FABRIC_END_SLOTS; slot++) {
        end->tx_free[end->tx_free_count++] = slot;
    }
}

int
fabric_end_open(struct fabric_end *end, const struct endpoint_ops *ops, const struct endpoint_config *config, char *why,
                size_t why_bytes)
{
    struct endpoint *endpoint;

    *end = (struct fabric_end){ .ops = ops, .send = config->send };
    int rc = endpoint_open(end, config, &endpoint, why, why_bytes);
    if (rc != 0) {
        return rc;
    }
    endpoint_use(end, endpoint);
    end->out = malloc(FABRIC_END_OUT_BYTES);
    end->frame = aligned_alloc(CACHE_LINE, ALIGN_UP(end->info.frame_bytes, CACHE_LINE));
    end->carry = malloc(end->info.frame_bytes);
    if (end->out == NULL || end->frame == NULL || end->carry == NULL) {
        snprintf(why, why_bytes, "no memory");
        fabric_end_close(end);
        return -ENOMEM;
    }
    return 0;
}

int
fabric_end_reopen(struct fabric_end *end, const struct endpoint_config *config, char *why, size_t why_bytes)
{
    struct endpoint_config same = *config;
    struct endpoint *endpoint;

    assert(end->state == FABRIC_END_LOST);
    same.frame_bytes = end->info.frame_bytes; /* buffers have this size */
    int rc = endpoint_open(end, &same, &endpoint, why, why_bytes);
    if (rc != 0) {
        return rc;
    }
    if (end->read_at != NULL && end->read_slot != NO_SLOT) {
        memcpy(end->carry, end->read_at, end->read_left);
        end->read_at = end->carry;
        end->read_slot = NO_SLOT;
    }
    end->ops->close(end->endpoint);
    endpoint_use(end, endpoint);
    return 0;
}

struct slice
fabric_end_address(const struct fabric_end *end)
{
    return slice_of(end->info.address, end->info.address_bytes);
}

static struct frame_config
config_of(const struct fabric_end *end, const struct fabric_attachment *attachment)
{
    return (struct frame_config){
        .wire_id = attachment->wire_id,
        .incarnation = attachment->incarnation,
        .frame_bytes = MIN(end->info.frame_bytes, attachment->frame_bytes),
        .peer_frame_bytes = end->info.frame_bytes,
        .credit = FABRIC_END_CREDIT,
        .peer_credit = (uint16_t)MIN(attachment->credit, FRAME_WINDOW),
        .lease = attachment->lease_ms * 1000,
        .ack_delay = ACK_DELAY_US,
    };
}

/* The server's address: inserted before the one of its former incarnation goes, which may be the same. */
static int
peer_set(struct fabric_end *end, const struct fabric_attachment *attachment)
{
    uint64_t peer;

    if (end->has_peer && end->attachment.address_bytes == attachment->address_bytes &&
        memcmp(end->attachment.address, attachment->address, attachment->address_bytes) == 0) {
        return 0;
    }
    int rc = end->ops->peer_insert(end->endpoint, attachment->address, attachment->address_bytes, &peer);
    if (rc != 0) {
        return rc;
    }
    if (end->has_peer) {
        end->ops->peer_remove(end->endpoint, end->peer);
    }
    end->peer = peer;
    end->has_peer = true;
    return 0;
}

static bool
attachment_is_sound(const struct fabric_attachment *attachment)
{
    return attachment->frame_bytes >= FRAME_BYTES_MIN && attachment->frame_bytes <= UINT16_MAX &&
           attachment->credit >= 1;
}

int
fabric_end_attach(struct fabric_end *end, const struct fabric_attachment *attachment, uint64_t now)
{
    assert(end->state == FABRIC_END_IDLE);
    if (!attachment_is_sound(attachment)) {
        return -EPROTO;
    }
    int rc = peer_set(end, attachment);
    if (rc != 0) {
        return rc;
    }
    struct frame_config config = config_of(end, attachment);
    frame_stream_init(&end->stream, &config, now);
    end->attachment = *attachment;
    end->state = FABRIC_END_UP;
    return 0;
}

static void
repost(struct fabric_end *end, uint32_t slot)
{
    if (end->ops->post(end->endpoint, slot) != ENDPOINT_OK) {
        end->rx_unposted[end->rx_unposted_count++] = slot;
    }
}

static void
lose(struct fabric_end *end, const char *why)
{
    uint32_t slot;

    if (end->state == FABRIC_END_UP) {
        end->state = FABRIC_END_LOST;
        snprintf(end->error, sizeof(end->error), "%s", why);
        while (frame_stream_drop_held(&end->stream, &slot)) {
            repost(end, slot);
        }
    }
}

int
fabric_end_resume(struct fabric_end *end, const struct fabric_attachment *attachment, uint64_t now)
{
    assert(end->state == FABRIC_END_LOST);
    if (!attachment_is_sound(attachment) || !frame_stream_can_resume(&end->stream, attachment->taken)) {
        return -EPROTO;
    }
    int rc = peer_set(end, attachment);
    if (rc != 0) {
        return rc;
    }
    struct frame_config config = config_of(end, attachment);
    frame_stream_resume(&end->stream, &config, attachment->taken, now);
    end->attachment = *attachment;
    end->state = FABRIC_END_UP;
    end->error[0] = '\0';
    return 0;
}

/* ---- receive ---- */

/* A good-bye may overtake the last replies. */
static void
end_when_whole(struct fabric_end *end)
{
    if (end->ending && frame_stream_is_whole(&end->stream)) {
        end->state = FABRIC_END_ENDED;
    }
}

static void
receive_frame(struct fabric_end *end, const struct endpoint_event *event, uint64_t now)
{
    struct slice message = slice_of(end->ops->rx_slot(end->endpoint, event->slot), event->bytes), payload;
    struct envelope envelope;

    if (end->state != FABRIC_END_UP || envelope_read(message, &envelope, &payload) != ENVELOPE_GOOD ||
        (end->info.source_reliable && event->peer != end->peer)) {
        repost(end, event->slot);
        return;
    }
    switch (frame_stream_receive(&end->stream, &envelope, event->slot, now)) {
    case FRAME_NEXT:
    case FRAME_AHEAD:
        end_when_whole(end);
        return; /* the stream holds the slot */
    case FRAME_ENDED:
        if (slice_equal(payload, SLICE_LITERAL(ENVELOPE_FENCED))) {
            lose(end, "the server did not hear from this client for too long");
            break;
        }
        end->ending = true;
        if (payload.bytes == 0) {
            payload = SLICE_LITERAL("the server ended the session");
        }
        snprintf(end->error, sizeof(end->error), "%.*s", (int)MIN(payload.bytes, sizeof(end->error) - 1),
                 (const char *)payload.data);
        end_when_whole(end);
        break;
    case FRAME_BEHIND:
    case FRAME_TAKEN:
    case FRAME_STALE:
    case FRAME_BAD:
        break;
    }
    repost(end, event->slot);
}

static void
handle_event(struct fabric_end *end, const struct endpoint_event *event, uint64_t now)
{
    char text[sizeof(end->error)];

    switch (event->kind) {
    case ENDPOINT_RECEIVED:
        receive_frame(end, event, now);
        break;
    case ENDPOINT_RECEIVE_FAILED:
        repost(end, event->slot);
        break;
    case ENDPOINT_SEND_FAILED:
        if (end->state == FABRIC_END_UP && end->tx_incarnation[event->slot] == end->stream.config.incarnation) {
            snprintf(text, sizeof(text), "a send failed: %s", strerror(event->error));
            lose(end, text);
        }
        end->tx_free[end->tx_free_count++] = event->slot;
        break;
    case ENDPOINT_SENT:
        end->tx_free[end->tx_free_count++] = event->slot;
        break;
    }
}

static uint32_t
poll_events(struct fabric_end *end, uint64_t now)
{
    struct endpoint_event events[EVENTS_BURST];
    uint32_t count = end->ops->poll(end->endpoint, events, EVENTS_BURST);

    for (uint32_t i = 0; i < count; i++) {
        handle_event(end, &events[i], now);
    }
    while (end->rx_unposted_count > 0 &&
           end->ops->post(end->endpoint, end->rx_unposted[end->rx_unposted_count - 1]) == ENDPOINT_OK) {
        end->rx_unposted_count--;
    }
    return count;
}

/* ---- send ---- */

static void
out_copy(const struct fabric_end *end, uint64_t from, uint8_t *to, uint32_t bytes)
{
    uint32_t at = (uint32_t)(from % FABRIC_END_OUT_BYTES);
    uint32_t first = MIN(bytes, FABRIC_END_OUT_BYTES - at);

    memcpy(to, end->out + at, first);
    memcpy(to + first, end->out, bytes - first);
}

/* AGAIN: not now, nothing changed. */
static enum endpoint_status
send_once(struct fabric_end *end, enum envelope_kind kind, uint32_t payload_bytes)
{
    uint32_t bytes = ENVELOPE_BYTES + payload_bytes;
    bool inject = end->send != ENDPOINT_SEND_SEND && bytes <= end->info.inject_bytes;

    if (!inject && end->tx_free_count == 0) {
        return ENDPOINT_AGAIN;
    }
    uint32_t slot = inject ? 0 : end->tx_free[end->tx_free_count - 1];
    uint8_t *frame = inject ? end->frame : end->ops->tx_slot(end->endpoint, slot);
    frame_stream_write(&end->stream, kind, payload_bytes, frame);
    out_copy(end, end->stream.sent, frame + ENVELOPE_BYTES, payload_bytes);
    if (inject) {
        return end->ops->inject(end->endpoint, end->peer, frame, bytes);
    }
    enum endpoint_status status = end->ops->send(end->endpoint, end->peer, slot, bytes);
    if (status == ENDPOINT_OK) {
        end->tx_free_count--;
        end->tx_incarnation[slot] = end->stream.config.incarnation;
    }
    return status;
}

/* False: it did not go. */
static bool
send_frame(struct fabric_end *end, enum envelope_kind kind, uint32_t payload_bytes, uint64_t now)
{
    enum endpoint_status status = ENDPOINT_AGAIN;

    for (uint32_t i = 0; i < TRIES; i++) {
        status = send_once(end, kind, payload_bytes);
        if (status != ENDPOINT_AGAIN) {
            break;
        }
        poll_events(end, now); /* nothing gets better without */
        if (end->state != FABRIC_END_UP || (kind == ENVELOPE_DATA && !frame_stream_may_send(&end->stream))) {
            return false; /* what came took the session, or the credit */
        }
    }
    if (status == ENDPOINT_OK) {
        frame_stream_sent(&end->stream, kind, payload_bytes, now);
    } else if (status == ENDPOINT_FAILED) {
        lose(end, "the server cannot be reached");
    }
    return status == ENDPOINT_OK;
}

static void
flush(struct fabric_end *end, uint64_t now)
{
    uint32_t room = end->state == FABRIC_END_UP ? frame_stream_room(&end->stream) : 0;

    while (end->state == FABRIC_END_UP && end->stream.sent != end->out_end && frame_stream_may_send(&end->stream)) {
        if (!send_frame(end, ENVELOPE_DATA, (uint32_t)MIN(end->out_end - end->stream.sent, room), now)) {
            return;
        }
    }
    for (uint32_t i = 0; i < 2 && end->state == FABRIC_END_UP; i++) { /* a PONG, and what else is due */
        uint8_t kind = frame_stream_due(&end->stream, now);
        if (kind == 0 || !send_frame(end, (enum envelope_kind)kind, 0, now)) {
            return;
        }
    }
}

/* ---- bytes ---- */

size_t
fabric_end_room(const struct fabric_end *end)
{
    return FABRIC_END_OUT_BYTES - (end->out_end - end->stream.acknowledged);
}

size_t
fabric_end_write(struct fabric_end *end, const void *data, size_t bytes, uint64_t now)
{
    size_t taken = MIN(bytes, fabric_end_room(end));
    uint32_t at = (uint32_t)(end->out_end % FABRIC_END_OUT_BYTES);
    size_t first = MIN(taken, FABRIC_END_OUT_BYTES - at);

    memcpy(end->out + at, data, first);
    memcpy(end->out, (const uint8_t *)data + first, taken - first);
    end->out_end += taken;
    flush(end, now);
    return taken;
}

void
fabric_end_progress(struct fabric_end *end, uint64_t now)
{
    poll_events(end, now);
    if (end->state == FABRIC_END_UP && frame_stream_expired(&end->stream, now)) {
        lose(end, "the server is silent");
    }
    flush(end, now);
}

bool
fabric_end_has_bytes(const struct fabric_end *end)
{
    struct frame_piece piece;
    return end->read_at != NULL || frame_stream_next(&end->stream, &piece);
}

/* Begin the next piece. False: none. */
static bool
read_begin(struct fabric_end *end)
{
    struct frame_piece piece;

    while (frame_stream_next(&end->stream, &piece)) {
        frame_stream_advance(&end->stream, &piece);
        if (piece.bytes > 0) {
            end->read_slot = piece.slot;
            end->read_at = end->ops->rx_slot(end->endpoint, piece.slot) + ENVELOPE_BYTES + piece.skip;
            end->read_left = piece.bytes;
            end->read_stream_end = piece.end;
            return true;
        }
        repost(end, piece.slot);
    }
    return false;
}

size_t
fabric_end_read(struct fabric_end *end, void *data, size_t room, uint64_t now)
{
    size_t copied = 0;

    if (!fabric_end_has_bytes(end)) { /* frames that wait for the one before are none */
        fabric_end_progress(end, now);
    }
    while (copied < room && (end->read_at != NULL || read_begin(end))) {
        uint32_t bytes = (uint32_t)MIN(room - copied, end->read_left);
        memcpy((uint8_t *)data + copied, end->read_at, bytes);
        copied += bytes;
        end->read_at += bytes;
        end->read_left -= bytes;
        if (end->read_left == 0) {
            end->read_at = NULL;
            if (end->read_slot != NO_SLOT) {
                repost(end, end->read_slot);
            }
            frame_stream_take(&end->stream, end->read_stream_end, now);
        }
    }
    if (copied > 0 && end->state == FABRIC_END_UP && frame_stream_due(&end->stream, now) != 0) {
        flush(end, now);
    }
    return copied;
}

void
fabric_end_describe(const struct fabric_end *end, uint64_t now, char *text, size_t text_bytes)
{
    static const char *const states[] = { "idle", "up", "lost", "ended" };
    const struct frame_stream *stream = &end->stream;

    snprintf(text, text_bytes,
             "session %llu is %s; unsent %llu, unacknowledged %llu bytes in %u frames, credit %u, free send slots %u; "
             "held %u frames, missing %llu bytes; heard %llu ms ago",
             (unsigned long long)end->attachment.session, states[end->state],
             (unsigned long long)(end->out_end - stream->sent),
             (unsigned long long)(stream->sent - stream->acknowledged), stream->flight_count,
             stream->config.peer_credit, end->tx_free_count, stream->held_count,
             (unsigned long long)(stream->known_end - stream->received),
             (unsigned long long)(now - stream->heard_at) / 1000);
}

void
fabric_end_close(struct fabric_end *end)
{
    if (end->endpoint != NULL) {
        if (end->state == FABRIC_END_UP) {
            struct endpoint_event events[EVENTS_BURST];
            enum endpoint_status status = send_once(end, ENVELOPE_DETACH, 0);
            /* a provider that only queues needs a few polls to put it on its way */
            for (uint32_t i = 0; i < TRIES; i++) {
                end->ops->poll(end->endpoint, events, EVENTS_BURST);
                if (status == ENDPOINT_AGAIN) {
                    status = send_once(end, ENVELOPE_DETACH, 0);
                }
            }
        }
        end->ops->close(end->endpoint);
    }
    free(end->out);
    free(end->frame);
    free(end->carry);
    *end = (struct fabric_end){ .state = FABRIC_END_ENDED };
}
