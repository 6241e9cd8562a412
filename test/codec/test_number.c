/* test_number.c - integers and doubles as text. strtod() and printf() are the judges of what rounds where. */
#include "codec/number.h"
#include <CUnit/Basic.h>
#include <math.h>

static void
what_is_not_an_integer_is_refused(void)
{
    static const char *const rows[] = { "",
                                        "-",
                                        "+1",
                                        " 1",
                                        "1 ",
                                        "01",
                                        "-0",
                                        "-01",
                                        "00",
                                        "1.0",
                                        "1e3",
                                        "0x10",
                                        "--1",
                                        "1-",
                                        "12a4",
                                        "\t1",
                                        "1\n",
                                        "٣",
                                        "1:",
                                        "1/",
                                        "-",
                                        "-a",
                                        "a",
                                        "+",
                                        "9223372036854775808",
                                        "-9223372036854775809",
                                        "18446744073709551615",
                                        "18446744073709551616",
                                        "99999999999999999999",
                                        "92233720368547758070",
                                        "-92233720368547758080",
                                        "100000000000000000000",
                                        "000000000000000000000000001" };
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        int64_t value = 77;
        CU_ASSERT_FALSE(number_parse_int64(slice_text(rows[i]), &value));
        CU_ASSERT_EQUAL(value, 77);
    }
    int64_t value;
    CU_ASSERT_FALSE(number_parse_int64(slice_of(NULL, 0), &value));
    CU_ASSERT_FALSE(number_parse_int64(slice_of("1\0", 2), &value));
}

static void
integers_read_back_as_they_were_printed(void)
{
    static const struct {
        const char *text;
        int64_t value;
    } rows[] = {
        { "0", 0 },
        { "1", 1 },
        { "-1", -1 },
        { "9", 9 },
        { "10", 10 },
        { "99", 99 },
        { "100", 100 },
        { "-100", -100 },
        { "12345", 12345 },
        { "4294967296", 4294967296 },
        { "999999999999999999", 999999999999999999 },
        { "1000000000000000000", 1000000000000000000 },
        { "9223372036854775806", INT64_MAX - 1 },
        { "9223372036854775807", INT64_MAX },
        { "-9223372036854775807", INT64_MIN + 1 },
        { "-9223372036854775808", INT64_MIN },
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char text[NUMBER_INT_BYTES];
        int64_t value = 0;
        CU_ASSERT_TRUE(number_parse_int64(slice_text(rows[i].text), &value));
        CU_ASSERT_EQUAL(value, rows[i].value);
        CU_ASSERT_TRUE(slice_equal(slice_of(text, number_print_int64(text, value)), slice_text(rows[i].text)));
    }
}

static void
every_length_of_unsigned_integers_is_printed(void)
{
    for (uint64_t ten = 1; ten <= 1000000000000000000; ten *= 10) {
        for (int64_t step = -1; step <= 1; step++) {
            char text[NUMBER_INT_BYTES], want[32];
            uint64_t value = ten + (uint64_t)step;
            int bytes = snprintf(want, sizeof(want), "%llu", (unsigned long long)value);
            CU_ASSERT_EQUAL(number_print_uint64(text, value), (size_t)bytes);
            CU_ASSERT_EQUAL(memcmp(text, want, (size_t)bytes), 0);
        }
    }
    char text[NUMBER_INT_BYTES];
    CU_ASSERT_TRUE(
        slice_equal(slice_of(text, number_print_uint64(text, UINT64_MAX)), SLICE_LITERAL("18446744073709551615")));
    CU_ASSERT_TRUE(slice_equal(slice_of(text, number_print_uint64(text, 10000000000000000000ull)),
                               SLICE_LITERAL("10000000000000000000")));
}

static void
what_is_not_a_double_is_refused(void)
{
    static const char *const rows[] = {
        "",
        " 1",
        "1 ",
        " ",
        "\t1",
        "1\n",
        "nan",
        "NaN",
        "-nan",
        "nan(1)",
        "inf ",
        "infin",
        "+",
        "-",
        ".",
        "-.",
        "+.e1",
        "e5",
        ".e5",
        "1e",
        "1e+",
        "1e-",
        "1e1.5",
        "1.2.3",
        "1..2",
        "1,5",
        "--1",
        "+-1",
        "0x",
        "0x.",
        "0xg",
        "0x1p",
        "0x1p+",
        "0x1.8q",
        "1f",
        "1d",
        "1e5e5",
        "infinityx",
        "9fe9f1",
        "0x1p1024",
        "1e309",
        "1e400",
        "-1e400",
        "1e-400",
        "5e-325",
        "2e-324",
        "0x1p-1076",
        "1e99999999999999999999",
        "1e-99999999999999999999",
        "1.7976931348623159e308",
        "1.797693134862315808e308",
        "٣",
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        double value;
        if (number_parse_double(slice_text(rows[i]), &value)) {
            fprintf(stderr, "taken for a double: '%s'\n", rows[i]);
            CU_FAIL("taken for a double");
        }
    }
    double value;
    CU_ASSERT_FALSE(number_parse_double(slice_of(NULL, 0), &value));
    CU_ASSERT_FALSE(number_parse_double(slice_of("1\0", 2), &value));
    CU_ASSERT_FALSE(number_parse_double(slice_of("\0001", 2), &value));
}

