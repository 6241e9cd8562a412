/* address.h - numeric IP addresses as settings and printed peers carry them. Pure; never resolves a name. */
#pragma once
#include "config/base.h"
#include <netinet/in.h>
#include <sys/socket.h>

struct address {
    int family; /* AF_INET or AF_INET6 */
    uint8_t bytes[16];
};

/* "127.0.0.1", "[::1]" or "::1". False: neither. */
bool address_parse(struct slice text, struct address *out);

/* 127.0.0.0/8 and ::1, and their mapped form. */
bool address_is_loopback(const struct address *address);

/* As a socket address with `port`; returns its length. */
socklen_t address_to_sockaddr(const struct address *address, uint16_t port, struct sockaddr_storage *out);

/* "127.0.0.1:6379", "[::1]:6379", "unix:/path" or "unix:". Returns `out`. */
#define ADDRESS_TEXT_BYTES 128
const char *address_print(char out[ADDRESS_TEXT_BYTES], const struct sockaddr_storage *from, socklen_t bytes);
