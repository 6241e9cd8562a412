/* test_port_ethernet_hostile.c - the ethernet port under peers that lie, flood and hoard: it serves on, within its
 * limits. */
#include "test/dataplane/ethernet_rig.h"
#include <CUnit/Basic.h>

static struct ethernet_rig rig;

static void
start(uint32_t sessions)
{
    ethernet_rig_start(&rig, sessions);
}

static void
stop(void)
{
    CU_ASSERT_TRUE(ethernet_rig_stop(&rig));
}

static void
assert_serves(uint16_t port)
{
    struct peer peer;

    peer_open(&rig, &peer, port);
    CU_ASSERT_TRUE_FATAL(peer_connect(&rig, &peer));
    peer_say(&rig, &peer, "PING\r\n");
    wire_turns(&rig, 4);
    CU_ASSERT(peer_got(&peer, "+PONG\r\n"));
    peer_leave(&rig, &peer);
}

static void
kill_all(void)
{
    for (struct session *session = rig.rig.lcore->all; session != NULL; session = session->all_next) {
        if (session->port == &rig.port->port) {
            session_kill(session);
        }
    }
    wire_turns(&rig, 8);
}

static void
send_syn(uint16_t port)
{
    struct peer peer = { .port = port, .local_port = 6379, .seq = 1000, .window = 65535 };
    uint8_t frame[WIRE_FRAME_ROOM];

    wire_send(&rig, frame, frame_build(&peer, &rig, PEER_SYN, peer.seq, 0, NULL, 0, NULL, 0, frame));
}

/* SYNs that are never answered: at the limit the oldest makes room, and one that answers gets in. */
static void
half_open_connections_are_bounded(void)
{
    start(0);
    for (uint32_t i = 1; i <= LIMIT_ETHERNET_HALF_OPEN + 1; i++) {
        send_syn((uint16_t)(1000 + i));
        if (i % 16 == 0 || i >= LIMIT_ETHERNET_HALF_OPEN - 1) {
            wire_turns(&rig, 1);
        }
        if (i >= LIMIT_ETHERNET_HALF_OPEN - 1) {
            CU_ASSERT_EQUAL(wire_stats(&rig).connections, MIN(i, LIMIT_ETHERNET_HALF_OPEN));
            CU_ASSERT_EQUAL(wire_stats(&rig).syn_evicted, i > LIMIT_ETHERNET_HALF_OPEN);
        }
    }
    assert_serves(60000);
    for (uint32_t i = 0; i < 20000; i++) {
        send_syn((uint16_t)(i % 50000 + 1000));
        if (i % 16 == 0) {
            wire_turns(&rig, 1);
        }
    }
    CU_ASSERT(wire_stats(&rig).connections <= LIMIT_ETHERNET_HALF_OPEN + 1);
    assert_serves(60001);
    wire_wait_ms(&rig, 30000);
    CU_ASSERT(wire_stats(&rig).connections <= 2); /* the two that were served are the only ones that may linger */
    stop();
}

/* Peers that ask for the end and never answer our FIN. */
static void
leaving_connections_are_bounded(void)
{
    start(0);
    for (uint32_t i = 1; i <= LIMIT_ETHERNET_LEAVING + 1; i++) {
        struct peer peer;
        peer_open(&rig, &peer, (uint16_t)(1000 + i));
        CU_ASSERT_TRUE_FATAL(peer_connect(&rig, &peer));
        peer_say(&rig, &peer, "QUIT\r\n");
        wire_turns(&rig, 2);
        peer.silent = true;
        wire_turns(&rig, 2);
        peer_close(&rig, &peer);
        if (i >= LIMIT_ETHERNET_LEAVING - 1) {
            CU_ASSERT_EQUAL(wire_stats(&rig).leaving, MIN(i, LIMIT_ETHERNET_LEAVING));
            CU_ASSERT_EQUAL(wire_stats(&rig).connections_evicted, i > LIMIT_ETHERNET_LEAVING);
        }
    }
    assert_serves(60000);
    CU_ASSERT(wire_stats(&rig).connections_evicted > 0);
    stop();
}

