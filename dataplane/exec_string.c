/* exec_string.c - SET GET MGET STRLEN APPEND INCR INCRBY DECR DECRBY. */
#include "codec/number.h"
#include "dataplane/exec_common.h"
#include "dataplane/session.h"

#define ERROR_STRING_TOO_LONG "ERR string exceeds maximum allowed size (proto-max-bulk-len)"

/* ---- SET ---- */

enum set_flag {
    SET_NX = 1 << 0,
    SET_XX = 1 << 1,
    SET_GET = 1 << 2,
    SET_KEEPTTL = 1 << 3,
    SET_EX = 1 << 4,
    SET_PX = 1 << 5,
    SET_EXAT = 1 << 6,
    SET_PXAT = 1 << 7,
};
#define SET_EXPIRES (SET_EX | SET_PX | SET_EXAT | SET_PXAT)

/* An option, and the options that it does not go with. Options with a number take the next argument. */
static const struct set_option {
    const char *word;
    uint32_t flag, excludes;
} set_options[] = {
    { "ex", SET_EX, SET_KEEPTTL | (SET_EXPIRES & ~SET_EX) },
    { "px", SET_PX, SET_KEEPTTL | (SET_EXPIRES & ~SET_PX) },
    { "nx", SET_NX, SET_XX },
    { "xx", SET_XX, SET_NX },
    { "get", SET_GET, 0 },
    { "keepttl", SET_KEEPTTL, SET_EXPIRES },
    { "exat", SET_EXAT, SET_KEEPTTL | (SET_EXPIRES & ~SET_EXAT) },
    { "pxat", SET_PXAT, SET_KEEPTTL | (SET_EXPIRES & ~SET_PXAT) },
};

static const struct set_option *
set_option_find(const struct exec *exec, uint32_t index)
{
    for (size_t i = 0; i < ARRAY_COUNT(set_options); i++) {
        if (exec_arg_is(exec, index, set_options[i].word)) {
            return &set_options[i];
        }
    }
    return NULL;
}

/* False: a syntax error. *expiry_index is the argument that holds the expiry, when a flag of SET_EXPIRES is set. */
static bool
set_options_read(const struct exec *exec, uint32_t *flags, uint32_t *expiry_index)
{
    uint32_t count = exec->request->args_count;
    *flags = 0;
    for (uint32_t i = 2; i < count; i++) {
        const struct set_option *option = set_option_find(exec, i);
        if (option == NULL || (*flags & option->excludes)) {
            return false;
        }
        *flags |= option->flag;
        if (option->flag & SET_EXPIRES) {
            if (++i == count) {
                return false;
            }
            *expiry_index = i;
        }
    }
    return true;
}

/* The Unix time in ms that an expiry means. False: the error is answered. */
static bool
set_expiry_read(struct exec *exec, uint32_t flags, uint32_t index, int64_t *at_ms)
{
    int64_t value;
    if (!exec_take_int64(exec, index, &value)) {
        return false;
    }
    bool fits = value > 0;
    if (flags & (SET_EX | SET_EXAT)) {
        fits = fits && !__builtin_mul_overflow(value, 1000, &value);
    }
    if (flags & (SET_EX | SET_PX)) {
        fits = fits && !__builtin_add_overflow(value, exec->now_ms, &value);
    }
    if (!fits) {
        exec_refuse_expiry(exec);
        return false;
    }
    *at_ms = value;
    return true;
}

struct set {
    struct slice key, value;
    uint32_t flags;
    int64_t expires_at_ms, now_ms;
    struct reply *reply; /* with GET: of the old value, before there is a new one */
    bool is_set;
};

/* What was set cannot be set again because its reply found no memory: so the reply comes first. False: nothing is to be
 * set. */
static bool
set_answer_old(const struct set *set, const struct record *old)
{
    bool is_string = old == NULL || record_type(old) == RECORD_STRING;
    reply_restart(set->reply);
    if (!is_string) {
        reply_error(set->reply, ERROR_WRONGTYPE);
    } else if (old != NULL) {
        reply_bulk(set->reply, record_value(old));
    } else {
        reply_nil(set->reply);
    }
    return is_string && !set->reply->sink->failed;
}

