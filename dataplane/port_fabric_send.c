/* port_fabric_send.c - the sending half of the fabric port: frames out, send slots and their shares.
 *
 * Every seat owns a share of the send slots. A session may have more, up to an eighth of all, as long as every other
 * seat could still get its share: clients that stopped reading hold what they hold, and nobody else waits for it. */
#include "dataplane/port_fabric_private.h"

/* ---- slots ---- */

void
fabric_overdue_set(struct fabric_port *port, struct fabric_seat *seat, bool overdue)
{
    if (seat->overdue != overdue) {
        seat->overdue = overdue;
        port->overdue_in_flight += overdue ? seat->in_flight : 0 - seat->in_flight;
    }
}

/* False: no slot for this session now. */
static bool
slot_take(struct fabric_port *port, struct fabric_session *fabric, uint32_t *slot)
{
    struct fabric_seat *seat = fabric->seat;

    if (seat->in_flight >= port->tx_share) {
        if (seat->in_flight >= port->tx_cap || port->tx_free_count <= port->tx_reserved) {
            return false;
        }
    } else {
        port->tx_reserved--;
    }
    assert(port->tx_free_count > 0);
    *slot = port->tx_free[--port->tx_free_count];
    if (seat->in_flight == 0) {
        seat->progress_at = port->now;
    }
    seat->in_flight++;
    port->overdue_in_flight += seat->overdue;
    seat->peer->uses++;
    port->tx_owners[*slot] = (struct fabric_owner){
        .seat = seat,
        .peer = seat->peer,
        .incarnation = fabric->stream.config.incarnation,
    };
    return true;
}

static void
slot_give(struct fabric_port *port, uint32_t slot)
{
    struct fabric_owner *owner = &port->tx_owners[slot];
    struct fabric_seat *seat = owner->seat;

    port->overdue_in_flight -= seat->overdue;
    seat->in_flight--;
    if (seat->in_flight < port->tx_share) {
        port->tx_reserved++;
    }
    port->tx_free[port->tx_free_count++] = slot;
    fabric_peer_release(port, owner->peer);
    owner->seat = NULL;
}

void
fabric_send_completed(struct fabric_port *port, const struct endpoint_event *event)
{
    struct fabric_owner owner = port->tx_owners[event->slot];

    if (owner.seat == NULL) {
        return; /* a completion that came twice: the slot is free already */
    }
    slot_give(port, event->slot);
    struct fabric_seat *seat = owner.seat;
    seat->progress_at = port->now;
    fabric_overdue_set(port, seat, false);
    if (seat->state == SEAT_DRAINING) {
        fabric_seat_leave(port, seat);
        return;
    }
    if (event->kind == ENDPOINT_SEND_FAILED) {
        counter_add(&port->port.lcore->counters->fabric_send_errors, 1);
        /* A late failure of a fenced incarnation says nothing about the one after it. */
        if (seat->session != NULL && seat->session->stream.config.incarnation == owner.incarnation) {
            fabric_lose(port, seat->session, false);
        }
    }
    if (seat->state == SEAT_ATTACHED && stream_out_unsent(&seat->session->session.out) > 0) {
        session_touch_output(&seat->session->session);
    }
}

/* ---- one frame ---- */

/* The provider said: try again. Read its CQ, without which nothing gets better, and keep what came for the next poll.
 * False: enough tried for this turn. */
static bool
try_again(struct fabric_port *port)
{
    struct endpoint_event events[FABRIC_EVENTS_BURST];

    counter_add(&port->port.lcore->counters->fabric_eagain, 1);
    if (port->tries == 0) {
        return false;
    }
    port->tries--;
    uint32_t room = MIN(port->info.rx_slots + port->info.tx_slots - port->stash_count, FABRIC_EVENTS_BURST);
    uint32_t count = port->ops->poll(port->endpoint, events, room);
    for (uint32_t i = 0; i < count; i++) {
        port->stash[port->stash_count++] = events[i];
    }
    return true;
}

static enum endpoint_status
send_injected(struct fabric_port *port, struct fabric_session *fabric, uint32_t bytes)
{
    enum endpoint_status status = ENDPOINT_AGAIN;

    for (uint32_t i = 0; i < FABRIC_TRIES && status == ENDPOINT_AGAIN; i++) {
        status = port->ops->inject(port->endpoint, fabric->seat->peer->peer, port->inject_frame, bytes);
        if (LIKELY(status != ENDPOINT_AGAIN) || !try_again(port)) {
            break;
        }
    }
    if (status == ENDPOINT_OK) {
        counter_add(&port->port.lcore->counters->injects, 1);
    }
    return status;
}

static enum endpoint_status
send_slot(struct fabric_port *port, struct fabric_session *fabric, uint32_t slot, uint32_t bytes)
{
    enum endpoint_status status = ENDPOINT_AGAIN;

    for (uint32_t i = 0; i < FABRIC_TRIES && status == ENDPOINT_AGAIN; i++) {
        status = port->ops->send(port->endpoint, fabric->seat->peer->peer, slot, bytes);
        if (LIKELY(status != ENDPOINT_AGAIN) || !try_again(port)) {
            break;
        }
    }
    if (status != ENDPOINT_OK) {
        slot_give(port, slot); /* nothing was sent: no completion comes */
    }
    return status;
}

/* A provider that says `again` for long may do so for ever (net, when its peer is gone: measured), and every try costs:
 * the pauses grow with the time that it has lasted. */
static void
note_progress(struct fabric_port *port, struct fabric_seat *seat, enum endpoint_status status)
{
    if (LIKELY(status != ENDPOINT_AGAIN)) {
        seat->stuck_at = 0;
        return;
    }
    if (seat->stuck_at == 0) {
        seat->stuck_at = port->now;
    }
    seat->retry_at = port->now + MIN((port->now - seat->stuck_at) / 8, FABRIC_RETRY_MAX_US);
}

