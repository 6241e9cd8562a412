/* fill.h - create what the tests of a workload read, and see what that takes of a server's memory. */
#pragma once
#include "tools/bench/target.h"

/* All keys, on every target, with values of the `size`-th size. Resident bytes for each entry go to memory.csv, and to
 * stdout if `prints`, where the server's process is known and at least 10,000 keys were new.
 *
 * False: complained; what was created stays. Ctrl-C ends it early and is no failure. */
bool fill_run(struct targets *targets, const struct workload *workload, uint32_t size, bool prints);
