#include "dataplane/port_socket_private.h"
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define EVENTS_BURST 64
#define READS_BURST  64
#define SEND_PIECES  16
#define DIRECT_MAX   4  /* so few sessions are read without asking epoll first */
#define DIRECT_POLLS 64 /* then epoll is asked this seldom: it still tells of writable sockets */
#define LINGER_READS 4

static struct socket_session *
socket_session_of(struct session *session)
{
    return CONTAINER_OF(session, struct socket_session, session);
}

/* ---- receive ---- */

static void
mark_readable(struct socket_port *port, struct socket_session *socket)
{
    if (socket->readable) {
        return;
    }
    socket->readable = true;
    socket->readable_next = NULL;
    socket->readable_link = port->readable_tail;
    *port->readable_tail = socket;
    port->readable_tail = &socket->readable_next;
    port->readable_count++;
}

static void
unmark_readable(struct socket_port *port, struct socket_session *socket)
{
    if (!socket->readable) {
        return;
    }
    socket->readable = false;
    *socket->readable_link = socket->readable_next;
    if (socket->readable_next != NULL) {
        socket->readable_next->readable_link = socket->readable_link;
    } else {
        port->readable_tail = socket->readable_link;
    }
    port->readable_count--;
}

static void
slot_give(struct socket_port *port, uint8_t *slot)
{
    port->free_slots[port->free_count++] = slot;
}

/* What recv() answered, other than bytes. */
static void
read_ended(struct socket_port *port, struct socket_session *socket, ssize_t got)
{
    if (got == 0) {
        session_end_of_input(&socket->session);
    } else if (errno == EINTR) {
        mark_readable(port, socket);
    } else if (errno != EAGAIN && errno != EWOULDBLOCK) {
        session_kill(&socket->session);
    }
}

static bool
offer_held(struct socket_port *port, struct socket_session *socket)
{
    uint8_t *slot = socket->held;
    if (!session_receive(&socket->session, slot, socket->held_bytes, slot)) {
        mark_readable(port, socket);
        return false;
    }
    socket->held = NULL;
    mark_readable(port, socket); /* the edge that told of what follows has passed */
    return true;
}

/* One recv at most. Returns 1 when bytes or an end arrived. */
static uint32_t
read_once(struct socket_port *port, struct socket_session *socket)
{
    struct session *session = &socket->session;
    if (socket->held != NULL) {
        return offer_held(port, socket);
    }
    size_t room;
    uint8_t *slot = NULL;
    uint8_t *into = session_receive_room(session, &room);
    if (into != NULL && room == 0) {
        mark_readable(port, socket);
        return 0;
    }
    if (into == NULL) {
        slot = into = port->free_slots[--port->free_count];
        room = SOCKET_SLOT_BYTES;
    }

    counter_add(&port->port.lcore->counters->socket_reads, 1);
    ssize_t got = recv(socket->fd, into, room, MSG_DONTWAIT);
    if (got <= 0) {
        if (slot != NULL) {
            slot_give(port, slot);
        }
        read_ended(port, socket, got);
        return got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
    }
    if ((size_t)got == room || socket->hung_up) {
        mark_readable(port, socket); /* a short read empties a stream socket; a full one need not, and an end is left */
    }
    if (slot == NULL) {
        session_received(session, (size_t)got);
    } else if (!session_receive(session, slot, (size_t)got, slot)) {
        socket->held = slot;
        socket->held_bytes = (size_t)got;
        mark_readable(port, socket);
    }
    return 1;
}

static uint32_t
read_readable(struct socket_port *port)
{
    uint32_t events = 0;
    uint32_t reads = MIN(port->readable_count, READS_BURST);
    for (uint32_t i = 0; i < reads; i++) {
        struct socket_session *socket = port->readable;
        unmark_readable(port, socket);
        if (session_is_choked(&socket->session)) {
            if (!(socket->session.flags & (SESSION_DEAD | SESSION_EOF))) {
                mark_readable(port, socket); /* its bytes wait in the kernel */
            }
            continue;
        }
        if (port->free_count == 0 && socket->held == NULL) {
            mark_readable(port, socket); /* those that hold a slot still go on: they may hold all of them */
            continue;
        }
        events += read_once(port, socket);
    }
    return events;
}

/* With few sessions a recv that finds nothing costs less than epoll_wait before every one that finds something. */
static uint32_t
read_directly(struct socket_port *port)
{
    uint32_t events = 0;
    for (struct socket_session *socket = port->sessions; socket != NULL; socket = socket->next) {
        if (!socket->readable && !session_is_choked(&socket->session) && port->free_count > 0) {
            events += read_once(port, socket);
        }
    }
    return events;
}

