/* sluice_cli.c - a command-line client. */
#include "tools/sluice_cli.h"
#include "config/cpu.h"
#include "config/sync.h"
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static _Atomic int interrupts; /* lock-free, and so a signal handler's to write; relaxed: nothing hangs on it */

static void
interrupt_note(int number)
{
    (void)number;
    if (add_relaxed(&interrupts, 1) > 0) {
        _exit(130);
    }
}

void
cli_interrupts_catch(void)
{
    struct sigaction action = { .sa_handler = interrupt_note };
    sigaction(SIGINT, &action, NULL);
}

bool
cli_interrupted(void)
{
    bool was = load_relaxed(&interrupts) > 0;
    store_relaxed(&interrupts, 0);
    return was;
}

bool
cli_connect(struct cli *cli)
{
    char why[CLIENT_WHY_BYTES];
    client_close(cli->client);
    cli->client = client_open(&cli->options.client, why, sizeof(why));
    if (cli->client == NULL) {
        fprintf(stderr, "sluice-cli: %s\n", why);
        return false;
    }
    client_timeout(cli->client, -1); /* a command may take as long as it takes */
    if (cli->options.database != 0) {
        char number[16];
        snprintf(number, sizeof(number), "%d", cli->options.database);
        const char *words[] = { "SELECT", number };
        struct client_reply reply;
        if (client_call_words(cli->client, words, 2, &reply) != CLIENT_OK) {
            return false;
        }
        if (client_reply_is_error(&reply)) {
            fprintf(stderr, "SELECT %s failed: %.*s\n", number, (int)reply.values[0].bytes.bytes,
                    (const char *)reply.values[0].bytes.data);
        }
    }
    return true;
}

/* Reports are text for people even where they come as plain strings. */
static bool
answers_verbatim(const struct slice *words, uint32_t count)
{
    static const char *const rows[][2] = { { "info", NULL },        { "lolwut", NULL },          { "debug", "htstats" },
                                           { "memory", "doctor" },  { "cluster", "info" },       { "cluster", "nodes" },
                                           { "client", "list" },    { "client", "info" },        { "latency", "graph" },
                                           { "latency", "doctor" }, { "memory", "malloc-stats" } };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (slice_equal_nocase(words[0], rows[i][0]) &&
            (rows[i][1] == NULL || (count > 1 && slice_equal_nocase(words[1], rows[i][1])))) {
            return true;
        }
    }
    return false;
}

void
cli_print(struct cli *cli, const struct client_reply *reply, bool verbatim)
{
    struct cli_text text = { 0 };
    bool is_error = client_reply_is_error(reply);
    FILE *to = is_error && cli->options.exit_on_error ? stderr : stdout;
    if (verbatim || to == stderr) {
        cli_reply_print(&text, reply, CLI_FORMAT_RAW, cli->options.delimiter);
        text.bytes--; /* raw text has its own line end */
    } else {
        cli_reply_print(&text, reply, cli->options.format, cli->options.delimiter);
    }
    fwrite(text.data, 1, text.bytes, to);
    fflush(to);
    cli_text_fini(&text);
    cli->failed |= is_error;
}

/* After SUBSCRIBE: print what comes until Ctrl-C or the end. */
static bool
messages_print(struct cli *cli)
{
    struct client_reply reply;
    if (cli->options.format == CLI_FORMAT_TTY) {
        printf("Reading messages... (press Ctrl-C to quit)\n");
        fflush(stdout);
    }
    cli_interrupts_catch();
    while (!cli_interrupted()) {
        enum client_status status = client_collect(cli->client, &reply, 100);
        if (status == CLIENT_OK) {
            cli_print(cli, &reply, false);
        } else if (status != CLIENT_TIMEOUT) {
            fprintf(stderr, "sluice-cli: %s\n", client_why(cli->client));
            return false;
        }
    }
    return true;
}

static bool
is_subscribe(struct slice command)
{
    return slice_equal_nocase(command, "subscribe") || slice_equal_nocase(command, "psubscribe") ||
           slice_equal_nocase(command, "ssubscribe");
}

/* Pushes that came between two answers. */
static void
pushes_print(struct cli *cli)
{
    struct client_reply reply;
    while (client_collect(cli->client, &reply, 0) == CLIENT_OK) {
        cli_print(cli, &reply, false);
    }
}

