/* sbe.c - SBE requests become argument vectors. */
#include "codec/sbe.h"
#include "codec/sbe_wire.h"
#include "codec/sluice_sbe.h"

/* The command table and the schema name the same templates. */
enum {
#define TEMPLATE_OF(id, name, template_id, ...) TEMPLATE_##id = template_id,
    COMMAND_TABLE(TEMPLATE_OF)
#undef TEMPLATE_OF
};
#define SAME_TEMPLATE(id) static_assert((int)TEMPLATE_##id == (int)SBE_##id##_TEMPLATE, #id)
SAME_TEMPLATE(PING);
SAME_TEMPLATE(GET);
SAME_TEMPLATE(SET);
SAME_TEMPLATE(HSET);
SAME_TEMPLATE(HGET);
SAME_TEMPLATE(ZADD);
SAME_TEMPLATE(ZSCORE);
SAME_TEMPLATE(PUBLISH);
SAME_TEMPLATE(SUBSCRIBE);
SAME_TEMPLATE(DEL);
SAME_TEMPLATE(INCRBY);
SAME_TEMPLATE(EXPIRE);

#define ERROR_TOO_MANY_ARGUMENTS "ERR SBE: more arguments than the limit"

/* enum sbe_verdict -> what the peer is told */
static const char *const verdict_errors[] = {
    [SBE_GOOD] = NULL,
    [SBE_NO_HEADER] = "ERR SBE: the message is shorter than its header",
    [SBE_OTHER_SCHEMA] = "ERR SBE: schemaId is not 19539",
    [SBE_NO_TEMPLATE] = "ERR SBE: unknown templateId for this schema version",
    [SBE_BAD_BLOCK] = "ERR SBE: blockLength does not fit the template's version or the message",
    [SBE_BAD_GROUP] = "ERR SBE: a group's blockLength or numInGroup does not fit its version or the message",
    [SBE_TOO_MANY] = ERROR_TOO_MANY_ARGUMENTS,
    [SBE_BAD_DATA] = "ERR SBE: a length runs past the message",
    [SBE_BAD_VALUE] = "ERR SBE: a value that its enum or set does not have",
    [SBE_TRAILING_BYTES] = "ERR SBE: bytes after the last field",
};
static_assert(SBE_SCHEMA_ID == 19539, "the text above says so");

/* The argument vector under construction; after an error the rest is dropped. */
struct lowering {
    struct arg *args;
    uint32_t count, max;
    size_t arg_bytes_max;
    const char *error;
};

static struct arg *
lowering_take(struct lowering *to)
{
    if (UNLIKELY(to->count == to->max)) {
        to->error = ERROR_TOO_MANY_ARGUMENTS;
        return NULL;
    }
    return &to->args[to->count++];
}

static inline void
put_bytes(struct lowering *to, struct slice bytes)
{
    if (UNLIKELY(bytes.bytes > to->arg_bytes_max)) {
        to->error = "ERR SBE: an argument is longer than the limit";
        return;
    }
    struct arg *arg = lowering_take(to);
    if (LIKELY(arg != NULL)) {
        arg->kind = ARG_BYTES;
        arg->bytes = bytes;
    }
}

static void
put_integer(struct lowering *to, int64_t value)
{
    struct arg *arg = lowering_take(to);
    if (LIKELY(arg != NULL)) {
        arg->kind = ARG_INT;
        arg->integer = value;
    }
}

static void
put_double(struct lowering *to, double value)
{
    struct arg *arg = lowering_take(to);
    if (LIKELY(arg != NULL)) {
        arg->kind = ARG_DOUBLE;
        arg->real = value;
    }
}

struct option_word {
    uint32_t bit;
    struct slice word;
};

/* Words that contradict each other are all written: the handler answers them as it does on RESP. */
static void
put_options(struct lowering *to, const struct option_word *words, uint32_t words_count, uint32_t options)
{
    for (uint32_t i = 0; options != 0 && i < words_count; i++) {
        if (options & words[i].bit) {
            put_bytes(to, words[i].word);
        }
    }
}

