/* doctor_device.c - is there the device that each port asks for, may it be opened, and is it near? */
#include "dataplane/dataplane.h"
#include "dataplane/endpoint.h"
#include "mgmt/doctor_probe.h"
#include <dirent.h>
#include <limits.h>
#include <linux/capability.h>
#include <unistd.h>

#define PROVIDER_SLOTS 16 /* of an endpoint that is only tried */

/* ---- the device files that EFA and verbs need ---- */

static bool
needs_infiniband(const struct port_settings *port)
{
    return port->type == PORT_FABRIC &&
           (strncmp(port->provider, "efa", 3) == 0 || strncmp(port->provider, "verbs", 5) == 0);
}

static void
examine_infiniband(struct doctor *doctor)
{
    char path[PATH_MAX], refused[64] = "";
    uint32_t devices = 0, usable = 0;

    snprintf(path, sizeof(path), "%s/dev/infiniband", doctor->root);
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char device[PATH_MAX + 300];
        if (strncmp(entry->d_name, "uverbs", 6) != 0) {
            continue;
        }
        snprintf(device, sizeof(device), "%s/%s", path, entry->d_name);
        devices++;
        if (access(device, R_OK | W_OK) == 0) {
            usable++;
        } else {
            snprintf(refused, sizeof(refused), "%.63s", entry->d_name);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    bool good = devices > 0 && usable == devices;
    struct doctor_finding *finding =
        doctor_add(doctor, good ? DOCTOR_GOOD : DOCTOR_WRONG, "infiniband",
                   "libfabric opens the device through it: without it fi_getinfo fails with -61, No data available");
    doctor_wanted(finding, "/dev/infiniband/uverbs0, readable and writable");
    if (devices == 0) {
        doctor_found(finding, "no /dev/infiniband/uverbs*");
        doctor_remedy(finding,
                      "attach an EFA interface, modprobe efa ib_uverbs; in a container: --device=/dev/infiniband, "
                      "or the resource vpc.amazonaws.com/efa");
    } else {
        doctor_found(finding, "%u of %u devices may be opened%s%s", usable, devices, refused[0] == '\0' ? "" : ", not ",
                     refused);
        doctor_remedy(finding, "chmod 0666 /dev/infiniband/uverbs*, or run as a user that may open them");
    }
}

/* ---- the provider that a port asks for ---- */

static void
provider_found(struct doctor_finding *finding, const char *name, const char *provider, uint32_t rx, uint32_t tx,
               uint32_t frame_bytes)
{
    doctor_found(finding, "port %s: %s, %u receive and %u send slots, frames of %u bytes", name, provider, rx, tx,
                 frame_bytes);
}

static const struct port_info *
serving_info(const struct doctor *doctor, const struct port_settings *settings)
{
    const struct lcore *lcore = doctor->dataplane->lcores[0];

    for (uint32_t i = 0; i < lcore->port_count; i++) {
        const struct port_info *info = &lcore->ports[i]->info;
        if (strcmp(info->type, "fabric") == 0 && strcmp(info->provider, settings->provider) == 0) {
            return info;
        }
    }
    return NULL;
}

/* Open an endpoint as the port would, and close it again. */
static bool
provider_try(const struct port_settings *settings, struct endpoint_info *info, char *why, size_t why_bytes)
{
    struct endpoint *endpoint;
    struct endpoint_config config = {
        .provider = settings->provider,
        .node = settings->node[0] == '\0' ? NULL : settings->node,
        .domain = settings->domain[0] == '\0' ? NULL : settings->domain,
        .rx_post = PROVIDER_SLOTS,
        .rx_slots = (uint32_t)settings->rx_slots,
        .tx_slots = (uint32_t)settings->tx_slots,
        .frame_bytes = (uint32_t)settings->frame_bytes,
        .send = strcmp(settings->send, "inject") == 0 ? ENDPOINT_SEND_INJECT
                : strcmp(settings->send, "send") == 0 ? ENDPOINT_SEND_SEND
                                                      : ENDPOINT_SEND_AUTO,
    };
    const struct endpoint_ops *ops = endpoint_libfabric(why, why_bytes);

    if (ops == NULL || ops->open(&config, &endpoint, why, why_bytes) != 0) {
        return false;
    }
    ops->info(endpoint, info);
    ops->close(endpoint);
    return true;
}

static void
examine_provider(struct doctor *doctor, const struct port_settings *settings)
{
    char why[384] = "";
    struct endpoint_info tried;
    struct doctor_finding *finding = doctor_add(doctor, DOCTOR_GOOD, "provider",
                                                "the appliance does not start: no port falls back to another provider");

    doctor_wanted(finding, "%s, exactly", settings->provider);
    if (doctor->dataplane != NULL) {
        const struct port_info *info = serving_info(doctor, settings);
        if (info != NULL) {
            provider_found(finding, settings->name, info->provider, info->rx_slots, info->tx_slots, info->frame_bytes);
        }
        return;
    }
    if (provider_try(settings, &tried, why, sizeof(why))) {
        provider_found(finding, settings->name, tried.provider, tried.rx_slots, tried.tx_slots, tried.frame_bytes);
        return;
    }
    finding->level = DOCTOR_WRONG;
    doctor_found(finding, "port %s cannot be opened", settings->name);
    doctor_remedy(finding, "%s", why);
}

/* ---- places ---- */

/* Node of a CPU, by the nodes' lists; -1 where the kernel shows no nodes. */
static int
node_of_cpu(const struct doctor *doctor, int cpu)
{
    char text[DOCTOR_TEXT_BYTES];
    struct doctor_cpus set;

    for (int node = 0; doctor_read(doctor, text, "/sys/devices/system/node/node%d/cpulist", node); node++) {
        if (doctor_cpus_parse(text, &set) && set.has[cpu]) {
            return node;
        }
    }
    return -1;
}

static void
examine_place(struct doctor *doctor, const char *what, const char *device, int device_node)
{
    int far[LIMIT_LCORES];
    uint32_t count = 0;
    char list[128];

    for (uint32_t i = 0; i < doctor->settings->cpu_count; i++) {
        int node = node_of_cpu(doctor, doctor->settings->cpus[i]);
        if (node >= 0 && device_node >= 0 && node != device_node) {
            far[count++] = doctor->settings->cpus[i];
        }
    }
    struct doctor_finding *finding = doctor_add(doctor, count == 0 ? DOCTOR_GOOD : DOCTOR_ADVICE, "numa",
                                                "every message crosses between the sockets");
    if (count == 0) {
        doctor_found(finding, "%s %s is near every lcore", what, device);
        return;
    }
    doctor_found(finding, "%s %s is on node %d, lcores on CPUs %s are not", what, device, device_node,
                 cpu_list_print(list, sizeof(list), far, count));
    doctor_wanted(finding, "lcores on the device's node");
    doctor_remedy(finding, "give lcores.cpus CPUs of /sys/devices/system/node/node%d/cpulist", device_node);
}

/* ---- the card of an ethernet port ---- */

/* "0000:00:06.0" of "0000:00:06.0" or "00:06.0"; false: it is a virtual device. */
static bool
pci_address(const char *device, char out[32])
{
    bool is_short = strlen(device) == 7 && device[2] == ':' && device[5] == '.';
    bool is_long = strlen(device) == 12 && device[4] == ':' && device[7] == ':' && device[10] == '.';

    snprintf(out, 32, "%s%.16s", is_short ? "0000:" : "", device);
    return is_short || is_long;
}

static void
examine_card(struct doctor *doctor, const char *device)
{
    char driver[DOCTOR_TEXT_BYTES] = "", address[32], text[DOCTOR_TEXT_BYTES];
    struct doctor_finding *finding =
        doctor_add(doctor, DOCTOR_GOOD, "card", "the port cannot be opened while the kernel has the card, or nobody");

    pci_address(device, address);
    doctor_wanted(finding, "a card bound to vfio-pci");
    if (!doctor_read(doctor, text, "/sys/bus/pci/devices/%s/vendor", address)) {
        finding->level = DOCTOR_WRONG;
        doctor_found(finding, "no PCI device %s", address);
        doctor_remedy(finding, "dpdk-devbind.py --status lists the cards; on EC2 attach a second ENA interface");
        return;
    }
    doctor_link(doctor, driver, "/sys/bus/pci/devices/%s/driver", address);
    bool bound = strcmp(driver, "vfio-pci") == 0;
    finding->level = bound ? DOCTOR_GOOD : DOCTOR_WRONG;
    doctor_found(finding, "%s is bound to %s", address, driver[0] == '\0' ? "no driver" : driver);
    doctor_remedy(finding,
                  "modprobe vfio-pci && dpdk-devbind.py -b vfio-pci %s; without an IOMMU first: echo 1 > "
                  "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode",
                  address);
    if (strcmp(text, "0x1d0f") == 0) { /* Amazon: ENA */
        finding = doctor_add(doctor, DOCTOR_ADVICE, "ena llq",
                             "without write combining ENA's low-latency queue costs throughput and latency");
        doctor_found(finding, "no file says whether this vfio-pci maps with write combining; Debian's does not");
        doctor_wanted(finding, "a vfio-pci with write combining");
        doctor_remedy(
            finding,
            "patch vfio-pci as amzn-drivers' userspace/dpdk does, see the README's page; a patched one: leave this be");
    }
}

static void
examine_interface(struct doctor *doctor, const char *device)
{
    const char *iface = strstr(device, "iface=");
    char name[32], text[DOCTOR_TEXT_BYTES];

    if (strncmp(device, "net_af_packet", 13) != 0 || iface == NULL) {
        return; /* taps are made by the port, files and rings need nothing */
    }
    snprintf(name, sizeof(name), "%.*s", (int)MIN(strcspn(iface + 6, ","), sizeof(name) - 1), iface + 6);
    bool is_there = doctor_read(doctor, text, "/sys/class/net/%s/operstate", name);
    bool is_up = is_there && strcmp(text, "down") != 0;
    struct doctor_finding *finding = doctor_add(doctor, is_up ? DOCTOR_GOOD : DOCTOR_WRONG, "card",
                                                "packets of an interface that is down go nowhere");
    doctor_found(finding, is_there ? "interface %s is %s" : "no interface %s%.0s", name, text);
    doctor_wanted(finding, "an interface that is up");
    doctor_remedy(finding, "ip link set %s up", name);
}

static void
examine_ethernet(struct doctor *doctor, const struct port_settings *port)
{
    char address[32], text[DOCTOR_TEXT_BYTES];
    uint64_t bits = 0;

    if (pci_address(port->device, address)) {
        examine_card(doctor, port->device);
        if (doctor_read(doctor, text, "/sys/bus/pci/devices/%s/numa_node", address)) {
            examine_place(doctor, "card", address, atoi(text));
        }
        return;
    }
    examine_interface(doctor, port->device);
    if (doctor_read(doctor, text, "/proc/self/status") && strstr(text, "CapEff:") != NULL) {
        bits = strtoull(strstr(text, "CapEff:") + 7, NULL, 16);
    }
    bool may = (bits & (1ull << CAP_NET_RAW)) && (bits & (1ull << CAP_NET_ADMIN));
    struct doctor_finding *finding = doctor_add(doctor, may ? DOCTOR_GOOD : DOCTOR_WRONG, "rights",
                                                "packet sockets and taps are refused without them");
    doctor_found(finding, may ? "CAP_NET_RAW and CAP_NET_ADMIN" : "not both CAP_NET_RAW and CAP_NET_ADMIN");
    doctor_wanted(finding, "both");
    doctor_remedy(finding, "AmbientCapabilities=CAP_NET_RAW CAP_NET_ADMIN in the unit, or setcap on the program");
}

static void
examine_places(struct doctor *doctor)
{
    char path[PATH_MAX], text[DOCTOR_TEXT_BYTES];

    snprintf(path, sizeof(path), "%s/sys/class/infiniband", doctor->root);
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.' &&
            doctor_read(doctor, text, "/sys/class/infiniband/%s/device/numa_node", entry->d_name)) {
            examine_place(doctor, "device", entry->d_name, atoi(text));
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

void
doctor_examine_devices(struct doctor *doctor)
{
    const struct settings *settings = doctor->settings;
    bool infiniband = false, bypass = false;

    for (uint32_t i = 0; i < settings->port_count; i++) {
        infiniband |= needs_infiniband(&settings->ports[i]);
        bypass = true;
    }
    if (infiniband) {
        examine_infiniband(doctor);
    }
    for (uint32_t i = 0; i < settings->port_count; i++) {
        if (settings->ports[i].type == PORT_FABRIC) {
            examine_provider(doctor, &settings->ports[i]);
        } else {
            examine_ethernet(doctor, &settings->ports[i]);
        }
    }
    if (!bypass) {
        struct doctor_finding *finding =
            doctor_add(doctor, DOCTOR_ADVICE, "fabric", "every request goes through the kernel");
        doctor_found(finding, "no fabric port in the settings");
        doctor_wanted(finding, "a port on the fabric device, where there is one");
        doctor_remedy(finding, "ports = ( { type = \"fabric\"; provider = \"efa\"; } ) in the settings");
    }
    examine_places(doctor);
}
