/* sluicectl_show.c - what an appliance says of itself in one answer, and its end. */
#include "config/units.h"
#include "mgmt/ctl_wire.h"
#include "tools/sluicectl.h"
#include <unistd.h>

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

/* Words behind an indent, in lines of at most 80 columns where words allow it. */
static void
print_wrapped(int indent, const char *text)
{
    int column = 0;

    while (*text != '\0') {
        int bytes = (int)strcspn(text, " ");
        bool fits = column > 0 && column + 1 + bytes <= 80;
        printf("%s%*s%.*s", column > 0 && !fits ? "\n" : "", fits ? 1 : indent, "", bytes, text);
        column = (fits ? column + 1 : indent) + bytes;
        text += bytes;
        text += strspn(text, " ");
    }
    putchar('\n');
}

/* What threads of each kind may still do. */
static void
print_sandbox(const json_t *result)
{
    const json_t *rows = json_object_get(result, "sandbox_threads");
    double landlock = get_number(result, "landlock");

    printf("%-12s %s", "sandbox", get_text(result, "sandbox"));
    landlock > 0 ? printf(", Landlock version %.0f\n", landlock) : putchar('\n');
    for (size_t i = 0; strncmp(get_text(result, "sandbox"), "on", 2) == 0 && i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        bool all = json_is_true(json_object_get(row, "seccomp")) && json_is_true(json_object_get(row, "no_new_privs"));
        printf("%-12s %s: threads %.0f%s, system calls %.0f, capabilities %s\n", "", get_text(row, "kind"),
               get_number(row, "threads"), all ? "" : " (NOT all restricted)", get_number(row, "calls"),
               get_text(row, "capabilities"));
        if (landlock > 0 && strcmp(get_text(row, "files"), "none") != 0) {
            print_wrapped(15, get_text(row, "files"));
        }
    }
}

int
status_run(const struct options *options)
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
    printf("%-12s %.0f on CPU %s, %.2f of them busy, clock %s\n", "lcores", get_number(result, "lcores"),
           get_text(result, "cpus"), get_number(result, "busy_lcores"), get_text(result, "clock"));
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
    print_sandbox(result);
    json_decref(result);
    return EXIT_GOOD;
}

int
ready_run(const struct options *options)
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

int
alive_run(const struct options *options)
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

int
stats_run(const struct options *options)
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

int
lcores_run(const struct options *options)
{
    static const struct column columns[] = {
        { "LCORE", "lcore", COLUMN_EXACT },       { "CPU", "cpu", COLUMN_EXACT },
        { "NODE", "cpu_node", COLUMN_EXACT },     { "TID", "tid", COLUMN_EXACT },
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
    print_warnings(result);
    json_decref(result);
    return EXIT_GOOD;
}

int
sessions_run(const struct options *options)
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
        { "IN", "rx_bytes", COLUMN_BYTES },
        { "OUT", "tx_bytes", COLUMN_BYTES },
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

int
sessions_kill_run(const struct options *options)
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

int
log_run(const struct options *options)
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

int
memory_run(const struct options *options)
{
    static const struct {
        const char *key;
        enum column_kind kind;
        const char *help;
    } rows[] = {
        { "record_bytes", COLUMN_BYTES, "keys and values" },
        { "ghost_bytes", COLUMN_BYTES, "names of keys removed lately" },
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
        { "larger_takes", COLUMN_EXACT, "blocks lent for less than they hold, when full" },
        { "larger_blocks", COLUMN_EXACT, "those that are in use" },
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

int
metrics_run(const struct options *options)
{
    json_t *result = call(options, "metrics", NULL);

    if (options->json) {
        return print_json(result);
    }
    fputs(get_text(result, "page"), stdout);
    json_decref(result);
    return EXIT_GOOD;
}

int
doctor_run(const struct options *options)
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

int
version_run(const struct options *options)
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
int
drain_run(const struct options *options)
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

int
shutdown_run(const struct options *options)
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
