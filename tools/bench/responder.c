/* responder.c - a null responder. */
#include "tools/bench/responder.h"
#include "codec/sbe_client.h"
#include "config/sync.h"
#include "tools/bench/machine.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS_MAX       64
#define RECEIVE_BYTES    (256 * 1024)
/* Answers at hand for one send, and about as many bytes of them. */
#define BLOCK_REPLIES    1024
#define BLOCK_BYTES      (64u << 20)
/* Turns on the only connection between two looks at the others. */
#define TURNS_PER_EVENTS 256
/* Requests of one connection that wait for a planted delay; a power of two. */
#define DELAYED_MAX      65536

struct responder_connection {
    struct responder_connection *next;
    int fd;
    uint32_t skip;               /* bytes still to be ignored */
    uint32_t position;           /* in the schedule: of the request being received */
    uint64_t partial;            /* bytes of it received */
    uint64_t owed_from, owed_to; /* answers, counted since the connection began */
    uint32_t owed_bytes;         /* of the first owed answer, already sent */
    /* with delays: when requests [owed_to, arrived) may be answered, by their number's low bits */
    uint64_t arrived;
    int64_t *due_ns;
};

struct responder {
    struct responder_plan plan;
    int listener, epoll, stop;
    uint16_t port;
    uint64_t arrived; /* of all connections */
    uint32_t schedule_count;
    uint32_t request_bytes[SCANNER_SCHEDULE_MAX];
    bool uniform; /* all requests are equally long */
    /* BLOCK_REPLIES answers rounded down to whole schedules; offsets[i] is where the i-th begins */
    uint8_t *block;
    uint32_t *offsets;
    uint32_t block_count;
    struct responder_connection *connections;
    uint8_t *buffer;
    pthread_t thread;
};

/* ---- answers ---- */

static uint8_t *
sbe_answer(uint8_t *at, enum expected_kind kind, struct slice value)
{
    uint8_t *body = at + SBE_FRAME_HEADER_BYTES, *end;
    switch (kind) {
    case EXPECT_INTEGER:
        end = sbe_integer_reply_put(body, 7, 1);
        break;
    case EXPECT_VALUE:
    case EXPECT_BULK:
        end = sbe_put_data(sbe_bulk_reply_put(body, 7), value);
        break;
    case EXPECT_DOUBLE:
        end = sbe_double_reply_put(body, 7, 123.5);
        break;
    case EXPECT_PONG:
        end = sbe_put_data(sbe_status_reply_put(body, 7, SBE_STATUS_CODE_PONG), (struct slice){ NULL, 0 });
        break;
    default:
        end = sbe_put_data(sbe_status_reply_put(body, 7, SBE_STATUS_CODE_OK), (struct slice){ NULL, 0 });
    }
    sbe_store_uint32(at, (uint32_t)(end - body));
    return end;
}

static uint8_t *
resp_answer(uint8_t *at, enum expected_kind kind, struct slice value)
{
    switch (kind) {
    case EXPECT_INTEGER:
        return at + sprintf((char *)at, ":1\r\n");
    case EXPECT_PONG:
        return at + sprintf((char *)at, "+PONG\r\n");
    case EXPECT_DOUBLE:
        return at + sprintf((char *)at, "$5\r\n123.5\r\n");
    case EXPECT_VALUE:
    case EXPECT_BULK:
        at += sprintf((char *)at, "$%zu\r\n", value.bytes);
        memcpy(at, value.data, value.bytes);
        memcpy(at + value.bytes, "\r\n", 2);
        return at + value.bytes + 2;
    default:
        return at + sprintf((char *)at, "+OK\r\n");
    }
}

