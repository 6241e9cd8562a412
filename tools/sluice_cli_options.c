/* sluice_cli_options.c - the command line: redis-cli's letters, and --sbe and --fabric. */
#include "tools/sluice_cli.h"
#include <math.h>
#include <unistd.h>

#define USAGE_ERROR 2

static const char usage[] =
    "Usage: sluice-cli [OPTIONS] [COMMAND [ARGUMENT...]]\n"
    "Without a command: a prompt, or commands from the lines of stdin when that is no terminal.\n"
    "\n"
    "  -h HOST, -p PORT       server (127.0.0.1, 6379)\n"
    "  -s PATH                Unix socket instead\n"
    "  -a PASSWORD, --pass    password; better in the environment variable REDISCLI_AUTH\n"
    "  --user NAME            user name; needs a password\n"
    "  --askpass              ask for the password\n"
    "  -u URI                 redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]\n"
    "  -n NUMBER              database: 0 is the only one\n"
    "  -2, -3, --sbe          wire: RESP2 (default), RESP3, SBE\n"
    "  --fabric PROVIDER      send over the fabric (shm, net, tcp;ofi_rxm, efa ...); the server above attaches\n"
    "  --send MODE            frames on the fabric: auto, inject or send\n"
    "  -r COUNT               run the command COUNT times; -1: for ever\n"
    "  -i SECONDS             wait between two runs; may be a fraction\n"
    "  -x                     the last argument is what stdin holds\n"
    "  -e                     exit with 1 when the server answers an error\n"
    "  -d DELIMITER           between elements in raw format\n"
    "  --raw, --no-raw, --json  output format; the default is raw unless stdout is a terminal\n"
    "  --quoted-input         arguments may be \"quoted\"\n"
    "  --pipe                 send stdin, which is RESP, as it is; count the replies\n"
    "  --pipe-timeout SECONDS give up after so long without a reply (30; 0: never)\n"
    "  --scan                 print every key; with --pattern PATTERN, --count COUNT for each step, -i between them\n"
    "  --latency              ping for ever and show minimum, maximum, average\n"
    "  --latency-history      the same in rows of 15 seconds (or -i)\n"
    "  --stat                 rows of keys, memory, clients and requests\n"
    "  --version, --help\n";

/* Of redis-cli, and clear about not being here. Those that take a value are not asked for it. */
static const char *const absent[] = {
    "--bigkeys",      "--memkeys",           "--hotkeys", "--lru-test", "--replica", "--slave",
    "--rdb",          "--functions-rdb",     "--eval",    "--ldb",      "--cluster", "--tls",
    "--latency-dist", "--intrinsic-latency", "-c",        "-X",         "-D",        "--csv"
};

static int
complain(const char *format, const char *what)
{
    fprintf(stderr, "sluice-cli: ");
    fprintf(stderr, format, what);
    fprintf(stderr, "\n");
    return USAGE_ERROR;
}

static bool
number_read(const char *text, double min, double max, double *out)
{
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end != '\0' || !(number >= min && number <= max)) {
        complain("'%s' is not a number this option takes", text);
        return false;
    }
    *out = number;
    return true;
}

static bool
integer_read(const char *text, double min, double max, double *out)
{
    if (!number_read(text, min, max, out)) {
        return false;
    }
    if (*out != floor(*out)) {
        complain("'%s' is not a whole number", text);
        return false;
    }
    return true;
}

/* %41 -> A, in place. */
static void
percent_decode(char *text)
{
    char *out = text;
    for (; *text != '\0'; text++) {
        unsigned code;
        if (text[0] == '%' && text[1] != '\0' && text[2] != '\0' && sscanf(text + 1, "%2x", &code) == 1) {
            *out++ = (char)code;
            text += 2;
        } else {
            *out++ = *text;
        }
    }
    *out = '\0';
}

