/* exec_common.c - see exec_common.h. */
#include "dataplane/exec_common.h"
#include "codec/number.h"

static void
refuse_key(struct exec *exec)
{
    char limit[NUMBER_INT_BYTES];
    struct slice pieces[] = { SLICE_LITERAL("ERR key exceeds "),
                              slice_of(limit, number_print_int64(limit, LIMIT_KEY_BYTES)), SLICE_LITERAL(" bytes") };
    reply_error_join(exec->reply, pieces, ARRAY_COUNT(pieces));
}

static bool
take_bytes(struct exec *exec, uint32_t index, struct exec_key *key)
{
    key->bytes = exec_arg_bytes(exec, index, key->scratch);
    if (UNLIKELY(key->bytes.bytes > LIMIT_KEY_BYTES)) {
        refuse_key(exec);
        return false;
    }
    return true;
}

bool
exec_take_any_key(struct exec *exec, uint32_t index, struct exec_key *key)
{
    if (!take_bytes(exec, index, key)) {
        return false;
    }
    key->hash = store_hash(store_of(exec->store), key->bytes);
    return true;
}

bool
exec_take_keys(struct exec *exec, uint32_t first, struct exec_key *keys)
{
    uint32_t count = exec->request->args_count;
    if (count == 1) {
        return exec_take_key(exec, &keys[0]); /* burst.c has fetched what it needs */
    }
    /* in groups, so that what was fetched is still in the first cache when the record's turn comes */
    for (uint32_t i = first; i < count; i += LIMIT_BURST) {
        uint32_t group = MIN((uint32_t)LIMIT_BURST, count - i);
        const struct slice *bytes[LIMIT_BURST];
        uint64_t hashes[LIMIT_BURST];
        for (uint32_t k = 0; k < group; k++) {
            if (!take_bytes(exec, i + k, &keys[i + k])) {
                return false;
            }
            bytes[k] = &keys[i + k].bytes;
        }
        store_prefetch(exec->store, bytes, hashes, group);
        for (uint32_t k = 0; k < group; k++) {
            keys[i + k].hash = hashes[k];
        }
    }
    return true;
}

/* Look every key up once. Returns whether all versions are those that `versions` held; there they are now. */
static bool
collect(struct exec *exec, const struct exec_key *keys, const struct record **records, uint64_t *versions)
{
    bool is_same = true;
    for (uint32_t i = 0; i < exec->request->args_count; i++) {
        struct store_view view = store_view(exec->store, keys[i].bytes, keys[i].hash);
        is_same = is_same && view.version == versions[i];
        versions[i] = view.version;
        records[i] = view.record;
    }
    return is_same;
}

bool
exec_collect(struct exec *exec, const struct exec_key *keys, const struct record **records)
{
    uint64_t versions[LIMIT_REQUEST_ARGS];
    memset(versions, 0, exec->request->args_count * sizeof(versions[0]));
    collect(exec, keys, records, versions);
    if (exec->request->args_count == 1) {
        return true;
    }
    for (uint32_t failures = 0; failures < EXEC_COLLECTS_MAX; failures++) {
        if (collect(exec, keys, records, versions)) {
            return true;
        }
    }
    return false;
}

bool
exec_find_any(struct exec *exec, enum record_type type, const struct record **record)
{
    struct exec_key key;
    if (!exec_take_key(exec, &key)) {
        return false;
    }
    *record = store_find(exec->store, key.bytes, key.hash);
    if (*record != NULL && record_type(*record) != type) {
        reply_error(exec->reply, ERROR_WRONGTYPE);
        return false;
    }
    return true;
}

uint8_t *
exec_fresh(struct store_member *member, enum record_type type, struct slice key, size_t value_bytes,
           int64_t expires_at_ms, struct record **fresh)
{
    struct record *record = *fresh;
    if (record == NULL || record_type(record) != type || record->value_bytes != value_bytes ||
        record_expires_at_ms(record) != expires_at_ms) {
        record = store_record(member, type, key, value_bytes, expires_at_ms);
        if (UNLIKELY(record == NULL)) {
            return NULL;
        }
        *fresh = record;
    }
    return record_value_room(record);
}

enum exec_result
exec_not_done(struct exec *exec, enum store_status status)
{
    if (status == STORE_OOM && (exec->request->command->flags & CMD_DENYOOM)) {
        reply_error(exec->reply, ERROR_OOM);
        return EXEC_DONE;
    }
    return EXEC_RETRY;
}

bool
exec_take_int64(struct exec *exec, uint32_t index, int64_t *out)
{
    if (!arg_int64(&exec->request->args[index], out)) {
        reply_error(exec->reply, ERROR_NOT_INTEGER);
        return false;
    }
    return true;
}

bool
exec_arg_is(const struct exec *exec, uint32_t index, const char *lower)
{
    char scratch[ARG_TEXT_BYTES];
    return slice_equal_nocase(exec_arg_bytes(exec, index, scratch), lower);
}

const char *
exec_type_name(enum record_type type)
{
    static const char *const names[] = {
        [RECORD_GHOST] = "none",
        [RECORD_STRING] = "string",
        [RECORD_HASH] = "hash",
        [RECORD_ZSET] = "zset",
    };
    return names[type];
}

void
exec_refuse_arity(struct exec *exec, const char *name)
{
    struct slice pieces[] = { SLICE_LITERAL("ERR wrong number of arguments for '"), slice_text(name),
                              SLICE_LITERAL("' command") };
    reply_error_join(exec->reply, pieces, ARRAY_COUNT(pieces));
}

void
exec_refuse_expiry(struct exec *exec)
{
    struct slice pieces[] = { SLICE_LITERAL("ERR invalid expire time in '"), slice_text(exec->request->command->name),
                              SLICE_LITERAL("' command") };
    reply_error_join(exec->reply, pieces, ARRAY_COUNT(pieces));
}

void
exec_refuse_subcommand(struct exec *exec, const char *upper)
{
    char scratch[ARG_TEXT_BYTES];
    struct slice sub = exec_arg_bytes(exec, 0, scratch);
    struct slice pieces[] = { SLICE_LITERAL("ERR unknown subcommand '"), slice_of(sub.data, MIN(sub.bytes, 128)),
                              SLICE_LITERAL("'. Try "), slice_text(upper), SLICE_LITERAL(" HELP.") };
    reply_error_join(exec->reply, pieces, ARRAY_COUNT(pieces));
}

void
exec_refuse_packed(struct exec *exec, const char *object, const char *entries)
{
    char count[NUMBER_INT_BYTES], bytes[NUMBER_INT_BYTES];
    struct slice pieces[] = {
        SLICE_LITERAL("ERR "),
        slice_text(object),
        SLICE_LITERAL(" exceeds "),
        slice_of(count, number_print_int64(count, LIMIT_PACKED_ENTRIES)),
        SLICE_LITERAL(" "),
        slice_text(entries),
        SLICE_LITERAL(" or "),
        slice_of(bytes, number_print_int64(bytes, LIMIT_PACKED_BYTES)),
        SLICE_LITERAL(" bytes (larger objects come in a later release)"),
    };
    reply_error_join(exec->reply, pieces, ARRAY_COUNT(pieces));
}
