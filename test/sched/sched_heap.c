/* Simulated memory: one arena, its blocks, who wrote and read each word last, and its contents at the snapshot. */
#include "test/sched/sched_private.h"

#define ARENA_BYTES (64 * MIB)
#define GRANULE     16u  /* a block begins at a multiple of it */
#define WORD        8u   /* plain accesses are told apart so finely */
#define CHUNK       512u /* restored as a whole */
#define BLOCKS_MOST (1u << 16)
#define QUIET_MOST  32

enum block_state { BLOCK_MAPPED, BLOCK_LENT, BLOCK_GIVEN };

struct block {
    size_t at, bytes;
    enum block_state state;
    uint32_t taken_by, given_by, given_step;
    uint64_t taken_execution;
    uint64_t publications; /* of its taker, when it was taken */
};

/* Plain accesses to one word in execution `execution`. */
struct word {
    uint32_t execution, write_time, write_seat, read_time[SCHED_SEATS];
};

static struct heap {
    uint8_t *arena, *snapshot;
    struct word *words;
    uint32_t *block_of; /* index + 1 of the block at each granule, 0: none */
    uint8_t *chunk_dirty;
    uint32_t *dirty;
    uint32_t dirty_count;
    size_t used, used_at_snapshot, touched; /* bytes; `touched`: the most ever used in this scene */
    uint32_t block_count, block_count_at_snapshot;
    struct block blocks[BLOCKS_MOST], blocks_at_snapshot[BLOCKS_MOST];
    struct {
        uintptr_t from, to;
    } quiet[QUIET_MOST];
    uint32_t quiet_count;
    uint32_t execution;
    uint64_t publications[SCHED_SEATS];
    size_t lent_bytes, lent_at_snapshot;
} heap;

/* ---- the arena ---- */

void
heap_open(void)
{
    if (heap.arena == NULL) {
        heap.arena = sched_pages(ARENA_BYTES);
        heap.snapshot = sched_pages(ARENA_BYTES);
        heap.words = sched_pages(ARENA_BYTES / WORD * sizeof(*heap.words));
        heap.block_of = sched_pages(ARENA_BYTES / GRANULE * sizeof(*heap.block_of));
        heap.chunk_dirty = sched_pages(ARENA_BYTES / CHUNK);
        heap.dirty = sched_pages(ARENA_BYTES / CHUNK * sizeof(*heap.dirty));
    } else {
        __real_memset(heap.arena, 0, heap.touched);
        __real_memset(heap.chunk_dirty, 0, ARENA_BYTES / CHUNK);
    }
    heap.dirty_count = heap.block_count = heap.quiet_count = 0;
    heap.used = heap.touched = heap.lent_bytes = 0;
}

void
heap_snapshot(void)
{
    __real_memcpy(heap.snapshot, heap.arena, heap.used);
    __real_memcpy(heap.blocks_at_snapshot, heap.blocks, heap.block_count * sizeof(heap.blocks[0]));
    heap.used_at_snapshot = heap.used;
    heap.block_count_at_snapshot = heap.block_count;
    heap.lent_at_snapshot = heap.lent_bytes;
    __real_memset(heap.chunk_dirty, 0, ARENA_BYTES / CHUNK);
    heap.dirty_count = 0;
}

static void
restore(void)
{
    for (uint32_t i = 0; i < heap.dirty_count; i++) {
        size_t at = (size_t)heap.dirty[i] * CHUNK;
        heap.chunk_dirty[heap.dirty[i]] = 0;
        if (at < heap.used_at_snapshot) {
            __real_memcpy(heap.arena + at, heap.snapshot + at, CHUNK);
        }
    }
    heap.dirty_count = 0;
    __real_memcpy(heap.blocks, heap.blocks_at_snapshot, heap.block_count_at_snapshot * sizeof(heap.blocks[0]));
    heap.block_count = heap.block_count_at_snapshot;
    heap.used = heap.used_at_snapshot;
    heap.lent_bytes = heap.lent_at_snapshot;
}

void
heap_begin_execution(void)
{
    restore();
    heap.execution++;
    for (uint32_t i = 0; i < SCHED_SEATS; i++) {
        heap.publications[i] = 0;
    }
}

void
heap_check_restored(void)
{
    restore();
    CHECK(__real_memcmp(heap.arena, heap.snapshot, heap.used_at_snapshot) == 0);
}

