/* load.c - the tests by name, their wire forms, and what changes from request to request. */
#include "tools/bench/load.h"
#include <strings.h>

/* X(name, expected reply, words...) */
#define LOAD_TABLE(X)                                                                                                  \
    X("ping", EXPECT_PONG, "PING")                                                                                     \
    X("set", EXPECT_OK, "SET", "key:__key__", "__data__")                                                              \
    X("get", EXPECT_VALUE, "GET", "key:__key__")                                                                       \
    X("incr", EXPECT_INTEGER, "INCR", "cnt:__key__")                                                                   \
    X("hset", EXPECT_INTEGER, "HSET", "hsh:__key__", "field:1", "__data__")                                            \
    X("hget", EXPECT_VALUE, "HGET", "hsh:__key__", "field:1")                                                          \
    X("zadd", EXPECT_INTEGER, "ZADD", "zst:__key__", "__score__", "member:1")                                          \
    X("zscore", EXPECT_DOUBLE, "ZSCORE", "zst:__key__", "member:1")                                                    \
    X("zadd128", EXPECT_INTEGER, "ZADD", "z128", "__score__", "member:__small____small__")                             \
    X("sadd", EXPECT_INTEGER, "SADD", "set:__key__", "member:__small__")                                               \
    X("lpush", EXPECT_INTEGER, "LPUSH", "lst:__key__", "__data__")                                                     \
    X("del", EXPECT_INTEGER, "DEL", "key:__key__")                                                                     \
    X("publish", EXPECT_INTEGER, "PUBLISH", "chn:__key__", "__data__")

/* What creates the objects that an operation of the same name reads or updates. */
#define FILL_TABLE(X)                                                                                                  \
    X("set", EXPECT_OK, "SET", "key:__key__", "__data__")                                                              \
    X("get", EXPECT_OK, "SET", "key:__key__", "__data__")                                                              \
    X("incr", EXPECT_OK, "SET", "cnt:__key__", "1000")                                                                 \
    X("hset", EXPECT_INTEGER, "HSET", "hsh:__key__", "field:0", "__data__", "field:1", "__data__", "field:2",          \
      "__data__", "field:3", "__data__")                                                                               \
    X("hget", EXPECT_INTEGER, "HSET", "hsh:__key__", "field:0", "__data__", "field:1", "__data__", "field:2",          \
      "__data__", "field:3", "__data__")                                                                               \
    X("zadd", EXPECT_INTEGER, "ZADD", "zst:__key__", "1", "member:0", "2", "member:1", "3", "member:2", "4",           \
      "member:3")                                                                                                      \
    X("zscore", EXPECT_INTEGER, "ZADD", "zst:__key__", "1", "member:0", "2", "member:1", "3", "member:2", "4",         \
      "member:3")                                                                                                      \
    X("sadd", EXPECT_INTEGER, "SADD", "set:__key__", "member:0", "member:1", "member:2", "member:3")                   \
    X("lpush", EXPECT_INTEGER, "LPUSH", "lst:__key__", "__data__")

#define LOAD_ROW(op, kind, ...)                                                                                        \
    { .name = op,                                                                                                      \
      .words = { __VA_ARGS__ },                                                                                        \
      .word_count = sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *),                                          \
      .expected = kind,                                                                                                \
      .weight = 1,                                                                                                     \
      .value_bytes = LOAD_VALUE_BYTES },

#define LOAD_VALUE_BYTES 32

static const struct load_op load_ops[] = { LOAD_TABLE(LOAD_ROW) };
static const struct load_op fill_ops[] = { FILL_TABLE(LOAD_ROW) };

const struct load_op *
load_op_find(const char *name, bool fill)
{
    const struct load_op *ops = fill ? fill_ops : load_ops;
    size_t count = fill ? ARRAY_COUNT(fill_ops) : ARRAY_COUNT(load_ops);
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(name, ops[i].name) == 0) {
            return &ops[i];
        }
    }
    return NULL;
}

void
load_op_names(char *text, size_t text_bytes)
{
    size_t used = 0;
    for (size_t i = 0; i < ARRAY_COUNT(load_ops) && used < text_bytes; i++) {
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%s", i > 0 ? " " : "", load_ops[i].name);
    }
}

static const struct {
    const char *name;
    uint32_t bytes; /* 0: value_bytes */
} patch_kinds[PATCH_KIND_COUNT] = {
    [PATCH_KEY] = { "__key__", 12 },
    [PATCH_SCORE] = { "__score__", 6 },
    [PATCH_SMALL] = { "__small__", 1 },
    [PATCH_DATA] = { "__data__", 0 },
};

