#include "test/dataplane/packet_kinds.h"
#include <arpa/inet.h>
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>

#define MTU 1500

enum { FIN = 1, SYN = 2, RST = 4, PSH = 8, ACK = 16, URG = 32 };

/* Steele, Lea, Flood: Fast splittable pseudorandom number generators (SplitMix64). */
static uint64_t
random_next(struct victim *victim)
{
    uint64_t z = victim->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint32_t
random_below(struct victim *victim, uint32_t bound)
{
    return (uint32_t)(random_next(victim) % bound);
}

static void
random_fill(struct victim *victim, uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        data[i] = (uint8_t)random_next(victim);
    }
}

/* ---- well-formed frames, to be spoilt ---- */

static uint16_t
checksum(uint32_t sum, const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i + 1 < bytes; i += 2) {
        sum += (uint32_t)(data[i] << 8 | data[i + 1]);
    }
    if (bytes % 2 != 0) {
        sum += (uint32_t)(data[bytes - 1] << 8);
    }
    while (sum >> 16 != 0) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return htons((uint16_t)~sum);
}

static uint8_t *
frame_begin(struct victim *victim, struct frame *frame, uint16_t type)
{
    struct ether_header header = { .ether_type = htons(type) };

    memcpy(header.ether_dhost, victim->mac, sizeof(header.ether_dhost));
    memcpy(header.ether_shost, victim->source_mac, sizeof(header.ether_shost));
    memcpy(frame->data, &header, sizeof(header));
    frame->bytes = sizeof(header);
    return frame->data + sizeof(header);
}

/* IPv4 header with `options_bytes` (a multiple of 4) of options from `options`; the payload follows. Returns it. */
static uint8_t *
ip_begin(struct victim *victim, struct frame *frame, uint8_t protocol, const uint8_t *options, uint32_t options_bytes)
{
    uint8_t *at = frame_begin(victim, frame, ETHERTYPE_IP);
    struct iphdr header = { .version = 4, .ihl = (5 + options_bytes / 4) & 15, .ttl = 64, .protocol = protocol };

    header.id = (uint16_t)random_next(victim);
    header.saddr = victim->peer_address != 0 ? victim->peer_address : victim->own;
    header.daddr = victim->address;
    memcpy(at, &header, sizeof(header));
    if (options_bytes != 0) {
        memcpy(at + sizeof(header), options, options_bytes);
    }
    frame->bytes += (uint32_t)sizeof(header) + options_bytes;
    return at + sizeof(header) + options_bytes;
}

static struct iphdr *
ip_of(struct frame *frame)
{
    return (struct iphdr *)(void *)(frame->data + ETHER_HDR_LEN);
}

/* After the payload: total length and header checksum. */
static void
ip_end(struct frame *frame)
{
    struct iphdr *header = ip_of(frame);

    header->tot_len = htons((uint16_t)(frame->bytes - ETHER_HDR_LEN));
    header->check = 0;
    header->check = checksum(0, (const uint8_t *)header, header->ihl * 4u);
}

/* The TCP checksum of a frame without IP options. */
static void
tcp_checksum(struct frame *frame)
{
    struct iphdr *header = ip_of(frame);
    uint8_t *segment = (uint8_t *)header + header->ihl * 4u;
    uint32_t bytes = frame->bytes - (uint32_t)(segment - frame->data);
    uint32_t sum = IPPROTO_TCP + bytes;

    sum += (ntohl(header->saddr) >> 16) + (ntohl(header->saddr) & 0xffff);
    sum += (ntohl(header->daddr) >> 16) + (ntohl(header->daddr) & 0xffff);
    memset(segment + offsetof(struct tcphdr, check), 0, 2);
    uint16_t check = checksum(sum, segment, bytes);
    memcpy(segment + offsetof(struct tcphdr, check), &check, 2);
}

/* A whole segment from the peer, or from a random port of our own address. */
static struct tcphdr *
tcp_make(struct victim *victim, struct frame *frame, uint8_t flags, const uint8_t *options, uint32_t options_bytes,
         uint32_t payload_bytes)
{
    uint8_t *at = ip_begin(victim, frame, IPPROTO_TCP, NULL, 0);
    struct tcphdr header = { .doff = (5 + options_bytes / 4) & 15, .window = htons(1024) };

    header.source = htons(victim->peer_port != 0 ? victim->peer_port : (uint16_t)(1024 + random_below(victim, 60000)));
    header.dest = htons(victim->port);
    header.seq = (uint32_t)random_next(victim);
    header.ack_seq = flags & ACK ? (uint32_t)random_next(victim) : 0;
    header.th_flags = flags;
    memcpy(at, &header, sizeof(header));
    if (options_bytes != 0) {
        memcpy(at + sizeof(header), options, options_bytes);
    }
    memset(at + sizeof(header) + options_bytes, 'x', payload_bytes);
    frame->bytes += (uint32_t)sizeof(header) + options_bytes + payload_bytes;
    ip_end(frame);
    tcp_checksum(frame);
    return (struct tcphdr *)(void *)at;
}

