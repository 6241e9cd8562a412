#include "store/rebuild.h"

#define GROUP_MAX (1 << REBUILD_GROUP_LOG2)

/* Where the next record of one target chain goes. */
struct group_target {
    struct index_bucket *bucket;
    uint32_t slot;
};

struct group {
    struct store_member *member;
    struct index_segment *segment;
    uint64_t from, to;    /* tables */
    uint32_t first, step; /* buckets first, first + step, first + 2 step ... of either table */
    uint32_t source_count, target_count;
    struct group_target targets[GROUP_MAX];
};

enum move_status {
    MOVE_ON,
    MOVE_LATE, /* others finished copying this group */
    MOVE_NO_MEMORY,
};

static struct index_bucket *
group_source(const struct group *group, uint32_t i)
{
    return link_bucket(group->from) + group->first + i * group->step;
}

/* ---- freezing ---- */

static void
slot_freeze(_Atomic uint64_t *slot)
{
    uint64_t word = load_acquire(slot);
    while ((word & SLOT_FROZEN) == 0 && slot_kind(word) != SLOT_TOMB) {
        /* release: whoever finds it frozen finds the new table in segment->next */
        if (cas_acq_rel(slot, &word, word | SLOT_FROZEN)) {
            break;
        }
    }
}

/* Slots behind the first EMPTY one need none: no one inserts beyond a frozen frontier. */
static enum move_status
chain_freeze(struct index_bucket *bucket)
{
    for (;;) {
        for (uint32_t i = 0; i < INDEX_BUCKET_SLOTS; i++) {
            slot_freeze(&bucket->slots[i]);
            if (slot_kind(load_relaxed(&bucket->slots[i])) == SLOT_EMPTY) {
                return MOVE_ON;
            }
        }
        uint64_t link = load_acquire(&bucket->link); /* pairs with change_append() */
        while (link == 0 && !cas_acq_rel(&bucket->link, &link, LINK_FROZEN)) {
        }
        if ((link & LINK_FORWARDED) != 0) {
            return MOVE_LATE;
        }
        bucket = link_bucket(link);
        if (bucket == NULL) {
            return MOVE_ON;
        }
    }
}

/* ---- copying ---- */

/* The target chain needs one more bucket; all helpers agree that it does. */
static enum move_status
target_extend(struct group *group, struct group_target *target)
{
    uint64_t link = load_acquire(&target->bucket->link); /* pairs with the CAS below by another helper */
    if (link == LINK_INIT) {
        struct index_bucket *more = index_bucket_take(group->member, SLOT_INIT, LINK_INIT, true);
        if (more == NULL) {
            return MOVE_NO_MEMORY;
        }
        if (cas_acq_rel(&target->bucket->link, &link, (uint64_t)(uintptr_t)more)) {
            add_relaxed(&group->segment->appended, 1);
            link = (uint64_t)(uintptr_t)more;
        } else {
            index_blocks_give(group->member, more, 1);
        }
    }
    if ((link & (LINK_FORWARDED | LINK_INIT)) != 0 || link_bucket(link) == NULL) {
        return MOVE_LATE; /* the target is in use, and even moving on itself */
    }
    target->bucket = link_bucket(link);
    target->slot = 0;
    return MOVE_ON;
}

static enum move_status
target_put(struct group *group, struct group_target *target, uint64_t word)
{
    if (target->slot == INDEX_BUCKET_SLOTS) {
        enum move_status status = target_extend(group, target);
        if (status != MOVE_ON) {
            return status;
        }
    }
    uint64_t init = SLOT_INIT;
    (void)cas_acq_rel(&target->bucket->slots[target->slot], &init, word & ~SLOT_FROZEN); /* or another helper did */
    target->slot++;
    return MOVE_ON;
}

static enum move_status
bucket_copy(struct group *group, struct index_bucket *bucket, bool *end)
{
    uint64_t words[INDEX_BUCKET_SLOTS];
    uint32_t count = 0;
    for (; count < INDEX_BUCKET_SLOTS; count++) {
        words[count] = load_acquire(&bucket->slots[count]); /* pairs with the CAS that published the record */
        *end = slot_kind(words[count]) == SLOT_EMPTY;
        if (*end) {
            break;
        }
        if (group->target_count > 1 && slot_is_record(words[count])) {
            PREFETCH(slot_record(words[count]));
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!slot_is_record(words[i])) {
            continue;
        }
        uint32_t to = 0;
        if (group->target_count > 1) {
            uint64_t hash = store_hash(group->member->store, record_key(slot_record(words[i])));
            to = (uint32_t)(hash & ((1u << table_log2(group->to)) - 1)) / group->step;
        }
        enum move_status status = target_put(group, &group->targets[to], words[i]);
        if (status != MOVE_ON) {
            return status;
        }
    }
    return MOVE_ON;
}

