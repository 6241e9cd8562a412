/* host.h - what this machine and its control groups leave to this process. Boot and management code. */
#pragma once
#include "config/base.h"
#include "config/units.h"

#define HOST_CPUS_MAX (CPU_NUMBER_MAX + 1)

struct host {
    uint64_t memory_bytes; /* smaller of MemAvailable and what the cgroup leaves; 0: unknown */
    bool memory_by_cgroup; /* the cgroup was the smaller one */
    uint32_t cpu_quota;    /* whole CPUs that the cgroup's quota allows, at least 1; 0: no quota */
    uint32_t cpu_count;
    int cpus[HOST_CPUS_MAX];   /* allowed to this process, ascending */
    uint64_t reservable_bytes; /* of a given reserve, host_reservable(); 0: not asked. host_read() leaves it 0 */
};

/* Read /proc and /sys; `root` is put before their paths ("" for the real ones, a directory in tests). */
void host_read(const char *root, struct host *out);

/* Occupy descriptors 0 to 2 where they are closed: what is opened next, a client's connection, must not be taken for
 * stdout or stderr. Writing to a stdout that was closed still fails. First thing in main(). */
void host_keep_standard_files(void);

/* How much of `wanted_bytes` of address space can be mapped without touching it: all, or what the limit of address
 * space, strict overcommit and the layout leave, to 64 MiB. Asked of the kernel by mapping, because no file says it. */
uint64_t host_reservable(uint64_t wanted_bytes);
