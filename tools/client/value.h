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

static inline bool
value_is_aggregate(const struct value *value)
{
    return value->kind >= VALUE_ARRAY;
}

/* Deepest nesting accepted from a server. */
#define VALUE_DEPTH_MAX 32
