#include "dataplane/session_pages.h"
#include "dataplane/dataplane.h"

static void
fill_row(const struct session *session, struct session_row *row)
{
    const struct lcore *lcore = session->lcore;
    *row = (struct session_row){
        .id = session->id,
        .age_ms = lcore->now_ms - session->opened_ms,
        .idle_ms = lcore->now_ms - session->active_ms,
        .requests = session->requests,
        .rx_bytes = session->rx_bytes,
        .tx_bytes = MAX(session->out.sent, session->out.acknowledged),
        .pending_bytes = stream_out_pending(&session->out),
        .subscriptions = session->subscription_count,
        .wire = session->wire,
        .flags = session->flags,
        .last_command = session->last_command,
        .port = (uint16_t)session->port->index,
        .authenticated = session_is_authenticated(session),
    };
    memcpy(row->peer, session->peer, sizeof(row->peer));
    memcpy(row->local, session->local, sizeof(row->local));
    memcpy(row->name, session->name, sizeof(row->name));
    memcpy(row->library_name, session->library_name, sizeof(row->library_name));
    memcpy(row->library_version, session->library_version, sizeof(row->library_version));
    const char *user = lcore->settings->user_count > 0 ? lcore->settings->users[session->user].name : "default";
    memcpy(row->user, user, strnlen(user, sizeof(row->user) - 1));
}

void
session_pages_list(struct lcore *lcore, struct session_list *list)
{
    /* The cursor is a bucket of the table by id, plus one: a session that stays is met exactly once. A bucket's list is
     * cut where the page ends only when it is longer than a whole page. */
    uint64_t bucket = list->cursor;
    uint32_t visited = 0;
    list->count = 0;
    for (; bucket < LCORE_SESSION_BUCKETS && visited < SESSION_LIST_VISITED; bucket++, visited++) {
        uint32_t length = 0;
        for (const struct session *session = lcore->sessions[bucket]; session != NULL; session = session->id_next) {
            length++;
        }
        if (list->count > 0 && list->count + length > SESSION_LIST_ROWS) {
            break;
        }
        for (const struct session *session = lcore->sessions[bucket];
             session != NULL && list->count < SESSION_LIST_ROWS; session = session->id_next) {
            fill_row(session, &list->rows[list->count++]);
        }
    }
    list->cursor = bucket < LCORE_SESSION_BUCKETS ? bucket : 0;

    struct mail mail = { .kind = MAIL_SESSIONS_LIST, .p = list };
    lcore_post(lcore, MAIL_FROM_MGMT, &mail);
}

void
session_pages_kill(struct lcore *lcore, struct session_kill *kill)
{
    kill->killed = 0;
    for (uint32_t i = 0; i < kill->count && i < SESSION_KILL_IDS; i++) {
        struct session *session = session_by_id(lcore, kill->ids[i]);
        if (session != NULL) {
            session_kill(session);
            kill->killed++;
        }
    }
    struct mail mail = { .kind = MAIL_SESSION_KILL, .p = kill, .b = kill->killed };
    lcore_post(lcore, MAIL_FROM_MGMT, &mail);
}
