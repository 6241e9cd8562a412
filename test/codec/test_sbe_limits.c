/* test_sbe_limits.c - limits of requests on the SBE wire, each at limit-1, limit and limit+1. */
#include "test/codec/test_sbe_frames.h"
#include <CUnit/Basic.h>

static struct arg args[LIMIT_BURST_ARGS];

/* A frame built from words: the client's encoder, large ones too. */
static uint8_t *
encode(const struct slice *words, uint32_t count, size_t *bytes)
{
    size_t room = sbe_request_room(words, count);
    uint8_t *wire = malloc(room);
    CHECK(room > 0 && wire != NULL);
    *bytes = (size_t)(sbe_request_write(wire, 1, words, count) - wire);
    CHECK(*bytes <= room);
    return wire;
}

static void
expect_limit(const struct slice *words, uint32_t count, struct decode_limits limits, enum codec_status want,
             const char *error)
{
    struct arg_room room = { args, 0, ARRAY_COUNT(args) };
    struct request request;
    size_t bytes;
    uint8_t *wire = encode(words, count, &bytes);
    enum codec_status status = sbe_decode(slice_of(wire, bytes), &limits, &room, &request);
    CU_ASSERT_EQUAL(status, want);
    if (status == want && want != CODEC_OK) {
        CU_ASSERT_STRING_EQUAL(request.error, error);
    }
    free(wire);
}

static void
the_number_of_arguments_is_limited_exactly(void)
{
    static struct slice words[LIMIT_REQUEST_ARGS + 3];
    static const char *const names[] = { "mget", "del", "subscribe", "hset", "zadd", "nosuch" };
    struct decode_limits full = limits_full(), small = full;
    small.args_max = LIMIT_UNAUTH_ARGS;

    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        const struct decode_limits *limits[] = { &full, &small };
        /* scores are numbers on the way, and a hash's or sorted set's arguments come in pairs after the key */
        bool pairs = i == 3 || i == 4;
        for (size_t k = 0; k < ARRAY_COUNT(words); k++) {
            words[k] = SLICE_LITERAL("1");
        }
        words[0] = slice_text(names[i]);
        for (size_t l = 0; l < ARRAY_COUNT(limits); l++) {
            uint32_t max = limits[l]->args_max, step = pairs ? 2 : 1;
            uint32_t last = pairs ? max - 1 : max; /* the largest count that fits */
            expect_limit(words, 1 + last - step, *limits[l], CODEC_OK, NULL);
            expect_limit(words, 1 + last, *limits[l], CODEC_OK, NULL);
            expect_limit(words, 1 + last + step, *limits[l], CODEC_REJECTED, "ERR SBE: more arguments than the limit");
        }
    }
}

static void
commands_of_fixed_arguments_are_limited_exactly(void)
{
    static const char *const names[] = { "get", "set", "hget", "zscore", "publish", "incrby" };
    for (uint32_t i = 0; i < ARRAY_COUNT(names); i++) {
        struct slice words[] = { slice_text(names[i]), SLICE_LITERAL("1"), SLICE_LITERAL("2") };
        uint32_t args_count = i == 0 ? 1 : 2;
        for (uint32_t max = args_count - 1; max <= args_count + 1; max++) {
            struct decode_limits limits = { max, 100, 1000 };
            expect_limit(words, 1 + args_count, limits, max < args_count ? CODEC_REJECTED : CODEC_OK,
                         "ERR SBE: more arguments than the limit");
        }
    }
}

static void
an_argument_is_limited_exactly(void)
{
    static const char *const names[] = { "get", "ping", "append", "set", "hset", "zadd", "publish", "del" };
    static uint8_t big[LIMIT_VALUE_BYTES + 1];
    struct decode_limits full = limits_full(), small = full;
    small.arg_bytes_max = LIMIT_UNAUTH_ARG_BYTES;

    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        const struct decode_limits *limits[] = { &full, &small };
        for (size_t l = 0; l < ARRAY_COUNT(limits); l++) {
            size_t max = limits[l]->arg_bytes_max;
            for (size_t bytes = max - 1; bytes <= max + 1; bytes++) {
                struct slice words[] = { slice_text(names[i]), SLICE_LITERAL("1"), SLICE_LITERAL("2"),
                                         slice_of(big, bytes) };
                uint32_t count = i < 2 ? 2 : i == 4 || i == 5 || i == 7 ? 4 : 3;
                words[count - 1] = slice_of(big, bytes);
                expect_limit(words, count, *limits[l], bytes <= max ? CODEC_OK : CODEC_REJECTED,
                             "ERR SBE: an argument is longer than the limit");
            }
        }
    }
}

static void
a_command_name_is_limited_exactly(void)
{
    static uint8_t name[1001];
    struct decode_limits limits = { 10, 1000, 10000 };
    memset(name, 'n', sizeof(name));
    for (size_t bytes = 999; bytes <= 1001; bytes++) {
        struct slice word = { name, bytes };
        expect_limit(&word, 1, limits, bytes <= 1000 ? CODEC_OK : CODEC_REJECTED,
                     "ERR SBE: the command's name is longer than the limit");
    }
}

static void
a_request_is_limited_exactly(void)
{
    static uint8_t big[LIMIT_VALUE_BYTES];
    struct slice words[] = { SLICE_LITERAL("append"), { big, sizeof(big) }, { big, 0 } };
    size_t fixed = 4 + 16 + 4 + 4 + 4 + 4 + 6; /* length, header and root, group, two lengths, the name's, the name */
    for (int over = -1; over <= 1; over++) {
        words[2].bytes = LIMIT_REQUEST_BYTES - fixed - sizeof(big) + (size_t)over;
        expect_limit(words, 3, limits_full(), over <= 0 ? CODEC_OK : CODEC_MALFORMED,
                     "ERR SBE: frame length above the limit");
    }
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("sbe_limits", NULL, NULL);
    CU_ADD_TEST(suite, the_number_of_arguments_is_limited_exactly);
    CU_ADD_TEST(suite, commands_of_fixed_arguments_are_limited_exactly);
    CU_ADD_TEST(suite, an_argument_is_limited_exactly);
    CU_ADD_TEST(suite, a_command_name_is_limited_exactly);
    CU_ADD_TEST(suite, a_request_is_limited_exactly);
    CU_basic_set_mode(CU_BRM_NORMAL);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
