/* pubsub_private.h - shared by pubsub.c and dataplane_boot.c, which makes and frees it. */
#pragma once
#include "dataplane/pubsub.h"

#define PUBSUB_BUCKETS 8192 /* lists of subscriptions by session and channel */

/* One for all lcores it goes to; the last one gives it back. */
struct pubsub_message {
    _Atomic uint32_t references; /* acq_rel: the last one to let go sees everybody done */
    uint32_t channel_bytes, payload_bytes;
    uint64_t hash;
    uint8_t bytes[]; /* channel, payload */
};

struct queued {
    struct queued *next;
    struct pubsub_message *message;
};

struct pubsub {
    struct queued *first, **last;
    uint32_t queued;
    struct channel *delivering;          /* channel of the first message while it is being delivered */
    int64_t starved_since_ms;            /* the subscriber at the cursor finds no memory since; 0: it does */
    struct channel_subscription *cursor; /* next to be served */
    struct channel_subscription *buckets[PUBSUB_BUCKETS];
};