static uint32_t
ask_epoll(struct socket_port *port)
{
    struct epoll_event events[EVENTS_BURST];
    int count = epoll_wait(port->epoll_fd, events, EVENTS_BURST, 0);
    for (int i = 0; i < count; i++) {
        struct socket_session *socket = events[i].data.ptr;
        if (events[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
            socket->hung_up |= (events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
            mark_readable(port, socket);
        }
        if ((events[i].events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) && socket->write_blocked) {
            socket->write_blocked = false;
            session_touch_output(&socket->session);
        }
    }
    return count > 0 ? (uint32_t)count : 0;
}

static uint32_t
socket_poll(struct port *base)
{
    struct socket_port *port = socket_port_of(base);
    if (port->session_count == 0) {
        return 0;
    }
    if (port->session_count > DIRECT_MAX) {
        ask_epoll(port);
        return read_readable(port);
    }
    if (++port->polls % DIRECT_POLLS == 0) {
        ask_epoll(port);
    }
    return read_readable(port) + read_directly(port);
}

/* ---- send ---- */

static ssize_t
send_pieces(int fd, struct iovec *pieces, uint32_t count)
{
    if (count == 1) {
        return send(fd, pieces[0].iov_base, pieces[0].iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    struct msghdr message = { .msg_iov = pieces, .msg_iovlen = count };
    return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Send what there is. Stays on the dirty list only when the kernel took all that fitted into one call and more is left.
 */
static void
flush_session(struct socket_port *port, struct socket_session *socket)
{
    struct session *session = &socket->session;
    struct stream_out *out = &session->out;
    struct iovec pieces[SEND_PIECES];
    size_t bytes = 0;
    uint32_t count = 0;

    if (!socket->write_blocked && !(session->flags & SESSION_DEAD)) {
        count = stream_out_pieces(out, out->sent, pieces, SEND_PIECES, &bytes);
    }
    if (bytes == 0) {
        session_untouch_output(session);
        session_output_shrank(session);
        return;
    }
    counter_add(&port->port.lcore->counters->socket_writes, 1);
    ssize_t sent = send_pieces(socket->fd, pieces, count);
    if (sent < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            socket->write_blocked = true;
            session_untouch_output(session);
        } else if (errno != EINTR) {
            session_kill(session);
        }
        return;
    }
    counter_add(&port->port.lcore->counters->tx_bytes, (uint64_t)sent);
    stream_out_acknowledge(out, out->sent + (uint64_t)sent);
    socket->write_blocked = (size_t)sent < bytes;
    if (socket->write_blocked || stream_out_unsent(out) == 0) {
        session_untouch_output(session);
    }
    session_output_shrank(session);
}

static uint32_t
socket_flush(struct port *base)
{
    struct socket_port *port = socket_port_of(base);
    uint32_t events = 0;
    for (struct session *session = base->dirty; session != NULL;) {
        struct session *next = session->dirty_next;
        flush_session(port, socket_session_of(session));
        session = next;
        events++;
    }
    return events;
}

/* ---- the rest ---- */

static void
socket_settle(struct port *base, struct session *session, void *slot)
{
    slot_give(socket_port_of(base), slot);
}

static void
socket_session_close(struct port *base, struct session *session)
{
    struct socket_port *port = socket_port_of(base);
    struct socket_session *socket = socket_session_of(session);
    struct lcore *lcore = base->lcore;

    unmark_readable(port, socket);
    *socket->link = socket->next;
    if (socket->next != NULL) {
        socket->next->link = socket->link;
    }
    port->session_count--;

    /* Unread input would turn close() into a reset, which may overtake the last reply. */
    if (shutdown(socket->fd, SHUT_WR) == 0 && port->free_count > 0) {
        for (int i = 0; i < LINGER_READS; i++) {
            if (recv(socket->fd, port->free_slots[port->free_count - 1], SOCKET_SLOT_BYTES, MSG_DONTWAIT) <= 0) {
                break;
            }
        }
    }
    close(socket->fd);
    if (socket->held != NULL) {
        slot_give(port, socket->held);
    }
    stream_door_give(&lcore->reserve, socket);
}

static void
socket_tick(struct port *base)
{
    base->scarce = socket_port_of(base)->free_count < SOCKET_SLOTS / 4;
}

static int
socket_wait_fd(struct port *base)
{
    struct socket_port *port = socket_port_of(base);
    return port->epoll_fd;
}

static void
socket_close(struct port *base)
{
    struct socket_port *port = socket_port_of(base);
    close(port->epoll_fd);
    free(port->slots);
    free(port);
}

const struct port_ops socket_port_ops = {
    .poll = socket_poll,
    .flush = socket_flush,
    .settle = socket_settle,
    .session_close = socket_session_close,
    .tick = socket_tick,
    .wait_fd = socket_wait_fd,
    .close = socket_close,
};
