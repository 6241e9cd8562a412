/* report.h - a result folder as one HTML page; its parts, in the order of the page. */
#pragma once
#include "tools/bench/csv.h"
#include "tools/bench/plot.h"
#include "tools/bench/sheet.h"

#define REPORT_PLOTS_MAX 200
#define REPORT_WHY_BYTES 1024

struct report {
    const char *folder;
    FILE *html;
    uint32_t plots, plots_left_out;
    uint32_t unread;            /* files that are there and could not be read: said in their part */
    char why[REPORT_WHY_BYTES]; /* what ended it: a plot could not be drawn; empty: nothing */
};

/* DIR/name, cut where it would be too long. */
#define REPORT_PATH_BYTES 4096
const char *report_path(const struct report *report, const char *name, char path[REPORT_PATH_BYTES]);

/* A heading, with a name for links. Both are constants. */
void report_part(struct report *report, const char *name, const char *heading);
/* A paragraph, escaped. */
void report_text(struct report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Says that the part was not measured, and the command that does it. */
void report_absent(struct report *report, const char *file, const char *command);
/* Says that a file could not be read. */
void report_unread(struct report *report, const char *why);

/* Read DIR/name. False: absent or not readable, and the part says so; otherwise csv_fini() is due. */
bool report_csv(struct report *report, struct csv *csv, const char *name, const char *command);

/* Plots of one kind: one for each group, another one where it has more series than one shows. Caller's memory, zero but
 * for title and form. */
struct report_plots {
    const char *title; /* behind the group's name: "throughput" */
    struct plot form;  /* axes and description */
    uint32_t count;
    uint64_t left_out; /* points beyond REPORT_PLOTS_MAX plots */
    struct plot *plots;
    char **groups;
};
void report_plots_point(struct report_plots *plots, const char *group, const char *series, double x, double y);
/* Draw each, unless one could not be drawn before; the memory is given back. */
void report_plots_write(struct report *report, struct report_plots *plots);

/* What a part ends with: its plots, all of the table (caption NULL: it is told already), or what is wrong with the file
 * instead of both. csv_fini() is done. */
void report_csv_end(struct report *report, struct csv *csv, struct report_plots *plots, const char *caption);
/* sheet_fini() is done. */
void report_sheet(struct report *report, struct sheet *sheet);

/* Different texts of a column, in the order in which they appear. */
#define REPORT_TEXTS_MAX 256
struct report_texts {
    uint32_t count, left_out;
    const char *text[REPORT_TEXTS_MAX]; /* borrowed from the table */
};
void report_texts_add(struct report_texts *texts, const char *text);
struct report_texts report_texts_of(const struct csv *csv, uint32_t column);
/* Where it is; count: nowhere. */
uint32_t report_texts_find(const struct report_texts *texts, const char *text);

/* ---- the parts ---- */

void report_ranks(struct report *report);
void report_percentiles(struct report *report);
void report_open(struct report *report);
void report_throughput(struct report *report);
void report_sweep(struct report *report);
void report_memory(struct report *report);
void report_goals(struct report *report);
void report_warnings(struct report *report);
void report_machine(struct report *report);
