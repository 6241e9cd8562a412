/* doctor_memory.c - are pages, limits and clock what the settings need? */
#include "dataplane/dataplane.h"
#include "mgmt/doctor_probe.h"

#define SPARE_FILES    64 /* descriptors besides the sessions' */
#define HUGE_PAGE_KIB  2048ull
#define ETHERNET_PAGES 128 /* of 2 MiB, for the frames of an ethernet port */

/* Free, of 2 MiB: what the store and DPDK take, and what need not be the kernel's default. */
static uint64_t
huge_bytes_free(const struct doctor *doctor, uint64_t *kib)
{
    uint64_t free_pages = 0;

    *kib = HUGE_PAGE_KIB;
    doctor_number(doctor, "/proc/meminfo", "HugePages_Free:", &free_pages);
    doctor_number(doctor, "/proc/meminfo", "Hugepagesize:", kib);
    return *kib == HUGE_PAGE_KIB ? free_pages * HUGE_PAGE_KIB * 1024 : 0;
}

static void
examine_room(struct doctor *doctor)
{
    struct host *host = malloc(sizeof(*host));
    char here[UNIT_TEXT_BYTES], limit[UNIT_TEXT_BYTES];

    CHECK(host != NULL);
    host_read(doctor->root, host);
    uint64_t wanted = doctor->settings->memory_limit, kib, huge_bytes = huge_bytes_free(doctor, &kib);
    /* Set aside, they are not available to others, but to this one; and no control group counts them. */
    uint64_t room = host->memory_bytes;
    room += doctor->settings->memory_huge && !host->memory_by_cgroup ? huge_bytes : 0;
    /* What a serving appliance has taken already is not available any more, and needs not be. */
    bool enough = doctor->dataplane != NULL || host->memory_bytes == 0 || room >= wanted;
    struct doctor_finding *finding = doctor_add(doctor, enough ? DOCTOR_GOOD : DOCTOR_WRONG, "memory",
                                                "the kernel kills the appliance before memory.limit is reached");
    doctor_found(finding, "%s available%s, memory.limit %s", unit_print_size_short(here, room),
                 host->memory_by_cgroup ? " by the control group" : "", unit_print_size_short(limit, wanted));
    doctor_wanted(finding, "memory.limit available");
    doctor_remedy(finding, "lower memory.limit, or raise %s",
                  host->memory_by_cgroup ? "memory.max of the control group (a container's memory limit)"
                                         : "the host's memory");
    free(host);
}

static bool
has_port(const struct settings *settings, enum port_type type)
{
    for (uint32_t i = 0; i < settings->port_count; i++) {
        if (settings->ports[i].type == type) {
            return true;
        }
    }
    return false;
}

