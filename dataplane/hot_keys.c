#include "dataplane/hot_keys.h"
#include "dataplane/burst.h"

static void
count_key(struct hot_keys *hot, const struct slice *key, uint64_t hash)
{
    struct hot_key *set = hot->keys[hash % HOT_KEYS_SETS], *least = set;

    hot->requests++;
    for (uint32_t way = 0; way < HOT_KEYS_WAYS; way++) {
        if (set[way].hash == hash && set[way].count > 0) {
            set[way].count++;
            return;
        }
        least = set[way].count < least->count ? &set[way] : least;
    }
    least->error = least->count;
    least->count++;
    least->hash = hash;
    least->key_bytes = (uint32_t)key->bytes;
    memcpy(least->key, key->data, MIN(key->bytes, (size_t)HOT_KEYS_BYTES));
}

void
hot_keys_count(struct hot_keys *hot, const struct burst *burst)
{
    for (uint32_t i = 0; i < burst->count; i++) {
        const struct slice *key = burst_key(&burst->requests[i]);
        if (key != NULL) {
            count_key(hot, key, burst->hashes[i]);
        }
    }
}

/* False: the ring is full, the next tick tries again. */
static bool
give_back(struct lcore *lcore, struct hot_keys *hot)
{
    struct mail mail = { .kind = MAIL_HOT_KEYS, .p = hot };
    return lcore_post(lcore, MAIL_FROM_MGMT, &mail);
}

void
hot_keys_begin(struct lcore *lcore, struct hot_keys *hot)
{
    if (lcore->hot_keys != NULL) {
        hot->busy = true;
        give_back(lcore, hot); /* the ring holds an answer for each question of the management core */
        return;
    }
    hot->until_ms = lcore->now_ms + hot->for_ms;
    lcore->hot_keys = hot;
}

void
hot_keys_tick(struct lcore *lcore)
{
    struct hot_keys *hot = lcore->hot_keys;

    if (hot != NULL && lcore->now_ms >= hot->until_ms && give_back(lcore, hot)) {
        lcore->hot_keys = NULL;
    }
}
