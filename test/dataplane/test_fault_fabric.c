/* test_fault_fabric.c - exactly once, in order, nothing leaked: four clients over a fabric that breaks, a thousand
 * times.
 *
 * Each client counts, writes and reads in pipelines and checks every reply against what it must be. After a loss it
 * resumes; some clients then forget whatever the server had not taken, as a restarted one would, and send something
 * else: what was executed is known for certain, so the counters still end exact.
 *
 *     test_fault_fabric                  the whole suite
 *     test_fault_fabric --seeds N        the first N seeds
 *     test_fault_fabric --seed S [-v]    one seed again, and what happened in it */
#include "test/dataplane/fabric_rig.h"
#include <CUnit/Basic.h>
#include <stdarg.h>

#define CLIENTS       4
#define REQUESTS      60   /* of each client */
#define PIPELINE      16   /* most in flight */
#define VALUE_MAX     1400 /* bytes: several frames */
#define STEPS_MAX     60000
#define QUEUE         64 /* requests remembered, a power of two */
#define OLD_IDS       64
#define PLANTED_SEEDS 60

enum plant {
    PLANT_NONE,
    PLANT_TWICE,      /* the server forgets that it took a request */
    PLANT_LOST_REPLY, /* the server forgets a reply that was not acknowledged */
    PLANT_STALE,      /* frames of a fenced incarnation are taken for the new one's */
};

enum ask_kind { ASK_INCR, ASK_INCR_SHARED, ASK_SET, ASK_GET };

/* A request on its way, and the client's picture before it. */
struct ask {
    enum ask_kind kind;
    uint64_t begin, end; /* stream offsets */
    int64_t own_before;
    uint32_t value_before;
};

struct tester {
    struct fabric_end end;
    uint32_t index;
    bool forgets;    /* what the server had not taken when it resumes */
    bool only_reads; /* and never asks for progress alone, as a client that spins */
    bool was_killed, fresh;
    struct ask asks[QUEUE];
    uint64_t asked, answered; /* counts; asks[] holds those between */
    uint32_t left;            /* requests still to be made */
    int64_t own;              /* own counter when all asked is done */
    uint32_t value;           /* number of the last SET asked; 0: none */
    int64_t shared_seen;
    char in[65536];
    size_t in_bytes;
};

struct run {
    struct rig *rig;
    struct tester testers[CLIENTS];
    uint64_t seed;
    enum plant plant;
    bool verbose;
    int64_t shared_done; /* INCRs of the shared counter that were answered */
    uint32_t resumes, kills, forgotten;
    char failure[256]; /* first thing that was wrong */
    struct {
        uint32_t wire_id, incarnation;
        uint32_t tester;
    } old_ids[OLD_IDS];
    uint32_t old_count;
};

static struct rig rig;

static void
fail(struct run *run, const char *format, ...)
{
    if (run->failure[0] == '\0') {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(run->failure, sizeof(run->failure), format, arguments);
        va_end(arguments);
    }
}

static void
trace(const struct run *run, const char *format, ...)
{
    if (run->verbose) {
        va_list arguments;
        va_start(arguments, format);
        printf("%8llu us  ", (unsigned long long)rig.now_us);
        vprintf(format, arguments);
        printf("\n");
        va_end(arguments);
    }
}

static uint32_t
draw(struct run *run, uint32_t below)
{
    return fault_fabric_random(run->rig->fabric, below);
}

/* ---- requests ---- */

/* The bytes of a client's n-th value: its own, and long enough to need several frames. */
static size_t
value_print(char *out, uint32_t tester, uint32_t n)
{
    size_t bytes = 1 + (n * 2654435761u >> 8) % VALUE_MAX;
    for (size_t i = 0; i < bytes; i++) {
        out[i] = (char)('a' + (n * 31 + tester * 7 + i) % 26);
    }
    return bytes;
}

