#include "test/store/linear_keys.h"
#include <inttypes.h>

/* What the specification sees of an operation: the keys whose history is under judgement. */
struct keys_part {
    const struct keys_operation *operation;
    uint32_t keys; /* a bit each */
};

bool
keys_change(const struct keys_operation *operation, const struct keys_value *found, struct keys_value *fresh)
{
    struct keys_value none = { 0 };
    *fresh = *found;
    switch (operation->kind) {
    case KEYS_SET:
        *fresh = (struct keys_value){ 1, operation->argument, operation->until_ms };
        return true;
    case KEYS_SETNX:
        *fresh = (struct keys_value){ 1, operation->argument, operation->until_ms };
        return !found->present;
    case KEYS_DEL:
        *fresh = none;
        return found->present;
    case KEYS_INCR:
        *fresh = (struct keys_value){ 1, found->number + 1, found->present ? found->until_ms : KEYS_NEVER };
        return true;
    case KEYS_APPEND:
        *fresh = (struct keys_value){ 1, (found->number + 1) * 0x9e3779b97f4a7c15ull ^ operation->argument,
                                      found->present ? found->until_ms : KEYS_NEVER };
        return true;
    case KEYS_EXPIRE:
        fresh->until_ms = operation->until_ms;
        return found->present;
    case KEYS_PERSIST:
        fresh->until_ms = KEYS_NEVER;
        return found->present && found->until_ms != KEYS_NEVER;
    case KEYS_GET:
    case KEYS_MGET:
    case KEYS_FLUSH:
        break;
    }
    return false;
}

/* Could the command find what it found? A key that it found swept is gone from then on. */
static bool
value_seen(const struct keys_operation *operation, const struct keys_value *found, struct keys_value *value)
{
    bool alive = value->present && operation->now_ms <= value->until_ms;
    if (found->present) {
        return alive && found->number == value->number && found->until_ms == value->until_ms;
    }
    if (alive) {
        if (operation->latest_ms <= value->until_ms) {
            return false;
        }
        *value = (struct keys_value){ 0 };
    }
    return true;
}

static bool
keys_step(const void *what, void *state)
{
    const struct keys_part *part = what;
    const struct keys_operation *operation = part->operation;
    struct keys_value *values = ((struct keys_state *)state)->keys;
    for (uint32_t key = 0; key < KEYS_MAX; key++) {
        if ((part->keys >> key & 1) == 0) {
            continue;
        }
        if (operation->kind == KEYS_FLUSH) {
            values[key] = (struct keys_value){ 0 };
        } else if (!value_seen(operation, &operation->found[key], &values[key])) {
            return false;
        }
    }
    struct keys_value fresh;
    if (operation->kind < KEYS_ONE_KEY && keys_change(operation, &operation->found[operation->key], &fresh)) {
        values[operation->key] = fresh;
    }
    return true;
}

/* ---- printing ---- */

static void
value_print(const struct keys_value *value, FILE *out)
{
    if (!value->present) {
        fprintf(out, " nothing");
    } else if (value->until_ms == KEYS_NEVER) {
        fprintf(out, " %" PRIx64, value->number);
    } else {
        fprintf(out, " %" PRIx64 " until %" PRId64, value->number, value->until_ms);
    }
}

