/* frame_bytes.h - big-endian fields and checksums of the frames that test peers make. */
#pragma once
#include "config/base.h"

static inline void
put16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static inline void
put32(uint8_t *at, uint32_t value)
{
    put16(at, value >> 16);
    put16(at + 2, value & 0xffff);
}

static inline uint16_t
get16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static inline uint32_t
get32(const uint8_t *at)
{
    return (uint32_t)get16(at) << 16 | get16(at + 2);
}

/* The Internet checksum's sum, on top of `sum`, not inverted. */
static inline uint16_t
wire_sum(const void *data, size_t bytes, uint32_t sum)
{
    const uint8_t *at = data;
    for (size_t i = 0; i + 1 < bytes; i += 2) {
        sum += get16(at + i);
    }
    sum += bytes % 2 != 0 ? (uint32_t)at[bytes - 1] << 8 : 0;
    while (sum >> 16) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint16_t)sum;
}

/* The checksum field of a TCP segment whose field is zero, behind this IPv4 header. */
static inline uint16_t
tcp_sum(const uint8_t *ip, const uint8_t *tcp, size_t bytes)
{
    return (uint16_t)~wire_sum(tcp, bytes, wire_sum(ip + 12, 8, 0) + 6 + (uint32_t)bytes);
}
