/* matrix_child.h - `sluice-bench latency` for one row, in a process of its own. */
#pragma once
#include "tools/bench/matrix_server.h"
#include "tools/bench/progress.h"

enum matrix_outcome {
    MATRIX_MEASURED,
    MATRIX_UNAVAILABLE, /* it could not connect: nothing was measured */
    MATRIX_FAILED,
    MATRIX_INTERRUPTED, /* what was measured until then is in the folder */
};

/* Run it to its end; `server` is a row's own, or has the address of one that runs. `done` rows of its table are added
 * to the progress bar. Unless MEASURED, a sentence in `why`. */
enum matrix_outcome matrix_child_run(const struct matrix_plan *plan, const struct matrix_row *row,
                                     const struct matrix_server *server, const char *node, const char *password,
                                     struct progress *progress, uint64_t done, char *why, size_t why_bytes);
