/* resp_driver.h - resp_decode() against a guard page, in one piece or in pieces, and resp_take() on the same bytes. For
 * tests and the fuzz target. */
#pragma once
#include "codec/resp.h"

/* A decoder's outcome, its slices as offsets into the wire: outcomes of different buffers compare. */
struct resp_outcome {
    enum codec_status status;
    size_t wire_bytes;
    const char *error;
    const struct command *command;
    bool empty;
    uint32_t args_count;
    struct resp_span words[LIMIT_REQUEST_ARGS + 1]; /* the name, then the arguments */
    uint8_t *text;                                  /* the wire afterwards, unescaped in place */
};

extern const struct decode_limits resp_limits_full, resp_limits_unauth;

/* Make the buffer that the wire lies in; its last byte is followed by a page that cannot be touched. */
void resp_driver_open(size_t bytes_max);
void resp_driver_close(void);

/* Decode the first request of `wire`. Every call sees only what has arrived, at the end of the buffer and at another
 * address than before: first `first` bytes, then `step` more each time; step 0: `first` is all. Along the way it checks
 * what must hold of `state` between calls, and aborts where it does not. Lifetime: until the next call. */
const struct resp_outcome *resp_drive(struct slice wire, size_t first, size_t step, const struct decode_limits *limits);

/* The same, but state->wanted decides how many bytes the next call sees. */
const struct resp_outcome *resp_drive_wanted(struct slice wire, const struct decode_limits *limits);

/* i-th word of an outcome, 0 the name. */
struct slice resp_word(const struct resp_outcome *outcome, uint32_t i);

/* Whether two outcomes are the same in everything. */
bool resp_outcome_equal(const struct resp_outcome *a, const struct resp_outcome *b);

/* Calls made by the last drive. */
uint64_t resp_driver_calls(void);

/* Requests that resp_take() took as well, since the start. */
uint64_t resp_driver_takes(void);
