/* envelope.h - the 32 bytes before every fabric message. Little-endian; positions never change. */
#pragma once
#include "config/base.h"

#define ENVELOPE_BYTES   32
#define ENVELOPE_MAGIC   0x4c53 /* "SL" */
#define ENVELOPE_VERSION 1

/* The payload of an ERROR that ends only this incarnation: the session waits for FABRIC RESUME. */
#define ENVELOPE_FENCED "FENCED resume the session"

enum envelope_kind {
    ENVELOPE_DATA = 1, /* a piece of the stream: never empty */
    ENVELOPE_ACK = 2,  /* only acknowledged and credit */
    ENVELOPE_PING = 3, /* answered with PONG at once */
    ENVELOPE_PONG = 4,
    ENVELOPE_DETACH = 5, /* the session is over, by wish */
    ENVELOPE_ERROR = 6,  /* the session is over, the payload is a sentence that says why; may be empty */
};

/* As in memory; the wire order of the fields is the order here. */
struct envelope {
    uint16_t magic;
    uint8_t version;
    uint8_t kind; /* enum envelope_kind */
    uint16_t payload_bytes;
    uint16_t credit; /* frames that may be sent beyond `acknowledged` */
    uint32_t incarnation;
    uint32_t wire_id;
    uint64_t offset;       /* stream offset of the payload's first byte */
    uint64_t acknowledged; /* stream offset up to which the sender of this frame has taken the other stream */
    /* 32 bytes */
};
static_assert(sizeof(struct envelope) == ENVELOPE_BYTES, "the struct is the wire form on little-endian machines");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "x86-64 and arm64 are little-endian");

enum envelope_verdict {
    ENVELOPE_GOOD,
    ENVELOPE_TOO_SHORT,
    ENVELOPE_BAD_MAGIC,
    ENVELOPE_BAD_VERSION,
    ENVELOPE_BAD_KIND,
    ENVELOPE_BAD_LENGTH, /* payload_bytes does not match the message or the kind */
};

/* Check and copy the header of a received message.
 *
 * Returns  ENVELOPE_GOOD; otherwise what is wrong first, and *payload is untouched.
 * Lifetime *payload borrows from `message`.
 * Threads  pure. */
enum envelope_verdict envelope_read(struct slice message, struct envelope *envelope, struct slice *payload);

/* Fill in magic and version and write 32 bytes. */
void envelope_write(uint8_t out[ENVELOPE_BYTES], const struct envelope *envelope);