bool
heap_contains(const void *p)
{
    return (uintptr_t)p - (uintptr_t)heap.arena < heap.used;
}

static void
mark_dirty(const void *p, size_t bytes)
{
    size_t at = (uintptr_t)p - (uintptr_t)heap.arena;
    for (size_t chunk = at / CHUNK; chunk <= (at + bytes - 1) / CHUNK; chunk++) {
        if (heap.chunk_dirty[chunk] == 0) {
            heap.chunk_dirty[chunk] = 1;
            heap.dirty[heap.dirty_count++] = (uint32_t)chunk;
        }
    }
}

void
heap_write(void *p, uint64_t value, uint32_t bytes)
{
    if (heap_contains(p)) {
        mark_dirty(p, bytes);
    }
    __real_memcpy(p, &value, bytes); /* little-endian */
}

/* ---- blocks ---- */

static size_t
class_bytes(size_t bytes)
{
    return ALIGN_UP(MAX(bytes, 1ul), GRANULE);
}

/* Sizes that are powers of two are aligned to themselves, as memory.h promises. */
static size_t
block_alignment(size_t bytes)
{
    bool power = (bytes & (bytes - 1)) == 0;
    return power && bytes >= GRANULE && bytes <= 64 * KIB ? bytes : GRANULE;
}

static struct block *
block_new(size_t bytes, size_t alignment, enum block_state state)
{
    size_t at = ALIGN_UP(heap.used, alignment), end = at + class_bytes(bytes);
    if (end > ARENA_BYTES || heap.block_count == BLOCKS_MOST) {
        return NULL;
    }
    for (size_t granule = heap.used / GRANULE; granule < at / GRANULE; granule++) {
        heap.block_of[granule] = 0;
    }
    struct block *block = &heap.blocks[heap.block_count++];
    *block = (struct block){ .at = at, .bytes = bytes, .state = state, .taken_by = sched_seat() };
    block->taken_execution = sched_running() ? heap.execution : 0;
    block->publications = heap.publications[sched_seat()];
    for (size_t granule = at / GRANULE; granule < end / GRANULE; granule++) {
        heap.block_of[granule] = heap.block_count;
    }
    heap.used = end;
    heap.touched = MAX(heap.touched, end);
    return block;
}

static struct block *
block_at(const void *p)
{
    uint32_t index = heap.block_of[((uintptr_t)p - (uintptr_t)heap.arena) / GRANULE];
    return index != 0 ? &heap.blocks[index - 1] : NULL;
}

void *
sched_map(size_t bytes)
{
    CHECK(!sched_running());
    struct block *block = block_new(bytes, 4096, BLOCK_MAPPED);
    CHECK(block != NULL);
    return heap.arena + block->at;
}

void *
sched_take(size_t bytes)
{
    struct block *block = block_new(bytes, block_alignment(bytes), BLOCK_LENT);
    if (block == NULL) {
        return NULL;
    }
    heap.lent_bytes += class_bytes(bytes);
    sched_trace("takes %zu bytes [%p]", bytes, (void *)(heap.arena + block->at));
    return heap.arena + block->at;
}

/* The last use of every other thread must be ordered before: who takes the block next may write to it. */
void
sched_give(void *p, size_t bytes)
{
    heap_check_access(p, 1, HEAP_WRITE);
    struct block *block = block_at(p);
    if (block->state != BLOCK_LENT || heap.arena + block->at != p || class_bytes(block->bytes) != class_bytes(bytes)) {
        sched_fail("gives back %zu bytes at %p, which is no such block", bytes, p);
    }
    bytes = block->bytes;
    sched_trace("gives %zu bytes [%p]", bytes, p);
    if (sched_running()) {
        heap_plain(p, bytes, HEAP_WRITE);
        if (!atomic_forget((uintptr_t)p, bytes)) {
            sched_fail("gives back a block of %zu bytes that another thread may still be using", bytes);
        }
    }
    mark_dirty(p, bytes);
    __real_memset(p, 0xd5, bytes);
    block->state = BLOCK_GIVEN;
    block->given_by = sched_seat();
    block->given_step = sched_step();
    heap.lent_bytes -= class_bytes(bytes);
}

size_t
sched_lent_bytes(void)
{
    return heap.lent_bytes;
}

/* ---- is an access right? ---- */

