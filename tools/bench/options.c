/* options.c - what latency and throughput read alike from their command lines. */
#include "tools/bench/bench.h"
#include "tools/bench/machine.h"
#include <errno.h>
#include <signal.h>
#include <unistd.h>

static const char *const wires[] = { "resp2", "resp3", "sbe" };
static const char *const sends[] = { "auto", "inject", "send" };

void
bench_connection_init(struct bench_connection *connection)
{
    /* A server left to itself takes the last CPUs and leaves the first one. */
    *connection =
        (struct bench_connection){ .cpu = machine_cpu(0), .server_cpu = machine_cpu(machine_cpu_count() - 1) };
    client_options_init(&connection->client);
    connection->client.spin = true;
    connection->client.timeout_ms = 10000;
    const char *password = getenv("REDISCLI_AUTH");
    if (password != NULL && *password != '\0') {
        connection->client.password = password;
    }
}

bool
bench_number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    char *end;
    uint64_t number = strtoull(text, &end, 10);
    uint64_t times = 1;
    if (end != text && (*end == 'k' || *end == 'm')) {
        times = *end == 'k' ? 1000 : 1000000;
        end++;
    }
    if (end == text || text[0] == '-' || *end != '\0' || number > max / times || number * times < min) {
        fprintf(stderr, "sluice-bench: %s %s: expected a number from %llu to %llu\n", option, text,
                (unsigned long long)min, (unsigned long long)max);
        return false;
    }
    *out = number * times;
    return true;
}

static int
choice_of(const char *option, const char *text, const char *const *choices, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(text, choices[i]) == 0) {
            return (int)i;
        }
    }
    fprintf(stderr, "sluice-bench: %s %s: expected %s, %s or %s\n", option, text, choices[0], choices[1], choices[2]);
    return -1;
}

bool
bench_decimal(const char *option, const char *text, double min, double max, double *out)
{
    char *end;
    double number = strtod(text, &end);
    /* Written so that "nan" is refused too. */
    if (end == text || *end != '\0' || !(number >= min && number <= max)) {
        fprintf(stderr, "sluice-bench: %s %s: expected a number from %g to %g\n", option, text, min, max);
        return false;
    }
    *out = number;
    return true;
}

uint32_t
bench_numbers(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *out, uint32_t room)
{
    char number[32];
    for (uint32_t count = 0; count < room;) {
        size_t bytes = strcspn(text, ",");
        snprintf(number, sizeof(number), "%.*s", (int)MIN(bytes, sizeof(number) - 1), text);
        if (!bench_number(option, number, min, max, &out[count++])) {
            return 0;
        }
        if (text[bytes] == '\0') {
            return count;
        }
        text += bytes + 1;
    }
    fprintf(stderr, "sluice-bench: %s: more than %u numbers\n", option, room);
    return 0;
}

bool
bench_address(const char *option, const char *text, struct client_options *client)
{
    const char *colon = strrchr(text, ':'), *bracket = strrchr(text, ']');
    uint64_t port;
    if (strchr(text, '/') != NULL) {
        client->path = strdup(text);
        CHECK(client->path != NULL);
        return true;
    }
    if (colon == NULL || (bracket != NULL && colon < bracket)) {
        colon = text + strlen(text);
    } else if (bench_number(option, colon + 1, 1, 65535, &port)) {
        client->port = (uint16_t)port;
    } else {
        return false;
    }
    client->path = NULL;
    client->host = strndup(text, (size_t)(colon - text));
    CHECK(client->host != NULL);
    return true;
}

int
bench_connection_option(struct bench_connection *connection, int option, const char *value)
{
    struct client_options *client = &connection->client;
    uint64_t number = 0;
    int choice = 0;
    bool good = true;
    switch (option) {
    case 'h':
        client->host = value;
        break;
    case 'p':
        good = bench_number("-p", value, 1, 65535, &number);
        client->port = (uint16_t)number;
        break;
    case 's':
        client->path = value;
        break;
    case 'a':
        client->password = value;
        break;
    case BENCH_USER:
        client->user = value;
        break;
    case BENCH_PROVIDER:
        client->fabric.provider = value;
        break;
    case BENCH_PORT_NAME:
        client->fabric.port_name = value;
        break;
    case BENCH_NODE:
        client->fabric.node = value;
        break;
    case BENCH_DOMAIN:
        client->fabric.domain = value;
        break;
    case BENCH_ETHERNET:
        connection->ethernet = true;
        break;
    case BENCH_ATTACH:
        good = bench_address("--attach", value, client);
        break;
    case BENCH_WIRE:
        choice = choice_of("--wire", value, wires, ARRAY_COUNT(wires));
        client->wire = (enum client_wire)choice;
        break;
    case BENCH_SEND:
        choice = choice_of("--send", value, sends, ARRAY_COUNT(sends));
        client->fabric.send = (enum client_send)choice;
        break;
    case BENCH_CPU:
        good = bench_number("--cpu", value, 0, 1023, &number);
        connection->cpu = (int)number;
        break;
    case BENCH_SERVER_CPU:
        good = bench_number("--server-cpu", value, 0, 1023, &number);
        connection->server_cpu = (int)number;
        break;
    default:
        return 0;
    }
    return good && choice >= 0 ? 1 : -1;
}

