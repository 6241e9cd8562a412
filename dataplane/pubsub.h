/* pubsub.h - subscriptions of this lcore's sessions, and the messages on their way to them.
 *
 * PUBLISH puts one message, counted by the lcores it goes to, into this lcore's queue and the others' mail;
 * pubsub_run() delivers from the queue, bounded per turn, after the burst: a message never lands inside a reply. */
#pragma once
#include "config/base.h"
#include "config/sync.h"

struct channel;
struct lcore;
struct mail;
struct session;

struct channel_subscription {
    struct channel *channel;
    struct session *session;
    struct channel_subscription *channel_next, **channel_link; /* of this lcore's subscribers of the channel */
    struct channel_subscription *session_next, **session_link; /* of the session's subscriptions */
    struct channel_subscription *bucket_next;                  /* of pubsub->buckets */
};

enum pubsub_status { PUBSUB_OK, PUBSUB_ALREADY, PUBSUB_TRY_LATER, PUBSUB_TOO_MANY };

enum pubsub_status pubsub_subscribe(struct session *session, struct slice name);
/* False: was not subscribed. */
bool pubsub_unsubscribe(struct session *session, struct slice name);
/* The session closes: every subscription goes, without replies. */
void pubsub_forget_session(struct session *session);

/* Queue for every subscriber on every lcore. *receivers is their number at this moment. PUBSUB_TRY_LATER: no memory or
 * a full mail ring; nothing happened. */
enum pubsub_status pubsub_publish(struct lcore *lcore, struct slice name, struct slice payload, uint64_t *receivers);

/* MAIL_PUBLISH arrived: into the queue. */
void pubsub_deliver(struct lcore *lcore, const struct mail *mail);
/* Deliver from the queue; bounded. Returns messages written to sessions. */
uint32_t pubsub_run(struct lcore *lcore);
