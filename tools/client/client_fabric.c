/* client_fabric.c - a transport over the fabric: attach through a control connection, resume through another one. */
#include "config/sync.h"
#include "tools/client/client.h"
#include "tools/client/fabric_end.h"
#include "tools/client/transport.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define RETRY_MS 20 /* between two control connections that failed */

struct transport_fabric {
    struct transport base;
    struct client_options control; /* the same server, without fabric, on RESP2 */
    const char *port_name;         /* borrowed, as the options are */
    struct endpoint_config config;
    char node[NI_MAXHOST]; /* config's, when none was asked for */
    bool chooses_node;
    enum client_wire wire;
    struct fabric_end end;
    bool fresh; /* nothing was received since the last resume */
    int timeout_ms;
    bool spin;
};

static struct transport_fabric *
fabric_of(struct transport *transport)
{
    return CONTAINER_OF(transport, struct transport_fabric, base);
}

static uint64_t
now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* ---- the control connection ---- */

static bool
take_bytes(const struct value *value, void *out, size_t room, uint32_t *bytes)
{
    if (value->kind != VALUE_BULK || value->bytes.bytes > room) {
        return false;
    }
    memcpy(out, value->bytes.data, value->bytes.bytes);
    *bytes = (uint32_t)value->bytes.bytes;
    return true;
}

static bool
take_number(const struct value *value, uint64_t max, uint64_t *out)
{
    if (value->kind != VALUE_INTEGER || value->integer < 0 || (uint64_t)value->integer > max) {
        return false;
    }
    *out = (uint64_t)value->integer;
    return true;
}

/* One field of the answer. Fields this client does not know are left alone. False: not what it must be. */
static bool
take_field(struct fabric_attachment *out, uint32_t *seen, struct slice name, const struct value *value)
{
    uint64_t number;
    uint32_t bytes = 0;

    if (slice_equal(name, SLICE_LITERAL("address"))) {
        *seen |= 1;
        return take_bytes(value, out->address, sizeof(out->address), &out->address_bytes);
    }
    if (slice_equal(name, SLICE_LITERAL("secret"))) {
        *seen |= 2;
        return take_bytes(value, out->secret, sizeof(out->secret) - 1, &bytes);
    }
    const struct {
        const char *name;
        uint64_t max;
        uint32_t *small;
        uint64_t *big;
    } numbers[] = {
        { "wire_id", UINT32_MAX, &out->wire_id, NULL }, { "incarnation", UINT32_MAX, &out->incarnation, NULL },
        { "credit", UINT16_MAX, &out->credit, NULL },   { "frame_bytes", UINT16_MAX, &out->frame_bytes, NULL },
        { "session", INT64_MAX, NULL, &out->session },  { "lease_ms", UINT32_MAX, NULL, &out->lease_ms },
        { "taken", INT64_MAX, NULL, &out->taken },
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        if (!slice_equal(name, slice_text(numbers[i].name))) {
            continue;
        }
        *seen |= 4u << i;
        if (!take_number(value, numbers[i].max, &number)) {
            return false;
        }
        if (numbers[i].small != NULL) {
            *numbers[i].small = (uint32_t)number;
        } else {
            *numbers[i].big = number;
        }
    }
    return true;
}

#define ALL_FIELDS ((4u << 7) - 1)

/* The map that FABRIC ATTACH and RESUME answer, which on RESP2 is an array of names and values. */
static bool
read_attachment(const struct client_reply *reply, struct fabric_attachment *out)
{
    const struct value *whole = &reply->values[0];
    uint32_t seen = 0;

    *out = (struct fabric_attachment){ 0 };
    if ((whole->kind != VALUE_ARRAY && whole->kind != VALUE_MAP) || whole->count % 2 != 0) {
        return false;
    }
    for (uint32_t i = 0, at = 1; i < whole->count; i += 2) {
        const struct value *name = &reply->values[at], *value = &reply->values[name->after];
        if (name->kind != VALUE_BULK || !take_field(out, &seen, name->bytes, value)) {
            return false;
        }
        at = value->after;
    }
    return seen == ALL_FIELDS;
}

/* 0 with the answer; -ESTALE: the session is lost; -ECONNREFUSED: nobody there; -EPROTO: refused. `why` says it. */
static int
control_call(struct client *control, const struct slice *words, uint32_t count, struct client_reply *reply, char *why,
             size_t why_bytes)
{
    if (client_call(control, words, count, reply) != CLIENT_OK) {
        snprintf(why, why_bytes, "FABRIC: %s", client_why(control));
        return -ECONNREFUSED;
    }
    if (client_reply_is_error(reply)) {
        struct slice text = reply->values[0].bytes;
        bool lost = text.bytes >= 12 && memcmp(text.data, "SESSION_LOST", 12) == 0;
        snprintf(why, why_bytes, "FABRIC: %.*s", (int)MIN(text.bytes, 200), (const char *)text.data);
        return lost ? -ESTALE : -EPROTO;
    }
    return 0;
}

