#include "mgmt/ethernet.h"
#include "dataplane/ethernet.h"
#include "dataplane/port_ethernet.h"
#include "mgmt/ctl.h"
#include "mgmt/log.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define CAPTURE_PER_TICK 2048 /* frames written in one turn of the management core */
#define CAPTURE_SECONDS  10
#define CAPTURE_PACKETS  1000000
#define CAPTURE_SNAP     256
#define LOG_LINES_A_TICK 16
#define PCAP_MAGIC_NS    0xa1b23c4d
#define PCAP_ETHERNET    1

static struct { /* one capture at a time */
    struct port *port;
    FILE *file; /* NULL: none */
    char path[PATHS_SOCKET_BYTES + 128];
    uint64_t packets, packets_max, bytes, dropped_before;
    int64_t end_ms;
    char ended[160]; /* how the last one did */
    bool failed;     /* it was not told to */
} capture;

struct port *
ethernet_find(const struct dataplane *dataplane)
{
    for (uint32_t i = 0; i < dataplane->lcore_count; i++) {
        struct lcore *lcore = dataplane->lcores[i];
        for (uint32_t p = 0; p < lcore->port_count; p++) {
            if (port_ethernet_info(lcore->ports[p]) != NULL) {
                return lcore->ports[p];
            }
        }
    }
    return NULL;
}

/* ---- what it is ---- */

static void
print_listen(const struct port_settings *settings, uint32_t which, char *out, size_t out_bytes)
{
    const uint8_t *ip = settings->address;
    snprintf(out, out_bytes, "%u.%u.%u.%u:%u", ip[0], ip[1], ip[2], ip[3], settings->listen[which]);
}

json_t *
ethernet_addresses(const struct mgmt *mgmt)
{
    const struct port *port = ethernet_find(mgmt->dataplane);
    json_t *list = json_array();

    for (uint32_t i = 0; port != NULL && i < port_ethernet_settings(port)->listen_count; i++) {
        const struct ethernet_info *info = port_ethernet_info(port);
        char address[32];
        print_listen(port_ethernet_settings(port), i, address, sizeof(address));
        json_array_append_new(list, json_sprintf("%s on %s (%s), link %s", address, info->driver, info->device,
                                                 port_ethernet_hardware(port)->link_up ? "up" : "down"));
    }
    return list;
}

void
ethernet_log_start(const struct mgmt *mgmt)
{
    const struct port *port = ethernet_find(mgmt->dataplane);
    if (port == NULL) {
        return;
    }
    const struct ethernet_info *info = port_ethernet_info(port);
    log_info("ethernet port '%s': %s on %s, MAC %s, offloads %s; EAL started with \"%s\"",
             port_ethernet_settings(port)->name, port->info.address, info->device, info->mac, info->offloads,
             info->eal);
    log_info("ethernet port '%s': packets in %s", port_ethernet_settings(port)->name, info->memory);
}

static json_t *
count_of(const _Atomic uint64_t *counter)
{
    return json_integer((json_int_t)load_relaxed(counter));
}

void
ethernet_describe(const struct port *port, json_t *row)
{
    const struct ethernet_info *info = port_ethernet_info(port);
    const struct lcore_counters *counters = port->lcore->counters;

    if (info == NULL) {
        return;
    }
    const struct ethernet_hardware *hardware = port_ethernet_hardware(port);
    json_object_set_new(row, "device", json_string(info->device));
    json_object_set_new(row, "mac", json_string(info->mac));
    json_object_set_new(row, "link", json_string(hardware->link_up ? "up" : "down"));
    json_object_set_new(row, "link_mbps", json_integer(hardware->link_mbps));
    json_object_set_new(row, "offloads", json_string(info->offloads));
    json_object_set_new(row, "eal", json_string(info->eal));
    json_object_set_new(row, "memory", json_string(info->memory));
    json_object_set_new(row, "frames", json_integer(info->frames));
    json_object_set_new(row, "frames_held", count_of(&counters->ethernet_frames_held));
    json_object_set_new(row, "connections", count_of(&counters->ethernet_connections));
    json_object_set_new(row, "segments", count_of(&counters->ethernet_segments));
}

