/* loop.h - what the management core waits for: descriptors, and the time until its next duty. One thread. */
#pragma once
#include "config/base.h"
#include <sys/epoll.h>

struct watch {
    int fd;
    uint32_t events;
    void (*ready)(struct watch *watch, uint32_t events);
};

#define LOOP_EVENTS 64

struct loop {
    int fd;
    /* the batch being handed out: loop_remove() takes what is left of a watch out of it */
    struct epoll_event batch[LOOP_EVENTS];
    int count, at;
};

int loop_open(struct loop *loop); /* 0 or -errno */
void loop_close(struct loop *loop);

/* `watch` is the caller's, and must stay until loop_remove(). Abort on failure: out of kernel memory. */
void loop_add(struct loop *loop, struct watch *watch);
void loop_change(struct loop *loop, struct watch *watch, uint32_t events);
void loop_remove(struct loop *loop, struct watch *watch); /* before its descriptor is closed */

/* Wait at most timeout_ms and call what is ready, each at most once. */
void loop_turn(struct loop *loop, int timeout_ms);

int64_t loop_now_ms(void); /* CLOCK_MONOTONIC */
