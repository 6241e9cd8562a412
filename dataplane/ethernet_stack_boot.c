/* ethernet_stack_boot.c - opening and closing the stack: control path. */
#include "dataplane/ethernet_stack_private.h"
#include <errno.h>
#include <lwip/etharp.h>
#include <lwip/init.h>
#include <lwip/ip4.h>
#include <lwip/ip4_frag.h>
#include <lwip/priv/tcp_priv.h>
#include <sodium.h>

static err_t
netif_start(struct netif *netif)
{
    struct ethernet *ethernet = &ethernet_stack;
    unsigned mac[6];

    netif->name[0] = 'e';
    netif->name[1] = 'n';
    netif->mtu = (u16_t)ethernet->info.mtu;
    netif->hwaddr_len = sizeof(mac) / sizeof(mac[0]);
    netif->output = etharp_output;
    netif->linkoutput = stack_send;
    netif->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET | NETIF_FLAG_LINK_UP;
    CHECK(sscanf(ethernet->info.mac, "%x:%x:%x:%x:%x:%x", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4], &mac[5]) == 6);
    for (uint32_t i = 0; i < netif->hwaddr_len; i++) {
        netif->hwaddr[i] = (u8_t)mac[i];
    }
    return ERR_OK;
}

static ip4_addr_t
address_of(const uint8_t bytes[4])
{
    ip4_addr_t address;
    memcpy(&address.addr, bytes, sizeof(address.addr));
    return address;
}

static void
interface_add(struct ethernet *ethernet)
{
    const struct ethernet_config *config = &ethernet->config;
    uint32_t offloads = ethernet->device_ops->offloads(ethernet->device);
    ip4_addr_t address = address_of(config->address), gateway = { 0 };
    ip4_addr_t mask = { lwip_htonl(config->prefix_bits == 0 ? 0 : UINT32_MAX << (32 - config->prefix_bits)) };

    if (config->has_gateway) {
        gateway = address_of(config->gateway);
    }
    ethernet->sum_flags = NETIF_CHECKSUM_ENABLE_ALL & ~((offloads & DEVICE_SUMS_IP ? NETIF_CHECKSUM_GEN_IP : 0) |
                                                        (offloads & DEVICE_SUMS_TCP ? NETIF_CHECKSUM_GEN_TCP : 0));
    netif_add(&ethernet->netif, &address, &mask, &gateway, NULL, netif_start, netif_input);
    NETIF_SET_CHECKSUM_CTRL(&ethernet->netif, ethernet->sum_flags);
    netif_set_default(&ethernet->netif);
    netif_set_up(&ethernet->netif); /* announces the address */
}

static void
lists_init(struct ethernet *ethernet)
{
    for (uint32_t i = 0; i < sizeof(ethernet->lists) / sizeof(ethernet->lists[0]); i++) {
        ethernet->lists[i] = (struct connection_list){ .last = &ethernet->lists[i].first };
    }
    for (uint32_t i = 0; i < MEMP_NUM_TCP_PCB; i++) {
        ethernet->connections[i].ethernet = ethernet;
        connection_list_append(ethernet, &ethernet->connections[i], CONNECTION_FREE);
    }
}

int
stack_open(const struct ethernet_config *config, struct ethernet **out, char *why, size_t why_bytes)
{
    const struct ethernet_device_ops *device_ops = config->device_ops;
    static bool lwip_runs;
    static struct capture no_capture;
    struct ethernet *ethernet = &ethernet_stack;

    if (ethernet->device_ops != NULL) {
        snprintf(why, why_bytes, "one ethernet port a process: lwIP's state is global");
        return -EBUSY;
    }
    memset(ethernet, 0, sizeof(*ethernet));
    ethernet->config = *config;
    int rc = device_ops->open(config, &ethernet->device, why, why_bytes);
    if (rc != 0) {
        return rc;
    }
    ethernet->device_ops = device_ops;
    ethernet->capture = &no_capture;
    device_ops->describe(ethernet->device, &ethernet->info);
    ethernet->frames_total = ethernet->info.frames;
    ethernet->bucket = STACK_BUCKETS;
    randombytes_buf(&ethernet->bucket_key, sizeof(ethernet->bucket_key));
    randombytes_buf(ethernet->isn_key, sizeof(ethernet->isn_key));
    lists_init(ethernet);
    if (!lwip_runs) {
        lwip_init();
        lwip_runs = true;
    }
    interface_add(ethernet);
    for (uint32_t i = 0; rc == 0 && i < config->listen_count; i++) {
        rc = connection_listen(ethernet, config->listen[i]);
        if (rc != 0) {
            snprintf(why, why_bytes, "cannot listen on port %u: %s", config->listen[i], strerror(-rc));
        }
    }
    if (rc != 0) {
        stack_close(ethernet);
        return rc;
    }
    *out = ethernet;
    return 0;
}

/* lwIP cannot be taken down, but it can be emptied. */
void
stack_close(struct ethernet *ethernet)
{
    ethernet_stack_ops.listen(ethernet, false);
    for (uint32_t i = 0; i < MEMP_NUM_TCP_PCB; i++) {
        struct ethernet_connection *connection = &ethernet->connections[i];
        if (connection->state != CONNECTION_FREE) {
            stack_enter(ethernet, connection->bucket);
            tcp_abandon(connection->pcb,
                        connection->state == CONNECTION_OWNED); /* the others have said FIN, or nothing */
        }
    }
    stack_enter(ethernet, STACK_BUCKETS);
    ethernet_stack_ops.flush(ethernet);
    for (int i = 0; i <= IP_REASS_MAXAGE; i++) {
        ip_reass_tmr();
    }
    netif_set_down(&ethernet->netif);
    netif_remove(&ethernet->netif);
    ethernet->device_ops->close(ethernet->device);
    ethernet->device_ops = NULL;
}
