/* ctl.h - commands of the management socket: a line in, one answer out. */
#pragma once
#include "mgmt/ctl_server.h"
#include "mgmt/ctl_wire.h"
#include "mgmt/mgmt.h"
#include <jansson.h>

/* One line, read. */
struct ctl_request {
    struct mgmt *mgmt;
    uint64_t client_id;
    uid_t uid;       /* who asks */
    bool is_json;    /* and wants JSON */
    json_t *id;      /* the request's, or NULL */
    json_t *args;    /* an object, never NULL when a handler runs */
    json_t *result;  /* the handler's answer ... */
    char error[320]; /* ... or what is wrong with the request */
};

/* ctl_line_fn of the appliance; `context` is its struct mgmt. */
enum ctl_result ctl_line(void *context, struct ctl_client *client, char *line, size_t bytes, struct text *out);

/* Append the answer to a finished request and drop what it holds. */
void ctl_finish(struct ctl_request *request, struct text *out);

/* ---- for handlers ---- */

/* Fills in `result` or `error`; CTL_LATER when the request was moved elsewhere. */
typedef enum ctl_result (*ctl_handler)(struct ctl_request *request);
#define CTL_DECLARE(id, name, access, args, handler, help) enum ctl_result handler(struct ctl_request *request);
CTL_COMMANDS(CTL_DECLARE)
#undef CTL_DECLARE

/* An argument; from a line for people everything is text, so numbers are read from text too. False with an error when
 * it is there and wrong; *out keeps its default when it is not there. */
bool ctl_arg_uint(struct ctl_request *request, const char *name, uint64_t most, uint64_t *out);
bool ctl_arg_bool(struct ctl_request *request, const char *name, bool *out);
bool ctl_arg_text(struct ctl_request *request, const char *name, const char **out);
enum ctl_result ctl_fail(struct ctl_request *request, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* JSON for people: names and values in columns, arrays of objects as tables. */
void ctl_print_text(const json_t *result, struct text *out);

/* One step of a walk over the keys that ctl_keys_big() began. True: there is more to do, at once. */
bool ctl_keys_walk(struct mgmt *mgmt);
/* Mail of a gathering that ctl_sessions() began comes through answers_take_page(); this is its clock. Returns
 * whether it is wanted again within a millisecond. */
bool ctl_sessions_tick(int64_t now_ms);
