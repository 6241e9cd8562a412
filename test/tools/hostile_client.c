/* hostile_client.c - clients for test/external: one that is killed, one that works beside it, one that moves values of
 * every size, one that comes and goes, one that does not read.
 *
 *     hostile_client MODE SERVER WIRE PROVIDER [ARGUMENT...]
 *
 * SERVER: path of its Unix socket, or its TCP port on loopback. PROVIDER "-": no fabric.
 *
 *     work SEED       requests of all sizes, some answers read, until it is killed; says "working"
 *     steady          INCR steady:PID, one after the other, every answer checked, until stdin ends; says "steady", then
 *                     a line of JSON
 *     sizes N...      SET and GET of values of so many bytes, one at a time and then all in flight; GET of "other:N"
 *     burst COUNT BYTES  COUNT times INCR burst:PID and ECHO of BYTES; says "sent" once no more is taken, waits for a
 *                     line on stdin, then reads until the session ends; says how many whole pairs came
 *
 * Exit code 0: everything was as it must be. */
#include "config/limits.h"
#include "tools/client/client.h"
#include <poll.h>
#include <time.h>
#include <unistd.h>

#define CALL_MS    60000 /* a busy machine is no failure: the tests say what a stall is */
#define VALUE_MAX  LIMIT_VALUE_BYTES
#define SIZES_MAX  4096
#define WORK_KEYS  50
#define WORK_VALUE 100000

static uint8_t value_room[VALUE_MAX];

static int
fail(const char *what, const char *why)
{
    fprintf(stderr, "hostile_client: %s: %s\n", what, why);
    return 1;
}

static int
fail_reply(const char *what, const struct client *client, enum client_status status, const struct client_reply *reply)
{
    if (status != CLIENT_OK) {
        return fail(what, status == CLIENT_TIMEOUT ? "no answer in time" : client_why(client));
    }
    struct slice text = reply->values[0].bytes;
    fprintf(stderr, "hostile_client: %s: an answer of kind %d, %zu bytes: %.*s\n", what, (int)reply->values[0].kind,
            text.bytes, (int)MIN(text.bytes, 100), text.bytes > 0 ? (const char *)text.data : "");
    return 1;
}

static struct client *
client_of(char **words)
{
    struct client_options options;
    char why[CLIENT_WHY_BYTES];

    client_options_init(&options);
    if (words[0][0] == '/') {
        options.path = words[0];
    } else {
        options.port = (uint16_t)strtoul(words[0], NULL, 10);
    }
    options.wire = strcmp(words[1], "sbe") == 0     ? CLIENT_SBE
                   : strcmp(words[1], "resp3") == 0 ? CLIENT_RESP3
                                                    : CLIENT_RESP2;
    options.fabric.provider = strcmp(words[2], "-") == 0 ? NULL : words[2];
    options.timeout_ms = CALL_MS;
    options.in_flight_max = 1u << 20;
    struct client *client = client_open(&options, why, sizeof(why));
    if (client == NULL) {
        fail("open", why);
    }
    return client;
}

static void
say(const char *word)
{
    printf("%s\n", word);
    fflush(stdout);
}

static uint64_t
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* True when there is something to read on stdin, or its end. */
static bool
stdin_speaks(void)
{
    struct pollfd input = { .fd = 0, .events = POLLIN };
    return poll(&input, 1, 0) > 0;
}

static struct slice
number_word(char *room, size_t room_bytes, const char *before, uint64_t number)
{
    return slice_of(room, (size_t)snprintf(room, room_bytes, "%s%llu", before, (unsigned long long)number));
}

/* ---- work ---- */

static uint64_t
random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static enum client_status
work_submit(struct client *client, uint64_t *seed)
{
    char key[32];
    uint64_t draw = random_next(seed);
    size_t bytes = draw >> 40 & 7 ? draw >> 20 & 255 : (draw >> 20) % WORK_VALUE;
    struct slice name = number_word(key, sizeof(key), "work:", draw % WORK_KEYS);
    const struct slice set[] = { SLICE_LITERAL("SET"), name, slice_of(value_room, bytes) };
    const struct slice get[] = { SLICE_LITERAL("GET"), name };
    const struct slice publish[] = { SLICE_LITERAL("PUBLISH"), SLICE_LITERAL("work"), slice_of(value_room, bytes) };

    switch (draw >> 50 & 3) {
    case 0:
        return client_submit(client, get, ARRAY_COUNT(get));
    case 1:
        return client_submit(client, publish, ARRAY_COUNT(publish));
    default:
        return client_submit(client, set, ARRAY_COUNT(set));
    }
}

