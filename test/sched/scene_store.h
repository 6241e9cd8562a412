/* scene_store.h - scenes on the store, each a few words for each thread. */
#pragma once
#include "test/sched/sched.h"

/* Calls, separated by commas. Keys are letters; all lie in one segment, whose first table is one bucket: 7 slots. On
 * keys a, b and c commands are judged by the linearizability checker.
 *
 *   get set add incr del KEY   add: a set when the key is absent
 *   mget                       all three at one moment
 *   flush
 *   expiring KEY               a set whose time is over when the threads run
 *   turn                       quiesces, and housekeeps
 *   nap                        offline and online: seals what was retired, as a sleep does
 *   seal                       quiesces for the time it takes to seal what was retired
 *   reclaim                    gives back what every member has passed
 *   rebuild                    looks at the segment, and gives it the table that it needs
 *   sweep                      expired keys, ghosts and flushed records of it
 *   move                       as sweep, and what lies where it lay before the threads began gets another block
 *   scan                       a walk that must meet every key that stays, also those that its thread has set
 *   evict                      one record or more, as when memory is short: for LOOSE scenes */
struct scene_plan {
    const char *name;
    enum scene_mode {
        JUDGED, /* stamps come from the shared counter */
        CYCLES, /* stamps come from the cycle counter */
        LOOSE,  /* commands do not wait until their stores are seen: memory is as weak as it gets, and histories are not
                   judged */
    } mode;
    uint32_t preemptions, stale_loads; /* of the exhaustive search */
    const char *before;                /* by member 0, before the threads */
    const char *threads[SCHED_THREADS_MAX];
};

/* The scene of `plan`; until the next call. */
const struct sched_scene *scene_of_plan(const struct scene_plan *plan);
