/* ethernet_stack_send.c - packets of lwIP into frames of the device: sums left to it, segments joined for it to cut. */
#include "config/cycles.h"
#include "dataplane/ethernet_stack_private.h"
#include <lwip/prot/ethernet.h>
#include <lwip/prot/ip4.h>
#include <lwip/prot/tcp.h>

#define HEADERS_MIN (SIZEOF_ETH_HDR + IP_HLEN + TCP_HLEN)

/* Where IPv4 and TCP headers stand in a packet without IP options, which lwIP does not send. */
static struct ip_hdr *
ip_of(uint8_t *packet)
{
    return (struct ip_hdr *)(packet + SIZEOF_ETH_HDR);
}

static struct tcp_hdr *
tcp_of(uint8_t *packet)
{
    return (struct tcp_hdr *)(packet + SIZEOF_ETH_HDR + IP_HLEN);
}

static bool
is_tcp(uint8_t *packet, uint32_t bytes)
{
    const struct eth_hdr *eth = (const void *)packet;
    return bytes >= HEADERS_MIN && eth->type == PP_HTONS(ETHTYPE_IP) && IPH_PROTO(ip_of(packet)) == IP_PROTO_TCP &&
           IPH_HL_BYTES(ip_of(packet)) == IP_HLEN;
}

static uint32_t
header_bytes(uint8_t *packet)
{
    return SIZEOF_ETH_HDR + IP_HLEN + TCPH_HDRLEN_BYTES(tcp_of(packet));
}

/* ---- sums that the device fills in ---- */

/* The field then holds the sum of the pseudo header; without the length when the device cuts the packet. */
static void
frame_offload(struct device_frame *frame, uint32_t offloads)
{
    const struct eth_hdr *eth = (const void *)frame->data;
    struct ip_hdr *ip = ip_of(frame->data);

    if (eth->type != PP_HTONS(ETHTYPE_IP)) {
        return;
    }
    frame->ip_bytes = IPH_HL_BYTES(ip);
    if (offloads & DEVICE_SUMS_IP) {
        frame->flags |= FRAME_SUM_IP;
    }
    if ((offloads & DEVICE_SUMS_TCP) && is_tcp(frame->data, frame->bytes)) {
        uint32_t bytes = frame->flags & FRAME_SEGMENT ? 0 : frame->bytes - SIZEOF_ETH_HDR - IP_HLEN;
        uint32_t sum = ethernet_stack_sum(&ip->src, 8) + PP_HTONS(IP_PROTO_TCP) + lwip_htons((u16_t)bytes);
        sum = (sum & 0xffff) + (sum >> 16);
        tcp_of(frame->data)->chksum = (u16_t)((sum & 0xffff) + (sum >> 16));
        frame->tcp_bytes = TCPH_HDRLEN_BYTES(tcp_of(frame->data));
        frame->flags |= FRAME_SUM_TCP;
    }
}

/* ---- segments that the device cuts ---- */

/* The bits of the flags that may differ: a push of the later segment is the push of both. */
static bool
is_plain_ack(const struct tcp_hdr *tcp)
{
    return (TCPH_FLAGS(tcp) & ~TCP_PSH) == TCP_ACK;
}

/* Whether a packet goes on where the last frame ends, and differs in nothing that a cut would not restore. */
static bool
joins(struct device_frame *last, uint8_t *packet, uint32_t bytes)
{
    if (!is_tcp(last->data, last->bytes) || !is_tcp(packet, bytes)) {
        return false;
    }
    struct tcp_hdr *one = tcp_of(last->data), *two = tcp_of(packet);
    uint32_t header = header_bytes(last->data), payload = last->bytes - header;
    uint32_t piece = last->flags & FRAME_SEGMENT ? last->segment_bytes : payload;
    return header == header_bytes(packet) && payload > 0 && payload % piece == 0 && bytes > header &&
           bytes - header <= piece && last->bytes + bytes - header <= MIN(last->room, UINT16_MAX) &&
           is_plain_ack(one) && is_plain_ack(two) && lwip_ntohl(two->seqno) == lwip_ntohl(one->seqno) + payload &&
           memcmp(last->data, packet, SIZEOF_ETH_HDR) == 0 &&
           memcmp(&ip_of(last->data)->src, &ip_of(packet)->src, 8) == 0 && one->src == two->src &&
           one->dest == two->dest && one->ackno == two->ackno && one->wnd == two->wnd &&
           memcmp(one + 1, two + 1, header - HEADERS_MIN) == 0;
}

