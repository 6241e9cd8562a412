/* ethernet_device.h - one table of operations over a device that sends and receives Ethernet frames: what the stack
 * calls instead of DPDK.
 *
 * Implementations: ethernet_dpdk.c, and the in-memory device of the tests. Threads: one per device after boot, but for
 * the operations that say otherwise. */
#pragma once
#include "dataplane/ethernet.h"

struct ethernet_device;

#define FRAME_STACK_BYTES 64 /* of a frame that are the stack's own */

enum frame_flag {
    FRAME_IP_SUM_GOOD = 1 << 0, /* received: the device found the IPv4 header's checksum right */
    FRAME_L4_SUM_GOOD = 1 << 1, /* received: and that of TCP */
    FRAME_SUM_BAD = 1 << 2,     /* received: the device found one of them wrong */
    FRAME_SUM_IP = 1 << 3,      /* to be sent: the device fills in the IPv4 header's checksum */
    FRAME_SUM_TCP = 1 << 4,     /* to be sent: and that of TCP; the field holds that of the pseudo header */
    FRAME_SEGMENT = 1 << 5,     /* to be sent: the device cuts the TCP payload into pieces of segment_bytes */
};

/* A frame in the device's memory. One that was received may be a chain of segments. */
struct device_frame {
    struct ethernet_frame lent; /* first: what the port sees of it */
    struct device_frame *segment;
    uint8_t *data;
    uint32_t bytes;
    uint32_t room;                               /* from data on, until the end of its memory */
    uint32_t flags;                              /* enum frame_flag */
    uint16_t ip_bytes, tcp_bytes, segment_bytes; /* to be sent: header lengths, with FRAME_SUM_* and FRAME_SEGMENT */
    _Alignas(8) uint8_t stack[FRAME_STACK_BYTES];
};

enum device_offload {
    DEVICE_SUMS_IP = 1 << 0, /* fills in checksums of what is sent */
    DEVICE_SUMS_TCP = 1 << 1,
    DEVICE_CHECKS = 1 << 2,   /* looks at those of what is received */
    DEVICE_SEGMENTS = 1 << 3, /* cuts TCP segments; with both sums */
};

struct ethernet_device_ops {
    /* 0, or -errno with a sentence in `why` that names what is missing and the remedy. Boot thread. */
    int (*open)(const struct ethernet_config *config, struct ethernet_device **out, char *why, size_t why_bytes);
    void (*close)(struct ethernet_device *device); /* boot thread, when nothing polls any more */
    /* What is constant since boot: driver, mac, mtu, descriptors, offloads, frames. */
    void (*describe)(const struct ethernet_device *device, struct ethernet_info *info);
    uint32_t (*offloads)(const struct ethernet_device *device); /* enum device_offload */

    /* Up to `max` frames that arrived. They are the caller's until it gives them back. */
    uint32_t (*receive)(struct ethernet_device *device, struct device_frame **frames, uint32_t max);
    void (*give)(struct ethernet_device *device, struct device_frame *frame); /* with its segments */
    /* An empty frame to send, or NULL: none is free, or as many wait to be sent as there are descriptors. */
    struct device_frame *(*take)(struct ethernet_device *device);
    void (*put)(struct ethernet_device *device, struct device_frame *frame); /* the device's from now on */
    /* The frame that was put last is another now: longer, to be cut. Only before flush(), with DEVICE_SEGMENTS. */
    void (*amend)(struct ethernet_device *device, struct device_frame *frame);
    /* Hand what was put to the hardware, in one call to its driver. Returns frames; the rest waits. */
    uint32_t (*flush)(struct ethernet_device *device);
    /* About every millisecond: the driver's own timers. */
    void (*tick)(struct ethernet_device *device, uint64_t now_ms);
    void (*count)(const struct ethernet_device *device, struct ethernet_stats *stats); /* its own part */
    /* Management core, about once a second: what may take long. Statistics of the hardware, link state, a reset. */
    void (*refresh)(struct ethernet_device *device, struct ethernet_hardware *out);
};

extern const struct ethernet_device_ops ethernet_dpdk_ops;
