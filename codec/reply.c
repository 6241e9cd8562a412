/* reply.c - what every wire's reply has in common. */
#include "codec/reply.h"

#define ERROR_TEXT_BYTES 256

void
reply_init(struct reply *reply, enum wire wire, struct sink *sink)
{
    *reply = (struct reply){ .ops = &reply_resp2, .sink = sink, .wire = wire };
    switch (wire) {
    case WIRE_UNKNOWN: /* only errors are answered before the wire is known, and every client reads RESP2's */
    case WIRE_RESP2:
        break;
    case WIRE_RESP3:
        reply->ops = &reply_resp3;
        break;
    case WIRE_SBE:
        reply->ops = &reply_sbe;
        break;
    }
}

void
reply_restart(struct reply *reply)
{
    sink_rewind(reply->sink, reply->start);
    reply_begin(reply, reply->correlation);
}

void
reply_error_join(struct reply *r, const struct slice *pieces, uint32_t count)
{
    uint8_t text[ERROR_TEXT_BYTES];
    size_t bytes = 0;

    for (uint32_t i = 0; i < count; i++) {
        size_t piece = MIN(pieces[i].bytes, sizeof(text) - bytes);
        for (size_t at = 0; at < piece; at++) {
            uint8_t c = pieces[i].data[at];
            text[bytes++] = c == '\r' || c == '\n' ? ' ' : c;
        }
    }
    r->is_error = true;
    r->ops->error(r, slice_of(text, bytes));
}
