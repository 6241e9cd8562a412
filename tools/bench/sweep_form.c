#include "tools/bench/sweep_form.h"
#include "tools/bench/bench.h"
#include "tools/bench/machine.h"
#include <stdarg.h>

#define PATTERN_SEED   0x9e3779b97f4a7c15ull
#define CORRELATION    1 /* SBE: replies come in order, the pattern tells values apart */
#define REQUEST_AROUND 1024

/* ---- values ---- */

uint8_t *
sweep_pattern_open(void)
{
    uint8_t *pattern = malloc(SWEEP_PATTERN_BYTES);
    uint64_t state = PATTERN_SEED;
    CHECK(pattern != NULL);
    for (size_t i = 0; i < SWEEP_PATTERN_BYTES; i += sizeof(state)) {
        state ^= state << 13; /* xorshift64 */
        state ^= state >> 7;
        state ^= state << 17;
        memcpy(pattern + i, &state, sizeof(state));
    }
    return pattern;
}

const uint8_t *
sweep_pattern_value(const uint8_t *pattern, uint64_t chunk, uint64_t version)
{
    uint64_t mixed = (chunk + 1) * 0x9e3779b97f4a7c15ull + version * 0xc2b2ae3d27d4eb4full;
    return pattern + (mixed >> 32) % (SWEEP_PATTERN_BYTES - LIMIT_VALUE_BYTES + 1);
}

uint32_t
sweep_key_print(char out[SWEEP_KEY_BYTES], uint32_t side, uint64_t chunk)
{
    return (uint32_t)snprintf(out, SWEEP_KEY_BYTES, "bench:sweep:%u:%0*llu", side, SWEEP_CHUNK_DIGITS,
                              (unsigned long long)chunk);
}

/* ---- learning ---- */

static enum sweep_status
say(char why[SWEEP_WHY_BYTES], enum sweep_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, SWEEP_WHY_BYTES, format, arguments);
    va_end(arguments);
    return status;
}

static bool
piece_set(struct sweep_piece *piece, const uint8_t *data, size_t bytes)
{
    if (bytes > sizeof(piece->data)) {
        return false;
    }
    memcpy(piece->data, data, bytes);
    piece->bytes = (uint32_t)bytes;
    return true;
}

static bool
frame_set(struct sweep_frame *frame, const uint8_t *all, size_t all_bytes, size_t head_bytes, size_t value_bytes)
{
    frame->value_bytes = value_bytes;
    return head_bytes + value_bytes <= all_bytes && piece_set(&frame->head, all, head_bytes) &&
           piece_set(&frame->tail, all + head_bytes + value_bytes, all_bytes - head_bytes - value_bytes);
}

/* The request around a value is what does not change with it: encoded with two values that differ in every byte.
 * `room` has space for a value and REQUEST_AROUND bytes, `value` for a value. */
static bool
request_learn(struct sweep_frame *frame, struct client *client, enum sweep_operation operation, struct slice key,
              uint8_t *value, size_t value_bytes, uint8_t *room)
{
    uint8_t first[SWEEP_PIECE_BYTES];
    struct slice words[] = { slice_text(sweep_operation_names[operation]), key, slice_of(value, value_bytes) };
    uint32_t count = operation == SWEEP_SET ? 3 : 2;
    size_t room_bytes = value_bytes + REQUEST_AROUND, head = 0;

    memset(value, 0, value_bytes);
    size_t bytes = client_encode(client, words, count, CORRELATION, room, room_bytes);
    if (count == 2) {
        head = bytes;
    } else {
        memcpy(first, room, MIN(bytes, sizeof(first)));
        memset(value, 0xff, value_bytes);
        if (client_encode(client, words, count, CORRELATION, room, room_bytes) != bytes) {
            return false;
        }
        while (head < MIN(bytes, sizeof(first)) && first[head] == room[head]) {
            head++;
        }
    }
    const uint8_t *found = bytes == 0 ? NULL : memmem(room, head, key.data, key.bytes);
    if (found == NULL || !frame_set(frame, room, bytes, head, count == 3 ? value_bytes : 0)) {
        return false;
    }
    frame->chunk_at = (uint32_t)((size_t)(found - room) + key.bytes - SWEEP_CHUNK_DIGITS);
    return true;
}

static enum sweep_status
bytes_send(struct client *client, const uint8_t *data, size_t bytes, char why[SWEEP_WHY_BYTES])
{
    int64_t deadline = machine_now_ns() + BENCH_SILENCE_NS;
    while (bytes > 0) {
        struct slice view;
        ssize_t sent = client_raw_send(client, data, bytes);
        if (sent < 0 || (sent == 0 && client_raw_receive(client, &view) != CLIENT_OK)) {
            return say(why, SWEEP_BROKEN, "sending: %s", client_why(client));
        }
        if (sent == 0 && machine_now_ns() > deadline) {
            return say(why, SWEEP_BROKEN, "sending: the server took nothing for " BENCH_SILENCE_TEXT);
        }
        data += sent;
        bytes -= (size_t)sent;
    }
    return SWEEP_GOOD;
}

