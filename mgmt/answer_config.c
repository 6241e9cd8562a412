/* answer_config.c - CONFIG: our settings by their own names, and the names that stock Redis clients ask for. */
#include "dataplane/glob.h"
#include "mgmt/live.h"
#include "mgmt/mgmt.h"
#include <strings.h>

#define VALUE_BYTES (SETTING_PRINT_BYTES + 64)

/* Redis' names: a setting of ours whose value they show, or a fixed answer. */
static const struct redis_name {
    const char *name;
    enum setting_id setting; /* SETTINGS_COUNT: `fixed` */
    const char *fixed;
} redis_names[] = {
    { "appendfsync", SETTINGS_COUNT, "no" },
    { "appendonly", SETTINGS_COUNT, "no" },
    { "bind", SETTING_ID_streams_address, NULL },
    { "cluster-enabled", SETTINGS_COUNT, "no" },
    { "daemonize", SETTINGS_COUNT, "no" },
    { "databases", SETTINGS_COUNT, "1" },
    { "dbfilename", SETTINGS_COUNT, "" },
    { "loglevel", SETTING_ID_log_level, NULL },
    { "maxclients", SETTING_ID_limits_clients, NULL },
    { "maxmemory", SETTING_ID_memory_limit, NULL },
    { "maxmemory-policy", SETTING_ID_memory_policy, NULL },
    { "notify-keyspace-events", SETTINGS_COUNT, "" },
    { "port", SETTING_ID_streams_port, NULL },
    { "proto-max-bulk-len", SETTINGS_COUNT, NULL },
    { "save", SETTINGS_COUNT, "" },
    { "tcp-keepalive", SETTINGS_COUNT, "300" },
    { "timeout", SETTING_ID_limits_idle, NULL },
    { "unixsocket", SETTING_ID_streams_unix, NULL },
};

/* Redis writes sizes in bytes, times in seconds and addresses with blanks between. */
static const char *
redis_value(const struct mgmt *mgmt, const struct redis_name *row, char out[VALUE_BYTES])
{
    const struct settings *settings = mgmt->settings;

    if (row->fixed != NULL) {
        return row->fixed;
    }
    if (row->setting == SETTINGS_COUNT) { /* proto-max-bulk-len */
        snprintf(out, VALUE_BYTES, "%llu", (unsigned long long)LIMIT_VALUE_BYTES);
        return out;
    }
    const struct setting *setting = &settings_table[row->setting];
    uint64_t number = 0;
    if (setting->kind < SETTING_BOOL) {
        memcpy(&number, (const char *)settings + setting->offset, sizeof(number));
    }
    switch (row->setting) {
    case SETTING_ID_streams_port:
        snprintf(out, VALUE_BYTES, "%u", mgmt->streams.port);
        break;
    case SETTING_ID_streams_unix:
        return mgmt->unix_path;
    case SETTING_ID_streams_address:
        setting_print(settings, setting, out);
        for (char *at = out; *at != '\0'; at++) {
            *at = *at == ',' ? ' ' : *at;
        }
        break;
    case SETTING_ID_memory_policy:
        return settings->memory_policy;
    case SETTING_ID_log_level:
        return strcmp(settings->log_level, "info") == 0 ? "notice" : settings->log_level;
    default:
        snprintf(out, VALUE_BYTES, "%llu",
                 (unsigned long long)(setting->kind == SETTING_TIME ? (number + 999) / 1000 : number));
        break;
    }
    return out;
}

/* ---- GET ---- */

static bool
is_asked(const struct later *later, const char *name)
{
    for (uint32_t i = 1; i < later->args_count; i++) {
        if (glob_match_nocase(later->args[i], slice_text(name))) {
            return true;
        }
    }
    return false;
}

/* Passwords are no answer, not even as digests. */
static bool
is_public(const struct setting *setting)
{
    return setting != &settings_table[SETTING_ID_auth_password];
}

