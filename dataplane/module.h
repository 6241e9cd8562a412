/* module.h - libraries that only some configurations need, opened on first use, without what they do to a process. */
#pragma once
#include "config/base.h"
#include <sched.h>
#include <signal.h>

/* What constructors and drivers change behind our back: measured, libinfinipath takes over SIGINT, SIGSEGV, SIGTERM and
 * others; providers and DPDK pin the calling thread. */
struct ambience {
    cpu_set_t affinity;
    bool affinity_known;
    struct sigaction actions[NSIG];
};
void ambience_save(struct ambience *ambience);
void ambience_restore(const struct ambience *ambience);

/* Open `file` (in $SLUICE_MODULE_DIR, beside the program, else in the library directory) and return what `symbol`
 * names; the ambience is kept. `remedy` says what to install.
 *
 * Returns  NULL with a sentence in `why`.
 * Lifetime the module stays open until the process ends: the libraries below it do not survive dlclose().
 * Threads  boot thread only. */
const void *module_open(const char *file, const char *symbol, const char *remedy, char *why, size_t why_bytes);
