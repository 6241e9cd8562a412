/* sluicectl.c - look at a running appliance, change what is live, end it: the command line, over its management socket.
 */
#include "tools/sluicectl.h"
#include "config/cpu.h"
#include "config/settings.h"
#include "config/units.h"
#include "mgmt/ctl_wire.h"
#include <getopt.h>
#include <unistd.h>

/* What an option belongs to. */
enum option_flag {
    TAKES_ALL = 1 << 0,
    TAKES_FULL = 1 << 1,
    TAKES_LATENCY = 1 << 2,
    TAKES_LIMIT = 1 << 3,
    TAKES_NO_WAIT = 1 << 4,
    TAKES_WORD = 1 << 5,
    TAKES_WATCH = 1 << 6,
    TAKES_VALUE = 1 << 7,
    TAKES_SAVE = 1 << 8,
    TAKES_CAPTURE = 1 << 9,
    TAKES_SECONDS = 1 << 10,
    TAKES_WAIT = 1 << 11,
    TAKES_SETTING = 1 << 12, /* the word is a setting's name */
};

static int completion_run(const struct options *options);

static const struct command {
    const char *name;
    int (*run)(const struct options *options);
    uint32_t takes;
    const char *arguments, *help;
} commands[] = {
    { "status", status_run, 0, "", "where to connect, state, load and memory" },
    { "ready", ready_run, 0, "", "exit code 0 when requests are served, else 1" },
    { "alive", alive_run, 0, "", "exit code 0 when the management core answers" },
    { "stats", stats_run, TAKES_ALL | TAKES_FULL | TAKES_WORD, "[WORD] [-a] [-l]", "counters that moved" },
    { "latency", latency_run, TAKES_LATENCY | TAKES_FULL | TAKES_WATCH | TAKES_WORD, "[COMMAND] [options below]",
      "latency histograms" },
    { "top", top_run, TAKES_WATCH, "[--watch=SECONDS]", "load, head-room, hottest commands, slowest clients" },
    { "lcores", lcores_run, 0, "", "CPU, thread and load of every lcore" },
    { "ports", ports_run, TAKES_FULL, "[-l]", "ports of every lcore" },
    { "capture", capture_run, TAKES_CAPTURE | TAKES_SECONDS | TAKES_WORD | TAKES_VALUE, "PORT FILE [options below]",
      "copy packets of an ethernet port into a pcap file" },
    { "sessions", sessions_run, TAKES_FULL | TAKES_LIMIT, "[-l] [--limit N]", "who is connected" },
    { "sessions kill", sessions_kill_run, TAKES_WORD, "ID", "end a session" },
    { "slowlog", slowlog_run, TAKES_LIMIT | TAKES_FULL, "[-l] [--limit N]",
      "requests that took long, waiting included" },
    { "keys hot", keys_hot_run, TAKES_LIMIT | TAKES_SECONDS, "[--seconds N] [--limit N]", "the keys asked for most" },
    { "keys big", keys_big_run, TAKES_LIMIT, "[--limit N]", "the largest keys of each type" },
    { "log", log_run, TAKES_LIMIT, "[--limit N]", "the last records of the log" },
    { "memory", memory_run, 0, "", "where memory went" },
    { "config show", config_show_run, TAKES_FULL, "[-l]", "settings and where they come from" },
    { "config get", config_get_run, TAKES_WORD | TAKES_SETTING, "NAME", "one setting's value" },
    { "config set", config_set_run, TAKES_WORD | TAKES_SETTING | TAKES_VALUE | TAKES_SAVE, "NAME VALUE [--save]",
      "change a live setting; --save: in the file too" },
    { "config reload", config_reload_run, 0, "", "read the settings file again, as SIGHUP does" },
    { "config check", config_check_run, TAKES_WORD, "[FILE]", "say what is wrong in a settings file" },
    { "metrics", metrics_run, 0, "", "every number as an OpenMetrics page" },
    { "doctor", doctor_run, 0, "", "what of the host should change: exit code 1, else 0" },
    { "drain", drain_run, TAKES_WAIT, "[--wait]", "take no new sessions; --wait: until the last has left" },
    { "shutdown", shutdown_run, TAKES_NO_WAIT, "[--no-wait]", "drain, end, and wait for the end" },
    { "version", version_run, 0, "", "versions of both sides" },
    { "completion", completion_run, 0, "", "a script for bash: source <(sluicectl completion)" },
};

