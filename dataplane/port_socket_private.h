/* port_socket_private.h - shared by port_socket.c (steady state) and port_socket_boot.c (open, adopt, close). */
#pragma once
#include "dataplane/dataplane.h"
#include "dataplane/port_socket.h"

#define SOCKET_SLOTS      64 /* receive slots of an lcore */
#define SOCKET_SLOT_BYTES 16384

struct socket_session {
    struct session session; /* first: the port hands out pointers to it */
    int fd;
    bool readable;      /* on the readable list: the kernel may have bytes */
    bool hung_up;       /* an end was announced: a short read is not the last one */
    bool write_blocked; /* the kernel's buffer is full: EPOLLOUT will tell */
    uint8_t *held;      /* a slot whose bytes found no memory: offered again before reading on */
    size_t held_bytes;
    struct socket_session *readable_next, **readable_link;
    struct socket_session *next, **link; /* every session of the port */
};

struct socket_port {
    struct port port; /* first */
    int epoll_fd;
    uint32_t free_count;
    uint8_t *free_slots[SOCKET_SLOTS];
    uint8_t *slots; /* SOCKET_SLOTS * SOCKET_SLOT_BYTES */
    struct socket_session *readable, **readable_tail;
    uint32_t readable_count;
    struct socket_session *sessions;
    uint32_t session_count;
    uint32_t polls;
};

static inline struct socket_port *
socket_port_of(struct port *port)
{
    return CONTAINER_OF(port, struct socket_port, port);
}

extern const struct port_ops socket_port_ops;
