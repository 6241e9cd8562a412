/* mail_wake - a mail ring of two slots between a writer and a reader that may sleep (dataplane/mail.c, dataplane/wake.c).
 *
 * A store waits in a buffer of its own cell and reaches memory when it likes: stores to different cells pass each other,
 * but for a release store, which is behind all before it; a full fence waits for the thread's buffers. What is taken is
 * what was posted, in its order. A reader that blocks while a message lies in its ring, and no write to its eventfd is
 * coming, is an invalid end state.
 *
 * BROKEN=1: the writer's fence is missing.
 * BROKEN=2: the sleeper's fence is missing.
 * BROKEN=3: the tail is no release store.
 * BROKEN=4: a slot is given back before it is copied out.
 * BROKEN=5: the sleeper does not look once more. */
#ifndef BROKEN
#define BROKEN 0
#endif

#define SLOTS    2
#define MESSAGES 4

byte slot[SLOTS], tail, head;       /* in memory */
bit sleeping;
byte event;                         /* eventfd counter */

/* on the way there */
bit slot_waits, tail_waits, head_waits, sleeping_waits;
byte slot_index, slot_value, tail_value, head_value;
bit sleeping_value;

active proctype memory_system() {
end:
  do
  :: d_step { slot_waits -> slot[slot_index] = slot_value; slot_waits = 0 }
#if BROKEN == 3
  :: d_step { tail_waits -> tail = tail_value; tail_waits = 0 }
#else
  :: d_step { tail_waits && !slot_waits -> tail = tail_value; tail_waits = 0 }
#endif
  :: d_step { head_waits -> head = head_value; head_waits = 0 }
  :: d_step { sleeping_waits -> sleeping = sleeping_value; sleeping_waits = 0 }
  od
}

active proctype writer() {
  byte posted = 0;
  do
  :: posted == MESSAGES -> break
  :: posted < MESSAGES ->
     (posted - head < SLOTS);                                 /* mail_room(): its session parks until then */
     atomic { !slot_waits -> slot_index = posted % SLOTS; slot_value = posted + 1; slot_waits = 1 };
     atomic { !tail_waits -> tail_value = posted + 1; tail_waits = 1 };
     posted++;
#if BROKEN != 1
     (!slot_waits && !tail_waits);                            /* fence_seq_cst() in mail_wake() */
#endif
     if
     :: sleeping -> event++
     :: else -> skip
     fi
  od
}

inline set_sleeping(value) {
  atomic { !sleeping_waits -> sleeping_value = value; sleeping_waits = 1 }
}

inline take() {
#if BROKEN == 4
  atomic { !head_waits -> head_value = taken + 1; head_waits = 1 };
  assert(slot[taken % SLOTS] == taken + 1);
#else
  assert(slot[taken % SLOTS] == taken + 1);
  atomic { !head_waits -> head_value = taken + 1; head_waits = 1 };
#endif
  taken++
}

active proctype reader() {
  byte taken = 0;
  do
  :: taken == MESSAGES -> break
  :: taken < MESSAGES ->
     if
     :: taken < tail -> take()
     :: else ->
        set_sleeping(1);
#if BROKEN != 2
        (!head_waits && !sleeping_waits);                     /* fence_seq_cst() in mail_sleep_begin() */
#endif
        if
        :: BROKEN != 5 && taken < tail -> skip                /* looked once more: do not sleep */
        :: else -> (event > 0)                                /* ppoll() on the eventfd */
        fi;
        set_sleeping(0);                                      /* mail_sleep_end() */
        event = 0
     fi
  od
}
