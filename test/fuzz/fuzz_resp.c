/* fuzz_resp.c - any bytes as a stream of RESP requests: nothing outside is touched, and the outcome is the same in one
 * piece, in pieces and when only what is wanted arrives.
 *
 * The first byte chooses the limits, the second the size of the pieces. */
#include "test/codec/resp_driver.h"

#define STREAM_BYTES   (128 * KIB)
#define REQUESTS       64
#define PIECES_MAX     2048 /* calls of one request; more are left to larger pieces */
#define MULTIBULK_ROOM (STREAM_BYTES + 32 * (LIMIT_REQUEST_ARGS + 2))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* What was understood, written as a client writes it, is understood the same way. */
static void
write_again(const struct resp_outcome *outcome, const struct decode_limits *limits)
{
    static uint8_t wire[MULTIBULK_ROOM];
    size_t at = (size_t)sprintf((char *)wire, "*%u\r\n", outcome->args_count + 1);

    for (uint32_t i = 0; i <= outcome->args_count; i++) {
        struct slice word = resp_word(outcome, i);
        at += (size_t)sprintf((char *)wire + at, "$%zu\r\n", word.bytes);
        memcpy(wire + at, word.data, word.bytes);
        at += word.bytes;
        memcpy(wire + at, "\r\n", 2);
        at += 2;
    }
    if (at > limits->request_bytes_max) {
        return; /* an inline request may take less than its multibulk */
    }
    const struct resp_outcome *again = resp_drive(slice_of(wire, at), at, 0, limits);
    CHECK(again->status == CODEC_OK && again->wire_bytes == at && again->args_count == outcome->args_count);
    CHECK(again->command == outcome->command);
    for (uint32_t i = 0; i <= outcome->args_count; i++) {
        CHECK(slice_equal(resp_word(again, i), resp_word(outcome, i)));
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static bool opened;
    if (!opened) {
        resp_driver_open(MULTIBULK_ROOM);
        opened = true;
    }
    if (bytes < 2 || bytes > STREAM_BYTES) {
        return 0;
    }
    struct decode_limits small = { data[0] % 16, data[0], 4 * (size_t)data[0] };
    const struct decode_limits *limits = data[0] < 64    ? &resp_limits_full
                                         : data[0] < 128 ? &resp_limits_unauth
                                                         : &small;
    struct slice stream = slice_of(data + 2, bytes - 2);

    for (uint32_t i = 0; i < REQUESTS && stream.bytes > 0; i++) {
        size_t step = MAX(1 + (size_t)data[1], stream.bytes / PIECES_MAX);
        struct slice wire = stream;
        const struct resp_outcome *whole = resp_drive(wire, wire.bytes, 0, limits);
        CHECK(resp_outcome_equal(whole, resp_drive(wire, step / 2, step, limits)));
        if (wire.bytes <= PIECES_MAX) {
            whole = resp_drive(wire, wire.bytes, 0, limits);
            CHECK(resp_outcome_equal(whole, resp_drive_wanted(wire, limits)));
        }
        whole = resp_drive(wire, wire.bytes, 0, limits);
        if (whole->status != CODEC_OK) {
            break;
        }
        stream = slice_of(stream.data + whole->wire_bytes, stream.bytes - whole->wire_bytes);
        if (!whole->empty) {
            write_again(whole, limits);
        }
    }
    return 0;
}
