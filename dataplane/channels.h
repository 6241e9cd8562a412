/* channels.h - the channel directory: which lcores have subscribers of a channel, shared by all lcores, lock-free.
 *
 * A bucket is an immutable array of pointers to channels, replaced by CAS and retired through the store's reclamation.
 * A channel lives while anybody subscribes; its last unsubscriber marks it dead, and it leaves its bucket. */
#pragma once
#include "config/base.h"
#include "config/sync.h"

struct channel;
struct channel_subscription;
struct lcore;

/* What one lcore knows of a channel; only that lcore writes it. */
struct channel_share {
    _Atomic uint32_t count;             /* relaxed: publishers on other lcores read it */
    struct channel_subscription *first; /* this lcore's only */
};

struct channel {
    _Atomic uint64_t subscribers; /* of all lcores; CHANNEL_DEAD: leaving, look again or make a new one */
    uint64_t hash;
    uint32_t name_bytes;
    uint32_t lcores;
    struct channel_share shares[]; /* [lcores], then the name */
};

#define CHANNEL_DEAD    UINT64_MAX
#define CHANNEL_BUCKETS 16384

struct channel_bucket {
    uint32_t count;
    uint32_t room; /* channels[] that the block was made for */
    struct channel *channels[];
};

struct channel_directory {
    _Atomic(struct channel_bucket *) buckets[CHANNEL_BUCKETS];
};

struct slice channel_name(const struct channel *channel);

/* Valid until the lcore quiesces, or while one of its sessions subscribes. NULL: nobody subscribes. */
struct channel *channel_find(struct lcore *lcore, struct slice name, uint64_t hash);

/* Count one more subscriber, making the channel if need be. NULL: no memory, or too much contention: try next turn. */
struct channel *channel_hold(struct lcore *lcore, struct slice name, uint64_t hash);

/* One subscriber less; the last one takes the channel out. Never fails. */
void channel_release(struct lcore *lcore, struct channel *channel);
