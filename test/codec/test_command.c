/* test_command.c - every command is found by its name and by nothing else; arguments in either form read the same. */
#include "codec/command.h"
#include <CUnit/Basic.h>
#include <ctype.h>
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

/* What command_find() must answer, the slow way. */
static const struct command *
find_slowly(struct slice name)
{
    for (uint32_t i = 0; i < COMMAND_COUNT; i++) {
        if (slice_equal_nocase(name, command_table[i].name)) {
            return &command_table[i];
        }
    }
    return NULL;
}

static void
every_row_is_whole(void)
{
    for (uint32_t i = 0; i < COMMAND_COUNT; i++) {
        const struct command *command = &command_table[i];
        CU_ASSERT_EQUAL(command->id, i);
        CU_ASSERT_TRUE(command->args_min <= command->args_max && command->args_max <= LIMIT_REQUEST_ARGS);
        CU_ASSERT_TRUE(strlen(command->name) > 0 && strlen(command->group) > 0 && strlen(command->summary) > 0);
        CU_ASSERT_TRUE(command->first_key >= 0 && (command->first_key == 0) == (command->key_step == 0));
        CU_ASSERT_TRUE(command->first_key <= (int32_t)command->args_min);
        CU_ASSERT_PTR_EQUAL(find_slowly(slice_text(command->name)), command); /* no name twice */
    }
}

static void
a_name_that_differs_in_one_byte_is_another_name(void)
{
    for (uint32_t i = 0; i < COMMAND_COUNT; i++) {
        uint8_t name[64];
        size_t bytes = strlen(command_table[i].name);
        memcpy(name, command_table[i].name, bytes);
        for (size_t at = 0; at < bytes; at++) {
            uint8_t kept = name[at];
            for (uint32_t other = 0; other < 256; other++) {
                name[at] = (uint8_t)other;
                struct slice mutant = slice_of(name, bytes);
                if (command_find(mutant) != find_slowly(mutant)) {
                    CU_FAIL("a wrong name was found");
                }
            }
            name[at] = kept;
        }
    }
}

static void
a_longer_or_shorter_name_is_another_name(void)
{
    for (uint32_t i = 0; i < COMMAND_COUNT; i++) {
        uint8_t name[64];
        size_t bytes = strlen(command_table[i].name);
        memset(name, 'x', sizeof(name));
        memcpy(name, command_table[i].name, bytes);
        for (size_t part = 0; part <= sizeof(name); part++) {
            CU_ASSERT_PTR_EQUAL(command_find(slice_of(name, part)), find_slowly(slice_of(name, part)));
        }
        for (uint32_t last = 0; last < 256; last++) {
            name[bytes] = (uint8_t)last;
            CU_ASSERT_PTR_EQUAL(command_find(slice_of(name, bytes + 1)), find_slowly(slice_of(name, bytes + 1)));
        }
        memmove(name + bytes, name, bytes); /* twice in a row */
        CU_ASSERT_PTR_NULL(command_find(slice_of(name, 2 * bytes)));
    }
    CU_ASSERT_PTR_NULL(command_find(slice_of(NULL, 0)));
}

/* Both ends of a name, with anything between them: what the two words of a name do not see. */
static void
a_name_with_a_filler_in_its_middle_is_another_name(void)
{
    static uint8_t name[4096 + 64];
    for (uint32_t i = 0; i < COMMAND_COUNT; i++) {
        size_t bytes = strlen(command_table[i].name), end = MIN(bytes, 8);
        memset(name, 'x', sizeof(name));
        memcpy(name, command_table[i].name, bytes);
        for (size_t filler = 0; filler < 4096; filler++) {
            memcpy(name + end + filler, command_table[i].name + bytes - end, end);
            struct slice longer = slice_of(name, 2 * end + filler);
            CU_ASSERT_PTR_EQUAL(command_find(longer), find_slowly(longer));
            memset(name + end + filler, 'x', end);
        }
    }
}

static void
a_name_is_found_in_any_case_and_nothing_outside_it_is_read(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_PTR_NOT_EQUAL_FATAL(pages, MAP_FAILED);
    CU_ASSERT_EQUAL_FATAL(mprotect(pages + page, page, PROT_NONE), 0);

    for (uint32_t i = 0; i < COMMAND_COUNT; i++) {
        size_t bytes = strlen(command_table[i].name);
        uint8_t *name = pages + page - bytes;
        for (uint32_t cases = 0; cases < 1u << MIN(bytes, 10); cases++) {
            for (size_t at = 0; at < bytes; at++) {
                char c = command_table[i].name[at];
                name[at] = (uint8_t)(cases >> (at % 10) & 1 ? toupper(c) : c);
            }
            CU_ASSERT_PTR_EQUAL(command_find(slice_of(name, bytes)), &command_table[i]);
        }
    }
    munmap(pages, 2 * page);
}

