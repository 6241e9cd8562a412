/* sluice_cli_print.c - replies as redis-cli prints them. */
#include "tools/sluice_cli.h"
#include <ctype.h>
#include <math.h>

/* Nesting is bounded by VALUE_DEPTH_MAX, and so is the recursion here. */

void
cli_text_quote(struct cli_text *text, struct slice bytes)
{
    static const char plain[] = "\n\r\t\a\b", letters[] = "nrtab";
    cli_text_append(text, "\"", 1);
    for (size_t i = 0; i < bytes.bytes; i++) {
        char c = (char)bytes.data[i];
        const char *named = c == '\0' ? NULL : strchr(plain, c);
        if (c == '\\' || c == '"') {
            cli_text_print(text, "\\%c", c);
        } else if (named != NULL) {
            cli_text_print(text, "\\%c", letters[named - plain]);
        } else if (isprint((unsigned char)c)) {
            cli_text_append(text, &c, 1);
        } else {
            cli_text_print(text, "\\x%02x", (unsigned char)c);
        }
    }
    cli_text_append(text, "\"", 1);
}

/* A double's text: as the wire had it, else the shortest that reads back. */
static void
double_print(struct cli_text *text, const struct value *value)
{
    if (value->bytes.bytes > 0) {
        cli_text_append(text, value->bytes.data, value->bytes.bytes);
        return;
    }
    char digits[32];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof(digits), "%.*g", precision, value->real);
        if (strtod(digits, NULL) == value->real) {
            break;
        }
    }
    cli_text_print(text, "%s", digits);
}

static void
bytes_print(struct cli_text *text, const struct value *value)
{
    cli_text_append(text, value->bytes.data, value->bytes.bytes);
}

/* ---- for a terminal ---- */

static void
tty_scalar(struct cli_text *text, const struct value *value)
{
    switch (value->kind) {
    case VALUE_NIL:
        cli_text_print(text, "(nil)");
        break;
    case VALUE_ERROR:
        cli_text_print(text, "(error) ");
        bytes_print(text, value);
        break;
    case VALUE_INTEGER:
        cli_text_print(text, "(integer) %lld", (long long)value->integer);
        break;
    case VALUE_DOUBLE:
        cli_text_print(text, "(double) ");
        double_print(text, value);
        break;
    case VALUE_BOOL:
        cli_text_print(text, value->integer ? "(true)" : "(false)");
        break;
    case VALUE_BULK:
        cli_text_quote(text, value->bytes);
        break;
    default:
        bytes_print(text, value);
    }
    cli_text_append(text, "\n", 1);
}

static const char *
tty_empty(enum value_kind kind)
{
    switch (kind) {
    case VALUE_MAP:
        return "(empty hash)\n";
    case VALUE_SET:
        return "(empty set)\n";
    case VALUE_PUSH:
        return "(empty push)\n";
    default:
        return "(empty array)\n";
    }
}

static uint32_t
digits_of(uint32_t number)
{
    uint32_t digits = 1;
    for (; number >= 10; number /= 10) {
        digits++;
    }
    return digits;
}

/* What was printed from `at` on begins a line of its own when it is longer than one. */
static void
text_break_at(struct cli_text *text, size_t at, uint32_t indent)
{
    if (memchr(text->data + at, '\n', text->bytes - at - 1) == NULL) {
        return;
    }
    size_t bytes = text->bytes - at;
    cli_text_print(text, "\n%*s", (int)indent, "");
    size_t inserted = text->bytes - at - bytes;
    memmove(text->data + at + inserted, text->data + at, bytes);
    text->data[at] = '\n';
    memset(text->data + at + 1, ' ', inserted - 1);
}

/* `indent` blanks begin every line but the first, whose begin is already there. */
static void
tty_value(struct cli_text *text, const struct value *values, uint32_t index, uint32_t indent)
{
    const struct value *value = &values[index];
    if (!value_is_aggregate(value)) {
        tty_scalar(text, value);
        return;
    }
    if (value->count == 0) {
        cli_text_print(text, "%s", tty_empty(value->kind));
        return;
    }
    uint32_t step = value->kind == VALUE_MAP ? 2 : 1;
    uint32_t digits = digits_of(value->count / step);
    char mark = value->kind == VALUE_SET ? '~' : value->kind == VALUE_MAP ? '#' : ')';
    uint32_t child = index + 1;
    for (uint32_t i = 0; i < value->count; i += step) {
        cli_text_print(text, "%*s%*u%c ", i == 0 ? 0 : (int)indent, "", (int)digits, i / step + 1, mark);
        tty_value(text, values, child, indent + digits + 2);
        child = values[child].after;
        if (step == 2) {
            text->bytes--; /* the key's line end */
            cli_text_print(text, " => ");
            size_t at = text->bytes;
            tty_value(text, values, child, indent + digits + 2);
            if (value_is_aggregate(&values[child])) {
                text_break_at(text, at, indent + digits + 2);
            }
            child = values[child].after;
        }
    }
}

