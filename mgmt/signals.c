#include "mgmt/mgmt.h"
#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int wake_fd = -1;
static _Atomic uint64_t pending;

static void
on_signal(int number)
{
    uint64_t one = 1;
    int error = errno;

    or_relaxed(&pending, 1ull << number); /* the eventfd orders it before signals_take() */
    ssize_t written = write(wake_fd, &one, sizeof(one));
    (void)written; /* full: the reader is awake anyway */
    errno = error;
}

int
signals_open(void)
{
    static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

    wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    CHECK(wake_fd >= 0);
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        CHECK(sigaction(numbers[i], &action, NULL) == 0);
    }
    signal(SIGPIPE, SIG_IGN);
    return wake_fd;
}

uint64_t
signals_take(int fd)
{
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof(count));
    (void)got; /* EAGAIN: taken before */
    return exchange_acq_rel(&pending, 0);
}