static void
every_form_that_strtod_takes_is_read(void)
{
    static const char *const rows[] = {
        "0",
        "-0",
        "+0",
        "0.0",
        "00",
        "007",
        "1.",
        ".5",
        "-.5",
        "+1.5",
        "1e0",
        "1E5",
        "1e+05",
        "1e-05",
        "0e99999",
        "0x10",
        "0X1.8P1",
        "-0x.8",
        "0x1p-1074",
        "0x1p-1075",
        "0x1.8p-1075",
        "0x0p99999",
        "0x1.fffffffffffffp1023",
        "0x1.fffffffffffff7p1023",
        "0x123456789abcdef0123456789",
        "0x1.00000000000008p0",
        "0x1.000000000000080001p0",
        "0x1.00000000000018p0",
        "0x0.00000000000000000000000000001p100",
        "inf",
        "INF",
        "+inf",
        "-Inf",
        "infinity",
        "-INFINITY",
        "0.123123123",
        "9.8813129168249309e-323",
        "5e-324",
        "4.9406564584124654e-324",
        "2.5e-324",
        "2.4703282292062328e-324",
        "1.7976931348623157e308",
        "1.797693134862315807e308",
        "2.2250738585072014e-308",
        "2.2250738585072011e-308",
        "9007199254740993",
        "9007199254740992.99999999999999999999",
        "9007199254740991e22",
        "9007199254740993e-3",
        "1e22",
        "1e23",
        "123456789012345678901234567890",
        "0.1e-5",
        "1e-5",
        "3.0e2",
        "100000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000e-90",
        "8.5e-1",
        "1000000000000000000e-18",
        "9999999999999999999",
        "18446744073709551615",
        "18446744073709551616",
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        double value = NAN, want = strtod(rows[i], NULL);
        bool vanishes = want == 0 && strpbrk(rows[i], "p") != NULL && rows[i][2] != '0';
        bool good = number_parse_double(slice_text(rows[i]), &value);
        if (good == vanishes || (good && memcmp(&value, &want, sizeof(value)) != 0)) {
            fprintf(stderr, "'%s' reads as %a, want %a\n", rows[i], value, want);
            CU_FAIL("read wrong");
        }
    }
}

static void
doubles_print_as_a_score_does(void)
{
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        { 0.0, "0" },
        { -0.0, "-0" },
        { 1.0, "1" },
        { -1.0, "-1" },
        { 3.5, "3.5" },
        { -3.5, "-3.5" },
        { 0.1, "0.1" },
        { 0.5, "0.5" },
        { 0.123123123, "0.123123123" },
        { 10.6, "10.6" },
        { 100, "100" },
        { 5200, "5200" },
        { 1234567890123.25, "1234567890123.25" },
        { 0.0001, "0.0001" },
        { 0.00012, "0.00012" },
        { 0.00001, "1e-05" },
        { 0.000012, "1.2e-05" },
        { 1e16, "10000000000000000" },
        { 99999999999999984.0, "99999999999999984" },
        { 72057594037927936.0, "72057594037927936" },
        { 1e17, "1e+17" },
        { 123456789012345680000.0, "1.2345678901234568e+20" },
        { 1e100, "1e+100" },
        { 1e23, "1e+23" },
        { 9007199254740993.0, "9007199254740992" },
        { 2251799813685249.5, "2251799813685249.5" },
        { 9.8813129168249309e-323, "1e-322" },
        { 5e-324, "5e-324" },
        { 2.2250738585072014e-308, "2.2250738585072014e-308" },
        { 2.2250738585072009e-308, "2.225073858507201e-308" },
        { 1.7976931348623157e308, "1.7976931348623157e+308" },
        { -1.7976931348623157e308, "-1.7976931348623157e+308" },
        { 0.1 + 0.2, "0.30000000000000004" },
        { 1.0 / 3, "0.3333333333333333" },
        { 2.0 / 3, "0.6666666666666666" },
        { INFINITY, "inf" },
        { -INFINITY, "-inf" },
        { NAN, "nan" },
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char text[NUMBER_DOUBLE_BYTES + 1];
        size_t bytes = number_print_double(text, rows[i].value);
        text[bytes] = '\0';
        CU_ASSERT_TRUE(bytes <= NUMBER_DOUBLE_BYTES);
        if (strcmp(text, rows[i].text) != 0) {
            fprintf(stderr, "%a prints as %s, want %s\n", rows[i].value, text, rows[i].text);
            CU_FAIL("printed wrong");
        }
    }
}

