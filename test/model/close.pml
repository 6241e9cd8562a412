/* close - a segment that has no record loses its table (store/rebuild.h): a closer, and two of: a setter of key A, one
 * that sets and deletes it, a setter of key B, a reader of A, a walk over all keys. A and B have a chain of one slot
 * each. (-DALL: a second closing, or three beside the closer, 45 million states.)
 *
 * `live` is what a key holds by the order of the CASes (see frontier.pml). A reader finds a value that the key had
 * while it looked; a walk meets a key that is there all the time; in the end each key is where it belongs, the row
 * counts the table, and nothing is under way.
 *
 * PROGRESS: no state comes again, so whoever goes on alone comes to an end: nobody waits for the closer.
 *
 * BROKEN=1: the closer leaves EMPTY slots unfrozen.
 * BROKEN=2: the closer writes CLOSED over what a writer made of CLOSING.
 * BROKEN=3: the row has a bit for the segment instead of a count.
 * BROKEN=4: the row counts the table when it is in the directory already.
 * STUCK=1: a writer that meets CLOSED waits for the closer. */
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef STUCK
#define STUCK 0
#endif

#define TABLES 7   /* 0 is none */
#define EMPTY  0   /* 1..3: records of A, by writer; 4: the record of B */
#define GHOST  5   /* of A */
#define INIT   6
#define FROZEN 8   /* + any */

#define CLAIMED  16
#define CLOSING  32  /* + table */
#define CLOSED   64  /* + table */

byte s[14], forward[14];   /* of each table, two chains: the slot; 0 or the table that has its keys now */
byte made = 1;             /* tables so far: the first is there */
byte table_now = 1, next, left, row = 1;
byte live_a, live_b;
byte seen;                 /* values of A since the reader began, one bit each */
bit reading, walking, missed; /* missed: A was away for a moment of the walk */

#define AT(t, b)   ((t) * 2 + (b))
#define KIND(w)    ((w) & 7)
#define IS_A(w)    (KIND(w) >= 1 && KIND(w) <= 3)
#define IS_RECORD(w) (KIND(w) >= 1 && KIND(w) <= 4)

inline count_row() {
#if BROKEN == 3
  row = 1
#else
  row++
#endif
}

inline uncount_row() {
#if BROKEN == 3
  row = 0
#else
  row--
#endif
}

/* Inside an atomic: a table that nobody else has seen is no state. */
inline make_table(n, fill) {
  assert(made < TABLES - 1); made++; n = made; s[AT(n, 0)] = fill; s[AT(n, 1)] = fill
}

inline freeze(t, b) {
  atomic {
    w = s[AT(t, b)];
    if
    :: w < FROZEN && !(BROKEN == 1 && w == EMPTY) -> w = w + FROZEN; s[AT(t, b)] = w
    :: else -> skip
    fi
  }
}

/* CLOSING becomes a table. */
inline reopen(t) {
  atomic { if :: next == CLOSING + t -> make_table(n, INIT); next = n :: else -> skip fi }
}

/* Chain b of table t, which is frozen, to table n. */
inline move(t, b, n) {
  freeze(t, b);
  if
  :: forward[AT(t, b)] == 0 ->
     w = s[AT(t, b)] - FROZEN;
     if :: !IS_RECORD(w) -> w = EMPTY :: else -> skip fi;
     atomic { if :: s[AT(n, b)] == INIT -> s[AT(n, b)] = w :: else -> skip fi };
     atomic {
       last = 0;
       if
       :: forward[AT(t, b)] == 0 -> forward[AT(t, b)] = n; assert(left > 0); left--; last = (left == 0)
       :: else -> skip
       fi
     };
     if :: last -> table_now = n; next = 0 :: else -> skip fi
  :: else -> skip
  fi
}

inline help(t, b) {
  n = next;
  if
  :: forward[AT(t, b)] != 0 -> skip
  :: else ->
     if
     :: table_now != t -> skip
     :: else ->
        if
        :: n >= CLOSED ->
#if STUCK != 1
           atomic { if :: table_now == t -> table_now = 0 :: else -> skip fi }
#endif
        :: n >= CLOSING && n < CLOSED -> reopen(t)
        :: else -> assert(BROKEN || (n > 0 && n < TABLES)); move(t, b, n)
        fi
     fi
  fi
}

/* ---- operations ---- */

inline look(b) {
  t = table_now;
  w = EMPTY;
  if
  :: t != 0 ->
     if :: forward[AT(t, b)] != 0 -> t = forward[AT(t, b)] :: else -> skip fi;
     if :: forward[AT(t, b)] != 0 -> t = forward[AT(t, b)] :: else -> skip fi;
     w = s[AT(t, b)];
     assert(BROKEN || KIND(w) != INIT)
  :: else -> skip
  fi
}

