/* mail.h - bounded rings between two threads: lcore to lcore, lcore to management core or helper and back.
 *
 * One writer and one reader a ring. A message is 64 bytes, copied; what it points to belongs to the receiver until it
 * mails it back. The writer posts only when there is room: for several receivers it reserves room in all of them first
 * (it is the only writer of each, so room seen is room kept). */
#pragma once
#include "config/base.h"
#include "config/limits.h"
#include "config/sync.h"

enum mail_kind {
    MAIL_NONE,
    MAIL_ADOPT_SOCKET,  /* mgmt -> lcore: a = fd, b = listener flags (enum socket_flag); the lcore owns the fd now */
    MAIL_PUBLISH,       /* lcore -> lcore: p = struct pubsub_message, shared, counted */
    MAIL_LATER_REQUEST, /* lcore -> mgmt, helper or lcore: p = struct later */
    MAIL_LATER_REPLY,   /* back to the asking lcore: p = the same struct later, answered */
    MAIL_SESSIONS_LIST, /* mgmt -> lcore: p = struct session_list to fill; mailed back filled */
    MAIL_SESSION_KILL,  /* mgmt -> lcore: p = struct session_kill; mailed back filled, b = sessions closed */
    MAIL_HOT_KEYS,      /* mgmt -> lcore: p = struct hot_keys to fill for a while; mailed back filled */
    MAIL_DRAIN,         /* mgmt -> lcore: take no new sessions, finish what was received, close, stop */
};

struct mail {
    enum mail_kind kind;
    uint32_t from; /* lcore index, MAIL_FROM_MGMT or MAIL_FROM_HELPER */
    uint64_t a, b, c;
    void *p;
    uint64_t reserved[3];
};
static_assert(sizeof(struct mail) == CACHE_LINE, "one line a message");
/* Threads that are no lcores, numbered after all of these that there may be. */
#define MAIL_FROM_MGMT   LIMIT_LCORES
#define MAIL_FROM_HELPER (LIMIT_LCORES + 1)
#define MAIL_THREADS     (LIMIT_LCORES + 2)

struct mail_ring {
    _Alignas(CACHE_LINE) _Atomic uint32_t head; /* reader: release store; pairs with the acquire in mail_room() */
    _Alignas(CACHE_LINE) _Atomic uint32_t tail; /* writer: release store; pairs with the acquire in mail_take() */
    _Alignas(CACHE_LINE) struct mail slots[LIMIT_MAIL_SLOTS];
};

/* Writer: free slots now; only grows until this writer posts. */
uint32_t mail_room(const struct mail_ring *ring);
/* Writer: copy and publish. False: full, nothing happened. */
bool mail_post(struct mail_ring *ring, const struct mail *mail);
/* Reader: copy the oldest out. False: empty. */
bool mail_take(struct mail_ring *ring, struct mail *mail);

/* A thread that may sleep says so here; a writer looks after posting. Both sides put a full fence between: the sleeper
 * stores `sleeping`, fences, looks at its rings once more; the writer posts, fences, loads `sleeping`. */
struct mail_waker {
    _Alignas(CACHE_LINE) _Atomic uint32_t sleeping;
    int event_fd; /* eventfd, nonblocking; written only when sleeping was seen */
};
int mail_waker_open(struct mail_waker *waker); /* 0 or -errno */
void mail_waker_close(struct mail_waker *waker);
void mail_wake(struct mail_waker *waker);        /* writer, after mail_post() */
void mail_sleep_begin(struct mail_waker *waker); /* sleeper: then look once more, then wait on event_fd */
void mail_sleep_end(struct mail_waker *waker);   /* sleeper: clears the flag and the eventfd */
