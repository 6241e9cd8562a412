/* bench_resp.c - ns per decoded request, encoded reply and number; run under callgrind it counts instructions.
 *
 * usage: bench_resp [name [rounds]] */
#include "codec/number.h"
#include "codec/reply.h"
#include "codec/resp.h"
#include "test/codec/bench_rounds.h"

static uint8_t memory[64 * KIB];
static uint64_t result; /* keeps the compiler from dropping what is measured */

static bool
full(struct sink *sink, size_t bytes)
{
    sink->at = sink->chunk;
    return true;
}

static const struct sink_ops full_ops = { .more = full };

static void
decode_text(const char *text)
{
    static struct resp_span spans[LIMIT_REQUEST_ARGS + 1];
    static struct arg args[LIMIT_REQUEST_ARGS];
    static const struct decode_limits limits = { LIMIT_REQUEST_ARGS, LIMIT_VALUE_BYTES, LIMIT_REQUEST_BYTES };
    struct resp_state state = { 0 };
    size_t bytes = strlen(text);

    memcpy(memory, text, bytes);
    for (uint32_t i = 0; i < BATCH; i++) {
        struct arg_room room = { args, 0, LIMIT_REQUEST_ARGS };
        struct request request;
        enum codec_status status = resp_decode(&state, spans, memory, bytes, &limits, &room, &request);
        CHECK(status == CODEC_OK && request.command != NULL);
        result += request.args_count;
    }
}

static void
decode_get(void)
{
    decode_text("*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000042\r\n");
}

static void
decode_set(void)
{
    decode_text("*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000042\r\n$32\r\nabcdefghijklmnopqrstuvwxyz012345\r\n");
}

static void
decode_inline(void)
{
    decode_text("GET key:000000000042\r\n");
}

static void
find_command(void)
{
    for (uint32_t i = 0; i < BATCH; i++) {
        const struct command *command = command_find(i & 1 ? SLICE_LITERAL("GET") : SLICE_LITERAL("ZSCORE"));
        CHECK(command != NULL);
        result += command->id;
    }
}

static void
encode(enum wire wire, void (*value)(struct reply *reply))
{
    struct sink sink = { memory, memory + sizeof(memory), memory, 0, &full_ops, false };
    struct reply reply;

    reply_init(&reply, wire, &sink);
    for (uint32_t i = 0; i < BATCH; i++) {
        reply_begin(&reply, 0);
        value(&reply);
        reply_end(&reply);
    }
    result += sink_offset(&sink);
}

static void
value_bulk(struct reply *reply)
{
    reply_bulk(reply, SLICE_LITERAL("abcdefghijklmnopqrstuvwxyz012345"));
}

static void
value_integer(struct reply *reply)
{
    reply_integer(reply, 123456);
}

static void
value_real(struct reply *reply)
{
    reply_double(reply, 0.123123123);
}

static void
encode_bulk(void)
{
    encode(WIRE_RESP2, value_bulk);
}

static void
encode_ok(void)
{
    encode(WIRE_RESP2, reply_ok);
}

static void
encode_integer(void)
{
    encode(WIRE_RESP2, value_integer);
}

static void
encode_double(void)
{
    encode(WIRE_RESP3, value_real);
}

static void
parse_double(void)
{
    for (uint32_t i = 0; i < BATCH; i++) {
        double value;
        CHECK(number_parse_double(SLICE_LITERAL("0.123123123"), &value));
        result += (uint64_t)value;
    }
}

static const struct bench benches[] = {
    { "decode-get", decode_get },       { "decode-set", decode_set },         { "decode-inline", decode_inline },
    { "find-command", find_command },   { "encode-bulk", encode_bulk },       { "encode-ok", encode_ok },
    { "encode-double", encode_double }, { "encode-integer", encode_integer }, { "parse-double", parse_double },
};

int
main(int argc, char **argv)
{
    return bench_rounds(benches, ARRAY_COUNT(benches), argc, argv) > 0 && result > 0 ? 0 : 1;
}
