/* port_fabric_boot.c - opening and closing the fabric port. */
#include "dataplane/port_fabric_private.h"
#include <errno.h>
#include <sodium.h>

#define RX_SLOTS_A_SESSION 16 /* when neither is configured */
#define LEASE_MS_DEFAULT   10000

static enum endpoint_send
send_of(const char *name)
{
    if (strcmp(name, "inject") == 0) {
        return ENDPOINT_SEND_INJECT;
    }
    return strcmp(name, "send") == 0 ? ENDPOINT_SEND_SEND : ENDPOINT_SEND_AUTO;
}

static int
endpoint_open(struct fabric_port *port, char *why, size_t why_bytes)
{
    const struct port_settings *settings = port->settings;
    struct endpoint_config config = {
        .provider = settings->provider,
        .node = settings->node[0] != '\0' ? settings->node : NULL,
        .domain = settings->domain[0] != '\0' ? settings->domain : NULL,
        .rx_post = FABRIC_SPARE_RX,
        .rx_slots = (uint32_t)settings->rx_slots,
        .tx_slots = (uint32_t)settings->tx_slots,
        .frame_bytes = (uint32_t)settings->frame_bytes,
        .send = port->send,
    };
    char reason[SETTINGS_WHY_BYTES];
    int rc = port->ops->open(&config, &port->endpoint, reason, sizeof(reason));
    if (rc != 0) {
        port->endpoint = NULL;
        snprintf(why, why_bytes, "fabric port '%s': %s", settings->name, reason);
        return rc;
    }
    port->ops->info(port->endpoint, &port->info);
    return 0;
}

