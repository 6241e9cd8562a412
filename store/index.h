/* index.h - key to slot: a directory of segments, each a table of buckets with chains.
 *
 *   hash: | segment (top bits) | ... | tag (bits 16-31) | ... | bucket (low bits, at most 9) |
 *
 * Directory word: address of the segment's table, log2 of its buckets (bits 0-3), generation (bits 48-63). Without an
 * address there is no table, and the generation is that of the next one: no two absences of a key look alike.
 *
 * Slot word: tag (bits 48-63), address of a 16-byte aligned record (bits 4-47), kind (bits 1-3), FROZEN (bit 0).
 *
 *   | kind       | word                      | may become                                                  |
 *   | EMPTY      | 0                         | RECORD, when it is the first EMPTY slot of its chain        |
 *   | RECORD     | tag, address              | RECORD (overwritten), GHOST (DEL), TOMB (expired, flushed)  |
 *   | TTL        | a record that may expire  | as RECORD                                                   |
 *   | GHOST      | tag, address: key, stamp  | RECORD of the same key, TOMB                                |
 *   | TOMB       | upper bits of the stamp   | nothing: a rebuild leaves it out                            |
 *   | INIT       | no address                | anything, once: a slot of a table under construction        |
 *   | DESCRIPTOR | reserved for commits of several keys                                                    |
 *   | any FROZEN | the same, bit 0 set       | nothing: the truth until its bucket is FORWARDED            |
 *
 * Link word: address of the next bucket of the chain, flags in bits 0-2. In a head bucket, FORWARDED means: address and
 * log2 (bits 48-51) are those of the next table, where this bucket's keys are now.
 *
 * What makes one CAS enough: a chain fills strictly in order, and a slot never becomes EMPTY again. Whoever inserts a
 * key has passed every slot before the first EMPTY one, none of which can ever hold that key, so two inserters of one
 * key fight for one slot (test/model/frontier.pml). Moving to another table: rebuild.h. */
#pragma once
#include "config/base.h"
#include "config/sync.h"
#include "store/record.h"

#define INDEX_ADDRESS_MASK  0x0000fffffffffff0ull
#define INDEX_TAG_SHIFT     48
#define INDEX_LOG2_MASK     15ull
#define INDEX_LOG2_MAX      9 /* 512 buckets a segment */
#define INDEX_BUCKET_SLOTS  7
#define INDEX_SEGMENTS_LOG2 22 /* at most */
#define INDEX_ROW_SEGMENTS  64 /* are walked, or passed over, together */

enum slot_kind {
    SLOT_EMPTY = 0 << 1,
    SLOT_RECORD = 1 << 1,
    SLOT_TTL = 2 << 1,
    SLOT_GHOST = 3 << 1,
    SLOT_TOMB = 4 << 1,
    SLOT_INIT = 5 << 1,
    SLOT_DESCRIPTOR = 6 << 1,
};
#define SLOT_KIND_MASK 14ull
#define SLOT_FROZEN    1ull
#define SLOT_TOMB_STEP 16 /* a TOMB's stamp has lost its low 4 bits, which lie within the member's 6 */

#define LINK_FROZEN         1ull
#define LINK_FORWARDED      2ull
#define LINK_INIT           4ull
#define LINK_LOG2_SHIFT     48
#define INDEX_ABSENT        (1ull << 63) /* versions of store_view(): no record; stamps are below it */
#define INDEX_GONE          (1ull << 62) /* the record whose stamp this is has expired or was flushed */
#define INDEX_GENERATION(t) ((t) >> 48)

struct index_bucket {
    _Alignas(CACHE_LINE) _Atomic uint64_t slots[INDEX_BUCKET_SLOTS];
    _Atomic uint64_t link;
};
static_assert(sizeof(struct index_bucket) == CACHE_LINE, "a look-up reads one line");