/* ---- raw ---- */

static void
raw_value(struct cli_text *text, const struct value *values, uint32_t index, const char *delimiter)
{
    const struct value *value = &values[index];
    uint32_t child = index + 1;
    switch (value->kind) {
    case VALUE_NIL:
        break;
    case VALUE_INTEGER:
        cli_text_print(text, "%lld", (long long)value->integer);
        break;
    case VALUE_DOUBLE:
        double_print(text, value);
        break;
    case VALUE_BOOL:
        cli_text_print(text, value->integer ? "(true)" : "(false)");
        break;
    case VALUE_ERROR:
        bytes_print(text, value);
        cli_text_append(text, "\n", 1);
        break;
    case VALUE_ARRAY:
    case VALUE_SET:
    case VALUE_PUSH:
    case VALUE_MAP:
        for (uint32_t i = 0; i < value->count; i++, child = values[child].after) {
            if (i > 0) {
                cli_text_print(text, "%s", value->kind == VALUE_MAP && i % 2 == 1 ? " " : delimiter);
            }
            raw_value(text, values, child, delimiter);
        }
        break;
    default:
        bytes_print(text, value);
    }
}

/* ---- JSON ---- */

static void
json_string(struct cli_text *text, struct slice bytes)
{
    cli_text_append(text, "\"", 1);
    for (size_t i = 0; i < bytes.bytes; i++) {
        char c = (char)bytes.data[i];
        switch (c) {
        case '\\':
        case '"':
            cli_text_print(text, "\\%c", c);
            break;
        case '\n':
            cli_text_print(text, "\\n");
            break;
        case '\r':
            cli_text_print(text, "\\r");
            break;
        case '\t':
            cli_text_print(text, "\\t");
            break;
        case '\b':
            cli_text_print(text, "\\b");
            break;
        case '\f':
            cli_text_print(text, "\\f");
            break;
        default:
            if ((unsigned char)c < 0x20) {
                cli_text_print(text, "\\u%04x", (unsigned char)c);
            } else {
                cli_text_append(text, &c, 1);
            }
        }
    }
    cli_text_append(text, "\"", 1);
}

/* JSON's keys are strings: what is none is printed as its own text between quotes. */
static void
json_key(struct cli_text *text, const struct value *values, uint32_t index)
{
    const struct value *value = &values[index];
    if (value->kind == VALUE_BULK || value->kind == VALUE_STATUS || value->kind == VALUE_VERBATIM) {
        json_string(text, value->bytes);
        return;
    }
    struct cli_text key = { 0 };
    raw_value(&key, values, index, ",");
    json_string(text, slice_of(key.data, key.bytes));
    cli_text_fini(&key);
}

static void
json_value(struct cli_text *text, const struct value *values, uint32_t index)
{
    const struct value *value = &values[index];
    uint32_t child = index + 1;
    switch (value->kind) {
    case VALUE_NIL:
        cli_text_print(text, "null");
        break;
    case VALUE_INTEGER:
        cli_text_print(text, "%lld", (long long)value->integer);
        break;
    case VALUE_BOOL:
        cli_text_print(text, value->integer ? "true" : "false");
        break;
    case VALUE_DOUBLE:
        if (isfinite(value->real)) {
            double_print(text, value);
        } else {
            cli_text_print(text, "\"%s\"", isnan(value->real) ? "nan" : value->real > 0 ? "inf" : "-inf");
        }
        break;
    case VALUE_ERROR:
        cli_text_print(text, "error:");
        json_string(text, value->bytes);
        break;
    case VALUE_MAP:
        cli_text_append(text, "{", 1);
        for (uint32_t i = 0; i < value->count; i += 2) {
            cli_text_print(text, "%s", i > 0 ? "," : "");
            json_key(text, values, child);
            cli_text_append(text, ":", 1);
            child = values[child].after;
            json_value(text, values, child);
            child = values[child].after;
        }
        cli_text_append(text, "}", 1);
        break;
    case VALUE_ARRAY:
    case VALUE_SET:
    case VALUE_PUSH:
        cli_text_append(text, "[", 1);
        for (uint32_t i = 0; i < value->count; i++, child = values[child].after) {
            cli_text_print(text, "%s", i > 0 ? "," : "");
            json_value(text, values, child);
        }
        cli_text_append(text, "]", 1);
        break;
    default:
        json_string(text, value->bytes);
    }
}

void
cli_reply_print(struct cli_text *text, const struct client_reply *reply, enum cli_format format, const char *delimiter)
{
    switch (format) {
    case CLI_FORMAT_TTY:
        tty_value(text, reply->values, 0, 0);
        return;
    case CLI_FORMAT_RAW:
        raw_value(text, reply->values, 0, delimiter);
        break;
    case CLI_FORMAT_JSON:
        json_value(text, reply->values, 0);
        break;
    }
    cli_text_append(text, "\n", 1);
}
