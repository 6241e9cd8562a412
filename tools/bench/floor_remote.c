/* floor_remote.c - the bare transport between two hosts: sluice-bench floor-peer, and the way to it.
 *
 * A greeting goes first on each connection. The first connection is the control socket of a floor; a kernel TCP floor
 * opens a second one for the stream. Both ends are of one build and byte order. */
#include "tools/bench/bench.h"
#include "tools/bench/floor.h"
#include "tools/bench/machine.h"
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#define GREETING_MAGIC 0x534c4631 /* "SLF1" */
#define GREETING_MS    5000
#define CONNECT_MS     10000

struct greeting {
    uint32_t magic;
    uint32_t kind, send; /* enum floor_kind, enum client_send */
    uint32_t is_stream;  /* the second connection */
    char token[FLOOR_TOKEN_BYTES];
    char provider[32];
};

/* False: the variable is not set, or not of this length. */
static bool
token_read(char token[FLOOR_TOKEN_BYTES])
{
    const char *text = getenv(FLOOR_TOKEN_VARIABLE);
    if (text == NULL || strlen(text) != FLOOR_TOKEN_BYTES) {
        return false;
    }
    memcpy(token, text, FLOOR_TOKEN_BYTES);
    return true;
}

static bool
greeting_read(int fd, struct greeting *greeting)
{
    size_t have = 0;
    while (have < sizeof(*greeting)) {
        struct pollfd ready = { .fd = fd, .events = POLLIN };
        ssize_t got =
            poll(&ready, 1, GREETING_MS) == 1 ? recv(fd, (char *)greeting + have, sizeof(*greeting) - have, 0) : 0;
        if (got <= 0) {
            return false;
        }
        have += (size_t)got;
    }
    greeting->provider[sizeof(greeting->provider) - 1] = '\0';
    return greeting->magic == GREETING_MAGIC;
}

/* ---- to the peer ---- */

static int
connect_to(const char *host, uint16_t port, const struct greeting *greeting, char *why, size_t why_bytes)
{
    char service[8];
    int one = 1, fd = -1;
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    const struct timeval patience = { .tv_sec = CONNECT_MS / 1000 };
    struct addrinfo *list = NULL;
    snprintf(service, sizeof(service), "%u", port);
    int rc = getaddrinfo(host, service, &hints, &list);
    if (rc != 0) {
        snprintf(why, why_bytes, "the bare transport: %.200s: %s", host, gai_strerror(rc));
        return -1;
    }
    fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) == 0 &&
                connect(fd, list->ai_addr, list->ai_addrlen) == 0 &&
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0 &&
                send(fd, greeting, sizeof(*greeting), MSG_NOSIGNAL) == (ssize_t)sizeof(*greeting);
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    char welcome;
    if (good && (poll(&ready, 1, CONNECT_MS) != 1 || recv(fd, &welcome, 1, 0) != 1)) {
        snprintf(why, why_bytes,
                 "the bare transport's peer at %.200s:%u refused: is " FLOOR_TOKEN_VARIABLE " the same there?", host,
                 port);
        close(fd);
        good = false;
    } else if (!good) {
        snprintf(why, why_bytes, "the bare transport's peer at %.200s:%u: %s", host, port, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
    }
    freeaddrinfo(list);
    return good ? fd : -1;
}

struct floor *
floor_open_remote(enum floor_kind kind, const struct client_fabric *fabric, const char *host, uint16_t port, char *why,
                  size_t why_bytes)
{
    struct greeting greeting = { .magic = GREETING_MAGIC, .kind = kind };
    if (!token_read(greeting.token)) {
        snprintf(why, why_bytes, "the bare transport: " FLOOR_TOKEN_VARIABLE " must have %d characters, as there",
                 FLOOR_TOKEN_BYTES);
        return NULL;
    }
    if (fabric != NULL && kind == FLOOR_FABRIC) {
        greeting.send = fabric->send;
        snprintf(greeting.provider, sizeof(greeting.provider), "%.31s", fabric->provider);
    }
    int stream = -1, control = connect_to(host, port, &greeting, why, why_bytes);
    if (control >= 0 && kind == FLOOR_TCP) {
        greeting.is_stream = 1;
        stream = connect_to(host, port, &greeting, why, why_bytes);
        if (stream < 0) {
            close(control);
            control = -1;
        }
    }
    return control >= 0 ? floor_make(kind, fabric, control, stream, 0) : NULL;
}

/* ---- sluice-bench floor-peer ---- */

static const char usage[] =
    "Usage: sluice-bench floor-peer [OPTIONS]\n"
    "The far end of `latency --floor-peer` on another host: it echoes frames of the sizes it is told, over kernel TCP\n"
    "or libfabric, for clients that know the SLUICE_FLOOR_TOKEN of its environment, 32 characters.\n"
    "`matrix --server HOST --floor` starts and ends it.\n"
    "  --address ADDRESS   where it listens (127.0.0.1)\n"
    "  --port PORT         (0: any free one; it is printed)\n"
    "  --node ADDRESS      of its end of the fabric, where the provider has one\n"
    "  --cpu N             (the last allowed)\n";

