#include "dataplane/burst.h"
#include "codec/resp.h"
#include "codec/sbe.h"
#include "config/cycles.h"
#include "dataplane/dataplane.h"

#define OUTPUT_BUDGET_BYTES (1 * MIB) /* replies of one burst: copying more would take longer than a turn may */
#define RETRY_MS            1000      /* a request that cannot run comes again for so long */
#define SPANS_BYTES         ((LIMIT_REQUEST_ARGS + 1) * sizeof(struct resp_span))
#define CANNOT_RUN          (SESSION_PARKED | SESSION_RETRY | SESSION_FULL | SESSION_CLOSING | SESSION_DEAD)

/* ---- decode ---- */

/* Which wire a stream speaks: SBE streams begin with 8 bytes of magic, everything else is RESP. False: too few bytes.
 */
static bool
decide_wire(struct session *session)
{
    struct stream_in *in = &session->in;
    size_t bytes = in->bytes - in->taken;
    size_t compare = MIN(bytes, (size_t)SBE_STREAM_MAGIC_BYTES);
    if (memcmp(in->view + in->taken, SBE_STREAM_MAGIC, compare) != 0) {
        session_set_wire(session, WIRE_RESP2);
        return true;
    }
    if (compare < SBE_STREAM_MAGIC_BYTES) {
        return false;
    }
    in->taken += SBE_STREAM_MAGIC_BYTES;
    session_set_wire(session, WIRE_SBE);
    return true;
}

static const struct decode_limits *
limits_of(const struct session *session)
{
    const struct lcore *lcore = session->lcore;
    return session_is_authenticated(session) ? &lcore->limits : &lcore->limits_before_auth;
}

/* Keep what the decoder knows of an incomplete request. Without memory it starts over: slower, never wrong. */
static void
keep_resp_state(struct session *session)
{
    struct lcore *lcore = session->lcore;
    session->wanted = session->resp.wanted;
    if (session->spans != NULL || session->resp.done == 0) {
        return;
    }
    session->spans = memory_take(lcore->memory, SPANS_BYTES);
    if (session->spans == NULL) {
        session->resp = (struct resp_state){ 0 };
        return;
    }
    memcpy(session->spans, lcore->spans, session->resp.done * sizeof(struct resp_span));
}

static enum codec_status
decode_resp(struct session *session, struct burst *burst, struct request *request)
{
    struct lcore *lcore = session->lcore;
    uint8_t *wire = session->in.view + session->in.taken;
    size_t bytes = session->in.bytes - session->in.taken;

    if (wire[0] != '*') {
        /* An inline request is unescaped in place: not in the stream, which may be decoded again. */
        size_t scanned = session->resp.scanned; /* no byte is looked at twice */
        size_t line_max = MIN(bytes, (size_t)LIMIT_INLINE_BYTES + 2);
        const uint8_t *line_end = scanned < line_max ? memchr(wire + scanned, '\n', line_max - scanned) : NULL;
        if (line_end != NULL) {
            bytes = (size_t)(line_end - wire) + 1;
            memcpy(lcore->inline_line, wire, bytes);
            wire = lcore->inline_line;
            burst->inline_used = true;
        }
    }
    struct resp_span *spans = session->spans != NULL ? session->spans : lcore->spans;
    enum codec_status status =
        resp_decode(&session->resp, spans, wire, bytes, limits_of(session), &burst->room, request);
    if (status == CODEC_SHORT) {
        keep_resp_state(session);
    } else {
        session->wanted = 0;
        if (session->spans != NULL) {
            memory_give(lcore->memory, session->spans, SPANS_BYTES);
            session->spans = NULL;
        }
    }
    return status;
}

static enum codec_status
decode_sbe(struct session *session, struct burst *burst, struct request *request)
{
    struct stream_in *in = &session->in;
    struct slice wire = slice_of(in->view + in->taken, in->bytes - in->taken);
    enum codec_status status = sbe_decode(wire, limits_of(session), &burst->room, request);
    session->wanted = status == CODEC_SHORT ? request->wire_bytes : 0;
    return status;
}

static bool
request_has_key(const struct request *request)
{
    const struct command *command = request->command;
    return command != NULL && command->first_key > 0 && request->args_count >= (uint32_t)command->first_key &&
           request->args[command->first_key - 1].kind == ARG_BYTES;
}

static void
burst_append(struct burst *burst, struct session *session, enum codec_status status)
{
    struct burst_entry *entry = &burst->entries[burst->count++];
    entry->session = session;
    entry->in_offset = session->in.taken;
    entry->status = status;
    entry->polled_cycles = session->polled_cycles;
    entry->executed = false;
    entry->has_key = status == CODEC_OK && request_has_key(&entry->request);
    session->in.taken += status == CODEC_MALFORMED ? 0 : entry->request.wire_bytes;
    session->flags |= SESSION_TOUCHED;
}

