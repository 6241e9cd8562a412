/* ns for each look-up and overwrite, one thread, uniform keys, in bursts with the two-stage prefetch; bytes an entry.
 *
 * usage: store_bench [keys [seconds a row]] */
#include "store_fixture.h"
#include <time.h>

#define KEY_BYTES   16
#define VALUE_BYTES 32

static struct store *store;
static struct store_member *member;

static double
now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static struct slice
key_of(char *out, uint64_t n)
{
    memcpy(out, "key:000000000000", KEY_BYTES);
    for (uint32_t i = KEY_BYTES; n != 0; n /= 10) {
        out[--i] = (char)('0' + n % 10);
    }
    return slice_of(out, KEY_BYTES);
}

static void
put(struct slice key, const char *value)
{
    while (fixture_put(member, key, slice_of(value, VALUE_BYTES)) != STORE_OK) {
        store_manage(store);
        fixture_turn(member);
    }
}

static void
load(uint64_t keys)
{
    char text[KEY_BYTES];
    double start = now_s();
    for (uint64_t n = 0; n < keys; n++) {
        put(key_of(text, n), "0123456789abcdef0123456789abcdef");
        if (n % 32 == 31) {
            fixture_turn(member);
        }
        if (n % 4096 == 4095) {
            store_manage(store);
        }
    }
    double seconds = now_s() - start;
    for (uint32_t i = 0; i < 100000; i++) {
        fixture_turn(member);
    }
    struct store_stats stats;
    store_stats(store, &stats);
    uint64_t in_use = stats.memory.populated_bytes - stats.memory.free_page_bytes;
    printf("load %8" PRIu64 " keys: %6.1f ns a key, %.1f bytes an entry (records %.1f, index %.1f, slack %.1f), "
           "%" PRIu64 " rebuilds, longest chain %" PRIu64 "\n",
           keys, seconds * 1e9 / (double)keys, (double)(in_use + store->index.fixed_bytes) / (double)keys,
           (double)stats.record_bytes / (double)keys, (double)stats.index_bytes / (double)keys,
           (double)stats.memory.slack_bytes / (double)keys, stats.rebuilds, stats.chain_buckets_max);
}

static double
run(uint64_t keys, uint32_t burst, bool write, double seconds)
{
    static char texts[32][KEY_BYTES];
    uint64_t hashes[32], random = 42, ops = 0, found = 0;
    struct slice slices[32];
    double spent = 0, end = now_s() + seconds;
    while (now_s() < end) {
        for (uint32_t round = 0; round < 256; round++) {
            for (uint32_t i = 0; i < burst; i++) {
                slices[i] = key_of(texts[i], fixture_random(&random) % keys); /* not timed: a decoder's work */
            }
            double start = now_s();
            for (uint32_t i = 0; i < burst; i++) {
                hashes[i] = store_hash(store, slices[i]);
                store_prefetch_bucket(member, hashes[i]);
            }
            for (uint32_t i = 0; i < burst; i++) {
                store_prefetch_record(member, hashes[i]);
            }
            for (uint32_t i = 0; i < burst; i++) {
                if (write) {
                    put(slices[i], "fedcba9876543210fedcba9876543210");
                    found++;
                } else {
                    const struct record *record = store_find(member, slices[i], hashes[i]);
                    found += record != NULL && record_value(record).data[0] != 0;
                }
            }
            fixture_turn(member);
            spent += now_s() - start;
            ops += burst;
        }
        store_manage(store);
    }
    CHECK(found == ops);
    return spent * 1e9 / (double)ops;
}

int
main(int argc, char **argv)
{
    uint64_t keys = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000000;
    double seconds = argc > 2 ? atof(argv[2]) : 0.5;
    store = fixture_open(1, MAX(keys * 256, 64 * MIB), keys);
    member = fixture_join(store, 0);
    load(keys);
    static const uint32_t bursts[] = { 1, 16, 32 };
    for (uint32_t i = 0; i < ARRAY_COUNT(bursts); i++) {
        double get = run(keys, bursts[i], false, seconds);
        double set = run(keys, bursts[i], true, seconds);
        printf("burst %2u: GET %6.1f ns, SET %6.1f ns (with the timer's share: about %.0f ns)\n", bursts[i], get, set,
               40.0 / bursts[i]);
    }
    store_leave(member);
    store_close(store);
    return 0;
}