static size_t
request_print(char *out, const struct tester *tester, enum ask_kind kind)
{
    char value[VALUE_MAX];
    switch (kind) {
    case ASK_INCR:
        return (size_t)sprintf(out, "*2\r\n$4\r\nINCR\r\n$2\r\nc%u\r\n", tester->index);
    case ASK_INCR_SHARED:
        return (size_t)sprintf(out, "*2\r\n$4\r\nINCR\r\n$6\r\nshared\r\n");
    case ASK_GET:
        return (size_t)sprintf(out, "*2\r\n$3\r\nGET\r\n$2\r\nk%u\r\n", tester->index);
    case ASK_SET:
        break;
    }
    size_t bytes = value_print(value, tester->index, tester->value);
    size_t head = (size_t)sprintf(out, "*3\r\n$3\r\nSET\r\n$2\r\nk%u\r\n$%zu\r\n", tester->index, bytes);
    memcpy(out + head, value, bytes);
    memcpy(out + head + bytes, "\r\n", 2);
    return head + bytes + 2;
}

static void
ask(struct run *run, struct tester *tester)
{
    char request[VALUE_MAX + 128];
    struct ask *next = &tester->asks[tester->asked % QUEUE];

    *next = (struct ask){ .kind = (enum ask_kind)draw(run, 4),
                          .begin = tester->end.out_end,
                          .own_before = tester->own,
                          .value_before = tester->value };
    tester->own += next->kind == ASK_INCR;
    tester->value += next->kind == ASK_SET;
    size_t bytes = request_print(request, tester, next->kind);
    CHECK(fabric_end_write(&tester->end, request, bytes, rig.now_us) == bytes);
    next->end = tester->end.out_end;
    tester->asked++;
    tester->left--;
}

/* ---- replies ---- */

/* What the request must be answered with; 0 bytes: any larger integer than before. */
static size_t
expected_print(char *out, const struct tester *tester, const struct ask *asked)
{
    char value[VALUE_MAX];
    switch (asked->kind) {
    case ASK_INCR:
        return (size_t)sprintf(out, ":%lld\r\n", (long long)asked->own_before + 1);
    case ASK_SET:
        return (size_t)sprintf(out, "+OK\r\n");
    case ASK_INCR_SHARED:
        return 0;
    case ASK_GET:
        break;
    }
    if (asked->value_before == 0) {
        return (size_t)sprintf(out, "$-1\r\n");
    }
    size_t bytes = value_print(value, tester->index, asked->value_before);
    size_t head = (size_t)sprintf(out, "$%zu\r\n", bytes);
    memcpy(out + head, value, bytes);
    memcpy(out + head + bytes, "\r\n", 2);
    return head + bytes + 2;
}

/* Take one reply off the front. False: it is not whole, or wrong. */
static bool
check_reply(struct run *run, struct tester *tester)
{
    char expected[VALUE_MAX + 64];
    const struct ask *asked = &tester->asks[tester->answered % QUEUE];

    if (tester->in_bytes == 0) {
        return false;
    }
    if (tester->answered == tester->asked) {
        fail(run, "client %u: a reply to nothing: %.20s", tester->index, tester->in);
        return false;
    }
    size_t bytes = expected_print(expected, tester, asked);
    if (bytes == 0) {
        const char *line_end = memchr(tester->in, '\n', tester->in_bytes);
        if (line_end == NULL) {
            return false;
        }
        bytes = (size_t)(line_end - tester->in) + 1;
        int64_t seen = tester->in[0] == ':' ? atoll(tester->in + 1) : -1;
        if (seen <= tester->shared_seen) {
            fail(run, "client %u: request %llu, shared counter answered %.*s after %lld", tester->index,
                 (unsigned long long)tester->answered, (int)bytes - 2, tester->in, (long long)tester->shared_seen);
            return false;
        }
        tester->shared_seen = seen;
        run->shared_done++;
    } else {
        if (memcmp(tester->in, expected, MIN(bytes, tester->in_bytes)) != 0) {
            fail(run, "client %u: request %llu was answered %.24s, not %.24s", tester->index,
                 (unsigned long long)tester->answered, tester->in, expected);
            return false;
        }
        if (tester->in_bytes < bytes) {
            return false;
        }
    }
    tester->in_bytes -= bytes;
    memmove(tester->in, tester->in + bytes, tester->in_bytes);
    tester->answered++;
    return true;
}

/* ---- loss ---- */

