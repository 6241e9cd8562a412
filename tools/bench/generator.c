#include "tools/bench/generator.h"
#include "config/cycles.h"
#include "config/sync.h"
#include "tools/bench/machine.h"
#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>

#define SILENCE_NS      10000000000
#define TURNS_PER_CLOCK 256
#define EVENTS_MAX      64
#define WAIT_MS         50
/* Ring slots are a multiple of the schedule and at least this many times the depth, so that a batch seldom meets the
 * end of the ring. */
#define RING_DEPTHS     8
/* Between two looks for replies while nothing comes. */
#define PATCHES_A_TURN  8

struct connection {
    struct client *client;
    struct scanner scanner;
    struct load_random random;
    uint8_t *ring;
    uint32_t *offsets; /* slot_count + 1 of them */
    uint32_t slot_count;
    uint32_t issue_slot, patch_slot; /* next to send, next to patch; those between are ready */
    size_t send_from, send_to;       /* ring bytes issued and not yet sent */
    uint64_t quota, issued, done;    /* requests; quota UINT64_MAX: until the time is over */
    uint64_t key;                    /* in order: the next one */
    uint64_t sample_at, sample_begin;
    int64_t progress_ns; /* when replies last came, as seen by the clock turns */
    uint64_t progress_done;
    bool waits_for_room; /* in epoll's interest too */
};

struct worker {
    const struct generator_plan *plan;
    const struct load_template *templates;
    const struct load_pool *pool;
    const uint8_t *schedule;
    uint32_t schedule_count;
    struct connection *connections;
    uint32_t connection_count;
    int cpu, epoll;
    pthread_t thread;
    pthread_barrier_t *barrier;
    uint64_t *ticks;
    uint64_t tick_count;
    int64_t begin_ns, end_ns;
    bool stop_issuing; /* the time is over: collect what is in flight */
    bool broken;
    char why[CLIENT_WHY_BYTES];
};

uint32_t
generator_schedule(const struct load_op *ops, uint32_t op_count, uint8_t schedule[SCANNER_SCHEDULE_MAX])
{
    uint32_t total = 0, count;
    int64_t credit[LOAD_OPS_MAX] = { 0 };
    for (uint32_t i = 0; i < op_count; i++) {
        total += ops[i].weight;
    }
    count = MIN(total, (uint32_t)SCANNER_SCHEDULE_MAX);
    for (uint32_t slot = 0; slot < count; slot++) {
        uint32_t best = 0;
        for (uint32_t i = 0; i < op_count; i++) {
            credit[i] += ops[i].weight;
            best = credit[i] > credit[best] ? i : best;
        }
        credit[best] -= total;
        schedule[slot] = (uint8_t)best;
    }
    return count;
}

/* ---- one connection ---- */

static void
connection_patch(struct worker *worker, struct connection *connection)
{
    uint32_t slot = connection->patch_slot++;
    uint32_t op = worker->schedule[slot % worker->schedule_count];
    uint64_t key;
    if (worker->plan->in_order) {
        key = connection->key++ % worker->plan->keys;
    } else {
        key = load_random_below(&connection->random, worker->plan->keys);
    }
    load_patch(connection->ring + connection->offsets[slot], &worker->templates[op], key, &connection->random,
               worker->pool);
}

/* While nothing comes: patch some of what will be sent next, up to the end of the ring. */
static void
connection_patch_ahead(struct worker *worker, struct connection *connection)
{
    for (int i = 0; i < PATCHES_A_TURN && connection->patch_slot < connection->slot_count &&
                    connection->patch_slot - connection->issue_slot < worker->plan->depth;
         i++) {
        connection_patch(worker, connection);
    }
}

/* Send what is patched. False: broken. */
static bool
connection_send(struct connection *connection)
{
    while (connection->send_from < connection->send_to) {
        ssize_t sent = client_raw_send(connection->client, connection->ring + connection->send_from,
                                       connection->send_to - connection->send_from);
        if (sent <= 0) {
            return sent == 0;
        }
        connection->send_from += (size_t)sent;
    }
    return true;
}

