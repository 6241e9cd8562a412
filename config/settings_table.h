/* settings_table.h - every scalar setting, declared once: the parser, --print-config, `sluicectl config`, man page and
 * the README expand from these rows. Lists (ports, users) are parsed beside it in settings.c. */
#pragma once
#include "config/limits.h"

/* X(field, "group.name", kind, default as in a file, min, max, LIVE or BOOT, help)
 * kinds: SIZE (bytes, uint64_t; "100GiB"), TIME (ms, uint64_t; "5s"), COUNT (uint64_t), BOOL, TEXT
 * (char[SETTING_TEXT_BYTES]), CHOICE text is checked by settings.c. A SIZE or COUNT default of "auto" is 0 until the
 * program decides. */
#define SETTINGS_TABLE(X)                                                                                              \
    X(lcores_cpus, "lcores.cpus", TEXT, "auto", 0, 0, BOOT,                                                            \
      "CPUs of the lcores, as \"1-15\" or \"auto\": all allowed but one, at least one")                                \
    X(lcores_idle, "lcores.idle", TEXT, "adaptive", 0, 0, BOOT, "what an idle lcore does: spin, yield or adaptive")    \
    X(memory_reserve, "memory.reserve", SIZE, "auto", 64 * MIB, 64 * 1024 * GIB, BOOT,                                 \
      "address range for data; auto: half of the memory available to this process")                                    \
    X(memory_limit, "memory.limit", SIZE, "auto", 32 * MIB, 64 * 1024 * GIB, LIVE,                                     \
      "cap on records, index, buffers and slack; auto: memory.reserve")                                                \
    X(memory_ahead, "memory.ahead", SIZE, "64MiB", 4 * MIB, 64 * GIB, BOOT, "populated pages kept ready for lcores")   \
    X(memory_huge, "memory.huge_pages", BOOL, "true", 0, 1, BOOT, "use huge pages when free, else transparent ones")   \
    X(store_keys, "store.keys_expected", COUNT, "1000000", 1024, 1000000000, BOOT, "sizes the index")                  \
    X(streams_address, "streams.address", TEXT, "127.0.0.1,[::1]", 0, 0, BOOT,                                         \
      "addresses that accept RESP and SBE, comma-separated; empty: none")                                              \
    X(streams_port, "streams.port", COUNT, "6379", 0, 65535, BOOT, "TCP port; 0: any free one, printed at start")      \
    X(streams_unix, "streams.unix", TEXT, "auto", 0, 0, BOOT,                                                          \
      "path of the Unix stream socket; auto: beside the management socket; empty: none")                               \
    X(limits_clients, "limits.clients", COUNT, "10000", 1, 1000000, BOOT, "sessions, all ports together")              \
    X(limits_idle, "limits.idle_timeout", TIME, "0s", 0, 31536000000, BOOT, "close idle sessions; 0s: never")          \
    X(limits_auth, "limits.auth_timeout", TIME, "10s", 100, 3600000, BOOT, "close sessions not authenticated by then") \
    X(limits_slow_bytes, "limits.slow_consumer_soft", SIZE, "8MiB", 64 * KIB, 32 * MIB, BOOT,                          \
      "pending output of a subscriber that may last limits.slow_consumer_time")                                        \
    X(limits_slow_time, "limits.slow_consumer_time", TIME, "60s", 100, 86400000, BOOT,                                 \
      "see limits.slow_consumer_soft")                                                                                 \
    X(auth_password, "auth.password", TEXT, "", 0, 0, BOOT,                                                            \
      "of user \"default\": text, or \"#\" and 64 hex digits of its SHA-256; empty: no AUTH")                          \
    X(protected_mode, "auth.protected_mode", BOOL, "true", 0, 1, BOOT,                                                 \
      "refuse to listen beyond loopback without a password")                                                           \
    X(management_socket, "management.socket", TEXT, "auto", 0, 0, BOOT, "path of the management socket")               \
    X(management_mode, "management.mode", TEXT, "0600", 0, 0, BOOT, "mode of the management socket, octal")            \
    X(drain_time, "shutdown.drain", TIME, "5s", 0, 600000, BOOT, "longest time SIGTERM waits for sessions")            \
    X(log_level, "log.level", TEXT, "info", 0, 0, LIVE, "debug, info, warning or error")                               \
    X(ready_format, "log.ready", TEXT, "text", 0, 0, BOOT, "the ready line: text or json")
