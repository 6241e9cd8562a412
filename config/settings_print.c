#include "config/settings_parts.h"

const char *
setting_print(const struct settings *settings, const struct setting *setting, char out[SETTING_PRINT_BYTES])
{
    const void *field = (const char *)settings + setting->offset;

    if (setting->kind < SETTING_BOOL && *(const uint64_t *)field == 0 && strcmp(setting->initial, "auto") == 0) {
        return strcpy(out, "auto"); /* not decided yet, or anew each time it matters */
    }
    switch (setting->kind) {
    case SETTING_SIZE:
        return unit_print_size(out, *(const uint64_t *)field);
    case SETTING_TIME:
        return unit_print_time_ms(out, *(const uint64_t *)field);
    case SETTING_COUNT:
        snprintf(out, SETTING_PRINT_BYTES, "%llu", (unsigned long long)*(const uint64_t *)field);
        return out;
    case SETTING_BOOL:
        return strcpy(out, *(const bool *)field ? "true" : "false");
    case SETTING_TEXT:
    case SETTING_CHOICE:
        break;
    }
    snprintf(out, SETTING_PRINT_BYTES, "%s", (const char *)field);
    return out;
}

/* As libconfig reads a string. */
static void
print_quoted(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            fputc('\\', out);
        }
        fputc(*text, out);
    }
    fputc('"', out);
}

static void
print_value(FILE *out, const struct setting *setting, const char *value)
{
    bool bare = setting->kind == SETTING_BOOL || (setting->kind == SETTING_COUNT && strcmp(value, "auto") != 0);

    fprintf(out, "%s = ", strchr(setting->name, '.') == NULL ? setting->name : strchr(setting->name, '.') + 1);
    if (bare) {
        fputs(value, out);
    } else {
        print_quoted(out, value);
    }
    fputc(';', out);
}

static void
print_ports(const struct settings *settings, FILE *out)
{
    char value[SETTING_PRINT_BYTES];

    if (settings->port_count == 0) {
        return;
    }
    fputs("\nports = (\n", out);
    for (uint32_t i = 0; i < settings->port_count; i++) {
        fputs("  {", out);
        for (size_t row = 0; row < port_settings_count; row++) {
            if (!port_setting_applies(settings->ports[i].type, &port_settings_table[row])) {
                continue;
            }
            fputc(' ', out);
            print_value(out, &port_settings_table[row],
                        port_setting_print(&settings->ports[i], &port_settings_table[row], value));
        }
        fprintf(out, " }%s\n", i + 1 < settings->port_count ? "," : "");
    }
    fputs(");\n", out);
}

static void
print_users(const struct settings *settings, FILE *out)
{
    uint32_t first = settings->auth_password[0] != '\0'; /* "default" is auth.password */
    char password[PASSWORD_PRINT_BYTES];

    if (settings->user_count == first) {
        return;
    }
    fputs("\nusers = (\n", out);
    for (uint32_t i = first; i < settings->user_count; i++) {
        password_print(settings->users[i].sha256, password);
        fputs("  { name = ", out);
        print_quoted(out, settings->users[i].name);
        fprintf(out, "; password = \"%s\"; }%s\n", password, i + 1 < settings->user_count ? "," : "");
    }
    fputs(");\n", out);
}

void
settings_print(const struct settings *settings, FILE *out)
{
    static const char *const origins[] = { "default", "file", "--set" };
    char value[SETTING_PRINT_BYTES];
    size_t group = 0;

    for (size_t i = 0; i < SETTINGS_COUNT; i++) {
        const struct setting *setting = &settings_table[i];
        size_t bytes = (size_t)(strchr(setting->name, '.') - setting->name) + 1;

        if (i == 0 || strncmp(setting->name, settings_table[group].name, bytes) != 0) {
            fprintf(out, "%s%.*s: {\n", i == 0 ? "" : "};\n", (int)bytes - 1, setting->name);
            group = i;
        }
        fputs("  ", out);
        print_value(out, setting, setting_print(settings, setting, value));
        bool by_host = i == SETTING_ID_memory_reserve && settings->reserve_by_host;
        fprintf(out, "  # %s%s; %s\n", origins[settings->origins[i]], by_host ? ", auto" : "", setting->help);
    }
    fputs("};\n", out);
    print_ports(settings, out);
    print_users(settings, out);
}
