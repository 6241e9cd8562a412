/* endpoint_libfabric.c - the hot half of the libfabric module: post, send, poll. */
#include "dataplane/endpoint_libfabric.h"
#include <errno.h>
#include <netinet/in.h>

#define POLL_BATCH 32

static uint8_t *
slot_bytes(const struct endpoint *endpoint, const struct fabric_slots *slots, uint32_t slot)
{
    assert(slot < slots->count);
    return slots->bytes + (size_t)slot * endpoint->info.frame_bytes;
}

static uint8_t *
fabric_rx_slot(struct endpoint *endpoint, uint32_t slot)
{
    return slot_bytes(endpoint, &endpoint->rx, slot);
}

static uint8_t *
fabric_tx_slot(struct endpoint *endpoint, uint32_t slot)
{
    return slot_bytes(endpoint, &endpoint->tx, slot);
}

static void
fabric_info(const struct endpoint *endpoint, struct endpoint_info *out)
{
    *out = endpoint->info;
}

static enum endpoint_status
status_of(ssize_t rc)
{
    if (LIKELY(rc == 0)) {
        return ENDPOINT_OK;
    }
    return rc == -FI_EAGAIN ? ENDPOINT_AGAIN : ENDPOINT_FAILED;
}

enum endpoint_status
fabric_post(struct endpoint *endpoint, uint32_t slot)
{
    assert(endpoint->info.frame_bytes != 0);
    return status_of(fi_recv(endpoint->ep, slot_bytes(endpoint, &endpoint->rx, slot), endpoint->info.frame_bytes,
                             endpoint->rx.descriptor, FI_ADDR_UNSPEC, &endpoint->rx.contexts[slot]));
}

static enum endpoint_status
fabric_send(struct endpoint *endpoint, uint64_t peer, uint32_t slot, uint32_t bytes)
{
    assert(bytes != 0 && bytes <= endpoint->info.frame_bytes);
    endpoint->tx_peers[slot] = peer;
    return status_of(fi_send(endpoint->ep, slot_bytes(endpoint, &endpoint->tx, slot), bytes, endpoint->tx.descriptor,
                             peer, &endpoint->tx.contexts[slot]));
}

static enum endpoint_status
fabric_inject(struct endpoint *endpoint, uint64_t peer, const void *data, uint32_t bytes)
{
    assert(bytes != 0 && bytes <= endpoint->info.inject_bytes);
    return status_of(fi_inject(endpoint->ep, data, bytes, peer));
}

/* The slot a completion's context belongs to. An injected message that fails may carry any pointer or none, so the
 * pointer is compared before it is believed. */
static bool
slot_of_context(const struct fabric_slots *slots, const void *context, uint32_t *slot)
{
    uintptr_t at = (uintptr_t)context, first = (uintptr_t)slots->contexts;
    if (at < first || at >= first + slots->count * sizeof(slots->contexts[0])) {
        return false;
    }
    *slot = (uint32_t)((at - first) / sizeof(slots->contexts[0]));
    return true;
}

static bool
event_of_completion(struct endpoint *endpoint, const struct fi_cq_msg_entry *entry, fi_addr_t source,
                    struct endpoint_event *event)
{
    *event = (struct endpoint_event){ .peer = ENDPOINT_PEER_UNKNOWN };
    if (slot_of_context(&endpoint->rx, entry->op_context, &event->slot)) {
        event->kind = ENDPOINT_RECEIVED;
        event->bytes = (uint32_t)MIN(entry->len, endpoint->info.frame_bytes);
        event->peer = source == FI_ADDR_NOTAVAIL ? ENDPOINT_PEER_UNKNOWN : source;
        return true;
    }
    if (slot_of_context(&endpoint->tx, entry->op_context, &event->slot)) {
        event->kind = ENDPOINT_SENT;
        event->peer = endpoint->tx_peers[event->slot];
        return true;
    }
    return false;
}

/* Take one error entry off the CQ. FI_EADDRNOTAVAIL, the source of an unknown sender, is a message like any other with
 * no source; everything else ends its operation. False: there was none, or it belongs to no slot. */
