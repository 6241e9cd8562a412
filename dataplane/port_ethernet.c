#include "dataplane/port_ethernet_private.h"
#include <sys/uio.h>

static struct ethernet_session *
ethernet_session_of(struct session *session)
{
    return CONTAINER_OF(session, struct ethernet_session, session);
}

static struct ethernet_port *
port_of(const struct ethernet_session *ethernet)
{
    return ethernet_port_of(ethernet->session.port);
}

/* ---- sessions with something to hand over ---- */

static void
wait_to_deliver(struct ethernet_port *port, struct ethernet_session *ethernet)
{
    if (!ethernet->waiting) {
        ethernet->waiting = true;
        ethernet->waiting_next = NULL;
        *port->waiting_tail = ethernet;
        port->waiting_tail = &ethernet->waiting_next;
        port->waiting_count++;
    }
}

static struct ethernet_session *
take_waiting(struct ethernet_port *port)
{
    struct ethernet_session *ethernet = port->waiting;
    port->waiting = ethernet->waiting_next;
    if (port->waiting == NULL) {
        port->waiting_tail = &port->waiting;
    }
    ethernet->waiting = false;
    port->waiting_count--;
    return ethernet;
}

/* The list may hold it anywhere: only sessions that die pay for the walk. */
static void
forget_waiting(struct ethernet_port *port, struct ethernet_session *ethernet)
{
    struct ethernet_session **at = &port->waiting;
    while (ethernet->waiting && *at != ethernet) {
        at = &(*at)->waiting_next;
    }
    if (ethernet->waiting) {
        *at = ethernet->waiting_next;
        if (*at == NULL) {
            port->waiting_tail = at;
        }
        ethernet->waiting = false;
        port->waiting_count--;
    }
}

/* ---- what the stack tells ---- */

static char *
print_number(char *at, uint32_t number)
{
    uint32_t power = 1;
    while (number / power >= 10) {
        power *= 10;
    }
    for (; power > 0; power /= 10) {
        *at++ = (char)('0' + number / power % 10);
    }
    return at;
}

/* "10.0.0.2:6379" */
static void
print_name(char out[64], const uint8_t address[4], uint16_t port)
{
    char *at = out;
    for (int i = 0; i < 4; i++) {
        at = print_number(at, address[i]);
        *at++ = i < 3 ? '.' : ':';
    }
    *print_number(at, port) = '\0';
}

static void *
ethernet_accepted(void *context, struct ethernet_connection *connection, const struct ethernet_peer *peer)
{
    struct ethernet_port *port = context;
    struct lcore *lcore = port->port.lcore;
    struct ethernet_session *ethernet = stream_door_take(&lcore->reserve);
    static_assert(sizeof(*ethernet) <= STREAM_DOOR_BYTES, "a door is as large as a session");

    if (ethernet == NULL) {
        counter_add(&lcore->counters->sessions_refused, 1);
        return NULL;
    }
    memset(ethernet, 0, sizeof(*ethernet));
    if (load_relaxed(&lcore->state) == LCORE_DRAIN || !session_open(&ethernet->session, lcore, &port->port)) {
        stream_door_give(&lcore->reserve, ethernet);
        return NULL;
    }
    ethernet->connection = connection;
    ethernet->frames_tail = &ethernet->frames;
    print_name(ethernet->session.peer, peer->address, peer->port);
    print_name(ethernet->session.local, peer->local, peer->local_port);
    return ethernet;
}

/* A session that takes what comes holds nothing for long; one that does not may hold its share. */
static bool
ethernet_room(void *owner, uint32_t frames, uint32_t share)
{
    const struct ethernet_session *ethernet = owner;
    return ethernet->frame_count == 0 || ethernet->frame_count + frames <= share;
}

static void
frame_append(struct ethernet_port *port, struct ethernet_session *ethernet, struct ethernet_frame *frame)
{
    if (frame->bytes <= ETHERNET_MERGE_BYTES && ethernet->frames != NULL) {
        struct ethernet_frame *last = CONTAINER_OF(ethernet->frames_tail, struct ethernet_frame, next);
        if (last->room >= frame->bytes) {
            memcpy(last->data + last->bytes, frame->data, frame->bytes);
            last->bytes += frame->bytes;
            last->room -= frame->bytes;
            port->ops->frame_give(port->ethernet, frame);
            return;
        }
    }
    frame->next = NULL;
    *ethernet->frames_tail = frame;
    ethernet->frames_tail = &frame->next;
    ethernet->frame_count++;
}

static void
ethernet_received(void *owner, struct ethernet_frame *frames)
{
    struct ethernet_session *ethernet = owner;
    struct ethernet_port *port = port_of(ethernet);

    while (frames != NULL) {
        struct ethernet_frame *next = frames->next;
        frame_append(port, ethernet, frames);
        frames = next;
    }
    wait_to_deliver(port, ethernet);
}

