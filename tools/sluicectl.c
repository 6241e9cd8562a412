/* sluicectl.c - look at a running appliance and end it, over its management socket. */
#include "tools/sluicectl.h"
#include "config/units.h"
#include "mgmt/ctl_wire.h"
#include <getopt.h>
#include <unistd.h>

enum option_flag {
    TAKES_ALL = 1 << 0,
    TAKES_FULL = 1 << 1,
    TAKES_LATENCY = 1 << 2,
    TAKES_LIMIT = 1 << 3,
    TAKES_NO_WAIT = 1 << 4,
    TAKES_WORD = 1 << 5,
    TAKES_WATCH = 1 << 6,
    TAKES_VALUE = 1 << 7,
    TAKES_SAVE = 1 << 8,
    TAKES_CAPTURE = 1 << 9,
    TAKES_SECONDS = 1 << 10,
    TAKES_WAIT = 1 << 11,
};

/* ---- commands ---- */

int
print_json(json_t *result)
{
    json_dumpf(result, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(result);
    return EXIT_GOOD;
}

static void
print_line(const char *name, const json_t *value, enum column_kind kind)
{
    char cell[CELL_BYTES];
    printf("%-12s %s\n", name, cell_print(value, kind, cell));
}

static void
print_list(const char *name, const json_t *list, const char *nothing)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        printf("%-12s %s\n", i == 0 ? name : "", json_string_value(json_array_get(list, i)));
    }
    if (json_array_size(list) == 0) {
        printf("%-12s %s\n", name, nothing);
    }
}

static int
run_status(const struct options *options)
{
    json_t *result = call(options, "status", NULL);
    char used[CELL_BYTES], limit[CELL_BYTES], huge[CELL_BYTES];

    if (options->json) {
        return print_json(result);
    }
    print_list("streams", json_object_get(result, "streams"), "none");
    print_list("fabric", json_object_get(result, "fabric"), "none");
    if (json_array_size(json_object_get(result, "ethernet")) > 0) {
        print_list("ethernet", json_object_get(result, "ethernet"), "");
    }
    print_line("management", json_object_get(result, "management"), COLUMN_TEXT);
    if (get_text(result, "metrics")[0] != '\0') {
        printf("%-12s http://%s/metrics\n", "metrics", get_text(result, "metrics"));
    }
    printf("%-12s %s%s\n", "state", get_text(result, "state"),
           json_is_true(json_object_get(result, "ready")) ? ", ready" : ", not ready");
    printf("%-12s sluiced %s, process %.0f\n", "version", get_text(result, "version"), get_number(result, "pid"));
    print_line("up", json_object_get(result, "uptime_s"), COLUMN_SECONDS);
    printf("%-12s %.0f, %.2f of them busy, clock %s\n", "lcores", get_number(result, "lcores"),
           get_number(result, "busy_lcores"), get_text(result, "clock"));
    print_line("sessions", json_object_get(result, "sessions"), COLUMN_COUNT);
    print_line("keys", json_object_get(result, "keys"), COLUMN_COUNT);
    printf("%-12s %s, %s now\n", "requests", cell_print(json_object_get(result, "requests"), COLUMN_COUNT, used),
           cell_print(json_object_get(result, "requests_per_s"), COLUMN_COUNT, limit));
    printf("%-12s %s used of %s, huge pages %s\n", "memory",
           cell_print(json_object_get(result, "memory_used_bytes"), COLUMN_BYTES, used),
           cell_print(json_object_get(result, "memory_limit_bytes"), COLUMN_BYTES, limit),
           cell_print(json_object_get(result, "huge_page_bytes"), COLUMN_BYTES, huge));
    printf("%-12s passwords %s, TLS %s; persistence %s\n", "safety",
           json_is_true(json_object_get(result, "auth")) ? "on" : "off",
           json_is_true(json_object_get(result, "tls")) ? "on" : "off", get_text(result, "persistence"));
    json_decref(result);
    return EXIT_GOOD;
}

