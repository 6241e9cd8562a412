/* workload.c - tests, mixes, sizes and keys. */
#include "tools/bench/workload.h"
#include <ctype.h>

#define VALUE_BYTES_MAX (16 * 1024 * 1024)

static bool
complain(const char *what, const char *why)
{
    fprintf(stderr, "sluice-bench: %s: %s\n", what, why);
    return false;
}

/* One entry of a list "name:weight,...": its name, and its weight where there is one. The rest of the list, or NULL. */
static const char *
entry_read(const char *option, const char *list, char *name, size_t name_bytes, uint64_t *weight, bool *weighted)
{
    size_t bytes = strcspn(list, ",");
    snprintf(name, name_bytes, "%.*s", (int)MIN(bytes, name_bytes - 1), list);
    char *colon = strchr(name, ':');
    *weight = 1;
    *weighted = colon != NULL;
    if (colon != NULL) {
        *colon = '\0';
        if (!bench_number(option, colon + 1, 1, SCANNER_SCHEDULE_MAX, weight)) {
            return NULL;
        }
    }
    return list + bytes + (list[bytes] == ',');
}

/* "get,set" or "get:90,set:10". */
static bool
tests_read(struct workload *workload, const char *list, bool mix)
{
    const char *option = mix ? "--mix" : "-t";
    workload->test_count = 0;
    workload->mix = mix;
    while (*list != '\0') {
        char name[32];
        uint64_t weight;
        bool weighted;
        list = entry_read(option, list, name, sizeof(name), &weight, &weighted);
        if (list == NULL) {
            return false;
        }
        if (weighted && !mix) {
            return complain(name, "weights belong to --mix");
        }
        const struct load_op *op = load_op_find(name, false);
        if (op == NULL) {
            return complain(name, "no such test; --help shows them");
        }
        if (workload->test_count == WORKLOAD_TESTS_MAX) {
            return complain(option, "too many tests");
        }
        workload->tests[workload->test_count] = *op;
        workload->tests[workload->test_count++].weight = (uint32_t)weight;
    }
    return workload->test_count > 0 || complain(option, "no tests");
}

static bool
sizes_read(struct workload *workload, const char *list)
{
    workload->size_count = 0;
    workload->blend = true;
    while (*list != '\0') {
        char name[32];
        uint64_t weight;
        bool weighted;
        list = entry_read("--sizes", list, name, sizeof(name), &weight, &weighted);
        if (list == NULL) {
            return false;
        }
        if (workload->size_count == WORKLOAD_SIZES_MAX) {
            return complain("--sizes", "too many sizes");
        }
        if (!bench_number("--sizes", name, 1, VALUE_BYTES_MAX, &workload->sizes[workload->size_count])) {
            return false;
        }
        workload->size_weights[workload->size_count++] = (uint32_t)weight;
    }
    return workload->size_count > 0 || complain("--sizes", "no sizes");
}

/* redis-benchmark's __rand_int__ is our __key__, which is shorter: written over it. */
static void
word_translate(char *word)
{
    static const char theirs[] = "__rand_int__", ours[] = "__key__";
    while ((word = strstr(word, theirs)) != NULL) {
        char *rest = word + sizeof(theirs) - 1;
        memcpy(word, ours, sizeof(ours) - 1);
        word += sizeof(ours) - 1;
        memmove(word, rest, strlen(rest) + 1);
    }
}

void
workload_init(struct workload *workload, const char *tests)
{
    memset(workload, 0, sizeof(*workload));
    workload->keys = workload->seed = 1;
    workload->sizes[0] = 32;
    workload->size_count = 1;
    (void)tests_read(workload, tests, false);
}

int
workload_option(struct workload *workload, int option, const char *value)
{
    bool good = true;
    switch (option) {
    case 'd':
        workload->blend = false;
        workload->size_count = bench_numbers("-d", value, 1, VALUE_BYTES_MAX, workload->sizes, WORKLOAD_SIZES_MAX);
        good = workload->size_count > 0;
        break;
    case 'r':
        good = bench_number("-r", value, 1, LOAD_KEYS_MAX, &workload->keys);
        break;
    case 't':
        good = tests_read(workload, value, false);
        break;
    case WORKLOAD_MIX:
        good = tests_read(workload, value, true);
        break;
    case WORKLOAD_SIZES:
        good = sizes_read(workload, value);
        break;
    case WORKLOAD_ZIPF:
        good = bench_decimal("--zipf", value, 0.01, ZIPF_THETA_MAX, &workload->theta);
        break;
    case WORKLOAD_SEED:
        good = bench_number("--seed", value, 0, UINT64_MAX / 2, &workload->seed);
        break;
    case WORKLOAD_LOAD:
        workload->with_load = true;
        break;
    default:
        return 0;
    }
    return good ? 1 : -1;
}