static struct arg
arg_text(const char *text)
{
    return (struct arg){ .bytes = slice_text(text), .kind = ARG_BYTES };
}

static struct arg
arg_real(double value)
{
    return (struct arg){ .real = value, .kind = ARG_DOUBLE };
}

static struct arg
arg_integer(int64_t value)
{
    return (struct arg){ .integer = value, .kind = ARG_INT };
}

static void
what_is_no_integer_is_refused_in_every_form(void)
{
    const struct arg rows[] = { arg_text("1.0"), arg_text("+1"), arg_text(""),       arg_text("9223372036854775808"),
                                arg_real(0.5),   arg_real(NAN),  arg_real(INFINITY), arg_real(-INFINITY),
                                arg_real(1e300), arg_real(1e17), arg_real(-1e17),    arg_real(5e-324) };
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        int64_t value;
        CU_ASSERT_FALSE(arg_int64(&rows[i], &value));
    }
}

static void
what_is_no_double_is_refused_in_every_form(void)
{
    const struct arg rows[] = { arg_text("nan"), arg_text("1 "), arg_text(""), arg_text("1e400"), arg_real(NAN) };
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        double value;
        CU_ASSERT_FALSE(arg_double(&rows[i], &value));
    }
}

static void
numbers_read_the_same_from_text_and_native(void)
{
    const struct {
        struct arg arg;
        int64_t integer;
        const char *text;
    } rows[] = {
        { arg_text("42"), 42, "42" },
        { arg_integer(42), 42, "42" },
        { arg_real(42), 42, "42" },
        { arg_integer(INT64_MIN), INT64_MIN, "-9223372036854775808" },
        { arg_text("-9223372036854775808"), INT64_MIN, "-9223372036854775808" },
        { arg_real(-99999999999999984.0), -99999999999999984, "-99999999999999984" },
        { arg_integer(0), 0, "0" },
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char scratch[ARG_TEXT_BYTES];
        int64_t integer = -1;
        double real = NAN;
        CU_ASSERT_TRUE(arg_int64(&rows[i].arg, &integer));
        CU_ASSERT_EQUAL(integer, rows[i].integer);
        CU_ASSERT_TRUE(arg_double(&rows[i].arg, &real));
        CU_ASSERT_EQUAL(real, (double)rows[i].integer);
        CU_ASSERT_TRUE(slice_equal(arg_bytes(&rows[i].arg, scratch), slice_text(rows[i].text)));
    }
}

static void
the_longest_numbers_fit_the_scratch_and_bytes_are_borrowed(void)
{
    char scratch[ARG_TEXT_BYTES];
    struct arg text = arg_text("-inf"), real = arg_real(-2.2250738585072014e-308), inf = arg_real(-INFINITY);
    double value = 0;

    CU_ASSERT_TRUE(slice_equal(arg_bytes(&real, scratch), SLICE_LITERAL("-2.2250738585072014e-308")));
    CU_ASSERT_TRUE(slice_equal(arg_bytes(&inf, scratch), SLICE_LITERAL("-inf")));
    CU_ASSERT_PTR_EQUAL(arg_bytes(&text, scratch).data, text.bytes.data);
    CU_ASSERT_TRUE(arg_double(&text, &value) && value == -INFINITY);
    CU_ASSERT_TRUE(arg_double(&inf, &value) && value == -INFINITY);
}

static void
arity_is_checked_at_both_ends(void)
{
    for (uint32_t i = 0; i < COMMAND_COUNT; i++) {
        const struct command *command = &command_table[i];
        CU_ASSERT_TRUE(command->args_min == 0 || !command_arity_fits(command, command->args_min - 1));
        CU_ASSERT_TRUE(command_arity_fits(command, command->args_min));
        CU_ASSERT_TRUE(command_arity_fits(command, command->args_max));
        CU_ASSERT_FALSE(command_arity_fits(command, command->args_max + 1));
    }
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("command", NULL, NULL);
    CU_ADD_TEST(suite, every_row_is_whole);
    CU_ADD_TEST(suite, a_name_that_differs_in_one_byte_is_another_name);
    CU_ADD_TEST(suite, a_longer_or_shorter_name_is_another_name);
    CU_ADD_TEST(suite, a_name_with_a_filler_in_its_middle_is_another_name);
    CU_ADD_TEST(suite, a_name_is_found_in_any_case_and_nothing_outside_it_is_read);
    CU_ADD_TEST(suite, what_is_no_integer_is_refused_in_every_form);
    CU_ADD_TEST(suite, what_is_no_double_is_refused_in_every_form);
    CU_ADD_TEST(suite, numbers_read_the_same_from_text_and_native);
    CU_ADD_TEST(suite, the_longest_numbers_fit_the_scratch_and_bytes_are_borrowed);
    CU_ADD_TEST(suite, arity_is_checked_at_both_ends);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
