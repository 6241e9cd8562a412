#include "config/settings.h"
#include <CUnit/Basic.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

static char dir[] = "/tmp/sluice-test-settings-XXXXXX";
static char why[SETTINGS_WHY_BYTES];
static struct settings settings; /* 70 KiB */
static char path[PATH_MAX];

/* Write a file of the given name in the test's directory; `path` is it. */
static const char *
file_write(const char *name, const char *bytes, size_t count)
{
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL(fwrite(bytes, 1, count, file), count);
    fclose(file);
    return path;
}

static int
parse_file(const char *text)
{
    memset(why, 0, sizeof(why));
    return settings_parse(file_write("sluice.conf", text, strlen(text)), NULL, 0, &settings, why, sizeof(why));
}

static int
parse_set(const char *override)
{
    memset(why, 0, sizeof(why));
    return settings_parse(NULL, &override, 1, &settings, why, sizeof(why));
}

/* Print what was expected and what came, because a bare "contains" failure says nothing. */
static bool
why_has(const char *part)
{
    if (strstr(why, part) == NULL) {
        printf("\n    expected \"%s\"\n    in       \"%s\"\n", part, why);
        return false;
    }
    return true;
}

static struct host host = { .memory_bytes = 4 * GIB, .cpu_count = 4, .cpus = { 0, 1, 2, 3 } };

static int
resolve(void)
{
    return settings_resolve(&settings, &host, why, sizeof(why));
}

/* ---- one value ---- */

/* A number as its kind writes it, in the smallest unit so that every value can be said. */
static void
number_text(const struct setting *setting, uint64_t value, char out[64])
{
    snprintf(out, 64, "%llu%s", (unsigned long long)value,
             setting->kind == SETTING_TIME   ? "ms"
             : setting->kind == SETTING_SIZE ? "B"
                                             : "");
}

static bool
set_value(const struct setting *setting, const char *value, bool in_file)
{
    char text[512], bare[64];
    int group = (int)(strchr(setting->name, '.') - setting->name);

    if (!in_file) {
        snprintf(text, sizeof(text), "%s=%s", setting->name, value);
        return parse_set(text) == 0;
    }
    bool quoted = setting->kind == SETTING_SIZE || setting->kind == SETTING_TIME;
    snprintf(bare, sizeof(bare), "%s", value);
    snprintf(text, sizeof(text), "# a comment\n%.*s: {\n  %s = %s%s%s;\n};\n", group, setting->name,
             setting->name + group + 1, quoted ? "\"" : "", bare, quoted ? "\"" : "");
    return parse_file(text) == 0;
}

static void
every_number_holds_its_bounds_in_a_file_and_on_the_command_line(void)
{
    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        const struct setting *setting = &settings_table[i];
        if (setting->kind > SETTING_COUNT) {
            continue;
        }
        const struct {
            uint64_t value;
            bool good;
        } rows[] = {
            { setting->min - 1, false }, /* 2^64 - 1 where the smallest is 0 */
            { setting->min, true },
            { setting->max, true },
            { setting->max + 1, false },
            { INT32_MAX, INT32_MAX >= setting->min && INT32_MAX <= setting->max },
            { 1ull << 31, 1ull << 31 >= setting->min && 1ull << 31 <= setting->max },
            { 1ull << 32, 1ull << 32 >= setting->min && 1ull << 32 <= setting->max },
            { 137438953472ull, 137438953472ull >= setting->min && 137438953472ull <= setting->max },
            { INT64_MAX, false },
            { UINT64_MAX, false },
        };
        for (size_t row = 0; row < ARRAY_COUNT(rows); row++) {
            for (int in_file = 0; in_file < 2; in_file++) {
                char text[64];
                number_text(setting, rows[row].value, text);
                bool good = set_value(setting, text, in_file != 0);
                CU_ASSERT_EQUAL(good, rows[row].good);
                if (good && rows[row].good) {
                    CU_ASSERT_EQUAL(*(uint64_t *)((char *)&settings + setting->offset), rows[row].value);
                    CU_ASSERT_EQUAL(settings.origins[i], in_file ? SETTING_BY_FILE : SETTING_BY_OVERRIDE);
                } else if (!good) {
                    CU_ASSERT(why_has(in_file && rows[row].value <= INT64_MAX ? "sluice.conf:3: " : ""));
                    CU_ASSERT(why_has("expected"));
                }
            }
        }
    }
}

static void
every_number_refuses_what_is_no_number(void)
{
    static const char *const texts[] = {
        "",      " ",    "-1", "+5", "5 ", " 5", "1e3", "0x10", "010", "1.5", "5x", "nan", "18446744073709551616",
        "1,000", "1_000"
    };
    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        const struct setting *setting = &settings_table[i];
        for (size_t row = 0; row < ARRAY_COUNT(texts) && setting->kind <= SETTING_COUNT; row++) {
            for (int in_file = 0; in_file < 2; in_file++) {
                bool trimmed = in_file && setting->kind == SETTING_COUNT && strchr(texts[row], '5') != NULL &&
                               strchr(texts[row], ' ') != NULL; /* blanks around a bare number are layout */
                CU_ASSERT(trimmed || !set_value(setting, texts[row], in_file != 0));
            }
        }
    }
}

