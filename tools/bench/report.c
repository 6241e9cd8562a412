/* report.c - what the parts of the page share. */
#include "tools/bench/report.h"
#include "tools/bench/escape.h"
#include <errno.h>
#include <stdarg.h>
#include <unistd.h>

const char *
report_path(const struct report *report, const char *name, char path[REPORT_PATH_BYTES])
{
    snprintf(path, REPORT_PATH_BYTES, "%.3000s/%.900s", report->folder, name);
    return path;
}

void
report_part(struct report *report, const char *name, const char *heading)
{
    fprintf(report->html, "<h2 id=\"%s\">%s</h2>\n", name, heading);
}

void
report_text(struct report *report, const char *format, ...)
{
    char *text;
    va_list arguments;
    va_start(arguments, format);
    CHECK(vasprintf(&text, format, arguments) >= 0);
    va_end(arguments);
    fputs("<p>", report->html);
    escape_write(report->html, text, ESCAPE_HTML);
    fputs("</p>\n", report->html);
    free(text);
}

void
report_absent(struct report *report, const char *file, const char *command)
{
    fprintf(report->html,
            "<p class=\"absent\">Not measured: there is no %s. This makes it: <code>sluice-bench %s</code></p>\n", file,
            command);
}

void
report_unread(struct report *report, const char *why)
{
    report->unread++;
    fputs("sluice-bench: ", stderr);
    escape_write(stderr, why, ESCAPE_TERMINAL);
    fputs("\n", stderr);
    fputs("<p class=\"warning\">Not readable: ", report->html);
    escape_write(report->html, why, ESCAPE_HTML);
    fputs("</p>\n", report->html);
}

bool
report_csv(struct report *report, struct csv *csv, const char *name, const char *command)
{
    char path[REPORT_PATH_BYTES];
    if (access(report_path(report, name, path), F_OK) != 0 && errno == ENOENT) {
        report_absent(report, name, command);
        return false;
    }
    if (!csv_init(csv, path)) {
        report_unread(report, csv->error);
        csv_fini(csv);
        return false;
    }
    return true;
}

static void
plot_draw(struct report *report, struct plot *plot)
{
    char why[PLOT_WHY_BYTES];
    if (report->plots == REPORT_PLOTS_MAX) {
        report->plots_left_out++;
    } else if (*report->why == '\0' && plot->count > 0 && !plot_write(plot, ++report->plots, report->html, why)) {
        snprintf(report->why, sizeof(report->why), "%s", why);
    }
}

/* With room for one more series unless it has this one. NULL: there are enough plots. */
static struct plot *
plots_find(struct report_plots *plots, const char *group, const char *series)
{
    struct plot *with_room = NULL;
    uint32_t parts = 0;
    for (uint32_t i = 0; i < plots->count; i++) {
        if (strcmp(plots->groups[i], group) == 0) {
            if (plot_has(&plots->plots[i], series)) {
                return &plots->plots[i];
            }
            with_room = plots->plots[i].count < PLOT_SERIES_MAX ? &plots->plots[i] : NULL;
            parts++;
        }
    }
    if (with_room != NULL || plots->count == REPORT_PLOTS_MAX) {
        return with_room;
    }
    if (plots->count == 0) {
        plots->plots = calloc(REPORT_PLOTS_MAX, sizeof(*plots->plots));
        plots->groups = calloc(REPORT_PLOTS_MAX, sizeof(*plots->groups));
        CHECK(plots->plots != NULL && plots->groups != NULL);
    }
    struct plot *plot = &plots->plots[plots->count];
    *plot = plots->form;
    CHECK((plots->groups[plots->count++] = strdup(group)) != NULL);
    int bytes = parts == 0 ? asprintf(&plot->title, "%s: %s", group, plots->title)
                           : asprintf(&plot->title, "%s: %s, part %u", group, plots->title, parts + 1);
    CHECK(bytes >= 0);
    return plot;
}

void
report_plots_point(struct report_plots *plots, const char *group, const char *series, double x, double y)
{
    struct plot *plot = plots_find(plots, group, series);
    if (plot == NULL) {
        plots->left_out++;
    } else {
        plot_point(plot_series(plot, series), x, y);
    }
}

static void
plots_free(struct report_plots *plots)
{
    for (uint32_t i = 0; i < plots->count; i++) {
        plot_fini(&plots->plots[i]);
        free(plots->groups[i]);
    }
    free(plots->plots);
    free(plots->groups);
    *plots = (struct report_plots){ 0 };
}

void
report_plots_write(struct report *report, struct report_plots *plots)
{
    for (uint32_t i = 0; i < plots->count; i++) {
        plot_draw(report, &plots->plots[i]);
    }
    if (plots->left_out > 0) {
        report_text(report, "There is no room for more plots: %llu points are in the files only.",
                    (unsigned long long)plots->left_out);
    }
    plots_free(plots);
}

void
report_sheet(struct report *report, struct sheet *sheet)
{
    sheet_print(sheet, report->html, SHEET_HTML);
    sheet_fini(sheet);
}

static bool
is_number(const char *text)
{
    return *text != '\0' && text[strspn(text, "0123456789.")] == '\0';
}

/* Columns that hold nothing but numbers go to the right. */
static void
csv_table(struct report *report, const struct csv *csv, const char *caption)
{
    struct sheet sheet;
    sheet_init(&sheet, caption);
    for (uint32_t column = 0; column < csv->columns; column++) {
        uint32_t row = 0;
        while (row < csv->rows && is_number(csv_cell(csv, row, column))) {
            row++;
        }
        sheet_column(&sheet, csv->cells[column], row < csv->rows);
    }
    for (uint32_t row = 0; row < csv->rows; row++) {
        for (uint32_t column = 0; column < csv->columns; column++) {
            sheet_cell(&sheet, "%s", csv_cell(csv, row, column));
        }
    }
    report_sheet(report, &sheet);
}

void
report_csv_end(struct report *report, struct csv *csv, struct report_plots *plots, const char *caption)
{
    if (*csv->error != '\0') {
        report_unread(report, csv->error);
        plots_free(plots);
    } else {
        report_plots_write(report, plots);
        if (caption != NULL) {
            csv_table(report, csv, caption);
        }
    }
    csv_fini(csv);
}

uint32_t
report_texts_find(const struct report_texts *texts, const char *text)
{
    uint32_t at = 0;
    while (at < texts->count && strcmp(texts->text[at], text) != 0) {
        at++;
    }
    return at;
}

void
report_texts_add(struct report_texts *texts, const char *text)
{
    if (report_texts_find(texts, text) < texts->count) {
        return;
    }
    if (texts->count == REPORT_TEXTS_MAX) {
        texts->left_out++;
        return;
    }
    texts->text[texts->count++] = text;
}

struct report_texts
report_texts_of(const struct csv *csv, uint32_t column)
{
    struct report_texts texts = { 0 };
    for (uint32_t row = 0; row < csv->rows; row++) {
        report_texts_add(&texts, csv_cell(csv, row, column));
    }
    return texts;
}
