/* test_session.c - one lcore turned by hand, a port in memory: what goes in and what comes out of a session. */
#include "dataplane/dataplane.h"
#include "dataplane/later.h"
#include "test/dataplane/port_of_memory.h"
#include "test/store/refuse_memory.h"
#include <CUnit/Basic.h>

#define SLOT_BYTES 16384
#define OUT_BYTES  (1 << 20)
#define TURNS      64

struct rig_port {
    struct port port;
    struct session *session;
    uint8_t slot[SLOT_BYTES];
    bool slot_lent;
    bool blocked; /* the peer does not read */
    bool closed;
};

static struct settings settings;
static struct dataplane *dataplane;
static struct lcore *lcore;
static struct rig_port rig;
static char out[OUT_BYTES];
static size_t out_bytes;

static uint32_t
rig_flush(struct port *port)
{
    struct session *session = port->dirty;
    if (session == NULL || rig.blocked) {
        return 0;
    }
    struct stream_out *stream = &session->out;
    out_bytes += stream_out_copy(stream, stream->sent, (uint8_t *)out + out_bytes, OUT_BYTES - out_bytes);
    stream_out_acknowledge(stream, stream_out_end(stream));
    session_untouch_output(session);
    session_output_shrank(session);
    return 1;
}

static void
rig_settle(struct port *port, struct session *session, void *slot)
{
    memset(rig.slot, 0xee, sizeof(rig.slot)); /* whoever still borrows from it reads rubbish */
    rig.slot_lent = false;
}

static void
rig_session_close(struct port *port, struct session *session)
{
    rig.closed = true;
    free(session);
}

static const struct port_ops rig_ops = {
    .poll = port_nothing_comes,
    .flush = rig_flush,
    .settle = rig_settle,
    .session_close = rig_session_close,
    .tick = port_nothing_to_do,
    .wait_fd = port_no_wait_fd,
    .close = port_nothing_to_do,
};

static void
turn(uint32_t turns)
{
    for (uint32_t i = 0; i < turns; i++) {
        lcore_turn(lcore);
        store_manage(dataplane->store);
    }
}

static void
connect_client(void)
{
    rig.session = calloc(1, sizeof(*rig.session));
    rig.blocked = rig.closed = rig.slot_lent = false;
    out_bytes = 0;
    CU_ASSERT_TRUE_FATAL(session_open(rig.session, lcore, &rig.port));
}

static void
disconnect_client(void)
{
    if (!rig.closed) {
        session_kill(rig.session);
        turn(2);
    }
    CU_ASSERT_TRUE(rig.closed);
    CU_ASSERT_FALSE(rig.slot_lent);
    CU_ASSERT_EQUAL(lcore->session_count, 0);
}

/* Hand over as a receive slot would; returns false while the session takes nothing. */
static bool
feed(const void *bytes, size_t count)
{
    if (rig.closed || session_is_choked(rig.session) || rig.slot_lent) {
        return false;
    }
    memcpy(rig.slot, bytes, count);
    rig.slot_lent = true;
    CU_ASSERT_TRUE_FATAL(session_receive(rig.session, rig.slot, count, rig.slot));
    return true;
}

/* Feed everything in pieces of `piece` bytes, turning in between. */
static void
feed_all(const char *text, size_t bytes, size_t piece)
{
    for (size_t at = 0; at < bytes;) {
        size_t count = MIN(piece, bytes - at);
        if (feed(text + at, count)) {
            at += count;
        }
        turn(1);
        if (rig.closed) {
            return;
        }
    }
    turn(4);
}

static bool
feed_text(const char *text)
{
    return feed(text, strlen(text));
}

static void
feed_whole(const char *text)
{
    feed_all(text, strlen(text), strlen(text));
}

static void
expect_output(const char *expected)
{
    bool equal = out_bytes == strlen(expected) && memcmp(out, expected, out_bytes) == 0;
    CU_ASSERT_TRUE(equal);
    if (!equal) {
        printf("\n    got %.*s\n", (int)MIN(out_bytes, 300), out);
    }
    out_bytes = 0;
}

/* The management core of the rig: the oldest question, or NULL. */
static struct later *
question_take(void)
{
    struct mail mail;
    return mail_take(dataplane->to_mgmt[0], &mail) && mail.kind == MAIL_LATER_REQUEST ? mail.p : NULL;
}

