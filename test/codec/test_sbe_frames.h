/* test_sbe_frames.h - kept frames and what several SBE tests share. */
#pragma once
#include "codec/sbe.h"
#include "codec/sbe_client.h"

#define FRAMES_MAX     256
#define FRAME_ARGS_MAX 64
#define FRAME_TEXT_MAX 4096
#define FRAMES_DIR     "test/codec/frames" /* suites run from the repository's root */

/* A file of frames/vN/, as programs of schema version N wrote it; never changed, never removed. Lines `# comment`,
 * `words` (what a client is asked to send), `text` (what the frame says, as request_text() or reply_text() has it) and
 * `hex`. */
struct frame {
    char name[64];
    char text[512];
    char words[512]; /* empty: the client never writes this frame */
    uint8_t bytes[512];
    size_t bytes_count;
    uint16_t version;
    bool is_reply;
};

extern struct frame frames[FRAMES_MAX];
extern uint32_t frames_count;

/* Read every file of every version up to ours. Stops the program when a version has none. */
void frames_load(void);

/* The newest of that name. Stops the program when there is none. */
const struct frame *frame_named(const char *name);

/* Split `line` at spaces; "..." and \xHH as in the files. Returns the count; `words` borrow from `room`. */
uint32_t words_split(const char *line, struct slice words[FRAME_ARGS_MAX], uint8_t room[FRAME_TEXT_MAX]);

/* "0x1 GET b:key": correlation, name, arguments by kind. */
void request_text(const struct request *request, char *out, size_t out_bytes);
/* "0x1 array:1 integer:5": correlation and values; "malformed" or "short" otherwise. */
void reply_text(struct slice wire, char *out, size_t out_bytes);

/* Copies of bytes that end, or begin, at a page that cannot be touched. Valid until the next call. */
uint8_t *guard_end(const void *bytes, size_t count);
uint8_t *guard_begin(const void *bytes, size_t count);

static inline struct decode_limits
limits_full(void)
{
    return (struct decode_limits){ LIMIT_REQUEST_ARGS, LIMIT_VALUE_BYTES, LIMIT_REQUEST_BYTES };
}
