/* lcore.h - one busy-polling thread: its loop, its ports, its sessions, its share of the store. */
#pragma once
#include "config/settings.h"
#include "dataplane/counters.h"
#include "dataplane/exec.h"
#include "dataplane/histogram.h"
#include "dataplane/mail.h"
#include "dataplane/port.h"
#include "dataplane/session.h"
#include "dataplane/slowlog.h"
#include <sys/types.h>

#define PORT_DEPTH_MOST 64

struct dataplane;
struct later;
struct pubsub;

/* Per command: service = execution until encoded; residence = polled until flushed. Nanoseconds. Neighbours of one
 * command in a session's burst count with their mean: the cycle counter is read once for all of them. */
struct lcore_histograms {
    struct port_histograms {
        struct histogram burst;   /* events of one poll */
        struct histogram depth;   /* sessions that a flush left with output, at most PORT_DEPTH_MOST are counted */
        struct histogram stalled; /* flushes in a row that left some: the port, or its peers, said "again" */
    } ports[LIMIT_PORTS + 1];
    struct histogram service[COMMAND_COUNT];
    struct histogram residence[COMMAND_COUNT];
    struct histogram loop;  /* duration of a busy turn, ns */
    struct histogram burst; /* requests of a burst */
};

/* The requests of one session in a burst, neighbours in it. */
struct burst_part {
    struct session *session;
    size_t in_offset;      /* where in session->in.view the first begins */
    uint32_t first, count; /* of burst->requests */
    bool broken;           /* the last is malformed: the stream cannot go on */
};

/* Neighbours of one part and one command that were executed: they share their times. */
struct burst_run {
    enum command_id command;
    uint32_t count;
    uint64_t polled_cycles, service_cycles; /* of them together */
};

struct burst {
    uint32_t count, part_count, run_count, put_back;
    uint32_t most; /* requests of this burst: lcores.burst */
    struct request requests[LIMIT_BURST];
    uint64_t hashes[LIMIT_BURST]; /* store_hash() of the first key, of requests that have one */
    struct burst_part parts[LIMIT_BURST];
    struct burst_run runs[LIMIT_BURST];
    struct arg_room room;
    struct arg args[LIMIT_BURST_ARGS];
    bool inline_used; /* a quoted inline request borrows from lcore->inline_line */
};

enum lcore_state { LCORE_BOOT, LCORE_RUN, LCORE_DRAIN, LCORE_STOPPED };

struct lcore {
    struct dataplane *dataplane;
    const struct settings *settings;
    uint32_t index;
    int cpu, cpu_node; /* where it runs; the management core writes */
    int node;          /* where its memory lies */
    pid_t tid;
    _Atomic uint32_t state; /* enum lcore_state; owner: release; others acquire */

    struct store_member *store;
    struct memory_cache *memory;
    struct stream_reserve reserve;       /* what its sessions keep for when memory is full */
    struct port *ports[LIMIT_PORTS + 1]; /* the socket port, then those of the settings: fabric first */
    uint32_t port_count;
    struct port *socket_port;

    struct session *ready, *ready_last;     /* FIFO */
    struct session *waiting, *waiting_last; /* the same, of those to try again at a tick */
    struct session *all, *sweep;            /* every session; where the sweep goes on */
    struct session **sessions;              /* LCORE_SESSION_BUCKETS lists by id */
    struct session *dying;                  /* closed at the end of the turn */
    uint64_t swept_output_bytes;            /* of the sessions met in this round of the sweep */
    uint32_t session_count;
    uint64_t session_ids; /* given so far; id = session_ids * lcore count + index + 1 */

    struct mail_ring **mail_in, **mail_out;             /* [from thread], [to thread]: see mail.h */
    _Alignas(CACHE_LINE) _Atomic uint64_t mail_waiting; /* bit per sender: set after posting */
    struct mail_waker waker;
    struct pubsub *pubsub;

    int64_t now_ms;                         /* Unix time of this turn */
    int64_t ticked_ms;                      /* of the last tick */
    int64_t drain_since_ms;                 /* 0: not draining */
    uint64_t now_cycles, idle_since_cycles; /* 0: busy */
    struct lcore_counters *counters;
    struct lcore_histograms *histograms;
    struct slowlog *slowlog;
    struct hot_keys *hot_keys; /* NULL: nobody asks */
    uint64_t ns_per_cycle_q20;
    uint64_t poll_busy_cycles, poll_pause_cycles; /* POLL_BUSY_NS, POLL_PAUSE_NS */
    struct resp_span *spans;                      /* for requests that are whole */
    uint8_t *inline_line; /* LIMIT_INLINE_BYTES + 2: a quoted inline request is unescaped here, not in the stream */
    struct decode_limits limits, limits_before_auth;
    struct later *later_unsent;    /* answers that found their mail ring full */
    struct later *later_unwritten; /* answers whose session found no memory for them */
    struct burst burst;
};

#define LCORE_SESSION_BUCKETS 4096

/* Its part of what sessions keep. */
uint64_t lcore_session_bytes(const struct lcore *lcore);

/* Cycles as ns, in fixed point: hot code converts one difference a request. */
static inline uint64_t
lcore_ns(const struct lcore *lcore, uint64_t cycles)
{
    return (cycles * lcore->ns_per_cycle_q20) >> 20;
}

/* The loop; returns when drained. */
void lcore_run(struct lcore *lcore);
/* Join the store and leave it again: around lcore_run(), on the thread that turns the lcore. 0 or -errno. */
int lcore_begin(struct lcore *lcore);
void lcore_end(struct lcore *lcore);

/* One turn of it, for tests that turn several by hand. Returns events: 0 means idle. */
uint32_t lcore_turn(struct lcore *lcore);

/* A message was posted to this lcore's ring from thread `from`. Any thread. */
void lcore_notify(struct lcore *lcore, uint32_t from);

/* Post to another lcore, MAIL_FROM_MGMT or MAIL_FROM_HELPER; wakes a sleeper. False: full, counted. */
bool lcore_post(struct lcore *lcore, uint32_t to, const struct mail *mail);
