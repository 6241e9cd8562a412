/* ctl_status.c - status, ready, alive, version, config show, doctor, shutdown. */
#include "mgmt/crash.h"
#include "mgmt/ctl.h"
#include "mgmt/doctor.h"
#include "mgmt/ethernet.h"
#include "mgmt/live.h"
#include "mgmt/log.h"
#include "mgmt/placement.h"
#include "mgmt/sandbox.h"
#include <sys/resource.h>
#include <unistd.h>

static json_t *
stream_addresses(const struct mgmt *mgmt)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < mgmt->streams.count; i++) {
        json_array_append_new(list, json_string(mgmt->streams.listeners[i].listener.text));
    }
    return list;
}

static json_t *
fabric_names(const struct mgmt *mgmt)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < mgmt->settings->port_count; i++) {
        if (mgmt->settings->ports[i].type == PORT_FABRIC) {
            json_array_append_new(list, json_string(mgmt->settings->ports[i].name));
        }
    }
    return list;
}

enum ctl_result
ctl_status(struct ctl_request *request)
{
    const struct mgmt *mgmt = request->mgmt;
    struct store_stats store;
    struct counters_sum sum;
    char cpus[128];
    double busy = 0;

    store_stats(mgmt->dataplane->store, &store);
    metrics_counters(mgmt->dataplane, &sum);
    for (uint32_t i = 0; i < mgmt->dataplane->lcore_count; i++) {
        busy += mgmt->metrics.lcores[i].busy_share;
    }
    const char *metrics = mgmt->http.daemon == NULL ? "" : mgmt->http.listener.text;
    /* Where to connect comes first: it is what most people look for. */
    request->result = json_pack(
        "{s:o,s:s,s:s,s:s,s:b,s:s,s:i,s:f,s:o,s:i,s:f,s:I,s:I,s:I,s:f,s:I,s:I,s:I,s:I,s:s,s:b,s:b,s:s}", "streams",
        stream_addresses(mgmt), "management", mgmt->ctl_path, "metrics", metrics, "state", mgmt_state_text(mgmt),
        "ready", mgmt_is_ready(mgmt), "version", SLUICE_VERSION, "pid", (int)getpid(), "uptime_s",
        (double)(loop_now_ms() - mgmt->ready_ms) / 1000, "fabric", fabric_names(mgmt), "lcores",
        (int)mgmt->dataplane->lcore_count, "busy_lcores", busy, "sessions", (json_int_t)sum.sessions_open, "keys",
        (json_int_t)store.keys, "requests", (json_int_t)sum.requests, "requests_per_s", mgmt->metrics.requests_per_s,
        "memory_used_bytes", (json_int_t)store.memory.used_bytes, "memory_limit_bytes",
        (json_int_t)store.memory.limit_bytes, "memory_reserve_bytes", (json_int_t)store.memory.reserve_bytes,
        "huge_page_bytes", (json_int_t)store.memory.huge_page_bytes, "clock", mgmt_clock_text(mgmt), "auth",
        mgmt->settings->user_count > 0, "tls", false, "persistence", "none: memory only");
    cpu_list_print(cpus, sizeof(cpus), mgmt->settings->cpus, mgmt->settings->cpu_count);
    json_object_set_new(request->result, "cpus", json_string(cpus));
    json_object_set_new(request->result, "ethernet", ethernet_addresses(mgmt));
    json_object_set_new(request->result, "sandbox", json_string(sandbox_state()));
    json_object_set_new(request->result, "landlock", json_integer(sandbox_landlock()));
    json_object_set_new(request->result, "sandbox_threads", sandbox_threads(mgmt));
    return CTL_DONE;
}

static void
append_record(void *context, int64_t unix_ms, const char *level, const char *text)
{
    json_t *row = json_pack("{s:I,s:s,s:s}", "unix_ms", (json_int_t)unix_ms, "level", level, "text", text);

    if (row != NULL) { /* NULL: bytes of a peer that are no UTF-8 */
        json_array_append_new(context, row);
    }
}

enum ctl_result
ctl_log(struct ctl_request *request)
{
    uint64_t limit = LOG_KEPT;
    json_t *rows = json_array();

    if (!ctl_arg_uint(request, "limit", LOG_KEPT, &limit)) {
        json_decref(rows);
        return CTL_DONE;
    }
    log_recall(limit, append_record, rows);
    request->result = json_pack("{s:s,s:o}", "level", request->mgmt->settings->log_level, "records", rows);
    return CTL_DONE;
}

enum ctl_result
ctl_ready(struct ctl_request *request)
{
    const struct mgmt *mgmt = request->mgmt;
    json_t *stalled = mgmt->stalled_lcore < 0 ? json_null() : json_integer(mgmt->stalled_lcore);

    request->result = json_pack("{s:b,s:s,s:o}", "ready", mgmt_is_ready(mgmt), "state", mgmt_state_text(mgmt),
                                "stalled_lcore", stalled);
    return CTL_DONE;
}

enum ctl_result
ctl_alive(struct ctl_request *request)
{
    request->result =
        json_pack("{s:b,s:f}", "alive", true, "uptime_s", (double)(loop_now_ms() - request->mgmt->ready_ms) / 1000);
    return CTL_DONE;
}

enum ctl_result
ctl_version(struct ctl_request *request)
{
    request->result = json_pack("{s:s,s:s,s:i,s:s}", "version", SLUICE_VERSION, "redis_version", MGMT_REDIS_VERSION,
                                "protocol", CTL_VERSION, "build_id", crash_build_id());
    return CTL_DONE;
}

/* ---- config show ---- */

