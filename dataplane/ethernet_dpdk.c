#include "dataplane/ethernet_dpdk_private.h"
#include <rte_lcore.h>
#include <rte_timer.h>

/* ---- faults ---- */

/* Every entry of the lcore comes here first. */
static bool
device_runs(struct ethernet_device *device)
{
    uint32_t state = load_acquire(&device->state); /* pairs with the release in dpdk_refresh() */
    if (LIKELY(state == DEVICE_RUNS)) {
        return true;
    }
    if (state == DEVICE_FAULTY) {
        rte_pktmbuf_free_bulk(device->waiting, device->waiting_count);
        device->waiting_count = 0;
        store_release(&device->state, DEVICE_PARKED); /* pairs with the acquire in dpdk_refresh() */
    }
    return false;
}

/* ---- receive ---- */

static uint32_t
flags_of(const struct rte_mbuf *mbuf)
{
    uint64_t ip = mbuf->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK;
    uint64_t l4 = mbuf->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
    bool bad = ip == RTE_MBUF_F_RX_IP_CKSUM_BAD || l4 == RTE_MBUF_F_RX_L4_CKSUM_BAD;

    return (ip == RTE_MBUF_F_RX_IP_CKSUM_GOOD ? FRAME_IP_SUM_GOOD : 0) |
           (l4 == RTE_MBUF_F_RX_L4_CKSUM_GOOD ? FRAME_L4_SUM_GOOD : 0) | (bad ? FRAME_SUM_BAD : 0);
}

/* A chain of mbufs as a chain of frames, each to be given back alone. */
static struct device_frame *
frame_from(struct rte_mbuf *mbuf)
{
    struct device_frame *first = dpdk_frame_of(mbuf), **link = &first;
    uint32_t flags = flags_of(mbuf);

    while (mbuf != NULL) {
        struct rte_mbuf *next = mbuf->next;
        struct device_frame *frame = dpdk_frame_of(mbuf);
        frame->data = rte_pktmbuf_mtod(mbuf, uint8_t *);
        frame->bytes = mbuf->data_len;
        frame->room = mbuf->buf_len - mbuf->data_off;
        frame->flags = flags;
        frame->segment = NULL;
        mbuf->next = NULL;
        mbuf->nb_segs = 1;
        *link = frame;
        link = &frame->segment;
        mbuf = next;
    }
    return first;
}

static uint32_t
dpdk_receive(struct ethernet_device *device, struct device_frame **frames, uint32_t max)
{
    struct rte_mbuf *mbufs[64];

    if (UNLIKELY(rte_lcore_id() != rte_get_main_lcore())) {
        eal_adopt(true); /* the first poll of this thread */
    }
    if (!device_runs(device)) {
        return 0;
    }
    uint16_t count = rte_eth_rx_burst(device->port, DPDK_QUEUE, mbufs, (uint16_t)MIN(max, ARRAY_COUNT(mbufs)));
    for (uint16_t i = 0; i < count; i++) {
        frames[i] = frame_from(mbufs[i]);
    }
    return count;
}

static void
dpdk_give(struct ethernet_device *device, struct device_frame *frame)
{
    while (frame != NULL) {
        struct device_frame *next = frame->segment;
        rte_pktmbuf_free_seg(dpdk_mbuf_of(frame));
        frame = next;
    }
}

/* ---- send ---- */

static struct device_frame *
dpdk_take(struct ethernet_device *device)
{
    if (UNLIKELY(!device_runs(device) || device->waiting_count == device->waiting_max)) {
        return NULL;
    }
    struct rte_mbuf *mbuf = rte_pktmbuf_alloc(device->tx_pool);
    if (UNLIKELY(mbuf == NULL)) {
        return NULL;
    }
    struct device_frame *frame = dpdk_frame_of(mbuf);
    frame->data = rte_pktmbuf_mtod(mbuf, uint8_t *);
    frame->room = rte_pktmbuf_tailroom(mbuf);
    frame->segment = NULL;
    frame->bytes = 0;
    return frame;
}

