#include "store/memory_layout.h"
#include "store/memory_poison.h"

/* ---- pages: blocks above 4 KiB, and slabs ---- */

/* The caller lowered the page's count, so one set bit is its own, whoever else looks at the same word. */
static uint32_t
page_claim(struct memory_page *page)
{
    uint32_t words = (page->span.total + 63) / 64;
    for (;;) {
        for (uint32_t i = 0; i < words; i++) {
            uint64_t bits = load_relaxed(&page->free[i]);
            while (bits != 0) {
                uint32_t bit = (uint32_t)__builtin_ctzll(bits);
                /* acquire: pairs with the release in memory_page_give(); the block's last use is over */
                if (cas_acq_rel(&page->free[i], &bits, bits & ~(1ull << bit))) {
                    return i * 64 + bit;
                }
            }
        }
    }
}

/* Take a populated page for a class; its block 0 is the caller's. */
static void *
page_open(struct memory *memory, uint32_t class_index, enum memory_need need)
{
    struct memory_class *class = &memory->classes[class_index];
    uint32_t limit = load_relaxed(&memory->pages_limit);
    uint32_t kept = load_relaxed(&memory->pages_reserve), used = add_relaxed(&memory->pages_used, 1);

    if (used + (need == MEMORY_SHRINK ? 0 : kept) >= limit) {
        sub_relaxed(&memory->pages_used, 1);
        return NULL;
    }
    uint32_t index = memory_stack_pop(&memory->free_pages);
    if (index == MEMORY_NONE) {
        sub_relaxed(&memory->pages_used, 1);
        return NULL;
    }
    sub_relaxed(&memory->pages_free, 1);

    struct memory_page *page = &memory->pages[index];
    for (uint32_t i = 0; i < MEMORY_PAGE_BLOCKS / 64; i++) {
        uint32_t blocks = class->total > i * 64 ? MIN(class->total - i * 64, 64u) : 0;
        store_relaxed(&page->free[i], blocks == 64 ? ~0ull : (1ull << blocks) - 1);
    }
    and_relaxed(&page->free[0], ~1ull);
    page->span.total = class->total;
    store_relaxed(&page->kept, used + kept >= limit);
    uint64_t listed = class->total > 1 ? SPAN_LISTED : 0;
    /* release: pairs with the acquire in memory_page_take(); the bits and the total are written */
    store_release(&page->span.word, span_word(class->total - 1, 0, class_index, listed));
    if (listed != 0) {
        memory_stack_push(&class->stack, index);
    }
    return memory->base + ((size_t)index << MEMORY_PAGE_SHIFT);
}

/* The page on top has nothing left: take it off, unless it got a block back meanwhile. */
static void
page_unlist(struct memory_class *class, uint64_t head)
{
    uint32_t index = (uint32_t)head;
    struct memory_span *span = memory_stack_span(&class->stack, index);
    uint64_t without = (((head >> 32) + 1) << 32) | load_relaxed(&span->next);
    if (!cas_acq_rel(&class->stack.head, &head, without)) {
        return; /* somebody else is at it */
    }
    uint64_t word = load_acquire(&span->word);
    while (span_free(word) == 0) {
        if (cas_acq_rel(&span->word, &word, word & ~SPAN_LISTED)) {
            return; /* the next to give a block lists it again */
        }
    }
    memory_stack_push(&class->stack, index);
}

static bool
reserve_is_out(const struct memory *memory)
{
    return load_relaxed(&memory->pages_used) + load_relaxed(&memory->pages_reserve) >
           load_relaxed(&memory->pages_limit);
}

/* While a page of the reserve is out, what is left of it is not for growth (memory_page_take()). Slabs of no page are,
 * for every small class may need one; blocks of other pages are until so much is in use as the limit allows. */
static bool
reserve_forbids(const struct memory *memory, uint32_t class_index)
{
    return reserve_is_out(memory) && (class_index == MEMORY_SLAB_CLASS || load_relaxed(&memory->over_limit));
}

