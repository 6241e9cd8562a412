/* session.h - one client: two byte streams, a wire, an identity. The same on every port.
 *
 * A port embeds struct session first in its own session struct, feeds it with session_receive() and sends what
 * session->out holds. Owned by one lcore from open to close; nobody else touches it. */
#pragma once
#include "codec/reply.h"
#include "codec/resp.h"
#include "dataplane/exec.h"
#include "dataplane/stream.h"

struct lcore;
struct port;
struct channel_subscription;
struct later;

#define SESSION_CHOKED                                                                                                 \
    (SESSION_READY | SESSION_PARKED | SESSION_RETRY | SESSION_FULL | SESSION_CLOSING | SESSION_DEAD | SESSION_EOF)

#define SESSION_CANNOT_RUN (SESSION_PARKED | SESSION_RETRY | SESSION_FULL | SESSION_CLOSING | SESSION_DEAD)

enum session_flag {
    SESSION_READY = 1 << 0,         /* on the lcore's ready list: may hold undecoded requests */
    SESSION_DIRTY = 1 << 1,         /* on its port's dirty list: has output to flush */
    SESSION_PARKED = 1 << 2,        /* waits for mail (EXEC_LATER): decodes nothing */
    SESSION_RETRY = 1 << 3,         /* the request at in.taken is tried again next turn */
    SESSION_CLOSING = 1 << 4,       /* decodes nothing more; closed once its output is sent */
    SESSION_DEAD = 1 << 5,          /* transport gone or killed: closed at the end of the turn, output dropped */
    SESSION_AUTHENTICATED = 1 << 6, /* also when there are no users */
    SESSION_SUBSCRIBED = 1 << 7,    /* has at least one subscription */
    SESSION_FULL = 1 << 8,          /* its output is above the soft limit: decodes nothing until it drains */
    SESSION_SAW_MAGIC = 1 << 9,     /* the wire is decided */
    SESSION_EOF = 1 << 10,          /* the peer sends no more: close when everything received is answered */
    SESSION_TOUCHED = 1 << 11,      /* has an entry in the burst in flight */
    SESSION_REWOUND = 1 << 12,      /* an entry of this burst was put back: those after it too */
    SESSION_WAITING = 1 << 13,      /* READY, but on the lcore's list of those that wait for a tick */
};

/* What a session has of the reserve while others wait for it; written by session_sweep(). */
struct session_hold {
    int64_t since_ms, moved_ms;
    uint64_t offset; /* of the stream, when last looked at */
};

/* Text fields of CLIENT SETNAME and SETINFO are printable ASCII without spaces, cut never: too long is an error. */
struct session {
    struct lcore *lcore;
    struct port *port;
    uint64_t id;    /* public, unique in this process, never 0 */
    uint32_t flags; /* enum session_flag */
    enum wire wire;
    uint32_t attempt;              /* of the request being retried */
    struct exec_progress progress; /* of the same request */
    uint32_t user;                 /* index into settings' users, valid when SESSION_AUTHENTICATED */

    struct stream_in in;
    struct resp_state resp;
    size_t wanted;           /* bytes from in.taken that the next request needs at least, as far as known */
    struct resp_span *spans; /* memory of the lcore lent while a RESP request is incomplete */
    struct stream_out out;
    struct reply reply;

    struct session *ready_next, *ready_previous; /* on the lcore's ready or waiting list while SESSION_READY */
    struct session *dirty_next, **dirty_link;    /* on its port's dirty list while SESSION_DIRTY */
    struct session *all_next, **all_link;
    struct session *id_next; /* same bucket of the lcore's table by id */
    struct session *dying_next;
    bool dying;
    struct channel_subscription *subscriptions;
    uint32_t subscription_count;

    int64_t opened_ms, active_ms;
    int64_t starved_since_ms; /* finds no memory for a request or a reply since; 0: it does */
    int64_t retry_since_ms;   /* the request at hand could not run since; 0: it could */
    struct session_hold request_hold, reply_hold;
    int64_t soft_since_ms; /* subscriber above the slow-consumer soft limit since; 0: not */
    struct later *later;   /* asked and not yet answered; NULL: none */
    uint64_t requests, rx_bytes;
    uint64_t polled_cycles;   /* when the bytes being decoded were polled: start of residence */
    int16_t last_command;     /* enum command_id or -1 */
    char peer[64], local[64]; /* printed addresses, or "provider:wire_id" */
    char name[65], library_name[65], library_version[65];
};

/* ---- for ports ---- */

