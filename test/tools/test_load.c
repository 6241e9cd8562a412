/* test_load.c - keys by popularity, digits, sizes, and requests patched in place. */
#include "tools/bench/load.h"
#include "tools/bench/responder.h"
#include "tools/bench/workload.h"
#include <CUnit/Basic.h>
#include <math.h>

/* ---- Zipf ---- */

#define DRAWS 400000

/* Sum of (drawn - expected)^2 / expected over ranks and, for those that are seldom drawn, over stretches of ranks.
 * Returns it as standard deviations from its mean: chi-square of n classes has mean n - 1 and variance 2 (n - 1). */
static double
zipf_deviation(uint64_t keys, double theta)
{
    static struct zipf zipf;
    struct load_random random = { keys };
    uint32_t *drawn = calloc(keys + 1, sizeof(*drawn));
    double sum = 0, squares = 0;
    uint32_t classes = 0;
    zipf_init(&zipf, keys, theta);
    for (uint32_t i = 0; i < DRAWS; i++) {
        uint64_t rank = zipf_rank(&zipf, &random);
        CU_ASSERT_FATAL(rank >= 1 && rank <= keys);
        drawn[rank]++;
    }
    for (uint64_t rank = 1; rank <= keys; rank++) {
        sum += pow((double)rank, -theta);
    }
    for (uint64_t rank = 1; rank <= keys;) {
        double expected = 0, seen = 0;
        for (; rank <= keys && expected < 20; rank++) {
            expected += DRAWS * pow((double)rank, -theta) / sum;
            seen += drawn[rank];
        }
        squares += (seen - expected) * (seen - expected) / expected;
        classes++;
    }
    free(drawn);
    return classes > 1 ? (squares - (classes - 1)) / sqrt(2.0 * (classes - 1)) : 0;
}

static void
ranks_are_drawn_with_their_exact_probabilities(void)
{
    static const double thetas[] = { 0.01, 0.5, 0.99, 1, 1.0000001, 1.2, 2, 5 };
    static const uint64_t keys[] = { 1, 2, 3, 10, 1000, 200000 };
    for (size_t i = 0; i < ARRAY_COUNT(thetas); i++) {
        for (size_t j = 0; j < ARRAY_COUNT(keys); j++) {
            double deviation = zipf_deviation(keys[j], thetas[i]);
            if (fabs(deviation) > 4) {
                printf("theta %g, %llu keys: %.1f standard deviations\n", thetas[i], (unsigned long long)keys[j],
                       deviation);
            }
            CU_ASSERT(fabs(deviation) <= 4);
        }
    }
}

static void
a_wrong_theta_is_noticed(void)
{
    /* The measure itself: 1% of theta away it must be far out. */
    static struct zipf zipf;
    struct load_random random = { 7 };
    uint32_t first = 0;
    double sum = 0;
    zipf_init(&zipf, 1000, 0.99);
    for (uint32_t rank = 1; rank <= 1000; rank++) {
        sum += pow(rank, -0.95);
    }
    for (uint32_t i = 0; i < DRAWS; i++) {
        first += zipf_rank(&zipf, &random) == 1;
    }
    double expected = DRAWS / sum;
    CU_ASSERT(fabs(first - expected) > 10 * sqrt(expected));
}

static void
the_largest_key_count_works(void)
{
    static struct zipf zipf;
    struct load_random random = { 3 };
    uint32_t first = 0, beyond = 0;
    zipf_init(&zipf, ZIPF_KEYS_MAX, 0.99);
    for (uint32_t i = 0; i < DRAWS; i++) {
        uint64_t rank = zipf_rank(&zipf, &random);
        CU_ASSERT_FATAL(rank >= 1 && rank <= ZIPF_KEYS_MAX && zipf_key(&zipf, rank) < ZIPF_KEYS_MAX);
        first += rank == 1;
        beyond += rank > UINT32_MAX;
    }
    /* The sum of n^-0.99 up to 10^12 is (10^12)^0.01 / 0.01 + zeta(0.99) = 131.8257 - 99.4229 = 32.40 */
    CU_ASSERT_DOUBLE_EQUAL((double)first / DRAWS, 1 / 32.40, 0.0015);
    CU_ASSERT(beyond > DRAWS / 10);
}

