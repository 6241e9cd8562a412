/* port.h - where bytes come in and go out: socket, fabric, ethernet. One instance per lcore and port.
 *
 * The lcore calls poll and flush once a turn each; nothing in them waits. */
#pragma once
#include "config/base.h"

struct lcore;
struct port;
struct session;

struct port_info {     /* for `sluicectl ports`; written by the owner's thread on request, or constant since boot */
    char type[16];     /* "socket", "fabric", "ethernet" */
    char provider[32]; /* as opened: "shm", "net", "tcp;ofi_rxm"; "" for sockets */
    char address[128]; /* printed: hex of the fabric address; "" for sockets */
    char send[16];     /* "auto", "inject", "send" */
    uint32_t rx_slots, tx_slots, frame_bytes, inject_bytes;
};

struct port_ops {
    /* Take what arrived, at most a bounded burst, and hand it to sessions. Returns events seen: 0 means idle. */
    uint32_t (*poll)(struct port *port);
    /* Send what the sessions on the dirty list have; what does not go now stays on the list. Returns events. */
    uint32_t (*flush)(struct port *port);
    /* The session no longer borrows `slot`: repost it, hand over the next bytes waiting. Never during a burst. */
    void (*settle)(struct port *port, struct session *session, void *slot);
    /* Last call for a session: release the transport side and the memory. Its streams are already given back. */
    void (*session_close)(struct port *port, struct session *session);
    /* Bounded work about every millisecond: leases, overdue sends, accepted time-outs. */
    void (*tick)(struct port *port);
    /* A file descriptor that becomes readable when poll would find something, or -1: it must be polled to know. */
    int (*wait_fd)(struct port *port);
    void (*close)(struct port *port); /* boot thread, after the lcore stopped */
    /* Management core, about once a second: what may take long. May be NULL. */
    void (*refresh)(struct port *port);
};

struct port {
    const struct port_ops *ops;
    struct lcore *lcore;
    struct session *dirty; /* head of the dirty list */
    uint32_t index;        /* of this port in the lcore and in the settings */
    bool scarce;           /* few receive slots are left: as of the last tick */
    bool makes_calls;      /* polling it makes system calls: polling.h says how often that is done */
    /* of polling.c */
    uint64_t active_cycles; /* the turn of its last event */
    uint64_t due_cycles;    /* not polled before, when it makes calls */
    uint32_t stalled;       /* flushes in a row that left output */
    struct port_info info;
};
