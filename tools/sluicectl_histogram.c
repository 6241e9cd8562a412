/* sluicectl_histogram.c - histograms as the appliance sends them: differences and sums of them. */
#include "tools/sluicectl.h"
#include <math.h>

const struct mark marks[MARKS_COUNT] = {
    { "P50", "p50", 50 }, { "P75", "p75", 75 },       { "P90", "p90", 90 },          { "P95", "p95", 95 },
    { "P99", "p99", 99 }, { "P99.9", "p99_9", 99.9 }, { "P99.99", "p99_99", 99.99 },
};

struct bucket
bucket_at(const json_t *row, size_t index)
{
    const json_t *bucket = json_array_get(json_object_get(row, "buckets"), index);
    return (struct bucket){ json_number_value(json_array_get(bucket, 0)), json_number_value(json_array_get(bucket, 1)),
                            json_number_value(json_array_get(bucket, 2)) };
}

size_t
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
double
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

/* `buckets` becomes the row's. */
static json_t *
row_make(const char *command, json_t *buckets, double total, double mean, double max)
{
    json_t *row = json_pack("{s:s,s:f,s:f,s:f,s:o}", "command", command, "count", total, "mean", mean, "max", max,
                            "buckets", buckets);

    for (size_t i = 0; i < MARKS_COUNT; i++) {
        json_object_set_new(row, marks[i].key, json_real(percentile_of(row, marks[i].percentile, total, max)));
    }
    return row;
}

/* What was counted between two readings; NULL when nothing was. Buckets come in ascending order in both. */
static json_t *
row_difference(const json_t *now, const json_t *before)
{
    json_t *buckets = json_array();
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
    return row_make(get_text(now, "command"), buckets, total, sum / total, max);
}

json_t *
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

static int
bucket_order(const void *left, const void *right)
{
    double a = ((const struct bucket *)left)->low, b = ((const struct bucket *)right)->low;
    return (a > b) - (a < b);
}

/* The buckets of every row, in ascending order; the caller frees them. */
static struct bucket *
buckets_gather(const json_t *rows, size_t *count)
{
    struct bucket *buckets;
    size_t row, used = 0;
    json_t *one;

    *count = 0;
    json_array_foreach(rows, row, one)
    {
        *count += bucket_count(one);
    }
    buckets = calloc(*count + 1, sizeof(*buckets));
    CHECK(buckets != NULL);
    json_array_foreach(rows, row, one)
    {
        for (size_t i = 0; i < bucket_count(one); i++) {
            buckets[used++] = bucket_at(one, i);
        }
    }
    qsort(buckets, *count, sizeof(*buckets), bucket_order);
    return buckets;
}

json_t *
result_merged(const json_t *result)
{
    const json_t *rows = json_object_get(result, "rows");
    json_t *merged = json_array(), *all = json_array(), *one;
    double total = 0, sum = 0, max = 0;
    size_t count, row;
    struct bucket *buckets = buckets_gather(rows, &count);

    json_array_foreach(rows, row, one)
    {
        sum += get_number(one, "mean") * get_number(one, "count");
        max = MAX(max, get_number(one, "max"));
    }
    for (size_t i = 0; i < count; i++) {
        struct bucket *bucket = &buckets[i];
        for (; i + 1 < count && buckets[i + 1].low <= bucket->low; i++) {
            bucket->count += buckets[i + 1].count;
            bucket->high = MAX(bucket->high, buckets[i + 1].high); /* the last one of a row ends at its maximum */
        }
        json_array_append_new(merged, json_pack("[f,f,f]", bucket->low, bucket->high, bucket->count));
        total += bucket->count;
    }
    free(buckets);
    if (total > 0) {
        json_array_append_new(all, row_make("all", merged, total, sum / total, max));
    } else {
        json_decref(merged);
    }
    return json_pack("{s:s,s:s,s:o}", "kind", get_text(result, "kind"), "unit", get_text(result, "unit"), "rows", all);
}
