/* fuzz_sbe.c - any bytes as an SBE request and as an SBE reply: nothing outside is read, and what is understood
 * survives being written again.
 *
 * The first byte chooses: 0 takes the rest as it is; 1 gives it a right length word; others patch a kept frame with
 * pairs of (place, value), which reaches behind the checks that random bytes fail. */
#include "test/codec/chunk_sink.h"
#include "test/codec/test_sbe_frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct arg args[LIMIT_BURST_ARGS];

static enum codec_status
decode(struct slice wire, struct request *request)
{
    struct arg_room room = { args, 0, ARRAY_COUNT(args) };
    struct decode_limits limits = { 100, 2000, 4000 };
    return sbe_decode(wire, &limits, &room, request);
}

/* The request as words of text, written by the client. The caller frees. */
static struct slice
encode(const struct request *request)
{
    static struct slice words[1 + LIMIT_BURST_ARGS];
    static char scratch[LIMIT_BURST_ARGS][ARG_TEXT_BYTES];

    words[0] = request->command != NULL ? slice_text(request->command->name) : request->name;
    for (uint32_t i = 0; i < request->args_count; i++) {
        words[1 + i] = arg_bytes(&request->args[i], scratch[i]);
    }
    size_t room = sbe_request_room(words, 1 + request->args_count);
    CHECK(room > 0);
    uint8_t *wire = malloc(room);
    CHECK(wire != NULL);
    size_t bytes = (size_t)(sbe_request_write(wire, request->correlation, words, 1 + request->args_count) - wire);
    CHECK(bytes <= room);
    return slice_of(wire, bytes);
}

static void
try_request(struct slice wire)
{
    static char first[FRAME_TEXT_MAX * 64], second[FRAME_TEXT_MAX * 64];
    struct request request;
    enum codec_status status = decode(wire, &request);

    if (status != CODEC_OK) {
        CHECK(status == CODEC_SHORT || request.error != NULL);
        return;
    }
    CHECK(request.wire_bytes <= wire.bytes && request.args_count <= 100);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < request.args_count; i++) {
        struct slice arg = request.args[i].kind == ARG_BYTES ? request.args[i].bytes : (struct slice){ NULL, 0 };
        for (size_t at = 0; at < arg.bytes; at++) {
            sum += arg.data[at]; /* ASan looks */
        }
    }
    CHECK(sum < UINT64_MAX);
    /* Written again it may become typed; after that it stays the same. */
    struct slice once = encode(&request);
    CHECK(decode(once, &request) == CODEC_OK);
    request_text(&request, first, sizeof(first));
    struct slice twice = encode(&request);
    CHECK(decode(twice, &request) == CODEC_OK);
    request_text(&request, second, sizeof(second));
    CHECK(strcmp(first, second) == 0);
    free((void *)(uintptr_t)once.data);
    free((void *)(uintptr_t)twice.data);
}

static void
say(struct reply *reply, const struct sbe_value *value)
{
    switch (value->kind) {
    case SBE_VALUE_KIND_NIL:
        reply_nil(reply);
        break;
    case SBE_VALUE_KIND_STATUS:
        reply->ops->status(reply, value->bytes);
        break;
    case SBE_VALUE_KIND_ERROR:
        reply->ops->error(reply, value->bytes);
        break;
    case SBE_VALUE_KIND_INTEGER:
        reply_integer(reply, value->integer);
        break;
    case SBE_VALUE_KIND_DOUBLE:
        reply_double(reply, value->real);
        break;
    case SBE_VALUE_KIND_BULK:
        reply_bulk(reply, value->bytes);
        break;
    case SBE_VALUE_KIND_BOOLEAN:
        reply_bool(reply, value->integer != 0);
        break;
    case SBE_VALUE_KIND_ARRAY:
        reply_array(reply, value->count);
        break;
    case SBE_VALUE_KIND_MAP:
        reply_map(reply, value->count / 2);
        break;
    case SBE_VALUE_KIND_SET:
        reply_set(reply, value->count);
        break;
    case SBE_VALUE_KIND_PUSH:
        reply->ops->push(reply, value->count);
        break;
    }
}

static void
try_reply(struct slice wire)
{
    static char first[FRAME_TEXT_MAX * 64], second[FRAME_TEXT_MAX * 64];
    static struct chunk_sink chunks;
    struct sbe_reply in;
    struct sbe_value value;
    struct reply out;

    if (sbe_reply_open(wire, 8000, &in) != CODEC_OK) {
        return;
    }
    reply_text(wire, first, sizeof(first));
    chunk_sink_init(&chunks, 61, SIZE_MAX);
    reply_init(&out, WIRE_SBE, &chunks.sink);
    reply_begin(&out, in.correlation);
    while (sbe_reply_next(&in, &value)) {
        say(&out, &value);
    }
    reply_end(&out);
    size_t bytes;
    uint8_t *again = chunk_sink_text(&chunks, &bytes);
    reply_text(slice_of(again, bytes), second, sizeof(second));
    CHECK(strcmp(first, second) == 0);
    free(again);
    chunk_sink_fini(&chunks);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (frames_count == 0) {
        frames_load();
    }
    if (bytes == 0) {
        return 0;
    }
    uint8_t choice = data[0];
    const struct frame *frame = &frames[choice % frames_count];
    bool patched = choice > 1;
    size_t wire_bytes = patched ? frame->bytes_count : bytes - 1;
    uint8_t *wire = malloc(wire_bytes); /* exactly: ASan finds the first byte behind */
    CHECK(wire != NULL);
    if (patched) {
        memcpy(wire, frame->bytes, wire_bytes);
        for (size_t i = 1; i + 1 < bytes; i += 2) {
            wire[data[i] % wire_bytes] = data[i + 1];
        }
    } else {
        memcpy(wire, data + 1, wire_bytes);
        if (choice == 1 && wire_bytes >= 4) {
            sbe_store_uint32(wire, (uint32_t)(wire_bytes - 4));
        }
    }
    try_request(slice_of(wire, wire_bytes));
    try_reply(slice_of(wire, wire_bytes));
    free(wire);
    return 0;
}
