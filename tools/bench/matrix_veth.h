/* matrix_veth.h - a network of our own with one link: the client's kernel at one end, DPDK's af_packet at the other.
 *
 * While it is open this thread, and what it starts, live in a network namespace that nobody else sees; it is gone when
 * the last process in it is. */
#pragma once
#include "config/base.h"

#define MATRIX_VETH_DEVICE "net_af_packet0,iface=wire0"
#define MATRIX_VETH_SERVER "10.87.0.2" /* with /24 */
#define MATRIX_VETH_CLIENT "10.87.0.1"

/* Returns a descriptor for matrix_veth_close(), -1 with a sentence in `why`: it needs CAP_SYS_ADMIN, CAP_NET_ADMIN, ip
 * and ethtool. */
int matrix_veth_open(char *why, size_t why_bytes);
void matrix_veth_close(int home); /* -1 is accepted */