static void
icmp_make(struct victim *victim, struct frame *frame, uint8_t type, uint8_t code, uint32_t payload_bytes)
{
    uint8_t *at = ip_begin(victim, frame, IPPROTO_ICMP, NULL, 0);
    struct icmphdr header = { .type = type, .code = code };

    header.un.echo.id = (uint16_t)random_next(victim);
    memcpy(at, &header, sizeof(header));
    random_fill(victim, at + sizeof(header), payload_bytes);
    frame->bytes += (uint32_t)sizeof(header) + payload_bytes;
    ip_end(frame);
    uint16_t check = checksum(0, at, sizeof(header) + payload_bytes);
    memcpy(at + offsetof(struct icmphdr, checksum), &check, 2);
}

/* ---- the kinds ---- */

static void
make_checksum_ip(struct victim *victim, struct frame *frame)
{
    tcp_make(victim, frame, SYN, NULL, 0, 0);
    ip_of(frame)->check ^= (uint16_t)(1u << random_below(victim, 16));
}

static void
make_checksum_tcp(struct victim *victim, struct frame *frame)
{
    uint8_t flags = random_next(victim) % 2 ? SYN : ACK | PSH;
    struct tcphdr *header = tcp_make(victim, frame, flags, NULL, 0, random_below(victim, 100));
    header->check ^= (uint16_t)(1u << random_below(victim, 16));
}

static void
make_checksum_icmp(struct victim *victim, struct frame *frame)
{
    icmp_make(victim, frame, ICMP_ECHO, 0, random_below(victim, 100));
    frame->data[ETHER_HDR_LEN + sizeof(struct iphdr) + offsetof(struct icmphdr, checksum)] ^= 0x55;
}

/* Cut anywhere behind the Ethernet header, by the frame or by what the IP header says. */
static void
make_truncated(struct victim *victim, struct frame *frame)
{
    if (random_next(victim) % 2) {
        tcp_make(victim, frame, SYN | ACK, NULL, 0, random_below(victim, 64));
    } else {
        icmp_make(victim, frame, ICMP_ECHO, 0, random_below(victim, 64));
    }
    uint32_t whole = frame->bytes;
    frame->bytes = ETHER_HDR_LEN + random_below(victim, whole - ETHER_HDR_LEN);
    if (random_next(victim) % 2 && frame->bytes > ETHER_HDR_LEN + sizeof(struct iphdr)) {
        ip_end(frame);
    }
}

static void
fragment_make(struct victim *victim, struct frame *frame, uint16_t id, uint32_t offset_bytes, uint32_t bytes, bool more)
{
    uint8_t *at = ip_begin(victim, frame, IPPROTO_ICMP, NULL, 0);

    memset(at, ICMP_ECHO, bytes);
    frame->bytes += bytes;
    ip_of(frame)->id = htons(id);
    ip_of(frame)->frag_off = htons((uint16_t)(offset_bytes / 8 | (more ? IP_MF : 0)));
    ip_end(frame);
}

static void
make_fragments_incomplete(struct victim *victim, struct frame *frame)
{
    uint32_t offset = random_next(victim) % 2 ? 0 : 8 * random_below(victim, 8000);
    fragment_make(victim, frame, (uint16_t)random_next(victim), offset, 8 * (1 + random_below(victim, 180)), true);
}

/* Few identities, so that pieces meet: they overlap, repeat, end twice, and reach beyond 65535 bytes. */
static void
make_fragments_overlap(struct victim *victim, struct frame *frame)
{
    uint32_t offset =
        random_next(victim) % 8 == 0 ? 8 * (8000 + random_below(victim, 191)) : 8 * random_below(victim, 64);
    bool more = random_next(victim) % 4 != 0;
    uint32_t bytes = 1 + random_below(victim, 600);
    fragment_make(victim, frame, (uint16_t)random_below(victim, 16), offset, more ? bytes / 8 * 8 : bytes, more);
}