static int
run_ready(const struct options *options)
{
    json_t *result = call(options, "ready", NULL);
    bool ready = json_is_true(json_object_get(result, "ready"));
    const json_t *stalled = json_object_get(result, "stalled_lcore");

    if (options->json) {
        print_json(result);
        return ready ? EXIT_GOOD : EXIT_BAD;
    }
    if (json_is_integer(stalled)) {
        printf("not ready: lcore %lld stands still\n", (long long)json_integer_value(stalled));
    } else {
        printf(ready ? "ready\n" : "not ready: %s\n", get_text(result, "state"));
    }
    json_decref(result);
    return ready ? EXIT_GOOD : EXIT_BAD;
}

static int
run_alive(const struct options *options)
{
    json_t *result = call(options, "alive", NULL);

    if (options->json) {
        return print_json(result);
    }
    puts("alive");
    json_decref(result);
    return EXIT_GOOD;
}

/* Rows whose name holds `word`, and that are not zero unless all are wanted. */
static json_t *
filter_rows(const struct options *options, const json_t *rows)
{
    json_t *kept = json_array();

    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        bool named = options->word == NULL || strstr(get_text(row, "name"), options->word) != NULL;
        if (named && (options->all || get_number(row, "total") != 0)) {
            json_array_append(kept, row);
        }
    }
    return kept;
}

static int
run_stats(const struct options *options)
{
    static const struct column columns[] = { { "NAME", "name", COLUMN_TEXT },
                                             { "TOTAL", "total", COLUMN_EXACT },
                                             { "UNIT", "unit", COLUMN_TEXT },
                                             { "MEANING", "help", COLUMN_TEXT } };
    static const struct column commands[] = { { "COMMAND", "command", COLUMN_TEXT },
                                              { "CALLS", "calls", COLUMN_EXACT },
                                              { "ERRORS", "errors", COLUMN_EXACT } };
    json_t *result = call(options, "stats", NULL);

    if (options->json) {
        return print_json(result);
    }
    json_t *rows = filter_rows(options, json_object_get(result, "counters"));
    json_t *store = filter_rows(options, json_object_get(result, "store"));
    json_array_extend(rows, store);
    table_print(rows, columns, options->full ? 4 : 3, "no such counter, or all are 0; -a shows those too");
    if (options->word == NULL) {
        putchar('\n');
        table_print(json_object_get(result, "commands"), commands, ARRAY_COUNT(commands), "no command was executed");
    }
    json_decref(rows);
    json_decref(store);
    json_decref(result);
    return EXIT_GOOD;
}

static int
run_lcores(const struct options *options)
{
    static const struct column columns[] = {
        { "LCORE", "lcore", COLUMN_EXACT },       { "CPU", "cpu", COLUMN_EXACT },
        { "NODE", "node", COLUMN_EXACT },         { "TID", "tid", COLUMN_EXACT },
        { "STATE", "state", COLUMN_TEXT },        { "BUSY", "busy_share", COLUMN_SHARE },
        { "TURNS", "turns", COLUMN_COUNT },       { "SLEEPS", "sleeps", COLUMN_COUNT },
        { "REQUESTS", "requests", COLUMN_COUNT }, { "SESSIONS", "sessions", COLUMN_COUNT },
    };
    static const struct column helpers[] = {
        { "HELPER", "helper", COLUMN_TEXT },        { "TID", "tid", COLUMN_EXACT },
        { "STATE", "state", COLUMN_TEXT },          { "STEPS", "steps", COLUMN_COUNT },
        { "SLEEPS", "sleeps", COLUMN_COUNT },       { "JOBS", "jobs", COLUMN_COUNT },
        { "CANCELLED", "cancelled", COLUMN_COUNT },
    };
    json_t *result = call(options, "lcores", NULL);

    if (options->json) {
        return print_json(result);
    }
    table_print(json_object_get(result, "lcores"), columns, ARRAY_COUNT(columns), "no lcores");
    printf("\n");
    table_print(json_object_get(result, "helpers"), helpers, ARRAY_COUNT(helpers), "no helpers");
    json_decref(result);
    return EXIT_GOOD;
}

