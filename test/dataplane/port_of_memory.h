/* port_of_memory.h - what every port without a wire has in common: nothing comes by itself, nothing to sleep on,
 * nothing to look after. Its test hands in the bytes with session_receive() and takes the replies in its own flush. */
#pragma once
#include "dataplane/dataplane.h"

static inline uint32_t
port_nothing_comes(struct port *base)
{
    return 0;
}

static inline void
port_nothing_to_do(struct port *base)
{
}

static inline int
port_no_wait_fd(struct port *base)
{
    return -1;
}
