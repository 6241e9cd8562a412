/* sweep_options.h - what a sweep is asked to do. */
#pragma once
#include "tools/bench/sweep_side.h"
#include "tools/bench/sweep_table.h"

struct sweep_options {
    struct bench_connection connection;
    struct sweep_places places;
    struct sweep_rail_lists rail_lists; /* of A */
    uint64_t begin, end, factor, iterations, warmup, chunk, rails;
    bool chosen[SWEEP_OPERATIONS];
    bool versus;
    char names[2][SWEEP_NAME_BYTES];
    struct sweep_transport transports[2]; /* [1]: with `versus` */
    enum sweep_format format;
    const char *folder; /* NULL: none */
};

/* Read the command line and USE_EFA. Strings of `argv` are borrowed, and lists among them split in place.
 * Returns -1: go on; else the exit code, and what was wrong or asked for was printed. */
int sweep_options_read(struct sweep_options *options, int argc, char **argv);
