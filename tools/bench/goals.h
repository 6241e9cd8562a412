/* goals.h - what the rows of goals share. Each group measures and prints rows of DESIGN.md section 10. */
#pragma once
#include "tools/bench/servers.h"

#define GOALS_RUNS_MAX 15

struct goals {
    char sluiced[256], redis[256], redis_benchmark[256], self[256];
    bool have_redis, have_redis_benchmark;
    char redis_why[128];
    char folder[64]; /* ours, for sockets and logs; removed at the end */
    int server_cpu, client_cpu;
    uint32_t runs;
    uint64_t samples, warmup, keys;
    double flight_seconds;
    uint64_t benchmark_requests;
    bool quick;
    const char *only; /* group names, comma-separated; NULL: all */

    uint32_t stretched, met, missed, absent, later;
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

/* Run this program again with `arguments` (without argv[0], NULL-terminated) on the client's CPU. */
bool goals_self(const struct goals *goals, const char *const *arguments, int timeout_s, char *output, size_t room,
                char *why, size_t why_bytes);
/* Path of a program that the same build made: `name` counts from this program's folder. False: it is not there. */
bool goals_path_beside(const struct goals *goals, const char *name, char *path, size_t path_bytes);
/* Whether the server at `port` knows the command. */
bool goals_command_exists(uint16_t port, const char *command);

/* Depth 1: fabric against its floor, kernel TCP against its floor and Redis, everything against Goblin Core. */
void goals_depth1(struct goals *goals);
/* Many in flight, against Redis; redis-benchmark's tests. */
void goals_flight(struct goals *goals);
/* System calls, memory, start, lcores. */
void goals_process(struct goals *goals);
/* The store alone, as store-bench measures it. */
void goals_store(struct goals *goals);
