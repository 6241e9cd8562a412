#include "dataplane/pubsub.h"
#include "dataplane/channels.h"
#include "dataplane/dataplane.h"
#include "dataplane/pubsub_private.h"

#define PUSHES_A_TURN 256
#define STARVED_MS    100
#define QUEUE_SOFT    1024 /* publishers on this lcore wait above it */
#define QUEUE_HARD    4096 /* above it the oldest message is delivered whole, whatever it takes */

/* ---- subscriptions ---- */

static struct channel_subscription **
bucket_of(struct lcore *lcore, const struct session *session, uint64_t hash)
{
    return &lcore->pubsub->buckets[(hash ^ (session->id * 0x9e3779b97f4a7c15ull)) % PUBSUB_BUCKETS];
}

static struct channel_subscription *
subscription_find(struct session *session, struct slice name, uint64_t hash)
{
    struct channel_subscription *at = *bucket_of(session->lcore, session, hash);
    while (at != NULL &&
           !(at->session == session && at->channel->hash == hash && slice_equal(channel_name(at->channel), name))) {
        at = at->bucket_next;
    }
    return at;
}

static struct channel_share *
share_of(struct lcore *lcore, struct channel *channel)
{
    return &channel->shares[lcore->index];
}

enum pubsub_status
pubsub_subscribe(struct session *session, struct slice name)
{
    struct lcore *lcore = session->lcore;
    uint64_t hash = store_hash(lcore->dataplane->store, name);
    if (subscription_find(session, name, hash) != NULL) {
        return PUBSUB_ALREADY;
    }
    if (session->subscription_count >= LIMIT_CHANNELS_PER_SESSION) {
        return PUBSUB_TOO_MANY;
    }
    struct channel_subscription *subscription = memory_take(lcore->memory, sizeof(*subscription));
    if (subscription == NULL) {
        return PUBSUB_TRY_LATER;
    }
    struct channel *channel = channel_hold(lcore, name, hash);
    if (channel == NULL) {
        memory_give(lcore->memory, subscription, sizeof(*subscription));
        return PUBSUB_TRY_LATER;
    }

    struct channel_share *share = share_of(lcore, channel);
    struct channel_subscription **bucket = bucket_of(lcore, session, hash);
    *subscription = (struct channel_subscription){
        .channel = channel,
        .session = session,
        .channel_next = share->first,
        .channel_link = &share->first,
        .session_next = session->subscriptions,
        .session_link = &session->subscriptions,
        .bucket_next = *bucket,
    };
    if (share->first != NULL) {
        share->first->channel_link = &subscription->channel_next;
    }
    if (session->subscriptions != NULL) {
        session->subscriptions->session_link = &subscription->session_next;
    }
    share->first = subscription;
    session->subscriptions = subscription;
    *bucket = subscription;
    if (load_relaxed(&share->count) == 0) {
        counter_add(&lcore->counters->channels, 1);
    }
    counter_add(&share->count, 1);
    session->subscription_count++;
    session->flags |= SESSION_SUBSCRIBED;
    return PUBSUB_OK;
}

static void
subscription_end(struct channel_subscription *subscription)
{
    struct session *session = subscription->session;
    struct lcore *lcore = session->lcore;
    struct channel *channel = subscription->channel;
    struct channel_share *share = share_of(lcore, channel);

    struct channel_subscription **at = bucket_of(lcore, session, channel->hash);
    while (*at != subscription) {
        at = &(*at)->bucket_next;
    }
    *at = subscription->bucket_next;

    if (lcore->pubsub->cursor == subscription) {
        lcore->pubsub->cursor = subscription->channel_next;
    }
    *subscription->channel_link = subscription->channel_next;
    if (subscription->channel_next != NULL) {
        subscription->channel_next->channel_link = subscription->channel_link;
    }
    *subscription->session_link = subscription->session_next;
    if (subscription->session_next != NULL) {
        subscription->session_next->session_link = subscription->session_link;
    }
    store_relaxed(&share->count, load_relaxed(&share->count) - 1);
    if (load_relaxed(&share->count) == 0) {
        store_relaxed(&lcore->counters->channels, load_relaxed(&lcore->counters->channels) - 1);
    }
    if (--session->subscription_count == 0) {
        session->flags &= ~(uint32_t)SESSION_SUBSCRIBED;
    }
    memory_give(lcore->memory, subscription, sizeof(*subscription));
    channel_release(lcore, channel);
}

