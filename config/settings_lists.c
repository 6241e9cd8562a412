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

#define USER_ROW(field, label, kind, initial, min, max, help)                                                          \
    { label, SETTING_##kind, initial, min, max, false, help, NULL, 0, offsetof(struct user_entry, field) },
const struct setting user_settings_table[] = { USER_SETTINGS_TABLE(USER_ROW) };
const size_t user_settings_count = ARRAY_COUNT(user_settings_table);

#define LIST_ROWS_MAX 16
static_assert(ARRAY_COUNT(port_settings_table) <= LIST_ROWS_MAX && ARRAY_COUNT(user_settings_table) <= LIST_ROWS_MAX,
              "parse_entry() keeps one bit and one name a row");

/* One { name = value; ... } by its table. A row whose default is "" must be given. */
static bool
parse_entry(const config_setting_t *group, const struct setting *table, size_t rows, void *entry, unsigned *line,
            char *why, size_t why_bytes)
{
    const char *names[LIST_ROWS_MAX];
    uint32_t given = 0;

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
        given |= 1u << row;
    }
    for (size_t row = 0; row < rows; row++) {
        if (table[row].initial[0] == '\0' && !(given & (1u << row))) {
            char expected[SETTING_EXPECT_BYTES];
            *line = config_setting_source_line(group);
            return complain(why, why_bytes, "%s is missing, expected %s", table[row].name,
                            setting_expectation(&table[row], expected));
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
port_from_entry(struct port_settings *port, const struct port_entry *entry)
{
    memset(port, 0, sizeof(*port));
    port->type = PORT_FABRIC;
    copy_text(port->provider, sizeof(port->provider), entry->provider);
    copy_text(port->name, sizeof(port->name), strcmp(entry->name, "auto") == 0 ? entry->provider : entry->name);
    copy_text(port->node, sizeof(port->node), unless_auto(entry->node));
    copy_text(port->domain, sizeof(port->domain), unless_auto(entry->domain));
    copy_text(port->send, sizeof(port->send), entry->send);
    port->rx_slots = entry->rx_slots;
    port->tx_slots = entry->tx_slots;
    port->sessions = entry->sessions;
    port->frame_bytes = entry->frame_bytes;
    port->lease_ms = entry->lease_ms;
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
        struct port_entry entry;
        struct port_settings *port = &out->ports[out->port_count];

        memset(&entry, 0, sizeof(entry));
        if (!parse_entry(config_setting_get_elem(list, (unsigned)i), port_settings_table, port_settings_count, &entry,
                         line, part, sizeof(part))) {
            return complain(why, why_bytes, "ports[%d]: %s", i, part);
        }
        port_from_entry(port, &entry);
        for (uint32_t other = 0; other < out->port_count; other++) {
            if (strcmp(out->ports[other].name, port->name) == 0) {
                return complain(why, why_bytes, "ports[%d]: name \"%s\" is taken by ports[%u], expected another name",
                                i, port->name, other);
            }
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
        struct user_settings *user = &out->users[out->user_count];

        memset(&entry, 0, sizeof(entry));
        if (!parse_entry(config_setting_get_elem(list, (unsigned)i), user_settings_table, user_settings_count, &entry,
                         line, part, sizeof(part)) ||
            !password_parse(entry.password, user->sha256, part, sizeof(part))) {
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

const char *
port_setting_print(const struct port_settings *port, const struct setting *setting, char out[SETTING_PRINT_BYTES])
{
    const char *text = NULL;
    uint64_t number = 0;

    switch (setting - port_settings_table) {
    case PORT_ID_type:
        text = "fabric";
        break;
    case PORT_ID_name:
        text = port->name;
        break;
    case PORT_ID_provider:
        text = port->provider;
        break;
    case PORT_ID_node:
        text = port->node;
        break;
    case PORT_ID_domain:
        text = port->domain;
        break;
    case PORT_ID_send:
        text = port->send;
        break;
    case PORT_ID_rx_slots:
        number = port->rx_slots;
        break;
    case PORT_ID_tx_slots:
        number = port->tx_slots;
        break;
    case PORT_ID_sessions:
        number = port->sessions;
        break;
    case PORT_ID_frame_bytes:
        number = port->frame_bytes;
        break;
    case PORT_ID_lease_ms:
        number = port->lease_ms;
        break;
    }
    if ((text != NULL && text[0] == '\0') || (text == NULL && number == 0)) {
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