/* Patch and send as much as the depth allows, when it is at least `refill`, or the last requests. */
static bool
connection_issue(struct worker *worker, struct connection *connection)
{
    const struct generator_plan *plan = worker->plan;
    if (!connection_send(connection)) {
        return false;
    }
    if (connection->send_from < connection->send_to || worker->stop_issuing) {
        return true;
    }
    uint64_t free_depth = plan->depth - (connection->issued - connection->done);
    uint64_t due = MIN(free_depth, connection->quota - connection->issued);
    if (due == 0 || (free_depth < plan->refill && due == free_depth)) {
        return true;
    }
    while (due > 0) {
        if (connection->issue_slot == connection->slot_count) {
            if (!connection_send(connection)) {
                return false;
            }
            if (connection->send_from < connection->send_to) {
                return true;
            }
            connection->issue_slot = connection->patch_slot = 0;
            connection->send_from = connection->send_to = 0;
        }
        if (connection->issue_slot == connection->patch_slot) {
            connection_patch(worker, connection);
        }
        connection->send_to = connection->offsets[++connection->issue_slot];
        connection->issued++;
        due--;
    }
    if (plan->samples && connection->sample_at == 0) {
        connection->sample_at = connection->issued;
        connection->sample_begin = cycles_now();
    }
    return connection_send(connection);
}

static bool
connection_receive(struct worker *worker, struct connection *connection)
{
    struct slice view;
    if (UNLIKELY(client_raw_receive(connection->client, &view) != CLIENT_OK)) {
        return false;
    }
    if (view.bytes == 0) {
        connection_patch_ahead(worker, connection);
        return true;
    }
    client_raw_take(connection->client, scanner_scan(&connection->scanner, view));
    connection->done = connection->scanner.replies;
    if (connection->sample_at != 0 && connection->done >= connection->sample_at) {
        worker->ticks[worker->tick_count++ % GENERATOR_SAMPLES_MAX] = cycles_now() - connection->sample_begin;
        connection->sample_at = 0;
    }
    return connection->scanner.malformed == NULL;
}

static bool
connection_turn(struct worker *worker, struct connection *connection)
{
    return connection_receive(worker, connection) && connection_issue(worker, connection);
}

static bool
connection_finished(const struct worker *worker, const struct connection *connection)
{
    return connection->done == connection->issued && (worker->stop_issuing || connection->issued == connection->quota);
}

/* ---- a worker ---- */

static bool
worker_break(struct worker *worker, const struct connection *connection)
{
    const char *why = connection->scanner.malformed;
    snprintf(worker->why, sizeof(worker->why), "%s", why != NULL ? why : client_why(connection->client));
    worker->broken = true;
    return false;
}

/* Every now and then: is the time over, did somebody press Ctrl-C, does every connection make progress? */
static bool
worker_clock(struct worker *worker)
{
    int64_t now = machine_now_ns();
    double passed = (double)(now - worker->begin_ns) * 1e-9;
    worker->stop_issuing |= machine_interrupted() || (worker->plan->requests == 0 && passed >= worker->plan->seconds);
    for (uint32_t i = 0; i < worker->connection_count; i++) {
        struct connection *connection = &worker->connections[i];
        if (connection->done != connection->progress_done || connection->done == connection->issued) {
            connection->progress_done = connection->done;
            connection->progress_ns = now;
        } else if (now - connection->progress_ns > SILENCE_NS) {
            snprintf(worker->why, sizeof(worker->why), "no reply for 10 s");
            worker->broken = true;
            return false;
        }
    }
    return true;
}

static bool
worker_finished(const struct worker *worker)
{
    for (uint32_t i = 0; i < worker->connection_count; i++) {
        if (!connection_finished(worker, &worker->connections[i])) {
            return false;
        }
    }
    return true;
}

/* Poll all connections, always. */
static void
worker_spin(struct worker *worker)
{
    for (uint32_t turn = 1; !worker_finished(worker); turn++) {
        for (uint32_t i = 0; i < worker->connection_count; i++) {
            if (UNLIKELY(!connection_turn(worker, &worker->connections[i]))) {
                worker_break(worker, &worker->connections[i]);
                return;
            }
        }
        if (turn % TURNS_PER_CLOCK == 0 && !worker_clock(worker)) {
            return;
        }
    }
}

static void
interest_set(struct worker *worker, struct connection *connection, int operation)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = connection };
    connection->waits_for_room = connection->send_from < connection->send_to;
    if (connection->waits_for_room) {
        event.events |= EPOLLOUT;
    }
    CHECK(epoll_ctl(worker->epoll, operation, client_fd(connection->client), &event) == 0);
}

