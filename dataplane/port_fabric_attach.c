/* port_fabric_attach.c - FABRIC ATTACH, RESUME and DETACH at the owning lcore. */
#include "codec/number.h"
#include "dataplane/port_fabric_private.h"
#include <errno.h>
#include <sodium.h>

#define ATTACH_WAIT_MS 5000 /* for a populated page, which takes the management core milliseconds */

static struct fabric_port *
first_fabric_port(struct lcore *lcore)
{
    for (uint32_t i = 0; i < lcore->port_count; i++) {
        if (lcore->ports[i]->ops == &fabric_port_ops) {
            return fabric_port_of(lcore->ports[i]);
        }
    }
    return NULL;
}

static void
answer_insert_error(struct lcore *lcore, struct later *later, int rc)
{
    fabric_answer_error(lcore, later,
                        rc == -EINVAL   ? "ERR these bytes are no address of this port's provider"
                        : rc == -ELOOP  ? "ERR this address is the server's own"
                        : rc == -ENOSPC ? "ERR the provider's address vector is full"
                                        : "ERR the provider does not accept this address");
}

/* ---- ATTACH ---- */

/* Trailing options: CREDIT n, FRAME n. */
struct attach_options {
    int64_t credit, frame_bytes;
};

static bool
options_read(const struct later *later, uint32_t from, struct attach_options *options)
{
    for (uint32_t i = from; i + 1 < later->args_count; i += 2) {
        bool is_credit = slice_equal_nocase(later->args[i], "credit");
        bool is_frame = slice_equal_nocase(later->args[i], "frame");
        if ((!is_credit && !is_frame) ||
            !number_parse_int64(later->args[i + 1], is_credit ? &options->credit : &options->frame_bytes)) {
            return false;
        }
    }
    return (later->args_count - from) % 2 == 0 && options->credit >= 1 && options->credit <= UINT16_MAX &&
           options->frame_bytes >= FRAME_BYTES_MIN && options->frame_bytes <= UINT16_MAX;
}

static struct frame_config
session_config(struct fabric_port *port, const struct attach_options *options)
{
    struct frame_config config = {
        .frame_bytes = MIN(port->info.frame_bytes, (uint32_t)options->frame_bytes),
        .peer_frame_bytes = port->info.frame_bytes,
        .credit = fabric_credit(port),
        .peer_credit = (uint16_t)MIN(options->credit, FRAME_WINDOW),
        .lease = port->lease_us,
        .ack_delay = FABRIC_ACK_DELAY_US,
    };
    fabric_draw_ids(port, &config);
    return config;
}

/* "shm:fi_shm://..." or "net:" and hex digits, cut to what fits. */
static void
print_peer(char *out, size_t room, const char *provider, struct slice address)
{
    size_t used = strnlen(provider, room - 2);
    bool is_text = true;

    memcpy(out, provider, used);
    out[used++] = ':';
    for (size_t i = 0; i < address.bytes; i++) {
        bool end = i + 1 == address.bytes && address.data[i] == 0;
        is_text = is_text && (end || (address.data[i] > ' ' && address.data[i] < 127));
    }
    size_t count = MIN(address.bytes, (room - 1 - used) / (is_text ? 1 : 2));
    if (is_text) {
        memcpy(out + used, address.data, count);
        used += count;
    } else {
        fabric_hex_print(out + used, address.data, count);
        used += 2 * count;
    }
    out[used] = '\0';
}

static bool
wire_read(struct slice text, enum wire *wire)
{
    if (slice_equal_nocase(text, "resp2")) {
        *wire = WIRE_RESP2;
    } else if (slice_equal_nocase(text, "resp3")) {
        *wire = WIRE_RESP3;
    } else if (slice_equal_nocase(text, "sbe")) {
        *wire = WIRE_SBE;
    } else {
        return false;
    }
    return true;
}

/* The session sits down in a free seat. False: limits.clients. */
static bool
session_sit(struct fabric_port *port, const struct later *later, struct fabric_session *fabric,
            struct fabric_peer *peer, enum wire wire)
{
    struct lcore *lcore = port->port.lcore;
    struct session *session = &fabric->session;

