#include "mgmt/answer_client.h"
#include "test/mgmt/appliance.h"
#include <CUnit/Basic.h>

static struct mgmt mgmt;

static bool
answer_is(const char *answer, const char *expected)
{
    if (answer == NULL || strcmp(answer, expected) != 0) {
        printf("\n    expected %s\n    got      %s\n", expected, answer == NULL ? "(nothing)" : answer);
        return false;
    }
    return true;
}

static bool
answer_has(const char *answer, const char *part)
{
    if (answer == NULL || strstr(answer, part) == NULL) {
        printf("\n    expected %s\n    in       %s\n", part, answer == NULL ? "(nothing)" : answer);
        return false;
    }
    return true;
}

#define CONFIG(...) ASK(&mgmt, LATER_CONFIG, WIRE_RESP2, __VA_ARGS__)
#define INFO(...)   ASK(&mgmt, LATER_INFO, WIRE_RESP2, __VA_ARGS__)

/* ---- CONFIG ---- */

static void
config_refuses_what_it_cannot_do_and_says_why(void)
{
    CU_ASSERT(answer_is(appliance_ask(&mgmt, LATER_CONFIG, WIRE_RESP2, NULL, 0),
                        "-ERR unknown subcommand ''. Try CONFIG HELP.\r\n"));
    CU_ASSERT(answer_is(CONFIG("nonsense\r\n"), "-ERR unknown subcommand 'nonsense\?\?'. Try CONFIG HELP.\r\n"));
    CU_ASSERT(answer_is(CONFIG("GET"), "-ERR wrong number of arguments for 'config|get' command\r\n"));
    CU_ASSERT(answer_is(CONFIG("SET", "a"), "-ERR wrong number of arguments for 'config|set' command\r\n"));
    CU_ASSERT(answer_is(CONFIG("SET", "a", "b", "c"), "-ERR syntax error\r\n"));
    CU_ASSERT(answer_is(CONFIG("RESETSTAT", "x"), "-ERR wrong number of arguments for 'config|resetstat' command\r\n"));
    CU_ASSERT(answer_has(CONFIG("RESETSTAT"), "-ERR CONFIG RESETSTAT is not supported"));
    CU_ASSERT(answer_has(CONFIG("rewrite"), "-ERR CONFIG REWRITE is not supported"));
    CU_ASSERT(
        answer_is(CONFIG("SET", "foo", "1"), "-ERR Unknown option or number of arguments for CONFIG SET - 'foo'\r\n"));
    CU_ASSERT(answer_has(CONFIG("SET", "maxmemory", "1"),
                         "-ERR CONFIG SET failed (possibly related to argument 'maxmemory')"));
    CU_ASSERT(answer_has(CONFIG("SET", "store.keys_expected", "1"), "it cannot change while the appliance runs"));
    CU_ASSERT(answer_has(CONFIG("SET", "appendonly", "yes"), "it cannot change while the appliance runs"));
    CU_ASSERT(answer_has(CONFIG("SET", "loglevel", "loud"), "expected one of"));
}

static void
config_set_changes_all_or_nothing(void)
{
    CU_ASSERT(answer_is(CONFIG("SET", "log.level", "debug"), "+OK\r\n"));
    CU_ASSERT_STRING_EQUAL(mgmt.settings->log_level, "debug");
    CU_ASSERT(answer_has(CONFIG("SET", "LogLevel", "error", "maxmemory", "1"), "-ERR"));
    CU_ASSERT_STRING_EQUAL(mgmt.settings->log_level, "debug");
    CU_ASSERT(answer_is(CONFIG("SET", "loglevel", "notice"), "+OK\r\n"));
    CU_ASSERT_STRING_EQUAL(mgmt.settings->log_level, "info");
    CU_ASSERT(answer_is(CONFIG("GET", "loglevel"), "*2\r\n$8\r\nloglevel\r\n$6\r\nnotice\r\n"));
}

