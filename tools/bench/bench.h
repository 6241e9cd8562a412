/* bench.h - sluice-bench's commands and what they share. */
#pragma once
#include "tools/client/client.h"
#include <sys/types.h>

#define BENCH_USAGE_ERROR 2

/* A server that says nothing for so long is given up: twice the usual lease of a fabric session, which a client that
 * hears nothing for one lease gives up and resumes. */
#define BENCH_SILENCE_NS   20000000000
#define BENCH_SILENCE_TEXT "20 s"

/* Each takes its own command line, argv[0] being its name, and returns the exit code. */
int bench_latency(int argc, char **argv);
int bench_matrix(int argc, char **argv);
int bench_machine(int argc, char **argv);
int bench_floor_peer(int argc, char **argv);
int bench_throughput(int argc, char **argv);
int bench_open(int argc, char **argv);
int bench_sweep(int argc, char **argv);
int bench_goals(int argc, char **argv);
int bench_rank(int argc, char **argv);
int bench_report(int argc, char **argv);

/* ---- options that latency and throughput share ---- */

#define BENCH_CONNECTION_LETTERS "h:p:s:a:"

enum bench_option { /* getopt_long values beyond letters */
                    BENCH_USER = 256,
                    BENCH_PROVIDER,
                    BENCH_ATTACH,
                    BENCH_PORT_NAME,
                    BENCH_NODE,
                    BENCH_DOMAIN,
                    BENCH_ETHERNET,
                    BENCH_WIRE,
                    BENCH_SEND,
                    BENCH_CPU,
                    BENCH_SERVER_CPU,
                    BENCH_HELP,
                    BENCH_OWN, /* first value for a command's own options */
};

#define BENCH_CONNECTION_OPTIONS                                                                                       \
    { "user", required_argument, NULL, BENCH_USER }, { "provider", required_argument, NULL, BENCH_PROVIDER },          \
        { "attach", required_argument, NULL, BENCH_ATTACH },                                                           \
        { "port-name", required_argument, NULL, BENCH_PORT_NAME }, { "node", required_argument, NULL, BENCH_NODE },    \
        { "domain", required_argument, NULL, BENCH_DOMAIN }, { "ethernet", no_argument, NULL, BENCH_ETHERNET },        \
        { "wire", required_argument, NULL, BENCH_WIRE }, { "send", required_argument, NULL, BENCH_SEND },              \
        { "cpu", required_argument, NULL, BENCH_CPU }, { "server-cpu", required_argument, NULL, BENCH_SERVER_CPU },    \
    {                                                                                                                  \
        "help", no_argument, NULL, BENCH_HELP                                                                          \
    }

#define BENCH_CONNECTION_USAGE                                                                                         \
    "  -h HOST, -p PORT, -s PATH     server (127.0.0.1, 6379), or its Unix socket\n"                                   \
    "  -a PASSWORD, --user NAME      authenticate; REDISCLI_AUTH is read as well\n"                                    \
    "  --provider P                  over the fabric: shm, net, tcp;ofi_rxm, efa ...\n"                                \
    "  --attach HOST:PORT|PATH       where the fabric session is attached (default: -h, -p, -s)\n"                     \
    "  --port-name NAME              the server's fabric port, if several have this provider\n"                        \
    "  --node ADDRESS                of our end of the fabric, where it has one\n"                                     \
    "  --domain DEVICE               of our end of the fabric (the first)\n"                                           \
    "  --send auto|inject|send       frames on the fabric (auto)\n"                                                    \
    "  --wire resp2|resp3|sbe        (resp2)\n"                                                                        \
    "  --ethernet                    -h and -p are the server's ethernet port: the label says so\n"                    \
    "  --cpu N                       CPU of the client (the first allowed)\n"                                          \
    "  --server-cpu N                CPU of our own peer or null responder (the last allowed)\n"

struct bench_connection {
    struct client_options client;
    int cpu, server_cpu;
    bool ethernet; /* the server's end of the stream is an ethernet port */
};

void bench_connection_init(struct bench_connection *connection);
/* 1: taken; 0: not one of ours; -1: a bad value, complained. */
int bench_connection_option(struct bench_connection *connection, int option, const char *value);

/* Whole number with an optional k or m (thousand, million) in [min, max], or complain. */
bool bench_number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *out);

/* The same, with a fraction. */
bool bench_decimal(const char *option, const char *text, double min, double max, double *out);
/* "1,16,50": at most `room` whole numbers. Returns how many, 0: complained. */
uint32_t bench_numbers(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *out, uint32_t room);
/* HOST:PORT, [::1]:PORT, HOST or the path of a Unix socket, into `client`; or complain. The text is copied, for as long
 * as the program runs. */
bool bench_address(const char *option, const char *text, struct client_options *client);

#define BENCH_LABEL_BYTES 96

/* "efa-sbe-auto", "tcp-rxm-resp-send" (tcp;ofi_rxm), "kernel-tcp-resp3", "unix-resp", "ethernet-sbe" */
void bench_label(const struct bench_connection *connection, char label[BENCH_LABEL_BYTES]);
/* A label is a cell of a table and part of a file's name: 1 to 80 letters, digits and . _ + : ; @ = -, the first one a
 * letter or a digit. */
bool bench_label_is_good(const char *text);

/* Another server that is measured beside ours. */
struct bench_peer {
    struct client_options client;
    char label[BENCH_LABEL_BYTES];
    pid_t pid; /* 0: not said */
};

/* [NAME=]HOST:PORT|PATH[@PID]. It speaks RESP: RESP3 when `ours` does. False: complained. */
bool bench_peer_read(const char *text, const struct client_options *ours, struct bench_peer *peer);
/* Whether a process that is stopped now and then, or 0, is there and is not this one; or complain. */
bool bench_process_is_there(const char *label, pid_t pid);
/* Whether the provider binds to an address of the Internet Protocol: then both ends name theirs. */
bool bench_provider_has_node(const char *provider);
