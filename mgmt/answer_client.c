#include "mgmt/answer_client.h"
#include "mgmt/gather.h"
#include "mgmt/mgmt.h"

#define JOBS_MOST 4 /* at once: each holds a page and a text; the others wait in turn */

/* A command cannot end its own session before its answer is on the way. */
#define SELF_KILL_MS 50

enum job_state { JOB_GATHERING, JOB_KILLING, JOB_KILLING_SELF };

struct job_victim {
    uint64_t id;
    uint32_t lcore;
};

struct client_job {
    struct gather gather; /* first */
    struct mgmt *mgmt;
    struct client_job *next;
    struct later *later; /* NULL once answered */
    struct client_filter filter;
    enum job_state state;
    struct text text; /* LIST, INFO */
    struct job_victim *victims;
    size_t victim_count, victim_room, posted;
    uint32_t kills_in_flight;
    uint64_t killed;
    struct job_victim self;
    int64_t self_at_ms;
};

static void job_go_on_killing(struct client_job *job);

static void
job_free(struct client_job *job)
{
    struct answers *answers = &job->mgmt->answers;

    for (struct client_job **at = &answers->jobs; *at != NULL; at = &(*at)->next) {
        if (*at == job) {
            *at = job->next;
            break;
        }
    }
    answers->job_count--;
    text_fini(&job->text);
    free(job->victims);
    free(job);
}

/* ---- killing ---- */

static void
job_add_victim(struct client_job *job, uint64_t id, uint32_t lcore)
{
    if (id == job->later->session_id) {
        job->self = (struct job_victim){ id, lcore };
        return;
    }
    if (job->victim_count == job->victim_room) {
        job->victim_room = MAX(64, job->victim_room * 2);
        job->victims = realloc(job->victims, job->victim_room * sizeof(*job->victims));
        CHECK(job->victims != NULL);
    }
    job->victims[job->victim_count++] = (struct job_victim){ id, lcore };
}

static void
job_kills_done(struct session_kill *kill)
{
    struct client_job *job = kill->asker;

    job->killed += kill->killed;
    job->kills_in_flight--;
    job_go_on_killing(job);
}

/* Rows came lcore by lcore, so victims of one lcore stand together. */
static bool
job_post_kills(struct client_job *job)
{
    while (job->posted < job->victim_count) {
        struct session_kill *kill = calloc(1, sizeof(*kill));
        CHECK(kill != NULL);
        kill->asker = job;
        kill->done = job_kills_done;
        kill->lcore = job->victims[job->posted].lcore;
        size_t at = job->posted;
        while (at < job->victim_count && kill->count < SESSION_KILL_IDS && job->victims[at].lcore == kill->lcore) {
            kill->ids[kill->count++] = job->victims[at++].id;
        }
        struct mail mail = { .kind = MAIL_SESSION_KILL, .p = kill };
        if (!dataplane_post(job->mgmt->dataplane, kill->lcore, &mail)) {
            free(kill);
            return false;
        }
        job->posted = at;
        job->kills_in_flight++;
    }
    return true;
}

static void
job_answer_kill(struct client_job *job)
{
    struct later *later = job->later;
    uint64_t count = job->killed + (job->self.id != 0);

    if (job->filter.old_form && count == 0) {
        answer_error(job->mgmt, later, "ERR No such client");
    } else {
        struct reply *reply = answer_begin(job->mgmt, later);
        if (job->filter.old_form) {
            reply_ok(reply);
        } else {
            reply_integer(reply, (int64_t)count);
        }
        answer_end(job->mgmt, later);
    }
    job->later = NULL;
}

static void
job_go_on_killing(struct client_job *job)
{
    if (!job_post_kills(job) || job->kills_in_flight > 0) {
        return;
    }
    if (job->state == JOB_KILLING) {
        job_answer_kill(job);
        job->state = JOB_KILLING_SELF;
        job->self_at_ms = loop_now_ms() + SELF_KILL_MS;
    }
    if (job->self.id == 0) {
        job_free(job);
    }
}

