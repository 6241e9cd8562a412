#include "config/settings_parts.h"

/* An entry as it is parsed: every field in the widest form of its kind. */
struct port_entry {
#define PORT_FIELD_SIZE(field)             uint64_t field;
#define PORT_FIELD_TIME(field)             uint64_t field;
#define PORT_FIELD_COUNT(field)            uint64_t field;
#define PORT_FIELD_TEXT(field)             char field[SETTING_TEXT_BYTES];
#define PORT_FIELD_CHOICE(field)           char field[SETTING_TEXT_BYTES];
#define PORT_FIELD(field, name, kind, ...) PORT_FIELD_##kind(field)
    PORT_SETTINGS_TABLE(PORT_FIELD)
#undef PORT_FIELD
};

struct user_entry {
    char name[SETTING_TEXT_BYTES];
    char password[SETTING_TEXT_BYTES];
};

#define CHOICES_DEFINE(field, ...) static const char *const choices_##field[] = { __VA_ARGS__ };
PORT_SETTING_CHOICES(CHOICES_DEFINE)

enum {
#define PORT_ID(field, ...) PORT_ID_##field,
    PORT_SETTINGS_TABLE(PORT_ID)
#undef PORT_ID
};

/* A choice's words, or none: expanded for every row, so that a CHOICE row without its words does not compile. */
#define WORDS_SIZE(field)   NULL, 0
#define WORDS_TIME(field)   NULL, 0
#define WORDS_COUNT(field)  NULL, 0
#define WORDS_TEXT(field)   NULL, 0
#define WORDS_CHOICE(field) choices_##field, ARRAY_COUNT(choices_##field)

