#include "tools/bench/csv.h"
#include <errno.h>
#include <stdarg.h>
#include <sys/file.h>

#define WHOLE_DIGITS_MAX 15 /* a double keeps any 15 digits */

static void
complain(struct csv *csv, uint32_t line, const char *format, va_list arguments)
{
    if (*csv->error != '\0') {
        return;
    }
    size_t used;
    if (line == 0) {
        used = (size_t)snprintf(csv->error, sizeof(csv->error), "%.200s: ", csv->path);
    } else {
        used = (size_t)snprintf(csv->error, sizeof(csv->error), "%.200s:%u: ", csv->path, line);
    }
    vsnprintf(csv->error + used, sizeof(csv->error) - used, format, arguments);
}

/* Line 0: of no line. */
__attribute__((format(printf, 3, 4))) static bool
line_complain(struct csv *csv, uint32_t line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    complain(csv, line, format, arguments);
    va_end(arguments);
    return false;
}

bool
csv_complain(struct csv *csv, uint32_t row, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    complain(csv, csv_line(csv, row), format, arguments);
    va_end(arguments);
    return false;
}

static void *
grown(void *memory, size_t bytes)
{
    void *more = realloc(memory, bytes);
    CHECK(more != NULL);
    return more;
}

/* The whole file, a NUL behind it. */
static bool
file_read(struct csv *csv, size_t *bytes)
{
    FILE *file = fopen(csv->path, "re");
    if (file == NULL) {
        return line_complain(csv, 0, "%s", strerror(errno));
    }
    size_t have = 0, room = 0, got;
    do {
        if (have == room) {
            room = room == 0 ? 65536 : 2 * room;
            csv->text = grown(csv->text, room + 1);
        }
        got = fread(csv->text + have, 1, room - have, file);
        have += got;
    } while (got > 0 && have <= CSV_FILE_BYTES_MAX);
    int why = ferror(file) ? errno : 0;
    fclose(file);
    csv->text[have] = '\0';
    *bytes = have;
    if (why != 0) {
        return line_complain(csv, 0, "%s", strerror(why));
    }
    if (have > CSV_FILE_BYTES_MAX) {
        return line_complain(csv, 0, "too long: more than %u bytes", CSV_FILE_BYTES_MAX);
    }
    return true;
}

struct reader {
    char *at;      /* next byte to read, in csv->text */
    char *end;     /* behind the last one: a NUL */
    uint32_t line; /* where `at` is */
};

/* A cell in quotes, taken out of them in place. `at` is behind the first quote. NULL: complained. */
static char *
quoted_take(struct csv *csv, struct reader *reader)
{
    char *cell = reader->at, *to = cell;
    uint32_t begun = reader->line;
    for (;; reader->at++) {
        if (reader->at == reader->end) {
            line_complain(csv, begun, "a quoted cell begins here and does not end");
            return NULL;
        }
        if (*reader->at == '"' && *++reader->at != '"') {
            break;
        }
        reader->line += *reader->at == '\n';
        *to++ = *reader->at;
    }
    if (reader->at < reader->end && strchr(",\r\n", *reader->at) == NULL) {
        line_complain(csv, reader->line, "a quoted cell is followed by something else than a comma or the line's end");
        return NULL;
    }
    /* Where `to` is the closing quote or something before it: never what is still to be read. */
    *to = '\0';
    return cell;
}

/* A cell and what ends it: a comma, or the line's end (*last). NULL: complained. */
static char *
cell_take(struct csv *csv, struct reader *reader, bool *last)
{
    uint32_t line = reader->line;
    char *cell = reader->at;
    if (*cell == '"') {
        reader->at++;
        cell = quoted_take(csv, reader);
        if (cell == NULL) {
            return NULL;
        }
    } else {
        while (reader->at < reader->end && memchr(",\"\r\n", *reader->at, 4) == NULL) {
            reader->at++;
        }
    }
    char stop = *reader->at;
    bool carriage = stop == '\r' && reader->at[1] == '\n';
    if (stop != ',' && stop != '\n' && !carriage) {
        line_complain(csv, line, "%s",
                      stop == '"'    ? "a quote inside a cell that does not begin with one"
                      : stop == '\r' ? "a carriage return without a line feed"
                                     : "the line has no end: the file was cut off");
        return NULL;
    }
    *last = stop != ',';
    *reader->at = '\0';
    reader->at += carriage ? 2 : 1;
    reader->line += *last;
    if (strlen(cell) > CSV_CELL_BYTES_MAX) {
        line_complain(csv, line, "a cell is too long: more than %u bytes", CSV_CELL_BYTES_MAX);
        return NULL;
    }
    return cell;
}

