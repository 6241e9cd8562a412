/* open_loop.h - requests at a fixed rate, whether or not the server answers.
 *
 * Each request has an intended time on a schedule. Its latency is counted from that time, not from when it was sent: a
 * server that pauses for a second delays every request of that second, and all of them show it (no coordinated
 * omission). Nothing is dropped: what cannot be sent in time, because the limit of requests in flight is reached or the
 * transport takes no more, is sent later, counts as late, and its latency still begins at its intended time.
 *
 * The loop's own lateness is kept apart: how long after its intended time, and after the last moment at which the
 * server held it up, a request was sent. When that is what the latencies are made of, the client is the bottleneck and
 * the run says nothing about the server. */
#pragma once
#include "tools/bench/load.h"
#include "tools/bench/stats.h"
#include "tools/client/client.h"

/* Every sample is kept, 16 bytes each: its latency, and how late it was sent. */
#define OPEN_SAMPLES_MAX   (1u << 25)
#define OPEN_IN_FLIGHT_MAX (1u << 20)
/* Sent so long after its intended time, a request counts as late. */
#define OPEN_LATE_US       100

struct open_plan {
    struct client_options client;
    struct load_plan load;
    uint32_t connections;
    double rate; /* of all connections, a second */
    /* Requests due before the warm-up is over are sent and not counted. */
    double warmup_seconds, seconds;
    bool poisson;
    uint32_t in_flight_max; /* of all connections; each has its share, at least one */
    int cpu;                /* of the calling thread; -1: not pinned */
    const char *progress;   /* NULL: no bar */
};

struct open_result {
    /* Requests due after the warm-up. */
    uint64_t intended, late;
    /* Of these: not answered when the run was ended. Their samples are how long they had waited by then. */
    uint64_t unanswered;
    double seconds;  /* from the warm-up's end to the schedule's, or to the last answer when that came later */
    double achieved; /* answers a second over that time */
    bool kept;       /* at least 99% of the rate, and every answer right */
    bool client_bound;
    struct summary latency, lateness;
    uint64_t *latencies;                /* ticks, ascending, latency.samples of them; open_result_fini() frees them */
    uint64_t misses, errors, surprises; /* of all replies, the warm-up's too */
    char error[256];                    /* of the first error or surprise; or why the run ended early */
    bool broken;                        /* it ended early */
};

/* Run on the calling thread, which spins. Ctrl-C ends the schedule early, and what was measured is kept. A run ends at
 * the latest a second after twice its time, and 20 s after the last answer.
 *
 * False: nothing ran, `why` says why. open_result_fini() is due in both cases. */
bool open_loop_run(const struct open_plan *plan, struct open_result *result, char *why, size_t why_bytes);
void open_result_fini(struct open_result *result);