static void
config_get(struct mgmt *mgmt, struct later *later)
{
    struct reply *reply = answer_begin(mgmt, later);
    char value[VALUE_BYTES];
    uint32_t pairs = 0;

    for (size_t i = 0; i < ARRAY_COUNT(redis_names); i++) {
        pairs += is_asked(later, redis_names[i].name);
    }
    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        pairs += is_public(&settings_table[i]) && is_asked(later, settings_table[i].name);
    }
    reply_map(reply, pairs);
    for (size_t i = 0; i < ARRAY_COUNT(redis_names); i++) {
        if (is_asked(later, redis_names[i].name)) {
            reply_bulk_text(reply, redis_names[i].name);
            reply_bulk_text(reply, redis_value(mgmt, &redis_names[i], value));
        }
    }
    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        if (is_public(&settings_table[i]) && is_asked(later, settings_table[i].name)) {
            reply_bulk_text(reply, settings_table[i].name);
            reply_bulk_text(reply, setting_print(mgmt->settings, &settings_table[i], value));
        }
    }
    answer_end(mgmt, later);
}

/* ---- SET ---- */

/* The setting that a name of either kind means; *known tells whether the name exists at all. */
static const struct setting *
find_setting(struct slice name, bool *known)
{
    *known = true;
    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        if (slice_equal_nocase(name, settings_table[i].name)) {
            return &settings_table[i];
        }
    }
    for (size_t i = 0; i < ARRAY_COUNT(redis_names); i++) {
        if (slice_equal_nocase(name, redis_names[i].name)) {
            return redis_names[i].setting == SETTINGS_COUNT ? NULL : &settings_table[redis_names[i].setting];
        }
    }
    *known = false;
    return NULL;
}

/* Redis' sizes: 64k is 64000, 64kb is 65536; nothing at all is 0. In bytes, for our own parser; what is no such size
 * stays as it is and is refused there, with the words for it. */
static void
size_in_our_words(char text[SETTING_TEXT_BYTES])
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = { { "", 1 },
                  { "b", 1 },
                  { "k", 1000 },
                  { "kb", KIB },
                  { "m", 1000 * 1000 },
                  { "mb", MIB },
                  { "g", 1000 * 1000 * 1000 },
                  { "gb", GIB } };
    size_t digits = strspn(text, "0123456789");
    uint64_t number = 0;

    for (size_t i = 0; i < digits; i++) {
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(text[i] - '0'), &number)) {
            return;
        }
    }
    for (size_t i = 0; i < ARRAY_COUNT(units) && (digits != 0 || text[0] == '\0'); i++) {
        if (strcasecmp(text + digits, units[i].name) == 0) {
            if (number == 0) {
                strcpy(text, "auto");
            } else if (!__builtin_mul_overflow(number, units[i].bytes, &number)) {
                snprintf(text, SETTING_TEXT_BYTES, "%llu", (unsigned long long)number);
            }
            return;
        }
    }
}

/* What a Redis client writes, in our words: times are in seconds, a level may be "notice". */
static void
value_in_our_words(const struct setting *setting, struct slice value, char out[SETTING_TEXT_BYTES])
{
    size_t bytes = MIN(value.bytes, (size_t)SETTING_TEXT_BYTES - 1);

    memcpy(out, value.data, bytes);
    out[bytes] = '\0';
    bool is_level = setting == &settings_table[SETTING_ID_log_level];
    if (is_level && (strcasecmp(out, "notice") == 0 || strcasecmp(out, "verbose") == 0)) {
        strcpy(out, "info");
    }
    size_t digits = strspn(out, "0123456789");
    if (setting->kind == SETTING_TIME && digits > 0 && out[digits] == '\0' && digits + 1 < SETTING_TEXT_BYTES) {
        strcpy(out + digits, "s");
    }
    if (setting == &settings_table[SETTING_ID_memory_limit]) {
        size_in_our_words(out);
    }
}

#define CHANGES_MOST 16 /* pairs of one CONFIG SET; there are fewer live settings */

