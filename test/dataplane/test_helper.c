/* test_helper.c - KEYS and the thread that finds the answer: first lcore and helper turned by hand, so that every
 * moment between can be chosen; then their own threads. */
#include "dataplane/dataplane.h"
#include "dataplane/helper.h"
#include "store/store_layout.h"
#include <CUnit/Basic.h>
#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define IN_BYTES (6 * MIB)
#define KEYS     5000

static struct settings settings;
static struct dataplane *dataplane;
static struct lcore *lcore;
static struct helper *helper;
static char in[IN_BYTES];
static size_t in_bytes;

/* ---- the appliance ---- */

static void
open_dataplane(uint32_t lcores)
{
    const char *overrides[] = { "memory.reserve=256MiB", "memory.limit=64MiB", "memory.ahead=16MiB",
                                "memory.huge_pages=false", "store.keys_expected=1024" };
    char why[SETTINGS_WHY_BYTES];
    int error = settings_load(NULL, overrides, ARRAY_COUNT(overrides), &settings, why, sizeof(why));
    if (error != 0) {
        printf("%s\n", why);
    }
    CU_ASSERT_EQUAL_FATAL(error, 0);
    settings.cpus[1] = settings.cpu_count > 1 ? settings.cpus[1] : settings.cpus[0];
    settings.cpu_count = lcores;
    CU_ASSERT_EQUAL_FATAL(dataplane_open(&settings, &dataplane, why, sizeof(why)), 0);
    lcore = dataplane->lcores[0];
    helper = dataplane->helper;
}

static void
open_by_hand(void)
{
    open_dataplane(1);
    CU_ASSERT_EQUAL_FATAL(lcore_begin(lcore), 0);
    CU_ASSERT_EQUAL_FATAL(helper_begin(helper), 0);
    for (uint32_t i = 0; i < 100; i++) { /* what is kept for full memory is complete, and stays */
        stream_reserve_fill(&helper->reserve);
        stream_reserve_fill(&lcore->reserve);
        store_manage(dataplane->store);
    }
    store_offline(helper->store); /* as it sleeps */
}

static void
shut_by_hand(void)
{
    store_online(helper->store);
    helper_end(helper);
    lcore_end(lcore);
    dataplane_close(dataplane);
}

static void
turn(uint32_t turns)
{
    for (uint32_t i = 0; i < turns; i++) {
        lcore_turn(lcore);
        store_manage(dataplane->store);
        struct mail mail;
        while (mail_take(dataplane->to_mgmt[0], &mail)) {
        }
    }
}

static enum helper_turn
help(void)
{
    store_online(helper->store);
    enum helper_turn result = helper_turn(helper);
    store_offline(helper->store);
    return result;
}

/* Both, until the helper has nothing left for a while. Returns its turns with a job. */
static uint32_t
help_to_the_end(void)
{
    uint32_t turns = 0;
    for (uint32_t idle = 0; idle < 32; idle++) {
        while (help() != HELPER_TURN_NO_JOB) {
            turns++;
            idle = 0;
        }
        turn(1);
    }
    return turns;
}

/* ---- clients ---- */

static int
client_open(uint32_t to)
{
    int pair[2];
    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct mail mail = { .kind = MAIL_ADOPT_SOCKET, .a = (uint64_t)pair[1], .b = 1 };
    CU_ASSERT_TRUE_FATAL(dataplane_post(dataplane, to, &mail));
    in_bytes = 0;
    return pair[0];
}

