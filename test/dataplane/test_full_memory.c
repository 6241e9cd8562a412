/* test_full_memory.c - one lcore turned by hand, ordinary memory refused from some moment on: requests are read and
 * answered from what sessions keep, commands that shrink from the store's reserve, and neither takes from the other. */
#include "codec/resp.h"
#include "test/dataplane/full_memory_rig.h"
#include <CUnit/Basic.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- what is kept ---- */

static bool
reserve_is_complete(void)
{
    const struct stream_reserve *reserve = &lcore->reserve;
    const struct stream_hoard *hoard = &dataplane->hoard;
    return reserve->count == reserve->target && reserve->door_count == reserve->doors_target &&
           hoard->count == STREAM_HOARD_BLOCKS && hoard->page != NULL && load_relaxed(&hoard->reply.holder) == 0 &&
           load_relaxed(&hoard->request.holder) == 0;
}

static void
starve(void)
{
    for (uint32_t i = 0; i < 1000 && !reserve_is_complete(); i++) {
        stream_reserve_fill(&lcore->reserve);
        store_manage(dataplane->store);
    }
    CU_ASSERT_TRUE_FATAL(reserve_is_complete());
    starving = true;
}

static void
feed(void)
{
    for (uint32_t i = 0; i < CLIENTS; i++) {
        if (clients[i].session != NULL) {
            client_close(&clients[i]);
        }
    }
    CU_ASSERT_TRUE(reserve_is_complete());
    starving = false;
}

/* ---- tests ---- */

static void
all_is_kept_within_a_few_ticks_of_the_start(void)
{
    static struct stream_hoard hoard;
    struct stream_reserve reserve;
    stream_reserve_init(&reserve, lcore->memory, &hoard, MIB);
    starving = true;
    refusal = MEMORY_NO_PAGE;
    stream_reserve_fill(&reserve); /* pages are on their way: it asks again */
    starving = false;
    refusal = MEMORY_AT_LIMIT;
    for (uint32_t ticks = 0; ticks < 6; ticks++) {
        turn(TURNS); /* pages come */
        stream_reserve_fill(&reserve);
    }
    CU_ASSERT_EQUAL(reserve.count, reserve.target);
    CU_ASSERT_EQUAL(reserve.door_count, reserve.doors_target);
    CU_ASSERT_EQUAL(hoard.count, STREAM_HOARD_BLOCKS);
    CU_ASSERT_PTR_NOT_NULL_FATAL(hoard.page);
    stream_reserve_fini(&reserve);
    while (hoard.count > 0) {
        memory_give(lcore->memory, hoard.blocks[--hoard.count], STREAM_BLOCK_BYTES);
    }
    memory_give(lcore->memory, hoard.page, STREAM_PAGE_BYTES);
}

static void
what_sessions_keep_follows_the_limit_while_they_run(void)
{
    static const struct row {
        uint64_t share_bytes;
        uint32_t target;
    } rows[] = {
        { 0, 2 },
        { 2 * STREAM_BLOCK_BYTES, 2 },
        { 3 * STREAM_BLOCK_BYTES - 1, 2 },
        { 3 * STREAM_BLOCK_BYTES, 3 },
        { 3 * STREAM_BLOCK_BYTES + 1, 3 },
        { STREAM_BLOCKS * STREAM_BLOCK_BYTES - 1, STREAM_BLOCKS - 1 },
        { STREAM_BLOCKS * STREAM_BLOCK_BYTES, STREAM_BLOCKS },
        { GIB, STREAM_BLOCKS },
        { 0, 2 },
    };
    uint64_t before = load_relaxed(&dataplane->live.session_bytes);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        store_relaxed(&dataplane->live.session_bytes, rows[i].share_bytes * dataplane->lcore_count);
        turn_for_ms(3);
        CU_ASSERT_EQUAL(lcore->reserve.target, rows[i].target);
        CU_ASSERT_EQUAL(lcore->reserve.count, rows[i].target);
    }
    struct settings lowered = settings;
    lowered.memory_limit = STREAM_SHARE * 5 * STREAM_BLOCK_BYTES;
    dataplane_live_set(&dataplane->live, &lowered, dataplane->ns_per_cycle);
    turn_for_ms(3);
    CU_ASSERT_EQUAL(lcore->reserve.count, 5);
    dataplane_live_set(&dataplane->live, &settings, dataplane->ns_per_cycle);
    CU_ASSERT_EQUAL(load_relaxed(&dataplane->live.session_bytes), before);
    turn_for_ms(3);
}

