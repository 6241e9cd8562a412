/* bench_sbe.c - ns per decoded SBE request and encoded reply; run under callgrind it counts instructions.
 *
 * usage: bench_sbe [name [rounds]] */
#include "codec/sbe.h"
#include "codec/sbe_client.h"
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
decode(const struct slice *words, uint32_t count)
{
    static struct arg args[LIMIT_REQUEST_ARGS];
    static const struct decode_limits limits = { LIMIT_REQUEST_ARGS, LIMIT_VALUE_BYTES, LIMIT_REQUEST_BYTES };
    size_t bytes = (size_t)(sbe_request_write(memory, 1, words, count) - memory);

    for (uint32_t i = 0; i < BATCH; i++) {
        struct arg_room room = { args, 0, LIMIT_REQUEST_ARGS };
        struct request request;
        enum codec_status status = sbe_decode(slice_of(memory, bytes), &limits, &room, &request);
        CHECK(status == CODEC_OK && request.command != NULL);
        result += request.args_count;
    }
}

#define KEY   SLICE_LITERAL("key:000000000042")
#define VALUE SLICE_LITERAL("abcdefghijklmnopqrstuvwxyz012345")

static void
decode_get(void)
{
    decode((struct slice[]){ SLICE_LITERAL("GET"), KEY }, 2);
}

static void
decode_set(void)
{
    decode((struct slice[]){ SLICE_LITERAL("SET"), KEY, VALUE }, 3);
}

static void
decode_set_px(void)
{
    decode((struct slice[]){ SLICE_LITERAL("SET"), KEY, VALUE, SLICE_LITERAL("PX"), SLICE_LITERAL("100") }, 5);
}

static void
decode_hget(void)
{
    decode((struct slice[]){ SLICE_LITERAL("HGET"), KEY, SLICE_LITERAL("field") }, 3);
}

static void
decode_hset(void)
{
    decode((struct slice[]){ SLICE_LITERAL("HSET"), KEY, SLICE_LITERAL("field"), VALUE }, 4);
}

static void
decode_zadd(void)
{
    decode((struct slice[]){ SLICE_LITERAL("ZADD"), KEY, SLICE_LITERAL("1.5"), SLICE_LITERAL("member") }, 4);
}

static void
decode_incrby(void)
{
    decode((struct slice[]){ SLICE_LITERAL("INCRBY"), KEY, SLICE_LITERAL("1") }, 3);
}

static void
decode_generic(void)
{
    decode((struct slice[]){ SLICE_LITERAL("MGET"), KEY, KEY }, 3);
}

static void
encode(void (*value)(struct reply *reply))
{
    struct sink sink = { memory, memory + sizeof(memory), memory, 0, &full_ops, false };
    struct reply reply;

    reply_init(&reply, WIRE_SBE, &sink);
    for (uint32_t i = 0; i < BATCH; i++) {
        reply_begin(&reply, 1);
        value(&reply);
        reply_end(&reply);
    }
    result += sink_offset(&sink);
}

static void
value_bulk(struct reply *reply)
{
    reply_bulk(reply, VALUE);
}

static void
value_integer(struct reply *reply)
{
    reply_integer(reply, 123456);
}

static void
value_push(struct reply *reply)
{
    reply->ops->push(reply, 3);
    reply_bulk_text(reply, "message");
    reply_bulk_text(reply, "channel");
    reply_bulk(reply, VALUE);
}

static void
encode_bulk(void)
{
    encode(value_bulk);
}

static void
encode_ok(void)
{
    encode(reply_ok);
}

static void
encode_integer(void)
{
    encode(value_integer);
}

static void
encode_push(void)
{
    encode(value_push);
}

static const struct bench benches[] = {
    { "decode-get", decode_get },         { "decode-set", decode_set },         { "decode-set-px", decode_set_px },
    { "decode-hget", decode_hget },       { "decode-hset", decode_hset },       { "decode-zadd", decode_zadd },
    { "decode-incrby", decode_incrby },   { "decode-generic", decode_generic }, { "encode-bulk", encode_bulk },
    { "encode-integer", encode_integer }, { "encode-ok", encode_ok },           { "encode-push", encode_push },
};

int
main(int argc, char **argv)
{
    return bench_rounds(benches, ARRAY_COUNT(benches), argc, argv) > 0 && result > 0 ? 0 : 1;
}
