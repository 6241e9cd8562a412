/* rebuild - a segment of one bucket moves to another table (store/rebuild.h): a setter, a deleter, a reader and a
 * rebuilder, on one key; -DALL: two setters. All their orders are searched. Whoever is in the way helps. The head of
 * either chain has one slot, the bucket behind it two.
 *
 * `live` is what the key holds by the order of the CASes (see frontier.pml); a copy changes nothing. A bucket is forwarded
 * exactly once. A helper does not look at the directory here (see successor.pml): it may be later than any in the store.
 * Of two setters, which are alike, the first in the model begins first.
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
#define EMPTY  0   /* 1..3: records of the key */
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
byte seen;      /* values of `live` since the reader began, one bit each */
bit reading;
bit setting;    /* the first setter has begun */

#define KIND(w)      (w & 15)
#define IS_RECORD(w) (KIND(w) >= 1 && KIND(w) <= 3)
#define HAS_KEY(w)   (IS_RECORD(w) || KIND(w) == GHOST)

inline becomes(x) {
  live = x;
  if :: reading -> seen = seen | (1 << x) :: else -> skip fi
}

/* ---- one helper's move: freeze, copy, forward ---- */

/* A loop of load and CAS has the effect of its last CAS. */
inline freeze_slot(i) {
  atomic {
    w = o[i];
    if
    :: w < FROZEN && w != TOMB && !(BROKEN == 2 && w == EMPTY) -> w = w + FROZEN; o[i] = w
    :: else -> skip
    fi
  }
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
  fi;
  atomic { w = 0; k = 0 }
}

/* A record goes to the next place of the new chain, if nobody was there before. */
inline put(word) {
  if
  :: to == 1 -> atomic { if :: nlink == INIT_LINK -> nlink = MORE :: else -> skip fi }
  :: else -> skip
  fi;
#if BROKEN == 3
  if :: n[to] == INIT -> n[to] = word - FROZEN :: else -> skip fi;   /* two steps: others may be between them */
  to++
#else
  atomic { if :: n[to] == INIT -> n[to] = word - FROZEN :: else -> skip fi; to++ }
#endif
}

#define IS_COPIED(w) (w != TOMB && (IS_RECORD(w) || KIND(w) == OTHER))

/* What is frozen is read together with what follows. */
#if BROKEN == 3
#define ONE_STEP         /* others may be between the look and the write */
#else
#define ONE_STEP atomic
#endif

inline copy() {
  to = 0;
  ONE_STEP { w = o[0]; if :: IS_COPIED(w) -> put(w) :: else -> skip fi };
  if
  :: k == MORE && KIND(w) != EMPTY ->
     ONE_STEP { w = o[1]; if :: IS_COPIED(w) -> put(w) :: else -> skip fi };
     if
     :: w == TOMB || KIND(w) != EMPTY -> ONE_STEP { w = o[2]; if :: IS_COPIED(w) -> put(w) :: else -> skip fi }
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

/* rebuild_move_group() */
inline help() {
  freeze();
  k = olink;                         /* chain_copy(): before the slots */
  if
  :: k == FORWARDED -> skip          /* somebody was faster: all is copied */
  :: else -> copy(); forward()
  fi;
  atomic { i = 0; w = 0; k = 0; to = 0 }
}

/* ---- operations ---- */

#define IN_OLD 0
#define IN_NEW 1

/* Ends with table, i, w: a slot that holds the key or is the first EMPTY one; or, with i == 1 and `filled`, a null link in k. */
inline look() {
  atomic { i = 0; filled = 0; k = olink; table = (k == FORWARDED -> IN_NEW : IN_OLD) };
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
  atomic { id == 1 || setting -> setting = 1 };
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
     fi;
     atomic { i = 0; w = 0; k = 0; table = 0; filled = 0 }
  od;
  atomic { i = 0; w = 0; k = 0; table = 0; filled = 0; ok = 0; id = 0 }
}

proctype deleter() {
  byte i, w, k, to; bit table, filled, ok;
  do
  :: look();
     if
     :: w >= FROZEN -> help()
     :: w < FROZEN && (filled || !IS_RECORD(w)) -> break
     :: else -> swap(GHOST, ok); if :: ok -> break :: else -> skip fi
     fi;
     atomic { i = 0; w = 0; k = 0; table = 0; filled = 0 }
  od;
  atomic { i = 0; w = 0; k = 0; table = 0; filled = 0; ok = 0 }
}

/* Readers do not help: a frozen slot is the truth as long as the bucket was not forwarded when they came. */
proctype reader() {
  byte i, w, k; bit table, filled;
  atomic { reading = 1; seen = 1 << live };
  look();
  k = (!filled && IS_RECORD(w) -> KIND(w) : 0);
  atomic { assert((seen >> k) & 1); reading = 0; seen = 0; i = 0; w = 0; k = 0; table = 0; filled = 0 }
}

proctype rebuilder() {
  byte i, w, k, to;
#if BROKEN == 4
  freeze();
  atomic { k = olink; olink = FORWARDED };
  copy()
#else
  help()
#endif
}

init {
  atomic {
    n[0] = INIT; n[1] = INIT; n[2] = INIT;
    if                                 /* the chain at the start */
    :: o[0] = 3; live = 3
    :: o[0] = OTHER
    :: o[0] = EMPTY
    :: o[0] = TOMB
    :: o[0] = TOMB; olink = MORE; o[1] = OTHER; o[2] = 3; live = 3
    :: o[0] = OTHER; olink = MORE; o[1] = GHOST
    fi;
    run setter(1); run deleter(); run reader(); run rebuilder();
#ifdef ALL
    run setter(2)
#endif
  }
}
