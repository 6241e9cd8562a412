#include "mgmt/ethernet.h"
#include "mgmt/mgmt.h"
#include <jansson.h>
#include <unistd.h>

static void
print_ethernet(const struct mgmt *mgmt, struct text *out)
{
    json_t *addresses = ethernet_addresses(mgmt), *address;
    size_t index;

    json_array_foreach(addresses, index, address)
    {
        text_print(out, "%s %s", index == 0 ? "; ethernet" : ",", json_string_value(address));
    }
    json_decref(addresses);
}

static void
print_text(const struct mgmt *mgmt, const struct store_stats *store, struct text *out)
{
    const struct settings *settings = mgmt->settings;
    char cpus[128], a[UNIT_TEXT_BYTES], b[UNIT_TEXT_BYTES];

    text_print(out, "sluiced %s ready in %.2f s: streams", SLUICE_VERSION,
               (double)(mgmt->ready_ms - mgmt->begun_ms) / 1000);
    for (uint32_t i = 0; i < mgmt->streams.count; i++) {
        text_print(out, " %s", mgmt->streams.listeners[i].listener.text);
    }
    text_print(out, " (RESP and SBE%s); management %s; %u lcore%s on CPU %s, %s when idle; fabric",
               settings->user_count > 0 ? ", with passwords" : "", mgmt->ctl_path, settings->cpu_count,
               settings->cpu_count == 1 ? "" : "s",
               cpu_list_print(cpus, sizeof(cpus), settings->cpus, settings->cpu_count), settings->lcores_idle);
    uint32_t fabrics = 0;
    for (uint32_t i = 0; i < settings->port_count; i++) {
        const struct port_settings *port = &settings->ports[i];
        if (port->type != PORT_FABRIC) {
            continue;
        }
        fabrics++;
        if (strcmp(port->name, port->provider) == 0) {
            text_print(out, " %s", port->name);
        } else {
            text_print(out, " %s (%s)", port->name, port->provider);
        }
    }
    text_print(out, "%s", fabrics == 0 ? " none" : "");
    print_ethernet(mgmt, out);
    text_print(out, "; memory %s reserved, limit %s, ", unit_print_size_short(a, settings->memory_reserve),
               unit_print_size_short(b, settings->memory_limit));
    if (store->memory.huge_page_bytes > 0) {
        text_print(out, "huge pages %s", unit_print_size_short(a, store->memory.huge_page_bytes));
    } else {
        text_print(out, "%s", settings->memory_huge ? "no huge pages free: transparent ones" : "no huge pages wanted");
    }
    text_print(out, "; clock %s; memory only, nothing is written to disk; no TLS%s", mgmt_clock_text(mgmt),
               settings->exposed ? ": data and passwords cross the network in the clear" : "");
}

static int
append_json(const char *bytes, size_t count, void *context)
{
    text_append(context, bytes, count);
    return 0;
}

static void
print_json(const struct mgmt *mgmt, const struct store_stats *store, struct text *out)
{
    const struct settings *settings = mgmt->settings;
    json_t *streams = json_array(), *fabric = json_array();
    char cpus[128];

    for (uint32_t i = 0; i < mgmt->streams.count; i++) {
        json_array_append_new(streams, json_string(mgmt->streams.listeners[i].listener.text));
    }
    for (uint32_t i = 0; i < settings->port_count; i++) {
        if (settings->ports[i].type != PORT_FABRIC) {
            continue;
        }
        json_array_append_new(
            fabric, json_pack("{s:s,s:s}", "name", settings->ports[i].name, "provider", settings->ports[i].provider));
    }
    json_t *line = json_pack(
        "{s:s,s:s,s:i,s:f,s:o,s:i,s:s,s:s,s:i,s:s,s:s,s:o,s:I,s:I,s:I,s:s,s:b,s:s,s:b}", "event", "ready", "version",
        SLUICE_VERSION, "pid", (int)getpid(), "seconds", (double)(mgmt->ready_ms - mgmt->begun_ms) / 1000, "streams",
        streams, "port", (int)mgmt->streams.port, "unix", mgmt->unix_path, "management", mgmt->ctl_path, "lcores",
        (int)settings->cpu_count, "cpus", cpu_list_print(cpus, sizeof(cpus), settings->cpus, settings->cpu_count),
        "idle", settings->lcores_idle, "fabric", fabric, "memory_reserve_bytes", (json_int_t)settings->memory_reserve,
        "memory_limit_bytes", (json_int_t)settings->memory_limit, "huge_page_bytes",
        (json_int_t)store->memory.huge_page_bytes, "clock", mgmt_clock_text(mgmt), "auth", settings->user_count > 0,
        "persistence", "none: memory only", "tls", false);
    json_object_set_new(line, "ethernet", ethernet_addresses(mgmt));
    CHECK(line != NULL && json_dump_callback(line, append_json, out, JSON_COMPACT | JSON_REAL_PRECISION(9)) == 0);
    json_decref(line);
}

void
ready_print(const struct mgmt *mgmt, struct text *out)
{
    struct store_stats store;

    store_stats(mgmt->dataplane->store, &store);
    if (strcmp(mgmt->settings->ready_format, "json") == 0) {
        print_json(mgmt, &store, out);
    } else {
        print_text(mgmt, &store, out);
    }
}
