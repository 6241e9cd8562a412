/* helper.h - a thread beside the lcores, for commands that would stall one: KEYS.
 *
 * A member of the store, "helper-0". Lcores mail it jobs, and it takes them one after the other, every lcore in turn; a
 * job is done in bounded steps with a report of quiescence after each. The answer is written to memory of the store, so
 * that it counts against memory.limit, and its chunks become the session's: no lcore copies them. Without a job the
 * thread is offline to reclamation and sleeps. It runs below the management core, on the same CPUs. */
#pragma once
#include "dataplane/later.h"
#include "dataplane/mail.h"
#include <sys/types.h>

struct dataplane;
struct glob;

#define HELPER_NAME        "helper-0"
#define HELPER_STEP_CHAINS 64   /* of the index, in a step */
#define HELPER_STEP_KEYS   256  /* written to the answer in a step */
#define HELPER_STARVED_MS  1000 /* a job that finds no memory for so long is answered with an error */

enum helper_state { HELPER_BOOT, HELPER_IDLE, HELPER_WORKING, HELPER_STOPPED };

/* The job at hand. Its keys are copied, lengths before them, and counted; then the answer is written. */
struct helper_job {
    struct later *later; /* NULL: none */
    bool is_walking;
    uint64_t cursor, left;    /* of the walk; keys counted, then those not yet in the answer */
    int64_t starved_since_ms; /* 0: it finds memory */
    struct stream_out keys;
    struct glob *pattern; /* of the helper */
    struct reply reply;   /* into later->out */
};

struct helper {
    struct dataplane *dataplane;
    struct store_member *store;
    struct memory_cache *memory;
    struct stream_reserve reserve; /* for answers while memory is full */
    pid_t tid;
    int64_t now_ms;
    uint32_t next_lcore; /* whose ring is looked at first */
    struct helper_job job;
    struct later *unsent;                     /* answered, but the lcore's ring was full */
    uint8_t *key;                             /* LIMIT_KEY_BYTES: one on its way to the answer */
    struct mail_ring *mail_in[LIMIT_LCORES];  /* from each lcore */
    struct mail_ring *mail_out[LIMIT_LCORES]; /* to each lcore */
    struct mail_waker waker;
    _Atomic bool stop;
    /* One writer, the helper; anybody reads. */
    _Alignas(CACHE_LINE) _Atomic uint32_t state; /* enum helper_state; release, pairs with the acquire in
                                                    helper_start() */
    _Atomic uint64_t jobs, cancelled, steps, sleeps;
};

/* ---- helper_boot.c ---- */

/* Memory and rings, one each way with every lcore of the dataplane, whose own are entered too; no thread yet. 0 or
 * -errno. Management thread. */
int helper_open(struct dataplane *dataplane, struct helper **out);
int helper_start(struct helper *helper); /* 0 or -errno; returns when it is a member */
/* After the lcores have stopped, before the store is closed: ends the job at hand, joins the thread. */
void helper_stop(struct helper *helper);
void helper_close(struct helper *helper);

/* Join the store and leave it again: around the turns, on their thread. 0 or -errno. */
int helper_begin(struct helper *helper);
void helper_end(struct helper *helper);

/* ---- helper.c ---- */

enum helper_turn {
    HELPER_TURN_WORKED,
    HELPER_TURN_WAITS, /* for memory or for room in a ring: a millisecond */
    HELPER_TURN_NO_JOB,
};

/* One bounded step: of the job at hand, or of finding one. */
enum helper_turn helper_turn(struct helper *helper);
/* Turns and sleeps until helper_stop(). */
void helper_run(struct helper *helper);

/* ---- helper_keys.c: KEYS ---- */

enum helper_step {
    HELPER_STEP_MORE,
    HELPER_STEP_DONE,      /* later->out holds the answer */
    HELPER_STEP_STARVED,   /* nothing happened: no memory at this moment */
    HELPER_STEP_NO_MEMORY, /* and no way to go on */
    HELPER_STEP_TOO_LONG,  /* the answer would be larger than LIMIT_REPLY_BYTES */
};

void helper_keys_begin(struct helper *helper);
enum helper_step helper_keys_step(struct helper *helper);
void helper_keys_end(struct helper *helper);
