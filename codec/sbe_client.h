/* sbe_client.h - the client's side of the SBE wire: requests are written, replies and pushes are read. */
#pragma once
#include "codec/command.h"
#include "codec/sbe.h"
#include "codec/sluice_sbe.h"

/* Arguments of one request on this wire, the name excluded: numInGroup is a uint16 whose last value means "none". */
#define SBE_REQUEST_ARGS_MAX 65534

/* Room that sbe_request_write() needs; 0: this request cannot be sent (no name, too many words, above 4 GiB). */
size_t sbe_request_room(const struct slice *words, uint32_t count);

/* Write one request frame, its length word included. words[0] is the command's name.
 *
 * A command with a template of its own is sent on it whenever that says exactly what the words say; else, and for every
 * other command, the words travel as they are on template 1, so that the server answers what it answers on RESP.
 * out      has sbe_request_room() bytes.
 * Returns  the byte after. Threads: pure. Cost: one pass over the words. */
uint8_t *sbe_request_write(uint8_t *out, uint64_t correlation, const struct slice *words, uint32_t count);

/* One value of a reply; aggregates are followed by what they announce. */
struct sbe_value {
    enum sbe_value_kind kind;
    uint32_t count;     /* aggregates: values that follow, a MAP's pairs counted as two */
    struct slice bytes; /* STATUS, ERROR (with its code word), BULK: borrows from the wire, or static text */
    union {
        int64_t integer; /* INTEGER, BOOLEAN */
        double real;     /* DOUBLE */
    };
};

/* A reply or push under iteration. */
struct sbe_reply {
    uint64_t correlation;
    size_t wire_bytes;
    uint32_t values_count; /* of the whole reply, 1 for a scalar */
    bool push;             /* not an answer to a request */
    uint16_t version;      /* the server's schema version */
    const char *error;     /* CODEC_MALFORMED: what is wrong */
    /* the iterator's own */
    struct sbe_view view;
    struct sbe_group group; /* ValuesReply and Push: entries not yet given */
    bool scalar_left;       /* the other templates: the one value is not yet given */
};

/* Read the first frame of `wire`.
 *
 * reply_bytes_max  a longer frame is CODEC_MALFORMED.
 * Returns  CODEC_OK; CODEC_SHORT with reply->wire_bytes = what the whole frame needs, 0 while unknown;
 *          CODEC_MALFORMED with reply->error: the stream cannot go on. A tree whose aggregates announce more or fewer
 *          values than follow is malformed, so the caller needs no check of its own.
 * Lifetime what it and sbe_reply_next() give borrows from `wire`. Threads: pure. Cost: one pass. */
enum codec_status sbe_reply_open(struct slice wire, size_t reply_bytes_max, struct sbe_reply *reply);

/* The next value, depth first. False: there is none. Cost: O(1). */
bool sbe_reply_next(struct sbe_reply *reply, struct sbe_value *value);