static bool
command_once(struct cli *cli, const struct slice *words, uint32_t count)
{
    struct client_reply reply;
    enum client_status status = client_call(cli->client, words, count, &reply);
    if (status == CLIENT_INVALID) {
        fprintf(stderr, "sluice-cli: %s\n", client_why(cli->client));
        cli->failed = true;
        return true;
    }
    if (status != CLIENT_OK) {
        return false;
    }
    bool subscribed = is_subscribe(words[0]) && reply.push;
    bool good = !client_reply_is_error(&reply);
    cli_print(cli, &reply, answers_verbatim(words, count));
    if (good && slice_equal_nocase(words[0], "select") && count == 2) {
        cli->options.database = atoi((const char *)words[1].data);
    }
    if (subscribed) {
        /* A RESP2 session that is subscribed takes no other commands: the prompt goes on with a new one. */
        return messages_print(cli) && (!cli->prompts || cli_connect(cli));
    }
    pushes_print(cli);
    return true;
}

static void
sleep_s(double seconds)
{
    struct timespec left = { (time_t)seconds, (long)((seconds - floor(seconds)) * 1e9) };
    nanosleep(&left, NULL);
}

bool
cli_command(struct cli *cli, const struct slice *words, uint32_t count, int64_t repeat)
{
    for (int64_t i = 0; repeat < 0 || i < repeat; i++) {
        if (i > 0 && cli->options.interval_s > 0) {
            sleep_s(cli->options.interval_s);
        }
        if (cli->client == NULL && !cli_connect(cli)) {
            return false;
        }
        if (!command_once(cli, words, count)) {
            bool quit = slice_equal_nocase(words[0], "quit") || slice_equal_nocase(words[0], "shutdown");
            if (!quit) {
                fprintf(stderr, "Error: %s\n", client_why(cli->client));
            }
            client_close(cli->client);
            cli->client = NULL;
            return quit;
        }
    }
    return true;
}

/* -x: all of stdin. */
static void
stdin_read(struct cli_text *text)
{
    char piece[65536];
    ssize_t bytes;
    cli_text_append(text, "", 0);
    while ((bytes = read(STDIN_FILENO, piece, sizeof(piece))) > 0 || (bytes < 0 && errno == EINTR)) {
        if (bytes > 0) {
            cli_text_append(text, piece, (size_t)bytes);
        }
    }
}

/* "a\x20b" on the command line, with --quoted-input. False: bad quotes. */
static bool
words_unquote(char **argv, struct cli_words *words)
{
    for (; *argv != NULL; argv++) {
        struct cli_words parts;
        bool quoted = (*argv)[0] == '"' || (*argv)[0] == '\'';
        if (!quoted) {
            cli_words_add(words, slice_text(*argv));
            continue;
        }
        if (!cli_words_split(*argv, &parts) || parts.count != 1) {
            fprintf(stderr, "sluice-cli: invalid quoted string: %s\n", *argv);
            return false;
        }
        cli_words_add(words, parts.words[0]); /* lives as long as the program */
    }
    return true;
}

static int
command_line_run(struct cli *cli, char **argv)
{
    struct cli_words words = { 0 };
    struct cli_text input = { 0 };
    if (cli->options.quoted_input) {
        if (!words_unquote(argv, &words)) {
            return 1;
        }
    } else {
        for (; *argv != NULL; argv++) {
            cli_words_add(&words, slice_text(*argv));
        }
    }
    if (cli->options.last_from_stdin) {
        stdin_read(&input);
        cli_words_add(&words, slice_of(input.data, input.bytes));
    }
    bool good = cli_command(cli, words.words, words.count, cli->options.repeat);
    cli_text_fini(&input);
    cli_words_fini(&words);
    return good && !(cli->failed && cli->options.exit_on_error) ? 0 : 1;
}

int
main(int argc, char **argv)
{
    struct cli cli = { 0 };
    cpu_require("sluice-cli");
    int code = cli_options_parse(&cli.options, argc, argv);
    if (code >= 0) {
        return code;
    }
    signal(SIGPIPE, SIG_DFL);
    switch (cli.options.mode) {
    case CLI_MODE_PIPE:
        code = cli_pipe(&cli);
        break;
    case CLI_MODE_LATENCY:
    case CLI_MODE_LATENCY_HISTORY:
        code = cli_latency(&cli);
        break;
    case CLI_MODE_STAT:
        code = cli_stat(&cli);
        break;
    case CLI_MODE_SCAN:
        code = cli_scan(&cli);
        break;
    case CLI_MODE_COMMAND:
        if (cli.options.words_at < argc) {
            code = command_line_run(&cli, argv + cli.options.words_at);
        } else if (isatty(STDIN_FILENO)) {
            code = cli_interactive(&cli);
        } else {
            code = cli_lines(&cli);
        }
    }
    client_close(cli.client);
    return code;
}