enum {
    OPTION_KIND = 256,
    OPTION_LCORE,
    OPTION_HIST,
    OPTION_PERCENTILES,
    OPTION_WATCH,
    OPTION_SAVE,
    OPTION_DIFF,
    OPTION_LIMIT,
    OPTION_NO_WAIT,
    OPTION_WAIT,
    OPTION_SECONDS,
    OPTION_PACKETS,
    OPTION_SNAP,
    OPTION_VERSION
};

#define KIND_HELP(id, name, unit, help) name ": " help "; "

/* Every option once: parsing, --help and completion come from these rows. */
static const struct option_row {
    const char *name;
    int id; /* its letter, or above */
    int argument;
    const char *value; /* as --help shows it */
    uint32_t belongs;  /* to commands that take one of these; 0: to all */
    const char *help;
} option_rows[] = {
    { "socket", 'S', required_argument, " PATH", 0, "management socket (else $SLUICE_CTL, else the default one)" },
    { "timeout", 't', required_argument, " SECONDS", 0, "longest wait for an answer (5)" },
    { "json", 'j', no_argument, "", 0,
      "the answer as one line of JSON; errors too, on stderr, with a member \"error\"" },
    { "all", 'a', no_argument, "", TAKES_ALL, "with what is 0" },
    { "long", 'l', no_argument, "", TAKES_FULL, "with more columns, or uncut" },
    { "limit", OPTION_LIMIT, required_argument, " N", TAKES_LIMIT, "rows at most" },
    { "seconds", OPTION_SECONDS, required_argument, " N", TAKES_SECONDS,
      "how long to count (2) or to capture at most (10)" },
    { "watch", OPTION_WATCH, optional_argument, "[=SECONDS]", TAKES_WATCH,
      "again and again, what was counted in the last seconds (1); keys change the view" },
    { "kind", OPTION_KIND, required_argument, " KIND", TAKES_LATENCY,
      "what is counted; " CTL_LATENCY_KINDS(KIND_HELP) "else service" },
    { "lcore", OPTION_LCORE, required_argument, " N", TAKES_LATENCY, "of one lcore; else all together" },
    { "hist", OPTION_HIST, no_argument, "", TAKES_LATENCY, "bars" },
    { "percentiles", OPTION_PERCENTILES, no_argument, "", TAKES_LATENCY,
      "of all or of COMMAND, in the text form of HdrHistogram" },
    { "save", OPTION_SAVE, optional_argument, "[=FILE]", TAKES_LATENCY | TAKES_SAVE,
      "latency: keep what was counted until now; config set: change the settings file too" },
    { "diff", OPTION_DIFF, required_argument, " OLD[,NEW]", TAKES_LATENCY,
      "what was counted between two saved files, or since one" },
    { "packets", OPTION_PACKETS, required_argument, " N", TAKES_CAPTURE, "how many at most (1000000)" },
    { "snap", OPTION_SNAP, required_argument, " N", TAKES_CAPTURE, "bytes of each (256)" },
    { "wait", OPTION_WAIT, no_argument, "", TAKES_WAIT, "until the last session has left" },
    { "no-wait", OPTION_NO_WAIT, no_argument, "", TAKES_NO_WAIT, "do not wait for the end" },
    { "version", OPTION_VERSION, no_argument, "", 0, "print the version" },
    { "help", 'h', no_argument, "", 0, "print this" },
};

/* ---- help and completion ---- */

#define HELP_COLUMNS 100
#define HELP_INDENT  28

/* `words` from column HELP_INDENT on, broken at blanks. */
static void
print_wrapped(const char *words)
{
    size_t column = HELP_INDENT;

    while (*words != '\0') {
        size_t bytes = strcspn(words, " ");
        if (column > HELP_INDENT && column + 1 + bytes > HELP_COLUMNS) {
            printf("\n%*s", HELP_INDENT, "");
            column = HELP_INDENT;
        } else if (column > HELP_INDENT) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)bytes, words);
        column += bytes;
        words += bytes + (words[bytes] == ' ');
    }
    putchar('\n');
}

