/* bench_ethernet.c - what a packet costs on its way through DPDK's ring driver and the stack: no kernel, no lcore, no
 * command; a peer in memory asks, the owner answers 7 bytes. Its own work is not counted.
 *
 *     bench_ethernet [ROUNDS]            ns and cycles, best of 5
 *     valgrind --tool=callgrind --toggle-collect=bench_round bench_ethernet 20000 */
#include "config/cycles.h"
#include "dataplane/ethernet_dpdk_private.h"
#include "test/dataplane/frame_bytes.h"
#include <arpa/inet.h>
#include <rte_ring.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS      200000
#define REQUEST     "GET k\r\n"
#define REPLY       "+PONG\r\n"
#define REPLY_BYTES 7
#define MSS         1460
#define IN_FLIGHT   64
#define RUNS        5

struct connection { /* of the owner: one */
    struct ethernet_connection *connection;
    char replies[IN_FLIGHT * REPLY_BYTES];
    uint64_t taken;
};

static struct ethernet *ethernet;
static const struct ethernet_ops *ops = &ethernet_stack_ops;
static struct connection owner;
static struct rte_ring *ring;
static struct rte_mempool *pool;
static uint32_t next_seq = 1, next_ack;

/* ---- the owner ---- */

static void *
accepted(void *port, struct ethernet_connection *connection, const struct ethernet_peer *peer)
{
    owner.connection = connection;
    for (size_t i = 0; i < IN_FLIGHT; i++) {
        memcpy(owner.replies + i * REPLY_BYTES, REPLY, REPLY_BYTES);
    }
    return &owner;
}

static bool
room(void *context, uint32_t frames, uint32_t share)
{
    return true;
}

static void
received(void *context, struct ethernet_frame *frames)
{
    while (frames != NULL) {
        struct ethernet_frame *next = frames->next;
        owner.taken += frames->bytes;
        ops->taken(owner.connection, frames->bytes);
        ops->frame_give(ethernet, frames);
        frames = next;
    }
}

static void
acknowledged(void *context, uint64_t offset)
{
}

static void
ended(void *context)
{
}

static const struct ethernet_handlers handlers = { .accepted = accepted,
                                                   .room = room,
                                                   .received = received,
                                                   .acknowledged = acknowledged,
                                                   .ended = ended,
                                                   .lost = ended };

/* ---- the peer ---- */

static uint8_t *
frame_new(uint32_t bytes)
{
    struct rte_mbuf *mbuf = rte_pktmbuf_alloc(pool);
    CHECK(mbuf != NULL);
    mbuf->data_len = (uint16_t)bytes;
    mbuf->pkt_len = bytes;
    CHECK(rte_ring_enqueue(ring, mbuf) == 0);
    return rte_pktmbuf_mtod(mbuf, uint8_t *);
}

static const uint8_t macs[12] = { 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1 }; /* net_ring's own is all zero */

static void
peer_send(uint8_t flags, const char *data, uint32_t bytes)
{
    uint8_t *frame = frame_new(54 + bytes), *ip = frame + 14, *tcp = ip + 20;

    memset(frame, 0, 54);
    memcpy(frame, macs, sizeof(macs));
    put16(frame + 12, 0x0800);
    ip[0] = 0x45;
    put16(ip + 2, 40 + bytes);
    ip[8] = 64;
    ip[9] = 6;
    memcpy(ip + 12, "\x0a\x00\x00\x01\x0a\x00\x00\x02", 8);
    put16(ip + 10, (uint16_t)~wire_sum(ip, 20, 0));
    put16(tcp, 40000);
    put16(tcp + 2, 6379);
    put32(tcp + 4, next_seq);
    put32(tcp + 8, next_ack);
    tcp[12] = 0x50;
    tcp[13] = flags;
    put16(tcp + 14, 65535);
    memcpy(tcp + 20, data, bytes);
    put16(tcp + 16, tcp_sum(ip, tcp, 20 + bytes));
    next_seq += bytes + ((flags & 2) != 0);
}

/* What the stack sent: answers ARP, takes the stream. Returns packets. */
static uint32_t
peer_receive(void)
{
    struct rte_mbuf *mbufs[64];
    uint32_t count = rte_ring_dequeue_burst(ring, (void **)mbufs, 64, NULL);

    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *frame = rte_pktmbuf_mtod(mbufs[i], uint8_t *);
        if (frame[12] == 8 && frame[13] == 6 && frame[21] == 1 && frame[41] == 1) {
            uint8_t *reply = frame_new(42);
            memcpy(reply, macs, sizeof(macs));
            memcpy(reply + 12, frame + 12, 8);
            put16(reply + 20, 2);
            memcpy(reply + 22, macs + 6, 6);
            memcpy(reply + 28, "\x0a\x00\x00\x01", 4);
            memcpy(reply + 32, frame + 22, 10);
        } else if (frame[13] == 0 && frame[23] == 6) {
            uint32_t header = (uint32_t)(frame[46] >> 4) * 4, ip_bytes = (uint32_t)frame[16] << 8 | frame[17];
            uint32_t seq = get32(frame + 38) + ip_bytes - 20 - header + ((frame[47] & 2) != 0);
            if ((int32_t)(seq - next_ack) > 0 || next_ack == 0) {
                next_ack = seq;
            }
        }
        rte_pktmbuf_free(mbufs[i]);
    }
    return count;
}

