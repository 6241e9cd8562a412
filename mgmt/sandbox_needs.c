/* sandbox_needs.c - what the ports of the settings need once they are open. */
#include "mgmt/sandbox_private.h"

const char *const sandbox_need_names[SANDBOX_NEED_COUNT] = {
#define NEED_NAME(id, name) name,
    SANDBOX_NEEDS(NEED_NAME)
#undef NEED_NAME
};

static uint32_t
needs_of_fabric(const char *provider)
{
    static const char *const devices[] = { "efa", "efa-direct", "verbs;ofi_rxm" };

    for (size_t i = 0; i < ARRAY_COUNT(devices); i++) {
        if (strcmp(provider, devices[i]) == 0) {
            return SANDBOX_FABRIC_DEVICE;
        }
    }
    return strcmp(provider, "shm") == 0 ? SANDBOX_SHM : SANDBOX_FABRIC;
}

static uint32_t
needs_of_ethernet(const char *device)
{
    static const struct {
        const char *driver;
        uint32_t need;
    } drivers[] = { { "net_af_packet", SANDBOX_AF_PACKET },
                    { "net_tap", SANDBOX_TAP },
                    { "net_pcap", SANDBOX_PCAP },
                    { "net_ring", 0 } };

    for (size_t i = 0; i < ARRAY_COUNT(drivers); i++) {
        if (strncmp(device, drivers[i].driver, strlen(drivers[i].driver)) == 0) {
            return drivers[i].need;
        }
    }
    return SANDBOX_PCI;
}

uint32_t
sandbox_needs_of_port(const struct port_settings *port)
{
    return port->type == PORT_ETHERNET ? needs_of_ethernet(port->device) : needs_of_fabric(port->provider);
}

uint32_t
sandbox_needs_of_lcore(const struct settings *settings, bool has_streams, uint32_t lcore)
{
    uint32_t needs = SANDBOX_BASE | SANDBOX_IDLE | (has_streams ? SANDBOX_SOCKET : 0);

    for (uint32_t i = 0; i < settings->port_count; i++) {
        const struct port_settings *port = &settings->ports[i];
        if (port->type == PORT_FABRIC || port->lcore == lcore) {
            needs |= sandbox_needs_of_port(port);
        }
    }
    return needs;
}

bool
sandbox_has_ethernet(const struct settings *settings, uint32_t lcore)
{
    for (uint32_t i = 0; i < settings->port_count; i++) {
        if (settings->ports[i].type == PORT_ETHERNET && settings->ports[i].lcore == lcore) {
            return true;
        }
    }
    return false;
}