/* What the server has not begun to take was not executed and never will be: go on with other requests. */
static void
forget_untaken(struct run *run, struct tester *tester, uint64_t taken)
{
    uint64_t keep = tester->asked;

    while (keep > tester->answered && tester->asks[(keep - 1) % QUEUE].begin >= taken) {
        keep--;
    }
    if (keep == tester->asked) {
        return;
    }
    const struct ask *first = &tester->asks[keep % QUEUE];
    tester->end.out_end = first->begin;
    tester->own = first->own_before;
    tester->value = first->value_before;
    tester->left += (uint32_t)(tester->asked - keep);
    run->forgotten += (uint32_t)(tester->asked - keep);
    trace(run, "client %u forgets %llu requests from offset %llu on", tester->index,
          (unsigned long long)(tester->asked - keep), (unsigned long long)first->begin);
    tester->asked = keep;
}

/* PLANT_TWICE: make the server believe that it did not take the request it took last. */
static void
plant_twice(struct run *run, struct tester *tester, struct fabric_attachment *attachment)
{
    struct fabric_session *session = rig_session(run->rig, &tester->end);

    for (uint64_t i = tester->asked; i > tester->answered; i--) {
        const struct ask *asked = &tester->asks[(i - 1) % QUEUE];
        if (asked->end == attachment->taken && asked->begin >= tester->end.stream.acknowledged) {
            session->stream.received = session->stream.taken = session->stream.told = asked->begin;
            session->stream.known_end = asked->begin;
            attachment->taken = asked->begin;
            trace(run, "planted: request %llu of client %u comes twice", (unsigned long long)i - 1, tester->index);
            return;
        }
    }
}

/* PLANT_LOST_REPLY: how many bytes of the next reply, which the client has not got, to claim as received. */
static uint64_t
plant_lost_reply(struct run *run, struct tester *tester)
{
    char expected[VALUE_MAX + 64];
    struct fabric_session *session = rig_session(run->rig, &tester->end);

    if (run->plant != PLANT_LOST_REPLY || tester->in_bytes > 0 || tester->answered == tester->asked) {
        return 0;
    }
    uint64_t bytes = expected_print(expected, tester, &tester->asks[tester->answered % QUEUE]);
    if (session == NULL || tester->end.stream.received + bytes > session->stream.sent) {
        return 0;
    }
    trace(run, "planted: the next %llu bytes of replies to client %u are lost", (unsigned long long)bytes,
          tester->index);
    return bytes;
}

static void
remember_ids(struct run *run, const struct tester *tester)
{
    if (run->old_count < OLD_IDS) {
        run->old_ids[run->old_count].wire_id = tester->end.attachment.wire_id;
        run->old_ids[run->old_count].incarnation = tester->end.attachment.incarnation;
        run->old_ids[run->old_count].tester = tester->index;
        run->old_count++;
    }
}

/* PLANT_STALE: a server that does not fence. */
static void
unfence(void *context, const struct endpoint *to, uint8_t *message, uint32_t bytes)
{
    struct run *run = context;
    struct envelope envelope;

    if (bytes < ENVELOPE_BYTES || to != rig_port(run->rig)->endpoint) {
        return;
    }
    memcpy(&envelope, message, sizeof(envelope));
    for (uint32_t i = 0; i < run->old_count; i++) {
        if (run->old_ids[i].wire_id == envelope.wire_id && run->old_ids[i].incarnation == envelope.incarnation) {
            const struct fabric_attachment *now = &run->testers[run->old_ids[i].tester].end.attachment;
            envelope.wire_id = now->wire_id;
            envelope.incarnation = now->incarnation;
            envelope_write(message, &envelope);
            return;
        }
    }
}

static void
recover(struct run *run, struct tester *tester)
{
    struct endpoint_config config = { .provider = "fault", .send = tester->end.send };
    struct fabric_attachment attachment;
    char why[128];

    trace(run, "client %u is lost: %s", tester->index, tester->end.error);
    if (tester->fresh || tester->was_killed) {
        CHECK(fabric_end_reopen(&tester->end, &config, why, sizeof(why)) == 0);
        tester->was_killed = false;
    }
    /* One byte or more of what came may not be read yet: it is the client's already. */
    uint64_t lost = plant_lost_reply(run, tester);
    remember_ids(run, tester);
    if (!rig_resume(run->rig, &tester->end, fabric_end_received(&tester->end) + lost, &attachment)) {
        fail(run, "client %u could not resume: %.100s", tester->index, run->rig->reply);
        return;
    }
    tester->end.stream.received += lost;
    if (run->plant == PLANT_TWICE) {
        plant_twice(run, tester, &attachment);
    }
    int rc = fabric_end_resume(&tester->end, &attachment, rig.now_us);
    if (rc != 0) {
        fail(run, "client %u: the resumed session does not fit: %d", tester->index, rc);
        return;
    }
    tester->fresh = true;
    run->resumes++;
    trace(run, "client %u resumes: requests from %llu, replies from %llu", tester->index,
          (unsigned long long)attachment.taken, (unsigned long long)tester->end.stream.received);
    if (tester->forgets) {
        forget_untaken(run, tester, attachment.taken);
    }
}