static void
every_rank_has_a_key_of_its_own(void)
{
    static const uint64_t keys[] = { 1, 2, 6, 97, 1000, 30030, 65536 };
    static struct zipf zipf;
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        uint8_t *seen = calloc(keys[i], 1);
        zipf_init(&zipf, keys[i], 0.99);
        for (uint64_t rank = 1; rank <= keys[i]; rank++) {
            uint64_t key = zipf_key(&zipf, rank);
            CU_ASSERT_FATAL(key < keys[i] && seen[key] == 0);
            seen[key] = 1;
        }
        free(seen);
    }
}

/* ---- digits ---- */

static void
digits_are_those_of_printf(void)
{
    struct load_random random = { 5 };
    for (uint32_t i = 0; i < 200000; i++) {
        uint64_t number = i < 100000 ? i : load_random_below(&random, ZIPF_KEYS_MAX);
        char expected[16], out[13] = "xxxxxxxxxxxx";
        snprintf(expected, sizeof(expected), "%012llu", (unsigned long long)number);
        load_digits((uint8_t *)out, number);
        CU_ASSERT_STRING_EQUAL_FATAL(out, expected);
    }
}

/* ---- requests ---- */

/* A client needs somebody to connect to: the null responder. */
static struct client *
client_somewhere(struct responder **responder, const struct load_op *op, enum client_wire wire)
{
    char why[CLIENT_WHY_BYTES];
    const struct responder_plan plan = { .ops = op, .op_count = 1, .wire = wire, .cpu = 0 };
    struct client_options options;
    *responder = responder_start(&plan, why, sizeof(why));
    CU_ASSERT_PTR_NOT_NULL_FATAL(*responder);
    client_options_init(&options);
    options.port = responder_port(*responder);
    options.wire = wire;
    struct client *client = client_open(&options, why, sizeof(why));
    CU_ASSERT_PTR_NOT_NULL_FATAL(client);
    return client;
}

/* Patch a request once and look for `text` in it. */
static bool
patched_holds(const struct load_op *op, enum client_wire wire, uint64_t keys, uint64_t key, const char *text)
{
    struct responder *responder;
    struct client *client = client_somewhere(&responder, op, wire);
    struct load_plan plan = { .ops = op, .op_count = 1, .keys = keys, .in_order = true, .seed = 1 };
    struct load_state state = { .random = { 1 }, .key = key };
    char why[CLIENT_WHY_BYTES];
    struct load *load = load_open(&plan, client, why, sizeof(why));
    CU_ASSERT_PTR_NOT_NULL_FATAL(load);
    load_patch(load, &state, 0, load->templates[0].bytes);
    bool holds = memmem(load->templates[0].bytes, load->templates[0].count, text, strlen(text)) != NULL;
    load_close(load);
    client_close(client);
    responder_stop(responder);
    return holds;
}

static void
keys_are_patched_in_on_every_wire(void)
{
    static const enum client_wire wires[] = { CLIENT_RESP2, CLIENT_SBE };
    static const struct {
        uint64_t keys, key;
        const char *text;
    } rows[] = {
        { 1, 0, "key:000000000000" },
        { 100000000, 99999999, "key:000099999999" },         /* the most with eight digits */
        { 100000001, 100000000, "key:000100000000" },        /* the fewest with more */
        { 1000000000000, 999999999999, "key:999999999999" }, /* the most there are */
        { 10, 13, "key:000000000003" },                      /* in order, around */
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        for (size_t j = 0; j < ARRAY_COUNT(wires); j++) {
            CU_ASSERT(patched_holds(load_op_find("get", false), wires[j], rows[i].keys, rows[i].key, rows[i].text));
        }
    }
}