static void
client_send(int fd, const char *text)
{
    size_t bytes = strlen(text);
    for (size_t sent = 0; sent < bytes;) {
        ssize_t now = send(fd, text + sent, bytes - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        CU_ASSERT_TRUE_FATAL(now > 0 || errno == EAGAIN);
        sent += now > 0 ? (size_t)now : 0;
        if (now <= 0) {
            turn(1);
        }
    }
}

/* What has come, added to in[]. False: the server has closed. */
static bool
client_receive(int fd)
{
    for (;;) {
        ssize_t got = recv(fd, in + in_bytes, sizeof(in) - in_bytes, MSG_DONTWAIT);
        if (got <= 0) {
            return got != 0;
        }
        in_bytes += (size_t)got;
    }
}

static uint32_t
lines_in(const char *line)
{
    uint32_t count = 0;
    size_t bytes = strlen(line);
    for (const char *at = in; (at = memmem(at, in_bytes - (size_t)(at - in), line, bytes)) != NULL; at += bytes) {
        count++;
    }
    return count;
}

static bool
begins(const char *text)
{
    return in_bytes >= strlen(text) && memcmp(in, text, strlen(text)) == 0;
}

static void
put_keys(int fd, const char *prefix, uint32_t count)
{
    char line[256];
    in_bytes = 0;
    for (uint32_t n = 0; n < count; n++) {
        snprintf(line, sizeof(line), "SET %s%u v\r\n", prefix, n);
        client_send(fd, line);
        while (n % 100 == 99 && lines_in("+OK\r\n") < 100) { /* of inline requests a turn takes one */
            turn(1);
            CU_ASSERT_TRUE_FATAL(client_receive(fd));
        }
        in_bytes = n % 100 == 99 ? 0 : in_bytes;
    }
    turn(128);
    client_receive(fd);
    in_bytes = 0;
}

static uint64_t
used_bytes(void)
{
    struct store_stats stats;
    turn(200); /* limbo and magazines come to rest */
    store_stats(dataplane->store, &stats);
    return stats.memory.used_bytes;
}

/* ---- by hand ---- */

static void
keys_refuses_bad_arguments(void)
{
    char line[300 + LIMIT_PATTERN_BYTES];
    open_by_hand();
    int fd = client_open(0);
    client_send(fd, "KEYS\r\nKEYS a b\r\n");
    turn(32);
    client_receive(fd);
    CU_ASSERT_EQUAL(lines_in("-ERR wrong number of arguments for 'keys' command\r\n"), 2);
    for (int bytes = LIMIT_PATTERN_BYTES - 1; bytes <= LIMIT_PATTERN_BYTES + 1; bytes++) {
        snprintf(line, sizeof(line), "KEYS %0*d\r\n", bytes, 0);
        client_send(fd, line);
        in_bytes = 0;
        turn(32);
        help_to_the_end();
        client_receive(fd);
        CU_ASSERT_TRUE(begins(bytes <= LIMIT_PATTERN_BYTES ? "*0\r\n" : "-ERR pattern exceeds 256 bytes\r\n"));
    }
    close(fd);
    shut_by_hand();
}

static void
keys_answers_in_session_order(void)
{
    open_by_hand();
    int fd = client_open(0);
    put_keys(fd, "k:", KEYS);
    client_send(fd, "SET other 1\r\nPING a\r\nKEYS k:*\r\nPING b\r\nKEYS other\r\nKEYS nope\r\nPING c\r\n");
    turn(32);
    client_receive(fd);
    CU_ASSERT_TRUE(begins("+OK\r\n$1\r\na\r\n"));
    CU_ASSERT_EQUAL(in_bytes, strlen("+OK\r\n$1\r\na\r\n")); /* the rest waits for its answer */
    CU_ASSERT_TRUE(help_to_the_end() > KEYS / HELPER_STEP_KEYS);
    client_receive(fd);
    CU_ASSERT_EQUAL(lines_in("\r\n*5000\r\n"), 1);
    CU_ASSERT_EQUAL(lines_in("\r\nk:"), KEYS);
    static const char end[] = "$1\r\nb\r\n*1\r\n$5\r\nother\r\n*0\r\n$1\r\nc\r\n";
    CU_ASSERT_TRUE(in_bytes > sizeof(end) && memcmp(in + in_bytes - strlen(end), end, strlen(end)) == 0);
    CU_ASSERT_EQUAL(load_relaxed(&helper->jobs), 3);
    CU_ASSERT_EQUAL(load_relaxed(&helper->cancelled), 0);
    close(fd);
    shut_by_hand();
}

/* Whoever holds back reclamation between two steps would stall every writer. */
static void
a_job_reports_quiescence_between_its_steps(void)
{
    open_by_hand();
    int fd = client_open(0);
    put_keys(fd, "k:", KEYS);
    client_send(fd, "KEYS *\r\n");
    turn(32);
    struct qsbr *qsbr = &helper->dataplane->store->qsbr;
    store_online(helper->store);
    uint32_t reported = 0;
    while (helper_turn(helper) == HELPER_TURN_WORKED) {
        uint64_t epoch = qsbr_advance(qsbr);
        lcore_turn(lcore);
        CU_ASSERT_FALSE(qsbr_passed(qsbr, epoch)); /* it could still hold what it has read */
        helper_turn(helper);
        reported += qsbr_passed(qsbr, epoch);
    }
    CU_ASSERT_TRUE(reported >= 3);
    store_offline(helper->store);
    uint64_t epoch = qsbr_advance(qsbr);
    turn(1);
    CU_ASSERT_TRUE(qsbr_passed(qsbr, epoch)); /* asleep: nobody waits for it */
    close(fd);
    shut_by_hand();
}

static void
a_job_ends_with_its_session(void)
{
    open_by_hand();
    int fd = client_open(0);
    put_keys(fd, "k:", KEYS);
    uint64_t before = used_bytes();
    int other = client_open(0);
    client_send(other, "KEYS *\r\n");
    turn(32);
    for (int i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(help(), HELPER_TURN_WORKED);
    }
    session_kill(lcore->all); /* the latest: as CLIENT KILL does, or a reset */
    turn(32);
    CU_ASSERT_EQUAL(lcore->session_count, 1);
    CU_ASSERT_EQUAL(load_relaxed(&helper->cancelled), 0);
    CU_ASSERT_EQUAL(help(), HELPER_TURN_WORKED);
    CU_ASSERT_EQUAL(load_relaxed(&helper->cancelled), 1);
    CU_ASSERT_EQUAL(help(), HELPER_TURN_NO_JOB);
    turn(32);
    close(other);
    CU_ASSERT_TRUE(used_bytes() <= before); /* the copies and the question are given back */
    close(fd);
    shut_by_hand();
}

/* Each answer is above the soft limit of pending output; when that has drained, another is still owed. */
static void
a_session_that_ends_gets_every_answer_first(void)
{
    char prefix[200];
    open_by_hand();
    int fd = client_open(0);
    memset(prefix, 'x', sizeof(prefix) - 1);
    prefix[sizeof(prefix) - 1] = '\0';
    put_keys(fd, prefix, 3000);
    client_send(fd, "KEYS *\r\nKEYS *\r\nKEYS *\r\n");
    turn(8);
    session_end_of_input(lcore->all); /* as a drain does */
    bool open = true;
    for (uint32_t i = 0; i < 1000 && open; i++) {
        turn(8);
        open = client_receive(fd); /* its output goes while it waits for the next answer */
        turn(8);
        help();
    }
    CU_ASSERT_FALSE(open);
    CU_ASSERT_EQUAL(lines_in("*3000\r\n"), 3);
    CU_ASSERT_EQUAL(lines_in("\r\nxxx"), 3 * 3000);
    close(fd);
    shut_by_hand();
}

static void
an_answer_that_is_too_long_becomes_an_error(void)
{
    char prefix[220];
    open_by_hand();
    int fd = client_open(0);
    memset(prefix, 'x', sizeof(prefix) - 1);
    prefix[sizeof(prefix) - 1] = '\0';
    put_keys(fd, prefix, 17000); /* 4 MiB of reply are 18,300 of these */
    uint64_t before = used_bytes();
    client_send(fd, "KEYS *\r\n");
    turn(32);
    help_to_the_end();
    client_receive(fd);
    CU_ASSERT_TRUE(begins("*17000\r\n"));
    turn(64);
    while (in_bytes < 17000ull * 220) {
        turn(32);
        CU_ASSERT_TRUE_FATAL(client_receive(fd));
    }
    in_bytes = 0;
    prefix[0] = 'y';
    put_keys(fd, prefix, 3000);
    client_send(fd, "KEYS *\r\nPING\r\n");
    turn(32);
    help_to_the_end();
    client_receive(fd);
    CU_ASSERT_TRUE(begins("-" ERROR_TOO_LONG "\r\n"));
    CU_ASSERT_EQUAL(lines_in("+PONG\r\n"), 1);
    CU_ASSERT_TRUE(used_bytes() < before + 3 * MIB); /* 3000 records more, and no answer */
    close(fd);
    shut_by_hand();
}

/* Memory for an answer of some size is there, or it is not. */
static bool refuses_chunks;
void *__real_memory_take(struct memory_cache *cache, size_t bytes);
void *__wrap_memory_take(struct memory_cache *cache, size_t bytes);

void *
__wrap_memory_take(struct memory_cache *cache, size_t bytes)
{
    bool chunk = bytes == STREAM_CHUNK_BYTES || bytes == STREAM_BLOCK_BYTES;
    return refuses_chunks && chunk ? NULL : __real_memory_take(cache, bytes);
}

/* The answer counts against memory.limit. */
static void
a_job_without_memory_waits_and_then_says_so(void)
{
    char prefix[200];
    open_by_hand();
    int fd = client_open(0);
    memset(prefix, 'x', sizeof(prefix) - 1);
    prefix[sizeof(prefix) - 1] = '\0';
    put_keys(fd, prefix, KEYS);
    void *kept[STREAM_BLOCKS + 1];
    uint32_t kept_count = 0;
    while ((kept[kept_count] = stream_block_take(&helper->reserve, STREAM_FOR_REPLY)) != NULL) {
        kept_count++; /* somebody else's answers have what is kept */
    }
    refuses_chunks = true;
    client_send(fd, "KEYS *\r\nPING\r\n");
    turn(32);
    uint32_t waits = 0;
    int64_t begun_ms = lcore->now_ms;
    for (enum helper_turn result = help(); result != HELPER_TURN_NO_JOB; result = help()) {
        waits += result == HELPER_TURN_WAITS;
        turn(1);
    }
    CU_ASSERT_TRUE(waits > 10);
    CU_ASSERT_TRUE(lcore->now_ms - begun_ms >= HELPER_STARVED_MS);
    turn(32);
    client_receive(fd);
    CU_ASSERT_TRUE(begins("-OOM"));
    CU_ASSERT_EQUAL(lines_in("+PONG\r\n"), 1);
    while (kept_count > 0) {
        stream_block_give(&helper->reserve, kept[--kept_count], STREAM_BLOCK_BYTES);
    }
    in_bytes = 0;
    client_send(fd, "KEYS *[02468]\r\n");
    turn(32);
    help_to_the_end();
    client_receive(fd);
    CU_ASSERT_TRUE(begins("*2500\r\n")); /* half a megabyte, from what is kept */
    for (uint32_t i = 0; i < 64; i++) {
        turn(4);
        client_receive(fd);
    }
    refuses_chunks = false;
    turn(64);
    in_bytes = 0;
    client_send(fd, "KEYS *\r\n");
    turn(32);
    help_to_the_end();
    client_receive(fd);
    CU_ASSERT_TRUE(begins("*5000\r\n"));
    close(fd);
    shut_by_hand();
}

/* More questions than the ring holds: the sessions wait, none is lost. */
static void
a_full_ring_parks_the_asker(void)
{
    enum { CLIENTS = LIMIT_MAIL_SLOTS + 64 };
    static int fds[CLIENTS];
    open_by_hand();
    fds[0] = client_open(0);
    put_keys(fds[0], "k:", 3);
    for (uint32_t i = 1; i < CLIENTS; i++) {
        fds[i] = client_open(0);
        turn(1);
    }
    uint64_t parked = load_relaxed(&lcore->counters->requests_later);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        client_send(fds[i], "KEYS *\r\n");
    }
    turn(2 * CLIENTS);
    parked = load_relaxed(&lcore->counters->requests_later) - parked;
    CU_ASSERT_TRUE(parked > 100 && parked < LIMIT_MAIL_SLOTS);
    CU_ASSERT_TRUE(load_relaxed(&lcore->counters->requests_retried) > 0);
    help_to_the_end();
    for (int rest = 0; rest < 4; rest++) {
        turn(500);
        help_to_the_end();
    }
    CU_ASSERT_EQUAL(load_relaxed(&helper->jobs), CLIENTS);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        in_bytes = 0;
        client_receive(fds[i]);
        CU_ASSERT_TRUE(begins("*3\r\n"));
        close(fds[i]);
    }
    shut_by_hand();
}

