#include "tools/bench/floor.h"
#include "codec/envelope.h"
#include "config/cycles.h"
#include "config/sync.h"
#include "tools/bench/machine.h"
#include "tools/client/bare_fabric.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SILENCE_NS      10000000000
#define SPINS_PER_CLOCK 4096
#define ADDRESS_BYTES   256
#define OPEN_TIMEOUT_MS 20000

/* What the measuring process tells the peer over the control socket. */
struct floor_order {
    struct floor_sizes sizes;
    uint32_t count;
};

/* One end: this process's, or the peer's. */
struct floor_end {
    int fd;                   /* stream; else -1 */
    struct bare_fabric *bare; /* fabric; else NULL */
    uint8_t *buffer;
    uint32_t buffer_bytes;
};

struct floor {
    enum floor_kind kind;
    struct client_fabric fabric;
    pid_t peer;
    int control;
    struct floor_end end;
};

static bool
say(char *why, size_t why_bytes, const char *what, const char *reason)
{
    snprintf(why, why_bytes, "the bare transport: %s: %s", what, reason);
    return false;
}

/* ---- one message either way, the same for both ends ---- */

static bool
stream_send(struct floor_end *end, uint32_t bytes)
{
    for (uint32_t sent = 0; sent < bytes;) {
        ssize_t now = send(end->fd, end->buffer + sent, bytes - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (now < 0 && errno != EAGAIN && errno != EINTR) {
            return false;
        }
        sent += now > 0 ? (uint32_t)now : 0;
    }
    return true;
}

static bool
stream_receive(struct floor_end *end, uint32_t bytes)
{
    int64_t deadline = 0;
    uint32_t spins = 1;
    for (uint32_t received = 0; received < bytes; spins++) {
        ssize_t now = recv(end->fd, end->buffer + received, bytes - received, MSG_DONTWAIT);
        if (now == 0 || (now < 0 && errno != EAGAIN && errno != EINTR)) {
            return false;
        }
        received += now > 0 ? (uint32_t)now : 0;
        if (UNLIKELY(spins % SPINS_PER_CLOCK == 0)) {
            deadline = deadline == 0 ? machine_now_ns() + SILENCE_NS : deadline;
            if (machine_now_ns() > deadline) {
                return false;
            }
        }
    }
    return true;
}

static bool
fabric_receive(struct floor_end *end, uint64_t *tag)
{
    int64_t deadline = 0;
    for (uint32_t spins = 1;; spins++) {
        int64_t bytes = bare_fabric_receive(end->bare, tag);
        if (bytes != 0) {
            return bytes > 0;
        }
        cpu_relax();
        if (UNLIKELY(spins % SPINS_PER_CLOCK == 0)) {
            deadline = deadline == 0 ? machine_now_ns() + SILENCE_NS : deadline;
            if (machine_now_ns() > deadline) {
                return false;
            }
        }
    }
}

static bool
end_send(struct floor_end *end, uint32_t bytes, uint64_t tag)
{
    return end->bare != NULL ? bare_fabric_send(end->bare, bytes + ENVELOPE_BYTES, tag) : stream_send(end, bytes);
}

/* Streams count bytes and carry no tag: *tag stays as it is. */
static bool
end_receive(struct floor_end *end, uint32_t bytes, uint64_t *tag)
{
    return end->bare != NULL ? fabric_receive(end, tag) : stream_receive(end, bytes);
}

static bool
end_reserve(struct floor_end *end, const struct floor_sizes *sizes)
{
    uint32_t bytes = sizes->request_bytes;
    for (uint32_t i = 0; i < sizes->reply_count; i++) {
        bytes = MAX(bytes, sizes->reply_bytes[i]);
    }
    if (bytes > end->buffer_bytes) {
        uint8_t *buffer = realloc(end->buffer, bytes);
        if (buffer == NULL) {
            return false;
        }
        memset(buffer, 'x', bytes);
        end->buffer = buffer;
        end->buffer_bytes = bytes;
    }
    return true;
}

/* ---- control ---- */

static bool
control_write(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t now = send(fd, at, bytes, MSG_NOSIGNAL);
        if (now < 0 && errno != EINTR) {
            return false;
        }
        at += now > 0 ? now : 0;
        bytes -= now > 0 ? (size_t)now : 0;
    }
    return true;
}