static int
run_sessions(const struct options *options)
{
    static const struct column columns[] = {
        { "ID", "id", COLUMN_EXACT },
        { "LCORE", "lcore", COLUMN_EXACT },
        { "PEER", "peer", COLUMN_TEXT },
        { "WIRE", "wire", COLUMN_TEXT },
        { "AGE", "age_s", COLUMN_SECONDS },
        { "IDLE", "idle_s", COLUMN_SECONDS },
        { "REQUESTS", "requests", COLUMN_COUNT },
        { "COMMAND", "last_command", COLUMN_TEXT },
        { "SUBS", "subscriptions", COLUMN_EXACT },
        { "PENDING", "pending_bytes", COLUMN_BYTES },
        { "USER", "user", COLUMN_TEXT },
        { "NAME", "name", COLUMN_TEXT },
        { "LOCAL", "local", COLUMN_TEXT },
        { "LIBRARY", "library", COLUMN_TEXT },
    };
    json_t *args = options->limit == UINT64_MAX ? NULL : json_pack("{s:I}", "limit", (json_int_t)options->limit);
    json_t *result = call(options, "sessions", args);

    if (options->json) {
        return print_json(result);
    }
    table_print(json_object_get(result, "rows"), columns, options->full ? ARRAY_COUNT(columns) : 8, "no sessions");
    if (json_is_true(json_object_get(result, "cut"))) {
        printf("... of %.0f sessions; --limit N shows up to %d\n", get_number(result, "total"), CTL_SESSIONS_MOST);
    }
    json_decref(result);
    return EXIT_GOOD;
}

static int
run_sessions_kill(const struct options *options)
{
    uint64_t id;

    if (options->word == NULL || unit_parse_count(options->word, &id) != UNIT_OK || id > INT64_MAX) {
        fail(EXIT_USAGE, "expected the id of a session, as sluicectl sessions shows it");
    }
    json_t *result = call(options, "sessions kill", json_pack("{s:I}", "id", (json_int_t)id));

    if (options->json) {
        return print_json(result);
    }
    printf("session %llu is ended\n", (unsigned long long)id);
    json_decref(result);
    return EXIT_GOOD;
}

static int
run_log(const struct options *options)
{
    json_t *args = options->limit == UINT64_MAX ? NULL : json_pack("{s:I}", "limit", (json_int_t)options->limit);
    json_t *result = call(options, "log", args), *row;
    size_t at;

    if (options->json) {
        return print_json(result);
    }
    json_array_foreach(json_object_get(result, "records"), at, row)
    {
        double ms = get_number(row, "unix_ms");
        time_t seconds = (time_t)(ms / 1000);
        struct tm parts;
        char clock[32];
        localtime_r(&seconds, &parts);
        strftime(clock, sizeof(clock), "%Y-%m-%d %H:%M:%S", &parts);
        printf("%s.%03d %-7s %s\n", clock, (int)(ms - (double)seconds * 1000), get_text(row, "level"),
               get_text(row, "text"));
    }
    json_decref(result);
    return EXIT_GOOD;
}

