/* Packed hashes against a naive model: random commands, tag collisions, limits. */
#include "store/packed_hash.h"
#include "test/store/packed_model.h"
#include <CUnit/Basic.h>

static struct text
text_random(uint32_t universe, size_t pad)
{
    struct text text = { .count = 0 };
    uint32_t id = random_below(universe);
    if (id != 0) { /* 0 is the empty text */
        text.count = (size_t)snprintf((char *)text.bytes, sizeof(text.bytes), "f%u", id);
    }
    for (size_t i = 0; i < pad; i++) {
        text.bytes[text.count++] = (uint8_t)('a' + id % 26);
    }
    return text;
}

/* ---- the model: a list in order of insertion ---- */

struct model {
    uint32_t count;
    struct text fields[MODEL_MAX], values[MODEL_MAX];
};

static uint32_t
model_find(const struct model *model, struct slice field)
{
    uint32_t i = 0;
    while (i < model->count && !slice_equal(text_slice(&model->fields[i]), field)) {
        i++;
    }
    return i;
}

static uint32_t
model_set(struct model *model, const struct text *field, const struct text *value)
{
    uint32_t i = model_find(model, text_slice(field));
    uint32_t added = i == model->count;
    model->fields[i] = *field;
    model->values[i] = *value;
    model->count += added;
    return added;
}

static uint32_t
model_remove(struct model *model, struct slice field)
{
    uint32_t i = model_find(model, field);
    if (i == model->count) {
        return 0;
    }
    memmove(&model->fields[i], &model->fields[i + 1], (model->count - i - 1) * sizeof(model->fields[0]));
    memmove(&model->values[i], &model->values[i + 1], (model->count - i - 1) * sizeof(model->values[0]));
    model->count--;
    return 1;
}

static size_t
model_bytes(const struct model *model)
{
    size_t bytes = 2;
    for (uint32_t i = 0; i < model->count; i++) {
        bytes += 4 + (model->fields[i].count < 255 ? 1 : 3) + model->fields[i].count + model->values[i].count;
    }
    return bytes;
}

/* ---- the object under test: its value in memory of exactly its size, so that ASan sees every byte too many ---- */

static struct slice
value_write(const struct packed_hash_plan *plan, struct slice old)
{
    uint8_t *room = malloc(plan->bytes);
    packed_hash_write(plan, room);
    free((void *)old.data);
    return slice_of(room, plan->bytes);
}

static void
check_same(const struct model *model, struct slice value, uint32_t tags_count)
{
    struct packed hash = packed_hash_open(value);
    CU_ASSERT_EQUAL_FATAL(hash.count, model->count);
    if (model->count != 0) {
        CU_ASSERT_EQUAL_FATAL(value.bytes, model_bytes(model));
    }
    for (uint32_t i = 0; i < model->count; i++) {
        struct slice field, content, found;
        packed_hash_at(&hash, i, &field, &content);
        CU_ASSERT_TRUE_FATAL(slice_equal(field, text_slice(&model->fields[i])));
        CU_ASSERT_TRUE_FATAL(slice_equal(content, text_slice(&model->values[i])));
        CU_ASSERT_EQUAL_FATAL(packed_hash_find(&hash, field, tag_of(field, tags_count), &found), i);
        CU_ASSERT_TRUE_FATAL(slice_equal(found, content));
    }
}

struct run {
    const char *name;
    uint64_t seed;
    uint32_t steps, universe, tags_count, pairs_max, field_pad_max, value_pad_max;
};

static const struct run runs[] = {
    { "few fields", 1, 3000, 8, 65536, 4, 3, 20 },
    { "every tag equal", 2, 1000, 40, 1, 8, 3, 20 },
    { "two tags, long commands", 3, 200, 300, 2, 300, 2, 9 },
    { "many fields", 4, 150, 1500, 65536, 512, 2, 9 },
    { "lengths around the two-byte form", 5, 300, 120, 65536, 8, 300, 400 },
};

static struct model model, before;

static void
step_set(const struct run *run, struct slice *value)
{
    static struct text fields[PAIRS_MAX], values[PAIRS_MAX];
    struct packed_pair pairs[PAIRS_MAX];
    uint32_t count = 1 + random_below(run->pairs_max), added = 0;

    before = model;
    for (uint32_t i = 0; i < count; i++) {
        /* the pad is a function of the id, so that the same id is the same field */
        fields[i] = text_random(run->universe, 0);
        for (size_t pad = fields[i].bytes[fields[i].count / 2] % (run->field_pad_max + 1); pad > 0; pad--) {
            fields[i].bytes[fields[i].count++] = 'p';
        }
        values[i] = text_random(1000, random_below(run->value_pad_max));
        pairs[i] = (struct packed_pair){ text_slice(&fields[i]), text_slice(&values[i]),
                                         tag_of(text_slice(&fields[i]), run->tags_count) };
        added += model_set(&model, &fields[i], &values[i]);
    }

    struct packed_hash_plan plan;
    bool fits = packed_hash_plan_set(&plan, *value, pairs, count);
    CU_ASSERT_EQUAL_FATAL(fits, model.count <= LIMIT_PACKED_ENTRIES && model_bytes(&model) <= LIMIT_PACKED_BYTES);
    CU_ASSERT_EQUAL_FATAL(plan.added, added);
    if (fits) {
        *value = value_write(&plan, *value);
    } else {
        model = before;
    }
}

