/* matrix_state.h - how far the matrix in a result folder has come, so that a run that ended early goes on.
 *
 * A row is finished when config.csv names its label with this plan's counts and latency.csv has all eight operations
 * with as many samples. What belongs to other rows of the plan is taken away before they are measured again; rows that
 * are not of the plan stay. DIR/matrix.json holds what the figures depend on: with another one nothing goes on. */
#pragma once
#include "tools/bench/matrix_plan.h"
#include <jansson.h>

struct matrix_state {
    const char *folder;
    int lock; /* -1: none */
    bool finished[MATRIX_ROWS_MAX];
    uint32_t finished_count;
};

/* Make or repair plan->out. plan->restart moves what is there into DIR/before-N.
 * Returns false with a sentence in `why`: another configuration, another matrix at work, a table that cannot be read.
 * matrix_state_close() is due in both cases. */
bool matrix_state_open(struct matrix_state *state, const struct matrix_plan *plan, const json_t *config, char *why,
                       size_t why_bytes);
void matrix_state_close(struct matrix_state *state);
