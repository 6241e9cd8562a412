#include "store/scan.h"
#include "store/store_layout.h"

#define SCAN_ROWS   256 /* of the index in a step */
#define SCAN_PLACES (1u << SCAN_PLACE_BITS)

/* The part of a segment's order that a step gives, and the records it found there. */
struct scan {
    struct store_member *member;
    uint32_t first, end; /* places */
    bool whole;          /* the bucket has no others */
    const struct record **records;
    uint32_t room, count;
};

/* The low 16 bits in reverse: from hash to place and back. */
static inline uint32_t
place_reverse(uint32_t bits)
{
    bits = (bits & 0x5555) << 1 | (bits >> 1 & 0x5555);
    bits = (bits & 0x3333) << 2 | (bits >> 2 & 0x3333);
    bits = (bits & 0x0f0f) << 4 | (bits >> 4 & 0x0f0f);
    return (bits & 0xff) << 8 | bits >> 8;
}

static inline struct index_bucket *
place_bucket(uint64_t table, uint32_t place)
{
    return table_bucket(table, place_reverse(place));
}

/* The first segment from `segment` on that may have a table, or one before it: the look is bounded. */
static uint64_t
segment_cursor(const struct index *index, uint32_t segment)
{
    for (uint32_t rows = 0; rows < SCAN_ROWS && segment < index->segment_count;
         rows += segment % INDEX_ROW_SEGMENTS == 0) {
        if (segment % INDEX_ROW_SEGMENTS == 0 && load_relaxed(&index->row_tables[segment / INDEX_ROW_SEGMENTS]) == 0) {
            segment += INDEX_ROW_SEGMENTS;
            continue;
        }
        uint64_t table = load_relaxed(&index->directory[segment]);
        if (table_exists(table)) {
            PREFETCH(link_bucket(table));
            break;
        }
        segment++;
    }
    return segment < index->segment_count ? (uint64_t)segment << SCAN_PLACE_BITS : 0;
}

static bool
record_is_wanted(const struct scan *scan, const struct record *record)
{
    /* acquire: pairs with cut_decide(), as in a look-up */
    uint64_t cut = cut_value(load_acquire(&scan->member->store->cut.word));
    if (record->stamp <= cut || record_expired(record, scan->member->now_ms)) {
        return false;
    }
    if (scan->whole) {
        return true;
    }
    uint32_t place = place_reverse((uint32_t)store_hash(scan->member->store, record_key(record)) & (SCAN_PLACES - 1));
    return place >= scan->first && place < scan->end;
}

/* False: the room is too small. *ended: the chain has no more slots in use. */
static bool
bucket_take(struct scan *scan, struct index_bucket *bucket, bool *ended)
{
    for (uint32_t i = 0; i < INDEX_BUCKET_SLOTS; i++) {
        uint64_t word = load_relaxed(&bucket->slots[i]);
        if (slot_is_record(word)) {
            PREFETCH(slot_record(word));
        }
    }
    for (uint32_t i = 0; i < INDEX_BUCKET_SLOTS; i++) {
        uint64_t word = load_acquire(&bucket->slots[i]); /* pairs with the CAS that published the record */
        *ended = slot_kind(word) == SLOT_EMPTY;
        if (*ended) {
            return true;
        }
        if (!slot_is_record(word) || !record_is_wanted(scan, slot_record(word))) {
            continue;
        }
        if (scan->count == scan->room) {
            return false;
        }
        scan->records[scan->count++] = slot_record(word);
    }
    return true;
}

/* `link` was read before any slot: see index_look(). A key that stays keeps its slot, frozen or not, so that a chain
 * which moves away meanwhile still shows it. */
static bool
chain_take(struct scan *scan, struct index_bucket *bucket, uint64_t link)
{
    bool ended = false;
    scan->count = 0;
    for (;;) {
        if (!bucket_take(scan, bucket, &ended)) {
            return false;
        }
        bucket = link_bucket(link);
        if (ended || bucket == NULL) {
            return true;
        }
        link = load_acquire(&bucket->link); /* pairs with the CAS in change_append() */
    }
}

struct scan_step
scan_next(struct store_member *member, uint64_t cursor, const struct record **records, uint32_t room)
{
    const struct index *index = &member->store->index;
    uint64_t segment = cursor >> SCAN_PLACE_BITS;
    assert(room >= SCAN_ROOM_LEAST);
    if (segment >= index->segment_count) {
        return (struct scan_step){ 0 };
    }
    uint64_t table = load_acquire(&index->directory[segment]); /* as in index_look() */
    if (!table_exists(table)) {
        return (struct scan_step){ .next = segment_cursor(index, (uint32_t)segment + 1) };
    }
    uint32_t place = (uint32_t)(cursor & (SCAN_PLACES - 1));
    struct index_bucket *head = place_bucket(table, place);
    uint64_t link = load_acquire(&head->link); /* pairs with the CAS in rebuild_forward() */
    while (UNLIKELY((link & LINK_FORWARDED) != 0)) {
        table = link_table(table, link);
        head = place_bucket(table, place);
        link = load_acquire(&head->link); /* as above */
    }
    uint32_t places = SCAN_PLACES >> (table & INDEX_LOG2_MASK), begin = place & ~(places - 1);
    struct scan scan = { member, place, begin + places, place == begin, records, room, 0 };
    if (scan.end < SCAN_PLACES) {
        PREFETCH(place_bucket(table, scan.end));
    }
    while (UNLIKELY(!chain_take(&scan, head, link)) && scan.end - scan.first > 1) {
        scan.end = scan.first + (scan.end - scan.first) / 2;
        scan.whole = false;
    }
    bool more = scan.end < SCAN_PLACES;
    uint64_t next = more ? segment << SCAN_PLACE_BITS | scan.end : segment_cursor(index, (uint32_t)segment + 1);
    return (struct scan_step){ .next = next, .count = scan.count };
}

uint64_t
scan_cursor(const struct store *store, uint64_t hash)
{
    uint64_t segment = index_segment_of(&store->index, hash);
    return segment << SCAN_PLACE_BITS | place_reverse((uint32_t)hash & (SCAN_PLACES - 1));
}
