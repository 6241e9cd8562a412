/* dataplane.h - what the management core sees of the data plane. */
#pragma once
#include "config/settings.h"
#include "dataplane/clock.h"
#include "dataplane/counters.h"
#include "dataplane/lcore.h"
#include "dataplane/live.h"
#include "store/store.h"

struct dataplane {
    const struct settings *settings;
    struct store *store;
    struct channel_directory *channels;
    struct helper *helper;
    uint32_t lcore_count;
    struct lcore *lcores[LIMIT_LCORES];
    struct mail_ring *to_mgmt[LIMIT_LCORES];  /* the management core reads */
    struct mail_ring *to_lcore[LIMIT_LCORES]; /* the management core writes */
    struct mail_waker mgmt_waker;             /* the management core sleeps on its event_fd */
    uint64_t incarnation;                     /* drawn at boot: run id */
    int64_t started_ms;
    double ns_per_cycle;
    bool trusts_cycles; /* the kernel's clock source is the cycle counter */
    struct clock clock;
    struct dataplane_live live;
    struct stream_hoard hoard;
    _Atomic uint32_t sessions; /* all lcores: limits.clients; relaxed add/sub */
};

/* Open the store and the ports and create the lcores' memory, each on its NUMA node; threads do not run yet.
 * 0 or -errno, with a sentence in `why`. Management thread. */
int dataplane_open(const struct settings *settings, struct dataplane **out, char *why, size_t why_bytes);
int dataplane_start(struct dataplane *dataplane); /* threads run, pinned; returns when every lcore is in its loop */
/* Run an lcore on another CPU from now on; it notices nothing. Its memory stays on the node where it is. 0 or -errno:
 * -EINVAL when the CPU is offline or not allowed. Management thread. */
int dataplane_move(struct dataplane *dataplane, uint32_t lcore, int cpu);
/* Mail every lcore MAIL_DRAIN; dataplane_stopped() turns true when all are done, at the latest after settings' drain
 * time. */
void dataplane_drain(struct dataplane *dataplane);
bool dataplane_stopped(const struct dataplane *dataplane);
void dataplane_close(struct dataplane *dataplane); /* after stopped: joins threads, closes ports and store */

/* About once a second: the clock follows the kernel's, devices say how they are. Management core. */
void dataplane_refresh(struct dataplane *dataplane);

/* Post from the management core and wake the lcore. False: full. */
bool dataplane_post(struct dataplane *dataplane, uint32_t lcore, const struct mail *mail);