static void
step_remove(const struct run *run, struct slice *value)
{
    static struct text fields[PAIRS_MAX];
    struct packed_pair pairs[PAIRS_MAX];
    uint32_t count = 1 + random_below(run->pairs_max), removed = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (model.count != 0 && random_below(4) != 0) {
            fields[i] = before.count != 0 ? before.fields[random_below(before.count)] : model.fields[0];
        } else {
            fields[i] = text_random(run->universe, 0);
        }
        pairs[i] = (struct packed_pair){ .field = text_slice(&fields[i]),
                                         .tag = tag_of(text_slice(&fields[i]), run->tags_count) };
        removed += model_remove(&model, text_slice(&fields[i]));
    }

    struct packed_hash_plan plan;
    packed_hash_plan_remove(&plan, *value, pairs, count);
    CU_ASSERT_EQUAL_FATAL(plan.removed, removed);
    CU_ASSERT_EQUAL_FATAL(plan.count, model.count);
    if (plan.count == 0) {
        free((void *)value->data);
        *value = slice_of(NULL, 0);
    } else if (removed != 0) {
        *value = value_write(&plan, *value);
    }
}

static void
random_commands_agree_with_the_model(void)
{
    for (size_t r = 0; r < ARRAY_COUNT(runs); r++) {
        struct slice value = { NULL, 0 };
        random_state = runs[r].seed * 0x9e3779b97f4a7c15ull;
        model.count = before.count = 0;
        for (uint32_t step = 0; step < runs[r].steps; step++) {
            if (random_below(3) != 0) {
                step_set(&runs[r], &value);
            } else {
                step_remove(&runs[r], &value);
            }
            check_same(&model, value, runs[r].tags_count);
        }
        free((void *)value.data);
    }
}

static void
an_absent_field_is_not_found(void)
{
    struct packed_pair pair = { SLICE_LITERAL("name"), SLICE_LITERAL("value"), 9 };
    struct packed none = packed_hash_open(slice_of(NULL, 0));
    struct slice found;
    CU_ASSERT_EQUAL(packed_hash_find(&none, pair.field, 9, &found), 0);

    struct packed_hash_plan plan;
    CU_ASSERT_TRUE_FATAL(packed_hash_plan_set(&plan, slice_of(NULL, 0), &pair, 1));
    struct slice value = value_write(&plan, slice_of(NULL, 0));
    struct packed hash = packed_hash_open(value);
    CU_ASSERT_EQUAL(packed_hash_find(&hash, SLICE_LITERAL("nam"), 9, &found), hash.count);
    CU_ASSERT_EQUAL(packed_hash_find(&hash, SLICE_LITERAL("name1"), 9, &found), hash.count);
    CU_ASSERT_EQUAL(packed_hash_find(&hash, SLICE_LITERAL(""), 9, &found), hash.count);
    CU_ASSERT_EQUAL(packed_hash_find(&hash, pair.field, 9, &found), 0);
    CU_ASSERT_EQUAL(value.bytes, 2 + 5 + 4 + 5); /* the overhead that the header states */
    free((void *)value.data);
}

/* A hash of `count` fields whose last value is padded to `bytes` in all; NULL data when refused. */
static struct slice
hash_of(uint32_t count, size_t bytes)
{
    static uint8_t padding[LIMIT_PACKED_BYTES];
    static char names[LIMIT_PACKED_ENTRIES + 1][8];
    struct slice value = { NULL, 0 };
    for (uint32_t done = 0; done < count;) {
        struct packed_pair pairs[PAIRS_MAX];
        uint32_t n = MIN(count - done, PAIRS_MAX);
        for (uint32_t i = 0; i < n; i++) {
            int name_bytes = snprintf(names[done + i], sizeof(names[0]), "%u", done + i);
            pairs[i] = (struct packed_pair){ .field = slice_of(names[done + i], (size_t)name_bytes),
                                             .tag = (uint16_t)(done + i) };
        }
        struct packed_hash_plan plan;
        bool fits = packed_hash_plan_set(&plan, value, pairs, n);
        if (fits && done + n == count && plan.bytes < bytes) {
            pairs[n - 1].value = slice_of(padding, bytes - plan.bytes);
            fits = packed_hash_plan_set(&plan, value, pairs, n);
            CU_ASSERT_EQUAL(plan.bytes, bytes);
        }
        if (!fits) {
            free((void *)value.data);
            return slice_of(NULL, 0);
        }
        value = value_write(&plan, value);
        done += n;
    }
    return value;
}

