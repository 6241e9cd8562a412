#include "test/mgmt/doctor_fixture.h"
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/sluice-doctor-XXXXXX";
struct settings settings;
struct doctor doctor;

void
doctor_fixture_open(void)
{
    CHECK(mkdtemp(root) != NULL);
}

int
doctor_fixture_close(void)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -rf %s", root);
    return system(command);
}

const char *
doctor_fixture_root(void)
{
    return root;
}

static void
folders_make(char *whole)
{
    for (char *slash = strchr(whole + sizeof(root), '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(whole, 0755);
        *slash = '/';
    }
}

void
host_file(const char *path, const char *text)
{
    char whole[PATH_MAX];

    snprintf(whole, sizeof(whole), "%s%s", root, path);
    folders_make(whole);
    FILE *file = fopen(whole, "w");
    CHECK(file != NULL);
    fprintf(file, "%s\n", text);
    fclose(file);
}

void
host_file_gone(const char *path)
{
    char whole[PATH_MAX];

    snprintf(whole, sizeof(whole), "%s%s", root, path);
    CHECK(unlink(whole) == 0);
}

void
host_link(const char *path, const char *target)
{
    char whole[PATH_MAX];

    snprintf(whole, sizeof(whole), "%s%s", root, path);
    folders_make(whole);
    CHECK(unlink(whole) == 0 || errno == ENOENT);
    CHECK(symlink(target, whole) == 0);
}

void
examine(void)
{
    doctor = (struct doctor){ .root = root, .settings = &settings };
    doctor_examine(&doctor);
}

const struct doctor_finding *
finding_of(const char *name)
{
    for (uint32_t i = 0; i < doctor.count; i++) {
        if (strcmp(doctor.findings[i].name, name) == 0) {
            return &doctor.findings[i];
        }
    }
    static const struct doctor_finding none = { .why = "" };
    return &none;
}

bool
is_level(const char *name, enum doctor_level level)
{
    const struct doctor_finding *finding = finding_of(name);

    if (finding->name[0] == '\0' || finding->level != level) {
        printf("\n    %s: %s: %s\n", name, doctor_level_text(finding->level), finding->found);
        return false;
    }
    return true;
}