/* The rarely touched half of a segment. */
struct index_segment {
    _Atomic uint64_t next;     /* 0; the table under construction, as in the directory; or see rebuild.h */
    _Atomic uint32_t left;     /* buckets of the old table not yet FORWARDED */
    _Atomic uint32_t appended; /* buckets appended to chains since the last rebuild, about */
};

struct index {
    _Atomic uint64_t *directory;
    uint32_t segment_shift; /* 64 - log2 of the segments */
    uint32_t segment_count;
    uint32_t first_log2; /* buckets of a new table, and the fewest that a rebuild leaves where keys are */
    struct index_segment *segments;
    _Atomic uint32_t *row_tables; /* tables in each row of segments, never fewer than there are */
    size_t fixed_bytes;
};

/* How `index_open()` decides, without memory: log2 of the segments, and of the buckets of a new table. */
uint32_t index_segments_log2(uint64_t reserve_bytes);
uint32_t index_first_log2(uint64_t keys_expected, uint32_t segments_log2);

/* Boot. Segments for `reserve_bytes` of small records; tables sized for keys_expected. 0 or -ENOMEM. */
int index_open(struct index *index, uint64_t reserve_bytes, uint64_t keys_expected);
void index_close(struct index *index);

static inline uint32_t
index_rows(const struct index *index)
{
    return index->segment_count / INDEX_ROW_SEGMENTS;
}

/* The segments of a row that have a table, one bit each. */
uint64_t index_row(const struct index *index, uint32_t row);

/* Where a key is, or where it belongs. */
struct index_place {
    uint64_t table;              /* directory word of the table in which the search ended, if there is one */
    struct index_bucket *head;   /* of the chain */
    struct index_bucket *bucket; /* of `slot`; the chain's last when `slot` is NULL */
    _Atomic uint64_t *slot;      /* the key's slot, or the chain's first EMPTY one; NULL: the chain is full */
    uint64_t word;               /* what was in it: RECORD, TTL or GHOST of this key, or EMPTY; perhaps FROZEN.
                                    The link when `slot` is NULL */
    uint32_t position;           /* slots before it in the chain */
};

static inline uint32_t
index_segment_of(const struct index *index, uint64_t hash)
{
    return (uint32_t)(hash >> index->segment_shift);
}

static inline uint64_t
slot_tag(uint64_t hash)
{
    return (hash >> 16 & 0xffff) << INDEX_TAG_SHIFT;
}

static inline enum slot_kind
slot_kind(uint64_t word)
{
    return (enum slot_kind)(word & SLOT_KIND_MASK);
}

static inline struct record *
slot_record(uint64_t word)
{
    return (struct record *)(uintptr_t)(word & INDEX_ADDRESS_MASK);
}

/* RECORD or TTL, frozen or not. */
static inline bool
slot_is_record(uint64_t word)
{
    return slot_kind(word) == SLOT_RECORD || slot_kind(word) == SLOT_TTL;
}

/* RECORD, TTL or GHOST: there is a key. */
static inline bool
slot_has_key(uint64_t word)
{
    return slot_kind(word) - SLOT_RECORD <= SLOT_GHOST - SLOT_RECORD;
}

static inline uint64_t
slot_of_record(const struct record *record, uint64_t hash)
{
    enum slot_kind kind = record->type_flags & RECORD_HAS_EXPIRY ? SLOT_TTL : SLOT_RECORD;
    return slot_tag(hash) | (uint64_t)(uintptr_t)record | kind;
}

static inline uint64_t
slot_of_tomb(uint64_t stamp)
{
    return ((stamp + SLOT_TOMB_STEP - 1) & ~(uint64_t)(SLOT_TOMB_STEP - 1)) | SLOT_TOMB;
}

static inline struct index_bucket *
link_bucket(uint64_t link)
{
    return (struct index_bucket *)(uintptr_t)(link & INDEX_ADDRESS_MASK);
}

static inline bool
table_exists(uint64_t table)
{
    return (table & INDEX_ADDRESS_MASK) != 0;
}

