#include "codec/resp.h"
#include "dataplane/channels.h"
#include "dataplane/dataplane.h"
#include "dataplane/helper.h"
#include "dataplane/polling.h"
#include "dataplane/port_ethernet.h"
#include "dataplane/port_fabric.h"
#include "dataplane/port_socket.h"
#include "dataplane/pubsub_private.h"
#include <errno.h>
#include <numa.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

/* What one lcore's boot memory holds, in one block on its node. */
struct lcore_block {
    struct lcore lcore;
    struct lcore_counters counters;
    struct lcore_histograms histograms;
    struct slowlog slowlog;
    struct session *sessions[LCORE_SESSION_BUCKETS];
    struct pubsub pubsub;
    struct resp_span spans[LIMIT_REQUEST_ARGS + 1];
    uint8_t inline_line[LIMIT_INLINE_BYTES + 2];
    struct mail_ring *mail_in[MAIL_THREADS], *mail_out[MAIL_THREADS];
    pthread_t thread;
    bool thread_runs;
    int begin_error;
};

static struct lcore_block *
block_of(struct lcore *lcore)
{
    return CONTAINER_OF(lcore, struct lcore_block, lcore);
}

/* ---- memory ---- */

/* Zeroed and touched, on `node` where the machine has nodes. */
static void *
boot_take(size_t bytes, int node)
{
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) {
        return NULL;
    }
    if (numa_available() >= 0 && node >= 0) {
        numa_tonode_memory(block, bytes, node);
    }
    memset(block, 0, bytes);
    return block;
}

static void
boot_give(void *block, size_t bytes)
{
    if (block != NULL) {
        munmap(block, bytes);
    }
}

static int
node_of(int cpu)
{
    return numa_available() >= 0 ? numa_node_of_cpu(cpu) : 0;
}

/* ---- mail rings: one for every ordered pair of threads; the helper brings its own ---- */

/* The ring to `reader` from a thread. */
static struct mail_ring *
ring_open(struct lcore_block *reader, uint32_t from)
{
    return reader->mail_in[from] = boot_take(sizeof(struct mail_ring), reader->lcore.node);
}

static bool
rings_open(struct dataplane *dataplane)
{
    uint32_t count = dataplane->lcore_count;
    for (uint32_t to = 0; to < count; to++) {
        struct lcore_block *reader = block_of(dataplane->lcores[to]);
        for (uint32_t from = 0; from < count; from++) {
            struct mail_ring *ring = from != to ? ring_open(reader, from) : NULL;
            if (from != to && ring == NULL) {
                return false;
            }
            block_of(dataplane->lcores[from])->mail_out[to] = ring;
        }
        dataplane->to_lcore[to] = ring_open(reader, MAIL_FROM_MGMT);
        dataplane->to_mgmt[to] = boot_take(sizeof(struct mail_ring), reader->lcore.node);
        reader->mail_out[MAIL_FROM_MGMT] = dataplane->to_mgmt[to];
        if (dataplane->to_lcore[to] == NULL || dataplane->to_mgmt[to] == NULL) {
            return false;
        }
    }
    return true;
}

static void
rings_close(struct dataplane *dataplane)
{
    for (uint32_t i = 0; i < dataplane->lcore_count; i++) {
        struct lcore_block *block = block_of(dataplane->lcores[i]);
        for (uint32_t from = 0; from < dataplane->lcore_count; from++) {
            boot_give(block->mail_in[from], sizeof(struct mail_ring));
        }
        boot_give(dataplane->to_lcore[i], sizeof(struct mail_ring));
        boot_give(dataplane->to_mgmt[i], sizeof(struct mail_ring));
    }
}

/* ---- lcores ---- */