static enum move_status
chain_copy(struct group *group, struct index_bucket *bucket)
{
    for (;;) {
        bool end = false;
        uint64_t link = load_acquire(&bucket->link); /* before the slots: see index_look() */
        if ((link & LINK_FORWARDED) != 0) {
            return MOVE_LATE;
        }
        enum move_status status = bucket_copy(group, bucket, &end);
        bucket = link_bucket(link);
        if (status != MOVE_ON || end || bucket == NULL) {
            return status;
        }
    }
}

static enum move_status
group_copy(struct group *group)
{
    for (uint32_t i = 0; i < group->target_count; i++) {
        group->targets[i] = (struct group_target){ link_bucket(group->to) + group->first + i * group->step, 0 };
    }
    for (uint32_t i = 0; i < group->source_count; i++) {
        enum move_status status = chain_copy(group, group_source(group, i));
        if (status != MOVE_ON) {
            return status;
        }
    }
    for (uint32_t i = 0; i < group->target_count; i++) {
        struct group_target *target = &group->targets[i];
        for (; target->slot < INDEX_BUCKET_SLOTS; target->slot++) {
            uint64_t init = SLOT_INIT;
            (void)cas_acq_rel(&target->bucket->slots[target->slot], &init, SLOT_EMPTY);
        }
        uint64_t init = LINK_INIT;
        (void)cas_acq_rel(&target->bucket->link, &init, 0);
    }
    return MOVE_ON;
}

/* ---- forwarding ---- */

/* What the winner of forwarding a chain has to retire: ghosts, and the buckets behind the head. */
static uint32_t
chain_leftovers(struct store_member *member, struct index_bucket *head, uint64_t head_link, bool retire)
{
    uint32_t count = 0;
    uint64_t link = head_link;
    for (struct index_bucket *bucket = head; bucket != NULL;) {
        for (uint32_t i = 0; i < INDEX_BUCKET_SLOTS; i++) {
            uint64_t word = load_relaxed(&bucket->slots[i]);
            if (slot_kind(word) == SLOT_GHOST) {
                count++;
                if (retire) {
                    member_retire_ghost(member, slot_record(word));
                }
            }
        }
        struct index_bucket *next = link_bucket(link);
        link = next != NULL ? load_acquire(&next->link) : 0;
        if (bucket != head) {
            count++;
            if (retire) {
                index_blocks_retire(member, bucket, 1);
            }
        }
        bucket = next;
    }
    return count;
}

/* All buckets are FORWARDED; this member saw the last one go. */
static void
rebuild_finish(struct group *group)
{
    struct index *index = &group->member->store->index;
    uint32_t segment = (uint32_t)(group->segment - index->segments);
    store_release(&index->directory[segment], group->to); /* pairs with the acquire in index_look() */
    store_release(&group->segment->next, 0);              /* pairs with the CAS in rebuild_begin() */
    index_blocks_retire(group->member, link_bucket(group->from), 1u << table_log2(group->from));
    counter_add(&group->member->counters.rebuilds, 1);
}

static enum rebuild_status
group_forward(struct group *group)
{
    for (uint32_t i = 0; i < group->source_count; i++) {
        struct index_bucket *head = group_source(group, i);
        uint64_t link = load_acquire(&head->link);
        if ((link & LINK_FORWARDED) != 0) {
            continue;
        }
        struct limbo *limbo = &group->member->limbo;
        if (limbo->tail - limbo->head + chain_leftovers(group->member, head, link, false) + 1 > LIMBO_BLOCKS) {
            return REBUILD_LATER;
        }
        uint64_t forward = (group->to & INDEX_ADDRESS_MASK) | LINK_FORWARDED | LINK_FROZEN |
                           (uint64_t)table_log2(group->to) << LINK_LOG2_SHIFT;
        /* release: pairs with the acquire in index_look(); the new buckets are complete */
        if (cas_acq_rel(&head->link, &link, forward)) {
            (void)chain_leftovers(group->member, head, link, true);
            if (sub_acq_rel(&group->segment->left, 1) == 1) { /* acquire: all others' moves are before the end */
                rebuild_finish(group);
            }
        }
    }
    return REBUILD_DONE;
}

enum rebuild_status
rebuild_move_group(struct store_member *member, uint32_t segment, uint64_t from, uint64_t to, uint32_t bucket)
{
    uint32_t from_log2 = table_log2(from), to_log2 = table_log2(to), step_log2 = MIN(from_log2, to_log2);
    struct group group = {
        .member = member,
        .segment = &member->store->index.segments[segment],
        .from = from,
        .to = to,
        .first = bucket & ((1u << step_log2) - 1),
        .step = 1u << step_log2,
        .source_count = 1u << (from_log2 - step_log2),
        .target_count = 1u << (to_log2 - step_log2),
    };
    if (limbo_room(&member->limbo) == LIMBO_HARD) {
        return REBUILD_LATER;
    }
    enum move_status status = MOVE_ON;
    for (uint32_t i = 0; i < group.source_count && status == MOVE_ON; i++) {
        status = chain_freeze(group_source(&group, i));
    }
    if (status == MOVE_ON) {
        status = group_copy(&group);
    }
    /* MOVE_LATE: copying is done, perhaps not all heads are FORWARDED yet */
    return status == MOVE_NO_MEMORY ? REBUILD_LATER : group_forward(&group);
}