/* All pairs are checked before the first takes effect. */
static void
config_set(struct mgmt *mgmt, struct later *later)
{
    struct live_change changes[CHANGES_MOST];
    char name[ANSWER_WORD_BYTES], by[64], why[SETTINGS_WHY_BYTES];
    size_t count = 0, wrong = 0;

    for (uint32_t i = 1; i < later->args_count; i += 2) {
        bool known;
        const struct setting *setting = find_setting(later->args[i], &known);
        answer_word(later->args[i], name);
        if (!known || count == CHANGES_MOST) {
            answer_error(mgmt, later, "ERR Unknown option or number of arguments for CONFIG SET - '%s'", name);
            return;
        }
        if (setting == NULL || !setting->live) {
            answer_error(mgmt, later,
                         "ERR CONFIG SET failed (possibly related to argument '%s') - it cannot change while the "
                         "appliance runs",
                         name);
            return;
        }
        for (size_t earlier = 0; earlier < count; earlier++) {
            if (changes[earlier].setting == setting) {
                answer_error(mgmt, later,
                             "ERR CONFIG SET failed (possibly related to argument '%s') - duplicate parameter", name);
                return;
            }
        }
        changes[count].setting = setting;
        value_in_our_words(setting, later->args[i + 1], changes[count].value);
        count++;
    }
    snprintf(by, sizeof(by), "CONFIG SET of client %llu", (unsigned long long)later->session_id);
    if (!live_set(mgmt, changes, count, by, &wrong, why, sizeof(why))) {
        answer_error(mgmt, later, "ERR CONFIG SET failed (possibly related to argument '%s') - %s",
                     answer_word(later->args[1 + 2 * wrong], name), why);
        return;
    }
    reply_ok(answer_begin(mgmt, later));
    answer_end(mgmt, later);
}

/* ---- the command ---- */

static void
config_resetstat(struct mgmt *mgmt, struct later *later)
{
    answer_error(mgmt, later, "ERR CONFIG RESETSTAT is not supported: counters only grow, readers take differences");
}

static void
config_rewrite(struct mgmt *mgmt, struct later *later)
{
    answer_error(mgmt, later, "ERR CONFIG REWRITE is not supported: the configuration file is written by people");
}

static void
config_help(struct mgmt *mgmt, struct later *later)
{
    static const char *const lines[] = {
        "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GET <pattern> [<pattern> ...]",
        "    Settings whose names match, Redis' names among them.",
        "SET <name> <value> [<name> <value> ...]",
        "    Live ones change while it runs: loglevel, maxclients, maxmemory, maxmemory-policy, timeout among them.",
        "HELP",
        "    Print this help.",
    };
    struct reply *reply = answer_begin(mgmt, later);

    reply_array(reply, ARRAY_COUNT(lines));
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        reply_status(reply, lines[i]);
    }
    answer_end(mgmt, later);
}

static const struct {
    const char *name;
    uint32_t args_min, args_step; /* behind the name; step 2: pairs; 0: exactly args_min */
    void (*run)(struct mgmt *mgmt, struct later *later);
} subcommands[] = {
    { "get", 1, 1, config_get },         { "set", 2, 2, config_set },   { "resetstat", 0, 0, config_resetstat },
    { "rewrite", 0, 0, config_rewrite }, { "help", 0, 0, config_help },
};

void
answer_config(struct mgmt *mgmt, struct later *later)
{
    char word[ANSWER_WORD_BYTES];

    for (size_t i = 0; i < ARRAY_COUNT(subcommands); i++) {
        if (!answer_argument_is(later, 0, subcommands[i].name)) {
            continue;
        }
        uint32_t args = later->args_count - 1, least = subcommands[i].args_min, step = subcommands[i].args_step;
        if (args < least || (step == 0 ? args != least : (args - least) % step != 0)) {
            bool pairs = args > least && step == 2; /* Redis' two answers */
            answer_error(mgmt, later,
                         pairs ? "ERR syntax error" : "ERR wrong number of arguments for 'config|%s' command",
                         subcommands[i].name);
        } else {
            subcommands[i].run(mgmt, later);
        }
        return;
    }
    answer_error(mgmt, later, "ERR unknown subcommand '%s'. Try CONFIG HELP.",
                 later->args_count > 0 ? answer_word(later->args[0], word) : "");
}
