#include "dataplane/mail.h"
#include <CUnit/Basic.h>
#include <poll.h>

static struct mail_ring ring;

static void
ring_reset(uint32_t at)
{
    memset(&ring, 0, sizeof(ring));
    store_relaxed(&ring.head, at);
    store_relaxed(&ring.tail, at);
}

static void
an_empty_ring_gives_nothing(void)
{
    struct mail mail;
    ring_reset(0);
    CU_ASSERT_FALSE(mail_take(&ring, &mail));
    CU_ASSERT_EQUAL(mail_room(&ring), LIMIT_MAIL_SLOTS);
}

static void
a_full_ring_refuses_and_changes_nothing(void)
{
    struct mail mail = { .kind = MAIL_PUBLISH };
    ring_reset(0);
    for (uint64_t i = 0; i < LIMIT_MAIL_SLOTS; i++) {
        mail.a = i;
        CU_ASSERT_EQUAL(mail_room(&ring), LIMIT_MAIL_SLOTS - i);
        CU_ASSERT_TRUE(mail_post(&ring, &mail));
    }
    mail.a = 999999;
    CU_ASSERT_EQUAL(mail_room(&ring), 0);
    CU_ASSERT_FALSE(mail_post(&ring, &mail));
    for (uint64_t i = 0; i < LIMIT_MAIL_SLOTS; i++) {
        CU_ASSERT_TRUE(mail_take(&ring, &mail));
        CU_ASSERT_EQUAL(mail.a, i);
    }
    CU_ASSERT_FALSE(mail_take(&ring, &mail));
}

static void
order_is_kept_over_the_wrap_of_the_indexes(void)
{
    struct mail mail = { .kind = MAIL_PUBLISH };
    ring_reset(UINT32_MAX - 3);
    for (uint64_t i = 0; i < 3 * LIMIT_MAIL_SLOTS; i++) {
        mail.a = i;
        CU_ASSERT_TRUE(mail_post(&ring, &mail));
        CU_ASSERT_EQUAL(mail_room(&ring), LIMIT_MAIL_SLOTS - 1);
        CU_ASSERT_TRUE(mail_take(&ring, &mail));
        CU_ASSERT_EQUAL(mail.a, i);
    }
}

static bool
readable(const struct mail_waker *waker)
{
    struct pollfd wait = { .fd = waker->event_fd, .events = POLLIN };
    return poll(&wait, 1, 0) == 1;
}

static void
a_wake_reaches_only_a_sleeper(void)
{
    struct mail_waker waker;
    CU_ASSERT_EQUAL_FATAL(mail_waker_open(&waker), 0);
    mail_wake(&waker);
    CU_ASSERT_FALSE(readable(&waker)); /* awake: no system call was spent on it */
    mail_sleep_begin(&waker);
    mail_wake(&waker);
    CU_ASSERT_TRUE(readable(&waker));
    mail_sleep_end(&waker);
    CU_ASSERT_FALSE(readable(&waker));
    mail_wake(&waker);
    CU_ASSERT_FALSE(readable(&waker));
    mail_waker_close(&waker);
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("mail", NULL, NULL);
    CU_ADD_TEST(suite, an_empty_ring_gives_nothing);
    CU_ADD_TEST(suite, a_full_ring_refuses_and_changes_nothing);
    CU_ADD_TEST(suite, order_is_kept_over_the_wrap_of_the_indexes);
    CU_ADD_TEST(suite, a_wake_reaches_only_a_sleeper);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