static void
make_syn(struct victim *victim, struct frame *frame)
{
    static const uint8_t mss[4] = { 2, 4, 5, 0xb4 };

    tcp_make(victim, frame, SYN, mss, sizeof(mss), 0);
    /* Class A to C but loopback; what answers these gets goes to the gateway. */
    ip_of(frame)->saddr = htonl((1 + random_below(victim, 126)) << 24 | random_below(victim, 1u << 24));
    ip_end(frame);
    tcp_checksum(frame);
}

static void
make_ip_options(struct victim *victim, struct frame *frame)
{
    uint8_t options[40];
    uint32_t words = random_below(victim, 11);

    random_fill(victim, options, sizeof(options));
    if (random_next(victim) %
        2) { /* a known option with a bad length or pointer: record route, timestamp, source routes */
        static const uint8_t known[] = { 7, 68, 131, 137, 130, 148 };
        options[0] = known[random_below(victim, sizeof(known))];
        options[1] = (uint8_t)random_below(victim, 64);
        options[2] = (uint8_t)random_below(victim, 64);
    }
    uint8_t *at = ip_begin(victim, frame, IPPROTO_TCP, options, words * 4);
    memset(at, 0, sizeof(struct tcphdr));
    frame->bytes += sizeof(struct tcphdr);
    struct tcphdr *header = (struct tcphdr *)(void *)at;
    header->source = htons((uint16_t)(1024 + random_below(victim, 60000)));
    header->dest = htons(victim->port);
    header->doff = 5;
    header->th_flags = SYN;
    ip_end(frame);
    tcp_checksum(frame);
}

static void
make_tcp_options(struct victim *victim, struct frame *frame)
{
    /* No end, lengths of 0, 1 and too much, window scale 255, MSS of 0, 1 and 65535, SACK that lies. */
    static const uint8_t odd[][8] = {
        { 2, 4, 0, 0 },
        { 2, 4, 0, 1 },
        { 2, 4, 0xff, 0xff },
        { 2, 0 },
        { 2, 1 },
        { 2, 255 },
        { 3, 3, 255, 0 },
        { 8, 10, 0xff, 0xff },
        { 5, 10, 1, 2 },
        { 5, 2 },
        { 4, 1 },
        { 1, 1, 1, 1, 1, 1, 1, 2 },
        { 253, 40, 1, 1, 1 },
        { 34, 255, 1, 1, 1, 1 },
        { 0, 2, 4, 0, 0 },
        { 30, 255 },
    };
    uint8_t options[40], flags[] = { SYN, ACK, SYN | ACK, RST | ACK, FIN | ACK, SYN | FIN, 0, 0xff };

    random_fill(victim, options, sizeof(options));
    memcpy(options, odd[random_below(victim, ARRAY_COUNT(odd))], sizeof(odd[0]));
    tcp_make(victim, frame, flags[random_below(victim, sizeof(flags))], options, 4 * random_below(victim, 11),
             random_below(victim, 32));
}

/* From the victim's own address and port. */
static void
make_land(struct victim *victim, struct frame *frame)
{
    struct tcphdr *header = tcp_make(victim, frame, random_next(victim) % 4 ? SYN : ACK, NULL, 0, 0);
    header->source = header->dest;
    ip_of(frame)->saddr = victim->address;
    if (random_next(victim) % 2) {
        memcpy(frame->data + 6, victim->mac, 6);
    }
    ip_end(frame);
    tcp_checksum(frame);
}

/* Sources that nobody can have. */
static void
make_martian(struct victim *victim, struct frame *frame)
{
    const uint32_t sources[] = { 0, 0xffffffff, 0x7f000001, 0xe0000001, 0xf0000001, ntohl(victim->address) | 0xff };

    tcp_make(victim, frame, random_next(victim) % 2 ? SYN : ACK, NULL, 0, 0);
    ip_of(frame)->saddr = htonl(sources[random_below(victim, ARRAY_COUNT(sources))]);
    ip_end(frame);
    tcp_checksum(frame);
}

static void
arp_make(struct victim *victim, struct frame *frame, uint16_t operation, uint32_t sender, const uint8_t *mac,
         uint32_t target)
{
    uint8_t *at = frame_begin(victim, frame, ETHERTYPE_ARP);
    const uint8_t head[8] = { 0, 1, 8, 0, 6, 4, 0, (uint8_t)operation };

    memset(frame->data, 0xff, 6);
    memcpy(at, head, 8);
    memcpy(at + 8, mac, 6);
    memcpy(at + 14, &sender, 4);
    memset(at + 18, 0, 6);
    memcpy(at + 24, &target, 4);
    memset(at + 28, 0, 18);
    frame->bytes += 46;
}

