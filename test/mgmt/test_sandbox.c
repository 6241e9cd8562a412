/* test_sandbox.c - what a filter permits and what a Landlock domain reaches, tried call by call and file by file in
 * children. `test_sandbox --rows` prints the table of calls for test/external/sandbox.py. */
#include "config/sync.h"
#include "mgmt/crash.h"
#include "mgmt/sandbox.h"
#include "mgmt/sandbox_private.h"
#include "test/mgmt/child.h"
#include <CUnit/Basic.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALLS 470 /* numbers above are not given out yet */

static const char *const checks[] = { "any", "no-exec", "own", "self", "fatal", "name", "unix", "refused" };

static int
print_rows(void)
{
    sandbox_names_open();
    for (size_t i = 0; i < sandbox_call_count; i++) {
        const struct sandbox_call *row = &sandbox_calls[i];
        int number = sandbox_call_number(row);
        if (number >= 0) {
            printf("%s\t%s\t%s\t%s\n", sandbox_need_names[__builtin_ctz(row->need)], sandbox_call_name(number),
                   checks[row->check], row->unseen == NULL ? "-" : row->unseen);
        }
    }
    return 0;
}

/* ---- filters ---- */

static _Atomic uint32_t trapped; /* relaxed: written by a handler of the same thread, or of one that is joined */

static void
on_trap(int number)
{
    store_relaxed(&trapped, 1);
}

