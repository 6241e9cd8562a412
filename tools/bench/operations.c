#include "tools/bench/operations.h"
#include "config/sync.h"
#include "tools/bench/bench.h"
#include "tools/bench/machine.h"

#define SPINS_PER_CLOCK 4096
#define WORDS_MAX       24

#define KEY_STRING "bench:string"
#define KEY_HASH   "bench:hash"
#define KEY_ZSET   "bench:zset"
#define CHANNEL    "bench:channel"

const char *const operation_names[OPERATION_COUNT] = {
    "PING", "SET", "GET", "HSET", "HGET", "ZADD", "ZSCORE", "PUBSUB"
};

/* "$v" stands for the value: letters, another one in each variant. */
static const char *const request_words[OPERATION_COUNT][OPERATION_VARIANTS][5] = {
    [OPERATION_PING] = { { "PING" }, { "PING" } },
    [OPERATION_SET] = { { "SET", KEY_STRING, "$v" }, { "SET", KEY_STRING, "$v" } },
    [OPERATION_GET] = { { "GET", KEY_STRING }, { "GET", KEY_STRING } },
    [OPERATION_HSET] = { { "HSET", KEY_HASH, "field:3", "value-a3" }, { "HSET", KEY_HASH, "field:3", "value-b3" } },
    [OPERATION_HGET] = { { "HGET", KEY_HASH, "field:5" }, { "HGET", KEY_HASH, "field:5" } },
    [OPERATION_ZADD] = { { "ZADD", KEY_ZSET, "31.5", "member:3" }, { "ZADD", KEY_ZSET, "32.5", "member:3" } },
    [OPERATION_ZSCORE] = { { "ZSCORE", KEY_ZSET, "member:5" }, { "ZSCORE", KEY_ZSET, "member:5" } },
    [OPERATION_PUBSUB] = { { "PUBLISH", CHANNEL, "$v" }, { "PUBLISH", CHANNEL, "$v" } },
};

#define USES(id) (1u << OPERATION_##id)

/* A server that lacks sorted sets can still be asked for the rest. */
static const struct {
    uint32_t users; /* operations that need the object */
    const char *words[WORDS_MAX];
} setup_rows[] = {
    { USES(SET) | USES(GET), { "DEL", KEY_STRING } },
    { USES(SET) | USES(GET), { "SET", KEY_STRING, "$v" } },
    { USES(HSET) | USES(HGET), { "DEL", KEY_HASH } },
    { USES(HSET) | USES(HGET),
      { "HSET", KEY_HASH, "field:0", "value-a0", "field:1", "value-a1", "field:2", "value-a2", "field:3", "value-a3",
        "field:4", "value-a4", "field:5", "value-a5", "field:6", "value-a6", "field:7", "value-a7" } },
    { USES(ZADD) | USES(ZSCORE), { "DEL", KEY_ZSET } },
    { USES(ZADD) | USES(ZSCORE),
      { "ZADD", KEY_ZSET, "10.5", "member:0", "20.5", "member:1", "30.5", "member:2", "31.5", "member:3", "50.5",
        "member:4", "60.5", "member:5", "70.5", "member:6", "80.5", "member:7" } },
};

/* A value of `bytes` letters for "$v". */
static uint8_t *
value_make(size_t bytes, uint32_t variant)
{
    uint8_t *value = malloc(bytes + 1);
    CHECK(value != NULL);
    for (size_t i = 0; i < bytes; i++) {
        value[i] = (uint8_t)((variant == 0 ? 'a' : 'A') + i % 26);
    }
    return value;
}

static uint32_t
words_fill(struct slice words[WORDS_MAX], const char *const *from, uint32_t most, struct slice value)
{
    uint32_t count = 0;
    while (count < most && from[count] != NULL) {
        words[count] = strcmp(from[count], "$v") == 0 ? value : slice_text(from[count]);
        count++;
    }
    return count;
}

static bool
say(char *why, size_t why_bytes, const char *what, const char *reason)
{
    snprintf(why, why_bytes, "%s: %s", what, reason);
    return false;
}

static enum operation_status
broken(char *why, size_t why_bytes, const char *what, const char *reason)
{
    say(why, why_bytes, what, reason);
    return OPERATION_BROKEN;
}