static void
one_more_than_its_sessions_is_told(void)
{
    struct peer peers[3];

    start(2);
    for (uint16_t i = 0; i < 3; i++) {
        peer_open(&rig, &peers[i], (uint16_t)(40000 + i));
        CU_ASSERT_TRUE_FATAL(peer_connect(&rig, &peers[i]));
        peer_say(&rig, &peers[i], "PING\r\n");
        wire_turns(&rig, 4);
        CU_ASSERT(peer_got(&peers[i], i < 2 ? "+PONG\r\n" : SESSION_REFUSAL));
        CU_ASSERT_EQUAL(peers[i].finished, i == 2);
    }
    for (uint16_t i = 0; i < 3; i++) {
        peer_leave(&rig, &peers[i]);
    }
    assert_serves(40010);
    stop();
}

#define ANOTHER 256 /* a value of send_changed(): what is not there, where that is drawn */

/* A frame of a peer, changed at one place. */
static void
send_changed(const struct peer *peer, size_t at, uint32_t value, size_t cut)
{
    uint8_t frame[WIRE_FRAME_ROOM];
    size_t bytes = frame_build(peer, &rig, PEER_ACK, peer->seq, peer->ack, NULL, 0, "PING\r\n", 6, frame);

    frame[at] = value == ANOTHER ? (uint8_t)~frame[at] : (uint8_t)value;
    wire_send(&rig, frame, MIN(cut, bytes));
}

static void
broken_frames_are_dropped_and_counted(void)
{
    static const struct {
        const char *name;
        size_t at;
        uint32_t value;
        size_t cut;
    } rows[] = {
        { "cut in the Ethernet header", 0, 2, 13 },
        { "cut in the IP header", 0, 2, 33 },
        { "cut in the TCP header", 0, 2, 53 },
        { "cut in its data", 0, 2, 57 },
        { "another protocol", 12, 0x86, 2000 },
        { "IP version 5", 14, 0x55, 2000 },
        { "IP header of 4 words", 14, 0x44, 2000 },
        { "IP header of 15 words", 14, 0x4f, 2000 },
        { "IP length beyond the frame", 16, 0xff, 2000 },
        { "IP length below its headers", 17, 39, 2000 },
        { "a fragment of TCP", 20, 0x20, 2000 },
        { "a fragment of TCP, not the first", 21, 1, 2000 },
        { "wrong sum of the IP header", 24, ANOTHER, 2000 },
        { "TCP header of 4 words", 46, 0x40, 2000 },
        { "TCP header of 15 words", 46, 0xf0, 2000 },
        { "wrong sum of TCP", 50, ANOTHER, 2000 },
        { "from a broadcast address", 26, 255, 2000 },
        { "to another address", 33, 77, 2000 },
    };
    struct peer peer;

    start(0);
    peer_open(&rig, &peer, 40000);
    CU_ASSERT_TRUE_FATAL(peer_connect(&rig, &peer));
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        send_changed(&peer, rows[i].at, rows[i].value, rows[i].cut);
        wire_turns(&rig, 3);
        CU_ASSERT_EQUAL(peer.received_bytes, 0);
        if (peer.received_bytes != 0) {
            printf("    taken: %s\n", rows[i].name);
        }
    }
    struct ethernet_stats stats = wire_stats(&rig);
    CU_ASSERT(stats.malformed >= 8);
    CU_ASSERT(stats.checksum_errors >= 2);
    peer_say(&rig, &peer, "PING\r\n");
    wire_turns(&rig, 4);
    CU_ASSERT(peer_got(&peer, "+PONG\r\n"));
    peer_leave(&rig, &peer);
    stop();
}

