/* sluice_cli_modes.c - sending a file of requests, measuring round trips, watching. */
#include "tools/sluice_cli.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static double
monotonic_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void
sleep_s(double seconds)
{
    struct timespec left = { (time_t)seconds, (long)((seconds - floor(seconds)) * 1e9) };
    nanosleep(&left, NULL);
}

/* ---- --pipe ---- */

#define PIPE_MARK_BYTES 20
#define PIPE_ROOM       (64 * 1024)

struct pipe_run {
    struct client *client;
    uint8_t out[PIPE_ROOM];
    size_t out_sent, out_end;
    bool input_ended, marked, done;
    char mark[PIPE_MARK_BYTES]; /* what the last ECHO will answer */
    uint64_t replies, errors;
    double heard_at;
};

/* Letters that no reply holds by chance: the end of the transfer. */
static void
mark_write(struct pipe_run *run)
{
    uint8_t random[PIPE_MARK_BYTES];
    CHECK(getrandom(random, sizeof(random), 0) == sizeof(random));
    for (size_t i = 0; i < sizeof(random); i++) {
        run->mark[i] = (char)('a' + random[i] % 26);
    }
    /* A line end first: what stdin left unfinished becomes an error, not part of the mark. */
    run->out_end = (size_t)snprintf((char *)run->out, PIPE_ROOM, "\r\n*2\r\n$4\r\nECHO\r\n$%d\r\n%.*s\r\n",
                                    PIPE_MARK_BYTES, PIPE_MARK_BYTES, run->mark);
    run->out_sent = 0;
    run->marked = true;
    printf("All data transferred. Waiting for the last reply...\n");
    fflush(stdout);
}

/* False: the connection is over. */
static bool
pipe_send(struct pipe_run *run)
{
    while (run->out_sent < run->out_end) {
        ssize_t sent = client_raw_send(run->client, run->out + run->out_sent, run->out_end - run->out_sent);
        if (sent <= 0) {
            return sent == 0;
        }
        run->out_sent += (size_t)sent;
    }
    run->out_sent = run->out_end = 0;
    return true;
}

static bool
pipe_receive(struct pipe_run *run)
{
    struct slice view;
    struct client_reply reply;
    size_t bytes;
    if (client_raw_receive(run->client, &view) != CLIENT_OK) {
        return false;
    }
    for (;;) {
        enum client_status status = client_raw_reply(run->client, &reply, &bytes);
        if (status != CLIENT_OK) {
            return status == CLIENT_TIMEOUT;
        }
        run->heard_at = monotonic_s();
        if (run->marked && reply.values[0].kind == VALUE_BULK &&
            slice_equal(reply.values[0].bytes, slice_of(run->mark, PIPE_MARK_BYTES))) {
            run->done = true;
            printf("Last reply received from server.\n");
            return true;
        }
        if (client_reply_is_error(&reply)) {
            fprintf(stderr, "%.*s\n", (int)reply.values[0].bytes.bytes, (const char *)reply.values[0].bytes.data);
            run->errors++;
        }
        run->replies++;
        client_raw_take(run->client, bytes);
    }
}

static void
pipe_input(struct pipe_run *run)
{
    ssize_t bytes = read(STDIN_FILENO, run->out, PIPE_ROOM);
    if (bytes > 0) {
        run->out_end = (size_t)bytes;
    } else if (bytes == 0 || (errno != EAGAIN && errno != EINTR)) {
        run->input_ended = true;
    }
}

/* Until something can be read or written; a transport without a descriptor is polled. */
static void
pipe_wait(struct pipe_run *run)
{
    bool sending = run->out_sent < run->out_end;
    struct pollfd fds[2] = {
        { .fd = client_fd(run->client), .events = (short)(POLLIN | (sending ? POLLOUT : 0)) },
        { .fd = run->input_ended || sending ? -1 : STDIN_FILENO, .events = POLLIN },
    };
    poll(fds, 2, fds[0].fd < 0 ? 0 : 100);
}

int
cli_pipe(struct cli *cli)
{
    static struct pipe_run run;
    if (!cli_connect(cli)) {
        return 1;
    }
    run.client = cli->client;
    run.heard_at = monotonic_s();
    fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
    while (!run.done) {
        if (run.out_sent == run.out_end && !run.input_ended) {
            pipe_input(&run);
        }
        if (run.out_sent == run.out_end && run.input_ended && !run.marked) {
            mark_write(&run);
        }
        if (!pipe_send(&run) || !pipe_receive(&run)) {
            fprintf(stderr, "Error: %s\n", client_why(run.client));
            run.errors++;
            break;
        }
        if (run.marked && cli->options.pipe_timeout_s > 0 &&
            monotonic_s() - run.heard_at > cli->options.pipe_timeout_s) {
            fprintf(stderr, "No replies for %d seconds: exiting.\n", cli->options.pipe_timeout_s);
            run.errors++;
            break;
        }
        if (!run.done) {
            pipe_wait(&run);
        }
    }
    printf("errors: %llu, replies: %llu\n", (unsigned long long)run.errors, (unsigned long long)run.replies);
    return run.errors > 0 ? 1 : 0;
}

/* ---- --latency ---- */

struct latency_row {
    double min_us, max_us, sum_us, started_s;
    uint64_t count;
};

