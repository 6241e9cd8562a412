/* lcore.h - one busy-polling thread: its loop, its ports, its sessions, its share of the store. */
#pragma once
#include "config/settings.h"
#include "dataplane/counters.h"
#include "dataplane/exec.h"
#include "dataplane/histogram.h"
#include "dataplane/mail.h"
#include "dataplane/port.h"
#include "dataplane/session.h"
#include <sys/types.h>

struct dataplane;
struct pubsub;

/* Per command: service = execution until encoded; residence = polled until flushed. Nanoseconds. */
struct lcore_histograms {
    struct histogram service[COMMAND_COUNT];
    struct histogram residence[COMMAND_COUNT];
    struct histogram loop;  /* duration of a busy turn, ns */
    struct histogram burst; /* requests of a burst */
};

/* One decoded request and the session it came from. */
struct burst_entry {
    struct request request;
    struct session *session;
    uint64_t hash;
    size_t in_offset; /* where in session->in.view it begins */
    enum codec_status status;
};

struct burst {
    uint32_t count;
    struct burst_entry entries[LIMIT_BURST];
    struct arg_room room;
    struct arg args[LIMIT_BURST_ARGS];
    uint64_t polled_cycles;
};

enum lcore_state { LCORE_BOOT, LCORE_RUN, LCORE_DRAIN, LCORE_STOPPED };

struct lcore {
    struct dataplane *dataplane;
    const struct settings *settings;
    uint32_t index;
    int cpu, node;
    pid_t tid;
    _Atomic uint32_t state; /* enum lcore_state; owner: release; others acquire */

    struct store_member *store;
    struct memory_cache *memory;
    struct port *ports[LIMIT_PORTS];
    uint32_t port_count;
    struct port *socket_port;

    struct session *ready, **ready_tail; /* FIFO */
    struct session *all;
    struct session **sessions; /* hash table by id */
    struct session *dying;     /* closed at the end of the turn */
    uint32_t session_count;
    uint64_t session_ids; /* next; id = session_ids * LIMIT_LCORES + index + 1 */

    struct mail_ring **mail_in;  /* [from lcore], and [lcore count] from the management core */
    struct mail_ring **mail_out; /* [to lcore], and [lcore count] to the management core */
    struct mail_waker waker;
    struct pubsub *pubsub;

    int64_t now_ms; /* Unix time of this turn */
    uint64_t now_cycles, tick_cycles;
    struct lcore_counters *counters;
    struct lcore_histograms *histograms;
    struct burst burst;
};

/* The loop; returns when drained. */
void lcore_run(struct lcore *lcore);

/* Post to another lcore, or to the management core with `to` = MAIL_FROM_MGMT; wakes a sleeper. False: full, counted.
 */
bool lcore_post(struct lcore *lcore, uint32_t to, const struct mail *mail);
