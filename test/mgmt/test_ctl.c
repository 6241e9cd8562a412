#include "mgmt/ctl.h"
#include "test/mgmt/appliance.h"
#include <CUnit/Basic.h>
#include <unistd.h>

static struct mgmt mgmt;
static struct text out;
static json_t *reply;

/* One line, from uid 0 unless said otherwise. */
static enum ctl_result
line_from(uid_t uid, const char *line)
{
    struct ctl_client client = { .id = 1, .uid = uid };
    char copy[LIMIT_CTL_LINE_BYTES + 2];

    CU_ASSERT_FATAL(strlen(line) < sizeof(copy));
    strcpy(copy, line);
    text_clear(&out);
    return ctl_line(&mgmt, &client, copy, strlen(copy), &out);
}

/* A JSON line whose answer becomes `reply`; NULL when that is no JSON line. */
static json_t *
ask(const char *line)
{
    json_decref(reply);
    reply = NULL;
    CU_ASSERT_EQUAL(line_from(0, line), CTL_DONE);
    CU_ASSERT_FATAL(out.used > 0);
    CU_ASSERT_EQUAL(out.bytes[out.used - 1], '\n');
    CU_ASSERT_EQUAL(memchr(out.bytes, '\n', out.used), out.bytes + out.used - 1); /* one line */
    reply = json_loads(out.bytes, 0, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(reply);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(reply, "version")), CTL_VERSION);
    return reply;
}

static const json_t *
result_of(const char *command)
{
    char line[256];
    snprintf(line, sizeof(line), "{\"version\":1,\"command\":\"%s\"}", command);
    ask(line);
    CU_ASSERT(json_is_true(json_object_get(reply, "ok")));
    return json_object_get(reply, "result");
}

static void
requests_that_are_wrong_are_answered_with_what_is_wrong(void)
{
    static const struct {
        const char *line, *error;
    } rows[] = {
        { "{", "no JSON: column " },
        { "{}", "expected \"version\":1" },
        { "{\"version\":1", "no JSON: column " },
        { "{\"version\":1}", "expected a \"command\"" },
        { "{\"version\":2,\"command\":\"alive\"}", "expected \"version\":1" },
        { "{\"command\":\"alive\"}", "expected \"version\":1" },
        { "{\"version\":\"1\",\"command\":\"alive\"}",
          "\"version\" does not belong into a request or has the wrong type" },
        { "{\"version\":1,\"command\":1}", "\"command\" does not belong" },
        { "{\"version\":1,\"command\":\"alive\",\"args\":[]}", "\"args\" does not belong" },
        { "{\"version\":1,\"command\":\"alive\",\"id\":{}}", "\"id\" does not belong" },
        { "{\"version\":1,\"command\":\"alive\",\"more\":1}", "\"more\" does not belong" },
        { "{\"version\":1,\"version\":1,\"command\":\"alive\"}", "duplicate" },
        { "{\"version\":1,\"command\":\"alive\"} x", "no JSON" },
        { "{\"version\":1,\"command\":\"aliv\"}", "unknown command \"aliv\", did you mean \"alive\"?" },
        { "{\"version\":1,\"command\":\"\"}", "unknown command \"\"" },
        { "{\"version\":1,\"command\":\"alive\",\"args\":{\"x\":1}}", "alive takes no argument \"x\"" },
        { "{\"version\":1,\"command\":\"latency\",\"args\":{\"kin\":\"loop\"}}",
          "latency takes no argument \"kin\", expected command kind lcore buckets" },
        { "{\"version\":1,\"command\":\"latency\",\"args\":{\"kind\":\"x\"}}",
          "kind: expected one of service residence loop burst busy " },
        { "{\"version\":1,\"command\":\"latency\",\"args\":{\"kind\":1}}", "kind: expected text" },
        { "{\"version\":1,\"command\":\"latency\",\"args\":{\"lcore\":1}}",
          "lcore: expected a whole number from 0 to 0" },
        { "{\"version\":1,\"command\":\"latency\",\"args\":{\"lcore\":-1}}", "lcore: expected" },
        { "{\"version\":1,\"command\":\"latency\",\"args\":{\"lcore\":1.5}}", "lcore: expected" },
        { "{\"version\":1,\"command\":\"latency\",\"args\":{\"buckets\":1}}", "buckets: expected true or false" },
        { "{\"version\":1,\"command\":\"latency\",\"args\":{\"command\":\"nosuch\"}}", "command: expected the name" },
        { "{\"version\":1,\"command\":\"sessions\",\"args\":{\"limit\":5001}}",
          "limit: expected a whole number from 0 to 5000" },
        { "{\"version\":1,\"command\":\"\\u0001\"}", "unknown command \"\\x01\"" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        ask(rows[i].line);
        CU_ASSERT(json_is_false(json_object_get(reply, "ok")));
        const char *error = json_string_value(json_object_get(reply, "error"));
        CU_ASSERT_PTR_NOT_NULL_FATAL(error);
        if (strstr(error, rows[i].error) == NULL) {
            printf("\n    expected %s\n    in       %s\n", rows[i].error, error);
        }
        CU_ASSERT_PTR_NOT_NULL(strstr(error, rows[i].error));
    }
}

static void
bytes_that_are_no_text_are_answered_too(void)
{
    ask("{\"version\":1,\"command\":\"\xff\xfe\"}");
    CU_ASSERT(json_is_false(json_object_get(reply, "ok")));
    CU_ASSERT(json_is_string(json_object_get(reply, "error")));
    CU_ASSERT_EQUAL(line_from(0, "\xff\xfe x=\xff"), CTL_DONE);
    CU_ASSERT_PTR_NOT_NULL(strstr(out.bytes, "error: "));
    CU_ASSERT_PTR_NULL(strchr(out.bytes, '\xff'));

    struct ctl_client client = { .id = 1 };
    char nul[] = "sta\0tus";
    text_clear(&out);
    CU_ASSERT_EQUAL(ctl_line(&mgmt, &client, nul, sizeof(nul) - 1, &out), CTL_DONE);
    CU_ASSERT_PTR_NOT_NULL(strstr(out.bytes, "error: expected a line of text"));
}

static void
deep_json_does_not_end_the_appliance(void)
{
    static char deep[60000];
    strcpy(deep, "{\"version\":1,\"command\":\"alive\",\"args\":{\"x\":");
    size_t used = strlen(deep);
    memset(deep + used, '[', sizeof(deep) - 1 - used);
    ask(deep);
    CU_ASSERT(json_is_false(json_object_get(reply, "ok")));
}

static void
the_id_comes_back_as_it_was(void)
{
    ask("{\"id\":\"a\\\"b\",\"version\":1,\"command\":\"alive\"}");
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(reply, "id")), "a\"b");
    ask("{\"id\":9007199254740993,\"version\":1,\"command\":\"nosuch\"}");
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(reply, "id")), 9007199254740993);
    ask("{\"version\":1,\"command\":\"alive\"}");
    CU_ASSERT_PTR_NULL(json_object_get(reply, "id"));
}

