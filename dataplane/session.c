#include "dataplane/dataplane.h"
#include "dataplane/later.h"
#include "dataplane/pubsub.h"
#include "dataplane/session_private.h"

#define CLOSING_MS      5000 /* a closing session's peer may take so long to read */
#define IDLE_BUFFERS_MS 1000 /* idle for so long: buffers go back */
#define WAITS_A_TICK    1024 /* sessions whose requests come again */
#define AT_ONCE_MS      1    /* a request that cannot run is tried every turn for so long, and up to as much more */

/* ---- lists ---- */

static inline void
list_append(struct session **first, struct session **last, struct session *session)
{
    session->ready_next = NULL;
    session->ready_previous = *last;
    if (*first == NULL) {
        *first = session;
    } else {
        (*last)->ready_next = session;
    }
    *last = session;
}

static inline void
list_remove(struct session **first, struct session **last, struct session *session)
{
    if (session->ready_previous == NULL) {
        *first = session->ready_next;
    } else {
        session->ready_previous->ready_next = session->ready_next;
    }
    if (session->ready_next == NULL) {
        *last = session->ready_previous;
    } else {
        session->ready_next->ready_previous = session->ready_previous;
    }
}

void
session_ready(struct session *session)
{
    struct lcore *lcore = session->lcore;
    if (session->flags & SESSION_READY) {
        return;
    }
    session->flags |= SESSION_READY;
    list_append(&lcore->ready, &lcore->ready_last, session);
}

void
session_ready_again(struct session *session)
{
    struct lcore *lcore = session->lcore;
    int64_t since_ms = session->retry_since_ms != 0 ? session->retry_since_ms : session->starved_since_ms;
    if (lcore->now_ms - since_ms <= AT_ONCE_MS || (session->flags & SESSION_READY)) {
        session_ready(session);
        return;
    }
    session->flags |= SESSION_READY | SESSION_WAITING;
    list_append(&lcore->waiting, &lcore->waiting_last, session);
}

void
session_end_waits(struct lcore *lcore)
{
    for (uint32_t i = 0; i < WAITS_A_TICK && lcore->waiting != NULL; i++) {
        struct session *session = lcore->waiting;
        list_remove(&lcore->waiting, &lcore->waiting_last, session);
        session->flags &= ~(uint32_t)SESSION_WAITING;
        list_append(&lcore->ready, &lcore->ready_last, session);
    }
}

void
session_touch_output(struct session *session)
{
    if (session->flags & SESSION_DIRTY) {
        return;
    }
    struct port *port = session->port;
    session->flags |= SESSION_DIRTY;
    session->dirty_next = port->dirty;
    session->dirty_link = &port->dirty;
    if (port->dirty != NULL) {
        port->dirty->dirty_link = &session->dirty_next;
    }
    port->dirty = session;
}

void
session_untouch_output(struct session *session)
{
    if (!(session->flags & SESSION_DIRTY)) {
        return;
    }
    session->flags &= ~(uint32_t)SESSION_DIRTY;
    *session->dirty_link = session->dirty_next;
    if (session->dirty_next != NULL) {
        session->dirty_next->dirty_link = session->dirty_link;
    }
    session->dirty_link = NULL;
}

static struct session **
id_bucket(struct lcore *lcore, uint64_t id)
{
    return &lcore->sessions[(id / lcore->dataplane->lcore_count) % LCORE_SESSION_BUCKETS];
}

struct session *
session_by_id(struct lcore *lcore, uint64_t id)
{
    struct session *session = *id_bucket(lcore, id);
    while (session != NULL && session->id != id) {
        session = session->id_next;
    }
    return session != NULL && !(session->flags & SESSION_DEAD) ? session : NULL;
}

static void
session_enter(struct session *session)
{
    struct lcore *lcore = session->lcore;
    struct session **bucket = id_bucket(lcore, session->id);
    session->id_next = *bucket;
    *bucket = session;

    session->all_next = lcore->all;
    session->all_link = &lcore->all;
    if (lcore->all != NULL) {
        lcore->all->all_link = &session->all_next;
    }
    lcore->all = session;
}

static void
session_leave(struct session *session)
{
    struct lcore *lcore = session->lcore;
    struct session **at = id_bucket(lcore, session->id);
    while (*at != session) {
        at = &(*at)->id_next;
    }
    *at = session->id_next;

    if (lcore->sweep == session) {
        lcore->sweep = session->all_next;
    }
    *session->all_link = session->all_next;
    if (session->all_next != NULL) {
        session->all_next->all_link = session->all_link;
    }
}

