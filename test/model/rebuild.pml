/* rebuild - a segment of one bucket moves to another table (store/rebuild.h): a setter (two with -DALL: 117 million
 * states), a deleter, a reader and a rebuilder, on one key; whoever is in the way helps. The head of either chain has one
 * slot, the bucket behind it two.
 *
 * `live` is what the key holds by the order of the CASes (see frontier.pml); a copy changes nothing. A bucket is forwarded
 * exactly once.
 *
 * BROKEN=1: a null link is not frozen.
 * BROKEN=2: the first EMPTY slot is not frozen.
 * BROKEN=3: a helper that saw INIT writes, however late, instead of a CAS.
 * BROKEN=4: the new table is used before the bucket is forwarded.
 * BROKEN=5: a writer changes a frozen slot. */
#ifndef BROKEN
#define BROKEN 0
#endif

#define SLOTS  3
#define EMPTY  0   /* 1..7: records of the key */
#define GHOST  8
#define OTHER  9
#define TOMB   10
#define INIT   11
#define FROZEN 16  /* + any but TOMB */

#define NULL_LINK   0
#define MORE        1  /* the second bucket */
#define INIT_LINK   2
#define FROZEN_NULL 3
#define FORWARDED   4

/* [0]: slot of the head; [1], [2]: slots of the second bucket. */
byte o[SLOTS], n[SLOTS];
byte olink = NULL_LINK, nlink = INIT_LINK;
byte live, forwarded;
short seen;
bit reading;

#define KIND(w)      (w & 15)
#define IS_RECORD(w) (KIND(w) >= 1 && KIND(w) <= 7)
#define HAS_KEY(w)   (KIND(w) >= 1 && KIND(w) <= 8)

inline becomes(x) {
  live = x;
  if :: reading -> seen = seen | (1 << x) :: else -> skip fi
}

/* ---- one helper's move: freeze, copy, forward ---- */

inline freeze_slot(i) {
  do
  :: w = o[i];
     if
     :: w >= FROZEN || w == TOMB -> break
#if BROKEN == 2
     :: w == EMPTY -> break
#endif
     :: else -> atomic { if :: o[i] == w -> o[i] = w + FROZEN; w = w + FROZEN; break :: else -> skip fi }
     fi
  od
}

inline freeze() {
  freeze_slot(0);
  if
  :: KIND(w) == EMPTY && w != TOMB -> skip
  :: else ->
#if BROKEN == 1
     k = olink;
#else
     atomic { if :: olink == NULL_LINK -> olink = FROZEN_NULL :: else -> skip fi; k = olink };
#endif
     if
     :: k == MORE ->
        freeze_slot(1);
        if :: w != TOMB && KIND(w) == EMPTY -> skip :: else -> freeze_slot(2) fi
     :: else -> skip
     fi
  fi
}

/* A record goes to the next place of the new chain, if nobody was there before. */
inline put(word) {
  if
  :: to == 1 -> atomic { if :: nlink == INIT_LINK -> nlink = MORE :: else -> skip fi }
  :: else -> skip
  fi;
#if BROKEN == 3
  if :: n[to] == INIT -> n[to] = word - FROZEN :: else -> skip fi;   /* two steps: others may be between them */
#else
  atomic { if :: n[to] == INIT -> n[to] = word - FROZEN :: else -> skip fi };
#endif
  to++
}

inline copy() {
  to = 0;
  w = o[0];
  if :: w != TOMB && (IS_RECORD(w) || KIND(w) == OTHER) -> put(w) :: else -> skip fi;
  if
  :: k == MORE && KIND(o[0]) != EMPTY ->
     w = o[1];
     if :: w != TOMB && (IS_RECORD(w) || KIND(w) == OTHER) -> put(w) :: else -> skip fi;
     if
     :: w == TOMB || KIND(w) != EMPTY ->
        w = o[2];
        if :: w != TOMB && (IS_RECORD(w) || KIND(w) == OTHER) -> put(w) :: else -> skip fi
     :: else -> skip
     fi
  :: else -> skip
  fi;
  /* the rest of the last bucket, then its link */
  if
  :: to == 0 -> atomic { if :: n[0] == INIT -> n[0] = EMPTY :: else -> skip fi }
  :: to == 2 -> atomic { if :: n[2] == INIT -> n[2] = EMPTY :: else -> skip fi }
  :: else -> skip
  fi;
  if
  :: to <= 1 -> atomic { if :: nlink == INIT_LINK -> nlink = NULL_LINK :: else -> skip fi }
  :: else -> skip
  fi
}

