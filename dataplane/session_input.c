/* session_input.c - what a session receives: borrowed from slots, kept in a buffer of its own when a request is
 * incomplete, from what is kept for full memory when there is no other. */
#include "dataplane/dataplane.h"
#include "dataplane/session_private.h"

#define OWN_BYTES_MIN 2048
#define SPANS_BYTES   ((LIMIT_REQUEST_ARGS + 1) * sizeof(struct resp_span))
#define NOT_DECODING  (SESSION_PARKED | SESSION_FULL | SESSION_CLOSING | SESSION_DEAD)

/* ---- buffers ---- */

void
session_spans_give(struct session *session)
{
    if (session->spans != NULL) {
        memory_give(session->lcore->memory, session->spans, SPANS_BYTES);
        session->spans = NULL;
    }
}

/* What `in` owned, wherever it came from. */
static void
own_drop(struct session *session, const struct stream_in *in)
{
    struct stream_reserve *reserve = &session->lcore->reserve;
    if (in->hoards) {
        reserve->hoard->page = in->own;
        stream_hoard_release(&reserve->hoard->request);
    } else if (in->own != NULL) {
        stream_block_give(reserve, in->own, in->own_room);
    }
}

void
session_own_give(struct session *session)
{
    struct stream_in *in = &session->in;
    own_drop(session, in);
    in->own = NULL;
    in->own_room = 0;
    in->hoards = false;
}

bool
session_may_starve(struct session *session)
{
    struct lcore *lcore = session->lcore;
    counter_add(&lcore->counters->memory_misses, 1);
    if (session->starved_since_ms == 0) {
        session->starved_since_ms = lcore->now_ms;
    }
    return lcore->now_ms - session->starved_since_ms < SESSION_STARVED_MS;
}

/* ---- receiving ---- */

/* What came cannot be kept, nor what follows it: say so and close. */
static void
session_refuse_input(struct session *session)
{
    counter_add(&session->lcore->counters->closed_no_memory, 1);
    if (!(session->flags & SESSION_SAW_MAGIC) ||
        (session->flags & SESSION_PARKED)) { /* parked: another answer is due */
        session_kill(session);
        return;
    }
    reply_begin(&session->reply, 0);
    reply_error(&session->reply, ERROR_OOM);
    reply_end(&session->reply);
    if (session->out.sink.failed) {
        session_kill(session);
    } else {
        session_start_closing(session);
    }
}

/* Few sizes: each that is in use keeps a page of memory to itself. */
static size_t
own_room(size_t bytes)
{
    static const size_t rooms[] = { OWN_BYTES_MIN, STREAM_BLOCK_BYTES, 4 * STREAM_BLOCK_BYTES };
    for (uint32_t i = 0; i < ARRAY_COUNT(rooms); i++) {
        if (bytes <= rooms[i]) {
            return rooms[i];
        }
    }
    return MIN(memory_class_bytes(bytes), (size_t)MEMORY_BLOCK_MAX);
}

/* A buffer for `wish` bytes, at least `bytes` when memory is full. The old one is still the caller's. False: none at
 * this moment. */
static bool
own_take(struct session *session, size_t bytes, size_t wish)
{
    struct stream_in *in = &session->in;
    struct lcore *lcore = session->lcore;
    struct stream_hoard *hoard = lcore->reserve.hoard;
    size_t room = own_room(wish);
    uint8_t *block = memory_take(lcore->memory, room);
    bool hoards = false;

    if (UNLIKELY(block == NULL) && bytes <= STREAM_BLOCK_BYTES) {
        room = STREAM_BLOCK_BYTES;
        block = stream_block_take(&lcore->reserve, STREAM_FOR_REQUEST);
    }
    bool large = hoard != NULL && !in->hoards && session_is_authenticated(session) && bytes <= STREAM_PAGE_BYTES;
    if (UNLIKELY(block == NULL) && large && stream_hoard_claim(&hoard->request, in)) {
        room = STREAM_PAGE_BYTES;
        block = hoard->page;
        hoard->page = NULL;
        hoards = block != NULL;
        if (!hoards) {
            stream_hoard_release(&hoard->request);
        }
    }
    if (block == NULL) {
        return false;
    }
    in->own = block;
    in->own_room = room;
    in->hoards = hoards;
    return true;
}

/* It found no memory for what came. What it is owed comes first; but while receive slots run short, none is lent to
 * who can do nothing with it. */
static void
own_starve(struct session *session)
{
    bool scarce = session->in.slot != NULL && session->port->scarce;
    bool owed = (session->flags & (SESSION_PARKED | SESSION_RETRY)) != 0 || stream_out_pending(&session->out) > 0;
    bool patient = session_may_starve(session);
    if (scarce ? session->lcore->now_ms - session->starved_since_ms >= SESSION_SCARCE_MS : !patient && !owed) {
        session_refuse_input(session);
    }
}

