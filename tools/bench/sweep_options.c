/* sweep_options.c - the command line of sluice-bench sweep, and the environment. */
#include "tools/bench/sweep_options.h"
#include <getopt.h>
#include <strings.h>

#define BEGIN_DEFAULT  8
#define END_DEFAULT    (64 * MIB)
#define FACTOR_DEFAULT 2
#define ITERATIONS     20
#define WARMUP         5

static const char usage[] =
    "Usage: sluice-bench sweep [OPTIONS]\n"
    "SET and GET by value size on a server that runs: time of a transfer, bytes per second. Every byte of every reply\n"
    "is checked, within the time. A size above --chunk is moved as several values, all of them in flight together.\n"
    "\n"
    "  -b SIZE, -e SIZE, -f FACTOR   from, up to, times (8, 64M, 2); k, M, G are 1024, 1024^2, 1024^3 bytes\n"
    "  -n N, -w N                    transfers measured and before that, of each size (20, 5)\n"
    "  -t set,get                    one of them, or both\n"
    "  --chunk SIZE                  largest value, 4k to 1M (1M, the largest that a server takes)\n"
    "  --vs A:B                      two transports in turns, and how many times faster A is: tcp, unix, ethernet,\n"
    "                                none (tcp, for a run without a fabric), peer (another server, on RESP),\n"
    "                                memcached, or a fabric's provider: efa, shm, tcp;ofi_rxm ... (fabric-tcp:\n"
    "                                libfabric's own tcp)\n"
    "  --at NAME=ADDRESS,...         where one of these is found or attached, in turn for each rail: HOST:PORT, PATH\n"
    "  --rails N                     A also over N connections with a thread each, a transfer being striped over them\n"
    "  --rail-domain D,...           devices of our ends of the rails, in turn; --rail-node: their local addresses;\n"
    "                                --rail-port: the server's fabric ports, by name\n"
    "  --csv, --markdown             rows as in DIR/sweep.csv only, or tables for a page\n"
    "  --out DIR                     add to DIR/sweep.csv and DIR/metadata.json; what cannot connect is named in\n"
    "                                DIR/unavailable.csv\n"
    "\n"
    "USE_EFA=true in the environment means --provider efa where no transport is named, USE_EFA=false the kernel's\n"
    "TCP in place of efa. Ctrl-C keeps what was measured. Exit code 1: a reply was wrong, or a transport is\n"
    "unavailable; 3: all of them are; 130: interrupted.\n"
    "\n" BENCH_CONNECTION_USAGE;

static bool
complain(const char *what, const char *why)
{
    fprintf(stderr, "sluice-bench: %s: %s\n", what, why);
    return false;
}

enum {
    OPTION_CHUNK = BENCH_OWN,
    OPTION_VS,
    OPTION_RAILS,
    OPTION_DOMAIN,
    OPTION_NODE,
    OPTION_PORT,
    OPTION_AT,
    OPTION_CSV,
    OPTION_MARKDOWN,
    OPTION_OUT,
};

static const struct option long_options[] = {
    BENCH_CONNECTION_OPTIONS,
    { "chunk", required_argument, NULL, OPTION_CHUNK },
    { "vs", required_argument, NULL, OPTION_VS },
    { "rails", required_argument, NULL, OPTION_RAILS },
    { "rail-domain", required_argument, NULL, OPTION_DOMAIN },
    { "rail-node", required_argument, NULL, OPTION_NODE },
    { "rail-port", required_argument, NULL, OPTION_PORT },
    { "at", required_argument, NULL, OPTION_AT },
    { "csv", no_argument, NULL, OPTION_CSV },
    { "markdown", no_argument, NULL, OPTION_MARKDOWN },
    { "out", required_argument, NULL, OPTION_OUT },
    { 0 },
};

static bool
size_read(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    if (sweep_size_parse(text, out) && *out >= min && *out <= max) {
        return true;
    }
    char low[32], high[32];
    fprintf(stderr, "sluice-bench: %s %s: expected a size from %s to %s, such as 8, 64k or 4M\n", option, text,
            sweep_size_print(low, min), sweep_size_print(high, max));
    return false;
}

static bool
operations_read(struct sweep_options *options, const char *text)
{
    memset(options->chosen, 0, sizeof(options->chosen));
    char *copy = strdup(text), *rest = copy, *word;
    bool good = true;
    while (good && (word = strsep(&rest, ",")) != NULL) {
        bool set = strcasecmp(word, "set") == 0, get = strcasecmp(word, "get") == 0;
        options->chosen[SWEEP_SET] |= set;
        options->chosen[SWEEP_GET] |= get;
        good = set || get;
    }
    free(copy);
    return good || complain("-t", "expected set, get, or set,get");
}

static bool
list_read(const char *option, char *text, struct sweep_list *list)
{
    return sweep_list_split(list, text) || complain(option, "expected at most 32 names with commas between them");
}

static bool
place_read(struct sweep_options *options, char *text)
{
    struct sweep_places *places = &options->places;
    if (places->count == ARRAY_COUNT(places->places)) {
        return complain("--at", "more transports than there are to compare");
    }
    return sweep_place_read(&places->places[places->count++], text);
}

