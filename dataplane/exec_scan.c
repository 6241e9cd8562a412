/* exec_scan.c - SCAN RANDOMKEY KEYS HSCAN ZSCAN: what there is, in steps that stay below a turn's budget. */
#include "codec/number.h"
#include "config/cycles.h"
#include "dataplane/exec_common.h"
#include "dataplane/glob.h"
#include "dataplane/later.h"
#include "dataplane/mail.h"
#include "store/packed_hash.h"
#include "store/packed_zset.h"
#include "store/scan.h"

#define CHAIN_ROOM    256        /* records of one step */
#define SCAN_STEPS    1024       /* of a SCAN that meets few keys: 30 to 80 us */
#define SCAN_BYTES    (32 * KIB) /* of keys that one SCAN looks at: each is compared and copied */
#define SCAN_COUNT    10         /* without COUNT, as Redis */
#define DRAW_KEYS     32         /* that lie together in the order of hashes; RANDOMKEY takes one of them */
#define DRAW_STEPS    256
#define CURSOR_REFUSE "ERR invalid cursor"

struct scan_options {
    int64_t count;
    bool has_type, has_pattern;
    struct slice type;
    char type_scratch[ARG_TEXT_BYTES];
    struct glob pattern;
};

/* ---- arguments ---- */

/* strtoul()'s grammar, as in Redis: a sign is allowed, and so is nothing at all. False: refused, and answered. */
static bool
cursor_take(struct exec *exec, uint32_t index, uint64_t *cursor)
{
    char scratch[ARG_TEXT_BYTES];
    struct slice text = exec_arg_bytes(exec, index, scratch);
    bool is_signed = text.bytes > 0 && (text.data[0] == '-' || text.data[0] == '+');
    bool good = !is_signed || text.bytes > 1;
    *cursor = 0;
    for (size_t i = is_signed; i < text.bytes && good; i++) {
        uint8_t digit = (uint8_t)(text.data[i] - '0');
        good = digit <= 9 && !__builtin_mul_overflow(*cursor, 10, cursor) &&
               !__builtin_add_overflow(*cursor, digit, cursor);
    }
    if (!good) {
        reply_error(exec->reply, CURSOR_REFUSE);
    } else if (is_signed && text.data[0] == '-') {
        *cursor = -*cursor;
    }
    return good;
}

/* From argument `index` on. False: refused, and answered. */
static bool
options_take(struct exec *exec, uint32_t index, bool may_type, struct scan_options *options)
{
    uint32_t count = exec->request->args_count;
    options->count = SCAN_COUNT;
    options->has_type = options->has_pattern = false;
    for (; index < count; index += 2) {
        char scratch[ARG_TEXT_BYTES];
        bool has_value = index + 1 < count;
        if (has_value && exec_arg_is(exec, index, "count")) {
            if (!exec_take_int64(exec, index + 1, &options->count)) {
                return false;
            }
            if (options->count >= 1) {
                continue;
            }
        } else if (has_value && exec_arg_is(exec, index, "match")) {
            if (glob_open(&options->pattern, exec_arg_bytes(exec, index + 1, scratch), false)) {
                options->has_pattern = true;
                continue;
            }
            reply_error(exec->reply, ERROR_PATTERN);
            return false;
        } else if (has_value && may_type && exec_arg_is(exec, index, "type")) {
            options->has_type = true;
            options->type = exec_arg_bytes(exec, index + 1, options->type_scratch);
            continue;
        }
        reply_error(exec->reply, ERROR_SYNTAX);
        return false;
    }
    return true;
}

static void
reply_cursor(struct exec *exec, uint64_t cursor)
{
    char text[NUMBER_INT_BYTES];
    reply_array(exec->reply, 2);
    reply_bulk(exec->reply, slice_of(text, number_print_uint64(text, cursor)));
}

/* ---- SCAN ---- */

