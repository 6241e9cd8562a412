/* burst.h - up to 32 requests on their way: decode, prefetch, execute, settle. */
#pragma once
#include "dataplane/lcore.h"

/* Bytes -> requests, in session order, from the ready list. Returns the requests decoded. */
uint32_t burst_decode(struct burst *burst, struct lcore *lcore);
/* The first key of a request, or NULL. */
static inline const struct slice *
burst_key(const struct request *request)
{
    const struct command *command = request->command;
    if (command == NULL || command->first_key <= 0 || request->args_count < (uint32_t)command->first_key) {
        return NULL;
    }
    const struct arg *arg = &request->args[command->first_key - 1];
    return arg->kind == ARG_BYTES ? &arg->bytes : NULL;
}
/* Hash every key and prefetch its bucket, then its record: hints, exec looks up again. */
void burst_prefetch(struct burst *burst, const struct lcore *lcore);
/* Handler per request, replies encoded in place; requests that cannot run now are put back. */
void burst_execute(struct burst *burst, struct lcore *lcore);
/* Nothing borrows from receive slots any more. */
void burst_settle(struct burst *burst);
/* After the flush: service and residence of every executed request. */
void burst_record_times(const struct burst *burst, struct lcore *lcore);
