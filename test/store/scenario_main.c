/* scenario_main.c - what a store goes through in its life, with the work of every turn counted.
 *
 * usage: scenario [--full] [--lcores N] [NAME [SIZE]]...     without names: all */
#include "test/store/scenario.h"

static const struct {
    const char *name;
    void (*run)(struct scenario *scenario);
    uint64_t small, full; /* sizes: for every check, and for a night */
    const char *size_is;
} scenarios[] = {
    { "growth", scenario_growth, 300000, 10000000, "keys" },
    { "expiry", scenario_expiry, 300000, 5000000, "keys that expire in one second" },
    { "churn", scenario_churn, 1000000, 50000000, "fresh keys" },
    { "one-key", scenario_one_key, 1000000, 10000000, "times that the key comes and goes" },
    { "limit", scenario_limit, 64 * MIB, GIB, "bytes of memory.limit" },
    { "sizes", scenario_sizes, 64 * MIB, GIB, "bytes of memory.limit" },
};

static void
usage_exit(void)
{
    fprintf(stderr, "usage: scenario [--full] [--lcores N] [NAME [SIZE]]...\n");
    for (uint32_t i = 0; i < ARRAY_COUNT(scenarios); i++) {
        fprintf(stderr, "  %-8s %lu, full %lu %s\n", scenarios[i].name, scenarios[i].small, scenarios[i].full,
                scenarios[i].size_is);
    }
    exit(2);
}

/* Failures. */
static uint32_t
scenario_run(uint32_t index, uint32_t lcores, uint64_t size)
{
    static struct scenario scenario;
    scenario = (struct scenario){ .name = scenarios[index].name, .size = size, .lcore_count = lcores };
    printf("==== %s: %lu %s, %u lcores\n", scenario.name, size, scenarios[index].size_is, lcores);
    scenarios[index].run(&scenario);
    fflush(stdout);
    return scenario.failures;
}

static uint32_t
scenario_find(const char *name)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(scenarios); i++) {
        if (strcmp(scenarios[i].name, name) == 0) {
            return i;
        }
    }
    usage_exit();
    return 0;
}

int
main(int argc, char **argv)
{
    uint32_t lcores = MIN(workload_cpus(), 2u), failures = 0, named = 0;
    bool full = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--full") == 0) {
            full = true;
        } else if (strcmp(argv[i], "--lcores") == 0 && i + 1 < argc) {
            lcores = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else {
            uint32_t index = scenario_find(argv[i]);
            uint64_t size = i + 1 < argc ? strtoull(argv[i + 1], NULL, 10) : 0;
            i += size != 0;
            named++;
            failures += scenario_run(index, lcores,
                                     size != 0 ? size
                                     : full    ? scenarios[index].full
                                               : scenarios[index].small);
        }
        if (lcores == 0 || lcores > SCENARIO_LCORES_MAX) {
            usage_exit();
        }
    }
    for (uint32_t i = 0; named == 0 && i < ARRAY_COUNT(scenarios); i++) {
        failures += scenario_run(i, lcores, full ? scenarios[i].full : scenarios[i].small);
    }
    printf(failures == 0 ? "all scenarios hold\n" : "%u FAILURES\n", failures);
    return failures != 0;
}