static void
question_answer(struct later *later, const char *answer)
{
    later->answered = true;
    later->answer_bytes = (uint32_t)strlen(answer);
    memcpy(later->answer, answer, later->answer_bytes);
    struct mail mail = { .kind = MAIL_LATER_REPLY, .p = later };
    CU_ASSERT_TRUE(dataplane_post(dataplane, 0, &mail));
}

/* ---- tests ---- */

static const char conversation[] = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nhello\r\n"
                                   "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
                                   "SET q \"a\\x41\\n\"\r\n"
                                   "GET q\r\n"
                                   "\r\n*0\r\n"
                                   "*1\r\n$0\r\n\r\n"
                                   "*2\r\n$6\r\nSTRLEN\r\n$1\r\nq\r\n"
                                   "PING\n";
static const char conversation_replies[] = "+OK\r\n$5\r\nhello\r\n+OK\r\n$3\r\naA\n\r\n"
                                           "-ERR unknown command '', with args beginning with: \r\n:3\r\n+PONG\r\n";

static void
every_split_gives_the_same_replies(void)
{
    for (size_t piece = 1; piece <= sizeof(conversation) - 1; piece++) {
        connect_client();
        feed_all(conversation, sizeof(conversation) - 1, piece);
        expect_output(conversation_replies);
        disconnect_client();
    }
}

static void
a_request_behind_a_later_one_waits_for_its_answer(void)
{
    static const char text[] = "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nINFO\r\n*2\r\n$4\r\nECHO\r\n$1\r\na\r\n"
                               "*1\r\n$4\r\nINFO\r\nECHO \"\\x62\"\r\n";
    connect_client();
    CU_ASSERT_TRUE(feed_text(text));
    turn(TURNS);
    expect_output("+PONG\r\n");
    struct later *first = question_take();
    CU_ASSERT_PTR_NOT_NULL_FATAL(first);
    CU_ASSERT_PTR_NULL(question_take()); /* the second one is not asked before the first is answered */
    CU_ASSERT_FALSE(rig.slot_lent);      /* a parked session keeps no receive slot */
    question_answer(first, "$1\r\n1\r\n");
    turn(TURNS);
    expect_output("$1\r\n1\r\n$1\r\na\r\n");
    struct later *second = question_take();
    CU_ASSERT_PTR_NOT_NULL_FATAL(second);
    question_answer(second, "$1\r\n2\r\n");
    turn(TURNS);
    expect_output("$1\r\n2\r\n$1\r\nb\r\n");
    disconnect_client();
}

static void
an_answer_for_a_session_that_is_gone_is_dropped(void)
{
    connect_client();
    CU_ASSERT_TRUE(feed_text("INFO\r\n"));
    turn(TURNS);
    struct later *later = question_take();
    CU_ASSERT_PTR_NOT_NULL_FATAL(later);
    disconnect_client();
    connect_client();
    question_answer(later, "$1\r\n1\r\n");
    turn(TURNS);
    expect_output("");
    disconnect_client();
}

static void
a_reader_that_stops_stops_being_served(void)
{
    static char value[8192];
    memset(value, 'v', sizeof(value));
    connect_client();
    int bytes = snprintf(out, OUT_BYTES, "*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$8192\r\n%.*s\r\n", 8192, value);
    static char set[9000];
    memcpy(set, out, (size_t)bytes);
    feed_all(set, (size_t)bytes, 4096);
    expect_output("+OK\r\n");

    rig.blocked = true;
    uint64_t before = rig.session->requests;
    for (int i = 0; i < 200; i++) {
        feed_text("*2\r\n$3\r\nGET\r\n$1\r\nb\r\n*2\r\n$3\r\nGET\r\n$1\r\nb\r\n");
        turn(2);
    }
    uint64_t served = rig.session->requests - before;
    uint64_t pending = stream_out_pending(&rig.session->out);
    CU_ASSERT_TRUE(rig.session->flags & SESSION_FULL);
    CU_ASSERT_TRUE(pending > LIMIT_OUTPUT_SOFT_BYTES && pending < LIMIT_OUTPUT_SOFT_BYTES + 3 * 8300);
    CU_ASSERT_TRUE(served < 40);

    rig.blocked = false;
    turn(TURNS);
    CU_ASSERT_EQUAL(out_bytes % 8201, 0); /* whole replies: "$8192" CR LF, value, CR LF */
    CU_ASSERT_FALSE(rig.session->flags & SESSION_FULL);
    out_bytes = 0;
    CU_ASSERT_TRUE(feed_text("PING\r\n"));
    turn(2);
    expect_output("+PONG\r\n");
    disconnect_client();
}

