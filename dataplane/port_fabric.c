/* port_fabric.c - the fabric port's loop: what came, whom it is for, what time does to a session. */
#include "dataplane/port_fabric_private.h"

static void *
slot_token(uint32_t slot)
{
    return (void *)((uintptr_t)slot + 1); /* never NULL */
}

void
fabric_repost(struct fabric_port *port, uint32_t slot)
{
    if (LIKELY(port->rx_posted < fabric_rx_target(port)) && port->ops->post(port->endpoint, slot) == ENDPOINT_OK) {
        port->rx_posted++;
    } else {
        port->rx_unposted[port->rx_unposted_count++] = slot;
    }
}

static void
repost_rest(struct fabric_port *port)
{
    while (UNLIKELY(port->rx_posted < fabric_rx_target(port) && port->rx_unposted_count > 0)) {
        if (port->ops->post(port->endpoint, port->rx_unposted[port->rx_unposted_count - 1]) != ENDPOINT_OK) {
            return;
        }
        port->rx_unposted_count--;
        port->rx_posted++;
    }
}

static void
wait_to_deliver(struct fabric_port *port, struct fabric_session *fabric)
{
    if (!fabric->waiting) {
        fabric->waiting = true;
        fabric->waiting_next = NULL;
        *port->waiting_tail = fabric;
        port->waiting_tail = &fabric->waiting_next;
    }
}

static struct fabric_session *
take_waiting(struct fabric_port *port)
{
    struct fabric_session *fabric = port->waiting;
    port->waiting = fabric->waiting_next;
    if (port->waiting == NULL) {
        port->waiting_tail = &port->waiting;
    }
    fabric->waiting = false;
    return fabric;
}

/* The list may hold it anywhere: only sessions that die pay for the walk. */
static void
forget_waiting(struct fabric_port *port, struct fabric_session *fabric)
{
    struct fabric_session **at = &port->waiting;
    while (fabric->waiting && *at != fabric) {
        at = &(*at)->waiting_next;
    }
    if (fabric->waiting) {
        *at = fabric->waiting_next;
        if (*at == NULL) {
            port->waiting_tail = at;
        }
        fabric->waiting = false;
    }
}

void
fabric_drop_held(struct fabric_port *port, struct fabric_session *fabric)
{
    uint32_t slot;
    while (frame_stream_drop_held(&fabric->stream, &slot)) {
        fabric_repost(port, slot);
    }
}

void
fabric_lose(struct fabric_port *port, struct fabric_session *fabric, bool silent)
{
    struct fabric_seat *seat = fabric->seat;
    fabric->silent = silent && (seat->state == SEAT_ATTACHED || fabric->silent);
    if (seat->state != SEAT_ATTACHED) {
        return;
    }
    counter_add(&port->port.lcore->counters->fabric_lost, 1);
    seat->state = SEAT_LOST;
    fabric->lost_at = port->now;
    fabric->told_at = 0;
    fabric_drop_held(port, fabric);
    session_untouch_output(&fabric->session);
    if (silent) {
        fabric_say_fenced(port, fabric); /* the first thing it reads when it looks again */
    }
}

/* ---- receive ---- */

/* The session that a frame names, or NULL: a stranger. A source address alone identifies nobody (shm and rxd name some
 * peer for any sender): wire id and incarnation, 64 random bits, must be right as well; the stream compares the
 * incarnation. */
static struct fabric_session *
session_of_frame(const struct fabric_port *port, const struct envelope *envelope, uint64_t source)
{
    struct fabric_seat *seat = fabric_seat_by_wire(port, envelope->wire_id);

    if (seat == NULL || (seat->session->session.flags & SESSION_DEAD)) {
        return NULL;
    }
    if (port->info.source_reliable && source != seat->peer->peer) {
        return NULL;
    }
    return seat->session;
}

/* A frame of a fenced incarnation is dropped. Its client, which may have slept, is told; its good-bye counts. */
static void
receive_fenced(struct fabric_port *port, struct fabric_session *fabric, const struct envelope *envelope)
{
    counter_add(&port->port.lcore->counters->fabric_frames_stale, 1);
    if (envelope->incarnation != fabric->stream.config.incarnation) {
        return;
    }
    if (envelope->kind == ENVELOPE_DETACH) {
        session_kill(&fabric->session);
    } else {
        fabric_say_fenced(port, fabric);
    }
}