static void
small_requests_are_answered_and_only_what_shrinks_takes_the_stores_reserve(void)
{
    static const struct row {
        const char *line, *reply;
        bool shrinks;
    } rows[] = {
        { "PING\r\n", "+PONG\r\n", false },     { "SET new v\r\n", "-OOM", false },
        { "GET a\r\n", "$100\r\n", false },     { "HGET h f\r\n", "$5000\r\n", false },
        { "HGETALL h\r\n", "*4\r\n", false },   { "EXISTS a b c\r\n", ":1\r\n", false },
        { "HDEL h g\r\n", ":1\r\n", true },     { "EXPIRE a 100\r\n", ":1\r\n", true },
        { "PERSIST a\r\n", ":1\r\n", true },    { "DEL a\r\n", ":1\r\n", true },
        { "HGET h f\r\n", "$5000\r\n", false }, { "nonsense\r\n", "-ERR unknown command", false },
    };
    put_string('a', 100);
    put("*4\r\n$4\r\nHSET\r\n$1\r\nh\r\n$1\r\nf", 5000);
    put("*4\r\n$4\r\nHSET\r\n$1\r\nh\r\n$1\r\ng", 5000);
    starve();
    struct client *client = client_open(false);
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        uint64_t before = reserve_takes;
        client_ask(client, rows[i].line);
        CU_ASSERT_TRUE(client_got_beginning(client, rows[i].reply));
        CU_ASSERT_EQUAL(reserve_takes > before, rows[i].shrinks);
    }
    feed();
}

static void
a_reply_of_any_size_up_to_the_limit_is_given_whole(void)
{
    /* "*4" CR LF, and for each value "$1048551" CR LF, the value, CR LF */
    static const size_t rest = LIMIT_REPLY_BYTES - 4 - 4 * 12;
    for (size_t value = 0; value < 3; value++) {
        put_string((char)('a' + value), rest / 4);
    }
    put_string('d', rest / 4);
    put_string('e', rest / 4 + 1);
    starve();
    struct client *client = client_open(false);
    client_ask(client, "GET a\r\n");
    CU_ASSERT_EQUAL(client->out_bytes, rest / 4 + 12);
    client_ask(client, "MGET a b c d\r\n");
    CU_ASSERT_EQUAL(client->out_bytes, LIMIT_REPLY_BYTES);
    CU_ASSERT_TRUE(client_got_beginning(client, "*4\r\n$1048563\r\nvvvv"));
    client_ask(client, "MGET a b c e\r\n");
    CU_ASSERT_TRUE(client_got(client, "-" ERROR_TOO_LONG "\r\n"));
    client_ask(client, "GET e\r\nGET a\r\n"); /* the second waits until the first is read */
    CU_ASSERT_EQUAL(client->out_bytes, 2 * (rest / 4 + 12) + 1);
    feed();
}

/* What is done must not be done again, so its reply is written before it is done. */
static void
the_old_value_of_a_set_finds_memory_before_it_is_replaced(void)
{
    put_string('a', LIMIT_VALUE_BYTES);
    put_string('b', LIMIT_VALUE_BYTES);
    put("*4\r\n$4\r\nHSET\r\n$1\r\nh\r\n$1\r\nf", 5);
    starve();
    struct client *deaf = client_open(true), *client = client_open(false);
    client_ask(deaf, "GET a\r\n");
    client_ask(client, "SET h v GET\r\n");
    CU_ASSERT_TRUE(client_got_beginning(client, "-WRONGTYPE"));
    client_ask(client, "SET b v GET\r\n");
    CU_ASSERT_EQUAL(client->out_bytes, 0);
    client_close(deaf);
    turn(TURNS);
    CU_ASSERT_EQUAL(client->out_bytes, LIMIT_VALUE_BYTES + 12);
    client_ask(client, "GET b\r\n");
    CU_ASSERT_TRUE(client_got(client, "$1\r\nv\r\n"));
    client_ask(client, "SET b w GET KEEPTTL\r\n");
    CU_ASSERT_TRUE(client_got(client, "$1\r\nv\r\n"));
    CU_ASSERT_EQUAL(load_relaxed(&dataplane->hoard.reply.holder), 0);
    feed();
}

