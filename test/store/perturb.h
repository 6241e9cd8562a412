/* perturb.h - included before every source of the store in the perturbed test build (meson.build): an atomic operation
 * is now and then preceded by a yield or a spin, so that windows of some nanoseconds stay open long enough for the
 * other threads. Nothing of this is in the program. */
#pragma once
#include "config/cycles.h"
#include "config/sync.h"

void perturb(void);

#undef load_acquire
#undef cas_acq_rel
#undef exchange_acq_rel
#undef add_acq_rel
#undef store_release

#define load_acquire(p) (perturb(), atomic_load_explicit((p), memory_order_acquire))
#define cas_acq_rel(p, expected, desired)                                                                              \
    (perturb(),                                                                                                        \
     atomic_compare_exchange_strong_explicit((p), (expected), (desired), memory_order_acq_rel, memory_order_acquire))
#define exchange_acq_rel(p, v) (perturb(), atomic_exchange_explicit((p), (v), memory_order_acq_rel))
#define add_acq_rel(p, n)      (perturb(), atomic_fetch_add_explicit((p), (n), memory_order_acq_rel))
#define store_release(p, v)    (perturb(), atomic_store_explicit((p), (v), memory_order_release))
#define cycles_now_ordered()   (perturb(), (cycles_now_ordered)())