static bool
say_reply(char *why, size_t why_bytes, const char *what, const struct client_reply *reply)
{
    const struct value *value = &reply->values[0];
    if (value->kind == VALUE_ERROR) {
        snprintf(why, why_bytes, "%s: %.*s", what, (int)MIN(value->bytes.bytes, 200), (const char *)value->bytes.data);
        return false;
    }
    return say(why, why_bytes, what, "an answer that is not the expected one");
}

static enum operation_status
setup(enum operation_id id, struct client *client, size_t value_bytes, char *why, size_t why_bytes)
{
    uint8_t *letters = value_make(value_bytes, 0);
    enum operation_status status = OPERATION_OK;
    for (size_t i = 0; status == OPERATION_OK && i < ARRAY_COUNT(setup_rows); i++) {
        struct slice words[WORDS_MAX];
        struct client_reply reply;
        if ((setup_rows[i].users & 1u << id) == 0) {
            continue;
        }
        const char *const *row = setup_rows[i].words;
        uint32_t count = words_fill(words, row, WORDS_MAX, slice_of(letters, value_bytes));
        if (client_call(client, words, count, &reply) != CLIENT_OK) {
            status = broken(why, why_bytes, row[0], client_why(client));
        } else if (client_reply_is_error(&reply)) {
            say_reply(why, why_bytes, row[0], &reply);
            status = OPERATION_REFUSED;
        }
    }
    free(letters);
    return status;
}

static bool
is_integer(const struct value *value, int64_t expected)
{
    return value->kind == VALUE_INTEGER && value->integer == expected;
}

static bool
is_bytes(const struct value *value, struct slice expected)
{
    return value->kind == VALUE_BULK && slice_equal(value->bytes, expected);
}

static bool
is_score(const struct value *value, const char *text, double score)
{
    return (value->kind == VALUE_DOUBLE && value->real == score) || is_bytes(value, slice_text(text));
}

/* What the command means, not what it looks like on this wire. */
static bool
answer_is_right(enum operation_id id, const struct client_reply *reply, struct slice value)
{
    const struct value *root = &reply->values[0];
    switch (id) {
    case OPERATION_PING:
        return root->kind == VALUE_STATUS && client_reply_is_text(reply, "PONG");
    case OPERATION_SET:
        return root->kind == VALUE_STATUS && client_reply_is_text(reply, "OK");
    case OPERATION_GET:
        return is_bytes(root, value);
    case OPERATION_HSET:
    case OPERATION_ZADD:
        return is_integer(root, 0);
    case OPERATION_HGET:
        return is_bytes(root, SLICE_LITERAL("value-a5"));
    case OPERATION_ZSCORE:
        return is_score(root, "60.5", 60.5);
    case OPERATION_PUBSUB:
        return is_integer(root, 1);
    }
    return false;
}

static bool
message_is_right(const struct client_reply *reply, struct slice value)
{
    const struct value *values = reply->values;
    return reply->push && reply->count == 4 && values[0].count == 3 && is_bytes(&values[1], SLICE_LITERAL("message")) &&
           is_bytes(&values[2], SLICE_LITERAL(CHANNEL)) && is_bytes(&values[3], value);
}

/* Spin until one whole reply is there, decode it, and keep its bytes. */
static bool
reply_learn(struct client *client, struct client_reply *reply, struct operation_bytes *keep, char *why,
            size_t why_bytes)
{
    int64_t deadline = machine_now_ns() + BENCH_SILENCE_NS;
    for (;;) {
        struct slice view;
        size_t bytes;
        if (client_raw_receive(client, &view) != CLIENT_OK) {
            return say(why, why_bytes, "receiving", client_why(client));
        }
        enum client_status status = client_raw_reply(client, reply, &bytes);
        if (status == CLIENT_OK) {
            keep->data = malloc(bytes);
            CHECK(keep->data != NULL);
            memcpy(keep->data, view.data, bytes);
            keep->bytes = bytes;
            return true;
        }
        if (status != CLIENT_TIMEOUT) {
            return say(why, why_bytes, "receiving", client_why(client));
        }
        if (machine_now_ns() > deadline) {
            return say(why, why_bytes, "receiving", "nothing came for " BENCH_SILENCE_TEXT);
        }
    }
}