bool
pubsub_unsubscribe(struct session *session, struct slice name)
{
    uint64_t hash = store_hash(session->lcore->dataplane->store, name);
    struct channel_subscription *subscription = subscription_find(session, name, hash);
    if (subscription == NULL) {
        return false;
    }
    subscription_end(subscription);
    return true;
}

void
pubsub_forget_session(struct session *session)
{
    while (session->subscriptions != NULL) { /* at most LIMIT_CHANNELS_PER_SESSION */
        subscription_end(session->subscriptions);
    }
}

/* ---- messages ---- */

static size_t
message_bytes(const struct pubsub_message *message)
{
    return sizeof(*message) + message->channel_bytes + message->payload_bytes;
}

static void
message_release(struct lcore *lcore, struct pubsub_message *message)
{
    if (sub_acq_rel(&message->references, 1) == 1) {
        memory_give(lcore->memory, message, message_bytes(message));
    }
}

/* Takes over one reference. False: no memory. */
static bool
enqueue(struct lcore *lcore, struct pubsub_message *message)
{
    struct pubsub *pubsub = lcore->pubsub;
    struct queued *queued = memory_take(lcore->memory, sizeof(*queued));
    if (queued == NULL) {
        counter_add(&lcore->counters->memory_misses, 1);
        return false;
    }
    *queued = (struct queued){ .message = message };
    *pubsub->last = queued;
    pubsub->last = &queued->next;
    pubsub->queued++;
    return true;
}

static struct pubsub_message *
message_new(struct lcore *lcore, struct slice name, struct slice payload, uint64_t hash)
{
    struct pubsub_message *message = memory_take(lcore->memory, sizeof(*message) + name.bytes + payload.bytes);
    if (message == NULL) {
        return NULL;
    }
    store_relaxed(&message->references, 1); /* the publisher's, until every target has its own */
    message->channel_bytes = (uint32_t)name.bytes;
    message->payload_bytes = (uint32_t)payload.bytes;
    message->hash = hash;
    if (name.bytes > 0) {
        memcpy(message->bytes, name.data, name.bytes);
    }
    if (payload.bytes > 0) {
        memcpy(message->bytes + name.bytes, payload.data, payload.bytes);
    }
    return message;
}

/* Lcores with subscribers, this one too, as bits; their subscribers in *receivers. False: a target's mail ring is full.
 */
static bool
targets_of(struct lcore *lcore, const struct channel *channel, uint64_t *targets, uint64_t *receivers)
{
    *targets = 0;
    *receivers = 0;
    for (uint32_t i = 0; i < channel->lcores; i++) {
        uint32_t count = load_relaxed(&channel->shares[i].count);
        if (count == 0) {
            continue;
        }
        if (i != lcore->index && mail_room(lcore->mail_out[i]) == 0) {
            return false; /* room seen is room kept: this lcore is the ring's only writer */
        }
        *targets |= 1ull << i;
        *receivers += count;
    }
    return true;
}

enum pubsub_status
pubsub_publish(struct lcore *lcore, struct slice name, struct slice payload, uint64_t *receivers)
{
    uint64_t hash = store_hash(lcore->dataplane->store, name);
    uint64_t targets = 0;
    *receivers = 0;
    const struct channel *channel = channel_find(lcore, name, hash);
    if (channel == NULL) {
        return PUBSUB_OK;
    }
    if (lcore->pubsub->queued >= QUEUE_SOFT || !targets_of(lcore, channel, &targets, receivers)) {
        return PUBSUB_TRY_LATER;
    }
    if (targets == 0) {
        return PUBSUB_OK;
    }
    struct pubsub_message *message = message_new(lcore, name, payload, hash);
    if (message == NULL) {
        return PUBSUB_TRY_LATER;
    }
    if ((targets & (1ull << lcore->index)) && !enqueue(lcore, message)) {
        memory_give(lcore->memory, message, message_bytes(message));
        return PUBSUB_TRY_LATER;
    }
    store_relaxed(&message->references, (uint32_t)__builtin_popcountll(targets)); /* before anybody else sees it */
    targets &= ~(1ull << lcore->index);
    while (targets != 0) {
        struct mail mail = { .kind = MAIL_PUBLISH, .p = message };
        uint32_t to = (uint32_t)__builtin_ctzll(targets);
        targets &= targets - 1;
        bool posted = lcore_post(lcore, to, &mail);
        assert(posted);
        (void)posted;
    }
    return PUBSUB_OK;
}

