#include "dataplane/lcore.h"
#include "config/cycles.h"
#include "dataplane/burst.h"
#include "dataplane/clock.h"
#include "dataplane/dataplane.h"
#include "dataplane/helper.h"
#include "dataplane/hot_keys.h"
#include "dataplane/idle.h"
#include "dataplane/later.h"
#include "dataplane/polling.h"
#include "dataplane/port_socket.h"
#include "dataplane/pubsub.h"
#include "dataplane/session_pages.h"

#define MAIL_BURST  64 /* messages taken from one ring in a turn */
#define BURY_BURST  64 /* sessions closed in a turn */
#define SWEEP_BURST 32 /* sessions looked at in a tick */
#define TICK_MS     1

/* ---- time ---- */

static void
lcore_set_time(struct lcore *lcore, uint64_t cycles)
{
    int64_t now_ms = clock_unix_ns(&lcore->dataplane->clock, cycles) / 1000000;
    if (LIKELY(now_ms != 0)) {
        lcore->now_ms = now_ms;
    }
    store_set_time(lcore->store, lcore->now_ms);
}

static void
lcore_look_at_clock(struct lcore *lcore)
{
    lcore->now_cycles = cycles_now();
    lcore_set_time(lcore, lcore->now_cycles);
}

uint64_t
lcore_session_bytes(const struct lcore *lcore)
{
    const struct dataplane *dataplane = lcore->dataplane;
    return load_relaxed(&dataplane->live.session_bytes) / dataplane->lcore_count; /* see live.h */
}

/* ---- mail ---- */

bool
lcore_post(struct lcore *lcore, uint32_t to, const struct mail *mail)
{
    struct dataplane *dataplane = lcore->dataplane;
    struct mail stamped = *mail;
    stamped.from = lcore->index;
    if (!mail_post(lcore->mail_out[to], &stamped)) {
        counter_add(&lcore->counters->mail_full, 1);
        return false;
    }
    counter_add(&lcore->counters->mail_sent, 1);
    if (to == MAIL_FROM_MGMT) {
        mail_wake(&dataplane->mgmt_waker);
    } else if (to == MAIL_FROM_HELPER) {
        mail_wake(&dataplane->helper->waker);
    } else {
        lcore_notify(dataplane->lcores[to], lcore->index);
    }
    return true;
}

void
lcore_notify(struct lcore *lcore, uint32_t from)
{
    or_release(&lcore->mail_waiting, 1ull << from); /* pairs with the exchange in lcore_poll_mail() */
    mail_wake(&lcore->waker);
}

static void
lcore_take_mail(struct lcore *lcore, struct mail *mail)
{
    switch (mail->kind) {
    case MAIL_ADOPT_SOCKET:
        port_socket_adopt(lcore, (int)mail->a, (uint32_t)mail->b);
        break;
    case MAIL_PUBLISH:
        pubsub_deliver(lcore, mail);
        break;
    case MAIL_LATER_REQUEST:
        later_serve(lcore, mail->p);
        break;
    case MAIL_LATER_REPLY:
        later_finish(lcore, mail->p);
        break;
    case MAIL_SESSIONS_LIST:
        session_pages_list(lcore, mail->p);
        break;
    case MAIL_SESSION_KILL:
        session_pages_kill(lcore, mail->p);
        break;
    case MAIL_HOT_KEYS:
        hot_keys_begin(lcore, mail->p);
        break;
    case MAIL_DRAIN:
        store_release(&lcore->state, LCORE_DRAIN); /* pairs with the acquires of whoever asks */
        break;
    case MAIL_NONE:
        break;
    }
}

static uint32_t
lcore_poll_mail(struct lcore *lcore)
{
    if (LIKELY(load_relaxed(&lcore->mail_waiting) == 0)) {
        return 0;
    }
    uint64_t senders = exchange_acq_rel(&lcore->mail_waiting, 0); /* pairs with the release in lcore_notify() */
    uint32_t taken = 0;
    while (senders != 0) {
        uint32_t from = (uint32_t)__builtin_ctzll(senders);
        senders &= senders - 1;

        struct mail mail;
        uint32_t count = 0;
        while (count < MAIL_BURST && mail_take(lcore->mail_in[from], &mail)) {
            lcore_take_mail(lcore, &mail);
            count++;
        }
        if (count == MAIL_BURST) {
            or_release(&lcore->mail_waiting, 1ull << from); /* there may be more: next turn */
        }
        taken += count;
    }
    return taken;
}

/* ---- housekeeping: one bounded step, also under full load ---- */

static void
lcore_bury(struct lcore *lcore)
{
    for (uint32_t i = 0; i < BURY_BURST && lcore->dying != NULL; i++) {
        struct session *session = lcore->dying;
        lcore->dying = session->dying_next;
        session_close(session);
    }
}

