#include "tools/bench/sweep_table.h"
#include "tools/bench/csv.h"
#include "tools/bench/sheet.h"

void
sweep_table_head(const struct sweep_table *table)
{
    switch (table->format) {
    case SWEEP_TEXT:
        printf("%-28s %-3s %9s %6s %11s %11s %11s %11s %11s\n", "label", "op", "size", "values", "p50 us", "mean",
               "min", "max", "MB/s");
        break;
    case SWEEP_MARKDOWN:
        printf("| label | op | size | values | p50 us | mean | min | max | MB/s |\n"
               "|---|---|---:|---:|---:|---:|---:|---:|---:|\n");
        break;
    case SWEEP_CSV:
        printf("%s\n", SWEEP_CSV_HEADER);
        break;
    }
}

static void
row_csv(FILE *to, const char *label, const char *operation, const struct sweep_cut *cut,
        const struct sweep_result *result)
{
    const struct summary *times = &result->times;
    csv_cell_write(to, label);
    fprintf(to, ",%s,%llu,%llu,%.4f,%.1f,%.4f,%.4f,%.4f,%llu\n", operation, (unsigned long long)cut->size,
            (unsigned long long)times->samples, times->p50_us, result->bytes_per_second, times->mean_us, times->min_us,
            times->max_us, (unsigned long long)cut->chunks);
    fflush(to);
}

bool
sweep_table_row(const struct sweep_table *table, uint32_t size, enum sweep_operation operation, uint32_t side)
{
    const struct sweep_result *result = &table->results[size][operation][side];
    const struct summary *times = &result->times;
    const struct sweep_cut *cut = &table->cuts[size];
    const char *label = table->labels[side], *name = sweep_operation_names[operation];
    char text[32];
    sweep_size_print(text, cut->size);
    switch (table->format) {
    case SWEEP_TEXT:
        printf("%-28s %-3s %9s %6llu %11.2f %11.2f %11.2f %11.2f %11.2f\n", label, name, text,
               (unsigned long long)cut->chunks, times->p50_us, times->mean_us, times->min_us, times->max_us,
               result->bytes_per_second / 1e6);
        break;
    case SWEEP_MARKDOWN:
        printf("| %s | %s | %s | %llu | %.2f | %.2f | %.2f | %.2f | %.2f |\n", label, name, text,
               (unsigned long long)cut->chunks, times->p50_us, times->mean_us, times->min_us, times->max_us,
               result->bytes_per_second / 1e6);
        break;
    case SWEEP_CSV:
        row_csv(stdout, label, name, cut, result);
        break;
    }
    fflush(stdout);
    if (table->file == NULL) {
        return true;
    }
    row_csv(table->file, label, name, cut, result);
    return !ferror(table->file);
}

static bool
has_rows(const struct sweep_table *table, uint32_t size, enum sweep_operation operation)
{
    for (uint32_t side = 0; side < table->side_count; side++) {
        if (table->results[size][operation][side].times.samples > 0) {
            return true;
        }
    }
    return false;
}

static void
compare(const struct sweep_table *table, enum sweep_operation operation)
{
    struct sheet sheet;
    char cell[32];
    sheet_init(&sheet, NULL);
    sheet_column(&sheet, "size", false);
    for (uint32_t i = 0; i < table->column_count; i++) {
        sheet_column(&sheet, table->columns[i].head, false);
    }
    for (uint32_t size = 0; size < table->size_count; size++) {
        if (has_rows(table, size, operation)) {
            sheet_cell(&sheet, "%s", sweep_size_print(cell, table->cuts[size].size));
            for (uint32_t i = 0; i < table->column_count; i++) {
                sheet_cell(&sheet, "%s", sweep_cell_print(cell, &table->columns[i], table->results[size][operation]));
            }
        }
    }
    if (sheet.cells > sheet.columns) {
        printf("\n%s: GB/s of the median transfer, and how many times faster\n\n", sweep_operation_names[operation]);
        sheet_print(&sheet, stdout, table->format == SWEEP_TEXT ? SHEET_TEXT : SHEET_MARKDOWN);
    }
    sheet_fini(&sheet);
}

void
sweep_table_compare(const struct sweep_table *table)
{
    if (table->side_count > 1 && table->format != SWEEP_CSV) {
        for (int operation = 0; operation < SWEEP_OPERATIONS; operation++) {
            compare(table, operation);
        }
    }
}
