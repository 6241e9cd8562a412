/* exec_zset.c - ZADD ZREM ZSCORE ZCARD, on packed records. ZRANGE is in exec_zrange.c. */
#include "dataplane/exec_common.h"
#include "store/packed_zset.h"

static uint16_t
member_tag(const struct exec *exec, struct slice member)
{
    return packed_tag(store_hash(store_of(exec->store), member));
}

/* ---- ZADD ---- */

struct zadd_options {
    uint32_t flags; /* enum packed_zset_flag */
    bool is_changed_counted;
    uint32_t first_score; /* argument index of the first pair */
};

/* Scores begin with a letter only when they are infinite, so most commands need no look at the words. */
static bool
may_be_option(const struct arg *arg)
{
    return arg->kind == ARG_BYTES && arg->bytes.bytes > 0 && (arg->bytes.data[0] | 0x20) >= 'a';
}

/* Options stand before the first score; the first other word is a score. */
static void
zadd_options_read(const struct exec *exec, struct zadd_options *options)
{
    static const struct {
        const char *word;
        uint32_t flag;
    } words[] = {
        { "nx", PACKED_ZSET_NX }, { "xx", PACKED_ZSET_XX },     { "gt", PACKED_ZSET_GT },
        { "lt", PACKED_ZSET_LT }, { "incr", PACKED_ZSET_INCR }, { "ch", 0 },
    };
    *options = (struct zadd_options){ .first_score = 1 };
    for (; options->first_score < exec->request->args_count; options->first_score++) {
        size_t i = may_be_option(&exec->request->args[options->first_score]) ? 0 : ARRAY_COUNT(words);
        while (i < ARRAY_COUNT(words) && !exec_arg_is(exec, options->first_score, words[i].word)) {
            i++;
        }
        if (i == ARRAY_COUNT(words)) {
            break;
        }
        options->flags |= words[i].flag;
        options->is_changed_counted = options->is_changed_counted || words[i].flag == 0;
    }
}

/* What is wrong with the options, or NULL. */
static const char *
zadd_options_error(const struct zadd_options *options, uint32_t left)
{
    uint32_t flags = options->flags;
    bool nx = flags & PACKED_ZSET_NX, gt = flags & PACKED_ZSET_GT, lt = flags & PACKED_ZSET_LT;
    if (left == 0 || left % 2 != 0) {
        return ERROR_SYNTAX;
    }
    if (nx && (flags & PACKED_ZSET_XX)) {
        return "ERR XX and NX options at the same time are not compatible";
    }
    if ((gt && nx) || (lt && nx) || (gt && lt)) {
        return "ERR GT, LT, and/or NX options at the same time are not compatible";
    }
    if ((flags & PACKED_ZSET_INCR) && left > 2) {
        return "ERR INCR option supports a single increment-element pair";
    }
    return NULL;
}

struct zadd {
    struct slice key;
    const struct packed_score *pairs;
    uint32_t pairs_count, flags;
    uint32_t added, updated;
    double last_score;
    bool is_touched, is_wrong_type, is_nan, is_too_large;
};

static enum store_change
zadd_change(void *context, struct store_member *member, const struct record *old, struct record **fresh)
{
    struct zadd *zadd = context;
    struct packed_zset_plan plan;
    zadd->is_nan = zadd->is_too_large = false;
    zadd->is_wrong_type = old != NULL && record_type(old) != RECORD_ZSET;
    if (zadd->is_wrong_type) {
        return STORE_KEEP;
    }
    struct slice before = old != NULL ? record_value(old) : slice_of(NULL, 0);
    zadd->is_too_large = !packed_zset_plan_add(&plan, before, zadd->flags, zadd->pairs, zadd->pairs_count);
    zadd->is_nan = plan.is_nan;
    zadd->added = plan.added;
    zadd->updated = plan.updated;
    zadd->is_touched = plan.touched;
    zadd->last_score = plan.last_score;
    if (zadd->is_too_large || zadd->is_nan || plan.added + plan.updated == 0) {
        return STORE_KEEP;
    }
    int64_t expires_at_ms = old != NULL ? record_expires_at_ms(old) : RECORD_NO_EXPIRY;
    uint8_t *room = exec_fresh(member, RECORD_ZSET, zadd->key, plan.bytes, expires_at_ms, fresh);
    if (room == NULL) {
        return STORE_NO_MEMORY;
    }
    packed_zset_write(&plan, room);
    return STORE_PUBLISH;
}

static void
zadd_answer(struct exec *exec, const struct zadd *zadd, bool is_changed_counted)
{
    if (zadd->is_wrong_type) {
        reply_error(exec->reply, ERROR_WRONGTYPE);
    } else if (zadd->is_nan) {
        reply_error(exec->reply, "ERR resulting score is not a number (NaN)");
    } else if (zadd->is_too_large) {
        exec_refuse_packed(exec, "sorted set", "members");
    } else if (!(zadd->flags & PACKED_ZSET_INCR)) {
        reply_integer(exec->reply, zadd->added + (is_changed_counted ? zadd->updated : 0));
    } else if (zadd->is_touched) {
        reply_double(exec->reply, zadd->last_score);
    } else {
        reply_nil(exec->reply);
    }
}

