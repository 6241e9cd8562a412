/* ethernet_module.c - the module's one symbol: the stack, and DPDK below it. */
#include "dataplane/ethernet_device.h"

extern const struct ethernet_module sluice_ethernet_module;
__attribute__((visibility("default"))) const struct ethernet_module sluice_ethernet_module = {
    ETHERNET_ABI,
    &ethernet_stack_ops,
    &ethernet_dpdk_ops,
};
