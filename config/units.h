/* units.h - numbers with units as operators write them: "100GiB", "5s", "1-15". Pure; no allocation; no locale. */
#pragma once
#include "config/base.h"

enum unit_status {
    UNIT_OK,
    UNIT_EMPTY,        /* no text at all */
    UNIT_NOT_A_NUMBER, /* something else than digits where digits belong: sign, blank, point, exponent, hex */
    UNIT_LEADING_ZERO, /* "010": octal to some readers, decimal to others */
    UNIT_TOO_LARGE,    /* does not fit 64 bits */
    UNIT_MISSING,      /* digits alone where a unit is needed */
    UNIT_UNKNOWN,      /* a unit that is not one of ours */
};

/* What is wrong, as the middle of a sentence: "has no unit". */
const char *unit_status_text(enum unit_status status);

/* Digits only, no leading zero but in "0". */
enum unit_status unit_parse_count(const char *text, uint64_t *out);

/* Bytes: digits alone, or with B, KiB, MiB, GiB, TiB directly behind, any case. Decimal units (KB, GB) are refused:
 * half of their readers mean 1024. */
enum unit_status unit_parse_size(const char *text, uint64_t *out);
#define UNIT_SIZES "B, KiB, MiB, GiB or TiB"

/* Milliseconds: digits with ms, s, m, h or d directly behind. A bare number is refused, "0" too. */
enum unit_status unit_parse_time_ms(const char *text, uint64_t *out);
#define UNIT_TIMES "ms, s, m, h or d"

#define UNIT_TEXT_BYTES 32
/* The exact value in the largest unit that divides it; reads back to the same number. Returns `out`. */
const char *unit_print_size(char out[UNIT_TEXT_BYTES], uint64_t bytes);
const char *unit_print_time_ms(char out[UNIT_TEXT_BYTES], uint64_t ms);
/* For people: at most one decimal, "1.5 GiB". Returns `out`. */
const char *unit_print_size_short(char out[UNIT_TEXT_BYTES], uint64_t bytes);

#define CPU_NUMBER_MAX 1023 /* what a cpu_set_t of the C library holds */

enum cpu_list_status {
    CPU_LIST_OK,
    CPU_LIST_EMPTY,     /* no text, or nothing between two commas */
    CPU_LIST_BAD,       /* something else than "1", "1-3" and commas */
    CPU_LIST_BACKWARDS, /* "3-1" */
    CPU_LIST_TWICE,     /* a CPU is named twice */
    CPU_LIST_TOO_LARGE, /* a number above CPU_NUMBER_MAX */
    CPU_LIST_TOO_MANY,  /* more CPUs than `room` */
};
const char *cpu_list_status_text(enum cpu_list_status status);

/* "0,2,4-7" into numbers, in the order written. */
enum cpu_list_status cpu_list_parse(const char *text, int *cpus, uint32_t room, uint32_t *count);
/* Numbers into the shortest list; cut with "..." when `bytes` is too small. Returns `out`. */
const char *cpu_list_print(char *out, size_t bytes, const int *cpus, uint32_t count);

/* Copy `text` into `out` between double quotes, for an error message: what does not print becomes \xNN, what is long is
 * cut with "...". Returns `out`. */
#define QUOTE_BYTES 96
const char *quote_text(char out[QUOTE_BYTES], const char *text);

/* Of `names` the one that a typing mistake would turn into `text`, or NULL when none is near. */
const char *nearest_name(const char *text, const char *const *names, size_t count);
