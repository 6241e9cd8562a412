/* mgmt.h - the management core: one thread that owns the listeners, the management socket, signals, metrics and page
 * population, and answers what lcores leave to it. It may sleep; the data plane never waits for it. */
#pragma once
#include "config/paths.h"
#include "dataplane/dataplane.h"
#include "mgmt/answer.h"
#include "mgmt/ctl_server.h"
#include "mgmt/http.h"
#include "mgmt/metrics.h"
#include "mgmt/streams.h"

#define MGMT_REDIS_VERSION "7.0.15" /* what stock clients branch on */

enum mgmt_state {
    MGMT_BOOT,
    MGMT_RUN,
    MGMT_LEAVE,  /* `drain`: no new sessions, those that are there go on until they leave */
    MGMT_DRAIN,  /* SIGTERM or `shutdown`: no new sessions, lcores finish */
    MGMT_STOPPED /* every lcore has stopped */
};

struct mgmt {
    struct settings *settings;
    const char *settings_path;    /* "" for built-in defaults */
    const char *const *overrides; /* --set, without passwords: they are not kept */
    size_t override_count;
    struct host *host;        /* as it was at the start: which CPUs this process may use */
    struct settings *written; /* what file and overrides said at the start, "auto" still undecided */
    struct dataplane *dataplane;
    struct store_member *store_member; /* its own place, offline between steps; NULL until it is needed */
    enum mgmt_state state;
    int64_t begun_ms, ready_ms, drain_begun_ms; /* monotonic */

    struct loop loop;
    struct watch mail_watch, signal_watch;
    struct streams streams;
    struct listener ctl_listener;
    struct ctl_server ctl;
    struct http http;
    struct metrics metrics;
    struct answers answers;

    char ctl_path[PATHS_SOCKET_BYTES], unix_path[PATHS_SOCKET_BYTES]; /* "" for none */
    bool stop_now;                                                    /* a second signal */
    int32_t stalled_lcore;                                            /* -1: none */
    int32_t stalled_member;                                           /* of the store, as it was last named; -1: none */
    uint64_t loops_seen[LIMIT_LCORES];
    uint32_t idle_ticks;
    int64_t ticked_ms, second_ms, watchdog_ms;
};

/* Open everything, serve until told to stop, drain, close. Returns the program's exit status. */
int mgmt_run(struct mgmt *mgmt);

/* Take no new sessions and turn not ready; the rest goes on. Nothing when it does already. */
void mgmt_leave(struct mgmt *mgmt, const char *by);
/* Begin to end, as SIGTERM does. */
void mgmt_shutdown(struct mgmt *mgmt, const char *by);

/* Descriptors for every session; what the hard limit does not allow is logged, not refused. */
void mgmt_raise_file_limit(const struct settings *settings);
/* Requests are executed. */
bool mgmt_serves(const struct mgmt *mgmt);
/* Every lcore turns, none drains, and new sessions are taken. */
bool mgmt_is_ready(const struct mgmt *mgmt);
const char *mgmt_state_text(const struct mgmt *mgmt);
/* The clock that stamps are made from: "tsc", "cntvct" or "shared counter". */
const char *mgmt_clock_text(const struct mgmt *mgmt);

/* ---- signals.c ---- */

/* Handlers for SIGTERM, SIGINT and SIGHUP that write to an eventfd, which is returned; SIGPIPE is ignored. After
 * modules were opened: libraries below libfabric install handlers of their own. */
int signals_open(void);
/* Signals since the last call, as a set of 1 << number. */
uint64_t signals_take(int fd);

/* ---- ready.c ---- */

/* The line that says where the appliance can be reached, as settings want it. */
void ready_print(const struct mgmt *mgmt, struct text *out);
