#include "tools/bench/sweep_rail.h"
#include "config/sync.h"
#include "tools/bench/bench.h"
#include "tools/bench/machine.h"
#include "tools/bench/sweep_memcached.h"
#include <sched.h>
#include <stdarg.h>

#define IDLE_PER_CLOCK 1024 /* turns without a byte between two looks at the clock */

void
sweep_relax(bool yield)
{
    if (yield) {
        sched_yield();
    } else {
        cpu_relax();
    }
}

/* The first refusal stays, a worse thing replaces it. */
static void
rail_fail(struct sweep_rail *rail, enum sweep_status status, const char *format, ...)
{
    if (rail->status >= status) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(rail->why, sizeof(rail->why), format, arguments);
    va_end(arguments);
    rail->status = status;
}

static const struct sweep_form *
form_of(const struct sweep_transfer *transfer, uint64_t chunk)
{
    return &transfer->forms[chunk + 1 == transfer->cut.chunks];
}

/* ---- out ---- */

/* Head, with the chunk's digits, and as much of the value as fits. */
static void
request_stage(struct sweep_rail *rail, const struct sweep_frame *frame, const uint8_t *value)
{
    uint8_t *at = rail->stage;
    uint64_t left = rail->send_chunk;
    memcpy(at, frame->head.data, frame->head.bytes);
    for (uint32_t i = SWEEP_CHUNK_DIGITS; i-- > 0; left /= 10) {
        at[frame->chunk_at + i] = (uint8_t)('0' + left % 10);
    }
    at += frame->head.bytes;
    size_t bytes = MIN(frame->value_bytes, SWEEP_STAGE_BYTES);
    memcpy(at, value, bytes);
    at += bytes;
    if (bytes == frame->value_bytes) {
        memcpy(at, frame->tail.data, frame->tail.bytes);
        at += frame->tail.bytes;
    }
    rail->staged = (size_t)(at - rail->stage);
}

/* True: bytes went. */
static bool
rail_send(struct sweep_rail *rail, const struct sweep_transfer *transfer)
{
    const struct sweep_frame *frame = &form_of(transfer, rail->send_chunk)->request[transfer->operation];
    const uint8_t *value = sweep_pattern_value(transfer->pattern, rail->send_chunk, transfer->version), *from;
    size_t value_end = frame->head.bytes + frame->value_bytes, end = value_end + frame->tail.bytes, to;
    if (rail->sent == 0) {
        request_stage(rail, frame, value);
    }
    if (rail->sent < rail->staged) {
        from = rail->stage + rail->sent;
        to = rail->staged;
    } else if (rail->sent < value_end) {
        from = value + (rail->sent - frame->head.bytes);
        to = value_end;
    } else {
        from = frame->tail.data + (rail->sent - value_end);
        to = end;
    }
    ssize_t sent = client_raw_send(rail->client, from, to - rail->sent);
    if (sent < 0) {
        rail_fail(rail, SWEEP_BROKEN, "sending: %s", client_why(rail->client));
        return false;
    }
    rail->sent += (size_t)sent;
    if (rail->sent == end) {
        rail->sent = 0;
        rail->send_chunk += transfer->rails;
    }
    return sent > 0;
}

/* ---- in ---- */

static enum client_status
reply_decode(struct sweep_rail *rail, const struct sweep_transfer *transfer, struct slice view, struct value *root,
             size_t *bytes)
{
    struct client_reply reply;
    if (transfer->memcached) {
        return sweep_memcached_decode(view, root, bytes);
    }
    enum client_status status = client_raw_reply(rail->client, &reply, bytes);
    if (status == CLIENT_OK) {
        *root = reply.values[0];
    }
    return status;
}

/* An error, a miss, or wrong. Returns the reply's bytes; 0: it is not whole, or it is the end. */
static size_t
reply_other(struct sweep_rail *rail, const struct sweep_transfer *transfer, struct slice view)
{
    const char *name = sweep_operation_names[transfer->operation];
    struct value root;
    size_t bytes;
    enum client_status status = reply_decode(rail, transfer, view, &root, &bytes);
    if (status == CLIENT_TIMEOUT) {
        return 0;
    }
    if (status != CLIENT_OK) {
        rail_fail(rail, SWEEP_WRONG, "%s of chunk %llu: %s", name, (unsigned long long)rail->take_chunk,
                  client_why(rail->client));
        return 0;
    }
    if (root.kind == VALUE_ERROR) {
        rail_fail(rail, SWEEP_REFUSED, "%s: %.*s", name, (int)MIN(root.bytes.bytes, 200),
                  (const char *)root.bytes.data);
    } else if (root.kind == VALUE_NIL) {
        rail_fail(rail, SWEEP_REFUSED, "%s: a value is gone, as if evicted", name);
    } else {
        rail_fail(rail, SWEEP_WRONG, "%s of chunk %llu: the reply is wrong: %zu bytes where %llu are expected", name,
                  (unsigned long long)rail->take_chunk, root.kind == VALUE_BULK ? root.bytes.bytes : bytes,
                  (unsigned long long)form_of(transfer, rail->take_chunk)->answer[transfer->operation].value_bytes);
        return 0;
    }
    rail->take_chunk += transfer->rails;
    return bytes;
}

