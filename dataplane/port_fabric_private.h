/* port_fabric_private.h - what the files of the fabric port share.
 *
 *     port_fabric.c         poll, deliver, settle, tick, loss
 *     port_fabric_send.c    flush, send slots and their shares
 *     port_fabric_attach.c  FABRIC commands that came by mail
 *     port_fabric_seat.c    peers, seats, identities
 *     port_fabric_answer.c  their text
 *     port_fabric_boot.c    open and close */
#pragma once
#include "codec/frame_stream.h"
#include "dataplane/dataplane.h"
#include "dataplane/endpoint.h"
#include "dataplane/later.h"
#include "dataplane/port_fabric.h"

#define FABRIC_EVENTS_BURST 64  /* events handled in a turn */
#define FABRIC_DELIVER_MAX  64  /* waiting sessions looked at in a turn */
#define FABRIC_SEATS_A_TICK 64  /* seats looked at in a tick */
#define FABRIC_TRIES        4   /* polls of the CQ for one frame that the provider told to try again */
#define FABRIC_TRIES_A_TURN 16  /* the same, all frames of a turn together */
#define FABRIC_MERGE_BYTES  512 /* a frame up to this size joins the one before: bursts grow, one copy */
#define FABRIC_SECRET_BYTES 16
#define FABRIC_OVERDUE_US   1000000 /* no send completed for so long: the peer is overdue */
#define FABRIC_RETRY_MAX_US 10000   /* longest pause of a frame that the provider does not take */
#define FABRIC_ACK_DELAY_US 1000    /* taken bytes are acknowledged on their own after this */
#define FABRIC_DONE_US      100000  /* a closing session waits so long for the last acknowledgement */
#define FABRIC_TELL_US      1000    /* a fenced client is told at most so often */
#define FABRIC_SPARE_RX     32      /* receive slots posted beyond the sessions' shares: strangers take some */
#define FABRIC_CONTROL_RX   2       /* receive slots of a session beyond its credit: for control frames */

/* How long a lost session waits for FABRIC RESUME. Its client may need a lease to notice; one that was only silent may
 * have a client that does something else for a while. When every seat is taken and somebody attaches, the session that
 * was lost longest goes: a silent one not before its client could notice, one whose peer refused a frame sooner. */
#define FABRIC_GRACE_US(lease_us)        (2 * (lease_us))
#define FABRIC_GRACE_SILENT_US(lease_us) (60 * (lease_us))
#define FABRIC_CROWDED_US(lease_us)      ((lease_us) / 2)

/* An address in the AV. Sessions of one client share it, so that removing one leaves the other's. */
struct fabric_peer {
    uint64_t peer;
    uint32_t uses; /* seats and sends in flight; 0: free entry */
    uint32_t address_bytes;
    uint8_t address[ENDPOINT_ADDRESS_BYTES];
};

enum seat_state {
    SEAT_FREE,
    SEAT_ATTACHED, /* frames go both ways */
    SEAT_LOST,     /* the peer is gone or silent: waits for FABRIC RESUME, its frames are fenced */
    SEAT_DRAINING, /* the session is closed, sends to its peer are still in flight: their share is not free yet */
};

/* A place for one session, with its share of receive and send slots. */
struct fabric_seat {
    enum seat_state state;
    bool overdue;
    uint32_t in_flight;   /* send slots, of former incarnations too */
    uint64_t progress_at; /* us: last send that completed, or first in flight */
    uint64_t stuck_at;    /* us: since when the provider says to try again; 0: it does not */
    uint64_t retry_at;    /* us: when to try */
    struct fabric_peer *peer;
    struct fabric_session *session;
    struct fabric_seat *wire_next; /* same bucket by wire id; or next free seat */
};

struct fabric_session {
    struct session session; /* first: the port hands out pointers to it */
    struct frame_stream stream;
    struct fabric_seat *seat;
    uint8_t secret[FABRIC_SECRET_BYTES];
    uint64_t lost_at; /* us */
    bool silent;      /* lost, but no send to it failed */
    uint64_t told_at; /* us: when it was last told that it is fenced */
    uint64_t done_at; /* us: since when a closing session has nothing more to send; 0: it has */

    /* Bytes that left the stream and are lent to the session, or wait because it had no memory. */
    uint8_t *lent;
    uint32_t lent_bytes, lent_slot;
    uint64_t lent_end;
    enum { LENT_NONE, LENT_WAITS, LENT_OUT } lent_state;

    bool waiting; /* on the port's list of sessions with frames to hand over */
    struct fabric_session *waiting_next;
};

struct fabric_owner { /* of a send slot in flight */
    struct fabric_seat *seat;
    struct fabric_peer *peer;
    uint32_t incarnation;
};

struct fabric_port {
    struct port port; /* first */
    const struct endpoint_ops *ops;
    struct endpoint *endpoint;
    const struct port_settings *settings;
    struct endpoint_info info;
    enum endpoint_send send;
    uint64_t now;      /* us of this turn, monotonic */
    uint64_t now_base; /* us: where time began; tests without a clock move it */
    uint64_t lease_us;
    double us_per_cycle;

    struct fabric_seat *seats, *free_seats;
    uint32_t seat_count, seat_next; /* where the tick goes on */
    _Atomic uint32_t seats_used;    /* owner writes relaxed, any lcore reads relaxed: a hint where to attach */
    struct fabric_seat **wires;     /* buckets by wire id */
    uint32_t wires_mask;
    struct fabric_peer *peers;
    uint32_t peer_count;
    uint16_t credit_most; /* a session's share of the receive slots, less those for control frames */

