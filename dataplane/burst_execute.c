/* burst_execute.c - a burst's requests in order: refused or run, answered in place, put back when they cannot run now.
 */
#include "config/cycles.h"
#include "dataplane/burst.h"
#include "dataplane/dataplane.h"
#include "dataplane/hot_keys.h"

#define OUTPUT_BUDGET_BYTES (1 * MIB) /* replies of one burst: copying more would take longer than a turn may */
#define RETRY_MS            1000      /* a request that cannot run comes again for so long */

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

/* Nothing stands in the way: what nearly every request is. */
static inline bool
runs_plainly(const struct request *request, const struct session *session, const struct lcore *lcore)
{
    const struct command *command = request->command;
    uint32_t standing = session->flags & (SESSION_AUTHENTICATED | SESSION_SUBSCRIBED);
    return command != NULL && command_arity_fits(command, request->args_count) && standing == SESSION_AUTHENTICATED &&
           !((command->flags & CMD_DENYOOM) && store_over_limit(lcore->store));
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

static inline enum exec_result
execute(struct exec *exec, const struct request *request)
{
    struct session *session = exec->session;
    enum command_id id = request->command->id;

    exec->request = request;
    exec->attempt = session->attempt;
    exec->progress = session->progress;
    session->last_command = (int16_t)id;
    enum exec_result result = exec_table[id](exec);
    if (UNLIKELY(result == EXEC_RETRY)) {
        session->attempt++;
        session->progress = exec->progress;
    } else if (UNLIKELY(session->attempt != 0)) {
        session->attempt = 0;
        session->progress = (struct exec_progress){ 0 };
        session->retry_since_ms = 0;
    }
    return result;
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
    bool starved = sink->failed && session->out.starved;

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
    } else if (!sink->failed) {
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

/* Room for an answer, the handlers' view of the part at hand, and what is counted in one go when it ends. */
struct part_run {
    struct exec exec;
    struct burst *burst;
    const struct burst_part *part;
    struct burst_run run; /* the neighbours at hand */
    uint64_t cycles;      /* the counter, as last read */
    uint64_t run_errors, errors, written, answered;
    uint64_t slow_cycles; /* of dataplane_live */
    bool histograms;
};

/* The neighbours of one command end: their mean service time. The cycle counter is a good part of a small request, so
 * it is read once for all of them, where the command is a fast one. `last` is the last of them. */
static void
run_end(struct part_run *at, const struct request *last)
{
    struct lcore *lcore = at->exec.lcore;
    uint32_t count = at->run.count;
    if (count == 0) {
        return;
    }
    enum command_id id = at->run.command;
    uint64_t now = cycles_now();
    if (LIKELY(at->histograms)) {
        histogram_record(&lcore->histograms->service[id], lcore_ns(lcore, now - at->cycles) / count, count);
    }
    if (UNLIKELY(now - at->run.polled_cycles > at->slow_cycles)) {
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

static inline bool
reply_fits(const struct reply *reply, const struct sink *sink)
{
    return !sink->failed && sink_offset(sink) - reply->start <= LIMIT_REPLY_BYTES;
}

/* The handler said something else than "done", or its reply is not as it should be. False: it is put back. */
static bool
finish_otherwise(const struct request *request, struct session *session, enum exec_result result)
{
    struct reply *reply = &session->reply;
    const struct sink *sink = &session->out.sink;

    bool complete = result == EXEC_CLOSE && reply_fits(reply, sink);
    if (complete) {
        reply_end(reply);
    }
    if (!complete || sink->failed) {
        result = mend_reply(request, session, result);
    }
    if (result == EXEC_CLOSE) {
        session->flags |= SESSION_CLOSING;
    }
    return result != EXEC_RETRY;
}

/* False: it is put back, and those after it. */
static inline bool
request_run(struct part_run *at, const struct request *request)
{
    struct session *session = at->exec.session;
    struct lcore *lcore = at->exec.lcore;
    struct reply *reply = &session->reply;
    const struct sink *sink = &session->out.sink;
    enum exec_result result = EXEC_DONE;
    bool refused = false;

    bool roomy = has_answer_room(session);
    reply_begin(reply, request->correlation);
    if (UNLIKELY(!roomy)) {
        mend_reply(request, session, session->out.starved ? EXEC_RETRY : EXEC_DONE);
        return false; /* comes again, or its session is closed: not even an error fits */
    }
    if (UNLIKELY(!runs_plainly(request, session, lcore))) {
        refused = refuse(request, at->part, at->burst);
    }
    if (LIKELY(!refused)) {
        result = execute(&at->exec, request);
    }
    bool plain = result == EXEC_DONE && reply_fits(reply, sink);
    if (LIKELY(plain)) {
        reply_end(reply);
    }
    bool done = LIKELY(plain && !sink->failed) || finish_otherwise(request, session, result);
    session_touch_output(session);
    if (UNLIKELY(!done)) {
        return false;
    }

    uint64_t end = sink_offset(sink);
    if (UNLIKELY(end - session->out.acknowledged > LIMIT_UNAUTH_OUTPUT_BYTES)) {
        limit_output(session, lcore, end - session->out.acknowledged);
    }
    session->starved_since_ms = 0;
    at->written += end - reply->start;
    at->answered++;
    at->errors += reply->is_error;
    at->run_errors += reply->is_error && !refused;
    at->run.count += !refused;
    return true;
}

static void
part_execute(struct part_run *at, const struct burst_part *part)
{
    struct session *session = part->session;
    struct lcore *lcore = at->exec.lcore;
    const struct command *command = NULL;
    const struct request *last = NULL; /* that was executed */
    size_t offset = part->in_offset;

    at->part = part;
    at->exec.session = session;
    at->exec.reply = &session->reply;
    at->answered = at->errors = 0;
    for (uint32_t i = part->first; i < part->first + part->count; i++) {
        const struct request *request = &at->burst->requests[i];
        if (request->command != command || UNLIKELY(command != NULL && !(command->flags & CMD_FAST))) {
            run_end(at, last);
            command = request->command;
            if (command != NULL) {
                at->run = (struct burst_run){ .command = command->id, .polled_cycles = session->polled_cycles };
            }
        }
        at->exec.hash = at->burst->hashes[i];
        if (UNLIKELY((session->flags & SESSION_CANNOT_RUN) || at->written > OUTPUT_BUDGET_BYTES) ||
            !request_run(at, request)) {
            session_rewind(session, offset); /* this one and those after it */
            break;
        }
        offset += request->wire_bytes;
        last = request;
    }
    run_end(at, last);
    session->requests += at->answered;
    counter_add(&lcore->counters->requests, at->answered);
    if (UNLIKELY(at->errors > 0)) {
        counter_add(&lcore->counters->replies_error, at->errors);
    }
}

void
burst_execute(struct burst *burst, struct lcore *lcore)
{
    struct part_run at = {
        .exec = { .store = lcore->store, .lcore = lcore, .now_ms = lcore->now_ms },
        .burst = burst,
        .cycles = cycles_now(),
        .slow_cycles = load_relaxed(&lcore->dataplane->live.slow_cycles), /* see live.h */
        .histograms = load_relaxed(&lcore->dataplane->live.histograms),   /* as well */
    };
    if (UNLIKELY(lcore->hot_keys != NULL)) {
        hot_keys_count(lcore->hot_keys, burst);
    }
    for (uint32_t i = 0; i < burst->part_count; i++) {
        part_execute(&at, &burst->parts[i]);
    }
}
