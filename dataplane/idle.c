/* idle.c - the idle policy: its sched_yield and ppoll are the only sleeping calls of an lcore. */
#include "dataplane/idle.h"
#include "dataplane/dataplane.h"
#include <poll.h>
#include <sched.h>
#include <time.h>

#define SPIN_NS         50000 /* a closed-loop client answers within this */
#define YIELD_NS        1000000
#define POLLED_SLEEP_NS 50000 /* with a port that must be polled */
#define WAITED_SLEEP_NS 10000000
#define RETRY_SLEEP_NS  1000000 /* with requests that come again at the next tick */

static void
sleep_until_woken(struct lcore *lcore)
{
    struct pollfd waits[LIMIT_PORTS + 2];
    nfds_t count = 0;
    long sleep_ns = lcore->waiting == NULL ? WAITED_SLEEP_NS : RETRY_SLEEP_NS;
    waits[count++] = (struct pollfd){ .fd = lcore->waker.event_fd, .events = POLLIN };
    for (uint32_t i = 0; i < lcore->port_count; i++) {
        int fd = lcore->ports[i]->ops->wait_fd(lcore->ports[i]);
        if (fd >= 0) {
            waits[count++] = (struct pollfd){ .fd = fd, .events = POLLIN };
        } else {
            sleep_ns = POLLED_SLEEP_NS;
        }
    }

    mail_sleep_begin(&lcore->waker);
    if (load_relaxed(&lcore->mail_waiting) == 0) { /* the fence in mail_sleep_begin() orders this look after the flag */
        struct timespec timeout = { .tv_nsec = sleep_ns };
        store_offline(lcore->store);
        ppoll(waits, count, &timeout, NULL);
        store_online(lcore->store);
        counter_add(&lcore->counters->sleeps, 1);
    }
    mail_sleep_end(&lcore->waker);
}

void
idle_after_turn(struct lcore *lcore, uint32_t events)
{
    if (events > 0) {
        lcore->idle_since_cycles = 0;
        return;
    }
    cpu_relax();
    uint32_t policy = load_relaxed(&lcore->dataplane->live.idle); /* see live.h */
    if (policy == IDLE_SPIN) {
        return;
    }
    if (lcore->idle_since_cycles == 0) {
        lcore->idle_since_cycles = lcore->now_cycles;
        return;
    }
    double idle_ns = (double)(lcore->now_cycles - lcore->idle_since_cycles) * lcore->dataplane->ns_per_cycle;
    if (idle_ns < SPIN_NS) {
        return;
    }
    bool wants_turns = lcore->ready != NULL || store_wants_turns(lcore->store);
    if (idle_ns < YIELD_NS || policy == IDLE_YIELD || wants_turns) {
        sched_yield();
        return;
    }
    sleep_until_woken(lcore);
}
