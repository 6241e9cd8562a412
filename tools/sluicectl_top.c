/* sluicectl_top.c - the whole appliance on one screen: load, head-room, hottest commands, slowest clients. */
#include "tools/sluicectl.h"
#include <math.h>

#define COMMANDS_SHOWN 6
#define CLIENTS_SHOWN  6
#define LCORES_SHOWN   8
#define SESSIONS_ASKED 5000

struct reading {
    json_t *status, *lcores, *latency, *memory;
};

static void
reading_take(const struct options *options, struct reading *out)
{
    out->status = call(options, "status", NULL);
    out->lcores = call(options, "lcores", NULL);
    out->latency = latency_ask(options, NULL, UINT64_MAX, NULL);
    out->memory = call(options, "memory", NULL);
}

static void
reading_drop(struct reading *reading)
{
    json_decref(reading->status);
    json_decref(reading->lcores);
    json_decref(reading->latency);
    json_decref(reading->memory);
}

/* ---- the parts of the screen ---- */

/* An lcore that is busy for a tenth of its time could do about ten times as much. */
static void
print_head(const struct reading *now, double seconds)
{
    char rate[CELL_BYTES], keys[CELL_BYTES], used[CELL_BYTES], limit[CELL_BYTES], clock[32], room[32] = "";
    double busy = get_number(now->status, "busy_lcores"), lcores = get_number(now->status, "lcores");
    time_t at = time(NULL);
    struct tm parts;

    localtime_r(&at, &parts);
    strftime(clock, sizeof(clock), "%H:%M:%S", &parts);
    if (busy >= 0.01 * lcores) {
        snprintf(room, sizeof(room), ", room for %.1fx", lcores / busy);
    }
    printf("%s  sluiced %s, %s, last %.3g s%s\n", clock, get_text(now->status, "version"),
           get_text(now->status, "state"), seconds,
           json_is_true(json_object_get(now->status, "ready")) ? "" : ", NOT READY");
    printf("%s requests/s, %.0f sessions, %s keys; lcores %.1f%% busy%s\n",
           cell_print(json_object_get(now->status, "requests_per_s"), COLUMN_COUNT, rate),
           get_number(now->status, "sessions"), cell_print(json_object_get(now->status, "keys"), COLUMN_COUNT, keys),
           busy / lcores * 100, room);
    printf("memory %s of %s (%.1f%%)\n\n", cell_print(json_object_get(now->memory, "used_bytes"), COLUMN_BYTES, used),
           cell_print(json_object_get(now->memory, "limit_bytes"), COLUMN_BYTES, limit),
           get_number(now->memory, "used_bytes") / get_number(now->memory, "limit_bytes") * 100);
}

/* The `most` rows with the highest `key`, highest first. The caller's. */
static json_t *
rows_highest(const json_t *rows, const char *key, size_t most)
{
    json_t *left = json_copy((json_t *)rows), *chosen = json_array();

    while (json_array_size(chosen) < most && json_array_size(left) > 0) {
        size_t best = 0;
        for (size_t i = 1; i < json_array_size(left); i++) {
            if (get_number(json_array_get(left, i), key) > get_number(json_array_get(left, best), key)) {
                best = i;
            }
        }
        json_array_append(chosen, json_array_get(left, best));
        json_array_remove(left, best);
    }
    json_decref(left);
    return chosen;
}

static void
print_lcores(const struct reading *now, const struct reading *before, double seconds)
{
    static const struct column columns[] = {
        { "LCORE", "lcore", COLUMN_EXACT },     { "CPU", "cpu", COLUMN_EXACT },
        { "STATE", "state", COLUMN_TEXT },      { "BUSY", "busy_share", COLUMN_SHARE },
        { "REQUESTS/S", "rate", COLUMN_COUNT }, { "SESSIONS", "sessions", COLUMN_EXACT },
    };
    json_t *rows = json_object_get(now->lcores, "lcores"), *row;
    size_t at;

    json_array_foreach(rows, at, row)
    {
        const json_t *old = json_array_get(json_object_get(before->lcores, "lcores"), at);
        double rate = (get_number(row, "requests") - get_number(old, "requests")) / seconds;
        json_object_set_new(row, "rate", json_real(rate));
        if (json_is_true(json_object_get(row, "stalled"))) {
            json_object_set_new(row, "state", json_string("STALLED"));
        }
    }
    json_t *shown = rows_highest(rows, "busy_share", LCORES_SHOWN);
    table_print(shown, columns, ARRAY_COUNT(columns), "no lcores");
    if (json_array_size(rows) > LCORES_SHOWN) {
        printf("... of %zu lcores, the busiest\n", json_array_size(rows));
    }
    putchar('\n');
    json_decref(shown);
}