static int
work(struct client *client, uint64_t seed)
{
    const struct slice subscribe[] = { SLICE_LITERAL("SUBSCRIBE"), SLICE_LITERAL("work") };
    struct client_reply reply;
    bool said = false;

    /* On RESP2 a subscriber may not do anything else. */
    if (seed % 4 == 0 && client_submit(client, subscribe, ARRAY_COUNT(subscribe)) != CLIENT_OK) {
        return fail("work", client_why(client));
    }
    seed = seed * 0x9e3779b97f4a7c15 + 1;
    for (;;) {
        enum client_status status = work_submit(client, &seed);
        if (status == CLIENT_BROKEN || status == CLIENT_INVALID) {
            return fail("work", client_why(client));
        }
        /* Half of the time nothing is read, until the way is stuffed. */
        bool stuffed = status == CLIENT_FULL || client_in_flight(client) > 500;
        while (stuffed ? client_in_flight(client) > 100 : (random_next(&seed) & 1) && client_in_flight(client) > 50) {
            status = client_collect(client, &reply, CALL_MS);
            if (status != CLIENT_OK) {
                return fail_reply("work", client, status, &reply);
            }
            if (!said) {
                say("working");
                said = true;
            }
        }
    }
}

/* ---- steady ---- */

static int
steady(struct client *client)
{
    const struct timespec pause = { .tv_nsec = 1000000 };
    char key[32];
    const struct slice words[] = { SLICE_LITERAL("INCR"),
                                   number_word(key, sizeof(key), "steady:", (uint64_t)getpid()) };
    struct client_reply reply;
    uint64_t longest = 0;
    int64_t count = 0;

    say("steady");
    while (!stdin_speaks()) {
        uint64_t begun = now_ns();
        enum client_status status = client_call(client, words, ARRAY_COUNT(words), &reply);
        longest = MAX(longest, now_ns() - begun);
        count++;
        if (status != CLIENT_OK || reply.values[0].kind != VALUE_INTEGER || reply.values[0].integer != count) {
            return fail_reply("steady", client, status, &reply);
        }
        nanosleep(&pause, NULL);
    }
    printf("{\"requests\":%lld,\"longest_ms\":%llu}\n", (long long)count, (unsigned long long)(longest / 1000000));
    return 0;
}

/* ---- sizes ---- */

/* Byte i of a value of so many bytes is (i + bytes + shift) % 251: no size of a buffer is a multiple of 251, so bytes
 * that moved, came twice or stayed away do not look right. */
static struct slice
value_make(size_t bytes, uint32_t shift)
{
    for (size_t i = 0; i < bytes; i++) {
        value_room[i] = (uint8_t)((i + bytes + shift) % 251);
    }
    return slice_of(value_room, bytes);
}

static bool
value_is(const struct client_reply *reply, size_t bytes, uint32_t shift)
{
    const struct value *value = &reply->values[0];
    if (value->kind != VALUE_BULK || value->bytes.bytes != bytes) {
        return false;
    }
    for (size_t i = 0; i < bytes; i++) {
        if (value->bytes.data[i] != (uint8_t)((i + bytes + shift) % 251)) {
            return false;
        }
    }
    return true;
}

static int
size_alone(struct client *client, size_t bytes)
{
    char name[32], other_name[32], what[64];
    struct slice key = number_word(name, sizeof(name), "v:", bytes);
    const struct slice set[] = { SLICE_LITERAL("SET"), key, value_make(bytes, 0) };
    const struct slice get[] = { SLICE_LITERAL("GET"), key };
    const struct slice other[] = { SLICE_LITERAL("GET"), number_word(other_name, sizeof(other_name), "other:", bytes) };
    struct client_reply reply;

    snprintf(what, sizeof(what), "SET of %zu bytes", bytes);
    enum client_status status = client_call(client, set, ARRAY_COUNT(set), &reply);
    if (status != CLIENT_OK || !client_reply_is_text(&reply, "OK")) {
        return fail_reply(what, client, status, &reply);
    }
    snprintf(what, sizeof(what), "GET of %zu bytes", bytes);
    status = client_call(client, get, ARRAY_COUNT(get), &reply);
    if (status != CLIENT_OK || !value_is(&reply, bytes, 0)) {
        return fail_reply(what, client, status, &reply);
    }
    snprintf(what, sizeof(what), "GET of another client's %zu bytes", bytes);
    status = client_call(client, other, ARRAY_COUNT(other), &reply);
    if (status != CLIENT_OK || !value_is(&reply, bytes, 1)) {
        return fail_reply(what, client, status, &reply);
    }
    return 0;
}

/* The answer to request number `at` of the pipeline: SET, GET, SET, GET ... */
static int
size_collect(struct client *client, const size_t *sizes, uint32_t at)
{
    struct client_reply reply;
    char what[64];
    size_t bytes = sizes[at / 2];
    enum client_status status = client_collect(client, &reply, CALL_MS);
    bool right = status == CLIENT_OK && (at % 2 == 0 ? client_reply_is_text(&reply, "OK") : value_is(&reply, bytes, 2));

    snprintf(what, sizeof(what), "%s of %zu bytes among others in flight", at % 2 == 0 ? "SET" : "GET", bytes);
    return right ? 0 : fail_reply(what, client, status, &reply);
}