/* One option of our own. False: a bad value, or unknown. */
static bool
option_take(struct sweep_options *options, int option, char *value)
{
    switch (option) {
    case 'b':
        return size_read("-b", value, 1, SWEEP_SIZE_MAX, &options->begin);
    case 'e':
        return size_read("-e", value, 1, SWEEP_SIZE_MAX, &options->end);
    case 'f':
        return bench_number("-f", value, 2, 1024, &options->factor);
    case 'n':
        return bench_number("-n", value, 1, 1000000, &options->iterations);
    case 'w':
        return bench_number("-w", value, 0, 1000000, &options->warmup);
    case 't':
        return operations_read(options, value);
    case OPTION_CHUNK:
        return size_read("--chunk", value, SWEEP_CHUNK_MIN, LIMIT_VALUE_BYTES, &options->chunk);
    case OPTION_VS:
        options->versus = true;
        return sweep_versus_split(value, options->names) ||
               complain("--vs", "expected two transports, such as shm:tcp");
    case OPTION_RAILS:
        return bench_number("--rails", value, 1, SWEEP_RAILS_MAX, &options->rails);
    case OPTION_DOMAIN:
        return list_read("--rail-domain", value, &options->rail_lists.domains);
    case OPTION_NODE:
        return list_read("--rail-node", value, &options->rail_lists.nodes);
    case OPTION_PORT:
        return list_read("--rail-port", value, &options->rail_lists.ports);
    case OPTION_AT:
        return place_read(options, value);
    case OPTION_CSV:
        options->format = SWEEP_CSV;
        return true;
    case OPTION_MARKDOWN:
        options->format = SWEEP_MARKDOWN;
        return true;
    case OPTION_OUT:
        options->folder = value;
        return true;
    default:
        return false; /* getopt complained */
    }
}

static bool
has_place(const struct sweep_options *options, const struct sweep_transport *transport)
{
    for (uint32_t i = 0; i < options->places.count; i++) {
        if (sweep_transport_is(transport, options->places.places[i].name)) {
            return true;
        }
    }
    return false;
}

/* Each place is of a transport that is measured; what cannot be where -h and -p say has one. */
static bool
places_check(const struct sweep_options *options)
{
    const struct sweep_transport *a = &options->transports[0], *b = options->versus ? &options->transports[1] : a;
    for (uint32_t i = 0; i < options->places.count; i++) {
        const char *name = options->places.places[i].name;
        if (!sweep_transport_is(a, name) && !sweep_transport_is(b, name)) {
            fprintf(stderr, "sluice-bench: --at %s: that transport is not measured\n", name);
            return false;
        }
    }
    for (const struct sweep_transport *one = a;; one = b) {
        if ((one->carrier == SWEEP_PEER || one->carrier == SWEEP_MEMCACHED ||
             (one->carrier == SWEEP_ETHERNET && options->versus)) &&
            !has_place(options, one)) {
            fprintf(stderr, "sluice-bench: --vs: say where: --at %s=HOST:PORT\n", one->name);
            return false;
        }
        if (one == b) {
            return true;
        }
    }
}

/* Which transports, after the environment had its say. */
static bool
transports_choose(struct sweep_options *options)
{
    const struct client_options *client = &options->connection.client;
    enum sweep_switch efa = sweep_switch_read(getenv("USE_EFA"));
    if (efa == SWEEP_SWITCH_BAD) {
        return complain("USE_EFA in the environment", "expected true or false");
    }
    if (options->versus && client->fabric.provider != NULL) {
        return complain("--provider", "--vs names the transports");
    }
    if (!options->versus) {
        const char *name = client->fabric.provider != NULL ? client->fabric.provider
                           : options->connection.ethernet  ? "ethernet"
                           : efa == SWEEP_SWITCH_ON        ? "efa"
                           : client->path != NULL          ? "unix"
                                                           : "tcp";
        snprintf(options->names[0], sizeof(options->names[0]), "%s%s",
                 client->fabric.provider != NULL && strcmp(name, "tcp") == 0 ? "fabric-" : "", name);
    }
    for (uint32_t i = 0; i < (options->versus ? 2u : 1u); i++) {
        if (!sweep_transport_of(options->names[i], efa, &options->transports[i])) {
            return complain(options->names[i], "no name of a transport");
        }
    }
    if (options->versus && options->transports[0].carrier == options->transports[1].carrier &&
        (options->transports[0].carrier != SWEEP_FABRIC ||
         strcmp(sweep_provider(&options->transports[0]), sweep_provider(&options->transports[1])) == 0)) {
        return complain("--vs", options->transports[0].switched_off || options->transports[1].switched_off
                                    ? "with USE_EFA=false both are the kernel's TCP: nothing to compare"
                                    : "both are the same transport");
    }
    return places_check(options);
}

int
sweep_options_read(struct sweep_options *options, int argc, char **argv)
{
    int option;
    *options = (struct sweep_options){
        .begin = BEGIN_DEFAULT,
        .end = END_DEFAULT,
        .factor = FACTOR_DEFAULT,
        .iterations = ITERATIONS,
        .warmup = WARMUP,
        .chunk = LIMIT_VALUE_BYTES,
        .rails = 1,
        .chosen = { true, true },
    };
    bench_connection_init(&options->connection);
    while ((option = getopt_long(argc, argv, BENCH_CONNECTION_LETTERS "b:e:f:n:w:t:", long_options, NULL)) != -1) {
        if (option == BENCH_HELP) {
            printf("%s", usage);
            return 0;
        }
        int taken = bench_connection_option(&options->connection, option, optarg);
        if (taken < 0 || (taken == 0 && !option_take(options, option, optarg))) {
            return BENCH_USAGE_ERROR;
        }
    }
    if (optind < argc) {
        complain(argv[optind], "unexpected argument; --help shows the options");
        return BENCH_USAGE_ERROR;
    }
    if (options->begin > options->end) {
        complain("-b", "larger than -e");
        return BENCH_USAGE_ERROR;
    }
    return transports_choose(options) ? -1 : BENCH_USAGE_ERROR;
}