static void
operation_print(const struct keys_operation *operation, FILE *out)
{
    static const char *const names[] = {
        [KEYS_GET] = "GET",   [KEYS_SET] = "SET",        [KEYS_SETNX] = "SETNX",   [KEYS_DEL] = "DEL",
        [KEYS_INCR] = "INCR", [KEYS_APPEND] = "APPEND",  [KEYS_EXPIRE] = "EXPIRE", [KEYS_PERSIST] = "PERSIST",
        [KEYS_MGET] = "MGET", [KEYS_FLUSH] = "FLUSHALL",
    };
    fprintf(out, "  %4" PRIu64 " ..%4" PRIu64 "  member %u  %s", operation->begin, operation->end, operation->member,
            names[operation->kind]);
    if (operation->kind < KEYS_ONE_KEY) {
        fprintf(out, " %c", 'a' + (char)operation->key);
    }
    if (operation->kind == KEYS_SET || operation->kind == KEYS_SETNX || operation->kind == KEYS_EXPIRE) {
        value_print(&(struct keys_value){ 1, operation->argument, operation->until_ms }, out);
    } else if (operation->kind == KEYS_APPEND) {
        fprintf(out, " %" PRIx64, operation->argument);
    }
    fprintf(out, "  at %" PRId64 "-%" PRId64 ", found", operation->now_ms, operation->latest_ms);
    for (uint32_t key = 0; operation->kind != KEYS_FLUSH && key < KEYS_MAX; key++) {
        if (operation->kind == KEYS_MGET || key == operation->key) {
            value_print(&operation->found[key], out);
        }
    }
    fprintf(out, "\n");
}

void
keys_print(const struct keys_state *initial, const struct keys_operation *operations, uint32_t count, FILE *out)
{
    fprintf(out, "at first");
    for (uint32_t key = 0; key < KEYS_MAX; key++) {
        fprintf(out, "  %c", 'a' + (char)key);
        value_print(&initial->keys[key], out);
    }
    fprintf(out, "\n");
    for (uint32_t i = 0; i < count; i++) {
        operation_print(&operations[i], out);
    }
}

static void
failure_print(const struct keys_state *initial, const struct keys_part *parts, uint32_t count, const uint32_t *order,
              uint32_t explained, FILE *out)
{
    bool taken[LINEAR_OPERATIONS] = { false };
    keys_print(initial, NULL, 0, out);
    fprintf(out, "the longest order that explains a part of it:\n");
    for (uint32_t i = 0; i < explained; i++) {
        taken[order[i]] = true;
        operation_print(parts[order[i]].operation, out);
    }
    fprintf(out, "and none of these can be next:\n");
    for (uint32_t i = 0; i < count; i++) {
        if (!taken[i]) {
            operation_print(parts[i].operation, out);
        }
    }
}

/* ---- checking ---- */

static enum linear_verdict
part_check(struct linear *linear, const struct keys_state *initial, const struct keys_operation *operations,
           uint32_t count, uint32_t keys, FILE *out)
{
    static const struct linear_specification specification = { keys_step, sizeof(struct keys_state) };
    struct linear_operation history[LINEAR_OPERATIONS];
    struct keys_part parts[LINEAR_OPERATIONS];
    uint32_t order[LINEAR_OPERATIONS], explained, n = 0;
    CHECK(count <= LINEAR_OPERATIONS);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t touched = operations[i].kind < KEYS_ONE_KEY ? 1u << operations[i].key : (1u << KEYS_MAX) - 1;
        if ((touched & keys) != 0) {
            parts[n] = (struct keys_part){ &operations[i], touched & keys };
            history[n] = (struct linear_operation){ operations[i].begin, operations[i].end, &parts[n] };
            n++;
        }
    }
    enum linear_verdict verdict = linear_check(linear, &specification, initial, history, n, order, &explained);
    if (verdict == LINEAR_NO) {
        failure_print(initial, parts, n, order, explained, out);
    } else if (verdict == LINEAR_UNDECIDED) {
        fprintf(out, "not decided: too many configurations\n");
    }
    return verdict;
}

enum linear_verdict
keys_check(struct linear *linear, const struct keys_state *initial, const struct keys_operation *operations,
           uint32_t count, FILE *out)
{
    bool together = false;
    for (uint32_t i = 0; i < count; i++) {
        together = together || operations[i].kind >= KEYS_ONE_KEY;
    }
    enum linear_verdict verdict = LINEAR_YES;
    for (uint32_t key = 0; key < KEYS_MAX && verdict == LINEAR_YES; key++) {
        verdict = part_check(linear, initial, operations, count, 1u << key, out);
    }
    if (verdict == LINEAR_YES && together) {
        verdict = part_check(linear, initial, operations, count, (1u << KEYS_MAX) - 1, out);
    }
    return verdict;
}
