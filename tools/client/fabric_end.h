/* fabric_end.h - the client's end of one fabric session: frames on an endpoint, bytes for the client.
 *
 * Knows no control connection: who opens it brings what FABRIC ATTACH answered, and after a loss what FABRIC RESUME
 * answered. Request bytes are kept until the server has taken them, so that a lost peer costs time and nothing else.
 * Never blocks. Threads: one. */
#pragma once
#include "codec/frame_stream.h"
#include "dataplane/endpoint.h"
#include <sys/types.h>

#define FABRIC_END_OUT_BYTES (4u << 20) /* of requests not yet taken by the server; a power of two */
#define FABRIC_END_SLOTS     64         /* receive slots, and send slots */
#define FABRIC_END_CREDIT    60         /* the rest is for control frames */

/* The reply of FABRIC ATTACH and RESUME. */
struct fabric_attachment {
    uint8_t address[ENDPOINT_ADDRESS_BYTES];
    uint32_t address_bytes;
    uint32_t wire_id, incarnation;
    char secret[33]; /* of RESUME; never print it */
    uint32_t credit, frame_bytes;
    uint64_t session;
    uint64_t lease_ms;
    uint64_t taken; /* of our stream */
};

enum fabric_end_state {
    FABRIC_END_IDLE,  /* not attached yet */
    FABRIC_END_UP,    /* frames go both ways */
    FABRIC_END_LOST,  /* the peer cannot be reached or is silent: ask FABRIC RESUME, then fabric_end_resume() */
    FABRIC_END_ENDED, /* the server said DETACH or ERROR: it is over */
};

struct fabric_end {
    const struct endpoint_ops *ops;
    struct endpoint *endpoint; /* owned */
    struct endpoint_info info;
    enum endpoint_send send;
    enum fabric_end_state state;
    uint64_t peer;
    bool has_peer;
    bool ending; /* the server said good-bye, and some of what it sent before is still on its way */
    struct frame_stream stream;
    struct fabric_attachment attachment;

    /* The piece being read: it left the stream. Its slot comes back when it is read. */
    const uint8_t *read_at; /* NULL: none */
    uint32_t read_left, read_slot;
    uint64_t read_stream_end;
    uint8_t *carry; /* what was left of it when its endpoint was replaced */

    uint8_t *out;     /* ring: [stream.acknowledged, out_end) */
    uint64_t out_end; /* stream offset */

    uint32_t tx_free[FABRIC_END_SLOTS], tx_free_count;
    uint32_t tx_incarnation[FABRIC_END_SLOTS];
    uint32_t rx_unposted[FABRIC_END_SLOTS], rx_unposted_count;
    uint8_t *frame;  /* built here before inject */
    char error[128]; /* of ENVELOPE_ERROR or the failed send: one sentence */
};

/* Open the endpoint. 0, or -errno with a sentence in `why`. `config` needs provider, node, domain and send. */
int fabric_end_open(struct fabric_end *end, const struct endpoint_ops *ops, const struct endpoint_config *config,
                    char *why, size_t why_bytes);
/* Says DETACH when attached. */
void fabric_end_close(struct fabric_end *end);
/* While lost: a new endpoint, with a new address, instead of one that no longer works. 0, or -errno with a sentence;
 * then the old one stands. */
int fabric_end_reopen(struct fabric_end *end, const struct endpoint_config *config, char *why, size_t why_bytes);

/* What to tell FABRIC ATTACH and RESUME: our address, and how far we received the server's stream. */
struct slice fabric_end_address(const struct fabric_end *end);
static inline uint64_t
fabric_end_received(const struct fabric_end *end)
{
    return end->stream.received;
}

/* Go on with what the server answered. `now` is monotonic microseconds, here and below.
 * Returns 0, or -errno: the address is none, or the offsets do not fit (it is another session). */
int fabric_end_attach(struct fabric_end *end, const struct fabric_attachment *attachment, uint64_t now);
int fabric_end_resume(struct fabric_end *end, const struct fabric_attachment *attachment, uint64_t now);

/* Take request bytes; returns how many. They leave now, or when credit and slots allow. */
size_t fabric_end_write(struct fabric_end *end, const void *data, size_t bytes, uint64_t now);
/* Copy reply bytes out; returns how many. Polls, acknowledges, answers pings: call it while anything is awaited. */
size_t fabric_end_read(struct fabric_end *end, void *data, size_t room, uint64_t now);
/* The same without taking bytes: for one that waits. */
void fabric_end_progress(struct fabric_end *end, uint64_t now);
/* Whether fabric_end_read() would find bytes without polling. */
bool fabric_end_has_bytes(const struct fabric_end *end);
/* State, credit, what is unsent, unacknowledged, held and silent: one line for people. */
void fabric_end_describe(const struct fabric_end *end, uint64_t now, char *text, size_t text_bytes);
size_t fabric_end_room(const struct fabric_end *end);
