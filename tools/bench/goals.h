/* goals.h - what the rows of goals share. Each group measures and prints some of them. */
#pragma once
#include "tools/bench/progress.h"
#include "tools/bench/servers.h"

#define GOALS_RUNS_MAX  15
#define GOALS_PEERS_MAX 4

/* A server that somebody else started: measured beside Redis, never stopped. */
struct goals_peer {
    char name[24];
    struct client_options address;
};

struct goals {
    char sluiced[256], redis[256], redis_benchmark[256], self[256];
    bool have_redis, have_redis_benchmark;
    char redis_why[128];
    char folder[64]; /* ours, for sockets and logs; removed at the end */
    int server_cpu, client_cpu;
    uint32_t runs;
    uint64_t samples, warmup, keys;
    uint64_t benchmark_requests;
    bool quick;
    struct goals_peer peers[GOALS_PEERS_MAX];
    uint32_t peer_count;
    const char *out;  /* folder of results; NULL: none */
    const char *only; /* group names, comma-separated; NULL: all */

    uint32_t stretched, met, missed, absent, later;
    bool out_failed;
    struct progress progress;
};

enum goal_sense { GOAL_AT_MOST, GOAL_AT_LEAST };

/* A target of 0 is none. `detail` says what the value was made of. */
void goal_measured(struct goals *goals, const char *what, enum goal_sense sense, double must, double stretch,
                   double value, const char *unit, const char *detail);
/* Cannot be measured on this machine, or not yet. */
void goal_not_here(struct goals *goals, const char *what, const char *why);
void goal_later(struct goals *goals, const char *what, const char *why);

/* A plan for sluiced with one lcore on the server's CPU. */
struct server_plan goals_plan(const struct goals *goals, const char *provider);

/* Names of the columns. */
void goals_head_print(void);
/* A row of memory.csv. */
void goals_keep_memory(struct goals *goals, const char *label, const char *kind, uint64_t entries,
                       double bytes_per_entry);
/* `done` of `total` measurements of a row. */
void goal_progress(struct goals *goals, const char *what, uint32_t done, uint32_t total);

/* Run this program again with `arguments` (without argv[0], NULL-terminated) on the client's CPU. */
bool goals_self(const struct goals *goals, const char *const *arguments, int timeout_s, char *output, size_t room,
                char *why, size_t why_bytes);
/* Path of a program that the same build made: `name` counts from this program's folder. False: it is not there. */
bool goals_path_beside(const struct goals *goals, const char *name, char *path, size_t path_bytes);
/* Whether the server at `port` knows the command. */
bool goals_command_exists(uint16_t port, const char *command);

/* ---- the groups ---- */

void goals_depth1(struct goals *goals);
void goals_flight(struct goals *goals);
void goals_benchmark(struct goals *goals);
void goals_syscalls(struct goals *goals);
void goals_request(struct goals *goals);
void goals_store(struct goals *goals);
void goals_lcores(struct goals *goals);
void goals_memory(struct goals *goals);
void goals_start(struct goals *goals);