/* Out it goes; a transport without room is given a chance by receiving, which nobody answers before the end. */
static bool
request_send(struct operation *operation, const struct operation_bytes *request, char *why, size_t why_bytes)
{
    size_t sent = 0;
    int64_t deadline = 0;
    while (sent < request->bytes) {
        ssize_t now = client_raw_send(operation->client, request->data + sent, request->bytes - sent);
        if (now < 0) {
            return say(why, why_bytes, "sending", client_why(operation->client));
        }
        sent += (size_t)now;
        if (UNLIKELY(now == 0)) {
            struct slice view;
            if (client_raw_receive(operation->client, &view) != CLIENT_OK) {
                return say(why, why_bytes, "sending", client_why(operation->client));
            }
            if (deadline == 0) {
                deadline = machine_now_ns() + BENCH_SILENCE_NS;
            } else if (machine_now_ns() > deadline) {
                return say(why, why_bytes, "sending", "no room for " BENCH_SILENCE_TEXT);
            }
        }
    }
    return true;
}

/* Encode a variant, send it once, check what it means. */
static enum operation_status
variant_learn(struct operation *operation, uint32_t variant, struct slice value, char *why, size_t why_bytes)
{
    const char *name = operation_names[operation->id];
    struct operation_bytes *request = &operation->request[variant];
    struct slice words[WORDS_MAX];
    struct client_reply reply;
    uint32_t count = words_fill(words, request_words[operation->id][variant], 5, value);

    size_t room = value.bytes + 512;
    request->data = malloc(room);
    CHECK(request->data != NULL);
    request->bytes = client_encode(operation->client, words, count, 7, request->data, room);
    if (request->bytes == 0) {
        return broken(why, why_bytes, name, client_why(operation->client));
    }
    if (!request_send(operation, request, why, why_bytes) ||
        !reply_learn(operation->client, &reply, &operation->answer[variant], why, why_bytes)) {
        return OPERATION_BROKEN;
    }
    bool good = answer_is_right(operation->id, &reply, value) || say_reply(why, why_bytes, name, &reply);
    client_raw_take(operation->client, operation->answer[variant].bytes);
    if (!good || operation->subscriber == NULL) {
        return good ? OPERATION_OK : OPERATION_REFUSED;
    }
    if (!reply_learn(operation->subscriber, &reply, &operation->message[variant], why, why_bytes)) {
        return OPERATION_BROKEN;
    }
    good = message_is_right(&reply, value) || say_reply(why, why_bytes, "the message", &reply);
    client_raw_take(operation->subscriber, operation->message[variant].bytes);
    return good ? OPERATION_OK : OPERATION_REFUSED;
}

static enum operation_status
subscribe(struct client *subscriber, char *why, size_t why_bytes)
{
    const char *words[] = { "SUBSCRIBE", CHANNEL };
    struct client_reply reply;
    if (client_call_words(subscriber, words, 2, &reply) != CLIENT_OK) {
        return broken(why, why_bytes, "SUBSCRIBE", client_why(subscriber));
    }
    return reply.push || say_reply(why, why_bytes, "SUBSCRIBE", &reply) ? OPERATION_OK : OPERATION_REFUSED;
}

enum operation_status
operation_open(struct operation *operation, enum operation_id id, struct client *client, struct client *subscriber,
               size_t value_bytes, char *why, size_t why_bytes)
{
    *operation = (struct operation){ .id = id, .client = client };
    enum operation_status status = setup(id, client, value_bytes, why, why_bytes);
    if (status == OPERATION_OK && id == OPERATION_PUBSUB) {
        status = subscribe(subscriber, why, why_bytes);
        operation->subscriber = status == OPERATION_OK ? subscriber : NULL;
    }
    for (uint32_t variant = 0; status == OPERATION_OK && variant < OPERATION_VARIANTS; variant++) {
        uint8_t *letters = value_make(value_bytes, id == OPERATION_GET ? 0 : variant);
        status = variant_learn(operation, variant, slice_of(letters, value_bytes), why, why_bytes);
        free(letters);
    }
    return status;
}

