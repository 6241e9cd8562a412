#include "mgmt/crash.h"
#include "mgmt/mgmt.h"
#include "mgmt/sandbox.h"
#include <elf.h>
#include <execinfo.h>
#include <link.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#define FRAMES_MOST    64
#define BUILD_ID_BYTES 20
#define STACK_BYTES    (64 * KIB)
#define FROM_FILTER    1 /* SYS_SECCOMP of the kernel's headers: si_code of a SIGSYS */

static const int numbers[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS };
static const struct mgmt *reported;
static char build_id[2 * BUILD_ID_BYTES + 1];
static _Atomic uint32_t crashing;

/* ---- the build id ---- */

/* Of the program itself, which is the first object. */
static int
find_build_id(struct dl_phdr_info *info, size_t bytes, void *context)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        const char *at = (const char *)(info->dlpi_addr + header->p_vaddr), *end = at + header->p_memsz;
        while (header->p_type == PT_NOTE && at + sizeof(ElfW(Nhdr)) < end) {
            const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
            const uint8_t *id = (const uint8_t *)at + sizeof(*note) + (note->n_namesz + 3) / 4 * 4;
            if (note->n_type == NT_GNU_BUILD_ID && note->n_descsz <= BUILD_ID_BYTES) {
                for (uint32_t byte = 0; byte < note->n_descsz; byte++) {
                    snprintf(build_id + 2 * byte, 3, "%02x", id[byte]);
                }
                return 1;
            }
            at += sizeof(*note) + (note->n_namesz + 3) / 4 * 4 + (note->n_descsz + 3) / 4 * 4;
        }
    }
    return 1;
}

const char *
crash_build_id(void)
{
    if (build_id[0] == '\0') {
        dl_iterate_phdr(find_build_id, NULL);
    }
    return build_id;
}

/* ---- the report: only what a signal handler may do ---- */

static void
put(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written; /* there is nobody else to tell */
}

static void
put_number(uint64_t number, unsigned base)
{
    char text[24], *at = text + sizeof(text) - 1;

    *at = '\0';
    do {
        *--at = "0123456789abcdef"[number % base];
        number /= base;
    } while (number > 0);
    put(at);
}

static void
put_field(const char *name, uint64_t number)
{
    put(name);
    put_number(number, 10);
}

static void
put_lcores(void)
{
    const struct dataplane *dataplane = reported->dataplane;

    for (uint32_t i = 0; i < dataplane->lcore_count; i++) {
        const struct lcore_counters *counters = dataplane->lcores[i]->counters;
        put_field("crash: lcore ", i);
        put_field(": thread ", (uint64_t)dataplane->lcores[i]->tid);
        put_field(", turns ", load_relaxed(&counters->turns));
        put_field(", requests ", load_relaxed(&counters->requests));
        put_field(", sessions ", load_relaxed(&counters->sessions_open));
        put_field(", error replies ", load_relaxed(&counters->replies_error));
        put("\n");
    }
}

static void
put_cause(int number, const siginfo_t *info)
{
    if (number == SIGSYS && info->si_code == FROM_FILTER) {
        put_field("crash: system call ", (uint64_t)info->si_syscall);
        put(" (");
        put(sandbox_call_name(info->si_syscall));
        put("), which the sandbox forbids,");
        return;
    }
    put_field("crash: signal ", (uint64_t)number);
    put(number == SIGABRT ? " (abort)" : number == SIGSEGV ? " (segmentation fault)" : "");
    if (number != SIGABRT) {
        put(" at address 0x");
        put_number((uint64_t)(uintptr_t)info->si_addr, 16);
    }
}

static void
report(int number, const siginfo_t *info)
{
    void *frames[FRAMES_MOST];
    char name[17] = "";

    prctl(PR_GET_NAME, name);
    put_cause(number, info);
    put_field(" in thread ", (uint64_t)gettid());
    put(" (");
    put(name);
    put(")\ncrash: sluiced " SLUICE_VERSION ", build id ");
    put(build_id[0] == '\0' ? "unknown" : build_id);
    put("\n");
    if (reported->dataplane != NULL) {
        put_lcores();
    }
    put("crash: frames, for addr2line -e and the build id above:\n");
    backtrace_symbols_fd(frames, backtrace(frames, FRAMES_MOST), STDERR_FILENO);
}

/* The first thread reports; one that crashes meanwhile waits for the end that the first brings. */
static void
on_crash(int number, siginfo_t *info, void *context)
{
    uint32_t none = 0, thread = (uint32_t)gettid();

    if (cas_relaxed(&crashing, &none, thread)) { /* only which came first matters */
        report(number, info);
    } else if (none != thread) {
        for (;;) {
            pause();
        }
    }
    struct sigaction action = { .sa_handler = SIG_DFL };
    sigaction(number, &action, NULL); /* of SIGSYS, in the sandbox: forbidden too, and that ends the process here */
    raise(number); /* pending until the handler returns; a fault would come again by itself, an abort too */
}

void
crash_open(const struct mgmt *mgmt)
{
    struct sigaction action = { .sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    void *frame;
    stack_t stack = { .ss_sp = malloc(STACK_BYTES), .ss_size = STACK_BYTES };

    crash_build_id();
    if (CRASH_SANITIZED) {
        free(stack.ss_sp);
        return;
    }
    CHECK(stack.ss_sp != NULL && sigaltstack(&stack, NULL) == 0);
    reported = mgmt;
    backtrace(&frame, 1); /* its first call loads libgcc, which takes memory */
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        CHECK(sigaction(numbers[i], &action, NULL) == 0);
    }
}
