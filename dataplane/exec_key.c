/* exec_key.c - DEL UNLINK EXISTS TYPE EXPIRE PEXPIRE TTL PTTL PERSIST. */
#include "dataplane/exec_common.h"

/* ---- DEL, UNLINK ---- */

static enum store_change
del_change(void *context, struct store_member *member, const struct record *old, struct record **fresh)
{
    bool *was_there = context;
    *was_there = old != NULL;
    return *was_there ? STORE_REMOVE : STORE_KEEP;
}

/* Key by key: each removal is a moment of its own. A store that asks for patience in the middle is asked again next
 * turn from that key on; what is removed stays removed and stays counted (exec_progress). */
enum exec_result
exec_del(struct exec *exec)
{
    struct exec_key keys[LIMIT_REQUEST_ARGS];
    struct exec_progress *progress = &exec->progress;
    if (!exec_take_keys(exec, progress->done, keys)) {
        return EXEC_DONE;
    }
    while (progress->done < exec->request->args_count) {
        const struct exec_key *key = &keys[progress->done];
        bool was_there = false;
        enum store_status status = store_update(exec->store, key->bytes, key->hash, del_change, &was_there);
        if (UNLIKELY(status != STORE_OK)) {
            return exec_not_done(exec, status);
        }
        progress->done++;
        progress->counted += was_there;
    }
    reply_integer(exec->reply, progress->counted);
    return EXEC_DONE;
}

/* ---- EXISTS, TYPE ---- */

enum exec_result
exec_exists(struct exec *exec)
{
    struct exec_key keys[LIMIT_REQUEST_ARGS];
    const struct record *records[LIMIT_REQUEST_ARGS];
    if (!exec_take_keys(exec, 0, keys)) {
        return EXEC_DONE;
    }
    if (!exec_collect(exec, keys, records)) {
        return EXEC_RETRY;
    }
    int64_t there = 0;
    for (uint32_t i = 0; i < exec->request->args_count; i++) {
        there += records[i] != NULL;
    }
    reply_integer(exec->reply, there);
    return EXEC_DONE;
}

enum exec_result
exec_type(struct exec *exec)
{
    struct exec_key key;
    if (!exec_take_key(exec, &key)) {
        return EXEC_DONE;
    }
    const struct record *record = store_find(exec->store, key.bytes, key.hash);
    reply_status(exec->reply, record != NULL ? exec_type_name(record_type(record)) : "none");
    return EXEC_DONE;
}

/* ---- EXPIRE, PEXPIRE, PERSIST ---- */

enum expire_flag {
    EXPIRE_NX = 1 << 0,
    EXPIRE_XX = 1 << 1,
    EXPIRE_GT = 1 << 2,
    EXPIRE_LT = 1 << 3,
};

struct expire {
    struct slice key;
    uint32_t flags;
    int64_t at_ms, now_ms;
    bool is_persist; /* at_ms is RECORD_NO_EXPIRY */
    bool is_changed;
};

/* Whether NX XX GT LT let the new time take the old one's place; no time to live is endless for GT and LT. */
static bool
expire_is_allowed(const struct expire *expire, int64_t current_ms)
{
    bool is_volatile = current_ms != RECORD_NO_EXPIRY;
    return !((expire->flags & EXPIRE_NX) && is_volatile) && !((expire->flags & EXPIRE_XX) && !is_volatile) &&
           !((expire->flags & EXPIRE_GT) && (!is_volatile || expire->at_ms <= current_ms)) &&
           !((expire->flags & EXPIRE_LT) && is_volatile && expire->at_ms >= current_ms);
}

static enum store_change
expire_change(void *context, struct store_member *member, const struct record *old, struct record **fresh)
{
    struct expire *expire = context;
    expire->is_changed = old != NULL;
    if (expire->is_persist && old != NULL) {
        expire->is_changed = record_expires_at_ms(old) != RECORD_NO_EXPIRY;
    } else if (old != NULL) {
        expire->is_changed = expire_is_allowed(expire, record_expires_at_ms(old));
    }
    if (!expire->is_changed) {
        return STORE_KEEP;
    }
    if (!expire->is_persist && expire->at_ms <= expire->now_ms) {
        return STORE_REMOVE;
    }
    struct slice value = record_value(old);
    uint8_t *room = exec_fresh(member, record_type(old), expire->key, value.bytes, expire->at_ms, fresh);
    if (room == NULL) {
        return STORE_NO_MEMORY;
    }
    bytes_copy(room, value.data, value.bytes);
    return STORE_PUBLISH;
}