static void
job_kill_self(struct client_job *job, int64_t now_ms)
{
    struct mail mail = { .kind = MAIL_SESSION_KILL };

    if (now_ms >= job->self_at_ms) {
        struct session_kill *kill = calloc(1, sizeof(*kill));
        CHECK(kill != NULL);
        kill->lcore = job->self.lcore;
        kill->count = 1;
        kill->ids[0] = job->self.id;

        mail.p = kill;
        if (!dataplane_post(job->mgmt->dataplane, kill->lcore, &mail)) {
            free(kill);
            return;
        }
        job_free(job);
    }
}

/* ---- gathering ---- */

static bool
job_rows(struct gather *gather, uint32_t lcore, const struct session_row *rows, uint32_t count)
{
    struct client_job *job = (struct client_job *)gather;

    for (uint32_t i = 0; i < count; i++) {
        if (!client_filter_matches(&job->filter, &rows[i])) {
            continue;
        }
        if (job->later->kind == LATER_CLIENT_KILL) {
            job_add_victim(job, rows[i].id, lcore);
        } else {
            client_print(&rows[i], &job->text);
        }
    }
    return job->text.used <= LIMIT_REPLY_BYTES;
}

static void
job_done(struct gather *gather, bool whole)
{
    struct client_job *job = (struct client_job *)gather;

    if (!whole) {
        answer_error(job->mgmt, job->later, "ERR lcore %u does not answer", gather->lcore);
        job_free(job);
    } else if (job->later->kind == LATER_CLIENT_KILL) {
        job->state = JOB_KILLING;
        job_go_on_killing(job);
    } else {
        struct reply *reply = answer_begin(job->mgmt, job->later);
        reply_verbatim(reply, slice_of(job->text.bytes, job->text.used));
        answer_end(job->mgmt, job->later);
        job_free(job);
    }
}

static void
job_start(struct mgmt *mgmt, struct later *later)
{
    struct client_job *job = calloc(1, sizeof(*job));
    char error[CLIENT_ERROR_BYTES];
    bool own = later->kind == LATER_CLIENT_LIST && answer_argument_is(later, 0, "info");

    CHECK(job != NULL);
    if (!client_filter_parse(later, mgmt->settings, &job->filter, error)) {
        free(job);
        answer_error(mgmt, later, "%s", error);
        return;
    }
    job->mgmt = mgmt;
    job->later = later;
    job->gather.rows = job_rows;
    job->gather.done = job_done;
    job->next = mgmt->answers.jobs;
    mgmt->answers.jobs = job;
    mgmt->answers.job_count++;
    gather_start(&job->gather, mgmt->dataplane, own ? later->from : 0,
                 own ? later->from : mgmt->dataplane->lcore_count - 1);
}

/* ---- in turn ---- */

void
answer_clients(struct mgmt *mgmt, struct later *later)
{
    struct answers *answers = &mgmt->answers;

    later->next = NULL;
    *answers->waiting_tail = later;
    answers->waiting_tail = &later->next;
    answer_clients_tick(mgmt, 0);
}

void
answers_take_page(struct mgmt *mgmt, struct mail *mail)
{
    if (mail->kind == MAIL_SESSIONS_LIST) {
        gather_take(mail->p);
        return;
    }
    struct session_kill *kill = mail->p;
    if (kill->done != NULL) {
        kill->done(kill);
    }
    free(kill);
}

void
answer_clients_tick(struct mgmt *mgmt, int64_t now_ms)
{
    struct answers *answers = &mgmt->answers;

    for (struct client_job *job = answers->jobs, *next; job != NULL && now_ms != 0; job = next) {
        next = job->next; /* each step ends at most its own job */
        if (job->state == JOB_GATHERING) {
            gather_tick(&job->gather, now_ms);
        } else if (job->state == JOB_KILLING) {
            job_go_on_killing(job);
        } else {
            job_kill_self(job, now_ms);
        }
    }
    while (answers->waiting != NULL && answers->job_count < JOBS_MOST) {
        struct later *later = answers->waiting;
        answers->waiting = later->next;
        if (answers->waiting == NULL) {
            answers->waiting_tail = &answers->waiting;
        }
        job_start(mgmt, later);
    }
}
