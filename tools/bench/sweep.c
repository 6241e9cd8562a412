/* sweep.c - GET and SET by value size, over one transport, two of them in turns, or several rails. */
#include "tools/bench/csv.h"
#include "tools/bench/machine.h"
#include "tools/bench/metadata.h"
#include "tools/bench/progress.h"
#include "tools/bench/sweep_options.h"
#include <errno.h>

enum { EXIT_FAILED = 1, EXIT_NO_CONNECTION = 3, EXIT_INTERRUPTED = 130 };

#define POLL_NS 100000000 /* between two looks at sides that are not being measured */

struct sweep {
    struct sweep_options options;
    uint8_t *pattern;
    struct sweep_side *sides[SWEEP_SIDES_MAX]; /* as the table's columns */
    bool out[SWEEP_SIDES_MAX];                 /* unavailable, broken, or no larger size fits */
    uint64_t *ticks[SWEEP_SIDES_MAX];
    int64_t polled_ns;
    bool connected; /* some side was */
    bool failed;    /* something that was asked for is missing or wrong */
    struct sweep_table table;
    struct metadata *metadata;
};

static bool
complain(const char *what, const char *why)
{
    fprintf(stderr, "sluice-bench: %s: %s\n", what, why);
    return false;
}

/* ---- sides ---- */

static FILE *
folder_file(const struct sweep *sweep, const char *name, const char *header)
{
    char path[4096], error[CSV_ERROR_BYTES];
    snprintf(path, sizeof(path), "%s/%s", sweep->options.folder, name);
    FILE *file = csv_append(path, header, error);
    if (file == NULL) {
        complain("--out", error);
    }
    return file;
}

static void
side_unavailable(struct sweep *sweep, const char *label, const char *why)
{
    fprintf(stderr, "sluice-bench: %s is unavailable: %s\n", label, why);
    sweep->failed = true;
    FILE *file = sweep->options.folder != NULL ? folder_file(sweep, "unavailable.csv", "label,error") : NULL;
    if (file != NULL) {
        csv_row_write(file, (const char *const[]){ label, why }, 2);
        if (fclose(file) != 0) {
            complain("unavailable.csv", strerror(errno));
        }
    }
}

static bool
side_open(struct sweep *sweep, const struct sweep_transport *transport, uint64_t rails,
          const struct sweep_rail_lists *lists)
{
    const struct sweep_common common = { &sweep->options.connection, &sweep->options.places, sweep->pattern };
    char why[SWEEP_WHY_BYTES];
    uint32_t side = sweep->table.side_count++;
    sweep->sides[side] = sweep_side_open(side, transport, (uint32_t)rails, lists, &common);
    sweep->table.labels[side] = sweep_side_label(sweep->sides[side]);
    sweep->ticks[side] = calloc(sweep->options.iterations, sizeof(uint64_t));
    CHECK(sweep->ticks[side] != NULL);
    sweep->out[side] = !sweep_side_connect(sweep->sides[side], why);
    if (sweep->out[side]) {
        side_unavailable(sweep, sweep->table.labels[side], why);
    }
    return !sweep->out[side];
}

/* N rails of A, one of A, B, as the columns have them. False: none of what is wanted is there. */
static bool
sides_open(struct sweep *sweep)
{
    const struct sweep_options *options = &sweep->options;
    const struct sweep_transport *a = &options->transports[0], *b = &options->transports[1];
    bool any = options->rails > 1 && side_open(sweep, a, options->rails, &options->rail_lists);
    any |= side_open(sweep, a, 1, &options->rail_lists);
    any |= options->versus && side_open(sweep, b, 1, NULL);
    sweep->table.column_count =
        sweep_columns(a->name, options->versus ? b->name : NULL, (uint32_t)options->rails, sweep->table.columns);
    return any;
}

/* What was chosen, for people and for the result. */
static void
sides_describe(const struct sweep *sweep)
{
    char text[512];
    for (uint32_t i = 0; i < sweep->table.side_count; i++) {
        if (!sweep->out[i]) {
            sweep_side_describe(sweep->sides[i], text, sizeof(text));
            metadata_note(sweep->metadata, sweep->table.labels[i], text);
            if (sweep->table.format != SWEEP_CSV) {
                printf("%s: %s\n", sweep->table.labels[i], text);
            }
        }
    }
}

