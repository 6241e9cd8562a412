/* attach_cycles.c - attaches to a fabric port again and again from one endpoint, as a program would that keeps its
 * endpoint: FABRIC ATTACH, one request over frames, its answer, good-bye, and the next.
 *
 *     attach_cycles SOCKET PROVIDER CYCLES
 *
 * Good-bye is said in turn by a DETACH frame, by FABRIC DETACH, and not at all but by killing the session with a frame
 * that says ERROR. Prints how many cycles it made. Exit code 0: each got its answer. */
#include "codec/envelope.h"
#include "dataplane/endpoint.h"
#include "tools/client/client.h"
#include <sched.h>
#include <time.h>

#define WAIT_NS   60000000000u
#define SLOTS     16
#define PEERS_MAX 64 /* one address for each lcore */

struct cycles {
    const struct endpoint_ops *ops;
    struct endpoint *endpoint;
    struct endpoint_info info;
    struct client *control;
    const char *port_name;
    struct {
        uint8_t address[ENDPOINT_ADDRESS_BYTES];
        size_t bytes;
        uint64_t peer;
    } peers[PEERS_MAX];
    uint32_t peer_count;
    uint32_t tx_free[SLOTS], tx_free_count;
};

struct attachment {
    uint32_t wire_id, incarnation;
    uint64_t session, peer;
    char secret[64];
};

static int
fail(const char *what, const char *why)
{
    fprintf(stderr, "attach_cycles: %s: %s\n", what, why);
    return 1;
}

static uint64_t
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- control ---- */

/* The value of a name in the map that FABRIC ATTACH answers, flat on RESP2. NULL: none. */
static const struct value *
field(const struct client_reply *reply, const char *name)
{
    for (uint32_t i = 1; i + 1 < reply->count; i += 2) {
        if (reply->values[i].kind == VALUE_BULK && slice_equal(reply->values[i].bytes, slice_text(name))) {
            return &reply->values[i + 1];
        }
    }
    return NULL;
}

static uint64_t
number_of(const struct client_reply *reply, const char *name)
{
    const struct value *value = field(reply, name);
    return value != NULL && value->kind == VALUE_INTEGER ? (uint64_t)value->integer : 0;
}

static int
peer_of(struct cycles *cycles, struct slice address, uint64_t *peer)
{
    for (uint32_t i = 0; i < cycles->peer_count; i++) {
        if (slice_equal(slice_of(cycles->peers[i].address, cycles->peers[i].bytes), address)) {
            *peer = cycles->peers[i].peer;
            return 0;
        }
    }
    if (cycles->peer_count == PEERS_MAX || address.bytes > ENDPOINT_ADDRESS_BYTES) {
        return fail("attach", "more addresses than lcores, or a long one");
    }
    uint32_t at = cycles->peer_count++;
    memcpy(cycles->peers[at].address, address.data, address.bytes);
    cycles->peers[at].bytes = address.bytes;
    if (cycles->ops->peer_insert(cycles->endpoint, address.data, address.bytes, &cycles->peers[at].peer) != 0) {
        return fail("attach", "the server's address cannot be inserted");
    }
    *peer = cycles->peers[at].peer;
    return 0;
}

static int
attach(struct cycles *cycles, struct attachment *out)
{
    const struct slice words[] = {
        SLICE_LITERAL("FABRIC"),
        SLICE_LITERAL("ATTACH"),
        slice_text(cycles->port_name),
        slice_of(cycles->info.address, cycles->info.address_bytes),
        SLICE_LITERAL("resp2"),
        SLICE_LITERAL("CREDIT"),
        SLICE_LITERAL("8"),
    };
    struct client_reply reply;

    if (client_call(cycles->control, words, ARRAY_COUNT(words), &reply) != CLIENT_OK) {
        return fail("attach", client_why(cycles->control));
    }
    const struct value *address = field(&reply, "address"), *secret = field(&reply, "secret");
    if (address == NULL || secret == NULL || secret->bytes.bytes >= sizeof(out->secret)) {
        fprintf(stderr, "attach_cycles: refused: %.*s\n", (int)reply.values[0].bytes.bytes,
                (const char *)reply.values[0].bytes.data);
        return 1;
    }
    *out = (struct attachment){
        .wire_id = (uint32_t)number_of(&reply, "wire_id"),
        .incarnation = (uint32_t)number_of(&reply, "incarnation"),
        .session = number_of(&reply, "session"),
    };
    memcpy(out->secret, secret->bytes.data, secret->bytes.bytes);
    return peer_of(cycles, address->bytes, &out->peer);
}

static int
detach_by_command(struct cycles *cycles, const struct attachment *attachment)
{
    char id[24];
    struct client_reply reply;

    snprintf(id, sizeof(id), "%llu", (unsigned long long)attachment->session);
    const char *words[] = { "FABRIC", "DETACH", id, attachment->secret };
    if (client_call_words(cycles->control, words, ARRAY_COUNT(words), &reply) != CLIENT_OK ||
        !client_reply_is_text(&reply, "OK")) {
        return fail("FABRIC DETACH", "not OK");
    }
    return 0;
}

/* ---- frames ---- */

