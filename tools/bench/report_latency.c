/* report_latency.c - latency in the page: ranks, percentile curves, latency over load. */
#include "tools/bench/hlog_read.h"
#include "tools/bench/rank.h"
#include "tools/bench/report.h"
#include <errno.h>
#include <math.h>
#include <unistd.h>

#define LATENCY_COMMAND "latency -p PORT --out DIR"
#define OPEN_COMMAND    "open -p PORT --knee -r 1m --load --out DIR"
/* Ranks at so many places for each power of ten of samples. */
#define STEPS_A_DECADE  12

void
report_ranks(struct report *report)
{
    struct rank rank;
    struct sheet sheet;
    char text[RANK_NOTE_BYTES], path[REPORT_PATH_BYTES];
    report_part(report, "ranks", "Latency, one request after the other");
    if (access(report_path(report, "latency.csv", path), F_OK) != 0 && errno == ENOENT) {
        report_absent(report, "latency.csv", LATENCY_COMMAND);
        return;
    }
    if (!rank_init(&rank, path)) {
        report_unread(report, rank.error);
        rank_fini(&rank);
        return;
    }
    report_text(report, "Each request waits for the reply before it: a pause of the server delays one request and is "
                        "seen in one sample. What clients with a schedule of their own would see is under "
                        "“Latency over load”.");
    rank_aggregate(&rank, SHEET_HTML, &sheet);
    report_sheet(report, &sheet);
    rank_operations(&rank, SHEET_HTML, &sheet);
    report_sheet(report, &sheet);
    for (uint32_t at = 0; rank_note(&rank, &at, text);) {
        report_text(report, "%s", text);
    }
    rank_fini(&rank);
}

/* ---- percentile curves ---- */

/* From the smallest to the largest: rank r of n stands at n / (n - r), where 99.9% is at 1000. */
static void
curve_add(struct report_plots *plots, const char *operation, const char *label, const struct hlog_reading *reading)
{
    uint64_t last = 0;
    for (uint32_t step = 0; last < reading->samples; step++) {
        double place = MIN(pow(10, (double)step / STEPS_A_DECADE), (double)reading->samples);
        double below = (double)reading->samples * (1 - 1 / place);
        uint64_t rank = place < (double)reading->samples ? (uint64_t)ceil(below - 1e-6) : reading->samples;
        rank = MAX(rank, (uint64_t)1);
        if (rank != last) {
            report_plots_point(plots, operation, label, place, (double)hlog_read_rank(reading, rank) / 1000);
        }
        last = rank;
    }
}

/* Labels as latency.csv has them: what else lies in the folder is not of this result. Returns how many logs there are.
 */
static uint32_t
curves_read(struct report *report, struct report_plots *plots, const struct report_texts *labels)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < OPERATION_COUNT * labels->count; i++) {
        const char *operation = operation_names[i / labels->count], *label = labels->text[i % labels->count];
        char name[512], path[REPORT_PATH_BYTES], why[HLOG_READ_WHY_BYTES];
        struct hlog_reading reading;
        snprintf(name, sizeof(name), "hlog/%.400s-%s.hlog", label, operation);
        if (strchr(label, '/') != NULL || access(report_path(report, name, path), F_OK) != 0) {
            continue;
        }
        found++;
        if (hlog_read(&reading, path, why)) {
            curve_add(plots, operation, label, &reading);
            hlog_read_fini(&reading);
        } else {
            report_unread(report, why);
        }
    }
    return found;
}

void
report_percentiles(struct report *report)
{
    struct report_plots plots = {
        .title = "percentiles",
        .form = { .description = "Latency in microseconds at each percentile, a curve a mode. Both axes are "
                                 "logarithmic, the percentiles by how rare what lies above is.",
                  .x_label = "percentile",
                  .y_label = "us",
                  .x_axis = PLOT_LOG10,
                  .y_axis = PLOT_LOG10,
                  .x_ticks = "'0' 1, '50' 2, '90' 10, '99' 100, '99.9' 1e3, '99.99' 1e4, '99.999' 1e5, '99.9999' 1e6, "
                             "'99.99999' 1e7" },
    };
    struct report_texts labels = { 0 };
    uint32_t column;
    char path[REPORT_PATH_BYTES];
    struct csv csv;
    report_part(report, "percentiles", "Percentiles");
    /* What is wrong with latency.csv is said above. */
    if (csv_init(&csv, report_path(report, "latency.csv", path)) && csv_column(&csv, "label", &column)) {
        labels = report_texts_of(&csv, column);
    }
    if (curves_read(report, &plots, &labels) == 0) {
        report_absent(report, "log in hlog/", LATENCY_COMMAND);
    }
    report_plots_write(report, &plots);
    csv_fini(&csv);
}

/* ---- latency over load ---- */

void
report_open(struct report *report)
{
    enum { LABEL, TEST, INTENDED, P50, P99_9, COLUMNS };
    static const char *const names[COLUMNS] = { "label", "test", "intended_per_second", "p50_us", "p99_9_us" };
    struct report_plots plots = {
        .title = "latency over load",
        .form = { .description = "p50 and p99.9 from the time at which each request was due, in microseconds, over the "
                                 "rate at which requests were due; two curves a label.",
                  .x_label = "thousand requests a second, intended",
                  .y_label = "us",
                  .y_axis = PLOT_LOG10,
                  .pairs = true },
    };
    uint32_t at[COLUMNS];
    struct csv csv;
    report_part(report, "open", "Latency over load");
    if (!report_csv(report, &csv, "open.csv", OPEN_COMMAND)) {
        return;
    }
    for (uint32_t row = 0; csv_columns(&csv, names, COLUMNS, at) && row < csv.rows; row++) {
        const char *label = csv_cell(&csv, row, at[LABEL]), *test = csv_cell(&csv, row, at[TEST]);
        double rate = csv_number(&csv, row, at[INTENDED]) / 1000;
        char name[256];
        snprintf(name, sizeof(name), "%.200s p50", label);
        report_plots_point(&plots, test, name, rate, csv_number(&csv, row, at[P50]));
        snprintf(name, sizeof(name), "%.200s p99.9", label);
        report_plots_point(&plots, test, name, rate, csv_number(&csv, row, at[P99_9]));
    }
    report_text(report, "Requests are due at a fixed rate, whether or not the server answers, and latency counts from "
                        "when a request was due: all that a pause delays is in the percentiles.");
    report_csv_end(report, &csv, &plots, "Rates and latencies");
}