static void
the_end_of_input_comes_after_the_last_reply(void)
{
    connect_client();
    CU_ASSERT_TRUE(feed_text("*1\r\n$4\r\nINFO\r\nPING\r\nGET hal"));
    turn(2);
    session_end_of_input(rig.session);
    turn(TURNS);
    CU_ASSERT_FALSE(rig.closed);
    struct later *later = question_take();
    CU_ASSERT_PTR_NOT_NULL_FATAL(later);
    question_answer(later, "$1\r\n1\r\n");
    turn(TURNS);
    expect_output("$1\r\n1\r\n+PONG\r\n");
    disconnect_client(); /* closed by itself: the half request is nobody's */
}

static void
a_protocol_error_is_answered_after_what_came_before_and_closes(void)
{
    connect_client();
    feed_whole("PING\r\n*1\r\n$x\r\nPING\r\n");
    turn(TURNS);
    expect_output("+PONG\r\n-ERR Protocol error: invalid bulk length\r\n");
    CU_ASSERT_TRUE(rig.closed);
    disconnect_client();
}

static void
hello_answers_in_the_wire_it_chose(void)
{
    connect_client();
    feed_whole("*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n*3\r\n$4\r\nHGET\r\n$1\r\nn\r\n$1\r\nf\r\n");
    CU_ASSERT_TRUE(out_bytes > 10 && out[0] == '%');
    CU_ASSERT_TRUE(out_bytes > 3 && memcmp(out + out_bytes - 3, "_\r\n", 3) == 0);
    disconnect_client();
}