bool
workload_command(struct workload *workload, int count, char **words)
{
    struct load_op *op = &workload->tests[0];
    if (count > LOAD_WORDS_MAX) {
        return complain(words[0], "too many words");
    }
    *op = (struct load_op){ .word_count = (uint32_t)count, .expected = EXPECT_ANY, .weight = 1 };
    snprintf(op->name, sizeof(op->name), "%s", words[0]);
    for (char *letter = op->name; *letter != '\0'; letter++) {
        *letter = isalnum((unsigned char)*letter) ? *letter : '_'; /* it becomes part of a log's name */
    }
    for (int i = 0; i < count; i++) {
        word_translate(words[i]);
        op->words[i] = words[i];
    }
    workload->test_count = 1;
    workload->mix = false;
    return true;
}

bool
workload_finish(struct workload *workload)
{
    uint64_t weight = 0;
    uint32_t ops = (workload->mix ? workload->test_count : 1) * (workload->blend ? workload->size_count : 1);
    if (ops > LOAD_OPS_MAX) {
        return complain("--mix", "too many tests and sizes");
    }
    for (uint32_t i = 0; i < (workload->mix ? workload->test_count : 1); i++) {
        for (uint32_t j = 0; j < (workload->blend ? workload->size_count : 1); j++) {
            weight += (uint64_t)(workload->mix ? workload->tests[i].weight : 1) *
                      (workload->blend ? workload->size_weights[j] : 1);
        }
    }
    if (weight > SCANNER_SCHEDULE_MAX) {
        fprintf(stderr, "sluice-bench: weights of --mix and --sizes: their products add up to %llu, at most %d\n",
                (unsigned long long)weight, SCANNER_SCHEDULE_MAX);
        return false;
    }
    if (workload->theta != 0) {
        zipf_init(&workload->zipf, workload->keys, workload->theta);
    }
    return true;
}

uint32_t
workload_runs(const struct workload *workload)
{
    return workload->mix ? 1 : workload->test_count;
}

uint32_t
workload_size_runs(const struct workload *workload)
{
    return workload->blend ? 1 : workload->size_count;
}

/* Add an operation with the sizes of this run. A value of one of several sizes is a bulk string of any length. */
static void
run_add(const struct workload *workload, uint32_t size, const struct load_op *op, uint32_t weight,
        struct workload_run *run)
{
    for (uint32_t i = 0; i < (workload->blend ? workload->size_count : 1); i++) {
        struct load_op *added = &run->ops[run->plan.op_count++];
        *added = *op;
        added->weight = weight * (workload->blend ? workload->size_weights[i] : 1);
        added->value_bytes = (uint32_t)workload->sizes[workload->blend ? i : size];
        if (workload->blend && op->expected == EXPECT_VALUE) {
            added->expected = EXPECT_BULK;
        }
    }
}

static void
run_begin(const struct workload *workload, uint32_t size, struct workload_run *run)
{
    uint64_t bytes = workload->sizes[size], weights = 1;
    if (workload->blend) {
        bytes = weights = 0;
        for (uint32_t i = 0; i < workload->size_count; i++) {
            bytes += workload->sizes[i] * workload->size_weights[i];
            weights += workload->size_weights[i];
        }
    }
    run->value_bytes = (uint32_t)(bytes / weights);
    run->plan = (struct load_plan){ .ops = run->ops, .keys = workload->keys, .seed = workload->seed };
}

void
workload_run_make(const struct workload *workload, uint32_t test, uint32_t size, struct workload_run *run)
{
    run_begin(workload, size, run);
    run->plan.zipf = workload->theta != 0 ? &workload->zipf : NULL;
    if (!workload->mix) {
        snprintf(run->name, sizeof(run->name), "%s", workload->tests[test].name);
        run_add(workload, size, &workload->tests[test], 1, run);
        return;
    }
    snprintf(run->name, sizeof(run->name), "mix");
    for (uint32_t i = 0; i < workload->test_count; i++) {
        run_add(workload, size, &workload->tests[i], workload->tests[i].weight, run);
    }
}

bool
workload_fill_make(const struct workload *workload, uint32_t index, uint32_t size, struct workload_run *run)
{
    const struct load_op *fills[WORKLOAD_TESTS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < workload->test_count; i++) {
        const struct load_op *fill = load_op_find(workload->tests[i].name, true);
        bool is_new = fill != NULL;
        for (uint32_t j = 0; is_new && j < count; j++) {
            is_new = strcmp(fills[j]->words[1], fill->words[1]) != 0; /* the same objects */
        }
        if (is_new) {
            fills[count++] = fill;
        }
    }
    if (index >= count) {
        return false;
    }
    run_begin(workload, size, run);
    run->plan.in_order = true;
    snprintf(run->name, sizeof(run->name), "%s", fills[index]->name);
    run_add(workload, size, fills[index], 1, run);
    return true;
}

void
workload_distribution(const struct workload *workload, char *text, size_t text_bytes)
{
    if (workload->theta == 0) {
        snprintf(text, text_bytes, "uniform");
    } else {
        snprintf(text, text_bytes, "zipf-%g", workload->theta);
    }
}
