#include "config/cycles.h"
#include "dataplane/ethernet_stack_private.h"
#include <lwip/etharp.h>
#include <lwip/inet_chksum.h>
#include <lwip/ip4_frag.h>
#include <lwip/priv/tcp_priv.h>
#include <lwip/prot/ethernet.h>
#include <lwip/prot/icmp.h>
#include <lwip/prot/ip4.h>
#include <lwip/prot/tcp.h>
#include <lwip/stats.h>
#include <netif/ethernet.h>

#define DATAGRAM_MAX 9216 /* of what comes in fragments */

struct ethernet ethernet_stack;

/* ---- checksums: lwIP's own adds two bytes at a time ---- */

static inline uint64_t
load_bytes(const uint8_t *at, size_t bytes)
{
    uint64_t word = 0;
    memcpy(&word, at, bytes);
    return word;
}

static inline uint64_t
add_with_carry(uint64_t sum, uint64_t word)
{
    sum += word;
    return sum + (sum < word);
}

uint16_t
ethernet_stack_sum(const void *data, int bytes)
{
    const uint8_t *at = data;
    uint64_t sum = 0;

    for (; bytes >= 8; bytes -= 8, at += 8) {
        sum = add_with_carry(sum, load_bytes(at, 8));
    }
    if (bytes & 4) {
        sum = add_with_carry(sum, load_bytes(at, 4));
        at += 4;
    }
    if (bytes & 2) {
        sum = add_with_carry(sum, load_bytes(at, 2));
        at += 2;
    }
    if (bytes & 1) {
        sum = add_with_carry(sum, *at);
    }
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

/* ---- frames and pbufs ---- */

struct stack_frame { /* in a device_frame's stack[] */
    struct pbuf_custom custom;
};
static_assert(sizeof(struct stack_frame) <= FRAME_STACK_BYTES, "a frame has room for lwIP's header");

struct pbuf *
stack_pbuf_of(struct device_frame *frame)
{
    return &((struct stack_frame *)frame->stack)->custom.pbuf;
}

struct device_frame *
stack_frame_of(struct pbuf *p)
{
    return CONTAINER_OF((uint8_t(*)[FRAME_STACK_BYTES])p, struct device_frame, stack);
}

uint32_t
stack_frames_spare(const struct ethernet *ethernet)
{
    return ethernet->frames_total > ethernet->frames_used ? ethernet->frames_total - ethernet->frames_used : 0;
}

/* No connection keeps more frames that came out of order than a share of the free ones. */
uint16_t
ethernet_stack_ooseq_limit(void)
{
    uint32_t share = stack_frames_spare(&ethernet_stack) / STACK_SPARE_SHARE;
    return (uint16_t)MIN(share, UINT16_MAX);
}

static void
pbuf_free_to_device(struct pbuf *p)
{
    struct ethernet *ethernet = &ethernet_stack;
    struct device_frame *frame = stack_frame_of(p);

    ethernet->frames_used--;
    frame->segment = NULL;
    ethernet->device_ops->give(ethernet->device, frame);
}

/* Every segment of the frame as a pbuf of its own: each is given back alone. */
static struct pbuf *
frame_wrap(struct ethernet *ethernet, struct device_frame *frame)
{
    struct pbuf *head = NULL;

    for (struct device_frame *segment = frame; segment != NULL; segment = segment->segment) {
        struct stack_frame *own = (struct stack_frame *)segment->stack;
        own->custom.custom_free_function = pbuf_free_to_device;
        struct pbuf *p = pbuf_alloced_custom(PBUF_RAW, (u16_t)segment->bytes, PBUF_REF, &own->custom, segment->data,
                                             (u16_t)segment->bytes);
        ethernet->frames_used++;
        if (head == NULL) {
            head = p;
        } else {
            pbuf_cat(head, p);
        }
    }
    return head;
}

/* ---- receive ---- */

/* The headers of a frame that is for us, read without trusting any length in it. */
enum frame_kind { FRAME_OTHER, FRAME_TCP, FRAME_MALFORMED, FRAME_FOREIGN };

/* A device may show what is for others, and lwIP would answer it. */
static bool
is_for_us(const struct ethernet *ethernet, const struct eth_hdr *eth)
{
    return memcmp(&eth->dest, ethernet->netif.hwaddr, ETH_HWADDR_LEN) == 0 ||
           memcmp(&eth->dest, &ethbroadcast, ETH_HWADDR_LEN) == 0;
}

static enum frame_kind
frame_classify(const struct ethernet *ethernet, const struct device_frame *frame, uint32_t *bucket)
{
    const struct eth_hdr *eth = (const void *)frame->data;
    const struct ip_hdr *ip = (const void *)(frame->data + SIZEOF_ETH_HDR);
    const struct tcp_hdr *tcp;

    if (frame->bytes < SIZEOF_ETH_HDR) {
        return FRAME_MALFORMED;
    }
    if (!is_for_us(ethernet, eth)) {
        return FRAME_FOREIGN;
    }
    if (eth->type == PP_HTONS(ETHTYPE_ARP)) { /* lwIP would read the rest from what was in the frame before */
        return frame->bytes < SIZEOF_ETH_HDR + SIZEOF_ETHARP_HDR ? FRAME_MALFORMED : FRAME_OTHER;
    }
    if (eth->type != PP_HTONS(ETHTYPE_IP) || frame->bytes < SIZEOF_ETH_HDR + IP_HLEN) {
        return FRAME_MALFORMED;
    }
    uint16_t offset = lwip_ntohs(IPH_OFFSET(ip));
    uint32_t ip_bytes = lwip_ntohs(IPH_LEN(ip));
    if ((offset & (IP_MF | IP_OFFMASK)) != 0) {
        bool too_long = (offset & IP_OFFMASK) * 8u + ip_bytes > DATAGRAM_MAX;
        return IPH_PROTO(ip) == IP_PROTO_TCP || too_long ? FRAME_MALFORMED : FRAME_OTHER;
    }
    if (IPH_PROTO(ip) != IP_PROTO_TCP) {
        return ip_bytes > DATAGRAM_MAX ? FRAME_MALFORMED : FRAME_OTHER;
    }
    uint32_t header = IPH_HL_BYTES(ip);
    if (header < IP_HLEN || ip_bytes < header + TCP_HLEN || frame->bytes < SIZEOF_ETH_HDR + header + TCP_HLEN) {
        return FRAME_MALFORMED;
    }
    tcp = (const void *)((const uint8_t *)ip + header);
    *bucket = stack_bucket_of(ip->src.addr, lwip_ntohs(tcp->src), lwip_ntohs(tcp->dest));
    return FRAME_TCP;
}

static void
frame_receive(struct ethernet *ethernet, struct device_frame *frame)
{
    uint32_t bucket = STACK_BUCKETS, bytes = 0;

    for (struct device_frame *segment = frame; segment != NULL; segment = segment->segment) {
        bytes += segment->bytes;
    }
    ethernet->stats.rx_packets++;
    ethernet->stats.rx_bytes += bytes;
    if (capture_is_on(ethernet->capture)) {
        capture_put(ethernet->capture, cycles_now(), slice_of(frame->data, frame->bytes), bytes);
    }
    enum frame_kind kind = frame_classify(ethernet, frame, &bucket);
    if (UNLIKELY(kind >= FRAME_MALFORMED || (frame->flags & FRAME_SUM_BAD) || bytes > UINT16_MAX)) {
        ethernet->stats.malformed += kind == FRAME_MALFORMED;
        ethernet->stats.checksum_errors += kind < FRAME_MALFORMED && (frame->flags & FRAME_SUM_BAD);
        ethernet->device_ops->give(ethernet->device, frame);
        return;
    }
    if (kind == FRAME_TCP) {
        stack_enter(ethernet, bucket);
    }
    uint16_t unchecked = (frame->flags & FRAME_IP_SUM_GOOD ? NETIF_CHECKSUM_CHECK_IP : 0) |
                         (frame->flags & FRAME_L4_SUM_GOOD ? NETIF_CHECKSUM_CHECK_TCP : 0);
    NETIF_SET_CHECKSUM_CTRL(&ethernet->netif, ethernet->sum_flags & ~unchecked);
    struct pbuf *p = frame_wrap(ethernet, frame);
    if (ethernet->netif.input(p, &ethernet->netif) != ERR_OK) {
        pbuf_free(p);
    }
}

static uint32_t
stack_poll(struct ethernet *ethernet)
{
    struct device_frame *frames[STACK_RX_BURST];
    ethernet->tx_last = NULL; /* what time sent may be gone when the device had a fault */
    uint32_t count = ethernet->device_ops->receive(ethernet->device, frames, STACK_RX_BURST);

    for (uint32_t i = 0; i < count; i++) {
        if (i + 1 < count) {
            PREFETCH(frames[i + 1]->data);
        }
        frame_receive(ethernet, frames[i]);
    }
    return count;
}

/* ---- time ---- */

uint32_t
stack_enter(struct ethernet *ethernet, uint32_t bucket)
{
    uint32_t before = ethernet->bucket;

    if (before == bucket) {
        return before;
    }
    if (before < STACK_BUCKETS) {
        ethernet->buckets[before] = (struct stack_bucket){ tcp_active_pcbs, tcp_tw_pcbs };
    }
    tcp_active_pcbs = bucket < STACK_BUCKETS ? ethernet->buckets[bucket].active : NULL;
    tcp_tw_pcbs = bucket < STACK_BUCKETS ? ethernet->buckets[bucket].time_wait : NULL;
    ethernet->bucket = bucket;
    return before;
}

/* A segment that dupacks asked for, and that a closed window then held back, waits before those that were sent. When
 * time asks for all of them lwIP puts them before it, and it is never sent: they must be in order before that. */
static void
mend_order(struct tcp_pcb *pcb)
{
    struct tcp_seg **at = &pcb->unacked;

    if (LIKELY(pcb->unsent == NULL || pcb->unacked == NULL || pcb->rtime + 1 < pcb->rto)) {
        return;
    }
    while (*at != NULL && pcb->unsent != NULL) {
        struct tcp_seg *held = pcb->unsent;
        if (TCP_SEQ_LT(lwip_ntohl(held->tcphdr->seqno), lwip_ntohl((*at)->tcphdr->seqno))) {
            pcb->unsent = held->next;
            held->next = *at;
            *at = held;
        }
        at = &(*at)->next;
    }
}

static struct tcp_pcb **
append_list(struct tcp_pcb **end, struct tcp_pcb *list)
{
    *end = list;
    while (*end != NULL) {
        struct ethernet_connection *connection = tcp_ext_arg_get(*end, 0);
        connection->timeouts = (*end)->nrtx;
        mend_order(*end);
        end = &(*end)->next;
    }
    return end;
}

static void
sort_list(struct ethernet *ethernet, struct tcp_pcb *list, bool time_wait)
{
    while (list != NULL) {
        struct tcp_pcb *pcb = list;
        const struct ethernet_connection *connection = tcp_ext_arg_get(pcb, 0);
        struct stack_bucket *bucket = &ethernet->buckets[connection->bucket];
        struct tcp_pcb **head = time_wait ? &bucket->time_wait : &bucket->active;
        ethernet->stats.retransmits += pcb->nrtx > connection->timeouts; /* lwIP counts only what dupacks ask for */
        list = pcb->next;
        pcb->next = *head;
        *head = pcb;
    }
}

void
stack_age_slice(struct ethernet *ethernet, uint32_t slice)
{
    uint32_t first = slice * STACK_BUCKETS / STACK_SLICES, end = (slice + 1) * STACK_BUCKETS / STACK_SLICES;
    struct tcp_pcb *active = NULL, *time_wait = NULL;
    struct tcp_pcb **active_end = &active, **time_wait_end = &time_wait;

    stack_enter(ethernet, STACK_BUCKETS);
    for (uint32_t i = first; i < end; i++) {
        active_end = append_list(active_end, ethernet->buckets[i].active);
        time_wait_end = append_list(time_wait_end, ethernet->buckets[i].time_wait);
        ethernet->buckets[i] = (struct stack_bucket){ NULL, NULL };
    }
    tcp_active_pcbs = active;
    tcp_tw_pcbs = time_wait;
    if (slice != 0) {
        tcp_ticks--; /* lwIP counts calls: one a round of all slices */
    }
    tcp_slowtmr();
    tcp_fasttmr();
    active = tcp_active_pcbs;
    time_wait = tcp_tw_pcbs;
    tcp_active_pcbs = tcp_tw_pcbs = NULL;
    sort_list(ethernet, active, false);
    sort_list(ethernet, time_wait, true);
}

/* lwIP asks for its timers when it has a connection; ours always run. */
void
tcp_timer_needed(void)
{
}

static void
stack_tick(struct ethernet *ethernet, uint64_t now_ms)
{
    if (UNLIKELY(now_ms - ethernet->slice_due_ms >= STACK_SLICES * STACK_SLICE_MS)) {
        ethernet->slice_due_ms = now_ms; /* the first tick, or this thread stood still */
    }
    while (ethernet->slice_due_ms <= now_ms) {
        stack_age_slice(ethernet, ethernet->slice);
        ethernet->slice = (ethernet->slice + 1) % STACK_SLICES;
        ethernet->slice_due_ms += STACK_SLICE_MS;
    }
    if (now_ms >= ethernet->second_due_ms) {
        ethernet->second_due_ms = now_ms + 1000;
        etharp_tmr();
        ip_reass_tmr();
    }
    ethernet->device_ops->tick(ethernet->device, now_ms);
}

/* ---- the rest of the table ---- */

static void
stack_count(const struct ethernet *ethernet, struct ethernet_stats *out)
{
    *out = ethernet->stats;
    out->checksum_errors += lwip_stats.ip.chkerr + lwip_stats.tcp.chkerr + lwip_stats.icmp.chkerr;
    out->malformed += lwip_stats.ip.lenerr + lwip_stats.tcp.lenerr + lwip_stats.ip.opterr + lwip_stats.ip_frag.lenerr +
                      lwip_stats.etharp.lenerr + lwip_stats.etharp.proterr + lwip_stats.ip.proterr;
    out->retransmits += lwip_stats.mib2.tcpretranssegs;
    out->resets_sent = lwip_stats.mib2.tcpoutrsts;
    out->connections = lwip_stats.memp[MEMP_TCP_PCB]->used;
    out->leaving = ethernet->lists[CONNECTION_LEAVING].count;
    out->segments_used = lwip_stats.memp[MEMP_TCP_SEG]->used;
    out->frames_used = ethernet->frames_used;
    ethernet->device_ops->count(ethernet->device, out);
}

static void
stack_info(const struct ethernet *ethernet, struct ethernet_info *out)
{
    *out = ethernet->info;
}

static void
stack_refresh(struct ethernet *ethernet, struct ethernet_hardware *out)
{
    ethernet->device_ops->refresh(ethernet->device, out);
}

static void
stack_capture(struct ethernet *ethernet, struct capture *capture)
{
    ethernet->capture = capture;
}

static void
stack_frame_give(struct ethernet *ethernet, struct ethernet_frame *frame)
{
    pbuf_free(stack_pbuf_of((struct device_frame *)frame));
}

static void
stack_listen(struct ethernet *ethernet, bool on)
{
    while (!on && ethernet->listener_count > 0) {
        tcp_close(ethernet->listeners[--ethernet->listener_count]);
    }
    for (uint32_t i = ethernet->listener_count; on && i < ethernet->config.listen_count; i++) {
        connection_listen(ethernet, ethernet->config.listen[i]); /* it did at boot: the pool has room */
    }
}

const struct ethernet_ops ethernet_stack_ops = {
    .open = stack_open,
    .close = stack_close,
    .info = stack_info,
    .poll = stack_poll,
    .flush = stack_flush,
    .tick = stack_tick,
    .listen = stack_listen,
    .count = stack_count,
    .capture = stack_capture,
    .refresh = stack_refresh,
    .write = connection_write,
    .finish = connection_finish,
    .taken = connection_taken,
    .frame_give = stack_frame_give,
    .release = connection_release,
};
