/* sluice_cli_line.c - the prompt, with editing and history; or plain lines of stdin. */
#include "codec/command.h"
#include "tools/sluice_cli.h"
#include <ctype.h>
#include <histedit.h>
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

#define HISTORY_LINES 1000

static struct cli *prompting; /* editline's prompt callback gets no argument of ours */

static char *
prompt_make(EditLine *line)
{
    static char prompt[320];
    const struct client_options *client = &prompting->options.client;
    (void)line;
    if (prompting->client == NULL) {
        return strcpy(prompt, "not connected> ");
    }
    int bytes = client->path != NULL ? snprintf(prompt, sizeof(prompt) - 16, "sluice %s", client->path)
                                     : snprintf(prompt, sizeof(prompt) - 16, "%s:%u", client->host, client->port);
    bytes = MIN(bytes, (int)sizeof(prompt) - 17);
    if (prompting->options.database != 0) {
        bytes += snprintf(prompt + bytes, 14, "[%d]", prompting->options.database);
    }
    strcpy(prompt + bytes, "> ");
    return prompt;
}

static void
help_print(const struct cli_words *words)
{
    const char *last_group = "";
    if (words->count < 2) {
        printf("sluice-cli %s\n"
               "help COMMAND   what a command does, and its arguments\n"
               "help @GROUP    the commands of a group:",
               SLUICE_VERSION);
        for (uint32_t i = 0; i < COMMAND_COUNT; i++) {
            if (strcmp(command_table[i].group, last_group) != 0) {
                last_group = command_table[i].group;
                printf(" @%s", last_group);
            }
        }
        printf("\nquit, exit     leave\nclear          empty the screen\nN COMMAND      run it N times\n");
        return;
    }
    struct slice what = words->words[1];
    bool is_group = what.bytes > 0 && what.data[0] == '@';
    if (is_group) {
        what = slice_of(what.data + 1, what.bytes - 1);
    }
    for (uint32_t i = 0; i < COMMAND_COUNT; i++) {
        const struct command *command = &command_table[i];
        if (!slice_equal_nocase(what, is_group ? command->group : command->name)) {
            continue;
        }
        printf("  %-12s %s\n", command->name, command->summary);
        if (!is_group) {
            printf("  %-12s arguments: at least %u", "", command->args_min);
            if (command->args_max < LIMIT_REQUEST_ARGS) {
                printf(", at most %u", command->args_max);
            }
            printf("; group: @%s\n", command->group);
        }
    }
}

/* "5 INCR x" runs it five times, but for a first word that is all there is. */
static int64_t
repeat_take(struct cli_words *words)
{
    struct slice first = words->words[0];
    int64_t repeat = 0;
    if (words->count < 2 || first.bytes == 0 || first.bytes > 9) {
        return 1;
    }
    for (size_t i = 0; i < first.bytes; i++) {
        if (!isdigit(first.data[i])) {
            return 1;
        }
        repeat = repeat * 10 + (first.data[i] - '0');
    }
    memmove(words->words, words->words + 1, --words->count * sizeof(*words->words));
    return repeat;
}

static bool
address_change(struct cli *cli, const struct cli_words *words)
{
    struct slice host = words->words[1], port = words->words[2];
    char number[8];
    snprintf(number, sizeof(number), "%.*s", (int)MIN(port.bytes, 7), (const char *)port.data);
    int chosen = atoi(number);
    char *kept = strndup((const char *)host.data, host.bytes); /* lives as long as the program */
    if (chosen <= 0 || chosen > 65535 || kept == NULL) {
        free(kept);
        printf("connect HOST PORT\n");
        return false;
    }
    cli->options.client.host = kept;
    cli->options.client.port = (uint16_t)chosen;
    cli->options.client.path = NULL;
    return cli_connect(cli);
}

/* False: leave. */
static bool
line_run(struct cli *cli, const char *line)
{
    struct cli_words words;
    if (!cli_words_split(line, &words)) {
        printf("Invalid argument(s)\n");
        return true;
    }
    bool go_on = true;
    if (words.count == 0) {
        /* nothing to do */
    } else if (slice_equal_nocase(words.words[0], "quit") || slice_equal_nocase(words.words[0], "exit")) {
        go_on = false;
    } else if (slice_equal_nocase(words.words[0], "clear")) {
        printf("\033[H\033[2J");
        fflush(stdout);
    } else if (slice_equal_nocase(words.words[0], "help") || slice_equal_nocase(words.words[0], "?")) {
        help_print(&words);
    } else if (slice_equal_nocase(words.words[0], "connect") && words.count == 3) {
        address_change(cli, &words);
    } else {
        int64_t repeat = repeat_take(&words);
        cli_command(cli, words.words, words.count, repeat);
    }
    cli_words_fini(&words);
    return go_on;
}