/* The providers that poll memory of the device or of their peers. */
static bool
bypasses_kernel(const char *provider)
{
    static const char *const bypass[] = { "shm", "efa", "efa-direct" };
    for (size_t i = 0; i < ARRAY_COUNT(bypass); i++) {
        if (strcmp(provider, bypass[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Each session's share of the slots, and from it the credit it gets. */
static int
shares_settle(struct fabric_port *port, char *why, size_t why_bytes)
{
    const struct endpoint_info *info = &port->info;
    uint32_t automatic = MAX(info->rx_slots / RX_SLOTS_A_SESSION, 1);

    automatic = MIN(automatic, info->tx_slots);
    port->seat_count = port->settings->sessions != 0 ? (uint32_t)port->settings->sessions : automatic;
    uint32_t rx_share = info->rx_slots / port->seat_count;
    port->tx_share = info->tx_slots / port->seat_count;
    if (rx_share < FABRIC_CONTROL_RX + 1 || port->tx_share < 1) {
        snprintf(why, why_bytes,
                 "fabric port '%s': %u sessions need at least %u receive slots and %u send slots, it has %u and %u",
                 port->settings->name, port->seat_count, port->seat_count * (FABRIC_CONTROL_RX + 1), port->seat_count,
                 info->rx_slots, info->tx_slots);
        return -EINVAL;
    }
    port->rx_share = rx_share;
    port->credit_most = (uint16_t)MIN(rx_share - FABRIC_CONTROL_RX, FRAME_WINDOW);
    port->tx_cap = MAX(info->tx_slots / 8, port->tx_share);
    port->tx_reserved = port->tx_share * port->seat_count;
    port->peer_count = port->seat_count + info->tx_slots;
    port->lease_us = (port->settings->lease_ms != 0 ? port->settings->lease_ms : LEASE_MS_DEFAULT) * 1000;
    return 0;
}

static int
tables_open(struct fabric_port *port, char *why, size_t why_bytes)
{
    const struct endpoint_info *info = &port->info;
    uint32_t buckets = 1;

    while (buckets < 2 * port->seat_count) {
        buckets *= 2;
    }
    port->wires_mask = buckets - 1;
    port->wires = calloc(buckets, sizeof(port->wires[0]));
    port->seats = calloc(port->seat_count, sizeof(port->seats[0]));
    port->peers = calloc(port->peer_count, sizeof(port->peers[0]));
    port->tx_free = calloc(info->tx_slots, sizeof(port->tx_free[0]));
    port->tx_owners = calloc(info->tx_slots, sizeof(port->tx_owners[0]));
    port->rx_unposted = calloc(info->rx_slots, sizeof(port->rx_unposted[0]));
    port->stash = calloc((size_t)info->rx_slots + info->tx_slots, sizeof(port->stash[0]));
    port->inject_frame = aligned_alloc(CACHE_LINE, ALIGN_UP(info->frame_bytes, CACHE_LINE));
    if (port->wires == NULL || port->seats == NULL || port->peers == NULL || port->tx_free == NULL ||
        port->tx_owners == NULL || port->rx_unposted == NULL || port->stash == NULL || port->inject_frame == NULL) {
        snprintf(why, why_bytes, "fabric port '%s': no memory for %u sessions", port->settings->name, port->seat_count);
        return -ENOMEM;
    }
    memset(port->inject_frame, 0, info->frame_bytes);
    for (uint32_t i = port->seat_count; i > 0; i--) {
        port->seats[i - 1].wire_next = port->free_seats;
        port->free_seats = &port->seats[i - 1];
    }
    for (uint32_t i = info->tx_slots; i > 0; i--) {
        port->tx_free[port->tx_free_count++] = i - 1;
    }
    port->rx_posted = fabric_rx_target(port);
    for (uint32_t i = info->rx_slots; i > port->rx_posted; i--) {
        port->rx_unposted[port->rx_unposted_count++] = i - 1;
    }
    port->waiting_tail = &port->waiting;
    port->asks_tail = &port->asks;
    return 0;
}

/* For `sluicectl ports`: constant since boot. */
static void
port_describe(struct fabric_port *port)
{
    struct port_info *info = &port->port.info;
    const char *const sends[] = { "auto", "inject", "send" };
    size_t used = 0;

    snprintf(info->type, sizeof(info->type), "fabric");
    snprintf(info->provider, sizeof(info->provider), "%s", port->info.provider);
    snprintf(info->send, sizeof(info->send), "%s", sends[port->send]);
    for (uint32_t i = 0; i < port->info.address_bytes && used + 3 <= sizeof(info->address); i++) {
        used += (size_t)snprintf(info->address + used, sizeof(info->address) - used, "%02x", port->info.address[i]);
    }
    info->rx_slots = port->info.rx_slots;
    info->tx_slots = port->info.tx_slots;
    info->frame_bytes = port->info.frame_bytes;
    info->inject_bytes = port->info.inject_bytes;
}

int
port_fabric_open_on(const struct endpoint_ops *ops, struct lcore *lcore, const struct port_settings *settings,
                    struct port **out, char *why, size_t why_bytes)
{
    struct fabric_port *port = calloc(1, sizeof(*port));
    if (port == NULL) {
        snprintf(why, why_bytes, "fabric port '%s': no memory", settings->name);
        return -ENOMEM;
    }
    port->port.ops = &fabric_port_ops;
    port->port.lcore = lcore;
    port->ops = ops;
    port->settings = settings;
    port->send = send_of(settings->send);
    port->us_per_cycle = lcore->dataplane->ns_per_cycle / 1000;
    randombytes_buf(port->random_key, sizeof(port->random_key));
    int rc = endpoint_open(port, why, why_bytes);
    if (rc != 0) {
        goto out;
    }
    rc = shares_settle(port, why, why_bytes);
    if (rc != 0) {
        goto out;
    }
    rc = tables_open(port, why, why_bytes);
    if (rc != 0) {
        goto out;
    }
    port->port.makes_calls = !bypasses_kernel(port->info.provider);
    port_describe(port);
out:
    if (rc != 0) {
        fabric_port_close(&port->port);
        return rc;
    }
    *out = &port->port;
    return 0;
}

int
port_fabric_open(struct lcore *lcore, const struct port_settings *settings, struct port **out, char *why,
                 size_t why_bytes)
{
    char reason[SETTINGS_WHY_BYTES];
    const struct endpoint_ops *ops = endpoint_libfabric(reason, sizeof(reason));
    if (ops == NULL) {
        snprintf(why, why_bytes, "fabric port '%s': %s", settings->name, reason);
        return -ENOENT;
    }
    return port_fabric_open_on(ops, lcore, settings, out, why, why_bytes);
}

void
fabric_port_close(struct port *base)
{
    struct fabric_port *port = fabric_port_of(base);

    if (port->endpoint != NULL) {
        port->ops->close(port->endpoint);
    }
    sodium_memzero(port->random_key, sizeof(port->random_key));
    free(port->wires);
    free(port->seats);
    free(port->peers);
    free(port->tx_free);
    free(port->tx_owners);
    free(port->rx_unposted);
    free(port->stash);
    free(port->inject_frame);
    free(port);
}
