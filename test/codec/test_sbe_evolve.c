/* test_sbe_evolve.c - programs of two schema versions understand one another, and neither reads outside a message. */
#include "test/codec/test_sbe_frames.h"
#include "test/codec/test_sbe_v0.h"
#include "test/codec/test_sbe_v1.h"
#include <CUnit/Basic.h>
#include <math.h>

/* An order of two items as each version writes it. Returns the bytes. */
static size_t
order_v0(uint8_t *out)
{
    uint8_t *at = v0_order_items_put(v0_order_put(out, 99, V0_COLOR_BLUE), 2);
    at = sbe_put_data(v0_order_items_entry_put(at, -5, V0_COLOR_RED), SLICE_LITERAL("apple"));
    at = sbe_put_data(v0_order_items_entry_put(at, 7, V0_COLOR_BLUE), SLICE_LITERAL(""));
    at = sbe_put_data(v0_order_tags_put(at, 1), SLICE_LITERAL("tag"));
    return (size_t)(sbe_put_data(at, SLICE_LITERAL("Ann")) - out);
}

static size_t
order_v1(uint8_t *out, uint16_t color)
{
    uint8_t *at = v1_order_items_put(v1_order_put(out, 99, color, -3, V1_MARKS_GIFT), 2);
    at = sbe_put_data(v1_order_items_entry_put(at, -5, V1_COLOR_RED, 1.25), SLICE_LITERAL("apple"));
    at = sbe_put_data(v1_order_items_entry_put(at, 7, V1_COLOR_BLUE, 0), SLICE_LITERAL(""));
    at = sbe_put_data(v1_order_tags_put(at, 1), SLICE_LITERAL("tag"));
    at = sbe_put_data(at, SLICE_LITERAL("Ann"));
    return (size_t)(sbe_put_data(at, SLICE_LITERAL("by noon")) - out);
}

static void
check_old_parts(const struct sbe_view *view)
{
    struct sbe_group items = v0_order_items(view);
    struct v0_order_items_entry item = { 0 };

    CU_ASSERT_EQUAL(v0_order_correlation(view), 99);
    CU_ASSERT_EQUAL(v0_order_color(view), V0_COLOR_BLUE);
    CU_ASSERT(v0_order_items_next(&items, &item));
    CU_ASSERT_EQUAL(item.quantity, -5);
    CU_ASSERT(slice_equal(item.label, SLICE_LITERAL("apple")));
    CU_ASSERT(v0_order_items_next(&items, &item));
    CU_ASSERT_EQUAL(item.quantity, 7);
    CU_ASSERT_EQUAL(item.color, V0_COLOR_BLUE);
    CU_ASSERT_EQUAL(item.label.bytes, 0);
    CU_ASSERT(!v0_order_items_next(&items, &item));
    struct sbe_group tags = v0_order_tags(view);
    struct v0_order_tags_entry tag = { 0 };
    CU_ASSERT(v0_order_tags_next(&tags, &tag));
    CU_ASSERT(slice_equal(tag.tag, SLICE_LITERAL("tag")));
    CU_ASSERT(!v0_order_tags_next(&tags, &tag));
    CU_ASSERT(slice_equal(v0_order_name(view), SLICE_LITERAL("Ann")));
}

static void
an_older_reader_reads_a_newer_message(void)
{
    uint8_t message[256];
    struct sbe_view view;
    size_t bytes = order_v1(message, V1_COLOR_BLUE);
    CU_ASSERT_EQUAL_FATAL(sbe_validate(&v0_schema, slice_of(message, bytes), 100, SBE_REFUSE_UNKNOWN, &view), SBE_GOOD);
    CU_ASSERT_EQUAL(view.version, 1);
    check_old_parts(&view);
}

