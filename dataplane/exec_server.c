/* exec_server.c - PING ECHO SELECT TIME DBSIZE FLUSHALL FLUSHDB: what needs no other lcore. */
#include "codec/number.h"
#include "dataplane/exec_common.h"
#include "dataplane/session.h"

enum exec_result
exec_ping(struct exec *exec)
{
    char scratch[ARG_TEXT_BYTES];
    bool has_argument = exec->request->args_count > 0;
    struct slice argument = has_argument ? exec_arg_bytes(exec, 0, scratch) : slice_of(NULL, 0);
    if ((exec->session->flags & SESSION_SUBSCRIBED) && exec->reply->wire == WIRE_RESP2) {
        /* a subscribed RESP2 client reads nothing but arrays that look like messages */
        reply_array(exec->reply, 2);
        reply_bulk_text(exec->reply, "pong");
        reply_bulk(exec->reply, argument);
    } else if (has_argument) {
        reply_bulk(exec->reply, argument);
    } else {
        reply_status(exec->reply, "PONG");
    }
    return EXEC_DONE;
}

enum exec_result
exec_echo(struct exec *exec)
{
    char scratch[ARG_TEXT_BYTES];
    reply_bulk(exec->reply, exec_arg_bytes(exec, 0, scratch));
    return EXEC_DONE;
}

enum exec_result
exec_select(struct exec *exec)
{
    int64_t index;
    if (!exec_take_int64(exec, 0, &index)) {
        return EXEC_DONE;
    }
    if (index == 0) {
        reply_ok(exec->reply);
    } else {
        reply_error(exec->reply, "ERR DB index is out of range");
    }
    return EXEC_DONE;
}

/* The time of the burst, as every command in it sees it: whole milliseconds. */
enum exec_result
exec_time(struct exec *exec)
{
    char text[NUMBER_INT_BYTES];
    reply_array(exec->reply, 2);
    reply_bulk(exec->reply, slice_of(text, number_print_int64(text, exec->now_ms / 1000)));
    reply_bulk(exec->reply, slice_of(text, number_print_int64(text, exec->now_ms % 1000 * 1000)));
    return EXEC_DONE;
}

enum exec_result
exec_dbsize(struct exec *exec)
{
    reply_integer(exec->reply, (int64_t)store_keys(store_of(exec->store)));
    return EXEC_DONE;
}

/* SYNC and ASYNC are the same here: the keys are gone at once, their memory is freed in steps. */
enum exec_result
exec_flushall(struct exec *exec)
{
    uint32_t count = exec->request->args_count;
    if (count > 1 || (count == 1 && !exec_arg_is(exec, 0, "sync") && !exec_arg_is(exec, 0, "async"))) {
        reply_error(exec->reply, ERROR_SYNTAX);
        return EXEC_DONE;
    }
    enum store_status status = store_flush(exec->store);
    if (UNLIKELY(status != STORE_OK)) {
        return exec_not_done(exec, status);
    }
    reply_ok(exec->reply);
    return EXEC_DONE;
}
