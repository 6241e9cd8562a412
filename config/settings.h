/* settings.h - everything an operator can choose, parsed and checked. */
#pragma once
#include "config/address.h"
#include "config/base.h"
#include "config/host.h"
#include "config/settings_table.h"

#define SETTING_TEXT_BYTES     256
#define SETTINGS_USERS_MAX     64
#define SETTINGS_WHY_BYTES     512
#define SETTING_PLACE_BYTES    320
#define SETTINGS_ADDRESSES_MAX 16

enum idle_policy { IDLE_SPIN, IDLE_YIELD, IDLE_ADAPTIVE };
enum port_type { PORT_FABRIC, PORT_ETHERNET };

#define SETTINGS_LISTEN_MAX 8

/* One entry of the list `ports`. */
struct port_settings {
    enum port_type type;
    char name[32];     /* unique; default: the provider, or "ethernet" */
    uint64_t sessions; /* 0 = the default */

    /* fabric */
    char provider[32];                        /* one of PORT_SETTING_CHOICES */
    char node[64];                            /* local address to bind; "" = the provider's choice */
    char domain[64];                          /* device; "" = first */
    char send[16];                            /* "auto", "inject", "send" */
    uint64_t rx_slots, tx_slots, frame_bytes; /* 0 = the default */
    uint64_t lease_ms;

    /* ethernet */
    char device[SETTING_TEXT_BYTES];
    char eal[SETTING_TEXT_BYTES]; /* "" = nothing beyond what is derived */
    uint8_t address[4], gateway[4], mac[6];
    uint32_t prefix_bits;
    bool has_gateway, has_mac;
    uint64_t mtu, rx_descriptors, tx_descriptors, lcore;
    uint16_t listen[SETTINGS_LISTEN_MAX]; /* none = auto, until settings_resolve() */
    uint32_t listen_count;
};

/* One entry of the list `users`; user 0 is "default" and exists when auth.password is set. */
struct user_settings {
    char name[65];
    uint8_t sha256[32];
};

enum setting_kind { SETTING_SIZE, SETTING_TIME, SETTING_COUNT, SETTING_BOOL, SETTING_TEXT, SETTING_CHOICE };

/* A row of settings_table.h. */
struct setting {
    const char *name;
    enum setting_kind kind;
    const char *initial; /* the default, as in a file */
    uint64_t min, max;
    bool live; /* may change while the program runs */
    const char *help;
    const char *const *choices;
    size_t choice_count;
    size_t offset; /* of the field in its struct */
};

enum setting_id {
#define SETTING_ID(field, ...) SETTING_ID_##field,
    SETTINGS_TABLE(SETTING_ID)
#undef SETTING_ID
        SETTINGS_COUNT
};
extern const struct setting settings_table[SETTINGS_COUNT];

/* Where a value comes from. */
enum setting_origin { SETTING_BY_DEFAULT, SETTING_BY_FILE, SETTING_BY_OVERRIDE, SETTING_BY_CHANGE };

struct settings {
#define SETTING_FIELD_SIZE(field)             uint64_t field;
#define SETTING_FIELD_TIME(field)             uint64_t field;
#define SETTING_FIELD_COUNT(field)            uint64_t field;
#define SETTING_FIELD_BOOL(field)             bool field;
#define SETTING_FIELD_TEXT(field)             char field[SETTING_TEXT_BYTES];
#define SETTING_FIELD_CHOICE(field)           char field[SETTING_TEXT_BYTES];
#define SETTING_FIELD(field, name, kind, ...) SETTING_FIELD_##kind(field)
    SETTINGS_TABLE(SETTING_FIELD)
#undef SETTING_FIELD
    struct port_settings ports[LIMIT_PORTS];
    uint32_t port_count;
    struct user_settings users[SETTINGS_USERS_MAX];
    uint32_t user_count; /* 0: no AUTH needed */