static uint64_t seed = 88172645463325252ull;

static uint64_t
random_bits(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed * 0x2545f4914f6cdd1dull;
}

static uint32_t
significant_digits(const char *text)
{
    uint32_t count = 0, zeros = 0;
    for (; *text != '\0' && *text != 'e'; text++) {
        if (*text >= '1' && *text <= '9') {
            count += zeros + 1;
            zeros = 0;
        } else if (*text == '0' && count > 0) {
            zeros++;
        }
    }
    return count;
}

/* Reads back to the same bits, through strtod() and through ours, with as few digits as any text that does. */
static bool
prints_shortest(double value)
{
    char text[NUMBER_DOUBLE_BYTES + 1], other[64];
    size_t bytes = number_print_double(text, value);
    double again;
    int digits = 1;

    text[bytes] = '\0';
    if (strtod(text, NULL) != value || !number_parse_double(slice_of(text, bytes), &again) || again != value) {
        fprintf(stderr, "%a prints as %s, which reads as %a\n", value, text, again);
        return false;
    }
    while (snprintf(other, sizeof(other), "%.*e", digits - 1, value) > 0 && strtod(other, NULL) != value) {
        digits++;
    }
    if (fabs(value) < 1e17 && value == (double)(int64_t)value) {
        return strpbrk(text, ".e") == NULL;
    }
    if (significant_digits(text) > (uint32_t)digits) {
        fprintf(stderr, "%a prints as %s, but %s is enough\n", value, text, other);
        return false;
    }
    return true;
}

static void
random_doubles_of_every_kind_print_shortest_and_read_back(void)
{
    static const double tens[] = { 10, 100, 1000, 1e6, 1e9, 1e15 };
    for (uint32_t i = 0; i < 200000; i++) {
        uint64_t bits = random_bits();
        double value;

        switch (i % 4) {
        case 0: /* few bits set */
            bits &= 0xfffull << 52 | 0xff;
            break;
        case 1: /* denormal */
            bits &= 0x800fffffffffffffull;
            break;
        case 2:
            break;
        case 3: /* a price, a ratio, a timestamp */
            value = (double)(bits % 10000000019) / tens[i % ARRAY_COUNT(tens)];
            memcpy(&bits, &value, sizeof(bits));
            break;
        }
        memcpy(&value, &bits, sizeof(value));
        if (isfinite(value) && !prints_shortest(value)) {
            CU_FAIL("not the shortest, or does not read back");
            return;
        }
    }
}

static void
both_sides_of_every_power_of_two_print_shortest_and_read_back(void)
{
    for (uint64_t exponent = 0; exponent < 2047; exponent++) {
        for (uint64_t step = 0; step < 5; step++) {
            uint64_t bits = (exponent << 52) + step - 2;
            double value;
            memcpy(&value, &bits, sizeof(value));
            if (isfinite(value) && !prints_shortest(value)) {
                CU_FAIL("not the shortest, or does not read back");
                return;
            }
        }
    }
}

static bool
reads_as_strtod(const char *text)
{
    double value = 0, want = strtod(text, NULL);
    bool good = number_parse_double(slice_text(text), &value);
    bool digits = strcspn(text, "123456789") < strcspn(text, "e");
    bool want_good = !isinf(want) && !(want == 0 && digits);

    if (good != want_good || (good && value != want)) {
        fprintf(stderr, "%s reads as %a (%d), want %a (%d)\n", text, value, good, want, want_good);
        return false;
    }
    return true;
}

