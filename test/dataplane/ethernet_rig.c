#include "test/dataplane/ethernet_rig.h"
#include <arpa/inet.h>
#include <errno.h>

#define ETH_BYTES 14
#define IP_BYTES  20
#define TCP_BYTES 20

static const uint8_t peer_mac[6] = { 2, 0, 0, 0, 0, 1 };
static const uint8_t wire_mac[6] = { 2, 0, 0, 0, 0, 2 };
static const uint8_t peer_ip[4] = { 10, 0, 0, 1 }, own_ip[4] = { 10, 0, 0, 2 };

/* ---- the device ---- */

static struct link *device_wire; /* of the rig that is open: one at a time */

static uint32_t
draw(struct link *wire)
{
    wire->seed = wire->seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(wire->seed >> 33);
}

static bool
happens(struct link *wire, uint32_t of_1000)
{
    return of_1000 != 0 && draw(wire) % 1000 < of_1000;
}

static int
wire_open(const struct ethernet_config *config, struct ethernet_device **out, char *why, size_t why_bytes)
{
    *out = (struct ethernet_device *)device_wire;
    return 0;
}

static void
wire_close(struct ethernet_device *device)
{
}

static void
wire_describe(const struct ethernet_device *device, struct ethernet_info *info)
{
    memset(info, 0, sizeof(*info));
    strcpy(info->device, "wire");
    strcpy(info->driver, "wire");
    strcpy(info->mac, "02:00:00:00:00:02");
    info->mtu = WIRE_MTU;
    info->rx_descriptors = info->tx_descriptors = WIRE_DESCRIPTORS;
    info->frames = WIRE_FRAMES - 3 * WIRE_DESCRIPTORS;
}

static uint32_t
wire_offloads(const struct ethernet_device *device)
{
    return ((const struct link *)device)->offloads;
}

static void
wire_give(struct ethernet_device *device, struct device_frame *frame)
{
    struct link *wire = (struct link *)device;
    while (frame != NULL) {
        struct device_frame *segment = frame->segment;
        struct link_frame *own = (struct link_frame *)frame;
        memset(own->bytes, 0xdd, sizeof(own->bytes)); /* whoever still looks sees it */
        own->next = wire->free;
        wire->free = own;
        wire->free_count++;
        frame = segment;
    }
}

static struct link_frame *
wire_take_free(struct link *wire)
{
    struct link_frame *own = wire->free;
    if (own == NULL) {
        return NULL;
    }
    wire->free = own->next;
    wire->free_count--;
    own->next = NULL;
    own->frame = (struct device_frame){ .data = own->bytes, .room = sizeof(own->bytes) };
    return own;
}

static uint32_t
wire_receive(struct ethernet_device *device, struct device_frame **frames, uint32_t max)
{
    struct link *wire = (struct link *)device;
    uint32_t count = 0;
    while (wire->in != NULL && count < max) {
        struct link_frame *own = wire->in;
        wire->in = own->next;
        if (wire->in == NULL) {
            wire->in_tail = &wire->in;
        }
        own->frame.flags = wire->rx_flags;
        frames[count++] = &own->frame;
    }
    wire->received += count;
    return count;
}

static struct device_frame *
wire_take(struct ethernet_device *device)
{
    struct link *wire = (struct link *)device;
    if (wire->stuck || wire->out_count >= WIRE_DESCRIPTORS) {
        return NULL;
    }
    struct link_frame *own = wire_take_free(wire);
    return own != NULL ? &own->frame : NULL;
}

static void
wire_put(struct ethernet_device *device, struct device_frame *frame)
{
    struct link *wire = (struct link *)device;
    struct link_frame *own = (struct link_frame *)frame;
    own->next = NULL;
    *wire->out_tail = own;
    wire->out_tail = &own->next;
    wire->out_count++;
}

static void
wire_amend(struct ethernet_device *device, struct device_frame *frame)
{
    CHECK(frame->bytes <= frame->room);
}

static uint32_t
wire_flush(struct ethernet_device *device)
{
    ((struct link *)device)->flushes++;
    return 0;
}

static void
wire_tick(struct ethernet_device *device, uint64_t now_ms)
{
}

static void
wire_count(const struct ethernet_device *device, struct ethernet_stats *stats)
{
}

static void
wire_refresh(struct ethernet_device *device, struct ethernet_hardware *out)
{
    *out = (struct ethernet_hardware){ .link_up = true };
}

static const struct ethernet_device_ops wire_ops = {
    .open = wire_open,
    .close = wire_close,
    .describe = wire_describe,
    .offloads = wire_offloads,
    .receive = wire_receive,
    .give = wire_give,
    .take = wire_take,
    .put = wire_put,
    .amend = wire_amend,
    .flush = wire_flush,
    .tick = wire_tick,
    .count = wire_count,
    .refresh = wire_refresh,
};

