/* child.h - children of a test that give up what a process cannot take back. */
#pragma once
#include "config/base.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Run statements in a child; `status` becomes that of waitpid(). */
#define CHILD(status, ...)                                                                                             \
    do {                                                                                                               \
        fflush(NULL);                                                                                                  \
        pid_t child = fork();                                                                                          \
        if (child == 0) {                                                                                              \
            __VA_ARGS__;                                                                                               \
            _exit(99);                                                                                                 \
        }                                                                                                              \
        CHECK(child > 0 && waitpid(child, &(status), 0) == child);                                                     \
        (status) &= ~WCOREFLAG;                                                                                        \
    } while (0)
#define CHILD_EXITED(code) ((code) << 8)

/* A call as another architecture makes it: x32, whose numbers are the same with a bit set. On arm64 there is none that
 * could be made from a 64-bit program, and the child ends with 0. */
#if defined(__x86_64__)
#define CHILD_OTHERWISE_STATUS SIGSYS
static inline void
child_call_otherwise(void)
{
    syscall(0x40000000 | 39); /* getpid */
}
#else
#define CHILD_OTHERWISE_STATUS 0
static inline void
child_call_otherwise(void)
{
}
#endif

static inline void
child_remove_folder(const char *folder)
{
    char command[256];

    snprintf(command, sizeof(command), "rm -rf --one-file-system '%s'", folder);
    CHECK(system(command) == 0);
}