static void
ethernet_acknowledged(void *owner, uint64_t offset)
{
    struct ethernet_session *ethernet = owner;
    struct session *session = &ethernet->session;

    if (session->flags & SESSION_DEAD) {
        return;
    }
    stream_out_acknowledge(&session->out, offset);
    if (stream_out_unsent(&session->out) > 0) {
        session_touch_output(session); /* there is room again */
    }
    session_output_shrank(session);
}

static void
ethernet_ended(void *owner)
{
    struct ethernet_session *ethernet = owner;
    ethernet->ended = true;
    wait_to_deliver(port_of(ethernet), ethernet);
}

static void
ethernet_lost(void *owner)
{
    struct ethernet_session *ethernet = owner;
    ethernet->connection = NULL;
    session_kill(&ethernet->session);
}

const struct ethernet_handlers ethernet_port_handlers = {
    .accepted = ethernet_accepted,
    .room = ethernet_room,
    .received = ethernet_received,
    .acknowledged = ethernet_acknowledged,
    .ended = ethernet_ended,
    .lost = ethernet_lost,
};

/* ---- receive ---- */

static void
bytes_taken(struct ethernet_port *port, struct ethernet_session *ethernet, size_t bytes)
{
    if (ethernet->connection != NULL) {
        port->ops->taken(ethernet->connection, bytes);
    }
}

static struct ethernet_frame *
frame_shift(struct ethernet_session *ethernet)
{
    struct ethernet_frame *frame = ethernet->frames;
    ethernet->frames = frame->next;
    if (ethernet->frames == NULL) {
        ethernet->frames_tail = &ethernet->frames;
    }
    ethernet->frame_count--;
    return frame;
}

/* A large request is gathered in the session's own buffer. Returns whether there was one. */
static bool
deliver_into_room(struct ethernet_port *port, struct ethernet_session *ethernet)
{
    struct session *session = &ethernet->session;
    size_t room, copied = 0;
    uint8_t *into = session_receive_room(session, &room);

    if (into == NULL) {
        return false;
    }
    if (room == 0) {
        return true; /* the frames wait */
    }
    while (ethernet->frames != NULL && copied < room) {
        struct ethernet_frame *frame = ethernet->frames;
        uint32_t bytes = (uint32_t)MIN(room - copied, frame->bytes);
        bytes_copy(into + copied, frame->data, bytes);
        copied += bytes;
        frame->data += bytes;
        frame->bytes -= bytes;
        if (frame->bytes == 0) {
            port->ops->frame_give(port->ethernet, frame_shift(ethernet));
        }
    }
    session_received(session, copied);
    bytes_taken(port, ethernet, copied);
    return true;
}

/* Hand over what the session takes now. False: it waits for another turn. */
static bool
deliver(struct ethernet_port *port, struct ethernet_session *ethernet)
{
    struct session *session = &ethernet->session;

    if (session->flags & (SESSION_DEAD | SESSION_EOF)) {
        return true; /* what is left goes with it */
    }
    if (session_is_choked(session)) {
        return false;
    }
    if (ethernet->frames != NULL && !deliver_into_room(port, ethernet)) {
        struct ethernet_frame *frame = ethernet->frames;
        if (!session_receive(session, frame->data, frame->bytes, frame)) {
            return (session->flags & SESSION_DEAD) != 0;
        }
        frame_shift(ethernet);
        return ethernet->frames == NULL && !ethernet->ended;
    }
    if (ethernet->frames == NULL && ethernet->ended && !session_is_choked(session)) {
        session_end_of_input(session);
        return true;
    }
    return ethernet->frames == NULL && !ethernet->ended;
}

static void
deliver_waiting(struct ethernet_port *port)
{
    uint32_t count = MIN(port->waiting_count, ETHERNET_DELIVER_MAX);

    for (uint32_t i = 0; i < count; i++) {
        struct ethernet_session *ethernet = take_waiting(port);
        if (!deliver(port, ethernet)) {
            wait_to_deliver(port, ethernet);
        }
    }
}

static uint32_t
ethernet_poll(struct port *base)
{
    struct ethernet_port *port = ethernet_port_of(base);
    uint32_t events = port->ops->poll(port->ethernet);

    if (port->waiting != NULL) {
        deliver_waiting(port);
    }
    return events;
}

/* ---- send ---- */

