/* sluicectl_config.c - settings: what they are, changing them, reading the file again, checking one. */
#include "config/paths.h"
#include "config/settings.h"
#include "tools/sluicectl.h"
#include <sodium.h>
#include <unistd.h>

/* Those of one type, if there are any. */
static void
print_ports(const json_t *rows, const char *type, const struct column *columns, size_t count)
{
    json_t *some = json_array();

    for (size_t i = 0; i < json_array_size(rows); i++) {
        if (strcmp(get_text(json_array_get(rows, i), "type"), type) == 0) {
            json_array_append(some, json_array_get(rows, i));
        }
    }
    if (json_array_size(some) > 0) {
        putchar('\n');
        table_print(some, columns, count, "");
    }
    json_decref(some);
}

int
config_show_run(const struct options *options)
{
    static const struct column columns[] = { { "NAME", "name", COLUMN_TEXT },
                                             { "VALUE", "value", COLUMN_TEXT },
                                             { "FROM", "from", COLUMN_TEXT },
                                             { "DEFAULT", "default", COLUMN_TEXT },
                                             { "MEANING", "help", COLUMN_TEXT } };
    static const struct column ports[] = {
        { "PORT", "name", COLUMN_TEXT },    { "PROVIDER", "provider", COLUMN_TEXT },
        { "NODE", "node", COLUMN_TEXT },    { "DOMAIN", "domain", COLUMN_TEXT },
        { "SEND", "send", COLUMN_TEXT },    { "RX", "rx_slots", COLUMN_EXACT },
        { "TX", "tx_slots", COLUMN_EXACT }, { "FRAME", "frame_bytes", COLUMN_EXACT }
    };
    static const struct column ethernets[] = { { "PORT", "name", COLUMN_TEXT },
                                               { "DEVICE", "device", COLUMN_TEXT },
                                               { "ADDRESS", "address", COLUMN_TEXT },
                                               { "GATEWAY", "gateway", COLUMN_TEXT },
                                               { "MTU", "mtu", COLUMN_EXACT },
                                               { "LCORE", "lcore", COLUMN_EXACT },
                                               { "RX", "rx_descriptors", COLUMN_EXACT },
                                               { "TX", "tx_descriptors", COLUMN_EXACT },
                                               { "EAL", "eal", COLUMN_TEXT } };
    json_t *result = call(options, "config show", NULL);

    if (options->json) {
        return print_json(result);
    }
    table_print(json_object_get(result, "settings"), columns, options->full ? 5 : 3, "no settings");
    print_ports(json_object_get(result, "ports"), "fabric", ports, ARRAY_COUNT(ports));
    print_ports(json_object_get(result, "ports"), "ethernet", ethernets, ARRAY_COUNT(ethernets));
    json_decref(result);
    return EXIT_GOOD;
}

int
config_get_run(const struct options *options)
{
    if (options->word == NULL) {
        fail(EXIT_USAGE, "expected the name of a setting, as in: sluicectl config get memory.limit");
    }
    json_t *result = call(options, "config show", NULL), *row;
    size_t at;

    json_array_foreach(json_object_get(result, "settings"), at, row)
    {
        if (strcmp(get_text(row, "name"), options->word) != 0) {
            continue;
        }
        if (options->json) {
            json_incref(row);
            json_decref(result);
            return print_json(row);
        }
        puts(get_text(row, "value"));
        json_decref(result);
        return EXIT_GOOD;
    }
    fail(EXIT_BAD, "no such setting; sluicectl config show lists them");
}

void
print_warnings(const json_t *result)
{
    const json_t *row;
    size_t at;

    json_array_foreach(json_object_get(result, "warnings"), at, row)
    {
        fprintf(stderr, "sluicectl: warning: %s\n", json_string_value(row));
    }
}

int
config_set_run(const struct options *options)
{
    if (options->value == NULL) {
        fail(EXIT_USAGE, "expected a name and a value, as in: sluicectl config set memory.limit 2GiB");
    }
    bool save = options->save != NULL;
    json_t *args = json_pack("{s:s,s:s}", "name", options->word, "value", options->value);

    if (args == NULL) {
        fail(EXIT_USAGE, "an argument is not UTF-8");
    }
    if (save) {
        json_object_set_new(args, "save", json_true());
    }
    json_t *result = call(options, "config set", args);
    if (options->json) {
        return print_json(result);
    }
    printf("%s is now %s%s\n", get_text(result, "name"), get_text(result, "value"), save ? ", saved" : "");
    print_warnings(result);
    json_decref(result);
    return EXIT_GOOD;
}

int
config_reload_run(const struct options *options)
{
    json_t *result = call(options, "config reload", NULL), *row;
    size_t at;

    if (options->json) {
        return print_json(result);
    }
    json_array_foreach(json_object_get(result, "changed"), at, row)
    {
        printf("%s: %s is now %s\n", get_text(row, "name"), get_text(row, "before"), get_text(row, "value"));
    }
    json_array_foreach(json_object_get(result, "restart"), at, row)
    {
        printf("%s: takes effect at the next start\n", json_string_value(row));
    }
    if (json_array_size(json_object_get(result, "changed")) + json_array_size(json_object_get(result, "restart")) ==
        0) {
        puts("nothing has changed");
    }
    print_warnings(result);
    json_decref(result);
    return EXIT_GOOD;
}

/* Needs no appliance. */
int
config_check_run(const struct options *options)
{
    static struct settings settings;
    char why[SETTINGS_WHY_BYTES], here[2 * SETTINGS_WHY_BYTES];
    const char *path = options->word;

    if (sodium_init() < 0) {
        fail(EXIT_BAD, "libsodium cannot start");
    }
    if (path == NULL && access(PATHS_SYSTEM_SETTINGS, F_OK) == 0) {
        path = PATHS_SYSTEM_SETTINGS;
    }
    if (settings_check(path, NULL, 0, &settings, why, sizeof(why), here, sizeof(here)) != 0) {
        fail(EXIT_BAD, "%s", why);
    }
    if (options->json) {
        return print_json(json_pack("{s:s,s:b,s:s}", "file", path == NULL ? "" : path, "good", 1, "here", here));
    }
    printf("%s: good%s%s\n", path == NULL ? "built-in settings" : path,
           here[0] == '\0' ? "" : "; not on this host: ", here);
    return EXIT_GOOD;
}