/* What the peer acknowledged is no longer kept, and there may be credit to send more. */
static void
hear_acknowledgement(struct fabric_session *fabric)
{
    struct session *session = &fabric->session;

    if (fabric->stream.acknowledged != session->out.acknowledged) {
        stream_out_acknowledge(&session->out, fabric->stream.acknowledged);
        session_output_shrank(session);
    }
    if (stream_out_unsent(&session->out) > 0 || fabric->stream.pong_due) {
        session_touch_output(session);
    }
}

static void
receive_frame(struct fabric_port *port, const struct endpoint_event *event)
{
    struct lcore_counters *counters = port->port.lcore->counters;
    struct slice message = slice_of(port->ops->rx_slot(port->endpoint, event->slot), event->bytes), payload;
    struct envelope envelope;

    counter_add(&counters->fabric_frames_rx, 1);
    if (UNLIKELY(envelope_read(message, &envelope, &payload) != ENVELOPE_GOOD)) {
        counter_add(&counters->fabric_frames_bad, 1);
        fabric_repost(port, event->slot);
        return;
    }
    struct fabric_session *fabric = session_of_frame(port, &envelope, event->peer);
    if (UNLIKELY(fabric == NULL)) {
        counter_add(&counters->fabric_frames_stale, 1);
        fabric_repost(port, event->slot);
        return;
    }
    if (UNLIKELY(fabric->seat->state != SEAT_ATTACHED)) {
        receive_fenced(port, fabric, &envelope);
        fabric_repost(port, event->slot);
        return;
    }
    enum frame_verdict verdict = frame_stream_receive(&fabric->stream, &envelope, event->slot, port->now);
    switch (verdict) {
    case FRAME_NEXT:
        wait_to_deliver(port, fabric);
        break;
    case FRAME_AHEAD:
        counter_add(&counters->fabric_frames_ahead, 1);
        break;
    case FRAME_BEHIND:
        counter_add(&counters->fabric_frames_behind, 1);
        fabric_repost(port, event->slot);
        break;
    case FRAME_TAKEN:
        fabric_repost(port, event->slot);
        break;
    case FRAME_ENDED:
        fabric_repost(port, event->slot);
        session_kill(&fabric->session); /* the peer wants no answer: it said good-bye */
        return;
    case FRAME_STALE:
        counter_add(&counters->fabric_frames_stale, 1);
        fabric_repost(port, event->slot);
        return;
    case FRAME_BAD:
        counter_add(&counters->fabric_frames_bad, 1);
        fabric_repost(port, event->slot);
        return;
    }
    hear_acknowledgement(fabric);
}

static void
handle_event(struct fabric_port *port, const struct endpoint_event *event)
{
    switch (event->kind) {
    case ENDPOINT_RECEIVED:
        port->rx_posted--;
        receive_frame(port, event);
        break;
    case ENDPOINT_RECEIVE_FAILED: /* too long for the slot, or its connection broke: whose it was nobody knows */
        port->rx_posted--;
        counter_add(&port->port.lcore->counters->fabric_frames_bad, 1);
        fabric_repost(port, event->slot);
        break;
    case ENDPOINT_SENT:
    case ENDPOINT_SEND_FAILED:
        fabric_send_completed(port, event);
        break;
    }
}

/* ---- deliver ----
 * Decoding happens in the receive slot. A slot is private memory that the provider copied the message into, on shm too:
 * from its completion until it is posted again no peer can write it. */

/* Take the next bytes off the stream: one frame, and small ones after it copied behind it in its slot, whose room is
 * ours. So a client that sends a request a frame still fills a burst. False: none. */
