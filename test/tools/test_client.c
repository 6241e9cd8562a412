/* test_client.c - libsluice against a scripted server on a Unix socket. */
#include "codec/reply.h"
#include "codec/sbe.h"
#include "tools/client/client.h"
#include <CUnit/Basic.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* The server reads until it has seen `expect`, then sends `answer` in pieces; after the last step it closes. */
struct step {
    const char *expect;
    const char *answer;
    size_t answer_bytes; /* 0: strlen */
    size_t piece;        /* bytes of one send, 0: all */
};

static char socket_path[64];
static int listener;
static const struct step *script;
static size_t script_steps;
static bool script_followed;
static bool hold_at_end; /* keep the connection until the client closes */

static bool
expect_read(int fd, const char *expect)
{
    size_t bytes = strlen(expect);
    char *got = malloc(bytes + 1);
    for (size_t at = 0; at < bytes;) {
        ssize_t now = recv(fd, got + at, bytes - at, 0);
        if (now <= 0) {
            free(got);
            return false;
        }
        at += (size_t)now;
    }
    bool same = memcmp(got, expect, bytes) == 0;
    free(got);
    return same;
}

static void *
server_main(void *argument)
{
    (void)argument;
    int fd = accept(listener, NULL, NULL);
    script_followed = true;
    for (size_t i = 0; script_followed && i < script_steps; i++) {
        const struct step *step = &script[i];
        script_followed = expect_read(fd, step->expect);
        size_t bytes = step->answer_bytes > 0 ? step->answer_bytes : strlen(step->answer);
        size_t piece = step->piece > 0 ? step->piece : bytes;
        for (size_t at = 0; script_followed && at < bytes; at += piece) {
            send(fd, step->answer + at, MIN(piece, bytes - at), MSG_NOSIGNAL);
            if (piece < bytes) {
                usleep(200);
            }
        }
    }
    char byte;
    while (hold_at_end && recv(fd, &byte, 1, 0) > 0) {
    }
    close(fd);
    return NULL;
}

static pthread_t server;

static void
server_start(const struct step *steps, size_t count, bool hold)
{
    script = steps;
    script_steps = count;
    hold_at_end = hold;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&server, NULL, server_main, NULL), 0);
}

static void
server_ended_well(void)
{
    pthread_join(server, NULL);
    CU_ASSERT(script_followed);
}

static struct client_options
options_make(enum client_wire wire)
{
    struct client_options options;
    client_options_init(&options);
    options.path = socket_path;
    options.wire = wire;
    return options;
}

static struct client *
client_start(const struct client_options *options)
{
    char why[CLIENT_WHY_BYTES] = "";
    struct client *client = client_open(options, why, sizeof(why));
    if (client == NULL) {
        printf("\n  %s", why);
    }
    CU_ASSERT_PTR_NOT_NULL_FATAL(client);
    return client;
}

#define PING "*1\r\n$4\r\nPING\r\n"
#define GETK "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"

static void
nobody_listening_is_said(void)
{
    struct client_options options = options_make(CLIENT_RESP2);
    char why[CLIENT_WHY_BYTES] = "";
    options.path = "/nonexistent/sluice.sock";
    CU_ASSERT_PTR_NULL(client_open(&options, why, sizeof(why)));
    CU_ASSERT_PTR_NOT_NULL(strstr(why, "/nonexistent/sluice.sock"));
    options.path =
        "/a/path/that/is/much/longer/than/the/hundred/and/seven/bytes/which/the/address/of/a/unix/socket/can/"
        "hold.sock";
    CU_ASSERT_PTR_NULL(client_open(&options, why, sizeof(why)));
    CU_ASSERT_PTR_NOT_NULL(strstr(why, "107 bytes"));
    options.path = NULL;
    options.host = "[::1";
    CU_ASSERT_PTR_NULL(client_open(&options, why, sizeof(why)));
    CU_ASSERT_PTR_NOT_NULL(strstr(why, "[::1"));
}

