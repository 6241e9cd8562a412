/* Hit ratio of the store as a cache: each policy against the exact form of what it approximates, on traces of
 * zipf(0.99) and of zipf mixed with scans. A miss stores the key, as a cache before a database does.
 *
 * usage: evict_hit_ratio [operations [keys]]      exits 1 when a ratio is further off than its row allows */
#include "store_fixture.h"
#include <math.h>

#define LIMIT_BYTES  (32 * MIB)
#define VALUE_BYTES  480
#define TURN_OPS     32
#define MANAGE_TURNS 8
#define SCAN_EVERY   16 /* one operation in so many of the mixed trace goes through all keys in order */

enum trace { TRACE_ZIPF, TRACE_SCAN };

/* ---- traces ---- */

struct zipf {
    uint32_t count;
    double *below; /* cumulative */
};

static void
zipf_init(struct zipf *zipf, uint32_t count, double exponent)
{
    zipf->count = count;
    zipf->below = malloc(count * sizeof(double));
    CHECK(zipf->below != NULL);
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += 1 / pow(i + 1, exponent);
        zipf->below[i] = sum;
    }
    for (uint32_t i = 0; i < count; i++) {
        zipf->below[i] /= sum;
    }
}

static uint32_t
zipf_draw(const struct zipf *zipf, uint64_t *random)
{
    double dice = (double)(fixture_random(random) >> 11) / (double)(1ull << 53);
    uint32_t low = 0, high = zipf->count - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (zipf->below[middle] < dice) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct source {
    const struct zipf *zipf;
    enum trace trace;
    uint64_t random;
    uint32_t scan;
};

static uint32_t
source_next(struct source *source)
{
    if (source->trace == TRACE_SCAN && fixture_random(&source->random) % SCAN_EVERY == 0) {
        source->scan = (source->scan + 1) % source->zipf->count;
        return source->scan;
    }
    return zipf_draw(source->zipf, &source->random);
}

/* ---- exact caches: as many keys as the store held ---- */

enum exact { EXACT_LRU, EXACT_LFU, EXACT_RANDOM };

struct exact_cache {
    enum exact kind;
    uint32_t capacity, count;
    uint64_t *rank;  /* per key: last use, or number of uses; 0: not here */
    uint32_t *place; /* per key: its place in the heap */
    uint32_t *heap;  /* keys, the next to go first */
    uint64_t clock, random;
};

static bool
goes_before(const struct exact_cache *cache, uint32_t a, uint32_t b)
{
    return cache->rank[cache->heap[a]] < cache->rank[cache->heap[b]];
}

static void
heap_swap(struct exact_cache *cache, uint32_t a, uint32_t b)
{
    uint32_t key = cache->heap[a];
    cache->heap[a] = cache->heap[b];
    cache->heap[b] = key;
    cache->place[cache->heap[a]] = a;
    cache->place[cache->heap[b]] = b;
}

static void
heap_down(struct exact_cache *cache, uint32_t at)
{
    for (;;) {
        uint32_t least = at;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < cache->count; child++) {
            least = goes_before(cache, child, least) ? child : least;
        }
        if (least == at) {
            return;
        }
        heap_swap(cache, at, least);
        at = least;
    }
}

static void
heap_up(struct exact_cache *cache, uint32_t at)
{
    for (; at != 0 && goes_before(cache, at, (at - 1) / 2); at = (at - 1) / 2) {
        heap_swap(cache, at, (at - 1) / 2);
    }
}

static void
exact_make_room(struct exact_cache *cache)
{
    uint32_t victim = cache->kind == EXACT_RANDOM ? (uint32_t)(fixture_random(&cache->random) % cache->count) : 0;
    cache->rank[cache->heap[victim]] = 0;
    heap_swap(cache, victim, --cache->count);
    if (victim < cache->count && cache->kind != EXACT_RANDOM) {
        heap_down(cache, victim);
    }
}

/* Whether the key was there; it is afterwards. */
static bool
exact_use(struct exact_cache *cache, uint32_t key)
{
    bool hit = cache->rank[key] != 0;
    cache->clock++;
    if (!hit) {
        if (cache->count == cache->capacity) {
            exact_make_room(cache);
        }
        cache->place[key] = cache->count;
        cache->heap[cache->count++] = key;
    }
    cache->rank[key] = cache->kind == EXACT_LFU ? cache->rank[key] + 1 : cache->clock;
    if (!hit) {
        heap_up(cache, cache->place[key]);
    } else if (cache->kind != EXACT_RANDOM) {
        heap_down(cache, cache->place[key]);
    }
    return hit;
}