/* One turn of the endpoint. True: an answer to `attachment` came; it is copied to `text`. */
static bool
turn(struct cycles *cycles, const struct attachment *attachment, char *text, size_t text_bytes)
{
    struct endpoint_event events[SLOTS];
    uint32_t count = cycles->ops->poll(cycles->endpoint, events, SLOTS);
    bool answered = false;

    for (uint32_t i = 0; i < count; i++) {
        struct envelope envelope;
        struct slice payload;
        if (events[i].kind == ENDPOINT_SENT || events[i].kind == ENDPOINT_SEND_FAILED) {
            cycles->tx_free[cycles->tx_free_count++] = events[i].slot;
            continue;
        }
        struct slice message = slice_of(cycles->ops->rx_slot(cycles->endpoint, events[i].slot), events[i].bytes);
        if (events[i].kind == ENDPOINT_RECEIVED && envelope_read(message, &envelope, &payload) == ENVELOPE_GOOD &&
            envelope.kind == ENVELOPE_DATA && envelope.wire_id == attachment->wire_id &&
            envelope.incarnation == attachment->incarnation && envelope.offset == 0) {
            snprintf(text, text_bytes, "%.*s", (int)payload.bytes, (const char *)payload.data);
            answered = true;
        }
        while (cycles->ops->post(cycles->endpoint, events[i].slot) == ENDPOINT_AGAIN) {
            sched_yield();
        }
    }
    return answered;
}

static int
send_frame(struct cycles *cycles, const struct attachment *attachment, enum envelope_kind kind, const char *text,
           uint64_t offset, uint64_t acknowledged)
{
    struct envelope envelope = {
        .kind = (uint8_t)kind,
        .payload_bytes = (uint16_t)strlen(text),
        .credit = 8,
        .wire_id = attachment->wire_id,
        .incarnation = attachment->incarnation,
        .offset = offset,
        .acknowledged = acknowledged,
    };
    uint64_t deadline = now_ns() + WAIT_NS;
    char ignored[16];

    while (cycles->tx_free_count > 0 && now_ns() < deadline) {
        uint32_t slot = cycles->tx_free[cycles->tx_free_count - 1];
        uint8_t *frame = cycles->ops->tx_slot(cycles->endpoint, slot);
        envelope_write(frame, &envelope);
        memcpy(frame + ENVELOPE_BYTES, text, envelope.payload_bytes);
        enum endpoint_status status =
            cycles->ops->send(cycles->endpoint, attachment->peer, slot, ENVELOPE_BYTES + envelope.payload_bytes);
        if (status == ENDPOINT_OK) {
            cycles->tx_free_count--;
            return 0;
        }
        if (status == ENDPOINT_FAILED) {
            return fail("send", "the server cannot be reached");
        }
        turn(cycles, attachment, ignored, sizeof(ignored));
    }
    return fail("send", "no slot came free");
}

static int
cycle(struct cycles *cycles, uint32_t number)
{
    static const char request[] = "*2\r\n$4\r\nPING\r\n$3\r\nyes\r\n", answer[] = "$3\r\nyes\r\n";
    struct attachment attachment;
    char text[64] = "";
    uint64_t deadline = now_ns() + WAIT_NS;

    if (attach(cycles, &attachment) != 0 || send_frame(cycles, &attachment, ENVELOPE_DATA, request, 0, 0) != 0) {
        return 1;
    }
    while (!turn(cycles, &attachment, text, sizeof(text))) {
        if (now_ns() > deadline) {
            return fail("answer", "none came");
        }
        sched_yield();
    }
    if (strcmp(text, answer) != 0) {
        return fail("answer", text);
    }
    if (number % 3 == 0) {
        return detach_by_command(cycles, &attachment);
    }
    return send_frame(cycles, &attachment, number % 3 == 1 ? ENVELOPE_DETACH : ENVELOPE_ERROR, "", strlen(request),
                      strlen(answer));
}

static int
cycles_open(struct cycles *cycles, const char *socket_path, const char *provider)
{
    struct endpoint_config config = { .provider = provider, .rx_slots = SLOTS, .tx_slots = SLOTS };
    struct client_options options;
    char why[CLIENT_WHY_BYTES];

    client_options_init(&options);
    options.path = socket_path;
    options.timeout_ms = WAIT_NS / 1000000;
    cycles->control = client_open(&options, why, sizeof(why));
    cycles->ops = endpoint_libfabric(why, sizeof(why));
    if (cycles->control == NULL || cycles->ops == NULL ||
        cycles->ops->open(&config, &cycles->endpoint, why, sizeof(why)) != 0) {
        return fail("open", why);
    }
    cycles->ops->info(cycles->endpoint, &cycles->info);
    cycles->port_name = provider;
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        cycles->tx_free[cycles->tx_free_count++] = slot;
    }
    return 0;
}

int
main(int argc, char **argv)
{
    struct cycles cycles = { 0 };
    uint32_t wanted = argc == 4 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0, made = 0;

    if (wanted == 0) {
        return fail("usage", "attach_cycles SOCKET PROVIDER CYCLES");
    }
    if (cycles_open(&cycles, argv[1], argv[2]) != 0) {
        return 1;
    }
    while (made < wanted && cycle(&cycles, made) == 0) {
        made++;
    }
    printf("%u\n", made);
    cycles.ops->close(cycles.endpoint);
    client_close(cycles.control);
    return made == wanted ? 0 : 1;
}
