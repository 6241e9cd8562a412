/* open_loop.c - the loop that follows a schedule. */
#include "tools/bench/open_loop.h"
#include "config/cycles.h"
#include "tools/bench/bench.h"
#include "tools/bench/machine.h"
#include "tools/bench/open_schedule.h"
#include "tools/bench/pipeline.h"
#include "tools/bench/progress.h"
#include <math.h>
#include <sys/epoll.h>
#include <unistd.h>

#define DRAIN_NS         1000000000 /* for what is in flight after Ctrl-C, and beyond twice the planned time */
#define TURNS_PER_CLOCK  256
#define EVENTS_MAX       64
/* With more connections than this the kernel is asked which have something; fewer are all looked at. */
#define POLLED_MAX       4
#define PATCHED_AHEAD    64
/* When behind, answers are read and sends leave after so many. */
#define ASSIGNED_A_TURN  512
#define RING_SLOTS_MAX   65536
/* The client is the bottleneck when its own lateness is this share of the latency at p99, and not just a moment. */
#define CLIENT_SHARE     0.25
#define CLIENT_MOMENT_US 20
#define KEPT_SHARE       0.99
#define SETTLE_US        1000

struct open_connection {
    struct pipeline pipeline;
    uint64_t *intended;          /* ring of ticks: of requests [answered, assigned) by their number's low bits */
    uint64_t assigned, answered; /* requests */
    uint32_t due;                /* assigned and not issued */
};

struct open_loop {
    const struct open_plan *plan;
    struct open_result *result;
    struct load *load;
    struct open_connection *connections;
    uint32_t limit, mask; /* in flight on each connection; of its ring of ticks */
    uint32_t next;        /* connection */
    int epoll;            /* -1: all are looked at */
    struct open_schedule schedule;
    uint64_t begin, warm, end; /* ticks: of the run, of the measured part, and of the schedule */
    uint64_t blocked;          /* when the server last held up a request that was due */
    uint64_t late_ticks, last_answer;
    uint64_t *latencies, *lateness; /* as many as `intended`, capacity of both */
    uint64_t capacity, sampled;
    uint64_t progress_done; /* answers at progress_ns */
    int64_t progress_ns;
    bool over;
};

/* ---- sending ---- */

static uint64_t
next_intended(const struct open_loop *loop)
{
    return loop->begin + (uint64_t)loop->schedule.due;
}

/* One that can take a request now, in turn. NULL: none. */
static struct open_connection *
connection_with_room(struct open_loop *loop)
{
    for (uint32_t i = 0; i < loop->plan->connections; i++) {
        struct open_connection *connection = &loop->connections[loop->next];
        loop->next = loop->next + 1 == loop->plan->connections ? 0 : loop->next + 1;
        if (connection->assigned - connection->answered < loop->limit && !pipeline_backed_up(&connection->pipeline)) {
            return connection;
        }
    }
    return NULL;
}

/* Give what is due to connections. */
static void
requests_assign(struct open_loop *loop, uint64_t now)
{
    for (uint32_t i = 0; i < ASSIGNED_A_TURN; i++) {
        uint64_t intended = next_intended(loop);
        if (intended > now || intended >= loop->end) {
            return;
        }
        struct open_connection *connection = connection_with_room(loop);
        if (connection == NULL) {
            loop->blocked = now;
            return;
        }
        connection->intended[connection->assigned++ & loop->mask] = intended;
        connection->due++;
        if (intended >= loop->warm && loop->result->intended < loop->capacity) {
            loop->lateness[loop->result->intended++] = now - MAX(intended, loop->blocked);
            loop->result->late += now - intended > loop->late_ticks;
        }
        open_schedule_advance(&loop->schedule);
    }
}

static bool
requests_issue(struct open_connection *connection)
{
    bool broken = false;
    if (connection->due > 0) {
        connection->due -= pipeline_issue(&connection->pipeline, connection->due, &broken);
    } else if (pipeline_backed_up(&connection->pipeline)) {
        broken = !pipeline_send(&connection->pipeline);
    }
    return !broken;
}

