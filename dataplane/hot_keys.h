/* hot_keys.h - which keys do requests ask for most? A sketch, on demand: nothing is kept while nobody asks.
 *
 * Space-saving (Metwally et al. 2005) in sets of eight: a key that is not there takes the place of the least counted
 * one of its set, and its count, as `error`. So a count is never too low, and at most `error` too high. */
#pragma once
#include "config/base.h"

#define HOT_KEYS_SETS  64
#define HOT_KEYS_WAYS  8
#define HOT_KEYS_BYTES 64 /* of a key that are kept */

struct burst;
struct lcore;

struct hot_key {
    uint64_t hash; /* store_hash() */
    uint64_t count, error;
    uint32_t key_bytes; /* may be more than are kept */
    uint8_t key[HOT_KEYS_BYTES];
};

/* MAIL_HOT_KEYS: the management core's; while mailed it is the lcore's to fill, for_ms long, and it comes
 * back to done(). */
struct hot_keys {
    uint32_t lcore;
    uint32_t for_ms;
    int64_t until_ms;  /* of the lcore */
    uint64_t requests; /* with a key */
    bool busy;         /* the lcore was counting already: nothing was done */
    void *asker;
    void (*done)(struct hot_keys *hot);
    struct hot_key keys[HOT_KEYS_SETS][HOT_KEYS_WAYS];
};

/* Count the first key of every request of a burst. Owner. Cost: about 10 ns a request. */
void hot_keys_count(struct hot_keys *hot, const struct burst *burst);

/* Mail that came to an lcore, and its tick. */
void hot_keys_begin(struct lcore *lcore, struct hot_keys *hot);
void hot_keys_tick(struct lcore *lcore);