    memset(fabric, 0, sizeof(*fabric));
    if (!session_open(session, lcore, &port->port)) {
        return false;
    }
    session->user = later->user;
    session->flags |= lcore->settings->user_count > 0 ? SESSION_AUTHENTICATED : 0;
    if (wire != WIRE_SBE) {
        session_set_wire(session, wire); /* an SBE stream says so itself, by its magic */
    }
    print_peer(session->peer, sizeof(session->peer), port->info.provider, slice_of(peer->address, peer->address_bytes));
    static_assert(sizeof(session->local) >= sizeof(port->settings->name), "a port's name fits");
    memcpy(session->local, port->settings->name, sizeof(port->settings->name));

    struct fabric_seat *seat = port->free_seats;
    port->free_seats = seat->wire_next;
    *seat = (struct fabric_seat){ .state = SEAT_ATTACHED, .peer = peer, .session = fabric };
    fabric->seat = seat;
    fabric_draw(port, fabric->secret, sizeof(fabric->secret));
    store_relaxed(&port->seats_used, load_relaxed(&port->seats_used) + 1);
    counter_add(&lcore->counters->fabric_attaches, 1);
    counter_add(&lcore->counters->sessions_fabric, 1);
    return true;
}

/* All seats are taken: the session that has been lost longest makes room. Its seat is free next turn, if no send to its
 * peer is in flight. */
static bool
make_room(struct fabric_port *port)
{
    struct fabric_session *oldest = NULL;

    for (uint32_t i = 0; i < port->seat_count; i++) {
        struct fabric_session *fabric = port->seats[i].session;
        if (port->seats[i].state != SEAT_LOST) {
            continue;
        }
        uint64_t least = fabric->silent ? FABRIC_GRACE_US(port->lease_us) : FABRIC_CROWDED_US(port->lease_us);
        if (port->now - fabric->lost_at > least && (oldest == NULL || fabric->lost_at < oldest->lost_at)) {
            oldest = fabric;
        }
    }
    if (oldest == NULL) {
        return false;
    }
    session_kill(&oldest->session);
    return true;
}

/* Once more next turn, before the others. */
static void
ask_again(struct lcore *lcore, struct later *later)
{
    struct fabric_port *first = first_fabric_port(lcore);

    later->a++;
    later->next = first->asks;
    if (first->asks == NULL) {
        first->asks_tail = &later->next;
    }
    first->asks = later;
}

/* No memory for a session: told at the limit; a page that is still being populated is waited for, behind the other
 * questions, which may give some back. */
static void
wait_for_memory(struct lcore *lcore, struct later *later)
{
    bool at_limit = memory_refusal(lcore->memory) == MEMORY_AT_LIMIT;

    later->b = later->b != 0 ? later->b : (uint64_t)lcore->now_ms;
    bool too_long = lcore->now_ms - (int64_t)later->b > ATTACH_WAIT_MS;
    if (at_limit || too_long || load_relaxed(&later->cancelled)) {
        fabric_answer_error(lcore, later, at_limit ? ERROR_OOM : ERROR_BUSY);
        return;
    }
    port_fabric_later(lcore, later);
}

/* The peer's address goes into the AV, and it gets a seat. False: `later` is answered, nothing is kept. */
static bool
session_attach(struct fabric_port *port, struct later *later, struct fabric_session *fabric, struct slice address,
               enum wire wire)
{
    struct lcore *lcore = port->port.lcore;
    struct fabric_peer *peer = NULL;

    int rc = fabric_peer_take(port, address, &peer);
    if (rc != 0) {
        answer_insert_error(lcore, later, rc);
        return false;
    }
    if (!session_sit(port, later, fabric, peer, wire)) {
        fabric_peer_release(port, peer);
        fabric_answer_error(lcore, later, "ERR max number of clients reached");
        return false;
    }
    return true;
}

