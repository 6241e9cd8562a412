/* exec_session.c - commands about the connection itself: HELLO AUTH QUIT CLIENT. */
#include "dataplane/auth.h"
#include "dataplane/dataplane.h"
#include "dataplane/later.h"

#define ERROR_WRONGPASS "WRONGPASS invalid username-password pair or user is disabled."

static struct slice
arg_at(const struct exec *exec, uint32_t index, char scratch[ARG_TEXT_BYTES])
{
    return arg_bytes(&exec->request->args[index], scratch);
}

static bool
arg_is(const struct exec *exec, uint32_t index, const char *lower)
{
    char scratch[ARG_TEXT_BYTES];
    return slice_equal_nocase(arg_at(exec, index, scratch), lower);
}

/* ---- AUTH ---- */

/* True when the session is now this user's. Without users, "default" takes any password, as in Redis. */
static bool
authenticate(struct exec *exec, struct slice user, struct slice password)
{
    struct session *session = exec->session;
    if (exec->lcore->settings->user_count == 0 && slice_equal(user, SLICE_LITERAL("default"))) {
        return true;
    }
    int index = auth_check(exec->lcore->settings, user, password);
    if (index < 0) {
        counter_add(&exec->lcore->counters->auth_failures, 1);
        return false;
    }
    session->user = (uint32_t)index;
    session->flags |= SESSION_AUTHENTICATED;
    return true;
}

enum exec_result
exec_auth(struct exec *exec)
{
    char user_text[ARG_TEXT_BYTES], password_text[ARG_TEXT_BYTES];
    bool with_user = exec->request->args_count == 2;
    struct slice user = with_user ? arg_at(exec, 0, user_text) : SLICE_LITERAL("default");
    struct slice password = arg_at(exec, with_user ? 1 : 0, password_text);

    if (exec->lcore->settings->user_count == 0 && !with_user) {
        reply_error(exec->reply, "ERR AUTH <password> called without any password configured for the default user. Are "
                                 "you sure your configuration is correct?");
    } else if (authenticate(exec, user, password)) {
        reply_ok(exec->reply);
    } else {
        reply_error(exec->reply, ERROR_WRONGPASS);
    }
    return EXEC_DONE;
}

/* ---- names ---- */

/* Printable ASCII without spaces, short enough; the field keeps its old text otherwise. */
static bool
set_text(char *field, struct slice text)
{
    if (text.bytes > LIMIT_CLIENT_NAME_BYTES) {
        return false;
    }
    for (size_t i = 0; i < text.bytes; i++) {
        if (text.data[i] < '!' || text.data[i] > '~') {
            return false;
        }
    }
    if (text.bytes > 0) {
        memcpy(field, text.data, text.bytes);
    }
    field[text.bytes] = '\0';
    return true;
}

#define ERROR_CLIENT_NAME                                                                                              \
    "ERR Client names cannot contain spaces, newlines or special characters, and have at most 64 bytes."

/* ---- HELLO ---- */

struct hello {
    int64_t protocol; /* 0: as it is */
    bool with_auth, with_name;
    struct slice user, password, name;
};

/* NULL, or the error. */
static const char *
hello_parse(const struct exec *exec, struct hello *hello, char scratch[3][ARG_TEXT_BYTES])
{
    const struct request *request = exec->request;
    if (request->args_count == 0) {
        return NULL;
    }
    if (!arg_int64(&request->args[0], &hello->protocol)) {
        return "ERR Protocol version is not an integer or out of range";
    }
    if (hello->protocol < 2 || hello->protocol > 3) {
        return "NOPROTO unsupported protocol version";
    }
    for (uint32_t i = 1; i < request->args_count;) {
        uint32_t left = request->args_count - i - 1;
        if (arg_is(exec, i, "auth") && left >= 2) {
            hello->with_auth = true;
            hello->user = arg_at(exec, i + 1, scratch[0]);
            hello->password = arg_at(exec, i + 2, scratch[1]);
            i += 3;
        } else if (arg_is(exec, i, "setname") && left >= 1) {
            hello->with_name = true;
            hello->name = arg_at(exec, i + 1, scratch[2]);
            i += 2;
        } else {
            return "ERR Syntax error in HELLO option";
        }
    }
    return NULL;
}

static void
hello_answer(struct exec *exec)
{
    struct reply *reply = exec->reply;
    reply_map(reply, 8);
    reply_bulk_text(reply, "server");
    reply_bulk_text(reply, "redis");
    reply_bulk_text(reply, "version");
    reply_bulk_text(reply, "7.0.15");
    reply_bulk_text(reply, "proto");
    reply_integer(reply, exec->session->wire == WIRE_RESP3 ? 3 : 2);
    reply_bulk_text(reply, "id");
    reply_integer(reply, (int64_t)exec->session->id);
    reply_bulk_text(reply, "mode");
    reply_bulk_text(reply, "standalone");
    reply_bulk_text(reply, "role");
    reply_bulk_text(reply, "master");
    reply_bulk_text(reply, "modules");
    reply_array(reply, 0);
    reply_bulk_text(reply, "sluice_version");
    reply_bulk_text(reply, SLUICE_VERSION);
}

