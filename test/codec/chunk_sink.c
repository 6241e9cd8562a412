/* chunk_sink.c - a sink over small chunks. */
#include "test/codec/chunk_sink.h"

/* Exactly as much as is asked for and no more than a small chunk, so that a write beyond it is found by ASan. */
static bool
chunk_more(struct sink *sink, size_t bytes)
{
    struct chunk_sink *chunks = CONTAINER_OF(sink, struct chunk_sink, sink);
    uint64_t offset = sink_offset(sink);

    CHECK(bytes > (size_t)(sink->end - sink->at) && bytes <= SINK_CONTIGUOUS_BYTES);
    if (offset + bytes > chunks->limit_bytes) {
        sink->failed = true;
        sink->end = sink->at;
        return false;
    }
    CHECK(chunks->count < CHUNK_SINK_CHUNKS);
    if (chunks->count > 0) {
        chunks->chunks[chunks->count - 1].used = (size_t)(sink->at - sink->chunk);
    }
    size_t room = MAX(bytes, chunks->chunk_bytes);
    sink->chunk = sink->at = malloc(room);
    CHECK(sink->chunk != NULL);
    sink->end = sink->at + room;
    sink->chunk_offset = offset;
    chunks->chunks[chunks->count].data = sink->chunk;
    chunks->chunks[chunks->count++].offset = offset;
    return true;
}

static void
chunk_rewind(struct sink *sink, uint64_t offset)
{
    struct chunk_sink *chunks = CONTAINER_OF(sink, struct chunk_sink, sink);

    CHECK(offset <= sink_offset(sink));
    while (chunks->count > 0 && chunks->chunks[chunks->count - 1].offset > offset) {
        free(chunks->chunks[--chunks->count].data);
        sink->chunk = NULL;
    }
    if (chunks->count == 0) {
        sink->chunk = sink->at = sink->end = NULL;
        sink->chunk_offset = 0;
    } else {
        if (sink->chunk == NULL) { /* the room behind what it held is not used again */
            sink->chunk = chunks->chunks[chunks->count - 1].data;
            sink->chunk_offset = chunks->chunks[chunks->count - 1].offset;
            sink->end = sink->chunk + chunks->chunks[chunks->count - 1].used;
        }
        sink->at = sink->chunk + (offset - sink->chunk_offset);
    }
    sink->failed = false;
}

static const struct sink_ops chunk_ops = { .more = chunk_more, .rewind = chunk_rewind };

void
chunk_sink_init(struct chunk_sink *chunks, uint32_t chunk_bytes, size_t limit_bytes)
{
    memset(&chunks->sink, 0, sizeof(chunks->sink));
    chunks->sink.ops = &chunk_ops;
    chunks->chunk_bytes = chunk_bytes;
    chunks->limit_bytes = limit_bytes;
    chunks->count = 0;
}

void
chunk_sink_fini(struct chunk_sink *chunks)
{
    while (chunks->count > 0) {
        free(chunks->chunks[--chunks->count].data);
    }
}

uint8_t *
chunk_sink_text(const struct chunk_sink *chunks, size_t *bytes)
{
    uint64_t total = sink_offset(&chunks->sink);
    uint8_t *text = malloc(total + 1), *at = text;

    CHECK(text != NULL);
    for (uint32_t i = 0; i < chunks->count; i++) {
        bool last = i + 1 == chunks->count;
        size_t used = last ? (size_t)(total - chunks->chunks[i].offset) : chunks->chunks[i].used;
        memcpy(at, chunks->chunks[i].data, used);
        at += used;
    }
    CHECK((uint64_t)(at - text) == total);
    text[total] = '\0';
    *bytes = total;
    return text;
}
