/* envelope.c - the header of a fabric message. */
#include "codec/envelope.h"

enum envelope_verdict
envelope_read(struct slice message, struct envelope *envelope, struct slice *payload)
{
    if (message.bytes < ENVELOPE_BYTES) {
        return ENVELOPE_TOO_SHORT;
    }
    memcpy(envelope, message.data, ENVELOPE_BYTES);
    if (envelope->magic != ENVELOPE_MAGIC) {
        return ENVELOPE_BAD_MAGIC;
    }
    if (envelope->version != ENVELOPE_VERSION) {
        return ENVELOPE_BAD_VERSION;
    }
    if (envelope->kind < ENVELOPE_DATA || envelope->kind > ENVELOPE_ERROR) {
        return ENVELOPE_BAD_KIND;
    }
    /* Some transports pad short messages, none here does: what the header says and what came must be the same. */
    if (envelope->payload_bytes != message.bytes - ENVELOPE_BYTES) {
        return ENVELOPE_BAD_LENGTH;
    }
    bool carries = envelope->kind == ENVELOPE_DATA || envelope->kind == ENVELOPE_ERROR;
    if (envelope->payload_bytes != 0 ? !carries : envelope->kind == ENVELOPE_DATA) {
        return ENVELOPE_BAD_LENGTH;
    }
    *payload = slice_of(message.data + ENVELOPE_BYTES, envelope->payload_bytes);
    return ENVELOPE_GOOD;
}

void
envelope_write(uint8_t out[ENVELOPE_BYTES], const struct envelope *envelope)
{
    struct envelope wire = *envelope;

    wire.magic = ENVELOPE_MAGIC;
    wire.version = ENVELOPE_VERSION;
    memcpy(out, &wire, ENVELOPE_BYTES);
}
