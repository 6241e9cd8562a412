#include "test/store/audit.h"
#include "store/memory_poison.h"
#include "store/rebuild.h"
#include <inttypes.h>
#include <time.h>

#define SETTLE_MS    5000 /* at most */
#define SETTLE_TURNS 64   /* between two looks, and parts of the management core */

/* Where the walk is. */
struct place {
    const struct store *store;
    uint32_t segment;
    uint64_t table;
    struct index_bucket *head;
};

static void
audit_key(const struct place *place, const _Atomic uint64_t *slot, uint64_t word, struct audit *audit)
{
    const struct record *record = slot_record(word);
    if (memory_is_free(record)) {
        audit->mislabelled++;
        return;
    }
    const struct index *index = &place->store->index;
    struct slice key = record_key(record);
    uint64_t hash = store_hash(place->store, key), cut = cut_value(load_acquire(&place->store->cut.word));
    bool ghost = slot_kind(word) == SLOT_GHOST;
    bool expires = (record->type_flags & RECORD_HAS_EXPIRY) != 0;
    audit->bytes += memory_class_bytes(record_bytes(record));
    audit->ghosts += ghost;
    audit->ghost_bytes += ghost ? memory_class_bytes(record_bytes(record)) : 0;
    audit->records += !ghost && record->stamp > cut;
    audit->flushed += !ghost && record->stamp <= cut;
    audit->expiring += !ghost && record->stamp > cut && expires;
    audit->mislabelled += ghost != (record_type(record) == RECORD_GHOST);
    audit->mislabelled += !ghost && (slot_kind(word) == SLOT_TTL) != expires;
    audit->mislabelled += (word ^ slot_tag(hash)) >> INDEX_TAG_SHIFT != 0;
    audit->misplaced += index_segment_of(index, hash) != place->segment;
    audit->misplaced += table_bucket(place->table, hash) != place->head;
    struct index_place found;
    index_look(index, key, hash, &found);
    audit->duplicates += found.slot != slot; /* the look-up finds the first of two */
}

static void
audit_chain(const struct place *place, struct audit *audit)
{
    uint64_t chain = 0;
    bool ended = false;
    for (struct index_bucket *bucket = place->head; bucket != NULL; bucket = link_bucket(load_acquire(&bucket->link))) {
        chain++;
        audit->mislabelled += memory_is_free(bucket);
        audit->bytes += bucket != place->head ? memory_class_bytes(sizeof(*bucket)) : 0;
        audit->unfinished += (load_relaxed(&bucket->link) & (LINK_FORWARDED | LINK_INIT | LINK_FROZEN)) != 0;
        for (uint32_t i = 0; i < INDEX_BUCKET_SLOTS; i++) {
            uint64_t word = load_acquire(&bucket->slots[i]);
            enum slot_kind kind = slot_kind(word);
            audit->unfinished += (word & SLOT_FROZEN) != 0 || kind == SLOT_INIT || kind == SLOT_DESCRIPTOR;
            audit->misplaced += ended && kind != SLOT_EMPTY; /* a chain fills in order */
            ended = ended || kind == SLOT_EMPTY;
            audit->tombs += kind == SLOT_TOMB;
            if (slot_has_key(word)) {
                audit_key(place, &bucket->slots[i], word, audit);
            }
        }
    }
    audit->buckets += chain;
    audit->longest_chain = MAX(audit->longest_chain, chain);
}

struct audit
audit_store(const struct store *store)
{
    struct audit audit = { 0 };
    const struct index *index = &store->index;
    uint32_t row = 0; /* tables in it */
    for (uint32_t segment = 0; segment < index->segment_count; segment++) {
        uint64_t table = load_acquire(&index->directory[segment]);
        audit.unfinished += load_relaxed(&index->segments[segment].next) != 0;
        row += table_exists(table);
        if ((segment + 1) % INDEX_ROW_SEGMENTS == 0) {
            audit.unfinished += row != load_relaxed(&index->row_tables[segment / INDEX_ROW_SEGMENTS]);
            row = 0;
        }
        if (!table_exists(table)) {
            continue;
        }
        audit.bytes += memory_class_bytes(sizeof(struct index_bucket) << (table & INDEX_LOG2_MASK));
        for (uint32_t b = 0; b < 1u << (table & INDEX_LOG2_MASK); b++) {
            struct place place = { store, segment, table, link_bucket(table) + b };
            audit_chain(&place, &audit);
        }
    }
    return audit;
}

/* ---- against the books ---- */

static bool
is_settled(const struct store *store, const struct store_member *member)
{
    for (uint32_t segment = 0; segment < store->index.segment_count; segment++) {
        if (load_relaxed(&store->index.segments[segment].next) != 0) {
            return false;
        }
    }
    struct store_stats stats;
    store_stats(store, &stats);
    return stats.limbo_bytes == 0 && member->rebuild.state == REBUILD_IDLE &&
           member->rebuild.wish_head == member->rebuild.wish_tail && load_relaxed(&store->flush_epoch) == 0 &&
           !load_relaxed(&store->sweep_move) && !store_wants_turns(member);
}

static uint64_t
monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void
settle(struct store *store, struct store_member *member)
{
    uint64_t until_ms = monotonic_ms() + SETTLE_MS;
    do {
        for (uint32_t turn = 0; turn < SETTLE_TURNS; turn++) {
            store_quiesce(member);
            store_housekeep(member);
        }
        store_manage(store);
        store_set_time(member, member->now_ms + 1); /* a member wants turns for some time after what it last removed */
    } while (!is_settled(store, member) && monotonic_ms() < until_ms);
}

static bool
same(const char *what, uint64_t got, uint64_t expected)
{
    if (got != expected) {
        fprintf(stderr, "audit: %s: %" PRIu64 ", must be %" PRIu64 "\n", what, got, expected);
    }
    return got == expected;
}

bool
audit_passes(struct store_member *member, uint64_t other_bytes)
{
    struct store *store = store_of(member);
    settle(store, member);
    struct audit audit = audit_store(store);
    struct store_stats stats;
    store_stats(store, &stats);
    bool good = same("keys that are there more than once", audit.duplicates, 0);
    good &= same("keys or slots in a wrong place", audit.misplaced, 0);
    good &= same("slots that are not what they say", audit.mislabelled, 0);
    good &= same("words of a rebuild that did not end", audit.unfinished, 0);
    good &= same("flushed records that nobody swept", audit.flushed, 0);
    good &= same("bytes in limbo", stats.limbo_bytes, 0);
    good &= same("keys, as counted", store_keys(store), audit.records);
    good &= same("keys with an expiry, as counted", stats.keys_with_expiry, audit.expiring);
    good &= same("ghosts, as counted", stats.ghosts, audit.ghosts);
    good &= same("bytes of records, ghosts and index, as counted",
                 stats.record_bytes + stats.ghost_bytes + stats.index_bytes - store->index.fixed_bytes, audit.bytes);
    good &= same("bytes of ghosts, as counted", stats.ghost_bytes, audit.ghost_bytes);
    good &= same("bytes lent by memory", stats.memory.used_bytes, audit.bytes + other_bytes);
    return good;
}
