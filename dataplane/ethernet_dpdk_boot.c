/* ethernet_dpdk_boot.c - opening, closing and resetting the device: control path. */
#include "dataplane/ethernet_dpdk_private.h"
#include <errno.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_timer.h>

static uint32_t
frame_room(uint32_t mtu)
{
    return (uint32_t)ALIGN_UP(MAX(mtu + RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN, 2048u), 256) + RTE_PKTMBUF_HEADROOM;
}

static uint32_t
held_frames(uint32_t mtu)
{
    return frame_room(mtu) > 4096 ? DPDK_HELD_JUMBO : DPDK_HELD_FRAMES;
}

static uint32_t
rx_frames(const struct ethernet_config *config)
{
    return config->rx_descriptors + held_frames(config->mtu) + 2 * DPDK_CACHE_FRAMES;
}

/* The driver may keep as many as it has descriptors, and as many may wait for it. */
static uint32_t
tx_frames(const struct ethernet_config *config)
{
    return 2 * config->tx_descriptors + 2 * DPDK_CACHE_FRAMES;
}

static int
fault_seen(uint16_t port, enum rte_eth_event_type event, void *argument, void *result)
{
    struct ethernet_device *device = argument;
    uint32_t expected = DEVICE_RUNS;

    cas_acq_rel(&device->state, &expected, DEVICE_FAULTY); /* pairs with device_runs() */
    return 0;
}

/* ---- configure ---- */

#define TX_SUMS    (RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM)
#define TX_SEGMENT (TX_SUMS | RTE_ETH_TX_OFFLOAD_TCP_TSO)

/* DPDK 22.11's tap driver says so, and then refuses segments as long as the MTU for ever. */
static bool
cuts_segments(const struct rte_eth_dev_info *dev)
{
    return (dev->tx_offload_capa & TX_SEGMENT) == TX_SEGMENT && strcmp(dev->driver_name, "net_tap") != 0;
}

static void
offloads_choose(struct ethernet_device *device, const struct rte_eth_dev_info *dev)
{
    uint64_t tx = dev->tx_offload_capa, rx = dev->rx_offload_capa & RTE_ETH_RX_OFFLOAD_CHECKSUM;
    char *text = device->info.offloads;

    device->conf.txmode.offloads = tx & (cuts_segments(dev) ? TX_SEGMENT : TX_SUMS);
    device->conf.rxmode.offloads = rx;
    device->offloads = (tx & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM ? DEVICE_SUMS_IP : 0) |
                       (tx & RTE_ETH_TX_OFFLOAD_TCP_CKSUM ? DEVICE_SUMS_TCP : 0) | (rx != 0 ? DEVICE_CHECKS : 0) |
                       (cuts_segments(dev) ? DEVICE_SEGMENTS : 0);
    snprintf(text, sizeof(device->info.offloads), "%s%s%s%s%s",
             device->offloads == 0 ? "none: checksums in software" : "",
             device->offloads & DEVICE_SUMS_IP ? "tx-ip " : "", device->offloads & DEVICE_SUMS_TCP ? "tx-tcp " : "",
             device->offloads & DEVICE_SEGMENTS ? "tx-segments " : "",
             device->offloads & DEVICE_CHECKS ? "rx-checksum" : "");
}

/* Also after a reset: everything that a driver forgets. */
static int
device_start(struct ethernet_device *device)
{
    uint16_t port = device->port;
    int socket = rte_eth_dev_socket_id(port);
    int rc = rte_eth_dev_configure(port, 1, 1, &device->conf);

    if (rc == 0) {
        rc = rte_eth_dev_adjust_nb_rx_tx_desc(port, &device->rx_descriptors, &device->tx_descriptors);
    }
    if (rc == 0) {
        rc = rte_eth_rx_queue_setup(port, DPDK_QUEUE, device->rx_descriptors, (unsigned)socket, NULL, device->pool);
    }
    if (rc == 0) {
        rc = rte_eth_tx_queue_setup(port, DPDK_QUEUE, device->tx_descriptors, (unsigned)socket, NULL);
    }
    if (rc == 0) {
        rc = rte_eth_dev_start(port);
    }
    return rc;
}