static void
config_set_refuses_a_parameter_twice_as_redis_does(void)
{
    CU_ASSERT(answer_is(CONFIG("SET", "loglevel", "debug", "LogLevel", "error"),
                        "-ERR CONFIG SET failed (possibly related to argument 'LogLevel') - duplicate parameter\r\n"));
    CU_ASSERT(answer_is(CONFIG("SET", "maxmemory", "64mb", "timeout", "3", "memory.limit", "64MiB"),
                        "-ERR CONFIG SET failed (possibly related to argument 'memory.limit') - duplicate "
                        "parameter\r\n"));
    CU_ASSERT(answer_is(CONFIG("SET", "maxmemory", "1", "nosuch", "2", "maxmemory", "3"),
                        "-ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'\r\n"));
    CU_ASSERT_STRING_EQUAL(mgmt.settings->log_level, "info");
}

/* What redis-server 7.0.15 makes of the same words. */
static void
config_set_takes_sizes_as_redis_does(void)
{
    static const struct {
        const char *text;
        uint64_t bytes; /* 0: refused */
    } rows[] = {
        { "65000k", 65000000 },
        { "65000K", 65000000 },
        { "65000kb", 66560000 },
        { "65000KB", 66560000 },
        { "67m", 67000000 },
        { "60Mb", 62914560 },
        { "67000000b", 67000000 },
        { "67000001", 67000001 },
        { "0067000002", 67000002 },
        { "64kk", 0 },
        { "1.5g", 0 },
        { "-1", 0 },
        { " 64m", 0 },
        { "64m ", 0 },
        { "1t", 0 },
        { "m", 0 },
        { "18446744073709551616", 0 },
        { "9223372036854775807g", 0 },
        { "64mib", 67108864 }, /* our own unit: Redis refuses it */
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        uint64_t before = mgmt.settings->memory_limit;
        const char *answer = CONFIG("SET", "maxmemory", rows[i].text);
        CU_ASSERT(rows[i].bytes != 0 ? answer_is(answer, "+OK\r\n")
                                     : answer_has(answer, "-ERR CONFIG SET failed (possibly related to argument "
                                                          "'maxmemory') - "));
        CU_ASSERT_EQUAL(mgmt.settings->memory_limit, rows[i].bytes != 0 ? rows[i].bytes : before);
    }
}

static void
config_set_takes_words_in_any_case(void)
{
    CU_ASSERT(answer_is(CONFIG("SET", "maxmemory-policy", "AllKeys-LRU"), "+OK\r\n"));
    CU_ASSERT_STRING_EQUAL(mgmt.settings->memory_policy, "allkeys-lru");
    CU_ASSERT(answer_is(CONFIG("SET", "maxmemory-policy", "noeviction", "loglevel", "NOTICE"), "+OK\r\n"));
    CU_ASSERT_STRING_EQUAL(mgmt.settings->memory_policy, "noeviction");
    CU_ASSERT(answer_has(CONFIG("SET", "maxmemory-policy", "lru"), "expected one of"));
}

static void
config_get_answers_both_kinds_of_names(void)
{
    CU_ASSERT(answer_is(CONFIG("GET", "nothing-like-it"), "*0\r\n"));
    CU_ASSERT(answer_is(CONFIG("GET", "save"), "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"));
    CU_ASSERT(answer_is(CONFIG("GET", "APPENDONLY"), "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n"));
    CU_ASSERT(answer_is(CONFIG("GET", "maxmemory"), "*2\r\n$9\r\nmaxmemory\r\n$8\r\n67108864\r\n"));
    CU_ASSERT(answer_is(CONFIG("GET", "memory.limit"), "*2\r\n$12\r\nmemory.limit\r\n$5\r\n64MiB\r\n"));
    CU_ASSERT(answer_is(CONFIG("GET", "timeout"), "*2\r\n$7\r\ntimeout\r\n$1\r\n2\r\n")); /* 1500 ms, rounded up */
    CU_ASSERT(answer_is(CONFIG("GET", "maxclients", "port"),
                        "*4\r\n$10\r\nmaxclients\r\n$5\r\n10000\r\n$4\r\nport\r\n$4\r\n6379\r\n"));
    CU_ASSERT(answer_is(CONFIG("GET", "bind"), "*2\r\n$4\r\nbind\r\n$15\r\n127.0.0.1 [::1]\r\n"));
    CU_ASSERT(answer_is(CONFIG("GET", "proto-max-bulk-len"), "*2\r\n$18\r\nproto-max-bulk-len\r\n$7\r\n1048576\r\n"));
    CU_ASSERT(
        answer_is(ASK(&mgmt, LATER_CONFIG, WIRE_RESP3, "GET", "databases"), "%1\r\n$9\r\ndatabases\r\n$1\r\n1\r\n"));
    CU_ASSERT(answer_has(CONFIG("GET", "store.*"), "*2\r\n$19\r\nstore.keys_expected\r\n"));
}