static bool
is_wanted(const struct scan_options *options, const struct record *record)
{
    return (!options->has_type || slice_equal_nocase(options->type, exec_type_name(record_type(record)))) &&
           (!options->has_pattern || glob_match(&options->pattern, record_key(record)));
}

/* Keys are looked at until there are COUNT of them, as in Redis, or until this call has done enough. */
static uint32_t
scan_collect(struct exec *exec, const struct scan_options *options, uint64_t *cursor, const struct record **found)
{
    uint32_t found_count = 0, looked = 0;
    size_t bytes = 0;
    int64_t wanted = MIN(options->count, LIMIT_SCAN_KEYS);
    for (uint32_t steps = 0; looked < wanted && bytes < SCAN_BYTES && steps < SCAN_STEPS; steps++) {
        const struct record **room = found + found_count;
        struct scan_step step = scan_next(exec->store, *cursor, room, CHAIN_ROOM);
        for (uint32_t i = 0; i < step.count; i++) {
            const struct record *record = room[i];
            bytes += record->key_bytes;
            if (is_wanted(options, record)) {
                found[found_count++] = record;
            }
        }
        looked += step.count;
        *cursor = step.next;
        if (step.next == 0) {
            break;
        }
    }
    return found_count;
}

enum exec_result
exec_scan(struct exec *exec)
{
    uint64_t cursor;
    struct scan_options options;
    const struct record *found[LIMIT_SCAN_KEYS + CHAIN_ROOM];
    if (!cursor_take(exec, 0, &cursor) || !options_take(exec, 1, true, &options)) {
        return EXEC_DONE;
    }
    uint32_t count = scan_collect(exec, &options, &cursor, found);
    reply_cursor(exec, cursor);
    reply_array(exec->reply, count);
    for (uint32_t i = 0; i < count; i++) {
        reply_bulk(exec->reply, record_key(found[i]));
    }
    return EXEC_DONE;
}

/* ---- KEYS ---- */

enum exec_result
exec_keys(struct exec *exec)
{
    char scratch[ARG_TEXT_BYTES];
    if (exec_arg_bytes(exec, 0, scratch).bytes > LIMIT_PATTERN_BYTES) {
        reply_error(exec->reply, ERROR_PATTERN);
        return EXEC_DONE;
    }
    return later_ask(exec, LATER_KEYS, MAIL_FROM_HELPER);
}

/* ---- RANDOMKEY ---- */

/* Some keys that follow a random place in the order of hashes, the last one followed by the first. Few keys: all. */
static uint32_t
draw_collect(struct exec *exec, uint64_t cursor, const struct record **found)
{
    uint32_t count = 0;
    uint64_t start = cursor;
    bool wrapped = false;
    for (uint32_t steps = 0; count < DRAW_KEYS && steps < DRAW_STEPS; steps++) {
        struct scan_step step = scan_next(exec->store, cursor, found + count, CHAIN_ROOM);
        count += step.count;
        cursor = step.next;
        wrapped = wrapped || cursor == 0;
        if (wrapped && cursor >= start) {
            break;
        }
    }
    return count;
}

/* In the progress of a walk: a cursor has 38 bits. */
#define WALK_BEGUN   (1ull << 62)
#define WALK_WRAPPED (1ull << 63)

/* One of the keys next to a random place. Where none is near, a walk goes on from there, from turn to turn, to the end
 * and once from the start: nil means that it ended, so no key was there all the time. */