static void
a_newer_reader_reads_an_older_message(void)
{
    uint8_t message[256];
    struct sbe_view view;
    size_t bytes = order_v0(message);
    uint8_t *at = guard_end(message, bytes);
    memset(&view, 0xa5, sizeof(view)); /* what another message left there */
    CU_ASSERT_EQUAL_FATAL(sbe_validate(&v1_schema, slice_of(at, bytes), 100, SBE_REFUSE_UNKNOWN, &view), SBE_GOOD);
    check_old_parts(&view);
    CU_ASSERT(!v1_order_has_rank(&view));
    CU_ASSERT_EQUAL(v1_order_rank(&view), INT16_MIN); /* the null value of int16 */
    CU_ASSERT(!v1_order_has_marks(&view));
    CU_ASSERT_EQUAL(v1_order_marks(&view), 0);
    CU_ASSERT_EQUAL(v1_order_note(&view).bytes, 0);
    struct sbe_group items = v1_order_items(&view);
    struct v1_order_items_entry item = { 0 };
    CU_ASSERT(v1_order_items_next(&items, &item));
    CU_ASSERT(isnan(item.price));
    CU_ASSERT(slice_equal(item.label, SLICE_LITERAL("apple")));
}

static void
equal_versions_read_everything(void)
{
    uint8_t message[256];
    struct sbe_view view;
    size_t bytes = order_v1(message, V1_COLOR_GREEN);
    CU_ASSERT_EQUAL_FATAL(sbe_validate(&v1_schema, slice_of(message, bytes), 100, SBE_REFUSE_UNKNOWN, &view), SBE_GOOD);
    CU_ASSERT_EQUAL(v1_order_color(&view), V1_COLOR_GREEN);
    CU_ASSERT(v1_order_has_rank(&view));
    CU_ASSERT_EQUAL(v1_order_rank(&view), -3);
    CU_ASSERT_EQUAL(v1_order_marks(&view), V1_MARKS_GIFT);
    CU_ASSERT(slice_equal(v1_order_note(&view), SLICE_LITERAL("by noon")));
    struct sbe_group items = v1_order_items(&view);
    struct v1_order_items_entry item = { 0 };
    CU_ASSERT(v1_order_items_next(&items, &item));
    CU_ASSERT_EQUAL(item.price, 1.25);
}

static void
a_value_that_is_newer_than_the_reader_is_refused_or_kept_as_asked(void)
{
    uint8_t message[256];
    struct sbe_view view;
    struct slice newer = slice_of(message, order_v1(message, V1_COLOR_GREEN));
    CU_ASSERT_EQUAL(sbe_validate(&v0_schema, newer, 100, SBE_REFUSE_UNKNOWN, &view), SBE_BAD_VALUE);
    CU_ASSERT_EQUAL(sbe_validate(&v0_schema, newer, 100, SBE_KEEP_UNKNOWN, &view), SBE_GOOD);
    CU_ASSERT_EQUAL(v0_order_color(&view), V1_COLOR_GREEN);

    /* of a version that the reader knows no value is new */
    struct slice same = slice_of(message, order_v1(message, 3));
    CU_ASSERT_EQUAL(sbe_validate(&v1_schema, same, 100, SBE_KEEP_UNKNOWN, &view), SBE_BAD_VALUE);
    struct slice marked = slice_of(message, order_v1(message, V1_COLOR_RED));
    sbe_store_uint32(message + 8 + 12, 1u << 29);
    CU_ASSERT_EQUAL(sbe_validate(&v1_schema, marked, 100, SBE_KEEP_UNKNOWN, &view), SBE_BAD_VALUE);
    /* in a group, too */
    struct slice grouped = slice_of(message, order_v1(message, V1_COLOR_RED));
    sbe_store_uint16(message + 8 + V1_ORDER_BLOCK_BYTES + V1_ORDER_ITEMS_SIZE_BYTES + 4, 77);
    CU_ASSERT_EQUAL(sbe_validate(&v1_schema, grouped, 100, SBE_KEEP_UNKNOWN, &view), SBE_BAD_VALUE);
    CU_ASSERT_EQUAL(sbe_validate(&v0_schema, grouped, 100, SBE_REFUSE_UNKNOWN, &view), SBE_BAD_VALUE);
    CU_ASSERT_EQUAL(sbe_validate(&v0_schema, grouped, 100, SBE_KEEP_UNKNOWN, &view), SBE_GOOD);
}