enum exec_result
exec_hello(struct exec *exec)
{
    struct session *session = exec->session;
    struct hello hello = { 0 };
    char scratch[3][ARG_TEXT_BYTES];
    const char *error = hello_parse(exec, &hello, scratch);

    if (error == NULL && hello.with_auth && !authenticate(exec, hello.user, hello.password)) {
        error = ERROR_WRONGPASS;
    }
    if (error == NULL && !session_is_authenticated(session)) {
        error = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH "
                "<user> <pass> option can be used to authenticate the client and select the RESP protocol version at "
                "the same time";
    }
    if (error == NULL && hello.with_name && !set_text(session->name, hello.name)) {
        error = ERROR_CLIENT_NAME;
    }
    if (error != NULL) {
        reply_error(exec->reply, error);
        return EXEC_DONE;
    }
    if (hello.protocol != 0 && session->wire != WIRE_SBE) {
        session_set_wire(session, hello.protocol == 3 ? WIRE_RESP3 : WIRE_RESP2);
        reply_begin(exec->reply,
                    exec->request->correlation); /* nothing is written yet: the answer speaks the new one */
    }
    hello_answer(exec);
    return EXEC_DONE;
}

enum exec_result
exec_quit(struct exec *exec)
{
    reply_ok(exec->reply);
    return EXEC_CLOSE;
}

/* ---- CLIENT ---- */

static enum exec_result
client_id(struct exec *exec)
{
    reply_integer(exec->reply, (int64_t)exec->session->id);
    return EXEC_DONE;
}

static enum exec_result
client_getname(struct exec *exec)
{
    if (exec->session->name[0] == '\0') {
        reply_nil(exec->reply);
    } else {
        reply_bulk_text(exec->reply, exec->session->name);
    }
    return EXEC_DONE;
}

static enum exec_result
client_setname(struct exec *exec)
{
    char scratch[ARG_TEXT_BYTES];
    if (set_text(exec->session->name, arg_at(exec, 1, scratch))) {
        reply_ok(exec->reply);
    } else {
        reply_error(exec->reply, ERROR_CLIENT_NAME);
    }
    return EXEC_DONE;
}

static enum exec_result
client_setinfo(struct exec *exec)
{
    char scratch[ARG_TEXT_BYTES];
    struct session *session = exec->session;
    bool is_name = arg_is(exec, 1, "lib-name");
    if (!is_name && !arg_is(exec, 1, "lib-ver")) {
        struct slice pieces[] = { SLICE_LITERAL("ERR Unrecognized option '"), arg_at(exec, 1, scratch),
                                  SLICE_LITERAL("'") };
        reply_error_join(exec->reply, pieces, ARRAY_COUNT(pieces));
    } else if (set_text(is_name ? session->library_name : session->library_version, arg_at(exec, 2, scratch))) {
        reply_ok(exec->reply);
    } else {
        reply_error(exec->reply, "ERR lib-name and lib-ver cannot contain spaces, newlines or special characters, and "
                                 "have at most 64 bytes.");
    }
    return EXEC_DONE;
}

/* INFO and LIST: the management core knows how to print sessions of every lcore; the subcommand goes along. */
static enum exec_result
client_list(struct exec *exec)
{
    return later_ask(exec, LATER_CLIENT_LIST, MAIL_FROM_MGMT);
}

static enum exec_result
client_kill(struct exec *exec)
{
    return later_ask(exec, LATER_CLIENT_KILL, MAIL_FROM_MGMT);
}

/* Subcommand, arguments after it (min, max), handler. */
static const struct {
    const char *name;
    uint32_t args_min, args_max;
    exec_fn handler;
} client_table[] = {
    { "id", 0, 0, client_id },
    { "info", 0, 0, client_list },
    { "list", 0, LIMIT_REQUEST_ARGS, client_list },
    { "kill", 1, LIMIT_REQUEST_ARGS, client_kill },
    { "getname", 0, 0, client_getname },
    { "setname", 1, 1, client_setname },
    { "setinfo", 2, 2, client_setinfo },
};

enum exec_result
exec_client(struct exec *exec)
{
    uint32_t args = exec->request->args_count - 1;
    for (size_t i = 0; i < ARRAY_COUNT(client_table); i++) {
        if (!arg_is(exec, 0, client_table[i].name)) {
            continue;
        }
        if (args >= client_table[i].args_min && args <= client_table[i].args_max) {
            return client_table[i].handler(exec);
        }
        struct slice pieces[] = { SLICE_LITERAL("ERR wrong number of arguments for 'client|"),
                                  slice_text(client_table[i].name), SLICE_LITERAL("' command") };
        reply_error_join(exec->reply, pieces, ARRAY_COUNT(pieces));
        return EXEC_DONE;
    }
    char scratch[ARG_TEXT_BYTES];
    struct slice name = arg_at(exec, 0, scratch);
    struct slice pieces[] = { SLICE_LITERAL("ERR unknown subcommand '"), slice_of(name.data, MIN(name.bytes, 128)),
                              SLICE_LITERAL("'. Try ID, INFO, LIST, KILL, GETNAME, SETNAME or SETINFO.") };
    reply_error_join(exec->reply, pieces, ARRAY_COUNT(pieces));
    return EXEC_DONE;
}

/* ---- answered by the management core ---- */

enum exec_result
exec_info(struct exec *exec)
{
    return later_ask(exec, LATER_INFO, MAIL_FROM_MGMT);
}

enum exec_result
exec_config(struct exec *exec)
{
    return later_ask(exec, LATER_CONFIG, MAIL_FROM_MGMT);
}
