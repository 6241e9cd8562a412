#include "config/paths.h"
#include "config/settings_parts.h"

/* What limit and ahead are to a reserve that is known. */
static bool
check_memory(struct settings *settings, char *why, size_t why_bytes)
{
    char a[UNIT_TEXT_BYTES], b[UNIT_TEXT_BYTES];

    if (settings->memory_limit == 0) {
        settings->memory_limit = settings->memory_reserve;
    }
    if (settings->memory_limit > settings->memory_reserve) {
        return complain_about(settings, SETTING_ID_memory_limit, why, why_bytes,
                              "%s is more than memory.reserve, expected at most %s",
                              unit_print_size(a, settings->memory_limit), unit_print_size(b, settings->memory_reserve));
    }
    if (settings->origins[SETTING_ID_memory_ahead] == SETTING_BY_DEFAULT) {
        settings->memory_ahead = MIN(settings->memory_ahead, settings->memory_reserve / 4);
    }
    if (settings->memory_ahead > settings->memory_reserve / 2) {
        return complain_about(settings, SETTING_ID_memory_ahead, why, why_bytes,
                              "%s is more than half of memory.reserve, expected at most %s",
                              unit_print_size(a, settings->memory_ahead),
                              unit_print_size(b, settings->memory_reserve / 2));
    }
    return true;
}

static bool
check_reservable(const struct settings *settings, const struct host *host, char *why, size_t why_bytes)
{
    char a[UNIT_TEXT_BYTES], b[UNIT_TEXT_BYTES];

    if (host->reservable_bytes != 0 && settings->memory_reserve > host->reservable_bytes) {
        return complain_about(settings, SETTING_ID_memory_reserve, why, why_bytes,
                              "%s of address space cannot be reserved, expected at most %s, or a higher ulimit -v, or "
                              "vm.overcommit_memory other than 2",
                              unit_print_size(a, settings->memory_reserve), unit_print_size(b, host->reservable_bytes));
    }
    return true;
}

/* A reserve of "auto" is the host's. */
static bool
resolve_memory(struct settings *settings, const struct host *host, char *why, size_t why_bytes)
{
    const struct setting *reserve = &settings_table[SETTING_ID_memory_reserve];
    char a[UNIT_TEXT_BYTES], b[UNIT_TEXT_BYTES];

    if (settings->memory_reserve != 0) {
        return true;
    }
    /* Whole 2 MiB pages, so that the value prints and reads back. */
    uint64_t half = MIN(host->memory_bytes / 2 & ~(2 * MIB - 1), reserve->max);
    if (half < reserve->min) {
        return complain_about(settings, SETTING_ID_memory_reserve, why, why_bytes,
                              "half of the %s available %sis less than %s, expected more "
                              "memory or an explicit size",
                              unit_print_size_short(a, host->memory_bytes),
                              host->memory_by_cgroup ? "to this control group " : "", unit_print_size(b, reserve->min));
    }
    settings->memory_reserve = half;
    settings->reserve_by_host = true;
    return check_memory(settings, why, why_bytes);
}

static bool
cpu_is_allowed(const struct host *host, int cpu)
{
    for (uint32_t i = 0; i < host->cpu_count; i++) {
        if (host->cpus[i] == cpu) {
            return true;
        }
    }
    return false;
}

/* All allowed but the first, which takes the machine's interrupts and the management core; a quota says how many. */
static void
cpus_auto(struct settings *settings, const struct host *host)
{
    uint32_t usable = host->cpu_quota == 0 ? host->cpu_count : MIN(host->cpu_count, host->cpu_quota);
    uint32_t count = MAX(usable, 2) - 1, first = host->cpu_count > 1;

    settings->cpu_count = MIN(count, LIMIT_LCORES);
    for (uint32_t i = 0; i < settings->cpu_count; i++) {
        settings->cpus[i] = host->cpus[first + i];
    }
}

