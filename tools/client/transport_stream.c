/* transport_stream.c - TCP and Unix stream sockets. */
#include "tools/client/client.h"
#include "tools/client/transport.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

struct transport_stream {
    struct transport base;
    int fd;
    char name[160];
};

static struct transport_stream *
stream_of(struct transport *transport)
{
    return CONTAINER_OF(transport, struct transport_stream, base);
}

static ssize_t
failed(struct transport *transport, const char *doing, int error)
{
    snprintf(transport->why, sizeof(transport->why), "%s: %s", doing, strerror(error));
    return -error;
}

static bool
would_block(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

static ssize_t
stream_send(struct transport *transport, const void *data, size_t bytes)
{
    ssize_t sent = send(stream_of(transport)->fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
        return sent;
    }
    return would_block(errno) ? 0 : failed(transport, "sending", errno);
}

static ssize_t
stream_receive(struct transport *transport, void *data, size_t room)
{
    ssize_t received = recv(stream_of(transport)->fd, data, room, MSG_DONTWAIT);
    if (received > 0) {
        return received;
    }
    if (received == 0) {
        snprintf(transport->why, sizeof(transport->why), "the server closed the connection");
        return -ECONNRESET;
    }
    return would_block(errno) ? 0 : failed(transport, "receiving", errno);
}

static void
stream_wait(struct transport *transport, bool want_send, int timeout_ms)
{
    struct pollfd poll_fd = { .fd = stream_of(transport)->fd, .events = POLLIN };
    if (want_send) {
        poll_fd.events |= POLLOUT;
    }
    poll(&poll_fd, 1, timeout_ms);
}

static int
stream_fd(const struct transport *transport)
{
    return stream_of((struct transport *)transport)->fd;
}

static void
stream_describe(const struct transport *transport, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "%s", stream_of((struct transport *)transport)->name);
}

static void
stream_state(const struct transport *transport, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "%s", ""); /* the kernel's to say: ss -tin */
}

static void
stream_close(struct transport *transport)
{
    struct transport_stream *stream = stream_of(transport);
    close(stream->fd);
    free(stream);
}

static const struct transport_ops stream_ops = {
    .send = stream_send,
    .receive = stream_receive,
    .wait = stream_wait,
    .fd = stream_fd,
    .describe = stream_describe,
    .state = stream_state,
    .close = stream_close,
};

static int64_t
monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Finish a non-blocking connect. 0 or -errno. */
static int
connect_wait(int fd, int timeout_ms)
{
    int64_t deadline = monotonic_ms() + timeout_ms;
    for (;;) {
        int64_t left = timeout_ms < 0 ? -1 : deadline - monotonic_ms();
        struct pollfd poll_fd = { .fd = fd, .events = POLLOUT };
        int ready = poll(&poll_fd, 1, timeout_ms < 0 ? -1 : (int)MAX(left, 0));
        if (ready > 0) {
            break;
        }
        if (ready == 0) {
            return -ETIMEDOUT;
        }
        if (errno != EINTR) {
            return -errno;
        }
    }
    int error = 0;
    socklen_t error_bytes = sizeof(error);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) != 0) {
        return -errno;
    }
    return -error;
}

/* A connected descriptor, or -errno. */
static int
address_connect(const struct sockaddr *address, socklen_t address_bytes, int timeout_ms)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    int result = 0;
    if (connect(fd, address, address_bytes) != 0) {
        /* A Unix socket says EAGAIN when the server's backlog is full: to be tried again by the caller. */
        result = errno == EINPROGRESS || errno == EINTR ? connect_wait(fd, timeout_ms) : -errno;
    }
    if (result == 0 && address->sa_family != AF_UNIX) {
        int one = 1;
        if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0) {
            result = -errno;
        }
    }
    if (result != 0) {
        close(fd);
        return result;
    }
    return fd;
}

static int
unix_connect(const struct client_options *options, char *why, size_t why_bytes)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (strlen(options->path) >= sizeof(address.sun_path)) {
        snprintf(why, why_bytes, "%s: a Unix socket's path has at most %zu bytes", options->path,
                 sizeof(address.sun_path) - 1);
        return -ENAMETOOLONG;
    }
    strcpy(address.sun_path, options->path);
    int fd = address_connect((const struct sockaddr *)&address, sizeof(address), options->timeout_ms);
    if (fd < 0) {
        snprintf(why, why_bytes, "could not connect to %s: %s", options->path, strerror(-fd));
    }
    return fd;
}

/* "[::1]" -> "::1" */
static void
host_unbracket(const char *host, char *out, size_t out_bytes)
{
    size_t length = strlen(host);
    if (length >= 2 && host[0] == '[' && host[length - 1] == ']') {
        host++;
        length -= 2;
    }
    snprintf(out, out_bytes, "%.*s", (int)length, host);
}

static int
tcp_connect(const struct client_options *options, char *why, size_t why_bytes)
{
    char host[256], port[8];
    host_unbracket(options->host, host, sizeof(host));
    snprintf(port, sizeof(port), "%u", options->port);

    const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct addrinfo *addresses = NULL;
    int error = getaddrinfo(host, port, &hints, &addresses);
    if (error != 0) {
        snprintf(why, why_bytes, "could not find %s: %s", host, gai_strerror(error));
        return -EHOSTUNREACH;
    }
    int fd = -EHOSTUNREACH;
    for (const struct addrinfo *a = addresses; a != NULL && fd < 0; a = a->ai_next) {
        fd = address_connect(a->ai_addr, a->ai_addrlen, options->timeout_ms);
    }
    freeaddrinfo(addresses);
    if (fd < 0) {
        snprintf(why, why_bytes, "could not connect to %s:%s: %s", host, port, strerror(-fd));
    }
    return fd;
}

int
transport_stream_open(const struct client_options *options, struct transport **out, char *why, size_t why_bytes)
{
    int fd = options->path != NULL ? unix_connect(options, why, why_bytes) : tcp_connect(options, why, why_bytes);
    if (fd < 0) {
        return fd;
    }
    struct transport_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL) {
        close(fd);
        snprintf(why, why_bytes, "no memory");
        return -ENOMEM;
    }
    stream->base.ops = &stream_ops;
    stream->fd = fd;
    if (options->path != NULL) {
        snprintf(stream->name, sizeof(stream->name), "unix %s", options->path);
    } else {
        snprintf(stream->name, sizeof(stream->name), "tcp %s:%u", options->host, options->port);
    }
    *out = &stream->base;
    return 0;
}
