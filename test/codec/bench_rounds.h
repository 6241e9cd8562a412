/* bench_rounds.h - times rows of a codec bench: the best of many rounds. */
#pragma once
#include "config/base.h"
#include <time.h>

#define BATCH 1000 /* operations of one round, between two looks at the clock */

struct bench {
    const char *name;
    void (*run)(void); /* BATCH operations */
};

static inline uint64_t
bench_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Arguments: [name [rounds]]. Prints ns an operation of each bench that has the name. Returns how many ran. */
static inline uint32_t
bench_rounds(const struct bench *benches, size_t count, int argc, char **argv)
{
    uint32_t rounds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 2000, ran = 0;

    for (size_t i = 0; i < count; i++) {
        if (argc > 1 && strcmp(argv[1], benches[i].name) != 0) {
            continue;
        }
        uint64_t best = UINT64_MAX;
        for (uint32_t round = 0; round < rounds; round++) {
            uint64_t start = bench_now_ns();
            benches[i].run();
            best = MIN(best, bench_now_ns() - start);
        }
        printf("%-16s %6.1f ns/op\n", benches[i].name, (double)best / BATCH);
        ran++;
    }
    return ran;
}
