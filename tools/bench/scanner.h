/* scanner.h - counts replies and checks their types as fast as they can be counted. */
#pragma once
#include "tools/client/client.h"

/* What answers a request of the load. */
enum expected_kind {
    EXPECT_ANY,     /* anything but an error */
    EXPECT_OK,      /* status OK */
    EXPECT_PONG,    /* status PONG */
    EXPECT_INTEGER, /* any */
    EXPECT_VALUE,   /* a bulk string of value_bytes; nil is a miss */
    EXPECT_BULK,    /* a bulk string of any length; nil is a miss */
    EXPECT_DOUBLE,  /* a score: bulk text on RESP2; nil is a miss */
};

#define SCANNER_SCHEDULE_MAX 128

struct scanner {
    enum client_wire wire;
    uint32_t value_bytes;
    /* the kinds of the replies to come repeat with this period */
    enum expected_kind schedule[SCANNER_SCHEDULE_MAX];
    uint32_t schedule_count, position;
    /* of EXPECT_OK, EXPECT_PONG and EXPECT_VALUE on RESP: the whole reply's bytes, and how many of them are fixed */
    struct scanner_shape {
        char prefix[24];
        uint32_t prefix_bytes, bytes;
        uint64_t word, mask; /* the prefix in a word, and its bits; mask 0: it is longer, or there is none */
    } shapes[EXPECT_DOUBLE + 1];

    uint64_t replies; /* all of them; the others count some of these */
    uint64_t misses, errors, surprises;
    char first_error[128]; /* text of the first error or surprise */
    const char *malformed; /* not NULL: the stream cannot go on */
};

void scanner_init(struct scanner *scanner, enum client_wire wire, uint32_t value_bytes);
void scanner_expect(struct scanner *scanner, enum expected_kind kind); /* one more in the period */

/* Count the whole replies at the front of `view`. Returns the bytes they take; what is left is incomplete.
 * Cost: a few loads for each reply of a fixed shape; never looks at a value's bytes. */
size_t scanner_scan(struct scanner *scanner, struct slice view);