/* What a neighbour sends: where are you, are you there. */
static void
make_honest(struct victim *victim, struct frame *frame)
{
    if (random_next(victim) % 2) {
        arp_make(victim, frame, 1, victim->own, victim->source_mac, victim->address);
    } else {
        icmp_make(victim, frame, ICMP_ECHO, 0, random_below(victim, 1000));
    }
}

/* Requests for the victim from the whole subnet and beyond, and answers that nobody asked for. */
static void
make_arp_flood(struct victim *victim, struct frame *frame)
{
    uint8_t mac[6];
    uint32_t sender = random_next(victim) % 2
                          ? htonl((ntohl(victim->address) & ~0xffu) | (8 + random_below(victim, 247)))
                          : (uint32_t)random_next(victim);

    random_fill(victim, mac, sizeof(mac));
    arp_make(victim, frame, random_next(victim) % 2 ? 1 : 2, sender, mac, victim->address);
}

/* The victim's own address belongs to somebody else. */
static void
make_arp_spoof(struct victim *victim, struct frame *frame)
{
    uint8_t mac[6];

    random_fill(victim, mac, sizeof(mac));
    mac[0] = 2;
    arp_make(victim, frame, random_next(victim) % 2 ? 1 : 2, victim->address, mac, victim->address);
}

static void
make_arp_broken(struct victim *victim, struct frame *frame)
{
    make_arp_flood(victim, frame);
    frame->data[ETHER_HDR_LEN + random_below(victim, 8)] = (uint8_t)random_next(victim);
    frame->bytes = ETHER_HDR_LEN + random_below(victim, 47);
}

/* Every length a header states, wrong. */
static void
make_lengths(struct victim *victim, struct frame *frame)
{
    struct tcphdr *tcp =
        tcp_make(victim, frame, random_next(victim) % 2 ? SYN : ACK, NULL, 0, random_below(victim, 200));
    struct iphdr *ip = ip_of(frame);

    switch (random_below(victim, 4)) {
    case 0:
        ip->tot_len = (uint16_t)random_next(victim);
        break;
    case 1:
        ip->ihl = random_below(victim, 16) & 15;
        break;
    case 2:
        ip->version = random_below(victim, 16) & 15;
        break;
    default:
        tcp->doff = random_below(victim, 16) & 15;
        tcp_checksum(frame);
        return;
    }
    ip->check = 0;
    ip->check = checksum(0, (const uint8_t *)ip, MAX(ip->ihl * 4u, 4u));
}

static void
make_jumbo(struct victim *victim, struct frame *frame)
{
    uint32_t most = FRAME_BYTES - ETHER_HDR_LEN - sizeof(struct iphdr) - sizeof(struct tcphdr);

    if (random_next(victim) % 2) {
        tcp_make(victim, frame, ACK | PSH, NULL, 0, MTU - 40 + random_below(victim, most - MTU + 40));
    } else {
        icmp_make(victim, frame, ICMP_ECHO, 0, MTU - 28 + random_below(victim, most - MTU + 28));
    }
}

static void
make_vlan(struct victim *victim, struct frame *frame)
{
    static const uint16_t tags[] = { 0x8100, 0x88a8, 0x9100 };
    uint16_t tag = htons(tags[random_below(victim, ARRAY_COUNT(tags))]), id = (uint16_t)random_next(victim);

    tcp_make(victim, frame, SYN, NULL, 0, 0);
    memmove(frame->data + ETHER_HDR_LEN + 2, frame->data + 12, frame->bytes - 12);
    memcpy(frame->data + 12, &tag, 2);
    memcpy(frame->data + 14, &id, 2);
    frame->bytes += 4;
    if (random_next(victim) % 4 == 0) {
        frame->bytes = 12 + random_below(victim, 8);
    }
}

/* IPv6, LLDP, PAUSE, lengths of 802.3, anything. */
static void
make_ethertype(struct victim *victim, struct frame *frame)
{
    static const uint16_t types[] = { 0x86dd, 0x88cc, 0x8808, 0x0000, 0x05dc, 0x8035, 0x8863, 0xffff, 0x0100 };
    bool known = random_next(victim) % 2;
    uint16_t type = known ? types[random_below(victim, ARRAY_COUNT(types))] : (uint16_t)random_next(victim);
    uint32_t bytes = random_below(victim, MTU);

    random_fill(victim, frame_begin(victim, frame, type), bytes);
    frame->bytes += bytes;
}

/* Guesses at an established connection: resets, SYNs, acknowledgements and data with any sequence number. */
static void
make_blind(struct victim *victim, struct frame *frame)
{
    static const uint8_t flags[] = { RST, RST | ACK, SYN, SYN | ACK, ACK, FIN | ACK, ACK | PSH, ACK | URG, 0 };
    tcp_make(victim, frame, flags[random_below(victim, sizeof(flags))], NULL, 0, random_below(victim, 64));
}

