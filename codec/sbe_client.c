/* sbe_client.c - requests as a client writes them, replies as it reads them. */
#include "codec/sbe_client.h"
#include "codec/number.h"

/* ---- requests ---- */

/* Bytes beside the words: the frame's length word, the largest head, a group's size, the name's length. */
#define REQUEST_FIXED_BYTES 64
/* Beside a word's bytes: its length, or a score in place of the word that named it. */
#define WORD_FIXED_BYTES    12

size_t
sbe_request_room(const struct slice *words, uint32_t count)
{
    if (count == 0 || count - 1 > SBE_REQUEST_ARGS_MAX || words[0].bytes == 0) {
        return 0;
    }
    size_t room = REQUEST_FIXED_BYTES;
    for (uint32_t i = 0; i < count; i++) {
        if (words[i].bytes > UINT32_MAX) {
            return 0;
        }
        room += WORD_FIXED_BYTES + words[i].bytes;
    }
    return room <= UINT32_MAX ? room : 0;
}

/* Each write_x() returns NULL, before it wrote anything that counts, when its template cannot say these arguments. */

static uint8_t *
write_ping(uint8_t *at, uint64_t correlation, const struct slice *args, uint32_t count)
{
    if (count > 1 || (count == 1 && args[0].bytes == 0)) {
        return NULL;
    }
    return sbe_put_data(sbe_ping_put(at, correlation), count == 1 ? args[0] : (struct slice){ NULL, 0 });
}

static uint8_t *
write_get(uint8_t *at, uint64_t correlation, const struct slice *args, uint32_t count)
{
    return count == 1 ? sbe_put_data(sbe_get_put(at, correlation), args[0]) : NULL;
}

static uint8_t *
write_hget(uint8_t *at, uint64_t correlation, const struct slice *args, uint32_t count)
{
    return count == 2 ? sbe_put_data(sbe_put_data(sbe_hget_put(at, correlation), args[0]), args[1]) : NULL;
}

static uint8_t *
write_zscore(uint8_t *at, uint64_t correlation, const struct slice *args, uint32_t count)
{
    return count == 2 ? sbe_put_data(sbe_put_data(sbe_zscore_put(at, correlation), args[0]), args[1]) : NULL;
}

static uint8_t *
write_publish(uint8_t *at, uint64_t correlation, const struct slice *args, uint32_t count)
{
    return count == 2 ? sbe_put_data(sbe_put_data(sbe_publish_put(at, correlation), args[0]), args[1]) : NULL;
}

static uint8_t *
write_incrby(uint8_t *at, uint64_t correlation, const struct slice *args, uint32_t count)
{
    int64_t increment;
    if (count != 2 || !number_parse_int64(args[1], &increment)) {
        return NULL;
    }
    return sbe_put_data(sbe_incrby_put(at, correlation, increment), args[0]);
}

static uint8_t *
write_del(uint8_t *at, uint64_t correlation, const struct slice *args, uint32_t count)
{
    if (count == 0) {
        return NULL;
    }
    at = sbe_del_keys_put(sbe_del_put(at, correlation), (uint16_t)count);
    for (uint32_t i = 0; i < count; i++) {
        at = sbe_put_data(at, args[i]);
    }
    return at;
}

static uint8_t *
write_subscribe(uint8_t *at, uint64_t correlation, const struct slice *args, uint32_t count)
{
    if (count == 0) {
        return NULL;
    }
    at = sbe_subscribe_channels_put(sbe_subscribe_put(at, correlation), (uint16_t)count);
    for (uint32_t i = 0; i < count; i++) {
        at = sbe_put_data(at, args[i]);
    }
    return at;
}

