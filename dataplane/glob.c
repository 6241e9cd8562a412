/* glob.c - see glob.h. */
#include "dataplane/glob.h"

static uint8_t
lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? c | 0x20 : c;
}

/* "[...]" that begins at `at`: where it ends, and whether `c` is in it. One that is never closed ends with the pattern.
 */
static size_t
class_match(struct slice pattern, size_t at, uint8_t c, bool *matches)
{
    const uint8_t *p = pattern.data;
    bool is_in = false, is_negated = at + 1 < pattern.bytes && p[at + 1] == '^';
    size_t i = at + 1 + is_negated;
    for (; i < pattern.bytes && p[i] != ']'; i++) {
        if (p[i] == '\\' && i + 1 < pattern.bytes) {
            i++;
            is_in = is_in || lower(p[i]) == c;
        } else if (i + 2 < pattern.bytes && p[i + 1] == '-') {
            uint8_t low = lower(p[i]), high = lower(p[i + 2]);
            is_in = is_in || (c >= MIN(low, high) && c <= MAX(low, high));
            i += 2;
        } else {
            is_in = is_in || lower(p[i]) == c;
        }
    }
    *matches = is_in != is_negated;
    return MIN(i + 1, pattern.bytes);
}

/* The element at `at`, which is not a star, against one character. Returns where the next element begins. */
static size_t
element_match(struct slice pattern, size_t at, uint8_t c, bool *matches)
{
    const uint8_t *p = pattern.data;
    if (p[at] == '[') {
        return class_match(pattern, at, c, matches);
    }
    if (p[at] == '\\' && at + 1 < pattern.bytes) {
        at++;
    } else if (p[at] == '?') {
        *matches = true;
        return at + 1;
    }
    *matches = lower(p[at]) == c;
    return at + 1;
}

/* Every element but the star takes one character, so only the last star met can ever have to take more. */
bool
glob_match_nocase(struct slice pattern, struct slice text)
{
    size_t p = 0, t = 0, star = SIZE_MAX, star_text = 0;
    while (t < text.bytes) {
        bool matches = false;
        size_t next = p;
        if (p < pattern.bytes && pattern.data[p] == '*') {
            star = ++p;
            star_text = t;
            continue;
        }
        if (p < pattern.bytes) {
            next = element_match(pattern, p, lower(text.data[t]), &matches);
        }
        if (matches) {
            p = next;
            t++;
        } else if (star != SIZE_MAX) {
            p = star;
            t = ++star_text;
        } else {
            return false;
        }
    }
    while (p < pattern.bytes && pattern.data[p] == '*') {
        p++;
    }
    return p == pattern.bytes;
}
