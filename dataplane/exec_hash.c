/* exec_hash.c - HSET HGET HDEL HLEN HGETALL HEXISTS, on packed records. */
#include "dataplane/exec_common.h"
#include "store/packed_hash.h"

#define PAIRS_MAX (LIMIT_REQUEST_ARGS / 2)

static uint16_t
field_tag(const struct exec *exec, struct slice field)
{
    return packed_tag(store_hash(store_of(exec->store), field));
}

/* ---- HSET ---- */

struct hset {
    struct slice key;
    const struct packed_pair *pairs;
    uint32_t pairs_count, added;
    bool is_wrong_type, is_too_large;
};

static enum store_change
hset_change(void *context, struct store_member *member, const struct record *old, struct record **fresh)
{
    struct hset *hset = context;
    struct packed_hash_plan plan;
    hset->is_too_large = false;
    hset->is_wrong_type = old != NULL && record_type(old) != RECORD_HASH;
    if (hset->is_wrong_type) {
        return STORE_KEEP;
    }
    struct slice before = old != NULL ? record_value(old) : slice_of(NULL, 0);
    hset->is_too_large = !packed_hash_plan_set(&plan, before, hset->pairs, hset->pairs_count);
    if (hset->is_too_large) {
        return STORE_KEEP;
    }
    int64_t expires_at_ms = old != NULL ? record_expires_at_ms(old) : RECORD_NO_EXPIRY;
    uint8_t *room = exec_fresh(member, RECORD_HASH, hset->key, plan.bytes, expires_at_ms, fresh);
    if (room == NULL) {
        return STORE_NO_MEMORY;
    }
    packed_hash_write(&plan, room);
    hset->added = plan.added;
    return STORE_PUBLISH;
}

enum exec_result
exec_hset(struct exec *exec)
{
    struct exec_key key;
    struct packed_pair pairs[PAIRS_MAX];
    char scratch[LIMIT_REQUEST_ARGS][ARG_TEXT_BYTES];
    const struct request *request = exec->request;
    if (request->args_count % 2 == 0) {
        exec_refuse_arity(exec, request->command->name);
        return EXEC_DONE;
    }
    if (!exec_take_key(exec, &key)) {
        return EXEC_DONE;
    }
    struct hset hset = { .key = key.bytes, .pairs = pairs, .pairs_count = (request->args_count - 1) / 2 };
    for (uint32_t i = 0; i < hset.pairs_count; i++) {
        uint32_t arg = 1 + 2 * i;
        pairs[i].field = exec_arg_bytes(exec, arg, scratch[arg]);
        pairs[i].value = exec_arg_bytes(exec, arg + 1, scratch[arg + 1]);
        pairs[i].tag = field_tag(exec, pairs[i].field);
    }

    enum store_status status = store_update(exec->store, key.bytes, key.hash, hset_change, &hset);
    if (UNLIKELY(status != STORE_OK)) {
        return exec_not_done(exec, status);
    }
    if (hset.is_wrong_type) {
        reply_error(exec->reply, ERROR_WRONGTYPE);
    } else if (hset.is_too_large) {
        exec_refuse_packed(exec, "hash", "fields");
    } else {
        reply_integer(exec->reply, hset.added);
    }
    return EXEC_DONE;
}

/* ---- HDEL ---- */

struct hdel {
    struct slice key;
    const struct packed_pair *pairs;
    uint32_t pairs_count, removed;
    bool is_wrong_type;
};