/* The word with every placeholder filled with digits: those of kind `marked` with `mark`, the others with '1'. */
static struct slice
word_fill(const char *word, uint32_t value_bytes, int marked, char mark)
{
    size_t room = strlen(word) + 16, bytes = 0;
    for (const char *at = word; (at = strstr(at, "__data__")) != NULL; at++) {
        room += value_bytes;
    }
    room += 12 * strlen(word);
    uint8_t *out = malloc(room);
    CHECK(out != NULL);
    while (*word != '\0') {
        int kind = 0;
        while (kind < PATCH_KIND_COUNT && strncmp(word, patch_kinds[kind].name, strlen(patch_kinds[kind].name)) != 0) {
            kind++;
        }
        if (kind == PATCH_KIND_COUNT) {
            out[bytes++] = (uint8_t)*word++;
            continue;
        }
        uint32_t fill = kind == PATCH_DATA ? value_bytes : patch_kinds[kind].bytes;
        memset(out + bytes, kind == marked ? mark : '1', fill);
        bytes += fill;
        word += strlen(patch_kinds[kind].name);
    }
    return slice_of(out, bytes);
}

/* The wire form with one kind of placeholder filled with `mark`; *bytes 0: it cannot be encoded. */
static uint8_t *
op_encode(const struct load_op *op, struct client *client, int marked, char mark, size_t *bytes)
{
    struct slice words[LOAD_WORDS_MAX];
    size_t room = 1024;
    for (uint32_t i = 0; i < op->word_count; i++) {
        words[i] = word_fill(op->words[i], op->value_bytes, marked, mark);
        room += words[i].bytes + 64;
    }
    uint8_t *out = malloc(room);
    CHECK(out != NULL);
    *bytes = client_encode(client, words, op->word_count, 7, out, room);
    for (uint32_t i = 0; i < op->word_count; i++) {
        free((void *)words[i].data);
    }
    return out;
}

/* Where two encodings differ, '2' for '1', there the placeholder is. Digits that a wire turned into a number differ in
 * another way and stay as they are. */
static bool
patches_find(struct load_template *template, enum load_patch_kind kind, const uint8_t *other)
{
    for (uint32_t at = 0; at < template->count; at++) {
        if (template->bytes[at] != '1' || other[at] != '2') {
            continue;
        }
        uint32_t begin = at;
        while (at < template->count && template->bytes[at] == '1' && other[at] == '2') {
            at++;
        }
        uint32_t each = patch_kinds[kind].bytes != 0 ? patch_kinds[kind].bytes : at - begin;
        if ((at - begin) % each != 0) {
            continue;
        }
        for (; begin < at; begin += each) {
            if (template->patch_count == LOAD_PATCHES_MAX) {
                return false;
            }
            template->patches[template->patch_count++] = (struct load_patch){ kind, begin, each };
        }
    }
    return true;
}

bool
load_template_make(struct load_template *template, const struct load_op *op, struct client *client, char *why,
                   size_t why_bytes)
{
    size_t bytes;
    *template = (struct load_template){ .bytes = op_encode(op, client, -1, '1', &bytes) };
    template->count = (uint32_t)bytes;
    bool good = bytes > 0;
    if (!good) {
        snprintf(why, why_bytes, "%s: %s", op->name, client_why(client));
    }
    for (int kind = 0; good && kind < PATCH_KIND_COUNT; kind++) {
        uint8_t *other = op_encode(op, client, kind, '2', &bytes);
        good = bytes == template->count && patches_find(template, (enum load_patch_kind)kind, other);
        free(other);
        if (!good) {
            snprintf(why, why_bytes, "%s: more than %d placeholders", op->name, LOAD_PATCHES_MAX);
        }
    }
    if (!good) {
        load_template_fini(template);
    }
    return good;
}

void
load_template_fini(struct load_template *template)
{
    free(template->bytes);
    *template = (struct load_template){ 0 };
}

uint32_t
load_schedule(const struct load_op *ops, uint32_t op_count, uint8_t schedule[SCANNER_SCHEDULE_MAX])
{
    uint32_t total = 0, count;
    int64_t credit[LOAD_OPS_MAX] = { 0 };
    for (uint32_t i = 0; i < op_count; i++) {
        total += ops[i].weight;
    }
    count = MIN(total, (uint32_t)SCANNER_SCHEDULE_MAX);
    for (uint32_t slot = 0; slot < count; slot++) {
        uint32_t best = 0;
        for (uint32_t i = 0; i < op_count; i++) {
            credit[i] += ops[i].weight;
            best = credit[i] > credit[best] ? i : best;
        }
        credit[best] -= total;
        schedule[slot] = (uint8_t)best;
    }
    return count;
}

/* ---- a load ---- */

/* Key numbers below this have four leading zeros, which stay as they are. */
#define NARROW_KEYS 100000000