static void
value_differs(struct sweep_rail *rail, const struct sweep_transfer *transfer, const uint8_t *got, const uint8_t *wanted,
              size_t at)
{
    while (*got == *wanted) {
        got++;
        wanted++;
        at++;
    }
    rail_fail(rail, SWEEP_WRONG, "%s of chunk %llu: byte %zu of the value is 0x%02x where 0x%02x was written",
              sweep_operation_names[transfer->operation], (unsigned long long)rail->take_chunk, at, *got, *wanted);
}

/* Compare what can be compared. Returns bytes to take, 0: more must come, or it is the end. */
static size_t
reply_take(struct sweep_rail *rail, const struct sweep_transfer *transfer, struct slice view)
{
    const struct sweep_frame *frame = &form_of(transfer, rail->take_chunk)->answer[transfer->operation];
    size_t value_end = frame->head.bytes + frame->value_bytes, end = value_end + frame->tail.bytes, bytes;
    if (rail->taken == 0) {
        if (memcmp(view.data, frame->head.data, MIN(view.bytes, frame->head.bytes)) != 0) {
            return reply_other(rail, transfer, view);
        }
        bytes = view.bytes < frame->head.bytes ? 0 : frame->head.bytes;
    } else if (rail->taken < value_end) {
        size_t at = rail->taken - frame->head.bytes;
        const uint8_t *wanted = sweep_pattern_value(transfer->pattern, rail->take_chunk, transfer->version) + at;
        bytes = MIN(view.bytes, value_end - rail->taken);
        if (memcmp(view.data, wanted, bytes) != 0) {
            value_differs(rail, transfer, view.data, wanted, at);
            return 0;
        }
    } else {
        bytes = MIN(view.bytes, end - rail->taken);
        if (memcmp(view.data, frame->tail.data + (rail->taken - value_end), bytes) != 0) {
            rail_fail(rail, SWEEP_WRONG, "%s of chunk %llu: the reply does not end where it should",
                      sweep_operation_names[transfer->operation], (unsigned long long)rail->take_chunk);
            return 0;
        }
    }
    rail->taken += bytes;
    if (rail->taken == end) {
        rail->taken = 0;
        rail->take_chunk += transfer->rails;
    }
    return bytes;
}

/* True: bytes came. */
static bool
rail_receive(struct sweep_rail *rail, const struct sweep_transfer *transfer)
{
    struct slice view;
    if (client_raw_receive(rail->client, &view) != CLIENT_OK) {
        rail_fail(rail, SWEEP_BROKEN, "receiving: %s", client_why(rail->client));
        return false;
    }
    bool came = view.bytes > rail->unread;
    while (view.bytes > 0 && rail->take_chunk < transfer->cut.chunks) {
        size_t bytes = reply_take(rail, transfer, view);
        if (bytes == 0) {
            break;
        }
        client_raw_take(rail->client, bytes);
        view = slice_of(view.data + bytes, view.bytes - bytes);
    }
    rail->unread = view.bytes;
    return came;
}

/* ---- both ---- */

static void
rail_is_silent(struct sweep_rail *rail)
{
    char state[SWEEP_WHY_BYTES / 2];
    client_state(rail->client, state, sizeof(state));
    rail_fail(rail, SWEEP_BROKEN,
              "nothing moved for " BENCH_SILENCE_TEXT ", %zu bytes into request %llu and %zu into reply %llu%s%s",
              rail->sent, (unsigned long long)rail->send_chunk, rail->taken, (unsigned long long)rail->take_chunk,
              state[0] != '\0' ? ": " : "", state);
}

enum sweep_status
sweep_rail_run(struct sweep_rail *rail, const struct sweep_transfer *transfer, uint64_t first)
{
    uint64_t chunks = transfer->cut.chunks;
    uint32_t idle = 0;
    int64_t silent_since = 0;
    rail->status = SWEEP_GOOD;
    rail->why[0] = '\0';
    rail->send_chunk = rail->take_chunk = first;
    rail->sent = rail->taken = 0;
    while (rail->status <= SWEEP_REFUSED && rail->take_chunk < chunks) {
        bool moved = rail->send_chunk < chunks && rail_send(rail, transfer);
        moved |= rail_receive(rail, transfer);
        if (LIKELY(moved)) {
            idle = 0;
            silent_since = 0;
            continue;
        }
        sweep_relax(transfer->yield);
        if (++idle % IDLE_PER_CLOCK == 0) {
            int64_t now = machine_now_ns();
            silent_since = silent_since == 0 ? now : silent_since;
            if (now - silent_since > BENCH_SILENCE_NS) {
                rail_is_silent(rail);
            }
        }
    }
    if (rail->status <= SWEEP_REFUSED && (rail->send_chunk < chunks || rail->unread > 0)) {
        rail_fail(rail, SWEEP_WRONG, "more was answered than asked");
    }
    return rail->status;
}
