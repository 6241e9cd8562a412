/* packed_model.h - what the models of packed hashes and sorted sets share: random numbers, texts, colliding tags. */
#pragma once
#include "config/base.h"

#define MODEL_MAX  (LIMIT_PACKED_ENTRIES + LIMIT_REQUEST_ARGS)
#define PAIRS_MAX  (LIMIT_REQUEST_ARGS / 2)
#define TEXT_BYTES 600

static uint64_t random_state; /* the seed; never 0 */

static inline uint32_t
random_below(uint32_t bound)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)((random_state >> 16) % bound);
}

/* A hash that an attacker could not choose is modelled by one that collides on purpose: `tags_count` different tags. */
static inline uint16_t
tag_of(struct slice name, uint32_t tags_count)
{
    uint32_t sum = 7;
    for (size_t i = 0; i < name.bytes; i++) {
        sum = sum * 31 + name.data[i];
    }
    return (uint16_t)(sum % tags_count);
}

struct text {
    uint8_t bytes[TEXT_BYTES];
    size_t count;
};

static inline struct slice
text_slice(const struct text *text)
{
    return slice_of(text->count == 0 ? NULL : text->bytes, text->count);
}
