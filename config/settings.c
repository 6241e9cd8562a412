#include "config/settings_parts.h"
#include <sodium.h>

#define CHOICES_DEFINE(field, ...) static const char *const choices_##field[] = { __VA_ARGS__ };
SETTING_CHOICES(CHOICES_DEFINE)

/* A choice's words, or none: expanded for every row, so that a CHOICE row without its words does not compile. */
#define WORDS_SIZE(field)   NULL, 0
#define WORDS_TIME(field)   NULL, 0
#define WORDS_COUNT(field)  NULL, 0
#define WORDS_BOOL(field)   NULL, 0
#define WORDS_TEXT(field)   NULL, 0
#define WORDS_CHOICE(field) choices_##field, ARRAY_COUNT(choices_##field)
#define IS_LIVE             true
#define IS_BOOT             false

#define SETTING_ROW(field, label, kind, initial, min, max, when, help)                                                   \
    {                                                                                                                    \
        label, SETTING_##kind, initial, min, max, IS_##when, help, WORDS_##kind(field), offsetof(struct settings, field) \
    },
const struct setting settings_table[SETTINGS_COUNT] = { SETTINGS_TABLE(SETTING_ROW) };

const struct setting *
setting_find(const char *name)
{
    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        if (strcmp(settings_table[i].name, name) == 0) {
            return &settings_table[i];
        }
    }
    return NULL;
}

/* Every name that may stand in a file or behind --set; returns how many. */
#define NAMES_MAX (SETTINGS_COUNT + 2)
static size_t
full_names(const char *names[NAMES_MAX])
{
    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        names[i] = settings_table[i].name;
    }
    names[SETTINGS_COUNT] = "ports";
    names[SETTINGS_COUNT + 1] = "users";
    return NAMES_MAX;
}

static size_t
group_bytes(const char *name)
{
    return (size_t)(strchr(name, '.') - name);
}

/* The groups' names, each once, and the two lists. `room` keeps the texts. */
#define GROUP_NAME_BYTES 32
static size_t
group_names(const char *names[NAMES_MAX], char room[NAMES_MAX][GROUP_NAME_BYTES])
{
    size_t count = 0;

    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        const char *name = settings_table[i].name;
        if (i > 0 && strncmp(settings_table[i - 1].name, name, group_bytes(name) + 1) == 0) {
            continue;
        }
        snprintf(room[count], GROUP_NAME_BYTES, "%.*s", (int)group_bytes(name), name);
        names[count] = room[count];
        count++;
    }
    names[count++] = "ports";
    names[count++] = "users";
    return count;
}

static const char *
list_form(const char *name)
{
    return strcmp(name, "ports") == 0 ? "a list: ports=( { type = \"fabric\"; provider = \"shm\"; }, ... )"
                                      : "a list: users=( { name = \"...\"; password = \"...\"; }, ... )";
}

/* ---- a text ---- */

/* What a text may say: all of it in a file, one list behind --set. */
struct source {
    enum setting_origin origin;
    const char *only; /* NULL: everything */
    const struct settings_text *text;
};

static bool
parse_group(const config_setting_t *group, struct settings *out, const struct source *source, unsigned *line, char *why,
            size_t why_bytes)
{
    for (int i = 0; i < config_setting_length(group); i++) {
        const config_setting_t *element = config_setting_get_elem(group, (unsigned)i);
        char full[QUOTE_BYTES], scratch[VALUE_BYTES];
        const char *value, *names[NAMES_MAX];

        *line = config_setting_source_line(element);
        snprintf(full, sizeof(full), "%s.%s", config_setting_name(group), config_setting_name(element));
        const struct setting *setting = setting_find(full);
        if (setting == NULL) {
            return complain_unknown(why, why_bytes, "setting", full, names, full_names(names));
        }
        if (!setting_value_text(setting, element, scratch, &value, why, why_bytes) ||
            !setting_parse(setting, value, out, why, why_bytes)) {
            return false;
        }
        out->origins[setting - settings_table] = source->origin;
        settings_text_place(source->text, *line, out->places[setting - settings_table]);
    }
    return true;
}

static bool
parse_root(const config_setting_t *root, struct settings *out, const struct source *source, unsigned *line, char *why,
           size_t why_bytes)
{
    const char *names[NAMES_MAX];
    char room[NAMES_MAX][GROUP_NAME_BYTES];
    size_t count = group_names(names, room);

    for (int i = 0; i < config_setting_length(root); i++) {
        const config_setting_t *element = config_setting_get_elem(root, (unsigned)i);
        const char *name = config_setting_name(element);
        size_t known = 0;
        bool good;

        *line = config_setting_source_line(element);
        while (known < count && strcmp(names[known], name) != 0) {
            known++;
        }
        if (known == count) {
            return complain_unknown(why, why_bytes, config_setting_is_group(element) ? "group" : "setting", name, names,
                                    count);
        }
        if (source->only != NULL && strcmp(source->only, name) != 0) {
            good = complain(why, why_bytes, "%s: does not belong here, expected one value of %s", name, source->only);
        } else if (strcmp(name, "ports") == 0) {
            good = settings_parse_ports(element, out, line, why, why_bytes);
        } else if (strcmp(name, "users") == 0) {
            good = settings_parse_users(element, out, line, why, why_bytes);
        } else if (!config_setting_is_group(element)) {
            good = complain(why, why_bytes, "%s: is a single value, expected a group: %s: { name = value; ... };", name,
                            name);
        } else {
            good = parse_group(element, out, source, line, why, why_bytes);
        }
        if (!good) {
            return false;
        }
    }
    return true;
}

