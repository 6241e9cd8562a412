/* client.h - libsluice: a connection to Sluice, or to anything that speaks RESP.
 *
 *     struct client_options options;
 *     char why[CLIENT_WHY_BYTES];
 *     client_options_init(&options);
 *     struct client *client = client_open(&options, why, sizeof why);
 *     struct client_reply reply;
 *     const char *words[] = { "SET", "greeting", "hello" };
 *     if (client_call_words(client, words, 3, &reply) == CLIENT_OK && !client_reply_is_error(&reply)) ...
 *     client_close(client);
 *
 * One connection, one thread at a time. Many requests may be in flight: client_submit() as often as wanted, then
 * client_collect() as often; answers come in the order of the requests. Internal to this repository until its interface
 * is frozen. */
#pragma once
#include "config/base.h"
#include "tools/client/value.h"
#include <sys/types.h>

struct client;

#define CLIENT_WHY_BYTES 512

enum client_wire { CLIENT_RESP2, CLIENT_RESP3, CLIENT_SBE };

/* Which libfabric call carries frames; auto: what fits is injected, the rest is sent. */
enum client_send { CLIENT_SEND_AUTO, CLIENT_SEND_INJECT, CLIENT_SEND_SEND };

/* How to reach a fabric port of the server; the stream connection only attaches. */
struct client_fabric {
    const char *provider;  /* "shm", "net", "tcp;ofi_rxm", "udp;ofi_rxd", "efa", "efa-direct"; NULL: no fabric */
    const char *node;      /* local address to bind; NULL: the one from which the port is reached */
    const char *domain;    /* device, or NULL */
    const char *port_name; /* the server's port; NULL: the one with this provider */
    enum client_send send;
};

/* The strings are borrowed until client_close(). */
struct client_options {
    const char *host; /* name or address; brackets around IPv6 are accepted */
    uint16_t port;
    const char *path;      /* Unix stream socket; wins over host and port */
    const char *user;      /* NULL: "default" */
    const char *password;  /* NULL: no AUTH */
    enum client_wire wire; /* of the data session */
    struct client_fabric fabric;
    bool spin;               /* never sleep while waiting: for latency, costs a CPU */
    int timeout_ms;          /* connecting, attaching, and each call; -1: none */
    size_t reply_bytes_max;  /* a larger reply ends the connection: CLIENT_BROKEN */
    size_t output_bytes_max; /* requests encoded and not yet sent: above it client_submit() says CLIENT_FULL */
    uint32_t in_flight_max;  /* requests submitted and not collected: likewise */
};

enum client_status {
    CLIENT_OK,
    CLIENT_FULL,    /* collect replies first: nothing was submitted */
    CLIENT_TIMEOUT, /* nothing came in time; the connection stands, what is in flight still is */
    CLIENT_BROKEN,  /* the connection is over, client_why() says why; only client_close() is left */
    CLIENT_INVALID, /* this request cannot be sent on this wire; nothing was submitted, client_why() says why */
};

/* Borrowed: valid until the next call with this client but client_why(). */
struct client_reply {
    const struct value *values; /* values[0] is the whole reply */
    uint32_t count;             /* of values, nested ones included */
    bool push;                  /* not an answer: a message, or the confirmation of a subscription, on every wire */
};

/* 127.0.0.1:6379, RESP2, no password, 5 s, blocking; limits that no reply of Sluice's exceeds. */
void client_options_init(struct client_options *options);

/* Connect, choose the wire, authenticate, attach. NULL with a sentence in `why` (no newline).
 * Blocks at most about timeout_ms per step. */
struct client *client_open(const struct client_options *options, char *why, size_t why_bytes);
void client_close(struct client *client); /* NULL is accepted */

/* The last CLIENT_BROKEN's or CLIENT_INVALID's reason, one sentence. Lifetime: until the next call. */
const char *client_why(const struct client *client);

/* From now on each call waits at most so long; -1: for ever. */
void client_timeout(struct client *client, int timeout_ms);

/* "tcp 127.0.0.1:6379", "fabric shm, ..." */
void client_describe(const struct client *client, char *text, size_t text_bytes);

/* Where its fabric session stands, one line without newline; "" for a socket. For whoever gives up waiting. */
void client_state(const struct client *client, char *text, size_t text_bytes);

/* ---- one at a time ---- */

/* Send one request, words[0] being the command, and wait for its answer. Pushes that come first are kept for
 * client_collect() unless they are what this request asked for (SUBSCRIBE ...): then the first confirmation is the
 * answer. An error reply is CLIENT_OK with values[0].kind VALUE_ERROR. Requires nothing in flight. */
enum client_status client_call(struct client *client, const struct slice *words, uint32_t count,
                               struct client_reply *reply);
enum client_status client_call_words(struct client *client, const char *const *words, uint32_t count,
                                     struct client_reply *reply);

/* ---- many in flight ---- */

/* Encode a request behind those waiting; sends once enough gathered, and whenever client_collect() must wait. */
enum client_status client_submit(struct client *client, const struct slice *words, uint32_t count);
/* Hand everything encoded to the transport as far as it takes it. Never waits. */
enum client_status client_flush(struct client *client);
/* The next answer or push, in stream order. Waits at most timeout_ms (0: only what is there; -1: for ever). */
enum client_status client_collect(struct client *client, struct client_reply *reply, int timeout_ms);
uint32_t client_in_flight(const struct client *client);

/* ---- bytes: for load generators that encode once and count ---- */

/* The wire form of a request, as client_submit() would send it; SBE: with this correlation id.
 * Returns bytes written, 0: it does not fit `room`, or cannot be sent (client_why()). */
size_t client_encode(struct client *client, const struct slice *words, uint32_t count, uint64_t correlation,
                     uint8_t *out, size_t room);
/* Bytes the transport took; 0: no room now; -1: CLIENT_BROKEN. Only with nothing submitted by client_submit(). */
ssize_t client_raw_send(struct client *client, const void *data, size_t bytes);
/* Read what came into the client's buffer; `view` is everything there that was not taken. Never waits. */
enum client_status client_raw_receive(struct client *client, struct slice *view);
void client_raw_take(struct client *client, size_t bytes); /* from the front of `view` */
/* Decode the first reply of the view without taking it. CLIENT_TIMEOUT: incomplete. *bytes: its length. */
enum client_status client_raw_reply(struct client *client, struct client_reply *reply, size_t *bytes);
int client_fd(const struct client *client); /* -1: must be polled */

/* ---- replies ---- */

static inline bool
client_reply_is_error(const struct client_reply *reply)
{
    return reply->values[0].kind == VALUE_ERROR;
}

/* True when the reply is a status, bulk or verbatim string with exactly these bytes. */
bool client_reply_is_text(const struct client_reply *reply, const char *text);

/* Index of the i-th element of the aggregate at `parent`, or UINT32_MAX. Cost: i steps. */
uint32_t client_reply_child(const struct client_reply *reply, uint32_t parent, uint32_t i);
