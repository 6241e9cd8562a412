/* test_sandbox_threads.c - every thread of an appliance is restricted, whoever started it, and what the kernel lacks is
 * said. Each test is a child: nobody can take a sandbox off again. */
#include "mgmt/crash.h"
#include "mgmt/sandbox.h"
#include "mgmt/sandbox_private.h"
#include "test/mgmt/appliance.h"
#include "test/mgmt/child.h"
#include <CUnit/Basic.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static struct mgmt mgmt;
static char why[1024];
static _Atomic uint32_t told; /* to a library's thread: what to do; release, pairs with its acquire */
static _Atomic uint32_t up;   /* it has begun; release, pairs with the acquire in boot() */

enum { TOLD_WAIT, TOLD_END, TOLD_FORBIDDEN, TOLD_START };

static void *
idle(void *unused)
{
    while (load_acquire(&told) != TOLD_END) {
        sched_yield();
    }
    return NULL;
}

/* As a library would start it. */
static void *
library_main(void *blocks)
{
    pthread_t child;
    sigset_t all;

    prctl(PR_SET_NAME, "stranger");
    if (blocks != NULL) {
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, NULL);
    }
    store_release(&up, 1); /* pairs with the acquire in boot() */
    for (;;) {
        uint32_t what = load_acquire(&told); /* pairs with the stores of the tests */
        if (what == TOLD_FORBIDDEN) {
            syscall(SYS_getppid);
        } else if (what == TOLD_START) {
            (void)pthread_create(&child, NULL, idle, NULL);
        } else if (what == TOLD_END) {
            return NULL;
        }
        struct epoll_event none;
        (void)epoll_wait(-1, &none, 1, 1);
    }
}

static void
boot(const char *mode, bool blocks)
{
    char setting[64];

    snprintf(setting, sizeof(setting), "sandbox.mode=%s", mode);
    const char *overrides[] = { setting, "log.level=error", "lcores.idle=adaptive" };
    pthread_t thread;
    struct rlimit none = { 0, 0 };

    setrlimit(RLIMIT_CORE, &none);
    appliance_open(&mgmt, overrides, ARRAY_COUNT(overrides));
    CHECK(dataplane_start(mgmt.dataplane) == 0);
    CHECK(pthread_create(&thread, NULL, library_main, blocks ? "" : NULL) == 0);
    while (!load_acquire(&up)) { /* pairs with the release in library_main() */
        sched_yield();
    }
}

/* Threads of this process; *open: those that lack something. */
static int
look_at_threads(int *open)
{
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;
    int count = 0;

    *open = 0;
    while ((entry = readdir(dir)) != NULL) {
        char path[300], text[4096] = "";
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (file == NULL) {
            continue;
        }
        size_t bytes = fread(text, 1, sizeof(text) - 1, file);
        text[bytes] = '\0';
        fclose(file);
        count++;
        *open += strstr(text, "\nCapEff:\t0000000000000000\n") == NULL ||
                 strstr(text, "\nCapPrm:\t0000000000000000\n") == NULL || strstr(text, "\nNoNewPrivs:\t1\n") == NULL ||
                 strstr(text, "\nSeccomp:\t2\n") == NULL;
    }
    closedir(dir);
    return count;
}

/* Answer `error` to a system call, as a kernel without it does. */
static void
take_away(int number, int error)
{
    scmp_filter_ctx context = seccomp_init(SCMP_ACT_ALLOW);

    CHECK(context != NULL && seccomp_rule_add(context, SCMP_ACT_ERRNO((uint32_t)error), number, 0) == 0);
    CHECK(seccomp_load(context) == 0);
}

/* ---- */

static int
enter_and_look(void)
{
    int open, before;

    boot("required", false);
    before = look_at_threads(&open);
    if (before != 4 || open != 4 || !sandbox_enter(&mgmt, why, sizeof(why)) || look_at_threads(&open) != 4) {
        fprintf(stderr, "%d threads, %d open: %s\n", before, open, why);
        return 1;
    }
    json_t *rows = sandbox_threads(&mgmt);
    if (open != 0) {
        fprintf(stderr, "%d threads are open\n", open);
    }
    bool said = json_array_size(rows) == 4 && strcmp(sandbox_state(), "on") == 0 && sandbox_call_name(0)[0] != '\0';
    return open == 0 && said ? 0 : 2;
}

static void
every_thread_is_restricted(void)
{
    int status;

    CHILD(status, _exit(enter_and_look()));
    CU_ASSERT_EQUAL(status, 0);
}