static uint8_t *
write_hset(uint8_t *at, uint64_t correlation, const struct slice *args, uint32_t count)
{
    if (count < 3 || count % 2 == 0) {
        return NULL;
    }
    at = sbe_hset_fields_put(sbe_hset_put(at, correlation), (uint16_t)(count / 2));
    for (uint32_t i = 1; i < count; i++) {
        at = sbe_put_data(at, args[i]);
    }
    return sbe_put_data(at, args[0]);
}

struct option {
    const char *word; /* lower case */
    uint8_t bit;
};

/* The bit of `word`, 0 for none of them. */
static uint8_t
option_bit(const struct option *options, size_t options_count, struct slice word)
{
    for (size_t i = 0; i < options_count; i++) {
        if (slice_equal_nocase(word, options[i].word)) {
            return options[i].bit;
        }
    }
    return 0;
}

static uint8_t *
write_zadd(uint8_t *at, uint64_t correlation, const struct slice *args, uint32_t count)
{
    static const struct option options[] = {
        { "nx", SBE_ZADD_OPTIONS_IF_MISSING },    { "xx", SBE_ZADD_OPTIONS_IF_PRESENT },
        { "gt", SBE_ZADD_OPTIONS_IF_GREATER },    { "lt", SBE_ZADD_OPTIONS_IF_LESS },
        { "ch", SBE_ZADD_OPTIONS_COUNT_CHANGED }, { "incr", SBE_ZADD_OPTIONS_INCREMENT },
    };
    uint8_t bits = 0;
    uint32_t first = 1;
    for (; first < count; first++) {
        uint8_t bit = option_bit(options, ARRAY_COUNT(options), args[first]);
        if (bit == 0) {
            break;
        }
        bits |= bit;
    }
    if (first >= count || (count - first) % 2 != 0) {
        return NULL;
    }
    at = sbe_zadd_members_put(sbe_zadd_put(at, correlation, bits), (uint16_t)((count - first) / 2));
    for (uint32_t i = first; i < count; i += 2) {
        double score;
        if (!number_parse_double(args[i], &score)) {
            return NULL;
        }
        at = sbe_put_data(sbe_zadd_members_entry_put(at, score), args[i + 1]);
    }
    return sbe_put_data(at, args[0]);
}

/* SET's time to live: `word` and its number `text`. False: leave it to the server to read. */
static bool
parse_expiry(struct slice word, struct slice text, int64_t *expiry_ms, uint8_t *kind)
{
    bool seconds = slice_equal_nocase(word, "ex") || slice_equal_nocase(word, "exat");
    if (slice_equal_nocase(word, "px") || slice_equal_nocase(word, "ex")) {
        *kind = SBE_EXPIRY_KIND_AFTER_MS;
    } else if (slice_equal_nocase(word, "pxat") || slice_equal_nocase(word, "exat")) {
        *kind = SBE_EXPIRY_KIND_AT_MS;
    } else {
        return false;
    }
    return number_parse_int64(text, expiry_ms) &&
           (!seconds || !__builtin_mul_overflow(*expiry_ms, INT64_C(1000), expiry_ms));
}

static uint8_t *
write_set(uint8_t *at, uint64_t correlation, const struct slice *args, uint32_t count)
{
    static const struct option options[] = {
        { "nx", SBE_SET_OPTIONS_IF_MISSING },
        { "xx", SBE_SET_OPTIONS_IF_PRESENT },
        { "get", SBE_SET_OPTIONS_RETURN_OLD },
    };
    uint8_t bits = 0, kind = SBE_EXPIRY_KIND_NONE;
    int64_t expiry_ms = 0;

    if (count < 2) {
        return NULL;
    }
    for (uint32_t i = 2; i < count; i++) {
        uint8_t bit = option_bit(options, ARRAY_COUNT(options), args[i]);
        if (bit != 0) {
            bits |= bit;
        } else if (kind != SBE_EXPIRY_KIND_NONE) {
            return NULL; /* two of them: the server says that it is a syntax error */
        } else if (slice_equal_nocase(args[i], "keepttl")) {
            kind = SBE_EXPIRY_KIND_KEEP;
        } else if (i + 1 < count && parse_expiry(args[i], args[i + 1], &expiry_ms, &kind)) {
            i++;
        } else {
            return NULL;
        }
    }
    return sbe_put_data(sbe_put_data(sbe_set_put(at, correlation, expiry_ms, kind, bits), args[0]), args[1]);
}

