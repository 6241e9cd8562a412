/* linear_keys.h - commands on a few keys as a specification for linear.h.
 *
 * A value is a number, perhaps with an expiry. Every command reports the version that it found, so an answer that came
 * from no version, or from an old one, has no explanation.
 *
 * Time: each command has its own, drawn within it from a clock that only rises. A command whose time is behind may find
 * a key gone that has expired by the clock: somebody else has swept it. */
#pragma once
#include "test/store/linear.h"

#define KEYS_MAX   3
#define KEYS_NEVER INT64_MAX /* no expiry */

enum keys_kind {
    KEYS_GET,
    KEYS_SET,     /* `argument`, until `until_ms` */
    KEYS_SETNX,   /* the same, when absent */
    KEYS_DEL,     /* */
    KEYS_INCR,    /* 1 when absent; keeps the expiry */
    KEYS_APPEND,  /* a number that depends on the whole past of the key; keeps the expiry */
    KEYS_EXPIRE,  /* `until_ms` for the version that is there */
    KEYS_PERSIST, /* the same with KEYS_NEVER */
    KEYS_ONE_KEY, /* kinds below are of one key */
    KEYS_MGET = KEYS_ONE_KEY,
    KEYS_FLUSH,
};

struct keys_value {
    uint64_t present, number;
    int64_t until_ms; /* 0 when absent */
};

struct keys_state {
    struct keys_value keys[KEYS_MAX];
};
static_assert(sizeof(struct keys_state) <= LINEAR_STATE_BYTES, "the checker has room for it");

struct keys_operation {
    enum keys_kind kind;
    uint32_t member, key;
    uint64_t begin, end; /* from one counter */
    uint64_t argument;
    int64_t until_ms;
    int64_t now_ms, latest_ms;         /* its time; the clock at its end */
    struct keys_value found[KEYS_MAX]; /* [key], or of each key for MGET */
};

/* What a command makes of the version it found. False: it leaves the key as it is. */
bool keys_change(const struct keys_operation *operation, const struct keys_value *found, struct keys_value *fresh);

/* What there was at first, and every operation. */
void keys_print(const struct keys_state *initial, const struct keys_operation *operations, uint32_t count, FILE *out);

/* Each key's history by itself; then, when some operation touches several keys, all together. On anything but
 * LINEAR_YES the history and the longest order that explains a part of it are printed to `out`. */
enum linear_verdict keys_check(struct linear *linear, const struct keys_state *initial,
                               const struct keys_operation *operations, uint32_t count, FILE *out);
