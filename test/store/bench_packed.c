/* Packed objects: ns per look-up and per change, by size. Values are tags and bytes as handlers would make them. */
#include "store/packed_hash.h"
#include "store/packed_zset.h"
#include <time.h>

#define PAIRS_MAX (LIMIT_REQUEST_ARGS / 2)

static char names[2 * LIMIT_PACKED_ENTRIES][16];
static struct packed_pair pairs[2 * LIMIT_PACKED_ENTRIES];
static struct packed_score scores[2 * LIMIT_PACKED_ENTRIES];
static uint8_t values[2][LIMIT_PACKED_BYTES];

static double
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void
make_pairs(void)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(pairs); i++) {
        int bytes = snprintf(names[i], sizeof(names[0]), "field:%04u", i);
        uint16_t tag = (uint16_t)(i * 40503u ^ i >> 3);
        pairs[i] = (struct packed_pair){ slice_of(names[i], (size_t)bytes), SLICE_LITERAL("twelve bytes"), tag };
        scores[i] = (struct packed_score){ i * 7919u % 5000, slice_of(names[i], (size_t)bytes), tag };
    }
}

/* A hash and a sorted set of the first `count` pairs. */
static struct slice
make_hash(uint32_t count)
{
    struct packed_hash_plan plan;
    struct slice value = { NULL, 0 };
    for (uint32_t done = 0; done < count; done += PAIRS_MAX) {
        uint8_t *room = values[done / PAIRS_MAX % 2];
        packed_hash_plan_set(&plan, value, &pairs[done], MIN(PAIRS_MAX, count - done));
        packed_hash_write(&plan, room);
        value = slice_of(room, plan.bytes);
    }
    return value;
}

static struct slice
make_zset(uint32_t count)
{
    struct packed_zset_plan plan;
    struct slice value = { NULL, 0 };
    for (uint32_t done = 0; done < count; done += PAIRS_MAX) {
        uint8_t *room = values[done / PAIRS_MAX % 2];
        packed_zset_plan_add(&plan, value, 0, &scores[done], MIN(PAIRS_MAX, count - done));
        packed_zset_write(&plan, room);
        value = slice_of(room, plan.bytes);
    }
    return value;
}

static void
bench_hash(uint32_t count, uint32_t repeats)
{
    static uint8_t room[LIMIT_PACKED_BYTES];
    struct packed_hash_plan plan;
    struct slice old = make_hash(count), value;
    struct packed hash = packed_hash_open(old);
    uint64_t sum = 0;

    double start = now_ns();
    for (uint32_t i = 0; i < repeats; i++) {
        const struct packed_pair *pair = &pairs[i * 7 % count];
        sum += packed_hash_find(&hash, pair->field, pair->tag, &value);
    }
    double find = (now_ns() - start) / repeats;

    start = now_ns();
    for (uint32_t i = 0; i < repeats; i++) {
        packed_hash_plan_set(&plan, old, &pairs[i * 7 % count], 1);
        packed_hash_write(&plan, room);
        sum += room[2];
    }
    double set = (now_ns() - start) / repeats;
    printf("hash  %5u fields %6zu bytes: find %7.1f ns  set one %8.1f ns  (%lu)\n", count, old.bytes, find, set,
           (unsigned long)sum % 10);
}

static void
bench_zset(uint32_t count, uint32_t repeats)
{
    static uint8_t room[LIMIT_PACKED_BYTES];
    struct packed_zset_plan plan;
    struct slice old = make_zset(count);
    struct packed zset = packed_zset_open(old);
    uint64_t sum = 0;

    double start = now_ns();
    for (uint32_t i = 0; i < repeats; i++) {
        const struct packed_score *pair = &scores[i * 7 % count];
        sum += packed_zset_find(&zset, pair->member, pair->tag);
    }
    double find = (now_ns() - start) / repeats;

    start = now_ns();
    for (uint32_t i = 0; i < repeats; i++) {
        struct packed_score pair = scores[i * 7 % count];
        pair.score = (double)(i * 31 % 5000) + 0.5;
        packed_zset_plan_add(&plan, old, 0, &pair, 1);
        packed_zset_write(&plan, room);
        sum += room[2];
    }
    double add = (now_ns() - start) / repeats;
    printf("zset  %5u members %5zu bytes: find %7.1f ns  rescore %8.1f ns  (%lu)\n", count, old.bytes, find, add,
           (unsigned long)sum % 10);
}

/* One command of as many pairs as a request holds, half of them new, into an object of 768. */
static void
bench_largest_commands(void)
{
    static uint8_t room[LIMIT_PACKED_BYTES];
    struct packed_hash_plan hash_plan;
    struct packed_zset_plan zset_plan;
    uint32_t repeats = 2000;

    struct slice old = make_hash(768);
    double start = now_ns();
    for (uint32_t i = 0; i < repeats; i++) {
        packed_hash_plan_set(&hash_plan, old, &pairs[512], PAIRS_MAX);
        packed_hash_write(&hash_plan, room);
    }
    printf("hash   set %u pairs in %.1f us\n", PAIRS_MAX, (now_ns() - start) / repeats / 1000);

    old = make_zset(768);
    for (uint32_t i = 0; i < ARRAY_COUNT(scores); i++) {
        scores[i].score += 0.5;
    }
    start = now_ns();
    for (uint32_t i = 0; i < repeats; i++) {
        packed_zset_plan_add(&zset_plan, old, 0, &scores[512], PAIRS_MAX);
        packed_zset_write(&zset_plan, room);
    }
    printf("zset   add %u pairs in %.1f us\n", PAIRS_MAX, (now_ns() - start) / repeats / 1000);
}

int
main(void)
{
    static const uint32_t counts[] = { 1, 4, 8, 16, 31, 128, 512, 1024 };
    make_pairs();
    for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
        bench_hash(counts[i], 200000);
    }
    for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
        bench_zset(counts[i], 200000);
    }
    bench_largest_commands();
    return 0;
}
