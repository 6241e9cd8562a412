/* machine.h - CPUs, clocks, and whether the machine was quiet while we measured. */
#pragma once
#include "config/base.h"
#include <sys/types.h>

/* CPUs this process may run on. */
uint32_t machine_cpu_count(void);
/* The i-th allowed CPU, counted from 0; the last one if there are fewer. */
int machine_cpu(uint32_t i);
/* Pin the calling thread. False: the CPU is not allowed. */
bool machine_pin(int cpu);

int64_t machine_now_ns(void);
/* Measured once, against CLOCK_MONOTONIC. */
double machine_ns_per_cycle(void);

/* ---- was it quiet: machine_watch.c ---- */

/* Since some moment in the past. What this system does not tell stays 0. */
struct machine_counts {
    uint64_t busy, total, stolen; /* clock ticks of all CPUs */
    uint64_t own;                 /* clock ticks of this process and of the servers that it measures */
    uint64_t preempted;           /* times that the calling thread was */
    uint64_t throttled_us;        /* that our control group had to wait, because of its CPU limit */
    uint64_t hot;                 /* times that a core was slowed down because of its heat */
};

struct machine_watch {
    struct machine_counts before;
    double load; /* 1-minute load average at begin */
};

/* The calling thread is the one that measures. `quiet` pids' CPU time counts as ours: the servers under test. With none
 * named nobody knows whose work the others did: what they used is left out. */
void machine_watch_begin(struct machine_watch *watch, const pid_t *quiet, uint32_t quiet_count);
/* One sentence in `text` when others used more than a tenth of a CPU, or more than a hundredth of one was stolen by the
 * host, or this thread was preempted more than 50 times a second, or we were throttled. False: it was quiet, or too
 * short a time to tell; `text` is empty. */
bool machine_watch_end(const struct machine_watch *watch, const pid_t *quiet, uint32_t quiet_count, char *text,
                       size_t text_bytes);
/* The judgement alone: what `after` counts more than `before`. */
bool machine_watch_judge(const struct machine_watch *watch, const struct machine_counts *after, bool servers_known,
                         double cpus, double ticks_a_second, char *text, size_t text_bytes);

#define MACHINE_STOPPED_MAX 8

/* Stop a process, and let it go on: servers that spin on one CPU take turns. Ctrl-C twice leaves none stopped. */
void machine_process_stop(pid_t pid);
void machine_process_continue(pid_t pid);

/* "2 CPUs, Intel(R) ..., Linux 6.1, load 0.03" */
void machine_describe(char *text, size_t text_bytes);

/* Ctrl-C: measuring stops at the next safe point and what was measured is printed; the second one ends the program.
 * SIGTERM, a terminal that closes (SIGHUP) and output that nobody reads any more (SIGPIPE) are taken alike: servers
 * that were stopped for their peers' turns go on. */
void machine_interrupts_catch(void);
bool machine_interrupted(void);