static void
random_decimals_read_as_strtod_reads_them(void)
{
    for (uint32_t i = 0; i < 200000; i++) {
        char text[80], *at = text;
        uint32_t digits = 1 + random_bits() % 40, point = random_bits() % (digits + 4);

        for (uint32_t digit = 0; digit < digits; digit++) {
            if (digit == point) {
                *at++ = '.';
            }
            *at++ = (char)('0' + random_bits() % 10);
        }
        *at = '\0';
        if (i & 1) {
            snprintf(at, sizeof(text) - (size_t)(at - text), "e%d", (int)(random_bits() % 720) - 360);
        }
        if (!reads_as_strtod(text)) {
            CU_FAIL("read wrong");
            return;
        }
    }
}

/* The exact middle between two doubles rounds to even; one digit far behind it decides otherwise. */
static void
exact_ties_and_their_neighbours_read_as_strtod_reads_them(void)
{
    for (uint32_t i = 0; i < 2000; i++) {
        static char text[4096], more[4096];
        uint64_t bits = random_bits() & INT64_MAX;
        double value;

        if (i % 2 == 0) { /* the longest expansions are those of small numbers */
            bits = (bits & 0xfffffffffffffull) | (bits % 64) << 52;
        }
        memcpy(&value, &bits, sizeof(value));
        if (!isfinite(value) || value == 0 || isinf(nextafter(value, INFINITY))) {
            continue;
        }
        long double middle = ((long double)value + (long double)nextafter(value, INFINITY)) / 2;
        snprintf(text, sizeof(text), "%.1100Le", middle);
        char *exponent = strchr(text, 'e'), *end = exponent;
        while (end[-1] == '0') {
            end--;
        }
        int bytes = (int)(end - text);
        bool good = true;
        snprintf(more, sizeof(more), "%.*s%s", bytes, text, exponent);
        good = good && reads_as_strtod(more);
        snprintf(more, sizeof(more), "%.*s0000001%s", bytes, text, exponent);
        good = good && reads_as_strtod(more);
        snprintf(more, sizeof(more), "%.*s%0300d1%s", bytes, text, 0, exponent);
        good = good && reads_as_strtod(more);
        if (end[-1] != '.') {
            snprintf(more, sizeof(more), "%.*s%c99999%s", bytes - 1, text, end[-1] - 1, exponent);
            good = good && reads_as_strtod(more);
        }
        if (!good) {
            CU_FAIL("read wrong");
            return;
        }
    }
}

static void
a_double_of_any_text_up_to_the_limit_is_read(void)
{
    static char text[NUMBER_TEXT_BYTES + 2];
    for (size_t bytes = NUMBER_TEXT_BYTES - 1; bytes <= NUMBER_TEXT_BYTES + 1; bytes++) {
        double value = 0;
        bool fits = bytes <= NUMBER_TEXT_BYTES;
        memset(text, '0', bytes);
        text[0] = '7';
        text[1] = '.';
        CU_ASSERT_EQUAL(number_parse_double(slice_of(text, bytes), &value), fits);
        CU_ASSERT_EQUAL(value, fits ? 7.0 : 0.0);
        memset(text, '9', bytes);
        memcpy(text + bytes - 6, "e-1080", 6);
        CU_ASSERT_EQUAL(number_parse_double(slice_of(text, bytes), &value), fits);
        CU_ASSERT_TRUE(!fits || value == strtod(text, NULL));
        memset(text, '0', bytes);
        memcpy(text, "0.", 2);
        memcpy(text + bytes - 7, "25e1090", 7);
        CU_ASSERT_EQUAL(number_parse_double(slice_of(text, bytes), &value), fits);
        CU_ASSERT_TRUE(!fits || value == strtod(text, NULL));
        memset(text, 0, sizeof(text));
    }
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("number", NULL, NULL);
    CU_ADD_TEST(suite, what_is_not_an_integer_is_refused);
    CU_ADD_TEST(suite, integers_read_back_as_they_were_printed);
    CU_ADD_TEST(suite, every_length_of_unsigned_integers_is_printed);
    CU_ADD_TEST(suite, what_is_not_a_double_is_refused);
    CU_ADD_TEST(suite, every_form_that_strtod_takes_is_read);
    CU_ADD_TEST(suite, doubles_print_as_a_score_does);
    CU_ADD_TEST(suite, random_doubles_of_every_kind_print_shortest_and_read_back);
    CU_ADD_TEST(suite, both_sides_of_every_power_of_two_print_shortest_and_read_back);
    CU_ADD_TEST(suite, random_decimals_read_as_strtod_reads_them);
    CU_ADD_TEST(suite, exact_ties_and_their_neighbours_read_as_strtod_reads_them);
    CU_ADD_TEST(suite, a_double_of_any_text_up_to_the_limit_is_read);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
