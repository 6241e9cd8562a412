/* client.c - opening and closing: transport, wire, authentication. */
#include "tools/client/client.h"
#include "codec/sbe.h"
#include "tools/client/client_internal.h"
#include <errno.h>
#include <stdarg.h>

#define IN_ROOM_FIRST  (64 * 1024)
#define OUT_ROOM_FIRST (64 * 1024)

void
client_options_init(struct client_options *options)
{
    *options = (struct client_options){
        .host = "127.0.0.1",
        .port = 6379,
        .wire = CLIENT_RESP2,
        .timeout_ms = 5000,
        .reply_bytes_max = 64 * MIB,
        .output_bytes_max = 4 * MIB,
        .in_flight_max = 65536,
    };
}

static struct client *
client_create(const struct client_options *options)
{
    struct client *client = calloc(1, sizeof(*client));
    if (client == NULL) {
        return NULL;
    }
    client->options = *options;
    client->in_room = IN_ROOM_FIRST;
    client->out_room = OUT_ROOM_FIRST;
    client->in = malloc(client->in_room);
    client->out = malloc(client->out_room);
    client->pushes_tail = &client->pushes;
    client->correlation = 1;
    if (client->in == NULL || client->out == NULL) {
        client_close(client);
        return NULL;
    }
    return client;
}

/* One handshake command; its answer must not be an error. */
static bool
handshake_call(struct client *client, const char *const *words, uint32_t count, char *why, size_t why_bytes)
{
    struct client_reply reply;
    if (client_call_words(client, words, count, &reply) != CLIENT_OK) {
        snprintf(why, why_bytes, "%s: %s", words[0], client->why);
        return false;
    }
    if (client_reply_is_error(&reply)) {
        snprintf(why, why_bytes, "%s: %.*s", words[0], (int)MIN(reply.values[0].bytes.bytes, 300),
                 (const char *)reply.values[0].bytes.data);
        return false;
    }
    return true;
}

static bool
handshake_auth(struct client *client, char *why, size_t why_bytes)
{
    const struct client_options *options = &client->options;
    const char *words[] = { "AUTH", options->user, options->password };
    if (options->user != NULL) {
        return handshake_call(client, words, 3, why, why_bytes);
    }
    words[1] = options->password;
    return handshake_call(client, words, 2, why, why_bytes);
}

static bool
handshake_hello(struct client *client, char *why, size_t why_bytes)
{
    const struct client_options *options = &client->options;
    const char *words[] = { "HELLO", "3", "AUTH", options->user != NULL ? options->user : "default",
                            options->password };
    client->wire = CLIENT_RESP3; /* an error comes in RESP2, which RESP3's reader takes as well */
    return handshake_call(client, words, options->password != NULL ? 5 : 2, why, why_bytes);
}

/* Not a request: it has no answer. */
static bool
handshake_magic(struct client *client, char *why, size_t why_bytes)
{
    client->wire = CLIENT_SBE;
    memcpy(client->out, SBE_STREAM_MAGIC, SBE_STREAM_MAGIC_BYTES);
    client->out_end = SBE_STREAM_MAGIC_BYTES;
    if (client_flush(client) != CLIENT_OK) {
        snprintf(why, why_bytes, "%s", client->why);
        return false;
    }
    return true;
}

static bool
handshake(struct client *client, char *why, size_t why_bytes)
{
    const struct client_options *options = &client->options;
    if (options->wire == CLIENT_SBE && !handshake_magic(client, why, why_bytes)) {
        return false;
    }
    if (options->wire == CLIENT_RESP3) {
        return handshake_hello(client, why, why_bytes);
    }
    return options->password == NULL || handshake_auth(client, why, why_bytes);
}

struct client *
client_open(const struct client_options *options, char *why, size_t why_bytes)
{
    struct client *client = client_create(options);
    if (client == NULL) {
        snprintf(why, why_bytes, "no memory");
        return NULL;
    }
    int result = options->fabric.provider != NULL ? transport_fabric_open(options, &client->transport, why, why_bytes)
                                                  : transport_stream_open(options, &client->transport, why, why_bytes);
    if (result != 0 || !handshake(client, why, why_bytes)) {
        client_close(client);
        return NULL;
    }
    return client;
}

void
client_close(struct client *client)
{
    if (client == NULL) {
        return;
    }
    if (client->transport != NULL) {
        client->transport->ops->close(client->transport);
    }
    while (client->pushes != NULL) {
        struct client_push *next = client->pushes->next;
        free(client->pushes);
        client->pushes = next;
    }
    free(client->push_lent);
    value_list_fini(&client->values);
    free(client->in);
    free(client->out);
    free(client);
}

enum client_status
client_break(struct client *client, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(client->why, sizeof(client->why), format, arguments);
    va_end(arguments);
    client->broken = true;
    return CLIENT_BROKEN;
}

const char *
client_why(const struct client *client)
{
    return client->why;
}

void
client_timeout(struct client *client, int timeout_ms)
{
    client->options.timeout_ms = timeout_ms;
}

void
client_describe(const struct client *client, char *text, size_t text_bytes)
{
    client->transport->ops->describe(client->transport, text, text_bytes);
}

void
client_state(const struct client *client, char *text, size_t text_bytes)
{
    client->transport->ops->state(client->transport, text, text_bytes);
}

int
client_fd(const struct client *client)
{
    return client->transport->ops->fd(client->transport);
}

uint32_t
client_in_flight(const struct client *client)
{
    return client->in_flight;
}

bool
client_reply_is_text(const struct client_reply *reply, const char *text)
{
    const struct value *value = &reply->values[0];
    bool is_text = value->kind == VALUE_STATUS || value->kind == VALUE_BULK || value->kind == VALUE_VERBATIM;
    return is_text && slice_equal(value->bytes, slice_text(text));
}

uint32_t
client_reply_child(const struct client_reply *reply, uint32_t parent, uint32_t i)
{
    const struct value *value = &reply->values[parent];
    if (!value_is_aggregate(value) || i >= value->count) {
        return UINT32_MAX;
    }
    uint32_t child = parent + 1;
    for (; i > 0; i--) {
        child = reply->values[child].after;
    }
    return child;
}
