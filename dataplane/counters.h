/* counters.h - one block of counters per lcore, written by the lcore, read by anyone. */
#pragma once
#include "codec/command_table.h"
#include "config/base.h"
#include "config/sync.h"
#include "dataplane/counters_table.h"

/* One writer, the owner: counter_add(); what a device counts is written by the management core alone. Readers
 * load_relaxed(): each counter is exact, two are not one moment. */
struct lcore_counters {
#define COUNTER_FIELD(id, ...) _Atomic uint64_t id;
    _Alignas(CACHE_LINE) COUNTER_TABLE(COUNTER_FIELD)
#undef COUNTER_FIELD
        _Alignas(CACHE_LINE) _Atomic uint64_t commands[COMMAND_COUNT];
    _Atomic uint64_t command_errors[COMMAND_COUNT];
    /* gauges */
    _Alignas(CACHE_LINE) _Atomic uint64_t sessions_open;
    _Atomic uint64_t sessions_fabric;
    _Atomic uint64_t channels;
#define GAUGE_FIELD(id, ...) _Atomic uint64_t id;
    GAUGE_TABLE(GAUGE_FIELD)
#undef GAUGE_FIELD
    _Atomic uint64_t output_bytes; /* replies not yet acknowledged, of all sessions, as of the last sweep */
};
static_assert(sizeof(struct lcore_counters) % CACHE_LINE == 0, "no two lcores share a line");
