/* settings_table.h - every setting, declared once: the parser, --print-config, `sluicectl config`, CONFIG GET, man page
 * and the README expand from these rows. */
#pragma once
#include "config/limits.h"

/* X(field, "group.name", kind, default as in a file, min, max, LIVE or BOOT, help)
 * kinds: SIZE (bytes, uint64_t; "100GiB"), TIME (ms, uint64_t; "5s"), COUNT (uint64_t), BOOL, TEXT
 * (char[SETTING_TEXT_BYTES]; bounds are of its length, 0 0: what fits), CHOICE (TEXT that is one of SETTING_CHOICES). A
 * SIZE default of "auto" is 0 until settings_load() decides. Rows of one group stand together. */
#define SETTINGS_TABLE(X)                                                                                              \
    X(lcores_cpus, "lcores.cpus", TEXT, "auto", 0, 0, LIVE,                                                            \
      "CPUs of the lcores, as \"1-15\" or \"auto\": all allowed but one, at least one. Live: lcores move, their "      \
      "number "                                                                                                        \
      "stays")                                                                                                         \
    X(lcores_idle, "lcores.idle", CHOICE, "adaptive", 0, 0, LIVE, "what an idle lcore does: spin, yield or adaptive")  \
    X(lcores_burst, "lcores.burst", COUNT, "32", 1, LIMIT_BURST, LIVE,                                                 \
      "requests that an lcore decodes before the first executes: more are faster together, fewer answer sooner")       \
    X(lcores_histograms, "lcores.histograms", BOOL, "true", 0, 1, LIVE,                                                \
      "record how long requests take: 25 ns of each at most")                                                          \
    X(memory_reserve, "memory.reserve", SIZE, "auto", 64 * MIB, 64 * 1024 * GIB, BOOT,                                 \
      "address range for data; auto: half of the memory available to this process")                                    \
    X(memory_limit, "memory.limit", SIZE, "auto", 32 * MIB, 64 * 1024 * GIB, LIVE,                                     \
      "cap on records, index, buffers and slack; auto: memory.reserve")                                                \
    X(memory_policy, "memory.policy", CHOICE, "noeviction", 0, 0, LIVE,                                                \
      "which keys go when memory is short: Redis' maxmemory-policy")                                                   \
    X(memory_ahead, "memory.ahead", SIZE, "64MiB", 4 * MIB, 64 * GIB, BOOT, "populated pages kept ready for lcores")   \
    X(memory_huge, "memory.huge_pages", BOOL, "true", 0, 1, BOOT, "use huge pages when free, else transparent ones")   \
    X(store_keys, "store.keys_expected", COUNT, "1000000", 1024, 1000000000, BOOT, "sizes the index")                  \
    X(streams_address, "streams.address", TEXT, "127.0.0.1,[::1]", 0, 0, BOOT,                                         \
      "addresses that accept RESP and SBE, comma-separated; empty: none")                                              \
    X(streams_port, "streams.port", COUNT, "6379", 0, 65535, BOOT, "TCP port; 0: any free one, printed at start")      \
    X(streams_unix, "streams.unix", TEXT, "auto", 0, 0, BOOT,                                                          \
      "path of the Unix stream socket; auto: beside the management socket; empty: none")                               \
    X(streams_unix_mode, "streams.unix_mode", TEXT, "0660", 0, 0, BOOT, "mode of the Unix stream socket, octal")       \
    X(fabric_credit, "fabric.credit", COUNT, "auto", 1, 64, LIVE,                                                      \
      "frames that a session's peer may have in flight, at most its share of the receive slots; auto: that share")     \
    X(limits_clients, "limits.clients", COUNT, "10000", 1, 1000000, LIVE, "sessions, all ports together")              \
    X(limits_idle, "limits.idle_timeout", TIME, "0s", 0, 31536000000, LIVE, "close idle sessions; 0s: never")          \
    X(limits_auth, "limits.auth_timeout", TIME, "10s", 100, 3600000, LIVE, "close sessions not authenticated by then") \
    X(limits_slow_bytes, "limits.slow_consumer_soft", SIZE, "8MiB", 64 * KIB, 32 * MIB, LIVE,                          \
      "pending output of a subscriber that may last limits.slow_consumer_time")                                        \
    X(limits_slow_time, "limits.slow_consumer_time", TIME, "60s", 100, 86400000, LIVE,                                 \
      "longest time that a subscriber may stay above limits.slow_consumer_soft")                                       \
    X(auth_password, "auth.password", TEXT, "", 0, 0, BOOT,                                                            \
      "of user \"default\": text, or \"#\" and 64 hex digits of its SHA-256; empty: no AUTH")                          \
    X(protected_mode, "auth.protected_mode", BOOL, "true", 0, 1, BOOT,                                                 \
      "refuse to listen beyond loopback without a password")                                                           \
    X(management_socket, "management.socket", TEXT, "auto", 0, 0, BOOT,                                                \
      "path of the management socket; auto: /run/sluice/ctl.sock as root, else in $XDG_RUNTIME_DIR/sluice or "         \
      "/tmp/sluice-UID")                                                                                               \
    X(management_mode, "management.mode", TEXT, "0600", 0, 0, BOOT, "mode of the management socket, octal")            \
    X(management_group, "management.group", TEXT, "", 0, 0, BOOT,                                                      \
      "group that owns the management socket; empty: the program's own")                                               \
    X(sandbox_mode, "sandbox.mode", CHOICE, "on", 0, 0, BOOT,                                                          \
      "what threads give up after the start: on: all that this kernel can take; required: the same, but no start "     \
      "without seccomp and Landlock; off: nothing")                                                                    \
    X(sandbox_captures, "sandbox.captures", TEXT, "auto", 0, 0, BOOT,                                                  \
      "directory below which captures of packets may be made; auto: that of the management socket")                    \
    X(metrics_address, "metrics.address", TEXT, "127.0.0.1", 0, 0, BOOT,                                               \
      "address of the HTTP port for metrics; it asks for no password")                                                 \
    X(metrics_port, "metrics.port", COUNT, "0", 0, 65535, BOOT,                                                        \
      "HTTP port of /metrics, /healthz and /readyz; 0: none; 9121 is what scrapers of Redis expect")                   \
    X(drain_time, "shutdown.drain", TIME, "5s", 0, 600000, LIVE, "longest time SIGTERM waits for sessions")            \
    X(slowlog_threshold_us, "slowlog.threshold_us", COUNT, "10000", 0, 3600000000, LIVE,                               \
      "a request that takes so many microseconds, waiting included, goes to the slow log; 0: none does")               \
    X(log_level, "log.level", CHOICE, "info", 0, 0, LIVE, "least severe record that is logged")                        \
    X(ready_format, "log.ready", CHOICE, "text", 0, 0, BOOT, "form of the line that says the appliance is ready")

