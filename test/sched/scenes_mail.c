/* The mail ring and the sleeping half of it, with one writer and one reader. */
#include "dataplane/mail.h"
#include "test/sched/sched_run.h"

#define POSTED 3 /* in one execution */

static struct mail_ring *ring;
static struct mail_waker *waker;

static void
post(uint64_t number)
{
    struct mail mail = { .kind = MAIL_PUBLISH, .a = number, .b = ~number };
    while (!mail_post(ring, &mail)) {
        cpu_relax();
    }
}

static bool
take(uint64_t expected)
{
    struct mail mail;
    if (!mail_take(ring, &mail)) {
        return false;
    }
    SCHED_EXPECT(mail.a == expected && mail.b == ~expected, "message %zu is not the one posted", (size_t)expected);
    return true;
}

static void
ring_setup(void)
{
    ring = sched_map(sizeof(*ring));
    waker = sched_map(sizeof(*waker));
    CHECK(mail_waker_open(waker) == 0);
}

/* Room for one message only. */
static void
ring_setup_full(void)
{
    ring_setup();
    for (uint64_t i = 1; i < LIMIT_MAIL_SLOTS; i++) {
        post(i);
    }
}

static void
ring_check_empty(void)
{
    struct mail mail;
    SCHED_EXPECT(!mail_take(ring, &mail), "a message too many");
}

static void
passing_thread(uint32_t index)
{
    for (uint64_t i = 1; i <= POSTED; i++) {
        if (index == 0) {
            post(i);
            continue;
        }
        while (!take(i)) {
            cpu_relax();
        }
    }
}

static void
full_thread(uint32_t index)
{
    for (uint64_t i = 1; i <= POSTED; i++) {
        if (index == 0) {
            post(LIMIT_MAIL_SLOTS - 1 + i);
        } else {
            SCHED_EXPECT(take(i), "no message in a full ring");
        }
    }
}

static void
full_check(void)
{
    for (uint64_t i = POSTED + 1; i < LIMIT_MAIL_SLOTS + POSTED; i++) {
        SCHED_EXPECT(take(i), "message %zu is lost", (size_t)i);
    }
    ring_check_empty();
}

/* mail.h: the sleeper says so, fences, looks once more; the writer posts, fences, looks. */
static void
sleeping_thread(uint32_t index)
{
    uint64_t next = 1;
    while (next <= POSTED) {
        if (index == 0) {
            post(next++);
            mail_wake(waker);
            continue;
        }
        if (take(next)) {
            next++;
            continue;
        }
        mail_sleep_begin(waker);
        if (take(next)) {
            next++;
        } else {
            sched_wait_event(waker->event_fd);
        }
        mail_sleep_end(waker);
    }
}

static const struct sched_scene scenes[] = {
    { "mail-passing", 2, ring_setup, NULL, passing_thread, ring_check_empty, 3, 2 },
    { "mail-full", 2, ring_setup_full, NULL, full_thread, full_check, 4, 2 },
    { "mail-sleeping", 2, ring_setup, NULL, sleeping_thread, ring_check_empty, 3, 2 },
};

const struct sched_scene *
scene_at(uint32_t index)
{
    return index < ARRAY_COUNT(scenes) ? &scenes[index] : NULL;
}
