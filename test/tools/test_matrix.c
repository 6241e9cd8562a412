/* test_matrix.c - which rows a matrix has, and how one that ended early goes on. */
#include "tools/bench/matrix_state.h"
#include <CUnit/Basic.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/sluice-test-matrix-XXXXXX";
static char out[64];

/* ---- the plan ---- */

static void
lists_with_faults_are_refused(void)
{
    static const struct {
        const char *providers, *streams, *wires, *sends, *why;
    } rows[] = {
        { "shm,,net", "", NULL, NULL, "no list of words" },
        { ",shm", "", NULL, NULL, "no list of words" },
        { "shm,", "", NULL, NULL, "no list of words" },
        { "shm,shm", "", NULL, NULL, "there twice" },
        { "tcp-rxm,tcp;ofi_rxm", "", NULL, NULL, "there twice" },
        { "-shm", "", NULL, NULL, "no provider's name" },
        { "a\"b", "", NULL, NULL, "no provider's name" },
        { "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", "", NULL, NULL, "one too many" },
        { "", "tcp", NULL, NULL, "not among kernel-tcp, unix, ethernet" },
        { "", "unix", "RESP", NULL, "not among resp, resp3, sbe" },
        { "shm", "", NULL, "fi_send", "not among auto, inject, send" },
        { "", "", NULL, NULL, "nothing to measure" },
        { "shm", "", NULL, "", "nothing to measure" },
        { "shm", "unix", "", NULL, "nothing to measure" },
        { "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p", "", "sbe,resp,resp3", "auto,send,inject", "more than 128 rows" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char why[512] = "";
        struct matrix_plan plan = {
            .providers = rows[i].providers, .streams = rows[i].streams, .wires = rows[i].wires, .sends = rows[i].sends
        };
        CU_ASSERT_FALSE(matrix_plan_expand(&plan, why, sizeof(why)));
        CU_ASSERT_PTR_NOT_NULL(strstr(why, rows[i].why));
    }
}

static void
rows_are_providers_by_wires_by_sends_then_streams(void)
{
    static const char *const labels[] = { "efa-sbe-auto",     "efa-sbe-send",   "tcp-rxm-sbe-auto",
                                          "tcp-rxm-sbe-send", "kernel-tcp-sbe", "unix-sbe" };
    char why[512];
    struct matrix_plan plan = { .providers = "efa,tcp-rxm", .streams = "kernel-tcp,unix", .wires = "sbe" };
    CU_ASSERT_FATAL(matrix_plan_expand(&plan, why, sizeof(why)));
    CU_ASSERT_EQUAL_FATAL(plan.row_count, ARRAY_COUNT(labels));
    for (uint32_t i = 0; i < plan.row_count; i++) {
        CU_ASSERT_STRING_EQUAL(plan.rows[i].label, labels[i]);
    }
    CU_ASSERT_STRING_EQUAL(plan.rows[2].provider, "tcp;ofi_rxm");
    CU_ASSERT_EQUAL(plan.rows[3].send, CLIENT_SEND_SEND);
}

static void
two_hosts_have_the_published_rows(void)
{
    static const char *const labels[] = { "efa-sbe-auto",   "efa-sbe-send",   "efa-resp-auto", "efa-resp-send",
                                          "tcp-sbe-auto",   "tcp-sbe-send",   "tcp-resp-auto", "tcp-resp-send",
                                          "kernel-tcp-sbe", "kernel-tcp-resp" };
    char why[512];
    struct matrix_plan plan = { .server = "other" };
    CU_ASSERT_FATAL(matrix_plan_expand(&plan, why, sizeof(why)));
    CU_ASSERT_EQUAL_FATAL(plan.row_count, ARRAY_COUNT(labels));
    for (uint32_t i = 0; i < plan.row_count; i++) {
        CU_ASSERT_STRING_EQUAL(plan.rows[i].label, labels[i]);
    }
    struct matrix_plan shm = { .server = "other", .providers = "shm" };
    CU_ASSERT_FALSE(matrix_plan_expand(&shm, why, sizeof(why)));
}

/* ---- the state ---- */

#define SAMPLES 100

static struct matrix_plan
plan_make(void)
{
    char why[512];
    struct matrix_plan plan = { .out = out, .providers = "shm", .streams = "unix", .samples = SAMPLES, .warmup = 10 };
    CU_ASSERT_FATAL(matrix_plan_expand(&plan, why, sizeof(why)));
    CU_ASSERT_EQUAL_FATAL(plan.row_count, 6); /* shm-sbe-auto first, unix-resp last */
    return plan;
}

static void
file_write(const char *name, const char *mode, const char *text)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", out, name);
    FILE *file = fopen(path, mode);
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs(text, file);
    fclose(file);
}

static char *
file_read(const char *name)
{
    static char text[65536];
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", out, name);
    FILE *file = fopen(path, "r");
    text[0] = '\0';
    if (file != NULL) {
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        fclose(file);
    }
    return text;
}

