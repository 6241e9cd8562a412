#include "mgmt/ctl_server.h"
#include <CUnit/Basic.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Lines answer themselves; some words do more. */
static struct loop loop;
static struct ctl_server server;
static uint64_t later_id;
static uint32_t lines_seen;

static enum ctl_result
answer_line(void *context, struct ctl_client *client, char *line, size_t bytes, struct text *out)
{
    size_t count;

    lines_seen++;
    CU_ASSERT_EQUAL(line[bytes], '\0');
    if (strcmp(line, "later") == 0) {
        later_id = client->id;
        return CTL_LATER;
    }
    if (sscanf(line, "fill %zu", &count) == 1) {
        char *filler = malloc(count);
        memset(filler, 'f', count);
        text_append(out, filler, count);
        free(filler);
        return CTL_DONE;
    }
    if (bytes > 100) {
        text_print(out, "<%zu>\n", bytes);
        return CTL_DONE;
    }
    text_append(out, "<", 1);
    text_append(out, line, bytes);
    text_append(out, ">\n", 2);
    return CTL_DONE;
}

static void
begin(void)
{
    CU_ASSERT_EQUAL_FATAL(loop_open(&loop), 0);
    ctl_server_open(&server, &loop, -1, answer_line, NULL);
    later_id = lines_seen = 0;
}

static void
end(void)
{
    ctl_server_close(&server);
    CU_ASSERT_EQUAL(ctl_server_clients(&server), 0);
    loop_close(&loop);
}

/* Our end of a new connection, nonblocking; -1 when it was refused: then *refusal is our end. */
static int
join_or(int *refusal)
{
    int ends[2];
    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    if (ctl_server_take(&server, ends[1])) {
        return ends[0];
    }
    if (refusal != NULL) {
        *refusal = ends[0];
    } else {
        close(ends[0]);
    }
    return -1;
}

static int
join(void)
{
    int fd = join_or(NULL);
    CU_ASSERT_FATAL(fd >= 0);
    return fd;
}

static void
turn(int times)
{
    for (int i = 0; i < times; i++) {
        loop_turn(&loop, 0);
    }
}

static void
say(int fd, const char *text)
{
    CU_ASSERT_EQUAL(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    turn(4);
}

/* Everything there is to read now; `text` ends in NUL. Returns bytes, or -1 at the end of the connection. */
static char text[1024 * 1024];
static ssize_t
hear(int fd)
{
    size_t used = 0;
    for (;;) {
        ssize_t got = recv(fd, text + used, sizeof(text) - 1 - used, 0);
        if (got <= 0 || used + (size_t)got == sizeof(text) - 1) {
            text[used] = '\0';
            return used == 0 && (got == 0 || (got < 0 && errno != EAGAIN)) ? -1 : (ssize_t)used;
        }
        used += (size_t)got;
    }
}

static void
lines_are_answered_in_order_however_they_are_cut(void)
{
    static const char lines[] = "one\ntwo\r\n\n\r\nthree words here\n";

    for (size_t cut = 0; cut < sizeof(lines) - 1; cut++) {
        begin();
        int fd = join();
        CU_ASSERT_EQUAL(send(fd, lines, cut, 0), (ssize_t)cut);
        turn(2);
        CU_ASSERT_EQUAL(send(fd, lines + cut, sizeof(lines) - 1 - cut, 0), (ssize_t)(sizeof(lines) - 1 - cut));
        turn(4);
        hear(fd);
        CU_ASSERT_STRING_EQUAL(text, "<one>\n<two>\n<three words here>\n");
        close(fd);
        end();
    }
}

static void
more_lines_than_a_turn_takes_are_all_answered(void)
{
    begin();
    int fd = join();
    char many[3000] = "";
    for (int i = 0; i < 500; i++) {
        strcat(many, "ab\n");
    }
    CU_ASSERT_EQUAL(send(fd, many, strlen(many), 0), (ssize_t)strlen(many));
    shutdown(fd, SHUT_WR);
    turn(100);
    CU_ASSERT_EQUAL(hear(fd), 500 * 5);
    CU_ASSERT_EQUAL(lines_seen, 500);
    CU_ASSERT_EQUAL(ctl_server_clients(&server), 0); /* answered, then closed */
    close(fd);
    end();
}

/* Send from `bytes` of 'x' and then `tail`, turning the server so that nothing can fill up. */
static void
say_long(int fd, size_t bytes, const char *tail)
{
    static char piece[32768];
    memset(piece, 'x', sizeof(piece));
    while (bytes > 0) {
        ssize_t sent = send(fd, piece, MIN(bytes, sizeof(piece)), MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) {
            return; /* it has closed */
        }
        bytes -= sent > 0 ? (size_t)sent : 0;
        turn(2);
    }
    send(fd, tail, strlen(tail), MSG_NOSIGNAL);
    turn(8);
}

static void
a_line_may_be_exactly_as_long_as_its_limit(void)
{
    static const struct {
        size_t bytes;
        bool good;
    } rows[] = { { LIMIT_CTL_LINE_BYTES - 1, true },
                 { LIMIT_CTL_LINE_BYTES, true },
                 { LIMIT_CTL_LINE_BYTES + 1, false } };

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char expected[64];
        begin();
        int fd = join();
        say_long(fd, rows[i].bytes, "\nnext\n");
        hear(fd);
        snprintf(expected, sizeof(expected), "<%zu>\n<next>\n", rows[i].bytes);
        CU_ASSERT_STRING_EQUAL(
            text, rows[i].good ? expected : "{\"version\":1,\"ok\":false,\"error\":\"the line is too long\"}\n");
        CU_ASSERT_EQUAL(server.closed_for_cause, !rows[i].good);
        close(fd);
        end();
    }
}

