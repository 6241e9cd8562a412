/* store_bench.c - store-bench: what a look-up and a write cost in the store alone, and the bytes an entry takes. */
#include "test/store/store_bench.h"
#include <getopt.h>
#include <inttypes.h>
#include <unistd.h>

#define LIST_MAX         8
#define INSTRUCTION_OPS  32000
#define INSTRUCTION_KEYS 10000 /* all in the caches: the path alone */

static const char usage[] =
    "Usage: store-bench [OPTIONS]     lists are separated by commas; every combination is one row\n"
    "  --keys LIST          (10000,1000000,10000000)\n"
    "  --operations LIST    get, set, mix: 90% get (all)\n"
    "  --distribution LIST  uniform, zipf: theta 0.99 (both)\n"
    "  --lcores LIST        (1,2)\n"
    "  --burst LIST         1 to 32 (1,16,32)\n"
    "  --distinct           lcores have keys of their own\n"
    "  --seconds S          a row (0.3)\n"
    "  --ops N              a row, exactly, on one thread: for callgrind --toggle-collect=bench_bursts\n"
    "  --instructions       count them with valgrind: one lcore, 10000 keys\n"
    "  --csv, --json        for machines: a line a row\n"
    "Times are CPU time of an lcore, so other work on the machine counts little; rates are by the wall's clock.\n"
    "Keys of 16 bytes, values of 32; two-stage prefetch within a burst; a turn of housekeeping after each.\n";

static const char *const operations[] = { "get", "set", "mix" };
static const char *const distributions[] = { "uniform", "zipf" };

enum format { FORMAT_TABLE, FORMAT_CSV, FORMAT_JSON };

struct list {
    uint64_t values[LIST_MAX];
    uint32_t count;
};

struct options {
    struct list keys, operations, distributions, lcores, bursts;
    bool distinct, instructions;
    double seconds;
    uint64_t ops;
    enum format format;
};

static void
usage_exit(const char *what, const char *value)
{
    fprintf(stderr, "store-bench: %s: '%s'\n%s", what, value, usage);
    exit(2);
}

