#include "mgmt/ctl_server.h"
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINES_PER_TURN  16         /* of one client, then the others have a turn */
#define OUT_SOFT_BYTES  (64 * KIB) /* above: this client's next line waits */
#define ACCEPT_PER_TURN 64

#define REFUSAL "{\"version\":1,\"ok\":false,\"error\":\"too many management clients\"}\n"

static void client_ready(struct watch *watch, uint32_t events);
static void client_close(struct ctl_client *client);

static size_t
client_pending(const struct ctl_client *client)
{
    return client->out.used - client->sent;
}

/* Ask the kernel for what can be handled now and nothing else. */
static void
client_watch(struct ctl_client *client)
{
    uint32_t events = 0;

    if (!client->ended && !client->waiting && client_pending(client) <= OUT_SOFT_BYTES) {
        events |= EPOLLIN;
    }
    if (client_pending(client) > 0 || client->more) {
        events |= EPOLLOUT; /* with lines at hand: come back at once when the socket has room */
    }
    loop_change(client->server->loop, &client->watch, events);
}

/* ---- out ---- */

/* False: the connection is gone. */
static bool
client_flush(struct ctl_client *client)
{
    while (client_pending(client) > 0) {
        ssize_t sent = send(client->watch.fd, client->out.bytes + client->sent, client_pending(client), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0) {
            return errno == EAGAIN;
        }
        client->sent += (size_t)sent;
        client->active_ms = loop_now_ms();
    }
    text_clear(&client->out);
    client->sent = 0;
    return true;
}