/* ---- frames ---- */

size_t
frame_build(const struct peer *peer, const struct ethernet_rig *rig, uint8_t flags, uint32_t seq, uint32_t ack,
            const void *options, size_t option_bytes, const void *data, size_t bytes, uint8_t *out)
{
    uint8_t *ip = out + ETH_BYTES, *tcp = ip + IP_BYTES;
    size_t tcp_bytes = TCP_BYTES + option_bytes + bytes;

    memset(out, 0, ETH_BYTES + IP_BYTES + TCP_BYTES);
    memcpy(out, rig->server_mac, 6);
    memcpy(out + 6, peer_mac, 6);
    put16(out + 12, 0x0800);
    ip[0] = 0x45;
    put16(ip + 2, (uint32_t)(IP_BYTES + tcp_bytes));
    ip[8] = 64;
    ip[9] = 6;
    memcpy(ip + 12, peer_ip, 4);
    memcpy(ip + 16, own_ip, 4);
    put16(ip + 10, (uint16_t)~wire_sum(ip, IP_BYTES, 0));
    put16(tcp, peer->port);
    put16(tcp + 2, peer->local_port);
    put32(tcp + 4, seq);
    put32(tcp + 8, ack);
    tcp[12] = (uint8_t)((TCP_BYTES + option_bytes) / 4 << 4);
    tcp[13] = flags;
    put16(tcp + 14, MIN(peer->window, 65535));
    if (option_bytes > 0) {
        memcpy(tcp + TCP_BYTES, options, option_bytes);
    }
    if (bytes > 0) {
        memcpy(tcp + TCP_BYTES + option_bytes, data, bytes);
    }
    put16(tcp + 16, tcp_sum(ip, tcp, tcp_bytes));
    return ETH_BYTES + IP_BYTES + tcp_bytes;
}

bool
wire_send(struct ethernet_rig *rig, const uint8_t *frame, size_t bytes)
{
    struct link *wire = rig->link;
    uint32_t times = happens(wire, wire->drop_in) ? 0 : happens(wire, wire->duplicate) ? 2 : 1;

    for (uint32_t i = 0; i < times; i++) {
        struct link_frame *own = wire_take_free(wire);
        if (own == NULL) {
            return false;
        }
        memcpy(own->bytes, frame, bytes);
        own->frame.bytes = (uint32_t)bytes;
        if (happens(wire, wire->reorder) && wire->in != NULL) {
            own->next = wire->in; /* before all that wait */
            wire->in = own;
        } else {
            *wire->in_tail = own;
            wire->in_tail = &own->next;
        }
    }
    return true;
}

/* ---- peers ---- */

static void
answer_arp(struct ethernet_rig *rig, const uint8_t *frame)
{
    uint8_t reply[42];

    rig->arp_asked++;
    if (!rig->answers_arp || get16(frame + 20) != 1 || memcmp(frame + 38, peer_ip, 4) != 0) {
        return;
    }
    memcpy(reply, frame + 6, 6);
    memcpy(reply + 6, peer_mac, 6);
    memcpy(reply + 12, frame + 12, 8);
    put16(reply + 20, 2);
    memcpy(reply + 22, peer_mac, 6);
    memcpy(reply + 28, peer_ip, 4);
    memcpy(reply + 32, frame + 22, 10);
    wire_send(rig, reply, sizeof(reply));
}

static void
peer_take_data(struct peer *peer, uint32_t seq, const uint8_t *data, size_t bytes)
{
    uint32_t known = peer->ack - seq; /* bytes at its front that are here */
    if ((int32_t)known < 0 || known >= bytes) {
        return;
    }
    CHECK(peer->received_bytes + bytes - known <= PEER_ROOM);
    memcpy(peer->received + peer->received_bytes, data + known, bytes - known);
    peer->received_bytes += bytes - known;
    peer->ack += (uint32_t)(bytes - known);
}

