#include "test/mgmt/settings_fixture.h"
#include <CUnit/Basic.h>
#include <ctype.h>

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
    char text[1024], bare[64];
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
                char shouted[SETTING_TEXT_BYTES];
                snprintf(shouted, sizeof(shouted), "%s", setting->choices[word]);
                shouted[0] = (char)toupper(shouted[0]);
                CU_ASSERT(set_value(setting, shouted, false));
                CU_ASSERT_STRING_EQUAL((char *)&settings + setting->offset, setting->choices[word]);
            }
            CU_ASSERT_FALSE(set_value(setting, "", false));
            CU_ASSERT_FALSE(set_value(setting, "spinn", false));
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

/* ---- while the appliance runs ---- */

/* One change; what does not take effect leaves every byte as it was. */
static bool
change(const struct setting *setting, const char *value)
{
    static struct settings before;

    before = settings;
    memset(why, 0, sizeof(why));
    bool good = setting_change(&settings, setting, value, &host, why, sizeof(why));
    CU_ASSERT_EQUAL(good, why[0] == '\0');
    CU_ASSERT(good || memcmp(&before, &settings, sizeof(before)) == 0);
    return good;
}

static void
every_live_number_holds_its_bounds_and_every_other_setting_is_refused(void)
{
    static const char *const none[] = {
        "", " ", "-1", "1e3", "0x10", "5x", "18446744073709551616", "-9223372036854775808"
    };

    CU_ASSERT_EQUAL(parse_set("memory.reserve=1GiB"), 0);
    CU_ASSERT_EQUAL(resolve(), 0);
    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        const struct setting *setting = &settings_table[i];
        if (!setting->live) {
            CU_ASSERT_FALSE(change(setting, setting->initial));
            CU_ASSERT(why_has("cannot change while the appliance runs"));
            continue;
        }
        for (size_t row = 0; row < ARRAY_COUNT(none) && setting->kind != SETTING_TEXT; row++) {
            CU_ASSERT_FALSE(change(setting, none[row]));
            CU_ASSERT(why_has(setting->name) && why_has("expected"));
        }
        uint64_t most = setting == setting_find("memory.limit") ? settings.memory_reserve : setting->max;
        const uint64_t values[] = { setting->min - 1, setting->min, most,      most + 1,   INT32_MAX, 1ull << 31,
                                    UINT32_MAX,       1ull << 32,   INT64_MAX, 1ull << 63, UINT64_MAX };
        for (size_t row = 0; row < ARRAY_COUNT(values) && setting->kind <= SETTING_COUNT; row++) {
            char text[64];
            number_text(setting, values[row], text);
            bool expected = values[row] >= setting->min && values[row] <= most;
            CU_ASSERT_EQUAL(change(setting, text), expected);
            CU_ASSERT(!expected || *(uint64_t *)((char *)&settings + setting->offset) == values[row]);
            CU_ASSERT(!expected || settings.origins[i] == SETTING_BY_CHANGE);
        }
    }
}

static void
cpus_change_within_what_the_host_allows_and_stay_as_many(void)
{
    static const struct {
        const char *value, *why; /* NULL: good */
        int first, second;
    } rows[] = {
        { "2,0", NULL, 2, 0 },
        { "0-1", NULL, 0, 1 },
        { "", "is empty", 0, 0 },
        { "3", "has 1 CPU, expected 2", 0, 0 },
        { "0-2", "has 3 CPUs, expected 2", 0, 0 },
        { "auto", "has 3 CPUs, expected 2", 0, 0 },
        { "1,1", "names a CPU twice", 0, 0 },
        { "3-2", "runs backwards", 0, 0 },
        { "0,4", "CPU 4 is not allowed to this process, expected some of 0-3", 0, 0 },
        { "0,1023", "CPU 1023 is not allowed", 0, 0 },
        { "0,1024", "no machine has", 0, 0 },
        { "0,2147483648", "\"0,2147483648\"", 0, 0 },
        { "0,-1", "is not a list of CPUs", 0, 0 },
        { "3,2", NULL, 3, 2 },
    };

    CU_ASSERT_EQUAL(parse_set("lcores.cpus=1,3"), 0);
    CU_ASSERT_EQUAL(resolve(), 0);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        CU_ASSERT_EQUAL(change(setting_find("lcores.cpus"), rows[i].value), rows[i].why == NULL);
        if (rows[i].why != NULL) {
            CU_ASSERT(why_has(rows[i].why));
        } else {
            CU_ASSERT_EQUAL(settings.cpus[0], rows[i].first);
            CU_ASSERT_EQUAL(settings.cpus[1], rows[i].second);
            CU_ASSERT_STRING_EQUAL(settings.lcores_cpus, rows[i].value);
        }
        CU_ASSERT_EQUAL(settings.cpu_count, 2);
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
    CU_ASSERT_EQUAL(settings_parse(settings_fixture_dir(), NULL, 0, &settings, why, sizeof(why)), -1);
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
        { "ports=1",
          "--set ports: \"1\" is no list, expected a list: ports=( { type = \"fabric\"; provider = \"shm\"; }, ... )" },
        { "ports=", "--set ports: \"\" is no list" },
        { "ports=(shm)", "--set ports:1: syntax error, expected a list: ports=( { type" },
        { "ports= [ ]", "is no list" },
        { "users=sesame", "--set users: the value is no list, expected a list: users=( { name = " },
        { "users=(sesame)", "--set users:1: syntax error, expected a list: users=(" },
        { "users=( { name = \"default\"; password = \"x\"; } )", "--set users:1: users[0]: \"default\" is the user" },
        { "ports=( { type = 1; } )", "ports[0]: type: is a number" },
        { "ports=(); log: { }", "--set ports:1: log: does not belong here, expected one value of ports" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        CU_ASSERT_EQUAL(parse_set(rows[i].text), -1);
        CU_ASSERT(why_has(rows[i].why));
        CU_ASSERT_PTR_NULL(strstr(why, "sesame")); /* it may be a password */
    }
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

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("settings", settings_fixture_open, settings_fixture_close);
    CU_ADD_TEST(suite, the_table_is_in_order);
    CU_ADD_TEST(suite, every_number_holds_its_bounds_in_a_file_and_on_the_command_line);
    CU_ADD_TEST(suite, every_number_refuses_what_is_no_number);
    CU_ADD_TEST(suite, every_bool_and_choice_takes_its_words_only);
    CU_ADD_TEST(suite, every_text_fits_and_prints);
    CU_ADD_TEST(suite, every_live_number_holds_its_bounds_and_every_other_setting_is_refused);
    CU_ADD_TEST(suite, cpus_change_within_what_the_host_allows_and_stay_as_many);
    CU_ADD_TEST(suite, errors_name_file_line_expectation_and_the_nearest_name);
    CU_ADD_TEST(suite, large_integers_are_read_as_written);
    CU_ADD_TEST(suite, comments_strings_and_layout_do_not_confuse_the_scan);
    CU_ADD_TEST(suite, includes_are_joined_and_errors_name_the_included_file);
    CU_ADD_TEST(suite, files_that_are_no_settings_are_refused);
    CU_ADD_TEST(suite, overrides_win_over_the_file_and_the_last_one_wins);
    CU_ADD_TEST(suite, bad_overrides_say_what_they_are);
    CU_basic_set_mode(CU_BRM_NORMAL);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