void
operation_close(struct operation *operation)
{
    for (uint32_t i = 0; i < OPERATION_VARIANTS; i++) {
        free(operation->request[i].data);
        free(operation->answer[i].data);
        free(operation->message[i].data);
    }
    if (operation->subscriber != NULL) {
        const char *words[] = { "UNSUBSCRIBE", CHANNEL };
        struct client_reply reply;
        client_call_words(operation->subscriber, words, 2, &reply); /* its connection closes soon anyway */
    }
    *operation = (struct operation){ 0 };
}

void
operation_cleanup(struct client *client)
{
    static const char *const keys[] = { KEY_STRING, KEY_HASH, KEY_ZSET };
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        const char *words[] = { "DEL", keys[i] };
        struct client_reply reply;
        if (client_call_words(client, words, 2, &reply) != CLIENT_OK) {
            return;
        }
    }
}

enum arrival { ARRIVED, ARRIVES, ARRIVED_OTHER, ARRIVAL_BROKEN };

/* Look once. What came so far is compared at once, so that a short error is not waited for. */
static enum arrival
bytes_arrive(struct client *client, const struct operation_bytes *expected)
{
    struct slice view;
    if (UNLIKELY(client_raw_receive(client, &view) != CLIENT_OK)) {
        return ARRIVAL_BROKEN;
    }
    if (UNLIKELY(view.bytes < expected->bytes)) {
        return view.bytes == 0 || memcmp(view.data, expected->data, view.bytes) == 0 ? ARRIVES : ARRIVED_OTHER;
    }
    if (UNLIKELY(view.bytes > expected->bytes || memcmp(view.data, expected->data, expected->bytes) != 0)) {
        return ARRIVED_OTHER;
    }
    client_raw_take(client, expected->bytes);
    return ARRIVED;
}

static bool
client_is_silent(struct client *client, char *why, size_t why_bytes)
{
    struct slice view;
    if (client_raw_receive(client, &view) != CLIENT_OK) {
        return say(why, why_bytes, "receiving", client_why(client));
    }
    return view.bytes == 0 || say(why, why_bytes, "receiving", "an answer that nobody asked for");
}

bool
operation_is_silent(struct operation *operation, char *why, size_t why_bytes)
{
    return client_is_silent(operation->client, why, why_bytes) &&
           (operation->subscriber == NULL || client_is_silent(operation->subscriber, why, why_bytes));
}

static bool
say_arrival(char *why, size_t why_bytes, const char *name, enum arrival arrival, struct client *client)
{
    struct client_reply reply;
    size_t bytes;
    if (arrival == ARRIVED_OTHER && client_raw_reply(client, &reply, &bytes) == CLIENT_OK) {
        return say_reply(why, why_bytes, name, &reply);
    }
    return say(why, why_bytes, name, arrival == ARRIVAL_BROKEN ? client_why(client) : "an answer that changed");
}

bool
operation_run(struct operation *operation, uint32_t variant, char *why, size_t why_bytes)
{
    if (UNLIKELY(!request_send(operation, &operation->request[variant], why, why_bytes))) {
        return false;
    }
    enum arrival answer = ARRIVES, message = operation->subscriber != NULL ? ARRIVES : ARRIVED;
    int64_t deadline = 0;
    for (uint32_t spins = 1; answer == ARRIVES || message == ARRIVES; spins++) {
        if (answer == ARRIVES) {
            answer = bytes_arrive(operation->client, &operation->answer[variant]);
        }
        if (message == ARRIVES) {
            message = bytes_arrive(operation->subscriber, &operation->message[variant]);
        }
        if (UNLIKELY(spins % SPINS_PER_CLOCK == 0)) {
            int64_t now = machine_now_ns();
            deadline = deadline == 0 ? now + BENCH_SILENCE_NS : deadline;
            if (now > deadline) {
                return say(why, why_bytes, operation_names[operation->id], "nothing came for " BENCH_SILENCE_TEXT);
            }
        }
        cpu_relax();
    }
    if (UNLIKELY(answer != ARRIVED)) {
        return say_arrival(why, why_bytes, operation_names[operation->id], answer, operation->client);
    }
    if (UNLIKELY(message != ARRIVED)) {
        return say_arrival(why, why_bytes, "the message", message, operation->subscriber);
    }
    return true;
}
