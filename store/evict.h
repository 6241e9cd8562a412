/* evict.h - which record goes when memory is short, and the byte in each record that says so.
 *
 * The management core posts how many bytes are wanted; members take shares of it, look at records in the order of the
 * index (64 segments of a shared hand at a time) and remove the worst eighth of each batch. What is unlinked already
 * but still in limbo counts as free.
 *
 * The byte that readers write, and only when it changes, is by policy:
 *
 * lru: the clock when the record was last used. The clock moves on when 1/64 of all keys were used since it last did,
 * so a record's age in steps is its place in the order of use. Ages are modulo 255: beyond 4 turnovers of the whole
 * cache an unused record looks young, but while records are evicted none lives so long.
 *
 * lfu: a logarithmic counter of uses, as in Morris (1978): the higher it is, the less likely a use raises it. It falls
 * when the hand passes, so that frequencies are those of the last turnovers. */
#pragma once
#include "store/store_layout.h"

#define EVICT_MARK_LFU 255 /* member->recency under LFU: no byte equals it, so every use comes to evict_touch() */
#define EVICT_CLOCK    255 /* steps of the clock: bytes 0 .. 254 */

static inline enum store_policy
evict_policy(const struct store *store)
{
    return (enum store_policy)load_relaxed(&store->evict.policy);
}

/* The record was used, and its byte (`seen`) is not member->recency. */
void evict_touch(struct store_member *member, const struct record *record, uint8_t seen);
/* Under LFU: the byte of a version that takes the place of `old` (NULL: a new key). */
uint8_t evict_mark_fresh(struct store_member *member, const struct record *old);

/* Lcores: one bounded step, nothing unless bytes are wanted. */
void evict_step(struct store_member *member);

/* evict_boot.c. Management core, every millisecond, before memory_manage(): moves the clock, says how many bytes are
 * wanted. */
void evict_manage(struct store *store, const struct store_stats *stats, uint64_t now_ms);