/* WORD() is a constant expression where SLICE_LITERAL() is a compound literal. */
#define WORD(text)                                                                                                     \
    {                                                                                                                  \
        (const uint8_t *)(text), sizeof(text) - 1                                                                      \
    }

static void
lower_set(struct lowering *to, const struct sbe_view *view)
{
    static const struct option_word words[] = {
        { SBE_SET_OPTIONS_IF_MISSING, WORD("NX") },
        { SBE_SET_OPTIONS_IF_PRESENT, WORD("XX") },
        { SBE_SET_OPTIONS_RETURN_OLD, WORD("GET") },
    };
    put_bytes(to, sbe_set_key(view));
    put_bytes(to, sbe_set_value(view));
    put_options(to, words, ARRAY_COUNT(words), sbe_set_options(view));

    int64_t expiry = sbe_set_expiry(view);
    switch (sbe_set_expiry_kind(view)) {
    case SBE_EXPIRY_KIND_AFTER_MS:
        put_bytes(to, SLICE_LITERAL("PX"));
        put_integer(to, expiry);
        return;
    case SBE_EXPIRY_KIND_AT_MS:
        put_bytes(to, SLICE_LITERAL("PXAT"));
        put_integer(to, expiry);
        return;
    case SBE_EXPIRY_KIND_KEEP:
        put_bytes(to, SLICE_LITERAL("KEEPTTL"));
        break;
    default:
        break;
    }
    if (UNLIKELY(expiry != 0)) { /* a client that forgot the kind must not get a key that stays for ever */
        to->error = "ERR SBE: expiry is set, expiryKind does not use it";
    }
}

static void
lower_hset(struct lowering *to, const struct sbe_view *view)
{
    struct sbe_group group = sbe_hset_fields(view);
    struct sbe_hset_fields_entry entry;

    put_bytes(to, sbe_hset_key(view));
    while (to->error == NULL && sbe_hset_fields_next(&group, &entry)) {
        put_bytes(to, entry.field);
        put_bytes(to, entry.value);
    }
}

static void
lower_zadd(struct lowering *to, const struct sbe_view *view)
{
    static const struct option_word words[] = {
        { SBE_ZADD_OPTIONS_IF_MISSING, WORD("NX") },    { SBE_ZADD_OPTIONS_IF_PRESENT, WORD("XX") },
        { SBE_ZADD_OPTIONS_IF_GREATER, WORD("GT") },    { SBE_ZADD_OPTIONS_IF_LESS, WORD("LT") },
        { SBE_ZADD_OPTIONS_COUNT_CHANGED, WORD("CH") }, { SBE_ZADD_OPTIONS_INCREMENT, WORD("INCR") },
    };
    struct sbe_group group = sbe_zadd_members(view);
    struct sbe_zadd_members_entry entry;

    put_bytes(to, sbe_zadd_key(view));
    put_options(to, words, ARRAY_COUNT(words), sbe_zadd_options(view));
    while (to->error == NULL && sbe_zadd_members_next(&group, &entry)) {
        if (UNLIKELY(entry.score != entry.score)) { /* NaN has no place in an order */
            to->error = ERROR_NOT_FLOAT;
            return;
        }
        put_double(to, entry.score);
        put_bytes(to, entry.member);
    }
}

static void
lower_subscribe(struct lowering *to, const struct sbe_view *view)
{
    struct sbe_group group = sbe_subscribe_channels(view);
    struct sbe_subscribe_channels_entry entry;

    while (to->error == NULL && sbe_subscribe_channels_next(&group, &entry)) {
        put_bytes(to, entry.channel);
    }
}

