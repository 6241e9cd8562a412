/* ctl_wire.h - the management socket's language, for both ends.
 *
 * A line that begins with '{' is a JSON request and gets one JSON reply on one line:
 *     {"version":1,"command":"latency","args":{"command":"get"},"id":7}
 *     {"version":1,"id":7,"ok":true,"result":{...}}
 *     {"version":1,"id":7,"ok":false,"error":"..."}
 * "args" and "id" may be left out; "id" (text or an integer) comes back as it was. Any other line is a command for
 * people: its name, then name=value arguments; the answer is text that ends in an empty line. Requests may follow each
 * other without waiting; answers come in their order. Limits: LIMIT_CTL_* in config/limits.h.
 *
 * Everyone whom the socket's mode lets in may READ; CHANGE takes root or the uid that the appliance runs as. */
#pragma once

#define CTL_VERSION 1

/* latency: what is counted. X(id, "kind", unit, help); the first is counted for each command, as is the second; those
 * from PORT_BURST on for each port. */
#define CTL_LATENCY_KINDS(X)                                                                                           \
    X(SERVICE, "service", "ns", "a request, decoded to encoded")                                                       \
    X(RESIDENCE, "residence", "ns", "a request, polled to flushed")                                                    \
    X(LOOP, "loop", "ns", "a turn that found work")                                                                    \
    X(BURST, "burst", "requests", "requests of one burst")                                                             \
    X(BUSY, "busy", "percent", "an lcore's share of a second that was busy")                                           \
    X(PORT_BURST, "port-burst", "events", "events of one poll of a port")                                              \
    X(PORT_DEPTH, "port-depth", "sessions", "sessions that a flush of a port left with output")                        \
    X(PORT_STALLED, "port-stalled", "flushes", "flushes of a port in a row that left some")
#define CTL_LATENCY_WORD(id, kind, unit, help) " " kind
#define CTL_LATENCY_WORDS                      CTL_LATENCY_KINDS(CTL_LATENCY_WORD)

/* X(id, "name", READ or CHANGE, "arguments", handler, help) */
#define CTL_COMMANDS(X)                                                                                                \
    X(HELP, "help", READ, "", ctl_help, "lists these commands")                                                        \
    X(STATUS, "status", READ, "", ctl_status, "stream addresses, state, memory and load at a glance")                  \
    X(READY, "ready", READ, "", ctl_ready, "whether requests are served: every lcore turns and none is draining")      \
    X(ALIVE, "alive", READ, "", ctl_alive, "whether the management core answers")                                      \
    X(STATS, "stats", READ, "", ctl_stats, "every counter, in total and per lcore, with unit and meaning")             \
    X(LATENCY, "latency", READ, "command kind lcore buckets", ctl_latency,                                             \
      "latency histograms, of all commands or one; kind is one of:" CTL_LATENCY_WORDS)                                 \
    X(LCORES, "lcores", READ, "", ctl_lcores, "CPU, thread, node, turns and busy share of every lcore; the helpers")   \
    X(PORTS, "ports", READ, "", ctl_ports, "ports of every lcore")                                                     \
    X(CAPTURE, "capture", READ, "", ctl_capture, "the capture that runs, or the last one")                             \
    X(CAPTURE_START, "capture start", CHANGE, "port file seconds packets snap", ctl_capture_start,                     \
      "copies the packets of an ethernet port into a new pcap file")                                                   \
    X(CAPTURE_STOP, "capture stop", CHANGE, "", ctl_capture_stop, "ends the capture")                                  \
    X(SESSIONS, "sessions", READ, "limit", ctl_sessions, "who is connected")                                           \
    X(SESSIONS_KILL, "sessions kill", CHANGE, "id", ctl_sessions_kill, "ends a session")                               \
    X(SLOWLOG, "slowlog", READ, "limit", ctl_slowlog, "requests that took long, with how long they had waited")        \
    X(KEYS_HOT, "keys hot", READ, "seconds limit", ctl_keys_hot, "the keys that are asked for most, counted now")      \
    X(KEYS_BIG, "keys big", READ, "limit", ctl_keys_big, "the largest keys of each type, by a walk over all")          \
    X(LOG, "log", READ, "limit", ctl_log, "the last records of the log")                                               \
    X(MEMORY, "memory", READ, "", ctl_memory, "where memory went")                                                     \
    X(CONFIG_SHOW, "config show", READ, "", ctl_config_show, "every setting, its value and where it comes from")       \
    X(CONFIG_SET, "config set", CHANGE, "name value save", ctl_config_set,                                             \
      "changes a live setting until the next start, or in the file too with save=true")                                \
    X(CONFIG_RELOAD, "config reload", CHANGE, "", ctl_config_reload, "reads the settings file again")                  \
    X(DOCTOR, "doctor", READ, "", ctl_doctor, "what of this host keeps the appliance from its best, with remedies")    \
    X(METRICS, "metrics", READ, "", ctl_metrics, "every number as an OpenMetrics page")                                \
    X(VERSION, "version", READ, "", ctl_version, "the appliance's version")                                            \
    X(DRAIN, "drain", CHANGE, "", ctl_drain, "takes no new sessions and turns not ready; those that are there go on")  \
    X(SHUTDOWN, "shutdown", CHANGE, "", ctl_shutdown, "drains and ends the appliance, as SIGTERM does")

/* latency: buckets of the histograms, as HdrHistogram counts them. */
#define CTL_HISTOGRAM_POWERS      37
#define CTL_HISTOGRAM_SUB_BUCKETS 32

/* sessions: rows without `limit`, and at most. */
#define CTL_SESSIONS_DEFAULT 1000
#define CTL_SESSIONS_MOST    5000