static void
a_refused_password_is_said(void)
{
    static const struct step steps[] = {
        { "*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$1\r\np\r\n", "-WRONGPASS no\r\n", 0, 0 },
    };
    struct client_options options = options_make(CLIENT_RESP2);
    char why[CLIENT_WHY_BYTES] = "";
    options.user = "u";
    options.password = "p";
    server_start(steps, 1, false);
    CU_ASSERT_PTR_NULL(client_open(&options, why, sizeof(why)));
    CU_ASSERT_STRING_EQUAL(why, "AUTH: WRONGPASS no");
    server_ended_well();
}

static void
a_closed_connection_breaks_the_client_for_good(void)
{
    static const struct step steps[] = { { PING, "+PO", 0, 0 } };
    struct client_options options = options_make(CLIENT_RESP2);
    struct client_reply reply;
    const char *words[] = { "PING" };
    server_start(steps, 1, false);
    struct client *client = client_start(&options);
    CU_ASSERT_EQUAL(client_call_words(client, words, 1, &reply), CLIENT_BROKEN);
    CU_ASSERT_STRING_EQUAL(client_why(client), "the server closed the connection");
    CU_ASSERT_EQUAL(client_call_words(client, words, 1, &reply), CLIENT_BROKEN);
    CU_ASSERT_EQUAL(client_collect(client, &reply, 0), CLIENT_BROKEN);
    client_close(client);
    server_ended_well();
}

static void
silence_ends_a_call_but_not_a_collect(void)
{
    static const struct step steps[] = { { PING, "", 0, 0 } };
    struct client_reply reply;
    const char *words[] = { "PING" };
    struct slice slices[] = { slice_text("PING") };
    for (int spin = 0; spin < 2; spin++) {
        struct client_options options = options_make(CLIENT_RESP2);
        options.timeout_ms = 50;
        options.spin = spin == 1;
        server_start(steps, 1, true);
        struct client *client = client_start(&options);
        CU_ASSERT_EQUAL(client_submit(client, slices, 1), CLIENT_OK);
        CU_ASSERT_EQUAL(client_collect(client, &reply, 0), CLIENT_TIMEOUT);
        CU_ASSERT_EQUAL(client_collect(client, &reply, 20), CLIENT_TIMEOUT);
        CU_ASSERT_EQUAL(client_in_flight(client), 1);
        CU_ASSERT_EQUAL(client_call_words(client, words, 1, &reply), CLIENT_BROKEN);
        CU_ASSERT_STRING_EQUAL(client_why(client), "no answer within 50 ms");
        client_close(client);
        server_ended_well();
    }
}

static void
a_reply_above_the_limit_breaks_the_client(void)
{
    static char big[300000];
    static struct step steps[] = { { GETK, big, 0, 0 } };
    struct client_options options = options_make(CLIENT_RESP2);
    struct client_reply reply;
    const char *words[] = { "GET", "k" };
    int head = sprintf(big, "$%d\r\n", 280000);
    memset(big + head, 'x', 280000);
    memcpy(big + head + 280000, "\r\n", 3);
    options.reply_bytes_max = 128 * 1024;
    server_start(steps, 1, true);
    struct client *client = client_start(&options);
    CU_ASSERT_EQUAL(client_call_words(client, words, 2, &reply), CLIENT_BROKEN);
    CU_ASSERT_PTR_NOT_NULL(strstr(client_why(client), "larger than 131072 bytes"));
    client_close(client);
    server_ended_well();

    options.reply_bytes_max = 512 * 1024;
    server_start(steps, 1, true);
    client = client_start(&options);
    CU_ASSERT_EQUAL(client_call_words(client, words, 2, &reply), CLIENT_OK);
    CU_ASSERT_EQUAL(reply.values[0].bytes.bytes, 280000);
    CU_ASSERT_EQUAL(reply.values[0].bytes.data[279999], 'x');
    client_close(client);
    server_ended_well();
}

