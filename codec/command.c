/* command.c - the command table, looked up by name, and typed access to arguments. */
#include "codec/command.h"
#include "codec/command_name.h"
#include "codec/number.h"

#define COMMAND_ROW(id_, name_, template_, min_, max_, flags_, first_, last_, step_, handler_, group_, summary_)       \
    [COMMAND_##id_] = {                                                                                                \
        .id = COMMAND_##id_,                                                                                           \
        .name = (name_),                                                                                               \
        .sbe_template = (template_),                                                                                   \
        .args_min = (min_),                                                                                            \
        .args_max = (max_),                                                                                            \
        .flags = (flags_),                                                                                             \
        .first_key = (first_),                                                                                         \
        .last_key = (last_),                                                                                           \
        .key_step = (step_),                                                                                           \
        .group = (group_),                                                                                             \
        .summary = (summary_),                                                                                         \
    },

const struct command command_table[COMMAND_COUNT] = { COMMAND_TABLE(COMMAND_ROW) };
#undef COMMAND_ROW

#define NAME_ROW(slot, id_, first_, last_, bytes_, careful_)                                                           \
    [slot] = { .first = (first_),                                                                                      \
               .last = (last_),                                                                                        \
               .command = &command_table[COMMAND_##id_],                                                               \
               .bytes = (bytes_),                                                                                      \
               .careful = (careful_) },
const struct command_name command_names[1 << COMMAND_HASH_BITS] = { COMMAND_HASH_TABLE(NAME_ROW) };
#undef NAME_ROW

static_assert((int)COMMAND_HASH_ROWS == (int)COMMAND_COUNT, "command_hash.py read every row");

/* Nothing outside the name is read: pieces overlap instead. */
const struct command *
command_find(struct slice name)
{
    uint64_t first, last = 0;

    if (name.bytes > 8) {
        first = load8(name.data);
        last = load8(name.data + name.bytes - 8);
    } else if (name.bytes >= 4) {
        first = load4(name.data) | (uint64_t)load4(name.data + name.bytes - 4) << 8 * (name.bytes - 4);
    } else if (name.bytes > 0) {
        first = name.data[0] | (uint64_t)name.data[name.bytes >> 1] << 8 * (name.bytes >> 1);
        first |= (uint64_t)name.data[name.bytes - 1] << 8 * (name.bytes - 1);
    } else {
        return NULL;
    }
    const struct command_name *row = command_name_find(first, last, name.bytes);
    if (row == NULL || (UNLIKELY(row->careful) && !slice_equal_nocase(name, row->command->name))) {
        return NULL;
    }
    return row->command;
}

bool
arg_int64(const struct arg *arg, int64_t *out)
{
    switch (arg->kind) {
    case ARG_BYTES:
        return number_parse_int64(arg->bytes, out);
    case ARG_INT:
        *out = arg->integer;
        return true;
    case ARG_DOUBLE:
        /* From 1e17 on its text has an exponent, which the rules for bytes refuse. */
        if (!(arg->real > -1e17 && arg->real < 1e17) || arg->real != (double)(int64_t)arg->real) {
            return false;
        }
        *out = (int64_t)arg->real;
        return true;
    }
    return false;
}

bool
arg_double(const struct arg *arg, double *out)
{
    switch (arg->kind) {
    case ARG_BYTES:
        return number_parse_double(arg->bytes, out);
    case ARG_INT:
        *out = (double)arg->integer;
        return true;
    case ARG_DOUBLE:
        *out = arg->real;
        return !__builtin_isnan(arg->real);
    }
    return false;
}

struct slice
arg_bytes(const struct arg *arg, char scratch[ARG_TEXT_BYTES])
{
    static_assert(ARG_TEXT_BYTES >= NUMBER_DOUBLE_BYTES && ARG_TEXT_BYTES >= NUMBER_INT_BYTES, "any number fits");

    switch (arg->kind) {
    case ARG_BYTES:
        break;
    case ARG_INT:
        return slice_of(scratch, number_print_int64(scratch, arg->integer));
    case ARG_DOUBLE:
        return slice_of(scratch, number_print_double(scratch, arg->real));
    }
    return arg->bytes;
}
