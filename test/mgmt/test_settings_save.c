#include "config/settings.h"
#include <CUnit/Basic.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[] = "/tmp/sluice-save-XXXXXX";
static char why[SETTINGS_WHY_BYTES];

static const char *
path_of(const char *name)
{
    static char paths[4][PATH_MAX];
    static int next;
    char *path = paths[next++ % 4];

    snprintf(path, PATH_MAX, "%s/%s", dir, name);
    return path;
}

static void
file_write(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "w");

    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static const char *
file_read(const char *name)
{
    static char text[8192];
    FILE *file = fopen(path_of(name), "r");

    CHECK(file != NULL);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    return text;
}

static bool
save(const char *file, const char *name, const char *value)
{
    const struct setting *setting = setting_find(name);

    CHECK(setting != NULL);
    why[0] = '\0';
    return settings_save(path_of(file), setting, value, why, sizeof(why));
}

static uint32_t
files_in_dir(void)
{
    char command[64];
    unsigned count = 0;

    snprintf(command, sizeof(command), "ls -A %s | wc -l", dir);
    FILE *pipe = popen(command, "r");
    CHECK(pipe != NULL && fscanf(pipe, "%u", &count) == 1);
    pclose(pipe);
    return count;
}

/* A file before and after, and every byte of it. */
static const struct {
    const char *before, *name, *value, *after;
} rows[] = {
    { "", "log.level", "debug", "\nlog: {\n  level = \"debug\";\n};\n" },
    { "# only a comment", "streams.port", "7000", "# only a comment\n\nstreams: {\n  port = 7000;\n};\n" },
    { "log: { level = \"info\"; };\n", "log.level", "error", "log: { level = \"error\"; };\n" },
    { "log = {\n  # how much\n  level = \"info\"  # less would do\n};\n", "log.level", "debug",
      "log = {\n  # how much\n  level = \"debug\"  # less would do\n};\n" },
    { "log: { ready = \"json\"; };\n", "log.level", "debug", "log: { ready = \"json\";  level = \"debug\"; };\n" },
    { "log: {\n  ready = \"json\"; // x\n};\nmemory: {\n};\n", "log.level", "debug",
      "log: {\n  ready = \"json\"; // x\n  level = \"debug\";\n};\nmemory: {\n};\n" },
    { "/* log: { level = \"debug\"; }; */ log: { ready = \"text\" /* level = 1 */ }\n", "log.level", "error",
      "/* log: { level = \"debug\"; }; */ log: { ready = \"text\" /* level = 1 */  level = \"error\"; }\n" },
    { "streams: { port = 7000; unix = \"/tmp/a \\\" port = 1; }\"; };", "streams.port", "7001",
      "streams: { port = 7001; unix = \"/tmp/a \\\" port = 1; }\"; };" },
    { "log: { level = \"er\" # one\n  \"ror\"; };\n", "log.level", "info", "log: { level = \"info\"; };\n" },
    { "streams: { port = 7000 };\nlimits: { clients = 5 };\nusers = ( { name = \"port\"; password = \"x\"; } );\n",
      "limits.clients", "9",
      "streams: { port = 7000 };\nlimits: { clients = 9 };\nusers = ( { name = \"port\"; password = "
      "\"x\"; } );\n" },
    { "ports = ( { type = \"fabric\"; provider = \"shm\"; name = \"level\"; } );\nlog: { level = \"info\"; };",
      "log.level", "debug",
      "ports = ( { type = \"fabric\"; provider = \"shm\"; name = \"level\"; } );\nlog: { level = \"debug\"; };" },
    { "memory: { huge_pages = true; };\n", "memory.huge_pages", "false", "memory: { huge_pages = false; };\n" },
    { "memory: { limit = \"64MiB\"; reserve = \"1GiB\"; };\n", "memory.limit", "auto",
      "memory: { limit = \"auto\"; reserve = \"1GiB\"; };\n" },
    { "\r\nlog: {\r\n\tlevel = \"info\";\r\n};\r\n", "log.level", "error",
      "\r\nlog: {\r\n\tlevel = \"error\";\r\n};\r\n" },
};

static void
everything_but_the_value_stays_as_it_was(void)
{
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct settings settings;
        char printed[SETTING_PRINT_BYTES];
        file_write("a.conf", rows[i].before);
        CU_ASSERT(save("a.conf", rows[i].name, rows[i].value));
        CU_ASSERT_STRING_EQUAL(file_read("a.conf"), rows[i].after);
        CU_ASSERT_EQUAL(settings_parse(path_of("a.conf"), NULL, 0, &settings, why, sizeof(why)), 0);
        if (strcmp(rows[i].value, "auto") != 0) {
            CU_ASSERT_STRING_EQUAL(setting_print(&settings, setting_find(rows[i].name), printed), rows[i].value);
        }
    }
}

static void
saving_twice_changes_the_same_place(void)
{
    file_write("a.conf", "log: { ready = \"json\"; };\n");
    CU_ASSERT(save("a.conf", "log.level", "debug") && save("a.conf", "log.level", "error"));
    CU_ASSERT_STRING_EQUAL(file_read("a.conf"), "log: { ready = \"json\";  level = \"error\"; };\n");
}

static void
text_with_quotes_and_backslashes_reads_back(void)
{
    struct settings settings;

    file_write("a.conf", "");
    CU_ASSERT(save("a.conf", "streams.unix", "/tmp/\"a\\b\" # {"));
    CU_ASSERT_EQUAL(settings_parse(path_of("a.conf"), NULL, 0, &settings, why, sizeof(why)), 0);
    CU_ASSERT_STRING_EQUAL(settings.streams_unix, "/tmp/\"a\\b\" # {");
    CU_ASSERT(save("a.conf", "streams.unix", "/b"));
    CU_ASSERT_STRING_EQUAL(file_read("a.conf"), "\nstreams: {\n  unix = \"/b\";\n};\n");
}

