#include "config/units.h"
#include "tools/sluicectl.h"

#define COLUMNS_MAX 16

const char *
get_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text == NULL ? "" : text;
}

double
get_number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* Five digits, then thousands with one decimal: 99999, 100.0k, 12.3M. */
static void
print_count(double value, char out[CELL_BYTES])
{
    static const char units[] = "kMGTPE";
    size_t unit = 0;

    if (value < 99999.5) {
        snprintf(out, CELL_BYTES, "%.0f", value);
        return;
    }
    for (value /= 1000; value >= 999.95 && units[unit + 1] != '\0'; unit++) {
        value /= 1000;
    }
    snprintf(out, CELL_BYTES, "%.1f%c", value, units[unit]);
}

static void
print_seconds(double value, char out[CELL_BYTES])
{
    long whole = (long)value;

    if (value < 60) {
        snprintf(out, CELL_BYTES, "%.1fs", value);
    } else if (whole < 3600) {
        snprintf(out, CELL_BYTES, "%ldm%lds", whole / 60, whole % 60);
    } else if (whole < 86400) {
        snprintf(out, CELL_BYTES, "%ldh%ldm", whole / 3600, whole % 3600 / 60);
    } else {
        snprintf(out, CELL_BYTES, "%ldd%ldh", whole / 86400, whole % 86400 / 3600);
    }
}

/* Three digits that matter, because the histogram does not know more. */
static void
print_micros(double ns, char out[CELL_BYTES])
{
    double us = ns / 1000;
    snprintf(out, CELL_BYTES, "%.*f", us < 10 ? 2 : us < 100 ? 1 : 0, us);
}

const char *
cell_print(const json_t *value, enum column_kind kind, char out[CELL_BYTES])
{
    char size[UNIT_TEXT_BYTES];

    if (json_is_string(value)) {
        snprintf(out, CELL_BYTES, "%s", json_string_value(value)[0] == '\0' ? "-" : json_string_value(value));
        return out;
    }
    if (json_is_boolean(value)) {
        return strcpy(out, json_is_true(value) ? "yes" : "no");
    }
    if (!json_is_number(value)) {
        return strcpy(out, "-");
    }
    switch (kind) {
    case COLUMN_COUNT:
        print_count(json_number_value(value), out);
        break;
    case COLUMN_BYTES:
        snprintf(out, CELL_BYTES, "%s", unit_print_size_short(size, (uint64_t)json_number_value(value)));
        break;
    case COLUMN_SHARE:
        snprintf(out, CELL_BYTES, "%.1f%%", json_number_value(value) * 100);
        break;
    case COLUMN_SECONDS:
        print_seconds(json_number_value(value), out);
        break;
    case COLUMN_MICROS:
        print_micros(json_number_value(value), out);
        break;
    case COLUMN_TEXT:
    case COLUMN_EXACT:
        snprintf(out, CELL_BYTES, "%.0f", json_number_value(value));
        break;
    }
    return out;
}

static void
print_cell(const char *text, const struct column *column, int width, bool last)
{
    if (column->kind != COLUMN_TEXT) {
        printf("%*s", width, text);
    } else if (last) {
        fputs(text, stdout);
    } else {
        printf("%-*s", width, text);
    }
    fputs(last ? "\n" : "  ", stdout);
}

void
table_print(const json_t *rows, const struct column *columns, size_t count, const char *nothing)
{
    int widths[COLUMNS_MAX];
    char cell[CELL_BYTES];
    size_t row;
    json_t *object;

    CHECK(count <= COLUMNS_MAX);
    if (json_array_size(rows) == 0) {
        puts(nothing);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        widths[i] = (int)strlen(columns[i].title);
        json_array_foreach(rows, row, object)
        {
            const char *text = cell_print(json_object_get(object, columns[i].key), columns[i].kind, cell);
            widths[i] = MAX(widths[i], (int)strlen(text));
        }
    }
    for (size_t i = 0; i < count; i++) {
        print_cell(columns[i].title, &columns[i], widths[i], i + 1 == count);
    }
    json_array_foreach(rows, row, object)
    {
        for (size_t i = 0; i < count; i++) {
            print_cell(cell_print(json_object_get(object, columns[i].key), columns[i].kind, cell), &columns[i],
                       widths[i], i + 1 == count);
        }
    }
}
