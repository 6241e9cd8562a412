#include "tools/bench/machine.h"
#include "config/cycles.h"
#include "config/sync.h"
#include <sched.h>
#include <signal.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define CALIBRATION_NS 20000000

/* The allowed set as it was when the program started: pinning a thread must not change what "the i-th" means. */
static cpu_set_t *
allowed_cpus(void)
{
    static cpu_set_t allowed;
    static bool known;
    if (!known) {
        CPU_ZERO(&allowed);
        known = sched_getaffinity(getpid(), sizeof(allowed), &allowed) == 0;
    }
    return &allowed;
}

uint32_t
machine_cpu_count(void)
{
    return (uint32_t)CPU_COUNT(allowed_cpus());
}

int
machine_cpu(uint32_t i)
{
    int last = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, allowed_cpus())) {
            last = cpu;
            if (i-- == 0) {
                return cpu;
            }
        }
    }
    return last;
}

bool
machine_pin(int cpu)
{
    cpu_set_t set;
    allowed_cpus();
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    return sched_setaffinity(0, sizeof(set), &set) == 0;
}

int64_t
machine_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

double
machine_ns_per_cycle(void)
{
    static double ns_per_cycle;
    if (ns_per_cycle == 0) {
        int64_t begin_ns = machine_now_ns(), end_ns;
        uint64_t begin = cycles_now();
        do {
            end_ns = machine_now_ns();
        } while (end_ns - begin_ns < CALIBRATION_NS);
        ns_per_cycle = (double)(end_ns - begin_ns) / (double)(cycles_now() - begin);
    }
    return ns_per_cycle;
}

static void
cpu_name(char *name, size_t name_bytes)
{
    char line[256];
    snprintf(name, name_bytes, "unknown CPU");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (file == NULL) {
        return;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        char *colon = strstr(line, ": ");
        if (colon != NULL && (strncmp(line, "model name", 10) == 0 || strncmp(line, "CPU part", 8) == 0)) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(name, name_bytes, "%s%s", line[0] == 'C' ? "CPU part " : "", colon + 2);
            break;
        }
    }
    fclose(file);
}

void
machine_describe(char *text, size_t text_bytes)
{
    struct utsname system;
    char cpu[128];
    double load = 0;
    CHECK(uname(&system) == 0);
    cpu_name(cpu, sizeof(cpu));
    if (getloadavg(&load, 1) != 1) {
        load = 0;
    }
    snprintf(text, text_bytes, "%u CPUs allowed, %s, %s %s %s, load %.2f", CPU_COUNT(allowed_cpus()), cpu,
             system.sysname, system.release, system.machine, load);
}

/* Processes that we stopped, 0: none. Relaxed: this thread and its signal handler use it. */
static _Atomic pid_t stopped[MACHINE_STOPPED_MAX];

static bool
stopped_replace(pid_t from, pid_t to)
{
    for (uint32_t i = 0; i < MACHINE_STOPPED_MAX; i++) {
        if (load_relaxed(&stopped[i]) == from) {
            store_relaxed(&stopped[i], to);
            return true;
        }
    }
    return false;
}

void
machine_process_stop(pid_t pid)
{
    CHECK(pid > 0 && stopped_replace(0, pid));
    kill(pid, SIGSTOP);
}

void
machine_process_continue(pid_t pid)
{
    CHECK(pid > 0);
    kill(pid, SIGCONT);
    stopped_replace(pid, 0);
}

static _Atomic int interrupts; /* lock-free, and so a signal handler's to write; relaxed: nothing hangs on it */

static void
interrupt_note(int number)
{
    if (add_relaxed(&interrupts, 1) > 0) {
        for (uint32_t i = 0; i < MACHINE_STOPPED_MAX; i++) {
            if (load_relaxed(&stopped[i]) != 0) {
                kill(load_relaxed(&stopped[i]), SIGCONT);
            }
        }
        _exit(128 + number);
    }
}

/* Every line that nobody reads raises one: none of them is the second Ctrl-C. */
static void
pipe_note(int number)
{
    (void)number;
    if (load_relaxed(&interrupts) == 0) {
        add_relaxed(&interrupts, 1);
    }
}

/* What was ignored stays so: nohup, and commands that look at their writes themselves. */
static void
signal_catch(int number, void (*handler)(int))
{
    struct sigaction before, action = { .sa_handler = handler };
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
        sigaction(number, &action, NULL);
    }
}

void
machine_interrupts_catch(void)
{
    struct sigaction action = { .sa_handler = interrupt_note };
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal_catch(SIGHUP, interrupt_note);
    signal_catch(SIGPIPE, pipe_note);
}

bool
machine_interrupted(void)
{
    return load_relaxed(&interrupts) > 0;
}
