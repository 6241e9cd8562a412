/* responder.h - a null responder: it counts the bytes of requests whose lengths it was told and answers from a buffer.
 * What a generator reaches against it is the generator's (and the kernel's) ceiling; with planted delays it is a server
 * whose latencies are known. */
#pragma once
#include "tools/bench/load.h"

struct responder;

struct responder_plan {
    const struct load_op *ops; /* requests come in turn of their schedule on each connection */
    uint32_t op_count;
    enum client_wire wire;
    uint32_t skip_bytes; /* come first on each connection */
    int cpu;             /* of its thread */
    /* The n-th request to arrive, on whichever connection, is answered delays_us[n % delay_count] after it came, but
     * not before those ahead of it on its connection. NULL: at once. Borrowed until responder_stop(). */
    const uint32_t *delays_us;
    uint32_t delay_count;
    /* Once so many requests have arrived nothing is read or answered for so long. 0: never. */
    uint32_t pause_after, pause_ms;
};

/* Start a thread that accepts connections on a loopback port. NULL with a sentence in `why`. */
struct responder *responder_start(const struct responder_plan *plan, char *why, size_t why_bytes);
uint16_t responder_port(const struct responder *responder);
void responder_stop(struct responder *responder);