static void
an_answer_waits_for_room_in_the_ring(void)
{
    open_by_hand();
    int fd = client_open(0);
    put_keys(fd, "k:", 3);
    struct mail nothing = { .kind = MAIL_NONE, .from = MAIL_FROM_HELPER };
    while (mail_post(helper->mail_out[0], &nothing)) {
    }
    client_send(fd, "KEYS *\r\n");
    turn(32);
    for (int i = 0; i < 100 && helper->unsent == NULL; i++) {
        help();
    }
    CU_ASSERT_PTR_NOT_NULL(helper->unsent);
    CU_ASSERT_EQUAL(help(), HELPER_TURN_WAITS);
    turn(32); /* nobody said that there is mail: nothing is taken */
    CU_ASSERT_EQUAL(help(), HELPER_TURN_WAITS);
    lcore_notify(lcore, MAIL_FROM_HELPER);
    turn(64);
    CU_ASSERT_EQUAL(help(), HELPER_TURN_NO_JOB);
    turn(32);
    client_receive(fd);
    CU_ASSERT_TRUE(begins("*3\r\n"));
    close(fd);
    shut_by_hand();
}

/* A member that does not report holds back reclamation: the store says who it is. */
static void
a_helper_that_stands_still_is_named(void)
{
    struct store_stats stats;
    open_by_hand();
    store_online(helper->store);
    int64_t begun_ms = lcore->now_ms;
    do {
        turn(1);
        usleep(1000);
        store_stats(dataplane->store, &stats);
    } while (stats.stalled_member < 0 && (begun_ms == 0 || lcore->now_ms - begun_ms < 10 * STORE_STALL_MS));
    CU_ASSERT_EQUAL(stats.stalled_member, 1);
    CU_ASSERT_TRUE(stats.stalled_ms >= STORE_STALL_MS);
    CU_ASSERT_STRING_EQUAL(store_member_name(dataplane->store, (uint32_t)stats.stalled_member), "helper-0");
    store_offline(helper->store);
    turn(1);
    store_stats(dataplane->store, &stats);
    CU_ASSERT_EQUAL(stats.stalled_member, -1);
    shut_by_hand();
}