#define PORT_ROW(field, label, kind, initial, min, max, help)                                                          \
    { label, SETTING_##kind, initial, min, max, false, help, WORDS_##kind(field), offsetof(struct port_entry, field) },
const struct setting port_settings_table[] = { PORT_SETTINGS_TABLE(PORT_ROW) };
const size_t port_settings_count = ARRAY_COUNT(port_settings_table);

/* Rows stand in the order of these. */
enum { ANY_ROWS = PORT_ID_provider, FABRIC_ROWS = PORT_ID_device };

bool
port_setting_applies(enum port_type type, const struct setting *setting)
{
    size_t row = (size_t)(setting - port_settings_table);
    return row < ANY_ROWS || (row < FABRIC_ROWS) == (type == PORT_FABRIC);
}

#define USER_ROW(field, label, kind, initial, min, max, help)                                                          \
    { label, SETTING_##kind, initial, min, max, false, help, NULL, 0, offsetof(struct user_entry, field) },
const struct setting user_settings_table[] = { USER_SETTINGS_TABLE(USER_ROW) };
const size_t user_settings_count = ARRAY_COUNT(user_settings_table);

#define LIST_ROWS_MAX 32
static_assert(ARRAY_COUNT(port_settings_table) <= LIST_ROWS_MAX && ARRAY_COUNT(user_settings_table) <= LIST_ROWS_MAX,
              "parse_entry() keeps one bit and one name a row");

/* One { name = value; ... } by its table; *given has a bit for every row that stands in it. */
static bool
parse_entry(const config_setting_t *group, const struct setting *table, size_t rows, void *entry, uint32_t *given,
            unsigned *line, char *why, size_t why_bytes)
{
    const char *names[LIST_ROWS_MAX];

    *given = 0;

    *line = config_setting_source_line(group);
    if (!config_setting_is_group(group)) {
        return complain(why, why_bytes, "is not a group, expected { name = value; ... }");
    }
    for (size_t row = 0; row < rows; row++) {
        names[row] = table[row].name;
        if (table[row].initial[0] != '\0' && !setting_parse(&table[row], table[row].initial, entry, why, why_bytes)) {
            return false;
        }
    }
    for (int i = 0; i < config_setting_length(group); i++) {
        const config_setting_t *element = config_setting_get_elem(group, (unsigned)i);
        char scratch[VALUE_BYTES];
        const char *value;
        size_t row = 0;

        *line = config_setting_source_line(element);
        while (row < rows && strcmp(table[row].name, config_setting_name(element)) != 0) {
            row++;
        }
        if (row == rows) {
            return complain_unknown(why, why_bytes, "name", config_setting_name(element), names, rows);
        }
        if (!setting_value_text(&table[row], element, scratch, &value, why, why_bytes) ||
            !setting_parse(&table[row], value, entry, why, why_bytes)) {
            return false;
        }
        *given |= 1u << row;
    }
    return true;
}

/* A row whose default is "" must be given. */
static bool
require(const config_setting_t *group, const struct setting *row, bool given, unsigned *line, char *why,
        size_t why_bytes)
{
    char expected[SETTING_EXPECT_BYTES];

    if (given || row->initial[0] != '\0') {
        return true;
    }
    *line = config_setting_source_line(group);
    return complain(why, why_bytes, "%s is missing, expected %s", row->name, setting_expectation(row, expected));
}

static const char *const type_names[] = { [PORT_FABRIC] = "fabric", [PORT_ETHERNET] = "ethernet" };

static enum port_type
type_of(const char *name)
{
    return strcmp(name, type_names[PORT_ETHERNET]) == 0 ? PORT_ETHERNET : PORT_FABRIC;
}

/* What this kind of port needs is there, and nothing that only another kind has. */
static bool
check_port_rows(const config_setting_t *group, const char *type, uint32_t given, unsigned *line, char *why,
                size_t why_bytes)
{
    for (size_t row = 0; row < port_settings_count; row++) {
        const struct setting *setting = &port_settings_table[row];
        bool is_given = (given & (1u << row)) != 0;
        if (row == PORT_ID_type ? !require(group, setting, is_given, line, why, why_bytes)
                                : port_setting_applies(type_of(type), setting) &&
                                      !require(group, setting, is_given, line, why, why_bytes)) {
            return false;
        }
        if (is_given && !port_setting_applies(type_of(type), setting)) {
            *line = config_setting_source_line(config_setting_get_member(group, setting->name));
            return complain(why, why_bytes, "%s is not a setting of %s ports", setting->name, type);
        }
    }
    return true;
}

static const char *
unless_auto(const char *text)
{
    return strcmp(text, "auto") == 0 ? "" : text;
}

/* The table's bounds keep every text shorter than its field. */
static void
copy_text(char *to, size_t bytes, const char *from)
{
    CHECK(strlen(from) < bytes);
    memcpy(to, from, strlen(from) + 1);
}

static void
fabric_from_entry(struct port_settings *port, const struct port_entry *entry)
{
    copy_text(port->provider, sizeof(port->provider), entry->provider);
    copy_text(port->node, sizeof(port->node), unless_auto(entry->node));
    copy_text(port->domain, sizeof(port->domain), unless_auto(entry->domain));
    copy_text(port->send, sizeof(port->send), entry->send);
    port->rx_slots = entry->rx_slots;
    port->tx_slots = entry->tx_slots;
    port->frame_bytes = entry->frame_bytes;
    port->lease_ms = entry->lease_ms;
}

static bool
ethernet_from_entry(struct port_settings *port, const struct port_entry *entry, char *why, size_t why_bytes)
{
    copy_text(port->device, sizeof(port->device), entry->device);
    copy_text(port->eal, sizeof(port->eal), unless_auto(entry->eal));
    port->mtu = entry->mtu;
    port->rx_descriptors = entry->rx_descriptors;
    port->tx_descriptors = entry->tx_descriptors;
    port->lcore = entry->lcore;
    return ethernet_parse_address(entry->address, port, why, why_bytes) &&
           ethernet_parse_gateway(entry->gateway, port, why, why_bytes) &&
           ethernet_parse_mac(entry->mac, port, why, why_bytes) &&
           ethernet_parse_listen(entry->listen, port, why, why_bytes);
}

static bool
port_from_entry(struct port_settings *port, const struct port_entry *entry, char *why, size_t why_bytes)
{
    memset(port, 0, sizeof(*port));
    port->type = type_of(entry->type);
    const char *automatic = port->type == PORT_FABRIC ? entry->provider : entry->type;
    copy_text(port->name, sizeof(port->name), strcmp(entry->name, "auto") == 0 ? automatic : entry->name);
    port->sessions = entry->sessions;
    if (port->type == PORT_FABRIC) {
        fabric_from_entry(port, entry);
        return true;
    }
    return ethernet_from_entry(port, entry, why, why_bytes);
}

static bool
is_list(const config_setting_t *list, int length_max, const char *of, char *why, size_t why_bytes)
{
    if (!config_setting_is_list(list)) {
        return complain(why, why_bytes, "%s: is not a list, expected ( { ... }, { ... } )", of);
    }
    if (config_setting_length(list) > length_max) {
        return complain(why, why_bytes, "%s: has %d entries, expected at most %d", of, config_setting_length(list),
                        length_max);
    }
    return true;
}

/* What is wrong with the port together with those before it. */
static bool
check_among_ports(const struct settings *settings, const struct port_settings *port, char *why, size_t why_bytes)
{
    for (uint32_t other = 0; other < settings->port_count; other++) {
        if (strcmp(settings->ports[other].name, port->name) == 0) {
            return complain(why, why_bytes, "name \"%s\" is taken by ports[%u], expected another name", port->name,
                            other);
        }
        if (port->type == PORT_ETHERNET && settings->ports[other].type == PORT_ETHERNET) {
            return complain(why, why_bytes, "is a second ethernet port beside ports[%u], expected one a process",
                            other);
        }
    }
    return true;
}

static bool
parse_port(const config_setting_t *group, struct settings *out, unsigned *line, char *why, size_t why_bytes)
{
    struct port_settings *port = &out->ports[out->port_count];
    struct port_entry entry;
    uint32_t given;

    memset(&entry, 0, sizeof(entry));
    return parse_entry(group, port_settings_table, port_settings_count, &entry, &given, line, why, why_bytes) &&
           check_port_rows(group, entry.type, given, line, why, why_bytes) &&
           port_from_entry(port, &entry, why, why_bytes) && check_among_ports(out, port, why, why_bytes);
}

bool
settings_parse_ports(const config_setting_t *list, struct settings *out, unsigned *line, char *why, size_t why_bytes)
{
    char part[SETTINGS_WHY_BYTES];

    *line = config_setting_source_line(list);
    out->port_count = 0;
    if (!is_list(list, LIMIT_PORTS, "ports", why, why_bytes)) {
        return false;
    }
    for (int i = 0; i < config_setting_length(list); i++) {
        if (!parse_port(config_setting_get_elem(list, (unsigned)i), out, line, part, sizeof(part))) {
            return complain(why, why_bytes, "ports[%d]: %s", i, part);
        }
        out->port_count++;
    }
    return true;
}

static bool
user_name_is_good(const char *name)
{
    for (; *name != '\0'; name++) {
        if (*name <= ' ' || *name > '~') {
            return false;
        }
    }
    return true;
}

bool
settings_parse_users(const config_setting_t *list, struct settings *out, unsigned *line, char *why, size_t why_bytes)
{
    char part[SETTINGS_WHY_BYTES], quoted[QUOTE_BYTES];

    *line = config_setting_source_line(list);
    out->user_count = 0;
    /* One place is kept for "default". */
    if (!is_list(list, SETTINGS_USERS_MAX - 1, "users", why, why_bytes)) {
        return false;
    }
    for (int i = 0; i < config_setting_length(list); i++) {
        struct user_entry entry;
        uint32_t given;
        struct user_settings *user = &out->users[out->user_count];

        memset(&entry, 0, sizeof(entry));
        const config_setting_t *group = config_setting_get_elem(list, (unsigned)i);
        bool good =
            parse_entry(group, user_settings_table, user_settings_count, &entry, &given, line, part, sizeof(part));
        for (size_t row = 0; good && row < user_settings_count; row++) {
            good = require(group, &user_settings_table[row], (given & (1u << row)) != 0, line, part, sizeof(part));
        }
        if (!good || !password_parse(entry.password, user->sha256, part, sizeof(part))) {
            return complain(why, why_bytes, "users[%d]: %s", i, part);
        }
        if (!user_name_is_good(entry.name)) {
            return complain(why, why_bytes, "users[%d]: name %s has blanks or does not print, expected a word", i,
                            quote_text(quoted, entry.name));
        }
        if (strcmp(entry.name, "default") == 0) {
            return complain(why, why_bytes,
                            "users[%d]: \"default\" is the user of auth.password, expected another name "
                            "or the password there",
                            i);
        }
        copy_text(user->name, sizeof(user->name), entry.name);
        for (uint32_t other = 0; other < out->user_count; other++) {
            if (strcmp(out->users[other].name, user->name) == 0) {
                return complain(why, why_bytes, "users[%d]: \"%s\" is there twice, expected each user once", i,
                                user->name);
            }
        }
        out->user_count++;
    }
    return true;
}

/* A text that is there as such. NULL: it is a number, or made from one. */
static const char *
port_text(const struct port_settings *port, size_t row)
{
    switch (row) {
    case PORT_ID_type:
        return type_names[port->type];
    case PORT_ID_name:
        return port->name;
    case PORT_ID_provider:
        return port->provider;
    case PORT_ID_node:
        return port->node;
    case PORT_ID_domain:
        return port->domain;
    case PORT_ID_send:
        return port->send;
    case PORT_ID_device:
        return port->device;
    case PORT_ID_eal:
        return port->eal;
    default:
        return NULL;
    }
}

static uint64_t
port_number(const struct port_settings *port, size_t row)
{
    switch (row) {
    case PORT_ID_sessions:
        return port->sessions;
    case PORT_ID_rx_slots:
        return port->rx_slots;
    case PORT_ID_tx_slots:
        return port->tx_slots;
    case PORT_ID_frame_bytes:
        return port->frame_bytes;
    case PORT_ID_lease_ms:
        return port->lease_ms;
    case PORT_ID_mtu:
        return port->mtu;
    case PORT_ID_rx_descriptors:
        return port->rx_descriptors;
    case PORT_ID_tx_descriptors:
        return port->tx_descriptors;
    default:
        return port->lcore;
    }
}

static bool
print_made_text(const struct port_settings *port, size_t row, char out[SETTING_PRINT_BYTES])
{
    switch (row) {
    case PORT_ID_address:
        ethernet_print_address(port, out);
        return true;
    case PORT_ID_gateway:
        ethernet_print_gateway(port, out);
        return true;
    case PORT_ID_mac:
        ethernet_print_mac(port, out);
        return true;
    case PORT_ID_listen:
        ethernet_print_listen(port, out);
        return true;
    default:
        return false;
    }
}

const char *
port_setting_print(const struct port_settings *port, const struct setting *setting, char out[SETTING_PRINT_BYTES])
{
    size_t row = (size_t)(setting - port_settings_table);
    const char *text = port_text(port, row);
    uint64_t number = port_number(port, row);

    if (print_made_text(port, row, out)) {
        return out;
    }
    if ((text != NULL && text[0] == '\0') || (text == NULL && number == 0 && strcmp(setting->initial, "auto") == 0)) {
        text = "auto";
    }
    if (text != NULL) {
        snprintf(out, SETTING_PRINT_BYTES, "%s", text);
    } else if (setting->kind == SETTING_SIZE) {
        unit_print_size(out, number);
    } else if (setting->kind == SETTING_TIME) {
        unit_print_time_ms(out, number);
    } else {
        snprintf(out, SETTING_PRINT_BYTES, "%llu", (unsigned long long)number);
    }
    return out;
}