static void
a_message_has_the_lengths_of_the_version_it_names(void)
{
    uint8_t message[256];
    struct sbe_view view;
    size_t bytes = order_v1(message, V1_COLOR_BLUE);
    sbe_store_uint16(message + 6, 0); /* says version 0 */
    CU_ASSERT_EQUAL(sbe_validate(&v0_schema, slice_of(message, bytes), 100, SBE_KEEP_UNKNOWN, &view), SBE_BAD_BLOCK);
    CU_ASSERT_EQUAL(sbe_validate(&v1_schema, slice_of(message, bytes), 100, SBE_KEEP_UNKNOWN, &view), SBE_BAD_BLOCK);
    bytes = order_v0(message);
    sbe_store_uint16(message + 6, 1); /* says version 1 */
    CU_ASSERT_EQUAL(sbe_validate(&v1_schema, slice_of(message, bytes), 100, SBE_KEEP_UNKNOWN, &view), SBE_BAD_BLOCK);
    /* for version 0's reader any version 1 that only appends is possible, one that appends nothing too */
    CU_ASSERT_EQUAL(sbe_validate(&v0_schema, slice_of(message, bytes), 100, SBE_KEEP_UNKNOWN, &view), SBE_GOOD);
    check_old_parts(&view);
}

static void
a_newer_block_is_never_shorter_than_ours(void)
{
    uint8_t message[256];
    struct sbe_view view;
    for (uint16_t block = 7; block <= 9; block++) {
        memset(message, 0, sizeof(message));
        sbe_put_header(message, block, V1_EXTRA_TEMPLATE, V1_SCHEMA_ID, 2);
        size_t bytes = SBE_HEADER_BYTES + (size_t)block;
        uint8_t *at = guard_end(message, bytes);
        CU_ASSERT_EQUAL(sbe_validate(&v1_schema, slice_of(at, bytes), 0, SBE_KEEP_UNKNOWN, &view),
                        block < 8 ? SBE_BAD_BLOCK : SBE_GOOD);
    }
    /* two items of 5 bytes where ours have 6; zeros make every length 0 */
    memset(message, 0, sizeof(message));
    uint8_t *at = v0_order_items_put(v0_order_put(message, 1, V0_COLOR_RED), 2);
    sbe_store_uint16(message + 6, 1);
    sbe_store_uint16(at - V0_ORDER_ITEMS_SIZE_BYTES, V0_ORDER_ITEMS_BLOCK_BYTES - 1);
    at += 2 * (V0_ORDER_ITEMS_BLOCK_BYTES - 1 + SBE_LENGTH_BYTES) + V0_ORDER_TAGS_SIZE_BYTES + SBE_LENGTH_BYTES;
    CU_ASSERT_EQUAL(sbe_validate(&v0_schema, slice_of(message, (size_t)(at - message)), 9, SBE_KEEP_UNKNOWN, &view),
                    SBE_BAD_GROUP);
}

static void
a_message_exists_from_its_version_on(void)
{
    uint8_t message[64];
    struct sbe_view view;
    size_t bytes = (size_t)(v1_extra_put(message, 5) - message);
    CU_ASSERT_EQUAL(sbe_validate(&v1_schema, slice_of(message, bytes), 0, SBE_REFUSE_UNKNOWN, &view), SBE_GOOD);
    CU_ASSERT_EQUAL(sbe_validate(&v0_schema, slice_of(message, bytes), 0, SBE_REFUSE_UNKNOWN, &view), SBE_NO_TEMPLATE);
    sbe_store_uint16(message + 6, 0);
    CU_ASSERT_EQUAL(sbe_validate(&v1_schema, slice_of(message, bytes), 0, SBE_REFUSE_UNKNOWN, &view), SBE_NO_TEMPLATE);
}