/* redis://[[user]:password@]host[:port][/database]; the copy lives as long as the program. */
static bool
uri_read(struct cli_options *options, const char *uri)
{
    static const char scheme[] = "redis://";
    if (strncmp(uri, scheme, sizeof(scheme) - 1) != 0) {
        complain("'%s': a URI begins with redis://", uri);
        return false;
    }
    char *at = strdup(uri + sizeof(scheme) - 1);
    CHECK(at != NULL);
    char *login_end = strchr(at, '@');
    if (login_end != NULL) {
        *login_end = '\0';
        char *colon = strchr(at, ':');
        options->client.password = colon != NULL ? colon + 1 : at;
        if (colon != NULL) {
            *colon = '\0';
            percent_decode(colon + 1);
        }
        percent_decode(at);
        if (colon != NULL && *at != '\0') {
            options->client.user = at;
        }
        at = login_end + 1;
    }
    double number;
    char *slash = strchr(at, '/');
    if (slash != NULL) {
        *slash = '\0';
        if (slash[1] != '\0') {
            if (!integer_read(slash + 1, 0, INT32_MAX, &number)) {
                return false;
            }
            options->database = (int)number;
        }
    }
    char *port = at[0] == '[' ? strstr(at, "]:") : strchr(at, ':');
    if (port != NULL) {
        port += at[0] == '[';
        if (!integer_read(port + 1, 0, 65535, &number)) {
            return false;
        }
        options->client.port = (uint16_t)number;
        *port = '\0';
    }
    if (*at != '\0') {
        options->client.host = at;
    }
    return true;
}

/* Options with a value. 1: taken; 0: not one of them; -1: a bad value, complained. */
static int
value_option(struct cli_options *options, const char *name, const char *value)
{
    struct client_options *client = &options->client;
    double number = 0;
    bool good = true;
    if (strcmp(name, "-h") == 0) {
        client->host = value;
    } else if (strcmp(name, "-s") == 0) {
        client->path = value;
    } else if (strcmp(name, "-a") == 0 || strcmp(name, "--pass") == 0) {
        client->password = value;
    } else if (strcmp(name, "--user") == 0) {
        client->user = value;
    } else if (strcmp(name, "-d") == 0) {
        options->delimiter = value;
    } else if (strcmp(name, "--pattern") == 0) {
        options->pattern = value;
    } else if (strcmp(name, "--count") == 0) {
        good = integer_read(value, 1, 9e15, &number);
        options->count = value;
    } else if (strcmp(name, "--fabric") == 0) {
        client->fabric.provider = value;
    } else if (strcmp(name, "-u") == 0) {
        good = uri_read(options, value);
    } else if (strcmp(name, "-p") == 0) {
        good = integer_read(value, 0, 65535, &number);
        client->port = (uint16_t)number;
    } else if (strcmp(name, "-n") == 0) {
        good = integer_read(value, 0, INT32_MAX, &number);
        options->database = (int)number;
    } else if (strcmp(name, "-r") == 0) {
        good = integer_read(value, -1, 9e15, &number);
        options->repeat = (int64_t)number;
    } else if (strcmp(name, "-i") == 0) {
        good = number_read(value, 0, 1e6, &options->interval_s);
        options->interval_chosen = true;
    } else if (strcmp(name, "--pipe-timeout") == 0) {
        good = integer_read(value, 0, 1e6, &number);
        options->pipe_timeout_s = (int)number;
    } else if (strcmp(name, "--send") == 0) {
        static const char *const modes[] = { "auto", "inject", "send" };
        uint32_t i = 0;
        while (i < ARRAY_COUNT(modes) && strcmp(value, modes[i]) != 0) {
            i++;
        }
        good = i < ARRAY_COUNT(modes) || (complain("--send %s: auto, inject or send", value), false);
        client->fabric.send = (enum client_send)i;
    } else {
        return 0;
    }
    return good ? 1 : -1;
}

static void
format_choose(struct cli_options *options, enum cli_format format)
{
    options->format = format;
    options->format_chosen = true;
}

