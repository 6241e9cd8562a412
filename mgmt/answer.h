/* answer.h - commands that lcores leave to the management core: INFO, CONFIG, CLIENT LIST and KILL. */
#pragma once
#include "dataplane/later.h"
#include "dataplane/mail.h"
#include "mgmt/reply_memory.h"

struct client_job;
struct mgmt;

struct answers {
    struct reply_memory memory; /* one answer at a time is written here */
    struct reply reply;
    struct later *unsent, **unsent_tail;   /* their lcore's mail ring was full */
    struct later *waiting, **waiting_tail; /* client lists that wait for a job to end */
    struct client_job *jobs;
    uint32_t job_count;
    uint64_t served; /* counter */
};

void answers_open(struct answers *answers);
void answers_close(struct answers *answers);

/* A struct later that an lcore mailed: a question, or one of ours coming back to be released. */
void answers_take(struct mgmt *mgmt, struct later *later);
/* Mail that belongs to the sessions gathered for a client list: MAIL_SESSIONS_LIST, MAIL_SESSION_KILL. */
void answers_take_page(struct mgmt *mgmt, struct mail *mail);
/* What found a ring full, and jobs that go on. Returns whether it is wanted again within a millisecond. */
bool answers_tick(struct mgmt *mgmt, int64_t now_ms);

/* ---- for answer_*.c ---- */

/* The reply to write into, in the asking session's wire; one at a time. */
struct reply *answer_begin(struct mgmt *mgmt, const struct later *later);
/* Mail what was written. `later` is the lcore's again. */
void answer_end(struct mgmt *mgmt, struct later *later);
void answer_error(struct mgmt *mgmt, struct later *later, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void answer_info(struct mgmt *mgmt, struct later *later);   /* answer_info.c */
void answer_config(struct mgmt *mgmt, struct later *later); /* answer_config.c */

/* An argument as text that prints, cut: for error messages. */
#define ANSWER_WORD_BYTES 128
const char *answer_word(struct slice argument, char out[ANSWER_WORD_BYTES]);
bool answer_argument_is(const struct later *later, uint32_t index, const char *lower);