enum exec_result
exec_randomkey(struct exec *exec)
{
    const struct record *found[DRAW_KEYS + CHAIN_ROOM];
    const struct store *store = store_of(exec->store);
    uint64_t cycles = cycles_now(), random = store_hash(store, slice_of(&cycles, sizeof(cycles)));
    struct exec_progress *progress = &exec->progress; /* the walk, in two halves */
    uint64_t walk = (uint64_t)progress->counted << 32 | progress->done;
    uint32_t count = 0;
    if (walk == 0) {
        walk = WALK_BEGUN | scan_cursor(store, random);
        count = draw_collect(exec, walk & ~WALK_BEGUN, found);
    }
    for (uint32_t steps = 0; count == 0 && steps < DRAW_STEPS; steps++) {
        struct scan_step step = scan_next(exec->store, walk & ~(WALK_BEGUN | WALK_WRAPPED), found, CHAIN_ROOM);
        count = step.count;
        if (step.next == 0 && count == 0 && (walk & WALK_WRAPPED)) {
            reply_nil(exec->reply);
            return EXEC_DONE;
        }
        walk = step.next | WALK_BEGUN | (step.next == 0 ? WALK_WRAPPED : walk & WALK_WRAPPED);
    }
    if (count == 0) {
        progress->done = (uint32_t)walk;
        progress->counted = (uint32_t)(walk >> 32);
        return EXEC_RETRY;
    }
    /* bits 16 to 39 had no part in the place */
    reply_bulk(exec->reply, record_key(found[(random >> 16 & 0xffffff) % count]));
    return EXEC_DONE;
}

/* ---- HSCAN, ZSCAN: a packed object is given at once ---- */

/* *record NULL: an empty scan or an error is answered. */
static void
object_take(struct exec *exec, enum record_type type, struct scan_options *options, const struct record **record)
{
    uint64_t cursor; /* of no use: there is one step */
    *record = NULL;
    if (!cursor_take(exec, 1, &cursor) || !exec_find(exec, type, record)) {
        *record = NULL;
        return;
    }
    if (*record == NULL) {
        reply_cursor(exec, 0);
        reply_array(exec->reply, 0);
    } else if (!options_take(exec, 2, false, options)) {
        *record = NULL;
    }
}

/* Entry `i`: its name and what stands beside it, printed into `scratch` when it is a score. */
typedef struct slice (*entry_fn)(const struct packed *packed, uint32_t i, char scratch[NUMBER_DOUBLE_BYTES],
                                 struct slice *beside);

static struct slice
hash_entry(const struct packed *hash, uint32_t i, char scratch[NUMBER_DOUBLE_BYTES], struct slice *beside)
{
    struct slice field;
    packed_hash_at(hash, i, &field, beside);
    return field;
}

static struct slice
zset_entry(const struct packed *zset, uint32_t i, char scratch[NUMBER_DOUBLE_BYTES], struct slice *beside)
{
    *beside = slice_of(scratch, number_print_double(scratch, packed_zset_score(zset, i)));
    return packed_zset_member(zset, i);
}

static void
reply_entries(struct exec *exec, const struct scan_options *options, const struct packed *packed, entry_fn entry)
{
    char scratch[NUMBER_DOUBLE_BYTES];
    struct slice beside;
    uint16_t wanted[LIMIT_PACKED_ENTRIES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < packed->count; i++) {
        if (!options->has_pattern || glob_match(&options->pattern, entry(packed, i, scratch, &beside))) {
            wanted[count++] = (uint16_t)i;
        }
    }
    reply_cursor(exec, 0);
    reply_array(exec->reply, 2 * count);
    for (uint32_t i = 0; i < count; i++) {
        struct slice name = entry(packed, wanted[i], scratch, &beside);
        reply_bulk(exec->reply, name);
        reply_bulk(exec->reply, beside);
    }
}

enum exec_result
exec_hscan(struct exec *exec)
{
    struct scan_options options;
    const struct record *record;
    object_take(exec, RECORD_HASH, &options, &record);
    if (record != NULL) {
        struct packed hash = packed_hash_open(record_value(record));
        reply_entries(exec, &options, &hash, hash_entry);
    }
    return EXEC_DONE;
}

enum exec_result
exec_zscan(struct exec *exec)
{
    struct scan_options options;
    const struct record *record;
    object_take(exec, RECORD_ZSET, &options, &record);
    if (record != NULL) {
        struct packed zset = packed_zset_open(record_value(record));
        reply_entries(exec, &options, &zset, zset_entry);
    }
    return EXEC_DONE;
}
