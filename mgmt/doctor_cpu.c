/* doctor_cpu.c - do the lcores have their CPUs for themselves? */
#include "mgmt/doctor_probe.h"
#include <dirent.h>
#include <limits.h>

#define CPU_DIR "/sys/devices/system/cpu"

/* One of the kernel's lists of CPUs must hold all of the lcores'. */
static void
examine_list(struct doctor *doctor, const char *name, const char *file, const char *option, const char *why)
{
    char text[DOCTOR_TEXT_BYTES], without[128], lcores[128];
    struct doctor_cpus set;
    bool known = doctor_read(doctor, text, "%s/%s", CPU_DIR, file) && doctor_cpus_parse(text, &set);

    if (!known) {
        memset(&set, 0, sizeof(set));
        text[0] = '\0';
    }
    cpu_list_print(lcores, sizeof(lcores), doctor->settings->cpus, doctor->settings->cpu_count);
    uint32_t missing = doctor_lcores_in(doctor, &set, false, without, sizeof(without));
    struct doctor_finding *finding = doctor_add(doctor, missing == 0 ? DOCTOR_GOOD : DOCTOR_ADVICE, name, why);
    if (missing == 0) {
        doctor_found(finding, "CPUs %s have it", lcores);
        return;
    }
    doctor_found(finding, "%s%s; lcores on CPUs %s do not have it", text[0] == '\0' ? "no CPU has it" : "CPUs ",
                 text[0] == '\0' ? "" : text, without);
    doctor_wanted(finding, "%s=%s", option, lcores);
    doctor_remedy(finding, "sluice-appliance apply, or %s=%s on the kernel's command line, and a reboot", option,
                  lcores);
}

/* The kernel shows no list of CPUs without RCU callbacks: its command line does. */
static void
examine_rcu(struct doctor *doctor)
{
    char text[DOCTOR_TEXT_BYTES], without[128], lcores[128];
    struct doctor_cpus set = { { false } };
    const char *option;

    doctor_read(doctor, text, "/proc/cmdline");
    option = strstr(text, "rcu_nocbs=");
    if (option != NULL) {
        char list[DOCTOR_TEXT_BYTES];
        snprintf(list, sizeof(list), "%.*s", (int)strcspn(option + 10, " "), option + 10);
        if (strcmp(list, "all") == 0) {
            memset(&set, true, sizeof(set));
        } else if (!doctor_cpus_parse(list, &set)) {
            memset(&set, 0, sizeof(set));
        }
    }
    cpu_list_print(lcores, sizeof(lcores), doctor->settings->cpus, doctor->settings->cpu_count);
    uint32_t missing = doctor_lcores_in(doctor, &set, false, without, sizeof(without));
    struct doctor_finding *finding = doctor_add(doctor, missing == 0 ? DOCTOR_GOOD : DOCTOR_ADVICE, "rcu",
                                                "the kernel runs its deferred work on the lcores' CPUs");
    if (missing == 0) {
        doctor_found(finding, "CPUs %s run no callbacks", lcores);
        return;
    }
    doctor_found(finding, "CPUs %s run callbacks", without);
    doctor_wanted(finding, "rcu_nocbs=%s", lcores);
    doctor_remedy(finding, "sluice-appliance apply, or rcu_nocbs=%s on the kernel's command line, and a reboot",
                  lcores);
}

static void
examine_governor(struct doctor *doctor)
{
    char text[DOCTOR_TEXT_BYTES], list[128], seen[32] = "";
    int slow[LIMIT_LCORES];
    uint32_t slow_count = 0, known = 0;

    for (uint32_t i = 0; i < doctor->settings->cpu_count; i++) {
        int cpu = doctor->settings->cpus[i];
        if (!doctor_read(doctor, text, CPU_DIR "/cpu%d/cpufreq/scaling_governor", cpu)) {
            continue;
        }
        known++;
        if (strcmp(text, "performance") != 0) {
            snprintf(seen, sizeof(seen), "%.31s", text);
            slow[slow_count++] = cpu;
        }
    }
    struct doctor_finding *finding = doctor_add(doctor, slow_count == 0 ? DOCTOR_GOOD : DOCTOR_ADVICE, "governor",
                                                "a clock that goes up and down makes latency go up and down");
    if (slow_count == 0) {
        doctor_found(finding, known == 0 ? "none: the kernel does not scale frequencies here" : "performance");
        return;
    }
    doctor_found(finding, "%s on CPUs %s", seen, cpu_list_print(list, sizeof(list), slow, slow_count));
    doctor_wanted(finding, "performance");
    doctor_remedy(finding, "sluice-appliance apply, or cpupower -c %s frequency-set -g performance", list);
}

