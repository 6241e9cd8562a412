/* burst_execute.c - a burst's requests in order: refused or run, answered in place, put back when they cannot run now.
 */
#include "config/cycles.h"
#include "dataplane/burst.h"
#include "dataplane/dataplane.h"
#include "dataplane/hot_keys.h"

#define OUTPUT_BUDGET_BYTES (1 * MIB) /* of a burst's replies: beyond, no further session has its turn */
#define RETRY_MS            15000 /* a request that cannot run comes again for so long: pages are emptied meanwhile */

/* ---- refusals ---- */

static void
answer_unknown(struct reply *reply, const struct request *request)
{
    struct slice pieces[3 + 2 * LIMIT_UNAUTH_ARGS];
    uint32_t count = 0;
    pieces[count++] = SLICE_LITERAL("ERR unknown command '");
    pieces[count++] = slice_of(request->name.data, MIN(request->name.bytes, 128));
    pieces[count++] = SLICE_LITERAL("', with args beginning with: ");
    for (uint32_t i = 0; i < request->args_count && i < LIMIT_UNAUTH_ARGS && count + 2 <= ARRAY_COUNT(pieces); i++) {
        if (request->args[i].kind == ARG_BYTES) {
            pieces[count++] = i == 0 ? SLICE_LITERAL("'") : SLICE_LITERAL("' '");
            pieces[count++] = request->args[i].bytes;
        }
    }
    if (request->args_count > 0 && count < ARRAY_COUNT(pieces)) {
        pieces[count++] = SLICE_LITERAL("' ");
    }
    reply_error_join(reply, pieces, count);
}

static void
answer_arity(struct reply *reply, const struct command *command)
{
    struct slice pieces[] = { SLICE_LITERAL("ERR wrong number of arguments for '"), slice_text(command->name),
                              SLICE_LITERAL("' command") };
    reply_error_join(reply, pieces, ARRAY_COUNT(pieces));
}

static void
answer_subscribed(struct reply *reply, const struct command *command)
{
    struct slice pieces[] = { SLICE_LITERAL("ERR Can't execute '"), slice_text(command->name),
                              SLICE_LITERAL(
                                  "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed "
                                  "in this context") };
    reply_error_join(reply, pieces, ARRAY_COUNT(pieces));
}

/* What stands in the way, in the order that clients expect; true: answered. */
static bool
refuse(const struct request *request, const struct burst_part *part, const struct burst *burst)
{
    struct session *session = part->session;
    struct lcore *lcore = session->lcore;
    struct reply *reply = &session->reply;
    const struct command *command = request->command;

    if (request->error != NULL) {
        counter_add(&lcore->counters->requests_malformed, 1);
        reply_error(reply, request->error);
        if (part->broken && request == &burst->requests[part->first + part->count - 1]) {
            session->flags |= SESSION_CLOSING;
        }
    } else if (command == NULL) {
        counter_add(&lcore->counters->requests_unknown, 1);
        if (session_is_authenticated(session)) {
            answer_unknown(reply, request);
        } else {
            reply_error(reply, ERROR_NOAUTH);
        }
    } else if (!command_arity_fits(command, request->args_count)) {
        answer_arity(reply, command);
    } else if (!(command->flags & CMD_NOAUTH) && !session_is_authenticated(session)) {
        counter_add(&lcore->counters->requests_denied, 1);
        reply_error(reply, ERROR_NOAUTH);
    } else if ((session->flags & SESSION_SUBSCRIBED) && session->wire == WIRE_RESP2 && !(command->flags & CMD_PUBSUB)) {
        answer_subscribed(reply, command);
    } else if ((command->flags & CMD_DENYOOM) && store_over_limit(lcore->store)) {
        reply_error(reply, ERROR_OOM);
    } else {
        return false;
    }
    return true;
}

/* Nobody can tell that it ran twice. */
static bool
is_repeatable(const struct command *command)
{
    return command != NULL && !(command->flags & (CMD_WRITE | CMD_PUBSUB | CMD_LATER | CMD_BARRIER));
}