static void
config_get_never_shows_a_password(void)
{
    const char *answer = CONFIG("GET", "*");
    CU_ASSERT(answer_has(answer, "auth.protected_mode"));
    CU_ASSERT_PTR_NULL(strstr(answer, "password"));
    CU_ASSERT_PTR_NULL(strstr(answer, mgmt.settings->auth_password + 1));
    CU_ASSERT_EQUAL(mgmt.settings->auth_password[0], '#');
}

/* ---- INFO ---- */

static void
info_has_the_fields_that_clients_read(void)
{
    static const char *const fields[] = {
        "# Server\r\n",
        "\r\nredis_version:7.0.15\r\n",
        "\r\nsluice_version:",
        "\r\nredis_mode:standalone\r\n",
        "\r\narch_bits:64\r\n",
        "\r\nprocess_id:",
        "\r\nrun_id:",
        "\r\ntcp_port:6379\r\n",
        "\r\nuptime_in_seconds:",
        "# Clients\r\n",
        "\r\nconnected_clients:0\r\n",
        "\r\nmaxclients:10000\r\n",
        "\r\nblocked_clients:0\r\n",
        "# Memory\r\n",
        "\r\nused_memory:",
        "\r\nused_memory_human:",
        "\r\nused_memory_rss:",
        "\r\nmaxmemory:67108864\r\n",
        "\r\nmaxmemory_human:64.00M\r\n",
        "\r\nmaxmemory_policy:noeviction\r\n",
        "# Persistence\r\n",
        "\r\nloading:0\r\n",
        "\r\naof_enabled:0\r\n",
        "# Stats\r\n",
        "\r\ntotal_connections_received:",
        "\r\ntotal_commands_processed:",
        "\r\ninstantaneous_ops_per_sec:",
        "\r\nkeyspace_hits:",
        "\r\nkeyspace_misses:",
        "\r\nexpired_keys:0\r\n",
        "\r\nevicted_keys:0\r\n",
        "# Replication\r\n",
        "\r\nrole:master\r\n",
        "\r\nconnected_slaves:0\r\n",
        "# CPU\r\n",
        "\r\nused_cpu_sys:",
        "# Cluster\r\n",
        "\r\ncluster_enabled:0\r\n",
        "# Keyspace\r\n",
    };
    const char *info = appliance_ask(&mgmt, LATER_INFO, WIRE_RESP2, NULL, 0);
    size_t bytes = 0;

    for (size_t i = 0; i < ARRAY_COUNT(fields); i++) {
        CU_ASSERT(answer_has(info, fields[i]));
    }
    CU_ASSERT_PTR_NULL(strstr(info, "# Commandstats"));
    CU_ASSERT_EQUAL(sscanf(info, "$%zu\r\n", &bytes), 1);
    CU_ASSERT_EQUAL(strlen(strstr(info, "\r\n") + 2), bytes + 2); /* the bulk is as long as it says */
}