/* Decode one session's requests, as many as fit. True: there may be more in the bytes at hand. */
static bool
session_decode(struct session *session, struct burst *burst)
{
    struct stream_in *in = &session->in;
    if (!(session->flags & SESSION_SAW_MAGIC) && in->taken < in->bytes && !decide_wire(session)) {
        return false;
    }
    while (in->taken < in->bytes) {
        if (burst->count == LIMIT_BURST || burst->room.count - burst->room.used < LIMIT_REQUEST_ARGS) {
            return true;
        }
        bool is_inline = session->wire != WIRE_SBE && in->view[in->taken] != '*';
        if (is_inline && burst->inline_used) {
            return true;
        }
        struct request *request = &burst->entries[burst->count].request;
        enum codec_status status =
            session->wire == WIRE_SBE ? decode_sbe(session, burst, request) : decode_resp(session, burst, request);
        if (status == CODEC_SHORT) {
            return false;
        }
        if (status == CODEC_OK && request_is_empty(request)) {
            in->taken += request->wire_bytes; /* a blank line or an empty array: nothing to answer */
            continue;
        }
        burst_append(burst, session, status);
        if (status == CODEC_MALFORMED) {
            return false;
        }
        if (request->command != NULL && (request->command->flags & CMD_BARRIER)) {
            return in->taken < in->bytes;
        }
    }
    return false;
}

uint32_t
burst_decode(struct burst *burst, struct lcore *lcore)
{
    burst->count = 0;
    burst->room.used = 0;
    burst->inline_used = false;
    struct session *last = lcore->ready_last; /* one look at each session that is ready now */
    while (burst->count < LIMIT_BURST && burst->room.count - burst->room.used >= LIMIT_REQUEST_ARGS) {
        struct session *session = session_take_ready(lcore);
        if (session == NULL) {
            break;
        }
        if (!(session->flags & CANNOT_RUN) && session_decode(session, burst)) {
            session_ready(session);
        }
        if (!(session->flags & SESSION_TOUCHED)) {
            session_settle(session); /* half a request: copied out, the slot goes back */
        }
        if (session == last) {
            break;
        }
    }
    return burst->count;
}

/* ---- prefetch ---- */

void
burst_prefetch(struct burst *burst, const struct lcore *lcore)
{
    for (uint32_t i = 0; i < burst->count; i++) {
        struct burst_entry *entry = &burst->entries[i];
        if (entry->has_key) {
            struct slice key = entry->request.args[entry->request.command->first_key - 1].bytes;
            entry->hash = store_hash(lcore->dataplane->store, key);
            store_prefetch_bucket(lcore->store, entry->hash);
        }
    }
    for (uint32_t i = 0; i < burst->count; i++) {
        if (burst->entries[i].has_key) {
            store_prefetch_record(lcore->store, burst->entries[i].hash);
        }
    }
}

/* ---- execute ---- */

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
runs_plainly(const struct burst_entry *entry, const struct lcore *lcore)
{
    const struct command *command = entry->request.command;
    uint32_t standing = entry->session->flags & (SESSION_AUTHENTICATED | SESSION_SUBSCRIBED);
    return entry->status == CODEC_OK && command != NULL && command_arity_fits(command, entry->request.args_count) &&
           standing == SESSION_AUTHENTICATED && !((command->flags & CMD_DENYOOM) && store_over_limit(lcore->store));
}