static void
a_command_of_ones_keeps_them(void)
{
    /* Placeholders are found by encoding twice; digits of the command itself are none. */
    struct load_op op = { .name = "x", .words = { "SET", "1111__key__1111", "11111" }, .word_count = 3, .weight = 1 };
    CU_ASSERT(patched_holds(&op, CLIENT_RESP2, 100, 42, "11110000000000421111"));
    CU_ASSERT(patched_holds(&op, CLIENT_RESP2, 100, 42, "$5\r\n11111\r\n"));
}

/* ---- replies ---- */

static void
replies_of_one_shape_are_counted_wherever_they_are_cut(void)
{
    static const struct {
        enum expected_kind kind;
        const char *wire;
        uint32_t replies, misses, errors, surprises;
    } rows[] = {
        { EXPECT_OK, "+OK\r\n+OK\r\n+OK\r\n", 3, 0, 0, 0 },
        { EXPECT_OK, "+OK\r\n-ERR no\r\n+OK\r\n:1\r\n+OK\r\n", 5, 0, 1, 1 },
        { EXPECT_PONG, "+PONG\r\n+PONG\r\n", 2, 0, 0, 0 },
        { EXPECT_VALUE, "$4\r\nabcd\r\n$4\r\n\n\n\n\n\r\n$4\r\nabcd\r\n", 3, 0, 0, 0 },
        { EXPECT_VALUE, "$4\r\nabcd\r\n$-1\r\n$4\r\nabcd\r\n$3\r\nabc\r\n$4\r\nabcd\r\n", 5, 1, 0, 1 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        size_t all = strlen(rows[i].wire);
        for (size_t step = 1; step <= all; step++) {
            struct scanner scanner;
            size_t taken = 0;
            scanner_init(&scanner, CLIENT_RESP2, 4);
            scanner_expect(&scanner, rows[i].kind);
            for (size_t have = step; taken < all; have = MIN(have + step, all)) {
                uint8_t *copy = malloc(have - taken + 1); /* a read beyond its end is found by sanitizers */
                memcpy(copy, rows[i].wire + taken, have - taken);
                taken += scanner_scan(&scanner, slice_of(copy, have - taken));
                free(copy);
                CU_ASSERT_FATAL(taken <= have && scanner.malformed == NULL);
            }
            CU_ASSERT_EQUAL(scanner.replies, rows[i].replies);
            CU_ASSERT_EQUAL(scanner.misses, rows[i].misses);
            CU_ASSERT_EQUAL(scanner.errors, rows[i].errors);
            CU_ASSERT_EQUAL(scanner.surprises, rows[i].surprises);
        }
    }
}

/* ---- workloads ---- */

static bool
workload_of(struct workload *workload, const char *tests, const char *mix, const char *sizes)
{
    workload_init(workload, "get");
    return (tests == NULL || workload_option(workload, 't', tests) == 1) &&
           (mix == NULL || workload_option(workload, WORKLOAD_MIX, mix) == 1) &&
           (sizes == NULL || workload_option(workload, WORKLOAD_SIZES, sizes) == 1) && workload_finish(workload);
}

static void
bad_workloads_are_refused(void)
{
    static const struct {
        const char *tests, *mix, *sizes;
    } rows[] = {
        { "", NULL, NULL },          { "nothing", NULL, NULL },       { "get:1", NULL, NULL },
        { NULL, "get:0", NULL },     { NULL, "get:129", NULL },       { NULL, "get:x", NULL },
        { NULL, NULL, "0:1" },       { NULL, NULL, "32:" },           { NULL, NULL, "" },
        { NULL, NULL, "x:1" },       { NULL, "get:64,set:65", NULL }, { NULL, "get:64,set:1", "1:1,2:1" },
        { NULL, NULL, "1:128,2:1" },
    };
    static struct workload workload;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        CU_ASSERT_FALSE(workload_of(&workload, rows[i].tests, rows[i].mix, rows[i].sizes));
    }
}