static void
every_bool_and_choice_takes_its_words_only(void)
{
    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        const struct setting *setting = &settings_table[i];
        if (setting->kind == SETTING_BOOL) {
            CU_ASSERT(set_value(setting, "true", true));
            CU_ASSERT(*(bool *)((char *)&settings + setting->offset));
            CU_ASSERT(set_value(setting, "false", false));
            CU_ASSERT_FALSE(*(bool *)((char *)&settings + setting->offset));
            CU_ASSERT_FALSE(set_value(setting, "yes", false));
            CU_ASSERT_FALSE(set_value(setting, "1", true));
            CU_ASSERT_FALSE(set_value(setting, "", false));
        }
        if (setting->kind == SETTING_CHOICE) {
            CU_ASSERT(setting->choice_count > 1);
            for (size_t word = 0; word < setting->choice_count; word++) {
                CU_ASSERT(set_value(setting, setting->choices[word], false));
                CU_ASSERT_STRING_EQUAL((char *)&settings + setting->offset, setting->choices[word]);
            }
            CU_ASSERT_FALSE(set_value(setting, "", false));
            CU_ASSERT_FALSE(set_value(setting, "SPIN", false));
        }
    }
    CU_ASSERT_EQUAL(parse_set("lcores.idle=adaptiv"), -1);
    CU_ASSERT(
        why_has("--set: lcores.idle: \"adaptiv\" is not known, expected one of \"spin\", \"yield\", \"adaptive\"; "
                "did you mean \"adaptive\"?"));
}

static void
every_text_fits_and_prints(void)
{
    char text[600];
    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        const struct setting *setting = &settings_table[i];
        if (setting->kind != SETTING_TEXT || strcmp(setting->name, "auth.password") == 0) {
            continue;
        }
        for (size_t bytes = SETTING_TEXT_BYTES - 2; bytes <= SETTING_TEXT_BYTES + 200;
             bytes += 1 + (bytes > 256) * 99) {
            memset(text, 'x', bytes);
            text[bytes] = '\0';
            CU_ASSERT_EQUAL(set_value(setting, text, false), bytes < SETTING_TEXT_BYTES);
        }
        CU_ASSERT_FALSE(set_value(setting, "a\nb", false));
        CU_ASSERT_FALSE(set_value(setting, "\033[2J", false));
        CU_ASSERT_PTR_NULL(strchr(why, '\033'));
    }
}

/* ---- files ---- */