static void
print_usage(void)
{
    puts("usage: sluicectl [-S SOCKET] [-t SECONDS] [-j] COMMAND [ARGUMENT]\n");
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
        char left[64];
        snprintf(left, sizeof(left), "%s %s", commands[i].name, commands[i].arguments);
        printf("  %-34s %s\n", left, commands[i].help);
    }
    putchar('\n');
    for (size_t i = 0; i < ARRAY_COUNT(option_rows); i++) {
        const struct option_row *row = &option_rows[i];
        char letter[8] = "    ", left[64];
        if (row->id < 256) {
            snprintf(letter, sizeof(letter), "-%c, ", row->id);
        }
        snprintf(left, sizeof(left), "  %s--%s%s", letter, row->name, row->value);
        printf("%-*s", HELP_INDENT, left);
        print_wrapped(row->help);
    }
    puts("\nExit codes: 0 good, 1 error or not ready, 2 wrong usage, 3 cannot connect.");
}

/* The second words of commands whose first word is the `bytes` long one at `first`. */
static uint32_t
print_second_words(const char *first, size_t bytes)
{
    uint32_t count = 0;

    for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
        if (strncmp(commands[i].name, first, bytes) == 0 && commands[i].name[bytes] == ' ') {
            printf("%s ", commands[i].name + bytes + 1);
            count++;
        }
    }
    return count;
}

/* What may follow a whole command. */
static void
print_case(const struct command *command)
{
    fputs("    '", stdout);
    fputs(command->name, stdout);
    fputs("' | '", stdout);
    fputs(command->name, stdout);
    fputs(" '*) choices='", stdout);
    print_second_words(command->name, strlen(command->name));
    for (size_t i = 0; (command->takes & TAKES_SETTING) && i < SETTINGS_COUNT; i++) {
        printf("%s ", settings_table[i].name);
    }
    for (size_t i = 0; i < ARRAY_COUNT(option_rows); i++) {
        if (option_rows[i].belongs == 0 || (option_rows[i].belongs & command->takes) != 0) {
            printf("--%s ", option_rows[i].name);
        }
    }
    puts("' ;;");
}

/* Whether row `i` is the first one with its first word. */
static bool
begins_word(size_t i)
{
    size_t bytes = strcspn(commands[i].name, " ");

    for (size_t other = 0; other < i; other++) {
        if (strcspn(commands[other].name, " ") == bytes &&
            strncmp(commands[other].name, commands[i].name, bytes) == 0) {
            return false;
        }
    }
    return true;
}

static void
print_cases(void)
{
    printf("    '') choices='");
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
        if (begins_word(i)) {
            printf("%.*s ", (int)strcspn(commands[i].name, " "), commands[i].name);
        }
    }
    puts("--socket --timeout --json --version --help' ;;");
    /* The first pattern that fits counts: longer names come before their beginnings. */
    for (int pair = 1; pair >= 0; pair--) {
        for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
            if ((strchr(commands[i].name, ' ') != NULL) == pair) {
                print_case(&commands[i]);
            }
        }
    }
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
        size_t bytes = strcspn(commands[i].name, " ");
        if (begins_word(i) && commands[i].name[bytes] != '\0') { /* a first word that is no command itself */
            printf("    '%.*s') choices='", (int)bytes, commands[i].name);
            print_second_words(commands[i].name, bytes);
            puts("' ;;");
        }
    }
}

