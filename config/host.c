#include "config/host.h"
#include "config/limits.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

/* A whole small file as text; false when it cannot be read. */
static bool
read_text(const char *root, const char *dir, const char *name, char *out, size_t bytes)
{
    char path[2 * PATH_MAX];
    size_t used = 0;

    if ((size_t)snprintf(path, sizeof(path), "%s%s/%s", root, dir, name) >= sizeof(path)) {
        return false;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    for (;;) {
        ssize_t got = read(fd, out + used, bytes - 1 - used);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        used += (size_t)got;
    }
    close(fd);
    out[used] = '\0';
    return used > 0;
}

/* The number behind `key` at the start of a line; false when it is not there. */
static bool
number_of(const char *text, const char *key, uint64_t *out)
{
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, strlen(key)) == 0) {
            *out = strtoull(line + strlen(key), NULL, 10);
            return true;
        }
        if (*line == '\0') {
            break;
        }
    }
    return false;
}

static uint64_t
memory_available(const char *root)
{
    char text[8192];
    uint64_t kib;

    if (read_text(root, "/proc", "meminfo", text, sizeof(text)) && number_of(text, "MemAvailable:", &kib)) {
        return kib * 1024;
    }
    return 0;
}

/* What one cgroup leaves: its limit less what is used, where page cache that can be dropped does not count as used. */
static uint64_t
cgroup_room(const char *root, const char *dir, const char *limit_name, const char *used_name)
{
    char text[8192];
    uint64_t limit, used, cache = 0;

    if (!read_text(root, dir, limit_name, text, sizeof(text)) || text[0] < '0' || text[0] > '9') {
        return UINT64_MAX; /* no file here, or "max" */
    }
    limit = strtoull(text, NULL, 10);
    if (!read_text(root, dir, used_name, text, sizeof(text))) {
        return limit;
    }
    used = strtoull(text, NULL, 10);
    if (read_text(root, dir, "memory.stat", text, sizeof(text))) {
        (void)(number_of(text, "total_inactive_file ", &cache) || number_of(text, "inactive_file ", &cache));
    }
    used -= MIN(used, cache);
    return limit - MIN(limit, used);
}

static void
cgroup_cpu_quota(const char *root, const char *dir, uint32_t *quota)
{
    char text[256];

    if (!read_text(root, dir, "cpu.max", text, sizeof(text)) || text[0] < '0' || text[0] > '9') {
        return;
    }
    char *end;
    uint64_t allowed = strtoull(text, &end, 10), period = strtoull(end, NULL, 10);
    if (period == 0) {
        return;
    }
    uint32_t cpus = (uint32_t)MIN(MAX(allowed / period, 1), HOST_CPUS_MAX);
    *quota = *quota == 0 ? cpus : MIN(*quota, cpus);
}

/* The process' own group and every one above it: each has a say. */
static uint64_t
cgroup_walk(const char *root, const char *mount, char *group, const char *limit_name, const char *used_name,
            uint32_t *quota)
{
    uint64_t room = UINT64_MAX;

    for (;;) {
        char dir[PATH_MAX];
        if ((size_t)snprintf(dir, sizeof(dir), "%s%s", mount, group) >= sizeof(dir)) {
            return room;
        }
        uint64_t here = cgroup_room(root, dir, limit_name, used_name);
        room = MIN(room, here);
        if (quota != NULL) {
            cgroup_cpu_quota(root, dir, quota);
        }
        char *slash = strrchr(group, '/');
        if (slash == NULL) {
            return room;
        }
        *slash = '\0';
    }
}

/* Unified hierarchy ("0::/path") and the memory controller of the old one ("N:memory:/path"). */
static uint64_t
cgroups_room(const char *root, uint32_t *quota)
{
    char text[8192];
    uint64_t room = UINT64_MAX;

    if (!read_text(root, "/proc/self", "cgroup", text, sizeof(text))) {
        return room;
    }
    for (char *line = text, *next; line != NULL && *line != '\0'; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) {
            *next++ = '\0';
        }
        char *controllers = strchr(line, ':');
        char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        if (group == NULL) {
            continue;
        }
        *group++ = '\0';
        if (controllers[1] == '\0') {
            uint64_t here = cgroup_walk(root, "/sys/fs/cgroup", group, "memory.max", "memory.current", quota);
            room = MIN(room, here);
        } else if (strcmp(controllers + 1, "memory") == 0) {
            uint64_t here = cgroup_walk(root, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes",
                                        "memory.usage_in_bytes", NULL);
            room = MIN(room, here);
        }
    }
    return room;
}

static void
read_cpus(struct host *out)
{
    size_t bytes = CPU_ALLOC_SIZE(HOST_CPUS_MAX);
    cpu_set_t *set = CPU_ALLOC(HOST_CPUS_MAX);

    CHECK(set != NULL);
    CPU_ZERO_S(bytes, set);
    if (sched_getaffinity(0, bytes, set) == 0) {
        for (int cpu = 0; cpu < HOST_CPUS_MAX; cpu++) {
            if (CPU_ISSET_S((size_t)cpu, bytes, set)) {
                out->cpus[out->cpu_count++] = cpu;
            }
        }
    }
    CPU_FREE(set);
    if (out->cpu_count == 0) {
        out->cpus[out->cpu_count++] = 0;
    }
}

void
host_read(const char *root, struct host *out)
{
    memset(out, 0, sizeof(*out));
    uint64_t available = memory_available(root), room = cgroups_room(root, &out->cpu_quota);

    out->memory_by_cgroup = room < available || (available == 0 && room != UINT64_MAX);
    out->memory_bytes = out->memory_by_cgroup ? room : available;
    read_cpus(out);
}

void
host_keep_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            int opened = open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
            CHECK(opened < 0 || opened == fd); /* the lowest that is free; a jail may have no /dev */
        }
    }
}

static bool
can_reserve(uint64_t bytes)
{
    void *range = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (range == MAP_FAILED) {
        return false;
    }
    munmap(range, bytes);
    return true;
}

uint64_t
host_reservable(uint64_t wanted_bytes)
{
    uint64_t bytes = 0;

    if (can_reserve(wanted_bytes)) {
        return wanted_bytes;
    }
    for (uint64_t step = 64 * 1024 * GIB; step >= 64 * MIB; step /= 2) {
        if (bytes + step < wanted_bytes && can_reserve(bytes + step)) {
            bytes += step;
        }
    }
    return bytes;
}
