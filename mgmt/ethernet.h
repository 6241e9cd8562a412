/* ethernet.h - what the management core does for the ethernet port: says what was opened, writes captures, logs what
 * the driver says. Everything is empty where there is no such port. */
#pragma once
#include "mgmt/mgmt.h"
#include <jansson.h>

/* The port, or NULL. */
struct port *ethernet_find(const struct dataplane *dataplane);

void ethernet_log_start(const struct mgmt *mgmt); /* once it is open */
/* What was captured is written. Returns whether it is wanted again within a millisecond. */
bool ethernet_tick(struct mgmt *mgmt);
void ethernet_tick_second(struct mgmt *mgmt);
void ethernet_close(struct mgmt *mgmt); /* ends a capture; before the data plane is closed */

/* "10.0.0.2:6379 on net_ena (0000:00:06.0), link up" for every port that it listens on. */
json_t *ethernet_addresses(const struct mgmt *mgmt);
/* What `ports` shows beyond every port's columns. */
void ethernet_describe(const struct port *port, json_t *row);
/* Its settings, as `config show` names them. */
json_t *ethernet_settings(const struct port_settings *settings);