static uint32_t
flush_session(struct ethernet_port *port, struct ethernet_session *ethernet)
{
    struct session *session = &ethernet->session;
    struct stream_out *out = &session->out;
    struct iovec pieces[ETHERNET_PIECES];
    size_t bytes = 0, written = 0;
    bool again = false;

    if (ethernet->connection == NULL || (session->flags & SESSION_DEAD)) {
        session_untouch_output(session);
        return 0;
    }
    uint32_t count = stream_out_pieces(out, out->sent, pieces, ETHERNET_PIECES, &bytes);
    if (bytes > 0) {
        written = port->ops->write(ethernet->connection, pieces, count, &again);
        out->sent += written;
        counter_add(&port->port.lcore->counters->tx_bytes, written);
    }
    bool all = stream_out_unsent(out) == 0;
    if (all || (written < bytes && !again)) {
        session_untouch_output(session); /* an acknowledgement tells when there is room */
    }
    if (all && (session->flags & SESSION_CLOSING)) {
        port->ops->finish(ethernet->connection);
    }
    return written > 0;
}

static uint32_t
ethernet_flush(struct port *base)
{
    struct ethernet_port *port = ethernet_port_of(base);
    uint32_t events = 0;

    for (struct session *session = base->dirty; session != NULL;) {
        struct session *next = session->dirty_next;
        events += flush_session(port, ethernet_session_of(session));
        session = next;
    }
    port->ops->flush(port->ethernet);
    return events;
}

/* ---- the rest ---- */

static void
ethernet_settle(struct port *base, struct session *session, void *slot)
{
    struct ethernet_port *port = ethernet_port_of(base);
    struct ethernet_session *ethernet = ethernet_session_of(session);
    struct ethernet_frame *frame = slot;

    bytes_taken(port, ethernet, frame->bytes);
    port->ops->frame_give(port->ethernet, frame);
}

static void
ethernet_session_close(struct port *base, struct session *session)
{
    struct ethernet_port *port = ethernet_port_of(base);
    struct ethernet_session *ethernet = ethernet_session_of(session);
    struct lcore *lcore = base->lcore;

    forget_waiting(port, ethernet);
    while (ethernet->frames != NULL) {
        port->ops->frame_give(port->ethernet, frame_shift(ethernet));
    }
    if (ethernet->connection != NULL) {
        port->ops->release(ethernet->connection);
    }
    stream_door_give(&lcore->reserve, ethernet);
}

static void
counters_take(struct ethernet_port *port)
{
    struct lcore_counters *counters = port->port.lcore->counters;
    struct ethernet_stats stats;

    port->ops->count(port->ethernet, &stats);
    store_relaxed(&counters->ethernet_rx_packets, stats.rx_packets);
    store_relaxed(&counters->ethernet_tx_packets, stats.tx_packets);
    store_relaxed(&counters->ethernet_rx_bytes, stats.rx_bytes);
    store_relaxed(&counters->ethernet_tx_bytes, stats.tx_bytes);
    store_relaxed(&counters->ethernet_tx_dropped, stats.tx_dropped);
    store_relaxed(&counters->ethernet_checksum_errors, stats.checksum_errors);
    store_relaxed(&counters->ethernet_malformed, stats.malformed);
    store_relaxed(&counters->ethernet_retransmits, stats.retransmits);
    store_relaxed(&counters->ethernet_resets_sent, stats.resets_sent);
    store_relaxed(&counters->ethernet_half_open_evicted, stats.syn_evicted);
    store_relaxed(&counters->ethernet_leaving_evicted, stats.connections_evicted);
    store_relaxed(&counters->ethernet_refused_bytes, stats.receive_refused);
    store_relaxed(&counters->ethernet_connections, stats.connections);
    store_relaxed(&counters->ethernet_frames_held, stats.frames_used);
    store_relaxed(&counters->ethernet_segments, stats.segments_used);
    store_relaxed(&counters->ethernet_capture_dropped, load_relaxed(&port->capture.dropped));
}

static void
ethernet_tick(struct port *base)
{
    struct ethernet_port *port = ethernet_port_of(base);
    struct lcore *lcore = base->lcore;

    if (UNLIKELY(port->listening && load_relaxed(&lcore->state) == LCORE_DRAIN)) {
        port->listening = false;
        port->ops->listen(port->ethernet, false);
    }
    port->ops->tick(port->ethernet, port->now_base_ms + (uint64_t)((double)lcore->now_cycles * port->ms_per_cycle));
    counters_take(port);
}

static int
ethernet_wait_fd(struct port *base)
{
    return -1;
}

const struct port_ops ethernet_port_ops = {
    .poll = ethernet_poll,
    .flush = ethernet_flush,
    .settle = ethernet_settle,
    .session_close = ethernet_session_close,
    .tick = ethernet_tick,
    .wait_fd = ethernet_wait_fd,
    .close = ethernet_port_close,
    .refresh = ethernet_port_refresh,
};