static void
lcore_tick(struct lcore *lcore)
{
    hot_keys_tick(lcore);
    session_end_waits(lcore);
    stream_reserve_share(&lcore->reserve, lcore_session_bytes(lcore));
    stream_reserve_fill(&lcore->reserve);
    for (uint32_t i = 0; i < lcore->port_count; i++) {
        lcore->ports[i]->ops->tick(lcore->ports[i]);
    }
    for (uint32_t i = 0; i < SWEEP_BURST; i++) {
        struct session *session = lcore->sweep;
        if (session == NULL) {
            store_relaxed(&lcore->counters->output_bytes, lcore->swept_output_bytes);
            lcore->swept_output_bytes = 0;
            lcore->sweep = lcore->all; /* from the start, next tick */
            break;
        }
        lcore->sweep = session->all_next;
        lcore->swept_output_bytes += stream_out_pending(&session->out);
        session_sweep(session);
    }
}

/* Draining ends every session that has nothing more to be answered. */
static void
lcore_end_sessions(struct lcore *lcore)
{
    for (struct session *session = lcore->all; session != NULL; session = session->all_next) {
        if (!(session->flags & (SESSION_EOF | SESSION_CLOSING | SESSION_DEAD))) {
            session_end_of_input(session);
        }
    }
    bool late =
        lcore->now_ms - lcore->drain_since_ms >= load_relaxed(&lcore->dataplane->live.drain_ms); /* see live.h */
    for (struct session *session = lcore->all; late && session != NULL; session = session->all_next) {
        session_kill(session);
    }
}

static void
lcore_housekeep(struct lcore *lcore, uint32_t events)
{
    store_housekeep(lcore->store);
    later_retry(lcore);
    if (lcore->now_ms != lcore->ticked_ms) {
        lcore->ticked_ms = lcore->now_ms;
        lcore_tick(lcore);
    }
    if (UNLIKELY(load_relaxed(&lcore->state) == LCORE_DRAIN)) {
        if (lcore->drain_since_ms == 0) {
            lcore->drain_since_ms = lcore->now_ms;
        } else if (events == 0 ||
                   lcore->now_ms - lcore->drain_since_ms >= load_relaxed(&lcore->dataplane->live.drain_ms) / 2) {
            lcore_end_sessions(lcore); /* after a quiet turn: what had arrived was read */
        }
    }
    lcore_bury(lcore);
}

/* ---- the loop ---- */

static void
lcore_count_turn(struct lcore *lcore, uint32_t requests, uint32_t events)
{
    struct lcore_counters *counters = lcore->counters;
    counter_add(&counters->turns, 1);
    if (events > 0) {
        uint64_t cycles = cycles_now() - lcore->now_cycles;
        counter_add(&counters->busy_turns, 1);
        counter_add(&counters->busy_cycles, cycles);
        histogram_record(&lcore->histograms->loop, lcore_ns(lcore, cycles), 1);
    }
    if (requests > 0) {
        histogram_record(&lcore->histograms->burst, requests, 1);
    }
}

uint32_t
lcore_turn(struct lcore *lcore)
{
    struct burst *burst = &lcore->burst;

    lcore_look_at_clock(lcore);
    uint32_t events = lcore_poll_mail(lcore); /* other lcores and the management core */
    events += poll_ports(lcore);              /* fair, bounded; bytes reach their sessions */
    uint32_t requests = 0;
    if (lcore->ready != NULL) { /* an idle turn is short: a request waits for half of one */
        /* Not before the requests came: a key that another lcore has called dead stays dead. */
        lcore_set_time(lcore, cycles_now());
        requests = burst_decode(burst, lcore); /* bytes -> requests, in session order */
        burst_prefetch(burst, lcore);          /* buckets, then records */
        burst_execute(burst, lcore);           /* handler per request, reply encoded in place */
        burst_settle(burst);                   /* receive slots go back */
        requests -= burst->put_back;           /* who only waits does not keep the lcore awake */
    }
    events += pubsub_run(lcore);                  /* messages, never inside a reply */
    events += requests + poll_flush_ports(lcore); /* replies of one burst leave together */
    if (requests > 0) {
        burst_record_times(burst, lcore);
    }
    store_quiesce(lcore->store);    /* every borrowed record pointer dies here */
    lcore_housekeep(lcore, events); /* bounded: leases, sweeps, expiry, the dead */
    lcore_count_turn(lcore, requests, events);
    return events;
}

static bool
lcore_should_run(const struct lcore *lcore)
{
    return load_relaxed(&lcore->state) != LCORE_DRAIN || lcore->drain_since_ms == 0 || lcore->session_count > 0;
}

void
lcore_run(struct lcore *lcore)
{
    while (lcore_should_run(lcore)) {
        uint32_t events = lcore_turn(lcore);
        idle_after_turn(lcore, events);
    }
}
