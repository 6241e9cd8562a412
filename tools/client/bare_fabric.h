/* bare_fabric.h - messages over an endpoint and nothing else: the floor that a session on the fabric is measured
 * against. One peer, no credit, no order, no loss handling. Threads: one. */
#pragma once
#include "tools/client/client.h"

struct bare_fabric;

/* NULL with a sentence in `why`. */
struct bare_fabric *bare_fabric_open(const struct client_fabric *fabric, char *why, size_t why_bytes);
void bare_fabric_close(struct bare_fabric *bare);

/* Our address for the peer; the bytes live as long as `bare`. */
struct slice bare_fabric_address(const struct bare_fabric *bare);
/* From now on messages go to this address. */
bool bare_fabric_peer(struct bare_fabric *bare, struct slice address, char *why, size_t why_bytes);
uint32_t bare_fabric_frame_bytes(const struct bare_fabric *bare);

/* Send a message of `bytes`, at least 8, that begins with `tag`; injected if the policy and the provider say so. Spins
 * while the provider has no room. False: broken. */
bool bare_fabric_send(struct bare_fabric *bare, uint32_t bytes, uint64_t tag);
/* Look once: bytes of a message that came, and its tag; 0: none, -1: broken. */
int64_t bare_fabric_receive(struct bare_fabric *bare, uint64_t *tag);