/* Send one frame of `kind` with the next `payload_bytes` of the out-stream, or of `text` when there is one. AGAIN: not
 * now, nothing changed. */
static enum endpoint_status
send_frame(struct fabric_port *port, struct fabric_session *fabric, enum envelope_kind kind, uint32_t payload_bytes,
           const char *text)
{
    struct lcore_counters *counters = port->port.lcore->counters;
    struct stream_out *out = &fabric->session.out;
    uint32_t bytes = ENVELOPE_BYTES + payload_bytes, slot = 0;
    /* A PING is sent, not injected: only its completion tells a dead peer from one that is busy. */
    bool may_inject = port->send == ENDPOINT_SEND_INJECT || (port->send == ENDPOINT_SEND_AUTO && kind != ENVELOPE_PING);
    bool inject = may_inject && bytes <= port->info.inject_bytes;
    uint8_t *frame = port->inject_frame;

    if (!inject) {
        if (!slot_take(port, fabric, &slot)) {
            return ENDPOINT_AGAIN;
        }
        frame = port->ops->tx_slot(port->endpoint, slot);
    }
    frame_stream_write(&fabric->stream, kind, payload_bytes, frame);
    if (UNLIKELY(text != NULL)) {
        memcpy(frame + ENVELOPE_BYTES, text, payload_bytes);
    } else if (payload_bytes > 0) {
        size_t copied = stream_out_copy(out, out->sent, frame + ENVELOPE_BYTES, payload_bytes);
        assert(copied == payload_bytes);
        (void)copied;
    }
    enum endpoint_status status = inject ? send_injected(port, fabric, bytes) : send_slot(port, fabric, slot, bytes);
    note_progress(port, fabric->seat, status);
    if (status == ENDPOINT_OK) {
        frame_stream_sent(&fabric->stream, kind, payload_bytes, port->now);
        counter_add(&counters->fabric_frames_tx, 1);
        if (kind == ENVELOPE_DATA) {
            out->sent += payload_bytes;
            counter_add(&counters->tx_bytes, payload_bytes);
        }
    } else if (status == ENDPOINT_FAILED) {
        counter_add(&counters->fabric_send_errors, 1);
        fabric_lose(port, fabric, false);
    }
    return status;
}

void
fabric_say_goodbye(struct fabric_port *port, struct fabric_session *fabric)
{
    (void)send_frame(port, fabric, ENVELOPE_DETACH, 0, NULL); /* if it does not go, the lease tells the peer */
}

void
fabric_say_fenced(struct fabric_port *port, struct fabric_session *fabric)
{
    if (fabric->told_at != 0 && port->now - fabric->told_at < FABRIC_TELL_US) {
        return;
    }
    fabric->told_at = port->now;
    (void)send_frame(port, fabric, ENVELOPE_ERROR, sizeof(ENVELOPE_FENCED) - 1, ENVELOPE_FENCED);
}

/* ---- flush ---- */

/* Bytes the out-stream may still send now, one frame at a time. Returns false when the provider or the slots, not the
 * peer, say stop: the session stays on the dirty list. */
static bool
flush_data(struct fabric_port *port, struct fabric_session *fabric, uint32_t *frames)
{
    struct stream_out *out = &fabric->session.out;
    uint32_t room = frame_stream_room(&fabric->stream);

    /* Bounded by the credit. */
    while (stream_out_unsent(out) > 0 && frame_stream_may_send(&fabric->stream)) {
        uint32_t bytes = (uint32_t)MIN(stream_out_unsent(out), room);
        enum endpoint_status status = send_frame(port, fabric, ENVELOPE_DATA, bytes, NULL);
        if (status != ENDPOINT_OK) {
            return status == ENDPOINT_FAILED;
        }
        (*frames)++;
    }
    return true;
}

static bool
flush_control(struct fabric_port *port, struct fabric_session *fabric, uint32_t *frames)
{
    uint8_t kind = frame_stream_due(&fabric->stream, port->now);

    if (kind == 0) {
        return true;
    }
    enum endpoint_status status = send_frame(port, fabric, (enum envelope_kind)kind, 0, NULL);
    *frames += status == ENDPOINT_OK;
    return status != ENDPOINT_AGAIN;
}

static uint32_t
flush_session(struct fabric_port *port, struct fabric_session *fabric)
{
    struct session *session = &fabric->session;
    uint32_t frames = 0;

    if (fabric->seat->state != SEAT_ATTACHED || (session->flags & SESSION_DEAD)) {
        session_untouch_output(session);
        return 0;
    }
    if (UNLIKELY(fabric->seat->stuck_at != 0 && port->now < fabric->seat->retry_at)) {
        return 0;
    }
    /* An overdue peer keeps what it has in flight; it gets more only while all overdue ones hold less than an eighth.
     */
    if (fabric->seat->overdue && port->overdue_in_flight >= port->tx_cap) {
        return 0;
    }
    bool sent = flush_data(port, fabric, &frames);
    if (fabric->seat->state == SEAT_ATTACHED && sent) {
        sent = flush_control(port, fabric, &frames);
    }
    if (sent) {
        session_untouch_output(session); /* credit or a completion touches it again */
        session_output_shrank(session);
    }
    return frames;
}

uint32_t
fabric_flush(struct port *base)
{
    struct fabric_port *port = fabric_port_of(base);
    uint32_t frames = 0;

    for (struct session *session = base->dirty; session != NULL;) {
        struct session *next = session->dirty_next;
        frames += flush_session(port, fabric_session_of(session));
        session = next;
    }
    return frames;
}
