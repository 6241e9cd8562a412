/* port_fabric_seat.c - who sits where on a fabric port: peers in the AV, seats, wire ids, identities drawn. */
#include "dataplane/port_fabric_private.h"
#include <errno.h>
#include <sodium.h>

/* ---- peers ---- */

int
fabric_peer_take(struct fabric_port *port, struct slice address, struct fabric_peer **out)
{
    struct fabric_peer *room = NULL;

    if (slice_equal(slice_of(port->info.address, port->info.address_bytes), address)) {
        return -ELOOP; /* it would answer its own pings: a seat taken for ever, and nobody there */
    }
    for (uint32_t i = 0; i < port->peer_count; i++) {
        struct fabric_peer *peer = &port->peers[i];
        if (peer->uses == 0) {
            room = room == NULL ? peer : room;
        } else if (slice_equal(slice_of(peer->address, peer->address_bytes), address)) {
            peer->uses++;
            *out = peer;
            return 0;
        }
    }
    if (address.bytes > sizeof(room->address)) {
        return -EINVAL;
    }
    assert(room != NULL); /* one for each seat and each send slot */
    counter_add(&port->port.lcore->counters->fabric_av_inserts, 1);
    int rc = port->ops->peer_insert(port->endpoint, address.data, address.bytes, &room->peer);
    if (rc == 0) {
        room->uses = 1;
        room->address_bytes = (uint32_t)address.bytes;
        memcpy(room->address, address.data, address.bytes);
        *out = room;
    }
    return rc;
}

void
fabric_peer_release(struct fabric_port *port, struct fabric_peer *peer)
{
    assert(peer->uses > 0);
    if (--peer->uses == 0) {
        port->ops->peer_remove(port->endpoint, peer->peer);
    }
}

/* ---- seats and wire ids ---- */

struct fabric_seat *
fabric_seat_by_wire(const struct fabric_port *port, uint32_t wire_id)
{
    struct fabric_seat *seat = port->wires[wire_id & port->wires_mask];
    while (seat != NULL && seat->session->stream.config.wire_id != wire_id) {
        seat = seat->wire_next;
    }
    return seat;
}

void
fabric_wire_enter(struct fabric_port *port, struct fabric_seat *seat, uint32_t wire_id)
{
    struct fabric_seat **bucket = &port->wires[wire_id & port->wires_mask];
    seat->wire_next = *bucket;
    *bucket = seat;
}

void
fabric_wire_leave(struct fabric_port *port, struct fabric_seat *seat, uint32_t wire_id)
{
    struct fabric_seat **at = &port->wires[wire_id & port->wires_mask];
    while (*at != seat) {
        at = &(*at)->wire_next;
    }
    *at = seat->wire_next;
}

void
fabric_seat_leave(struct fabric_port *port, struct fabric_seat *seat)
{
    if (seat->session != NULL) {
        struct lcore_counters *counters = port->port.lcore->counters;
        store_relaxed(&counters->sessions_fabric, load_relaxed(&counters->sessions_fabric) - 1);
        seat->session = NULL;
        fabric_peer_release(port, seat->peer);
        seat->peer = NULL;
    }
    if (seat->in_flight > 0) {
        seat->state = SEAT_DRAINING;
        return;
    }
    fabric_overdue_set(port, seat, false);
    seat->state = SEAT_FREE;
    seat->wire_next = port->free_seats;
    port->free_seats = seat;
    store_relaxed(&port->seats_used, load_relaxed(&port->seats_used) - 1);
}

/* ---- identities ---- */

void
fabric_draw(struct fabric_port *port, void *out, size_t bytes)
{
    uint8_t nonce[crypto_stream_chacha20_NONCEBYTES] = { 0 };
    static_assert(sizeof(nonce) >= sizeof(port->random_count), "the count is the nonce");
    static_assert(sizeof(port->random_key) == crypto_stream_chacha20_KEYBYTES, "a whole key");
    port->random_count++;
    memcpy(nonce, &port->random_count, sizeof(port->random_count));
    crypto_stream_chacha20(out, bytes, nonce, port->random_key);
}

void
fabric_draw_ids(struct fabric_port *port, struct frame_config *config)
{
    uint32_t ids[2];
    fabric_draw(port, ids, sizeof(ids));
    /* Taken once in 2^18 with 2^14 seats: then a neighbour, of which one is free among so many. */
    for (uint32_t i = 0; i < port->seat_count && fabric_seat_by_wire(port, ids[0]) != NULL; i++) {
        ids[0]++;
    }
    config->wire_id = ids[0];
    config->incarnation = ids[1];
}
