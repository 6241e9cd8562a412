/* packed_zset.c - see packed_zset.h. */
#include "store/packed_zset.h"

int
packed_member_compare(struct slice a, struct slice b)
{
    size_t common = MIN(a.bytes, b.bytes);
    int order = common == 0 ? 0 : memcmp(a.data, b.data, common);
    return order != 0 ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

uint32_t
packed_zset_find(const struct packed *zset, struct slice member, uint16_t tag)
{
    uint32_t i = packed_tag_next(zset->tags, 0, zset->count, tag);
    while (i < zset->count && !slice_equal(packed_entry(zset, i), member)) {
        i = packed_tag_next(zset->tags, i + 1, zset->count, tag);
    }
    return i;
}

uint32_t
packed_zset_score_bound(const struct packed *zset, uint32_t from, double score, bool above)
{
    uint32_t low = from, high = zset->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        double at = packed_zset_score(zset, middle);
        if (at < score || (above && at == score)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

uint32_t
packed_zset_member_bound(const struct packed *zset, uint32_t from, struct slice member, bool above)
{
    uint32_t low = from, high = zset->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = packed_member_compare(packed_zset_member(zset, middle), member);
        if (order < 0 || (above && order == 0)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void
plan_begin(struct packed_zset_plan *plan, struct slice old, const struct packed_score *pairs)
{
    plan->old = packed_zset_open(old);
    plan->pairs = pairs;
    plan->count = plan->old.count;
    plan->data_bytes = old.bytes == 0 ? 0 : old.bytes - packed_bytes(plan->old.count, 0, PACKED_ZSET_ENTRY_BYTES);
    plan->added = plan->updated = plan->removed = plan->moved_count = 0;
    plan->touched = plan->is_nan = false;
    plan->last_score = 0;
    memset(plan->fate, 0, plan->old.count * sizeof(plan->fate[0]));
}

static void
plan_end(struct packed_zset_plan *plan)
{
    plan->bytes = packed_bytes(plan->count, plan->data_bytes, PACKED_ZSET_ENTRY_BYTES);
}

/* The place of a member that this command added or moved, or moved_count. */
static uint32_t
moved_find(const struct packed_zset_plan *plan, const struct packed_score *pair)
{
    const uint8_t *tags = (const uint8_t *)plan->tags;
    uint32_t i = packed_tag_next(tags, 0, plan->moved_count, pair->tag);
    while (i < plan->moved_count && !slice_equal(plan->pairs[plan->moved[i]].member, pair->member)) {
        i = packed_tag_next(tags, i + 1, plan->moved_count, pair->tag);
    }
    return i;
}

static void
plan_move(struct packed_zset_plan *plan, uint32_t place, uint32_t index, double score)
{
    if (place == plan->moved_count) {
        plan->moved[place] = (uint16_t)index;
        plan->tags[place] = plan->pairs[index].tag;
        plan->moved_count++;
    }
    plan->scores[place] = score;
}

static void
plan_rescore(struct packed_zset_plan *plan, uint32_t rank, uint32_t place, uint32_t index, uint32_t flags)
{
    double current = place < plan->moved_count ? plan->scores[place] : packed_zset_score(&plan->old, rank);
    double score = plan->pairs[index].score;
    if (flags & PACKED_ZSET_NX) {
        return;
    }
    if (flags & PACKED_ZSET_INCR) {
        score += current;
        if (score != score) {
            plan->is_nan = true;
            return;
        }
    }
    if (((flags & PACKED_ZSET_GT) && score <= current) || ((flags & PACKED_ZSET_LT) && score >= current)) {
        return;
    }
    plan->touched = true;
    plan->last_score = score;
    if (score != current) {
        if (rank < plan->old.count) {
            plan->fate[rank] = (uint16_t)(place + 1);
            plan->last_rank = rank;
        }
        plan_move(plan, place, index, score);
        plan->updated++;
    }
}

static void
plan_pair(struct packed_zset_plan *plan, uint32_t index, uint32_t flags)
{
    const struct packed_score *pair = &plan->pairs[index];
    uint32_t rank = packed_zset_find(&plan->old, pair->member, pair->tag);
    uint32_t place = plan->moved_count;
    if (rank == plan->old.count) {
        place = moved_find(plan, pair);
    } else if (plan->fate[rank] != 0) {
        place = plan->fate[rank] - 1u;
    }

    if (rank < plan->old.count || place < plan->moved_count) {
        plan_rescore(plan, rank, place, index, flags);
    } else if (!(flags & PACKED_ZSET_XX)) {
        plan_move(plan, place, index, pair->score);
        plan->touched = true;
        plan->last_score = pair->score;
        plan->data_bytes += pair->member.bytes;
        plan->count++;
        plan->added++;
    }
}

static bool
moved_before(const struct packed_zset_plan *plan, uint16_t a, uint16_t b)
{
    if (plan->scores[a] != plan->scores[b]) {
        return plan->scores[a] < plan->scores[b];
    }
    return packed_member_compare(plan->pairs[plan->moved[a]].member, plan->pairs[plan->moved[b]].member) < 0;
}

/* Merge sort from the bottom up: n log n compares whatever the order of arrival, and no recursion. */
static void
plan_sort(struct packed_zset_plan *plan)
{
    uint16_t spare[ARRAY_COUNT(plan->order)];
    uint32_t count = plan->moved_count;
    for (uint32_t i = 0; i < count; i++) {
        plan->order[i] = (uint16_t)i;
    }
    for (uint32_t width = 1; width < count; width *= 2) {
        for (uint32_t start = 0; start < count; start += 2 * width) {
            uint32_t middle = MIN(start + width, count), end = MIN(start + 2 * width, count);
            uint32_t left = start, right = middle;
            for (uint32_t out = start; out < end; out++) {
                bool take_right =
                    left == middle || (right < end && moved_before(plan, plan->order[right], plan->order[left]));
                spare[out] = plan->order[take_right ? right++ : left++];
            }
        }
        memcpy(plan->order, spare, count * sizeof(spare[0]));
    }
}

bool
packed_zset_plan_add(struct packed_zset_plan *plan, struct slice old, uint32_t flags, const struct packed_score *pairs,
                     uint32_t pairs_count)
{
    assert(pairs_count <= ARRAY_COUNT(plan->moved));
    plan_begin(plan, old, pairs);
    for (uint32_t i = 0; i < pairs_count; i++) {
        plan_pair(plan, i, flags);
    }
    plan_end(plan);
    if (!packed_fits(plan->count, plan->data_bytes, PACKED_ZSET_ENTRY_BYTES)) {
        return false; /* unsorted: the members of a request may be far longer than those of a set */
    }
    plan_sort(plan);
    return true;
}

void
packed_zset_plan_remove(struct packed_zset_plan *plan, struct slice old, const struct packed_score *pairs,
                        uint32_t pairs_count)
{
    plan_begin(plan, old, pairs);
    for (uint32_t i = 0; i < pairs_count; i++) {
        uint32_t rank = packed_zset_find(&plan->old, pairs[i].member, pairs[i].tag);
        if (rank < plan->old.count && plan->fate[rank] == 0) {
            plan->fate[rank] = PACKED_GONE;
            plan->data_bytes -= packed_entry(&plan->old, rank).bytes;
            plan->count--;
            plan->removed++;
        }
    }
    plan_end(plan);
}

/* The rank in the old set before which a moved member goes. Entries that leave keep their old scores in the old set, so
 * it is still in order. */
static uint32_t
rank_of_moved(const struct packed_zset_plan *plan, uint32_t from, uint16_t place)
{
    struct slice member = plan->pairs[plan->moved[place]].member;
    double score = plan->scores[place];
    uint32_t low = from, high = plan->old.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        double at = packed_zset_score(&plan->old, middle);
        bool before =
            at < score || (at == score && packed_member_compare(packed_entry(&plan->old, middle), member) < 0);
        if (before) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void
write_moved(const struct packed_zset_plan *plan, struct packed_writer *writer, uint16_t place)
{
    const struct packed_score *pair = &plan->pairs[plan->moved[place]];
    memcpy(writer->scores + 8 * (size_t)writer->count, &plan->scores[place], sizeof(double));
    packed_put(packed_write_entry(writer, pair->tag, (uint32_t)pair->member.bytes), pair->member);
}

/* The score of one old member, which keeps its rank: copy and overwrite. */
static void
write_score(const struct packed_zset_plan *plan, uint8_t *room)
{
    const uint8_t *old = plan->old.tags - PACKED_HEADER_BYTES;
    bytes_copy(room, old, plan->bytes);
    memcpy(room + (plan->old.scores - old) + 8 * (size_t)plan->last_rank, &plan->scores[0], sizeof(double));
}

static void
write_run_without(const struct packed_zset_plan *plan, struct packed_writer *writer, uint32_t from, uint32_t end,
                  uint32_t gone)
{
    if (gone >= from && gone < end) {
        packed_write_run(writer, &plan->old, from, gone);
        from = gone + 1;
    }
    packed_write_run(writer, &plan->old, from, end);
}

/* One member, new or with another score: most commands. At most three runs, and no look at the marks. */
static void
write_one(const struct packed_zset_plan *plan, uint8_t *room)
{
    uint32_t count = plan->old.count, rank = rank_of_moved(plan, 0, 0);
    uint32_t gone = plan->added == 0 ? plan->last_rank : count;
    if (gone < count && (rank == gone || rank == gone + 1)) {
        write_score(plan, room);
        return;
    }
    struct packed_writer writer = packed_write_begin(room, (uint32_t)plan->count, PACKED_ZSET_ENTRY_BYTES);
    write_run_without(plan, &writer, 0, rank, gone);
    write_moved(plan, &writer, 0);
    write_run_without(plan, &writer, rank, count, gone);
}

void
packed_zset_write(const struct packed_zset_plan *plan, uint8_t *room)
{
    if (plan->moved_count == 1) {
        write_one(plan, room);
        return;
    }
    struct packed_writer writer = packed_write_begin(room, (uint32_t)plan->count, PACKED_ZSET_ENTRY_BYTES);
    uint32_t at = 0;
    for (uint32_t i = 0; i < plan->moved_count; i++) {
        uint16_t place = plan->order[i];
        uint32_t rank = rank_of_moved(plan, at, place);
        packed_write_unmarked(&writer, &plan->old, plan->fate, at, rank);
        write_moved(plan, &writer, place);
        at = rank;
    }
    packed_write_unmarked(&writer, &plan->old, plan->fate, at, plan->old.count);
    assert(writer.count == plan->count && writer.data_bytes == plan->data_bytes);
}
