/* pipeline.h - one connection under load: a ring of encoded requests, patched before each is sent again, and a count of
 * the replies. What to send when is the caller's: generator.h keeps a number in flight, open_loop.h follows a clock.
 * Threads: one at a time. Nothing here waits; no allocation after pipeline_open(). */
#pragma once
#include "tools/bench/load.h"

#define PIPELINE_RING_BYTES_MAX (256u << 20)

struct pipeline {
    struct client *client; /* owned; NULL: not open */
    const struct load *load;
    struct load_state state;
    struct scanner scanner;
    uint8_t *ring;
    uint32_t *offsets; /* slot_count + 1 of them */
    uint32_t slot_count;
    uint32_t issue_slot, patch_slot; /* next to send, next to patch; those between are ready */
    uint32_t patch_turn;             /* of the schedule: what patch_slot holds */
    size_t send_from, send_to;       /* ring bytes issued and not yet sent */
    uint64_t issued, done;           /* requests */
};

/* A ring of about `slots` requests for an open connection, which is the pipeline's from now on, also on failure.
 * `load` is borrowed. False with a sentence in `why`: one turn of the schedule does not fit PIPELINE_RING_BYTES_MAX. */
bool pipeline_open(struct pipeline *pipeline, const struct load *load, struct client *client, enum client_wire wire,
                   uint32_t slots, uint64_t seed, char *why, size_t why_bytes);
void pipeline_close(struct pipeline *pipeline);

/* Make up to `count` requests ready and put those on their way. Fewer at the end of the ring, or while what was issued
 * before is not sent. Returns how many were issued; *broken becomes true when the connection is over. */
uint32_t pipeline_issue(struct pipeline *pipeline, uint32_t count, bool *broken);
/* Send what is issued as far as the transport takes it. False: the connection is over. */
bool pipeline_send(struct pipeline *pipeline);
/* Count what came; with nothing there, patch a few of the next `ahead` requests. False: the connection is over. */
bool pipeline_receive(struct pipeline *pipeline, uint32_t ahead);

/* With nothing in flight: false when a reply waits that nobody asked for, so that one before it was no answer. */
bool pipeline_is_silent(struct pipeline *pipeline);

/* Issued bytes wait for room: nothing more can be issued. */
static inline bool
pipeline_backed_up(const struct pipeline *pipeline)
{
    return pipeline->send_from < pipeline->send_to;
}

static inline uint64_t
pipeline_in_flight(const struct pipeline *pipeline)
{
    return pipeline->issued - pipeline->done;
}

/* Why it is over. */
const char *pipeline_why(const struct pipeline *pipeline);
