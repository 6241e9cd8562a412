/* sheet.h - a table of text cells, and the forms it is printed in. */
#pragma once
#include "config/base.h"

enum sheet_form { SHEET_TEXT, SHEET_CSV, SHEET_MARKDOWN, SHEET_HTML };

#define SHEET_COLUMNS_MAX 64

struct sheet {
    const char *caption; /* HTML only; NULL: none */
    uint32_t columns, cells, room;
    bool is_text[SHEET_COLUMNS_MAX]; /* to the left; numbers go to the right */
    char **cell;                     /* row after row, the first row being the columns' names */
};

/* Caller's memory. `caption` is borrowed. */
void sheet_init(struct sheet *sheet, const char *caption);
void sheet_fini(struct sheet *sheet);

/* Columns are named before the first cell is added. Texts are copied. */
void sheet_column(struct sheet *sheet, const char *name, bool is_text);
/* The next cell of the row, or the first of the next one. */
void sheet_cell(struct sheet *sheet, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whole rows only. Escaped as the form asks (escape.h). */
void sheet_print(const struct sheet *sheet, FILE *to, enum sheet_form form);
