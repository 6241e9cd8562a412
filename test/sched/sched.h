/* sched.h - run the project's own lock-free code under a scheduler that decides everything (as Relacy and CDSChecker
 * do).
 *
 * The sources are compiled with -DSYNC_SCHED (config/sync.h) and -fsanitize=thread, the latter without its library:
 * atomic operations, fences and plain accesses are calls of this simulator. Threads are coroutines; one runs at a time
 * and may be left before each atomic operation. Memory is weak: a location keeps its stores, and a relaxed or acquire
 * load returns any of them that coherence and happens-before allow.
 *
 *   found: a plain access that races, an access to a block that was given back or not yet written, an access beyond a
 *   block, a failed assert() or CHECK(), a thread that waits for ever, and what the scene itself expects
 *
 * Limits: a location's modification order is the order of execution (so neither load buffering nor 2+2W is seen), a
 * failed compare-exchange reads the newest store, and a store is read by loads after it only. One store may be seen by
 * some threads before others see it, as in C11; x86 and Armv8 show it to all at once, and who relies on that fails.
 *
 *   scene_setup -> snapshot of simulated memory -> { begin -> threads, to their end -> check -> memory again } ... */
#pragma once
#include "config/base.h"
#include "config/sync.h"

#define SCHED_THREADS_MAX 4

struct sched_scene {
    const char *name;
    uint32_t thread_count;
    void (*setup)(void);            /* once; what it leaves in simulated memory is where each execution begins */
    void (*begin)(void);            /* before each execution, for ordinary variables; or NULL */
    void (*thread)(uint32_t index); /* 0 .. thread_count - 1 */
    void (*check)(void);            /* when all have ended, as one more thread that has seen all; or NULL */
    /* Bounds of the exhaustive search: at so many points of an execution a thread that could go on is left, and so many
     * loads do not read the newest store. 0 preemptions and 0 stale loads: not searched. */
    uint32_t preemptions, stale_loads;
};

struct sched_options {
    uint64_t first_seed, random; /* executions with seeds first_seed, first_seed + 1 ... */
    uint64_t exhaustive;         /* executions at most */
    bool verbose;                /* print each operation */
};

struct sched_result {
    uint64_t random, exhaustive; /* executions done */
    bool complete;               /* the exhaustive search came to its end */
    bool failed;
    bool failed_exhaustive; /* `number` counts executions of the exhaustive search, else it is a seed */
    uint64_t number;
    char message[400];
};

/* Until the first failure. */
struct sched_result sched_explore(const struct sched_scene *scene, const struct sched_options *options);
/* Execution `number` of the exhaustive search once more. */
struct sched_result sched_replay_exhaustive(const struct sched_scene *scene, uint64_t number, bool verbose);

/* ---- for scenes ---- */

/* This execution has failed; control returns to sched_explore(). */
_Noreturn void sched_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define SCHED_EXPECT(cond, ...) ((cond) ? (void)0 : sched_fail(__VA_ARGS__))

/* A thread of the scene runs, not setup, begin or check. */
bool sched_running(void);
/* Go on when the word is not 0; when all threads wait, that is a failure which names `what`. */
void sched_wait(const _Atomic uint64_t *word, const char *what);
/* Sleep until the eventfd was written (ppoll() without a timeout). */
void sched_wait_event(int fd);
/* Another number at each call, rising: for histories. */
uint64_t sched_moment(void);
/* A line of the trace. */
void sched_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Simulated memory: `bytes` of zeros, as from mmap(). Only what lies in simulated memory is judged and reset. */
void *sched_map(size_t bytes);
/* Words with one writer that nobody reads in this scene (counters): accesses are no points to leave a thread at. */
void sched_quiet(const void *p, size_t bytes);
/* Blocks that can be given back; NULL when no more fit. */
void *sched_take(size_t bytes);
void sched_give(void *block, size_t bytes);
/* Class size of all blocks that are now lent. */
size_t sched_lent_bytes(void);
