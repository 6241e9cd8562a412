/* test_doctor.c - what is said of a host that lacks one thing or another. */
#include "test/mgmt/doctor_fixture.h"
#include <CUnit/Basic.h>
#include <CUnit/CUnit.h>
#include <sys/resource.h>

/* A host of 16 CPUs and two nodes as an appliance wants it, lcores on CPUs 1 to 3. */
static void
host_make(void)
{
    host_file("/sys/devices/system/cpu/isolated", "1-15");
    host_file("/sys/devices/system/cpu/nohz_full", "1-15");
    host_file("/proc/cmdline", "root=/dev/vda rcu_nocbs=1-15 quiet");
    for (int cpu = 0; cpu < 16; cpu++) {
        char path[128], list[16];
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", cpu);
        host_file(path, "performance");
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
        snprintf(list, sizeof(list), "%d", cpu);
        host_file(path, list);
    }
    host_file("/proc/irq/24/smp_affinity_list", "0-15");
    host_file("/proc/irq/24/effective_affinity_list", "0");
    host_file("/sys/devices/system/node/node0/cpulist", "0-7");
    host_file("/sys/devices/system/node/node1/cpulist", "8-15");
    host_file("/proc/meminfo",
              "MemTotal: 9999999 kB\nMemAvailable: 9999999 kB\nHugePages_Free: 512\nHugepagesize: 2048 kB");
    host_file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
    host_file("/proc/sys/net/core/somaxconn", "4096");
    host_file("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc");
    host_file("/dev/infiniband/uverbs0", "");
    host_file("/sys/class/infiniband/rdmap0/device/numa_node", "0");
}

static void
settings_make(void)
{
    char why[SETTINGS_WHY_BYTES];
    const char *overrides[] = { "memory.reserve=1GiB", "memory.limit=1GiB", "limits.clients=100" };

    CHECK(settings_parse(NULL, overrides, ARRAY_COUNT(overrides), &settings, why, sizeof(why)) == 0);
    for (int i = 0; i < 3; i++) {
        settings.cpus[i] = i + 1;
    }
    settings.cpu_count = 3;
}

/* What the host has, one file changed at a time, and what must be said then. */
static const struct {
    const char *path, *bad, *good;
    const char *name;
    enum doctor_level level;
    const char *found, *remedy;
} faults[] = {
    { "/sys/devices/system/cpu/isolated", "2-15", "1-15", "isolation", DOCTOR_ADVICE, "CPUs 1 do not", "isolcpus=1-3" },
    { "/sys/devices/system/cpu/isolated", "", "1-15", "isolation", DOCTOR_ADVICE, "CPUs 1-3 do not", "isolcpus=1-3" },
    { "/sys/devices/system/cpu/nohz_full", "(null)", "1-15", "nohz", DOCTOR_ADVICE, "CPUs 1-3", "nohz_full=1-3" },
    { "/sys/devices/system/cpu/nohz_full", "garbage", "1-15", "nohz", DOCTOR_ADVICE, "CPUs 1-3", "nohz_full=1-3" },
    { "/proc/cmdline", "rcu_nocbs=3", "rcu_nocbs=all", "rcu", DOCTOR_ADVICE, "CPUs 1-2", "rcu_nocbs=1-3" },
    { "/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "powersave", "performance", "governor", DOCTOR_ADVICE,
      "powersave on CPUs 2", "cpupower -c 2" },
    { "/proc/irq/24/effective_affinity_list", "3", "0", "interrupts", DOCTOR_ADVICE, "number 24 to CPU 3",
      "smp_affinity_list" },
    { "/sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,9", "1", "smt", DOCTOR_ADVICE, "CPUs 1 share",
      "smt/control" },
    { "/proc/meminfo", "MemAvailable: 2047 kB\nHugePages_Free: 511\nHugepagesize: 2048 kB",
      "MemAvailable: 2048 kB\nHugePages_Free: 511\nHugepagesize: 2048 kB", "memory", DOCTOR_WRONG, "memory.limit",
      "lower memory.limit" },
    { "/proc/meminfo", "MemAvailable: 9999999 kB\nHugePages_Free: 511\nHugepagesize: 2048 kB",
      "MemAvailable: 9999999 kB\nHugePages_Free: 512\nHugepagesize: 2048 kB", "huge pages", DOCTOR_ADVICE, "1022 MiB",
      "vm.nr_hugepages=512" },
    { "/proc/meminfo", "MemAvailable: 9999999 kB\nHugePages_Free: 512\nHugepagesize: 524288 kB",
      "MemAvailable: 9999999 kB\nHugePages_Free: 512\nHugepagesize: 2048 kB", "huge pages", DOCTOR_ADVICE,
      "not the kernel's default", "default_hugepagesz=2M, then sluice-appliance apply" },
    { "/proc/sys/net/core/somaxconn", "128", "4096", "backlog", DOCTOR_ADVICE, "128", "somaxconn=4096" },
    { "/sys/devices/system/clocksource/clocksource0/current_clocksource", "kvm-clock", "tsc", "clock", DOCTOR_ADVICE,
      "kvm-clock", "tsc=reliable" },
    { "/sys/class/infiniband/rdmap0/device/numa_node", "1", "-1", "numa", DOCTOR_ADVICE,
      "on node 1, lcores on CPUs 1-3", "node1/cpulist" },
};

