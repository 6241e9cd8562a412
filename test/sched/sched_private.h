/* sched_private.h - what the files of the simulator share. */
#pragma once
#include "config/limits.h"
#include "test/sched/sched.h"
#include <sys/types.h>

#define SCHED_SEATS (SCHED_THREADS_MAX + 1) /* seat 0: setup, begin and check, outside of the simulated time */

/* Vector clocks, one count of operations a seat. A store is seen by whose `co` covers it; a plain access is ordered for
 * whose `hb` covers it. A seq_cst fence orders stores (co) and synchronises nothing (hb). */
struct sched_view {
    uint32_t hb[SCHED_SEATS], co[SCHED_SEATS];
};

/* One thread, as memory sees it. */
struct sched_sight {
    struct sched_view now;
    struct sched_view acquired;    /* of release stores read relaxed: an acquire fence joins it */
    struct sched_view released;    /* at the last release fence: relaxed stores carry it */
    uint32_t visible[SCHED_SEATS]; /* co at the last full fence, and of what others let us see: for the cycle counter */
};

/* The C library's own, behind the wrappers that the code under test calls (meson.build: --wrap). */
void *__real_memcpy(void *to, const void *from, size_t bytes);
void *__real_memmove(void *to, const void *from, size_t bytes);
void *__real_memset(void *to, int value, size_t bytes);
int __real_memcmp(const void *a, const void *b, size_t bytes);
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
_Noreturn void __real_abort(void);

/* ---- sched.c ---- */

bool sched_inside(void); /* on the stack of setup, begin, check or a thread */
uint32_t sched_seat(void);
struct sched_sight *sched_sight(void);
uint32_t sched_step(void);
/* Who runs next? Before an operation that others could meet. */
void sched_point(void);

/* Fresh pages of the process itself, outside of simulated memory: zeros. */
void *sched_pages(size_t bytes);

/* ---- sched_choose.c ---- */

void choose_by_seed(uint64_t seed); /* the next execution */
void choose_first_path(void);
void choose_by_path(uint32_t preemptions, uint32_t stale_loads); /* the next execution, and what it may spend */
bool choose_next_path(void);                                     /* false: that was the last */
bool choose_was_bounded(void); /* since the first path, something was not tried because all was spent */

uint32_t choose_seat(const uint32_t *seats, uint32_t count);
/* `seat` goes on, or one of the others, which is a preemption. */
uint32_t choose_stay_or_leave(uint32_t seat, const uint32_t *others, uint32_t count, uint32_t step);
/* The seat waits for others: it comes after them. */
void choose_last(uint32_t seat);
/* Which of `count` stores, 0 the newest, does a load read? */
uint32_t choose_store(uint32_t count);

/* ---- sched_atomic.c ---- */

void atomic_begin_setup(void);
void atomic_begin_execution(void);
/* The block is new, or its end has come: nothing of its locations remains. False: an access of some other thread is not
 * ordered before now. */
bool atomic_forget(uintptr_t address, size_t bytes);
void view_join(struct sched_view *view, const struct sched_view *with);

/* ---- sched_heap.c ---- */

enum heap_access { HEAP_READ, HEAP_WRITE, HEAP_ATOMIC };

void heap_open(void); /* an empty arena */
void heap_snapshot(void);
void heap_begin_execution(void); /* as at the snapshot */
void heap_check_restored(void);  /* the snapshot and the arena are equal: no write escaped the simulator */
bool heap_contains(const void *p);
bool heap_is_quiet(const void *p);
/* May the running thread touch these bytes? Else the execution fails. */
void heap_check_access(const void *p, size_t bytes, enum heap_access access);
void heap_plain(const void *p, size_t bytes, enum heap_access access);
void heap_write(void *p, uint64_t value, uint32_t bytes);
/* Nobody but the running thread can know this address yet. */
bool heap_is_private(const void *p);
/* A store outside of the thread's private blocks: whoever reads it may learn of them. */
void heap_publish(void);
/* Where a location begins that this execution has not met: */
enum heap_origin {
    HEAP_SNAPSHOT,      /* its value is older than all threads */
    HEAP_PLAIN,         /* a plain write of *seat at *time gave it its value */
    HEAP_UNINITIALISED, /* in a new block, and not written */
};
enum heap_origin heap_origin(const void *p, uint32_t *seat, uint32_t *time);