/* The list's form; which of these CPUs there are is the host's matter. */
static bool
check_cpus(struct settings *settings, char *why, size_t why_bytes)
{
    char quoted[QUOTE_BYTES];

    if (strcmp(settings->lcores_cpus, "auto") == 0) {
        return true;
    }
    enum cpu_list_status status =
        cpu_list_parse(settings->lcores_cpus, settings->cpus, LIMIT_LCORES, &settings->cpu_count);
    if (status != CPU_LIST_OK) {
        return complain_about(settings, SETTING_ID_lcores_cpus, why, why_bytes,
                              "%s %s, expected \"auto\" or a list such as \"1-15\" or \"2,4,6\" of at most %d CPUs",
                              quote_text(quoted, settings->lcores_cpus), cpu_list_status_text(status), LIMIT_LCORES);
    }
    return true;
}

static const struct port_settings *
ethernet_port(const struct settings *settings)
{
    for (uint32_t i = 0; i < settings->port_count; i++) {
        if (settings->ports[i].type == PORT_ETHERNET) {
            return &settings->ports[i];
        }
    }
    return NULL;
}

static bool
check_port_lcore(const struct settings *settings, char *why, size_t why_bytes)
{
    const struct port_settings *port = ethernet_port(settings);

    if (port != NULL && port->lcore >= settings->cpu_count) {
        return complain(why, why_bytes, "ports: \"%s\" wants lcore %llu, expected at most %u: lcores.cpus has %u",
                        port->name, (unsigned long long)port->lcore, settings->cpu_count - 1, settings->cpu_count);
    }
    return true;
}

/* Numbers are the machine's when all of them are allowed, else they count within the allowed set: the same file works
 * in a container that was given CPUs 8 to 11. */
static bool
place_cpus(struct settings *settings, const struct host *host, char *why, size_t why_bytes)
{
    char allowed[128];
    bool absolute = true;

    if (strcmp(settings->lcores_cpus, "auto") == 0) {
        cpus_auto(settings, host);
        return check_port_lcore(settings, why, why_bytes);
    }
    for (uint32_t i = 0; i < settings->cpu_count; i++) {
        absolute = absolute && cpu_is_allowed(host, settings->cpus[i]);
    }
    for (uint32_t i = 0; i < settings->cpu_count && !absolute; i++) {
        if (settings->cpus[i] >= (int)host->cpu_count) {
            return complain_about(settings, SETTING_ID_lcores_cpus, why, why_bytes,
                                  "CPU %d is not allowed to this process, expected some of %s, or numbers below %u "
                                  "that count within them",
                                  settings->cpus[i],
                                  cpu_list_print(allowed, sizeof(allowed), host->cpus, host->cpu_count),
                                  host->cpu_count);
        }
        settings->cpus[i] = host->cpus[settings->cpus[i]];
    }
    return check_port_lcore(settings, why, why_bytes);
}

bool
settings_resolve_cpus(struct settings *settings, const struct host *host, char *why, size_t why_bytes)
{
    return check_cpus(settings, why, why_bytes) && place_cpus(settings, host, why, why_bytes);
}

/* Two listeners would want the same port of the same address. */
static bool
check_overlap(const struct settings *settings, char *why, size_t why_bytes)
{
    static const uint8_t any[16];

    for (uint32_t i = 0; i < settings->address_count; i++) {
        const struct address *one = &settings->addresses[i];
        size_t bytes = one->family == AF_INET ? 4 : 16;
        for (uint32_t k = 0; k < settings->address_count; k++) {
            const struct address *other = &settings->addresses[k];
            bool same = k < i && memcmp(one->bytes, other->bytes, bytes) == 0;
            if (k != i && one->family == other->family && (same || memcmp(one->bytes, any, bytes) == 0)) {
                return complain_about(settings, SETTING_ID_streams_address, why, why_bytes,
                                      "address %u %s address %u, expected each address once, and none beside "
                                      "0.0.0.0 or [::] of its family",
                                      i + 1, same ? "is the same as" : "covers", k + 1);
            }
        }
    }
    return true;
}

static bool
check_path(const struct settings *settings, enum setting_id id, const char *path, char *why, size_t why_bytes)
{
    if (strlen(path) >= PATHS_SOCKET_BYTES) {
        return complain_about(settings, id, why, why_bytes,
                              "has %zu bytes, expected at most the %d bytes of a socket's path", strlen(path),
                              PATHS_SOCKET_BYTES - 1);
    }
    return true;
}

