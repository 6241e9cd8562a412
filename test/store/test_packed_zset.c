/* Packed sorted sets against a naive model: random commands with every option, tag collisions, limits. */
#include "store/packed_zset.h"
#include "test/store/packed_model.h"
#include <CUnit/Basic.h>
#include <math.h>

/* Members of one universe share prefixes, and are of different lengths. */
static struct text
member_random(uint32_t universe)
{
    struct text text = { .count = 0 };
    uint32_t id = random_below(universe);
    for (; id != 0; id /= 7) {
        text.bytes[text.count++] = (uint8_t)("\x00m\x80zm\xff"
                                             "a"[id % 7]);
        if (id % 5 == 0) {
            memset(text.bytes + text.count, 'p', 8);
            text.count += 8;
        }
    }
    return text;
}

static double
score_random(void)
{
    static const double edges[] = { 0, -0.0, INFINITY, -INFINITY, 4.9e-324, 1.7976931348623157e308, 0.1, -1 };
    if (random_below(4) == 0) {
        return edges[random_below(ARRAY_COUNT(edges))];
    }
    return (double)random_below(20) - 10;
}

/* ---- the model: members in no order ---- */

struct entry {
    struct text member;
    double score;
};

struct model {
    uint32_t count;
    struct entry entries[MODEL_MAX];
};

struct outcome {
    uint32_t added, updated;
    bool touched, is_nan;
    double last_score;
};

static uint32_t
model_find(const struct model *model, struct slice member)
{
    uint32_t i = 0;
    while (i < model->count && !slice_equal(text_slice(&model->entries[i].member), member)) {
        i++;
    }
    return i;
}

/* ZADD of one pair, written from the manual: options first, then what they mean. */
static void
model_add(struct model *model, uint32_t flags, const struct text *member, double score, struct outcome *outcome)
{
    uint32_t i = model_find(model, text_slice(member));
    bool exists = i < model->count;
    if ((exists && (flags & PACKED_ZSET_NX)) || (!exists && (flags & PACKED_ZSET_XX))) {
        return;
    }
    if (!exists) {
        model->entries[model->count++] = (struct entry){ *member, score };
        outcome->added++;
    } else {
        double current = model->entries[i].score;
        double wanted = flags & PACKED_ZSET_INCR ? current + score : score;
        if (isnan(wanted)) {
            outcome->is_nan = true;
            return;
        }
        if ((flags & PACKED_ZSET_GT && !(wanted > current)) || (flags & PACKED_ZSET_LT && !(wanted < current))) {
            return;
        }
        score = wanted;
        if (wanted != current) {
            model->entries[i].score = wanted;
            outcome->updated++;
        }
    }
    outcome->touched = true;
    outcome->last_score = score;
}

static uint32_t
model_remove(struct model *model, struct slice member)
{
    uint32_t i = model_find(model, member);
    if (i == model->count) {
        return 0;
    }
    model->entries[i] = model->entries[--model->count];
    return 1;
}

static size_t
model_bytes(const struct model *model)
{
    size_t bytes = 2;
    for (uint32_t i = 0; i < model->count; i++) {
        bytes += 12 + model->entries[i].member.count;
    }
    return bytes;
}

static int
entry_compare(const void *a_entry, const void *b_entry)
{
    const struct entry *a = a_entry, *b = b_entry;
    if (a->score != b->score) {
        return a->score < b->score ? -1 : 1;
    }
    int order = memcmp(a->member.bytes, b->member.bytes, MIN(a->member.count, b->member.count));
    return order != 0 ? order : (int)a->member.count - (int)b->member.count;
}

/* ---- the object under test ---- */

static struct slice
value_write(const struct packed_zset_plan *plan, struct slice old)
{
    uint8_t *room = malloc(plan->bytes);
    packed_zset_write(plan, room);
    free((void *)old.data);
    return slice_of(room, plan->bytes);
}

static struct model model, before, sorted;

static void
check_same(struct slice value, uint32_t tags_count)
{
    struct packed zset = packed_zset_open(value);
    CU_ASSERT_EQUAL_FATAL(zset.count, model.count);
    sorted.count = model.count;
    memcpy(sorted.entries, model.entries, model.count * sizeof(model.entries[0]));
    qsort(sorted.entries, sorted.count, sizeof(sorted.entries[0]), entry_compare);
    if (model.count != 0) {
        CU_ASSERT_EQUAL_FATAL(value.bytes, model_bytes(&model));
    }
    for (uint32_t rank = 0; rank < sorted.count; rank++) {
        struct slice member = packed_zset_member(&zset, rank);
        double score = packed_zset_score(&zset, rank);
        CU_ASSERT_TRUE_FATAL(slice_equal(member, text_slice(&sorted.entries[rank].member)));
        CU_ASSERT_TRUE_FATAL(memcmp(&score, &sorted.entries[rank].score, sizeof(score)) == 0); /* 0 is not -0 */
        CU_ASSERT_EQUAL_FATAL(packed_zset_find(&zset, member, tag_of(member, tags_count)), rank);
    }
}

