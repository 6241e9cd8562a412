#include "dataplane/module.h"
#include <dlfcn.h>
#include <limits.h>
#include <unistd.h>

/* Set by the build: where `meson install` puts the modules. */
#define LIBRARY_DIR SLUICE_MODULE_INSTALL_DIR

void
ambience_save(struct ambience *ambience)
{
    ambience->affinity_known = sched_getaffinity(0, sizeof(ambience->affinity), &ambience->affinity) == 0;
    for (int signal = 1; signal < NSIG; signal++) {
        if (sigaction(signal, NULL, &ambience->actions[signal]) != 0) {
            ambience->actions[signal].sa_handler = SIG_ERR; /* libc keeps 32 and 33 to itself */
        }
    }
}

void
ambience_restore(const struct ambience *ambience)
{
    if (ambience->affinity_known) {
        (void)sched_setaffinity(0, sizeof(ambience->affinity), &ambience->affinity);
    }
    /* Real-time signals are nobody's: DPDK's tap driver takes one for what its device receives. */
    for (int signal = 1; signal < SIGRTMIN; signal++) {
        if (ambience->actions[signal].sa_handler != SIG_ERR) {
            (void)sigaction(signal, &ambience->actions[signal], NULL); /* SIGKILL and SIGSTOP refuse, unchanged */
        }
    }
}

/* The module beside the running program. False: longer than a path may be. */
static bool
path_beside_program(const char *file, char *path, size_t path_bytes)
{
    char program[PATH_MAX];
    ssize_t bytes = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (bytes <= 0) {
        return false;
    }
    program[bytes] = '\0';
    char *slash = strrchr(program, '/');
    if (slash == NULL) {
        return false;
    }
    *slash = '\0';
    return (size_t)snprintf(path, path_bytes, "%s/%s", program, file) < path_bytes;
}

static bool
module_path(const char *file, char *path, size_t path_bytes)
{
    const char *dir = secure_getenv("SLUICE_MODULE_DIR");

    if (dir != NULL) {
        return (size_t)snprintf(path, path_bytes, "%s/%s", dir, file) < path_bytes;
    }
    if (path_beside_program(file, path, path_bytes) && access(path, R_OK) == 0) {
        return true;
    }
    return (size_t)snprintf(path, path_bytes, "%s/%s", LIBRARY_DIR, file) < path_bytes;
}

const void *
module_open(const char *file, const char *symbol, const char *remedy, char *why, size_t why_bytes)
{
    char path[PATH_MAX];
    struct ambience ambience;

    if (!module_path(file, path, sizeof(path))) {
        snprintf(why, why_bytes, "the path of %s is too long", file);
        return NULL;
    }
    ambience_save(&ambience);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ambience_restore(&ambience);
    if (handle == NULL) {
        snprintf(why, why_bytes, "the module cannot be opened: %s; %s", dlerror(), remedy);
        return NULL;
    }
    const void *module = dlsym(handle, symbol);
    if (module == NULL) {
        snprintf(why, why_bytes, "%s is of another version of Sluice: install both from one build", path);
    }
    return module;
}