static void
who_never_reads_a_large_reply_is_closed_when_another_wants_one(void)
{
    put_string('a', LIMIT_VALUE_BYTES);
    starve();
    struct client *deaf = client_open(true), *other = client_open(false), *third = client_open(false);
    client_ask(deaf, "GET a\r\n");
    CU_ASSERT_TRUE(stream_out_pending(&deaf->session->out) > LIMIT_VALUE_BYTES);
    turn_for_ms(SESSION_STUCK_MS + 500);
    CU_ASSERT_PTR_NOT_NULL(deaf->session); /* nobody wants what it has */
    int64_t begun_ms = lcore->now_ms;
    client_ask(other, "GET a\r\n");
    CU_ASSERT_EQUAL(other->out_bytes, 0);
    client_ask(third, "PING\r\n");
    CU_ASSERT_TRUE(client_got(third, "+PONG\r\n")); /* small requests do not wait */
    while (other->out_bytes == 0 && lcore->now_ms - begun_ms < 2 * SESSION_STUCK_MS) {
        turn(TURNS);
    }
    CU_ASSERT_EQUAL(other->out_bytes, LIMIT_VALUE_BYTES + 12);
    CU_ASSERT_TRUE(lcore->now_ms - begun_ms >= SESSION_STUCK_MS);
    CU_ASSERT_PTR_NULL(deaf->session);
    feed();
}

static void
who_reads_a_large_reply_byte_by_byte_does_not_have_it_for_ever(void)
{
    put_string('a', LIMIT_VALUE_BYTES);
    starve();
    struct client *slow = client_open(true), *other = client_open(false);
    client_ask(slow, "GET a\r\n");
    client_ask(other, "GET a\r\n");
    for (int64_t begun_ms = lcore->now_ms; lcore->now_ms - begun_ms < SESSION_STUCK_MS + 500;) {
        stream_out_acknowledge(&slow->session->out, slow->session->out.acknowledged + 1);
        turn(TURNS);
        CU_ASSERT_PTR_NOT_NULL_FATAL(slow->session); /* it moves */
    }
    CU_ASSERT_EQUAL(other->out_bytes, 0);
    slow->session->reply_hold.since_ms -= SESSION_HOLD_MS;
    slow->session->reply_hold.moved_ms = lcore->now_ms;
    turn_for_ms(SESSION_STUCK_MS / 2);
    CU_ASSERT_PTR_NULL(slow->session);
    CU_ASSERT_EQUAL(other->out_bytes, LIMIT_VALUE_BYTES + 12);
    feed();
}

static void
a_request_that_waits_is_tried_every_turn_at_first_and_then_once_a_tick(void)
{
    put_string('a', LIMIT_VALUE_BYTES);
    starve();
    struct client *deaf = client_open(true), *first = client_open(false), *second = client_open(false);
    client_ask(deaf, "GET a\r\n");
    client_ask(first, "GET a\r\n");
    client_ask(second, "GET a\r\n");
    turn_for_ms(4);
    uint64_t turns = load_relaxed(&lcore->counters->turns), busy = load_relaxed(&lcore->counters->busy_turns);
    uint64_t retried = load_relaxed(&lcore->counters->requests_retried);
    int64_t begun_ms = lcore->now_ms;
    turn_for_ms(50);
    uint64_t ticks = (uint64_t)(lcore->now_ms - begun_ms);
    turns = load_relaxed(&lcore->counters->turns) - turns;
    retried = load_relaxed(&lcore->counters->requests_retried) - retried;
    CU_ASSERT_TRUE(retried > 0 && retried <= 2 * (ticks + 1));
    CU_ASSERT_TRUE(turns > retried);
    CU_ASSERT_EQUAL(load_relaxed(&lcore->counters->busy_turns), busy); /* it may sleep */
    client_close(first);                                               /* from among those that wait */
    client_close(deaf);
    turn_for_ms(3);
    CU_ASSERT_EQUAL(second->out_bytes, LIMIT_VALUE_BYTES + 12);
    CU_ASSERT_PTR_NULL(lcore->waiting);
    client_ask(second, "PING\r\n");
    feed();
}

static void
nobody_keeps_a_hoard_that_has_nothing_for_him(void)
{
    starve();
    struct client *client = client_open(false);
    uint32_t own = lcore->reserve.count, hoarded = dataplane->hoard.count;
    lcore->reserve.count = dataplane->hoard.count = 0;
    client_ask(client, "PING\r\n");
    CU_ASSERT_EQUAL(client->out_bytes, 0);
    CU_ASSERT_EQUAL(load_relaxed(&dataplane->hoard.reply.holder), 0);
    lcore->reserve.count = own;
    dataplane->hoard.count = hoarded;
    turn(TURNS);
    CU_ASSERT_TRUE(client_got(client, "+PONG\r\n"));
    feed();
}