static void
block_make(struct responder *responder, const uint8_t *schedule)
{
    const struct responder_plan *plan = &responder->plan;
    size_t value_bytes = 0;
    for (uint32_t i = 0; i < plan->op_count; i++) {
        value_bytes = MAX(value_bytes, (size_t)plan->ops[i].value_bytes);
    }
    uint8_t *letters = malloc(value_bytes + 1);
    uint32_t turns = (uint32_t)MAX((size_t)1, MIN(BLOCK_REPLIES / responder->schedule_count,
                                                  BLOCK_BYTES / (responder->schedule_count * (value_bytes + 64))));
    responder->block_count = turns * responder->schedule_count;
    responder->block = malloc((size_t)responder->block_count * (value_bytes + 64));
    responder->offsets = malloc((responder->block_count + 1) * sizeof(*responder->offsets));
    CHECK(letters != NULL && responder->block != NULL && responder->offsets != NULL);
    memset(letters, 'x', value_bytes);
    uint8_t *at = responder->block;
    for (uint32_t i = 0; i < responder->block_count; i++) {
        const struct load_op *op = &plan->ops[schedule[i % responder->schedule_count]];
        struct slice value = slice_of(letters, op->value_bytes);
        responder->offsets[i] = (uint32_t)(at - responder->block);
        at = plan->wire == CLIENT_SBE ? sbe_answer(at, op->expected, value) : resp_answer(at, op->expected, value);
    }
    responder->offsets[responder->block_count] = (uint32_t)(at - responder->block);
    free(letters);
}

/* ---- serving ---- */

static void
interest_set(struct responder *responder, struct responder_connection *connection, uint32_t events, int operation)
{
    struct epoll_event event = { .events = events, .data.ptr = connection };
    CHECK(epoll_ctl(responder->epoll, operation, connection->fd, &event) == 0);
}

/* Requests completed by `bytes` more. */
static uint64_t
requests_count(struct responder *responder, struct responder_connection *connection, size_t bytes)
{
    size_t skipped = MIN(bytes, (size_t)connection->skip);
    uint64_t whole = 0;
    connection->skip -= (uint32_t)skipped;
    connection->partial += bytes - skipped;
    if (responder->uniform) {
        whole = connection->partial / responder->request_bytes[0];
        connection->partial -= whole * responder->request_bytes[0];
        return whole;
    }
    while (connection->partial >= responder->request_bytes[connection->position]) {
        connection->partial -= responder->request_bytes[connection->position];
        connection->position = (connection->position + 1) % responder->schedule_count;
        whole++;
    }
    return whole;
}

static void
requests_delay(struct responder *responder, struct responder_connection *connection, uint64_t count)
{
    const struct responder_plan *plan = &responder->plan;
    int64_t now = machine_now_ns();
    CHECK(connection->arrived + count - connection->owed_to <= DELAYED_MAX);
    for (uint64_t i = 0; i < count; i++) {
        uint32_t delay_us = plan->delays_us[(responder->arrived + i) % plan->delay_count];
        connection->due_ns[connection->arrived++ % DELAYED_MAX] = now + (int64_t)delay_us * 1000;
    }
}

static void
requests_take(struct responder *responder, struct responder_connection *connection, uint64_t count)
{
    const struct responder_plan *plan = &responder->plan;
    if (plan->delays_us != NULL) {
        requests_delay(responder, connection, count);
    } else {
        connection->owed_to += count;
    }
    if (plan->pause_after > responder->arrived && plan->pause_after <= responder->arrived + count) {
        usleep(plan->pause_ms * 1000);
    }
    responder->arrived += count;
}

