#include "dataplane/later.h"
#include "dataplane/dataplane.h"
#include "dataplane/port_fabric.h"

#define ANSWERS_ROOM 128 /* slots that questions leave to answers, so that those find room */

static void
later_give(struct lcore *lcore, struct later *later)
{
    stream_block_give(&lcore->reserve, later, later->block_bytes);
}

/* The request's arguments, copied: the receive buffer does not outlive the burst. False: too many or too long. */
static bool
later_copy_args(struct later *later, const struct request *request)
{
    size_t used = 0;
    if (request->args_count > LATER_ARGS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < request->args_count; i++) {
        char scratch[ARG_TEXT_BYTES];
        struct slice bytes = arg_bytes(&request->args[i], scratch);
        if (bytes.bytes > sizeof(later->text) - used) {
            return false;
        }
        if (bytes.bytes > 0) {
            memcpy(later->text + used, bytes.data, bytes.bytes);
        }
        later->args[i] = slice_of(later->text + used, bytes.bytes);
        used += bytes.bytes;
    }
    later->args_count = request->args_count;
    return true;
}

enum exec_result
later_ask(struct exec *exec, enum later_kind kind, uint32_t to)
{
    struct lcore *lcore = exec->lcore;
    struct session *session = exec->session;
    if (to != lcore->index && mail_room(lcore->mail_out[to]) <= ANSWERS_ROOM) {
        return EXEC_RETRY;
    }
    uint32_t block_bytes = sizeof(struct later);
    struct later *later = memory_take(lcore->memory, block_bytes);
    if (UNLIKELY(later == NULL)) {
        block_bytes = STREAM_BLOCK_BYTES;
        later = stream_block_take(&lcore->reserve, STREAM_FOR_REPLY);
    }
    if (later == NULL) {
        return EXEC_RETRY;
    }
    *later = (struct later){
        .kind = kind,
        .block_bytes = block_bytes,
        .from = lcore->index,
        .session_id = session->id,
        .wire = session->wire,
        .correlation = exec->request->correlation,
        .user = session->user,
    };
    if (!later_copy_args(later, exec->request)) {
        later_give(lcore, later);
        reply_error(exec->reply, "ERR too many or too long arguments for this command");
        return EXEC_DONE;
    }
    session->later = later;
    if (to == lcore->index) {
        later_serve(lcore, later); /* no mail to oneself; the answer comes in another turn all the same */
        return EXEC_LATER;
    }
    struct mail mail = { .kind = MAIL_LATER_REQUEST, .p = later };
    if (!lcore_post(lcore, to, &mail)) {
        session->later = NULL;
        later_give(lcore, later);
        return EXEC_RETRY;
    }
    return EXEC_LATER;
}

void
later_serve(struct lcore *lcore, struct later *later)
{
    port_fabric_later(lcore, later);
}

void
later_answer(struct lcore *lcore, struct later *later)
{
    struct mail mail = { .kind = MAIL_LATER_REPLY, .p = later };
    later->answered = true;
    if (later->from == lcore->index) {
        later_finish(lcore, later);
        return;
    }
    if (!lcore_post(lcore, later->from, &mail)) {
        later->next = lcore->later_unsent;
        lcore->later_unsent = later;
    }
}

/* Hand the struct, and the answer it carries, back to the management core. */
static void
later_release(struct lcore *lcore, struct later *later)
{
    struct mail mail = { .kind = MAIL_LATER_REQUEST, .p = later };
    later->session_id = 0;
    if (!lcore_post(lcore, MAIL_FROM_MGMT, &mail)) {
        later->next = lcore->later_unsent;
        lcore->later_unsent = later;
    }
}

void
later_retry(struct lcore *lcore)
{
    struct later *unwritten = lcore->later_unwritten;
    if (UNLIKELY(unwritten != NULL)) {
        lcore->later_unwritten = unwritten->next; /* one a turn, of either list */
        later_finish(lcore, unwritten);
    }
    struct later *unsent = lcore->later_unsent;
    if (LIKELY(unsent == NULL)) {
        return;
    }
    lcore->later_unsent = unsent->next; /* one a turn */
    if (unsent->session_id == 0) {
        later_release(lcore, unsent);
    } else {
        later_answer(lcore, unsent);
    }
}

/* Write the answer to the session that waits for it. False: no memory at this moment. */
static bool
later_write(struct lcore *lcore, struct later *later, struct session *session)
{
    struct stream_out *out = &session->out;
    const uint8_t *answer = later->answer_big != NULL ? later->answer_big : later->answer;
    uint64_t start = stream_out_end(out);
    bool written = stream_out_move(out, &later->out);
    if (written) {
        sink_write(&out->sink, slice_of(answer, later->answer_bytes));
        written = !out->sink.failed;
    }
    if (!written && out->starved) {
        sink_rewind(&out->sink, start);
        counter_add(&lcore->counters->memory_misses, 1);
        return false;
    }
    if (written) {
        counter_add(&lcore->counters->requests, 1);
        session_unpark(session);
    } else {
        counter_add(&lcore->counters->closed_output_limit, 1);
        session->later = NULL;
        session_kill(session);
    }
    return true;
}

void
later_finish(struct lcore *lcore, struct later *later)
{
    struct session *session = session_by_id(lcore, later->session_id);
    if (session != NULL && (session->flags & SESSION_PARKED) && session->later == later &&
        !later_write(lcore, later, session)) {
        later->next = lcore->later_unwritten; /* later_retry() comes back to it */
        lcore->later_unwritten = later;
        return;
    }
    later->out.memory = lcore->memory;
    later->out.reserve = &lcore->reserve;
    stream_out_fini(&later->out);
    if (later->answer_big != NULL) {
        later_release(lcore, later); /* its memory is the management core's; the struct comes back empty */
    } else {
        later_give(lcore, later);
    }
}

void
later_cancel(struct later *later)
{
    store_relaxed(&later->cancelled, true);
}

/* ---- errors, written into the struct ---- */

static bool
answer_more(struct sink *sink, size_t bytes)
{
    sink->end = sink->at;
    sink->failed = true;
    return false;
}

static const struct sink_ops answer_ops = { .more = answer_more };

void
later_answer_error(struct later *later, const char *error)
{
    struct sink sink = { .at = later->answer, .end = later->answer + sizeof(later->answer), .ops = &answer_ops };
    struct reply reply;
    sink.chunk = sink.at;
    reply_init(&reply, later->wire, &sink);
    reply_begin(&reply, later->correlation);
    reply_error(&reply, error);
    reply_end(&reply);
    assert(!sink.failed);
    later->answer_bytes = (uint32_t)sink_offset(&sink);
}