static void
lower_del(struct lowering *to, const struct sbe_view *view)
{
    struct sbe_group group = sbe_del_keys(view);
    struct sbe_del_keys_entry entry;

    while (to->error == NULL && sbe_del_keys_next(&group, &entry)) {
        put_bytes(to, entry.key);
    }
}

static void
lower_expire(struct lowering *to, const struct sbe_view *view)
{
    static const struct option_word words[] = {
        { SBE_EXPIRE_CONDITIONS_IF_NONE, WORD("NX") },
        { SBE_EXPIRE_CONDITIONS_IF_SOME, WORD("XX") },
        { SBE_EXPIRE_CONDITIONS_IF_LATER, WORD("GT") },
        { SBE_EXPIRE_CONDITIONS_IF_SOONER, WORD("LT") },
    };
    put_bytes(to, sbe_expire_key(view));
    put_integer(to, sbe_expire_seconds(view));
    put_options(to, words, ARRAY_COUNT(words), sbe_expire_conditions(view));
}

/* Template 1: NULL for a name that no command has, which the caller answers with the name. */
static const struct command *
lower_command(struct lowering *to, const struct sbe_view *view, struct slice *name)
{
    struct sbe_group group = sbe_command_arguments(view);
    struct sbe_command_arguments_entry entry;

    *name = sbe_command_name(view);
    if (UNLIKELY(name->bytes == 0)) {
        to->error = "ERR SBE: the command's name is empty";
        return NULL;
    }
    if (UNLIKELY(name->bytes > to->arg_bytes_max)) {
        to->error = "ERR SBE: the command's name is longer than the limit";
        return NULL;
    }
    while (to->error == NULL && sbe_command_arguments_next(&group, &entry)) {
        put_bytes(to, entry.argument);
    }
    return command_find(*name);
}

/* Fill `to` with the arguments of a validated message. */
static const struct command *
lower(struct lowering *to, const struct sbe_view *view, struct slice *name)
{
    switch (view->template_id) {
    case SBE_GET_TEMPLATE:
        put_bytes(to, sbe_get_key(view));
        return &command_table[COMMAND_GET];
    case SBE_SET_TEMPLATE:
        lower_set(to, view);
        return &command_table[COMMAND_SET];
    case SBE_PING_TEMPLATE:
        if (sbe_ping_message(view).bytes > 0) {
            put_bytes(to, sbe_ping_message(view));
        }
        return &command_table[COMMAND_PING];
    case SBE_HGET_TEMPLATE:
        put_bytes(to, sbe_hget_key(view));
        put_bytes(to, sbe_hget_field(view));
        return &command_table[COMMAND_HGET];
    case SBE_HSET_TEMPLATE:
        lower_hset(to, view);
        return &command_table[COMMAND_HSET];
    case SBE_ZADD_TEMPLATE:
        lower_zadd(to, view);
        return &command_table[COMMAND_ZADD];
    case SBE_ZSCORE_TEMPLATE:
        put_bytes(to, sbe_zscore_key(view));
        put_bytes(to, sbe_zscore_member(view));
        return &command_table[COMMAND_ZSCORE];
    case SBE_PUBLISH_TEMPLATE:
        put_bytes(to, sbe_publish_channel(view));
        put_bytes(to, sbe_publish_message(view));
        return &command_table[COMMAND_PUBLISH];
    case SBE_SUBSCRIBE_TEMPLATE:
        lower_subscribe(to, view);
        return &command_table[COMMAND_SUBSCRIBE];
    case SBE_DEL_TEMPLATE:
        lower_del(to, view);
        return &command_table[COMMAND_DEL];
    case SBE_INCRBY_TEMPLATE:
        put_bytes(to, sbe_incrby_key(view));
        put_integer(to, sbe_incrby_increment(view));
        return &command_table[COMMAND_INCRBY];
    case SBE_EXPIRE_TEMPLATE:
        lower_expire(to, view);
        return &command_table[COMMAND_EXPIRE];
    case SBE_COMMAND_TEMPLATE:
        return lower_command(to, view, name);
    default:
        to->error = "ERR SBE: this template is not a request";
        return NULL;
    }
}

