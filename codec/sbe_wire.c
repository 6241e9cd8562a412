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

static bool
values_allowed(const struct sbe_check *checks, uint32_t count, const uint8_t *block, uint16_t version)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct sbe_check *check = &checks[i];
        if (check->since > version) {
            continue;
        }
        uint64_t value = load_unsigned(block + check->offset, check->bytes);
        bool good = check->is_set ? (value & ~check->allowed) == 0 : value < 64 && (check->allowed >> value & 1) != 0;
        if (UNLIKELY(!good)) {
            return false;
        }
    }
    return true;
}

/* The rule of evolution: exact for a version we know, at least ours for a newer one. */
static bool
block_fits(const uint16_t *by_version, uint16_t known, uint16_t version, uint16_t bytes)
{
    return version <= known ? bytes == by_version[version] : bytes >= by_version[known];
}

/* What a walk over one message needs; `at` moves. */
struct pass {
    const uint8_t *at, *end;
    uint16_t version; /* of the sender */
    uint16_t known;   /* ours */
    uint32_t entries_left;
    bool keep_unknown;
};

static enum sbe_verdict
pass_data(struct pass *pass)
{
    size_t left = (size_t)(pass->end - pass->at);
    if (UNLIKELY(left < SBE_LENGTH_BYTES || sbe_load_uint32(pass->at) > left - SBE_LENGTH_BYTES)) {
        return SBE_BAD_DATA;
    }
    pass->at += SBE_LENGTH_BYTES + sbe_load_uint32(pass->at);
    return SBE_GOOD;
}

static enum sbe_verdict
pass_group(struct pass *pass, const struct sbe_part *part)
{
    size_t head = sizeof(uint16_t) + part->count_bytes;
    if (UNLIKELY((size_t)(pass->end - pass->at) < head)) {
        return SBE_BAD_GROUP;
    }
    uint16_t block_bytes = sbe_load_uint16(pass->at);
    uint64_t count = load_unsigned(pass->at + sizeof(uint16_t), part->count_bytes);
    if (UNLIKELY(!block_fits(part->block_bytes, pass->known, pass->version, block_bytes))) {
        return SBE_BAD_GROUP;
    }
    pass->at += head;
    if (UNLIKELY(count > pass->entries_left)) {
        return SBE_TOO_MANY;
    }
    pass->entries_left -= (uint32_t)count;

    /* No entry is empty (sbegen.py sees to it), so the message's own length bounds the walk. */
    size_t entry_bytes = block_bytes + (size_t)part->data_count * SBE_LENGTH_BYTES;
    if (UNLIKELY(count * entry_bytes > (size_t)(pass->end - pass->at))) {
        return SBE_BAD_GROUP;
    }
    for (; count > 0; count--) {
        if (UNLIKELY((size_t)(pass->end - pass->at) < block_bytes)) {
            return SBE_BAD_GROUP;
        }
        if (UNLIKELY(!pass->keep_unknown &&
                     !values_allowed(part->checks, part->checks_count, pass->at, pass->version))) {
            return SBE_BAD_VALUE;
        }
        pass->at += block_bytes;
        for (uint32_t i = 0; i < part->data_count; i++) {
            if (UNLIKELY(pass_data(pass) != SBE_GOOD)) {
                return SBE_BAD_DATA;
            }
        }
    }
    return SBE_GOOD;
}

/* Only variable-length data may follow the parts we know, and only from a newer sender. */
static enum sbe_verdict
pass_rest(struct pass *pass)
{
    if (pass->version <= pass->known) {
        return pass->at == pass->end ? SBE_GOOD : SBE_TRAILING_BYTES;
    }
    for (uint32_t i = 0; pass->at != pass->end; i++) {
        if (i == SBE_PARTS_MAX || pass_data(pass) != SBE_GOOD) {
            return SBE_TRAILING_BYTES;
        }
    }
    return SBE_GOOD;
}

static enum sbe_verdict
pass_parts(struct pass *pass, const struct sbe_layout *layout, struct sbe_view *view)
{
    for (uint32_t i = 0; i < layout->parts_count; i++) {
        const struct sbe_part *part = &layout->parts[i];
        if (part->since > pass->version) {
            view->parts[i] = 0;
            continue;
        }
        view->parts[i] = (uint32_t)(pass->at - view->block);
        enum sbe_verdict verdict = part->is_group ? pass_group(pass, part) : pass_data(pass);
        if (UNLIKELY(verdict != SBE_GOOD)) {
            return verdict;
        }
    }
    return pass_rest(pass);
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
    if (UNLIKELY(!block_fits(layout->block_bytes, schema->version, version, block_bytes) ||
                 block_bytes > message.bytes - SBE_HEADER_BYTES)) {
        return SBE_BAD_BLOCK;
    }
    view->block = message.data + SBE_HEADER_BYTES;
    view->template_id = template_id;
    view->version = version;
    struct pass pass = {
        .at = view->block + block_bytes,
        .end = message.data + message.bytes,
        .version = version,
        .known = schema->version,
        .entries_left = entries_max,
        .keep_unknown = unknown == SBE_KEEP_UNKNOWN && version > schema->version,
    };
    if (UNLIKELY(!pass.keep_unknown && !values_allowed(layout->checks, layout->checks_count, view->block, version))) {
        return SBE_BAD_VALUE;
    }
    return pass_parts(&pass, layout, view);
}