/* Frames made of chance: most are dropped, none does harm. */
static void
noise_does_no_harm(void)
{
    struct peer peer;
    uint8_t frame[WIRE_FRAME_ROOM], data[1400];
    uint64_t seed = 7;

    start(0);
    peer_open(&rig, &peer, 40000);
    CU_ASSERT_TRUE_FATAL(peer_connect(&rig, &peer));
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)(i * 7 + i / 256);
    }
    for (uint32_t i = 0; i < 30000; i++) {
        size_t bytes =
            frame_build(&peer, &rig, (uint8_t)(i % 64), peer.seq + i % 7, peer.ack, NULL, 0, data, i % 1400, frame);
        for (int changes = 0; changes < 3; changes++) {
            seed = seed * 6364136223846793005ull + 1442695040888963407ull;
            size_t at = (size_t)(seed >> 40) % (i % 2 ? 60 : bytes);
            frame[at < 6 ? at + 12 : at] = (uint8_t)(seed >> 33);
        }
        if (i % 3 == 0) { /* with sums that fit */
            memset(frame + 24, 0, 2);
            uint16_t sum = (uint16_t)~wire_sum(frame + 14, 20, 0);
            frame[24] = (uint8_t)(sum >> 8);
            frame[25] = (uint8_t)sum;
        }
        rig.link->rx_flags = i % 5 == 0 ? FRAME_IP_SUM_GOOD | FRAME_L4_SUM_GOOD : 0;
        wire_send(&rig, frame, (size_t)(seed >> 20) % 8 == 0 ? bytes / 2 : bytes);
        wire_turns(&rig, i % 4 == 0);
    }
    rig.link->rx_flags = 0;
    wire_turns(&rig, 20);
    peer_close(&rig, &peer);
    assert_serves(40001);
    wire_wait_ms(&rig, 100);
    kill_all();
    stop();
}

/* Replies that nobody reads choke a session; then a byte a segment. */
static void
tiny_segments_that_nobody_takes_hold_few_frames(void)
{
    struct peer peer;
    char request[1500];

    start(0);
    peer_open(&rig, &peer, 40000);
    CU_ASSERT_TRUE_FATAL(peer_connect(&rig, &peer));
    peer.silent = true;
    size_t used = (size_t)sprintf(request, "*2\r\n$4\r\nECHO\r\n$1400\r\n");
    memset(request + used, 'e', 1400);
    memcpy(request + used + 1400, "\r\n", 2);
    for (int i = 0; i < 400; i++) { /* until its output is full */
        peer_send(&rig, &peer, 0, request, used + 1402);
        wire_turns(&rig, 1);
    }
    CU_ASSERT_TRUE(rig.rig.lcore->all->flags & SESSION_FULL);
    uint64_t held = wire_stats(&rig).frames_used;
    for (int i = 0; i < 2000; i++) {
        peer_send(&rig, &peer, 0, "P", 1);
        wire_turns(&rig, i % 8 == 0);
    }
    wire_turns(&rig, 4);
    CU_ASSERT(wire_stats(&rig).frames_used <= held + 3);
    assert_serves(40001);
    peer_close(&rig, &peer);
    kill_all();
    stop();
}

/* Many choked sessions: what they hold is bounded together, and others are served. */
static void
hoarders_leave_frames_for_the_others(void)
{
    static struct peer peers[40];
    char request[1500];
    size_t used = (size_t)sprintf(request, "*2\r\n$4\r\nECHO\r\n$1400\r\n");

    memset(request + used, 'e', 1400);
    memcpy(request + used + 1400, "\r\n", 2);
    start(0);
    for (uint16_t i = 0; i < ARRAY_COUNT(peers); i++) {
        peer_open(&rig, &peers[i], (uint16_t)(41000 + i));
        CU_ASSERT_TRUE_FATAL(peer_connect(&rig, &peers[i]));
        peers[i].silent = true;
    }
    for (int round = 0; round < 300; round++) {
        for (uint16_t i = 0; i < ARRAY_COUNT(peers); i++) {
            peer_send(&rig, &peers[i], 0, request, used + 1402);
            wire_turns(&rig, i % 8 == 7);
        }
    }
    struct ethernet_stats stats = wire_stats(&rig);
    CU_ASSERT(stats.frames_used < WIRE_FRAMES - 3 * WIRE_DESCRIPTORS);
    CU_ASSERT(stats.receive_refused > 0);
    assert_serves(40001);
    for (uint16_t i = 0; i < ARRAY_COUNT(peers); i++) {
        peer_send(&rig, &peers[i], PEER_RST, NULL, 0);
        wire_turns(&rig, 2);
        peer_close(&rig, &peers[i]);
    }
    kill_all(); /* whose reset was not exactly the next byte */
    assert_serves(40002);
    stop();
}