static void
check_bounds(struct slice value)
{
    struct packed zset = packed_zset_open(value);
    for (int i = 0; i < 20; i++) {
        double score = score_random();
        uint32_t low = 0, high = 0;
        while (low < zset.count && packed_zset_score(&zset, low) < score) {
            low++;
        }
        for (high = low; high < zset.count && packed_zset_score(&zset, high) <= score;) {
            high++;
        }
        CU_ASSERT_EQUAL_FATAL(packed_zset_score_bound(&zset, 0, score, false), low);
        CU_ASSERT_EQUAL_FATAL(packed_zset_score_bound(&zset, 0, score, true), high);
    }
}

struct run {
    const char *name;
    uint64_t seed;
    uint32_t steps, universe, tags_count, pairs_max;
};

static const struct run runs[] = {
    { "few members", 1, 4000, 9, 65536, 4 },
    { "every tag equal", 2, 1500, 60, 1, 8 },
    { "two tags, long commands", 3, 300, 400, 2, 300 },
    { "many members", 4, 200, 1500, 65536, 512 },
    { "one pair a command", 5, 3000, 300, 65536, 1 },
};

static void
step_add(const struct run *run, struct slice *value)
{
    static const uint32_t options[] = { 0,
                                        0,
                                        0,
                                        PACKED_ZSET_NX,
                                        PACKED_ZSET_XX,
                                        PACKED_ZSET_GT,
                                        PACKED_ZSET_LT,
                                        PACKED_ZSET_XX | PACKED_ZSET_GT,
                                        PACKED_ZSET_XX | PACKED_ZSET_LT };
    static struct text members[PAIRS_MAX];
    struct packed_score pairs[PAIRS_MAX];
    uint32_t count = 1 + random_below(run->pairs_max), flags = options[random_below(ARRAY_COUNT(options))];
    struct outcome outcome = { 0 };
    if (count == 1 && random_below(2)) {
        flags |= PACKED_ZSET_INCR;
    }

    before = model;
    for (uint32_t i = 0; i < count; i++) {
        members[i] = member_random(run->universe);
        struct slice member = text_slice(&members[i]);
        pairs[i] = (struct packed_score){ score_random(), member, tag_of(member, run->tags_count) };
        model_add(&model, flags, &members[i], pairs[i].score, &outcome);
    }

    struct packed_zset_plan plan;
    bool fits = packed_zset_plan_add(&plan, *value, flags, pairs, count);
    CU_ASSERT_EQUAL_FATAL(fits, model.count <= LIMIT_PACKED_ENTRIES && model_bytes(&model) <= LIMIT_PACKED_BYTES);
    CU_ASSERT_EQUAL_FATAL(plan.added, outcome.added);
    CU_ASSERT_EQUAL_FATAL(plan.updated, outcome.updated);
    CU_ASSERT_EQUAL_FATAL(plan.touched, outcome.touched);
    CU_ASSERT_EQUAL_FATAL(plan.is_nan, outcome.is_nan);
    CU_ASSERT_EQUAL_FATAL(plan.last_score, outcome.last_score);
    if (!fits) {
        model = before;
    } else if (plan.added + plan.updated != 0) {
        *value = value_write(&plan, *value);
    }
}

static void
step_remove(const struct run *run, struct slice *value)
{
    static struct text members[PAIRS_MAX];
    struct packed_score pairs[PAIRS_MAX];
    uint32_t count = 1 + random_below(run->pairs_max), removed = 0;
    for (uint32_t i = 0; i < count; i++) {
        members[i] = model.count != 0 && random_below(4) != 0 ? model.entries[random_below(model.count)].member
                                                              : member_random(run->universe);
        struct slice member = text_slice(&members[i]);
        pairs[i] = (struct packed_score){ 0, member, tag_of(member, run->tags_count) };
        removed += model_remove(&model, member);
    }

    struct packed_zset_plan plan;
    packed_zset_plan_remove(&plan, *value, pairs, count);
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
        model.count = 0;
        for (uint32_t step = 0; step < runs[r].steps; step++) {
            if (random_below(3) != 0) {
                step_add(&runs[r], &value);
            } else {
                step_remove(&runs[r], &value);
            }
            check_same(value, runs[r].tags_count);
            check_bounds(value);
        }
        free((void *)value.data);
    }
}

/* ---- edges ---- */

