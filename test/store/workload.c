#include "test/store/workload.h"
#include <math.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

void
workload_zipf_init(struct workload_zipf *zipf, uint64_t keys, double theta)
{
    double zeta = 0;
    for (uint64_t i = 1; i <= keys; i++) {
        zeta += 1 / pow((double)i, theta);
    }
    double two = 1 + pow(0.5, theta);
    *zipf = (struct workload_zipf){ .keys = keys, .theta = theta, .alpha = 1 / (1 - theta), .zeta = zeta };
    zipf->eta = (1 - pow(2 / (double)keys, 1 - theta)) / (1 - two / zeta);
}

uint64_t
workload_zipf_next(const struct workload_zipf *zipf, uint64_t *random)
{
    double u = (double)(workload_random(random) >> 11) * 0x1p-53, uz = u * zipf->zeta;
    if (uz < 1) {
        return 0;
    }
    if (uz < 1 + pow(0.5, zipf->theta)) {
        return 1;
    }
    uint64_t rank = (uint64_t)((double)zipf->keys * pow(zipf->eta * u - zipf->eta + 1, zipf->alpha));
    return MIN(rank, zipf->keys - 1);
}

static double
clock_s(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double
workload_wall_s(void)
{
    return clock_s(CLOCK_MONOTONIC);
}

double
workload_cpu_s(void)
{
    return clock_s(CLOCK_THREAD_CPUTIME_ID);
}

/* As the process began: workload_pin() narrows a thread's own. */
static const cpu_set_t *
cpus_allowed(void)
{
    static cpu_set_t allowed;
    if (CPU_COUNT(&allowed) == 0) {
        CHECK(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
    }
    return &allowed;
}

uint32_t
workload_cpus(void)
{
    return (uint32_t)CPU_COUNT(cpus_allowed());
}

void
workload_pin(uint32_t n)
{
    const cpu_set_t *allowed = cpus_allowed();
    cpu_set_t one;
    size_t cpu = 0;
    for (uint32_t left = n % workload_cpus() + 1; left != 0; cpu++) {
        left -= CPU_ISSET(cpu, allowed) != 0;
    }
    CPU_ZERO(&one);
    CPU_SET(cpu - 1, &one);
    CHECK(sched_setaffinity(0, sizeof(one), &one) == 0);
}

uint64_t
workload_resident_bytes(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*u %lu", &pages) != 1) {
        pages = 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}
