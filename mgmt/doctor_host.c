/* doctor_host.c - is this the machine that the appliance is for, and is it there for the appliance alone? */
#include "mgmt/doctor_probe.h"
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#define INSTANCE       "hpc7g."
#define CORE_MAKER     "0x41"  /* Arm */
#define CORE_PART      "0xd40" /* Neoverse V1 */
#define STEAL_PERMILLE 1

/* ---- the machine ---- */

static void
examine_instance(struct doctor *doctor)
{
    char product[DOCTOR_TEXT_BYTES], present[DOCTOR_TEXT_BYTES], memory[UNIT_TEXT_BYTES];
    uint64_t kib = 0;

    bool known = doctor_read(doctor, product, "/sys/devices/virtual/dmi/id/product_name");
    bool right = known && strncmp(product, INSTANCE, strlen(INSTANCE)) == 0;
    struct doctor_finding *finding = doctor_add(doctor, right ? DOCTOR_GOOD : DOCTOR_ADVICE, "instance",
                                                "the appliance is made for it, and EFA is not had elsewhere");
    doctor_number(doctor, "/proc/meminfo", "MemTotal:", &kib);
    doctor_read(doctor, present, "/sys/devices/system/cpu/present");
    doctor_found(finding, "%.60s: CPUs %.60s, %s of memory", known ? product : "a machine without a name", present,
                 unit_print_size_short(memory, kib * 1024));
    doctor_wanted(finding,
                  "hpc7g.4xlarge, 8xlarge or 16xlarge: 16, 32 or 64 Graviton3E cores, 128 GiB, one EFA device");
    doctor_remedy(finding, "on AWS start one, in a cluster placement group; README.md, \"On hpc7g\", says how");
}

/* What stands behind "key :" in a line of /proc/cpuinfo; "" when no line has it. */
static void
cpuinfo_value(const char *text, const char *key, char out[64])
{
    const char *at = strstr(text, key);

    out[0] = '\0';
    if (at != NULL && (at = strchr(at, ':')) != NULL) {
        at++;
        at += strspn(at, " ");
        snprintf(out, 64, "%.*s", (int)MIN(strcspn(at, "\n"), 63), at);
    }
}

static void
examine_processor(struct doctor *doctor)
{
    char text[DOCTOR_TEXT_BYTES], maker[64], part[64], model[64];

    doctor_read(doctor, text, "/proc/cpuinfo");
    cpuinfo_value(text, "CPU implementer", maker);
    cpuinfo_value(text, "CPU part", part);
    cpuinfo_value(text, "model name", model);
    bool right = strcmp(maker, CORE_MAKER) == 0 && strcmp(part, CORE_PART) == 0;
    struct doctor_finding *finding =
        doctor_add(doctor, right ? DOCTOR_GOOD : DOCTOR_ADVICE, "processor",
                   "what is tuned for its caches and its memory order is slower elsewhere");
    if (right) {
        doctor_found(finding, "Neoverse V1");
    } else if (maker[0] != '\0') {
        doctor_found(finding, "an Arm core of implementer %s, part %s", maker, part);
    } else {
        doctor_found(finding, "%s", model[0] == '\0' ? "unknown" : model);
    }
    doctor_wanted(finding, "Arm Neoverse V1, the core of Graviton3E: arm64");
    doctor_remedy(finding, "an hpc7g instance");
}

/* ---- who else takes its time ---- */

static void
examine_irqbalance(struct doctor *doctor)
{
    char path[PATH_MAX], name[DOCTOR_TEXT_BYTES];
    bool runs = false, sees = doctor_read(doctor, name, "/proc/1/comm");

    snprintf(path, sizeof(path), "%s/proc", doctor->root);
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir != NULL && !runs && (entry = readdir(dir)) != NULL) {
        runs = isdigit((unsigned char)entry->d_name[0]) && doctor_read(doctor, name, "/proc/%s/comm", entry->d_name) &&
               strcmp(name, "irqbalance") == 0;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    struct doctor_finding *finding = doctor_add(doctor, runs ? DOCTOR_ADVICE : DOCTOR_GOOD, "irqbalance",
                                                "it moves interrupts back onto the lcores' CPUs");
    doctor_found(finding, runs   ? "irqbalance runs"
                          : sees ? "irqbalance does not run"
                                 : "other processes cannot be seen from here");
    doctor_wanted(finding, "interrupts that stay where they are put");
    doctor_remedy(finding, "sluice-appliance apply, or systemctl disable --now irqbalance");
}