static bool
control_read(int fd, void *data, size_t bytes, int timeout_ms)
{
    char *at = data;
    while (bytes > 0) {
        struct pollfd ready = { .fd = fd, .events = POLLIN };
        int polled = poll(&ready, 1, timeout_ms);
        if (polled == 0 || (polled < 0 && errno != EINTR)) {
            return false;
        }
        ssize_t now = polled < 0 ? -1 : recv(fd, at, bytes, 0);
        if (now == 0 || (now < 0 && errno != EINTR)) {
            return false;
        }
        at += now > 0 ? now : 0;
        bytes -= now > 0 ? (size_t)now : 0;
    }
    return true;
}

/* An address, or why there is none. */
struct floor_hello {
    uint32_t address_bytes; /* 0: `text` says why */
    union {
        uint8_t address[ADDRESS_BYTES];
        char text[ADDRESS_BYTES];
    };
};

/* Open our endpoint and exchange addresses with the other end. */
static bool
fabric_open(struct floor_end *end, const struct client_fabric *fabric, int control, char *why, size_t why_bytes)
{
    struct floor_hello ours = { 0 }, theirs;
    char reason[CLIENT_WHY_BYTES] = "";
    end->bare = bare_fabric_open(fabric, reason, sizeof(reason));
    if (end->bare != NULL) {
        struct slice address = bare_fabric_address(end->bare);
        CHECK(address.bytes > 0 && address.bytes <= sizeof(ours.address));
        ours.address_bytes = (uint32_t)address.bytes;
        memcpy(ours.address, address.data, address.bytes);
    } else {
        snprintf(ours.text, sizeof(ours.text), "%.*s", (int)sizeof(ours.text) - 1, reason);
    }
    if (!control_write(control, &ours, sizeof(ours)) ||
        !control_read(control, &theirs, sizeof(theirs), OPEN_TIMEOUT_MS)) {
        return say(why, why_bytes, "opening", "the peer process ended");
    }
    if (end->bare == NULL) {
        return say(why, why_bytes, "opening", reason);
    }
    if (theirs.address_bytes == 0 || theirs.address_bytes > sizeof(theirs.address)) {
        theirs.text[sizeof(theirs.text) - 1] = '\0';
        return say(why, why_bytes, "opening the peer", theirs.text);
    }
    return bare_fabric_peer(end->bare, slice_of(theirs.address, theirs.address_bytes), why, why_bytes);
}

/* ---- the peer process ---- */

static void
peer_block(struct floor_end *end, const struct floor_order *order)
{
    for (uint32_t i = 0; i < order->count; i++) {
        uint64_t tag = 0;
        if (!end_receive(end, order->sizes.request_bytes, &tag)) {
            _exit(1);
        }
        for (uint32_t j = 0; j < order->sizes.reply_count; j++) {
            if (!end_send(end, order->sizes.reply_bytes[j], tag)) {
                _exit(1);
            }
        }
    }
}

_Noreturn void
floor_peer_run(enum floor_kind kind, const struct client_fabric *fabric, int control, int stream, int cpu)
{
    struct floor_end end = { .fd = stream };
    struct floor_order order;
    char why[CLIENT_WHY_BYTES], begun;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN); /* blocks end whole; the parent ends us */
    signal(SIGTERM, SIG_DFL);
    machine_pin(cpu);
    if (kind == FLOOR_FABRIC) {
        if (!control_read(control, &begun, 1, -1) || !fabric_open(&end, fabric, control, why, sizeof(why))) {
            _exit(1);
        }
    }
    while (control_read(control, &order, sizeof(order), -1)) {
        if (!end_reserve(&end, &order.sizes) || !control_write(control, "r", 1)) {
            break;
        }
        peer_block(&end, &order);
    }
    bare_fabric_close(end.bare);
    _exit(0);
}

/* ---- this process ---- */

