/* report_load.c - load in the page: throughput over requests in flight, value sizes, memory per entry. */
#include "config/units.h"
#include "tools/bench/report.h"

#define THROUGHPUT_COMMAND     "throughput -p PORT -t get,set -c 1,50 -P 1,64 -r 1m --load --out DIR"
#define SWEEP_COMMAND          "sweep -p PORT --vs A:B --out DIR"
#define GOALS_COMMAND          "goals --out DIR"
/* With more labels than that, each is compared with the last one only. */
#define PAIRED_LABELS_MAX      4
#define SWEEP_TABLE_LABELS_MAX 24
static_assert(1 + 2 * SWEEP_TABLE_LABELS_MAX <= SHEET_COLUMNS_MAX, "labels, and each over the last");

/* ---- throughput ---- */

void
report_throughput(struct report *report)
{
    enum { LABEL, TEST, CONNECTIONS, DEPTH, RATE, LCORES, VALUE_BYTES, KEYS, DISTRIBUTION, COLUMNS };
    static const char *const names[COLUMNS] = {
        [LABEL] = "label",
        [TEST] = "test",
        [CONNECTIONS] = "connections",
        [DEPTH] = "depth",
        [RATE] = "requests_per_second",
        [LCORES] = "lcores",
        [VALUE_BYTES] = "value_bytes",
        [KEYS] = "keys",
        [DISTRIBUTION] = "distribution",
    };
    static const char *const words[COLUMNS] = {
        [CONNECTIONS] = " connections ",
        [LCORES] = " lcores ",
        [VALUE_BYTES] = " bytes ",
        [KEYS] = " keys ",
        [DISTRIBUTION] = " ",
    };
    struct report_plots plots = {
        .title = "throughput",
        .form = { .description = "Thousand requests a second over how many are in flight: connections times requests "
                                 "that each sends ahead.",
                  .x_label = "requests in flight",
                  .y_label = "thousand requests a second",
                  .x_axis = PLOT_LOG2 },
    };
    uint32_t at[COLUMNS];
    bool differs[COLUMNS] = { false };
    struct csv csv;
    report_part(report, "throughput", "Throughput");
    if (!report_csv(report, &csv, "throughput.csv", THROUGHPUT_COMMAND)) {
        return;
    }
    bool good = csv_columns(&csv, names, COLUMNS, at);
    for (uint32_t i = 0; good && i < COLUMNS; i++) {
        differs[i] = report_texts_of(&csv, at[i]).count > 1;
    }
    /* The same number in flight is reached by several connections or by depth: two curves where both were varied. */
    differs[CONNECTIONS] = differs[CONNECTIONS] && report_texts_of(&csv, at[DEPTH]).count > 1;
    for (uint32_t row = 0; good && row < csv.rows; row++) {
        char name[256];
        int used = snprintf(name, sizeof(name), "%.100s", csv_cell(&csv, row, at[LABEL]));
        for (uint32_t i = 0; i < COLUMNS; i++) { /* what sets this series apart from others of its label */
            if (words[i] != NULL && differs[i]) {
                used +=
                    snprintf(name + used, sizeof(name) - (size_t)used, "%s%.20s", words[i], csv_cell(&csv, row, at[i]));
            }
        }
        report_plots_point(&plots, csv_cell(&csv, row, at[TEST]), name,
                           csv_number(&csv, row, at[CONNECTIONS]) * csv_number(&csv, row, at[DEPTH]),
                           csv_number(&csv, row, at[RATE]) / 1000);
    }
    report_csv_end(report, &csv, &plots, "Rates, and what the server's CPU did for them");
}

/* ---- value sizes ---- */

enum sweep_column_id { LABEL, OPERATION, SIZE, RATE, SWEEP_COLUMN_COUNT };

/* The last row of a label, operation and size; 0: there is none. */
static double
sweep_rate(struct csv *csv, const uint32_t *at, const char *label, const char *operation, const char *size)
{
    for (uint32_t row = csv->rows; row-- > 0;) {
        if (strcmp(csv_cell(csv, row, at[SIZE]), size) == 0 && strcmp(csv_cell(csv, row, at[LABEL]), label) == 0 &&
            strcmp(csv_cell(csv, row, at[OPERATION]), operation) == 0) {
            return csv_number(csv, row, at[RATE]);
        }
    }
    return 0;
}

static int
sizes_compare(const void *a, const void *b)
{
    uint64_t left = strtoull(*(const char *const *)a, NULL, 10), right = strtoull(*(const char *const *)b, NULL, 10);
    return (left > right) - (left < right);
}

static bool
sweep_pairs(uint32_t labels, uint32_t over)
{
    return labels <= PAIRED_LABELS_MAX || over + 1 == labels;
}