json_t *
ethernet_settings(const struct port_settings *settings)
{
    char address[INET_ADDRSTRLEN], gateway[INET_ADDRSTRLEN] = "none";
    json_t *listen = json_array();

    inet_ntop(AF_INET, settings->address, address, sizeof(address));
    if (settings->has_gateway) {
        inet_ntop(AF_INET, settings->gateway, gateway, sizeof(gateway));
    }
    for (uint32_t i = 0; i < settings->listen_count; i++) {
        json_array_append_new(listen, json_integer(settings->listen[i]));
    }
    return json_pack("{s:s,s:s,s:s,s:o,s:s,s:I,s:o,s:I,s:I,s:I,s:I,s:s}", "name", settings->name, "type", "ethernet",
                     "device", settings->device, "address", json_sprintf("%s/%u", address, settings->prefix_bits),
                     "gateway", gateway, "mtu", (json_int_t)settings->mtu, "listen", listen, "rx_descriptors",
                     (json_int_t)settings->rx_descriptors, "tx_descriptors", (json_int_t)settings->tx_descriptors,
                     "sessions", (json_int_t)settings->sessions, "lcore", (json_int_t)settings->lcore, "eal",
                     settings->eal);
}

/* ---- captures ---- */

static bool
write_header(FILE *file, uint32_t snap_bytes)
{
    const struct { /* of the pcap format */
        uint32_t magic;
        uint16_t major, minor;
        uint32_t zone, accuracy, snap, link;
    } header = { PCAP_MAGIC_NS, 2, 4, 0, 0, snap_bytes, PCAP_ETHERNET };

    return fwrite(&header, sizeof(header), 1, file) == 1;
}

static bool
write_frame(const struct mgmt *mgmt, const struct capture_record *record, const uint8_t *bytes)
{
    int64_t unix_ns = clock_unix_ns(&mgmt->dataplane->clock, record->cycles);
    const uint32_t header[4] = { (uint32_t)(unix_ns / 1000000000), (uint32_t)(unix_ns % 1000000000),
                                 record->copied_bytes, record->frame_bytes };

    capture.packets++;
    capture.bytes += record->copied_bytes;
    return fwrite(header, sizeof(header), 1, capture.file) == 1 &&
           (record->copied_bytes == 0 || fwrite(bytes, record->copied_bytes, 1, capture.file) == 1);
}

static uint64_t
packets_dropped(void)
{
    return load_relaxed(&port_ethernet_capture(capture.port)->dropped) - capture.dropped_before;
}

static void
capture_end(const char *why, bool failed)
{
    capture_stop(port_ethernet_capture(capture.port));
    bool good = fclose(capture.file) == 0;
    capture.file = NULL;
    snprintf(capture.ended, sizeof(capture.ended), "%s", good ? why : "the file cannot be written");
    capture.failed = failed || !good;
    log_info("capture to %s ended: %s, %llu packets, %llu more were lost", capture.path, capture.ended,
             (unsigned long long)capture.packets, (unsigned long long)packets_dropped());
}

bool
ethernet_tick(struct mgmt *mgmt)
{
    static uint8_t bytes[CAPTURE_SNAP_MAX];
    struct capture_record record;
    bool good = true;

    if (capture.file == NULL) {
        return false;
    }
    for (int i = 0; i < CAPTURE_PER_TICK && good && capture.packets < capture.packets_max; i++) {
        if (!capture_take(port_ethernet_capture(capture.port), &record, bytes)) {
            break;
        }
        good = write_frame(mgmt, &record, bytes);
    }
    if (!good) {
        capture_end(strerror(errno), true);
    } else if (capture.packets >= capture.packets_max) {
        capture_end("all packets that were wanted", false);
    } else if (loop_now_ms() >= capture.end_ms) {
        capture_end("its time is over", false);
    }
    return capture.file != NULL;
}

void
ethernet_close(struct mgmt *mgmt)
{
    if (capture.file != NULL) {
        capture_end("the appliance ends", false);
    }
}

