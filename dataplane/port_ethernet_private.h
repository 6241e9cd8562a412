/* port_ethernet_private.h - shared by port_ethernet.c (steady state) and port_ethernet_boot.c (open, close). */
#pragma once
#include "dataplane/dataplane.h"
#include "dataplane/ethernet.h"
#include "dataplane/port_ethernet.h"

#define ETHERNET_DELIVER_MAX 64 /* waiting sessions looked at in a turn */
#define ETHERNET_MERGE_BYTES                                                                                           \
    512 /* what is no larger joins the frame before: a peer of tiny segments holds few frames */
#define ETHERNET_PIECES 16

struct ethernet_session {
    struct session session;                       /* first: the port hands out pointers to it */
    struct ethernet_connection *connection;       /* NULL: lost */
    struct ethernet_frame *frames, **frames_tail; /* received, not yet handed over */
    uint32_t frame_count;
    bool waiting; /* on the port's list */
    bool ended;   /* the peer sends no more: told to the session behind the last frame */
    struct ethernet_session *waiting_next;
};

struct ethernet_port {
    struct port port; /* first */
    const struct ethernet_ops *ops;
    struct ethernet *ethernet;
    const struct port_settings *settings;
    double ms_per_cycle;
    uint64_t now_base_ms; /* where time began; tests without a clock move it */
    uint32_t waiting_count;
    struct ethernet_session *waiting, **waiting_tail;
    bool listening;
    struct capture capture;
    struct ethernet_info info;
    struct ethernet_hardware hardware; /* the management core's */
    int log_fd[2];                     /* pipe: read end, write end */
};

static inline struct ethernet_port *
ethernet_port_of(const struct port *port)
{
    return CONTAINER_OF(port, struct ethernet_port, port);
}

extern const struct port_ops ethernet_port_ops;
extern const struct ethernet_handlers ethernet_port_handlers;

/* port_ethernet_boot.c */
void ethernet_port_close(struct port *port);
void ethernet_port_refresh(struct port *port);
