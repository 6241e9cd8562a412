/* floor.h - the bare transport: a peer on another CPU that spins and echoes frames of the same sizes.
 *
 * The peer is a process of its own, asleep between the blocks. Streams: a kernel TCP or Unix connection of ours, no
 * protocol. Fabric: libfabric through dataplane/endpoint.h, envelopes counted in the sizes, no credit, no session. */
#pragma once
#include "tools/client/client.h"

struct floor;

enum floor_kind { FLOOR_TCP, FLOOR_UNIX, FLOOR_FABRIC };

#define FLOOR_REPLIES_MAX 2 /* PUBSUB: the answer and the message */

/* Bytes on the wire of one round trip, envelopes excluded. */
struct floor_sizes {
    uint32_t request_bytes;
    uint32_t reply_count;
    uint32_t reply_bytes[FLOOR_REPLIES_MAX];
};

/* Start the peer here, pinned to `peer_cpu`. Call it before anything of libfabric is open in this process: it forks.
 * NULL with a sentence in `why`. */
struct floor *floor_open(enum floor_kind kind, const struct client_fabric *fabric, int peer_cpu, char *why,
                         size_t why_bytes);
/* Open the fabric endpoints of both ends; nothing to do for streams. */
bool floor_connect(struct floor *floor, char *why, size_t why_bytes);
void floor_close(struct floor *floor);

/* 0: it is on another host. */
pid_t floor_peer(const struct floor *floor);
/* Largest frame of the fabric, envelope included; UINT32_MAX for streams. */
uint32_t floor_frame_bytes(const struct floor *floor);

/* `count` round trips, the peer awake for as long; ticks[i] is the duration of one in cycles. Blocks end whole. */
bool floor_run(struct floor *floor, const struct floor_sizes *sizes, uint64_t *ticks, uint32_t count, char *why,
               size_t why_bytes);

/* ---- between two hosts: floor_remote.c ---- */

#define FLOOR_TOKEN_BYTES    32
#define FLOOR_TOKEN_VARIABLE "SLUICE_FLOOR_TOKEN" /* of the environment: whoever knows it may ask for a peer */

/* A peer from `sluice-bench floor-peer` at HOST:PORT. Not for Unix sockets. NULL with a sentence in `why`. */
struct floor *floor_open_remote(enum floor_kind kind, const struct client_fabric *fabric, const char *host,
                                uint16_t port, char *why, size_t why_bytes);

/* What both build on. This end of a floor: its peer reads `control`; `stream` is -1 on a fabric. Takes the descriptors.
 */
struct floor *floor_make(enum floor_kind kind, const struct client_fabric *fabric, int control, int stream, pid_t peer);
/* The other end, until `control` ends. */
_Noreturn void floor_peer_run(enum floor_kind kind, const struct client_fabric *fabric, int control, int stream,
                              int cpu);
