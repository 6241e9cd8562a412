#include "test/mgmt/settings_fixture.h"
#include <CUnit/Basic.h>
#include <limits.h>
#include <unistd.h>

static char dir[] = "/tmp/sluice-test-settings-XXXXXX";

char why[SETTINGS_WHY_BYTES];
struct settings settings;
char path[PATH_MAX];
struct host host = { .memory_bytes = 4 * GIB, .cpu_count = 4, .cpus = { 0, 1, 2, 3 } };

const char *
file_write(const char *name, const char *bytes, size_t count)
{
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL(fwrite(bytes, 1, count, file), count);
    fclose(file);
    return path;
}

int
parse_file(const char *text)
{
    memset(why, 0, sizeof(why));
    return settings_parse(file_write("sluice.conf", text, strlen(text)), NULL, 0, &settings, why, sizeof(why));
}

int
parse_set(const char *override)
{
    memset(why, 0, sizeof(why));
    return settings_parse(NULL, &override, 1, &settings, why, sizeof(why));
}

int
resolve(void)
{
    return settings_resolve(&settings, &host, why, sizeof(why));
}

bool
why_has(const char *part)
{
    if (strstr(why, part) == NULL) {
        printf("\n    expected \"%s\"\n    in       \"%s\"\n", part, why);
        return false;
    }
    return true;
}

int
settings_fixture_open(void)
{
    return mkdtemp(dir) == NULL;
}

int
settings_fixture_close(void)
{
    static const char *const names[] = { "sluice.conf", "part.conf", "bad.conf", "large", "nul", "printed.conf" };
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        unlink(path);
    }
    return rmdir(dir);
}

const char *
settings_fixture_dir(void)
{
    return dir;
}