static int
completion_run(const struct options *options)
{
    puts("# bash completion for sluicectl: source <(sluicectl completion)\n"
         "_sluicectl() {\n"
         "    local word=${COMP_WORDS[COMP_CWORD]} words=() at choices=\n"
         "    for ((at = 1; at < COMP_CWORD; at++)); do\n"
         "        case ${COMP_WORDS[at]} in\n"
         "        -S | --socket | -t | --timeout) ((at++)) ;;\n"
         "        -*) ;;\n"
         "        *) words+=(\"${COMP_WORDS[at]}\") ;;\n"
         "        esac\n"
         "    done\n"
         "    case ${words[*]} in");
    print_cases();
    puts("    esac\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$choices\" -- \"$word\")\n"
         "    if [ ${#COMPREPLY[@]} = 0 ]; then mapfile -t COMPREPLY < <(compgen -f -- \"$word\"); fi\n"
         "}\n"
         "complete -F _sluicectl sluicectl");
    return EXIT_GOOD;
}

/* ---- options ---- */

/* The exit status, unless what was printed did not arrive. */
static int
finish(int status)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fail(EXIT_BAD, "cannot write the output");
    }
    return status;
}

static _Noreturn void
usage_error(const char *what, const char *value)
{
    char quoted[QUOTE_BYTES];
    fail(EXIT_USAGE, "%s %s; try: sluicectl --help", what, quote_text(quoted, value));
}

static double
parse_seconds(const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end != '\0' || !(value >= 0.01 && value <= 86400)) {
        usage_error("expected seconds from 0.01 to 86400, not", text);
    }
    return value;
}

static uint64_t
parse_number(const char *text)
{
    uint64_t value;

    if (unit_parse_count(text, &value) != UNIT_OK || value > INT32_MAX) {
        usage_error("expected a whole number, not", text);
    }
    return value;
}

/* Take one option; returns the flag that a command must have for it. */
static uint32_t
take_option(struct options *options, int option)
{
    switch (option) {
    case 'S':
        options->socket = optarg;
        return 0;
    case 't':
        options->timeout_s = parse_seconds(optarg);
        return 0;
    case 'j':
        options->json = true;
        return 0;
    case 'a':
        options->all = true;
        return TAKES_ALL;
    case 'l':
        options->full = true;
        return TAKES_FULL;
    case OPTION_KIND:
        options->kind = optarg;
        return TAKES_LATENCY;
    case OPTION_LCORE:
        options->lcore = parse_number(optarg);
        return TAKES_LATENCY;
    case OPTION_HIST:
        options->hist = true;
        return TAKES_LATENCY;
    case OPTION_PERCENTILES:
        options->percentiles = true;
        return TAKES_LATENCY;
    case OPTION_WATCH:
        options->watch = true;
        options->watch_s = optarg == NULL ? 1 : parse_seconds(optarg);
        return TAKES_WATCH;
    case OPTION_SAVE:
        options->save = optarg == NULL ? "" : optarg;
        return optarg == NULL ? TAKES_SAVE : TAKES_LATENCY;
    case OPTION_DIFF:
        options->diff = optarg;
        return TAKES_LATENCY;
    case OPTION_LIMIT:
        options->limit = parse_number(optarg);
        return TAKES_LIMIT;
    case OPTION_NO_WAIT:
        options->no_wait = true;
        return TAKES_NO_WAIT;
    case OPTION_SECONDS:
        options->seconds = parse_number(optarg);
        return TAKES_SECONDS;
    case OPTION_PACKETS:
        options->packets = parse_number(optarg);
        return TAKES_CAPTURE;
    case OPTION_SNAP:
        options->snap = parse_number(optarg);
        return TAKES_CAPTURE;
    case OPTION_WAIT:
        options->wait = true;
        return TAKES_WAIT;
    case OPTION_VERSION:
        puts("sluicectl " SLUICE_VERSION);
        exit(finish(EXIT_GOOD));
    case 'h':
        print_usage();
        exit(finish(EXIT_GOOD));
    default:
        fail(EXIT_USAGE, "wrong option or no value for it; try: sluicectl --help");
    }
}

/* An optional value may be a word of its own where it cannot be taken for another: a number behind --watch, a file
 * behind latency's --save. Returns how many words are left. */
