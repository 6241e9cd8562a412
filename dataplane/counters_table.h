/* counters_table.h - every counter of an lcore, declared once: name, unit, help for operators. */
#pragma once

/* X(id, "name", "unit", "help") */
#define COUNTER_TABLE(X)                                                                                               \
    X(turns, "turns", "turns", "turns of the lcore's loop")                                                            \
    X(busy_turns, "busy_turns", "turns", "turns that found work")                                                      \
    X(busy_cycles, "busy_cycles", "cycles", "cycles spent in turns that found work")                                   \
    X(sleeps, "sleeps", "sleeps", "times the idle policy slept")                                                       \
    X(requests, "requests", "requests", "requests executed")                                                           \
    X(replies_error, "replies_error", "replies", "error replies")                                                      \
    X(requests_unknown, "requests_unknown", "requests", "requests with an unknown command")                            \
    X(requests_malformed, "requests_malformed", "requests", "malformed requests; RESP ones close their session")       \
    X(requests_denied, "requests_denied", "requests", "requests refused before AUTH")                                  \
    X(requests_retried, "requests_retried", "requests", "requests parked for a turn and tried again")                  \
    X(requests_later, "requests_later", "requests", "requests answered by mail")                                       \
    X(rx_bytes, "rx_bytes", "bytes", "request bytes received")                                                         \
    X(tx_bytes, "tx_bytes", "bytes", "reply bytes sent")                                                               \
    X(sessions_opened, "sessions_opened", "sessions", "sessions opened")                                               \
    X(sessions_closed, "sessions_closed", "sessions", "sessions closed, for whatever reason")                          \
    X(sessions_refused, "sessions_refused", "sessions", "connections refused: limits.clients or no memory")            \
    X(closed_output_limit, "closed_output_limit", "sessions", "sessions closed above the hard output limit")           \
    X(closed_slow_consumer, "closed_slow_consumer", "sessions", "subscribers closed because they did not read")        \
    X(closed_no_memory, "closed_no_memory", "sessions", "sessions closed: no memory for their bytes for a while")      \
    X(closed_hindering, "closed_hindering", "sessions",                                                                \
      "sessions closed: they stood still with buffers that others waited for while memory was full")                   \
    X(closed_timeout, "closed_timeout", "sessions", "sessions closed idle or unauthenticated for too long")            \
    X(auth_failures, "auth_failures", "attempts", "AUTH with a wrong user or password")                                \
    X(published, "published", "messages", "PUBLISH commands")                                                          \
    X(push_delivered, "push_delivered", "messages", "messages delivered to subscribers")                               \
    X(mail_sent, "mail_sent", "messages", "mail posted to other threads")                                              \
    X(mail_full, "mail_full", "messages", "mail that had to wait: the ring was full")                                  \
    X(memory_misses, "memory_misses", "requests", "requests or buffers that found no memory at hand")                  \
    X(fabric_frames_rx, "fabric_frames_rx", "frames", "fabric frames received")                                        \
    X(fabric_frames_tx, "fabric_frames_tx", "frames", "fabric frames sent")                                            \
    X(fabric_frames_stale, "fabric_frames_stale", "frames", "frames of a fenced incarnation or unknown session")       \
    X(fabric_frames_behind, "fabric_frames_behind", "frames", "frames wholly behind the stream: repeats")              \
    X(fabric_frames_ahead, "fabric_frames_ahead", "frames", "frames that waited for the one before")                   \
    X(fabric_frames_bad, "fabric_frames_bad", "frames", "frames with a bad envelope, length or credit")                \
    X(fabric_eagain, "fabric_eagain", "calls", "sends the provider told to try again")                                 \
    X(fabric_send_errors, "fabric_send_errors", "completions", "sends that completed in error")                        \
    X(fabric_attaches, "fabric_attaches", "sessions", "fabric sessions attached")                                      \
    X(fabric_resumes, "fabric_resumes", "sessions", "fabric sessions resumed after a loss")                            \
    X(fabric_lost, "fabric_lost", "sessions", "fabric sessions ended by lease, error or overdue sends")                \
    X(fabric_av_inserts, "fabric_av_inserts", "calls", "addresses inserted: at most one a turn")                       \
    X(injects, "injects", "calls", "frames sent by inject")                                                            \
    X(socket_reads, "socket_reads", "calls", "recv calls")                                                             \
    X(socket_writes, "socket_writes", "calls", "send calls")                                                           \
    X(ethernet_rx_packets, "ethernet_rx_packets", "packets", "packets received by the ethernet port")                  \
    X(ethernet_tx_packets, "ethernet_tx_packets", "packets", "packets sent by the ethernet port")                      \
    X(ethernet_rx_bytes, "ethernet_rx_bytes", "bytes", "bytes of packets received")                                    \
    X(ethernet_tx_bytes, "ethernet_tx_bytes", "bytes", "bytes of packets sent")                                        \
    X(ethernet_tx_dropped, "ethernet_tx_dropped", "packets",                                                           \
      "packets that found no room to be sent; TCP sends them again")                                                   \
    X(ethernet_checksum_errors, "ethernet_checksum_errors", "packets", "packets dropped for a wrong checksum")         \
    X(ethernet_malformed, "ethernet_malformed", "packets", "packets dropped: a header or fragment that is not served") \
    X(ethernet_retransmits, "ethernet_retransmits", "segments", "TCP segments sent again")                             \
    X(ethernet_resets_sent, "ethernet_resets_sent", "segments", "TCP resets sent")                                     \
    X(ethernet_half_open_evicted, "ethernet_half_open_evicted", "connections",                                         \
      "half-open connections that made room for others")                                                               \
    X(ethernet_leaving_evicted, "ethernet_leaving_evicted", "connections",                                             \
      "closed connections that made room for others")                                                                  \
    X(ethernet_refused_bytes, "ethernet_refused_bytes", "bytes",                                                       \
      "bytes a session could not hold; its peer sends them again")                                                     \
    X(ethernet_capture_dropped, "ethernet_capture_dropped", "packets", "copies of packets that a capture lost")        \
    X(ethernet_rx_missed, "ethernet_rx_missed", "packets", "packets that the device dropped: not polled in time")      \
    X(ethernet_rx_errors, "ethernet_rx_errors", "packets", "packets that the device found broken")                     \
    X(ethernet_rx_no_frame, "ethernet_rx_no_frame", "packets", "packets for which no frame was free")                  \
    X(ethernet_tx_errors, "ethernet_tx_errors", "packets", "packets that the device could not send")                   \
    X(ethernet_device_resets, "ethernet_device_resets", "resets", "resets of a faulty device")                         \
    X(ethernet_link_changes, "ethernet_link_changes", "changes", "times the link went up or down")

/* What is now, as of the last tick: the same columns. */
#define GAUGE_TABLE(X)                                                                                                 \
    X(ethernet_connections, "ethernet_connections", "connections",                                                     \
      "TCP connections of the ethernet port, half-open and leaving too")                                               \
    X(ethernet_frames_held, "ethernet_frames_held", "frames",                                                          \
      "received packets that wait for their session or for the ones before")                                           \
    X(ethernet_segments, "ethernet_segments", "segments", "TCP segments sent and not acknowledged")
