/* resize - a segment grows from one chain to two, or shrinks from two to one (store/rebuild.h): a rebuilder, and two of: a
 * setter and a deleter of key A, a reader of it, a setter of key B; -DALL: setter, deleter and reader of A at once. All
 * their orders are searched, from seven fillings of the chains. Whoever is in the way helps, however late. In the table of
 * two chains A belongs to the first and B to the second. Every bucket has one slot.
 *
 * `live` is what a key holds by the order of the CASes (see frontier.pml). Each head is forwarded once, the new table takes
 * its place once, and in the end each key is where it belongs, at most once.
 *
 * PROGRESS: no state comes again, so whoever goes on alone comes to an end: nobody waits for anybody.
 *
 * BROKEN=1: the destination begins EMPTY, and a helper copies what it does not find there: late, it brings back the dead.
 * BROKEN=2: of two chains that become one, only that in the way is frozen before both are copied.
 * BROKEN=3: the new table takes its place when the first head is forwarded.
 * STUCK=1: a writer that meets a frozen slot waits for the rebuilder. */
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef STUCK
#define STUCK 0
#endif

#define BUCKETS 3
#define EMPTY   0   /* 1..3: records of A, by writer; 4..6: records of B */
#define GHOST   8   /* of A */
#define TOMB    10
#define INIT    11
#define FROZEN  16  /* + any but TOMB */

#define NULL_LINK   0
#define MORE        1
#define INIT_LINK   2
#define FROZEN_NULL 3
#define FORWARDED   4

#define OLD 0
#define NEW 1
#define HEAD(t, c) ((t) * 2 * BUCKETS + (c) * BUCKETS)

byte s[12], l[12];        /* slots and links: table, chain, bucket */
byte chains[2];           /* of the old and the new table */
byte table_now = OLD;     /* the directory */
byte left, finished;
byte live_a, live_b;
byte seen;                /* values of live_a since the reader began, one bit each */
bit reading;

#define KIND(w)    (w & 15)
#define IS_A(w)    (KIND(w) >= 1 && KIND(w) <= 3)
#define IS_B(w)    (KIND(w) >= 4 && KIND(w) <= 6)
#define CHAIN(t, b) ((chains[t] == 2 && b) -> 1 : 0)

/* ---- one helper's move of the group: freeze, copy, forward ---- */

/* A loop of load and CAS has the effect of its last CAS. */
inline freeze_chain(c) {
  i = 0;
  do
  :: atomic {
       w = s[HEAD(OLD, c) + i];
       if :: w != TOMB && w < FROZEN -> w = w + FROZEN; s[HEAD(OLD, c) + i] = w :: else -> skip fi
     };
     if :: w == EMPTY + FROZEN -> break :: else -> skip fi;
     atomic {
       k = l[HEAD(OLD, c) + i];
       if :: k == NULL_LINK -> k = FROZEN_NULL; l[HEAD(OLD, c) + i] = k :: else -> skip fi
     };
     if
     :: k == MORE -> i++
     :: else -> late = late | (k == FORWARDED); break
     fi
  od
}

#if BROKEN == 1
inline put(c) {
  j = 0;
  do
  :: x = s[HEAD(NEW, c) + j];
     if
     :: x == EMPTY ->
        atomic { if :: s[HEAD(NEW, c) + j] == EMPTY -> s[HEAD(NEW, c) + j] = w - FROZEN; break :: else -> skip fi }
     :: else ->
        if :: (IS_A(w) && (IS_A(x) || x == GHOST)) || (IS_B(w) && IS_B(x)) -> break :: else -> skip fi;
        atomic { if :: l[HEAD(NEW, c) + j] == NULL_LINK -> l[HEAD(NEW, c) + j] = MORE :: else -> skip fi };
        j++
     fi
  od;
  x = 0; j = 0
}
#else
/* The place depends on the frozen chains only. */
inline put(c) {
  if
  :: to[c] > 0 ->
     atomic {
       k = l[HEAD(NEW, c) + to[c] - 1];
       if :: k == INIT_LINK -> k = MORE; l[HEAD(NEW, c) + to[c] - 1] = k :: else -> skip fi
     };
     late = late | (k != MORE)
  :: else -> skip
  fi;
  if
  :: !late ->
     atomic { if :: s[HEAD(NEW, c) + to[c]] == INIT -> s[HEAD(NEW, c) + to[c]] = w - FROZEN :: else -> skip fi };
     to[c]++
  :: else -> skip
  fi
}
#endif