static void
off_leaves_everything_as_it_was(void)
{
    int status, open;

    CHILD(status, {
        boot("off", false);
        bool entered = sandbox_enter(&mgmt, why, sizeof(why));
        int count = look_at_threads(&open);
        _exit(!entered || count != 4 || open != 4 || strcmp(sandbox_state(), "off") != 0);
    });
    CU_ASSERT_EQUAL(status, 0);
}

static void
a_thread_that_blocks_signals_is_named(void)
{
    int status;

    CHILD(status, {
        boot("on", true);
        bool entered = sandbox_enter(&mgmt, why, sizeof(why));
        if (strstr(why, "(stranger) blocks the signal") == NULL) {
            fprintf(stderr, "%s\n", why);
        }
        _exit(entered || strstr(why, "(stranger) blocks the signal") == NULL);
    });
    CU_ASSERT_EQUAL(status, 0);
}

static int
enter_without(int number, int error, const char *mode, const char *expected)
{
    boot(mode, false);
    take_away(number, error);
    bool entered = sandbox_enter(&mgmt, why, sizeof(why));
    const char *said = entered ? sandbox_state() : why;

    if (strcmp(said, expected) != 0) {
        fprintf(stderr, "%s\n", said);
    }
    return strcmp(said, expected) != 0;
}

static void
what_the_kernel_lacks_is_said_or_required(void)
{
    static const struct {
        int number, error;
        const char *mode, *expected;
    } rows[] = {
        { SYS_landlock_create_ruleset, ENOSYS, "on", "on, without Landlock" },
        { SYS_landlock_create_ruleset, EOPNOTSUPP, "on", "on, without Landlock" },
        { SYS_landlock_create_ruleset, ENOSYS, "required",
          "sandbox.mode: \"required\", but this kernel has no Landlock; \"on\" takes what "
          "there is" },
        { SYS_seccomp, ENOSYS, "on", "on, without seccomp filters" },
        { SYS_seccomp, EINVAL, "required",
          "sandbox.mode: \"required\", but this kernel has no seccomp filters; \"on\" takes what there is" },
    };

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        int status;
        CHILD(status, _exit(enter_without(rows[i].number, rows[i].error, rows[i].mode, rows[i].expected)));
        CU_ASSERT_EQUAL(status, 0);
    }
}

/* The report goes to a pipe. */
static void
a_forbidden_call_ends_the_process_with_a_line(void)
{
    char text[4096] = "";
    int status, pipes[2];

    CHECK(pipe(pipes) == 0);
    CHILD(status, {
        dup2(pipes[1], STDERR_FILENO);
        boot("on", false);
        crash_open(&mgmt);
        CHECK(sandbox_enter(&mgmt, why, sizeof(why)));
        store_release(&told, TOLD_FORBIDDEN);
        idle(NULL);
    });
    CU_ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
    CU_ASSERT_TRUE(read(pipes[0], text, sizeof(text) - 1) > 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "crash: system call "));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, " (getppid), which the sandbox forbids, in thread "));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, " (stranger)\n"));
    close(pipes[0]);
    close(pipes[1]);
}

static void
a_thread_cannot_start_another(void)
{
    int status;

    CHILD(status, {
        boot("on", false);
        CHECK(sandbox_enter(&mgmt, why, sizeof(why)));
        store_release(&told, TOLD_START);
        idle(NULL);
    });
    CU_ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}

/* Faults are still reported under their own name, by a thread that may change no handler. */
static void
a_fault_is_still_a_fault(void)
{
    int status;

    CHILD(status, {
        boot("on", false);
        crash_open(&mgmt);
        CHECK(sandbox_enter(&mgmt, why, sizeof(why)));
        abort();
    });
    CU_ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int
main(void)
{
    if (!sandbox_filter_is_possible() || sandbox_files_abi() == 0 || CRASH_SANITIZED) {
        printf("no seccomp, no Landlock, or a sanitizer, which the sandbox leaves alone\n");
        return 77;
    }
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("sandbox threads", NULL, NULL);
    CU_ADD_TEST(suite, a_thread_that_blocks_signals_is_named);
    CU_ADD_TEST(suite, what_the_kernel_lacks_is_said_or_required);
    CU_ADD_TEST(suite, every_thread_is_restricted);
    CU_ADD_TEST(suite, off_leaves_everything_as_it_was);
    CU_ADD_TEST(suite, a_forbidden_call_ends_the_process_with_a_line);
    CU_ADD_TEST(suite, a_thread_cannot_start_another);
    CU_ADD_TEST(suite, a_fault_is_still_a_fault);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