/* A small reply will find memory. False: not at this moment, or never within the session's limit. */
static bool
has_answer_room(struct session *session)
{
    return sink_reserve(&session->out.sink, SINK_CONTIGUOUS_BYTES) != NULL;
}

/* A request that comes again and again finds an end: the client is told. False: give up. */
static bool
may_come_again(struct session *session, const struct lcore *lcore, bool starved)
{
    if (starved) {
        return session_may_starve(session);
    }
    if (session->retry_since_ms == 0) {
        session->retry_since_ms = lcore->now_ms;
    }
    return lcore->now_ms - session->retry_since_ms < RETRY_MS;
}

/* Instead of the reply: nothing of it was sent. */
static void
answer_given_up(struct session *session, const struct lcore *lcore, bool starved)
{
    struct reply *reply = &session->reply;
    session->attempt = 0;
    session->progress = (struct exec_progress){ 0 };
    session->retry_since_ms = session->starved_since_ms = 0;
    reply_restart(reply);
    reply_error(reply, starved || store_over_limit(lcore->store) ? ERROR_OOM : ERROR_BUSY);
    reply_end(reply);
}

/* The reply is not to be sent as it is: the request comes again, answers later, or wrote too much. Returns what became
 * of it. */
static enum exec_result
mend_reply(const struct request *request, struct session *session, enum exec_result result)
{
    struct lcore *lcore = session->lcore;
    struct reply *reply = &session->reply;
    struct sink *sink = &session->out.sink;
    bool too_long = sink_offset(sink) - reply->start > LIMIT_REPLY_BYTES;
    bool starved = sink->failed && session->out.starved && !too_long;

    if (starved && is_repeatable(request->command)) {
        result = EXEC_RETRY;
    }
    if (result == EXEC_LATER || (result == EXEC_RETRY && may_come_again(session, lcore, starved))) {
        sink_rewind(sink, reply->start);
        session->flags |= result == EXEC_RETRY ? SESSION_RETRY : SESSION_PARKED;
        counter_add(result == EXEC_RETRY ? &lcore->counters->requests_retried : &lcore->counters->requests_later, 1);
        return result;
    }
    if (result == EXEC_RETRY) {
        answer_given_up(session, lcore, starved);
        result = EXEC_DONE;
    } else if (!sink->failed || too_long) {
        reply_restart(reply);
        reply_error(reply, ERROR_TOO_LONG);
        reply_end(reply);
    }
    if (sink->failed) {
        bool memory = session->out.starved;
        sink_rewind(sink, reply->start);
        counter_add(memory ? &lcore->counters->closed_no_memory : &lcore->counters->closed_output_limit, 1);
        session_kill(session);
    }
    return result;
}

static void
limit_output(struct session *session, struct lcore *lcore, uint64_t pending)
{
    if (!session_is_authenticated(session)) {
        counter_add(&lcore->counters->closed_output_limit, 1);
        session_kill(session);
    } else if (pending > LIMIT_OUTPUT_SOFT_BYTES) {
        session->flags |= SESSION_FULL;
    }
}

/* The handlers' view of the part at hand, and what is counted in one go when a run of neighbours or the part ends. */
struct part_run {
    struct exec exec;
    struct burst *burst;
    const struct burst_part *part;
    struct burst_run run; /* the neighbours at hand */
    uint64_t cycles;      /* the counter, as last read */
    uint64_t run_errors, errors;
    uint64_t written;     /* reply bytes of the burst, but for the part at hand */
    uint64_t slow_cycles; /* of dataplane_live */
};

/* The neighbours before request `next` of the part end: their mean service time. The cycle counter is a good part of a
 * small request, so it is read once for all of them, where the command is a fast or a short one. */