static bool
is_in(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Every command of the table, but those that end things, wait for lcores or cannot do without arguments. */
static void
every_command_answers_json_and_text(void)
{
    static const char *const names[] = {
#define NAME(id, name, ...) name,
        CTL_COMMANDS(NAME)
#undef NAME
    };
    static const char *const skipped[] = { "shutdown", "drain",      "sessions",      "sessions kill", "keys hot",
                                           "keys big", "config set", "config reload", "capture start", "capture stop" };
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        if (is_in(names[i], skipped, ARRAY_COUNT(skipped))) {
            continue;
        }
        CU_ASSERT(json_is_object(result_of(names[i])));
        CU_ASSERT_EQUAL(line_from(0, names[i]), CTL_DONE);
        CU_ASSERT_FATAL(out.used > 2);
        CU_ASSERT_STRING_EQUAL(out.bytes + out.used - 2, "\n\n"); /* the empty line that ends it */
        CU_ASSERT_PTR_NULL(strstr(out.bytes, "error: "));
    }
}

static void
status_says_first_where_to_connect(void)
{
    const json_t *result = result_of("status");
    CU_ASSERT_STRING_EQUAL(json_object_iter_key(json_object_iter((json_t *)result)), "streams");
    CU_ASSERT(json_is_true(json_object_get(result, "ready")));
    CU_ASSERT_EQUAL(line_from(0, "status"), CTL_DONE);
    CU_ASSERT(strncmp(out.bytes, "streams ", 8) == 0);

    mgmt.stalled_lcore = 0;
    result = result_of("ready");
    CU_ASSERT(json_is_false(json_object_get(result, "ready")));
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(result, "stalled_lcore")), 0);
    mgmt.stalled_lcore = -1;
}

static const json_t *
row_named(const json_t *rows, const char *key, const char *name)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (strcmp(json_string_value(json_object_get(row, key)), name) == 0) {
            return row;
        }
    }
    CU_FAIL_FATAL("no such row");
    return NULL;
}

static void
stats_has_every_counter_with_unit_and_meaning(void)
{
    static const char *const names[] = {
#define NAME(id, name, unit, help) name,
        COUNTER_TABLE(NAME) GAUGE_TABLE(NAME)
#undef NAME
    };
    counter_add(&mgmt.dataplane->lcores[0]->counters->rx_bytes, 12345);
    const json_t *counters = json_object_get(result_of("stats"), "counters");
    CU_ASSERT_EQUAL(json_array_size(counters), ARRAY_COUNT(names));
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        const json_t *row = json_array_get(counters, i);
        CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(row, "name")), names[i]);
        CU_ASSERT(json_string_length(json_object_get(row, "unit")) > 0);
        CU_ASSERT(json_string_length(json_object_get(row, "help")) > 0);
        CU_ASSERT_EQUAL(json_array_size(json_object_get(row, "lcores")), 1);
    }
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(row_named(counters, "name", "rx_bytes"), "total")), 12345);
}

