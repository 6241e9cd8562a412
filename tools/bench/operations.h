/* operations.h - the eight operations of the latency table: PING SET GET HSET HGET ZADD ZSCORE PUBSUB.
 *
 * SET, HSET and ZADD update existing objects without changing their sizes; GET, HGET and ZSCORE hit; PUBSUB spans
 * PUBLISH, its acknowledgement and the delivery to one subscriber of one channel on a second connection. Requests are
 * encoded once; every reply is compared with the bytes of one that was decoded and checked before. */
#pragma once
#include "tools/client/client.h"

#define OPERATION_COUNT    8
#define OPERATION_VARIANTS 2 /* sent in turn, so that an update changes something */

enum operation_id {
    OPERATION_PING,
    OPERATION_SET,
    OPERATION_GET,
    OPERATION_HSET,
    OPERATION_HGET,
    OPERATION_ZADD,
    OPERATION_ZSCORE,
    OPERATION_PUBSUB,
};

extern const char *const operation_names[OPERATION_COUNT];

/* Bytes on the wire, of a request or of what answers it. */
struct operation_bytes {
    uint8_t *data;
    size_t bytes;
};

struct operation {
    enum operation_id id;
    struct client *client;     /* sends, and receives the answer */
    struct client *subscriber; /* PUBSUB: receives the message; else NULL */
    struct operation_bytes request[OPERATION_VARIANTS];
    struct operation_bytes answer[OPERATION_VARIANTS];
    struct operation_bytes message[OPERATION_VARIANTS]; /* PUBSUB */
};

#define OPERATION_WHY_BYTES 512

enum operation_status {
    OPERATION_OK,
    OPERATION_REFUSED, /* answered with an error or something unexpected: the connection can go on */
    OPERATION_BROKEN,  /* it cannot */
};

/* Create the object that this operation needs, encode its requests, send each once and check its reply.
 * Unless OK, a sentence in `why`. operation_close() is due in each case. */
enum operation_status operation_open(struct operation *operation, enum operation_id id, struct client *client,
                                     struct client *subscriber, size_t value_bytes, char *why, size_t why_bytes);
/* Leave the objects, take the memory. PUBSUB: unsubscribes. */
void operation_close(struct operation *operation);

/* Delete what operation_open() created. */
void operation_cleanup(struct client *client);

/* One round trip of a variant, spinning. Returns false with a sentence in `why`: the reply differs, the connection
 * broke, or nothing came for 20 s. No allocation, no copy but the transport's. */
bool operation_run(struct operation *operation, uint32_t variant, char *why, size_t why_bytes);
/* Between round trips: false with a sentence in `why` when an answer waits that nobody asked for, so that the one that
 * was timed may have been another's, or when the connection broke. */
bool operation_is_silent(struct operation *operation, char *why, size_t why_bytes);