/* Time that the hypervisor gave to others while this machine had work: a dedicated core has none. */
static void
examine_steal(struct doctor *doctor)
{
    char text[DOCTOR_TEXT_BYTES];
    unsigned long long times[8] = { 0 }, total = 0;

    doctor_read(doctor, text, "/proc/stat");
    sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &times[0], &times[1], &times[2], &times[3], &times[4],
           &times[5], &times[6], &times[7]);
    for (size_t i = 0; i < ARRAY_COUNT(times); i++) {
        total += times[i];
    }
    bool shared = times[7] * 1000 > total * STEAL_PERMILLE;
    struct doctor_finding *finding = doctor_add(doctor, shared ? DOCTOR_ADVICE : DOCTOR_GOOD, "steal",
                                                "an lcore stands still meanwhile, for milliseconds");
    if (!shared) {
        doctor_found(finding, "the hypervisor gives these CPUs to nobody else");
        return;
    }
    doctor_found(finding, "%.1f%% of the CPUs' time since boot went to other machines",
                 (double)times[7] * 100 / (double)total);
    doctor_wanted(finding, "at most 0.1%%");
    doctor_remedy(finding, "an instance with cores of its own");
}

/* ---- what moves memory ---- */

static void
examine_swap(struct doctor *doctor)
{
    char text[DOCTOR_TEXT_BYTES];

    doctor_read(doctor, text, "/proc/swaps");
    const char *first = strchr(text, '\n'); /* behind the heading */
    struct doctor_finding *finding = doctor_add(doctor, first == NULL ? DOCTOR_GOOD : DOCTOR_ADVICE, "swap",
                                                "a request for what lies in swap waits for a disk");
    if (first == NULL) {
        doctor_found(finding, "none");
        return;
    }
    doctor_found(finding, "%.*s", (int)strcspn(first + 1, " \t"), first + 1);
    doctor_wanted(finding, "none");
    doctor_remedy(finding,
                  "swapoff -a, and without it in /etc/fstab; under sluiced.service MemorySwapMax=0 keeps out of it");
}

static void
examine_balancing(struct doctor *doctor)
{
    char text[DOCTOR_TEXT_BYTES];
    bool moves = doctor_read(doctor, text, "/proc/sys/kernel/numa_balancing") && strcmp(text, "0") != 0;
    struct doctor_finding *finding = doctor_add(doctor, moves ? DOCTOR_ADVICE : DOCTOR_GOOD, "balancing",
                                                "the kernel unmaps pages to see who uses them: faults on the lcores");

    doctor_found(finding, "kernel.numa_balancing = %s", moves ? text : "0");
    doctor_wanted(finding, "0");
    doctor_remedy(finding, "sluice-appliance apply, or sysctl kernel.numa_balancing=0");
}

/* ---- what locks the program in ---- */

static bool
has_landlock(const struct doctor *doctor)
{
    char text[DOCTOR_TEXT_BYTES];

    if (doctor_read(doctor, text, "/sys/kernel/security/lsm")) {
        return strstr(text, "landlock") != NULL;
    }
    return doctor->root[0] == '\0' &&
           syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) > 0;
}

static void
examine_locks(struct doctor *doctor)
{
    char text[DOCTOR_TEXT_BYTES];
    bool seccomp = doctor_read(doctor, text, "/proc/sys/kernel/seccomp/actions_avail"), landlock = has_landlock(doctor);
    struct doctor_finding *finding =
        doctor_add(doctor, seccomp && landlock ? DOCTOR_GOOD : DOCTOR_ADVICE, "sandbox",
                   "a thread that was taken over by a request could do what the whole process may");

    if (seccomp && landlock) {
        doctor_found(finding, "this kernel has seccomp and Landlock");
        return;
    }
    doctor_found(finding, "this kernel has no %s%s%s", seccomp ? "" : "seccomp", seccomp || landlock ? "" : " and no ",
                 landlock ? "" : "Landlock");
    doctor_wanted(finding, "both");
    doctor_remedy(finding, "a kernel from 5.13 on, with lsm= on its command line, if it is there, naming landlock");
}

void
doctor_examine_host(struct doctor *doctor)
{
    examine_instance(doctor);
    examine_processor(doctor);
    examine_irqbalance(doctor);
    examine_steal(doctor);
    examine_swap(doctor);
    examine_balancing(doctor);
    if (doctor->dataplane == NULL) { /* one that serves is locked in already, and `status` tells how */
        examine_locks(doctor);
    }
}
