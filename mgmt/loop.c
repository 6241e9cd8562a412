#include "mgmt/loop.h"
#include <errno.h>
#include <time.h>
#include <unistd.h>

int
loop_open(struct loop *loop)
{
    memset(loop, 0, sizeof(*loop));
    loop->fd = epoll_create1(EPOLL_CLOEXEC);
    return loop->fd < 0 ? -errno : 0;
}

void
loop_close(struct loop *loop)
{
    close(loop->fd);
    loop->fd = -1;
}

static void
control(struct loop *loop, int operation, struct watch *watch)
{
    struct epoll_event event = { .events = watch->events, .data.ptr = watch };
    CHECK(epoll_ctl(loop->fd, operation, watch->fd, &event) == 0);
}

void
loop_add(struct loop *loop, struct watch *watch)
{
    control(loop, EPOLL_CTL_ADD, watch);
}

void
loop_change(struct loop *loop, struct watch *watch, uint32_t events)
{
    if (watch->events != events) {
        watch->events = events;
        control(loop, EPOLL_CTL_MOD, watch);
    }
}

void
loop_remove(struct loop *loop, struct watch *watch)
{
    control(loop, EPOLL_CTL_DEL, watch);
    for (int i = loop->at; i < loop->count; i++) {
        if (loop->batch[i].data.ptr == watch) {
            loop->batch[i].data.ptr = NULL;
        }
    }
}

void
loop_turn(struct loop *loop, int timeout_ms)
{
    int count = epoll_wait(loop->fd, loop->batch, LOOP_EVENTS, timeout_ms);
    CHECK(count >= 0 || errno == EINTR);
    loop->count = MAX(count, 0);
    for (loop->at = 0; loop->at < loop->count;) {
        struct epoll_event *event = &loop->batch[loop->at++];
        struct watch *watch = event->data.ptr;
        if (watch != NULL) {
            watch->ready(watch, event->events);
        }
    }
    loop->count = loop->at = 0;
}

int64_t
loop_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