void
bench_label(const struct bench_connection *connection, char label[BENCH_LABEL_BYTES])
{
    static const char *const names[] = { "resp", "resp3", "sbe" };
    const struct client_options *client = &connection->client;
    const char *wire = names[client->wire], *provider = client->fabric.provider;
    if (provider == NULL) {
        const char *stream = client->path != NULL ? "unix" : connection->ethernet ? "ethernet" : "kernel-tcp";
        snprintf(label, BENCH_LABEL_BYTES, "%s-%s", stream, wire);
        return;
    }
    /* "tcp;ofi_rxm" becomes "tcp-rxm": a label is a cell, a file name and a word of a shell. */
    const char *layer = strstr(provider, ";ofi_");
    int first = layer != NULL ? (int)(layer - provider) : (int)strlen(provider);
    snprintf(label, BENCH_LABEL_BYTES, "%.*s%s%.40s-%s-%s", MIN(first, 40), provider, layer != NULL ? "-" : "",
             layer != NULL ? layer + 5 : "", wire, sends[client->fabric.send]);
}

bool
bench_provider_has_node(const char *provider)
{
    static const char *const names[] = { "net", "tcp", "tcp;ofi_rxm", "udp;ofi_rxd", "sockets" };
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        if (strcmp(provider, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool
bench_label_is_good(const char *text)
{
    static const char alnum[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    size_t bytes = strlen(text), good = strspn(text, alnum);
    while (good > 0 && good < bytes && (strchr("._+:;@=-", text[good]) != NULL || strchr(alnum, text[good]) != NULL)) {
        good++;
    }
    return bytes > 0 && bytes <= 80 && good == bytes;
}

bool
bench_peer_read(const char *text, const struct client_options *ours, struct bench_peer *peer)
{
    struct bench_connection connection = { 0 };
    char name[BENCH_LABEL_BYTES], address[256], label[BENCH_LABEL_BYTES];
    const char *equals = strchr(text, '='), *at = strrchr(text, '@');
    uint64_t pid = 0;
    if (at != NULL && !bench_number("--peer PID", at + 1, 2, 1 << 30, &pid)) {
        return false;
    }
    const char *from = equals != NULL ? equals + 1 : text, *to = at != NULL ? at : text + strlen(text);
    snprintf(address, sizeof(address), "%.*s", to > from ? (int)(to - from) : 0, from);
    if (equals != NULL) {
        snprintf(name, sizeof(name), "%.*s", (int)MIN(equals - text, 60), text);
    } else {
        snprintf(name, sizeof(name), "%.60s", strchr(address, '/') != NULL ? "peer" : address);
    }
    client_options_init(&connection.client);
    if (address[0] == '\0' || !bench_address("--peer", address, &connection.client)) {
        fprintf(stderr, "sluice-bench: --peer %s: expected [NAME=]HOST:PORT[@PID]\n", text);
        return false;
    }
    connection.client.wire = ours->wire == CLIENT_RESP3 ? CLIENT_RESP3 : CLIENT_RESP2;
    connection.client.spin = true;
    connection.client.timeout_ms = ours->timeout_ms;
    bench_label(&connection, label);
    peer->client = connection.client;
    peer->pid = (pid_t)pid;
    snprintf(peer->label, sizeof(peer->label), "%.60s-%.30s", name, label);
    if (!bench_label_is_good(peer->label)) {
        fprintf(stderr, "sluice-bench: --peer %s: in NAME, expected letters, digits and . _ + : ; @ = -\n", text);
        return false;
    }
    return true;
}

bool
bench_process_is_there(const char *label, pid_t pid)
{
    if (pid == 0 || (pid != getpid() && kill(pid, 0) == 0)) {
        return true;
    }
    fprintf(stderr, "sluice-bench: %s: process %d: %s\n", label, (int)pid,
            pid == getpid() ? "that is this one" : strerror(errno));
    return false;
}
