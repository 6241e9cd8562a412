/* servers.h - the processes that goals starts and stops: sluiced, redis-server, and programs that measure them. */
#pragma once
#include "tools/client/client.h"
#include <sys/types.h>

#define SERVER_WHY_BYTES 512

struct server {
    pid_t pid;
    uint16_t port;
    double ready_s; /* from exec to the first answer */
};

struct server_plan {
    const char *program;         /* path */
    const char *folder;          /* of its sockets and logs */
    const char *provider;        /* sluiced: its only fabric port, or DPDK device ("net_ring0"); NULL: none */
    uint64_t memory_bytes, keys; /* sluiced */
    uint32_t lcores;             /* sluiced */
    int cpus[8];                 /* it may run on */
    uint32_t cpu_count;
};

/* Start on a free loopback port, wait until PING is answered. False with a sentence in `why`. */
bool server_start_sluice(struct server *server, const struct server_plan *plan, char *why, size_t why_bytes);
bool server_start_redis(struct server *server, const struct server_plan *plan, char *why, size_t why_bytes);
/* Nothing of it is left afterwards; harmless on one that never started. */
void server_stop(struct server *server);
/* Stopped and running again: a server that spins must not share its CPU with the one being measured. */
void server_pause(const struct server *server);
void server_resume(const struct server *server);

/* Run argv[0] to its end, pinned to `cpu` (-1: not), and keep what it says on stdout, cut at `room` and NUL-terminated.
 * What it says on stderr follows in `why` when it fails or takes longer than timeout_s. */
bool program_run(const char *const *argv, int cpu, int timeout_s, char *output, size_t room, char *why,
                 size_t why_bytes);

/* Resident bytes of a process, huge pages included. 0: unknown. */
uint64_t process_resident_bytes(pid_t pid);
