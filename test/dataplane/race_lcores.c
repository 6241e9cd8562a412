/* race_lcores.c - two lcores, four clients over Unix sockets that overwrite, delete, read and count the same keys.
 *
 * Invariants: counters that nobody deletes end at exactly the acknowledged INCRs; a value read was written for that
 * very key; every key exists once (DEL answers 1, then 0; DBSIZE agrees); memory after the run is what it was after
 * warm-up. Usage: race_lcores [seconds]; run plain and under ASan and TSan. */
#include "dataplane/dataplane.h"
#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS     4
#define LCORES      2
#define KEYS        24
#define COUNTERS    8
#define PIPELINE    16
#define REPLY_BYTES (64 * 1024)

struct client {
    struct dataplane *dataplane;
    int fd;
    uint64_t seed;
    uint64_t counted[COUNTERS]; /* acknowledged INCRs */
    uint64_t requests;
    char in[REPLY_BYTES];
    size_t in_bytes, in_taken;
};

static _Atomic bool over;

static uint64_t
draw(struct client *client)
{
    client->seed ^= client->seed << 13;
    client->seed ^= client->seed >> 7;
    client->seed ^= client->seed << 17;
    return client->seed;
}

static void
send_all(int fd, const char *text, size_t bytes)
{
    for (size_t sent = 0; sent < bytes;) {
        ssize_t got = send(fd, text + sent, bytes - sent, MSG_NOSIGNAL);
        CHECK(got > 0);
        sent += (size_t)got;
    }
}

static void
fill(struct client *client)
{
    if (client->in_taken > 0) {
        memmove(client->in, client->in + client->in_taken, client->in_bytes - client->in_taken);
        client->in_bytes -= client->in_taken;
        client->in_taken = 0;
    }
    ssize_t got = recv(client->fd, client->in + client->in_bytes, sizeof(client->in) - client->in_bytes, 0);
    CHECK(got > 0);
    client->in_bytes += (size_t)got;
}

/* A line without its CR LF, NUL-terminated in place. */
static char *
line_take(struct client *client)
{
    char *end;
    while ((end = memmem(client->in + client->in_taken, client->in_bytes - client->in_taken, "\r\n", 2)) == NULL) {
        fill(client);
    }
    char *line = client->in + client->in_taken;
    *end = '\0';
    client->in_taken = (size_t)(end - client->in) + 2;
    return line;
}

/* A reply: its integer, or its bulk's text in `bulk` ("" for nil), or its status. Errors end the test. */
static int64_t
reply_take(struct client *client, char *bulk)
{
    char *line = line_take(client);
    bulk[0] = '\0';
    if (line[0] == ':') {
        return atoll(line + 1);
    }
    if (line[0] == '$') {
        long bytes = atol(line + 1);
        if (bytes < 0) {
            return -1;
        }
        CHECK(bytes < 512);
        while (client->in_bytes - client->in_taken < (size_t)bytes + 2) {
            fill(client);
        }
        memcpy(bulk, client->in + client->in_taken, (size_t)bytes);
        bulk[bytes] = '\0';
        client->in_taken += (size_t)bytes + 2;
        return bytes;
    }
    if (line[0] != '+') {
        fprintf(stderr, "race_lcores: unexpected reply %s\n", line);
        abort();
    }
    return 0;
}

enum operation { OP_SET, OP_GET, OP_DEL, OP_INCR, OP_STRLEN };

struct asked {
    enum operation operation;
    uint32_t key;
};

static size_t
ask_one(struct client *client, char *out, struct asked *asked)
{
    uint64_t random = draw(client);
    asked->key = (uint32_t)(random >> 8) % KEYS;
    asked->operation = (enum operation)(random % 5);
    switch (asked->operation) {
    case OP_SET: /* lengths differ, so that classes do */
        return (size_t)sprintf(out, "SET key:%u v%u:%0*u\r\n", asked->key, asked->key, 1 + (int)(random >> 20) % 200,
                               7);
    case OP_GET:
        return (size_t)sprintf(out, "GET key:%u\r\n", asked->key);
    case OP_DEL:
        return (size_t)sprintf(out, "DEL key:%u\r\n", asked->key);
    case OP_STRLEN:
        return (size_t)sprintf(out, "STRLEN key:%u\r\n", asked->key);
    case OP_INCR:
        asked->key %= COUNTERS;
        return (size_t)sprintf(out, "INCR counter:%u\r\n", asked->key);
    }
    return 0;
}

static void
check_reply(struct client *client, const struct asked *asked)
{
    char bulk[512];
    int64_t value = reply_take(client, bulk);
    if (asked->operation == OP_INCR) {
        client->counted[asked->key]++;
        CHECK(value > 0);
    } else if (asked->operation == OP_GET && value >= 0) {
        unsigned key;
        CHECK(sscanf(bulk, "v%u:", &key) == 1 && key == asked->key);
    } else if (asked->operation == OP_DEL) {
        CHECK(value == 0 || value == 1);
    }
    client->requests++;
}

