/* session_list.h - what the management core asks of an lcore about its sessions: a page of rows, or an end for some.
 *
 * Both structs belong to the management core; while mailed they are the lcore's to read and fill in, and it mails them
 * back with the same kind. A page is small, so that a long list costs an lcore some microseconds a turn. */
#pragma once
#include "config/base.h"

#define SESSION_LIST_ROWS    64
#define SESSION_KILL_IDS     256
#define SESSION_TEXT_BYTES   65 /* as in struct session */
#define SESSION_PEER_BYTES   64
#define SESSION_LIST_VISITED 1024 /* most table entries looked at for one page; it may come back with no rows */

struct session_row {
    uint64_t id;
    int64_t age_ms, idle_ms;
    uint64_t requests, rx_bytes, tx_bytes;
    uint64_t pending_bytes; /* output not yet acknowledged */
    uint32_t subscriptions;
    uint32_t wire;        /* enum wire */
    uint32_t flags;       /* enum session_flag */
    int16_t last_command; /* enum command_id, -1: none yet */
    uint16_t port;        /* index of its port in the lcore */
    bool authenticated;   /* `user` is valid */
    char peer[SESSION_PEER_BYTES], local[SESSION_PEER_BYTES];
    char name[SESSION_TEXT_BYTES], library_name[SESSION_TEXT_BYTES], library_version[SESSION_TEXT_BYTES];
    char user[SESSION_TEXT_BYTES];
};

/* MAIL_SESSIONS_LIST, p = struct session_list. */
struct session_list {
    uint64_t cursor; /* 0: from the start; the lcore writes where to go on, 0: that was all. Its own meaning. */
    uint32_t lcore;  /* who is asked */
    uint32_t count;  /* rows filled in, at most SESSION_LIST_ROWS */
    void *asker;     /* of the management core; the lcore leaves it alone */
    struct session_row rows[SESSION_LIST_ROWS];
};

/* MAIL_SESSION_KILL, p = struct session_kill (a is 0), which comes back to done(). Ids that are gone, or another
 * lcore's, are skipped. */
struct session_kill {
    uint32_t lcore;
    uint32_t count;  /* ids */
    uint32_t killed; /* the lcore's answer, also in the mail's b */
    void *asker;     /* as above, and done() too */
    void (*done)(struct session_kill *kill);
    uint64_t ids[SESSION_KILL_IDS];
};