static void
examine_huge_pages(struct doctor *doctor)
{
    uint64_t kib;
    char free_text[UNIT_TEXT_BYTES], limit[UNIT_TEXT_BYTES], mode[DOCTOR_TEXT_BYTES];
    uint64_t needed = doctor->settings->memory_reserve; /* taken whole or not at all */
    uint64_t ports = has_port(doctor->settings, PORT_ETHERNET) ? ETHERNET_PAGES : 0;
    uint64_t frames = doctor->dataplane == NULL ? ports * 2 * MIB : 0; /* a serving port has them */
    struct store_stats store = { .keys = 0 };

    if (doctor->dataplane != NULL) {
        store_stats(doctor->dataplane->store, &store);
    }
    uint64_t at_hand = huge_bytes_free(doctor, &kib) + store.memory.huge_page_bytes;
    bool enough = at_hand >= needed + frames && doctor->settings->memory_huge;
    struct doctor_finding *finding = doctor_add(doctor, enough ? DOCTOR_GOOD : DOCTOR_ADVICE, "huge pages",
                                                "TLB misses cost a look-up tens of ns; what is missing is transparent");
    doctor_found(finding, "%s in huge pages of %llu KiB%s, memory.reserve %s",
                 unit_print_size_short(free_text, at_hand), HUGE_PAGE_KIB,
                 kib != HUGE_PAGE_KIB            ? ", which are not the kernel's default"
                 : doctor->settings->memory_huge ? ""
                                                 : " that memory.huge_pages leaves unused",
                 unit_print_size_short(limit, needed));
    doctor_wanted(finding, "%s of them, memory.huge_pages = true", limit);
    doctor_remedy(finding, "%ssluice-appliance apply, or sysctl vm.nr_hugepages=%llu before the start",
                  kib != HUGE_PAGE_KIB ? "boot with default_hugepagesz=2M, then " : "",
                  (unsigned long long)((needed + 2 * MIB - 1) / (2 * MIB) + ports));

    bool transparent = doctor_read(doctor, mode, "/sys/kernel/mm/transparent_hugepage/enabled");
    transparent = transparent && strstr(mode, "[never]") == NULL;
    finding = doctor_add(doctor, transparent || enough ? DOCTOR_GOOD : DOCTOR_ADVICE, "thp",
                         "memory without huge pages costs a fault every 4 KiB and TLB misses for ever");
    doctor_found(finding, "%s", mode[0] == '\0' ? "no transparent huge pages in this kernel" : mode);
    doctor_wanted(finding, "madvise or always");
    doctor_remedy(finding, "sluice-appliance apply, or echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
}

/* Fabric devices pin what they receive into; one CPU's registered slots are some MiB, a device's queues as much. */
static void
examine_memlock(struct doctor *doctor)
{
    struct rlimit limit;
    char text[UNIT_TEXT_BYTES] = "unlimited";

    doctor_limit(doctor, "Max locked memory", RLIMIT_MEMLOCK, &limit);
    bool enough = limit.rlim_cur == RLIM_INFINITY;
    if (!enough) {
        unit_print_size_short(text, limit.rlim_cur);
    }
    enum doctor_level level = has_port(doctor->settings, PORT_FABRIC) ? DOCTOR_WRONG : DOCTOR_ADVICE;
    struct doctor_finding *finding = doctor_add(doctor, enough ? DOCTOR_GOOD : level, "memlock",
                                                "devices pin memory: libfabric fails with -12, Cannot allocate memory");
    doctor_found(finding, "locked memory: %s", text);
    doctor_wanted(finding, "unlimited");
    doctor_remedy(finding, "LimitMEMLOCK=infinity in the unit, ulimit -l unlimited, or docker run --ulimit memlock=-1");
}

static void
examine_files(struct doctor *doctor)
{
    struct rlimit limit;
    char text[DOCTOR_TEXT_BYTES];
    uint64_t needed = doctor->settings->limits_clients + SPARE_FILES;

    doctor_limit(doctor, "Max open files", RLIMIT_NOFILE, &limit);
    bool enough = limit.rlim_max >= needed; /* the start raises the soft limit to the hard one */
    struct doctor_finding *finding = doctor_add(doctor, enough ? DOCTOR_GOOD : DOCTOR_WRONG, "open files",
                                                "clients are refused before limits.clients is reached");
    doctor_found(finding, "%llu, limits.clients %llu", (unsigned long long)limit.rlim_max,
                 (unsigned long long)doctor->settings->limits_clients);
    doctor_wanted(finding, "at least %llu", (unsigned long long)needed);
    doctor_remedy(finding, "LimitNOFILE=%llu in the unit, or ulimit -n %llu", (unsigned long long)needed,
                  (unsigned long long)needed);

    bool known = doctor_read(doctor, text, "/proc/sys/net/core/somaxconn");
    uint64_t backlog = known ? strtoull(text, NULL, 10) : 4096;
    finding = doctor_add(doctor, backlog >= 1024 ? DOCTOR_GOOD : DOCTOR_ADVICE, "backlog",
                         "when many clients connect at once, the kernel drops some, which wait a second");
    doctor_found(finding, "net.core.somaxconn = %llu", (unsigned long long)backlog);
    doctor_wanted(finding, "at least 1024");
    doctor_remedy(finding, "sysctl net.core.somaxconn=4096");
}

/* A running lcore may have been moved away from its memory. */
static void
examine_lcore_memory(struct doctor *doctor)
{
    int far[LIMIT_LCORES];
    uint32_t count = 0;
    char list[128];

    for (uint32_t i = 0; i < doctor->dataplane->lcore_count; i++) {
        const struct lcore *lcore = doctor->dataplane->lcores[i];
        if (lcore->cpu_node != lcore->node) {
            far[count++] = lcore->cpu;
        }
    }
    struct doctor_finding *finding = doctor_add(doctor, count == 0 ? DOCTOR_GOOD : DOCTOR_ADVICE, "lcore memory",
                                                "every access to rings, counters and sessions crosses between nodes");
    if (count == 0) {
        doctor_found(finding, "on the node of each lcore's CPU");
        return;
    }
    doctor_found(finding, "lcores on CPUs %s were moved away from the node of theirs",
                 cpu_list_print(list, sizeof(list), far, count));
    doctor_wanted(finding, "each lcore on the node where it was started");
    doctor_remedy(finding, "sluicectl config set lcores.cpus back, or start the appliance again with these CPUs");
}

static void
examine_clock(struct doctor *doctor)
{
    char source[DOCTOR_TEXT_BYTES];
    bool known = doctor_read(doctor, source, "/sys/devices/system/clocksource/clocksource0/current_clocksource");
    bool trusted = known && (strcmp(source, "tsc") == 0 || strcmp(source, "arch_sys_counter") == 0);
    struct doctor_finding *finding =
        doctor_add(doctor, trusted ? DOCTOR_GOOD : DOCTOR_ADVICE, "clock",
                   "the kernel does not trust the cycle counter, so a shared one gives the stamps of writes");

    doctor_found(finding, "clock source %s", known ? source : "unknown");
    doctor_wanted(finding, "tsc, or arch_sys_counter on Arm");
    doctor_remedy(finding, "tsc=reliable on the kernel's command line where the hypervisor keeps it steady");
}

void
doctor_examine_memory(struct doctor *doctor)
{
    examine_room(doctor);
    examine_huge_pages(doctor);
    examine_memlock(doctor);
    examine_files(doctor);
    examine_clock(doctor);
    if (doctor->dataplane != NULL) {
        examine_lcore_memory(doctor);
    }
}
