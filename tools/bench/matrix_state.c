#include "tools/bench/matrix_state.h"
#include "tools/bench/csv.h"
#include "tools/bench/lane_result.h"
#include "tools/bench/metadata.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES  2048
#define BEFORE_MAX  1000
#define FLOOR_TAIL  "-floor"
#define TABLE_COUNT 3

static const char *const tables[TABLE_COUNT] = { "latency.csv", "config.csv", "unavailable.csv" };

static bool
complain(char *why, size_t why_bytes, const char *what, const char *reason)
{
    snprintf(why, why_bytes, "%.300s: %s", what, reason);
    return false;
}

static void
path_of(const struct matrix_state *state, const char *name, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/%s", state->folder, name);
}

/* ---- one matrix a folder ---- */

static bool
lock_take(struct matrix_state *state, char *why, size_t why_bytes)
{
    char path[PATH_BYTES];
    path_of(state, ".matrix-lock", path);
    state->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (state->lock < 0) {
        return complain(why, why_bytes, path, strerror(errno));
    }
    if (flock(state->lock, LOCK_EX | LOCK_NB) != 0) {
        return complain(why, why_bytes, state->folder, "another matrix is at work here");
    }
    return true;
}

/* What is there goes into the first folder before-N that is free. */
static bool
move_aside(const struct matrix_state *state, char *why, size_t why_bytes)
{
    static const char *const names[] = { "latency.csv",   "config.csv", "unavailable.csv", "matrix.json", "hlog",
                                         "metadata.json", "logs" };
    char from[PATH_BYTES], to[PATH_BYTES], folder[PATH_BYTES];
    int made = -1;
    for (int n = 1; n < BEFORE_MAX && made != 0; n++) {
        snprintf(folder, sizeof(folder), "%s/before-%d", state->folder, n);
        made = mkdir(folder, 0777);
        if (made != 0 && errno != EEXIST) {
            return complain(why, why_bytes, folder, strerror(errno));
        }
    }
    if (made != 0) {
        return complain(why, why_bytes, state->folder, "too many folders before-N");
    }
    bool moved = false;
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        path_of(state, names[i], from);
        snprintf(to, sizeof(to), "%.1000s/%s", folder, names[i]);
        if (rename(from, to) == 0) {
            moved = true;
        } else if (errno != ENOENT) {
            return complain(why, why_bytes, from, strerror(errno));
        }
    }
    if (!moved) {
        rmdir(folder);
    }
    return true;
}

/* ---- the configuration ---- */

/* The first name whose value differs. False: there is none. */
static bool
difference_find(const json_t *before, const json_t *now, char *text, size_t text_bytes)
{
    const json_t *sides[2] = { before, now };
    for (int side = 0; side < 2; side++) {
        const char *name;
        json_t *value;
        json_object_foreach((json_t *)sides[side], name, value)
        {
            json_t *old = json_object_get(before, name), *new = json_object_get(now, name);
            if (old != NULL && new != NULL && json_equal(old, new)) {
                continue;
            }
            char *old_text = old != NULL ? json_dumps(old, JSON_ENCODE_ANY) : NULL;
            char *new_text = new != NULL ? json_dumps(new, JSON_ENCODE_ANY) : NULL;
            snprintf(text, text_bytes, "%s was %.200s and is %.200s now", name,
                     old_text != NULL ? old_text : "not said", new_text != NULL ? new_text : "not said");
            free(old_text);
            free(new_text);
            return true;
        }
    }
    return false;
}

/* Whether a label is a row's own, or its floor's. */
static bool
label_is_of(const char *label, const struct matrix_row *row)
{
    size_t bytes = strlen(row->label);
    return strncmp(label, row->label, bytes) == 0 && (label[bytes] == '\0' || strcmp(label + bytes, FLOOR_TAIL) == 0);
}

static int
row_of(const struct matrix_plan *plan, const char *label)
{
    for (uint32_t i = 0; i < plan->row_count; i++) {
        if (label_is_of(label, &plan->rows[i])) {
            return (int)i;
        }
    }
    return -1;
}

