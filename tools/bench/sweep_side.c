#include "tools/bench/sweep_side.h"
#include "config/cycles.h"
#include "config/sync.h"
#include "tools/bench/machine.h"
#include "tools/bench/sweep_memcached.h"
#include <pthread.h>
#include <semaphore.h>

#define DELETE_KEYS       64 /* in one request */
#define DELETE_TIMEOUT_MS 2000

/* Drives one rail but the first. */
struct sweep_driver {
    struct sweep_side *side;
    uint32_t rail;
    pthread_t thread;
    sem_t wake;
};

struct sweep_side {
    uint32_t index, rail_count;
    char label[BENCH_LABEL_BYTES + 16];
    struct sweep_transport transport;
    struct sweep_common common;
    const struct sweep_rail_lists *lists; /* NULL: all rails alike */
    struct client *control;               /* a stream on the same wire: learns forms, deletes keys */
    struct sweep_rail *rail;
    struct sweep_transfer transfer;
    uint64_t chunks_stored; /* most of any size */

    struct sweep_driver drivers[SWEEP_RAILS_MAX]; /* from 1 */
    uint32_t drivers_started;                     /* drivers[1 .. drivers_started] */
    bool stopping;                                /* written before sem_post(), read after sem_wait() */
    _Atomic uint32_t ready;                       /* drivers that spin; add: pairs with the acquire in transfer() */
    _Atomic uint32_t go;                          /* release: pairs with the acquire in driver_run() */
    _Atomic uint32_t done;                        /* likewise, as `ready` */
};

/* ---- where ---- */

bool
sweep_list_split(struct sweep_list *list, char *text)
{
    char *word;
    for (list->count = 0; (word = strsep(&text, ",")) != NULL; list->count++) {
        if (list->count == SWEEP_RAILS_MAX || *word == '\0') {
            return false;
        }
        list->words[list->count] = word;
    }
    return true;
}

bool
sweep_place_read(struct sweep_place *place, char *text)
{
    struct sweep_list list;
    place->name = strsep(&text, "=");
    if (*place->name == '\0' || text == NULL || !sweep_list_split(&list, text)) {
        fprintf(stderr, "sluice-bench: --at: expected NAME=ADDRESS, or NAME=ADDRESS,ADDRESS...\n");
        return false;
    }
    for (place->count = 0; place->count < list.count; place->count++) {
        struct client_options client = { .port = 6379 };
        if (!bench_address("--at", list.words[place->count], &client)) {
            return false;
        }
        place->addresses[place->count] = (struct sweep_address){ client.host, client.path, client.port };
    }
    return true;
}

static const char *
word_of(const struct sweep_list *list, uint32_t rail, const char *otherwise)
{
    return list->count == 0 ? otherwise : list->words[rail % list->count];
}

/* NULL: not said. */
static const struct sweep_address *
address_of(const struct sweep_places *places, const struct sweep_transport *transport, uint32_t rail)
{
    for (uint32_t i = 0; i < places->count; i++) {
        const struct sweep_place *place = &places->places[i];
        if (sweep_transport_is(transport, place->name)) {
            return &place->addresses[rail % place->count];
        }
    }
    return NULL;
}

static bool
is_peer(const struct sweep_side *side)
{
    return side->transport.carrier == SWEEP_PEER || side->transport.carrier == SWEEP_MEMCACHED;
}

/* Another server speaks RESP, and our password is none of its business. */
static void
peer_only(struct client_options *client)
{
    client->wire = client->wire == CLIENT_SBE ? CLIENT_RESP2 : client->wire;
    client->user = client->password = NULL;
}

/* How rail number `rail` reaches the server. False: `why`. */
static bool
connection_of(const struct sweep_side *side, uint32_t rail, struct bench_connection *out, char why[SWEEP_WHY_BYTES])
{
    enum sweep_carrier carrier = side->transport.carrier;
    const struct sweep_address *at = address_of(side->common.places, &side->transport, rail);
    struct client_options *client = &out->client;
    *out = *side->common.connection;
    out->ethernet = carrier == SWEEP_ETHERNET;
    client->fabric.provider = carrier == SWEEP_FABRIC ? sweep_provider(&side->transport) : NULL;
    if (side->lists != NULL) {
        client->fabric.domain = word_of(&side->lists->domains, rail, client->fabric.domain);
        client->fabric.node = word_of(&side->lists->nodes, rail, client->fabric.node);
        client->fabric.port_name = word_of(&side->lists->ports, rail, client->fabric.port_name);
    }
    if (at != NULL) {
        client->path = at->path;
        client->host = at->host;
        client->port = at->port;
    } else if (carrier == SWEEP_TCP || carrier == SWEEP_ETHERNET) {
        client->path = NULL;
    }
    if (is_peer(side)) {
        peer_only(client);
        return true;
    }
    if (carrier != SWEEP_FABRIC && (carrier == SWEEP_UNIX) != (client->path != NULL)) {
        snprintf(why, SWEEP_WHY_BYTES,
                 carrier == SWEEP_UNIX ? "its path is missing: -s PATH" : "its address is a path");
        return false;
    }
    return true;
}