static int
run_memory(const struct options *options)
{
    static const struct {
        const char *key;
        enum column_kind kind;
        const char *help;
    } rows[] = {
        { "record_bytes", COLUMN_BYTES, "keys and values" },
        { "index_bytes", COLUMN_BYTES, "the index" },
        { "limbo_bytes", COLUMN_BYTES, "removed, until every lcore has turned" },
        { "session_bytes", COLUMN_BYTES, "buffers of sessions, channels" },
        { "slack_bytes", COLUMN_BYTES, "free blocks inside pages in use" },
        { "free_page_bytes", COLUMN_BYTES, "pages at hand, not in use" },
        { "overhead_bytes", COLUMN_BYTES, "what members and pages need for themselves" },
        { "total_bytes", COLUMN_BYTES, "all of these: what the limit bounds" },
        { "limit_bytes", COLUMN_BYTES, "cap, memory.limit" },
        { "kept_bytes", COLUMN_BYTES, "of it, for commands that shrink" },
        { "reserve_bytes", COLUMN_BYTES, "address range, memory.reserve" },
        { "huge_page_bytes", COLUMN_BYTES, "in huge pages" },
        { "output_bytes", COLUMN_BYTES, "replies not yet read" },
        { "fragmentation", COLUMN_TEXT, "pages in use over what is used of them" },
        { "keys", COLUMN_EXACT, "keys that exist" },
        { "policy", COLUMN_TEXT, "which keys go when memory is short, memory.policy" },
        { "evicted_keys", COLUMN_EXACT, "keys that went so" },
        { "moved_records", COLUMN_EXACT, "records moved out of sparse pages" },
        { "emptied_pages", COLUMN_EXACT, "pages that came back so" },
        { "page_misses", COLUMN_EXACT, "times no populated page was at hand" },
        { "stalled_member", COLUMN_TEXT, "who keeps removed memory from being freed" },
    };
    json_t *result = call(options, "memory", NULL);
    char cell[CELL_BYTES];

    if (options->json) {
        return print_json(result);
    }
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const json_t *value = json_object_get(result, rows[i].key);
        snprintf(cell, sizeof(cell), "-");
        if (json_is_real(value)) {
            snprintf(cell, sizeof(cell), "%.2f", json_real_value(value));
        } else if (!json_is_null(value)) {
            cell_print(value, rows[i].kind, cell);
        }
        printf("%-16s %12s  %s\n", rows[i].key, cell, rows[i].help);
    }
    json_decref(result);
    return EXIT_GOOD;
}

static int
run_metrics(const struct options *options)
{
    json_t *result = call(options, "metrics", NULL);

    if (options->json) {
        return print_json(result);
    }
    fputs(get_text(result, "page"), stdout);
    json_decref(result);
    return EXIT_GOOD;
}

static int
run_doctor(const struct options *options)
{
    json_t *result = call(options, "doctor", NULL), *finding;
    bool good = strcmp(get_text(result, "worst"), "good") == 0;
    size_t row;

    if (options->json) {
        print_json(result);
        return good ? EXIT_GOOD : EXIT_BAD;
    }
    json_array_foreach(json_object_get(result, "findings"), row, finding)
    {
        fputs(get_text(finding, "text"), stdout);
    }
    json_decref(result);
    return good ? EXIT_GOOD : EXIT_BAD;
}

static int
run_version(const struct options *options)
{
    json_t *result = call(options, "version", NULL);

    if (options->json) {
        json_object_set_new(result, "sluicectl", json_string(SLUICE_VERSION));
        return print_json(result);
    }
    printf("sluicectl %s\nsluiced %s\n", SLUICE_VERSION, get_text(result, "version"));
    json_decref(result);
    return EXIT_GOOD;
}

/* With --wait: until the last session has left, at most the timeout. */
static int
run_drain(const struct options *options)
{
    struct timespec until, pause = { .tv_nsec = 50000000 };
    json_t *result = call(options, "drain", NULL);
    double left = get_number(result, "sessions");

    clock_gettime(CLOCK_MONOTONIC, &until);
    timespec_add(&until, options->timeout_s);
    while (options->wait && left > 0) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec > until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec)) {
            break;
        }
        nanosleep(&pause, NULL);
        json_decref(result);
        result = call(options, "drain", NULL);
        left = get_number(result, "sessions");
    }
    if (options->json) {
        print_json(result);
    } else {
        printf("%s, %.0f sessions are left\n", get_text(result, "state"), left);
        json_decref(result);
    }
    return options->wait && left > 0 ? EXIT_BAD : EXIT_GOOD;
}

static int
run_shutdown(const struct options *options)
{
    json_t *result = call(options, "shutdown", NULL);
    double most_s = get_number(result, "drain_ms") / 1000 + 1 + options->timeout_s;

    if (options->json) {
        print_json(result);
    } else {
        json_decref(result);
    }
    if (options->no_wait) {
        return EXIT_GOOD;
    }
    if (!call_wait_for_end(most_s)) {
        fail(EXIT_BAD, "the appliance has not ended in time");
    }
    if (!options->json) {
        puts("stopped");
    }
    return EXIT_GOOD;
}

/* ---- the command line ---- */

