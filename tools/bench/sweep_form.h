/* sweep_form.h - requests and replies of a sweep as bytes: what stands around a value on a wire, and the value itself.
 */
#pragma once
#include "tools/bench/sweep_plan.h"
#include "tools/client/client.h"

#define SWEEP_WHY_BYTES 512

enum sweep_status {
    SWEEP_GOOD,
    SWEEP_REFUSED, /* the server answered an error, or has a value no more; the connection stands */
    SWEEP_WRONG,   /* a reply is not what it must be: the connection is of no more use */
    SWEEP_BROKEN,  /* the connection ended, or is silent */
};

/* Values are windows of one block of random bytes, so that a value swapped, cut, stale or moved is noticed. */
#define SWEEP_PATTERN_BYTES (2 * MIB)
static_assert(SWEEP_PATTERN_BYTES >= 2 * LIMIT_VALUE_BYTES, "a window of the largest value has room to move");
uint8_t *sweep_pattern_open(void); /* free() it */
/* The value of a chunk as the `version`-th SET wrote it. */
const uint8_t *sweep_pattern_value(const uint8_t *pattern, uint64_t chunk, uint64_t version);

#define SWEEP_PIECE_BYTES 128
struct sweep_piece {
    uint8_t data[SWEEP_PIECE_BYTES];
    uint32_t bytes;
};

/* Bytes before a value and after it, where there is one: all of them in `head` otherwise. */
struct sweep_frame {
    struct sweep_piece head, tail;
    uint64_t value_bytes;
    uint32_t chunk_at; /* requests: of the chunk's SWEEP_CHUNK_DIGITS digits in `head` */
};

/* Of values of one size. */
struct sweep_form {
    struct sweep_frame request[SWEEP_OPERATIONS], answer[SWEEP_OPERATIONS];
};

#define SWEEP_KEY_BYTES    32
#define SWEEP_CHUNK_DIGITS 8
/* "bench:sweep:SIDE:CHUNK". Returns its length; chunk < 10^8. */
uint32_t sweep_key_print(char out[SWEEP_KEY_BYTES], uint32_t side, uint64_t chunk);

/* Learn the form by writing and reading chunk 0 of `side` once, both replies decoded and checked. The replies of any
 * other chunk are the same but for the value.
 *
 * client   any connection to the same server on the same wire; nothing in flight.
 * Returns  SWEEP_GOOD, or what went wrong, with a sentence in `why`. */
enum sweep_status sweep_form_learn(struct sweep_form *form, struct client *client, uint32_t side, uint64_t value_bytes,
                                   const uint8_t *pattern, char why[SWEEP_WHY_BYTES]);
