/* The C library's functions that the code under test calls, as they are in simulated time (meson.build: --wrap). */
#include "test/sched/sched_private.h"
#include <sys/types.h>
#include <time.h>

#define EVENTS      4    /* a mapping */
#define EVENT_FIRST 1000 /* no descriptor of this process has such a number */

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t bytes);
int __wrap_madvise(void *at, size_t bytes, int advice);
ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned int flags);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_eventfd(unsigned int initial, int flags);
ssize_t __wrap_write(int fd, const void *from, size_t bytes);
ssize_t __wrap_read(int fd, void *to, size_t bytes);
int __wrap_close(int fd);
_Noreturn void __wrap_abort(void);

void *
__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    return sched_map(bytes);
}

/* Its name when off_t is asked to have 64 bits. */
void *__wrap_mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
    __attribute__((alias("__wrap_mmap")));

int
__wrap_munmap(void *at, size_t bytes)
{
    return 0;
}

int
__wrap_madvise(void *at, size_t bytes, int advice)
{
    return 0;
}

/* The same secret in every execution: hashes, and with them places in the index, do not change. */
ssize_t
__wrap_getrandom(void *to, size_t bytes, unsigned int flags)
{
    for (size_t i = 0; i < bytes; i++) {
        ((uint8_t *)to)[i] = (uint8_t)(i * 151 + 43);
    }
    return (ssize_t)bytes;
}

int
__wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    sched_relax();
    return 0;
}

/* ---- eventfd: a counter in simulated memory ---- */

static _Atomic uint64_t *events;
static int event_count;

int
__wrap_eventfd(unsigned int initial, int flags)
{
    if (events == NULL || event_count == EVENTS || !heap_contains(events)) {
        events = sched_map(EVENTS * sizeof(*events));
        event_count = 0;
    }
    return EVENT_FIRST + event_count++;
}

static _Atomic uint64_t *
event_of(int fd)
{
    CHECK(fd >= EVENT_FIRST && fd < EVENT_FIRST + event_count);
    return &events[fd - EVENT_FIRST];
}

ssize_t
__wrap_write(int fd, const void *from, size_t bytes)
{
    uint64_t add;
    CHECK(bytes == sizeof(add));
    memcpy(&add, from, sizeof(add));
    (void)sched_fetch(event_of(fd), sizeof(add), SCHED_ADD, add, memory_order_acq_rel, "write(eventfd)");
    return (ssize_t)bytes;
}

ssize_t
__wrap_read(int fd, void *to, size_t bytes)
{
    uint64_t count = sched_fetch(event_of(fd), bytes, SCHED_EXCHANGE, 0, memory_order_acq_rel, "read(eventfd)");
    memcpy(to, &count, sizeof(count));
    return count != 0 ? (ssize_t)bytes : -1;
}

int
__wrap_close(int fd)
{
    return 0;
}

void
sched_wait_event(int fd)
{
    sched_wait(event_of(fd), "an event");
}

/* ---- the end of the process is the end of the execution ---- */

void
__wrap_abort(void)
{
    if (!sched_inside()) {
        __real_abort();
    }
    sched_fail("aborts: see the message above");
}

void
__assert_fail(const char *assertion, const char *file, unsigned int line, const char *function)
{
    sched_fail("%s:%u: %s: assertion failed: %s", file, line, function, assertion);
}
