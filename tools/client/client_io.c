/* client_io.c - requests out, replies in. */
#include "config/sync.h"
#include "tools/client/client_internal.h"
#include <errno.h>
#include <time.h>

/* Submitted requests gather up to this before they are handed to the transport. */
#define FLUSH_BYTES     (16 * 1024)
/* Least room offered to the transport for receiving. */
#define PULL_BYTES      (16 * 1024)
/* Polls between two looks at the clock while spinning. */
#define SPINS_PER_CLOCK 64

static int64_t
monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* What the last reply borrowed is free now. */
static void
reply_release(struct client *client)
{
    client->in_taken += client->in_lent;
    client->in_lent = 0;
    free(client->push_lent);
    client->push_lent = NULL;
}

/* ---- out ---- */

static size_t
request_bytes(struct client *client, const struct slice *words, uint32_t count)
{
    if (client->wire == CLIENT_SBE) {
        return client_sbe_bytes(client, words, count);
    }
    if (count == 0) {
        snprintf(client->why, sizeof(client->why), "a request without a command");
        return 0;
    }
    return resp_request_bytes(words, count);
}

static uint8_t *
request_write(struct client *client, uint8_t *out, const struct slice *words, uint32_t count, uint64_t correlation)
{
    if (client->wire == CLIENT_SBE) {
        return client_sbe_write(client, out, words, count, correlation);
    }
    return resp_request_write(out, words, count);
}

/* Make room for `bytes` more at out_end. False: over output_bytes_max. */
static bool
out_make_room(struct client *client, size_t bytes)
{
    if (client->out_sent > 0) {
        memmove(client->out, client->out + client->out_sent, client->out_end - client->out_sent);
        client->out_end -= client->out_sent;
        client->out_sent = 0;
    }
    if (client->out_room - client->out_end >= bytes) {
        return true;
    }
    /* One request above the limit may go alone: the limit bounds what gathers, not what can be sent. */
    if (client->out_end > 0 && client->out_end + bytes > client->options.output_bytes_max) {
        return false;
    }
    size_t room = MAX(client->out_room * 2, client->out_end + bytes);
    uint8_t *out = realloc(client->out, room);
    if (out == NULL) {
        return false;
    }
    client->out = out;
    client->out_room = room;
    return true;
}

/* Subscriptions are answered by pushes, one a channel, and so are not in flight. */
static bool
is_subscription(struct slice command)
{
    static const char *const names[] = { "subscribe",   "psubscribe",   "ssubscribe",
                                         "unsubscribe", "punsubscribe", "sunsubscribe" };
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        if (slice_equal_nocase(command, names[i])) {
            return true;
        }
    }
    return false;
}

enum client_status
client_submit(struct client *client, const struct slice *words, uint32_t count)
{
    if (client->broken) {
        return CLIENT_BROKEN;
    }
    size_t bytes = request_bytes(client, words, count);
    if (bytes == 0) {
        return CLIENT_INVALID;
    }
    if (client->in_flight >= client->options.in_flight_max) {
        return CLIENT_FULL;
    }
    if (client->out_room - client->out_end < bytes && !out_make_room(client, bytes)) {
        enum client_status status = client_flush(client);
        if (status != CLIENT_OK) {
            return status;
        }
        if (!out_make_room(client, bytes)) {
            return CLIENT_FULL;
        }
    }
    uint8_t *end = request_write(client, client->out + client->out_end, words, count, client->correlation++);
    client->out_end = (size_t)(end - client->out);
    if (is_subscription(words[0])) {
        client->subscribed = true;
    } else {
        client->in_flight++;
    }
    return client->out_end - client->out_sent >= FLUSH_BYTES ? client_flush(client) : CLIENT_OK;
}

enum client_status
client_flush(struct client *client)
{
    if (client->broken) {
        return CLIENT_BROKEN;
    }
    while (client->out_sent < client->out_end) {
        ssize_t sent = client->transport->ops->send(client->transport, client->out + client->out_sent,
                                                    client->out_end - client->out_sent);
        if (sent < 0) {
            return client_break(client, "%s", client->transport->why);
        }
        if (sent == 0) {
            return CLIENT_OK;
        }
        client->out_sent += (size_t)sent;
    }
    client->out_sent = client->out_end = 0;
    return CLIENT_OK;
}

/* ---- in ---- */

