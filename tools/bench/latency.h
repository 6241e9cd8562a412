/* latency.h - what one run of `latency` was asked, and what it has so far. */
#pragma once
#include "tools/bench/bench.h"
#include "tools/bench/lane_result.h"
#include "tools/bench/progress.h"

#define LATENCY_PEERS_MAX (LANES_MAX - 2)

struct metadata;

struct latency {
    struct bench_connection connection;
    uint64_t warmup, pause_pid;
    bool chosen[OPERATION_COUNT];
    bool with_floor, csv;
    char label[BENCH_LABEL_BYTES];
    const char *peers[LATENCY_PEERS_MAX];
    uint32_t peer_count;

    struct lanes lanes;
    struct lane_result result;
    struct metadata *metadata;
    struct progress progress;
    uint64_t steps; /* round trips of one lane, so far */
    bool failed;
};

/* -1: go on, the lanes are planned; else the exit code. */
int latency_options_read(struct latency *latency, int argc, char **argv);
