#include "config/settings_parts.h"
#include <sodium.h>
#include <stdarg.h>
#include <strings.h>

bool
complain(char *why, size_t why_bytes, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why, why_bytes, format, args);
    va_end(args);
    return false;
}

bool
complain_about(const struct settings *settings, enum setting_id id, char *why, size_t why_bytes, const char *format,
               ...)
{
    static const char *const before[] = { "default of ", "", "--set ", "" };
    enum setting_origin origin = settings->origins[id];
    char part[SETTINGS_WHY_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(part, sizeof(part), format, args);
    va_end(args);
    return complain(why, why_bytes, "%s%s%s: %s", origin == SETTING_BY_FILE ? settings->places[id] : before[origin],
                    origin == SETTING_BY_FILE ? ": " : "", settings_table[id].name, part);
}

bool
complain_unknown(char *why, size_t why_bytes, const char *kind, const char *name, const char *const *names,
                 size_t count)
{
    char quoted[QUOTE_BYTES];
    const char *near = nearest_name(name, names, count);

    if (near == NULL) {
        return complain(why, why_bytes, "unknown %s %s", kind, quote_text(quoted, name));
    }
    return complain(why, why_bytes, "unknown %s %s, did you mean \"%s\"?", kind, quote_text(quoted, name), near);
}

static bool
is_auto(const struct setting *setting)
{
    return strcmp(setting->initial, "auto") == 0 && setting->kind != SETTING_CHOICE;
}

static size_t
text_bytes_max(const struct setting *setting)
{
    return setting->max == 0 ? SETTING_TEXT_BYTES - 1 : setting->max;
}

const char *
setting_expectation(const struct setting *setting, char out[SETTING_EXPECT_BYTES])
{
    char low[UNIT_TEXT_BYTES], high[UNIT_TEXT_BYTES];
    const char *or_auto = is_auto(setting) ? ", or \"auto\"" : "";
    size_t used;

    switch (setting->kind) {
    case SETTING_SIZE:
        snprintf(out, SETTING_EXPECT_BYTES, "a size from \"%s\" to \"%s\" (" UNIT_SIZES ")%s",
                 unit_print_size(low, setting->min), unit_print_size(high, setting->max), or_auto);
        break;
    case SETTING_TIME:
        snprintf(out, SETTING_EXPECT_BYTES, "a time from \"%s\" to \"%s\" (" UNIT_TIMES ")%s",
                 unit_print_time_ms(low, setting->min), unit_print_time_ms(high, setting->max), or_auto);
        break;
    case SETTING_COUNT:
        snprintf(out, SETTING_EXPECT_BYTES, "a whole number from %llu to %llu%s", (unsigned long long)setting->min,
                 (unsigned long long)setting->max, or_auto);
        break;
    case SETTING_BOOL:
        snprintf(out, SETTING_EXPECT_BYTES, "true or false");
        break;
    case SETTING_TEXT:
        snprintf(out, SETTING_EXPECT_BYTES, "printable text of %s%zu bytes", setting->min ? "1 to " : "at most ",
                 text_bytes_max(setting));
        break;
    case SETTING_CHOICE:
        used = (size_t)snprintf(out, SETTING_EXPECT_BYTES, setting->choice_count > 1 ? "one of" : "");
        for (size_t i = 0; i < setting->choice_count && used < SETTING_EXPECT_BYTES; i++) {
            used += (size_t)snprintf(out + used, SETTING_EXPECT_BYTES - used, "%s\"%s\"",
                                     i      ? ", "
                                     : used ? " "
                                            : "",
                                     setting->choices[i]);
        }
        break;
    }
    return out;
}

/* Never repeated in a message, a log or a reply. */
static bool
is_secret(const struct setting *setting)
{
    const char *point = strrchr(setting->name, '.');
    return strcmp(point == NULL ? setting->name : point + 1, "password") == 0;
}

static bool
refuse(const struct setting *setting, const char *value, const char *what, char *why, size_t why_bytes)
{
    char quoted[QUOTE_BYTES], expected[SETTING_EXPECT_BYTES];

    return complain(why, why_bytes, "%s: %s %s, expected %s", setting->name,
                    is_secret(setting) ? "the value" : quote_text(quoted, value), what,
                    setting_expectation(setting, expected));
}

static bool
parse_number(const struct setting *setting, const char *value, uint64_t *out, char *why, size_t why_bytes)
{
    enum unit_status status;
    uint64_t number = 0;

    if (is_auto(setting) && strcmp(value, "auto") == 0) {
        *out = 0;
        return true;
    }
    switch (setting->kind) {
    case SETTING_SIZE:
        status = unit_parse_size(value, &number);
        break;
    case SETTING_TIME:
        status = unit_parse_time_ms(value, &number);
        break;
    default:
        status = unit_parse_count(value, &number);
        break;
    }
    if (status != UNIT_OK) {
        return refuse(setting, value, unit_status_text(status), why, why_bytes);
    }
    if (number < setting->min || number > setting->max) {
        return refuse(setting, value, number < setting->min ? "is too small" : "is too large", why, why_bytes);
    }
    *out = number;
    return true;
}

/* UTF-8 passes; control characters would end up in a terminal, a path or a log line. */
static bool
is_printable(const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        if (*at < 0x20 || *at == 0x7f) {
            return false;
        }
    }
    return true;
}