static void
errors_name_file_line_expectation_and_the_nearest_name(void)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        { "memory: {\n  reserv = \"1GiB\";\n};\n",
          "sluice.conf:2: unknown setting \"memory.reserv\", did you mean \"memory.reserve\"?" },
        { "\n\nmemoy: { };\n", "sluice.conf:3: unknown group \"memoy\", did you mean \"memory\"?" },
        { "port = 1;\n", "sluice.conf:1: unknown setting \"port\", did you mean \"ports\"?" },
        { "streams: 6379;", "sluice.conf:1: streams: is a single value, expected a group" },
        { "streams: { port = \"6379\"; };",
          "sluice.conf:1: streams.port: is text in quotes, expected a whole number from 0 to 65535 without quotes" },
        { "streams: { port = 65536; };",
          "streams.port: \"65536\" is too large, expected a whole number from 0 to 65535" },
        { "streams: { port = -1; };", "streams.port: \"-1\" is not a whole decimal number" },
        { "shutdown: { drain = 5; };", "shutdown.drain: is a number, expected a time from \"0s\" to \"10m\"" },
        { "shutdown: { drain = \"5\"; };", "shutdown.drain: \"5\" has no unit, expected" },
        { "shutdown: { drain = \"\"; };", "shutdown.drain: \"\" is empty, expected" },
        { "memory: { reserve = \"1GB\"; };", "memory.reserve: \"1GB\" has an unknown unit, expected a size from "
                                             "\"64MiB\" to \"64TiB\" (B, KiB, MiB, GiB or TiB), or \"auto\"" },
        { "memory: { huge_pages = 1; };", "memory.huge_pages: is a number, expected true or false" },
        { "memory: { ahead = true; };", "memory.ahead: is true or false, expected a size" },
        { "log: { level = ( \"info\" ); };", "log.level: is a list, expected one of" },
        { "log: { level = { }; };", "log.level: is a group, expected one of" },
        { "log: { level = \"info\"; level = \"debug\"; };", "sluice.conf:1: duplicate setting name" },
        { "log: { level = \"info\" };\nlog: { };", "sluice.conf:2: duplicate setting name" },
        { "log: {\n level = \"info\"\n", "syntax error" },
        { "memory.limit = \"1GiB\";",
          "sluice.conf:1: \"memory.limit\" is the form of --set, expected a group: memory: { "
          "limit = ...; };" },
        { "streams: { port = 010; };", "sluice.conf:1: port: \"010\" begins with a zero" },
        { "streams: { port = 0x10; };", "\"0x10\" is not a whole decimal number" },
        { "streams: { port = 1e3; };", "\"1e3\" is not a whole decimal number" },
        { "streams: { port = 1.5; };", "\"1.5\" is not a whole decimal number" },
        { "streams: { port = 10x4; };", "\"10x4\" is not a whole decimal number" },
        { "streams: { port = 5KiB; };", "expected a whole decimal number, or text in double quotes" },
        { "streams: { port = -; };", "\"-\" is not a number" },
        { "streams: { port = L; };", "syntax error" },
        { "streams: { port = 18446744073709551616; };", "port: \"18446744073709551616\" does not fit 64 bits" },
        { "streams: { port = 9223372036854775808; };", "\"9223372036854775808\" does not fit 64 bits" },
        { "streams: { port = 99999999999999999999999999999999999999999; };", "does not fit 64 bits" },
        { "log: { level = \"inf\no\"; };", "sluice.conf:1: level: \"\"inf\" is not closed on its line" },
        { "log: { level = \"info", "is not closed on its line" },
        { "log: { level = \"in\\x00fo\"; };", "has a NUL" },
        { "\n/* never\nclosed", "sluice.conf:2: \"/*\" is not closed" },
        { "log: { level = 'info'; };", "\"'\" means nothing here" },
        { "((((((((((((", "is nested too deep" },
        { "@incl \"x\"", "\"@\" means nothing here" },
        { "@include x", "\"@include\" has no file" },
        { "@include \"no-such-file\"", "sluice.conf:1: " },
        { "@include \"\033[2J\"", "\"\\x1b[2J\" does not print, expected the name of a file" },
        { "}", "syntax error" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        CU_ASSERT_EQUAL(parse_file(rows[i].text), -1);
        CU_ASSERT(why_has(rows[i].why));
    }
}

static void
large_integers_are_read_as_written(void)
{
    static const struct {
        const char *text;
        uint64_t value;
    } rows[] = { { "137438953472", 137438953472ull }, { "137438953472L", 137438953472ull },
                 { "2147483648", 1ull << 31 },        { "2147483647", INT32_MAX },
                 { "4294967296", 1ull << 32 },        { "70368744177664", 1ull << 46 } };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char text[128];
        snprintf(text, sizeof(text), "memory: { reserve = %s; };", rows[i].text);
        CU_ASSERT_EQUAL(parse_file(text), 0);
        CU_ASSERT_EQUAL(settings.memory_reserve, rows[i].value);
    }
}

static void
comments_strings_and_layout_do_not_confuse_the_scan(void)
{
    CU_ASSERT_EQUAL(parse_file("// 010 0x10 \" @include \"x\"\n# \"\n/* 1e3\n \" */ streams : {\r\n"
                               "\tport=6380 ;# 7\n unix = \"/a#b//c/*d\\\"010\";}\n"),
                    0);
    CU_ASSERT_EQUAL(settings.streams_port, 6380);
    CU_ASSERT_STRING_EQUAL(settings.streams_unix, "/a#b//c/*d\"010");
    CU_ASSERT_EQUAL(parse_file(""), 0);
    CU_ASSERT_EQUAL(parse_file("\n\n# nothing"), 0);
    CU_ASSERT_EQUAL(settings.streams_port, 6379);
}

static void
includes_are_joined_and_errors_name_the_included_file(void)
{
    static const char part[] = "# one\nstreams: {\n  port = 7000;\n};\n";
    static const char bad[] = "log: {\n  lvel = \"info\";\n};\n";

    file_write("part.conf", part, sizeof(part) - 1);
    CU_ASSERT_EQUAL(parse_file("@include \"part.conf\"\nlog: { level = \"debug\"; };\n"), 0);
    CU_ASSERT_EQUAL(settings.streams_port, 7000);
    CU_ASSERT_STRING_EQUAL(settings.log_level, "debug");

    CU_ASSERT_EQUAL(parse_file("@include \"part.conf\"\n\nlog: { level = \"debg\"; };\n"), -1);
    CU_ASSERT(why_has("sluice.conf:3: log.level"));

    file_write("bad.conf", bad, sizeof(bad) - 1);
    CU_ASSERT_EQUAL(parse_file("@include \"part.conf\"\n@include \"bad.conf\"\n"), -1);
    CU_ASSERT(why_has("bad.conf:2: unknown setting \"log.lvel\", did you mean \"log.level\"?"));

    CU_ASSERT_EQUAL(parse_file("@include \"sluice.conf\"\n"), -1);
    CU_ASSERT(why_has("does it include itself?"));
}