static void
dpdk_amend(struct ethernet_device *device, struct device_frame *frame)
{
    struct rte_mbuf *mbuf = dpdk_mbuf_of(frame);

    mbuf->data_len = (uint16_t)frame->bytes;
    mbuf->pkt_len = frame->bytes;
    if (frame->flags & (FRAME_SUM_IP | FRAME_SUM_TCP)) {
        mbuf->l2_len = RTE_ETHER_HDR_LEN;
        mbuf->l3_len = frame->ip_bytes;
        mbuf->l4_len = frame->tcp_bytes;
        mbuf->ol_flags = RTE_MBUF_F_TX_IPV4 | (frame->flags & FRAME_SUM_IP ? RTE_MBUF_F_TX_IP_CKSUM : 0) |
                         (frame->flags & FRAME_SUM_TCP ? RTE_MBUF_F_TX_TCP_CKSUM : 0);
        if (frame->flags & FRAME_SEGMENT) {
            mbuf->ol_flags |= RTE_MBUF_F_TX_TCP_SEG;
            mbuf->tso_segsz = frame->segment_bytes;
        }
    }
}

static void
dpdk_put(struct ethernet_device *device, struct device_frame *frame)
{
    dpdk_amend(device, frame);
    device->waiting[device->waiting_count++] = dpdk_mbuf_of(frame);
}

static void
waiting_shift(struct ethernet_device *device, uint32_t count)
{
    device->waiting_count -= count;
    memmove(device->waiting, device->waiting + count, device->waiting_count * sizeof(device->waiting[0]));
}

static void
drop_first(struct ethernet_device *device)
{
    device->tx_unsendable++;
    rte_pktmbuf_free(device->waiting[0]);
    waiting_shift(device, 1);
}

static uint32_t
dpdk_flush(struct ethernet_device *device)
{
    uint16_t count = (uint16_t)MIN(device->waiting_count, DPDK_TX_BURST);

    if (count == 0 || !device_runs(device)) {
        return 0;
    }
    if (device->offloads & (DEVICE_SUMS_IP | DEVICE_SUMS_TCP)) {
        uint16_t good = rte_eth_tx_prepare(device->port, DPDK_QUEUE, device->waiting, count);
        if (UNLIKELY(good == 0)) { /* the driver cannot send the first one, ever */
            drop_first(device);
            return 0;
        }
        count = good;
    }
    uint16_t sent = rte_eth_tx_burst(device->port, DPDK_QUEUE, device->waiting, count);
    device->sends |= sent > 0;
    if (LIKELY(sent == device->waiting_count)) {
        device->waiting_count = 0;
    } else {
        waiting_shift(device, sent);
    }
    return sent;
}

/* ---- the rest of the table ---- */

static void
dpdk_tick(struct ethernet_device *device, uint64_t now_ms)
{
    if (now_ms >= device->timer_due_ms && device_runs(device)) {
        device->timer_due_ms = now_ms + DPDK_TIMER_MS;
        rte_timer_manage();
        if (UNLIKELY(device->waiting_count > 0 && !device->sends)) {
            drop_first(device); /* refused for a second: what follows it may go */
        }
        device->sends = false;
    }
}

static void
dpdk_describe(const struct ethernet_device *device, struct ethernet_info *info)
{
    *info = device->info;
}

static uint32_t
dpdk_offloads(const struct ethernet_device *device)
{
    return device->offloads;
}

static void
dpdk_count(const struct ethernet_device *device, struct ethernet_stats *stats)
{
    stats->tx_dropped += device->tx_unsendable;
}

const struct ethernet_device_ops ethernet_dpdk_ops = {
    .open = dpdk_open,
    .close = dpdk_close,
    .describe = dpdk_describe,
    .offloads = dpdk_offloads,
    .receive = dpdk_receive,
    .give = dpdk_give,
    .take = dpdk_take,
    .put = dpdk_put,
    .amend = dpdk_amend,
    .flush = dpdk_flush,
    .tick = dpdk_tick,
    .count = dpdk_count,
    .refresh = dpdk_refresh,
};