static enum store_change
set_change(void *context, struct store_member *member, const struct record *old, struct record **fresh)
{
    struct set *set = context;
    bool answered = !(set->flags & SET_GET) || set_answer_old(set, old);
    set->is_set = answered && !((set->flags & SET_NX) && old != NULL) && !((set->flags & SET_XX) && !old);
    if (!set->is_set) {
        return STORE_KEEP;
    }
    int64_t expires_at_ms = set->expires_at_ms;
    if ((set->flags & SET_KEEPTTL) && old != NULL) {
        expires_at_ms = record_expires_at_ms(old);
    } else if ((set->flags & SET_EXPIRES) && expires_at_ms <= set->now_ms) {
        return old != NULL ? STORE_REMOVE : STORE_KEEP; /* EXAT in the past: the key is set and gone at once */
    }
    uint8_t *room = exec_fresh(member, RECORD_STRING, set->key, set->value.bytes, expires_at_ms, fresh);
    if (room == NULL) {
        return STORE_NO_MEMORY;
    }
    bytes_copy(room, set->value.data, set->value.bytes);
    return STORE_PUBLISH;
}

enum exec_result
exec_set(struct exec *exec)
{
    struct exec_key key;
    char scratch[ARG_TEXT_BYTES];
    uint32_t expiry_index = 0;
    struct set set = { .reply = exec->reply, .expires_at_ms = RECORD_NO_EXPIRY, .now_ms = exec->now_ms };
    if (!exec_take_key(exec, &key)) {
        return EXEC_DONE;
    }
    set.key = key.bytes;
    set.value = exec_arg_bytes(exec, 1, scratch);
    if (!set_options_read(exec, &set.flags, &expiry_index)) {
        reply_error(exec->reply, ERROR_SYNTAX);
        return EXEC_DONE;
    }
    if ((set.flags & SET_EXPIRES) && !set_expiry_read(exec, set.flags, expiry_index, &set.expires_at_ms)) {
        return EXEC_DONE;
    }
    if (set.value.bytes > LIMIT_VALUE_BYTES) {
        reply_error(exec->reply, ERROR_STRING_TOO_LONG);
        return EXEC_DONE;
    }

    enum store_status status = store_update(exec->store, key.bytes, key.hash, set_change, &set);
    if (UNLIKELY(status != STORE_OK)) {
        reply_restart(exec->reply);
        return exec_not_done(exec, status);
    }
    if (set.flags & SET_GET) {
        return exec->reply->sink->failed && exec->session->out.starved ? EXEC_RETRY : EXEC_DONE;
    }
    if (set.is_set) {
        reply_ok(exec->reply);
    } else {
        reply_nil(exec->reply);
    }
    return EXEC_DONE;
}

/* ---- GET, STRLEN, MGET ---- */

enum exec_result
exec_get(struct exec *exec)
{
    const struct record *record;
    if (!exec_find(exec, RECORD_STRING, &record)) {
        return EXEC_DONE;
    }
    if (record != NULL) {
        reply_bulk(exec->reply, record_value(record));
    } else {
        reply_nil(exec->reply);
    }
    return EXEC_DONE;
}

enum exec_result
exec_strlen(struct exec *exec)
{
    const struct record *record;
    if (exec_find(exec, RECORD_STRING, &record)) {
        reply_integer(exec->reply, record != NULL ? record->value_bytes : 0);
    }
    return EXEC_DONE;
}

static bool
is_string(const struct record *record)
{
    return record != NULL && record_type(record) == RECORD_STRING;
}

static size_t
values_bytes(const struct record *const *records, uint32_t count)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        bytes += is_string(records[i]) ? records[i]->value_bytes : 0;
    }
    return bytes;
}

enum exec_result
exec_mget(struct exec *exec)
{
    struct exec_key keys[LIMIT_REQUEST_ARGS];
    const struct record *records[LIMIT_REQUEST_ARGS];
    uint32_t count = exec->request->args_count;
    if (!exec_take_keys(exec, 0, keys)) {
        return EXEC_DONE;
    }
    if (!exec_collect(exec, keys, records)) {
        return EXEC_RETRY;
    }
    if (values_bytes(records, count) > LIMIT_REPLY_BYTES) {
        reply_error(exec->reply, ERROR_TOO_LONG); /* before a gigabyte is copied */
        return EXEC_DONE;
    }
    reply_array(exec->reply, count);
    for (uint32_t i = 0; i < count; i++) {
        if (is_string(records[i])) {
            reply_bulk(exec->reply, record_value(records[i]));
        } else {
            reply_nil(exec->reply);
        }
    }
    return EXEC_DONE;
}

/* ---- APPEND ---- */

struct append {
    struct slice key, value;
    const char *error;
    size_t bytes; /* afterwards */
};