static void
those_that_never_read_small_replies_do_not_keep_a_reader_waiting(void)
{
    starve();
    struct client *reader = client_open(false);
    for (uint32_t i = 0; i < lcore->reserve.target + 1; i++) { /* one of them has the hoard */
        struct client *deaf = client_open(true);
        client_offer(deaf, "PING\r\n", 6);
        turn(4);
    }
    CU_ASSERT_EQUAL(lcore->reserve.count, 0);
    uint64_t closed = load_relaxed(&lcore->counters->closed_hindering);
    int64_t begun_ms = lcore->now_ms;
    client_ask(reader, "PING\r\n");
    while (reader->out_bytes == 0 && lcore->now_ms - begun_ms < 2 * SESSION_STUCK_MS) {
        turn(TURNS);
    }
    CU_ASSERT_TRUE(client_got(reader, "+PONG\r\n"));
    CU_ASSERT_TRUE(load_relaxed(&lcore->counters->closed_hindering) > closed);
    feed();
}

static void
every_request_of_a_pipeline_is_answered(void)
{
    static char value[1001], pipeline[200 * 1100];
    size_t bytes = 0;
    memset(value, 'v', sizeof(value) - 1);
    for (uint32_t i = 0; i < 200; i++) {
        bytes += (size_t)snprintf(pipeline + bytes, sizeof(pipeline) - bytes,
                                  "*3\r\n$3\r\nSET\r\n$5\r\np:%03u\r\n$1000\r\n%s\r\n", i, value);
    }
    starve();
    struct client *several[8];
    for (uint32_t i = 0; i < ARRAY_COUNT(several); i++) {
        several[i] = client_open(false);
    }
    for (size_t at = 0; at < bytes; at += SLOT_BYTES) { /* side by side, each in the middle of a request */
        for (uint32_t i = 0; i < ARRAY_COUNT(several); i++) {
            CU_ASSERT_TRUE(client_send(several[i], pipeline + at, MIN((size_t)SLOT_BYTES, bytes - at)));
        }
    }
    for (uint32_t i = 0; i < ARRAY_COUNT(several); i++) {
        uint32_t answers = 0;
        for (size_t at = 0; at < several[i]->out_bytes; at++) {
            answers += several[i]->out[at] == '-';
        }
        CU_ASSERT_EQUAL(answers, 200);
        CU_ASSERT_PTR_NOT_NULL(several[i]->session);
    }
    feed();
}

/* "DEL" of many keys: nearly as long as a request may be. Returns its bytes. */
static size_t
large_request(char *out, size_t room)
{
    static char key[1251];
    memset(key, 'k', sizeof(key) - 1);
    size_t bytes = (size_t)snprintf(out, room, "*1001\r\n$3\r\nDEL\r\n");
    for (uint32_t i = 0; i < 1000; i++) {
        bytes += (size_t)snprintf(out + bytes, room - bytes, "$1250\r\n%s\r\n", key);
    }
    return bytes;
}

static void
a_large_request_is_read_one_at_a_time_and_who_does_not_finish_one_goes(void)
{
    static char request[LIMIT_REQUEST_BYTES];
    size_t bytes = large_request(request, sizeof(request)), sent = 0;
    starve();
    struct client *first = client_open(false), *second = client_open(false), *third = client_open(false);
    for (uint32_t frames = 0; frames < 2; frames++) {
        first->frames = frames == 1;
        first->out_bytes = 0;
        CU_ASSERT_TRUE(client_send(first, request, bytes));
        CU_ASSERT_TRUE(client_got(first, ":0\r\n"));
    }
    CU_ASSERT_TRUE(client_send(first, request, bytes / 2)); /* and no more of it */
    int64_t begun_ms = lcore->now_ms;
    while (sent < bytes && lcore->now_ms - begun_ms < 2 * SESSION_STUCK_MS) {
        sent += client_offer(second, request + sent, bytes - sent);
        turn(1);
        if (sent > bytes / 4 && first->session != NULL) {
            CU_FAIL_FATAL("two large requests at a time");
        }
    }
    turn(TURNS);
    CU_ASSERT_TRUE(client_got(second, ":0\r\n"));
    CU_ASSERT_PTR_NULL(first->session);
    client_ask(third, "PING\r\n");
    CU_ASSERT_TRUE(client_got(third, "+PONG\r\n"));
    feed();
}

