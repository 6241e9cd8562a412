/* sluicectl.h - what the files sluicectl*.c share. */
#pragma once
#include "config/base.h"
#include <jansson.h>

enum {
    EXIT_GOOD = 0,
    EXIT_BAD = 1,    /* the appliance says no, or not ready */
    EXIT_USAGE = 2,  /* this program was called wrongly */
    EXIT_NOBODY = 3, /* no appliance could be reached */
};

struct options {
    const char *socket; /* NULL: decided by paths */
    double timeout_s;
    bool json, all, full, hist, percentiles, watch, no_wait;
    double watch_s;
    const char *kind;
    uint64_t lcore, limit; /* UINT64_MAX: not given */
    const char *word;      /* argument behind the command, or NULL */
    const char *value;     /* and the one behind it, or NULL */
};

/* ---- sluicectl_call.c: one connection ---- */

/* From now on errors are one line of JSON on stderr, as the appliance would say it: version, ok and error. */
void fail_in_json(void);
/* Say what is wrong on stderr and end the program. */
_Noreturn void fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Connect once; later calls use the same connection. Ends the program with EXIT_NOBODY. */
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

/* Members of an object by name. */
const char *get_text(const json_t *object, const char *key);
double get_number(const json_t *object, const char *key);

/* ---- sluicectl_latency.c ---- */

int latency_run(const struct options *options);