/* Interrupts that the kernel may deliver to an lcore. */
static void
examine_irqs(struct doctor *doctor)
{
    char path[PATH_MAX], text[DOCTOR_TEXT_BYTES], on[128], first[64] = "", on_first[128] = "";
    uint32_t count = 0;

    snprintf(path, sizeof(path), "%s/proc/irq", doctor->root);
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        struct doctor_cpus set;
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9') {
            continue;
        }
        bool known = doctor_read(doctor, text, "/proc/irq/%s/effective_affinity_list", entry->d_name) && text[0] != 0;
        known = known || doctor_read(doctor, text, "/proc/irq/%s/smp_affinity_list", entry->d_name);
        if (known && doctor_cpus_parse(text, &set) && doctor_lcores_in(doctor, &set, true, on, sizeof(on)) > 0) {
            if (count++ == 0) {
                snprintf(first, sizeof(first), "%.63s", entry->d_name);
                snprintf(on_first, sizeof(on_first), "%s", on);
            }
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    struct doctor_finding *finding = doctor_add(doctor, count == 0 ? DOCTOR_GOOD : DOCTOR_ADVICE, "interrupts",
                                                "each one takes an lcore's CPU away for microseconds");
    if (count == 0) {
        doctor_found(finding, "none goes to an lcore's CPU");
        return;
    }
    doctor_found(finding, "%u may go to lcores' CPUs; number %s to CPU %s", count, first, on_first);
    doctor_wanted(finding, "none on the lcores' CPUs");
    doctor_remedy(finding, "sluice-appliance apply, or the other CPUs written into /proc/irq/N/smp_affinity_list");
}

/* Two lcores, or an lcore and anything else, on the threads of one core. */
static void
examine_smt(struct doctor *doctor)
{
    char text[DOCTOR_TEXT_BYTES], list[128];
    int shared[LIMIT_LCORES];
    uint32_t count = 0;

    for (uint32_t i = 0; i < doctor->settings->cpu_count; i++) {
        struct doctor_cpus set;
        int cpu = doctor->settings->cpus[i], siblings = 0;
        if (doctor_read(doctor, text, CPU_DIR "/cpu%d/topology/thread_siblings_list", cpu) &&
            doctor_cpus_parse(text, &set)) {
            for (int other = 0; other <= CPU_NUMBER_MAX; other++) {
                siblings += set.has[other];
            }
        }
        if (siblings > 1) {
            shared[count++] = cpu;
        }
    }
    struct doctor_finding *finding = doctor_add(doctor, count == 0 ? DOCTOR_GOOD : DOCTOR_ADVICE, "smt",
                                                "a spinning neighbour takes half of a core");
    if (count == 0) {
        doctor_found(finding, "no lcore shares a core");
        return;
    }
    doctor_found(finding, "lcores on CPUs %s share their cores with other threads",
                 cpu_list_print(list, sizeof(list), shared, count));
    doctor_wanted(finding, "one thread a core");
    doctor_remedy(finding, "echo off > /sys/devices/system/cpu/smt/control, or one CPU of each core in lcores.cpus");
}

static void
examine_quota(struct doctor *doctor)
{
    struct host *host = malloc(sizeof(*host));

    CHECK(host != NULL);
    host_read(doctor->root, host);
    uint32_t threads = doctor->settings->cpu_count + 1; /* and the management core */
    bool enough = host->cpu_quota == 0 || host->cpu_quota >= threads;
    struct doctor_finding *finding = doctor_add(doctor, enough ? DOCTOR_GOOD : DOCTOR_WRONG, "cpu quota",
                                                "a throttled lcore stands still for up to 0.1 s");
    if (host->cpu_quota == 0) {
        doctor_found(finding, "none");
    } else {
        doctor_found(finding, "the control group allows %u CPUs of time for %u threads", host->cpu_quota, threads);
    }
    doctor_wanted(finding, "no quota, or %u CPUs", threads);
    doctor_remedy(finding, "raise cpu.max of the control group (a container's CPU limit), or use fewer lcores");

    uint32_t allowed = doctor->allowed_cpus == 0 ? host->cpu_count : doctor->allowed_cpus;
    bool alone = allowed > doctor->settings->cpu_count;
    finding = doctor_add(doctor, alone ? DOCTOR_GOOD : DOCTOR_ADVICE, "cpus",
                         "the management core and the kernel run on an lcore's CPU");
    doctor_found(finding, "%u for lcores, %u allowed", doctor->settings->cpu_count, allowed);
    doctor_wanted(finding, "one CPU more than lcores");
    doctor_remedy(finding, "leave one CPU out of lcores.cpus");
    free(host);
}

void
doctor_examine_cpus(struct doctor *doctor)
{
    examine_quota(doctor);
    examine_list(doctor, "isolation", "isolated", "isolcpus", "other threads run on the lcores' CPUs");
    examine_list(doctor, "nohz", "nohz_full", "nohz_full", "the timer interrupts the lcores up to 1000 times a second");
    examine_rcu(doctor);
    examine_governor(doctor);
    examine_irqs(doctor);
    examine_smt(doctor);
}
