/* port_fabric_answer.c - the text of FABRIC commands: addresses and secrets in, answers out. */
#include "dataplane/port_fabric_private.h"

#define HEX_DIGITS "0123456789abcdef"

void
fabric_hex_print(char *out, const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        out[2 * i] = HEX_DIGITS[bytes[i] >> 4];
        out[2 * i + 1] = HEX_DIGITS[bytes[i] & 15];
    }
}

/* One hex digit's value, or -1. */
static int
hex_value(uint8_t c)
{
    uint8_t lower = c | 0x20;
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

bool
fabric_hex_read(struct slice text, uint8_t *out, size_t count)
{
    if (text.bytes != 2 * count) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        int high = hex_value(text.data[2 * i]), low = hex_value(text.data[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

bool
fabric_address_read(struct slice text, uint8_t out[ENDPOINT_ADDRESS_BYTES], struct slice *address)
{
    if (text.bytes > 2 && text.data[0] == '0' && (text.data[1] | 0x20) == 'x') {
        size_t count = (text.bytes - 2) / 2;
        *address = slice_of(out, count);
        return count > 0 && count <= ENDPOINT_ADDRESS_BYTES &&
               fabric_hex_read(slice_of(text.data + 2, text.bytes - 2), out, count);
    }
    *address = text;
    return text.bytes > 0 && text.bytes <= ENDPOINT_ADDRESS_BYTES;
}

/* ---- answers ---- */

/* Writes into later->answer and nowhere else. */
struct answer {
    struct sink sink; /* first */
    struct reply reply;
    struct later *later;
};

static bool
answer_more(struct sink *sink, size_t bytes)
{
    sink->failed = true;
    sink->end = sink->at;
    return false;
}

static void
answer_rewind(struct sink *sink, uint64_t offset)
{
    struct answer *answer = CONTAINER_OF(sink, struct answer, sink);
    sink->at = sink->chunk + offset;
    sink->end = sink->chunk + sizeof(answer->later->answer);
    sink->failed = false;
}

static const struct sink_ops answer_ops = { .more = answer_more, .rewind = answer_rewind };

static void
answer_begin(struct answer *answer, struct later *later)
{
    *answer = (struct answer){ .later = later };
    answer->sink.chunk = answer->sink.at = later->answer;
    answer->sink.end = later->answer + sizeof(later->answer);
    answer->sink.ops = &answer_ops;
    reply_init(&answer->reply, later->wire, &answer->sink);
    reply_begin(&answer->reply, later->correlation);
}

static void
answer_send(struct answer *answer, struct lcore *lcore)
{
    reply_end(&answer->reply);
    if (answer->sink.failed) {
        reply_restart(&answer->reply);
        reply_error(&answer->reply, "ERR the answer is too long: use a shorter address");
        reply_end(&answer->reply);
    }
    answer->later->answer_bytes = (uint32_t)sink_offset(&answer->sink);
    later_answer(lcore, answer->later);
}

void
fabric_answer_error(struct lcore *lcore, struct later *later, const char *text)
{
    struct answer answer;
    answer_begin(&answer, later);
    reply_error(&answer.reply, text);
    answer_send(&answer, lcore);
}

static void
answer_integer(struct answer *answer, const char *name, uint64_t value)
{
    reply_bulk_text(&answer->reply, name);
    reply_integer(&answer->reply, (int64_t)value);
}

void
fabric_answer_session(struct fabric_port *port, struct later *later, const struct fabric_session *fabric)
{
    const struct frame_config *config = &fabric->stream.config;
    char secret[2 * FABRIC_SECRET_BYTES];
    struct answer answer;

    fabric_hex_print(secret, fabric->secret, sizeof(fabric->secret));
    answer_begin(&answer, later);
    reply_map(&answer.reply, 10);
    reply_bulk_text(&answer.reply, "provider");
    reply_bulk_text(&answer.reply, port->info.provider);
    reply_bulk_text(&answer.reply, "address");
    reply_bulk(&answer.reply, slice_of(port->info.address, port->info.address_bytes));
    answer_integer(&answer, "wire_id", config->wire_id);
    answer_integer(&answer, "incarnation", config->incarnation);
    reply_bulk_text(&answer.reply, "secret");
    reply_bulk(&answer.reply, slice_of(secret, sizeof(secret)));
    answer_integer(&answer, "credit", config->credit);
    answer_integer(&answer, "frame_bytes", config->frame_bytes);
    answer_integer(&answer, "session", fabric->session.id);
    answer_integer(&answer, "lease_ms", port->lease_us / 1000);
    answer_integer(&answer, "taken", fabric->stream.received);
    answer_send(&answer, port->port.lcore);
}

void
fabric_answer_ok(struct lcore *lcore, struct later *later)
{
    struct answer answer;
    answer_begin(&answer, later);
    reply_ok(&answer.reply);
    answer_send(&answer, lcore);
}
