/* command_table.h - every command, declared once.
 *
 * The enum, the name look-up, arity checks, COMMAND replies, handlers, per-command counters and histograms and the
 * reference all expand from these rows. A row without its handler does not link. */
#pragma once
#include "config/limits.h"

enum command_flag {
    CMD_READ = 1 << 0,    /* looks at keys */
    CMD_WRITE = 1 << 1,   /* may change keys */
    CMD_DENYOOM = 1 << 2, /* may take memory: refused above memory.limit */
    CMD_FAST = 1 << 3,    /* O(1) or O(log n) */
    CMD_BARRIER = 1 << 4, /* ends decoding of its session for this burst: changes how what follows is read */
    CMD_NOAUTH = 1 << 5,  /* allowed before AUTH */
    CMD_PUBSUB = 1 << 6,  /* allowed while a RESP2 session is subscribed */
    CMD_LATER = 1 << 7,   /* answers by mail: its session parks */
    CMD_ADMIN = 1 << 8,
    CMD_SHORT = 1 << 9, /* not fast in Redis' sense, but one look at the clock does for a run of neighbours */
};

/* X(id, RESP name, SBE template, args min, args max, flags, first key, last key, key step, handler, group, summary)
 * args exclude the name; keys count from 1 as in Redis, last key -1 is the last argument; template 0: the generic one.
 */