static bool
resolve_addresses(struct settings *settings, char *why, size_t why_bytes)
{
    const char *at = settings->streams_address;
    char word[SETTING_TEXT_BYTES], quoted[QUOTE_BYTES];

    settings->address_count = 0;
    settings->exposed = false;
    while (*at != '\0') {
        size_t bytes = strcspn(at, ",");
        struct address *address = &settings->addresses[settings->address_count];

        if (settings->address_count == SETTINGS_ADDRESSES_MAX) {
            return complain_about(settings, SETTING_ID_streams_address, why, why_bytes,
                                  "has too many addresses, expected at most %d", SETTINGS_ADDRESSES_MAX);
        }
        if (!address_parse(slice_of(at, bytes), address)) {
            snprintf(word, sizeof(word), "%.*s", (int)bytes, at);
            return complain_about(settings, SETTING_ID_streams_address, why, why_bytes,
                                  "%s is no numeric address, expected such as 127.0.0.1, "
                                  "[::1], 0.0.0.0 or [::], with commas between and no blanks",
                                  quote_text(quoted, word));
        }
        settings->exposed = settings->exposed || !address_is_loopback(address);
        settings->address_count++;
        at += bytes;
        if (*at == ',') {
            at++;
            if (*at == '\0') {
                return complain_about(settings, SETTING_ID_streams_address, why, why_bytes,
                                      "ends in a comma, expected an address behind it");
            }
        }
    }
    return check_overlap(settings, why, why_bytes);
}

static bool
resolve_mode(const struct settings *settings, enum setting_id id, const char *text, uint32_t *out, char *why,
             size_t why_bytes)
{
    char quoted[QUOTE_BYTES];
    const char *digits = text + (text[0] == '0' && text[1] != '\0');
    uint32_t mode = 0;

    for (const char *at = digits; *at != '\0'; at++) {
        if (*at < '0' || *at > '7' || at - digits >= 3) {
            mode = 0;
            break;
        }
        mode = mode * 8 + (uint32_t)(*at - '0');
    }
    if ((mode & 0600) != 0600) {
        return complain_about(settings, id, why, why_bytes,
                              "%s is no mode that lets the owner in, expected three octal digits such as "
                              "\"0600\" or \"0660\"",
                              quote_text(quoted, text));
    }
    *out = mode;
    return true;
}

static bool
resolve_ethernet(struct settings *settings)
{
    for (uint32_t i = 0; i < settings->port_count; i++) {
        struct port_settings *port = &settings->ports[i];
        if (port->type == PORT_ETHERNET && port->listen_count == 0) {
            port->listen[port->listen_count++] = settings->streams_port == 0 ? 6379 : (uint16_t)settings->streams_port;
        }
    }
    settings->exposed = settings->exposed || ethernet_port(settings) != NULL;
    return true;
}

/* What only several settings together can show. */
static bool
check_together(const struct settings *settings, char *why, size_t why_bytes)
{
    bool streams = settings->address_count > 0 || settings->streams_unix[0] != '\0' || ethernet_port(settings) != NULL;

    if (!streams) {
        return complain_about(settings, SETTING_ID_streams_address, why, why_bytes,
                              "is empty and so is streams.unix, expected one of them: nobody could connect%s",
                              settings->port_count ? ", and fabric ports are attached to by a stream" : "");
    }
    if (ethernet_port(settings) != NULL && settings->protected_mode && settings->user_count == 0) {
        return complain(why, why_bytes,
                        "ports: \"%s\" is beyond loopback and there is no password, expected auth.password or users, "
                        "or auth.protected_mode = false",
                        ethernet_port(settings)->name);
    }
    if (settings->exposed && settings->protected_mode && settings->user_count == 0) {
        return complain_about(settings, SETTING_ID_streams_address, why, why_bytes,
                              "\"%s\" is beyond loopback and there is no password, expected "
                              "auth.password or users, or auth.protected_mode = false",
                              settings->streams_address);
    }
    return true;
}

