/* race_exec.c - handlers of several members on the same keys, in process. What must hold:
 *   every acknowledged INCR, ZADD INCR, HSET, APPEND is there at the end, and nothing else;
 *   SET NX and DEL make a lock: what it guards is an ordinary variable;
 *   SET GET hands each value over exactly once;
 *   MGET and EXISTS see several keys as they were at one moment.
 *
 * usage: race_exec [seconds [threads]] */
#include "dataplane/exec.h"
#include "dataplane/session.h"
#include "test/store/audit.h"
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 8
#define WORDS_MAX   8
#define FIELDS      12
#define APPENDS_MAX 3000
#define OUT_BYTES   (64 * 1024)

struct worker {
    struct store *store;
    struct store_member *member;
    pthread_t thread;
    uint32_t index;
    uint64_t random, requests, retries;

    uint64_t increments, score, appends; /* acknowledged */
    uint64_t set_sum, handed_sum, chain; /* SET GET: values given, values got back, own values so far */
    uint64_t field_versions[FIELDS];     /* 0: absent */
    uint64_t owner_step;

    struct session session;
    struct sink sink;
    struct reply reply;
    struct arg args[WORDS_MAX];
    char words[WORDS_MAX][40];
    uint8_t out[OUT_BYTES];
};

static _Atomic bool stop;
static uint64_t guarded; /* by the key "lock" alone */

static _Noreturn void
fail(const char *what, const char *reply)
{
    fprintf(stderr, "race_exec: %s: %s\n", what, reply);
    abort();
}

static uint32_t
draw(struct worker *worker, uint32_t bound)
{
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return (uint32_t)((worker->random >> 16) % bound);
}

/* ---- one request ---- */

static bool
out_more(struct sink *sink, size_t bytes)
{
    sink->failed = true;
    return false;
}

static void
out_rewind(struct sink *sink, uint64_t offset)
{
    sink->at = sink->chunk + offset;
    sink->failed = false;
}

static const struct sink_ops out_ops = { .more = out_more, .rewind = out_rewind };

static void
turn(struct worker *worker)
{
    store_quiesce(worker->member);
    store_housekeep(worker->member);
}