enum exec_result
exec_zadd(struct exec *exec)
{
    struct exec_key key;
    struct packed_score pairs[LIMIT_REQUEST_ARGS / 2];
    char scratch[LIMIT_REQUEST_ARGS / 2][ARG_TEXT_BYTES];
    struct zadd_options options;
    if (!exec_take_key(exec, &key)) {
        return EXEC_DONE;
    }
    zadd_options_read(exec, &options);
    uint32_t left = exec->request->args_count - options.first_score;
    const char *error = zadd_options_error(&options, left);
    if (error != NULL) {
        reply_error(exec->reply, error);
        return EXEC_DONE;
    }
    struct zadd zadd = { .key = key.bytes, .pairs = pairs, .pairs_count = left / 2, .flags = options.flags };
    for (uint32_t i = 0; i < zadd.pairs_count; i++) {
        const struct arg *arg = &exec->request->args[options.first_score + 2 * i];
        if (!arg_double(arg, &pairs[i].score) || pairs[i].score != pairs[i].score) {
            reply_error(exec->reply, ERROR_NOT_FLOAT);
            return EXEC_DONE;
        }
        pairs[i].score += 0.0; /* one zero: -0 becomes 0 */
        pairs[i].member = arg_bytes(arg + 1, scratch[i]);
        pairs[i].tag = member_tag(exec, pairs[i].member);
    }

    enum store_status status = store_update(exec->store, key.bytes, key.hash, zadd_change, &zadd);
    if (UNLIKELY(status != STORE_OK)) {
        return exec_not_done(exec, status);
    }
    zadd_answer(exec, &zadd, options.is_changed_counted);
    return EXEC_DONE;
}

/* ---- ZREM ---- */

struct zrem {
    struct slice key;
    const struct packed_score *pairs;
    uint32_t pairs_count, removed;
    bool is_wrong_type;
};

static enum store_change
zrem_change(void *context, struct store_member *member, const struct record *old, struct record **fresh)
{
    struct zrem *zrem = context;
    struct packed_zset_plan plan;
    zrem->removed = 0;
    zrem->is_wrong_type = old != NULL && record_type(old) != RECORD_ZSET;
    if (old == NULL || zrem->is_wrong_type) {
        return STORE_KEEP;
    }
    packed_zset_plan_remove(&plan, record_value(old), zrem->pairs, zrem->pairs_count);
    zrem->removed = plan.removed;
    if (plan.removed == 0) {
        return STORE_KEEP;
    }
    if (plan.count == 0) {
        return STORE_REMOVE; /* there is no empty sorted set */
    }
    uint8_t *room = exec_fresh(member, RECORD_ZSET, zrem->key, plan.bytes, record_expires_at_ms(old), fresh);
    if (room == NULL) {
        return STORE_NO_MEMORY;
    }
    packed_zset_write(&plan, room);
    return STORE_PUBLISH;
}

enum exec_result
exec_zrem(struct exec *exec)
{
    struct exec_key key;
    struct packed_score pairs[LIMIT_REQUEST_ARGS];
    char scratch[LIMIT_REQUEST_ARGS][ARG_TEXT_BYTES];
    if (!exec_take_key(exec, &key)) {
        return EXEC_DONE;
    }
    struct zrem zrem = { .key = key.bytes, .pairs = pairs, .pairs_count = exec->request->args_count - 1 };
    for (uint32_t i = 0; i < zrem.pairs_count; i++) {
        pairs[i].member = exec_arg_bytes(exec, 1 + i, scratch[i]);
        pairs[i].tag = member_tag(exec, pairs[i].member);
    }

    enum store_status status = store_update(exec->store, key.bytes, key.hash, zrem_change, &zrem);
    if (UNLIKELY(status != STORE_OK)) {
        return exec_not_done(exec, status);
    }
    if (zrem.is_wrong_type) {
        reply_error(exec->reply, ERROR_WRONGTYPE);
    } else {
        reply_integer(exec->reply, zrem.removed);
    }
    return EXEC_DONE;
}

/* ---- reads ---- */

enum exec_result
exec_zscore(struct exec *exec)
{
    char scratch[ARG_TEXT_BYTES];
    const struct record *record;
    if (!exec_find(exec, RECORD_ZSET, &record)) {
        return EXEC_DONE;
    }
    if (record != NULL) {
        struct packed zset = packed_zset_open(record_value(record));
        struct slice member = exec_arg_bytes(exec, 1, scratch);
        uint32_t rank = packed_zset_find(&zset, member, member_tag(exec, member));
        if (rank < zset.count) {
            reply_double(exec->reply, packed_zset_score(&zset, rank));
            return EXEC_DONE;
        }
    }
    reply_nil(exec->reply);
    return EXEC_DONE;
}

enum exec_result
exec_zcard(struct exec *exec)
{
    const struct record *record;
    if (exec_find(exec, RECORD_ZSET, &record)) {
        reply_integer(exec->reply, record != NULL ? packed_zset_open(record_value(record)).count : 0);
    }
    return EXEC_DONE;
}
