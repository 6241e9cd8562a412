/* exec_command.c - COMMAND: the command table, told to clients. */
#include "dataplane/exec_common.h"
#include "dataplane/glob.h"

#define SLUICE_SINCE "0.1.0" /* the first release has every command of the table */

/* ---- what the table says, in Redis' words ---- */

static const struct {
    uint32_t flag;
    const char *name;
} flag_names[] = {
    { CMD_WRITE, "write" }, { CMD_READ, "readonly" }, { CMD_DENYOOM, "denyoom" },
    { CMD_ADMIN, "admin" }, { CMD_FAST, "fast" },     { CMD_NOAUTH, "no_auth" },
};

/* A category and whom it holds: commands with a flag, without it, or of a group. */
static const struct category {
    const char *name;
    uint32_t with, without;
    const char *group;
} categories[] = {
    { "@keyspace", 0, 0, "generic" },
    { "@read", CMD_READ, 0, NULL },
    { "@write", CMD_WRITE, 0, NULL },
    { "@sortedset", 0, 0, "sorted-set" },
    { "@hash", 0, 0, "hash" },
    { "@string", 0, 0, "string" },
    { "@pubsub", 0, 0, "pubsub" },
    { "@admin", CMD_ADMIN, 0, NULL },
    { "@fast", CMD_FAST, 0, NULL },
    { "@slow", 0, CMD_FAST, NULL },
    { "@dangerous", CMD_ADMIN, 0, NULL },
    { "@connection", 0, 0, "connection" },
};

static bool
category_holds(const struct category *category, const struct command *command)
{
    if (category->group != NULL) {
        return slice_equal(slice_text(category->group), slice_text(command->group));
    }
    return category->with != 0 ? (command->flags & category->with) != 0 : !(command->flags & category->without);
}

/* Redis counts the name; below 0: at least so many. */
static int64_t
command_arity(const struct command *command)
{
    int64_t least = (int64_t)command->args_min + 1;
    return command->args_min == command->args_max ? least : -least;
}

static const struct command *
command_of_arg(const struct exec *exec, uint32_t index)
{
    char scratch[ARG_TEXT_BYTES];
    return command_find(exec_arg_bytes(exec, index, scratch));
}

/* ---- INFO ---- */

static void
write_flags(struct reply *reply, const struct command *command)
{
    uint32_t count = 0;
    for (size_t i = 0; i < ARRAY_COUNT(flag_names); i++) {
        count += (command->flags & flag_names[i].flag) != 0;
    }
    reply_set(reply, count);
    for (size_t i = 0; i < ARRAY_COUNT(flag_names); i++) {
        if (command->flags & flag_names[i].flag) {
            reply_status(reply, flag_names[i].name);
        }
    }
}

static void
write_categories(struct reply *reply, const struct command *command)
{
    uint32_t count = 0;
    for (size_t i = 0; i < ARRAY_COUNT(categories); i++) {
        count += category_holds(&categories[i], command);
    }
    reply_set(reply, count);
    for (size_t i = 0; i < ARRAY_COUNT(categories); i++) {
        if (category_holds(&categories[i], command)) {
            reply_status(reply, categories[i].name);
        }
    }
}

static void
write_key_specs(struct reply *reply, const struct command *command)
{
    if (command->first_key == 0) {
        reply_set(reply, 0);
        return;
    }
    bool is_read = (command->flags & CMD_READ) != 0;
    reply_set(reply, 1);
    reply_map(reply, 3);
    reply_bulk_text(reply, "flags");
    reply_set(reply, 2);
    reply_status(reply, is_read ? "RO" : "RW");
    reply_status(reply, is_read ? "access" : "update");
    reply_bulk_text(reply, "begin_search");
    reply_map(reply, 2);
    reply_bulk_text(reply, "type");
    reply_bulk_text(reply, "index");
    reply_bulk_text(reply, "spec");
    reply_map(reply, 1);
    reply_bulk_text(reply, "index");
    reply_integer(reply, command->first_key);
    reply_bulk_text(reply, "find_keys");
    reply_map(reply, 2);
    reply_bulk_text(reply, "type");
    reply_bulk_text(reply, "range");
    reply_bulk_text(reply, "spec");
    reply_map(reply, 3);
    reply_bulk_text(reply, "lastkey"); /* counted from the first key, or from the end */
    reply_integer(reply, command->last_key < 0 ? command->last_key : command->last_key - command->first_key);
    reply_bulk_text(reply, "keystep");
    reply_integer(reply, command->key_step);
    reply_bulk_text(reply, "limit");
    reply_integer(reply, 0);
}

