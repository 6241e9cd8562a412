/* placement.h - which CPUs the threads run on: each lcore has one of its own, all other threads share the rest. */
#pragma once
#include "config/host.h"
#include <jansson.h>

struct mgmt;

/* Remember what this process may use, then keep this thread, and those that it and providers start, off the lcores'
 * CPUs where there are others. Before the data plane is opened. */
void placement_open(struct mgmt *mgmt);
void placement_close(struct mgmt *mgmt);

/* Move every lcore to its one of `cpus`, and all other threads out of the way. The lcores run on meanwhile: the kernel
 * takes each from one CPU to the other. False: the kernel refused one, `why` says which; all are where they were. */
bool placement_move(struct mgmt *mgmt, const int *cpus, char *why, size_t why_bytes);

/* A sentence for every lcore that runs on another NUMA node than its memory lies on. */
json_t *placement_warnings(const struct mgmt *mgmt);