static struct slice
zset_of(uint32_t count, size_t bytes)
{
    static uint8_t member[LIMIT_PACKED_BYTES];
    static char names[LIMIT_PACKED_ENTRIES + 1][8];
    struct slice value = { NULL, 0 };
    for (uint32_t i = 0; i < count; i++) {
        int name_bytes = snprintf(names[i], sizeof(names[0]), "%u", i);
        struct packed_score pair = { i, slice_of(names[i], (size_t)name_bytes), (uint16_t)i };
        if (i + 1 == count && bytes != 0) {
            size_t used = value.bytes == 0 ? PACKED_HEADER_BYTES : value.bytes;
            pair.member = slice_of(member, bytes - used - PACKED_ZSET_ENTRY_BYTES);
        }
        struct packed_zset_plan plan;
        if (!packed_zset_plan_add(&plan, value, 0, &pair, 1)) {
            free((void *)value.data);
            return slice_of(NULL, 0);
        }
        value = value_write(&plan, value);
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
        { LIMIT_PACKED_ENTRIES, LIMIT_PACKED_BYTES, true },
        { LIMIT_PACKED_ENTRIES, LIMIT_PACKED_BYTES + 1, false },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct slice value = zset_of(rows[i].count, rows[i].bytes);
        CU_ASSERT_EQUAL(value.data != NULL, rows[i].fits);
        CU_ASSERT_TRUE(value.data == NULL || rows[i].bytes == 0 || value.bytes == rows[i].bytes);
        free((void *)value.data);
    }
}

static void
rescoring_works_on_a_full_set(void)
{
    struct slice value = zset_of(LIMIT_PACKED_ENTRIES, LIMIT_PACKED_BYTES);
    CU_ASSERT_PTR_NOT_NULL_FATAL(value.data);
    for (uint32_t i = 0; i < 64; i++) {
        struct packed zset = packed_zset_open(value);
        struct packed_score pair = { .score = -(double)i,
                                     .member = packed_zset_member(&zset, zset.count - 1),
                                     .tag = packed_word(zset.tags, zset.count - 1) };
        struct packed_zset_plan plan;
        CU_ASSERT_TRUE_FATAL(packed_zset_plan_add(&plan, value, 0, &pair, 1));
        CU_ASSERT_EQUAL_FATAL(plan.updated, 1);
        CU_ASSERT_EQUAL_FATAL(plan.bytes, LIMIT_PACKED_BYTES);
        value = value_write(&plan, value);
    }
    free((void *)value.data);
}

static void
an_absent_member_is_not_found(void)
{
    struct packed none = packed_zset_open(slice_of(NULL, 0));
    CU_ASSERT_EQUAL(packed_zset_find(&none, SLICE_LITERAL("m"), 1), 0);
    struct packed_score pair = { 1, SLICE_LITERAL("member"), 9 };
    struct packed_zset_plan plan;
    CU_ASSERT_TRUE_FATAL(packed_zset_plan_add(&plan, slice_of(NULL, 0), 0, &pair, 1));
    struct slice value = value_write(&plan, slice_of(NULL, 0));
    struct packed zset = packed_zset_open(value);
    CU_ASSERT_EQUAL(packed_zset_find(&zset, SLICE_LITERAL("membe"), 9), zset.count);
    CU_ASSERT_EQUAL(packed_zset_find(&zset, SLICE_LITERAL("member1"), 9), zset.count);
    CU_ASSERT_EQUAL(packed_zset_find(&zset, SLICE_LITERAL(""), 9), zset.count);
    CU_ASSERT_EQUAL(packed_zset_find(&zset, pair.member, 9), 0);
    CU_ASSERT_EQUAL(value.bytes, 2 + 4 + 8 + 6); /* the overhead that the header states */
    free((void *)value.data);
}

static void
member_order_is_bytes_then_length(void)
{
    static const struct {
        struct slice a, b;
        int sign;
    } rows[] = {
        { { NULL, 0 }, { NULL, 0 }, 0 },
        { { NULL, 0 }, SLICE_LITERAL("a"), -1 },
        { SLICE_LITERAL("a"), SLICE_LITERAL("aa"), -1 },
        { SLICE_LITERAL("b"), SLICE_LITERAL("aa"), 1 },
        { SLICE_LITERAL("\x7f"), SLICE_LITERAL("\x80"), -1 },
        { SLICE_LITERAL("a\0"), SLICE_LITERAL("a"), 1 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        int order = packed_member_compare(rows[i].a, rows[i].b);
        CU_ASSERT_EQUAL((order > 0) - (order < 0), rows[i].sign);
    }
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("packed_zset", NULL, NULL);
    CU_ADD_TEST(suite, limits_hold_at_the_edge);
    CU_ADD_TEST(suite, an_absent_member_is_not_found);
    CU_ADD_TEST(suite, member_order_is_bytes_then_length);
    CU_ADD_TEST(suite, rescoring_works_on_a_full_set);
    CU_ADD_TEST(suite, random_commands_agree_with_the_model);
    CU_basic_run_tests();
    return CU_get_number_of_failures() != 0;
}
