/* value.h - a reply as a flat list of values, the same for every wire: a tree in pre-order. */
#pragma once
#include "config/base.h"

enum value_kind {
    VALUE_NIL,
    VALUE_STATUS,   /* bytes */
    VALUE_ERROR,    /* bytes, beginning with the code: "ERR ..." */
    VALUE_INTEGER,  /* integer */
    VALUE_DOUBLE,   /* real; bytes: its text where the wire carries text */
    VALUE_BOOL,     /* integer: 0 or 1 */
    VALUE_BULK,     /* bytes */
    VALUE_VERBATIM, /* bytes, without the "txt:" prefix */
    VALUE_BIGNUM,   /* bytes: decimal digits */
    VALUE_ARRAY,    /* count: elements */
    VALUE_SET,      /* count: elements */
    VALUE_PUSH,     /* count: elements */
    VALUE_MAP,      /* count: values, twice the pairs: key, value, key, value ... */
};

/* The values of an aggregate follow it. `after` is the index just behind the value and all it holds, so that
 * values[i].after is the next sibling of values[i]. */
struct value {
    enum value_kind kind;
    uint32_t count;
    uint32_t after;
    struct slice bytes; /* borrows from the receive buffer */
    union {
        int64_t integer;
        double real;
    };
};

/* Grows as values come, never because of a count that was only announced. Zeroed: empty. */
struct value_list {
    struct value *values;
    uint32_t count, room;
};

static inline bool
value_is_aggregate(const struct value *value)
{
    return value->kind >= VALUE_ARRAY;
}

/* Deepest nesting accepted from a server. */
#define VALUE_DEPTH_MAX 32
/* Most values of one reply: 40 bytes each, so at most 160 MiB. */
#define VALUE_COUNT_MAX (4u << 20)

/* A new last value, zeroed. NULL: VALUE_COUNT_MAX, or no memory. */
struct value *value_list_append(struct value_list *list);
void value_list_fini(struct value_list *list);
