/* sandbox.h - after the start no thread can do more than its own work needs.
 *
 * Every thread of the process, those that libfabric and DPDK started too, gives up capabilities, sets no_new_privs, and
 * takes a Landlock domain (which files, which TCP) and a seccomp filter (which system calls, sandbox_calls.c) of its
 * kind: the management core, an lcore, the helper, or a library's thread. An lcore's list holds what its own ports
 * need. A call outside the list ends the process; crash.c says which one and in which thread.
 *
 * A thread can restrict only itself, so each is sent a signal whose handler does it. Threads that start later inherit
 * from the one that starts them. No call is added to the data path. Calls that are permitted whatever their arguments
 * take 45 ns longer (a recv() that finds nothing: 341 and 386 ns, Linux 6.18, least of 4000 rounds); from Linux 5.11 on
 * they are looked up in a bitmap. A bypass port makes none.
 */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct mgmt;

/* Restrict every thread of the process, this one last, as sandbox.mode says. When all ports are open and all threads
 * run, before the ready line.
 *
 * Returns  false with a sentence in `why`: a thread cannot be restricted, or the kernel lacks something that
 *          sandbox.mode = "required" asks for. Some threads may be restricted then: the process has to end.
 * Threads  management.
 * Cost     some milliseconds; calls of other threads may be interrupted once. */
bool sandbox_enter(const struct mgmt *mgmt, char *why, size_t why_bytes);

/* "on", "on, without ...", "off" or "off: built with a sanitizer". */
const char *sandbox_state(void);

/* Version of Landlock's interface in use; 0: none. */
int sandbox_landlock(void);

/* A row for each kind of thread; what threads gave up is read from the kernel:
 * kind, threads, capabilities (of all of them), no_new_privs and seccomp (true: on every one), calls (permitted), files
 * (what Landlock lets them reach), needs (what their list is made of). Empty before sandbox_enter(). */
json_t *sandbox_threads(const struct mgmt *mgmt);

/* Of a system call of this machine; "" for an unknown number, and before sandbox_enter(). In signal handlers too. */
const char *sandbox_call_name(int number);
