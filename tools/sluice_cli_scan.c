/* sluice_cli_scan.c - every key of the server, one a line: SCAN until its cursor is 0. */
#include "tools/sluice_cli.h"
#include <time.h>

#define CURSOR_BYTES 24

/* One step. False: an error was printed. */
static bool
scan_step(struct cli *cli, char cursor[CURSOR_BYTES], struct client_reply *reply)
{
    const struct cli_options *options = &cli->options;
    const char *words[6] = { "SCAN", cursor };
    uint32_t count = 2;
    if (options->pattern != NULL) {
        words[count++] = "MATCH";
        words[count++] = options->pattern;
    }
    if (options->count != NULL) {
        words[count++] = "COUNT";
        words[count++] = options->count;
    }
    if (client_call_words(cli->client, words, count, reply) != CLIENT_OK) {
        fprintf(stderr, "Error: %s\n", client_why(cli->client));
        return false;
    }
    if (client_reply_is_error(reply)) {
        cli_print(cli, reply, false);
        return false;
    }
    /* [cursor, [key ...]], told one after the other */
    bool good = reply->count >= 3 && reply->values[1].kind == VALUE_BULK && reply->values[1].bytes.bytes < CURSOR_BYTES;
    if (!good) {
        fprintf(stderr, "Error: SCAN answered something else\n");
        return false;
    }
    memcpy(cursor, reply->values[1].bytes.data, reply->values[1].bytes.bytes);
    cursor[reply->values[1].bytes.bytes] = '\0';
    return true;
}

static void
keys_print(const struct cli *cli, const struct client_reply *reply)
{
    struct cli_text text = { 0 };
    for (uint32_t i = 3; i < reply->count; i++) {
        struct slice key = reply->values[i].bytes;
        if (cli->options.format == CLI_FORMAT_RAW) {
            cli_text_append(&text, key.data, key.bytes);
        } else {
            cli_text_quote(&text, key);
        }
        cli_text_append(&text, "\n", 1);
    }
    fwrite(text.data, 1, text.bytes, stdout);
    cli_text_fini(&text);
}

int
cli_scan(struct cli *cli)
{
    char cursor[CURSOR_BYTES] = "0";
    struct timespec pause = { .tv_sec = (time_t)cli->options.interval_s };
    pause.tv_nsec = (long)((cli->options.interval_s - (double)pause.tv_sec) * 1e9);
    if (!cli_connect(cli)) {
        return 1;
    }
    cli_interrupts_catch();
    do {
        struct client_reply reply;
        if (!scan_step(cli, cursor, &reply)) {
            return 1;
        }
        keys_print(cli, &reply);
        nanosleep(&pause, NULL);
    } while (strcmp(cursor, "0") != 0 && !cli_interrupted());
    return 0;
}
