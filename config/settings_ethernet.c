#include "config/settings_parts.h"
#include <arpa/inet.h>

static bool
parse_ipv4(const char *text, uint8_t out[4])
{
    return inet_pton(AF_INET, text, out) == 1;
}

/* An address that one host may have in its subnet. */
static bool
is_host(const uint8_t bytes[4], uint32_t prefix_bits)
{
    uint32_t address = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
    uint32_t host = prefix_bits >= 31 ? 1 : address << prefix_bits >> prefix_bits;
    uint32_t all = prefix_bits >= 31 ? 0 : UINT32_MAX >> prefix_bits;

    return bytes[0] != 0 && bytes[0] != 127 && bytes[0] < 224 && host != 0 && host != all;
}

bool
ethernet_parse_address(const char *text, struct port_settings *port, char *why, size_t why_bytes)
{
    char quoted[QUOTE_BYTES], address[32];
    const char *slash = strchr(text, '/');
    uint64_t bits = 0;

    snprintf(address, sizeof(address), "%.*s", (int)(slash == NULL ? strlen(text) : (size_t)(slash - text)), text);
    bool good = slash != NULL && parse_ipv4(address, port->address) && unit_parse_count(slash + 1, &bits) == UNIT_OK &&
                bits >= 1 && bits <= 32;
    if (!good || !is_host(port->address, (uint32_t)bits)) {
        return complain(
            why, why_bytes,
            "address: %s is no host's address with the bits of its subnet, expected such as \"10.0.0.2/24\"",
            quote_text(quoted, text));
    }
    port->prefix_bits = (uint32_t)bits;
    return true;
}

bool
ethernet_parse_gateway(const char *text, struct port_settings *port, char *why, size_t why_bytes)
{
    char quoted[QUOTE_BYTES];

    port->has_gateway = strcmp(text, "none") != 0;
    if (!port->has_gateway) {
        return true;
    }
    if (!parse_ipv4(text, port->gateway)) {
        return complain(why, why_bytes, "gateway: %s is no IPv4 address, expected such as \"10.0.0.1\", or \"none\"",
                        quote_text(quoted, text));
    }
    uint32_t mask = htonl(UINT32_MAX << (32 - port->prefix_bits)), own, gateway;
    memcpy(&own, port->address, sizeof(own));
    memcpy(&gateway, port->gateway, sizeof(gateway));
    if (((own ^ gateway) & mask) != 0 || own == gateway) {
        return complain(why, why_bytes, "gateway: %s is %s, expected another host of the same subnet",
                        quote_text(quoted, text), own == gateway ? "the port itself" : "outside the port's subnet");
    }
    return true;
}

bool
ethernet_parse_mac(const char *text, struct port_settings *port, char *why, size_t why_bytes)
{
    char quoted[QUOTE_BYTES], end;
    unsigned bytes[6];

    port->has_mac = strcmp(text, "auto") != 0;
    if (!port->has_mac) {
        return true;
    }
    bool good = strlen(text) == 17 && sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%c", &bytes[0], &bytes[1], &bytes[2],
                                             &bytes[3], &bytes[4], &bytes[5], &end) == 6;
    if (!good || (bytes[0] & 1) != 0) {
        return complain(why, why_bytes,
                        "mac: %s is no address of one device, expected such as \"02:00:00:00:00:01\", or \"auto\"",
                        quote_text(quoted, text));
    }
    for (size_t i = 0; i < sizeof(port->mac); i++) {
        port->mac[i] = (uint8_t)bytes[i];
    }
    return true;
}

bool
ethernet_parse_listen(const char *text, struct port_settings *port, char *why, size_t why_bytes)
{
    char quoted[QUOTE_BYTES], word[16];

    port->listen_count = 0;
    if (strcmp(text, "auto") == 0) {
        return true;
    }
    for (const char *at = text;; at++) {
        size_t bytes = strcspn(at, ",");
        uint64_t number = 0;
        snprintf(word, sizeof(word), "%.*s", (int)MIN(bytes, sizeof(word) - 1), at);
        bool good = unit_parse_count(word, &number) == UNIT_OK && number >= 1 && number <= 65535;
        for (uint32_t i = 0; i < port->listen_count; i++) {
            good = good && port->listen[i] != number;
        }
        if (!good || port->listen_count == SETTINGS_LISTEN_MAX) {
            return complain(why, why_bytes,
                            "listen: %s is no list of TCP ports, expected 1 to %d different numbers from 1 to 65535 "
                            "with commas between, or \"auto\"",
                            quote_text(quoted, text), SETTINGS_LISTEN_MAX);
        }
        port->listen[port->listen_count++] = (uint16_t)number;
        at += bytes;
        if (*at == '\0') {
            return true;
        }
    }
}

static void
print_ipv4(const uint8_t bytes[4], char out[SETTING_PRINT_BYTES])
{
    snprintf(out, SETTING_PRINT_BYTES, "%u.%u.%u.%u", bytes[0], bytes[1], bytes[2], bytes[3]);
}

void
ethernet_print_address(const struct port_settings *port, char out[SETTING_PRINT_BYTES])
{
    print_ipv4(port->address, out);
    size_t used = strlen(out);
    snprintf(out + used, SETTING_PRINT_BYTES - used, "/%u", port->prefix_bits);
}

void
ethernet_print_gateway(const struct port_settings *port, char out[SETTING_PRINT_BYTES])
{
    if (port->has_gateway) {
        print_ipv4(port->gateway, out);
    } else {
        strcpy(out, "none");
    }
}

void
ethernet_print_mac(const struct port_settings *port, char out[SETTING_PRINT_BYTES])
{
    const uint8_t *mac = port->mac;

    if (port->has_mac) {
        snprintf(out, SETTING_PRINT_BYTES, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
                 mac[5]);
    } else {
        strcpy(out, "auto");
    }
}

void
ethernet_print_listen(const struct port_settings *port, char out[SETTING_PRINT_BYTES])
{
    size_t used = 0;

    strcpy(out, "auto");
    for (uint32_t i = 0; i < port->listen_count; i++) {
        used += (size_t)snprintf(out + used, SETTING_PRINT_BYTES - used, "%s%u", i ? "," : "", port->listen[i]);
    }
}
