/* ctl_sessions.c - sessions: rows of every lcore, asked for by mail while the management client waits. */
#include "mgmt/ctl.h"
#include "mgmt/gather.h"
#include "mgmt/log.h"

struct sessions_job {
    struct gather gather; /* first */
    struct ctl_request request;
    struct sessions_job *next;
    json_t *rows;
    uint64_t limit;
    bool cut;
};

static struct sessions_job *jobs; /* at most one for each management client */

static const char *
wire_text(uint32_t wire)
{
    switch (wire) {
    case WIRE_RESP2:
        return "resp2";
    case WIRE_RESP3:
        return "resp3";
    case WIRE_SBE:
        return "sbe";
    default:
        return "unknown"; /* nothing was received yet */
    }
}

static json_t *
session_json(const struct session_row *row, uint32_t lcore)
{
    bool known = row->last_command >= 0 && row->last_command < COMMAND_COUNT;

    return json_pack(
        "{s:I,s:i,s:i,s:s,s:s,s:s,s:s,s:s,s:f,s:f,s:I,s:I,s:I,s:s,s:i,s:I,s:s,s:s}", "id", (json_int_t)row->id, "lcore",
        (int)lcore, "port", (int)row->port, "peer", row->peer, "local", row->local, "wire", wire_text(row->wire),
        "user", row->authenticated ? row->user : "", "name", row->name, "age_s", (double)MAX(row->age_ms, 0) / 1000,
        "idle_s", (double)MAX(row->idle_ms, 0) / 1000, "requests", (json_int_t)row->requests, "rx_bytes",
        (json_int_t)row->rx_bytes, "tx_bytes", (json_int_t)row->tx_bytes, "last_command",
        known ? command_table[row->last_command].name : "", "subscriptions", (int)row->subscriptions, "pending_bytes",
        (json_int_t)row->pending_bytes, "library", row->library_name, "library_version", row->library_version);
}

static bool
job_rows(struct gather *gather, uint32_t lcore, const struct session_row *rows, uint32_t count)
{
    struct sessions_job *job = (struct sessions_job *)gather;

    for (uint32_t i = 0; i < count; i++) {
        if (json_array_size(job->rows) == job->limit) {
            job->cut = true;
            return false;
        }
        json_array_append_new(job->rows, session_json(&rows[i], lcore));
    }
    return true;
}

static void
job_done(struct gather *gather, bool whole)
{
    struct sessions_job *job = (struct sessions_job *)gather;
    struct mgmt *mgmt = job->request.mgmt;
    uint64_t client_id = job->request.client_id;
    struct text out = { 0 };

    if (whole) {
        job->request.result = json_pack("{s:i,s:b,s:O}", "total", (int)load_relaxed(&mgmt->dataplane->sessions), "cut",
                                        job->cut, "rows", job->rows);
    } else {
        ctl_fail(&job->request, "lcore %u does not answer", gather->lcore);
    }
    ctl_finish(&job->request, &out);
    json_decref(job->rows);
    for (struct sessions_job **at = &jobs; *at != NULL; at = &(*at)->next) {
        if (*at == job) {
            *at = job->next;
            break;
        }
    }
    free(job);
    ctl_server_answer(&mgmt->ctl, client_id, out.bytes, out.used);
    text_fini(&out);
}

enum ctl_result
ctl_sessions(struct ctl_request *request)
{
    uint64_t limit = CTL_SESSIONS_DEFAULT;

    if (!ctl_arg_uint(request, "limit", CTL_SESSIONS_MOST, &limit)) {
        return CTL_DONE;
    }
    if (!mgmt_serves(request->mgmt)) {
        return ctl_fail(request, "the appliance is %s", mgmt_state_text(request->mgmt));
    }
    struct sessions_job *job = calloc(1, sizeof(*job));
    CHECK(job != NULL);
    job->request = *request;
    job->rows = json_array();
    job->limit = limit;
    job->gather.rows = job_rows;
    job->gather.done = job_done;
    job->next = jobs;
    jobs = job;
    gather_start(&job->gather, request->mgmt->dataplane, 0, request->mgmt->dataplane->lcore_count - 1);
    return CTL_LATER;
}

/* ---- kill ---- */

/* A management client that waits for one session's end. */
struct kill_job {
    struct ctl_request request;
    uint64_t id;
};

static void
kill_done(struct session_kill *kill)
{
    struct kill_job *job = kill->asker;
    struct mgmt *mgmt = job->request.mgmt;
    uint64_t client_id = job->request.client_id;
    struct text out = { 0 };

    if (kill->killed > 0) {
        log_info("session %llu: killed by uid %u on the management socket", (unsigned long long)job->id,
                 (unsigned)job->request.uid);
        job->request.result = json_pack("{s:I}", "killed", (json_int_t)job->id);
    } else {
        ctl_fail(&job->request, "no session %llu; \"sessions\" lists them", (unsigned long long)job->id);
    }
    ctl_finish(&job->request, &out);
    free(job);
    ctl_server_answer(&mgmt->ctl, client_id, out.bytes, out.used);
    text_fini(&out);
}

enum ctl_result
ctl_sessions_kill(struct ctl_request *request)
{
    struct dataplane *dataplane = request->mgmt->dataplane;
    uint64_t id = 0;

    if (!ctl_arg_uint(request, "id", INT64_MAX, &id)) {
        return CTL_DONE;
    }
    if (id == 0) {
        return ctl_fail(request, "expected the id of a session, id=N");
    }
    uint32_t lcore = (uint32_t)((id - 1) % dataplane->lcore_count); /* as lcores give ids */
    /* acquire: pairs with the release in lcore_end(). While others drain, a session that holds them may be ended. */
    if (request->mgmt->state == MGMT_STOPPED || load_acquire(&dataplane->lcores[lcore]->state) == LCORE_STOPPED) {
        return ctl_fail(request, "lcore %u has stopped", lcore);
    }
    struct kill_job *job = calloc(1, sizeof(*job));
    struct session_kill *kill = calloc(1, sizeof(*kill));
    CHECK(job != NULL && kill != NULL);
    kill->lcore = lcore;
    kill->count = 1;
    kill->ids[0] = id;
    kill->asker = job;
    kill->done = kill_done;
    struct mail mail = { .kind = MAIL_SESSION_KILL, .p = kill };
    if (!dataplane_post(dataplane, kill->lcore, &mail)) {
        free(job);
        free(kill);
        return ctl_fail(request, "lcore %u does not answer", lcore);
    }
    job->request = *request;
    job->id = id;
    return CTL_LATER;
}

bool
ctl_sessions_tick(int64_t now_ms)
{
    for (struct sessions_job *job = jobs, *next; job != NULL; job = next) {
        next = job->next; /* each step ends at most its own job */
        gather_tick(&job->gather, now_ms);
    }
    return jobs != NULL;
}
