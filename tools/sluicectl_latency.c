/* sluicectl_latency.c - histograms as a table, as bars, as percentiles; kept in files, and what came since. */
#include "mgmt/ctl_wire.h"
#include "tools/sluicectl.h"
#include <math.h>

#define BAR_COLUMNS 36
#define BARS_MOST   24
#define HDR_TICKS   5 /* lines for each halving of what is left up to 100% */

/* ---- printing ---- */

static enum column_kind
value_kind(const json_t *result)
{
    return strcmp(get_text(result, "unit"), "ns") == 0 ? COLUMN_MICROS : COLUMN_COUNT;
}

static void
print_table(const json_t *result, bool all_percentiles)
{
    enum column_kind kind = value_kind(result);
    struct column columns[16] = { { "COMMAND", "command", COLUMN_TEXT }, { "COUNT", "count", COLUMN_COUNT } };
    size_t count = 2;

    if (!all_percentiles) {
        columns[count++] = (struct column){ "MEAN", "mean", kind };
    }
    for (size_t i = 0; i < MARKS_COUNT; i++) {
        bool usual = marks[i].percentile == 50 || marks[i].percentile == 90 || marks[i].percentile == 99 ||
                     marks[i].percentile == 99.9;
        if (all_percentiles || usual) {
            columns[count++] = (struct column){ marks[i].title, marks[i].key, kind };
        }
    }
    columns[count++] = (struct column){ "MAX", "max", kind };
    table_print(json_object_get(result, "rows"), columns, count, "nothing was counted");
}

static void
print_value(double value, bool micros, char out[24])
{
    if (!micros) {
        snprintf(out, 24, "%.0f", value);
    } else if (value < 1e3) {
        snprintf(out, 24, "%.0f ns", value);
    } else if (value < 1e6) {
        snprintf(out, 24, "%.*f us", value < 1e4 ? 2 : 1, value / 1e3);
    } else {
        snprintf(out, 24, "%.*f ms", value < 1e7 ? 2 : 1, value / 1e6);
    }
}

/* The bar that a value belongs to: `parts` bars for each power of two. */
static int
bar_of(double value, int parts)
{
    return value < 1 ? 0 : 1 + (int)floor(log2(value) * parts);
}

static void
print_bars(const json_t *row, bool micros)
{
    size_t count = bucket_count(row);
    double counts[2 * BARS_MOST] = { 0 }, most = 0, total = get_number(row, "count");
    int parts = 8, first, last;

    /* As fine as fits. */
    do {
        first = bar_of(bucket_at(row, 0).low, parts);
        last = bar_of(bucket_at(row, count - 1).low, parts);
        parts /= 2;
    } while (parts > 0 && last - first >= BARS_MOST);
    parts = MAX(parts * 2, 1);
    last = MIN(last, first + (int)ARRAY_COUNT(counts) - 1);
    for (size_t i = 0; i < count; i++) {
        struct bucket bucket = bucket_at(row, i);
        int bar = MIN(bar_of(bucket.low, parts), last) - first;
        counts[bar] += bucket.count;
        most = MAX(most, counts[bar]);
    }
    printf("%s: %.0f counted\n", get_text(row, "command"), total);
    for (int bar = first; bar <= last; bar++) {
        char low[24], bars[BAR_COLUMNS + 1];
        double here = counts[bar - first];
        int length = here == 0 ? 0 : MAX(1, (int)lround(here / most * BAR_COLUMNS));
        memset(bars, '#', sizeof(bars));
        bars[length] = '\0';
        print_value(bar == 0 ? 0 : exp2((double)(bar - 1) / parts), micros, low);
        printf("%11s |%-*s| %12.0f %6.2f%%\n", low, BAR_COLUMNS, bars, here, here / total * 100);
    }
}

void
latency_print(const json_t *result, bool bars, bool all_percentiles)
{
    const json_t *rows = json_object_get(result, "rows");

    if (value_kind(result) == COLUMN_MICROS) {
        printf("%s time in microseconds\n", get_text(result, "kind"));
    } else {
        printf("%s in %s\n", get_text(result, "kind"), get_text(result, "unit"));
    }
    if (!bars || json_array_size(rows) == 0) {
        print_table(result, all_percentiles);
        return;
    }
    for (size_t i = 0; i < json_array_size(rows); i++) {
        print_bars(json_array_get(rows, i), value_kind(result) == COLUMN_MICROS);
    }
}

/* ---- the text form of HdrHistogram, which its plotter reads: one histogram ---- */

/* Values that were counted up to and with the one at `percentile`. */
static double
count_up_to(const json_t *row, double value)
{
    double count = 0;

    for (size_t i = 0; i < bucket_count(row); i++) {
        struct bucket bucket = bucket_at(row, i);
        count += bucket.low <= value ? bucket.count : 0;
    }
    return count;
}