static void
garbage_breaks_the_client(void)
{
    static const struct step steps[] = { { PING, "HTTP/1.1 400 Bad Request\r\n", 0, 0 } };
    struct client_options options = options_make(CLIENT_RESP2);
    struct client_reply reply;
    const char *words[] = { "PING" };
    server_start(steps, 1, true);
    struct client *client = client_start(&options);
    CU_ASSERT_EQUAL(client_call_words(client, words, 1, &reply), CLIENT_BROKEN);
    CU_ASSERT_PTR_NOT_NULL(strstr(client_why(client), "not RESP"));
    client_close(client);
    server_ended_well();
}

static void
what_cannot_be_sent_is_refused(void)
{
    struct client_options options = options_make(CLIENT_RESP2);
    struct client_reply reply;
    server_start(NULL, 0, true);
    struct client *client = client_start(&options);
    CU_ASSERT_EQUAL(client_call(client, NULL, 0, &reply), CLIENT_INVALID);
    CU_ASSERT_EQUAL(client_in_flight(client), 0);
    client_close(client);
    server_ended_well();
}

static void
in_flight_has_a_limit(void)
{
    static const struct step steps[] = { { PING PING, "+PONG\r\n+PONG\r\n", 0, 0 }, { PING, "+PONG\r\n", 0, 0 } };
    struct client_options options = options_make(CLIENT_RESP2);
    struct client_reply reply;
    struct slice words[] = { slice_text("PING") };
    options.in_flight_max = 2;
    server_start(steps, 2, true);
    struct client *client = client_start(&options);
    CU_ASSERT_EQUAL(client_submit(client, words, 1), CLIENT_OK);
    CU_ASSERT_EQUAL(client_submit(client, words, 1), CLIENT_OK);
    CU_ASSERT_EQUAL(client_submit(client, words, 1), CLIENT_FULL);
    CU_ASSERT_EQUAL(client_collect(client, &reply, 5000), CLIENT_OK);
    CU_ASSERT_EQUAL(client_submit(client, words, 1), CLIENT_OK);
    CU_ASSERT_EQUAL(client_collect(client, &reply, 5000), CLIENT_OK);
    CU_ASSERT_EQUAL(client_collect(client, &reply, 5000), CLIENT_OK);
    CU_ASSERT(client_reply_is_text(&reply, "PONG"));
    CU_ASSERT_EQUAL(client_in_flight(client), 0);
    client_close(client);
    server_ended_well();
}

static void
replies_come_in_pieces_and_in_order(void)
{
    static const struct step steps[] = {
        { GETK PING GETK, "$3\r\na\r\n\r\n+PONG\r\n*2\r\n:1\r\n*1\r\n$1\r\nz\r\n", 0, 1 },
    };
    struct client_options options = options_make(CLIENT_RESP2);
    struct client_reply reply;
    struct slice get[] = { slice_text("GET"), slice_text("k") }, ping[] = { slice_text("PING") };
    server_start(steps, 1, true);
    struct client *client = client_start(&options);
    client_submit(client, get, 2);
    client_submit(client, ping, 1);
    client_submit(client, get, 2);
    CU_ASSERT_EQUAL_FATAL(client_collect(client, &reply, 5000), CLIENT_OK);
    CU_ASSERT(client_reply_is_text(&reply, "a\r\n"));
    CU_ASSERT_EQUAL_FATAL(client_collect(client, &reply, 5000), CLIENT_OK);
    CU_ASSERT(client_reply_is_text(&reply, "PONG"));
    CU_ASSERT_EQUAL_FATAL(client_collect(client, &reply, 5000), CLIENT_OK);
    CU_ASSERT_EQUAL(client_reply_child(&reply, 0, 1), 2);
    CU_ASSERT_EQUAL(client_reply_child(&reply, 0, 2), UINT32_MAX);
    CU_ASSERT_EQUAL(client_reply_child(&reply, 1, 0), UINT32_MAX);
    CU_ASSERT_EQUAL(client_reply_child(&reply, 2, 0), 3);
    client_close(client);
    server_ended_well();
}

