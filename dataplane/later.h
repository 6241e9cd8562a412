/* later.h - a command that answers later: one bounded message to another lcore, to the management core or to the
 * helper, the reply by mail.
 *
 * The handler calls later_ask() and returns its result; the session is parked. The receiver works on the struct alone:
 * the session may be gone when the answer comes, then the answer is dropped. */
#pragma once
#include "codec/reply.h"
#include "config/base.h"
#include "dataplane/exec.h"
#include "dataplane/stream.h"

enum later_kind {
    LATER_INFO,          /* mgmt */
    LATER_CONFIG,        /* mgmt */
    LATER_CLIENT_LIST,   /* mgmt */
    LATER_CLIENT_KILL,   /* mgmt */
    LATER_KEYS,          /* the helper */
    LATER_FABRIC_ATTACH, /* the owning lcore */
    LATER_FABRIC_RESUME,
    LATER_FABRIC_DETACH,
};

#define LATER_ARGS_MAX       32
#define LATER_TEXT_BYTES_MAX 2048 /* arguments are copied here */
#define LATER_ANSWER_BYTES   1024 /* small answers; longer ones hang in `answer_big` */

struct later {
    enum later_kind kind;
    uint32_t block_bytes; /* of the memory it lies in */
    uint32_t from;        /* asking lcore */
    uint64_t session_id;  /* 0 once the answer was written, or dropped */
    enum wire wire;
    uint64_t correlation;
    uint32_t user;
    uint32_t args_count;               /* the command's arguments, the name excluded */
    struct slice args[LATER_ARGS_MAX]; /* into text */
    uint8_t text[LATER_TEXT_BYTES_MAX];
    _Atomic bool cancelled; /* relaxed, a hint from the asking lcore: the session is gone, no answer is wanted */
    /* answer: bytes in the session's wire, complete, in `out` (the helper), or in `answer`, or in answer_big, which is
     * the answerer's memory, mailed back with the struct to be released: MAIL_LATER_REQUEST with `answered` set and
     * session_id 0; the struct then comes back once more, empty */
    bool answered;
    uint32_t answer_bytes;
    uint8_t answer[LATER_ANSWER_BYTES];
    uint8_t *answer_big;
    struct stream_out out;
    uint64_t a, b;      /* private to the kind */
    struct later *next; /* of the lcore that could not post it yet */
};

/* Copy the request's arguments and post to thread `to` (see mail.h; the asking lcore's own index: served without mail).
 * EXEC_LATER; EXEC_RETRY when the ring is full or there is no memory; EXEC_DONE with an error when the arguments exceed
 * the limits above. */
enum exec_result later_ask(struct exec *exec, enum later_kind kind, uint32_t to);

/* The session will not read the answer: whoever works on it may stop. */
void later_cancel(struct later *later);

/* An error as the answer; it needs no memory. Any thread that has the struct. */
void later_answer_error(struct later *later, const char *error);

/* ---- mail that arrived at an lcore ---- */

/* Work for this lcore: FABRIC commands. */
void later_serve(struct lcore *lcore, struct later *later);
/* The answer to one of this lcore's own: written to the session if it still waits. */
void later_finish(struct lcore *lcore, struct later *later);
/* Mail an answer from the lcore that served it; a full ring is tried again by later_retry() every turn. Never from
 * later_serve() itself: the session is not parked yet when it asks its own lcore. */
void later_answer(struct lcore *lcore, struct later *later);
void later_retry(struct lcore *lcore);
