#include "test/dataplane/fabric_rig.h"
#include "dataplane/port_socket.h"
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#define ASK_TURNS    20000 /* 10 s: longer than any answer may take */
#define MANAGE_TURNS 64    /* the management core's work, every so many turns */

/* ---- clock ---- */

/* A clock that stands still but for what the test adds. */
static void
clock_set_ms(struct clock *clock, int64_t unix_ms)
{
    store_relaxed(&clock->ns_per_cycle_q32, 0);
    store_relaxed(&clock->base_ns, unix_ms * 1000000);
}

void
rig_turn(struct rig *rig)
{
    rig->now_us += RIG_STEP_US;
    clock_set_ms(&rig->dataplane->clock, 1700000000000 + (int64_t)(rig->now_us / 1000));
    if (rig->port != NULL) {
        fabric_port_of(rig->port)->now_base = rig->now_us;
        fault_fabric_step(rig->fabric);
    }
    lcore_turn(rig->lcore);
    if (++rig->turns % MANAGE_TURNS == 0) {
        store_manage(rig->dataplane->store);
    }
}

void
rig_turns(struct rig *rig, uint32_t turns)
{
    for (uint32_t i = 0; i < turns; i++) {
        rig_turn(rig);
    }
}

/* ---- start, stop ---- */