#define SUBSCRIBE  "*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n"
#define CONFIRM(t) t "3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
#define MESSAGE(t) t "3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n1\r\n"

/* Before a confirmation, and between a request and its answer. */
static void
pushes_wait_until_they_are_collected(void)
{
    static const struct step resp2[] = {
        { SUBSCRIBE, CONFIRM("*") MESSAGE("*"), 0, 0 },
        { PING, MESSAGE("*") "*2\r\n$4\r\npong\r\n$0\r\n\r\n" MESSAGE("*"), 0, 0 },
    };
    static const struct step resp3[] = {
        { "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n", "%0\r\n", 0, 0 },
        { SUBSCRIBE, MESSAGE(">") CONFIRM(">"), 0, 0 },
        { PING, MESSAGE(">") "+PONG\r\n" MESSAGE(">"), 0, 0 },
    };
    const char *subscribe[] = { "SUBSCRIBE", "c" }, *ping[] = { "PING" };
    for (int wire = CLIENT_RESP2; wire <= CLIENT_RESP3; wire++) {
        struct client_options options = options_make((enum client_wire)wire);
        struct client_reply reply;
        server_start(wire == CLIENT_RESP2 ? resp2 : resp3, wire == CLIENT_RESP2 ? 2 : 3, true);
        struct client *client = client_start(&options);
        CU_ASSERT_EQUAL_FATAL(client_call_words(client, subscribe, 2, &reply), CLIENT_OK);
        CU_ASSERT(reply.push && slice_equal(reply.values[1].bytes, slice_text("subscribe")));
        CU_ASSERT_EQUAL_FATAL(client_call_words(client, ping, 1, &reply), CLIENT_OK);
        CU_ASSERT_FALSE(reply.push);
        for (int i = 0; i < 3; i++) {
            CU_ASSERT_EQUAL_FATAL(client_collect(client, &reply, 5000), CLIENT_OK);
            CU_ASSERT(reply.push && slice_equal(reply.values[1].bytes, slice_text("message")));
            CU_ASSERT(slice_equal(reply.values[3].bytes, slice_text("1")));
        }
        CU_ASSERT_EQUAL(client_collect(client, &reply, 0), CLIENT_TIMEOUT);
        CU_ASSERT_EQUAL(client_in_flight(client), 0);
        client_close(client);
        server_ended_well();
    }
}

static void
an_array_that_begins_with_message_is_an_answer_without_subscription(void)
{
    static const struct step steps[] = { { GETK, MESSAGE("*"), 0, 0 } };
    struct client_options options = options_make(CLIENT_RESP2);
    struct client_reply reply;
    const char *words[] = { "GET", "k" };
    server_start(steps, 1, true);
    struct client *client = client_start(&options);
    CU_ASSERT_EQUAL(client_call_words(client, words, 2, &reply), CLIENT_OK);
    CU_ASSERT_FALSE(reply.push);
    client_close(client);
    server_ended_well();
}

/* More than the kernel buffers while the server does not read: FULL, never blocked, never unbounded. */
static void
a_server_that_does_not_read_makes_submit_say_full(void)
{
    static uint8_t value[100000];
    struct client_options options = options_make(CLIENT_RESP2);
    struct slice words[] = { slice_text("SET"), slice_text("k"), { value, sizeof(value) } };
    enum client_status status = CLIENT_OK;
    options.output_bytes_max = 1024 * 1024;
    server_start(&(struct step){ "never", "", 0, 0 }, 1, true);
    struct client *client = client_start(&options);
    uint32_t submitted = 0;
    while (status == CLIENT_OK && submitted < 1000) {
        status = client_submit(client, words, 3);
        submitted += status == CLIENT_OK;
    }
    CU_ASSERT_EQUAL(status, CLIENT_FULL);
    CU_ASSERT(submitted >= 10 && submitted < 100);
    client_close(client);
    pthread_join(server, NULL);
}

