/* counters.h - what a server spent on a load: CPU time of each thread, instructions, and what it calls busy itself. */
#pragma once
#include "config/base.h"
#include <sys/types.h>

#define COUNTERS_THREADS_MAX 128

struct counters_thread {
    pid_t id;
    char name[16];
    uint64_t cpu_ns; /* at begin; after counters_end(): between the two */
    int fd;          /* its instructions; -1: not counted */
};

/* Caller's memory. Figures that cannot be had are marked so, and `why` says it of instructions. */
struct counters {
    pid_t pid;           /* 0: nothing is known */
    const char *control; /* path of the management socket; NULL: not asked */
    struct counters_thread threads[COUNTERS_THREADS_MAX];
    uint32_t thread_count;
    uint64_t busy_cycles;
    int64_t begin_ns;

    /* after counters_end() */
    double seconds;
    bool has_cpu, has_instructions, has_busy;
    uint64_t cpu_ns;       /* of all threads; one that spins uses all of its CPU, busy or not */
    uint64_t instructions; /* in user space */
    double busy_ns;        /* of all lcores: turns that found work, as the server counted them */
    char why[128];
};

/* `pid` 0: no such process is known. Threads that the process starts later are counted with their creators where
 * instructions are, and not in CPU time. Instructions need hardware counters, and the right to attach to the process
 * (root, CAP_PERFMON, or kernel.perf_event_paranoid below 3 and the same user). */
void counters_begin(struct counters *counters, pid_t pid, const char *control);
void counters_end(struct counters *counters);