/* ---- what is measured ---- */

void bench_round(uint32_t requests);
__attribute__((noinline)) void
bench_round(uint32_t requests)
{
    struct iovec piece = { .iov_base = owner.replies, .iov_len = (size_t)requests * REPLY_BYTES };
    bool again;

    ops->poll(ethernet);
    if (requests > 0) {
        CHECK(ops->write(owner.connection, &piece, 1, &again) == piece.iov_len);
    }
    ops->flush(ethernet);
}

struct cost {
    double cycles;
    uint64_t packets;
};

static struct cost
run(uint32_t rounds, uint32_t requests)
{
    static char text[IN_FLIGHT * sizeof(REQUEST)];
    uint32_t bytes = requests * (uint32_t)strlen(REQUEST);
    uint64_t cycles = 0, packets = 0;

    for (uint32_t i = 0; i < requests; i++) {
        memcpy(text + i * strlen(REQUEST), REQUEST, strlen(REQUEST));
    }
    for (uint32_t i = 0; i < rounds; i++) {
        uint64_t before = owner.taken;
        for (uint32_t at = 0; at < bytes; at += MSS) {
            peer_send(0x18, text + at, MIN(MSS, bytes - at));
            packets++;
        }
        uint64_t begun = cycles_now();
        bench_round(requests);
        cycles += cycles_now() - begun;
        CHECK(owner.taken - before == bytes);
        packets += peer_receive();
        if (i % 64 == 63) {
            ops->tick(ethernet, i / 64);
        }
    }
    return (struct cost){ (double)cycles, packets };
}

static void
connect_peer(void)
{
    peer_send(2, "", 0);
    for (int i = 0; i < 8; i++) {
        bench_round(0);
        peer_receive();
    }
    CHECK(next_ack != 0);
    peer_send(16, "", 0);
    bench_round(0);
    CHECK(owner.connection != NULL);
}

static double
ns_per_cycle(void)
{
    struct timespec begun, ended_at;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    uint64_t cycles = cycles_now();
    usleep(50000);
    clock_gettime(CLOCK_MONOTONIC, &ended_at);
    cycles = cycles_now() - cycles;
    return ((double)(ended_at.tv_sec - begun.tv_sec) * 1e9 + (double)(ended_at.tv_nsec - begun.tv_nsec)) /
           (double)cycles;
}

static void
report(const char *name, uint32_t rounds, uint32_t requests, double ns)
{
    struct cost best = { 0 };
    for (int i = 0; i < RUNS; i++) {
        struct cost cost = run(rounds, requests);
        if (best.cycles == 0 || cost.cycles < best.cycles) {
            best = cost;
        }
    }
    printf("%-13s %7.1f ns a packet, %7.1f ns a round trip, %6.1f ns a request (%.2f packets a round trip)\n", name,
           best.cycles * ns / (double)best.packets, best.cycles * ns / rounds, best.cycles * ns / rounds / requests,
           (double)best.packets / rounds);
}

int
main(int argc, char **argv)
{
    uint32_t rounds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : ROUNDS;
    struct ethernet_config config = { .device_ops = &ethernet_dpdk_ops,
                                      .device = "net_ring0",
                                      .address = { 10, 0, 0, 2 },
                                      .prefix_bits = 24,
                                      .mtu = 1500,
                                      .rx_descriptors = 256,
                                      .tx_descriptors = 256,
                                      .sessions = 16,
                                      .listen = { 6379 },
                                      .listen_count = 1,
                                      .eal = "",
                                      .refusal = "",
                                      .keepalive_ms = 300000,
                                      .handlers = &handlers,
                                      .log_fd = STDERR_FILENO };
    char why[512];

    if (ops->open(&config, &ethernet, why, sizeof(why)) != 0) {
        fprintf(stderr, "bench_ethernet: %s\n", why);
        return 1;
    }
    static struct capture capture;
    ops->capture(ethernet, &capture);
    ring = rte_ring_lookup("ETH_RXTX0_net_ring0");
    pool = rte_mempool_lookup("sluice_rx");
    CHECK(ring != NULL && pool != NULL);
    connect_peer();
    double ns = ns_per_cycle();
    report("depth 1", rounds, 1, ns);
    report("64 in flight", rounds / 8, IN_FLIGHT, ns);
    ops->close(ethernet);
    return 0;
}