static void
peer_take(struct ethernet_rig *rig, struct peer *peer, const uint8_t *ip, const uint8_t *tcp, size_t bytes)
{
    size_t header = (size_t)(tcp[12] >> 4) * 4;
    uint32_t seq = get32(tcp + 4), before = peer->ack;
    uint8_t flags = tcp[13];

    peer->segments++;
    peer->bad_sums += !(rig->link->offloads & DEVICE_SUMS_TCP) && tcp_sum(ip, tcp, bytes) != 0;
    peer->flags_seen |= flags;
    if (flags & PEER_ACK) {
        peer->seen = get32(tcp + 8);
    }
    peer->other_window = (uint32_t)get16(tcp + 14) << (flags & PEER_SYN ? 0 : 3);
    if (flags & PEER_SYN) {
        peer->ack = peer->said = seq + 1;
        peer->syn_acknowledged = true;
        peer->other_mss = header >= 24 && tcp[20] == 2 ? get16(tcp + 22) : 536;
        return;
    }
    if (flags & PEER_RST) {
        return;
    }
    peer_take_data(peer, seq, tcp + header, bytes - header);
    if ((flags & PEER_FIN) && seq + (uint32_t)(bytes - header) == peer->ack && !peer->finished) {
        peer->finished = true;
        peer->ack++;
    }
    if (!peer->silent) {
        peer->said = peer->ack;
    }
    if (!peer->silent && (bytes > header || peer->ack != before || (flags & PEER_FIN))) {
        peer_acknowledge(rig, peer);
    }
}

static void
frame_take(struct ethernet_rig *rig, const uint8_t *frame, size_t bytes)
{
    const uint8_t *ip = frame + ETH_BYTES, *tcp = ip + IP_BYTES;

    if (get16(frame + 12) == 0x0806) {
        answer_arp(rig, frame);
        return;
    }
    CHECK(bytes >= ETH_BYTES + IP_BYTES && get16(frame + 12) == 0x0800 && ip[0] == 0x45);
    CHECK((rig->link->offloads & DEVICE_SUMS_IP) || wire_sum(ip, IP_BYTES, 0) == 0xffff);
    if (ip[9] == 1) {
        rig->echoes += tcp[0] == 0;
        return;
    }
    for (struct peer *peer = rig->peers; peer != NULL && ip[9] == 6; peer = peer->next) {
        if (peer->port == get16(tcp + 2) && peer->local_port == get16(tcp)) {
            peer_take(rig, peer, ip, tcp, get16(ip + 2) - IP_BYTES);
            return;
        }
    }
    rig->outside++;
}

static void
wire_deliver(struct ethernet_rig *rig)
{
    struct link *wire = rig->link;

    while (wire->out != NULL) {
        struct link_frame *own = wire->out;
        wire->out = own->next;
        if (wire->out == NULL) {
            wire->out_tail = &wire->out;
        }
        wire->out_count--;
        if (!happens(wire, wire->drop_out)) {
            frame_take(rig, own->bytes, own->frame.bytes);
            if (own->frame.flags & FRAME_SEGMENT) {
                wire->cut++;
                wire->cut_bytes = own->frame.segment_bytes;
            }
        }
        own->frame.segment = NULL;
        wire_give((struct ethernet_device *)wire, &own->frame);
    }
}

void
wire_turns(struct ethernet_rig *rig, uint32_t turns)
{
    for (uint32_t i = 0; i < turns; i++) {
        rig->port->now_base_ms = rig->rig.now_us / 1000;
        rig_turn(&rig->rig);
        wire_deliver(rig);
    }
}

void
wire_wait_ms(struct ethernet_rig *rig, uint32_t ms)
{
    wire_turns(rig, ms * 1000 / RIG_STEP_US);
}

struct ethernet_stats
wire_stats(const struct ethernet_rig *rig)
{
    struct ethernet_stats stats;
    rig->port->ops->count(rig->port->ethernet, &stats);
    return stats;
}

void
peer_open(struct ethernet_rig *rig, struct peer *peer, uint16_t port)
{
    *peer = (struct peer){ .port = port, .local_port = 6379, .mss = 1460, .seq = 0xfffffff0u - port, .window = 65535 };
    peer->received = malloc(PEER_ROOM);
    CHECK(peer->received != NULL);
    peer->next = rig->peers;
    rig->peers = peer;
}

void
peer_close(struct ethernet_rig *rig, struct peer *peer)
{
    struct peer **at = &rig->peers;
    while (*at != peer) {
        at = &(*at)->next;
    }
    *at = peer->next;
    free(peer->received);
}

void
peer_acknowledge(struct ethernet_rig *rig, struct peer *peer)
{
    peer->said = peer->ack;
    peer_send_at(rig, peer, 0, peer->seq, NULL, 0);
}

void
peer_send_at(struct ethernet_rig *rig, struct peer *peer, uint8_t flags, uint32_t seq, const void *data, size_t bytes)
{
    uint8_t frame[WIRE_FRAME_ROOM];
    size_t frame_bytes = frame_build(peer, rig, PEER_ACK | flags, seq, peer->said, NULL, 0, data, bytes, frame);
    wire_send(rig, frame, frame_bytes);
}

