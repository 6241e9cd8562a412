#include "config/sync.h"
#include "test/store/store_bench.h"
#include <unistd.h>

#define SAMPLES     (1u << 20) /* keys drawn before the clock runs, then used in turn */
#define CHUNK       512        /* bursts between looks at the clock */
#define WARM_BURSTS 2000
#define LOAD_BURST  32
#define SETTLE_RUNS 200000 /* turns after the load, at most: rebuilds end */

/* ---- the turn of an lcore ---- */

struct bench_lcore {
    _Alignas(2 * CACHE_LINE) struct bench *bench; /* no line is shared, nor the one fetched with it */
    const struct bench_row *row;
    struct store_member *member;
    uint32_t index;
    uint32_t *samples;
    uint64_t next; /* sample */
    uint64_t ops, found, sets, waits;
    double cpu_s;
};

static _Atomic uint32_t lcores_ready;

struct put {
    struct slice key;
    const char *value;
};

static enum store_change
put_change(void *context, struct store_member *member, const struct record *old, struct record **fresh)
{
    const struct put *put = context;
    if (*fresh == NULL) {
        *fresh = store_record(member, RECORD_STRING, put->key, BENCH_VALUE_BYTES, RECORD_NO_EXPIRY);
        if (*fresh == NULL) {
            return STORE_NO_MEMORY;
        }
        memcpy(record_value_room(*fresh), put->value, BENCH_VALUE_BYTES);
    }
    return STORE_PUBLISH;
}

static inline void
turn(struct store_member *member)
{
    store_quiesce(member);
    store_housekeep(member);
}

static inline void
put(struct bench *bench, struct store_member *member, struct slice key, uint64_t hash, const char *value,
    uint64_t *waits)
{
    struct put put = { key, value };
    while (UNLIKELY(store_update(member, key, hash, put_change, &put) != STORE_OK)) {
        ++*waits;
        if (!bench->managed) {
            store_manage(bench->store);
        }
        turn(member);
    }
}

static inline void
burst(struct bench_lcore *lcore, enum bench_operation operation, uint32_t count)
{
    uint8_t texts[BENCH_BURST_MAX][WORKLOAD_KEY_BYTES];
    struct slice keys[BENCH_BURST_MAX];
    const struct slice *pointers[BENCH_BURST_MAX] = { NULL };
    uint64_t hashes[BENCH_BURST_MAX];
    struct store_member *member = lcore->member;
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = workload_key(texts[i], lcore->samples[(lcore->next + i) % SAMPLES]);
        pointers[i] = &keys[i];
    }
    store_prefetch(member, pointers, hashes, count);
    for (uint32_t i = 0; i < count; i++) {
        if (operation == BENCH_SET || (operation == BENCH_MIX && (lcore->next + i) % 10 == 0)) {
            put(lcore->bench, member, keys[i], hashes[i], "fedcba9876543210fedcba9876543210", &lcore->waits);
            lcore->sets++;
        } else {
            const struct record *record = store_find(member, keys[i], hashes[i]);
            lcore->found += record != NULL && record_value(record).data[0] != 0;
        }
    }
    lcore->next += count;
    turn(member);
}

/* One copy a kind of operation, as a server has. */
static inline void
bursts_run(struct bench_lcore *lcore, uint32_t bursts)
{
    uint32_t count = lcore->row->burst;
    switch (lcore->row->operation) {
    case BENCH_GET:
        for (uint32_t i = 0; i < bursts; i++) {
            burst(lcore, BENCH_GET, count);
        }
        break;
    case BENCH_SET:
        for (uint32_t i = 0; i < bursts; i++) {
            burst(lcore, BENCH_SET, count);
        }
        break;
    case BENCH_MIX:
        for (uint32_t i = 0; i < bursts; i++) {
            burst(lcore, BENCH_MIX, count);
        }
        break;
    }
    lcore->ops += (uint64_t)bursts * count;
}

/* Caches, branches, magazines. */
__attribute__((noinline)) static void
bench_warm(struct bench_lcore *lcore)
{
    bursts_run(lcore, WARM_BURSTS);
    lcore->ops = lcore->found = lcore->sets = lcore->waits = 0;
}

/* What callgrind collects: --toggle-collect=bench_bursts. */
__attribute__((noinline)) static void
bench_bursts(struct bench_lcore *lcore, uint32_t bursts)
{
    bursts_run(lcore, bursts);
}

static void
lcore_sample(struct bench_lcore *lcore)
{
    const struct bench_row *row = lcore->row;
    uint64_t random = 0x2545f4914f6cdd1dull * (lcore->index + 1), keys = lcore->bench->keys;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint64_t n = row->zipf ? workload_zipf_next(&lcore->bench->zipf, &random) : workload_below(&random, keys);
        if (row->distinct) { /* the nearest of its own */
            n = MIN(n - n % row->lcores + lcore->index, keys - row->lcores + lcore->index);
        }
        lcore->samples[i] = (uint32_t)n;
    }
}

static void *
lcore_main(void *argument)
{
    struct bench_lcore *lcore = argument;
    const struct bench_row *row = lcore->row;
    workload_pin(lcore->index);
    store_online(lcore->member);
    bench_warm(lcore);
    add_acq_rel(&lcores_ready, 1u);
    while (load_acquire(&lcores_ready) < row->lcores) {
        turn(lcore->member); /* the others may be waiting for it to quiesce */
    }
    double begun = workload_cpu_s();
    if (row->ops != 0) {
        bench_bursts(lcore, (uint32_t)(row->ops / row->burst));
    }
    for (double end = workload_wall_s() + row->seconds; row->ops == 0 && workload_wall_s() < end;) {
        bench_bursts(lcore, CHUNK);
    }
    lcore->cpu_s = workload_cpu_s() - begun;
    store_offline(lcore->member);
    return NULL;
}

