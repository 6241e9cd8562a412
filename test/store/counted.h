/* counted.h - included before every source of the store in the scenarios' build (meson.build): each atomic access of a
 * thread is a unit of work. Slots, links, pages, limbo and counters are all reached that way, so "bounded work a turn"
 * becomes a number that neither the clock nor a neighbour on the machine changes. Nothing of this is in the program. */
#pragma once
#include "config/sync.h"

extern _Thread_local uint64_t counted_units; /* scenario.c */

#undef load_relaxed
#undef load_acquire
#undef store_relaxed
#undef store_release
#undef cas_acq_rel
#undef cas_relaxed
#undef add_relaxed
#undef add_acq_rel
#undef sub_relaxed
#undef sub_acq_rel
#undef or_relaxed
#undef or_release
#undef and_relaxed
#undef exchange_acq_rel

#define load_relaxed(p)     (counted_units++, atomic_load_explicit((p), memory_order_relaxed))
#define load_acquire(p)     (counted_units++, atomic_load_explicit((p), memory_order_acquire))
#define store_relaxed(p, v) (counted_units++, atomic_store_explicit((p), (v), memory_order_relaxed))
#define store_release(p, v) (counted_units++, atomic_store_explicit((p), (v), memory_order_release))
#define cas_acq_rel(p, expected, desired)                                                                              \
    (counted_units++,                                                                                                  \
     atomic_compare_exchange_strong_explicit((p), (expected), (desired), memory_order_acq_rel, memory_order_acquire))
#define cas_relaxed(p, expected, desired)                                                                              \
    (counted_units++,                                                                                                  \
     atomic_compare_exchange_strong_explicit((p), (expected), (desired), memory_order_relaxed, memory_order_relaxed))
#define add_relaxed(p, n)      (counted_units++, atomic_fetch_add_explicit((p), (n), memory_order_relaxed))
#define add_acq_rel(p, n)      (counted_units++, atomic_fetch_add_explicit((p), (n), memory_order_acq_rel))
#define sub_relaxed(p, n)      (counted_units++, atomic_fetch_sub_explicit((p), (n), memory_order_relaxed))
#define sub_acq_rel(p, n)      (counted_units++, atomic_fetch_sub_explicit((p), (n), memory_order_acq_rel))
#define or_relaxed(p, n)       (counted_units++, atomic_fetch_or_explicit((p), (n), memory_order_relaxed))
#define or_release(p, n)       (counted_units++, atomic_fetch_or_explicit((p), (n), memory_order_release))
#define and_relaxed(p, n)      (counted_units++, atomic_fetch_and_explicit((p), (n), memory_order_relaxed))
#define exchange_acq_rel(p, v) (counted_units++, atomic_exchange_explicit((p), (v), memory_order_acq_rel))
