#include "dataplane/helper.h"
#include "config/cycles.h"
#include "dataplane/dataplane.h"
#include <poll.h>

#define WAIT_MS 1

static void
helper_look_at_clock(struct helper *helper)
{
    int64_t now_ms = clock_unix_ns(&helper->dataplane->clock, cycles_now()) / 1000000;
    if (LIKELY(now_ms != 0)) {
        helper->now_ms = now_ms;
    }
    store_set_time(helper->store, helper->now_ms);
}

/* ---- answers ---- */

/* False: the ring is full; tried again every turn. */
static bool
helper_post(struct helper *helper, struct later *later)
{
    struct mail mail = { .kind = MAIL_LATER_REPLY, .from = MAIL_FROM_HELPER, .p = later };
    uint32_t to = later->from;
    if (!mail_post(helper->mail_out[to], &mail)) {
        return false;
    }
    lcore_notify(helper->dataplane->lcores[to], MAIL_FROM_HELPER);
    return true;
}

/* The struct, with the answer, is the lcore's again. Nothing is kept of it. */
static void
helper_answer(struct helper *helper)
{
    struct later *later = helper->job.later;
    helper_keys_end(helper);
    helper->job.later = NULL;
    later->answered = true;
    counter_add(&helper->jobs, 1);
    if (!helper_post(helper, later)) {
        helper->unsent = later;
    }
}

/* An error always fits: it is written into the struct itself. */
static void
helper_refuse(struct helper *helper, const char *error)
{
    struct later *later = helper->job.later;
    stream_out_fini(&later->out);
    later_answer_error(later, error);
    helper_answer(helper);
}

/* ---- jobs ---- */

/* The next job, every lcore in turn. */
static bool
helper_take_job(struct helper *helper)
{
    uint32_t lcores = helper->dataplane->lcore_count;
    for (uint32_t i = 0; i < lcores; i++) {
        uint32_t from = (helper->next_lcore + i) % lcores;
        struct mail mail;
        if (mail_take(helper->mail_in[from], &mail)) {
            assert(mail.kind == MAIL_LATER_REQUEST);
            helper->next_lcore = from + 1;
            helper->job.later = mail.p;
            helper->job.starved_since_ms = 0;
            helper_keys_begin(helper);
            return true;
        }
    }
    return false;
}

static enum helper_turn
helper_starve(struct helper *helper)
{
    struct helper_job *job = &helper->job;
    if (job->starved_since_ms == 0) {
        job->starved_since_ms = helper->now_ms;
    } else if (helper->now_ms - job->starved_since_ms >= HELPER_STARVED_MS) {
        helper_refuse(helper, ERROR_OOM);
    }
    return HELPER_TURN_WAITS;
}

static enum helper_turn
helper_step(struct helper *helper)
{
    counter_add(&helper->steps, 1);
    if (load_relaxed(&helper->job.later->cancelled)) { /* a hint: nobody waits for the answer any more */
        counter_add(&helper->cancelled, 1);
        stream_out_fini(&helper->job.later->out);
        helper_answer(helper);
        return HELPER_TURN_WORKED;
    }
    switch (helper_keys_step(helper)) {
    case HELPER_STEP_DONE:
        helper_answer(helper);
        break;
    case HELPER_STEP_TOO_LONG:
        helper_refuse(helper, ERROR_TOO_LONG);
        break;
    case HELPER_STEP_NO_MEMORY:
        helper_refuse(helper, ERROR_OOM);
        break;
    case HELPER_STEP_STARVED:
        return helper_starve(helper);
    case HELPER_STEP_MORE:
        helper->job.starved_since_ms = 0;
        break;
    }
    return HELPER_TURN_WORKED;
}

/* ---- turns ---- */

enum helper_turn
helper_turn(struct helper *helper)
{
    enum helper_turn turn = HELPER_TURN_NO_JOB;
    helper_look_at_clock(helper);
    if (helper->unsent != NULL) {
        if (!helper_post(helper, helper->unsent)) {
            return HELPER_TURN_WAITS;
        }
        helper->unsent = NULL;
    }
    if (helper->job.later != NULL || helper_take_job(helper)) {
        turn = helper_step(helper);
    }
    store_quiesce(helper->store); /* every borrowed record pointer dies here */
    memory_trim(helper->memory);
    stream_reserve_share(&helper->reserve, load_relaxed(&helper->dataplane->live.session_bytes)); /* see live.h */
    stream_reserve_fill(&helper->reserve);
    return turn;
}

/* Offline, so that nobody waits for this member; until mail comes, or a millisecond. */
static void
helper_sleep(struct helper *helper, enum helper_turn turn)
{
    struct pollfd wait = { .fd = helper->waker.event_fd, .events = POLLIN };
    mail_sleep_begin(&helper->waker);
    /* the fence in mail_sleep_begin() orders these looks after the flag */
    bool has_job = turn == HELPER_TURN_NO_JOB && helper_take_job(helper);
    if (!has_job && !load_relaxed(&helper->stop)) {
        store_relaxed(&helper->state, turn == HELPER_TURN_NO_JOB ? HELPER_IDLE : HELPER_WORKING);
        store_offline(helper->store);
        poll(&wait, 1, turn == HELPER_TURN_NO_JOB ? -1 : WAIT_MS);
        store_online(helper->store);
        store_relaxed(&helper->state, HELPER_WORKING);
        counter_add(&helper->sleeps, 1);
    }
    mail_sleep_end(&helper->waker);
}

void
helper_run(struct helper *helper)
{
    while (!load_relaxed(&helper->stop)) {
        enum helper_turn turn = helper_turn(helper);
        if (turn != HELPER_TURN_WORKED) {
            helper_sleep(helper, turn);
        }
    }
}
