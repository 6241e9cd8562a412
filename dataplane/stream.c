#include "dataplane/stream.h"
#include "config/limits.h"
#include <sys/uio.h>

static struct stream_out *
out_of(struct sink *sink)
{
    return CONTAINER_OF(sink, struct stream_out, sink);
}

static void
sink_stand_in(struct stream_out *out, struct stream_chunk *chunk, uint8_t *at)
{
    out->sink.chunk = chunk->bytes;
    out->sink.chunk_offset = chunk->offset;
    out->sink.at = at;
    out->sink.end = chunk->bytes + chunk->room;
}

/* No chunk: offsets go on from `offset`, the next byte takes a chunk. */
static void
sink_stand_nowhere(struct stream_out *out, uint64_t offset)
{
    out->sink.chunk = out->sink.at = out->sink.end = NULL;
    out->sink.chunk_offset = offset;
}

/* ---- chunks that are kept blocks ---- */

static bool
chunk_is_kept(const struct stream_out *out, const struct stream_chunk *chunk)
{
    return out->reserve != NULL && sizeof(*chunk) + chunk->room == STREAM_BLOCK_BYTES;
}

static bool
hoard_claim(struct stream_out *out)
{
    struct stream_hoard *hoard = out->reserve->hoard;
    if (!out->hoards && hoard != NULL && stream_hoard_claim(&hoard->reply, out)) {
        out->hoards = true;
        out->hoard_left = STREAM_HOARD_BLOCKS;
    }
    return out->hoards;
}

/* What is each one's from the reserve, the rest from the hoard. */
static void *
kept_take(struct stream_out *out)
{
    struct stream_reserve *reserve = out->reserve;
    void *block = NULL;
    if (reserve == NULL) {
        return NULL;
    }
    if (out->kept_chunks < reserve->each) {
        block = stream_block_take(reserve, STREAM_FOR_REPLY);
    }
    if (block == NULL && hoard_claim(out) && out->hoard_left > 0) {
        block = stream_hoard_take_block(reserve->hoard);
        out->hoard_left--;
    }
    out->kept_chunks += block != NULL;
    return block;
}

/* Others may have the hoard once none of its blocks can be out. */
static void
kept_settle(struct stream_out *out)
{
    if (out->hoards && out->kept_chunks == 0) {
        out->hoards = false;
        stream_hoard_release(&out->reserve->hoard->reply);
    }
}

static void
kept_give(struct stream_out *out, void *block)
{
    if (!out->hoards || !stream_hoard_give_block(out->reserve->hoard, block)) {
        stream_block_give(out->reserve, block, STREAM_BLOCK_BYTES);
    }
    out->kept_chunks--;
    kept_settle(out);
}

static void
chunk_give(struct stream_out *out, struct stream_chunk *chunk)
{
    if (UNLIKELY(chunk_is_kept(out, chunk))) {
        kept_give(out, chunk);
    } else {
        memory_give(out->memory, chunk, sizeof(*chunk) + chunk->room);
    }
}

static bool
stream_out_more(struct sink *sink, size_t bytes)
{
    struct stream_out *out = out_of(sink);
    assert(bytes <= SINK_CONTIGUOUS_BYTES);
    if (sink->failed) {
        return false;
    }

    uint64_t end = sink_offset(sink);
    size_t block_bytes = out->last == NULL ? STREAM_FIRST_CHUNK_BYTES : STREAM_CHUNK_BYTES;
    struct stream_chunk *chunk = NULL;
    out->starved = end - out->acknowledged <= out->hard_bytes;
    if (out->starved) {
        chunk = memory_take(out->memory, block_bytes);
        if (UNLIKELY(chunk == NULL)) {
            block_bytes = STREAM_BLOCK_BYTES;
            chunk = kept_take(out);
        }
    }
    if (UNLIKELY(chunk == NULL)) {
        sink->failed = true;
        sink->end = sink->at; /* every further write comes here and is dropped */
        kept_settle(out);
        return false;
    }
    out->starved = false;

    *chunk = (struct stream_chunk){ .offset = end, .room = (uint32_t)(block_bytes - sizeof(*chunk)) };
    if (out->last != NULL) {
        out->last->used = (uint32_t)(sink->at - sink->chunk);
        out->last->next = chunk;
    } else {
        out->first = chunk;
    }
    out->last = chunk;
    sink_stand_in(out, chunk, chunk->bytes);
    return true;
}

static void
stream_out_rewind(struct sink *sink, uint64_t offset)
{
    struct stream_out *out = out_of(sink);
    assert(offset >= out->sent && offset <= sink_offset(sink));

    sink->failed = false;
    if (out->last == NULL) {
        return;
    }
    struct stream_chunk *keep = out->first;
    while (keep->next != NULL && keep->next->offset <= offset) {
        keep = keep->next;
    }
    struct stream_chunk *drop = keep->next;
    keep->next = NULL;
    out->last = keep;
    sink_stand_in(out, keep, keep->bytes + (offset - keep->offset));
    while (drop != NULL) {
        struct stream_chunk *next = drop->next;
        chunk_give(out, drop);
        drop = next;
    }
}