static bool
parse_text(struct settings_text *text, struct settings *out, const struct source *source, char *why, size_t why_bytes)
{
    char part[SETTINGS_WHY_BYTES], place[PLACE_BYTES];
    unsigned line = 0;
    config_t config;
    bool good;

    config_init(&config);
    if (config_read_string(&config, text->bytes) == CONFIG_TRUE) {
        good = parse_root(config_root_setting(&config), out, source, &line, part, sizeof(part));
    } else {
        line = (unsigned)config_error_line(&config);
        good = complain(part, sizeof(part), "%s, expected %s", config_error_text(&config),
                        source->only == NULL ? "group: { name = value; ... };" : list_form(source->only));
    }
    if (!good) {
        complain(why, why_bytes, "%s: %s", settings_text_place(text, line, place), part);
    }
    config_destroy(&config);
    return good;
}

/* ---- --set ---- */

static bool
parse_list_override(const char *name, const char *value, struct settings *out, char *why, size_t why_bytes)
{
    struct settings_text text;
    struct source source = { SETTING_BY_OVERRIDE, name, &text };
    char label[96], quoted[QUOTE_BYTES];

    if (value[strspn(value, " \t\r\n")] != '(') {
        return complain(why, why_bytes, "--set %s: %s is no list, expected %s", name,
                        strcmp(name, "users") == 0 ? "the value" : quote_text(quoted, value), list_form(name));
    }
    size_t bytes = strlen(name) + strlen(value) + sizeof(" = ;");
    char *joined = malloc(bytes);

    CHECK(joined != NULL);
    snprintf(joined, bytes, "%s = %s;", name, value);
    snprintf(label, sizeof(label), "--set %s", name);
    bool good =
        settings_text_take(&text, label, joined, why, why_bytes) && parse_text(&text, out, &source, why, why_bytes);
    settings_text_fini(&text);
    free(joined);
    return good;
}

static bool
parse_override(const char *override, struct settings *out, char *why, size_t why_bytes)
{
    char name[64], part[SETTINGS_WHY_BYTES], quoted[QUOTE_BYTES];
    const char *names[NAMES_MAX], *equals = strchr(override, '=');

    if (equals == NULL || equals == override) {
        return complain(why, why_bytes, "--set %s: is no setting, expected group.name=value",
                        quote_text(quoted, override));
    }
    snprintf(name, sizeof(name), "%.*s", (int)MIN((size_t)(equals - override), sizeof(name) - 1), override);
    if (strcmp(name, "ports") == 0 || strcmp(name, "users") == 0) {
        return parse_list_override(name, equals + 1, out, why, why_bytes);
    }
    const struct setting *setting = setting_find(name);
    if (setting == NULL) {
        complain_unknown(part, sizeof(part), "setting", name, names, full_names(names));
    } else if (setting_parse(setting, equals + 1, out, part, sizeof(part))) {
        out->origins[setting - settings_table] = SETTING_BY_OVERRIDE;
        return true;
    }
    return complain(why, why_bytes, "--set: %s", part);
}

/* ---- the whole ---- */

/* User "default" comes first; the text of its password does not stay. */
static bool
keep_password(struct settings *out, char *why, size_t why_bytes)
{
    uint8_t sha256[32];

    if (out->auth_password[0] == '\0') {
        return true;
    }
    char part[SETTINGS_WHY_BYTES];
    if (!password_parse(out->auth_password, sha256, part, sizeof(part))) {
        return complain_about(out, SETTING_ID_auth_password, why, why_bytes, "%s", part);
    }
    sodium_memzero(out->auth_password, sizeof(out->auth_password));
    password_print(sha256, out->auth_password);
    memmove(out->users + 1, out->users, out->user_count * sizeof(out->users[0]));
    memset(&out->users[0], 0, sizeof(out->users[0]));
    strcpy(out->users[0].name, "default");
    memcpy(out->users[0].sha256, sha256, sizeof(sha256));
    out->user_count++;
    return true;
}

int
settings_parse(const char *path, const char *const *overrides, size_t override_count, struct settings *out, char *why,
               size_t why_bytes)
{
    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        CHECK(setting_parse(&settings_table[i], settings_table[i].initial, out, why, why_bytes));
    }
    if (path != NULL) {
        struct settings_text text;
        struct source file = { SETTING_BY_FILE, NULL, &text };
        bool good = settings_text_read(&text, path, why, why_bytes) && parse_text(&text, out, &file, why, why_bytes);
        settings_text_fini(&text);
        if (!good) {
            return -1;
        }
    }
    for (size_t i = 0; i < override_count; i++) {
        if (!parse_override(overrides[i], out, why, why_bytes)) {
            return -1;
        }
    }
    return keep_password(out, why, why_bytes) ? 0 : -1;
}

int
settings_load(const char *path, const char *const *overrides, size_t override_count, struct settings *out, char *why,
              size_t why_bytes)
{
    static struct host host; /* 16 KiB; this is boot code of one thread */

    if (settings_parse(path, overrides, override_count, out, why, why_bytes) != 0) {
        return -1;
    }
    host_read("", &host);
    host.reservable_bytes = out->memory_reserve == 0 ? 0 : host_reservable(out->memory_reserve);
    return settings_resolve(out, &host, why, why_bytes);
}

int
settings_check(const char *path, const char *const *overrides, size_t override_count, struct settings *out, char *why,
               size_t why_bytes, char *here, size_t here_bytes)
{
    static struct host host;

    if (settings_parse(path, overrides, override_count, out, why, why_bytes) != 0) {
        return -1;
    }
    host_read("", &host);
    host.reservable_bytes = out->memory_reserve == 0 ? 0 : host_reservable(out->memory_reserve);
    return settings_resolve_elsewhere(out, &host, why, why_bytes, here, here_bytes);
}