static const char *
access_name(enum heap_access access)
{
    static const char *names[] = { "reads", "writes", "accesses (atomic)" };
    return names[access];
}

void
heap_check_access(const void *p, size_t bytes, enum heap_access access)
{
    if (!heap_contains(p)) {
        return;
    }
    const struct block *block = block_at(p);
    size_t at = (uintptr_t)p - (uintptr_t)heap.arena;
    if (block == NULL || at + bytes > block->at + block->bytes) {
        sched_fail("%s %zu bytes beyond a block", access_name(access), bytes);
    }
    if (block->state == BLOCK_GIVEN) {
        sched_fail("%s byte %zu of a block of %zu that thread %u gave back at step %u", access_name(access),
                   at - block->at, block->bytes, block->given_by, block->given_step);
    }
}

static struct word *
word_at(size_t index)
{
    struct word *word = &heap.words[index];
    if (word->execution != heap.execution) {
        *word = (struct word){ .execution = heap.execution };
    }
    return word;
}

/* A plain access belongs to the epoch of the atomic operation that comes after it: a release publishes it. */
static void
word_access(struct word *word, const struct block *block, enum heap_access access)
{
    const uint32_t *hb = sched_sight()->now.hb;
    uint32_t seat = sched_seat(), time = hb[seat] + 1;
    if (word->write_seat != seat && word->write_time > hb[word->write_seat]) {
        sched_fail("%s a word of a block of %zu bytes that thread %u wrote, unordered: a data race",
                   access_name(access), block->bytes, word->write_seat);
    }
    if (access == HEAP_READ) {
        if (word->write_time == 0 && block->taken_execution == heap.execution) {
            sched_fail("reads a word of a new block of %zu bytes that nobody has written", block->bytes);
        }
        word->read_time[seat] = time;
        return;
    }
    for (uint32_t i = 1; i < SCHED_SEATS; i++) {
        if (i != seat && word->read_time[i] > hb[i]) {
            sched_fail("writes a word of a block of %zu bytes that thread %u reads, unordered: a data race",
                       block->bytes, i);
        }
    }
    word->write_seat = seat;
    word->write_time = time;
}

void
heap_plain(const void *p, size_t bytes, enum heap_access access)
{
    if (!heap_contains(p) || bytes == 0) {
        return;
    }
    heap_check_access(p, bytes, access);
    if (access == HEAP_WRITE) {
        mark_dirty(p, bytes);
    }
    if (!sched_running()) {
        return;
    }
    const struct block *block = block_at(p);
    size_t at = (uintptr_t)p - (uintptr_t)heap.arena;
    for (size_t index = at / WORD; index <= (at + bytes - 1) / WORD; index++) {
        word_access(word_at(index), block, access);
    }
}

enum heap_origin
heap_origin(const void *p, uint32_t *seat, uint32_t *time)
{
    if (!heap_contains(p)) {
        return HEAP_SNAPSHOT;
    }
    const struct word *word = word_at(((uintptr_t)p - (uintptr_t)heap.arena) / WORD);
    if (word->write_time != 0) {
        *seat = word->write_seat;
        *time = word->write_time;
        return HEAP_PLAIN;
    }
    return block_at(p)->taken_execution == heap.execution ? HEAP_UNINITIALISED : HEAP_SNAPSHOT;
}

/* ---- which operations others can meet ---- */

void
sched_quiet(const void *p, size_t bytes)
{
    CHECK(heap_contains(p) && heap.quiet_count < QUIET_MOST);
    heap.quiet[heap.quiet_count].from = (uintptr_t)p;
    heap.quiet[heap.quiet_count++].to = (uintptr_t)p + bytes;
}

bool
heap_is_quiet(const void *p)
{
    for (uint32_t i = 0; i < heap.quiet_count; i++) {
        if ((uintptr_t)p - heap.quiet[i].from < heap.quiet[i].to - heap.quiet[i].from) {
            return true;
        }
    }
    return false;
}

bool
heap_is_private(const void *p)
{
    if (!heap_contains(p)) {
        return false;
    }
    const struct block *block = block_at(p);
    return block->taken_execution == heap.execution && block->taken_by == sched_seat() &&
           block->publications == heap.publications[sched_seat()];
}

void
heap_publish(void)
{
    heap.publications[sched_seat()]++;
}
