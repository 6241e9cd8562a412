/* ethernet_dpdk_eal_boot.c - starting DPDK's environment for one device: control path. */
#include "config/limits.h"
#include "dataplane/ethernet_dpdk_private.h"
#include <ctype.h>
#include <errno.h>
#include <net/if.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <unistd.h>

#define ARGUMENTS_MAX  64
#define HUGE_BYTES     (2 * MIB)
#define OVERHEAD_BYTES (24 * MIB) /* of EAL and drivers beyond the frames; measured 12 to 18 */
#define CAP_NET_ADMIN  12
#define CAP_NET_RAW    13

/* ---- messages ---- */

static int log_fd = -1;
static char last_message[160];

static ssize_t
message_write(void *cookie, const char *text, size_t bytes)
{
    size_t printed = bytes;

    while (printed > 0 && isspace((unsigned char)text[printed - 1])) {
        printed--;
    }
    if (printed > 0) {
        snprintf(last_message, sizeof(last_message), "%.*s", (int)printed, text);
    }
    ssize_t written = write(log_fd, text, bytes); /* a full pipe loses the message */
    (void)written;
    return (ssize_t)bytes;
}

static int
messages_open(int fd)
{
    cookie_io_functions_t functions = { .write = message_write };
    FILE *stream = fopencookie(NULL, "w", functions);

    if (stream == NULL) {
        return -ENOMEM;
    }
    log_fd = fd;
    setvbuf(stream, NULL, _IOLBF, BUFSIZ);
    rte_log_set_global_level(RTE_LOG_NOTICE);
    return rte_openlog_stream(stream);
}

const char *
eal_last_message(void)
{
    return last_message[0] != '\0' ? last_message : "no message";
}

void
eal_adopt(bool take)
{
    RTE_PER_LCORE(_lcore_id) = take ? rte_get_main_lcore() : LCORE_ID_ANY;
}

/* ---- what must be there before ---- */

static bool
read_line(const char *path, char *out, size_t out_bytes)
{
    FILE *file = fopen(path, "re");
    bool good = file != NULL && fgets(out, (int)out_bytes, file) != NULL;

    if (file != NULL) {
        fclose(file);
    }
    return good;
}

static bool
has_capability(unsigned capability)
{
    char line[128];
    unsigned long long mask = ~0ull;
    FILE *file = fopen("/proc/self/status", "re");

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "CapEff: %llx", &mask) == 1) {
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return (mask >> capability & 1) != 0;
}

static bool
is_pci(const char *device)
{
    unsigned domain, bus, slot, function;
    char end;

    return sscanf(device, "%x:%x:%x.%x%c", &domain, &bus, &slot, &function, &end) == 4 ||
           sscanf(device, "%x:%x.%x%c", &bus, &slot, &function, &end) == 3;
}

static int
check_pci(const char *device, char *why, size_t why_bytes)
{
    char path[96], target[256];
    const char *full = strchr(device, ':') != strrchr(device, ':') ? "" : "0000:";

    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s%.32s", full, device);
    if (access(path, F_OK) != 0) {
        snprintf(why, why_bytes, "%s: no such PCI device; `dpdk-devbind.py --status-dev net` lists them", device);
        return -ENODEV;
    }
    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s%.32s/driver", full, device);
    ssize_t bytes = readlink(path, target, sizeof(target) - 1);
    target[MAX(bytes, 0)] = '\0';
    const char *driver = strrchr(target, '/') != NULL ? strrchr(target, '/') + 1 : "none";
    if (strcmp(driver, "vfio-pci") != 0 && strcmp(driver, "igb_uio") != 0 && strcmp(driver, "uio_pci_generic") != 0) {
        snprintf(why, why_bytes,
                 "%s is bound to the kernel's driver %s, expected vfio-pci: take its addresses away, then `modprobe "
                 "vfio-pci && dpdk-devbind.py -b vfio-pci %s`",
                 device, driver, device);
        return -EBUSY;
    }
    return 0;
}

static int
check_vdev(const char *device, char *why, size_t why_bytes)
{
    static const char *const drivers[] = { "net_af_packet", "net_tap", "net_pcap", "net_ring" };
    const char *iface = strstr(device, ",iface=");
    char name[IF_NAMESIZE] = "";
    size_t kind = 0;

    while (kind < ARRAY_COUNT(drivers) && strncmp(device, drivers[kind], strlen(drivers[kind])) != 0) {
        kind++;
    }
    if (kind == ARRAY_COUNT(drivers)) {
        snprintf(why, why_bytes,
                 "%s: expected a PCI address such as 0000:00:06.0, or a virtual device that begins with net_af_packet, "
                 "net_tap, net_pcap or net_ring",
                 device);
        return -EINVAL;
    }
    if (kind < 2 && (!has_capability(CAP_NET_RAW) || !has_capability(CAP_NET_ADMIN))) {
        snprintf(why, why_bytes,
                 "%s needs the capabilities CAP_NET_RAW and CAP_NET_ADMIN: start as root, or `setcap "
                 "cap_net_raw,cap_net_admin+ep` the program",
                 drivers[kind]);
        return -EPERM;
    }
    if (iface != NULL) {
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(iface + 7, ","), iface + 7);
    }
    if (kind == 0 && if_nametoindex(name) == 0) {
        snprintf(why, why_bytes, "%s: there is no interface \"%s\"; `ip link` lists them", device, name);
        return -ENODEV;
    }
    return 0;
}

/* ---- memory ---- */

static uint64_t
huge_pages_free(void)
{
    char free_line[32] = "0", promised_line[32] = "0";

    read_line("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", free_line, sizeof(free_line));
    read_line("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", promised_line, sizeof(promised_line));
    uint64_t free_pages = strtoull(free_line, NULL, 10), promised = strtoull(promised_line, NULL, 10);
    return free_pages > promised ? free_pages - promised : 0;
}