static void
files_that_are_no_settings_are_refused(void)
{
    char *large = malloc(MIB + 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(large);
    memset(large, '#', MIB + 1);

    file_write("large", large, MIB + 1);
    CU_ASSERT_EQUAL(settings_parse(path, NULL, 0, &settings, why, sizeof(why)), -1);
    CU_ASSERT(why_has("longer than 1 MiB"));
    file_write("large", large, MIB);
    CU_ASSERT_EQUAL(settings_parse(path, NULL, 0, &settings, why, sizeof(why)), 0);
    free(large);

    file_write("nul", "log: { };\0 nonsense", 19);
    CU_ASSERT_EQUAL(settings_parse(path, NULL, 0, &settings, why, sizeof(why)), -1);
    CU_ASSERT(why_has("NUL byte"));
    CU_ASSERT_EQUAL(settings_parse("/dev/zero", NULL, 0, &settings, why, sizeof(why)), -1);
    CU_ASSERT_EQUAL(settings_parse(dir, NULL, 0, &settings, why, sizeof(why)), -1);
    CU_ASSERT(why_has("Is a directory"));
    CU_ASSERT_EQUAL(settings_parse("/nonexistent/x", NULL, 0, &settings, why, sizeof(why)), -1);
    CU_ASSERT(why_has("/nonexistent/x: No such file or directory"));
}

/* ---- overrides ---- */

static void
overrides_win_over_the_file_and_the_last_one_wins(void)
{
    static const char *const overrides[] = { "streams.port=7001", "streams.port=7002", "management.socket=/tmp/x=y" };
    static const char text[] = "streams: { port = 7000; };";

    file_write("sluice.conf", text, sizeof(text) - 1);
    CU_ASSERT_EQUAL(settings_parse(path, overrides, ARRAY_COUNT(overrides), &settings, why, sizeof(why)), 0);
    CU_ASSERT_EQUAL(settings.streams_port, 7002);
    CU_ASSERT_STRING_EQUAL(settings.management_socket, "/tmp/x=y");
}

static void
bad_overrides_say_what_they_are(void)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        { "", "is no setting, expected group.name=value" },
        { "streams.port", "--set \"streams.port\": is no setting" },
        { "=1", "is no setting" },
        { "stream.port=1", "--set: unknown setting \"stream.port\", did you mean \"streams.port\"?" },
        { "streams.port=", "--set: streams.port: \"\" is empty" },
        { "streams.port=1;", "is not a whole decimal number" },
        { "ports=1", "--set ports:1: ports: is not a list" },
        { "ports=( { type = 1; } )", "ports[0]: type: is a number" },
        { "ports=(); log: { }", "--set ports:1: log: does not belong here, expected one value of ports" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        CU_ASSERT_EQUAL(parse_set(rows[i].text), -1);
        CU_ASSERT(why_has(rows[i].why));
    }
}

/* ---- lists ---- */

static void
ports_are_read_with_their_defaults(void)
{
    CU_ASSERT_EQUAL(
        parse_file("ports = (\n"
                   "  { type = \"fabric\"; provider = \"shm\"; },\n"
                   "  { type = \"fabric\"; provider = \"tcp;ofi_rxm\"; name = \"two\"; node = \"127.0.0.1\";\n"
                   "    domain = \"lo\"; send = \"inject\"; rx_slots = 2048; tx_slots = 16; sessions = 16384;\n"
                   "    frame = \"8KiB\"; lease = \"3s\"; } );\n"),
        0);
    CU_ASSERT_EQUAL_FATAL(settings.port_count, 2);
    const struct port_settings *one = &settings.ports[0], *two = &settings.ports[1];
    CU_ASSERT_STRING_EQUAL(one->name, "shm");
    CU_ASSERT_STRING_EQUAL(one->provider, "shm");
    CU_ASSERT_STRING_EQUAL(one->send, "auto");
    CU_ASSERT_STRING_EQUAL(one->node, "");
    CU_ASSERT_EQUAL(one->rx_slots, 0);
    CU_ASSERT_EQUAL(one->frame_bytes, 0);
    CU_ASSERT_EQUAL(one->lease_ms, 10000);
    CU_ASSERT_STRING_EQUAL(two->name, "two");
    CU_ASSERT_STRING_EQUAL(two->provider, "tcp;ofi_rxm");
    CU_ASSERT_STRING_EQUAL(two->node, "127.0.0.1");
    CU_ASSERT_STRING_EQUAL(two->domain, "lo");
    CU_ASSERT_STRING_EQUAL(two->send, "inject");
    CU_ASSERT_EQUAL(two->rx_slots, 2048);
    CU_ASSERT_EQUAL(two->tx_slots, 16);
    CU_ASSERT_EQUAL(two->sessions, 16384);
    CU_ASSERT_EQUAL(two->frame_bytes, 8192);
    CU_ASSERT_EQUAL(two->lease_ms, 3000);
}