static void
latency_print(const struct latency_row *row, bool people)
{
    double mean_ms = row->count > 0 ? row->sum_us / (double)row->count / 1000 : 0;
    if (people) {
        printf("\rmin: %.3f, max: %.3f, avg: %.3f ms (%llu samples)", row->min_us / 1000, row->max_us / 1000, mean_ms,
               (unsigned long long)row->count);
    } else {
        printf("%.3f %.3f %.3f %llu\n", row->min_us / 1000, row->max_us / 1000, mean_ms,
               (unsigned long long)row->count);
    }
    fflush(stdout);
}

static bool
latency_ping(struct cli *cli, struct latency_row *row)
{
    const char *words[] = { "PING" };
    struct client_reply reply;
    double start = monotonic_s();
    if (client_call_words(cli->client, words, 1, &reply) != CLIENT_OK) {
        fprintf(stderr, "Error: %s\n", client_why(cli->client));
        return false;
    }
    double took_us = (monotonic_s() - start) * 1e6;
    if (!client_reply_is_text(&reply, "PONG")) {
        cli_print(cli, &reply, false);
        return false;
    }
    row->min_us = row->count == 0 ? took_us : fmin(row->min_us, took_us);
    row->max_us = fmax(row->max_us, took_us);
    row->sum_us += took_us;
    row->count++;
    return true;
}

int
cli_latency(struct cli *cli)
{
    bool history = cli->options.mode == CLI_MODE_LATENCY_HISTORY;
    bool people = cli->options.format == CLI_FORMAT_TTY;
    double row_s = cli->options.interval_chosen ? cli->options.interval_s : history ? 15 : 1;
    if (!cli_connect(cli)) {
        return 1;
    }
    cli_interrupts_catch();
    struct latency_row row = { .started_s = monotonic_s() };
    double shown_s = 0;
    while (!cli_interrupted()) {
        if (!latency_ping(cli, &row)) {
            return 1;
        }
        double now = monotonic_s();
        bool row_over = now - row.started_s >= row_s;
        if (people && now - shown_s > 0.1) {
            latency_print(&row, true);
            shown_s = now;
        }
        if (!people && row_over) {
            latency_print(&row, false);
            if (!history) {
                return 0;
            }
        }
        if (history && row_over) {
            if (people) {
                latency_print(&row, true);
                printf(" -- %.2f seconds range\n", now - row.started_s);
            }
            row = (struct latency_row){ .started_s = now };
        }
        sleep_s(0.01);
    }
    if (people) {
        latency_print(&row, true);
        printf("\n");
    }
    return 0;
}

/* ---- --stat ---- */

/* The number behind "name:" at the begin of a line of INFO; 0 when it is not there. */
static long long
info_number(struct slice info, const char *name)
{
    size_t name_bytes = strlen(name);
    const char *at = (const char *)info.data, *end = at + info.bytes;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        size_t bytes = (size_t)((line_end != NULL ? line_end : end) - at);
        if (bytes > name_bytes && memcmp(at, name, name_bytes) == 0) {
            char digits[24];
            snprintf(digits, sizeof(digits), "%.*s", (int)MIN(bytes - name_bytes, sizeof(digits) - 1), at + name_bytes);
            return strtoll(digits, NULL, 10);
        }
        at += bytes + 1;
    }
    return 0;
}

static void
bytes_print(char *out, size_t room, long long bytes)
{
    static const char units[] = "BKMGT";
    double amount = (double)bytes;
    int unit = 0;
    while (amount >= 1024 && unit < 4) {
        amount /= 1024;
        unit++;
    }
    snprintf(out, room, unit == 0 ? "%.0f%c" : "%.2f%c", amount, units[unit]);
}

static void
stat_row(struct slice info, long long *requests_before)
{
    char memory[32], requests[48];
    long long now = info_number(info, "total_commands_processed:");
    bytes_print(memory, sizeof(memory), info_number(info, "used_memory:"));
    snprintf(requests, sizeof(requests), "%lld (+%lld)", now, *requests_before < 0 ? 0 : now - *requests_before);
    *requests_before = now;
    printf("%-10lld %-8s %-8lld %-8lld %-19s %-12lld\n", info_number(info, "db0:keys="), memory,
           info_number(info, "connected_clients:"), info_number(info, "blocked_clients:"), requests,
           info_number(info, "total_connections_received:"));
    fflush(stdout);
}

int
cli_stat(struct cli *cli)
{
    const char *words[] = { "INFO" };
    long long requests_before = -1;
    double interval_s = cli->options.interval_s > 0 ? cli->options.interval_s : 1;
    if (!cli_connect(cli)) {
        return 1;
    }
    cli_interrupts_catch();
    for (int64_t row = 0; !cli_interrupted(); row++) {
        struct client_reply reply;
        if (client_call_words(cli->client, words, 1, &reply) != CLIENT_OK) {
            fprintf(stderr, "Error: %s\n", client_why(cli->client));
            return 1;
        }
        if (client_reply_is_error(&reply)) {
            cli_print(cli, &reply, false);
            return 1;
        }
        if (row % 20 == 0) {
            printf("------- data ------ --------------------- load -------------------- - child -\n"
                   "keys       mem      clients  blocked  requests            connections\n");
        }
        stat_row(reply.values[0].bytes, &requests_before);
        if (cli->options.repeat > 1 && row + 1 == cli->options.repeat) {
            break;
        }
        sleep_s(interval_s);
    }
    return 0;
}
