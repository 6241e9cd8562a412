/* qsbr - reclamation (store/qsbr.c): a member that comes online, reads, reports, reads again and goes offline; a writer that
 * unlinks two blocks, one after the other; any member looks at the seats and publishes what it found.
 *
 * A plain store goes through a buffer of its own and reaches memory when it likes; a full fence, and an atomic
 * read-modify-write, wait for the buffers of their thread. Nobody may read a block that was freed, and in the end both are
 * free.
 *
 * BROKEN=1: no fence when coming online.
 * BROKEN=2: no fence before a batch is sealed.
 * BROKEN=3: a batch gets the epoch from before its sealing.
 * BROKEN=4: a member reports while it still holds a block.
 * BROKEN=5: no fence before looking at the seats, which may then be looked at early. */
#ifndef BROKEN
#define BROKEN 0
#endif

#define OFFLINE 0
#define BLOCKS  3

byte epoch = 1, safe = 1;
byte seen = OFFLINE;                 /* the reader's seat, in memory */
bit seen_waits; byte seen_buffer;    /* its store on the way */
byte slot = 1;                       /* the block that can be found: 1, then 2, then 0 */
bit slot_waits; byte slot_buffer;
bit freed[BLOCKS];

active proctype memory_system() {
end:
  do
  :: d_step { seen_waits -> seen = seen_buffer; seen_waits = 0 }
  :: d_step { slot_waits -> slot = slot_buffer; slot_waits = 0 }
  od
}

inline read_block() {
  held = slot;
  assert(!freed[held] || held == 0)
}

inline hold_on() { assert(!freed[held] || held == 0) }

active proctype reader() {
  byte held, e, turns = 0;
  do
  :: turns == 2 -> break
  :: else ->
     /* qsbr_online() */
     e = epoch;
     atomic { !seen_waits -> seen_buffer = e; seen_waits = 1 };
#if BROKEN != 1
     (!seen_waits);
#endif
     read_block();
     hold_on();
#if BROKEN == 4
     e = epoch;
     atomic { !seen_waits -> seen_buffer = e; seen_waits = 1 };
     hold_on();
     held = 0;
#else
     /* qsbr_quiesce() */
     held = 0;
     e = epoch;
     atomic { !seen_waits -> seen_buffer = e; seen_waits = 1 };
#endif
     read_block();
     hold_on();
     held = 0;
     /* qsbr_offline() */
     atomic { !seen_waits -> seen_buffer = OFFLINE; seen_waits = 1 };
     (!seen_waits);
     turns++
  od
}

/* qsbr_scan(): `oldest` afterwards is what everybody has reported. */
inline scan() {
#if BROKEN == 5
  look = seen;
  oldest = epoch;
#else
  oldest = epoch;
  look = seen;
#endif
  if :: look != OFFLINE && look < oldest -> oldest = look :: else -> skip fi;
  d_step { if :: safe < oldest -> safe = oldest :: else -> skip fi }
}

active proctype writer() {
  byte block = 1, sealed, oldest, look;
  do
  :: block == BLOCKS -> break
  :: else ->
     atomic { !slot_waits -> slot_buffer = (block + 1) % BLOCKS; slot_waits = 1 };   /* unlink */
#if BROKEN != 2
     (!slot_waits);                                                            /* the fence in qsbr_advance() */
#endif
#if BROKEN == 3
     d_step { sealed = epoch; epoch++ };
#else
     d_step { epoch++; sealed = epoch };
#endif
     do
     :: safe >= sealed -> break
     :: else -> scan()
     od;
     freed[block] = 1;
     block++
  od;
  assert(freed[1] && freed[2])
}

active proctype another_member() {
  byte oldest, look;
  scan()
}