static const struct command {
    const char *name;
    int (*run)(const struct options *options);
    uint32_t takes;
    const char *arguments, *help;
} commands[] = {
    { "status", run_status, 0, "", "where to connect, state, load and memory" },
    { "ready", run_ready, 0, "", "exit code 0 when requests are served, else 1" },
    { "alive", run_alive, 0, "", "exit code 0 when the management core answers" },
    { "stats", run_stats, TAKES_ALL | TAKES_FULL | TAKES_WORD, "[WORD] [-a] [-l]", "counters that moved" },
    { "latency", latency_run, TAKES_LATENCY | TAKES_FULL | TAKES_WATCH | TAKES_WORD, "[COMMAND] [options below]",
      "latency histograms" },
    { "top", top_run, TAKES_WATCH, "[--watch=SECONDS]", "load, head-room, hottest commands, slowest clients" },
    { "lcores", run_lcores, 0, "", "CPU, thread and load of every lcore" },
    { "ports", ports_run, TAKES_FULL, "[-l]", "ports of every lcore" },
    { "capture", capture_run, TAKES_CAPTURE | TAKES_SECONDS | TAKES_WORD | TAKES_VALUE, "PORT FILE [options below]",
      "copy packets of an ethernet port into a pcap file" },
    { "sessions", run_sessions, TAKES_FULL | TAKES_LIMIT, "[-l] [--limit N]", "who is connected" },
    { "sessions kill", run_sessions_kill, TAKES_WORD, "ID", "end a session" },
    { "slowlog", slowlog_run, TAKES_LIMIT | TAKES_FULL, "[-l] [--limit N]",
      "requests that took long, waiting included" },
    { "keys hot", keys_hot_run, TAKES_LIMIT | TAKES_SECONDS, "[--seconds N] [--limit N]", "the keys asked for most" },
    { "keys big", keys_big_run, TAKES_LIMIT, "[--limit N]", "the largest keys of each type" },
    { "log", run_log, TAKES_LIMIT, "[--limit N]", "the last records of the log" },
    { "memory", run_memory, 0, "", "where memory went" },
    { "config show", config_show_run, TAKES_FULL, "[-l]", "settings and where they come from" },
    { "config get", config_get_run, TAKES_WORD, "NAME", "one setting's value" },
    { "config set", config_set_run, TAKES_WORD | TAKES_VALUE | TAKES_SAVE, "NAME VALUE [--save]",
      "change a live setting; --save: in the file too" },
    { "config reload", config_reload_run, 0, "", "read the settings file again, as SIGHUP does" },
    { "config check", config_check_run, TAKES_WORD, "[FILE]", "say what is wrong in a settings file" },
    { "metrics", run_metrics, 0, "", "every number as an OpenMetrics page" },
    { "doctor", run_doctor, 0, "", "what of the host should change; exit code 1 when anything should" },
    { "drain", run_drain, TAKES_WAIT, "[--wait]", "take no new sessions; --wait: until the last has left" },
    { "shutdown", run_shutdown, TAKES_NO_WAIT, "[--no-wait]", "drain, end, and wait for the end" },
    { "version", run_version, 0, "", "versions of both sides" },
};

static void
print_usage(void)
{
    puts("usage: sluicectl [-S SOCKET] [-t SECONDS] [-j] COMMAND [ARGUMENT]\n");
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
        char left[64];
        snprintf(left, sizeof(left), "%s %s", commands[i].name, commands[i].arguments);
        printf("  %-34s %s\n", left, commands[i].help);
    }
    puts("\n"
         "  -S, --socket PATH      management socket (else $SLUICE_CTL, else the default one)\n"
         "  -t, --timeout SECONDS  longest wait for an answer (5)\n"
         "  -j, --json             the answer as one line of JSON; errors too, on stderr, with a member \"error\"\n"
         "  -a, --all              with what is 0\n"
         "  -l, --long             with more columns\n"
         "      --version, --help\n"
         "\n"
         "latency:\n"
         "      --kind KIND        service (decoded to encoded), residence (polled to flushed),\n"
         "                         loop (a busy turn) or burst (requests of a burst)\n"
         "      --lcore N          of one lcore; else all together\n"
         "      --hist             bars\n"
         "      --percentiles      of all or of COMMAND, in the text form of HdrHistogram\n"
         "      --watch[=SECONDS]  again and again, what was counted in the last seconds (1); keys change the view\n"
         "      --save=FILE        keep what was counted until now\n"
         "      --diff OLD[,NEW]   what was counted between two saved files, or since one\n"
         "\n"
         "capture:\n"
         "      --seconds N        how long at most (10)\n"
         "      --packets N        how many at most (1000000)\n"
         "      --snap N           bytes of each (256)\n"
         "\n"
         "Exit codes: 0 good, 1 error or not ready, 2 wrong usage, 3 cannot connect.");
}

