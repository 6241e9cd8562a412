/* test_placement.c - two lcores that run, moved from CPU to CPU. */
#include "mgmt/doctor.h"
#include "mgmt/live.h"
#include "mgmt/log.h"
#include "mgmt/placement.h"
#include "test/mgmt/appliance.h"
#include <CUnit/Basic.h>
#include <sched.h>
#include <unistd.h>

static struct mgmt mgmt;
static char why[SETTINGS_WHY_BYTES];
static int first, second; /* CPUs of the test */
static size_t wrong;

static bool
runs_on(pid_t tid, int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CU_ASSERT_EQUAL(sched_getaffinity(tid, sizeof(set), &set), 0);
    return CPU_COUNT(&set) == 1 && CPU_ISSET((size_t)cpu, &set);
}

/* What the kernel does, and what is said of it. */
static void
check_placed(int lcore0, int lcore1)
{
    int cpus[] = { lcore0, lcore1 };

    for (uint32_t i = 0; i < 2; i++) {
        const struct lcore *lcore = mgmt.dataplane->lcores[i];
        CU_ASSERT_TRUE(runs_on(lcore->tid, cpus[i]));
        CU_ASSERT_EQUAL(lcore->cpu, cpus[i]);
        CU_ASSERT_EQUAL(mgmt.settings->cpus[i], cpus[i]);
        uint64_t turns = load_relaxed(&lcore->counters->turns);
        for (int wait = 0; wait < 5000 && load_relaxed(&lcore->counters->turns) == turns; wait++) {
            usleep(1000);
        }
        CU_ASSERT_TRUE(load_relaxed(&lcore->counters->turns) > turns);
    }
}

static bool
set_cpus(int lcore0, int lcore1)
{
    struct live_change changes[] = { { .setting = &settings_table[SETTING_ID_log_level], .value = "error" },
                                     { .setting = &settings_table[SETTING_ID_lcores_cpus] } };

    snprintf(changes[1].value, sizeof(changes[1].value), "%d,%d", lcore0, lcore1);
    return live_set(&mgmt, changes, 2, "the test", &wrong, why, sizeof(why));
}

static void
what_the_kernel_refuses_changes_nothing(void)
{
    struct host real = *mgmt.host;
    int nowhere = CPU_NUMBER_MAX; /* allowed by what we know, not by the kernel: a CPU that went offline */

    mgmt.host->cpus[mgmt.host->cpu_count++] = nowhere;
    CU_ASSERT_FALSE(set_cpus(second, nowhere));
    CU_ASSERT_PTR_NOT_NULL(strstr(why, "lcores.cpus: CPU 1023 is offline, or the control group no longer allows it"));
    CU_ASSERT_EQUAL(wrong, 1);
    CU_ASSERT_STRING_EQUAL(mgmt.settings->log_level, "warning");
    *mgmt.host = real;
    check_placed(first, second);
    CU_ASSERT_FALSE(set_cpus(first, nowhere));
    CU_ASSERT_PTR_NOT_NULL(strstr(why, "is not allowed to this process"));
    CU_ASSERT_FALSE(set_cpus(first, first));
    CU_ASSERT_PTR_NOT_NULL(strstr(why, "names a CPU twice"));
    check_placed(first, second);
}

static void
another_number_of_lcores_is_refused(void)
{
    struct live_change change = { .setting = &settings_table[SETTING_ID_lcores_cpus], .value = "0" };

    CU_ASSERT_FALSE(live_set(&mgmt, &change, 1, "the test", NULL, why, sizeof(why)));
    CU_ASSERT_STRING_EQUAL(why, "lcores.cpus: has 1 CPU, expected 2: the number of lcores changes only at a start");
    check_placed(first, second);
}

static void
lcores_change_places_and_run_on(void)
{
    for (int i = 0; i < 10; i++) {
        CU_ASSERT_TRUE(set_cpus(second, first));
        check_placed(second, first);
        CU_ASSERT_TRUE(set_cpus(first, second));
        check_placed(first, second);
    }
}

/* Whether the doctor finds every lcore near its memory. */
static bool
doctor_is_content(void)
{
    static struct doctor doctor;
    const struct doctor_finding *found = NULL;

    doctor = (struct doctor){ .root = "", .settings = mgmt.settings, .dataplane = mgmt.dataplane };
    doctor_examine(&doctor);
    for (uint32_t i = 0; i < doctor.count; i++) {
        found = strcmp(doctor.findings[i].name, "lcore memory") == 0 ? &doctor.findings[i] : found;
    }
    CU_ASSERT_PTR_NOT_NULL_FATAL(found);
    CU_ASSERT(found->level == DOCTOR_GOOD || (found->wanted[0] != '\0' && found->remedy[0] != '\0'));
    return found->level == DOCTOR_GOOD;
}

static void
an_lcore_away_from_its_memory_is_named(void)
{
    struct lcore *lcore = mgmt.dataplane->lcores[1];
    json_t *list = placement_warnings(&mgmt);
    int node = lcore->node;

    CU_ASSERT_EQUAL(json_array_size(list), 0);
    CU_ASSERT_TRUE(doctor_is_content());
    json_decref(list);
    lcore->node = node + 7;
    CU_ASSERT_FALSE(doctor_is_content());
    list = placement_warnings(&mgmt);
    CU_ASSERT_EQUAL_FATAL(json_array_size(list), 1);
    char expected[128];
    snprintf(expected, sizeof(expected), "lcore 1: CPU %d is on NUMA node %d, its memory stays on node %d", second,
             node, node + 7);
    CU_ASSERT_PTR_NOT_NULL(strstr(json_string_value(json_array_get(list, 0)), expected));
    json_decref(list);
    lcore->node = node;
}

int
main(void)
{
    char cpus[64];
    static struct host host;

    host_read("", &host);
    if (host.cpu_count < 2) {
        printf("needs two CPUs\n");
        return 77;
    }
    first = host.cpus[0];
    second = host.cpus[1];
    snprintf(cpus, sizeof(cpus), "lcores.cpus=%d,%d", first, second);
    const char *overrides[] = { cpus, "log.level=warning", "lcores.idle=adaptive" };
    appliance_open(&mgmt, overrides, ARRAY_COUNT(overrides));
    log_open("error");
    CHECK(dataplane_start(mgmt.dataplane) == 0);
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("placement", NULL, NULL);
    CU_ADD_TEST(suite, what_the_kernel_refuses_changes_nothing);
    CU_ADD_TEST(suite, another_number_of_lcores_is_refused);
    CU_ADD_TEST(suite, lcores_change_places_and_run_on);
    CU_ADD_TEST(suite, an_lcore_away_from_its_memory_is_named);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    dataplane_drain(mgmt.dataplane);
    while (!dataplane_stopped(mgmt.dataplane)) {
        usleep(1000);
    }
    appliance_close(&mgmt);
    return failures != 0;
}
