/* sluicectl.h - what the files sluicectl*.c share. */
#pragma once
#include "config/base.h"
#include <jansson.h>
#include <time.h>

enum {
    EXIT_GOOD = 0,
    EXIT_BAD = 1,    /* the appliance says no, or not ready */
    EXIT_USAGE = 2,  /* this program was called wrongly */
    EXIT_NOBODY = 3, /* no appliance could be reached */
};

struct options {
    const char *socket; /* NULL: decided by paths */
    double timeout_s;
    bool json, all, full, hist, percentiles, watch, no_wait, wait;
    double watch_s;
    const char *kind, *save, *diff;
    uint64_t lcore, limit;           /* UINT64_MAX: not given */
    uint64_t seconds, packets, snap; /* the same */
    const char *word;                /* argument behind the command, or NULL */
    const char *value;               /* and the one behind it, or NULL */
};

/* ---- sluicectl_call.c: one connection ---- */

/* From now on errors are one line of JSON on stderr, as the appliance would say it: version, ok and error. */
void fail_in_json(void);
/* Say what is wrong on stderr and end the program. */
_Noreturn void fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Connect, once; call() does it when it was not done. Ends the program with EXIT_NOBODY. */
void call_open(const struct options *options);
/* Ask and wait for the answer; `args` is taken over, may be NULL. Ends the program with EXIT_BAD when the appliance
 * answers an error or not in time. The result is the caller's. */
json_t *call(const struct options *options, const char *command, json_t *args);
/* Wait until the other side closes the connection; false after `seconds`. */
bool call_wait_for_end(double seconds);

/* ---- sluicectl_table.c: columns ---- */

enum column_kind {
    COLUMN_TEXT,    /* left; the rest right */
    COLUMN_COUNT,   /* 12.3M above five digits */
    COLUMN_EXACT,   /* all digits */
    COLUMN_BYTES,   /* 1.5 GiB */
    COLUMN_SHARE,   /* 0.123 -> 12.3% */
    COLUMN_SECONDS, /* 93784 -> 1d2h */
    COLUMN_MICROS,  /* nanoseconds -> microseconds */
};

struct column {
    const char *title, *key;
    enum column_kind kind;
};

/* An array of objects, one line each, columns as wide as needed. An empty array prints `nothing`. */
void table_print(const json_t *rows, const struct column *columns, size_t count, const char *nothing);
/* One value as its column would print it. Returns `out`. */
#define CELL_BYTES 160
const char *cell_print(const json_t *value, enum column_kind kind, char out[CELL_BYTES]);

/* The answer to -j: one line. Takes `result` over and returns EXIT_GOOD. */
int print_json(json_t *result);
/* What was done, or is so, and is not for the best: `warnings` of a result, on stderr. */
void print_warnings(const json_t *result);
/* Members of an object by name. */
const char *get_text(const json_t *object, const char *key);
double get_number(const json_t *object, const char *key);

/* ---- sluicectl_screen.c: pictures that follow each other ---- */

/* Take the terminal when there is one and `pictures` are wanted; else what is printed just follows. SIGINT, SIGTERM and
 * SIGHUP then end screen_key(); the terminal is given back at exit. */
void screen_open(bool pictures);
/* Whether it was taken: there are keys. */
bool screen_is_whole(void);
void timespec_add(struct timespec *at, double seconds);
/* A key, or one of these. `until` is of CLOCK_MONOTONIC. */
enum { SCREEN_TIME = -1, SCREEN_STOP = -2 };
int screen_key(struct timespec *until);
/* What is printed between the two is one picture, cut to the terminal's size. False: the output is gone. */
void screen_begin(void);
bool screen_end(void);

/* ---- sluicectl_histogram.c: histograms as the appliance sends them, with buckets ---- */

struct bucket {
    double low, high, count;
};
/* Percentiles that the appliance sends with every row. */
#define MARKS_COUNT 7
extern const struct mark {
    const char *title, *key;
    double percentile;
} marks[MARKS_COUNT];
struct bucket bucket_at(const json_t *row, size_t index);
size_t bucket_count(const json_t *row);
/* Nearest rank over the buckets of `row`, as the appliance does it over all of them. */
double percentile_of(const json_t *row, double percentile, double total, double max);
/* What was counted between two results of "latency" with buckets; `before` may be NULL. Rows in which nothing was are
 * left out; the maximum of a difference is its highest bucket's bound. The caller's. */
json_t *result_difference(const json_t *now, const json_t *before);
/* All rows as one, named "all". The caller's. */
json_t *result_merged(const json_t *result);

/* ---- sluicectl_show.c ---- */

int status_run(const struct options *options);
int ready_run(const struct options *options);
int alive_run(const struct options *options);
int stats_run(const struct options *options);
int lcores_run(const struct options *options);
int sessions_run(const struct options *options);
int sessions_kill_run(const struct options *options);
int log_run(const struct options *options);
int memory_run(const struct options *options);
int metrics_run(const struct options *options);
int doctor_run(const struct options *options);
int version_run(const struct options *options);
int drain_run(const struct options *options);
int shutdown_run(const struct options *options);

/* ---- sluicectl_ports.c ---- */

int ports_run(const struct options *options);
int capture_run(const struct options *options);

/* ---- sluicectl_config.c ---- */

int config_show_run(const struct options *options);
int config_get_run(const struct options *options);
int config_set_run(const struct options *options);
int config_reload_run(const struct options *options);
int config_check_run(const struct options *options);

/* ---- sluicectl_latency.c, sluicectl_watch.c ---- */

int latency_run(const struct options *options);
int latency_watch(const struct options *options);
/* Ask with buckets; kind NULL: service, lcore UINT64_MAX: all, command NULL: every one. */
json_t *latency_ask(const struct options *options, const char *kind, uint64_t lcore, const char *command);
void latency_print(const json_t *result, bool bars, bool all_percentiles);

/* ---- sluicectl_keys.c ---- */

int slowlog_run(const struct options *options);
int keys_big_run(const struct options *options);
int keys_hot_run(const struct options *options);

/* ---- sluicectl_top.c ---- */

int top_run(const struct options *options);