void
bench_measure(struct bench *bench, struct bench_row *row)
{
    struct bench_lcore lcores[BENCH_LCORES_MAX] = { 0 };
    pthread_t threads[BENCH_LCORES_MAX];
    uint64_t ops = 0, waits = 0;
    double cpu_s = 0;
    CHECK(row->lcores <= BENCH_LCORES_MAX && row->burst >= 1 && row->burst <= BENCH_BURST_MAX);
    store_relaxed(&lcores_ready, 0u);
    for (uint32_t i = 0; i < row->lcores; i++) {
        lcores[i] = (struct bench_lcore){ .bench = bench, .row = row, .member = bench->members[i], .index = i };
        lcores[i].samples = malloc(SAMPLES * sizeof(uint32_t));
        CHECK(lcores[i].samples != NULL);
        lcore_sample(&lcores[i]);
    }
    double begun = workload_wall_s();
    for (uint32_t i = 0; i < row->lcores; i++) {
        CHECK(pthread_create(&threads[i], NULL, lcore_main, &lcores[i]) == 0);
    }
    for (uint32_t i = 0; i < row->lcores; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK(lcores[i].found + lcores[i].sets == lcores[i].ops); /* every key was there */
        ops += lcores[i].ops;
        waits += lcores[i].waits;
        cpu_s += lcores[i].cpu_s;
        free(lcores[i].samples);
    }
    double wall_s = row->ops != 0 ? workload_wall_s() - begun : row->seconds;
    row->ns = cpu_s * 1e9 / (double)ops;
    row->waits = (double)waits / (double)ops;
    row->million_second = (double)ops / wall_s / 1e6;
}

/* ---- the store ---- */

static void *
manager_main(void *argument)
{
    struct bench *bench = argument;
    while (!load_relaxed(&bench->stop)) {
        store_manage(bench->store);
        usleep(1000);
    }
    return NULL;
}

static void
bench_load(struct bench *bench)
{
    struct store_member *member = bench->members[0];
    uint8_t text[WORKLOAD_KEY_BYTES];
    uint64_t waits = 0;
    double begun = workload_cpu_s();
    store_online(member);
    for (uint64_t n = 0; n < bench->keys; n++) {
        struct slice key = workload_key(text, n);
        put(bench, member, key, store_hash(bench->store, key), "0123456789abcdef0123456789abcdef", &waits);
        if (n % LOAD_BURST == LOAD_BURST - 1) {
            turn(member);
        }
    }
    bench->load_ns = (workload_cpu_s() - begun) * 1e9 / (double)bench->keys;
    struct store_stats before = { 0 }, now = { 0 };
    for (uint32_t i = 0; i < SETTLE_RUNS; i++) {
        turn(member);
        if (i % 10000 == 0) {
            before = now;
            store_stats(bench->store, &now);
            if (i != 0 && before.rebuilds == now.rebuilds && now.limbo_bytes == 0) {
                break;
            }
        }
    }
    store_offline(member);
}

void
bench_open(struct bench *bench, uint64_t keys, uint32_t lcores, bool managed)
{
    uint64_t limit_bytes = MAX(keys * 256, 128 * MIB);
    struct store_config config = {
        .memory = { .reserve_bytes = limit_bytes,
                    .limit_bytes = limit_bytes,
                    .ahead_bytes = 16 * MIB,
                    .huge_pages = true },
        .keys_expected = keys,
        .members = lcores,
        .trust_cycle_counter = true,
    };
    *bench = (struct bench){ .keys = keys, .managed = managed };
    CHECK(store_open(&config, &bench->store) == 0);
    for (uint32_t i = 0; i < lcores; i++) {
        bench->members[i] = store_join(bench->store, i, "bench");
        CHECK(bench->members[i] != NULL);
        store_set_time(bench->members[i], 1000000);
        store_offline(bench->members[i]);
    }
    for (uint32_t i = 0; i < 100; i++) {
        store_manage(bench->store); /* pages ahead are there before the load and after it */
    }
    if (managed) {
        CHECK(pthread_create(&bench->manager, NULL, manager_main, bench) == 0);
    }
    workload_zipf_init(&bench->zipf, keys, BENCH_THETA);
    uint64_t before = workload_resident_bytes();
    bench_load(bench);
    uint64_t after = workload_resident_bytes();
    struct store_stats stats;
    store_stats(bench->store, &stats);
    bench->resident = (double)(after - MIN(before, after)) / (double)keys;
    bench->records = (double)stats.record_bytes / (double)keys;
    bench->index = (double)stats.index_bytes / (double)keys;
    bench->slack = (double)stats.memory.slack_bytes / (double)keys;
    bench->longest_chain = stats.chain_buckets_max;
}

void
bench_close(struct bench *bench)
{
    if (bench->managed) {
        store_relaxed(&bench->stop, true);
        CHECK(pthread_join(bench->manager, NULL) == 0);
    }
    for (uint32_t i = 0; i < BENCH_LCORES_MAX && bench->members[i] != NULL; i++) {
        store_online(bench->members[i]);
        store_leave(bench->members[i]);
    }
    store_close(bench->store);
}
