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
    /* Exactly as asked: "shm", "net" or "tcp" (one provider: RDM over TCP), "tcp;ofi_rxm", "udp;ofi_rxd", "efa",
     * "efa-direct", or any other that fits the contract. Never another one instead. */
    const char *provider;
    const char *node;            /* local address to bind, or NULL */
    const char *domain;          /* device, or NULL: the first */
    uint32_t rx_post;            /* receive slots that open() posts, the first ones; 0: all */
    uint32_t rx_slots, tx_slots; /* 0: ENDPOINT_RX_SLOTS, ENDPOINT_TX_SLOTS, or what the provider can */
    uint32_t frame_bytes;        /* 0: 4096 on shm, else the smaller of 8192 and the provider's maximum */
    enum endpoint_send send;
};

#define ENDPOINT_RX_SLOTS 1024
#define ENDPOINT_TX_SLOTS 256

struct endpoint_info {
    char provider[32], fabric[64], domain[64], version[32]; /* provider: as asked */
    uint8_t address[ENDPOINT_ADDRESS_BYTES];                /* fi_getname bytes */
    uint32_t address_bytes;
    uint32_t rx_slots, tx_slots;
    uint32_t frame_bytes;  /* largest message; slots are so long */
    uint32_t inject_bytes; /* largest injected message, 0: none */
    bool source_reliable;  /* a received message's peer is the one that sent it, or ENDPOINT_PEER_UNKNOWN */
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
    /* 0, or -errno with a sentence in `why` that names what is missing and the remedy. Receive slots are posted as
     * asked.
     * ENDPOINT_SEND_INJECT is refused where a whole frame cannot be injected. */
    int (*open)(const struct endpoint_config *config, struct endpoint **out, char *why, size_t why_bytes);
    void (*close)(struct endpoint *endpoint);
    void (*info)(const struct endpoint *endpoint, struct endpoint_info *out);
    /* May make a system call and take milliseconds. -EINVAL for bytes that are no address of this provider, -ENOSPC
     * when it holds no more peers, -errno. The same address gives the same peer, or another one: count uses of bytes.
     */
    int (*peer_insert)(struct endpoint *endpoint, const uint8_t *address, size_t bytes, uint64_t *peer);
    /* Sends in flight to it may still complete, in error. */
    void (*peer_remove)(struct endpoint *endpoint, uint64_t peer);
    uint8_t *(*rx_slot)(struct endpoint *endpoint, uint32_t slot); /* frame_bytes long */
    uint8_t *(*tx_slot)(struct endpoint *endpoint, uint32_t slot);
    /* Give a receive slot back to the provider. AGAIN: try again after poll(). */
    enum endpoint_status (*post)(struct endpoint *endpoint, uint32_t rx_slot);
    /* From a tx slot; completes with ENDPOINT_SENT or ENDPOINT_SEND_FAILED. AGAIN: nothing was sent, try again after
     * poll(). FAILED: nothing was sent, this peer cannot be reached. */
    enum endpoint_status (*send)(struct endpoint *endpoint, uint64_t peer, uint32_t tx_slot, uint32_t bytes);
    /* Buffer reusable at once; no completion. Only up to inject_bytes. */
    enum endpoint_status (*inject)(struct endpoint *endpoint, uint64_t peer, const void *data, uint32_t bytes);
    /* Up to `max` events from every CQ; also what makes the provider progress. */
    uint32_t (*poll)(struct endpoint *endpoint, struct endpoint_event *events, uint32_t max);
};

/* What the module exports: this symbol, and the contract above as a number that both sides were built with. */
#define ENDPOINT_MODULE_FILE   "sluice_fabric.so"
#define ENDPOINT_MODULE_SYMBOL "sluice_fabric_module"
#define ENDPOINT_ABI           2

struct endpoint_module {
    uint32_t abi;
    const struct endpoint_ops *ops;
};

/* Open sluice_fabric.so (in $SLUICE_MODULE_DIR, beside the program, else in the library directory) and return its
 * table. Linking libfabric costs a process 0.2 s and its signal handlers: only this pays. Affinity and signal
 * dispositions are saved and restored around it and around the table's open().
 *
 * Returns  NULL with a sentence in `why`.
 * Lifetime the module stays open until the process ends: the libraries below it do not survive dlclose().
 * Threads  boot thread only. */
const struct endpoint_ops *endpoint_libfabric(char *why, size_t why_bytes);