/* sbe_validate() and lower() in one, for requests whose arguments are their variable-length data in order and whose
 * fields say nothing more; inlined with its counts it takes a third of their instructions (bench_sbe).
 * False: anything is wrong; nothing was taken, and the long way says what it is. */
static inline __attribute__((always_inline)) bool
decode_plain(struct slice message, const struct decode_limits *limits, struct arg_room *room, struct request *request,
             enum command_id id, uint32_t head_bytes, uint32_t count)
{
    if (UNLIKELY(message.bytes < head_bytes || count > limits->args_max || count > room->count - room->used)) {
        return false;
    }
    const uint8_t *at = message.data + head_bytes, *end = message.data + message.bytes;
    struct arg *args = room->args + room->used;

    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *data = at + SBE_LENGTH_BYTES;
        at = sbe_pass_data(at, end);
        if (UNLIKELY(at == NULL || (size_t)(at - data) > limits->arg_bytes_max)) {
            return false;
        }
        args[i].kind = ARG_BYTES;
        args[i].bytes = slice_of(data, (size_t)(at - data));
    }
    if (UNLIKELY(at != end)) {
        return false;
    }
    request->command = &command_table[id];
    request->name = (struct slice){ NULL, 0 };
    request->args = args;
    request->args_count = count;
    request->correlation = sbe_load_uint64(message.data + SBE_HEADER_BYTES);
    request->error = NULL;
    room->used += count;
    return true;
}

/* The header of a request in our version. */
#define OUR_HEADER(id) SBE_HEADER(SBE_##id##_BLOCK_BYTES, SBE_##id##_TEMPLATE, SBE_SCHEMA_ID, SBE_SCHEMA_VERSION)
static_assert((int)SBE_GET_BLOCK_BYTES == sizeof(uint64_t) && (int)SBE_HGET_BLOCK_BYTES == sizeof(uint64_t) &&
                  (int)SBE_ZSCORE_BLOCK_BYTES == sizeof(uint64_t) && (int)SBE_PUBLISH_BLOCK_BYTES == sizeof(uint64_t),
              "a field beside the correlation would have to be looked at");
static_assert((int)SBE_SET_BLOCK_BYTES == 18, "set_is_bare() looks at every field of Set");

/* A Set without options: expiry, expiryKind and options are 0. */
static inline bool
set_is_bare(struct slice message)
{
    return message.bytes >= SBE_SET_HEAD_BYTES && sbe_load_uint64(message.data + SBE_HEADER_BYTES + 8) == 0 &&
           sbe_load_uint16(message.data + SBE_HEADER_BYTES + 16) == 0;
}

/* The answer to a message that does not validate names it all the same, where its root block can be trusted so far. */
static uint64_t
correlation_if_readable(struct slice message)
{
    if (message.bytes < SBE_HEADER_BYTES + sizeof(uint64_t)) {
        return 0;
    }
    uint16_t block_bytes = sbe_load_uint16(message.data);
    uint16_t schema_id = sbe_load_uint16(message.data + 4);
    if (block_bytes < sizeof(uint64_t) || schema_id != SBE_SCHEMA_ID) {
        return 0;
    }
    return sbe_load_uint64(message.data + SBE_HEADER_BYTES);
}

static enum codec_status
reject(struct request *request, struct slice message, const char *error)
{
    request->command = NULL;
    request->name = (struct slice){ NULL, 0 };
    request->args_count = 0;
    request->correlation = correlation_if_readable(message);
    request->error = error;
    return CODEC_REJECTED;
}

