/* packed_hash.h - a small hash in one value: fields in order of insertion.
 *
 * Layout as in packed.h; an entry's bytes are its field's length (one byte; 255 says that two bytes follow), the field,
 * the value. Overhead: 2 bytes a hash and 5 a field. */
#pragma once
#include "store/packed.h"

struct packed_pair {
    struct slice field, value; /* borrowed */
    uint16_t tag;              /* packed_tag() of the field */
};

static inline struct packed
packed_hash_open(struct slice value)
{
    return packed_open(value, PACKED_HASH_ENTRY_BYTES);
}

/* Entry i < count, taken apart; borrows from the value. */
void packed_hash_at(const struct packed *hash, uint32_t i, struct slice *field, struct slice *value);

/* Index of a field, or hash->count. On a hit *value borrows from the value.
 * Cost: about 0.1 us in 1024 fields; in a few fields some 50 instructions. */
uint32_t packed_hash_find(const struct packed *hash, struct slice field, uint16_t tag, struct slice *value);

/* What becomes of a hash. Lives on the stack of one change; borrows from the old value and from the pairs. */
struct packed_hash_plan {
    struct packed old;
    const struct packed_pair *pairs;
    size_t count;      /* fields afterwards; 0: the key goes */
    size_t data_bytes; /* data afterwards */
    size_t bytes;      /* of the new value: the room that packed_hash_write() fills */
    uint32_t added, removed;
    uint32_t appended_count;
    bool keeps_layout; /* every change is a value of the same length: copy and overwrite */
    uint16_t
        fate[LIMIT_PACKED_ENTRIES]; /* of each old entry: 0 stays, PACKED_GONE, else 1 + the pair that replaces it */
    uint16_t appended[LIMIT_REQUEST_ARGS / 2]; /* pairs that are new fields, in order */
    uint16_t appended_tags[LIMIT_REQUEST_ARGS / 2];
};

/* Set every pair: the last of equal fields wins and a field counts once. `old` may be empty: no hash yet.
 * pairs_count is at most LIMIT_REQUEST_ARGS / 2.
 * Returns false when the result would exceed LIMIT_PACKED_ENTRIES or LIMIT_PACKED_BYTES. */
bool packed_hash_plan_set(struct packed_hash_plan *plan, struct slice old, const struct packed_pair *pairs,
                          uint32_t pairs_count);

/* Remove every pair's field (its value is not looked at); plan->removed says how many were there. */
void packed_hash_plan_remove(struct packed_hash_plan *plan, struct slice old, const struct packed_pair *pairs,
                             uint32_t pairs_count);

/* Write the new value: exactly plan->bytes. */
void packed_hash_write(const struct packed_hash_plan *plan, uint8_t *room);