static int
device_configure(struct ethernet_device *device, const struct ethernet_config *config, char *why, size_t why_bytes)
{
    struct rte_eth_dev_info dev;
    struct rte_ether_addr mac;
    int rc = rte_eth_dev_info_get(device->port, &dev);

    if (rc == 0) {
        device->conf.rxmode.mtu = config->mtu;
        device->rx_descriptors = (uint16_t)config->rx_descriptors;
        device->tx_descriptors = (uint16_t)config->tx_descriptors;
        offloads_choose(device, &dev);
        rc = device_start(device);
    }
    if (rc != 0) {
        snprintf(why, why_bytes,
                 "%s does not start with mtu %u, %u and %u descriptors: %s (%s); try other values, \"auto\" is 1500 "
                 "and 1024",
                 config->device, config->mtu, config->rx_descriptors, config->tx_descriptors, strerror(-rc),
                 eal_last_message());
        return rc;
    }
    if (config->has_mac) {
        memcpy(mac.addr_bytes, config->mac, sizeof(mac.addr_bytes));
        rc = rte_eth_dev_default_mac_addr_set(device->port, &mac);
    }
    if (rc != 0) {
        snprintf(why, why_bytes, "%s does not take a MAC address: %s; leave mac \"auto\"", config->device,
                 strerror(-rc));
        return rc;
    }
    rte_eth_macaddr_get(device->port, &mac);
    rte_ether_format_addr(device->info.mac, sizeof(device->info.mac), &mac);
    snprintf(device->info.driver, sizeof(device->info.driver), "%s", dev.driver_name);
    snprintf(device->info.device, sizeof(device->info.device), "%s", config->device);
    device->info.mtu = config->mtu;
    device->info.rx_descriptors = device->rx_descriptors;
    device->info.tx_descriptors = device->tx_descriptors;
    device->info.frames = held_frames(config->mtu);
    device->info.makes_calls = strstr(dev.driver_name, "tap") != NULL || strstr(dev.driver_name, "pcap") != NULL;
    return 0;
}

/* ---- open and close ---- */

/* The lcore takes no page fault, and the process does not grow. */
static void
frame_touch(struct rte_mempool *pool, void *argument, void *object, unsigned index)
{
    struct rte_mbuf *mbuf = object;
    memset(mbuf->buf_addr, 0, mbuf->buf_len);
}

static struct rte_mempool *
pool_open(const char *name, uint32_t frames, uint32_t room, const struct ethernet_config *config)
{
    uint16_t own_bytes = (uint16_t)ALIGN_UP(sizeof(struct device_frame), RTE_MBUF_PRIV_ALIGN);
    struct rte_mempool *pool =
        rte_pktmbuf_pool_create(name, frames, DPDK_CACHE_FRAMES, own_bytes, (uint16_t)room, config->node);

    if (pool != NULL) {
        rte_mempool_obj_iter(pool, frame_touch, NULL);
    }
    return pool;
}

static int
memory_open(struct ethernet_device *device, const struct ethernet_config *config, char *why, size_t why_bytes)
{
    struct rte_eth_dev_info dev = { 0 };
    uint32_t tx_room = frame_room(config->mtu);

    if (rte_eth_dev_info_get(device->port, &dev) == 0 && cuts_segments(&dev)) {
        tx_room = MAX(tx_room, DPDK_SEGMENTS_ROOM);
    }
    device->pool = pool_open("sluice_rx", rx_frames(config), frame_room(config->mtu), config);
    device->tx_pool = pool_open("sluice_tx", tx_frames(config), tx_room, config);
    device->waiting_max = config->tx_descriptors;
    device->waiting = calloc(device->waiting_max, sizeof(device->waiting[0]));
    if (device->pool == NULL || device->tx_pool == NULL || device->waiting == NULL) {
        snprintf(why, why_bytes,
                 "no memory for %u frames of %u bytes: fewer rx_descriptors and tx_descriptors take less",
                 rx_frames(config) + tx_frames(config), frame_room(config->mtu));
        return -ENOMEM;
    }
    return 0;
}