static void
head_print(const struct sweep *sweep)
{
    char machine[256], size[32], text[256];
    const char *use_efa = getenv("USE_EFA");
    machine_describe(machine, sizeof(machine));
    snprintf(text, sizeof(text), "values of at most %s, all of a transfer in flight; %llu transfers after %llu",
             sweep_size_print(size, sweep->options.chunk), (unsigned long long)sweep->options.iterations,
             (unsigned long long)sweep->options.warmup);
    metadata_note(sweep->metadata, "transfers", text);
    metadata_note(sweep->metadata, "USE_EFA", use_efa != NULL ? use_efa : "");
    if (sweep->table.format != SWEEP_CSV) {
        printf("%s; client on CPU %d\n%s\n", machine, sweep->options.connection.cpu, text);
    }
    sides_describe(sweep);
    printf("%s", sweep->table.format == SWEEP_CSV ? "" : "\n");
    sweep_table_head(&sweep->table);
}

/* ---- measuring ---- */

/* What did not go well ends this side, or its larger sizes. */
static bool
side_goes_on(struct sweep *sweep, uint32_t side, uint64_t size, enum sweep_status status, const char *why)
{
    char text[32];
    if (status == SWEEP_GOOD) {
        return true;
    }
    sweep->out[side] = true;
    sweep->failed |= status != SWEEP_REFUSED || sweep->table.size_count == 1;
    fprintf(stderr, "sluice-bench: %s, %s: %s; %s\n", sweep->table.labels[side], sweep_size_print(text, size), why,
            status == SWEEP_REFUSED ? "this size and larger ones are left out" : "no more of it");
    return false;
}

/* A look at every side, so that none is taken for dead while another one is measured. */
static void
sides_poll(struct sweep *sweep)
{
    int64_t now = machine_now_ns();
    if (now - sweep->polled_ns < POLL_NS) {
        return;
    }
    sweep->polled_ns = now;
    for (uint32_t i = 0; i < sweep->table.side_count; i++) {
        if (!sweep->out[i]) {
            sweep_side_poll(sweep->sides[i]);
        }
    }
}

static bool
side_move(struct sweep *sweep, uint32_t side, uint64_t size, enum sweep_operation operation, uint64_t *ticks)
{
    char why[SWEEP_WHY_BYTES];
    enum sweep_status status = sweep_side_transfer(sweep->sides[side], operation, ticks, why);
    sides_poll(sweep);
    return side_goes_on(sweep, side, size, status, why);
}

/* Values are there, and come back as they were written. */
static void
size_prepare(struct sweep *sweep, const struct sweep_cut *cut)
{
    char why[SWEEP_WHY_BYTES];
    uint64_t ticks;
    for (uint32_t side = 0; side < sweep->table.side_count && !machine_interrupted(); side++) {
        if (!sweep->out[side] &&
            side_goes_on(sweep, side, cut->size, sweep_side_prepare(sweep->sides[side], cut, why), why) &&
            side_move(sweep, side, cut->size, SWEEP_SET, &ticks)) {
            side_move(sweep, side, cut->size, SWEEP_GET, &ticks);
        }
    }
}

/* Sides in turn, the first one last in every other round. Returns the rounds that were measured. */
static uint64_t
rounds_run(struct sweep *sweep, uint64_t size, enum sweep_operation operation, struct progress *progress)
{
    uint32_t sides = sweep->table.side_count;
    uint64_t round = 0, ticks;
    for (; round < sweep->options.warmup + sweep->options.iterations && !machine_interrupted(); round++) {
        for (uint32_t i = 0; i < sides; i++) {
            uint32_t side = round % 2 == 0 ? i : sides - 1 - i;
            if (!sweep->out[side] && side_move(sweep, side, size, operation, &ticks) &&
                round >= sweep->options.warmup) {
                sweep->ticks[side][round - sweep->options.warmup] = ticks;
            }
        }
        progress_show(progress, round + 1);
    }
    return round > sweep->options.warmup ? round - sweep->options.warmup : 0;
}

static bool
operation_measure(struct sweep *sweep, uint32_t index, enum sweep_operation operation)
{
    struct sweep_table *table = &sweep->table;
    uint64_t size = table->cuts[index].size, ticks;
    char what[64], text[32];
    struct progress progress;
    snprintf(what, sizeof(what), "%s %s", sweep_operation_names[operation], sweep_size_print(text, size));
    progress_begin(&progress, what, sweep->options.warmup + sweep->options.iterations);
    uint64_t measured = rounds_run(sweep, size, operation, &progress);
    progress_end(&progress);
    bool good = true;
    for (uint32_t side = 0; side < table->side_count; side++) {
        if (sweep->out[side] || measured == 0) {
            continue;
        }
        /* What the last SET wrote is there. */
        if (operation == SWEEP_SET && !side_move(sweep, side, size, SWEEP_GET, &ticks)) {
            continue;
        }
        table->results[index][operation][side] =
            sweep_result_of(size, sweep->ticks[side], measured, machine_ns_per_cycle());
        good &= sweep_table_row(table, index, operation, side);
    }
    return good || complain("sweep.csv", "cannot be written");
}