/* ---- arguments ---- */

struct arguments {
    char text[ETHERNET_EAL_MAX];
    size_t used;
    char *list[ARGUMENTS_MAX];
    int count;
    const char *given; /* by the operator */
};

/* Whether an option stands among the operator's words. */
static bool
is_given(const char *given, const char *option)
{
    size_t bytes = strlen(option);

    for (const char *at = strstr(given, option); at != NULL; at = strstr(at + 1, option)) {
        if ((at == given || at[-1] == ' ') && (at[bytes] == '\0' || at[bytes] == ' ' || at[bytes] == '=')) {
            return true;
        }
    }
    return false;
}

static bool
add_word(struct arguments *arguments, const char *word, size_t bytes)
{
    if (arguments->count == ARGUMENTS_MAX - 1 || arguments->used + bytes + 1 > sizeof(arguments->text)) {
        return false;
    }
    char *at = arguments->text + arguments->used;
    memcpy(at, word, bytes);
    at[bytes] = '\0';
    arguments->used += bytes + 1;
    arguments->list[arguments->count++] = at;
    return true;
}

/* An option and its value ("" for none), unless the operator gave that option. */
static bool
derive(struct arguments *arguments, const char *option, const char *value)
{
    if (is_given(arguments->given, option)) {
        return true;
    }
    return add_word(arguments, option, strlen(option)) &&
           (value[0] == '\0' || add_word(arguments, value, strlen(value)));
}

/* The EAL prints its usage or its version and exits with 0, as if all had been well. */
static bool
ends_the_program(const char *word, size_t bytes)
{
    static const char *const words[] = { "--help", "-h", "--version", "-v" };

    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        if (strlen(words[i]) == bytes && memcmp(word, words[i], bytes) == 0) {
            return true;
        }
    }
    return false;
}

static bool
add_given(struct arguments *arguments)
{
    for (const char *at = arguments->given; *at != '\0';) {
        size_t bytes = strcspn(at, " ");
        if (ends_the_program(at, bytes)) {
            return false;
        }
        if (bytes > 0 && !add_word(arguments, at, bytes)) {
            return false;
        }
        at += bytes + (at[bytes] != '\0');
    }
    return true;
}

static bool
arguments_derive(struct arguments *arguments, const struct ethernet_config *config, bool huge, uint64_t bytes)
{
    char lcores[32], megabytes[32];
    bool pci = is_pci(config->device);
    bool good = derive(arguments, "--lcores", (snprintf(lcores, sizeof(lcores), "0@%d", config->cpu), lcores)) &&
                derive(arguments, "--no-telemetry", "");

    snprintf(megabytes, sizeof(megabytes), "%llu", (unsigned long long)((bytes + MIB - 1) / MIB));
    if (huge && !is_given(arguments->given, "--no-huge")) {
        good = good && derive(arguments, "--in-memory", "");
    } else if (!is_given(arguments->given, "--in-memory")) {
        good = good && derive(arguments, "--no-huge", "") && derive(arguments, "--no-shconf", "") &&
               derive(arguments, "-m", megabytes);
    }
    if (pci) {
        good = good && derive(arguments, "-a", config->device);
    } else {
        good = good && derive(arguments, "--no-pci", "") && derive(arguments, "--vdev", config->device);
    }
    return good && add_given(arguments);
}

static void
arguments_show(const struct arguments *arguments, char *out, size_t out_bytes)
{
    size_t used = 0;

    out[0] = '\0';
    for (int i = 1; i < arguments->count && used < out_bytes; i++) {
        used += (size_t)snprintf(out + used, out_bytes - used, "%s%s", i > 1 ? " " : "", arguments->list[i]);
    }
}

int
eal_open(const struct ethernet_config *config, uint64_t pool_bytes, struct ethernet_info *info, char *why,
         size_t why_bytes)
{
    static struct arguments arguments; /* EAL keeps pointers into it */
    static char program[] = "sluiced";
    uint64_t bytes = pool_bytes + OVERHEAD_BYTES;
    uint64_t pages = (bytes + HUGE_BYTES - 1) / HUGE_BYTES;
    bool huge = config->huge_pages && huge_pages_free() >= pages;
    int rc =
        is_pci(config->device) ? check_pci(config->device, why, why_bytes) : check_vdev(config->device, why, why_bytes);

    if (rc != 0) {
        return rc;
    }
    rc = messages_open(config->log_fd);
    arguments = (struct arguments){ .given = config->eal, .list = { program }, .count = 1 };
    if (rc != 0 || !arguments_derive(&arguments, config, huge, bytes)) {
        snprintf(why, why_bytes,
                 "the arguments of the EAL are too many, or ask for its help or version; expected at most %d words and "
                 "%d bytes",
                 ARGUMENTS_MAX - 2, ETHERNET_EAL_MAX);
        return -E2BIG;
    }
    arguments_show(&arguments, info->eal, sizeof(info->eal));
    if (huge) {
        snprintf(info->memory, sizeof(info->memory), "%llu huge pages of 2 MiB", (unsigned long long)pages);
    } else {
        snprintf(info->memory, sizeof(info->memory), "%llu MiB of small pages: %s", (unsigned long long)(bytes / MIB),
                 config->huge_pages ? "fewer huge pages are free than it takes, TLB misses cost a few ns a packet"
                                    : "memory.huge_pages is false");
    }
    if (rte_eal_init(arguments.count, arguments.list) < 0) {
        snprintf(why, why_bytes, "%s: DPDK's EAL does not start with \"%s\": %s (%s)", config->device, info->eal,
                 rte_strerror(rte_errno), eal_last_message());
        return -ENODEV;
    }
    return 0;
}