inline first_table() {
  if :: BROKEN != 4 -> count_row() :: else -> skip fi;
  atomic { ok = (table_now == 0); if :: ok -> make_table(t, EMPTY); table_now = t :: else -> skip fi };
  if
  :: !ok && BROKEN != 4 -> uncount_row()
  :: ok && BROKEN == 4 -> count_row()
  :: else -> skip
  fi
}

/* value 0: delete, leaving a ghost. */
inline write(b, value) {
  do
  :: look(b);
     if
     :: t == 0 && value == 0 -> break
     :: t == 0 && value != 0 -> first_table()
     :: t != 0 && w >= FROZEN -> help(t, b)
     :: t != 0 && w < FROZEN && value == 0 && !IS_RECORD(w) -> break
     :: t != 0 && w < FROZEN && (value != 0 || IS_RECORD(w)) ->
        atomic {
          ok = (s[AT(t, b)] == w);
          if
          :: ok && b -> assert(live_b == (IS_RECORD(w) -> w : 0)); s[AT(t, b)] = value; live_b = value
          :: ok && !b ->
             assert(live_a == (IS_A(w) -> w : 0));
             s[AT(t, b)] = (value -> value : GHOST);
             live_a = value;
             if :: reading -> seen = seen | (1 << live_a) :: else -> skip fi;
             if :: walking && live_a == 0 -> missed = 1 :: else -> skip fi
          :: else -> skip
          fi
        };
        if :: ok -> break :: else -> skip fi
     fi
  od;
  atomic { t = 0; w = 0; n = 0; ok = 0; last = 0 }
}

proctype setter(bit b; byte value) {
  byte t, w, n; bit ok, last;
  write(b, value)
}

proctype passer() {
  byte t, w, n; bit ok, last;
  write(0, 2);
  write(0, 0)
}

proctype reader() {
  byte t, w;
  atomic { reading = 1; seen = 1 << live_a };
  look(0);
  atomic { assert((seen >> (IS_A(w) -> KIND(w) : 0)) & 1); reading = 0; seen = 0; t = 0; w = 0 }
}

proctype walk() {
  byte t, w;
  atomic { walking = 1; missed = (live_a == 0) };
  if
  :: row != 0 -> look(0)
  :: else -> skip
  fi;
  atomic { assert(missed || IS_A(w)); walking = 0; missed = 0; t = 0; w = 0 }
}

proctype closer(byte rounds) {
  byte t, w, n; bit ok, last;
  do
  :: rounds == 0 -> break
  :: else ->
     rounds--;
     t = table_now;
     atomic { ok = (t != 0 && next == 0); if :: ok -> next = CLAIMED :: else -> skip fi };
     if
     :: ok && table_now != t -> next = 0
     :: ok && table_now == t ->
        left = 2;
        next = CLOSING + t;
        freeze(t, 0); ok = IS_RECORD(w);
        freeze(t, 1); ok = ok || IS_RECORD(w);
        if
        :: ok -> reopen(t)
        :: else ->
           atomic {
             if
             :: next == CLOSING + t || BROKEN == 2 -> next = CLOSED + t; last = 1
             :: else -> skip
             fi
           };
           if
           :: last ->
              atomic { if :: table_now == t -> table_now = 0 :: else -> skip fi };
              uncount_row();
              next = 0
           :: else -> skip
           fi;
           last = 0
        fi;
        n = next;
        if
        :: table_now == t && n != 0 && n < TABLES -> move(t, 0, n); move(t, 1, n)
        :: else -> skip
        fi
     :: else -> skip
     fi;
     d_step { t = 0; w = 0; n = 0; ok = 0; last = 0 }
  od
}

init {
  byte t, w;
  atomic {
    if                                  /* what is there at first */
    :: s[AT(1, 0)] = 3; live_a = 3
    :: s[AT(1, 0)] = GHOST
    :: skip
    fi;
    if
    :: run closer(1); run setter(0, 1); run passer()
    :: run closer(1); run setter(0, 1); run setter(1, 4)
    :: run closer(1); run passer(); run reader()
    :: run closer(1); run setter(0, 1); run walk()
    :: s[AT(1, 0)] = EMPTY; live_a = 0; table_now = 0; row = 0;
       run setter(0, 1); run setter(1, 4); run walk()
#ifdef ALL
    :: run closer(2); run passer(); run reader()
    :: run closer(2); run passer(); run walk()
    :: run closer(2); run passer(); run setter(0, 1)
    :: run closer(1); run setter(0, 1); run passer(); run walk()
    :: run closer(1); run setter(0, 1); run passer(); run setter(1, 4)
#endif
    fi
  };
  (_nr_pr == 1);
  d_step {
    assert(next == 0);
    look(0);
    assert((IS_A(w) -> w : 0) == live_a);
    look(1);
    assert((IS_RECORD(w) -> w : 0) == live_b);
    assert(BROKEN || row == (table_now != 0))
  }
}