/* Poll those that have something. */
static void
worker_sleep(struct worker *worker)
{
    struct epoll_event events[EVENTS_MAX];
    for (uint32_t i = 0; i < worker->connection_count; i++) {
        if (!connection_issue(worker, &worker->connections[i])) {
            worker_break(worker, &worker->connections[i]);
            return;
        }
        interest_set(worker, &worker->connections[i], EPOLL_CTL_ADD);
    }
    for (uint32_t turn = 1; !worker_finished(worker); turn++) {
        int count = epoll_wait(worker->epoll, events, EVENTS_MAX, WAIT_MS);
        for (int i = 0; i < count; i++) {
            struct connection *connection = events[i].data.ptr;
            if (UNLIKELY(!connection_turn(worker, connection))) {
                worker_break(worker, connection);
                return;
            }
            if (UNLIKELY(connection->waits_for_room != (connection->send_from < connection->send_to))) {
                interest_set(worker, connection, EPOLL_CTL_MOD);
            }
        }
        if ((turn % TURNS_PER_CLOCK == 0 || count <= 0) && !worker_clock(worker)) {
            return;
        }
    }
}

static void *
worker_main(void *argument)
{
    struct worker *worker = argument;
    const struct generator_plan *plan = worker->plan;
    if (worker->cpu >= 0) {
        machine_pin(worker->cpu);
    }
    pthread_barrier_wait(worker->barrier);
    worker->begin_ns = machine_now_ns();
    for (uint32_t i = 0; i < worker->connection_count; i++) {
        worker->connections[i].progress_ns = worker->begin_ns;
    }
    if (plan->spin || worker->connection_count == 1 || client_fd(worker->connections[0].client) < 0) {
        worker_spin(worker);
    } else {
        worker_sleep(worker);
    }
    worker->end_ns = machine_now_ns();
    return NULL;
}

/* ---- setting up and adding up ---- */

struct generator {
    const struct generator_plan *plan;
    struct load_template templates[LOAD_OPS_MAX];
    uint8_t schedule[SCANNER_SCHEDULE_MAX];
    uint32_t schedule_count;
    struct load_pool *pool;
    struct connection *connections;
    struct worker *workers;
    uint32_t worker_count;
    pthread_barrier_t barrier;
};

static void
ring_fill(const struct generator *generator, struct connection *connection)
{
    uint32_t slots = MAX(RING_DEPTHS * generator->plan->depth, generator->schedule_count);
    slots -= slots % generator->schedule_count;
    connection->offsets = malloc((slots + 1) * sizeof(*connection->offsets));
    CHECK(connection->offsets != NULL);
    uint64_t bytes = 0;
    for (uint32_t slot = 0; slot < slots; slot++) {
        connection->offsets[slot] = (uint32_t)bytes;
        bytes += generator->templates[generator->schedule[slot % generator->schedule_count]].count;
        CHECK(bytes <= UINT32_MAX);
    }
    connection->offsets[slots] = (uint32_t)bytes;
    connection->slot_count = slots;
    connection->ring = malloc(bytes);
    CHECK(connection->ring != NULL);
    for (uint32_t slot = 0; slot < slots; slot++) {
        const struct load_template *template =
            &generator->templates[generator->schedule[slot % generator->schedule_count]];
        memcpy(connection->ring + connection->offsets[slot], template->bytes, template->count);
    }
}

static bool
connection_open(struct generator *generator, uint32_t index, char *why, size_t why_bytes)
{
    const struct generator_plan *plan = generator->plan;
    struct connection *connection = &generator->connections[index];
    connection->client = client_open(&plan->client, why, why_bytes);
    if (connection->client == NULL) {
        return false;
    }
    for (uint32_t i = 0; index == 0 && i < plan->op_count; i++) {
        if (!load_template_make(&generator->templates[i], &plan->ops[i], connection->client, plan->value_bytes, why,
                                why_bytes)) {
            return false;
        }
    }
    ring_fill(generator, connection);
    scanner_init(&connection->scanner, plan->client.wire, plan->value_bytes);
    for (uint32_t i = 0; i < generator->schedule_count; i++) {
        scanner_expect(&connection->scanner, plan->ops[generator->schedule[i]].expected);
    }
    /* Shares differ by one at most; in order, each connection has its own range of keys. */
    uint64_t share = plan->requests / plan->connections, rest = plan->requests % plan->connections;
    connection->quota = plan->requests == 0 ? UINT64_MAX : share + (index < rest);
    connection->key = share * index + MIN(index, rest);
    connection->random.state = plan->seed * 1000003 + index;
    return true;
}

