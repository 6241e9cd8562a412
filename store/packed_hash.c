/* packed_hash.c - see packed_hash.h. */
#include "store/packed_hash.h"

#define LONG_FIELD 255 /* the length byte that says: two more bytes hold the length */

/* Bytes before the field. */
static size_t
prefix_bytes(size_t field_bytes)
{
    return field_bytes < LONG_FIELD ? 1 : 3;
}

static size_t
pair_bytes(const struct packed_pair *pair)
{
    return prefix_bytes(pair->field.bytes) + pair->field.bytes + pair->value.bytes;
}

static void
entry_split(struct slice entry, struct slice *field, struct slice *value)
{
    size_t at = 1, field_bytes = entry.data[0];
    if (UNLIKELY(field_bytes == LONG_FIELD)) {
        uint16_t length;
        memcpy(&length, entry.data + 1, sizeof(length));
        field_bytes = length;
        at = 3;
    }
    *field = slice_of(entry.data + at, field_bytes);
    *value = slice_of(entry.data + at + field_bytes, entry.bytes - at - field_bytes);
}

void
packed_hash_at(const struct packed *hash, uint32_t i, struct slice *field, struct slice *value)
{
    entry_split(packed_entry(hash, i), field, value);
}

uint32_t
packed_hash_find(const struct packed *hash, struct slice field, uint16_t tag, struct slice *value)
{
    uint32_t i = packed_tag_next(hash->tags, 0, hash->count, tag);
    while (i < hash->count) {
        struct slice candidate;
        entry_split(packed_entry(hash, i), &candidate, value);
        if (LIKELY(slice_equal(candidate, field))) {
            break;
        }
        i = packed_tag_next(hash->tags, i + 1, hash->count, tag);
    }
    return i;
}

static void
plan_begin(struct packed_hash_plan *plan, struct slice old, const struct packed_pair *pairs)
{
    plan->old = packed_hash_open(old);
    plan->pairs = pairs;
    plan->count = plan->old.count;
    plan->data_bytes = old.bytes == 0 ? 0 : old.bytes - packed_bytes(plan->old.count, 0, PACKED_HASH_ENTRY_BYTES);
    plan->added = plan->removed = plan->appended_count = 0;
    plan->keeps_layout = true;
    memset(plan->fate, 0, plan->old.count * sizeof(plan->fate[0]));
}

static void
plan_end(struct packed_hash_plan *plan)
{
    plan->bytes = packed_bytes(plan->count, plan->data_bytes, PACKED_HASH_ENTRY_BYTES);
}

/* The place in plan->appended of an equal field that came earlier in the command, or appended_count. */
static uint32_t
appended_find(const struct packed_hash_plan *plan, const struct packed_pair *pair)
{
    const uint8_t *tags = (const uint8_t *)plan->appended_tags;
    uint32_t i = packed_tag_next(tags, 0, plan->appended_count, pair->tag);
    while (i < plan->appended_count && !slice_equal(plan->pairs[plan->appended[i]].field, pair->field)) {
        i = packed_tag_next(tags, i + 1, plan->appended_count, pair->tag);
    }
    return i;
}

static void
plan_append(struct packed_hash_plan *plan, uint32_t index)
{
    const struct packed_pair *pair = &plan->pairs[index];
    uint32_t i = appended_find(plan, pair);
    plan->data_bytes += pair_bytes(pair);
    plan->keeps_layout = false;
    if (i < plan->appended_count) {
        plan->data_bytes -= pair_bytes(&plan->pairs[plan->appended[i]]);
    } else {
        plan->appended_tags[i] = pair->tag;
        plan->appended_count++;
        plan->count++;
        plan->added++;
    }
    plan->appended[i] = (uint16_t)index;
}