static bool
lend_next(struct fabric_port *port, struct fabric_session *fabric)
{
    struct frame_stream *stream = &fabric->stream;
    struct frame_piece piece;
    uint8_t *room_end = NULL;

    fabric->lent = NULL;
    while (frame_stream_next(stream, &piece)) {
        uint8_t *slot = port->ops->rx_slot(port->endpoint, piece.slot);
        uint8_t *bytes = slot + ENVELOPE_BYTES + piece.skip;
        if (fabric->lent == NULL && piece.bytes > 0) {
            fabric->lent = bytes;
            fabric->lent_bytes = piece.bytes;
            fabric->lent_slot = piece.slot;
            room_end = slot + port->info.frame_bytes;
            frame_stream_advance(stream, &piece);
            continue;
        }
        if (piece.bytes > FABRIC_MERGE_BYTES ||
            (fabric->lent != NULL && piece.bytes > room_end - (fabric->lent + fabric->lent_bytes))) {
            break;
        }
        if (piece.bytes > 0) {
            memcpy(fabric->lent + fabric->lent_bytes, bytes, piece.bytes);
            fabric->lent_bytes += piece.bytes;
        }
        frame_stream_advance(stream, &piece);
        fabric_repost(port, piece.slot);
    }
    if (fabric->lent == NULL) {
        return false;
    }
    fabric->lent_end = stream->received;
    fabric->lent_state = LENT_WAITS;
    return true;
}

/* Hand over what is next, when the session wants it. False: it does not now, ask again. */
static bool
deliver(struct fabric_port *port, struct fabric_session *fabric)
{
    if (fabric->lent_state == LENT_OUT) {
        return true; /* settle() asks again */
    }
    if (session_is_choked(&fabric->session)) {
        return (fabric->session.flags & SESSION_DEAD) != 0;
    }
    if (fabric->lent_state == LENT_NONE && !lend_next(port, fabric)) {
        return true;
    }
    if (!session_receive(&fabric->session, fabric->lent, fabric->lent_bytes, slot_token(fabric->lent_slot))) {
        return false;
    }
    fabric->lent_state = LENT_OUT;
    return true;
}

/* Returns the sessions that got bytes. */
static uint32_t
deliver_waiting(struct fabric_port *port)
{
    struct fabric_session *last = NULL; /* the first that was put back: where this turn's round ends */
    uint32_t delivered = 0;

    for (uint32_t i = 0; i < FABRIC_DELIVER_MAX && port->waiting != NULL && port->waiting != last; i++) {
        struct fabric_session *fabric = take_waiting(port);
        if (!deliver(port, fabric)) {
            wait_to_deliver(port, fabric);
            last = last == NULL ? fabric : last;
        }
        delivered += fabric->lent_state == LENT_OUT;
    }
    return delivered;
}

/* ---- port operations ---- */

static uint32_t
fabric_poll(struct port *base)
{
    struct fabric_port *port = fabric_port_of(base);
    struct endpoint_event events[FABRIC_EVENTS_BURST];

    port->now = port->now_base + (uint64_t)((double)base->lcore->now_cycles * port->us_per_cycle);
    port->tries = FABRIC_TRIES_A_TURN;
    uint32_t stashed = port->stash_count;
    port->stash_count = 0;
    for (uint32_t i = 0; i < stashed; i++) {
        handle_event(port, &port->stash[i]);
    }
    uint32_t count = port->ops->poll(port->endpoint, events, FABRIC_EVENTS_BURST);
    for (uint32_t i = 0; i < count; i++) {
        handle_event(port, &events[i]);
    }
    if (port->waiting != NULL) {
        count += deliver_waiting(port);
    }
    repost_rest(port);
    if (UNLIKELY(port->asks != NULL)) {
        fabric_serve_ask(port);
        count++;
    }
    return stashed + count;
}

static void
fabric_settle(struct port *base, struct session *session, void *token)
{
    struct fabric_port *port = fabric_port_of(base);
    struct fabric_session *fabric = fabric_session_of(session);

    assert(fabric->lent_state == LENT_OUT && token == slot_token(fabric->lent_slot));
    fabric->lent_state = LENT_NONE;
    fabric_repost(port, fabric->lent_slot);
    if (session->flags & SESSION_DEAD) {
        return;
    }
    frame_stream_take(&fabric->stream, fabric->lent_end, port->now);
    if (fabric->stream.held_count > 0) {
        wait_to_deliver(port, fabric);
    }
    if (fabric->seat->state == SEAT_ATTACHED && frame_stream_due(&fabric->stream, port->now) != 0) {
        session_touch_output(session);
    }
}

