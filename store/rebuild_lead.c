/* Which segment gets a new table, when, and of what size; and the member that leads it there step by step. */
#include "store/rebuild.h"

#define STEP_UNITS    32 /* of a call: looking at a bucket is one, */
#define MOVE_UNITS    4  /* moving a group is four: some 40 records a call, prefetched */
#define KEYS_A_BUCKET 4  /* of 7 slots, after a rebuild at most */

static uint32_t
log2_for(const struct index *index, uint32_t live)
{
    uint32_t log2 = live == 0 ? 0 : index->first_log2;
    while (log2 < INDEX_LOG2_MAX && live > (uint32_t)KEYS_A_BUCKET << log2) {
        log2++;
    }
    return log2;
}

/* The nearest to `log2` that one rebuild can reach. */
static uint32_t
log2_in_reach(uint32_t log2, uint32_t now)
{
    log2 = MIN(log2, now + REBUILD_GROUP_LOG2);
    return now > REBUILD_GROUP_LOG2 ? MAX(log2, now - REBUILD_GROUP_LOG2) : log2;
}

/* Claim the segment, make the table, publish it; or, `close`, announce that there will be none. False: somebody else's,
 * or no memory. */
static bool
rebuild_begin(struct store_member *member, uint32_t log2, bool close)
{
    struct index *index = &member->store->index;
    struct member_rebuild *rebuild = &member->rebuild;
    struct index_segment *segment = &index->segments[rebuild->segment];
    uint64_t none = 0;
    if (!cas_acq_rel(&segment->next, &none, REBUILD_CLAIMED)) { /* acquire: pairs with rebuild_finish() */
        return false;
    }
    struct index_bucket *first = NULL;
    bool mine = load_acquire(&index->directory[rebuild->segment]) == rebuild->table;
    if (mine && !close) {
        first = index_table_take(member, log2, SLOT_INIT, LINK_INIT, false);
    }
    if (!mine || (!close && first == NULL)) {
        store_release(&segment->next, 0); /* nobody saw it */
        return false;
    }
    store_relaxed(&segment->left, 1u << table_log2(rebuild->table));
    store_relaxed(&segment->appended, 0);
    uint64_t closing = (rebuild->table & INDEX_ADDRESS_MASK) | REBUILD_CLOSING;
    /* release: pairs with the acquire in rebuild_help(); the table is INIT throughout */
    store_release(&segment->next, close ? closing : rebuild_table(rebuild->table, first, log2));
    return true;
}

/* Dead slots are worth a rebuild when there is one in each bucket, or when they are half of all. Without a live one the
 * segment is closed, as soon as one group can be all of its table. */
static void
rebuild_choose(struct store_member *member)
{
    struct member_rebuild *rebuild = &member->rebuild;
    uint32_t now = table_log2(rebuild->table), best = log2_for(&member->store->index, rebuild->live);
    uint32_t log2 = log2_in_reach(best, now);
    bool dead = rebuild->others >= 1u << now || rebuild->others > rebuild->live;
    bool empty = rebuild->live == 0, resize = log2 > now || log2 + 2 <= now;
    dead = dead || rebuild->relocate;
    rebuild->state = REBUILD_IDLE;
    if (!resize && !dead && !empty) {
        store_relaxed(&member->store->index.segments[rebuild->segment].appended, 0); /* look again after as many more */
        return;
    }
    bool close = empty && now <= REBUILD_GROUP_LOG2;
    if (rebuild_begin(member, resize ? log2 : now, close)) {
        rebuild->state = REBUILD_MOVE;
        rebuild->bucket = 0;
        rebuild->again = !close && ((resize && log2 != best) || empty);
    }
}

static void
examine_bucket(struct store_member *member, struct index_bucket *bucket)
{
    struct member_rebuild *rebuild = &member->rebuild;
    uint64_t chain = 0;
    while (bucket != NULL) {
        uint64_t link = load_acquire(&bucket->link); /* before the slots: see index_look() */
        for (uint32_t i = 0; i < INDEX_BUCKET_SLOTS; i++) {
            uint64_t word = load_relaxed(&bucket->slots[i]);
            rebuild->live += slot_is_record(word);
            rebuild->others += slot_kind(word) == SLOT_GHOST || slot_kind(word) == SLOT_TOMB;
        }
        rebuild->relocate = rebuild->relocate || memory_is_emptying(member->store->memory, bucket);
        bucket = (link & LINK_FORWARDED) != 0 ? NULL : link_bucket(link);
        chain++;
    }
    if (chain > load_relaxed(&member->counters.chain_buckets_max)) {
        store_relaxed(&member->counters.chain_buckets_max, chain);
    }
}

