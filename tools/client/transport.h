/* transport.h - what carries a client's two byte streams: a stream socket or a fabric session.
 *
 * The client writes request bytes and reads reply bytes; wires and replies are not a transport's business. Every call
 * is non-blocking but open, wait and close. Threads: one, the client's. */
#pragma once
#include "config/base.h"
#include <sys/types.h>

struct client_options;
struct transport;

#define TRANSPORT_WHY_BYTES 256

struct transport_ops {
    /* Take bytes of the out-stream and put them on their way; nothing waits for a later call.
     * Returns  bytes taken, 0 when there is no room now, -errno when the stream is over: `why` says it.
     *          -ESTALE: the session was lost for good, what was not answered may or may not have been executed. */
    ssize_t (*send)(struct transport *transport, const void *data, size_t bytes);
    /* Copy what came of the in-stream. Also what lets the transport make progress (acks, credit, resends): call it
     * while anything is awaited.
     * Returns  bytes copied, 0 when nothing is there now, -errno as above; -ECONNRESET when the server closed. */
    ssize_t (*receive)(struct transport *transport, void *data, size_t room);
    /* Wait until receive() has bytes, or send() has room if `want_send`, or `timeout_ms` are over (-1: for ever).
     * May return early. A transport that must be polled polls and yields the CPU between polls. */
    void (*wait)(struct transport *transport, bool want_send, int timeout_ms);
    /* A descriptor for poll(2): readable when receive() has bytes; -1: there is none, it must be polled. */
    int (*fd)(const struct transport *transport);
    /* One line for people: "tcp 127.0.0.1:6379", "fabric shm, frames of 4096 bytes". */
    void (*describe)(const struct transport *transport, char *text, size_t text_bytes);
    /* Where a transport stands that must be polled, for people who ask why nothing moves; "" otherwise. */
    void (*state)(const struct transport *transport, char *text, size_t text_bytes);
    /* Say good-bye if that takes no more than a moment, and free everything. */
    void (*close)(struct transport *transport);
};

/* First member of every implementation's struct. */
struct transport {
    const struct transport_ops *ops;
    char why[TRANSPORT_WHY_BYTES]; /* after a negative result: one sentence, no newline */
};

/* Connect to options->path, else to options->host and options->port.
 * Returns  0, or -errno with a sentence in `why`.
 * Blocks   at most options->timeout_ms for each address. */
int transport_stream_open(const struct client_options *options, struct transport **out, char *why, size_t why_bytes);

/* Open a session on the fabric that options->fabric names: a control connection made by client_open() from the same
 * options without `fabric` on RESP2 (which authenticates), FABRIC ATTACH on it with our endpoint's address, the reply's
 * address inserted; on loss a new control connection and FABRIC RESUME within options->timeout_ms, hidden from the
 * caller but for the time it takes. `options` is copied; the strings in it outlive the transport.
 * Returns  0, or -errno with a sentence in `why`: what is missing and the remedy; never another provider. */
int transport_fabric_open(const struct client_options *options, struct transport **out, char *why, size_t why_bytes);
