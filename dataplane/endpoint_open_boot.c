/* endpoint_open_boot.c - opening the libfabric module, without what its libraries do to a process. */
#include "dataplane/endpoint.h"
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

/* Set by the build: where `meson install` puts the module. */
#define LIBRARY_DIR SLUICE_MODULE_INSTALL_DIR

/* What constructors and providers change behind our back: measured, libinfinipath takes over SIGINT, SIGSEGV, SIGTERM
 * and others, and some providers pin the calling thread. */
struct ambience {
    cpu_set_t affinity;
    bool affinity_known;
    struct sigaction actions[NSIG];
};

static void
ambience_save(struct ambience *ambience)
{
    ambience->affinity_known = sched_getaffinity(0, sizeof(ambience->affinity), &ambience->affinity) == 0;
    for (int signal = 1; signal < NSIG; signal++) {
        if (sigaction(signal, NULL, &ambience->actions[signal]) != 0) {
            ambience->actions[signal].sa_handler = SIG_ERR; /* libc keeps 32 and 33 to itself */
        }
    }
}

static void
ambience_restore(const struct ambience *ambience)
{
    if (ambience->affinity_known) {
        (void)sched_setaffinity(0, sizeof(ambience->affinity), &ambience->affinity);
    }
    for (int signal = 1; signal < NSIG; signal++) {
        if (ambience->actions[signal].sa_handler != SIG_ERR) {
            (void)sigaction(signal, &ambience->actions[signal], NULL); /* SIGKILL and SIGSTOP refuse, unchanged */
        }
    }
}

/* Defaults for the libraries below, which an operator's environment overrides. */
static void
environment_prepare(void)
{
    setenv("IPATH_NO_BACKTRACE", "1", 0);
    setenv("HFI_NO_BACKTRACE", "1", 0);
    setenv("PSM_NO_BACKTRACE", "1", 0);
    /* efa receives into our slots without a copy only when its own shared-memory path is off */
    setenv("FI_EFA_ENABLE_SHM_TRANSFER", "0", 0);
}

static const struct endpoint_ops *module_ops;
static struct endpoint_ops guarded_ops;

static int
guarded_open(const struct endpoint_config *config, struct endpoint **out, char *why, size_t why_bytes)
{
    struct ambience ambience;

    ambience_save(&ambience);
    int rc = module_ops->open(config, out, why, why_bytes);
    ambience_restore(&ambience);
    return rc;
}

/* The module beside the running program. False: longer than a path may be. */
static bool
path_beside_program(char *path, size_t path_bytes)
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
    return (size_t)snprintf(path, path_bytes, "%s/%s", program, ENDPOINT_MODULE_FILE) < path_bytes;
}

static bool
module_path(char *path, size_t path_bytes)
{
    const char *dir = secure_getenv("SLUICE_MODULE_DIR");

    if (dir != NULL) {
        return (size_t)snprintf(path, path_bytes, "%s/%s", dir, ENDPOINT_MODULE_FILE) < path_bytes;
    }
    if (path_beside_program(path, path_bytes) && access(path, R_OK) == 0) {
        return true;
    }
    return (size_t)snprintf(path, path_bytes, "%s/%s", LIBRARY_DIR, ENDPOINT_MODULE_FILE) < path_bytes;
}

static const struct endpoint_module *
module_load(char *why, size_t why_bytes)
{
    char path[PATH_MAX];

    if (!module_path(path, sizeof(path))) {
        snprintf(why, why_bytes, "the path of %s is too long", ENDPOINT_MODULE_FILE);
        return NULL;
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        snprintf(why, why_bytes, "the fabric module cannot be opened: %s; install libfabric1, or set SLUICE_MODULE_DIR",
                 dlerror());
        return NULL;
    }
    const struct endpoint_module *module = dlsym(handle, ENDPOINT_MODULE_SYMBOL);
    if (module == NULL || module->abi != ENDPOINT_ABI) {
        snprintf(why, why_bytes, "%s is of another version of Sluice: install both from one build", path);
        return NULL;
    }
    return module;
}

const struct endpoint_ops *
endpoint_libfabric(char *why, size_t why_bytes)
{
    if (module_ops == NULL) {
        struct ambience ambience;
        environment_prepare();
        ambience_save(&ambience);
        const struct endpoint_module *module = module_load(why, why_bytes);
        ambience_restore(&ambience);
        if (module == NULL) {
            return NULL;
        }
        module_ops = module->ops;
        guarded_ops = *module_ops;
        guarded_ops.open = guarded_open;
    }
    return &guarded_ops;
}
