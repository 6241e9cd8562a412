/* own_server.h - a sluiced that one measurement starts, uses as its target and stops. */
#pragma once
#include "tools/bench/servers.h"
#include "tools/bench/target.h"

struct own_server {
    struct server server;
    char folder[64], control[96];
};

/* With so many lcores on the last CPUs, which its fabric port, if `target` asks for one, shares. `program` NULL: beside
 * this one. `target` points to it until own_server_end().
 *
 * False with a sentence in `why`; own_server_end() is due in both cases. */
bool own_server_begin(struct own_server *own, struct target *target, const struct workload *workload,
                      const char *program, uint32_t lcores, char *why, size_t why_bytes);
/* Its log is appended to the file of this path, unless NULL. */
void own_server_end(struct own_server *own, struct target *target, const char *log);
