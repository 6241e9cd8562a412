/* successor - a segment that moves to a second table and at once to a third (store/rebuild.c, rebuild_lead.c): two members
 * that lead, a setter and a deleter that help, on one key; -DALL: two setters. All their orders are searched. A table is
 * one bucket of one slot.
 *
 * `next` says which table follows the one in the directory. A helper that met a frozen slot may read it late, when it
 * belongs to another rebuild: a directory that has another table after that says so. No table has two successors, no
 * update is lost (see frontier.pml). Of two leaders, or setters, which are alike, the first in the model begins first.
 *
 * PROGRESS: no state comes again.
 *
 * BROKEN=1: a helper does not look at the directory after `next`.
 * BROKEN=2: a helper looks at the directory before `next`.
 * BROKEN=3: `next` is free again before the new table is in the directory.
 * BROKEN=4: who has claimed the segment does not look whether its table is still in the directory.
 * STUCK=1: a writer that meets a frozen slot waits until the bucket is FORWARDED. */
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef STUCK
#define STUCK 0
#endif

#define TABLES  4
#define EMPTY   0   /* 1..3: records of the key */
#define GHOST   4
#define INIT    5
#define FROZEN  8
#define NOBODY  0   /* of `next`: else CLAIMED or a table's number, from 1 on */
#define CLAIMED 9

byte slot[TABLES];
bit forwarded[TABLES];
byte made[TABLES];      /* successors of a table */
byte table_now = 0;     /* the directory */
byte next = NOBODY;
byte live;
bit leading, setting;   /* the first leader, the first setter has begun */

#define KIND(w)      (w & 7)
#define IS_RECORD(w) (KIND(w) >= 1 && KIND(w) <= 3)

/* rebuild_move_group() from table `f` to `to` */
inline move(f) {
  atomic {                                  /* a loop of load and CAS has the effect of its last CAS */
    w = slot[f];
    if :: w < FROZEN -> w = w + FROZEN; slot[f] = w :: else -> skip fi
  };
  if
  :: forwarded[f] -> skip
  :: else ->
     atomic {
       if
       :: slot[to] == INIT -> slot[to] = (IS_RECORD(w) -> w - FROZEN : EMPTY)
       :: else -> skip
       fi
     };
     atomic { last = !forwarded[f]; forwarded[f] = 1 };
     if
     :: last ->
#if BROKEN == 3
        next = NOBODY;
        table_now = to
#else
        table_now = to;
        next = NOBODY
#endif
     :: else -> skip
     fi
  fi
}

inline help() {
#if BROKEN == 2
  here = (table_now == t);
  to = next;
#else
  to = next;
  here = (BROKEN == 1 || table_now == t);
#endif
  if
  :: !here -> skip
  :: here -> assert(to == t + 1); move(t)
  fi
}

inline look() {
  t = table_now;
  do
  :: forwarded[t] -> t++
  :: else -> break
  od;
  w = slot[t];
  assert(w != INIT)
}

proctype writer(byte value) {
  byte t, to, w; bit here, last, ok;
  atomic { value != 2 || setting -> setting = setting | (value == 1) };
  do
  :: look();
     if
     :: w >= FROZEN ->
#if STUCK != 1
        help();
#endif
        atomic { t = 0; to = 0; w = 0; here = 0; last = 0 }
     :: w < FROZEN && value == GHOST && !IS_RECORD(w) -> break
     :: else ->
        atomic {
          ok = (slot[t] == w);
          if
          :: ok -> assert(live == (IS_RECORD(w) -> w : 0)); slot[t] = value; live = (value == GHOST -> 0 : value)
          :: else -> skip
          fi
        };
        if :: ok -> break :: else -> t = 0; w = 0 fi
     fi
  od;
  atomic { t = 0; w = 0; ok = 0; value = 0 }
}

proctype leader(bit second) {
  byte t, to, w; bit last;
  atomic { !second || leading -> leading = 1; second = 0; t = table_now };   /* rebuild_next_wish() */
  atomic { if :: next == NOBODY -> next = CLAIMED :: else -> goto out fi };
  if
  :: BROKEN == 4 || table_now == t ->
     atomic { made[t]++; assert(made[t] == 1); to = t + 1; slot[to] = INIT };
     next = to;
     if
     :: table_now == t -> move(t)
     :: else -> skip
     fi
  :: else -> next = NOBODY
  fi;
out:
  atomic { t = 0; to = 0; w = 0; last = 0 }
}

init {
  atomic {
    if
    :: slot[0] = 3; live = 3
    :: slot[0] = EMPTY
    fi;
    run writer(1); run writer(GHOST); run leader(0); run leader(1);
#ifdef ALL
    run writer(2)
#endif
  };
  (_nr_pr == 1);
  assert(next == NOBODY && !forwarded[table_now] && (IS_RECORD(slot[table_now]) -> slot[table_now] : 0) == live)
}