static double
exact_ratio(enum exact kind, struct source source, uint64_t ops, uint32_t capacity)
{
    uint32_t keys = source.zipf->count;
    struct exact_cache cache = { .kind = kind, .capacity = capacity, .random = 99 };
    cache.rank = calloc(keys, sizeof(uint64_t));
    cache.place = calloc(keys, sizeof(uint32_t));
    cache.heap = calloc(capacity, sizeof(uint32_t));
    CHECK(cache.rank != NULL && cache.place != NULL && cache.heap != NULL);
    uint64_t hits = 0;
    for (uint64_t i = 0; i < ops; i++) {
        bool hit = exact_use(&cache, source_next(&source));
        hits += hit && i >= ops / 2;
    }
    free(cache.rank);
    free(cache.place);
    free(cache.heap);
    return 100.0 * (double)hits / (double)(ops - ops / 2);
}

/* ---- the store ---- */

static struct store *
store_make(enum store_policy policy)
{
    struct store_config config = {
        .memory = { .reserve_bytes = 2 * LIMIT_BYTES, .limit_bytes = LIMIT_BYTES, .ahead_bytes = 8 * MIB },
        .keys_expected = 65536,
        .members = 1,
        .trust_cycle_counter = true,
    };
    struct store *store = NULL;
    CHECK(store_open(&config, &store) == 0);
    store_set_policy(store, policy);
    return store;
}

static void
turn(struct store *store, struct store_member *member, uint64_t turns)
{
    fixture_turn(member);
    if (turns % MANAGE_TURNS == 0) {
        store_manage(store);
    }
    store_set_time(member, member->now_ms);
}

/* The ratio in the second half; *held is how many keys there were on average. */
static double
store_ratio(enum store_policy policy, struct source source, uint64_t ops, uint32_t *held)
{
    static uint8_t value[VALUE_BYTES];
    struct store *store = store_make(policy);
    struct store_member *member = fixture_join(store, 0);
    uint64_t hits = 0, keys = 0, looks = 0;
    for (uint64_t i = 0; i < ops; i++) {
        char text[24];
        int bytes = snprintf(text, sizeof(text), "key:%010u", source_next(&source));
        struct slice key = slice_of(text, (size_t)bytes);
        int64_t mortal = policy >= STORE_VOLATILE_LRU ? member->now_ms + 1000000000 : RECORD_NO_EXPIRY;
        bool hit = fixture_get(member, key) != NULL;
        hits += hit && i >= ops / 2;
        for (uint32_t tries = 0;
             !hit && fixture_set_until(member, key, slice_of(value, VALUE_BYTES), mortal) != STORE_OK; tries++) {
            CHECK(tries < 100000);
            turn(store, member, 0);
        }
        if (i % TURN_OPS == 0) {
            turn(store, member, i / TURN_OPS);
        }
        if (i >= ops / 2 && i % 1024 == 0) {
            keys += store_keys(store);
            looks++;
        }
    }
    *held = (uint32_t)(keys / looks);
    store_leave(member);
    store_close(store);
    return 100.0 * (double)hits / (double)(ops - ops / 2);
}

int
main(int argc, char **argv)
{
    static const struct row {
        const char *name;
        enum store_policy policy;
        enum exact exact;
        enum trace trace;
        double most; /* points below the exact form, at most */
    } rows[] = {
        { "lru", STORE_ALLKEYS_LRU, EXACT_LRU, TRACE_ZIPF, 1.0 },
        { "lru", STORE_ALLKEYS_LRU, EXACT_LRU, TRACE_SCAN, 1.0 },
        { "lru, volatile", STORE_VOLATILE_LRU, EXACT_LRU, TRACE_ZIPF, 1.0 },
        { "lfu", STORE_ALLKEYS_LFU, EXACT_LFU, TRACE_ZIPF, 2.5 },
        { "lfu", STORE_ALLKEYS_LFU, EXACT_LFU, TRACE_SCAN, 2.5 },
        { "random", STORE_ALLKEYS_RANDOM, EXACT_RANDOM, TRACE_ZIPF, 1.0 },
    };
    uint64_t ops = argc > 1 ? strtoull(argv[1], NULL, 0) : 800000;
    uint32_t keys = argc > 2 ? (uint32_t)atoi(argv[2]) : 300000;
    struct zipf zipf;
    bool failed = false;
    zipf_init(&zipf, keys, 0.99);
    printf("%-16s %-6s %9s %9s %9s %9s\n", "policy", "trace", "keys held", "store %", "exact %", "random %");
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct source source = { .zipf = &zipf, .trace = rows[i].trace, .random = 4711 };
        uint32_t held;
        double ours = store_ratio(rows[i].policy, source, ops, &held);
        double exact = exact_ratio(rows[i].exact, source, ops, held);
        double chance = exact_ratio(EXACT_RANDOM, source, ops, held);
        bool is_random = rows[i].exact == EXACT_RANDOM;
        bool good = ours >= exact - rows[i].most && (is_random || ours > chance + 1.0);
        printf("%-16s %-6s %9u %9.2f %9.2f %9.2f%s\n", rows[i].name, rows[i].trace == TRACE_ZIPF ? "zipf" : "scan",
               held, ours, exact, chance, good ? "" : "   too far off");
        failed = failed || !good;
    }
    free(zipf.below);
    return failed;
}
