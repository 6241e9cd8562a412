#include "test/fault_fabric.h"
#include <errno.h>

#define MESSAGES    4096 /* under way at once */
#define EVENTS_ROOM (4 * FAULT_SLOTS)
#define PEERS_ROOM  128
#define HISTORY     64 /* old messages kept to be repeated */
#define STORM_MAX   6  /* polls that end a storm */

struct message {
    struct endpoint *to;
    uint32_t from; /* id of the sender; 0: a stranger */
    uint32_t to_id;
    uint64_t due;
    uint32_t bytes;
    uint8_t data[FAULT_FRAME];
};

struct fault_completion {
    uint64_t due;
    struct endpoint_event event;
};

struct endpoint {
    struct fault_fabric *fabric;
    uint32_t id; /* never used twice in a fabric */
    bool dead, stopped, refuses;
    uint32_t storm; /* polls until sends are taken again */
    uint32_t rx_slots, tx_slots;
    bool posted[FAULT_SLOTS], sending[FAULT_SLOTS];
    uint32_t post_next;
    uint8_t rx[FAULT_SLOTS][FAULT_FRAME], tx[FAULT_SLOTS][FAULT_FRAME];
    uint32_t peers[PEERS_ROOM]; /* id of the endpoint by peer index; 0: free */
    struct endpoint_event events[EVENTS_ROOM];
    uint32_t event_head, event_count;
    struct fault_completion completions[FAULT_SLOTS];
    uint32_t completion_count;
};

struct fault_fabric {
    struct fault_config config;
    struct fault_stats stats;
    uint64_t random, step, digest;
    uint32_t ids;
    bool calm;
    struct endpoint *endpoints[FAULT_ENDPOINTS];
    struct message *messages;
    uint32_t message_count;
    struct message history[HISTORY];
    uint32_t history_count;
    fault_arrival_fn hook;
    void *hook_context;
};

static struct fault_fabric *joined; /* what open() joins: its arguments cannot say */

/* ---- chance ---- */

uint32_t
fault_fabric_random(struct fault_fabric *fabric, uint32_t below)
{
    uint64_t x = fabric->random += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    x ^= x >> 31;
    return below == 0 ? 0 : (uint32_t)((x >> 32) % below);
}

static bool
chance(struct fault_fabric *fabric, uint32_t in_1000)
{
    return fault_fabric_random(fabric, 1000) < in_1000 && !fabric->calm;
}

static void
note(struct fault_fabric *fabric, uint64_t what)
{
    fabric->digest = (fabric->digest ^ what) * 0x100000001b3ull;
}

/* ---- the fabric ---- */

struct fault_fabric *
fault_fabric_open(const struct fault_config *config, uint64_t seed)
{
    struct fault_fabric *fabric = calloc(1, sizeof(*fabric));
    CHECK(fabric != NULL && joined == NULL);
    fabric->config = *config;
    fabric->random = seed;
    fabric->digest = 0xcbf29ce484222325ull;
    fabric->messages = calloc(MESSAGES, sizeof(fabric->messages[0]));
    CHECK(fabric->messages != NULL);
    joined = fabric;
    return fabric;
}

void
fault_fabric_close(struct fault_fabric *fabric)
{
    for (uint32_t i = 0; i < FAULT_ENDPOINTS; i++) {
        CHECK(fabric->endpoints[i] == NULL);
    }
    free(fabric->messages);
    free(fabric);
    joined = NULL;
}

void
fault_fabric_calm(struct fault_fabric *fabric)
{
    fabric->calm = true;
}

const struct fault_stats *
fault_fabric_stats(const struct fault_fabric *fabric)
{
    return &fabric->stats;
}

uint64_t
fault_fabric_digest(const struct fault_fabric *fabric)
{
    return fabric->digest;
}

void
fault_fabric_on_arrival(struct fault_fabric *fabric, fault_arrival_fn hook, void *context)
{
    fabric->hook = hook;
    fabric->hook_context = context;
}

static struct endpoint *
endpoint_by_id(const struct fault_fabric *fabric, uint32_t id)
{
    for (uint32_t i = 0; i < FAULT_ENDPOINTS; i++) {
        if (fabric->endpoints[i] != NULL && fabric->endpoints[i]->id == id) {
            return fabric->endpoints[i];
        }
    }
    return NULL;
}