static uint8_t *
write_expire(uint8_t *at, uint64_t correlation, const struct slice *args, uint32_t count)
{
    static const struct option options[] = {
        { "nx", SBE_EXPIRE_CONDITIONS_IF_NONE },
        { "xx", SBE_EXPIRE_CONDITIONS_IF_SOME },
        { "gt", SBE_EXPIRE_CONDITIONS_IF_LATER },
        { "lt", SBE_EXPIRE_CONDITIONS_IF_SOONER },
    };
    uint8_t bits = 0;
    int64_t seconds;

    if (count < 2 || !number_parse_int64(args[1], &seconds)) {
        return NULL;
    }
    for (uint32_t i = 2; i < count; i++) {
        uint8_t bit = option_bit(options, ARRAY_COUNT(options), args[i]);
        if (bit == 0) {
            return NULL;
        }
        bits |= bit;
    }
    return sbe_put_data(sbe_expire_put(at, correlation, seconds, bits), args[0]);
}

static uint8_t *
write_command(uint8_t *at, uint64_t correlation, const struct slice *words, uint32_t count)
{
    at = sbe_command_arguments_put(sbe_command_put(at, correlation), (uint16_t)(count - 1));
    for (uint32_t i = 1; i < count; i++) {
        at = sbe_put_data(at, words[i]);
    }
    return sbe_put_data(at, words[0]);
}

/* NULL: the command has no template of its own, or it cannot say this. */
static uint8_t *
write_typed(uint8_t *at, uint64_t correlation, const struct slice *words, uint32_t count)
{
    static uint8_t *(*const writers[])(uint8_t *, uint64_t, const struct slice *, uint32_t) = {
        [SBE_PING_TEMPLATE] = write_ping,
        [SBE_GET_TEMPLATE] = write_get,
        [SBE_SET_TEMPLATE] = write_set,
        [SBE_HSET_TEMPLATE] = write_hset,
        [SBE_HGET_TEMPLATE] = write_hget,
        [SBE_ZADD_TEMPLATE] = write_zadd,
        [SBE_ZSCORE_TEMPLATE] = write_zscore,
        [SBE_PUBLISH_TEMPLATE] = write_publish,
        [SBE_SUBSCRIBE_TEMPLATE] = write_subscribe,
        [SBE_DEL_TEMPLATE] = write_del,
        [SBE_INCRBY_TEMPLATE] = write_incrby,
        [SBE_EXPIRE_TEMPLATE] = write_expire,
    };
    const struct command *command = command_find(words[0]);
    if (command == NULL || command->sbe_template >= ARRAY_COUNT(writers) || writers[command->sbe_template] == NULL) {
        return NULL;
    }
    return writers[command->sbe_template](at, correlation, words + 1, count - 1);
}

uint8_t *
sbe_request_write(uint8_t *out, uint64_t correlation, const struct slice *words, uint32_t count)
{
    uint8_t *message = out + SBE_FRAME_HEADER_BYTES;
    uint8_t *end = write_typed(message, correlation, words, count);
    if (end == NULL) {
        end = write_command(message, correlation, words, count);
    }
    sbe_store_uint32(out, (uint32_t)(end - message));
    return end;
}

/* ---- replies ---- */

