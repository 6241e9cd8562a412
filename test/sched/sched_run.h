/* sched_run.h - the program that runs scenes: sched_run.c and one file of scenes. */
#pragma once
#include "test/sched/sched.h"

/* Scene `index`, until the next call; NULL after the last. They need not end: some can be made up by their index. */
const struct sched_scene *scene_at(uint32_t index);