static json_t *
capture_state(void)
{
    return json_pack("{s:b,s:s,s:I,s:I,s:I,s:s,s:b}", "runs", capture.file != NULL, "file", capture.path, "packets",
                     (json_int_t)capture.packets, "bytes", (json_int_t)capture.bytes, "dropped",
                     (json_int_t)(capture.port == NULL ? 0 : packets_dropped()), "ended",
                     capture.file != NULL ? "" : capture.ended, "failed", capture.file == NULL && capture.failed);
}

static FILE *
capture_file(struct ctl_request *request, const char *path)
{
    if (path[0] != '/' || strlen(path) >= sizeof(capture.path)) {
        ctl_fail(request, "file: expected an absolute path of at most %zu bytes", sizeof(capture.path) - 1);
        return NULL;
    }
    /* Never over a file or through a link of somebody else. */
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (file == NULL) {
        ctl_fail(request, "%s: %s; a capture makes a new file below sandbox.captures, written by uid %u", path,
                 strerror(errno), (unsigned)geteuid());
        if (fd >= 0) {
            close(fd);
        }
    }
    return file;
}

enum ctl_result
ctl_capture_start(struct ctl_request *request)
{
    struct mgmt *mgmt = request->mgmt;
    struct port *port = ethernet_find(mgmt->dataplane);
    const char *name = "", *path = "";
    uint64_t seconds = CAPTURE_SECONDS, packets = CAPTURE_PACKETS, snap = CAPTURE_SNAP;

    if (!ctl_arg_text(request, "port", &name) || !ctl_arg_text(request, "file", &path) ||
        !ctl_arg_uint(request, "seconds", 86400, &seconds) || !ctl_arg_uint(request, "packets", UINT32_MAX, &packets) ||
        !ctl_arg_uint(request, "snap", CAPTURE_SNAP_MAX, &snap)) {
        return CTL_DONE;
    }
    if (port == NULL || strcmp(port_ethernet_settings(port)->name, name) != 0) {
        return ctl_fail(request, "port: no ethernet port \"%s\"%s%s", name, port == NULL ? "" : ", expected ",
                        port == NULL ? "" : port_ethernet_settings(port)->name);
    }
    if (capture.file != NULL) {
        return ctl_fail(request, "a capture to %s runs, expected one at a time", capture.path);
    }
    if (seconds == 0 || packets == 0 || snap == 0) {
        return ctl_fail(request, "seconds, packets and snap: expected at least 1");
    }
    FILE *file = capture_file(request, path);
    if (file == NULL) {
        return CTL_DONE;
    }
    if (!write_header(file, (uint32_t)snap) || capture_start(port_ethernet_capture(port), (uint32_t)snap) != 0) {
        fclose(file);
        return ctl_fail(request, "%s cannot be written, or no memory for a ring of packets", path);
    }
    capture.port = port;
    capture.file = file;
    snprintf(capture.path, sizeof(capture.path), "%s", path);
    capture.packets = capture.bytes = 0;
    capture.packets_max = packets;
    capture.dropped_before = load_relaxed(&port_ethernet_capture(port)->dropped);
    capture.end_ms = loop_now_ms() + (int64_t)seconds * 1000;
    request->result = capture_state();
    return CTL_DONE;
}

enum ctl_result
ctl_capture_stop(struct ctl_request *request)
{
    if (capture.file != NULL) {
        capture_end("told so", false);
    }
    request->result = capture_state();
    return CTL_DONE;
}

enum ctl_result
ctl_capture(struct ctl_request *request)
{
    request->result = capture_state();
    return CTL_DONE;
}

/* ---- the driver's messages ---- */

void
ethernet_tick_second(struct mgmt *mgmt)
{
    static char line[512];
    static size_t used;
    const struct port *port = ethernet_find(mgmt->dataplane);
    int lines = 0;
    char byte;

    while (port != NULL && lines < LOG_LINES_A_TICK && read(port_ethernet_log_fd(port), &byte, 1) == 1) {
        if (byte != '\n') {
            line[used] = byte;
            used += used + 1 < sizeof(line);
            continue;
        }
        line[used] = '\0';
        if (used > 0) {
            log_info("%s", line);
        }
        used = 0;
        lines++;
    }
}