static json_t *
show_setting(const struct settings *settings, size_t index)
{
    static const char *const origins[] = { "default", "file", "--set", "changed" };
    const struct setting *setting = &settings_table[index];
    char value[SETTING_PRINT_BYTES];

    setting_print(settings, setting, value);
    if (index == SETTING_ID_auth_password && value[0] != '\0') {
        strcpy(value, "(set)"); /* a digest can be guessed against */
    }
    return json_pack("{s:s,s:s,s:s,s:s,s:b,s:s}", "name", setting->name, "value", value, "from",
                     origins[settings->origins[index]], "default", setting->initial, "live", setting->live, "help",
                     setting->help);
}

static json_t *
show_port(const struct port_settings *port)
{
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:I}", "name", port->name, "type", "fabric", "provider",
                     port->provider, "node", port->node, "domain", port->domain, "send", port->send, "rx_slots",
                     (json_int_t)port->rx_slots, "tx_slots", (json_int_t)port->tx_slots, "sessions",
                     (json_int_t)port->sessions, "frame_bytes", (json_int_t)port->frame_bytes, "lease_ms",
                     (json_int_t)port->lease_ms);
}

enum ctl_result
ctl_config_show(struct ctl_request *request)
{
    const struct settings *settings = request->mgmt->settings;
    json_t *rows = json_array(), *ports = json_array(), *users = json_array();

    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        json_array_append_new(rows, show_setting(settings, i));
    }
    for (uint32_t i = 0; i < settings->port_count; i++) {
        const struct port_settings *port = &settings->ports[i];
        json_array_append_new(ports, port->type == PORT_ETHERNET ? ethernet_settings(port) : show_port(port));
    }
    for (uint32_t i = 0; i < settings->user_count; i++) {
        json_array_append_new(users, json_string(settings->users[i].name));
    }
    request->result = json_pack("{s:s,s:o,s:o,s:o}", "file", request->mgmt->settings_path, "settings", rows, "ports",
                                ports, "users", users);
    return CTL_DONE;
}

/* Reads some hundred small files: a few ms of the management core, at most one question at a time. */
enum ctl_result
ctl_doctor(struct ctl_request *request)
{
    static struct doctor doctor;

    doctor = (struct doctor){
        .root = "",
        .settings = request->mgmt->settings,
        .dataplane = request->mgmt->dataplane,
        .allowed_cpus = request->mgmt->host->cpu_count,
        .elsewhere = "",
    };
    doctor_examine(&doctor);
    request->result =
        json_pack("{s:s,s:o}", "worst", doctor_level_text(doctor_worst(&doctor)), "findings", doctor_json(&doctor));
    return CTL_DONE;
}

static void
who_asks(const struct ctl_request *request, char by[64])
{
    snprintf(by, 64, "uid %u on the management socket", (unsigned)request->uid);
}

enum ctl_result
ctl_config_reload(struct ctl_request *request)
{
    json_t *changed = json_array(), *restart = json_array();
    char by[64];

    who_asks(request, by);
    if (!live_reload(request->mgmt, by, changed, restart, request->error, sizeof(request->error))) {
        json_decref(changed);
        json_decref(restart);
        return CTL_DONE;
    }
    request->result = json_pack("{s:o,s:o,s:o}", "changed", changed, "restart", restart, "warnings",
                                placement_warnings(request->mgmt));
    return CTL_DONE;
}

enum ctl_result
ctl_config_set(struct ctl_request *request)
{
    struct live_change change;
    const char *name = NULL, *value = NULL;
    char printed[SETTING_PRINT_BYTES], by[64];
    bool save = false;

    if (!ctl_arg_text(request, "name", &name) || !ctl_arg_text(request, "value", &value) ||
        !ctl_arg_bool(request, "save", &save)) {
        return CTL_DONE;
    }
    change.setting = name == NULL ? NULL : setting_find(name);
    if (change.setting == NULL || value == NULL) {
        return ctl_fail(request, name == NULL || value == NULL ? "expected a name and a value"
                                                               : "no such setting; \"config show\" lists them");
    }
    if ((size_t)snprintf(change.value, sizeof(change.value), "%s", value) >= sizeof(change.value)) {
        return ctl_fail(request, "%s: the value has %zu bytes, expected at most %d", name, strlen(value),
                        SETTING_TEXT_BYTES - 1);
    }
    who_asks(request, by);
    bool good = save ? live_save(request->mgmt, &change, by, request->error, sizeof(request->error))
                     : live_set(request->mgmt, &change, 1, by, NULL, request->error, sizeof(request->error));
    if (good) {
        bool moves = change.setting == &settings_table[SETTING_ID_lcores_cpus];
        request->result = json_pack("{s:s,s:s,s:b,s:o}", "name", name, "value",
                                    setting_print(request->mgmt->settings, change.setting, printed), "saved", save,
                                    "warnings", moves ? placement_warnings(request->mgmt) : json_array());
    }
    return CTL_DONE;
}

enum ctl_result
ctl_drain(struct ctl_request *request)
{
    struct mgmt *mgmt = request->mgmt;
    char by[64];

    who_asks(request, by);
    mgmt_leave(mgmt, by);
    request->result = json_pack("{s:s,s:i}", "state", mgmt_state_text(mgmt), "sessions",
                                (int)load_relaxed(&mgmt->dataplane->sessions));
    return CTL_DONE;
}

enum ctl_result
ctl_shutdown(struct ctl_request *request)
{
    char by[64];

    who_asks(request, by);
    mgmt_shutdown(request->mgmt, by);
    request->result = json_pack("{s:s,s:I}", "state", mgmt_state_text(request->mgmt), "drain_ms",
                                (json_int_t)request->mgmt->settings->drain_time);
    return CTL_DONE;
}
