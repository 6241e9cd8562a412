/* test_port_ethernet.c - connections of the ethernet port: what peers may do, and what comes of it. */
#include "test/dataplane/ethernet_rig.h"
#include <CUnit/Basic.h>

static struct ethernet_rig rig;

static void
start(void)
{
    ethernet_rig_start(&rig, 0);
}

static void
stop(void)
{
    CU_ASSERT_TRUE(ethernet_rig_stop(&rig));
}

static void
connect_peer(struct peer *peer, uint16_t port)
{
    peer_open(&rig, peer, port);
    CU_ASSERT_TRUE_FATAL(peer_connect(&rig, peer));
}

static void
a_peer_is_served_and_known_by_its_address(void)
{
    struct peer peer;

    start();
    connect_peer(&peer, 40000);
    CU_ASSERT_EQUAL(peer.other_mss, 1460);
    peer_say(&rig, &peer, "PING\r\n");
    wire_turns(&rig, 4);
    CU_ASSERT(peer_got(&peer, "+PONG\r\n"));
    const struct session *session = rig.rig.lcore->all;
    CU_ASSERT_STRING_EQUAL(session->peer, "10.0.0.1:40000");
    CU_ASSERT_STRING_EQUAL(session->local, "10.0.0.2:6379");
    CU_ASSERT_EQUAL(peer.bad_sums, 0);
    peer_leave(&rig, &peer);
    stop();
}

/* Three requests; the second has a large value. */
static size_t
conversation(char *out, size_t room)
{
    static char value[5000];
    memset(value, 'v', sizeof(value));
    return (size_t)snprintf(
        out, room, "PING\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5000\r\n%.5000s\r\n*2\r\n$6\r\nSTRLEN\r\n$1\r\nk\r\n",
        value);
}
#define CONVERSATION_REPLY "+PONG\r\n+OK\r\n:5000\r\n"

static void
requests_may_be_cut_anywhere(void)
{
    static const size_t sizes[] = { 1, 2, 3, 7, 100, 511, 512, 513, 1000, 1459, 1460 };
    char text[8192];
    size_t bytes = conversation(text, sizeof(text));

    start();
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        struct peer peer;
        connect_peer(&peer, (uint16_t)(40000 + i));
        for (size_t at = 0; at < bytes; at += sizes[i]) {
            peer_send(&rig, &peer, 0, text + at, MIN(sizes[i], bytes - at));
            if (at / sizes[i] % 16 == 15) {
                wire_turns(&rig, 3);
            }
        }
        wire_turns(&rig, 20);
        CU_ASSERT(peer_got(&peer, CONVERSATION_REPLY));
        peer_leave(&rig, &peer);
    }
    stop();
}

static void
segments_may_come_in_any_order_twice_and_overlapping(void)
{
    char text[8192];
    size_t bytes = conversation(text, sizeof(text));
    struct peer peer;

    start();
    connect_peer(&peer, 40000);
    for (size_t at = bytes; at > 0;) { /* the last one first, each a bit longer than it need be */
        size_t part = MIN(at, 700);
        at -= part;
        peer_send_at(&rig, &peer, 0, peer.seq + (uint32_t)at, text + at, MIN(part + 300, bytes - at));
        peer_send_at(&rig, &peer, 0, peer.seq + (uint32_t)at, text + at, part);
        wire_turns(&rig, 1);
    }
    peer.seq += (uint32_t)bytes;
    wire_turns(&rig, 20);
    CU_ASSERT(peer_got(&peer, CONVERSATION_REPLY));
    CU_ASSERT_EQUAL(peer.seen, peer.seq);
    peer_leave(&rig, &peer);
    stop();
}

static void
a_half_closed_peer_gets_all_its_answers_then_the_end(void)
{
    struct peer peer;

    start();
    connect_peer(&peer, 40000);
    peer_send(&rig, &peer, PEER_FIN, "PING\r\nPING\r\nECHO last\r\n", 23);
    wire_turns(&rig, 10);
    CU_ASSERT(peer_got(&peer, "+PONG\r\n+PONG\r\n$4\r\nlast\r\n"));
    CU_ASSERT_TRUE(peer.finished);
    CU_ASSERT_FALSE(peer.flags_seen & PEER_RST);
    peer_close(&rig, &peer);
    stop();
}

