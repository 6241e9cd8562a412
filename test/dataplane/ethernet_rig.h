/* ethernet_rig.h - one real lcore turned by hand, an ethernet port on a device in memory, and peers that say on the
 * wire exactly what the test wants. */
#pragma once
#include "dataplane/ethernet_device.h"
#include "dataplane/port_ethernet_private.h"
#include "test/dataplane/fabric_rig.h"
#include "test/dataplane/frame_bytes.h"

#define WIRE_FRAMES      512 /* of the device */
#define WIRE_FRAME_ROOM  2048
#define WIRE_MTU         1500
#define WIRE_DESCRIPTORS 64

/* ---- the device in memory ---- */

struct link_frame {
    struct device_frame frame; /* first */
    uint8_t bytes[WIRE_FRAME_ROOM];
    struct link_frame *next;
};

struct link {
    struct link_frame frames[WIRE_FRAMES];
    struct link_frame *free, *in, **in_tail, *out, **out_tail;
    uint32_t free_count, out_count;
    uint32_t offloads, rx_flags; /* enum device_offload; flags of what is received */
    bool stuck;                  /* takes nothing to send */
    uint32_t received, flushes;
    uint32_t cut;                                   /* frames that the device was to cut */
    uint16_t cut_bytes;                             /* ... into pieces of so many */
    uint32_t drop_in, drop_out, duplicate, reorder; /* of 1000 */
    uint64_t seed;
};

/* ---- the other end ---- */

#define PEER_ROOM (4 * 1024 * 1024)

enum { PEER_FIN = 1, PEER_SYN = 2, PEER_RST = 4, PEER_PSH = 8, PEER_ACK = 16 }; /* of TCP */

struct peer {
    uint16_t port, local_port, mss;
    uint32_t seq, ack;     /* next byte that it sends, next that it expects */
    uint32_t said;         /* what its segments acknowledge: `ack`, but for a silent one */
    uint32_t seen;         /* what the other side acknowledged */
    uint32_t window;       /* that it announces, in bytes */
    uint32_t other_window; /* that was announced to it */
    uint16_t other_mss;
    uint8_t flags_seen;              /* of every segment for it */
    bool silent;                     /* acknowledges nothing by itself */
    bool syn_acknowledged, finished; /* the other side has said SYN, FIN */
    uint32_t segments, bad_sums;
    uint8_t *received; /* PEER_ROOM */
    size_t received_bytes;
    struct peer *next;
};

struct ethernet_rig {
    struct rig rig; /* first */
    struct link *link;
    struct ethernet_port *port;
    struct peer *peers;
    bool answers_arp;
    uint32_t arp_asked, echoes, outside; /* frames for nobody that is known */
    uint8_t server_mac[6];
    struct port_settings settings;
};

/* Data plane and port; `sessions` 0: the default. */
void ethernet_rig_start(struct ethernet_rig *rig, uint32_t sessions);
/* Every session gone, every frame back. False: prints what is left. */
bool ethernet_rig_stop(struct ethernet_rig *rig);

/* Turn the lcore and take what it sends: ARP is answered, peers see their segments. */
void wire_turns(struct ethernet_rig *rig, uint32_t turns);
/* The same until so much time has passed, in turns of half a millisecond. */
void wire_wait_ms(struct ethernet_rig *rig, uint32_t ms);
struct ethernet_stats wire_stats(const struct ethernet_rig *rig);

/* Put a frame on the wire. False: the device has no free one. */
bool wire_send(struct ethernet_rig *rig, const uint8_t *frame, size_t bytes);
/* An IPv4 packet of a peer, with its Ethernet header, checksums right. Returns bytes; `out` has WIRE_FRAME_ROOM. */
size_t frame_build(const struct peer *peer, const struct ethernet_rig *rig, uint8_t flags, uint32_t seq, uint32_t ack,
                   const void *options, size_t option_bytes, const void *data, size_t bytes, uint8_t *out);

void peer_open(struct ethernet_rig *rig, struct peer *peer, uint16_t port);
void peer_close(struct ethernet_rig *rig, struct peer *peer); /* of the test's memory only */
/* SYN, SYN ACK, ACK. False: not answered. */
bool peer_connect(struct ethernet_rig *rig, struct peer *peer);
/* The next bytes of its stream in one segment; `flags` beside ACK. No turn. */
void peer_send(struct ethernet_rig *rig, struct peer *peer, uint8_t flags, const void *data, size_t bytes);
void peer_say(struct ethernet_rig *rig, struct peer *peer, const char *text);
void peer_acknowledge(struct ethernet_rig *rig, struct peer *peer); /* `ack` and `window` as they are */
/* A segment anywhere in the stream; its own place does not move. */
void peer_send_at(struct ethernet_rig *rig, struct peer *peer, uint8_t flags, uint32_t seq, const void *data,
                  size_t bytes);
/* Whether it has received exactly this since the last time it was asked. */
bool peer_got(struct peer *peer, const char *text);
/* FIN both ways, and what is left of the connection. */
void peer_leave(struct ethernet_rig *rig, struct peer *peer);