static enum store_change
append_change(void *context, struct store_member *member, const struct record *old, struct record **fresh)
{
    struct append *append = context;
    struct slice before = old != NULL ? record_value(old) : slice_of(NULL, 0);
    append->bytes = before.bytes + append->value.bytes;
    append->error = NULL;
    if (old != NULL && record_type(old) != RECORD_STRING) {
        append->error = ERROR_WRONGTYPE;
    } else if (append->bytes > LIMIT_VALUE_BYTES) {
        append->error = ERROR_STRING_TOO_LONG;
    }
    if (append->error != NULL) {
        return STORE_KEEP;
    }
    int64_t expires_at_ms = old != NULL ? record_expires_at_ms(old) : RECORD_NO_EXPIRY;
    uint8_t *room = exec_fresh(member, RECORD_STRING, append->key, append->bytes, expires_at_ms, fresh);
    if (room == NULL) {
        return STORE_NO_MEMORY;
    }
    bytes_copy(room, before.data, before.bytes);
    bytes_copy(room + before.bytes, append->value.data, append->value.bytes);
    return STORE_PUBLISH;
}

enum exec_result
exec_append(struct exec *exec)
{
    struct exec_key key;
    char scratch[ARG_TEXT_BYTES];
    if (!exec_take_key(exec, &key)) {
        return EXEC_DONE;
    }
    struct append append = { .key = key.bytes, .value = exec_arg_bytes(exec, 1, scratch) };
    enum store_status status = store_update(exec->store, key.bytes, key.hash, append_change, &append);
    if (UNLIKELY(status != STORE_OK)) {
        return exec_not_done(exec, status);
    }
    if (append.error != NULL) {
        reply_error(exec->reply, append.error);
    } else {
        reply_integer(exec->reply, (int64_t)append.bytes);
    }
    return EXEC_DONE;
}

/* ---- INCR and its kin ---- */

struct increment {
    struct slice key;
    int64_t by, result;
    const char *error;
};

static enum store_change
increment_change(void *context, struct store_member *member, const struct record *old, struct record **fresh)
{
    struct increment *increment = context;
    int64_t before = 0;
    increment->error = NULL;
    if (old != NULL && record_type(old) != RECORD_STRING) {
        increment->error = ERROR_WRONGTYPE;
    } else if (old != NULL && !number_parse_int64(record_value(old), &before)) {
        increment->error = ERROR_NOT_INTEGER;
    } else if (__builtin_add_overflow(before, increment->by, &increment->result)) {
        increment->error = "ERR increment or decrement would overflow";
    }
    if (increment->error != NULL) {
        return STORE_KEEP;
    }
    char text[NUMBER_INT_BYTES];
    size_t bytes = number_print_int64(text, increment->result);
    int64_t expires_at_ms = old != NULL ? record_expires_at_ms(old) : RECORD_NO_EXPIRY;
    uint8_t *room = exec_fresh(member, RECORD_STRING, increment->key, bytes, expires_at_ms, fresh);
    if (room == NULL) {
        return STORE_NO_MEMORY;
    }
    memcpy(room, text, bytes);
    return STORE_PUBLISH;
}

static enum exec_result
increment_by(struct exec *exec, int64_t by)
{
    struct exec_key key;
    if (!exec_take_key(exec, &key)) {
        return EXEC_DONE;
    }
    struct increment increment = { .key = key.bytes, .by = by };
    enum store_status status = store_update(exec->store, key.bytes, key.hash, increment_change, &increment);
    if (UNLIKELY(status != STORE_OK)) {
        return exec_not_done(exec, status);
    }
    if (increment.error != NULL) {
        reply_error(exec->reply, increment.error);
    } else {
        reply_integer(exec->reply, increment.result);
    }
    return EXEC_DONE;
}

enum exec_result
exec_incr(struct exec *exec)
{
    return increment_by(exec, 1);
}

enum exec_result
exec_decr(struct exec *exec)
{
    return increment_by(exec, -1);
}

enum exec_result
exec_incrby(struct exec *exec)
{
    int64_t by;
    return exec_take_int64(exec, 1, &by) ? increment_by(exec, by) : EXEC_DONE;
}

enum exec_result
exec_decrby(struct exec *exec)
{
    int64_t by;
    if (!exec_take_int64(exec, 1, &by)) {
        return EXEC_DONE;
    }
    if (by == INT64_MIN) {
        reply_error(exec->reply, "ERR decrement would overflow");
        return EXEC_DONE;
    }
    return increment_by(exec, -by);
}