static bool
sweep_run(struct sweep *sweep)
{
    struct sweep_table *table = &sweep->table;
    uint64_t sizes[SWEEP_SIZES_MAX];
    uint32_t count = sweep_sizes(sweep->options.begin, sweep->options.end, sweep->options.factor, sizes);
    for (uint32_t i = 0; i < count && !machine_interrupted(); i++) {
        bool going = false;
        table->cuts[i] = sweep_cut_of(sizes[i], sweep->options.chunk, (uint32_t)sweep->options.rails);
        table->size_count = i + 1;
        size_prepare(sweep, &table->cuts[i]);
        for (int operation = 0; operation < SWEEP_OPERATIONS; operation++) {
            if (sweep->options.chosen[operation] && !operation_measure(sweep, i, operation)) {
                return false;
            }
        }
        for (uint32_t side = 0; side < table->side_count; side++) {
            going |= !sweep->out[side];
        }
        if (!going) {
            return true;
        }
    }
    return true;
}

/* Said now, and kept with the result. */
static void
warn(struct sweep *sweep, const char *text)
{
    complain("warning", text);
    metadata_warn(sweep->metadata, text);
}

static bool
watched_run(struct sweep *sweep)
{
    struct machine_watch watch;
    char busy[256];
    machine_watch_begin(&watch, NULL, 0);
    bool good = sweep_run(sweep);
    sweep_table_compare(&sweep->table);
    if (sweep->options.rails > 1 && sweep->options.rails >= machine_cpu_count()) {
        warn(sweep, "as many rails as CPUs: with a server on this host threads take turns, no speed-up can show");
    } else if (machine_watch_end(&watch, NULL, 0, busy, sizeof(busy))) {
        warn(sweep, busy);
    }
    if (machine_interrupted()) {
        warn(sweep, "interrupted: what was measured until then is kept");
    }
    return good;
}

static bool
sweep_all(struct sweep *sweep)
{
    const char *folder = sweep->options.folder;
    char why[SWEEP_WHY_BYTES];
    if (folder != NULL) {
        if (!result_folder_make(folder, why, sizeof(why))) {
            return complain("--out", why);
        }
        sweep->table.file = folder_file(sweep, "sweep.csv", SWEEP_CSV_HEADER);
        if (sweep->table.file == NULL) {
            return false;
        }
    }
    bool good = sweep->connected = sides_open(sweep);
    /* After the rails' threads began, which run where there is room. */
    if (good && !machine_pin(sweep->options.connection.cpu)) {
        good = complain("--cpu", "that CPU is not allowed");
    }
    if (good) {
        head_print(sweep);
        good = watched_run(sweep);
    }
    if (folder != NULL) {
        if (fclose(sweep->table.file) != 0) {
            good = complain("sweep.csv", strerror(errno));
        }
        if (!metadata_write(sweep->metadata, folder, why, sizeof(why))) {
            good = complain("--out", why);
        }
    }
    return good;
}

int
bench_sweep(int argc, char **argv)
{
    static struct sweep sweep;
    sweep.metadata = metadata_begin(argc, argv); /* getopt reorders the words, lists are split in place */
    int code = sweep_options_read(&sweep.options, argc, argv);
    if (code < 0) {
        sweep.table.format = sweep.options.format;
        machine_interrupts_catch();
        machine_ns_per_cycle();
        sweep.pattern = sweep_pattern_open();
        bool good = sweep_all(&sweep) && !sweep.failed;
        code = !good ? sweep.table.side_count > 0 && !sweep.connected ? EXIT_NO_CONNECTION : EXIT_FAILED
               : machine_interrupted() ? EXIT_INTERRUPTED
                                       : 0;
        for (uint32_t i = 0; i < SWEEP_SIDES_MAX; i++) {
            sweep_side_close(sweep.sides[i]);
            free(sweep.ticks[i]);
        }
        free(sweep.pattern);
    }
    metadata_end(sweep.metadata);
    return code;
}
