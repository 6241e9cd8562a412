/* slowlog.h - requests that took long, with how long they had waited before: a ring of each lcore's last ones.
 *
 * A slow request makes those behind it wait, and those are in the log too: a log of execution times alone is empty
 * while clients wait. One writer, the lcore; any reader. */
#pragma once
#include "config/base.h"
#include "config/sync.h"

#define SLOWLOG_KEPT       128 /* a power of two */
#define SLOWLOG_TEXT_BYTES 192
#define SLOWLOG_ARGS       8 /* of a request that are kept, each cut to: */
#define SLOWLOG_ARG_BYTES  64

struct lcore;
struct request;
struct session;

struct slow_record {
    uint64_t number;     /* of the lcore, from 1 */
    int64_t unix_ms;     /* when it ended */
    uint64_t queue_ns;   /* from polled until it began */
    uint64_t service_ns; /* until its reply was encoded; of all neighbours together */
    uint64_t session_id;
    uint32_t neighbours; /* requests of one command in a row that share these times; this is the last of them */
    uint16_t command;    /* enum command_id */
    uint16_t args_count; /* given; more than are in `text` when it was cut */
    uint16_t text_bytes, padding[3];
    uint8_t text[SLOWLOG_TEXT_BYTES]; /* arguments: each a length byte and that many bytes */
};
#define SLOWLOG_WORDS (sizeof(struct slow_record) / 8)
static_assert(sizeof(struct slow_record) % 8 == 0, "it is copied by words");

struct slowlog {
    _Alignas(CACHE_LINE) _Atomic uint64_t count; /* records ever written */
    struct slowlog_slot {
        _Atomic uint64_t sequence; /* odd while it is written */
        _Atomic uint64_t words[SLOWLOG_WORDS];
    } slots[SLOWLOG_KEPT];
};

/* Owner only. `request` is the last of `neighbours`, its arguments still there. Cost: some 100 ns. */
void slowlog_write(struct lcore *lcore, const struct session *session, const struct request *request,
                   uint32_t neighbours, uint64_t queue_cycles, uint64_t service_cycles);

/* Record `number`. False: it was never written, is overwritten by now, or is being written. Any thread. */
bool slowlog_read(const struct slowlog *log, uint64_t number, struct slow_record *out);
