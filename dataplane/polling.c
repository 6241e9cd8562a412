#include "dataplane/polling.h"
#include "dataplane/lcore.h"

static bool
others_are_busy(const struct lcore *lcore, const struct port *port)
{
    for (uint32_t i = 0; i < lcore->port_count; i++) {
        const struct port *other = lcore->ports[i];
        if (other != port && lcore->now_cycles - other->active_cycles < lcore->poll_busy_cycles) {
            return true;
        }
    }
    return false;
}

static void
port_pause(const struct lcore *lcore, struct port *port)
{
    uint64_t silent = lcore->now_cycles - port->active_cycles;
    uint64_t pause = MIN(silent / POLL_PAUSE_SHARE, lcore->poll_pause_cycles);
    port->due_cycles = lcore->now_cycles + (others_are_busy(lcore, port) ? pause : 0);
}

/* What a flush has left, and for how long already. */
static void
note_left(struct port *port, struct port_histograms *histograms)
{
    uint32_t depth = 0;
    for (struct session *session = port->dirty; session != NULL && depth < PORT_DEPTH_MOST;
         session = session->dirty_next) {
        depth++;
    }
    if (depth > 0) {
        port->stalled++;
        histogram_record(&histograms->depth, depth, 1);
    } else {
        histogram_record(&histograms->stalled, port->stalled, 1);
        port->stalled = 0;
    }
}

uint32_t
poll_ports(struct lcore *lcore)
{
    uint32_t events = 0;
    for (uint32_t i = 0; i < lcore->port_count; i++) {
        struct port *port = lcore->ports[i];
        if (port->makes_calls && lcore->now_cycles < port->due_cycles) {
            continue;
        }
        uint32_t seen = port->ops->poll(port);
        if (seen > 0) {
            histogram_record(&lcore->histograms->ports[i].burst, seen, 1);
            port->active_cycles = lcore->now_cycles;
            events += seen;
        }
        if (port->makes_calls) {
            port_pause(lcore, port);
        }
    }
    return events;
}

uint32_t
poll_flush_ports(struct lcore *lcore)
{
    uint32_t events = 0;
    for (uint32_t i = 0; i < lcore->port_count; i++) {
        struct port *port = lcore->ports[i];
        uint32_t sent = port->ops->flush(port);
        if (sent > 0) {
            port->active_cycles = port->due_cycles = lcore->now_cycles;
            events += sent;
        }
        if (UNLIKELY(port->dirty != NULL || port->stalled > 0)) {
            note_left(port, &lcore->histograms->ports[i]);
        }
    }
    return events;
}