/* ---- closing ---- */

/* All frozen: what is seen here stays. */
static bool
chain_has_record(struct index_bucket *bucket)
{
    while (bucket != NULL) {
        for (uint32_t i = 0; i < INDEX_BUCKET_SLOTS; i++) {
            uint64_t word = load_relaxed(&bucket->slots[i]);
            if (slot_is_record(word) || slot_kind(word) == SLOT_EMPTY) {
                return slot_is_record(word);
            }
        }
        bucket = link_bucket(load_acquire(&bucket->link)); /* pairs with change_append() */
    }
    return false;
}

/* The segment is wanted: it gets a table of the same size, and a rebuild goes on where the closing stopped. */
static enum rebuild_status
closing_reopen(struct store_member *member, uint32_t segment, uint64_t from)
{
    uint32_t log2 = table_log2(from);
    uint64_t closing = (from & INDEX_ADDRESS_MASK) | REBUILD_CLOSING;
    struct index_bucket *first = index_table_take(member, log2, SLOT_INIT, LINK_INIT, true);
    if (first == NULL) {
        return REBUILD_LATER;
    }
    /* release: pairs with the acquire in rebuild_help(); the table is INIT throughout */
    if (!cas_acq_rel(&member->store->index.segments[segment].next, &closing, rebuild_table(from, first, log2))) {
        index_blocks_give(member, first, 1u << log2);
    }
    return REBUILD_DONE;
}

/* CLOSED: anybody may take the table out of the directory. True: this member did. */
static bool
closed_leave(struct index *index, uint32_t segment, uint64_t from)
{
    uint64_t none = rebuild_table(from, NULL, 0);
    /* release: pairs with the acquire in index_look(), so that nobody begins in the old table after this */
    return cas_acq_rel(&index->directory[segment], &from, none);
}

enum rebuild_status
rebuild_close(struct store_member *member, uint32_t segment, uint64_t from)
{
    struct index *index = &member->store->index;
    struct limbo *limbo = &member->limbo;
    uint32_t chains = 1u << table_log2(from), leftovers = 1;
    bool has_record = false;
    for (uint32_t i = 0; i < chains; i++) {
        struct index_bucket *head = link_bucket(from) + i;
        if (chain_freeze(head) == MOVE_LATE) {
            return REBUILD_DONE; /* reopened, and moving already */
        }
        has_record = has_record || chain_has_record(head);
        leftovers += chain_leftovers(member, head, load_acquire(&head->link), false);
    }
    if (has_record) {
        return closing_reopen(member, segment, from);
    }
    if (limbo_room(limbo) == LIMBO_HARD || limbo->tail - limbo->head + leftovers > LIMBO_BLOCKS) {
        return REBUILD_LATER;
    }
    uint64_t closing = (from & INDEX_ADDRESS_MASK) | REBUILD_CLOSING;
    /* acquire and release: partner is the CAS in closing_reopen(), of which one wins */
    if (!cas_acq_rel(&index->segments[segment].next, &closing, (from & INDEX_ADDRESS_MASK) | REBUILD_CLOSED)) {
        return REBUILD_DONE;
    }
    (void)closed_leave(index, segment, from);
    sub_relaxed(&index->row_tables[segment / INDEX_ROW_SEGMENTS], 1);
    for (uint32_t i = 0; i < chains; i++) {
        struct index_bucket *head = link_bucket(from) + i;
        (void)chain_leftovers(member, head, load_acquire(&head->link), true);
    }
    index_blocks_retire(member, link_bucket(from), chains);
    counter_add(&member->counters.rebuilds, 1);
    store_release(&index->segments[segment].next, 0); /* pairs with the CAS in rebuild_begin() */
    return REBUILD_DONE;
}

enum rebuild_status
rebuild_help(struct store_member *member, uint64_t table, uint64_t hash)
{
    struct index *index = &member->store->index;
    uint32_t segment = index_segment_of(index, hash);
    /* The frozen slot was read relaxed. Acquire: pairs with the CAS in slot_freeze(), made by a member that knew `next`
     */
    fence_acquire();
    uint64_t to = load_acquire(&index->segments[segment].next); /* pairs with the release in rebuild_begin() */
    /* `to` belongs to this table only while the directory has it: look at that second */
    if (load_acquire(&index->directory[segment]) != table) {
        return REBUILD_DONE;
    }
    assert(link_bucket(to) != NULL);
    if (UNLIKELY(table_log2(to) > INDEX_LOG2_MAX)) {
        if (table_log2(to) == REBUILD_CLOSING) {
            return closing_reopen(member, segment, table);
        }
        (void)closed_leave(index, segment, table);
        return REBUILD_DONE;
    }
    return rebuild_move_group(member, segment, table, to, (uint32_t)(hash & ((1u << table_log2(table)) - 1)));
}
