/* race_mail.c - two threads, one ring each way, one of them asleep most of the time: nothing is lost, order is kept,
 * and no message waits for a sleeper that was not woken. */
#include "dataplane/mail.h"
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#define MESSAGES      200000
#define WAKE_LIMIT_MS 5000 /* a lost wake-up shows as a poll that runs into this */

struct pair {
    struct mail_ring there, back;
    struct mail_waker waker;
    _Atomic uint64_t lost_wakes;
};

static void *
echo_main(void *argument)
{
    struct pair *pair = argument;
    for (uint64_t expected = 0; expected < MESSAGES;) {
        struct mail mail;
        if (mail_take(&pair->there, &mail)) {
            CHECK(mail.a == expected && mail.b == ~expected);
            expected++;
            while (!mail_post(&pair->back, &mail)) {
                sched_yield();
            }
            continue;
        }
        mail_sleep_begin(&pair->waker);
        if (load_relaxed(&pair->there.tail) == (uint32_t)expected) {
            struct pollfd wait = { .fd = pair->waker.event_fd, .events = POLLIN };
            if (poll(&wait, 1, WAKE_LIMIT_MS) == 0) {
                add_relaxed(&pair->lost_wakes, 1);
            }
        }
        mail_sleep_end(&pair->waker);
    }
    return NULL;
}

int
main(void)
{
    struct pair *pair = aligned_alloc(CACHE_LINE, sizeof(*pair));
    memset(pair, 0, sizeof(*pair));
    CHECK(mail_waker_open(&pair->waker) == 0);
    pthread_t echo;
    CHECK(pthread_create(&echo, NULL, echo_main, pair) == 0);

    uint64_t sent = 0, received = 0;
    while (received < MESSAGES) {
        struct mail mail = { .kind = MAIL_PUBLISH, .a = sent, .b = ~sent };
        if (sent < MESSAGES && mail_post(&pair->there, &mail)) {
            mail_wake(&pair->waker);
            sent++;
        }
        while (mail_take(&pair->back, &mail)) {
            CHECK(mail.a == received);
            received++;
        }
        if (sent % 64 == 0) { /* let the other side fall asleep now and then */
            nanosleep(&(struct timespec){ .tv_nsec = 1000 }, NULL);
        }
    }
    pthread_join(echo, NULL);
    CHECK(load_relaxed(&pair->lost_wakes) == 0);
    printf("race_mail: %llu messages each way, in order, no lost wake-up\n", (unsigned long long)received);
    mail_waker_close(&pair->waker);
    free(pair);
    return 0;
}