static void
half_requests_leave_blocks_for_replies(void)
{
    starve();
    struct client *reader = client_open(false);
    for (uint32_t i = 0; i < CLIENTS - 2; i++) {
        client_offer(client_open(false), "*2\r\n$3\r\nGET\r\n$100\r\n", 19);
        turn(2);
    }
    CU_ASSERT_TRUE(lcore->reserve.count >= lcore->reserve.target / 2);
    client_ask(reader, "PING\r\n");
    CU_ASSERT_TRUE(client_got(reader, "+PONG\r\n"));
    feed();
}

/* While the port runs out of receive slots, nobody keeps one long; else they wait. */
static void
who_keeps_a_receive_slot_that_others_need_is_told(void)
{
    starve();
    for (uint32_t scarce = 0; scarce < 2; scarce++) {
        for (uint32_t i = 0; i < lcore->reserve.target; i++) {
            client_offer(client_open(false), "*2\r\n$3\r\nGET\r\n$100\r\n", 19);
            turn(2);
        }
        struct client *last = client_open(false);
        session_set_wire(last->session, WIRE_RESP2);
        client_offer(last, "*2\r\n$3\r\nGET\r\n$100\r\n", 19);
        turn(2);
        CU_ASSERT_TRUE(last->slot_lent);
        port.scarce = scarce == 1;
        turn_for_ms(2 * SESSION_SCARCE_MS);
        CU_ASSERT_EQUAL(last->session == NULL, scarce == 1);
        CU_ASSERT_EQUAL(client_got_beginning(last, "-OOM"), scarce == 1);
        for (uint32_t i = 0; i < CLIENTS; i++) {
            if (clients[i].session != NULL) {
                client_close(&clients[i]);
            }
        }
    }
    port.scarce = false;
    feed();
}

static void
an_operator_gets_in(void)
{
    static int pairs[STREAM_DOORS + 1][2];
    char reply[8] = { 0 };
    starve();
    uint64_t refused = load_relaxed(&lcore->counters->sessions_refused);
    for (uint32_t i = 0; i < STREAM_DOORS + 1; i++) {
        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[i]), 0);
        struct mail mail = { .kind = MAIL_ADOPT_SOCKET, .a = (uint64_t)pairs[i][1], .b = 1 };
        CU_ASSERT_TRUE_FATAL(dataplane_post(dataplane, 0, &mail));
        turn(1);
    }
    CU_ASSERT_EQUAL(load_relaxed(&lcore->counters->sessions_refused), refused + 1);
    CU_ASSERT_EQUAL(send(pairs[0][0], "PING\r\n", 6, 0), 6);
    turn(2 * TURNS);
    CU_ASSERT_EQUAL(recv(pairs[0][0], reply, sizeof(reply), MSG_DONTWAIT), 7);
    for (uint32_t i = 0; i < STREAM_DOORS + 1; i++) {
        close(pairs[i][0]);
    }
    turn(2 * TURNS);
    feed();
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("full memory", full_memory_open, full_memory_close);
    CU_ADD_TEST(suite, all_is_kept_within_a_few_ticks_of_the_start);
    CU_ADD_TEST(suite, what_sessions_keep_follows_the_limit_while_they_run);
    CU_ADD_TEST(suite, small_requests_are_answered_and_only_what_shrinks_takes_the_stores_reserve);
    CU_ADD_TEST(suite, a_reply_of_any_size_up_to_the_limit_is_given_whole);
    CU_ADD_TEST(suite, the_old_value_of_a_set_finds_memory_before_it_is_replaced);
    CU_ADD_TEST(suite, who_never_reads_a_large_reply_is_closed_when_another_wants_one);
    CU_ADD_TEST(suite, who_reads_a_large_reply_byte_by_byte_does_not_have_it_for_ever);
    CU_ADD_TEST(suite, a_request_that_waits_is_tried_every_turn_at_first_and_then_once_a_tick);
    CU_ADD_TEST(suite, nobody_keeps_a_hoard_that_has_nothing_for_him);
    CU_ADD_TEST(suite, those_that_never_read_small_replies_do_not_keep_a_reader_waiting);
    CU_ADD_TEST(suite, every_request_of_a_pipeline_is_answered);
    CU_ADD_TEST(suite, a_large_request_is_read_one_at_a_time_and_who_does_not_finish_one_goes);
    CU_ADD_TEST(suite, half_requests_leave_blocks_for_replies);
    CU_ADD_TEST(suite, who_keeps_a_receive_slot_that_others_need_is_told);
    CU_ADD_TEST(suite, an_operator_gets_in);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures() + CU_get_number_of_suites_failed();
    CU_cleanup_registry();
    return failures != 0;
}