/* ---- a run ---- */

static void
tester_step(struct run *run, struct tester *tester)
{
    if (tester->end.state == FABRIC_END_LOST) {
        recover(run, tester);
        return;
    }
    if (tester->end.state != FABRIC_END_UP) {
        fail(run, "client %u: the session ended: %s", tester->index, tester->end.error);
        return;
    }
    uint32_t pipeline = 1 + draw(run, PIPELINE);
    if (draw(run, 4) == 0) {
        while (tester->left > 0 && tester->asked - tester->answered < pipeline) {
            ask(run, tester);
        }
    }
    bool reads = draw(run, 3) != 0;
    if (reads || tester->only_reads) {
        size_t room = 1 + draw(run, 700);
        size_t got = fabric_end_read(&tester->end, tester->in + tester->in_bytes,
                                     MIN(room, sizeof(tester->in) - tester->in_bytes), rig.now_us);
        tester->in_bytes += got;
        tester->fresh = tester->fresh && got == 0;
    } else {
        fabric_end_progress(&tester->end, rig.now_us);
    }
    while (run->failure[0] == '\0' && check_reply(run, tester)) {
    }
    if (tester->left > 0 && draw(run, 4000) == 0 && run->kills < 4) {
        trace(run, "client %u loses its endpoint", tester->index);
        fault_endpoint_kill(tester->end.endpoint);
        tester->was_killed = true;
        run->kills++;
    }
}

static bool
run_is_done(const struct run *run)
{
    for (uint32_t i = 0; i < CLIENTS; i++) {
        if (run->testers[i].left > 0 || run->testers[i].answered < run->testers[i].asked) {
            return false;
        }
    }
    return true;
}

static void
check_counter(struct run *run, const char *key, int64_t want)
{
    const char *const words[] = { "GET", key, NULL };
    const char *reply = rig_ask(run->rig, words, slice_of(NULL, 0));
    const char *digits = strstr(reply, "\r\n");
    int64_t got = reply[0] == '$' && reply[1] != '-' ? atoll(digits + 2) : 0;
    if (got != want) {
        fail(run, "%s is %lld, not %lld", key, (long long)got, (long long)want);
    }
}

static void
check_end(struct run *run)
{
    char key[8];

    for (uint32_t i = 0; i < CLIENTS; i++) {
        snprintf(key, sizeof(key), "c%u", i);
        check_counter(run, key, run->testers[i].own);
        if (run->testers[i].in_bytes > 0) {
            fail(run, "client %u has bytes that answer nothing", i);
        }
    }
    check_counter(run, "shared", run->shared_done);
}

/* Everyone leaves; what they do not say, the leases do. */
static void
run_close(struct run *run)
{
    fault_fabric_calm(run->rig->fabric);
    fault_fabric_on_arrival(run->rig->fabric, NULL, NULL);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        fabric_end_close(&run->testers[i].end);
    }
    uint32_t patience = 70 * RIG_LEASE_MS * 1000 / RIG_STEP_US; /* longer than a silent session is kept */
    for (uint32_t i = 0; i < patience && port_fabric_sessions(run->rig->port) > 0; i++) {
        rig_turn(run->rig);
    }
    rig_turns(run->rig, 4); /* repeats on their way find nobody */
    if (!rig_port_is_clean(run->rig)) {
        fail(run, "the port is not as it was before");
    }
}