static void
files_begin(void)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", out);
    CU_ASSERT_EQUAL_FATAL(system(command), 0);
    CU_ASSERT_EQUAL_FATAL(mkdir(out, 0700), 0);
}

static void
tables_begin(void)
{
    file_write("latency.csv", "w", "label,operation,p50_us,samples\n");
    file_write("config.csv", "w", "label,samples,warmup\n");
}

/* `count` of the eight operations. */
static void
row_write(const char *label, uint32_t count, uint32_t samples, bool config)
{
    static const char *const names[] = { "PING", "SET", "GET", "HSET", "HGET", "ZADD", "ZSCORE", "PUBSUB" };
    char line[256];
    for (uint32_t i = 0; i < count; i++) {
        snprintf(line, sizeof(line), "%s,%s,1.5,%u\n", label, names[i], samples);
        file_write("latency.csv", "a", line);
    }
    if (config) {
        snprintf(line, sizeof(line), "%s,samples=%u,warmup=10\n", label, SAMPLES);
        file_write("config.csv", "a", line);
    }
}

static bool
state_settle(struct matrix_state *state, const struct matrix_plan *plan, const char *config, char why[512])
{
    json_t *json = json_loads(config, 0, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(json);
    bool good = matrix_state_open(state, plan, json, why, 512);
    json_decref(json);
    matrix_state_close(state);
    return good;
}

static void
a_folder_that_is_new_has_nothing_finished(void)
{
    char why[512];
    struct matrix_state state;
    struct matrix_plan plan = plan_make();
    files_begin();
    rmdir(out);
    CU_ASSERT(state_settle(&state, &plan, "{\"samples\":100}", why));
    CU_ASSERT_EQUAL(state.finished_count, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(file_read("matrix.json"), "100"));
}

static void
only_whole_rows_are_finished_and_the_rest_goes(void)
{
    char why[512];
    struct matrix_state state;
    struct matrix_plan plan = plan_make();
    files_begin();
    file_write("matrix.json", "w", "{\"samples\":100}");
    tables_begin();
    row_write("other-run", 3, 7, true);          /* not of the plan: stays */
    row_write("shm-sbe-auto", 8, SAMPLES, true); /* whole */
    row_write("shm-sbe-auto-floor", 8, SAMPLES, true);
    row_write("shm-sbe-send", 8, SAMPLES, false); /* its configuration never came */
    row_write("shm-resp-auto", 7, SAMPLES, true); /* an operation is missing */
    row_write("shm-resp-send", 8, 99, true);      /* interrupted */
    row_write("shm-resp-send-floor", 8, SAMPLES, true);
    row_write("unix-sbe-floor", 8, SAMPLES, true); /* the floor alone */
    file_write("unavailable.csv", "w", "label,error\nunix-resp,\"no, \"\"really\"\"\"\nother-run,x\n");
    CU_ASSERT_FATAL(state_settle(&state, &plan, "{\"samples\":100}", why));
    CU_ASSERT_EQUAL(state.finished_count, 1);
    CU_ASSERT(state.finished[0]);
    char *text = file_read("latency.csv");
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "other-run,GET,1.5,7\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "shm-sbe-auto,PUBSUB,1.5,100\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "shm-sbe-auto-floor,PING"));
    CU_ASSERT_PTR_NULL(strstr(text, "send"));
    CU_ASSERT_PTR_NULL(strstr(text, "resp"));
    CU_ASSERT_PTR_NULL(strstr(text, "unix"));
    CU_ASSERT_STRING_EQUAL(file_read("config.csv"), "label,samples,warmup\nother-run,samples=100,warmup=10\n"
                                                    "shm-sbe-auto,samples=100,warmup=10\n"
                                                    "shm-sbe-auto-floor,samples=100,warmup=10\n");
    CU_ASSERT_STRING_EQUAL(file_read("unavailable.csv"), "label,error\nother-run,x\n");
}

static void
a_line_that_was_cut_off_goes(void)
{
    static const char *const tails[] = { "shm-sbe-send,GE", "s", "\"shm", "shm-sbe-send,GET,1.5,100" };
    for (size_t i = 0; i < ARRAY_COUNT(tails); i++) {
        char why[512];
        struct matrix_state state;
        struct matrix_plan plan = plan_make();
        files_begin();
        file_write("matrix.json", "w", "{\"samples\":100}");
        tables_begin();
        row_write("shm-sbe-auto", 8, SAMPLES, true);
        file_write("latency.csv", "a", tails[i]);
        file_write("unavailable.csv", "w", "label,er");
        CU_ASSERT_FATAL(state_settle(&state, &plan, "{\"samples\":100}", why));
        CU_ASSERT_EQUAL(state.finished_count, 1);
        char *text = file_read("latency.csv");
        CU_ASSERT_EQUAL(text[strlen(text) - 1], '\n');
        CU_ASSERT_STRING_EQUAL(file_read("unavailable.csv"), "");
    }
}

