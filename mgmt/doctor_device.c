/* doctor_device.c - is there the fabric device that each port asks for, may it be opened, and is it near? */
#include "dataplane/dataplane.h"
#include "dataplane/endpoint.h"
#include "mgmt/doctor_probe.h"
#include <dirent.h>
#include <limits.h>
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

/* The adapter itself: its driver has it, and its link is up. */
static void
examine_efa(struct doctor *doctor)
{
    char path[PATH_MAX], driver[DOCTOR_TEXT_BYTES], state[DOCTOR_TEXT_BYTES], name[64] = "", seen[64] = "";
    struct dirent *entry;

    snprintf(path, sizeof(path), "%s/sys/class/infiniband", doctor->root);
    DIR *dir = opendir(path);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.' &&
            doctor_link(doctor, driver, "/sys/class/infiniband/%s/device/driver", entry->d_name) &&
            strcmp(driver, "efa") == 0) {
            snprintf(name, sizeof(name), "%.63s", entry->d_name);
            doctor_read(doctor, state, "/sys/class/infiniband/%s/ports/1/state", name);
            snprintf(seen, sizeof(seen), "%.63s", state);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    bool active = strstr(seen, "ACTIVE") != NULL;
    struct doctor_finding *finding =
        doctor_add(doctor, active ? DOCTOR_GOOD : DOCTOR_WRONG, "efa", "the fabric port has nothing to send through");
    doctor_found(finding, name[0] == '\0' ? "no EFA device with the driver efa" : "%s: %s", name, seen);
    doctor_wanted(finding, "one EFA device, ACTIVE");
    doctor_remedy(finding,
                  "launch the instance with an interface of type efa (it cannot be attached later); modprobe efa");
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
    bool (*try)(const struct port_settings *, struct endpoint_info *, char *, size_t) =
        doctor->provider == NULL ? provider_try : doctor->provider;
    if (try(settings, &tried, why, sizeof(why))) {
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

void
doctor_examine_place(struct doctor *doctor, const char *what, const char *device, int device_node)
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
            doctor_examine_place(doctor, "device", entry->d_name, atoi(text));
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
    bool infiniband = false, efa = false, bypass = false;

    for (uint32_t i = 0; i < settings->port_count; i++) {
        infiniband |= needs_infiniband(&settings->ports[i]);
        efa |= strncmp(settings->ports[i].provider, "efa", 3) == 0;
        bypass = true;
    }
    if (infiniband) {
        examine_infiniband(doctor);
    }
    if (efa) {
        examine_efa(doctor);
    }
    for (uint32_t i = 0; i < settings->port_count; i++) {
        if (settings->ports[i].type == PORT_FABRIC) {
            examine_provider(doctor, &settings->ports[i]);
        } else {
            doctor_examine_ethernet(doctor, &settings->ports[i]);
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
    if (doctor->dataplane == NULL) { /* one that serves is locked in, and may not ask interfaces */
        doctor_examine_coalescing(doctor);
    }
}
