/* exec_fabric.c - FABRIC PORTS, ATTACH, RESUME, DETACH: looks the owning lcore up and asks it by mail. */
#include "codec/number.h"
#include "dataplane/dataplane.h"
#include "dataplane/exec_common.h"
#include "dataplane/later.h"
#include "dataplane/port_fabric.h"

static bool
lcore_has_fabric(const struct lcore *lcore)
{
    for (uint32_t i = 0; i < lcore->port_count; i++) {
        if (port_fabric_settings(lcore->ports[i]) != NULL) {
            return true;
        }
    }
    return false;
}

static void
answer_count(struct reply *reply, const char *name, uint64_t value)
{
    reply_bulk_text(reply, name);
    reply_integer(reply, (int64_t)value);
}

static void
answer_port(struct exec *exec, uint32_t index)
{
    const struct dataplane *dataplane = exec->lcore->dataplane;
    const struct port *port = exec->lcore->ports[index];
    uint64_t used = 0, room = 0;

    for (uint32_t i = 0; i < dataplane->lcore_count; i++) {
        used += port_fabric_sessions(dataplane->lcores[i]->ports[index]);
        room += port_fabric_sessions_max(dataplane->lcores[i]->ports[index]);
    }
    reply_map(exec->reply, 7);
    reply_bulk_text(exec->reply, "name");
    reply_bulk_text(exec->reply, port_fabric_settings(port)->name);
    reply_bulk_text(exec->reply, "provider");
    reply_bulk_text(exec->reply, port->info.provider);
    reply_bulk_text(exec->reply, "send");
    reply_bulk_text(exec->reply, port->info.send);
    answer_count(exec->reply, "frame_bytes", port->info.frame_bytes);
    answer_count(exec->reply, "sessions", used);
    answer_count(exec->reply, "sessions_max", room);
    reply_bulk_text(exec->reply, "address");
    reply_bulk(exec->reply, port_fabric_address(port));
}

static enum exec_result
fabric_ports(struct exec *exec)
{
    const struct lcore *lcore = exec->lcore;
    uint32_t count = 0;

    for (uint32_t i = 0; i < lcore->port_count; i++) {
        count += port_fabric_settings(lcore->ports[i]) != NULL;
    }
    reply_array(exec->reply, count);
    for (uint32_t i = 0; i < lcore->port_count; i++) {
        if (port_fabric_settings(lcore->ports[i]) != NULL) {
            answer_port(exec, i);
        }
    }
    return EXEC_DONE;
}

/* The lcore with the fewest sessions on the port; this one when it is among them. */
static uint32_t
emptiest_lcore(const struct lcore *lcore, uint32_t port_index)
{
    const struct dataplane *dataplane = lcore->dataplane;
    uint32_t best = lcore->index;
    uint32_t fewest = port_fabric_sessions(lcore->ports[port_index]);

    for (uint32_t i = 0; i < dataplane->lcore_count; i++) {
        uint32_t sessions = port_fabric_sessions(dataplane->lcores[i]->ports[port_index]);
        if (sessions < fewest) {
            best = i;
            fewest = sessions;
        }
    }
    return best;
}

static enum exec_result
fabric_attach(struct exec *exec)
{
    char scratch[ARG_TEXT_BYTES];

    if (exec->request->args_count < 4) {
        exec_refuse_arity(exec, "fabric|attach");
        return EXEC_DONE;
    }
    struct slice name = arg_bytes(&exec->request->args[1], scratch);
    const struct port *port = port_fabric_find(exec->lcore, name);
    if (port == NULL) {
        reply_error(exec->reply, "ERR no fabric port of this name or provider: FABRIC PORTS lists them");
        return EXEC_DONE;
    }
    return later_ask(exec, LATER_FABRIC_ATTACH, emptiest_lcore(exec->lcore, port->index));
}

/* FABRIC x id secret ...: the id says which lcore owns the session. */
static enum exec_result
fabric_of_session(struct exec *exec, enum later_kind kind)
{
    int64_t id;

    if (!exec_take_int64(exec, 1, &id)) {
        return EXEC_DONE;
    }
    if (id < 1 || !lcore_has_fabric(exec->lcore)) {
        reply_error(exec->reply, "SESSION_LOST no such session");
        return EXEC_DONE;
    }
    return later_ask(exec, kind, (uint32_t)((uint64_t)(id - 1) % exec->lcore->dataplane->lcore_count));
}

static enum exec_result
fabric_help(struct exec *exec)
{
    static const char *const lines[] = {
        "FABRIC <subcommand> [<arg> ...]. Subcommands are:",
        "PORTS",
        "    The fabric ports: name, provider, send policy, frame size, sessions and their limit, address.",
        "ATTACH <port or provider> <address> resp2|resp3|sbe [CREDIT <frames>] [FRAME <bytes>]",
        "    Open a session for the peer at an address: fi_getname() bytes, raw or as 0x and hex digits.",
        "RESUME <session> <secret> <address> <taken> [CREDIT <frames>] [FRAME <bytes>]",
        "    Go on with a session after a loss; <taken> is how much of its stream has arrived.",
        "DETACH <session> <secret>",
        "    End a session.",
        "HELP",
        "    This text.",
    };

    reply_array(exec->reply, ARRAY_COUNT(lines));
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        reply_status(exec->reply, lines[i]);
    }
    return EXEC_DONE;
}

enum exec_result
exec_fabric(struct exec *exec)
{
    uint32_t count = exec->request->args_count;

    if (exec_arg_is(exec, 0, "help") && count == 1) {
        return fabric_help(exec);
    }

    if (exec_arg_is(exec, 0, "ports")) {
        if (count != 1) {
            exec_refuse_arity(exec, "fabric|ports");
            return EXEC_DONE;
        }
        return fabric_ports(exec);
    }
    if (exec_arg_is(exec, 0, "attach")) {
        return fabric_attach(exec);
    }
    if (exec_arg_is(exec, 0, "resume")) {
        if (count < 5) {
            exec_refuse_arity(exec, "fabric|resume");
            return EXEC_DONE;
        }
        return fabric_of_session(exec, LATER_FABRIC_RESUME);
    }
    if (exec_arg_is(exec, 0, "detach")) {
        if (count != 3) {
            exec_refuse_arity(exec, "fabric|detach");
            return EXEC_DONE;
        }
        return fabric_of_session(exec, LATER_FABRIC_DETACH);
    }
    exec_refuse_subcommand(exec, "FABRIC");
    return EXEC_DONE;
}