/* Only the head's link may change meanwhile: what is frozen is read together with what follows. */
inline copy_chain(c) {
  atomic { i = 0; more = l[HEAD(OLD, c)]; late = late | (more == FORWARDED) };
  do
  :: atomic { late -> break }
  :: atomic {
       else ->
       w = s[HEAD(OLD, c) + i];
       if
       :: w == TOMB || KIND(w) == GHOST -> skip
       :: w != TOMB && KIND(w) == EMPTY -> break
       :: else -> put(CHAIN(NEW, IS_B(w)))
       fi;
       if :: more == MORE && !late -> i++; more = l[HEAD(OLD, c) + i] :: else -> break fi
     }
  od
}

/* What is left of the last bucket becomes EMPTY, its link null. */
inline close_chain(c) {
  if :: to[c] == 0 -> atomic { if :: s[HEAD(NEW, c)] == INIT -> s[HEAD(NEW, c)] = EMPTY :: else -> skip fi } :: else -> skip fi;
  i = (to[c] == 0 -> 0 : to[c] - 1);
  atomic { if :: l[HEAD(NEW, c) + i] == INIT_LINK -> l[HEAD(NEW, c) + i] = NULL_LINK :: else -> skip fi }
}

inline forward(c) {
  atomic {
    last = 0;
    if
    :: l[HEAD(OLD, c)] != FORWARDED ->
       l[HEAD(OLD, c)] = FORWARDED; assert(left > 0); left--;
#if BROKEN == 3
       last = 1
#else
       last = (left == 0)
#endif
    :: else -> skip
    fi
  };
  if :: last -> table_now = NEW; finished++ :: else -> skip fi
}

/* Of the group in which `h` is a chain: all, while the directory has the old table. */
inline help(h) {
  if
  :: table_now != OLD -> skip
  :: else ->
     d_step { late = 0; to[0] = 0; to[1] = 0 };
     if :: BROKEN == 2 && h == 1 -> skip :: else -> freeze_chain(0) fi;
     if :: chains[OLD] == 2 && !late && (BROKEN != 2 || h == 1) -> freeze_chain(1) :: else -> skip fi;
     if :: !late -> copy_chain(0) :: else -> skip fi;
     if :: chains[OLD] == 2 && !late -> copy_chain(1) :: else -> skip fi;
     if :: !late -> close_chain(0) :: else -> skip fi;
     if :: chains[NEW] == 2 && !late -> close_chain(1) :: else -> skip fi;
     forward(0);
     if :: chains[OLD] == 2 -> forward(1) :: else -> skip fi;
     d_step { i = 0; w = 0; k = 0; more = 0; late = 0; last = 0; to[0] = 0; to[1] = 0 }
  fi
}

/* ---- operations ---- */

/* Ends with t, h, i, w: a slot that holds the key or is the first EMPTY one; or `filled` with the last link in k. */
inline look(b) {
  atomic { filled = 0; i = 0; t = table_now; h = HEAD(t, CHAIN(t, b)) };
  k = l[h];
  if :: k == FORWARDED -> t = NEW; h = HEAD(NEW, CHAIN(NEW, b)); k = l[h] :: else -> skip fi;
  do
  :: w = s[h + i];
     assert(BROKEN == 1 || BROKEN == 3 || w != INIT);
     if
     :: w != TOMB && (KIND(w) == EMPTY || (!b && (IS_A(w) || KIND(w) == GHOST)) || (b && IS_B(w))) -> break
     :: else ->
        if
        :: k == MORE && i < BUCKETS - 1 -> i++; k = l[h + i]
        :: else -> filled = 1; break
        fi
     fi
  od
}

#define IN_THE_WAY ((!filled && w >= FROZEN) || (filled && k == FROZEN_NULL))

inline swap(b, value, ok) {
  atomic {
    ok = (s[h + i] == w);
    if
    :: ok ->
       s[h + i] = value;
       if
       :: b -> assert(live_b == (IS_B(w) -> w : 0)); live_b = value
       :: else ->
          assert(live_a == (IS_A(w) -> w : 0));
          live_a = (value == GHOST || value == TOMB -> 0 : value);
          if :: reading -> seen = seen | (1 << live_a) :: else -> skip fi
       fi
    :: else -> skip
    fi
  }
}

inline append(b, value, ok) {
  atomic {
    ok = (l[h + i] == NULL_LINK);
    if
    :: ok ->
       l[h + i] = MORE; s[h + i + 1] = value; l[h + i + 1] = NULL_LINK;
       if
       :: b -> assert(live_b == 0); live_b = value
       :: else -> assert(live_a == 0); live_a = value; if :: reading -> seen = seen | (1 << live_a) :: else -> skip fi
       fi
    :: else -> skip
    fi
  }
}