/* Lines with secrets are not kept. */
static bool
is_sensitive(const char *line)
{
    struct cli_words words;
    if (!cli_words_split(line, &words)) {
        return false;
    }
    bool sensitive = false;
    for (uint32_t i = 0; i < words.count; i++) {
        sensitive |= slice_equal_nocase(words.words[i], "auth") || slice_equal_nocase(words.words[i], "requirepass") ||
                     (i == 0 && slice_equal_nocase(words.words[i], "acl"));
    }
    cli_words_fini(&words);
    return sensitive;
}

static bool
history_path(char *path, size_t path_bytes)
{
    const char *chosen = getenv("SLUICECLI_HISTFILE"), *home = getenv("HOME");
    if (chosen != NULL) {
        snprintf(path, path_bytes, "%s", chosen);
        return *chosen != '\0' && strcmp(chosen, "/dev/null") != 0;
    }
    snprintf(path, path_bytes, "%s/.sluicecli_history", home != NULL ? home : "");
    return home != NULL;
}

static bool line_cancelled; /* editline's functions get no argument of ours either */

/* Ctrl-C while a line is edited is a key like any other: no signal interrupts the editor. */
static unsigned char
line_cancel(EditLine *editor, int key)
{
    const LineInfo *line = el_line(editor);
    (void)key;
    el_cursor(editor, (int)(line->lastchar - line->cursor));
    el_deletestr(editor, (int)(line->lastchar - line->buffer));
    line_cancelled = true;
    return CC_NEWLINE;
}

/* A line without its end, or NULL at the end of input. Ctrl-C gives up the line: an empty one. */
static const char *
line_get(EditLine *editor, char *line, size_t line_bytes)
{
    int count = 0;
    line_cancelled = false;
    (void)cli_interrupted(); /* one that came before the terminal was the editor's */
    const char *got = el_gets(editor, &count);
    if (line_cancelled) {
        printf("^C\n");
        line[0] = '\0';
        return line;
    }
    if (got == NULL || count <= 0) {
        return NULL;
    }
    snprintf(line, line_bytes, "%.*s", (int)strcspn(got, "\r\n"), got);
    return line;
}

int
cli_interactive(struct cli *cli)
{
    static char line[65536];
    char path[4096];
    HistEvent event;

    setlocale(LC_CTYPE, "");
    prompting = cli;
    cli->prompts = true;
    cli_interrupts_catch();
    cli_connect(cli);
    EditLine *editor = el_init("sluice-cli", stdin, stdout, stderr);
    History *past = history_init();
    CHECK(editor != NULL && past != NULL);
    el_set(editor, EL_PROMPT, prompt_make);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_HIST, history, past);
    el_set(editor, EL_SETTY, "-d", "-isig", NULL);
    el_set(editor, EL_ADDFN, "sluice-cancel", "give up the line", line_cancel);
    el_set(editor, EL_BIND, "^C", "sluice-cancel", NULL);
    history(past, &event, H_SETSIZE, HISTORY_LINES);
    history(past, &event, H_SETUNIQUE, 1);
    bool keeps = history_path(path, sizeof(path));
    if (keeps) {
        history(past, &event, H_LOAD, path);
    }
    while (line_get(editor, line, sizeof(line)) != NULL) {
        if (line[0] != '\0' && !is_sensitive(line)) {
            history(past, &event, H_ENTER, line);
        }
        if (!line_run(cli, line)) {
            break;
        }
    }
    if (keeps) {
        mode_t mask = umask(0077);
        history(past, &event, H_SAVE, path);
        umask(mask);
    }
    history_end(past);
    el_end(editor);
    return 0;
}

int
cli_lines(struct cli *cli)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t bytes;
    bool good = cli_connect(cli);
    while (good && (bytes = getline(&line, &room, stdin)) >= 0) {
        line[strcspn(line, "\r\n")] = '\0';
        good = line_run(cli, line) && !(cli->failed && cli->options.exit_on_error);
        if (cli->client == NULL) {
            free(line);
            return 1;
        }
    }
    free(line);
    return cli->client == NULL || (cli->failed && cli->options.exit_on_error) ? 1 : 0;
}