/* A child from here on: traps are counted instead of ending it. */
static void
take_filter(uint32_t needs)
{
    struct sandbox_filter filter;
    struct sigaction action = { .sa_handler = on_trap };

    sandbox_filter_open(&filter, needs);
    CHECK(sigaction(SIGSYS, &action, NULL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(sandbox_filter_take(&filter) == 0);
}

static bool
is_trapped(long number, long first, long third)
{
    store_relaxed(&trapped, 0);
    syscall(number, first, -1, third, -1, -1, -1);
    return load_relaxed(&trapped) != 0;
}

static long
first_argument(enum sandbox_check check)
{
    return check == SANDBOX_OWN        ? getpid()
           : check == SANDBOX_SELF     ? 0
           : check == SANDBOX_FATAL    ? SIGSEGV
           : check == SANDBOX_GET_NAME ? PR_GET_NAME
           : check == SANDBOX_UNIX     ? AF_UNIX
                                       : -1;
}

/* The row that permits a call to a thread with these needs, or refuses it; NULL: none. */
static const struct sandbox_call *
row_of(int number, uint32_t needs)
{
    const struct sandbox_call *found = NULL;

    for (size_t i = 0; i < sandbox_call_count; i++) {
        const struct sandbox_call *row = &sandbox_calls[i];
        if ((row->need & needs) && sandbox_call_number(row) == number && (found == NULL || row->check == SANDBOX_ANY)) {
            found = row;
        }
    }
    return found;
}

/* Those that would end, stop or confuse the child. */
static bool
is_tried(int number)
{
    const char *const untried[] = { "exit", "exit_group", "rt_sigreturn", "pause" };

    for (size_t i = 0; i < ARRAY_COUNT(untried); i++) {
        if (strcmp(sandbox_call_name(number), untried[i]) == 0) {
            return false;
        }
    }
    return sandbox_call_name(number)[0] != '\0';
}

static int
try_every_call(uint32_t needs)
{
    const struct sandbox_call *rows[CALLS];
    int wrong = 0, counted[2] = { 0 };

    sandbox_names_open();
    for (int number = 0; number < CALLS; number++) {
        rows[number] = row_of(number, needs);
    }
    long own = getpid();
    CHECK(own == first_argument(SANDBOX_OWN));
    take_filter(needs);
    for (int number = 0; number < CALLS; number++) {
        long first = rows[number] == NULL ? -1 : first_argument(rows[number]->check);
        if (!is_tried(number)) {
            continue;
        }
        bool permitted = !is_trapped(number, first, 0);
        counted[permitted]++;
        if (permitted != (rows[number] != NULL)) {
            fprintf(stderr, "%s is %s\n", sandbox_call_name(number), permitted ? "permitted" : "trapped");
            wrong++;
        }
    }
    return wrong > 0 || counted[0] < 200 || counted[1] < 10;
}

static void
each_list_permits_its_calls_and_traps_every_other(void)
{
    static const uint32_t sets[] = {
        SANDBOX_BASE | SANDBOX_IDLE,
        SANDBOX_BASE | SANDBOX_IDLE | SANDBOX_SOCKET,
        SANDBOX_BASE | SANDBOX_IDLE | SANDBOX_SOCKET | SANDBOX_SHM,
        SANDBOX_BASE | SANDBOX_IDLE | SANDBOX_SHM | SANDBOX_FABRIC,
        SANDBOX_BASE | SANDBOX_IDLE | SANDBOX_FABRIC_DEVICE,
        SANDBOX_BASE | SANDBOX_IDLE | SANDBOX_AF_PACKET,
        SANDBOX_BASE | SANDBOX_IDLE | SANDBOX_TAP | SANDBOX_PCAP,
        SANDBOX_BASE | SANDBOX_IDLE | SANDBOX_PCI,
        SANDBOX_BASE | SANDBOX_HELPER,
        SANDBOX_BASE | SANDBOX_LIBRARY,
        SANDBOX_BASE | SANDBOX_MGMT,
    };

    for (size_t i = 0; i < ARRAY_COUNT(sets); i++) {
        int status;
        CHILD(status, exit(try_every_call(sets[i])));
        CU_ASSERT_EQUAL(status, 0);
    }
}

static int
try_arguments(void)
{
    const struct {
        long number, first, third;
    } forbidden[] = {
        { SYS_mmap, 0, PROT_READ | PROT_EXEC },
        { SYS_mprotect, 0, PROT_EXEC },
        { SYS_tgkill, getppid(), 0 },
        { SYS_tgkill, 0, 0 },
        { SYS_prlimit64, getppid(), 0 },
        { SYS_prlimit64, 1, 0 },
        { SYS_prctl, PR_SET_NAME, 0 },
        { SYS_prctl, PR_SET_DUMPABLE, 0 },
        { SYS_rt_sigaction, SIGSYS, 0 },
        { SYS_rt_sigaction, SIGTERM, 0 },
        { SYS_socket, AF_NETLINK, 0 },
        { SYS_socket, AF_INET6, 0 },
        { SYS_socket, AF_PACKET, 0 },
        { SYS_execve, 0, 0 },
        { SYS_clone, SIGCHLD, 0 },
        { SYS_ptrace, 0, 0 },
        { SYS_seccomp, 0, 0 },
        { SYS_io_uring_setup, 1, 0 },
    };
    int wrong = 0;

    take_filter(SANDBOX_BASE | SANDBOX_MGMT);
    for (size_t i = 0; i < ARRAY_COUNT(forbidden); i++) {
        if (!is_trapped(forbidden[i].number, forbidden[i].first, forbidden[i].third)) {
            fprintf(stderr, "call %ld with %ld is permitted\n", forbidden[i].number, forbidden[i].first);
            wrong++;
        }
    }
    store_relaxed(&trapped, 0);
    wrong += socket(AF_INET, SOCK_DGRAM, 0) != -1 || errno != EPERM || load_relaxed(&trapped);
    wrong += mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED || load_relaxed(&trapped);
    return wrong;
}

static void
arguments_are_looked_at(void)
{
    int status;

    CHILD(status, exit(try_arguments()));
    CU_ASSERT_EQUAL(status, 0);
}

static void
what_one_port_is_refused_another_may_need(void)
{
    int status;

    CHILD(status, {
        take_filter(SANDBOX_BASE | SANDBOX_FABRIC);
        exit(openat(AT_FDCWD, "/proc/meminfo", O_RDONLY) != -1 || errno != EPERM || load_relaxed(&trapped));
    });
    CU_ASSERT_EQUAL(status, 0);
    CHILD(status, {
        take_filter(SANDBOX_BASE | SANDBOX_FABRIC | SANDBOX_SHM);
        exit(openat(AT_FDCWD, "/proc/meminfo", O_RDONLY) < 0 || load_relaxed(&trapped));
    });
    CU_ASSERT_EQUAL(status, 0);
}

#define USERS      12 /* the C library asks how many CPUs there are before it makes the ninth arena */
#define USER_BYTES (32 * KIB)

static struct sandbox_filter users_filter;
static pthread_barrier_t users_barrier;

/* Takes memory for the first time in its life, and gives back so much of it that the arena shrinks. */
static void *
use_memory(void *context)
{
    void *blocks[64];

    CHECK(sandbox_filter_take(&users_filter) == 0);
    for (size_t i = 0; i < ARRAY_COUNT(blocks); i++) {
        CHECK((blocks[i] = malloc(USER_BYTES)) != NULL);
        memset(blocks[i], 1, USER_BYTES);
    }
    pthread_barrier_wait(&users_barrier); /* an arena of a thread that has ended would be taken over */
    for (size_t i = 0; i < ARRAY_COUNT(blocks); i++) {
        free(blocks[i]);
    }
    return NULL;
}

static int
use_memory_in_many_threads(uint32_t needs)
{
    struct sigaction action = { .sa_handler = on_trap };
    pthread_t threads[USERS];

    sandbox_filter_open(&users_filter, needs);
    CHECK(sigaction(SIGSYS, &action, NULL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(pthread_barrier_init(&users_barrier, NULL, USERS) == 0);
    for (size_t i = 0; i < USERS; i++) {
        CHECK(pthread_create(&threads[i], NULL, use_memory, NULL) == 0);
    }
    for (size_t i = 0; i < USERS; i++) {
        pthread_join(threads[i], NULL);
    }
    return load_relaxed(&trapped);
}

static void
any_number_of_threads_takes_memory_for_the_first_time(void)
{
    static const uint32_t sets[] = { SANDBOX_IDLE, SANDBOX_HELPER, SANDBOX_LIBRARY, SANDBOX_IDLE | SANDBOX_SHM };

    for (size_t i = 0; i < ARRAY_COUNT(sets); i++) {
        int status;
        CHILD(status, exit(use_memory_in_many_threads(SANDBOX_BASE | sets[i])));
        CU_ASSERT_EQUAL(status, 0);
    }
}

/* The handler does not help: the kernel ends the process. */
static void
calls_of_another_architecture_end_the_process(void)
{
    int status;

    CHILD(status, {
        take_filter(SANDBOX_BASE | SANDBOX_MGMT);
        child_call_otherwise();
        exit(0);
    });
    CU_ASSERT_EQUAL(status, CHILD_OTHERWISE_STATUS);
}

/* ---- files ---- */

static char folder[] = "/tmp/sluice-sandbox-XXXXXX";

static const char *
within(const char *name)
{
    static char path[4][PATH_MAX];
    static unsigned turn;
    char *out = path[turn++ % 4];

    snprintf(out, PATH_MAX, "%s/%s", folder, name);
    return out;
}

static bool
makes(const char *name)
{
    int fd = open(within(name), O_WRONLY | O_CREAT | O_EXCL, 0600);

    return fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0;
}

static bool
reads(const char *path)
{
    int fd = open(path, O_RDONLY);

    return fd >= 0 && close(fd) == 0;
}

static int
connect_error(void)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(1), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    return connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 ? 0 : errno;
}

/* One letter a step that went otherwise than it should. */
static int
try_files(bool connects)
{
    static struct sandbox_files files;
    int wrong = 0;

    files.connects = connects;
    sandbox_files_add(&files, within("read"), SANDBOX_READ);
    sandbox_files_add(&files, within("save"), SANDBOX_SAVE);
    sandbox_files_add(&files, within("make"), SANDBOX_MAKE);
    sandbox_files_add(&files, within("remove"), SANDBOX_REMOVE);
    sandbox_files_add(&files, within("share"), SANDBOX_SHARE);
    sandbox_files_add(&files, within("absent"), SANDBOX_SAVE);
    CHECK(sandbox_files_open(&files) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(sandbox_files_take(&files) == 0);

    wrong += reads("/etc/passwd") || reads(folder) || reads("/proc/self/status") || reads(within("make/old"));
    wrong += makes("new") || makes("read/new") || makes("remove/new") || makes("share/new") || makes("absent");
    wrong += open(within("read/old"), O_WRONLY) >= 0 || unlink(within("read/old")) == 0 || !reads(within("read/old"));
    wrong += unlink(within("make/old")) == 0 || !makes("make/new") || rename(within("make/new"), within("make/x")) == 0;
    wrong += unlink(within("remove/old")) != 0 || open(within("share/old"), O_RDWR) < 0;
    wrong += !makes("save/new") || rename(within("save/new"), within("save/old")) != 0 || !reads(within("save/old"));
    wrong += rename(within("save/old"), within("make/other")) == 0 || !reads(within("save"));
    wrong += mkdir(within("save/folder"), 0700) == 0 || symlink("/etc/passwd", within("save/link")) == 0;
    wrong += mkfifo(within("save/pipe"), 0600) == 0 || link("/etc/passwd", within("save/hard")) == 0;
    execl("/bin/true", "true", NULL); /* would end the child with 0 */
    wrong += sandbox_files_abi() >= 4 && (connect_error() == EACCES) == connects;
    return wrong == 0 ? 7 : wrong + 10;
}

static void
files_outside_are_out_of_reach(void)
{
    static const char *const names[] = { "read", "save", "make", "remove", "share" };
    int status;

    for (int connects = 0; connects < 2; connects++) {
        for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
            char old[32];
            snprintf(old, sizeof(old), "%s/old", names[i]);
            mkdir(within(names[i]), 0700);
            unlink(within(old));
            CU_ASSERT_TRUE(makes(old));
        }
        unlink(within("make/new"));
        CHILD(status, exit(try_files(connects)));
        CU_ASSERT_EQUAL(status, CHILD_EXITED(7));
    }
}

static void
what_is_reached_is_said(void)
{
    static struct sandbox_files files;
    char text[200];

    CU_ASSERT_STRING_EQUAL(sandbox_files_text(&files, text, sizeof(text)), "none");
    sandbox_files_add(&files, "/proc", SANDBOX_READ);
    sandbox_files_add(&files, "/run/sluice", SANDBOX_REMOVE);
    sandbox_files_add(&files, "/sys", SANDBOX_READ);
    sandbox_files_add(&files, "/run/sluice", SANDBOX_MAKE);
    CU_ASSERT_EQUAL(files.count, 3);
    CU_ASSERT_STRING_EQUAL(sandbox_files_text(&files, text, sizeof(text)),
                           "reads /proc /sys, writes to /run/sluice, removes from /run/sluice");
    CU_ASSERT_STRING_EQUAL(sandbox_files_text(&files, text, 8), "reads /");
}

int
main(int argc, char **argv)
{
    if (argc > 1) {
        return print_rows();
    }
    if (!sandbox_filter_is_possible() || sandbox_files_abi() == 0) {
        printf("this kernel has no seccomp or no Landlock\n");
        return 77;
    }
    CHECK(mkdtemp(folder) != NULL);
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("sandbox", NULL, NULL);
    CU_ADD_TEST(suite, each_list_permits_its_calls_and_traps_every_other);
    CU_ADD_TEST(suite, arguments_are_looked_at);
    CU_ADD_TEST(suite, what_one_port_is_refused_another_may_need);
    CU_ADD_TEST(suite, any_number_of_threads_takes_memory_for_the_first_time);
    CU_ADD_TEST(suite, calls_of_another_architecture_end_the_process);
    CU_ADD_TEST(suite, files_outside_are_out_of_reach);
    CU_ADD_TEST(suite, what_is_reached_is_said);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    child_remove_folder(folder);
    return failures != 0;
}
