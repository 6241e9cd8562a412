/* fault_fabric.h - a message fabric in memory that breaks the rules a fabric may break, from a seed.
 *
 * Behind the same table of operations as libfabric. It drops messages (the send then completes in error, an injected
 * one just vanishes), duplicates, reorders, delays and truncates them, invents senders, repeats old messages, answers
 * AGAIN in storms that only polling ends, and kills endpoints. Everything comes from one random stream and one clock
 * that the test turns: the same seed is the same run. Threads: one. */
#pragma once
#include "dataplane/endpoint.h"

#define FAULT_ENDPOINTS 64
#define FAULT_SLOTS     256
#define FAULT_FRAME     512 /* slot size */

/* Chances in 1,000, for each message or call. */
struct fault_config {
    uint32_t drop, duplicate, delay, truncate, storm, forge, replay;
    uint32_t delay_steps;      /* longest */
    uint32_t inject_bytes;     /* 0: none */
    bool source_reliable;      /* false: an unknown sender looks like peer 0 */
    bool fail_to_dead_quietly; /* sends to a dead endpoint never complete, as on a stopped peer */
};

struct fault_stats {
    uint64_t sent, delivered, dropped, duplicated, truncated, forged, replayed, agains, to_dead, unposted;
};

struct fault_fabric;

/* The table's open() joins this one. */
struct fault_fabric *fault_fabric_open(const struct fault_config *config, uint64_t seed);
void fault_fabric_close(struct fault_fabric *fabric); /* after its endpoints */
/* Time goes on by one step: what is due arrives. */
void fault_fabric_step(struct fault_fabric *fabric);
/* From now on nothing goes wrong any more: what is under way still arrives. */
void fault_fabric_calm(struct fault_fabric *fabric);
/* Next number of the random stream, below `below`. */
uint32_t fault_fabric_random(struct fault_fabric *fabric, uint32_t below);
const struct fault_stats *fault_fabric_stats(const struct fault_fabric *fabric);
/* A number that every event changes: equal runs have equal ones. */
uint64_t fault_fabric_digest(const struct fault_fabric *fabric);

extern const struct endpoint_ops fault_fabric_ops;

/* The endpoint is cut off: nothing reaches it, sends to it fail (or hang). Its own sends vanish. */
void fault_endpoint_kill(struct endpoint *endpoint);
/* Alive, but nothing it gets is taken: sends to it stay in flight until it goes on. */
void fault_endpoint_stop(struct endpoint *endpoint, bool stopped);
/* It says AGAIN to every send from now on. */
void fault_endpoint_refuse(struct endpoint *endpoint, bool refuses);
/* Every send of `endpoint` that is in flight completes with this error. */
void fault_endpoint_fail_sends(struct endpoint *endpoint, int error);
/* Put a message on its way as if `from` (NULL: a stranger) had sent it. */
void fault_fabric_forge(struct fault_fabric *fabric, const struct endpoint *from, const struct endpoint *to,
                        const void *message, uint32_t bytes);
/* Receive slots that the endpoint's user has not posted, send slots in flight, peers inserted and not removed. */
uint32_t fault_endpoint_unposted(const struct endpoint *endpoint);
uint32_t fault_endpoint_in_flight(const struct endpoint *endpoint);
uint32_t fault_endpoint_peers(const struct endpoint *endpoint);

/* Called for each message that arrives, which it may change: how a test plants a fault of its own. NULL: none. */
typedef void (*fault_arrival_fn)(void *context, const struct endpoint *to, uint8_t *message, uint32_t bytes);
void fault_fabric_on_arrival(struct fault_fabric *fabric, fault_arrival_fn hook, void *context);
