/* csv.h - comma-separated tables with a header, read strictly: a figure that cannot be trusted is an error, not a zero.
 * RFC 4180, UTF-8: cells with a comma, a quote or a line end are quoted, a quote inside is doubled; LF or CR LF. */
#pragma once
#include "config/base.h"

#define CSV_FILE_BYTES_MAX (16u << 20)
#define CSV_CELL_BYTES_MAX 4096
#define CSV_COLUMNS_MAX    64
#define CSV_ERROR_BYTES    512

/* A table in memory. Caller's memory; read-only but for csv's own functions. Rows and columns count from 0, the header
 * is no row. */
struct csv {
    uint32_t rows, columns;
    char error[CSV_ERROR_BYTES]; /* the first thing wrong, "FILE:LINE: what"; empty while all is well */
    char *path, *text;
    char **cells;    /* columns x (rows + 1), the header first; they point into `text` */
    uint32_t *lines; /* of the file, one per row, from 1; the header's first */
};

/* Read all of `path`. Refused: no header, a name twice in it, a row of another length, a lone quote or carriage return,
 * a NUL, a last line without its end (it was cut off), anything above the limits.
 *
 * Returns  false: csv->error says why. csv_fini() is due in both cases. */
bool csv_init(struct csv *csv, const char *path);
void csv_fini(struct csv *csv);

/* The column of this name. False: there is none, and csv->error says so. */
bool csv_column(struct csv *csv, const char *name, uint32_t *column);
/* All of them, in order, or false. */
bool csv_columns(struct csv *csv, const char *const *names, uint32_t count, uint32_t *columns);

/* Lifetime: until csv_fini(). */
const char *csv_cell(const struct csv *csv, uint32_t row, uint32_t column);
/* Line of the file where the row begins. */
uint32_t csv_line(const struct csv *csv, uint32_t row);

/* A decimal number of at least 0: digits, at most 15 before at most one point. 0 for anything else, and csv->error says
 * so unless it says something already: look at it after the last call. */
double csv_number(struct csv *csv, uint32_t row, uint32_t column);
/* The same, without a point. */
uint64_t csv_whole(struct csv *csv, uint32_t row, uint32_t column);

/* False, and csv->error names both lines, when two rows have the same text in all of these columns. */
bool csv_unique(struct csv *csv, const uint32_t *columns, uint32_t count);

/* Record what the caller found wrong with a row, as the functions above do. Returns false. */
bool csv_complain(struct csv *csv, uint32_t row, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* One cell, quoted where it must be; the caller writes commas and line ends. */
void csv_cell_write(FILE *to, const char *text);
void csv_row_write(FILE *to, const char *const *cells, uint32_t count);

/* Open `path` to add rows; a file that is absent or empty gets `header` (without a line end) first.
 *
 * Returns  NULL: `error` says why: it cannot be opened, has another header, or its last line was cut off. */
FILE *csv_append(const char *path, const char *header, char error[CSV_ERROR_BYTES]);
