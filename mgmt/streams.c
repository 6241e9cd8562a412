#include "mgmt/streams.h"
#include "dataplane/port_socket.h"
#include "mgmt/log.h"
#include <errno.h>
#include <netinet/tcp.h>
#include <unistd.h>

#define ACCEPT_PER_TURN 64
#define PORT_TRIES      16 /* a free port must be free on every address */

/* ---- opening ---- */

/* [::1] is in the default list; a machine without IPv6 is no reason not to start. */
static bool
is_absent_by_default(const struct settings *settings, const struct address *address, int error)
{
    return settings->origins[SETTING_ID_streams_address] == SETTING_BY_DEFAULT && address->family == AF_INET6 &&
           (error == -EADDRNOTAVAIL || error == -EAFNOSUPPORT);
}

static int
open_addresses(struct streams *streams, const struct settings *settings, char *why, size_t why_bytes)
{
    streams->port = (uint16_t)settings->streams_port;
    for (uint32_t i = 0; i < settings->address_count; i++) {
        struct listener *listener = &streams->listeners[streams->count].listener;
        int error = listener_open_tcp(listener, &settings->addresses[i], streams->port, "streams", why, why_bytes);
        if (is_absent_by_default(settings, &settings->addresses[i], error)) {
            log_info("no %s on this machine: left out", listener->text);
            continue;
        }
        if (error != 0) {
            return error;
        }
        streams->port = listener_port(listener);
        streams->count++;
    }
    return 0;
}

static void
close_listeners(struct streams *streams)
{
    for (uint32_t i = 0; i < streams->count; i++) {
        listener_close(&streams->listeners[i].listener);
    }
    streams->count = 0;
}

int
streams_open(struct streams *streams, const struct settings *settings, const char *unix_path, char *why,
             size_t why_bytes)
{
    int error = 0;

    memset(streams, 0, sizeof(*streams));
    streams->held_fd = -1;
    for (int tries = 0; tries < PORT_TRIES; tries++) {
        error = open_addresses(streams, settings, why, why_bytes);
        if (error == 0 || settings->streams_port != 0 || error != -EADDRINUSE) {
            break;
        }
        close_listeners(streams);
    }
    if (error == 0 && unix_path[0] != '\0') {
        error = listener_open_unix(&streams->listeners[streams->count].listener, unix_path,
                                   settings->streams_unix_mode_bits, (gid_t)-1, "streams.unix", why, why_bytes);
        streams->count += error == 0;
    }
    if (error != 0) {
        close_listeners(streams);
    }
    return error;
}

/* ---- accepting ---- */

static uint32_t
lcore_with_fewest(struct streams *streams)
{
    const struct dataplane *dataplane = streams->dataplane;
    uint64_t fewest = UINT64_MAX;
    uint32_t best = 0;

    streams->turn++; /* among equals in turn */
    for (uint32_t i = 0; i < dataplane->lcore_count; i++) {
        uint32_t lcore = (streams->turn + i) % dataplane->lcore_count;
        uint64_t sessions = load_relaxed(&dataplane->lcores[lcore]->counters->sessions_open) + streams->posted[lcore];
        if (sessions < fewest) {
            fewest = sessions;
            best = lcore;
        }
    }
    return best;
}

static bool
streams_are_full(const struct streams *streams)
{
    uint64_t sessions = load_relaxed(&streams->dataplane->sessions);
    for (uint32_t i = 0; i < streams->dataplane->lcore_count; i++) {
        sessions += streams->posted[i];
    }
    return sessions >= streams->dataplane->settings->limits_clients;
}

/* False: every ring is full. */
static bool
post_connection(struct streams *streams, int fd, uint32_t flags)
{
    struct mail mail = { .kind = MAIL_ADOPT_SOCKET, .a = (uint64_t)fd, .b = flags };
    uint32_t count = streams->dataplane->lcore_count, first = lcore_with_fewest(streams);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t lcore = (first + i) % count;
        if (dataplane_post(streams->dataplane, lcore, &mail)) {
            streams->posted[lcore]++;
            streams->accepted++;
            return true;
        }
    }
    return false;
}

static void
watch_all(struct streams *streams, uint32_t events)
{
    for (uint32_t i = 0; i < streams->count; i++) {
        loop_change(streams->loop, &streams->listeners[i].watch, events);
    }
}

static void
take_connection(struct stream_listener *from, int fd)
{
    struct streams *streams = from->streams;
    uint32_t flags = from->listener.is_unix ? SOCKET_UNIX : 0;

    if (streams_are_full(streams)) {
        ssize_t sent = send(fd, SESSION_REFUSAL, sizeof(SESSION_REFUSAL) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)sent; /* it is told if it can be */
        close(fd);
        streams->refused++;
        return;
    }
    if (!from->listener.is_unix) {
        int on = 1, idle_s = SESSION_KEEPALIVE_S;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    }
    if (!post_connection(streams, fd, flags)) {
        streams->held_fd = fd;
        streams->held_flags = flags;
        watch_all(streams, 0);
    }
}

static void
listener_ready(struct watch *watch, uint32_t events)
{
    struct stream_listener *from = (struct stream_listener *)watch;
    struct streams *streams = from->streams;

    for (int i = 0; i < ACCEPT_PER_TURN && streams->held_fd < 0; i++) {
        int fd = accept4(watch->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            /* The pending connection would wake us at once again. */
            log_warning("cannot accept a connection: %s; raise the limit of open files", strerror(errno));
            streams->paused_until_ms = loop_now_ms() + 1000;
            watch_all(streams, 0);
            return;
        }
        if (fd < 0) {
            return;
        }
        take_connection(from, fd);
    }
}

void
streams_start(struct streams *streams, struct loop *loop, struct dataplane *dataplane)
{
    streams->loop = loop;
    streams->dataplane = dataplane;
    for (uint32_t i = 0; i < streams->count; i++) {
        struct stream_listener *listener = &streams->listeners[i];
        listener->streams = streams;
        listener->watch = (struct watch){ .fd = listener->listener.fd, .events = EPOLLIN, .ready = listener_ready };
        loop_add(loop, &listener->watch);
    }
}

void
streams_stop(struct streams *streams)
{
    for (uint32_t i = 0; i < streams->count && streams->loop != NULL; i++) {
        loop_remove(streams->loop, &streams->listeners[i].watch);
    }
    close_listeners(streams);
    if (streams->held_fd >= 0) {
        close(streams->held_fd);
        streams->held_fd = -1;
    }
    streams->loop = NULL;
}

bool
streams_tick(struct streams *streams, int64_t now_ms)
{
    memset(streams->posted, 0, sizeof(streams->posted));
    if (streams->held_fd >= 0) {
        if (!post_connection(streams, streams->held_fd, streams->held_flags)) {
            return true;
        }
        streams->held_fd = -1;
        watch_all(streams, streams->paused_until_ms == 0 ? EPOLLIN : 0);
    }
    if (streams->paused_until_ms != 0 && now_ms >= streams->paused_until_ms) {
        streams->paused_until_ms = 0;
        watch_all(streams, EPOLLIN);
    }
    return false;
}
