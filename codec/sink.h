/* sink.h - where a reply is written: a bump pointer over memory that somebody else owns and extends. */
#pragma once
#include "config/base.h"

struct sink;

struct sink_ops {
    /* Make at least `bytes` (at most SINK_CONTIGUOUS_BYTES) contiguous bytes available at `at`. False: no memory or
     * over the hard limit; then it has set `failed` and made `end` equal to `at`, so that every later write comes
     * back here and is dropped until the sink is rewound. Bytes already written do not move. */
    bool (*more)(struct sink *sink, size_t bytes);
    /* Forget everything written since sink_offset() was `offset`; clears `failed`. */
    void (*rewind)(struct sink *sink, uint64_t offset);
};

#define SINK_CONTIGUOUS_BYTES 256 /* largest piece a caller may ask to be contiguous */

struct sink {
    uint8_t *at, *end;     /* room at hand */
    uint8_t *chunk;        /* first byte of the chunk that `at` is in */
    uint64_t chunk_offset; /* stream offset of chunk[0] */
    const struct sink_ops *ops;
    bool failed;
};

/* Stream offset of the next byte. A mark for sink_rewind(). */
static inline uint64_t
sink_offset(const struct sink *sink)
{
    return sink->chunk_offset + (uint64_t)(sink->at - sink->chunk);
}

static inline void
sink_rewind(struct sink *sink, uint64_t offset)
{
    sink->ops->rewind(sink, offset);
}

/* `bytes` contiguous bytes to fill, at most SINK_CONTIGUOUS_BYTES, or NULL (failed). Valid until the next call that may
 * rewind; the bytes do not move, so a length may be patched later through this pointer. Follow with sink_advance(). */
static inline uint8_t *
sink_reserve(struct sink *sink, size_t bytes)
{
    if (UNLIKELY((size_t)(sink->end - sink->at) < bytes) && !sink->ops->more(sink, bytes)) {
        return NULL;
    }
    return sink->at;
}

static inline void
sink_advance(struct sink *sink, size_t bytes)
{
    sink->at += bytes;
}

/* Copy any number of bytes, in as many chunks as it takes. Does nothing once the sink has failed. */
void sink_write(struct sink *sink, struct slice bytes);