/* Wait for one whole reply. *view: its bytes and perhaps more. */
static enum sweep_status
reply_wait(struct client *client, struct client_reply *reply, struct slice *view, size_t *bytes,
           char why[SWEEP_WHY_BYTES])
{
    int64_t deadline = machine_now_ns() + BENCH_SILENCE_NS;
    for (;;) {
        if (client_raw_receive(client, view) != CLIENT_OK) {
            return say(why, SWEEP_BROKEN, "receiving: %s", client_why(client));
        }
        enum client_status status = client_raw_reply(client, reply, bytes);
        if (status == CLIENT_OK) {
            return SWEEP_GOOD;
        }
        if (status != CLIENT_TIMEOUT) {
            return say(why, SWEEP_BROKEN, "receiving: %s", client_why(client));
        }
        if (machine_now_ns() > deadline) {
            return say(why, SWEEP_BROKEN, "receiving: no reply for " BENCH_SILENCE_TEXT);
        }
    }
}

/* Send a request, read and check its reply, and keep what stands around the value in it. */
static enum sweep_status
answer_learn(struct sweep_frame *frame, struct client *client, enum sweep_operation operation,
             const struct sweep_frame *request, const uint8_t *value, size_t value_bytes, char why[SWEEP_WHY_BYTES])
{
    const char *name = sweep_operation_names[operation];
    struct client_reply reply;
    struct slice view;
    size_t bytes;
    enum sweep_status status = bytes_send(client, request->head.data, request->head.bytes, why);
    if (status == SWEEP_GOOD && request->value_bytes > 0) {
        status = bytes_send(client, value, request->value_bytes, why);
    }
    if (status == SWEEP_GOOD) {
        status = bytes_send(client, request->tail.data, request->tail.bytes, why);
    }
    if (status == SWEEP_GOOD) {
        status = reply_wait(client, &reply, &view, &bytes, why);
    }
    if (status != SWEEP_GOOD) {
        return status;
    }
    const struct value *root = &reply.values[0];
    bool kept;
    if (root->kind == VALUE_ERROR || root->kind == VALUE_NIL) {
        status = say(why, SWEEP_REFUSED, "%s of %zu bytes: %.*s", name, value_bytes,
                     root->kind == VALUE_NIL ? 17 : (int)MIN(root->bytes.bytes, 200),
                     root->kind == VALUE_NIL ? "the value is gone" : (const char *)root->bytes.data);
        kept = true;
    } else if (operation == SWEEP_SET) {
        kept = root->kind == VALUE_STATUS && client_reply_is_text(&reply, "OK") &&
               frame_set(frame, view.data, bytes, bytes, 0);
    } else {
        kept = root->kind == VALUE_BULK && slice_equal(root->bytes, slice_of(value, value_bytes)) &&
               frame_set(frame, view.data, bytes, (size_t)(root->bytes.data - view.data), value_bytes);
    }
    client_raw_take(client, bytes);
    return kept ? status : say(why, SWEEP_WRONG, "%s of %zu bytes: the reply is wrong", name, value_bytes);
}

enum sweep_status
sweep_form_learn(struct sweep_form *form, struct client *client, uint32_t side, uint64_t value_bytes,
                 const uint8_t *pattern, char why[SWEEP_WHY_BYTES])
{
    char key_text[SWEEP_KEY_BYTES];
    struct slice key = slice_of(key_text, sweep_key_print(key_text, side, 0));
    const uint8_t *content = sweep_pattern_value(pattern, 0, 0);
    uint8_t *value = malloc(value_bytes), *room = malloc(value_bytes + REQUEST_AROUND);
    CHECK(value != NULL && room != NULL);

    enum sweep_status status = SWEEP_GOOD;
    for (int operation = SWEEP_SET; status == SWEEP_GOOD && operation < SWEEP_OPERATIONS; operation++) {
        if (!request_learn(&form->request[operation], client, operation, key, value, value_bytes, room)) {
            status = say(why, SWEEP_BROKEN, "a request with %llu bytes cannot be sent on this wire",
                         (unsigned long long)value_bytes);
        } else {
            status = answer_learn(&form->answer[operation], client, operation, &form->request[operation], content,
                                  value_bytes, why);
        }
    }
    free(value);
    free(room);
    return status;
}
