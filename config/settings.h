/* settings.h - everything an operator can choose, parsed and checked. */
#pragma once
#include "config/base.h"
#include "config/settings_table.h"

#define SETTING_TEXT_BYTES 256
#define SETTINGS_USERS_MAX 64
#define SETTINGS_WHY_BYTES 512

enum idle_policy { IDLE_SPIN, IDLE_YIELD, IDLE_ADAPTIVE };
enum port_type { PORT_FABRIC, PORT_ETHERNET };

/* One entry of the list `ports`. */
struct port_settings {
    enum port_type type;
    char name[32];     /* unique; default: the provider */
    char provider[32]; /* fabric: "shm", "net", "tcp;ofi_rxm", "udp;ofi_rxd", "efa", "efa-direct" */
    char node[64];     /* fabric: local address to bind; "" = the provider's choice */
    char domain[64];   /* fabric: device; "" = first */
    char send[16];     /* "auto", "inject", "send" */
    uint64_t rx_slots, tx_slots, sessions, frame_bytes; /* 0 = the default */
    uint64_t lease_ms;
};

/* One entry of the list `users`; user 0 is "default" and exists when auth.password is set. */
struct user_settings {
    char name[65];
    uint8_t sha256[32];
};

struct settings {
#define SETTING_FIELD_SIZE(field)             uint64_t field;
#define SETTING_FIELD_TIME(field)             uint64_t field;
#define SETTING_FIELD_COUNT(field)            uint64_t field;
#define SETTING_FIELD_BOOL(field)             bool field;
#define SETTING_FIELD_TEXT(field)             char field[SETTING_TEXT_BYTES];
#define SETTING_FIELD(field, name, kind, ...) SETTING_FIELD_##kind(field)
    SETTINGS_TABLE(SETTING_FIELD)
#undef SETTING_FIELD
    struct port_settings ports[LIMIT_PORTS];
    uint32_t port_count;
    struct user_settings users[SETTINGS_USERS_MAX];
    uint32_t user_count; /* 0: no AUTH needed */
    /* derived at boot */
    enum idle_policy idle;
    int cpus[LIMIT_LCORES]; /* CPU of each lcore */
    uint32_t cpu_count;
};
