/* test_glob.c - patterns: as a plain matcher that goes back would answer, and at no more cost than the text is long. */
#include "dataplane/glob.h"
#include <CUnit/Basic.h>

/* ---- the plain matcher, from Redis' rules ---- */

static int
lower(int c, bool nocase)
{
    return nocase && c >= 'A' && c <= 'Z' ? c + 32 : c;
}

/* One element that is no star against `c`; *bytes is its length. */
static bool
plain_element(const char *p, size_t left, int c, bool nocase, size_t *bytes)
{
    if (p[0] == '?') {
        *bytes = 1;
        return true;
    }
    if (p[0] != '[') {
        *bytes = p[0] == '\\' && left > 1 ? 2 : 1;
        return lower((uint8_t)p[*bytes - 1], nocase) == lower(c, nocase);
    }
    bool negated = left > 1 && p[1] == '^', listed = false;
    size_t i = negated ? 2 : 1;
    while (i < left && p[i] != ']') {
        int low = (uint8_t)p[i], high = low;
        if (low == '\\' && i + 1 < left) {
            low = high = (uint8_t)p[i + 1];
            i += 2;
        } else if (i + 2 < left && p[i + 1] == '-') {
            high = (uint8_t)p[i + 2];
            i += 3;
        } else {
            i++;
        }
        low = lower(low, nocase);
        high = lower(high, nocase);
        listed = listed || (lower(c, nocase) >= MIN(low, high) && lower(c, nocase) <= MAX(low, high));
    }
    *bytes = i < left ? i + 1 : left;
    return listed != negated;
}

static bool
plain_match(const char *p, size_t p_bytes, const char *t, size_t t_bytes, bool nocase)
{
    if (p_bytes == 0) {
        return t_bytes == 0;
    }
    if (p[0] == '*') {
        for (size_t skip = 0; skip <= t_bytes; skip++) {
            if (plain_match(p + 1, p_bytes - 1, t + skip, t_bytes - skip, nocase)) {
                return true;
            }
        }
        return false;
    }
    size_t bytes;
    return t_bytes > 0 && plain_element(p, p_bytes, (uint8_t)t[0], nocase, &bytes) &&
           plain_match(p + bytes, p_bytes - bytes, t + 1, t_bytes - 1, nocase);
}

/* ---- comparing ---- */

static uint64_t random_state = 88172645463325252ull;

static uint32_t
random_below(uint32_t end)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 33) % end;
}

static size_t
random_text(char *out, const char *alphabet, uint32_t most)
{
    size_t bytes = random_below(most + 1);
    for (size_t i = 0; i < bytes; i++) {
        out[i] = alphabet[random_below((uint32_t)strlen(alphabet))];
    }
    return bytes;
}

static void
compare(const char *pattern, size_t pattern_bytes, const char *text, size_t text_bytes)
{
    for (int nocase = 0; nocase <= 1; nocase++) {
        static struct glob glob;
        CU_ASSERT_TRUE_FATAL(glob_open(&glob, slice_of(pattern, pattern_bytes), nocase));
        bool got = glob_match(&glob, slice_of(text, text_bytes));
        if (got != plain_match(pattern, pattern_bytes, text, text_bytes, nocase)) {
            printf("\n  pattern '%.*s' text '%.*s' nocase %d\n", (int)pattern_bytes, pattern, (int)text_bytes, text,
                   nocase);
            CU_FAIL("differs from the plain matcher");
        }
    }
}

static void
short_patterns_match_as_a_plain_matcher_says(void)
{
    char pattern[16], text[16];
    for (uint32_t i = 0; i < 300000; i++) {
        size_t pattern_bytes = random_text(pattern, "aabAB*?[]^-\\c", 10);
        size_t text_bytes = random_text(text, "aabABc-]^\\[*?", 8);
        compare(pattern, pattern_bytes, text, text_bytes);
    }
}

