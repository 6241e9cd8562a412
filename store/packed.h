/* packed.h - a small hash or sorted set as one immutable value: what both forms share.
 *
 *   | count u16 | tags u16[count] | ends u16[count] | scores f64[count], sorted sets only | data |
 *
 * Entry i's bytes lie in data from ends[i-1] (0 for the first) to ends[i]. A tag is 16 bits of the field's or member's
 * keyed hash (packed_tag()), so a look-up compares 32 tags in a few instructions and bytes only where a tag agrees. All
 * columns are little-endian and unaligned: the value follows a key of any length. Order: a hash keeps the order of
 * insertion, a sorted set is in (score, member bytes) order, so index is rank.
 *
 * Changing an object is planning, then one pass that copies runs of unchanged entries (packed_hash.h, packed_zset.h).
 * Threads: pure, no shared state. */
#pragma once
#include "config/base.h"
#include "config/limits.h"

#define PACKED_HEADER_BYTES     2
#define PACKED_HASH_ENTRY_BYTES 4  /* tag, end */
#define PACKED_ZSET_ENTRY_BYTES 12 /* tag, end, score */

#define PACKED_GONE UINT16_MAX /* in a plan: this entry of the old value leaves */

static_assert(LIMIT_PACKED_ENTRIES <= UINT16_MAX, "count is 16 bits");
static_assert(LIMIT_PACKED_BYTES - PACKED_HEADER_BYTES - PACKED_HASH_ENTRY_BYTES <= UINT16_MAX, "ends are 16 bits");

/* A value taken apart; borrows from it. count 0 with NULL columns: no object. */
struct packed {
    uint32_t count;
    const uint8_t *tags, *ends;
    const uint8_t *scores; /* NULL: a hash */
    const uint8_t *data;
};

/* `value` is a record's value or empty; `entry_bytes` one of the two above. */
static inline struct packed
packed_open(struct slice value, uint32_t entry_bytes)
{
    struct packed packed = { 0 };
    if (value.bytes != 0) {
        uint16_t count;
        memcpy(&count, value.data, sizeof(count));
        packed.count = count;
        packed.tags = value.data + PACKED_HEADER_BYTES;
        packed.ends = packed.tags + 2 * packed.count;
        packed.scores = entry_bytes == PACKED_ZSET_ENTRY_BYTES ? packed.ends + 2 * packed.count : NULL;
        packed.data = value.data + PACKED_HEADER_BYTES + (size_t)entry_bytes * packed.count;
    }
    return packed;
}

/* Element i of a column of 16-bit words. */
static inline uint16_t
packed_word(const uint8_t *column, uint32_t i)
{
    uint16_t word;
    memcpy(&word, column + 2 * (size_t)i, sizeof(word));
    return word;
}

/* Entry i's bytes; i < count. */
static inline struct slice
packed_entry(const struct packed *packed, uint32_t i)
{
    uint32_t start = i == 0 ? 0 : packed_word(packed->ends, i - 1);
    return slice_of(packed->data + start, packed_word(packed->ends, i) - start);
}

/* The tag of a field or member, from store_hash() of its bytes: keyed, so that nobody outside can choose fields that
 * share one. Not the low bits: those choose buckets where the same bytes are also a key. */
static inline uint16_t
packed_tag(uint64_t hash)
{
    return (uint16_t)(hash >> 32);
}

/* Bytes of a value with so many entries and data bytes. */
static inline size_t
packed_bytes(size_t count, size_t data_bytes, uint32_t entry_bytes)
{
    return PACKED_HEADER_BYTES + count * entry_bytes + data_bytes;
}

/* LIMIT_PACKED_ENTRIES and LIMIT_PACKED_BYTES both hold. */
static inline bool
packed_fits(size_t count, size_t data_bytes, uint32_t entry_bytes)
{
    return count <= LIMIT_PACKED_ENTRIES && data_bytes <= LIMIT_PACKED_BYTES &&
           packed_bytes(count, data_bytes, entry_bytes) <= LIMIT_PACKED_BYTES;
}

/* First index at or after `from` whose tag is `tag`, or `count`. Cost: 32 tags a step. */
uint32_t packed_tag_next(const uint8_t *tags, uint32_t from, uint32_t count, uint16_t tag);

/* First index at or after `from` with a mark that is not 0, or `count`. Cost: 32 marks a step. */
uint32_t packed_mark_next(const uint16_t *marks, uint32_t from, uint32_t count);

/* Fills the columns of a new value from left to right. */
struct packed_writer {
    uint8_t *tags, *ends, *scores, *data; /* scores NULL: a hash */
    uint32_t count;                       /* entries written */
    uint32_t data_bytes;                  /* data written */
};

/* Start a value of exactly packed_bytes(count, ...) bytes at `room`. */
struct packed_writer packed_write_begin(uint8_t *room, uint32_t count, uint32_t entry_bytes);

/* Copy old entries from .. end-1, the same kind of object. */
void packed_write_run(struct packed_writer *writer, const struct packed *old, uint32_t from, uint32_t end);

/* As packed_write_run(), without the entries whose mark is not 0. */
void packed_write_unmarked(struct packed_writer *writer, const struct packed *old, const uint16_t *marks, uint32_t from,
                           uint32_t end);

/* Copy bytes to `at`; returns where they end. */
static inline uint8_t *
packed_put(uint8_t *at, struct slice bytes)
{
    bytes_copy(at, bytes.data, bytes.bytes);
    return at + bytes.bytes;
}

/* Append one entry's tag and end; returns where its `bytes` bytes go. */
uint8_t *packed_write_entry(struct packed_writer *writer, uint16_t tag, uint32_t bytes);