/* All that is the same on every host. */
static bool
resolve_anywhere(struct settings *settings, char *why, size_t why_bytes)
{
    return (settings->memory_reserve == 0 || check_memory(settings, why, why_bytes)) &&
           check_cpus(settings, why, why_bytes) && resolve_addresses(settings, why, why_bytes) &&
           resolve_mode(settings, SETTING_ID_management_mode, settings->management_mode,
                        &settings->management_mode_bits, why, why_bytes) &&
           resolve_mode(settings, SETTING_ID_streams_unix_mode, settings->streams_unix_mode,
                        &settings->streams_unix_mode_bits, why, why_bytes) &&
           check_path(settings, SETTING_ID_management_socket, settings->management_socket, why, why_bytes) &&
           check_path(settings, SETTING_ID_streams_unix, settings->streams_unix, why, why_bytes) &&
           check_together(settings, why, why_bytes) && resolve_ethernet(settings);
}

int
settings_resolve(struct settings *settings, const struct host *host, char *why, size_t why_bytes)
{
    bool good = resolve_anywhere(settings, why, why_bytes) && check_reservable(settings, host, why, why_bytes) &&
                resolve_memory(settings, host, why, why_bytes) && place_cpus(settings, host, why, why_bytes);
    return good ? 0 : -1;
}

int
settings_resolve_elsewhere(struct settings *settings, const struct host *host, char *why, size_t why_bytes, char *here,
                           size_t here_bytes)
{
    char memory[SETTINGS_WHY_BYTES] = "", cpus[SETTINGS_WHY_BYTES] = "";

    here[0] = '\0';
    if (!resolve_anywhere(settings, why, why_bytes) || !check_reservable(settings, host, why, why_bytes)) {
        return -1;
    }
    bool good = resolve_memory(settings, host, memory, sizeof(memory));
    good = place_cpus(settings, host, cpus, sizeof(cpus)) && good;
    if (!good) {
        snprintf(here, here_bytes, "%s%s%s", memory, memory[0] != '\0' && cpus[0] != '\0' ? "; " : "", cpus);
    }
    return 0;
}

enum idle_policy
settings_idle_policy(const struct settings *settings)
{
    return strcmp(settings->lcores_idle, "spin") == 0    ? IDLE_SPIN
           : strcmp(settings->lcores_idle, "yield") == 0 ? IDLE_YIELD
                                                         : IDLE_ADAPTIVE;
}

/* Threads were made for so many. */
static bool
check_cpu_count(const struct settings *now, const struct settings *next, char *why, size_t why_bytes)
{
    if (next->cpu_count != now->cpu_count) {
        return complain(why, why_bytes,
                        "lcores.cpus: has %u CPU%s, expected %u: the number of lcores changes only at a start",
                        next->cpu_count, next->cpu_count == 1 ? "" : "s", now->cpu_count);
    }
    return true;
}

bool
setting_change(struct settings *settings, const struct setting *setting, const char *value, const struct host *host,
               char *why, size_t why_bytes)
{
    struct settings next = *settings;
    size_t index = (size_t)(setting - settings_table);

    if (!setting->live) {
        return complain(why, why_bytes,
                        "%s: cannot change while the appliance runs, expected in the configuration file",
                        setting->name);
    }
    next.origins[index] = SETTING_BY_CHANGE;
    if (!setting_parse(setting, value, &next, why, why_bytes) || !check_memory(&next, why, why_bytes)) {
        return false;
    }
    if (index == SETTING_ID_lcores_cpus) {
        if (!settings_resolve_cpus(&next, host, why, why_bytes) || !check_cpu_count(settings, &next, why, why_bytes)) {
            return false;
        }
        memcpy(settings->cpus, next.cpus, sizeof(settings->cpus));
    }
    /* This field only: lcores read others; what they read of live ones is a copy of their own. */
    switch (setting->kind) {
    case SETTING_SIZE:
    case SETTING_TIME:
    case SETTING_COUNT:
        memcpy((char *)settings + setting->offset, (char *)&next + setting->offset, sizeof(uint64_t));
        break;
    case SETTING_BOOL:
        memcpy((char *)settings + setting->offset, (char *)&next + setting->offset, sizeof(bool));
        break;
    case SETTING_TEXT:
    case SETTING_CHOICE:
        memcpy((char *)settings + setting->offset, (char *)&next + setting->offset, SETTING_TEXT_BYTES);
        break;
    }
    settings->origins[index] = SETTING_BY_CHANGE;
    return true;
}