/* ---- answers ---- */

static void
sample_add(struct open_loop *loop, uint64_t intended, uint64_t now)
{
    if (intended >= loop->warm && loop->sampled < loop->capacity) {
        loop->latencies[loop->sampled++] = now - intended;
        loop->last_answer = now;
    }
}

static bool
answers_take(struct open_loop *loop, struct open_connection *connection)
{
    if (!pipeline_receive(&connection->pipeline, PATCHED_AHEAD)) {
        return false;
    }
    if (connection->answered < connection->pipeline.done) {
        uint64_t now = cycles_now();
        while (connection->answered < connection->pipeline.done) {
            sample_add(loop, connection->intended[connection->answered++ & loop->mask], now);
        }
    }
    return true;
}

/* ---- the loop ---- */

static void
loop_break(struct open_loop *loop, const char *why)
{
    loop->over = loop->result->broken = true;
    loop->end = MIN(loop->end, cycles_now());
    snprintf(loop->result->error, sizeof(loop->result->error), "%.*s", (int)sizeof(loop->result->error) - 1, why);
}

static bool
loop_finished(const struct open_loop *loop)
{
    if (next_intended(loop) < loop->end) {
        return false;
    }
    for (uint32_t i = 0; i < loop->plan->connections; i++) {
        if (loop->connections[i].answered != loop->connections[i].assigned) {
            return false;
        }
    }
    return true;
}

/* Every now and then: Ctrl-C, a run that takes too long, a server that says nothing. */
static void
loop_clock(struct open_loop *loop, struct progress *progress, int64_t deadline_ns)
{
    static const char silence[] = "no answer for " BENCH_SILENCE_TEXT;
    int64_t now_ns = machine_now_ns();
    uint64_t done = 0, assigned = 0, now = cycles_now();
    for (uint32_t i = 0; i < loop->plan->connections; i++) {
        done += loop->connections[i].answered;
        assigned += loop->connections[i].assigned;
    }
    progress_show(progress, now - loop->begin);
    if (machine_interrupted() && now < loop->end) {
        loop->end = now;
    }
    if (done != loop->progress_done || done == assigned) {
        loop->progress_done = done;
        loop->progress_ns = now_ns;
    } else if (now_ns - loop->progress_ns > (machine_interrupted() ? DRAIN_NS : BENCH_SILENCE_NS)) {
        if (machine_interrupted()) {
            loop->over = true;
        } else {
            loop_break(loop, silence);
        }
    }
    loop->over |= now_ns > deadline_ns || loop_finished(loop);
}

/* Those that have something, or may have. */
static void
loop_receive(struct open_loop *loop)
{
    struct epoll_event events[EVENTS_MAX];
    uint32_t count = loop->plan->connections;
    if (loop->epoll >= 0) {
        count = (uint32_t)MAX(epoll_wait(loop->epoll, events, EVENTS_MAX, 0), 0);
    }
    for (uint32_t i = 0; i < count && !loop->over; i++) {
        struct open_connection *connection = loop->epoll >= 0 ? events[i].data.ptr : &loop->connections[i];
        if (!answers_take(loop, connection)) {
            loop_break(loop, pipeline_why(&connection->pipeline));
        }
    }
}

static void
loop_spin(struct open_loop *loop, struct progress *progress)
{
    const struct open_plan *plan = loop->plan;
    int64_t deadline_ns = machine_now_ns() + (int64_t)((2 * (plan->warmup_seconds + plan->seconds)) * 1e9) + DRAIN_NS;
    loop->progress_ns = machine_now_ns();
    for (uint32_t turn = 1; !loop->over; turn++) {
        requests_assign(loop, cycles_now());
        for (uint32_t i = 0; i < plan->connections && !loop->over; i++) {
            if (!requests_issue(&loop->connections[i])) {
                loop_break(loop, pipeline_why(&loop->connections[i].pipeline));
            }
        }
        loop_receive(loop);
        if (turn % TURNS_PER_CLOCK == 0) {
            loop_clock(loop, progress, deadline_ns);
        }
    }
}