/* One line of cells; the first one says how many there are. */
static bool
row_take(struct csv *csv, struct reader *reader, uint32_t index, uint32_t *room)
{
    uint32_t count = 0, line = reader->line;
    char *cells[CSV_COLUMNS_MAX];
    for (bool last = false; !last; count++) {
        if (count == CSV_COLUMNS_MAX) {
            return line_complain(csv, line, "more than %u cells", CSV_COLUMNS_MAX);
        }
        cells[count] = cell_take(csv, reader, &last);
        if (cells[count] == NULL) {
            return false;
        }
    }
    if (index == 0) {
        csv->columns = count;
    } else if (count != csv->columns) {
        return line_complain(csv, line, "%u cells, the header has %u", count, csv->columns);
    }
    if (index == *room) {
        *room = *room == 0 ? 64 : 2 * *room;
        csv->cells = grown(csv->cells, (size_t)*room * csv->columns * sizeof(*csv->cells));
        csv->lines = grown(csv->lines, *room * sizeof(*csv->lines));
    }
    memcpy(csv->cells + (size_t)index * csv->columns, cells, count * sizeof(*cells));
    csv->lines[index] = line;
    return true;
}

static bool
header_check(struct csv *csv)
{
    for (uint32_t i = 0; i < csv->columns; i++) {
        if (*csv->cells[i] == '\0') {
            return line_complain(csv, 1, "column %u has no name", i + 1);
        }
        for (uint32_t j = 0; j < i; j++) {
            if (strcmp(csv->cells[i], csv->cells[j]) == 0) {
                return line_complain(csv, 1, "two columns are called '%.64s'", csv->cells[i]);
            }
        }
    }
    return true;
}

bool
csv_init(struct csv *csv, const char *path)
{
    size_t bytes = 0;
    uint32_t room = 0, index = 0;
    *csv = (struct csv){ .path = strdup(path) };
    CHECK(csv->path != NULL);
    if (!file_read(csv, &bytes)) {
        return false;
    }
    const char *nul = memchr(csv->text, '\0', bytes);
    if (nul != NULL) {
        uint32_t line = 1;
        for (const char *at = csv->text; at < nul; at++) {
            line += *at == '\n';
        }
        return line_complain(csv, line, "a NUL byte: this is no text");
    }
    if (bytes == 0) {
        return line_complain(csv, 0, "empty, without a header");
    }
    struct reader reader = { csv->text, csv->text + bytes, 1 };
    if (strncmp(csv->text, "\xef\xbb\xbf", 3) == 0) {
        reader.at += 3; /* spreadsheets mark UTF-8 so */
    }
    for (; reader.at < reader.end; index++) {
        if (!row_take(csv, &reader, index, &room) || (index == 0 && !header_check(csv))) {
            return false;
        }
    }
    if (index == 0) {
        return line_complain(csv, 0, "empty, without a header");
    }
    csv->rows = index - 1;
    return true;
}

void
csv_fini(struct csv *csv)
{
    free(csv->lines);
    free(csv->cells);
    free(csv->text);
    free(csv->path);
    *csv = (struct csv){ 0 };
}

bool
csv_column(struct csv *csv, const char *name, uint32_t *column)
{
    for (uint32_t i = 0; i < csv->columns; i++) {
        if (strcmp(csv->cells[i], name) == 0) {
            *column = i;
            return true;
        }
    }
    return line_complain(csv, 1, "no column '%s'", name);
}

bool
csv_columns(struct csv *csv, const char *const *names, uint32_t count, uint32_t *columns)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!csv_column(csv, names[i], &columns[i])) {
            return false;
        }
    }
    return true;
}

const char *
csv_cell(const struct csv *csv, uint32_t row, uint32_t column)
{
    CHECK(row < csv->rows && column < csv->columns);
    return csv->cells[((size_t)row + 1) * csv->columns + column];
}

uint32_t
csv_line(const struct csv *csv, uint32_t row)
{
    CHECK(row < csv->rows);
    return csv->lines[row + 1];
}

double
csv_number(struct csv *csv, uint32_t row, uint32_t column)
{
    const char *text = csv_cell(csv, row, column);
    size_t whole = strspn(text, "0123456789"), all = whole;
    if (text[whole] == '.') {
        all += 1 + strspn(text + whole + 1, "0123456789");
    }
    if (whole == 0 || text[all] != '\0' || text[all - 1] == '.' || whole > WHOLE_DIGITS_MAX) {
        csv_complain(csv, row, "%s is '%.40s', expected a number", csv->cells[column], text);
        return 0;
    }
    return strtod(text, NULL);
}