#define SET    1
#define DELETE 2   /* leaves a ghost, or for want of memory a TOMB */

proctype writer(byte role; bit b; byte value) {
  byte t, h, i, w, k, x, j, more, to[2]; bit filled, ok, late, last;
  do
  :: look(b);
     if
     :: IN_THE_WAY ->
#if STUCK != 1
        help(CHAIN(OLD, b))
#endif
     :: role == SET && !IN_THE_WAY && filled && i == BUCKETS - 1 -> break    /* this model's chain ends here */
     :: role == SET && !IN_THE_WAY && filled && i < BUCKETS - 1 -> append(b, value, ok); if :: ok -> break :: else -> skip fi
     :: role == SET && !IN_THE_WAY && !filled -> swap(b, value, ok); if :: ok -> break :: else -> skip fi
     :: role == DELETE && !IN_THE_WAY && (filled || !IS_A(w)) -> break
     :: role == DELETE && !IN_THE_WAY && !filled && IS_A(w) ->
        atomic { if :: value = GHOST :: value = TOMB fi };
        swap(0, value, ok);
        if :: ok -> break :: else -> skip fi
     fi;
     atomic { t = 0; h = 0; i = 0; w = 0; k = 0; filled = 0; value = (role == DELETE -> 0 : value) }
  od;
  atomic { t = 0; h = 0; i = 0; w = 0; k = 0; filled = 0; ok = 0; role = 0; b = 0; value = 0 }
}

proctype rebuilder() {
  byte i, w, k, x, j, more, to[2]; bit late, last;
  help(0)
}

proctype reader() {
  byte t, h, i, w, k; bit filled;
  atomic { reading = 1; seen = 1 << live_a };
  look(0);
  k = (!filled && IS_A(w) -> KIND(w) : 0);
  atomic { assert((seen >> k) & 1); reading = 0; seen = 0; t = 0; h = 0; i = 0; w = 0; k = 0; filled = 0 }
}

inline count_keys() {
  d_step {
    h = 0;
    do
    :: h < chains[NEW] ->
       i = 0;
       do
       :: i == BUCKETS -> break
       :: i < BUCKETS ->
          w = s[HEAD(NEW, h) + i];
          if :: IS_A(w) -> a++; assert(w == live_a && h == CHAIN(NEW, 0)) :: else -> skip fi;
          if :: IS_B(w) -> b++; assert(w == live_b && h == CHAIN(NEW, 1)) :: else -> skip fi;
          if :: l[HEAD(NEW, h) + i] != MORE -> break :: else -> i++ fi
       od;
       h++
    :: else -> break
    od;
    assert(a == (live_a != 0) && b == (live_b != 0))
  }
}

init {
  byte h, i, w, a, b;
  atomic {
    do
    :: i == 12 -> break
    :: else ->
       if
       :: i >= 6 ->
#if BROKEN == 1
          s[i] = EMPTY; l[i] = NULL_LINK
#else
          s[i] = INIT; l[i] = INIT_LINK
#endif
       :: else -> skip
       fi;
       i++
    od;
    i = 0;
    if                                  /* what is there at first */
    :: chains[OLD] = 1; chains[NEW] = 2;
       if
       :: s[0] = 6; live_b = 6; l[0] = MORE; s[1] = 3; live_a = 3
       :: s[0] = TOMB; l[0] = MORE; s[1] = 6; live_b = 6
       :: s[0] = GHOST; l[0] = MORE; s[1] = 6; live_b = 6
       :: s[0] = 3; live_a = 3
       fi
    :: chains[OLD] = 2; chains[NEW] = 1;
       if
       :: s[0] = 3; live_a = 3; s[3] = 6; live_b = 6
       :: s[0] = TOMB; l[0] = MORE; s[1] = 3; live_a = 3
       :: s[3] = 6; live_b = 6
       fi
    fi;
    left = chains[OLD];
    run rebuilder();
#ifdef ALL
    run writer(DELETE, 0, 0); run writer(SET, 0, 1); run reader()
#else
    if
    :: run writer(DELETE, 0, 0); run writer(SET, 0, 1)
    :: run writer(DELETE, 0, 0); run reader()
    :: run writer(SET, 0, 1); run writer(SET, 1, 4)
    :: run writer(SET, 0, 1); run reader()
    fi
#endif
  };
  (_nr_pr == 1);
  if
  :: left == 0 -> assert(finished == 1 && table_now == NEW); count_keys()
  :: else -> assert(false)               /* the rebuilder ended, so the group has moved */
  fi
}