static int
tcp_listen(struct sockaddr_in *address)
{
    socklen_t bytes = sizeof(*address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    if (fd >= 0 && (bind(fd, (struct sockaddr *)address, bytes) != 0 || listen(fd, 1) != 0 ||
                    getsockname(fd, (struct sockaddr *)address, &bytes) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool
tcp_pair(int fds[2])
{
    struct sockaddr_in address;
    int one = 1, listener = tcp_listen(&address);
    if (listener < 0) {
        return false;
    }
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fds[1] = -1;
    if (fds[0] >= 0 && connect(fds[0], (struct sockaddr *)&address, sizeof(address)) == 0) {
        fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    }
    close(listener);
    if (fds[1] < 0) {
        close(fds[0]);
        return false;
    }
    setsockopt(fds[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fds[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return true;
}

static bool
stream_pair(enum floor_kind kind, int fds[2])
{
    fds[0] = fds[1] = -1;
    switch (kind) {
    case FLOOR_TCP:
        return tcp_pair(fds);
    case FLOOR_UNIX:
        return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0;
    case FLOOR_FABRIC:
        break;
    }
    return true;
}

struct floor *
floor_make(enum floor_kind kind, const struct client_fabric *fabric, int control, int stream, pid_t peer)
{
    struct floor *floor = calloc(1, sizeof(*floor));
    CHECK(floor != NULL);
    floor->kind = kind;
    floor->fabric = fabric != NULL ? *fabric : (struct client_fabric){ 0 };
    floor->control = control;
    floor->end.fd = stream;
    floor->peer = peer;
    return floor;
}

struct floor *
floor_open(enum floor_kind kind, const struct client_fabric *fabric, int peer_cpu, char *why, size_t why_bytes)
{
    int control[2], streams[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) != 0) {
        say(why, why_bytes, "control socket", strerror(errno));
        return NULL;
    }
    if (!stream_pair(kind, streams)) {
        say(why, why_bytes, "stream socket", strerror(errno));
        close(control[0]);
        close(control[1]);
        return NULL;
    }
    fflush(NULL);
    pid_t peer = fork();
    CHECK(peer >= 0);
    if (peer == 0) {
        close(control[0]);
        if (streams[0] >= 0) {
            close(streams[0]);
        }
        floor_peer_run(kind, fabric, control[1], streams[1], peer_cpu);
    }
    close(control[1]);
    if (streams[1] >= 0) {
        close(streams[1]);
    }
    return floor_make(kind, fabric, control[0], streams[0], peer);
}

bool
floor_connect(struct floor *floor, char *why, size_t why_bytes)
{
    if (floor->kind != FLOOR_FABRIC) {
        return true;
    }
    if (!control_write(floor->control, "o", 1)) {
        return say(why, why_bytes, "opening", "the peer process ended");
    }
    return fabric_open(&floor->end, &floor->fabric, floor->control, why, why_bytes);
}

void
floor_close(struct floor *floor)
{
    if (floor == NULL) {
        return;
    }
    /* Between blocks the peer reads the control socket: its end ends the peer. */
    close(floor->control);
    if (floor->end.fd >= 0) {
        close(floor->end.fd);
    }
    int64_t deadline = machine_now_ns() + SILENCE_NS / 5;
    while (floor->peer != 0 && waitpid(floor->peer, NULL, WNOHANG) == 0) {
        if (machine_now_ns() > deadline) {
            kill(floor->peer, SIGKILL);
            waitpid(floor->peer, NULL, 0);
            break;
        }
        usleep(1000);
    }
    bare_fabric_close(floor->end.bare);
    free(floor->end.buffer);
    free(floor);
}

pid_t
floor_peer(const struct floor *floor)
{
    return floor->peer;
}

uint32_t
floor_frame_bytes(const struct floor *floor)
{
    return floor->end.bare != NULL ? bare_fabric_frame_bytes(floor->end.bare) : UINT32_MAX;
}

bool
floor_run(struct floor *floor, const struct floor_sizes *sizes, uint64_t *ticks, uint32_t count, char *why,
          size_t why_bytes)
{
    const struct floor_order order = { .sizes = *sizes, .count = count };
    char ready;
    bool in_turn = true;
    if (!end_reserve(&floor->end, sizes)) {
        return say(why, why_bytes, "buffers", "no memory");
    }
    if (!control_write(floor->control, &order, sizeof(order)) ||
        !control_read(floor->control, &ready, 1, OPEN_TIMEOUT_MS)) {
        return say(why, why_bytes, "a block", "the peer process ended");
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t begin = cycles_now();
        bool good = end_send(&floor->end, sizes->request_bytes, begin);
        for (uint32_t j = 0; good && j < sizes->reply_count; j++) {
            uint64_t tag = begin;
            good = end_receive(&floor->end, sizes->reply_bytes[j], &tag);
            in_turn &= tag == begin;
        }
        ticks[i] = cycles_now() - begin;
        if (UNLIKELY(!good || !in_turn)) {
            return say(why, why_bytes, "a round trip", good ? "a reply out of turn" : "the peer is gone or silent");
        }
    }
    return true;
}
