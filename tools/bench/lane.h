/* lane.h - what takes turns in one run of `latency`: our server, the bare transport, other servers.
 *
 * Lanes run in blocks of LANE_BLOCK round trips. A lane's server may spin: its process is stopped while another lane
 * runs. Threads: one. */
#pragma once
#include "tools/bench/bench.h"
#include "tools/bench/floor.h"
#include "tools/bench/operations.h"
#include "tools/bench/stats.h"

#define LANES_MAX        8
#define LANE_BLOCK       1000
#define LANE_LABEL_BYTES (BENCH_LABEL_BYTES + 8)

enum lane_kind { LANE_SERVER, LANE_FLOOR, LANE_PEER };

struct lane {
    enum lane_kind kind;
    char label[LANE_LABEL_BYTES];
    struct client_options options; /* not of a floor */
    pid_t pid;                     /* stopped while others run; 0: none */

    struct client *client, *subscriber; /* NULL: a floor, or a connection that broke */
    struct floor *floor;
    uint64_t *ticks; /* of the present operation */
    uint64_t done;   /* of these, measured */
    bool takes_part; /* in the present operation */
    bool is_stopped;
    struct operation operation;
    struct summary results[OPERATION_COUNT]; /* no samples: not measured */
};

struct lanes {
    struct lane lanes[LANES_MAX]; /* the first one is the server */
    uint32_t count;
    uint64_t samples, value_bytes;
    const char *floor_host; /* of the bare transport's peer; NULL: a process of this host */
    uint16_t floor_port;
    int64_t polled_ns; /* when every connection was last looked at */
};

/* Connect all, and start the bare transport's peer on `peer_cpu`. False with a sentence in `why`; lanes_close() is due
 * in both cases. */
bool lanes_open(struct lanes *lanes, int peer_cpu, char *why, size_t why_bytes);
/* Delete what the operations created; every process that was stopped goes on. */
void lanes_close(struct lanes *lanes);

/* ---- one operation, lane by lane ---- */

/* Make a lane ready. A floor only takes part where request and reply fit one frame each, and needs lane 0 begun.
 * Unless OK the lane takes no part, and `why` says why; after BROKEN, in none at all. */
enum operation_status lane_begin(struct lanes *lanes, uint32_t index, enum operation_id id, char *why,
                                 size_t why_bytes);
/* At most LANE_BLOCK round trips, less after Ctrl-C. When several take turns some more come first that are not kept:
 * they meet cold caches and a process just woken. BROKEN: `why`; the lane takes no part any more. */
enum operation_status lane_block(struct lanes *lanes, uint32_t index, uint32_t count, bool keep, char *why,
                                 size_t why_bytes);
/* lane->results[id] from lane->ticks, which are sorted then. */
void lane_finish(struct lanes *lanes, uint32_t index, enum operation_id id);