static void
write_info(struct reply *reply, const struct command *command)
{
    reply_array(reply, 10);
    reply_bulk_text(reply, command->name);
    reply_integer(reply, command_arity(command));
    write_flags(reply, command);
    reply_integer(reply, command->first_key);
    reply_integer(reply, command->last_key);
    reply_integer(reply, command->key_step);
    write_categories(reply, command);
    reply_set(reply, 0); /* tips */
    write_key_specs(reply, command);
    reply_set(reply, 0); /* subcommands */
}

static enum exec_result
command_all(struct exec *exec)
{
    reply_array(exec->reply, COMMAND_COUNT);
    for (uint32_t i = 0; i < COMMAND_COUNT; i++) {
        write_info(exec->reply, &command_table[i]);
    }
    return EXEC_DONE;
}

static enum exec_result
command_info(struct exec *exec)
{
    uint32_t count = exec->request->args_count;
    if (count == 1) {
        return command_all(exec);
    }
    reply_array(exec->reply, count - 1);
    for (uint32_t i = 1; i < count; i++) {
        const struct command *command = command_of_arg(exec, i);
        if (command != NULL) {
            write_info(exec->reply, command);
        } else {
            reply_nil(exec->reply);
        }
    }
    return EXEC_DONE;
}

/* ---- COUNT, DOCS, LIST, GETKEYS, HELP ---- */

static enum exec_result
command_count(struct exec *exec)
{
    reply_integer(exec->reply, COMMAND_COUNT);
    return EXEC_DONE;
}

static void
write_docs(struct reply *reply, const struct command *command)
{
    reply_bulk_text(reply, command->name);
    reply_map(reply, 3);
    reply_bulk_text(reply, "summary");
    reply_bulk_text(reply, command->summary);
    reply_bulk_text(reply, "since");
    reply_bulk_text(reply, SLUICE_SINCE);
    reply_bulk_text(reply, "group");
    reply_bulk_text(reply, command->group);
}

static enum exec_result
command_docs(struct exec *exec)
{
    uint32_t known = 0, count = exec->request->args_count;
    if (count == 1) {
        reply_map(exec->reply, COMMAND_COUNT);
        for (uint32_t i = 0; i < COMMAND_COUNT; i++) {
            write_docs(exec->reply, &command_table[i]);
        }
        return EXEC_DONE;
    }
    for (uint32_t i = 1; i < count; i++) {
        known += command_of_arg(exec, i) != NULL;
    }
    reply_map(exec->reply, known);
    for (uint32_t i = 1; i < count; i++) {
        const struct command *command = command_of_arg(exec, i);
        if (command != NULL) {
            write_docs(exec->reply, command);
        }
    }
    return EXEC_DONE;
}

enum list_filter { LIST_ALL, LIST_MODULE, LIST_CATEGORY, LIST_PATTERN };

static bool
list_takes(enum list_filter filter, struct slice value, const struct glob *pattern, const struct command *command)
{
    if (filter == LIST_MODULE) {
        return false; /* there are none */
    }
    if (filter == LIST_PATTERN) {
        return glob_match(pattern, slice_text(command->name));
    }
    if (filter == LIST_ALL) {
        return true;
    }
    for (size_t i = 0; i < ARRAY_COUNT(categories); i++) {
        if (slice_equal_nocase(value, categories[i].name + 1) && category_holds(&categories[i], command)) {
            return true;
        }
    }
    return false;
}

