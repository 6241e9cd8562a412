/* port_socket_boot.c - opening the port and taking over connections: control path. */
#include "dataplane/port_socket_private.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int
port_socket_open(struct lcore *lcore, struct port **out)
{
    struct socket_port *port = calloc(1, sizeof(*port));
    uint8_t *slots = aligned_alloc(4096, (size_t)SOCKET_SLOTS * SOCKET_SLOT_BYTES);
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (port == NULL || slots == NULL || epoll_fd < 0) {
        int error = epoll_fd < 0 ? -errno : -ENOMEM;
        free(port);
        free(slots);
        if (epoll_fd >= 0) {
            close(epoll_fd);
        }
        return error;
    }
    memset(slots, 0, (size_t)SOCKET_SLOTS * SOCKET_SLOT_BYTES); /* touched now, not by the first request */

    port->port.ops = &socket_port_ops;
    port->port.makes_calls = true;
    port->port.lcore = lcore;
    port->port.info =
        (struct port_info){ .type = "socket", .rx_slots = SOCKET_SLOTS, .frame_bytes = SOCKET_SLOT_BYTES };
    port->epoll_fd = epoll_fd;
    port->slots = slots;
    for (uint32_t i = 0; i < SOCKET_SLOTS; i++) {
        port->free_slots[port->free_count++] = slots + (size_t)i * SOCKET_SLOT_BYTES;
    }
    port->readable_tail = &port->readable;
    *out = &port->port;
    return 0;
}

static void
print_address(const struct sockaddr_storage *address, socklen_t bytes, char *out, size_t out_bytes)
{
    char host[INET6_ADDRSTRLEN] = "";
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)address;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
        snprintf(out, out_bytes, "%s:%u", host, ntohs(in->sin_port));
    } else if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)address;
        inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
        snprintf(out, out_bytes, "[%s]:%u", host, ntohs(in6->sin6_port));
    } else if (address->ss_family == AF_UNIX) {
        const struct sockaddr_un *un = (const void *)address;
        bool named = bytes > offsetof(struct sockaddr_un, sun_path) && un->sun_path[0] != '\0';
        snprintf(out, out_bytes, "%.*s", (int)out_bytes - 1, named ? un->sun_path : "unix");
    }
}

static void
print_names(struct session *session, int fd)
{
    struct sockaddr_storage address = { 0 };
    socklen_t bytes = sizeof(address);
    if (getpeername(fd, (struct sockaddr *)&address, &bytes) == 0) {
        print_address(&address, bytes, session->peer, sizeof(session->peer));
    }
    bytes = sizeof(address);
    if (getsockname(fd, (struct sockaddr *)&address, &bytes) == 0) {
        print_address(&address, bytes, session->local, sizeof(session->local));
    }
}

void
port_socket_adopt(struct lcore *lcore, int fd, uint32_t flags)
{
    struct socket_port *port = socket_port_of(lcore->socket_port);
    struct socket_session *socket = stream_door_take(&lcore->reserve);
    static_assert(sizeof(*socket) <= STREAM_DOOR_BYTES, "a door is as large as a session");
    if (socket == NULL) {
        counter_add(&lcore->counters->sessions_refused, 1);
        close(fd);
        return;
    }
    memset(socket, 0, sizeof(*socket));
    socket->fd = fd;
    if (load_relaxed(&lcore->state) == LCORE_DRAIN || !session_open(&socket->session, lcore, &port->port)) {
        stream_door_give(&lcore->reserve, socket);
        close(fd);
        return;
    }
    print_names(&socket->session, fd);

    socket->next = port->sessions;
    socket->link = &port->sessions;
    if (port->sessions != NULL) {
        port->sessions->link = &socket->next;
    }
    port->sessions = socket;
    port->session_count++;

    struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = socket };
    if (epoll_ctl(port->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
        session_kill(&socket->session);
    }
}