static void
a_line_of_100_mb_is_refused_and_dropped(void)
{
    begin();
    int fd = join();
    say_long(fd, 100 * MIB, "\nnext\n");
    hear(fd);
    CU_ASSERT_STRING_EQUAL(text, "{\"version\":1,\"ok\":false,\"error\":\"the line is too long\"}\n");
    CU_ASSERT_EQUAL(lines_seen, 0);
    ctl_server_tick(&server, loop_now_ms() + CTL_LINGER_MS);
    CU_ASSERT_EQUAL(ctl_server_clients(&server), 0);
    close(fd);
    end();
}

static void
half_a_line_asks_nothing(void)
{
    begin();
    int fd = join();
    say(fd, "good\nshutdow");
    hear(fd);
    CU_ASSERT_STRING_EQUAL(text, "<good>\n");
    shutdown(fd, SHUT_WR);
    turn(4);
    hear(fd);
    CU_ASSERT_STRING_EQUAL(text, "{\"version\":1,\"ok\":false,\"error\":\"the line has no end\"}\n");
    CU_ASSERT_EQUAL(lines_seen, 1);
    CU_ASSERT_EQUAL(ctl_server_clients(&server), 0);
    close(fd);
    end();
}

static void
any_bytes_are_a_line(void)
{
    uint64_t state = 88172645463325252ull;

    begin();
    int fd = join();
    for (int i = 0; i < 200; i++) {
        uint8_t garbage[512];
        for (size_t k = 0; k < sizeof(garbage); k++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            garbage[k] = (uint8_t)state;
        }
        CU_ASSERT_EQUAL(send(fd, garbage, sizeof(garbage), MSG_NOSIGNAL), sizeof(garbage));
        turn(4);
        hear(fd);
    }
    say(fd, "\nlast\n");
    hear(fd);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "<last>\n"));
    close(fd);
    end();
}

static void
a_client_that_does_not_read_is_not_read_and_later_closed(void)
{
    begin();
    int fd = join(), other = join();
    size_t sent = 0;
    for (int i = 0; i < 10000; i++) {
        ssize_t got = send(fd, "fill 1000\n", 10, MSG_NOSIGNAL);
        sent += got > 0 ? (size_t)got : 0;
        turn(1);
        const struct ctl_client *client = server.clients[0];
        CU_ASSERT_FATAL(client != NULL && client->out.used < 128 * KIB);
        CU_ASSERT(client->in_bytes <= LIMIT_CTL_LINE_BYTES + 1);
    }
    CU_ASSERT(sent < 10 * 10000); /* the kernel's buffers are full, too */
    say(other, "still here\n");
    hear(other);
    CU_ASSERT_STRING_EQUAL(text, "<still here>\n");

    int64_t now_ms = server.clients[0]->active_ms;
    ctl_server_tick(&server, now_ms + CTL_STALL_MS - 1);
    CU_ASSERT_EQUAL(ctl_server_clients(&server), 2);
    ctl_server_tick(&server, now_ms + CTL_STALL_MS);
    CU_ASSERT_EQUAL(ctl_server_clients(&server), 1);
    close(fd);
    close(other);
    end();
}

