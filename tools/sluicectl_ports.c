/* sluicectl_ports.c - the ports, and copies of the packets of an ethernet port in a file. */
#include "tools/sluicectl.h"
#include <limits.h>
#include <signal.h>
#include <unistd.h>

#define ASK_EVERY_US 100000

/* ---- ports ---- */

/* What an ethernet port has beyond the table's columns. */
static void
print_devices(const json_t *ports)
{
    for (size_t i = 0; i < json_array_size(ports); i++) {
        const json_t *row = json_array_get(ports, i);
        if (json_object_get(row, "device") == NULL) {
            continue;
        }
        printf("\n%s: %s, MAC %s, link %s, offloads %s\n", get_text(row, "type"), get_text(row, "device"),
               get_text(row, "mac"), get_text(row, "link"), get_text(row, "offloads"));
        printf("memory: %s; %.0f of %.0f frames held, %.0f connections\n", get_text(row, "memory"),
               get_number(row, "frames_held"), get_number(row, "frames"), get_number(row, "connections"));
        printf("EAL: %s\n", get_text(row, "eal"));
    }
}

int
ports_run(const struct options *options)
{
    static const struct column columns[] = {
        { "LCORE", "lcore", COLUMN_EXACT },
        { "PORT", "port", COLUMN_EXACT },
        { "TYPE", "type", COLUMN_TEXT },
        { "PROVIDER", "provider", COLUMN_TEXT },
        { "SEND", "send", COLUMN_TEXT },
        { "RX", "rx_slots", COLUMN_EXACT },
        { "TX", "tx_slots", COLUMN_EXACT },
        { "FRAME", "frame_bytes", COLUMN_EXACT },
        { "INJECT", "inject_bytes", COLUMN_EXACT },
        { "CREDIT", "credit", COLUMN_EXACT },
        { "ADDRESS", "address", COLUMN_TEXT },
    };
    json_t *result = call(options, "ports", NULL);

    if (options->json) {
        return print_json(result);
    }
    table_print(json_object_get(result, "ports"), columns, ARRAY_COUNT(columns) - !options->full, "no ports");
    print_devices(json_object_get(result, "ports"));
    json_decref(result);
    return EXIT_GOOD;
}

/* ---- capture ---- */

static volatile sig_atomic_t interrupted; /* what a signal handler may write */

static void
interrupt(int signal)
{
    interrupted = 1;
}

/* The appliance has a working directory of its own. */
static void
path_complete(const char *file, char out[PATH_MAX])
{
    char directory[PATH_MAX];

    if (file[0] == '/') {
        snprintf(out, PATH_MAX, "%s", file);
        return;
    }
    if (getcwd(directory, sizeof(directory)) == NULL ||
        (size_t)snprintf(out, PATH_MAX, "%s/%s", directory, file) >= PATH_MAX) {
        fail(EXIT_USAGE, "the name of the file is too long");
    }
}

static void
add_number(json_t *args, const char *name, uint64_t value)
{
    if (value != UINT64_MAX) {
        json_object_set_new(args, name, json_integer((json_int_t)value));
    }
}

int
capture_run(const struct options *options)
{
    struct sigaction action = { .sa_handler = interrupt };
    char path[PATH_MAX], cell[CELL_BYTES];

    if (options->word == NULL || options->value == NULL) {
        fail(EXIT_USAGE, "expected a port and a file, as in: sluicectl capture ethernet /tmp/ethernet.pcap");
    }
    path_complete(options->value, path);
    json_t *args = json_pack("{s:s,s:s}", "port", options->word, "file", path);
    add_number(args, "seconds", options->seconds);
    add_number(args, "packets", options->packets);
    add_number(args, "snap", options->snap);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    json_t *result = call(options, "capture start", args);
    while (json_is_true(json_object_get(result, "runs"))) {
        json_decref(result);
        if (!interrupted) {
            usleep(ASK_EVERY_US);
        }
        result = call(options, interrupted ? "capture stop" : "capture", NULL);
    }
    int status = json_is_true(json_object_get(result, "failed")) ? EXIT_BAD : EXIT_GOOD;
    if (options->json) {
        print_json(result);
        return status;
    }
    printf("%s: %.0f packets, %s; %.0f more were lost (%s)\n", get_text(result, "file"), get_number(result, "packets"),
           cell_print(json_object_get(result, "bytes"), COLUMN_BYTES, cell), get_number(result, "dropped"),
           get_text(result, "ended"));
    json_decref(result);
    return status;
}