/* Some elements, so that their states lie in every word and on the borders between them. */
static void
long_patterns_match_as_a_plain_matcher_says(void)
{
    char pattern[LIMIT_PATTERN_BYTES], text[400];
    for (uint32_t i = 0; i < 20000; i++) {
        size_t pattern_bytes = 60 + random_below(LIMIT_PATTERN_BYTES - 59);
        for (size_t k = 0; k < pattern_bytes; k++) {
            pattern[k] = "ab?"[random_below(3)];
        }
        size_t text_bytes = 0;
        for (size_t k = 0; k < pattern_bytes; k++) {
            text[text_bytes++] = pattern[k] == '?' ? 'x' : pattern[k];
        }
        for (uint32_t stars = random_below(3); stars > 0; stars--) {
            pattern[random_below((uint32_t)pattern_bytes)] = '*';
        }
        if (random_below(2) == 0) {
            text[random_below((uint32_t)text_bytes)] = 'y';
        }
        compare(pattern, pattern_bytes, text, text_bytes);
    }
}

static void
bytes_of_every_value_are_taken(void)
{
    for (int c = 0; c < 256; c++) {
        char text[1] = { (char)c }, escaped[2] = { '\\', (char)c }, range[5] = { '[', '\\', (char)c, ']' };
        compare(escaped, 2, text, 1);
        compare(range, 4, text, 1);
        compare("[\x80-\xff]", 5, text, 1);
        compare("[^a-z]", 6, text, 1);
        compare("?", 1, text, 1);
    }
}

static void
the_limit_is_the_length_of_the_pattern(void)
{
    static struct glob glob;
    static uint8_t pattern[LIMIT_PATTERN_BYTES + 1], text[LIMIT_PATTERN_BYTES + 1];
    memset(pattern, '?', sizeof(pattern));
    CU_ASSERT_TRUE(glob_open(&glob, slice_of(pattern, LIMIT_PATTERN_BYTES - 1), false));
    CU_ASSERT_TRUE(glob_open(&glob, slice_of(pattern, LIMIT_PATTERN_BYTES), false));
    CU_ASSERT_TRUE(glob_match(&glob, slice_of(text, LIMIT_PATTERN_BYTES)));
    CU_ASSERT_FALSE(glob_match(&glob, slice_of(text, LIMIT_PATTERN_BYTES - 1)));
    CU_ASSERT_FALSE(glob_match(&glob, slice_of(text, LIMIT_PATTERN_BYTES + 1)));
    CU_ASSERT_FALSE(glob_open(&glob, slice_of(pattern, LIMIT_PATTERN_BYTES + 1), false));
    CU_ASSERT_FALSE(glob_match_nocase(slice_of(pattern, LIMIT_PATTERN_BYTES + 1), slice_of(text, 3)));
}

/* Those that cost a matcher that goes back more than the age of the universe. */
static void
hostile_patterns_end(void)
{
    static uint8_t text[LIMIT_KEY_BYTES];
    static struct glob glob;
    char pattern[LIMIT_PATTERN_BYTES];
    memset(text, 'a', sizeof(text));
    for (size_t i = 0; i < sizeof(pattern); i++) {
        pattern[i] = i % 2 == 0 ? 'a' : '*';
    }
    pattern[sizeof(pattern) - 1] = 'b';
    CU_ASSERT_TRUE(glob_open(&glob, slice_of(pattern, sizeof(pattern)), false));
    for (uint32_t i = 0; i < 100; i++) {
        CU_ASSERT_FALSE(glob_match(&glob, slice_of(text, sizeof(text))));
    }
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("glob", NULL, NULL);
    CU_ADD_TEST(suite, the_limit_is_the_length_of_the_pattern);
    CU_ADD_TEST(suite, hostile_patterns_end);
    CU_ADD_TEST(suite, short_patterns_match_as_a_plain_matcher_says);
    CU_ADD_TEST(suite, long_patterns_match_as_a_plain_matcher_says);
    CU_ADD_TEST(suite, bytes_of_every_value_are_taken);
    CU_basic_run_tests();
    return CU_get_number_of_failures() != 0;
}
