/* polling.h - which ports an lcore polls in a turn.
 *
 * Every port every turn, but for one whose polling costs system calls while another port is busy: a kernel socket or a
 * libfabric provider over sockets takes some microseconds to say "nothing", which every request on a bypass port beside
 * it would wait for. Such a port is left alone for an eighth of the time that it has been silent, at most
 * POLL_PAUSE_NS: the wait for its next poll is small beside the gaps between its own events, grows as they do, and ends
 * with the first event. A port is busy for POLL_BUSY_NS after an event. When no other port is, every turn polls. */
#pragma once
#include "config/base.h"

#define POLL_PAUSE_NS    20000  /* no port waits longer than this and a turn */
#define POLL_BUSY_NS     100000 /* above the gap between two requests of a closed-loop client */
#define POLL_PAUSE_SHARE 8

struct lcore;

/* Poll the ports that are due. Returns events: 0 means idle. Bounds: each port's own burst. */
uint32_t poll_ports(struct lcore *lcore);
/* Flush every port: what is sent keeps a port as busy as what came. Returns events. */
uint32_t poll_flush_ports(struct lcore *lcore);
