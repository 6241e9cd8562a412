/* client_internal.h - what the files of the client share. */
#pragma once
#include "tools/client/client.h"
#include "tools/client/resp_reply.h"
#include "tools/client/transport.h"

/* A push that came while client_call() waited for an answer: its wire form, decoded again when it is collected. */
struct client_push {
    struct client_push *next;
    size_t bytes;
    uint8_t wire[];
};

struct client {
    struct client_options options;
    struct transport *transport;
    enum client_wire wire; /* as spoken now: RESP2 until HELLO is answered */

    /* Received: [in_taken, in_end) is not yet taken; `in_lent` of them belong to the reply last handed out. */
    uint8_t *in;
    size_t in_room, in_taken, in_end, in_lent;
    /* Encoded: [out_sent, out_end) is not yet sent. */
    uint8_t *out;
    size_t out_room, out_sent, out_end;

    struct value_list values;
    struct resp_reply_state resp;
    struct client_push *pushes, **pushes_tail, *push_lent;
    size_t pushes_bytes;

    uint64_t correlation; /* of the next request; never 0 */
    uint32_t in_flight;
    bool subscribed; /* RESP2: arrays may be pushes */
    bool broken;
    char why[CLIENT_WHY_BYTES];
};

/* Say why, and that the connection is over. Returns CLIENT_BROKEN. */
enum client_status client_break(struct client *client, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Decode the first reply in `wire`. CLIENT_OK with *bytes; CLIENT_TIMEOUT: incomplete; CLIENT_BROKEN. */
enum client_status client_decode(struct client *client, struct slice wire, struct client_reply *reply, size_t *bytes);

/* Read what the transport has, into a buffer that grows up to reply_bytes_max. *received: bytes. */
enum client_status client_pull(struct client *client, size_t *received);

/* SBE: bytes of the wire form, 0: it cannot be sent, client->why. */
size_t client_sbe_bytes(struct client *client, const struct slice *words, uint32_t count);
uint8_t *client_sbe_write(struct client *client, uint8_t *out, const struct slice *words, uint32_t count,
                          uint64_t correlation);
enum client_status client_sbe_decode(struct client *client, struct slice wire, struct client_reply *reply,
                                     size_t *bytes);