/* kind -> bytes that such a value has; -1: any number of them */
static const int8_t kind_bytes[] = {
    [SBE_VALUE_KIND_NIL] = 0,     [SBE_VALUE_KIND_STATUS] = -1, [SBE_VALUE_KIND_ERROR] = -1,
    [SBE_VALUE_KIND_INTEGER] = 8, [SBE_VALUE_KIND_DOUBLE] = 8,  [SBE_VALUE_KIND_BULK] = -1,
    [SBE_VALUE_KIND_BOOLEAN] = 1, [SBE_VALUE_KIND_ARRAY] = 4,   [SBE_VALUE_KIND_MAP] = 4,
    [SBE_VALUE_KIND_SET] = 4,     [SBE_VALUE_KIND_PUSH] = 4,
};

static bool
entry_is_valid(const struct sbe_values_reply_values_entry *entry)
{
    return entry->kind < ARRAY_COUNT(kind_bytes) &&
           (kind_bytes[entry->kind] < 0 || (size_t)kind_bytes[entry->kind] == entry->bytes.bytes);
}

static bool
kind_is_aggregate(uint8_t kind)
{
    return kind >= SBE_VALUE_KIND_ARRAY;
}

/* Values that a valid aggregate announces. */
static uint64_t
children_of(const struct sbe_values_reply_values_entry *entry)
{
    return (uint64_t)sbe_load_uint32(entry->bytes.data) * (entry->kind == SBE_VALUE_KIND_MAP ? 2 : 1);
}

/* True when the entries are valid and one tree. `open`: values that are announced and have not come. */
static bool
tree_is_whole(struct sbe_group group)
{
    struct sbe_values_reply_values_entry entry;
    uint64_t open = 1;

    while (sbe_values_reply_values_next(&group, &entry)) {
        if (open == 0 || !entry_is_valid(&entry)) {
            return false;
        }
        open += (kind_is_aggregate(entry.kind) ? children_of(&entry) : 0) - 1;
    }
    return open == 0;
}

static enum codec_status
malformed(struct sbe_reply *reply, const char *error)
{
    reply->error = error;
    return CODEC_MALFORMED;
}

enum codec_status
sbe_reply_open(struct slice wire, size_t reply_bytes_max, struct sbe_reply *reply)
{
    reply->wire_bytes = 0;
    reply->error = NULL;
    if (wire.bytes < SBE_FRAME_HEADER_BYTES) {
        return CODEC_SHORT;
    }
    size_t message_bytes = sbe_load_uint32(wire.data);
    if (message_bytes < SBE_HEADER_BYTES || SBE_FRAME_HEADER_BYTES + message_bytes > reply_bytes_max) {
        return malformed(reply, "frame length out of bounds");
    }
    reply->wire_bytes = SBE_FRAME_HEADER_BYTES + message_bytes;
    if (wire.bytes < reply->wire_bytes) {
        return CODEC_SHORT;
    }
    struct slice message = { wire.data + SBE_FRAME_HEADER_BYTES, message_bytes };
    struct sbe_view *view = &reply->view;
    if (sbe_validate(&sbe_schema, message, UINT32_MAX, SBE_KEEP_UNKNOWN, view) != SBE_GOOD) {
        return malformed(reply, "reply does not validate against the schema");
    }
    reply->correlation = sbe_load_uint64(view->block);
    reply->version = view->version;
    reply->push = view->template_id == SBE_PUSH_TEMPLATE;
    reply->values_count = 1;
    reply->scalar_left = true;
    reply->group = (struct sbe_group){ 0 };
    switch (view->template_id) {
    case SBE_NIL_REPLY_TEMPLATE:
    case SBE_STATUS_REPLY_TEMPLATE:
    case SBE_ERROR_REPLY_TEMPLATE:
    case SBE_INTEGER_REPLY_TEMPLATE:
    case SBE_DOUBLE_REPLY_TEMPLATE:
    case SBE_BULK_REPLY_TEMPLATE:
    case SBE_BOOLEAN_REPLY_TEMPLATE:
        break;
    case SBE_VALUES_REPLY_TEMPLATE:
    case SBE_PUSH_TEMPLATE:
        reply->group = reply->push ? sbe_push_values(view) : sbe_values_reply_values(view);
        reply->values_count = reply->group.left;
        reply->scalar_left = false;
        if (!tree_is_whole(reply->group)) {
            return malformed(reply, "aggregates announce other counts than what follows");
        }
        break;
    default:
        return malformed(reply, "this template is not a reply");
    }
    return CODEC_OK;
}

