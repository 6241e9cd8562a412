/* packed.c - see packed.h. */
#include "store/packed.h"

#define BLOCK 32 /* words compared per step: four vectors of 128 bits */

/* Written so that the compiler turns it into vector compares: no early exit inside a block. */
static bool
block_has(const uint8_t *words, uint16_t word)
{
    uint16_t any = 0;
    for (uint32_t i = 0; i < BLOCK; i++) {
        any |= packed_word(words, i) == word ? UINT16_MAX : 0;
    }
    return any != 0;
}

static bool
block_marked(const uint16_t *marks)
{
    uint16_t any = 0;
    for (uint32_t i = 0; i < BLOCK; i++) {
        any |= marks[i];
    }
    return any != 0;
}

uint32_t
packed_tag_next(const uint8_t *tags, uint32_t from, uint32_t count, uint16_t tag)
{
    uint32_t i = from;
    while (count - i >= BLOCK && !block_has(tags + 2 * (size_t)i, tag)) {
        i += BLOCK;
    }
    while (i < count && packed_word(tags, i) != tag) {
        i++;
    }
    return i;
}

uint32_t
packed_mark_next(const uint16_t *marks, uint32_t from, uint32_t count)
{
    uint32_t i = from;
    while (count - i >= BLOCK && !block_marked(marks + i)) {
        i += BLOCK;
    }
    while (i < count && marks[i] == 0) {
        i++;
    }
    return i;
}

struct packed_writer
packed_write_begin(uint8_t *room, uint32_t count, uint32_t entry_bytes)
{
    uint16_t header = (uint16_t)count;
    memcpy(room, &header, sizeof(header));
    struct packed_writer writer = {
        .tags = room + PACKED_HEADER_BYTES,
        .ends = room + PACKED_HEADER_BYTES + 2 * (size_t)count,
        .data = room + PACKED_HEADER_BYTES + (size_t)entry_bytes * count,
    };
    if (entry_bytes == PACKED_ZSET_ENTRY_BYTES) {
        writer.scores = writer.ends + 2 * (size_t)count;
    }
    return writer;
}

/* Ends move by the difference between where the run was and where it goes, modulo 2^16. */
static void
write_ends(uint8_t *restrict out, const uint8_t *restrict in, uint32_t count, uint16_t shift)
{
    for (uint32_t i = 0; i < count; i++) {
        uint16_t end = (uint16_t)(packed_word(in, i) + shift);
        memcpy(out + 2 * (size_t)i, &end, sizeof(end));
    }
}

void
packed_write_run(struct packed_writer *writer, const struct packed *old, uint32_t from, uint32_t end)
{
    if (from >= end) {
        return;
    }
    uint32_t count = end - from;
    uint32_t start = from == 0 ? 0 : packed_word(old->ends, from - 1);
    uint32_t bytes = packed_word(old->ends, end - 1) - start;

    memcpy(writer->tags + 2 * (size_t)writer->count, old->tags + 2 * (size_t)from, 2 * (size_t)count);
    write_ends(writer->ends + 2 * (size_t)writer->count, old->ends + 2 * (size_t)from, count,
               (uint16_t)(writer->data_bytes - start));
    if (writer->scores != NULL) {
        bytes_copy(writer->scores + 8 * (size_t)writer->count, old->scores + 8 * (size_t)from, 8 * (size_t)count);
    }
    bytes_copy(writer->data + writer->data_bytes, old->data + start, bytes);
    writer->count += count;
    writer->data_bytes += bytes;
}

void
packed_write_unmarked(struct packed_writer *writer, const struct packed *old, const uint16_t *marks, uint32_t from,
                      uint32_t end)
{
    while (from < end) {
        uint32_t marked = packed_mark_next(marks, from, end);
        packed_write_run(writer, old, from, marked);
        from = marked + 1;
    }
}

uint8_t *
packed_write_entry(struct packed_writer *writer, uint16_t tag, uint32_t bytes)
{
    uint8_t *at = writer->data + writer->data_bytes;
    writer->data_bytes += bytes;
    uint16_t end = (uint16_t)writer->data_bytes;
    memcpy(writer->tags + 2 * (size_t)writer->count, &tag, sizeof(tag));
    memcpy(writer->ends + 2 * (size_t)writer->count, &end, sizeof(end));
    writer->count++;
    return at;
}