static void
entries_are_limited_exactly(void)
{
    uint8_t message[256];
    struct sbe_view view;
    struct slice order = slice_of(message, order_v0(message));
    /* two items and a tag: all groups count together */
    CU_ASSERT_EQUAL(sbe_validate(&v0_schema, order, 2, SBE_REFUSE_UNKNOWN, &view), SBE_TOO_MANY);
    CU_ASSERT_EQUAL(sbe_validate(&v0_schema, order, 3, SBE_REFUSE_UNKNOWN, &view), SBE_GOOD);
    CU_ASSERT_EQUAL(sbe_validate(&v0_schema, order, 4, SBE_REFUSE_UNKNOWN, &view), SBE_GOOD);
}

/* Validate, and on success touch all that getters can reach. */
static void
read_all(const struct sbe_schema *schema, const uint8_t *message, size_t bytes)
{
    struct sbe_view view;
    if (sbe_validate(schema, slice_of(message, bytes), UINT32_MAX, SBE_KEEP_UNKNOWN, &view) != SBE_GOOD ||
        view.template_id != V1_ORDER_TEMPLATE) {
        return;
    }
    struct sbe_group items = v1_order_items(&view);
    struct v1_order_items_entry item = { 0 };
    struct slice ends[2] = { v1_order_name(&view), { NULL, 0 } };
    size_t seen = 8;
    if (schema->version == 1) {
        ends[1] = v1_order_note(&view);
        CU_ASSERT(!v1_order_has_rank(&view) || v1_order_rank(&view) <= INT16_MAX);
        while (v1_order_items_next(&items, &item)) {
            seen += items.block_bytes + SBE_LENGTH_BYTES + item.label.bytes;
            CU_ASSERT(item.label.data >= message && item.label.data + item.label.bytes <= message + bytes);
        }
    }
    for (int i = 0; i < 2; i++) {
        CU_ASSERT(ends[i].data == NULL || ends[i].data + ends[i].bytes <= message + bytes);
        seen += ends[i].bytes;
    }
    CU_ASSERT(seen <= bytes);
}

static void
every_cut_and_changed_byte_is_survived_by_both_versions(void)
{
    const struct sbe_schema *const schemas[] = { &v0_schema, &v1_schema };
    for (int version = 0; version < 2; version++) {
        uint8_t message[256];
        size_t bytes = version == 0 ? order_v0(message) : order_v1(message, V1_COLOR_RED);
        for (size_t s = 0; s < ARRAY_COUNT(schemas); s++) {
            for (size_t cut = 0; cut < bytes; cut++) {
                struct sbe_view view;
                uint8_t *part = guard_end(message, cut);
                enum sbe_verdict verdict =
                    sbe_validate(schemas[s], slice_of(part, cut), UINT32_MAX, SBE_KEEP_UNKNOWN, &view);
                /* an order of version 1 without its note is one that version 0 may take for complete */
                bool whole = s == 0 && version == 1 && cut == bytes - 11;
                CU_ASSERT_EQUAL(verdict == SBE_GOOD, whole);
            }
            for (size_t at = 0; at < bytes; at++) {
                for (int value = 0; value < 256; value++) {
                    uint8_t *end = guard_end(message, bytes);
                    end[at] = (uint8_t)value;
                    read_all(schemas[s], end, bytes);
                }
            }
        }
    }
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("sbe_evolve", NULL, NULL);
    CU_ADD_TEST(suite, every_cut_and_changed_byte_is_survived_by_both_versions);
    CU_ADD_TEST(suite, a_value_that_is_newer_than_the_reader_is_refused_or_kept_as_asked);
    CU_ADD_TEST(suite, a_message_has_the_lengths_of_the_version_it_names);
    CU_ADD_TEST(suite, a_newer_block_is_never_shorter_than_ours);
    CU_ADD_TEST(suite, a_message_exists_from_its_version_on);
    CU_ADD_TEST(suite, entries_are_limited_exactly);
    CU_ADD_TEST(suite, an_older_reader_reads_a_newer_message);
    CU_ADD_TEST(suite, a_newer_reader_reads_an_older_message);
    CU_ADD_TEST(suite, equal_versions_read_everything);
    CU_basic_set_mode(CU_BRM_NORMAL);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
