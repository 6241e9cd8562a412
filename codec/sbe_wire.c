/* sbe_wire.c - validation of SBE messages by table. */
#include "codec/sbe_wire.h"

static uint64_t
load_unsigned(const uint8_t *at, uint8_t bytes)
{
    switch (bytes) {
    case 1:
        return *at;
    case 2:
        return sbe_load_uint16(at);
    case 4:
        return sbe_load_uint32(at);
    default:
        return sbe_load_uint64(at);
    }
}

static inline bool
values_allowed(const struct sbe_check *checks, uint32_t count, const uint8_t *block)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *at = block + checks[i].offset;
        uint64_t value = LIKELY(checks[i].bytes == 1) ? *at : load_unsigned(at, checks[i].bytes);
        uint64_t allowed = checks[i].allowed;
        bool good = checks[i].is_set ? (value & ~allowed) == 0 : value < 64 && (allowed >> value & 1) != 0;
        if (UNLIKELY(!good)) {
            return false;
        }
    }
    return true;
}

/* The rule of evolution: exact for a version we know, at least ours for a newer one. */
static inline bool
block_fits(uint16_t bytes, uint16_t ours, bool newer)
{
    return bytes == ours || (newer && bytes > ours);
}

/* What a walk over the groups of one message needs. */
struct pass {
    const uint8_t *at, *end;
    uint32_t entries_left;
    uint16_t known; /* the sender's version, or ours when that is newer */
    bool newer;
    bool keep_unknown;
};

static enum sbe_verdict
pass_entries(struct pass *pass, const struct sbe_group_layout *group, uint64_t count, uint16_t block_bytes)
{
    uint32_t checks_count = pass->keep_unknown ? 0 : group->extents[pass->known].checks_count;

    for (; count > 0; count--) {
        if (UNLIKELY((size_t)(pass->end - pass->at) < block_bytes)) {
            return SBE_BAD_GROUP;
        }
        if (UNLIKELY(!values_allowed(group->checks, checks_count, pass->at))) {
            return SBE_BAD_VALUE;
        }
        pass->at += block_bytes;
        for (uint32_t i = 0; i < group->data_count; i++) {
            pass->at = sbe_pass_data(pass->at, pass->end);
            if (UNLIKELY(pass->at == NULL)) {
                return SBE_BAD_DATA;
            }
        }
    }
    return SBE_GOOD;
}

static enum sbe_verdict
pass_group(struct pass *pass, const struct sbe_group_layout *group)
{
    size_t head = sizeof(uint16_t) + group->count_bytes;
    if (UNLIKELY((size_t)(pass->end - pass->at) < head)) {
        return SBE_BAD_GROUP;
    }
    uint16_t block_bytes = sbe_load_uint16(pass->at);
    uint64_t count = load_unsigned(pass->at + sizeof(uint16_t), group->count_bytes);
    if (UNLIKELY(!block_fits(block_bytes, group->extents[pass->known].block_bytes, pass->newer))) {
        return SBE_BAD_GROUP;
    }
    pass->at += head;
    if (UNLIKELY(count > pass->entries_left)) {
        return SBE_TOO_MANY;
    }
    pass->entries_left -= (uint32_t)count;

    /* No entry is empty (sbegen.py sees to it), so the message's own length bounds the walk. */
    size_t entry_bytes = block_bytes + (size_t)group->data_count * SBE_LENGTH_BYTES;
    if (UNLIKELY(count * entry_bytes > (size_t)(pass->end - pass->at))) {
        return SBE_BAD_GROUP;
    }
    return pass_entries(pass, group, count, block_bytes);
}

/* Only variable-length data may follow the parts we know, and only from a newer sender. */
static enum sbe_verdict
pass_rest(const uint8_t *at, const uint8_t *end)
{
    for (uint32_t i = 0; at != end; i++) {
        if (i == SBE_PARTS_MAX || (at = sbe_pass_data(at, end)) == NULL) {
            return SBE_TRAILING_BYTES;
        }
    }
    return SBE_GOOD;
}

enum sbe_verdict
sbe_validate(const struct sbe_schema *schema, struct slice message, uint32_t entries_max,
             enum sbe_unknown_values unknown, struct sbe_view *view)
{
    if (UNLIKELY(message.bytes < SBE_HEADER_BYTES)) {
        return SBE_NO_HEADER;
    }
    uint64_t header = sbe_load_uint64(message.data);
    uint16_t block_bytes = (uint16_t)header;
    uint16_t template_id = (uint16_t)(header >> 16);
    uint16_t version = (uint16_t)(header >> 48);
    if (UNLIKELY((uint16_t)(header >> 32) != schema->id)) {
        return SBE_OTHER_SCHEMA;
    }
    uint32_t index = template_id < SBE_TEMPLATE_COUNT ? schema->template_index[template_id] : 0;
    if (UNLIKELY(index == 0 || schema->layouts[index - 1].since > version)) {
        return SBE_NO_TEMPLATE;
    }
    const struct sbe_layout *layout = &schema->layouts[index - 1];
    bool newer = version > schema->version;
    uint16_t known = newer ? schema->version : version;
    const struct sbe_extent *extent = &layout->extents[known];
    if (UNLIKELY(!block_fits(block_bytes, extent->block_bytes, newer) ||
                 block_bytes > message.bytes - SBE_HEADER_BYTES)) {
        return SBE_BAD_BLOCK;
    }
    const uint8_t *block = message.data + SBE_HEADER_BYTES;
    const uint8_t *at = block + block_bytes, *end = message.data + message.bytes;
    bool keep_unknown = newer && unknown == SBE_KEEP_UNKNOWN;
    view->block = block;
    view->template_id = template_id;
    view->version = version;
    if (UNLIKELY(!keep_unknown && !values_allowed(layout->checks, extent->checks_count, block))) {
        return SBE_BAD_VALUE;
    }

    uint32_t i = 0;
    if (layout->groups_count > 0) {
        struct pass pass = { at, end, entries_max, known, newer, keep_unknown };
        for (; i < layout->groups_count; i++) {
            view->parts[i] = (uint32_t)(pass.at - block);
            enum sbe_verdict verdict = pass_group(&pass, &layout->groups[i]);
            if (UNLIKELY(verdict != SBE_GOOD)) {
                return verdict;
            }
        }
        at = pass.at;
    }
    for (; i < extent->parts_count; i++) {
        view->parts[i] = (uint32_t)(at - block);
        at = sbe_pass_data(at, end);
        if (UNLIKELY(at == NULL)) {
            return SBE_BAD_DATA;
        }
    }
    for (; i < layout->parts_count; i++) {
        view->parts[i] = 0;
    }
    return LIKELY(at == end) ? SBE_GOOD : newer ? pass_rest(at, end) : SBE_TRAILING_BYTES;
}