/* This one and the next three stay out of sbe_decode(), which then saves no register on the way to any of them. */
static __attribute__((noinline)) enum codec_status
decode_any(struct slice message, const struct decode_limits *limits, struct arg_room *room, struct request *request)
{
    struct sbe_view view;
    enum sbe_verdict verdict = sbe_validate(&sbe_schema, message, limits->args_max, SBE_REFUSE_UNKNOWN, &view);
    if (UNLIKELY(verdict != SBE_GOOD)) {
        return reject(request, message, verdict_errors[verdict]);
    }
    struct lowering to = {
        .args = room->args + room->used,
        .max = MIN(limits->args_max, room->count - room->used),
        .arg_bytes_max = limits->arg_bytes_max,
    };
    request->name = (struct slice){ NULL, 0 };
    request->command = lower(&to, &view, &request->name);
    if (UNLIKELY(to.error != NULL)) {
        return reject(request, message, to.error);
    }
    request->args = to.args;
    request->args_count = to.count;
    request->correlation = sbe_load_uint64(view.block);
    request->error = NULL;
    room->used += to.count;
    return CODEC_OK;
}

static __attribute__((noinline)) enum codec_status
decode_get(struct slice message, const struct decode_limits *limits, struct arg_room *room, struct request *request)
{
    return LIKELY(decode_plain(message, limits, room, request, COMMAND_GET, SBE_GET_HEAD_BYTES, 1))
               ? CODEC_OK
               : decode_any(message, limits, room, request);
}

static __attribute__((noinline)) enum codec_status
decode_set(struct slice message, const struct decode_limits *limits, struct arg_room *room, struct request *request)
{
    return LIKELY(set_is_bare(message) &&
                  decode_plain(message, limits, room, request, COMMAND_SET, SBE_SET_HEAD_BYTES, 2))
               ? CODEC_OK
               : decode_any(message, limits, room, request);
}

static __attribute__((noinline)) enum codec_status
decode_pair(struct slice message, const struct decode_limits *limits, struct arg_room *room, struct request *request,
            enum command_id id)
{
    return LIKELY(decode_plain(message, limits, room, request, id, SBE_HGET_HEAD_BYTES, 2))
               ? CODEC_OK
               : decode_any(message, limits, room, request);
}

enum codec_status
sbe_decode(struct slice wire, const struct decode_limits *limits, struct arg_room *room, struct request *request)
{
    request->wire_bytes = 0;
    if (wire.bytes < SBE_FRAME_HEADER_BYTES) {
        return CODEC_SHORT;
    }
    uint32_t message_bytes = sbe_load_uint32(wire.data);
    size_t frame_bytes = SBE_FRAME_HEADER_BYTES + (size_t)message_bytes;
    if (UNLIKELY(message_bytes < SBE_HEADER_BYTES || frame_bytes > limits->request_bytes_max)) {
        request->command = NULL;
        request->name = (struct slice){ NULL, 0 };
        request->args_count = 0;
        request->correlation = 0;
        request->error = message_bytes < SBE_HEADER_BYTES ? "ERR SBE: frame length below a message header"
                                                          : "ERR SBE: frame length above the limit";
        return CODEC_MALFORMED;
    }
    request->wire_bytes = frame_bytes;
    if (wire.bytes < frame_bytes) {
        return CODEC_SHORT;
    }

    struct slice message = { wire.data + SBE_FRAME_HEADER_BYTES, message_bytes };
    switch (sbe_load_uint64(message.data)) {
    case OUR_HEADER(GET):
        return decode_get(message, limits, room, request);
    case OUR_HEADER(SET):
        return decode_set(message, limits, room, request);
    case OUR_HEADER(HGET):
        return decode_pair(message, limits, room, request, COMMAND_HGET);
    case OUR_HEADER(ZSCORE):
        return decode_pair(message, limits, room, request, COMMAND_ZSCORE);
    case OUR_HEADER(PUBLISH):
        return decode_pair(message, limits, room, request, COMMAND_PUBLISH);
    default:
        return decode_any(message, limits, room, request);
    }
}