static bool
event_of_error(struct endpoint *endpoint, struct endpoint_event *event)
{
    struct fi_cq_err_entry error = { 0 };

    if (fi_cq_readerr(endpoint->cq, &error, 0) != 1) {
        return false;
    }
    *event = (struct endpoint_event){ .peer = ENDPOINT_PEER_UNKNOWN, .error = error.err > 0 ? error.err : EIO };
    if (slot_of_context(&endpoint->rx, error.op_context, &event->slot)) {
        bool only_unknown = error.err == FI_EADDRNOTAVAIL && error.len > 0;
        event->kind = only_unknown ? ENDPOINT_RECEIVED : ENDPOINT_RECEIVE_FAILED;
        event->bytes = only_unknown ? (uint32_t)MIN(error.len, endpoint->info.frame_bytes) : 0;
        return true;
    }
    if (slot_of_context(&endpoint->tx, error.op_context, &event->slot)) {
        event->kind = ENDPOINT_SEND_FAILED;
        event->peer = endpoint->tx_peers[event->slot];
        return true;
    }
    return false;
}

static uint32_t
fabric_poll(struct endpoint *endpoint, struct endpoint_event *events, uint32_t max)
{
    uint32_t count = 0;

    /* Every round takes at least one entry off the CQ or is the last. */
    for (uint32_t round = 0; round < max && count < max; round++) {
        struct fi_cq_msg_entry entries[POLL_BATCH];
        fi_addr_t sources[POLL_BATCH];
        uint32_t room = MIN(max - count, POLL_BATCH);
        ssize_t got = fi_cq_readfrom(endpoint->cq, entries, room, sources);
        if (got == -FI_EAVAIL) {
            count += event_of_error(endpoint, &events[count]);
            continue;
        }
        if (got <= 0) {
            break;
        }
        for (ssize_t i = 0; i < got; i++) {
            count += event_of_completion(endpoint, &entries[i], sources[i], &events[count]);
        }
        if (got < (ssize_t)room) {
            break;
        }
    }
    return count;
}

/* Providers trust the bytes they are given: check what can be checked before they see them. */
static bool
address_is_sound(const struct endpoint *endpoint, const uint8_t *address, size_t bytes)
{
    const struct endpoint_info *info = &endpoint->info;
    uint16_t family, own_family;

    if (bytes == 0 || bytes > ENDPOINT_ADDRESS_BYTES) {
        return false;
    }
    if (endpoint->fi->addr_format == FI_ADDR_STR) {
        static const char prefix[] = "fi_shm://"; /* the only text addresses that we have */
        return bytes > sizeof(prefix) && memcmp(address, prefix, sizeof(prefix) - 1) == 0 &&
               memchr(address, '\0', bytes) == address + bytes - 1;
    }
    if (bytes != info->address_bytes) {
        return false;
    }
    switch (endpoint->fi->addr_format) {
    case FI_SOCKADDR:
    case FI_SOCKADDR_IN:
    case FI_SOCKADDR_IN6:
        memcpy(&family, address, sizeof(family));
        memcpy(&own_family, info->address, sizeof(own_family));
        return family == own_family && (address[2] != 0 || address[3] != 0); /* the port, same place in v4 and v6 */
    default:
        return true;
    }
}

static int
fabric_peer_insert(struct endpoint *endpoint, const uint8_t *address, size_t bytes, uint64_t *peer)
{
    uint8_t padded[ENDPOINT_ADDRESS_BYTES] = { 0 };
    fi_addr_t inserted = FI_ADDR_NOTAVAIL;

    if (!address_is_sound(endpoint, address, bytes)) {
        return -EINVAL;
    }
    memcpy(padded, address, bytes);
    int rc = fi_av_insert(endpoint->av, padded, 1, &inserted, 0, NULL);
    if (rc == 1 && inserted != FI_ADDR_NOTAVAIL) {
        *peer = inserted;
        return 0;
    }
    return rc < 0 ? rc : -ENOSPC; /* 0 inserted: shm's answer to the 257th */
}

static void
fabric_peer_remove(struct endpoint *endpoint, uint64_t peer)
{
    fi_addr_t address = peer;
    (void)fi_av_remove(endpoint->av, &address, 1, 0); /* fails only for an address that is not there */
}

static const struct endpoint_ops fabric_ops = {
    .open = fabric_open,
    .close = fabric_close,
    .info = fabric_info,
    .peer_insert = fabric_peer_insert,
    .peer_remove = fabric_peer_remove,
    .rx_slot = fabric_rx_slot,
    .tx_slot = fabric_tx_slot,
    .post = fabric_post,
    .send = fabric_send,
    .inject = fabric_inject,
    .poll = fabric_poll,
};

extern const struct endpoint_module sluice_fabric_module __attribute__((visibility("default")));
const struct endpoint_module sluice_fabric_module = { .abi = ENDPOINT_ABI, .ops = &fabric_ops };