#define COMMAND_TABLE(X)                                                                                               \
    X(PING, "ping", 20, 0, 1, CMD_FAST | CMD_PUBSUB, 0, 0, 0, exec_ping, "connection",                                 \
      "Answers PONG, or its argument")                                                                                 \
    X(ECHO, "echo", 0, 1, 1, CMD_FAST, 0, 0, 0, exec_echo, "connection", "Answers its argument")                       \
    X(HELLO, "hello", 0, 0, LIMIT_REQUEST_ARGS, CMD_FAST | CMD_NOAUTH | CMD_BARRIER, 0, 0, 0, exec_hello,              \
      "connection", "Chooses RESP2 or RESP3; may authenticate and name the connection")                                \
    X(AUTH, "auth", 0, 1, 2, CMD_FAST | CMD_NOAUTH | CMD_BARRIER, 0, 0, 0, exec_auth, "connection",                    \
      "Authenticates the connection")                                                                                  \
    X(QUIT, "quit", 0, 0, LIMIT_REQUEST_ARGS, CMD_FAST | CMD_NOAUTH | CMD_BARRIER | CMD_PUBSUB, 0, 0, 0, exec_quit,    \
      "connection", "Answers OK and closes the connection")                                                            \
    X(SELECT, "select", 0, 1, 1, CMD_FAST, 0, 0, 0, exec_select, "connection", "Accepts database 0, the only one")     \
    X(COMMAND, "command", 0, 0, LIMIT_REQUEST_ARGS, 0, 0, 0, 0, exec_command, "server",                                \
      "Describes the commands: COUNT, DOCS, INFO, LIST")                                                               \
    X(CLIENT, "client", 0, 1, LIMIT_REQUEST_ARGS, CMD_BARRIER, 0, 0, 0, exec_client, "connection",                     \
      "ID, INFO, LIST, KILL, SETNAME, GETNAME, SETINFO")                                                               \
    X(CONFIG, "config", 0, 1, LIMIT_REQUEST_ARGS, CMD_ADMIN | CMD_LATER | CMD_BARRIER, 0, 0, 0, exec_config, "server", \
      "GET, SET: reads and changes settings")                                                                          \
    X(INFO, "info", 0, 0, LIMIT_REQUEST_ARGS, CMD_LATER | CMD_BARRIER, 0, 0, 0, exec_info, "server",                   \
      "Describes the server in sections")                                                                              \
    X(TIME, "time", 0, 0, 0, CMD_FAST, 0, 0, 0, exec_time, "server", "Server time: seconds and microseconds")          \
    X(FABRIC, "fabric", 0, 1, LIMIT_REQUEST_ARGS, CMD_LATER | CMD_BARRIER, 0, 0, 0, exec_fabric, "connection",         \
      "PORTS, ATTACH, RESUME, DETACH: opens a session on a fabric port")                                               \
    X(SET, "set", 23, 2, LIMIT_REQUEST_ARGS, CMD_WRITE | CMD_DENYOOM | CMD_SHORT, 1, 1, 1, exec_set, "string",         \
      "Sets a string; NX XX GET EX PX EXAT PXAT KEEPTTL")                                                              \
    X(GET, "get", 22, 1, 1, CMD_READ | CMD_FAST, 1, 1, 1, exec_get, "string", "Reads a string")                        \
    X(DEL, "del", 30, 1, LIMIT_REQUEST_ARGS, CMD_WRITE, 1, -1, 1, exec_del, "generic", "Removes keys, one by one")     \
    X(UNLINK, "unlink", 0, 1, LIMIT_REQUEST_ARGS, CMD_WRITE | CMD_FAST, 1, -1, 1, exec_del, "generic",                 \
      "Removes keys; memory is always freed later")                                                                    \
    X(EXISTS, "exists", 0, 1, LIMIT_REQUEST_ARGS, CMD_READ | CMD_FAST, 1, -1, 1, exec_exists, "generic",               \
      "Counts the keys that exist")                                                                                    \
    X(TYPE, "type", 0, 1, 1, CMD_READ | CMD_FAST, 1, 1, 1, exec_type, "generic", "Names a key's type")                 \
    X(INCR, "incr", 0, 1, 1, CMD_WRITE | CMD_DENYOOM | CMD_FAST, 1, 1, 1, exec_incr, "string", "Adds 1")               \
    X(INCRBY, "incrby", 31, 2, 2, CMD_WRITE | CMD_DENYOOM | CMD_FAST, 1, 1, 1, exec_incrby, "string",                  \
      "Adds an integer")                                                                                               \
    X(DECR, "decr", 0, 1, 1, CMD_WRITE | CMD_DENYOOM | CMD_FAST, 1, 1, 1, exec_decr, "string", "Subtracts 1")          \
    X(DECRBY, "decrby", 0, 2, 2, CMD_WRITE | CMD_DENYOOM | CMD_FAST, 1, 1, 1, exec_decrby, "string",                   \
      "Subtracts an integer")                                                                                          \
    X(APPEND, "append", 0, 2, 2, CMD_WRITE | CMD_DENYOOM | CMD_FAST, 1, 1, 1, exec_append, "string",                   \
      "Appends to a string")                                                                                           \
    X(STRLEN, "strlen", 0, 1, 1, CMD_READ | CMD_FAST, 1, 1, 1, exec_strlen, "string", "Length of a string in bytes")   \
    X(MGET, "mget", 0, 1, LIMIT_REQUEST_ARGS, CMD_READ | CMD_FAST, 1, -1, 1, exec_mget, "string",                      \
      "Reads several strings at one point in time")                                                                    \
    X(EXPIRE, "expire", 32, 2, LIMIT_REQUEST_ARGS, CMD_WRITE | CMD_FAST, 1, 1, 1, exec_expire, "generic",              \
      "Sets a key's time to live in seconds; NX XX GT LT")                                                             \
    X(PEXPIRE, "pexpire", 0, 2, LIMIT_REQUEST_ARGS, CMD_WRITE | CMD_FAST, 1, 1, 1, exec_pexpire, "generic",            \
      "Sets a key's time to live in milliseconds; NX XX GT LT")                                                        \
    X(TTL, "ttl", 0, 1, 1, CMD_READ | CMD_FAST, 1, 1, 1, exec_ttl, "generic", "Time to live in seconds")               \
    X(PTTL, "pttl", 0, 1, 1, CMD_READ | CMD_FAST, 1, 1, 1, exec_pttl, "generic", "Time to live in milliseconds")       \
    X(PERSIST, "persist", 0, 1, 1, CMD_WRITE | CMD_FAST, 1, 1, 1, exec_persist, "generic", "Removes a time to live")   \
    X(SCAN, "scan", 0, 1, LIMIT_REQUEST_ARGS, CMD_READ, 0, 0, 0, exec_scan, "generic",                                 \
      "Walks over the keys in steps; MATCH COUNT TYPE")                                                                \
    X(KEYS, "keys", 0, 1, 1, CMD_READ | CMD_LATER | CMD_BARRIER, 0, 0, 0, exec_keys, "generic",                        \
      "All keys that match a pattern, found beside the lcores")                                                        \
    X(RANDOMKEY, "randomkey", 0, 0, 0, CMD_READ, 0, 0, 0, exec_randomkey, "generic", "Draws one of the keys")          \
    X(DBSIZE, "dbsize", 0, 0, 0, CMD_READ | CMD_FAST, 0, 0, 0, exec_dbsize, "server", "Counts the keys")               \
    X(FLUSHALL, "flushall", 0, 0, LIMIT_REQUEST_ARGS, CMD_WRITE, 0, 0, 0, exec_flushall, "server",                     \
      "Removes every key at one moment")                                                                               \
    X(FLUSHDB, "flushdb", 0, 0, LIMIT_REQUEST_ARGS, CMD_WRITE, 0, 0, 0, exec_flushall, "server",                       \
      "Removes every key at one moment")                                                                               \
    X(HSET, "hset", 24, 3, LIMIT_REQUEST_ARGS, CMD_WRITE | CMD_DENYOOM | CMD_FAST, 1, 1, 1, exec_hset, "hash",         \
      "Sets fields of a hash")                                                                                         \
    X(HGET, "hget", 25, 2, 2, CMD_READ | CMD_FAST, 1, 1, 1, exec_hget, "hash", "Reads a field")                        \
    X(HDEL, "hdel", 0, 2, LIMIT_REQUEST_ARGS, CMD_WRITE | CMD_FAST, 1, 1, 1, exec_hdel, "hash", "Removes fields")      \
    X(HLEN, "hlen", 0, 1, 1, CMD_READ | CMD_FAST, 1, 1, 1, exec_hlen, "hash", "Counts the fields")                     \
    X(HGETALL, "hgetall", 0, 1, 1, CMD_READ, 1, 1, 1, exec_hgetall, "hash", "Reads all fields and values")             \
    X(HEXISTS, "hexists", 0, 2, 2, CMD_READ | CMD_FAST, 1, 1, 1, exec_hexists, "hash", "Tells whether a field exists") \
    X(HSCAN, "hscan", 0, 2, LIMIT_REQUEST_ARGS, CMD_READ, 1, 1, 1, exec_hscan, "hash",                                 \
      "Fields and values, at once; MATCH COUNT")                                                                       \
    X(ZADD, "zadd", 26, 3, LIMIT_REQUEST_ARGS, CMD_WRITE | CMD_DENYOOM | CMD_FAST, 1, 1, 1, exec_zadd, "sorted-set",   \
      "Adds members or changes scores; NX XX GT LT CH INCR")                                                           \
    X(ZSCORE, "zscore", 27, 2, 2, CMD_READ | CMD_FAST, 1, 1, 1, exec_zscore, "sorted-set", "Score of a member")        \
    X(ZREM, "zrem", 0, 2, LIMIT_REQUEST_ARGS, CMD_WRITE | CMD_FAST, 1, 1, 1, exec_zrem, "sorted-set",                  \
      "Removes members")                                                                                               \
    X(ZCARD, "zcard", 0, 1, 1, CMD_READ | CMD_FAST, 1, 1, 1, exec_zcard, "sorted-set", "Counts the members")           \
    X(ZRANGE, "zrange", 0, 3, LIMIT_REQUEST_ARGS, CMD_READ, 1, 1, 1, exec_zrange, "sorted-set",                        \
      "Members by rank, score or name; BYSCORE BYLEX REV LIMIT WITHSCORES")                                            \
    X(ZSCAN, "zscan", 0, 2, LIMIT_REQUEST_ARGS, CMD_READ, 1, 1, 1, exec_zscan, "sorted-set",                           \
      "Members and scores, at once; MATCH COUNT")                                                                      \
    X(SUBSCRIBE, "subscribe", 29, 1, LIMIT_REQUEST_ARGS, CMD_PUBSUB | CMD_BARRIER, 0, 0, 0, exec_subscribe, "pubsub",  \
      "Subscribes to channels")                                                                                        \
    X(UNSUBSCRIBE, "unsubscribe", 0, 0, LIMIT_REQUEST_ARGS, CMD_PUBSUB | CMD_BARRIER, 0, 0, 0, exec_unsubscribe,       \
      "pubsub", "Unsubscribes from channels, or from all")                                                             \
    X(PUBLISH, "publish", 28, 2, 2, CMD_FAST | CMD_PUBSUB, 0, 0, 0, exec_publish, "pubsub",                            \
      "Sends a message to a channel's subscribers on every lcore")

enum command_id {
#define COMMAND_ENUM(id, ...) COMMAND_##id,
    COMMAND_TABLE(COMMAND_ENUM)
#undef COMMAND_ENUM
        COMMAND_COUNT
};