static struct slice
status_text(const struct sbe_view *view)
{
    switch (sbe_status_reply_code(view)) {
    case SBE_STATUS_CODE_OK:
        return SLICE_LITERAL("OK");
    case SBE_STATUS_CODE_PONG:
        return SLICE_LITERAL("PONG");
    case SBE_STATUS_CODE_QUEUED:
        return SLICE_LITERAL("QUEUED");
    default:
        return sbe_status_reply_text(view);
    }
}

static void
scalar_read(const struct sbe_view *view, struct sbe_value *value)
{
    switch (view->template_id) {
    case SBE_STATUS_REPLY_TEMPLATE:
        value->kind = SBE_VALUE_KIND_STATUS;
        value->bytes = status_text(view);
        break;
    case SBE_ERROR_REPLY_TEMPLATE:
        value->kind = SBE_VALUE_KIND_ERROR;
        value->bytes = sbe_error_reply_text(view);
        break;
    case SBE_INTEGER_REPLY_TEMPLATE:
        value->kind = SBE_VALUE_KIND_INTEGER;
        value->integer = sbe_integer_reply_value(view);
        break;
    case SBE_DOUBLE_REPLY_TEMPLATE:
        value->kind = SBE_VALUE_KIND_DOUBLE;
        value->real = sbe_double_reply_value(view);
        break;
    case SBE_BULK_REPLY_TEMPLATE:
        value->kind = SBE_VALUE_KIND_BULK;
        value->bytes = sbe_bulk_reply_value(view);
        break;
    case SBE_BOOLEAN_REPLY_TEMPLATE:
        value->kind = SBE_VALUE_KIND_BOOLEAN;
        value->integer = sbe_boolean_reply_value(view) != 0;
        break;
    default:
        value->kind = SBE_VALUE_KIND_NIL;
        break;
    }
}

/* sbe_reply_open() has seen that the bytes fit the kind. */
static void
entry_read(const struct sbe_values_reply_values_entry *entry, struct sbe_value *value)
{
    value->kind = (enum sbe_value_kind)entry->kind;
    switch (value->kind) {
    case SBE_VALUE_KIND_NIL:
        break;
    case SBE_VALUE_KIND_STATUS:
    case SBE_VALUE_KIND_ERROR:
    case SBE_VALUE_KIND_BULK:
        value->bytes = entry->bytes;
        break;
    case SBE_VALUE_KIND_INTEGER:
        value->integer = sbe_load_int64(entry->bytes.data);
        break;
    case SBE_VALUE_KIND_DOUBLE:
        value->real = sbe_load_double(entry->bytes.data);
        break;
    case SBE_VALUE_KIND_BOOLEAN:
        value->integer = *entry->bytes.data != 0;
        break;
    case SBE_VALUE_KIND_ARRAY:
    case SBE_VALUE_KIND_MAP:
    case SBE_VALUE_KIND_SET:
    case SBE_VALUE_KIND_PUSH:
        value->count = (uint32_t)children_of(entry);
        break;
    }
}

bool
sbe_reply_next(struct sbe_reply *reply, struct sbe_value *value)
{
    struct sbe_values_reply_values_entry entry;

    *value = (struct sbe_value){ .kind = SBE_VALUE_KIND_NIL };
    if (reply->scalar_left) {
        reply->scalar_left = false;
        scalar_read(&reply->view, value);
        return true;
    }
    if (!sbe_values_reply_values_next(&reply->group, &entry)) {
        return false;
    }
    entry_read(&entry, value);
    return true;
}