static void
a_value_in_an_include_is_changed_there(void)
{
    static const char outer[] = "@include \"limits.conf\"\nlog: {\n  @include \"log.conf\"\n  ready = \"json\";\n};\n";

    file_write("limits.conf", "limits: {\n  clients = 5; # few\n};\n");
    file_write("log.conf", "# of the log\nlevel = \"info\";\n");
    file_write("a.conf", outer);
    CU_ASSERT(save("a.conf", "log.level", "debug"));
    CU_ASSERT_STRING_EQUAL(file_read("log.conf"), "# of the log\nlevel = \"debug\";\n");
    CU_ASSERT(save("a.conf", "limits.clients", "6"));
    CU_ASSERT_STRING_EQUAL(file_read("limits.conf"), "limits: {\n  clients = 6; # few\n};\n");
    /* What is nowhere yet goes to its group, wherever that is. */
    CU_ASSERT(save("a.conf", "limits.idle_timeout", "5s"));
    CU_ASSERT_STRING_EQUAL(file_read("limits.conf"), "limits: {\n  clients = 6; # few\n  idle_timeout = \"5s\";\n};\n");
    CU_ASSERT_STRING_EQUAL(file_read("a.conf"), outer);
    CU_ASSERT_EQUAL(files_in_dir(), 3);
    unlink(path_of("limits.conf"));
    unlink(path_of("log.conf"));
}

static void
mode_is_kept_and_links_are_followed(void)
{
    struct stat info;

    file_write("real.conf", "log: { level = \"info\"; };\n");
    CHECK(chmod(path_of("real.conf"), 0640) == 0);
    CHECK(symlink("real.conf", path_of("link.conf")) == 0);
    CU_ASSERT(save("link.conf", "log.level", "debug"));
    CU_ASSERT(lstat(path_of("link.conf"), &info) == 0 && S_ISLNK(info.st_mode));
    CU_ASSERT(stat(path_of("real.conf"), &info) == 0 && (info.st_mode & 07777) == 0640);
    CU_ASSERT_STRING_EQUAL(file_read("real.conf"), "log: { level = \"debug\"; };\n");
    unlink(path_of("link.conf"));
    unlink(path_of("real.conf"));
}

static void
what_cannot_be_saved_is_said_and_nothing_is_lost(void)
{
    file_write("a.conf", "log: { level = \"info\"; }\nlog: { };\n");
    CU_ASSERT(!save("a.conf", "log.level", "debug")); /* the file is wrong already */
    CU_ASSERT(strstr(why, "a.conf:2") != NULL);
    CU_ASSERT_STRING_EQUAL(file_read("a.conf"), "log: { level = \"info\"; }\nlog: { };\n");
    file_write("a.conf", "log: { level = \"info\"; };\n");
    CU_ASSERT(!save("a.conf", "log.level", "loud")); /* and must not become so */
    CU_ASSERT(strstr(why, "loud") != NULL);
    CU_ASSERT_STRING_EQUAL(file_read("a.conf"), "log: { level = \"info\"; };\n");
    CU_ASSERT(!save("none.conf", "log.level", "debug"));
    CU_ASSERT(strstr(why, "No such file") != NULL);
    CU_ASSERT(!settings_save("/dev/null", setting_find("log.level"), "debug", why, sizeof(why)));
    CU_ASSERT_EQUAL(files_in_dir(), 1);
}

/* A child saves without end and is killed at some moment; whatever it had come to, the file is whole. */
static void
a_kill_in_a_save_leaves_the_old_file_or_the_new_one(void)
{
    uint32_t debug = 0, error = 0, left = 0;

    file_write("a.conf", "# kept\nlog: { level = \"debug\"; };\n");
    for (unsigned try = 0; try < 200; try++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            for (;;) {
                (void)save("a.conf", "log.level", "error");
                (void)save("a.conf", "log.level", "debug");
            }
        }
        usleep(300 + 37 * try % 2000);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        const char *text = file_read("a.conf");
        bool is_debug = strcmp(text, "# kept\nlog: { level = \"debug\"; };\n") == 0;
        bool is_error = strcmp(text, "# kept\nlog: { level = \"error\"; };\n") == 0;
        CU_ASSERT(is_debug || is_error);
        debug += is_debug;
        error += is_error;
    }
    left = files_in_dir() - 1;
    CU_ASSERT(debug > 0 && error > 0); /* the kills came at different moments */
    char command[64];
    snprintf(command, sizeof(command), "rm -f %s/a.conf.*", dir);
    CU_ASSERT_EQUAL(system(command), 0);
    CU_ASSERT(left < 200);
}

int
main(void)
{
    CHECK(mkdtemp(dir) != NULL);
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("settings saved", NULL, NULL);
    CU_ADD_TEST(suite, what_cannot_be_saved_is_said_and_nothing_is_lost);
    CU_ADD_TEST(suite, everything_but_the_value_stays_as_it_was);
    CU_ADD_TEST(suite, saving_twice_changes_the_same_place);
    CU_ADD_TEST(suite, text_with_quotes_and_backslashes_reads_back);
    CU_ADD_TEST(suite, a_value_in_an_include_is_changed_there);
    CU_ADD_TEST(suite, mode_is_kept_and_links_are_followed);
    CU_ADD_TEST(suite, a_kill_in_a_save_leaves_the_old_file_or_the_new_one);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    char command[64];
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command) != 0 || failures != 0;
}
