/* reply_memory.h - a sink over one block of memory, for answers that the management core writes. */
#pragma once
#include "codec/reply.h"

struct reply_memory {
    struct sink sink; /* first */
    uint8_t *bytes;
    size_t room;
};

/* `room` bytes are taken when they are first touched. */
void reply_memory_open(struct reply_memory *memory, size_t room);
void reply_memory_close(struct reply_memory *memory);

/* Start an empty answer. */
void reply_memory_reset(struct reply_memory *memory);
/* What was written, valid until the next reset. */
struct slice reply_memory_bytes(const struct reply_memory *memory);