/* Leftovers at the front of the session's own buffer, with room for `bytes` in all. Grows, at least to twice its size,
 * because a port may bring a request in small pieces; shrinks only from the hoard's page, which others may want. */
static bool
own_hold(struct session *session, size_t bytes)
{
    struct stream_in *in = &session->in;
    struct stream_in before = *in;
    size_t left = in->bytes - in->taken;
    bool fits = in->own != NULL && in->own_room >= bytes;
    bool shrinks = in->hoards && bytes <= STREAM_BLOCK_BYTES;

    if ((!fits || shrinks) && !own_take(session, bytes, shrinks ? bytes : MAX(bytes, 2 * in->own_room)) && !fits) {
        own_starve(session);
        return false;
    }
    session->starved_since_ms = 0;
    if (left > 0) {
        memmove(in->own, in->view + in->taken, left);
    }
    in->offset += in->taken;
    in->view = in->own;
    in->bytes = left;
    in->taken = 0;
    if (before.own != NULL && before.own != in->own) {
        own_drop(session, &before);
    }
    return true;
}

static void
session_saw_bytes(struct session *session, size_t bytes)
{
    struct lcore *lcore = session->lcore;
    session->rx_bytes += bytes;
    session->active_ms = lcore->now_ms;
    session->polled_cycles = lcore->now_cycles;
    counter_add(&lcore->counters->rx_bytes, bytes);
    session_ready(session);
}

bool
session_receive(struct session *session, uint8_t *data, size_t bytes, void *slot)
{
    struct stream_in *in = &session->in;
    size_t left = in->bytes - in->taken;
    assert(in->slot == NULL);

    if (left == 0) {
        in->offset += in->taken;
        in->view = data;
        in->bytes = bytes;
        in->taken = 0;
    } else {
        size_t hold = left + bytes;
        if (!own_hold(session, MAX(hold, MIN(session->wanted, LIMIT_REQUEST_BYTES + 1)))) {
            return false;
        }
        bytes_copy(in->own + left, data, bytes);
        in->bytes = hold;
    }
    in->slot = slot; /* also when copied: it goes back when the burst has settled */
    session_saw_bytes(session, bytes);
    return true;
}

uint8_t *
session_receive_room(struct session *session, size_t *room)
{
    struct stream_in *in = &session->in;
    size_t left = in->bytes - in->taken;
    bool large = session->wanted > left + OWN_BYTES_MIN;
    bool kept = in->own_room == STREAM_BLOCK_BYTES && in->view == in->own;
    *room = 0;
    if (left == 0 || in->slot != NULL || !(large || kept)) {
        return NULL;
    }
    /* A kept block is filled to its end before anything larger is asked for. */
    size_t hold = kept && left < in->own_room ? left + 1 : MAX(session->wanted, left + OWN_BYTES_MIN);
    if (own_hold(session, MIN(hold, LIMIT_REQUEST_BYTES + 1))) {
        *room = in->own_room - in->bytes;
    }
    return in->view + in->bytes;
}

void
session_received(struct session *session, size_t bytes)
{
    session->in.bytes += bytes;
    session_saw_bytes(session, bytes);
}

void
session_rewind(struct session *session, size_t offset)
{
    session->in.taken = offset;
    session->resp = (struct resp_state){ 0 };
    session->wanted = 0;
    session->flags |= SESSION_REWOUND;
    session_spans_give(session);
}

void
session_settle(struct session *session)
{
    struct stream_in *in = &session->in;
    uint32_t rewound = session->flags & SESSION_REWOUND;
    session->flags &= ~(uint32_t)(SESSION_TOUCHED | SESSION_REWOUND);

    if (session->flags & SESSION_RETRY) {
        session->flags &= ~(uint32_t)SESSION_RETRY;
        session_ready_again(session);
    } else if (rewound && !(session->flags & NOT_DECODING)) {
        session_ready(session);
    }

    if (in->taken == in->bytes) {
        in->offset += in->taken;
        in->view = NULL;
        in->bytes = in->taken = 0;
        if (in->own_room > OWN_BYTES_MIN) {
            session_own_give(session);
        }
    } else if (in->slot != NULL && in->view != in->own &&
               ((session->flags & SESSION_READY) || !own_hold(session, in->bytes - in->taken))) {
        return; /* decoded next turn, or no memory: the slot stays, the next settle tries again */
    }
    if (in->slot != NULL) {
        void *slot = in->slot;
        in->slot = NULL;
        session->port->ops->settle(session->port, session, slot);
    }
    if ((session->flags & SESSION_EOF) &&
        !(session->flags & (SESSION_READY | SESSION_PARKED | SESSION_FULL | SESSION_CLOSING))) {
        session_start_closing(session);
    }
}
