/* cut.h - one moment that all members agree on: everything stamped at or below it is gone (FLUSHALL).
 *
 * The word is PENDING while its clock reading is not yet chosen; whoever meets PENDING chooses it. A writer loads its
 * slot, takes its stamp, then reads the word: an old word means that its stamp is below the cut to come, because the
 * reading is taken after PENDING could be seen. Without PENDING, or with the word read before the stamp, an
 * acknowledged INCR of a flushed value survives (test/model/flush.pml). PENDING carries the cut before it: no two are
 * alike, so a reading taken for one cut can never end the next, and a reader that meets it need not choose. */
#pragma once
#include "store/stamp.h"

#define CUT_PENDING (1ull << 63) /* above every stamp: the fast test `stamp > word` fails */

struct cut {
    _Alignas(CACHE_LINE) _Atomic uint64_t word; /* 0: never; else the last stamp that is gone, or PENDING */
};

static inline bool
cut_is_pending(uint64_t word)
{
    return (word & CUT_PENDING) != 0;
}

/* For readers: versions up to this are gone. A cut that is PENDING has not happened yet: what a reader saw in a slot
 * before it saw PENDING is below that cut. */
static inline uint64_t
cut_value(uint64_t word)
{
    return word & ~CUT_PENDING;
}

/* The word, read after `stamp` was taken: the address depends on the stamp, so no CPU can load it earlier. */
static inline uint64_t
cut_read_after(const struct cut *cut, uint64_t stamp)
{
    __asm__("" : "+r"(stamp)); /* or the compiler, which may know that stamps are below 2^62, leaves the shift out */
    return load_acquire(&(&cut->word)[stamp >> 63]); /* pairs with the CAS in cut_decide() */
}

/* The decided word; chooses it when it is PENDING. Any thread. */
uint64_t cut_decide(struct cut *cut, struct stamp_clock *clock);

/* Cut now. Returns the new value, or 0 when too many others cut at the same time. */
uint64_t cut_announce(struct cut *cut, struct stamp_clock *clock);