inline forward() {
  atomic {
    if
    :: olink != FORWARDED ->
       olink = FORWARDED; forwarded++; assert(forwarded == 1)   /* its winner frees ghosts and the old bucket */
    :: else -> skip
    fi
  }
}

/* rebuild_help(): looks at the head's link first, so a moved bucket is not touched. */
inline help() {
  k = olink;
  if
  :: k == FORWARDED -> skip
  :: else ->
     freeze();
     if
     :: k == FORWARDED -> skip       /* somebody was faster: all is copied */
     :: else -> copy(); forward()
     fi
  fi
}

/* ---- operations ---- */

#define IN_OLD 0
#define IN_NEW 1

/* Ends with table, i, w: a slot that holds the key or is the first EMPTY one; or, with i == 1 and `filled`, a null link in k. */
inline look() {
  i = 0; filled = 0;
  k = olink;
  table = (k == FORWARDED -> IN_NEW : IN_OLD);
  if :: table == IN_NEW -> k = nlink :: else -> skip fi;
  do
  :: w = (table == IN_NEW -> n[i] : o[i]);
     assert(BROKEN == 4 || w != INIT);
     if
     :: w != TOMB && (KIND(w) == EMPTY || HAS_KEY(w)) -> break
     :: else ->
        if
        :: i == 0 && k != MORE -> filled = 1; w = (k == FROZEN_NULL -> FROZEN : 0); i = 1; break
        :: i == 2 -> filled = 1; w = 0; i = 3; break
        :: else -> i++
        fi
     fi
  od
}

inline swap(value, ok) {
  atomic {
    ok = 0;
    if
    :: table == IN_OLD && o[i] == w -> o[i] = value; ok = 1
    :: table == IN_NEW && n[i] == w -> n[i] = value; ok = 1
    :: else -> skip
    fi;
    if
    :: ok -> assert(live == (IS_RECORD(w) -> KIND(w) : 0)); becomes((value == GHOST -> 0 : value))
    :: else -> skip
    fi
  }
}

inline append(value, ok) {
  atomic {
    ok = 0;
    if
    :: table == IN_OLD && olink == NULL_LINK -> olink = MORE; o[1] = value; ok = 1
    :: table == IN_NEW && nlink == NULL_LINK -> nlink = MORE; n[1] = value; n[2] = EMPTY; ok = 1
    :: else -> skip
    fi;
    if :: ok -> assert(live == 0); becomes(value) :: else -> skip fi
  }
}

proctype setter(byte id) {
  byte i, w, k, to; bit table, filled, ok;
  do
  :: look();
     if
     :: w >= FROZEN ->
#if BROKEN == 5
        if :: !filled -> swap(id, ok); if :: ok -> break :: else -> skip fi :: else -> skip fi;
#endif
        help()
     :: w < FROZEN && i == 3 -> break         /* this model's chain ends here */
     :: w < FROZEN && filled && i == 1 -> append(id, ok); if :: ok -> break :: else -> skip fi
     :: else -> swap(id, ok); if :: ok -> break :: else -> skip fi
     fi
  od
}

proctype deleter() {
  byte i, w, k, to; bit table, filled, ok;
  do
  :: look();
     if
     :: w >= FROZEN -> help()
     :: w < FROZEN && (filled || !IS_RECORD(w)) -> break
     :: else -> swap(GHOST, ok); if :: ok -> break :: else -> skip fi
     fi
  od
}

/* Readers do not help: a frozen slot is the truth as long as the bucket was not forwarded when they came. */
proctype reader() {
  byte i, w, k; bit table, filled;
  atomic { reading = 1; seen = 1 << live };
  look();
  k = (!filled && IS_RECORD(w) -> KIND(w) : 0);
  atomic { assert((seen >> k) & 1); reading = 0 }
}

proctype rebuilder() {
  byte w, k, to;
#if BROKEN == 4
  freeze();
  olink = FORWARDED;
  copy()
#else
  help()
#endif
}

init {
  atomic {
    n[0] = INIT; n[1] = INIT; n[2] = INIT;
    if                                 /* the chain at the start */
    :: o[0] = 7; live = 7
    :: o[0] = OTHER
    :: o[0] = EMPTY
    :: o[0] = TOMB
    :: o[0] = TOMB; olink = MORE; o[1] = OTHER; o[2] = 7; live = 7
    :: o[0] = OTHER; olink = MORE; o[1] = GHOST
    fi;
    run setter(1); run deleter(); run reader(); run rebuilder();
#ifdef ALL
    run setter(2)
#endif
  }
}