/* ---- with threads ---- */

static void
manage(uint32_t ms)
{
    for (uint32_t i = 0; i < ms; i++) {
        store_manage(dataplane->store);
        for (uint32_t l = 0; l < dataplane->lcore_count; l++) {
            struct mail mail;
            while (mail_take(dataplane->to_mgmt[l], &mail)) {
            }
        }
        usleep(1000);
    }
}

static void
shut_threads(void)
{
    dataplane_drain(dataplane);
    for (int i = 0; i < 10000 && !dataplane_stopped(dataplane); i++) {
        manage(1);
    }
    CU_ASSERT_TRUE_FATAL(dataplane_stopped(dataplane));
    dataplane_close(dataplane);
}

static void
receive_until(int fd, const char *last, uint32_t count)
{
    for (int i = 0; i < 20000 && lines_in(last) < count; i++) {
        manage(1);
        CU_ASSERT_TRUE_FATAL(client_receive(fd));
    }
    CU_ASSERT_EQUAL_FATAL(lines_in(last), count);
}

static void
lcores_share_the_helper_in_turn(void)
{
    open_dataplane(2);
    CU_ASSERT_EQUAL_FATAL(dataplane_start(dataplane), 0);
    int fds[2] = { client_open(0), client_open(1) };
    for (uint32_t n = 0; n < KEYS; n++) {
        char line[64];
        snprintf(line, sizeof(line), "SET k:%u v\r\n", n);
        CU_ASSERT_EQUAL(send(fds[n % 2], line, strlen(line), MSG_NOSIGNAL), (ssize_t)strlen(line));
        if (n % 500 == 499) {
            receive_until(fds[0], "+OK\r\n", 250);
            in_bytes = 0;
            receive_until(fds[1], "+OK\r\n", 250);
            in_bytes = 0;
        }
    }
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 2; i++) {
            CU_ASSERT_EQUAL(send(fds[i], "KEYS k:*\r\nPING\r\n", 16, MSG_NOSIGNAL), 16);
        }
        for (int i = 0; i < 2; i++) {
            in_bytes = 0;
            receive_until(fds[i], "+PONG\r\n", 1);
            CU_ASSERT_TRUE(begins("*5000\r\n"));
            CU_ASSERT_EQUAL(lines_in("\r\nk:"), KEYS);
        }
    }
    CU_ASSERT_EQUAL(load_relaxed(&helper->jobs), 40);
    close(fds[0]);
    close(fds[1]);
    shut_threads();
}