#define SHM "type = \"fabric\"; provider = \"shm\"; "
#define FIVE_PORTS                                                                                                     \
    "{ " SHM "name = \"1\"; }, { " SHM "name = \"2\"; }, { " SHM "name = \"3\"; }, { " SHM "name = \"4\"; }, { " SHM   \
    "name = \"5\"; }"

static void
bad_ports_say_which_and_why(void)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        { "ports = { };", "ports: is not a list, expected ( { ... }, { ... } )" },
        { "ports = ( 1 );", "ports[0]: is not a group" },
        { "ports = ( { } );", "ports[0]: type is missing, expected \"fabric\"" },
        { "ports = ( { type = \"fabric\"; } );", "ports[0]: provider is missing, expected one of \"shm\", \"net\"" },
        { "ports = ( { type = \"ethernet\"; provider = \"x\"; } );",
          "type: \"ethernet\" is not known, expected \"fabric\"" },
        { "ports = (\n{ " SHM "},\n{ type = \"fabric\"; provider = \"efa-diret\"; } );",
          "sluice.conf:3: ports[1]: provider: \"efa-diret\" is not known" },
        { "ports = ( { type = \"fabric\"; provider = \"efa-diret\"; } );", "did you mean \"efa-direct\"?" },
        { "ports = ( { " SHM "}, { " SHM "} );", "ports[1]: name \"shm\" is taken by ports[0]" },
        { "ports = ( { " SHM "slots = 1; } );", "ports[0]: unknown name \"slots\"" },
        { "ports = ( { " SHM "rx_slot = 64; } );", "did you mean \"rx_slots\"?" },
        { "ports = ( { " SHM "rx_slots = 15; } );", "rx_slots: \"15\" is too small, expected a whole number from 16" },
        { "ports = ( { " SHM "tx_slots = 65537; } );", "tx_slots: \"65537\" is too large" },
        { "ports = ( { " SHM "sessions = 0; } );", "sessions: \"0\" is too small" },
        { "ports = ( { " SHM "sessions = 16385; } );", "sessions: \"16385\" is too large" },
        { "ports = ( { " SHM "frame = \"8193\"; } );", "frame: \"8193\" is too large" },
        { "ports = ( { " SHM "frame = 255; } );", "frame: \"255\" is too small" },
        { "ports = ( { " SHM "lease = \"99ms\"; } );", "lease: \"99ms\" is too small" },
        { "ports = ( { " SHM "lease = 1; } );", "lease: is a number, expected a time" },
        { "ports = ( { " SHM "send = \"Auto\"; } );", "send: \"Auto\" is not known" },
        { "ports = ( { " SHM "name = \"12345678901234567890123456789012\"; } );", "name: " },
        { "ports = ( " FIVE_PORTS ", " FIVE_PORTS " );", "ports: has 10 entries, expected at most 8" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        CU_ASSERT_EQUAL(parse_file(rows[i].text), -1);
        CU_ASSERT(why_has(rows[i].why));
    }
}

/* SHA-256 of "secret", from sha256sum. */
#define SECRET_HEX "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"

static void
passwords_are_kept_as_digests(void)
{
    static const uint8_t digest[4] = { 0x2b, 0xb8, 0x0d, 0x53 };

    CU_ASSERT_EQUAL(
        parse_file("auth: { password = \"secret\"; };\nusers = ( { name = \"ops\"; password = \"#" SECRET_HEX
                   "\"; } );"),
        0);
    CU_ASSERT_EQUAL_FATAL(settings.user_count, 2);
    CU_ASSERT_STRING_EQUAL(settings.users[0].name, "default");
    CU_ASSERT_STRING_EQUAL(settings.users[1].name, "ops");
    CU_ASSERT(memcmp(settings.users[0].sha256, settings.users[1].sha256, 32) == 0);
    CU_ASSERT(memcmp(settings.users[0].sha256, digest, sizeof(digest)) == 0);
    CU_ASSERT_STRING_EQUAL(settings.auth_password, "#" SECRET_HEX);

    CU_ASSERT_EQUAL(parse_file("users = ( { name = \"ops\"; password = \"x\"; } );"), 0);
    CU_ASSERT_EQUAL_FATAL(settings.user_count, 1);
    CU_ASSERT_STRING_EQUAL(settings.users[0].name, "ops");
    CU_ASSERT_EQUAL(parse_file(""), 0);
    CU_ASSERT_EQUAL(settings.user_count, 0);
}

