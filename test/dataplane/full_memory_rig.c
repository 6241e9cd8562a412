#include "test/dataplane/full_memory_rig.h"
#include "test/dataplane/port_of_memory.h"
#include <CUnit/CUnit.h>

struct dataplane *dataplane;
struct lcore *lcore;
struct client clients[CLIENTS];
struct settings settings;
struct port port;

/* ---- memory that is full at the moment that a test wants ---- */

bool starving;
enum memory_refusal refusal = MEMORY_AT_LIMIT;
uint64_t reserve_takes;
void *__real_memory_take(struct memory_cache *cache, size_t bytes);
void *__wrap_memory_take(struct memory_cache *cache, size_t bytes);
void *__real_memory_take_reserve(struct memory_cache *cache, size_t bytes);
void *__wrap_memory_take_reserve(struct memory_cache *cache, size_t bytes);
enum memory_refusal __wrap_memory_refusal(const struct memory_cache *cache);

void *
__wrap_memory_take(struct memory_cache *cache, size_t bytes)
{
    return starving ? NULL : __real_memory_take(cache, bytes);
}

void *
__wrap_memory_take_reserve(struct memory_cache *cache, size_t bytes)
{
    reserve_takes++;
    return __real_memory_take_reserve(cache, bytes);
}

enum memory_refusal
__wrap_memory_refusal(const struct memory_cache *cache)
{
    return refusal;
}

/* ---- the rig ---- */

static struct client *
client_of(const struct session *session)
{
    for (uint32_t i = 0; i < CLIENTS; i++) {
        if (clients[i].session == session) {
            return &clients[i];
        }
    }
    return NULL;
}

static uint32_t
rig_flush(struct port *base)
{
    for (struct session *session = base->dirty, *next; session != NULL; session = next) {
        struct client *client = client_of(session);
        struct stream_out *out = &session->out;
        next = session->dirty_next;
        session_untouch_output(session);
        if (!client->blocked) {
            client->out_bytes += stream_out_copy(out, out->sent, (uint8_t *)client->out + client->out_bytes,
                                                 OUT_BYTES - client->out_bytes);
            stream_out_acknowledge(out, stream_out_end(out));
            session_output_shrank(session);
        }
    }
    return 0;
}

static void
rig_settle(struct port *base, struct session *session, void *slot)
{
    client_of(session)->slot_lent = false;
}

static void
rig_session_close(struct port *base, struct session *session)
{
    client_of(session)->session = NULL;
    free(session);
}

static const struct port_ops rig_ops = {
    .poll = port_nothing_comes,
    .flush = rig_flush,
    .settle = rig_settle,
    .session_close = rig_session_close,
    .tick = port_nothing_to_do,
    .wait_fd = port_no_wait_fd,
    .close = port_nothing_to_do,
};

void
turn(uint32_t turns)
{
    for (uint32_t i = 0; i < turns; i++) {
        lcore_turn(lcore);
        store_manage(dataplane->store);
    }
}

void
turn_for_ms(int64_t ms)
{
    for (int64_t begun_ms = lcore->now_ms; lcore->now_ms - begun_ms < ms;) {
        turn(TURNS);
    }
}

struct client *
client_open(bool blocked)
{
    struct client *client = client_of(NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(client);
    client->session = calloc(1, sizeof(*client->session));
    client->slot = client->slot != NULL ? client->slot : malloc(SLOT_BYTES);
    client->out = client->out != NULL ? client->out : malloc(OUT_BYTES);
    client->slot_lent = false;
    client->blocked = blocked;
    client->frames = false;
    client->out_bytes = 0;
    CU_ASSERT_TRUE_FATAL(session_open(client->session, lcore, &port));
    return client;
}

void
client_close(struct client *client)
{
    if (client->session != NULL) {
        session_kill(client->session);
        turn(2);
    }
    CU_ASSERT_PTR_NULL(client->session);
}

size_t
client_offer(struct client *client, const char *bytes, size_t count)
{
    size_t room;
    if (client->session == NULL || session_is_choked(client->session) || client->slot_lent) {
        return 0;
    }
    uint8_t *into = client->frames ? NULL : session_receive_room(client->session, &room);
    size_t piece = MIN(count, into != NULL ? room : (size_t)SLOT_BYTES);
    if (into != NULL) {
        memcpy(into, bytes, piece);
        if (piece > 0) {
            session_received(client->session, piece);
        }
        return piece;
    }
    memcpy(client->slot, bytes, piece);
    client->slot_lent = session_receive(client->session, client->slot, piece, client->slot);
    return client->slot_lent ? piece : 0;
}

bool
client_send(struct client *client, const char *bytes, size_t count)
{
    size_t sent = 0;
    for (uint32_t i = 0; i < 10000 && sent < count; i++) {
        sent += client_offer(client, bytes + sent, count - sent);
        turn(1);
    }
    turn(TURNS);
    return sent == count;
}

void
client_ask(struct client *client, const char *line)
{
    client->out_bytes = 0;
    CU_ASSERT_TRUE(client_send(client, line, strlen(line)));
}

bool
client_got(const struct client *client, const char *expected)
{
    return client->out_bytes == strlen(expected) && memcmp(client->out, expected, client->out_bytes) == 0;
}

bool
client_got_beginning(const struct client *client, const char *expected)
{
    return client->out_bytes >= strlen(expected) && memcmp(client->out, expected, strlen(expected)) == 0;
}

void
put(const char *before, size_t value_bytes)
{
    char *request = malloc(value_bytes + 256);
    int head = sprintf(request, "%s\r\n$%zu\r\n", before, value_bytes);
    memset(request + head, 'v', value_bytes);
    memcpy(request + head + value_bytes, "\r\n", 2);
    struct client *client = client_open(false);
    CU_ASSERT_TRUE(client_send(client, request, (size_t)head + value_bytes + 2));
    CU_ASSERT_TRUE(client->out_bytes > 0 && client->out[0] != '-');
    client_close(client);
    free(request);
}

void
put_string(char name, size_t value_bytes)
{
    char before[64];
    sprintf(before, "*3\r\n$3\r\nSET\r\n$1\r\n%c", name);
    put(before, value_bytes);
}

int
full_memory_open(void)
{
    const char *overrides[] = { "memory.reserve=256MiB", "memory.ahead=32MiB", "store.keys_expected=1024" };
    char why[SETTINGS_WHY_BYTES];
    if (settings_load(NULL, overrides, ARRAY_COUNT(overrides), &settings, why, sizeof(why)) != 0) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    settings.cpu_count = 1;
    if (dataplane_open(&settings, &dataplane, why, sizeof(why)) != 0) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    lcore = dataplane->lcores[0];
    if (lcore_begin(lcore) != 0) {
        return 1;
    }
    port = (struct port){ .ops = &rig_ops, .lcore = lcore, .index = lcore->port_count };
    lcore->ports[lcore->port_count++] = &port;
    return 0;
}

int
full_memory_close(void)
{
    lcore_end(lcore);
    dataplane_close(dataplane);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        free(clients[i].slot);
        free(clients[i].out);
    }
    return 0;
}
