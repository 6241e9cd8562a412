/* sync.h - every atomic access and fence of the project goes through here.
 *
 * Names carry the order. A caller's comment names the partner. Three builds:
 *   native          the compiler's atomics
 *   ThreadSanitizer a fence is a seq_cst read-modify-write of one word, because TSan does not model stand-alone fences
 *   SYNC_SCHED      each name is a call of the deterministic scheduler in test/sched (sync_sched.h)
 *
 * A name promises no more than C11 does: a store and a later load of another word are in order when fence_seq_cst() is
 * between them, and only then. Not by store_release() before load_acquire(), which Arm orders for LDAR and not for
 * LDAPR; not by a read-modify-write, which x86 makes a full fence. The scheduler reorders both.
 *
 * Memory has one door too: after boot a block comes from memory_take() and goes to memory_give() or store_retire()
 * (store/memory.h); what maps or allocates otherwise is boot code, in files called *_boot.c. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#ifdef SYNC_SCHED
#include "config/sync_sched.h"
#else

#define load_relaxed(p)     atomic_load_explicit((p), memory_order_relaxed)
#define load_acquire(p)     atomic_load_explicit((p), memory_order_acquire)
#define store_relaxed(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
#define store_release(p, v) atomic_store_explicit((p), (v), memory_order_release)

/* On failure *expected (an ordinary variable) holds what was seen, with acquire order. */
#define cas_acq_rel(p, expected, desired)                                                                              \
    atomic_compare_exchange_strong_explicit((p), (expected), (desired), memory_order_acq_rel, memory_order_acquire)
#define cas_relaxed(p, expected, desired)                                                                              \
    atomic_compare_exchange_strong_explicit((p), (expected), (desired), memory_order_relaxed, memory_order_relaxed)

#define add_relaxed(p, n)      atomic_fetch_add_explicit((p), (n), memory_order_relaxed)
#define add_acq_rel(p, n)      atomic_fetch_add_explicit((p), (n), memory_order_acq_rel)
#define sub_relaxed(p, n)      atomic_fetch_sub_explicit((p), (n), memory_order_relaxed)
#define sub_acq_rel(p, n)      atomic_fetch_sub_explicit((p), (n), memory_order_acq_rel)
#define or_relaxed(p, n)       atomic_fetch_or_explicit((p), (n), memory_order_relaxed)
#define or_release(p, n)       atomic_fetch_or_explicit((p), (n), memory_order_release)
#define and_relaxed(p, n)      atomic_fetch_and_explicit((p), (n), memory_order_relaxed)
#define exchange_acq_rel(p, v) atomic_exchange_explicit((p), (v), memory_order_acq_rel)

#if defined(__SANITIZE_THREAD__)
#define SYNC_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SYNC_TSAN 1
#endif
#endif

#ifdef SYNC_TSAN
extern _Atomic uint64_t sync_tsan_word; /* store/sync_tsan.c */
#define fence_seq_cst() ((void)atomic_fetch_add_explicit(&sync_tsan_word, 1, memory_order_seq_cst))
#define fence_acquire() fence_seq_cst()
#define fence_release() fence_seq_cst()
#else
#define fence_seq_cst() atomic_thread_fence(memory_order_seq_cst)
#define fence_acquire() atomic_thread_fence(memory_order_acquire)
#define fence_release() atomic_thread_fence(memory_order_release)
#endif

#if defined(__x86_64__)
#define cpu_relax() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define cpu_relax() __asm__ __volatile__("isb" ::: "memory")
#else
#error "Sluice runs on x86-64 and arm64"
#endif

#endif /* SYNC_SCHED */

/* A counter with one writer: no locked instruction; any thread may load_relaxed() it. */
#define counter_add(p, n) store_relaxed((p), load_relaxed(p) + (n))
