/* streams.h - the stream listeners: accept, and hand each connection to the lcore with the fewest sessions. */
#pragma once
#include "dataplane/dataplane.h"
#include "mgmt/listener.h"
#include "mgmt/loop.h"

struct streams;

struct stream_listener {
    struct watch watch; /* first */
    struct listener listener;
    struct streams *streams;
};

struct streams {
    struct loop *loop;
    struct dataplane *dataplane;
    struct stream_listener listeners[SETTINGS_ADDRESSES_MAX + 1];
    uint32_t count;
    uint16_t port; /* of the TCP ones */
    uint32_t turn;
    uint32_t posted[LIMIT_LCORES]; /* connections mailed since the last tick: not yet in the lcore's count */
    int held_fd;                   /* accepted, but every mail ring was full; -1: none */
    uint32_t held_flags;
    int64_t paused_until_ms;    /* out of descriptors: no accept before */
    uint64_t accepted, refused; /* counters */
};

/* Bind everything that the settings name; nobody is accepted before streams_start(). `unix_path` "" for none. 0 or
 * -errno with a sentence in `why`. An IPv6 address that nobody asked for is left out where the machine has none. */
int streams_open(struct streams *streams, const struct settings *settings, const char *unix_path, char *why,
                 size_t why_bytes);
void streams_start(struct streams *streams, struct loop *loop, struct dataplane *dataplane);
void streams_stop(struct streams *streams); /* no new connections; closes the listeners */

/* Returns whether it is wanted again within a millisecond. */
bool streams_tick(struct streams *streams, int64_t now_ms);