static void
put_on_way(struct fault_fabric *fabric, uint32_t from, struct endpoint *to, const void *data, uint32_t bytes)
{
    CHECK(fabric->message_count < MESSAGES && bytes <= FAULT_FRAME);
    struct message *message = &fabric->messages[fabric->message_count++];
    uint32_t wait = 1;
    if (chance(fabric, fabric->config.delay)) {
        wait += fault_fabric_random(fabric, fabric->config.delay_steps + 1);
    }
    *message = (struct message){ .to = to, .to_id = to->id, .from = from, .due = fabric->step + wait, .bytes = bytes };
    memcpy(message->data, data, bytes);
}

void
fault_fabric_forge(struct fault_fabric *fabric, const struct endpoint *from, const struct endpoint *to,
                   const void *message, uint32_t bytes)
{
    put_on_way(fabric, from != NULL ? from->id : 0, (struct endpoint *)to, message, bytes);
}

/* ---- arrival ---- */

static void
event_put(struct endpoint *endpoint, const struct endpoint_event *event)
{
    CHECK(endpoint->event_count < EVENTS_ROOM);
    endpoint->events[(endpoint->event_head + endpoint->event_count++) % EVENTS_ROOM] = *event;
}

static uint64_t
peer_of(const struct endpoint *at, uint32_t id)
{
    for (uint32_t i = 0; i < PEERS_ROOM && id != 0; i++) {
        if (at->peers[i] == id) {
            return i;
        }
    }
    return at->fabric->config.source_reliable ? ENDPOINT_PEER_UNKNOWN : 0;
}

/* Into the next posted slot. False: none is posted, the message waits. */
static bool
arrive(struct fault_fabric *fabric, struct message *message)
{
    struct endpoint *to = message->to;
    uint32_t tries = 0, slot;

    for (slot = to->post_next; tries < to->rx_slots && !to->posted[slot]; tries++) {
        slot = (slot + 1) % to->rx_slots;
    }
    if (tries == to->rx_slots) {
        fabric->stats.unposted++;
        return false;
    }
    to->post_next = (slot + 1) % to->rx_slots;
    to->posted[slot] = false;
    memset(to->rx[slot], 0xee, FAULT_FRAME); /* whatever was there before is not to be read */
    struct endpoint_event event = { .slot = slot, .peer = peer_of(to, message->from) };
    event.bytes = message->bytes;
    if (message->bytes > 1 && chance(fabric, fabric->config.truncate)) {
        fabric->stats.truncated++;
        event.bytes = 1 + fault_fabric_random(fabric, message->bytes - 1);
        event.kind = fault_fabric_random(fabric, 2) == 0 ? ENDPOINT_RECEIVE_FAILED : ENDPOINT_RECEIVED;
        event.error = event.kind == ENDPOINT_RECEIVE_FAILED ? EMSGSIZE : 0;
    }
    memcpy(to->rx[slot], message->data, event.bytes);
    if (fabric->hook != NULL) {
        fabric->hook(fabric->hook_context, to, to->rx[slot], event.bytes);
    }
    fabric->stats.delivered++;
    note(fabric, (uint64_t)to->id << 32 | event.bytes << 8 | slot);
    event_put(to, &event);
    return true;
}

static void
complete_due(struct endpoint *endpoint)
{
    for (uint32_t i = 0; i < endpoint->completion_count;) {
        struct fault_completion *completion = &endpoint->completions[i];
        struct endpoint *to = NULL;
        if (completion->event.kind == ENDPOINT_SENT) {
            to = endpoint_by_id(endpoint->fabric, (uint32_t)completion->event.bytes);
        }
        bool hangs = completion->event.kind == ENDPOINT_SENT &&
                     ((to == NULL || to->dead) ? endpoint->fabric->config.fail_to_dead_quietly : to->stopped);
        if (completion->due > endpoint->fabric->step || hangs) {
            i++;
            continue;
        }
        if (completion->event.kind == ENDPOINT_SENT && (to == NULL || to->dead)) {
            completion->event.kind = ENDPOINT_SEND_FAILED;
            completion->event.error = EHOSTUNREACH;
        }
        completion->event.bytes = 0;
        endpoint->sending[completion->event.slot] = false;
        event_put(endpoint, &completion->event);
        *completion = endpoint->completions[--endpoint->completion_count];
    }
}

