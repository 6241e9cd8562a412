/* exec.h - what a command handler gets, and what it may answer. One handler per row of codec/command_table.h. */
#pragma once
#include "codec/command.h"
#include "codec/reply.h"
#include "store/store.h"

struct lcore;
struct session;

/* What earlier attempts of a request did and must not do again: DEL goes key by key, and a full store may stop it in
 * the middle. Zero at attempt 0; burst.c keeps it beside the session's `attempt` over EXEC_RETRY. */
struct exec_progress {
    uint32_t done;    /* arguments dealt with */
    uint32_t counted; /* of these, what the reply counts */
};

struct exec {
    const struct request *request;
    struct reply *reply; /* begun before the handler and ended after it by burst.c */
    struct store_member *store;
    struct lcore *lcore;
    struct session *session;
    uint64_t hash;    /* store_hash() of the first key, when the command has one */
    int64_t now_ms;   /* Unix time, the same for the whole burst */
    uint32_t attempt; /* 0 at first, +1 after each EXEC_RETRY */
    struct exec_progress progress;
};

enum exec_result {
    EXEC_DONE,  /* the reply is complete */
    EXEC_RETRY, /* nothing happened but what `progress` says: the reply is dropped, the session parks, the request comes
                   again next turn */
    EXEC_LATER, /* the session parks until mail brings the reply */
    EXEC_CLOSE, /* the reply is complete; close once it is sent */
};

typedef enum exec_result (*exec_fn)(struct exec *exec);

extern const exec_fn exec_table[COMMAND_COUNT];

#define EXEC_DECLARE(id, name, template, args_min, args_max, flags, first, last, step, handler, ...)                   \
    enum exec_result handler(struct exec *exec);
COMMAND_TABLE(EXEC_DECLARE)
#undef EXEC_DECLARE
