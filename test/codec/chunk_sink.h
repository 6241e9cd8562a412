/* chunk_sink.h - a sink over chunks as small as asked for, so that every border is crossed. For tests. */
#pragma once
#include "codec/sink.h"

#define CHUNK_SINK_CHUNKS 8192

struct chunk_sink {
    struct sink sink; /* first: the operations get from it to the rest */
    uint32_t chunk_bytes;
    size_t limit_bytes; /* more() fails once so many bytes were written */
    uint32_t count;
    struct {
        uint8_t *data;
        uint64_t offset;
        size_t used; /* of all but the last: what was written before the next was added */
    } chunks[CHUNK_SINK_CHUNKS];
};

void chunk_sink_init(struct chunk_sink *chunks, uint32_t chunk_bytes, size_t limit_bytes);
void chunk_sink_fini(struct chunk_sink *chunks);

/* Everything written, in one piece that the caller frees. */
uint8_t *chunk_sink_text(const struct chunk_sink *chunks, size_t *bytes);
