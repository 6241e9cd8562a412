/* fill.c - objects for the tests. */
#include "tools/bench/fill.h"
#include "tools/bench/generator.h"
#include "tools/bench/machine.h"
#include "tools/bench/servers.h"

#define FILL_DEPTH    128
/* With fewer, what the server takes ahead is most of what is seen. */
#define ENTRIES_LEAST 10000

static void
memory_keep(struct targets *targets, const struct target *target, const char *kind, uint64_t entries, uint64_t bytes,
            bool prints)
{
    double each = (double)bytes / (double)entries;
    if (prints) {
        printf("%-24s %-8s %llu entries, %.1f resident bytes each\n", target->label, kind, (unsigned long long)entries,
               each);
    }
    FILE *file = targets_table(targets, "memory.csv", "label,kind,entries,bytes_per_entry");
    if (file != NULL) {
        fprintf(file, "%s,%s,%llu,%.1f\n", target->label, kind, (unsigned long long)entries, each);
        targets_table_close(targets, file, "memory.csv");
    }
}

static bool
objects_create(const struct targets *targets, const struct target *target, const struct workload_run *run)
{
    struct generator_result result;
    char why[CLIENT_WHY_BYTES], progress[WORKLOAD_NAME_BYTES + 32];
    struct generator_plan plan = {
        .client = target->client,
        .load = run->plan,
        .requests = run->plan.keys,
        .connections = 1,
        .threads = 1,
        .depth = FILL_DEPTH,
        .refill = FILL_DEPTH / 2,
        .cpus = { targets->connection.cpu },
        .progress = progress,
    };
    snprintf(progress, sizeof(progress), "creating what %s reads", run->name);
    bool good = generator_run(&plan, &result, why, sizeof(why));
    if (good) {
        free(result.ticks);
        good = !result.broken && result.errors + result.surprises == 0;
        snprintf(why, sizeof(why), "%s", result.error);
    }
    if (!good) {
        fprintf(stderr, "sluice-bench: --load: %s: %s: %s\n", target->label, run->name, why);
    }
    return good;
}

/* One kind of object on one server. */
static bool
kind_create(struct targets *targets, uint32_t index, const struct workload_run *run, bool prints)
{
    const struct target *target = &targets->targets[index];
    uint64_t entries = 0, entries_before = 0, resident_before = 0;
    targets_turn(targets, index);
    bool counts = target->pid != 0 && run->plan.keys >= ENTRIES_LEAST && target_number(target, NULL, &entries_before);
    if (counts) {
        resident_before = process_resident_bytes(target->pid);
    }
    if (!objects_create(targets, target, run)) {
        return false;
    }
    if (!counts || resident_before == 0 || machine_interrupted() || !target_number(target, NULL, &entries)) {
        return true;
    }
    uint64_t resident = process_resident_bytes(target->pid);
    if (entries >= entries_before + ENTRIES_LEAST && resident > resident_before) {
        memory_keep(targets, target, run->name, entries - entries_before, resident - resident_before, prints);
    } else {
        targets_warn(targets, "these objects or their memory were there already: no bytes for each entry");
    }
    return true;
}

bool
fill_run(struct targets *targets, const struct workload *workload, uint32_t size, bool prints)
{
    for (uint32_t i = 0; i < targets->count; i++) {
        for (uint32_t kind = 0; !machine_interrupted(); kind++) {
            struct workload_run run = { 0 };
            if (!workload_fill_make(workload, kind, size, &run)) {
                break;
            }
            if (!kind_create(targets, i, &run, prints)) {
                return false;
            }
        }
    }
    return true;
}