/* At least PULL_BYTES at in_end, or all that reply_bytes_max allows. False: not one byte. */
static bool
in_make_room(struct client *client)
{
    if (client->in_taken == client->in_end) {
        client->in_taken = client->in_end = 0;
    }
    if (client->in_room - client->in_end >= PULL_BYTES) {
        return true;
    }
    if (client->in_taken > 0) {
        memmove(client->in, client->in + client->in_taken, client->in_end - client->in_taken);
        client->in_end -= client->in_taken;
        client->in_taken = 0;
    }
    if (client->in_room - client->in_end < PULL_BYTES && client->in_room < client->options.reply_bytes_max) {
        size_t room = MIN(client->in_room * 2, client->options.reply_bytes_max);
        uint8_t *in = realloc(client->in, room);
        if (in != NULL) {
            client->in = in;
            client->in_room = room;
        }
    }
    return client->in_room > client->in_end;
}

enum client_status
client_pull(struct client *client, size_t *received)
{
    *received = 0;
    if (client->broken) {
        return CLIENT_BROKEN;
    }
    if (!in_make_room(client)) {
        return client_break(client, "a reply larger than %zu bytes", client->options.reply_bytes_max);
    }
    ssize_t got = client->transport->ops->receive(client->transport, client->in + client->in_end,
                                                  client->in_room - client->in_end);
    if (got < 0) {
        return client_break(client, "%s", client->transport->why);
    }
    client->in_end += (size_t)got;
    *received = (size_t)got;
    return CLIENT_OK;
}

/* RESP2 has no type of its own for pushes: an array that begins with one of their words. */
static bool
is_resp2_push(struct client *client)
{
    const struct value *values = client->values.values;
    if (!client->subscribed || values[0].kind != VALUE_ARRAY || values[0].count < 3 || values[1].kind != VALUE_BULK) {
        return false;
    }
    if (!is_subscription(values[1].bytes)) {
        return slice_equal(values[1].bytes, SLICE_LITERAL("message")) ||
               slice_equal(values[1].bytes, SLICE_LITERAL("pmessage")) ||
               slice_equal(values[1].bytes, SLICE_LITERAL("smessage"));
    }
    const struct value *left = &values[client->values.count - 1];
    if (left->kind == VALUE_INTEGER && left->integer == 0) {
        client->subscribed = false;
    }
    return true;
}

static enum client_status
resp_decode_reply(struct client *client, struct slice wire, struct client_reply *reply, size_t *bytes)
{
    if (client->resp.position == 0) {
        client->values.count = 0;
    }
    switch (resp_reply_decode(&client->resp, wire, &client->values, bytes)) {
    case RESP_REPLY_OK:
        break;
    case RESP_REPLY_SHORT:
        return CLIENT_TIMEOUT;
    case RESP_REPLY_MALFORMED:
    case RESP_REPLY_TOO_LARGE:
        return client_break(client, "the server's reply is not RESP: %s", client->resp.why);
    }
    bool push = client->values.values[0].kind == VALUE_PUSH || is_resp2_push(client);
    *reply = (struct client_reply){ client->values.values, client->values.count, push };
    return CLIENT_OK;
}

enum client_status
client_decode(struct client *client, struct slice wire, struct client_reply *reply, size_t *bytes)
{
    if (client->broken) {
        return CLIENT_BROKEN;
    }
    if (client->wire == CLIENT_SBE) {
        return client_sbe_decode(client, wire, reply, bytes);
    }
    return resp_decode_reply(client, wire, reply, bytes);
}

static struct slice
in_view(const struct client *client)
{
    return slice_of(client->in + client->in_taken, client->in_end - client->in_taken);
}

/* Send what waits and read until one reply is whole. */
static enum client_status
wire_collect(struct client *client, struct client_reply *reply, int timeout_ms)
{
    int64_t deadline = timeout_ms > 0 ? monotonic_ns() + timeout_ms * 1000000ll : INT64_MAX;
    for (uint32_t turn = 1;; turn++) {
        enum client_status status = client_decode(client, in_view(client), reply, &client->in_lent);
        if (status != CLIENT_TIMEOUT) {
            return status;
        }
        client->in_lent = 0;
        size_t received;
        if (client_flush(client) != CLIENT_OK || client_pull(client, &received) != CLIENT_OK) {
            return CLIENT_BROKEN;
        }
        if (received > 0) {
            continue;
        }
        if (timeout_ms == 0) {
            return CLIENT_TIMEOUT;
        }
        if (client->options.spin) {
            cpu_relax();
            if (timeout_ms > 0 && turn % SPINS_PER_CLOCK == 0 && monotonic_ns() > deadline) {
                return CLIENT_TIMEOUT;
            }
            continue;
        }
        int64_t left = timeout_ms < 0 ? -1 : deadline - monotonic_ns();
        if (timeout_ms > 0 && left <= 0) {
            return CLIENT_TIMEOUT;
        }
        client->transport->ops->wait(client->transport, client->out_sent < client->out_end,
                                     timeout_ms < 0 ? -1 : (int)((left + 999999) / 1000000));
    }
}

