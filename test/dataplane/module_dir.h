/* module_dir.h - where a test program finds the modules of its build: build/ above build/test/FOLDER/program. */
#pragma once
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void
module_dir_set(void)
{
    char path[PATH_MAX];
    ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (bytes <= 0) {
        return;
    }
    path[bytes] = '\0';
    for (int up = 0; up < 3; up++) {
        char *slash = strrchr(path, '/');
        if (slash != NULL) {
            *slash = '\0';
        }
    }
    setenv("SLUICE_MODULE_DIR", path, 0);
}