/* ---- rails ---- */

static void *
driver_run(void *argument)
{
    struct sweep_driver *driver = argument;
    struct sweep_side *side = driver->side;
    for (;;) {
        while (sem_wait(&driver->wake) != 0) {
            ;
        }
        if (side->stopping) {
            return NULL;
        }
        uint32_t turn = load_relaxed(&side->go); /* changes only after all are ready */
        add_acq_rel(&side->ready, 1);
        while (load_acquire(&side->go) == turn) {
            sweep_relax(side->transfer.yield);
        }
        sweep_rail_run(&side->rail[driver->rail], &side->transfer, driver->rail);
        add_acq_rel(&side->done, 1);
    }
}

static bool
drivers_start(struct sweep_side *side, char why[SWEEP_WHY_BYTES])
{
    for (uint32_t i = 1; i < side->rail_count; i++) {
        struct sweep_driver *driver = &side->drivers[i];
        driver->side = side;
        driver->rail = i;
        sem_init(&driver->wake, 0, 0);
        int error = pthread_create(&driver->thread, NULL, driver_run, driver);
        if (error != 0) {
            sem_destroy(&driver->wake);
            snprintf(why, SWEEP_WHY_BYTES, "a thread for rail %u: %s", i, strerror(error));
            return false;
        }
        side->drivers_started = i;
    }
    return true;
}

static void
drivers_stop(struct sweep_side *side)
{
    side->stopping = true;
    for (uint32_t i = 1; i <= side->drivers_started; i++) {
        sem_post(&side->drivers[i].wake);
        pthread_join(side->drivers[i].thread, NULL);
        sem_destroy(&side->drivers[i].wake);
    }
}

struct sweep_side *
sweep_side_open(uint32_t index, const struct sweep_transport *transport, uint32_t rail_count,
                const struct sweep_rail_lists *lists, const struct sweep_common *common)
{
    struct bench_connection named = *common->connection;
    char label[BENCH_LABEL_BYTES];
    struct sweep_side *side = calloc(1, sizeof(*side));
    CHECK(side != NULL);
    side->rail = calloc(rail_count, sizeof(*side->rail));
    CHECK(side->rail != NULL);
    side->index = index;
    side->transport = *transport;
    side->rail_count = rail_count;
    side->lists = lists;
    side->common = *common;
    side->transfer.pattern = common->pattern;
    side->transfer.memcached = transport->carrier == SWEEP_MEMCACHED;

    named.ethernet = transport->carrier == SWEEP_ETHERNET;
    named.client.path = transport->carrier == SWEEP_UNIX ? "any" : NULL;
    named.client.fabric.provider = transport->carrier == SWEEP_FABRIC ? sweep_provider(transport) : NULL;
    if (is_peer(side)) {
        peer_only(&named.client);
    }
    bench_label(&named, label);
    snprintf(side->label, sizeof(side->label), "%s%s", transport->carrier == SWEEP_PEER ? "peer-" : "",
             side->transfer.memcached ? transport->name : label);
    if (rail_count > 1) {
        size_t used = strlen(side->label);
        snprintf(side->label + used, sizeof(side->label) - used, "-%urails", rail_count);
    }
    return side;
}

bool
sweep_side_connect(struct sweep_side *side, char why[SWEEP_WHY_BYTES])
{
    for (uint32_t i = 0; i < side->rail_count; i++) {
        struct bench_connection connection;
        if (!connection_of(side, i, &connection, why)) {
            return false;
        }
        if (i == 0) {
            struct client_options control = connection.client;
            control.fabric = (struct client_fabric){ 0 };
            side->control = client_open(&control, why, SWEEP_WHY_BYTES);
            if (side->control == NULL) {
                return false;
            }
        }
        side->rail[i].client = client_open(&connection.client, why, SWEEP_WHY_BYTES);
        if (side->rail[i].client == NULL) {
            return false;
        }
    }
    return drivers_start(side, why);
}

