/* packets.c - sends hostile Ethernet frames, seeded: one number replays them.
 *
 *     packets INTERFACE MAC ADDRESS PORT SEED KIND COUNT [per_second=N] [peer=ADDRESS:PORT]
 *     packets FILE      ...
 *
 * FILE, an absolute path, is written in pcap's format instead, for DPDK's net_pcap to read.
 * MAC, ADDRESS and PORT are the victim's. KIND is a row of packet_kinds.c, or "all": every kind in turn. `peer` is the
 * other end of an established connection, for the kinds that strike at one. Prints how many frames the interface took.
 */
#include "test/dataplane/packet_kinds.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BATCH 32

/* A socket that sends on an interface, or -1; the victim's source address is the interface's. */
static int
interface_open(struct victim *victim, const char *name)
{
    struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(name) };
    socklen_t bytes = sizeof(address);
    int on = 1, fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

    if (fd < 0 || address.sll_ifindex == 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
        fprintf(stderr, "packets: %s: %s\n", name, strerror(errno));
        return -1;
    }
    setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on));
    memcpy(victim->source_mac, address.sll_addr, sizeof(victim->source_mac));
    return fd;
}

/* How many of them the interface took. */
static unsigned
batch_send(int fd, struct frame *frames, unsigned count)
{
    struct mmsghdr messages[BATCH] = { 0 };
    struct iovec pieces[BATCH];
    unsigned sent = 0, taken = 0;

    for (unsigned i = 0; i < count; i++) {
        pieces[i] = (struct iovec){ frames[i].data, frames[i].bytes };
        messages[i].msg_hdr.msg_iov = &pieces[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    while (sent < count) {
        int now = sendmmsg(fd, messages + sent, count - sent, 0);
        if (now > 0) {
            sent += (unsigned)now;
            taken += (unsigned)now;
        } else if (errno == EMSGSIZE || errno == EINVAL) {
            sent++; /* the kernel will not put this one on the wire: too short or too long */
        } else if (errno != ENOBUFS && errno != EAGAIN && errno != EINTR) {
            perror("packets: sendmmsg");
            exit(1);
        }
    }
    return taken;
}

static void
file_write(int fd, const void *data, size_t bytes)
{
    if (write(fd, data, bytes) != (ssize_t)bytes) {
        perror("packets: write");
        exit(1);
    }
}

/* A pcap file (pcap-savefile(5)): classic format, microseconds, Ethernet. -1 when it cannot be made. */
static int
file_open(const char *path)
{
    const uint32_t header[] = { 0xa1b2c3d4, 4u << 16 | 2, 0, 0, FRAME_BYTES, 1 };
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0) {
        fprintf(stderr, "packets: %s: %s\n", path, strerror(errno));
        return -1;
    }
    file_write(fd, header, sizeof(header));
    return fd;
}

static unsigned
batch_write(int fd, const struct frame *frames, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const uint32_t header[] = { 0, 0, frames[i].bytes, frames[i].bytes };
        file_write(fd, header, sizeof(header));
        file_write(fd, frames[i].data, frames[i].bytes);
    }
    return count;
}

static void
pace(uint64_t sent, uint64_t per_second, const struct timespec *begun)
{
    if (per_second != 0) {
        uint64_t due_ns = sent * 1000000000u / per_second + (uint64_t)begun->tv_nsec;
        struct timespec due = { begun->tv_sec + (time_t)(due_ns / 1000000000u), (long)(due_ns % 1000000000u) };
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
    }
}

static uint64_t
kind_send(int fd, bool file, struct victim *victim, const struct packet_kind *kind, uint64_t count, uint64_t per_second)
{
    static struct frame frames[BATCH];
    struct timespec begun;
    uint64_t taken = 0;

    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (uint64_t sent = 0; sent < count;) {
        unsigned batch = (unsigned)MIN(count - sent, BATCH);
        for (unsigned i = 0; i < batch; i++) {
            kind->make(victim, &frames[i]);
        }
        taken += file ? batch_write(fd, frames, batch) : batch_send(fd, frames, batch);
        sent += batch;
        pace(sent, per_second, &begun);
    }
    return taken;
}

static bool
address_read(const char *text, uint32_t *address)
{
    struct in_addr read;
    bool good = inet_pton(AF_INET, text, &read) == 1;

    *address = good ? read.s_addr : 0;
    return good;
}

static bool
option_read(struct victim *victim, uint64_t *per_second, char *word)
{
    if (strncmp(word, "per_second=", 11) == 0) {
        *per_second = strtoull(word + 11, NULL, 10);
        return true;
    }
    char *colon = strrchr(word, ':');
    if (strncmp(word, "peer=", 5) != 0 || colon == NULL) {
        return false;
    }
    *colon = '\0';
    victim->peer_port = (uint16_t)strtoul(colon + 1, NULL, 10);
    return address_read(word + 5, &victim->peer_address);
}

int
main(int count, char **words)
{
    struct victim victim = { .random = 0 };
    uint64_t per_second = 0, taken = 0, known = 0;

    if (count < 8 ||
        sscanf(words[2], "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &victim.mac[0], &victim.mac[1], &victim.mac[2],
               &victim.mac[3], &victim.mac[4], &victim.mac[5]) != 6 ||
        !address_read(words[3], &victim.address)) {
        fprintf(stderr,
                "usage: packets INTERFACE|FILE MAC ADDRESS PORT SEED KIND COUNT [per_second=N] [peer=ADDRESS:PORT]\n");
        return 2;
    }
    victim.own = htonl((ntohl(victim.address) & ~0xffu) | 7);
    victim.port = (uint16_t)strtoul(words[4], NULL, 10);
    victim.random = strtoull(words[5], NULL, 10);
    for (int i = 8; i < count; i++) {
        if (!option_read(&victim, &per_second, words[i])) {
            fprintf(stderr, "packets: bad option '%s'\n", words[i]);
            return 2;
        }
    }
    victim.source_mac[0] = 2; /* nobody's, in a file */
    bool file = words[1][0] == '/';
    int fd = file ? file_open(words[1]) : interface_open(&victim, words[1]);
    if (fd < 0) {
        return 1;
    }
    for (size_t i = 0; i < packet_kinds_count; i++) {
        if (strcmp(words[6], "all") == 0 || strcmp(words[6], packet_kinds[i].name) == 0) {
            known++;
            taken += kind_send(fd, file, &victim, &packet_kinds[i], strtoull(words[7], NULL, 10), per_second);
        }
    }
    if (known == 0) {
        fprintf(stderr, "packets: no kind '%s'\n", words[6]);
        return 2;
    }
    printf("%lu\n", (unsigned long)taken);
    close(fd);
    return 0;
}
