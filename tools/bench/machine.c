#include "tools/bench/machine.h"
#include "config/cycles.h"
#include "config/sync.h"
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* A CPU shared with others for more than this is worth a word. */
#define BUSY_SHARE_MAX       0.1
#define STEAL_SHARE_MAX      0.01
/* Clock ticks of one CPU: in less than that, shares say nothing. */
#define SHORTEST_WATCH_TICKS 20
#define PREEMPTED_A_SECOND   50
#define CALIBRATION_NS       20000000

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

/* Line `cpu` of /proc/stat: user nice system idle iowait irq softirq steal. */
static void
cpu_times(uint64_t *busy, uint64_t *total, uint64_t *steal)
{
    unsigned long long t[8] = { 0 };
    FILE *file = fopen("/proc/stat", "r");
    *busy = *total = *steal = 0;
    if (file == NULL) {
        return;
    }
    if (fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6],
               &t[7]) == 8) {
        *busy = t[0] + t[1] + t[2] + t[5] + t[6];
        *total = *busy + t[3] + t[4] + t[7];
        *steal = t[7];
    }
    fclose(file);
}

/* utime + stime of a process, its threads included. */
static uint64_t
process_times(pid_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return 0;
    }
    size_t bytes = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[bytes] = '\0';
    unsigned long long user = 0, system = 0;
    const char *after_name = strrchr(text, ')'); /* the name may hold anything */
    if (after_name == NULL ||
        sscanf(after_name + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) != 2) {
        return 0;
    }
    return user + system;
}

static uint64_t
own_times(const pid_t *quiet, uint32_t quiet_count)
{
    uint64_t ticks = process_times(getpid());
    for (uint32_t i = 0; i < quiet_count; i++) {
        ticks += process_times(quiet[i]);
    }
    return ticks;
}

static long
preemptions(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

void
machine_watch_begin(struct machine_watch *watch, const pid_t *quiet, uint32_t quiet_count)
{
    double load = 0;
    if (getloadavg(&load, 1) != 1) {
        load = 0;
    }
    cpu_times(&watch->busy_before, &watch->total_before, &watch->steal_before);
    watch->own_before = own_times(quiet, quiet_count);
    watch->preempted_before = preemptions();
    watch->load = load;
}

bool
machine_watch_end(const struct machine_watch *watch, const pid_t *quiet, uint32_t quiet_count, char *text,
                  size_t text_bytes)
{
    uint64_t busy, total, steal;
    cpu_times(&busy, &total, &steal);
    uint64_t own = own_times(quiet, quiet_count) - watch->own_before;
    double cpus = (double)sysconf(_SC_NPROCESSORS_ONLN);
    double passed = (double)(total - watch->total_before) / cpus; /* ticks of one CPU */
    text[0] = '\0';
    if (passed < SHORTEST_WATCH_TICKS) {
        return false;
    }
    uint64_t all = busy - watch->busy_before;
    double others = quiet_count > 0 && all > own ? (double)(all - own) / passed : 0;
    double stolen = (double)(steal - watch->steal_before) / passed;
    double preempted = (double)(preemptions() - watch->preempted_before) / (passed / (double)sysconf(_SC_CLK_TCK));
    text[0] = '\0';
    if (others <= BUSY_SHARE_MAX && stolen <= STEAL_SHARE_MAX && preempted <= PREEMPTED_A_SECOND) {
        return false;
    }
    snprintf(
        text, text_bytes,
        "the machine was busy: others used %.0f%% of a CPU, %.1f%% was stolen, this thread was preempted %.0f times "
        "a second (load at the start %.2f): take the figures with care",
        others * 100, stolen * 100, preempted, watch->load);
    return true;
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

void
machine_interrupts_catch(void)
{
    struct sigaction action = { .sa_handler = interrupt_note };
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool
machine_interrupted(void)
{
    return load_relaxed(&interrupts) > 0;
}