struct load *
load_open(const struct load_plan *plan, struct client *client, char *why, size_t why_bytes)
{
    struct load *load = calloc(1, sizeof(*load));
    CHECK(load != NULL && plan->op_count <= LOAD_OPS_MAX && plan->keys > 0 && plan->keys <= LOAD_KEYS_MAX);
    load->plan = *plan;
    load->wide = plan->keys > NARROW_KEYS;
    load->schedule_count = load_schedule(plan->ops, plan->op_count, load->schedule);
    struct load_random random = { plan->seed };
    for (size_t i = 0; i < sizeof(load->letters); i++) {
        load->letters[i] = (uint8_t)('a' + load_random_below(&random, 26));
    }
    for (uint32_t i = 0; i < plan->op_count; i++) {
        struct load_template *template = &load->templates[i];
        if (!load_template_make(template, &plan->ops[i], client, why, why_bytes)) {
            load_close(load);
            return NULL;
        }
        for (uint32_t j = 0; j < template->patch_count; j++) {
            if (template->patches[j].kind == PATCH_KEY) {
                memset(template->bytes + template->patches[j].offset, '0', template->patches[j].bytes);
            }
        }
        template->only_key = !load->wide && template->patch_count == 1 && template->patches[0].kind == PATCH_KEY;
    }
    return load;
}

void
load_close(struct load *load)
{
    for (uint32_t i = 0; load != NULL && i < load->plan.op_count; i++) {
        load_template_fini(&load->templates[i]);
    }
    free(load);
}

/* Eight decimal digits of a number below 10^8, the first one in the lowest byte: halved into groups of four, two and
 * one digits that lie side by side in a word, each division a multiplication of all groups at once. */
static inline uint64_t
digits8(uint32_t number)
{
    uint64_t fours = number / 10000 | (uint64_t)(number % 10000) << 32;
    uint64_t hundreds = (fours * 10486 >> 20) & 0x0000007f0000007full;
    uint64_t twos = hundreds | (fours - hundreds * 100) << 16;
    uint64_t tens = (twos * 103 >> 10) & 0x000f000f000f000full;
    return (tens | (twos - tens * 10) << 8) + 0x3030303030303030ull;
}

void
load_digits(uint8_t out[12], uint64_t number)
{
    uint64_t low = digits8((uint32_t)(number % NARROW_KEYS));
    uint64_t high = digits8((uint32_t)(number / NARROW_KEYS % 10000)) >> 32;
    memcpy(out, &high, 4);
    memcpy(out + 4, &low, 8);
}

static inline uint64_t
key_draw(const struct load *load, struct load_state *state)
{
    const struct load_plan *plan = &load->plan;
    if (plan->in_order) {
        return state->key++ % plan->keys;
    }
    if (plan->zipf != NULL) {
        return zipf_key(plan->zipf, zipf_rank(plan->zipf, &state->random));
    }
    return load_random_below(&state->random, plan->keys);
}

/* The first four of twelve digits are 0 and stand there. */
static inline void
key_patch_narrow(uint8_t *at, uint64_t key)
{
    uint64_t digits = digits8((uint32_t)key);
    memcpy(at + 4, &digits, sizeof(digits));
}

static void
patches_apply(const struct load *load, struct load_state *state, const struct load_template *template, uint64_t key,
              uint8_t *request)
{
    for (uint32_t i = 0; i < template->patch_count; i++) {
        const struct load_patch *patch = &template->patches[i];
        uint8_t *at = request + patch->offset;
        uint64_t digits;
        switch (patch->kind) {
        case PATCH_KEY:
            if (load->wide) {
                load_digits(at, key);
            } else {
                key_patch_narrow(at, key);
            }
            break;
        case PATCH_SCORE:
            digits = digits8((uint32_t)load_random_below(&state->random, 1000000)) >> 16;
            memcpy(at, &digits, 6);
            break;
        case PATCH_SMALL:
            *at = (uint8_t)('0' + load_random_below(&state->random, 10));
            break;
        case PATCH_DATA:
            if (patch->bytes <= LOAD_POOL_BYTES) {
                bytes_copy(at, load->letters + load_random_next(&state->random) % LOAD_POOL_BYTES, patch->bytes);
            }
            break;
        case PATCH_KIND_COUNT:
            break;
        }
    }
}

void
load_patch(const struct load *load, struct load_state *state, uint32_t op, uint8_t *request)
{
    const struct load_template *template = &load->templates[op];
    uint64_t key = key_draw(load, state);
    if (LIKELY(template->only_key)) {
        key_patch_narrow(request + template->patches[0].offset, key);
    } else {
        patches_apply(load, state, template, key, request);
    }
}
