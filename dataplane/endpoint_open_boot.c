/* endpoint_open_boot.c - opening the libfabric module, without what its libraries do to a process. */
#include "dataplane/endpoint.h"
#include "dataplane/module.h"

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

const struct endpoint_ops *
endpoint_libfabric(char *why, size_t why_bytes)
{
    if (module_ops == NULL) {
        environment_prepare();
        const struct endpoint_module *module =
            module_open(ENDPOINT_MODULE_FILE, ENDPOINT_MODULE_SYMBOL, "install libfabric1, or set SLUICE_MODULE_DIR",
                        why, why_bytes);
        if (module != NULL && module->abi != ENDPOINT_ABI) {
            snprintf(why, why_bytes, "%s is of another version of Sluice: install both from one build",
                     ENDPOINT_MODULE_FILE);
            module = NULL;
        }
        if (module == NULL) {
            return NULL;
        }
        module_ops = module->ops;
        guarded_ops = *module_ops;
        guarded_ops.open = guarded_open;
    }
    return &guarded_ops;
}
