/* exec_pubsub.c - SUBSCRIBE UNSUBSCRIBE PUBLISH. */
#include "dataplane/channels.h"
#include "dataplane/dataplane.h"
#include "dataplane/pubsub.h"

/* One confirmation: kind, channel or nil, subscriptions left. */
static void
confirm(struct exec *exec, const char *kind, const struct slice *channel)
{
    struct reply *reply = exec->reply;
    reply->ops->push(reply, 3);
    reply_bulk_text(reply, kind);
    if (channel != NULL) {
        reply_bulk(reply, *channel);
    } else {
        reply_nil(reply);
    }
    reply_integer(reply, exec->session->subscription_count);
}

/* NULL, or why none of the channels is subscribed: a refusal in the middle would leave the client guessing. */
static const char *
subscribe_refusal(const struct exec *exec)
{
    const struct request *request = exec->request;
    if (exec->session->subscription_count + request->args_count > LIMIT_CHANNELS_PER_SESSION) {
        return "ERR a session subscribes to at most 1024 channels";
    }
    for (uint32_t i = 0; i < request->args_count; i++) {
        if (request->args[i].kind == ARG_BYTES && request->args[i].bytes.bytes > LIMIT_CHANNEL_BYTES) {
            return "ERR a channel name has at most 65535 bytes";
        }
    }
    return NULL;
}

/* Before the request comes again: no message may arrive ahead of the confirmation. */
static void
subscribe_undo(struct exec *exec, const uint64_t *fresh, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (fresh[i / 64] >> i % 64 & 1) {
            char scratch[ARG_TEXT_BYTES];
            pubsub_unsubscribe(exec->session, arg_bytes(&exec->request->args[i], scratch));
        }
    }
}

enum exec_result
exec_subscribe(struct exec *exec)
{
    const struct request *request = exec->request;
    uint64_t fresh[LIMIT_REQUEST_ARGS / 64 + 1] = { 0 }; /* arguments that were not subscribed before */
    const char *refusal = subscribe_refusal(exec);
    if (refusal != NULL) {
        reply_error(exec->reply, refusal);
        return EXEC_DONE;
    }
    for (uint32_t i = 0; i < request->args_count; i++) {
        char scratch[ARG_TEXT_BYTES];
        struct slice channel = arg_bytes(&request->args[i], scratch);
        enum pubsub_status status = pubsub_subscribe(exec->session, channel);
        if (status == PUBSUB_TRY_LATER) {
            subscribe_undo(exec, fresh, i);
            return EXEC_RETRY;
        }
        fresh[i / 64] |= (uint64_t)(status == PUBSUB_OK) << i % 64;
        confirm(exec, "subscribe", &channel);
    }
    return EXEC_DONE;
}

enum exec_result
exec_unsubscribe(struct exec *exec)
{
    const struct request *request = exec->request;
    struct session *session = exec->session;

    for (uint32_t i = 0; i < request->args_count; i++) {
        char scratch[ARG_TEXT_BYTES];
        struct slice channel = arg_bytes(&request->args[i], scratch);
        pubsub_unsubscribe(session, channel);
        confirm(exec, "unsubscribe", &channel);
    }
    if (request->args_count > 0) {
        return EXEC_DONE;
    }
    if (session->subscriptions == NULL) {
        confirm(exec, "unsubscribe", NULL);
    }
    while (session->subscriptions != NULL) { /* at most LIMIT_CHANNELS_PER_SESSION */
        struct channel_subscription *subscription = session->subscriptions;
        struct channel *channel = subscription->channel;
        struct slice name = channel_name(channel); /* outlives the subscription: retired memory is kept for this turn */
        pubsub_unsubscribe(session, name);
        confirm(exec, "unsubscribe", &name);
    }
    return EXEC_DONE;
}

enum exec_result
exec_publish(struct exec *exec)
{
    char channel_text[ARG_TEXT_BYTES], payload_text[ARG_TEXT_BYTES];
    struct slice channel = arg_bytes(&exec->request->args[0], channel_text);
    struct slice payload = arg_bytes(&exec->request->args[1], payload_text);
    uint64_t receivers;

    if (pubsub_publish(exec->lcore, channel, payload, &receivers) == PUBSUB_TRY_LATER) {
        return EXEC_RETRY;
    }
    counter_add(&exec->lcore->counters->published, 1);
    reply_integer(exec->reply, (int64_t)receivers);
    return EXEC_DONE;
}
