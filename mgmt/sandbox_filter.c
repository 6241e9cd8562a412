/* sandbox_filter.c - a list of system calls as a program for the kernel: libseccomp knows their numbers on every
 * machine and what an argument looks like there. */
#include "mgmt/sandbox.h"
#include "mgmt/sandbox_private.h"
#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NUMBERS 512 /* above the largest of a system call */

static char *names[NUMBERS];

/* ---- names ---- */

void
sandbox_names_open(void)
{
    for (int number = 0; number < NUMBERS; number++) {
        free(names[number]); /* of the time before */
        names[number] = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number);
    }
}

const char *
sandbox_call_name(int number)
{
    return number >= 0 && number < NUMBERS && names[number] != NULL ? names[number] : "";
}

int
sandbox_call_number(const struct sandbox_call *call)
{
    char name[32];
    int number = -2;

    for (const char *at = call->name; number < 0 && *at != '\0'; at += strcspn(at, "/"), at += *at == '/') {
        size_t bytes = MIN(strcspn(at, "/"), sizeof(name) - 1);
        memcpy(name, at, bytes);
        name[bytes] = '\0';
        number = seccomp_syscall_resolve_name(name);
        CHECK(number != __NR_SCMP_ERROR && number < NUMBERS);
    }
    return number;
}

/* ---- one row ---- */

static void
allow(scmp_filter_ctx context, int number, const struct scmp_arg_cmp *argument)
{
    int rc = seccomp_rule_add_array(context, SCMP_ACT_ALLOW, number, argument != NULL, argument);
    CHECK(rc == 0 || rc == -EEXIST); /* another need has it too */
}

static void
refuse(scmp_filter_ctx context, int number, const struct scmp_arg_cmp *argument)
{
    int rc = seccomp_rule_add_array(context, SCMP_ACT_ERRNO(EPERM), number, argument != NULL, argument);
    CHECK(rc == 0 || rc == -EEXIST);
}

static void
allow_equal(scmp_filter_ctx context, int number, uint64_t value)
{
    struct scmp_arg_cmp argument = SCMP_A0_64(SCMP_CMP_EQ, value, 0);
    allow(context, number, &argument);
}

static void
add_row(scmp_filter_ctx context, int number, enum sandbox_check check)
{
    static const int fatal[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
    struct scmp_arg_cmp plain = SCMP_A2_64(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0);
    struct scmp_arg_cmp network = SCMP_A0_64(SCMP_CMP_EQ, AF_INET, 0);

    switch (check) {
    case SANDBOX_ANY:
        allow(context, number, NULL);
        break;
    case SANDBOX_NO_EXEC:
        allow(context, number, &plain);
        break;
    case SANDBOX_OWN:
        allow_equal(context, number, (uint64_t)getpid());
        break;
    case SANDBOX_SELF:
        allow_equal(context, number, 0);
        break;
    case SANDBOX_FATAL:
        for (size_t i = 0; i < ARRAY_COUNT(fatal); i++) {
            allow_equal(context, number, (uint64_t)fatal[i]);
        }
        break;
    case SANDBOX_GET_NAME:
        allow_equal(context, number, PR_GET_NAME);
        break;
    case SANDBOX_UNIX:
        allow_equal(context, number, AF_UNIX);
        refuse(context, number, &network);
        break;
    case SANDBOX_REFUSED:
        refuse(context, number, NULL);
        break;
    }
}

/* ---- the whole ---- */

/* What one need is refused another may be allowed. */
static bool
is_allowed(int number, uint32_t needs)
{
    for (size_t i = 0; i < sandbox_call_count; i++) {
        const struct sandbox_call *row = &sandbox_calls[i];
        if ((row->need & needs) && row->check != SANDBOX_REFUSED && sandbox_call_number(row) == number) {
            return true;
        }
    }
    return false;
}

static uint32_t
add_rows(scmp_filter_ctx context, uint32_t needs)
{
    bool seen[NUMBERS] = { false };
    uint32_t calls = 0;

    for (size_t i = 0; i < sandbox_call_count; i++) {
        const struct sandbox_call *row = &sandbox_calls[i];
        int number = row->need & needs ? sandbox_call_number(row) : -1;
        if (number >= 0 && (row->check != SANDBOX_REFUSED || !is_allowed(number, needs))) {
            add_row(context, number, row->check);
            calls += !seen[number] && row->check != SANDBOX_REFUSED;
            seen[number] = true;
        }
    }
    return calls;
}

/* Version 2.5 writes to a descriptor only. */
static void
read_program(scmp_filter_ctx context, struct sock_fprog *program)
{
    struct stat stat;
    int fd = memfd_create("sandbox", MFD_CLOEXEC);

    CHECK(fd >= 0 && seccomp_export_bpf(context, fd) == 0 && fstat(fd, &stat) == 0);
    program->filter = malloc((size_t)stat.st_size);
    program->len = (unsigned short)((size_t)stat.st_size / sizeof(program->filter[0]));
    CHECK(program->filter != NULL && pread(fd, program->filter, (size_t)stat.st_size, 0) == stat.st_size);
    close(fd);
}

void
sandbox_filter_open(struct sandbox_filter *filter, uint32_t needs)
{
    /* Trapped, so that crash.c can say which call it was; what is not of this architecture cannot be named. */
    scmp_filter_ctx context = seccomp_init(SCMP_ACT_TRAP);

    CHECK(context != NULL && seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) == 0);
    CHECK(seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, 2) == 0); /* a tree: calls are found in few steps */
    filter->calls = add_rows(context, needs);
    read_program(context, &filter->program);
    seccomp_release(context);
}

void
sandbox_filter_close(struct sandbox_filter *filter)
{
    free(filter->program.filter);
    filter->program.filter = NULL;
}

bool
sandbox_filter_is_possible(void)
{
    uint32_t action = SECCOMP_RET_TRAP;

    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

int
sandbox_filter_take(const struct sandbox_filter *filter)
{
    /* Without the flag some kernels guard threads with filters against their own speculation, which slows them down; no
     * code of strangers runs here. */
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &filter->program) == 0
               ? 0
               : -errno;
}
