/* responder.h - a null responder: it counts the bytes of requests whose lengths it was told and answers from a buffer.
 * What a generator reaches against it is the generator's (and the kernel's) ceiling. */
#pragma once
#include "tools/bench/generator.h"

struct responder;

/* Start a thread, pinned to `cpu`, that accepts connections on a loopback port and answers requests of this plan in
 * turn of its schedule. `skip_bytes` come first on each connection. NULL with a sentence in `why`. */
struct responder *responder_start(const struct load_op *ops, uint32_t op_count, enum client_wire wire,
                                  uint32_t value_bytes, uint32_t skip_bytes, int cpu, char *why, size_t why_bytes);
uint16_t responder_port(const struct responder *responder);
void responder_stop(struct responder *responder);