void *
memory_page_take(struct memory *memory, uint32_t class_index, enum memory_need need)
{
    struct memory_class *class = &memory->classes[class_index];
    if (UNLIKELY(need == MEMORY_GROWTH && reserve_forbids(memory, class_index))) {
        return NULL;
    }
    for (int try = 0; try < MEMORY_TRIES; try++) {
        uint64_t head = load_acquire(&class->stack.head);
        if ((uint32_t)head == MEMORY_NONE) {
            return need != MEMORY_LARGER ? page_open(memory, class_index, need) : NULL;
        }
        struct memory_page *page = &memory->pages[(uint32_t)head];
        if (UNLIKELY(load_relaxed(&page->kept)) && need == MEMORY_GROWTH && reserve_is_out(memory)) {
            return NULL;
        }
        uint64_t word = load_acquire(&page->span.word);
        if (span_free(word) == 0) {
            page_unlist(class, head);
            continue;
        }
        /* The class is part of the word: a page that was emptied and lent to another class fails here. */
        if (!span_in_class(word, class_index) || !cas_acq_rel(&page->span.word, &word, word - 1)) {
            continue;
        }
        if (span_free(word) == page->span.total) {
            sub_relaxed(&class->empty_spans, 1);
        }
        if (span_free(word) == 1) {
            page_unlist(class, head);
        }
        uint32_t block = page_claim(page);
        return memory->base + ((size_t)(uint32_t)head << MEMORY_PAGE_SHIFT) + (size_t)block * class->bytes;
    }
    return NULL;
}

void
memory_page_give(struct memory *memory, uint32_t class_index, void *block)
{
    struct memory_class *class = &memory->classes[class_index];
    struct memory_page *page = memory_page_of(memory, block);
    size_t offset = (size_t)((uint8_t *)block - memory->base) & (MEMORY_PAGE_BYTES - 1);
    uint32_t index = (uint32_t)(offset / class->bytes), total = page->span.total;

    uint64_t bits = load_relaxed(&page->free[index / 64]);
    assert((bits & 1ull << index % 64) == 0);
    /* the bit before the count: whoever lowers the count finds a bit */
    while (!cas_acq_rel(&page->free[index / 64], &bits, bits | 1ull << index % 64)) {
    }
    uint64_t word = load_relaxed(&page->span.word);
    while (!cas_acq_rel(&page->span.word, &word, (word + 1) | SPAN_LISTED)) {
    }
    if (span_free(word) + 1 == total) {
        add_relaxed(&class->empty_spans, 1);
    }
    if ((word & SPAN_LISTED) == 0) {
        memory_stack_push(&class->stack, (uint32_t)(page - memory->pages));
    }
}

/* ---- slabs: blocks up to 4 KiB ---- */

static inline uint8_t *
slab_base(const struct memory *memory, uint32_t index)
{
    return memory->base + ((size_t)index << MEMORY_SLAB_SHIFT);
}

void
memory_slab_give(struct memory *memory, uint32_t class_index, void *first, void *last, uint32_t count)
{
    struct memory_class *class = &memory->classes[class_index];
    uint32_t index = memory_slab_index(memory, first);
    struct memory_span *span = &memory->slabs[index];
    uint8_t *base = slab_base(memory, index);
    uint32_t total = span->total;
    uint64_t head = (uint64_t)((uint8_t *)first - base) / class->bytes + 1, word = load_acquire(&span->word), with;
    do {
        uint64_t below = (word >> SPAN_HEAD_SHIFT) & 0xffff;
        memory_link(last, below == 0 ? NULL : base + (below - 1) * class->bytes);
        with = span_word(span_free(word) + count, (uint32_t)head, class_index, SPAN_LISTED);
    } while (!cas_acq_rel(&span->word, &word, with)); /* release: pairs with the acquire in slab_take() */
    assert(span_free(with) <= total);
    if (span_free(with) == total) {
        add_relaxed(&class->empty_spans, 1);
    }
    if ((word & SPAN_LISTED) == 0) {
        memory_stack_push(&class->stack, index);
    }
}

/* All free blocks of a listed slab, or a new slab. */
static bool
slab_take(struct memory *memory, uint32_t class_index, struct memory_magazine *magazine, enum memory_need need)
{
    struct memory_class *class = &memory->classes[class_index];
    uint32_t index = memory_stack_pop(&class->stack);
    if (index != MEMORY_NONE) {
        struct memory_span *span = &memory->slabs[index];
        uint64_t word = load_acquire(&span->word);
        while (!cas_acq_rel(&span->word, &word, span_word(0, 0, class_index, 0))) {
        }
        if (span_free(word) == span->total) {
            sub_relaxed(&class->empty_spans, 1);
        }
        uint64_t head = (word >> SPAN_HEAD_SHIFT) & 0xffff;
        assert(head != 0 && span_in_class(word, class_index));
        magazine->chain = slab_base(memory, index) + (head - 1) * class->bytes;
        return true;
    }
    uint8_t *base = need != MEMORY_LARGER ? memory_page_take(memory, MEMORY_SLAB_CLASS, need) : NULL;
    if (base == NULL) {
        return false;
    }
    struct memory_span *span = &memory->slabs[memory_slab_index(memory, base)];
    span->total = class->total;
    /* release: pairs with the acquire in memory_slab_give(), which reads the total */
    store_release(&span->word, span_word(0, 0, class_index, 0));
    memory_poison(base, MEMORY_SLAB_BYTES);
    magazine->rest = base;
    magazine->limit = base + (size_t) class->total * class->bytes;
    return true;
}