static enum store_change
hdel_change(void *context, struct store_member *member, const struct record *old, struct record **fresh)
{
    struct hdel *hdel = context;
    struct packed_hash_plan plan;
    hdel->removed = 0;
    hdel->is_wrong_type = old != NULL && record_type(old) != RECORD_HASH;
    if (old == NULL || hdel->is_wrong_type) {
        return STORE_KEEP;
    }
    packed_hash_plan_remove(&plan, record_value(old), hdel->pairs, hdel->pairs_count);
    hdel->removed = plan.removed;
    if (plan.removed == 0) {
        return STORE_KEEP;
    }
    if (plan.count == 0) {
        return STORE_REMOVE; /* there is no empty hash */
    }
    uint8_t *room = exec_fresh(member, RECORD_HASH, hdel->key, plan.bytes, record_expires_at_ms(old), fresh);
    if (room == NULL) {
        return STORE_NO_MEMORY;
    }
    packed_hash_write(&plan, room);
    return STORE_PUBLISH;
}

enum exec_result
exec_hdel(struct exec *exec)
{
    struct exec_key key;
    struct packed_pair pairs[LIMIT_REQUEST_ARGS];
    char scratch[LIMIT_REQUEST_ARGS][ARG_TEXT_BYTES];
    const struct request *request = exec->request;
    if (!exec_take_key(exec, &key)) {
        return EXEC_DONE;
    }
    struct hdel hdel = { .key = key.bytes, .pairs = pairs, .pairs_count = request->args_count - 1 };
    for (uint32_t i = 0; i < hdel.pairs_count; i++) {
        pairs[i].field = exec_arg_bytes(exec, 1 + i, scratch[i]);
        pairs[i].tag = field_tag(exec, pairs[i].field);
    }

    enum store_status status = store_update(exec->store, key.bytes, key.hash, hdel_change, &hdel);
    if (UNLIKELY(status != STORE_OK)) {
        return exec_not_done(exec, status);
    }
    if (hdel.is_wrong_type) {
        reply_error(exec->reply, ERROR_WRONGTYPE);
    } else {
        reply_integer(exec->reply, hdel.removed);
    }
    return EXEC_DONE;
}

/* ---- reads ---- */

/* Find the field that argument 1 names. False: an error is answered. *is_there says whether there is one. */
static bool
find_field(struct exec *exec, bool *is_there, struct slice *value)
{
    char scratch[ARG_TEXT_BYTES];
    const struct record *record;
    *is_there = false;
    if (!exec_find(exec, RECORD_HASH, &record)) {
        return false;
    }
    if (record != NULL) {
        struct packed hash = packed_hash_open(record_value(record));
        struct slice field = exec_arg_bytes(exec, 1, scratch);
        *is_there = packed_hash_find(&hash, field, field_tag(exec, field), value) < hash.count;
    }
    return true;
}

enum exec_result
exec_hget(struct exec *exec)
{
    bool is_there;
    struct slice value;
    if (!find_field(exec, &is_there, &value)) {
        return EXEC_DONE;
    }
    if (is_there) {
        reply_bulk(exec->reply, value);
    } else {
        reply_nil(exec->reply);
    }
    return EXEC_DONE;
}

enum exec_result
exec_hexists(struct exec *exec)
{
    bool is_there;
    struct slice value;
    if (find_field(exec, &is_there, &value)) {
        reply_integer(exec->reply, is_there);
    }
    return EXEC_DONE;
}

enum exec_result
exec_hlen(struct exec *exec)
{
    const struct record *record;
    if (exec_find(exec, RECORD_HASH, &record)) {
        reply_integer(exec->reply, record != NULL ? packed_hash_open(record_value(record)).count : 0);
    }
    return EXEC_DONE;
}

enum exec_result
exec_hgetall(struct exec *exec)
{
    const struct record *record;
    if (!exec_find(exec, RECORD_HASH, &record)) {
        return EXEC_DONE;
    }
    struct packed hash = packed_hash_open(record != NULL ? record_value(record) : slice_of(NULL, 0));
    reply_map(exec->reply, hash.count);
    for (uint32_t i = 0; i < hash.count; i++) {
        struct slice field, value;
        packed_hash_at(&hash, i, &field, &value);
        reply_bulk(exec->reply, field);
        reply_bulk(exec->reply, value);
    }
    return EXEC_DONE;
}