static inline struct index_bucket *
table_bucket(uint64_t table, uint64_t hash)
{
    return link_bucket(table) + (hash & ((1ull << (table & INDEX_LOG2_MASK)) - 1));
}

/* The table that a FORWARDED head link of `table` names. */
static inline uint64_t
link_table(uint64_t table, uint64_t link)
{
    uint64_t generation = (INDEX_GENERATION(table) + 1) & 0xffff;
    return (link & INDEX_ADDRESS_MASK) | (link >> LINK_LOG2_SHIFT & INDEX_LOG2_MASK) | generation << 48;
}

static inline uint64_t
key_load8(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    return word;
}

/* Eight bytes at a time, the last eight again when they overlap: a call to memcmp() costs more for most keys. */
static inline bool
key_equal(const struct record *record, struct slice key)
{
    if (record->key_bytes != key.bytes) {
        return false;
    }
    const uint8_t *a = record->payload + record_key_at(record), *b = key.data;
    if (key.bytes < 8) {
        for (size_t i = 0; i < key.bytes; i++) {
            if (a[i] != b[i]) {
                return false;
            }
        }
        return true;
    }
    size_t last = key.bytes - 8;
    for (size_t i = 0; i < last; i += 8) {
        if (key_load8(a + i) != key_load8(b + i)) {
            return false;
        }
    }
    return key_load8(a + last) == key_load8(b + last);
}

/* Find `key`. Slots are read relaxed, but the one that matches: fewer waits on Arm, where all seven lie in one line.
 * The head's link is read first, and before any record of the chain: when it is not FORWARDED, no record of a frozen
 * slot can have been retired before this turn. */
static inline void
index_look(const struct index *index, struct slice key, uint64_t hash, struct index_place *place)
{
    /* acquire: pairs with the CAS in index_first_table() and the store in rebuild_finish(); the table is filled in */
    uint64_t table = load_acquire(&index->directory[index_segment_of(index, hash)]);
    place->table = table;
    place->position = 0;
    place->slot = NULL;
    place->word = 0;
    if (UNLIKELY(!table_exists(table))) {
        return;
    }
    struct index_bucket *bucket = table_bucket(table, hash);
    uint64_t link = load_acquire(&bucket->link); /* pairs with the CAS in rebuild_forward() and in change_append() */
    while (UNLIKELY((link & LINK_FORWARDED) != 0)) {
        place->table = table = link_table(table, link);
        bucket = table_bucket(table, hash);
        link = load_acquire(&bucket->link); /* as above */
    }
    place->head = bucket;
    uint64_t tag = slot_tag(hash);
    for (;;) {
        for (uint32_t i = 0; i < INDEX_BUCKET_SLOTS; i++) {
            uint64_t word = load_relaxed(&bucket->slots[i]);
            bool here = slot_kind(word) == SLOT_EMPTY;
            if ((word ^ tag) >> INDEX_TAG_SHIFT == 0 && slot_has_key(word)) {
                word = load_acquire(&bucket->slots[i]); /* pairs with the CAS that published the record */
                here = slot_has_key(word) && key_equal(slot_record(word), key);
            }
            if (here) {
                place->bucket = bucket;
                place->slot = &bucket->slots[i];
                place->word = word;
                place->position += i;
                return;
            }
        }
        place->position += INDEX_BUCKET_SLOTS;
        if (link_bucket(link) == NULL) {
            place->bucket = bucket;
            place->word = link;
            return;
        }
        bucket = link_bucket(link);
        link = load_acquire(&bucket->link); /* pairs with the CAS in change_append() and rebuild_next() */
    }
}

/* Loads after a look-up that found nothing stay after it: TOMBs are read relaxed. Nothing on x86; ThreadSanitizer
 * checks happens-before, not the order of relaxed loads, and its form of a fence would hide races. */
#ifdef SYNC_TSAN
#define index_absent_fence() ((void)0)
#else
#define index_absent_fence() fence_acquire()
#endif
