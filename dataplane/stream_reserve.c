#include "dataplane/stream_reserve.h"

#define FILL_BLOCKS 64 /* a call: 10 us; clients may fill all memory within 50 ms of the start */
#define FILL_RESTS  64 /* calls left out when memory is full: each look at full memory asks others to make room */

void
stream_reserve_init(struct stream_reserve *reserve, struct memory_cache *memory, struct stream_hoard *hoard,
                    uint64_t share_bytes)
{
    *reserve = (struct stream_reserve){ .memory = memory, .hoard = hoard };
    reserve->hoard_complete = hoard == NULL;
    reserve->doors_target = hoard != NULL ? STREAM_DOORS : 0;
    stream_reserve_share(reserve, share_bytes);
}

void
stream_reserve_share(struct stream_reserve *reserve, uint64_t share_bytes)
{
    reserve->target = (uint32_t)MIN(MAX(share_bytes / STREAM_BLOCK_BYTES, 2ull), (uint64_t)STREAM_BLOCKS);
    reserve->each = reserve->hoard != NULL ? 1 : reserve->target;
    while (reserve->count > reserve->target) { /* it had STREAM_BLOCKS at most */
        memory_give(reserve->memory, reserve->blocks[--reserve->count], STREAM_BLOCK_BYTES);
    }
}

void
stream_reserve_fini(struct stream_reserve *reserve)
{
    reserve->target = reserve->doors_target = 0;
    while (reserve->count > 0) {
        memory_give(reserve->memory, reserve->blocks[--reserve->count], STREAM_BLOCK_BYTES);
    }
    while (reserve->door_count > 0) {
        memory_give(reserve->memory, reserve->doors[--reserve->door_count], STREAM_DOOR_BYTES);
    }
}

/* ---- filling ---- */

/* True: memory had what was lacking. */
static bool
fill_own(struct stream_reserve *reserve)
{
    for (uint32_t i = 0; i < FILL_BLOCKS && reserve->count < reserve->target; i++) {
        void *block = memory_take(reserve->memory, STREAM_BLOCK_BYTES);
        if (block == NULL) {
            return false;
        }
        reserve->blocks[reserve->count++] = block;
    }
    for (uint32_t i = 0; i < FILL_BLOCKS && reserve->door_count < reserve->doors_target; i++) {
        void *door = memory_take(reserve->memory, STREAM_DOOR_BYTES);
        if (door == NULL) {
            return false;
        }
        reserve->doors[reserve->door_count++] = door;
    }
    return true;
}

/* Nobody holds it, so nobody has to wait because it is looked at. */
static bool
hold_is_free(struct stream_hold *hold, const void *who)
{
    return load_relaxed(&hold->holder) == 0 && stream_hoard_claim(hold, who);
}

/* Who holds a part leaves it complete, so it is filled once. */
static bool
fill_hoard(struct stream_reserve *reserve)
{
    struct stream_hoard *hoard = reserve->hoard;
    bool had = true, complete = false;
    if (hold_is_free(&hoard->reply, reserve)) {
        for (uint32_t i = 0; i < FILL_BLOCKS && hoard->count < STREAM_HOARD_BLOCKS && had; i++) {
            void *block = memory_take(reserve->memory, STREAM_BLOCK_BYTES);
            had = block != NULL && stream_hoard_give_block(hoard, block);
        }
        complete = hoard->count == STREAM_HOARD_BLOCKS;
        stream_hoard_release(&hoard->reply);
    }
    if (complete && hold_is_free(&hoard->request, reserve)) {
        hoard->page = hoard->page != NULL ? hoard->page : memory_take(reserve->memory, STREAM_PAGE_BYTES);
        had = reserve->hoard_complete = hoard->page != NULL;
        stream_hoard_release(&hoard->request);
    }
    return had;
}

void
stream_reserve_fill(struct stream_reserve *reserve)
{
    if (UNLIKELY(reserve->rest > 0)) {
        reserve->rest--;
    } else if (!fill_own(reserve) || !(reserve->hoard_complete || fill_hoard(reserve))) {
        bool full = memory_refusal(reserve->memory) == MEMORY_AT_LIMIT; /* else pages are on their way */
        reserve->rest = full ? FILL_RESTS : 0;
    }
}

/* ---- an lcore's own ---- */

void *
stream_block_take(struct stream_reserve *reserve, enum stream_use use)
{
    uint32_t left = use == STREAM_FOR_REQUEST ? reserve->target / 2 : 0;
    if (reserve->count <= left) {
        reserve->wanted = true;
        return NULL;
    }
    return reserve->blocks[--reserve->count];
}

void
stream_block_give(struct stream_reserve *reserve, void *block, size_t bytes)
{
    if (bytes == STREAM_BLOCK_BYTES && reserve->count < reserve->target) {
        reserve->blocks[reserve->count++] = block;
        reserve->wanted = false;
    } else {
        memory_give(reserve->memory, block, bytes);
    }
}

void *
stream_door_take(struct stream_reserve *reserve)
{
    void *door = memory_take(reserve->memory, STREAM_DOOR_BYTES);
    if (UNLIKELY(door == NULL) && reserve->door_count > 0) {
        door = reserve->doors[--reserve->door_count];
    }
    return door;
}

void
stream_door_give(struct stream_reserve *reserve, void *door)
{
    if (reserve->door_count < reserve->doors_target) {
        reserve->doors[reserve->door_count++] = door;
    } else {
        memory_give(reserve->memory, door, STREAM_DOOR_BYTES);
    }
}

/* ---- the hoard ---- */

bool
stream_hoard_claim(struct stream_hold *hold, const void *who)
{
    uintptr_t holder = load_relaxed(&hold->holder), mine = (uintptr_t)who;
    if (holder == mine) {
        return true;
    }
    /* acquire: pairs with the release in stream_hoard_release(); the part is complete again */
    if (holder != 0 || !cas_acq_rel(&hold->holder, &holder, mine)) {
        store_relaxed(&hold->wanted, true);
        return false;
    }
    store_relaxed(&hold->wanted, false);
    return true;
}

void
stream_hoard_release(struct stream_hold *hold)
{
    store_release(&hold->holder, (uintptr_t)0); /* pairs with the acquire in stream_hoard_claim() */
}

void *
stream_hoard_take_block(struct stream_hoard *hoard)
{
    return hoard->count > 0 ? hoard->blocks[--hoard->count] : NULL;
}

bool
stream_hoard_give_block(struct stream_hoard *hoard, void *block)
{
    if (hoard->count == STREAM_HOARD_BLOCKS) {
        return false;
    }
    hoard->blocks[hoard->count++] = block;
    return true;
}