/* ---- a member's magazines, and the depot between members ---- */

static inline void *
magazine_take(struct memory_magazine *magazine, uint32_t class_bytes)
{
    if (magazine->count != 0) {
        return magazine->blocks[--magazine->count];
    }
    if (magazine->chain != NULL) {
        void *block = magazine->chain;
        magazine->chain = memory_linked(block);
        return block;
    }
    if (magazine->rest != magazine->limit) {
        void *block = magazine->rest;
        magazine->rest += class_bytes;
        return block;
    }
    return NULL;
}

static bool
magazine_refill(struct memory_cache *cache, uint32_t class_index, enum memory_need need)
{
    struct memory *memory = cache->memory;
    struct memory_class *class = &memory->classes[class_index];
    uint32_t start = (uint32_t)(cache - memory->caches);
    for (uint32_t i = 0; i < MEMORY_DEPOT_CHAINS; i++) {
        _Atomic uintptr_t *at = &class->depot[(start + i) % MEMORY_DEPOT_CHAINS];
        if (load_relaxed(at) != 0) {
            /* acquire: pairs with the release in magazine_spill() */
            uintptr_t chain = exchange_acq_rel(at, (uintptr_t)0);
            if (chain != 0) {
                cache->magazines[class_index].chain = (void *)chain;
                return true;
            }
        }
    }
    return slab_take(memory, class_index, &cache->magazines[class_index], need);
}

/* The older half of a full magazine goes to the depot, or home when the depot is full. */
static void
magazine_spill(struct memory_cache *cache, uint32_t class_index)
{
    struct memory *memory = cache->memory;
    struct memory_class *class = &memory->classes[class_index];
    struct memory_magazine *magazine = &cache->magazines[class_index];
    uint32_t batch = class->batch, start = (uint32_t)(cache - memory->caches);

    for (uint32_t i = 0; i < batch; i++) {
        memory_link(magazine->blocks[i], i + 1 < batch ? magazine->blocks[i + 1] : NULL);
    }
    void *first = magazine->blocks[0];
    for (uint32_t i = 0; i < MEMORY_DEPOT_CHAINS && first != NULL; i++) {
        _Atomic uintptr_t *at = &class->depot[(start + i) % MEMORY_DEPOT_CHAINS];
        uintptr_t none = 0;
        if (load_relaxed(at) == 0 && cas_acq_rel(at, &none, (uintptr_t)first)) {
            first = NULL;
        }
    }
    for (uint32_t i = 0; i < batch && first != NULL; i++) {
        memory_slab_give(memory, class_index, magazine->blocks[i], magazine->blocks[i], 1);
    }
    magazine->count -= batch;
    memmove(magazine->blocks, magazine->blocks + batch, magazine->count * sizeof(void *));
}

static inline void *
class_take(struct memory_cache *cache, uint32_t class_index, uint32_t class_bytes, enum memory_need need)
{
    if (class_index >= MEMORY_SMALL_CLASSES) {
        return memory_page_take(cache->memory, class_index, need);
    }
    struct memory_magazine *magazine = &cache->magazines[class_index];
    void *block = magazine_take(magazine, class_bytes);
    if (UNLIKELY(block == NULL) && magazine_refill(cache, class_index, need)) {
        block = magazine_take(magazine, class_bytes);
    }
    return block;
}

void *
memory_class_take(struct memory_cache *cache, uint32_t class_index, enum memory_need need)
{
    return class_take(cache, class_index, cache->memory->classes[class_index].bytes, need);
}

static void *
cache_refused(struct memory_cache *cache, size_t bytes, enum memory_need need)
{
    bool for_ever = bytes > MEMORY_BLOCK_MAX;
    /* Who may use the reserve waits: others who do give back more than they took. */
    for_ever = for_ever || (need == MEMORY_GROWTH && load_relaxed(&cache->memory->exhausted));
    cache->refusal = for_ever ? MEMORY_AT_LIMIT : MEMORY_NO_PAGE;
    cache->refused_bytes = need == MEMORY_SHRINK ? bytes : 0;
    counter_add(&cache->page_misses, 1);
    return NULL;
}

