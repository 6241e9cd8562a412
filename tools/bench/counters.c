/* counters.c - /proc, perf_event_open, and the management socket's `stats`. */
#include "tools/bench/counters.h"
#include "tools/bench/machine.h"
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_BYTES_MAX (256 * 1024)
#define ANSWER_TIMEOUT_S 2

/* ---- CPU time ---- */

/* First number of schedstat: ns on a CPU. Kernels without it count clock ticks in stat. 0: the thread is gone. */
static uint64_t
thread_cpu_ns(pid_t pid, pid_t thread)
{
    char path[64], text[512];
    unsigned long long ns = 0, user = 0, system = 0;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", (int)pid, (int)thread);
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        bool good = fscanf(file, "%llu", &ns) == 1;
        fclose(file);
        return good ? ns : 0;
    }
    snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)thread);
    file = fopen(path, "r");
    if (file == NULL) {
        return 0;
    }
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    const char *after_name = strrchr(text, ')'); /* the name may hold anything */
    if (after_name == NULL ||
        sscanf(after_name + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) != 2) {
        return 0;
    }
    return (user + system) * (1000000000ull / (unsigned long long)sysconf(_SC_CLK_TCK));
}

static void
thread_name(pid_t pid, struct counters_thread *thread)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)pid, (int)thread->id);
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        if (fgets(thread->name, sizeof(thread->name), file) != NULL) {
            thread->name[strcspn(thread->name, "\n")] = '\0';
        }
        fclose(file);
    }
}

static void
threads_find(struct counters *counters)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task", (int)counters->pid);
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return;
    }
    for (struct dirent *entry; (entry = readdir(folder)) != NULL && counters->thread_count < COUNTERS_THREADS_MAX;) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        struct counters_thread *thread = &counters->threads[counters->thread_count++];
        *thread = (struct counters_thread){ .id = (pid_t)atoi(entry->d_name), .fd = -1 };
        thread_name(counters->pid, thread);
        thread->cpu_ns = thread_cpu_ns(counters->pid, thread->id);
    }
    closedir(folder);
}

/* ---- instructions ---- */

static int
instructions_open(pid_t thread)
{
    struct perf_event_attr attributes = {
        .type = PERF_TYPE_HARDWARE,
        .size = sizeof(attributes),
        .config = PERF_COUNT_HW_INSTRUCTIONS,
        .exclude_kernel = 1,
        .exclude_hv = 1,
        .inherit = 1,
    };
    return (int)syscall(SYS_perf_event_open, &attributes, thread, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void
instructions_begin(struct counters *counters)
{
    counters->has_instructions = counters->thread_count > 0;
    for (uint32_t i = 0; i < counters->thread_count && counters->has_instructions; i++) {
        counters->threads[i].fd = instructions_open(counters->threads[i].id);
        if (counters->threads[i].fd >= 0 || errno == ESRCH) {
            continue; /* ESRCH: the thread ended meanwhile */
        }
        counters->has_instructions = false;
        const char *why = errno == ENOENT || errno == EOPNOTSUPP || errno == ENODEV ? "no hardware counters"
                          : errno == EACCES || errno == EPERM
                              ? "not permitted: root, CAP_PERFMON or a lower kernel.perf_event_paranoid"
                              : strerror(errno);
        snprintf(counters->why, sizeof(counters->why), "%s", why);
    }
}

static void
instructions_end(struct counters *counters)
{
    for (uint32_t i = 0; i < counters->thread_count; i++) {
        uint64_t count = 0;
        if (counters->threads[i].fd < 0) {
            continue;
        }
        if (read(counters->threads[i].fd, &count, sizeof(count)) != sizeof(count)) {
            counters->has_instructions = false;
            snprintf(counters->why, sizeof(counters->why), "the counter could not be read");
        }
        counters->instructions += count;
        close(counters->threads[i].fd);
        counters->threads[i].fd = -1;
    }
}

/* ---- what the server calls busy ---- */

static int
control_connect(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const struct timeval timeout = { .tv_sec = ANSWER_TIMEOUT_S };
    int fd = strlen(path) < sizeof(address.sun_path) ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    if (fd < 0) {
        return -1;
    }
    strcpy(address.sun_path, path);
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) != 0 ||
        connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* The text answer of `stats` ends in an empty line. */
static bool
stats_read(const char *path, char *text, size_t room)
{
    static const char request[] = "stats\n";
    size_t used = 0;
    int fd = control_connect(path);
    bool whole = false;
    if (fd < 0) {
        return false;
    }
    if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) == sizeof(request) - 1) {
        ssize_t got;
        while (!whole && used < room - 1 && (got = recv(fd, text + used, room - 1 - used, 0)) > 0) {
            used += (size_t)got;
            whole = used >= 2 && memcmp(text + used - 2, "\n\n", 2) == 0;
        }
    }
    close(fd);
    text[used] = '\0';
    return whole;
}

/* Sum over the lcores. */
static bool
busy_read(const char *path, uint64_t *cycles)
{
    char *text = malloc(ANSWER_BYTES_MAX);
    unsigned long long count = 0;
    CHECK(text != NULL);
    const char *line = stats_read(path, text, ANSWER_BYTES_MAX) ? strstr(text, "\nbusy_cycles ") : NULL;
    bool good = line != NULL && sscanf(line, " busy_cycles %llu", &count) == 1;
    *cycles = count;
    free(text);
    return good;
}

/* ---- both ends ---- */

void
counters_begin(struct counters *counters, pid_t pid, const char *control)
{
    memset(counters, 0, sizeof(*counters));
    counters->pid = pid;
    counters->control = control;
    snprintf(counters->why, sizeof(counters->why), pid == 0 ? "no process named" : "the process cannot be seen");
    if (pid > 0) {
        threads_find(counters);
        instructions_begin(counters);
    }
    counters->has_busy = control != NULL && busy_read(control, &counters->busy_cycles);
    counters->begin_ns = machine_now_ns();
}

void
counters_end(struct counters *counters)
{
    uint64_t cycles = 0;
    counters->seconds = (double)(machine_now_ns() - counters->begin_ns) * 1e-9;
    instructions_end(counters);
    for (uint32_t i = 0; i < counters->thread_count; i++) {
        struct counters_thread *thread = &counters->threads[i];
        uint64_t now = thread_cpu_ns(counters->pid, thread->id);
        thread->cpu_ns = now > thread->cpu_ns ? now - thread->cpu_ns : 0; /* 0: it ended meanwhile */
        counters->cpu_ns += thread->cpu_ns;
    }
    counters->has_cpu = counters->cpu_ns > 0;
    counters->has_busy = counters->has_busy && busy_read(counters->control, &cycles) && cycles >= counters->busy_cycles;
    if (counters->has_busy) {
        counters->busy_ns = (double)(cycles - counters->busy_cycles) * machine_ns_per_cycle();
    }
}
