/* doctor_probe.h - what the examinations of doctor_*.c share: reading the host's files, adding findings. */
#pragma once
#include "mgmt/doctor.h"
#include <sys/resource.h>

#define DOCTOR_TEXT_BYTES 4096

/* A small file below the doctor's root as one line, without the line's end; "" and false when it cannot be read. */
bool doctor_read(const struct doctor *doctor, char out[DOCTOR_TEXT_BYTES], const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Where a symbolic link below the root points: the last part of it. False: there is none. */
bool doctor_link(const struct doctor *doctor, char out[DOCTOR_TEXT_BYTES], const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The number behind `key` at the start of a line of `path`; false when it is not there. */
bool doctor_number(const struct doctor *doctor, const char *path, const char *key, uint64_t *out);

/* A limit of this process as /proc/self/limits below the root names it, else as the kernel says it. */
void doctor_limit(const struct doctor *doctor, const char *name, int resource, struct rlimit *out);

/* A new finding, its texts still empty. Static texts: `why`. NULL when the list is full, which ends the list. */
struct doctor_finding *doctor_add(struct doctor *doctor, enum doctor_level level, const char *name, const char *why);
void doctor_found(struct doctor_finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));
void doctor_wanted(struct doctor_finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));
void doctor_remedy(struct doctor_finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* CPUs of a list as the kernel writes it ("0-3,8"), as a set. False: not such a list; an empty list is good. */
struct doctor_cpus {
    bool has[CPU_NUMBER_MAX + 1];
};
bool doctor_cpus_parse(const char *list, struct doctor_cpus *out);
/* The lcores' CPUs that are (or are not) in `set`, printed. Returns how many. */
uint32_t doctor_lcores_in(const struct doctor *doctor, const struct doctor_cpus *set, bool in, char *out, size_t bytes);

/* ---- the examinations ---- */

void doctor_examine_host(struct doctor *doctor);    /* doctor_host.c: the machine, and who else uses it */
void doctor_examine_cpus(struct doctor *doctor);    /* doctor_cpu.c */
void doctor_examine_memory(struct doctor *doctor);  /* doctor_memory.c: pages, limits, clock */
void doctor_examine_devices(struct doctor *doctor); /* doctor_device.c: what the ports ask for */
void doctor_examine_ethernet(struct doctor *doctor, const struct port_settings *port); /* doctor_ethernet.c */
void doctor_examine_coalescing(struct doctor *doctor);

/* Whether the lcores are on a device's NUMA node. */
void doctor_examine_place(struct doctor *doctor, const char *what, const char *device, int device_node);
