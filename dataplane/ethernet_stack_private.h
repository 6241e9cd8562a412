/* ethernet_stack_private.h - what the files of the stack share; the only ones that include lwIP's headers.
 *
 *     ethernet_stack.c             frames into lwIP, time
 *     ethernet_stack_send.c        packets out of it
 *     ethernet_stack_connection.c  connections: lists, limits, callbacks
 *     ethernet_stack_boot.c        open and close
 *
 * lwIP looks a connection up by walking one list of all of them, which thousands make slow. Ours are kept in buckets by
 * a hash of the peer's address and the ports; before lwIP is called about a connection its bucket becomes the list. */
#pragma once
#include "config/limits.h"
#include "dataplane/ethernet_device.h"
#include <lwip/netif.h>
#include <lwip/pbuf.h>
#include <lwip/tcp.h>

static_assert(STACK_CONNECTIONS == LIMIT_SESSIONS_PER_LCORE + LIMIT_ETHERNET_HALF_OPEN + LIMIT_ETHERNET_LEAVING,
              "lwIP's preprocessor needs it as a number");

#define STACK_BUCKETS     1024 /* a power of two */
#define STACK_SLICES      100  /* the timers look at so many parts of the buckets in turn, one a ms */
#define STACK_SLICE_MS    1
#define STACK_RX_BURST    32
#define STACK_RTO_MIN     3  /* of lwIP's ticks of 100 ms: a peer may delay its acknowledgement by 200 ms */
#define STACK_RTO_FIRST   10 /* before a round trip was measured: RFC 6298 */
#define STACK_CWND_FIRST  10 /* segments: RFC 6928 */
#define STACK_SPARE_SHARE 8  /* nobody may hold more than this share of what is free */

enum connection_state {
    CONNECTION_FREE,
    CONNECTION_HALF,   /* SYN received: nobody's yet */
    CONNECTION_OWNED,  /* accepted() gave it an owner */
    CONNECTION_LEAVING /* the owner is gone, or never was: lwIP says goodbye */
};

struct ethernet_connection {
    struct tcp_pcb *pcb;
    struct ethernet *ethernet;
    void *owner;
    uint64_t written, acknowledged; /* bytes given to lwIP, bytes that it no longer looks at */
    bool finished;
    uint8_t timeouts; /* in a row, before its last look at the clock */
    uint32_t bucket;
    enum connection_state state;
    struct ethernet_connection *next, **link; /* of the list of its state: oldest first */
};

struct connection_list { /* first in, first out */
    struct ethernet_connection *first, **last;
    uint32_t count;
};

struct stack_bucket {
    struct tcp_pcb *active, *time_wait;
};

struct ethernet {
    const struct ethernet_device_ops *device_ops;
    struct ethernet_device *device;
    struct ethernet_config config;
    struct ethernet_info info;
    struct capture *capture;
    struct netif netif;
    struct tcp_pcb *listeners[ETHERNET_LISTEN_MAX];
    uint32_t listener_count;

    uint32_t frames_total, frames_used; /* received ones that lwIP or the port hold */
    uint16_t sum_flags;           /* NETIF_CHECKSUM_*: what lwIP does for a frame of which the device says nothing */
    struct device_frame *tx_last; /* put last and not yet flushed: the next segment may join it */
    struct ethernet_stats stats;

    struct connection_list lists[4]; /* by enum connection_state */
    struct stack_bucket buckets[STACK_BUCKETS];
    uint32_t bucket; /* whose lists lwIP has now; STACK_BUCKETS: none */
    uint32_t slice;
    uint64_t slice_due_ms, second_due_ms;
    uint64_t bucket_key; /* drawn at boot: nobody can fill one bucket */
    uint8_t isn_key[16];
    uint32_t draws;
    struct ethernet_connection connections[MEMP_NUM_TCP_PCB];
};

extern struct ethernet ethernet_stack; /* lwIP's state is global, and so is ours */

/* lwIP works on this bucket's lists from now on. Returns the one before. */
uint32_t stack_enter(struct ethernet *ethernet, uint32_t bucket);
uint32_t stack_bucket_of(uint32_t remote_address, uint16_t remote_port, uint16_t local_port);
/* One part of the connections grows 100 ms older. */
void stack_age_slice(struct ethernet *ethernet, uint32_t slice);

/* ethernet_stack_boot.c */
int stack_open(const struct ethernet_config *config, struct ethernet **out, char *why, size_t why_bytes);
void stack_close(struct ethernet *ethernet);

/* ethernet_stack_connection.c */
int connection_listen(struct ethernet *ethernet, uint16_t port); /* -errno */
void connection_list_append(struct ethernet *ethernet, struct ethernet_connection *connection,
                            enum connection_state state);
size_t connection_write(struct ethernet_connection *connection, const struct iovec *pieces, uint32_t count,
                        bool *again);
void connection_finish(struct ethernet_connection *connection);
void connection_taken(struct ethernet_connection *connection, size_t bytes);
void connection_release(struct ethernet_connection *connection);

/* ethernet_stack.c */
struct pbuf *stack_pbuf_of(struct device_frame *frame);
struct device_frame *stack_frame_of(struct pbuf *p);
uint32_t stack_frames_spare(const struct ethernet *ethernet);

/* ethernet_stack_send.c */
/* lwIP sends a packet: copied into a frame of the device. */
err_t stack_send(struct netif *netif, struct pbuf *p);
uint32_t stack_flush(struct ethernet *ethernet);