static void
sweep_table(struct report *report, struct csv *csv, const uint32_t *at, const char *operation)
{
    struct report_texts labels = report_texts_of(csv, at[LABEL]), sizes = report_texts_of(csv, at[SIZE]);
    char caption[128], text[256];
    struct sheet sheet;
    snprintf(caption, sizeof(caption), "%.40s: GB/s (10^9 bytes a second), and how many times faster", operation);
    labels.count = MIN(labels.count, SWEEP_TABLE_LABELS_MAX);
    qsort(sizes.text, sizes.count, sizeof(sizes.text[0]), sizes_compare);
    sheet_init(&sheet, caption);
    sheet_column(&sheet, "size", true);
    for (uint32_t i = 0; i < labels.count; i++) {
        sheet_column(&sheet, labels.text[i], false);
    }
    for (uint32_t over = 1; over < labels.count; over++) {
        for (uint32_t i = 0; i < over && sweep_pairs(labels.count, over); i++) {
            snprintf(text, sizeof(text), "%.100s / %.100s", labels.text[i], labels.text[over]);
            sheet_column(&sheet, text, false);
        }
    }
    for (uint32_t size = 0; size < sizes.count; size++) {
        double rates[SWEEP_TABLE_LABELS_MAX];
        sheet_cell(&sheet, "%s", unit_print_size(text, strtoull(sizes.text[size], NULL, 10)));
        for (uint32_t i = 0; i < labels.count; i++) {
            rates[i] = sweep_rate(csv, at, labels.text[i], operation, sizes.text[size]);
            sheet_cell(&sheet, rates[i] > 0 ? "%.4g" : "-", rates[i] / 1e9);
        }
        for (uint32_t over = 1; over < labels.count; over++) {
            for (uint32_t i = 0; i < over && sweep_pairs(labels.count, over); i++) {
                sheet_cell(&sheet, rates[i] > 0 && rates[over] > 0 ? "%.2f" : "-", rates[i] / rates[over]);
            }
        }
    }
    report_sheet(report, &sheet);
}

void
report_sweep(struct report *report)
{
    static const char *const names[] = { "label", "operation", "size_bytes", "bytes_per_second" };
    struct report_plots plots = {
        .title = "by value size",
        .form = { .description = "Million bytes a second over the size of one value, both axes logarithmic; a curve a "
                                 "transport.",
                  .x_label = "value size, bytes",
                  .y_label = "MB/s",
                  .x_axis = PLOT_LOG2,
                  .y_axis = PLOT_LOG10 },
    };
    uint32_t at[SWEEP_COLUMN_COUNT];
    struct csv csv;
    report_part(report, "sweep", "Value sizes");
    if (!report_csv(report, &csv, "sweep.csv", SWEEP_COMMAND)) {
        return;
    }
    bool good = csv_columns(&csv, names, SWEEP_COLUMN_COUNT, at);
    for (uint32_t row = 0; good && row < csv.rows; row++) {
        report_plots_point(&plots, csv_cell(&csv, row, at[OPERATION]), csv_cell(&csv, row, at[LABEL]),
                           (double)csv_whole(&csv, row, at[SIZE]), csv_number(&csv, row, at[RATE]) / 1e6);
    }
    if (*csv.error == '\0') {
        struct report_texts operations = report_texts_of(&csv, at[OPERATION]);
        report_plots_write(report, &plots);
        for (uint32_t i = 0; i < operations.count; i++) {
            sweep_table(report, &csv, at, operations.text[i]);
        }
    }
    report_csv_end(report, &csv, &plots, NULL);
}

/* ---- memory ---- */

void
report_memory(struct report *report)
{
    enum { M_LABEL, M_KIND, M_ENTRIES, M_BYTES, M_COLUMNS };
    static const char *const names[] = { "label", "kind", "entries", "bytes_per_entry" };
    struct report_plots plots = {
        .title = "resident bytes an entry",
        .form = { .description = "Resident bytes an entry, a group of bars a kind of object.",
                  .x_label = "",
                  .y_label = "bytes an entry",
                  .bars = true },
    };
    struct report_texts kinds = { 0 };
    uint32_t at[M_COLUMNS];
    struct csv csv;
    report_part(report, "memory", "Memory per entry");
    if (!report_csv(report, &csv, "memory.csv", GOALS_COMMAND)) {
        return;
    }
    bool good = csv_columns(&csv, names, M_COLUMNS, at);
    if (good) {
        kinds = report_texts_of(&csv, at[M_KIND]);
        plots.form.places = kinds.text;
        plots.form.place_count = kinds.count;
    }
    bool sizes = good && report_texts_of(&csv, at[M_ENTRIES]).count > 1;
    for (uint32_t row = 0; good && row < csv.rows; row++) {
        char name[256];
        snprintf(name, sizeof(name), sizes ? "%.100s, %.40s entries" : "%.100s", csv_cell(&csv, row, at[M_LABEL]),
                 csv_cell(&csv, row, at[M_ENTRIES]));
        report_plots_point(&plots, "Memory", name, report_texts_find(&kinds, csv_cell(&csv, row, at[M_KIND])),
                           csv_number(&csv, row, at[M_BYTES]));
    }
    report_csv_end(report, &csv, &plots, "Resident bytes an entry");
}

/* ---- goals ---- */

void
report_goals(struct report *report)
{
    struct report_plots none = { 0 };
    struct csv csv;
    report_part(report, "goals", "Goals");
    if (report_csv(report, &csv, "goals.csv", GOALS_COMMAND)) {
        report_csv_end(report, &csv, &none, "What must be reached, and what was measured");
    }
}
