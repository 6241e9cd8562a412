/* sbe_wire.h - what the code generated from a schema stands on: little-endian loads, layouts as tables, validation.
 *
 * tools/sbegen.py turns a schema into a header of constants, getters and encoders and a source of the tables below.
 * Nothing is read through a getter before sbe_validate() has seen the whole message. */
#pragma once
#include "config/base.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "loads and stores are plain copies");

#define SBE_HEADER_BYTES   8 /* blockLength, templateId, schemaId, version: u16 each */
#define SBE_LENGTH_BYTES   4 /* before variable-length data */
#define SBE_PARTS_MAX      8 /* groups and variable-length data of one root */
#define SBE_TEMPLATE_COUNT 256

#define SBE_ACCESSORS(name, type)                                                                                      \
    static inline type sbe_load_##name(const uint8_t *at)                                                              \
    {                                                                                                                  \
        type value;                                                                                                    \
        memcpy(&value, at, sizeof(value));                                                                             \
        return value;                                                                                                  \
    }                                                                                                                  \
    static inline void sbe_store_##name(uint8_t *at, type value)                                                       \
    {                                                                                                                  \
        memcpy(at, &value, sizeof(value));                                                                             \
    }
SBE_ACCESSORS(uint8, uint8_t)
SBE_ACCESSORS(uint16, uint16_t)
SBE_ACCESSORS(uint32, uint32_t)
SBE_ACCESSORS(uint64, uint64_t)
SBE_ACCESSORS(int8, int8_t)
SBE_ACCESSORS(int16, int16_t)
SBE_ACCESSORS(int32, int32_t)
SBE_ACCESSORS(int64, int64_t)
SBE_ACCESSORS(float, float)
SBE_ACCESSORS(double, double)
#undef SBE_ACCESSORS

/* An enum or set field that must be in range. */
struct sbe_check {
    uint16_t offset; /* in its block */
    uint8_t bytes;   /* 1, 2, 4 or 8 */
    bool is_set;
    uint64_t allowed; /* set: the choices' bits; enum: bit n for value n */
};

/* What a version has: everything is only appended, so it is a prefix of what ours has. */
struct sbe_extent {
    uint16_t block_bytes;
    uint8_t checks_count;
    uint8_t parts_count; /* groups and variable-length data; of a group's entry: 0 */
};

/* A group of the root, in the order of the wire. */
struct sbe_group_layout {
    uint8_t count_bytes;              /* of numInGroup */
    uint8_t data_count;               /* variable-length data of each entry */
    const struct sbe_extent *extents; /* of an entry, by version, 0 to the schema's */
    const struct sbe_check *checks;
};

struct sbe_layout {
    const char *name;
    uint16_t template_id, since;
    uint8_t groups_count, parts_count;
    const struct sbe_extent *extents; /* by version, 0 to the schema's */
    const struct sbe_check *checks;
    const struct sbe_group_layout *groups;
};

struct sbe_schema {
    uint16_t id, version;
    const struct sbe_layout *layouts;
    uint8_t template_index[SBE_TEMPLATE_COUNT]; /* 1 + place in layouts; 0: no such template */
};

/* A validated message. Getters take it and cost one load. */
struct sbe_view {
    const uint8_t *block; /* the root block */
    uint16_t template_id;
    uint16_t version;              /* of the sender */
    uint32_t parts[SBE_PARTS_MAX]; /* from `block`, where each group or data begins; 0: absent in this version */
};

/* A walk over a group's entries; `left` counts down. */
struct sbe_group {
    const uint8_t *at;
    uint32_t left;
    uint16_t block_bytes, version;
};

enum sbe_verdict {
    SBE_GOOD,
    SBE_NO_HEADER,     /* shorter than a message header */
    SBE_OTHER_SCHEMA,  /* schemaId is not this schema's */
    SBE_NO_TEMPLATE,   /* no such template in the sender's version */
    SBE_BAD_BLOCK,     /* block length is not that of its version, or runs past the message */
    SBE_BAD_GROUP,     /* the same of a group, or its entries cannot fit */
    SBE_TOO_MANY,      /* more entries than the caller takes */
    SBE_BAD_DATA,      /* a length runs past the message */
    SBE_BAD_VALUE,     /* an enum or set value that this schema does not have */
    SBE_TRAILING_BYTES /* bytes after the last part */
};

enum sbe_unknown_values {
    SBE_REFUSE_UNKNOWN, /* a server: what it does not know it cannot do */
    SBE_KEEP_UNKNOWN,   /* a client: those of a newer version pass, the caller looks */
};

/* Check a whole message (header included, length word excluded) against its schema and remember where its parts are.
 *
 * entries_max  of all groups together.
 * Returns      SBE_GOOD, and then no getter and no walk over a group can leave the message.
 * Cost         one pass over block headers and lengths, none over data; no allocation. Threads: pure. */
enum sbe_verdict sbe_validate(const struct sbe_schema *schema, struct slice message, uint32_t entries_max,
                              enum sbe_unknown_values unknown, struct sbe_view *view);

/* The variable-length data at part `i` of a validated message; empty when its version had none. */
static inline struct slice
sbe_view_data(const struct sbe_view *view, uint32_t i)
{
    if (view->parts[i] == 0) {
        return (struct slice){ NULL, 0 };
    }
    const uint8_t *at = view->block + view->parts[i];
    return (struct slice){ at + SBE_LENGTH_BYTES, sbe_load_uint32(at) };
}

/* Step over variable-length data. */
static inline struct slice
sbe_take_data(const uint8_t **at)
{
    struct slice data = { *at + SBE_LENGTH_BYTES, sbe_load_uint32(*at) };
    *at += SBE_LENGTH_BYTES + data.bytes;
    return data;
}

/* The byte after the variable-length data at `at`. NULL: it runs past `end`. */
static inline const uint8_t *
sbe_pass_data(const uint8_t *at, const uint8_t *end)
{
    size_t left = (size_t)(end - at);
    if (UNLIKELY(left < SBE_LENGTH_BYTES)) {
        return NULL;
    }
    size_t bytes = sbe_load_uint32(at);
    return LIKELY(bytes <= left - SBE_LENGTH_BYTES) ? at + SBE_LENGTH_BYTES + bytes : NULL;
}

/* Write a length and `data` at `at`, which has the room; returns the byte after. */
static inline uint8_t *
sbe_put_data(uint8_t *at, struct slice data)
{
    sbe_store_uint32(at, (uint32_t)data.bytes);
    if (data.bytes > 0) {
        memcpy(at + SBE_LENGTH_BYTES, data.data, data.bytes);
    }
    return at + SBE_LENGTH_BYTES + data.bytes;
}

/* A message header as one number. */
#define SBE_HEADER(block_bytes, template_id, schema_id, version)                                                       \
    ((uint64_t)(block_bytes) | (uint64_t)(template_id) << 16 | (uint64_t)(schema_id) << 32 | (uint64_t)(version) << 48)

static inline uint8_t *
sbe_put_header(uint8_t *at, uint16_t block_bytes, uint16_t template_id, uint16_t schema_id, uint16_t version)
{
    sbe_store_uint64(at, SBE_HEADER(block_bytes, template_id, schema_id, version));
    return at + SBE_HEADER_BYTES;
}