static _Noreturn void
usage_error(const char *what, const char *value)
{
    char quoted[QUOTE_BYTES];
    fail(EXIT_USAGE, "%s %s; try: sluicectl --help", what, quote_text(quoted, value));
}

static double
parse_seconds(const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end != '\0' || !(value >= 0.01 && value <= 86400)) {
        usage_error("expected seconds from 0.01 to 86400, not", text);
    }
    return value;
}

static uint64_t
parse_number(const char *text)
{
    uint64_t value;

    if (unit_parse_count(text, &value) != UNIT_OK || value > INT32_MAX) {
        usage_error("expected a whole number, not", text);
    }
    return value;
}

enum {
    OPTION_KIND = 256,
    OPTION_LCORE,
    OPTION_HIST,
    OPTION_PERCENTILES,
    OPTION_WATCH,
    OPTION_SAVE,
    OPTION_DIFF,
    OPTION_LIMIT,
    OPTION_NO_WAIT,
    OPTION_WAIT,
    OPTION_SECONDS,
    OPTION_PACKETS,
    OPTION_SNAP,
    OPTION_VERSION
};

/* Take one option; returns the flag that a command must have for it. */
static uint32_t
take_option(struct options *options, int option)
{
    switch (option) {
    case 'S':
        options->socket = optarg;
        return 0;
    case 't':
        options->timeout_s = parse_seconds(optarg);
        return 0;
    case 'j':
        options->json = true;
        return 0;
    case 'a':
        options->all = true;
        return TAKES_ALL;
    case 'l':
        options->full = true;
        return TAKES_FULL;
    case OPTION_KIND:
        options->kind = optarg;
        return TAKES_LATENCY;
    case OPTION_LCORE:
        options->lcore = parse_number(optarg);
        return TAKES_LATENCY;
    case OPTION_HIST:
        options->hist = true;
        return TAKES_LATENCY;
    case OPTION_PERCENTILES:
        options->percentiles = true;
        return TAKES_LATENCY;
    case OPTION_WATCH:
        options->watch = true;
        options->watch_s = optarg == NULL ? 1 : parse_seconds(optarg);
        return TAKES_WATCH;
    case OPTION_SAVE:
        options->save = optarg == NULL ? "" : optarg;
        return optarg == NULL ? TAKES_SAVE : TAKES_LATENCY;
    case OPTION_DIFF:
        options->diff = optarg;
        return TAKES_LATENCY;
    case OPTION_LIMIT:
        options->limit = parse_number(optarg);
        return TAKES_LIMIT;
    case OPTION_NO_WAIT:
        options->no_wait = true;
        return TAKES_NO_WAIT;
    case OPTION_SECONDS:
        options->seconds = parse_number(optarg);
        return TAKES_SECONDS;
    case OPTION_PACKETS:
        options->packets = parse_number(optarg);
        return TAKES_CAPTURE;
    case OPTION_SNAP:
        options->snap = parse_number(optarg);
        return TAKES_CAPTURE;
    case OPTION_WAIT:
        options->wait = true;
        return TAKES_WAIT;
    case OPTION_VERSION:
        puts("sluicectl " SLUICE_VERSION);
        exit(EXIT_GOOD);
    case 'h':
        print_usage();
        exit(EXIT_GOOD);
    default:
        fail(EXIT_USAGE, "wrong option or no value for it; try: sluicectl --help");
    }
}