static struct lcore *
lcore_open(struct dataplane *dataplane, uint32_t index)
{
    int cpu = dataplane->settings->cpus[index];
    int node = node_of(cpu);
    struct lcore_block *block = boot_take(sizeof(*block), node);
    if (block == NULL) {
        return NULL;
    }
    struct lcore *lcore = &block->lcore;
    lcore->dataplane = dataplane;
    lcore->settings = dataplane->settings;
    lcore->index = index;
    lcore->cpu = cpu;
    lcore->node = lcore->cpu_node = node;
    lcore->counters = &block->counters;
    lcore->histograms = &block->histograms;
    lcore->slowlog = &block->slowlog;
    lcore->sessions = block->sessions;
    lcore->pubsub = &block->pubsub;
    lcore->pubsub->last = &lcore->pubsub->first;
    lcore->spans = block->spans;
    lcore->inline_line = block->inline_line;
    lcore->mail_in = block->mail_in;
    lcore->mail_out = block->mail_out;
    lcore->burst.room = (struct arg_room){ .args = lcore->burst.args, .count = LIMIT_BURST_ARGS };
    lcore->limits = (struct decode_limits){ .args_max = LIMIT_REQUEST_ARGS,
                                            .arg_bytes_max = LIMIT_VALUE_BYTES,
                                            .request_bytes_max = LIMIT_REQUEST_BYTES };
    lcore->limits_before_auth = (struct decode_limits){ .args_max = LIMIT_UNAUTH_ARGS,
                                                        .arg_bytes_max = LIMIT_UNAUTH_ARG_BYTES,
                                                        .request_bytes_max = LIMIT_REQUEST_BYTES };
    lcore->now_ms = dataplane->started_ms;
    lcore->ns_per_cycle_q20 = (uint64_t)(dataplane->ns_per_cycle * (1 << 20));
    lcore->poll_busy_cycles = (uint64_t)(POLL_BUSY_NS / dataplane->ns_per_cycle);
    lcore->poll_pause_cycles = (uint64_t)(POLL_PAUSE_NS / dataplane->ns_per_cycle);
    lcore->waker.event_fd = -1;
    return lcore;
}

static void
lcore_close(struct lcore *lcore)
{
    for (uint32_t i = 0; i < lcore->port_count; i++) {
        lcore->ports[i]->ops->close(lcore->ports[i]);
    }
    mail_waker_close(&lcore->waker);
    boot_give(block_of(lcore), sizeof(struct lcore_block));
}

static void
lcore_add_port(struct lcore *lcore, struct port *port)
{
    port->index = lcore->port_count;
    lcore->ports[lcore->port_count++] = port;
}

/* After the ports that every lcore has, which stand at the same place in each. */
static int
lcore_open_ethernet(struct lcore *lcore, char *why, size_t why_bytes)
{
    const struct settings *settings = lcore->settings;
    for (uint32_t i = 0; i < settings->port_count; i++) {
        struct port *port;
        if (settings->ports[i].type != PORT_ETHERNET || settings->ports[i].lcore != lcore->index) {
            continue;
        }
        int error = port_ethernet_open(lcore, &settings->ports[i], &port, why, why_bytes);
        if (error != 0) {
            return error;
        }
        lcore_add_port(lcore, port);
    }
    return 0;
}

static int
lcore_open_ports(struct lcore *lcore, char *why, size_t why_bytes)
{
    const struct settings *settings = lcore->settings;
    struct port *port;
    int error = port_socket_open(lcore, &port);
    if (error != 0) {
        snprintf(why, why_bytes, "cannot open the socket port of lcore %u: %s", lcore->index, strerror(-error));
        return error;
    }
    lcore->socket_port = port;
    lcore_add_port(lcore, port);
    for (uint32_t i = 0; i < settings->port_count; i++) {
        if (settings->ports[i].type != PORT_FABRIC) {
            continue;
        }
        error = port_fabric_open(lcore, &settings->ports[i], &port, why, why_bytes);
        if (error != 0) {
            return error;
        }
        lcore_add_port(lcore, port);
    }
    return lcore_open_ethernet(lcore, why, why_bytes);
}

int
lcore_begin(struct lcore *lcore)
{
    char name[16];
    snprintf(name, sizeof(name), "lcore-%u", lcore->index);
    lcore->store = store_join(lcore->dataplane->store, lcore->index, name);
    if (lcore->store == NULL) {
        return -ENOMEM;
    }
    lcore->memory = store_memory(lcore->store);
    stream_reserve_init(&lcore->reserve, lcore->memory, &lcore->dataplane->hoard, lcore_session_bytes(lcore));
    lcore->tid = gettid();
    store_release(&lcore->state, LCORE_RUN); /* pairs with the acquire in dataplane_start() */
    return 0;
}