static enum exec_result
expire_key(struct exec *exec, struct expire *expire)
{
    struct exec_key key;
    if (!exec_take_key(exec, &key)) {
        return EXEC_DONE;
    }
    expire->key = key.bytes;
    expire->now_ms = exec->now_ms;
    enum store_status status = store_update(exec->store, key.bytes, key.hash, expire_change, expire);
    if (UNLIKELY(status != STORE_OK)) {
        return exec_not_done(exec, status);
    }
    reply_integer(exec->reply, expire->is_changed);
    return EXEC_DONE;
}

/* False: the error is answered. */
static bool
expire_flags_read(struct exec *exec, uint32_t *flags)
{
    *flags = 0;
    for (uint32_t i = 2; i < exec->request->args_count; i++) {
        if (exec_arg_is(exec, i, "nx")) {
            *flags |= EXPIRE_NX;
        } else if (exec_arg_is(exec, i, "xx")) {
            *flags |= EXPIRE_XX;
        } else if (exec_arg_is(exec, i, "gt")) {
            *flags |= EXPIRE_GT;
        } else if (exec_arg_is(exec, i, "lt")) {
            *flags |= EXPIRE_LT;
        } else {
            char scratch[ARG_TEXT_BYTES];
            struct slice pieces[] = { SLICE_LITERAL("ERR Unsupported option "), exec_arg_bytes(exec, i, scratch) };
            reply_error_join(exec->reply, pieces, ARRAY_COUNT(pieces));
            return false;
        }
    }
    if ((*flags & EXPIRE_NX) && (*flags & ~EXPIRE_NX)) {
        reply_error(exec->reply, "ERR NX and XX, GT or LT options at the same time are not compatible");
        return false;
    }
    if ((*flags & EXPIRE_GT) && (*flags & EXPIRE_LT)) {
        reply_error(exec->reply, "ERR GT and LT options at the same time are not compatible");
        return false;
    }
    return true;
}

/* `unit_ms` 1000 or 1. Negative times are allowed: they remove the key; what does not fit 64 bits is not. */
static enum exec_result
expire_in(struct exec *exec, int64_t unit_ms)
{
    struct expire expire = { 0 };
    int64_t value;
    if (!expire_flags_read(exec, &expire.flags) || !exec_take_int64(exec, 1, &value)) {
        return EXEC_DONE;
    }
    if (__builtin_mul_overflow(value, unit_ms, &value) || __builtin_add_overflow(value, exec->now_ms, &expire.at_ms)) {
        exec_refuse_expiry(exec);
        return EXEC_DONE;
    }
    return expire_key(exec, &expire);
}

enum exec_result
exec_expire(struct exec *exec)
{
    return expire_in(exec, 1000);
}

enum exec_result
exec_pexpire(struct exec *exec)
{
    return expire_in(exec, 1);
}

enum exec_result
exec_persist(struct exec *exec)
{
    struct expire expire = { .at_ms = RECORD_NO_EXPIRY, .is_persist = true };
    return expire_key(exec, &expire);
}

/* ---- TTL, PTTL ---- */

/* Whole units left, -1 without a time to live, -2 without the key. */
static enum exec_result
ttl_in(struct exec *exec, int64_t unit_ms)
{
    struct exec_key key;
    if (!exec_take_key(exec, &key)) {
        return EXEC_DONE;
    }
    const struct record *record = store_find(exec->store, key.bytes, key.hash);
    int64_t at_ms = record != NULL ? record_expires_at_ms(record) : RECORD_NO_EXPIRY;
    if (record == NULL || at_ms == RECORD_NO_EXPIRY) {
        reply_integer(exec->reply, record == NULL ? -2 : -1);
    } else {
        /* rounded to the nearest unit, as Redis does */
        uint64_t left = (uint64_t)MAX(at_ms - exec->now_ms, 0);
        reply_integer(exec->reply, (int64_t)((left + (uint64_t)unit_ms / 2) / (uint64_t)unit_ms));
    }
    return EXEC_DONE;
}

enum exec_result
exec_ttl(struct exec *exec)
{
    return ttl_in(exec, 1000);
}

enum exec_result
exec_pttl(struct exec *exec)
{
    return ttl_in(exec, 1);
}
