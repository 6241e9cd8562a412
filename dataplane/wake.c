/* wake.c - the sleeping half of mail.h: eventfd system calls live here and nowhere else on the data path. */
#include "dataplane/mail.h"
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

int
mail_waker_open(struct mail_waker *waker)
{
    store_relaxed(&waker->sleeping, 0);
    waker->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return waker->event_fd < 0 ? -errno : 0;
}

void
mail_waker_close(struct mail_waker *waker)
{
    if (waker->event_fd >= 0) {
        close(waker->event_fd);
        waker->event_fd = -1;
    }
}

void
mail_wake(struct mail_waker *waker)
{
    /* Dekker with mail_sleep_begin(): the post above this fence or the flag below it is seen by the other side. */
    fence_seq_cst();
    if (UNLIKELY(load_relaxed(&waker->sleeping))) {
        uint64_t one = 1;
        ssize_t written = write(waker->event_fd, &one, sizeof(one));
        (void)written; /* EAGAIN: the counter is at its maximum, the sleeper wakes all the same */
    }
}

void
mail_sleep_begin(struct mail_waker *waker)
{
    store_relaxed(&waker->sleeping, 1);
    fence_seq_cst(); /* pairs with the fence in mail_wake(); the caller looks at its rings after this */
}

void
mail_sleep_end(struct mail_waker *waker)
{
    store_relaxed(&waker->sleeping, 0);
    uint64_t count;
    ssize_t got = read(waker->event_fd, &count, sizeof(count));
    (void)got; /* EAGAIN: woken by time or by another descriptor */
}
