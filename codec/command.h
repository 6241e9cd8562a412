/* command.h - a decoded request: which command, which arguments; the same for every wire. */
#pragma once
#include "codec/command_table.h"
#include "config/base.h"

enum codec_status {
    CODEC_OK,
    CODEC_SHORT,     /* the bytes end before the request does: come back with more */
    CODEC_MALFORMED, /* the stream cannot go on: answer the error, then close */
    CODEC_REJECTED,  /* this one request is bad (SBE: a well-framed message that does not validate): answer, go on */
};

/* An argument as its wire carries it: RESP sends text, typed SBE templates send native numbers. */
enum arg_kind { ARG_BYTES, ARG_INT, ARG_DOUBLE };

struct arg {
    union {
        struct slice bytes; /* borrows from the receive buffer */
        int64_t integer;
        double real;
    };
    enum arg_kind kind;
};

struct command {
    enum command_id id;
    const char *name; /* lower case */
    uint16_t sbe_template;
    uint32_t args_min, args_max; /* the name excluded */
    uint32_t flags;              /* enum command_flag */
    int32_t first_key, last_key, key_step;
    const char *group, *summary;
};

extern const struct command command_table[COMMAND_COUNT];

struct request {
    const struct command *command; /* NULL: unknown, `name` says what was asked */
    struct slice name;             /* as sent; empty for typed SBE templates */
    struct arg *args;
    uint32_t args_count;
    uint64_t correlation; /* SBE root block; 0 on RESP */
    size_t wire_bytes;    /* what the request occupied on the wire */
    const char *error;    /* CODEC_MALFORMED, CODEC_REJECTED: the answer, static text without a leading '-' */
};

/* A decoded request that asks for nothing (RESP: a blank line, "*0", "*-1"): take its bytes, answer nothing.
 * An empty name ("*1 $0") is not that: it has data, and is answered as an unknown command. */
static inline bool
request_is_empty(const struct request *request)
{
    return request->command == NULL && request->name.data == NULL;
}

/* Where a decoder puts arguments: the burst's array. On CODEC_OK `used` has grown by args_count. */
struct arg_room {
    struct arg *args;
    uint32_t used, count;
};

/* Limits of one session at this moment: small before AUTH. */
struct decode_limits {
    uint32_t args_max;    /* arguments, the name excluded */
    size_t arg_bytes_max; /* one argument */
    size_t request_bytes_max;
};

/* Look a command up by name, case ignored. NULL: unknown. Cost: one hash, one comparison. Threads: pure. */
const struct command *command_find(struct slice name);

/* The error is built by the caller, because it carries the name. */
static inline bool
command_arity_fits(const struct command *command, uint32_t args_count)
{
    return args_count >= command->args_min && args_count <= command->args_max;
}

/* The i-th argument as an integer: Redis' string2ll rules for bytes (no spaces, no plus, no leading zeros). */
bool arg_int64(const struct arg *arg, int64_t *out);

/* As a double: Redis' getDoubleFromObject rules for bytes (inf, +inf, -inf in any case; not nan; no spaces; hex as
 * strtod). */
bool arg_double(const struct arg *arg, double *out);

/* Longest text that arg_bytes() may build for a number. */
#define ARG_TEXT_BYTES 40

/* As bytes: borrowed when it came as bytes; a number is printed into `scratch` (at least ARG_TEXT_BYTES) as Redis
 * would. */
struct slice arg_bytes(const struct arg *arg, char scratch[ARG_TEXT_BYTES]);
