/* mail_wake - a writer posts and looks at the flag; a sleeper sets the flag and looks at its ring (dataplane/wake.c).
 *
 * Each thread's store goes through a buffer that drains when it likes; a full fence waits for its own buffer. The sleeper
 * that blocks while a message lies in its ring, and no eventfd write is coming, is an invalid end state.
 * BROKEN: the writer's fence is missing. */
#define MESSAGES 2

byte posted;            /* ring tail, in memory */
byte posted_buffer;     /* stores of the writer not yet in memory */
bit sleeping;           /* flag, in memory */
bit sleeping_pending, sleeping_value;
byte event;             /* eventfd counter */
byte taken;

active proctype drain() {
end:
  do
  :: atomic { posted_buffer > 0 -> posted++; posted_buffer-- }
  :: atomic { sleeping_pending -> sleeping = sleeping_value; sleeping_pending = 0 }
  od
}

active proctype writer() {
  byte i = 0;
  do
  :: i < MESSAGES ->
     posted_buffer++;              /* store_release(tail) */
#ifndef BROKEN
     (posted_buffer == 0);         /* fence_seq_cst() */
#endif
     if
     :: sleeping -> event++
     :: else -> skip
     fi;
     i++
  :: else -> break
  od
}

inline set_sleeping(value) {
  atomic { !sleeping_pending -> sleeping_value = value; sleeping_pending = 1 }
}

active proctype sleeper() {
  do
  :: taken == MESSAGES -> break
  :: taken < MESSAGES ->
     if
     :: taken < posted -> taken++                 /* mail_take() */
     :: else ->
        set_sleeping(1);
        (!sleeping_pending);                      /* fence_seq_cst() */
        if
        :: taken < posted -> skip                 /* looked once more: do not sleep */
        :: else -> (event > 0); event = 0         /* ppoll() on the eventfd */
        fi;
        set_sleeping(0)
     fi
  od
}