/* A server that is one answer ahead, from the connection's beginning on, is found out when all are there. */
static void
silence_check(struct open_loop *loop)
{
    if (loop->result->broken || !loop_finished(loop)) {
        return;
    }
    usleep(SETTLE_US);
    for (uint32_t i = 0; i < loop->plan->connections && !loop->result->broken; i++) {
        struct pipeline *pipeline = &loop->connections[i].pipeline;
        if (!pipeline_is_silent(pipeline)) {
            loop_break(loop, pipeline_why(pipeline));
        }
    }
}

/* What was due and never answered has waited until now. */
static void
unanswered_add(struct open_loop *loop)
{
    uint64_t now = cycles_now(), before = loop->sampled;
    for (uint32_t i = 0; i < loop->plan->connections; i++) {
        struct open_connection *connection = &loop->connections[i];
        while (connection->answered < connection->assigned) {
            sample_add(loop, connection->intended[connection->answered++ & loop->mask], now);
        }
    }
    uint64_t end = MIN(loop->end, now), intended = next_intended(loop);
    for (; intended < end && loop->result->intended < loop->capacity; intended = next_intended(loop)) {
        if (intended >= loop->warm) {
            loop->lateness[loop->result->intended++] = now - MAX(intended, loop->blocked);
            loop->result->late++;
            sample_add(loop, intended, now);
        }
        open_schedule_advance(&loop->schedule);
    }
    loop->result->unanswered = loop->sampled - before;
}

/* ---- setting up and adding up ---- */

static bool
connection_open(struct open_loop *loop, uint32_t index, char *why, size_t why_bytes)
{
    const struct open_plan *plan = loop->plan;
    struct open_connection *connection = &loop->connections[index];
    struct client *client = client_open(&plan->client, why, why_bytes);
    if (client == NULL) {
        return false;
    }
    if (loop->load == NULL) {
        loop->load = load_open(&plan->load, client, why, why_bytes);
        if (loop->load == NULL) {
            client_close(client);
            return false;
        }
    }
    connection->intended = calloc((size_t)loop->mask + 1, sizeof(*connection->intended));
    CHECK(connection->intended != NULL);
    if (!pipeline_open(&connection->pipeline, loop->load, client, plan->client.wire,
                       MIN(loop->limit, (uint32_t)RING_SLOTS_MAX), plan->load.seed * 1000003 + index, why, why_bytes)) {
        return false;
    }
    if (plan->connections > POLLED_MAX && client_fd(client) >= 0) {
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = connection };
        loop->epoll = loop->epoll >= 0 ? loop->epoll : epoll_create1(EPOLL_CLOEXEC);
        CHECK(loop->epoll >= 0 && epoll_ctl(loop->epoll, EPOLL_CTL_ADD, client_fd(client), &event) == 0);
    }
    return true;
}

static bool
loop_open(struct open_loop *loop, char *why, size_t why_bytes)
{
    const struct open_plan *plan = loop->plan;
    double expected = plan->rate * plan->seconds;
    /* A Poisson process brings more than expected: six standard deviations, and some. */
    double most = expected + (plan->poisson ? 6 * sqrt(expected) : 0) + 1000;
    if (most > OPEN_SAMPLES_MAX) {
        snprintf(why, why_bytes, "%.0f samples: at most %u are kept, shorten the run or lower the rate", expected,
                 OPEN_SAMPLES_MAX);
        return false;
    }
    loop->capacity = (uint64_t)most;
    loop->latencies = malloc(loop->capacity * sizeof(*loop->latencies));
    loop->lateness = malloc(loop->capacity * sizeof(*loop->lateness));
    loop->connections = calloc(plan->connections, sizeof(*loop->connections));
    CHECK(loop->latencies != NULL && loop->lateness != NULL && loop->connections != NULL);
    /* Touched now: no page fault while it counts. */
    memset(loop->latencies, 0xff, loop->capacity * sizeof(*loop->latencies));
    memset(loop->lateness, 0xff, loop->capacity * sizeof(*loop->lateness));
    loop->limit = MAX(1u, plan->in_flight_max / plan->connections);
    for (loop->mask = 1; loop->mask < loop->limit; loop->mask *= 2) {
    }
    loop->mask--;
    for (uint32_t i = 0; i < plan->connections; i++) {
        if (!connection_open(loop, i, why, why_bytes)) {
            return false;
        }
    }
    return true;
}