/* Take off the list that it is on. */
static void
session_unready(struct session *session)
{
    struct lcore *lcore = session->lcore;
    if (session->flags & SESSION_WAITING) {
        list_remove(&lcore->waiting, &lcore->waiting_last, session);
    } else if (session->flags & SESSION_READY) {
        list_remove(&lcore->ready, &lcore->ready_last, session);
    }
    session->flags &= ~(uint32_t)(SESSION_READY | SESSION_WAITING);
}

struct session *
session_take_ready(struct lcore *lcore)
{
    struct session *session = lcore->ready;
    if (session != NULL) {
        session->flags &= ~(uint32_t)SESSION_READY;
        list_remove(&lcore->ready, &lcore->ready_last, session);
    }
    return session;
}

/* ---- open and close ---- */

bool
session_open(struct session *session, struct lcore *lcore, struct port *port)
{
    struct dataplane *dataplane = lcore->dataplane;
    if (lcore->session_count >= LIMIT_SESSIONS_PER_LCORE ||
        load_relaxed(&dataplane->sessions) >= load_relaxed(&dataplane->live.clients) ||
        load_relaxed(&dataplane->live.leaving)) {
        counter_add(&lcore->counters->sessions_refused, 1);
        return false;
    }
    add_relaxed(&dataplane->sessions, 1); /* a limit, not an exact gate: lcores may overshoot by one each */

    session->lcore = lcore;
    session->port = port;
    session->id = lcore->session_ids++ * dataplane->lcore_count + lcore->index + 1;
    session->last_command = -1;
    session->flags |= lcore->settings->user_count == 0 ? SESSION_AUTHENTICATED : 0; /* nobody to be */
    session->opened_ms = session->active_ms = lcore->now_ms;
    stream_out_init(&session->out, lcore->memory, &lcore->reserve, LIMIT_OUTPUT_HARD_BYTES);
    session_enter(session);

    lcore->session_count++;
    counter_add(&lcore->counters->sessions_opened, 1);
    store_relaxed(&lcore->counters->sessions_open, lcore->session_count);
    return true;
}

void
session_close(struct session *session)
{
    struct lcore *lcore = session->lcore;
    pubsub_forget_session(session);
    if (session->later != NULL) {
        later_cancel(session->later);
    }
    session_unready(session);
    session_untouch_output(session);
    if (session->in.slot != NULL) {
        void *slot = session->in.slot;
        session->in.slot = NULL;
        session->port->ops->settle(session->port, session, slot);
    }
    session_own_give(session);
    session_spans_give(session);
    stream_out_fini(&session->out);
    session_leave(session);

    lcore->session_count--;
    sub_relaxed(&lcore->dataplane->sessions, 1);
    counter_add(&lcore->counters->sessions_closed, 1);
    store_relaxed(&lcore->counters->sessions_open, lcore->session_count);
    session->port->ops->session_close(session->port, session); /* frees the session */
}

void
session_kill(struct session *session)
{
    session->flags |= SESSION_DEAD;
    if (!session->dying) {
        session->dying = true;
        session->dying_next = session->lcore->dying;
        session->lcore->dying = session;
    }
}

void
session_start_closing(struct session *session)
{
    session->flags |= SESSION_CLOSING;
    if (stream_out_pending(&session->out) == 0) {
        session_kill(session);
    } else {
        session_touch_output(session);
    }
}

void
session_end_of_input(struct session *session)
{
    session->flags |= SESSION_EOF;
    if (!(session->flags & (SESSION_READY | SESSION_PARKED | SESSION_FULL | SESSION_RETRY))) {
        session_start_closing(session); /* what is left, if anything, is half a request */
    }
}

/* ---- output ---- */

void
session_output_shrank(struct session *session)
{
    uint64_t pending = stream_out_pending(&session->out);
    if (session->soft_since_ms != 0 && pending < load_relaxed(&session->lcore->dataplane->live.slow_consumer_bytes)) {
        session->soft_since_ms = 0;
    }
    if ((session->flags & SESSION_FULL) && pending < LIMIT_OUTPUT_SOFT_BYTES) {
        session->flags &= ~(uint32_t)SESSION_FULL;
        if (session->in.taken < session->in.bytes) {
            session_ready(session);
        } else if ((session->flags & (SESSION_EOF | SESSION_PARKED)) == SESSION_EOF) {
            session_start_closing(session); /* parked, it is still owed an answer */
        }
    }
    if ((session->flags & SESSION_CLOSING) && pending == 0) {
        session_kill(session);
    }
}

void
session_unpark(struct session *session)
{
    session->flags &= ~(uint32_t)SESSION_PARKED;
    session->later = NULL;
    session_touch_output(session);
    if (session->in.taken < session->in.bytes) {
        session_ready(session);
    } else if (session->flags & SESSION_EOF) {
        session_start_closing(session);
    }
}