static void *
client_main(void *argument)
{
    struct client *client = argument;
    while (!load_relaxed(&over)) {
        char out[PIPELINE * 320];
        struct asked asked[PIPELINE];
        size_t bytes = 0;
        for (int i = 0; i < PIPELINE; i++) {
            bytes += ask_one(client, out + bytes, &asked[i]);
        }
        send_all(client->fd, out, bytes);
        for (int i = 0; i < PIPELINE; i++) {
            check_reply(client, &asked[i]);
        }
    }
    return NULL;
}

static void
client_open(struct client *client, struct dataplane *dataplane, uint32_t lcore, uint64_t seed)
{
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    memset(client, 0, sizeof(*client));
    client->dataplane = dataplane;
    client->fd = pair[0];
    client->seed = seed;
    struct mail mail = { .kind = MAIL_ADOPT_SOCKET, .a = (uint64_t)pair[1], .b = 1 };
    CHECK(dataplane_post(dataplane, lcore, &mail));
}

static int64_t
ask(struct client *client, const char *line)
{
    char bulk[512];
    send_all(client->fd, line, strlen(line));
    return reply_take(client, bulk);
}

static int64_t
ask_number(struct client *client, const char *line)
{
    char bulk[512];
    send_all(client->fd, line, strlen(line));
    reply_take(client, bulk);
    return atoll(bulk);
}

static void
check_end(struct client *clients)
{
    char line[64];
    for (uint32_t i = 0; i < COUNTERS; i++) {
        uint64_t counted = 0;
        for (int c = 0; c < CLIENTS; c++) {
            counted += clients[c].counted[i];
        }
        snprintf(line, sizeof(line), "GET counter:%u\r\n", i);
        int64_t stored = ask_number(&clients[0], line);
        if ((uint64_t)stored != counted) {
            fprintf(stderr, "race_lcores: counter:%u is %lld, acknowledged %llu\n", i, (long long)stored,
                    (unsigned long long)counted);
            abort();
        }
        snprintf(line, sizeof(line), "DEL counter:%u\r\n", i);
        CHECK(ask(&clients[1], line) == (counted > 0));
    }
    for (uint32_t i = 0; i < KEYS; i++) {
        snprintf(line, sizeof(line), "DEL key:%u\r\n", i);
        ask(&clients[i % CLIENTS], line);
        CHECK(ask(&clients[(i + 1) % CLIENTS], line) == 0); /* a second copy would answer 1 */
    }
    CHECK(ask(&clients[0], "DBSIZE\r\n") == 0);
}

static uint64_t
used_bytes(struct dataplane *dataplane)
{
    struct store_stats stats;
    store_stats(dataplane->store, &stats);
    return stats.memory.used_bytes;
}

/* What the management core does for an appliance. */
static void
manage_for(struct dataplane *dataplane, double seconds)
{
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        store_manage(dataplane->store);
        for (uint32_t i = 0; i < dataplane->lcore_count; i++) {
            struct mail mail;
            while (mail_take(dataplane->to_mgmt[i], &mail)) {
            }
        }
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) * 1e-9 < seconds);
}

int
main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 3;
    static struct settings settings;
    static struct client clients[CLIENTS];
    const char *overrides[] = { "memory.reserve=512MiB", "memory.ahead=32MiB", "store.keys_expected=4096" };
    char why[SETTINGS_WHY_BYTES];
    if (settings_load(NULL, overrides, ARRAY_COUNT(overrides), &settings, why, sizeof(why)) != 0) {
        fprintf(stderr, "race_lcores: %s\n", why);
        return 1;
    }
    settings.cpus[1] = settings.cpu_count > 1 ? settings.cpus[1] : settings.cpus[0];
    settings.cpu_count = LCORES;

    struct dataplane *dataplane;
    if (dataplane_open(&settings, &dataplane, why, sizeof(why)) != 0 || dataplane_start(dataplane) != 0) {
        fprintf(stderr, "race_lcores: %s\n", why);
        return 1;
    }
    pthread_t threads[CLIENTS];
    for (uint32_t i = 0; i < CLIENTS; i++) {
        client_open(&clients[i], dataplane, i % LCORES, 0x9e3779b97f4a7c15ull * (i + 1));
        CHECK(pthread_create(&threads[i], NULL, client_main, &clients[i]) == 0);
    }
    manage_for(dataplane, seconds / 2);
    uint64_t warm_bytes = used_bytes(dataplane);
    manage_for(dataplane, seconds / 2);
    uint64_t end_bytes = used_bytes(dataplane);
    store_relaxed(&over, true);
    uint64_t requests = 0;
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        requests += clients[i].requests;
    }
    check_end(clients);
    CHECK(end_bytes < warm_bytes + 4 * MIB); /* limbo and magazines breathe; the keys are the same */

    for (int i = 0; i < CLIENTS; i++) {
        close(clients[i].fd);
    }
    dataplane_drain(dataplane);
    while (!dataplane_stopped(dataplane)) {
        manage_for(dataplane, 0);
    }
    dataplane_close(dataplane);
    printf("race_lcores: %llu requests, no lost update, no duplicate key, memory %llu -> %llu bytes\n",
           (unsigned long long)requests, (unsigned long long)warm_bytes, (unsigned long long)end_bytes);
    return 0;
}