/* Without matrix.json nobody knows how rows under our labels were measured. */
static bool
stranger_check(const struct matrix_state *state, const struct matrix_plan *plan, char *why, size_t why_bytes)
{
    for (int i = 0; i < TABLE_COUNT; i++) {
        char path[PATH_BYTES];
        struct csv csv;
        uint32_t column;
        path_of(state, tables[i], path);
        if (access(path, F_OK) != 0) {
            continue;
        }
        bool good = csv_init(&csv, path) && csv_column(&csv, "label", &column);
        if (!good) {
            snprintf(why, why_bytes, "%.400s; --restart moves it aside", csv.error);
        }
        for (uint32_t row = 0; good && row < csv.rows; row++) {
            if (row_of(plan, csv_cell(&csv, row, column)) >= 0) {
                snprintf(why, why_bytes, "%.300s has '%.100s' of another run; --restart moves it aside", path,
                         csv_cell(&csv, row, column));
                good = false;
            }
        }
        csv_fini(&csv);
        if (!good) {
            return false;
        }
    }
    return true;
}

static bool
config_settle(const struct matrix_state *state, const struct matrix_plan *plan, const json_t *config, char *why,
              size_t why_bytes)
{
    char path[PATH_BYTES], beside[PATH_BYTES], differs[512];
    json_error_t error;
    path_of(state, "matrix.json", path);
    if (access(path, F_OK) == 0) {
        json_t *before = json_load_file(path, 0, &error);
        if (!json_is_object(before)) {
            json_decref(before);
            return complain(why, why_bytes, path, "cannot be read; --restart moves it aside");
        }
        bool other = difference_find(before, config, differs, sizeof(differs));
        json_decref(before);
        if (other) {
            snprintf(why, why_bytes,
                     "%.300s: %s: its rows cannot be continued; --restart moves them aside, or name another "
                     "folder",
                     state->folder, differs);
        }
        return !other;
    }
    if (!stranger_check(state, plan, why, why_bytes)) {
        return false;
    }
    path_of(state, "matrix.json.new", beside);
    if (json_dump_file(config, beside, JSON_INDENT(2)) != 0 || rename(beside, path) != 0) {
        complain(why, why_bytes, path, strerror(errno));
        unlink(beside);
        return false;
    }
    return true;
}

/* ---- tables ---- */

/* A last line without its end was being written when the run ended. */
static bool
tail_cut(const char *path, char *why, size_t why_bytes)
{
    char piece[4096];
    struct stat status;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT || complain(why, why_bytes, path, strerror(errno));
    }
    bool good = fstat(fd, &status) == 0;
    off_t end = good ? status.st_size : 0;
    for (bool found = false; good && end > 0 && !found;) {
        size_t bytes = (size_t)MIN(end, (off_t)sizeof(piece));
        good = pread(fd, piece, bytes, end - (off_t)bytes) == (ssize_t)bytes;
        const char *last = good ? memrchr(piece, '\n', bytes) : NULL;
        found = last != NULL;
        end -= found ? (off_t)(bytes - (size_t)(last - piece) - 1) : (off_t)bytes;
    }
    if (good && end == 0) {
        good = unlink(path) == 0; /* not even a header */
    } else if (good && end != status.st_size) {
        good = ftruncate(fd, end) == 0;
    }
    if (!good) {
        complain(why, why_bytes, path, strerror(errno));
    }
    close(fd);
    return good;
}

/* Samples of one operation of one label must be all there. */
static bool
operations_count(struct csv *csv, const struct matrix_plan *plan, uint32_t seen[MATRIX_ROWS_MAX])
{
    uint32_t label, operation, samples;
    if (!csv_column(csv, "label", &label) || !csv_column(csv, "operation", &operation) ||
        !csv_column(csv, "samples", &samples)) {
        return false;
    }
    for (uint32_t row = 0; row < csv->rows; row++) {
        int index = row_of(plan, csv_cell(csv, row, label));
        if (index < 0 || strcmp(csv_cell(csv, row, label), plan->rows[index].label) != 0 ||
            csv_whole(csv, row, samples) != plan->samples) {
            continue;
        }
        for (uint32_t id = 0; id < OPERATION_COUNT; id++) {
            seen[index] |= strcmp(csv_cell(csv, row, operation), operation_names[id]) == 0 ? 1u << id : 0;
        }
    }
    return csv->error[0] == '\0';
}

static bool
configs_count(struct csv *csv, const struct matrix_plan *plan, uint32_t seen[MATRIX_ROWS_MAX])
{
    char samples_text[32], warmup_text[32];
    uint32_t label, samples, warmup;
    if (!csv_column(csv, "label", &label) || !csv_column(csv, "samples", &samples) ||
        !csv_column(csv, "warmup", &warmup)) {
        return false;
    }
    snprintf(samples_text, sizeof(samples_text), "samples=%llu", (unsigned long long)plan->samples);
    snprintf(warmup_text, sizeof(warmup_text), "warmup=%llu", (unsigned long long)plan->warmup);
    for (uint32_t row = 0; row < csv->rows; row++) {
        int index = row_of(plan, csv_cell(csv, row, label));
        if (index >= 0 && strcmp(csv_cell(csv, row, label), plan->rows[index].label) == 0 &&
            strcmp(csv_cell(csv, row, samples), samples_text) == 0 &&
            strcmp(csv_cell(csv, row, warmup), warmup_text) == 0) {
            seen[index] |= 1u << OPERATION_COUNT;
        }
    }
    return true;
}