static void
info_gives_the_sections_asked_for(void)
{
    const char *info = INFO("keyspace", "CLUSTER");
    CU_ASSERT(answer_is(info, "$44\r\n# Cluster\r\ncluster_enabled:0\r\n\r\n# Keyspace\r\n\r\n"));
    CU_ASSERT(answer_is(INFO("nosuch"), "$0\r\n\r\n"));
    info = INFO("all");
    CU_ASSERT(answer_has(info, "# Commandstats\r\n"));
    CU_ASSERT(answer_has(info, "# Server\r\n"));
    info = INFO("default");
    CU_ASSERT(answer_has(info, "# Server\r\n"));
    CU_ASSERT_PTR_NULL(strstr(info, "# Commandstats"));
    CU_ASSERT(answer_has(ASK(&mgmt, LATER_INFO, WIRE_RESP3, "cluster"), "=34\r\ntxt:# Cluster\r\n"));
}

static void
info_counts_commands_and_their_time(void)
{
    struct lcore *lcore = mgmt.dataplane->lcores[0];

    counter_add(&lcore->counters->commands[COMMAND_GET], 4);
    counter_add(&lcore->counters->command_errors[COMMAND_GET], 1);
    histogram_record(&lcore->histograms->service[COMMAND_GET], 1000, 2);
    histogram_record(&lcore->histograms->service[COMMAND_GET], 3000, 2);
    CU_ASSERT(answer_has(INFO("commandstats"),
                         "\r\ncmdstat_get:calls=4,usec=8,usec_per_call=2.00,rejected_calls=0,failed_calls=1\r\n"));
    CU_ASSERT(answer_has(INFO("latencystats"), "\r\nlatency_percentiles_usec_get:p50=1.007,p99=3.000,p99.9=3.000\r\n"));
}

/* ---- CLIENT ---- */

static struct client_filter filter;
static char error[CLIENT_ERROR_BYTES];