void
fault_fabric_step(struct fault_fabric *fabric)
{
    fabric->step++;
    /* Which of the due messages comes first is chance too. */
    uint32_t start = fault_fabric_random(fabric, fabric->message_count);
    uint32_t count = fabric->message_count;
    for (uint32_t n = 0, i = start; n < count && i < fabric->message_count; n++) {
        struct message *message = &fabric->messages[i];
        bool gone = message->to == NULL || message->to->id != message->to_id || message->to->dead;
        bool done = gone || (message->due <= fabric->step && !message->to->stopped && arrive(fabric, message));
        if (done) {
            *message = fabric->messages[--fabric->message_count];
        } else {
            i++;
        }
        if (i >= fabric->message_count) {
            i = 0;
        }
    }
    for (uint32_t i = 0; i < FAULT_ENDPOINTS; i++) {
        if (fabric->endpoints[i] != NULL) {
            complete_due(fabric->endpoints[i]);
        }
    }
}

/* ---- mischief with a message just sent ---- */

static void
remember(struct fault_fabric *fabric, const struct message *message)
{
    fabric->history[fabric->history_count % HISTORY] = *message;
    fabric->history_count++;
}

static void
add_noise(struct fault_fabric *fabric, struct endpoint *to)
{
    uint8_t noise[FAULT_FRAME];

    if (chance(fabric, fabric->config.forge)) {
        uint32_t bytes = 1 + fault_fabric_random(fabric, FAULT_FRAME);
        for (uint32_t i = 0; i < bytes; i++) {
            noise[i] = (uint8_t)fault_fabric_random(fabric, 256);
        }
        if (fault_fabric_random(fabric, 2) == 0) {
            /* looks like an envelope, of a session nobody has */
            memcpy(noise, "SL\1\1", MIN(bytes, 4));
        }
        fabric->stats.forged++;
        put_on_way(fabric, 0, to, noise, bytes);
    }
    if (fabric->history_count > 0 && chance(fabric, fabric->config.replay)) {
        const struct message *old = &fabric->history[fault_fabric_random(fabric, MIN(fabric->history_count, HISTORY))];
        struct endpoint *again = endpoint_by_id(fabric, old->to_id);
        if (again != NULL) {
            fabric->stats.replayed++;
            put_on_way(fabric, fault_fabric_random(fabric, 2) ? old->from : 0, again, old->data, old->bytes);
        }
    }
}

/* False: the provider says again. *lost: the message vanished. */
static bool
take_message(struct endpoint *from, uint64_t peer, const void *data, uint32_t bytes, bool *lost)
{
    struct fault_fabric *fabric = from->fabric;
    CHECK(peer < PEERS_ROOM && from->peers[peer] != 0 && bytes > 0 && bytes <= FAULT_FRAME);

    if (from->storm == 0 && chance(fabric, fabric->config.storm)) {
        from->storm = 1 + fault_fabric_random(fabric, STORM_MAX);
    }
    if (from->storm > 0 || from->refuses || fabric->message_count + 8 > MESSAGES) {
        fabric->stats.agains++;
        return false;
    }
    struct endpoint *to = endpoint_by_id(fabric, from->peers[peer]);
    fabric->stats.sent++;
    note(fabric, (uint64_t)from->id << 48 | bytes);
    *lost = to == NULL || to->dead || from->dead;
    if (*lost) {
        fabric->stats.to_dead++;
        return true;
    }
    *lost = chance(fabric, fabric->config.drop);
    if (*lost) {
        fabric->stats.dropped++;
    } else {
        put_on_way(fabric, from->id, to, data, bytes);
        remember(fabric, &fabric->messages[fabric->message_count - 1]);
        if (chance(fabric, fabric->config.duplicate)) {
            fabric->stats.duplicated++;
            put_on_way(fabric, from->id, to, data, bytes);
        }
    }
    add_noise(fabric, to);
    return true;
}

/* ---- the table of operations ---- */