static void
count_answer(struct client *client, const struct client_reply *reply)
{
    if (!reply->push && client->in_flight > 0) {
        client->in_flight--;
    }
}

enum client_status
client_collect(struct client *client, struct client_reply *reply, int timeout_ms)
{
    reply_release(client);
    struct client_push *push = client->pushes;
    if (push != NULL) {
        client->pushes = push->next;
        if (client->pushes == NULL) {
            client->pushes_tail = &client->pushes;
        }
        client->pushes_bytes -= push->bytes;
        client->push_lent = push;
        size_t bytes;
        enum client_status status = client_decode(client, slice_of(push->wire, push->bytes), reply, &bytes);
        reply->push = true;
        return status;
    }
    enum client_status status = wire_collect(client, reply, timeout_ms);
    if (status == CLIENT_OK) {
        count_answer(client, reply);
    }
    return status;
}

/* Keep the reply just decoded for client_collect(). */
static enum client_status
push_keep(struct client *client)
{
    struct client_push *push = NULL;
    if (client->pushes_bytes + client->in_lent <= client->options.reply_bytes_max) {
        push = malloc(sizeof(*push) + client->in_lent);
    }
    if (push == NULL) {
        return client_break(client, "more than %zu bytes of messages that nobody collected",
                            client->options.reply_bytes_max);
    }
    push->next = NULL;
    push->bytes = client->in_lent;
    memcpy(push->wire, client->in + client->in_taken, client->in_lent);
    *client->pushes_tail = push;
    client->pushes_tail = &push->next;
    client->pushes_bytes += push->bytes;
    reply_release(client);
    return CLIENT_OK;
}

enum client_status
client_call(struct client *client, const struct slice *words, uint32_t count, struct client_reply *reply)
{
    reply_release(client);
    enum client_status status = client_submit(client, words, count);
    if (status != CLIENT_OK) {
        return status;
    }
    bool asked = is_subscription(words[0]);
    for (;;) {
        status = wire_collect(client, reply, client->options.timeout_ms);
        if (status == CLIENT_TIMEOUT) {
            char state[CLIENT_WHY_BYTES / 2];
            client_state(client, state, sizeof(state));
            return client_break(client, "no answer within %d ms%s%s", client->options.timeout_ms,
                                state[0] != '\0' ? ": " : "", state);
        }
        if (status != CLIENT_OK) {
            return status;
        }
        bool confirms =
            asked && reply->count > 1 && reply->values[1].kind == VALUE_BULK && is_subscription(reply->values[1].bytes);
        if (!reply->push || confirms) {
            count_answer(client, reply);
            return CLIENT_OK;
        }
        status = push_keep(client);
        if (status != CLIENT_OK) {
            return status;
        }
    }
}

#define CALL_WORDS_MAX 32

enum client_status
client_call_words(struct client *client, const char *const *words, uint32_t count, struct client_reply *reply)
{
    struct slice slices[CALL_WORDS_MAX];
    if (count > CALL_WORDS_MAX) {
        snprintf(client->why, sizeof(client->why), "more than %d words", CALL_WORDS_MAX);
        return CLIENT_INVALID;
    }
    for (uint32_t i = 0; i < count; i++) {
        slices[i] = slice_text(words[i]);
    }
    return client_call(client, slices, count, reply);
}

/* ---- bytes ---- */

size_t
client_encode(struct client *client, const struct slice *words, uint32_t count, uint64_t correlation, uint8_t *out,
              size_t room)
{
    size_t bytes = request_bytes(client, words, count);
    if (bytes == 0) {
        return 0;
    }
    if (bytes > room) {
        snprintf(client->why, sizeof(client->why), "a request of %zu bytes, room for %zu", bytes, room);
        return 0;
    }
    return (size_t)(request_write(client, out, words, count, correlation) - out);
}

ssize_t
client_raw_send(struct client *client, const void *data, size_t bytes)
{
    ssize_t sent = client->broken ? -1 : client->transport->ops->send(client->transport, data, bytes);
    if (sent < 0 && !client->broken) {
        client_break(client, "%s", client->transport->why);
    }
    return sent < 0 ? -1 : sent;
}

enum client_status
client_raw_receive(struct client *client, struct slice *view)
{
    size_t received;
    reply_release(client);
    enum client_status status = client_pull(client, &received);
    *view = in_view(client);
    return status;
}

void
client_raw_take(struct client *client, size_t bytes)
{
    client->in_taken += bytes;
}

enum client_status
client_raw_reply(struct client *client, struct client_reply *reply, size_t *bytes)
{
    enum client_status status = client_decode(client, in_view(client), reply, bytes);
    client->resp = (struct resp_reply_state){ 0 }; /* what is not taken is read again */
    return status;
}