/* Hottest by the time that the lcores spent in them. */
static void
print_commands(const struct reading *now, const struct reading *before, double seconds)
{
    static const struct column columns[] = {
        { "COMMAND", "command", COLUMN_TEXT }, { "CALLS/S", "rate", COLUMN_COUNT }, { "SHARE", "share", COLUMN_SHARE },
        { "MEAN us", "mean", COLUMN_MICROS },  { "P99 us", "p99", COLUMN_MICROS },  { "MAX us", "max", COLUMN_MICROS },
    };
    json_t *difference = result_difference(now->latency, before->latency), *row;
    size_t at;
    double total = 0;

    json_array_foreach(json_object_get(difference, "rows"), at, row)
    {
        double spent = get_number(row, "mean") * get_number(row, "count");
        json_object_set_new(row, "spent", json_real(spent));
        json_object_set_new(row, "rate", json_real(get_number(row, "count") / seconds));
        total += spent;
    }
    json_array_foreach(json_object_get(difference, "rows"), at, row)
    {
        json_object_set_new(row, "share", json_real(get_number(row, "spent") / total));
    }
    json_t *shown = rows_highest(json_object_get(difference, "rows"), "spent", COMMANDS_SHOWN);
    table_print(shown, columns, ARRAY_COUNT(columns), "no command was executed");
    putchar('\n');
    json_decref(shown);
    json_decref(difference);
}

/* Slowest are those that read their replies most slowly: what they have not read yet. */
static void
print_clients(const struct options *options)
{
    static const struct column columns[] = {
        { "SLOWEST CLIENTS", "peer", COLUMN_TEXT }, { "UNREAD", "pending_bytes", COLUMN_BYTES },
        { "IDLE", "idle_s", COLUMN_SECONDS },       { "REQUESTS", "requests", COLUMN_COUNT },
        { "COMMAND", "last_command", COLUMN_TEXT }, { "NAME", "name", COLUMN_TEXT },
    };
    json_t *result = call(options, "sessions", json_pack("{s:i}", "limit", SESSIONS_ASKED));
    json_t *shown = rows_highest(json_object_get(result, "rows"), "pending_bytes", CLIENTS_SHOWN);

    table_print(shown, columns, ARRAY_COUNT(columns), "no sessions");
    json_decref(shown);
    json_decref(result);
}

static bool
print_all(const struct options *options, const struct reading *now, const struct reading *before, double seconds)
{
    screen_begin();
    print_head(now, seconds);
    print_lcores(now, before, seconds);
    print_commands(now, before, seconds);
    print_clients(options);
    if (screen_is_whole()) {
        fputs("\nq quit", stdout);
    } else {
        putchar('\n');
    }
    return screen_end();
}

static double
seconds_between(const struct timespec *from, const struct timespec *to)
{
    return (double)(to->tv_sec - from->tv_sec) + (double)(to->tv_nsec - from->tv_nsec) / 1e9;
}

int
top_run(const struct options *options)
{
    struct reading before, now;
    struct timespec last, at;
    double wait_s = options->watch ? options->watch_s : 1;
    bool goes_on = true;

    if (options->json) {
        fail(EXIT_USAGE, "top is for people; -j status, lcores, latency and sessions have its numbers");
    }
    screen_open(true);
    reading_take(options, &before);
    clock_gettime(CLOCK_MONOTONIC, &last);
    while (goes_on) {
        struct timespec until = last;
        timespec_add(&until, wait_s);
        int key;
        while ((key = screen_key(&until)) != SCREEN_TIME && key != SCREEN_STOP && key != 'q') {
        }
        if (key != SCREEN_TIME) {
            break;
        }
        clock_gettime(CLOCK_MONOTONIC, &at);
        reading_take(options, &now);
        goes_on = print_all(options, &now, &before, seconds_between(&last, &at));
        goes_on = goes_on && (options->watch || screen_is_whole());
        reading_drop(&before);
        before = now;
        last = at;
    }
    reading_drop(&before);
    return EXIT_GOOD;
}
