#include "config/settings_parts.h"

static bool
resolve_memory(struct settings *settings, const struct host *host, char *why, size_t why_bytes)
{
    const struct setting *reserve = &settings_table[SETTING_ID_memory_reserve];
    char a[UNIT_TEXT_BYTES], b[UNIT_TEXT_BYTES];

    if (settings->memory_reserve == 0) {
        /* Whole 2 MiB pages, so that the value prints and reads back. */
        uint64_t half = MIN(host->memory_bytes / 2 & ~(2 * MIB - 1), reserve->max);
        if (half < reserve->min) {
            return complain(why, why_bytes,
                            "memory.reserve: half of the %s available %sis less than %s, expected more "
                            "memory or an explicit size",
                            unit_print_size_short(a, host->memory_bytes),
                            host->memory_by_cgroup ? "to this control group " : "", unit_print_size(b, reserve->min));
        }
        settings->memory_reserve = half;
    }
    if (settings->memory_limit == 0) {
        settings->memory_limit = settings->memory_reserve;
    }
    if (settings->memory_limit > settings->memory_reserve) {
        return complain(why, why_bytes, "memory.limit: %s is more than memory.reserve, expected at most %s",
                        unit_print_size(a, settings->memory_limit), unit_print_size(b, settings->memory_reserve));
    }
    if (settings->origins[SETTING_ID_memory_ahead] == SETTING_BY_DEFAULT) {
        settings->memory_ahead = MIN(settings->memory_ahead, settings->memory_reserve / 4);
    }
    if (settings->memory_ahead > settings->memory_reserve / 2) {
        return complain(why, why_bytes, "memory.ahead: %s is more than half of memory.reserve, expected at most %s",
                        unit_print_size(a, settings->memory_ahead), unit_print_size(b, settings->memory_reserve / 2));
    }
    return true;
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

/* Numbers are the machine's when all of them are allowed, else they count within the allowed set: the same file works
 * in a container that was given CPUs 8 to 11. */
static bool
resolve_cpus(struct settings *settings, const struct host *host, char *why, size_t why_bytes)
{
    char quoted[QUOTE_BYTES], allowed[128];
    bool absolute = true;

    if (strcmp(settings->lcores_cpus, "auto") == 0) {
        cpus_auto(settings, host);
        return true;
    }
    enum cpu_list_status status =
        cpu_list_parse(settings->lcores_cpus, settings->cpus, LIMIT_LCORES, &settings->cpu_count);
    if (status != CPU_LIST_OK) {
        return complain(why, why_bytes,
                        "lcores.cpus: %s %s, expected \"auto\" or a list such as \"1-15\" or \"2,4,6\" of "
                        "at most %d CPUs",
                        quote_text(quoted, settings->lcores_cpus), cpu_list_status_text(status), LIMIT_LCORES);
    }
    for (uint32_t i = 0; i < settings->cpu_count; i++) {
        absolute = absolute && cpu_is_allowed(host, settings->cpus[i]);
    }
    for (uint32_t i = 0; i < settings->cpu_count && !absolute; i++) {
        if (settings->cpus[i] >= (int)host->cpu_count) {
            return complain(why, why_bytes,
                            "lcores.cpus: CPU %d is not allowed to this process, expected some of %s, or "
                            "numbers below %u that count within them",
                            settings->cpus[i], cpu_list_print(allowed, sizeof(allowed), host->cpus, host->cpu_count),
                            host->cpu_count);
        }
        settings->cpus[i] = host->cpus[settings->cpus[i]];
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
            return complain(why, why_bytes, "streams.address: has too many addresses, expected at most %d",
                            SETTINGS_ADDRESSES_MAX);
        }
        if (!address_parse(slice_of(at, bytes), address)) {
            snprintf(word, sizeof(word), "%.*s", (int)bytes, at);
            return complain(why, why_bytes,
                            "streams.address: %s is no numeric address, expected such as 127.0.0.1, "
                            "[::1], 0.0.0.0 or [::], with commas between and no blanks",
                            quote_text(quoted, word));
        }
        settings->exposed = settings->exposed || !address_is_loopback(address);
        settings->address_count++;
        at += bytes;
        if (*at == ',') {
            at++;
            if (*at == '\0') {
                return complain(why, why_bytes, "streams.address: ends in a comma, expected an address behind it");
            }
        }
    }
    return true;
}

static bool
resolve_mode(const char *name, const char *text, uint32_t *out, char *why, size_t why_bytes)
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
        return complain(why, why_bytes,
                        "%s: %s is no mode that lets the owner in, expected three octal digits such as "
                        "\"0600\" or \"0660\"",
                        name, quote_text(quoted, text));
    }
    *out = mode;
    return true;
}

/* What only several settings together can show. */
static bool
check_together(const struct settings *settings, char *why, size_t why_bytes)
{
    bool streams = settings->address_count > 0 || settings->streams_unix[0] != '\0';

    if (!streams) {
        return complain(why, why_bytes,
                        "streams.address and streams.unix are both empty, expected one of them: nobody "
                        "could connect%s",
                        settings->port_count ? ", and fabric ports are attached to by a stream" : "");
    }
    if (settings->exposed && settings->protected_mode && settings->user_count == 0) {
        return complain(why, why_bytes,
                        "streams.address: \"%s\" is beyond loopback and there is no password, expected "
                        "auth.password or users, or auth.protected_mode = false",
                        settings->streams_address);
    }
    return true;
}

int
settings_resolve(struct settings *settings, const struct host *host, char *why, size_t why_bytes)
{
    bool good =
        resolve_memory(settings, host, why, why_bytes) && resolve_cpus(settings, host, why, why_bytes) &&
        resolve_addresses(settings, why, why_bytes) &&
        resolve_mode("management.mode", settings->management_mode, &settings->management_mode_bits, why, why_bytes) &&
        resolve_mode("streams.unix_mode", settings->streams_unix_mode, &settings->streams_unix_mode_bits, why,
                     why_bytes) &&
        check_together(settings, why, why_bytes);

    settings->idle = strcmp(settings->lcores_idle, "spin") == 0    ? IDLE_SPIN
                     : strcmp(settings->lcores_idle, "yield") == 0 ? IDLE_YIELD
                                                                   : IDLE_ADAPTIVE;
    return good ? 0 : -1;
}
