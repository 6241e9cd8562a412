/* port_fabric.h - sessions over libfabric, one endpoint for each lcore and configured port.
 *
 * A session is attached by FABRIC ATTACH on any stream port: by mail the owning lcore inserts the peer's address and
 * draws the session's identity. Its streams continue over frames (codec/frame_stream.h) until DETACH; after a lost peer
 * they wait for FABRIC RESUME: two leases when a send failed, longer when the peer was only silent, shorter when
 * somebody needs the place. Threads: the owning lcore's, but for the functions that say otherwise. */
#pragma once
#include "config/base.h"
#include "dataplane/port.h"

struct endpoint_ops;
struct later;
struct lcore;
struct port_settings;

/* Open the port of `settings` for one lcore.
 *
 * Returns  0, or -errno with a sentence in `why` that names what is missing and the remedy.
 * Threads  boot thread, which may be bound to the lcore's NUMA node. */
int port_fabric_open(struct lcore *lcore, const struct port_settings *settings, struct port **out, char *why,
                     size_t why_bytes);
/* The same behind another table of operations: tests put a fault fabric there. */
int port_fabric_open_on(const struct endpoint_ops *ops, struct lcore *lcore, const struct port_settings *settings,
                        struct port **out, char *why, size_t why_bytes);

/* A FABRIC command that came to the owning lcore by mail: answered by later_answer(), some turns later. */
void port_fabric_later(struct lcore *lcore, struct later *later);

/* ---- for any lcore ---- */

/* The fabric port of that name, else the first with that provider, else NULL. Ports stand at the same place in every
 * lcore. */
struct port *port_fabric_find(const struct lcore *lcore, struct slice name);
/* NULL when `port` is of another kind. Constant since boot. */
const struct port_settings *port_fabric_settings(const struct port *port);
/* Where its endpoint is: fi_getname() bytes. Constant since boot. */
struct slice port_fabric_address(const struct port *port);
/* Sessions now, and how many there may be: a hint, because the owner goes on. */
uint32_t port_fabric_sessions(const struct port *port);
uint32_t port_fabric_sessions_max(const struct port *port);
/* Frames that the peer of each session may have in flight: fabric.credit, at most a session's share of the slots. */
uint32_t port_fabric_credit(const struct port *port);