static void
a_client_that_reads_again_gets_everything(void)
{
    begin();
    int fd = join();
    size_t sent = 0, heard = 0;
    for (int i = 0; i < 2000; i++) {
        sent += send(fd, "fill 1000\n", 10, MSG_NOSIGNAL) == 10;
        turn(1);
    }
    for (int i = 0; i < 4000 && heard < sent * 1000; i++) {
        turn(2);
        ssize_t got = hear(fd);
        heard += got > 0 ? (size_t)got : 0;
    }
    CU_ASSERT(sent > 100);
    CU_ASSERT_EQUAL(heard, sent * 1000);
    close(fd);
    end();
}

#define REFUSAL_TOO_LONG "{\"version\":1,\"ok\":false,\"error\":\"the answer is too long\"}\n"

static void
an_answer_may_be_exactly_as_long_as_its_limit(void)
{
    for (int over = 0; over < 2; over++) {
        char line[64];
        size_t heard = 0;
        begin();
        int fd = join();
        snprintf(line, sizeof(line), "fill %llu\n", (unsigned long long)LIMIT_CTL_OUTPUT_BYTES + over);
        say(fd, line);
        for (int i = 0; i < 1000; i++) {
            ssize_t got = hear(fd);
            heard += got > 0 ? (size_t)got : 0;
            turn(1);
        }
        CU_ASSERT_EQUAL(heard, over ? strlen(REFUSAL_TOO_LONG) : LIMIT_CTL_OUTPUT_BYTES);
        CU_ASSERT_EQUAL(server.closed_for_cause, (uint64_t)over);
        close(fd);
        end();
    }
}

static void
places_are_limited_and_come_back(void)
{
    int fds[LIMIT_CTL_CLIENTS], refused = -1;

    begin();
    for (size_t i = 0; i < LIMIT_CTL_CLIENTS; i++) {
        fds[i] = join();
    }
    for (int i = 0; i < 1000; i++) {
        CU_ASSERT_EQUAL(join_or(&refused), -1);
        hear(refused);
        CU_ASSERT_STRING_EQUAL(text, "{\"version\":1,\"ok\":false,\"error\":\"too many management clients\"}\n");
        close(refused);
    }
    CU_ASSERT_EQUAL(server.refused, 1000);
    close(fds[7]);
    turn(4);
    CU_ASSERT_EQUAL(ctl_server_clients(&server), LIMIT_CTL_CLIENTS - 1);
    fds[7] = join();
    say(fds[7], "in\n");
    hear(fds[7]);
    CU_ASSERT_STRING_EQUAL(text, "<in>\n");
    for (size_t i = 0; i < LIMIT_CTL_CLIENTS; i++) {
        close(fds[i]);
    }
    turn(8);
    CU_ASSERT_EQUAL(ctl_server_clients(&server), 0);
    end();
}

static void
later_answers_keep_the_order(void)
{
    begin();
    int fd = join();
    say(fd, "one\nlater\ntwo\n");
    hear(fd);
    CU_ASSERT_STRING_EQUAL(text, "<one>\n");
    turn(4);
    CU_ASSERT_EQUAL(hear(fd), 0);
    ctl_server_answer(&server, later_id + 1, "no", 2); /* nobody's */
    ctl_server_answer(&server, later_id, "<answer>\n", 9);
    ctl_server_answer(&server, later_id, "again", 5); /* it waits no more */
    turn(4);
    hear(fd);
    CU_ASSERT_STRING_EQUAL(text, "<answer>\n<two>\n");
    close(fd);
    end();
}