static void
each_fault_is_named_with_its_remedy_and_nothing_else_is(void)
{
    for (size_t i = 0; i < ARRAY_COUNT(faults); i++) {
        host_file(faults[i].path, faults[i].bad);
        examine();
        CU_ASSERT(is_level(faults[i].name, faults[i].level));
        const struct doctor_finding *finding = finding_of(faults[i].name);
        CU_ASSERT_PTR_NOT_NULL(strstr(finding->found, faults[i].found));
        CU_ASSERT_PTR_NOT_NULL(strstr(finding->remedy, faults[i].remedy));
        CU_ASSERT(finding->why[0] != '\0' && finding->wanted[0] != '\0');
        host_file(faults[i].path, faults[i].good);
        examine();
        CU_ASSERT(is_level(faults[i].name, DOCTOR_GOOD));
    }
}

static void
a_host_without_these_files_gets_advice_and_no_crash(void)
{
    doctor = (struct doctor){ .root = "/nowhere", .settings = &settings };
    doctor_examine(&doctor);
    CU_ASSERT(is_level("isolation", DOCTOR_ADVICE));
    CU_ASSERT(is_level("clock", DOCTOR_ADVICE));
    CU_ASSERT(is_level("interrupts", DOCTOR_GOOD));
    CU_ASSERT(is_level("memory", DOCTOR_GOOD)); /* unknown is not too little */
}

static void
efa_without_a_device_is_wrong_and_says_how_to_get_one(void)
{
    settings.ports[0] = (struct port_settings){ .type = PORT_FABRIC, .name = "efa", .provider = "efa" };
    strcpy(settings.ports[0].send, "auto");
    settings.port_count = 1;
    host_file_gone("/dev/infiniband/uverbs0");
    examine();
    CU_ASSERT(is_level("infiniband", DOCTOR_WRONG));
    CU_ASSERT_PTR_NOT_NULL(strstr(finding_of("infiniband")->remedy, "vpc.amazonaws.com/efa"));
    host_file("/dev/infiniband/uverbs0", "");
    examine();
    CU_ASSERT(is_level("infiniband", DOCTOR_GOOD));
    settings.port_count = 0;
}

static void
small_memlock_is_wrong_where_a_fabric_port_needs_it(void)
{
    struct rlimit before, small = { .rlim_cur = 65536 };

    CHECK(getrlimit(RLIMIT_MEMLOCK, &before) == 0);
    small.rlim_max = before.rlim_max;
    CHECK(setrlimit(RLIMIT_MEMLOCK, &small) == 0);
    examine();
    CU_ASSERT(is_level("memlock", DOCTOR_ADVICE)); /* nothing pins memory */
    settings.ports[0] = (struct port_settings){ .type = PORT_FABRIC, .name = "efa", .provider = "efa" };
    settings.port_count = 1;
    examine();
    settings.port_count = 0;
    CU_ASSERT(is_level("memlock", DOCTOR_WRONG));
    CU_ASSERT_PTR_NOT_NULL(strstr(finding_of("memlock")->found, "64.0 KiB"));
    CU_ASSERT_PTR_NOT_NULL(strstr(finding_of("memlock")->remedy, "LimitMEMLOCK=infinity"));
    CHECK(setrlimit(RLIMIT_MEMLOCK, &before) == 0);
}

static void
open_files_are_compared_with_clients_at_the_very_number(void)
{
    struct rlimit limit;

    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    uint64_t clients = settings.limits_clients;
    settings.limits_clients = limit.rlim_max - 64;
    examine();
    CU_ASSERT(is_level("open files", DOCTOR_GOOD));
    settings.limits_clients++;
    examine();
    CU_ASSERT(is_level("open files", DOCTOR_WRONG));
    settings.limits_clients = clients;
}

static void
ethernet_port(const char *device)
{
    settings.ports[0] = (struct port_settings){ .type = PORT_ETHERNET, .name = "ethernet" };
    snprintf(settings.ports[0].device, sizeof(settings.ports[0].device), "%s", device);
    settings.port_count = 1;
    examine();
    settings.port_count = 0;
}

