/* flush - FLUSHALL by stamp (store/cut.h, store.c): an INCR that is under way (two with -DALL: 55 million
 * states), two flushes, a reader, one INCR afterwards, on one key. A value belongs to a life: an INCR that finds nothing begins a new one.
 *
 * What was acknowledged before a flush began is not seen by what begins after it ended; a new life needs a flush that
 * ended the one before.
 *
 * BROKEN=1: the cut is read before the stamp is taken.
 * BROKEN=2: no PENDING: the flusher reads the clock, then stores the cut.
 * BROKEN=3: all PENDINGs are alike, so a reading taken for one cut ends the next.
 * BROKEN=4: a stamp below the cut does not start again. */
#ifndef BROKEN
#define BROKEN 0
#endif

#define PENDING 64  /* + the cut before it */
#define LIVES   5

byte clk = 1;
byte cut = 0;
byte life = 0, count = 5, stamp = 1;   /* the slot: one version */
byte lives = 1, flushes = 0;
bit acked[LIVES];                      /* lives of which something was acknowledged; the first one at the start */
bit dead[LIVES];                       /* lives that no later operation may see */

#define IS_PENDING(w) (w >= PENDING)
#if BROKEN == 3
#define MAKE_PENDING(w) PENDING
#define VALUE(w)        0
#else
#define MAKE_PENDING(w) (PENDING + w)
#define VALUE(w)        (w - PENDING)
#endif

inline tick(to) { atomic { clk++; to = clk } }

/* cut_decide(): f holds the word that was read, and the decided one afterwards. */
inline decide() {
  do
  :: IS_PENDING(f) ->
     tick(t);
     if :: VALUE(f) >= t -> t = VALUE(f) + 1 :: else -> skip fi;
     atomic { if :: cut == f -> cut = t; f = t :: else -> f = cut fi }
  :: else -> break
  od
}

inline begin_op() {
  d_step { l = 0; do :: l < LIVES -> gone[l] = dead[l]; l++ :: else -> break od; l = 0 }
}

inline acknowledge(v) { atomic { assert(!gone[v]); acked[v] = 1 } }

proctype incr() {
  byte v, c, st, s, f, t, l, nv, nc;
  bit gone[LIVES];
  begin_op();
again: skip;
  d_step { v = life; c = count; st = stamp };
#if BROKEN == 1
  f = cut;
  tick(s);
#else
  tick(s);
  f = cut;
#endif
  if :: IS_PENDING(f) -> decide(); goto again :: else -> skip fi;
#if BROKEN != 4
  if :: s <= f -> goto again :: else -> skip fi;
#endif
  if :: st > f -> nv = v; nc = c + 1 :: else -> nv = lives; nc = 1 fi;
  atomic {
    if
    :: stamp == st ->
       if :: nc == 1 -> assert(lives < LIVES); nv = lives; lives++; assert(lives <= flushes + 1) :: else -> skip fi;
       life = nv; count = nc; stamp = s
    :: else -> goto again
    fi
  };
  acknowledge(nv)
}

proctype flush() {
  byte f, t, w, l;
  bit before[LIVES];
  d_step { flushes++; l = 0; do :: l < LIVES -> before[l] = acked[l]; l++ :: else -> break od; l = 0 };
#if BROKEN == 2
  tick(t);
  cut = t;
#else
  do
  :: f = cut; decide();
     atomic { if :: cut == f -> cut = MAKE_PENDING(f); f = cut; break :: else -> skip fi }
  od;
  decide();
#endif
  skip;
  d_step { l = 0; do :: l < LIVES -> dead[l] = dead[l] | before[l]; l++ :: else -> break od; l = 0 }
}

/* A reader does not choose: it takes the cut before a PENDING one. */
proctype reader() {
  byte v, st, f, l;
  bit gone[LIVES];
  begin_op();
  d_step { v = life; st = stamp };
  f = cut;
#if BROKEN != 3
  if :: IS_PENDING(f) -> f = VALUE(f) :: else -> skip fi;
#endif
  if :: !IS_PENDING(f) && st > f -> assert(!gone[v]) :: else -> skip fi
}

init {
  atomic {
    acked[0] = 1;
    run incr(); run flush(); run reader();
#ifdef ALL
    run incr();
#endif
#if BROKEN != 4
    run flush() /* a second flush would excuse the second new life that BROKEN=4 begins */
#endif
  };
  (_nr_pr == 1);
  run incr()
}
