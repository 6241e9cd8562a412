#include "mgmt/ctl.h"
#include <stdarg.h>
#include <unistd.h>

enum ctl_access { CTL_READ, CTL_CHANGE };

static const struct ctl_command {
    const char *name;
    enum ctl_access access;
    const char *args; /* names it takes, with blanks between */
    ctl_handler handler;
    const char *help;
} commands[] = {
#define CTL_ROW(id, name, access, args, handler, help) { name, CTL_##access, args, handler, help },
    CTL_COMMANDS(CTL_ROW)
#undef CTL_ROW
};

enum ctl_result
ctl_fail(struct ctl_request *request, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(request->error, sizeof(request->error), format, args);
    va_end(args);
    return CTL_DONE;
}

/* ---- arguments ---- */

bool
ctl_arg_uint(struct ctl_request *request, const char *name, uint64_t most, uint64_t *out)
{
    const json_t *arg = json_object_get(request->args, name);
    uint64_t value = 0;
    bool good = true;

    if (arg == NULL) {
        return true;
    }
    if (json_is_integer(arg)) {
        good = json_integer_value(arg) >= 0;
        value = (uint64_t)json_integer_value(arg);
    } else {
        good = json_is_string(arg) && unit_parse_count(json_string_value(arg), &value) == UNIT_OK;
    }
    if (!good || value > most) {
        ctl_fail(request, "%s: expected a whole number from 0 to %llu", name, (unsigned long long)most);
        return false;
    }
    *out = value;
    return true;
}

bool
ctl_arg_bool(struct ctl_request *request, const char *name, bool *out)
{
    const json_t *arg = json_object_get(request->args, name);
    const char *text = json_string_value(arg);

    if (arg == NULL) {
        return true;
    }
    if (json_is_boolean(arg)) {
        *out = json_is_true(arg);
    } else if (text != NULL && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)) {
        *out = text[0] == 't';
    } else {
        ctl_fail(request, "%s: expected true or false", name);
        return false;
    }
    return true;
}

bool
ctl_arg_text(struct ctl_request *request, const char *name, const char **out)
{
    const json_t *arg = json_object_get(request->args, name);

    if (arg == NULL) {
        return true;
    }
    if (!json_is_string(arg)) {
        ctl_fail(request, "%s: expected text", name);
        return false;
    }
    *out = json_string_value(arg);
    return true;
}

/* ---- requests ---- */

static const struct ctl_command *
find_command(struct ctl_request *request, const char *name)
{
    const char *names[ARRAY_COUNT(commands)], *near;
    char quoted[QUOTE_BYTES];

    for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
        names[i] = commands[i].name;
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    near = nearest_name(name, names, ARRAY_COUNT(commands));
    if (near == NULL) {
        ctl_fail(request, "unknown command %s, \"help\" lists them", quote_text(quoted, name));
    } else {
        ctl_fail(request, "unknown command %s, did you mean \"%s\"?", quote_text(quoted, name), near);
    }
    return NULL;
}

/* Whether the command's list of arguments has this one. */
static bool
takes_argument(const struct ctl_command *command, const char *name)
{
    size_t bytes = strlen(name);

    for (const char *at = command->args; *at != '\0' && bytes > 0;) {
        size_t word = strcspn(at, " ");
        if (word == bytes && memcmp(at, name, bytes) == 0) {
            return true;
        }
        at += word + (at[word] == ' ');
    }
    return false;
}

static enum ctl_result
run_command(struct ctl_request *request, const char *name)
{
    const struct ctl_command *command = find_command(request, name);
    const char *arg;
    char quoted[QUOTE_BYTES];
    json_t *value;

    if (command == NULL) {
        return CTL_DONE;
    }
    json_object_foreach(request->args, arg, value)
    {
        if (!takes_argument(command, arg)) {
            return ctl_fail(request, "%s takes no argument %s%s%s", command->name, quote_text(quoted, arg),
                            command->args[0] == '\0' ? "" : ", expected ", command->args);
        }
    }
    /* The uid that runs the appliance could as well send it signals. */
    if (command->access == CTL_CHANGE && request->uid != 0 && request->uid != geteuid()) {
        return ctl_fail(request, "%s changes the appliance: only root and uid %u may", command->name,
                        (unsigned)geteuid());
    }
    return command->handler(request);
}