static struct fault_config
config_draw(uint64_t seed)
{
    static const uint32_t rates[] = { 0, 5, 20, 60 };
    uint64_t bits = seed * 0x9e3779b97f4a7c15ull;
    struct fault_config config = {
        .drop = (uint32_t[]){ 0, 2, 6, 12 }[bits >> 62],
        .duplicate = rates[bits >> 60 & 3],
        .delay = rates[bits >> 58 & 3] * 5,
        .truncate = (uint32_t[]){ 0, 0, 2, 6 }[bits >> 56 & 3],
        .storm = rates[bits >> 54 & 3],
        .forge = rates[bits >> 52 & 3],
        .replay = rates[bits >> 50 & 3],
        .delay_steps = 30,
        .inject_bytes = (uint32_t[]){ 0, 32, 128, FAULT_FRAME }[bits >> 48 & 3],
        .source_reliable = bits >> 47 & 1,
    };
    return config;
}

/* Run one seed. The failure, or "" when all was right. */
static void
run_seed(struct run *run, uint64_t seed, enum plant plant, bool verbose)
{
    static const char *const forget[] = { "DEL", "c0", "c1", "c2", "c3", "k0", "k1", "k2", "k3", "shared", NULL };
    struct fault_config config = config_draw(seed);
    char why[256];

    memset(run, 0, sizeof(*run));
    *run = (struct run){ .rig = &rig, .seed = seed, .plant = plant, .verbose = verbose };
    snprintf(rig.port_settings.send, sizeof(rig.port_settings.send), "%s", seed % 3 == 0 ? "send" : "auto");
    CHECK(rig_open_port(&rig, &config, seed, why, sizeof(why)) == 0);
    rig_ask(&rig, forget, slice_of(NULL, 0));
    for (uint32_t i = 0; i < CLIENTS; i++) {
        struct tester *tester = &run->testers[i];
        tester->index = i;
        tester->left = REQUESTS;
        tester->only_reads = i % 2 == 1;
        tester->forgets = plant != PLANT_TWICE && draw(run, 2) == 0;
        rig_end_open(&rig, &tester->end, seed % 2 == 0 ? ENDPOINT_SEND_AUTO : ENDPOINT_SEND_SEND);
        if (!rig_attach(&rig, &tester->end, "resp2")) {
            fail(run, "client %u could not attach: %.100s", i, rig.reply);
        }
    }
    if (plant == PLANT_STALE) {
        fault_fabric_on_arrival(rig.fabric, unfence, run);
    }
    uint32_t steps = 0;
    for (; steps < STEPS_MAX && !run_is_done(run) && run->failure[0] == '\0'; steps++) {
        rig_turn(&rig);
        for (uint32_t i = 0; i < CLIENTS; i++) {
            tester_step(run, &run->testers[i]);
        }
    }
    if (steps == STEPS_MAX) {
        fail(run, "does not end");
    }
    if (run->failure[0] == '\0') {
        check_end(run);
    }
    run_close(run);
}

static uint64_t
used_bytes(void)
{
    struct store_stats stats;
    store_stats(rig.dataplane->store, &stats);
    return stats.memory.used_bytes;
}

/* ---- tests ---- */

static uint32_t seeds_to_run = 1000;

static void
replies_are_exact_and_nothing_leaks_whatever_the_fabric_does(void)
{
    struct fault_stats all = { 0 };
    uint64_t resumes = 0, kills = 0, forgotten = 0, failures = 0, early = 0;
    static struct run run;

    for (uint64_t seed = 1; seed <= seeds_to_run; seed++) {
        run_seed(&run, seed, PLANT_NONE, false);
        if (run.failure[0] != '\0') {
            fprintf(stderr, "seed %llu: %s (again: test_fault_fabric --seed %llu -v)\n", (unsigned long long)seed,
                    run.failure, (unsigned long long)seed);
            failures++;
        }
        const struct fault_stats *stats = fault_fabric_stats(rig.fabric);
        all.dropped += stats->dropped;
        all.duplicated += stats->duplicated;
        all.truncated += stats->truncated;
        all.forged += stats->forged;
        all.replayed += stats->replayed;
        all.agains += stats->agains;
        resumes += run.resumes;
        kills += run.kills;
        forgotten += run.forgotten;
        if (!rig_close_port(&rig)) {
            CU_FAIL_FATAL("a port with sessions cannot be closed");
        }
        if (seed == MIN(50, seeds_to_run / 2)) {
            early = used_bytes();
        }
    }
    CU_ASSERT_EQUAL(failures, 0);
    uint64_t late = used_bytes();
    if (late > early + 65536) {
        fprintf(stderr, "memory grew from %llu to %llu bytes\n", (unsigned long long)early, (unsigned long long)late);
    }
    CU_ASSERT(late <= early + 65536);
    printf("resumed %llu, endpoints lost %llu, requests forgotten %llu; dropped %llu, duplicated %llu, cut %llu, "
           "forged %llu, replayed %llu, again %llu\n",
           (unsigned long long)resumes, (unsigned long long)kills, (unsigned long long)forgotten,
           (unsigned long long)all.dropped, (unsigned long long)all.duplicated, (unsigned long long)all.truncated,
           (unsigned long long)all.forged, (unsigned long long)all.replayed, (unsigned long long)all.agains);
    CU_ASSERT(resumes > seeds_to_run / 2); /* the fabric was as bad as meant */
    CU_ASSERT(all.dropped > 0 && all.duplicated > 0 && all.truncated > 0 && all.forged > 0 && all.replayed > 0 &&
              all.agains > 0 && forgotten > 0);
}

