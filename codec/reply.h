/* reply.h - what a handler says; RESP2, RESP3 and SBE each have an implementation. Handlers never see a wire.
 *
 * A reply is one value: nil, status, error, integer, double, bulk, bool, array, map, set; aggregates announce their
 * element count and are followed by exactly that many values (a map: pairs). A push is a message outside request order.
 * Threads: one lcore, the session's. Cost: no allocation but the sink's chunks. */
#pragma once
#include "codec/command.h"
#include "codec/sink.h"

enum wire { WIRE_UNKNOWN, WIRE_RESP2, WIRE_RESP3, WIRE_SBE };

struct reply;

struct reply_ops {
    void (*end)(struct reply *reply);                       /* after the last value, only while `patch` is set */
    void (*nil)(struct reply *reply);                       /* RESP2 $-1, RESP3 _ */
    void (*nil_array)(struct reply *reply);                 /* RESP2 *-1, RESP3 _ */
    void (*ok)(struct reply *reply);                        /* status OK */
    void (*status)(struct reply *reply, struct slice text); /* +PONG */
    void (*error)(struct reply *reply, struct slice text);  /* text begins with its code: "ERR ...", "WRONGTYPE ..." */
    void (*integer)(struct reply *reply, int64_t value);
    void (*real)(struct reply *reply, double value);  /* RESP2: bulk text */
    void (*boolean)(struct reply *reply, bool value); /* RESP2: integer */
    void (*bulk)(struct reply *reply, struct slice bytes);
    void (*verbatim)(struct reply *reply, struct slice text); /* RESP3 =txt:, else bulk */
    void (*array)(struct reply *reply, uint32_t count);
    void (*map)(struct reply *reply, uint32_t pairs);  /* RESP2: array of 2*pairs */
    void (*set)(struct reply *reply, uint32_t count);  /* RESP2: array */
    void (*push)(struct reply *reply, uint32_t count); /* RESP3 >; RESP2: array */
};

struct reply {
    const struct reply_ops *ops;
    struct sink *sink;
    enum wire wire;
    uint64_t start;       /* sink offset at begin: the mark of this answer */
    uint64_t correlation; /* echoed by SBE */
    uint8_t *patch;       /* SBE: header bytes to complete at end */
    uint32_t values;      /* SBE: values written, counts the flat group */
    bool is_error;        /* an error value was written at top level: for the error counter */
};

extern const struct reply_ops reply_resp2, reply_resp3, reply_sbe;

/* Bind to a sink and a wire. */
void reply_init(struct reply *reply, enum wire wire, struct sink *sink);

/* The answer so far is dropped, as if begin had just been called: a retried command leaves no half reply. */
void reply_restart(struct reply *reply);

static inline void
reply_begin(struct reply *r, uint64_t correlation)
{
    r->start = sink_offset(r->sink);
    r->correlation = correlation;
    r->patch = NULL;
    r->values = 0;
    r->is_error = false;
}
static inline void
reply_end(struct reply *r)
{
    if (UNLIKELY(r->patch != NULL)) {
        r->ops->end(r);
    }
}
static inline void
reply_nil(struct reply *r)
{
    r->ops->nil(r);
}
static inline void
reply_nil_array(struct reply *r)
{
    r->ops->nil_array(r);
}
static inline void
reply_integer(struct reply *r, int64_t value)
{
    r->ops->integer(r, value);
}
static inline void
reply_double(struct reply *r, double value)
{
    r->ops->real(r, value);
}
static inline void
reply_bool(struct reply *r, bool value)
{
    r->ops->boolean(r, value);
}
static inline void
reply_bulk(struct reply *r, struct slice bytes)
{
    r->ops->bulk(r, bytes);
}
static inline void
reply_bulk_text(struct reply *r, const char *text)
{
    r->ops->bulk(r, slice_text(text));
}
static inline void
reply_verbatim(struct reply *r, struct slice text)
{
    r->ops->verbatim(r, text);
}
static inline void
reply_array(struct reply *r, uint32_t count)
{
    r->ops->array(r, count);
}
static inline void
reply_map(struct reply *r, uint32_t pairs)
{
    r->ops->map(r, pairs);
}
static inline void
reply_set(struct reply *r, uint32_t count)
{
    r->ops->set(r, count);
}
static inline void
reply_status(struct reply *r, const char *text)
{
    r->ops->status(r, slice_text(text));
}
static inline void
reply_ok(struct reply *r)
{
    r->ops->ok(r);
}

/* A push: begun like an answer to nobody, then `count` values, then end. */
static inline void
reply_begin_push(struct reply *r, uint32_t count)
{
    reply_begin(r, 0);
    r->ops->push(r, count);
}

/* `text` begins with its code. */
static inline void
reply_error(struct reply *r, const char *text)
{
    r->is_error = true;
    r->ops->error(r, slice_text(text));
}

/* printf-like without stdio: pieces are joined, cut at 256 bytes, CR and LF become spaces. */
void reply_error_join(struct reply *r, const struct slice *pieces, uint32_t count);

/* The errors that more than one command answers. */
#define ERROR_WRONGTYPE   "WRONGTYPE Operation against a key holding the wrong kind of value"
#define ERROR_NOT_INTEGER "ERR value is not an integer or out of range"
#define ERROR_NOT_FLOAT   "ERR value is not a valid float"
#define ERROR_SYNTAX      "ERR syntax error"
#define ERROR_OOM         "OOM command not allowed when used memory > 'maxmemory'."
#define ERROR_NOAUTH      "NOAUTH Authentication required."
#define ERROR_BUSY        "BUSY this command found no turn in time, try again"
#define ERROR_TOO_LONG    "ERR the reply is larger than 4194304 bytes"
#define ERROR_PATTERN     "ERR pattern exceeds 256 bytes"
static_assert(LIMIT_PATTERN_BYTES == 256, "ERROR_PATTERN says so");
static_assert(LIMIT_REPLY_BYTES == 4194304, "ERROR_TOO_LONG says so");