static void
a_command_of_ones_own_has_a_name_that_is_no_path(void)
{
    static struct workload workload;
    char command[] = "../a b,c", word[] = "key:__rand_int__:__rand_int__", *words[] = { command, word };
    workload_init(&workload, "get");
    CU_ASSERT_TRUE_FATAL(workload_command(&workload, 2, words));
    CU_ASSERT_EQUAL(workload_runs(&workload), 1);
    CU_ASSERT_STRING_EQUAL(workload.tests[0].name, "___a_b_c");
    CU_ASSERT_STRING_EQUAL(workload.tests[0].words[0], "../a b,c");
    CU_ASSERT_STRING_EQUAL(workload.tests[0].words[1], "key:__key__:__key__");
}

static void
a_blend_multiplies_a_mix(void)
{
    static struct workload workload;
    struct workload_run run = { 0 };
    CU_ASSERT_TRUE_FATAL(workload_of(&workload, NULL, "get:3,set:1", "32:9,1k:1"));
    CU_ASSERT_EQUAL(workload_runs(&workload), 1);
    CU_ASSERT_EQUAL(workload_size_runs(&workload), 1);
    workload_run_make(&workload, 0, 0, &run);
    CU_ASSERT_EQUAL_FATAL(run.plan.op_count, 4);
    CU_ASSERT_EQUAL(run.value_bytes, (32 * 9 + 1000) / 10);
    static const struct {
        uint32_t weight, bytes;
        enum expected_kind kind;
    } rows[] = { { 27, 32, EXPECT_BULK }, { 3, 1000, EXPECT_BULK }, { 9, 32, EXPECT_OK }, { 1, 1000, EXPECT_OK } };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        CU_ASSERT_EQUAL(run.ops[i].weight, rows[i].weight);
        CU_ASSERT_EQUAL(run.ops[i].value_bytes, rows[i].bytes);
        CU_ASSERT_EQUAL(run.ops[i].expected, rows[i].kind);
    }
}

static void
objects_are_created_once(void)
{
    static struct workload workload;
    static const char *const kinds[] = { "get", "hget" };
    struct workload_run run = { 0 };
    CU_ASSERT_TRUE_FATAL(workload_of(&workload, "get,ping,set,hget,hset", NULL, NULL));
    for (uint32_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        memset(&run, 0, sizeof(run));
        CU_ASSERT_TRUE(workload_fill_make(&workload, i, 0, &run));
        CU_ASSERT_STRING_EQUAL(run.name, kinds[i]);
        CU_ASSERT_TRUE(run.plan.in_order);
    }
    CU_ASSERT_FALSE(workload_fill_make(&workload, 2, 0, &run));
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("load", NULL, NULL);
    CU_ADD_TEST(suite, ranks_are_drawn_with_their_exact_probabilities);
    CU_ADD_TEST(suite, a_wrong_theta_is_noticed);
    CU_ADD_TEST(suite, the_largest_key_count_works);
    CU_ADD_TEST(suite, every_rank_has_a_key_of_its_own);
    CU_ADD_TEST(suite, digits_are_those_of_printf);
    CU_ADD_TEST(suite, keys_are_patched_in_on_every_wire);
    CU_ADD_TEST(suite, a_command_of_ones_keeps_them);
    CU_ADD_TEST(suite, replies_of_one_shape_are_counted_wherever_they_are_cut);
    CU_ADD_TEST(suite, bad_workloads_are_refused);
    CU_ADD_TEST(suite, a_command_of_ones_own_has_a_name_that_is_no_path);
    CU_ADD_TEST(suite, a_blend_multiplies_a_mix);
    CU_ADD_TEST(suite, objects_are_created_once);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