static double
deviation_of(const json_t *row)
{
    double mean = get_number(row, "mean"), squares = 0;

    for (size_t i = 0; i < bucket_count(row); i++) {
        struct bucket bucket = bucket_at(row, i);
        double distance = (bucket.low + bucket.high) / 2 - mean;
        squares += distance * distance * bucket.count;
    }
    return sqrt(squares / get_number(row, "count"));
}

static void
print_percentiles(const json_t *row, double unit)
{
    double total = get_number(row, "count"), max = get_number(row, "max"), percentile = 0, seen = 0;

    printf("%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    while (seen < total) {
        double value = percentile_of(row, percentile, total, max);
        seen = count_up_to(row, value);
        if (seen < total) {
            printf("%12.3f %14.12f %10.0f %14.2f\n", value / unit, percentile / 100, seen, 100 / (100 - percentile));
        }
        percentile += 100 / (HDR_TICKS * exp2(floor(log2(100 / (100 - percentile))) + 1));
    }
    printf("%12.3f %14.12f %10.0f\n", max / unit, 1.0, total);
    printf("#[Mean    = %12.3f, StdDeviation   = %12.3f]\n#[Max     = %12.3f, Total count    = %12.0f]\n"
           "#[Buckets = %12d, SubBuckets     = %12d]\n",
           get_number(row, "mean") / unit, deviation_of(row) / unit, max / unit, total, CTL_HISTOGRAM_POWERS,
           CTL_HISTOGRAM_SUB_BUCKETS);
}

/* ---- files ---- */

static void
result_save(const json_t *result, const char *path)
{
    if (json_dump_file(result, path, JSON_COMPACT | JSON_REAL_PRECISION(17)) != 0) {
        fail(EXIT_BAD, "cannot write %s", path);
    }
}

static json_t *
result_read(const char *path)
{
    json_error_t error;
    json_t *result = json_load_file(path, 0, &error), *row;
    size_t at;

    if (result == NULL) {
        fail(EXIT_BAD, "%s: %s", path, error.text);
    }
    bool good = json_is_array(json_object_get(result, "rows")) && json_is_string(json_object_get(result, "kind"));
    json_array_foreach(json_object_get(result, "rows"), at, row)
    {
        good =
            good && json_is_string(json_object_get(row, "command")) && json_is_array(json_object_get(row, "buckets"));
    }
    if (!good) {
        fail(EXIT_BAD, "%s was not written by sluicectl latency --save", path);
    }
    return result;
}

/* OLD or OLD,NEW; without NEW, now is compared. */
static json_t *
ask_difference(const struct options *options)
{
    const char *comma = strchr(options->diff, ',');
    char old_path[4096];

    snprintf(old_path, sizeof(old_path), "%.*s", (int)strcspn(options->diff, ","), options->diff);
    json_t *before = result_read(old_path), *now;
    const char *kind = options->kind == NULL ? get_text(before, "kind") : options->kind;

    now = comma != NULL ? result_read(comma + 1) : latency_ask(options, kind, options->lcore, options->word);
    if (strcmp(get_text(before, "kind"), get_text(now, "kind")) != 0) {
        fail(EXIT_BAD, "%s holds %s times, the other %s times", old_path, get_text(before, "kind"),
             get_text(now, "kind"));
    }
    json_t *difference = result_difference(now, before);
    json_decref(before);
    json_decref(now);
    return difference;
}

/* ---- the command ---- */

json_t *
latency_ask(const struct options *options, const char *kind, uint64_t lcore, const char *command)
{
    json_t *args = json_pack("{s:b}", "buckets", true);

    if (command != NULL) {
        json_object_set_new(args, "command", json_string(command));
    }
    if (kind != NULL) {
        json_object_set_new(args, "kind", json_string(kind));
    }
    if (lcore != UINT64_MAX) {
        json_object_set_new(args, "lcore", json_integer((json_int_t)lcore));
    }
    return call(options, "latency", args);
}

int
latency_run(const struct options *options)
{
    if (options->watch && (options->percentiles || options->diff != NULL || options->save != NULL)) {
        fail(EXIT_USAGE, "--watch goes with no --percentiles, --diff or --save");
    }
    if (options->percentiles && options->hist) {
        fail(EXIT_USAGE, "expected one of --percentiles and --hist");
    }
    if (options->watch) {
        return latency_watch(options);
    }
    json_t *result = options->diff != NULL ? ask_difference(options)
                                           : latency_ask(options, options->kind, options->lcore, options->word);
    if (options->save != NULL) {
        result_save(result, options->save);
    }
    if (options->json) {
        json_dumpf(result, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17));
        putchar('\n');
    } else if (options->percentiles) {
        json_t *merged = result_merged(result);
        const json_t *row = json_array_get(json_object_get(merged, "rows"), 0);
        if (row == NULL) {
            fail(EXIT_BAD, "nothing was counted");
        }
        print_percentiles(row, value_kind(result) == COLUMN_MICROS ? 1000 : 1);
        json_decref(merged);
    } else if (options->save == NULL) {
        latency_print(result, options->hist, options->full);
    }
    json_decref(result);
    return EXIT_GOOD;
}
