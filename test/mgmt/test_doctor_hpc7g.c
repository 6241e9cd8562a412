/* test_doctor_hpc7g.c - a made-up hpc7g.16xlarge as sluice-appliance leaves it: with config/hpc7g.conf nothing is
 * found; without any one thing, that thing is found and no other. Run from the project's root. */
#include "dataplane/endpoint.h"
#include "test/mgmt/doctor_fixture.h"
#include <CUnit/Basic.h>
#include <CUnit/CUnit.h>
#include <unistd.h>

#define CPUS 64
#define CARD "/sys/bus/pci/devices/0000:00:06.0"
#define PCI  "../../../../bus/pci"

static bool has_provider;
static struct doctor_coalescing coalescing;

static bool
provider_answer(const struct port_settings *port, struct endpoint_info *out, char *why, size_t why_bytes)
{
    snprintf(why, why_bytes, "no provider '%s' here", port->provider);
    *out = (struct endpoint_info){ .rx_slots = 1024, .tx_slots = 256, .frame_bytes = 8192 };
    snprintf(out->provider, sizeof(out->provider), "%s", port->provider);
    return has_provider;
}

static bool
coalescing_answer(const char *interface, struct doctor_coalescing *out)
{
    *out = coalescing;
    return strcmp(interface, "ens5") == 0;
}

/* ---- the host ---- */