static void
fabric_session_close(struct port *base, struct session *session)
{
    struct fabric_port *port = fabric_port_of(base);
    struct fabric_session *fabric = fabric_session_of(session);
    struct lcore *lcore = base->lcore;

    if (fabric->seat->state == SEAT_ATTACHED) {
        fabric_say_goodbye(port, fabric);
    }
    forget_waiting(port, fabric);
    fabric_drop_held(port, fabric);
    if (fabric->lent_state == LENT_WAITS) {
        fabric_repost(port, fabric->lent_slot);
    }
    fabric_wire_leave(port, fabric->seat, fabric->stream.config.wire_id);
    fabric_seat_leave(port, fabric->seat);
    memory_give(lcore->memory, fabric, sizeof(*fabric));
}

/* A closing session whose replies are all sent waits for their acknowledgement, but not for a client that sleeps. */
static bool
is_done(struct fabric_port *port, struct fabric_session *fabric)
{
    if (!(fabric->session.flags & SESSION_CLOSING) || stream_out_unsent(&fabric->session.out) > 0) {
        fabric->done_at = 0;
        return false;
    }
    if (fabric->done_at == 0) {
        fabric->done_at = port->now;
    }
    return port->now - fabric->done_at > FABRIC_DONE_US;
}

/* What time does to one seat. */
static void
seat_tick(struct fabric_port *port, struct fabric_seat *seat)
{
    struct fabric_session *fabric = seat->session;

    if (seat->in_flight > 0 && !seat->overdue && port->now - seat->progress_at > FABRIC_OVERDUE_US) {
        fabric_overdue_set(port, seat, true);
    }
    if (seat->state == SEAT_LOST) {
        uint64_t wait = fabric->silent ? FABRIC_GRACE_SILENT_US(port->lease_us) : FABRIC_GRACE_US(port->lease_us);
        if (port->now - fabric->lost_at > wait) {
            session_kill(&fabric->session); /* from now on FABRIC RESUME answers SESSION_LOST */
        }
        return;
    }
    if (seat->state != SEAT_ATTACHED) {
        return;
    }
    if (UNLIKELY(fabric->stream.config.credit != fabric_credit(port))) {
        frame_stream_set_credit(&fabric->stream, fabric_credit(port));
    }
    if (UNLIKELY(is_done(port, fabric))) {
        session_kill(&fabric->session);
        return;
    }
    bool crowd = seat->overdue && port->overdue_in_flight > port->tx_cap;
    if (crowd || frame_stream_expired(&fabric->stream, port->now)) {
        /* What it was sent does not arrive, or is not even taken: that is more than silence. */
        bool stuck = seat->stuck_at != 0 && port->now - seat->stuck_at > port->lease_us / 3;
        fabric_lose(port, fabric, !seat->overdue && !stuck);
    } else if (frame_stream_due(&fabric->stream, port->now) != 0) {
        session_touch_output(&fabric->session);
    }
}

static void
fabric_tick(struct port *base)
{
    struct fabric_port *port = fabric_port_of(base);
    uint32_t count = MIN(port->seat_count, FABRIC_SEATS_A_TICK);

    for (uint32_t i = 0; i < count; i++) {
        struct fabric_seat *seat = &port->seats[port->seat_next];
        port->seat_next = port->seat_next + 1 == port->seat_count ? 0 : port->seat_next + 1;
        seat_tick(port, seat);
    }
}

static int
fabric_wait_fd(struct port *base)
{
    return -1;
}

const struct port_ops fabric_port_ops = {
    .poll = fabric_poll,
    .flush = fabric_flush,
    .settle = fabric_settle,
    .session_close = fabric_session_close,
    .tick = fabric_tick,
    .wait_fd = fabric_wait_fd,
    .close = fabric_port_close,
};

const struct port_settings *
port_fabric_settings(const struct port *port)
{
    return port->ops == &fabric_port_ops ? fabric_port_of(port)->settings : NULL;
}

uint32_t
port_fabric_sessions(const struct port *port)
{
    return load_relaxed(&fabric_port_of(port)->seats_used);
}

struct slice
port_fabric_address(const struct port *port)
{
    const struct endpoint_info *info = &fabric_port_of(port)->info;
    return slice_of(info->address, info->address_bytes);
}

uint32_t
port_fabric_sessions_max(const struct port *port)
{
    return fabric_port_of(port)->seat_count;
}

uint32_t
port_fabric_credit(const struct port *port)
{
    return fabric_credit(fabric_port_of(port));
}
