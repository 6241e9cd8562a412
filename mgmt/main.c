/* main.c - sluiced: read the settings, then be the management core. */
#include "config/cpu.h"
#include "mgmt/doctor.h"
#include "mgmt/mgmt.h"
#include <getopt.h>
#include <sodium.h>
#include <unistd.h>

#define OVERRIDES_MAX 256
#define EXIT_USAGE    2

static const char usage[] =
    "usage: sluiced [-c FILE] [--set GROUP.NAME=VALUE]... [--check | --print-config | --doctor | --version |\n"
    "               --help]\n"
    "\n"
    "  -c, --config FILE       settings; without it " PATHS_SYSTEM_SETTINGS " if that exists, else built-in ones\n"
    "  -s, --set NAME=VALUE    one setting, over the file's; may be given again\n"
    "      --check             read and check the settings, then exit: 0 when they are good. They may be another "
    "host's:\n"
    "                          CPUs and memory that this one lacks, and ports, are one line of warning\n"
    "      --doctor            say what of this host keeps an appliance with these settings from its best, with "
    "remedies,\n"
    "                          then exit: 0 when all is as wanted, else 1\n"
    "      --print-config      print the settings as a file, with what \"auto\" became, then exit\n"
    "      --version           print the version, then exit\n"
    "  -h, --help              print this, then exit\n"
    "\n"
    "Without arguments: streams on 127.0.0.1:6379 and [::1]:6379, any Linux, no root, no huge pages, no special NIC.\n"
    "Settings: sluice.conf(5).\n";

enum mode { MODE_RUN, MODE_CHECK, MODE_PRINT, MODE_DOCTOR };

struct arguments {
    const char *path; /* NULL: the system's file, if it exists */
    const char *overrides[OVERRIDES_MAX];
    size_t override_count;
    enum mode mode;
};

/* Exit status of what was asked to print. */
static int
output_status(void)
{
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}

static void
print_and_exit(const char *text)
{
    fputs(text, stdout);
    exit(output_status());
}

static void
read_arguments(struct arguments *arguments, int argc, char **argv)
{
    static const struct option options[] = {
        { "config", required_argument, NULL, 'c' }, { "set", required_argument, NULL, 's' },
        { "check", no_argument, NULL, 'k' },        { "doctor", no_argument, NULL, 'd' },
        { "print-config", no_argument, NULL, 'p' }, { "version", no_argument, NULL, 'v' },
        { "help", no_argument, NULL, 'h' },         { NULL, 0, NULL, 0 },
    };
    int option;

    while ((option = getopt_long(argc, argv, "c:s:h", options, NULL)) != -1) {
        switch (option) {
        case 'c':
            arguments->path = optarg;
            break;
        case 's':
            if (arguments->override_count == OVERRIDES_MAX) {
                fprintf(stderr, "sluiced: too many --set, expected at most %d\n", OVERRIDES_MAX);
                exit(EXIT_USAGE);
            }
            arguments->overrides[arguments->override_count++] = optarg;
            break;
        case 'k':
            arguments->mode = MODE_CHECK;
            break;
        case 'd':
            arguments->mode = MODE_DOCTOR;
            break;
        case 'p':
            arguments->mode = MODE_PRINT;
            break;
        case 'v':
            print_and_exit("sluiced " SLUICE_VERSION "\n");
            break;
        case 'h':
            print_and_exit(usage);
            break;
        default:
            fputs("try: sluiced --help\n", stderr);
            exit(EXIT_USAGE);
        }
    }
    if (optind < argc) {
        fprintf(stderr, "sluiced: unexpected argument \"%s\"; settings are given with --set\ntry: sluiced --help\n",
                argv[optind]);
        exit(EXIT_USAGE);
    }
}

static bool
is_secret(const char *override)
{
    return strncmp(override, "auth.password=", 14) == 0 || strncmp(override, "users=", 6) == 0;
}

/* A password behind --set does not stay where ps shows it, nor among what a reload reads again. */
static void
hide_passwords(struct arguments *arguments)
{
    size_t kept = 0;

    for (size_t i = 0; i < arguments->override_count; i++) {
        char *value = strchr(arguments->overrides[i], '=');
        if (is_secret(arguments->overrides[i])) {
            memset(value + 1, '*', strlen(value + 1));
        } else {
            arguments->overrides[kept++] = arguments->overrides[i];
        }
    }
    arguments->override_count = kept;
}