/* What is told of each CPU, and of each file that some test changes. */
static const struct {
    const char *path, *text;
} files[] = {
    { "/sys/devices/virtual/dmi/id/product_name", "hpc7g.16xlarge" },
    { "/proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd atomics\nCPU implementer\t: 0x41\nCPU part\t: 0xd40" },
    { "/sys/devices/system/cpu/present", "0-63" },
    { "/sys/devices/system/cpu/isolated", "1-47" },
    { "/sys/devices/system/cpu/nohz_full", "1-47" },
    { "/proc/cmdline", "root=/dev/nvme0n1p1 isolcpus=managed_irq,domain,1-47 nohz_full=1-47 rcu_nocbs=1-47" },
    { "/proc/meminfo",
      "MemTotal: 131072000 kB\nMemAvailable: 25165824 kB\nHugePages_Total: 49280\nHugePages_Free: 49280\n"
      "Hugepagesize: 2048 kB" },
    { "/proc/stat", "cpu 1000 0 1000 998000 0 0 0 1000\ncpu0 1 0 1 1 0 0 0 0" },
    { "/proc/swaps", "Filename Type Size Used Priority" },
    { "/proc/sys/kernel/numa_balancing", "0" },
    { "/proc/sys/kernel/seccomp/actions_avail", "kill_process kill_thread trap errno" },
    { "/sys/kernel/security/lsm", "lockdown,capability,landlock,yama" },
    { "/proc/1/comm", "systemd" },
    { "/proc/700/comm", "chronyd" },
    { "/proc/self/limits", "Limit                     Soft Limit           Hard Limit           Units\n"
                           "Max open files            1024                 40064                files\n"
                           "Max locked memory         unlimited            unlimited            bytes" },
    { "/proc/irq/24/smp_affinity_list", "0,48-63" },
    { "/sys/devices/system/node/node0/cpulist", "0-63" },
    { "/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never" },
    { "/proc/sys/net/core/somaxconn", "4096" },
    { "/sys/devices/system/clocksource/clocksource0/current_clocksource", "arch_sys_counter" },
    { "/dev/infiniband/uverbs0", "" },
    { "/sys/class/infiniband/rdmap0s31/ports/1/state", "4: ACTIVE" },
    { "/sys/class/infiniband/rdmap0s31/device/numa_node", "-1" },
    { CARD "/vendor", "0x1d0f" },
    { CARD "/numa_node", "-1" },
    { "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "Y" },
    { "/sys/module/vfio_pci/taint", "OE" },
    { "/dev/vfio/vfio", "" },
};

static const struct {
    const char *path, *target;
} links[] = {
    { "/sys/class/infiniband/rdmap0s31/device/driver", PCI "/drivers/efa" },
    { "/sys/class/net/ens5/device/driver", PCI "/drivers/ena" },
    { CARD "/driver", PCI "/drivers/vfio-pci" },
};

static void
host_make(void)
{
    for (size_t i = 0; i < ARRAY_COUNT(files); i++) {
        host_file(files[i].path, files[i].text);
    }
    for (size_t i = 0; i < ARRAY_COUNT(links); i++) {
        host_link(links[i].path, links[i].target);
    }
    for (int cpu = 0; cpu < CPUS; cpu++) {
        char path[128], list[16];
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
        snprintf(list, sizeof(list), "%d", cpu);
        host_file(path, list);
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", cpu);
        host_file(path, "performance");
    }
    has_provider = true;
    coalescing = (struct doctor_coalescing){ .rx_us = 0 };
}

static void
settings_make(void)
{
    static struct host host = { .memory_bytes = 100 * GIB, .cpu_count = CPUS };
    char why[SETTINGS_WHY_BYTES];

    for (int cpu = 0; cpu < CPUS; cpu++) {
        host.cpus[cpu] = cpu;
    }
    CHECK(settings_parse("config/hpc7g.conf", NULL, 0, &settings, why, sizeof(why)) == 0);
    CHECK(settings_resolve(&settings, &host, why, sizeof(why)) == 0);
}

static void
examine_appliance(void)
{
    doctor = (struct doctor){ .root = doctor_fixture_root(),
                              .settings = &settings,
                              .allowed_cpus = CPUS,
                              .provider = provider_answer,
                              .coalescing = coalescing_answer };
    doctor_examine(&doctor);
}

/* The names of all that is not as wanted, with blanks between. */
static const char *
complaints(void)
{
    static char names[512];

    names[0] = '\0';
    for (uint32_t i = 0; i < doctor.count; i++) {
        if (doctor.findings[i].level != DOCTOR_GOOD) {
            size_t used = strlen(names);
            snprintf(names + used, sizeof(names) - used, "%s%s", used == 0 ? "" : " ", doctor.findings[i].name);
        }
    }
    return names;
}

/* Each complaint says what was found, what is wanted, why, and what to do. */
static bool
all_are_complete(void)
{
    for (uint32_t i = 0; i < doctor.count; i++) {
        const struct doctor_finding *finding = &doctor.findings[i];
        if (finding->level != DOCTOR_GOOD && (finding->found[0] == '\0' || finding->wanted[0] == '\0' ||
                                              finding->why[0] == '\0' || finding->remedy[0] == '\0')) {
            return false;
        }
    }
    return true;
}

/* ---- what is found ---- */

/* `text` instead of what the file has; NULL: the file is gone. */
static const struct {
    const char *path, *text, *name;
} losses[] = {
    { "/sys/devices/virtual/dmi/id/product_name", "c7gn.16xlarge", "instance" },
    { "/sys/devices/virtual/dmi/id/product_name", NULL, "instance" },
    { "/proc/cpuinfo", "CPU implementer\t: 0x41\nCPU part\t: 0xd0c", "processor" },
    { "/proc/cpuinfo", "model name\t: Intel", "processor" },
    { "/sys/devices/system/cpu/isolated", "", "isolation" },
    { "/sys/devices/system/cpu/nohz_full", "1-46", "nohz" },
    { "/proc/cmdline", "root=/dev/nvme0n1p1", "rcu" },
    { "/proc/meminfo", "MemAvailable: 96468992 kB\nHugePages_Free: 49279\nHugepagesize: 2048 kB", "huge pages" },
    { "/proc/meminfo", "MemAvailable: 96468992 kB\nHugePages_Free: 0\nHugepagesize: 2048 kB", "huge pages" },
    { "/proc/stat", "cpu 1000 0 1000 997900 0 0 0 1100", "steal" },
    { "/proc/swaps", "Filename Type Size Used Priority\n/swapfile file 1048572 0 -2", "swap" },
    { "/proc/sys/kernel/numa_balancing", "1", "balancing" },
    { "/proc/sys/kernel/seccomp/actions_avail", NULL, "sandbox" },
    { "/sys/kernel/security/lsm", "lockdown,capability,yama", "sandbox" },
    { "/proc/700/comm", "irqbalance", "irqbalance" },
    { "/proc/self/limits", "Max open files 1024 40063 files\nMax locked memory unlimited unlimited bytes",
      "open files" },
    { "/proc/self/limits", "Max open files 1024 40064 files\nMax locked memory 8388608 8388608 bytes", "memlock" },
    { "/proc/irq/24/smp_affinity_list", "0-63", "interrupts" },
    { "/sys/devices/system/cpu/cpu7/topology/thread_siblings_list", "7,71", "smt" },
    { "/sys/devices/system/cpu/cpu7/cpufreq/scaling_governor", "schedutil", "governor" },
    { "/proc/sys/net/core/somaxconn", "128", "backlog" },
    { "/sys/devices/system/clocksource/clocksource0/current_clocksource", "jiffies", "clock" },
    { "/dev/infiniband/uverbs0", NULL, "infiniband" },
    { "/sys/class/infiniband/rdmap0s31/ports/1/state", "1: DOWN", "efa" },
    { "/sys/class/infiniband/rdmap0s31/device/driver", NULL, "efa" },
    { "/sys/class/infiniband/rdmap0s31/device/numa_node", "1", "numa" },
    { CARD "/driver", NULL, "card" },
    { CARD "/vendor", NULL, "card" },
    { CARD "/numa_node", "1", "numa" },
    { "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "N", "iommu" },
    { "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode", NULL, "iommu" },
    { "/sys/module/vfio_pci/taint", "", "ena llq" },
    { "/sys/module/vfio_pci/taint", NULL, "ena llq" },
    { "/dev/vfio/vfio", NULL, "vfio" },
};

static void
nothing_is_found_on_an_hpc7g_appliance(void)
{
    examine_appliance();
    CU_ASSERT_STRING_EQUAL(complaints(), "");
    CU_ASSERT_EQUAL(doctor_worst(&doctor), DOCTOR_GOOD);
    CU_ASSERT(doctor.count > 25);
}

static void
each_loss_is_found_alone_with_a_remedy(void)
{
    for (size_t i = 0; i < ARRAY_COUNT(losses); i++) {
        host_file_gone(losses[i].path);
        if (losses[i].text != NULL) {
            host_file(losses[i].path, losses[i].text);
        }
        examine_appliance();
        CU_ASSERT_STRING_EQUAL(complaints(), losses[i].name);
        if (strcmp(complaints(), losses[i].name) != 0) {
            printf("\n    %s: %s\n", losses[i].path, complaints());
        }
        CU_ASSERT(all_are_complete());
        host_make();
    }
}

static void
thp_that_is_off_matters_only_without_huge_pages(void)
{
    host_file("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]");
    examine_appliance();
    CU_ASSERT_STRING_EQUAL(complaints(), "");
    host_file("/proc/meminfo", "MemAvailable: 99614720 kB\nHugePages_Free: 0\nHugepagesize: 2048 kB");
    examine_appliance();
    CU_ASSERT_STRING_EQUAL(complaints(), "huge pages thp");
    host_make();
}

static void
memory_counts_free_huge_pages_up_to_the_limit_and_no_further(void)
{
    /* memory.limit of 92 GiB: 49 pages of it, and 92 GiB less 98 MiB */
    host_file("/proc/meminfo", "MemAvailable: 96368640 kB\nHugePages_Free: 49\nHugepagesize: 2048 kB");
    examine_appliance();
    CU_ASSERT_STRING_EQUAL(complaints(), "huge pages");
    host_file("/proc/meminfo", "MemAvailable: 96368639 kB\nHugePages_Free: 49\nHugepagesize: 2048 kB");
    examine_appliance();
    CU_ASSERT_STRING_EQUAL(complaints(), "memory huge pages");
    host_make();
}

static void
a_card_behind_an_iommu_needs_no_unsafe_mode(void)
{
    host_file("/sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "N");
    host_link(CARD "/iommu_group", "../../../kernel/iommu_groups/7");
    examine_appliance();
    CU_ASSERT_STRING_EQUAL(complaints(), "");
    host_file_gone(CARD "/iommu_group");
    host_make();
}

static void
a_missing_provider_is_found_alone(void)
{
    has_provider = false;
    examine_appliance();
    CU_ASSERT_STRING_EQUAL(complaints(), "provider");
    CU_ASSERT_STRING_EQUAL(finding_of("provider")->remedy, "no provider 'efa' here");
    has_provider = true;
}

static void
each_of_enas_three_ways_to_wait_is_found(void)
{
    static const struct doctor_coalescing waits[] = { { .rx_us = 20 }, { .tx_us = 64 }, { .adaptive_rx = true } };

    for (size_t i = 0; i < ARRAY_COUNT(waits); i++) {
        coalescing = waits[i];
        examine_appliance();
        CU_ASSERT_STRING_EQUAL(complaints(), "coalescing");
        CU_ASSERT_PTR_NOT_NULL(strstr(finding_of("coalescing")->remedy, "ethtool -C ens5"));
    }
    coalescing = (struct doctor_coalescing){ .rx_us = 0 };
}

static void
another_cpu_too_few_is_found(void)
{
    examine_appliance();
    doctor.allowed_cpus = settings.cpu_count;
    doctor_examine(&doctor);
    CU_ASSERT_STRING_EQUAL(complaints(), "cpus");
}

int
main(void)
{
    doctor_fixture_open();
    settings_make();
    host_make();
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("doctor of an hpc7g appliance", NULL, NULL);
    CU_ADD_TEST(suite, each_loss_is_found_alone_with_a_remedy);
    CU_ADD_TEST(suite, thp_that_is_off_matters_only_without_huge_pages);
    CU_ADD_TEST(suite, memory_counts_free_huge_pages_up_to_the_limit_and_no_further);
    CU_ADD_TEST(suite, a_card_behind_an_iommu_needs_no_unsafe_mode);
    CU_ADD_TEST(suite, a_missing_provider_is_found_alone);
    CU_ADD_TEST(suite, each_of_enas_three_ways_to_wait_is_found);
    CU_ADD_TEST(suite, another_cpu_too_few_is_found);
    CU_ADD_TEST(suite, nothing_is_found_on_an_hpc7g_appliance);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return doctor_fixture_close() != 0 || failures != 0;
}