int
dpdk_open(const struct ethernet_config *config, struct ethernet_device **out, char *why, size_t why_bytes)
{
    struct ethernet_device *device = calloc(1, sizeof(*device));
    bool is_virtual = strncmp(config->device, "net_", 4) == 0; /* they cut nothing */
    uint64_t around = sizeof(struct rte_mbuf) + sizeof(struct device_frame) + 64;
    /* Without huge pages no frame crosses a page of 4 KiB, so that one takes whole pages. */
    uint64_t rx_bytes = ALIGN_UP(around + frame_room(config->mtu), 4096);
    uint64_t tx_bytes = ALIGN_UP(
        around + (is_virtual ? frame_room(config->mtu) : MAX(frame_room(config->mtu), DPDK_SEGMENTS_ROOM)), 4096);
    uint64_t bytes = rx_frames(config) * rx_bytes + tx_frames(config) * tx_bytes;
    int rc;

    if (device == NULL) {
        snprintf(why, why_bytes, "no memory");
        return -ENOMEM;
    }
    rc = eal_open(config, bytes, &device->info, why, why_bytes);
    if (rc != 0) {
        free(device);
        return rc;
    }
    rc = -ENODEV;
    if (rte_eth_dev_count_avail() == 0) {
        snprintf(why, why_bytes, "%s: no driver took it (%s)", config->device, eal_last_message());
        goto out;
    }
    device->port = (uint16_t)rte_eth_find_next(0);
    rc = memory_open(device, config, why, why_bytes);
    if (rc != 0) {
        goto out;
    }
    rte_timer_subsystem_init();
    rc = device_configure(device, config, why, why_bytes);
    if (rc != 0) {
        goto out;
    }
    struct rte_eth_link link = { 0 };
    rte_eth_link_get_nowait(device->port, &link);
    device->link_up = link.link_status;
    rte_eth_dev_callback_register(device->port, RTE_ETH_EVENT_INTR_RESET, fault_seen, device);
out:
    eal_adopt(false);
    if (rc != 0) {
        dpdk_close(device);
        return rc;
    }
    *out = device;
    return 0;
}

void
dpdk_close(struct ethernet_device *device)
{
    eal_adopt(true);
    if (device->tx_pool != NULL) {
        rte_pktmbuf_free_bulk(device->waiting, device->waiting_count);
        rte_eth_dev_stop(device->port);
        rte_eth_dev_close(device->port);
    }
    rte_mempool_free(device->tx_pool);
    rte_mempool_free(device->pool);
    rte_eal_cleanup();
    free(device->waiting);
    free(device);
}

/* ---- now and then ---- */

/* A driver without a reset of its own is stopped and started. */
static void
device_reset(struct ethernet_device *device)
{
    rte_eth_dev_stop(device->port);
    int rc = rte_eth_dev_reset(device->port);
    if ((rc == 0 || rc == -ENOTSUP) && device_start(device) == 0) {
        device->resets++;
        store_release(&device->state, DEVICE_RUNS); /* pairs with the acquire in device_runs() */
    }
}

void
dpdk_refresh(struct ethernet_device *device, struct ethernet_hardware *out)
{
    struct rte_eth_stats stats = { 0 };
    struct rte_eth_link link = { 0 };

    if (load_acquire(&device->state) == DEVICE_PARKED) { /* pairs with the release in device_runs() */
        device_reset(device);
    }
    rte_eth_stats_get(device->port, &stats);
    rte_eth_link_get_nowait(device->port, &link);
    device->link_changes += device->link_up != link.link_status;
    device->link_up = link.link_status;
    *out = (struct ethernet_hardware){
        .rx_missed = stats.imissed,
        .rx_errors = stats.ierrors,
        .rx_no_frame = stats.rx_nombuf,
        .tx_errors = stats.oerrors,
        .resets = device->resets,
        .link_changes = device->link_changes,
        .link_up = link.link_status,
        .link_mbps = link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed,
    };
}