static void
a_card_that_the_kernel_has_is_wrong_and_vfio_is_right(void)
{
    ethernet_port("00:06.0");
    CU_ASSERT(is_level("card", DOCTOR_WRONG));
    CU_ASSERT_PTR_NOT_NULL(strstr(finding_of("card")->found, "no PCI device 0000:00:06.0"));
    host_file("/sys/bus/pci/devices/0000:00:06.0/vendor", "0x1d0f");
    host_file("/sys/bus/pci/devices/0000:00:06.0/numa_node", "1");
    ethernet_port("0000:00:06.0");
    CU_ASSERT(is_level("card", DOCTOR_WRONG));
    CU_ASSERT_PTR_NOT_NULL(strstr(finding_of("card")->found, "bound to no driver"));
    host_link("/sys/bus/pci/devices/0000:00:06.0/driver", "../../../../bus/pci/drivers/ena");
    ethernet_port("00:06.0");
    CU_ASSERT(is_level("card", DOCTOR_WRONG));
    CU_ASSERT_PTR_NOT_NULL(strstr(finding_of("card")->found, "bound to ena"));
    CU_ASSERT_PTR_NOT_NULL(strstr(finding_of("card")->remedy, "dpdk-devbind.py -b vfio-pci 0000:00:06.0"));
    host_link("/sys/bus/pci/devices/0000:00:06.0/driver", "../../../../bus/pci/drivers/vfio-pci");
    ethernet_port("00:06.0");
    CU_ASSERT(is_level("card", DOCTOR_GOOD));
    CU_ASSERT(is_level("numa", DOCTOR_ADVICE)); /* lcores are on node 0 */
    CU_ASSERT(is_level("ena llq", DOCTOR_ADVICE));
    host_file("/sys/bus/pci/devices/0000:00:06.0/numa_node", "0");
    ethernet_port("00:06.0");
    CU_ASSERT(is_level("numa", DOCTOR_GOOD));
}

static void
an_interface_must_be_up_and_may_be_opened(void)
{
    host_file("/proc/self/status", "Name: x\nCapEff:\t0000000000002000");
    ethernet_port("net_af_packet0,iface=v1,qpairs=1");
    CU_ASSERT(is_level("card", DOCTOR_WRONG));
    CU_ASSERT_STRING_EQUAL(finding_of("card")->found, "no interface v1");
    CU_ASSERT(is_level("rights", DOCTOR_WRONG)); /* CAP_NET_RAW alone */
    host_file("/sys/class/net/v1/operstate", "down");
    ethernet_port("net_af_packet0,iface=v1");
    CU_ASSERT(is_level("card", DOCTOR_WRONG));
    host_file("/sys/class/net/v1/operstate", "unknown"); /* what a tap says that works */
    host_file("/proc/self/status", "Name: x\nCapEff:\t0000000000003000");
    ethernet_port("net_af_packet0,iface=v1");
    CU_ASSERT(is_level("card", DOCTOR_GOOD) && is_level("rights", DOCTOR_GOOD));
}

static void
settings_of_another_host_come_first(void)
{
    doctor = (struct doctor){ .root = doctor_fixture_root(), .settings = &settings, .elsewhere = "no CPU 47 here" };
    doctor_examine(&doctor);
    CU_ASSERT_STRING_EQUAL(doctor.findings[0].name, "settings");
    CU_ASSERT_EQUAL(doctor.findings[0].level, DOCTOR_WRONG);
    CU_ASSERT_EQUAL(doctor_worst(&doctor), DOCTOR_WRONG);
}

static void
text_fits_80_columns_and_keeps_every_word(void)
{
    struct text text = { 0 };

    doctor = (struct doctor){ .root = "/nowhere", .settings = &settings };
    doctor_examine(&doctor);
    doctor_print(&doctor, &text);
    size_t longest = 0;
    for (const char *line = text.bytes; *line != '\0'; line += strcspn(line, "\n") + 1) {
        longest = MAX(longest, strcspn(line, "\n"));
    }
    CU_ASSERT(longest <= 80 && longest > 60);
    CU_ASSERT_PTR_NOT_NULL(strstr(text.bytes, "isolcpus=1-3"));
    text_fini(&text);
}

static void
more_findings_than_fit_end_the_list_without_overflow(void)
{
    doctor = (struct doctor){ .root = doctor_fixture_root(), .settings = &settings };
    for (uint32_t i = 0; i < DOCTOR_FINDINGS_MAX + 5; i++) {
        doctor_found(doctor_add(&doctor, DOCTOR_GOOD, "numa", ""), "%u", i);
    }
    CU_ASSERT_EQUAL(doctor.count, DOCTOR_FINDINGS_MAX);
    CU_ASSERT_STRING_EQUAL(doctor.findings[DOCTOR_FINDINGS_MAX - 1].found, "132");
}

int
main(void)
{
    doctor_fixture_open();
    host_make();
    settings_make();
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("doctor", NULL, NULL);
    CU_ADD_TEST(suite, a_host_without_these_files_gets_advice_and_no_crash);
    CU_ADD_TEST(suite, each_fault_is_named_with_its_remedy_and_nothing_else_is);
    CU_ADD_TEST(suite, efa_without_a_device_is_wrong_and_says_how_to_get_one);
    CU_ADD_TEST(suite, small_memlock_is_wrong_where_a_fabric_port_needs_it);
    CU_ADD_TEST(suite, open_files_are_compared_with_clients_at_the_very_number);
    CU_ADD_TEST(suite, a_card_that_the_kernel_has_is_wrong_and_vfio_is_right);
    CU_ADD_TEST(suite, an_interface_must_be_up_and_may_be_opened);
    CU_ADD_TEST(suite, settings_of_another_host_come_first);
    CU_ADD_TEST(suite, text_fits_80_columns_and_keeps_every_word);
    CU_ADD_TEST(suite, more_findings_than_fit_end_the_list_without_overflow);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return doctor_fixture_close() != 0 || failures != 0;
}