static void
copy_from(uint8_t *at, const struct pbuf *p, uint32_t skip)
{
    for (; p != NULL; p = p->next) {
        uint32_t cut = MIN(skip, p->len);
        bytes_copy(at, (const uint8_t *)p->payload + cut, p->len - cut);
        at += p->len - cut;
        skip -= cut;
    }
}

static void
join(struct ethernet *ethernet, struct device_frame *last, const struct pbuf *p, uint32_t offloads)
{
    struct tcp_hdr *tcp = tcp_of(last->data);
    uint32_t header = header_bytes(last->data);

    if (!(last->flags & FRAME_SEGMENT)) {
        last->segment_bytes = (uint16_t)(last->bytes - header);
        last->flags |= FRAME_SEGMENT;
    }
    copy_from(last->data + last->bytes, p, header);
    last->bytes += p->tot_len - header;
    TCPH_SET_FLAG(tcp, TCPH_FLAGS(tcp_of(p->payload)));
    IPH_LEN_SET(ip_of(last->data), lwip_htons((u16_t)(last->bytes - SIZEOF_ETH_HDR)));
    frame_offload(last, offloads);
    ethernet->device_ops->amend(ethernet->device, last);
}

/* ---- send ---- */

static void
count_sent(struct ethernet *ethernet, const struct pbuf *p)
{
    ethernet->stats.tx_packets++;
    ethernet->stats.tx_bytes += p->tot_len;
    if (capture_is_on(ethernet->capture)) { /* as lwIP made it: headers, and what follows them in one piece */
        uint8_t copy[CAPTURE_SNAP_MAX];
        uint32_t bytes = pbuf_copy_partial(p, copy, sizeof(copy), 0);
        capture_put(ethernet->capture, cycles_now(), slice_of(copy, bytes), p->tot_len);
    }
}

err_t
stack_send(struct netif *netif, struct pbuf *p)
{
    struct ethernet *ethernet = &ethernet_stack;
    uint32_t offloads = ethernet->device_ops->offloads(ethernet->device);

    if ((offloads & DEVICE_SEGMENTS) && ethernet->tx_last != NULL && p->len >= HEADERS_MIN &&
        p->len >= header_bytes(p->payload) && joins(ethernet->tx_last, p->payload, p->tot_len)) {
        join(ethernet, ethernet->tx_last, p, offloads);
        count_sent(ethernet, p);
        return ERR_OK;
    }
    struct device_frame *frame = ethernet->device_ops->take(ethernet->device);
    if (UNLIKELY(frame == NULL || p->tot_len > frame->room)) {
        if (frame != NULL) {
            ethernet->device_ops->give(ethernet->device, frame);
        }
        ethernet->tx_last = NULL;
        ethernet->stats.tx_dropped++;
        return ERR_MEM;
    }
    copy_from(frame->data, p, 0);
    frame->bytes = p->tot_len;
    frame->flags = 0;
    if (offloads & (DEVICE_SUMS_IP | DEVICE_SUMS_TCP)) {
        frame_offload(frame, offloads);
    }
    count_sent(ethernet, p);
    ethernet->device_ops->put(ethernet->device, frame);
    ethernet->tx_last = frame;
    return ERR_OK;
}

uint32_t
stack_flush(struct ethernet *ethernet)
{
    ethernet->tx_last = NULL;
    return ethernet->device_ops->flush(ethernet->device);
}