/* Numbers from `low` to `high`, or positions in `names`. */
static struct list
list_parse(const char *text, const char *const *names, uint64_t low, uint64_t high)
{
    struct list list = { .count = 0 };
    char copy[256], *rest = NULL;
    snprintf(copy, sizeof(copy), "%s", text);
    for (char *word = strtok_r(copy, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
        uint64_t value = 0;
        char *end = word;
        if (names != NULL) {
            for (; value <= high && strcmp(word, names[value]) != 0; value++) {
            }
        } else {
            value = strtoull(word, &end, 10);
        }
        if (list.count == LIST_MAX || (names == NULL && *end != '\0') || value < low || value > high) {
            usage_exit("not in the list of what is possible", word);
        }
        list.values[list.count++] = value;
    }
    if (list.count == 0) {
        usage_exit("an empty list", text);
    }
    return list;
}

enum {
    OPTION_KEYS = 256,
    OPTION_OPERATIONS,
    OPTION_DISTRIBUTION,
    OPTION_LCORES,
    OPTION_BURST,
    OPTION_DISTINCT,
    OPTION_SECONDS,
    OPTION_OPS,
    OPTION_INSTRUCTIONS,
    OPTION_CSV,
    OPTION_JSON,
    OPTION_HELP
};

static const struct option long_options[] = {
    { "keys", required_argument, NULL, OPTION_KEYS },
    { "operations", required_argument, NULL, OPTION_OPERATIONS },
    { "distribution", required_argument, NULL, OPTION_DISTRIBUTION },
    { "lcores", required_argument, NULL, OPTION_LCORES },
    { "burst", required_argument, NULL, OPTION_BURST },
    { "distinct", no_argument, NULL, OPTION_DISTINCT },
    { "seconds", required_argument, NULL, OPTION_SECONDS },
    { "ops", required_argument, NULL, OPTION_OPS },
    { "instructions", no_argument, NULL, OPTION_INSTRUCTIONS },
    { "csv", no_argument, NULL, OPTION_CSV },
    { "json", no_argument, NULL, OPTION_JSON },
    { "help", no_argument, NULL, OPTION_HELP },
    { 0 },
};

static void
option_take(struct options *options, int option, const char *value)
{
    switch (option) {
    case OPTION_KEYS:
        options->keys = list_parse(value, NULL, 1, UINT32_MAX);
        break;
    case OPTION_OPERATIONS:
        options->operations = list_parse(value, operations, 0, ARRAY_COUNT(operations) - 1);
        break;
    case OPTION_DISTRIBUTION:
        options->distributions = list_parse(value, distributions, 0, ARRAY_COUNT(distributions) - 1);
        break;
    case OPTION_LCORES:
        options->lcores = list_parse(value, NULL, 1, BENCH_LCORES_MAX);
        break;
    case OPTION_BURST:
        options->bursts = list_parse(value, NULL, 1, BENCH_BURST_MAX);
        break;
    case OPTION_DISTINCT:
        options->distinct = true;
        break;
    case OPTION_SECONDS:
        options->seconds = atof(value);
        if (!(options->seconds > 0)) {
            usage_exit("seconds", value);
        }
        break;
    case OPTION_OPS:
        options->ops = list_parse(value, NULL, BENCH_BURST_MAX, UINT32_MAX).values[0];
        break;
    case OPTION_INSTRUCTIONS:
        options->instructions = true;
        break;
    case OPTION_CSV:
        options->format = FORMAT_CSV;
        break;
    case OPTION_JSON:
        options->format = FORMAT_JSON;
        break;
    case OPTION_HELP:
        printf("%s", usage);
        exit(0);
    default:
        exit(2); /* getopt complained */
    }
}

/* ---- instructions ---- */

/* This program again, under callgrind. 0: valgrind is not here. */
static double
instructions_count(const struct bench_row *row)
{
    char self[256], command[1024], line[256];
    unsigned long long collected = 0;
    ssize_t bytes = readlink("/proc/self/exe", self, sizeof(self) - 1);
    CHECK(bytes > 0);
    self[bytes] = '\0';
    snprintf(command, sizeof(command),
             "valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect=bench_bursts '%s' --keys %d "
             "--operations %s --distribution %s --lcores 1 --burst %u --ops %d --csv 2>&1",
             self, INSTRUCTION_KEYS, operations[row->operation], distributions[row->zipf], row->burst, INSTRUCTION_OPS);
    fflush(stdout);
    FILE *output = popen(command, "r");
    CHECK(output != NULL);
    while (fgets(line, sizeof(line), output) != NULL) {
        const char *found = strstr(line, "Collected : ");
        if (found != NULL) {
            sscanf(found, "Collected : %llu", &collected);
        }
    }
    return pclose(output) == 0 ? (double)collected / INSTRUCTION_OPS : 0;
}

/* ---- rows ---- */

static void
store_print(const struct options *options, const struct bench *bench)
{
    if (options->format == FORMAT_TABLE) {
        printf("%" PRIu64 " keys: load %.0f ns a key; bytes an entry: %.1f resident, of records %.1f, index %.1f, "
               "slack %.1f; longest chain %" PRIu64 "\n",
               bench->keys, bench->load_ns, bench->resident, bench->records, bench->index, bench->slack,
               bench->longest_chain);
    }
}

static void
row_print(const struct options *options, const struct bench *bench, const struct bench_row *row, double instructions)
{
    const char *operation = operations[row->operation], *distribution = distributions[row->zipf];
    const char *sharing = row->distinct ? "distinct" : "shared";
    switch (options->format) {
    case FORMAT_TABLE:
        printf("  %-3s %-7s %u lcore%s burst %2u  %7.1f ns  %7.2f M/s", operation, distribution, row->lcores,
               row->lcores == 1 ? ", " : "s,", row->burst, row->ns, row->million_second);
        if (instructions != 0) {
            printf("  %6.0f instructions", instructions);
        }
        if (row->waits >= 0.01) {
            printf("  %.2f turns waited", row->waits);
        }
        printf("\n");
        break;
    case FORMAT_CSV:
        printf("%" PRIu64 ",%s,%s,%u,%s,%u,%.1f,%.3f,%.2f,%.0f,%.1f,%.1f,%.1f,%.1f\n", bench->keys, operation,
               distribution, row->lcores, sharing, row->burst, row->ns, row->million_second, row->waits, instructions,
               bench->resident, bench->records, bench->index, bench->slack);
        break;
    case FORMAT_JSON:
        printf("{\"keys\":%" PRIu64 ",\"operation\":\"%s\",\"distribution\":\"%s\",\"lcores\":%u,\"keys_are\":\"%s\","
               "\"burst\":%u,\"ns\":%.1f,\"million_per_second\":%.3f,\"turns_waited\":%.2f,\"instructions\":%.0f,"
               "\"resident_bytes\":%.1f,"
               "\"record_bytes\":%.1f,\"index_bytes\":%.1f,\"slack_bytes\":%.1f}\n",
               bench->keys, operation, distribution, row->lcores, sharing, row->burst, row->ns, row->million_second,
               row->waits, instructions, bench->resident, bench->records, bench->index, bench->slack);
        break;
    }
    fflush(stdout);
}

static void
rows_run(const struct options *options, struct bench *bench, enum bench_operation operation, bool zipf)
{
    for (uint32_t l = 0; l < options->lcores.count; l++) {
        uint32_t lcores = (uint32_t)options->lcores.values[l];
        if (lcores > workload_cpus()) {
            fprintf(stderr, "store-bench: %u lcores need as many CPUs, here are %u: left out\n", lcores,
                    workload_cpus());
            continue;
        }
        for (uint32_t b = 0; b < options->bursts.count; b++) {
            struct bench_row row = {
                .operation = operation,
                .zipf = zipf,
                .distinct = options->distinct,
                .lcores = lcores,
                .burst = (uint32_t)options->bursts.values[b],
                .seconds = options->seconds,
                .ops = options->ops,
            };
            bool count = options->instructions && lcores == 1 && bench->keys == INSTRUCTION_KEYS;
            bench_measure(bench, &row);
            row_print(options, bench, &row, count ? instructions_count(&row) : 0);
        }
    }
}

static void
keys_run(const struct options *options, uint64_t keys)
{
    static struct bench bench;
    uint32_t lcores = 0;
    for (uint32_t i = 0; i < options->lcores.count; i++) {
        lcores = MAX(lcores, (uint32_t)options->lcores.values[i]);
    }
    bench_open(&bench, keys, lcores, options->ops == 0);
    store_print(options, &bench);
    for (uint32_t o = 0; o < options->operations.count; o++) {
        for (uint32_t d = 0; d < options->distributions.count; d++) {
            rows_run(options, &bench, (enum bench_operation)options->operations.values[o],
                     options->distributions.values[d] == 1);
        }
    }
    bench_close(&bench);
}

int
main(int argc, char **argv)
{
    struct options options = {
        .keys = list_parse("10000,1000000,10000000", NULL, 1, UINT32_MAX),
        .operations = { { BENCH_GET, BENCH_SET, BENCH_MIX }, 3 },
        .distributions = { { 0, 1 }, 2 },
        .lcores = { { 1, 2 }, 2 },
        .bursts = { { 1, 16, 32 }, 3 },
        .seconds = 0.3,
    };
    for (int option; (option = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
        option_take(&options, option, optarg);
    }
    if (options.ops != 0) { /* one thread, so that the count repeats */
        options.lcores = (struct list){ { 1 }, 1 };
    }
    if (options.format == FORMAT_CSV) {
        printf("keys,operation,distribution,lcores,keys_are,burst,ns,million_per_second,turns_waited,instructions,"
               "resident_bytes,"
               "record_bytes,index_bytes,slack_bytes\n");
    }
    for (uint32_t k = 0; k < options.keys.count; k++) {
        keys_run(&options, options.keys.values[k]);
    }
    return 0;
}