#define OPTIONS "S:t:jalh"
static uint32_t
read_options(struct options *options, int argc, char **argv)
{
    static const struct option longs[] = {
        { "socket", required_argument, NULL, 'S' },
        { "timeout", required_argument, NULL, 't' },
        { "json", no_argument, NULL, 'j' },
        { "all", no_argument, NULL, 'a' },
        { "long", no_argument, NULL, 'l' },
        { "kind", required_argument, NULL, OPTION_KIND },
        { "lcore", required_argument, NULL, OPTION_LCORE },
        { "hist", no_argument, NULL, OPTION_HIST },
        { "percentiles", no_argument, NULL, OPTION_PERCENTILES },
        { "watch", optional_argument, NULL, OPTION_WATCH },
        { "save", optional_argument, NULL, OPTION_SAVE },
        { "diff", required_argument, NULL, OPTION_DIFF },
        { "limit", required_argument, NULL, OPTION_LIMIT },
        { "no-wait", no_argument, NULL, OPTION_NO_WAIT },
        { "wait", no_argument, NULL, OPTION_WAIT },
        { "seconds", required_argument, NULL, OPTION_SECONDS },
        { "packets", required_argument, NULL, OPTION_PACKETS },
        { "snap", required_argument, NULL, OPTION_SNAP },
        { "version", no_argument, NULL, OPTION_VERSION },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    uint32_t needs = 0;
    int option;

    /* How an error is said depends on -j, which may come behind what is wrong. */
    opterr = 0;
    while ((option = getopt_long(argc, argv, OPTIONS, longs, NULL)) != -1) {
        if (option == 'j') {
            fail_in_json();
            options->json = true;
        }
    }
    opterr = !options->json;
    optind = 0;
    while ((option = getopt_long(argc, argv, OPTIONS, longs, NULL)) != -1) {
        needs |= take_option(options, option);
    }
    return needs;
}

/* The command that the words from `at` on begin with; *used words of it. */
static const struct command *
find_command(char **words, int count, int *used)
{
    const char *names[ARRAY_COUNT(commands)];
    char two[128];

    snprintf(two, sizeof(two), "%s %s", words[0], count > 1 ? words[1] : "");
    const struct command *found = NULL;
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
        bool pair = strchr(commands[i].name, ' ') != NULL;
        names[i] = commands[i].name;
        if (strcmp(commands[i].name, pair ? two : words[0]) == 0 && (found == NULL || pair)) {
            found = &commands[i];
            *used = pair ? 2 : 1;
        }
    }
    if (found != NULL) {
        return found;
    }
    const char *near = nearest_name(words[0], names, ARRAY_COUNT(commands));
    if (near == NULL && strcmp(words[0], "config") == 0) {
        near = "config show";
    }
    if (near != NULL) {
        char quoted[QUOTE_BYTES];
        fail(EXIT_USAGE, "unknown command %s, did you mean \"%s\"?", quote_text(quoted, words[0]), near);
    }
    usage_error("unknown command", words[0]);
}

int
main(int argc, char **argv)
{
    struct options options = { .timeout_s = 5,
                               .lcore = UINT64_MAX,
                               .limit = UINT64_MAX,
                               .seconds = UINT64_MAX,
                               .packets = UINT64_MAX,
                               .snap = UINT64_MAX };
    uint32_t needs = read_options(&options, argc, argv);
    int used;

    if (optind == argc) {
        if (options.json) {
            fail(EXIT_USAGE, "no command; try: sluicectl --help");
        }
        print_usage();
        return EXIT_USAGE;
    }
    const struct command *command = find_command(argv + optind, argc - optind, &used);
    int rest = optind + used;
    if (needs & ~command->takes) {
        usage_error("an option does not belong to", command->name);
    }
    if (rest < argc && (command->takes & TAKES_WORD)) {
        options.word = argv[rest++];
    }
    if (rest < argc && (command->takes & TAKES_VALUE)) {
        options.value = argv[rest++];
    }
    if (rest < argc) {
        usage_error("unexpected argument", argv[rest]);
    }
    int status = command->run(&options);
    if (fflush(stdout) != 0) {
        fail(EXIT_BAD, "cannot write the output");
    }
    return status;
}