/* What an interrupted or refused sweep left too. */
static void
keys_delete(struct sweep_side *side)
{
    static char keys[DELETE_KEYS][SWEEP_KEY_BYTES];
    struct client_reply reply;
    enum client_status status = CLIENT_OK;
    if (side->transfer.memcached) {
        sweep_memcached_delete(side->control, side->index, side->chunks_stored);
        return;
    }
    client_timeout(side->control, DELETE_TIMEOUT_MS);
    for (uint64_t chunk = 0; chunk < side->chunks_stored && status == CLIENT_OK;) {
        struct slice words[1 + DELETE_KEYS] = { SLICE_LITERAL("DEL") };
        uint32_t count = 1;
        for (; chunk < side->chunks_stored && count <= DELETE_KEYS; chunk++, count++) {
            char *key = keys[count - 1];
            words[count] = slice_of(key, sweep_key_print(key, side->index, chunk));
        }
        status = client_call(side->control, words, count, &reply);
    }
}

void
sweep_side_close(struct sweep_side *side)
{
    if (side == NULL) {
        return;
    }
    drivers_stop(side);
    for (uint32_t i = 0; i < side->rail_count; i++) {
        client_close(side->rail[i].client);
    }
    if (side->control != NULL) {
        keys_delete(side);
        client_close(side->control);
    }
    free(side->rail);
    free(side);
}

/* ---- transfers ---- */

enum sweep_status
sweep_side_prepare(struct sweep_side *side, const struct sweep_cut *cut, char why[SWEEP_WHY_BYTES])
{
    struct sweep_transfer *transfer = &side->transfer;
    transfer->cut = *cut;
    transfer->rails = (uint32_t)MIN(side->rail_count, cut->chunks);
    transfer->yield = transfer->rails >= machine_cpu_count(); /* the server takes one */
    side->chunks_stored = MAX(side->chunks_stored, cut->chunks);
    transfer->version = 0; /* as learning leaves chunk 0; the first SET writes all of them */
    enum sweep_status status = SWEEP_GOOD;
    for (uint32_t i = 0; status == SWEEP_GOOD && i < ARRAY_COUNT(transfer->forms); i++) {
        uint64_t bytes = i == 0 ? cut->chunk_bytes : cut->last_bytes;
        if (transfer->memcached) {
            sweep_memcached_form(&transfer->forms[i], side->index, bytes);
        } else {
            status = sweep_form_learn(&transfer->forms[i], side->control, side->index, bytes, transfer->pattern, why);
        }
    }
    return status;
}

/* The worst of what the rails that took part say. */
static enum sweep_status
status_of(const struct sweep_side *side, char why[SWEEP_WHY_BYTES])
{
    const struct sweep_rail *worst = &side->rail[0];
    for (uint32_t i = 1; i < side->transfer.rails; i++) {
        worst = side->rail[i].status > worst->status ? &side->rail[i] : worst;
    }
    snprintf(why, SWEEP_WHY_BYTES, "%s", worst->why);
    return worst->status;
}

enum sweep_status
sweep_side_transfer(struct sweep_side *side, enum sweep_operation operation, uint64_t *ticks, char why[SWEEP_WHY_BYTES])
{
    struct sweep_transfer *transfer = &side->transfer;
    uint32_t others = transfer->rails - 1;
    transfer->operation = operation;
    transfer->version += operation == SWEEP_SET;
    store_relaxed(&side->ready, 0); /* the drivers sleep: sem_post() orders both */
    store_relaxed(&side->done, 0);
    for (uint32_t i = 1; i <= others; i++) {
        sem_post(&side->drivers[i].wake);
    }
    while (load_acquire(&side->ready) < others) { /* pairs with driver_run()'s add */
        sweep_relax(transfer->yield);
    }
    uint64_t begin = cycles_now();
    store_release(&side->go, load_relaxed(&side->go) + 1); /* pairs with driver_run()'s acquire */
    sweep_rail_run(&side->rail[0], transfer, 0);
    while (load_acquire(&side->done) < others) { /* likewise */
        sweep_relax(transfer->yield);
    }
    *ticks = cycles_now() - begin;
    return status_of(side, why);
}

void
sweep_side_poll(struct sweep_side *side)
{
    struct slice view;
    for (uint32_t i = 0; i < side->rail_count; i++) {
        client_raw_receive(side->rail[i].client, &view); /* a failure is met again by the next transfer */
    }
}

const char *
sweep_side_label(const struct sweep_side *side)
{
    return side->label;
}

void
sweep_side_describe(const struct sweep_side *side, char *text, size_t text_bytes)
{
    char one[256], rails[32] = "";
    client_describe(side->rail[0].client, one, sizeof(one));
    if (side->rail_count > 1) {
        snprintf(rails, sizeof(rails), ", %u rails", side->rail_count);
    }
    snprintf(text, text_bytes, "%s%s%s", one, rails,
             side->transport.switched_off ? " (USE_EFA=false: the kernel's TCP in place of efa)" : "");
}