/* False: the connection is over. */
static bool
answers_send(struct responder *responder, struct responder_connection *connection)
{
    while (connection->owed_from < connection->owed_to) {
        uint32_t first = (uint32_t)(connection->owed_from % responder->block_count);
        uint32_t count =
            (uint32_t)MIN(connection->owed_to - connection->owed_from, (uint64_t)(responder->block_count - first));
        uint32_t from = responder->offsets[first] + connection->owed_bytes;
        ssize_t sent = send(connection->fd, responder->block + from, responder->offsets[first + count] - from,
                            MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
        uint32_t reached = from + (uint32_t)sent;
        while (first < responder->block_count && responder->offsets[first + 1] <= reached) {
            first++;
            connection->owed_from++;
        }
        connection->owed_bytes = first < responder->block_count ? reached - responder->offsets[first] : 0;
    }
    return true;
}

/* Answer what is owed. False: the connection is over. */
static bool
connection_answer(struct responder *responder, struct responder_connection *connection, bool owed_before)
{
    if (!answers_send(responder, connection)) {
        return false;
    }
    bool owed = connection->owed_from < connection->owed_to;
    if (owed != owed_before) {
        interest_set(responder, connection, owed ? EPOLLIN | EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD);
    }
    return true;
}

static bool
connection_serve(struct responder *responder, struct responder_connection *connection)
{
    bool owed_before = connection->owed_from < connection->owed_to;
    ssize_t got = recv(connection->fd, responder->buffer, RECEIVE_BYTES, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        return false;
    }
    if (got > 0) {
        requests_take(responder, connection, requests_count(responder, connection, (size_t)got));
    }
    return connection_answer(responder, connection, owed_before);
}

static void
connection_accept(struct responder *responder)
{
    int one = 1, fd = accept4(responder->listener, NULL, NULL, SOCK_CLOEXEC);
    struct responder_connection *connection = fd < 0 ? NULL : calloc(1, sizeof(*connection));
    if (connection == NULL) {
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    *connection =
        (struct responder_connection){ .next = responder->connections, .fd = fd, .skip = responder->plan.skip_bytes };
    if (responder->plan.delays_us != NULL) {
        connection->due_ns = malloc(DELAYED_MAX * sizeof(*connection->due_ns));
        CHECK(connection->due_ns != NULL);
    }
    responder->connections = connection;
    interest_set(responder, connection, EPOLLIN, EPOLL_CTL_ADD);
}

static void
connection_end(struct responder *responder, struct responder_connection *connection)
{
    struct responder_connection **link = &responder->connections;
    while (*link != connection) {
        link = &(*link)->next;
    }
    *link = connection->next;
    close(connection->fd);
    free(connection->due_ns);
    free(connection);
}

/* False: told to stop. */
static bool
events_serve(struct responder *responder, int timeout_ms)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(responder->epoll, events, EVENTS_MAX, timeout_ms);
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr == &responder->stop) {
            return false;
        }
        if (events[i].data.ptr == &responder->listener) {
            connection_accept(responder);
        } else if (!connection_serve(responder, events[i].data.ptr)) {
            connection_end(responder, events[i].data.ptr);
        }
    }
    return true;
}

/* Answer those whose time has come. Returns how long nothing else can be due, in ms; -1: nothing waits. */
static int
delays_serve(struct responder *responder)
{
    int64_t now = machine_now_ns();
    int wait_ms = -1;
    for (struct responder_connection *connection = responder->connections, *next; connection != NULL;
         connection = next) {
        bool owed_before = connection->owed_from < connection->owed_to;
        next = connection->next;
        while (connection->owed_to < connection->arrived &&
               connection->due_ns[connection->owed_to % DELAYED_MAX] <= now) {
            connection->owed_to++;
        }
        wait_ms = connection->owed_to < connection->arrived ? 1 : wait_ms;
        if (!connection_answer(responder, connection, owed_before)) {
            connection_end(responder, connection);
        }
    }
    return wait_ms;
}

/* With one connection it spins on that, as the generator does, and looks at the others now and then. */
static void *
responder_main(void *argument)
{
    struct responder *responder = argument;
    for (uint32_t turn = 1;; turn++) {
        struct responder_connection *only = responder->connections;
        bool delays = responder->plan.delays_us != NULL, alone = !delays && only != NULL && only->next == NULL;
        if (alone && turn % TURNS_PER_EVENTS != 0) {
            if (!connection_serve(responder, only)) {
                connection_end(responder, only);
            }
        } else if (!events_serve(responder, delays ? delays_serve(responder) : alone ? 0 : -1)) {
            return NULL;
        }
    }
}

/* ---- starting ---- */

static bool
listener_open(struct responder *responder)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t bytes = sizeof(address);
    responder->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (responder->listener < 0 || bind(responder->listener, (struct sockaddr *)&address, bytes) != 0 ||
        listen(responder->listener, 1024) != 0 ||
        getsockname(responder->listener, (struct sockaddr *)&address, &bytes) != 0) {
        return false;
    }
    responder->port = ntohs(address.sin_port);
    return true;
}