static void
run_end(struct part_run *at, uint32_t next)
{
    struct lcore *lcore = at->exec.lcore;
    uint32_t count = at->run.count;
    enum command_id id = at->run.command;
    uint64_t now = cycles_now();
    at->run.service_cycles = now - at->cycles;
    if (UNLIKELY(now - at->run.polled_cycles > at->slow_cycles)) {
        const struct request *last = &at->burst->requests[at->part->first + next - 1];
        slowlog_write(lcore, at->part->session, last, count, at->cycles - at->run.polled_cycles, now - at->cycles);
    }
    counter_add(&lcore->counters->commands[id], count);
    if (UNLIKELY(at->run_errors > 0)) {
        counter_add(&lcore->counters->command_errors[id], at->run_errors);
    }
    at->burst->runs[at->burst->run_count++] = at->run;
    at->cycles = now;
    at->run_errors = 0;
    at->run.count = 0;
}

/* Anything but "done" with a short reply: the reply is completed, replaced or dropped, and the output's limits are
 * looked at. False: the request is put back. */
static bool
request_finish(struct session *session, const struct request *request, enum exec_result result)
{
    struct reply *reply = &session->reply;
    struct stream_out *out = &session->out;
    const struct sink *sink = &out->sink;

    bool complete = (result == EXEC_DONE || result == EXEC_CLOSE) && !sink->failed &&
                    sink_offset(sink) - reply->start <= LIMIT_REPLY_BYTES;
    if (complete) {
        reply_end(reply);
    }
    if (!complete || sink->failed) {
        result = mend_reply(request, session, result);
    }
    session_touch_output(session);
    if (result == EXEC_RETRY) {
        return false;
    }
    if (result == EXEC_CLOSE) {
        session->flags |= SESSION_CLOSING;
    }
    if (stream_out_pending(out) > LIMIT_UNAUTH_OUTPUT_BYTES) {
        limit_output(session, session->lcore, stream_out_pending(out));
    }
    return true;
}

/* The handler, for a request that may have been tried before. */
static enum exec_result
execute(struct exec *exec)
{
    struct session *session = exec->session;

    exec->attempt = session->attempt;
    exec->progress = session->progress;
    enum exec_result result = exec_table[exec->request->command->id](exec);
    bool again = result == EXEC_RETRY;
    session->attempt = again ? session->attempt + 1 : 0;
    session->progress = again ? exec->progress : (struct exec_progress){ 0 };
    session->retry_since_ms = again ? session->retry_since_ms : 0;
    exec->attempt = 0;
    return result;
}

/* Any request, whatever stands in its way. False: it is put back, and those after it. */
static bool
request_run(struct part_run *at, const struct request *request)
{
    struct session *session = at->exec.session;
    enum exec_result result = EXEC_DONE;

    if ((session->flags & SESSION_CANNOT_RUN) != 0) {
        return false;
    }
    bool roomy = has_answer_room(session);
    reply_begin(&session->reply, request->correlation);
    if (!roomy) {
        mend_reply(request, session, session->out.starved ? EXEC_RETRY : EXEC_DONE);
        return false; /* comes again, or its session is closed: not even an error fits */
    }
    bool refused = refuse(request, at->part, at->burst);
    if (!refused) {
        result = execute(&at->exec);
    }
    if (!request_finish(session, request, result)) {
        return false;
    }
    at->run.count += !refused;
    at->errors += session->reply.is_error;
    at->run_errors += !refused && session->reply.is_error;
    return true;
}

/* Nothing stands in its way: what nearly every request is. */
static inline bool
request_is_plain(const struct request *request, const struct session *session)
{
    const struct command *command = request->command;
    const struct sink *sink = &session->out.sink;
    const uint32_t standing = SESSION_AUTHENTICATED | SESSION_SUBSCRIBED | SESSION_CANNOT_RUN;
    return command != NULL && command_arity_fits(command, request->args_count) &&
           (session->flags & standing) == SESSION_AUTHENTICATED && session->attempt == 0 &&
           (size_t)(sink->end - sink->at) >= SINK_CONTIGUOUS_BYTES &&
           !((command->flags & CMD_DENYOOM) != 0 && store_over_limit(session->lcore->store));
}