/* The same for what answers an attachment. */
static int
control_attach(struct client *control, const struct slice *words, uint32_t count, struct fabric_attachment *attachment,
               char *why, size_t why_bytes)
{
    struct client_reply reply;
    int rc = control_call(control, words, count, &reply, why, why_bytes);

    if (rc == 0 && !read_attachment(&reply, attachment)) {
        snprintf(why, why_bytes, "FABRIC: the server's answer is not what this client knows");
        rc = -EPROTO;
    }
    return rc;
}

/* The text of one field of a map of FABRIC PORTS; empty: it has no such field. */
static struct slice
field_of_port(const struct client_reply *reply, uint32_t map, const char *name)
{
    const struct value *values = reply->values;
    uint32_t end = values[map].after;

    for (uint32_t at = map + 1; at < end && values[at].after < end;) { /* a name without a value is nothing */
        const struct value *field = &values[at], *value = &values[field->after];
        if (field->kind == VALUE_BULK && value->kind == VALUE_BULK && slice_equal(field->bytes, slice_text(name))) {
            return value->bytes;
        }
        at = value->after;
    }
    return slice_of(NULL, 0);
}

/* An address of the port, which is found by the server's rule: by its name, else the first with that provider. Empty:
 * there is none, which ATTACH will say, or the server tells none. */
static struct slice
address_of_port(const struct client_reply *reply, struct slice name)
{
    struct slice address = slice_of(NULL, 0);

    for (uint32_t port = 1; port < reply->values[0].after; port = reply->values[port].after) {
        bool is_named = slice_equal(field_of_port(reply, port, "name"), name);
        if (is_named || (address.bytes == 0 && slice_equal(field_of_port(reply, port, "provider"), name))) {
            address = field_of_port(reply, port, "address");
        }
        if (is_named) {
            break;
        }
    }
    return address;
}

/* The address from which this machine reaches a socket address. False: `peer` is none, or there is no way. */
static bool
source_find(struct slice peer, char *node, size_t node_bytes)
{
    struct sockaddr_storage address = { 0 };
    socklen_t bytes = sizeof(address);
    sa_family_t family = peer.bytes == sizeof(struct sockaddr_in)    ? AF_INET
                         : peer.bytes == sizeof(struct sockaddr_in6) ? AF_INET6
                                                                     : AF_UNSPEC;

    if (family == AF_UNSPEC) {
        return false;
    }
    memcpy(&address, peer.data, peer.bytes);
    if (address.ss_family != family) {
        return false;
    }
    int fd = socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool found =
        fd >= 0 && connect(fd, (struct sockaddr *)&address, (socklen_t)peer.bytes) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &bytes) == 0 &&
        getnameinfo((struct sockaddr *)&address, bytes, node, (socklen_t)node_bytes, NULL, 0, NI_NUMERICHOST) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return found;
}

/* Without a node libfabric binds the fastest interface's first address, which may be of the other family, or lead
 * elsewhere: bind the one that leads to the port now. */
static int
choose_node(struct transport_fabric *fabric, struct client *control, char *why, size_t why_bytes)
{
    static const struct slice words[] = { SLICE_LITERAL("FABRIC"), SLICE_LITERAL("PORTS") };
    struct client_reply reply;

    if (!fabric->chooses_node) {
        return 0;
    }
    fabric->config.node = NULL;
    int rc = control_call(control, words, ARRAY_COUNT(words), &reply, why, why_bytes);
    if (rc == 0 && reply.values[0].kind == VALUE_ARRAY &&
        source_find(address_of_port(&reply, slice_text(fabric->port_name)), fabric->node, sizeof(fabric->node))) {
        fabric->config.node = fabric->node;
    }
    return rc == -EPROTO ? 0 : rc; /* who may not ask is told by ATTACH */
}

static struct slice
number_word(char *room, size_t room_bytes, uint64_t value)
{
    return slice_of(room, (size_t)snprintf(room, room_bytes, "%llu", (unsigned long long)value));
}

