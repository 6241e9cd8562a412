/* linear.h - is there an order of some operations that explains all their results? (Wing and Gong 1993; the memory of
 * configurations met is Lowe's, 2017.)
 *
 * An operation took effect at one moment between its beginning and its end. The search takes, again and again, one of
 * the operations that may be next - none that is left ended before it began - and asks the specification whether the
 * state allows its result. A configuration (operations taken, state) that led nowhere is not tried again, so few
 * members with few operations each are decided quickly.
 *
 * Operations on different keys can be judged apart, but for those that touch several keys. */
#pragma once
#include "config/base.h"

#define LINEAR_OPERATIONS  64 /* of one history */
#define LINEAR_STATE_BYTES 96

/* One operation as its member saw it. Begin and end are drawn from one counter: no two are alike. */
struct linear_operation {
    uint64_t begin, end;
    const void *what; /* for the specification: what was asked, and the result */
};

/* True, and *state is the one after it: the operation can take effect in *state with the result that it had. Bytes of
 * the state that mean nothing are 0: equal states are equal bytes. */
typedef bool (*linear_step_fn)(const void *what, void *state);

struct linear_specification {
    linear_step_fn step;
    uint32_t state_bytes; /* at most LINEAR_STATE_BYTES */
};

enum linear_verdict {
    LINEAR_YES,
    LINEAR_NO,
    LINEAR_UNDECIDED, /* more configurations than the memory holds */
};

struct linear; /* the memory of configurations; reused from one history to the next */

struct linear *linear_open(uint32_t configurations);
void linear_close(struct linear *linear);

/* `order` (room for `count`) gets an order that explains all results; when there is none, the longest begin of one:
 * *explained is how many operations are in it.
 * Threads  one at a time for each `linear`. */
enum linear_verdict linear_check(struct linear *linear, const struct linear_specification *specification,
                                 const void *initial, const struct linear_operation *operations, uint32_t count,
                                 uint32_t *order, uint32_t *explained);
