/* goals_pair.h - sluiced and redis-server side by side, one stopped while the other is measured. */
#pragma once
#include "tools/bench/goals.h"

#define GOALS_PAIR_NONE 2 /* nobody's turn */

struct goals_pair {
    struct server servers[2]; /* ours, Redis */
};

/* False with a sentence in `why`; goals_pair_stop() is due in both cases. */
bool goals_pair_start(struct goals_pair *pair, const struct goals *goals, char *why, size_t why_bytes);
void goals_pair_stop(struct goals_pair *pair);
/* Let servers[index] run and the other one stand still; from GOALS_PAIR_NONE on, both stand still. */
void goals_pair_turn(const struct goals_pair *pair, uint32_t index);