static int
attach(struct transport_fabric *fabric, struct client *control, char *why, size_t why_bytes)
{
    static const char *const wires[] = { "resp2", "resp3", "sbe" };
    char credit[24], frame[24];
    struct fabric_attachment attachment;
    const struct slice words[] = {
        SLICE_LITERAL("FABRIC"),
        SLICE_LITERAL("ATTACH"),
        slice_text(fabric->port_name),
        fabric_end_address(&fabric->end),
        slice_text(wires[fabric->wire]),
        SLICE_LITERAL("CREDIT"),
        number_word(credit, sizeof(credit), FABRIC_END_CREDIT),
        SLICE_LITERAL("FRAME"),
        number_word(frame, sizeof(frame), fabric->end.info.frame_bytes),
    };
    int rc = control_attach(control, words, ARRAY_COUNT(words), &attachment, why, why_bytes);
    if (rc != 0) {
        return rc;
    }
    rc = fabric_end_attach(&fabric->end, &attachment, now_us());
    if (rc != 0) {
        snprintf(why, why_bytes, "the address that the server answered cannot be used: %s", strerror(-rc));
    }
    return rc;
}

/* ---- loss ---- */

static int
resume(struct transport_fabric *fabric, struct client *control)
{
    struct fabric_end *end = &fabric->end;
    char id[24], taken[24], credit[24], frame[24], *why = fabric->base.why;
    struct fabric_attachment attachment;
    const struct slice words[] = {
        SLICE_LITERAL("FABRIC"),
        SLICE_LITERAL("RESUME"),
        number_word(id, sizeof(id), end->attachment.session),
        slice_text(end->attachment.secret),
        fabric_end_address(end),
        number_word(taken, sizeof(taken), fabric_end_received(end)),
        SLICE_LITERAL("CREDIT"),
        number_word(credit, sizeof(credit), FABRIC_END_CREDIT),
        SLICE_LITERAL("FRAME"),
        number_word(frame, sizeof(frame), end->info.frame_bytes),
    };
    int rc = control_attach(control, words, ARRAY_COUNT(words), &attachment, why, TRANSPORT_WHY_BYTES);
    if (rc == 0) {
        rc = fabric_end_resume(end, &attachment, now_us());
        if (rc != 0) {
            snprintf(why, TRANSPORT_WHY_BYTES, "the session cannot go on: %s", strerror(-rc));
        }
    }
    return rc;
}

/* Through one control connection. *reopen: first another endpoint; false once that is there. */
static int
resume_once(struct transport_fabric *fabric, bool *reopen)
{
    char *why = fabric->base.why;
    struct client *control = client_open(&fabric->control, why, TRANSPORT_WHY_BYTES);
    if (control == NULL) {
        return -ECONNREFUSED;
    }
    int rc = 0;
    if (*reopen) {
        rc = choose_node(fabric, control, why, TRANSPORT_WHY_BYTES);
        rc = rc != 0 ? rc : fabric_end_reopen(&fabric->end, &fabric->config, why, TRANSPORT_WHY_BYTES);
        *reopen = rc != 0;
    }
    if (rc == 0) {
        rc = resume(fabric, control);
    }
    client_close(control);
    return rc;
}

/* Blocks, at most timeout_ms: the caller sees a long call, or an error. */
static int
recover(struct transport_fabric *fabric)
{
    uint64_t deadline = fabric->timeout_ms < 0 ? UINT64_MAX : now_us() + (uint64_t)fabric->timeout_ms * 1000;
    char lost[sizeof(fabric->end.error)];

    snprintf(lost, sizeof(lost), "%s", fabric->end.error);
    bool reopen = fabric->fresh; /* lost again before a byte came: perhaps our endpoint no longer works */
    for (;;) {
        int rc = resume_once(fabric, &reopen);
        fabric->fresh = true;
        if (rc != -ECONNREFUSED) {
            return rc;
        }
        if (now_us() > deadline) {
            snprintf(fabric->base.why, sizeof(fabric->base.why), "%s, and no control connection in %d ms", lost,
                     fabric->timeout_ms);
            return -ETIMEDOUT;
        }
        struct timespec pause = { .tv_nsec = RETRY_MS * 1000000 };
        nanosleep(&pause, NULL);
    }
}

/* 0: bytes may go; -errno as the table of operations says. */
static int
usable(struct transport_fabric *fabric)
{
    if (LIKELY(fabric->end.state == FABRIC_END_UP)) {
        return 0;
    }
    if (fabric->end.state == FABRIC_END_LOST) {
        return recover(fabric);
    }
    snprintf(fabric->base.why, sizeof(fabric->base.why), "%s", fabric->end.error);
    return -ECONNRESET;
}

/* ---- the transport ---- */

