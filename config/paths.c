#include "config/paths.h"
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

const char *
paths_runtime_dir(char *out, size_t bytes)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");

    if (geteuid() == 0) {
        snprintf(out, bytes, "/run/sluice");
    } else if (runtime != NULL && runtime[0] == '/') {
        snprintf(out, bytes, "%s/sluice", runtime);
    } else {
        snprintf(out, bytes, "/tmp/sluice-%u", (unsigned)geteuid());
    }
    return out;
}

bool
paths_runtime_dir_make(const char *dir, char *why, size_t why_bytes)
{
    struct stat stat;
    mode_t mode = geteuid() == 0 ? 0755 : 0700;

    if (mkdir(dir, mode) == 0 && chmod(dir, mode) == 0) {
        return true;
    }
    if (errno != EEXIST || lstat(dir, &stat) != 0) {
        snprintf(why, why_bytes, "cannot make the directory %s: %s", dir, strerror(errno));
        return false;
    }
    if (!S_ISDIR(stat.st_mode) || stat.st_uid != geteuid() || (stat.st_mode & 022) != 0) {
        snprintf(why, why_bytes,
                 "%s is not a directory that only uid %u can write to, expected it so, or another "
                 "--set management.socket=PATH",
                 dir, (unsigned)geteuid());
        return false;
    }
    return true;
}

const char *
paths_management_socket(char *out, size_t bytes)
{
    const char *given = getenv("SLUICE_CTL");
    char dir[PATHS_SOCKET_BYTES * 2];

    if (given != NULL && given[0] != '\0') {
        snprintf(out, bytes, "%s", given);
    } else {
        snprintf(out, bytes, "%s/ctl.sock", paths_runtime_dir(dir, sizeof(dir)));
    }
    return out;
}