struct peer_plan {
    const char *address, *node;
    uint64_t port, cpu;
    char token[FLOOR_TOKEN_BYTES];
};

static int
complain(const char *what, const char *why)
{
    fprintf(stderr, "sluice-bench: %s: %s\n", what, why);
    return 1;
}

static int
listener_open(const struct peer_plan *plan, uint16_t *port)
{
    char service[8];
    int one = 1;
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICHOST };
    struct addrinfo *list = NULL;
    struct sockaddr_storage bound;
    socklen_t bytes = sizeof(bound);
    snprintf(service, sizeof(service), "%llu", (unsigned long long)plan->port);
    if (getaddrinfo(plan->address, service, &hints, &list) != 0) {
        complain("--address", "expected an address in numbers");
        return -1;
    }
    int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
                bind(fd, list->ai_addr, list->ai_addrlen) == 0 && listen(fd, 8) == 0 &&
                getsockname(fd, (struct sockaddr *)&bound, &bytes) == 0;
    freeaddrinfo(list);
    if (!good) {
        complain("listening", strerror(errno));
        return -1;
    }
    *port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                              : ((struct sockaddr_in *)&bound)->sin_port);
    return fd;
}

/* A connection whose greeting is good; -1: none, or not good. */
static int
connection_take(const struct peer_plan *plan, int listener, bool is_stream, struct greeting *greeting)
{
    struct pollfd ready = { .fd = listener, .events = POLLIN };
    int one = 1,
        fd = poll(&ready, 1, is_stream ? GREETING_MS : 500) == 1 ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    if (fd >= 0 &&
        (!greeting_read(fd, greeting) || memcmp(greeting->token, plan->token, sizeof(plan->token)) != 0 ||
         greeting->is_stream != is_stream || (greeting->kind != FLOOR_TCP && greeting->kind != FLOOR_FABRIC) ||
         greeting->send > CLIENT_SEND_SEND)) {
        close(fd);
        return -1;
    }
    if (fd >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        send(fd, "", 1, MSG_NOSIGNAL); /* welcome */
    }
    return fd;
}

static void
peer_serve(const struct peer_plan *plan, int listener)
{
    struct greeting greeting, second;
    int control = connection_take(plan, listener, false, &greeting), stream = -1;
    if (control < 0) {
        return;
    }
    if (greeting.kind == FLOOR_TCP) {
        stream = connection_take(plan, listener, true, &second);
    }
    if (greeting.kind != FLOOR_TCP || stream >= 0) {
        const struct client_fabric fabric = { .provider = greeting.provider,
                                              .node = bench_provider_has_node(greeting.provider) ? plan->node : NULL,
                                              .send = (enum client_send)greeting.send };
        pid_t child = fork(); /* libfabric takes over signals, and is opened anew for each */
        if (child == 0) {
            close(listener);
            floor_peer_run((enum floor_kind)greeting.kind, &fabric, control, stream, (int)plan->cpu);
        }
    }
    close(control);
    if (stream >= 0) {
        close(stream);
    }
}

static int
options_read(struct peer_plan *plan, int argc, char **argv)
{
    enum { OPTION_ADDRESS = BENCH_OWN, OPTION_PORT };
    static const struct option options[] = {
        { "address", required_argument, NULL, OPTION_ADDRESS },
        { "port", required_argument, NULL, OPTION_PORT },
        { "node", required_argument, NULL, BENCH_NODE },
        { "cpu", required_argument, NULL, BENCH_CPU },
        { "help", no_argument, NULL, BENCH_HELP },
        { 0 },
    };
    bool good = true;
    for (int option; good && (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case OPTION_ADDRESS:
            plan->address = optarg;
            break;
        case OPTION_PORT:
            good = bench_number("--port", optarg, 0, 65535, &plan->port);
            break;
        case BENCH_NODE:
            plan->node = optarg;
            break;
        case BENCH_CPU:
            good = bench_number("--cpu", optarg, 0, 1023, &plan->cpu);
            break;
        case BENCH_HELP:
            printf("%s", usage);
            return 0;
        default:
            good = false; /* getopt complained */
        }
    }
    if (good && optind < argc) {
        complain(argv[optind], "unexpected argument; --help shows the options");
        good = false;
    }
    if (good && !token_read(plan->token)) {
        complain(FLOOR_TOKEN_VARIABLE, "32 characters are expected in this variable of the environment");
        good = false;
    }
    return good ? -1 : BENCH_USAGE_ERROR;
}

int
bench_floor_peer(int argc, char **argv)
{
    struct peer_plan plan = { .address = "127.0.0.1", .cpu = (uint64_t)machine_cpu(machine_cpu_count() - 1) };
    uint16_t port;
    int code = options_read(&plan, argc, argv);
    if (code >= 0) {
        return code;
    }
    int listener = listener_open(&plan, &port);
    if (listener < 0) {
        return 1;
    }
    signal(SIGCHLD, SIG_IGN); /* nobody waits for the children */
    machine_interrupts_catch();
    printf("{\"event\":\"floor-peer\",\"port\":%u}\n", port);
    fflush(stdout);
    while (!machine_interrupted()) {
        peer_serve(&plan, listener);
    }
    close(listener);
    return 0;
}
