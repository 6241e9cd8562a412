/* memory_home.c - blocks that may not go where their size says: of a larger class, or in a page that is being emptied.
 */
#include "store/memory_layout.h"
#include "store/memory_poison.h"

/* Of a block that is lent: until it comes back, its span stays in its class. */
static uint32_t
block_class(const struct memory *memory, const void *block)
{
    uint32_t class_index = span_class(load_relaxed(&memory_page_of(memory, block)->span.word));
    if (class_index != MEMORY_SLAB_CLASS) {
        return class_index;
    }
    uint32_t small = span_class(load_relaxed(&memory->slabs[memory_slab_index(memory, block)].word));
    return small < MEMORY_SMALL_CLASSES ? small : class_index; /* else it is the page's block, lent whole */
}

/* One block more is lent for `asked`, or, UINT32_MAX, one less: modulo 2^32. */
static void
larger_count(struct memory *memory, const void *block, uint32_t class_index, uint32_t asked, uint32_t blocks)
{
    struct memory_page *page = memory_page_of(memory, block);
    uint32_t rest = memory->classes[class_index].bytes - memory->classes[asked].bytes;
    add_relaxed(&page->larger_blocks, blocks);
    add_relaxed(&page->larger_bytes, blocks * rest);
    add_relaxed(&memory->larger_blocks, blocks);
}

void *
memory_take_larger(struct memory_cache *cache, size_t bytes, size_t align)
{
    struct memory *memory = cache->memory;
    uint32_t asked = memory_class(bytes);
    for (uint32_t class_index = asked + 1; class_index < MEMORY_CLASSES; class_index++) {
        bool aligned = memory->classes[class_index].bytes % align == 0;
        void *block = aligned ? memory_class_take(cache, class_index, MEMORY_LARGER) : NULL;
        if (block != NULL) {
            larger_count(memory, block, class_index, asked, 1);
            memory_claim(block, bytes);
            counter_add(&cache->taken_bytes, memory->classes[asked].bytes);
            counter_add(&cache->larger_takes, 1);
            return block;
        }
    }
    return NULL;
}

bool
memory_gives_home(const struct memory_cache *cache)
{
    const struct memory *memory = cache->memory;
    return load_relaxed(&memory->emptying_pages) != 0 || load_relaxed(&memory->larger_blocks) != 0;
}

void
memory_give_home(struct memory_cache *cache, void *block, size_t bytes)
{
    struct memory *memory = cache->memory;
    uint32_t asked = memory_class(bytes);
    /* Whoever lent it counted it before it could pass to anybody else: while it is out, nobody reads 0 here. */
    uint32_t class_index = load_relaxed(&memory->larger_blocks) == 0 ? asked : block_class(memory, block);
    bool small = class_index < MEMORY_SMALL_CLASSES;
    if (LIKELY(class_index == asked && !(small && memory_is_emptying(memory, block)))) {
        memory_give(cache, block, bytes);
        return;
    }
    assert(!memory_is_free(block)); /* given twice */
    counter_add(&cache->given_bytes, memory->classes[asked].bytes);
    memory_poison(block, memory->classes[class_index].bytes);
    if (class_index != asked) {
        larger_count(memory, block, class_index, asked, UINT32_MAX);
    }
    if (small) {
        memory_slab_give(memory, class_index, block, block, 1);
    } else {
        memory_page_give(memory, class_index, block);
    }
}
