/* stall.c - linked into a sluiced of the tests' own: ECHO of "stall" stands still for 5 ms, and ECHO of "forbidden"
 * makes a system call that is on no lcore's list. */
#include "config/cycles.h"
#include "dataplane/dataplane.h"
#include "dataplane/exec.h"
#include <sys/syscall.h>
#include <unistd.h>

#define STALL_NS 5000000

enum exec_result __real_exec_echo(struct exec *exec);
enum exec_result __wrap_exec_echo(struct exec *exec);

/* An lcore may not sleep so, and its sandbox knows. */
static void
stand_still(const struct lcore *lcore)
{
    uint64_t begun = cycles_now();

    while (lcore_ns(lcore, cycles_now() - begun) < STALL_NS) {
        cpu_relax();
    }
}

static bool
is_word(const struct arg *arg, struct slice word)
{
    return arg->kind == ARG_BYTES && slice_equal(arg->bytes, word);
}

enum exec_result
__wrap_exec_echo(struct exec *exec)
{
    const struct arg *arg = &exec->request->args[0];

    if (is_word(arg, SLICE_LITERAL("stall"))) {
        stand_still(exec->lcore);
    }
    if (is_word(arg, SLICE_LITERAL("forbidden"))) {
        (void)syscall(SYS_getppid);
    }
    return __real_exec_echo(exec);
}
