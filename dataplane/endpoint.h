/* endpoint.h - one table of operations over a message fabric: what the fabric port and the client call instead of
 * libfabric.
 *
 * Implementations: endpoint_libfabric.c (in the module sluice_fabric.so, opened on first use) and the seeded fault
 * fabric of the tests. The weakest contract is assumed: no ordering, lost messages only with an error or a dead peer,
 * registered memory for every buffer, one context per operation, a message up to frame_bytes. Threads: one per
 * endpoint. */
#pragma once
#include "config/base.h"

struct endpoint;

#define ENDPOINT_ADDRESS_BYTES 256 /* longest fi_getname() accepted: shm names are text */
#define ENDPOINT_PEER_UNKNOWN  UINT64_MAX

enum endpoint_send { ENDPOINT_SEND_AUTO, ENDPOINT_SEND_INJECT, ENDPOINT_SEND_SEND };

struct endpoint_config {
    const char *provider; /* exactly as asked: "shm", "net", "tcp;ofi_rxm", "udp;ofi_rxd", "efa", "efa-direct" */
    const char *node;     /* local address to bind, or NULL */
    const char *domain;   /* device, or NULL */
    uint32_t rx_slots, tx_slots;
    uint32_t frame_bytes; /* 0: the provider's best (DESIGN.md section 3) */
    enum endpoint_send send;
};

struct endpoint_info {
    char provider[32], fabric[64], domain[64], version[32];
    uint8_t address[ENDPOINT_ADDRESS_BYTES]; /* fi_getname bytes */
    uint32_t address_bytes;
    uint32_t frame_bytes;  /* largest message, slots are so long */
    uint32_t inject_bytes; /* largest injected message, 0: none */
    bool source_reliable;  /* an unknown sender is reported as unknown */
};

enum endpoint_event_kind {
    ENDPOINT_RECEIVED,      /* slot, bytes, peer (or ENDPOINT_PEER_UNKNOWN) */
    ENDPOINT_SENT,          /* slot: free again */
    ENDPOINT_SEND_FAILED,   /* slot: free again; peer; error */
    ENDPOINT_RECEIVE_FAILED /* slot is to be posted again: truncated or cancelled */
};

struct endpoint_event {
    enum endpoint_event_kind kind;
    uint32_t slot;
    uint32_t bytes;
    int error; /* positive errno-like */
    uint64_t peer;
};

enum endpoint_status { ENDPOINT_OK, ENDPOINT_AGAIN, ENDPOINT_FAILED };

struct endpoint_ops {
    /* 0, or -errno with a sentence in `why` that names what is missing and the remedy. All receive slots are posted. */
    int (*open)(const struct endpoint_config *config, struct endpoint **out, char *why, size_t why_bytes);
    void (*close)(struct endpoint *endpoint);
    void (*info)(const struct endpoint *endpoint, struct endpoint_info *out);
    /* May make a system call and take milliseconds. -errno for bytes that are no address. */
    int (*peer_insert)(struct endpoint *endpoint, const uint8_t *address, size_t bytes, uint64_t *peer);
    void (*peer_remove)(struct endpoint *endpoint, uint64_t peer);
    uint8_t *(*rx_slot)(struct endpoint *endpoint, uint32_t slot); /* frame_bytes long */
    uint8_t *(*tx_slot)(struct endpoint *endpoint, uint32_t slot);
    enum endpoint_status (*post)(struct endpoint *endpoint, uint32_t rx_slot);
    /* From a tx slot; completes with ENDPOINT_SENT or ENDPOINT_SEND_FAILED. */
    enum endpoint_status (*send)(struct endpoint *endpoint, uint64_t peer, uint32_t tx_slot, uint32_t bytes);
    /* Buffer reusable at once; no completion. Only up to inject_bytes. */
    enum endpoint_status (*inject)(struct endpoint *endpoint, uint64_t peer, const void *data, uint32_t bytes);
    /* Up to `max` events from every CQ; also what makes the provider progress. */
    uint32_t (*poll)(struct endpoint *endpoint, struct endpoint_event *events, uint32_t max);
};

/* Open sluice_fabric.so (beside the program, else the library directory) and return its table; NULL with a sentence in
 * `why`. Affinity and signal dispositions are saved and restored around it. Boot thread only. */
const struct endpoint_ops *endpoint_libfabric(char *why, size_t why_bytes);
