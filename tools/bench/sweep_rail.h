/* sweep_rail.h - one connection of a sweep, and its share of a transfer. */
#pragma once
#include "tools/bench/sweep_form.h"

/* What moves now; the same for all rails of a side. */
struct sweep_transfer {
    enum sweep_operation operation;
    struct sweep_cut cut;
    struct sweep_form forms[2]; /* of whole chunks, of the last one */
    const uint8_t *pattern;     /* borrowed */
    uint64_t version;           /* of what SET writes and GET must find */
    uint32_t rails;             /* that share it */
    bool memcached;             /* not RESP, not SBE */
    bool yield;                 /* more spinning threads than CPUs */
};

#define SWEEP_STAGE_BYTES (16 * KIB) /* a request up to this leaves in one piece */

/* One thread at a time. */
struct sweep_rail {
    struct client *client; /* owned by whoever opened the rail; nothing in flight between two transfers */
    enum sweep_status status;
    uint64_t send_chunk, take_chunk; /* being sent; whose reply is being read */
    size_t sent, taken;              /* bytes of that request, of that reply */
    size_t staged, unread;
    char why[SWEEP_WHY_BYTES];
    uint8_t stage[SWEEP_STAGE_BYTES + 2 * SWEEP_PIECE_BYTES];
};

/* Move chunks first, first + rails ...: all requests in flight as far as the transport takes them, every byte of every
 * reply compared. Does not return before each is answered, or nothing moved for 20 s.
 *
 * Returns  SWEEP_GOOD; anything else with a sentence in rail->why.
 * Cost     no allocation, no copy of values above SWEEP_STAGE_BYTES but the transport's. */
enum sweep_status sweep_rail_run(struct sweep_rail *rail, const struct sweep_transfer *transfer, uint64_t first);

/* Between two turns of one that spins. */
void sweep_relax(bool yield);