/* The words of `line` become a request; tried until it is done. The reply ends in NUL and lives until the next call. */
__attribute__((format(printf, 2, 3))) static const char *
ask(struct worker *worker, const char *line, ...)
{
    char text[200], *rest = text;
    va_list list;
    va_start(list, line);
    vsnprintf(text, sizeof(text), line, list);
    va_end(list);

    struct request request = { .command = command_find(slice_text(strtok_r(text, " ", &rest))), .args = worker->args };
    for (char *word = strtok_r(NULL, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        CHECK(request.args_count < WORDS_MAX);
        snprintf(worker->words[request.args_count], sizeof(worker->words[0]), "%s", word);
        worker->args[request.args_count] =
            (struct arg){ .bytes = slice_text(worker->words[request.args_count]), .kind = ARG_BYTES };
        request.args_count++;
    }
    worker->sink =
        (struct sink){ .at = worker->out, .end = worker->out + OUT_BYTES - 1, .chunk = worker->out, .ops = &out_ops };
    reply_init(&worker->reply, WIRE_RESP2, &worker->sink);
    reply_begin(&worker->reply, 0);
    struct exec exec = {
        .request = &request, .reply = &worker->reply, .store = worker->member, .session = &worker->session, .now_ms = 1
    };
    exec.hash = store_hash(worker->store, worker->args[0].bytes);
    while (exec_table[request.command->id](&exec) == EXEC_RETRY) {
        reply_restart(&worker->reply);
        exec.attempt++;
        worker->retries++;
        turn(worker);
        sched_yield();
    }
    reply_end(&worker->reply);
    CHECK(!worker->sink.failed);
    *worker->sink.at = '\0';
    if (worker->out[0] == '-') {
        fail(line, (const char *)worker->out);
    }
    worker->requests++;
    return (const char *)worker->out;
}

static void
expect(const char *reply, const char *expected, const char *what)
{
    if (strcmp(reply, expected) != 0) {
        fail(what, reply);
    }
}

/* The value of the n-th bulk in a reply; "" when it is nil. */
static uint64_t
bulk_number(const char *reply, int n)
{
    const char *at = strchr(reply, '$');
    for (; n > 0 && at != NULL; n--) {
        at = strchr(at + 1, '$');
    }
    return at == NULL || at[1] == '-' ? 0 : strtoull(strchr(at, '\n') + 1, NULL, 10);
}

/* ---- what workers do ---- */

static void
count(struct worker *worker)
{
    ask(worker, "INCR counter");
    worker->increments++;
    uint32_t by = draw(worker, 5);
    ask(worker, "ZADD z INCR %u shared", by);
    worker->score += by;
    if (worker->appends < APPENDS_MAX) {
        ask(worker, "APPEND log x");
        worker->appends++;
    }
}

/* Fields and members of one object that nobody else writes. */
static void
own_fields(struct worker *worker)
{
    char expected[64];
    uint32_t field = draw(worker, FIELDS);
    uint64_t version = worker->field_versions[field];
    const char *got = ask(worker, "HGET h f%u:%u", worker->index, field);
    if (version == 0) {
        expect(got, "$-1\r\n", "a removed field is back");
    } else if (bulk_number(got, 0) != version) {
        fail("a field is not what was written", got);
    }
    if (version != 0 && draw(worker, 3) == 0) {
        expect(ask(worker, "HDEL h f%u:%u", worker->index, field), ":1\r\n", "HDEL of a field that is there");
        expect(ask(worker, "ZREM z f%u:%u", worker->index, field), ":1\r\n", "ZREM of a member that is there");
        worker->field_versions[field] = 0;
        return;
    }
    uint64_t next = worker->requests + 1;
    snprintf(expected, sizeof(expected), ":%d\r\n", version == 0);
    expect(ask(worker, "HSET h f%u:%u %lu", worker->index, field, (unsigned long)next), expected, "HSET");
    expect(ask(worker, "ZADD z %lu f%u:%u", (unsigned long)next, worker->index, field), expected, "ZADD");
    worker->field_versions[field] = next;
}

static void
lock(struct worker *worker)
{
    if (strcmp(ask(worker, "SET lock %u NX", worker->index), "+OK\r\n") != 0) {
        return;
    }
    guarded++;
    expect(ask(worker, "DEL lock"), ":1\r\n", "somebody took a lock that was held");
}

static void
hand_over(struct worker *worker)
{
    uint64_t value = ++worker->chain * THREADS_MAX + worker->index;
    worker->handed_sum += bulk_number(ask(worker, "SET chain %lu GET", (unsigned long)value), 0);
    worker->set_sum += value;
}

static void
own_keys(struct worker *worker)
{
    uint32_t made = 0;
    char expected[16];
    for (uint32_t i = 0; i < 4; i++) {
        if (draw(worker, 2)) {
            ask(worker, "SET k%u:%u v", worker->index, i);
            made++;
        }
    }
    snprintf(expected, sizeof(expected), ":%u\r\n", made);
    const char *got =
        ask(worker, "DEL k%u:0 k%u:1 k%u:2 k%u:3", worker->index, worker->index, worker->index, worker->index);
    expect(got, expected, "DEL of own keys");
}

/* Worker 0 writes `first` before `second`, and always has p or q. */
static void
write_pair(struct worker *worker)
{
    static const char *const steps[] = { "SET p 1", "DEL q", "SET q 1", "DEL p" };
    ask(worker, "INCR first");
    ask(worker, "INCR second");
    ask(worker, "%s", steps[worker->owner_step++ % 4]);
}

static void
read_pair(struct worker *worker)
{
    const char *got = ask(worker, "MGET first second");
    uint64_t first = bulk_number(got, 0), second = bulk_number(got, 1);
    if (first - second > 1) {
        fail("MGET saw two moments", got);
    }
    got = ask(worker, "EXISTS p q");
    if (got[1] == '0') {
        fail("EXISTS saw two moments", got);
    }
}

static void *
worker_run(void *argument)
{
    static void (*const acts[])(struct worker *) = { count, own_fields, lock, hand_over, own_keys };
    struct worker *worker = argument;
    worker->member = store_join(worker->store, worker->index, "race");
    CHECK(worker->member != NULL);
    store_set_time(worker->member, 1);
    if (worker->index == 0) {
        ask(worker, "SET q 1");
    } else {
        while (strcmp(ask(worker, "EXISTS q"), ":1\r\n") != 0) {
            turn(worker);
        }
    }
    while (!load_relaxed(&stop)) {
        for (int i = 0; i < 8; i++) {
            acts[draw(worker, ARRAY_COUNT(acts))](worker);
            if (worker->index == 0) {
                write_pair(worker);
            } else {
                read_pair(worker);
            }
        }
        turn(worker);
    }
    store_leave(worker->member);
    return NULL;
}

/* ---- the end ---- */

static void
total_check(const char *what, uint64_t got, uint64_t expected)
{
    if (got != expected) {
        fprintf(stderr, "race_exec: %s is %lu, acknowledged %lu\n", what, (unsigned long)got, (unsigned long)expected);
        abort();
    }
}

static void
final_check(struct worker *workers, uint32_t threads)
{
    struct worker sum = { 0 }, *one = &workers[0];
    uint64_t fields = 0, requests = 0, retries = 0;
    for (uint32_t i = 0; i < threads; i++) {
        sum.increments += workers[i].increments;
        sum.score += workers[i].score;
        sum.appends += workers[i].appends;
        sum.set_sum += workers[i].set_sum;
        sum.handed_sum += workers[i].handed_sum;
        requests += workers[i].requests;
        retries += workers[i].retries;
        for (uint32_t f = 0; f < FIELDS; f++) {
            fields += workers[i].field_versions[f] != 0;
        }
    }
    one->member = store_join(one->store, 0, "check");
    store_set_time(one->member, 1);
    total_check("counter", bulk_number(ask(one, "GET counter"), 0), sum.increments);
    total_check("score", bulk_number(ask(one, "ZSCORE z shared"), 0), sum.score);
    total_check("log", strtoull(ask(one, "STRLEN log") + 1, NULL, 10), sum.appends);
    total_check("chain", sum.handed_sum + bulk_number(ask(one, "GET chain"), 0), sum.set_sum);
    total_check("fields", strtoull(ask(one, "HLEN h") + 1, NULL, 10), fields);
    total_check("members", strtoull(ask(one, "ZCARD z") + 1, NULL, 10), fields + (sum.increments > 0));
    CHECK(audit_passes(one->member, 0));
    store_leave(one->member);
    printf("race_exec: %lu requests, %lu retries, %lu locks\n", (unsigned long)requests, (unsigned long)retries,
           (unsigned long)guarded);
    CHECK(guarded > 0 && sum.increments > 0);
}

int
main(int argc, char **argv)
{
    static struct worker workers[THREADS_MAX];
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    uint32_t threads = argc > 2 ? MIN((uint32_t)atoi(argv[2]), THREADS_MAX) : 3;
    struct store *store;
    struct store_config config = {
        .memory = { .reserve_bytes = 256 * MIB, .limit_bytes = 192 * MIB, .ahead_bytes = 32 * MIB },
        .keys_expected = 1000,
        .members = THREADS_MAX,
        .trust_cycle_counter = true,
    };
    CHECK(store_open(&config, &store) == 0);
    for (uint32_t i = 0; i < threads; i++) {
        workers[i].store = store;
        workers[i].index = i;
        workers[i].random = 0x9e3779b97f4a7c15ull * (i + 1);
        CHECK(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) == 0);
    }
    for (double left = seconds; left > 0; left -= 0.001) { /* the management core's part */
        store_manage(store);
        usleep(1000);
    }
    store_relaxed(&stop, true);
    for (uint32_t i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    final_check(workers, threads);
    store_close(store);
    return 0;
}
