/* ctl_server.h - connections of the management socket: lines in, answers out, within limits. Knows no command.
 *
 * One answer at a time and client, in order. A client that does not read stops being read; one that sends too much,
 * does not finish a line or does not read for too long is closed. When the places are taken, the one that has asked
 * nothing for longest makes room, so that silent connections cannot lock the operator out. One thread. */
#pragma once
#include "config/limits.h"
#include "mgmt/listener.h"
#include "mgmt/loop.h"
#include "mgmt/text.h"
#include <sys/types.h>

#define CTL_IDLE_MS   300000 /* without a request: closed, so that forgotten connections do not use up the places */
#define CTL_STALL_MS  30000  /* with an unread answer: closed */
#define CTL_LINE_MS   5000   /* from a line's first byte to its end: later, it is refused */
#define CTL_EVICT_MS  1000   /* without a request, or with an answer that stays unread: makes room when there is none */
#define CTL_KEPT      4      /* of LIMIT_CTL_CLIENTS: for root and the uid that runs the appliance */
#define CTL_LINGER_MS 1000   /* after an error that ends a connection: time for the client to read it */

struct ctl_client;
struct ctl_server;

enum ctl_result {
    CTL_DONE,  /* the answer was appended to `out` */
    CTL_LATER, /* ctl_server_answer() will bring it; the client waits */
};

/* A whole line, without its end; may hold any bytes, and a NUL follows it. */
typedef enum ctl_result (*ctl_line_fn)(void *context, struct ctl_client *client, char *line, size_t bytes,
                                       struct text *out);

struct ctl_client {
    struct watch watch; /* first */
    struct ctl_server *server;
    uint64_t id; /* unique in this process */
    uid_t uid;   /* SO_PEERCRED */
    pid_t pid;
    char *in; /* LIMIT_CTL_LINE_BYTES + 2: one whole line, its end and a NUL */
    size_t in_bytes, scanned;
    struct text out;
    size_t sent;
    bool waiting;      /* for ctl_server_answer() */
    bool more;         /* whole lines are at hand */
    bool ended;        /* the client sends no more */
    bool closing;      /* answers nothing more: what was written goes out, what comes in is dropped */
    int64_t active_ms; /* joined, last asked with a whole line, or last took some of an answer */
    int64_t line_ms;   /* first byte of the line at hand */
    int64_t close_at_ms;
};

struct ctl_server {
    struct watch watch; /* of the listener; first */
    struct loop *loop;
    ctl_line_fn line;
    void *context;
    struct ctl_client *clients[LIMIT_CTL_CLIENTS];
    uid_t owner; /* who may have the places that are kept, besides root */
    uint64_t ids;
    uint64_t accepted, refused, evicted, closed_for_cause; /* counters */
    int64_t paused_until_ms;                               /* out of descriptors: no accept before */
};

/* Serve `listen_fd`, which stays the caller's. */
void ctl_server_open(struct ctl_server *server, struct loop *loop, int listen_fd, ctl_line_fn line, void *context);
void ctl_server_close(struct ctl_server *server);

/* A connected socket, as if it had been accepted. False: refused with a line, and closed. */
bool ctl_server_take(struct ctl_server *server, int fd);

/* The answer to a line that was CTL_LATER; dropped when the client has gone. */
void ctl_server_answer(struct ctl_server *server, uint64_t client_id, const char *bytes, size_t count);

/* About every 100 ms: what time decides. */
void ctl_server_tick(struct ctl_server *server, int64_t now_ms);

uint32_t ctl_server_clients(const struct ctl_server *server);
/* Everything answered was sent. */
bool ctl_server_is_flushed(const struct ctl_server *server);