/* Without a job it costs nothing: it sleeps until mail comes. */
static void
an_idle_helper_sleeps(void)
{
    open_dataplane(1);
    CU_ASSERT_EQUAL_FATAL(dataplane_start(dataplane), 0);
    for (int i = 0; i < 5000 && load_relaxed(&helper->state) != HELPER_IDLE; i++) {
        manage(1);
    }
    CU_ASSERT_EQUAL(load_relaxed(&helper->state), HELPER_IDLE);
    uint64_t sleeps = load_relaxed(&helper->sleeps), steps = load_relaxed(&helper->steps);
    manage(200);
    CU_ASSERT_EQUAL(load_relaxed(&helper->sleeps), sleeps);
    CU_ASSERT_EQUAL(load_relaxed(&helper->steps), steps);
    errno = 0;
    CU_ASSERT_EQUAL(getpriority(PRIO_PROCESS, (id_t)helper->tid), MIN(getpriority(PRIO_PROCESS, 0) + 10, 19));
    int fd = client_open(0);
    CU_ASSERT_EQUAL(send(fd, "KEYS *\r\nPING\r\n", 14, MSG_NOSIGNAL), 14);
    receive_until(fd, "+PONG\r\n", 1);
    CU_ASSERT_TRUE(begins("*0\r\n"));
    close(fd);
    shut_threads();
}