#define SESSION_REFUSAL     "-ERR max number of clients reached\r\n" /* at limits.clients */
#define SESSION_KEEPALIVE_S 300 /* a silent TCP peer is asked after this whether it is there */

/* Fill in a zeroed session and enter it in the lcore's tables. False: LIMIT_SESSIONS_PER_LCORE or limits.clients
 * reached, or the appliance drains; counted. */
bool session_open(struct session *session, struct lcore *lcore, struct port *port);

/* New bytes of the in-stream. `data` is borrowed until port->ops->settle(session, slot) is called with `slot`; it is
 * writable (quoted inline arguments are unescaped in place). Only while no burst is in flight: from port poll or
 * settle. If older bytes are undecoded both are joined in the session's own buffer, and settle() may be called at once.
 * False: no memory; nothing was taken, offer the same bytes again next turn. */
bool session_receive(struct session *session, uint8_t *data, size_t bytes, void *slot);

/* Room in the session's own buffer to receive into directly, when a large request is incomplete or memory is full.
 * Follow with session_received(). NULL: the bytes come in a slot. 0 bytes of room: no memory, they stay where they are.
 */
uint8_t *session_receive_room(struct session *session, size_t *room);
void session_received(struct session *session, size_t bytes);

/* True when the session wants no more bytes now: full output, parked, closing, enough undecoded input, or a slot still
 * lent because half a request found no memory to move to. The port then leaves bytes in the transport (sockets) or
 * withholds credit (fabric). */
static inline bool
session_is_choked(const struct session *session)
{
    return (session->flags & SESSION_CHOKED) != 0 || session->in.slot != NULL;
}

/* No memory at this moment. True while it is worth another turn; after SESSION_STARVED_MS false: give up, tell the
 * client. While memory is full that is longer than others may stand in its way: SESSION_HOLD_MS. */
bool session_may_starve(struct session *session);
#define SESSION_STARVED_MS 15000
#define SESSION_SCARCE_MS  100   /* the same for who keeps a receive slot, while the port runs out of them */
#define SESSION_STUCK_MS   1000  /* with buffers that others wait for, and no byte moved: closed */
#define SESSION_HOLD_MS    10000 /* with buffers that others wait for, however fast: closed */

/* Call after stream_out_acknowledge(): lifts SESSION_FULL, lets a closing session go. */
void session_output_shrank(struct session *session);

/* The peer sends no more (EOF): what was received is still answered. */
void session_end_of_input(struct session *session);
/* The transport is gone, or the session is to be dropped: closed at the end of the turn. */
void session_kill(struct session *session);

/* ---- for handlers and mail ---- */

/* There is output to flush: put on the port's dirty list. */
void session_touch_output(struct session *session);
/* Take off the dirty list: nothing to flush, or the transport takes no more until it says so. */
void session_untouch_output(struct session *session);
/* A push written outside request order: begin_push, values and end through the returned reply. NULL: closing or dead.
 */
struct reply *session_push_begin(struct session *session);
/* Closes a consumer that is too slow. False: no memory at this moment, nothing was written; try again next turn. */
bool session_push_end(struct session *session);
/* By public id; NULL: gone. */
struct session *session_by_id(struct lcore *lcore, uint64_t id);
/* The mail it was parked for has come: its reply is complete in session->out. */
void session_unpark(struct session *session);
void session_set_wire(struct session *session, enum wire wire);
static inline bool
session_is_authenticated(const struct session *session)
{
    return (session->flags & SESSION_AUTHENTICATED) != 0;
}

/* ---- for burst.c and lcore.c ---- */

/* On the ready list: it may hold a whole request. */
void session_ready(struct session *session);
/* The first of them, taken off. NULL: none. */
struct session *session_take_ready(struct lcore *lcore);
/* As session_ready(), of a request that cannot run: every turn for a millisecond or two, for what is in the way may be
 * gone within some turns; then once a tick. */
void session_ready_again(struct session *session);
/* The tick: those that waited are ready, as many as a tick may look at. */
void session_end_waits(struct lcore *lcore);
/* Put the request at `offset` of the view, and what follows, back: it is decoded again. */
void session_rewind(struct session *session, size_t offset);
/* After a burst: nothing borrows from the view any more; leftovers are copied out and the receive slot goes back. */
void session_settle(struct session *session);
/* Close for good: streams, subscriptions, tables, transport. */
void session_close(struct session *session);
/* One look at limits of time: idle, unauthenticated, closing, slow consumer; gives idle buffers back. */
void session_sweep(struct session *session);