static void
limits_hold_at_the_edge(void)
{
    static const struct {
        uint32_t count;
        size_t bytes;
        bool fits;
    } rows[] = {
        { LIMIT_PACKED_ENTRIES - 1, 0, true },
        { LIMIT_PACKED_ENTRIES, 0, true },
        { LIMIT_PACKED_ENTRIES + 1, 0, false },
        { 1, LIMIT_PACKED_BYTES - 1, true },
        { 1, LIMIT_PACKED_BYTES, true },
        { 1, LIMIT_PACKED_BYTES + 1, false },
        { LIMIT_PACKED_ENTRIES, LIMIT_PACKED_BYTES - 1, true },
        { LIMIT_PACKED_ENTRIES, LIMIT_PACKED_BYTES, true },
        { LIMIT_PACKED_ENTRIES, LIMIT_PACKED_BYTES + 1, false },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct slice value = hash_of(rows[i].count, rows[i].bytes);
        CU_ASSERT_EQUAL(value.data != NULL, rows[i].fits);
        if (value.data != NULL) {
            struct packed hash = packed_hash_open(value);
            struct slice field, content;
            packed_hash_at(&hash, hash.count - 1, &field, &content);
            CU_ASSERT_EQUAL(hash.count, rows[i].count);
            CU_ASSERT_TRUE(rows[i].bytes == 0 || value.bytes == rows[i].bytes);
            CU_ASSERT_PTR_EQUAL(content.data + content.bytes, value.data + value.bytes);
        }
        free((void *)value.data);
    }
}

static void
huge_fields_and_values_are_refused_without_wrapping(void)
{
    static uint8_t bytes[2 * LIMIT_VALUE_BYTES];
    static const size_t sizes[] = { 65535, 65536, 65537, 131072, LIMIT_VALUE_BYTES, 2 * LIMIT_VALUE_BYTES };
    struct packed_pair pairs[PAIRS_MAX];
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        struct packed_hash_plan plan;
        pairs[0] = (struct packed_pair){ .field = slice_of(bytes, sizes[i]) };
        CU_ASSERT_FALSE(packed_hash_plan_set(&plan, slice_of(NULL, 0), pairs, 1));
        pairs[0] = (struct packed_pair){ .value = slice_of(bytes, sizes[i]) };
        CU_ASSERT_FALSE(packed_hash_plan_set(&plan, slice_of(NULL, 0), pairs, 1));
    }
    for (uint32_t i = 0; i < PAIRS_MAX; i++) {
        pairs[i] = (struct packed_pair){ slice_of(bytes, i), slice_of(bytes, sizeof(bytes)), (uint16_t)i };
    }
    struct packed_hash_plan plan;
    CU_ASSERT_FALSE(packed_hash_plan_set(&plan, slice_of(NULL, 0), pairs, PAIRS_MAX));
}

static void
removing_works_on_a_full_hash(void)
{
    struct slice value = hash_of(LIMIT_PACKED_ENTRIES, LIMIT_PACKED_BYTES);
    for (uint32_t left = LIMIT_PACKED_ENTRIES; left > 0; left--) {
        struct packed hash = packed_hash_open(value);
        struct packed_pair pair = { .tag = 0 };
        packed_hash_at(&hash, left / 2, &pair.field, &pair.value);
        pair.tag = packed_word(hash.tags, left / 2);
        struct packed_hash_plan plan;
        packed_hash_plan_remove(&plan, value, &pair, 1);
        CU_ASSERT_EQUAL_FATAL(plan.count, left - 1);
        if (plan.count != 0) {
            value = value_write(&plan, value);
        }
    }
    free((void *)value.data);
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("packed_hash", NULL, NULL);
    CU_ADD_TEST(suite, huge_fields_and_values_are_refused_without_wrapping);
    CU_ADD_TEST(suite, limits_hold_at_the_edge);
    CU_ADD_TEST(suite, an_absent_field_is_not_found);
    CU_ADD_TEST(suite, removing_works_on_a_full_hash);
    CU_ADD_TEST(suite, random_commands_agree_with_the_model);
    CU_basic_run_tests();
    return CU_get_number_of_failures() != 0;
}