static void
a_peer_that_quits_is_told_before_the_end(void)
{
    struct peer peer;

    start();
    connect_peer(&peer, 40000);
    peer_say(&rig, &peer, "QUIT\r\n");
    wire_turns(&rig, 6);
    CU_ASSERT(peer_got(&peer, "+OK\r\n"));
    CU_ASSERT_TRUE(peer.finished);
    CU_ASSERT_FALSE(peer.flags_seen & PEER_RST);
    peer_leave(&rig, &peer);
    stop();
}

static void
a_reset_ends_the_session_in_mid_request(void)
{
    struct peer peer;

    start();
    connect_peer(&peer, 40000);
    peer_say(&rig, &peer, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5000\r\nabc");
    wire_turns(&rig, 2);
    CU_ASSERT_EQUAL(rig.rig.lcore->session_count, 2);
    peer_send(&rig, &peer, PEER_RST, NULL, 0);
    wire_turns(&rig, 2);
    CU_ASSERT_EQUAL(rig.rig.lcore->session_count, 1);
    peer_close(&rig, &peer);
    stop();
}

/* What the port keeps of a client is bounded by its own replies: lwIP holds one segment to ask with. */
static void
a_closed_window_holds_one_segment_and_loses_nothing(void)
{
    struct peer peer;

    start();
    connect_peer(&peer, 40000);
    char request[20100];
    size_t used = (size_t)sprintf(request, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$20000\r\n");
    memset(request + used, 'x', 20000);
    memcpy(request + used + 20000, "\r\n", 2);
    for (size_t at = 0; at < used + 20002; at += 1460) {
        peer_send(&rig, &peer, 0, request + at, MIN(1460, used + 20002 - at));
    }
    peer.window = 0; /* with its next acknowledgement */
    wire_turns(&rig, 30);
    CU_ASSERT(peer_got(&peer, "+OK\r\n"));

    peer_say(&rig, &peer, "GET k\r\nGET k\r\n");
    wire_turns(&rig, 400);
    CU_ASSERT(peer.received_bytes <= 8); /* probes bring a byte each */
    CU_ASSERT(wire_stats(&rig).segments_used <= 2);
    peer.window = 3000;
    peer_acknowledge(&rig, &peer);
    wire_wait_ms(&rig, 2000);
    CU_ASSERT_EQUAL(peer.received_bytes, 2 * (8 + 20000 + 2));
    CU_ASSERT(memcmp(peer.received, "$20000\r\nxxx", 11) == 0);
    CU_ASSERT(memcmp(peer.received + 20010, "$20000\r\nxxx", 11) == 0);
    peer_leave(&rig, &peer);
    stop();
}

static void
what_is_lost_is_sent_again(void)
{
    struct peer peer;

    start();
    connect_peer(&peer, 40000);
    rig.link->drop_out = 1000;
    peer_say(&rig, &peer, "PING\r\n");
    wire_turns(&rig, 4);
    CU_ASSERT_EQUAL(peer.received_bytes, 0);
    rig.link->drop_out = 0;
    wire_wait_ms(&rig, 1500); /* the first time-out of a connection that knows no round trip yet */
    CU_ASSERT(peer_got(&peer, "+PONG\r\n"));
    CU_ASSERT(wire_stats(&rig).retransmits >= 1);
    peer_leave(&rig, &peer);
    stop();
}

/* Dupacks ask for the first segment while the window is shut; later it opens. */
static void
a_window_that_shuts_on_segments_in_flight_loses_none(void)
{
    struct peer peer;
    char request[9000];

    start();
    connect_peer(&peer, 40000);
    size_t used = (size_t)sprintf(request, "*2\r\n$4\r\nECHO\r\n$8000\r\n");
    memset(request + used, 'e', 8000);
    memcpy(request + used + 8000, "\r\n", 2);
    peer.silent = true;
    for (size_t at = 0; at < used + 8002; at += 1460) {
        peer_send(&rig, &peer, 0, request + at, MIN(1460, used + 8002 - at));
    }
    rig.link->drop_out = 1000;
    wire_turns(&rig, 10);
    rig.link->drop_out = 0;
    peer.window = 0;
    for (int i = 0; i < 5; i++) { /* the first one with data: it shuts the window */
        peer_send(&rig, &peer, 0, "P", i == 0);
    }
    wire_wait_ms(&rig, 5000);
    CU_ASSERT(peer.received_bytes <= 1460);
    peer.window = 3072;
    peer.silent = false;
    peer_acknowledge(&rig, &peer);
    wire_wait_ms(&rig, 20000);
    CU_ASSERT_EQUAL(peer.received_bytes, 7 + 8000 + 2);
    CU_ASSERT(memcmp(peer.received, "$8000\r\neee", 10) == 0);
    peer_leave(&rig, &peer);
    stop();
}

/* The peer acknowledges half of a segment: all of it may be sent again, so its memory must stay. */
static void
half_an_acknowledgement_frees_no_memory(void)
{
    struct peer peer;

    start();
    connect_peer(&peer, 40000);
    peer.silent = true;
    peer_say(&rig, &peer, "ECHO abcdefghijklmnopqrstuvwxyz\r\n");
    wire_turns(&rig, 4);
    CU_ASSERT_EQUAL(peer.received_bytes, 33);
    uint32_t all = peer.ack;
    peer.ack = all - 10;
    peer_acknowledge(&rig, &peer);
    wire_turns(&rig, 4);
    const struct session *session = rig.rig.lcore->all;
    CU_ASSERT_EQUAL(stream_out_pending(&session->out), 33);
    peer.received_bytes = 0;
    peer.ack = all - 33; /* take it once more, whole */
    wire_wait_ms(&rig, 2000);
    CU_ASSERT_EQUAL(peer.received_bytes, 33);
    CU_ASSERT(memcmp(peer.received, "$26\r\nabcdefghijklmnopqrstuvwxyz\r\n", 33) == 0);
    peer_acknowledge(&rig, &peer);
    wire_turns(&rig, 4);
    CU_ASSERT_EQUAL(stream_out_pending(&session->out), 0);
    peer.silent = false;
    peer_leave(&rig, &peer);
    stop();
}

/* Data acknowledged, FIN not: the session and its memory are gone, and what is sent again must show none of it. */
static void
a_fin_that_stays_unanswered_shows_nobodys_memory(void)
{
    struct peer peer;

    start();
    connect_peer(&peer, 40000);
    peer.silent = true;
    peer_say(&rig, &peer, "QUIT\r\n");
    wire_turns(&rig, 4);
    CU_ASSERT_EQUAL(peer.received_bytes, 5);
    CU_ASSERT_TRUE(peer.finished);
    peer.ack--; /* of the FIN */
    peer_acknowledge(&rig, &peer);
    wire_turns(&rig, 4);
    CU_ASSERT_EQUAL(rig.rig.lcore->session_count, 1);
    peer.received_bytes = 0;
    peer.ack -= 5; /* it would take them again */
    wire_wait_ms(&rig, 6000);
    CU_ASSERT_EQUAL(peer.received_bytes, 0);
    peer_close(&rig, &peer);
    stop();
}

static void
a_full_send_queue_delays_and_loses_nothing(void)
{
    struct peer peer;

    start();
    connect_peer(&peer, 40000);
    rig.link->stuck = true;
    peer_say(&rig, &peer, "PING\r\n");
    wire_turns(&rig, 10);
    CU_ASSERT_EQUAL(peer.received_bytes, 0);
    CU_ASSERT(wire_stats(&rig).tx_dropped > 0);
    rig.link->stuck = false;
    wire_wait_ms(&rig, 150); /* at the next look of lwIP's timers */
    CU_ASSERT(peer_got(&peer, "+PONG\r\n"));
    peer_leave(&rig, &peer);
    stop();
}

static void
one_turn_sends_in_one_call(void)
{
    struct peer peers[20];

    start();
    for (uint16_t i = 0; i < ARRAY_COUNT(peers); i++) {
        connect_peer(&peers[i], (uint16_t)(40000 + i));
    }
    for (uint16_t i = 0; i < ARRAY_COUNT(peers); i++) {
        peer_say(&rig, &peers[i], "PING\r\n");
    }
    uint32_t before = rig.link->flushes;
    wire_turns(&rig, 1);
    CU_ASSERT_EQUAL(rig.link->flushes - before, 1);
    for (uint16_t i = 0; i < ARRAY_COUNT(peers); i++) {
        CU_ASSERT(peer_got(&peers[i], "+PONG\r\n"));
        peer_leave(&rig, &peers[i]);
    }
    stop();
}

static void
offloads_leave_the_sums_to_the_device(void)
{
    struct peer peer;

    start();
    rig.link->rx_flags = FRAME_IP_SUM_GOOD | FRAME_L4_SUM_GOOD;
    peer_open(&rig, &peer, 40000);
    CU_ASSERT_TRUE_FATAL(peer_connect(&rig, &peer));
    uint8_t frame[WIRE_FRAME_ROOM];
    size_t bytes = frame_build(&peer, &rig, PEER_ACK, peer.seq, peer.ack, NULL, 0, "PING\r\n", 6, frame);
    frame[14 + 20 + 16] ^= 0xff; /* nobody looks: the device has */
    wire_send(&rig, frame, bytes);
    peer.seq += 6;
    wire_turns(&rig, 4);
    CU_ASSERT(peer_got(&peer, "+PONG\r\n"));
    rig.link->rx_flags = FRAME_SUM_BAD;
    uint64_t before = wire_stats(&rig).checksum_errors;
    peer_say(&rig, &peer, "PING\r\n");
    wire_turns(&rig, 4);
    CU_ASSERT_EQUAL(wire_stats(&rig).checksum_errors, before + 1);
    rig.link->rx_flags = 0;
    peer_send_at(&rig, &peer, 0, peer.seq - 6, "PING\r\n", 6);
    wire_turns(&rig, 4);
    CU_ASSERT(peer_got(&peer, "+PONG\r\n"));
    peer_leave(&rig, &peer);
    stop();
}

/* Segments that follow each other leave as one frame, which the device cuts. */
static void
a_device_that_cuts_segments_gets_few_frames(void)
{
    struct peer peer;
    char request[5100];
    size_t used = (size_t)sprintf(request, "*2\r\n$4\r\nECHO\r\n$5000\r\n");

    for (size_t i = 0; i < 5000; i++) {
        request[used + i] = (char)('a' + i % 23);
    }
    memcpy(request + used + 5000, "\r\n", 2);
    start();
    rig.link->offloads = DEVICE_SUMS_IP | DEVICE_SUMS_TCP | DEVICE_SEGMENTS;
    peer_open(&rig, &peer, 40000);
    peer.mss = 536;
    CU_ASSERT_TRUE_FATAL(peer_connect(&rig, &peer));
    for (size_t at = 0; at < used + 5002; at += 1000) {
        peer_send(&rig, &peer, 0, request + at, MIN(1000, used + 5002 - at));
    }
    wire_turns(&rig, 6);
    uint32_t before = peer.segments;
    wire_turns(&rig, 20);
    CU_ASSERT_EQUAL_FATAL(peer.received_bytes, 7 + 5000 + 2);
    CU_ASSERT(memcmp(peer.received + 7, request + used, 5002) == 0);
    CU_ASSERT(rig.link->cut >= 3);
    CU_ASSERT_EQUAL(rig.link->cut_bytes, 536);
    CU_ASSERT(peer.segments - before + rig.link->cut < 5009 / 536);
    uint32_t cut = rig.link->cut;
    peer_say(&rig, &peer, "ECHO 1\r\n"); /* what is small goes on as it is */
    wire_turns(&rig, 4);
    peer_say(&rig, &peer, "ECHO 2\r\n");
    wire_turns(&rig, 4);
    CU_ASSERT_EQUAL(rig.link->cut, cut);
    CU_ASSERT_EQUAL(peer.received_bytes, 7 + 5000 + 2 + 14);
    peer_leave(&rig, &peer);
    stop();
}

/* An idle peer whose hardware address is forgotten: the reply waits for ARP while its session dies and its memory is
 * used by another. */
static void
a_reply_that_waits_for_arp_keeps_its_bytes(void)
{
    struct peer peer, other;

    start();
    connect_peer(&peer, 40000);
    for (int i = 0; i < 400; i++) { /* a second each */
        rig.rig.now_us += 1000000;
        wire_turns(&rig, 1);
        if (i % 100 == 99) {
            peer_acknowledge(&rig, &peer); /* or the keep-alive ends it */
        }
    }
    rig.answers_arp = false;
    peer_say(&rig, &peer, "ECHO secret-of-the-first\r\n");
    wire_turns(&rig, 4);
    CU_ASSERT_EQUAL(peer.received_bytes, 0);
    session_kill(rig.rig.lcore->all);
    wire_turns(&rig, 4);
    rig.answers_arp = true;
    wire_wait_ms(&rig, 1500); /* it is asked for once a second */
    peer_open(&rig, &other, 40001);
    CU_ASSERT_TRUE(peer_connect(&rig, &other));
    peer_say(&rig, &other, "ECHO of-somebody-else\r\n");
    wire_wait_ms(&rig, 1500);
    CU_ASSERT(peer_got(&other, "$16\r\nof-somebody-else\r\n"));
    CU_ASSERT(peer.received_bytes == 0 || memcmp(peer.received, "$19\r\nsecret-of-the-first\r\n", 26) == 0);
    CU_ASSERT_EQUAL(peer.bad_sums, 0);
    peer_leave(&rig, &other);
    peer_close(&rig, &peer);
    stop();
}

static void
draining_answers_what_came_and_takes_nobody_new(void)
{
    struct peer peer, late;

    start();
    connect_peer(&peer, 40000);
    peer_say(&rig, &peer, "PING\r\n");
    store_release(&rig.rig.lcore->state, LCORE_DRAIN);
    wire_turns(&rig, 8);
    CU_ASSERT(peer_got(&peer, "+PONG\r\n"));
    CU_ASSERT_TRUE(peer.finished);
    peer_open(&rig, &late, 40001);
    CU_ASSERT_FALSE(peer_connect(&rig, &late));
    CU_ASSERT_TRUE(late.flags_seen & PEER_RST);
    store_release(&rig.rig.lcore->state, LCORE_RUN);
    peer_close(&rig, &late);
    peer_leave(&rig, &peer);
    wire_turns(&rig, 8);
    CU_ASSERT_EQUAL(rig.rig.lcore->session_count, 0); /* the control session too */
    rig.port->port.ops->close(&rig.port->port);
    rig.rig.lcore->port_count--;
    CU_ASSERT_EQUAL(rig.link->free_count, WIRE_FRAMES);
    free(rig.link);
    rig_stop(&rig.rig);
}

static void
a_capture_copies_what_comes_and_goes(void)
{
    static uint8_t bytes[CAPTURE_SNAP_MAX];
    struct capture_record record;
    struct peer peer;
    uint32_t count = 0;

    start();
    connect_peer(&peer, 40000);
    struct capture *capture = port_ethernet_capture(&rig.port->port);
    CU_ASSERT_FALSE(capture_take(capture, &record, bytes));
    CU_ASSERT_EQUAL(capture_start(capture, 60), 0);
    peer_say(&rig, &peer, "ECHO 01234567890123456789\r\n");
    wire_turns(&rig, 4);
    while (capture_take(capture, &record, bytes)) {
        CU_ASSERT(record.copied_bytes == MIN(record.frame_bytes, 60));
        CU_ASSERT(memcmp(bytes + 12, "\x08\x00\x45", 3) == 0);
        count++;
    }
    CU_ASSERT(count >= 3);
    for (uint32_t i = 0; i < 100000 && load_relaxed(&capture->dropped) == 0; i++) { /* nobody reads */
        capture_put(capture, 0, slice_of(bytes, 60), 60);
    }
    CU_ASSERT_EQUAL(load_relaxed(&capture->dropped), 1);
    capture_stop(capture);
    CU_ASSERT_EQUAL(capture_start(capture, CAPTURE_SNAP_MAX + 1), 0);
    CU_ASSERT_FALSE(capture_take(capture, &record, bytes)); /* what was left is gone */
    CU_ASSERT_EQUAL(load_relaxed(&capture->snap_bytes), CAPTURE_SNAP_MAX);
    capture_stop(capture);
    peer_leave(&rig, &peer);
    stop();
}

/* One peer on a wire that loses, doubles and reorders: every answer is right. The peer sends again what is not
 * acknowledged within 300 ms. */
static void
every_answer_is_right_on_a_bad_wire(void)
{
    struct peer peer;
    char text[64], expected[64];

    for (uint64_t seed = 1; seed <= 3; seed++) {
        start();
        connect_peer(&peer, 40000);
        rig.link->seed = seed;
        rig.link->drop_in = rig.link->drop_out = 50;
        rig.link->duplicate = 50;
        rig.link->reorder = 100;
        for (int i = 0; i < 300; i++) {
            int bytes = snprintf(text, sizeof(text), "ECHO %d-%llu\r\n", i, (unsigned long long)seed);
            snprintf(expected, sizeof(expected), "$%d\r\n%d-%llu\r\n", bytes - 7, i, (unsigned long long)seed);
            peer_say(&rig, &peer, text);
            for (int tries = 0; tries < 40 && (peer.seen != peer.seq || peer.received_bytes < strlen(expected));
                 tries++) {
                wire_wait_ms(&rig, tries == 0 ? 4 : 300);
                if (peer.seen != peer.seq) {
                    peer_send_at(&rig, &peer, 0, peer.seq - (uint32_t)bytes, text, (size_t)bytes);
                } else {
                    peer_acknowledge(&rig, &peer);
                }
            }
            CU_ASSERT_FATAL(peer_got(&peer, expected));
        }
        rig.link->drop_in = rig.link->drop_out = rig.link->duplicate = rig.link->reorder = 0;
        peer_leave(&rig, &peer);
        stop();
    }
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("port_ethernet", NULL, NULL);
    CU_ADD_TEST(suite, a_peer_is_served_and_known_by_its_address);
    CU_ADD_TEST(suite, requests_may_be_cut_anywhere);
    CU_ADD_TEST(suite, segments_may_come_in_any_order_twice_and_overlapping);
    CU_ADD_TEST(suite, a_half_closed_peer_gets_all_its_answers_then_the_end);
    CU_ADD_TEST(suite, a_peer_that_quits_is_told_before_the_end);
    CU_ADD_TEST(suite, a_reset_ends_the_session_in_mid_request);
    CU_ADD_TEST(suite, a_closed_window_holds_one_segment_and_loses_nothing);
    CU_ADD_TEST(suite, what_is_lost_is_sent_again);
    CU_ADD_TEST(suite, a_window_that_shuts_on_segments_in_flight_loses_none);
    CU_ADD_TEST(suite, half_an_acknowledgement_frees_no_memory);
    CU_ADD_TEST(suite, a_fin_that_stays_unanswered_shows_nobodys_memory);
    CU_ADD_TEST(suite, a_full_send_queue_delays_and_loses_nothing);
    CU_ADD_TEST(suite, one_turn_sends_in_one_call);
    CU_ADD_TEST(suite, offloads_leave_the_sums_to_the_device);
    CU_ADD_TEST(suite, a_device_that_cuts_segments_gets_few_frames);
    CU_ADD_TEST(suite, a_reply_that_waits_for_arp_keeps_its_bytes);
    CU_ADD_TEST(suite, draining_answers_what_came_and_takes_nobody_new);
    CU_ADD_TEST(suite, a_capture_copies_what_comes_and_goes);
    CU_ADD_TEST(suite, every_answer_is_right_on_a_bad_wire);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
