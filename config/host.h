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
    int cpus[HOST_CPUS_MAX]; /* allowed to this process, ascending */
};

/* Read /proc and /sys; `root` is put before their paths ("" for the real ones, a directory in tests). */
void host_read(const char *root, struct host *out);