/* Options without a value. False: not one of them. */
static bool
flag_option(struct cli_options *options, const char *name, bool *wire_chosen)
{
    if (strcmp(name, "-x") == 0) {
        options->last_from_stdin = true;
    } else if (strcmp(name, "-e") == 0) {
        options->exit_on_error = true;
    } else if (strcmp(name, "-2") == 0 || strcmp(name, "-3") == 0 || strcmp(name, "--sbe") == 0) {
        options->client.wire = name[1] == '2' ? CLIENT_RESP2 : name[1] == '3' ? CLIENT_RESP3 : CLIENT_SBE;
        *wire_chosen = true;
    } else if (strcmp(name, "--raw") == 0) {
        format_choose(options, CLI_FORMAT_RAW);
    } else if (strcmp(name, "--no-raw") == 0) {
        format_choose(options, CLI_FORMAT_TTY);
    } else if (strcmp(name, "--json") == 0 || strcmp(name, "--quoted-json") == 0) {
        format_choose(options, CLI_FORMAT_JSON);
    } else if (strcmp(name, "--quoted-input") == 0) {
        options->quoted_input = true;
    } else if (strcmp(name, "--pipe") == 0) {
        options->mode = CLI_MODE_PIPE;
    } else if (strcmp(name, "--scan") == 0) {
        options->mode = CLI_MODE_SCAN;
    } else if (strcmp(name, "--latency") == 0) {
        options->mode = CLI_MODE_LATENCY;
    } else if (strcmp(name, "--latency-history") == 0) {
        options->mode = CLI_MODE_LATENCY_HISTORY;
    } else if (strcmp(name, "--stat") == 0) {
        options->mode = CLI_MODE_STAT;
    } else if (strcmp(name, "--askpass") == 0) {
        options->client.password = strdup(getpass("Please input password: "));
        CHECK(options->client.password != NULL);
    } else {
        return strcmp(name, "--no-auth-warning") == 0 || strcmp(name, "--verbose") == 0;
    }
    return true;
}

static bool
is_absent(const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(absent); i++) {
        if (strcmp(name, absent[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void
options_default(struct cli_options *options)
{
    *options = (struct cli_options){ .repeat = 1, .pipe_timeout_s = 30, .delimiter = "\n" };
    client_options_init(&options->client);
    const char *password = getenv("REDISCLI_AUTH");
    if (password != NULL && *password != '\0') {
        options->client.password = password;
    }
    options->format = isatty(STDOUT_FILENO) || getenv("FAKETTY") != NULL ? CLI_FORMAT_TTY : CLI_FORMAT_RAW;
}

static int
options_finish(struct cli_options *options, bool wire_chosen)
{
    if (options->format == CLI_FORMAT_JSON && !wire_chosen) {
        options->client.wire = CLIENT_RESP3; /* maps and doubles keep their types */
    }
    if (options->client.user != NULL && options->client.password == NULL) {
        return complain("%s needs a password: -a, --askpass or REDISCLI_AUTH", "--user");
    }
    if (options->mode == CLI_MODE_PIPE && options->client.wire != CLIENT_RESP2) {
        return complain("%s sends RESP: not with -3 or --sbe", "--pipe");
    }
    return -1;
}

int
cli_options_parse(struct cli_options *options, int argc, char **argv)
{
    bool wire_chosen = false;
    options_default(options);
    int i = 1;
    for (; i < argc && argv[i][0] == '-' && argv[i][1] != '\0'; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--help") == 0 || (strcmp(name, "-h") == 0 && i + 1 == argc)) {
            printf("%s", usage);
            return 0;
        }
        if (strcmp(name, "-v") == 0 || strcmp(name, "--version") == 0) {
            printf("sluice-cli %s\n", SLUICE_VERSION);
            return 0;
        }
        if (is_absent(name)) {
            return complain("%s is not available in this version", name);
        }
        if (flag_option(options, name, &wire_chosen)) {
            continue;
        }
        int taken = value_option(options, name, i + 1 < argc ? argv[i + 1] : "");
        if (taken == 0) {
            return complain("unknown option '%s'; --help shows them", name);
        }
        if (i + 1 >= argc) {
            return complain("%s needs a value", name);
        }
        if (taken < 0) {
            return USAGE_ERROR;
        }
        i++;
    }
    options->words_at = i;
    return options_finish(options, wire_chosen);
}
