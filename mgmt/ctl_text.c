/* ctl_text.c - JSON for people who look at the socket with socat. */
#include "mgmt/ctl.h"

#define COLUMNS_MAX 32
#define CELL_BYTES  256

static const char *
print_scalar(const json_t *value, char out[CELL_BYTES])
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        snprintf(out, CELL_BYTES, "%s", json_string_value(value)[0] == '\0' ? "-" : json_string_value(value));
        break;
    case JSON_INTEGER:
        snprintf(out, CELL_BYTES, "%lld", (long long)json_integer_value(value));
        break;
    case JSON_REAL:
        snprintf(out, CELL_BYTES, "%.4g", json_real_value(value));
        break;
    case JSON_TRUE:
        return strcpy(out, "yes");
    case JSON_FALSE:
        return strcpy(out, "no");
    case JSON_NULL:
        return strcpy(out, "-");
    case JSON_OBJECT:
    case JSON_ARRAY:
        snprintf(out, CELL_BYTES, "(%zu)", json_is_array(value) ? json_array_size(value) : json_object_size(value));
        break;
    }
    return out;
}

static bool
is_row(const json_t *value)
{
    return json_is_array(value) && json_array_size(value) > 0 && json_is_object(json_array_get(value, 0));
}

/* Every object of `rows` in a line, columns as wide as their widest cell; the last one is not padded. */
static void
print_table(const json_t *rows, struct text *out)
{
    const char *names[COLUMNS_MAX], *name;
    int widths[COLUMNS_MAX];
    char cell[CELL_BYTES];
    size_t columns = 0, row;
    json_t *first = json_array_get(rows, 0), *value, *object;

    json_object_foreach(first, name, value)
    {
        if (columns < COLUMNS_MAX) {
            names[columns] = name;
            widths[columns++] = (int)strlen(name);
        }
    }
    json_array_foreach(rows, row, object)
    {
        for (size_t i = 0; i < columns; i++) {
            value = json_object_get(object, names[i]);
            widths[i] = MAX(widths[i], value == NULL ? 1 : (int)strlen(print_scalar(value, cell)));
        }
    }
    for (size_t i = 0; i < columns; i++) {
        text_print(out, "%-*s%s", i + 1 < columns ? widths[i] : 0, names[i], i + 1 < columns ? "  " : "\n");
    }
    json_array_foreach(rows, row, object)
    {
        for (size_t i = 0; i < columns; i++) {
            value = json_object_get(object, names[i]);
            text_print(out, "%-*s%s", i + 1 < columns ? widths[i] : 0, value == NULL ? "-" : print_scalar(value, cell),
                       i + 1 < columns ? "  " : "\n");
        }
    }
}

/* Names and plain values; arrays of plain values with blanks between; objects inside with their name in front. */
static void
print_values(const json_t *object, const char *prefix, struct text *out)
{
    const char *name;
    char cell[CELL_BYTES], full[CELL_BYTES];
    json_t *value, *element;
    size_t i;

    json_object_foreach((json_t *)object, name, value)
    {
        snprintf(full, sizeof(full), "%s%s", prefix, name);
        if (is_row(value)) {
            continue;
        }
        if (json_is_object(value) && prefix[0] == '\0') {
            snprintf(full, sizeof(full), "%s.", name);
            print_values(value, full, out);
            continue;
        }
        text_print(out, "%-20s ", full);
        if (!json_is_array(value)) {
            text_print(out, "%s\n", print_scalar(value, cell));
            continue;
        }
        json_array_foreach(value, i, element)
        {
            text_print(out, "%s%s", i > 0 ? " " : "", print_scalar(element, cell));
        }
        text_print(out, "%s\n", json_array_size(value) == 0 ? "-" : "");
    }
}

void
ctl_print_text(const json_t *result, struct text *out)
{
    const char *name;
    json_t *value;

    print_values(result, "", out);
    json_object_foreach((json_t *)result, name, value)
    {
        if (is_row(value)) {
            print_table(value, out);
        }
    }
}
