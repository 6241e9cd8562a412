/* frontier - one key in a chain of two buckets (store/index.h): two setters, a deleter, a sweeper that expires records and
 * drops ghosts, a neighbour key, and a third setter or a reader.
 *
 * `live` is what the key holds by the order of the CASes: each CAS must find what `live` says, so no update is lost and no
 * key is there twice. A reader's answer must be one that `live` had while it read.
 *
 * BROKEN=1: a setter uses the first TOMB it passed.
 * BROKEN=2: a setter that lost the EMPTY slot goes on to the next without looking at it again.
 * BROKEN=3: the neighbour's expiry makes its slot EMPTY again.
 * BROKEN=4: a full chain gets its bucket first and the record later, in two steps. */
#ifndef BROKEN
#define BROKEN 0
#endif

#define HEAD  2  /* slots of the first bucket */
#define SLOTS 5
#define EMPTY 0  /* 1..9: records of the key, by writer */
#define GHOST 20
#define OTHER 30
#define TOMB  40
#define NONE  99

byte s[SLOTS];
bit link;          /* the second bucket is there */
byte live;         /* 0: absent */
short seen;        /* values of `live` since the reader began, one bit each */
bit reading;

#define IS_RECORD(w) (w >= 1 && w <= 9)

inline becomes(v) {
  live = v;
  if :: reading -> seen = seen | (1 << v) :: else -> skip fi
}

/* What an ended process remembers would only make more states. */
inline forget() { atomic { i = 0; w = 0; hole = NONE } }

inline audit() {
  a = 0; b = 0;
  do
  :: a < SLOTS ->
     if :: IS_RECORD(s[a]) || s[a] == GHOST -> b++ :: else -> skip fi;
     a++
  :: else -> break
  od;
  assert(b <= 1);
  a = 0; b = 0
}

/* The first EMPTY slot or the key's own; i == HEAD with no link, or i == SLOTS: the chain is full. */
inline look() {
  do
  :: i == HEAD && !link -> break
  :: i == SLOTS -> break
  :: else ->
     w = s[i];
     if
     :: w == EMPTY || IS_RECORD(w) || w == GHOST -> break
     :: else ->
#if BROKEN == 1
        if :: w == TOMB && hole == NONE -> hole = i :: else -> skip fi;
#endif
        i++
     fi
  od
}

proctype setter(byte id) {
  byte i = 0, w, a, b, hole = NONE;
again:
  look();
  if
  :: i == SLOTS -> skip                                   /* this model's chain ends here */
  :: i == HEAD && i < SLOTS && !link ->
#if BROKEN == 4
     atomic { if :: !link -> link = 1 :: else -> goto again fi };
     atomic { assert(s[HEAD] == EMPTY); s[HEAD] = id; assert(live == 0); becomes(id); audit() }
#else
     atomic { if :: !link -> link = 1; s[HEAD] = id; assert(live == 0); becomes(id); audit() :: else -> goto again fi }
#endif
  :: else ->
#if BROKEN == 1
     if
     :: w == EMPTY && hole != NONE ->
        atomic { if :: s[hole] == TOMB -> s[hole] = id; assert(live == 0); becomes(id); audit(); goto end_
                    :: else -> hole = NONE; i = 0; goto again fi }
     :: else -> skip
     fi;
#endif
     atomic {
       if
       :: s[i] == w ->
          assert(live == (IS_RECORD(w) -> w : 0));
          s[i] = id; becomes(id); audit()
       :: else ->
#if BROKEN == 2
          if :: w == EMPTY -> i++ :: else -> skip fi;
#endif
          goto again
       fi
     }
  fi;
end_: forget()
}

proctype deleter() {
  byte i = 0, w, a, b, hole = NONE;
again:
  look();
  if
  :: i < SLOTS && (i != HEAD || link) && IS_RECORD(w) ->
     atomic {
       if
       :: s[i] == w -> assert(live == w); s[i] = GHOST; becomes(0); audit()
       :: else -> goto again
       fi
     }
  :: else -> skip
  fi;
  forget()
}

/* Expiry takes a record, the sweep of ghosts a ghost: both leave a TOMB. Once: it is one of many sweeps. */
proctype sweeper() {
  byte i = 0, w, a, b;
  do
  :: i == SLOTS || (i == HEAD && !link) -> break
  :: else ->
     w = s[i];
     if
     :: IS_RECORD(w) -> atomic { if :: s[i] == w -> assert(live == w); s[i] = TOMB; becomes(0); break :: else -> i++ fi }
     :: w == GHOST -> atomic { if :: s[i] == w -> assert(live == 0); s[i] = TOMB; break :: else -> i++ fi }
     :: else -> i++
     fi
  od;
  atomic { i = 0; w = 0 }
}

/* Its record in slot 0 expires; it comes again. */
proctype neighbour() {
  byte i = 0, w;
#if BROKEN == 3
  s[0] = EMPTY;
#else
  s[0] = TOMB;
#endif
again:
  do
  :: i == SLOTS || (i == HEAD && !link) -> goto out
  :: else ->
     w = s[i];
     if
     :: w == EMPTY -> break
     :: else -> i++
     fi
  od;
  atomic { if :: s[i] == w -> s[i] = OTHER :: else -> goto again fi };
out: atomic { i = 0; w = 0 }
}

proctype reader() {
  byte i = 0, w, got = 0, hole = NONE;
  atomic { reading = 1; seen = 1 << live };
  look();
  if :: i < SLOTS && (i != HEAD || link) && IS_RECORD(w) -> got = w :: else -> skip fi;
  atomic { assert((seen >> got) & 1); reading = 0; seen = 0; got = 0; i = 0; w = 0 }
}

init {
  atomic {
    s[0] = OTHER;
    run setter(1); run setter(2); run deleter(); run sweeper(); run neighbour();
    if
    :: run setter(3)
    :: run reader()
    fi
  }
}