    struct fabric_session *waiting, **waiting_tail;

    uint32_t *tx_free;
    uint32_t tx_free_count, tx_share, tx_cap; /* every seat's own; most a session may have: an eighth */
    uint32_t tx_reserved;                     /* of the free ones: promised to seats below their share */
    uint32_t overdue_in_flight;
    struct fabric_owner *tx_owners;
    uint8_t *inject_frame; /* frames are built here before fi_inject */
    uint32_t tries;        /* left this turn */

    /* Only as many receive slots are posted as the sessions that exist may fill, so that the same few stay in cache;
     * the others wait here, and those that the provider did not take back. */
    uint32_t *rx_unposted;
    uint32_t rx_unposted_count, rx_posted, rx_share;
    struct endpoint_event *stash; /* came while flushing: handled in the next poll */
    uint32_t stash_count;

    struct later *asks, **asks_tail; /* of every fabric port of the lcore, on its first: one is served a turn */
    uint8_t random_key[32];
    uint64_t random_count;
};

static inline struct fabric_port *
fabric_port_of(const struct port *port)
{
    return CONTAINER_OF(port, struct fabric_port, port);
}

static inline struct fabric_session *
fabric_session_of(struct session *session)
{
    return CONTAINER_OF(session, struct fabric_session, session);
}

/* Receive slots to be posted now. */
static inline uint32_t
fabric_rx_target(const struct fabric_port *port)
{
    return MIN(port->info.rx_slots, FABRIC_SPARE_RX + load_relaxed(&port->seats_used) * port->rx_share);
}

/* Frames that a session's peer may have in flight. */
static inline uint16_t
fabric_credit(const struct fabric_port *port)
{
    uint32_t wanted = load_relaxed(&port->port.lcore->dataplane->live.fabric_credit); /* see live.h */
    return wanted == 0 ? port->credit_most : (uint16_t)MIN(wanted, port->credit_most);
}

extern const struct port_ops fabric_port_ops;

/* port_fabric.c */
void fabric_repost(struct fabric_port *port, uint32_t slot);
/* The peer is silent, or cannot be reached any more: fence its incarnation and wait for FABRIC RESUME. */
void fabric_lose(struct fabric_port *port, struct fabric_session *session, bool silent);
/* Give every frame that came and was not handed over back. */
void fabric_drop_held(struct fabric_port *port, struct fabric_session *session);

/* port_fabric_send.c */
uint32_t fabric_flush(struct port *port);
/* A send slot is free again; its seat may be lost by that. */
void fabric_send_completed(struct fabric_port *port, const struct endpoint_event *event);
/* One last frame, if it goes at once: DETACH, or that this incarnation is fenced. */
void fabric_say_goodbye(struct fabric_port *port, struct fabric_session *session);
void fabric_say_fenced(struct fabric_port *port, struct fabric_session *session);
void fabric_overdue_set(struct fabric_port *port, struct fabric_seat *seat, bool overdue);

/* port_fabric_boot.c */
void fabric_port_close(struct port *port);

/* port_fabric_attach.c */
void fabric_serve_ask(struct fabric_port *port);

/* port_fabric_seat.c */

/* The AV entry of an address: one for all its sessions, because removing it for one would take it from the others.
 * Returns 0 with a use counted, -ELOOP for this port's own, or what the endpoint's peer_insert() answered. */
int fabric_peer_take(struct fabric_port *port, struct slice address, struct fabric_peer **out);
void fabric_peer_release(struct fabric_port *port, struct fabric_peer *peer);
struct fabric_seat *fabric_seat_by_wire(const struct fabric_port *port, uint32_t wire_id); /* NULL: none */
void fabric_wire_enter(struct fabric_port *port, struct fabric_seat *seat, uint32_t wire_id);
void fabric_wire_leave(struct fabric_port *port, struct fabric_seat *seat, uint32_t wire_id);
/* The session is gone: free the seat, now or when the sends in flight are done. */
void fabric_seat_leave(struct fabric_port *port, struct fabric_seat *seat);
/* Random bytes from a stream cipher keyed at boot: the kernel is not asked while the lcore serves. */
void fabric_draw(struct fabric_port *port, void *out, size_t bytes);
/* Wire id and incarnation: the id is in use by no other session of this port. */
void fabric_draw_ids(struct fabric_port *port, struct frame_config *config);

/* port_fabric_answer.c */
void fabric_hex_print(char *out, const uint8_t *bytes, size_t count); /* 2 * count digits, no NUL */
bool fabric_hex_read(struct slice text, uint8_t *out, size_t count);  /* exactly 2 * count digits */
/* An address as raw bytes, or as "0x" and hex digits. False: neither. */
bool fabric_address_read(struct slice text, uint8_t out[ENDPOINT_ADDRESS_BYTES], struct slice *address);
void fabric_answer_error(struct lcore *lcore, struct later *later, const char *text);
void fabric_answer_ok(struct lcore *lcore, struct later *later);
/* Everything the client needs to speak frames; `taken` is where its own stream goes on. */
void fabric_answer_session(struct fabric_port *port, struct later *later, const struct fabric_session *fabric);