/* What a connection reads that has no place, if it can. */
static void
fd_refuse(int fd)
{
    ssize_t sent = send(fd, REFUSAL, sizeof(REFUSAL) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent;
}

/* Say why and end it: bad input after this cannot be told from good. */
static void
client_refuse(struct ctl_client *client, const char *why)
{
    text_print(&client->out, "{\"version\":1,\"ok\":false,\"error\":\"%s\"}\n", why);
    client->closing = true;
    client->close_at_ms = loop_now_ms() + CTL_LINGER_MS;
    client->in_bytes = client->scanned = 0;
    client->server->closed_for_cause++;
}

/* ---- in ---- */

static void
client_line(struct ctl_client *client, char *line, size_t bytes)
{
    struct ctl_server *server = client->server;
    char *end = line + bytes;

    if (bytes > 0 && end[-1] == '\r') {
        end--;
    }
    *end = '\0';
    if (end == line) {
        return; /* an empty line asks nothing */
    }
    client->active_ms = loop_now_ms();
    size_t before = client->out.used;
    if (server->line(server->context, client, line, (size_t)(end - line), &client->out) == CTL_LATER) {
        client->waiting = true;
    } else if (client->out.used - before > LIMIT_CTL_OUTPUT_BYTES) {
        client->out.used = before;
        client_refuse(client, "the answer is too long");
    }
}

/* What is at hand is no whole line and will not become one. */
static void
client_check_rest(struct ctl_client *client)
{
    if (client->in_bytes > LIMIT_CTL_LINE_BYTES) {
        client_refuse(client, "the line is too long");
    } else if (client->ended && client->in_bytes > 0) {
        client_refuse(client, "the line has no end");
    }
}

/* Whole lines at hand, a bounded number of them. */
static void
client_lines(struct ctl_client *client)
{
    client->more = false;
    for (int lines = 0; !client->waiting && !client->closing; lines++) {
        char *end = NULL;
        if (client->scanned < client->in_bytes) {
            end = memchr(client->in + client->scanned, '\n', client->in_bytes - client->scanned);
        }
        if (end == NULL) {
            client->scanned = client->in_bytes;
            client_check_rest(client);
            return;
        }
        if (lines == LINES_PER_TURN || client_pending(client) > OUT_SOFT_BYTES) {
            client->more = true;
            return;
        }
        size_t bytes = (size_t)(end - client->in);
        client_line(client, client->in, bytes);
        if (!client->closing) {
            memmove(client->in, end + 1, client->in_bytes - bytes - 1);
            client->in_bytes -= bytes + 1;
            client->scanned = 0;
            client->line_ms = loop_now_ms();
        }
    }
}

/* False: the connection is gone. */
static bool
client_read(struct ctl_client *client)
{
    size_t room = LIMIT_CTL_LINE_BYTES + 1 - client->in_bytes;

    if (room == 0) {
        return true; /* lines at hand come first */
    }
    ssize_t got = recv(client->watch.fd, client->in + client->in_bytes, room, 0);
    if (got < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    client->ended = got == 0;
    if (client->in_bytes == 0) {
        client->line_ms = loop_now_ms();
    }
    client->in_bytes = client->closing ? 0 : client->in_bytes + (size_t)got;
    return true;
}

/* Everything that can be done for this client now. */
static void
client_go_on(struct ctl_client *client)
{
    client_lines(client);
    if (!client_flush(client)) {
        client_close(client);
        return;
    }
    bool done =
        client->ended && !client->waiting && client_pending(client) == 0 && (client->closing || client->in_bytes == 0);
    if (done) {
        client_close(client);
        return;
    }
    client_watch(client);
}

static void
client_ready(struct watch *watch, uint32_t events)
{
    struct ctl_client *client = (struct ctl_client *)watch;

    /* A client that only shut its sending side down still reads. EPOLLHUP: both sides are gone. */
    if ((events & (EPOLLERR | EPOLLHUP)) && !(events & EPOLLIN)) {
        client_close(client);
        return;
    }
    if ((events & EPOLLIN) && !client_read(client)) {
        client_close(client);
        return;
    }
    client_go_on(client);
}

static void
client_close(struct ctl_client *client)
{
    struct ctl_server *server = client->server;

    for (size_t i = 0; i < ARRAY_COUNT(server->clients); i++) {
        if (server->clients[i] == client) {
            server->clients[i] = NULL;
        }
    }
    loop_remove(server->loop, &client->watch);
    close(client->watch.fd);
    text_fini(&client->out);
    free(client->in);
    free(client);
}

/* ---- connections ---- */

static bool
is_trusted(const struct ctl_server *server, uid_t uid)
{
    return uid == 0 || uid == server->owner;
}

/* Close the client that has been of no use for longest: no running request, and CTL_EVICT_MS of silence, so that a
 * burst of newcomers does not close those whose request is on its way. Strangers do not push out the trusted. */
static void
server_make_room(struct ctl_server *server, bool trusted)
{
    struct ctl_client *oldest = NULL;
    int64_t now_ms = loop_now_ms();

    for (size_t i = 0; i < ARRAY_COUNT(server->clients); i++) {
        struct ctl_client *client = server->clients[i];
        bool idle = client != NULL && !client->waiting && (trusted || !is_trusted(server, client->uid)) &&
                    (client->closing || now_ms - client->active_ms >= CTL_EVICT_MS);
        if (idle && (oldest == NULL || client->active_ms < oldest->active_ms)) {
            oldest = client;
        }
    }
    if (oldest != NULL) {
        if (client_pending(oldest) == 0) { /* else it would be read as part of an answer */
            fd_refuse(oldest->watch.fd);
        }
        server->evicted++;
        client_close(oldest);
    }
}

/* A free place for a peer of this uid, or LIMIT_CTL_CLIENTS. */
static size_t
server_place(struct ctl_server *server, uid_t uid)
{
    bool trusted = is_trusted(server, uid);
    size_t most = ARRAY_COUNT(server->clients) - (trusted ? 0 : CTL_KEPT), place = 0;

    if (ctl_server_clients(server) >= most) {
        server_make_room(server, trusted);
    }
    if (ctl_server_clients(server) >= most) {
        return ARRAY_COUNT(server->clients);
    }
    while (server->clients[place] != NULL) {
        place++;
    }
    return place;
}

bool
ctl_server_take(struct ctl_server *server, int fd)
{
    struct ucred peer = { .uid = (uid_t)-1 };
    socklen_t bytes = sizeof(peer);
    bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0;
    size_t place = known ? server_place(server, peer.uid) : ARRAY_COUNT(server->clients);

    if (place == ARRAY_COUNT(server->clients)) {
        fd_refuse(fd);
        server->refused++;
        close(fd);
        return false;
    }
    struct ctl_client *client = calloc(1, sizeof(*client));
    CHECK(client != NULL);
    client->watch = (struct watch){ .fd = fd, .events = EPOLLIN, .ready = client_ready };
    client->server = server;
    client->id = ++server->ids;
    client->uid = peer.uid;
    client->pid = peer.pid;
    client->in = malloc(LIMIT_CTL_LINE_BYTES + 2);
    CHECK(client->in != NULL);
    client->active_ms = loop_now_ms();
    server->clients[place] = client;
    server->accepted++;
    loop_add(server->loop, &client->watch);
    return true;
}

static void
server_ready(struct watch *watch, uint32_t events)
{
    struct ctl_server *server = (struct ctl_server *)watch;

    for (int i = 0; i < ACCEPT_PER_TURN; i++) {
        int fd = accept4(watch->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            /* The pending connection would wake us at once again. */
            server->paused_until_ms = loop_now_ms() + 100;
            loop_change(server->loop, watch, 0);
            return;
        }
        if (fd < 0) {
            return;
        }
        ctl_server_take(server, fd);
    }
}

void
ctl_server_open(struct ctl_server *server, struct loop *loop, int listen_fd, ctl_line_fn line, void *context)
{
    memset(server, 0, sizeof(*server));
    server->loop = loop;
    server->line = line;
    server->context = context;
    server->owner = geteuid();
    server->watch = (struct watch){ .fd = listen_fd, .events = EPOLLIN, .ready = server_ready };
    if (listen_fd >= 0) {
        loop_add(loop, &server->watch);
    }
}

void
ctl_server_close(struct ctl_server *server)
{
    for (size_t i = 0; i < ARRAY_COUNT(server->clients); i++) {
        if (server->clients[i] != NULL) {
            client_close(server->clients[i]);
        }
    }
    if (server->watch.fd >= 0) {
        loop_remove(server->loop, &server->watch);
    }
}

void
ctl_server_answer(struct ctl_server *server, uint64_t client_id, const char *bytes, size_t count)
{
    for (size_t i = 0; i < ARRAY_COUNT(server->clients); i++) {
        struct ctl_client *client = server->clients[i];
        if (client == NULL || client->id != client_id || !client->waiting) {
            continue;
        }
        client->waiting = false;
        client->active_ms = loop_now_ms();
        if (count > LIMIT_CTL_OUTPUT_BYTES) {
            client_refuse(client, "the answer is too long");
        } else {
            text_append(&client->out, bytes, count);
        }
        client_go_on(client);
        return;
    }
}

/* A line that was begun and could have been finished. */
static bool
client_is_slow(struct ctl_client *client, int64_t now_ms)
{
    bool unread = client->waiting || client->more || client_pending(client) > OUT_SOFT_BYTES;

    if (client->in_bytes == 0 || client->closing) {
        return false;
    }
    if (unread) {
        client->line_ms = now_ms; /* we are the slow ones */
    }
    return now_ms - client->line_ms >= CTL_LINE_MS;
}

void
ctl_server_tick(struct ctl_server *server, int64_t now_ms)
{
    if (server->paused_until_ms != 0 && now_ms >= server->paused_until_ms) {
        server->paused_until_ms = 0;
        loop_change(server->loop, &server->watch, EPOLLIN);
    }
    for (size_t i = 0; i < ARRAY_COUNT(server->clients); i++) {
        struct ctl_client *client = server->clients[i];
        if (client == NULL) {
            continue;
        }
        int64_t silent_ms = now_ms - client->active_ms;
        bool late = (client->closing && now_ms >= client->close_at_ms) ||
                    (client_pending(client) > 0 && silent_ms >= CTL_STALL_MS) ||
                    (!client->waiting && silent_ms >= CTL_IDLE_MS);
        if (late) {
            client_close(client);
        } else if (client_is_slow(client, now_ms)) {
            client_refuse(client, "the line was not finished in time");
            client_go_on(client);
        }
    }
}

uint32_t
ctl_server_clients(const struct ctl_server *server)
{
    uint32_t count = 0;
    for (size_t i = 0; i < ARRAY_COUNT(server->clients); i++) {
        count += server->clients[i] != NULL;
    }
    return count;
}

bool
ctl_server_is_flushed(const struct ctl_server *server)
{
    for (size_t i = 0; i < ARRAY_COUNT(server->clients); i++) {
        if (server->clients[i] != NULL && client_pending(server->clients[i]) > 0) {
            return false;
        }
    }
    return true;
}
