#include "tools/bench/rank.h"
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#define FLOOR_SUFFIX  "-floor"
#define FIGURE_US_MAX 1e12 /* 11 days: 64 of them have a sum */

enum column { LABEL, OPERATION, P50, MEAN, P99_99, WORST, SAMPLES, COLUMNS };
static const char *const columns[COLUMNS] = {
    [LABEL] = "label",      [OPERATION] = "operation", [P50] = "p50_us",      [MEAN] = "mean_us",
    [P99_99] = "p99_99_us", [WORST] = "max_us",        [SAMPLES] = "samples",
};

static bool
fail(struct rank *rank, struct csv *csv)
{
    memcpy(rank->error, csv->error, sizeof(rank->error));
    return false;
}

static struct rank_label *
label_find(struct rank *rank, const char *label)
{
    for (uint32_t i = rank->count; i-- > 0;) { /* rows of a label follow each other: the last one is the likely one */
        if (strcmp(rank->labels[i].label, label) == 0) {
            return &rank->labels[i];
        }
    }
    return NULL;
}

static struct rank_label *
label_add(struct rank *rank, const char *label)
{
    if (rank->count == RANK_LABELS_MAX) {
        return NULL;
    }
    struct rank_label *added = &rank->labels[rank->count++];
    *added = (struct rank_label){ .label = label };
    return added;
}

static int64_t
figure_read(struct csv *csv, uint32_t row, uint32_t column)
{
    double us = csv_number(csv, row, column);
    if (us > FIGURE_US_MAX) {
        csv_complain(csv, row, "%s is '%.40s', more than %.0f", csv->cells[column], csv_cell(csv, row, column),
                     FIGURE_US_MAX);
        return 0;
    }
    return llround(us * 1e4);
}

static bool
row_read(struct rank *rank, uint32_t row, const uint32_t *at)
{
    struct csv *csv = &rank->latency;
    const char *name = csv_cell(csv, row, at[LABEL]), *operation = csv_cell(csv, row, at[OPERATION]);
    uint32_t id = 0;
    while (id < OPERATION_COUNT && strcmp(operation, operation_names[id]) != 0) {
        id++;
    }
    if (*name == '\0') {
        return csv_complain(csv, row, "a row without a label");
    }
    if (id == OPERATION_COUNT) {
        return csv_complain(csv, row, "operation is '%.40s', none of the eight", operation);
    }
    struct rank_figures figures = {
        .p50 = figure_read(csv, row, at[P50]),
        .mean = figure_read(csv, row, at[MEAN]),
        .p99_99 = figure_read(csv, row, at[P99_99]),
        .max = figure_read(csv, row, at[WORST]),
        .samples = csv_whole(csv, row, at[SAMPLES]),
    };
    if (*csv->error != '\0') {
        return false;
    }
    if (figures.samples == 0 || figures.mean == 0) {
        return csv_complain(csv, row, "%s is 0", figures.samples == 0 ? "samples" : "mean_us");
    }
    if (figures.p50 > figures.p99_99 || figures.p99_99 > figures.max || figures.mean > figures.max) {
        return csv_complain(csv, row, "its figures contradict each other: p50 <= p99.99 <= max and mean <= max");
    }
    struct rank_label *label = label_find(rank, name);
    if (label == NULL && (label = label_add(rank, name)) == NULL) {
        return csv_complain(csv, row, "more than %u labels", RANK_LABELS_MAX);
    }
    label->figures[id] = figures;
    return true;
}

static bool
latency_read(struct rank *rank, const char *path)
{
    uint32_t at[COLUMNS];
    struct csv *csv = &rank->latency;
    if (!csv_init(csv, path) || !csv_columns(csv, columns, COLUMNS, at) || !csv_unique(csv, at, 2)) {
        return fail(rank, csv);
    }
    for (uint32_t row = 0; row < csv->rows; row++) {
        if (!row_read(rank, row, at)) {
            return fail(rank, csv);
        }
    }
    return true;
}