/* False: no memory at this moment. */
static bool
push_message(struct session *session, const struct pubsub_message *message)
{
    struct reply *reply = session_push_begin(session);
    if (reply == NULL) {
        return true;
    }
    reply_begin_push(reply, 3);
    reply_bulk(reply, SLICE_LITERAL("message"));
    reply_bulk(reply, slice_of(message->bytes, message->channel_bytes));
    reply_bulk(reply, slice_of(message->bytes + message->channel_bytes, message->payload_bytes));
    reply_end(reply);
    if (!session_push_end(session)) {
        return false;
    }
    counter_add(&session->lcore->counters->push_delivered, 1);
    return true;
}

/* A subscriber found no memory: it is tried again for a while, then it goes, so that publishers do not wait for ever.
 */
static bool
keep_waiting(struct lcore *lcore, struct session *session, bool forced)
{
    struct pubsub *pubsub = lcore->pubsub;
    counter_add(&lcore->counters->memory_misses, 1);
    if (pubsub->starved_since_ms == 0) {
        pubsub->starved_since_ms = lcore->now_ms;
    }
    if (!forced && lcore->now_ms - pubsub->starved_since_ms < STARVED_MS) {
        return true;
    }
    counter_add(&lcore->counters->closed_slow_consumer, 1);
    session_kill(session);
    return false;
}

/* Serve up to `budget` subscribers of the first message. Returns how many; *done when it was the last. */
static uint32_t
serve_first(struct lcore *lcore, uint32_t budget, bool *done)
{
    struct pubsub *pubsub = lcore->pubsub;
    struct pubsub_message *message = pubsub->first->message;
    if (pubsub->delivering == NULL) {
        struct channel *channel = channel_find(lcore, slice_of(message->bytes, message->channel_bytes), message->hash);
        pubsub->delivering = channel;
        pubsub->cursor = channel != NULL ? share_of(lcore, channel)->first : NULL;
    }
    uint32_t served = 0;
    while (pubsub->cursor != NULL && served < budget) {
        struct channel_subscription *subscription = pubsub->cursor;
        if (!push_message(subscription->session, message) &&
            keep_waiting(lcore, subscription->session, budget == UINT32_MAX)) {
            *done = false;
            return budget; /* nothing more this turn */
        }
        pubsub->starved_since_ms = 0;
        pubsub->cursor = subscription->channel_next;
        served++;
    }
    *done = pubsub->cursor == NULL;
    return served;
}

static void
dequeue(struct lcore *lcore)
{
    struct pubsub *pubsub = lcore->pubsub;
    struct queued *queued = pubsub->first;
    pubsub->first = queued->next;
    if (pubsub->first == NULL) {
        pubsub->last = &pubsub->first;
    }
    pubsub->queued--;
    pubsub->delivering = NULL;
    message_release(lcore, queued->message);
    memory_give(lcore->memory, queued, sizeof(*queued));
}

uint32_t
pubsub_run(struct lcore *lcore)
{
    struct pubsub *pubsub = lcore->pubsub;
    uint32_t served = 0;
    while (pubsub->first != NULL && (served < PUSHES_A_TURN || pubsub->queued > QUEUE_HARD)) {
        bool done;
        uint32_t budget = pubsub->queued > QUEUE_HARD ? UINT32_MAX : PUSHES_A_TURN - served;
        served += serve_first(lcore, budget, &done) + 1; /* looking a channel up counts as one */
        if (done) {
            dequeue(lcore);
        }
    }
    return served;
}

void
pubsub_deliver(struct lcore *lcore, const struct mail *mail)
{
    struct pubsub_message *message = mail->p;
    if (enqueue(lcore, message)) {
        return;
    }
    /* No memory for a place in the queue: what is queued goes first, then this one, now; order is kept. */
    bool done;
    while (lcore->pubsub->first != NULL) {
        serve_first(lcore, UINT32_MAX, &done);
        dequeue(lcore);
    }
    struct queued here = { .message = message };
    lcore->pubsub->first = &here;
    serve_first(lcore, UINT32_MAX, &done);
    lcore->pubsub->first = NULL;
    lcore->pubsub->delivering = NULL;
    message_release(lcore, message);
}
