/* port_ethernet.h - sessions over TCP that the stack of the module sluice_ethernet.so speaks on a DPDK device.
 *
 * One lcore has the port, and runs its sessions. Threads: that lcore's, but for the functions that say otherwise. */
#pragma once
#include "config/base.h"
#include "dataplane/capture.h"
#include "dataplane/port.h"

struct ethernet_info;
struct ethernet_hardware;
struct ethernet_module;
struct lcore;
struct port_settings;

/* Open the port of `settings`: as port_fabric_open(). */
int port_ethernet_open(struct lcore *lcore, const struct port_settings *settings, struct port **out, char *why,
                       size_t why_bytes);
/* The same with another module: tests put a device of their own below the stack. */
int port_ethernet_open_on(const struct ethernet_module *module, struct lcore *lcore,
                          const struct port_settings *settings, struct port **out, char *why, size_t why_bytes);

/* ---- management core ---- */

/* NULL: `port` is of another kind. Constant since boot. */
const struct ethernet_info *port_ethernet_info(const struct port *port);
const struct port_settings *port_ethernet_settings(const struct port *port);
/* As of the last refresh. */
const struct ethernet_hardware *port_ethernet_hardware(const struct port *port);
struct capture *port_ethernet_capture(struct port *port);
/* Readable when the driver has something to say, one message a line. */
int port_ethernet_log_fd(const struct port *port);
