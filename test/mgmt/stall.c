/* stall.c - linked into a sluiced of the tests' own: ECHO of "stall" stands still for 5 ms. */
#include "dataplane/exec.h"
#include <time.h>

enum exec_result __real_exec_echo(struct exec *exec);
enum exec_result __wrap_exec_echo(struct exec *exec);

enum exec_result
__wrap_exec_echo(struct exec *exec)
{
    const struct arg *arg = &exec->request->args[0];

    if (arg->kind == ARG_BYTES && slice_equal(arg->bytes, SLICE_LITERAL("stall"))) {
        struct timespec pause = { .tv_nsec = 5000000 };
        nanosleep(&pause, NULL);
    }
    return __real_exec_echo(exec);
}