/* A drain waits for the answer; the thread ends with a job at hand, too. */
static void
the_end_comes_with_jobs_at_hand(void)
{
    for (int cut = 0; cut < 2; cut++) {
        open_dataplane(1);
        CU_ASSERT_EQUAL_FATAL(dataplane_start(dataplane), 0);
        int fd = client_open(0);
        for (uint32_t n = 0; n < KEYS; n++) {
            char line[64];
            snprintf(line, sizeof(line), "SET k:%u v\r\n", n);
            CU_ASSERT_EQUAL(send(fd, line, strlen(line), MSG_NOSIGNAL), (ssize_t)strlen(line));
            if (n % 500 == 499) {
                receive_until(fd, "+OK\r\n", 500);
                in_bytes = 0;
            }
        }
        CU_ASSERT_EQUAL(send(fd, "KEYS *\r\nKEYS *\r\nKEYS *\r\n", 24, MSG_NOSIGNAL), 24);
        if (cut == 0) {
            manage(1);
            dataplane_drain(dataplane);
            for (int i = 0; i < 10000 && !dataplane_stopped(dataplane); i++) {
                manage(1);
                client_receive(fd);
            }
            CU_ASSERT_TRUE_FATAL(dataplane_stopped(dataplane));
            client_receive(fd);
            CU_ASSERT_EQUAL(lines_in("*5000\r\n"), 3);
            dataplane_close(dataplane);
        } else {
            close(fd);
            shut_threads();
        }
        if (cut == 0) {
            close(fd);
        }
    }
}

int
main(void)
{
    struct rlimit files = { 8192, 8192 };
    setrlimit(RLIMIT_NOFILE, &files);
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("helper", NULL, NULL);
    CU_ADD_TEST(suite, keys_refuses_bad_arguments);
    CU_ADD_TEST(suite, keys_answers_in_session_order);
    CU_ADD_TEST(suite, a_job_reports_quiescence_between_its_steps);
    CU_ADD_TEST(suite, a_job_ends_with_its_session);
    CU_ADD_TEST(suite, a_session_that_ends_gets_every_answer_first);
    CU_ADD_TEST(suite, an_answer_that_is_too_long_becomes_an_error);
    CU_ADD_TEST(suite, a_job_without_memory_waits_and_then_says_so);
    CU_ADD_TEST(suite, a_full_ring_parks_the_asker);
    CU_ADD_TEST(suite, an_answer_waits_for_room_in_the_ring);
    CU_ADD_TEST(suite, a_helper_that_stands_still_is_named);
    CU_ADD_TEST(suite, lcores_share_the_helper_in_turn);
    CU_ADD_TEST(suite, an_idle_helper_sleeps);
    CU_ADD_TEST(suite, the_end_comes_with_jobs_at_hand);
    CU_basic_run_tests();
    return CU_get_number_of_failures() != 0;
}
