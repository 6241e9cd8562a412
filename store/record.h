/* record.h - one version of one key: immutable once published, but for its recency byte.
 *
 *   0              8        16            16 or 24
 *   | descriptive  | stamp  | expires_at? | key ... | value ... |      16-byte aligned, from a size class
 */
#pragma once
#include "config/base.h"
#include "config/limits.h"
#include "config/sync.h"

/* Type 0 is a ghost: what DEL leaves in the index; it has a key and a stamp, and store_find() never answers it. */
enum record_type { RECORD_GHOST = 0, RECORD_STRING = 1, RECORD_HASH = 2, RECORD_ZSET = 3 };

#define RECORD_NO_EXPIRY    INT64_MIN
#define RECORD_HEADER_BYTES 16
#define RECORD_ALIGN        16 /* of its address: the index has no bits for less */

struct record {
    uint8_t type_flags;      /* low 4 bits enum record_type, RECORD_HAS_EXPIRY above them */
    _Atomic uint8_t recency; /* relaxed, lossy: the only byte written after publication */
    uint16_t key_bytes;
    uint32_t value_bytes;
    uint64_t stamp; /* written by the store just before publication, after that constant */
    uint8_t payload[];
};
static_assert(sizeof(struct record) == RECORD_HEADER_BYTES, "8 descriptive bytes and an 8-byte stamp");

#define RECORD_TYPE_MASK  0x0f
#define RECORD_HAS_EXPIRY 0x10

static inline enum record_type
record_type(const struct record *record)
{
    return (enum record_type)(record->type_flags & RECORD_TYPE_MASK);
}

static inline size_t
record_key_at(const struct record *record)
{
    return record->type_flags & RECORD_HAS_EXPIRY ? sizeof(int64_t) : 0;
}

/* Unix time in ms, or RECORD_NO_EXPIRY. */
static inline int64_t
record_expires_at_ms(const struct record *record)
{
    int64_t at = RECORD_NO_EXPIRY;
    if (record->type_flags & RECORD_HAS_EXPIRY) {
        memcpy(&at, record->payload, sizeof(at));
    }
    return at;
}

static inline struct slice
record_key(const struct record *record)
{
    return slice_of(record->payload + record_key_at(record), record->key_bytes);
}

static inline struct slice
record_value(const struct record *record)
{
    return slice_of(record->payload + record_key_at(record) + record->key_bytes, record->value_bytes);
}

/* Of a record not yet published: where its value is to be written. */
static inline uint8_t *
record_value_room(struct record *record)
{
    return record->payload + record_key_at(record) + record->key_bytes;
}

/* The whole of it, as asked from memory. */
static inline size_t
record_bytes(const struct record *record)
{
    return RECORD_HEADER_BYTES + record_key_at(record) + record->key_bytes + record->value_bytes;
}