static void
latency_is_of_what_the_lcores_recorded(void)
{
    struct lcore_histograms *histograms = mgmt.dataplane->lcores[0]->histograms;

    for (uint64_t value = 1; value <= 30; value++) {
        histogram_record(&histograms->service[COMMAND_ZADD], value, 1);
    }
    histogram_record(&histograms->residence[COMMAND_ZADD], UINT64_MAX, 1);
    const json_t *row = row_named(json_object_get(result_of("latency"), "rows"), "command", "zadd");
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(row, "count")), 30);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(row, "p50")), 15);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(row, "p99_9")), 30);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(row, "max")), 30);
    CU_ASSERT_DOUBLE_EQUAL(json_real_value(json_object_get(row, "mean")), 15.5, 1e-9);
    CU_ASSERT_PTR_NULL(json_object_get(row, "buckets"));

    ask("{\"version\":1,\"command\":\"latency\",\"args\":{\"command\":\"ZADD\",\"buckets\":true,\"lcore\":0}}");
    const json_t *rows = json_object_get(json_object_get(reply, "result"), "rows");
    CU_ASSERT_EQUAL(json_array_size(rows), 1);
    CU_ASSERT_EQUAL(json_array_size(json_object_get(json_array_get(rows, 0), "buckets")), 30);

    ask("{\"version\":1,\"command\":\"latency\",\"args\":{\"command\":\"zadd\",\"kind\":\"residence\"}}");
    rows = json_object_get(json_object_get(reply, "result"), "rows");
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(json_array_get(rows, 0), "max")), INT64_MAX);
    CU_ASSERT_EQUAL(line_from(0, "latency kind=residence command=zadd lcore=0 buckets=true"), CTL_DONE);
    CU_ASSERT_PTR_NOT_NULL(strstr(out.bytes, "\nzadd "));
}

static void
secrets_are_not_shown(void)
{
    const json_t *settings = json_object_get(result_of("config show"), "settings");
    CU_ASSERT_EQUAL(json_array_size(settings), SETTINGS_COUNT);
    const json_t *row = row_named(settings, "name", "auth.password");
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(row, "value")), "(set)");
    row = row_named(settings, "name", "memory.reserve");
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(row, "value")), "64MiB");
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(row, "from")), "--set");
}

static void
only_its_own_uid_and_root_change_the_appliance(void)
{
    mgmt.state = MGMT_STOPPED; /* shutdown is then accepted and does nothing */
    CU_ASSERT_EQUAL(line_from(geteuid() + 1, "shutdown"), CTL_DONE);
    CU_ASSERT_PTR_NOT_NULL(strstr(out.bytes, "error: shutdown changes the appliance: only root and uid "));
    CU_ASSERT_EQUAL(line_from(geteuid() + 1, "alive"), CTL_DONE);
    CU_ASSERT_PTR_NULL(strstr(out.bytes, "error: "));
    CU_ASSERT_EQUAL(line_from(geteuid(), "shutdown"), CTL_DONE);
    CU_ASSERT_PTR_NULL(strstr(out.bytes, "error: "));
    CU_ASSERT_EQUAL(line_from(0, "shutdown"), CTL_DONE);
    CU_ASSERT_PTR_NULL(strstr(out.bytes, "error: "));
    mgmt.state = MGMT_RUN;
}

static int
suite_open(void)
{
    static const char *const overrides[] = { "auth.password=sesame" };
    appliance_open(&mgmt, overrides, ARRAY_COUNT(overrides));
    return 0;
}

static int
suite_close(void)
{
    json_decref(reply);
    text_fini(&out);
    appliance_close(&mgmt);
    return 0;
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("ctl", suite_open, suite_close);
    CU_ADD_TEST(suite, requests_that_are_wrong_are_answered_with_what_is_wrong);
    CU_ADD_TEST(suite, bytes_that_are_no_text_are_answered_too);
    CU_ADD_TEST(suite, deep_json_does_not_end_the_appliance);
    CU_ADD_TEST(suite, the_id_comes_back_as_it_was);
    CU_ADD_TEST(suite, every_command_answers_json_and_text);
    CU_ADD_TEST(suite, status_says_first_where_to_connect);
    CU_ADD_TEST(suite, stats_has_every_counter_with_unit_and_meaning);
    CU_ADD_TEST(suite, latency_is_of_what_the_lcores_recorded);
    CU_ADD_TEST(suite, secrets_are_not_shown);
    CU_ADD_TEST(suite, only_its_own_uid_and_root_change_the_appliance);
    CU_basic_set_mode(CU_BRM_NORMAL);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