void
peer_send(struct ethernet_rig *rig, struct peer *peer, uint8_t flags, const void *data, size_t bytes)
{
    peer_send_at(rig, peer, flags, peer->seq, data, bytes);
    peer->seq += (uint32_t)bytes + ((flags & PEER_FIN) != 0);
}

void
peer_say(struct ethernet_rig *rig, struct peer *peer, const char *text)
{
    peer_send(rig, peer, PEER_PSH, text, strlen(text));
}

bool
peer_connect(struct ethernet_rig *rig, struct peer *peer)
{
    /* MSS, SACK permitted, window scale 0 */
    const uint8_t options[] = { 2, 4, (uint8_t)(peer->mss >> 8), (uint8_t)peer->mss, 4, 2, 3, 3, 0, 1, 1, 1 };
    uint8_t frame[WIRE_FRAME_ROOM];
    size_t bytes = frame_build(peer, rig, PEER_SYN, peer->seq, 0, options, sizeof(options), NULL, 0, frame);

    wire_send(rig, frame, bytes);
    wire_turns(rig, 4);
    if (!peer->syn_acknowledged) {
        return false;
    }
    peer->seq++;
    peer_acknowledge(rig, peer);
    wire_turns(rig, 1);
    return true;
}

bool
peer_got(struct peer *peer, const char *text)
{
    bool same = peer->received_bytes == strlen(text) && memcmp(peer->received, text, peer->received_bytes) == 0;
    if (!same) {
        printf("    got %zu bytes: %.*s\n", peer->received_bytes, (int)MIN(peer->received_bytes, 200), peer->received);
    }
    peer->received_bytes = 0;
    return same;
}

void
peer_leave(struct ethernet_rig *rig, struct peer *peer)
{
    if (!(peer->flags_seen & PEER_RST)) {
        peer_send(rig, peer, PEER_FIN, NULL, 0);
        wire_turns(rig, 8);
    }
    peer_close(rig, peer);
}

/* ---- start, stop ---- */

void
ethernet_rig_start(struct ethernet_rig *rig, uint32_t sessions)
{
    static const struct ethernet_module module = { ETHERNET_ABI, &ethernet_stack_ops, &wire_ops };
    char why[SETTINGS_WHY_BYTES];
    struct port *port;

    memset(rig, 0, sizeof(*rig));
    rig_start(&rig->rig);
    rig->link = calloc(1, sizeof(*rig->link));
    CHECK(rig->link != NULL);
    device_wire = rig->link;
    rig->link->in_tail = &rig->link->in;
    rig->link->out_tail = &rig->link->out;
    for (uint32_t i = 0; i < WIRE_FRAMES; i++) {
        wire_give((struct ethernet_device *)rig->link, &rig->link->frames[i].frame);
    }
    rig->answers_arp = true;
    memcpy(rig->server_mac, wire_mac, 6);
    rig->settings = (struct port_settings){ .type = PORT_ETHERNET,
                                            .name = "ethernet",
                                            .device = "wire",
                                            .prefix_bits = 24,
                                            .mtu = WIRE_MTU,
                                            .rx_descriptors = WIRE_DESCRIPTORS,
                                            .tx_descriptors = WIRE_DESCRIPTORS,
                                            .sessions = sessions,
                                            .listen = { 6379 },
                                            .listen_count = 1 };
    memcpy(rig->settings.address, own_ip, 4);
    if (port_ethernet_open_on(&module, rig->rig.lcore, &rig->settings, &port, why, sizeof(why)) != 0) {
        fprintf(stderr, "port: %s\n", why);
        abort();
    }
    rig->port = ethernet_port_of(port);
    port->index = rig->rig.lcore->port_count;
    rig->rig.lcore->ports[rig->rig.lcore->port_count++] = port;
    wire_turns(rig, 2);
}

bool
ethernet_rig_stop(struct ethernet_rig *rig)
{
    struct lcore *lcore = rig->rig.lcore;

    wire_turns(rig, 4);
    bool clean = lcore->session_count == 1; /* the control session of the rig */
    if (!clean) {
        printf("    %u sessions are left\n", lcore->session_count - 1);
    }
    for (struct session *session = lcore->all; session != NULL; session = session->all_next) {
        if (session->port == &rig->port->port) {
            session_kill(session);
        }
    }
    wire_turns(rig, 300);
    lcore->port_count--;
    rig->port->port.ops->close(&rig->port->port);
    wire_deliver(rig);
    if (rig->link->free_count != WIRE_FRAMES) {
        printf("    %u frames are lost\n", WIRE_FRAMES - rig->link->free_count);
        clean = false;
    }
    free(rig->link);
    rig_stop(&rig->rig);
    return clean;
}
