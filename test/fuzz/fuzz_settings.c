/* fuzz_settings.c - any bytes as a configuration file and as --set: refused with a sentence that prints, or settings
 * that print to a file which reads back to the same.
 *
 * The first byte chooses: odd, the rest is what follows --set; even, it is a file. */
#include "config/settings.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerInitialize(int *argc, char ***argv);
const char *__lsan_default_suppressions(void);

static struct settings settings, again;
static char why[SETTINGS_WHY_BYTES];
static struct host host = { .memory_bytes = 4 * GIB, .cpu_count = 4, .cpus = { 0, 1, 2, 3 } };

/* libconfig 1.5 forgets a string that stands where its grammar wants none; the program that reads it then ends. */
const char *
__lsan_default_suppressions(void)
{
    return "leak:libconfig";
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
    int nothing = open("/dev/null", O_RDONLY);
    CHECK(nothing >= 0 && dup2(nothing, STDIN_FILENO) == STDIN_FILENO); /* an include may name it */
    return 0;
}

static void
check_why(void)
{
    CHECK(why[0] != '\0' && strnlen(why, sizeof(why)) < sizeof(why));
    for (const char *at = why; *at != '\0'; at++) {
        CHECK((unsigned char)*at >= 0x20 && *at != 0x7f);
    }
}

/* A file in memory; `path` names it. */
static int
file_open(const void *bytes, size_t count, char path[64])
{
    int fd = memfd_create("settings", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, bytes, count) == (ssize_t)count);
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

static void
check_prints_and_reads_back(void)
{
    char path[64], *text = NULL;
    size_t count = 0;
    FILE *file = open_memstream(&text, &count);

    CHECK(file != NULL);
    settings_print(&settings, file);
    CHECK(fclose(file) == 0);
    int fd = file_open(text, count, path);
    CHECK(settings_parse(path, NULL, 0, &again, why, sizeof(why)) == 0);
    CHECK(settings_resolve(&again, &host, why, sizeof(why)) == 0);
    memcpy(again.origins, settings.origins, sizeof(again.origins));
    memcpy(again.places, settings.places, sizeof(again.places));
    again.reserve_by_host = settings.reserve_by_host; /* as origins: printed is what "auto" became */
    CHECK(memcmp(&settings, &again, sizeof(settings)) == 0);
    close(fd);
    free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char path[64];
    int result;

    if (bytes == 0) {
        return 0;
    }
    memset(why, 0, sizeof(why));
    if (data[0] & 1) {
        char *override = calloc(1, bytes); /* strndup() trips ASan's strict_string_checks: the input has no NUL */
        CHECK(override != NULL);
        memcpy(override, data + 1, bytes - 1);
        result = settings_parse(NULL, (const char *const *)&override, 1, &settings, why, sizeof(why));
        free(override);
    } else {
        int fd = file_open(data + 1, bytes - 1, path);
        result = settings_parse(path, NULL, 0, &settings, why, sizeof(why));
        close(fd);
    }
    if (result == 0) {
        result = settings_resolve(&settings, &host, why, sizeof(why));
    }
    if (result == 0) {
        check_prints_and_reads_back();
    } else {
        check_why();
    }
    return 0;
}
