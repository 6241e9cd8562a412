#include "tools/bench/sheet.h"
#include "tools/bench/csv.h"
#include "tools/bench/escape.h"
#include <stdarg.h>

void
sheet_init(struct sheet *sheet, const char *caption)
{
    *sheet = (struct sheet){ .caption = caption };
}

void
sheet_fini(struct sheet *sheet)
{
    for (uint32_t i = 0; i < sheet->cells; i++) {
        free(sheet->cell[i]);
    }
    free(sheet->cell);
    *sheet = (struct sheet){ 0 };
}

/* Takes `text`. */
static void
cell_add(struct sheet *sheet, char *text)
{
    if (sheet->cells == sheet->room) {
        sheet->room = MAX(2 * sheet->room, 64u);
        sheet->cell = realloc(sheet->cell, sheet->room * sizeof(*sheet->cell));
    }
    CHECK(text != NULL && sheet->cell != NULL);
    sheet->cell[sheet->cells++] = text;
}

void
sheet_column(struct sheet *sheet, const char *name, bool is_text)
{
    CHECK(sheet->cells == sheet->columns && sheet->columns < SHEET_COLUMNS_MAX);
    sheet->is_text[sheet->columns++] = is_text;
    cell_add(sheet, strdup(name));
}

void
sheet_cell(struct sheet *sheet, const char *format, ...)
{
    char *text;
    va_list arguments;
    va_start(arguments, format);
    CHECK(vasprintf(&text, format, arguments) >= 0);
    va_end(arguments);
    cell_add(sheet, text);
}

static void
text_print(const struct sheet *sheet, FILE *to)
{
    uint32_t width[SHEET_COLUMNS_MAX] = { 0 };
    for (uint32_t i = 0; i < sheet->cells; i++) {
        width[i % sheet->columns] = MAX(width[i % sheet->columns], escape_width(sheet->cell[i]));
    }
    for (uint32_t i = 0; i < sheet->cells; i++) {
        uint32_t column = i % sheet->columns;
        bool last = column + 1 == sheet->columns;
        int blanks = (int)(width[column] - escape_width(sheet->cell[i]));
        fprintf(to, "%s%*s", column > 0 ? "  " : "", sheet->is_text[column] ? 0 : blanks, "");
        escape_write(to, sheet->cell[i], ESCAPE_TERMINAL);
        fprintf(to, "%*s%s", sheet->is_text[column] && !last ? blanks : 0, "", last ? "\n" : "");
    }
}

static void
markdown_print(const struct sheet *sheet, FILE *to)
{
    for (uint32_t i = 0; i < sheet->cells; i++) {
        uint32_t column = i % sheet->columns;
        fputs(column == 0 ? "| " : " ", to);
        escape_write(to, sheet->cell[i], ESCAPE_MARKDOWN);
        fputs(column + 1 == sheet->columns ? " |\n" : " |", to);
        if (i + 1 == sheet->columns) {
            for (column = 0; column < sheet->columns; column++) {
                fputs(sheet->is_text[column] ? "|---" : "|---:", to);
            }
            fputs("|\n", to);
        }
    }
}

/* The first column of text names its row. */
static void
html_print(const struct sheet *sheet, FILE *to)
{
    uint32_t name = 0;
    while (name < sheet->columns && !sheet->is_text[name]) {
        name++;
    }
    fputs("<div class=\"scroll\" tabindex=\"0\"><table>\n", to);
    if (sheet->caption != NULL) {
        fputs("<caption>", to);
        escape_write(to, sheet->caption, ESCAPE_HTML);
        fputs("</caption>\n", to);
    }
    for (uint32_t i = 0; i < sheet->cells; i++) {
        uint32_t column = i % sheet->columns;
        bool head = i < sheet->columns;
        const char *tag = head || column == name ? "th" : "td";
        if (column == 0) {
            fputs(head ? "<thead><tr>" : i == sheet->columns ? "<tbody>\n<tr>" : "<tr>", to);
        }
        fprintf(to, "<%s%s%s>", tag,
                head             ? " scope=\"col\""
                : column == name ? " scope=\"row\""
                                 : "",
                sheet->is_text[column] ? " class=\"text\"" : "");
        escape_write(to, sheet->cell[i], ESCAPE_HTML);
        fprintf(to, "</%s>%s", tag, column + 1 < sheet->columns ? "" : head ? "</tr></thead>\n" : "</tr>\n");
    }
    fputs(sheet->cells > sheet->columns ? "</tbody></table></div>\n" : "</table></div>\n", to);
}

void
sheet_print(const struct sheet *sheet, FILE *to, enum sheet_form form)
{
    CHECK(sheet->columns > 0 && sheet->cells % sheet->columns == 0);
    switch (form) {
    case SHEET_TEXT:
        text_print(sheet, to);
        break;
    case SHEET_CSV:
        for (uint32_t i = 0; i < sheet->cells; i += sheet->columns) {
            csv_row_write(to, (const char *const *)sheet->cell + i, sheet->columns);
        }
        break;
    case SHEET_MARKDOWN:
        markdown_print(sheet, to);
        break;
    case SHEET_HTML:
        html_print(sheet, to);
        break;
    }
}