/* RFC 5961: what acknowledges bytes that were never sent is no segment of this connection. */
static void
an_impossible_acknowledgement_brings_no_data(void)
{
    static const int32_t wrong[] = { 1, 1000000, -70000, -2000000 };
    struct peer peer;

    start(0);
    peer_open(&rig, &peer, 40000);
    CU_ASSERT_TRUE_FATAL(peer_connect(&rig, &peer));
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        peer.said = peer.ack + (uint32_t)wrong[i];
        peer_send_at(&rig, &peer, PEER_PSH, peer.seq, "PING\r\n", 6);
        wire_turns(&rig, 4);
        CU_ASSERT_EQUAL(peer.received_bytes, 0);
        peer.said = peer.ack;
    }
    peer_say(&rig, &peer, "PING\r\n");
    wire_turns(&rig, 4);
    CU_ASSERT(peer_got(&peer, "+PONG\r\n"));
    peer_leave(&rig, &peer);
    stop();
}

/* Thousands of connections: each is found at once, and time looks at a few in every ms. */
static void
thousands_of_connections_are_served(void)
{
    enum { PEERS = 3000 };
    static struct peer peers[PEERS];

    start(PEERS);
    rig.rig.settings.limits_clients = 10000;
    for (uint32_t i = 0; i < PEERS; i++) {
        peer_open(&rig, &peers[i], (uint16_t)(2000 + i));
        CU_ASSERT_TRUE_FATAL(peer_connect(&rig, &peers[i]));
    }
    CU_ASSERT_EQUAL(rig.rig.lcore->session_count, PEERS + 1);
    for (uint32_t i = 0; i < PEERS; i++) {
        uint32_t which = i * 1009 % PEERS;
        peer_say(&rig, &peers[which], "*1\r\n$4\r\nPING\r\n"); /* of inline requests a burst takes one */
        wire_turns(&rig, i % 16 == 15);
    }
    wire_turns(&rig, 10);
    for (uint32_t i = 0; i < PEERS; i++) {
        CU_ASSERT_FATAL(peer_got(&peers[i], "+PONG\r\n"));
        peer_send(&rig, &peers[i], PEER_FIN, NULL, 0);
        wire_turns(&rig, i % 16 == 15);
    }
    wire_turns(&rig, 200);
    for (uint32_t i = 0; i < PEERS; i++) {
        CU_ASSERT_TRUE(peers[i].finished);
        peer_close(&rig, &peers[i]);
    }
    stop();
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("port_ethernet_hostile", NULL, NULL);
    CU_ADD_TEST(suite, half_open_connections_are_bounded);
    CU_ADD_TEST(suite, leaving_connections_are_bounded);
    CU_ADD_TEST(suite, one_more_than_its_sessions_is_told);
    CU_ADD_TEST(suite, broken_frames_are_dropped_and_counted);
    CU_ADD_TEST(suite, noise_does_no_harm);
    CU_ADD_TEST(suite, tiny_segments_that_nobody_takes_hold_few_frames);
    CU_ADD_TEST(suite, hoarders_leave_frames_for_the_others);
    CU_ADD_TEST(suite, an_impossible_acknowledgement_brings_no_data);
    CU_ADD_TEST(suite, thousands_of_connections_are_served);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
