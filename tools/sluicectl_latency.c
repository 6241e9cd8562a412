/* sluicectl_latency.c - histograms as a table, percentiles, bars, and all of them live. */
#include "config/sync.h"
#include "tools/sluicectl.h"
#include <math.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define BAR_COLUMNS 36
#define BARS_MOST   24

/* One histogram, or the difference of two readings of it. */
struct bucket {
    double low, high, count;
};

static const struct {
    const char *title, *key;
    double percentile;
} marks[] = { { "P50", "p50", 50 }, { "P75", "p75", 75 },       { "P90", "p90", 90 },         { "P95", "p95", 95 },
              { "P99", "p99", 99 }, { "P99.9", "p99_9", 99.9 }, { "P99.99", "p99_99", 99.99 } };

static _Atomic bool stopped; /* by the signal handler, for the loop */

static void
on_interrupt(int number)
{
    store_relaxed(&stopped, true);
}

/* ---- differences ---- */

static struct bucket
bucket_at(const json_t *row, size_t index)
{
    const json_t *bucket = json_array_get(json_object_get(row, "buckets"), index);
    return (struct bucket){ json_number_value(json_array_get(bucket, 0)), json_number_value(json_array_get(bucket, 1)),
                            json_number_value(json_array_get(bucket, 2)) };
}

static size_t
bucket_count(const json_t *row)
{
    return json_array_size(json_object_get(row, "buckets"));
}

static const json_t *
row_of(const json_t *result, const char *command)
{
    const json_t *rows = json_object_get(result, "rows");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        if (strcmp(get_text(json_array_get(rows, i), "command"), command) == 0) {
            return json_array_get(rows, i);
        }
    }
    return NULL;
}

/* Nearest rank over the buckets of `row`, as the appliance does it over all of them. */
static double
percentile_of(const json_t *row, double percentile, double total, double max)
{
    double rank = ceil(percentile * total / 100 * (1 - 1e-12)), below = 0;

    for (size_t i = 0; i < bucket_count(row); i++) {
        struct bucket bucket = bucket_at(row, i);
        below += bucket.count;
        if (below >= rank) {
            return MIN(bucket.high, max);
        }
    }
    return max;
}

/* What was counted between two readings; NULL when nothing was. Buckets come in ascending order in both. */
static json_t *
row_difference(const json_t *now, const json_t *before)
{
    json_t *buckets = json_array(), *row;
    double total = 0, max = 0, sum = get_number(now, "mean") * get_number(now, "count");
    size_t at = 0;

    for (size_t i = 0; i < bucket_count(now); i++) {
        struct bucket bucket = bucket_at(now, i);
        while (before != NULL && at < bucket_count(before) && bucket_at(before, at).low < bucket.low) {
            at++;
        }
        if (before != NULL && at < bucket_count(before) && bucket_at(before, at).low <= bucket.low) {
            bucket.count -= bucket_at(before, at).count;
        }
        if (bucket.count > 0) {
            json_array_append_new(buckets, json_pack("[f,f,f]", bucket.low, bucket.high, bucket.count));
            total += bucket.count;
            max = bucket.high;
        }
    }
    if (total == 0) {
        json_decref(buckets);
        return NULL;
    }
    if (before != NULL) {
        sum -= get_number(before, "mean") * get_number(before, "count");
    }
    row = json_pack("{s:s,s:f,s:f,s:f,s:o}", "command", get_text(now, "command"), "count", total, "mean", sum / total,
                    "max", max, "buckets", buckets);
    for (size_t i = 0; i < ARRAY_COUNT(marks); i++) {
        json_object_set_new(row, marks[i].key, json_real(percentile_of(row, marks[i].percentile, total, max)));
    }
    return row;
}

static json_t *
result_difference(const json_t *now, const json_t *before)
{
    json_t *rows = json_array(), *row;
    const json_t *all = json_object_get(now, "rows");

    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *one = json_array_get(all, i);
        row = row_difference(one, row_of(before, get_text(one, "command")));
        if (row != NULL) {
            json_array_append_new(rows, row);
        }
    }
    return json_pack("{s:s,s:s,s:o}", "kind", get_text(now, "kind"), "unit", get_text(now, "unit"), "rows", rows);
}

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
    for (size_t i = 0; i < ARRAY_COUNT(marks); i++) {
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

static void
print_result(const struct options *options, const json_t *result)
{
    const json_t *rows = json_object_get(result, "rows");

    if (value_kind(result) == COLUMN_MICROS) {
        printf("%s time in microseconds\n", get_text(result, "kind"));
    } else {
        printf("%s in %s\n", get_text(result, "kind"), get_text(result, "unit"));
    }
    if (!options->hist || json_array_size(rows) == 0) {
        print_table(result, options->percentiles);
        return;
    }
    for (size_t i = 0; i < json_array_size(rows); i++) {
        print_bars(json_array_get(rows, i), value_kind(result) == COLUMN_MICROS);
    }
}

/* ---- live ---- */

static void
print_screen(const struct options *options, const json_t *difference)
{
    char clock[32];
    time_t now = time(NULL);
    struct tm parts;

    if (options->json) {
        json_dumpf(difference, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
        putchar('\n');
        return;
    }
    if (isatty(STDOUT_FILENO)) {
        fputs("\033[H\033[2J", stdout);
    }
    localtime_r(&now, &parts);
    strftime(clock, sizeof(clock), "%H:%M:%S", &parts);
    printf("%s  last %.3g s; Ctrl-C ends\n", clock, options->watch_s);
    print_result(options, difference);
    putchar('\n');
}

static json_t *
ask(const struct options *options)
{
    json_t *args = json_object();

    if (options->word != NULL) {
        json_object_set_new(args, "command", json_string(options->word));
    }
    if (options->kind != NULL) {
        json_object_set_new(args, "kind", json_string(options->kind));
    }
    if (options->lcore != UINT64_MAX) {
        json_object_set_new(args, "lcore", json_integer((json_int_t)options->lcore));
    }
    if (options->hist || options->watch) {
        json_object_set_new(args, "buckets", json_true());
    }
    return call(options, "latency", args);
}

static void
sleep_until(struct timespec *at, double seconds)
{
    at->tv_nsec += (long)((seconds - floor(seconds)) * 1e9);
    at->tv_sec += (time_t)floor(seconds) + at->tv_nsec / 1000000000;
    at->tv_nsec %= 1000000000;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, at, NULL);
}

static int
watch(const struct options *options)
{
    struct sigaction action = { .sa_handler = on_interrupt };
    struct timespec at;
    json_t *before = ask(options);

    sigaction(SIGINT, &action, NULL);
    clock_gettime(CLOCK_MONOTONIC, &at);
    while (!load_relaxed(&stopped)) {
        sleep_until(&at, options->watch_s);
        if (load_relaxed(&stopped)) {
            break;
        }
        json_t *now = ask(options), *difference = result_difference(now, before);
        print_screen(options, difference);
        json_decref(difference);
        json_decref(before);
        before = now;
        if (fflush(stdout) != 0) {
            break;
        }
    }
    json_decref(before);
    return EXIT_GOOD;
}

int
latency_run(const struct options *options)
{
    if (options->watch) {
        return watch(options);
    }
    json_t *result = ask(options);
    if (options->json) {
        json_dumpf(result, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
        putchar('\n');
    } else {
        print_result(options, result);
    }
    json_decref(result);
    return EXIT_GOOD;
}
