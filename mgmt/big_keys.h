/* big_keys.h - a walk over all keys for the largest ones of each type, off the lcores.
 *
 * The management core walks itself, as a member of the store that is offline between its steps: a step takes about a
 * millisecond and then other duties come. Writers go on meanwhile; a key that is there during the whole walk is seen.
 */
#pragma once
#include "store/store.h"

#define BIG_KEYS_MOST  100 /* of each type */
#define BIG_KEYS_TYPES 3   /* string, hash, sorted set */
#define BIG_KEYS_BYTES 128 /* of a key that are kept */

struct big_key {
    uint64_t bytes; /* of its record */
    uint64_t value_bytes;
    int64_t expires_at_ms; /* RECORD_NO_EXPIRY: never */
    uint32_t key_bytes;    /* may be more than are kept */
    uint8_t key[BIG_KEYS_BYTES];
};

struct big_keys_type {
    uint64_t keys, bytes;
    struct big_key top[BIG_KEYS_MOST]; /* largest first */
    uint32_t top_count;
};

struct big_keys {
    struct store_member *member; /* offline between steps */
    uint32_t most;               /* wanted of each type */
    uint64_t cursor;
    struct big_keys_type types[BIG_KEYS_TYPES];
};

void big_keys_begin(struct big_keys *walk, struct store_member *member, uint32_t most);
/* Go on for about a millisecond. True: that was all. Thread: the member's. */
bool big_keys_step(struct big_keys *walk, int64_t now_ms);
const char *big_keys_type_text(uint32_t type);