/* FABRIC ATTACH port address wire [CREDIT frames] [FRAME bytes] */
static void
serve_attach(struct fabric_port *port, struct later *later)
{
    struct lcore *lcore = port->port.lcore;
    struct attach_options options = { .credit = 1, .frame_bytes = port->info.frame_bytes };
    uint8_t bytes[ENDPOINT_ADDRESS_BYTES];
    struct slice address;
    enum wire wire;

    if (!fabric_address_read(later->args[2], bytes, &address)) {
        fabric_answer_error(lcore, later, "ERR an address is at most 256 raw bytes, or 0x and hex digits");
        return;
    }
    if (!wire_read(later->args[3], &wire) || !options_read(later, 4, &options)) {
        fabric_answer_error(lcore, later,
                            "ERR syntax: FABRIC ATTACH port address resp2|resp3|sbe [CREDIT frames] [FRAME bytes]");
        return;
    }
    if (load_relaxed(&lcore->state) == LCORE_DRAIN) {
        fabric_answer_error(lcore, later, "ERR the server is shutting down");
        return;
    }
    if (port->free_seats == NULL && later->a == 0 && make_room(port)) {
        ask_again(lcore, later);
        return;
    }
    if (port->free_seats == NULL) {
        counter_add(&lcore->counters->sessions_refused, 1);
        fabric_answer_error(lcore, later,
                            "ERR no receive slots are left on this fabric port: all its sessions are taken");
        return;
    }
    struct fabric_session *fabric = memory_take(lcore->memory, sizeof(*fabric));
    if (fabric == NULL) {
        wait_for_memory(lcore, later);
        return;
    }
    if (!session_attach(port, later, fabric, address, wire)) {
        memory_give(lcore->memory, fabric, sizeof(*fabric));
        return;
    }
    struct frame_config config = session_config(port, &options);
    frame_stream_init(&fabric->stream, &config, port->now);
    fabric_wire_enter(port, fabric->seat, config.wire_id);
    fabric_answer_session(port, later, fabric);
}

/* ---- RESUME, DETACH ---- */

/* The session of `FABRIC x id secret`, whoever knows its secret and is the same user. NULL: none, whatever the reason:
 * nobody learns which ids exist. */
static struct fabric_session *
session_of_secret(struct lcore *lcore, const struct later *later)
{
    uint8_t secret[FABRIC_SECRET_BYTES];
    int64_t id;

    if (!number_parse_int64(later->args[1], &id) || !fabric_hex_read(later->args[2], secret, sizeof(secret))) {
        return NULL;
    }
    struct session *session = session_by_id(lcore, (uint64_t)id);
    if (session == NULL || session->port->ops != &fabric_port_ops) {
        return NULL;
    }
    struct fabric_session *fabric = fabric_session_of(session);
    if (sodium_memcmp(secret, fabric->secret, sizeof(secret)) != 0 || session->user != later->user ||
        (session->flags & SESSION_CLOSING)) {
        return NULL;
    }
    return fabric;
}

#define SESSION_LOST_ERROR                                                                                             \
    "SESSION_LOST no such session: it expired, ended or was another server's; requests not answered may or may not "   \
    "have been executed"

/* The old incarnation is fenced first: from here on its frames are stale, whether they are late or its peer lives. */
static void
session_resume(struct fabric_port *port, struct fabric_session *fabric, struct fabric_peer *peer,
               const struct attach_options *options, uint64_t peer_taken)
{
    struct fabric_seat *seat = fabric->seat;
    struct stream_out *out = &fabric->session.out;

    fabric_drop_held(port, fabric);
    struct frame_config config = session_config(port, options);
    fabric_wire_leave(port, seat, fabric->stream.config.wire_id);
    bool resumed = frame_stream_resume(&fabric->stream, &config, peer_taken, port->now);
    assert(resumed);
    (void)resumed;
    fabric_wire_enter(port, seat, config.wire_id);
    fabric_peer_release(port, seat->peer);
    seat->peer = peer;
    seat->state = SEAT_ATTACHED;
    seat->progress_at = port->now;
    seat->stuck_at = 0;
    fabric_overdue_set(port, seat, false);

    stream_out_acknowledge(out, peer_taken);
    out->sent = peer_taken; /* what the old incarnation sent beyond it goes out again */
    session_output_shrank(&fabric->session);
    session_touch_output(&fabric->session);
    print_peer(fabric->session.peer, sizeof(fabric->session.peer), port->info.provider,
               slice_of(peer->address, peer->address_bytes));
}