static void
another_configuration_is_refused_and_touches_nothing(void)
{
    static const struct {
        const char *config, *why;
    } rows[] = {
        { "{\"samples\":101}", "samples was 100 and is 101 now" },
        { "{\"samples\":100,\"floor\":true}", "floor was not said and is true now" },
        { "{}", "samples was 100 and is not said now" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char why[512] = "";
        struct matrix_state state;
        struct matrix_plan plan = plan_make();
        files_begin();
        file_write("matrix.json", "w", "{\"samples\":100}");
        tables_begin();
        row_write("shm-sbe-send", 3, SAMPLES, false);
        CU_ASSERT_FALSE(state_settle(&state, &plan, rows[i].config, why));
        CU_ASSERT_PTR_NOT_NULL(strstr(why, rows[i].why));
        CU_ASSERT_PTR_NOT_NULL(strstr(file_read("latency.csv"), "shm-sbe-send,GET"));
    }
}

static void
a_restart_moves_everything_aside(void)
{
    char why[512];
    struct matrix_state state;
    struct matrix_plan plan = plan_make();
    files_begin();
    tables_begin();
    row_write("shm-sbe-auto", 8, SAMPLES, true);
    CU_ASSERT_FALSE(state_settle(&state, &plan, "{}", why)); /* nobody knows how that was measured */
    CU_ASSERT_PTR_NOT_NULL(strstr(why, "of another run"));
    plan.restart = true;
    CU_ASSERT(state_settle(&state, &plan, "{}", why));
    CU_ASSERT_EQUAL(state.finished_count, 0);
    CU_ASSERT_STRING_EQUAL(file_read("latency.csv"), "");
    CU_ASSERT_PTR_NOT_NULL(strstr(file_read("before-1/latency.csv"), "shm-sbe-auto,PUBSUB"));
    CU_ASSERT(state_settle(&state, &plan, "{}", why));
    CU_ASSERT_PTR_NOT_NULL(strstr(file_read("before-2/matrix.json"), "{}"));
}

static void
tables_that_cannot_be_read_are_refused(void)
{
    static const struct {
        const char *name, *text, *why;
    } rows[] = {
        { "latency.csv", "label,operation\nx,PING\n", "no column 'samples'" },
        { "latency.csv", "label,operation,samples\nshm-sbe-auto,PING,many\n", "expected a number" },
        { "latency.csv", "label,operation,samples\nx,PING\n", "2 cells, the header has 3" },
        { "config.csv", "label,samples\n", "no column 'warmup'" },
        { "unavailable.csv", "what\nx\n", "no column 'label'" },
        { "matrix.json", "[1]", "cannot be read" },
        { "matrix.json", "", "cannot be read" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char why[512] = "";
        struct matrix_state state;
        struct matrix_plan plan = plan_make();
        files_begin();
        file_write("matrix.json", "w", "{}");
        tables_begin();
        file_write(rows[i].name, "w", rows[i].text);
        CU_ASSERT_FALSE(state_settle(&state, &plan, "{}", why));
        CU_ASSERT_PTR_NOT_NULL(strstr(why, rows[i].why));
        CU_ASSERT_STRING_EQUAL(file_read(rows[i].name), rows[i].text);
    }
}

static void
one_matrix_works_in_a_folder(void)
{
    char why[512] = "";
    struct matrix_state first, second;
    struct matrix_plan plan = plan_make();
    json_t *config = json_object();
    files_begin();
    CU_ASSERT(matrix_state_open(&first, &plan, config, why, sizeof(why)));
    CU_ASSERT_FALSE(matrix_state_open(&second, &plan, config, why, sizeof(why)));
    CU_ASSERT_PTR_NOT_NULL(strstr(why, "another matrix is at work"));
    matrix_state_close(&second);
    matrix_state_close(&first);
    CU_ASSERT(matrix_state_open(&second, &plan, config, why, sizeof(why)));
    matrix_state_close(&second);
    json_decref(config);
}

int
main(void)
{
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    snprintf(out, sizeof(out), "%s/out", folder);
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("matrix", NULL, NULL);
    CU_ADD_TEST(suite, lists_with_faults_are_refused);
    CU_ADD_TEST(suite, rows_are_providers_by_wires_by_sends_then_streams);
    CU_ADD_TEST(suite, two_hosts_have_the_published_rows);
    CU_ADD_TEST(suite, a_folder_that_is_new_has_nothing_finished);
    CU_ADD_TEST(suite, only_whole_rows_are_finished_and_the_rest_goes);
    CU_ADD_TEST(suite, a_line_that_was_cut_off_goes);
    CU_ADD_TEST(suite, another_configuration_is_refused_and_touches_nothing);
    CU_ADD_TEST(suite, a_restart_moves_everything_aside);
    CU_ADD_TEST(suite, tables_that_cannot_be_read_are_refused);
    CU_ADD_TEST(suite, one_matrix_works_in_a_folder);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command) != 0 || failures != 0;
}
