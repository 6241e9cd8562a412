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

/* What happened beside us between begin and end. */
struct machine_watch {
    uint64_t busy_before, total_before, steal_before, own_before; /* clock ticks */
    long preempted_before;
    double load; /* 1-minute load average at begin */
};

/* The calling thread is the one that measures. `quiet` pids' CPU time counts as ours: the servers under test. With none
 * named nobody knows whose work the others did: only stolen time and preemptions count. */
void machine_watch_begin(struct machine_watch *watch, const pid_t *quiet, uint32_t quiet_count);
/* One sentence in `text` when others used the machine: more than a tenth of a CPU, or stolen time, or preemptions of
 * this thread above 50 a second. False: it was quiet, or too short a time to tell; `text` is empty. */
bool machine_watch_end(const struct machine_watch *watch, const pid_t *quiet, uint32_t quiet_count, char *text,
                       size_t text_bytes);

#define MACHINE_STOPPED_MAX 8

/* Stop a process, and let it go on: servers that spin on one CPU take turns. Ctrl-C twice leaves none stopped. */
void machine_process_stop(pid_t pid);
void machine_process_continue(pid_t pid);

/* "2 CPUs, Intel(R) ..., Linux 6.1, load 0.03" */
void machine_describe(char *text, size_t text_bytes);

/* Ctrl-C: measuring stops at the next safe point and what was measured is printed; the second one ends the program. */
void machine_interrupts_catch(void);
bool machine_interrupted(void);
