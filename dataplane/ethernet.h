/* ethernet.h - TCP over an Ethernet device that one lcore polls: what the ethernet port calls.
 *
 * Implementation: the module sluice_ethernet.so, opened on first use; ethernet_stack*.c (lwIP) over ethernet_dpdk*.c.
 * One instance a process: lwIP's state is global. Threads: after open() one, the lcore's, but for the operations that
 * say otherwise. No operation waits. */
#pragma once
#include "config/base.h"
#include "dataplane/capture.h"

struct ethernet; /* device and stack */
struct ethernet_device_ops;
struct ethernet_connection; /* until handlers->lost() or release() */
struct iovec;

/* Received bytes of a connection in the device's memory, lent until frame_give(). The owner may write to them, and use
 * `room` more bytes behind them. */
struct ethernet_frame {
    struct ethernet_frame *next;
    uint8_t *data;
    uint32_t bytes, room;
};

#define ETHERNET_LISTEN_MAX 8
#define ETHERNET_EAL_MAX    512 /* bytes of the EAL's command line */

struct ethernet_peer {
    uint8_t address[4], local[4]; /* IPv4, network order */
    uint16_t port, local_port;
};

/* What the stack tells the port, from poll(), flush() and tick(). */
struct ethernet_handlers {
    /* A connection was made. Returns its owner for the calls below, or NULL: it is refused with config.refusal. */
    void *(*accepted)(void *port, struct ethernet_connection *connection, const struct ethernet_peer *peer);
    /* Whether the owner can hold `frames` more; `share` is what anybody should hold. False: the peer sends them again.
     */
    bool (*room)(void *owner, uint32_t frames, uint32_t share);
    /* Bytes came: a list of frames, the owner's from now on. */
    void (*received)(void *owner, struct ethernet_frame *frames);
    /* The peer has everything before this offset of what was written: its memory is no longer looked at. */
    void (*acknowledged)(void *owner, uint64_t offset);
    void (*ended)(void *owner); /* the peer sends no more */
    void (*lost)(void *owner);  /* the connection is no more: reset, or given up */
};

struct ethernet_config {
    const struct ethernet_device_ops *device_ops; /* of the module, or a test's */
    const char *device;                           /* PCI address, or a vdev with its arguments */
    uint8_t address[4], gateway[4];
    uint32_t prefix_bits; /* of the subnet */
    bool has_gateway, has_mac;
    uint8_t mac[6];
    uint32_t mtu;
    uint32_t rx_descriptors, tx_descriptors;
    uint32_t sessions; /* connections with an owner */
    uint16_t listen[ETHERNET_LISTEN_MAX];
    uint32_t listen_count;
    const char *eal; /* more arguments; an option named here replaces the derived one */
    int cpu;         /* of the lcore that will poll */
    int node;
    bool huge_pages;       /* when as many are free as it needs */
    const char *refusal;   /* text for a connection that is refused */
    uint32_t keepalive_ms; /* a silent peer is asked after this */
    const struct ethernet_handlers *handlers;
    void *port; /* for handlers->accepted() */
    int log_fd; /* where the driver's messages go, one a line; not blocking */
};

struct ethernet_info { /* constant since open() */
    char device[64], driver[32], mac[18];
    char offloads[96], memory[128]; /* for people */
    char eal[ETHERNET_EAL_MAX];     /* arguments as given */
    uint32_t mtu, rx_descriptors, tx_descriptors, frames;
    bool makes_calls; /* receiving makes system calls */
};

/* Totals since open(), and gauges: what is now. Written by the thread that polls. */
struct ethernet_stats {
    uint64_t rx_packets, tx_packets, rx_bytes, tx_bytes;
    uint64_t tx_dropped;      /* no room: TCP sends them again */
    uint64_t checksum_errors; /* dropped */
    uint64_t malformed;       /* dropped: no frame, header or fragment that is served */
    uint64_t retransmits, resets_sent, syn_evicted, connections_evicted;
    uint64_t receive_refused;                                  /* bytes beyond what their connection may hold */
    uint64_t connections, leaving, frames_used, segments_used; /* gauges; leaving: of these connections */
};

/* What the hardware says, about once a second. */
struct ethernet_hardware {
    uint64_t rx_missed, rx_errors, rx_no_frame, tx_errors, resets, link_changes;
    bool link_up;
    uint32_t link_mbps; /* 0: not known */
};

struct ethernet_ops {
    /* 0, or -errno with a sentence in `why` that names what is missing and the remedy. Boot thread. */
    int (*open)(const struct ethernet_config *config, struct ethernet **out, char *why, size_t why_bytes);
    void (*close)(struct ethernet *ethernet); /* boot thread, when nothing polls any more */
    void (*info)(const struct ethernet *ethernet, struct ethernet_info *out);
    /* Take what arrived, at most a burst, through the stack. Returns frames. */
    uint32_t (*poll)(struct ethernet *ethernet);
    /* Send what is to go, in one call to the driver. Returns frames. */
    uint32_t (*flush)(struct ethernet *ethernet);
    void (*tick)(struct ethernet *ethernet, uint64_t now_ms); /* about every millisecond; any steady clock */
    void (*listen)(struct ethernet *ethernet, bool on);       /* accept connections; off: they are reset */
    void (*count)(const struct ethernet *ethernet, struct ethernet_stats *out);
    void (*capture)(struct ethernet *ethernet, struct capture *capture); /* boot thread: where frames are copied to */
    /* Management core, about once a second. */
    void (*refresh)(struct ethernet *ethernet, struct ethernet_hardware *out);

    /* Send bytes of the connection's stream, as far as the peer's window and the stack's memory go; they are looked at
     * until they are acknowledged. Returns bytes; *again: nothing will be acknowledged that could make room, try in the
     * next turn. */
    size_t (*write)(struct ethernet_connection *connection, const struct iovec *pieces, uint32_t count, bool *again);
    void (*finish)(struct ethernet_connection *connection); /* nothing more is written: tell the peer */
    /* `bytes` of the received are no longer needed: the peer may send as many. */
    void (*taken)(struct ethernet_connection *connection, size_t bytes);
    void (*frame_give)(struct ethernet *ethernet, struct ethernet_frame *frame);
    /* The owner is gone. Closed when everything written was acknowledged, reset otherwise. */
    void (*release)(struct ethernet_connection *connection);
};

extern const struct ethernet_ops ethernet_stack_ops; /* for the module, and for tests */

/* What the module exports: this symbol, and the contract above as a number that both sides were built with. */
#define ETHERNET_MODULE_FILE   "sluice_ethernet.so"
#define ETHERNET_MODULE_SYMBOL "sluice_ethernet_module"
#define ETHERNET_ABI           1

struct ethernet_module {
    uint32_t abi;
    const struct ethernet_ops *ops;           /* lwIP */
    const struct ethernet_device_ops *device; /* DPDK */
};