static void
make_icmp(struct victim *victim, struct frame *frame)
{
    static const uint8_t types[] = { ICMP_ECHOREPLY, ICMP_DEST_UNREACH,  ICMP_SOURCE_QUENCH, ICMP_REDIRECT,
                                     ICMP_ECHO,      ICMP_TIME_EXCEEDED, ICMP_TIMESTAMP,     ICMP_ADDRESS };
    icmp_make(victim, frame, types[random_below(victim, sizeof(types))], (uint8_t)random_below(victim, 16),
              random_below(victim, 1400));
}

/* "Fragmentation needed" with an MTU of nothing, and "port unreachable", about the peer's connection. */
static void
make_icmp_quoted(struct victim *victim, struct frame *frame)
{
    struct frame quoted;
    uint16_t mtu = htons((uint16_t)random_below(victim, 100));

    tcp_make(victim, &quoted, ACK, NULL, 0, 0);
    struct iphdr *ip = ip_of(&quoted);
    ip->daddr = ip->saddr;
    ip->saddr = victim->address;
    ip_end(&quoted);
    uint16_t *ports = (uint16_t *)(void *)(ip + 1), source = ports[0];
    ports[0] = ports[1];
    ports[1] = source;

    icmp_make(victim, frame, ICMP_DEST_UNREACH, random_next(victim) % 2 ? ICMP_FRAG_NEEDED : ICMP_PORT_UNREACH, 28);
    uint8_t *icmp = frame->data + ETHER_HDR_LEN + sizeof(struct iphdr);
    memset(icmp + 2, 0, 6);
    memcpy(icmp + 6, &mtu, 2);
    memcpy(icmp + 8, ip, 28);
    uint16_t check = checksum(0, icmp, 36);
    memcpy(icmp + 2, &check, 2);
}

static void
make_protocol(struct victim *victim, struct frame *frame)
{
    uint8_t *at = ip_begin(victim, frame, (uint8_t)random_next(victim), NULL, 0);
    uint32_t bytes = random_below(victim, 1400);

    random_fill(victim, at, bytes);
    frame->bytes += bytes;
    if (random_next(victim) % 4 == 0) { /* to everybody */
        ip_of(frame)->daddr = random_next(victim) % 2 ? 0xffffffff : htonl(0xe0000001);
        memset(frame->data, 0xff, 6);
    }
    ip_end(frame);
}

/* Data, with a good checksum, for a connection that does not exist: each one asks for a reset in return. */
static void
make_strays(struct victim *victim, struct frame *frame)
{
    tcp_make(victim, frame, ACK | PSH, NULL, 0, random_below(victim, 1400));
    ip_of(frame)->saddr = htonl((1 + random_below(victim, 126)) << 24 | random_below(victim, 1u << 24));
    ip_end(frame);
    tcp_checksum(frame);
}

static void
make_garbage(struct victim *victim, struct frame *frame)
{
    uint8_t *at = frame_begin(victim, frame, random_next(victim) % 4 ? ETHERTYPE_IP : (uint16_t)random_next(victim));
    uint32_t bytes = random_below(victim, MTU);

    random_fill(victim, at, bytes);
    if (random_next(victim) % 2) {
        at[0] = 0x45;
    }
    frame->bytes += bytes;
}

const struct packet_kind packet_kinds[] = {
    { "checksum_ip", make_checksum_ip },
    { "checksum_tcp", make_checksum_tcp },
    { "checksum_icmp", make_checksum_icmp },
    { "truncated", make_truncated },
    { "fragments_incomplete", make_fragments_incomplete },
    { "fragments_overlap", make_fragments_overlap },
    { "syn", make_syn },
    { "ip_options", make_ip_options },
    { "tcp_options", make_tcp_options },
    { "land", make_land },
    { "martian", make_martian },
    { "honest", make_honest },
    { "arp_flood", make_arp_flood },
    { "arp_spoof", make_arp_spoof },
    { "arp_broken", make_arp_broken },
    { "lengths", make_lengths },
    { "jumbo", make_jumbo },
    { "vlan", make_vlan },
    { "ethertype", make_ethertype },
    { "blind", make_blind },
    { "icmp", make_icmp },
    { "icmp_quoted", make_icmp_quoted },
    { "protocol", make_protocol },
    { "strays", make_strays },
    { "garbage", make_garbage },
};
const size_t packet_kinds_count = ARRAY_COUNT(packet_kinds);