/* FABRIC RESUME id secret address taken [CREDIT frames] [FRAME bytes] */
static void
serve_resume(struct lcore *lcore, struct later *later)
{
    struct fabric_session *fabric = session_of_secret(lcore, later);
    uint8_t bytes[ENDPOINT_ADDRESS_BYTES];
    struct fabric_peer *peer = NULL;
    struct slice address;
    int64_t taken;

    if (fabric == NULL) {
        fabric_answer_error(lcore, later, SESSION_LOST_ERROR);
        return;
    }
    struct fabric_port *port = fabric_port_of(fabric->session.port);
    struct attach_options options = { .credit = 1, .frame_bytes = port->info.frame_bytes };
    if (!fabric_address_read(later->args[3], bytes, &address) || !number_parse_int64(later->args[4], &taken) ||
        !options_read(later, 5, &options)) {
        fabric_answer_error(lcore, later,
                            "ERR syntax: FABRIC RESUME session secret address taken [CREDIT frames] [FRAME bytes]");
        return;
    }
    if (!frame_stream_can_resume(&fabric->stream, (uint64_t)taken)) {
        fabric_answer_error(lcore, later,
                            "ERR `taken` is not an offset between what was acknowledged and what was sent");
        return;
    }
    int rc = fabric_peer_take(port, address, &peer);
    if (rc != 0) {
        answer_insert_error(lcore, later, rc);
        return;
    }
    session_resume(port, fabric, peer, &options, (uint64_t)taken);
    counter_add(&lcore->counters->fabric_resumes, 1);
    fabric_answer_session(port, later, fabric);
}

/* FABRIC DETACH id secret */
static void
serve_detach(struct lcore *lcore, struct later *later)
{
    struct fabric_session *fabric = session_of_secret(lcore, later);

    if (fabric == NULL) {
        fabric_answer_error(lcore, later, SESSION_LOST_ERROR);
        return;
    }
    session_kill(&fabric->session);
    fabric_answer_ok(lcore, later);
}

/* ---- mail ---- */

void
port_fabric_later(struct lcore *lcore, struct later *later)
{
    struct fabric_port *port = first_fabric_port(lcore);
    assert(port != NULL); /* exec_fabric() looked: ports are the same on every lcore */
    later->next = NULL;
    *port->asks_tail = later;
    port->asks_tail = &later->next;
}

void
fabric_serve_ask(struct fabric_port *first)
{
    struct lcore *lcore = first->port.lcore;
    struct later *later = first->asks;
    struct port *port;

    first->asks = later->next;
    if (first->asks == NULL) {
        first->asks_tail = &first->asks;
    }
    later->next = NULL;
    switch (later->kind) {
    case LATER_FABRIC_ATTACH:
        port = port_fabric_find(lcore, later->args[1]);
        assert(port != NULL);
        serve_attach(fabric_port_of(port), later);
        break;
    case LATER_FABRIC_RESUME:
        serve_resume(lcore, later);
        break;
    case LATER_FABRIC_DETACH:
        serve_detach(lcore, later);
        break;
    default:
        assert(false); /* exec_fabric() asks for nothing else */
        fabric_answer_error(lcore, later, "ERR unknown question");
    }
}

struct port *
port_fabric_find(const struct lcore *lcore, struct slice name)
{
    struct port *by_provider = NULL;

    for (uint32_t i = 0; i < lcore->port_count; i++) {
        const struct port_settings *settings = port_fabric_settings(lcore->ports[i]);
        if (settings == NULL) {
            continue;
        }
        if (slice_equal(name, slice_text(settings->name))) {
            return lcore->ports[i];
        }
        if (by_provider == NULL && slice_equal(name, slice_text(settings->provider))) {
            by_provider = lcore->ports[i];
        }
    }
    return by_provider;
}
