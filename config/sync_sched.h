/* sync_sched.h - sync.h for the scheduler build (-DSYNC_SCHED): each operation is a call into test/sched, which decides
 * who runs before it and, for a load, which store it reads. Included by sync.h only; in no program. */
#pragma once
#include "config/cycles.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum sched_fetch_kind { SCHED_ADD, SCHED_SUB, SCHED_OR, SCHED_AND, SCHED_EXCHANGE };

/* `at` is the source text of the access, for traces. Values pass through 64 bits, `bytes` says how many count. */
uint64_t sched_load(const void *p, uint32_t bytes, memory_order order, const char *at);
void sched_store(void *p, uint32_t bytes, uint64_t value, memory_order order, const char *at);
bool sched_cas(void *p, void *expected, uint32_t bytes, uint64_t desired, memory_order order, const char *at);
uint64_t sched_fetch(void *p, uint32_t bytes, enum sched_fetch_kind kind, uint64_t operand, memory_order order,
                     const char *at);
void sched_fence(memory_order order, const char *at);
/* This thread waits for another one: somebody else runs next. */
void sched_relax(void);
/* The cycle counter: time is the same for all threads, so what a full fence made visible stays so for a later reading.
 */
uint64_t sched_cycles(const char *at);

#define SCHED_TEXT_OF(n) #n
#define SCHED_TEXT(n)    SCHED_TEXT_OF(n)
#define SCHED_HERE       __FILE__ ":" SCHED_TEXT(__LINE__)

#define SCHED_VALUE(p) __typeof__((void)0, *(p)) /* without _Atomic */
#define SCHED_LOAD(p, order, text)                                                                                     \
    ((SCHED_VALUE(p))sched_load((p), sizeof(*(p)), memory_order_##order, SCHED_HERE " load_" #order " " text))
#define SCHED_STORE(p, v, order, text)                                                                                 \
    sched_store((p), sizeof(*(p)), (uint64_t)(v), memory_order_##order, SCHED_HERE " store_" #order " " text)
#define SCHED_CAS(p, expected, v, order, text)                                                                         \
    sched_cas((p), (expected), sizeof(*(p)), (uint64_t)(v), memory_order_##order, SCHED_HERE " cas_" #order " " text)
#define SCHED_FETCH(p, kind, n, order, text)                                                                           \
    __extension__({                                                                                                    \
        (SCHED_VALUE(p)) sched_fetch((p), sizeof(*(p)), SCHED_##kind, (uint64_t)(n), memory_order_##order,             \
                                     SCHED_HERE " " #kind "_" #order " " text);                                        \
    })

#define load_relaxed(p)        SCHED_LOAD(p, relaxed, #p)
#define load_acquire(p)        SCHED_LOAD(p, acquire, #p)
#define store_relaxed(p, v)    SCHED_STORE(p, v, relaxed, #p)
#define store_release(p, v)    SCHED_STORE(p, v, release, #p)
#define cas_acq_rel(p, e, v)   SCHED_CAS(p, e, v, acq_rel, #p)
#define cas_relaxed(p, e, v)   SCHED_CAS(p, e, v, relaxed, #p)
#define add_relaxed(p, n)      SCHED_FETCH(p, ADD, n, relaxed, #p)
#define add_acq_rel(p, n)      SCHED_FETCH(p, ADD, n, acq_rel, #p)
#define sub_relaxed(p, n)      SCHED_FETCH(p, SUB, n, relaxed, #p)
#define sub_acq_rel(p, n)      SCHED_FETCH(p, SUB, n, acq_rel, #p)
#define or_relaxed(p, n)       SCHED_FETCH(p, OR, n, relaxed, #p)
#define or_release(p, n)       SCHED_FETCH(p, OR, n, release, #p)
#define and_relaxed(p, n)      SCHED_FETCH(p, AND, n, relaxed, #p)
#define exchange_acq_rel(p, v) SCHED_FETCH(p, EXCHANGE, v, acq_rel, #p)
#define fence_seq_cst()        sched_fence(memory_order_seq_cst, SCHED_HERE " fence_seq_cst")
#define fence_acquire()        sched_fence(memory_order_acquire, SCHED_HERE " fence_acquire")
#define fence_release()        sched_fence(memory_order_release, SCHED_HERE " fence_release")
#define cpu_relax()            sched_relax()
#define cycles_now_ordered()   sched_cycles(SCHED_HERE " cycles_now_ordered")