static int
fault_open(const struct endpoint_config *config, struct endpoint **out, char *why, size_t why_bytes)
{
    uint32_t place = 0;
    while (place < FAULT_ENDPOINTS && joined->endpoints[place] != NULL) {
        place++;
    }
    CHECK(place < FAULT_ENDPOINTS);
    if (config->rx_slots > FAULT_SLOTS || config->tx_slots > FAULT_SLOTS) {
        snprintf(why, why_bytes, "the fault fabric has %d slots", FAULT_SLOTS);
        return -EINVAL;
    }
    struct endpoint *endpoint = calloc(1, sizeof(*endpoint));
    CHECK(endpoint != NULL);
    endpoint->fabric = joined;
    endpoint->id = ++joined->ids;
    endpoint->rx_slots = config->rx_slots != 0 ? config->rx_slots : FAULT_SLOTS;
    endpoint->tx_slots = config->tx_slots != 0 ? config->tx_slots : FAULT_SLOTS;
    uint32_t posted = config->rx_post != 0 ? MIN(config->rx_post, endpoint->rx_slots) : endpoint->rx_slots;
    for (uint32_t i = 0; i < posted; i++) {
        endpoint->posted[i] = true;
    }
    joined->endpoints[place] = endpoint;
    *out = endpoint;
    return 0;
}

static void
fault_close(struct endpoint *endpoint)
{
    struct fault_fabric *fabric = endpoint->fabric;

    for (uint32_t i = 0; i < fabric->message_count; i++) {
        if (fabric->messages[i].to == endpoint) {
            fabric->messages[i].to = NULL;
        }
    }
    for (uint32_t i = 0; i < FAULT_ENDPOINTS; i++) {
        if (fabric->endpoints[i] == endpoint) {
            fabric->endpoints[i] = NULL;
        }
    }
    free(endpoint);
}

static void
fault_info(const struct endpoint *endpoint, struct endpoint_info *out)
{
    *out = (struct endpoint_info){ .provider = "fault",
                                   .rx_slots = endpoint->rx_slots,
                                   .tx_slots = endpoint->tx_slots,
                                   .frame_bytes = FAULT_FRAME,
                                   .inject_bytes = endpoint->fabric->config.inject_bytes,
                                   .source_reliable = endpoint->fabric->config.source_reliable };
    out->address_bytes = (uint32_t)snprintf((char *)out->address, sizeof(out->address), "fault:%u", endpoint->id) + 1;
}

static int
fault_peer_insert(struct endpoint *endpoint, const uint8_t *address, size_t bytes, uint64_t *peer)
{
    unsigned id = 0;
    if (bytes < 8 || address[bytes - 1] != '\0' || sscanf((const char *)address, "fault:%u", &id) != 1 || id == 0) {
        return -EINVAL;
    }
    for (uint32_t i = 0; i < PEERS_ROOM; i++) {
        CHECK(endpoint->peers[i] != id); /* whoever inserts an address twice cannot remove it once */
    }
    for (uint32_t i = 0; i < PEERS_ROOM; i++) {
        if (endpoint->peers[i] == 0) {
            endpoint->peers[i] = id;
            *peer = i;
            return 0;
        }
    }
    return -ENOSPC;
}

static void
fault_peer_remove(struct endpoint *endpoint, uint64_t peer)
{
    CHECK(peer < PEERS_ROOM && endpoint->peers[peer] != 0);
    endpoint->peers[peer] = 0; /* the index goes to the next one */
}

static uint8_t *
fault_rx_slot(struct endpoint *endpoint, uint32_t slot)
{
    return endpoint->rx[slot];
}

static uint8_t *
fault_tx_slot(struct endpoint *endpoint, uint32_t slot)
{
    CHECK(!endpoint->sending[slot]);
    return endpoint->tx[slot];
}

static enum endpoint_status
fault_post(struct endpoint *endpoint, uint32_t slot)
{
    CHECK(slot < endpoint->rx_slots && !endpoint->posted[slot]);
    if (chance(endpoint->fabric, endpoint->fabric->config.storm)) {
        return ENDPOINT_AGAIN;
    }
    memset(endpoint->rx[slot], 0xdd, FAULT_FRAME); /* whoever still reads it is caught */
    endpoint->posted[slot] = true;
    return ENDPOINT_OK;
}