/* What was measured later is available. */
static bool
unavailable_read(struct rank *rank, const char *path)
{
    static const char *const names[] = { "label", "error" };
    uint32_t at[2];
    struct csv *csv = &rank->unavailable;
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        return true;
    }
    if (!csv_init(csv, path) || !csv_columns(csv, names, 2, at)) {
        return fail(rank, csv);
    }
    for (uint32_t row = 0; row < csv->rows; row++) {
        const char *name = csv_cell(csv, row, at[0]);
        struct rank_label *label = label_find(rank, name);
        if (label == NULL && (label = label_add(rank, name)) == NULL) {
            csv_complain(csv, row, "more than %u labels", RANK_LABELS_MAX);
            return fail(rank, csv);
        }
        label->error = csv_cell(csv, row, at[1]);
    }
    return true;
}

static enum rank_state
label_state(const struct rank_label *label, bool even)
{
    size_t bytes = strlen(label->label), suffix = strlen(FLOOR_SUFFIX);
    if (label->operations == 0) {
        return RANK_UNAVAILABLE;
    }
    if (bytes > suffix && strcmp(label->label + bytes - suffix, FLOOR_SUFFIX) == 0) {
        return RANK_FLOOR;
    }
    return label->operations < OPERATION_COUNT ? RANK_INCOMPLETE : even ? RANK_COMPLETE : RANK_UNEVEN;
}

static void
label_sum(struct rank_label *label)
{
    uint64_t samples = 0;
    bool even = true;
    for (uint32_t i = 0; i < OPERATION_COUNT; i++) {
        const struct rank_figures *figures = &label->figures[i];
        if (figures->samples == 0) {
            continue;
        }
        even = even && (samples == 0 || samples == figures->samples);
        samples = figures->samples;
        label->operations++;
        label->sum_p50 += figures->p50;
        label->sum_mean += figures->mean;
        label->sum_p99_99 += figures->p99_99;
        label->worst_max = MAX(label->worst_max, figures->max);
        label->sum_rate += 1e10 / (double)figures->mean;
    }
    label->state = label_state(label, even);
}

/* Floors have what their mode has, so that averages of fewer operations may stand among them: by their means. */
static int
order_compare(const void *a, const void *b, void *context)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    const struct rank_label *labels = context, *x = &labels[left], *y = &labels[right];
    if (x->state != y->state) {
        return x->state < y->state ? -1 : 1;
    }
    if (x->state == RANK_COMPLETE || x->state == RANK_FLOOR) {
        int64_t difference = x->sum_p50 * y->operations - y->sum_p50 * x->operations;
        if (difference != 0) {
            return difference < 0 ? -1 : 1;
        }
    }
    return (left > right) - (left < right);
}

bool
rank_init(struct rank *rank, const char *path)
{
    char file[PATH_MAX], beside[PATH_MAX + 32];
    struct stat about;
    bool folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    *rank = (struct rank){ .labels = calloc(RANK_LABELS_MAX, sizeof(*rank->labels)),
                           .order = calloc(RANK_LABELS_MAX, sizeof(*rank->order)) };
    CHECK(rank->labels != NULL && rank->order != NULL);
    if (snprintf(file, sizeof(file), "%s%s", path, folder ? "/latency.csv" : "") >= (int)sizeof(file)) {
        snprintf(rank->error, sizeof(rank->error), "%.200s...: %s", path, strerror(ENAMETOOLONG));
        return false;
    }
    if (!latency_read(rank, file)) {
        return false;
    }
    snprintf(beside, sizeof(beside), "%s/unavailable.csv", dirname(file));
    if (!unavailable_read(rank, beside)) {
        return false;
    }
    for (uint32_t i = 0; i < rank->count; i++) {
        label_sum(&rank->labels[i]);
        rank->order[i] = i;
    }
    qsort_r(rank->order, rank->count, sizeof(*rank->order), order_compare, rank->labels);
    for (uint32_t i = 0; i < rank->count && rank->labels[rank->order[i]].state == RANK_COMPLETE; i++) {
        rank->labels[rank->order[i]].rank = i + 1;
    }
    return true;
}

void
rank_fini(struct rank *rank)
{
    csv_fini(&rank->latency);
    csv_fini(&rank->unavailable);
    free(rank->labels);
    free(rank->order);
    *rank = (struct rank){ 0 };
}

int64_t
rank_divide(int64_t sum, int64_t by)
{
    int64_t whole = sum / by, twice = 2 * (sum % by);
    return whole + (twice > by || (twice == by && whole % 2 == 1));
}
