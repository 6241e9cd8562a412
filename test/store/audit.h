/* audit.h - the whole index and its books, with no member at work: for the end of every test that changed much.
 *
 * Every key is in one slot only, in the chain that its hash says, of a kind that may be there; no rebuild is left half
 * way; counters, memory's books and what can be reached agree. */
#pragma once
#include "store/store_layout.h"

struct audit {
    uint64_t records; /* stamped above the last cut */
    uint64_t flushed; /* at or below it, not yet swept */
    uint64_t expiring, ghosts, tombs, buckets, longest_chain;
    uint64_t duplicates;  /* keys that are there more than once */
    uint64_t misplaced;   /* keys in a wrong chain, slots used behind an EMPTY one */
    uint64_t mislabelled; /* a slot whose kind or tag is not its record's; a block that memory takes for free */
    uint64_t unfinished;  /* FROZEN, INIT or FORWARDED words; segments under reconstruction */
    uint64_t bytes;       /* class size of all that can be reached */
    uint64_t ghost_bytes; /* of ghosts */
};

/* Any thread, while no member writes. */
struct audit audit_store(const struct store *store);

/* Let what was begun end and what was unlinked be freed, then audit, and compare with store_keys(), store_stats() and
 * memory's books, in which `other_bytes` are lent to others than the store. Nobody else may be online, or be the
 * management core. False: it said what is wrong on stderr. */
bool audit_passes(struct store_member *member, uint64_t other_bytes);