struct reply *
session_push_begin(struct session *session)
{
    if (session->flags & (SESSION_CLOSING | SESSION_DEAD)) {
        return NULL;
    }
    return &session->reply;
}

bool
session_push_end(struct session *session)
{
    struct lcore *lcore = session->lcore;
    struct sink *sink = &session->out.sink;
    if (UNLIKELY(sink->failed)) {
        sink_rewind(sink, session->reply.start);
        if (session->out.starved) {
            return false;
        }
        counter_add(&lcore->counters->closed_slow_consumer, 1);
        session_kill(session);
        return true;
    }
    if (session->soft_since_ms == 0 &&
        stream_out_pending(&session->out) > load_relaxed(&lcore->dataplane->live.slow_consumer_bytes)) {
        session->soft_since_ms = lcore->now_ms;
    }
    session_touch_output(session);
    return true;
}

void
session_set_wire(struct session *session, enum wire wire)
{
    session->wire = wire;
    session->flags |= SESSION_SAW_MAGIC;
    reply_init(&session->reply, wire, &session->out.sink);
}

/* ---- time ---- */

/* Whether others wait for what it has of the reserve, since when it has it, and since when its peer stands still. */
static void
hold_look(struct session_hold *hold, bool wanted, uint64_t offset, int64_t now_ms)
{
    if (!wanted || hold->since_ms == 0) {
        hold->since_ms = hold->moved_ms = now_ms;
    } else if (offset != hold->offset) {
        hold->moved_ms = now_ms;
    }
    hold->offset = offset;
}

static bool
hold_is_over(const struct session_hold *hold, int64_t now_ms)
{
    return now_ms - hold->moved_ms >= SESSION_STUCK_MS || now_ms - hold->since_ms >= SESSION_HOLD_MS;
}

/* Its peer does not read, or does not finish a request, with buffers that others wait for. */
static bool
session_hinders(struct session *session)
{
    struct lcore *lcore = session->lcore;
    struct stream_reserve *reserve = &lcore->reserve;
    const struct stream_in *in = &session->in;
    const struct stream_out *out = &session->out;
    bool half = in->taken < in->bytes && session->starved_since_ms == 0 && session->retry_since_ms == 0 &&
                !(session->flags & (SESSION_READY | SESSION_PARKED | SESSION_FULL));
    bool request_wanted = half && ((in->own_room == STREAM_BLOCK_BYTES && reserve->wanted) ||
                                   (in->hoards && load_relaxed(&reserve->hoard->request.wanted)));
    bool reply_wanted =
        out->kept_chunks > 0 && (reserve->wanted || (out->hoards && load_relaxed(&reserve->hoard->reply.wanted)));

    hold_look(&session->request_hold, request_wanted, session->rx_bytes, lcore->now_ms);
    hold_look(&session->reply_hold, reply_wanted, out->acknowledged, lcore->now_ms);
    return hold_is_over(&session->request_hold, lcore->now_ms) || hold_is_over(&session->reply_hold, lcore->now_ms);
}

void
session_sweep(struct session *session)
{
    struct lcore *lcore = session->lcore;
    const struct dataplane_live *live = &lcore->dataplane->live;
    int64_t idle_ms = lcore->now_ms - session->active_ms, idle_timeout_ms = load_relaxed(&live->idle_timeout_ms);

    if (session_hinders(session)) {
        counter_add(&lcore->counters->closed_hindering, 1);
        session_kill(session);
    } else if (session->soft_since_ms != 0 &&
               lcore->now_ms - session->soft_since_ms >= load_relaxed(&live->slow_consumer_ms)) {
        counter_add(&lcore->counters->closed_slow_consumer, 1);
        session_kill(session);
    } else if ((session->flags & SESSION_CLOSING) && idle_ms > CLOSING_MS) {
        session_kill(session);
    } else if (!session_is_authenticated(session) &&
               lcore->now_ms - session->opened_ms > load_relaxed(&live->auth_timeout_ms)) {
        counter_add(&lcore->counters->closed_timeout, 1);
        session_kill(session);
    } else if (idle_timeout_ms != 0 && idle_ms > idle_timeout_ms &&
               !(session->flags & (SESSION_SUBSCRIBED | SESSION_PARKED))) {
        counter_add(&lcore->counters->closed_timeout, 1);
        session_kill(session);
    } else if (idle_ms > IDLE_BUFFERS_MS) {
        stream_out_trim(&session->out);
        if (session->in.bytes == 0) {
            session_own_give(session);
        }
    }
    if (session->in.slot != NULL && !(session->flags & (SESSION_READY | SESSION_TOUCHED))) {
        session_settle(session);
    }
}