static void
a_client_that_left_gets_no_later_answer(void)
{
    begin();
    int fd = join();
    say(fd, "later\n");
    close(fd);
    turn(4);
    CU_ASSERT_EQUAL(ctl_server_clients(&server), 0);
    ctl_server_answer(&server, later_id, "x", 1);

    fd = join(); /* half closed is not gone: socat does that */
    say(fd, "later\n");
    shutdown(fd, SHUT_WR);
    turn(4);
    CU_ASSERT_EQUAL(ctl_server_clients(&server), 1);
    ctl_server_answer(&server, later_id, "<answer>\n", 9);
    turn(4);
    hear(fd);
    CU_ASSERT_STRING_EQUAL(text, "<answer>\n");
    CU_ASSERT_EQUAL(ctl_server_clients(&server), 0);
    close(fd);
    end();
}

static void
a_line_must_be_finished_in_time_however_it_trickles(void)
{
    begin();
    int fd = join();
    struct ctl_client *client = server.clients[0];
    say(fd, "s");
    int64_t begun_ms = client->line_ms;
    CU_ASSERT(begun_ms > 0);
    client->line_ms = begun_ms -= 3000; /* as if that had been so long ago */
    say(fd, "t");
    CU_ASSERT_EQUAL(client->line_ms, begun_ms);
    ctl_server_tick(&server, begun_ms + CTL_LINE_MS - 1);
    CU_ASSERT_EQUAL(hear(fd), 0);
    ctl_server_tick(&server, begun_ms + CTL_LINE_MS);
    hear(fd);
    CU_ASSERT_STRING_EQUAL(text, "{\"version\":1,\"ok\":false,\"error\":\"the line was not finished in time\"}\n");
    ctl_server_tick(&server, loop_now_ms() + CTL_LINGER_MS);
    CU_ASSERT_EQUAL(ctl_server_clients(&server), 0);
    close(fd);

    fd = join(); /* the time of a second line begins with it, and none runs while an answer is due */
    client = server.clients[0];
    say(fd, "one\nlater\ntw");
    ctl_server_tick(&server, client->line_ms + CTL_LINE_MS + 1);
    CU_ASSERT_EQUAL(ctl_server_clients(&server), 1);
    CU_ASSERT_FALSE(client->closing);
    close(fd);
    end();
}

/* Every place but those from `count` on has been silent for longer than CTL_EVICT_MS, number 0 for longest. */
static void
age(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        server.clients[i]->active_ms -= CTL_EVICT_MS + 1000 - (int64_t)i;
    }
}

static void
the_longest_silent_client_makes_room(void)
{
    int fds[LIMIT_CTL_CLIENTS], fd;

    begin();
    for (size_t i = 0; i < LIMIT_CTL_CLIENTS; i++) {
        fds[i] = join();
    }
    say(fds[0], "later\n"); /* it has a running request: it stays, however old */
    say(fds[1], "sta");     /* half a line is none */
    age(LIMIT_CTL_CLIENTS);
    say(fds[2], "asked\n");
    fd = join();
    CU_ASSERT_EQUAL(server.evicted, 1);
    CU_ASSERT_EQUAL(server.refused, 0);
    hear(fds[1]);
    CU_ASSERT_STRING_EQUAL(text, "{\"version\":1,\"ok\":false,\"error\":\"too many management clients\"}\n");
    say(fd, "in\n");
    hear(fd);
    CU_ASSERT_STRING_EQUAL(text, "<in>\n");
    for (size_t i = 3; i < LIMIT_CTL_CLIENTS; i++) { /* all of the silent ones */
        CU_ASSERT(join_or(NULL) >= 0);
        CU_ASSERT_EQUAL(hear(fds[i]) > 0, true);
    }
    CU_ASSERT_EQUAL(hear(fds[0]), 0);
    CU_ASSERT_EQUAL(hear(fds[2]), 10 - 2);
    CU_ASSERT_EQUAL(join_or(NULL), -1); /* the rest is busy or new */
    CU_ASSERT_EQUAL(server.evicted, LIMIT_CTL_CLIENTS - 2);
    CU_ASSERT_EQUAL(server.refused, 1);
    end();
}

