#include "dataplane/live.h"
#include "dataplane/stream_reserve.h"

void
dataplane_live_set(struct dataplane_live *live, const struct settings *settings, double ns_per_cycle)
{
    uint64_t slow_us = settings->slowlog_threshold_us;
    uint64_t slow_cycles = slow_us == 0 ? UINT64_MAX : (uint64_t)((double)slow_us * 1000 / ns_per_cycle);

    /* all relaxed: see the struct */
    store_relaxed(&live->idle, (uint32_t)settings_idle_policy(settings));
    store_relaxed(&live->burst, (uint32_t)settings->lcores_burst);
    store_relaxed(&live->histograms, settings->lcores_histograms);
    store_relaxed(&live->slow_cycles, slow_cycles);
    store_relaxed(&live->fabric_credit, (uint32_t)settings->fabric_credit);
    store_relaxed(&live->clients, settings->limits_clients);
    store_relaxed(&live->session_bytes, settings->memory_limit / STREAM_SHARE);
    store_relaxed(&live->slow_consumer_bytes, settings->limits_slow_bytes);
    store_relaxed(&live->idle_timeout_ms, (int64_t)settings->limits_idle);
    store_relaxed(&live->auth_timeout_ms, (int64_t)settings->limits_auth);
    store_relaxed(&live->slow_consumer_ms, (int64_t)settings->limits_slow_time);
    store_relaxed(&live->drain_ms, (int64_t)settings->drain_time);
}