/* Each of these does what it can for `budget` units and returns what is left of it, 0 when it must wait. */

static uint32_t
rebuild_examine(struct store_member *member, uint32_t budget)
{
    struct member_rebuild *rebuild = &member->rebuild;
    uint32_t buckets = 1u << table_log2(rebuild->table);
    /* The table may be replaced meanwhile: it stays readable within a turn only, so ask each time. */
    if (load_acquire(&member->store->index.directory[rebuild->segment]) != rebuild->table) {
        rebuild->state = REBUILD_IDLE;
        return budget;
    }
    for (; budget != 0 && rebuild->bucket < buckets; budget--) {
        examine_bucket(member, link_bucket(rebuild->table) + rebuild->bucket++);
    }
    if (rebuild->bucket == buckets) {
        rebuild_choose(member);
    }
    return budget;
}

static uint32_t
rebuild_move(struct store_member *member, uint32_t budget)
{
    struct member_rebuild *rebuild = &member->rebuild;
    const struct index *index = &member->store->index;
    /* acquire: pairs with the CAS in closing_reopen(), and `to` is this table's when the directory still has it */
    uint64_t to = load_acquire(&index->segments[rebuild->segment].next);
    /* Others may have finished it, and even begun the next. */
    if (load_acquire(&index->directory[rebuild->segment]) != rebuild->table) {
        rebuild->state = REBUILD_IDLE;
        return budget;
    }
    if (table_log2(to) > INDEX_LOG2_MAX) {
        bool done = budget >= MOVE_UNITS && rebuild_close(member, rebuild->segment, rebuild->table) == REBUILD_DONE;
        return done ? budget - MOVE_UNITS : 0; /* here again: it is closed, or has a new table */
    }
    uint32_t groups = 1u << MIN(table_log2(rebuild->table), table_log2(to));
    for (; budget >= MOVE_UNITS && rebuild->bucket < groups; budget -= MOVE_UNITS) {
        if (rebuild_move_group(member, rebuild->segment, rebuild->table, to, rebuild->bucket) != REBUILD_DONE) {
            return 0; /* here again at the next step */
        }
        rebuild->bucket++;
    }
    if (rebuild->bucket < groups) {
        return 0;
    }
    rebuild->state = REBUILD_IDLE;
    if (rebuild->again) {
        rebuild_wish(member, rebuild->segment);
    }
    return budget;
}

static uint32_t
rebuild_next_wish(struct store_member *member, uint32_t budget)
{
    struct member_rebuild *rebuild = &member->rebuild;
    struct index *index = &member->store->index;
    if (rebuild->wish_head == rebuild->wish_tail) {
        return 0;
    }
    rebuild->segment = rebuild->wishes[rebuild->wish_head++ % REBUILD_WISHES];
    rebuild->table = load_acquire(&index->directory[rebuild->segment]); /* pairs with rebuild_finish() */
    rebuild->bucket = rebuild->live = rebuild->others = 0;
    rebuild->relocate = false;
    bool free = table_exists(rebuild->table) && load_relaxed(&index->segments[rebuild->segment].next) == 0;
    rebuild->state = free ? REBUILD_EXAMINE : REBUILD_IDLE;
    return budget - 1;
}

void
rebuild_step(struct store_member *member)
{
    uint32_t budget = STEP_UNITS;
    while (budget != 0) {
        switch (member->rebuild.state) {
        case REBUILD_IDLE:
            budget = rebuild_next_wish(member, budget);
            break;
        case REBUILD_EXAMINE:
            budget = rebuild_examine(member, budget);
            break;
        case REBUILD_MOVE:
            budget = rebuild_move(member, budget);
            break;
        }
    }
}

bool
rebuild_wish(struct store_member *member, uint32_t segment)
{
    struct member_rebuild *rebuild = &member->rebuild;
    if (rebuild->wish_tail - rebuild->wish_head < REBUILD_WISHES) {
        rebuild->wishes[rebuild->wish_tail++ % REBUILD_WISHES] = segment;
        return true;
    }
    return false;
}

void
rebuild_notice(struct store_member *member, uint64_t table, uint32_t segment)
{
    uint32_t appended = add_relaxed(&member->store->index.segments[segment].appended, 1) + 1;
    /* Between 1/16 and 1/6 of the buckets: segments of the same age do not grow together. 1/8 is 5 keys a bucket. */
    uint32_t enough = 1 + ((1u << table_log2(table)) * (4 + segment % 8)) / 64;
    if (appended >= enough && appended % enough == 0) {
        rebuild_wish(member, segment);
    }
}
