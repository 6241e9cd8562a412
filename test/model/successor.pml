/* successor - a segment that moves to a second table and at once to a third (store/rebuild.c, rebuild_lead.c): two members
 * that lead, a setter (two with -DALL) and a deleter that help, on one key. A table is one bucket of one slot.
 *
 * `next` says which table follows the one in the directory. A helper that met a frozen slot may read it late, when it
 * belongs to another rebuild: a bucket that is not FORWARDED after that says that it does not. No table has two
 * successors, no update is lost (see frontier.pml).
 *
 * PROGRESS: no state comes again.
 *
 * BROKEN=1: a helper does not look at the bucket after `next`.
 * BROKEN=2: a helper looks at the bucket before `next`.
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
  done = forwarded[t];
  to = next;
#else
  to = next;
  done = forwarded[t];
#endif
#if BROKEN == 1
  done = 0;
#endif
  if
  :: done -> skip
  :: else -> assert(to == t + 1); move(t)
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
  byte t, to, w; bit done, last, ok;
  do
  :: look();
     if
     :: w >= FROZEN ->
#if STUCK != 1
        help()
#endif
     :: w < FROZEN && value == GHOST && !IS_RECORD(w) -> break
     :: else ->
        atomic {
          ok = (slot[t] == w);
          if
          :: ok -> assert(live == (IS_RECORD(w) -> w : 0)); slot[t] = value; live = (value == GHOST -> 0 : value)
          :: else -> skip
          fi
        };
        if :: ok -> break :: else -> skip fi
     fi
  od;
  atomic { t = 0; to = 0; w = 0; done = 0; last = 0; ok = 0 }
}

proctype leader() {
  byte t, to, w; bit last;
  t = table_now;                            /* rebuild_examine() */
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
    run writer(1); run writer(GHOST); run leader(); run leader();
#ifdef ALL
    run writer(2)
#endif
  };
  (_nr_pr == 1);
  assert(next == NOBODY && !forwarded[table_now] && (IS_RECORD(slot[table_now]) -> slot[table_now] : 0) == live)
}
