/* port_ethernet_boot.c - opening and closing the port, and what the management core asks now and then: control path. */
#include "dataplane/ethernet.h"
#include "dataplane/module.h"
#include "dataplane/port_ethernet_private.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define SESSIONS_DEFAULT 4096
static_assert(ETHERNET_LISTEN_MAX >= SETTINGS_LISTEN_MAX, "every listen port of the settings fits");

static void
config_fill(const struct ethernet_port *port, const struct ethernet_module *module, struct ethernet_config *config)
{
    const struct port_settings *settings = port->settings;
    const struct lcore *lcore = port->port.lcore;

    *config = (struct ethernet_config){
        .device_ops = module->device,
        .device = settings->device,
        .prefix_bits = settings->prefix_bits,
        .has_gateway = settings->has_gateway,
        .has_mac = settings->has_mac,
        .mtu = (uint32_t)settings->mtu,
        .rx_descriptors = (uint32_t)settings->rx_descriptors,
        .tx_descriptors = (uint32_t)settings->tx_descriptors,
        .sessions = settings->sessions != 0 ? (uint32_t)settings->sessions : SESSIONS_DEFAULT,
        .listen_count = settings->listen_count,
        .eal = settings->eal,
        .cpu = lcore->cpu,
        .node = lcore->node,
        .huge_pages = lcore->settings->memory_huge,
        .refusal = SESSION_REFUSAL,
        .keepalive_ms = SESSION_KEEPALIVE_S * 1000,
        .handlers = &ethernet_port_handlers,
        .port = (void *)port,
        .log_fd = port->log_fd[1],
    };
    memcpy(config->address, settings->address, sizeof(config->address));
    memcpy(config->gateway, settings->gateway, sizeof(config->gateway));
    memcpy(config->mac, settings->mac, sizeof(config->mac));
    memcpy(config->listen, settings->listen, settings->listen_count * sizeof(config->listen[0]));
}

/* For `sluicectl ports`: constant since boot. */
static void
port_describe(struct ethernet_port *port)
{
    struct port_info *info = &port->port.info;
    const uint8_t *address = port->settings->address;

    port->ops->info(port->ethernet, &port->info);
    snprintf(info->type, sizeof(info->type), "ethernet");
    snprintf(info->provider, sizeof(info->provider), "%s", port->info.driver);
    snprintf(info->address, sizeof(info->address), "%u.%u.%u.%u/%u", address[0], address[1], address[2], address[3],
             port->settings->prefix_bits);
    info->rx_slots = port->info.rx_descriptors;
    info->tx_slots = port->info.tx_descriptors;
    info->frame_bytes = port->info.mtu;
    port->port.makes_calls = port->info.makes_calls;
}

int
port_ethernet_open_on(const struct ethernet_module *module, struct lcore *lcore, const struct port_settings *settings,
                      struct port **out, char *why, size_t why_bytes)
{
    struct ethernet_port *port = calloc(1, sizeof(*port));
    struct ethernet_config config;
    struct ambience ambience;
    char reason[SETTINGS_WHY_BYTES];

    if (port == NULL || pipe2(port->log_fd, O_CLOEXEC | O_NONBLOCK) != 0) {
        free(port);
        snprintf(why, why_bytes, "ethernet port '%s': no memory or descriptors", settings->name);
        return -ENOMEM;
    }
    port->port.ops = &ethernet_port_ops;
    port->port.lcore = lcore;
    port->ops = module->ops;
    port->settings = settings;
    port->ms_per_cycle = lcore->dataplane->ns_per_cycle / 1000000;
    port->waiting_tail = &port->waiting;
    port->listening = true;
    config_fill(port, module, &config);
    ambience_save(&ambience);
    int rc = module->ops->open(&config, &port->ethernet, reason, sizeof(reason));
    ambience_restore(&ambience);
    if (rc != 0) {
        snprintf(why, why_bytes, "ethernet port '%s': %s", settings->name, reason);
        ethernet_port_close(&port->port);
        return rc;
    }
    port_describe(port);
    port->ops->capture(port->ethernet, &port->capture);
    ethernet_port_refresh(&port->port);
    *out = &port->port;
    return 0;
}

int
port_ethernet_open(struct lcore *lcore, const struct port_settings *settings, struct port **out, char *why,
                   size_t why_bytes)
{
    char reason[SETTINGS_WHY_BYTES];
    const struct ethernet_module *module =
        module_open(ETHERNET_MODULE_FILE, ETHERNET_MODULE_SYMBOL,
                    "it is built where libdpdk-dev is installed (meson setup -Ddpdk=enabled)", reason, sizeof(reason));

    if (module != NULL && module->abi != ETHERNET_ABI) {
        snprintf(reason, sizeof(reason), "%s is of another version of Sluice: install both from one build",
                 ETHERNET_MODULE_FILE);
        module = NULL;
    }
    if (module == NULL) {
        snprintf(why, why_bytes, "ethernet port '%s': %s", settings->name, reason);
        return -ENOENT;
    }
    return port_ethernet_open_on(module, lcore, settings, out, why, why_bytes);
}

void
ethernet_port_close(struct port *base)
{
    struct ethernet_port *port = ethernet_port_of(base);

    if (port->ethernet != NULL) {
        port->ops->close(port->ethernet);
    }
    close(port->log_fd[0]);
    close(port->log_fd[1]);
    capture_fini(&port->capture);
    free(port);
}

/* ---- management core ---- */

void
ethernet_port_refresh(struct port *base)
{
    struct ethernet_port *port = ethernet_port_of(base);
    struct ethernet_hardware *hardware = &port->hardware;
    struct lcore_counters *counters = base->lcore->counters;

    port->ops->refresh(port->ethernet, hardware);
    store_relaxed(&counters->ethernet_rx_missed, hardware->rx_missed);
    store_relaxed(&counters->ethernet_rx_errors, hardware->rx_errors);
    store_relaxed(&counters->ethernet_rx_no_frame, hardware->rx_no_frame);
    store_relaxed(&counters->ethernet_tx_errors, hardware->tx_errors);
    store_relaxed(&counters->ethernet_device_resets, hardware->resets);
    store_relaxed(&counters->ethernet_link_changes, hardware->link_changes);
}

const struct port_settings *
port_ethernet_settings(const struct port *port)
{
    return port->ops == &ethernet_port_ops ? ethernet_port_of(port)->settings : NULL;
}

const struct ethernet_info *
port_ethernet_info(const struct port *port)
{
    return port->ops == &ethernet_port_ops ? &ethernet_port_of(port)->info : NULL;
}

const struct ethernet_hardware *
port_ethernet_hardware(const struct port *port)
{
    return &ethernet_port_of(port)->hardware;
}

struct capture *
port_ethernet_capture(struct port *port)
{
    return &ethernet_port_of(port)->capture;
}

int
port_ethernet_log_fd(const struct port *port)
{
    return ethernet_port_of(port)->log_fd[0];
}