static bool
sink_is_full(struct sink *sink, size_t bytes)
{
    (void)sink;
    (void)bytes;
    return false;
}

static void
sbe_replies_become_the_same_values(void)
{
    static uint8_t answer[512];
    static const struct sink_ops ops = { .more = sink_is_full };
    struct sink sink = { .at = answer, .end = answer + sizeof(answer), .chunk = answer, .ops = &ops };
    struct reply server_reply;
    reply_init(&server_reply, WIRE_SBE, &sink);
    reply_begin(&server_reply, 1);
    reply_array(&server_reply, 3);
    reply_map(&server_reply, 1);
    reply_bulk_text(&server_reply, "k");
    reply_double(&server_reply, 2.5);
    reply_array(&server_reply, 0);
    reply_bool(&server_reply, true);
    reply_end(&server_reply);

    const struct step steps[] = {
        { SBE_STREAM_MAGIC, (const char *)answer, (size_t)(sink.at - answer), 3 },
    };
    struct client_options options = options_make(CLIENT_SBE);
    struct client_reply reply;
    const char *words[] = { "PING" };
    server_start(steps, 1, true);
    struct client *client = client_start(&options);
    CU_ASSERT_EQUAL_FATAL(client_call_words(client, words, 1, &reply), CLIENT_OK);
    CU_ASSERT_EQUAL_FATAL(reply.count, 6);
    CU_ASSERT(reply.values[0].kind == VALUE_ARRAY && reply.values[0].count == 3 && reply.values[0].after == 6);
    CU_ASSERT(reply.values[1].kind == VALUE_MAP && reply.values[1].count == 2 && reply.values[1].after == 4);
    CU_ASSERT(reply.values[2].kind == VALUE_BULK && slice_equal(reply.values[2].bytes, slice_text("k")));
    CU_ASSERT(reply.values[3].kind == VALUE_DOUBLE && reply.values[3].real == 2.5);
    CU_ASSERT(reply.values[4].kind == VALUE_ARRAY && reply.values[4].count == 0 && reply.values[4].after == 5);
    CU_ASSERT(reply.values[5].kind == VALUE_BOOL && reply.values[5].integer == 1);
    client_close(client);
    server_ended_well();
}

static int
listener_open(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(socket_path, sizeof(socket_path), "/tmp/sluice-test-client.%d", (int)getpid());
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", socket_path);
    unlink(socket_path);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
           listen(listener, 8) != 0;
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("client", NULL, NULL);
    CU_ADD_TEST(suite, nobody_listening_is_said);
    CU_ADD_TEST(suite, a_refused_password_is_said);
    CU_ADD_TEST(suite, a_closed_connection_breaks_the_client_for_good);
    CU_ADD_TEST(suite, silence_ends_a_call_but_not_a_collect);
    CU_ADD_TEST(suite, a_reply_above_the_limit_breaks_the_client);
    CU_ADD_TEST(suite, garbage_breaks_the_client);
    CU_ADD_TEST(suite, what_cannot_be_sent_is_refused);
    CU_ADD_TEST(suite, in_flight_has_a_limit);
    CU_ADD_TEST(suite, replies_come_in_pieces_and_in_order);
    CU_ADD_TEST(suite, pushes_wait_until_they_are_collected);
    CU_ADD_TEST(suite, an_array_that_begins_with_message_is_an_answer_without_subscription);
    CU_ADD_TEST(suite, a_server_that_does_not_read_makes_submit_say_full);
    CU_ADD_TEST(suite, sbe_replies_become_the_same_values);
    CHECK(listener_open() == 0);
    CU_basic_run_tests();
    unlink(socket_path);
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
