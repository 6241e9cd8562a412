#include "store/cut.h"

#define CUT_TRIES 16

uint64_t
cut_decide(struct cut *cut, struct stamp_clock *clock)
{
    uint64_t word = load_acquire(&cut->word);
    for (int try = 0; try < CUT_TRIES && cut_is_pending(word); try++) {
        /* The reading is after the load above. The whole tick is below the cut: nobody can tell its stamps apart. */
        uint64_t reading = stamp_clock_read(clock) | STAMP_MEMBER_MASK;
        uint64_t value = MAX(reading, cut_value(word) + STAMP_MEMBER_MASK + 1);
        /* release: pairs with cut_read_after() and the readers' load */
        if (cas_acq_rel(&cut->word, &word, value)) {
            word = value;
        }
    }
    return word;
}

uint64_t
cut_announce(struct cut *cut, struct stamp_clock *clock)
{
    for (int try = 0; try < CUT_TRIES; try++) {
        uint64_t word = cut_decide(cut, clock), pending = word | CUT_PENDING;
        if (cut_is_pending(word) || !cas_acq_rel(&cut->word, &word, pending)) {
            continue; /* somebody else's cut: it may be older than this call, so it does not count */
        }
        /* full: a member that loads the old word after this has its stamp already (partner: cut_read_after()) */
        fence_seq_cst();
        for (int more = 0; more < CUT_TRIES; more++) {
            word = cut_decide(cut, clock);
            if (!cut_is_pending(word)) {
                return word; /* ours, or a later one that covers it */
            }
        }
        return 0;
    }
    return 0;
}