/* A connection of somebody who is neither root nor the owner. */
static int
join_as_stranger(void)
{
    uid_t self = geteuid();
    int ends[2];

    server.owner = self + 1;
    CU_ASSERT_EQUAL_FATAL(self == 0 ? seteuid(65534) : 0, 0); /* the kernel notes the uid of socketpair() */
    int made = socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends);
    CU_ASSERT_EQUAL_FATAL(self == 0 ? seteuid(0) : 0, 0);
    CU_ASSERT_EQUAL_FATAL(made, 0);
    bool taken = ctl_server_take(&server, ends[1]);
    server.owner = self;
    if (!taken) {
        close(ends[0]);
    }
    return taken ? ends[0] : -1;
}

static void
strangers_leave_places_for_root_and_the_owner(void)
{
    begin();
    for (int i = 0; i < LIMIT_CTL_CLIENTS - CTL_KEPT; i++) {
        CU_ASSERT(join_as_stranger() >= 0);
    }
    CU_ASSERT_EQUAL(join_as_stranger(), -1);
    for (int i = 0; i < CTL_KEPT; i++) {
        CU_ASSERT(join_or(NULL) >= 0);
    }
    CU_ASSERT_EQUAL(join_or(NULL), -1);
    for (int i = LIMIT_CTL_CLIENTS - CTL_KEPT; i < LIMIT_CTL_CLIENTS; i++) { /* the owner's, silent */
        server.clients[i]->active_ms -= 10 * CTL_EVICT_MS;
        server.clients[i]->uid = 0;
    }
    CU_ASSERT_EQUAL(join_as_stranger(), -1);
    CU_ASSERT_EQUAL(server.evicted, 0);
    CU_ASSERT(join_or(NULL) >= 0);
    CU_ASSERT_EQUAL(server.evicted, 1);
    end();
}

static void
silence_gives_the_place_back_but_waiting_does_not(void)
{
    begin();
    int silent = join(), waiting = join();
    say(waiting, "later\n");
    int64_t now_ms = MAX(server.clients[0]->active_ms, server.clients[1]->active_ms);
    ctl_server_tick(&server, now_ms + CTL_IDLE_MS - 100);
    CU_ASSERT_EQUAL(ctl_server_clients(&server), 2);
    ctl_server_tick(&server, now_ms + CTL_IDLE_MS);
    CU_ASSERT_EQUAL(ctl_server_clients(&server), 1);
    CU_ASSERT_EQUAL(hear(silent), -1);
    close(silent);
    close(waiting);
    end();
}

static void
peers_are_known_by_the_kernel(void)
{
    begin();
    int fd = join();
    CU_ASSERT_EQUAL(server.clients[0]->uid, geteuid());
    CU_ASSERT_EQUAL(server.clients[0]->pid, getpid());
    close(fd);
    end();
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("ctl_server", NULL, NULL);
    CU_ADD_TEST(suite, lines_are_answered_in_order_however_they_are_cut);
    CU_ADD_TEST(suite, more_lines_than_a_turn_takes_are_all_answered);
    CU_ADD_TEST(suite, a_line_may_be_exactly_as_long_as_its_limit);
    CU_ADD_TEST(suite, a_line_of_100_mb_is_refused_and_dropped);
    CU_ADD_TEST(suite, half_a_line_asks_nothing);
    CU_ADD_TEST(suite, any_bytes_are_a_line);
    CU_ADD_TEST(suite, a_client_that_does_not_read_is_not_read_and_later_closed);
    CU_ADD_TEST(suite, a_client_that_reads_again_gets_everything);
    CU_ADD_TEST(suite, an_answer_may_be_exactly_as_long_as_its_limit);
    CU_ADD_TEST(suite, places_are_limited_and_come_back);
    CU_ADD_TEST(suite, later_answers_keep_the_order);
    CU_ADD_TEST(suite, a_client_that_left_gets_no_later_answer);
    CU_ADD_TEST(suite, a_line_must_be_finished_in_time_however_it_trickles);
    CU_ADD_TEST(suite, the_longest_silent_client_makes_room);
    CU_ADD_TEST(suite, strangers_leave_places_for_root_and_the_owner);
    CU_ADD_TEST(suite, silence_gives_the_place_back_but_waiting_does_not);
    CU_ADD_TEST(suite, peers_are_known_by_the_kernel);
    CU_basic_set_mode(CU_BRM_NORMAL);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
