/* ethernet_dpdk_private.h - what the files of the DPDK device share; the only ones that include DPDK's headers.
 *
 *     ethernet_dpdk.c           receive, send, time
 *     ethernet_dpdk_boot.c      open, close, reset
 *     ethernet_dpdk_eal_boot.c  the EAL: its arguments, its messages, what must be there before it starts */
#pragma once
#include "config/sync.h"
#include "dataplane/ethernet_device.h"
#include <rte_config.h> /* before every other header of DPDK */

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#define DPDK_QUEUE         0
#define DPDK_TX_BURST      256  /* frames handed to the driver in one call */
#define DPDK_HELD_FRAMES   8192 /* beyond the descriptors: what the stack and the sessions may hold */
#define DPDK_HELD_JUMBO    2048 /* the same with frames of more than one page */
#define DPDK_CACHE_FRAMES  256
#define DPDK_SEGMENTS_ROOM 15360 /* of a frame that the device cuts: ENA takes 16 KiB in one piece */
#define DPDK_TIMER_MS      1000  /* ENA's watchdog wants its timer looked at about so often */

/* A device that reports a fault is reset by the management core, because it takes long; until then the lcore does not
 * touch it. */
enum device_state {
    DEVICE_RUNS,
    DEVICE_FAULTY, /* a driver said so */
    DEVICE_PARKED, /* the lcore has let go of it */
};

struct ethernet_device {
    uint16_t port;
    uint32_t offloads;                  /* enum device_offload */
    struct rte_mempool *pool, *tx_pool; /* apart, so that what is received never takes what answers need */
    struct rte_mbuf **waiting;          /* to be sent, the oldest first */
    uint32_t waiting_count, waiting_max;
    uint64_t timer_due_ms, tx_unsendable;
    bool sends; /* something went since the timer's last time */
    /* drivers: FAULTY; lcore: PARKED; management core: RUNS. acq_rel: each pairs with the look of the next one */
    _Atomic uint32_t state;

    /* management core */
    struct rte_eth_conf conf;
    uint16_t rx_descriptors, tx_descriptors;
    bool link_up;
    uint64_t resets, link_changes;
    struct ethernet_info info;
};

static inline struct device_frame *
dpdk_frame_of(struct rte_mbuf *mbuf)
{
    return rte_mbuf_to_priv(mbuf);
}

static inline struct rte_mbuf *
dpdk_mbuf_of(struct device_frame *frame)
{
    return (struct rte_mbuf *)((char *)frame - sizeof(struct rte_mbuf));
}

/* ethernet_dpdk_boot.c */
int dpdk_open(const struct ethernet_config *config, struct ethernet_device **out, char *why, size_t why_bytes);
void dpdk_close(struct ethernet_device *device);
void dpdk_refresh(struct ethernet_device *device, struct ethernet_hardware *out);

/* ethernet_dpdk_eal_boot.c */

/* Start the EAL for one device, once a process. `pool_bytes` is what its frames take. */
int eal_open(const struct ethernet_config *config, uint64_t pool_bytes, struct ethernet_info *info, char *why,
             size_t why_bytes);
/* The last thing that EAL or a driver said, or "". */
const char *eal_last_message(void);
/* The calling thread takes the place of the EAL's main lcore, or leaves it: caches of the frame pool and timers are
 * that lcore's. */
void eal_adopt(bool take);