static bool
parse(enum later_kind kind, const char *words)
{
    static struct later later;
    static char copy[512];
    char *save = NULL;

    memset(&later, 0, sizeof(later));
    later.kind = kind;
    later.session_id = 7;
    snprintf(copy, sizeof(copy), "%s", words);
    for (char *word = strtok_r(copy, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
        later.args[later.args_count++] = slice_text(word);
    }
    error[0] = '\0';
    return client_filter_parse(&later, mgmt.settings, &filter, error);
}

static void
client_kill_refuses_bad_filters(void)
{
    static const struct {
        const char *words, *error;
    } rows[] = {
        { "kill id 0", "ERR client-id should be greater than 0" },
        { "kill id -1", "ERR client-id should be greater than 0" },
        { "kill id 9223372036854775808", "ERR client-id should be greater than 0" },
        { "kill id x", "ERR client-id should be greater than 0" },
        { "kill type nosuch", "ERR Unknown client type 'nosuch'" },
        { "kill user nosuch", "ERR No such user 'nosuch'" },
        { "kill skipme maybe", "ERR syntax error" },
        { "kill colour red", "ERR syntax error" },
        { "kill id 1 addr", "ERR syntax error" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        CU_ASSERT_FALSE(parse(LATER_CLIENT_KILL, rows[i].words));
        CU_ASSERT_STRING_EQUAL(error, rows[i].error);
    }
    CU_ASSERT_FALSE(parse(LATER_CLIENT_LIST, "list id"));
    CU_ASSERT_FALSE(parse(LATER_CLIENT_LIST, "list id 0"));
    CU_ASSERT_STRING_EQUAL(error, "ERR Invalid client ID");
    CU_ASSERT_FALSE(parse(LATER_CLIENT_LIST, "list type"));
    CU_ASSERT_FALSE(parse(LATER_CLIENT_LIST, "list all"));
}

static void
client_filters_choose_the_sessions_they_name(void)
{
    static const struct {
        enum later_kind kind;
        const char *words;
        bool first, me; /* session 3, a subscriber, and session 7, who asks */
    } rows[] = {
        { LATER_CLIENT_LIST, "list", true, true },
        { LATER_CLIENT_LIST, "list id 3", true, false },
        { LATER_CLIENT_LIST, "list id 9 7 3", true, true },
        { LATER_CLIENT_LIST, "list id 9", false, false },
        { LATER_CLIENT_LIST, "list type pubsub", true, false },
        { LATER_CLIENT_LIST, "list type normal", false, true },
        { LATER_CLIENT_LIST, "list type replica", false, false },
        { LATER_CLIENT_LIST, "info", false, true },
        { LATER_CLIENT_KILL, "kill 127.0.0.1:3", true, false },
        { LATER_CLIENT_KILL, "kill 127.0.0.1:7", false, true }, /* the old form does not skip the asker */
        { LATER_CLIENT_KILL, "kill addr 127.0.0.1:7", false, false },
        { LATER_CLIENT_KILL, "kill addr 127.0.0.1:7 skipme no", false, true },
        { LATER_CLIENT_KILL, "kill type pubsub", true, false },
        { LATER_CLIENT_KILL, "kill type pubsub addr 127.0.0.1:7", false, false },
        { LATER_CLIENT_KILL, "kill laddr 127.0.0.1:6379", true, false },
        { LATER_CLIENT_KILL, "kill laddr 127.0.0.1:6379 skipme no", true, true },
        { LATER_CLIENT_KILL, "kill user default", false, false }, /* session 3 has not authenticated */
        { LATER_CLIENT_KILL, "kill user default skipme no", false, true },
        { LATER_CLIENT_KILL, "kill id 3 skipme yes", true, false },
    };
    struct session_row first = { .id = 3, .subscriptions = 2, .peer = "127.0.0.1:3", .local = "127.0.0.1:6379" };
    struct session_row me = { .id = 7, .authenticated = true, .peer = "127.0.0.1:7", .local = "127.0.0.1:6379" };

    strcpy(me.user, "default");
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        CU_ASSERT_FATAL(parse(rows[i].kind, rows[i].words));
        CU_ASSERT_EQUAL(client_filter_matches(&filter, &first), rows[i].first);
        CU_ASSERT_EQUAL(client_filter_matches(&filter, &me), rows[i].me);
    }
}

static void
client_list_asks_page_by_page(void)
{
    struct mail mail;
    static struct later later;
    uint64_t served = mgmt.answers.served;

    memset(&later, 0, sizeof(later));
    later.kind = LATER_CLIENT_LIST;
    later.session_id = 7;
    later.wire = WIRE_RESP2;
    later.args[later.args_count++] = SLICE_LITERAL("list");
    answers_take(&mgmt, &later);
    for (uint32_t page = 0; page < 3; page++) {
        CU_ASSERT_FATAL(appliance_mail(&mgmt, 0, &mail) && mail.kind == MAIL_SESSIONS_LIST);
        struct session_list *list = mail.p;
        CU_ASSERT_EQUAL(list->cursor, page * 10);
        list->count = page == 1 ? 0 : 1; /* an empty page is not the end */
        list->rows[0] = (struct session_row){ .id = page + 1,
                                              .last_command = COMMAND_GET,
                                              .wire = WIRE_RESP3,
                                              .age_ms = 61500,
                                              .idle_ms = 1500,
                                              .pending_bytes = 12 };
        list->cursor = page == 2 ? 0 : (page + 1) * 10;
        CU_ASSERT_FALSE(later.answered);
        answers_take_page(&mgmt, &mail);
    }
    CU_ASSERT(later.answered);
    CU_ASSERT_EQUAL(mgmt.answers.served, served + 1);
    const uint8_t *answer = later.answer_big != NULL ? later.answer_big : later.answer;
    const char *text = memchr(answer, '\n', later.answer_bytes);
    CU_ASSERT(strncmp(text + 1, "id=1 addr= laddr= fd=-1 name= age=61 idle=1 flags=N db=0 sub=0 psub=0 ", 70) == 0);
    CU_ASSERT(memmem(answer, later.answer_bytes, "\nid=3 ", 6) != NULL);
    CU_ASSERT(memmem(answer, later.answer_bytes, "\nid=2 ", 6) == NULL);
    CU_ASSERT(memmem(answer, later.answer_bytes, " cmd=get user=(superuser) redir=-1 resp=3 ", 42) != NULL);
    later.session_id = 0;
    answers_take(&mgmt, &later);
    appliance_mail(&mgmt, 0, &mail);
}

static void
an_lcore_that_does_not_answer_does_not_hold_the_others_up(void)
{
    enum { ASKERS = 10 };
    static struct later laters[ASKERS];
    struct session_list *pages[ASKERS];
    struct mail mail;
    size_t asked = 0, answered = 0;

    memset(laters, 0, sizeof(laters));
    for (int i = 0; i < ASKERS; i++) {
        laters[i].kind = LATER_CLIENT_LIST;
        laters[i].session_id = 7;
        laters[i].wire = WIRE_RESP2;
        laters[i].args[laters[i].args_count++] = SLICE_LITERAL("list");
        answers_take(&mgmt, &laters[i]);
    }
    for (int round = 1; answered < ASKERS && round < 20; round++) {
        while (mail_take(mgmt.dataplane->to_lcore[0], &mail)) {
            if (mail.kind == MAIL_SESSIONS_LIST) {
                pages[asked++] = mail.p; /* kept */
                CU_ASSERT_FATAL(asked <= ASKERS);
            } else {
                answered++;
                CU_ASSERT(memmem(laters[0].answer, laters[0].answer_bytes, "-ERR lcore 0 does not answer", 28) != NULL);
            }
        }
        answers_tick(&mgmt, loop_now_ms() + round * 6000);
    }
    CU_ASSERT_EQUAL(answered, ASKERS);
    for (size_t i = 0; i < asked; i++) { /* pages that come back after all are let go */
        answers_take_page(&mgmt, &(struct mail){ .kind = MAIL_SESSIONS_LIST, .p = pages[i] });
    }
    CU_ASSERT_EQUAL(mgmt.answers.job_count, 0);
}

static void
client_kill_ends_sessions_in_batches_and_counts_what_lcores_say(void)
{
    static struct later later;
    struct mail mail;
    uint32_t told = 0;

    memset(&later, 0, sizeof(later));
    later.kind = LATER_CLIENT_KILL;
    later.session_id = 7;
    later.wire = WIRE_RESP2;
    const char *words[] = { "kill", "type", "normal", "skipme", "no" };
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        later.args[later.args_count++] = slice_text(words[i]);
    }
    answers_take(&mgmt, &later);
    for (uint64_t page = 0; page < 5; page++) { /* 320 sessions, the asker among them */
        CU_ASSERT_FATAL(mail_take(mgmt.dataplane->to_lcore[0], &mail) && mail.kind == MAIL_SESSIONS_LIST);
        struct session_list *list = mail.p;
        list->count = SESSION_LIST_ROWS;
        for (uint32_t i = 0; i < SESSION_LIST_ROWS; i++) {
            list->rows[i] = (struct session_row){ .id = page * SESSION_LIST_ROWS + i + 1 };
        }
        list->cursor = page == 4 ? 0 : page + 1;
        answers_take_page(&mgmt, &mail);
    }
    while (mail_take(mgmt.dataplane->to_lcore[0], &mail) && mail.kind == MAIL_SESSION_KILL) {
        struct session_kill *kill = mail.p;
        CU_ASSERT(kill->count > 0 && kill->count <= SESSION_KILL_IDS);
        for (uint32_t i = 0; i < kill->count; i++) {
            CU_ASSERT(kill->ids[i] != 7);
        }
        told += kill->count;
        kill->killed = kill->count - 1; /* one had gone by itself */
        answers_take_page(&mgmt, &mail);
    }
    CU_ASSERT_EQUAL(told, 319);
    CU_ASSERT(later.answered);
    CU_ASSERT(later.answer_bytes == 6 && memcmp(later.answer, ":318\r\n", 6) == 0); /* 255 + 62 + the asker */
    answers_tick(&mgmt, loop_now_ms() + 1000); /* the asker last, when its answer is on the way */
    CU_ASSERT_FATAL(mail_take(mgmt.dataplane->to_lcore[0], &mail) && mail.kind == MAIL_SESSION_KILL);
    CU_ASSERT_EQUAL(((struct session_kill *)mail.p)->ids[0], 7);
    answers_take_page(&mgmt, &mail);
    CU_ASSERT_EQUAL(mgmt.answers.job_count, 0);
}

