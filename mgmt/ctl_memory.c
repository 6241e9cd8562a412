/* ctl_memory.c - memory: where it went, to the byte, and who keeps it from being freed. */
#include "mgmt/ctl.h"

/* X(name, value). The first eight are total_bytes. */
#define MEMORY_ROWS(X)                                                                                                 \
    X("record_bytes", store.record_bytes)                                                                              \
    X("ghost_bytes", store.ghost_bytes)                                                                                \
    X("index_bytes", store.index_bytes)                                                                                \
    X("limbo_bytes", store.limbo_bytes)                                                                                \
    X("session_bytes", store.other_bytes)                                                                              \
    X("slack_bytes", store.memory.slack_bytes)                                                                         \
    X("free_page_bytes", store.memory.free_page_bytes)                                                                 \
    X("overhead_bytes", store.overhead_bytes)                                                                          \
    X("total_bytes", store.total_bytes)                                                                                \
    X("limit_bytes", store.memory.limit_bytes)                                                                         \
    X("kept_bytes", store.memory.kept_bytes)                                                                           \
    X("reserve_bytes", store.memory.reserve_bytes)                                                                     \
    X("used_bytes", store.memory.used_bytes)                                                                           \
    X("populated_bytes", store.memory.populated_bytes)                                                                 \
    X("huge_page_bytes", store.memory.huge_page_bytes)                                                                 \
    X("output_bytes", sum.output_bytes)                                                                                \
    X("keys", store.keys)                                                                                              \
    X("evicted_keys", store.evicted_keys)                                                                              \
    X("expired_keys", store.expired_keys)                                                                              \
    X("moved_records", store.moved_records)                                                                            \
    X("emptied_pages", store.memory.emptied_pages)                                                                     \
    X("larger_takes", store.memory.larger_takes)                                                                       \
    X("larger_blocks", store.memory.larger_blocks)                                                                     \
    X("page_misses", store.memory.page_misses)                                                                         \
    X("oom_refusals", store.oom_refusals)

enum ctl_result
ctl_memory(struct ctl_request *request)
{
    const struct mgmt *mgmt = request->mgmt;
    struct store_stats store;
    struct counters_sum sum;

    store_stats(mgmt->dataplane->store, &store);
    metrics_counters(mgmt->dataplane, &sum);
    request->result = json_object();
#define MEMORY_ROW(name, value) json_object_set_new(request->result, name, json_integer((json_int_t)(value)));
    MEMORY_ROWS(MEMORY_ROW)
#undef MEMORY_ROW
    uint64_t in_use = store.memory.used_bytes + store.memory.slack_bytes;
    json_object_set_new(request->result, "fragmentation",
                        json_real(store.memory.used_bytes == 0 ? 1 : (double)in_use / (double)store.memory.used_bytes));
    json_object_set_new(request->result, "policy", json_string(mgmt->settings->memory_policy));
    const char *stalled = store_member_name(mgmt->dataplane->store, (uint32_t)store.stalled_member);
    json_object_set_new(request->result, "stalled_member",
                        store.stalled_member < 0 ? json_null() : json_string(stalled));
    json_object_set_new(request->result, "stalled_ms", json_integer((json_int_t)store.stalled_ms));
    return CTL_DONE;
}
