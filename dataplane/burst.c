#include "dataplane/burst.h"
#include "codec/resp.h"
#include "codec/sbe.h"
#include "config/cycles.h"
#include "dataplane/dataplane.h"

#define SPANS_BYTES ((LIMIT_REQUEST_ARGS + 1) * sizeof(struct resp_span))

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
        /* A quoted inline request is unescaped in place: not in the stream, which may be decoded again. */
        size_t scanned = session->resp.scanned; /* no byte is looked at twice */
        size_t line_max = MIN(bytes, (size_t)LIMIT_INLINE_BYTES + 2);
        const uint8_t *line_end = scanned < line_max ? memchr(wire + scanned, '\n', line_max - scanned) : NULL;
        size_t line = line_end != NULL ? (size_t)(line_end - wire) + 1 : 0;
        if (memchr(wire, '"', line) != NULL || memchr(wire, '\'', line) != NULL) {
            bytes = line;
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

/* The requests of the common form at hand. Returns how many. */
static uint32_t
take_resp(struct session *session, struct burst *burst)
{
    struct stream_in *in = &session->in;
    if (session->resp.scanned != 0) {
        return 0; /* in the middle of one */
    }
    struct request *first = &burst->requests[burst->count];
    uint32_t taken = resp_take(in->view + in->taken, in->bytes - in->taken, limits_of(session), &burst->room, first,
                               burst->most - burst->count);
    for (uint32_t i = 0; i < taken; i++) {
        in->taken += first[i].wire_bytes;
    }
    burst->count += taken;
    return taken;
}

static bool
ends_decoding(const struct request *request)
{
    return request->command != NULL && (request->command->flags & CMD_BARRIER) != 0;
}

/* Decode one session's requests, as many as fit. True: there may be more in the bytes at hand. */
static bool
part_decode(struct burst_part *part, struct burst *burst)
{
    struct session *session = part->session;
    struct stream_in *in = &session->in;
    while (in->taken < in->bytes) {
        if (burst->count >= burst->most || burst->room.count - burst->room.used < LIMIT_REQUEST_ARGS) {
            return true;
        }
        if (session->wire != WIRE_SBE && take_resp(session, burst) > 0) {
            if (ends_decoding(&burst->requests[burst->count - 1])) {
                return in->taken < in->bytes;
            }
            continue;
        }
        bool is_inline = session->wire != WIRE_SBE && in->view[in->taken] != '*';
        if (is_inline && burst->inline_used) {
            return true;
        }
        struct request *request = &burst->requests[burst->count];
        enum codec_status status =
            session->wire == WIRE_SBE ? decode_sbe(session, burst, request) : decode_resp(session, burst, request);
        if (status == CODEC_SHORT) {
            return false;
        }
        if (status == CODEC_OK && request_is_empty(request)) {
            /* A blank line or an empty array: nothing to answer. It is the tail of the request before it. */
            in->taken += request->wire_bytes;
            if (burst->count > part->first) {
                request[-1].wire_bytes += request->wire_bytes;
            } else {
                part->in_offset = in->taken;
            }
            continue;
        }
        burst->count++;
        part->broken = status == CODEC_MALFORMED;
        if (part->broken) {
            return false;
        }
        in->taken += request->wire_bytes;
        if (ends_decoding(request)) {
            return in->taken < in->bytes;
        }
    }
    return false;
}

/* True: there may be more in the bytes at hand. */
static bool
session_decode(struct session *session, struct burst *burst)
{
    struct stream_in *in = &session->in;
    if (!(session->flags & SESSION_SAW_MAGIC) && in->taken < in->bytes && !decide_wire(session)) {
        return false;
    }
    struct burst_part *part = &burst->parts[burst->part_count];
    *part = (struct burst_part){ .session = session, .in_offset = in->taken, .first = burst->count };
    bool more = part_decode(part, burst);
    part->count = burst->count - part->first;
    if (part->count > 0) {
        session->flags |= SESSION_TOUCHED;
        burst->part_count++;
    }
    return more;
}

uint32_t
burst_decode(struct burst *burst, struct lcore *lcore)
{
    burst->count = burst->part_count = burst->run_count = burst->put_back = 0;
    burst->most = load_relaxed(&lcore->dataplane->live.burst); /* see live.h */
    burst->room.used = 0;
    burst->inline_used = false;
    struct session *last = lcore->ready_last; /* one look at each session that is ready now */
    while (burst->count < burst->most && burst->room.count - burst->room.used >= LIMIT_REQUEST_ARGS) {
        struct session *session = session_take_ready(lcore);
        if (session == NULL) {
            break;
        }
        if (!(session->flags & SESSION_CANNOT_RUN) && session_decode(session, burst)) {
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
    const struct slice *keys[LIMIT_BURST];
    for (uint32_t i = 0; i < burst->count; i++) {
        keys[i] = burst_key(&burst->requests[i]); /* of a request that failed: its command is NULL */
    }
    store_prefetch(lcore->store, keys, burst->hashes, burst->count);
}

/* ---- after the burst ---- */

void
burst_settle(struct burst *burst)
{
    for (uint32_t i = 0; i < burst->part_count; i++) {
        session_settle(burst->parts[i].session);
    }
}

/* Here and not where each is known: the cycle counter waits for what is before it, and so it waits once. */
void
burst_record_times(const struct burst *burst, struct lcore *lcore)
{
    if (burst->run_count == 0 || !load_relaxed(&lcore->dataplane->live.histograms)) { /* see live.h */
        return;
    }
    uint64_t now = cycles_now();
    for (uint32_t i = 0; i < burst->run_count; i++) {
        const struct burst_run *run = &burst->runs[i];
        uint64_t service = lcore_ns(lcore, run->service_cycles);
        uint64_t residence = lcore_ns(lcore, now - run->polled_cycles);
        histogram_record(&lcore->histograms->service[run->command], run->count == 1 ? service : service / run->count,
                         run->count);
        histogram_record(&lcore->histograms->residence[run->command], residence, run->count);
    }
}
