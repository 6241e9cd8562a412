/* packed_zset.h - a small sorted set in one value: members in (score, member bytes) order, so an index is a rank.
 *
 * Layout as in packed.h; an entry's bytes are the member. Overhead: 2 bytes a set and 4 a member, beside the 8 of the
 * score. */
#pragma once
#include "store/packed.h"

struct packed_score {
    double score; /* never NaN */
    struct slice member;
    uint16_t tag; /* packed_tag() of the member */
};

static inline struct packed
packed_zset_open(struct slice value)
{
    return packed_open(value, PACKED_ZSET_ENTRY_BYTES);
}

static inline double
packed_zset_score(const struct packed *zset, uint32_t rank)
{
    double score;
    memcpy(&score, zset->scores + 8 * (size_t)rank, sizeof(score));
    return score;
}

static inline struct slice
packed_zset_member(const struct packed *zset, uint32_t rank)
{
    return packed_entry(zset, rank);
}

/* Rank of a member, or zset->count. Cost: as packed_hash_find(). */
uint32_t packed_zset_find(const struct packed *zset, struct slice member, uint16_t tag);

/* Bytes in memcmp's order, a prefix first. Negative, 0 or positive. */
int packed_member_compare(struct slice a, struct slice b);

/* First rank at or after `from` whose score is at least `score`, or above it when `above`. Cost: log2(count). */
uint32_t packed_zset_score_bound(const struct packed *zset, uint32_t from, double score, bool above);

/* The same by member bytes alone; means something where all scores are equal. */
uint32_t packed_zset_member_bound(const struct packed *zset, uint32_t from, struct slice member, bool above);

enum packed_zset_flag {
    PACKED_ZSET_NX = 1 << 0,   /* only new members */
    PACKED_ZSET_XX = 1 << 1,   /* only members that are there */
    PACKED_ZSET_GT = 1 << 2,   /* an existing score only grows */
    PACKED_ZSET_LT = 1 << 3,   /* an existing score only shrinks */
    PACKED_ZSET_INCR = 1 << 4, /* scores are added; one pair only */
};

/* What becomes of a sorted set. Lives on the stack of one change; borrows from the old value and from the pairs. */
struct packed_zset_plan {
    struct packed old;
    const struct packed_score *pairs;
    size_t count;      /* members afterwards; 0: the key goes */
    size_t data_bytes; /* data afterwards */
    size_t bytes;      /* of the new value: the room that packed_zset_write() fills */
    uint32_t added, updated, removed;
    bool touched;      /* a pair was not kept out by NX, XX, GT, LT */
    bool is_nan;       /* inf - inf: nothing is to be written */
    double last_score; /* of the last pair that was not kept out */

    uint16_t fate[LIMIT_PACKED_ENTRIES];    /* of each old entry: 0 stays, PACKED_GONE, else 1 + its place below */
    uint32_t last_rank;                     /* in the old set, of the old member that moved last */
    uint32_t moved_count;                   /* members that are new or got another score */
    uint16_t moved[LIMIT_REQUEST_ARGS / 2]; /* the pair that names the member */
    uint16_t tags[LIMIT_REQUEST_ARGS / 2];  /* of the same members */
    uint16_t order[LIMIT_REQUEST_ARGS / 2]; /* places in the three arrays around, in score order */
    double scores[LIMIT_REQUEST_ARGS / 2];  /* their final scores */
};

/* Add or rescore pairs one after the other, as Redis' ZADD does; `flags` of enum packed_zset_flag. `old` may be empty.
 * pairs_count is at most LIMIT_REQUEST_ARGS / 2.
 * Returns false when the result would exceed LIMIT_PACKED_ENTRIES or LIMIT_PACKED_BYTES. plan->added and plan->updated
 *         both 0: the set stays as it is, there is nothing to write. */
bool packed_zset_plan_add(struct packed_zset_plan *plan, struct slice old, uint32_t flags,
                          const struct packed_score *pairs, uint32_t pairs_count);

/* Remove every pair's member (its score is not looked at); plan->removed says how many were there. */
void packed_zset_plan_remove(struct packed_zset_plan *plan, struct slice old, const struct packed_score *pairs,
                             uint32_t pairs_count);

/* Write the new value: exactly plan->bytes. */
void packed_zset_write(const struct packed_zset_plan *plan, uint8_t *room);