static void
one_seed_is_one_run(void)
{
    static struct run run;
    uint64_t digests[2], turns[2];

    for (uint64_t seed = 1; seed <= 20; seed++) {
        for (uint32_t i = 0; i < 2; i++) {
            run_seed(&run, seed, PLANT_NONE, false);
            digests[i] = fault_fabric_digest(rig.fabric);
            turns[i] = rig.turns;
            CU_ASSERT_TRUE_FATAL(rig_close_port(&rig));
        }
        CU_ASSERT_EQUAL(digests[0], digests[1]);
        CU_ASSERT_EQUAL(turns[0], turns[1]);
    }
}

/* How many of the first seeds notice it. */
static uint32_t
planted_is_noticed(enum plant plant)
{
    static struct run run;
    uint32_t noticed = 0;

    for (uint64_t seed = 1; seed <= PLANTED_SEEDS; seed++) {
        run_seed(&run, seed, plant, false);
        noticed += run.failure[0] != '\0';
        while (!rig_close_port(&rig)) {
            rig_turns(&rig, 100); /* a session that was broken on purpose takes its time */
        }
    }
    return noticed;
}

static void
a_request_executed_twice_is_noticed(void)
{
    CU_ASSERT(planted_is_noticed(PLANT_TWICE) > 0);
}

static void
a_lost_reply_is_noticed(void)
{
    CU_ASSERT(planted_is_noticed(PLANT_LOST_REPLY) > 0);
}

static void
an_incarnation_that_is_not_fenced_is_noticed(void)
{
    CU_ASSERT(planted_is_noticed(PLANT_STALE) > 0);
}

static int
replay(uint64_t seed, bool verbose)
{
    static struct run run;

    run_seed(&run, seed, PLANT_NONE, verbose);
    printf("seed %llu: %s\n", (unsigned long long)seed, run.failure[0] != '\0' ? run.failure : "right");
    while (!rig_close_port(&rig)) {
        rig_turns(&rig, 100);
    }
    rig_stop(&rig);
    return run.failure[0] != '\0';
}

int
main(int argc, char **argv)
{
    rig_start(&rig);
    if (argc >= 3 && strcmp(argv[1], "--seed") == 0) {
        return replay(strtoull(argv[2], NULL, 10), argc >= 4);
    }
    if (argc == 3 && strcmp(argv[1], "--seeds") == 0) {
        seeds_to_run = (uint32_t)strtoul(argv[2], NULL, 10);
    }
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("fault_fabric", NULL, NULL);
    CU_ADD_TEST(suite, replies_are_exact_and_nothing_leaks_whatever_the_fabric_does);
    CU_ADD_TEST(suite, one_seed_is_one_run);
    CU_ADD_TEST(suite, a_request_executed_twice_is_noticed);
    CU_ADD_TEST(suite, a_lost_reply_is_noticed);
    CU_ADD_TEST(suite, an_incarnation_that_is_not_fenced_is_noticed);
    CU_basic_set_mode(CU_BRM_NORMAL);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    rig_stop(&rig);
    return failures != 0;
}