/* What a file says holds everywhere; what this host lacks is worth a warning only. */
static int
check(const struct arguments *arguments, struct settings *settings)
{
    char why[SETTINGS_WHY_BYTES], here[2 * SETTINGS_WHY_BYTES];

    if (settings_check(arguments->path, arguments->overrides, arguments->override_count, settings, why, sizeof(why),
                       here, sizeof(here)) != 0) {
        fprintf(stderr, "sluiced: %s\n", why);
        return 1;
    }
    if (here[0] != '\0' || settings->port_count > 0) {
        fprintf(stderr, "sluiced: warning: %s%s%s%s\n", here[0] == '\0' ? "" : "this host cannot do it: ", here,
                here[0] != '\0' && settings->port_count > 0 ? "; " : "",
                settings->port_count > 0 ? "not tried: ports" : "");
    }
    printf("%s: good\n", arguments->path == NULL ? "built-in settings" : arguments->path);
    return output_status();
}

/* Also another host's: what "auto" would become there stays "auto". */
static int
print(const struct arguments *arguments, struct settings *settings)
{
    char why[SETTINGS_WHY_BYTES], here[2 * SETTINGS_WHY_BYTES];

    if (settings_check(arguments->path, arguments->overrides, arguments->override_count, settings, why, sizeof(why),
                       here, sizeof(here)) != 0) {
        fprintf(stderr, "sluiced: %s\n", why);
        return 1;
    }
    if (here[0] != '\0') {
        fprintf(stderr, "sluiced: warning: this host cannot do it: %s\n", here);
    }
    settings_print(settings, stdout);
    return output_status();
}

static int
examine(const struct arguments *arguments, struct settings *settings)
{
    static struct doctor doctor; /* some 100 KiB */
    char why[SETTINGS_WHY_BYTES], here[2 * SETTINGS_WHY_BYTES];
    struct text text = { 0 };

    if (settings_check(arguments->path, arguments->overrides, arguments->override_count, settings, why, sizeof(why),
                       here, sizeof(here)) != 0) {
        fprintf(stderr, "sluiced: %s\n", why);
        return 1;
    }
    doctor = (struct doctor){ .root = "", .settings = settings, .elsewhere = here };
    doctor_examine(&doctor);
    doctor_print(&doctor, &text);
    fputs(text.bytes, stdout);
    text_fini(&text);
    return output_status() == 0 && doctor_worst(&doctor) == DOCTOR_GOOD ? 0 : 1;
}

int
main(int argc, char **argv)
{
    static struct settings settings; /* some 70 KiB */
    static struct mgmt mgmt;
    struct arguments arguments = { .path = NULL };
    char why[SETTINGS_WHY_BYTES];

    cpu_require("sluiced");
    mgmt.begun_ms = loop_now_ms();
    host_keep_standard_files();
    read_arguments(&arguments, argc, argv);
    if (arguments.path == NULL && access(PATHS_SYSTEM_SETTINGS, F_OK) == 0) {
        arguments.path = PATHS_SYSTEM_SETTINGS;
    }
    CHECK(sodium_init() >= 0);
    if (arguments.mode == MODE_CHECK) {
        return check(&arguments, &settings);
    }
    if (arguments.mode == MODE_PRINT) {
        return print(&arguments, &settings);
    }
    if (arguments.mode == MODE_DOCTOR) {
        return examine(&arguments, &settings);
    }
    if (settings_load(arguments.path, arguments.overrides, arguments.override_count, &settings, why, sizeof(why)) !=
        0) {
        fprintf(stderr, "sluiced: %s\n", why);
        return EXIT_USAGE;
    }
    hide_passwords(&arguments);
    mgmt.settings = &settings;
    mgmt.overrides = arguments.overrides;
    mgmt.override_count = arguments.override_count;
    mgmt.settings_path = arguments.path == NULL ? "" : arguments.path;
    return mgmt_run(&mgmt);
}