/* {"version":1,"command":"...","args":{...},"id":...} and nothing else. */
static enum ctl_result
run_json(struct ctl_request *request, const char *line, size_t bytes)
{
    json_error_t error;
    const char *key;
    char quoted[QUOTE_BYTES];
    json_t *value, *args = NULL, *root = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, &error);
    const char *name = NULL;
    bool version = false;
    enum ctl_result result;

    if (root == NULL) {
        return ctl_fail(request, "no JSON: column %d: %s", error.column, error.text);
    }
    json_object_foreach(root, key, value)
    {
        if (strcmp(key, "version") == 0 && json_is_integer(value)) {
            version = json_integer_value(value) == CTL_VERSION;
        } else if (strcmp(key, "command") == 0 && json_is_string(value)) {
            name = json_string_value(value);
        } else if (strcmp(key, "args") == 0 && json_is_object(value)) {
            args = value;
        } else if (strcmp(key, "id") == 0 && (json_is_string(value) || json_is_integer(value))) {
            request->id = json_incref(value);
        } else {
            result =
                ctl_fail(request, "%s does not belong into a request or has the wrong type", quote_text(quoted, key));
            goto out;
        }
    }
    if (!version) {
        result = ctl_fail(request, "expected \"version\":%d", CTL_VERSION);
    } else if (name == NULL) {
        result = ctl_fail(request, "expected a \"command\"");
    } else {
        request->args = args == NULL ? json_object() : json_incref(args);
        result = run_command(request, name);
    }
out:
    json_decref(root);
    return result;
}

/* "name name=value ...": words without '=' are the command, so "config show" is one. */
static enum ctl_result
run_text(struct ctl_request *request, char *line, size_t bytes)
{
    char name[64] = "", *save = NULL;

    if (memchr(line, '\0', bytes) != NULL) {
        return ctl_fail(request, "expected a line of text, \"help\" lists the commands");
    }
    request->args = json_object();
    for (char *word = strtok_r(line, " \t", &save); word != NULL; word = strtok_r(NULL, " \t", &save)) {
        char *equals = strchr(word, '=');
        size_t used = strlen(name);
        if (equals == NULL) {
            snprintf(name + used, sizeof(name) - used, "%s%s", used ? " " : "", word);
            continue;
        }
        *equals = '\0';
        if (json_object_set_new(request->args, word, json_string(equals + 1)) != 0) {
            return ctl_fail(request, "expected UTF-8 text");
        }
    }
    return run_command(request, name);
}

/* ---- answers ---- */

static int
append_json(const char *bytes, size_t count, void *context)
{
    text_append(context, bytes, count);
    return 0;
}

static void
finish_json(struct ctl_request *request, struct text *out)
{
    json_t *reply = json_object();

    json_object_set_new(reply, "version", json_integer(CTL_VERSION));
    if (request->id != NULL) {
        json_object_set(reply, "id", request->id);
    }
    json_object_set_new(reply, "ok", json_boolean(request->result != NULL));
    if (request->result != NULL) {
        json_object_set(reply, "result", request->result);
    } else {
        /* A JSON parser's message may quote bytes that are no text. */
        json_t *error = json_string(request->error);
        json_object_set_new(reply, "error", error != NULL ? error : json_string("no JSON: expected UTF-8 text"));
    }
    CHECK(json_dump_callback(reply, append_json, out, JSON_COMPACT | JSON_REAL_PRECISION(9)) == 0);
    text_append(out, "\n", 1);
    json_decref(reply);
}

void
ctl_finish(struct ctl_request *request, struct text *out)
{
    if (request->is_json) {
        finish_json(request, out);
    } else if (request->result != NULL) {
        ctl_print_text(request->result, out);
        text_append(out, "\n", 1);
    } else {
        text_print(out, "error: %s\n\n", request->error);
    }
    json_decref(request->id);
    json_decref(request->args);
    json_decref(request->result);
}

enum ctl_result
ctl_line(void *context, struct ctl_client *client, char *line, size_t bytes, struct text *out)
{
    struct ctl_request request = {
        .mgmt = context, .client_id = client->id, .uid = client->uid, .is_json = line[0] == '{'
    };
    enum ctl_result result = request.is_json ? run_json(&request, line, bytes) : run_text(&request, line, bytes);

    if (result == CTL_DONE) {
        ctl_finish(&request, out);
    }
    return result;
}

enum ctl_result
ctl_help(struct ctl_request *request)
{
    json_t *list = json_array();

    for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
        json_array_append_new(
            list, json_pack("{s:s,s:s,s:s,s:s}", "command", commands[i].name, "arguments", commands[i].args, "access",
                            commands[i].access == CTL_READ ? "read" : "change", "help", commands[i].help));
    }
    request->result = json_pack("{s:o}", "commands", list);
    return CTL_DONE;
}
