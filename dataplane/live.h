/* live.h - what the management core changes while lcores run.
 *
 * Each value stands alone: relaxed stores by the management core, relaxed loads by lcores, which see a change some
 * turns later. */
#pragma once
#include "config/settings.h"
#include "config/sync.h"

struct dataplane_live {
    _Alignas(CACHE_LINE) _Atomic uint32_t idle; /* enum idle_policy */
    _Atomic uint32_t burst;                     /* requests decoded before the first executes */
    _Atomic bool leaving;                       /* no new sessions */
    _Atomic bool histograms;                    /* service and residence times are recorded */
    _Atomic uint32_t fabric_credit;             /* frames; 0: a session's share of the receive slots */
    _Atomic uint64_t slow_cycles; /* a request that takes longer, waiting included, goes to the slow log */
    _Atomic uint64_t clients, slow_consumer_bytes;
    _Atomic uint64_t session_bytes; /* that sessions of all lcores keep of memory.limit: stream_reserve.h */
    _Atomic int64_t idle_timeout_ms, auth_timeout_ms, slow_consumer_ms, drain_ms;
};

/* Make every value what the settings say. Management thread. */
void dataplane_live_set(struct dataplane_live *live, const struct settings *settings, double ns_per_cycle);