/* Which rows are whole. */
static bool
finished_find(struct matrix_state *state, const struct matrix_plan *plan, char *why, size_t why_bytes)
{
    uint32_t seen[MATRIX_ROWS_MAX] = { 0 };
    bool (*const count[])(struct csv *, const struct matrix_plan *, uint32_t *) = { operations_count, configs_count };
    for (size_t i = 0; i < ARRAY_COUNT(count); i++) {
        char path[PATH_BYTES];
        struct csv csv;
        path_of(state, tables[i], path);
        if (access(path, F_OK) != 0) {
            return true; /* nothing is finished */
        }
        bool good = csv_init(&csv, path) && count[i](&csv, plan, seen);
        if (!good) {
            snprintf(why, why_bytes, "%.400s; --restart moves it aside", csv.error);
        }
        csv_fini(&csv);
        if (!good) {
            return false;
        }
    }
    for (uint32_t i = 0; i < plan->row_count; i++) {
        state->finished[i] = seen[i] == (1u << (OPERATION_COUNT + 1)) - 1;
        state->finished_count += state->finished[i];
    }
    return true;
}

static void
row_copy(FILE *to, const struct csv *csv, uint32_t row)
{
    const char *cells[CSV_COLUMNS_MAX];
    for (uint32_t i = 0; i < csv->columns; i++) {
        cells[i] = csv_cell(csv, row, i);
    }
    csv_row_write(to, cells, csv->columns);
}

/* Rewritten without the rows of what will be measured again. */
static bool
table_repair(const struct matrix_state *state, const struct matrix_plan *plan, const char *name, char *why,
             size_t why_bytes)
{
    char path[PATH_BYTES], beside[PATH_BYTES];
    struct csv csv;
    uint32_t label, dropped = 0;
    path_of(state, name, path);
    snprintf(beside, sizeof(beside), "%.1900s.new", path);
    if (access(path, F_OK) != 0) {
        return true;
    }
    bool good = csv_init(&csv, path) && csv_column(&csv, "label", &label);
    if (!good) {
        snprintf(why, why_bytes, "%.400s; --restart moves it aside", csv.error);
        csv_fini(&csv);
        return false;
    }
    FILE *file = fopen(beside, "we");
    if (file != NULL) {
        csv_row_write(file, (const char *const *)csv.cells, csv.columns);
        for (uint32_t row = 0; row < csv.rows; row++) {
            int index = row_of(plan, csv_cell(&csv, row, label));
            if (index < 0 || state->finished[index]) {
                row_copy(file, &csv, row);
            } else {
                dropped++;
            }
        }
    }
    csv_fini(&csv);
    good = file != NULL && !ferror(file);
    good &= file != NULL && fclose(file) == 0;
    good = good && (dropped > 0 ? rename(beside, path) : unlink(beside)) == 0;
    if (!good) {
        complain(why, why_bytes, path, strerror(errno));
        unlink(beside);
    }
    return good;
}

bool
matrix_state_open(struct matrix_state *state, const struct matrix_plan *plan, const json_t *config, char *why,
                  size_t why_bytes)
{
    *state = (struct matrix_state){ .folder = plan->out, .lock = -1 };
    bool good = result_folder_make(plan->out, why, why_bytes) && lock_take(state, why, why_bytes);
    if (good && plan->restart) {
        good = move_aside(state, why, why_bytes) && result_folder_make(plan->out, why, why_bytes);
    }
    good = good && config_settle(state, plan, config, why, why_bytes);
    for (int i = 0; good && i < TABLE_COUNT; i++) {
        char path[PATH_BYTES];
        path_of(state, tables[i], path);
        good = tail_cut(path, why, why_bytes);
    }
    good = good && finished_find(state, plan, why, why_bytes);
    for (int i = 0; good && i < TABLE_COUNT; i++) {
        good = table_repair(state, plan, tables[i], why, why_bytes);
    }
    return good;
}

void
matrix_state_close(struct matrix_state *state)
{
    if (state->lock >= 0) {
        close(state->lock);
        state->lock = -1;
    }
}