static void
loop_close(struct open_loop *loop)
{
    for (uint32_t i = 0; loop->connections != NULL && i < loop->plan->connections; i++) {
        pipeline_close(&loop->connections[i].pipeline);
        free(loop->connections[i].intended);
    }
    if (loop->epoll >= 0) {
        close(loop->epoll);
    }
    load_close(loop->load);
    free(loop->connections);
    free(loop->lateness);
}

static void
scanner_add(struct open_result *result, const struct scanner *scanner)
{
    result->misses += scanner->misses;
    result->errors += scanner->errors;
    result->surprises += scanner->surprises;
    if (result->error[0] == '\0') {
        snprintf(result->error, sizeof(result->error), "%s", scanner->first_error);
    }
}

static void
result_make(struct open_loop *loop)
{
    struct open_result *result = loop->result;
    double ns_per_tick = machine_ns_per_cycle();
    for (uint32_t i = 0; i < loop->plan->connections; i++) {
        scanner_add(result, &loop->connections[i].pipeline.scanner);
    }
    result->latencies = loop->latencies;
    loop->latencies = NULL;
    result->latency = summary_of(result->latencies, loop->sampled, ns_per_tick);
    result->lateness = summary_of(loop->lateness, result->intended, ns_per_tick);
    if (loop->end > loop->warm && loop->sampled > 0) {
        double planned = (double)(loop->end - loop->warm);
        double taken = (double)(MAX(loop->end, loop->last_answer) - loop->warm);
        uint64_t answered = loop->sampled - result->unanswered;
        result->seconds = taken * ns_per_tick * 1e-9;
        result->achieved = (double)answered / result->seconds;
        result->kept = (double)answered / taken >= KEPT_SHARE * (double)result->intended / planned &&
                       result->errors + result->surprises == 0;
    }
    result->client_bound =
        result->lateness.p99_us > CLIENT_MOMENT_US && result->lateness.p99_us > CLIENT_SHARE * result->latency.p99_us;
}

bool
open_loop_run(const struct open_plan *plan, struct open_result *result, char *why, size_t why_bytes)
{
    struct open_loop loop = { .plan = plan, .result = result, .epoll = -1 };
    struct progress progress;
    double ticks_per_second = 1e9 / machine_ns_per_cycle();
    *result = (struct open_result){ 0 };
    if (plan->cpu >= 0) {
        machine_pin(plan->cpu);
    }
    bool good = loop_open(&loop, why, why_bytes);
    if (good) {
        double planned = (plan->warmup_seconds + plan->seconds) * ticks_per_second;
        progress_begin(&progress, plan->progress, (uint64_t)planned);
        progress.on &= plan->progress != NULL;
        open_schedule_init(&loop.schedule, plan->rate, ticks_per_second, plan->poisson, plan->load.seed);
        loop.begin = cycles_now();
        loop.warm = loop.begin + (uint64_t)(plan->warmup_seconds * ticks_per_second);
        loop.end = loop.begin + (uint64_t)planned;
        loop.late_ticks = (uint64_t)(OPEN_LATE_US * 1e-6 * ticks_per_second);
        loop_spin(&loop, &progress);
        silence_check(&loop);
        unanswered_add(&loop);
        progress_end(&progress);
        result_make(&loop);
    }
    free(loop.latencies);
    loop_close(&loop);
    return good;
}

void
open_result_fini(struct open_result *result)
{
    free(result->latencies);
    result->latencies = NULL;
}