static void
bad_users_are_refused_and_no_message_repeats_a_password(void)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        { "auth: { password = \"#sesame\"; };", "auth.password: \"#\" is not followed by a SHA-256" },
        { "auth: { password = \"#sesame" SECRET_HEX "\"; };", "auth.password: \"#\" is not followed by" },
        { "auth: { password = \"sesame\\x01\"; };", "auth.password: the value does not print" },
        { "users = ( { name = \"a\"; password = \"#sesame\"; } );", "users[0]: \"#\" is not followed by" },
        { "users = ( { name = \"a\"; password = \"sesame\\n\"; } );", "users[0]: password: the value does not print" },
        { "users = ( { name = \"a\"; password = \"\"; } );", "users[0]: password: the value is too short" },
        { "users = ( { name = \"a\"; } );", "users[0]: password is missing" },
        { "users = ( { name = \"\"; password = \"sesame\"; } );", "users[0]: name: \"\" is too short" },
        { "users = ( { name = \"a b\"; password = \"sesame\"; } );", "users[0]: name \"a b\" has blanks" },
        { "users = ( { name = \"a\"; password = \"sesame\"; }, { name = \"a\"; password = \"x\"; } );",
          "users[1]: \"a\" is there twice" },
        { "users = ( { name = \"default\"; password = \"sesame\"; } );", "\"default\" is the user of auth.password" },
        { "users = ( { nme = \"a\"; password = \"sesame\"; } );", "unknown name \"nme\", did you mean \"name\"?" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        CU_ASSERT_EQUAL(parse_file(rows[i].text), -1);
        CU_ASSERT(why_has(rows[i].why));
        CU_ASSERT_PTR_NULL(strstr(why, "sesame"));
    }
    char text[600];
    memset(text, 'z', sizeof(text));
    memcpy(text, "auth.password=", 14);
    text[14 + 256] = '\0';
    CU_ASSERT_EQUAL(parse_set(text), -1);
    CU_ASSERT(why_has("the value is too long"));
    CU_ASSERT_PTR_NULL(strstr(why, "zz"));
}

static void
there_is_room_for_63_users_beside_default(void)
{
    static char text[16384];
    for (int count = 63; count <= 64; count++) {
        size_t used = (size_t)snprintf(text, sizeof(text), "auth: { password = \"p\"; };\nusers = ( ");
        for (int i = 0; i < count; i++) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s{ name = \"u%d\"; password = \"p\"; }",
                                     i ? ", " : "", i);
        }
        snprintf(text + used, sizeof(text) - used, " );");
        CU_ASSERT_EQUAL(parse_file(text), count == 63 ? 0 : -1);
    }
    CU_ASSERT(why_has("users: has 64 entries, expected at most 63"));
}

/* ---- what follows ---- */

static void
memory_is_half_of_what_there_is_unless_said(void)
{
    CU_ASSERT_EQUAL(parse_file(""), 0);
    CU_ASSERT_EQUAL(resolve(), 0);
    CU_ASSERT_EQUAL(settings.memory_reserve, 2 * GIB);
    CU_ASSERT_EQUAL(settings.memory_limit, 2 * GIB);
    CU_ASSERT_EQUAL(settings.memory_ahead, 64 * MIB);

    host.memory_bytes = 256 * MIB;
    CU_ASSERT_EQUAL(parse_file(""), 0);
    CU_ASSERT_EQUAL(resolve(), 0);
    CU_ASSERT_EQUAL(settings.memory_reserve, 128 * MIB);
    CU_ASSERT_EQUAL(settings.memory_ahead, 32 * MIB);

    host.memory_bytes = 127 * MIB;
    CU_ASSERT_EQUAL(parse_file(""), 0);
    CU_ASSERT_EQUAL(resolve(), -1);
    CU_ASSERT(why_has("memory.reserve: half of the 127 MiB available is less than 64MiB"));
    host.memory_by_cgroup = true;
    CU_ASSERT_EQUAL(resolve(), -1);
    CU_ASSERT(why_has("to this control group"));
    host.memory_by_cgroup = false;
    host.memory_bytes = 4 * GIB;

    CU_ASSERT_EQUAL(parse_file("memory: { reserve = \"1GiB\"; limit = \"1025MiB\"; };"), 0);
    CU_ASSERT_EQUAL(resolve(), -1);
    CU_ASSERT(why_has("memory.limit: 1025MiB is more than memory.reserve, expected at most 1GiB"));
    CU_ASSERT_EQUAL(parse_file("memory: { reserve = \"64MiB\"; ahead = \"33MiB\"; };"), 0);
    CU_ASSERT_EQUAL(resolve(), -1);
    CU_ASSERT(why_has("memory.ahead: 33MiB is more than half of memory.reserve"));
}

static void
expect_cpus(const char *setting, const struct host *on, const char *expected)
{
    char text[128];
    CU_ASSERT_EQUAL(parse_set(setting), 0);
    CU_ASSERT_EQUAL(settings_resolve(&settings, on, why, sizeof(why)), 0);
    cpu_list_print(text, sizeof(text), settings.cpus, settings.cpu_count);
    if (strcmp(text, expected) != 0) {
        printf("\n    %s gave %s\n", setting, text);
    }
    CU_ASSERT_STRING_EQUAL(text, expected);
}

