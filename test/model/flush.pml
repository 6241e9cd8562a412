/* flush - FLUSHALL by stamp (store/cut.h, store.c): on one key, an INCR that is under way, two flushes, readers, and one
 * INCR afterwards; -DALL: two INCRs under way. All their orders are searched. A value belongs to a life: an INCR that finds
 * nothing begins a new one.
 *
 * What was acknowledged before a flush began is not seen by what begins after it ended; a new life needs a flush that
 * ended the one before. An operation begins with its first load, a flush too, and an INCR is acknowledged by its CAS: to
 * begin earlier or to be acknowledged later only excuses more. What the INCRs count does not matter, only the life that
 * they add to. Of two flushes, or INCRs, which are alike, the first in the model begins first.
 *
 * A reader loads the slot, then the cut, of which it takes the value before a PENDING one. That value only rises, so a
 * reader sees the most when nothing happens between its loads: instead of readers, the model asks at each change what
 * such a reader would see.
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
byte life = 0, stamp = 1;   /* the slot: one version */
byte lives = 1, flushes = 0;
byte acked = 1;             /* lives of which something was acknowledged, one bit each; the first one at the start */
bit begun;                  /* the first INCR */
byte dead = 0;              /* lives that no later operation may see */

#define IS_PENDING(w) (w >= PENDING)
#if BROKEN == 3
#define MAKE_PENDING(w) PENDING
#define VALUE(w)        0
#else
#define MAKE_PENDING(w) (PENDING + w)
#define VALUE(w)        (w - PENDING)
#endif
#define IN(set, v) ((set >> v) & 1)

/* Of a reader that begins now. */
inline check_reader() {
  assert(!IN(dead, life) || stamp <= (IS_PENDING(cut) -> VALUE(cut) : cut) || (BROKEN == 3 && IS_PENDING(cut)))
}

/* A reading that was the last one and is of no use was never taken: the same orders, fewer numbers. */
inline untick(reading) { if :: reading == clk -> clk-- :: else -> skip fi }

inline tick(to) { atomic { clk++; to = clk } }

/* cut_decide(): f holds the word that was read, and the decided one afterwards. */
inline decide() {
  do
  :: IS_PENDING(f) ->
     atomic {
       clk++; t = clk;
       if :: VALUE(f) >= t -> t = VALUE(f) + 1 :: else -> skip fi
     };
     atomic { if :: cut == f -> cut = t; f = t :: else -> f = cut; untick(t) fi; t = 0 }
  :: else -> break
  od
}

proctype incr(bit second) {
  byte v, st, s, f, t, gone;
  atomic { !second || begun -> begun = 1; second = 0; gone = dead; v = life; st = stamp };
  do
  :: true ->
#if BROKEN == 1
     f = cut;
     tick(s);
#else
     tick(s);
     f = cut;
#endif
     if
     :: IS_PENDING(f) -> decide()
#if BROKEN != 4
     :: !IS_PENDING(f) && s <= f -> skip
#endif
     :: !IS_PENDING(f) && (BROKEN == 4 || s > f) ->
        atomic {
          if
          :: stamp == st ->
             if
             :: st <= f -> assert(lives < LIVES); v = lives; lives++; assert(lives <= flushes + 1)
             :: else -> skip
             fi;
             assert(!IN(gone, v));
             life = v; stamp = s; acked = acked | (1 << v);
             check_reader();
             break
          :: else -> skip
          fi
        }
     fi;
     atomic { untick(s); s = 0; f = 0; v = life; st = stamp }
  od;
  atomic { v = 0; st = 0; s = 0; f = 0; gone = 0 }
}

proctype flush(bit second) {
  byte f, t, before;
#if BROKEN == 2
  atomic { flushes >= second -> flushes++; second = 0; before = acked; clk++; t = clk };
  cut = t;
#else
  atomic { flushes >= second -> flushes++; second = 0; before = acked; f = cut };
  do
  :: true ->
     decide();
     atomic { if :: cut == f -> cut = MAKE_PENDING(f); f = cut; break :: else -> f = cut fi }
  od;
  decide();
#endif
  atomic { dead = dead | before; check_reader(); f = 0; t = 0; before = 0 }
}

init {
  atomic {
    run incr(0); run flush(0);
#if BROKEN != 4
    run flush(1); /* a second flush would excuse the second new life that BROKEN=4 begins */
#endif
#ifdef ALL
    run incr(1);
#endif
  };
  (_nr_pr == 1);
  run incr(0)
}
