/* test_envelope.c - the header of a fabric message. */
#include "codec/envelope.h"
#include <CUnit/Basic.h>

static const uint8_t DATA_AB[ENVELOPE_BYTES + 2] = {
    0x53, 0x4c, 1,    1,    2,    0,    7,    0,    /* magic, version, DATA, 2 bytes, credit 7 */
    0x44, 0x33, 0x22, 0x11, 0x88, 0x77, 0x66, 0x55, /* incarnation, wire id */
    8,    7,    6,    5,    4,    3,    2,    1,    /* offset */
    9,    0,    0,    0,    0,    0,    0,    0x80, /* acknowledged */
    'a',  'b',
};

static void
a_message_cut_anywhere_is_refused(void)
{
    for (size_t cut = 0; cut < sizeof(DATA_AB); cut++) {
        struct envelope envelope;
        struct slice payload = SLICE_LITERAL("untouched");
        enum envelope_verdict want = cut < ENVELOPE_BYTES ? ENVELOPE_TOO_SHORT : ENVELOPE_BAD_LENGTH;
        CU_ASSERT_EQUAL(envelope_read(slice_of(DATA_AB, cut), &envelope, &payload), want);
        CU_ASSERT_EQUAL(payload.bytes, 9);
    }
}

static void
each_wrong_field_is_named(void)
{
    static const struct {
        const char *name;
        size_t at;
        uint8_t value;
        size_t bytes;
        enum envelope_verdict want;
    } rows[] = {
        { "magic, first byte", 0, 0x52, 34, ENVELOPE_BAD_MAGIC },
        { "magic, second byte", 1, 0x4d, 34, ENVELOPE_BAD_MAGIC },
        { "version 0", 2, 0, 34, ENVELOPE_BAD_VERSION },
        { "version 2", 2, 2, 34, ENVELOPE_BAD_VERSION },
        { "kind 0", 3, 0, 34, ENVELOPE_BAD_KIND },
        { "kind 7", 3, 7, 34, ENVELOPE_BAD_KIND },
        { "kind 255", 3, 255, 34, ENVELOPE_BAD_KIND },
        { "length one less than came", 4, 1, 34, ENVELOPE_BAD_LENGTH },
        { "length one more than came", 4, 3, 34, ENVELOPE_BAD_LENGTH },
        { "length off by 256", 5, 1, 34, ENVELOPE_BAD_LENGTH },
        { "DATA without data", 4, 0, 32, ENVELOPE_BAD_LENGTH },
        { "ACK with data", 3, ENVELOPE_ACK, 34, ENVELOPE_BAD_LENGTH },
        { "PING with data", 3, ENVELOPE_PING, 34, ENVELOPE_BAD_LENGTH },
        { "PONG with data", 3, ENVELOPE_PONG, 34, ENVELOPE_BAD_LENGTH },
        { "DETACH with data", 3, ENVELOPE_DETACH, 34, ENVELOPE_BAD_LENGTH },
        { "ERROR with a sentence", 3, ENVELOPE_ERROR, 34, ENVELOPE_GOOD },
    };

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        uint8_t message[sizeof(DATA_AB)];
        struct envelope envelope;
        struct slice payload;
        memcpy(message, DATA_AB, sizeof(message));
        message[rows[i].at] = rows[i].value;
        enum envelope_verdict verdict = envelope_read(slice_of(message, rows[i].bytes), &envelope, &payload);
        if (verdict != rows[i].want) {
            fprintf(stderr, "row: %s\n", rows[i].name);
        }
        CU_ASSERT_EQUAL(verdict, rows[i].want);
    }
}

static void
a_length_of_65503_fits_and_one_more_cannot_be_said(void)
{
    static uint8_t message[UINT16_MAX + 2];
    struct envelope envelope = { .kind = ENVELOPE_DATA, .payload_bytes = UINT16_MAX - ENVELOPE_BYTES };
    struct slice payload;

    envelope_write(message, &envelope);
    CU_ASSERT_EQUAL(envelope_read(slice_of(message, UINT16_MAX), &envelope, &payload), ENVELOPE_GOOD);
    CU_ASSERT_EQUAL(payload.bytes, 65503);
    CU_ASSERT_EQUAL(envelope_read(slice_of(message, UINT16_MAX + 1), &envelope, &payload), ENVELOPE_BAD_LENGTH);
    /* 65536 of payload would wrap to 0 in 16 bits */
    envelope.kind = ENVELOPE_DATA;
    envelope.payload_bytes = (uint16_t)65536u;
    envelope_write(message, &envelope);
    CU_ASSERT_EQUAL(envelope_read(slice_of(message, UINT16_MAX + 1), &envelope, &payload), ENVELOPE_BAD_LENGTH);
}

static void
every_field_is_little_endian_at_its_place(void)
{
    struct envelope envelope;
    struct slice payload;

    CU_ASSERT_EQUAL(envelope_read(slice_of(DATA_AB, sizeof(DATA_AB)), &envelope, &payload), ENVELOPE_GOOD);
    CU_ASSERT_EQUAL(envelope.kind, ENVELOPE_DATA);
    CU_ASSERT_EQUAL(envelope.credit, 7);
    CU_ASSERT_EQUAL(envelope.incarnation, 0x11223344);
    CU_ASSERT_EQUAL(envelope.wire_id, 0x55667788);
    CU_ASSERT_EQUAL(envelope.offset, 0x0102030405060708);
    CU_ASSERT_EQUAL(envelope.acknowledged, 0x8000000000000009);
    CU_ASSERT(slice_equal(payload, SLICE_LITERAL("ab")));
    CU_ASSERT_PTR_EQUAL(payload.data, DATA_AB + ENVELOPE_BYTES);
}

static void
writing_what_was_read_gives_the_same_bytes(void)
{
    struct envelope envelope;
    struct slice payload;
    uint8_t out[ENVELOPE_BYTES];

    CU_ASSERT_EQUAL(envelope_read(slice_of(DATA_AB, sizeof(DATA_AB)), &envelope, &payload), ENVELOPE_GOOD);
    envelope.magic = 0; /* filled in by the writer, whatever the caller left there */
    envelope.version = 0;
    envelope_write(out, &envelope);
    CU_ASSERT_EQUAL(memcmp(out, DATA_AB, ENVELOPE_BYTES), 0);
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("envelope", NULL, NULL);
    CU_ADD_TEST(suite, a_message_cut_anywhere_is_refused);
    CU_ADD_TEST(suite, each_wrong_field_is_named);
    CU_ADD_TEST(suite, a_length_of_65503_fits_and_one_more_cannot_be_said);
    CU_ADD_TEST(suite, every_field_is_little_endian_at_its_place);
    CU_ADD_TEST(suite, writing_what_was_read_gives_the_same_bytes);
    CU_basic_set_mode(CU_BRM_NORMAL);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
