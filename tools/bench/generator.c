/* generator.c - workers that keep every connection at its depth. */
#include "tools/bench/generator.h"
#include "config/cycles.h"
#include "config/sync.h"
#include "tools/bench/bench.h"
#include "tools/bench/machine.h"
#include "tools/bench/progress.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>

#define TURNS_PER_CLOCK 256
#define EVENTS_MAX      64
#define WAIT_MS         50
#define SETTLE_US       1000
/* A ring holds this many times the depth, so that a batch seldom meets its end. */
#define RING_DEPTHS     8

struct connection {
    struct pipeline pipeline;
    uint64_t quota; /* requests; UINT64_MAX: until the time is over */
    uint64_t sample_at, sample_begin;
    int64_t progress_ns; /* when replies last came, as seen by the clock turns */
    uint64_t progress_done;
    bool waits_for_room; /* in epoll's interest too */
};

struct worker {
    const struct generator_plan *plan;
    struct connection *connections;
    uint32_t connection_count;
    int cpu, epoll;
    pthread_t thread;
    pthread_barrier_t *barrier;
    uint64_t *ticks;
    uint64_t tick_count;
    int64_t begin_ns, end_ns;
    struct progress progress; /* of the first worker, whose share stands for all */
    bool stop_issuing;        /* the time is over: collect what is in flight */
    bool broken, shows_progress;
    char why[CLIENT_WHY_BYTES];
};

/* ---- one connection ---- */

/* Send as much as the depth allows, when it is at least `refill`, or the last requests. */
static bool
connection_issue(struct worker *worker, struct connection *connection)
{
    const struct generator_plan *plan = worker->plan;
    struct pipeline *pipeline = &connection->pipeline;
    if (pipeline_backed_up(pipeline) && !pipeline_send(pipeline)) {
        return false;
    }
    if (pipeline_backed_up(pipeline) || worker->stop_issuing) {
        return true;
    }
    uint64_t free_depth = plan->depth - pipeline_in_flight(pipeline);
    uint64_t due = MIN(free_depth, connection->quota - pipeline->issued);
    if (due == 0 || (free_depth < plan->refill && due == free_depth)) {
        return true;
    }
    bool broken, samples = plan->samples && connection->sample_at == 0;
    uint64_t begin = samples ? cycles_now() : 0;
    if (pipeline_issue(pipeline, (uint32_t)due, &broken) > 0 && samples) {
        connection->sample_at = pipeline->issued;
        connection->sample_begin = begin;
    }
    return !broken;
}

static bool
connection_receive(struct worker *worker, struct connection *connection)
{
    struct pipeline *pipeline = &connection->pipeline;
    uint64_t done = pipeline->done;
    if (UNLIKELY(!pipeline_receive(pipeline, worker->plan->depth))) {
        return false;
    }
    if (connection->sample_at != 0 && done != pipeline->done && pipeline->done >= connection->sample_at) {
        worker->ticks[worker->tick_count++ % GENERATOR_SAMPLES_MAX] = cycles_now() - connection->sample_begin;
        connection->sample_at = 0;
    }
    return true;
}

static bool
connection_turn(struct worker *worker, struct connection *connection)
{
    return connection_receive(worker, connection) && connection_issue(worker, connection);
}

static bool
connection_finished(const struct worker *worker, const struct connection *connection)
{
    const struct pipeline *pipeline = &connection->pipeline;
    return pipeline->done == pipeline->issued && (worker->stop_issuing || pipeline->issued == connection->quota);
}

/* ---- a worker ---- */

static bool
worker_break(struct worker *worker, const struct connection *connection)
{
    snprintf(worker->why, sizeof(worker->why), "%s", pipeline_why(&connection->pipeline));
    worker->broken = true;
    return false;
}

/* Every now and then: is the time over, did somebody press Ctrl-C, does every connection make progress? */
static bool
worker_clock(struct worker *worker)
{
    int64_t now = machine_now_ns();
    double passed = (double)(now - worker->begin_ns) * 1e-9;
    uint64_t all = 0;
    worker->stop_issuing |= machine_interrupted() || (worker->plan->requests == 0 && passed >= worker->plan->seconds);
    for (uint32_t i = 0; i < worker->connection_count; i++) {
        struct connection *connection = &worker->connections[i];
        uint64_t done = connection->pipeline.done;
        all += done;
        if (done != connection->progress_done || done == connection->pipeline.issued) {
            connection->progress_done = done;
            connection->progress_ns = now;
        } else if (now - connection->progress_ns > BENCH_SILENCE_NS) {
            snprintf(worker->why, sizeof(worker->why), "no reply for " BENCH_SILENCE_TEXT);
            worker->broken = true;
            return false;
        }
    }
    progress_show(&worker->progress, worker->plan->requests == 0 ? (uint64_t)(passed * 1000) : all);
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
    connection->waits_for_room = pipeline_backed_up(&connection->pipeline);
    if (connection->waits_for_room) {
        event.events |= EPOLLOUT;
    }
    CHECK(epoll_ctl(worker->epoll, operation, client_fd(connection->pipeline.client), &event) == 0);
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
            if (UNLIKELY(connection->waits_for_room != pipeline_backed_up(&connection->pipeline))) {
                interest_set(worker, connection, EPOLL_CTL_MOD);
            }
        }
        if ((turn % TURNS_PER_CLOCK == 0 || count <= 0) && !worker_clock(worker)) {
            return;
        }
    }
}