/* X(field, its words) */
#define SETTING_CHOICES(X)                                                                                             \
    X(lcores_idle, "spin", "yield", "adaptive")                                                                        \
    X(memory_policy, "noeviction", "allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu",     \
      "volatile-random", "volatile-ttl")                                                                               \
    X(sandbox_mode, "on", "required", "off")                                                                           \
    X(log_level, "debug", "info", "warning", "error")                                                                  \
    X(ready_format, "text", "json")

/* Entries of the list `ports`: X(field of struct port_settings, "name", kind, default, min, max, help). A default of ""
 * must be given; sizes and counts of "auto" are 0: the port decides. Rows of one kind of port stand together. */
#define PORT_SETTINGS_TABLE(X) ANY_PORT_SETTINGS(X) FABRIC_PORT_SETTINGS(X) ETHERNET_PORT_SETTINGS(X)

#define ANY_PORT_SETTINGS(X)                                                                                           \
    X(type, "type", CHOICE, "", 0, 0, "kind of port: fabric or ethernet")                                              \
    X(name, "name", TEXT, "auto", 0, 31, "unique name for people; auto: the provider, or ethernet")                    \
    X(sessions, "sessions", COUNT, "auto", 1, LIMIT_SESSIONS_PER_LCORE,                                                \
      "sessions of each lcore; on a fabric each has its share of the receive slots")

#define FABRIC_PORT_SETTINGS(X)                                                                                        \
    X(provider, "provider", CHOICE, "", 0, 0, "libfabric provider, exactly this one")                                  \
    X(node, "node", TEXT, "auto", 0, 63, "local address to bind; auto: the provider's choice")                         \
    X(domain, "domain", TEXT, "auto", 0, 63, "device; auto: the first")                                                \
    X(send, "send", CHOICE, "auto", 0, 0, "auto: inject what fits, else send; inject; send")                           \
    X(rx_slots, "rx_slots", COUNT, "auto", 16, 65536, "receive slots of each lcore")                                   \
    X(tx_slots, "tx_slots", COUNT, "auto", 16, 65536, "send slots of each lcore")                                      \
    X(frame_bytes, "frame", SIZE, "auto", 256, LIMIT_FRAME_BYTES,                                                      \
      "largest frame; auto: 4KiB on shm, else the provider's best")                                                    \
    X(lease_ms, "lease", TIME, "10s", 100, 3600000, "a peer that is silent for so long is detached")

#define ETHERNET_PORT_SETTINGS(X)                                                                                      \
    X(device, "device", TEXT, "", 1, 200,                                                                              \
      "PCI address, as \"0000:00:06.0\", or a virtual device of DPDK, as \"net_af_packet0,iface=veth1\"")              \
    X(address, "address", TEXT, "", 1, 31, "IPv4 address of the port and bits of its subnet, as \"10.0.0.2/24\"")      \
    X(gateway, "gateway", TEXT, "none", 1, 15, "IPv4 address of the gateway; none: only the subnet is reached")        \
    X(mac, "mac", TEXT, "auto", 1, 17, "MAC address, as \"02:00:00:00:00:01\"; auto: the device's own")                \
    X(mtu, "mtu", COUNT, "1500", 576, 9001, "bytes of the largest packet")                                             \
    X(listen, "listen", TEXT, "auto", 1, 63, "TCP ports, comma-separated; auto: streams.port, or 6379 when that is 0") \
    X(rx_descriptors, "rx_descriptors", COUNT, "1024", 64, 8192, "packets that the device may have received")          \
    X(tx_descriptors, "tx_descriptors", COUNT, "1024", 64, 8192, "packets that may wait to be sent")                   \
    X(lcore, "lcore", COUNT, "0", 0, LIMIT_LCORES - 1, "index of the lcore that polls the port and runs its sessions") \
    X(eal, "eal", TEXT, "auto", 1, 200,                                                                                \
      "more arguments of DPDK's EAL, each instead of the derived one of its name; auto: none")

#define PORT_SETTING_CHOICES(X)                                                                                        \
    X(type, "fabric", "ethernet")                                                                                      \
    X(provider, "shm", "net", "tcp", "tcp;ofi_rxm", "verbs;ofi_rxm", "udp;ofi_rxd", "sockets", "efa", "efa-direct")    \
    X(send, "auto", "inject", "send")

/* Entries of the list `users`. */
#define USER_SETTINGS_TABLE(X)                                                                                         \
    X(name, "name", TEXT, "", 1, 64, "user name, without blanks")                                                      \
    X(password, "password", TEXT, "", 1, 255, "text, or \"#\" and 64 hex digits of its SHA-256")