static void
plan_replace(struct packed_hash_plan *plan, uint32_t old_index, uint32_t index)
{
    uint16_t *fate = &plan->fate[old_index];
    size_t replaced = *fate == 0 ? packed_entry(&plan->old, old_index).bytes : pair_bytes(&plan->pairs[*fate - 1]);
    size_t replacing = pair_bytes(&plan->pairs[index]);
    plan->keeps_layout = plan->keeps_layout && replacing == replaced;
    plan->data_bytes = plan->data_bytes - replaced + replacing;
    *fate = (uint16_t)(index + 1);
}

bool
packed_hash_plan_set(struct packed_hash_plan *plan, struct slice old, const struct packed_pair *pairs,
                     uint32_t pairs_count)
{
    assert(pairs_count <= ARRAY_COUNT(plan->appended));
    plan_begin(plan, old, pairs);
    for (uint32_t i = 0; i < pairs_count; i++) {
        struct slice value;
        uint32_t found = packed_hash_find(&plan->old, pairs[i].field, pairs[i].tag, &value);
        if (found < plan->old.count) {
            plan_replace(plan, found, i);
        } else {
            plan_append(plan, i);
        }
    }
    plan_end(plan);
    return packed_fits(plan->count, plan->data_bytes, PACKED_HASH_ENTRY_BYTES);
}

void
packed_hash_plan_remove(struct packed_hash_plan *plan, struct slice old, const struct packed_pair *pairs,
                        uint32_t pairs_count)
{
    plan_begin(plan, old, pairs);
    for (uint32_t i = 0; i < pairs_count; i++) {
        struct slice value;
        uint32_t found = packed_hash_find(&plan->old, pairs[i].field, pairs[i].tag, &value);
        if (found < plan->old.count && plan->fate[found] == 0) {
            plan->fate[found] = PACKED_GONE;
            plan->keeps_layout = false;
            plan->data_bytes -= packed_entry(&plan->old, found).bytes;
            plan->count--;
            plan->removed++;
        }
    }
    plan_end(plan);
}

static void
write_pair(struct packed_writer *writer, const struct packed_pair *pair)
{
    uint8_t *at = packed_write_entry(writer, pair->tag, (uint32_t)pair_bytes(pair));
    uint16_t length = (uint16_t)pair->field.bytes;
    if (length < LONG_FIELD) {
        *at++ = (uint8_t)length;
    } else {
        *at++ = LONG_FIELD;
        memcpy(at, &length, sizeof(length));
        at += sizeof(length);
    }
    packed_put(packed_put(at, pair->field), pair->value);
}

/* Tags, ends and fields stay: only values are overwritten, in place. */
static void
write_values(const struct packed_hash_plan *plan, uint8_t *room)
{
    const uint8_t *old = plan->old.tags - PACKED_HEADER_BYTES;
    bytes_copy(room, old, plan->bytes);
    uint32_t i = packed_mark_next(plan->fate, 0, plan->old.count);
    while (i < plan->old.count) {
        struct slice field, value;
        packed_hash_at(&plan->old, i, &field, &value);
        packed_put(room + (value.data - old), plan->pairs[plan->fate[i] - 1].value);
        i = packed_mark_next(plan->fate, i + 1, plan->old.count);
    }
}

void
packed_hash_write(const struct packed_hash_plan *plan, uint8_t *room)
{
    if (plan->keeps_layout) {
        write_values(plan, room);
        return;
    }
    struct packed_writer writer = packed_write_begin(room, (uint32_t)plan->count, PACKED_HASH_ENTRY_BYTES);
    uint32_t at = 0;
    while (at < plan->old.count) {
        uint32_t changed = packed_mark_next(plan->fate, at, plan->old.count);
        packed_write_run(&writer, &plan->old, at, changed);
        if (changed < plan->old.count && plan->fate[changed] != PACKED_GONE) {
            write_pair(&writer, &plan->pairs[plan->fate[changed] - 1]);
        }
        at = changed + 1;
    }
    for (uint32_t i = 0; i < plan->appended_count; i++) {
        write_pair(&writer, &plan->pairs[plan->appended[i]]);
    }
    assert(writer.count == plan->count && writer.data_bytes == plan->data_bytes);
}