static int
sizes_together(struct client *client, const size_t *sizes, uint32_t count)
{
    uint32_t asked = 0, answered = 0;

    while (answered < 2 * count) {
        enum client_status status = CLIENT_FULL;
        if (asked < 2 * count) {
            char name[32];
            size_t bytes = sizes[asked / 2];
            struct slice key = number_word(name, sizeof(name), "v:", bytes);
            const struct slice set[] = { SLICE_LITERAL("SET"), key, value_make(bytes, 2) };
            const struct slice get[] = { SLICE_LITERAL("GET"), key };
            status = asked % 2 == 0 ? client_submit(client, set, 3) : client_submit(client, get, 2);
        }
        if (status == CLIENT_OK) {
            asked++;
        } else if (status != CLIENT_FULL) {
            return fail("in flight", client_why(client));
        } else if (size_collect(client, sizes, answered++) != 0) {
            return 1;
        }
    }
    return 0;
}

static int
sizes(struct client *client, int count, char **words)
{
    static size_t wanted[SIZES_MAX];

    if (count > SIZES_MAX) {
        return fail("sizes", "too many");
    }
    for (int i = 0; i < count; i++) {
        wanted[i] = strtoul(words[i], NULL, 10);
        if (wanted[i] > VALUE_MAX) {
            return fail("sizes", "too large");
        }
        if (size_alone(client, wanted[i]) != 0) {
            return 1;
        }
    }
    return sizes_together(client, wanted, (uint32_t)count);
}

/* ---- burst ---- */

static int
burst(struct client *client, uint64_t count, size_t bytes)
{
    char key[32], line[16];
    const struct slice incr[] = { SLICE_LITERAL("INCR"), number_word(key, sizeof(key), "burst:", (uint64_t)getpid()) };
    const struct slice echo[] = { SLICE_LITERAL("ECHO"), value_make(bytes, 0) };
    struct client_reply reply;
    uint64_t asked = 0, pairs = 0;

    /* The way is open before: what is submitted then leaves at once, and nothing is polled until the line came. */
    const struct slice ping[] = { SLICE_LITERAL("PING") };
    if (client_call(client, ping, 1, &reply) != CLIENT_OK) {
        return fail("burst", client_why(client));
    }
    while (asked < count && client_submit(client, incr, 2) == CLIENT_OK) {
        if (client_submit(client, echo, 2) != CLIENT_OK) {
            break;
        }
        asked++;
    }
    if (client_flush(client) != CLIENT_OK) {
        return fail("burst", client_why(client));
    }
    say("sent");
    if (fgets(line, sizeof(line), stdin) == NULL) {
        return fail("burst", "nothing on stdin");
    }
    while (pairs < asked) {
        enum client_status status = client_collect(client, &reply, CALL_MS);
        if (status == CLIENT_BROKEN) {
            break;
        }
        if (status != CLIENT_OK || reply.values[0].kind != VALUE_INTEGER ||
            reply.values[0].integer != (int64_t)pairs + 1) {
            return fail_reply("burst: INCR", client, status, &reply);
        }
        status = client_collect(client, &reply, CALL_MS);
        if (status == CLIENT_BROKEN) {
            break;
        }
        if (status != CLIENT_OK || !value_is(&reply, bytes, 0)) {
            return fail_reply("burst: ECHO", client, status, &reply);
        }
        pairs++;
    }
    printf("{\"asked\":%llu,\"pairs\":%llu}\n", (unsigned long long)asked, (unsigned long long)pairs);
    return 0;
}

int
main(int argc, char **argv)
{
    int code = 2;

    if (argc < 5) {
        return fail("usage", "hostile_client work|steady|sizes|burst SERVER WIRE PROVIDER [ARGUMENT...]");
    }
    struct client *client = client_of(argv + 2);
    if (client == NULL) {
        return 1;
    }
    if (strcmp(argv[1], "work") == 0 && argc == 6) {
        code = work(client, strtoull(argv[5], NULL, 10));
    } else if (strcmp(argv[1], "steady") == 0 && argc == 5) {
        code = steady(client);
    } else if (strcmp(argv[1], "sizes") == 0) {
        code = sizes(client, argc - 5, argv + 5);
    } else if (strcmp(argv[1], "burst") == 0 && argc == 7) {
        code = burst(client, strtoull(argv[5], NULL, 10), MIN(strtoull(argv[6], NULL, 10), VALUE_MAX));
    } else {
        fail("usage", argv[1]);
    }
    client_close(client);
    return code;
}
