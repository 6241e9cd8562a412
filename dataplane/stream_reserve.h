/* stream_reserve.h - what sessions keep for themselves, so that requests are read and answered when memory is full.
 *
 *   blocks  of an lcore: each session's first for what came and its first for what goes
 *   doors   of an lcore: session structs, so that an operator gets in
 *   hoard   of all lcores: one large request and one large reply at a time
 *
 * Taken from ordinary memory when the lcore begins, and what is given back fills it up again. Sessions do not reach the
 * pages that the store keeps for commands that shrink, and commands do not reach this. Who stands still with some of it
 * while others find none is closed: session_sweep(). */
#pragma once
#include "config/limits.h"
#include "config/sync.h"
#include "store/memory.h"

#define STREAM_BLOCK_BYTES  20480 /* a receive slot, and 4 KiB that came before it */
#define STREAM_BLOCKS       52    /* of an lcore: 1 MiB, if that is no more than its part of a */
#define STREAM_SHARE        32    /* of memory.limit for all lcores: dataplane_live.session_bytes */
#define STREAM_DOOR_BYTES   1024
#define STREAM_DOORS        64
/* The largest reply behind as much as lets a session go on, and room to see that a reply is too large. */
#define STREAM_HOARD_BLOCKS ((LIMIT_REPLY_BYTES + LIMIT_OUTPUT_SOFT_BYTES) / (STREAM_BLOCK_BYTES - 64) + 2)
#define STREAM_PAGE_BYTES   MEMORY_BLOCK_MAX /* a whole request, and a slot's bytes behind it */

/* Who has a part of the hoard: NULL, or whatever stands for its owner. Only he looks at the part. */
struct stream_hold {
    _Atomic uintptr_t holder;
    _Atomic bool wanted; /* somebody else asked since it was last claimed: relaxed, a hint */
};

struct stream_hoard {
    struct stream_hold reply, request;
    uint32_t count; /* of blocks: reply.holder's */
    void *blocks[STREAM_HOARD_BLOCKS];
    void *page; /* request.holder's; NULL: he has it, or it is yet to come */
};

struct stream_reserve { /* its lcore's alone; zeroed: there is nothing */
    struct memory_cache *memory;
    struct stream_hoard *hoard;
    uint32_t target, count, doors_target, door_count;
    uint32_t each; /* blocks that one stream of replies may have */
    uint32_t rest; /* calls of fill() to leave out: memory had nothing */
    bool wanted;   /* somebody found no block since one was last given */
    bool hoard_complete;
    void *blocks[STREAM_BLOCKS];
    void *doors[STREAM_DOORS];
};

/* `hoard` may be NULL: then there is one stream at a time, and it may have every block. */
void stream_reserve_init(struct stream_reserve *reserve, struct memory_cache *memory, struct stream_hoard *hoard,
                         uint64_t share_bytes);
void stream_reserve_fini(struct stream_reserve *reserve);
/* Its part of memory.limit is another now: more than that goes back, the next fills bring what is lacking. */
void stream_reserve_share(struct stream_reserve *reserve, uint64_t share_bytes);
/* A step towards what is to be kept: some blocks. Every tick. */
void stream_reserve_fill(struct stream_reserve *reserve);

/* STREAM_BLOCK_BYTES, or NULL. Half requests leave half of the blocks to replies: who only begins requests hurts nobody
 * else. */
enum stream_use { STREAM_FOR_REQUEST, STREAM_FOR_REPLY };
void *stream_block_take(struct stream_reserve *reserve, enum stream_use use);
/* Any block: one of STREAM_BLOCK_BYTES stays here while some are lacking. */
void stream_block_give(struct stream_reserve *reserve, void *block, size_t bytes);

/* Memory of STREAM_DOOR_BYTES, from ordinary memory when it has some. NULL: none. */
void *stream_door_take(struct stream_reserve *reserve);
void stream_door_give(struct stream_reserve *reserve, void *door);

/* `who` holds the part now, or did before. False: somebody else does, or there is no hoard. */
bool stream_hoard_claim(struct stream_hold *hold, const void *who);
void stream_hoard_release(struct stream_hold *hold);
/* Of the holder; NULL: none is left. */
void *stream_hoard_take_block(struct stream_hoard *hoard);
/* False: it is complete. */
bool stream_hoard_give_block(struct stream_hoard *hoard, void *block);