static inline void *
cache_take(struct memory_cache *cache, size_t bytes, enum memory_need need)
{
    if (UNLIKELY(bytes > MEMORY_BLOCK_MAX)) {
        return cache_refused(cache, bytes, need);
    }
    uint32_t class_index = memory_class(bytes), class_bytes = cache->memory->classes[class_index].bytes;
    void *block = class_take(cache, class_index, class_bytes, need);
    if (UNLIKELY(block == NULL)) {
        return cache_refused(cache, bytes, need);
    }
    memory_claim(block, bytes);
    counter_add(&cache->taken_bytes, class_bytes);
    return block;
}

void *
memory_take(struct memory_cache *cache, size_t bytes)
{
    return cache_take(cache, bytes, MEMORY_GROWTH);
}

void *
memory_take_reserve(struct memory_cache *cache, size_t bytes)
{
    return cache_take(cache, bytes, MEMORY_SHRINK);
}

void *
memory_take_move(struct memory_cache *cache, size_t bytes)
{
    void *block = cache_take(cache, bytes, MEMORY_MOVE);
    return block != NULL || bytes <= MEMORY_SMALL_MAX ? block : memory_take_larger(cache, bytes, MEMORY_ALIGN);
}

void
memory_give(struct memory_cache *cache, void *block, size_t bytes)
{
    uint32_t class_index = memory_class(bytes), class_bytes = cache->memory->classes[class_index].bytes;
    assert(!memory_is_free(block)); /* given twice */
    counter_add(&cache->given_bytes, class_bytes);
    memory_poison(block, class_bytes);
    if (class_index >= MEMORY_SMALL_CLASSES) {
        memory_page_give(cache->memory, class_index, block);
        return;
    }
    struct memory_magazine *magazine = &cache->magazines[class_index];
    if (UNLIKELY(magazine->count == cache->memory->classes[class_index].magazine)) {
        magazine_spill(cache, class_index);
    }
    magazine->blocks[magazine->count++] = block;
}

/* ---- giving back what a member keeps ---- */

bool
memory_cache_drain(struct memory_cache *cache, uint32_t class_index, uint32_t budget)
{
    struct memory *memory = cache->memory;
    struct memory_magazine *magazine = &cache->magazines[class_index];
    uint32_t class_bytes = memory->classes[class_index].bytes;
    for (uint32_t i = 0; i < budget; i++) {
        void *block = magazine_take(magazine, class_bytes);
        if (block == NULL) {
            return false;
        }
        memory_slab_give(memory, class_index, block, block, 1);
    }
    return true;
}

void
memory_trim(struct memory_cache *cache)
{
    uint32_t round = load_relaxed(&cache->memory->emptying_round);
    if (UNLIKELY(round != cache->emptying_seen)) { /* blocks of the pages marked now may be among those kept */
        cache->emptying_seen = round;
        cache->drain_left = MEMORY_SMALL_CLASSES;
    }
    if (LIKELY(!load_relaxed(&cache->memory->pressure) && cache->drain_left == 0)) {
        return;
    }
    if (!memory_cache_drain(cache, cache->trim_class, MEMORY_TRIES)) {
        cache->trim_class = (cache->trim_class + 1) % MEMORY_SMALL_CLASSES;
        cache->drain_left -= cache->drain_left != 0;
    }
}

bool
memory_is_emptying(const struct memory *memory, const void *block)
{
    return load_relaxed(&memory->emptying_pages) != 0 &&
           memory_page_is_emptying(memory, (uint32_t)(memory_page_of(memory, block) - memory->pages));
}

/* ---- questions ---- */

size_t
memory_class_bytes(size_t bytes)
{
    if (bytes <= 256) {
        return bytes == 0 ? 16 : ALIGN_UP(bytes, 16);
    }
    uint32_t class_index = memory_class(bytes);
    if (class_index < 96) {
        uint32_t doubling = (class_index - 16) / 8, part = (class_index - 16) % 8;
        return ((size_t)256 << doubling) + (part + 1) * ((size_t)32 << doubling);
    }
    return MEMORY_PAGE_BYTES / (103 - class_index) / 16 * 16;
}

enum memory_refusal
memory_refusal(const struct memory_cache *cache)
{
    return cache->refusal;
}

size_t
memory_refused_bytes(const struct memory_cache *cache)
{
    return cache->refused_bytes;
}

bool
memory_over_limit(const struct memory *memory)
{
    return load_relaxed(&memory->over_limit);
}
