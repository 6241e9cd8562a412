/* sweep_table.h - what a sweep measured: rows as they come, then the comparison. */
#pragma once
#include "tools/bench/sweep_plan.h"

enum sweep_format { SWEEP_TEXT, SWEEP_MARKDOWN, SWEEP_CSV };

/* time_us is the median. */
#define SWEEP_CSV_HEADER "label,operation,size_bytes,iterations,time_us,bytes_per_second,mean_us,min_us,max_us,values"

struct sweep_table {
    enum sweep_format format;
    FILE *file; /* sweep.csv of a result folder, or NULL */
    uint32_t side_count, size_count, column_count;
    const char *labels[SWEEP_SIDES_MAX]; /* borrowed */
    struct sweep_column columns[SWEEP_COLUMNS_MAX];
    struct sweep_cut cuts[SWEEP_SIZES_MAX];
    struct sweep_result results[SWEEP_SIZES_MAX][SWEEP_OPERATIONS][SWEEP_SIDES_MAX];
};

/* Above the rows, on stdout. */
void sweep_table_head(const struct sweep_table *table);
/* The row of a result with samples: on stdout, and in the file. False: the file cannot be written. */
bool sweep_table_row(const struct sweep_table *table, uint32_t size, enum sweep_operation operation, uint32_t side);
/* With several sides, for each operation that has rows: size, rates, speed-ups. Not in CSV, which has the rows. */
void sweep_table_compare(const struct sweep_table *table);