uint64_t
csv_whole(struct csv *csv, uint32_t row, uint32_t column)
{
    double number = csv_number(csv, row, column);
    if (strchr(csv_cell(csv, row, column), '.') != NULL) {
        csv_complain(csv, row, "%s is '%.40s', expected a whole number", csv->cells[column],
                     csv_cell(csv, row, column));
        return 0;
    }
    return (uint64_t)number;
}

struct keys {
    const struct csv *csv;
    const uint32_t *columns;
    uint32_t count;
};

static int
keys_compare(const struct keys *keys, uint32_t left, uint32_t right)
{
    int order = 0;
    for (uint32_t i = 0; i < keys->count && order == 0; i++) {
        order = strcmp(csv_cell(keys->csv, left, keys->columns[i]), csv_cell(keys->csv, right, keys->columns[i]));
    }
    return order;
}

/* Rows with the same keys stay in the file's order. */
static int
rows_compare(const void *a, const void *b, void *context)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    int order = keys_compare(context, left, right);
    return order != 0 ? order : (left > right) - (left < right);
}

bool
csv_unique(struct csv *csv, const uint32_t *columns, uint32_t count)
{
    struct keys keys = { csv, columns, count };
    uint32_t *order = grown(NULL, (csv->rows + 1) * sizeof(*order)), first = UINT32_MAX, again = UINT32_MAX;
    for (uint32_t i = 0; i < csv->rows; i++) {
        order[i] = i;
    }
    qsort_r(order, csv->rows, sizeof(*order), rows_compare, &keys);
    for (uint32_t i = 1; i < csv->rows; i++) {
        if (keys_compare(&keys, order[i - 1], order[i]) == 0 && order[i] < again) {
            first = order[i - 1];
            again = order[i];
        }
    }
    free(order);
    if (again == UINT32_MAX) {
        return true;
    }
    char text[256] = "";
    for (uint32_t i = 0, used = 0; i < count && used < sizeof(text) - 100; i++) {
        used += (uint32_t)snprintf(text + used, sizeof(text) - used, "%s%.64s", i > 0 ? " " : "",
                                   csv_cell(csv, again, columns[i]));
    }
    return csv_complain(csv, again, "%s again: it is on line %u already", text, csv_line(csv, first));
}

void
csv_cell_write(FILE *to, const char *text)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, to);
        return;
    }
    fputc('"', to);
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            fputc('"', to);
        }
        fputc(*text, to);
    }
    fputc('"', to);
}

void
csv_row_write(FILE *to, const char *const *cells, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0) {
            fputc(',', to);
        }
        csv_cell_write(to, cells[i]);
    }
    fputc('\n', to);
}

FILE *
csv_append(const char *path, const char *header, char error[CSV_ERROR_BYTES])
{
    char first[CSV_ERROR_BYTES * 2];
    FILE *file = fopen(path, "a+e");
    if (file == NULL) {
        snprintf(error, CSV_ERROR_BYTES, "%.200s: %s", path, strerror(errno));
        return NULL;
    }
    flock(fileno(file), LOCK_EX); /* two that begin a table at once; where there are no locks, the second one's luck */
    rewind(file);
    if (fgets(first, sizeof(first), file) == NULL) {
        rewind(file);
        if (fprintf(file, "%s\n", header) < 0 || fflush(file) != 0) {
            snprintf(error, CSV_ERROR_BYTES, "%.200s: %s", path, strerror(errno));
            fclose(file);
            return NULL;
        }
        flock(fileno(file), LOCK_UN); /* rows are added whole */
        return file;
    }
    first[strcspn(first, "\r\n")] = '\0';
    bool same = strcmp(first, header) == 0;
    bool whole = fseek(file, -1, SEEK_END) == 0 && fgetc(file) == '\n';
    if (same && whole) {
        flock(fileno(file), LOCK_UN);
        fseek(file, 0, SEEK_END);
        return file;
    }
    fclose(file);
    if (!same) {
        snprintf(error, CSV_ERROR_BYTES, "%.200s:1: another table is there already: its header is not '%.200s'", path,
                 header);
    } else {
        snprintf(error, CSV_ERROR_BYTES, "%.200s: its last line has no end: take it away first", path);
    }
    return NULL;
}