void
rig_start(struct rig *rig)
{
    static const char *const overrides[] = { "memory.reserve=256MiB",    "memory.limit=256MiB",
                                             "memory.ahead=32MiB",       "memory.huge_pages=false",
                                             "store.keys_expected=4096", "streams.address=" };
    char why[SETTINGS_WHY_BYTES];
    int fds[2];

    memset(rig, 0, sizeof(*rig));
    if (settings_load(NULL, overrides, ARRAY_COUNT(overrides), &rig->settings, why, sizeof(why)) != 0) {
        fprintf(stderr, "settings: %s\n", why);
        abort();
    }
    rig->settings.cpu_count = 1;
    if (dataplane_open(&rig->settings, &rig->dataplane, why, sizeof(why)) != 0) {
        fprintf(stderr, "data plane: %s\n", why);
        abort();
    }
    rig->dataplane->ns_per_cycle = 0; /* ports take their clock from here: it stands still */
    rig->lcore = rig->dataplane->lcores[0];
    rig->lcore->poll_pause_cycles = 0; /* every port in every turn, whatever the cycle counter says */
    CHECK(lcore_begin(rig->lcore) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    rig->control = fds[0];
    rig_turn(rig);
    port_socket_adopt(rig->lcore, fds[1], SOCKET_UNIX);
}

void
rig_stop(struct rig *rig)
{
    close(rig->control);
    for (uint32_t i = 0; i < ASK_TURNS && rig->lcore->session_count > 0; i++) {
        rig_turn(rig);
    }
    CHECK(rig->lcore->session_count == 0);
    lcore_end(rig->lcore);
    dataplane_close(rig->dataplane);
}

int
rig_open_port(struct rig *rig, const struct fault_config *config, uint64_t seed, char *why, size_t why_bytes)
{
    struct port_settings *settings = &rig->port_settings;
    struct port_settings wanted = *settings;

    *settings = (struct port_settings){ .type = PORT_FABRIC, .lease_ms = RIG_LEASE_MS };
    snprintf(settings->name, sizeof(settings->name), "fault");
    snprintf(settings->provider, sizeof(settings->provider), "fault");
    memcpy(settings->send, wanted.send, sizeof(settings->send));
    settings->rx_slots = wanted.rx_slots != 0 ? wanted.rx_slots : 128;
    settings->tx_slots = wanted.tx_slots != 0 ? wanted.tx_slots : 64;
    settings->sessions = wanted.sessions != 0 ? wanted.sessions : 8;
    rig->now_us = (rig->now_us / 1000000 + 1) * 1000000; /* ticks fall alike in every run */
    rig->turns = 0;
    rig->fabric = fault_fabric_open(config, seed);
    int rc = port_fabric_open_on(&fault_fabric_ops, rig->lcore, settings, &rig->port, why, why_bytes);
    if (rc != 0) {
        fault_fabric_close(rig->fabric);
        rig->fabric = NULL;
        rig->port = NULL;
        return rc;
    }
    struct fabric_port *port = fabric_port_of(rig->port);
    memset(port->random_key, (int)(seed & 0xff), sizeof(port->random_key)); /* the same ids in the same run */
    rig->port->index = rig->lcore->port_count;
    rig->lcore->ports[rig->lcore->port_count++] = rig->port;
    return 0;
}

struct fabric_port *
rig_port(struct rig *rig)
{
    return fabric_port_of(rig->port);
}

bool
rig_close_port(struct rig *rig)
{
    if (port_fabric_sessions(rig->port) > 0) {
        return false;
    }
    rig->lcore->port_count--;
    rig->port->ops->close(rig->port);
    rig->port = NULL;
    fault_fabric_close(rig->fabric);
    rig->fabric = NULL;
    memset(&rig->port_settings, 0, sizeof(rig->port_settings));
    return true;
}

/* ---- control ---- */

/* End of the reply that begins at `at`, or NULL: not all of it is there. RESP2, as FABRIC answers it. */
static const char *
value_end(const char *at, const char *stop, uint32_t depth)
{
    const char *line_end = at < stop ? memmem(at, (size_t)(stop - at), "\r\n", 2) : NULL;
    if (line_end == NULL || depth > 4) {
        return NULL;
    }
    const char *next = line_end + 2;
    if (*at == '$') {
        long bytes = atol(at + 1);
        next += bytes >= 0 ? bytes + 2 : 0;
    } else if (*at == '*') {
        for (long i = atol(at + 1); i > 0 && next != NULL; i--) {
            next = value_end(next, stop, depth + 1);
        }
    }
    return next != NULL && next <= stop ? next : NULL;
}

const char *
rig_ask(struct rig *rig, const char *const *words, struct slice address)
{
    char request[2048];
    size_t used = 0, count = 0;

    while (words[count] != NULL) {
        count++;
    }
    used += (size_t)snprintf(request, sizeof(request), "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++) {
        struct slice word = strcmp(words[i], "@") == 0 ? address : slice_text(words[i]);
        used += (size_t)snprintf(request + used, sizeof(request) - used, "$%zu\r\n", word.bytes);
        memcpy(request + used, word.data, word.bytes);
        used += word.bytes;
        memcpy(request + used, "\r\n", 2);
        used += 2;
    }
    CHECK(send(rig->control, request, used, MSG_NOSIGNAL) == (ssize_t)used);
    rig->reply_bytes = 0;
    for (uint32_t i = 0; i < ASK_TURNS; i++) {
        rig_turn(rig);
        ssize_t got = recv(rig->control, rig->reply + rig->reply_bytes, sizeof(rig->reply) - 1 - rig->reply_bytes, 0);
        rig->reply_bytes += got > 0 ? (size_t)got : 0;
        rig->reply[rig->reply_bytes] = '\0';
        if (value_end(rig->reply, rig->reply + rig->reply_bytes, 0) == rig->reply + rig->reply_bytes) {
            return rig->reply;
        }
    }
    fprintf(stderr, "no answer to %s %s\n", words[0], count > 1 ? words[1] : "");
    abort();
}

/* Behind the first CR LF from `at` on. */
static const char *
after_line(const char *at, const char *stop)
{
    const char *line_end = memmem(at, (size_t)(stop - at), "\r\n", 2);
    CHECK(line_end != NULL);
    return line_end + 2;
}

bool
rig_reply_field(const struct rig *rig, const char *name, struct slice *value)
{
    const char *stop = rig->reply + rig->reply_bytes;
    const char *at = rig->reply[0] == '*' ? after_line(rig->reply, stop) : stop;
    bool found = false;

    for (bool is_name = true; at < stop; is_name = !is_name) {
        const char *end = value_end(at, stop, 0);
        const char *text = *at == '$' ? after_line(at, stop) : at + 1;
        *value = slice_of(text, (size_t)(end - 2 - text));
        if (found) {
            return true;
        }
        found = is_name && slice_equal(*value, slice_text(name));
        at = end;
    }
    return false;
}

static uint64_t
number_field(const struct rig *rig, const char *name)
{
    struct slice value;
    CHECK(rig_reply_field(rig, name, &value));
    return strtoull((const char *)value.data, NULL, 10);
}

static bool
read_attachment(const struct rig *rig, struct fabric_attachment *out)
{
    struct slice value;

    if (rig->reply[0] != '*') {
        return false;
    }
    *out = (struct fabric_attachment){
        .wire_id = (uint32_t)number_field(rig, "wire_id"),
        .incarnation = (uint32_t)number_field(rig, "incarnation"),
        .credit = (uint32_t)number_field(rig, "credit"),
        .frame_bytes = (uint32_t)number_field(rig, "frame_bytes"),
        .session = number_field(rig, "session"),
        .lease_ms = number_field(rig, "lease_ms"),
        .taken = number_field(rig, "taken"),
    };
    CHECK(rig_reply_field(rig, "address", &value) && value.bytes <= sizeof(out->address));
    memcpy(out->address, value.data, value.bytes);
    out->address_bytes = (uint32_t)value.bytes;
    CHECK(rig_reply_field(rig, "secret", &value) && value.bytes == sizeof(out->secret) - 1);
    memcpy(out->secret, value.data, value.bytes);
    return true;
}

/* ---- clients ---- */

void
rig_end_open(struct rig *rig, struct fabric_end *end, enum endpoint_send send)
{
    char why[256];
    struct endpoint_config config = { .provider = "fault", .send = send };
    CHECK(fabric_end_open(end, &fault_fabric_ops, &config, why, sizeof(why)) == 0);
}

bool
rig_attach(struct rig *rig, struct fabric_end *end, const char *wire)
{
    const char *const words[] = { "FABRIC", "ATTACH", "fault", "@", wire, "CREDIT", "60", "FRAME", "512", NULL };
    struct fabric_attachment attachment;

    rig_ask(rig, words, fabric_end_address(end));
    if (!read_attachment(rig, &attachment)) {
        return false;
    }
    CHECK(fabric_end_attach(end, &attachment, rig->now_us) == 0);
    return true;
}

bool
rig_resume(struct rig *rig, struct fabric_end *end, uint64_t taken, struct fabric_attachment *attachment)
{
    char id[24], offset[24];
    const char *const words[] = { "FABRIC", "RESUME", id,  end->attachment.secret, "@", offset, "CREDIT", "60",
                                  "FRAME",  "512",    NULL };
    snprintf(id, sizeof(id), "%llu", (unsigned long long)end->attachment.session);
    snprintf(offset, sizeof(offset), "%llu", (unsigned long long)taken);
    rig_ask(rig, words, fabric_end_address(end));
    return read_attachment(rig, attachment);
}

struct fabric_session *
rig_session(struct rig *rig, const struct fabric_end *end)
{
    struct session *session = session_by_id(rig->lcore, end->attachment.session);
    return session != NULL ? fabric_session_of(session) : NULL;
}

/* ---- leaks ---- */

static bool
must_be(const char *what, uint64_t got, uint64_t want)
{
    if (got != want) {
        fprintf(stderr, "%s: %llu, not %llu\n", what, (unsigned long long)got, (unsigned long long)want);
    }
    return got == want;
}

bool
rig_port_is_clean(struct rig *rig)
{
    const struct fabric_port *port = rig_port(rig);
    uint32_t uses = 0, free_seats = 0, wires = 0;

    for (uint32_t i = 0; i < port->peer_count; i++) {
        uses += port->peers[i].uses;
    }
    for (const struct fabric_seat *seat = port->free_seats; seat != NULL; seat = seat->wire_next) {
        free_seats++;
    }
    for (uint32_t i = 0; i <= port->wires_mask; i++) {
        wires += port->wires[i] != NULL;
    }
    return must_be("sessions", port_fabric_sessions(rig->port), 0) &
           must_be("free seats", free_seats, port->seat_count) & must_be("wire ids", wires, 0) &
           must_be("uses of peers", uses, 0) & must_be("peers in the AV", fault_endpoint_peers(port->endpoint), 0) &
           must_be("free send slots", port->tx_free_count, port->info.tx_slots) &
           must_be("reserved send slots", port->tx_reserved, port->tx_share * port->seat_count) &
           must_be("overdue sends", port->overdue_in_flight, 0) &
           must_be("sends in flight", fault_endpoint_in_flight(port->endpoint), 0) &
           must_be("receive slots posted", port->info.rx_slots - fault_endpoint_unposted(port->endpoint),
                   port->rx_posted) &
           must_be("receive slots in all", port->rx_posted + port->rx_unposted_count, port->info.rx_slots) &
           must_be("enough receive slots posted", port->rx_posted >= FABRIC_SPARE_RX, true) &
           must_be("waiting sessions", port->waiting != NULL, 0) & must_be("events kept", port->stash_count, 0);
}
