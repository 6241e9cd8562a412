/* limits.h - every fixed limit of Sluice, with its unit and why. README and tests expand from the same table:
 * a limit not tested at limit-1, limit and limit+1 does not belong here. */
#pragma once

#define KIB 1024ull
#define MIB (1024ull * KIB)
#define GIB (1024ull * MIB)

/* X(NAME, value, unit, what it bounds and why this value) */
#define LIMIT_TABLE(X)                                                                                                 \
    X(LIMIT_KEY_BYTES, 65535, "bytes", "a key: its length is 16 bits in a record")                                     \
    X(LIMIT_VALUE_BYTES, 1 * MIB, "bytes", "a string value or one argument: a copy of 1 MiB takes about 100 us")       \
    X(LIMIT_REQUEST_BYTES, 1 * MIB + 256 * KIB, "bytes", "one request with its framing")                               \
    X(LIMIT_REQUEST_ARGS, 1024, "arguments", "arguments of one request, the name excluded: 1024 look-ups in 100 us")   \
    X(LIMIT_INLINE_BYTES, 64 * KIB, "bytes", "one inline RESP command")                                                \
    X(LIMIT_REPLY_BYTES, 4 * MIB, "bytes", "one reply; a larger one becomes an error")                                 \
    X(LIMIT_PACKED_BYTES, 64 * KIB, "bytes", "a hash or sorted set in one packed record: one write copies it")         \
    X(LIMIT_PACKED_ENTRIES, 1024, "entries", "fields or members of a packed record")                                   \
    X(LIMIT_UNAUTH_ARG_BYTES, 16 * KIB, "bytes", "one argument before AUTH")                                           \
    X(LIMIT_UNAUTH_ARGS, 10, "arguments", "arguments of one request before AUTH")                                      \
    X(LIMIT_UNAUTH_OUTPUT_BYTES, 64 * KIB, "bytes", "unread replies before AUTH; more disconnects")                    \
    X(LIMIT_OUTPUT_SOFT_BYTES, 256 * KIB, "bytes", "pending output above which a session's requests wait")             \
    X(LIMIT_OUTPUT_HARD_BYTES, 32 * MIB, "bytes", "pending output above which a session is disconnected")              \
    X(LIMIT_LCORES, 48, "lcores", "with the helpers and the management core they fit the store's 64 members")          \
    X(LIMIT_HELPERS, 1, "threads", "threads beside the lcores for commands that would stall one")                      \
    X(LIMIT_MEMBERS, 64, "members", "store members: 6 bits of a stamp")                                                \
    X(LIMIT_PORTS, 8, "ports", "entries of the list ports")                                                            \
    X(LIMIT_SESSIONS_PER_LCORE, 16384, "sessions", "sessions of one lcore, all ports together")                        \
    X(LIMIT_CHANNEL_BYTES, 65535, "bytes", "a channel's name: a key in the channel index")                             \
    X(LIMIT_CHANNELS_PER_SESSION, 1024, "channels", "subscriptions of one session")                                    \
    X(LIMIT_CLIENT_NAME_BYTES, 64, "bytes", "CLIENT SETNAME")                                                          \
    X(LIMIT_PATTERN_BYTES, 256, "bytes",                                                                               \
      "a pattern of SCAN, KEYS and the like: 64 KiB of key take 5 words of state each")                                \
    X(LIMIT_SCAN_KEYS, 1000, "keys", "keys that one SCAN looks at, whatever COUNT says: 100 us")                       \
    X(LIMIT_BURST, 32, "requests", "requests decoded before the first executes")                                       \
    X(LIMIT_BURST_ARGS, 2048, "arguments", "arguments of one burst, all requests together")                            \
    X(LIMIT_MAIL_SLOTS, 1024, "messages", "mail ring between two threads")                                             \
    X(LIMIT_FRAME_BYTES, 8192, "bytes", "a fabric frame: efa-direct carries about one MTU")                            \
    X(LIMIT_ETHERNET_HALF_OPEN, 1024, "connections", "whose SYN is not yet answered; the oldest makes room")           \
    X(LIMIT_ETHERNET_LEAVING, 2048, "connections", "closed by us, not yet by the peer; the oldest makes room")         \
    X(LIMIT_CTL_LINE_BYTES, 64 * KIB, "bytes", "one line on the management socket")                                    \
    X(LIMIT_CTL_CLIENTS, 64, "clients", "connections of the management socket; more are refused with a line")          \
    X(LIMIT_CTL_OUTPUT_BYTES, 4 * MIB, "bytes", "unread replies of a management client; more disconnects")             \
    X(LIMIT_HTTP_CONNECTIONS, 32, "connections", "connections of the metrics port; more wait until one ends")

enum limits {
#define LIMIT_ENUM(name, value, unit, help) name = (value),
    LIMIT_TABLE(LIMIT_ENUM)
#undef LIMIT_ENUM
};
