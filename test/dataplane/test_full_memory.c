/* test_full_memory.c - one lcore turned by hand, ordinary memory refused from some moment on: requests are read and
 * answered from what sessions keep, commands that shrink from the store's reserve, and neither takes from the other. */
#include "codec/resp.h"
#include "dataplane/dataplane.h"
#include <CUnit/Basic.h>
#include <sys/socket.h>
#include <unistd.h>

#define SLOT_BYTES 16384
#define OUT_BYTES  (5 * MIB)
#define CLIENTS    64
#define TURNS      64

struct client {
    struct session *session; /* NULL: closed, or never opened */
    uint8_t *slot;           /* of SLOT_BYTES */
    bool slot_lent;
    bool blocked; /* it does not read */
    bool frames;  /* its port knows only slots, as the fabric does */
    char *out;    /* of OUT_BYTES, unless blocked from the start */
    size_t out_bytes;
};

static struct settings settings;
static struct dataplane *dataplane;
static struct lcore *lcore;
static struct port port;
static struct client clients[CLIENTS];

/* ---- memory that is full at the moment that a test wants ---- */

static bool starving;
static enum memory_refusal refusal = MEMORY_AT_LIMIT;
static uint64_t reserve_takes;
void *__real_memory_take(struct memory_cache *cache, size_t bytes);
void *__wrap_memory_take(struct memory_cache *cache, size_t bytes);
void *__real_memory_take_reserve(struct memory_cache *cache, size_t bytes);
void *__wrap_memory_take_reserve(struct memory_cache *cache, size_t bytes);
enum memory_refusal __wrap_memory_refusal(const struct memory_cache *cache);

void *
__wrap_memory_take(struct memory_cache *cache, size_t bytes)
{
    return starving ? NULL : __real_memory_take(cache, bytes);
}

void *
__wrap_memory_take_reserve(struct memory_cache *cache, size_t bytes)
{
    reserve_takes++;
    return __real_memory_take_reserve(cache, bytes);
}

enum memory_refusal
__wrap_memory_refusal(const struct memory_cache *cache)
{
    return refusal;
}

/* ---- the rig ---- */

static struct client *
client_of(const struct session *session)
{
    for (uint32_t i = 0; i < CLIENTS; i++) {
        if (clients[i].session == session) {
            return &clients[i];
        }
    }
    return NULL;
}

static uint32_t
rig_poll(struct port *base)
{
    return 0;
}

static uint32_t
rig_flush(struct port *base)
{
    for (struct session *session = base->dirty, *next; session != NULL; session = next) {
        struct client *client = client_of(session);
        struct stream_out *out = &session->out;
        next = session->dirty_next;
        session_untouch_output(session);
        if (!client->blocked) {
            client->out_bytes += stream_out_copy(out, out->sent, (uint8_t *)client->out + client->out_bytes,
                                                 OUT_BYTES - client->out_bytes);
            stream_out_acknowledge(out, stream_out_end(out));
            session_output_shrank(session);
        }
    }
    return 0;
}

static void
rig_settle(struct port *base, struct session *session, void *slot)
{
    client_of(session)->slot_lent = false;
}

static void
rig_session_close(struct port *base, struct session *session)
{
    client_of(session)->session = NULL;
    free(session);
}

static void
rig_tick(struct port *base)
{
}

static int
rig_wait_fd(struct port *base)
{
    return -1;
}

static const struct port_ops rig_ops = {
    .poll = rig_poll,
    .flush = rig_flush,
    .settle = rig_settle,
    .session_close = rig_session_close,
    .tick = rig_tick,
    .wait_fd = rig_wait_fd,
    .close = rig_tick,
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
turn_for_ms(int64_t ms)
{
    for (int64_t begun_ms = lcore->now_ms; lcore->now_ms - begun_ms < ms;) {
        turn(TURNS);
    }
}

static struct client *
client_open(bool blocked)
{
    struct client *client = client_of(NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(client);
    client->session = calloc(1, sizeof(*client->session));
    client->slot = client->slot != NULL ? client->slot : malloc(SLOT_BYTES);
    client->out = client->out != NULL ? client->out : malloc(OUT_BYTES);
    client->slot_lent = false;
    client->blocked = blocked;
    client->frames = false;
    client->out_bytes = 0;
    CU_ASSERT_TRUE_FATAL(session_open(client->session, lcore, &port));
    return client;
}

static void
client_close(struct client *client)
{
    if (client->session != NULL) {
        session_kill(client->session);
        turn(2);
    }
    CU_ASSERT_PTR_NULL(client->session);
}

/* As a socket port does; returns the bytes that found a place. */
static size_t
client_offer(struct client *client, const char *bytes, size_t count)
{
    size_t room;
    if (client->session == NULL || session_is_choked(client->session) || client->slot_lent) {
        return 0;
    }
    uint8_t *into = client->frames ? NULL : session_receive_room(client->session, &room);
    size_t piece = MIN(count, into != NULL ? room : (size_t)SLOT_BYTES);
    if (into != NULL) {
        memcpy(into, bytes, piece);
        if (piece > 0) {
            session_received(client->session, piece);
        }
        return piece;
    }
    memcpy(client->slot, bytes, piece);
    client->slot_lent = session_receive(client->session, client->slot, piece, client->slot);
    return client->slot_lent ? piece : 0;
}

/* All of it, within some turns. Returns whether it could be. */
static bool
client_send(struct client *client, const char *bytes, size_t count)
{
    size_t sent = 0;
    for (uint32_t i = 0; i < 10000 && sent < count; i++) {
        sent += client_offer(client, bytes + sent, count - sent);
        turn(1);
    }
    turn(TURNS);
    return sent == count;
}

static void
client_ask(struct client *client, const char *line)
{
    client->out_bytes = 0;
    CU_ASSERT_TRUE(client_send(client, line, strlen(line)));
}

static bool
client_got(const struct client *client, const char *expected)
{
    return client->out_bytes == strlen(expected) && memcmp(client->out, expected, client->out_bytes) == 0;
}

static bool
client_got_beginning(const struct client *client, const char *expected)
{
    return client->out_bytes >= strlen(expected) && memcmp(client->out, expected, strlen(expected)) == 0;
}

/* A string value, or a hash of one field, by way of a client that goes again. */
static void
put(const char *before, size_t value_bytes)
{
    char *request = malloc(value_bytes + 256);
    int head = sprintf(request, "%s\r\n$%zu\r\n", before, value_bytes);
    memset(request + head, 'v', value_bytes);
    memcpy(request + head + value_bytes, "\r\n", 2);
    struct client *client = client_open(false);
    CU_ASSERT_TRUE(client_send(client, request, (size_t)head + value_bytes + 2));
    CU_ASSERT_TRUE(client->out_bytes > 0 && client->out[0] != '-');
    client_close(client);
    free(request);
}

static void
put_string(char name, size_t value_bytes)
{
    char before[64];
    sprintf(before, "*3\r\n$3\r\nSET\r\n$1\r\n%c", name);
    put(before, value_bytes);
}

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
    port = (struct port){ .ops = &rig_ops, .lcore = lcore, .index = lcore->port_count };
    lcore->ports[lcore->port_count++] = &port;
    return 0;
}

static int
rig_close(void)
{
    lcore_end(lcore);
    dataplane_close(dataplane);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        free(clients[i].slot);
        free(clients[i].out);
    }
    return 0;
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("full memory", rig_open, rig_close);
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
