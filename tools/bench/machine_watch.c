/* machine_watch.c - was the machine quiet while we measured? */
#include "tools/bench/machine.h"
#include <glob.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <unistd.h>

/* A CPU shared with others for more than this is worth a word. */
#define BUSY_SHARE_MAX       0.1
#define STEAL_SHARE_MAX      0.01
/* Clock ticks of one CPU: in less than that, shares say nothing. */
#define SHORTEST_WATCH_TICKS 20
#define PREEMPTED_A_SECOND   50

/* Line `cpu` of /proc/stat: user nice system idle iowait irq softirq steal. */
static void
cpu_times(struct machine_counts *counts)
{
    unsigned long long t[8] = { 0 };
    FILE *file = fopen("/proc/stat", "re");
    if (file == NULL) {
        return;
    }
    if (fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6],
               &t[7]) == 8) {
        counts->busy = t[0] + t[1] + t[2] + t[5] + t[6];
        counts->total = counts->busy + t[3] + t[4] + t[7];
        counts->stolen = t[7];
    }
    fclose(file);
}

/* utime + stime of a process, its threads included. */
static uint64_t
process_times(pid_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
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

/* The number behind `name` at the beginning of a line. False: no such file or line. */
static bool
file_number(const char *path, const char *name, uint64_t *number)
{
    char line[256];
    bool found = false;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    while (!found && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0) {
            *number = strtoull(line + strlen(name), NULL, 10);
            found = true;
        }
    }
    fclose(file);
    return found;
}

/* Of the control group that we are in, of either version. */
static uint64_t
throttled_us(void)
{
    char line[512], path[1024];
    uint64_t number = 0;
    bool found = false;
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file == NULL) {
        return 0;
    }
    while (!found && fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        if (group == NULL) {
            continue;
        }
        *group++ = '\0';
        if (controllers[1] == '\0') {
            snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cpu.stat", group);
            found = file_number(path, "throttled_usec ", &number);
        } else if (strcmp(controllers + 1, "cpu") == 0 || strncmp(controllers + 1, "cpu,", 4) == 0) {
            snprintf(path, sizeof(path), "/sys/fs/cgroup/%s%s/cpu.stat", controllers + 1, group);
            found = file_number(path, "throttled_time ", &number);
            number /= 1000; /* ns */
        }
    }
    fclose(file);
    return number;
}

static uint64_t
hot_count(void)
{
    glob_t files;
    uint64_t sum = 0, number;
    if (glob("/sys/devices/system/cpu/cpu*/thermal_throttle/core_throttle_count", 0, NULL, &files) != 0) {
        return 0;
    }
    for (size_t i = 0; i < files.gl_pathc; i++) {
        sum += file_number(files.gl_pathv[i], "", &number) ? number : 0;
    }
    globfree(&files);
    return sum;
}

static void
counts_read(struct machine_counts *counts, const pid_t *quiet, uint32_t quiet_count)
{
    struct rusage usage;
    *counts = (struct machine_counts){ .own = process_times(getpid()) };
    for (uint32_t i = 0; i < quiet_count; i++) {
        counts->own += process_times(quiet[i]);
    }
    cpu_times(counts);
    counts->preempted = getrusage(RUSAGE_THREAD, &usage) == 0 ? (uint64_t)usage.ru_nivcsw : 0;
    counts->throttled_us = throttled_us();
    counts->hot = hot_count();
}

void
machine_watch_begin(struct machine_watch *watch, const pid_t *quiet, uint32_t quiet_count)
{
    if (getloadavg(&watch->load, 1) != 1) {
        watch->load = 0;
    }
    counts_read(&watch->before, quiet, quiet_count);
}

bool
machine_watch_end(const struct machine_watch *watch, const pid_t *quiet, uint32_t quiet_count, char *text,
                  size_t text_bytes)
{
    struct machine_counts after;
    counts_read(&after, quiet, quiet_count);
    return machine_watch_judge(watch, &after, quiet_count > 0, (double)sysconf(_SC_NPROCESSORS_ONLN),
                               (double)sysconf(_SC_CLK_TCK), text, text_bytes);
}

/* Counters of the kernel may go back a little, and a server's end with it. */
static double
more(uint64_t after, uint64_t before)
{
    return after > before ? (double)(after - before) : 0;
}

__attribute__((format(printf, 3, 4))) static void
cause_add(char *text, size_t text_bytes, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    if (used > 0) {
        used += (size_t)snprintf(text + used, text_bytes - used, ", ");
        used = MIN(used, text_bytes - 1);
    }
    va_start(arguments, format);
    vsnprintf(text + used, text_bytes - used, format, arguments);
    va_end(arguments);
}

bool
machine_watch_judge(const struct machine_watch *watch, const struct machine_counts *after, bool servers_known,
                    double cpus, double ticks_a_second, char *text, size_t text_bytes)
{
    const struct machine_counts *before = &watch->before;
    char causes[512] = "";
    double passed = more(after->total, before->total) / cpus; /* ticks of one CPU */
    text[0] = '\0';
    if (passed < SHORTEST_WATCH_TICKS) {
        return false;
    }
    double all = more(after->busy, before->busy), own = more(after->own, before->own);
    /* Whoever was ours and is gone took its time along. */
    double others = servers_known && after->own >= before->own && all > own ? (all - own) / passed : 0;
    double stolen = more(after->stolen, before->stolen) / passed;
    double preempted = more(after->preempted, before->preempted) / (passed / ticks_a_second);
    double throttled_ms = more(after->throttled_us, before->throttled_us) / 1000;
    if (others > BUSY_SHARE_MAX) {
        cause_add(causes, sizeof(causes), "others used %.0f%% of a CPU", others * 100);
    }
    if (stolen > STEAL_SHARE_MAX) {
        cause_add(causes, sizeof(causes), "the host took %.1f%% of a CPU away", stolen * 100);
    }
    if (preempted > PREEMPTED_A_SECOND) {
        cause_add(causes, sizeof(causes), "this thread was preempted %.0f times a second", preempted);
    }
    if (throttled_ms > 0) {
        cause_add(causes, sizeof(causes), "our control group's CPU limit held us up for %.1f ms", throttled_ms);
    }
    if (after->hot > before->hot) {
        cause_add(causes, sizeof(causes), "cores were slowed down by heat %.0f times", more(after->hot, before->hot));
    }
    if (causes[0] == '\0') {
        return false;
    }
    snprintf(text, text_bytes, "the machine was busy: %s (load at the start %.2f): take the figures with care", causes,
             watch->load);
    return true;
}