static int
join_values(int argc, char **argv)
{
    bool latency = false;
    int kept = 1;

    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        bool is_watch = strcmp(argv[i], "--watch") == 0 && next[0] != '\0' && strchr("0123456789.", next[0]) != NULL;
        bool is_save = latency && strcmp(argv[i], "--save") == 0 && next[0] != '\0' && next[0] != '-';
        latency = latency || strcmp(argv[i], "latency") == 0;
        argv[kept] = argv[i];
        if (is_watch || is_save) {
            CHECK(asprintf(&argv[kept], "%s=%s", argv[i], next) > 0); /* as long as the program */
            i++;
        }
        kept++;
    }
    argv[kept] = NULL;
    return kept;
}

#define OPTION_LETTERS "S:t:jalh"
static uint32_t
read_options(struct options *options, int argc, char **argv)
{
    struct option longs[ARRAY_COUNT(option_rows) + 1];
    uint32_t needs = 0;
    int option;

    for (size_t i = 0; i < ARRAY_COUNT(option_rows); i++) {
        longs[i] = (struct option){ option_rows[i].name, option_rows[i].argument, NULL, option_rows[i].id };
    }
    longs[ARRAY_COUNT(option_rows)] = (struct option){ NULL, 0, NULL, 0 };

    /* How an error is said depends on -j, which may come behind what is wrong. */
    opterr = 0;
    while ((option = getopt_long(argc, argv, OPTION_LETTERS, longs, NULL)) != -1) {
        if (option == 'j') {
            fail_in_json();
            options->json = true;
        }
    }
    opterr = !options->json;
    optind = 0;
    while ((option = getopt_long(argc, argv, OPTION_LETTERS, longs, NULL)) != -1) {
        needs |= take_option(options, option);
    }
    return needs;
}

/* The command that the words from `at` on begin with; *used words of it. */
static const struct command *
find_command(char **words, int count, int *used)
{
    const char *names[ARRAY_COUNT(commands)];
    char two[128];

    snprintf(two, sizeof(two), "%s%s%s", words[0], count > 1 ? " " : "", count > 1 ? words[1] : "");
    const struct command *found = NULL;
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
        bool pair = strchr(commands[i].name, ' ') != NULL;
        names[i] = commands[i].name;
        if (strcmp(commands[i].name, pair ? two : words[0]) == 0 && (found == NULL || pair)) {
            found = &commands[i];
            *used = pair ? 2 : 1;
        }
    }
    if (found != NULL) {
        return found;
    }
    const char *near = nearest_name(two, names, ARRAY_COUNT(commands));
    near = near != NULL ? near : nearest_name(words[0], names, ARRAY_COUNT(commands));
    size_t bytes = strlen(words[0]);
    for (size_t i = 0; i < ARRAY_COUNT(commands) && near == NULL; i++) { /* the second word lacks, or is wrong */
        near = strncmp(names[i], words[0], bytes) == 0 && names[i][bytes] == ' ' ? names[i] : NULL;
    }
    if (near != NULL) {
        char quoted[QUOTE_BYTES];
        fail(EXIT_USAGE, "unknown command %s, did you mean \"%s\"?", quote_text(quoted, two), near);
    }
    usage_error("unknown command", words[0]);
}

int
main(int argc, char **argv)
{
    struct options options = { .timeout_s = 5,
                               .lcore = UINT64_MAX,
                               .limit = UINT64_MAX,
                               .seconds = UINT64_MAX,
                               .packets = UINT64_MAX,
                               .snap = UINT64_MAX };
    cpu_require("sluicectl");
    host_keep_standard_files();
    argc = join_values(argc, argv);
    uint32_t needs = read_options(&options, argc, argv);
    int used;

    if (optind == argc) {
        if (options.json) {
            fail(EXIT_USAGE, "no command; try: sluicectl --help");
        }
        print_usage();
        return EXIT_USAGE;
    }
    const struct command *command = find_command(argv + optind, argc - optind, &used);
    int rest = optind + used;
    if (needs & ~command->takes) {
        usage_error("an option, or its form, does not belong to", command->name);
    }
    if (rest < argc && (command->takes & TAKES_WORD)) {
        options.word = argv[rest++];
    }
    if (rest < argc && (command->takes & TAKES_VALUE)) {
        options.value = argv[rest++];
    }
    if (rest < argc) {
        usage_error("unexpected argument", argv[rest]);
    }
    return finish(command->run(&options));
}