/* A plain request. False: it is put back, and those after it. */
static inline bool
request_run_plain(struct part_run *at, const struct request *request)
{
    struct session *session = at->exec.session;
    struct reply *reply = &session->reply;
    struct stream_out *out = &session->out;

    reply_begin(reply, request->correlation);
    enum exec_result result = exec_table[request->command->id](&at->exec);
    /* What is pending includes the reply: the smallest limit of both is looked at first. */
    bool is_short = result == EXEC_DONE && reply->patch == NULL && !out->sink.failed &&
                    stream_out_pending(out) <= LIMIT_UNAUTH_OUTPUT_BYTES;
    if (UNLIKELY(!is_short)) {
        if (result == EXEC_RETRY) {
            session->attempt = 1;
            session->progress = at->exec.progress;
        }
        if (!request_finish(session, request, result)) {
            return false;
        }
    }
    if (UNLIKELY((session->flags & SESSION_DIRTY) == 0)) {
        session_touch_output(session);
    }
    at->run.count++;
    if (UNLIKELY(reply->is_error)) {
        at->errors++;
        at->run_errors++;
    }
    return true;
}

/* The requests of part->first + `index` and those after it are put back. */
static void
part_put_back(struct burst *burst, const struct burst_part *part, uint32_t index)
{
    size_t offset = part->in_offset;
    burst->put_back += part->count - index;
    for (uint32_t i = 0; i < index; i++) {
        offset += burst->requests[part->first + i].wire_bytes;
    }
    session_rewind(part->session, offset);
}

static void
part_execute(struct part_run *at, const struct burst_part *part)
{
    struct session *session = part->session;
    struct lcore *lcore = at->exec.lcore;
    struct burst *burst = at->burst;
    const struct command *command = NULL;
    uint64_t begin = sink_offset(&session->out.sink);
    uint32_t done = 0;

    at->part = part;
    at->exec.session = session;
    at->exec.reply = &session->reply;
    at->errors = 0;
    for (bool runs = at->written <= OUTPUT_BUDGET_BYTES; done < part->count; done++) {
        const struct request *request = &burst->requests[part->first + done];
        if (request->command != command || UNLIKELY(command != NULL && !(command->flags & (CMD_FAST | CMD_SHORT)))) {
            if (at->run.count > 0) {
                run_end(at, done);
            }
            command = request->command;
            if (command != NULL) {
                at->run = (struct burst_run){ .command = command->id, .polled_cycles = session->polled_cycles };
                session->last_command = (int16_t)command->id;
            }
        }
        at->exec.request = request;
        at->exec.hash = burst->hashes[part->first + done];
        at->exec.progress = (struct exec_progress){ 0 };
        if (LIKELY(runs && request_is_plain(request, session))) {
            runs = request_run_plain(at, request);
        } else {
            runs = runs && request_run(at, request);
        }
        if (UNLIKELY(!runs)) {
            part_put_back(burst, part, done);
            break;
        }
        session->starved_since_ms = 0;
    }
    if (LIKELY(at->run.count > 0)) {
        run_end(at, done);
    }
    at->written += sink_offset(&session->out.sink) - begin;
    session->requests += done;
    counter_add(&lcore->counters->requests, done);
    if (UNLIKELY(at->errors > 0)) {
        counter_add(&lcore->counters->replies_error, at->errors);
    }
}

void
burst_execute(struct burst *burst, struct lcore *lcore)
{
    struct part_run at; /* filled in field by field: zeroing it whole takes longer than a small request */
    at.exec = (struct exec){ .store = lcore->store, .lcore = lcore, .now_ms = lcore->now_ms };
    at.burst = burst;
    at.cycles = cycles_now();
    at.run.count = 0;
    at.run_errors = at.written = 0;
    at.slow_cycles = load_relaxed(&lcore->dataplane->live.slow_cycles); /* see live.h */
    if (UNLIKELY(lcore->hot_keys != NULL)) {
        hot_keys_count(lcore->hot_keys, burst);
    }
    for (uint32_t i = 0; i < burst->part_count; i++) {
        part_execute(&at, &burst->parts[i]);
    }
}
