/* exec_common.h - what command handlers share: keys, typed look-ups, one-key changes, errors made of pieces. */
#pragma once
#include "dataplane/exec.h"

/* A key of the request at hand. Stays where it is: `bytes` may lie in `scratch`. */
struct exec_key {
    struct slice bytes;
    uint64_t hash;
    char scratch[ARG_TEXT_BYTES];
};

/* Argument `index` as bytes, printed into `scratch` when a typed wire sent a number. */
static inline struct slice
exec_arg_bytes(const struct exec *exec, uint32_t index, char scratch[ARG_TEXT_BYTES])
{
    const struct arg *arg = &exec->request->args[index];
    return LIKELY(arg->kind == ARG_BYTES) ? arg->bytes : arg_bytes(arg, scratch);
}

/* Argument `index` as a key. False: longer than LIMIT_KEY_BYTES; the error is answered. */
bool exec_take_any_key(struct exec *exec, uint32_t index, struct exec_key *key);

/* The first argument as a key, hashed by burst.c when it came as bytes. */
static inline bool
exec_take_key(struct exec *exec, struct exec_key *key)
{
    const struct arg *arg = &exec->request->args[0];
    if (LIKELY(arg->kind == ARG_BYTES && arg->bytes.bytes <= LIMIT_KEY_BYTES)) {
        key->bytes = arg->bytes;
        key->hash = exec->hash;
        return true;
    }
    return exec_take_any_key(exec, 0, key);
}

/* Arguments first .. args_count-1 as keys, with their buckets and records prefetched. False: as above. */
bool exec_take_keys(struct exec *exec, uint32_t first, struct exec_key *keys);

/* Read every argument's key at one point in time: `records` (NULL: absent) as they all were at one moment between call
 * and return. False: they changed under each of EXEC_COLLECTS_MAX collects; answer EXEC_RETRY.
 * Lifetime of the records: until the end of the turn. */
bool exec_collect(struct exec *exec, const struct exec_key *keys, const struct record **records);
#define EXEC_COLLECTS_MAX 8

/* exec_find() of a key that is a number or too long, or of another type. */
bool exec_find_any(struct exec *exec, enum record_type type, const struct record **record);

/* Look the first argument up as a key of `type`.
 * Returns  true with *record NULL when absent; false when an error is answered: another type, key too long.
 * Lifetime *record until the end of the turn. */
static inline bool
exec_find(struct exec *exec, enum record_type type, const struct record **record)
{
    const struct arg *arg = &exec->request->args[0];
    if (LIKELY(arg->kind == ARG_BYTES && arg->bytes.bytes <= LIMIT_KEY_BYTES)) {
        *record = store_find(exec->store, arg->bytes, exec->hash);
        if (LIKELY(*record == NULL || record_type(*record) == type)) {
            return true;
        }
    }
    return exec_find_any(exec, type, record);
}

/* Inside a store_change_fn: room for the new version's value, in the record of the run before where it fits.
 * expires_at_ms: Unix ms or RECORD_NO_EXPIRY. NULL: answer STORE_NO_MEMORY. */
uint8_t *exec_fresh(struct store_member *member, enum record_type type, struct slice key, size_t value_bytes,
                    int64_t expires_at_ms, struct record **fresh);

/* What becomes of a command whose change did not take effect: commands that may take memory are refused when there is
 * none; those that give memory back wait for a turn. */
enum exec_result exec_not_done(struct exec *exec, enum store_status status);

/* Argument `index` as an integer. False: ERROR_NOT_INTEGER is answered. */
bool exec_take_int64(struct exec *exec, uint32_t index, int64_t *out);

/* Argument `index` is this word; `lower` in lower case, letters compare in either. */
bool exec_arg_is(const struct exec *exec, uint32_t index, const char *lower);

/* As TYPE answers: "string", "hash", "zset". */
const char *exec_type_name(enum record_type type);

/* "ERR wrong number of arguments for 'NAME' command"; `name` of a subcommand is "command|sub". */
void exec_refuse_arity(struct exec *exec, const char *name);

/* "ERR invalid expire time in 'NAME' command", of the command at hand. */
void exec_refuse_expiry(struct exec *exec);

/* "ERR unknown subcommand 'SUB'. Try NAME HELP."; `upper` is the command's name in upper case. */
void exec_refuse_subcommand(struct exec *exec, const char *upper);

/* An object beyond LIMIT_PACKED_ENTRIES or LIMIT_PACKED_BYTES. `object` "hash", `entries` "fields". */
void exec_refuse_packed(struct exec *exec, const char *object, const char *entries);