static ssize_t
fabric_send(struct transport *transport, const void *data, size_t bytes)
{
    struct transport_fabric *fabric = fabric_of(transport);
    int rc = usable(fabric);

    if (rc != 0) {
        return rc;
    }
    return (ssize_t)fabric_end_write(&fabric->end, data, bytes, now_us());
}

static ssize_t
fabric_receive(struct transport *transport, void *data, size_t room)
{
    struct transport_fabric *fabric = fabric_of(transport);
    size_t got = fabric_end_read(&fabric->end, data, room, now_us());

    if (got > 0) {
        fabric->fresh = false;
        return (ssize_t)got;
    }
    return usable(fabric);
}

static void
fabric_wait(struct transport *transport, bool want_send, int timeout_ms)
{
    struct transport_fabric *fabric = fabric_of(transport);
    struct fabric_end *end = &fabric->end;
    uint64_t now = now_us(), deadline = timeout_ms < 0 ? UINT64_MAX : now + (uint64_t)timeout_ms * 1000;

    while (end->state == FABRIC_END_UP && !fabric_end_has_bytes(end) && !(want_send && fabric_end_room(end) > 0) &&
           now < deadline) {
        if (fabric->spin) {
            cpu_relax();
        } else {
            sched_yield();
        }
        now = now_us();
        fabric_end_progress(end, now);
    }
}

static int
fabric_fd(const struct transport *transport)
{
    return -1;
}

static void
fabric_describe(const struct transport *transport, char *text, size_t text_bytes)
{
    const struct transport_fabric *fabric = fabric_of((struct transport *)transport);
    const struct frame_config *config = &fabric->end.stream.config;
    snprintf(text, text_bytes, "fabric %s, frames of %u bytes", fabric->end.info.provider, config->frame_bytes);
}

static void
fabric_state(const struct transport *transport, char *text, size_t text_bytes)
{
    fabric_end_describe(&fabric_of((struct transport *)transport)->end, now_us(), text, text_bytes);
}

static void
fabric_close(struct transport *transport)
{
    struct transport_fabric *fabric = fabric_of(transport);
    fabric_end_close(&fabric->end);
    free(fabric);
}

static const struct transport_ops fabric_ops = {
    .send = fabric_send,
    .receive = fabric_receive,
    .wait = fabric_wait,
    .fd = fabric_fd,
    .describe = fabric_describe,
    .state = fabric_state,
    .close = fabric_close,
};

/* Through one control connection. */
static int
open_and_attach(struct transport_fabric *fabric, const struct endpoint_ops *ops, char *why, size_t why_bytes)
{
    struct client *control = client_open(&fabric->control, why, why_bytes);
    if (control == NULL) {
        return -ECONNREFUSED;
    }
    int rc = choose_node(fabric, control, why, why_bytes);
    if (rc == 0) {
        rc = fabric_end_open(&fabric->end, ops, &fabric->config, why, why_bytes);
    }
    if (rc == 0) {
        rc = attach(fabric, control, why, why_bytes);
    }
    client_close(control);
    return rc;
}

int
transport_fabric_open(const struct client_options *options, struct transport **out, char *why, size_t why_bytes)
{
    const struct client_fabric *asked = &options->fabric;
    const struct endpoint_ops *ops = endpoint_libfabric(why, why_bytes);

    static_assert((int)CLIENT_SEND_AUTO == ENDPOINT_SEND_AUTO && (int)CLIENT_SEND_INJECT == ENDPOINT_SEND_INJECT &&
                      (int)CLIENT_SEND_SEND == ENDPOINT_SEND_SEND,
                  "one is cast to the other");
    if (ops == NULL) {
        return -ENOENT;
    }
    struct transport_fabric *fabric = calloc(1, sizeof(*fabric));
    if (fabric == NULL) {
        snprintf(why, why_bytes, "no memory");
        return -ENOMEM;
    }
    fabric->base.ops = &fabric_ops;
    fabric->control = *options;
    fabric->control.fabric = (struct client_fabric){ 0 };
    fabric->control.wire = CLIENT_RESP2;
    fabric->wire = options->wire;
    fabric->timeout_ms = options->timeout_ms;
    fabric->spin = options->spin;
    fabric->port_name = asked->port_name != NULL ? asked->port_name : asked->provider;
    fabric->chooses_node = asked->node == NULL;
    fabric->config = (struct endpoint_config){
        .provider = asked->provider,
        .node = asked->node,
        .domain = asked->domain,
        .send = (enum endpoint_send)asked->send,
    };
    int rc = open_and_attach(fabric, ops, why, why_bytes);
    if (rc != 0) {
        fabric_close(&fabric->base);
        return rc;
    }
    *out = &fabric->base;
    return 0;
}