/* Lengths of the requests: what a client on this wire would send. It connects to our listener and is not answered. */
static bool
requests_measure(struct responder *responder, const uint8_t *schedule, char *why, size_t why_bytes)
{
    const struct responder_plan *plan = &responder->plan;
    struct client_options options;
    client_options_init(&options);
    options.port = responder->port;
    options.wire = plan->wire;
    struct client *client = client_open(&options, why, why_bytes);
    if (client == NULL) {
        return false;
    }
    bool good = true;
    responder->uniform = true;
    for (uint32_t op = 0; good && op < plan->op_count; op++) {
        struct load_template template;
        good = load_template_make(&template, &plan->ops[op], client, why, why_bytes);
        for (uint32_t i = 0; good && i < responder->schedule_count; i++) {
            if (schedule[i] == op) {
                responder->request_bytes[i] = template.count;
            }
        }
        if (good) {
            load_template_fini(&template);
        }
    }
    for (uint32_t i = 1; i < responder->schedule_count; i++) {
        responder->uniform &= responder->request_bytes[i] == responder->request_bytes[0];
    }
    client_close(client);
    int fd = accept(responder->listener, NULL, NULL);
    if (fd >= 0) {
        close(fd);
    }
    return good;
}

/* It begins on its own CPU: the creator may spin on the one that a new thread would inherit. */
static int
thread_start(struct responder *responder)
{
    pthread_attr_t attributes;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET((size_t)responder->plan.cpu, &cpus);
    CHECK(pthread_attr_init(&attributes) == 0);
    pthread_attr_setaffinity_np(&attributes, sizeof(cpus), &cpus);
    int result = pthread_create(&responder->thread, &attributes, responder_main, responder);
    pthread_attr_destroy(&attributes);
    return result;
}

struct responder *
responder_start(const struct responder_plan *plan, char *why, size_t why_bytes)
{
    uint8_t schedule[SCANNER_SCHEDULE_MAX];
    struct responder *responder = calloc(1, sizeof(*responder));
    CHECK(responder != NULL);
    responder->plan = *plan;
    responder->schedule_count = load_schedule(plan->ops, plan->op_count, schedule);
    responder->buffer = malloc(RECEIVE_BYTES);
    responder->epoll = epoll_create1(EPOLL_CLOEXEC);
    responder->stop = eventfd(0, EFD_CLOEXEC);
    CHECK(responder->buffer != NULL && responder->epoll >= 0 && responder->stop >= 0);
    snprintf(why, why_bytes, "the null responder could not listen: %s", strerror(errno));
    bool good = listener_open(responder) && requests_measure(responder, schedule, why, why_bytes);
    if (good) {
        block_make(responder, schedule);
        struct epoll_event accepts = { .events = EPOLLIN, .data.ptr = &responder->listener };
        struct epoll_event stops = { .events = EPOLLIN, .data.ptr = &responder->stop };
        CHECK(epoll_ctl(responder->epoll, EPOLL_CTL_ADD, responder->listener, &accepts) == 0 &&
              epoll_ctl(responder->epoll, EPOLL_CTL_ADD, responder->stop, &stops) == 0 && thread_start(responder) == 0);
        return responder;
    }
    close(responder->listener);
    close(responder->epoll);
    close(responder->stop);
    free(responder->buffer);
    free(responder);
    return NULL;
}

uint16_t
responder_port(const struct responder *responder)
{
    return responder->port;
}

void
responder_stop(struct responder *responder)
{
    uint64_t one = 1;
    CHECK(write(responder->stop, &one, sizeof(one)) == sizeof(one));
    pthread_join(responder->thread, NULL);
    while (responder->connections != NULL) {
        connection_end(responder, responder->connections);
    }
    close(responder->listener);
    close(responder->epoll);
    close(responder->stop);
    free(responder->block);
    free(responder->offsets);
    free(responder->buffer);
    free(responder);
}
