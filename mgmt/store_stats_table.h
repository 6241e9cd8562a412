/* store_stats_table.h - what the store counts of itself, declared once for `sluicectl stats` and the metrics. */
#pragma once

/* X(field of struct store_stats, COUNTER or GAUGE, "name", "unit", "help") */
#define STORE_STATS_TABLE(X)                                                                                           \
    X(keys, GAUGE, "keys", "keys", "keys that exist")                                                                  \
    X(keys_with_expiry, GAUGE, "keys_with_expiry", "keys", "keys with a time to live")                                 \
    X(record_bytes, GAUGE, "record_bytes", "bytes", "live records")                                                    \
    X(ghost_bytes, GAUGE, "ghost_bytes", "bytes", "what is left of keys removed lately")                               \
    X(index_bytes, GAUGE, "index_bytes", "bytes", "the index")                                                         \
    X(limbo_bytes, GAUGE, "limbo_bytes", "bytes", "unlinked, until every lcore has turned")                            \
    X(ghosts, GAUGE, "ghosts", "entries", "removed keys that still hold their slot")                                   \
    X(expired_keys, COUNTER, "expired_keys", "keys", "keys removed because their time had come")                       \
    X(evicted_keys, COUNTER, "evicted_keys", "keys", "keys removed to make room")                                      \
    X(moved_records, COUNTER, "moved_records", "records", "records moved out of sparse pages")                         \
    X(hits, COUNTER, "hits", "look-ups", "look-ups that found their key")                                              \
    X(misses, COUNTER, "misses", "look-ups", "look-ups that did not")                                                  \
    X(flushes, COUNTER, "flushes", "commands", "FLUSHALL and FLUSHDB")                                                 \
    X(update_retries, COUNTER, "update_retries", "attempts", "writes that lost a race and ran again")                  \
    X(try_laters, COUNTER, "try_laters", "attempts", "writes put off for a turn")                                      \
    X(oom_refusals, COUNTER, "oom_refusals", "attempts", "writes refused at memory.limit")                             \
    X(chain_buckets_max, GAUGE, "chain_buckets_max", "buckets", "longest chain of the index that was met")