/* ---- all of them ---- */

static void
answers_wait_while_the_mail_ring_is_full(void)
{
    static struct later laters[3];
    struct mail mail, filler = { .kind = MAIL_NONE };

    while (dataplane_post(mgmt.dataplane, 0, &filler)) {
    }
    memset(laters, 0, sizeof(laters));
    for (int i = 0; i < 3; i++) {
        laters[i] = (struct later){ .kind = LATER_INFO, .session_id = 7, .wire = WIRE_RESP2, .args_count = 1 };
        laters[i].args[0] = SLICE_LITERAL("cluster");
        answers_take(&mgmt, &laters[i]);
    }
    answers_tick(&mgmt, loop_now_ms());
    CU_ASSERT_PTR_EQUAL(mgmt.answers.unsent, &laters[0]);
    while (mail_take(mgmt.dataplane->to_lcore[0], &mail)) {
        CU_ASSERT_EQUAL(mail.kind, MAIL_NONE);
    }
    answers_tick(&mgmt, loop_now_ms());
    for (int i = 0; i < 3; i++) {
        CU_ASSERT(mail_take(mgmt.dataplane->to_lcore[0], &mail) && mail.p == &laters[i]);
    }
    CU_ASSERT_PTR_NULL(mgmt.answers.unsent);
    CU_ASSERT_FALSE(mail_take(mgmt.dataplane->to_lcore[0], &mail));
}

