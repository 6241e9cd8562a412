#include "mgmt/placement.h"
#include "mgmt/log.h"
#include "mgmt/mgmt.h"
#include <dirent.h>
#include <errno.h>
#include <sched.h>

static void
allowed_set(const struct host *host, cpu_set_t *out)
{
    CPU_ZERO(out);
    for (uint32_t i = 0; i < host->cpu_count; i++) {
        CPU_SET((size_t)host->cpus[i], out);
    }
}

static void
leave_out(cpu_set_t *set, const int *cpus, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        CPU_CLR((size_t)cpus[i], set);
    }
}

void
placement_open(struct mgmt *mgmt)
{
    cpu_set_t rest;

    mgmt->host = malloc(sizeof(*mgmt->host));
    CHECK(mgmt->host != NULL);
    host_read("", mgmt->host);
    allowed_set(mgmt->host, &rest);
    leave_out(&rest, mgmt->settings->cpus, mgmt->settings->cpu_count);
    if (CPU_COUNT(&rest) > 0) {
        sched_setaffinity(0, sizeof(rest), &rest);
    }
}

void
placement_close(struct mgmt *mgmt)
{
    free(mgmt->host);
}

static bool
is_lcore(const struct dataplane *dataplane, pid_t tid)
{
    for (uint32_t i = 0; i < dataplane->lcore_count; i++) {
        if (dataplane->lcores[i]->tid == tid) {
            return true;
        }
    }
    return false;
}

/* Threads of libraries are known to the kernel only. One that is refused stays where it is, in the way of nobody but
 * the lcore it shares a CPU with. */
static void
confine_others(const struct dataplane *dataplane, const cpu_set_t *rest)
{
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (tid > 0 && !is_lcore(dataplane, tid)) {
            (void)sched_setaffinity(tid, sizeof(*rest), rest);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

static bool
move_lcores(struct dataplane *dataplane, const int *cpus, uint32_t *moved, int *error)
{
    for (*moved = 0; *moved < dataplane->lcore_count; (*moved)++) {
        *error = cpus[*moved] == dataplane->lcores[*moved]->cpu ? 0 : dataplane_move(dataplane, *moved, cpus[*moved]);
        if (*error != 0) {
            return false;
        }
    }
    return true;
}

static bool
is_placed(const struct dataplane *dataplane, const int *cpus)
{
    for (uint32_t i = 0; i < dataplane->lcore_count; i++) {
        if (dataplane->lcores[i]->cpu != cpus[i]) {
            return false;
        }
    }
    return true;
}

static void
say_refused(const struct mgmt *mgmt, uint32_t lcore, int cpu, int error, char *why, size_t why_bytes)
{
    char allowed[128];

    if (error == -EINVAL) {
        snprintf(why, why_bytes,
                 "lcores.cpus: CPU %d is offline, or the control group no longer allows it, expected some of %s", cpu,
                 cpu_list_print(allowed, sizeof(allowed), mgmt->host->cpus, mgmt->host->cpu_count));
    } else {
        snprintf(why, why_bytes, "lcores.cpus: lcore %u cannot move to CPU %d: %s", lcore, cpu, strerror(-error));
    }
}

bool
placement_move(struct mgmt *mgmt, const int *cpus, char *why, size_t why_bytes)
{
    struct dataplane *dataplane = mgmt->dataplane;
    int before[LIMIT_LCORES], error;
    uint32_t count = dataplane->lcore_count, moved;
    cpu_set_t rest, between;

    if (is_placed(dataplane, cpus)) {
        return true;
    }
    for (uint32_t i = 0; i < count; i++) {
        before[i] = dataplane->lcores[i]->cpu;
    }
    allowed_set(mgmt->host, &rest);
    leave_out(&rest, cpus, count);
    between = rest;
    leave_out(&between, before, count);
    if (CPU_COUNT(&between) > 0) {
        confine_others(dataplane, &between); /* nobody stands where an lcore comes to */
    }
    if (!move_lcores(dataplane, cpus, &moved, &error)) {
        say_refused(mgmt, moved, cpus[moved], error, why, why_bytes);
        for (uint32_t i = 0; i < moved; i++) {
            (void)dataplane_move(dataplane, i, before[i]);
        }
        allowed_set(mgmt->host, &rest);
        leave_out(&rest, before, count);
    }
    if (CPU_COUNT(&rest) == 0) {
        allowed_set(mgmt->host, &rest);
    }
    confine_others(dataplane, &rest);
    return moved == count;
}

json_t *
placement_warnings(const struct mgmt *mgmt)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < mgmt->dataplane->lcore_count; i++) {
        const struct lcore *lcore = mgmt->dataplane->lcores[i];
        if (lcore->cpu_node != lcore->node) {
            json_array_append_new(
                list, json_sprintf("lcore %u: CPU %d is on NUMA node %d, its memory stays on node %d until the next "
                                   "start: every access takes longer",
                                   i, lcore->cpu, lcore->cpu_node, lcore->node));
        }
    }
    return list;
}
