/* doctor_ethernet.c - the card of an ethernet port, and the cards that the kernel keeps. */
#include "mgmt/doctor_probe.h"
#include <dirent.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* "0000:00:06.0" of "0000:00:06.0" or "00:06.0"; false: it is a virtual device. */
static bool
pci_address(const char *device, char out[32])
{
    bool is_short = strlen(device) == 7 && device[2] == ':' && device[5] == '.';
    bool is_long = strlen(device) == 12 && device[4] == ':' && device[7] == ':' && device[10] == '.';

    snprintf(out, 32, "%s%.16s", is_short ? "0000:" : "", device);
    return is_short || is_long;
}

/* Without an IOMMU vfio-pci takes a card only when told, and the program opens another device file. */
static void
examine_vfio(struct doctor *doctor, const char *address)
{
    char group[DOCTOR_TEXT_BYTES], allowed[DOCTOR_TEXT_BYTES], path[PATH_MAX];
    bool isolated = doctor_link(doctor, group, "/sys/bus/pci/devices/%s/iommu_group", address);

    bool known = doctor_read(doctor, allowed, "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
    bool may = isolated || allowed[0] == 'Y' || allowed[0] == '1';
    struct doctor_finding *finding = doctor_add(doctor, may ? DOCTOR_GOOD : DOCTOR_WRONG, "iommu",
                                                "vfio-pci refuses to let the program open the card");
    doctor_found(finding,
                 isolated ? "the card is behind an IOMMU, group %s"
                 : may    ? "no IOMMU, and vfio may do without%.0s"
                 : known  ? "no IOMMU, and vfio may not do without%.0s"
                          : "no IOMMU, and this kernel's vfio cannot do without%.0s",
                 group);
    doctor_wanted(finding, "an IOMMU, or enable_unsafe_noiommu_mode=1");
    doctor_remedy(finding, "%s",
                  known ? "sluice-appliance apply, or echo 1 > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode"
                        : "a kernel with CONFIG_VFIO_NOIOMMU=y, which Debian 12's has not, or a metal instance");

    snprintf(path, sizeof(path), "%s/dev/vfio/vfio", doctor->root);
    bool opens = access(path, R_OK | W_OK) == 0;
    finding = doctor_add(doctor, opens ? DOCTOR_GOOD : DOCTOR_WRONG, "vfio", "the program reaches the card through it");
    doctor_found(finding, opens ? "/dev/vfio/vfio may be opened" : "/dev/vfio/vfio may not be opened");
    doctor_wanted(finding, "/dev/vfio/vfio, readable and writable");
    doctor_remedy(finding, "modprobe vfio-pci; in a container: --device=/dev/vfio");
}

/* No file says how vfio-pci maps the card's memory. One that was built beside the kernel is taken for the patched one.
 */
static void
examine_llq(struct doctor *doctor)
{
    char taint[DOCTOR_TEXT_BYTES];
    bool foreign = doctor_read(doctor, taint, "/sys/module/vfio_pci/taint") && strchr(taint, 'O') != NULL;
    struct doctor_finding *finding =
        doctor_add(doctor, foreign ? DOCTOR_GOOD : DOCTOR_ADVICE, "ena llq",
                   "without write combining ENA's low-latency queue costs throughput and latency");

    doctor_found(finding, foreign ? "vfio-pci was built apart from the kernel: taken as patched"
                                  : "vfio-pci is the kernel's own, which does not map with write combining");
    doctor_wanted(finding, "a vfio-pci with write combining");
    doctor_remedy(finding, "build vfio-pci with the patch of amzn-drivers' userspace/dpdk, see README.md, \"On AWS\"");
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
                  "sluice-appliance apply, or modprobe vfio-pci && dpdk-devbind.py -b vfio-pci %s; without an IOMMU "
                  "first: echo 1 > "
                  "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode",
                  address);
    if (bound) {
        examine_vfio(doctor, address);
    }
    if (strcmp(text, "0x1d0f") == 0) { /* Amazon: ENA */
        examine_llq(doctor);
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

void
doctor_examine_ethernet(struct doctor *doctor, const struct port_settings *port)
{
    char address[32], text[DOCTOR_TEXT_BYTES];
    uint64_t bits = 0;

    if (pci_address(port->device, address)) {
        examine_card(doctor, port->device);
        if (doctor_read(doctor, text, "/sys/bus/pci/devices/%s/numa_node", address)) {
            doctor_examine_place(doctor, "card", address, atoi(text));
        }
        return;
    }
    examine_interface(doctor, port->device);
    if (doctor->dataplane != NULL) {
        return; /* the port is open; a process in its sandbox has no rights left, and needs none */
    }
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

/* ---- the kernel's own interfaces ---- */

static bool
coalescing_ask(const char *interface, struct doctor_coalescing *out)
{
    struct ethtool_coalesce answer = { .cmd = ETHTOOL_GCOALESCE };
    struct ifreq request = { .ifr_data = (char *)&answer };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface);
    bool known = fd >= 0 && ioctl(fd, SIOCETHTOOL, &request) == 0;
    if (fd >= 0) {
        close(fd);
    }
    out->rx_us = answer.rx_coalesce_usecs;
    out->tx_us = answer.tx_coalesce_usecs;
    out->adaptive_rx = answer.use_adaptive_rx_coalesce != 0;
    return known;
}

static void
examine_interface_coalescing(struct doctor *doctor, const char *interface)
{
    struct doctor_coalescing now;
    bool (*ask)(const char *, struct doctor_coalescing *) =
        doctor->coalescing == NULL ? coalescing_ask : doctor->coalescing;

    if (!ask(interface, &now)) {
        return;
    }
    bool waits = now.rx_us > 0 || now.tx_us > 0 || now.adaptive_rx;
    struct doctor_finding *finding = doctor_add(doctor, waits ? DOCTOR_ADVICE : DOCTOR_GOOD, "coalescing",
                                                "kernel TCP over it answers in steps of tens of microseconds");
    doctor_found(finding, "%.32s interrupts after %u us for received, %u us for sent packets%s", interface, now.rx_us,
                 now.tx_us, now.adaptive_rx ? ", adaptively" : "");
    doctor_wanted(finding, "at once");
    doctor_remedy(finding, "sluice-appliance apply, or ethtool -C %.32s adaptive-rx off rx-usecs 0 tx-usecs 0",
                  interface);
}

/* ENA's defaults are made for throughput. */
void
doctor_examine_coalescing(struct doctor *doctor)
{
    char path[PATH_MAX], driver[DOCTOR_TEXT_BYTES];
    struct dirent *entry;

    snprintf(path, sizeof(path), "%s/sys/class/net", doctor->root);
    DIR *dir = opendir(path);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.' && doctor_link(doctor, driver, "/sys/class/net/%s/device/driver", entry->d_name) &&
            strcmp(driver, "ena") == 0) {
            examine_interface_coalescing(doctor, entry->d_name);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}
