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
      .weight = 1 },

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
op_encode(const struct load_op *op, struct client *client, uint32_t value_bytes, int marked, char mark, size_t *bytes)
{
    struct slice words[LOAD_WORDS_MAX];
    size_t room = 1024;
    for (uint32_t i = 0; i < op->word_count; i++) {
        words[i] = word_fill(op->words[i], value_bytes, marked, mark);
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
load_template_make(struct load_template *template, const struct load_op *op, struct client *client,
                   uint32_t value_bytes, char *why, size_t why_bytes)
{
    size_t bytes;
    *template = (struct load_template){ .bytes = op_encode(op, client, value_bytes, -1, '1', &bytes) };
    template->count = (uint32_t)bytes;
    bool good = bytes > 0;
    if (!good) {
        snprintf(why, why_bytes, "%s: %s", op->name, client_why(client));
    }
    for (int kind = 0; good && kind < PATCH_KIND_COUNT; kind++) {
        uint8_t *other = op_encode(op, client, value_bytes, kind, '2', &bytes);
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

static const char digit_pairs[201] = "0001020304050607080910111213141516171819"
                                     "2021222324252627282930313233343536373839"
                                     "4041424344454647484950515253545556575859"
                                     "6061626364656667686970717273747576777879"
                                     "8081828384858687888990919293949596979899";

void
load_digits(uint8_t out[12], uint64_t number)
{
    uint32_t low = (uint32_t)(number % 100000000), high = (uint32_t)(number / 100000000 % 10000);
    for (int i = 10; i >= 4; i -= 2) {
        memcpy(out + i, digit_pairs + 2 * (low % 100), 2);
        low /= 100;
    }
    memcpy(out + 2, digit_pairs + 2 * (high % 100), 2);
    memcpy(out, digit_pairs + 2 * (high / 100), 2);
}

void
load_pool_fill(struct load_pool *pool, uint64_t seed)
{
    struct load_random random = { seed };
    for (size_t i = 0; i < sizeof(pool->letters); i++) {
        pool->letters[i] = (uint8_t)('a' + load_random_below(&random, 26));
    }
}

void
load_patch(uint8_t *request, const struct load_template *template, uint64_t key, struct load_random *random,
           const struct load_pool *pool)
{
    for (uint32_t i = 0; i < template->patch_count; i++) {
        const struct load_patch *patch = &template->patches[i];
        uint8_t *at = request + patch->offset, digits[12];
        switch (patch->kind) {
        case PATCH_KEY:
            load_digits(at, key);
            break;
        case PATCH_SCORE:
            load_digits(digits, load_random_below(random, 1000000));
            memcpy(at, digits + 6, 6);
            break;
        case PATCH_SMALL:
            *at = (uint8_t)('0' + load_random_below(random, 10));
            break;
        case PATCH_DATA:
            if (patch->bytes <= LOAD_POOL_BYTES) {
                memcpy(at, pool->letters + load_random_next(random) % LOAD_POOL_BYTES, patch->bytes);
            }
            break;
        case PATCH_KIND_COUNT:
            break;
        }
    }
}
