/* goals_row.c - one line of goals: on stdout, and in the result folder when there is one. */
#include "tools/bench/csv.h"
#include "tools/bench/goals.h"
#include <errno.h>

#define GOALS_HEADER  "row,sense,must,stretch,measured,unit,verdict,detail"
#define MEMORY_HEADER "label,kind,entries,bytes_per_entry"

static FILE *
table_open(struct goals *goals, const char *name, const char *header)
{
    char path[512], error[CSV_ERROR_BYTES] = "";
    if (goals->out == NULL) {
        return NULL;
    }
    snprintf(path, sizeof(path), "%s/%s", goals->out, name);
    FILE *table = csv_append(path, header, error);
    if (table == NULL) {
        goals->out_failed = true;
        fprintf(stderr, "sluice-bench: %s\n", error);
    }
    return table;
}

static void
table_close(struct goals *goals, FILE *table)
{
    if (table != NULL && fclose(table) != 0) {
        goals->out_failed = true;
        fprintf(stderr, "sluice-bench: %s: %s\n", goals->out, strerror(errno));
    }
}

struct row {
    const char *what, *sense, *unit, *verdict, *detail;
    double must, stretch, measured;
};

static void
row_keep(struct goals *goals, const struct row *row)
{
    char numbers[3][32] = { "", "", "" };
    FILE *table = table_open(goals, "goals.csv", GOALS_HEADER);
    if (table == NULL) {
        return;
    }
    if (row->sense[0] != '\0') {
        snprintf(numbers[0], sizeof(numbers[0]), "%g", row->must);
        snprintf(numbers[1], sizeof(numbers[1]), "%g", row->stretch);
        snprintf(numbers[2], sizeof(numbers[2]), "%.6g", row->measured);
    }
    const char *cells[] = { row->what,    row->sense,
                            numbers[0],   row->stretch != 0 ? numbers[1] : "",
                            numbers[2],   row->unit + (row->unit[0] == ' '),
                            row->verdict, row->detail };
    csv_row_write(table, cells, ARRAY_COUNT(cells));
    table_close(goals, table);
}

static void
row_print(struct goals *goals, const struct row *row)
{
    char targets[48] = "", measured[32] = "";
    int used = 0;
    if (row->sense[0] != '\0') {
        used = snprintf(targets, sizeof(targets), "%s %g%s", row->sense, row->must, row->unit);
        snprintf(measured, sizeof(measured), row->measured >= 1000 ? "%.0f%s" : "%.3g%s", row->measured, row->unit);
    }
    if (row->stretch != 0) {
        snprintf(targets + used, sizeof(targets) - (size_t)used, " (%g)", row->stretch);
    }
    progress_end(&goals->progress);
    printf("%-86s %-16s %-9s %s%s%s%s\n", row->what, targets, measured, row->verdict,
           row->detail[0] != '\0' ? " (" : "", row->detail, row->detail[0] != '\0' ? ")" : "");
    fflush(stdout);
    row_keep(goals, row);
}

void
goals_head_print(void)
{
    printf("%-86s %-16s %-9s %s\n", "what", "must (stretch)", "measured", "verdict");
}

void
goal_measured(struct goals *goals, const char *what, enum goal_sense sense, double must, double stretch, double value,
              const char *unit, const char *detail)
{
    bool at_most = sense == GOAL_AT_MOST;
    bool meets = at_most ? value <= must : value >= must;
    bool stretches = meets && stretch != 0 && (at_most ? value <= stretch : value >= stretch);
    goals->stretched += stretches;
    goals->met += meets && !stretches;
    goals->missed += !meets;
    row_print(goals, &(struct row){ .what = what,
                                    .sense = at_most ? "<=" : ">=",
                                    .must = must,
                                    .stretch = stretch,
                                    .measured = value,
                                    .unit = unit,
                                    .verdict = stretches ? "met, stretch too"
                                               : meets   ? "met"
                                                         : "NOT MET",
                                    .detail = detail });
}

void
goal_not_here(struct goals *goals, const char *what, const char *why)
{
    goals->absent++;
    row_print(goals, &(struct row){ .what = what, .sense = "", .unit = "", .verdict = "not here", .detail = why });
}

void
goal_later(struct goals *goals, const char *what, const char *why)
{
    goals->later++;
    row_print(goals, &(struct row){ .what = what, .sense = "", .unit = "", .verdict = "later", .detail = why });
}

void
goal_progress(struct goals *goals, const char *what, uint32_t done, uint32_t total)
{
    if (done == 0) {
        progress_begin(&goals->progress, what, total);
    }
    progress_show(&goals->progress, done);
}

void
goals_keep_memory(struct goals *goals, const char *label, const char *kind, uint64_t entries, double bytes_per_entry)
{
    char numbers[2][32];
    FILE *table = table_open(goals, "memory.csv", MEMORY_HEADER);
    if (table == NULL) {
        return;
    }
    snprintf(numbers[0], sizeof(numbers[0]), "%llu", (unsigned long long)entries);
    snprintf(numbers[1], sizeof(numbers[1]), "%.2f", bytes_per_entry);
    csv_row_write(table, (const char *const[]){ label, kind, numbers[0], numbers[1] }, 4);
    table_close(goals, table);
}