void
lcore_end(struct lcore *lcore)
{
    stream_reserve_fini(&lcore->reserve);
    store_leave(lcore->store);
    lcore->store = NULL;
    store_release(&lcore->state, LCORE_STOPPED); /* pairs with the acquire in dataplane_stopped() */
}

static void *
lcore_main(void *argument)
{
    struct lcore *lcore = argument;
    struct lcore_block *block = block_of(lcore);
    char name[16];
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET((size_t)lcore->cpu, &cpus);
    int error = pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
    snprintf(name, sizeof(name), "lcore-%u", lcore->index);
    pthread_setname_np(pthread_self(), name);
    if (error == 0) {
        error = -lcore_begin(lcore);
    }
    if (error != 0) {
        block->begin_error = -error;
        store_release(&lcore->state, LCORE_STOPPED); /* pairs with the acquire in dataplane_start() */
        return NULL;
    }
    lcore_run(lcore);
    lcore_end(lcore);
    return NULL;
}

/* ---- the data plane ---- */

static int
open_store(struct dataplane *dataplane, char *why, size_t why_bytes)
{
    const struct settings *settings = dataplane->settings;
    struct store_config config = {
        .memory = { .reserve_bytes = settings->memory_reserve,
                    .limit_bytes = settings->memory_limit,
                    .ahead_bytes = settings->memory_ahead,
                    .huge_pages = settings->memory_huge },
        .keys_expected = settings->store_keys,
        .members = dataplane->lcore_count + LIMIT_HELPERS + 1, /* the management core */
        .trust_cycle_counter = dataplane->trusts_cycles,
    };
    int error = store_open(&config, &dataplane->store);
    if (error != 0) {
        snprintf(why, why_bytes, "cannot open the store with memory.reserve = %llu bytes: %s",
                 (unsigned long long)settings->memory_reserve, strerror(-error));
    }
    return error;
}

static int
open_lcores(struct dataplane *dataplane, char *why, size_t why_bytes)
{
    for (uint32_t i = 0; i < dataplane->settings->cpu_count; i++) {
        struct lcore *lcore = lcore_open(dataplane, i);
        if (lcore == NULL || mail_waker_open(&lcore->waker) != 0) {
            snprintf(why, why_bytes, "no memory or descriptors for lcore %u", i);
            return -ENOMEM;
        }
        dataplane->lcores[i] = lcore;
    }
    dataplane->lcore_count = dataplane->settings->cpu_count;
    if (!rings_open(dataplane)) {
        snprintf(why, why_bytes, "no memory for the mail rings of %u lcores", dataplane->lcore_count);
        return -ENOMEM;
    }
    return 0;
}

int
dataplane_open(const struct settings *settings, struct dataplane **out, char *why, size_t why_bytes)
{
    struct dataplane *dataplane = calloc(1, sizeof(*dataplane));
    CHECK(dataplane != NULL);
    dataplane->settings = settings;
    dataplane->mgmt_waker.event_fd = -1;
    dataplane->ns_per_cycle = clock_open(&dataplane->clock);
    dataplane_live_set(&dataplane->live, settings, dataplane->ns_per_cycle);
    dataplane->trusts_cycles = clock_kernel_trusts_cycles();
    dataplane->started_ms = clock_unix_ns(&dataplane->clock, cycles_now()) / 1000000;
    CHECK(getrandom(&dataplane->incarnation, sizeof(dataplane->incarnation), 0) == sizeof(dataplane->incarnation));

    int error = mail_waker_open(&dataplane->mgmt_waker);
    dataplane->channels = calloc(1, sizeof(*dataplane->channels));
    CHECK(dataplane->channels != NULL);
    if (error == 0) {
        error = open_lcores(dataplane, why, why_bytes);
    }
    if (error == 0) {
        error = helper_open(dataplane, &dataplane->helper);
        if (error != 0) {
            snprintf(why, why_bytes, "no memory or descriptors for the helper: %s", strerror(-error));
        }
    }
    if (error == 0) {
        error = open_store(dataplane, why, why_bytes);
    }
    for (uint32_t i = 0; error == 0 && i < dataplane->lcore_count; i++) {
        error = lcore_open_ports(dataplane->lcores[i], why, why_bytes);
    }
    if (error != 0) {
        dataplane_close(dataplane);
        return error;
    }
    *out = dataplane;
    return 0;
}