/* What stands in the way, in the order that clients expect; true: answered. */
static bool
refuse(struct burst_entry *entry, struct lcore *lcore)
{
    struct session *session = entry->session;
    struct reply *reply = &session->reply;
    const struct request *request = &entry->request;
    const struct command *command = request->command;

    if (entry->status != CODEC_OK) {
        counter_add(&lcore->counters->requests_malformed, 1);
        reply_error(reply, request->error);
        if (entry->status == CODEC_MALFORMED) {
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

static enum exec_result
execute(struct burst_entry *entry, struct lcore *lcore)
{
    struct session *session = entry->session;
    const struct command *command = entry->request.command;
    struct exec exec = {
        .request = &entry->request,
        .reply = &session->reply,
        .store = lcore->store,
        .lcore = lcore,
        .session = session,
        .hash = entry->hash,
        .now_ms = lcore->now_ms,
        .attempt = session->attempt,
        .progress = session->progress,
    };
    session->last_command = (int16_t)command->id;
    enum exec_result result = exec_table[command->id](&exec);

    if (UNLIKELY(result == EXEC_RETRY)) {
        session->attempt++;
        session->progress = exec.progress;
    } else {
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
mend_reply(struct burst_entry *entry, struct lcore *lcore, enum exec_result result)
{
    struct session *session = entry->session;
    struct reply *reply = &session->reply;
    struct sink *sink = &session->out.sink;
    bool starved = sink->failed && session->out.starved;

    if (starved && is_repeatable(entry->request.command)) {
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

/* Returns the bytes of the reply. */
static uint64_t
run_entry(struct burst_entry *entry, struct lcore *lcore, uint64_t *cycles)
{
    struct session *session = entry->session;
    struct reply *reply = &session->reply;
    const struct sink *sink = &session->out.sink;
    enum exec_result result = EXEC_DONE;

    bool roomy = has_answer_room(session);
    reply_begin(reply, entry->request.correlation);
    if (UNLIKELY(!roomy)) {
        mend_reply(entry, lcore, session->out.starved ? EXEC_RETRY : EXEC_DONE);
        session_rewind(session, entry->in_offset);
        return 0; /* comes again, or its session is closed: not even an error fits */
    }
    bool refused = UNLIKELY(!runs_plainly(entry, lcore)) && refuse(entry, lcore);
    if (LIKELY(!refused)) {
        result = execute(entry, lcore);
    }
    bool complete = (result == EXEC_DONE || result == EXEC_CLOSE) && !sink->failed &&
                    sink_offset(sink) - reply->start <= LIMIT_REPLY_BYTES;
    if (LIKELY(complete)) {
        reply_end(reply);
    }
    if (UNLIKELY(!complete || sink->failed)) {
        result = mend_reply(entry, lcore, result);
    }
    session_touch_output(session);
    if (UNLIKELY(result == EXEC_RETRY)) {
        session_rewind(session, entry->in_offset);
        return 0;
    }
    if (UNLIKELY(result == EXEC_CLOSE)) {
        session->flags |= SESSION_CLOSING;
    }

    uint64_t end = sink_offset(sink);
    if (UNLIKELY(end - session->out.acknowledged > LIMIT_UNAUTH_OUTPUT_BYTES)) {
        limit_output(session, lcore, end - session->out.acknowledged);
    }
    session->requests++;
    session->starved_since_ms = 0;
    counter_add(&lcore->counters->requests, 1);
    if (UNLIKELY(reply->is_error)) {
        counter_add(&lcore->counters->replies_error, 1);
    }
    if (LIKELY(!refused)) {
        enum command_id id = entry->request.command->id;
        uint64_t now = cycles_now();
        histogram_record(&lcore->histograms->service[id], lcore_ns(lcore, now - *cycles), 1);
        *cycles = now;
        counter_add(&lcore->counters->commands[id], 1);
        counter_add(&lcore->counters->command_errors[id], reply->is_error);
        entry->executed = true;
    }
    return end - reply->start;
}

void
burst_execute(struct burst *burst, struct lcore *lcore)
{
    uint64_t cycles = cycles_now();
    uint64_t written = 0;
    for (uint32_t i = 0; i < burst->count; i++) {
        struct burst_entry *entry = &burst->entries[i];
        struct session *session = entry->session;
        if (session->flags & SESSION_REWOUND) {
            continue; /* an earlier request of this session was put back, this one with it */
        }
        if ((session->flags & CANNOT_RUN) || written > OUTPUT_BUDGET_BYTES) {
            session_rewind(session, entry->in_offset);
            continue;
        }
        written += run_entry(entry, lcore, &cycles);
    }
}

void
burst_settle(struct burst *burst)
{
    for (uint32_t i = 0; i < burst->count; i++) {
        struct session *session = burst->entries[i].session;
        if (session->flags & SESSION_TOUCHED) {
            session_settle(session);
        }
    }
}

void
burst_record_residence(const struct burst *burst, struct lcore *lcore)
{
    if (burst->count == 0) {
        return;
    }
    uint64_t now = cycles_now();
    for (uint32_t i = 0; i < burst->count;) {
        const struct burst_entry *first = &burst->entries[i];
        uint32_t alike = 0; /* neighbours polled together, of one command, share their residence */
        while (i < burst->count && burst->entries[i].executed && first->executed &&
               burst->entries[i].polled_cycles == first->polled_cycles &&
               burst->entries[i].request.command == first->request.command) {
            alike++;
            i++;
        }
        if (alike == 0) {
            i++;
            continue;
        }
        histogram_record(&lcore->histograms->residence[first->request.command->id],
                         lcore_ns(lcore, now - first->polled_cycles), alike);
    }
}
