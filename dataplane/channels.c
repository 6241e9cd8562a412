#include "dataplane/channels.h"
#include "dataplane/dataplane.h"

#define ATTEMPTS 8

static size_t
channel_bytes(uint32_t lcores, size_t name_bytes)
{
    return sizeof(struct channel) + lcores * sizeof(struct channel_share) + name_bytes;
}

static size_t
bucket_bytes(uint32_t count)
{
    return sizeof(struct channel_bucket) + count * sizeof(struct channel *);
}

struct slice
channel_name(const struct channel *channel)
{
    return slice_of(&channel->shares[channel->lcores], channel->name_bytes);
}

static _Atomic(struct channel_bucket *) *
bucket_of(struct lcore *lcore, uint64_t hash)
{
    return &lcore->dataplane->channels->buckets[hash % CHANNEL_BUCKETS];
}

static struct channel *
bucket_find(const struct channel_bucket *bucket, struct slice name, uint64_t hash)
{
    for (uint32_t i = 0; bucket != NULL && i < bucket->count; i++) {
        struct channel *channel = bucket->channels[i];
        if (channel->hash == hash && slice_equal(channel_name(channel), name) &&
            load_relaxed(&channel->subscribers) != CHANNEL_DEAD) {
            return channel;
        }
    }
    return NULL;
}

struct channel *
channel_find(struct lcore *lcore, struct slice name, uint64_t hash)
{
    /* acquire: pairs with the release of bucket_replace(): the array and its channels are complete */
    return bucket_find(load_acquire(bucket_of(lcore, hash)), name, hash);
}

/* One more, unless the channel is leaving. */
static bool
channel_join(struct channel *channel)
{
    uint64_t subscribers = load_relaxed(&channel->subscribers);
    while (subscribers != CHANNEL_DEAD) {
        /* acq_rel: pairs with the CAS to CHANNEL_DEAD in channel_release(): one of the two sees the other */
        if (cas_acq_rel(&channel->subscribers, &subscribers, subscribers + 1)) {
            return true;
        }
    }
    return false;
}

static struct channel *
channel_new(struct lcore *lcore, struct slice name, uint64_t hash)
{
    uint32_t lcores = lcore->dataplane->lcore_count;
    size_t bytes = channel_bytes(lcores, name.bytes);
    struct channel *channel = memory_take(lcore->memory, bytes);
    if (channel == NULL) {
        return NULL;
    }
    memset(channel, 0, bytes);
    store_relaxed(&channel->subscribers, 1);
    channel->hash = hash;
    channel->name_bytes = (uint32_t)name.bytes;
    channel->lcores = lcores;
    if (name.bytes > 0) {
        memcpy(&channel->shares[lcores], name.data, name.bytes);
    }
    return channel;
}

/* A copy of `old` without its dead channels and with `add` (or NULL). CAS; the old array is retired. False: lost or no
 * memory. */
static bool
bucket_replace(struct lcore *lcore, _Atomic(struct channel_bucket *) *bucket, struct channel_bucket *old,
               struct channel *add)
{
    uint32_t old_count = old != NULL ? old->count : 0;
    if (bucket_bytes(old_count + 1) > MEMORY_BLOCK_MAX || !store_may_retire(lcore->store, STORE_RETIRE_BLOCKS)) {
        return false;
    }
    struct channel_bucket *fresh = memory_take(lcore->memory, bucket_bytes(old_count + 1));
    if (fresh == NULL) {
        return false;
    }
    fresh->count = 0;
    fresh->room = old_count + 1;
    uint32_t dropped = 0;
    for (uint32_t i = 0; i < old_count; i++) {
        bool dead = load_relaxed(&old->channels[i]->subscribers) == CHANNEL_DEAD;
        if (dead && dropped < STORE_RETIRE_BLOCKS - 1) {
            dropped++;
        } else {
            fresh->channels[fresh->count++] = old->channels[i];
        }
    }
    if (add != NULL) {
        fresh->channels[fresh->count++] = add;
    }

    struct channel_bucket *seen = old;
    if (!cas_acq_rel(bucket, &seen, fresh)) { /* release: pairs with the acquire in channel_find() */
        memory_give(lcore->memory, fresh, bucket_bytes(old_count + 1));
        return false;
    }
    /* Only the winner of the CAS retires what left: dead stays dead, so what is not in `fresh` is in no later array. */
    for (uint32_t i = 0, kept = 0; i < old_count; i++) {
        if (kept < fresh->count && fresh->channels[kept] == old->channels[i]) {
            kept++;
        } else {
            struct channel *left = old->channels[i];
            store_retire(lcore->store, left, channel_bytes(left->lcores, left->name_bytes));
        }
    }
    if (old != NULL) {
        store_retire(lcore->store, old, bucket_bytes(old->room));
    }
    return true;
}

struct channel *
channel_hold(struct lcore *lcore, struct slice name, uint64_t hash)
{
    _Atomic(struct channel_bucket *) *bucket = bucket_of(lcore, hash);
    struct channel *fresh = NULL;
    struct channel *held = NULL;
    for (int i = 0; i < ATTEMPTS && held == NULL; i++) {
        struct channel_bucket *old = load_acquire(bucket); /* pairs with the release in bucket_replace() */
        struct channel *channel = bucket_find(old, name, hash);
        if (channel != NULL) {
            held = channel_join(channel) ? channel : NULL;
            continue;
        }
        if (fresh == NULL) {
            fresh = channel_new(lcore, name, hash);
        }
        if (fresh != NULL && bucket_replace(lcore, bucket, old, fresh)) {
            return fresh;
        }
    }
    if (fresh != NULL) {
        memory_give(lcore->memory, fresh, channel_bytes(fresh->lcores, fresh->name_bytes));
    }
    return held;
}

void
channel_release(struct lcore *lcore, struct channel *channel)
{
    uint64_t subscribers = load_relaxed(&channel->subscribers);
    uint64_t fewer;
    do {
        fewer = subscribers == 1 ? CHANNEL_DEAD : subscribers - 1;
    } while (!cas_acq_rel(&channel->subscribers, &subscribers, fewer)); /* pairs with channel_join() */
    if (fewer != CHANNEL_DEAD) {
        return;
    }
    _Atomic(struct channel_bucket *) *bucket = bucket_of(lcore, channel->hash);
    for (int i = 0; i < ATTEMPTS; i++) {
        if (bucket_replace(lcore, bucket, load_acquire(bucket), NULL)) {
            return;
        }
    }
    /* No memory or contention: it stays, dead, until the bucket is next replaced. */
}