static void
workers_prepare(struct generator *generator)
{
    const struct generator_plan *plan = generator->plan;
    generator->worker_count = MAX(1u, MIN(plan->threads, plan->connections));
    generator->workers = calloc(generator->worker_count, sizeof(*generator->workers));
    CHECK(generator->workers != NULL);
    uint32_t next = 0;
    for (uint32_t i = 0; i < generator->worker_count; i++) {
        struct worker *worker = &generator->workers[i];
        uint32_t count = (plan->connections - next) / (generator->worker_count - i);
        *worker = (struct worker){
            .plan = plan,
            .templates = generator->templates,
            .pool = generator->pool,
            .schedule = generator->schedule,
            .schedule_count = generator->schedule_count,
            .connections = &generator->connections[next],
            .connection_count = count,
            .cpu = plan->cpus[i],
            .epoll = epoll_create1(EPOLL_CLOEXEC),
            .barrier = &generator->barrier,
            .ticks = calloc(GENERATOR_SAMPLES_MAX, sizeof(uint64_t)),
        };
        CHECK(worker->epoll >= 0 && worker->ticks != NULL);
        next += count;
    }
}

static void
workers_run(struct generator *generator)
{
    CHECK(pthread_barrier_init(&generator->barrier, NULL, generator->worker_count) == 0);
    for (uint32_t i = 1; i < generator->worker_count; i++) {
        CHECK(pthread_create(&generator->workers[i].thread, NULL, worker_main, &generator->workers[i]) == 0);
    }
    worker_main(&generator->workers[0]);
    for (uint32_t i = 1; i < generator->worker_count; i++) {
        pthread_join(generator->workers[i].thread, NULL);
    }
    pthread_barrier_destroy(&generator->barrier);
}

static void
result_add(struct generator_result *result, const struct worker *worker)
{
    for (uint32_t i = 0; i < worker->connection_count; i++) {
        const struct scanner *scanner = &worker->connections[i].scanner;
        result->replies += scanner->replies;
        result->misses += scanner->misses;
        result->errors += scanner->errors;
        result->surprises += scanner->surprises;
        if (result->error[0] == '\0') {
            snprintf(result->error, sizeof(result->error), "%s", scanner->first_error);
        }
    }
    if (worker->broken) {
        result->broken = true;
        snprintf(result->error, sizeof(result->error), "%.*s", (int)sizeof(result->error) - 1, worker->why);
    }
    uint64_t count = MIN(worker->tick_count, (uint64_t)GENERATOR_SAMPLES_MAX);
    memcpy(result->ticks + result->tick_count, worker->ticks, count * sizeof(*result->ticks));
    result->tick_count += count;
}

static void
results_add(const struct generator *generator, struct generator_result *result)
{
    int64_t begin_ns = INT64_MAX, end_ns = 0;
    result->ticks = calloc((size_t)generator->worker_count * GENERATOR_SAMPLES_MAX, sizeof(*result->ticks));
    CHECK(result->ticks != NULL);
    for (uint32_t i = 0; i < generator->worker_count; i++) {
        const struct worker *worker = &generator->workers[i];
        result_add(result, worker);
        begin_ns = MIN(begin_ns, worker->begin_ns);
        end_ns = MAX(end_ns, worker->end_ns);
    }
    result->seconds = (double)(end_ns - begin_ns) * 1e-9;
}

static void
generator_fini(struct generator *generator)
{
    for (uint32_t i = 0; i < generator->plan->connections; i++) {
        client_close(generator->connections[i].client);
        free(generator->connections[i].ring);
        free(generator->connections[i].offsets);
    }
    for (uint32_t i = 0; i < generator->worker_count; i++) {
        close(generator->workers[i].epoll);
        free(generator->workers[i].ticks);
    }
    for (uint32_t i = 0; i < generator->plan->op_count; i++) {
        load_template_fini(&generator->templates[i]);
    }
    free(generator->connections);
    free(generator->workers);
    free(generator->pool);
}

bool
generator_run(const struct generator_plan *plan, struct generator_result *result, char *why, size_t why_bytes)
{
    struct generator generator = { .plan = plan };
    *result = (struct generator_result){ 0 };
    generator.schedule_count = generator_schedule(plan->ops, plan->op_count, generator.schedule);
    generator.connections = calloc(plan->connections, sizeof(*generator.connections));
    generator.pool = malloc(sizeof(*generator.pool));
    CHECK(generator.connections != NULL && generator.pool != NULL);
    load_pool_fill(generator.pool, plan->seed);
    machine_ns_per_cycle();
    bool good = true;
    for (uint32_t i = 0; good && i < plan->connections; i++) {
        good = connection_open(&generator, i, why, why_bytes);
    }
    if (good) {
        workers_prepare(&generator);
        workers_run(&generator);
        results_add(&generator, result);
    }
    generator_fini(&generator);
    return good;
}
