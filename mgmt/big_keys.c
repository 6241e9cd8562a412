#include "mgmt/big_keys.h"
#include "store/scan.h"

#define STEP_KEYS  2048 /* about a millisecond: each is a cache miss or two */
#define STEP_LOOKS 4096 /* also where most segments are empty */
#define SCAN_ROOM  256

static const enum record_type types[BIG_KEYS_TYPES] = { RECORD_STRING, RECORD_HASH, RECORD_ZSET };

const char *
big_keys_type_text(uint32_t type)
{
    static const char *const texts[BIG_KEYS_TYPES] = { "string", "hash", "zset" };
    return texts[type];
}

void
big_keys_begin(struct big_keys *walk, struct store_member *member, uint32_t most)
{
    memset(walk, 0, sizeof(*walk));
    walk->member = member;
    walk->most = MIN(most, BIG_KEYS_MOST);
}

/* Into its place among the largest; the smallest falls out. */
static void
keep_if_big(struct big_keys_type *type, uint32_t most, const struct record *record)
{
    uint64_t bytes = record_bytes(record);
    struct slice key = record_key(record);
    uint32_t at = type->top_count;

    if (most == 0 || (type->top_count == most && bytes <= type->top[most - 1].bytes)) {
        return;
    }
    if (type->top_count < most) {
        type->top_count++;
    } else {
        at--;
    }
    for (; at > 0 && type->top[at - 1].bytes < bytes; at--) {
        type->top[at] = type->top[at - 1];
    }
    struct big_key *kept = &type->top[at];
    kept->bytes = bytes;
    kept->value_bytes = record->value_bytes;
    kept->expires_at_ms = record_expires_at_ms(record);
    kept->key_bytes = (uint32_t)key.bytes;
    memcpy(kept->key, key.data, MIN(key.bytes, (size_t)BIG_KEYS_BYTES));
}

static void
look_at(struct big_keys *walk, const struct record *record)
{
    for (uint32_t i = 0; i < BIG_KEYS_TYPES; i++) {
        if (record_type(record) == types[i]) {
            walk->types[i].keys++;
            walk->types[i].bytes += record_bytes(record);
            keep_if_big(&walk->types[i], walk->most, record);
        }
    }
}

bool
big_keys_step(struct big_keys *walk, int64_t now_ms)
{
    const struct record *records[SCAN_ROOM];
    uint32_t keys = 0, looks = 0;
    bool done = false;

    store_online(walk->member);
    store_set_time(walk->member, now_ms);
    while (!done && keys < STEP_KEYS && looks < STEP_LOOKS) {
        struct scan_step step = scan_next(walk->member, walk->cursor, records, SCAN_ROOM);
        for (uint32_t i = 0; i < step.count; i++) {
            look_at(walk, records[i]);
        }
        keys += step.count;
        looks++;
        walk->cursor = step.next;
        done = step.next == 0;
        store_quiesce(walk->member); /* what was met is not looked at any more */
    }
    store_offline(walk->member);
    return done;
}
