/* load.h - what a load consists of: requests encoded once, and where key digits and values are patched in. */
#pragma once
#include "tools/bench/scanner.h"
#include "tools/client/client.h"

#define LOAD_WORDS_MAX   16
#define LOAD_OPS_MAX     16
#define LOAD_PATCHES_MAX 8

/* Words may hold
 *   __key__       12 decimal digits of a key number, uniform in [0, keys); `key:__key__` has 16 bytes
 *   __score__     6 random decimal digits (on SBE, where a score is a number, they stay as they are)
 *   __small__     1 random decimal digit
 *   __data__      value_bytes random letters */
struct load_op {
    char name[24];
    const char *words[LOAD_WORDS_MAX];
    uint32_t word_count;
    enum expected_kind expected;
    uint32_t weight; /* of a mix */
};

/* By redis-benchmark's names, case ignored. NULL: unknown. `fill` is true for the operation that creates the objects
 * which `name` reads: NULL then also means that it needs none. */
const struct load_op *load_op_find(const char *name, bool fill);
/* "ping set get ..." for usage texts. */
void load_op_names(char *text, size_t text_bytes);

enum load_patch_kind { PATCH_KEY, PATCH_SCORE, PATCH_SMALL, PATCH_DATA, PATCH_KIND_COUNT };

struct load_patch {
    enum load_patch_kind kind;
    uint32_t offset, bytes;
};

/* One operation in its wire form. */
struct load_template {
    uint8_t *bytes;
    uint32_t count; /* bytes of it */
    uint32_t patch_count;
    struct load_patch patches[LOAD_PATCHES_MAX];
};

/* Encode on the wire of `client`. False with a sentence in `why`. */
bool load_template_make(struct load_template *template, const struct load_op *op, struct client *client,
                        uint32_t value_bytes, char *why, size_t why_bytes);
void load_template_fini(struct load_template *template);

/* ---- random numbers and digits ---- */

struct load_random {
    uint64_t state;
};

/* Wyrand: 64 bits a call, about 1 ns. */
static inline uint64_t
load_random_next(struct load_random *random)
{
    random->state += 0xa0761d6478bd642full;
    __uint128_t product = (__uint128_t)random->state * (random->state ^ 0xe7037ed1a0b428dbull);
    return (uint64_t)(product >> 64) ^ (uint64_t)product;
}

/* Uniform in [0, n); the bias is below n / 2^64. */
static inline uint64_t
load_random_below(struct load_random *random, uint64_t n)
{
    return (uint64_t)(((__uint128_t)load_random_next(random) * n) >> 64);
}

/* Exactly 12 decimal digits. */
void load_digits(uint8_t out[12], uint64_t number);

#define LOAD_POOL_BYTES 65536

/* Letters to copy values from. */
struct load_pool {
    uint8_t letters[2 * LOAD_POOL_BYTES];
};
void load_pool_fill(struct load_pool *pool, uint64_t seed);

/* Patch one request in place. Values longer than the pool keep their letters. */
void load_patch(uint8_t *request, const struct load_template *template, uint64_t key, struct load_random *random,
                const struct load_pool *pool);