static void
worker_progress_begin(struct worker *worker)
{
    const struct generator_plan *plan = worker->plan;
    if (worker->shows_progress) {
        double share = (double)worker->connection_count / plan->connections;
        progress_begin(&worker->progress, plan->progress,
                       (uint64_t)(plan->requests == 0 ? plan->seconds * 1000 : (double)plan->requests * share));
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
    worker_progress_begin(worker);
    if (plan->spin || worker->connection_count == 1 || client_fd(worker->connections[0].pipeline.client) < 0) {
        worker_spin(worker);
    } else {
        worker_sleep(worker);
    }
    worker->end_ns = machine_now_ns();
    progress_end(&worker->progress);
    return NULL;
}

/* ---- setting up and adding up ---- */

struct generator {
    const struct generator_plan *plan;
    struct load *load;
    struct connection *connections;
    struct worker *workers;
    uint32_t worker_count;
    pthread_barrier_t barrier;
};

static bool
connection_open(struct generator *generator, uint32_t index, char *why, size_t why_bytes)
{
    const struct generator_plan *plan = generator->plan;
    struct connection *connection = &generator->connections[index];
    struct client *client = client_open(&plan->client, why, why_bytes);
    if (client == NULL) {
        return false;
    }
    if (generator->load == NULL) {
        generator->load = load_open(&plan->load, client, why, why_bytes);
        if (generator->load == NULL) {
            client_close(client);
            return false;
        }
    }
    /* Shares differ by one at most; in order, each connection has its own range of keys. */
    uint64_t share = plan->requests / plan->connections, rest = plan->requests % plan->connections;
    connection->quota = plan->requests == 0 ? UINT64_MAX : share + (index < rest);
    bool good = pipeline_open(&connection->pipeline, generator->load, client, plan->client.wire,
                              RING_DEPTHS * plan->depth, plan->load.seed * 1000003 + index, why, why_bytes);
    connection->pipeline.state.key = share * index + MIN(index, rest);
    return good;
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
            .connections = &generator->connections[next],
            .connection_count = count,
            .cpu = plan->cpus[i],
            .shows_progress = i == 0 && plan->progress != NULL,
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

/* A server that is one answer ahead, from the connection's beginning on, is found out when all are there. */
static void
silence_check(struct generator *generator)
{
    usleep(SETTLE_US);
    for (uint32_t i = 0; i < generator->worker_count; i++) {
        struct worker *worker = &generator->workers[i];
        for (uint32_t j = 0; j < worker->connection_count && !worker->broken; j++) {
            if (!pipeline_is_silent(&worker->connections[j].pipeline)) {
                worker_break(worker, &worker->connections[j]);
            }
        }
    }
}

static void
result_add(struct generator_result *result, const struct worker *worker)
{
    for (uint32_t i = 0; i < worker->connection_count; i++) {
        const struct scanner *scanner = &worker->connections[i].pipeline.scanner;
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
        pipeline_close(&generator->connections[i].pipeline);
    }
    for (uint32_t i = 0; i < generator->worker_count; i++) {
        close(generator->workers[i].epoll);
        free(generator->workers[i].ticks);
    }
    load_close(generator->load);
    free(generator->connections);
    free(generator->workers);
}

bool
generator_run(const struct generator_plan *plan, struct generator_result *result, char *why, size_t why_bytes)
{
    struct generator generator = { .plan = plan };
    *result = (struct generator_result){ 0 };
    generator.connections = calloc(plan->connections, sizeof(*generator.connections));
    CHECK(generator.connections != NULL);
    machine_ns_per_cycle();
    bool good = true;
    for (uint32_t i = 0; good && i < plan->connections; i++) {
        good = connection_open(&generator, i, why, why_bytes);
    }
    if (good) {
        workers_prepare(&generator);
        workers_run(&generator);
        silence_check(&generator);
        results_add(&generator, result);
    }
    generator_fini(&generator);
    return good;
}