static bool
parse_text(const struct setting *setting, const char *value, char *out, char *why, size_t why_bytes)
{
    size_t bytes = strlen(value);

    if (bytes > text_bytes_max(setting)) {
        return refuse(setting, value, "is too long", why, why_bytes);
    }
    if (bytes < setting->min) {
        return refuse(setting, value, "is too short", why, why_bytes);
    }
    if (!is_printable(value)) {
        return refuse(setting, value, "does not print", why, why_bytes);
    }
    memcpy(out, value, bytes + 1);
    return true;
}

static bool
parse_choice(const struct setting *setting, const char *value, char *out, char *why, size_t why_bytes)
{
    for (size_t i = 0; i < setting->choice_count; i++) {
        if (strcasecmp(value, setting->choices[i]) == 0) { /* as CONFIG SET takes them */
            strcpy(out, setting->choices[i]);
            return true;
        }
    }
    refuse(setting, value, "is not known", why, why_bytes);
    const char *near = nearest_name(value, setting->choices, setting->choice_count);
    size_t used = strlen(why);
    if (near != NULL) {
        snprintf(why + used, why_bytes - used, "; did you mean \"%s\"?", near);
    }
    return false;
}

bool
setting_parse(const struct setting *setting, const char *value, void *base, char *why, size_t why_bytes)
{
    char *field = (char *)base + setting->offset;

    switch (setting->kind) {
    case SETTING_SIZE:
    case SETTING_TIME:
    case SETTING_COUNT:
        return parse_number(setting, value, (uint64_t *)field, why, why_bytes);
    case SETTING_BOOL:
        if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0) {
            return refuse(setting, value, "is neither", why, why_bytes);
        }
        *(bool *)field = value[0] == 't';
        return true;
    case SETTING_CHOICE:
        return parse_choice(setting, value, field, why, why_bytes);
    case SETTING_TEXT:
        break;
    }
    return parse_text(setting, value, field, why, why_bytes);
}

/* ---- from libconfig ---- */

static bool
wrong_type(const struct setting *setting, const char *is, char *why, size_t why_bytes)
{
    char expected[SETTING_EXPECT_BYTES];

    return complain(why, why_bytes, "%s: is %s, expected %s%s", setting->name, is,
                    setting_expectation(setting, expected),
                    setting->kind == SETTING_COUNT  ? " without quotes"
                    : setting->kind == SETTING_BOOL ? ""
                                                    : " in double quotes");
}

bool
setting_value_text(const struct setting *setting, const config_setting_t *element, char scratch[VALUE_BYTES],
                   const char **value, char *why, size_t why_bytes)
{
    *value = scratch;
    switch (config_setting_type(element)) {
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_INT64:
        if (setting->kind != SETTING_SIZE && setting->kind != SETTING_COUNT) {
            return wrong_type(setting, "a number", why, why_bytes);
        }
        snprintf(scratch, VALUE_BYTES, "%lld", (long long)config_setting_get_int64(element));
        return true;
    case CONFIG_TYPE_BOOL:
        if (setting->kind != SETTING_BOOL) {
            return wrong_type(setting, "true or false", why, why_bytes);
        }
        *value = config_setting_get_bool(element) ? "true" : "false";
        return true;
    case CONFIG_TYPE_STRING:
        *value = config_setting_get_string(element);
        if (setting->kind == SETTING_BOOL ||
            (setting->kind == SETTING_COUNT && !(is_auto(setting) && strcmp(*value, "auto") == 0))) {
            return wrong_type(setting, "text in quotes", why, why_bytes);
        }
        return true;
    case CONFIG_TYPE_FLOAT:
        return wrong_type(setting, "a number with a point", why, why_bytes);
    case CONFIG_TYPE_GROUP:
        return wrong_type(setting, "a group", why, why_bytes);
    default:
        return wrong_type(setting, "a list", why, why_bytes);
    }
}

/* ---- passwords ---- */

bool
password_parse(const char *text, uint8_t sha256[32], char *why, size_t why_bytes)
{
    size_t bytes;

    if (text[0] != '#') {
        crypto_hash_sha256(sha256, (const unsigned char *)text, strlen(text));
        return true;
    }
    if (strlen(text) != 65 || sodium_hex2bin(sha256, 32, text + 1, 64, NULL, &bytes, NULL) != 0 || bytes != 32) {
        return complain(why, why_bytes,
                        "\"#\" is not followed by a SHA-256, expected exactly 64 hex digits behind it, "
                        "or a password that does not begin with \"#\"");
    }
    return true;
}

void
password_print(const uint8_t sha256[32], char out[PASSWORD_PRINT_BYTES])
{
    out[0] = '#';
    sodium_bin2hex(out + 1, 65, sha256, 32);
}