static enum endpoint_status
fault_send(struct endpoint *endpoint, uint64_t peer, uint32_t slot, uint32_t bytes)
{
    bool lost;
    CHECK(slot < endpoint->tx_slots && !endpoint->sending[slot]);
    if (!take_message(endpoint, peer, endpoint->tx[slot], bytes, &lost)) {
        return ENDPOINT_AGAIN;
    }
    struct fault_completion *completion = &endpoint->completions[endpoint->completion_count++];
    endpoint->sending[slot] = true;
    *completion = (struct fault_completion){ .due = endpoint->fabric->step + 1 };
    if (chance(endpoint->fabric, endpoint->fabric->config.delay)) {
        completion->due += fault_fabric_random(endpoint->fabric, endpoint->fabric->config.delay_steps + 1);
    }
    completion->event = (struct endpoint_event){ .kind = ENDPOINT_SENT, .slot = slot, .peer = peer };
    completion->event.bytes = endpoint->peers[peer]; /* whom it waits for, until it completes */
    struct endpoint *to = endpoint_by_id(endpoint->fabric, endpoint->peers[peer]);
    if (lost && to != NULL && !to->dead) {
        completion->event.kind = ENDPOINT_SEND_FAILED;
        completion->event.error = ECONNRESET;
    }
    return ENDPOINT_OK;
}

static enum endpoint_status
fault_inject(struct endpoint *endpoint, uint64_t peer, const void *data, uint32_t bytes)
{
    bool lost;
    CHECK(bytes <= endpoint->fabric->config.inject_bytes);
    return take_message(endpoint, peer, data, bytes, &lost) ? ENDPOINT_OK : ENDPOINT_AGAIN;
}

static uint32_t
fault_poll(struct endpoint *endpoint, struct endpoint_event *events, uint32_t max)
{
    uint32_t count = 0;

    if (endpoint->storm > 0) {
        endpoint->storm--;
    }
    if (chance(endpoint->fabric, endpoint->fabric->config.delay)) {
        max = MIN(max, 1); /* the rest is there for whoever polls again */
    }
    while (count < max && endpoint->event_count > 0) {
        events[count++] = endpoint->events[endpoint->event_head];
        endpoint->event_head = (endpoint->event_head + 1) % EVENTS_ROOM;
        endpoint->event_count--;
    }
    return count;
}

const struct endpoint_ops fault_fabric_ops = {
    .open = fault_open,
    .close = fault_close,
    .info = fault_info,
    .peer_insert = fault_peer_insert,
    .peer_remove = fault_peer_remove,
    .rx_slot = fault_rx_slot,
    .tx_slot = fault_tx_slot,
    .post = fault_post,
    .send = fault_send,
    .inject = fault_inject,
    .poll = fault_poll,
};

/* ---- for tests ---- */

void
fault_endpoint_kill(struct endpoint *endpoint)
{
    endpoint->dead = true;
}

void
fault_endpoint_stop(struct endpoint *endpoint, bool stopped)
{
    endpoint->stopped = stopped;
}

void
fault_endpoint_refuse(struct endpoint *endpoint, bool refuses)
{
    endpoint->refuses = refuses;
}

void
fault_endpoint_fail_sends(struct endpoint *endpoint, int error)
{
    for (uint32_t i = 0; i < endpoint->completion_count; i++) {
        endpoint->completions[i].due = 0;
        endpoint->completions[i].event.kind = ENDPOINT_SEND_FAILED;
        endpoint->completions[i].event.error = error;
    }
}

uint32_t
fault_endpoint_unposted(const struct endpoint *endpoint)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < endpoint->rx_slots; i++) {
        count += !endpoint->posted[i];
    }
    return count;
}

uint32_t
fault_endpoint_in_flight(const struct endpoint *endpoint)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < endpoint->tx_slots; i++) {
        count += endpoint->sending[i];
    }
    return count;
}

uint32_t
fault_endpoint_peers(const struct endpoint *endpoint)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < PEERS_ROOM; i++) {
        count += endpoint->peers[i] != 0;
    }
    return count;
}