static const struct sink_ops stream_out_ops = { .more = stream_out_more, .rewind = stream_out_rewind };

void
stream_out_init(struct stream_out *out, struct memory_cache *memory, struct stream_reserve *reserve,
                uint64_t hard_bytes)
{
    *out = (struct stream_out){ .memory = memory, .reserve = reserve, .hard_bytes = hard_bytes };
    out->sink.ops = &stream_out_ops;
}

void
stream_out_fini(struct stream_out *out)
{
    uint64_t end = stream_out_end(out);
    for (struct stream_chunk *chunk = out->first; chunk != NULL;) {
        struct stream_chunk *next = chunk->next;
        chunk_give(out, chunk);
        chunk = next;
    }
    assert(!out->hoards); /* nobody else could ever have it */
    out->first = out->last = NULL;
    out->acknowledged = out->sent = end;
    sink_stand_nowhere(out, end);
}

static uint32_t
chunk_used(const struct stream_out *out, const struct stream_chunk *chunk)
{
    return chunk == out->last ? (uint32_t)(out->sink.at - out->sink.chunk) : chunk->used;
}

uint32_t
stream_out_pieces(const struct stream_out *out, uint64_t from, struct iovec *pieces, uint32_t max, size_t *bytes)
{
    uint32_t count = 0;
    *bytes = 0;
    for (const struct stream_chunk *chunk = out->first; chunk != NULL && count < max; chunk = chunk->next) {
        uint32_t used = chunk_used(out, chunk);
        if (chunk->offset + used <= from) {
            continue;
        }
        size_t skip = from > chunk->offset ? from - chunk->offset : 0;
        pieces[count++] = (struct iovec){ .iov_base = (uint8_t *)chunk->bytes + skip, .iov_len = used - skip };
        *bytes += used - skip;
    }
    return count;
}

size_t
stream_out_copy(const struct stream_out *out, uint64_t from, uint8_t *to, size_t room)
{
    size_t copied = 0;
    for (const struct stream_chunk *chunk = out->first; chunk != NULL && copied < room; chunk = chunk->next) {
        uint32_t used = chunk_used(out, chunk);
        if (chunk->offset + used <= from + copied) {
            continue;
        }
        size_t skip = from + copied > chunk->offset ? from + copied - chunk->offset : 0;
        size_t bytes = MIN(used - skip, room - copied);
        bytes_copy(to + copied, chunk->bytes + skip, bytes);
        copied += bytes;
    }
    return copied;
}

void
stream_out_acknowledge(struct stream_out *out, uint64_t offset)
{
    assert(offset >= out->acknowledged && offset <= stream_out_end(out));
    out->acknowledged = offset;
    if (out->sent < offset) {
        out->sent = offset;
    }
    while (out->first != out->last && out->first->offset + out->first->used <= offset) {
        struct stream_chunk *next = out->first->next;
        chunk_give(out, out->first);
        out->first = next;
    }
    if (out->last != NULL && out->first == out->last && offset == stream_out_end(out)) {
        out->last->offset = offset; /* empty: start over at its first byte */
        sink_stand_in(out, out->last, out->last->bytes);
        if (UNLIKELY(out->kept_chunks > 0)) {
            stream_out_fini(out); /* others may wait for it */
        }
    }
}

bool
stream_out_move(struct stream_out *to, struct stream_out *from)
{
    uint64_t end = stream_out_end(to);
    assert(from->acknowledged == 0 && from->sent == 0 && !from->hoards);
    if (from->first == NULL) {
        return true;
    }
    to->starved = false;
    if (end - to->acknowledged + stream_out_end(from) > to->hard_bytes) {
        return false;
    }
    from->last->used = chunk_used(from, from->last);
    for (struct stream_chunk *chunk = from->first; chunk != NULL; chunk = chunk->next) {
        chunk->offset = end;
        end += chunk->used;
    }
    if (to->last != NULL) {
        to->last->used = chunk_used(to, to->last);
        to->last->next = from->first;
    } else {
        to->first = from->first;
    }
    to->last = from->last;
    to->kept_chunks += from->kept_chunks;
    from->kept_chunks = 0;
    sink_stand_in(to, to->last, to->last->bytes + to->last->used);
    from->first = from->last = NULL;
    sink_stand_nowhere(from, 0);
    return true;
}

void
stream_out_trim(struct stream_out *out)
{
    if (out->first != NULL && stream_out_pending(out) == 0) {
        stream_out_fini(out);
    }
}
