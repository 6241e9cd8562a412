/* crash.h - when the program dies of a fault: where, in which build, and what the lcores had counted until then. */
#pragma once

struct mgmt;

/* A sanitizer reports faults itself, and knows more. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CRASH_SANITIZED true
#else
#define CRASH_SANITIZED false
#endif

/* Handlers for SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, and SIGSYS, which is a system call that the sandbox forbids,
 * that write a report to stderr and let the signal kill the process, with a core file where the system keeps them: one
 * that the kernel would write into the working directory needs sandbox.mode = "off", because Landlock holds for it too.
 * After modules were opened: libraries below libfabric install handlers of their own. The report takes no lock and no
 * memory.
 *
 * Threads  management. Any thread's fault is reported, but for one that has run out of its stack. */
void crash_open(const struct mgmt *mgmt);
/* The build id that the linker gave the program, hex; "" without one. */
const char *crash_build_id(void);
