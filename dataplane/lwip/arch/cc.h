/* cc.h - what lwIP asks about compiler and machine. */
#pragma once
#include <endian.h>
#include <stdint.h>
#include <stdlib.h>

#define LWIP_NO_UNISTD_H 1
#define lwip_htons(x)    __builtin_bswap16(x)
#define lwip_htonl(x)    __builtin_bswap32(x)
#define LWIP_PLATFORM_DIAG(text)
#define LWIP_PLATFORM_ASSERT(text) abort()
#define LWIP_ERROR(text, expression, handler)                                                                          \
    do {                                                                                                               \
        if (!(expression)) {                                                                                           \
            handler;                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Nothing is drawn from it but the identification of what is sent in fragments: initial sequence numbers have their own
 * hook. */
uint32_t ethernet_stack_draw(void);
#define LWIP_RAND() ethernet_stack_draw()

uint16_t ethernet_stack_sum(const void *data, int bytes);
#define LWIP_CHKSUM ethernet_stack_sum