static void
cpus_are_chosen_among_the_allowed(void)
{
    static struct host one = { .memory_bytes = GIB, .cpu_count = 1, .cpus = { 5 } };
    static struct host box = { .memory_bytes = GIB, .cpu_count = 4, .cpus = { 8, 9, 10, 11 } };
    static struct host quota = {
        .memory_bytes = GIB, .cpu_count = 8, .cpu_quota = 3, .cpus = { 0, 1, 2, 3, 4, 5, 6, 7 }
    };
    static struct host large = { .memory_bytes = GIB, .cpu_count = 128 };

    for (int i = 0; i < 128; i++) {
        large.cpus[i] = i;
    }
    expect_cpus("lcores.cpus=auto", &host, "1-3");
    expect_cpus("lcores.cpus=auto", &one, "5");
    expect_cpus("lcores.cpus=auto", &box, "9-11");
    expect_cpus("lcores.cpus=auto", &quota, "1-2");
    expect_cpus("lcores.cpus=auto", &large, "1-48");
    expect_cpus("lcores.cpus=8-9", &box, "8-9");
    expect_cpus("lcores.cpus=0-1", &box, "8-9"); /* none of them is allowed: positions */
    expect_cpus("lcores.cpus=3,1", &box, "11,9");
    expect_cpus("lcores.cpus=0", &one, "5");

    static const struct {
        const char *set, *why;
    } rows[] = {
        { "lcores.cpus=4", "CPU 4 is not allowed to this process, expected some of 8-11, or numbers below 4" },
        { "lcores.cpus=8,0", "CPU 8 is not allowed to this process" }, /* neither all numbers nor all positions */
        { "lcores.cpus=", "lcores.cpus: \"\" is empty" },
        { "lcores.cpus=1-", "is not a list of CPUs" },
        { "lcores.cpus=1,1", "names a CPU twice" },
        { "lcores.cpus=0-48", "names too many CPUs" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        CU_ASSERT_EQUAL(parse_set(rows[i].set), 0);
        CU_ASSERT_EQUAL(settings_resolve(&settings, &box, why, sizeof(why)), -1);
        CU_ASSERT(why_has(rows[i].why));
    }
}

static void
listening_beyond_loopback_needs_a_password(void)
{
    static const struct {
        const char *address;
        bool exposed, good;
    } rows[] = {
        { "127.0.0.1,[::1]", false, true },
        { "127.8.9.10", false, true },
        { "::1", false, true },
        { "[::ffff:127.0.0.1]", false, true },
        { "0.0.0.0", true, true },
        { "[::]", true, true },
        { "127.0.0.1,10.0.0.1", true, true },
        { "[::ffff:10.0.0.1]", true, true },
        { "", false, true },
        { "localhost", false, false },
        { "127.0.0.1,", false, false },
        { ",127.0.0.1", false, false },
        { "127.0.0.1, ::1", false, false },
        { "127.0.0", false, false },
        { "127.0.0.1:6379", false, false },
        { "[127.0.0.1]", false, false },
        { "[::1", false, false },
        { "0127.0.0.1", false, false },
        { "256.0.0.1", false, false },
        { "[]", false, false },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char text[128];
        snprintf(text, sizeof(text), "streams: { address = \"%s\"; };", rows[i].address);
        CU_ASSERT_EQUAL(parse_file(text), 0);
        int without = resolve();
        CU_ASSERT_EQUAL(without, rows[i].good && !rows[i].exposed ? 0 : -1);
        if (rows[i].good && rows[i].exposed) {
            CU_ASSERT(why_has("is beyond loopback and there is no password"));
        }
        snprintf(text, sizeof(text), "streams: { address = \"%s\"; };\nauth: { protected_mode = false; };",
                 rows[i].address);
        CU_ASSERT_EQUAL(parse_file(text), 0);
        CU_ASSERT_EQUAL(resolve(), rows[i].good ? 0 : -1);
        CU_ASSERT_EQUAL(!rows[i].good || settings.exposed, !rows[i].good || rows[i].exposed);
        snprintf(text, sizeof(text), "streams: { address = \"%s\"; };\nauth: { password = \"x\"; };", rows[i].address);
        CU_ASSERT_EQUAL(parse_file(text), 0);
        CU_ASSERT_EQUAL(resolve(), rows[i].good ? 0 : -1);
    }
}

static void
an_appliance_that_nobody_can_reach_is_refused(void)
{
    CU_ASSERT_EQUAL(parse_file("streams: { address = \"\"; unix = \"\"; };"), 0);
    CU_ASSERT_EQUAL(resolve(), -1);
    CU_ASSERT(why_has("nobody could connect"));
}

static void
modes_are_octal_and_let_the_owner_in(void)
{
    static const struct {
        const char *text;
        int status;
        uint32_t bits;
    } rows[] = { { "0600", 0, 0600 }, { "660", 0, 0660 }, { "0777", 0, 0777 }, { "", -1, 0 },     { "0", -1, 0 },
                 { "0060", -1, 0 },   { "0680", -1, 0 },  { "07777", -1, 0 },  { "4600", -1, 0 }, { "rw", -1, 0 } };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char text[64];
        snprintf(text, sizeof(text), "management.mode=%s", rows[i].text);
        CU_ASSERT_EQUAL(parse_set(text), 0);
        CU_ASSERT_EQUAL(resolve(), rows[i].status);
        CU_ASSERT_EQUAL(rows[i].status == 0 ? settings.management_mode_bits : 0, rows[i].bits);
    }
}