    /* derived by settings_resolve() */
    int cpus[LIMIT_LCORES]; /* CPU of each lcore */
    uint32_t cpu_count;
    struct address addresses[SETTINGS_ADDRESSES_MAX]; /* of streams.address */
    uint32_t address_count;
    uint32_t management_mode_bits, streams_unix_mode_bits;
    bool reserve_by_host; /* memory.reserve was "auto" */
    bool exposed;         /* a stream address is beyond loopback, or there is an ethernet port */

    enum setting_origin origins[SETTINGS_COUNT];
    char places[SETTINGS_COUNT][SETTING_PLACE_BYTES]; /* "file:line" of those by a file, for messages */
};

/* Read `path` (NULL: no file), then `overrides` ("group.name=value", or "ports=( ... )" and "users=( ... )" in the
 * file's syntax), check everything and decide what is "auto".
 *
 * Returns  0, or -1 with one sentence in `why`: "file:line: what is wrong, what is expected, the nearest name".
 *          On error *out is unspecified.
 * Passwords are kept as SHA-256 only; auth_password then reads "#" and its hex digits. */
int settings_load(const char *path, const char *const *overrides, size_t override_count, struct settings *out,
                  char *why, size_t why_bytes);

/* The two halves of settings_load(), for tests: what was written, and what follows from it on a given host. */
int settings_parse(const char *path, const char *const *overrides, size_t override_count, struct settings *out,
                   char *why, size_t why_bytes);
int settings_resolve(struct settings *settings, const struct host *host, char *why, size_t why_bytes);

/* As settings_load(), for settings that may be another host's: what this host cannot do (its CPUs, a share of its
 * memory) is a sentence in `here` instead of an error, "" when it can do all. *out is for reading only. */
int settings_check(const char *path, const char *const *overrides, size_t override_count, struct settings *out,
                   char *why, size_t why_bytes, char *here, size_t here_bytes);
/* Its second half, as settings_resolve() is that of settings_load(). */
int settings_resolve_elsewhere(struct settings *settings, const struct host *host, char *why, size_t why_bytes,
                               char *here, size_t here_bytes);

/* Call `each` for the file at `path` and for every one that it includes, as far as they can be read. */
void settings_list_files(const char *path, void (*each)(void *context, const char *file), void *context);

/* The part of settings_resolve() that decides settings->cpus. */
bool settings_resolve_cpus(struct settings *settings, const struct host *host, char *why, size_t why_bytes);

/* Change one live setting of a running program, checked against the others and the host as at start; with lcores.cpus
 * also settings->cpus, as many as before. False: `why` says what is wrong and nothing was changed. */
bool setting_change(struct settings *settings, const struct setting *setting, const char *value,
                    const struct host *host, char *why, size_t why_bytes);

/* By full name; NULL: none. */
const struct setting *setting_find(const char *name);

/* A setting's value as one would write it, without quotes. Passwords come as "#" and hex digits. Returns `out`. */
#define SETTING_PRINT_BYTES (SETTING_TEXT_BYTES + 16)
const char *setting_print(const struct settings *settings, const struct setting *setting,
                          char out[SETTING_PRINT_BYTES]);

/* The whole as a configuration file that reads back to the same settings, with comments. */
void settings_print(const struct settings *settings, FILE *out);

enum idle_policy settings_idle_policy(const struct settings *settings);

/* Write one value into the file that settings_load() would read at `path`: in the place of the value that stands there
 * or in one of its includes, else into its group. Comments, order and includes stay. The new file is complete on the
 * disk before it takes the old one's name, with its mode and owner: a crash leaves the old file or the new one.
 *
 * Returns  false with a sentence in `why`, and every file as it was. */
bool settings_save(const char *path, const struct setting *setting, const char *value, char *why, size_t why_bytes);

/* For people: "a size from 4MiB to 64GiB". */
#define SETTING_EXPECT_BYTES 192
const char *setting_expectation(const struct setting *setting, char out[SETTING_EXPECT_BYTES]);
