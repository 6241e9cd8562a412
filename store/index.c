#include "store/index.h"
#include "store/store_layout.h"

#define TAKE_TRIES 4

/* Index blocks come from the reserve: what shrinks must work when memory is full, and a segment may need a rebuild. */
struct index_bucket *
index_table_take(struct store_member *member, uint32_t log2, uint64_t slot_fill, uint64_t link_fill, bool awaited)
{
    size_t bytes = sizeof(struct index_bucket) << log2;
    struct index_bucket *first = memory_take_reserve(member->cache, bytes);
    /* Not in a page that is being emptied, where there is another place: it would have to move on at once. */
    for (uint32_t try = 0; first != NULL && try < TAKE_TRIES; try++) {
        if (LIKELY(!memory_is_emptying(member->store->memory, first))) {
            break;
        }
        memory_give_home(member->cache, first, bytes);
        first = memory_take_reserve(member->cache, bytes);
    }
    if (UNLIKELY(first == NULL)) {
        first = awaited ? member_take_larger(member, CACHE_LINE) : NULL;
        if (first == NULL) {
            return NULL;
        }
    }
    for (uint32_t i = 0; i < 1u << log2; i++) {
        for (uint32_t j = 0; j < INDEX_BUCKET_SLOTS; j++) {
            store_relaxed(&first[i].slots[j], slot_fill);
        }
        store_relaxed(&first[i].link, link_fill);
    }
    counter_move(&member->counters.index_bytes, (int64_t)memory_class_bytes(bytes));
    return first;
}

struct index_bucket *
index_bucket_take(struct store_member *member, uint64_t slot_fill, uint64_t link_fill, bool awaited)
{
    return index_table_take(member, 0, slot_fill, link_fill, awaited);
}

void
index_blocks_give(struct store_member *member, struct index_bucket *first, uint32_t buckets)
{
    size_t bytes = sizeof(struct index_bucket) * buckets;
    counter_move(&member->counters.index_bytes, -(int64_t)memory_class_bytes(bytes));
    memory_give_home(member->cache, first, bytes);
}

void
index_blocks_retire(struct store_member *member, struct index_bucket *first, uint32_t buckets)
{
    size_t class_bytes = limbo_retire(&member->limbo, first, sizeof(struct index_bucket) * buckets);
    counter_move(&member->counters.index_bytes, -(int64_t)class_bytes);
}

bool
index_first_table(struct store_member *member, uint64_t hash)
{
    struct index *index = &member->store->index;
    uint32_t segment = index_segment_of(index, hash);
    struct index_bucket *first = index_table_take(member, index->first_log2, SLOT_EMPTY, 0, false);
    if (first == NULL) {
        return false;
    }
    /* Before the table: whoever finds a key in it finds it counted, too. A count and not a bit: who takes a table away
     * takes back what was added for it, however late, and never what was added for the next. */
    _Atomic uint32_t *row_tables = &index->row_tables[segment / INDEX_ROW_SEGMENTS];
    add_relaxed(row_tables, 1);
    uint64_t none = load_relaxed(&index->directory[segment]);
    uint64_t table = none | (uint64_t)(uintptr_t)first | index->first_log2;
    /* release: pairs with the acquire in index_look() */
    if (table_exists(none) || !cas_acq_rel(&index->directory[segment], &none, table)) {
        sub_relaxed(row_tables, 1); /* somebody else was faster */
        index_blocks_give(member, first, 1u << index->first_log2);
    }
    return true;
}

uint64_t
index_row(const struct index *index, uint32_t row)
{
    uint64_t bits = 0;
    if (load_relaxed(&index->row_tables[row]) != 0) {
        const _Atomic uint64_t *tables = &index->directory[row * INDEX_ROW_SEGMENTS];
        for (uint32_t i = 0; i < INDEX_ROW_SEGMENTS; i++) {
            bits |= (uint64_t)table_exists(load_relaxed(&tables[i])) << i;
        }
    }
    return bits;
}