static void
a_message_to_oneself_follows_the_reply(void)
{
    static const char text[] = "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n";
    connect_client();
    feed_whole(text);
    out_bytes = 0;
    feed_whole("SUBSCRIBE c\r\n");
    expect_output(">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    feed_whole("*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$1\r\nx\r\nPING\r\n");
    turn(4);
    CU_ASSERT_TRUE(out_bytes > 4 && memcmp(out, ":1\r\n", 4) == 0);
    static const char message[] = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n";
    CU_ASSERT_PTR_NOT_NULL(memmem(out, out_bytes, message, sizeof(message) - 1));
    disconnect_client();
}

static void
subscriptions_end_at_their_limit_and_with_the_session(void)
{
    connect_client();
    for (uint32_t i = 0; i < LIMIT_CHANNELS_PER_SESSION; i++) {
        char line[64];
        int bytes = snprintf(line, sizeof(line), "SUBSCRIBE channel:%u\r\n", i);
        feed_all(line, (size_t)bytes, (size_t)bytes);
    }
    CU_ASSERT_EQUAL(rig.session->subscription_count, LIMIT_CHANNELS_PER_SESSION);
    out_bytes = 0;
    feed_whole("SUBSCRIBE one-more\r\n");
    expect_output("-ERR a session subscribes to at most 1024 channels\r\n");
    CU_ASSERT_EQUAL(load_relaxed(&lcore->counters->channels), LIMIT_CHANNELS_PER_SESSION);
    disconnect_client();
    CU_ASSERT_EQUAL(load_relaxed(&lcore->counters->channels), 0);
}

static uint64_t
used_bytes(void)
{
    struct store_stats stats;
    store_stats(dataplane->store, &stats);
    return stats.memory.used_bytes;
}

static void
sessions_leave_no_memory_behind(void)
{
    every_split_gives_the_same_replies();
    turn(2000);
    while (lcore->reserve.count < lcore->reserve.target || !lcore->reserve.hoard_complete) {
        turn(1); /* what sessions keep is complete, and stays */
    }
    uint64_t before = used_bytes();
    for (int i = 0; i < 20; i++) {
        every_split_gives_the_same_replies();
    }
    turn(2000);
    CU_ASSERT_TRUE(used_bytes() <= before + 4096);
}

/* ---- refused allocations ---- */

static const char *const busy_lines[] = {
    "HELLO 3\r\n",         "SET k v\r\n",       "APPEND k w\r\n",  "SUBSCRIBE a b c\r\n", "PUBLISH a x\r\n",
    "GET k\r\n",           "UNSUBSCRIBE a\r\n", "PUBLISH a y\r\n", "PUBLISH b z\r\n",     "HSET h f v g w\r\n",
    "*2\r\n$3\r\nGET\r\n", "$1\r\nk\r\n",       "HGETALL h\r\n",   "UNSUBSCRIBE\r\n",     "DEL k h\r\n",
};

/* Takes of memory from here on are counted, or refused, while the client comes, asks, and goes. False: it was not let
 * in. What it got is in `out`. */
static bool
busy_client(uint64_t refuse_first, uint64_t refuse_count)
{
    out_bytes = 0;
    rig.blocked = rig.closed = rig.slot_lent = false;
    rig.session = calloc(1, sizeof(*rig.session));
    refuse_memory(refuse_first, refuse_count, MEMORY_NO_PAGE);
    bool open = session_open(rig.session, lcore, &rig.port);
    for (uint32_t i = 0; open && i < ARRAY_COUNT(busy_lines); i++) {
        feed_whole(busy_lines[i]);
        turn(8);
        out_bytes = i == 0 ? 0 : out_bytes; /* HELLO answers the session's id */
    }
    refusals.last = 0;
    if (open) {
        disconnect_client();
    } else {
        free(rig.session);
    }
    return open;
}

static void
refused_allocations_only_delay_a_session(void)
{
    static char expected[4096];
    CU_ASSERT_TRUE(busy_client(0, 0));
    size_t expected_bytes = out_bytes;
    CU_ASSERT_TRUE_FATAL(expected_bytes > 100 && expected_bytes <= sizeof(expected));
    memcpy(expected, out, expected_bytes);
    turn(2000);
    uint64_t takes = load_relaxed(&refusals.takes), used = used_bytes();
    CU_ASSERT(takes > 20);
    for (uint64_t n = 1; n <= takes; n++) {
        for (uint64_t count = 1; count <= 4; count += 3) {
            if (busy_client(n, count)) {
                CU_ASSERT_EQUAL(out_bytes, expected_bytes);
                CU_ASSERT_TRUE(memcmp(out, expected, expected_bytes) == 0);
            }
        }
    }
    turn(2000);
    CU_ASSERT_TRUE(used_bytes() <= used + 4096);
}

static int
rig_open(void)
{
    const char *overrides[] = { "memory.reserve=256MiB", "memory.ahead=32MiB", "store.keys_expected=1024" };
    char why[SETTINGS_WHY_BYTES];
    if (settings_load(NULL, overrides, ARRAY_COUNT(overrides), &settings, why, sizeof(why)) != 0) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    settings.cpu_count = 1;
    if (dataplane_open(&settings, &dataplane, why, sizeof(why)) != 0) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    lcore = dataplane->lcores[0];
    if (lcore_begin(lcore) != 0) {
        return 1;
    }
    rig.port = (struct port){ .ops = &rig_ops, .lcore = lcore, .index = lcore->port_count };
    lcore->ports[lcore->port_count++] = &rig.port;
    return 0;
}

static int
rig_close(void)
{
    lcore_end(lcore);
    dataplane_close(dataplane);
    return 0;
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("session", rig_open, rig_close);
    CU_ADD_TEST(suite, every_split_gives_the_same_replies);
    CU_ADD_TEST(suite, a_request_behind_a_later_one_waits_for_its_answer);
    CU_ADD_TEST(suite, an_answer_for_a_session_that_is_gone_is_dropped);
    CU_ADD_TEST(suite, a_reader_that_stops_stops_being_served);
    CU_ADD_TEST(suite, the_end_of_input_comes_after_the_last_reply);
    CU_ADD_TEST(suite, a_protocol_error_is_answered_after_what_came_before_and_closes);
    CU_ADD_TEST(suite, hello_answers_in_the_wire_it_chose);
    CU_ADD_TEST(suite, a_message_to_oneself_follows_the_reply);
    CU_ADD_TEST(suite, subscriptions_end_at_their_limit_and_with_the_session);
    CU_ADD_TEST(suite, sessions_leave_no_memory_behind);
    CU_ADD_TEST(suite, refused_allocations_only_delay_a_session);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures() + CU_get_number_of_suites_failed();
    CU_cleanup_registry();
    return failures != 0;
}
