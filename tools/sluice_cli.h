/* sluice_cli.h - what the files of sluice-cli share. */
#pragma once
#include "tools/client/client.h"

/* ---- text that grows ---- */

struct cli_text {
    char *data; /* NUL-terminated once something was appended */
    size_t bytes, room;
};

/* Memory runs out only for replies the client already holds: then the program ends. */
void cli_text_append(struct cli_text *text, const void *data, size_t bytes);
void cli_text_print(struct cli_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cli_text_fini(struct cli_text *text);

/* ---- words of a line ---- */

struct cli_words {
    struct slice *words; /* point into `bytes`, or wherever the caller's words live */
    uint32_t count, room;
    char *bytes;
};

/* Split as redis-cli does: blanks separate; "..." knows \n \r \t \b \a \xHH and \ before anything; '...' knows \'.
 * False: quotes do not match, or a closing quote is not followed by a blank; *words is empty. */
bool cli_words_split(const char *line, struct cli_words *words);
void cli_words_add(struct cli_words *words, struct slice word);
void cli_words_fini(struct cli_words *words);

/* ---- replies ---- */

enum cli_format { CLI_FORMAT_TTY, CLI_FORMAT_RAW, CLI_FORMAT_JSON };

/* The reply as redis-cli prints it in this format, with its line end. `delimiter` separates elements (raw). */
void cli_reply_print(struct cli_text *text, const struct client_reply *reply, enum cli_format format,
                     const char *delimiter);
/* "text" with quotes and escapes. */
void cli_text_quote(struct cli_text *text, struct slice bytes);

/* ---- options ---- */

enum cli_mode {
    CLI_MODE_COMMAND, /* words on the command line, else lines of stdin */
    CLI_MODE_PIPE,
    CLI_MODE_LATENCY,
    CLI_MODE_LATENCY_HISTORY,
    CLI_MODE_STAT,
    CLI_MODE_SCAN,
};

struct cli_options {
    struct client_options client;
    enum cli_mode mode;
    enum cli_format format;
    bool format_chosen; /* by an option; else a terminal gets TTY and a pipe RAW */
    int database;
    int64_t repeat; /* -1: for ever */
    double interval_s;
    bool interval_chosen;
    bool last_from_stdin;  /* -x */
    bool exit_on_error;    /* -e */
    bool quoted_input;     /* words of the command line are quoted as in a line */
    int pipe_timeout_s;    /* 0: none */
    const char *delimiter; /* of elements, raw */
    const char *pattern;   /* of --scan; NULL: every key */
    const char *count;     /* of --scan; NULL: the server's own */
    int words_at;          /* argv index of the command's first word */
};

/* Fill in `options` from the command line and REDISCLI_AUTH. Returns -1 to go on, else the exit code: --help, or a
 * complaint was printed. Strings point into argv or to memory kept for the whole run. */
int cli_options_parse(struct cli_options *options, int argc, char **argv);

/* ---- connection ---- */

struct cli {
    struct cli_options options;
    struct client *client; /* NULL: not connected */
    bool prompts;          /* a person types: the session goes on after messages */
    bool failed;           /* an error reply was printed */
};

/* Connect and SELECT; complains on stderr. */
bool cli_connect(struct cli *cli);
/* Run one command `repeat` times and print what comes; reconnects once when the connection was lost before.
 * False: could not connect, or the connection broke. */
bool cli_command(struct cli *cli, const struct slice *words, uint32_t count, int64_t repeat);
/* Print one reply, or push. */
void cli_print(struct cli *cli, const struct client_reply *reply, bool verbatim);

/* True once after Ctrl-C; a second one ends the program. */
bool cli_interrupted(void);
void cli_interrupts_catch(void);

/* Lines from a terminal with editing and history, or plain ones; returns the exit code. */
int cli_interactive(struct cli *cli);
int cli_lines(struct cli *cli);
int cli_pipe(struct cli *cli);
int cli_latency(struct cli *cli);
int cli_stat(struct cli *cli);
int cli_scan(struct cli *cli);