int
dataplane_start(struct dataplane *dataplane)
{
    for (uint32_t i = 0; i < dataplane->lcore_count; i++) {
        struct lcore_block *block = block_of(dataplane->lcores[i]);
        int error = pthread_create(&block->thread, NULL, lcore_main, &block->lcore);
        if (error != 0) {
            return -error;
        }
        block->thread_runs = true;
    }
    for (uint32_t i = 0; i < dataplane->lcore_count; i++) {
        struct lcore *lcore = dataplane->lcores[i];
        while (load_acquire(&lcore->state) == LCORE_BOOT) { /* pairs with the releases in lcore_main() */
            sched_yield();
        }
        if (block_of(lcore)->begin_error != 0) {
            return block_of(lcore)->begin_error;
        }
    }
    return helper_start(dataplane->helper);
}

int
dataplane_move(struct dataplane *dataplane, uint32_t index, int cpu)
{
    struct lcore *lcore = dataplane->lcores[index];
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET((size_t)cpu, &cpus);
    if (sched_setaffinity(lcore->tid, sizeof(cpus), &cpus) != 0) {
        return -errno;
    }
    lcore->cpu = cpu;
    lcore->cpu_node = node_of(cpu);
    return 0;
}

bool
dataplane_post(struct dataplane *dataplane, uint32_t lcore, const struct mail *mail)
{
    struct mail stamped = *mail;
    stamped.from = MAIL_FROM_MGMT;
    if (!mail_post(dataplane->to_lcore[lcore], &stamped)) {
        return false;
    }
    lcore_notify(dataplane->lcores[lcore], MAIL_FROM_MGMT);
    return true;
}

void
dataplane_drain(struct dataplane *dataplane)
{
    struct mail mail = { .kind = MAIL_DRAIN };
    for (uint32_t i = 0; i < dataplane->lcore_count; i++) {
        while (!dataplane_post(dataplane, i, &mail)) {
            sched_yield(); /* the ring drains: its lcore runs */
        }
    }
}

bool
dataplane_stopped(const struct dataplane *dataplane)
{
    for (uint32_t i = 0; i < dataplane->lcore_count; i++) {
        /* acquire: pairs with the release in lcore_end() */
        if (load_acquire(&dataplane->lcores[i]->state) != LCORE_STOPPED) {
            return false;
        }
    }
    return true;
}

void
dataplane_refresh(struct dataplane *dataplane)
{
    clock_refresh(&dataplane->clock);
    for (uint32_t i = 0; i < dataplane->lcore_count; i++) {
        struct lcore *lcore = dataplane->lcores[i];
        for (uint32_t p = 0; p < lcore->port_count; p++) {
            if (lcore->ports[p]->ops->refresh != NULL) {
                lcore->ports[p]->ops->refresh(lcore->ports[p]);
            }
        }
    }
}

static void
close_channels(struct dataplane *dataplane)
{
    free(dataplane->channels); /* every channel went with its last session; their memory is the store's */
}

void
dataplane_close(struct dataplane *dataplane)
{
    for (uint32_t i = 0; i < dataplane->lcore_count; i++) {
        struct lcore_block *block = block_of(dataplane->lcores[i]);
        if (block->thread_runs) {
            pthread_join(block->thread, NULL);
        }
    }
    if (dataplane->helper != NULL) {
        helper_stop(dataplane->helper);
        helper_close(dataplane->helper);
    }
    rings_close(dataplane);
    for (uint32_t i = 0; i < LIMIT_LCORES; i++) {
        if (dataplane->lcores[i] != NULL) {
            lcore_close(dataplane->lcores[i]);
        }
    }
    if (dataplane->store != NULL) {
        store_close(dataplane->store);
    }
    close_channels(dataplane);
    mail_waker_close(&dataplane->mgmt_waker);
    free(dataplane);
}