static enum exec_result
command_list(struct exec *exec)
{
    char scratch[ARG_TEXT_BYTES];
    struct slice value = { NULL, 0 };
    enum list_filter filter = LIST_ALL;
    uint32_t count = exec->request->args_count, taken = 0;
    if (count == 4 && exec_arg_is(exec, 1, "filterby")) {
        filter = exec_arg_is(exec, 2, "module")    ? LIST_MODULE
                 : exec_arg_is(exec, 2, "aclcat")  ? LIST_CATEGORY
                 : exec_arg_is(exec, 2, "pattern") ? LIST_PATTERN
                                                   : LIST_ALL;
        value = exec_arg_bytes(exec, 3, scratch);
    }
    if (count != 1 && filter == LIST_ALL) {
        reply_error(exec->reply, ERROR_SYNTAX);
        return EXEC_DONE;
    }
    struct glob pattern;
    if (filter == LIST_PATTERN && !glob_open(&pattern, value, true)) {
        reply_error(exec->reply, ERROR_PATTERN);
        return EXEC_DONE;
    }
    for (uint32_t i = 0; i < COMMAND_COUNT; i++) {
        taken += list_takes(filter, value, &pattern, &command_table[i]);
    }
    reply_array(exec->reply, taken);
    for (uint32_t i = 0; i < COMMAND_COUNT; i++) {
        if (list_takes(filter, value, &pattern, &command_table[i])) {
            reply_bulk_text(exec->reply, command_table[i].name);
        }
    }
    return EXEC_DONE;
}

static enum exec_result
command_getkeys(struct exec *exec)
{
    const struct request *request = exec->request;
    const struct command *command = command_of_arg(exec, 1);
    uint32_t args_count = request->args_count - 2; /* of the command asked about */
    if (command == NULL) {
        reply_error(exec->reply, "ERR Invalid command specified");
    } else if (command->first_key == 0) {
        reply_error(exec->reply, "ERR The command has no key arguments");
    } else if (!command_arity_fits(command, args_count)) {
        reply_error(exec->reply, "ERR Invalid number of arguments specified for command");
    } else {
        uint32_t first = (uint32_t)command->first_key, step = (uint32_t)command->key_step;
        uint32_t last =
            command->last_key < 0 ? args_count + 1 - (uint32_t)-command->last_key : (uint32_t)command->last_key;
        reply_array(exec->reply, (last - first) / step + 1);
        for (uint32_t i = first; i <= last; i += step) {
            char scratch[ARG_TEXT_BYTES];
            reply_bulk(exec->reply, exec_arg_bytes(exec, 1 + i, scratch));
        }
    }
    return EXEC_DONE;
}

static enum exec_result
command_help(struct exec *exec)
{
    static const char *const lines[] = {
        "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "(no subcommand)",
        "    Return details about all commands.",
        "COUNT",
        "    Return the number of commands.",
        "LIST [FILTERBY MODULE|ACLCAT|PATTERN <value>]",
        "    Return the names of all commands, or of some.",
        "INFO [<command-name> ...]",
        "    Return details about these commands, or about all.",
        "DOCS [<command-name> ...]",
        "    Return documentation of these commands, or of all.",
        "GETKEYS <full-command>",
        "    Return the keys of a full command.",
        "HELP",
        "    Print this help.",
    };
    reply_array(exec->reply, ARRAY_COUNT(lines));
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        reply_status(exec->reply, lines[i]);
    }
    return EXEC_DONE;
}

enum exec_result
exec_command(struct exec *exec)
{
    static const struct {
        const char *name, *full_name;
        uint32_t args_min, args_max; /* the subcommand excluded */
        exec_fn run;
    } subcommands[] = {
        { "count", "command|count", 0, 0, command_count },
        { "docs", "command|docs", 0, LIMIT_REQUEST_ARGS, command_docs },
        { "getkeys", "command|getkeys", 2, LIMIT_REQUEST_ARGS, command_getkeys },
        { "help", "command|help", 0, 0, command_help },
        { "info", "command|info", 0, LIMIT_REQUEST_ARGS, command_info },
        { "list", "command|list", 0, LIMIT_REQUEST_ARGS, command_list },
    };
    uint32_t count = exec->request->args_count;
    if (count == 0) {
        return command_all(exec);
    }
    for (size_t i = 0; i < ARRAY_COUNT(subcommands); i++) {
        if (exec_arg_is(exec, 0, subcommands[i].name)) {
            if (count - 1 >= subcommands[i].args_min && count - 1 <= subcommands[i].args_max) {
                return subcommands[i].run(exec);
            }
            exec_refuse_arity(exec, subcommands[i].full_name);
            return EXEC_DONE;
        }
    }
    exec_refuse_subcommand(exec, "COMMAND");
    return EXEC_DONE;
}
