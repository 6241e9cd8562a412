/* progress.h - how far a measurement has come: a bar on stderr while that is a terminal, nothing otherwise. */
#pragma once
#include "config/base.h"

struct progress {
    const char *what; /* borrowed until progress_end() */
    uint64_t total;
    int64_t begin_ns, shown_ns;
    bool on;
};

/* `total` is in any unit, the same as `done`; 0: unknown, and only the time is shown. */
void progress_begin(struct progress *progress, const char *what, uint64_t total);
/* At most ten times a second; a clock read otherwise. Call it between timed parts: it makes system calls. */
void progress_show(struct progress *progress, uint64_t done);
/* Take the bar away, so that the next line starts at the left edge. */
void progress_end(struct progress *progress);