static void
what_is_printed_reads_back_to_the_same_settings(void)
{
    static struct settings again;
    char printed[PATH_MAX];

    CU_ASSERT_EQUAL(
        parse_file("auth: { password = \"secret\"; };\nstreams: { unix = \"/a \\\"b\\\\c\"; port = 0; };\n"
                   "users = ( { name = \"o\\\"ps\"; password = \"x\"; }, { name = \"b\"; password = \"y\"; } );\n"
                   "ports = ( { " SHM " }, { " SHM "name = \"2\"; frame = 4097; lease = \"1m\"; } );\n"
                   "limits: { idle_timeout = \"90s\"; };\nmemory: { reserve = \"3221225472\"; };\n"),
        0);
    CU_ASSERT_EQUAL(resolve(), 0);
    file_write("printed.conf", "", 0);
    snprintf(printed, sizeof(printed), "%s", path);
    FILE *file = fopen(printed, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    settings_print(&settings, file);
    fclose(file);

    CU_ASSERT_EQUAL(settings_parse(printed, NULL, 0, &again, why, sizeof(why)), 0);
    CU_ASSERT_EQUAL(settings_resolve(&again, &host, why, sizeof(why)), 0);
    memcpy(again.origins, settings.origins, sizeof(again.origins));
    CU_ASSERT(memcmp(&settings, &again, sizeof(settings)) == 0);
}

static void
the_table_is_in_order(void)
{
    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        const struct setting *setting = &settings_table[i];
        CU_ASSERT_PTR_EQUAL(setting_find(setting->name), setting);
        CU_ASSERT(setting->help[0] != '\0');
        CU_ASSERT(setting->kind > SETTING_COUNT || setting->min <= setting->max);
        CU_ASSERT(setting->kind > SETTING_COUNT || setting->max <= INT64_MAX); /* a file can say every value */
    }
    CU_ASSERT_PTR_NULL(setting_find("memory"));
    CU_ASSERT_PTR_NULL(setting_find(""));
}

static int
suite_open(void)
{
    return mkdtemp(dir) == NULL;
}

static int
suite_close(void)
{
    static const char *const names[] = { "sluice.conf", "part.conf", "bad.conf", "large", "nul", "printed.conf" };
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        unlink(path);
    }
    return rmdir(dir);
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("settings", suite_open, suite_close);
    CU_ADD_TEST(suite, the_table_is_in_order);
    CU_ADD_TEST(suite, every_number_holds_its_bounds_in_a_file_and_on_the_command_line);
    CU_ADD_TEST(suite, every_number_refuses_what_is_no_number);
    CU_ADD_TEST(suite, every_bool_and_choice_takes_its_words_only);
    CU_ADD_TEST(suite, every_text_fits_and_prints);
    CU_ADD_TEST(suite, errors_name_file_line_expectation_and_the_nearest_name);
    CU_ADD_TEST(suite, large_integers_are_read_as_written);
    CU_ADD_TEST(suite, comments_strings_and_layout_do_not_confuse_the_scan);
    CU_ADD_TEST(suite, includes_are_joined_and_errors_name_the_included_file);
    CU_ADD_TEST(suite, files_that_are_no_settings_are_refused);
    CU_ADD_TEST(suite, overrides_win_over_the_file_and_the_last_one_wins);
    CU_ADD_TEST(suite, bad_overrides_say_what_they_are);
    CU_ADD_TEST(suite, ports_are_read_with_their_defaults);
    CU_ADD_TEST(suite, bad_ports_say_which_and_why);
    CU_ADD_TEST(suite, passwords_are_kept_as_digests);
    CU_ADD_TEST(suite, bad_users_are_refused_and_no_message_repeats_a_password);
    CU_ADD_TEST(suite, there_is_room_for_63_users_beside_default);
    CU_ADD_TEST(suite, memory_is_half_of_what_there_is_unless_said);
    CU_ADD_TEST(suite, cpus_are_chosen_among_the_allowed);
    CU_ADD_TEST(suite, listening_beyond_loopback_needs_a_password);
    CU_ADD_TEST(suite, an_appliance_that_nobody_can_reach_is_refused);
    CU_ADD_TEST(suite, modes_are_octal_and_let_the_owner_in);
    CU_ADD_TEST(suite, what_is_printed_reads_back_to_the_same_settings);
    CU_basic_set_mode(CU_BRM_NORMAL);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
