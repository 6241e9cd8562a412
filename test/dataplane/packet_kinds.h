/* packet_kinds.h - hostile Ethernet frames, one function a kind, drawn from a seed. */
#pragma once
#include "config/base.h"

#define FRAME_BYTES 9018 /* a jumbo frame */

struct victim {
    uint8_t mac[6], source_mac[6];
    uint32_t address, own; /* network order; `own` is a neighbour that does not exist */
    uint32_t peer_address; /* network order; 0: none given */
    uint16_t port, peer_port;
    uint64_t random; /* state; the seed at first */
};

struct frame {
    uint32_t bytes;
    uint8_t pad[2]; /* behind 14 bytes of Ethernet header the others are aligned */
    uint8_t data[FRAME_BYTES];
};

struct packet_kind {
    const char *name;
    void (*make)(struct victim *victim, struct frame *frame);
};

extern const struct packet_kind packet_kinds[];
extern const size_t packet_kinds_count;
