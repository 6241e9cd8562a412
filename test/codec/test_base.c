/* test_base.c - words of bytes compare and copy like bytes, and nothing outside them is touched. */
#include "config/base.h"
#include <CUnit/Basic.h>
#include <sys/mman.h>
#include <unistd.h>

#define LONGEST (COPY_SHORT_BYTES + 8)

/* LONGEST bytes between two pages that cannot be touched: `front` begins at one, `back` ends at the other. */
struct fence {
    uint8_t *front, *back;
};

static struct fence
fence_open(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *pages = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_FATAL(pages != MAP_FAILED && mprotect(pages + page, page, PROT_READ | PROT_WRITE) == 0);
    return (struct fence){ pages + page, pages + 2 * page };
}

static void
bytes_fill(uint8_t *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        at[i] = (uint8_t)(i * 7 + 1);
    }
}

static void
one_byte_tells_two_apart_wherever_it_is(void)
{
    struct fence one = fence_open(), two = fence_open();
    uint32_t wrong = 0;
    for (size_t bytes = 1; bytes <= LONGEST; bytes++) {
        uint8_t *a = one.back - bytes, *b = two.front;
        bytes_fill(a, bytes);
        bytes_fill(b, bytes);
        for (size_t at = 0; at < bytes; at++) {
            b[at] ^= 0x80;
            wrong += bytes_equal(a, b, bytes) || bytes_equal(b, a, bytes);
            b[at] ^= 0x80;
        }
        wrong += !bytes_equal(a, b, bytes);
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

static void
nothing_outside_is_compared(void)
{
    struct fence one = fence_open(), two = fence_open();
    uint32_t wrong = 0;
    for (size_t bytes = 0; bytes <= LONGEST; bytes++) {
        bytes_fill(one.front, bytes);
        bytes_fill(two.back - bytes, bytes);
        one.front[bytes] = 0xff;
        wrong += !bytes_equal(one.front, two.back - bytes, bytes);
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

static void
slices_of_no_bytes_are_equal_and_lengths_tell_apart(void)
{
    struct slice none = { NULL, 0 };
    CU_ASSERT_TRUE(slice_equal(none, none));
    CU_ASSERT_TRUE(slice_equal(none, SLICE_LITERAL("")));
    CU_ASSERT_FALSE(slice_equal(none, SLICE_LITERAL("a")));
    CU_ASSERT_FALSE(slice_equal(SLICE_LITERAL("a"), SLICE_LITERAL("aa")));
    CU_ASSERT_TRUE(slice_equal(SLICE_LITERAL("field"), SLICE_LITERAL("field")));
}

static void
a_copy_is_whole_and_writes_nothing_outside(void)
{
    struct fence from = fence_open(), to = fence_open();
    uint32_t wrong = 0;
    for (size_t bytes = 0; bytes <= LONGEST; bytes++) {
        uint8_t *a = from.back - bytes;
        bytes_fill(a, bytes);
        to.front[bytes] = 0xa5;
        bytes_copy(to.front, a, bytes);
        wrong += (bytes > 0 && memcmp(to.front, a, bytes) != 0) || to.front[bytes] != 0xa5;
        bytes_copy(to.back - bytes, a, bytes);
        wrong += bytes > 0 && memcmp(to.back - bytes, a, bytes) != 0;
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("base", NULL, NULL);
    CU_ADD_TEST(suite, one_byte_tells_two_apart_wherever_it_is);
    CU_ADD_TEST(suite, nothing_outside_is_compared);
    CU_ADD_TEST(suite, slices_of_no_bytes_are_equal_and_lengths_tell_apart);
    CU_ADD_TEST(suite, a_copy_is_whole_and_writes_nothing_outside);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
