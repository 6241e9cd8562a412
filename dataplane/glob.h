/* glob.h - Redis' patterns: '*', '?', "[a-c]", "[^a]", backslash. Pure; no recursion, and no going back: all places in
 * the pattern that the text so far may have led to are the bits of a state, stepped together by each byte of the text.
 */
#pragma once
#include "config/base.h"
#include "config/limits.h"

#define GLOB_WORDS (LIMIT_PATTERN_BYTES / 64 + 1)

/* A pattern made ready. State bit i: the first i elements, stars not counted, have matched. */
struct glob {
    uint32_t words;                  /* of a state, as far as this pattern needs */
    uint32_t end;                    /* the bit that means: all of it */
    uint64_t stars[GLOB_WORDS];      /* bit i: a star stands behind element i, so this state may stay */
    uint64_t any[GLOB_WORDS];        /* bit i: the element after state i is '?' */
    uint64_t takes[256][GLOB_WORDS]; /* bit i: the element after state i takes this byte */
};

/* `nocase`: ASCII letters match in either case. False: longer than LIMIT_PATTERN_BYTES.
 * Cost: some microseconds at most. */
bool glob_open(struct glob *glob, struct slice pattern, bool nocase);

/* Whether the whole text matches. Cost: at most `words` steps of some cycles for a byte, whatever the pattern. */
bool glob_match(const struct glob *glob, struct slice text);

/* Both, once. A pattern that is too long matches nothing. */
bool glob_match_nocase(struct slice pattern, struct slice text);