static int
suite_open(void)
{
    static const char *const overrides[] = { "auth.password=sesame", "limits.idle_timeout=1500ms" };
    appliance_open(&mgmt, overrides, ARRAY_COUNT(overrides));
    return 0;
}

static int
suite_close(void)
{
    appliance_close(&mgmt);
    return 0;
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("answers", suite_open, suite_close);
    CU_ADD_TEST(suite, config_refuses_what_it_cannot_do_and_says_why);
    CU_ADD_TEST(suite, config_set_changes_all_or_nothing);
    CU_ADD_TEST(suite, config_set_refuses_a_parameter_twice_as_redis_does);
    CU_ADD_TEST(suite, config_set_takes_sizes_as_redis_does);
    CU_ADD_TEST(suite, config_set_takes_words_in_any_case);
    CU_ADD_TEST(suite, config_get_answers_both_kinds_of_names);
    CU_ADD_TEST(suite, config_get_never_shows_a_password);
    CU_ADD_TEST(suite, info_has_the_fields_that_clients_read);
    CU_ADD_TEST(suite, info_gives_the_sections_asked_for);
    CU_ADD_TEST(suite, info_counts_commands_and_their_time);
    CU_ADD_TEST(suite, client_kill_refuses_bad_filters);
    CU_ADD_TEST(suite, client_filters_choose_the_sessions_they_name);
    CU_ADD_TEST(suite, client_list_asks_page_by_page);
    CU_ADD_TEST(suite, an_lcore_that_does_not_answer_does_not_hold_the_others_up);
    CU_ADD_TEST(suite, client_kill_ends_sessions_in_batches_and_counts_what_lcores_say);
    CU_ADD_TEST(suite, answers_wait_while_the_mail_ring_is_full);
    CU_basic_set_mode(CU_BRM_NORMAL);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
